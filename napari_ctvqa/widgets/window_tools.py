"""The window by the pointer: drag for width and level, draw a rectangle to take it from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QObject, QPoint, QRect, Qt
from qtpy.QtWidgets import QRubberBand

from napari_ctvqa.core.session import WINDOW_REGION
from napari_ctvqa.core.windows import dragged

if TYPE_CHECKING:
    from qtpy.QtCore import QPointF
    from qtpy.QtGui import QMouseEvent

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.surface import Surface
    from napari_ctvqa.widgets.windowing import Window, Windowing

PRESSES = (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick)
MODIFIERS = (
    Qt.KeyboardModifier.ShiftModifier
    | Qt.KeyboardModifier.ControlModifier
    | Qt.KeyboardModifier.AltModifier
    | Qt.KeyboardModifier.MetaModifier
)


class WindowDrag(QObject):
    """Dragging with the right button, or Shift and the left one: right widens, down raises.

    One drag is one step to take back. On a canvas that shows no plane (3-D) the drag stays what
    it was before.
    """

    def __init__(self, surface: Surface, windowing: Windowing) -> None:
        super().__init__(surface.widget)
        self.surface, self.windowing = surface, windowing
        self._button: Qt.MouseButton | None = None
        self._from_px: QPointF | None = None
        self._before: Window | None = None
        surface.widget.installEventFilter(self)

    def close(self) -> None:
        """Let go of the canvas."""
        self.surface.widget.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the drags that are ours, let all else through."""
        kind = event.type()
        if kind in PRESSES:
            return self._begin(event)
        if self._button is None:
            return False
        if kind == QEvent.Type.MouseMove:
            self._move(event.position())
            return False  # what else follows the pointer goes on doing so
        if kind == QEvent.Type.MouseButtonRelease and event.button() == self._button:
            self._end(event.position())
            return True
        return False

    def _begin(self, event: QMouseEvent) -> bool:
        if self._button is not None:
            return True
        held, keys = event.button(), event.modifiers() & MODIFIERS
        shift = Qt.KeyboardModifier.ShiftModifier
        ours = (held == Qt.MouseButton.RightButton and keys == Qt.KeyboardModifier.NoModifier) or (
            held == Qt.MouseButton.LeftButton and keys == shift
        )
        window, at = self.windowing.window, event.position()
        if not ours or window is None or self.surface.index_at(at.x(), at.y()) is None:
            return False
        self._button, self._from_px, self._before = held, at, window
        return True

    def _dragged(self, at: QPointF) -> Window:
        assert self._from_px is not None and self._before is not None
        way = at - self._from_px
        return dragged(*self._before, way.x(), way.y()) if way.manhattanLength() else self._before

    def _move(self, at: QPointF) -> None:
        self.windowing.show(*self._dragged(at))

    def _end(self, at: QPointF) -> None:
        self._button = None
        self.windowing.choose(*self._dragged(at), before=self._before)


class WindowRegion(QObject):
    """While the tool is chosen, a rectangle drawn in the picture becomes the window.

    The 5th to the 95th percentile of the HU whose voxel centres lie in it. One rectangle, then
    the tool is put down.
    """

    def __init__(self, surface: Surface, windowing: Windowing, session: Session) -> None:
        super().__init__(surface.widget)
        self.surface, self.windowing, self.session = surface, windowing, session
        self._from_px: QPointF | None = None
        self._band = QRubberBand(QRubberBand.Shape.Rectangle, surface.widget)
        surface.widget.installEventFilter(self)
        session.tool_changed.connect(self._on_tool)

    def close(self) -> None:
        """Let go of canvas and session."""
        self.session.tool_changed.disconnect(self._on_tool)
        self.surface.widget.removeEventFilter(self)

    def _on_tool(self) -> None:
        if self.session.tool != WINDOW_REGION:
            self._from_px = None
            self._band.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Draw the rectangle with the left button; all else goes through."""
        if self.session.tool != WINDOW_REGION:
            return False
        kind = event.type()
        if kind in PRESSES and event.button() == Qt.MouseButton.LeftButton:
            if event.modifiers() & MODIFIERS:
                return False
            self._from_px = event.position()
            self._draw(event.position())
            self._band.show()
            return True
        if self._from_px is None:
            return False
        if kind == QEvent.Type.MouseMove:
            self._draw(event.position())
        elif kind == QEvent.Type.MouseButtonRelease and event.button() == Qt.MouseButton.LeftButton:
            self._take(event.position())
            return True
        return False

    def _draw(self, at: QPointF) -> None:
        assert self._from_px is not None
        first, last = self._from_px.toPoint(), at.toPoint()
        self._band.setGeometry(QRect(first, last + QPoint(1, 1)).normalized())

    def _take(self, at: QPointF) -> None:
        start, self._from_px = self._from_px, None
        assert start is not None
        self._band.hide()
        first = self.surface.index_at(start.x(), start.y())
        last = self.surface.index_at(at.x(), at.y())
        if first is None or last is None:
            return
        self.session.wishes.tool.emit("")
        plane = self.surface.plane
        self.windowing.choose_region_or_say(plane, self.surface.slice_index, first, last)
