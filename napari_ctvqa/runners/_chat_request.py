"""One streamed request: what comes back, piece by piece, until the answer or a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.events import Done, Event, Failed, FailureKind, Status, Tokens, Warned
from napari_ctvqa.runners._chat_answer import (
    ANSWER_CHARACTERS,
    MOST_CALLS,
    UNREAD,
    Answer,
    AnswerTooLong,
    BadPiece,
    TooManyCalls,
    content_of_cut_line,
)
from napari_ctvqa.runners._chat_odds import odds
from napari_ctvqa.runners._exchange import POLL_S, Ended, Exchange, Head, headers_with, rest_of
from napari_ctvqa.runners._server_errors import (
    DETAIL_CHARACTERS,
    Request,
    asked_to_wait,
    failure_of_answer,
    failure_of_kind,
    failure_without_answer,
    is_html,
    kind_of_text,
    misses_tools,
    not_a_server,
    not_connected,
    refused_fields,
    server_text,
    text_of_error,
)
from napari_ctvqa.runners._sse import EventStream, LineTooLong, Unreadable, json_object

if TYPE_CHECKING:
    from threading import Event as Flag

    from napari_ctvqa.core.asking import Ask
    from napari_ctvqa.runners.server_keys import Key

_BODY_BYTES = 32 * 1024 * 1024
_ERROR_BYTES = 256 * 1024
_ERROR_BODY_S = 10.0
_STATUS_S = 1.0
_CONNECT_S = 20.0
"""For looking up the name, too, which knows no time limit of its own."""
_CUT_BELOW = 0.5
"""A prompt counted as less than this share of our estimate has been cut."""
_TOKENS_OF_A_PICTURE = 16
"""The fewest that any known model spends on one."""
_REASONS = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}
_REASONS |= {"function_call": "tool_calls", "max_tokens": "length", "eos": "stop"}

_Piece = dict[str, Any] | Unreadable


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a server may stay silent, in seconds."""

    first_token_s: float = 600.0
    next_token_s: float = 60.0


