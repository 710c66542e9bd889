"""Between a conclusion and the text of an answer: options, labels, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option
from napari_ctvqa.core.rules import (
    Conclusion,
    Rule,
    label_words,
    labels_of,
    measure_named,
    phrase,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.core.targets import Understood

_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
_OPPOSITE = {"yes": "no", "no": "yes", "left": "right", "right": "left", "same": "same"}
_FIRST = re.compile(r"\W*(yes|no)\b")


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
    if understood.negated or (understood.smaller and conclusion.label in ("left", "right")):
        return replace(conclusion, label=_OPPOSITE[conclusion.label])
    return conclusion


def answer_for(
    conclusion: Conclusion, rule: Rule, question: Question, answer_format: AnswerFormat
) -> Answer:
    """Return a bare letter (mc), or a number, yes/no or option label (free form)."""
    if answer_format is AnswerFormat.MC and question.options:
        return _letter_for(conclusion, rule, question.options)
    if conclusion.label:
        option = option_meaning(conclusion.label, rule, question.options)
        binary = rule.answer_type is AnswerType.BINARY
        return Answer(option.text if option and not binary else phrase(conclusion.label))
    assert conclusion.value is not None
    return Answer(number_text(conclusion.value, rule.decimals))


def number_text(value: float, decimals: int) -> str:
    """Return a number as the benchmarks write it: fixed decimals, no separators, no unit."""
    return f"{value:.{decimals}f}"


def with_unit(number: str, unit: str) -> str:
    """Return a number with its unit for people: ``"156.6 cm³"``, ``"1 lesion"``."""
    return f"{number} {'lesion' if (number, unit) == ('1', 'lesions') else unit}".strip()


def _letter_for(conclusion: Conclusion, rule: Rule, options: Sequence[Option]) -> Answer:
    if conclusion.label:
        option = option_meaning(conclusion.label, rule, options)
        if option is not None:
            return Answer(option.letter)
        return Answer(problem=f"no option means {phrase(conclusion.label)!r}")
    assert conclusion.value is not None
    numbers = [(option, number_in(option.text)) for option in options]
    read = [(option, number) for option, number in numbers if number is not None]
    if not read:
        return Answer(problem="no option holds a number")
    wanted = number_text(conclusion.value, rule.decimals)
    best, number = min(read, key=lambda pair: abs(pair[1] - float(wanted)))
    unit = measure_named(rule.measure).unit
    if abs(number - float(wanted)) < 0.5 * 10.0**-rule.decimals:
        return Answer(best.letter)
    return Answer(
        best.letter,
        note=f"no option equals {wanted} {unit}: {best.letter} ({best.text}) is the nearest",
    )


def option_meaning(label: str, rule: Rule, options: Sequence[Option]) -> Option | None:
    """Return the one option that means a label; None for none or several."""
    found = [option for option in options if label_in(option.text, rule) == label]
    return found[0] if len(found) == 1 else None


def label_in(text: str, rule: Rule) -> str:
    """Return the label of the rule that a text means; empty for none or several.

    The label with the longest matching phrase wins ("not enlarged" over "enlarged"); a text that
    begins with yes or no means that where the rule knows them.
    """
    lowered = " ".join(re.findall(r"[a-z0-9]+", text.casefold()))
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
