"""ServerLines: what each of several servers has done in a run; one that fails stands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_ctvqa.core.servers import server_line
from napari_ctvqa.widgets.text import Label, one_line
from napari_ctvqa.widgets.theme import set_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.servers import ServerCount

_MOST = 64
_CHARACTERS = 300


class ServerLines(QWidget):
    """A line a server; nothing where there is but one."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Label] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(2)
        self.hide()

    def show_counts(self, counts: Sequence[ServerCount]) -> None:
        """Show these; labels that are there are used again."""
        shown = counts[:_MOST]
        while len(self._lines) < len(shown):
            self._lines.append(Label(role="small"))
            self._column.addWidget(self._lines[-1])
        for label, count in zip(self._lines, shown, strict=False):
            set_look(label, "caveat" if count.why else "small")
            mark = "⚠ " if count.why else ""
            label.show_text(f"{mark}{one_line(server_line(count), _CHARACTERS)}")
        for label in self._lines[len(shown) :]:
            label.show_text("")
        self.setVisible(bool(shown))
