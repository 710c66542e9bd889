"""Prober: asks the chosen model again with one thing changed, one batch of probes at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.probing import Probing
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.choices import UnconfirmedHostError
from napari_ctvqa.runners.probe_reports import kept_probing, probe_reports
from napari_ctvqa.runners.probe_sight import ProbeSight, probe_sight
from napari_ctvqa.widgets.problems import report
from napari_ctvqa.widgets.runs import THIS_QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.desk import Begun
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs
    from napari_ctvqa.widgets.runs import Runs

SLOT, SIGHT_SLOT = "probes", "probe sight"


class Prober:
    """Starts and stops probes; what they find appears in ``session.probing``.

    Parameters
    ----------
    session, jobs
        Where it appears, and what runs it.
    opened
        Returns what is open, None for nothing.
    runs
        Keeps the model that is loaded; a run and probes never ask it at once.
    """

    def __init__(
        self, session: Session, jobs: Jobs, opened: Callable[[], Opened | None], runs: Runs
    ) -> None:
        self.session, self.jobs, self.opened, self.runs = session, jobs, opened, runs
        self._began = datetime.now().strftime("%Y%m%d-%H%M%S")
        self._answerer: Any = None

    def start(self, scope: str, probes: Sequence[str]) -> None:
        """Probe the current question, or all that the filter shows, with what Run has chosen."""
        opened, wanted = self.opened(), self.session.wanted
        if self.runs.busy or opened is None or opened.questions is None or wanted is None:
            return
        case = None
        rows = [int(row) for row in self.session.rows]
        if scope == THIS_QUESTION:
            case = self.session.case
            if self.session.row is None or case is None or not case.complete:
                hint = "Wait until its masks are read, or open a question whose case is found."
                report(self.session, CtvqaError("There is no case to look at yet.", hint=hint))
                return
            rows = [self.session.row]
        self._show(replace(self.session.probing, running=True, message="", done=0, total=0))
        self.jobs.start(
            SLOT,
            probe_reports(
                partial(self.runs.answerer, wanted, opened),
                opened,
                self.session.answer_format,
                rows,
                tuple(probes),
                began=self._began,
                case=case,
                assume_none=self.session.absent_means_none,
                before=self.session.probing,
            ),
            self._take,
            partial(self._failed, wanted, partial(self.start, scope, probes)),
            self._ended,
        )

    def show_file(self, path: Path) -> None:
        """Show what the probes of a file found; not while others run."""
        if SLOT not in self.jobs:
            self.jobs.start(SLOT, kept_probing(path), self._take)

    def show_sent(self, probe: str) -> None:
        """Make anew what a probe sent for the current question; an empty name shows nothing."""
        session = self.session
        question, case, path = session.question, session.case, session.probing.path
        self.jobs.cancel(SIGHT_SLOT)
        session.update(probe_sight=None)
        if not probe or question is None or not path:
            return
        if case is None or case.case_id != question.case_id or not case.complete:
            problem = "Choose the probe again when the case is read: it is made of it."
            session.update(probe_sight=ProbeSight(question.id, probe, problem=problem))
            return
        steps = probe_sight(Path(path), question, case, probe)
        self.jobs.start(SIGHT_SLOT, steps, self._show_sight)

    def _show_sight(self, sight: ProbeSight) -> None:
        question = self.session.question
        if question is not None and question.id == sight.question_id:
            self.session.update(probe_sight=sight)

    def cancel(self) -> None:
        """Stop at the next word; what was answered is kept."""
        if SLOT not in self.jobs:
            return
        self.jobs.cancel(SLOT)
        stop = getattr(self._answerer, "cancel", None)
        if stop is not None:
            stop()
        self._show(replace(self.session.probing, running=False, message="Stopped."))

    def abandon(self) -> None:
        """Let go of what runs and of what was found, because something else is opened."""
        self.cancel()
        self.jobs.cancel(SIGHT_SLOT)
        self.session.update(probing=Probing(), probe_sight=None)

    def _take(self, item: Begun | Probing) -> None:
        if isinstance(item, Probing):
            self._show(item)
            return
        self._answerer = item.answerer
        flag = getattr(item.answerer, "cancelled", None)
        if flag is not None:
            flag.clear()
        loaded = hasattr(item.answerer, "close")
        self._show(replace(self.session.probing, model=item.answerer.name, path=item.path))
        if loaded:
            self.session.update(loaded=item.answerer.name)

    def _show(self, probing: Probing) -> None:
        self.session.update(probing=probing)

    def _failed(self, wanted: Wanted, again: Callable[[], None], error: BaseException) -> None:
        self._show(replace(self.session.probing, running=False, message=str(error)))
        if isinstance(error, UnconfirmedHostError):
            if self.runs.may_send(error.host):
                hosts.confirm(error.host)
                self.jobs.cancel(SLOT)
                again()
            return
        report(self.session, error)

    def _ended(self) -> None:
        if self.session.probing.running:
            self._show(replace(self.session.probing, running=False))
