"""A server on loopback that says exactly what a test wants, byte by byte, one reply a request."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass
class Received:
    """One request as it arrived; ``gone`` is set when the client has closed the connection."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes
    gone: threading.Event

    @property
    def body(self) -> dict:
        return json.loads(self.content)


Reply = Callable[[Received, socket.socket], None]


class FakeServer:
    """Answers with each reply in turn, then with the last one for ever."""

    def __init__(self, *replies: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.replies = list(replies)
        self.received: list[Received] = []
        self.arrived = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}/v1"

    @property
    def last(self) -> dict:
        return self.received[-1].body

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            stack.enter_context(connection)
            received = _request(connection)
            if received is None:
                return
            number = len(self.received)
            self.received.append(received)
            self.arrived.set()
            self.replies[min(number, len(self.replies) - 1)](received, connection)


def _request(connection: socket.socket) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
        if data[:1] not in b"GPOHD":
            # What http servers do with a TLS greeting.
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
            return None
    head, _, content = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (ln.partition(": ") for ln in lines)}
    while len(content) < int(headers.get("content-length", 0)):
        content += connection.recv(1 << 20)
    method, path, _ = first.split(" ")
    return Received(method, path, headers, content, threading.Event())


def raw(
    status: int = 200, kind: str = "text/event-stream", *pieces: bytes, headers: str = ""
) -> Reply:
    """Send these bytes as the body and close; no length is declared."""

    def reply(received: Received, connection: socket.socket) -> None:
        connection.sendall(_head(status, kind, headers) + b"".join(pieces))

    return reply


def _head(status: int, kind: str, headers: str = "") -> bytes:
    lines = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n{headers}\r\n"
    return lines.encode("latin-1")


def event(data: object) -> bytes:
    """Return one event of the stream."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def delta(**fields: object) -> dict:
    return {"choices": [{"index": 0, "delta": fields}]}


def finished(reason: str = "stop", **usage: int) -> dict:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage or None}


DONE = b"data: [DONE]\n\n"


def words(*texts: str, **usage: int) -> Reply:
    """Stream texts as a good server does."""
    pieces = [event(delta(role="assistant")), *(event(delta(content=text)) for text in texts)]
    return raw(200, "text/event-stream", *pieces, event(finished(**usage)), DONE)


def error(status: int, message: object, kind: str = "application/json") -> Reply:
    """Refuse with a status; a text is sent as it is, anything else as JSON."""
    content = message.encode() if isinstance(message, str) else json.dumps(message).encode()
    return raw(status, kind, content)


def silent_after(*pieces: bytes, head: bool = True) -> Reply:
    """Send these bytes, then nothing until the client goes; sets ``gone`` then."""

    def reply(received: Received, connection: socket.socket) -> None:
        connection.sendall((_head(200, "text/event-stream") if head else b"") + b"".join(pieces))
        with contextlib.suppress(OSError):
            while connection.recv(1024):
                pass
        received.gone.set()

    return reply


def chunked(pieces: Iterable[bytes], *, complete: bool = True) -> Reply:
    """Send pieces in chunked encoding; not complete: the connection dies without the last chunk."""

    def reply(received: Received, connection: socket.socket) -> None:
        connection.sendall(_head(200, "text/event-stream", "transfer-encoding: chunked\r\n"))
        for piece in pieces:
            connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if complete:
            connection.sendall(b"0\r\n\r\n")

    return reply


@contextlib.contextmanager
def serving(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[FakeServer]:
    server = FakeServer(*replies, tls=tls)
    try:
        yield server
    finally:
        server.close()
