"""ChainWork: keeps the chains of the current question right; works out only what is new."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.runners.desk import Chains, chains_of, has_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Prediction, Question
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.jobs import Jobs

NO_CHAINS: dict[str, Any] = {"reference_chain": None, "model_chains": {}, "comparisons": {}}


@dataclass(frozen=True)
class _Asked:
    """What chains are worked out of. Compared by identity: a case may hold gigabytes."""

    question: Question
    case: Case | None
    assume_none: bool
    predictions: Mapping[str, Prediction]

    def same_base(self, other: _Asked | None) -> bool:
        """Return whether the reference chain is the same."""
        return (
            other is not None
            and self.question is other.question
            and self.case is other.case
            and self.assume_none is other.assume_none
        )

    def same(self, other: _Asked | None) -> bool:
        return (
            other is not None
            and self.same_base(other)
            and list(self.predictions) == list(other.predictions)
            and all(p is other.predictions[model] for model, p in self.predictions.items())
        )


class ChainWork:
    """Sets the session's chains in the background; an answer costs the chain of that answer.

    Parameters
    ----------
    session, jobs
        Whose chains, and what runs the work.
    on_failed
        Called with an exception, in the GUI thread.
    on_shown
        Called when chains have arrived.
    """

    def __init__(
        self,
        session: Session,
        jobs: Jobs,
        on_failed: Callable[[BaseException], None],
        on_shown: Callable[[], None],
    ) -> None:
        self.session, self.jobs = session, jobs
        self._on_failed, self._on_shown = on_failed, on_shown
        self._asked: _Asked | None = None
        """What the chains that are shown, or are being worked out, are of."""
        self._known: tuple[_Asked, Chains] | None = None

    def forget(self) -> None:
        """Begin anew: the session's chains were taken away."""
        self.jobs.cancel("chains")
        self._asked = self._known = None

    def begin(self, case_key: str) -> None:
        """Work out what is missing of the chains, where ``case_key`` is the question's case."""
        session = self.session
        question, case = session.question, session.case
        if question is None or case_key != question.case_id:
            return
        if case is not None and not has_wanted(question, case):
            return
        if case is None and session.case_state is not CaseState.FAILED:
            return
        asked = _Asked(question, case, session.absent_means_none, session.predictions)
        if asked.same(self._asked):
            return
        self._asked = asked
        known = self._known
        before = known[1] if known is not None and asked.same_base(known[0]) else None
        if case is not None and asked.assume_none:
            case = absent_means_none(case)
        self.jobs.start(
            "chains",
            chains_of(question, case, asked.predictions, before),
            partial(self._show, asked),
            self._failed,
        )

    def _failed(self, error: BaseException) -> None:
        self._asked = None
        self._on_failed(error)

    def _show(self, asked: _Asked, chains: Chains) -> None:
        question = self.session.question
        if question is None or question.id != asked.question.id:
            return
        self._known = (asked, chains)
        self.session.update_unhurried(
            reference_chain=chains.reference,
            model_chains=chains.by_model,
            comparisons=chains.comparisons,
        )
        self._on_shown()
