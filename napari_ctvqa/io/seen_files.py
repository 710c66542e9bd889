"""What a model saw and said, beside a result file: exact pixels, prompts, events with times.

``FILE.seen/`` holds for each question a folder with ``ask.json`` (every request: messages, tools,
sampling, recipe, where each picture lies in the CT) and ``events.jsonl`` (what happened, with
seconds since the beginning), ``masks.npz`` where the model outlined something, and ``pictures/``
with every picture once, named by its content.
``io.seen_writing`` writes them. Whoever reads them trusts nothing in them: names, sizes and shapes
are checked.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared, Sampling
from napari_ctvqa.core.errors import InputFileError, NotFoundError
from napari_ctvqa.core.events import (
    Again,
    CallMade,
    CallReturned,
    Done,
    Event,
    Failed,
    FailureKind,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.model_volumes import ModelVolume
from napari_ctvqa.core.records import ToolCall, ToolResult
from napari_ctvqa.io.json_files import is_file, read_json, read_json_lines
from napari_ctvqa.io.mask_files import MASKS, read_masks
from napari_ctvqa.io.pictures import read_png

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.geometry import Grid

logger = logging.getLogger(__name__)

PICTURES = "pictures"
ASK, EVENTS = "ask.json", "events.jsonl"
MAX_EVENTS_BYTES = 16 * 1024**2
"""Of one answer's events; later words are left out, the whole text stands in the last event."""
_MAX_S = 7 * 86_400.0
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str, "bool": bool, "int | None": (int, NoneType), "float | None": (int, float, NoneType),
}  # fmt: skip
_MAX_ASK_BYTES = 256 * 1024**2
_MAX_SIDE = 100_000
_FLAT = 1e-12
_MAX_PICTURE_BYTES = 200_000_000
PICTURE_NAME = re.compile(r"[0-9a-f]{32}\.png\Z")


def seen_folder(results: Path) -> Path:
    """Return the folder that belongs to a result file."""
    return results.with_name(f"{results.name}.seen")


