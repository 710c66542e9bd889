"""The words around pictures and question, in the order DeepTumorVQA puts them.

Modality, patient, grid (for numbers), question, how to answer. The benchmark's own wording is not
known to us: these sentences are ours. Text of a record goes into the user's turn only, made inert.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.neutral import neutral
from napari_ctvqa.core.records import AnswerFormat, AnswerType
from napari_ctvqa.models._toy_prompt import toy_question

if TYPE_CHECKING:
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.models._settings import Feeding

ASSUMED = "the wording of the prompt is ours; the benchmark's own is not known"

_HANGING = {
    "axial": ("the patient's right is on the left of the picture and anterior is at the top",
              "from superior (head) to inferior (feet)"),
    "coronal": ("the patient's right is on the left of the picture and superior is at the top",
                "from anterior to posterior"),
    "sagittal": ("anterior is on the left of the picture and superior is at the top",
                 "from the patient's right to the patient's left"),
}  # fmt: skip
_BACKWARD = {
    "axial": "from inferior (feet) to superior (head)",
    "coronal": "from posterior to anterior",
    "sagittal": "from the patient's left to the patient's right",
}
_COLOURS = ("red", "green", "blue")


@dataclass(frozen=True, slots=True)
class Words:
    """What is said before the pictures and after them, and what a reader should know of it."""

    before: str
    after: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the sentences need to know of the pictures."""

    pictures: int
    slices: int
    """Slices of the whole CT along the plane's axis."""
    direction: int
    """1 or -1 where they run along the display axis or against it, 0 where they do neither."""
    step_mm: float | None
    """Distance between neighbouring pictures; None where they are not evenly spaced."""
    pixel_mm: tuple[float, float] | None
    """Height and width of a pixel where it is not a voxel; None where it is."""


@cache
def _stages() -> frozenset[str]:
    text = resource_path("deeptumorvqa_subtypes.json").read_text(encoding="utf-8")
    return frozenset(row["subtype"].lower() for row in json.loads(text)["subtypes"])


def prompt_kind(question: Question, fed: Feeding) -> str:
    """Return ``deeptumorvqa`` for a question of one of its subtypes, else ``plain``."""
    if fed.prompt != "auto":
        return fed.prompt
    return "deeptumorvqa" if question.subtype.lower() in _stages() else "plain"


def words(
    question: Question,
    answer_format: AnswerFormat,
    fed: Feeding,
    shown: Shown,
    grid: Grid,
    *,
    instruction_first: bool = False,
    final_answer: bool = False,
) -> Words:
    """Return the texts of the user's turn.

    With ``instruction_first`` what describes the pictures stands before them; ``final_answer``
    asks for a last line ``Final Answer: …``.
    """
    kind = prompt_kind(question, fed)
    if kind == "toy":
        put = toy_question(question, with_tools=fed.with_tools)
        bare = neutral(put.text, "the question")
        return Words("", bare.text, (*put.notes, *bare.notes))
    asked, notes = _question(question, answer_format)
    about = _modality(fed, shown)
    lines: list[str] = []
    if kind == "deeptumorvqa":
        patient, more = _patient(question)
        notes = (*notes, *more, ASSUMED)
        lines += [patient, _grid_line(question, grid, shown)]
        notes = (*notes, *_record_differs(question, grid))
    lines += [asked, _how_to_answer(question, answer_format, kind, final_answer=final_answer)]
    after = "\n".join(line for line in lines if line)
    if instruction_first:
        return Words(f"{_TEACHER} {about}".strip(), after, notes)
    return Words("", f"{about}\n{after}".strip(), notes)


_TEACHER = "You are teaching radiology to medical students."


def _modality(fed: Feeding, shown: Shown) -> str:
    if not shown.pictures:
        return "The question is about a CT scan of a patient. No picture of it is given."
    hanging, forward = _HANGING[fed.plane]
    if shown.pictures == 1:
        what = f"The picture is one {fed.plane} slice of a CT scan; {hanging}."
    else:
        order = {
            1: f"in order, {forward}",
            -1: f"in order, {_BACKWARD[fed.plane]}",
            0: "in no order",
        }[shown.direction]
        what = (
            f"The pictures are {shown.pictures} {fed.plane} slices of one CT scan {order}; "
            f"in each, {hanging}."
        )
    return f"{what} {_window_text(fed.windows_hu, shown.pictures)}"


