"""The file that ``validate`` writes, and the journal beside it from which it goes on.

``FILE`` is a CSV table with the ten documented columns, replaced atomically. The journal,
``FILE.partial.jsonl``, has every check that was made, flushed to the disk case by case; it goes
once FILE is complete.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from napari_ctvqa import __version__
from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.cells import safe_cell
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.append_log import AppendLog, sync_folder
from napari_ctvqa.io.file_kinds import kind_of

if TYPE_CHECKING:
    from pathlib import Path

Key = tuple[int, str]
_TABLES = ("rules.json", "names.json", "knowledge.json")
_HEAD_BYTES = 4096


def rules_stamp() -> str:
    """Return a stamp of this version and its tables: other rules make other checks."""
    digest = hashlib.sha256(__version__.encode())
    for name in _TABLES:
        digest.update(resource_path(name).read_bytes())
    return digest.hexdigest()[:12]


class CheckTable:
    """The checks of one validation on disk; open it with ``with``.

    Parameters
    ----------
    path
        FILE.
    fields
        Its columns.
    run
        What is validated and how; a journal of anything else is refused.

    Raises
    ------
    BusyError
        When another run holds the file.
    InputFileError
        When FILE exists and is no table of checks, or the journal is another validation's.
    """

    def __init__(self, path: Path, fields: Sequence[str], run: Mapping[str, Any]) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial.jsonl")
        self.notes: list[str] = []
        self.done: dict[Key, dict[str, Any]] = {}
        """What the journal holds from before, by row and id."""
        self._fields = tuple(fields)
        self._run = {**run, "rules": rules_stamp()}
        self._log: AppendLog | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            self._log = AppendLog(self.partial, self.path)
        except OSError as error:
            raise InputFileError(
                self.path,
                f"cannot be written ({error.strerror or error}).",
                hint="Choose another --out.",
            ) from None
        try:
            self._load(self._log)
        except BaseException:
            self._log.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()

    def _refuse_foreign(self) -> None:
        if not self.path.exists():
            return
        head = b""
        if self.path.is_file():
            with self.path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
        first = head.split(b"\n", 1)[0].strip().decode("utf-8", "replace")
        if head.strip() and first != ",".join(self._fields):
            kind = kind_of(self.path)
            what = "is not a table that validate wrote" if kind is None else kind.holds
            raise InputFileError(
                self.path,
                f"exists and {what}; it is left as it is.",
                hint="Choose another --out.",
            )

    def _load(self, log: AppendLog) -> None:
        if log.torn:
            self.notes.append("the last check was not written to its end and is made again")
        if log.unread:
            self.notes.append(f"{log.unread} lines of {self.partial} could not be read, left out")
        entries = iter(log.entries)
        if not log.entries and not log.unread:
            log.append({"run": self._run})
            return
        found = next(entries, {}).get("run")
        if found != self._run:
            what = _difference(found, self._run)
            raise InputFileError(
                self.partial,
                f"belongs to another validation ({what}).",
                hint="Choose another --out, or remove that file to begin anew.",
            )
        for entry in entries:
            row, check = entry.get("row"), entry.get("check")
            if isinstance(row, int) and isinstance(check, dict):
                self.done[row, str(check.get("id"))] = check

    def add(self, checks: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Put the checks of one case on disk, each with the row of its question."""
        assert self._log is not None
        self._log.append(*({"row": row, "check": check} for row, check in checks))

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace FILE with these records, atomically."""
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(csv_text(records, self._fields).encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(self.path.parent)

    def finish(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write FILE; the journal has done its work and goes."""
        self.write(records)
        assert self._log is not None
        self._log.remove()
        self._log = None


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return "it does not say of what"
    unlike = [key for key in wanted if found.get(key) != wanted[key]]
    return ", ".join(f"{key}: {found.get(key)!r}, now {wanted[key]!r}" for key in unlike)[:300]


def csv_text(records: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Return records as CSV with a header line.

    A list is joined by ``"; "``, an object is JSON; what a spreadsheet would take for a formula
    gets an apostrophe in front (see ``core.cells``).
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    for record in records:
        writer.writerow([safe_cell(_cell(record[name])) for name in fields])
    return buffer.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False) if value else ""
    if isinstance(value, list | tuple):
        return "; ".join(str(item) for item in value)
    return "" if value is None else str(value)
