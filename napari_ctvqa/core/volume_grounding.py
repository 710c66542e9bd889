"""Boxes in a volume model's text, brought back to the CT.

M3D writes ``<bx_start>[x1, y1, z1, x2, y2, z2]<bx_end>``: the first and the last voxel of a mask,
each index divided by the size of its axis and rounded to three decimals. Its x, y and z are the
first, second and third axis of its tensor (slices, rows, columns), not the patient's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.grounding import MOST, Unplaced
from napari_ctvqa.core.model_volumes import Point, box_zyx

if TYPE_CHECKING:
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.model_volumes import ModelVolume

_SEARCHED = 200_000
_NUMBER = r"[-+]?(?:\d{1,6}(?:\.\d{0,12})?|\.\d{1,12})"
_SIX = re.compile(rf"\[\s*({_NUMBER}(?:\s*,\s*{_NUMBER}){{5}})\s*\]")
_MARKS = ("<bx_start>", "<bx_end>", "[SEG]")


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box in the CT, as outer edges in display voxels, and in the model's own.

    ``text`` is what the model wrote.
    """

    text: str
    low_zyx: Point
    high_zyx: Point
    low_voxel: Point
    high_voxel: Point


@dataclass(frozen=True, slots=True)
class GroundedBoxes:
    """The boxes of a text that have a place in the CT, and those that have none."""

    placed: tuple[PlacedBox, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()


def volume_boxes(text: str, volume: ModelVolume, grid: Grid) -> GroundedBoxes:
    """Return the boxes in a text; ``grid`` is the CT's display grid."""
    placed: list[PlacedBox] = []
    unplaced: list[Unplaced] = []
    for written, numbers in islice(_boxes(text[:_SEARCHED]), MOST):
        try:
            placed.append(_placed(written, numbers, volume, grid))
        except ValueError as error:
            unplaced.append(Unplaced(written, str(error)))
    return GroundedBoxes(tuple(placed), tuple(unplaced))


def box_text(first: Sequence[int], last: Sequence[int], shape: Sequence[int]) -> str:
    """Return a box as M3D writes it, from its first and last voxel (both inside)."""
    parts = [
        round(float(at) / size, 3)
        for ends in (first, last)
        for at, size in zip(ends, shape, strict=True)
    ]
    return f"<bx_start>{parts}<bx_end>"


def without_marks(text: str) -> str:
    """Return a text without the marks around boxes and the one that asks for a mask."""
    for mark in _MARKS:
        text = text.replace(mark, "")
    return text.strip()


def asks_for_mask(text: str) -> bool:
    """Return whether a model's text holds the mark that its mask head was triggered by."""
    return "[SEG]" in text


def _boxes(text: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    for match in _SIX.finditer(text):
        yield match[0], tuple(float(number) for number in match[1].split(","))


def _placed(written: str, numbers: tuple[float, ...], volume: ModelVolume, grid: Grid) -> PlacedBox:
    if min(numbers) < 0 or max(numbers) > 1:
        raise ValueError("its numbers are not within 0 to 1")
    sizes = np.array(volume.shape, np.float64)
    first, last = np.array(numbers[:3]) * sizes, np.array(numbers[3:]) * sizes
    if (first > last).any():
        raise ValueError("its end lies before its beginning")
    # Both are voxels of the box: it reaches from the outer edge of one to that of the other.
    low, high = np.rint(first) - 0.5, np.minimum(np.rint(last), sizes - 1) + 0.5
    if (low >= high).any():
        raise ValueError("it lies outside the volume")
    low_zyx, high_zyx = box_zyx(volume, low, high, grid)
    return PlacedBox(written, low_zyx, high_zyx, _point(low), _point(high))


def _point(values: npt.NDArray[np.float64]) -> Point:
    return float(values[0]), float(values[1]), float(values[2])
