"""The process that holds a model: takes commands on a local channel, sends back what happens.

``runners.worker_process`` starts this file by its path, in the interpreter that has the model's
libraries: it needs Python 3.9 and the standard library, nothing of this package. What a model needs
(numpy, torch, transformers) is imported by the engine, the file beside it, when it loads one.

Both ends speak JSON, one object a line. Commands have ``do`` (``load``, ``estimate``, ``ask``,
``cancel``, ``status``, ``end``) and an ``id``; what happens has ``event`` and the ``id`` of the
command it belongs to. Pictures and volumes are ``.npy`` files in a private folder, opened as memory
maps. When the channel ends, whoever asked is gone: so is this process, and the folder with it.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import logging
import os
import queue
import re
import secrets
import select
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger("worker")

CHANNEL = "NAPARI_CTVQA_CHANNEL"
TOKEN = "NAPARI_CTVQA_TOKEN"
FOLDER = "NAPARI_CTVQA_FOLDER"
ENGINE = "NAPARI_CTVQA_ENGINE"

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DETAIL = 4000
FOLDER_PREFIX = "napari-ctvqa-"
_TICK_S = 1.0
NICE = 5
"""How far this process steps back: where cores are scarce, the window is served first."""

Message = dict[str, Any]


def proof(token: str, who: str, nonce: str) -> str:
    """Return what shows that ``who`` knows the token: an HMAC over the other side's nonce."""
    return hmac.new(token.encode(), f"{who}:{nonce}".encode(), hashlib.sha256).hexdigest()


class Channel:
    """One JSON object a line, over a socket; ``send`` may be called from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting = bytearray()
        self._searched = 0

    def send(self, message: Message) -> None:
        """Send one object. Raises OSError when the other side is gone."""
        line = json.dumps(message).encode("ascii") + b"\n"
        with self._sending:
            self._connection.sendall(line)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next object, None when none came in time.

        Raises
        ------
        EOFError
            When the other side is gone.
        ValueError
            When what came is no JSON object, or longer than 64 MiB.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            line = self._line()
            if line is not None:
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError("a line on the channel is no JSON object")
                return message
            if len(self._waiting) > MAX_LINE_BYTES:
                raise ValueError("a line on the channel is longer than 64 MiB")
            if not self._fill(None if end is None else max(0.0, end - time.monotonic())):
                return None

    def _line(self) -> bytes | None:
        end = self._waiting.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._waiting)
            return None
        line = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        self._searched = 0
        return line

    def _fill(self, timeout_s: float | None) -> bool:
        if timeout_s is not None and not select.select([self._connection], [], [], timeout_s)[0]:
            return False
        try:
            data = self._connection.recv(1 << 20)
        except OSError as error:
            raise EOFError(str(error)) from error
        if not data:
            raise EOFError("the channel was closed")
        self._waiting += data
        return True

    def close(self) -> None:
        """Close the socket; who waits in ``receive`` gets EOFError."""
        with suppress(OSError):  # the other side was first
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Failure(Exception):
    """What an engine cannot do, for a person: a kind, one sentence and the next step."""

    def __init__(self, kind: str, message: str, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.detail = detail


def failure_of(error: BaseException) -> Failure:
    """Return what any exception of a model's libraries means."""
    if isinstance(error, Failure):
        return error
    names = {kind.__name__ for kind in type(error).__mro__}
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or "OutOfMemoryError" in names or _SHORT.search(text):
        return Failure(
            "out_of_memory",
            "There is not enough memory for this question.",
            "Send fewer slices or smaller pictures, or take a smaller model.",
            text[:MAX_DETAIL],
        )
    if _DEVICE.search(text):
        return Failure(
            "device",
            "The graphics card reported an error, and nothing more can be computed on it before "
            "the model is loaded again.",
            "Ask again: the model is loaded anew. If it comes back, run on the CPU.",
            text[:MAX_DETAIL],
        )
    if isinstance(error, ImportError):
        return missing_library(error)
    return Failure(
        "bad_model",
        f"The model's own code failed: {' '.join(text.split())[:300]}",
        "See the detail; a model of another preset or version may need other settings.",
        "".join(traceback.format_exception(type(error), error, error.__traceback__))[-MAX_DETAIL:],
    )


