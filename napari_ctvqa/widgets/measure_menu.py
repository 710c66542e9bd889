"""The measuring tools in the toolbar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QMenu, QToolButton

from napari_ctvqa.core.drawings import KINDS
from napari_ctvqa.core.measured_text import KIND_TITLES

if TYPE_CHECKING:
    from napari_ctvqa.core.session import Session


class MeasureMenu(QToolButton):
    """A menu of the tools; the one that is taken is checked and stands on the button."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self.setToolTip("Measure in the picture; Esc puts the tool down")
        menu = QMenu(self)
        self._actions = {}
        for kind in KINDS:
            action = menu.addAction(KIND_TITLES[kind])
            action.setCheckable(True)
            action.triggered.connect(
                lambda _=False, name=kind.value: session.wishes.tool.emit(name)
            )
            self._actions[kind] = action
        self.setMenu(menu)
        session.tool_changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        tool = self._session.tool
        for kind, action in self._actions.items():
            action.setChecked(tool == kind)
        title = next((KIND_TITLES[kind] for kind in KINDS if kind == tool), "Measure")
        self.setText(f"{title} ▾")
