"""Run panel: let a model or an agent answer, see how far it is, stop it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.audit_text import FORMAT_WORDS
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.session import CaseState, RunState
from napari_ctvqa.extensions import discover
from napari_ctvqa.io.run_settings import last_scheduler, remember_scheduler
from napari_ctvqa.runners.choices import choices
from napari_ctvqa.runners.cluster import Cluster
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.model_form import ModelForm
from napari_ctvqa.widgets.runs import THE_FILTER, THIS_QUESTION
from napari_ctvqa.widgets.scrolling import Scrolling, fill
from napari_ctvqa.widgets.server_lines import ServerLines
from napari_ctvqa.widgets.text import Label, one_line
from napari_ctvqa.widgets.theme import GAP_PX, MARGIN_PX, Styling
from napari_ctvqa.widgets.words import accuracy_text, progress_text, unfinished_text

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent, QShowEvent

    from napari_ctvqa.core.session import Session


CLUSTER_TIP = (
    "Who answers many questions: nothing here, and this program asks one after the other, or as "
    "many as its servers take. local: a process a processor of this machine. Or the address of a "
    "dask scheduler, e.g. tcp://head:8786, whose workers find the files at the same paths."
)


class RunPanel(QWidget):
    """Starts and stops runs; says before what will be asked and where answers are kept."""

    title = "Run"
    order = 4

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._was_running = False
        self._shown = (False, 0)
        """Whether a run was shown, and of how many servers."""
        self._look_down = QTimer(self)
        self._look_down.setSingleShot(True)
        self._look_down.setInterval(0)
        self._look_down.timeout.connect(self._show_where_it_is)
        Styling(self)
        self._model = ModelForm()
        self._host = Label(role="small")
        self._format = QComboBox()
        self._format_note = Label(role="small")
        self._question = QRadioButton("This question")
        self._filter = QRadioButton("All that the filter shows")
        self._scope = Label(role="muted")
        self._unfinished = Label(role="small")
        self._cluster = QLineEdit()
        self._start = QPushButton("Run")
        self._cancel = QPushButton("Stop")
        self._bar = ProgressBar()
        self._progress = Label(role="heading")
        self._accuracy = Label()
        self._servers = ServerLines()
        self._message = Label(role="muted")
        self._file = Label(role="small")
        self._unavailable = Label(role="small")
        self._unload = QPushButton("Unload the model")
        self._unload.setToolTip("End its process, which frees its memory")
        self._form = QFormLayout()
        self._build()
        self._connect()
        self._list_models()
        self._listening = Listening(
            (session.progress_changed, self._show_progress),
            (session.rows_changed, self._show_scope),
            (session.questions_changed, self._show_scope),
            (session.question_changed, self._show_scope),
            (session.case_changed, self._show_scope),
            (session.runs_changed, self._show_format),
            (session.reveal_changed, self._show_progress),
            (session.unfinished_changed, self._show_unfinished),
            panel=self,
            session=session,
        )
        self._show_format()
        self._show_progress()

    def _build(self) -> None:
        for answer_format in AnswerFormat:
            self._format.addItem(FORMAT_WORDS[answer_format], answer_format.value)
        self._format.setAccessibleName("Answer format")
        self._form.addRow(Label("Answers as", wrap=False, selectable=False), self._format)
        self._cluster.setPlaceholderText("none")
        self._cluster.setAccessibleName("Cluster")
        self._cluster.setToolTip(CLUSTER_TIP)
        self._cluster.setMaxLength(300)
        self._cluster.setText(last_scheduler())
        self._cluster_row = QWidget()
        row = QFormLayout(self._cluster_row)
        row.setContentsMargins(0, 0, 0, 0)
        row.addRow(Label("Cluster", wrap=False, selectable=False), self._cluster)
        self._question.setChecked(True)
        self._bar.setAccessibleName("Progress of the run")
        buttons = QHBoxLayout()
        buttons.addWidget(self._start, 1)
        buttons.addWidget(self._cancel, 1)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN_PX, MARGIN_PX, MARGIN_PX, MARGIN_PX)
        column.setSpacing(GAP_PX)
        column.addWidget(self._model)
        column.addLayout(self._form)
        for part in (
            self._host,
            self._format_note,
            self._question,
            self._filter,
            self._cluster_row,
            self._scope,
            self._unfinished,
        ):
            column.addWidget(part)
        column.addLayout(buttons)
        for part in (
            self._bar,
            self._progress,
            self._accuracy,
            self._message,
            self._servers,
            self._file,
            self._unload,
            self._unavailable,
        ):
            column.addWidget(part)
        column.addStretch(1)
        fill(self, body, "Run")

    def _connect(self) -> None:
        wishes = self._session.wishes
        scopes = QButtonGroup(self)
        scopes.addButton(self._question)
        scopes.addButton(self._filter)
        scopes.buttonToggled.connect(self._show_scope)
        self._model.changed.connect(self._show_scope)
        self._cluster.textChanged.connect(self._show_scope)
        self._format.activated.connect(self._choose_format)
        self._start.clicked.connect(self._run)
        self._cancel.clicked.connect(partial(wishes.cancel_run.emit))
        self._unload.clicked.connect(partial(wishes.unload.emit))

    # --------------------------------------------------------------- choosing

    @property
    def scope(self) -> str:
        """Return ``"question"`` or ``"filter"``."""
        return THE_FILTER if self._filter.isChecked() else THIS_QUESTION

    @property
    def scheduler(self) -> str:
        """Return the address of the cluster that is to answer; empty for none."""
        return str(self._cluster.text()).strip()

    def _list_models(self) -> None:
        self._model.show_choices(choices())
        reasons = [
            f"not available: {one_line(name, 60)} ({one_line(why, 200)})"
            for name, why in discover("models", "MODEL").unavailable.items()
        ]
        self._unavailable.show_text("\n".join(reasons))

    def showEvent(self, event: QShowEvent) -> None:
        """List what can be chosen now: a server or folder may have come."""
        self._list_models()
        super().showEvent(event)

    def _choose_format(self) -> None:
        self._session.wishes.answer_format.emit(self._format.currentData())

    def ask(self) -> bool:
        """Ask the chosen model this question; False where that cannot be, the dock says why."""
        self._question.setChecked(True)
        self._show_scope()
        able = bool(self._start.isEnabled())
        if able:
            self._run()
        return able

    def _run(self) -> None:
        wanted = self._model.wanted
        if wanted is not None:
            self._model.remember()
            if self.scope == THE_FILTER:
                remember_scheduler(self.scheduler)
                self._session.update(scheduler=self.scheduler)
            self._session.wishes.run.emit(wanted, self.scope)

    # ---------------------------------------------------------------- showing

    def _show_format(self) -> None:
        session = self._session
        self._format.setCurrentIndex(self._format.findData(session.answer_format.value))
        unsaid = [one_line(r.model, 60) for r in session.runs.values() if r.answer_format is None]
        named = ", ".join(unsaid[:8])
        self._format_note.show_text(
            f"{named}: the file does not say its format and is scored as this too." if named else ""
        )

    def _show_scope(self) -> None:
        session = self._session
        shown = len(session.rows)
        self._filter.setText(f"All that the filter shows ({shown:,})")
        idle = session.progress.state is RunState.IDLE
        many = self.scope == THE_FILTER
        self._cluster_row.setVisible(many)
        scheduler = self.scheduler if many else ""
        self._host.show_text(_host_text(self._model.host_line(), scheduler))
        blocked = _why_not(session, self.scope) or self._model.problem() or _no_cluster(scheduler)
        before = (blocked or _what_will_happen(session, self.scope)) if idle else ""
        self._scope.show_text(before)
        self._start.setEnabled(idle and not blocked)
        self._show_unfinished()
        wanted = None if self._model.problem() else self._model.wanted
        if wanted != session.wanted:
            session.update(wanted=wanted)

    def _show_unfinished(self) -> None:
        lines = [unfinished_text(one) for one in self._session.unfinished]
        self._unfinished.show_text("\n".join(lines) if self.scope == THE_FILTER else "")

    def _show_progress(self) -> None:
        progress = self._session.progress
        running = progress.state is not RunState.IDLE
        self._bar.setVisible(running or progress.total > 0)
        self._bar.show_value(progress.done, max(progress.total, 1))
        name = one_line(progress.model, 60)
        shown = progress if running else replace(progress, seconds_left=None)
        counts = progress_text(shown, progress.per_second if running else None)
        self._progress.show_text(f"{name}: {counts}" if progress.total else "")
        self._accuracy.show_text(accuracy_text(progress, hidden=self._session.hide_reference))
        self._servers.show_counts(progress.servers)
        self._message.show_text(progress.message)
        kept = f"Answers are kept, as they come, in {progress.path}" if progress.path else ""
        self._file.show_text(kept)
        self._cancel.setEnabled(progress.state is RunState.RUNNING)
        loaded = self._session.loaded
        self._unload.setVisible(bool(loaded) and not running)
        self._unload.setText(f"Unload {one_line(loaded, 40)}")
        cancelling = progress.state is RunState.CANCELLING
        self._cancel.setText("Stopping …" if cancelling else "Stop")
        if not (running and self._was_running):  # nothing of it changes while answers come
            self._show_scope()
        state = (running, len(progress.servers))
        if progress.total > 1 and state != self._shown:
            self._look_down.start()
        self._was_running, self._shown = running, state

    def _show_where_it_is(self) -> None:
        """Scroll to what tells of a long run: with many servers it begins below the panel's end."""
        area = self.findChild(Scrolling)
        for part in (self._file, self._servers, self._message, self._bar, self._start):
            if area is not None and part.isVisible():
                area.ensureWidgetVisible(part, 0, GAP_PX)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _no_cluster(scheduler: str) -> str:
    """Return why a cluster cannot be asked for; empty where it can be tried, or none is."""
    try:
        if scheduler:
            Cluster(scheduler)
    except CtvqaError as error:
        return str(error)
    return ""


