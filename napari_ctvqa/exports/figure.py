"""One view as a figure for a paper: PNG or SVG at a chosen size, without anything private."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from PIL import PngImagePlugin

from napari_ctvqa.core.errors import UsageError
from napari_ctvqa.exports._composing import (
    DASHES,
    Box,
    Composition,
    Words,
    composed,
    painted,
    pattern_lines,
)
from napari_ctvqa.exports._views import PROJECT, Parts, View
from napari_ctvqa.io.png import rgb_png

SUFFIXES = (".png", ".svg")
MM_PER_INCH = 25.4
LEAST_PX, MOST_PX = 64, 8192
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*[x×]\s*(\d+(?:\.\d+)?)\s*(px|mm)?", re.IGNORECASE)
_BASELINE = {"a": 0.8, "m": 0.35, "d": -0.2}
_ENDS = {"l": "start", "m": "middle", "r": "end"}


@dataclass(frozen=True)
class FigureSize:
    """Width and height in pixels, and the pixels per inch that the file states."""

    wide_px: int
    high_px: int
    dpi: float = 96.0

    @classmethod
    def from_text(cls, text: str, dpi: float = 300.0) -> FigureSize:
        """Read ``"800x600"`` (pixels) or ``"85x60mm"`` at ``dpi``.

        Raises
        ------
        UsageError
            For another form, or a size outside 64 to 8192 pixels.
        """
        match = _SIZE.fullmatch(text.strip())
        if match is None or dpi <= 0:
            raise UsageError(
                f"{text!r} is no size.", hint="Write e.g. 800x600 (pixels) or 85x60mm."
            )
        px = dpi / MM_PER_INCH if (match[3] or "px").lower() == "mm" else 1.0
        wide, high = round(float(match[1]) * px), round(float(match[2]) * px)
        if not all(LEAST_PX <= side <= MOST_PX for side in (wide, high)):
            raise UsageError(
                f"a picture of {wide} × {high} pixels cannot be made.",
                hint=f"Each side may have {LEAST_PX} to {MOST_PX} pixels.",
            )
        return cls(wide, high, dpi)


class FigureExport:
    """Writes a View to a file."""

    name = "figure"
    suffixes = SUFFIXES

    def write(self, view: View, path: Path, size: FigureSize, parts: Parts | None = None) -> None:
        """Write the figure, in the form that the name's ending says.

        Raises
        ------
        UsageError
            For another ending.
        OSError
            When the file cannot be written.
        """
        parts = parts or Parts()
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise UsageError(
                f"{path.name!r} is no picture's name.", hint="End it in .png or in .svg."
            )
        data = svg_bytes(view, size, parts) if suffix == ".svg" else png_bytes(view, size, parts)
        path.write_bytes(data)


def png_bytes(view: View, size: FigureSize, parts: Parts) -> bytes:
    """Return the figure as PNG; its only words are the project's name."""
    image = painted(composed(view, (size.wide_px, size.high_px), parts))
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", PROJECT)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", dpi=(size.dpi, size.dpi), pnginfo=info)
    return buffer.getvalue()


def svg_bytes(view: View, size: FigureSize, parts: Parts) -> bytes:
    """Return the figure as SVG: the plane as a picture inside, letters and lines as such."""
    wide_mm = size.wide_px * MM_PER_INCH / size.dpi
    high_mm = size.high_px * MM_PER_INCH / size.dpi
    composition = composed(view, (size.wide_px, size.high_px), parts)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide_mm:.3f}mm" height="{high_mm:.3f}mm" '
        f'viewBox="0 0 {size.wide_px} {size.high_px}">'
    )
    body = [
        f"<desc>{PROJECT}</desc>",
        f'<rect width="{size.wide_px}" height="{size.high_px}" fill="#000000"/>',
        _image(composition),
        *(_words(s) if isinstance(s, Words) else _box(s) for s in composition.shapes),
    ]
    return "\n".join((head, *body, "</svg>\n")).encode()


def _image(composition: Composition) -> str:
    high, wide = composition.plane.shape[:2]
    x, y = composition.corner_px
    data = base64.b64encode(rgb_png(composition.plane)).decode("ascii")
    return (
        f'<image x="{x}" y="{y}" width="{wide}" height="{high}" '
        f'href="data:image/png;base64,{data}"/>'
    )


def _words(words: Words) -> str:
    y = words.y + _BASELINE[words.anchor[1]] * words.size_px
    return (
        f'<text x="{words.x:.2f}" y="{y:.2f}" font-family="sans-serif" '
        f'font-size="{words.size_px:.2f}" text-anchor="{_ENDS[words.anchor[0]]}" '
        f'fill="{_hex(words.colour)}" stroke="#000000" stroke-width="{words.size_px / 7:.2f}" '
        f'stroke-linejoin="round" paint-order="stroke">{escape(_allowed(words.text))}</text>'
    )


def _allowed(text: str) -> str:
    """Return text without the letters that XML forbids (control characters of a file's name)."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _box(box: Box) -> str:
    left, top, right, bottom = box.corners
    fill = "none" if box.fill is None or box.pattern else _hex(box.fill[:3])
    alpha = 1.0 if box.fill is None else box.fill[3] / 255
    line = "" if box.line is None else f' stroke="{_hex(box.line)}" stroke-width="{box.width_px:g}"'
    if box.line is not None and box.dash in DASHES:
        period, dash = DASHES[box.dash]
        line += f' stroke-dasharray="{dash} {period - dash}"'
    parts = [
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" '
        f'height="{bottom - top:.2f}" fill="{fill}" fill-opacity="{alpha:.3f}"{line}/>'
    ]
    colour = _hex(box.fill[:3]) if box.fill is not None else "#ffffff"
    parts += [
        f'<line x1="{x0:.2f}" y1="{y0:.2f}" x2="{x1:.2f}" y2="{y1:.2f}" stroke="{colour}"/>'
        for x0, y0, x1, y1 in pattern_lines(box)
    ]
    return "\n".join(parts)


def _hex(colour: tuple[int, ...]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour[:3])


EXPORT = FigureExport()
