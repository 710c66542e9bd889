"""Bring values and regions from one grid to another through world coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import Region
from napari_ctvqa.core.geometry import SAME_GRID_VOXELS
from napari_ctvqa.core.regions import overlap_voxels, region_of

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import BoxZYX, Mask, Volume
    from napari_ctvqa.core.geometry import Affine, Grid

AIR_HU = -1024
PADDING_BELOW_HU = -1500
"""No tissue and no air is that low: what is, was written by a scanner or a converter."""


def resample_region(region: Region, onto: Grid) -> Region:
    """Return a region on another grid: each voxel of it asks the nearest voxel of the old one."""
    if region.box_zyx is None or region.crop_zyx is None:
        return Region(onto, None, None, 0)
    box = _target_box(region, onto)
    if box is None:
        return Region(onto, None, None, 0)
    matrix = region.grid.affine_ras_to_zyx @ onto.affine_zyx_to_ras
    turned = matrix[:3, :3] - np.diag(np.diag(matrix[:3, :3]))
    if np.abs(turned).max() * max(onto.shape_zyx) < SAME_GRID_VOXELS:
        inside = _nearest_along_axes(region, box, matrix)
    else:
        inside = _nearest(region, box, matrix)
    return region_of(inside, onto, (box[0].start, box[1].start, box[2].start))


def _nearest_along_axes(region: Region, box: BoxZYX, matrix: Affine) -> npt.NDArray[np.bool_]:
    """Return the box filled from a region whose axes run along the box's: one index an axis."""
    assert region.box_zyx is not None and region.crop_zyx is not None
    inside = np.zeros([part.stop - part.start for part in box], dtype=bool)
    at, index = [], []
    for axis, (part, own) in enumerate(zip(box, region.box_zyx, strict=True)):
        source = matrix[axis, axis] * np.arange(part.start, part.stop) + matrix[axis, 3]
        nearest = np.floor(source + 0.5).astype(np.intp) - own.start
        valid = (nearest >= 0) & (nearest < own.stop - own.start)
        at.append(np.flatnonzero(valid))
        index.append(nearest[valid])
    inside[np.ix_(*at)] = region.crop_zyx[np.ix_(*index)]
    return inside


def _nearest(region: Region, box: BoxZYX, matrix: Affine) -> npt.NDArray[np.bool_]:
    """Return the box filled voxel by voxel, a slice at a time to bound the memory."""
    assert region.box_zyx is not None and region.crop_zyx is not None
    inside = np.zeros([part.stop - part.start for part in box], dtype=bool)
    start = np.array([part.start for part in region.box_zyx])
    size = np.array(region.crop_zyx.shape)
    plane = np.stack(
        np.meshgrid(*(np.arange(s.start, s.stop) for s in box[1:]), indexing="ij"), axis=-1
    )
    for row, z in enumerate(range(box[0].start, box[0].stop)):
        source = plane @ matrix[:3, 1:3].T + (matrix[:3, 0] * z + matrix[:3, 3])
        index = np.floor(source + 0.5).astype(np.intp) - start
        valid = ((index >= 0) & (index < size)).all(axis=-1)
        found = index[valid]
        inside[row][valid] = region.crop_zyx[found[:, 0], found[:, 1], found[:, 2]]
    return inside


def resample_linear(
    array_zyx: npt.NDArray[np.generic], grid: Grid, onto: Grid
) -> npt.NDArray[np.generic]:
    """Return HU on another grid, linearly interpolated; air outside. Keeps the type."""
    from scipy import ndimage  # half a second to import, for the few grids that need it

    matrix = grid.affine_ras_to_zyx @ onto.affine_zyx_to_ras
    return np.asarray(
        ndimage.affine_transform(  # type: ignore[call-overload]
            array_zyx,
            matrix[:3, :3],
            offset=matrix[:3, 3],
            output_shape=onto.shape_zyx,
            order=1,
            mode="constant",
            cval=AIR_HU,
        )
    )


def hu_inside(volume: Volume, mask: Mask) -> npt.NDArray[np.generic]:
    """Return the HU under each voxel of a mask (1-D), on the mask's own grid: see ``hu_in``."""
    return hu_in(volume, mask.own_region)


def hu_in(volume: Volume, region: Region) -> npt.NDArray[np.generic]:
    """Return the HU under each voxel of a region (1-D), whatever grid it lies on.

    Where that is the CT's grid these are the CT's own values; elsewhere the CT is interpolated
    linearly at the region's voxel centres, and voxels outside the CT are left out.
    """
    return hu_sample(volume, region).values


@dataclass(frozen=True)
class HuSample:
    """HU under the voxels of a region, and which of them are none."""

    values: npt.NDArray[np.generic]
    padding: npt.NDArray[np.bool_] | None
    """Which values are, or were interpolated from, padding; None where there is none."""
    no_number: int
    """How many values rest on a voxel that holds no number in the file."""


