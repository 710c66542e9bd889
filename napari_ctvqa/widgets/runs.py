"""Runs: an answerer on one question or on all that the filter shows, live in the session."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.records import Prediction, Run, Trace
from napari_ctvqa.core.session import RunProgress, RunState
from napari_ctvqa.extensions import models
from napari_ctvqa.runners.batch import run_batch
from napari_ctvqa.runners.desk import answered, has_wanted, scored_batch
from napari_ctvqa.runners.kept import result_path
from napari_ctvqa.widgets.problems import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.desk import BatchReport, LiveAnswer
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs


class Runs:
    """Starts and stops runs; what they answer appears in ``session.runs`` as it comes.

    Parameters
    ----------
    session, jobs
        Where answers appear, and what runs them.
    opened
        Returns what is open, None for nothing.
    """

    def __init__(self, session: Session, jobs: Jobs, opened: Callable[[], Opened | None]) -> None:
        self.session, self.jobs, self.opened = session, jobs, opened
        self._began = datetime.now().strftime("%Y%m%d-%H%M%S")

    def start(self, name: str, kit: str, scope: str) -> None:
        """Let an answerer answer the current question, or all that the filter shows."""
        if "live" in self.jobs or "batch" in self.jobs:
            return
        answerer = models().get(name)
        if answerer is None:
            report(self.session, NotFoundError(f"There is no model {name!r}."))
        elif scope == "question":
            self._run_question(answerer)
        else:
            self._run_filter(answerer)

    def _run_question(self, answerer: Any) -> None:
        question, case = self.session.question, self.session.case
        if question is None or case is None or not has_wanted(question, case):
            report(
                self.session,
                CtvqaError(
                    "There is no case to look at yet.",
                    hint="Wait until its masks are read, or open a question whose case is found.",
                ),
            )
            return
        self.session.update(
            progress=RunProgress(RunState.RUNNING, answerer.name, 0, 1, message=question.id)
        )
        opened = self.opened()
        assert opened is not None
        if self.session.absent_means_none:
            case = absent_means_none(case)
        self.jobs.start(
            "live",
            answered(answerer, question, case, self.session.answer_format, opened, self._began),
            self._show_live,
            self._run_failed,
            self._run_ended,
        )

    def _show_live(self, live: LiveAnswer) -> None:
        prediction = live.prediction or Prediction(
            live.question.id, live.model, "", Trace(live.turns)
        )
        run = self.session.runs.get(live.model) or Run(live.model, {}, self.session.answer_format)
        predictions = {**run.predictions, live.question.id: prediction}
        scores = dict(self.session.scores.get(live.model, {}))
        scores.pop(live.question.id, None)
        if live.score is not None:
            scores[live.question.id] = live.score
        self.session.update(
            runs={**self.session.runs, live.model: replace(run, predictions=predictions)},
            scores={**self.session.scores, live.model: scores},
        )
        if live.prediction is not None:
            failed = int(live.prediction.failed)
            self.session.update(
                progress=replace(self.session.progress, done=1, failed=failed, path=live.path)
            )

    def _run_filter(self, answerer: Any) -> None:
        opened = self.opened()
        if opened is None or opened.questions is None or opened.benchmark is None:
            return
        out = result_path(opened, answerer.name, self.session.answer_format)
        out.parent.mkdir(parents=True, exist_ok=True)
        rows = [int(row) for row in self.session.rows]
        self.session.update(
            progress=RunProgress(RunState.RUNNING, answerer.name, 0, len(rows), path=str(out))
        )
        items = run_batch(
            opened,
            answerer,
            self.session.answer_format,
            out,
            rows=rows,
            assume_none=self.session.absent_means_none,
        )
        self.jobs.start(
            "batch",
            scored_batch(items, opened, self.session.answer_format),
            partial(self._show_batch, answerer.name, str(out)),
            self._run_failed,
            self._run_ended,
        )

    def _show_batch(self, model: str, out: str, item: BatchReport) -> None:
        run = self.session.runs.get(model) or Run(model, {}, self.session.answer_format)
        self.session.update(
            runs={
                **self.session.runs,
                model: replace(run, path=out, predictions={**run.predictions, **item.predictions}),
            },
            scores={
                **self.session.scores,
                model: {**self.session.scores.get(model, {}), **item.scores},
            },
            progress=replace(
                self.session.progress,
                done=item.done,
                failed=item.failed,
                seconds_left=item.seconds_left,
            ),
        )

    def cancel(self) -> None:
        """Stop at the next answer; what is done is kept."""
        for slot in ("live", "batch"):
            if slot in self.jobs:
                self.jobs.cancel(slot)
                self.session.update(
                    progress=replace(
                        self.session.progress,
                        state=RunState.IDLE,
                        message=f"Stopped. {self.session.progress.message}",
                    )
                )

    def _run_failed(self, error: BaseException) -> None:
        report(self.session, error)

    def _run_ended(self) -> None:
        self.session.update(progress=replace(self.session.progress, state=RunState.IDLE))
