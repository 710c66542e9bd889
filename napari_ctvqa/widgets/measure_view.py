"""MeasureView: measurements painted over a canvas, in the picture's own coordinates.

A sheet that lets every click through, as NotesView is one. Each drawing is painted on its own
plane and slice alone, from where the surface draws its points at this moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QEvent, QObject, QPointF, QRectF, Qt
from qtpy.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen
from qtpy.QtWidgets import QWidget

from napari_ctvqa.core.drawings import REGIONS, Drawing, handles, on_slice, strokes
from napari_ctvqa.core.measured_text import short_text, shortest_text
from napari_ctvqa.widgets.picture_text import scaled_px
from napari_ctvqa.widgets.text import one_line

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.drawings import Point
    from napari_ctvqa.core.measuring import Measured
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.surface import Surface

COLOUR, CHOSEN_COLOUR = QColor("#FFFFFF"), QColor("#E69F00")
_HALO = QColor(0, 0, 0, 210)
_LINE_PX, _CHOSEN_LINE_PX, _HALO_PX = 1.6, 2.4, 2.4
_HANDLE_PX, _HOT_PX = 3.0, 5.0
_TEXT_PX = 13
_APART_PX = 10
_NAME_LIMIT = 40


@dataclass(frozen=True)
class Shown:
    """A drawing with what it measures now; ``name`` is empty for one that is still drawn."""

    drawing: Drawing
    found: Measured | None
    name: str = ""
    chosen: bool = False
    handle: int | None = None
    """The point that is under the pointer, or chosen by key."""


class MeasureView(QWidget):
    """What is measured on the shown slice, and what is just being drawn.

    Parameters
    ----------
    surface
        The canvas, and where its points lie.
    session
        Its measurements; painted anew when they change.
    """

    def __init__(self, surface: Surface, session: Session) -> None:
        super().__init__(surface.widget)
        self.surface, self.session = surface, session
        self.live: Shown | None = None
        """What is being drawn or moved."""
        self.moved_id = ""
        """The measurement that ``live`` stands in for while it is moved."""
        self.hot: tuple[str, int] | None = None
        """Id and handle to draw larger."""
        self.cursor: Point | None = None
        """Where a key would place a point on the shown slice."""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setGeometry(surface.widget.rect())
        surface.widget.installEventFilter(self)
        surface.changed.connect(self._repaint)
        session.measurements_changed.connect(self._repaint)
        self.show()

    def close_view(self) -> None:
        """Let go of surface and session, and leave the canvas."""
        self.surface.changed.disconnect(self._repaint)
        self.session.measurements_changed.disconnect(self._repaint)
        self.surface.widget.removeEventFilter(self)
        self.setParent(None)
        self.deleteLater()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the canvas."""
        if event.type() == QEvent.Type.Resize and watched is self.parent():
            self.setGeometry(self.parentWidget().rect())
        return False

    def _repaint(self) -> None:
        self.update()

    # ------------------------------------------------------------- what is shown

    def here(self, drawing: Drawing) -> bool:
        """Return whether a drawing lies on the plane and slice that is shown."""
        surface = self.surface
        return drawing.plane == surface.plane and drawing.slice_index == surface.slice_index

    def shown(self) -> list[Shown]:
        """Return what is to be painted, the chosen one last."""
        if self.session.case is None:
            return []
        chosen = self.session.measurement
        found = [
            Shown(m.drawing, m.found, m.name, m.id == chosen, self._hot_of(m.id))
            for m in self.session.measurements
            if m.id != self.moved_id and self.here(m.drawing)
        ]
        if self.live is not None and self.here(self.live.drawing):
            found.append(self.live)
        return sorted(found, key=lambda one: one.chosen)

    def _hot_of(self, key: str) -> int | None:
        return self.hot[1] if self.hot is not None and self.hot[0] == key else None

    def px_of(
        self, points: npt.ArrayLike, plane: int, index: int
    ) -> npt.NDArray[np.float64] | None:
        """Return (n, 2) pixels of (n, 2) points on a slice."""
        flat = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        return self.surface.px_at(on_slice(flat, plane, index))

    # ------------------------------------------------------------------ painting

    def paintEvent(self, event: Any) -> None:
        """Paint all that lies on this slice."""
        shown = self.shown()
        if not shown and self.cursor is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        drawn = [(one, px) for one in shown if (px := self._paint_lines(painter, one)) is not None]
        taken: list[QRectF] = []
        for one, px in reversed(drawn):  # the chosen one finds the best place for its numbers
            if one.found is not None:
                self._paint_text(painter, one, px, taken)
        if self.cursor is not None:
            at = self.px_of([self.cursor], self.surface.plane, self.surface.slice_index)
            if at is not None:
                _paint_cross(painter, QPointF(*at[0]))

    def _paint_lines(self, painter: QPainter, one: Shown) -> npt.NDArray[np.float64] | None:
        """Paint lines and handles; return the pixels that the lines run through."""
        drawing, path = one.drawing, QPainterPath()
        drawn: list[npt.NDArray[np.float64]] = []
        for points, closed in strokes(drawing):
            px = self.px_of(points, drawing.plane, drawing.slice_index)
            if px is None or not len(px):
                return None
            drawn.append(px)
            path.moveTo(QPointF(*px[0]))
            for point in px[1:]:
                path.lineTo(QPointF(*point))
            if closed:
                path.closeSubpath()
        colour = CHOSEN_COLOUR if one.chosen else COLOUR
        width = _CHOSEN_LINE_PX if one.chosen else _LINE_PX
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.strokePath(path, QPen(_HALO, width + _HALO_PX))
        painter.strokePath(path, QPen(colour, width))
        if one.chosen or one.handle is not None or drawing.kind not in REGIONS:
            self._paint_handles(painter, one, colour)
        return np.concatenate(drawn)

    def _paint_handles(self, painter: QPainter, one: Shown, colour: QColor) -> None:
        drawing = one.drawing
        px = self.px_of(handles(drawing), drawing.plane, drawing.slice_index)
        for number, point in enumerate(px if px is not None else ()):
            radius = _HOT_PX if number == one.handle else _HANDLE_PX
            painter.setPen(QPen(_HALO, 1.2))
            painter.setBrush(colour)
            painter.drawEllipse(QPointF(*point), radius, radius)

    def _paint_text(
        self, painter: QPainter, one: Shown, px: npt.NDArray[np.float64], taken: list[QRectF]
    ) -> None:
        """Paint the numbers beside the drawing, where they fit and cover no others."""
        assert one.found is not None
        lines = list(short_text(one.found) if one.chosen else shortest_text(one.found))
        if one.name and one.chosen:
            lines.insert(0, one_line(one.name, _NAME_LIMIT))
        font = QFont()
        font.setPixelSize(round(scaled_px(_TEXT_PX)))
        font.setBold(True)
        metrics = QFontMetricsF(font)
        wide = max(metrics.horizontalAdvance(line) for line in lines)
        place = self._place(px, wide, metrics.lineSpacing() * len(lines), taken)
        taken.append(place)
        for number, line in enumerate(lines):
            path = QPainterPath()
            y = place.top() + metrics.ascent() + number * metrics.lineSpacing()
            path.addText(place.left(), y, font, line)
            painter.strokePath(path, QPen(_HALO, _HALO_PX + 1))
            painter.fillPath(path, COLOUR)

    def _place(
        self, px: npt.NDArray[np.float64], wide: float, high: float, taken: list[QRectF]
    ) -> QRectF:
        """Return where a text goes: right, left, below or above, the first place that is free."""
        (left, top), (right, bottom) = px.min(axis=0), px.max(axis=0)
        last = float(px[int(np.argmax(px[:, 0])), 1])
        middle = (left + right - wide) / 2
        corners = (
            (right + _APART_PX, last - high / 2),
            (left - _APART_PX - wide, last - high / 2),
            (middle, bottom + _APART_PX),
            (middle, top - _APART_PX - high),
        )
        room = QRectF(self.rect()).adjusted(4, 4, -4, -4)
        rects = [QRectF(float(x), float(y), wide, high) for x, y in corners]
        for rect in rects:
            if room.contains(rect) and not any(rect.intersects(other) for other in taken):
                return rect
        first = next((rect for rect in rects if room.contains(rect)), rects[0])
        first.moveLeft(max(min(first.left(), room.right() - wide), room.left()))
        first.moveTop(max(min(first.top(), room.bottom() - high), room.top()))
        return first


