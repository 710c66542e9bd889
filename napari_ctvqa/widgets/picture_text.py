"""Text over a picture: white with a dark halo, each line kept as a small image."""

from __future__ import annotations

import math

from qtpy.QtCore import QPointF, QSize, Qt
from qtpy.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPainterPath, QPen

TEXT_PX = 13
_HALO_PX = 3
_KEPT_LINES = 300
_scale = [1.0]


def type_scale() -> float:
    """Return how many times larger than usual everything is written."""
    return _scale[0]


def set_type_scale(scale: float) -> None:
    """Write that many times larger from now on, in all windows; who has written paints again."""
    _scale[0] = scale


def scaled_px(px: float) -> float:
    """Return a size in logical pixels at the present scale of the type."""
    return px * _scale[0]


def text_font(*, bold: bool = False, px: int = TEXT_PX) -> QFont:
    """Return the font that is written with on pictures, ``px`` pixels high at the usual scale."""
    font = QFont()
    font.setPixelSize(round(scaled_px(px)))
    font.setBold(bold)
    return font


def line_px(px: int = TEXT_PX) -> float:
    """Return the distance from line to line."""
    return float(QFontMetricsF(text_font(px=px)).height()) + 1


def text_width(text: str, px: int = TEXT_PX) -> float:
    """Return the width of a line in logical pixels."""
    return float(QFontMetricsF(text_font(px=px)).horizontalAdvance(text))


class LineWriter:
    """Writes single lines of plain text; outlining the letters anew took 15 ms a slice."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, bool, int, float, float], QImage] = {}

    def write(
        self,
        painter: QPainter,
        text: str,
        x: float,
        y: float,
        limit_px: float,
        *,
        bold: bool = False,
        px: int = TEXT_PX,
        from_right: bool = False,
    ) -> None:
        """Paint one line on its baseline ``y``, cut to ``limit_px``, from ``x`` on or up to it."""
        metrics = QFontMetricsF(text_font(bold=bold, px=px))
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, limit_px)
        key = (shown, bold, px, painter.device().devicePixelRatioF(), type_scale())
        if key not in self._lines:
            if len(self._lines) > _KEPT_LINES:
                self._lines.clear()
            self._lines[key] = _line_image(*key[:4])
        left = x - metrics.horizontalAdvance(shown) if from_right else x
        top_left = QPointF(left - _HALO_PX, y - metrics.ascent() - _HALO_PX)
        painter.drawImage(top_left, self._lines[key])


def _line_image(text: str, bold: bool, px: int, px_ratio: float) -> QImage:
    """Return one line of plain text, white with a dark halo, on nothing."""
    font = text_font(bold=bold, px=px)
    metrics = QFontMetricsF(font)
    wide, high = metrics.horizontalAdvance(text) + 2 * _HALO_PX, metrics.height() + 2 * _HALO_PX
    size = QSize(math.ceil(wide * px_ratio), math.ceil(high * px_ratio))
    image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(px_ratio)
    image.fill(Qt.GlobalColor.transparent)
    path = QPainterPath()
    path.addText(_HALO_PX, _HALO_PX + metrics.ascent(), font, text)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.strokePath(path, QPen(QColor(0, 0, 0, 220), _HALO_PX))
    painter.fillPath(path, QColor("white"))
    painter.end()
    return image
