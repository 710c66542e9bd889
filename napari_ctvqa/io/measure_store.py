"""Measurements on disk: one log a CT in the user's data folder, never beside the data.

A CT is known by its grid and a sample of its voxels, not by its path: moved or renamed it keeps
its measurements, changed it has none. A line of the log is ``{"put": entry}`` or
``{"remove": id}``; the last one of an id counts. Nothing is ever rewritten, but where the file is
damaged: then it is kept aside as it was, and what can be read goes on in a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import platformdirs

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.append_log import AppendLog, BusyError, json_line, sync_folder
from napari_ctvqa.io.check_table import csv_text

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Volume

T = TypeVar("T")

FOLDER_VARIABLE = "NAPARI_CTVQA_MEASUREMENTS"
MAX_BYTES = 64 * 1024**2
_SAMPLED = 32
_TRIES, _WAIT_S = 10, 0.02


def measurements_folder() -> Path:
    """Return where measurements are kept; the variable NAPARI_CTVQA_MEASUREMENTS names another."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(platformdirs.user_data_dir("napari-ctvqa")) / "measurements"


def identity(volume: Volume) -> str:
    """Return what a CT is known by: its grid, and every n-th voxel, at most 32 along an axis."""
    grid = volume.grid
    steps = tuple(slice(None, None, -(-size // _SAMPLED)) for size in grid.shape_zyx)
    digest = hashlib.blake2b(digest_size=12)
    digest.update(repr(grid.shape_zyx).encode())
    digest.update(np.round(grid.affine_zyx_to_ras, 4).astype("<f8").tobytes())
    digest.update(np.ascontiguousarray(volume.array_zyx[steps], dtype="<f4").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Loaded:
    """The entries that count, in the order they were first put, and what was wrong, if anything."""

    entries: tuple[dict[str, Any], ...] = ()
    problem: str = ""


class MeasureStore:
    """The measurements of one CT.

    Parameters
    ----------
    volume
        The CT.
    case_id
        Part of the file's name, for people who look into the folder.
    """

    def __init__(self, volume: Volume, case_id: str) -> None:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", case_id)[:60].strip("._") or "case"
        self.path = measurements_folder() / f"{plain}-{identity(volume)}.jsonl"

    def load(self) -> Loaded:
        """Return what the file holds. A damaged file is kept aside first.

        Raises
        ------
        CtvqaError
            When the file is there and cannot be read, or another window just writes to it.
        """
        path = self._found()
        if path is None:
            return Loaded()
        return self._guarded(lambda: self._load(path))

    def put(self, entry: Mapping[str, Any]) -> None:
        """Write an entry; when this returns it survives a kill.

        Raises
        ------
        CtvqaError
            When it cannot be written: then it is not kept.
        """
        self._append({"put": entry})

    def remove(self, key: str) -> None:
        """Write that the entry of this id is gone. Raises CtvqaError when that is not possible."""
        self._append({"remove": key})

    def _found(self) -> Path | None:
        """Return the file of this CT, whatever the case was called when it was made."""
        if self.path.exists():
            return self.path
        stem = self.path.stem.rpartition("-")[2]
        try:
            named = sorted(self.path.parent.glob(f"*-{stem}.jsonl"))
        except OSError:
            return None
        return named[0] if named else None

    def _append(self, line: Mapping[str, Any]) -> None:
        path = self._found() or self.path

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            log = AppendLog(path, path)
            try:
                log.append(line)
            finally:
                log.close()
            if is_new:
                sync_folder(path.parent)

        self._guarded(write)

    def _guarded(self, act: Callable[[], T]) -> T:
        """Do something with the file; another window that writes at this moment is waited for."""
        tries = _TRIES
        while True:
            try:
                return act()
            except BusyError:
                tries -= 1
                if not tries:
                    raise CtvqaError(
                        f"{self.path}: another window is writing measurements of this CT.",
                        hint="Try again, or close the other window.",
                    ) from None
                time.sleep(_WAIT_S)
            except OSError as error:
                raise CtvqaError(
                    f"{self.path}: measurements cannot be kept here ({error.strerror or error}).",
                    hint="Check the folder's rights and its free space. "
                    f"{FOLDER_VARIABLE} names another folder.",
                ) from error

    def _load(self, path: Path) -> Loaded:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CtvqaError(
                f"{path}: {size:,} bytes, more than the {MAX_BYTES:,} that are read.",
                hint="Move it away; new measurements begin a new file.",
            )
        content = path.read_bytes()
        lines = [line for line in content.split(b"\n") if line.strip()]
        read = [_parsed(line) for line in lines]
        bad = [line for line, entry in zip(lines, read, strict=True) if entry is None]
        if bad and bad == lines[-1:] and bad[0].startswith(b"{") and not content.endswith(b"\n"):
            bad = []  # a kill cut the last line, which was never said to be kept
        good = [entry for entry in read if entry is not None]
        problem = ""
        if bad:
            aside = _keep_aside(path, good)
            problem = (
                f"{path.name}: {len(bad)} of {len(lines)} lines cannot be read. The file as it was "
                f"is {aside.name} beside it; what could be read is shown."
            )
        return Loaded(_counting(good), problem)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line of the log, None for what is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    put = entry.get("put")
    if isinstance(put, dict) and isinstance(put.get("id"), str):
        return entry
    return entry if isinstance(entry.get("remove"), str) else None


def _counting(lines: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the entries that were put and not removed, as they were put last."""
    entries: dict[str, dict[str, Any]] = {}
    for line in lines:
        if "put" in line:
            entries[line["put"]["id"]] = line["put"]
        else:
            entries.pop(line["remove"], None)
    return tuple(entries.values())


def _keep_aside(path: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    """Copy a damaged file, then put what could be read in its place; a kill loses nothing."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}.txt")
    shutil.copy2(path, aside)
    _flush(aside)
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(b"".join(json_line(line) + b"\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
    return aside


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


COLUMNS = (
    *("case", "id", "name", "kind", "plane", "slice_shown_from_1", "file_axis"),
    *("file_slice_from_0", "measure", "value", "unit", "caveats", "rule"),
    *("points_display_zyx", "points_lps_mm", "made_at", "software"),
)
"""Of the table: one row for each value of each measurement."""


def write_table(path: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write measurements as CSV, UTF-8, replaced whole.

    Raises
    ------
    CtvqaError
        When the file cannot be written.
    """
    rows = [
        {**entry, **value, "caveats": [*value["caveats"], *entry["caveats"]]}
        for entry in entries
        for value in entry["values"]
    ]
    text = csv_text(rows, COLUMNS)
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        _flush(temporary)
        temporary.replace(path)
    except OSError as error:
        raise CtvqaError(
            f"{path}: cannot be written ({error.strerror or error}).",
            hint="Choose another file.",
        ) from error
