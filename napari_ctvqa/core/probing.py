"""Probing: what the probes of this window have found so far; state of the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.probe_results import ProbeAnswer, ProbeSummary


@dataclass(frozen=True)
class Probing:
    """How far the probes are, and what they found; all of it is in the file ``path``.

    ``answers`` are by question id, then by probe. ``found`` and ``behaviour`` are over all of
    them. ``seconds_left`` is None until it can be estimated.
    """

    running: bool = False
    model: str = ""
    done: int = 0
    total: int = 0
    failed: int = 0
    seconds_left: float | None = None
    message: str = ""
    path: str = ""
    answers: Mapping[str, Mapping[str, ProbeAnswer]] | None = None
    found: tuple[ProbeSummary, ...] = ()
    behaviour: tuple[str, ...] = ()

    def of(self, question_id: str) -> Mapping[str, ProbeAnswer]:
        """Return the answers to the probes of one question, by probe."""
        return (self.answers or {}).get(question_id, {})
