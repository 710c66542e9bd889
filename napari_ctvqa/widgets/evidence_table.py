"""The two columns of evidence steps: cards in a table, aligned row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QSize, Qt, QTimer, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
)

from napari_ctvqa.core.chains import StepMatch
from napari_ctvqa.core.names import is_known, label
from napari_ctvqa.core.selections import selection
from napari_ctvqa.widgets.text import Label, number, one_line, pretty_json
from napari_ctvqa.widgets.theme import set_look
from napari_ctvqa.widgets.words import (
    match_role,
    match_text,
    measure_words,
    plain_names,
    source_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qtpy.QtGui import QKeyEvent, QResizeEvent, QShowEvent, QWheelEvent

    from napari_ctvqa.core.chains import AlignedStep, EvidenceStep

REFERENCE, MODEL = 0, 1
MAX_ROWS = 60
SHOWN_CAVEATS = 3
FIRST = "▶ First difference"
SAME_ANSWER = "▶ Same answer"
SAME_ANSWER_HOW = {
    StepMatch.MISSING: "without this step",
    StepMatch.WRONG_TARGET: "from another target",
    StepMatch.WRONG_VALUE: "from another value",
}
"""What is said of the first difference on the way to the same answer: what is so, and no more."""
KIND_WORDS = {
    "segment": "segment",
    "measure": "measure",
    "lookup": "look up",
    "conclude": "conclude",
}


@dataclass(frozen=True)
class ShownRow:
    """One aligned row and what may be told about it."""

    row: AlignedStep
    first: bool = False
    compared: bool = True
    """False while the reference is hidden: then nothing of the comparison is shown."""
    same_answer: bool = False
    """The model came to the reference's answer all the same."""


class StepCard(QFrame):
    """One step: what was looked at, what came out, by which rule, from where."""

    def __init__(self) -> None:
        super().__init__()
        self._first = Label(role="wrong", selectable=False)
        self._match = Label(selectable=False)
        self._kind = Label(role="small", selectable=False)
        self._target = Label(role="heading", selectable=False)
        self._value = Label(role="value", selectable=False)
        self._assumed = Label(role="caveat", selectable=False)
        self._error = Label(role="wrong", selectable=False)
        self._caveats = Label(role="caveat", selectable=False)
        self._origin = Label(role="small", selectable=False)
        self._look = "card"
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 4, 6, 4)
        layout.setSpacing(0)
        for part in self._labels():
            layout.addWidget(part)
        layout.addStretch(1)

    def _labels(self) -> tuple[Label, ...]:
        what = (self._first, self._match, self._kind, self._target, self._value)
        return (*what, self._assumed, self._error, self._caveats, self._origin)

    def show_step(self, step: EvidenceStep | None, shown: ShownRow, column: int) -> str:
        """Show a step, or that there is none; return the same in words, for screen readers."""
        judged = column == MODEL and shown.compared
        self._look = "card-missing"
        if step is not None:
            self._look = "card-first" if shown.first and shown.compared else "card"
        if judged:
            self._match.show_role(match_role(shown.row))
            self._first.show_role("unread" if shown.same_answer else "wrong")
        match = (_first_line(shown), _match_line(shown.row)) if judged else ("", "")
        texts = (*match, *(_step_lines(step) if step is not None else ("",) * 7))
        for part, text in zip(self._labels(), texts, strict=True):
            part.show_text(text)
        self.show_chosen(False)
        return ", ".join(text for text in texts if text)

    def forget(self) -> None:
        """Hold no text; for a card that is not shown."""
        for part in self._labels():
            part.clear()

    def polish_all(self) -> None:
        """Give the labels their fonts now: their heights are asked for before they are shown."""
        for part in self._labels():
            part.ensurePolished()

    def show_chosen(self, chosen: bool) -> None:
        """Make the card stand out."""
        set_look(self, "card-chosen" if chosen else self._look)


def _first_line(shown: ShownRow) -> str:
    if not shown.first:
        return ""
    if not shown.same_answer:
        return FIRST
    model = shown.row.model
    failed = model is not None and model.error
    how = "though this step failed" if failed else SAME_ANSWER_HOW.get(shown.row.match, "")
    return f"{SAME_ANSWER} {how}".strip()


