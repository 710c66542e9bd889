"""Segmenter: lets a program segment what the open case has no masks of, and stops it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.segmenting import Segmented, Segmenting, SegmentProgress, lacking
from napari_ctvqa.evidence.chains import wanted_structures
from napari_ctvqa.io.segmentations import kept
from napari_ctvqa.runners.segmenter import segment_steps
from napari_ctvqa.widgets.problems import report

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.jobs import Jobs

SLOT = "segment"


class Segmenter:
    """Starts and stops a segmentation; how far it is appears in ``session.segmenting``.

    Parameters
    ----------
    session, jobs
        Where it appears, and what runs it.
    """

    def __init__(self, session: Session, jobs: Jobs) -> None:
        self.session, self.jobs = session, jobs
        self._ct: Path | None = None
        """The CT that ``made`` is told of."""

    def start(self) -> None:
        """Segment what the current question needs, or else the usual organs, where none is."""
        case, question = self.session.case, self.session.question
        if SLOT in self.jobs:
            return
        ct = case.files.ct if case is not None else None
        wanted = wanted_structures(question) if question is not None else ()
        structures = lacking(case, wanted) if case is not None else ()
        if ct is None or not structures:
            why = "Every organ that is asked for has a mask." if ct else "There is no case yet."
            report(self.session, CtvqaError(why, hint="Open a case that lacks masks."))
            return
        self._ct = ct
        begun = SegmentProgress("starting")
        self._update(running=True, progress=begun, message="")
        self.jobs.start(SLOT, segment_steps(ct, structures), self._show, self._failed, self._ended)

    def cancel(self) -> None:
        """Stop: the program is ended, and nothing of it is kept."""
        if SLOT in self.jobs:
            self.jobs.cancel(SLOT)
            self._update(running=False, progress=None, message="Stopped.")

    def use(self, use: bool) -> None:
        """Let runs of the live kit take a program's masks where there is no file, or not."""
        self.session.update(use_segmented=use)

    def look(self) -> None:
        """Tell what a program has made of the case that is shown."""
        case = self.session.case
        ct = case.files.ct if case is not None else None
        if ct != self._ct:
            self._ct = ct
            self._tell_made("")

    def _tell_made(self, message: str) -> None:
        place = kept(self._ct) if self._ct is not None else None
        made = () if place is None else place.structures()
        by = "" if place is None else f"{place.program} {place.version}"
        self._update(made=made, by=by, message=message)

    def _show(self, item: SegmentProgress | Segmented) -> None:
        if isinstance(item, SegmentProgress):
            self._update(progress=item)
            return
        missing = f", not {', '.join(item.missing)}" if item.missing else ""
        self._tell_made(f"Segmented {len(item.structures)} structures{missing}.")

    def _failed(self, error: BaseException) -> None:
        self._update(running=False, progress=None, message=str(error))
        report(self.session, error)

    def _ended(self) -> None:
        self._update(running=False, progress=None)

    def _update(self, **changes: object) -> None:
        now: Segmenting = replace(self.session.segmenting, **changes)  # type: ignore[arg-type]
        if now != self.session.segmenting:
            self.session.update(segmenting=now)
