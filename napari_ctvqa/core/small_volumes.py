"""A CT made small enough to be turned around: uint8, a block of voxels a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Generator

MIP_WINDOW_HU = (0.0, 700.0)
"""Bone and contrast stand out in it; soft tissue stays dark, or nothing else would be seen."""
_LONGEST_CELLS = 128


@dataclass(frozen=True, eq=False)
class SmallVolume:
    """``cells`` (z, y, x) uint8 in display order, and the size of a cell in mm."""

    cells: npt.NDArray[np.uint8]
    spacing_mm_zyx: tuple[float, float, float]


def make_small(
    ct_zyx: npt.NDArray[Any], spacing_mm_zyx: tuple[float, float, float]
) -> Generator[SmallVolume | None, None, None]:
    """Yield None for every slab of slices that is done, the small volume at the end.

    A cell holds the largest HU of its block: what a maximum projection shows must not be averaged
    away. Blocks at the far end may be smaller. Taking time off for others is for the caller.
    """
    steps = [_step(size) for size in ct_zyx.shape]
    slabs = []
    for start in range(0, ct_zyx.shape[0], steps[0]):
        slab = ct_zyx[start : start + steps[0]].max(axis=0)
        rows = np.maximum.reduceat(slab, range(0, slab.shape[0], steps[1]), axis=0)
        slabs.append(np.maximum.reduceat(rows, range(0, slab.shape[1], steps[2]), axis=1))
        yield None
    lo, hi = MIP_WINDOW_HU
    level = (np.stack(slabs).astype(np.float32) - lo) * (255.0 / (hi - lo))
    cells = np.clip(level, 0, 255).astype(np.uint8)
    z, y, x = (mm * step for mm, step in zip(spacing_mm_zyx, steps, strict=True))
    yield SmallVolume(cells, (z, y, x))


def _step(size: int) -> int:
    return max(-(-size // _LONGEST_CELLS), 1)
