"""What is wrong with a question itself: asked twice, options that repeat, no right option."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.answers import (
    answer_phrase,
    label_in,
    number_text,
    with_unit,
)
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.quantities import quantity_in, value_in
from napari_ctvqa.core.understanding import Understood

if TYPE_CHECKING:
    from napari_ctvqa.core.conclusions import Conclusion
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Option, Question
    from napari_ctvqa.core.rules import Rule

_LISTED = 5
_NOTHING = Understood()
_NUMBER_ONLY = re.compile(r"\s*-?\d[\d,]*(?:\.\d+)?\s*\D{0,12}")


# ------------------------------------------------------------------------------- duplicates


def asked_twice(questions: QuestionSet, row: int) -> Mapping[int, tuple[int, ...]]:
    """Map the rows of a row's case that ask the same as others to those others.

    The same is the same subtype and the same words; case, blanks and punctuation do not count.
    """
    frame = questions.frame
    same_case = np.flatnonzero((frame["case"] == frame["case"].iat[row]).to_numpy())
    rows_of: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for other in same_case.tolist():
        key = (str(frame["subtype"].iat[other]), said(str(frame["text"].iat[other])))
        rows_of[key].append(other)
    return {
        one: tuple(other for other in rows if other != one)
        for rows in rows_of.values()
        if len(rows) > 1
        for one in rows
    }


def said(text: str) -> str:
    """Return the words and numbers of a text, by which two texts are the same."""
    return " ".join(re.findall(r"[^\W_]+(?:[.,]\d+)*", text.casefold()))


def duplicate_flag(questions: QuestionSet, row: int, others: Sequence[int]) -> str:
    """Return the sentence that names the questions asking the same, empty for none."""
    if not others:
        return ""
    ids = [str(questions.frame["id"].iat[other]) for other in others]
    stated = _stated_of(questions, row)
    unlike = [
        key
        for key, other in zip(ids, others, strict=True)
        if _stated_of(questions, other) != stated
    ]
    if unlike:
        return f"asked more than once in this case, with another reference: {_listed(unlike)}"
    return f"asked more than once in this case: also {_listed(ids)}"


def _listed(ids: Sequence[str]) -> str:
    more = len(ids) - _LISTED
    return ", ".join(ids[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _stated_of(questions: QuestionSet, row: int) -> str:
    """Return the words of a stated reference, empty for a record that cannot be read."""
    try:
        return said(stated_text(questions[row]))
    except CtvqaError:
        return ""


# ---------------------------------------------------------------------------------- options


def stated_text(question: Question) -> str:
    """Return the stated reference as text: the right option's, else the free-form answer."""
    option = _lettered(question)
    return option.text if option is not None else question.reference.text


def _lettered(question: Question) -> Option | None:
    letter = question.reference.letter.strip().upper()
    return next((o for o in question.options if letter and o.letter.upper() == letter), None)


def record_flags(question: Question) -> tuple[str, ...]:
    """Return what is wrong with options and reference by the record alone; no mask is needed."""
    flags = []
    by_text: defaultdict[str, list[str]] = defaultdict(list)
    for option in question.options:
        by_text[said(option.text)].append(option.letter)
    for letters in by_text.values():
        if len(letters) > 1:
            flags.append(f"options {' and '.join(letters)} say the same")
    letter, text = question.reference.letter.strip(), question.reference.text.strip()
    right = _lettered(question)
    if letter and question.options and right is None:
        flags.append(f"the right option is {letter[:20]!r}, which is none of the options")
    if right is not None and text and text.upper() != letter.upper() and _unlike(right.text, text):
        flags.append(
            f"the right option {right.letter} says {right.text[:60]!r}, the answer {text[:60]!r}"
        )
    return tuple(flags)


def _unlike(option: str, answer: str) -> bool:
    """Return whether an option and the free-form answer plainly say different things."""
    both = (option, answer)
    if all(_NUMBER_ONLY.fullmatch(text) for text in both):
        return value_in(option, "") != value_in(answer, "")
    words = [said(text) for text in both]
    return bool(words[0] and words[1]) and words[0] not in words[1] and words[1] not in words[0]


def option_flags(
    conclusion: Conclusion,
    rule: Rule,
    question: Question,
    understood: Understood = _NOTHING,
) -> tuple[str, ...]:
    """Return whether the options hold the recomputed value twice, or not at all.

    Options that cannot be read as values of the rule are not judged.
    """
    if conclusion.label:
        meant = {o.letter: label_in(o.text, rule, understood) for o in question.options}
        holding = [letter for letter, label in meant.items() if label == conclusion.label]
        return _flagged(holding, any(meant.values()), answer_phrase(conclusion.label, rule))
    value = conclusion.value
    amounts = {o.letter: quantity_in(o.text, conclusion.unit) for o in question.options}
    known = [amount for amount in amounts.values() if amount is not None]
    read = {key: amount.low for key, amount in amounts.items() if amount and amount.is_number}
    if value is None or len(read) != len(known) or not read:
        return ()
    nearest = min(read.values(), key=lambda number: abs(number - value))
    half: float = 0.5 * 10.0**-conclusion.decimals
    shown = with_unit(number_text(value, conclusion.decimals), conclusion.unit)
    if abs(nearest - value) > rule.allowed(nearest, conclusion.decimals):
        return _flagged([], True, shown)
    return _flagged([key for key, n in read.items() if abs(n - nearest) < half], True, shown)


def _flagged(holding: Sequence[str], readable: bool, shown: str) -> tuple[str, ...]:
    if not holding:
        return (f"no option holds the recomputed value {shown}",) if readable else ()
    if len(holding) > 1:
        return (f"options {' and '.join(holding)} both hold the recomputed value {shown}",)
    return ()
