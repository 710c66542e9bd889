"""Run a model on a server with the OpenAI chat-completions protocol: streamed, cancellable."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Event, Failed, FailureKind, Status, Tokens, Warned
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners._chat_body import Pictures as DataUrls
from napari_ctvqa.runners._chat_body import chat_body
from napari_ctvqa.runners._chat_request import ChatRequest, Limits
from napari_ctvqa.runners._server_errors import (
    DETAIL_CHARACTERS,
    Request,
    failure_of_kind,
    not_confirmed,
)
from napari_ctvqa.runners.server_keys import NO_KEY, Key, key_of
from napari_ctvqa.runners.server_profile import Pictures, store_profile, stored_profile

if TYPE_CHECKING:
    from threading import Event as Flag

    from napari_ctvqa.core.asking import Ask
    from napari_ctvqa.runners.server_profile import Profile

logger = logging.getLogger(__name__)

_MOST_RETRIES = 6


class ServerWay:
    """A model on a server.

    Parameters
    ----------
    url
        Address of the server, e.g. ``http://gpu7:8000/v1``; see ``hosts.base_url``.
    model
        Name of the model, exactly as the server lists it.

    Raises
    ------
    AddressError
        When the address names no server.
    """

    def __init__(self, url: str, model: str, *, limits: Limits | None = None) -> None:
        self.url = hosts.base_url(url)
        self.model = model
        self.title = f"{self.url}, {model}"
        self._host = hosts.host_of(self.url)
        self.host = "" if hosts.is_loopback(self._host) else self._host
        self.profile: Profile = stored_profile(self.url, model)
        self._limits = limits or Limits()
        self._data_urls = DataUrls()

    def ask(self, ask: Ask, cancelled: Flag) -> Iterator[Event]:
        """Yield Status, Tokens, Usage, Warned, and last Done or Failed; never raises."""
        key = NO_KEY
        try:
            refusal = self._not_allowed(ask)
            if refusal is not None:
                yield refusal
                return
            key = key_of(self._host)
            for event in self._answered(ask, key, cancelled):
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

    def close(self) -> None:
        """Free nothing: connections end with their request."""

    def _not_allowed(self, ask: Ask) -> Failed | None:
        if not hosts.is_allowed(self._host):
            return not_confirmed(self._host)
        if ask.pictures and self.profile.pictures is Pictures.DROPPED:
            return Failed(
                FailureKind.PICTURES_DROPPED,
                f"The server at {self.url} drops pictures without a word: {self.model} would "
                "answer without seeing the CT.",
                "Start it with the model's own chat template and vision part, then probe again.",
            )
        if ask.pictures and self.profile.pictures is Pictures.REFUSED:
            return failure_of_kind(self._request(ask), FailureKind.PICTURES_DROPPED, "")
        return None

    def _request(self, ask: Ask) -> Request:
        pictures = len(ask.pictures)
        return Request(self.url, self._host, self.model, self.profile.kind, pictures)

    def _answered(self, ask: Ask, key: Key, cancelled: Flag) -> Iterator[Event]:
        urls = self._data_urls.urls(ask.pictures)
        for _ in range(_MOST_RETRIES):
            body = chat_body(ask, self.profile, urls)
            once = ChatRequest(self._request(ask), ask, body.fields, key, self._limits)
            yield from once.events(body.encoded(), cancelled)
            if not once.refused:
                return
            self.profile = self.profile.without(once.refused)
            store_profile(self.profile)
            names = ", ".join(sorted(once.refused))
            yield Status(f"The server does not take {names}; asked again without.")
        yield Failed(
            FailureKind.UNSUPPORTED_FIELD,
            f"The server at {self.url} refuses field after field of the request.",
            "Check that it speaks the chat-completions protocol.",
        )


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
                detail=key.removed_from(event.detail),
                partial=key.removed_from(event.partial),
            )
        case Warned():
            return replace(event, detail=key.removed_from(event.detail))
    return event


def _call_without_key(call: ToolCall, key: Key) -> ToolCall:
    arguments = json.loads(key.removed_from(json.dumps(dict(call.arguments))))
    return ToolCall(key.removed_from(call.name), arguments)
