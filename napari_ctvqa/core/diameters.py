"""The longest diameter of a region within one axial slice.

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

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Diameter:
    """The longest distance within a slice, and the display z index of that slice."""

    length_mm: float
    display_slice: int


def longest_axial_diameter(region: Region) -> Diameter | None:
    """Return the longest in-plane distance between two points of the outline, over all slices.

    The outline runs half-way between voxels inside and outside (contour level 0.5), as RadGPT's
    does; distances are taken in millimetres on the true grid. Of slices with equal lengths the most
    superior is taken. None for an empty region.

    RadGPT resamples to 1 mm first, looks at the first contour of a slice only and cuts the length
    to whole mm; this does none of that.
    """
    if region.box_zyx is None or region.crop_zyx is None:
        return None
    in_plane_mm = region.grid.affine_zyx_to_ras[:3, 1:3].T
    best = Diameter(-1.0, -1)
    for number, plane in enumerate(region.crop_zyx):
        if not plane.any():
            continue
        points_mm = _outline(plane) @ in_plane_mm
        if np.linalg.norm(np.ptp(points_mm, axis=0)) <= best.length_mm:
            continue  # the diagonal of its box is an upper bound
        length_mm = _longest(_corners(points_mm))
        if length_mm > best.length_mm + 1e-9:
            best = Diameter(length_mm, region.box_zyx[0].start + number)
    return best


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
    """Return the corners of the convex hull; the longest distance lies between two of them."""
    from scipy.spatial import ConvexHull

    if len(points_mm) <= 16:
        return points_mm
    # in the plane's own two directions: three world coordinates would make the hull flat
    flat = np.linalg.svd(points_mm - points_mm.mean(axis=0), full_matrices=False)
    in_plane = (points_mm - points_mm.mean(axis=0)) @ flat[2][:2].T
    return points_mm[ConvexHull(in_plane).vertices]


def _longest(points_mm: Points) -> float:
    apart = points_mm[:, None, :] - points_mm[None, :, :]
    return float(np.sqrt(np.einsum("ijk,ijk->ij", apart, apart).max()))