def folder_name(question_id: str) -> str:
    """Return a question's folder: its id where that is a plain name, and a mark of the whole id.

    Ids come from benchmark files: they may hold slashes, differ by case alone, or have no end.
    """
    mark = hashlib.sha256(question_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', question_id)[:60]}-{mark}"


def content_mark(pixels: npt.NDArray[np.uint8]) -> str:
    """Return the name that a picture's content gives it, 32 hexadecimal digits."""
    mark = hashlib.sha256(str(pixels.shape).encode())
    mark.update(np.ascontiguousarray(pixels).data)
    return mark.hexdigest()[:32]


@dataclass(frozen=True)
class Seen:
    """What one answer's model saw: every request with its pictures, as they were sent."""

    question_id: str
    model: str
    requests: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event and when it happened, in seconds since the answer began."""

    at_s: float
    event: Event


def has_seen(results: Path, question_id: str) -> bool:
    """Return whether there is something of this question beside a result file."""
    return is_file(_folder_of(results, question_id) / ASK)


def ended_well(results: Path, question_id: str) -> bool:
    """Return whether what was kept of a question ends with an answer: not failed, not stopped."""
    path = _folder_of(results, question_id) / EVENTS
    try:
        if path.stat().st_size > 4 * MAX_EVENTS_BYTES:
            return False
        last = json.loads(path.read_bytes().rstrip().rpartition(b"\n")[2])
    except (OSError, ValueError, RecursionError):
        return False
    ends = isinstance(last, Mapping) and last.get("event") == "done"
    return ends and last.get("reason") != "cancelled"


def _folder_of(results: Path, question_id: str) -> Path:
    return seen_folder(results) / folder_name(question_id)


def read_seen(results: Path, question_id: str) -> Seen:
    """Return the requests of one answer.

    A picture that was not kept is a text that says so.

    Raises
    ------
    NotFoundError
        When nothing of this question was kept.
    InputFileError
        When a file is damaged, or a picture is not the one that was sent.
    """
    path = _folder_of(results, question_id) / ASK
    if not is_file(path):
        raise NotFoundError(
            f"{seen_folder(results)} holds nothing of question {question_id[:200]}.",
            hint="What a model saw is kept from runs with pictures kept (no --no-pictures).",
        )
    data = read_json(path, max_bytes=_MAX_ASK_BYTES)
    reader = _AskReader(path, seen_folder(results) / PICTURES)
    try:
        return reader.seen(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputFileError(
            path, f"is not as this program writes it ({type(error).__name__}: {error}).",
            hint="It was changed or is damaged: run the question again.",
        ) from None  # fmt: skip


@dataclass
class _AskReader:
    path: Path
    pictures: Path
    _read: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def seen(self, data: Mapping[str, Any]) -> Seen:
        sent: list[Sent] = []
        messages: tuple[Message, ...] = ()
        for row in data["requests"]:
            same = int(row["same_messages"])
            if not 0 <= same <= len(messages):
                raise ValueError("same_messages")
            messages = (*messages[:same], *(self._message(item) for item in row["messages"]))
            sampling = dict(row["sampling"])
            sampling["stop"] = tuple(sampling.get("stop", ()))
            ask = Ask(
                messages,
                tuple(row["tools"]),
                Sampling(**sampling),
                dict(row["template"]),
                dict(row["processor"]),
                int(row["expected_tokens"]),
                tuple(row.get("closed_tools", ())),
                volume=_volume(row["volume"]) if row.get("volume") is not None else None,
            )
            notes = tuple(str(note) for note in row["notes"])
            sent.append(Sent(Prepared(ask, notes, dict(row["recipe"])), int(row["step"])))
        return Seen(str(data["question_id"]), str(data["model"]), tuple(sent))

    def _message(self, data: Mapping[str, Any]) -> Message:
        return Message(
            str(data["role"]),
            tuple(self._part(part) for part in data["parts"]),
            tuple(_call(call) for call in data["calls"]),
            str(data["tool"]),
            str(data["call_id"]),
        )

    def _part(self, data: Mapping[str, Any]) -> str | Picture:
        if "picture" not in data:
            return str(data["text"])
        label = str(data["label"])
        if not data["picture"]:
            return f"[a picture that was not kept: {label}]"
        place = data["index_from_pixel"]
        matrix = None if place is None else np.array(place, np.float64)
        if matrix is not None and (matrix.shape != (3, 3) or not np.isfinite(matrix).all()):
            raise ValueError("index_from_pixel")
        windows = tuple((float(low), float(high)) for low, high in data["windows"])
        pixels = self._pixels(str(data["picture"]))
        return Picture(pixels, label, matrix, windows, str(data["kind"]))

    def _pixels(self, name: str) -> npt.NDArray[np.uint8]:
        """Return a picture's pixels, checked against the name that its content gives it."""
        if name in self._read:
            return self._read[name]
        if not PICTURE_NAME.match(name):
            raise ValueError(f"picture {name!r:.60}")
        path = self.pictures / name
        try:
            if path.stat().st_size > _MAX_PICTURE_BYTES:
                raise InputFileError(path, "is too large to be a picture that was sent.")
            pixels = read_png(path.read_bytes())
        except OSError as error:
            raise InputFileError(path, f"cannot be read ({error.strerror or error}).") from None
        except ValueError as error:
            raise InputFileError(path, f"is damaged ({error}).") from None
        if content_mark(pixels) != name.removesuffix(".png"):
            raise InputFileError(path, "is not the picture that was sent.",
                                 hint="It was changed: run the question again.")  # fmt: skip
        self._read[name] = pixels
        return pixels


def _volume(data: Mapping[str, Any]) -> ModelVolume:
    """Return where a volume lay; raises what ``_AskReader`` catches for one that lay nowhere."""
    matrix = np.array(data["index_from_voxel"], np.float64)
    a, b, c = (int(size) for size in data["shape"])
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not min(a, b, c) > 0:
        raise ValueError("index_from_voxel")
    if max(a, b, c) > _MAX_SIDE or abs(np.linalg.det(matrix[:3, :3])) < _FLAT:
        raise ValueError("shape of a volume")
    first, second, third = (_range(part) for part in data["inner"])
    crop = data["crop_voxels"]
    window = data["window_hu"]
    low, high = (float(value) for value in data["low_high"])
    slice_axis = int(data["slice_axis"])
    if slice_axis not in range(3) or not low < high:
        raise ValueError("slice_axis or low_high of a volume")
    return ModelVolume(
        None,
        (a, b, c),
        str(data["axes"])[:3],
        matrix,
        (first, second, third),
        float(data["fill"]),
        str(data["scaling"]),
        None if window is None else (float(window[0]), float(window[1])),
        (low, high),
        tuple(int(size) for size in data["lead"]),
        slice_axis,
        None if crop is None else (_range(crop[0]), _range(crop[1]), _range(crop[2])),
        str(data["recipe"]),
        {"content": tuple(float(figure) for figure in data["content"][:4])},
    )


def _range(part: Sequence[Any]) -> tuple[int, int]:
    low, high = (int(end) for end in part)
    if not 0 <= low <= high <= _MAX_SIDE:
        raise ValueError(f"a range of {low} to {high}")
    return low, high


def _call(data: Mapping[str, Any]) -> ToolCall:
    return ToolCall(str(data["name"]), dict(data["arguments"]))


def kept_masks(results: Path, question_id: str, grid: Grid) -> tuple[Mask, ...]:
    """Return the masks that a model outlined with an answer; none where none were kept.

    Raises InputFileError when they are damaged or lie on another grid.
    """
    path = _folder_of(results, question_id) / MASKS
    return read_masks(path, grid) if is_file(path) else ()


def read_events(results: Path, question_id: str) -> tuple[TimedEvent, ...]:
    """Return what happened while a question was answered, in order, times never going back.

    Requests come with their pictures (``read_seen``). A line that cannot be read is left out.

    Raises
    ------
    NotFoundError, InputFileError
        As ``read_seen`` does.
    """
    sent = read_seen(results, question_id).requests
    path = _folder_of(results, question_id) / EVENTS
    found: list[TimedEvent] = []
    last = 0.0
    for row in read_json_lines(path, max_bytes=4 * MAX_EVENTS_BYTES).rows:
        try:
            event = _event(row.values, sent)
            last = max(last, _seconds(row.values["t"]))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            logger.warning("%s: line %s is left out (%s)", path, row.line, error)
        else:
            found.append(TimedEvent(last, event))
    return tuple(found)


def _seconds(value: Any) -> float:
    """Return a time since the answer began; one that nobody would wait for is damage."""
    seconds = float(value)
    if not 0 <= seconds <= _MAX_S:
        raise ValueError(f"{seconds} s")
    return seconds


def _typed(event: Event) -> Event:
    """Return an event unless something in it is of another type than it says."""
    for one in fields(event):
        wanted = _TYPES.get(str(one.type))
        if wanted is not None and not isinstance(getattr(event, one.name), wanted):
            raise TypeError(f"{one.name} is no {one.type}")
    return event


_PLAIN: Mapping[str, Callable[..., Event]] = {
    "status": Status, "tokens": Tokens, "again": Again, "usage": Usage,
}  # fmt: skip


def _event(data: Mapping[str, Any], sent: Sequence[Sent]) -> Event:
    kind = data["event"]
    if kind == "sent":
        return sent[int(data["request"])]
    values = {key: value for key, value in data.items() if key not in ("t", "event")}
    if kind == "call_made":
        return CallMade(int(values["step"]), _call(values["call"]), str(values["repaired"]))
    if kind == "call_returned":
        result = ToolResult(**values["result"])
        return CallReturned(int(values["step"]), _call(values["call"]), result)
    if kind == "done":
        calls = tuple(_call(call) for call in values["calls"])
        return _typed(replace(Done(**values), calls=calls))
    if kind in ("failed", "warned"):
        values["kind"] = FailureKind(values["kind"])
        return _typed(Failed(**values) if kind == "failed" else Warned(**values))
    made: Event = _PLAIN[kind](**values)
    return _typed(made)
