"""Between a conclusion and the text of an answer: options, labels, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.conclusions import Conclusion, Value, conclude
from napari_ctvqa.core.meanings import direction_in, plain_label, turned
from napari_ctvqa.core.quantities import choose
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option
from napari_ctvqa.core.rules import Rule, Variant, label_words, phrase
from napari_ctvqa.core.understanding import Understood, organs_in_order, parts_in

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

_OPPOSITE = {"yes": "no", "no": "yes", "left": "right", "right": "left", "same": "same"}
_WORDS = re.compile(r"[a-z0-9]+")
_DENIED = re.compile(r"\b(?:not|no(?! difference)|never)\b")
_TURNING = re.compile(r"\b(?:not|no|none|neither|nor|never|without|except|other|but)\b")
_NOTHING = Understood()


@dataclass(frozen=True, slots=True)
class Answer:
    """The text to give, officially parseable, and what a person should know about it.

    ``problem`` says why there is no text.
    """

    text: str = ""
    note: str = ""
    problem: str = ""


def as_asked(conclusion: Conclusion, understood: Understood) -> Conclusion:
    """Return the conclusion as the question asks for it: absent instead of present, smaller."""
    label = conclusion.label
    if understood.negated:
        return replace(conclusion, label=_OPPOSITE[label])
    if understood.smaller and label in ("left", "right"):
        return replace(conclusion, label=_OPPOSITE[label])
    if understood.smaller and label in understood.answers:
        others = [answer for answer in understood.answers if answer != label]
        if len(others) == 1:
            return replace(conclusion, label=others[0])
        problem = "the rule names the largest of several, the question asks for the smallest"
        return replace(conclusion, label="", problem=problem)
    return conclusion


def concluded(
    rule: Rule, variant: Variant, values: Sequence[Value], understood: Understood
) -> Conclusion:
    """Draw the conclusion of a rule's variant, put as the question asks for it."""
    subjects = understood.answers or (understood.organ,)
    return as_asked(conclude(rule, values, variant, subjects), understood)


def answer_for(
    conclusion: Conclusion,
    rule: Rule,
    question: Question,
    answer_format: AnswerFormat,
    understood: Understood = _NOTHING,
) -> Answer:
    """Return a bare letter (mc), or a number, yes/no or option label (free form)."""
    if conclusion.problem:
        return Answer(problem=conclusion.problem)
    if answer_format is AnswerFormat.MC and question.options:
        return _letter_for(conclusion, rule, question.options, understood)
    if conclusion.label:
        option = option_meaning(conclusion.label, rule, question.options, understood)
        binary = rule.answer_type is AnswerType.BINARY
        if understood.by_name and (binary or option is None):
            return Answer(problem="it asks for the state by name, which is not understood")
        words = answer_phrase(conclusion.label, rule)
        return Answer(option.text if option and not binary else words)
    if conclusion.value is None:
        return Answer(problem="the rule gives no number")
    return Answer(number_text(conclusion.value, conclusion.decimals))


def answer_phrase(label: str, rule: Rule) -> str:
    """Return how a label is written in an answer; structures by their labels."""
    if rule.labels_are_structures and label != "same":
        return ", ".join(names.label(structure) for structure in label.split("+"))
    return phrase(label)


def number_text(value: float, decimals: int) -> str:
    """Return a number as the benchmarks write it: fixed decimals, no separators, no unit."""
    return f"{value:.{decimals}f}"


def with_unit(number: str, unit: str) -> str:
    """Return a number with its unit for people: ``"156.6 cm³"``, ``"1 lesion"``."""
    return f"{number} {'lesion' if (number, unit) == ('1', 'lesions') else unit}".strip()


def _letter_for(
    conclusion: Conclusion, rule: Rule, options: Sequence[Option], understood: Understood
) -> Answer:
    if conclusion.label:
        option = option_meaning(conclusion.label, rule, options, understood)
        if option is not None:
            return Answer(option.letter)
        return Answer(problem=f"no option means {answer_phrase(conclusion.label, rule)!r}")
    if conclusion.value is None:
        return Answer(problem="the rule gives no number")
    shown = with_unit(number_text(conclusion.value, conclusion.decimals), conclusion.unit)
    allowed = rule.allowed(conclusion.value, conclusion.decimals)
    chosen = choose(conclusion.value, shown, conclusion.unit, options, allowed)
    return Answer(chosen.letter, chosen.note, chosen.problem)


def option_meaning(
    label: str, rule: Rule, options: Sequence[Option], understood: Understood = _NOTHING
) -> Option | None:
    """Return the one option that means a label; None for none or several."""
    found = [o for o in options if label_in(o.text, rule, understood) == label]
    return found[0] if len(found) == 1 else None


def label_in(text: str, rule: Rule, understood: Understood = _NOTHING) -> str:
    """Return the label of the rule that a text means, as the question asks; empty if not plain.

    Where answers are structures, those of the question are looked for.
    """
    if rule.labels_are_structures:
        return _structures_label(text, rule, understood)
    return plain_label(
        text,
        rule,
        negated=understood.negated,
        smaller=understood.smaller,
        by_name=understood.by_name,
    )


def _structures_label(text: str, rule: Rule, understood: Understood) -> str:
    """Return the structures that a text names, of those that can be the answer, joined by +."""
    possible = understood.answers
    comparing = rule.how == "compare"
    organ = names.organ_of(possible[0]) if possible else ""
    subject = text.partition(" than ")[0] if comparing else text
    named = parts_in(subject, organ) if organ else organs_in_order(subject)
    found = [structure for structure in possible if structure in named]
    lowered = " ".join(_WORDS.findall(text.casefold()))
    if not comparing:
        return "+".join(found) if len(named) == len(found) and not _TURNING.search(lowered) else ""
    if _longest("same", lowered):
        return "same" if not _DENIED.search(lowered) and len(found) != 1 else ""
    if len(found) != 1 or _TURNING.search(lowered):
        return ""
    return turned(
        found[0],
        direction_in(text),
        possible,
        smaller=understood.smaller,
        by_name=understood.by_name,
    )


def _longest(label: str, text: str) -> int:
    """Return the length of the longest phrase of a label that stands in a text as words."""
    found = (words for words in label_words(label) if re.search(rf"\b{re.escape(words)}\b", text))
    return max((len(words) for words in found), default=0)
