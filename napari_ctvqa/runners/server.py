"""Run a model on a server with the OpenAI chat-completions protocol: streamed, cancellable."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Event, Failed, FailureKind, Odds, Status, Tokens, Warned
from napari_ctvqa.core.records import EMPTY, ToolCall
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners._chat_body import JPEG_QUALITY, chat_body
from napari_ctvqa.runners._chat_body import Pictures as DataUrls
from napari_ctvqa.runners._chat_odds import NONE_TOLD, SOURCE
from napari_ctvqa.runners._chat_request import ChatRequest, Limits
from napari_ctvqa.runners._server_errors import (
    DETAIL_CHARACTERS,
    Request,
    failure_of_kind,
    not_confirmed,
)
from napari_ctvqa.runners.server_keys import NO_KEY, Key, key_of
from napari_ctvqa.runners.server_listing import ServerError, models_of
from napari_ctvqa.runners.server_probe import probe_logprobs, probe_pictures, probe_tools
from napari_ctvqa.runners.server_profile import (
    Pictures,
    Profile,
    Tools,
    store_profile,
    stored_profile,
)

if TYPE_CHECKING:
    from threading import Event as Flag

    from napari_ctvqa.core.asking import Ask

logger = logging.getLogger(__name__)

_MOST_RETRIES = 6
_MOST_WAITS = 3
"""How often a server that asks to wait is asked again."""
_MOST_NAMES = 8
_LIST, _PICTURES, _TOOLS, _ODDS = "list", "pictures", "tools", "odds"
_TOOLS_TO_ASK = (Tools.UNKNOWN, Tools.IGNORED, Tools.REFUSED)
"""What is known of tools and may have changed, or is not known."""
_ENDS_A_PROBE = frozenset(
    {
        *(FailureKind.UNREACHABLE, FailureKind.WRONG_SCHEME, FailureKind.AUTH),
        *(FailureKind.NOT_CONFIRMED, FailureKind.MISSING_LIBRARY),
    }
)


class ServerWay:
    """A model on a server.

    Parameters
    ----------
    url
        Address of the server, e.g. ``http://gpu7:8000/v1``; see ``hosts.base_url``.
    model
        Name of the model, exactly as the server lists it.
    limits
        How long the server may stay silent.
    probes
        Whether the server is probed where nothing is known of it.
    patient
        Wait where the server asks for it, and ask again; else that is a failure with ``wait_s``.

    Raises
    ------
    AddressError
        When the address names no server.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        limits: Limits | None = None,
        probes: bool = True,
        patient: bool = True,
    ) -> None:
        self.url = hosts.base_url(url)
        self.model = model
        self.title = f"{self.url}, {model}"
        self._host = hosts.host_of(self.url)
        self.host = "" if hosts.is_loopback(self._host) else self._host
        self.profile: Profile = stored_profile(self.url, model)
        self._limits = limits or Limits()
        self._waits = _MOST_WAITS if patient else 0
        self._data_urls = DataUrls()
        self._models: tuple[str, ...] | None = None
        # What this object need not probe (again).
        self._probed: set[str] = set()
        self._done: set[str] = set() if probes else {_LIST, _PICTURES, _TOOLS, _ODDS}

    def ask(self, ask: Ask, cancelled: Flag) -> Generator[Event, None, None]:
        """Yield Status, Tokens, Usage, Warned, and last Done or Failed; never raises.

        Before the first pictures, and the first tools, the server is probed once; what was learned
        is remembered for this address and model.
        """
        yield from self._guarded(lambda key: self._probed_answer(ask, key, cancelled))

    def probe(self, cancelled: Flag) -> Iterator[Event]:
        """Forget what is known and learn it anew; yields Status, and last Done or Failed.

        The text of Done says what was learned, as one line; ``profile`` holds it.
        """
        self.profile = Profile(self.url, self.model, kind=self.profile.kind)
        self._done.clear()
        yield from self._guarded(lambda key: self._all_learned(key, cancelled))

    def close(self) -> None:
        """Free nothing: connections end with their request."""

    def _guarded(self, events: Callable[[Key], Iterator[Event]]) -> Generator[Event, None, None]:
        """Yield events without the key in them; what is raised becomes the last one."""
        key = NO_KEY
        try:
            if not hosts.is_allowed(self._host):
                yield not_confirmed(self._host)
                return
            key = key_of(self._host)
            for event in events(key):
                yield _without_key(event, key)
        except CtvqaError as error:
            yield Failed(FailureKind.AUTH, error.message, error.hint)
        except Exception as error:  # the run's outermost frame: a fault of ours is an answer, too
            logger.exception("asking %s failed", self.title)
            text = key.removed_from(f"{type(error).__name__}: {error}")[:DETAIL_CHARACTERS]
            yield Failed(
                FailureKind.SERVER,
                f"The request to {self.url} could not be made.",
                "This is a fault of the program; the log says more.",
                text,
            )

    def _probed_answer(self, ask: Ask, key: Key, cancelled: Flag) -> Iterator[Event]:
        end = yield from self._learn(
            key,
            cancelled,
            pictures=bool(ask.pictures),
            tools=bool(ask.tools),
            odds=bool(ask.written),
        )
        if end is None and ask.pictures:
            end = self._blind(ask)
        if end is not None:
            yield self._with_names(end)
            return
        if ask.pictures and self.profile.pictures is Pictures.UNKNOWN and _PICTURES in self._probed:
            yield Warned(
                FailureKind.PICTURES_DROPPED,
                f"Whether pictures reach {self.model} could not be told: it did not read the "
                "number drawn on one, and the server counts no tokens.",
                "Take the answer as one that may have been given without seeing the CT.",
            )
        if ask.tools and self.profile.tools is Tools.IGNORED:
            yield Warned(
                FailureKind.UNSUPPORTED_FIELD,
                f"{self.model} made no tool call on this server when it was told to: its tools may "
                "be ignored.",
                "Choose a model with tool calls, or start the server with a parser for them.",
            )
        if ask.written and self.profile.logprobs is False:
            yield Odds(SOURCE, problem=NONE_TOLD)
            ask = replace(ask, written=EMPTY)
        for event in self._answered(ask, key, cancelled):
            yield self._with_names(event)

    def _blind(self, ask: Ask) -> Failed | None:
        """Return the failure when the model would answer without seeing the CT."""
        if self.profile.pictures is Pictures.REFUSED:
            return failure_of_kind(self._request(ask), FailureKind.PICTURES_DROPPED, "")
        if self.profile.pictures is not Pictures.DROPPED:
            return None
        return Failed(
            FailureKind.PICTURES_DROPPED,
            f"The server at {self.url} drops pictures without a word: {self.model} would answer "
            "without seeing the CT.",
            "Start it with the model's own chat template and vision part, then run again.",
        )

    def _with_names(self, event: Event) -> Event:
        """Return a failure for want of the model with the names that there are."""
        if isinstance(event, Failed) and event.kind is FailureKind.NO_SUCH_MODEL and self._models:
            names = ", ".join(name[:100] for name in self._models[:_MOST_NAMES])
            return replace(event, hint=f"{event.hint} It lists: {names}.")
        return event

    def _request(self, ask: Ask) -> Request:
        pictures = len(ask.pictures)
        return Request(self.url, self._host, self.model, self.profile.kind, pictures)

    # ----------------------------------------------------------------------------------- learning

    def _all_learned(self, key: Key, cancelled: Flag) -> Iterator[Event]:
        end = yield from self._learn(key, cancelled, pictures=True, tools=True, odds=True)
        yield end or Done(self.profile.said)

    def _learn(
        self, key: Key, cancelled: Flag, *, pictures: bool, tools: bool, odds: bool
    ) -> Generator[Event, None, Failed | Done | None]:
        """Probe what is needed and not known yet; return the failure or cancel that ended it."""

        def send(ask: Ask, more: Mapping[str, Any]) -> Iterator[Event]:
            return self._answered(ask, key, cancelled, more)

        if _LIST not in self._done and (end := self._list(cancelled)) is not None:
            return end
        if pictures and self._wants_pictures():
            learned = yield from probe_pictures(send)
            if learned.end is not None:
                return learned.end
            self._keep(pictures=learned.pictures, usage=learned.usage)
            self._done.add(_PICTURES)
            self._probed.add(_PICTURES)
        if tools and _TOOLS not in self._done and self.profile.tools in _TOOLS_TO_ASK:
            learned = yield from probe_tools(send)
            if learned.end is not None:
                return learned.end
            self._keep(tools=learned.tools)
            self._done.add(_TOOLS)
        if odds and _ODDS not in self._done and self.profile.logprobs is None:
            learned = yield from probe_logprobs(send)
            if learned.end is not None:
                return learned.end
            self._keep(logprobs=learned.logprobs)
            self._done.add(_ODDS)
        return None

    def _wants_pictures(self) -> bool:
        """Return whether to probe: once, and again where it was bad, for that may be mended."""
        state = self.profile.pictures
        if state in (Pictures.DROPPED, Pictures.REFUSED):
            return True
        return state is Pictures.UNKNOWN and _PICTURES not in self._done

    def _list(self, cancelled: Flag) -> Failed | Done | None:
        try:
            listing = models_of(self.url, cancelled)
        except ServerError as error:
            if error.failure.kind is FailureKind.CANCELLED:
                return Done("", reason="cancelled")
            # A server without a list may answer all the same.
            return error.failure if error.failure.kind in _ENDS_A_PROBE else None
        finally:
            self._done.add(_LIST)
        self._models = listing.models
        context = listing.contexts.get(self.model)
        if (listing.kind, context) != (self.profile.kind, self.profile.context):
            self._keep(kind=listing.kind, context=context)
        return None

    def _keep(self, **learned: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.profile = replace(self.profile, **learned, checked=now)
        store_profile(self.profile)

    # ------------------------------------------------------------------------------------- asking

    def _answered(
        self, ask: Ask, key: Key, cancelled: Flag, more: Mapping[str, Any] = EMPTY
    ) -> Iterator[Event]:
        urls = self._data_urls.urls(ask.pictures)
        if any(url.startswith("data:image/jpeg") for url in urls.values()):
            yield Status(f"The pictures are sent as JPEG, quality {JPEG_QUALITY}, to be smaller.")
        waits = 0
        for _ in range(_MOST_RETRIES + _MOST_WAITS):
            body = chat_body(ask, self.profile, urls, more)
            if body.left_out:
                yield Status(f"Not sent, for the server takes none: {_listed(body.left_out)}.")
            once = ChatRequest(
                self._request(ask),
                ask,
                body.fields,
                key,
                self._limits,
                may_wait=waits < self._waits,
            )
            yield from once.events(body.encoded(), cancelled)
            if once.wait_s is not None:
                waits += 1
                yield from _waited(once.wait_s, cancelled)
                if cancelled.is_set():
                    yield Done("", reason="cancelled")
                    return
                continue
            if once.misses_tools:
                self.profile = replace(self.profile, tools_stay=True)
                store_profile(self.profile)
                yield Status("The server wants the tools listed: asked again, none to be called.")
                continue
            if not once.refused:
                return
            self.profile = self.profile.without(once.refused)
            store_profile(self.profile)
            yield Status(f"The server does not take {_listed(once.refused)}; asked again without.")
        yield Failed(
            FailureKind.UNSUPPORTED_FIELD,
            f"The server at {self.url} refuses field after field of the request.",
            "Check that it speaks the chat-completions protocol.",
        )


def _waited(seconds: float, cancelled: Flag) -> Iterator[Event]:
    """Wait, and say each second for how long yet; ends early when cancelled."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not cancelled.is_set():
        yield Status(f"The server asks to wait: {left:.0f} s")
        cancelled.wait(min(left, 1.0))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _without_key(event: Event, key: Key) -> Event:
    match event:
        case Tokens():
            return replace(event, text=key.removed_from(event.text))
        case Done():
            text, thinking = key.removed_from(event.text), key.removed_from(event.thinking)
            calls = tuple(_call_without_key(call, key) for call in event.calls)
            return replace(event, text=text, thinking=thinking, calls=calls)
        case Failed():
            return replace(
                event,
                message=key.removed_from(event.message),
                hint=key.removed_from(event.hint),
                detail=key.removed_from(event.detail),
                partial=key.removed_from(event.partial),
            )
        case Warned():
            return replace(event, detail=key.removed_from(event.detail))
    return event


def _call_without_key(call: ToolCall, key: Key) -> ToolCall:
    arguments = json.loads(key.removed_from(json.dumps(dict(call.arguments))))
    return ToolCall(key.removed_from(call.name), arguments)