def _match_line(row: AlignedStep) -> str:
    return f"{match_text(row)}: {one_line(row.note, 160)}" if row.note else match_text(row)


def _step_lines(step: EvidenceStep) -> tuple[str, ...]:
    """Return kind, target, value, assumed, error, caveats, origin: the lines of a card."""
    kind, measure = KIND_WORDS[step.kind], measure_words(step.measure)
    value = _value(step)
    caveats = [f"⚠ {plain_names(one_line(t, 120))}" for t in step.caveats[:SHOWN_CAVEATS]]
    more = len(step.caveats) - SHOWN_CAVEATS
    origin = [f"rule: {one_line(step.rule, 90)}"] if step.rule else []
    origin += [f"source: {one_line(source_words(step.source), 90)}"] if step.source else []
    return (
        f"{kind} · {measure}" if measure and step.measure != "voxels" else kind,
        one_line(selection(step.target).label, 100),
        value or ("" if step.error else "no value"),
        "≈ assumed" if step.assumed else "",
        f"✗ {plain_names(one_line(step.error, 200))}" if step.error else "",
        "\n".join([*caveats, *([f"⚠ {more} more"] if more > 0 else [])]),
        "\n".join(origin),
    )


def _value(step: EvidenceStep) -> str:
    """Return a step's value for people: ``"1 lesion"``, ``"liver segment 7"``, ``"47"``."""
    if isinstance(step.value, str):
        parts = step.value.split("+")
        known = bool(step.value) and all(is_known(part) for part in parts)
        return one_line(", ".join(label(part) for part in parts)) if known else number(step.value)
    unit = one_line(step.unit, 20)
    return number(step.value, unit.removesuffix("s") if step.value == 1 else unit)


def step_details(step: EvidenceStep) -> str:
    """Return all that is known of a step, a model's raw tool result too, as plain text."""
    value = number(step.value, "" if isinstance(step.value, str) else step.unit)
    what = f"{KIND_WORDS[step.kind]} {measure_words(step.measure)} {label(step.target)}"
    lines = [
        f"{what}: {value or 'no value'}",
        f"rule: {step.rule or 'not stated'}{' (assumed)' if step.assumed else ''}",
        f"source: {step.source or 'not stated'}",
        f"mask: {step.mask or 'none'}",
        *(f"⚠ {text}" for text in step.caveats),
    ]
    lines += [f"✗ {step.error}"] if step.error else []
    lines += ["raw result:", pretty_json(step.raw)] if step.raw is not None else []
    return "\n".join(lines)


