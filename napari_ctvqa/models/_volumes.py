"""A CT brought to the grid that a volume model takes, axis by axis, and the way back kept.

What differs between recipes is where each axis is sampled, what is done to HU, and what is cut off
or put around: ``Axis`` holds the first, ``made`` puts it together. No file is read and nothing of
torch is needed: see ``core.resampling`` for what was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.errors import CtvqaError, GeometryError
from napari_ctvqa.core.model_volumes import ModelVolume, voxels_inside
from napari_ctvqa.core.resampling import (
    FloatArray,
    Positions,
    floored,
    from_first,
    half_pixel,
    linear,
    nearest,
    outside_itk,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.cases import Case, Volume
    from napari_ctvqa.core.geometry import Grid

_DISPLAY_AXIS = {"S": 0, "I": 0, "A": 1, "P": 1, "R": 2, "L": 2}
_TOWARDS, _AWAY = "IPL", "SAR"
"""Where the display's axes z, y and x increase to, and what they run away from."""
FILL_HU = -1024.0
"""Around a CT, where a recipe's own script puts a number without a meaning (ITK's pixel type)."""
_TINY = 1e-8
_BEFORE_FIRST = 1e-8
TURNED_IN_TRAINING = (
    "it was trained on volumes that were turned by quarter turns and flipped at random, with the "
    "answers as they were: what it says of left and right is not to be relied on"
)
"""Of the M3D data loaders (half of the volumes turned in the slice, each axis flipped in a tenth);
Med3DVLM's are the same."""

Change = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Laid:
    """A CT's voxels in another axis order, as a view, and where they lie on the display grid."""

    array: npt.NDArray[Any]
    index_from_voxel: npt.NDArray[np.float64]
    spacing_mm: tuple[float, float, float]
    axes: str

    def cut(self, ranges: Sequence[tuple[int, int]]) -> Laid:
        """Return a part of it: half-open ranges along its own axes."""
        moved = np.eye(4)
        moved[:3, 3] = [low for low, _ in ranges]
        part = self.array[tuple(slice(low, high) for low, high in ranges)]
        return replace(self, array=part, index_from_voxel=self.index_from_voxel @ moved)


def along(volume: Volume, axes: str) -> Laid:
    """Return the CT with axes increasing to these directions, e.g. ``"SPL"``.

    A grid that is turned against the patient keeps its own axes, each named by the direction that
    it is closest to, as nibabel's and MONAI's reorientation do.
    """
    order = [_DISPLAY_AXIS[letter] for letter in axes]
    return _turned(volume, order, [letter in _AWAY for letter in axes], axes)


def as_filed(volume: Volume, order: str, title: str) -> Laid:
    """Return the CT in the order of its file: ``"kji"`` as SimpleITK gives it, ``"kij"``.

    Raises
    ------
    GeometryError
        For a sheared CT: what is drawn of it is not in its file.
    """
    grid = volume.display_grid
    if grid.file is None and grid is not volume.grid:
        raise GeometryError(
            f"{volume.path.name} is sheared and drawn resampled; this recipe of {title} takes the "
            "voxels as the file holds them.",
            hint="Take the model's other recipe.",
        )
    display = [grid.file_axis_of.index("ijk".index(letter)) for letter in order]
    back = [grid.flipped[axis] for axis in display]
    letters = "".join(
        (_AWAY if backwards else _TOWARDS)[axis]
        for axis, backwards in zip(display, back, strict=True)
    )
    return _turned(volume, display, back, letters)


def _turned(volume: Volume, order: Sequence[int], back: Sequence[bool], axes: str) -> Laid:
    shape = volume.display_zyx.shape
    matrix = np.zeros((4, 4))
    matrix[3, 3] = 1.0
    for axis, (display, backwards) in enumerate(zip(order, back, strict=True)):
        matrix[display, axis] = -1.0 if backwards else 1.0
        matrix[display, 3] = shape[display] - 1 if backwards else 0.0
    steps = tuple(slice(None, None, -1 if backwards else 1) for backwards in back)
    a, b, c = (volume.display_grid.spacing_mm_zyx[axis] for axis in order)
    return Laid(volume.display_zyx.transpose(order)[steps], matrix, (a, b, c), axes)