_SHORT = re.compile(
    r"out of memory|can't allocate memory|not enough memory|cannot allocate memory", re.IGNORECASE
)
_DEVICE = re.compile(
    r"device-side assert|CUDA error|AcceleratorError|CUBLAS_STATUS|CUDNN_STATUS|illegal memory",
)
_INSTALLED_AS = {
    "torchvision": "torchvision",
    "accelerate": "accelerate",
    "pil": "pillow",
    "pillow": "pillow",
    "sentencepiece": "sentencepiece",
    "tiktoken": "tiktoken",
    "tokenizers": "tokenizers",
    "safetensors": "safetensors",
    "jinja2": "jinja2",
    "numpy": "numpy",
    "transformers": "transformers",
    "torch": "torch",
}


def missing_library(error: ImportError) -> Failure:
    """Return which library is missing, with the one line that installs it."""
    words = re.findall(r"[a-z0-9]+", f"{getattr(error, 'name', '') or ''} {error}".lower())
    package = next((_INSTALLED_AS[word] for word in words if word in _INSTALLED_AS), "")
    if not package:
        return Failure(
            "missing_library",
            f"A library of this model cannot be imported by {sys.executable}: {error}"[:500],
            "Install what the detail names into that environment.",
            str(error)[:MAX_DETAIL],
        )
    # One line for all four: torch and torchvision must be a matching pair.
    local = ("torch", "torchvision", "transformers", "accelerate")
    packages = " ".join(local) if package in local else package
    return Failure(
        "missing_library",
        f"The model needs {package}, which {sys.executable} does not have or cannot load.",
        f'Install it: "{sys.executable}" -m pip install {packages}',
        str(error)[:MAX_DETAIL],
    )


