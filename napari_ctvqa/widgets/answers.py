"""The parts of the question panel that change with every answer: options, answers, raw record."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from qtpy.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from napari_ctvqa.widgets.banner import Folding
from napari_ctvqa.widgets.text import Label, TextBox, laid_out_once, one_line, pretty_json
from napari_ctvqa.widgets.theme import GAP_PX, set_look
from napari_ctvqa.widgets.words import (
    against_contradicted,
    disagreement,
    official_text,
    outcome_text,
    reading_text,
    sure_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.core.chains import EvidenceChain
    from napari_ctvqa.core.records import (
        Option,
        Outcome,
        Prediction,
        Question,
        Score,
    )

MAX_OPTIONS = 26
BESIDE = 18
"""Names of so many letters stand beside an option; longer ones on a line under it."""
FAILED = "✗ The run failed here: this is no answer."
NO_TEXT = "(empty: the model returned no text)"
HIDDEN_SCORE = "The score is hidden until you reveal the reference."
HIDDEN_RECORD = "The raw record is hidden until you reveal the reference."


@dataclass(frozen=True)
class Answer:
    """One model's answer to the current question, with what may be shown of its score."""

    source: str
    """Where it comes from and how its file is scored, in words."""
    prediction: Prediction
    score: Score | None
    revealed: bool
    titles: tuple[str, str]
    """What the benchmark calls its two scores."""
    reference_chain: EvidenceChain | None = None
    chain: EvidenceChain | None = None
    """What the masks make of the stated reference and of this answer, once it is worked out."""
    score_note: str = ""
    """What sets the benchmark's two scores apart, where it is not reading a text."""

    def same(self, other: Answer | None) -> bool:
        """Return whether the other is made of the very same parts, so that it looks the same."""
        return other is not None and all(
            getattr(self, part.name) is getattr(other, part.name)
            or (part.name in _SMALL and getattr(self, part.name) == getattr(other, part.name))
            for part in fields(self)
        )


_SMALL = ("source", "score", "titles", "score_note")
"""What is made anew each time; all else of an answer is kept by the session, or is an enum."""


class OptionList(QWidget):
    """The options, the reference's marked when revealed, the models' choices marked."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Options")
        self._rows: list[_OptionRow] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)

    def show_options(
        self,
        question: Question,
        scores: Mapping[str, Score | None],
        *,
        revealed: bool,
        contradicted: bool = False,
    ) -> None:
        """Show the question's options; rows are reused from question to question.

        A reference that the masks contradict is no plain tick.
        """
        options = question.options[:MAX_OPTIONS]
        while len(self._rows) < len(options):
            row = _OptionRow()
            self._rows.append(row)
            self._layout.addWidget(row)
        for row, option in zip(self._rows, options, strict=False):
            choosers = [m for m, s in scores.items() if s is not None and _chose(s, option)]
            is_reference = revealed and option.letter == question.reference.letter
            mark = _reference_mark(contradicted) if is_reference else ("", "right")
            row.show_option(option, choosers, *mark)
        for row in self._rows[len(options) :]:
            row.forget()
        self.setVisible(bool(options))


def _chose(score: Score, option: Option) -> bool:
    read = score.our_reading.strip().lower()
    return bool(read) and read in (option.letter.lower(), option.text.strip().lower())


def _reference_mark(contradicted: bool) -> tuple[str, str]:
    """Return text and look of the mark on the stated reference's option."""
    return ("⚠ reference", "unread") if contradicted else ("✓ reference", "right")


