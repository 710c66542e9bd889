"""The search line: one text in the grammar of ``--where``, edited by hand or by facets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qtpy.QtCore import QStringListModel, Qt, QTimer, Signal
from qtpy.QtWidgets import QComboBox, QCompleter, QLineEdit, QSizePolicy

from napari_ctvqa.widgets.text import one_line, tooltip
from napari_ctvqa.widgets.theme import set_look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qtpy.QtGui import QFocusEvent, QKeyEvent, QWheelEvent

TYPING_PAUSE_MS = 150
COMPLETIONS = 200
ARROW_PX = 28
_TERM = re.compile(r'-?(?:[^\s":]+:)?(?:"[^"]*"?|\S+)')


def terms(text: str) -> list[str]:
    """Split a search text at spaces outside quotes."""
    return _TERM.findall(text)


def field_value(text: str, field: str) -> str:
    """Return the value of the first ``field:value`` term that is not negated, or nothing."""
    for term in terms(text):
        name, colon, value = term.partition(":")
        if colon and name.lower() == field:
            return value.strip('"')
    return ""


def with_field(text: str, field: str, value: str) -> str:
    """Return the text with ``field:value`` in place of other terms of that field."""
    kept = [t for t in terms(text) if t.lower().lstrip("-").partition(":")[0] != field]
    return " ".join([*kept, f"{field}:{quoted(value)}"] if value else kept)


def quoted(value: str) -> str:
    """Return a value in quotes where it needs them."""
    plain = value.replace('"', "")
    return f'"{plain}"' if re.search(r"\s|^$", plain) else plain


class SearchLine(QLineEdit):
    """A line edit that completes fields and values and tells after a pause what was typed."""

    searched = Signal(str)
    left = Signal()
    """Enter or Esc: the reader is done typing."""

    def __init__(self, values: Mapping[str, Callable[[], Sequence[str]]]) -> None:
        super().__init__()
        self._values = values
        self._words = QStringListModel(self)
        self._completer = QCompleter(self._words, self)
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(TYPING_PAUSE_MS)
        self._completer.setWidget(self)
        self._completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setClearButtonEnabled(True)
        self.setPlaceholderText("Search, e.g. outcome:wrong")
        self.setAccessibleName("Search the questions")
        fields = ", ".join(f"{name}:" for name in values)
        self.setToolTip(f"Words search text and id; fields: {fields} ; a - in front negates")
        self._completer.activated[str].connect(self._insert)
        self._pause.timeout.connect(self._tell)
        self.textEdited.connect(self._typed)
        self.returnPressed.connect(self._tell)
        self.returnPressed.connect(self.left)
        self.textChanged.connect(self._cleared)

    def _typed(self) -> None:
        self._pause.start()
        self._complete()

    def _cleared(self, text: str) -> None:
        if not text and not self._pause.isActive():
            self._pause.start()

    def _tell(self) -> None:
        self._pause.stop()
        self.searched.emit(self.text())

    # ------------------------------------------------------------ completion

    def _term_span(self) -> tuple[int, int]:
        cursor = self.cursorPosition()
        for match in _TERM.finditer(self.text()):
            if match.start() < cursor <= match.end():
                return match.span()
        return cursor, cursor

    def candidates(self) -> list[str]:
        """Return how the term under the cursor may go on."""
        start, _ = self._term_span()
        begun = self.text()[start : self.cursorPosition()]
        sign = "-" if begun.startswith("-") else ""
        name, colon, value = begun[len(sign) :].partition(":")
        if not colon:
            return [f"{sign}{f}:" for f in self._values if name and f.startswith(name.lower())]
        known = self._values.get(name.lower())
        wanted = value.strip('"').lower()
        fitting = (v for v in (known() if known is not None else ()) if wanted in v.lower())
        return [f"{sign}{name}:{quoted(v)}" for _, v in zip(range(COMPLETIONS), fitting)]  # noqa: B905

    def _complete(self) -> None:
        found = self.candidates()
        popup = self._completer.popup()
        if not found:
            popup.hide()
            return
        self._words.setStringList(found)
        self._completer.setCompletionPrefix("")
        if self.isVisible():
            self._completer.complete()

    def _insert(self, term: str) -> None:
        start, end = self._term_span()
        text = self.text()
        gap = "" if term.endswith(":") else " "
        self.setText(f"{text[:start]}{term}{gap}{text[end:].lstrip()}")
        self.setCursorPosition(start + len(term) + len(gap))
        self._tell()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave Enter and Escape to the list of completions while it is open."""
        popup = self._completer.popup()
        keys = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape, Qt.Key.Key_Tab)
        if popup.isVisible() and popup.currentIndex().isValid() and event.key() in keys:
            event.ignore()
            return
        super().keyPressEvent(event)
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()


class Facet(QComboBox):
    """One field's values with their counts, listed when the box is opened or focused."""

    chosen = Signal(str)

    def __init__(self, title: str, values: Callable[[], Sequence[tuple[str, str]]]) -> None:
        super().__init__()
        self._title = title
        self._values = values
        self._value = ""
        self.setAccessibleName(f"Only this {title.lower()}")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(4)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(self.fontMetrics().horizontalAdvance(title) + ARROW_PX)
        self.setMaxVisibleItems(18)
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.activated.connect(self._activated)
        self.show_value("")

    def show_value(self, value: str) -> None:
        """Show which value the search text holds for this field."""
        self._value = value
        set_look(self, "facet-used" if value else "facet")
        if self.count() != 1 or self.itemData(0) != value:
            self.clear()
            self.addItem(one_line(value, 60) if value else self._title, value)
        self.setToolTip(tooltip(f"{self._title}: {value}") if value else self._title)

    def _list(self) -> None:
        self.clear()
        self.addItem(f"Any {self._title.lower()}", "")
        for value, text in self._values():
            self.addItem(text, value)
        self.setCurrentIndex(max(0, self.findData(self._value)))

    def _activated(self, index: int) -> None:
        self.chosen.emit(self.itemData(index) or "")

    def showPopup(self) -> None:
        """List the values as they are now."""
        self._list()
        widest = self.view().sizeHintForColumn(0) if self.count() <= 500 else 0
        self.view().setMinimumWidth(min(420, widest + 24))
        super().showPopup()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """List the values, so that arrow keys choose without opening."""
        if self.count() <= 1:
            self._list()
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Let go of a long list."""
        super().focusOutEvent(event)
        if not self.view().isVisible():
            self.show_value(self._value)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Never change the filter by scrolling over it."""
        event.ignore()
