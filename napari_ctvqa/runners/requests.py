"""One request to a model: what is heard of it, and what is kept of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.confidence import KEY
from napari_ctvqa.core.events import (
    Again,
    Done,
    Event,
    Failed,
    FailureKind,
    Odds,
    Tokens,
    Usage,
    Warned,
)

if TYPE_CHECKING:
    from threading import Event as Flag

    from napari_ctvqa.core.asking import Ask, Preset
    from napari_ctvqa.core.ports import Family, Way
    from napari_ctvqa.core.records import ToolCall

MAX_TEXT = 1_000_000
"""Characters of one text; a model that writes more has lost itself."""


@dataclass
class Heard:
    """What came of one request."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reason: str = ""
    failed: Failed | None = None
    thinking: str = ""
    """What a server sent apart as reasoning."""


@dataclass
class Facts:
    """What is known of one answer beside its text; becomes ``Prediction.record``."""

    notes: list[str] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    whole_text: str = ""
    thinking: list[str] = field(default_factory=list)
    """Reasoning that a server sent apart from the text, request by request."""
    failed: Failed | None = None
    servers: list[str] = field(default_factory=list)
    """Which of several servers answered, request by request, each once."""

    odds: Odds | None = None
    """How likely the options were, of the last request that told."""
    confidence: Mapping[str, Any] | None = None

    def note(self, text: str) -> None:
        """Add a note once."""
        if text and text not in self.notes:
            self.notes.append(text)

    def record(self, read: str) -> Mapping[str, Any]:
        """Return what is kept with the answer, plain data."""
        kept: dict[str, Any] = {"note": "; ".join(self.notes)} if self.notes else {}
        if self.whole_text and self.whole_text != read:
            kept["whole_text"] = self.whole_text
        if any(self.thinking):
            kept["thinking"] = "\n\n".join(self.thinking)[:MAX_TEXT]
        if self.failed is not None:
            said = self.failed
            kept["failure"] = {"kind": said.kind.value, "hint": said.hint, "detail": said.detail}
            kept |= {"partial_text": said.partial} if said.partial else {}
        if self.servers:
            kept["server"] = ", ".join(self.servers)
        if self.usage:
            kept["usage"] = _added(self.usage)
        if self.confidence is not None:
            kept[KEY] = self.confidence
        return MappingProxyType(kept)


def _added(usage: list[Usage]) -> dict[str, Any]:
    """Return the counts and times of all requests; None where one of them is not known."""
    first, rows = usage[0], [asdict(one) for one in usage]
    total: dict[str, Any] = {"requests": len(usage), "first_token_s": first.first_token_s}
    for key in ("prompt_tokens", "new_tokens", "seconds"):
        values = [row[key] for row in rows]
        total[key] = None if None in values else sum(values)
    return total


@dataclass(frozen=True)
class Speaker:
    """A model that can be asked: the family, its preset, the way to run, and how to stop."""

    family: Family
    preset: Preset
    way: Way
    cancelled: Flag

    def ask(self, ask: Ask, facts: Facts) -> Generator[Event, None, Heard]:
        """Yield what happens during one request, and return what came of it.

        Closing this closes the request. A text longer than ``MAX_TEXT`` fails, its beginning
        kept.
        """
        events = self.way.ask(ask, self.cancelled)
        pieces: list[str] = []
        thoughts: list[str] = []
        size = 0
        try:
            for event in events:
                if isinstance(event, Tokens):
                    size += len(event.text)
                    (thoughts if event.thinking else pieces).append(event.text)
                    if size > MAX_TEXT:
                        facts.thinking.append("".join(thoughts))
                        return Heard(failed=_too_long("".join(pieces)))
                elif isinstance(event, Again):
                    pieces, thoughts, size = [], [], 0
                elif isinstance(event, Usage):
                    facts.usage.append(event)
                elif isinstance(event, Odds):
                    facts.odds = event
                elif isinstance(event, Warned):
                    facts.note(event.message)
                elif isinstance(event, Failed):
                    facts.thinking.append("".join(thoughts))
                    partial = (event.partial or "".join(pieces))[:MAX_TEXT]
                    return Heard(failed=replace(event, partial=partial))
                elif isinstance(event, Done):
                    facts.thinking.append(event.thinking)
                    if event.server and event.server not in facts.servers:
                        facts.servers.append(event.server)
                    return _ended(event)
                yield event
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()
        message = f"{self.way.title} ended without saying whether the answer is complete."
        return Heard(failed=Failed(FailureKind.BAD_OUTPUT, message, partial="".join(pieces)))

    def read(self, came: Heard, ask: Ask, facts: Facts) -> str:
        """Return the text to score, and note what a reader should know of the whole."""
        prompt = next((m.text for m in reversed(ask.messages) if m.role == "user"), "")
        written = self._as_written(came)
        text = self.family.read(self.preset, written, prompt)
        facts.whole_text = came.text
        reading_notes = getattr(self.family, "reading_notes", None)
        for note in reading_notes(self.preset, written, prompt) if reading_notes else ():
            facts.note(note)
        if came.reason == "length":
            facts.note(f"cut off at {ask.sampling.max_new_tokens} new tokens")
        if came.text.strip() and not text.strip() and reading_notes is None:
            facts.note("without thinking and marks nothing is left of the text")
        said = text.strip()
        if said in ask.meanings:
            facts.note(f"{said!r} is taken for {ask.meanings[said]}")
            return ask.meanings[said]
        return text

    def calls(self, came: Heard) -> tuple[tuple[ToolCall, ...], str]:
        """Return the tool calls in a text, and what had to be mended."""
        return self.family.calls(self.preset, self._as_written(came))

    def _as_written(self, came: Heard) -> str:
        """Return the text as the model wrote it: thinking that a server took out is put back."""
        if not came.thinking or "think" not in self.preset.strip:
            return came.text
        thinking = came.thinking.replace("</think>", "")
        return f"<think>{thinking}</think>{came.text}"


def _ended(done: Done) -> Heard:
    if done.reason == "cancelled":
        stopped = Failed(FailureKind.CANCELLED, "Stopped.", partial=done.text[:MAX_TEXT])
        return Heard(failed=stopped)
    if len(done.text) > MAX_TEXT:
        return Heard(failed=_too_long(done.text))
    return Heard(done.text, done.calls, done.reason, thinking=done.thinking)


def _too_long(partial: str) -> Failed:
    return Failed(
        FailureKind.TOO_LONG,
        f"The model wrote more than {MAX_TEXT} characters; the answer was stopped.",
        "Set a smaller number of new tokens, or another model.",
        partial=partial[:MAX_TEXT],
    )
