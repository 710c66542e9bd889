"""NotesView: text and legend painted over a picture, on a sheet that lets every click through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, QRectF, Qt
from qtpy.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen
from qtpy.QtWidgets import QWidget

if TYPE_CHECKING:
    from napari_ctvqa.core.colours import RGB, Look

_MARGIN_PX = 10
_TEXT_PX = 13
_SCALE_BAR_PX = 56
"""What napari's scale bar takes up in the bottom right corner."""


@dataclass(frozen=True)
class LegendRow:
    """One structure of the legend, with the colour and look it is drawn in."""

    text: str
    colour: RGB
    look: Look
    bold: bool = False


@dataclass(frozen=True)
class Notes:
    """Everything the Qt widget paints; lines from the outside in."""

    top_left: tuple[str, ...] = ()
    top_right: tuple[str, ...] = ()
    bottom_right: tuple[str, ...] = ()
    warning: str = ""
    """Why there are no markers; in red below the top edge."""
    message: str = ""
    """What is shown instead of a picture, in the middle."""
    legend: tuple[LegendRow, ...] = ()
    hidden_rows: int = 0


class NotesView(QWidget):
    """A transparent sheet over the canvas with text in the corners; lets every click through."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self.notes = Notes()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setGeometry(canvas.rect())
        canvas.installEventFilter(self)
        self.show()

    def show_notes(self, notes: Notes) -> None:
        """Paint these notes; nothing happens when they are painted already."""
        if notes != self.notes:
            self.notes = notes
            self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the canvas."""
        if event.type() == QEvent.Type.Resize and watched is self.parent():
            self.setGeometry(self.parentWidget().rect())
        return False

    def paintEvent(self, event: Any) -> None:
        """Paint everything."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        half = self.width() / 2 - 3 * _MARGIN_PX
        line = _line_px()
        for row, text in enumerate(self.notes.top_left):
            _write(painter, text, _MARGIN_PX, _MARGIN_PX + line * (row + 1), half)
        for row, text in enumerate(self.notes.top_right):
            _write(painter, text, self._right(text, half), _MARGIN_PX + line * (row + 1), half)
        for row, text in enumerate(self.notes.bottom_right):
            y = self.height() - _SCALE_BAR_PX - line * row
            _write(painter, text, self._right(text, half), y, half)
        self._paint_legend(painter, half)
        if self.notes.warning:
            top = _MARGIN_PX + 4 * _line_px()
            self._paint_block(painter, self.notes.warning, top, QColor(255, 150, 120))
        if self.notes.message:
            self._paint_block(painter, self.notes.message, self.height() * 0.4, QColor("white"))

    def _right(self, text: str, limit: float) -> float:
        wide = QFontMetricsF(_font()).horizontalAdvance(text)
        return float(self.width() - _MARGIN_PX - min(wide, limit))

    def _paint_legend(self, painter: QPainter, limit: float) -> None:
        rows, line = self.notes.legend, _line_px()
        last = [f"+ {self.notes.hidden_rows} more"] if self.notes.hidden_rows else []
        y = self.height() - _MARGIN_PX - line * (len(rows) + len(last) - 1)
        for row in rows:
            chip = QRectF(_MARGIN_PX, y - _TEXT_PX + 2, 16, _TEXT_PX - 2)
            _paint_chip(painter, chip, row)
            _write(painter, row.text, _MARGIN_PX + 22, y, limit - 22, bold=row.bold)
            y += line
        for text in last:
            _write(painter, text, _MARGIN_PX + 22, y, limit)

    def _paint_block(self, painter: QPainter, text: str, top: float, colour: QColor) -> None:
        """Paint plain text in the middle of the width, in as many lines as it needs."""
        wide = min(self.width() * 0.8, 560.0)
        area = QRectF((self.width() - wide) / 2, top, wide, max(self.height() - top, 0))
        flags = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignHCenter
        painter.setFont(_font(bold=True))
        needed = painter.boundingRect(area, flags, text).adjusted(-8, -5, 8, 5)
        painter.fillRect(needed, QColor(0, 0, 0, 190))
        painter.setPen(colour)
        painter.drawText(area, flags, text)


def _font(*, bold: bool = False) -> QFont:
    font = QFont()
    font.setPixelSize(_TEXT_PX)
    font.setBold(bold)
    return font


def _line_px() -> float:
    return float(QFontMetricsF(_font()).height()) + 1


def _write(
    painter: QPainter, text: str, x: float, y: float, limit_px: float, *, bold: bool = False
) -> None:
    """Paint one line of plain text from its baseline, white with a dark halo, cut to fit."""
    font = _font(bold=bold)
    shown = QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, limit_px)
    path = QPainterPath()
    path.addText(x, y, font, shown)
    painter.setPen(QPen(QColor(0, 0, 0, 220), 3))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("white"))
    painter.drawPath(path)


def _paint_chip(painter: QPainter, box: QRectF, row: LegendRow) -> None:
    """Paint a sample of a look: fill, pattern and outline as on the picture."""
    painter.fillRect(box.adjusted(-1.5, -1.5, 1.5, 1.5), QColor(0, 0, 0, 220))
    if row.bold:
        _paint_focus_chip(painter, box, QColor(*row.colour))
        return
    colour = QColor(*row.colour)
    fill = QColor(colour)
    fill.setAlphaF(row.look.fill_alpha)
    patterns = {
        "hatch": Qt.BrushStyle.FDiagPattern,
        "cross": Qt.BrushStyle.DiagCrossPattern,
        "none": Qt.BrushStyle.NoBrush,
    }
    painter.setBrush(fill)
    if row.look.fill in patterns:
        painter.setBrush(QBrush(colour, patterns[row.look.fill]))
    pens = {"solid": Qt.PenStyle.SolidLine, "dashed": Qt.PenStyle.DashLine}
    painter.setPen(QPen(colour, 2, pens.get(row.look.outline, Qt.PenStyle.NoPen)))
    painter.drawRect(box)


def _paint_focus_chip(painter: QPainter, box: QRectF, colour: QColor) -> None:
    """Paint the focused mask's sample, darker than the mask and without soft edges.

    The highlight's own colour marks the mask and nothing else, so that it can be found by it.
    """
    outer = box.toRect()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.fillRect(outer, colour.darker(135))
    painter.fillRect(outer.adjusted(2, 2, -2, -2), colour.darker(190))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
