"""Boxes, points and slice numbers in a model's text, brought back to the CT.

Models write boxes in their own measure: 0 to 1000 of the picture (x first or y first), or pixels
of the picture after their processor's resize. Pictures are areas: 0 is the outer edge of the first
pixel. What cannot be placed is said with its reason, never guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.picture_tokens import resized_px

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset

MOST = 200
"""Boxes, points or slice numbers of one text."""
_SEARCHED = 200_000
_LONGEST_OBJECT = 4_000
_BOX_KEYS = ("bbox_2d", "box_2d", "bbox", "box")
_POINT_KEYS = ("point_2d", "point")
_PICTURE_KEYS = ("slice", "image", "picture", "frame", "slice_number", "image_id")
_RELATIVE = 1000.0

_NUMBER = re.compile(
    r"\b(?:slice|picture|image|frame)s?\s*(?:no\.?|number|#)?\s*[:=]?\s*"
    r"(\d{1,4}(?:\s*(?:,|&|and|to|-|–)\s*\d{1,4})*)(?![\d.]*\d)(?!\s*(?:mm|cm|%))",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d{1,4})\s*(?:to|-|–)\s*(\d{1,4})")
_OBJECT = re.compile(r"\{[^{}]*\}")
_MAY_POINT = re.compile(r'"(?:bbox_2d|box_2d|bbox|box|point_2d|point)"')
_TAGGED_BOX = re.compile(
    r"(?:<ref>([^<]{0,200})</ref>\s*)?<box>\s*(\[[\d\s.,\[\]-]{1,2000}\])\s*</box>"
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A box, a point or a whole slice in the CT.

    ``low_zyx`` and ``high_zyx`` are outer edges in display voxels (a voxel reaches half a voxel
    around its index); for a point both are the point. ``picture`` counts the pictures from 0.
    ``edges_px`` are top, left, bottom, right of the picture as it was sent; None for a slice.
    """

    kind: str
    label: str
    picture: int
    low_zyx: tuple[float, float, float]
    high_zyx: tuple[float, float, float]
    edges_px: tuple[float, float, float, float] | None = None

    @property
    def axis(self) -> int:
        """Return the display axis that the picture's slice is at right angles to."""
        thickness = [high - low for low, high in zip(self.low_zyx, self.high_zyx, strict=True)]
        return int(np.argmin(thickness))


