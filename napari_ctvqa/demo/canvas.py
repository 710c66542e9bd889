"""What is painted on: attenuation, who owns a voxel, and the masks taken so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo.parameters import SHAPE_KJI, Phase
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
    phase: Phase
    masks: dict[str, Painted] = field(default_factory=dict)

    @classmethod
    def blank(
        cls, space: Space, cavity_mm: Field, dome_mm: Field, grain: Field, phase: Phase
    ) -> Canvas:
        """Return a canvas of air."""
        return cls(
            space=space,
            hu=np.full(SHAPE_KJI, -1000.0, np.float32),
            owner=np.zeros(SHAPE_KJI, np.uint8),
            cavity_mm=cavity_mm,
            dome_mm=dome_mm,
            grain=grain,
            phase=phase,
        )

    def free(self, box: Box) -> Selection:
        """Return the voxels that an organ may take."""
        free: Selection = self.owner[box] == Owner.CAVITY
        return free

    def fill(self, box: Box, selection: Selection, hu: float | Field, owner: Owner) -> None:
        """Give voxels an attenuation and an owner."""
        np.copyto(self.hu[box], np.asarray(hu, np.float32), where=selection)
        np.copyto(self.owner[box], np.uint8(owner), where=selection)

    def tint(self, box: Box, selection: Selection, hu: float | Field) -> None:
        """Change the attenuation of voxels that stay with their owner."""
        np.copyto(self.hu[box], np.asarray(hu, np.float32), where=selection)

    def keep(self, name: str, box: Box, selection: Selection) -> None:
        """Remember a mask, cut to its own bounding box."""
        self.masks[name] = trimmed(box, selection)

    def take(
        self,
        name: str,
        box: Box,
        level: Field,
        count: int,
        hu: float,
        inner: Selection | None = None,
    ) -> Selection:
        """Give an organ its number of voxels: those of ``inner`` and the lowest free ones.

        Returns the newly taken voxels; the mask that is remembered includes ``inner``.
        """
        held = 0 if inner is None else int(np.count_nonzero(inner))
        selection = lowest(level, self.free(box), count - held)
        self.fill(box, selection, hu, Owner.TAKEN)
        self.keep(name, box, selection if inner is None else selection | inner)
        return selection


def within(box: Box, other: Box) -> Box:
    """Return where a box lies inside another one that holds it."""
    k, j, i = (slice(s.start - o.start, s.stop - o.start) for s, o in zip(box, other, strict=True))
    return (k, j, i)


def around(boxes: Sequence[Box]) -> Box:
    """Return the box around several."""
    k, j, i = (
        slice(min(b[axis].start for b in boxes), max(b[axis].stop for b in boxes))
        for axis in range(3)
    )
    return (k, j, i)


def overlap(box: Box, other: Box) -> Box:
    """Return what two boxes share, in the grid's indices; of no voxels where they are apart."""
    k, j, i = (
        slice(max(a.start, b.start), max(a.start, b.start, min(a.stop, b.stop)))
        for a, b in zip(box, other, strict=True)
    )
    return (k, j, i)


def box_shape(box: Box) -> tuple[int, int, int]:
    """Return how many voxels a box has along each axis."""
    k, j, i = (s.stop - s.start for s in box)
    return (k, j, i)


def union(parts: Sequence[Painted]) -> Painted:
    """Return the union of masks, in a box around all of them; empty for none."""
    if not parts:
        return Painted((slice(0, 0), slice(0, 0), slice(0, 0)), np.zeros((0, 0, 0), bool))
    box = around([part.box for part in parts])
    return Painted(box, seen_in(box, parts))


def seen_in(box: Box, parts: Sequence[Painted]) -> Selection:
    """Return the voxels of a box that belong to any of these masks; the box holds them all."""
    chosen = np.zeros(box_shape(box), bool)
    for part in parts:
        chosen[within(part.box, box)] |= part.crop
    return chosen


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
