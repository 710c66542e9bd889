"""Paint masks into one label map a group: what is drawn, never what is measured."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.cases import LabelMap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.geometry import Grid

ORGANS, LESIONS = "organs", "lesions"


class LabelPainter:
    """One group's map, painted as masks arrive, in any order.

    Where masks overlap the smallest lies on top, whatever came first. The array is shared by all
    LabelMaps given out: it gains masks while it is drawn, and never loses any.
    """

    def __init__(self, group: str, grid: Grid, expected: int) -> None:
        self.group = group
        dtype: type[np.unsignedinteger] = np.uint8 if expected < 256 else np.uint16
        self._array = np.zeros(grid.shape_zyx, dtype)
        self._sizes = [np.iinfo(np.int64).max]
        self._structures: dict[int, str] = {}
        self._covered: dict[str, int] = {}

    def paint(self, mask: Mask) -> None:
        """Add one mask's voxels; an empty one only takes a value."""
        value = len(self._sizes)
        region = mask.region
        self._sizes.append(region.voxels)
        self._structures[value] = mask.structure
        if region.box_zyx is None or region.crop_zyx is None:
            return
        below = self._array[region.box_zyx]
        shared = region.crop_zyx & (below != 0)
        if not shared.any():
            np.copyto(below, self._array.dtype.type(value), where=region.crop_zyx)
            return
        old = below[shared]
        on_top = np.asarray(self._sizes)[old] > region.voxels
        np.copyto(below, self._array.dtype.type(value), where=region.crop_zyx & ~shared)
        below[shared] = np.where(on_top, value, old)
        self._cover(mask.structure, int(np.count_nonzero(~on_top)))
        for other, voxels in enumerate(np.bincount(old[on_top])):
            if voxels:
                self._cover(self._structures[other], int(voxels))

    def map(self) -> LabelMap:
        """Return the map as painted so far."""
        return LabelMap(
            self.group,
            self._array,
            MappingProxyType(dict(self._structures)),
            MappingProxyType(dict(self._covered)),
        )

    def _cover(self, structure: str, voxels: int) -> None:
        if voxels:
            self._covered[structure] = self._covered.get(structure, 0) + voxels


class CasePainter:
    """The label maps of one case: organs and lesions."""

    def __init__(self, grid: Grid, expected: int) -> None:
        self._grid, self._expected = grid, expected
        self._painters: dict[str, LabelPainter] = {}

    def paint(self, masks: Iterable[Mask]) -> None:
        """Add masks, each to its group."""
        for mask in masks:
            group = LESIONS if mask.lesion else ORGANS
            if group not in self._painters:
                self._painters[group] = LabelPainter(group, self._grid, self._expected)
            self._painters[group].paint(mask)

    def maps(self) -> dict[str, LabelMap]:
        """Return the maps by group, organs first."""
        return {g: self._painters[g].map() for g in (ORGANS, LESIONS) if g in self._painters}


def label_maps(masks: Iterable[Mask], grid: Grid) -> dict[str, LabelMap]:
    """Return the label maps of masks that are all at hand."""
    masks = list(masks)
    painter = CasePainter(grid, len(masks))
    painter.paint(masks)
    return painter.maps()
