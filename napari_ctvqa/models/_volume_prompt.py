"""The words for volume models: the bare question, made inert, with its choices where it has them.

These models were trained on one sentence after the image; nothing of modality, patient or grid
stands around it in their sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.neutral import Neutral, neutral
from napari_ctvqa.core.records import AnswerFormat

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

NO_OPTIONS = "the question has no options; asked in free form"


def asked_plainly(question: Question, answer_format: AnswerFormat) -> Neutral:
    """Return the question; with options as ``Choices: A. … B. …``, as M3D's data write them."""
    inert = neutral(question.text, "the question")
    if answer_format is not AnswerFormat.MC:
        return inert
    if not question.options:
        return Neutral(inert.text, (*inert.notes, NO_OPTIONS))
    listed = " ".join(f"{option.letter}. {option.text}" for option in question.options)
    options = neutral(f"Choices: {listed}", "the options")
    return Neutral(f"{inert.text} {options.text}", (*inert.notes, *options.notes))
