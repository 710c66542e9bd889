"""Prober: asks the chosen model again with one thing changed, one batch of probes at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.probing import Probing
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.choices import UnconfirmedHostError
from napari_ctvqa.runners.probe_reports import kept_probing, probe_reports
from napari_ctvqa.widgets.problems import report
from napari_ctvqa.widgets.runs import THIS_QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.desk import Begun
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs
    from napari_ctvqa.widgets.runs import Runs

SLOT = "probes"


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
        self.session.update(probing=Probing())

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
