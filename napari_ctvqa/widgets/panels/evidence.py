"""Evidence panel: the reference's steps beside a model's, and the way into the voxels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtWidgets import (
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.chains import AlignedStep, StepKind, StepMatch
from napari_ctvqa.core.names import canonical, label
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.widgets.banner import Banner
from napari_ctvqa.widgets.evidence_table import (
    MAX_ROWS,
    MODEL,
    REFERENCE,
    EvidenceTable,
    ShownRow,
    step_details,
)
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label, TextBox, one_line
from napari_ctvqa.widgets.theme import GAP_PX, Styling
from napari_ctvqa.widgets.words import case_message, status_role, status_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep
    from napari_ctvqa.core.session import Session

HIDDEN_COLUMN = "Reference (hidden)"
CASE_FAILED = "⚠ The case cannot be shown, so nothing is checked; why stands under Question."


class EvidencePanel(QWidget):
    """Shows two chains side by side; a click goes to the slice where a step's mask is largest."""

    title = "Evidence"
    order = 3

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._told = ("", "")
        self._rows_left_out = 0
        self._wanted_model = ""
        self._shown: tuple[object, ...] = ()
        Styling(self)
        self._heading = Label(role="heading", selectable=False)
        self._models = QComboBox()
        self._model = Label(role="heading", selectable=False)
        self._state = Banner()
        self._table = EvidenceTable()
        self._pages = QStackedWidget()
        self._conclusion = Conclusion()
        self._details = TextBox("Details of the step", max_lines=8, code=True)
        self._focus = Label(role="heading")
        self._previous = QPushButton("◀ Slice [")
        self._next = QPushButton("Slice ] ▶")
        self._back = QPushButton("Back ⌫")
        self._more = QPushButton("Details")
        self._build()
        self._connect()
        self._listening = Listening(
            (session.question_changed, self._show_chains),
            (session.chains_changed, self._show_chains),
            (session.runs_changed, self._show_chains),
            (session.case_changed, self._show_state),
            (session.reveal_changed, self._show_chains),
            (session.focus_changed, self._show_focus),
            panel=self,
            session=session,
        )
        self._show_details(None)
        self._show_chains()

    def _build(self) -> None:
        self._models.setAccessibleName("Model whose evidence is shown")
        self._models.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self._previous.setToolTip("Previous slice that holds this mask")
        self._next.setToolTip("Next slice that holds this mask")
        self._back.setToolTip("Back to where you were before the first step was shown")
        self._more.setToolTip("All that is known of the chosen step, the raw tool result too")
        self._more.setCheckable(True)
        self._details.hide()
        headings = QHBoxLayout()
        headings.addWidget(self._heading, 1)
        headings.addWidget(self._models, 1)
        headings.addWidget(self._model, 1)
        buttons = QHBoxLayout()
        for button in (self._previous, self._next, self._back, self._more):
            buttons.addWidget(button, 1)
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(4)
        layout.addLayout(headings)
        layout.addWidget(self._state)
        self._pages.addWidget(QWidget())
        self._pages.addWidget(self._table)
        layout.addWidget(self._pages, 1)
        for part in (self._conclusion, self._details, self._focus):
            layout.addWidget(part)
        layout.addLayout(buttons)
        fill(self, body, "Evidence")

    def _connect(self) -> None:
        wishes = self._session.wishes
        self._models.activated.connect(self._model_chosen)
        self._table.wanted.connect(self._want)
        self._table.pointed.connect(self._show_details)
        self._more.toggled.connect(self._details.setVisible)
        self._previous.clicked.connect(partial(wishes.mask_slice.emit, -1))
        self._next.clicked.connect(partial(wishes.mask_slice.emit, 1))
        self._back.clicked.connect(wishes.back.emit)

    # --------------------------------------------------------------- choosing

    def step(self, by: int) -> None:
        """Go to the next (+1) or previous (-1) step and show it in the voxels."""
        self._listening.catch_up()
        self._table.step(by)

    @property
    def model(self) -> str:
        """Return the model whose chain is shown, empty for none."""
        return self._models.currentData() or ""

    def choose_model(self, model: str) -> None:
        """Show another model's chain, on this question and on those that follow."""
        self._listening.catch_up()
        self._wanted_model = model
        self._show_chains()

    def _model_chosen(self) -> None:
        self.choose_model(self._models.currentData() or "")

    def _want(self, step: EvidenceStep) -> None:
        self._session.wishes.focus_step.emit(step)

    # ---------------------------------------------------------------- showing

    def _show_chains(self) -> None:
        self._list_models()
        session = self._session
        model = self._models.currentData() or ""
        chain, comparison = session.model_chains.get(model), session.comparisons.get(model)
        shown = (session.question, session.reference_chain, chain, comparison, session.revealed)
        if all(a is b for a, b in zip(shown, self._shown, strict=False)) and self._shown:
            self._show_state()
            return
        self._shown = shown
        rows = self._rows(model)
        heading = "Reference" if session.revealed else HIDDEN_COLUMN
        self._heading.show_text(heading if rows else "")
        self._model.show_text(one_line(model, 60) if self._models.count() == 1 else "")
        self._table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        reference = session.reference_chain if session.revealed else None
        self._conclusion.show_chains(reference, chain, hidden=not session.revealed)
        self._rows_left_out = len(rows) - MAX_ROWS
        self._show_state()
        self._show_focus()
        self._scroll_once(model, rows)

    def _list_models(self) -> None:
        progress = self._session.progress
        models = list(self._session.model_chains)
        known = [self._models.itemData(i) for i in range(self._models.count())]
        answered_now = progress.model if progress.total == 1 else ""
        if answered_now in models and answered_now not in known:
            self._wanted_model = answered_now
        if known != models:
            self._models.clear()
            for model in models:
                self._models.addItem(one_line(model, 60), model)
        self._models.setCurrentIndex(max(0, self._models.findData(self._wanted_model)))
        self._models.setVisible(len(models) > 1)

    def _rows(self, model: str) -> list[ShownRow]:
        session = self._session
        chain = session.model_chains.get(model)
        steps = chain.steps if chain is not None else ()
        if not session.revealed:
            return [_alone(None, step) for step in steps]
        comparison = session.comparisons.get(model)
        if comparison is not None:
            first, same = comparison.first_difference, comparison.same_answer
            return [
                ShownRow(row, first=i == first, same_answer=same)
                for i, row in enumerate(comparison.rows)
            ]
        if session.reference_chain is None:
            return [_alone(None, step) for step in steps]
        return [_alone(step, None) for step in session.reference_chain.steps]

    def _scroll_once(self, model: str, rows: Sequence[ShownRow]) -> None:
        question = self._session.question
        told = (question.id if question is not None else "", model)
        first = next((i for i, row in enumerate(rows) if row.first), None)
        if first is not None and told != self._told:
            self._told = told
            self._table.scroll_to(first)

    def _show_state(self) -> None:
        look, text = _state(self._session)
        if self._rows_left_out > 0:
            total = MAX_ROWS + self._rows_left_out
            left_out = f"Only the first {MAX_ROWS} of {total} steps are shown."
            look, text = look or "info", f"{text} {left_out}".strip()
        self._state.show_message(look, text)

    def _show_details(self, step: EvidenceStep | None) -> None:
        self._details.show_text(step_details(step) if step is not None else "")
        self._more.setEnabled(step is not None)

    def _show_focus(self) -> None:
        session = self._session
        self._table.show_step(session.focused_step)
        for button in (self._previous, self._next, self._back):
            button.setEnabled(session.focus is not None)
        self._focus.show_text(_focus_line(session))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