def hu_sample(volume: Volume, region: Region) -> HuSample:
    """Return what ``hu_in`` returns, and what of it is padding or stands for no number."""
    if region.box_zyx is None or region.crop_zyx is None:
        nothing = np.zeros(0, dtype=volume.array_zyx.dtype)
        return HuSample(nothing, None, 0)
    if region.grid is volume.grid or region.grid.same_as(volume.grid):
        values = volume.array_zyx[region.box_zyx][region.crop_zyx]
        count = 0 if volume.no_number is None else overlap_voxels(region, [volume.no_number])
        lowest = float(values.min())  # first, so that the usual organ costs no second array
        padded = _padding(volume, values) if lowest <= padding_limit(volume) else None
        return HuSample(values, padded, count)
    from scipy import ndimage

    index = np.argwhere(region.crop_zyx) + [s.start for s in region.box_zyx]
    at = volume.grid.index_zyx(region.grid.ras_mm(index))
    last = np.array(volume.grid.shape_zyx) - 1
    at = at[((at > -0.5) & (at < last + 0.5)).all(axis=1)]
    values = np.asarray(
        ndimage.map_coordinates(  # type: ignore[call-overload]
            volume.array_zyx, at.T, output=np.float32, order=1, mode="nearest", prefilter=False
        )
    )
    padding, holes = _rests_on(volume, at)
    return HuSample(values, padding, int(np.count_nonzero(holes)))


def padding_limit(volume: Volume) -> float:
    """Return the value up to which a CT's values are padding."""
    return max(PADDING_BELOW_HU, volume.padding_hu or PADDING_BELOW_HU)


def _padding(volume: Volume, values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    return np.asarray(np.less_equal(values, padding_limit(volume)))  # type: ignore[call-overload]


def _rests_on(
    volume: Volume, at_zyx: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which points have padding, and which have no number, among the voxels around them."""
    padding, holes = np.zeros(len(at_zyx), bool), np.zeros(len(at_zyx), bool)
    last = np.array(volume.grid.shape_zyx) - 1
    low, high = np.floor(at_zyx + 1e-6), np.ceil(at_zyx - 1e-6)
    for ends in product((low, high), repeat=3):
        voxel = np.stack([end[:, axis] for axis, end in enumerate(ends)], axis=1)
        corner = np.clip(voxel, 0, last).astype(np.intp)
        z, y, x = corner.T
        padding |= _padding(volume, volume.array_zyx[z, y, x])
        if volume.no_number is not None:
            holes |= _inside(volume.no_number, corner)
    return padding, holes


def _inside(region: Region, index_zyx: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return which indices of the region's grid are among its voxels."""
    if region.box_zyx is None or region.crop_zyx is None:
        return np.zeros(len(index_zyx), bool)
    own = index_zyx - [part.start for part in region.box_zyx]
    valid = ((own >= 0) & (own < region.crop_zyx.shape)).all(axis=1)
    found = np.zeros(len(own), bool)
    z, y, x = own[valid].T
    found[valid] = region.crop_zyx[z, y, x]
    return found


def centroid_ras_mm(region: Region) -> npt.NDArray[np.float64] | None:
    """Return the mean of the voxel centres in RAS mm, (3,), or None for an empty region."""
    if region.box_zyx is None or region.crop_zyx is None:
        return None
    mean = []
    for axis, part in enumerate(region.box_zyx):
        other = tuple(a for a in range(3) if a != axis)
        counts = np.count_nonzero(region.crop_zyx, axis=other)
        mean.append(float(counts @ np.arange(part.start, part.stop)) / region.voxels)
    return region.grid.ras_mm(mean)


def grids_overlap(box: BoxZYX | None, grid: Grid, other: Grid) -> bool:
    """Return whether a box of one grid (all of it for None) reaches into another grid."""
    low, high = _reach(box or tuple(slice(0, n) for n in grid.shape_zyx), grid, other)  # type: ignore[arg-type]
    return bool((high > -0.5).all() and (low < np.array(other.shape_zyx) - 0.5).all())


def _target_box(region: Region, onto: Grid) -> BoxZYX | None:
    assert region.box_zyx is not None
    low, high = _reach(region.box_zyx, region.grid, onto)
    first = np.maximum(np.ceil(low - 1e-6).astype(int), 0)
    last = np.minimum(np.floor(high + 1e-6).astype(int), np.array(onto.shape_zyx) - 1)
    if (first > last).any():
        return None
    box = [slice(int(a), int(b) + 1) for a, b in zip(first, last, strict=True)]
    return box[0], box[1], box[2]


def _reach(box: BoxZYX, grid: Grid, other: Grid) -> tuple[Affine, Affine]:
    """Return the lowest and highest index in ``other`` of the box's outer faces."""
    corners = np.array(list(product(*((s.start - 0.5, s.stop - 0.5) for s in box))))
    there = other.index_zyx(grid.ras_mm(corners))
    return there.min(axis=0), there.max(axis=0)