class EvidenceTable(QTableWidget):
    """Two columns of cards. A click, Enter or ``step`` asks for the step under the cursor."""

    wanted = Signal(object)
    """EvidenceStep that the reader wants to see."""
    pointed = Signal(object)
    """EvidenceStep under the cursor, or None."""

    def __init__(self) -> None:
        self._fit_later = QTimer()
        self._shown: tuple[ShownRow, ...] = ()
        self._cards: list[tuple[StepCard, StepCard]] = []
        self._in_view: int | None = None
        super().__init__(0, 2)
        self.setAccessibleName("Evidence steps")
        self.setHorizontalHeaderLabels(["Reference", "Model"])
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.horizontalHeader().hide()
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setShowGrid(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabKeyNavigation(False)
        self._fit_later.setSingleShot(True)
        self._fit_later.timeout.connect(self.fit_rows)
        self.cellClicked.connect(self._want)
        self.currentCellChanged.connect(self._show_chosen)

    def sizeHint(self) -> QSize:
        """Return a low one: the panel gives what is left, so that its buttons stay in view."""
        return QSize(300, 120)

    # --------------------------------------------------------------- content

    def show_rows(self, rows: Sequence[ShownRow]) -> None:
        """Show aligned rows; cards are reused, and one that shows the same already stays."""
        before, self._shown = self._shown, tuple(rows[:MAX_ROWS])
        count = len(self._shown)
        new = [n for n, row in enumerate(self._shown) if n >= len(before) or row != before[n]]
        if not new and count == len(before):
            return
        self._in_view = None
        self.setUpdatesEnabled(False)
        self.setCurrentCell(-1, -1)
        while len(self._cards) < count:
            self._add_row()
        for place in new:
            shown = self._shown[place]
            for column, step in enumerate((shown.row.reference, shown.row.model)):
                words = self._cards[place][column].show_step(step, shown, column)
                self.item(place, column).setData(Qt.ItemDataRole.AccessibleTextRole, words)
            self.setRowHidden(place, False)
        for place in range(count, len(before)):
            self._forget(place)
        self._fit(new)
        self.setUpdatesEnabled(True)

    def _add_row(self) -> None:
        place = self.rowCount()
        self.insertRow(place)
        cards = (StepCard(), StepCard())
        for column, card in enumerate(cards):
            self.setItem(place, column, QTableWidgetItem())
            self.setCellWidget(place, column, card)
        self._cards.append(cards)

    def _forget(self, place: int) -> None:
        self.setRowHidden(place, True)
        for column in (REFERENCE, MODEL):
            self._cards[place][column].forget()
            self.item(place, column).setData(Qt.ItemDataRole.AccessibleTextRole, "")

    def fit_rows(self) -> None:
        """Make each row as high as the higher of its cards at this width."""
        self._fit(range(len(self._shown)))
        if self._in_view is not None:
            self._scroll(self._in_view)

    def _fit(self, places: Iterable[int]) -> None:
        for place in places:
            for card in self._cards[place]:
                card.polish_all()
            heights = [
                card.heightForWidth(self.columnWidth(column))
                for column, card in enumerate(self._cards[place])
            ]
            self.setRowHeight(place, max(heights) + 4)

    def changeEvent(self, event: QEvent) -> None:
        """Another theme or font changes the heights."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._fit_later.start(0)

    def showEvent(self, event: QShowEvent) -> None:
        """Fit what was shown while this was hidden."""
        super().showEvent(event)
        self._fit_later.start(0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrapped text changes its height with the width."""
        super().resizeEvent(event)
        self._fit_later.start(0)

    # --------------------------------------------------------------- choosing

    def step_at(self, place: int, column: int) -> EvidenceStep | None:
        """Return the step of a card, or of its neighbour where it has none."""
        if not 0 <= place < len(self._shown):
            return None
        row = self._shown[place].row
        first, second = (row.reference, row.model)[:: 1 if column == REFERENCE else -1]
        return first or second

    def show_step(self, step: EvidenceStep | None) -> None:
        """Make a step's card current without asking for it; None lets go."""
        places = [
            (place, column, candidate)
            for place, shown in enumerate(self._shown)
            for column, candidate in enumerate((shown.row.reference, shown.row.model))
            if step is not None and candidate is not None
        ]
        found = next((p for p in places if p[2] is step), None)
        found = found or next((p for p in places if p[2] == step), None)
        if found is None:
            self.setCurrentCell(-1, -1)
            return
        self.setCurrentCell(found[0], found[1])
        self.scroll_to(found[0])

    def step(self, by: int) -> None:
        """Go some rows down or up and ask for the step there."""
        if not self._shown:
            return
        column = self.currentColumn() if self.currentColumn() >= 0 else MODEL
        place = self.currentRow() + by if self.currentRow() >= 0 else (0 if by > 0 else -1)
        place = min(max(place, 0), len(self._shown) - 1)
        self.setCurrentCell(place, column)
        self.scroll_to(place)
        self._want(place, column)

    def scroll_to(self, place: int) -> None:
        """Scroll a row into view and keep it there until the reader scrolls."""
        self._in_view = place
        self._scroll(place)

    def _scroll(self, place: int) -> None:
        self.scrollTo(self.model().index(max(0, place - 1), 0))
        self.scrollTo(self.model().index(place, 0))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The reader scrolls: let go of the row kept in view."""
        self._in_view = None
        super().wheelEvent(event)

    def _want(self, place: int, column: int) -> None:
        step = self.step_at(place, column)
        if step is not None:
            self.wanted.emit(step)

    def _show_chosen(self, place: int, column: int, before: int, before_column: int) -> None:
        if 0 <= before < len(self._cards) and before_column >= 0:
            self._cards[before][before_column].show_chosen(False)
        if 0 <= place < len(self._shown) and column >= 0:
            self._cards[place][column].show_chosen(True)
        self.pointed.emit(self.step_at(place, column))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter asks for the step; all else is the table's own."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._want(self.currentRow(), self.currentColumn())
            return
        super().keyPressEvent(event)
