"""NotesView: text and legend painted over a picture, on a sheet that lets every click through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, QRectF, Qt
from qtpy.QtGui import QBrush, QColor, QPainter, QPen
from qtpy.QtWidgets import QWidget

from napari_ctvqa.widgets.picture_text import TEXT_PX, LineWriter, line_px, text_font

if TYPE_CHECKING:
    from napari_ctvqa.core.colours import RGB, Look

_MARGIN_PX = 10
_LETTER_ROOM_PX = 24
_LETTER_WIDE_PX = 60
"""What two letters in the middle of an edge take up, with their box."""
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
        self._lines = LineWriter()
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
        line = line_px()
        right = self.width() - _MARGIN_PX
        for row, text in enumerate(self.notes.top_left, start=1):
            y = _MARGIN_PX + line * row
            inset = self._inset(y)
            self._write(painter, text, _MARGIN_PX + inset, y, half - inset)
        for row, text in enumerate(self.notes.top_right, start=1):
            y = _MARGIN_PX + line * row
            inset = self._inset(y)
            self._write(painter, text, right - inset, y, half - inset, from_right=True)
        for row, text in enumerate(self.notes.bottom_right):
            y = self.height() - _SCALE_BAR_PX - line * row
            inset = self._inset(y)
            self._write(painter, text, right - inset, y, half - inset, from_right=True)
        self._paint_legend(painter, half)
        if self.notes.warning:
            top = _MARGIN_PX + 4 * line_px()
            self._paint_block(painter, self.notes.warning, top, QColor(255, 150, 120))
        if self.notes.message:
            self._paint_block(painter, self.notes.message, self.height() * 0.4, QColor("white"))

    def _inset(self, base_y: float) -> float:
        """Return how far a line moves in beside the letter of its edge, which it must not cover.

        An L without its foot is an I.
        """
        middle, line = self.height() / 2, line_px()
        beside = base_y - line < middle + _LETTER_ROOM_PX and base_y + 5 > middle - _LETTER_ROOM_PX
        return _LETTER_WIDE_PX if beside else 0.0

    def _write(
        self,
        painter: QPainter,
        text: str,
        x: float,
        y: float,
        limit_px: float,
        *,
        bold: bool = False,
        from_right: bool = False,
    ) -> None:
        self._lines.write(painter, text, x, y, limit_px, bold=bold, from_right=from_right)

    def _paint_legend(self, painter: QPainter, limit: float) -> None:
        line = line_px()
        # No higher than the letter in the middle of the left edge, which it must not cover.
        room = max(int((self.height() / 2 - _MARGIN_PX - _LETTER_ROOM_PX) / line) - 1, 1)
        rows = self.notes.legend[:room]
        hidden = self.notes.hidden_rows + len(self.notes.legend) - len(rows)
        last = [f"+ {hidden} more"] if hidden else []
        y = self.height() - _MARGIN_PX - line * (len(rows) + len(last) - 1)
        for row in rows:
            chip = QRectF(_MARGIN_PX, y - TEXT_PX + 2, 16, TEXT_PX - 2)
            paint_chip(painter, chip, row)
            self._write(painter, row.text, _MARGIN_PX + 22, y, limit - 22, bold=row.bold)
            y += line
        for text in last:
            self._write(painter, text, _MARGIN_PX + 22, y, limit)

    def _paint_block(self, painter: QPainter, text: str, top: float, colour: QColor) -> None:
        """Paint plain text in the middle of the width, in as many lines as it needs."""
        wide = min(self.width() * 0.8, 560.0)
        area = QRectF((self.width() - wide) / 2, top, wide, max(self.height() - top, 0))
        flags = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignHCenter
        painter.setFont(text_font(bold=True))
        needed = painter.boundingRect(area, flags, text).adjusted(-8, -5, 8, 5)
        painter.fillRect(needed, QColor(0, 0, 0, 190))
        painter.setPen(colour)
        painter.drawText(area, flags, text)


def paint_chip(painter: QPainter, box: QRectF, row: LegendRow) -> None:
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
    pens = {
        "solid": Qt.PenStyle.SolidLine,
        "dashed": Qt.PenStyle.DashLine,
        "dotted": Qt.PenStyle.DotLine,
        "long dashes": Qt.PenStyle.DashDotLine,
    }
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
