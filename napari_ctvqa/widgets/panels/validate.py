"""Validate panel: recompute the references of what the filter shows, and list what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.chains import ChainStatus
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.check_model import KINDS, CheckTableModel
from napari_ctvqa.widgets.check_table import CheckTable
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.question_table import EmptyPage
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import GAP_PX, Styling
from napari_ctvqa.widgets.words import time_left

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.checks import Validation
    from napari_ctvqa.core.session import Session


class ValidatePanel(QWidget):
    """Starts and stops a validation, and lists what it found, worst first."""

    title = "Validate"
    order = 5

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self._scope = Label(role="muted")
        self._assume = QCheckBox("Absent lesion masks mean none (assumed)")
        self._start = QPushButton("Validate")
        self._cancel = QPushButton("Stop")
        self._bar = ProgressBar()
        self._progress = Label(role="heading")
        self._counts = Label()
        self._message = Label(role="muted")
        self._kind = QComboBox()
        self._copy = QPushButton("Copy")
        self._model = CheckTableModel(session, self._styling.theme)
        self._table = CheckTable(self._model)
        self._pages = QStackedWidget()
        self._empty = EmptyPage()
        self._file = Label(role="small")
        self._build()
        self._connect()
        self._listening = Listening(
            (session.validation_changed, self._show),
            (session.rows_changed, self._show_scope),
            (session.questions_changed, self._show),
            (session.reveal_changed, self._show),
            panel=self,
        )
        self._show()

    # ------------------------------------------------------------------ build

    def _build(self) -> None:
        self._bar.setAccessibleName("Progress of the validation")
        self._kind.setAccessibleName("Which checks are listed")
        self._assume.setToolTip(
            "Off: a lesion without a mask file is unknown. On: it counts as not there, and what "
            "follows from it says assumed. Organs are never taken as absent."
        )
        self._copy.setToolTip("Copy the chosen rows, or all, as a table (Ctrl+C)")
        for kind, (word, _) in KINDS.items():
            self._kind.addItem(word, kind)
        buttons = QHBoxLayout()
        buttons.addWidget(self._start, 1)
        buttons.addWidget(self._cancel, 1)
        listed = QHBoxLayout()
        listed.addWidget(self._kind, 1)
        listed.addWidget(self._copy)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(self._table)
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(GAP_PX)
        layout.addWidget(self._scope)
        layout.addWidget(self._assume)
        layout.addLayout(buttons)
        for part in (self._bar, self._progress, self._counts, self._message):
            layout.addWidget(part)
        layout.addLayout(listed)
        layout.addWidget(self._pages, 1)
        layout.addWidget(self._file)
        fill(self, body, "Validate")

    def _connect(self) -> None:
        wishes = self._session.wishes
        self._start.clicked.connect(lambda: wishes.validate.emit())
        self._cancel.clicked.connect(lambda: wishes.cancel_validate.emit())
        self._assume.toggled.connect(self._ask_to_assume)
        self._kind.activated.connect(self._choose_kind)
        self._copy.clicked.connect(self._table.copy)
        self._table.row_chosen.connect(wishes.select_row.emit)
        self._styling.changed.connect(self._repaint)

    def _ask_to_assume(self, assume: bool) -> None:
        if assume != self._session.absent_means_none:
            self._session.wishes.absent_means_none.emit(assume)

    def _choose_kind(self) -> None:
        self._model.show_kind(self._kind.currentData())
        self._table.fit_columns()
        self._show_page()

    def _repaint(self) -> None:
        self._model.set_theme(self._styling.theme)

    # ---------------------------------------------------------------- showing

    def _show(self) -> None:
        validation = self._session.validation
        running = validation.running
        self._bar.setVisible(running or validation.total > 0)
        self._bar.show_value(validation.done, max(validation.total, 1))
        self._progress.show_text(progress_words(validation))
        self._counts.show_text("" if self._hidden else counts_words(validation))
        self._message.show_text(validation.message)
        self._file.show_text(f"Kept in {validation.path}" if validation.done else "")
        self._cancel.setEnabled(running)
        self._assume.setChecked(self._session.absent_means_none)
        self._assume.setEnabled(not running)
        self._table.reload()
        self._show_scope()
        self._show_page()

    @property
    def _hidden(self) -> bool:
        """Return whether the list would tell references that are hidden."""
        return self._session.hide_reference

    def _show_scope(self) -> None:
        session = self._session
        shown = len(session.rows)
        blocked = ""
        if session.questions is None or not len(session.questions):
            blocked = "Open a benchmark or a question file first."
        elif not shown:
            blocked = "The filter shows no question."
        count = "the reference of 1 question" if shown == 1 else f"{shown:,} references"
        what = f"Recomputes {count}, all that the filter shows, from the masks."
        self._scope.show_text(blocked or what)
        self._start.setEnabled(not blocked and not session.validation.running)

    def _show_page(self) -> None:
        shown = self._model.rowCount() > 0 and not self._hidden
        self._copy.setEnabled(shown)
        self._kind.setEnabled(not self._hidden)
        if shown:
            self._pages.setCurrentWidget(self._table)
            return
        self._empty.show_text(*self._why_empty())
        self._pages.setCurrentWidget(self._empty)

    def _why_empty(self) -> tuple[str, str]:
        validation, word = self._session.validation, KINDS[self._model.kind][0].lower()
        if self._hidden:
            return "References are hidden.", "What was found would tell them. Show them first."
        if not validation.total:
            return (
                "Nothing has been validated yet.",
                "Each reference is recomputed from the masks of its case; what differs is listed "
                "here, worst first.",
            )
        if validation.running:
            return f"Nothing so far: {word}.", "The list grows as cases are checked."
        return f"Nothing found: {word}.", f"{validation.done:,} references were checked."

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def progress_words(validation: Validation) -> str:
    """Return count, failures and time left."""
    if not validation.total:
        return ""
    parts = [f"{validation.done:,} of {validation.total:,}"]
    if validation.failed:
        parts.append(f"{validation.failed:,} could not be read")
    left = time_left(validation.seconds_left) if validation.running else ""
    return " · ".join([*parts, left] if left else parts)


def counts_words(validation: Validation) -> str:
    """Return how many agree, differ and cannot be checked."""
    if not validation.done:
        return ""
    checks = [check for _, check in validation.checks]
    by_status = {s: sum(c.status == s.value for c in checks) for s in ChainStatus}
    another = sum(check.agrees_by_another for check in checks)
    flawed = sum(bool(check.flags) for check in checks)
    parts = [
        f"✓ {by_status[ChainStatus.AGREES]:,} agree",
        f"✗ {by_status[ChainStatus.DIFFERS]:,} differ",
        *([f"{another:,} of them right by another rule"] if another else []),
        f"? {by_status[ChainStatus.CANNOT_CHECK]:,} cannot be checked",
        *([f"{flawed:,} questions with a flaw"] if flawed else []),
    ]
    return " · ".join(parts)


PANEL = ValidatePanel