class _OptionRow(QFrame):
    def __init__(self) -> None:
        super().__init__()
        self._letter = Label(role="heading", wrap=False)
        self._text = Label()
        self._reference = Label(role="right", wrap=False)
        self._choosers = Label(role="heading", wrap=False)
        self._more_choosers = Label(role="heading")
        row = QHBoxLayout()
        row.setSpacing(GAP_PX)
        row.addWidget(self._letter)
        row.addWidget(self._text, 1)
        row.addWidget(self._reference)
        row.addWidget(self._choosers)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, 2, GAP_PX, 2)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self._more_choosers)

    def show_option(
        self, option: Option, choosers: Sequence[str], reference: str, role: str
    ) -> None:
        """Show one option with its marks; ``reference`` is its mark as the reference, or empty."""
        self._letter.show_text(one_line(option.letter, 8))
        self._text.show_text(option.text)
        self._reference.show_role(role)
        self._reference.show_text(reference)
        names = ", ".join(one_line(name, 40) for name in choosers)
        beside = len(names) <= BESIDE
        self._choosers.show_text(f"◂ {names}" if names and beside else "")
        self._more_choosers.show_text("" if beside else f"▴ {names}")
        set_look(self, "card" if reference or choosers else "card-option")
        self.show()

    def forget(self) -> None:
        """Hold no text of an earlier question."""
        parts = (self._letter, self._text, self._reference, self._choosers, self._more_choosers)
        for label in parts:
            label.show_text("")
        self.hide()


class AnswerList(QWidget):
    """One box a model, in the order of the runs; boxes are reused from question to question."""

    def __init__(self) -> None:
        super().__init__()
        self._boxes: list[AnswerBox] = []
        self._note = Label(role="muted")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(GAP_PX)
        self._layout.addWidget(self._note)

    def tab_stops(self) -> list[QWidget]:
        """Return what the tab key reaches, in order; boxes made later come last in Qt's own."""
        return [stop for box in self._boxes for stop in box.tab_stops()]

    def show_answers(self, answers: Sequence[Answer], note: str) -> None:
        """Show the answers there are, and a note on those there are not."""
        while len(self._boxes) < len(answers):
            box = AnswerBox()
            self._boxes.append(box)
            self._layout.insertWidget(len(self._boxes) - 1, box)
        parent = self.parentWidget()
        with laid_out_once(*self._boxes, self, *((parent,) if parent is not None else ())):
            for box, answer in zip(self._boxes, answers, strict=False):
                box.show_answer(answer)
            for box in self._boxes[len(answers) :]:
                box.forget()
            self.show_note(note)

    def show_note(self, note: str) -> None:
        """Show what is said under the answers."""
        self._note.show_text(note)


class AnswerBox(QFrame):
    """A model's raw text verbatim, what was read from it, and its two scores side by side."""

    def __init__(self) -> None:
        super().__init__()
        self._model = Label(role="heading")
        self._copy = QPushButton("Copy")
        self._failed = Label(role="wrong")
        self._text = TextBox("Raw answer")
        self._official = _ScoreColumn()
        self._ours = _ScoreColumn()
        self._no_score = Label(role="muted")
        self._why = Label(role="amber")
        self._against = Label(role="amber")
        self._source = Label(role="small")
        self._answer: Answer | None = None
        self.setProperty("ctvqa", "card")
        self._copy.setToolTip("Copy the whole raw answer, verbatim")
        self._copy.clicked.connect(self._text.copy_all)
        self._build()

    def _build(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self._model, 1)
        head.addWidget(self._copy)
        scores = QHBoxLayout()
        scores.addWidget(self._official, 1)
        scores.addWidget(self._ours, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self._failed)
        layout.addWidget(self._text)
        layout.addLayout(scores)
        layout.addWidget(self._no_score)
        layout.addWidget(self._against)
        layout.addWidget(self._why)
        layout.addWidget(self._source)

    def tab_stops(self) -> tuple[QWidget, QWidget]:
        """Return what the tab key reaches, in order."""
        return (self._copy, self._text)

    def show_answer(self, answer: Answer) -> None:
        """Show one model's answer; the same one again costs nothing."""
        if answer.same(self._answer):
            return
        self._answer = answer
        prediction = answer.prediction
        self._model.show_text(one_line(prediction.model, 80))
        self._text.setAccessibleName(f"Raw answer of {one_line(prediction.model, 80)}")
        self._failed.show_text(_failed_line(prediction))
        self._text.show_text(prediction.raw_text or _no_text(prediction))
        self._show_score(answer)
        self._source.show_text(_source(answer))
        self.show()

    def forget(self) -> None:
        """Hold no text of an earlier question."""
        self._answer = None
        parts = (self._model, self._failed, self._no_score, self._against, self._why, self._source)
        for label in parts:
            label.show_text("")
        self._text.show_text("")
        self._official.forget()
        self._ours.forget()
        self.hide()

    def _show_score(self, answer: Answer) -> None:
        score = answer.score
        if score is None or not answer.revealed:
            self._why.show_text("")
            self._against.show_text("")
            self._official.forget()
            self._ours.forget()
            self._no_score.show_text("– not scored" if score is None else HIDDEN_SCORE)
            return
        self._no_score.show_text("")
        official = reading_text(score.official_reading, answer.titles)
        ours = reading_text(score.our_reading, answer.titles)
        credited = official_text(score)
        outcome = score.shown if score.counted_though_failed else score.official
        self._official.show_score(answer.titles[0], outcome, credited, official)
        self._ours.show_score(answer.titles[1], score.ours, outcome_text(score.ours), ours)
        why = disagreement(score, answer.prediction.raw_text, answer.titles, answer.score_note)
        self._why.show_text(why)
        against = against_contradicted(score.shown, answer.reference_chain, answer.chain)
        self._against.show_text(against)


