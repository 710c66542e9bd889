"""What several scorers share: options out of a text, outcomes, which readings differ."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from napari_ctvqa.core.reading import normalise, read_letter, read_number, read_yes_no, refuses
from napari_ctvqa.core.records import AnswerType, Option, Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.core.records import Question, Score

RIGHT_WITHIN = 0.10
"""A measured value counts as right within 10 % of the reference; a count must be equal."""

TEXT_SCORES = ("Official scorer", "As a person reads it")
"""Titles of the two scores, where a benchmark names no others in ``score_titles``."""

_LONGEST_QUESTION = 50_000
_MARKS = (r"\b([A-Z])\s?:", r"\(([A-Z])\)", r"\b([A-Z])\)", r"\b([A-Z])\.(?=\s)")


def parse_options(text: str) -> tuple[str, tuple[Option, ...]]:
    """Split a question with inline options (``… A: … B: …``) into its stem and its options.

    The options are the longest run of marked letters that starts at A and misses none; with fewer
    than two the text is returned whole, without options.
    """
    for mark in _MARKS if len(text) <= _LONGEST_QUESTION else ():
        run = _longest_run([(m[1], m.start(), m.end()) for m in re.finditer(mark, text)])
        if len(run) >= 2:
            ends = [start for _, start, _ in run[1:]] + [len(text)]
            options = tuple(
                Option(letter, text[begin:end].strip().rstrip(",;").rstrip())
                for (letter, _, begin), end in zip(run, ends, strict=True)
            )
            return text[: run[0][1]].strip(), options
    return text.strip(), ()


def _longest_run(marks: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    best: list[tuple[str, int, int]] = []
    for first, mark in enumerate(marks):
        if mark[0] != "A":
            continue
        run = [mark]
        for later in marks[first + 1 :]:
            if later[0] == chr(ord("A") + len(run)):
                run.append(later)
        if len(run) >= len(best):
            best = run
    return best


def close_enough(value: float, reference: float, *, exact: bool = False) -> bool:
    """Return whether a number counts as right: equal, or within RIGHT_WITHIN when measured."""
    if not (math.isfinite(value) and math.isfinite(reference)):
        return False
    if exact or reference == 0:
        return value == reference
    return abs(value - reference) <= RIGHT_WITHIN * abs(reference) * (1 + 1e-12)


def read_answer(
    question: Question, text: str, *, choice: bool, unit: str = "", counting: bool = False
) -> tuple[Outcome, Reading]:
    """Return how a careful human reads a text, and whether that is right.

    ``choice`` asks for a letter (multiple choice); else the answer type of the question decides.
    A reference that cannot be read as its type says is compared as text.
    """
    if text.lstrip().startswith("[ERROR]"):
        return Outcome.UNREAD, Reading("", "the run failed")
    if choice:
        return _choice(question, text)
    kind = question.answer_type
    if kind is AnswerType.NUMERIC:
        return _numeric(question, text, unit, counting)
    if kind is AnswerType.BINARY:
        wanted = read_yes_no(question.reference.text).value
        if wanted:
            return _compared(read_yes_no(text, question.text), wanted)
    return _phrase(question, text)


def _compared(reading: Reading, wanted: str) -> tuple[Outcome, Reading]:
    if not reading.value:
        return Outcome.UNREAD, reading
    if not wanted:
        return Outcome.UNSCORED, reading
    return (Outcome.RIGHT if reading.value == wanted else Outcome.WRONG), reading


def _choice(question: Question, text: str) -> tuple[Outcome, Reading]:
    reading = read_letter(text, question.options, question.text)
    return _compared(reading, question.reference.letter)


def _numeric(question: Question, text: str, unit: str, counting: bool) -> tuple[Outcome, Reading]:
    reading = read_number(text, unit, counting=counting)
    wanted = read_number(question.reference.text, unit, counting=counting).value
    if not wanted:
        return Outcome.UNSCORED, reading
    if not reading.value:
        return Outcome.UNREAD, reading
    right = close_enough(float(reading.value), float(wanted), exact=counting)
    return (Outcome.RIGHT if right else Outcome.WRONG), reading


def _phrase(question: Question, text: str) -> tuple[Outcome, Reading]:
    said, wanted = normalise(text), normalise(question.reference.text)
    if not said:
        return Outcome.UNREAD, Reading("", "no text")
    if not wanted:
        return Outcome.UNSCORED, Reading(said, "the text")
    if said == wanted:
        return Outcome.RIGHT, Reading(said, "the reference's text")
    if question.options and question.reference.letter:
        reading = read_letter(text, question.options, question.text)
        if reading.value:
            texts = {option.letter: option.text for option in question.options}
            outcome, _ = _compared(reading, question.reference.letter)
            return outcome, Reading(normalise(texts[reading.value]), reading.how)
    if refuses(text):
        return Outcome.UNREAD, Reading("", "says that it cannot answer")
    reading = read_letter(text, (Option("X", question.reference.text),))
    if reading.value == "X":
        return Outcome.RIGHT, Reading(wanted, "names the reference's text")
    return Outcome.WRONG, Reading(said, "the text")


def failures(scores: Mapping[str, Score]) -> dict[str, int]:
    """Return how many answers failed, and how many of them the official scorer gives credit to."""
    failed = [score for score in scores.values() if score.failed]
    return {
        "failed": len(failed),
        "officially_credited": sum(score.counted_though_failed for score in failed),
    }


def disagreeing(scores: Mapping[str, Score], order: Sequence[str]) -> list[str]:
    """Return the ids, in the given order, whose official and own reading differ."""
    return [key for key in order if key in scores and scores[key].disagrees]


def score_titles(benchmark: object) -> tuple[str, str]:
    """Return what the two scores of a benchmark are called, official first."""
    titles = getattr(benchmark, "score_titles", TEXT_SCORES)
    return (titles[0], titles[1])


def score_note(benchmark: object) -> str:
    """Return what sets the two scores of a benchmark apart, empty for two readings of a text."""
    return str(getattr(benchmark, "score_note", ""))