def _host_text(line: str, scheduler: str) -> str:
    """Return where pictures go; on a cluster it is the workers that send them."""
    if not scheduler or not line.startswith("Pictures") or scheduler.startswith("local"):
        return line
    return f"{line}\nThe cluster's workers send them: confirm each host on their machines, too."


def _why_not(session: Session, scope: str) -> str:
    """Return why nothing can be run now; empty where it can."""
    if session.questions is None or not len(session.questions):
        return "Open a benchmark or a question file first."
    if scope == THE_FILTER:
        return "" if len(session.rows) else "The filter shows no question."
    if session.question is None:
        return "Choose a question first."
    if session.case_state is CaseState.FAILED:
        return f"This question's case cannot be shown. {one_line(session.case_message, 300)}"
    if session.case is None:
        return "Wait until the case is read."
    return ""


def _what_will_happen(session: Session, scope: str) -> str:
    """Return what pressing Run does, before it is pressed."""
    if scope == THIS_QUESTION:
        assert session.question is not None
        question = one_line(session.question.id, 80)
        return (
            f"Asks {question}. The answer appears in Question and Evidence and is kept "
            f"{_in_a_file(session)}."
        )
    count = f"{len(session.rows):,} questions" if len(session.rows) != 1 else "1 question"
    return (
        f"Asks {count}. Each answer is kept as it comes {_in_a_file(session)}. A run of the same "
        "kind that was not finished goes on in its own file."
    )


def _in_a_file(session: Session) -> str:
    folder = session.results_folder
    return f"in a file in {folder}" if folder is not None else "in a file that is named here"


PANEL = RunPanel