def _failed_line(prediction: Prediction) -> str:
    """Return that there is no answer, and why the model gave none: its row has no digits.

    Only what a way to run said: an agent's own reason may hold the number that is still hidden.
    """
    if not prediction.failed:
        return ""
    turns = prediction.trace.turns
    why = turns[-1].error if turns and "failure" in prediction.record else None
    return f"{FAILED} {one_line(why, 400)}" if why else FAILED


def _no_text(prediction: Prediction) -> str:
    calls = sum(turn.call is not None for turn in prediction.trace.turns)
    return f"(working: {calls} tool calls so far)" if calls else NO_TEXT


def _source(answer: Answer) -> str:
    seconds = answer.prediction.seconds
    timed = f"{answer.source} · {seconds:.1f} s" if seconds is not None else answer.source
    return "\n".join(filter(None, (sure_text(answer.prediction), timed, _note(answer.prediction))))


def _note(prediction: Prediction) -> str:
    """Return what a way to run noted of an answer; an agent's may hold what is still hidden."""
    note = prediction.record.get("note")
    return one_line(note, 400) if isinstance(note, str) and "usage" in prediction.record else ""


class _ScoreColumn(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._title = Label(role="small", selectable=False)
        self._outcome = Label()
        self._reading = Label()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self._title, self._outcome, self._reading):
            layout.addWidget(part)
        layout.addStretch(1)

    def show_score(self, title: str, outcome: Outcome, text: str, reading: str) -> None:
        """Show an outcome in its colour and what was read."""
        self._title.show_text(title)
        self._outcome.show_role(outcome.value)
        self._outcome.show_text(text)
        self._reading.show_text(reading)
        self.show()

    def forget(self) -> None:
        """Hold nothing, and take no room."""
        for label in (self._title, self._outcome, self._reading):
            label.show_text("")
        self.hide()


class RawRecord(QWidget):
    """The foreign record as JSON, folded away; before the reveal none of it, it has the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._box = TextBox("Raw record", max_lines=24, code=True)
        self._folding = Folding("Raw record", self._box)
        self._hidden = Label(HIDDEN_RECORD, role="muted")
        self._record: Mapping[str, object] = {}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._folding)
        layout.addWidget(self._hidden)
        self._folding.toggled.connect(self._fill)

    def tab_stops(self) -> tuple[QWidget, QWidget]:
        """Return what the tab key reaches, in order."""
        return (self._folding.button, self._box)

    def show_record(self, question: Question, *, revealed: bool) -> None:
        """Show the record of a question, or nothing of it before the reveal."""
        self._record = question.raw if revealed else {}
        self._folding.setVisible(revealed)
        self._hidden.setVisible(not revealed)
        self._fill()

    def _fill(self) -> None:
        shown = self._folding.unfolded and self._record
        self._box.show_text(pretty_json(self._record) if shown else "")
