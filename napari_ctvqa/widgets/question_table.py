"""The table of questions, and what stands in its place while it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QItemSelectionModel, QModelIndex, QSize, Qt, QTimer, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.widgets.question_model import FRAME_COLUMNS, QuestionTableModel
from napari_ctvqa.widgets.text import Label

if TYPE_CHECKING:
    from collections.abc import Callable

HELD_KEY_MS = 120
"""While an arrow key is held down, so often the question under the cursor is opened."""
WIDEST_PX = {"id": 150, "stage": 150, "subtype": 190, "case": 130, "text": 330}
MODEL_PX = (44, 90)
SAMPLED = 300
"""Columns are as wide as what the first so many rows hold, bounded."""
VISUAL_ORDER = ("id", "subtype", "text", "case", "stage")
"""From the left; the models' columns stand after the id, where a narrow dock shows them."""


class QuestionTable(QTableView):
    """A table that tells which question was chosen, not faster than questions can be opened."""

    row_chosen = Signal(int)

    def __init__(self, model: QuestionTableModel) -> None:
        super().__init__()
        self._questions = model
        self._pending: int | None = None
        self._quiet = False
        self._held = QTimer(self)
        self._held.setSingleShot(True)
        self._held.setInterval(HELD_KEY_MS)
        self.setModel(model)
        self.setAccessibleName("Questions")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + 8)
        columns = self.horizontalHeader()
        columns.setSectionsMovable(True)
        columns.setSectionsClickable(True)
        columns.setHighlightSections(False)
        columns.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self._held.timeout.connect(self._tell_pending)
        self.selectionModel().currentRowChanged.connect(self._current_changed)

    def changeEvent(self, event: QEvent) -> None:
        """Another size of type needs other rows."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 8)

    def sizeHint(self) -> QSize:
        """Return a low one: the panel gives what is left, so that its buttons stay in view."""
        return QSize(300, 120)

    def fit_columns(self) -> None:
        """Place the columns and give them the width of what they hold."""
        models = range(len(FRAME_COLUMNS), self._questions.columnCount())
        sections = [FRAME_COLUMNS.index(name) for name in VISUAL_ORDER]
        header = self.horizontalHeader()
        for place, section in enumerate([sections[0], *models, *sections[1:]]):
            header.moveSection(header.visualIndex(section), place)
            self.setColumnWidth(section, self._width_px(section))

    def _width_px(self, section: int) -> int:
        metrics = self.fontMetrics()
        heading = self._questions.headerData(section, Qt.Orientation.Horizontal)
        wanted = metrics.horizontalAdvance(heading) + 18
        if self._questions.is_outcome(section):
            return int(min(max(wanted, MODEL_PX[0]), MODEL_PX[1]))
        rows = range(min(SAMPLED, self._questions.rowCount()))
        texts = {self._questions.index(row, section).data() for row in rows}
        widest = max((metrics.horizontalAdvance(text) for text in texts), default=0) + 12
        return int(min(max(wanted, widest), WIDEST_PX[FRAME_COLUMNS[section]]))

    def show_place(self, place: int | None) -> None:
        """Make a place current without telling anybody."""
        if place == self.currentIndex().row() and place is not None:
            return
        self._quiet = True
        if place is None:
            self.selectionModel().clear()
        else:
            index = self._questions.index(place, 0)
            flags = QItemSelectionModel.SelectionFlag
            self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            self.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)
        self._quiet = False

    def _current_changed(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if self._quiet or not current.isValid():
            return
        self._pending = self._questions.question_row(current.row())
        if not self._held.isActive():
            self._tell_pending()

    def _tell_pending(self) -> None:
        if self._pending is not None:
            row, self._pending = self._pending, None
            self._held.start()
            self.row_chosen.emit(row)


class EmptyPage(QWidget):
    """What stands in the place of the table: why it is empty and what to do."""

    def __init__(self) -> None:
        super().__init__()
        self._heading = Label(role="title", selectable=False)
        self._text = Label(role="muted")
        self._buttons = QVBoxLayout()
        layout = QVBoxLayout(self)
        layout.addStretch(1)
        layout.addWidget(self._heading)
        layout.addWidget(self._text)
        layout.addLayout(self._buttons)
        layout.addStretch(2)

    def add_button(self, text: str, act: Callable[[], object]) -> None:
        """Offer something to do."""
        button = QPushButton(text)
        button.clicked.connect(lambda: act())
        self._buttons.addWidget(button)

    def show_text(self, heading: str, text: str) -> None:
        """Say why there is nothing and what would help."""
        self._heading.show_text(heading)
        self._text.show_text(text)
