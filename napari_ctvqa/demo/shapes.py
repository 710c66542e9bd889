"""Level functions of solids, in mm: negative inside, zero on the surface, positive outside."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.demo.space import Box, Field, Point, Space

Selection = npt.NDArray[np.bool_]
FAR_MM = np.float32(1e3)


def ellipsoid(
    at: tuple[Field, Field, Field], centre: Point, semi: Point, turn_deg: float = 0.0
) -> Field:
    """Return an ellipsoid's level, turned in the axial plane; mm along its mean half axis."""
    x, y, z = at
    c, s = np.float32(np.cos(np.radians(turn_deg))), np.float32(np.sin(np.radians(turn_deg)))
    dx, dy = x - np.float32(centre[0]), y - np.float32(centre[1])
    q = ((c * dx + s * dy) / np.float32(semi[0])) ** 2
    q += ((c * dy - s * dx) / np.float32(semi[1])) ** 2
    q = q + ((z - np.float32(centre[2])) / np.float32(semi[2])) ** 2
    return (np.sqrt(q) - np.float32(1)) * np.float32(np.cbrt(semi[0] * semi[1] * semi[2]))


def smooth_max(a: Field, b: Field, round_mm: float) -> Field:
    """Return the intersection of two solids with its edge rounded."""
    blend = np.maximum(np.float32(round_mm) - np.abs(a - b), 0)
    return np.maximum(a, b) + blend * blend * np.float32(0.25 / round_mm)


def smooth_min(a: Field, b: Field, round_mm: float) -> Field:
    """Return the union of two solids with its crease filled."""
    blend = np.maximum(np.float32(round_mm) - np.abs(a - b), 0)
    return np.minimum(a, b) - blend * blend * np.float32(0.25 / round_mm)


def path(points: Sequence[Sequence[float]], spacing_mm: float = 7.0) -> npt.NDArray[np.float64]:
    """Return a smooth curve through ``points``: x, y, z and further columns such as radius."""
    knots = np.asarray(points, float)
    padded = np.vstack([2 * knots[0] - knots[1], knots, 2 * knots[-1] - knots[-2]])
    pieces = []
    for p0, p1, p2, p3 in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        count = max(1, round(float(np.linalg.norm((p2 - p1)[:3])) / spacing_mm))
        t = (np.arange(count) / count)[:, None]
        pieces.append(
            0.5
            * (
                2 * p1
                + (p2 - p0) * t
                + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2
                + (3 * p1 - p0 - 3 * p2 + p3) * t**3
            )
        )
    return np.vstack([*pieces, knots[-1:]])


class Tube:
    """A curve with a radius: its level, and how far along the curve each voxel lies."""

    def __init__(
        self,
        space: Space,
        points: Sequence[Sequence[float]],
        *,
        margin_mm: float = 6.0,
        along: bool = False,
        spacing_mm: float = 7.0,
    ) -> None:
        self.curve = path([tuple(p) for p in points], spacing_mm)
        """Points of x, y, z, radius in mm."""
        steps = np.linalg.norm(np.diff(self.curve[:, :3], axis=0), axis=1)
        self.travelled_mm = np.concatenate([[0.0], np.cumsum(steps)])
        """How far along the curve each of its points lies."""
        reach = float(self.curve[:, 3].max()) + margin_mm
        low, high = self.curve[:, :3].min(0), self.curve[:, :3].max(0)
        self.box: Box = space.box(tuple(low), tuple(high), reach)
        shape = tuple(s.stop - s.start for s in self.box)
        self.level: Field = np.full(shape, FAR_MM, np.float32)
        self.along_mm: Field = np.zeros(shape if along else (0, 0, 0), np.float32)
        """Empty unless asked for."""
        for n, (a, b) in enumerate(itertools.pairwise(self.curve)):
            self._add(space, a, b, margin_mm, self.travelled_mm[n])

    def _add(
        self,
        space: Space,
        a: npt.NDArray[np.float64],
        b: npt.NDArray[np.float64],
        margin_mm: float,
        travelled_mm: float,
    ) -> None:
        low, high = np.minimum(a, b)[:3], np.maximum(a, b)[:3]
        box = space.box(tuple(low), tuple(high), max(a[3], b[3]) + margin_mm)
        if any(s.stop <= s.start for s in box):
            return
        inner = tuple(
            slice(s.start - o.start, s.stop - o.start) for s, o in zip(box, self.box, strict=True)
        )
        step = (b - a).astype(np.float32)
        length = np.float32(max(float(np.linalg.norm(step[:3])), 1e-6))
        dx, dy, dz = (v - np.float32(a[n]) for n, v in enumerate(space.at(box)))
        t = dx * (step[0] / length**2)
        t += dy * (step[1] / length**2)
        t += dz * (step[2] / length**2)
        np.clip(t, 0, 1, out=t)
        dx -= t * step[0]
        dy -= t * step[1]
        dz -= t * step[2]
        dx *= dx
        dy *= dy
        dz *= dz
        dx += dy
        dx += dz
        distance = np.sqrt(dx, out=dx)
        distance -= np.float32(a[3]) + t * step[3]
        if self.along_mm.size:
            nearer = distance < self.level[inner]
            self.along_mm[inner][nearer] = np.float32(travelled_mm) + t[nearer] * length
        np.minimum(self.level[inner], distance, out=self.level[inner])


def lowest(level: Field, allowed: Selection, count: int) -> Selection:
    """Return the ``count`` allowed voxels with the lowest level.

    This is how a stated volume is met: the surface moves out or in, everywhere alike, until the
    solid holds that volume. Raises ValueError where fewer voxels are allowed.
    """
    values = level[allowed]
    if count > values.size:
        raise ValueError(f"{count} voxels wanted, {values.size} allowed")
    chosen = np.zeros(values.size, bool)
    if count:
        threshold = np.partition(values, count - 1)[count - 1]
        chosen = values < threshold
        ties = np.flatnonzero(values == threshold)
        chosen[ties[: count - int(chosen.sum())]] = True
    selection = np.zeros(level.shape, bool)
    selection[allowed] = chosen
    return selection
