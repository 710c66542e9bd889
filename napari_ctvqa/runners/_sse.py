"""Server-sent events of a chat stream: tolerant of what servers really send, bounded in size.

Servers close without ``[DONE]``, end lines with CR LF or CR, cut UTF-8 anywhere, leave out the
empty line between events, send comments, and put broken JSON into error lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LINE_BYTES = 8 * 1024 * 1024
"""A longer line is not read on."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_STRAY_CHARACTERS = 4000
_HELD_LINES = 64


class LineTooLong(Exception):
    """A line longer than ``LINE_BYTES``; ``start`` is its beginning, as text."""

    def __init__(self, start: str) -> None:
        super().__init__(f"a line of more than {LINE_BYTES} bytes")
        self.start = start


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The data of an event that is no JSON object."""

    text: str


class EventStream:
    """Takes bytes as they come and gives the JSON objects of the ``data:`` lines in them.

    ``done`` is true after ``[DONE]``; ``stray`` is the last line that belongs to no field, e.g. a
    plain ``Internal Server Error``.
    """

    def __init__(self) -> None:
        self.done = False
        self.stray = ""
        self._pieces: list[bytes] = []
        self._size = 0
        self._held = ""
        self._held_lines = 0
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any] | Unreadable]:
        """Yield what is complete with this chunk. Raises LineTooLong."""
        *ends, rest = _LINE_END.split(chunk)
        for end in ends:
            self._take(end)
            line = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            yield from self._line(line)
        self._take(rest)

    def finish(self) -> Iterator[dict[str, Any] | Unreadable]:
        """Yield what the last line held, where the server did not end it."""
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        yield from self._line(line)
        yield from self._line(b"")

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > LINE_BYTES:
            raise LineTooLong(b"".join(self._pieces)[:LINE_BYTES].decode("utf-8", "replace"))

    def _line(self, raw: bytes) -> Iterator[dict[str, Any] | Unreadable]:
        if self._first and raw:
            raw, self._first = raw.removeprefix(_BOM), False
        line = raw.decode("utf-8", "replace")
        if not line.strip():
            if self._held:
                held, self._held, self._held_lines = self._held, "", 0
                yield Unreadable(held)
            return
        field, colon, value = line.partition(":")
        if field == "data" and colon:
            yield from self._data(value.removeprefix(" "))
        elif field not in ("", "event", "id", "retry"):
            yield from self._plain(line)

    def _data(self, value: str) -> Iterator[dict[str, Any] | Unreadable]:
        if value.strip() == "[DONE]":
            self.done = True
            return
        # Data in several lines is one event by the standard; where the empty line between events
        # is missing, each line is an object by itself.
        text = f"{self._held}\n{value}" if self._held else value
        found = json_object(text)
        if found is None and self._held:
            found = json_object(value)
            if found is not None:
                yield Unreadable(self._held)
        self._held = text if found is None else ""
        self._held_lines = self._held_lines + 1 if found is None else 0
        if found is not None:
            yield found
        elif len(text) > LINE_BYTES:
            raise LineTooLong(text[:LINE_BYTES])
        elif self._held_lines >= _HELD_LINES:
            self._held, self._held_lines = "", 0
            yield Unreadable(text)

    def _plain(self, line: str) -> Iterator[dict[str, Any]]:
        found = json_object(line)
        if found is not None:
            yield found
        else:
            self.stray = line[:_STRAY_CHARACTERS]


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
