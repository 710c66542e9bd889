"""Docks: which one holds a widget, and whether anybody can see it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QDockWidget

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget


def dock_of(widget: QWidget) -> QDockWidget | None:
    """Return the dock that holds a widget."""
    parent = widget.parent()
    while parent is not None and not isinstance(parent, QDockWidget):
        parent = parent.parent()
    return parent


def is_behind(dock: QDockWidget) -> bool:
    """Return whether a dock of a shown window is closed, or behind another tab.

    Qt moves what is behind a tab out of the window and lets it say that it is visible.
    """
    return bool(dock.window().isVisible() and dock.visibleRegion().isEmpty())
