"""A View drawn at any size: the picture, and the marks, letters and words over it.

The marks are first laid out as plain shapes in pixels, so that a picture (Pillow) and a drawing
(SVG) show the same. Letters come from the font that Pillow carries: no file of the machine counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from napari_ctvqa.core.plane_pictures import (
    plane_grey,
    plane_overlay,
    plane_spacing_mm,
)
from napari_ctvqa.core.view_text import slab_text, slice_text, window_text
from napari_ctvqa.core.windows import width_level

if TYPE_CHECKING:
    from napari_ctvqa.core.colours import RGB
    from napari_ctvqa.exports._views import LegendEntry, Parts, View

WHITE, RED, BLACK, FRAME = (255, 255, 255), (255, 150, 120), (0, 0, 0), (213, 94, 0)
_TEXT_SHARE, _MARKER_SHARE, _LEAST_TEXT_PX = 0.026, 0.052, 9
_NICE_MM = (500, 200, 100, 50, 20, 10, 5, 2, 1)
_BAR_SHARE = 0.25
_NO_GLYPH = "\ue000"
_INSTEAD = {"³": "3", "²": "2", "–": "-", "—": "-", "…": "...", "≈": "~", "≥": ">=", "≤": "<="}
MAX_LEGEND = 10
_MOST_LETTERS = 1000
"""Of a line: a name may have any length, and each letter that is cut is measured."""
DASHES = {"dashed": (6, 3), "dotted": (4, 2), "long dashes": (10, 7)}
"""Pixels from dash to dash, and those of the dash."""


@dataclass(frozen=True)
class Words:
    """A line of text, its middle or an end at (x, y): ``anchor`` as Pillow's, e.g. ``"mm"``."""

    text: str
    x: float
    y: float
    size_px: float
    anchor: str = "la"
    colour: tuple[int, int, int] = WHITE


@dataclass(frozen=True)
class Box:
    """A rectangle (left, top, right, bottom) in pixels, filled or drawn as a line.

    ``pattern`` is ``""``, ``"hatch"`` or ``"cross"``; ``dash`` the look's outline.
    """

    corners: tuple[float, float, float, float]
    fill: tuple[int, int, int, int] | None = None
    line: tuple[int, int, int] | None = None
    width_px: float = 1.0
    dash: str = "solid"
    pattern: str = ""


Shape = Words | Box


@dataclass(frozen=True, eq=False)
class Composition:
    """A picture of ``size_px`` (width, height): where the plane lies, and the shapes over it."""

    size_px: tuple[int, int]
    plane: npt.NDArray[np.uint8]
    corner_px: tuple[int, int]
    shapes: tuple[Shape, ...]


def composed(view: View, size_px: tuple[int, int], parts: Parts) -> Composition:
    """Return a view laid out at a size in pixels.

    Raises
    ------
    IndexError
        For a slice that the grid does not have.
    """
    wide, high = size_px
    text_px = max(_TEXT_SHARE * min(wide, high), _LEAST_TEXT_PX)
    lines = _wrapped(view.caption, wide - 2 * text_px, text_px) if parts.caption else []
    band = round(1.35 * text_px * len(lines) + text_px) if lines else 0
    area = (wide, max(high - band, 1))
    plane, corner, px_per_mm = _fitted(view, area)
    shapes: list[Shape] = []
    shapes += _corner_words(view, area, text_px, parts)
    shapes += _markers(view, area, max(_MARKER_SHARE * min(area), _LEAST_TEXT_PX), text_px, parts)
    if parts.scale_bar and not view.no_markers:  # no lengths where the geometry is not trusted
        shapes += _scale_bar(px_per_mm, area, text_px)
    shapes += _legend(view.legend[:MAX_LEGEND], area, text_px) if parts.legend else []
    for row, line in enumerate(lines):
        top = area[1] + 0.5 * text_px + 1.35 * text_px * row
        colour = FRAME if view.marked and row == 0 else WHITE
        shapes.append(Words(line, text_px, top, text_px, "la", _lighter(colour)))
    if view.marked:
        edge = max(text_px / 5, 2)
        box = (edge / 2, edge / 2, area[0] - edge / 2, area[1] - edge / 2)
        shapes.append(Box(box, line=FRAME, width_px=edge))
    return Composition(size_px, plane, corner, tuple(shapes))


def painted(composition: Composition) -> Image.Image:
    """Return the composition as an RGB picture."""
    image = Image.new("RGB", composition.size_px, BLACK)
    image.paste(Image.fromarray(composition.plane), composition.corner_px)
    draw = ImageDraw.Draw(image, "RGBA")
    for shape in composition.shapes:
        if isinstance(shape, Words):
            _paint_words(draw, shape)
        else:
            _paint_box(draw, shape)
    return image


# --------------------------------------------------------------------------------------- picture


