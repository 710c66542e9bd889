"""In which parts of an organ a lesion lies: liver segments, parts of the pancreas, sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.distances import surface_distance
from napari_ctvqa.core.regions import overlap_voxels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.cases import Region

OVER_TENTH = "over_10_percent"
MOST = "most"
ANY = "any"
PART_RULES = (OVER_TENTH, MOST, ANY)
"""Which parts count: those with more than a tenth of the lesion's overlap (RadGPT's rule), the one
with most of it, or every part that it has a voxel in."""
_TENTH = 0.1


@dataclass(frozen=True, slots=True)
class Located:
    """The parts a lesion lies in, the main one first, with the share of each.

    ``shares`` are of the lesion's voxels that lie in any part; ``outside`` is the share of all its
    voxels in none. ``nearest_mm`` is set where it lies in no part: then ``parts`` is the nearest.
    """

    parts: tuple[str, ...]
    shares: Mapping[str, float]
    outside: float = 0.0
    nearest_mm: float | None = None


def shares(lesion: Region, parts: Mapping[str, Region]) -> tuple[dict[str, float], float]:
    """Return each part's share of the lesion's voxels in any part, and the share in none.

    Shares are fractions. Where parts overlap they add up to more than 1. RadGPT paints the parts
    into one map first, so that of two parts the later wins; here each mask counts for itself, in
    whatever order it is given. Regions must be of one grid.
    """
    voxels = {name: overlap_voxels(lesion, [part]) for name, part in parts.items()}
    covered = overlap_voxels(lesion, list(parts.values()))
    if not covered:
        return {}, 1.0
    found = {name: count / covered for name, count in voxels.items() if count}
    return found, 1.0 - covered / lesion.voxels


def locate(lesion: Region, parts: Mapping[str, Region], rule: str = OVER_TENTH) -> Located:
    """Return the parts in which a lesion lies by a rule of ``PART_RULES``.

    A lesion that overlaps no part at all belongs to the nearest one, and says how far that is.

    Raises
    ------
    ValueError
        For an empty lesion, no part, or another rule.
    """
    if rule not in PART_RULES:
        raise ValueError(f"unknown rule for parts {rule!r}, known: {', '.join(PART_RULES)}")
    if lesion.empty or all(part.empty for part in parts.values()):
        raise ValueError("an empty lesion, or an organ without parts, has no location")
    found, outside = shares(lesion, parts)
    if not found:
        return _nearest(lesion, parts)
    ranked = sorted(found, key=lambda name: -found[name])
    if rule == MOST:
        ranked = ranked[:1]
    elif rule == OVER_TENTH:
        ranked = [name for name in ranked if found[name] > _TENTH]
    return Located(tuple(ranked), found, outside)


def _nearest(lesion: Region, parts: Mapping[str, Region]) -> Located:
    gaps = {name: surface_distance(lesion, part) for name, part in parts.items()}
    lengths = {name: gap.length_mm for name, gap in gaps.items() if gap is not None}
    name = min(lengths, key=lambda part: lengths[part])
    return Located((name,), {}, 1.0, lengths[name])


def caudate_to_right_lobe(caudate: Region, right_lobe: Region) -> float | None:
    """Return the width of the caudate over that of the right lobe, both from right to left, in mm.

    Both widths are taken on the axial slice where the caudate has its largest area; None where
    that slice holds none of the right lobe. Harbin 1980 measures both on a CT slice too, between
    the portal bifurcation and the outer borders; masks of segments stand in for these landmarks.
    Regions must be of one grid.
    """
    if caudate.crop_zyx is None or caudate.box_zyx is None:
        return None
    row = int(np.argmax(np.count_nonzero(caudate.crop_zyx, axis=(1, 2))))
    z = caudate.box_zyx[0].start + row
    inner, outer = _width_mm(caudate, z), _width_mm(right_lobe, z)
    return inner / outer if inner and outer else None


def _width_mm(region: Region, z: int) -> float:
    """Return the extent from right to left of a region on one axial slice, edge to edge."""
    if region.box_zyx is None or region.crop_zyx is None:
        return 0.0
    row = z - region.box_zyx[0].start
    if not 0 <= row < region.crop_zyx.shape[0] or not region.crop_zyx[row].any():
        return 0.0
    at = np.argwhere(region.crop_zyx[row])
    along = at @ region.grid.affine_zyx_to_ras[0, 1:3]
    voxel = np.abs(region.grid.affine_zyx_to_ras[0, 1:3]).sum()
    return float(np.ptp(along) + voxel)
