"""Writing what a model saw and said beside a result file; ``io.seen_files`` reads it.

Everything of one answer is on disk before the answer itself counts, and appears at once or not at
all.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.events import (
    CallMade,
    CallReturned,
    Done,
    Failed,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.io.append_log import json_line, sync_folder
from napari_ctvqa.io.pictures import png_of
from napari_ctvqa.io.seen_files import (
    ASK,
    EVENTS,
    MAX_EVENTS_BYTES,
    PICTURES,
    content_mark,
    folder_name,
    seen_folder,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from napari_ctvqa.core.asking import Message, Picture

logger = logging.getLogger(__name__)

VERSION = 1
MAX_BYTES = 20 * 1024**3
"""Of the pictures beside one result file; beyond it prompts and events are kept without them."""
_MAX_CONTENT = 1_000_000


@dataclass
class SeenAnswer:
    """What one answer's model saw and said so far; on disk after ``SeenFiles.keep``."""

    question_id: str
    model: str
    sent: list[Sent] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    """Events as JSON lines, with seconds since this object was made."""
    _began: float = field(default_factory=time.monotonic)
    _bytes: int = 0

    def take(self, event: object) -> None:
        """Note an event with the time; what is no event is passed over."""
        seconds = round(time.monotonic() - self._began, 4)
        told = _told(event)
        if told is None:
            return
        if isinstance(event, Sent):
            told["request"] = len(self.sent)  # two requests may be of one step
            self.sent.append(event)
        line = json_line({"t": seconds, **told}) + b"\n"
        if self._bytes + len(line) > MAX_EVENTS_BYTES and isinstance(event, Tokens | Status):
            return
        self._bytes += len(line)
        self.lines.append(line)


class SeenFiles:
    """The folder beside one result file.

    Parameters
    ----------
    results
        The result file.
    pictures
        Whether pixels are kept; prompts, places and events are in any case.
    max_bytes
        Of all pictures together.
    """

    def __init__(self, results: Path, *, pictures: bool = True, max_bytes: int = MAX_BYTES) -> None:
        self.folder = seen_folder(results)
        self.pictures = pictures
        self.max_bytes = max_bytes
        self._held: int | None = None

    def keep(self, answer: SeenAnswer) -> str:
        """Put an answer's requests and events on disk; one of the same question is replaced.

        Returns what could not be kept as a sentence, empty for nothing: an answer is never lost
        because its pictures do not fit on the disk. Nothing is written where nothing was sent.
        """
        if not answer.sent:
            return ""
        try:
            return self._write(answer)
        except OSError as error:
            logger.warning("%s could not be written: %s", self.folder, error)
            return f"what the model saw could not be kept ({error.strerror or error})"

    def _write(self, answer: SeenAnswer) -> str:
        pictures = dict.fromkeys(p for sent in answer.sent for p in sent.prepared.ask.pictures)
        names = {id(picture): self.keep_picture(picture.pixels) for picture in pictures}
        data = {
            "version": VERSION,
            "question_id": answer.question_id,
            "model": answer.model,
            "requests": _requests(answer.sent, names),
        }
        name = folder_name(answer.question_id)
        new, folder = self.folder / f".{name}.tmp", self.folder / name
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        _write_synced(new / ASK, json.dumps(data, ensure_ascii=True).encode("ascii"))
        _write_synced(new / EVENTS, b"".join(answer.lines))
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
        sync_folder(self.folder)
        if self.pictures and not all(names.values()):
            return f"pictures are no longer kept: {self.folder} has reached its limit"
        return ""

    def keep_picture(self, pixels: npt.NDArray[np.uint8]) -> str:
        """Put a picture on disk unless it is there; return its name, empty where it is not kept.

        Raises
        ------
        OSError
            When it cannot be written.
        """
        if not self.pictures:
            return ""
        name = f"{content_mark(pixels)}.png"
        place = self.folder / PICTURES
        path = place / name
        if path.exists():
            return name
        place.mkdir(parents=True, exist_ok=True)
        if self._held is None:
            self._held = sum(item.stat().st_size for item in os.scandir(place))
        content = png_of(pixels)
        if self._held + len(content) > self.max_bytes:
            return ""
        temporary = place / f".{name}.tmp"
        _write_synced(temporary, content)
        temporary.replace(path)
        self._held += len(content)
        return name


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _requests(sent: Sequence[Sent], names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return every request; messages that the one before it had too are counted, not repeated."""
    rows: list[dict[str, Any]] = []
    before: tuple[Message, ...] = ()
    for one in sent:
        ask = one.prepared.ask
        same = 0
        for ours, theirs in zip(ask.messages, before, strict=False):
            if ours is not theirs:
                break
            same += 1
        before = ask.messages
        rows.append(
            {
                "step": one.step,
                "same_messages": same,
                "messages": [_message_data(message, names) for message in ask.messages[same:]],
                **{key: plain(getattr(ask, key)) for key in _ASK_KEYS},
                "notes": list(one.prepared.notes),
                "recipe": plain(one.prepared.recipe),
            }
        )
    return rows


_ASK_KEYS = ("tools", "sampling", "template", "processor", "expected_tokens")


def _message_data(message: Message, names: Mapping[int, str]) -> dict[str, Any]:
    parts = [
        {"text": part} if isinstance(part, str) else _picture_data(part, names[id(part)])
        for part in message.parts
    ]
    calls = plain(message.calls)
    return {
        "role": message.role, "parts": parts, "calls": calls,
        "tool": message.tool, "call_id": message.call_id,
    }  # fmt: skip


def _picture_data(picture: Picture, name: str) -> dict[str, Any]:
    return {
        "picture": name,
        "shape": list(picture.pixels.shape),
        "label": picture.label,
        "index_from_pixel": plain(picture.index_from_pixel),
        "windows": plain(picture.windows),
        "kind": picture.kind,
    }


def _told(event: object) -> dict[str, Any] | None:
    """Return an event as plain data, None for what is none."""
    if isinstance(event, Sent):
        return {"event": "sent", "step": event.step}
    if isinstance(event, CallReturned):
        content = plain(event.result.content)
        size = len(json.dumps(content))
        if size > _MAX_CONTENT:
            content = {"left_out": f"{size} characters"}
        told = {"content": content, "region_id": event.result.region_id}
        result = {**told, "error": event.result.error}
        return {
            "event": "call_returned", "step": event.step,
            "call": plain(event.call), "result": result,
        }  # fmt: skip
    for name, kind in _PLAIN_EVENTS.items():
        if isinstance(event, kind):
            return {"event": name, **plain(event)}
    return None


_PLAIN_EVENTS: Mapping[str, type] = {
    "status": Status,
    "tokens": Tokens,
    "call_made": CallMade,
    "usage": Usage,
    "done": Done,
    "failed": Failed,
    "warned": Warned,
}
