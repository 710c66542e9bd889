"""What a model could see of a mask: whether its slices were sent, and how small it got there.

Plain records for the pane that shows what the model saw; nothing here judges an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.names import label
from napari_ctvqa.core.regions import same_grid, slices_of

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Picture
    from napari_ctvqa.core.cases import Mask, Region
    from napari_ctvqa.core.chains import EvidenceChain
    from napari_ctvqa.core.geometry import Grid

SMALLEST_PX = 2.0
"""A mask narrower than this in its best picture is hardly to be seen."""

ModelSize = Callable[["Picture"], tuple[int, int]]
"""From a picture to (rows, columns) that the model's own processor makes of it."""


class Sight(StrEnum):
    """How much of a mask was sent; each but ``WHOLE`` stands as a warning."""

    WHOLE = "whole"
    PARTLY = "partly"
    SMALL = "small"
    """Sent, at least in part, but narrower than ``SMALLEST_PX`` wherever it is."""
    NOT = "not"
    EMPTY = "empty"
    """The mask has no voxel: there is nothing to see."""
    UNKNOWN = "unknown"
    """The mask lies on another grid than the pictures."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was sent of one mask.

    Parameters
    ----------
    voxels, voxels_sent
        All of them, and those within a slice and inside the frame of a picture.
    slices, slices_sent
        Slices along the pictures' axis that the mask touches, and those of them that were sent.
    pictures
        Indices of the pictures that show it.
    widest_px
        Its narrower side, rows or columns, in the picture where that is largest, in pixels of the
        model's grid; None where it is in no picture.
    """

    name: str
    sight: Sight
    voxels: int = 0
    voxels_sent: int = 0
    slices: int = 0
    slices_sent: int = 0
    pictures: tuple[int, ...] = ()
    widest_px: float | None = None

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
            return f"{self.name}: lies on another grid, cannot be compared with the pictures"
        if self.sight is Sight.NOT:
            if self.slices_sent:
                return f"{self.name}: outside the frame of every picture"
            return f"{self.name}: none of the {self.slices} slices that it touches was sent"
        share = 100 * self.voxels_sent / self.voxels
        said = f"{self.name}: {self.slices_sent} of its {self.slices} slices sent"
        if self.voxels_sent < self.voxels:
            said += f", {share:.3g} % of its voxels"
        if self.sight is Sight.SMALL and self.widest_px is not None:
            said += f"; at most {self.widest_px:.2g} px across for the model"
        return said


@dataclass(frozen=True, slots=True)
class _Cut:
    """A picture as a slice: axis, display index, the voxels (half open) inside its frame."""

    axis: int
    index: int
    low: tuple[int, int]
    high: tuple[int, int]
    px_per_voxel: tuple[float, float]


def seen(
    masks: Sequence[tuple[str, Region]],
    pictures: Sequence[Picture],
    grid: Grid,
    model_size: ModelSize | None = None,
) -> tuple[Seen, ...]:
    """Return for each named mask what the pictures show of it.

    Parameters
    ----------
    masks
        Regions on the display grid.
    grid
        The display grid that the pictures were cut from.
    model_size
        What the model's processor resizes a picture to; by default the picture's own size.
    """
    cuts = [_cut(picture, grid, model_size) for picture in pictures]
    return tuple(_seen(name, region, cuts, grid) for name, region in masks)


def seen_of_chain(
    chain: EvidenceChain,
    masks: Mapping[str, Mask],
    pictures: Sequence[Picture],
    grid: Grid,
    model_size: ModelSize | None = None,
) -> tuple[Seen, ...]:
    """Return what the pictures show of the masks that the steps of a chain name, each once."""
    named = dict.fromkeys(n for step in chain.steps for n in (step.mask, step.other) if n in masks)
    regions = [(label(name), masks[name].region) for name in named]
    return seen(regions, pictures, grid, model_size)


