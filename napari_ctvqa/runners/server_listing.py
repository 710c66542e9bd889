"""Which models a server offers, and what kind of server it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Failed, FailureKind
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners._exchange import POLL_S, Ended, Exchange, Head, headers_with, rest_of
from napari_ctvqa.runners._server_errors import (
    Request,
    failure_of_answer,
    failure_without_answer,
    is_html,
    not_a_server,
    not_confirmed,
    server_text,
)
from napari_ctvqa.runners._sse import json_object
from napari_ctvqa.runners.server_keys import key_of
from napari_ctvqa.runners.server_profile import kind_of

if TYPE_CHECKING:
    from threading import Event as Flag

    from napari_ctvqa.runners.server_profile import Kind

_BYTES = 8 * 1024 * 1024
_LIST_S = 15.0


class ServerError(CtvqaError):
    """A request to a server that failed outside a run; ``failure`` says how."""

    code = "server"

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message, hint=failure.hint)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers: its kind, model names, and the longest prompt where it says so."""

    url: str
    kind: Kind
    models: tuple[str, ...]
    contexts: Mapping[str, int]


def models_of(url: str, cancelled: Flag | None = None) -> Listing:
    """Ask a server which models it offers. Setting ``cancelled`` ends it with kind CANCELLED.

    Raises
    ------
    AddressError
        When the address names no server.
    ServerError
        When the host is not confirmed, or the server gives no list; says why and what to do.
    """
    base = hosts.base_url(url)
    host = hosts.host_of(base)
    if not hosts.is_allowed(host):
        raise ServerError(not_confirmed(host))
    key = key_of(host)
    request = Request(base, host, "")
    exchange = Exchange("GET", f"{base}/models", headers=headers_with(key))
    with closing(exchange):
        head, body = _listing(exchange, request, cancelled)
    if head.status != 200:
        failure = failure_of_answer(request, head.status, body, head.headers)
        raise ServerError(replace(failure, detail=key.removed_from(failure.detail)))
    value = json_object(body.decode("utf-8", "replace"))
    data = value.get("data", value.get("models")) if value else None
    if not isinstance(data, list):
        what = "a web page" if is_html(body, "") else "something that is no list of models"
        raise ServerError(not_a_server(request, what, key.removed_from(server_text(body))))
    models = [model for model in data if isinstance(model, dict)]
    names = [model["id"] for model in models if isinstance(model.get("id"), str)]
    contexts = {
        model["id"]: model["max_model_len"]
        for model in models
        if isinstance(model.get("id"), str) and isinstance(model.get("max_model_len"), int)
    }
    return Listing(base, kind_of(base, head.headers, models), tuple(names), contexts)


def _listing(exchange: Exchange, request: Request, cancelled: Flag | None) -> tuple[Head, bytes]:
    until = time.monotonic() + _LIST_S
    while time.monotonic() < until:
        if cancelled is not None and cancelled.is_set():
            raise ServerError(Failed(FailureKind.CANCELLED, "Stopped."))
        item = exchange.next(POLL_S)
        if isinstance(item, Head):
            return item, rest_of(exchange, _BYTES, _LIST_S, cancelled)
        if isinstance(item, Ended):
            raise ServerError(failure_without_answer(request, item.error))
    raise ServerError(
        Failed(
            FailureKind.TIMEOUT,
            f"{request.server} gave no list of models within {_LIST_S:g} seconds.",
            "It may be loading a model; try again.",
        )
    )
