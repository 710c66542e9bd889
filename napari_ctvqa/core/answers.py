"""Between a conclusion and the text of an answer: options, labels, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.conclusions import Conclusion, Value, conclude, labels_of
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option
from napari_ctvqa.core.rules import Rule, Variant, label_words, phrase
from napari_ctvqa.core.understanding import Understood, organs_in_order, parts_in

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
_OPPOSITE = {"yes": "no", "no": "yes", "left": "right", "right": "left", "same": "same"}
_FIRST = re.compile(r"\W*(yes|no)\b")
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
    if understood.smaller and label in understood.answers and len(understood.answers) == 2:
        other = next(answer for answer in understood.answers if answer != label)
        return replace(conclusion, label=other)
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
    numbers = [(option, number_in(option.text)) for option in options]
    read = [(option, number) for option, number in numbers if number is not None]
    if not read:
        return Answer(problem="no option holds a number")
    wanted = number_text(conclusion.value, conclusion.decimals)
    best, number = min(read, key=lambda pair: abs(pair[1] - float(wanted)))
    unit = conclusion.unit
    if abs(number - float(wanted)) < 0.5 * 10.0**-conclusion.decimals:
        return Answer(best.letter)
    nearest = f"{best.letter} ({best.text}) is the nearest"
    return Answer(best.letter, note=f"no option equals {with_unit(wanted, unit)}: {nearest}")


def option_meaning(
    label: str, rule: Rule, options: Sequence[Option], understood: Understood = _NOTHING
) -> Option | None:
    """Return the one option that means a label; None for none or several."""
    found = [o for o in options if label_in(o.text, rule, understood) == label]
    return found[0] if len(found) == 1 else None


def label_in(text: str, rule: Rule, understood: Understood = _NOTHING) -> str:
    """Return the label of the rule that a text means; empty for none or several.

    The label with the longest matching phrase wins ("not enlarged" over "enlarged"); a text that
    begins with yes or no means that where the rule knows them. Where answers are structures, those
    of the question are looked for.
    """
    lowered = " ".join(re.findall(r"[a-z0-9]+", text.casefold()))
    if rule.labels_are_structures:
        return _structures_label(text, lowered, rule, understood)
    labels = labels_of(rule)
    begins = _FIRST.match(lowered)
    if begins and begins[1] in labels:
        return begins[1]
    if "same" in labels:
        return _side_in(lowered)
    lengths = {label: _longest(label, lowered) for label in labels}
    best = max(lengths.values(), default=0)
    winners = [label for label, length in lengths.items() if length == best]
    return winners[0] if best and len(winners) == 1 else ""


def _structures_label(text: str, lowered: str, rule: Rule, understood: Understood) -> str:
    """Return the structures that a text names, of those that can be the answer, joined by +."""
    possible = understood.answers
    comparing = rule.how == "compare"
    organ = names.organ_of(possible[0]) if possible else ""
    named = parts_in(text, organ) if organ else organs_in_order(text)
    found = [structure for structure in possible if structure in named]
    if comparing:
        if len(found) == 1:
            return found[0]
        return "same" if _longest("same", lowered) else ""
    if len(named) > len(found):
        return ""
    return "+".join(found)


def _longest(label: str, text: str) -> int:
    """Return the length of the longest phrase of a label that stands in a text as words."""
    found = (words for words in label_words(label) if re.search(rf"\b{re.escape(words)}\b", text))
    return max((len(words) for words in found), default=0)


def _side_in(text: str) -> str:
    """Return left, right or same as a text means it; a text with both sides means neither."""
    if _longest("same", text):
        return "same"
    sides = [side for side in ("left", "right") if _longest(side, text)]
    return sides[0] if len(sides) == 1 else ""


def number_in(text: str) -> float | None:
    """Return the first number of a text, thousands separators understood; None without one."""
    found = _NUMBER.search(text)
    return float(found[0].replace(",", "")) if found else None
