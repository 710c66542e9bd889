"""MaskPlanes: all masks of a case as one colour picture, made plane by plane as it is looked at.

One napari layer then shows every source: a layer costs a slice 5 ms, whatever is in it. The colours
are those of ``plane_pictures``, so that all planes of a case agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.plane_pictures import masks_on_plane, row_and_column_axis

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ctvqa.core.label_styles import StyledLabels
    from napari_ctvqa.core.plane_pictures import Packed, Sheet

RGBA = npt.NDArray[np.uint8]

_BYTE, _EIGHT, _SIXTEEN = np.uint32(255), np.uint32(8), np.uint32(16)
_ALPHA_SHIFT = np.uint32(24)


class MaskPlanes:
    """A read-only (z, y, x, 4) uint8 picture of a box of the CT's grid: red, green, blue, alpha.

    Colours are not multiplied by alpha. Only planes are ever made: whatever else is asked for,
    such as all of it, comes as one voxel with nothing in it.

    Parameters
    ----------
    corner_zyx, shape_zyx
        Where the box begins on the display grid, and its size. Masks must lie inside it.
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(self, corner_zyx: tuple[int, int, int], shape_zyx: tuple[int, int, int]) -> None:
        self.corner = corner_zyx
        self.shape = (*shape_zyx, 4)
        self.size = int(np.prod(self.shape))
        self.sheets: tuple[Sheet, ...] = ()
        """What is drawn, from bottom to top."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> RGBA:
        parts = key if isinstance(key, tuple) else (key,)
        parts = (*parts[:3], *[slice(None)] * (3 - len(parts)))
        fixed = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
        if len(fixed) != 1:
            return np.zeros((1,) * (3 - len(fixed)) + (4,), np.uint8)
        axis = fixed[0]
        seen = tuple(part for part in parts if isinstance(part, slice))
        return self.plane(axis, int(parts[axis]))[seen]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> RGBA:
        """Refuse: 512 x 512 x 300 voxels would take 300 MB. Raises TypeError."""
        raise TypeError("the picture of all masks is drawn plane by plane: export masks instead")

    def plane(self, axis: int, inside: int) -> RGBA:
        """Return one plane (rows, columns, 4); ``inside`` counts from the box's corner."""
        row_axis, column_axis = row_and_column_axis(axis)
        shape = self.shape[row_axis], self.shape[column_axis]
        overlay = masks_on_plane(self.sheets, axis, inside + self.corner[axis])
        if overlay is None:
            return np.zeros((*shape, 4), np.uint8)
        plane = _straight(overlay.pixels)
        if plane.shape != shape:
            row = overlay.corner[0] - self.corner[row_axis]
            column = overlay.corner[1] - self.corner[column_axis]
            whole = np.zeros(shape, plane.dtype)
            whole[row : row + plane.shape[0], column : column + plane.shape[1]] = plane
            plane = whole
        return plane.view(np.uint8).reshape(*shape, 4)


def box_around(
    masks: Iterable[StyledLabels],
) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
    """Return corner and shape (z, y, x) of the smallest box around masks; None without any."""
    found = list(masks)
    if not found:
        return None
    low = np.min([labels.corner for labels in found], axis=0)
    high = np.max([np.add(labels.corner, labels.shape) for labels in found], axis=0)
    (z, y, x), (deep, tall, wide) = low.tolist(), (high - low).tolist()
    return (z, y, x), (deep, tall, wide)


def _straight_table() -> npt.NDArray[np.uint32]:
    """Return the channel that times alpha gives a channel, by ``alpha << 8 | channel``."""
    alpha, channel = np.divmod(np.arange(1 << 16), 256)
    return np.minimum(np.rint(channel * 255 / np.maximum(alpha, 1)), 255).astype(np.uint32)


_STRAIGHT = _straight_table()


def _straight(pixels: Packed) -> npt.NDArray[np.uint32]:
    """Return colours times alpha, 0xAARRGGBB, as the bytes red, green, blue, alpha, not times it.

    Written flat: by row and column it takes four times as long.
    """
    plane = np.zeros(pixels.size, "<u4")
    where = np.flatnonzero(pixels)
    packed = pixels.ravel().take(where)
    alpha = packed >> _ALPHA_SHIFT
    row = alpha << _EIGHT
    straight = alpha << _ALPHA_SHIFT
    straight |= _STRAIGHT.take(row | ((packed >> _SIXTEEN) & _BYTE))
    straight |= _STRAIGHT.take(row | ((packed >> _EIGHT) & _BYTE)) << _EIGHT
    straight |= _STRAIGHT.take(row | (packed & _BYTE)) << _SIXTEEN
    plane[where] = straight
    return plane.reshape(pixels.shape)
