"""Bounding boxes of regions, in every order that somebody counts in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region

Ends = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Box:
    """The smallest box around a region, as half-open index ranges and in millimetres.

    ``display_zyx`` is (z0, z1, y0, y1, x0, x1) in display order; ``file_ijk`` in the file's own
    order; ``ras_xyz`` counted along x to the right, y to anterior and z to superior.
    ``size_mm_zyx`` are the edge lengths along the display axes, outer face to outer face;
    ``low_ras_mm`` and ``high_ras_mm`` the smallest and largest world coordinates of its corners.
    """

    display_zyx: Ends
    file_ijk: Ends
    ras_xyz: Ends
    size_mm_zyx: tuple[float, float, float]
    low_ras_mm: tuple[float, float, float]
    high_ras_mm: tuple[float, float, float]


def bounding_box(region: Region) -> Box | None:
    """Return the box around a region; None for an empty one.

    On an oblique grid the world coordinates of the box reach farther than the region's own.
    """
    if region.box_zyx is None:
        return None
    grid = region.grid
    display = _ends([(part.start, part.stop) for part in region.box_zyx])
    # RAS axes run against the display axes, so a half-open range turns round with its ends
    turned = [
        (size - part.stop, size - part.start)
        for part, size in zip(region.box_zyx, grid.shape_zyx, strict=True)
    ]
    sides = zip(region.box_zyx, grid.spacing_mm_zyx, strict=True)
    z_mm, y_mm, x_mm = ((part.stop - part.start) * spacing for part, spacing in sides)
    faces = ((part.start - 0.5, part.stop - 0.5) for part in region.box_zyx)
    corners = grid.ras_mm(np.array(list(product(*faces))))
    low, high = corners.min(axis=0), corners.max(axis=0)
    file_ijk = bbox_ijk(region)
    assert file_ijk is not None
    return Box(
        display,
        _ends([(file_ijk[n], file_ijk[n + 1]) for n in (0, 2, 4)]),
        _ends(turned[::-1]),
        (z_mm, y_mm, x_mm),
        (float(low[0]), float(low[1]), float(low[2])),
        (float(high[0]), float(high[1]), float(high[2])),
    )


def _ends(ranges: list[tuple[int, int]]) -> Ends:
    (a, b), (c, d), (e, f) = ranges
    return (a, b, c, d, e, f)


def bbox_ijk(region: Region) -> list[int] | None:
    """Return the box in the file's own voxel indices, half-open; None for an empty region.

    ``[i0, i1, j0, j1, k0, k1]``.
    """
    if region.box_zyx is None:
        return None
    ends = [[side.start for side in region.box_zyx], [side.stop - 1 for side in region.box_zyx]]
    corners = np.rint(region.grid.file_index_ijk(ends)).astype(int)
    low, high = corners.min(axis=0), corners.max(axis=0) + 1
    return [int(value) for pair in zip(low, high, strict=True) for value in pair]
