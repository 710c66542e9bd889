"""Resampling along the axes of an array, exactly as the libraries that models were fed with do it.

Every recipe of a volume model samples a grid along the CT's own axes, so each axis has a list of
positions of its own, and linear interpolation in three directions is three interpolations in one.
Looked at: ``scipy.ndimage.map_coordinates`` (right with any positions, but double precision at
every voxel of the output, ten times the time), ``skimage.transform.resize`` (own positions,
anti-aliasing by default), SimpleITK (its own origin rule, and no part of what this installs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.float64]
FloatArray = npt.NDArray[np.float32]
_WHOLE = 1e-9
"""A position this close to a voxel's centre is that voxel: rounding of a product."""


def half_pixel(count: int, wanted: int) -> Positions:
    """Return positions of ``wanted`` samples over the extent of ``count`` voxels.

    Sample i covers voxels i n/m to (i + 1) n/m: position (i + 1/2) n/m - 1/2. torch's
    ``interpolate`` with ``align_corners=False`` and MONAI's ``Resize`` take these, with the outer
    voxels' values beyond their centres.
    """
    return np.asarray((np.arange(wanted) + 0.5) * (count / wanted) - 0.5)


def from_first(step: float, wanted: int) -> Positions:
    """Return positions 0, step, 2 step …: the first sample lies on the first voxel's centre.

    ITK does so when the origin is kept (CT-SpatialVQA's scripts), and MONAI's ``Spacing``.
    """
    return np.asarray(np.arange(wanted) * step)


def floored(count: int, wanted: int) -> Positions:
    """Return the voxels that torch's ``interpolate`` takes in mode ``nearest``: floor(i n/m)."""
    return np.asarray(np.floor(np.arange(wanted) * (count / wanted)))


def end_to_end(count: int, wanted: int) -> Positions:
    """Return positions with both ends on the outer voxels' centres, as ``scipy.ndimage.zoom``."""
    if wanted == 1:
        return np.zeros(1)
    return np.asarray(np.arange(wanted) * ((count - 1) / (wanted - 1)))


def linear(
    array: npt.NDArray[Any],
    positions: Sequence[Positions],
    before: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Return values at a grid of positions, in float32; beyond the outer centres these go on.

    Parameters
    ----------
    array
        Three axes, any numbers; it is not copied as a whole.
    positions
        For each axis, in voxels, integer centres.
    before
        What is done to the values first (a clip); of each voxel by itself.
    """
    # In the order of memory: a file's voxels are seldom in that of the model's axes, and going
    # through them across memory takes many times as long.
    turn = sorted(range(3), key=lambda axis: -abs(array.strides[axis]))
    out: npt.NDArray[Any] = array.transpose(turn)
    shrinks = [len(positions[axis]) / array.shape[axis] for axis in turn]
    fresh = False
    for place in sorted(range(3), key=lambda place: shrinks[place]):
        out = _along(out, place, positions[turn[place]], None if fresh else before)
        fresh = True
    return np.ascontiguousarray(out.transpose(np.argsort(turn)), np.float32)


def _along(
    array: npt.NDArray[Any],
    axis: int,
    positions: Positions,
    before: Callable[[FloatArray], FloatArray] | None,
) -> FloatArray:
    last = array.shape[axis] - 1
    at = np.clip(positions, 0, last)
    whole = np.rint(at)
    at = np.where(np.abs(at - whole) < _WHOLE, whole, at)
    low = np.floor(at).astype(np.intp)
    weight = (at - low).astype(np.float32)
    first = np.take(array, low, axis).astype(np.float32, copy=False)
    first = first if before is None else before(first)
    if not weight.any():
        return first
    second = np.take(array, np.minimum(low + 1, last), axis).astype(np.float32, copy=False)
    second = second if before is None else before(second)
    shape = [1, 1, 1]
    shape[axis] = len(weight)
    weights = weight.reshape(shape)
    # As torch does: both parts weighed, so that a weight of 0 or 1 gives the voxel itself.
    first = first * (1 - weights)
    first += second * weights
    return first


def nearest(array: npt.NDArray[Any], positions: Sequence[Positions]) -> npt.NDArray[Any]:
    """Return the voxels nearest to the positions, halves upwards; the values stay as they are."""
    indices = [
        np.clip(np.floor(at + 0.5), 0, size - 1).astype(np.intp)
        for at, size in zip(positions, array.shape, strict=True)
    ]
    return np.ascontiguousarray(array[np.ix_(*indices)])


def outside_itk(count: int, positions: Positions) -> npt.NDArray[np.bool_]:
    """Return which positions ITK takes for outside of ``count`` voxels: from n - 1/2 on.

    They get the filter's default value there, none of the CT's.
    """
    outside: npt.NDArray[np.bool_] = (positions < -0.5) | (positions >= count - 0.5)
    return outside
