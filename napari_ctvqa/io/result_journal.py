"""Results that survive a kill: each answer is on disk before it counts, the file stays whole.

Two files: ``FILE`` is a DeepTumorVQA result file, always complete JSON, replaced atomically now
and then; ``FILE.partial.jsonl`` has every answer since the run began, one a line, each flushed to
the disk. Both together are the state; whoever opens them again goes on from there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.append_log import AppendLog, json_line, sync_folder
from napari_ctvqa.io.file_kinds import kind_of

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES = 4 * 1024**3
_PARTIAL = ".partial.jsonl"
_FIRST_WRITE_S = 2.0
_SHARE_OF_TIME = 0.05
"""At most this part of a run is spent on replacing FILE, so that long runs stay linear."""


class OtherRunError(InputFileError):
    """A result file of another model, format, kit, benchmark or configuration."""

    code = "other_run"


class NotWrittenError(InputFileError):
    """A result file that the disk does not take."""

    code = "not_written"


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Name the file that could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        raise NotWrittenError(
            path,
            f"cannot be written ({error.strerror or error}).",
            hint="Make room or give the folder back, then run it again: what was answered is kept.",
        ) from error


def partial_of(path: Path) -> Path:
    """Return the journal that lies beside a result file until its run is finished."""
    return path.with_name(f"{path.name}{_PARTIAL}")


def result_file_of(partial: Path) -> Path:
    """Return the result file that a journal belongs to."""
    return partial.with_name(partial.name.removesuffix(_PARTIAL))


class ResultJournal:
    """The results of one run on disk; open it with ``with``.

    Parameters
    ----------
    path
        FILE.
    run
        What the answers were made with (model, answer_format, kit, benchmark, config, software).
        A FILE of another model, format, kit, benchmark or config is refused; the server's host
        may be another.

    Raises
    ------
    BusyError
        When another run holds the file.
    OtherRunError
        When FILE is of a run that was made otherwise.
    InputFileError
        When FILE exists and is no result file.
    """

    SAME = ("model", "answer_format", "kit", "benchmark", "absent_means_none")

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path = path
        self.run = dict(run)
        self.partial = partial_of(path)
        self.notes: list[str] = []
        self._rows: dict[str, bytes] = {}
        self._foreign: list[bytes] = []
        """Rows of FILE that answer no question by its id: carried along as they are."""
        self._failed: set[str] = set()
        self._texts: dict[str, str] = {}
        self._log: AppendLog | None = None
        self._unwritten = 0
        self._next_write = 0.0
        self._file_is_ours = False
        """Whether FILE is there and of this run: then the journal beside it is, too."""

    # ------------------------------------------------------------------------------------ opening

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._log = AppendLog(self.partial, self.path)
        except OSError as error:
            raise InputFileError(
                self.path, f"cannot be written ({error.strerror or error}).",
                hint="Make its folder writable, or choose another place for results (--out).",
            ) from None  # fmt: skip
        try:
            self._load_file()
            self._load_partial(self._log)
        except BaseException:
            log = self._log
            if log.entries or log.unread:
                log.close()
            else:  # it was made just now: nothing is left beside a file that is none of ours
                log.remove()
            raise
        wait_s = 0.0 if self._unwritten else _FIRST_WRITE_S
        self._next_write = time.monotonic() + wait_s
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _load_file(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_file():
            raise InputFileError(
                self.path,
                "is not a file that results can be written to.",
                hint="Choose another --out.",
            )
        if self.path.stat().st_size > _MAX_BYTES:
            raise InputFileError(self.path, f"is larger than {_MAX_BYTES / 1e9:.0f} GB.",
                                 hint="Choose another --out.")  # fmt: skip
        try:
            data = json.loads(self.path.read_bytes())
        except (ValueError, RecursionError):
            data = None
        results = data.get("results") if isinstance(data, dict) else None
        if not isinstance(results, list):
            raise InputFileError(
                self.path, f"exists and {_what(self.path)}; it is left as it is.",
                hint="Choose another --out.",
            )  # fmt: skip
        self._check_run(data if "answer_format" in data else None, self.path)
        self._file_is_ours = True
        again = 0
        for row in results:
            if _key_of(row) is None:
                self._foreign.append(json_line({"row": row})[len(b'{"row": ') : -1])
            else:
                again += not self._keep(row)
        if self._foreign:
            self.notes.append(
                f"{len(self._foreign)} rows of {self.path} have no qid; they are kept as they are "
                "and answer nothing"
            )
        if again:
            self.notes.append(
                f"{again} rows of {self.path} answer a question that an earlier row answers; the "
                "earlier ones count"
            )

    def _load_partial(self, log: AppendLog) -> None:
        """Read the journal; a torn last line was cut off, so that the next one starts clean."""
        if log.torn:
            self.notes.append("the last answer was not written to its end and is asked again")
        headed = bool(log.entries) and "run" in log.entries[0] and not log.headless
        if headed:
            self._check_run(log.entries[0]["run"], self.partial)
        elif (log.entries or log.unread) and not self._file_is_ours:
            self._check_run(None, self.partial)
        for entry in log.entries[headed:]:
            self._keep(entry)
            self._unwritten += 1
        if log.unread:
            self.notes.append(f"{log.unread} lines of {self.partial} could not be read, left out")
        if not log.entries and not log.unread:
            with _written(self.partial):
                log.append({"run": self.run})

    def _check_run(self, found: Any, where: Path) -> None:
        if not isinstance(found, Mapping):
            raise InputFileError(
                where, "does not say which run made it; its answers cannot be added to.",
                hint="Choose another --out.",
            )  # fmt: skip
        theirs, ours = found.get("kind"), self.run.get("kind")
        if theirs != ours:
            raise OtherRunError(
                where,
                f"holds {_KINDS.get(theirs, theirs)}, to which {_KINDS.get(ours, ours)} cannot be "
                "added; it is left as it is.",
                hint="Choose another --out.",
            )
        same = ((key, found.get(key), self.run.get(key)) for key in self.SAME)
        differing = next((one for one in same if one[1] != one[2]), None)
        differing = differing or _first_difference(found.get("config"), self.run.get("config"))
        if differing is not None:
            key, theirs, ours = differing
            raise OtherRunError(
                where,
                f"was made with {key} {theirs!r:.200}, this run has {ours!r:.200}.",
                hint="Choose another --out, or remove that file.",
            )

    # ------------------------------------------------------------------------------------ content

    def _keep(self, row: Mapping[str, Any]) -> bool:
        """Take a row into account and return whether it counts; no finished answer is replaced."""
        key = _key_of(row)
        if key is None or (key in self._rows and key not in self._failed):
            return False
        text = str(row.get("raw_output", ""))
        self._rows[key] = json_line(row)
        self._texts[key] = text
        if text.startswith("[ERROR]"):
            self._failed.add(key)
        else:
            self._failed.discard(key)
        return True

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def failed(self) -> frozenset[str]:
        """Return the ids whose row is an ``[ERROR]``."""
        return frozenset(self._failed)

    @property
    def raw_texts(self) -> Mapping[str, str]:
        """Return the raw output of every row, by question id."""
        return self._texts

    def row(self, question_id: str) -> Mapping[str, Any] | None:
        """Return the row of an id as it is kept; None where there is none."""
        kept = self._rows.get(question_id)
        return None if kept is None else dict(json.loads(kept))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Return every row, in the order in which they came."""
        return (dict(json.loads(kept)) for kept in self._rows.values())

    def add(self, row: Mapping[str, Any]) -> None:
        """Put one answer on disk. When this returns it survives a kill and a power cut.

        Raises
        ------
        ValueError
            For an answer that is already there and is no ``[ERROR]``.
        NotWrittenError
            When the disk is full or has gone; the answers before it are kept.
        """
        key = row["qid"]
        if key in self._rows and key not in self._failed:
            raise ValueError(f"{key} already has an answer")
        assert self._log is not None
        with _written(self.partial):
            self._log.append(row)
        self._keep(row)
        self._unwritten += 1

    # ------------------------------------------------------------------------------------ writing

    def write_if_due(self) -> None:
        """Replace FILE when it is time to: more rarely the longer that takes."""
        if self._unwritten and time.monotonic() >= self._next_write:
            self.write()

    def write(self, *, metrics: Mapping[str, Any] | None = None, order: Iterable[str] = ()) -> None:
        """Replace FILE atomically: with metrics once the run is complete.

        ``order`` lists question ids; rows of other ids follow in the order they were answered.

        Raises
        ------
        NotWrittenError
            When the disk is full or has gone; FILE is as it was, and the journal has the answers.
        """
        with _written(self.path):
            self._replace(metrics, order)

    def _replace(self, metrics: Mapping[str, Any] | None, order: Iterable[str]) -> None:
        began = time.monotonic()
        head: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
        head |= {"n_processed": len(self._rows), **self.run}
        keys = dict.fromkeys(key for key in order if key in self._rows)
        keys |= dict.fromkeys(self._rows)
        temporary = self.path.with_name(
            f".{self.path.name}.tmp"
        )  # one name: no litter after a kill
        try:
            with temporary.open("wb") as file:
                file.write(json_line(head)[:-1] + b', "results": [\n')
                rows = [*(self._rows[key] for key in keys), *self._foreign]
                file.write(b",\n".join(rows))
                file.write(b"\n]}\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(self.path.parent)
        self._unwritten = 0
        took = time.monotonic() - began
        self._next_write = time.monotonic() + max(_FIRST_WRITE_S, took / _SHARE_OF_TIME)

    def finish(self, metrics: Mapping[str, Any], order: Iterable[str]) -> None:
        """Write FILE with its metrics; the journal has done its work and goes."""
        self.write(metrics=metrics, order=order)
        assert self._log is not None
        self._log.remove()
        self._log = None


_KINDS: Mapping[Any, str] = {None: "the answers of a run", "probes": "the probes of a model"}


def _what(path: Path) -> str:
    """Return what a file is that holds no results, to follow its name."""
    kind = kind_of(path)
    return "is not a result file" if kind is None else kind.holds


def _first_difference(theirs: Any, ours: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Return the first value in which two configurations differ, with the names that lead to it."""
    if name == "host" or theirs == ours:
        return None
    if not (isinstance(theirs, Mapping) and isinstance(ours, Mapping)):
        return name or "config", theirs, ours
    for key in dict.fromkeys((*ours, *theirs)):
        inner = f"{name}.{key}" if name else str(key)
        found = _first_difference(theirs.get(key), ours.get(key), inner)
        if found is not None:
            return found
    return None


def _key_of(row: Any) -> str | None:
    """Return a row's question id; a whole number, as an editor may leave it, is that id's text."""
    key = row.get("qid") if isinstance(row, Mapping) else None
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    return key if isinstance(key, str) else None