def _cut(picture: Picture, grid: Grid, model_size: ModelSize | None) -> _Cut | None:
    """Return the picture as a slice; None for one that is no slice along an axis."""
    matrix = picture.index_from_pixel
    if matrix is None:
        return None
    moving = np.abs(matrix[:, :2]) > 1e-9
    still = np.flatnonzero(~moving.any(axis=1))
    if still.size != 1 or (moving.sum(axis=0) != 1).any():
        return None
    axis = int(still[0])
    rows, columns = picture.pixels.shape[:2]
    first = picture.index_zyx(-0.5, -0.5)
    last = picture.index_zyx(rows - 0.5, columns - 0.5)
    across = [a for a in range(3) if a != axis]
    along = [int(np.flatnonzero(moving[:, n])[0]) for n in range(2)]
    model = (rows, columns) if model_size is None else model_size(picture)
    per_voxel = {
        a: model[n] / (rows, columns)[n] / abs(float(matrix[a, n])) for n, a in enumerate(along)
    }
    ends = [sorted((float(first[a]), float(last[a]))) for a in across]
    low = [max(0, int(np.ceil(start - 1e-6))) for start, _ in ends]
    high = [
        min(grid.shape_zyx[a], int(np.floor(stop + 1e-6)) + 1)
        for a, (_, stop) in zip(across, ends, strict=True)
    ]
    return _Cut(
        axis,
        round(float(matrix[axis, 2])),
        (low[0], low[1]),
        (high[0], high[1]),
        (per_voxel[across[0]], per_voxel[across[1]]),
    )


def _seen(name: str, region: Region, cuts: Sequence[_Cut | None], grid: Grid) -> Seen:
    if region.empty:
        return Seen(name, Sight.EMPTY)
    if not same_grid(region.grid, grid):
        return Seen(name, Sight.UNKNOWN, region.voxels)
    box, crop = region.box_zyx, region.crop_zyx
    assert box is not None and crop is not None
    axes = {cut.axis for cut in cuts if cut is not None}
    axis = axes.pop() if len(axes) == 1 else 0
    touched = {int(at) for at in slices_of(region, axis)}
    shown: list[int] = []
    widths: list[float] = []
    sent = np.zeros(crop.shape, np.bool_)
    slices_sent: set[int] = set()
    for number, cut in enumerate(cuts):
        if cut is None or not box[cut.axis].start <= cut.index < box[cut.axis].stop:
            continue
        at: list[slice | int] = [slice(None)] * 3
        at[cut.axis] = cut.index - box[cut.axis].start
        across = [a for a in range(3) if a != cut.axis]
        if cut.axis == axis and cut.index in touched:
            slices_sent.add(cut.index)
        for n, a in enumerate(across):
            start = max(0, cut.low[n] - box[a].start)
            at[a] = slice(start, max(start, cut.high[n] - box[a].start))
        inside = crop[tuple(at)]
        if inside.any():
            shown.append(number)
            widths.append(_narrower_px(inside, cut.px_per_voxel))
            sent[tuple(at)] |= inside
    count = int(np.count_nonzero(sent))
    widest = max(widths) if widths else None
    sight = _sight(region.voxels, count, widest)
    return Seen(
        name, sight, region.voxels, count, len(touched), len(slices_sent), tuple(shown), widest
    )


def _narrower_px(inside: npt.NDArray[np.bool_], px_per_voxel: tuple[float, float]) -> float:
    """Return the shorter side of a 2-D mask's bounding box, in pixels."""
    sides = []
    for axis in range(2):
        hit = np.flatnonzero(inside.any(axis=1 - axis))
        sides.append((int(hit[-1]) - int(hit[0]) + 1) * px_per_voxel[axis])
    return min(sides)


def _sight(voxels: int, sent: int, widest_px: float | None) -> Sight:
    if not sent or widest_px is None:
        return Sight.NOT
    if widest_px < SMALLEST_PX:
        return Sight.SMALL
    return Sight.WHOLE if sent == voxels else Sight.PARTLY
