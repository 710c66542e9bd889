"""Projector: the window over the whole screen with large type, for a room; and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari.qt import get_stylesheet
from napari.settings import get_settings
from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtWidgets import QApplication, QDockWidget, QWidget

from napari_ctvqa.widgets.picture_text import set_type_scale, type_scale

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari
    from qtpy.QtWidgets import QMainWindow

TYPE_SCALE = 1.6
_SETTLE_MS = 200
"""Until the window has the size that it asked the system for."""


class Projector(QObject):
    """Switches full screen and large type together; neither outlives the window.

    napari's own setting of the type's size would be kept for the next session, and so would a
    full screen at the end: the style sheet is made anew instead, and left before the window goes.

    Parameters
    ----------
    window, viewer
        What is shown in large.
    redraw
        Called once the type has its size, for what is written on pictures.
    place_docks
        Called once the window has its size.
    """

    def __init__(
        self,
        window: QMainWindow,
        viewer: napari.Viewer,
        redraw: Callable[[], None],
        place_docks: Callable[[], None],
    ) -> None:
        super().__init__(window)
        self.window, self.viewer, self._redraw = window, viewer, redraw
        self._place_docks = place_docks
        self._before, self._size_before = window.windowState(), window.size()
        viewer.events.theme.connect(self._theme_changed)
        window.installEventFilter(self)

    @property
    def on(self) -> bool:
        """Return whether the type is large."""
        return type_scale() != 1.0

    def toggle(self) -> None:
        """Fill the screen in large type, or go back to the window as it was."""
        if self.on:
            self._write_in(1.0)
            self.window.setWindowState(self._before)
            self._settle_soon()
            QTimer.singleShot(3 * _SETTLE_MS, self._shrink)
            return
        self._before = self.window.windowState() & ~Qt.WindowState.WindowFullScreen
        self._size_before = self.window.size()
        self._write_in(TYPE_SCALE)
        self.window.setWindowState(self._before | Qt.WindowState.WindowFullScreen)
        self._settle_soon()

    def _settle_soon(self) -> None:
        for times in (1, 2):  # a panel behind others makes its own sheet once it is polished
            QTimer.singleShot(times * _SETTLE_MS, self._settle)

    def _settle(self) -> None:
        """Let panels behind others have their new least sizes too, then give all their place."""
        for widget in self.window.findChildren(QWidget):
            widget.ensurePolished()
            widget.updateGeometry()
            if widget.layout() is not None:  # a hidden one does not tell those around it
                widget.layout().invalidate()
        for dock in self.window.findChildren(QDockWidget):
            dock.setMinimumWidth(0)  # Qt lets it grow with what is in it, and never shrink
        self._place_docks()

    def _shrink(self) -> None:
        """Take back what the least sizes of large type had made the window grow by."""
        if not self.on and self.window.windowState() == Qt.WindowState.WindowNoState:
            self.window.resize(self._size_before)

    def close(self) -> None:
        """Give other windows their type back."""
        self.viewer.events.theme.disconnect(self._theme_changed)
        if self.on:
            set_type_scale(1.0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave before napari remembers how the window was closed."""
        if event.type() == QEvent.Type.Close and watched is self.window and self.on:
            self.toggle()
        return False

    def _theme_changed(self) -> None:
        if self.on:  # napari sets its own size with the colours, in no stated order
            QTimer.singleShot(0, self._set_sheet)

    def _write_in(self, scale: float) -> None:
        set_type_scale(scale)
        self._set_sheet()
        self._redraw()
        for widget in self.window.findChildren(QWidget):
            widget.update()

    def _set_sheet(self) -> None:
        points = round(get_settings().appearance.font_size * type_scale())
        sheet = get_stylesheet(self.viewer.theme, extra_variables={"font_size": f"{points}pt"})
        if self.on:  # what napari leaves to the system: tool bar, tables, fields
            usual = QApplication.font().pointSizeF() * type_scale()
            sheet = f"QWidget {{ font-size: {usual:.0f}pt; }}\n{sheet}"
        self.window.setStyleSheet(sheet)
