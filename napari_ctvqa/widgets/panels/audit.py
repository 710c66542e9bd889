"""Audit panel: a run's two scores against each other, published tables, calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.audit_lines import text_lines
from napari_ctvqa.core.audit_text import (
    INTERVAL_NOTE,
    explained,
    group_words,
    short_text,
    total_text,
    where_text,
)
from napari_ctvqa.core.calibration import SOURCE_WORDS, calibration_words
from napari_ctvqa.core.leaderboard_lines import board_lines
from napari_ctvqa.core.leaderboards import OTHER_CONDITIONS, own_words
from napari_ctvqa.core.records import Outcome
from napari_ctvqa.widgets.audit_tables import BoardTable, CrossView, GroupTable, UnreadTable
from napari_ctvqa.widgets.calibration_view import CalibrationView
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.question_table import EmptyPage
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label, one_line
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.audit import CrossTable
    from napari_ctvqa.core.audited import Audited
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.core.unread import Unread

PAUSE_MS = 1_000
"""A run that grows is audited anew so often at most."""
PAGES = ("Official and read", "Published tables", "Calibration")
NO_FILTER = "This name has a quotation mark in it, which the filter cannot say."


class AuditPanel(QWidget):
    """Shows ``session.audited``; a cell that is chosen filters the questions to its answers."""

    title = "Audit"
    order = 7

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        theme = self._styling.theme
        self._model = QComboBox()
        self._page = QComboBox()
        self._copy = QPushButton("Copy")
        self._pages = QStackedWidget()
        self._empty = EmptyPage()
        self._totals = Label(role="heading")
        self._why = Label()
        self._groups = GroupTable(theme)
        self._group = Label(role="muted")
        self._cross = CrossView(theme)
        self._unread = UnreadTable(theme)
        self._more = Label()
        self._note = Label(role="small")
        self._board = QComboBox()
        self._stands = Label()
        self._rows = BoardTable(theme)
        self._source = Label(role="small")
        self._curve = QComboBox()
        self._view = CalibrationView(theme)
        self._says = Label()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE_MS)
        self._due = False
        self._filled: tuple[Audited | None, int] = (None, -1)
        """What the shown page was filled with, and which page that is."""
        self._build()
        self._connect()
        self._listening = Listening(
            (session.runs_changed, self._show_runs),
            (session.questions_changed, self._show_runs),
            (session.audited_changed, self._show),
            (session.reveal_changed, self._show),
            panel=self,
        )
        self._show_runs()

    # ------------------------------------------------------------------ build

    def _build(self) -> None:
        self._model.setAccessibleName("Whose run")
        self._page.setAccessibleName("What is shown of it")
        self._board.setAccessibleName("Which published table")
        self._curve.setAccessibleName("Which kind of confidence")
        self._copy.setToolTip("Copy what is shown as text")
        self._page.addItems(PAGES)
        for box in (self._model, self._board):
            box.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            box.setMinimumContentsLength(8)
        top = QHBoxLayout()
        top.addWidget(self._model, 1)
        top.addWidget(self._page)
        top.addWidget(self._copy)
        self._pages.addWidget(self._empty)
        for parts in (
            (self._totals, self._why, self._groups, self._group, self._cross, self._unread,
             self._more, self._note),
            (self._board, self._stands, self._rows, self._source),
            (self._curve, self._view, self._says),
        ):  # fmt: skip
            self._pages.addWidget(_column(*parts))
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(GAP_PX)
        layout.addLayout(top)
        layout.addWidget(self._pages, 1)
        fill(self, body, "Audit")

    def _connect(self) -> None:
        self._model.activated.connect(self._want)
        self._page.activated.connect(self._show)
        self._board.activated.connect(self._show_board)
        self._curve.activated.connect(self._show_curve)
        self._copy.clicked.connect(self._copy_shown)
        self._groups.currentCellChanged.connect(lambda *_: self._show_group())
        self._cross.cell.connect(self._filter_cell)
        self._unread.kind.connect(self._filter_unread)
        self._pause.timeout.connect(self._pause_over)
        self._styling.changed.connect(self._repaint)

    def _repaint(self) -> None:
        for part in (self._groups, self._cross, self._unread, self._rows):
            part.theme = self._styling.theme
        self._view.set_theme(self._styling.theme)
        self._filled = (None, -1)
        self._show()

    # ---------------------------------------------------------------- wishing

    def _show_runs(self) -> None:
        """List the runs; audit the chosen one anew, at most once a second."""
        models = list(self._session.runs)
        if models != [self._model.itemData(n) for n in range(self._model.count())]:
            chosen = self._model.currentData()
            self._model.clear()
            for model in models:
                self._model.addItem(one_line(model, 60), model)
            self._model.setCurrentIndex(max(0, self._model.findData(chosen)))
        if self._pause.isActive():
            self._due = True
        else:
            self._want()
        self._show()

    def _want(self) -> None:
        model = self._model.currentData()
        if model is not None:
            self._pause.start()
            self._session.wishes.audit.emit(model)

    def _pause_over(self) -> None:
        if self._due:
            self._due = False
            self._want()

    # ---------------------------------------------------------------- showing

    @property
    def _shown(self) -> Audited | None:
        """Return what is known of the chosen run; None until it is worked out."""
        found = self._session.audited
        return found if found is not None and found.model == self._model.currentData() else None

    def _show(self) -> None:
        found, page = self._shown, self._page.currentIndex()
        heading, why = self._why_empty(found, page)
        self._copy.setEnabled(not heading)
        self._model.setEnabled(self._model.count() > 0)
        if heading or found is None:
            self._empty.show_text(heading, why)
            self._pages.setCurrentWidget(self._empty)
            return
        self._pages.setCurrentIndex(page + 1)
        before, at = self._filled
        if before is not found or at != page:  # a run that grows tells so several times a second
            self._filled = (found, page)
            (self._show_audit, self._show_boards, self._show_curves)[page](found)

    def _why_empty(self, found: Audited | None, page: int) -> tuple[str, str]:
        session = self._session
        if not session.runs:
            return (
                "No run to audit.",
                "Let a model answer in Run, or open its result file in Questions: Open ▾.",
            )
        if session.hide_reference:
            return "References are hidden.", "What is right would tell them. Show them first."
        if found is None:
            return "The audit is being worked out …", "It appears here in a moment."
        if page == 0 and not found.audit.total.n:
            return "Nothing is scored yet.", "The first answers appear here as they come."
        if page == 1 and not found.boards:
            return (
                "No published table of this benchmark is known.",
                "Tables of DeepTumorVQA v2 and CT-SpatialVQA are.",
            )
        if page == 2 and not found.curves:
            return (
                "This run says of no answer how sure it was.",
                "A confidence is stored where a model is asked for it in Run: option "
                "probabilities, or samples.",
            )
        return "", ""

    def _show_audit(self, found: Audited) -> None:
        total = found.audit.total
        lines = (f"{found.titles[0]}: {total_text(total.official)}",
                 f"{found.titles[1]}: {total_text(total.ours)}")  # fmt: skip
        self._totals.show_text("\n".join(lines))
        answers = f"{total.n:,} answers to {found.audit.questions:,} questions."
        first, *rest = explained(total, found.titles, found.note)
        self._why.show_text(f"{answers} {first}")
        self._more.show_text("\n".join(rest))
        self._note.show_text(INTERVAL_NOTE)
        self._groups.show_audit(found.audit, found.titles)
        self._show_group()

    def _table(self) -> CrossTable | None:
        """Return the cross table of the chosen group."""
        found, row = self._shown, self._groups.currentRow()
        tables = found.audit.tables if found is not None else ()
        return tables[row] if 0 <= row < len(tables) else None

    def _show_group(self) -> None:
        found, table = self._shown, self._table()
        if found is None or table is None:
            return
        words = one_line(group_words(table), 80)
        totals = (
            f"{words}: official {short_text(table.official)}, read {short_text(table.ours)}. "
            if table is not found.audit.total
            else ""
        )
        self._group.show_text(
            f"{totals}Rows official, columns as read; a click shows the answers in Questions."
        )
        self._cross.show_table(table, found.titles)
        self._unread.show_table(table)
        self._unread.setVisible(bool(table.unread))

    def _show_boards(self, found: Audited) -> None:
        titles = [own.board.title for own in found.boards]
        if titles != [self._board.itemText(n) for n in range(self._board.count())]:
            self._board.clear()
            self._board.addItems(titles)
        self._show_board()

    def _show_board(self) -> None:
        found, place = self._shown, self._board.currentIndex()
        if found is None or not 0 <= place < len(found.boards):
            return
        own = found.boards[place]
        board = own.board
        self._stands.show_text("\n".join(own_words(own)))
        self._rows.show_board(own)
        apart = [f"* {row.model}: {row.apart or row.note}" for row in board.rows
                 if row.apart or row.note]  # fmt: skip
        self._source.show_text(
            "\n".join(
                (
                    f"{board.metric}, {board.questions:,} questions. Source: {board.source}, "
                    f"{board.date}. {' '.join(board.unknown)}",
                    *apart,
                    OTHER_CONDITIONS,
                )
            )
        )

    def _show_curves(self, found: Audited) -> None:
        words = [SOURCE_WORDS[one.source] for one in found.curves if one.source is not None]
        if words != [self._curve.itemText(n) for n in range(self._curve.count())]:
            self._curve.clear()
            self._curve.addItems(words)
        self._curve.setVisible(len(words) > 1)
        self._show_curve()

    def _show_curve(self) -> None:
        found, place = self._shown, self._curve.currentIndex()
        if found is None or not 0 <= place < len(found.curves):
            return
        self._view.show_curve(found.curves[place])
        self._says.show_text("\n".join(calibration_words(found.curves[place])))

    # --------------------------------------------------------------- choosing

    def _filter_cell(self, official: Outcome | None, ours: Outcome | None) -> None:
        found, table = self._shown, self._table()
        if found is not None and table is not None:
            self._filter(where_text(found.audit, table, official=official, ours=ours))

    def _filter_unread(self, kind: Unread, credited: bool) -> None:
        found, table = self._shown, self._table()
        if found is not None and table is not None:
            official = Outcome.RIGHT if credited else None
            self._filter(where_text(found.audit, table, official=official, unread=kind))

    def _filter(self, where: str) -> None:
        if where:
            self._session.wishes.filter.emit(where)
            self._group.show_text(f"Questions shows: {one_line(where, 200)}")
        else:
            self._group.show_text(NO_FILTER)

    def _copy_shown(self) -> None:
        found = self._shown
        if found is None:
            return
        page = self._page.currentIndex()
        if page == 0:
            lines = [found.model, *text_lines(found.audit, found.titles, found.note)]
        elif page == 1:
            own = found.boards[max(0, self._board.currentIndex())]
            lines = list(board_lines(own.board, own))
        else:
            lines = [found.model, *calibration_words(found.curves[self._curve.currentIndex()])]
        QApplication.clipboard().setText("\n".join(lines))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _column(*parts: QWidget) -> QWidget:
    """Return a page with its parts below each other; tables and pictures take the room."""
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        layout.addWidget(part, int(isinstance(part, GroupTable | BoardTable | CalibrationView)))
    return page


PANEL = AuditPanel
