"""All that the window shows of one run's scores: audit, published tables beside it, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.audit import Audit, audit
from napari_ctvqa.core.calibration import Calibration, calibrations
from napari_ctvqa.core.leaderboards import Beside, asked_of, beside, leaderboards_of
from napari_ctvqa.core.scoring import score_note, score_titles

if TYPE_CHECKING:
    from napari_ctvqa.core.ports import Benchmark
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import AnswerFormat, Run, Score


@dataclass(frozen=True)
class Audited:
    """One run looked at whole; ``titles`` and ``note`` are the benchmark's on its two scores.

    ``boards`` are its published tables, those in the run's format first.
    """

    audit: Audit
    titles: tuple[str, str]
    note: str = ""
    boards: tuple[Beside, ...] = ()
    curves: tuple[Calibration, ...] = ()

    @property
    def model(self) -> str:
        """Return whose run it is."""
        return self.audit.model


def audited(
    benchmark: Benchmark,
    questions: QuestionSet,
    run: Run,
    scores: Mapping[str, Score],
    answer_format: AnswerFormat,
) -> Audited:
    """Return the audit, the tables and the calibration of a run from its scores."""
    made = audit(run.model, questions, scores)
    asked = asked_of(run, benchmark.name, answer_format)
    boards = leaderboards_of(benchmark.name)
    for table in made.tables:  # worked out here once, where nobody waits for it
        _ = table.official.interval, table.ours.interval
    ordered = sorted(boards, key=lambda board: board.format is not answer_format)
    return Audited(
        made,
        score_titles(benchmark),
        score_note(benchmark),
        tuple(beside(board, made, asked) for board in ordered),
        calibrations(run, scores),
    )
