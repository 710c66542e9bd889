"""Auditor: works out the audit of a run off the GUI thread, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from napari_ctvqa.core.audited import Audited, audited

if TYPE_CHECKING:
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs

SLOT = "audit"


class Auditor:
    """Fulfils ``wishes.audit``; what it finds appears in ``session.audited``.

    A wish that comes while one is worked out is fulfilled after it, the last of several only: a
    run that grows is audited as fast as that goes, and no faster.
    """

    def __init__(self, session: Session, jobs: Jobs, opened: Callable[[], Opened | None]) -> None:
        self.session, self.jobs, self.opened = session, jobs, opened
        self._due = ""

    def start(self, model: str) -> None:
        """Audit a model's run as it is now."""
        self._due = model
        if SLOT not in self.jobs:
            self._next()

    def forget(self) -> None:
        """Drop what is worked out: something else is opened."""
        self._due = ""
        self.jobs.cancel(SLOT)

    def _next(self) -> None:
        model, self._due = self._due, ""
        opened, run = self.opened(), self.session.runs.get(model)
        if run is None or opened is None or opened.benchmark is None or opened.questions is None:
            return
        scores = self.session.scores.get(model, {})
        form = run.answer_format or self.session.answer_format

        def found() -> Generator[Audited, None, None]:
            assert opened.benchmark is not None
            assert opened.questions is not None
            yield audited(opened.benchmark, opened.questions, run, scores, form)

        self.jobs.start(SLOT, found(), self._show, None, self._next)

    def _show(self, item: Audited) -> None:
        self.session.update(audited=item)