class Talk:
    """What one question says to whoever asked, and whether that one still wants an answer."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self.id = number
        self.cancelled = threading.Event()

    def event(self, event: str, **content: Any) -> None:
        """Send one event of this command."""
        self._channel.send({"id": self.id, "event": event, **content})

    def status(self, text: str, fraction: float | None = None) -> None:
        """Say what is going on; ``fraction`` from 0 to 1 where it is known."""
        self.event("status", text=text, fraction=fraction)


_LAST = {"load": "loaded", "estimate": "estimate", "ask": "done"}
"""What each command ends with, when it does not fail."""


class Worker:
    """Reads commands in the main thread and does them, one after the other, in another."""

    def __init__(self, channel: Channel, engine: Any) -> None:
        self._channel = channel
        self._engine = engine
        self._jobs: queue.SimpleQueue[tuple[Message, Talk]] = queue.SimpleQueue()
        self._talks: dict[int, Talk] = {}
        self._short_of_memory = 0
        self._idle_s: float | None = None
        self._busy_until = time.monotonic()

    def serve(self) -> None:
        """Take commands until the channel ends, or nothing was asked for the idle time."""
        threading.Thread(target=self._work, name="work", daemon=True).start()
        for command in self._commands():
            if command.get("do") == "end":
                return
            self._take(command)
        self._channel.send({"id": 0, "event": "idle"})

    def _commands(self) -> Iterator[Message]:
        while True:
            command = self._channel.receive(_TICK_S)
            if command is not None:
                yield command
            elif self._is_idle():
                return

    def _is_idle(self) -> bool:
        if self._idle_s is None or self._talks:
            return False
        return time.monotonic() - self._busy_until > self._idle_s

    def _take(self, command: Message) -> None:
        number = int(command["id"])
        if command["do"] == "cancel":
            talk = self._talks.get(number)
            if talk is not None:
                talk.cancelled.set()
        elif command["do"] == "status":
            state = {"busy": sorted(self._talks), "processor_s": time.process_time()}
            self._channel.send({"id": number, "event": "state", **state, **self._engine.facts()})
        else:
            talk = self._talks[number] = Talk(self._channel, number)
            self._jobs.put((command, talk))

    def _work(self) -> None:
        while True:
            command, talk = self._jobs.get()
            result = self._do(command, talk)
            # Over before it is told: who hears the end finds nobody busy.
            self._busy_until = time.monotonic()
            self._talks.pop(talk.id, None)
            if isinstance(result, Failure):
                self._fail(result, talk)
            else:
                if command["do"] != "estimate":
                    self._short_of_memory = 0
                talk.event(_LAST[command["do"]], **result)

    def _do(self, command: Message, talk: Talk) -> Message | Failure:
        """Do one command; a failure is returned, so that no traceback keeps tensors alive."""
        try:
            if command["do"] == "load":
                self._idle_s = command.get("idle_s")
                return dict(self._engine.load(command, talk))
            if command["do"] == "estimate":
                return dict(self._engine.estimate(command))
            if command["do"] == "ask":
                return dict(self._engine.ask(command, talk))
            raise Failure("bad_model", f"unknown command {command['do']!r}")
        except Exception as error:  # the outermost frame: whatever a model's code raises
            logger.exception("%s failed", command.get("do"))
            return failure_of(error)

    def _fail(self, failure: Failure, talk: Talk) -> None:
        poisoned = failure.kind == "device"
        if failure.kind == "out_of_memory":
            self._engine.free()
            self._short_of_memory += 1
            if self._short_of_memory > 1:  # what the first one left behind cannot be got back
                poisoned = True
                failure.hint += " The model's process was ended to free its memory."
        talk.event(
            "failed",
            kind=failure.kind,
            message=failure.message,
            hint=failure.hint,
            detail=failure.detail,
            ending=poisoned,
        )
        if poisoned:
            leave(1)


def leave(code: int) -> None:
    """End the process now, also while a library computes."""
    sys.stderr.flush()
    os._exit(code)


def connect() -> Channel:
    """Connect to whoever started this process; each side proves that it knows the token."""
    host, _, port = os.environ.pop(CHANNEL).rpartition(":")
    token = os.environ.pop(TOKEN)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = Channel(connection)
    greeting = channel.receive(30) or {}
    nonce = secrets.token_hex(16)
    channel.send(
        {
            "event": "hello",
            "proof": proof(token, "worker", str(greeting.get("nonce"))),
            "nonce": nonce,
            "pid": os.getpid(),
            "python": sys.version.split()[0],
        }
    )
    answer = channel.receive(30) or {}
    if not hmac.compare_digest(str(answer.get("proof")), proof(token, "client", nonce)):
        raise EOFError("the other side does not know the token")
    return channel


def load_engine(path: Path) -> Any:
    """Return the engine of a file: an object with ``load``, ``estimate``, ``ask``, ``free``, …."""
    # Registered under its own name, so that its classes are found by dataclasses and the like.
    specification = importlib.util.spec_from_file_location("worker_engine", path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules["worker_engine"] = module
    specification.loader.exec_module(module)
    return module.Engine(Failure)


def step_back() -> None:
    """Let the window, and whatever else a person works with, go before this process."""
    with suppress(AttributeError, OSError):  # Windows: whoever starts the process says it
        os.nice(NICE)


def clean(folder: str) -> None:
    """Remove the private folder, which nobody else will do when the other side was killed."""
    if folder and Path(folder).name.startswith(FOLDER_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Connect, serve, and end at once when there is nobody left to serve."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the window
    step_back()
    here = Path(__file__).resolve()
    # The modules beside this file are another program's; their names must not hide libraries.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here.parent]
    folder = os.environ.get(FOLDER, "")
    engine = Path(os.environ.get(ENGINE) or here.with_name("worker_engine.py"))
    try:
        Worker(connect(), load_engine(engine)).serve()
    except (EOFError, ConnectionError):
        clean(folder)
    except Exception:  # the outermost frame: threads in native code must not hold up the end
        logger.exception("the worker ends")
        leave(1)
    leave(0)


if __name__ == "__main__":
    main()
