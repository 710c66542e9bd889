"""Runs: an answerer on one question or on all that the filter shows, live in the session."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QTimer

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import Prediction, Run, Trace
from napari_ctvqa.core.session import RunProgress, RunState
from napari_ctvqa.io import code_consents, run_settings
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.answering import AGENT
from napari_ctvqa.runners.choices import UnconfirmedHostError
from napari_ctvqa.runners.cluster import Cluster
from napari_ctvqa.runners.cluster_answers import answers_on
from napari_ctvqa.runners.desk import Begun, batch_answers, has_wanted, live_answers
from napari_ctvqa.runners.keeping import Keeper
from napari_ctvqa.runners.kept import unfinished_runs
from napari_ctvqa.runners.own_loaders import UnconfirmedCodeError
from napari_ctvqa.runners.recorded import recorded_answerer
from napari_ctvqa.widgets.problems import report
from napari_ctvqa.widgets.questions_asked import may_run_code, may_send, may_use_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.io.code_consents import CodeConsent
    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.desk import BatchReport, LiveAnswer
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs

THIS_QUESTION, THE_FILTER = "question", "filter"
SHOW_EVERY_MS = 33
"""How often at most what a model does is shown: each time the window is painted anew."""
LOOK_EVERY_MS = 5_000
"""How often to look whether a model that is kept has unloaded itself."""


class Runs:
    """Starts and stops runs; what they answer appears in ``session.runs`` as it comes.

    Parameters
    ----------
    session, jobs
        Where answers appear, and what runs them.
    opened
        Returns what is open, None for nothing.
    may_send_to
        Asks whether pictures may go to a host that is not confirmed yet.
    may_run
        Asks whether code that lies with a model may run.
    may_use_scheduler
        Asks whether a scheduler of a cluster may be used.
    """

    def __init__(
        self,
        session: Session,
        jobs: Jobs,
        opened: Callable[[], Opened | None],
        may_send_to: Callable[[str], bool] = may_send,
        may_run: Callable[[CodeConsent], bool] = may_run_code,
        may_use_scheduler: Callable[[str], bool] = may_use_scheduler,
    ) -> None:
        self.session, self.jobs, self.opened = session, jobs, opened
        self._may_send_to, self._may_run = may_send_to, may_run
        self._may_use_scheduler = may_use_scheduler
        self._keeper = Keeper()
        self._began = datetime.now().strftime("%Y%m%d-%H%M%S")
        self._answerer: Any = None
        """What runs now, or ran last."""
        self._before: Prediction | None = None
        """What the running answerer had said to this question before, should it be stopped."""
        self._turns = 0
        self._held: LiveAnswer | None = None
        """What came last and is not shown yet; each one says all that has come so far."""
        self._pause = QTimer()
        self._pause.setSingleShot(True)
        self._pause.setInterval(SHOW_EVERY_MS)
        self._pause.timeout.connect(self._show_held)
        self._look = QTimer()
        self._look.setInterval(LOOK_EVERY_MS)
        self._look.timeout.connect(self._look_after_model)

    def start(self, wanted: Wanted, scope: str) -> None:
        """Let what is wanted answer the current question, or all that the filter shows."""
        opened = self.opened()
        if self.busy or opened is None or opened.benchmark is None or opened.questions is None:
            return
        make = partial(self._keeper.answerer, wanted, opened)
        again = partial(self.start, wanted, scope)
        if scope == THIS_QUESTION:
            all_masks = wanted.mode == AGENT
            self._ask(make, wanted.shown_name, again, opened, all_masks=all_masks)
        else:
            self._ask_all(make, wanted, again, opened)

    def replay(self, results: str) -> None:
        """Play a recorded answer to the current question: nothing is asked, nothing is kept."""
        opened = self.opened()
        if not self.busy and opened is not None:
            make = partial(recorded_answerer, opened, Path(results))
            self._ask(make, "recording", lambda: None, opened, all_masks=False)

    def ask_current(self, answerer: Any) -> None:
        """Let an answerer that is there answer the current question."""
        opened = self.opened()
        if not self.busy and opened is not None:
            self._ask(lambda: answerer, answerer.name, lambda: None, opened, all_masks=False)

    @property
    def busy(self) -> bool:
        """Return whether something is being answered."""
        return any(slot in self.jobs for slot in ("live", "batch", "probes"))

    def answerer(self, wanted: Wanted, opened: Opened) -> Any:
        """Return what is wanted, the one that is kept where it is the same. From any thread."""
        return self._keeper.answerer(wanted, opened)

    def may_send(self, host: str) -> bool:
        """Ask whether pictures may go to a host that is not confirmed yet."""
        return self._may_send_to(host)

    def _take(self, answerer: Any) -> None:
        """Make it the one that ``cancel`` stops."""
        self._answerer, self._turns = answerer, -1
        stopped = getattr(answerer, "cancelled", None)
        if stopped is not None:
            stopped.clear()

    def _ask(
        self,
        make: Callable[[], Any],
        model: str,
        again: Callable[[], None],
        opened: Opened,
        *,
        all_masks: bool,
    ) -> None:
        question, case = self.session.question, self.session.case
        ready = question is not None and case is not None and has_wanted(question, case)
        if question is None or case is None or not ready or (all_masks and not case.complete):
            report(
                self.session,
                CtvqaError(
                    "There is no case to look at yet.",
                    hint="Wait until its masks are read, or open a question whose case is found.",
                ),
            )
            return
        self.session.update(
            progress=RunProgress(RunState.RUNNING, model, 0, 1, message=question.id)
        )
        if self.session.absent_means_none:
            case = absent_means_none(case)
        self.jobs.start(
            "live",
            live_answers(
                make,
                question,
                case,
                self.session.answer_format,
                opened,
                self._began,
                segmented=self.session.use_segmented,
            ),
            partial(self._show_item, self._show_live),
            partial(self._run_failed, again),
            self._run_ended,
        )

    def _show_item(self, show: Callable[[Any], None], item: Any) -> None:
        if isinstance(item, Begun):
            self._take(item.answerer)
            run, key = self.session.runs.get(item.answerer.name), self.session.progress.message
            self._before = run.predictions.get(key) if run is not None else None
            kept = hasattr(item.answerer, "close")
            self.session.update_unhurried(
                progress=replace(
                    self.session.progress,
                    model=item.answerer.name,
                    path=item.path,
                    message=item.message or self.session.progress.message,
                ),
                loaded=item.answerer.name if kept else self.session.loaded,
            )
            if kept:
                self._look.start()
        else:
            show(item)

    def _show_live(self, live: LiveAnswer) -> None:
        """Show the last of an answer at once, what comes before it at most every 33 ms."""
        self._held = live
        over = live.prediction is not None or live.live is None or not live.live.running
        if over or not self._pause.isActive():
            self._show_held()

    def _show_held(self) -> None:
        """Show words; the answers, and the chains behind them, only when these change."""
        live, self._held = self._held, None
        if live is None:
            return
        self._pause.start()
        stopped = live.live is not None and not live.live.running and live.prediction is None
        state: dict[str, Any] = {"live": live.live}
        if stopped:
            state |= self._former(live)
        elif live.prediction is not None or len(live.turns) != self._turns:
            self._turns = len(live.turns)
            state |= self._answered(live)
        self.session.update_unhurried(**state)

    def _answered(self, live: LiveAnswer) -> dict[str, Any]:
        prediction = live.prediction or Prediction(
            live.question.id, live.model, "", Trace(live.turns)
        )
        run = self.session.runs.get(live.model) or Run(live.model, {}, self.session.answer_format)
        predictions = {**run.predictions, live.question.id: prediction}
        scores = dict(self.session.scores.get(live.model, {}))
        scores.pop(live.question.id, None)
        if live.score is not None:
            scores[live.question.id] = live.score
        state: dict[str, Any] = {
            "runs": {**self.session.runs, live.model: replace(run, predictions=predictions)},
            "scores": {**self.session.scores, live.model: scores},
        }
        if live.prediction is not None:
            failed = int(live.prediction.failed)
            progress = replace(self.session.progress, done=1, failed=failed, path=live.path)
            state["progress"] = progress
        return state

    def _former(self, live: LiveAnswer) -> dict[str, Any]:
        """Return the runs without a stopped answer, which is none: what there was before it."""
        run = self.session.runs.get(live.model)
        if run is None or live.question.id not in run.predictions:
            return {}
        predictions = {k: p for k, p in run.predictions.items() if k != live.question.id}
        runs = dict(self.session.runs)
        if self._before is not None:
            predictions[live.question.id] = self._before
        if predictions:
            runs[live.model] = replace(run, predictions=predictions)
        else:
            del runs[live.model]
        return {"runs": runs}

    def _ask_all(
        self, make: Callable[[], Any], wanted: Wanted, again: Callable[[], None], opened: Opened
    ) -> None:
        scheduler = self.session.scheduler
        if not self._may_use(scheduler):
            return
        rows = [int(row) for row in self.session.rows]
        progress = RunProgress(RunState.RUNNING, wanted.shown_name, 0, len(rows))
        self.session.update(progress=progress, unfinished=())
        self.jobs.start(
            "batch",
            batch_answers(
                make,
                opened,
                self.session.answer_format,
                rows,
                assume_none=self.session.absent_means_none,
                segmented=self.session.use_segmented,
                elsewhere=partial(answers_on, scheduler, wanted),
                cluster=scheduler,
            ),
            partial(self._show_item, self._show_batch),
            partial(self._run_failed, again),
            self._run_ended,
        )

    def _may_use(self, scheduler: str) -> bool:
        """Return whether a scheduler may be used: asked once, of one that is not our own."""
        if not scheduler or Cluster(scheduler).local or run_settings.is_trusted(scheduler):
            return True
        agreed = self._may_use_scheduler(scheduler)
        if agreed:
            run_settings.trust(scheduler)
        return agreed

    def look_for_unfinished(self) -> None:
        """Look which runs of what is open can go on; sets ``session.unfinished``."""
        opened = self.opened()
        if opened is None or opened.questions is None:
            self.session.update(unfinished=())
            return
        self.jobs.start(
            "unfinished",
            unfinished_runs(opened),
            lambda found: self.session.update_unhurried(unfinished=found),
        )

    def _show_batch(self, item: BatchReport) -> None:
        model, out = self.session.progress.model, self.session.progress.path
        run = self.session.runs.get(model) or Run(model, {}, self.session.answer_format)
        self.session.update_unhurried(
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
                per_second=item.per_second,
                accuracy=item.accuracy,
                scored=item.scored,
                servers=item.servers,
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
                        message=_stopped(slot, self.session.progress.message),
                    )
                )

    def force_stop(self) -> None:
        """End the process or connection of a model that does not stop by itself."""
        end = getattr(self._answerer, "force_stop", None)
        if end is not None:
            end()

    def abandon(self) -> None:
        """Let go of what runs, because something else is opened."""
        self._held = None
        self._pause.stop()
        stop = getattr(self._answerer, "cancel", None)
        if stop is not None and self.busy:
            stop()
        for slot in ("live", "batch", "unfinished"):
            self.jobs.cancel(slot)
        self.session.update(live=None, progress=RunProgress(), unfinished=())

    def unload(self) -> None:
        """Free the memory of the model that was run last; it is loaded anew when it is asked."""
        if not self.busy:
            self._keeper.let_go()
            self.session.update(loaded="")

    def _look_after_model(self) -> None:
        """Say no longer that a model is loaded that has ended itself for want of questions."""
        if self.busy:
            return
        kept = self._keeper.kept
        if kept is None or not getattr(kept, "holding", True):
            self._look.stop()
            self.session.update(loaded="")

    def close(self) -> None:
        """Stop everything and leave no process behind."""
        self._look.stop()
        self.abandon()
        self._keeper.close()

    def _run_failed(self, again: Callable[[], None], error: BaseException) -> None:
        self._show_held()
        if not isinstance(error, UnconfirmedHostError | UnconfirmedCodeError):
            self.session.update(progress=replace(self.session.progress, message=str(error)))
            report(self.session, error)
        elif self._confirmed(error):
            self.jobs.cancel("live")
            self.jobs.cancel("batch")
            again()

    def _confirmed(self, error: UnconfirmedHostError | UnconfirmedCodeError) -> bool:
        """Ask a person once, and remember a yes."""
        if isinstance(error, UnconfirmedHostError):
            agreed = self._may_send_to(error.host)
            if agreed:
                hosts.confirm(error.host)
            return agreed
        agreed = self._may_run(error.consent)
        if agreed:
            code_consents.allow(error.consent)
        return agreed

    def _run_ended(self) -> None:
        self._show_held()
        progress = replace(self.session.progress, state=RunState.IDLE)
        if progress.done == progress.total > 1:
            progress = replace(progress, message="Finished.")
        self.session.update_unhurried(progress=progress)
        if progress.total > 1:
            self.look_for_unfinished()


def _stopped(slot: str, message: str) -> str:
    """Return what is said of a run that was stopped; of many questions it can go on."""
    if slot == "batch":
        return "Stopped: Run goes on from here, what was answered is kept."
    return f"Stopped. {message}".strip()
