"""Regions: sets of voxels kept as a box and the voxels inside it, and the algebra on boxes.

All work is done on boxes, so that a small lesion in a large volume costs what the lesion costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import cc3d
import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import BoxZYX, Region

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.geometry import Grid

BoolArray = npt.NDArray[np.bool_]


def empty_region(grid: Grid) -> Region:
    """Return the region of that grid with no voxel."""
    return Region(grid, None, None, 0)


def region_of(
    inside_zyx: npt.NDArray[Any], grid: Grid, start_zyx: tuple[int, int, int] = (0, 0, 0)
) -> Region:
    """Return the region of an array's non-zero voxels, cut to its bounding box.

    ``inside_zyx`` may be a part of the grid; ``start_zyx`` says where that part begins.

    Raises
    ------
    ValueError
        When the array reaches beyond the grid.
    """
    ends = [start + size for start, size in zip(start_zyx, inside_zyx.shape, strict=True)]
    if any(end > size for end, size in zip(ends, grid.shape_zyx, strict=True)):
        raise ValueError(f"array of shape {inside_zyx.shape} on a grid of {grid.shape_zyx}")
    whole: BoolArray = inside_zyx if inside_zyx.dtype == np.bool_ else inside_zyx != 0
    ranges: list[slice] = []
    for axis in range(3):
        others = tuple(a for a in range(3) if a != axis)
        hit = np.flatnonzero(whole.any(axis=others))
        if not hit.size:
            return empty_region(grid)
        ranges.append(slice(int(hit[0]), int(hit[-1]) + 1))
    crop = np.ascontiguousarray(whole[tuple(ranges)])
    z, y, x = (
        slice(s.start + start, s.stop + start) for s, start in zip(ranges, start_zyx, strict=True)
    )
    return Region(grid, (z, y, x), crop, int(np.count_nonzero(crop)))


def same_grid(a: Grid, b: Grid) -> bool:
    """Return whether two grids have the same voxels."""
    return a is b or a.same_as(b)


def slices_of(region: Region, axis: int = 0) -> npt.NDArray[np.intp]:
    """Return the display indices along ``axis`` where the region has voxels, ascending."""
    if region.box_zyx is None or region.crop_zyx is None:
        return np.zeros(0, np.intp)
    others = tuple(a for a in range(3) if a != axis)
    start: int = region.box_zyx[axis].start
    return np.flatnonzero(region.crop_zyx.any(axis=others)) + start


@dataclass(frozen=True, eq=False)
class Components:
    """The 26-connected components of a region, largest first.

    ``labels_zyx`` has the shape of the region's box; component ``n`` (0-based) is where it equals
    ``values[n]``; ``voxels[n]`` is its size. Equal sizes: the more superior one first.
    """

    region: Region
    labels_zyx: npt.NDArray[np.unsignedinteger[Any]]
    values: tuple[int, ...]
    voxels: tuple[int, ...]
    boxes_zyx: tuple[BoxZYX, ...]
    """The box of each component within ``labels_zyx``."""

    def __len__(self) -> int:
        return len(self.values)

    def region_of(self, number: int) -> Region:
        """Return one component as a region of its own."""
        outer, inner = self.region.box_zyx, self.boxes_zyx[number]
        assert outer is not None
        crop: BoolArray = self.labels_zyx[inner] == self.values[number]
        z, y, x = (
            slice(at.start + part.start, at.start + part.stop)
            for at, part in zip(outer, inner, strict=True)
        )
        return Region(self.region.grid, (z, y, x), crop, self.voxels[number])


def components(region: Region) -> Components:
    """Return the 26-connected components (voxels that share a face, an edge or a corner)."""
    if region.crop_zyx is None:
        return Components(region, np.zeros((0, 0, 0), np.uint8), (), (), ())
    # cc3d takes too little room for the labels of thin boxes ("maximum length exception", and a
    # line on stdout) where voxels stand at their ends; a margin of nothing gives it enough
    padded = np.pad(region.crop_zyx, 1)
    labels, count = cc3d.connected_components(padded, connectivity=26, return_N=True)
    inner = labels[1:-1, 1:-1, 1:-1]
    if count == 1:  # the usual organ: no second pass over its voxels
        depth, height, width = region.crop_zyx.shape
        whole = (slice(0, depth), slice(0, height), slice(0, width))
        return Components(region, inner, (1,), (region.voxels,), (whole,))
    found = cc3d.statistics(labels)
    sizes, boxes = found["voxel_counts"], found["bounding_boxes"]
    order = sorted(
        range(1, len(sizes)), key=lambda value: (-int(sizes[value]), boxes[value][0].start)
    )
    return Components(
        region,
        inner,
        tuple(order),
        tuple(int(sizes[value]) for value in order),
        tuple(_without_margin(boxes[value]) for value in order),
    )


def _without_margin(box: BoxZYX) -> BoxZYX:
    z, y, x = (slice(part.start - 1, part.stop - 1) for part in box)
    return (z, y, x)


def largest_component(region: Region) -> Region:
    """Return the largest 26-connected component; of equal ones the most superior."""
    found = components(region)
    if len(found) <= 1:
        return region
    return found.region_of(0)


def focus_slice(region: Region) -> int:
    """Return the display z index where the region's largest component has its largest area.

    The largest 26-connected 3-D component decides, so that a mask with a gap never leads to an
    empty slice; of slices with equal area the most superior (smallest z) is taken.

    Raises
    ------
    ValueError
        When the region is empty: there is no slice to show.
    """
    return largest_slice_of(region, 0)


def largest_slice_of(region: Region, axis: int) -> int:
    """Return the display index along ``axis`` where the largest component has its largest area.

    Raises
    ------
    ValueError
        When the region is empty.
    """
    if region.empty:
        raise ValueError("an empty region has no slice")
    part = largest_component(region)
    assert part.box_zyx is not None and part.crop_zyx is not None
    others = tuple(a for a in range(3) if a != axis)
    area_voxels = np.count_nonzero(part.crop_zyx, axis=others)
    return int(part.box_zyx[axis].start + np.argmax(area_voxels))


def union(regions: Sequence[Region]) -> Region:
    """Return the voxels of any of the regions, which must be of one grid.

    Raises
    ------
    ValueError
        For no region, or regions of different grids.
    """
    if not regions:
        raise ValueError("no region to unite")
    grid = regions[0].grid
    if not all(same_grid(grid, region.grid) for region in regions):
        raise ValueError("regions of different grids")
    filled = [region for region in regions if not region.empty]
    if len(filled) <= 1:
        return filled[0] if filled else regions[0]
    box = reduce(_hull, (r.box_zyx for r in filled if r.box_zyx is not None))
    crop = np.zeros(_shape(box), np.bool_)
    for region in filled:
        assert region.box_zyx is not None and region.crop_zyx is not None
        crop[_relative(region.box_zyx, box)] |= region.crop_zyx
    return Region(grid, box, crop, int(np.count_nonzero(crop)))


def together(masks: Sequence[Mask]) -> Region:
    """Return the union of the masks, on their own grid where they share one, else on the CT's."""
    own = [mask.own_region for mask in masks]
    if all(same_grid(own[0].grid, region.grid) for region in own):
        return union(own)
    return union([mask.region for mask in masks])


