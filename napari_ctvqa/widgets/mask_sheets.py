"""MaskSheet: the masks of one source among those that the one layer of all masks draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psygnal import Signal

from napari_ctvqa.core.plane_pictures import Sheet

if TYPE_CHECKING:
    from napari_ctvqa.core.label_styles import StyledLabels


class MaskSheet:
    """What one source draws, and whether and how strongly; a layer of its own would cost a slice.

    Whoever sets ``visible`` or ``opacity`` sees it at once.
    """

    changed = Signal()
    """Shown, hidden, or given another opacity."""

    def __init__(self, name: str, data: StyledLabels) -> None:
        self.name = name
        self._data = data
        self._visible = True
        self._opacity = 1.0
        self._drawn: Sheet | None = None

    @property
    def data(self) -> StyledLabels:
        """Return the labels that are drawn; whoever changes them has the stack draw them anew."""
        return self._data

    @data.setter
    def data(self, data: StyledLabels) -> None:
        self._data = data
        self._drawn = None  # or the former case's masks stayed in memory

    @property
    def visible(self) -> bool:
        """Return whether the source is drawn."""
        return self._visible

    @visible.setter
    def visible(self, visible: bool) -> None:
        if visible != self._visible:
            self._visible = visible
            self.changed.emit()

    @property
    def opacity(self) -> float:
        """Return the opacity from 0 to 1 on top of the look's own."""
        return self._opacity

    @opacity.setter
    def opacity(self, opacity: float) -> None:
        if opacity != self._opacity:
            self._opacity = opacity
            self._drawn = None
            self.changed.emit()

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to draw."""
        return not self._data.table

    def sheet(self) -> Sheet:
        """Return what planes are drawn from, the same one until data or opacity change."""
        if self._drawn is None:
            self._drawn = Sheet(self.name, self._data, self._opacity)
        return self._drawn
