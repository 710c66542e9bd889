"""The tables of the Audit panel: groups, official against as read, why unread, published rows."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QSize, Qt, Signal
from qtpy.QtGui import QBrush, QColor, QKeyEvent
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from napari_ctvqa.core.audit import OUTCOMES
from napari_ctvqa.core.audit_text import (
    OUTCOME_WORDS,
    group_words,
    interval_text,
    percent,
    total_text,
    unread_words,
)
from napari_ctvqa.core.leaderboard_lines import OWN, own_cell
from napari_ctvqa.core.leaderboards import DIRECT
from napari_ctvqa.widgets.text import one_line, tooltip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.audit import Audit, CrossTable
    from napari_ctvqa.core.leaderboards import Beside, Published
    from napari_ctvqa.core.records import Outcome
    from napari_ctvqa.core.unread import Unread
    from napari_ctvqa.widgets.theme import Theme

ALL_WORD = "all"
HEADING_LETTERS, MODEL_PX = 12, 165
_NUMBERS = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class PlainTable(QTableWidget):
    """A read-only table whose cells say that they were chosen, by a click or Enter."""

    chosen = Signal(int, int)

    def __init__(self, name: str, theme: Theme, *, rows_at_once: bool = False) -> None:
        super().__init__()
        self.theme = theme
        self._fitted = False
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        if rows_at_once:
            self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 6)
        self.horizontalHeader().setHighlightSections(False)
        self.cellClicked.connect(self.chosen)

    def put(self, row: int, column: int, text: str, *, tip: str = "", colour: str = "") -> None:
        """Show one cell; a column of numbers is told from its first place."""
        item = QTableWidgetItem(text)
        if column:
            item.setTextAlignment(_NUMBERS)
        if tip:
            item.setToolTip(tooltip(tip))
        if colour:
            item.setForeground(QBrush(QColor(colour)))
        self.setItem(row, column, item)

    def begin(self, columns: Sequence[str], rows: int) -> None:
        """Begin anew with these columns: the first takes what room is left."""
        self.clear()
        self.setColumnCount(len(columns))
        self.setRowCount(rows)
        self.setHorizontalHeaderLabels(list(columns))
        header = self.horizontalHeader()
        for column in range(len(columns)):
            mode = QHeaderView.ResizeMode.ResizeToContents
            header.setSectionResizeMode(
                column, QHeaderView.ResizeMode.Stretch if not column else mode
            )

    def fit_height(self) -> None:
        """Be as high as all rows."""
        self._fitted = True
        head = self.horizontalHeader().sizeHint().height()
        row = self.verticalHeader().defaultSectionSize()
        self.setFixedHeight(head + self.rowCount() * row + 4)

    def changeEvent(self, event: QEvent) -> None:
        """Another size of type needs other rows."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 6)
            if getattr(self, "_fitted", False):
                self.fit_height()

    def sizeHint(self) -> QSize:
        """Return a low one: the panel gives what is left."""
        return QSize(300, 120)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter chooses; all else is the table's own."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentRow() >= 0:
            self.chosen.emit(self.currentRow(), self.currentColumn())
        else:
            super().keyPressEvent(event)


