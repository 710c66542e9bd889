"""The window in the toolbar: a box of presets, and a menu of what else can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QComboBox, QMenu, QToolButton

from napari_ctvqa.core.session import WINDOW_REGION
from napari_ctvqa.widgets.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.windowing import Windowing


class PresetBox(QComboBox):
    """The presets with keys and numbers; choosing one shows it."""

    def __init__(self, session: Session, windowing: Windowing) -> None:
        super().__init__()
        self._session, self._windowing = session, windowing
        self.setAccessibleName("Window preset")
        self.activated.connect(self._choose)
        windowing.presets_changed.connect(self._fill)
        windowing.changed.connect(self._show)
        self._fill()

    def _fill(self) -> None:
        self.clear()
        for preset in self._windowing.layers.presets.presets:
            key = f"[{preset.key}] " if preset.key else ""
            numbers = f"W {preset.width:g} L {preset.level:g}"
            self.addItem(f"{key}{one_line(preset.name)}  {numbers}", preset.name)
        self._show()

    def _show(self) -> None:
        """Name the preset that is shown; any other window by its numbers, never by a name."""
        window = self._windowing.window
        if window is None:
            return
        presets = self._windowing.layers.presets.presets
        chosen = self._windowing.layers.preset_name
        fitting = [n for n, p in enumerate(presets) if (p.width, p.level) == window]
        named = [n for n in fitting if presets[n].name == chosen]
        self.setPlaceholderText(f"W {window[0]:.0f} L {window[1]:.0f}")
        self.setCurrentIndex((named or fitting or [-1])[0])

    def _choose(self, index: int) -> None:
        self._session.wishes.preset.emit(self.itemData(index))


class WindowMenu(QToolButton):
    """Back to the preset, window from a rectangle, per case or across cases, the editor."""

    def __init__(
        self, session: Session, windowing: Windowing, edit_presets: Callable[[], None]
    ) -> None:
        super().__init__()
        self._windowing = windowing
        self.setText("Window ▾")
        self.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self.setToolTip(
            "Drag with the right button, or Shift and the left one: right widens the window, "
            "down raises its level"
        )
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.addAction("Back to the preset", windowing.back_to_preset)
        menu.addAction(
            "From a rectangle in the picture", lambda: session.wishes.tool.emit(WINDOW_REGION)
        )
        menu.addSeparator()
        self._per_case = menu.addAction("Each case has its own")
        self._per_case.setCheckable(True)
        self._per_case.toggled.connect(self._keep)
        menu.addAction("Edit presets…", edit_presets)
        self.setMenu(menu)
        windowing.per_case_changed.connect(self._show)
        self._show()

    def _keep(self, per_case: bool) -> None:
        if per_case != self._windowing.per_case:
            self._windowing.keep_per_case(per_case)

    def _show(self) -> None:
        self._per_case.setChecked(self._windowing.per_case)