class ChatRequest:
    """One request: ``events`` yields what comes of it.

    Afterwards ``refused`` names fields to leave out, ``misses_tools`` says to list the tools that
    were called before, and ``wait_s`` after how many seconds to ask again (only with ``may_wait``);
    with any of them there was no answer and no failure.
    """

    def __init__(
        self,
        request: Request,
        ask: Ask,
        sent: Mapping[str, Any],
        key: Key,
        limits: Limits,
        *,
        may_wait: bool = False,
    ) -> None:
        self.refused: frozenset[str] = frozenset()
        self.misses_tools = False
        self.wait_s: float | None = None
        self._may_wait = may_wait
        self._request = request
        self._ask = ask
        self._sent = sent
        self._key = key
        self._limits = limits
        self._answer = Answer()
        self._stream = EventStream()
        self._body = bytearray()
        self._whole: bool | None = None
        self._pending: list[str] = []
        self._pending_thinking: list[str] = []
        self._began = self._heard = self._flushed = self._told = time.monotonic()
        self._first_token_s: float | None = None
        self._bad = ""

    def events(self, content: bytes, cancelled: Flag) -> Iterator[Event]:
        """Send the request and yield what happens."""
        url = f"{self._request.url}/chat/completions"
        exchange = Exchange("POST", url, headers=headers_with(self._key), content=content)
        with closing(exchange):
            yield from self._read(exchange, cancelled)

    def _read(self, exchange: Exchange, cancelled: Flag) -> Iterator[Event]:
        head: Head | None = None
        end: Failed | None = None
        while end is None and not self._stream.done:
            if cancelled.is_set():
                yield from self._tokens()
                yield Done(self._answer.text, (), "cancelled", self._answer.thinking)
                return
            item = exchange.next(POLL_S)
            if isinstance(item, Head):
                head = item
                if head.status != 200:
                    yield from self._refusal(exchange, head, cancelled)
                    return
            elif isinstance(item, bytes):
                end = self._take(item)
            elif isinstance(item, Ended):
                end = self._ended(head, item)
                break
            end = end or self._silent(exchange)
            yield from self._progress()
        yield from self._tokens()
        yield from self._finish(end)

    def _refusal(self, exchange: Exchange, head: Head, cancelled: Flag) -> Iterator[Event]:
        body = rest_of(exchange, _ERROR_BYTES, _ERROR_BODY_S, cancelled)
        if cancelled.is_set():
            yield Done("", (), "cancelled")
            return
        text = server_text(body)
        if self._ask.closed_tools:
            self.misses_tools = misses_tools(head.status, text, self._sent)
        if not self.misses_tools:
            self.refused = refused_fields(head.status, text, self._sent)
        self.wait_s = asked_to_wait(head) if self._may_wait else None
        if not self.refused and not self.misses_tools and self.wait_s is None:
            yield failure_of_answer(self._request, head.status, body, head.headers)

    def _take(self, chunk: bytes) -> Failed | None:
        """Take a piece of a good answer; return the failure that ends it."""
        if self._whole is None:
            self._body += chunk
            start = self._body.lstrip()
            if not start:
                return None
            # By what comes, not by its declared type: servers answer JSON to a streamed request.
            self._whole = start[:1] in b"{[<"
            chunk, self._body = bytes(self._body), bytearray()
        if self._whole:
            self._body += chunk
            if len(self._body) > _BODY_BYTES:
                return self._too_long(content_of_cut_line(self._body.decode("utf-8", "replace")))
            return None
        return self._pieces(lambda: self._stream.feed(chunk))

    def _pieces(self, source: Callable[[], Iterator[_Piece]]) -> Failed | None:
        try:
            for piece in source():
                if isinstance(piece, Unreadable):
                    self._bad = piece.text
                    if piece.text.lstrip().startswith('{"error"'):
                        return self._reported(piece.text)
                    continue
                if (failure := self._piece(piece)) is not None:
                    return failure
        except LineTooLong as error:
            return self._too_long(content_of_cut_line(error.start))
        return None

    def _piece(self, piece: Mapping[str, Any]) -> Failed | None:
        if piece.get("error") or piece.get("object") == "error" or set(piece) == {"detail"}:
            return self._reported(text_of_error(piece) or json.dumps(piece))
        try:
            text, thinking = self._answer.add(piece)
        except TooManyCalls:
            return Failed(
                FailureKind.TOO_LONG,
                f"{self._request.model} made more than {MOST_CALLS} tool calls in one turn and was "
                "stopped.",
                "Lower the number of new tokens, or take another model.",
                partial=self._answer.text,
            )
        except AnswerTooLong:
            return self._too_long("")
        except BadPiece as error:
            self._bad = f"{error}: {json.dumps(piece)}"
            return None
        if self._answer.begun:
            self._heard = time.monotonic()
            if self._first_token_s is None:
                self._first_token_s = self._heard - self._began
        if text:
            self._pending.append(text)
        if thinking:
            self._pending_thinking.append(thinking)
        return None

    def _silent(self, exchange: Exchange) -> Failed | None:
        """Return the failure when the server has been silent for too long."""
        waited = time.monotonic() - self._heard
        if waited > _CONNECT_S and not exchange.connected:
            return not_connected(self._request, _CONNECT_S)
        begun = self._first_token_s is not None
        allowed = self._limits.next_token_s if begun else self._limits.first_token_s
        if waited <= allowed:
            return None
        what = "stopped in the middle of the answer" if begun else "sent no word of an answer"
        return Failed(
            FailureKind.TIMEOUT,
            f"{self._request.server} {what}: nothing came for {allowed:g} seconds.",
            "Look whether it still works on this or on other requests; fewer slices are faster.",
            partial=self._partial(),
        )

    def _progress(self) -> Iterator[Event]:
        now = time.monotonic()
        if now - self._flushed >= POLL_S:
            yield from self._tokens()
        if self._first_token_s is None and now - self._told >= _STATUS_S:
            self._told = now
            yield Status(f"Waiting for the first word ({now - self._began:.0f} s)")

    def _tokens(self) -> Iterator[Event]:
        self._flushed = time.monotonic()
        if self._pending_thinking:
            yield Tokens("".join(self._pending_thinking), thinking=True)
            self._pending_thinking = []
        if self._pending:
            yield Tokens("".join(self._pending))
            self._pending = []

    def _ended(self, head: Head | None, item: Ended) -> Failed | None:
        """Return the failure that the end of the connection means; None for a whole answer."""
        if head is None:
            return failure_without_answer(self._request, item.error)
        if self._whole and item.error is None:
            return self._whole_answer(head)
        if (failure := self._pieces(self._stream.finish)) is not None:
            return failure
        if self._stream.done or self._answer.reason:
            return None
        return self._broken(str(item.error or "") or self._stream.stray or self._bad)

    def _whole_answer(self, head: Head) -> Failed | None:
        body = bytes(self._body)
        if is_html(body, head.headers.get("content-type", "")):
            return not_a_server(self._request, "a web page", server_text(body))
        value = json_object(body.decode("utf-8", "replace"))
        if value is None or not ("choices" in value or "error" in value or "detail" in value):
            what = "something that is no chat completion"
            return not_a_server(self._request, what, server_text(body))
        failure = self._piece(value)
        if failure is None and not self._answer.reason:
            self._answer.reason = "stop"
        return failure

    def _broken(self, text: str) -> Failed:
        return Failed(
            FailureKind.BROKEN_STREAM,
            f"{self._request.server} broke off in the middle of the answer.",
            "What came is kept; look at the server's log, then run again.",
            text[:DETAIL_CHARACTERS],
            self._partial(),
        )

    def _partial(self) -> str:
        """Return the text that has come, also of an answer that was to come as a whole."""
        if self._answer.begun or not self._whole:
            return self._answer.text
        return content_of_cut_line(self._body.decode("utf-8", "replace"))

    def _reported(self, text: str) -> Failed:
        """Return the failure of an error that came inside a good answer."""
        kind = kind_of_text(text) or FailureKind.SERVER
        detail = text[:DETAIL_CHARACTERS]
        return failure_of_kind(self._request, kind, detail, self._answer.text)

    def _too_long(self, more: str) -> Failed:
        partial = (self._answer.text + more)[:ANSWER_CHARACTERS]
        return Failed(
            FailureKind.TOO_LONG,
            f"The answer of {self._request.model} is longer than {ANSWER_CHARACTERS} characters "
            "and was stopped.",
            "What came is kept; lower the number of new tokens.",
            partial=partial,
        )

    def _finish(self, failure: Failed | None) -> Iterator[Event]:
        answer = self._answer
        yield answer.usage(self._first_token_s, time.monotonic() - self._began)
        failure = failure or self._unusable()
        if failure is not None:
            yield failure
            return
        yield from self._doubts()
        if self._ask.written:
            yield odds(answer.steps, answer.text, self._ask.written)
        reason = _REASONS.get(answer.reason, "stop")
        yield Done(answer.text, answer.calls, reason, answer.thinking)

    def _unusable(self) -> Failed | None:
        """Return the failure of an answer that ended well and is none."""
        answer = self._answer
        if self._bad:
            return Failed(
                FailureKind.BAD_OUTPUT,
                f"{self._request.server} sent a piece of the answer that cannot be read.",
                "What could be read is kept, with a gap; look at the server's log.",
                self._bad[:DETAIL_CHARACTERS],
                answer.text,
            )
        if answer.reason == "content_filter":
            return Failed(
                FailureKind.SERVER,
                f"{self._request.server} withheld the answer (content filter).",
                "Word the question otherwise, or use another model.",
                partial=answer.text,
            )
        if answer.reason in ("error", "abort"):
            return self._broken(f"finish_reason: {answer.reason}")
        if not answer.begun and not answer.reason:
            return self._broken("the stream held no answer")
        return None

    def _doubts(self) -> Iterator[Event]:
        counted, pictures = self._answer.prompt_tokens, len(self._ask.pictures)
        if any(UNREAD in call.arguments for call in self._answer.calls):
            yield Warned(
                FailureKind.BAD_OUTPUT,
                "A tool call's arguments are no JSON object.",
                "The call is kept as it came.",
            )
        if counted is None:
            return
        if pictures and counted < pictures * _TOKENS_OF_A_PICTURE:
            yield Warned(
                FailureKind.PICTURES_DROPPED,
                f"{self._request.server} counted {counted} tokens for a prompt with {pictures} "
                "pictures: they did not all reach the model.",
                "Do not trust this answer; probe the server.",
            )
        elif counted < self._ask.expected_tokens * _CUT_BELOW:
            yield Warned(
                FailureKind.PROMPT_CUT,
                f"{self._request.server} counted {counted} prompt tokens where about "
                f"{self._ask.expected_tokens} were sent: it cut the prompt without a word.",
                "Do not trust this answer; give the server a longer context (Ollama: "
                "OLLAMA_CONTEXT_LENGTH), or send fewer slices.",
            )
