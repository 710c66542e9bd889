"""What is sent, changed after it was made: marks drawn into pictures, places put right.

MIS-Ground's visual prompts: the mask, a box, a point or a letter, drawn in red on every picture
that shows what is asked about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.core.probes import CannotProbeError

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.model_volumes import ModelVolume

RED = (255, 0, 0)
_TINY = 1e-6
_STRENGTH = 0.4
"""How much of a mask's colour is laid over the picture."""
_THICK, _RADIUS = 0.006, 0.012
"""Of a box's line and of a point, as parts of the picture's longer side."""
_LETTER = ("01110", "10001", "10001", "11111", "10001", "10001", "10001")
SAYS = {
    "overlay": "What is asked about is marked in red.",
    "box": "What is asked about lies in the red box.",
    "point": "What is asked about lies at the red point.",
    "label": "What is asked about is marked with the red letter A.",
}
"""The sentence that follows the question, by probe."""

Pixels = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


def fingerprint(ask: Ask) -> str:
    """Return a mark that two asks share where the same is sent and answers are taken alike."""
    mark = hashlib.sha256()
    for message in ask.messages:
        mark.update(f"\n{message.role}\n".encode())
        for part in message.parts:
            if isinstance(part, str):
                mark.update(b"\0text" + part.encode("utf-8", "backslashreplace"))
            else:
                mark.update(f"\0picture {part.pixels.shape}".encode() + part.pixels.tobytes())
    if ask.volume is not None and ask.volume.values is not None:
        values = ask.volume.values  # and not their place: the model is not told of it
        mark.update(f"\0volume {values.dtype} {values.shape}".encode())
        mark.update(np.ascontiguousarray(values).data)
    rest = [plain(x) for x in (ask.tools, ask.template, ask.processor, dict(ask.meanings))]
    mark.update(json.dumps(rest, sort_keys=True, default=str).encode())
    return mark.hexdigest()


def placed(prepared: Prepared, to_original: npt.NDArray[np.float64]) -> Prepared:
    """Return what is sent with its pictures and its volume placed in the CT itself.

    ``to_original`` is that of the ``ChangedCase`` it was made of. Pixels, numbers and the recipe
    stay those of the changed case.
    """

    def place(picture: Picture) -> Picture:
        matrix = picture.index_from_pixel
        if matrix is None:
            return picture
        moved = to_original[:3, :3] @ matrix
        moved[:, 2] += to_original[:3, 3]
        return replace(picture, index_from_pixel=moved)

    if np.array_equal(to_original, np.eye(4)):
        return prepared
    ask = _each(prepared.ask, place)
    if ask.volume is not None:
        ask = replace(ask, volume=placed_volume(ask.volume, to_original))
    return replace(prepared, ask=ask)


_OPPOSITE = {"R": "L", "L": "R", "A": "P", "P": "A", "S": "I", "I": "S"}


def placed_volume(volume: ModelVolume, to_original: npt.NDArray[np.float64]) -> ModelVolume:
    """Return a changed case's volume with its place in the CT itself.

    An axis that the change turned is named after where it increases to in the patient.
    """
    backwards = np.diagonal(to_original)[:3] < 0
    axes = "".join(
        _OPPOSITE[letter] if backwards[axis] else letter
        for letter, axis in zip(volume.axes, volume.display_axis, strict=False)
    )
    crop = volume.crop_voxels
    if crop is not None:
        ends = np.array(crop, np.float64).T - 0.5
        there = np.sort(ends * np.diagonal(to_original)[:3] + to_original[:3, 3], axis=0) + 0.5
        low, high = np.floor(there[0] + _TINY).astype(int), np.ceil(there[1] - _TINY).astype(int)
        z, y, x = ((int(first), int(last)) for first, last in zip(low, high, strict=True))
        crop = (z, y, x)
    matrix = to_original @ volume.index_from_voxel
    return replace(volume, index_from_voxel=matrix, axes=axes, crop_voxels=crop)


def _each(ask: Ask, change: Callable[[Picture], Picture]) -> Ask:
    def changed(message: Message) -> Message:
        parts = (part if isinstance(part, str) else change(part) for part in message.parts)
        return replace(message, parts=tuple(parts))

    return replace(ask, messages=tuple(changed(message) for message in ask.messages))


