"""The phantom's grid in millimetres, and smooth fields made coarse and drawn out to it.

World of the generator: x to the patient's left, y to posterior, z to superior; arrays are
(k, j, i), so that their bytes are a NIfTI's bytes. Anatomy is evaluated at warped positions:
every structure bends together and neighbours stay neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo.parameters import SHAPE_KJI, SPACING_MM_KJI

if TYPE_CHECKING:
    from collections.abc import Callable

Field = npt.NDArray[np.floating[Any]]
Box = tuple[slice, slice, slice]
Point = tuple[float, float, float]
"""x, y, z in mm."""

_COARSE_KJI = (4, 2, 2)
WARP_AMPLITUDE_MM = 6.0
WARP_WAVELENGTH_MM = 190.0
_WARP_MM = 10.0
"""No position moves further than this; boxes keep that margin."""


def axes_mm() -> tuple[Field, Field, Field]:
    """Return x, y, z of the voxel centres along each axis, in mm."""
    counts = SHAPE_KJI
    k, j, i = (np.arange(n, dtype=np.float32) for n in counts)
    middle_j, middle_i = (counts[1] - 1) / 2, (counts[2] - 1) / 2
    return (
        (i - middle_i) * SPACING_MM_KJI[2],
        (j - middle_j) * SPACING_MM_KJI[1],
        k * SPACING_MM_KJI[0],
    )


def _drawn_out(coarse: Field, axis: int, size: int, step: int) -> Field:
    """Return ``coarse`` interpolated linearly to ``size`` samples along ``axis``."""
    position = np.arange(size, dtype=np.float32) / step
    lower = np.minimum(position.astype(np.intp), coarse.shape[axis] - 2)
    weight = (position - lower).astype(np.float32)
    shape = [1, 1, 1]
    shape[axis] = size
    low = np.take(coarse, lower, axis)
    low += (np.take(coarse, lower + 1, axis) - low) * weight.reshape(shape)
    drawn: Field = low
    return drawn


def upsampled(coarse: Field, steps_kji: tuple[int, int, int] = _COARSE_KJI) -> Field:
    """Return a coarse field on the full grid."""
    fine = coarse
    for axis in (2, 1, 0):
        if steps_kji[axis] > 1:
            fine = _drawn_out(fine, axis, SHAPE_KJI[axis], steps_kji[axis])
    return fine


def coarse_positions(
    steps_kji: tuple[int, int, int] = _COARSE_KJI,
) -> tuple[Field, Field, Field]:
    """Return broadcastable x, y, z of a coarse grid that covers the full one."""
    x, y, z = axes_mm()
    grown = []
    for axis, (values, step) in enumerate(zip((z, y, x), steps_kji, strict=True)):
        count = -(-(SHAPE_KJI[axis] - 1) // step) + 1
        spacing = SPACING_MM_KJI[axis] * step
        grown.append((values[0] + np.arange(max(count, 2)) * spacing).astype(np.float32))
    return grown[2][None, None, :], grown[1][None, :, None], grown[0][:, None, None]


def waves(
    seed: int, amplitude_mm: float, wavelength_mm: float, terms: int = 4
) -> Callable[[Field, Field, Field], Field]:
    """Return a smooth random function of position, bounded by ``amplitude_mm``."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(terms, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    pitch = 2 * np.pi / (wavelength_mm * rng.uniform(0.75, 1.35, terms))
    phases = rng.uniform(0, 2 * np.pi, terms)

    def field(x: Field, y: Field, z: Field) -> Field:
        total = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.float32)
        for direction, rate, phase in zip(directions, pitch, phases, strict=True):
            a, b, c = (np.float32(rate * part) for part in direction)
            total += np.sin(a * x + (b * y + (c * z + np.float32(phase))))
        return total * np.float32(amplitude_mm / terms)

    return field


@dataclass(frozen=True, eq=False)
class Space:
    """Where every voxel lies in the unbent anatomy, mm."""

    x: Field
    y: Field
    z: Field

    def box(self, low: Point, high: Point, margin_mm: float = 0.0) -> Box:
        """Return the index box that surely holds what lies between two corners."""
        slices = []
        for axis, values in zip((2, 1, 0), axes_mm(), strict=True):
            reach = margin_mm + _WARP_MM
            start = int(np.searchsorted(values, low[2 - axis] - reach))
            stop = int(np.searchsorted(values, high[2 - axis] + reach))
            slices.append(slice(start, max(stop, start)))
        return (slices[2], slices[1], slices[0])

    def at(self, box: Box) -> tuple[Field, Field, Field]:
        """Return x, y, z inside a box."""
        return self.x[box], self.y[box], self.z[box]


def bent_space(seed: int, amplitude_mm: float = WARP_AMPLITUDE_MM) -> Space:
    """Return positions moved by a smooth random warp of up to ``amplitude_mm`` per axis."""
    x, y, z = coarse_positions()
    moved = [
        upsampled(base + waves(seed * 10 + n, amplitude_mm, WARP_WAVELENGTH_MM)(x, y, z))
        for n, base in enumerate((x, y, z))
    ]
    return Space(*moved)