# ------------------------------------------------------------------------------------------- axes


@dataclass(frozen=True, eq=False)
class Axis:
    """How one axis is sampled.

    ``step`` and ``first`` are the line that the samples lie on, in voxels. ``pad`` are samples of
    fill before and after; ``outside`` marks samples that ITK fills.
    """

    positions: Positions
    step: float
    first: float
    pad: tuple[int, int] = (0, 0)
    outside: npt.NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        """Return the number of samples, fill included."""
        return len(self.positions) + sum(self.pad)


def resized(count: int, wanted: int) -> Axis:
    """Return an axis as torch's trilinear ``interpolate`` samples it (``align_corners=False``)."""
    return Axis(half_pixel(count, wanted), count / wanted, 0.5 * count / wanted - 0.5)


def picked(count: int, wanted: int) -> Axis:
    """Return an axis as torch's ``interpolate`` picks voxels by default (nearest, downwards).

    Its line runs through the middle of them: nowhere half a voxel or more from what was picked.
    """
    positions, step = floored(count, wanted), count / wanted
    aside = positions - from_first(step, wanted)
    return Axis(positions, step, float(aside.min() + aside.max()) / 2)


def stretched_itk(count: int, wanted: int) -> Axis:
    """Return an axis as ITK resamples it to a number of samples with the origin kept."""
    positions = from_first(count / wanted, wanted)
    return Axis(positions, count / wanted, 0.0, outside=outside_itk(count, positions))


def spaced(count: int, spacing_mm: float, wanted_mm: float, *, first_kept: bool = True) -> Axis:
    """Return an axis as MONAI's ``Spacing`` samples it.

    round((n - 1) s/t + 1) samples, halves to even; beyond the outer centres their values go on.
    The first one lies on the first centre; where that is not kept, m samples begin at
    (n - m t/s) / 2.
    """
    wanted = int(np.round((count - 1) * spacing_mm / wanted_mm + 1.0))
    step = wanted_mm / spacing_mm
    first = 0.0 if first_kept else (count - wanted * step) / 2
    return Axis(first + from_first(step, wanted), step, first)


def first_is_kept(laid: Laid, grid: Grid, wanted_mm: Sequence[float]) -> bool:
    """Return whether MONAI's ``Spacing`` keeps the first voxel's centre, on all axes or on none.

    It does where no corner of the CT lies before that one, by 1e-8 of a sample at most: an oblique
    CT's axes are seldom at right angles to that, for the rounding of its header.
    """
    axes = (grid.affine_zyx_to_ras @ laid.index_from_voxel)[:3, :3]
    samples = np.linalg.cholesky(axes.T @ axes).T / np.reshape(wanted_mm, (3, 1))
    aside = np.minimum(samples - np.diag(np.diag(samples)), 0.0)
    before = aside @ (np.array(laid.array.shape) - 1.0)
    return bool((before >= -_BEFORE_FIRST).all())


def rescaled(count: int, spacing_mm: float, wanted_mm: float) -> Axis:
    """Return an axis resized to ``int(n s/t)`` samples by torch, as CT-CHAT's script does."""
    return resized(count, max(1, int(count * (spacing_mm / wanted_mm))))