class GroupTable(PlainTable):
    """All answers, then stages, then subtypes, each with both totals; a row is chosen."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Stages and subtypes", theme, rows_at_once=True)
        self.verticalHeader().hide()

    def show_audit(self, audit: Audit, titles: tuple[str, str]) -> None:
        """Show the groups; the row that was chosen stays so where it is still there."""
        before = self.currentItem().text() if self.currentRow() > 0 else ""
        self.begin(("group", "n", "official", "read", "≠"), len(audit.tables))
        shown = [one_line(group_words(table), 80) for table in audit.tables]
        for row, (table, words) in enumerate(zip(audit.tables, shown, strict=True)):
            totals = "\n".join(
                f"{title}: {total_text(total)}"
                for title, total in zip(titles, (table.official, table.ours), strict=True)
            )
            self.put(row, 0, words, tip=f"{words}\n{totals}")
            self.put(row, 1, f"{table.n:,}")
            for column, total in ((2, table.official), (3, table.ours)):
                self.put(row, column, percent(total.share), tip=totals)
            count = len(table.differing)
            colour = self.theme.unread if count else self.theme.muted
            self.put(row, 4, f"{count:,}", colour=colour, tip="Read or counted differently")
        self.setCurrentCell(next((r for r, w in enumerate(shown) if r and w == before), 0), 0)


class CrossView(PlainTable):
    """Official outcomes in rows, those as read in columns; ``cell`` tells which was chosen."""

    cell = Signal(object, object)
    """Outcome or None: official, as read; None stands for all."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Official outcomes against outcomes as read", theme)
        self.chosen.connect(self._tell)
        self.verticalHeader().hide()

    def show_table(self, table: CrossTable, titles: tuple[str, str]) -> None:
        """Show one group's cross table."""
        shown = [o for o in OUTCOMES if table.ids(o) or table.ids(None, o) or o in OUTCOMES[:3]]
        self._outcomes: list[Outcome | None] = [*shown, None]
        words = [ALL_WORD if o is None else OUTCOME_WORDS[o] for o in self._outcomes]
        self.begin(("official", *words), len(self._outcomes))
        for row, official in enumerate(self._outcomes):
            self.put(row, 0, words[row], tip=titles[0])
            for column, ours in enumerate(self._outcomes, start=1):
                count = len(table.ids(official, ours))
                self.put(row, column, f"{count:,}", colour=self._colour(official, ours, count))
        self.fit_height()

    def _colour(self, official: Outcome | None, ours: Outcome | None, count: int) -> str:
        if not count:
            return self.theme.muted
        unlike = official is not None and ours is not None and official is not ours
        return self.theme.unread if unlike else ""

    def _tell(self, row: int, column: int) -> None:
        ours = self._outcomes[column - 1] if column else None
        self.cell.emit(self._outcomes[row], ours)


class UnreadTable(PlainTable):
    """Why answers are unread, with how many; ``kind`` tells which was chosen."""

    kind = Signal(object, bool)
    """Unread; whether only those that the official scorer counts as right are meant."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Why answers are unread", theme, rows_at_once=True)
        self.verticalHeader().hide()
        self._kinds: list[Unread] = []
        self.chosen.connect(lambda row, column: self.kind.emit(self._kinds[row], column == 1))

    def show_table(self, table: CrossTable) -> None:
        """Show one group's unread answers."""
        self._kinds = list(table.unread)
        self.begin(("why unread as read", "right officially", "n"), len(self._kinds))
        for row, kind in enumerate(self._kinds):
            self.put(row, 0, unread_words(kind), tip=unread_words(kind))
            credited = len(table.credited(kind))
            colour = self.theme.unread if credited else self.theme.muted
            self.put(row, 1, f"{credited:,}", colour=colour)
            self.put(row, 2, f"{len(table.unread[kind]):,}")
        self.fit_height()


class BoardTable(PlainTable):
    """Published rows, best first, with the run among them where it is compared."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Published results", theme, rows_at_once=True)
        self.verticalHeader().hide()

    def show_board(self, own: Beside) -> None:
        """Show one table and the run beside it."""
        board = own.board
        mine = own.values[0].percent
        rows = sorted(board.rows, key=lambda row: -row.values[0])
        above = sum(row.values[0] >= mine for row in rows) if mine is not None else len(rows)
        shown = 0 if own.reasons else 1
        titles = ("\n".join(wrap(column.title, HEADING_LETTERS)) for column in board.columns)
        self.begin(("model", *titles), len(rows) + shown)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        self.setColumnWidth(0, MODEL_PX)
        for place, row in enumerate(rows):
            self._put_published(place + int(bool(shown) and place >= above), row, board.decimals)
        if shown:
            self._put_own(above, own)

    def _put_published(self, at: int, row: Published, decimals: int) -> None:
        about = (f"{row.model} {row.params}".strip(), row.input, f"asked: {row.way}", row.source)
        tip = "\n".join(filter(None, (*about, row.apart, row.note)))
        way = "" if row.mode == DIRECT else f" ({row.way})"
        star = " *" if row.apart or row.note else ""
        self.put(at, 0, f"{row.model}{way}{star}", tip=tip)
        for column, value in enumerate(row.values, start=1):
            self.put(at, column, f"{value:.{decimals}f}", tip=tip)

    def _put_own(self, at: int, own: Beside) -> None:
        colour = self.theme.right
        self.put(at, 0, f"{OWN}{one_line(own.model, 60)}", colour=colour, tip=own.model)
        for column, value in enumerate(own.values, start=1):
            why = value.rank.text if value.rank is not None else value.reason
            tip = f"{interval_text(value.total)}; {why}"
            self.put(at, column, own_cell(value, own.board.decimals), tip=tip, colour=colour)
        self.scrollToItem(self.item(at, 0), QAbstractItemView.ScrollHint.PositionAtCenter)
