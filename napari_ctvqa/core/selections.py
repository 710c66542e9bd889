"""What a target can be besides a structure: the largest lesion, the lesions of one part.

A target is written as people say it: ``"liver_lesion"``, ``"largest liver_lesion"``,
``"kidney_lesion in kidney_left"``, ``"second largest liver_lesion in liver_segment_7"``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from napari_ctvqa.core import names
from napari_ctvqa.core.parts import OVER_TENTH, Located, locate
from napari_ctvqa.core.regions import Components, components, empty_region, same_grid, union
from napari_ctvqa.core.sampling import resample_region

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.core.cases import Case, Mask, Region
    from napari_ctvqa.core.geometry import Grid

_SHAPE = re.compile(
    r"(?:the )?(?P<rank>second largest|largest)?\s*(?P<structure>.+?)(?:\s+in\s+(?P<within>.+))?",
    re.IGNORECASE,
)
_RANKS = {"": 0, "largest": 1, "second largest": 2}


@dataclass(frozen=True, slots=True)
class Selection:
    """A structure, or some of its components.

    ``rank`` 1 is the largest component, 2 the second, 0 all. ``within`` is the part of the organ in
    which components must lie, empty for any.
    """

    structure: str
    rank: int = 0
    within: str = ""

    @property
    def whole(self) -> bool:
        """Return whether the structure's every component is meant."""
        return not self.rank and not self.within

    @property
    def text(self) -> str:
        """Return this as a target is written."""
        rank = next(words for words, number in _RANKS.items() if number == self.rank)
        within = f"in {self.within}" if self.within else ""
        return " ".join(filter(None, (rank, self.structure, within)))

    @property
    def label(self) -> str:
        """Return this for people: ``"largest liver lesion in segment 7"``."""
        rank = next(words for words, number in _RANKS.items() if number == self.rank)
        places = " and ".join(names.label(place) for place in self.within.split("+"))
        within = f"in {places}" if self.within else ""
        return " ".join(filter(None, (rank, names.label(self.structure), within)))


def selection(target: str) -> Selection:
    """Read a target; a known structure's own name is never taken apart."""
    if names.is_known(target):
        return Selection(names.canonical(target))
    found = _SHAPE.fullmatch(" ".join(target.split()))
    if found is None:
        return Selection(target)
    structure, within = found["structure"], found["within"] or ""
    if not found["rank"] and not within:
        return Selection(names.canonical(target))
    places = "+".join(names.canonical(place) for place in within.split("+"))
    return Selection(names.canonical(structure), _RANKS[(found["rank"] or "").lower()], places)


_COMPONENTS: WeakKeyDictionary[Region, Components] = WeakKeyDictionary()


def components_of(region: Region) -> Components:
    """Return the 26-connected components of a region, worked out once for as long as it lives."""
    found = _COMPONENTS.get(region)
    if found is None:
        found = components(region)
        _COMPONENTS[region] = found
    return found


@dataclass(frozen=True)
class PartsOf:
    """The parts of an organ on one grid, or the reason why they cannot be told."""

    regions: Mapping[str, Region]
    missing: str = ""


def parts_of_organ(case: Case, organ: str, like: Region) -> PartsOf:
    """Return the parts of an organ on the grid of a region; all of them must have a mask."""
    wanted = names.divisions_of(organ)
    if not wanted:
        return PartsOf({}, f"no parts of {organ or 'this structure'} are known")
    lacking = [part for part in wanted if part not in case.masks]
    if lacking:
        return PartsOf({}, f"no mask for {', '.join(lacking)}")
    found = {part: on_grid_of(case.masks[part], like) for part in wanted}
    if all(region.empty for region in found.values()):
        return PartsOf({}, f"the masks of all parts of {organ} are empty")
    return PartsOf(found)


def on_grid(region: Region, grid: Grid) -> Region:
    """Return a region on a grid, resampled only where it lies on another one."""
    return region if same_grid(region.grid, grid) else resample_region(region, grid)


def on_grid_of(mask: Mask, like: Region) -> Region:
    """Return a mask's region on another region's grid, resampled only where it has to be."""
    for own in (mask.own_region, mask.region):
        if same_grid(own.grid, like.grid):
            return own
    return resample_region(mask.own_region, like.grid)


def located(
    case: Case, lesion: Region, organ: str, rule: str = OVER_TENTH
) -> tuple[Located | None, str]:
    """Return where one lesion lies among the parts of an organ, or None and why not."""
    parts = parts_of_organ(case, organ, lesion)
    if parts.missing:
        return None, parts.missing
    return locate(lesion, parts.regions, rule), ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The components that a selection means, as one region; ``missing`` says why there is none."""

    region: Region
    caveats: tuple[str, ...] = ()
    missing: str = ""


def choose(case: Case, region: Region, wanted: Selection, part_rule: str = OVER_TENTH) -> Chosen:
    """Return the components of a region that a selection means.

    A component lies in a part by ``part_rule``. Of equal sizes the more superior comes first.
    """
    found = components_of(region)
    numbers = list(range(len(found)))
    caveats: list[str] = []
    if wanted.within:
        organ, asked = organ_and_parts(wanted.within)
        parts = parts_of_organ(case, organ, region)
        if parts.missing:
            return Chosen(region, missing=parts.missing)
        kept = []
        for number in numbers:
            where = locate(found.region_of(number), parts.regions, part_rule)
            if set(asked) & set(where.parts):
                kept.append(number)
            caveats += location_caveats(where)
        numbers = kept
    if wanted.rank:
        numbers = numbers[wanted.rank - 1 : wanted.rank]
    if not numbers:
        return Chosen(empty_region(region.grid), tuple(dict.fromkeys(caveats)))
    if len(numbers) == len(found):
        return Chosen(region, tuple(dict.fromkeys(caveats)))
    chosen = union([found.region_of(number) for number in numbers])
    return Chosen(chosen, tuple(dict.fromkeys(caveats)))


def organ_and_parts(within: str) -> tuple[str, tuple[str, ...]]:
    """Return the organ that a place is in and the divisions it is made of: one, or a lobe's."""
    parts: list[str] = []
    for place in within.split("+"):
        parts += names.parts_of(place) or [place]
    return (names.organ_of(parts[0]) if parts else ""), tuple(parts)


def location_caveats(where: Located) -> tuple[str, ...]:
    """Return what is to be said about where a lesion lies."""
    if where.nearest_mm is not None:
        nearest = names.label(where.parts[0])
        return (f"lies in no part: counted for the nearest, {nearest}, {where.nearest_mm:.1f} mm",)
    if where.outside > 0.5:
        return ("more than half of it lies outside every part",)
    return ()


def selected_mask(masks: Sequence[Mask], region: Region, wanted: Selection, case: Case) -> Mask:
    """Return a selection as a mask of its own, drawn on the CT's grid."""
    like = max(masks, key=lambda mask: mask.own_region.voxels)
    drawn = on_grid(region, case.volume.display_grid)
    return replace(like, name=wanted.text, region=drawn, own_region=region, lesion=True)
