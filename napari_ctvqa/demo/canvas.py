"""What is painted on: attenuation, who owns a voxel, and the masks taken so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo.parameters import SHAPE_KJI
from napari_ctvqa.demo.shapes import Selection, lowest

if TYPE_CHECKING:
    from napari_ctvqa.demo.space import Box, Field, Space


class Owner(IntEnum):
    """Who holds a voxel; organs take voxels from CAVITY only, so none overlaps another."""

    AIR = 0
    FAT = 1
    WALL = 2
    CAVITY = 3
    LUNG = 4
    TAKEN = 5


@dataclass(frozen=True, eq=False)
class Painted:
    """A mask as its bounding box and the voxels inside."""

    box: Box
    crop: Selection

    @property
    def voxels(self) -> int:
        """Return how many voxels are set."""
        return int(np.count_nonzero(self.crop))


@dataclass(eq=False)
class Canvas:
    """One phantom while it is painted."""

    space: Space
    hu: Field
    owner: npt.NDArray[np.uint8]
    cavity_mm: Field
    """Level of the body cavity: distance to the inner side of the wall."""
    dome_mm: Field
    """Distance above the diaphragm."""
    grain: Field
    """Zero-mean texture of unit spread with structure of some millimetres."""
    masks: dict[str, Painted] = field(default_factory=dict)

    @classmethod
    def blank(cls, space: Space, cavity_mm: Field, dome_mm: Field, grain: Field) -> Canvas:
        """Return a canvas of air."""
        return cls(
            space=space,
            hu=np.full(SHAPE_KJI, -1000.0, np.float32),
            owner=np.zeros(SHAPE_KJI, np.uint8),
            cavity_mm=cavity_mm,
            dome_mm=dome_mm,
            grain=grain,
        )

    def free(self, box: Box) -> Selection:
        """Return the voxels that an organ may take."""
        free: Selection = self.owner[box] == Owner.CAVITY
        return free

    def fill(self, box: Box, selection: Selection, hu: float | Field, owner: Owner) -> None:
        """Give voxels an attenuation and an owner."""
        self.hu[box][selection] = hu if np.isscalar(hu) else hu[selection]  # type: ignore[index]
        self.owner[box][selection] = owner

    def tint(self, box: Box, selection: Selection, hu: float | Field) -> None:
        """Change the attenuation of voxels that stay with their owner."""
        self.hu[box][selection] = hu if np.isscalar(hu) else hu[selection]  # type: ignore[index]

    def keep(self, name: str, box: Box, selection: Selection) -> None:
        """Remember a mask, cut to its own bounding box."""
        self.masks[name] = trimmed(box, selection)

    def take(self, name: str, box: Box, level: Field, count: int, hu: float) -> Selection:
        """Give an organ its stated number of free voxels and remember its mask."""
        selection = lowest(level, self.free(box), count)
        self.fill(box, selection, hu, Owner.TAKEN)
        self.keep(name, box, selection)
        return selection


def trimmed(box: Box, selection: Selection) -> Painted:
    """Return a mask cut to its bounding box; an empty one keeps a box of no voxels."""
    starts, stops = [], []
    for axis in range(3):
        used = np.flatnonzero(selection.any(axis=tuple(a for a in range(3) if a != axis)))
        starts.append(int(used[0]) if used.size else 0)
        stops.append(int(used[-1]) + 1 if used.size else 0)
    inner = tuple(slice(a, b) for a, b in zip(starts, stops, strict=True))
    outer = tuple(
        slice(o.start + a, o.start + b) for o, a, b in zip(box, starts, stops, strict=True)
    )
    return Painted((outer[0], outer[1], outer[2]), selection[inner].copy())