@dataclass(frozen=True, slots=True)
class Unplaced:
    """What a text names and the CT has no place for, and why."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Grounded:
    """Everything that a text points at."""

    placed: tuple[Placed, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    """One box or point as written: numbers, label, the number of its picture (from 1) or None."""

    kind: str
    numbers: tuple[float, ...]
    label: str
    number: int | None
    text: str


def boxes(
    preset: Preset,
    text: str,
    pictures: Sequence[Picture],
    sent_size: Sequence[tuple[int, int]] | None = None,
    shape_zyx: tuple[int, int, int] | None = None,
) -> Grounded:
    """Return the boxes and points in a text, in the CT.

    Parameters
    ----------
    preset
        Says in which measure its boxes are (``grounding``).
    pictures
        In the order in which they were sent.
    sent_size
        (rows, columns) of each picture after the processor's resize, for pixel boxes; by default
        what the preset's rule says.
    shape_zyx
        Size of the display grid: boxes are cut to it, and one in a picture's border has no place.
    """
    text = text[:_SEARCHED]
    items = list(islice(_items(text), MOST))
    if not items:
        return Grounded()
    if preset.grounding == "none":
        why = f"{preset.title} is not known to give boxes"
        return Grounded(unplaced=tuple(Unplaced(item.text, why) for item in items))
    placed: list[Placed] = []
    unplaced: list[Unplaced] = []
    for item in items:
        try:
            there = _placed(preset, item, pictures, sent_size)
            placed.append(there if shape_zyx is None else _cut_to(there, shape_zyx))
        except ValueError as error:
            unplaced.append(Unplaced(item.text, str(error)))
    trained = preset.facts.get("boxes_trained_on")
    notes = (f"{preset.title} was trained to give boxes on {trained} only",) if trained else ()
    return Grounded(tuple(placed), tuple(unplaced), notes)


def slices_named(text: str, pictures: Sequence[Picture]) -> Grounded:
    """Return the slices that a text names by their number in the prompt ("SLICE 12")."""
    placed: dict[int, Placed] = {}
    unplaced: dict[int, Unplaced] = {}
    for number in islice(_numbers(text[:_SEARCHED]), MOST):
        try:
            at = _picture_number(number, pictures)
            placed.setdefault(number, _whole(at, pictures[at]))
        except ValueError as error:
            unplaced.setdefault(number, Unplaced(f"slice {number}", str(error)))
    return Grounded(tuple(placed.values()), tuple(unplaced.values()))


def picture_of(placed: Placed, pictures: Sequence[Picture]) -> Picture:
    """Return the part of a picture that was pointed at, as a picture: it has its own frame.

    A point becomes the pixel that it lies in; edges are rounded outwards to whole pixels.
    """
    whole = pictures[placed.picture]
    if placed.edges_px is None or whole.index_from_pixel is None:
        return whole
    rows, columns = whole.pixels.shape[:2]
    top, left, bottom, right = placed.edges_px
    first_row, first_column = min(int(top), rows - 1), min(int(left), columns - 1)
    last_row = min(max(math.ceil(bottom), first_row + 1), rows)
    last_column = min(max(math.ceil(right), first_column + 1), columns)
    matrix = whole.index_from_pixel.copy()
    matrix[:, 2] += first_row * matrix[:, 0] + first_column * matrix[:, 1]
    pixels = np.ascontiguousarray(whole.pixels[first_row:last_row, first_column:last_column])
    said = f"{placed.label or placed.kind} on {whole.label}" if whole.label else placed.label
    return Picture(pixels, said or placed.kind, matrix, whole.windows, "crop")


# ----------------------------------------------------------------------------------------- reading


def _items(text: str) -> Iterator[_Item]:
    for match in _OBJECT.finditer(text):
        if len(match[0]) <= _LONGEST_OBJECT and _MAY_POINT.search(match[0]):
            yield from _of_object(match[0], text, match.start())
    for match in _TAGGED_BOX.finditer(text):
        try:
            listed = json.loads(match[2])
        except (ValueError, RecursionError):
            continue
        rows = listed if listed and isinstance(listed[0], list) else [listed]
        for row in rows:
            numbers = _finite(row)
            if numbers is not None:
                label = (match[1] or "").strip()
                yield _Item("box", numbers, label, _before(text, match.start()), match[0])


def _of_object(written: str, text: str, at: int) -> Iterator[_Item]:
    try:
        data = json.loads(written)
    except (ValueError, RecursionError):
        return
    label = data.get("label")
    named = label if isinstance(label, str) else ""
    number = _own_number(data, named)
    if number is None:
        number = _before(text, at)
    for kind, keys in (("box", _BOX_KEYS), ("point", _POINT_KEYS)):
        value = next((data[key] for key in keys if key in data), None)
        numbers = _finite(value)
        if numbers is not None:
            yield _Item(kind, numbers, named[:200], number, written)


def _own_number(data: Mapping[str, Any], label: str) -> int | None:
    """Return the picture that an object names itself: by a key, or in its label."""
    for key in _PICTURE_KEYS:
        value = data.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and (found := re.search(r"\d{1,4}", value)):
            return int(found[0])
    return _one(label)


def _before(text: str, at: int) -> int | None:
    """Return the picture that is named last before a place, on its line or the line above."""
    head = text[max(0, at - 400) : at]
    lines = [line for line in head.split("\n")[-3:] if line.strip(" \t[,`json")]
    return next((n for line in reversed(lines) if (n := _one(line)) is not None), None)


def _one(text: str) -> int | None:
    """Return the one number of a picture in a text; None for none or several."""
    numbers = set(islice(_numbers(text[:1000]), 3))
    return numbers.pop() if len(numbers) == 1 else None


def _numbers(text: str) -> Iterator[int]:
    for match in _NUMBER.finditer(text):
        listed = match[1]
        for low, high in _RANGE.findall(listed):
            if int(low) <= int(high):
                yield from range(int(low), min(int(high), int(low) + MOST) + 1)
        yield from (int(n) for n in re.findall(r"\d{1,4}", _RANGE.sub(" ", listed)))


def _finite(value: Any) -> tuple[float, ...] | None:
    """Return a list of two or four finite numbers, None for anything else."""
    if not isinstance(value, list) or len(value) not in (2, 4):
        return None
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in value):
        return None
    numbers = tuple(float(n) if abs(n) < 1e9 else float("inf") for n in value)
    return numbers if all(np.isfinite(numbers)) else None


# ----------------------------------------------------------------------------------------- placing


def _picture_number(number: int | None, pictures: Sequence[Picture]) -> int:
    """Return the index of the picture with that number in its label, or in the order sent."""
    if number is None:
        if len(pictures) == 1:
            return 0
        raise ValueError(f"it does not say on which of the {len(pictures)} pictures")
    labelled = [
        at for at, picture in enumerate(pictures) if re.fullmatch(rf"\D*0*{number}", picture.label)
    ]
    if len(labelled) == 1:
        return labelled[0]
    if any(picture.label for picture in pictures) or not 1 <= number <= len(pictures):
        raise ValueError(f"no picture {number} was sent; there were {len(pictures)}")
    return number - 1


def _placed(
    preset: Preset,
    item: _Item,
    pictures: Sequence[Picture],
    sent_size: Sequence[tuple[int, int]] | None,
) -> Placed:
    """Return where an item lies; raises ValueError with the reason where that is not known."""
    at = _picture_number(item.number, pictures)
    picture = pictures[at]
    if picture.index_from_pixel is None:
        raise ValueError("its picture is no cut of the CT")
    rows, columns = picture.pixels.shape[:2]
    if (item.kind == "box") != (len(item.numbers) == 4):
        raise ValueError(f"a {item.kind} of {len(item.numbers)} numbers")
    first, second = item.numbers[:2], item.numbers[2:] or item.numbers[:2]
    if preset.grounding == "rel1000_yxyx":
        (top, left), (bottom, right) = first, second
    else:
        (left, top), (right, bottom) = first, second
    if preset.grounding == "abs_px_resized":
        limits = _resized(preset, picture, at, sent_size)
    else:
        limits = (_RELATIVE, _RELATIVE)
        _not_fractions(item.numbers)
    _in_range((top, bottom), limits[0], "from top to bottom", item.kind)
    _in_range((left, right), limits[1], "from left to right", item.kind)
    down, across = rows / limits[0], columns / limits[1]
    edges = (top * down, left * across, bottom * down, right * across)
    low, high = _in_the_ct(picture, edges)
    return Placed(item.kind, item.label, at, low, high, edges)


def _resized(
    preset: Preset, picture: Picture, at: int, sent_size: Sequence[tuple[int, int]] | None
) -> tuple[float, float]:
    if sent_size is not None:
        return (float(sent_size[at][0]), float(sent_size[at][1]))
    rows, columns = picture.pixels.shape[:2]
    resized = resized_px(preset.facts.get("tokens", {}), rows, columns)
    return (float(resized[0]), float(resized[1]))


def _not_fractions(numbers: Sequence[float]) -> None:
    if max(numbers) <= 1 and any(number != int(number) for number in numbers):
        raise ValueError("its numbers look like parts of 1; expected 0 to 1000")


def _in_range(pair: tuple[float, float], limit: float, way: str, kind: str) -> None:
    if min(pair) < 0 or max(pair) > limit:
        raise ValueError(f"{pair[0]:g} to {pair[1]:g} {way} is not within 0 to {limit:g}")
    if kind == "box" and not pair[0] < pair[1]:
        raise ValueError(f"{pair[0]:g} to {pair[1]:g} {way} is no box")


def _in_the_ct(
    picture: Picture, edges_px: tuple[float, float, float, float]
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    top, left, bottom, right = edges_px
    first = picture.index_zyx(top - 0.5, left - 0.5)
    last = picture.index_zyx(bottom - 0.5, right - 0.5)
    low, high = np.minimum(first, last), np.maximum(first, last)
    return (
        (float(low[0]), float(low[1]), float(low[2])),
        (float(high[0]), float(high[1]), float(high[2])),
    )


def _cut_to(placed: Placed, shape_zyx: tuple[int, int, int]) -> Placed:
    edges = np.array(shape_zyx) - 0.5
    low = np.clip(placed.low_zyx, -0.5, edges)
    high = np.clip(placed.high_zyx, -0.5, edges)
    moved = np.array(placed.high_zyx) > np.array(placed.low_zyx)
    if (moved & (low >= high)).any() or (placed.kind == "point" and (low != placed.low_zyx).any()):
        raise ValueError("it lies outside the CT, in the border of the picture")
    return replace(
        placed,
        low_zyx=(float(low[0]), float(low[1]), float(low[2])),
        high_zyx=(float(high[0]), float(high[1]), float(high[2])),
    )


def _whole(at: int, picture: Picture) -> Placed:
    if picture.index_from_pixel is None:
        raise ValueError("its picture is no cut of the CT")
    rows, columns = picture.pixels.shape[:2]
    low, high = _in_the_ct(picture, (0.0, 0.0, float(rows), float(columns)))
    return Placed("slice", picture.label, at, low, high)