class Conclusion(QFrame):
    """What each chain concludes, and whether that can be checked."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("ctvqa", "card")
        self._texts = (Label(role="heading"), Label(role="heading"))
        self._states = (Label(), Label())
        layout = QGridLayout(self)
        layout.setContentsMargins(GAP_PX, 2, GAP_PX, 2)
        layout.setVerticalSpacing(0)
        for column in (REFERENCE, MODEL):
            layout.addWidget(self._texts[column], 0, column)
            layout.addWidget(self._states[column], 1, column)
            layout.setColumnStretch(column, 1)

    def show_chains(
        self, reference: EvidenceChain | None, model: EvidenceChain | None, *, hidden: bool
    ) -> None:
        """Show both conclusions; while the reference is hidden, none that tells it."""
        self._show_one(REFERENCE, reference, judged=True)
        if hidden:
            self._texts[REFERENCE].show_text("hidden")
        self._show_one(MODEL, model, judged=not hidden)
        self.setVisible(reference is not None or model is not None)

    def _show_one(self, column: int, chain: EvidenceChain | None, *, judged: bool) -> None:
        text, state = self._texts[column], self._states[column]
        if chain is None:
            text.show_text("")
            state.show_text("")
            return
        text.show_text(f"⇒ {one_line(chain.conclusion, 200) or 'no conclusion'}")
        state.show_role(status_role(chain))
        state.show_text(status_text(chain) if judged else "")


def _alone(reference: EvidenceStep | None, model: EvidenceStep | None) -> ShownRow:
    return ShownRow(AlignedStep(reference, model, StepMatch.UNKNOWN), compared=False)


def _state(session: Session) -> tuple[str, str]:
    """Return look and text of the line that says why evidence is not there, or not yet."""
    if session.question is None:
        return "info", "Choose a question to see its evidence."
    if session.case_state is CaseState.FAILED:
        return "red", CASE_FAILED
    if session.case_state in (CaseState.LOADING, CaseState.CT_SHOWN):
        return case_message(session)
    chain = session.reference_chain
    if not session.revealed:
        return "info", "The reference's steps are hidden until you reveal the reference (T)."
    if chain is None:
        return "info", "The evidence is being worked out …"
    if not chain.steps:
        return "info", f"There is no reference chain. {one_line(chain.reason, 300)}".strip()
    if not session.model_chains:
        return "info", "No model's answer is open, so only the reference's steps are shown."
    return "", ""


def _focus_line(session: Session) -> str:
    """Return which structure stands out on which slice, as shown and in the file."""
    focus, step = session.focus, session.focused_step
    if focus is None:
        return _why_nothing_to_see(session, step) if step is not None else ""
    count = f" of {session.case.volume.display_grid.shape_zyx[0]}" if session.case else ""
    origin = f" · {one_line(focus.origin, 60)} mask" if focus.origin else ""
    in_file = f"{focus.file_slice} in the file (from 0)"
    if focus.file_slice is None:
        in_file = "resampled for display: none of the file's"
    return (
        f"{label(focus.structure)}{origin} · slice {focus.display_slice + 1}{count} as shown, "
        f"{in_file}"
    )


def _why_nothing_to_see(session: Session, step: EvidenceStep) -> str:
    name, case = one_line(label(step.target), 80), session.case
    if case is None:
        return f"{name}: no case is shown."
    mask = case.masks.get(step.mask) or case.masks.get(canonical(step.target))
    if mask is not None:
        return f"{name}: its mask is empty, so there is nothing to show."
    if not case.complete:
        return f"{name}: its mask is not read yet."
    if step.kind in (StepKind.LOOKUP, StepKind.CONCLUDE):
        return f"{name}: this step has no mask."
    return f"{name}: this case has no mask for it."


PANEL = EvidencePanel
