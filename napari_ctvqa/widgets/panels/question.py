"""Question panel: one question, what the models answered, and whether the side can be trusted."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.scoring import score_note, score_titles
from napari_ctvqa.core.session import RunState
from napari_ctvqa.widgets.answers import Answer, AnswerList, OptionList, RawRecord
from napari_ctvqa.widgets.banner import Banner
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.scrolling import Scrolling
from napari_ctvqa.widgets.text import Label, one_line
from napari_ctvqa.widgets.theme import GAP_PX, MARGIN_PX, Styling
from napari_ctvqa.widgets.words import (
    HIDDEN_REFERENCE,
    asked_twice_text,
    case_message,
    contradiction,
    geometry_message,
    patient_line,
    question_flaws,
    record_flags,
    reference_line,
    run_line,
)

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.records import Question
    from napari_ctvqa.core.session import Session


class QuestionPanel(QWidget):
    """Shows the current question; the reference stays hidden until it may be seen."""

    title = "Question"
    order = 2

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        Styling(self)
        self._pages = QStackedWidget()
        self._nothing = Label(role="muted", selectable=False)
        self._id = Label(role="small")
        self._flags = Label(role="amber")
        self._text = Label(role="title")
        self._patient = Label(role="small")
        self._options = OptionList()
        self._reference = Label(role="heading")
        self._hide = QCheckBox("Hide references until revealed")
        self._contradicted = Banner()
        self._flaws = Label(role="caveat")
        self._reveal = QPushButton("Reveal (T)")
        self._geometry = Banner()
        self._case = Banner()
        self._answers = AnswerList()
        self._raw = RawRecord()
        self._tab_stops = -1
        self._looked_up: tuple[Question | None, str] | None = None
        self._build()
        self._hide.toggled.connect(self._ask_to_hide)
        self._reveal.clicked.connect(session.wishes.reveal.emit)
        self._listening = Listening(
            (session.question_changed, self._show_question),
            (session.questions_changed, self._show_question),
            (session.case_changed, self._show_case),
            (session.runs_changed, self._show_answers),
            (session.reveal_changed, self._show_reveal),
            (session.progress_changed, self._show_note),
            (session.chains_changed, self._show_chains),
            panel=self,
            session=session,
        )
        self._show_question()

    def _build(self) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN_PX, MARGIN_PX, MARGIN_PX, MARGIN_PX)
        column.setSpacing(GAP_PX)
        reveal = QHBoxLayout()
        reveal.addWidget(self._reference, 1)
        reveal.addWidget(self._reveal)
        self._reveal.setToolTip("Show the reference of this question, its scores and its record")
        for part in (self._id, self._text, self._patient, self._case, self._flags, self._options):
            column.addWidget(part)
        column.addLayout(reveal)
        column.addWidget(self._contradicted)
        for part in (self._flaws, self._geometry, self._answers, self._raw, self._hide):
            column.addWidget(part)
        column.addStretch(1)
        area = Scrolling(body, "Question")
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pages.addWidget(self._nothing)
        self._pages.addWidget(area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._pages)

    def _ask_to_hide(self, hide: bool) -> None:
        if hide != self._session.hide_reference:
            self._session.wishes.hide_reference.emit(hide)

    # ---------------------------------------------------------------- showing

    def _show_question(self) -> None:
        question = self._session.question
        if question is None:
            self._nothing.show_text("Choose a question in the list to see it here.")
            self._pages.setCurrentIndex(0)
            return
        self._pages.setCurrentIndex(1)
        where = (question.id, question.case_id, question.stage, question.subtype)
        self._id.show_text(" · ".join(one_line(part) for part in where if part))
        self._text.show_text(question.text)
        self._patient.show_text(patient_line(question.patient))
        self._flags.show_text(record_flags(question))
        self._show_case()
        self._show_reveal()

    def _show_reveal(self) -> None:
        session = self._session
        self._hide.setChecked(session.hide_reference)
        if session.question is None:
            return
        revealed = session.revealed
        self._reveal.setVisible(not revealed)
        line = reference_line(session.question) if revealed else HIDDEN_REFERENCE
        self._reference.show_text(line)
        self._raw.show_record(session.question, revealed=revealed)
        self._show_flaws()
        self._show_answers()

    def _show_flaws(self) -> None:
        session = self._session
        self._flaws.show_text(question_flaws(session, self._twice()) if session.revealed else "")
        said = contradiction(session.reference_chain) if session.revealed else ""
        self._contradicted.show_message("amber" if said else "", said)

    def _twice(self) -> str:
        """Return who else asks the same: looked up once, in all questions there are."""
        session = self._session
        if self._looked_up is None or self._looked_up[0] is not session.question:
            self._looked_up = (session.question, asked_twice_text(session))
        return self._looked_up[1]

    def _show_chains(self) -> None:
        self._show_flaws()
        self._show_answers()

    def _show_case(self) -> None:
        session = self._session
        self._case.show_message(*case_message(session))
        self._geometry.show_message(*geometry_message(session))

    def _show_answers(self) -> None:
        session = self._session
        question = session.question
        if question is None:
            return
        predictions = session.predictions
        scores = {m: session.scores.get(m, {}).get(question.id) for m in predictions}
        contradicted = bool(contradiction(session.reference_chain))
        self._options.show_options(
            question, scores, revealed=session.revealed, contradicted=contradicted
        )
        titles = score_titles(session.benchmark)
        answers = [
            Answer(
                run_line(session.runs[m], session.answer_format),
                p,
                scores[m],
                session.revealed,
                titles,
                session.reference_chain,
                session.model_chains.get(m),
                score_note(session.benchmark),
            )
            for m, p in predictions.items()
        ]
        self._answers.show_answers(answers, _answers_note(session))
        self._order_tabs()

    def _show_note(self) -> None:
        if self._session.question is not None:
            self._answers.show_note(_answers_note(self._session))

    def _order_tabs(self) -> None:
        answers = self._answers.tab_stops()
        if len(answers) == self._tab_stops:
            return
        self._tab_stops = len(answers)
        stops = [self._reveal, *answers, *self._raw.tab_stops(), self._hide]
        for before, after in pairwise(stops):
            QWidget.setTabOrder(before, after)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _answers_note(session: Session) -> str:
    """Return who has not answered this question, and who is at it."""
    shown = session.predictions
    absent = [one_line(model, 60) for model in session.runs if model not in shown]
    notes = [f"No answer to this question from: {', '.join(absent)}."] if absent else []
    if not session.runs:
        notes.append("No model's answers are open. Open a result file, or let one answer in Run.")
    if session.progress.state is RunState.RUNNING:
        notes.append(f"{one_line(session.progress.model, 60)} is answering …")
    return "\n".join(notes)


PANEL = QuestionPanel
