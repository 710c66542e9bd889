"""What is wrong with a question itself: asked twice, options that repeat, no right option."""

from __future__ import annotations

import re
import weakref
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from napari_ctvqa.core.answers import (
    answer_phrase,
    label_in,
    number_in,
    number_text,
    with_unit,
)
from napari_ctvqa.core.understanding import Understood

if TYPE_CHECKING:
    from napari_ctvqa.core.conclusions import Conclusion
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Option, Question
    from napari_ctvqa.core.rules import Rule

_LISTED = 5
_NOTHING = Understood()
_NUMBER_ONLY = re.compile(r"\s*-?\d[\d,]*(?:\.\d+)?\s*\D{0,12}")
_duplicates_of: weakref.WeakKeyDictionary[QuestionSet, Mapping[int, tuple[int, ...]]] = (
    weakref.WeakKeyDictionary()
)


# ------------------------------------------------------------------------------- duplicates


def duplicates(questions: QuestionSet) -> Mapping[int, tuple[int, ...]]:
    """Map each row that is asked more than once to the other rows of its case that ask the same.

    The same is the same subtype and the same words; case, blanks and punctuation do not count.
    Worked out once for a QuestionSet.
    """
    found = _duplicates_of.get(questions)
    if found is None:
        found = _duplicates_of[questions] = _find_duplicates(questions)
    return found


def _find_duplicates(questions: QuestionSet) -> Mapping[int, tuple[int, ...]]:
    frame = questions.frame
    rows_of: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    columns = (frame[name].tolist() for name in ("case", "subtype", "text"))
    for row, (case, subtype, text) in enumerate(zip(*columns, strict=True)):
        rows_of[case, subtype, said(text)].append(row)
    return {
        row: tuple(other for other in rows if other != row)
        for rows in rows_of.values()
        if len(rows) > 1
        for row in rows
    }


def said(text: str) -> str:
    """Return the words and numbers of a text, by which two texts are the same."""
    return " ".join(re.findall(r"[^\W_]+(?:[.,]\d+)*", text.casefold()))


def duplicate_flag(questions: QuestionSet, row: int, others: Sequence[int]) -> str:
    """Return the sentence that names the questions asking the same, empty for none."""
    if not others:
        return ""
    ids = [str(questions.frame["id"].iat[other]) for other in others]
    listed = ", ".join(ids[:_LISTED]) + (f" and {len(ids) - _LISTED} more" * (len(ids) > _LISTED))
    stated = said(_stated(questions[row]))
    unlike = [
        i for i, other in zip(ids, others, strict=True) if said(_stated(questions[other])) != stated
    ]
    if not unlike:
        return f"asked more than once in this case: also {listed}"
    return (
        f"asked more than once in this case, with another reference: {', '.join(unlike[:_LISTED])}"
    )


# ---------------------------------------------------------------------------------- options


def _stated(question: Question) -> str:
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
        return number_in(option) != number_in(answer)
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
    numbers = {o.letter: number_in(o.text) for o in question.options}
    read = {letter: number for letter, number in numbers.items() if number is not None}
    if value is None or not read:
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