def _paint_cross(painter: QPainter, at: QPointF) -> None:
    """Paint where a key would place a point, open in the middle."""
    for pen in (QPen(_HALO, 4.0), QPen(CHOSEN_COLOUR, 1.6)):
        painter.setPen(pen)
        for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            inner, outer = QPointF(4 * x, 4 * y), QPointF(12 * x, 12 * y)
            painter.drawLine(at + inner, at + outer)


def near(px: npt.NDArray[np.float64], at: tuple[float, float], reach_px: float) -> int | None:
    """Return the point of (n, 2) pixels nearest to a place, None where none is within reach."""
    if not len(px):
        return None
    apart = np.linalg.norm(px - np.array(at), axis=1)
    nearest = int(np.argmin(apart))
    return nearest if apart[nearest] <= reach_px else None


def on_line(
    px: npt.NDArray[np.float64], at: tuple[float, float], reach_px: float, *, closed: bool
) -> bool:
    """Return whether a place lies on a line through (n, 2) pixels."""
    ends = np.roll(px, -1, axis=0) if closed else px[1:]
    starts = px if closed else px[:-1]
    for start, end in zip(starts, ends, strict=True):
        way = end - start
        square = float(way @ way)
        share = float((np.array(at) - start) @ way) / square if square else 0.0
        foot = start + min(max(share, 0.0), 1.0) * way
        if float(np.linalg.norm(foot - np.array(at))) <= reach_px:
            return True
    return False
