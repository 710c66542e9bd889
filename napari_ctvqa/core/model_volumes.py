"""ModelVolume: a CT as a volume model gets it, and the way back from its voxels to the CT's.

A family fills one (``models._volumes``); a way to run hands its numbers over; boxes and masks of
the answer come back through ``box_zyx`` and ``region_of_mask``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.records import no_items
from napari_ctvqa.core.regions import empty_region, region_of

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.geometry import Grid

Ranges = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
Point = tuple[float, float, float]
_STILL = 1e-9


@dataclass(frozen=True, eq=False)
class ModelVolume:
    """The numbers that a volume model gets, in its own axis order, and where they lie in the CT.

    Parameters
    ----------
    values
        float32, three axes; None where only the place is known (a kept answer).
    shape
        Of ``values``.
    axes
        Where each axis increases to, e.g. ``"SPL"``; empty where that is not along the patient.
    index_from_voxel
        4 x 4: ``(z, y, x, 1) = index_from_voxel @ (a, b, c, 1)``, display voxels of the CT, both
        with integer centres. Each model axis runs along one of the CT's.
    inner
        For each axis, the half-open range of model voxels that come from the CT; the others hold
        ``fill``.
    fill
        The value around the CT, already scaled.
    scaling
        In words: what was done to HU, e.g. ``"HU -1000 to 1000 to 0 to 1"``.
    window_hu
        The HU range that ``low`` and ``high`` stand for; None where the scaling is the CT's own.
    low_high
        The values that the ends of the range get, for drawing: 0 and 1, or -1 and 1.
    lead
        Axes of the tensor before these three: ``(1, 1)`` for batch and channel; the last one
        repeats the values.
    slice_axis
        The model axis that runs through the slices.
    crop_voxels
        Half-open ranges of the CT's voxels, z, y, x of the display, that were taken.
    recipe
        Name of the preprocessing, for people and records.
    """

    values: npt.NDArray[np.float32] | None
    shape: tuple[int, int, int]
    axes: str
    index_from_voxel: npt.NDArray[np.float64]
    inner: Ranges
    fill: float
    scaling: str
    window_hu: tuple[float, float] | None = None
    low_high: tuple[float, float] = (0.0, 1.0)
    lead: tuple[int, ...] = (1, 1)
    slice_axis: int = 0
    crop_voxels: Ranges | None = None
    recipe: str = ""
    more: Mapping[str, Any] = field(default_factory=no_items)

    def __post_init__(self) -> None:
        if self.values is not None and self.values.shape != self.shape:
            raise ValueError(f"values of shape {self.values.shape}, not {self.shape}")
        moving = np.abs(self.index_from_voxel[:3, :3]) > _STILL
        if (moving.sum(axis=0) != 1).any() or (moving.sum(axis=1) != 1).any():
            raise ValueError("the axes of a model's volume run along those of the CT")

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Return the shape that the model gets, e.g. (1, 1, 32, 256, 256)."""
        return (*self.lead, *self.shape)

    @cached_property
    def voxel_from_index(self) -> npt.NDArray[np.float64]:
        """Return the inverse of ``index_from_voxel``."""
        return np.asarray(np.linalg.inv(self.index_from_voxel), np.float64)

    @property
    def display_axis(self) -> tuple[int, int, int]:
        """Return, for each model axis, the display axis that it runs along."""
        along = np.argmax(np.abs(self.index_from_voxel[:3, :3]), axis=0)
        return int(along[0]), int(along[1]), int(along[2])

    def index_zyx(self, voxel: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return display coordinates of (…, 3) model voxel coordinates."""
        return _apply(self.index_from_voxel, voxel)

    def voxel(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return model voxel coordinates of (…, 3) display coordinates."""
        return _apply(self.voxel_from_index, index_zyx)

    def ras_mm(self, voxel: npt.ArrayLike, grid: Grid) -> npt.NDArray[np.float64]:
        """Return RAS mm of (…, 3) model voxel coordinates; ``grid`` is the CT's display grid."""
        return grid.ras_mm(self.index_zyx(voxel))

    def spacing_mm(self, grid: Grid) -> Point:
        """Return the edge lengths of a model voxel, in the model's axis order."""
        steps = np.abs(self.index_from_voxel[:3, :3]).max(axis=0)
        return tuple(  # type: ignore[return-value]
            float(step) * grid.spacing_mm_zyx[axis]
            for step, axis in zip(steps, self.display_axis, strict=True)
        )


def _apply(matrix: npt.NDArray[np.float64], points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def content_of(volume: ModelVolume) -> tuple[float, ...]:
    """Return the mean of a volume's numbers, and how far to each axis' end they lie; none kept: ().

    Four figures that another CT, a turned one or one with a changed lesion does not share.
    """
    if volume.values is None:
        return ()
    figures = [float(volume.values.mean(dtype=np.float64))]
    for axis, size in enumerate(volume.shape):
        others = tuple(a for a in range(3) if a != axis)
        profile = volume.values.mean(axis=others, dtype=np.float64)
        figures.append(float((profile * np.linspace(-1, 1, size)).mean()))
    return tuple(figures)


# ------------------------------------------------------------------------------------ the way back


def region_of_mask(volume: ModelVolume, mask: npt.NDArray[Any], grid: Grid) -> Region:
    """Return a mask in model voxels as a region of the CT's display grid.

    Each voxel of the CT takes the value of the model voxel that its centre lies in; outside the
    part that came from the CT nothing is set. Where the model's voxels are the smaller ones, a mask
    can lie between the centres: it becomes the CT's voxels that hold it, none is lost.

    Raises
    ------
    ValueError
        When the mask has another shape than the volume.
    """
    if mask.shape != volume.shape:
        raise ValueError(f"a mask of shape {mask.shape} for a volume of {volume.shape}")
    taken: list[npt.NDArray[np.intp]] = []
    starts: list[int] = []
    for axis in range(3):
        inside, at = voxels_inside(volume, grid.shape_zyx, axis)
        if not inside.size:
            return empty_region(grid)
        starts.append(int(inside[0]))
        taken.append(at)
    turned = np.asarray(mask != 0).transpose([volume.display_axis.index(axis) for axis in range(3)])
    region = region_of(turned[np.ix_(*taken)], grid, (starts[0], starts[1], starts[2]))
    return _holding(volume, mask, grid) if region.empty else region


def voxels_inside(
    volume: ModelVolume, shape_zyx: tuple[int, int, int], axis: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return which voxels of a display axis have their centre in a model voxel, and in which one.

    Those of the part that comes from the CT alone.
    """
    model_axis = volume.display_axis.index(axis)
    line = np.zeros((shape_zyx[axis], 3))
    line[:, axis] = np.arange(shape_zyx[axis])
    at = np.floor(volume.voxel(line)[:, model_axis] + 0.5).astype(np.intp)
    low, high = volume.inner[model_axis]
    inside = np.flatnonzero((at >= low) & (at < high))
    return inside, at[inside]


def _holding(volume: ModelVolume, mask: npt.NDArray[Any], grid: Grid) -> Region:
    """Return the voxels of the CT that the centres of a mask's voxels lie in."""
    low = [start for start, _ in volume.inner]
    voxels = np.argwhere(mask[tuple(slice(*ends) for ends in volume.inner)]) + low
    if not len(voxels):
        return empty_region(grid)
    at = np.floor(volume.index_zyx(voxels) + 0.5).astype(np.intp)
    at = np.clip(at, 0, np.array(grid.shape_zyx) - 1)
    first = at.min(axis=0)
    part = np.zeros(at.max(axis=0) - first + 1, bool)
    part[tuple((at - first).T)] = True
    return region_of(part, grid, (int(first[0]), int(first[1]), int(first[2])))


def box_zyx(
    volume: ModelVolume, low: npt.ArrayLike, high: npt.ArrayLike, grid: Grid
) -> tuple[Point, Point]:
    """Return the outer edges of a box, in display voxels, cut to the CT.

    ``low`` and ``high`` are edges in model voxels: voxel n reaches from n - 1/2 to n + 1/2.

    Raises
    ------
    ValueError
        When the box is none, or lies outside the CT.
    """
    ends = np.array([low, high], np.float64)
    if not (ends[0] < ends[1]).all():
        raise ValueError("it has no extent")
    inner = np.array(volume.inner, np.float64) - 0.5
    ends = np.clip(ends, inner[:, 0], inner[:, 1])
    there = volume.index_zyx(ends)
    first, last = there.min(axis=0), there.max(axis=0)
    edges = np.array(grid.shape_zyx) - 0.5
    first, last = np.clip(first, -0.5, edges), np.clip(last, -0.5, edges)
    if not (first < last).all():
        raise ValueError("it lies outside the CT")
    return _point(first), _point(last)


def _point(values: npt.NDArray[np.float64]) -> Point:
    return float(values[0]), float(values[1]), float(values[2])


# --------------------------------------------------------------------------------- to be looked at


def slice_pictures(volume: ModelVolume, at_most: int = 64) -> tuple[Picture, ...]:
    """Return slices of the volume as pictures, evenly chosen where there are more than wanted.

    Rows and columns are the model's own, so a volume that is turned is seen to be. None where the
    numbers were not kept.
    """
    if volume.values is None:
        return ()
    count = volume.shape[volume.slice_axis]
    chosen = range(count) if count <= at_most else np.linspace(0, count - 1, at_most).round()
    return tuple(slice_picture(volume, int(number)) for number in chosen)


def slice_picture(volume: ModelVolume, number: int) -> Picture:
    """Return one slice along the slice axis, labelled with its number from 1."""
    assert volume.values is not None
    axis = volume.slice_axis
    rows, columns = (a for a in range(3) if a != axis)
    low, high = volume.low_high
    span = high - low or 1.0  # a CT of one value, unscaled
    grey = (np.take(volume.values, number, axis) - low) * (255 / span)
    pixels = np.repeat(np.clip(np.rint(grey), 0, 255).astype(np.uint8)[..., None], 3, axis=2)
    matrix = volume.index_from_voxel[:3]
    offset = matrix[:, 3] + number * matrix[:, axis]
    place = np.stack([matrix[:, rows], matrix[:, columns], offset], axis=1)
    windows = () if volume.window_hu is None else (volume.window_hu,)
    label = f"slice {number + 1} of {volume.shape[axis]}"
    return Picture(pixels, label, place, windows, "volume slice")


def box_picture(
    volume: ModelVolume, low: npt.ArrayLike, high: npt.ArrayLike, label: str
) -> Picture:
    """Return what a box (edges in model voxels) holds in its middle slice, with its place."""
    ends = np.clip(np.array([low, high], np.float64) + 0.5, 0, np.array(volume.shape)[None])
    first = np.minimum(np.floor(ends[0]).astype(int), np.array(volume.shape) - 1)
    last = np.maximum(np.ceil(ends[1]).astype(int), first + 1)
    axis = volume.slice_axis
    rows, columns = (a for a in range(3) if a != axis)
    whole = slice_picture(volume, int((first[axis] + last[axis] - 1) // 2))
    assert whole.index_from_pixel is not None
    matrix = whole.index_from_pixel.copy()
    matrix[:, 2] += first[rows] * matrix[:, 0] + first[columns] * matrix[:, 1]
    pixels = np.ascontiguousarray(
        whole.pixels[first[rows] : last[rows], first[columns] : last[columns]]
    )
    return Picture(pixels, f"{label} on {whole.label}", matrix, whole.windows, "crop")