def _window_text(windows_hu: Sequence[tuple[float, float]], pictures: int) -> str:
    if len(windows_hu) == 1:
        ((low, high),) = windows_hu
        shown = "It is shown" if pictures == 1 else "They are shown"
        return (
            f"{shown} with window width {high - low:g} HU and level {(low + high) / 2:g} HU "
            f"({low:g} to {high:g} HU)."
        )
    named = ", ".join(
        f"{colour} {low:g} to {high:g} HU"
        for colour, (low, high) in zip(_COLOURS, windows_hu, strict=True)
    )
    return f"Each colour shows a window of its own: {named}."


def _patient(question: Question) -> tuple[str, tuple[str, ...]]:
    said = "; ".join(f"{key}: {value}" for key, value in question.patient.items() if value)
    if not said:
        return "", ()
    inert = neutral(said, "what the record says of the patient")
    return f"Patient: {inert.text}.", inert.notes


def _grid_line(question: Question, grid: Grid, shown: Shown) -> str:
    if question.answer_type is not AnswerType.NUMERIC:
        return ""
    spacing = " x ".join(f"{mm:.3g}" for mm in grid.spacing_mm_zyx[::-1])
    shape = " x ".join(str(size) for size in grid.shape_zyx[::-1])
    text = f"Voxel spacing (x, y, z): {spacing} mm. Volume size (x, y, z): {shape} voxels."
    if shown.pixel_mm is not None:
        height, width = shown.pixel_mm
        text += f" A pixel of the pictures is {width:.3g} mm wide and {height:.3g} mm high."
    if shown.step_mm is not None:
        text += f" Neighbouring pictures are {shown.step_mm:.3g} mm apart."
    return text


_FIGURE = re.compile(r"\d{1,6}(?:\.\d{0,12})?")
_SAME_WITHIN = 0.01


def _record_differs(question: Question, grid: Grid) -> tuple[str, ...]:
    """Return a note where the record's spacing or shape is not that of the file, which is sent."""
    notes = []
    own = {"spacing": grid.spacing_mm_zyx[::-1], "shape": grid.shape_zyx[::-1]}
    for name, values in own.items():
        said = question.raw.get(name)
        told = [float(n) for n in _FIGURE.findall(said[:200])] if isinstance(said, str) else []
        if len(told) == 3 and not np.allclose(told, values, rtol=_SAME_WITHIN, atol=0):
            there = " x ".join(f"{n:g}" for n in told)
            here = " x ".join(f"{n:.4g}" for n in values)
            notes.append(f"the record says {name} {there}; the file has {here}, which is sent")
    return tuple(notes)


def _question(question: Question, answer_format: AnswerFormat) -> tuple[str, tuple[str, ...]]:
    inert = neutral(question.text, "the question")
    text, notes = inert.text, inert.notes
    if answer_format is AnswerFormat.MC and question.options:
        options = neutral(
            "\n".join(f"{option.letter}: {option.text}" for option in question.options),
            "the options",
        )
        return f"{text}\n{options.text}", (*notes, *options.notes)
    if answer_format is AnswerFormat.MC:
        notes = (*notes, "the question has no options; asked in free form")
    return text, notes


_LETTER = "the letter of the right option"
_FREE = {
    AnswerType.NUMERIC: "one number",
    AnswerType.BINARY: "Yes or No",
    AnswerType.CATEGORICAL: "a short phrase",
    AnswerType.OPEN: "",
}


def _how_to_answer(
    question: Question, answer_format: AnswerFormat, kind: str, *, final_answer: bool
) -> str:
    if answer_format is AnswerFormat.MC and question.options:
        wanted = _LETTER
    else:
        wanted = "" if kind == "plain" else _FREE[question.answer_type]
    if final_answer:
        return f"Reason first, then end with one line: Final Answer: <{wanted or 'your answer'}>"
    return f"Answer with {wanted} only." if wanted else ""
