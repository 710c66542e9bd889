"""The table of what a validation found; its rows open questions and copy out as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QSize, Qt, Signal
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QTableView

from napari_ctvqa.core.cells import tab_separated

if TYPE_CHECKING:
    from qtpy.QtGui import QKeyEvent

    from napari_ctvqa.widgets.check_model import CheckTableModel

WIDEST_PX = {"id": 150, "status": 190, "stated": 120, "recomputed": 120, "why": 330}
WIDE_PX = 200
SAMPLED = 200


class CheckTable(QTableView):
    """A click or Enter opens a question; Ctrl+C copies the chosen rows, or all where none is."""

    row_chosen = Signal(int)

    def __init__(self, model: CheckTableModel) -> None:
        super().__init__()
        self._checks = model
        self.setModel(model)
        self.setAccessibleName("What the validation found")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + 8)
        self.horizontalHeader().setHighlightSections(False)
        self.clicked.connect(self._choose)

    def sizeHint(self) -> QSize:
        """Return a low one: the panel gives what is left."""
        return QSize(300, 120)

    def reload(self) -> None:
        """Show the session's checks; what was chosen and where one was stay."""
        chosen = {self._checks.question_row(place) for place in self.chosen_places()}
        at = self.verticalScrollBar().value()
        empty = self._checks.rowCount() == 0
        self._checks.reload()
        self._choose_again(chosen)
        self.verticalScrollBar().setValue(at)
        if empty:
            self.fit_columns()

    def _choose_again(self, question_rows: set[int]) -> None:
        selection = QItemSelection()
        last = self._checks.columnCount() - 1
        for place in self._checks.places_of(question_rows) if question_rows else ():
            selection.select(self._checks.index(place, 0), self._checks.index(place, last))
        flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.selectionModel().select(selection, flag)

    def fit_columns(self) -> None:
        """Give the columns the width of what their first rows hold, bounded."""
        metrics = self.fontMetrics()
        for section in range(self._checks.columnCount()):
            name = self._checks.headerData(section, Qt.Orientation.Horizontal)
            rows = range(min(SAMPLED, self._checks.rowCount()))
            texts = [name, *(self._checks.index(row, section).data() for row in rows)]
            widest = max(metrics.horizontalAdvance(text) for text in texts) + 18
            self.setColumnWidth(section, min(widest, WIDEST_PX.get(name, WIDE_PX)))

    def chosen_places(self) -> list[int]:
        """Return the rows of the table that are selected, from the top."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def copy(self) -> None:
        """Put the chosen rows, or all, on the clipboard: tab-separated, with headings."""
        places = self.chosen_places() or list(range(self._checks.rowCount()))
        if places:
            QApplication.clipboard().setText(tab_separated(self._checks.cells(places)))

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.row_chosen.emit(self._checks.question_row(index.row()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Ctrl+C copies; all else is the table's own."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.currentIndex())
        else:
            super().keyPressEvent(event)
