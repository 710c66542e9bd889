"""A file of JSON lines that survives kills: what ``append`` returned from is on disk.

One process writes at a time. A last line that was torn by a kill is cut off when the file is
opened again; lines that cannot be read are counted and left out.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from napari_ctvqa.core.errors import CtvqaError

if TYPE_CHECKING:
    from pathlib import Path


class BusyError(CtvqaError):
    """Another run writes to the same file."""

    code = "busy"


class AppendLog:
    """JSON objects, one a line, locked for this process from opening to ``close``.

    Parameters
    ----------
    path
        The log; its folder exists.
    target
        What the log belongs to, for the message that somebody else writes to it.

    Raises
    ------
    BusyError
        When another process holds the file.
    OSError
        When it cannot be opened.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = _locked(path, target)
        self.entries: list[dict[str, Any]] = []
        """What the file held when it was opened, in order."""
        self.torn = False
        self.unread = 0
        self.headless = False
        """Whether the first line, which says what the others belong to, could not be read."""
        self._load(self._file)

    def _load(self, file: BinaryIO) -> None:
        file.seek(0)
        content = file.read()
        whole, newline, torn = content.rpartition(b"\n")
        if torn:
            file.truncate(len(whole) + len(newline))
            self.torn = True
        for number, line in enumerate(whole.split(b"\n") if newline else ()):
            entry = _parsed(line)
            if entry is None:
                self.unread += bool(line.strip())
                self.headless = self.headless or not number
            else:
                self.entries.append(entry)
        file.seek(0, os.SEEK_END)

    def append(self, *entries: Mapping[str, Any]) -> None:
        """Put entries on disk. When this returns they survive a kill and a power cut."""
        assert self._file is not None
        self._file.write(b"".join(json_line(entry) + b"\n" for entry in entries))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close and unlock; what counts was flushed before."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def remove(self) -> None:
        """Remove the file, which has done its work; the lock is kept until then."""
        if sys.platform == "win32":
            self.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.close()


def json_line(entry: Mapping[str, Any]) -> bytes:
    """Return an object as one line of JSON, ASCII only, without the line break.

    JSON has no NaN and no Infinity, and strict readers refuse a file that holds them: they are
    written as null.
    """
    try:
        text = json.dumps(entry, ensure_ascii=True, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(entry), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _locked(path: Path, target: Path) -> BinaryIO:
    """Open the log for this process alone.

    Whoever is done removes the log: a lock won on the removed file counts for nothing, so the
    path is opened again.
    """
    while True:
        file = path.open("a+b")
        try:
            _lock(file)
        except OSError:
            file.close()
            raise BusyError(
                f"{target}: another run is writing to this file.",
                hint="Wait for it to end, or choose another --out.",
            ) from None
        if _is_at(file, path):
            return file
        file.close()


def _is_at(file: Any, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(file.fileno())
    return (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev)


def _lock(file: Any) -> None:
    """Lock without waiting; the system lets go when the process ends, however it ends."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**30)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Make a rename last; Windows cannot open folders and needs no such call."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