def centred(axis: Axis, wanted: int) -> Axis:
    """Return the middle of an axis, or the axis in the middle of fill.

    From (n - m) // 2 on; of an odd number of padded samples the last one comes after.
    """
    start = max((len(axis.positions) - wanted) // 2, 0)
    positions = axis.positions[start : start + wanted]
    missing = wanted - len(positions)
    pad = (missing // 2, missing - missing // 2)
    outside = None if axis.outside is None else axis.outside[start : start + wanted]
    return Axis(positions, axis.step, axis.first + start * axis.step, pad, outside)


# --------------------------------------------------------------------------------------- together


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is done to HU. ``before`` and ``after`` sampling; ``said`` is that in words.

    ``outside`` is what ITK's default becomes, ``fill`` what is put around.
    """

    said: str
    before: Change | None = None
    after: Change | None = None
    fill: float = 0.0
    outside: float = 0.0
    low_high: tuple[float, float] = (0.0, 1.0)
    window_hu: tuple[float, float] | None = None
    whole_numbers: bool = False
    """Whether samples lose their fractions (towards zero), as ITK's do of a file of integers."""


def unscaled(low: float, high: float) -> Scaling:
    """Return no scaling at all; ``low`` and ``high`` are the CT's range, for drawing."""
    return Scaling("HU as they are", low_high=(low, high), window_hu=(low, high))


def by_range(low: float, high: float) -> Scaling:
    """Return the scaling of a range of values to 0–1, nothing clipped."""
    if high - low < _TINY:
        low, high = low, low + 1.0

    def scale(values: FloatArray) -> FloatArray:
        values -= np.float32(low)
        values /= np.float32(high - low)
        return values

    said = f"the CT's own range, {low:g} to {high:g}, to 0 to 1"
    return Scaling(said, after=scale, window_hu=(low, high))


def by_window(
    low: float, high: float, *, clip_first: bool, to: tuple[float, float] = (0.0, 1.0)
) -> Scaling:
    """Return the clip to a window in HU and its scaling, to 0–1 by default.

    What is put around, and what ITK fills, gets the window's lowest value.

    Raises
    ------
    CtvqaError
        Where single precision holds no number between the ends: all would become NaN.
    """
    lowest, highest = np.float32(low), np.float32(high)
    if not highest > lowest:
        raise CtvqaError(
            f"The CT's values cannot be scaled from {low:g} to {high:g} HU.",
            hint="Look for a damaged voxel in the CT, or take the model's other recipe.",
        )

    def clip(values: FloatArray) -> FloatArray:
        return np.clip(values, lowest, highest, out=values)

    def scale(values: FloatArray) -> FloatArray:
        values = values if clip_first else clip(values)
        values -= lowest
        values /= highest - lowest
        if to != (0.0, 1.0):
            values *= np.float32(to[1] - to[0])
            values += np.float32(to[0])
        return values

    said = f"HU {low:g} to {high:g}, clipped, to {to[0]:g} to {to[1]:g}"
    before = clip if clip_first else None
    return Scaling(said, before, scale, to[0], to[0], to, (low, high))


def made(
    laid: Laid,
    axes: Sequence[Axis],
    scaling: Scaling,
    *,
    recipe: str,
    picking: bool = False,
    lead: tuple[int, ...] = (1, 1),
    slice_axis: int = 0,
    more: Mapping[str, Any] | None = None,
) -> ModelVolume:
    """Return the CT sampled at these axes, scaled and filled up.

    ``picking`` takes the nearest voxels instead of interpolating.
    """
    positions = [axis.positions for axis in axes]
    if picking:
        inner = nearest(laid.array, positions).astype(np.float32)
        inner = inner if scaling.before is None else scaling.before(inner)
    else:
        inner = linear(laid.array, positions, scaling.before)
    if scaling.whole_numbers:
        np.trunc(inner, out=inner)
    inner = inner if scaling.after is None else scaling.after(inner)
    for number, axis in enumerate(axes):
        if axis.outside is not None and axis.outside.any():
            np.moveaxis(inner, number, 0)[axis.outside] = scaling.outside
    shape = (axes[0].size, axes[1].size, axes[2].size)
    ranges = [_inner(axis) for axis in axes]
    values = inner
    if any(any(axis.pad) for axis in axes):
        values = np.full(shape, scaling.fill, np.float32)
        before = [axis.pad[0] for axis in axes]
        at = tuple(slice(b, b + n) for b, n in zip(before, inner.shape, strict=True))
        values[at] = inner
    by_itk = any(axis.outside is not None for axis in axes)
    line = np.eye(4)
    for number, axis in enumerate(axes):
        line[number, number] = axis.step
        line[number, 3] = axis.first - axis.pad[0] * axis.step
    return ModelVolume(
        values,
        shape,
        laid.axes,
        laid.index_from_voxel @ line,
        (ranges[0], ranges[1], ranges[2]),
        scaling.outside if by_itk else scaling.fill,
        scaling.said,
        scaling.window_hu,
        scaling.low_high,
        lead,
        slice_axis,
        _crop(laid),
        recipe,
        more or {},
    )


def _inner(axis: Axis) -> tuple[int, int]:
    count = len(axis.positions)
    if axis.outside is not None:
        count -= int(np.count_nonzero(axis.outside))
    return axis.pad[0], axis.pad[0] + count


def _crop(laid: Laid) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return the display voxels that were taken, half-open."""
    ends = np.array([[0.0, 0.0, 0.0], [size - 1.0 for size in laid.array.shape]])
    there = ends @ laid.index_from_voxel[:3, :3].T + laid.index_from_voxel[:3, 3]
    low, high = there.min(axis=0).round().astype(int), there.max(axis=0).round().astype(int)
    z, y, x = ((int(a), int(b) + 1) for a, b in zip(low, high, strict=True))
    return z, y, x


def foreground(laid: Laid, floor: float = -np.inf) -> list[tuple[int, int]]:
    """Return the box of all voxels above the lowest value; the whole where there is none.

    MONAI's ``CropForeground`` after min–max, or after a clip at ``floor``.
    """
    above = laid.array > max(float(laid.array.min()), floor)
    ranges = []
    for axis in range(3):
        hit = np.flatnonzero(above.any(axis=tuple(a for a in range(3) if a != axis)))
        size = laid.array.shape[axis]
        ranges.append((int(hit[0]), int(hit[-1]) + 1) if hit.size else (0, size))
    return ranges


# ------------------------------------------------------------------------------- kept and recorded


class LastVolume:
    """The volume that was made last: many questions about a case share one. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: tuple[ReferenceType[Volume], tuple[Any, ...]] | None = None
        self._made: ModelVolume | None = None

    def get(self, volume: Volume, key: tuple[Any, ...], make: Callable[[], ModelVolume]) -> Any:
        """Return the kept volume where CT and key are the same, else make and keep it."""
        with self._lock:
            of = self._of
            if of is None or self._made is None or of[0]() is not volume or of[1] != key:
                self._made = None  # the former one is let go before the next is made
                self._made = make()
                self._made.values.flags.writeable = False  # type: ignore[union-attr]
                self._of = (ref(volume), key)
            return self._made


def volume_recipe(
    family: str, preset: Preset, case: Case, volume: ModelVolume, **more: Any
) -> Mapping[str, Any]:
    """Return the exact preprocessing as plain data, enough to make the volume again."""
    return {
        "family": family,
        "preset": preset.name,
        "case_id": case.case_id,
        "recipe": volume.recipe,
        "tensor_shape": list(volume.tensor_shape),
        "axes_to": volume.axes,
        "spacing_mm": list(volume.spacing_mm(case.volume.display_grid)),
        "index_from_voxel": volume.index_from_voxel.tolist(),
        "from_the_ct": [list(part) for part in volume.inner],
        "crop_voxels_zyx": None
        if volume.crop_voxels is None
        else [list(part) for part in volume.crop_voxels],
        "scaling": volume.scaling,
        "fill": volume.fill,
        **volume.more,
        **more,
    }


def volume_notes(case: Case, volume: ModelVolume) -> tuple[str, ...]:
    """Return in words what was made of the CT: its grid, what is not in it, doubts."""
    grid = case.volume.display_grid
    shape = " x ".join(str(size) for size in volume.shape)
    spacing = " x ".join(f"{mm:.3g}" for mm in volume.spacing_mm(grid))
    notes = [f"the CT as {shape} voxels of {spacing} mm (axes to {volume.axes}), {volume.scaling}"]
    kept = _share_kept(volume, grid.shape_zyx)
    if kept < 1:
        notes.append(f"{100 * (1 - kept):.3g} % of the CT's voxels are outside of it")
    padded = 1 - np.prod(
        [(b - a) / n for (a, b), n in zip(volume.inner, volume.shape, strict=True)]
    )
    if padded > 0:
        notes.append(f"{100 * padded:.3g} % of it is filled with {volume.fill:g}")
    if grid is not case.volume.grid:
        notes.append("the CT is sheared: what is sent was resampled to a straight grid first")
    return tuple(notes)


def _share_kept(volume: ModelVolume, shape_zyx: tuple[int, int, int]) -> float:
    """Return the share of the CT's voxels whose centre lies in a model's voxel."""
    counts = [voxels_inside(volume, shape_zyx, axis)[0].size for axis in range(3)]
    return float(np.prod(np.divide(counts, shape_zyx)))
