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
        self._answerer: Any = None
        """What runs now, or ran last."""
        self._before: Prediction | None = None
        """What the running answerer had said to this question before, should it be stopped."""
        self._turns = 0

    def start(self, name: str, kit: str, scope: str) -> None:
        """Let an answerer answer the current question, or all that the filter shows."""
        if "live" in self.jobs or "batch" in self.jobs:
            return
        answerer = models().get(name)
        if answerer is None:
            report(self.session, NotFoundError(f"There is no model {name!r}."))
        elif scope == "question":
            self.ask_current(answerer)
        else:
            self._run_filter(answerer)

    def _take(self, answerer: Any) -> None:
        """Make it the one that ``cancel`` stops."""
        self._answerer, self._turns = answerer, -1
        stopped = getattr(answerer, "cancelled", None)
        if stopped is not None:
            stopped.clear()

    def ask_current(self, answerer: Any) -> None:
        """Let an answerer answer the current question; a problem is shown, nothing is raised."""
        question, case = self.session.question, self.session.case
        if question is None or case is None or not has_wanted(question, case, answerer):
            report(
                self.session,
                CtvqaError(
                    "There is no case to look at yet.",
                    hint="Wait until its masks are read, or open a question whose case is found.",
                ),
            )
            return
        self._take(answerer)
        run = self.session.runs.get(answerer.name)
        self._before = run.predictions.get(question.id) if run is not None else None
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
        """Show words at once; the answers, and the chains behind them, only when these change."""
        self.session.update(live=live.live)
        stopped = live.live is not None and not live.live.running and live.prediction is None
        if stopped:
            self._put_back(live)
        elif live.prediction is not None or len(live.turns) != self._turns:
            self._turns = len(live.turns)
            self._put(live)

    def _put(self, live: LiveAnswer) -> None:
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

    def _put_back(self, live: LiveAnswer) -> None:
        """A stopped answer is no answer: show what there was before it."""
        run = self.session.runs.get(live.model)
        if run is None or live.question.id not in run.predictions:
            return
        predictions = {k: p for k, p in run.predictions.items() if k != live.question.id}
        runs = dict(self.session.runs)
        if self._before is not None:
            predictions[live.question.id] = self._before
        if predictions:
            runs[live.model] = replace(run, predictions=predictions)
        else:
            del runs[live.model]
        self.session.update(runs=runs)

    def _run_filter(self, answerer: Any) -> None:
        opened = self.opened()
        if opened is None or opened.questions is None or opened.benchmark is None:
            return
        self._take(answerer)
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
        """Stop at the next word or the next answer; what is done is kept."""
        stop = getattr(self._answerer, "cancel", None)
        if "live" in self.jobs and stop is not None:
            self.session.update(progress=replace(self.session.progress, state=RunState.CANCELLING))
            stop()  # its last event ends the job
            return
        for slot in ("live", "batch"):
            if slot in self.jobs:
                self.jobs.cancel(slot)
                if stop is not None:
                    stop()
                self.session.update(
                    progress=replace(
                        self.session.progress,
                        state=RunState.IDLE,
                        message=f"Stopped. {self.session.progress.message}",
                    )
                )

    def force_stop(self) -> None:
        """End the process or connection of a model that does not stop by itself."""
        end = getattr(self._answerer, "force_stop", None)
        if end is not None:
            end()

    def abandon(self) -> None:
        """Let go of what runs, because something else is opened."""
        stop = getattr(self._answerer, "cancel", None)
        if stop is not None and ("live" in self.jobs or "batch" in self.jobs):
            stop()
        for slot in ("live", "batch"):
            self.jobs.cancel(slot)
        self.session.update(live=None)

    def _run_failed(self, error: BaseException) -> None:
        report(self.session, error)

    def _run_ended(self) -> None:
        self.session.update(progress=replace(self.session.progress, state=RunState.IDLE))
