"""A calibration painted with Qt, from the same shapes as its SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QLineF, QPointF, QRectF, QSize, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent, QPen
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_ctvqa.core.calibration_plot import (
    COUNT,
    EQUAL,
    GRID,
    MARK,
    PlotBox,
    PlotLine,
    PlotText,
    plotted,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.calibration import Calibration
    from napari_ctvqa.widgets.theme import Theme

SIDE_PX = 320


class CalibrationView(QWidget):
    """Draws one calibration, as large as there is room up to a square with its counts."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: Calibration | None = None
        self.setAccessibleName("Right answers against confidence")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_curve(self, found: Calibration | None) -> None:
        """Draw another calibration, or nothing."""
        self._shown = found
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Draw with other colours."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        """Return a size at which every label is readable."""
        return QSize(SIDE_PX, round(SIDE_PX * 1.15))

    def minimumSizeHint(self) -> QSize:
        """Return the least size at which labels do not touch."""
        return QSize(240, 280)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the shapes, each in its role's colour."""
        del event
        if self._shown is None:
            return
        line = float(self.fontMetrics().height())
        wide = min(float(self.width()), self.height() / 1.05)
        high = min(float(self.height()), wide * 1.25)
        theme = self._theme
        colours = {
            GRID: theme.border, EQUAL: theme.muted, MARK: theme.accent, COUNT: theme.selection,
        }  # fmt: skip
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for shape in plotted(self._shown, wide, high, line):
            if isinstance(shape, PlotText):
                self._paint_words(painter, shape)
            elif isinstance(shape, PlotBox):
                box = QRectF(shape.x, shape.y, shape.wide, shape.high)
                painter.fillRect(box, QColor(colours[shape.role]))
            else:
                painter.setPen(_pen(shape, colours[shape.role]))
                painter.drawLine(QLineF(shape.x0, shape.y0, shape.x1, shape.y1))
        painter.end()

    def _paint_words(self, painter: QPainter, words: PlotText) -> None:
        painter.setPen(QColor(self._theme.text))
        wide = self.fontMetrics().horizontalAdvance(words.text)
        left = words.x - {"start": 0.0, "middle": wide / 2, "end": float(wide)}[words.anchor]
        painter.drawText(QPointF(left, words.y), words.text)


def _pen(line: PlotLine, colour: str) -> QPen:
    pen = QPen(QColor(colour), line.width_px)
    if line.dashed:
        pen.setStyle(Qt.PenStyle.DashLine)
    return pen
