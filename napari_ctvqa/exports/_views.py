"""View: one plane of a case with everything that is burnt into its picture, and nothing private."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.names import is_known
from napari_ctvqa.core.plane_pictures import NO_LETTERS, EdgeLetters, plane_letters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.colours import RGB, Look
    from napari_ctvqa.core.plane_pictures import PlaneScene

PROJECT = "napari-ctvqa"
NO_MARKERS = "orientation not trusted: no markers"
_PRIVATE = "…"
_SUFFIXES = (".nii.gz", ".nii")
_LEAST_WORD = 3


@dataclass(frozen=True)
class LegendEntry:
    """One row of the legend: words, colour, look."""

    text: str
    colour: RGB
    look: Look


@dataclass(frozen=True)
class Parts:
    """What is burnt in besides the picture."""

    markers: bool = True
    slice_text: bool = True
    window: bool = True
    scale_bar: bool = True
    legend: bool = True
    caption: bool = True


@dataclass(frozen=True, eq=False)
class View:
    """One plane at one slice, ready to be drawn.

    ``letters`` are empty where the orientation is not trusted, and ``no_markers`` says why.
    ``mirrored`` exchanges left and right, as a sagittal plane with the nose to the right does.
    ``caption`` and ``legend`` hold plain words.
    """

    scene: PlaneScene
    axis: int
    index: int
    letters: EdgeLetters = NO_LETTERS
    no_markers: str = ""
    legend: tuple[LegendEntry, ...] = ()
    caption: tuple[str, ...] = ()
    mirrored: bool = False
    marked: bool = False
    """The first difference: framed."""


def view_of(
    case: Case,
    scene: PlaneScene,
    axis: int,
    index: int,
    *,
    legend: Iterable[LegendEntry] = (),
    caption: Iterable[str] = (),
    mirrored: bool = False,
    marked: bool = False,
) -> View:
    """Return a view of a case with markers from its geometry, and without its names.

    Words that come from the case's id or the names of its files are blanked in the caption, and
    in the legend: a structure has its name from a file, which may carry the case's.
    """
    trusted = case.report.side_trusted
    letters = plane_letters(scene.grid, axis, mirrored=mirrored) if trusted else NO_LETTERS
    private = private_words(case)
    return View(
        scene,
        axis,
        index,
        letters,
        "" if trusted else _reason(case),
        tuple(replace(entry, text=without(entry.text, private)) for entry in legend),
        tuple(without(line, private) for line in caption),
        mirrored,
        marked,
    )


def private_words(case: Case) -> tuple[str, ...]:
    """Return the case's id and the names of its files and folders, longest first."""
    paths = [case.volume.path, case.files.ct, Path(case.case_id)]
    words: set[str] = set()
    for path in paths:
        if path is None:
            continue
        words |= {str(path), path.name, path.parent.name}
        words |= {path.name.removesuffix(suffix) for suffix in _SUFFIXES}
    kept = {w for w in words if len(w) >= _LEAST_WORD and not is_known(w)}  # a folder "liver"
    return tuple(sorted(kept, key=len, reverse=True))


def without(text: str, private: Iterable[str]) -> str:
    """Return text with every private word blanked, whatever its case; paths are blanked, too.

    An id of digits alone is blanked where it stands alone: a part of a measured value stays.
    """
    for word in private:
        pattern = re.escape(word)
        if word.isdigit():
            pattern = rf"(?<![\d.,]){pattern}(?!\d|[.,]\d)"
        text = re.sub(pattern, _PRIVATE, text, flags=re.IGNORECASE)
    return re.sub(r"\S*(?:[A-Za-z]:\\|/)\S*[\\/]\S*", _PRIVATE, text)


def _reason(case: Case) -> str:
    codes = [w.code.replace("_", " ") for w in case.report.warnings if w.level is Level.RED]
    return f"{NO_MARKERS} ({', '.join(codes)})" if codes else NO_MARKERS
