"""An answer put together from the pieces of a chat stream, or from a whole completion."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from napari_ctvqa.core.dialects import too_deep
from napari_ctvqa.core.events import Usage
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.runners._chat_odds import MOST_TOKENS, StepTold, step_of
from napari_ctvqa.runners._sse import json_object

ANSWER_CHARACTERS = 2_000_000
"""Of text, thinking and calls together; a longer answer is cut there and has failed."""
MOST_CALLS = 64
"""Of one turn; an answer with more has failed."""
_MOST_TOKENS = 10**12
"""A count beyond it is none: JSON knows numbers of any length, and so do sums of them."""
_NAME_CHARACTERS = 200
UNREAD = "unreadable_arguments"
"""The one argument of a call whose arguments are no JSON object: their text as it came."""
_CUT_CONTENT = re.compile(r'"content"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)')


class AnswerTooLong(Exception):
    """The answer passed ``ANSWER_CHARACTERS``; what fits is kept."""


class TooManyCalls(AnswerTooLong):
    """More than ``MOST_CALLS`` tool calls; the first ones were added."""


class BadPiece(Exception):
    """A piece that is not of the protocol."""


class _Text:
    """Text that grows; halves of a character that come in two pieces are joined."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._half = ""

    def add(self, text: str) -> str:
        """Add a piece; return what can be shown of it."""
        text = self._half + text
        # JSON can cut a character beyond U+FFFF into two escapes, and a server the text between.
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        whole = without_halves(text[:-1] if self._half else text)
        if whole:
            self.pieces.append(whole)
        return whole

    def __str__(self) -> str:
        return "".join(self.pieces)


def without_halves(text: str) -> str:
    """Return text that can be written to a file: joined pairs, and U+FFFD for lone halves."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Call:
    """A tool call whose pieces come one by one."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def whole(self) -> ToolCall:
        """Return the call; arguments that are no JSON object are kept as text under ``UNREAD``.

        So are those that are nested beyond reason.
        """
        text = "".join(self.arguments)
        arguments = json_object(text) if text.strip() else {}
        if arguments is None or too_deep(arguments):
            arguments = {UNREAD: without_halves(text)}
        return ToolCall(without_halves(self.name), arguments)


class Answer:
    """What has come so far. ``add`` takes the JSON objects of a stream in their order."""

    def __init__(self) -> None:
        self.reason = ""
        self.prompt_tokens: int | None = None
        self.new_tokens: int | None = None
        self._text = _Text()
        self._thinking = _Text()
        self._calls: list[_Call] = []
        self._size = 0
        self.steps: list[StepTold] = []
        """What the server told of each token's probability, where it was asked to."""

    @property
    def text(self) -> str:
        """Return the text so far."""
        return str(self._text)

    @property
    def thinking(self) -> str:
        """Return the reasoning that came apart from the text so far."""
        return str(self._thinking)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls that have a name."""
        return tuple(call.whole() for call in self._calls if call.name)

    @property
    def begun(self) -> bool:
        """Return whether anything of an answer has come."""
        return bool(self._size or self._calls)

    def usage(self, first_token_s: float | None, seconds: float) -> Usage:
        """Return the counts of the server with our times."""
        return Usage(self.prompt_tokens, self.new_tokens, first_token_s, seconds)

    def add(self, piece: Mapping[str, Any]) -> tuple[str, str]:
        """Take one object of the stream, or a whole completion; return (text, thinking) to show.

        Raises
        ------
        AnswerTooLong
            When the answer grows too long; what fits was added.
        BadPiece
            When the object is not of the protocol.
        """
        self._count(piece.get("usage"))
        choices = piece.get("choices")
        if choices is None:
            return "", ""
        if not isinstance(choices, list):
            raise BadPiece("choices is no list")
        shown = [self._choice(choice) for choice in choices]
        return "".join(text for text, _ in shown), "".join(thinking for _, thinking in shown)

    def _count(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
            self.new_tokens = _count(usage.get("completion_tokens"), self.new_tokens)

    def _choice(self, choice: object) -> tuple[str, str]:
        if not isinstance(choice, Mapping):
            raise BadPiece("a choice is no object")
        if choice.get("index") not in (None, 0):
            return "", ""
        part = choice.get("delta") or choice.get("message") or {}
        if not isinstance(part, Mapping):
            raise BadPiece("a delta is no object")
        self._add_steps(choice.get("logprobs"))
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self.reason = reason
        thinking = part.get("reasoning_content") or part.get("reasoning")
        shown_thinking = self._thinking.add(self._room(_plain(thinking)))
        shown = self._text.add(
            self._room(_plain(part.get("content")) + _plain(part.get("refusal")))
        )
        self._add_calls(part.get("tool_calls"))
        if self._size > ANSWER_CHARACTERS:
            raise AnswerTooLong
        return shown, shown_thinking

    def _add_steps(self, told: object) -> None:
        """Take what is told of tokens; what is no probability is passed over, the answer counts."""
        content = told.get("content") if isinstance(told, Mapping) else None
        for entry in content if isinstance(content, list) else ():
            if len(self.steps) < MOST_TOKENS and (step := step_of(entry)) is not None:
                self.steps.append(step)

    def _room(self, text: str) -> str:
        left = max(0, ANSWER_CHARACTERS - self._size)
        self._size += len(text)
        return text[:left]

    def _add_calls(self, pieces: object) -> None:
        if pieces is None:
            return
        if not isinstance(pieces, list):
            raise BadPiece("tool_calls is no list")
        for place, piece in enumerate(pieces):
            function = piece.get("function") if isinstance(piece, Mapping) else None
            if not isinstance(function, Mapping):
                raise BadPiece("a tool call has no function")
            self._add_to(self._call_of(piece, function, place), piece, function)

    def _call_of(self, piece: Mapping[str, Any], function: Mapping[str, Any], place: int) -> _Call:
        """Return the call that a piece belongs to.

        By its index; servers that send whole calls leave it out or repeat it, and then a new id
        with a name begins a new call.
        """
        index = piece.get("index")
        given = isinstance(index, int) and not isinstance(index, bool)
        at = index if isinstance(index, int) and given else place
        call_id, named = str(piece.get("id") or ""), bool(function.get("name"))
        known = self._calls[at] if 0 <= at < len(self._calls) else None
        another = known is not None and named and bool(call_id) and call_id != known.id
        whole = not given and named
        if known is not None and not another and not whole:
            return known
        if known is None and not named and self._calls:
            return self._calls[-1]
        if len(self._calls) >= MOST_CALLS:
            raise TooManyCalls
        self._calls.append(_Call())
        return self._calls[-1]

    def _add_to(self, call: _Call, piece: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        call.id = call.id or str(piece.get("id") or "")[:_NAME_CHARACTERS]
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name and name != call.name:
            call.name = (call.name + name)[:_NAME_CHARACTERS]
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            call.arguments.append(self._room(arguments))


def _plain(content: object) -> str:
    """Return content as text; some servers send it as a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    raise BadPiece("content is no text")


def _count(value: object, before: int | None) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return before


def content_of_cut_line(line: str) -> str:
    """Return the text at the beginning of an object that was too long to be read whole."""
    found = _CUT_CONTENT.search(line)
    if found is None:
        return ""
    written = found.group(1)[:ANSWER_CHARACTERS]
    for cut in range(7):  # an escape of up to six characters may be cut at the end
        whole = json_object(f'{{"text": "{written[: len(written) - cut]}"}}')
        if whole is not None:
            return without_halves(str(whole["text"]))
    return ""
