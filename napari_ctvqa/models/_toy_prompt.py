"""How a question is put to the shipped toy model: in the few wordings it was trained on.

The toy sees up to eight axial slices, each with ``SLICE i`` after it, and then one sentence. It
answers in words (``Left.``, ``Yes.``, ``SLICE 3``, ``Spleen.``), never with an option's letter:
options are left out of the prompt, and the words are read against them afterwards as any answer
is. With tools given, it calls one for the questions that it knows from the demo.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.records import Question

MOST_SLICES = 8
WINDOW_HU = (-150.0, 250.0)
"""Width 400, level 50."""
SIZE_PX = 144
LABEL = "SLICE {i}"
"""Stands after its picture; i counts from 1."""

IN_LIVER = "Is there a lesion in the liver?"
IN_KIDNEYS = "Is there a lesion in the kidneys?"
IN_PANCREAS = "Is there a lesion in the pancreas?"
KIDNEY_SIDE = "On which side is the kidney lesion?"
_BY_SUBTYPE = {
    "liver lesion existence": IN_LIVER,
    "kidney lesion existence": IN_KIDNEYS,
    "kidney cyst existence": IN_KIDNEYS,
    "kidney tumor existence": IN_KIDNEYS,
    "pancreatic lesion existence": IN_PANCREAS,
    "pdac existence": IN_PANCREAS,
    "pnet existence": IN_PANCREAS,
    "bilateral kidney asymmetry": KIDNEY_SIDE,
}
_ADJECTIVES = {"liver": "liver", "kidney": "kidney", "spleen": "splenic", "pancreas": "pancreatic"}
_KINDLESS = {"kidney cyst existence", "kidney tumor existence", "pdac existence", "pnet existence"}
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
        return ToyQuestion(question.text, () if known else (NO_TASK,))
    text = _BY_SUBTYPE.get(subtype, "")
    if subtype == "largest lesion slice" and question.organ in _ADJECTIVES:
        text = f"On which slice is the {_ADJECTIVES[question.organ]} lesion?"
    if subtype == "largest lesion location" and question.organ == "kidney":
        text = KIDNEY_SIDE
    if text:
        return ToyQuestion(text, (NO_KINDS,) if subtype in _KINDLESS else ())
    known = _ASKED.match(question.text.strip()) is not None
    return ToyQuestion(question.text, () if known else (NO_TASK,))


_SLICE = re.compile(r"\s*SLICE (\d{1,3})\.?\s*\Z")


def slice_said(text: str, slices: Sequence[int]) -> int | None:
    """Return which of the slices sent is meant by ``SLICE i``; None where no such is named."""
    found = _SLICE.match(text)
    number = int(found.group(1)) if found else 0
    return slices[number - 1] if 1 <= number <= len(slices) else None
