"""The switch "absent means none": lesions without a mask file are taken as not there.

Off by default, because an absent file says nothing. Switched on, a case gets an empty mask for
every lesion that no file speaks of; everything downstream treats these like any mask, and what
they lead to carries their caveat and is marked as assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Case, Mask, Source
from napari_ctvqa.core.regions import empty_region
from napari_ctvqa.core.rules import lesion_classes

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Trace

CAVEAT = "assumed empty: no mask file"


def absent_means_none(case: Case) -> Case:
    """Return the case with an empty mask for every lesion without a file.

    Organs are never taken as absent: a spleen without a mask is not a spleen of 0 cm³. A file
    that could not be read, or was not yet, stays unknown. So does a kind of lesion where a mask
    that does not tell the kinds apart is all there is: the tumours within "any lesion", the PDAC
    within "any tumour".
    """
    on_file = {names.canonical(item.name) for item in case.files.masks}
    known = on_file | set(case.masks) | {names.canonical(name) for name in case.problems}
    lesions = [row.name for row in names.table().structures.values() if row.lesion]
    added = {name: _empty(case, name) for name in lesions if _is_absent(name, known.__contains__)}
    return replace(case, masks={**case.masks, **added}) if added else case


def _is_absent(lesion: str, known: Callable[[str], bool]) -> bool:
    """Return whether neither the lesion nor anything that may hold it has a mask."""
    parts, whole = names.parts_of(lesion), _whole_of().get(lesion, "")
    if known(lesion) or known(whole) or any(map(known, parts)):
        return False
    if any(map(known, _wider_kinds(lesion))):
        return False
    general, kinds = lesion_classes(_organ_of(lesion))
    if lesion == general or not known(general):
        return True
    return any(known(part) for kind in kinds for part in (kind, *names.parts_of(kind)))


def _organ_of(lesion: str) -> str:
    """Return the organ whose lesions are listed by kind: kidney for a cyst of the left one."""
    parent = names.parent_of(lesion)
    return _whole_of().get(parent, parent)


@cache
def _whole_of() -> dict[str, str]:
    return {part: row.name for row in names.table().structures.values() for part in row.parts}


@cache
def _wider_kinds(lesion: str) -> tuple[str, ...]:
    """Return the kinds that may hold this one without saying so, the general mask apart."""
    general, _ = lesion_classes(_organ_of(lesion))
    if lesion == general:
        return ()
    holding = [row.name for row in names.table().structures.values() if lesion in row.stand_ins]
    return tuple(name for name in (*names.candidates(lesion)[1:], *holding) if name != general)


def _empty(case: Case, structure: str) -> Mask:
    region = empty_region(case.volume.display_grid)
    own = empty_region(case.volume.grid)
    return Mask(structure, structure, Source.ASSUMED, region, own, lesion=True, caveats=(CAVEAT,))


def assumed_in(trace: Trace) -> str:
    """Return the caveat where a tool's result rests on such a mask, empty where none does."""
    contents = (turn.result.content for turn in trace.turns if turn.result is not None)
    said = (content.get("caveats") for content in contents if isinstance(content, Mapping))
    return CAVEAT if any(isinstance(c, list) and CAVEAT in c for c in said) else ""
