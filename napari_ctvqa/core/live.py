"""LiveRun: what a model has done so far for one question, built event by event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.events import (
    Again,
    CallMade,
    CallReturned,
    Done,
    Failed,
    FailureKind,
    Odds,
    Outlined,
    Segmented,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Prepared
    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.events import Event

MAX_TEXT = 2_000_000
"""Characters of live text that are kept for showing; the answer itself is kept by the runner."""


@dataclass(frozen=True)
class LiveCall:
    """A tool call under way or done; ``returned`` is None until then."""

    made: CallMade
    returned: CallReturned | None = None


@dataclass(frozen=True)
class LiveRun:
    """One answer as it comes.

    ``text`` is what the model has written in all turns, a blank line between turns. ``sent`` holds
    what went in, turn by turn. ``began_s`` and ``ended_s`` are ``time.monotonic`` seconds;
    ``ended_s`` is None while it runs. ``recorded`` marks a replay.
    """

    question_id: str
    model: str
    title: str = ""
    host: str = ""
    recorded: bool = False
    began_s: float = 0.0
    ended_s: float | None = None
    status: str = ""
    fraction: float | None = None
    text: str = ""
    thinking: str = ""
    """Reasoning that a server sends apart; never part of the answer."""
    cut: bool = False
    calls: tuple[LiveCall, ...] = ()
    sent: tuple[Prepared, ...] = ()
    turn_from: int = 0
    """Where the text of the last turn begins."""
    usage: Usage | None = None
    new_tokens: int = 0
    """Of the turns that have ended."""
    warnings: tuple[Warned, ...] = ()
    failure: Failed | None = None
    reason: str = ""
    """Why the last turn ended."""
    masks: tuple[Mask, ...] = ()
    """What a volume model outlined, on the CT's grid."""

    @property
    def running(self) -> bool:
        """Return whether more may come."""
        return self.ended_s is None

    def after(self, event: Event) -> LiveRun:
        """Return what is known once this has happened."""
        if isinstance(event, Tokens):
            return self._with_text(event)
        if isinstance(event, Status):
            return replace(self, status=event.text, fraction=event.fraction)
        if isinstance(event, Sent):
            text = f"{self.text}\n\n" if self.text else ""
            return replace(self, sent=(*self.sent, event.prepared), text=text, turn_from=len(text))
        if isinstance(event, CallMade):
            return replace(self, calls=(*self.calls, LiveCall(event)))
        if isinstance(event, CallReturned):
            return replace(self, calls=_returned(self.calls, event))
        if isinstance(event, Usage):
            return replace(self, usage=event, new_tokens=self.new_tokens + (event.new_tokens or 0))
        if isinstance(event, Odds):
            return self  # told with the answer
        if isinstance(event, Warned):
            return replace(self, warnings=(*self.warnings, event))
        if isinstance(event, Again):
            return replace(self, status=event.text, text=self.text[: self.turn_from])
        if isinstance(event, Segmented):
            return self
        if isinstance(event, Outlined):
            return replace(self, masks=(*self.masks, event.mask))
        if isinstance(event, Done):
            return replace(self, reason=event.reason, fraction=None)
        if event.kind is FailureKind.CANCELLED:
            return replace(self, reason="cancelled", fraction=None)
        return replace(self._with_rest(event.partial), failure=event, fraction=None)

    def _with_rest(self, partial: str) -> LiveRun:
        """Return it with what had come of a failed turn and was not shown as it came."""
        shown = self.text[self.turn_from :]
        if len(partial) <= len(shown) or not partial.startswith(shown):
            return self
        return self._with_text(Tokens(partial[len(shown) :]))

    def _with_text(self, event: Tokens) -> LiveRun:
        if event.thinking:
            return replace(self, thinking=(self.thinking + event.text)[:MAX_TEXT])
        room = MAX_TEXT - len(self.text)
        if room <= 0:
            return self if self.cut else replace(self, cut=True)
        return replace(self, text=self.text + event.text[:room], cut=len(event.text) > room)


def _returned(calls: tuple[LiveCall, ...], event: CallReturned) -> tuple[LiveCall, ...]:
    """Return the calls with the oldest open one of that name and arguments closed."""
    for number, call in enumerate(calls):
        if call.returned is None and call.made.call == event.call:
            done = replace(call, returned=event)
            return (*calls[:number], done, *calls[number + 1 :])
    return (*calls, LiveCall(CallMade(event.step, event.call), event))
