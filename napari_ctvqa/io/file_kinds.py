"""What a file of ours is, by its content: for the sentence where a file of another kind was meant.

Nothing here decides how a file is read; a file that is none of ours is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.json_files import head_text, is_lines, read_text

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 64 * 1024**2
"""A larger file is told by its head alone: this is asked when something has gone wrong already."""


@dataclass(frozen=True)
class _Told:
    holds: str
    """Follows the file's name: ``"holds the probes of a model"``."""
    use: str = ""
    """A sentence: what reads it."""


class FileKind(Enum):
    """A kind of file that this program writes."""

    RESULTS = _Told("holds the answers of a run", "score, audit and leaderboard read it.")
    PROBES = _Told(
        "holds the probes of a model",
        "This one is read by probe, as --out with the options that made it, and by the window.",
    )
    CHECKS = _Told("holds the checks that validate made", "This one is for a spreadsheet.")
    AUDIT = _Told("holds what audit made of a result file")
    METRICS = _Told("holds what score made of a result file")
    EVIDENCE = _Told("holds the evidence of one question")
    LEADERBOARD = _Told("holds published tables, as leaderboard writes them")
    QUESTION_LIST = _Told("holds a list of questions, as the command questions writes it")
    SUMMARY = _Told(
        "holds the summary that run or probe prints", "Its key out names the file with the answers."
    )
    SEEN = _Told(
        "holds what a model was sent for one question",
        "It belongs to the result file that its folder is named after.",
    )
    MEASUREMENTS = _Told("holds measurements", "This one is for a spreadsheet.")

    @property
    def holds(self) -> str:
        """Return what follows the file's name, without a full stop."""
        return self.value.holds

    @property
    def use(self) -> str:
        """Return a sentence: what reads it; empty where nothing of ours does."""
        return self.value.use


_TABLES: tuple[tuple[str, FileKind], ...] = (
    ("id,subtype,stated,recomputed,status,", FileKind.CHECKS),
    ("group,label,official,read,unread,n,", FileKind.AUDIT),
    ("table,model,input,asked,column,", FileKind.LEADERBOARD),
    ("id,case,stage,subtype,text,options,reference", FileKind.QUESTION_LIST),
    ("case,id,name,kind,plane,slice_shown_from_1,", FileKind.MEASUREMENTS),
)
_OBJECTS: tuple[tuple[frozenset[str], FileKind], ...] = (
    (frozenset({"model", "answers", "scores", "by_stage"}), FileKind.AUDIT),
    (frozenset({"overall", "reading_disagrees"}), FileKind.METRICS),
    (frozenset({"understood", "steps", "conclusion", "status"}), FileKind.EVIDENCE),
    (frozenset({"out", "n_processed", "failed"}), FileKind.SUMMARY),
    (frozenset({"question_id", "requests"}), FileKind.SEEN),
)
_ENTRIES: tuple[tuple[frozenset[str], FileKind], ...] = (
    (frozenset({"id", "stated", "recomputed", "status"}), FileKind.CHECKS),
    (frozenset({"benchmark", "metric", "source", "rows"}), FileKind.LEADERBOARD),
    (frozenset({"id", "case", "stage", "subtype", "text", "reference"}), FileKind.QUESTION_LIST),
)


def kind_of(path: Path) -> FileKind | None:
    """Return what a file of ours is; None for any other. Never raises."""
    head = head_text(path).lstrip("\ufeff \t\r\n")
    if not head.startswith(("{", "[")):
        return next((kind for start, kind in _TABLES if head.startswith(start)), None)
    if is_lines(head):
        return _kind_of_journal(head.partition("\n")[0])
    try:
        data = json.loads(read_text(path, max_bytes=_MOST_BYTES))
    except (CtvqaError, OSError, ValueError, RecursionError):
        return None
    return _kind_of_data(data)


def _kind_of_journal(line: str) -> FileKind | None:
    """Return of which file this is the journal, by the line that says what made it."""
    try:
        run = json.loads(line).get("run")
    except (ValueError, RecursionError):
        return None
    if not isinstance(run, Mapping):
        return None
    if run.get("kind") == "probes":
        return FileKind.PROBES
    return FileKind.CHECKS if "rules" in run else FileKind.RESULTS


def _kind_of_data(data: Any) -> FileKind | None:
    if isinstance(data, list):
        data, table = (data[0] if data else None), _ENTRIES
    else:
        table = _OBJECTS
    if not isinstance(data, Mapping):
        return None
    keys = frozenset(data)
    if table is _OBJECTS and "results" in keys:
        if data.get("kind") == "probes":
            return FileKind.PROBES
        return FileKind.RESULTS if "answer_format" in keys else None
    return next((kind for wanted, kind in table if wanted <= keys), None)
