"""Scrolling: a panel's content, which may grow and shrink without moving the window's docks."""

from __future__ import annotations

from qtpy.QtCore import QSize, Qt
from qtpy.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

LEAST_HEIGHT_PX = 110


class Scrolling(QScrollArea):
    """Scrolls its content up and down where the dock is too low for it.

    The area asks for the content's least width and a height that never changes. Without it, a line
    that appears in a panel resizes the docks, and with them the picture, which is then drawn anew.
    """

    def __init__(self, content: QWidget, accessible_name: str) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(accessible_name)
        self.setWidget(content)

    def minimumSizeHint(self) -> QSize:
        """Return the content's least width beside a scroll bar, and a fixed height."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self.widget().minimumSizeHint().width() + bar, LEAST_HEIGHT_PX)

    def sizeHint(self) -> QSize:
        """Return a size that does not follow the content."""
        least = self.minimumSizeHint()
        return QSize(max(least.width(), 380), 360)


def fill(panel: QWidget, content: QWidget, accessible_name: str) -> None:
    """Make a panel hold nothing but its content, scrolling."""
    layout = QVBoxLayout(panel)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(Scrolling(content, accessible_name))
