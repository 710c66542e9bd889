"""Layouts: which planes are shown, where the docks lie, and the picture alone for a projector."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QToolBar

from napari_ctvqa.io.user_config import config_folder, store_object, stored_object
from napari_ctvqa.widgets.picture_text import scaled_px
from napari_ctvqa.widgets.planes_area import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtWidgets import QMainWindow

    from napari_ctvqa.widgets.planes import Planes

logger = logging.getLogger(__name__)

_SETTINGS = "view.json"
_LEFT, _RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
LEFT_PX, RIGHT_PX = 400, 420
_ALL_LEFT_PX = 450
"""The names of all tabs to read in fit beside each other."""
_LIST = "Questions"
_READ = ("Question", "Evidence", "Structures", "Side by side", "Segment", "Measure")
_ROOM_PX = {Layout.ONE: 520, Layout.THREE: 900, Layout.FOUR: 960}
"""How wide the planes must be for the docks to lie on both sides of them."""
_KEPT_IN_PICTURE = frozenset({"Under the pointer", "Problem", "Player", "Compare"})


def _least_px(layout: Layout) -> float:
    """Return how wide a window must be for docks on both sides of a layout's pictures."""
    return scaled_px(LEFT_PX + RIGHT_PX) + _ROOM_PX[layout]


class Layouts(QObject):
    """Arranges planes and docks together.

    Where the window is too narrow for docks on both sides of three pictures, those of the right
    lie below the list of questions, one behind the other.

    Parameters
    ----------
    window, planes
        What is arranged.
    docks
        Returns the docks that are there by title.
    tidy
        Called once the docks lie anew.
    """

    def __init__(
        self,
        window: QMainWindow,
        planes: Planes,
        docks: Callable[[], dict[str, QDockWidget]],
        tidy: Callable[[], None],
    ) -> None:
        super().__init__(window)
        self.window, self.planes = window, planes
        self._docks, self._tidy = docks, tidy
        self._put_away: list[QDockWidget | QToolBar] = []
        self._read_left = False

    @property
    def picture_alone(self) -> bool:
        """Return whether all but the pictures is put away."""
        return bool(self._put_away)

    def remembered(self) -> Layout:
        """Return the layout that was shown last; at first three planes, where there is room."""
        stored = stored_object(_SETTINGS).get("layout")
        if stored in set(Layout):
            return Layout(stored)
        return Layout.THREE if self.window.width() >= _least_px(Layout.THREE) else Layout.ONE

    def begin(self) -> None:
        """Show what was shown last; what a first window has room for is nobody's choice to keep."""
        self._arrange(self.remembered())

    def _arrange(self, layout: Layout) -> None:
        self._bring_back()
        self.planes.show_layout(layout)
        self.place_docks()

    def show(self, layout: Layout) -> None:
        """Show one, three or four pictures with the docks around them; remembered."""
        self._arrange(layout)
        try:
            store_object(_SETTINGS, {**stored_object(_SETTINGS), "layout": layout.value})
        except OSError as error:
            logger.warning("the layout cannot be remembered in %s: %s", config_folder(), error)

    def toggle_picture_alone(self) -> None:
        """Put docks and bars away, or bring them back; the strip under the picture stays."""
        if self._put_away:
            self._bring_back()
            return
        parts = [*self.window.findChildren(QDockWidget), *self.window.findChildren(QToolBar)]
        own = [p for p in parts if p.isVisibleTo(self.window) and p.window() is self.window]
        # A dock behind another tab is not visible, and is brought back with its neighbour.
        self._put_away = [p for p in own if p.windowTitle() not in _KEPT_IN_PICTURE]
        behind = [d for d in self._docks().values() if d not in self._put_away and not d.isHidden()]
        self._put_away += [d for d in behind if d.windowTitle() not in _KEPT_IN_PICTURE]
        for part in self._put_away:
            part.hide()
        QTimer.singleShot(0, self._tidy)

    def _bring_back(self) -> None:
        back, self._put_away = self._put_away, []
        for part in back:
            part.show()
        if back:
            self._raise(self._docks())

    def _raise(self, docks: dict[str, QDockWidget]) -> None:
        """Put in front what is read first."""
        for title in (_LIST, _READ[1], *([_READ[0]] if self._read_left else [])):
            if title in docks:
                docks[title].raise_()

    def place_docks(self) -> None:
        """Put the docks to read in to the right of the pictures, or below the list where narrow."""
        docks = self._docks()
        if _LIST not in docks or any(title not in docks for title in _READ):
            return
        to_left = self.window.width() < _least_px(self.planes.layout_now)
        if to_left is not self._read_left:
            self._read_left = to_left
            self._move(docks, to_left=to_left)
        sides = [docks[_LIST]] if to_left else [docks[_LIST], docks[_READ[0]]]
        widths = [_ALL_LEFT_PX] if to_left else [LEFT_PX, RIGHT_PX]
        self.window.resizeDocks(
            sides, [round(scaled_px(px)) for px in widths], Qt.Orientation.Horizontal
        )
        QTimer.singleShot(0, self._tidy)

    def _move(self, docks: dict[str, QDockWidget], *, to_left: bool) -> None:
        first, second, *rest = (docks[title] for title in _READ)
        for dock in (first, second, *rest):
            self.window.removeDockWidget(dock)
        if to_left:
            # Beside a dock that is one of several tabs, splitting would make it one more tab.
            self.window.addDockWidget(_LEFT, first, Qt.Orientation.Vertical)
            self.window.tabifyDockWidget(first, second)
        else:
            self.window.addDockWidget(_RIGHT, first)
            self.window.addDockWidget(_RIGHT, second)
            self.window.splitDockWidget(first, second, Qt.Orientation.Vertical)
        for dock in rest:
            self.window.tabifyDockWidget(second, dock)
        for dock in (first, second, *rest):
            dock.show()
        self._raise(docks)
        upper, lower = (docks[_LIST], first) if to_left else (first, second)
        heights = [260, 440] if to_left else [300, 400]
        self.window.resizeDocks([upper, lower], heights, Qt.Orientation.Vertical)