def _fitted(
    view: View, area: tuple[int, int]
) -> tuple[npt.NDArray[np.uint8], tuple[int, int], float]:
    """Return the plane as large as the area allows, in true proportions; its corner; px per mm."""
    grey = plane_grey(view.scene, view.axis, view.index)
    row_mm, column_mm = plane_spacing_mm(view.scene.grid, view.axis)
    high_mm, wide_mm = grey.shape[0] * row_mm, grey.shape[1] * column_mm
    px_per_mm = min(area[0] / wide_mm, area[1] / high_mm)
    size = (max(round(wide_mm * px_per_mm), 1), max(round(high_mm * px_per_mm), 1))
    smooth = Image.fromarray(grey).resize(size, Image.Resampling.BICUBIC)
    picture = np.repeat(np.asarray(smooth)[..., None], 3, axis=2)
    overlay = _overlay(view, grey.shape, size)
    if overlay is not None:
        alpha = 1.0 - overlay[..., 3:].astype(np.float32) / 255.0
        over = overlay[..., :3].astype(np.float32) + alpha * picture
        picture = np.rint(np.clip(over, 0, 255)).astype(np.uint8)
    if view.mirrored:
        picture = picture[:, ::-1]
    corner = ((area[0] - size[0]) // 2, (area[1] - size[1]) // 2)
    return np.ascontiguousarray(picture), corner, px_per_mm


def _overlay(
    view: View, shape: tuple[int, ...], size: tuple[int, int]
) -> npt.NDArray[np.uint8] | None:
    """Return the masks as (rows, columns, 4), colours times alpha, each voxel with hard edges."""
    found = plane_overlay(view.scene, view.axis, view.index)
    if found is None:
        return None
    whole = np.zeros(shape, np.uint32)
    (row, column), (high, wide) = found.corner, found.pixels.shape
    whole[row : row + high, column : column + wide] = found.pixels
    # where a pixel's middle lies, in voxels
    rows = np.minimum((np.arange(size[1]) + 0.5) * shape[0] / size[1], shape[0] - 1).astype(int)
    columns = np.minimum((np.arange(size[0]) + 0.5) * shape[1] / size[0], shape[1] - 1).astype(int)
    spread = whole[np.ix_(rows, columns)]
    shifts = (16, 8, 0, 24)
    return np.stack([(spread >> np.uint32(s)).astype(np.uint8) for s in shifts], axis=-1)


# ----------------------------------------------------------------------------------------- marks


def _corner_words(view: View, area: tuple[int, int], text_px: float, parts: Parts) -> list[Shape]:
    grid, (lo, hi) = view.scene.grid, view.scene.window_hu
    shapes: list[Shape] = []
    if parts.slice_text:
        text = slice_text(grid, view.axis, view.index)
        slab = view.scene.slab
        below = () if slab is None else slab_text(slab, grid, view.axis, view.index)[:1]
        for row, line in enumerate((text, *below)):
            shapes.append(Words(line, 0.6 * text_px, (0.5 + 1.3 * row) * text_px, text_px))
    if parts.window:
        text = window_text(*width_level(lo, hi))
        shapes.append(Words(text, area[0] - 0.6 * text_px, 0.5 * text_px, text_px, "ra"))
    return shapes


def _markers(
    view: View, area: tuple[int, int], size_px: float, text_px: float, parts: Parts
) -> list[Shape]:
    if not parts.markers:
        return []
    wide, high = area
    if view.no_markers:
        lines = _wrapped((view.no_markers,), 0.7 * wide, text_px)
        tops = [2.2 * text_px + 1.3 * text_px * row for row in range(len(lines))]
        return [Words(t, wide / 2, y, text_px, "ma", RED) for t, y in zip(lines, tops, strict=True)]
    gap, top = 0.35 * size_px, 0.35 * size_px
    letters = view.letters
    places = (
        (letters.left, gap, high / 2, "lm"),
        (letters.right, wide - gap, high / 2, "rm"),
        (letters.top, wide / 2, top, "ma"),
        (letters.bottom, wide / 2, high - top, "md"),
    )
    return [Words(text, x, y, size_px, anchor) for text, x, y, anchor in places if text]


def _scale_bar(px_per_mm: float, area: tuple[int, int], text_px: float) -> list[Shape]:
    longest = _BAR_SHARE * area[0] / px_per_mm
    length_mm = next((mm for mm in _NICE_MM if mm <= longest), _NICE_MM[-1])
    length_px, thick = length_mm * px_per_mm, max(text_px / 6, 2)
    right, bottom = area[0] - 0.8 * text_px, area[1] - 0.9 * text_px
    box = (right - length_px, bottom - thick, right, bottom)
    text = f"{length_mm // 10} cm" if length_mm >= 10 else f"{length_mm} mm"
    return [
        Box((box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1), fill=(*BLACK, 255)),
        Box(box, fill=(*WHITE, 255)),
        Words(text, right - length_px / 2, bottom - thick - 0.25 * text_px, text_px, "md"),
    ]


def _legend(entries: tuple[LegendEntry, ...], area: tuple[int, int], text_px: float) -> list[Shape]:
    shapes: list[Shape] = []
    line = 1.5 * text_px
    top = area[1] - 0.5 * text_px - line * len(entries)
    for row, entry in enumerate(entries):
        y = top + line * row
        chip = (0.7 * text_px, y + 0.1 * text_px, 2.1 * text_px, y + 1.1 * text_px)
        look = entry.look
        fill = None if look.fill == "none" else (*entry.colour, round(255 * look.fill_alpha))
        pattern = look.fill if look.fill in ("hatch", "cross") else ""
        outline = None if look.outline == "none" else _plain(entry.colour)
        shapes.append(Box(chip, fill=(*BLACK, 200)))
        shapes.append(Box(chip, fill, outline, max(text_px / 8, 1.5), look.outline, pattern))
        middle = y + 0.6 * text_px
        # short of the marker in the middle of the edge, which it must not hide
        limit = area[0] / 2 - (2.6 + 2.0) * text_px
        text = _cut(entry.text, limit, text_px)
        shapes.append(Words(text, 2.6 * text_px, middle, text_px, "lm"))
    return shapes


def _plain(colour: RGB) -> tuple[int, int, int]:
    return (colour.red, colour.green, colour.blue)


def _lighter(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a frame's colour as text that can be read on black."""
    return (255, 170, 90) if colour == FRAME else colour


def _wrapped(lines: tuple[str, ...], wide_px: float, text_px: float) -> list[str]:
    """Return lines broken at blanks so that none is wider; a longer word is cut."""
    font, out = _font(text_px), []
    for line in lines:
        row = ""
        for word in line.split():
            longer = f"{row} {word}".strip()
            if row and font.getlength(longer) > wide_px:
                out.append(row)
                longer = word
            row = _cut(longer, wide_px, text_px)
        out.append(row)
    return [line for line in out if line]


def _cut(text: str, wide_px: float, text_px: float) -> str:
    """Return text that is no wider, its end cut off and marked where it was."""
    font = _font(text_px)
    text = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
    while len(text) > 1 and font.getlength(text) > wide_px:
        text = f"{text[:-2]}…"
    return text


# --------------------------------------------------------------------------------------- Pillow


@lru_cache(maxsize=32)
def _font(size_px: float) -> Any:
    return ImageFont.load_default(size_px)


def burnt(text: str) -> str:
    """Return text in letters that the font has: "cm3" for cm³, a question mark for the rest."""
    return "".join(c if _has(c) else _INSTEAD.get(c, "?") for c in text)


@lru_cache(maxsize=1024)
def _has(character: str) -> bool:
    font = _font(_LEAST_TEXT_PX * 2)
    return character.isspace() or bytes(font.getmask(character)) != bytes(font.getmask(_NO_GLYPH))


def _paint_words(draw: ImageDraw.ImageDraw, words: Words) -> None:
    halo = max(round(words.size_px / 10), 1)
    draw.text(
        (words.x, words.y),
        burnt(words.text),
        font=_font(words.size_px),
        anchor=words.anchor,
        fill=words.colour,
        stroke_width=halo,
        stroke_fill=BLACK,
    )


def _paint_box(draw: ImageDraw.ImageDraw, box: Box) -> None:
    left, top, right, bottom = box.corners
    if box.fill is not None and not box.pattern:
        draw.rectangle(box.corners, fill=box.fill)
    for line in pattern_lines(box):
        draw.line(line, fill=(*box.fill[:3], 255) if box.fill else box.line, width=1)
    if box.line is None:
        return
    width = max(round(box.width_px), 1)
    if box.dash == "solid":
        draw.rectangle(box.corners, outline=box.line, width=width)
        return
    period, dash = DASHES[box.dash]
    for start in np.arange(left, right, period):
        end = min(float(start) + dash, right)
        for y in (top, bottom):
            draw.line((float(start), y, end, y), fill=box.line, width=width)


def pattern_lines(box: Box) -> list[tuple[float, float, float, float]]:
    """Return the lines (x0, y0, x1, y1) of a box's pattern, cut at its edges."""
    left, top, right, bottom = box.corners
    if not box.pattern:
        return []
    lines = []
    for offset in np.arange(left - (bottom - top), right, max((bottom - top) / 3, 2)).tolist():
        low, high = max(offset, left), min(offset + bottom - top, right)
        if low < high:
            first, last = low - offset, high - offset
            lines.append((low, top + first, high, top + last))
            if box.pattern == "cross":
                lines.append((low, bottom - first, high, bottom - last))
    return lines
