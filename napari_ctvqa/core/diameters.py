"""Diameters of a region: the longest within one axial slice, its perpendicular, and the 3-D one.

scikit-image measures the largest Feret diameter of a 2-D shape in pixels of equal size; here
voxels may be of any size and the planes oblique, and the slice is wanted too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.geometry import Grid

_EQUAL_MM = 1e-6

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Diameter:
    """The longest distance within a slice, and where it lies.

    ``ends_ras_mm`` holds its two ends (half a voxel outside the outermost voxels' centres).
    ``perpendicular_mm`` is the outline's extent at a right angle to it, in the same slice.
    """

    length_mm: float
    display_slice: int
    ends_ras_mm: tuple[tuple[float, float, float], tuple[float, float, float]] = (
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    )
    perpendicular_mm: float = 0.0


def longest_axial_diameter(region: Region) -> Diameter | None:
    """Return the longest in-plane distance between two points of the outline, over all slices.

    The outline runs half-way between voxels inside and outside (contour level 0.5), as RadGPT's
    does; distances are taken in millimetres on the true grid. Of slices with equal lengths the one
    with the larger area is taken, then the more superior. None for an empty region.

    RadGPT resamples to 1 mm first, looks at the first contour of a slice only and cuts the length
    to whole mm; this does none of that: every point of the slice counts, exactly.
    """
    if region.box_zyx is None or region.crop_zyx is None:
        return None
    in_plane_mm = region.grid.affine_zyx_to_ras[:3, 1:3].T
    best_mm, best_voxels, best = -1.0, 0, -1
    for number, plane in enumerate(region.crop_zyx):
        voxels = int(np.count_nonzero(plane))
        if not voxels:
            continue
        points_mm = _outline(plane) @ in_plane_mm
        if np.linalg.norm(np.ptp(points_mm, axis=0)) < best_mm - _EQUAL_MM:
            continue  # the diagonal of its box is an upper bound
        length_mm = _farthest(_corners(points_mm))
        equal = abs(length_mm - best_mm) <= _EQUAL_MM
        if voxels > best_voxels if equal else length_mm > best_mm:
            best_mm, best_voxels, best = length_mm, voxels, number
    return _described(region, best)


def _described(region: Region, number: int) -> Diameter:
    """Return the longest diameter of one slice with its ends and its perpendicular."""
    assert region.box_zyx is not None and region.crop_zyx is not None
    z, y, x = (part.start for part in region.box_zyx)
    points = _outline(region.crop_zyx[number]) + np.array((y, x))
    index = np.insert(points, 0, z + number, axis=1)
    points_mm = _corners(region.grid.ras_mm(index))
    normal = _normal(region.grid)
    # of pairs equally far apart the one with the larger perpendicular, however a grid is turned
    found = [(_across(points_mm, a, b, normal), a, b) for a, b in _farthest_pairs(points_mm)]
    across_mm, first, second = max(found, key=lambda item: item[0])
    ends = (_point(first), _point(second))
    return Diameter(float(np.linalg.norm(second - first)), z + number, ends, across_mm)


def _across(points_mm: Points, first: Points, second: Points, normal: Points) -> float:
    """Return the extent of points at a right angle to a line, within the plane of a normal."""
    across = np.cross(normal, second - first)
    return float(np.ptp(points_mm @ (across / np.linalg.norm(across))))


def _normal(grid: Grid) -> Points:
    rows, columns = grid.affine_zyx_to_ras[:3, 1], grid.affine_zyx_to_ras[:3, 2]
    return np.cross(rows, columns)


def _point(at_mm: Points) -> tuple[float, float, float]:
    return float(at_mm[0]), float(at_mm[1]), float(at_mm[2])


def longest_diameter_3d_mm(region: Region) -> float | None:
    """Return the longest distance between two points of the surface, in mm; None when empty.

    The surface runs half a voxel beyond the outermost centres of every line of voxels, as in the
    slice's outline. PyRadiomics' maximum 3-D diameter is taken on such a surface too; SimpleITK's
    Feret diameter runs between voxel centres and is shorter by about a voxel.
    """
    if region.crop_zyx is None:
        return None
    points_mm = _surface(region.crop_zyx) @ region.grid.affine_zyx_to_ras[:3, :3].T
    return _farthest(_hull(points_mm))


def _surface(crop: npt.NDArray[np.bool_]) -> Points:
    """Return the outermost points of every line of voxels along each of the three axes."""
    found = []
    for axis in range(3):
        lines = np.moveaxis(crop, axis, 2)
        hit = lines.any(axis=2)
        first = lines.argmax(axis=2)[hit] - 0.5
        last = crop.shape[axis] - 0.5 - lines[:, :, ::-1].argmax(axis=2)[hit]
        at = np.argwhere(hit)
        for position in (first, last):
            found.append(np.insert(at.astype(np.float64), axis, position, axis=1))
    return np.concatenate(found)


def _outline(plane: npt.NDArray[np.bool_]) -> Points:
    """Return (y, x) of the outline's outermost points: half a voxel beyond each row and column."""
    rows = [(y, x) for y, x in _ends(plane)]
    columns = [(y, x) for x, y in _ends(plane.T)]
    return np.array([*rows, *columns])


def _ends(plane: npt.NDArray[Any]) -> list[tuple[float, float]]:
    """Return (line, position) half a step before the first and after the last set item of lines."""
    lines = np.flatnonzero(plane.any(axis=1))
    first = plane[lines].argmax(axis=1) - 0.5
    last = plane.shape[1] - plane[lines][:, ::-1].argmax(axis=1) - 0.5
    ends = [*zip(lines, first, strict=True), *zip(lines, last, strict=True)]
    return [(float(line), float(position)) for line, position in ends]


def _corners(points_mm: Points) -> Points:
    """Return the corners of a slice's convex hull; the longest distance lies between two."""
    if len(points_mm) <= 16:
        return points_mm
    # in the plane's own two directions: three world coordinates would make the hull flat
    flat = np.linalg.svd(points_mm - points_mm.mean(axis=0), full_matrices=False)
    in_plane = (points_mm - points_mm.mean(axis=0)) @ flat[2][:2].T
    return points_mm[_vertices(in_plane)]


def _hull(points_mm: Points) -> Points:
    return points_mm[_vertices(points_mm)] if len(points_mm) > 32 else points_mm


def _vertices(points: Points) -> npt.NDArray[np.intp]:
    from scipy.spatial import ConvexHull

    return np.asarray(ConvexHull(points).vertices, dtype=np.intp)


def _farthest(points_mm: Points) -> float:
    """Return the longest distance between two of the points."""
    from scipy.spatial.distance import pdist

    return float(pdist(points_mm).max())


def _farthest_pairs(points_mm: Points) -> list[tuple[Points, Points]]:
    """Return every pair of the points that are farthest apart."""
    from scipy.spatial.distance import pdist, squareform

    apart = squareform(pdist(points_mm))
    pairs = np.argwhere(np.triu(apart >= apart.max() - _EQUAL_MM, 1))
    return [(points_mm[a], points_mm[b]) for a, b in pairs]
