"""StyledLabels: a label array that draws outlines and patterns slice by slice, as it is looked at.

One napari layer then shows fill and outline of every mask together: a plane read from it holds
``value`` inside a mask and ``value + edge_offset`` on its outline, and the layer's colour table
has a row for each. Only the plane on screen is ever computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.colours import RGB, Look

Labels = npt.NDArray[np.unsignedinteger]

_DASH_VOXELS = 3
_HATCH_VOXELS = 4


class StyledLabels:
    """A read-only view of a label array; planes come with their outline, volumes without.

    Parameters
    ----------
    labels
        Boolean, uint8 or uint16, (z, y, x). Never copied, except when its values need a wider
        type to make room for the outlines.
    table
        The name and colour of every value in ``labels``.
    look
        How the masks are drawn.
    """

    def __init__(
        self, labels: npt.NDArray[Any], table: Mapping[int, tuple[str, RGB]], look: Look
    ) -> None:
        wide = max(table, default=0) > 127
        self.table = table
        self.edge_offset = 32768 if wide else 128
        self.look = look
        self.corner: tuple[int, int, int] = (0, 0, 0)
        """Where the array begins on the grid that ``hole`` lies on, (z, y, x)."""
        self.hole: Region | None = None
        """Voxels to leave out: those of a mask that stands out on its own."""
        self._labels = labels.view(np.uint8) if labels.dtype == bool else labels
        self.dtype = np.dtype(np.uint16 if wide else np.uint8)
        self.shape = self._labels.shape
        self.ndim = self._labels.ndim
        self.size = self._labels.size
        self.nbytes = self._labels.nbytes

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        part = np.asarray(self._labels[key])
        if part.ndim == 2:
            part = np.ascontiguousarray(
                part
            )  # a sagittal plane is read several times: once is slow
        if part.dtype != self.dtype:
            part = part.astype(self.dtype)
        if part.ndim != 2:
            return part
        styled = styled_plane(part, self.edge_offset, self.look)
        if self.hole is not None:
            self._cut(styled, key)
        return styled

    def plain_plane(self, axis: int, index: int) -> Labels:
        """Return the labels of one plane without outlines; ``index`` counts on the whole grid.

        Empty beyond the array.
        """
        inside = index - self.corner[axis]
        if not 0 <= inside < self.shape[axis]:
            return np.zeros((0, 0), self.dtype)
        return np.asarray(np.take(self._labels, inside, axis=axis))

    def _cut(self, styled: Labels, key: Any) -> None:
        """Blank the hole's voxels in a whole plane that was read with ``key``."""
        hole = self.hole
        if hole is None or hole.box_zyx is None or hole.crop_zyx is None:
            return
        there: list[Any] = []
        here: list[slice] = []
        parts = key if isinstance(key, tuple) else (key,)  # napari looks at data[0] of a new layer
        for axis, part in enumerate((*parts, *[slice(None)] * (3 - len(parts)))):
            start, stop = hole.box_zyx[axis].start, hole.box_zyx[axis].stop
            begin, size = self.corner[axis], self.shape[axis]
            if isinstance(part, slice):
                low, high = max(start, begin), min(stop, begin + size)
                if low >= high:
                    return
                there.append(slice(low - start, high - start))
                here.append(slice(low - begin, high - begin))
            elif start <= part + begin < stop:
                there.append(part + begin - start)
            else:
                return
        styled[tuple(here)][hole.crop_zyx[tuple(there)]] = 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the plain labels, without outlines."""
        return np.array(self._labels, dtype=dtype or self.dtype, copy=copy or None)


def styled_plane(plane: Labels, edge_offset: int, look: Look) -> Labels:
    """Return a copy of a label plane with ``edge_offset`` added on outlines, patterns cut out.

    The outline is the outermost voxel inside each mask; outside the array nothing is set, so a
    mask that touches its border is closed there.
    """
    inside = plane != 0
    styled = plane.copy()
    edge = outline(plane) if look.outline != "none" else np.zeros(plane.shape, bool)
    if look.fill in ("hatch", "cross"):
        styled[inside & ~edge & ~_pattern(plane.shape, look.fill)] = 0
    elif look.fill == "none":
        styled[~edge] = 0
    if look.outline == "dashed":
        edge &= _dashes(plane.shape)
    styled[edge] += styled.dtype.type(edge_offset)
    return styled


def outline(plane: Labels) -> npt.NDArray[np.bool_]:
    """Return the voxels of each mask that have a 4-neighbour outside that mask."""
    edge = np.zeros(plane.shape, bool)
    rows = plane[1:] != plane[:-1]
    columns = plane[:, 1:] != plane[:, :-1]
    edge[1:] |= rows
    edge[:-1] |= rows
    edge[:, 1:] |= columns
    edge[:, :-1] |= columns
    edge[[0, -1]] = True
    edge[:, [0, -1]] = True
    edge &= plane != 0
    return edge


def _diagonal(shape: tuple[int, ...]) -> npt.NDArray[np.intp]:
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.asarray(rows + columns)


def _dashes(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    return np.asarray(_diagonal(shape) // _DASH_VOXELS % 2 == 0)


def _pattern(shape: tuple[int, ...], kind: str) -> npt.NDArray[np.bool_]:
    lines = np.asarray(_diagonal(shape) % _HATCH_VOXELS == 0)
    return lines | lines[:, ::-1] if kind == "cross" else lines
