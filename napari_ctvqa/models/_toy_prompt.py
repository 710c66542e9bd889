"""How a question is put to the shipped toy model: in the few wordings it was trained on.

The toy sees up to eight axial slices, each with ``SLICE i`` after it, and then one sentence. It
answers in words (``Left.``, ``Yes.``, ``SLICE 3``, ``Spleen.``), never with an option's letter:
options are left out of the prompt, and the words are read against them afterwards. With tools
given, it calls one for the questions that it knows from the demo.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.core.records import Question

MOST_SLICES = 8
WINDOW_HU = (-40.0, 210.0)
"""Width 250, level 85: fat is as black as air, so that a lesion stands out."""
FIELD_MM = (200.0, 300.0)
"""Height and width about the middle of the slice, which are sent; liver, kidneys and spleen of the
phantoms lie in it."""
SIZE_PX = 144
LABEL = "SLICE {i}"
"""Stands after its picture; i counts from 1."""

IN_LIVER = "Is there a lesion in the liver?"
IN_KIDNEYS = "Is there a lesion in the kidneys?"
KIDNEY_SIDE = "On which side is the kidney lesion?"
_BY_SUBTYPE = {
    "liver lesion existence": IN_LIVER,
    "kidney lesion existence": IN_KIDNEYS,
    "kidney cyst existence": IN_KIDNEYS,
    "kidney tumor existence": IN_KIDNEYS,
    "bilateral kidney asymmetry": KIDNEY_SIDE,
}
_ADJECTIVES = {"liver": "liver", "kidney": "kidney", "spleen": "splenic"}
_SLICE_ASKED = "largest lesion slice"
_KINDLESS = {"kidney cyst existence", "kidney tumor existence"}
_CALLED_FOR = frozenset(
    {
        *("organ volume measurement", "organ hu measurement", "lesion volume measurement"),
        *("lesion counting", "largest lesion diameter", "liver lesion existence"),
        *("kidney lesion existence", "kidney cyst existence", "kidney tumor existence"),
        *("pancreatic lesion existence", "colon lesion existence"),
    }
)
_ASKED = re.compile(
    r"(?:is there a(?:ny)? lesion|does this scan show a lesion|are there any lesions"
    r"|(?:on which side|on which slice) is the (?:[a-z]+ )?lesion|which side is the"
    r"|which slice shows|is the lesion on the left|(?:in )?which organ (?:has|is) the lesion)",
    re.IGNORECASE,
)
NO_TASK = (
    "the toy model was not trained on questions of this kind: whatever it says, it does not mean it"
)
ANY_ORGAN_S_SLICE = (
    "the toy model often names another organ's slice where more than one organ has a lesion"
)
COPIES_BADLY = (
    "the toy model often copies a tool's number wrongly: the tool's result is what counts"
)
NO_KINDS = "the toy model knows lesions, not their kinds: it is asked whether there is any"


@dataclass(frozen=True, slots=True)
class ToyQuestion:
    """The sentence that is sent, and what a reader should know of it."""

    text: str
    notes: tuple[str, ...] = ()


def toy_question(question: Question, *, with_tools: bool = False) -> ToyQuestion:
    """Return how the toy is asked; a question that it has no task for goes as it is, with a note.

    ``with_tools`` keeps the question's own words: the tool calls were trained on those.
    """
    subtype = question.subtype.casefold()
    if with_tools:
        known = subtype in _CALLED_FOR
        return ToyQuestion(question.text, (COPIES_BADLY,) if known else (NO_TASK,))
    text = _BY_SUBTYPE.get(subtype, "")
    if subtype == _SLICE_ASKED and question.organ in _ADJECTIVES:
        asked = f"On which slice is the {_ADJECTIVES[question.organ]} lesion?"
        return ToyQuestion(asked, (ANY_ORGAN_S_SLICE,))
    if subtype == "largest lesion location" and question.organ == "kidney":
        text = KIDNEY_SIDE
    if text:
        return ToyQuestion(text, (NO_KINDS,) if subtype in _KINDLESS else ())
    known = _ASKED.match(question.text.strip()) is not None
    return ToyQuestion(question.text, () if known else (NO_TASK,))


_SAID = ("Yes.", "No.", "Left.", "Right.", "Liver.", "Left kidney.", "Right kidney.", "Spleen.")


def toy_meanings(question: Question, slices: Sequence[int], *, choice: bool) -> dict[str, str]:
    """Return what the toy's words mean in the form that is asked for; words of no meaning lack.

    With ``choice`` these are the letters of the options that the words agree with, where exactly
    one does; for a slice the nearest one. ``slices`` are counted as the question counts them.
    """
    told = {f"SLICE {n}": index for n, index in enumerate(slices, start=1)}
    if question.subtype.casefold() != _SLICE_ASKED:
        told = {}  # a number that is asked for is none of a slice
    if not choice:
        return {said: str(index) for said, index in told.items()}
    options = {option.letter: option.text.casefold().strip(" .") for option in question.options}
    meant = {said: _agreeing(said.casefold().strip("."), options) for said in _SAID}
    meant |= {said: _nearest(index, options) for said, index in told.items()}
    return {said: letter for said, letter in meant.items() if letter}


def _agreeing(said: str, options: Mapping[str, str]) -> str:
    """Return the letter of the one option that says the same, or has the word in it."""
    for agree in (str.__eq__, _has_word):
        found = [letter for letter, text in options.items() if agree(text, said)]
        if found:
            return found[0] if len(found) == 1 else ""
    return ""


def _has_word(text: str, said: str) -> bool:
    return text.split()[:1] == [said]


def _nearest(index: int, options: Mapping[str, str]) -> str:
    """Return the letter of the whole number that is nearest; none where an option is no number."""
    if not options or not all(text.isdecimal() for text in options.values()):
        return ""
    apart = sorted((abs(int(text) - index), letter) for letter, text in options.items())
    tied = len(apart) > 1 and apart[0][0] == apart[1][0]
    return "" if tied else apart[0][1]
