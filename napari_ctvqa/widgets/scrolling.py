"""Scrolling: a panel's content, which may grow and shrink without moving the window's docks."""

from __future__ import annotations

from qtpy.QtCore import QEvent, QSize, Qt
from qtpy.QtWidgets import QApplication, QFrame, QScrollArea, QVBoxLayout, QWidget

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
        self._resizing = self._bar_due = False
        self.setWidget(content)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)

    def _on_range(self) -> None:
        """Show or hide the bar now.

        Qt makes the content as wide as there is room without the bar, and hides the bar only with
        the next turn of its loop: a picture taken, or painted, meanwhile has the bar over the
        content's right edge.
        """
        self._bar_due = True
        if not self._resizing:  # else when Qt has placed everything
            self._settle_bar()

    def _settle_bar(self) -> None:
        if self._bar_due:
            self._bar_due = False
            QApplication.sendEvent(self, QEvent(QEvent.Type.LayoutRequest))

    def event(self, event: QEvent) -> bool:
        """Leave nothing for later when the size has changed."""
        if event.type() != QEvent.Type.Resize:
            return bool(super().event(event))
        self._resizing = True
        taken = bool(super().event(event))
        self._resizing = False
        self._settle_bar()
        return taken

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
