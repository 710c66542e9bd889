"""The worker way to run: a model folder on this machine, in a process of its own.

Nothing here imports torch: the process that ``runners/worker.py`` is does. It starts with the first
question, stays for the next ones, and is started anew when it died.
"""

from __future__ import annotations

import hashlib
import math
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.events import (
    Done,
    Event,
    Failed,
    FailureKind,
    Odds,
    Segmented,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.records import no_items
from napari_ctvqa.runners._chat_answer import without_halves
from napari_ctvqa.runners.worker_process import Ended, WorkerProcess, start

if TYPE_CHECKING:
    from threading import Event as Flag

    import numpy.typing as npt

    from napari_ctvqa.core.asking import Ask, Message, Picture
    from napari_ctvqa.core.model_volumes import ModelVolume

_TICK_S = 0.02
_VOLUMES = Path(__file__).with_name("worker_volumes.py")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What is loaded, and how.

    Parameters
    ----------
    folder
        A model folder as ``save_pretrained`` writes it.
    title
        For people; the folder's name when empty.
    interpreter
        The Python that has torch and transformers; empty for the one that runs this.
    dtype, device
        ``auto``, ``float32``, ``bfloat16`` or ``float16``; ``auto``, ``cpu``, ``cuda``, ``cuda:1``.
    never_fp16
        Whether float16 gives wrong answers (the Gemma class): float32 where there is no bfloat16.
    trust_remote_code
        Whether code that lies in the model folder may run; only after the user said so.
    forced
        Load even where the estimate says that memory will not do.
    environment
        Variables of the process, over ours (``HF_HUB_OFFLINE=1`` …), e.g. CUDA_VISIBLE_DEVICES.
    force_stop_s
        How long a cancelled answer may go on before the process is ended.
    idle_s
        After how many seconds without a question the process ends itself; None for never.
    engine
        The file of another engine than that of AutoModelForImageTextToText.
    loader
        Which loader of ``worker_volumes`` takes the model; empty for that engine.
    repository, base
        The folder of the model's own code, and of the model that its weights were trained upon,
        where the loader needs them.
    code_mark
        The state of the code that the user allowed, see ``worker_volumes.code_mark``.
    """

    folder: Path
    title: str = ""
    interpreter: str = ""
    dtype: str = "auto"
    device: str = "auto"
    revision: str = ""
    never_fp16: bool = False
    trust_remote_code: bool = False
    forced: bool = False
    environment: Mapping[str, str] = field(default_factory=no_items)
    force_stop_s: float = 10.0
    idle_s: float | None = None
    start_s: float = 60.0
    engine: Path | None = None
    loader: str = ""
    repository: str = ""
    base: str = ""
    code_mark: str = ""


class WorkerWay:
    """Answers through a worker process. One question at a time; others wait."""

    host = ""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.title = settings.title or settings.folder.name
        self._turn = threading.Lock()
        self._changing = threading.Lock()
        self._process: WorkerProcess | None = None
        self._loading = 0
        self._loaded: Mapping[str, Any] | None = None
        self._closed = 0

    @property
    def pid(self) -> int | None:
        """Return the number of the process, None while there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def holding(self) -> bool:
        """Return whether a process is there that has, or loads, the model."""
        process = self._process
        return process is not None and not process.retired and process.alive()

    @property
    def loaded(self) -> Mapping[str, Any]:
        """Return what the worker said of the loaded model: device, dtype, versions, seconds."""
        return self._loaded or {}

    def ask(self, ask: Ask, cancelled: Flag) -> Iterator[Event]:
        """Yield Status, Tokens, Usage, and last Done or Failed; never raises."""
        before = self._closed
        call = _Call(ask, lambda: cancelled.is_set() or self._closed != before)
        if not (yield from self._wait_for_turn(call)):
            yield Done("", reason="cancelled")
            return
        try:
            yield from self._answered(call)
        except _NotAwaited:
            yield Done("", reason="cancelled")
        except Ended as ended:
            self._discard()
            if call.over():
                yield Done(call.text, reason="cancelled")
            else:
                yield replace(ended.failed, partial=call.text)
        except (OSError, TypeError, ValueError) as error:
            yield Failed(
                FailureKind.BAD_OUTPUT,
                f"The question could not be handed to the model's process: {error}",
                "Look whether there is room left on the disk of temporary files.",
                partial=call.text,
            )
        finally:
            self._turn.release()

    def state(self, patience_s: float = 2.0) -> Mapping[str, Any]:
        """Return what the process says of itself: the model's facts, processor time, peak memory.

        Empty when there is no process, or it is answering.
        """
        if not self._turn.acquire(blocking=False):
            return {}
        try:
            process = self._process
            if process is None:
                return {}
            number, end = process.send("status"), time.monotonic() + patience_s
            while time.monotonic() < end:
                event = process.next(_TICK_S)
                if event is not None and event.get("id") == number:
                    return event
            return {}
        except Ended:
            return {}
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process and remove its files; a question that is being answered ends.

        This is the one sure way to get a graphics card's memory back. A question that is asked
        later starts the process anew.
        """
        with self._changing:
            self._closed += 1
        self._discard(patience_s=0.0 if self._turn.locked() else 1.0)

    def _discard(self, patience_s: float = 0.0) -> None:
        with self._changing:
            process, self._process = self._process, None
            self._loaded, self._loading = None, 0
        if process is not None:
            process.end(patience_s)

    def _wait_for_turn(self, call: _Call) -> Generator[Event, None, bool]:
        if self._turn.acquire(timeout=_TICK_S):
            return True
        yield Status("Waiting for the question before this one")
        while not call.over():
            if self._turn.acquire(timeout=0.1):
                return True
        return False

    def _answered(self, call: _Call) -> Iterator[Event]:
        while True:
            process = yield from self._ready(call)
            try:
                yield from self._answer(process, call)
            except Ended:
                if call.over() or not process.retired:
                    raise
                self._discard()  # it ended itself for want of questions just when this one came
                continue
            return

    def _ready(self, call: _Call) -> Generator[Event, None, WorkerProcess]:
        """Return a process with the model loaded. Raises Ended or _NotAwaited."""
        process = self._process
        if process is None or not process.alive():
            self._discard()
            yield Status("Starting the model's process")
            process = self._start(call)
        if self._loaded is None:
            yield from self._load(process, call)
        return process

    def _start(self, call: _Call) -> WorkerProcess:
        settings = self.settings
        process = start(
            settings.interpreter or sys.executable,
            settings.environment,
            engine=settings.engine or (_VOLUMES if settings.loader else None),
            patience_s=settings.start_s,
            given_up=call.over,
        )
        with self._changing:
            over = call.over()
            if not over:
                self._process = process
        if over:
            process.end()
            raise _NotAwaited
        return process

    def _load(self, process: WorkerProcess, call: _Call) -> Iterator[Event]:
        if not self._loading:
            self._loading = process.send("load", **_wish(self.settings))
        while not call.over():
            event = process.next(_TICK_S)
            if event is None or event.get("id") != self._loading:
                continue
            if event.get("event") == "status":
                yield _status(event)
            elif event.get("event") == "failed":
                raise Ended(_failed(event, ""))
            elif event.get("event") == "loaded":
                self._loaded = {k: v for k, v in event.items() if k not in ("id", "event")}
                return
        raise _NotAwaited

    def _answer(self, process: WorkerProcess, call: _Call) -> Iterator[Event]:
        number = process.send("ask", **_request(call.ask, process.folder))
        listening = _Listening(process, number, call.over, self.settings.force_stop_s)
        for event in listening.events():
            if isinstance(event, Status):
                yield event
                continue
            if event.get("mask") and call.ask.volume is not None:
                yield _segmented(event["mask"], call.ask.volume, process.folder)
            odds = event.get("odds")
            if isinstance(odds, Mapping):
                yield _odds(odds)
            told = self._told(event, call)
            yield told
            if isinstance(told, Done | Failed):
                return
        self._discard()
        yield Done(call.text, reason="cancelled")

    def _told(self, event: Mapping[str, Any], call: _Call) -> Event:
        """Return what the worker said, as an event."""
        kind, text = event.get("event"), str(event.get("text", ""))
        if kind == "tokens":
            call.pieces.append(text)
            return Tokens(text)
        if kind == "usage":
            return _usage(event)
        if kind == "done":
            return Done(text, reason=str(event.get("reason", "stop")))
        if kind == "failed":
            if event.get("ending"):
                self._discard()
            return _failed(event, call.text)
        return _status(event)


class _NotAwaited(Exception):
    """The question was cancelled while the model is loaded, which goes on for the next one."""


class _Call:
    """One question, and the pieces of its answer: kept for the case that no more come."""

    def __init__(self, ask: Ask, over: Callable[[], bool]) -> None:
        self.ask = ask
        self.over = over
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class _Listening:
    """The events of one question, and its cancelling: asked first, then by force."""

    def __init__(
        self,
        process: WorkerProcess,
        number: int,
        cancelled: Callable[[], bool],
        force_stop_s: float,
    ) -> None:
        self._process = process
        self._number = number
        self._cancelled = cancelled
        self._force_stop_s = force_stop_s
        self._cancelled_at: float | None = None

    def events(self) -> Iterator[Mapping[str, Any] | Status]:
        """Yield what is said of this question; ends early when it must be ended by force."""
        over = False
        try:
            while not over:
                if self._cancelled():
                    if self._cancelled_at is None:
                        self._cancelled_at = time.monotonic()
                        self._process.cancel(self._number)
                        yield Status("Stopping")
                    elif time.monotonic() - self._cancelled_at > self._force_stop_s:
                        yield Status("Stopped by force: the model will be loaded anew")
                        return
                event = self._process.next(_TICK_S)
                if event is not None and event.get("id") == self._number:
                    over = event.get("event") in ("done", "failed")
                    yield event
        finally:
            if not over:  # nobody listens any more
                self._process.cancel(self._number)


def _status(event: Mapping[str, Any]) -> Status:
    return Status(str(event.get("text", "")), _number(event, "fraction"))


def _usage(event: Mapping[str, Any]) -> Usage:
    prompt, new = _number(event, "prompt_tokens"), _number(event, "new_tokens")
    return Usage(
        None if prompt is None else int(prompt),
        None if new is None else int(new),
        _number(event, "first_token_s"),
        _number(event, "seconds"),
    )


def _odds(data: Mapping[str, Any]) -> Odds:
    """Return what the worker told of the options; what is no probability is left out."""
    masses = data.get("masses")
    known = masses if isinstance(masses, Mapping) else {}
    parts = {str(letter): _number(known, letter) for letter in known}
    return Odds(
        "logits",
        {letter: part for letter, part in parts.items() if part is not None},
        _number(data, "unfollowed") or 0.0,
        str(data.get("said", "")),
        str(data.get("problem", "")),
    )


def _number(event: Mapping[str, Any], key: str) -> float | None:
    value = event.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _failed(event: Mapping[str, Any], partial: str) -> Failed:
    known = {kind.value: kind for kind in FailureKind}
    return Failed(
        known.get(str(event.get("kind")), FailureKind.BAD_OUTPUT),
        str(event.get("message", "")),
        str(event.get("hint", "")),
        str(event.get("detail", "")),
        partial,
    )


def _wish(settings: WorkerSettings) -> dict[str, Any]:
    """Return the load command."""
    return {
        "folder": str(settings.folder.absolute()),  # the process has a folder of its own
        "dtype": settings.dtype,
        "device": settings.device,
        "revision": settings.revision,
        "never_fp16": settings.never_fp16,
        "trust_remote_code": settings.trust_remote_code,
        "forced": settings.forced,
        "idle_s": settings.idle_s,
        **(_own_code(settings) if settings.loader else {}),
    }


def _own_code(settings: WorkerSettings) -> dict[str, Any]:
    names = ("loader", "repository", "base", "code_mark")
    return {name: getattr(settings, name) for name in names}


def _request(ask: Ask, folder: Path) -> dict[str, Any]:
    """Return the ask command as JSON data; its pictures lie in ``folder``, one file each.

    A picture that an earlier turn of the conversation sent is not written again; those that this
    one does not send are removed.
    """
    files = {id(picture): _file_name(picture) for picture in ask.pictures}
    volume = None if ask.volume is None else _volume_file(ask.volume)
    for path in folder.glob("*.npy"):
        if path.name not in files.values() and path.name != volume:
            path.unlink()
    if volume is not None and not (folder / volume).exists():
        assert ask.volume is not None and ask.volume.values is not None
        _save(folder / volume, ask.volume.values)
    for picture in ask.pictures:
        path = folder / files[id(picture)]
        if not path.exists():
            _save(path, picture.pixels)
    return {
        "pictures": str(folder),
        "messages": [_message(message, files) for message in ask.messages],
        "tools": _plain(ask.tools),
        "sampling": asdict(ask.sampling),
        "template": _plain(ask.template),
        "processor": _plain(ask.processor),
        **({} if volume is None else {"volume": _volume_data(ask.volume, volume)}),
        "written": _plain(ask.written),
    }


def _volume_data(volume: ModelVolume | None, file: str) -> dict[str, Any]:
    assert volume is not None
    return {"file": file, "tensor_shape": list(volume.tensor_shape), "axes": volume.axes}


def _segmented(said: Any, volume: ModelVolume, folder: Path) -> Event:
    """Return a mask that the worker wrote, or a warning that it cannot be used."""
    try:
        path = folder / Path(str(said["file"])).name
        mask = np.load(path, mmap_mode="r", allow_pickle=False)
        if mask.shape != volume.shape or mask.dtype != np.bool_:
            raise ValueError(f"a mask of {mask.dtype} {mask.shape} for a volume of {volume.shape}")
        return Segmented(np.array(mask))
    except (OSError, ValueError, TypeError, KeyError) as error:
        return Warned(FailureKind.BAD_OUTPUT, f"The model's mask cannot be used: {error}")


def _save(path: Path, pixels: npt.NDArray[Any]) -> None:
    """Write an array whole or not at all: half a file would be taken for it the next time."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.save(file, pixels, allow_pickle=False)
    unfinished.replace(path)


def _volume_file(volume: ModelVolume) -> str:
    if volume.values is None:
        raise ValueError("the volume of a kept answer has no numbers to send")
    return _content_name(volume.values)


def _file_name(picture: Picture) -> str:
    return _content_name(picture.pixels)


def _content_name(array: npt.NDArray[Any]) -> str:
    pixels = np.ascontiguousarray(array)
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(pixels.data)
    return f"{digest.hexdigest()}.npy"


def _message(message: Message, files: Mapping[int, str]) -> dict[str, Any]:
    return {
        "role": message.role,
        "parts": [
            {"text": without_halves(part)} if isinstance(part, str) else {"file": files[id(part)]}
            for part in message.parts
        ],
        "calls": [{"name": c.name, "arguments": _plain(c.arguments)} for c in message.calls],
        "tool": message.tool,
    }


def _plain(data: Any) -> Any:
    """Return read-only mappings and tuples as the dicts and lists that JSON knows.

    Half a character, which JSON allows in a text, is no text to a tokenizer.
    """
    if isinstance(data, str):
        return without_halves(data)
    if isinstance(data, Mapping):
        return {without_halves(str(key)): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return data
