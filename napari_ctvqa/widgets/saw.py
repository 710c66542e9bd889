"""Saw: keeps ``session.saw`` what a model was given for the current question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.runners.sight import saw_reports
from napari_ctvqa.widgets.listening import Listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.runners.sight import SawReport
    from napari_ctvqa.widgets.jobs import Jobs


class Saw:
    """Works it out anew, in the background, when the question, its chain or the pictures change."""

    def __init__(self, session: Session, jobs: Jobs, opened: Callable[[], Opened | None]) -> None:
        self.session, self.jobs, self.opened = session, jobs, opened
        self._turns: tuple[str, int] = ("", 0)
        self._listening = Listening(
            (session.chains_changed, self._begin),
            (session.live_changed, self._on_words),
        )

    def close(self) -> None:
        """Let go of the session."""
        self._listening.close()

    def _on_words(self) -> None:
        """Words come thirty times a second; pictures only with a turn."""
        live = self.session.live
        turns = (live.question_id, len(live.sent)) if live is not None else ("", 0)
        if turns != self._turns:
            self._turns = turns
            self._begin()

    def _begin(self) -> None:
        session, opened = self.session, self.opened()
        question = session.question
        if question is None or opened is None:
            session.update(saw=None)
            return
        case = session.case
        if case is not None and session.absent_means_none:
            case = absent_means_none(case)
        if session.saw is not None and session.saw.question_id != question.id:
            session.update(saw=None)
        self.jobs.start(
            "saw",
            saw_reports(
                opened, question, case, session.reference_chain, session.runs, session.live
            ),
            self._show,
        )

    def _show(self, report: SawReport) -> None:
        question = self.session.question
        if question is not None and question.id == report.question_id:
            self.session.update_unhurried(saw=report)
