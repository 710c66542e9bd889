"""Masks that a program made of a CT: what it can segment, and where its masks may stand in.

They are no reference. They stand in only where a structure has no file at all, and every value
made of them says where it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Case, Mask, Source

TOTALSEGMENTATOR = "TotalSegmentator"
USUAL = (
    "liver", "spleen", "pancreas", "stomach", "gall_bladder", "kidney_left", "kidney_right",
    "duodenum", "colon", "aorta", "postcava", "portal_vein_and_splenic_vein",
)  # fmt: skip
"""What is segmented unless structures are named: the organs that questions ask about."""


@dataclass(frozen=True, slots=True)
class SegmentProgress:
    """How far a segmentation is.

    ``share`` of the present step (0 to 1) where the program tells it, else None. ``seconds`` since
    its start.
    """

    words: str
    share: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Segmented:
    """What a program made of one CT: the structures that have a mask now.

    ``missing`` are structures that were asked for and that it wrote no mask of.
    """

    program: str
    version: str
    structures: tuple[str, ...]
    missing: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Segmenting:
    """What the window knows of segmenting the case that is open.

    ``made`` are the structures that have a program's mask, ``by`` the program; ``message`` says
    how the last attempt ended.
    """

    running: bool = False
    progress: SegmentProgress | None = None
    made: tuple[str, ...] = ()
    by: str = ""
    message: str = ""


def lacking(case: Case, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return what is worth segmenting for a case: what is wanted and has no file.

    Where nothing that is wanted can be segmented, the organs that questions ask about.
    """
    on_file = {names.canonical(item.name) for item in case.files.masks} | set(case.masks)
    for structures in (wanted, USUAL):
        found, _ = segmentable(structures)
        without = tuple(structure for structure in found if structure not in on_file)
        if without:
            return without
    return ()


@cache
def classes(program: str = TOTALSEGMENTATOR) -> Mapping[str, str]:
    """Return the program's own name of every structure that it can segment."""
    data = json.loads(resource_path("segmenters.json").read_text(encoding="utf-8"))
    return {names.canonical(name): name for name in data[program]["classes"]}


def segmentable(structures: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the structures that can be segmented, and those that cannot.

    A whole is segmented by its parts (kidney: left and right); a lesion never is.
    """
    found: dict[str, None] = {}
    unknown: list[str] = []
    for structure in map(names.canonical, structures):
        parts = _known_parts(structure)
        found |= dict.fromkeys(parts)
        if not parts:
            unknown.append(structure)
    return tuple(found), tuple(unknown)


def _known_parts(structure: str) -> tuple[str, ...]:
    """Return the structure, or all its parts that have none themselves; empty if one is unknown."""
    if structure in classes():
        return (structure,)
    parts = [_known_parts(part) for part in names.parts_of(structure)]
    return tuple(one for part in parts for one in part) if all(parts) else ()


def caveat(program: str, version: str) -> str:
    """Return what every value made of such a mask says."""
    return f"the mask was made by {program} {version}, it is no reference"


def with_segmented(case: Case, masks: Iterable[Mask], said: str) -> Case:
    """Return a case with a program's masks for structures that it has no file of.

    A structure whose file is there but was not read, or could not be, stays as it is: a program's
    mask never takes the place of a reference's.
    """
    on_file = {names.canonical(item.name) for item in case.files.masks}
    taken = on_file | set(case.masks) | {names.canonical(name) for name in case.problems}
    added = {
        mask.structure: replace(mask, source=Source.TOOL, caveats=(*mask.caveats, said))
        for mask in masks
        if mask.structure not in taken
    }
    return replace(case, masks={**case.masks, **added}) if added else case
