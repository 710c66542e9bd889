"""The same question put otherwise: options in other places, other words. Pure and fixed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.probes import CannotProbeError, table
from napari_ctvqa.core.records import AnswerFormat, Option

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

_SPEAKS_OF_OTHERS = re.compile(
    r"\b(?:all|none|both|any|neither) of the (?:above|below|others?)\b|\b[A-H] (?:and|or) [A-H]\b",
    re.IGNORECASE,
)


def shuffled(question: Question, answer_format: AnswerFormat) -> Question:
    """Return the question with every option one place on, the last one first.

    Letters stay in order; the reference's letter goes with its text. Every option moves, and the
    order is the same whoever runs it: a random one would leave some where they were.

    Raises
    ------
    CannotProbeError
        For free form, fewer than two options, and options that speak of each other.
    """
    options = question.options
    if answer_format is not AnswerFormat.MC:
        raise CannotProbeError("In free form no options are sent.")
    if len(options) < 2:
        raise CannotProbeError("The question has no two options that could change places.")
    if any(_SPEAKS_OF_OTHERS.search(option.text) for option in options):
        raise CannotProbeError("An option speaks of other options by their place.")
    texts = [options[-1].text, *(option.text for option in options[:-1])]
    moved = tuple(Option(o.letter, text) for o, text in zip(options, texts, strict=True))
    letters = [option.letter for option in options]
    letter = question.reference.letter
    if letter in letters:
        letter = letters[(letters.index(letter) + 1) % len(letters)]
    return replace(question, options=moved, reference=replace(question.reference, letter=letter))


def reworded(question: Question, answer_format: AnswerFormat) -> Question:
    """Return the question in the words of the first line of the table that fits its text."""
    del answer_format
    text = " ".join(question.text.split())
    for match, said in table().rewordings:
        if match.match(text):
            return replace(question, text=match.sub(said, text))
    raise CannotProbeError("The question has no words.")


def plain_words(question: Question, answer_format: AnswerFormat) -> Question:
    """Return the question with plain words for those of anatomy."""
    del answer_format
    return _in_words(question, dict(table().words), "of anatomy")


def anatomical_words(question: Question, answer_format: AnswerFormat) -> Question:
    """Return the question with words of anatomy for plain ones."""
    del answer_format
    found = {plain: a for a, plain in reversed(table().words) if plain not in _NAMES}
    return _in_words(question, found, "that is plain")


_NAMES = frozenset({"liver", "kidney", "spleen", "pancreas"})
"""Organs have one name; only the adjective is a word of anatomy."""


def _in_words(question: Question, words: Mapping[str, str], what: str) -> Question:
    listed = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    text = re.sub(
        rf"\b(?:{listed})\b",
        lambda found: _like(found[0], words[found[0].casefold()]),
        question.text,
        flags=re.IGNORECASE,
    )
    if text == question.text:
        raise CannotProbeError(f"The question has no word {what} in the table.")
    return replace(question, text=text)


def _like(word: str, other: str) -> str:
    return other.capitalize() if word[0].isupper() else other


QUESTION_CHANGES: Mapping[str, Callable[[Question, AnswerFormat], Question]] = {
    "shuffled": shuffled,
    "reworded": reworded,
    "plain_words": plain_words,
    "anatomical_words": anatomical_words,
}
"""By probe: a function of question and format; raises CannotProbeError."""
