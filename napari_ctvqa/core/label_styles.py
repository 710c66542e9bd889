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

_DASHES = {"dashed": (6, 3), "dotted": (2, 1), "long dashes": (10, 7)}
"""Outlines with gaps: voxels from dash to dash along a diagonal, and those of the dash."""
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
        self.hidden: frozenset[int] = frozenset()
        """Values that are not drawn; what they lie over is."""
        self.covered: tuple[tuple[int, Region], ...] = ()
        """Masks that others lie over, by value, largest first: seen through what is above them."""
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
            part = np.ascontiguousarray(part)  # a sagittal one is read several times below
        if part.dtype != self.dtype:
            part = part.astype(self.dtype)
        if self.hidden:
            part = self._without_hidden(part, key)
        if part.ndim != 2:
            return part
        styled = styled_plane(part, self.edge_offset, self.look)
        self._show_covered(styled, part, key)
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
        plane = np.asarray(np.take(self._labels, inside, axis=axis))
        return self._without_hidden(plane, _plane_key(axis, inside)) if self.hidden else plane

    def shows(self, labels: npt.NDArray[Any]) -> bool:
        """Return whether this is a view of that very array."""
        return self._labels is labels

    def covered_on(self, axis: int, index: int) -> dict[int, int]:
        """Return how many voxels each covered mask that is drawn has on a plane, by value."""
        key = _plane_key(axis, index - self.corner[axis])
        planes = {value: self._shared(region, key) for value, region in self._seen_below()}
        return {v: int(np.count_nonzero(found[1])) for v, found in planes.items() if found}

    def _seen_below(self) -> list[tuple[int, Region]]:
        return [(value, region) for value, region in self.covered if value not in self.hidden]

    def _without_hidden(self, part: Labels, key: Any) -> Labels:
        """Return labels without the hidden ones; what those lay over comes to light."""
        kept = np.arange(np.iinfo(part.dtype).max + 1, dtype=part.dtype)
        kept[list(self.hidden)] = 0
        shown = kept.take(part)
        below = self._seen_below()
        if not below:
            return np.asarray(shown)
        bared = (part != 0) & (shown == 0)
        for value, region in below:
            found = self._shared(region, key)
            if found is not None:
                here, crop = found
                shown[here][crop & bared[here]] = value
        return np.asarray(shown)

    def _show_covered(self, styled: Labels, part: Labels, key: Any) -> None:
        """Draw what lies below other masks: its outline over theirs, or a hatch without one."""
        for value, region in self._seen_below():
            found = self._shared(region, key)
            if found is None:
                continue
            here, crop = found
            plane = np.ascontiguousarray(crop)
            below = part[here] != value
            if self.look.outline == "none":
                styled[here][plane & below & _pattern(plane.shape, "hatch")] = value
                continue
            edge = outline(plane.view(np.uint8)) & below & (styled[here] < self.edge_offset)
            if self.look.outline in _DASHES:
                edge &= _dashes(plane.shape, self.look.outline)
            styled[here][edge] = value + self.edge_offset

    def _cut(self, styled: Labels, key: Any) -> None:
        """Blank the hole's voxels in a whole plane that was read with ``key``."""
        found = None if self.hole is None else self._shared(self.hole, key)
        if found is not None:
            styled[found[0]][found[1]] = 0

    def _shared(self, region: Region, key: Any) -> tuple[tuple[slice, ...], Any] | None:
        """Return where a region lies in what was read with ``key``, and its voxels there.

        None where it has no part in it. ``key`` is what napari asks with: whole numbers and whole
        slices, by axis.
        """
        if region.box_zyx is None or region.crop_zyx is None:
            return None
        there: list[Any] = []
        here: list[slice] = []
        parts = key if isinstance(key, tuple) else (key,)  # napari looks at data[0] of a new layer
        for axis, part in enumerate((*parts, *[slice(None)] * (3 - len(parts)))):
            start, stop = region.box_zyx[axis].start, region.box_zyx[axis].stop
            begin, size = self.corner[axis], self.shape[axis]
            if isinstance(part, slice):
                low, high = max(start, begin), min(stop, begin + size)
                if low >= high:
                    return None
                there.append(slice(low - start, high - start))
                here.append(slice(low - begin, high - begin))
            elif start <= part + begin < stop:
                there.append(part + begin - start)
            else:
                return None
        return tuple(here), region.crop_zyx[tuple(there)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the plain labels, without outlines."""
        if self.hidden:
            return np.asarray(self[:, :, :], dtype=dtype or self.dtype)
        return np.array(self._labels, dtype=dtype or self.dtype, copy=copy or None)


def _plane_key(axis: int, inside: int) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * 3
    key[axis] = inside
    return tuple(key)


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
    if look.outline in _DASHES:
        edge &= _dashes(plane.shape, look.outline)
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


def _dashes(shape: tuple[int, ...], kind: str) -> npt.NDArray[np.bool_]:
    period, dash = _DASHES[kind]
    return np.asarray(_diagonal(shape) % period < dash)


def _pattern(shape: tuple[int, ...], kind: str) -> npt.NDArray[np.bool_]:
    lines = np.asarray(_diagonal(shape) % _HATCH_VOXELS == 0)
    return lines | lines[:, ::-1] if kind == "cross" else lines
