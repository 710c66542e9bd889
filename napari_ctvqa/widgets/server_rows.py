"""Two rows of the model form: the servers that share the questions, and how many each gets."""

from __future__ import annotations

import re

from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.servers import AT_ONCE, MOST_AT_ONCE

MOST_SERVERS = 16
EXAMPLE = "http://localhost:8000/v1"
MORE_TIP = (
    "Several servers of the same model share the questions: whichever is free and answers well "
    "gets the next one, and what one could not do is asked of another."
)
AT_ONCE_TIP = (
    "How many questions a server is asked at the same time; fewer while it says that it is "
    "overloaded. More is faster until the server's memory or processor is full."
)
_BETWEEN = re.compile(r"[\s,;]+(?=\S)")


class ServerRows(QWidget):
    """Addresses, a line each; ``changed`` when any was."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[_Address] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(2)
        self._more = QPushButton("Add a server")
        self._more.setToolTip(MORE_TIP)
        self._more.clicked.connect(lambda: self._add("").line.setFocus())
        self._column.addWidget(self._more)
        self._add("")

    @property
    def text(self) -> str:
        """Return the addresses with blanks between them, as ``Wanted.server`` holds them."""
        return " ".join(row.line.text().strip() for row in self._lines).strip()

    @property
    def count(self) -> int:
        """Return how many addresses there are."""
        return len([part for part in _BETWEEN.split(self.text) if part])

    def show_addresses(self, text: str) -> None:
        """Show addresses, blanks or commas between them, a line each."""
        found = [part for part in _BETWEEN.split(text.strip()) if part][:MOST_SERVERS] or [""]
        while len(self._lines) > len(found):
            self._drop(self._lines[-1])
        while len(self._lines) < len(found):
            self._add("")
        for row, address in zip(self._lines, found, strict=True):
            row.line.setText(address)
            row.line.setCursorPosition(0)  # a long one shows its host, not its end

    def _add(self, address: str) -> _Address:
        row = _Address(address)
        self._lines.append(row)
        self._column.insertWidget(self._column.count() - 1, row)
        row.show()  # at once, so that it can be given the focus
        row.line.textChanged.connect(lambda _: self.changed.emit())
        row.line.textEdited.connect(self._split)
        row.drop.clicked.connect(lambda: self._drop(row))
        self._number()
        return row

    def _drop(self, row: _Address) -> None:
        had_focus = row.drop.hasFocus()
        self._lines.remove(row)
        self._column.removeWidget(row)
        row.hide()
        row.deleteLater()
        self._number()
        if had_focus:
            self._lines[-1].line.setFocus()
        self.changed.emit()

    def _split(self, text: str) -> None:
        """Give each address a line of its own where several were typed or pasted into one."""
        if len(_BETWEEN.split(text.strip())) < 2:
            return
        at = next(n for n, row in enumerate(self._lines) if row.line.text() == text)
        texts = [row.line.text() for row in self._lines]
        parts = [part for part in _BETWEEN.split(text.strip()) if part]
        self.show_addresses(" ".join([*texts[:at], *parts, *texts[at + 1 :]]))
        last = self._lines[min(at + len(parts), len(self._lines)) - 1].line
        last.setFocus()
        last.setCursorPosition(len(last.text()))

    def _number(self) -> None:
        several = len(self._lines) > 1
        for number, row in enumerate(self._lines, 1):
            row.number(number, several=several)
        self._more.setEnabled(len(self._lines) < MOST_SERVERS)


class _Address(QWidget):
    """One address, and what takes it away."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.line, self.drop = QLineEdit(address), QToolButton()
        self.line.setPlaceholderText(EXAMPLE)
        self.line.setMaxLength(2000)
        self.drop.setText("✕")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        row.addWidget(self.line, 1)
        row.addWidget(self.drop)

    def number(self, number: int, *, several: bool) -> None:
        """Be the n-th of them; the only one cannot be taken away."""
        self.line.setAccessibleName("Server address" if number == 1 else f"Server address {number}")
        self.drop.setAccessibleName(f"Take server {number} away")
        self.drop.setToolTip("Take this server away")
        self.drop.setVisible(several)


class AtOnce(QSpinBox):
    """How many questions each server is asked at once; 0, in words, for the usual number."""

    def __init__(self) -> None:
        super().__init__()
        self.setRange(0, MOST_AT_ONCE)
        self.setAccessibleName("Questions at once")
        self.setToolTip(AT_ONCE_TIP)
        self.show_for(1)

    def show_for(self, servers: int) -> None:
        """Say what is usual for so many servers."""
        several = servers > 1
        self.setSuffix(" at each server" if several else " at once")
        usual = f"{AT_ONCE} at each server" if several else "one after the other"
        self.setSpecialValueText(f"{usual} (usual)")
