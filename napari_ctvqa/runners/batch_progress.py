"""How far a batch is, and how well it does so far: told after each answer, and now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.events import Again, CallMade, Sent, Status, Tokens
from napari_ctvqa.core.records import Outcome, Prediction, Score, Turn

if TYPE_CHECKING:
    from napari_ctvqa.core.servers import ServerCount

SHOWN_EVERY_S = 0.2
_WORDS = 200
"""Characters of the words that are shown."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One step of a batch.

    ``done`` counts the questions of this selection that have an answer, earlier runs included;
    ``failed`` those whose answer is an ``[ERROR]``. ``prediction`` is the one just made: it is on
    disk. ``seconds_left`` is None until it can be estimated.
    """

    done: int
    total: int
    failed: int
    prediction: Prediction | None = None
    message: str = ""
    seconds_left: float | None = None
    per_second: float = 0.0
    words: str = ""
    """The last words of the answer that is being written, foreign text as it came."""
    metrics: Mapping[str, Any] | None = None
    """Only in the last step, when every question of the selection has its answer."""
    score: Score | None = None
    """Of ``prediction``."""
    credit: float = 0.0
    """The official scorer's credit, added up over ``scored`` answers, earlier ones included."""
    scored: int = 0
    servers: tuple[ServerCount, ...] = ()
    """What each of several servers has done in this run."""

    @property
    def accuracy(self) -> float | None:
        """Return the mean official credit so far, 0 to 1; None where nothing is scored."""
        return self.credit / self.scored if self.scored else None


def official_credit(score: Score) -> float | None:
    """Return what the official scorer gives an answer, 0 to 1; None for one it leaves out."""
    if score.value is not None:
        return score.value
    if score.official is Outcome.UNSCORED:
        return None
    return float(score.official is Outcome.RIGHT)


@dataclass(slots=True)
class Counting:
    """The counts of a batch that runs, and the words that are being written."""

    total: int
    done: int
    failed: int
    credit: float = 0.0
    scored: int = 0
    made: int = 0
    began: float = 0.0
    text: str = ""
    words: str = ""
    shown: float = 0.0
    speaker: str = ""
    """The question whose words are shown, where several are answered at once."""
    servers: tuple[ServerCount, ...] = ()
    earlier: list[str] = field(default_factory=list)
    """Questions that an earlier run answered and whose credit is not added yet."""
    hopeless: int = 0
    """Failures in a row for a reason that stays."""

    def hears(self, event: object, question_id: str = "") -> bool:
        """Take an event's words and return whether it is time to show them."""
        self.speaker = self.speaker or question_id
        if question_id == self.speaker:
            self._take_words(event)
        now = time.monotonic()
        if isinstance(event, Turn) or now - self.shown < SHOWN_EVERY_S:
            return False
        self.shown = now
        return True

    def _take_words(self, event: object) -> None:
        if isinstance(event, Tokens):
            self.text = (self.text + event.text)[-_WORDS:]
            self.words = self.text
        elif isinstance(event, Status | CallMade):
            said = event.text if isinstance(event, Status) else f"calls {event.call.name}"
            self.words = said[:_WORDS]
        elif isinstance(event, Sent | Again):
            self.text = self.words = ""

    def count(self, prediction: Prediction, score: Score | None) -> None:
        """Count an answer that was just made."""
        if prediction.question_id == self.speaker or not self.speaker:
            self.words = self.text = self.speaker = ""
        self.done += 1
        self.made += 1
        self.failed += prediction.failed
        self.add(score)

    def add(self, score: Score | None) -> None:
        """Add the official credit of an answer."""
        credit = None if score is None else official_credit(score)
        if credit is not None:
            self.credit += credit
            self.scored += 1

    def now(
        self,
        prediction: Prediction | None = None,
        message: str = "",
        score: Score | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> BatchProgress:
        """Return where it is."""
        if not self.began:
            self.began = time.monotonic()
        spent = time.monotonic() - self.began
        rate = self.made / spent if spent > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else None
        return BatchProgress(
            self.done,
            self.total,
            self.failed,
            prediction,
            message,
            left,
            rate,
            self.words,
            metrics,
            score,
            self.credit,
            self.scored,
            self.servers,
        )
