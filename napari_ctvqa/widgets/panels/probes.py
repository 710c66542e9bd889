"""Probes panel: the same question again with one thing changed, and what the answers show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtGui import QBrush, QColor
from qtpy.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QHBoxLayout,
    QHeaderView,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QRadioButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.probe_results import Verdict
from napari_ctvqa.core.probes import table
from napari_ctvqa.core.session import CaseState, RunState
from napari_ctvqa.widgets.banner import Banner
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.pictures import PictureGrid
from napari_ctvqa.widgets.probe_words import (
    COLUMNS,
    cells_of,
    progress_words,
    sentences_text,
    sight_words,
    verdict_role,
)
from napari_ctvqa.widgets.runs import THE_FILTER, THIS_QUESTION
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label, TextBox, one_line, tooltip
from napari_ctvqa.widgets.theme import GAP_PX, MARGIN_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.session import Session

FIRST_CHOSEN = ("mirrored", "lesion_removed", "blank", "shuffled")
LIST_ROWS, TABLE_PX = 6, 170
HIDDEN = "References are hidden. What probes show of an answer would tell them: show them first."
NOTHING = "This question has not been probed. The answers to its probes stand here."


CHOOSE = "Choose a row to see what was sent under that probe."
MAKING = "What was sent is being made again …"


class ProbesPanel(QWidget):
    """Starts and stops probes; the current question's answers in a table, all in sentences."""

    title = "Probes"
    order = 7

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self._about = Label(role="muted")
        self._list = QListWidget()
        self._all = QPushButton("All")
        self._none = QPushButton("None")
        self._question = QRadioButton("This question")
        self._filter = QRadioButton("All that the filter shows")
        self._start = QPushButton("Probe")
        self._cancel = QPushButton("Stop")
        self._bar = ProgressBar()
        self._progress = Label(role="heading")
        self._message = Label(role="muted")
        self._note = Label(role="muted")
        self._table = QTableWidget(0, len(COLUMNS))
        self._rows: tuple[str, ...] = ()
        """The probes of the table's rows."""
        self._selected = ("", "")
        """The question and the probe whose row is chosen."""
        self._sight = Label(CHOOSE, role="muted")
        self._changed = Banner()
        self._pictures = PictureGrid("Pictures that were sent under the probe")
        self._sentences = TextBox("What the probes show", max_lines=18)
        self._file = Label(role="small")
        self._build()
        self._connect()
        self._listening = Listening(
            (session.probing_changed, self._show),
            (session.wanted_changed, self._show_scope),
            (session.rows_changed, self._show_scope),
            (session.question_changed, self._show),
            (session.case_changed, self._show_scope),
            (session.progress_changed, self._show_scope),
            (session.reveal_changed, self._show),
            (session.probe_sight_changed, self._show_sight),
            panel=self,
        )
        self._show()

    # ------------------------------------------------------------------ build

    def _build(self) -> None:
        self._list.setAccessibleName("Probes")
        for name, probe in table().probes.items():
            item = QListWidgetItem(probe.title)
            item.setFlags(Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEnabled)
            item.setCheckState(_checked(name in FIRST_CHOSEN))
            item.setData(Qt.ItemDataRole.UserRole, name)
            item.setToolTip(tooltip(f"{probe.does}\nNeeds {probe.needs}."))
            self._list.addItem(item)
        height = self._list.fontMetrics().height() + 6
        self._list.setFixedHeight(LIST_ROWS * height)
        self._bar.setAccessibleName("Progress of the probes")
        self._question.setChecked(True)
        self._build_table()
        choose = QHBoxLayout()
        choose.addWidget(self._all)
        choose.addWidget(self._none)
        choose.addStretch(1)
        buttons = QHBoxLayout()
        buttons.addWidget(self._start, 1)
        buttons.addWidget(self._cancel, 1)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN_PX, MARGIN_PX, MARGIN_PX, MARGIN_PX)
        column.setSpacing(GAP_PX)
        for widget in (self._list, self._question, self._filter, self._about):
            column.addWidget(widget)
        column.insertLayout(1, choose)
        column.addLayout(buttons)
        for widget in (
            *(self._bar, self._progress, self._message, self._note),
            *(self._table, self._sight, self._changed, self._pictures),
            *(self._sentences, self._file),
        ):
            column.addWidget(widget)
        column.addStretch(1)
        fill(self, body, "Probes")

    def _build_table(self) -> None:
        self._table.setAccessibleName("Answers to the probes of this question")
        self._table.setHorizontalHeaderLabels(list(COLUMNS))
        self._table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self._table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self._table.setTabKeyNavigation(False)
        self._table.setWordWrap(True)
        self._table.setShowGrid(False)
        self._table.verticalHeader().hide()
        rows = self._table.verticalHeader()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._table.setMinimumHeight(TABLE_PX)

    def _connect(self) -> None:
        wishes = self._session.wishes
        scopes = QButtonGroup(self)
        scopes.addButton(self._question)
        scopes.addButton(self._filter)
        scopes.buttonToggled.connect(self._show_scope)
        self._list.itemChanged.connect(self._show_scope)
        self._all.clicked.connect(partial(self._check, True))
        self._none.clicked.connect(partial(self._check, False))
        self._start.clicked.connect(self._probe)
        self._table.itemSelectionChanged.connect(self._choose)
        self._pictures.pointed.connect(lambda picture: wishes.show_picture.emit(picture))
        self._cancel.clicked.connect(partial(wishes.cancel_probes.emit))
        self._styling.changed.connect(lambda: self._show())

    def _check(self, checked: bool, *_: object) -> None:
        for row in range(self._list.count()):
            self._list.item(row).setCheckState(_checked(checked))

    # --------------------------------------------------------------- choosing

    @property
    def scope(self) -> str:
        """Return ``"question"`` or ``"filter"``."""
        return THE_FILTER if self._filter.isChecked() else THIS_QUESTION

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the names of the probes that are ticked, in the order of the table."""
        items = (self._list.item(row) for row in range(self._list.count()))
        return tuple(
            item.data(Qt.ItemDataRole.UserRole)
            for item in items
            if item.checkState() is Qt.CheckState.Checked
        )

    def _probe(self) -> None:
        self._session.wishes.probe.emit(self.scope, self.chosen)

    # ---------------------------------------------------------------- showing

    def _show_scope(self) -> None:
        session = self._session
        self._filter.setText(f"All that the filter shows ({len(session.rows):,})")
        blocked = _why_not(session, self.scope) or ("" if self.chosen else "Tick a probe.")
        self._about.show_text(blocked or _what_will_happen(session, self.scope, len(self.chosen)))
        idle = session.progress.state is RunState.IDLE and not session.probing.running
        self._start.setEnabled(idle and not blocked)
        self._cancel.setEnabled(session.probing.running)

    def _show(self) -> None:
        probing = self._session.probing
        self._bar.setVisible(probing.running or probing.total > 0)
        self._bar.show_value(probing.done, max(probing.total, 1))
        self._progress.show_text(progress_words(probing))
        self._message.show_text(probing.message)
        self._file.show_text(f"Kept in {probing.path}" if probing.path else "")
        self._show_answers()
        self._show_sentences()
        self._show_scope()

    def _show_answers(self) -> None:
        session = self._session
        question = session.question
        answers = session.probing.of(question.id) if question is not None else {}
        hidden = not session.revealed
        shown = [] if hidden else [answers[name] for name in table().probes if name in answers]
        blocked = self._table.blockSignals(True)
        self._table.setRowCount(len(shown))
        for row, answer in enumerate(shown):
            for column, text in enumerate(cells_of(answer)):
                item = QTableWidgetItem(one_line(text))
                item.setToolTip(tooltip(text))
                role = verdict_role(answer.verdict) if column == len(COLUMNS) - 1 else ""
                if role or answer.verdict is Verdict.NOT_MADE:
                    colour = getattr(self._styling.theme, role or "muted")
                    item.setForeground(QBrush(QColor(colour)))
                self._table.setItem(row, column, item)
        self._rows = tuple(answer.probe for answer in shown)
        self._keep_chosen("" if question is None else question.id)
        self._table.blockSignals(blocked)
        self._table.setVisible(bool(shown))
        self._show_sight()
        note = "" if question is None or shown else HIDDEN if hidden else NOTHING
        self._note.show_text(note)

    def _keep_chosen(self, question_id: str) -> None:
        """Keep the row of the chosen probe chosen where others come before it."""
        question, probe = self._selected
        if question == question_id and probe in self._rows:
            self._table.setCurrentCell(self._rows.index(probe), 0)
            return
        self._table.setCurrentItem(None)
        self._table.clearSelection()
        if probe:
            self._selected = ("", "")
            self._wish("")

    def _choose(self) -> None:
        question, rows = self._session.question, self._table.selectionModel().selectedRows()
        probe = self._rows[rows[0].row()] if rows and rows[0].row() < len(self._rows) else ""
        chosen = ("" if question is None else question.id, probe)
        if chosen == self._selected:
            return
        self._selected = chosen
        self._wish(probe)
        self._show_sight()

    def _wish(self, probe: str) -> None:
        """Ask for a probe's pictures; the frame of one of the former's goes from the planes."""
        self._session.wishes.show_picture.emit(None)
        self._session.wishes.show_probe.emit(probe)

    def _show_sight(self) -> None:
        """Show what was sent under the chosen probe; of no other, and nothing that is hidden."""
        sight = self._session.probe_sight
        mine = sight is not None and (sight.question_id, sight.probe) == self._selected
        pictures = sight.pictures if mine and self._rows else ()
        self._changed.show_message("amber", sight_words(sight) if pictures else "")
        self._pictures.show_pictures(pictures)
        self._pictures.setVisible(bool(pictures))
        said = CHOOSE if not self._selected[1] else MAKING if not mine else sight.problem
        self._sight.show_text(said if self._rows else "")
        self._sight.setVisible(bool(self._rows and said))

    def _show_sentences(self) -> None:
        session = self._session
        told = "" if session.hide_reference else sentences_text(session.probing)
        self._sentences.show_text(told)
        self._sentences.setVisible(bool(told))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _checked(checked: bool) -> Qt.CheckState:
    return Qt.CheckState.Checked if checked else Qt.CheckState.Unchecked


def _why_not(session: Session, scope: str) -> str:
    """Return why nothing can be probed now; empty where it can."""
    if session.questions is None or not len(session.questions):
        return "Open a benchmark or a question file first."
    if session.wanted is None:
        return "Choose a model in Run first."
    if scope == THE_FILTER:
        return "" if len(session.rows) else "The filter shows no question."
    if session.question is None:
        return "Choose a question first."
    if session.case_state is CaseState.FAILED:
        return "This question's case cannot be shown."
    if session.case is None or not session.case.complete:
        return "Wait until the case is read."
    return ""


def _what_will_happen(session: Session, scope: str, probes: int) -> str:
    count = len(session.rows) if scope == THE_FILTER else 1
    asked = count * (probes + 1)
    model = one_line(session.wanted.shown_name, 60)
    return (
        f"Asks {model} (chosen in Run) {asked:,} times: {count:,} × as it is, and once a probe. "
        "Answers are kept in a file of their own; no run is touched."
    )


PANEL = ProbesPanel
"""For ``extensions``, as every panel."""
