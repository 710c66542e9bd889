"""Validator: recomputes the references of what the filter shows, in processes of their own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.checks import Validation
from napari_ctvqa.runners.desk import validation_reports
from napari_ctvqa.runners.kept import checks_path
from napari_ctvqa.runners.validate import validate
from napari_ctvqa.widgets.problems import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.widgets.jobs import Jobs

SLOT = "validate"


class Validator:
    """Starts and stops a validation; what it finds appears in ``session.validation``.

    Parameters
    ----------
    session, jobs
        Where checks appear, and what runs them.
    opened
        Returns what is open, None for nothing.
    """

    def __init__(self, session: Session, jobs: Jobs, opened: Callable[[], Opened | None]) -> None:
        self.session, self.jobs, self.opened = session, jobs, opened

    def start(self) -> None:
        """Validate what the filter shows; one validation at a time."""
        opened = self.opened()
        if SLOT in self.jobs or opened is None or opened.questions is None:
            return
        rows = self.session.rows.tolist()
        out = checks_path(opened)
        self.session.update(validation=Validation(running=True, total=len(rows), path=str(out)))
        steps = validate(
            opened,
            rows,
            out=out,
            jobs=jobs_beside_a_window(),
            assume_none=self.session.absent_means_none,
            polite=True,
        )
        self.jobs.start(
            SLOT, validation_reports(steps, str(out)), self._show, self._failed, self._ended
        )

    def cancel(self) -> None:
        """Stop; what was checked is kept."""
        if SLOT in self.jobs:
            self.jobs.cancel(SLOT)
            self._stopped("Stopped.")

    def _show(self, validation: Validation) -> None:
        self.session.update(validation=validation)

    def _failed(self, error: BaseException) -> None:
        self._stopped(str(error))
        report(self.session, error)

    def _ended(self) -> None:
        if self.session.validation.running:
            self._stopped("")

    def _stopped(self, message: str) -> None:
        validation = self.session.validation
        said = "; ".join(part for part in (message, validation.message) if part)
        self.session.update(validation=replace(validation, running=False, message=said))


def jobs_beside_a_window() -> int:
    """Return how many processes to use so that one processor is left to the window."""
    return max(1, (os.cpu_count() or 1) - 1)
