"""How far apart two regions lie, where, and whether they touch; exact on any grid.

edt and SimpleITK measure distances on a whole volume of right-angled voxels. Here two surfaces are
compared point by point through a KD-tree, in world millimetres, so that oblique grids, and masks
on two grids, are exact and a small lesion costs little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.sampling import centroid_ras_mm

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region

Points = npt.NDArray[np.float64]

_EQUAL_MM = 1e-6
_DIRECTIONS = (("right", "left"), ("anterior", "posterior"), ("superior", "inferior"))


@dataclass(frozen=True, slots=True)
class Gap:
    """The smallest distance between voxel centres of two regions; 0 where they overlap.

    Regions that touch are one voxel apart. ``ends_ras_mm`` are the two nearest voxel centres.
    """

    length_mm: float
    ends_ras_mm: tuple[tuple[float, float, float], tuple[float, float, float]]


def surface_distance(region: Region, other: Region) -> Gap | None:
    """Return the smallest distance between two regions, in mm; None where one is empty.

    It runs between voxel centres, as a Maurer distance map of the one mask read under the other
    does. The regions may lie on different grids.
    """
    if region.empty or other.empty:
        return None
    from scipy.spatial import cKDTree

    points_mm, others_mm = surface_mm(region), surface_mm(other)
    found, there = cKDTree(others_mm).query(points_mm)
    distances, nearest = np.asarray(found), np.asarray(there)
    best = int(np.argmin(distances))
    inside = _shared_point(region, other)
    if inside is not None:
        return Gap(0.0, (inside, inside))
    return Gap(float(distances[best]), (_point(points_mm[best]), _point(others_mm[nearest[best]])))


def centre_distance_mm(region: Region, other: Region) -> float | None:
    """Return the distance between the centroids of two regions, in mm; None where one is empty."""
    first, second = centroid_ras_mm(region), centroid_ras_mm(other)
    if first is None or second is None:
        return None
    return float(np.linalg.norm(first - second))


def offset_mm(region: Region, other: Region) -> dict[str, float] | None:
    """Return where a region's centroid lies as seen from the other's, in patient terms.

    ``{"left": 31.0, "posterior": 4.5, "superior": 12.0}``: always three directions, each of 0 mm or
    more. World coordinates are RAS, so this does not depend on how a file is stored.
    """
    first, second = centroid_ras_mm(region), centroid_ras_mm(other)
    if first is None or second is None:
        return None
    shift = first - second
    pairs = zip(_DIRECTIONS, shift, strict=True)
    return {(plus if value >= 0 else minus): abs(float(value)) for (plus, minus), value in pairs}


def near(region: Region, other: Region, within_mm: float) -> int:
    """Return how many surface voxels of ``other`` lie within a distance of a region, or in it.

    Distances run between voxel centres, the bound included; 0 where one of the two is empty.
    """
    if region.empty or other.empty:
        return 0
    close = _within_box(surface_mm(other), surface_mm(region), within_mm)
    return int(np.count_nonzero(within(close, region, within_mm)))


def within(points_mm: Points, region: Region, within_mm: float) -> npt.NDArray[np.bool_]:
    """Return which points (n, 3) lie in a region or within a distance of its voxel centres."""
    if not len(points_mm) or region.empty:
        return np.zeros(len(points_mm), np.bool_)
    from scipy.spatial import cKDTree

    # the tree leaves out what lies exactly at its bound
    bound = within_mm + _EQUAL_MM
    found, _ = cKDTree(surface_mm(region)).query(points_mm, distance_upper_bound=bound)
    close: npt.NDArray[np.bool_] = np.isfinite(np.asarray(found))
    return close | holds(region, points_mm)


def holds(region: Region, points_mm: Points) -> npt.NDArray[np.bool_]:
    """Return which points (n, 3), RAS mm, lie in a voxel of a region."""
    if region.box_zyx is None or region.crop_zyx is None:
        return np.zeros(len(points_mm), np.bool_)
    index = np.floor(region.grid.index_zyx(points_mm) + 0.5).astype(np.intp)
    index -= np.array([part.start for part in region.box_zyx])
    inside = np.asarray(((index >= 0) & (index < region.crop_zyx.shape)).all(axis=1), np.bool_)
    inside[inside] = region.crop_zyx[tuple(index[inside].T)]
    return inside


def _within_box(points_mm: Points, around_mm: Points, margin_mm: float) -> Points:
    low, high = around_mm.min(axis=0) - margin_mm, around_mm.max(axis=0) + margin_mm
    inside: npt.NDArray[np.bool_] = ((points_mm >= low) & (points_mm <= high)).all(axis=1)
    return np.asarray(points_mm[inside], dtype=np.float64)


def surface_mm(region: Region) -> Points:
    """Return the RAS mm of the voxels of a region that have a face outside it, (n, 3)."""
    return region.grid.ras_mm(surface_index(region))


def surface_index(region: Region) -> npt.NDArray[np.intp]:
    """Return the (z, y, x) of the voxels of a region that have a face outside it, (n, 3)."""
    if region.box_zyx is None or region.crop_zyx is None:
        return np.zeros((0, 3), np.intp)
    from scipy.ndimage import binary_erosion

    crop = region.crop_zyx
    shell = crop & ~binary_erosion(crop)
    start = [part.start for part in region.box_zyx]
    return np.argwhere(shell) + np.array(start, dtype=np.intp)


def _shared_point(region: Region, other: Region) -> tuple[float, float, float] | None:
    """Return a voxel of ``region`` that lies in a voxel of ``other``, None where none does."""
    assert region.box_zyx is not None and region.crop_zyx is not None
    start = np.array([part.start for part in region.box_zyx])
    points_mm = region.grid.ras_mm(np.argwhere(region.crop_zyx) + start)
    hit = np.flatnonzero(holds(other, points_mm))
    return _point(points_mm[hit[0]]) if hit.size else None


def _point(at_mm: Points) -> tuple[float, float, float]:
    return float(at_mm[0]), float(at_mm[1]), float(at_mm[2])
