"""The cross-hair: where the other two planes cut this one, in their colours, open at the centre."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qtpy.QtCore import QPointF, QRectF
from qtpy.QtGui import QColor, QPainter

from napari_ctvqa.core.colours import plane_colour
from napari_ctvqa.core.plane_pictures import row_and_column_axis
from napari_ctvqa.core.view_text import PLANES

if TYPE_CHECKING:
    from napari_ctvqa.core.colours import RGB

GAP_PX = 14.0
"""The lines leave this much free on either side, so that they hide no lesion."""
FRAME_PX = 2
_HALO = QColor(0, 0, 0, 150)


def paint_cross(painter: QPainter, area: QRectF, at: QPointF, axis: int) -> None:
    """Paint the lines of the other two planes through ``at`` in a picture of plane ``axis``.

    The row of a plane is the other plane that its rows are counted along, and so is its column.
    """
    row_axis, column_axis = row_and_column_axis(axis)
    lines = {row_axis: _horizontal(area, at), column_axis: _vertical(area, at)}
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    for other, parts in lines.items():
        colour = QColor(*plane_colour(PLANES[other]))
        for line in parts:  # filled, which Qt does five times faster than it strokes
            painter.fillRect(line.adjusted(-1, -1, 1, 1), _HALO)
            painter.fillRect(line, colour)


def paint_frame(painter: QPainter, area: QRectF, colour: RGB) -> None:
    """Paint the frame of a plane along the inner edge of ``area``."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    frame = QColor(*colour)
    wide = float(FRAME_PX)
    painter.fillRect(QRectF(area.left(), area.top(), area.width(), wide), frame)
    painter.fillRect(QRectF(area.left(), area.bottom() - wide, area.width(), wide), frame)
    painter.fillRect(QRectF(area.left(), area.top(), wide, area.height()), frame)
    painter.fillRect(QRectF(area.right() - wide, area.top(), wide, area.height()), frame)


def _horizontal(area: QRectF, at: QPointF) -> list[QRectF]:
    y = math.floor(at.y())
    if not area.top() <= y <= area.bottom():
        return []
    return [
        QRectF(start, y, end - start, 1)
        for start, end in ((area.left(), at.x() - GAP_PX), (at.x() + GAP_PX, area.right()))
        if end > start
    ]


def _vertical(area: QRectF, at: QPointF) -> list[QRectF]:
    x = math.floor(at.x())
    if not area.left() <= x <= area.right():
        return []
    return [
        QRectF(x, start, 1, end - start)
        for start, end in ((area.top(), at.y() - GAP_PX), (at.y() + GAP_PX, area.bottom()))
        if end > start
    ]
