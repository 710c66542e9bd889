"""Slices of a CT as the pictures a chat model gets, and where every pixel lies.

Display axes (z, y, x) run to Inferior, Posterior and Left, so a slice taken as it lies is the
radiological picture: rows to Posterior, columns to the patient's left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.models._settings import MOST_PICTURES, PLANES

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Volume
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.models._settings import Feeding

Windows = tuple[tuple[float, float], ...]
_SQUARE_WITHIN = 0.01
_FILE_AXES = "ijk"


def chosen_slices(count: int, choice: str, at_most: int) -> tuple[int, ...]:
    """Return ascending indices of ``count`` slices.

    ``linspace``: evenly spaced, both ends included, rounded half to even, as CT-SpatialVQA's
    runner does. ``medgemma``: round(i / m (n - 1)) for i = 1 … m, so the very first is left out,
    as in MedGemma's notebook. ``centre``: as many as wanted around the middle. ``all``: every one.
    The first three take every slice where there are no more than ``at_most``.
    """
    at_most = min(at_most, MOST_PICTURES)
    if choice == "all" or count <= at_most:
        return tuple(range(count))
    if at_most == 0:
        return ()
    if choice == "medgemma":
        return tuple(round(i / at_most * (count - 1)) for i in range(1, at_most + 1))
    if choice == "centre":
        first = (count - at_most + 1) // 2
        return tuple(range(first, first + at_most))
    return tuple(round(float(at)) for at in np.linspace(0, count - 1, at_most))


def windowed(hu: npt.NDArray[np.generic], windows_hu: Windows) -> npt.NDArray[np.uint8]:
    """Return HU of any shape as uint8 with three channels: clipped, scaled to 0–255, rounded.

    In float32 and half to even, as MedGemma's notebook and CT-SpatialVQA's runner do. One window
    gives grey.
    """
    if hu.dtype == np.int16:
        return np.asarray(_table(windows_hu)[hu.view(np.uint16) if hu.flags.c_contiguous
                          else np.ascontiguousarray(hu).view(np.uint16)])  # fmt: skip
    values = np.nan_to_num(hu.astype(np.float32), nan=-1024.0)
    return _scaled(values, windows_hu)


def _scaled(values: npt.NDArray[np.float32], windows_hu: Windows) -> npt.NDArray[np.uint8]:
    channels = []
    for low, high in windows_hu:
        channel = np.clip(values, np.float32(low), np.float32(high))
        channel = (channel - np.float32(low)) / np.float32(high - low) * np.float32(255)
        channels.append(np.round(channel).astype(np.uint8))
    return np.stack(channels * (3 // len(channels)), axis=-1)


@lru_cache(maxsize=16)
def _table(windows_hu: Windows) -> npt.NDArray[np.uint8]:
    """Return the colour of every int16 value, ordered by its bits read as uint16."""
    values = np.arange(2**16, dtype=np.uint16).view(np.int16).astype(np.float32)
    table = _scaled(values, windows_hu)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, slots=True)
class Frame:
    """How slices of one plane become pictures.

    ``inner_px`` is the size (rows, columns) that the voxels are resampled to, ``outer_px`` that of
    the picture, ``at_px`` where the first lies in the second. ``first`` is the first of the
    ``voxels`` that are sent, along rows and columns.
    """

    axis: int
    voxels: tuple[int, int]
    inner_px: tuple[int, int]
    outer_px: tuple[int, int]
    at_px: tuple[int, int]
    first: tuple[int, int] = (0, 0)

    @property
    def resampled(self) -> bool:
        """Return whether a pixel is not simply a voxel."""
        return self.inner_px != self.voxels

    def index_from_pixel(self, index: int) -> npt.NDArray[np.float64]:
        """Return the 3 x 3 matrix of ``Picture`` for the slice at a display index.

        Pixels are areas: the centre of pixel r of n lies at (r + 1/2) N / n - 1/2 of N voxels.
        """
        matrix = np.zeros((3, 3))
        matrix[self.axis, 2] = index
        across = [axis for axis in range(3) if axis != self.axis]
        for column, axis in enumerate(across):
            step = self.voxels[column] / self.inner_px[column]
            matrix[axis, column] = step
            matrix[axis, 2] = (0.5 - self.at_px[column]) * step - 0.5 + self.first[column]
        return matrix


def frame_of(grid: Grid, fed: Feeding) -> Frame:
    """Return how slices of this grid are framed.

    Axial slices keep their voxels, as all recipes do, even where these are no squares; the other
    two planes are stretched to squares of the smaller spacing.
    """
    axis = PLANES.index(fed.plane)
    across = [a for a in range(3) if a != axis]
    voxels = (grid.shape_zyx[across[0]], grid.shape_zyx[across[1]])
    size = (float(voxels[0]), float(voxels[1]))
    if axis != 0:
        step_mm = [grid.spacing_mm_zyx[a] for a in across]
        size = (size[0] * step_mm[0] / min(step_mm), size[1] * step_mm[1] / min(step_mm))
    if fed.size_px is None:
        inner = _whole_px(size)
        return Frame(axis, voxels, inner, inner, (0, 0))
    outer = (fed.size_px, fed.size_px)
    if fed.fit == "stretch":
        return Frame(axis, voxels, outer, outer, (0, 0))
    if fed.fit == "field":
        middles = [
            middle(grid.shape_zyx[a], grid.spacing_mm_zyx[a], mm)
            for a, mm in zip(across, fed.field_mm, strict=True)
        ]
        (top, height), (left, width) = middles
        return Frame(axis, (height, width), outer, outer, (0, 0), (top, left))
    scale = fed.size_px / max(size)
    inner = _whole_px((size[0] * scale, size[1] * scale))
    at = ((outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2)
    return Frame(axis, voxels, inner, outer, at)


def middle(voxels: int, spacing_mm: float, field_mm: float) -> tuple[int, int]:
    """Return the first voxel and the number of those in a field about the middle of an axis."""
    count = min(voxels, max(1, round(field_mm / spacing_mm)))
    return (voxels - count) // 2, count


def _whole_px(size: tuple[float, float]) -> tuple[int, int]:
    return (max(1, round(size[0])), max(1, round(size[1])))


def picture(
    volume: Volume, frame: Frame, index: int, windows_hu: Windows, label: str = ""
) -> Picture:
    """Return one slice as it is sent: windowed, then resampled (bilinear), then padded black."""
    (top, left), (height, width) = frame.first, frame.voxels
    hu = hu_slice(volume, frame.axis, index)[top : top + height, left : left + width]
    pixels = windowed(hu, windows_hu)
    if frame.resampled:
        pixels = _resized(pixels, frame.inner_px)
    if frame.outer_px != frame.inner_px:
        (top, left), (height, width) = frame.at_px, frame.inner_px
        whole = np.zeros((*frame.outer_px, 3), np.uint8)
        whole[top : top + height, left : left + width] = pixels
        pixels = whole
    return Picture(pixels, label, frame.index_from_pixel(index), windows_hu)


def hu_slice(volume: Volume, axis: int, index: int) -> npt.NDArray[np.generic]:
    """Return one display slice, (rows, columns), contiguous; only the slice is copied."""
    at: list[int | slice] = [slice(None)] * 3
    at[axis] = index
    return np.ascontiguousarray(volume.display_zyx[tuple(at)])


def _resized(pixels: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    from PIL import Image

    image = Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(image)


def pixel_mm(frame: Frame, grid: Grid) -> tuple[float, float]:
    """Return height and width of a pixel."""
    across = [axis for axis in range(3) if axis != frame.axis]
    height, width = (
        grid.spacing_mm_zyx[axis] * frame.voxels[n] / frame.inner_px[n]
        for n, axis in enumerate(across)
    )
    return height, width


def square(height_mm: float, width_mm: float) -> bool:
    """Return whether a pixel of these sides is as good as a square."""
    return abs(height_mm / width_mm - 1) < _SQUARE_WITHIN


def slice_records(
    grid: Grid, axis: int, indices: Sequence[int], labels: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return, for each picture, its label and its slice: as shown, on display, in the file.

    ``shown`` counts from 1 as readers do, the others from 0; ``file_slice`` is None where the
    picture is resampled (a sheared CT).
    """
    records: list[Mapping[str, Any]] = []
    for index, label in zip(indices, labels, strict=True):
        on_file = grid.file_slice(axis, index)
        records.append(
            {
                "label": label,
                "display_slice": index,
                "shown": index + 1,
                "file_axis": None if on_file is None else _FILE_AXES[on_file[0]],
                "file_slice": None if on_file is None else on_file[1],
                "ras_slice": grid.ras_slice(axis, index),
            }
        )
    return records