def difference(region: Region, others: Sequence[Region]) -> Region:
    """Return the region's voxels that are in none of the others (one grid).

    Raises
    ------
    ValueError
        For regions of different grids.
    """
    if not all(same_grid(region.grid, other.grid) for other in others):
        raise ValueError("regions of different grids")
    if region.box_zyx is None or region.crop_zyx is None:
        return region
    crop: BoolArray | None = None
    for other in others:
        shared = _overlap(region.box_zyx, other.box_zyx)
        if shared is None or other.box_zyx is None or other.crop_zyx is None:
            continue
        crop = region.crop_zyx.copy() if crop is None else crop
        crop[_relative(shared, region.box_zyx)] &= ~other.crop_zyx[_relative(shared, other.box_zyx)]
    if crop is None:
        return region
    start = (region.box_zyx[0].start, region.box_zyx[1].start, region.box_zyx[2].start)
    return region_of(crop, region.grid, start)


def overlap_voxels(region: Region, others: Sequence[Region]) -> int:
    """Return how many voxels of a region lie in any of the others (one grid).

    Raises
    ------
    ValueError
        For regions of different grids.
    """
    return region.voxels - difference(region, others).voxels


def shared_voxels(region: Region, other: Region) -> int:
    """Return how many voxels two regions have in common (one grid).

    Raises
    ------
    ValueError
        For regions of different grids.
    """
    if not same_grid(region.grid, other.grid):
        raise ValueError("regions of different grids")
    if region.box_zyx is None or region.crop_zyx is None:
        return 0
    shared = _overlap(region.box_zyx, other.box_zyx)
    if shared is None or other.box_zyx is None or other.crop_zyx is None:
        return 0
    here = region.crop_zyx[_relative(shared, region.box_zyx)]
    return int(np.count_nonzero(here & other.crop_zyx[_relative(shared, other.box_zyx)]))


def _shape(box: BoxZYX) -> tuple[int, int, int]:
    z, y, x = box
    return (z.stop - z.start, y.stop - y.start, x.stop - x.start)


def _hull(a: BoxZYX, b: BoxZYX) -> BoxZYX:
    z, y, x = (slice(min(p.start, q.start), max(p.stop, q.stop)) for p, q in zip(a, b, strict=True))
    return (z, y, x)


def _overlap(a: BoxZYX, b: BoxZYX | None) -> BoxZYX | None:
    if b is None:
        return None
    z, y, x = (slice(max(p.start, q.start), min(p.stop, q.stop)) for p, q in zip(a, b, strict=True))
    return (z, y, x) if all(s.start < s.stop for s in (z, y, x)) else None


def _relative(box: BoxZYX, to: BoxZYX) -> BoxZYX:
    z, y, x = (slice(p.start - q.start, p.stop - q.start) for p, q in zip(box, to, strict=True))
    return (z, y, x)
