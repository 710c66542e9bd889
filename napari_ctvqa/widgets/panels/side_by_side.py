"""Side by side panel: the answers of all shown models in columns, differences marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtGui import QBrush, QColor
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.side_table import Cell, SideTable, side_table
from napari_ctvqa.widgets.text import Label, tooltip
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.session import Session

NOTHING = (
    "No model has answered this question. Open a result file, or let two or more models answer in "
    "Run, and their answers stand here in columns."
)
ONE = "One answer only. Let another model answer in Run, or open its result file, to compare."
EXPLAINED = "≠ marks what the models differ in. A click on a step shows its mask."
COLUMN_PX = 120
EMPTY = SideTable()
FITTING_COLUMNS = 3
"""Up to so many share the width; more scroll."""


class SideBySidePanel(QWidget):
    """Shows ``side_table`` of the session; a click or Enter goes to a step's mask."""

    title = "Side by side"
    order = 6

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown = EMPTY
        self._styling = Styling(self)
        self._note = Label(role="muted")
        self._table = QTableWidget()
        self._table.setAccessibleName("Answers side by side")
        self._table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self._table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._table.setWordWrap(True)
        self._table.setTabKeyNavigation(False)
        self._table.horizontalHeader().setDefaultSectionSize(COLUMN_PX)
        rows = self._table.verticalHeader()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        rows.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.addWidget(self._note)
        layout.addWidget(self._table, 1)
        self._table.cellActivated.connect(self._want)
        self._table.cellClicked.connect(self._want)
        self._styling.changed.connect(lambda: self._fill())
        self._listening = Listening(
            (session.question_changed, self._show),
            (session.chains_changed, self._show),
            (session.runs_changed, self._show),
            (session.reveal_changed, self._show),
            panel=self,
            session=session,
        )
        self._show()

    def _show(self) -> None:
        table = side_table(self._session)
        if table != self._shown or not self._note.text():
            before, self._shown = self._shown, table
            same_frame = table.columns == before.columns and table.titles == before.titles
            self._fill(before if same_frame else EMPTY)

    def _fill(self, before: SideTable = EMPTY) -> None:
        """Fill the table; what ``before`` shows in the same columns and rows is there already."""
        table = self._shown
        models = len(self._session.predictions)
        note = NOTHING if not models else ONE if models == 1 else EXPLAINED
        self._note.show_text("\n".join(part for part in (note, table.note) if part))
        self._table.setVisible(bool(table.lines))
        if not before.lines:
            self._frame()
        for row, line in enumerate(table.lines):
            known = before.lines[row].cells if before.lines else ()
            for column, cell in enumerate(line.cells):
                if not known or cell != known[column]:
                    self._table.setItem(row, column, self._item(cell))

    def _frame(self) -> None:
        """Begin the table anew, with its columns and rows."""
        table = self._shown
        self._table.clear()
        self._table.setColumnCount(len(table.columns))
        self._table.setRowCount(len(table.lines))
        self._table.setHorizontalHeaderLabels(list(table.columns))
        few = len(table.columns) <= FITTING_COLUMNS
        modes = QHeaderView.ResizeMode
        self._table.horizontalHeader().setSectionResizeMode(
            modes.Stretch if few else modes.Interactive
        )
        self._table.setVerticalHeaderLabels(
            [f"{'≠ ' if line.differs else ''}{_wrapped(line.title)}" for line in table.lines]
        )

    def _item(self, cell: Cell) -> QTableWidgetItem:
        item = QTableWidgetItem(cell.text)
        item.setToolTip(tooltip(cell.text))
        colour = getattr(self._styling.theme, cell.role, "") if cell.role else ""
        if colour:
            item.setForeground(QBrush(QColor(colour)))
        return item

    def _want(self, row: int, column: int) -> None:
        step = self._shown.lines[row].cells[column].step
        if step is not None:
            self._session.wishes.focus_step.emit(step)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _wrapped(title: str, width: int = 14) -> str:
    """Return a row's title in short lines: headers do not wrap by themselves."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


PANEL = SideBySidePanel
