"""What several models said to one question, as a table: one column a model, differences marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.names import label
from napari_ctvqa.core.scoring import score_titles
from napari_ctvqa.widgets.evidence_table import KIND_WORDS
from napari_ctvqa.widgets.text import number, one_line
from napari_ctvqa.widgets.words import (
    MATCH_WORDS,
    match_text,
    measure_words,
    official_text,
    outcome_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.chains import AlignedStep, EvidenceStep
    from napari_ctvqa.core.records import Prediction, Score
    from napari_ctvqa.core.session import Session

REFERENCE = "Reference"
HIDDEN = "hidden"
ABSENT = "–"
MAX_MODELS = 12
MAX_STEPS = 60


@dataclass(frozen=True)
class Cell:
    """What stands in one place; ``step`` is where a click leads, ``role`` a look of the theme."""

    text: str = ABSENT
    role: str = ""
    step: EvidenceStep | None = None


@dataclass(frozen=True)
class Line:
    """One row: what it is about, its cells, and whether the models differ in it."""

    title: str
    cells: tuple[Cell, ...]
    differs: bool = False


@dataclass(frozen=True)
class SideTable:
    """The columns' names and the rows; no rows without an answer."""

    columns: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    note: str = ""

    @property
    def titles(self) -> tuple[str, ...]:
        """Return what stands before each row; ≠ marks those in which the models differ."""
        return tuple(f"{'≠ ' if line.differs else ''}{line.title}" for line in self.lines)


def side_table(session: Session) -> SideTable:
    """Return the shown answers to the current question side by side.

    While the reference is hidden, neither it nor anything that tells it is in the table.
    """
    question, predictions = session.question, session.predictions
    if question is None or not predictions:
        return SideTable()
    models = tuple(predictions)[:MAX_MODELS]
    told = session.revealed
    scores = {m: session.scores.get(m, {}).get(question.id) for m in models}
    reference = question.reference
    stated = " · ".join(part for part in (reference.letter, reference.text) if part) or ABSENT
    lines = [
        _line("Answer", Cell(one_line(stated, 300)), [_answer(predictions[m]) for m in models]),
        *_score_lines(session, [scores[m] for m in models], told=told),
        _line("Time", Cell(), [_seconds(predictions[m]) for m in models], compare=False),
        *_step_lines(session, models, told=told),
    ]
    columns = (REFERENCE, *models)
    if not told:
        lines = [Line(x.title, x.cells[1:], x.differs) for x in lines]
        columns = models
    left = len(predictions) - len(models)
    note = f"{left} more models are not shown here." if left else ""
    return SideTable(tuple(one_line(c, 60) for c in columns), tuple(lines), note)


def _line(title: str, first: Cell, cells: Sequence[Cell], *, compare: bool = True) -> Line:
    differs = compare and len({cell.text for cell in cells}) > 1
    return Line(title, (first, *cells), differs)


def _answer(prediction: Prediction) -> Cell:
    return Cell(
        one_line(prediction.raw_text, 300) or "(empty)", "wrong" if prediction.failed else ""
    )


def _seconds(prediction: Prediction) -> Cell:
    return Cell() if prediction.seconds is None else Cell(f"{prediction.seconds:.1f} s")


def _score_lines(session: Session, scores: Sequence[Score | None], *, told: bool) -> list[Line]:
    titles = score_titles(session.benchmark)
    read = [Cell() if s is None else Cell(one_line(s.our_reading, 80) or "nothing") for s in scores]
    lines = [_line("Read as", Cell(), read)]
    if told:
        official = [Cell() if s is None else Cell(official_text(s), s.shown.value) for s in scores]
        ours = [Cell() if s is None else Cell(outcome_text(s.ours), s.ours.value) for s in scores]
        lines += [_line(titles[0], Cell(), official), _line(titles[1], Cell(), ours)]
    return lines


def _step_lines(session: Session, models: Sequence[str], *, told: bool) -> list[Line]:
    """Return the steps, those of the reference first, then what only models did."""
    places: dict[tuple[str, ...], list[AlignedStep | None]] = {}
    references: dict[tuple[str, ...], EvidenceStep | None] = {}
    for column, model in enumerate(models):
        comparison = session.comparisons.get(model)
        seen: dict[tuple[str, ...], int] = {}
        for row in comparison.rows if comparison is not None else ():
            step = row.reference or row.model
            assert step is not None
            kind = "reference" if row.reference is not None else "extra"
            again = seen.setdefault((kind, *step.key()), 0)
            seen[(kind, *step.key())] += 1
            key: tuple[str, ...] = (kind, *step.key(), str(again))
            places.setdefault(key, [None] * len(models))[column] = row
            references.setdefault(key, row.reference)
    ordered = sorted(places, key=lambda key: key[0] != "reference")[:MAX_STEPS]
    lines = []
    for place in ordered:
        reference = references[place]
        rows = places[place]
        if not told and all(row is None or row.model is None for row in rows):
            continue  # a step that only the reference has would tell of it
        step = reference or next(r.model for r in rows if r is not None)
        assert step is not None
        shown = step if told else next(r.model for r in rows if r is not None and r.model)
        assert shown is not None
        lines.append(
            _line(
                _step_title(shown),
                Cell() if reference is None else _step_cell(reference),
                [_model_cell(row, told=told) for row in rows],
            )
        )
    return lines


def _step_title(step: EvidenceStep) -> str:
    measure = measure_words(step.measure)
    what = f"{KIND_WORDS[step.kind]} {measure}".strip()
    return f"{what}: {one_line(label(step.target), 60)}" if step.target else what


def _step_cell(step: EvidenceStep) -> Cell:
    return Cell(_value(step), "", step)


def _model_cell(row: AlignedStep | None, *, told: bool) -> Cell:
    if row is None or (row.model is None and not told):
        return Cell()
    step = row.model
    if not told:
        return Cell() if step is None else Cell(_value(step), "", step)
    value = _value(step) if step is not None else ""
    text = f"{match_text(row)}\n{value}".strip()
    return Cell(text, MATCH_WORDS[row.match][2], step or row.reference)


def _value(step: EvidenceStep) -> str:
    if step.error:
        return f"✗ {one_line(step.error, 120)}"
    unit = "" if isinstance(step.value, str) else one_line(step.unit, 20)
    return number(step.value, unit) or "no value"