def with_marks(ask: Ask, region: Region, how: str, *, say: bool = True) -> Ask:
    """Return what is sent with a region marked on every picture that shows it.

    ``how`` is ``overlay``, ``box``, ``point`` or ``label``. With ``say`` a fixed sentence after the
    last words of the user says what the mark is.

    Raises
    ------
    CannotProbeError
        When no picture shows a voxel of the region.
    """
    shown = 0

    def mark(picture: Picture) -> Picture:
        nonlocal shown
        seen = pixels_of(region, picture)
        if seen is None or not seen.any():
            return picture
        shown += 1
        return replace(picture, pixels=_DRAW[how](picture.pixels.copy(), seen))

    marked = _each(ask, mark)
    if not shown:
        raise CannotProbeError("No picture that is sent shows what is asked about.")
    return _saying(marked, SAYS[how]) if say else marked


def _saying(ask: Ask, sentence: str) -> Ask:
    last = max(n for n, message in enumerate(ask.messages) if message.role == "user")
    message = ask.messages[last]
    told = replace(message, parts=(*message.parts, sentence))
    return replace(ask, messages=(*ask.messages[:last], told, *ask.messages[last + 1 :]))


def pixels_of(region: Region, picture: Picture) -> Bools | None:
    """Return which pixels of a picture lie in a region (nearest voxel); None for no cut of the CT.

    The picture's place must be in the region's own grid.
    """
    if picture.index_from_pixel is None or region.box_zyx is None or region.crop_zyx is None:
        return None
    rows, columns = picture.pixels.shape[:2]
    row, column = np.mgrid[:rows, :columns]
    at = np.floor(picture.index_zyx(row, column) + 0.5).astype(np.intp)
    at -= [s.start for s in region.box_zyx]
    valid = ((at >= 0) & (at < region.crop_zyx.shape)).all(axis=-1)
    seen = np.zeros((rows, columns), bool)
    z, y, x = at[valid].T
    seen[valid] = region.crop_zyx[z, y, x]
    return seen


def _overlay(pixels: Pixels, seen: Bools) -> Pixels:
    laid = pixels[seen] * (1 - _STRENGTH) + np.array(RED) * _STRENGTH
    pixels[seen] = np.round(laid).astype(np.uint8)
    return pixels


def _box(pixels: Pixels, seen: Bools) -> Pixels:
    thick = max(1, round(_THICK * max(seen.shape)))
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    top, left = max(0, rows[0] - thick), max(0, columns[0] - thick)
    bottom = min(seen.shape[0], rows[-1] + 1 + thick)
    right = min(seen.shape[1], columns[-1] + 1 + thick)
    frame = np.zeros_like(seen)
    frame[top:bottom, left:right] = True
    frame[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = False
    pixels[frame] = RED
    return pixels


def _point(pixels: Pixels, seen: Bools) -> Pixels:
    row, column = _deepest(seen)
    radius = max(2, round(_RADIUS * max(seen.shape)))
    rows, columns = np.ogrid[: seen.shape[0], : seen.shape[1]]
    pixels[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = RED
    return pixels


def _label(pixels: Pixels, seen: Bools) -> Pixels:
    letter = np.array([[c == "1" for c in line] for line in _LETTER])
    scale = max(1, round(_RADIUS * max(seen.shape) / 2))
    letter = np.kron(letter, np.ones((scale, scale), bool))
    row, column = _deepest(seen)
    height, width = letter.shape
    top = int(np.clip(row - height // 2, 0, max(0, seen.shape[0] - height)))
    left = int(np.clip(column - width // 2, 0, max(0, seen.shape[1] - width)))
    part = letter[: seen.shape[0] - top, : seen.shape[1] - left]
    pixels[top : top + part.shape[0], left : left + part.shape[1]][part] = RED
    return pixels


def _deepest(seen: Bools) -> tuple[int, int]:
    """Return the pixel farthest from the edge of what is seen: it lies in it, whatever its form.

    Of several the one nearest to the centroid.
    """
    from scipy import ndimage

    depth = ndimage.distance_transform_edt(np.pad(seen, 1))[1:-1, 1:-1]
    deepest = np.argwhere(depth > depth.max() - 0.5)
    away = ((deepest - np.argwhere(seen).mean(axis=0)) ** 2).sum(axis=1)
    row, column = deepest[int(np.argmin(away))]
    return int(row), int(column)


_DRAW: Mapping[str, Callable[[Pixels, Bools], Pixels]] = {
    "overlay": _overlay,
    "box": _box,
    "point": _point,
    "label": _label,
}
