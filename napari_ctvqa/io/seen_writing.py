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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.events import (
    Again,
    CallMade,
    CallReturned,
    Done,
    Failed,
    Outlined,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.model_volumes import content_of
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.io.append_log import json_line, sync_folder
from napari_ctvqa.io.mask_files import MASKS, masks_as_bytes
from napari_ctvqa.io.pictures import png_of
from napari_ctvqa.io.seen_files import (
    ASK,
    EVENTS,
    MAX_EVENTS_BYTES,
    PICTURE_NAME,
    PICTURES,
    content_mark,
    folder_name,
    seen_folder,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Message, Picture
    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.model_volumes import ModelVolume

logger = logging.getLogger(__name__)

VERSION = 1
MAX_BYTES = 20 * 1024**3
"""Of the pictures beside one result file; beyond it prompts and events are kept without them."""
_MAX_CONTENT = 1_000_000


class SeenAnswer:
    """What one answer's model saw and said so far; on disk after ``SeenFiles.keep``.

    Pictures are packed in a thread while the model works, so that nobody waits for it afterwards.

    Parameters
    ----------
    question_id, model
        What is answered, by whom.
    has_picture
        Whether a picture of that name is on disk already; None packs each.
    pictures
        Whether pixels are wanted at all.
    """

    def __init__(
        self,
        question_id: str,
        model: str,
        *,
        has_picture: Callable[[str], bool] | None = None,
        pictures: bool = True,
    ) -> None:
        self.question_id, self.model = question_id, model
        self.config: Mapping[str, Any] = {}
        """How it was made, where no result file says so."""
        self.sent: list[Sent] = []
        self.masks: list[Mask] = []
        """What a volume model outlined, on the CT's grid."""
        self.lines: list[bytes] = []
        """Events as JSON lines, with seconds since this object was made."""
        self._has_picture = has_picture
        self._pictures = pictures
        self._began = time.monotonic()
        self._bytes = 0
        self._packed: dict[int, tuple[str, bytes]] = {}
        """By the picture's ``id``: its name, and the PNG unless it is on disk."""
        self._packing: list[Thread] = []

    def take(self, event: object) -> None:
        """Note an event with the time; what is no event is passed over."""
        seconds = round(time.monotonic() - self._began, 4)
        if isinstance(event, Outlined):
            self.masks.append(event.mask)
        told = _told(event)
        if told is None:
            return
        if isinstance(event, Sent):
            told["request"] = len(self.sent)  # two requests may be of one step
            self.sent.append(event)
            self._pack(event.prepared.ask.pictures)
        line = json_line({"t": seconds, **told}) + b"\n"
        if self._bytes + len(line) > MAX_EVENTS_BYTES and isinstance(event, Tokens | Status):
            return
        self._bytes += len(line)
        self.lines.append(line)

    def _pack(self, pictures: Sequence[Picture]) -> None:
        new = [picture for picture in pictures if id(picture) not in self._packed]
        if not self._pictures or not new:
            return
        self._packed.update({id(picture): ("", b"") for picture in new})
        thread = Thread(target=self._pack_all, args=(new,), name="ctvqa-png", daemon=True)
        self._packing.append(thread)
        thread.start()

    def _pack_all(self, pictures: Sequence[Picture]) -> None:
        for picture in pictures:
            name = f"{content_mark(picture.pixels)}.png"
            there = self._has_picture is not None and self._has_picture(name)
            self._packed[id(picture)] = (name, b"" if there else png_of(picture.pixels))

    def packed(self) -> Mapping[int, tuple[str, bytes]]:
        """Return every picture's name and PNG (empty when on disk), waiting until all are done."""
        for thread in self._packing:
            thread.join()
        return self._packed


class SeenFiles:
    """The folder beside one result file; answers may be kept from several threads.

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
        self._keeping = Lock()
        self._full = False

    def answer(self, question_id: str, model: str) -> SeenAnswer:
        """Begin an answer that will be kept here."""
        return SeenAnswer(question_id, model, has_picture=self._has_picture, pictures=self.pictures)

    def _has_picture(self, name: str) -> bool:
        return (self.folder / PICTURES / name).exists()

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
        packed = answer.packed()
        with self._keeping:  # two answers may have been sent the same picture
            kept = self._keep_pictures(dict(packed.values())) if self.pictures else frozenset()
        names = {key: name if name in kept else "" for key, (name, _) in packed.items()}
        data = {
            "version": VERSION,
            "question_id": answer.question_id,
            "model": answer.model,
            "requests": _requests(answer.sent, names),
            **({"config": plain(answer.config)} if answer.config else {}),
        }
        ask = json.dumps(data, ensure_ascii=True).encode("ascii")
        files = {ASK: ask, EVENTS: b"".join(answer.lines)}
        if answer.masks:
            files[MASKS] = masks_as_bytes(answer.masks)
        self._write_folder(folder_name(answer.question_id), files)
        return self._not_all() if self.pictures and not all(names.values()) else ""

    def _not_all(self) -> str:
        why = f": {self.folder} has reached its limit" if self._full else ""
        return f"not all pictures could be kept{why}"

    def _write_folder(self, name: str, files: Mapping[str, bytes]) -> None:
        """Put the files of one answer on disk, all of them at once."""
        new, folder = self.folder / f".{name}.tmp", self.folder / name
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for file, content in files.items():
            _write_synced(new / file, content)
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
        sync_folder(self.folder)

    def keep_files(
        self, pictures: Mapping[str, bytes], answers: Mapping[str, Mapping[str, bytes]]
    ) -> Mapping[str, str]:
        """Put answers on disk that were packed elsewhere: pictures by name, files by question.

        Names of pictures that none can have are left out, and a picture that is not on disk then
        is one that was not kept, as in ``keep``. Returns by question what could not be kept.
        """
        wanted = {name: png for name, png in pictures.items() if PICTURE_NAME.match(name)}
        notes: dict[str, str] = {}
        try:
            with self._keeping:
                kept = self._keep_pictures(wanted) if self.pictures and wanted else frozenset()
            for question_id, files in answers.items():
                ask, left_out = _without_pictures(files[ASK], kept)
                self._write_folder(folder_name(question_id), {**files, ASK: ask})
                if left_out and self.pictures:
                    notes[question_id] = self._not_all()
        except OSError as error:
            logger.warning("%s could not be written: %s", self.folder, error)
            said = f"what the model saw could not be kept ({error.strerror or error})"
            return dict.fromkeys(answers, said)
        return notes

    def _keep_pictures(self, contents: Mapping[str, bytes]) -> frozenset[str]:
        """Put pictures on disk that are not there; return the names of those that then are."""
        place = self.folder / PICTURES
        place.mkdir(parents=True, exist_ok=True)
        there = {name for name in contents if name and (place / name).exists()}
        new = [(name, png) for name, png in contents.items() if png and name not in there]
        written = [name for name, png in new if self._fits(png, place)]
        # First all, then flushed: one flush after the other would wait for the disk each time.
        for name in written:
            (place / f".{name}.tmp").write_bytes(contents[name])
        for name in written:
            _flush(place / f".{name}.tmp")
            (place / f".{name}.tmp").replace(place / name)
        if written:
            sync_folder(place)
        return frozenset(there.union(written))

    def _fits(self, png: bytes, place: Path) -> bool:
        if self._held is None:
            self._held = sum(item.stat().st_size for item in os.scandir(place))
        if self._held + len(png) > self.max_bytes:
            self._full = True
            return False
        self._held += len(png)
        return True


def _without_pictures(ask: bytes, kept: frozenset[str]) -> tuple[bytes, bool]:
    """Return the requests with the names of the kept pictures alone, and whether others went."""
    data = json.loads(ask)
    parts = [
        part
        for request in data["requests"]
        for message in request["messages"]
        for part in message["parts"]
        if part.get("picture") and part["picture"] not in kept
    ]
    for part in parts:
        part["picture"] = ""
    return (json.dumps(data, ensure_ascii=True).encode("ascii") if parts else ask), bool(parts)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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
                **({} if ask.volume is None else {"volume": _volume_data(ask.volume)}),
                "notes": list(one.prepared.notes),
                "recipe": plain(one.prepared.recipe),
            }
        )
    return rows


_ASK_KEYS = ("tools", "sampling", "template", "processor", "expected_tokens", "closed_tools")


_VOLUME_KEYS = (
    "shape", "axes", "index_from_voxel", "inner", "fill", "scaling", "window_hu", "low_high",
    "lead", "slice_axis", "crop_voxels", "recipe",
)  # fmt: skip


def _volume_data(volume: ModelVolume) -> dict[str, Any]:
    """Return a volume's place; its numbers are made again from the CT by the recipe."""
    place = {key: plain(getattr(volume, key)) for key in _VOLUME_KEYS}
    return {**place, "content": list(content_of(volume))}


def _message_data(message: Message, names: Mapping[int, str]) -> dict[str, Any]:
    parts = [
        {"text": part} if isinstance(part, str) else _picture_data(part, names.get(id(part), ""))
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
    "again": Again,
    "usage": Usage,
    "done": Done,
    "failed": Failed,
    "warned": Warned,
}
