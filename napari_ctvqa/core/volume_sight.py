"""What a volume model could see of a mask: how much was in its grid, and how small it got there.

Lesions are looked at one by one: of five in one mask, four may vanish between the model's voxels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.names import is_lesion, label
from napari_ctvqa.core.regions import components, same_grid
from napari_ctvqa.core.saw import Sight

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Mask, Region
    from napari_ctvqa.core.chains import EvidenceChain
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.model_volumes import ModelVolume

FEWEST_VOXELS = 2
"""A lesion that fewer of the model's voxels have their centre in is lost in its grid."""
MOST = 200
"""Regions that are looked at; the largest components of each mask come first."""


@dataclass(frozen=True, slots=True)
class SeenInVolume:
    """What was in a model's volume of one region.

    ``voxels`` and ``voxels_sent`` are the CT's, of all and of those within what was taken;
    ``model_voxels`` counts the model's voxels whose centre lies in it, ``mm3`` is its size.
    """

    name: str
    sight: Sight
    voxels: int = 0
    voxels_sent: int = 0
    model_voxels: int = 0
    mm3: float = 0.0

    @property
    def warns(self) -> bool:
        """Return whether a reader should be warned."""
        return self.sight not in (Sight.WHOLE, Sight.EMPTY)

    @property
    def text(self) -> str:
        """Return one sentence for the reader, without a full stop."""
        if self.sight is Sight.EMPTY:
            return f"{self.name}: the mask is empty"
        if self.sight is Sight.UNKNOWN:
            return f"{self.name}: lies on another grid, cannot be compared with the volume"
        size = f"{self.name} ({self.mm3:.3g} mm³)"
        if not self.voxels_sent:
            return f"{size}: outside of what the model was given"
        if not self.model_voxels:
            return f"{size}: falls between the model's voxels"
        count = f"{self.model_voxels} of the model's voxels"
        if self.sight is Sight.SMALL:
            return f"{size}: {count}"
        share = 100 * self.voxels_sent / self.voxels
        return f"{size}: {count}, {share:.3g} % of it"


def seen_in_volume(
    masks: Sequence[tuple[str, Region]], volume: ModelVolume, grid: Grid
) -> tuple[SeenInVolume, ...]:
    """Return for each named region of the display grid what the volume shows of it."""
    return tuple(_seen(name, region, volume, grid) for name, region in masks[:MOST])


def seen_of_case(
    chain: EvidenceChain | None, masks: Mapping[str, Mask], volume: ModelVolume, grid: Grid
) -> tuple[SeenInVolume, ...]:
    """Return what the volume shows of a chain's masks, then of every lesion of the case.

    A lesion mask is taken apart into its 26-connected components.
    """
    named = () if chain is None else tuple(n for s in chain.steps for n in (s.mask, s.other) if n)
    order = dict.fromkeys((*named, *masks))
    regions = list(islice(_regions(order, masks, frozenset(named)), MOST))
    return seen_in_volume(regions, volume, grid)


def _regions(
    order: Mapping[str, None], masks: Mapping[str, Mask], named: frozenset[str]
) -> Iterator[tuple[str, Region]]:
    for name in order:
        mask = masks.get(name)
        if mask is None:
            continue
        lesion = mask.lesion or is_lesion(mask.structure)
        if not lesion and name in named:
            yield label(name), mask.region
        elif lesion and not mask.region.empty:
            parts = components(mask.region)
            for number in range(len(parts)):
                of = f", {number + 1} of {len(parts)}" if len(parts) > 1 else ""
                yield f"{label(name)}{of}", parts.region_of(number)


def _seen(name: str, region: Region, volume: ModelVolume, grid: Grid) -> SeenInVolume:
    box, crop = region.box_zyx, region.crop_zyx
    if box is None or crop is None:
        return SeenInVolume(name, Sight.EMPTY)
    mm3 = region.voxels * grid.voxel_mm3
    if not same_grid(region.grid, grid):
        return SeenInVolume(name, Sight.UNKNOWN, region.voxels, mm3=mm3)
    inside, centres = [], []
    for axis in range(3):
        within, at = _along(volume, axis, box[axis])
        inside.append(within)
        centres.append(at)
    sent = int(np.count_nonzero(crop[np.ix_(*inside)]))
    cells = int(np.count_nonzero(crop[np.ix_(*centres)]))
    return SeenInVolume(name, _sight(region.voxels, sent, cells), region.voxels, sent, cells, mm3)


def _along(
    volume: ModelVolume, axis: int, part: slice
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return which voxels of a box, along one display axis, were taken and which are sampled.

    Both count from the box's first voxel. Sampled are those that the centre of a model voxel lies
    in, each as often as one does.
    """
    model_axis = volume.display_axis.index(axis)
    low, high = volume.inner[model_axis]
    line = np.zeros((part.stop - part.start, 3))
    line[:, axis] = np.arange(part.start, part.stop)
    at = volume.voxel(line)[:, model_axis]
    within = np.flatnonzero((at >= low - 0.5) & (at < high - 0.5))
    cells = np.zeros((high - low, 3))
    cells[:, model_axis] = np.arange(low, high)
    voxels = np.floor(volume.index_zyx(cells)[:, axis] + 0.5).astype(np.intp) - part.start
    return within, voxels[(voxels >= 0) & (voxels < part.stop - part.start)]


def _sight(voxels: int, sent: int, cells: int) -> Sight:
    if not sent or not cells:
        return Sight.NOT
    if cells < FEWEST_VOXELS:
        return Sight.SMALL
    return Sight.WHOLE if sent == voxels else Sight.PARTLY
