"""One worker process: started, spoken to, and ended without leaving anything behind.

``multiprocessing`` was looked at and not used: its listener has no time limit, and a child of
another interpreter would have to unpickle what we send. Here both ends speak JSON lines.
"""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from napari_ctvqa.core.events import Failed, FailureKind
from napari_ctvqa.runners import worker

TAIL_BYTES = 4000
LOG_BYTES = 16_000_000
"""A longer log begins anew: what a model's libraries print must not fill the disk."""
_LOOK_S = 1.0
HELLO_S = 5.0
"""How long one stranger on the port can keep us from the worker's own call."""
TERMINATE_S = 2.0

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONUTF8": "1",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}
"""What every worker gets unless the caller says otherwise: no network, whole logs, and no pickled
code out of a checkpoint, whoever reads it (until 2.6 torch ran that by default)."""


class Ended(Exception):
    """The process is gone; ``failed`` says how, for a person."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class WorkerProcess:
    """A running worker. Use ``start``; whoever has one calls ``end``."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: worker.Channel,
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._process = process
        self._channel = channel
        self._folder = folder
        self._events: SimpleQueue[worker.Message | None] = SimpleQueue()
        self._number = 0
        self.python = ""
        self.retired = False
        """Whether it said that it ends because nothing was asked for long."""
        threading.Thread(target=self._read, name="worker channel", daemon=True).start()

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def folder(self) -> Path:
        """Return the private folder of pictures, volumes and the log."""
        return Path(self._folder.name)

    def send(self, do: str, **content: Any) -> int:
        """Send a command and return its number.

        Raises
        ------
        Ended
            When the process is gone.
        """
        self._number += 1
        try:
            self._channel.send({"do": do, "id": self._number, **content})
        except OSError:
            raise Ended(self.why()) from None
        return self._number

    def cancel(self, number: int) -> None:
        """Ask to stop a command; nothing happens when it is over."""
        with suppress(OSError):
            self._channel.send({"do": "cancel", "id": number})

    def next(self, timeout_s: float) -> worker.Message | None:
        """Return what happened next, None when nothing did in that time.

        Raises
        ------
        Ended
            When the process is gone.
        """
        try:
            event = self._events.get(timeout=timeout_s)
        except Empty:
            return None
        if event is None:
            self._events.put(None)
            raise Ended(self.why())
        return event

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    def why(self) -> Failed:
        """Return why the process ended, with the end of its log."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(TERMINATE_S)  # the channel closes a moment before the process ends
        return why_ended(self._process.poll(), self.log_tail())

    def log_tail(self) -> str:
        """Return the end of what the process and its libraries printed."""
        return log_tail(self.folder)

    def end(self, patience_s: float = 0.0) -> None:
        """End the process: asked first when there is patience, terminated, then killed."""
        if patience_s > 0:
            with suppress(OSError):
                self._channel.send({"do": "end", "id": 0})
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        _stop(self._process)
        self._channel.close()
        self._folder.cleanup()

    def _read(self) -> None:
        """Move what comes on the channel to the queue; the last entry is None."""
        try:
            while True:
                event = self._channel.receive(_LOOK_S)
                _bound_log(self.folder)
                if event is None:
                    continue
                if event.get("event") == "idle":
                    self.retired = True
                self._events.put(event)
        except (EOFError, OSError):
            pass
        except (ValueError, RecursionError):
            # What speaks there is not our worker any more.
            self._process.kill()
        self._events.put(None)


def start(
    interpreter: str,
    environment: Mapping[str, str],
    *,
    engine: Path | None = None,
    patience_s: float = 60.0,
    given_up: Callable[[], bool] = lambda: False,
) -> WorkerProcess:
    """Start a worker in an interpreter and wait until it has proved that it is ours.

    Raises
    ------
    Ended
        When it cannot be started, does not answer in time, or nobody waits for it any more.
    """
    folder = tempfile.TemporaryDirectory(prefix=worker.FOLDER_PREFIX, ignore_cleanup_errors=True)
    token = secrets.token_hex(32)
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            variables = _variables(interpreter, environment) | {
                worker.CHANNEL: f"127.0.0.1:{listener.getsockname()[1]}",
                worker.TOKEN: token,
                worker.FOLDER: folder.name,
            }
            if engine is not None:
                variables[worker.ENGINE] = str(engine)
            process = _spawn(interpreter, variables, Path(folder.name))
            try:
                channel, hello = _call(
                    listener, token, process, patience_s, given_up, Path(folder.name), interpreter
                )
            except Ended as ended:
                _stop(process)
                raise Ended(replace(ended.failed, detail=log_tail(Path(folder.name)))) from None
    except Ended:
        folder.cleanup()
        raise
    started = WorkerProcess(process, channel, folder)
    started.python = str(hello.get("python"))
    return started


def _variables(interpreter: str, environment: Mapping[str, str]) -> dict[str, str]:
    inherited = dict(os.environ)
    if interpreter != sys.executable:
        # These speak of our interpreter's libraries; another one has its own.
        for name in ("PYTHONHOME", "PYTHONPATH"):
            inherited.pop(name, None)
    return {**inherited, **_ENVIRONMENT, **environment}


def _spawn(interpreter: str, variables: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    # Appended to, so that it goes on at its beginning after it was emptied.
    with (folder / "log.txt").open("ab") as log:
        try:
            return subprocess.Popen(
                [interpreter, str(Path(worker.__file__).resolve())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=folder,
                # Elsewhere the worker steps back by itself.
                creationflags=getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),
            )
        except OSError as error:
            raise Ended(
                Failed(
                    FailureKind.CRASHED,
                    f"The interpreter {interpreter} cannot be started: {error.strerror}.",
                    "Name the Python of an environment that has the model's libraries.",
                    str(error),
                )
            ) from None


def _call(
    listener: socket.socket,
    token: str,
    process: subprocess.Popen[bytes],
    patience_s: float,
    given_up: Callable[[], bool],
    folder: Path,
    interpreter: str,
) -> tuple[worker.Channel, worker.Message]:
    """Return the channel to the worker and its greeting; strangers are sent away."""
    listener.settimeout(0.05)
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            _bound_log(folder)
            if given_up():
                raise Ended(Failed(FailureKind.CANCELLED, "The start was given up.")) from None
            if process.poll() is not None:
                raise Ended(_never_spoke(interpreter, process)) from None
            continue
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = worker.Channel(connection)
        hello = _greeted(channel, token)
        if hello is not None:
            return channel, hello
        channel.close()
    raise Ended(
        Failed(
            FailureKind.TIMEOUT,
            f"The model's process did not answer within {patience_s:.0f} s of its start.",
            "Try again when the machine is less busy; make sure that the interpreter is a Python.",
        )
    )


def _never_spoke(interpreter: str, process: subprocess.Popen[bytes]) -> Failed:
    """Return what it means that a process ended before it called: it may be no Python at all."""
    code = process.poll()
    if code == -signal.SIGTERM or code == -9:
        return why_ended(code, "")
    return Failed(
        FailureKind.CRASHED,
        f"{interpreter} ended ({_code_text(code)}) before it could load a model.",
        "Name a Python, 3.9 or newer, of the environment that has the model's libraries; the end "
        "of its log says more.",
    )


def _greeted(channel: worker.Channel, token: str) -> worker.Message | None:
    """Return the greeting of a worker that knows the token, None for anybody else."""
    nonce = secrets.token_hex(16)
    try:
        channel.send({"event": "hello", "nonce": nonce})
        hello = channel.receive(HELLO_S) or {}
        known = worker.proof(token, "worker", nonce)
        if not hmac.compare_digest(str(hello.get("proof")).encode(), known.encode()):
            return None
        channel.send({"proof": worker.proof(token, "client", str(hello.get("nonce")))})
    except (EOFError, OSError, ValueError):
        return None
    return hello


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_S)
    if process.poll() is None:
        process.kill()
    process.wait()


def log_tail(folder: Path) -> str:
    """Return the end of the log in a worker's folder, at most 4000 bytes."""
    try:
        with (folder / "log.txt").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _bound_log(folder: Path) -> None:
    """Empty a log that has grown too long."""
    log = folder / "log.txt"
    with suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            os.truncate(log, 0)


def why_ended(code: int | None, log: str) -> Failed:
    """Return what the exit code of a worker means, for a person."""
    if code == -9:  # SIGKILL, which Windows has no name for
        return Failed(
            FailureKind.KILLED,
            "The model's process was killed (signal 9), likely by the kernel for want of memory.",
            "Close other programs, send fewer slices, or take a smaller model; asking again loads "
            "the model anew.",
            log,
        )
    if "No module named 'numpy'" in log:
        return Failed(
            FailureKind.MISSING_LIBRARY,
            "The interpreter of the model has no numpy.",
            "Install it into that environment: pip install numpy",
            log,
        )
    return Failed(
        FailureKind.CRASHED,
        f"The model's process ended by itself ({_code_text(code)}).",
        "Asking again starts it anew; the end of its log says more.",
        log,
    )


def _code_text(code: int | None) -> str:
    if code is None:
        return "its channel was closed"
    if code < 0:
        with suppress(ValueError):
            return f"signal {-code}, {signal.Signals(-code).name}"
    if code > 255:  # Windows: a status such as 0xC0000005
        return f"code 0x{code:08X}"
    return f"code {code}"
