"""PlanesArea: napari's picture and the planes beside it, each in a frame of its plane's colour."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from qtpy.QtCore import QRect, QRectF, QSize
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QWidget

from napari_ctvqa.widgets.cross_hair import FRAME_PX, paint_frame

if TYPE_CHECKING:
    from qtpy.QtGui import QPaintEvent, QResizeEvent
    from qtpy.QtWidgets import QMainWindow

    from napari_ctvqa.core.colours import RGB

_GAP_PX = 3
_MAIN_SHARE_OF_THREE = 0.62
LEAST_MAIN_PX = 510
"""The main picture is never narrower than this where the area has room for it."""


class Layout(StrEnum):
    """Which planes are shown: the main one, two more beside it, or two more and the 3-D view."""

    ONE = "one"
    THREE = "three"
    FOUR = "four"


class PlanesArea(QWidget):
    """The middle of the window. ``main`` is what napari had there; it keeps all its parts."""

    def __init__(self, window: QMainWindow, beside: tuple[QWidget, QWidget]) -> None:
        super().__init__(window)
        main = window.centralWidget()
        # Inside the same window all the while, so that its OpenGL context stays.
        main.setParent(self)
        main.show()
        self.main: QWidget = main
        self.beside = beside
        self.fourth: QWidget | None = None
        self.layout_now = Layout.ONE
        self._colour: RGB | None = None
        for widget in beside:
            widget.setParent(self)
            widget.hide()
        window.setCentralWidget(self)
        self.show()

    def show_layout(self, layout: Layout, fourth: QWidget | None = None) -> None:
        """Show one, three or four pictures; ``fourth`` is the 3-D view."""
        self.layout_now = layout
        if fourth is not None:
            self.fourth = fourth
            fourth.setParent(self)
        self._place()
        for widget in self.beside:
            widget.setVisible(layout is not Layout.ONE)
        if self.fourth is not None:
            self.fourth.setVisible(layout is Layout.FOUR)
        self.update()

    def frame_main(self, colour: RGB | None) -> None:
        """Give the main picture the frame of its plane; None for none (3-D)."""
        if colour != self._colour:
            self._colour = colour
            self.update()

    def minimumSizeHint(self) -> QSize:
        """Return the least size of napari's picture."""
        return self.main.minimumSizeHint()

    def sizeHint(self) -> QSize:
        """Return what napari's picture would like."""
        return self.main.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place everything."""
        super().resizeEvent(event)
        self._place()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the main picture's frame; what lies between the pictures is black."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor("black"))
        if self._colour is not None:
            paint_frame(painter, QRectF(self._cells()[0]), self._colour)

    def _place(self) -> None:
        main, *others = self._cells()
        self.main.setGeometry(main.adjusted(FRAME_PX, FRAME_PX, -FRAME_PX, -FRAME_PX))
        rest = [w for w in (*self.beside, self.fourth) if w is not None]
        for widget, cell in zip(rest, others, strict=False):
            widget.setGeometry(cell)

    def _cells(self) -> list[QRect]:
        """Return the places of the main picture, the two planes and the 3-D view."""
        wide, high = self.width(), self.height()
        if self.layout_now is Layout.ONE:
            return [self.rect()]
        top = (high - _GAP_PX) // 2
        low = QRect(0, top + _GAP_PX, 0, high - top - _GAP_PX)
        if self.layout_now is Layout.THREE:
            left = self._main_width(_MAIN_SHARE_OF_THREE)
            right, rest = left + _GAP_PX, wide - left - _GAP_PX
            return [
                QRect(0, 0, left, high),
                QRect(right, 0, rest, top),
                QRect(right, low.top(), rest, low.height()),
            ]
        left = self._main_width(0.5)
        right, rest = left + _GAP_PX, wide - left - _GAP_PX
        return [
            QRect(0, 0, left, top),
            QRect(right, 0, rest, top),
            QRect(0, low.top(), left, low.height()),
            QRect(right, low.top(), rest, low.height()),
        ]

    def _main_width(self, share: float) -> int:
        """Return a share of the width, no less than the main picture needs, if there is room."""
        room = int(self.width()) - _GAP_PX
        return min(max(round(room * share), LEAST_MAIN_PX + 2 * FRAME_PX), round(room * 0.75))
