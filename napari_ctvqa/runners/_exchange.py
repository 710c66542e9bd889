"""One HTTP request in a thread of its own: whoever reads the answer can leave at any moment.

A blocked read is woken by shutting the socket down; closing a response from another thread (what
HTTP libraries offer) leaves the reader blocked until the server sends something.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from napari_ctvqa.runners.hosts import host_of, is_loopback

if TYPE_CHECKING:
    import ssl

    from napari_ctvqa.runners.server_keys import Key

POLL_S = 0.033
"""How often a reader looks up: text is handed on, a cancel is seen."""
CONNECT_S = 5.0
WRITE_S = 60.0
_QUEUED_CHUNKS = 256
_PUT_S = 0.1
_CONNECTED = (".connect_tcp.complete", ".start_tls.complete")


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers (names in lower case) of the answer."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the answer; ``error`` is what ended it too early."""

    error: Exception | None = None


@cache
def _trusted() -> ssl.SSLContext:
    """Return whom TLS trusts; read once, for the list of authorities is long."""
    import httpx

    return httpx.create_ssl_context()


class ElsewhereError(Exception):
    """A name that stands for this machine led to another one; nothing was sent."""


class _LeftError(Exception):
    """Nobody waits for the answer any more."""


class Exchange:
    """A request under way. Start it by making it, read with ``next``, end with ``close``."""

    def __init__(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes = b""
    ) -> None:
        self._request = (method, url)
        self._headers = {**headers, "accept-encoding": "identity"}
        self._content = content
        self._loopback = is_loopback(host_of(url))
        self._items: queue.Queue[Head | bytes | Ended] = queue.Queue(_QUEUED_CHUNKS)
        self._left = threading.Event()
        self._socket: socket.socket | None = None
        threading.Thread(target=self._run, name="server request", daemon=True).start()

    @property
    def connected(self) -> bool:
        """Return whether a connection has come about."""
        return self._socket is not None

    def next(self, timeout_s: float) -> Head | bytes | Ended | None:
        """Return the next piece of the answer, None when there is none within the time."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the request at once, whatever it waits for; the server sees the connection close."""
        self._left.set()
        self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # The plain socket's own: that of a TLS socket changes what the reader reads from.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._exchange()
        except Exception as problem:  # noqa: BLE001  the thread's outermost frame: the reader is told
            error = problem
        self._put(Ended(error))

    def _exchange(self) -> None:
        import httpx

        timeout = httpx.Timeout(CONNECT_S, read=None, write=WRITE_S)
        method, url = self._request
        # What the environment says of proxies never applies to this machine itself.
        with (
            httpx.Client(
                verify=_trusted(),
                timeout=timeout,
                follow_redirects=False,
                trust_env=not self._loopback,
            ) as client,
            client.stream(
                method,
                url,
                headers=self._headers,
                content=self._content or None,
                extensions={"trace": self._trace},
            ) as response,
        ):
            self._put(Head(response.status_code, dict(response.headers)))
            # Some proxies compress although they were asked not to.
            for chunk in response.iter_bytes():
                self._put(chunk)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._loopback and self._socket is not None:
                peer = self._socket.getpeername()[0]
                if not is_loopback(peer):
                    raise ElsewhereError(peer)
        # Later, in the midst of an answer, the socket that is shut down ends it.
        if self._left.is_set() and event.endswith((*_CONNECTED, ".send_request_headers.started")):
            raise _LeftError

    def _put(self, item: Head | bytes | Ended) -> None:
        while not self._left.is_set():
            try:
                self._items.put(item, timeout=_PUT_S)
            except queue.Full:
                continue
            return
        if not isinstance(item, Ended):
            raise _LeftError


def headers_with(key: Key) -> dict[str, str]:
    """Return the headers of a request, with the key where there is one."""
    headers = {"content-type": "application/json", "user-agent": "napari-ctvqa"}
    if key.secret:
        headers["authorization"] = f"Bearer {key.secret}"
    return headers


def rest_of(
    exchange: Exchange, at_most: int, seconds: float, cancelled: threading.Event | None
) -> bytes:
    """Return the rest of an answer, as far as it comes within the size and the time."""
    body = bytearray()
    until = time.monotonic() + seconds
    while len(body) < at_most and time.monotonic() < until:
        if cancelled is not None and cancelled.is_set():
            break
        item = exchange.next(POLL_S)
        if isinstance(item, Ended):
            break
        if isinstance(item, bytes):
            body += item
    return bytes(body[:at_most])
