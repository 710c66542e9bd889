"""What adapters share: keys under any spelling, values as text, a QuestionSet out of columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Prediction
from napari_ctvqa.io.json_files import head_text

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.records import Question

_NAMED = 5
_RECENT = 16
"""Predictions that a table keeps built: the current question and some before it."""
_MAX_DEPTH = 50
_LONG = 20_000
_BASE64 = re.compile(r"(?:data:[\w/+.-]+;base64,)?[A-Za-z0-9+/=\s_-]+\Z")
_KEY = re.compile(r'"([A-Za-z][\w .\-]{0,60})"\s*:')


def fold(key: str) -> str:
    """Return a key without case and separators: ``Question ID`` and ``question_id`` are one."""
    return re.sub(r"[^0-9a-z]", "", key.lower())


def as_text(value: Any) -> str:
    """Return a foreign value as text; null and NaN are empty, 63.0 is ``63``."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


PATIENT = ("sex", "age", "contrast", "scanner")
_NOTHING = ("", "nan", "none", "null", "-", "n/a")


def value_of(record: Mapping[str, Any], keys: Mapping[str, str], name: str) -> str:
    """Return the text under our name, without blanks around it; empty when the key is absent."""
    key = keys.get(name)
    return as_text(record[key]).strip() if key is not None else ""


def patient(record: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    """Return what the record says of sex, age, contrast and scanner; an age of 61.0 is 61."""
    said = {name: value_of(record, keys, name).removesuffix(".0") for name in PATIENT}
    return {name: text for name, text in said.items() if text.lower() not in _NOTHING}


class Columns:
    """Which key of a record means what, under any spelling; worked out once a set of keys."""

    def __init__(self, aliases: Mapping[str, Sequence[str]]) -> None:
        self._wanted = {fold(name): ours for ours, names in aliases.items() for name in names}
        self._rank = {
            fold(name): rank for names in aliases.values() for rank, name in enumerate(names)
        }
        self._known: dict[tuple[str, ...], Mapping[str, str]] = {}

    def of(self, record: Mapping[str, Any]) -> Mapping[str, str]:
        """Return our names mapped to the record's own keys; names it lacks are left out."""
        keys = tuple(record)
        if keys not in self._known:
            self._known[keys] = self._match(keys)
        return self._known[keys]

    def _match(self, keys: tuple[str, ...]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key in sorted(keys, key=lambda key: self._rank.get(fold(key), 0)):
            ours = self._wanted.get(fold(key))
            if ours is not None:
                found.setdefault(ours, key)
        return found

    def names(self, keys: Sequence[str]) -> frozenset[str]:
        """Return our names that these keys stand for."""
        return frozenset(self._match(tuple(keys)))


def head_keys(path: Path) -> frozenset[str]:
    """Return the folded keys of a file's beginning: a table's header or keys of JSON objects.

    Every benchmark asks this of the same files, so the answer is kept while a file is unchanged.
    """
    try:
        state = path.stat()
    except (OSError, ValueError):
        return frozenset()
    return _head_keys(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _head_keys(path: Path, changed_ns: int, size: int) -> frozenset[str]:
    del changed_ns, size
    text = head_text(path).lstrip("\ufeff \t\r\n")
    if text.startswith(("{", "[")):
        return frozenset(map(fold, set(_KEY.findall(text))))
    header = text.partition("\n")[0]
    if len(header) > 20_000 or not any(mark in header for mark in ",;\t"):
        return frozenset()
    return frozenset(fold(cell) for cell in re.split(r"[,;\t]", header))


def is_json(path: Path) -> bool:
    """Return whether a file's content begins as JSON does."""
    return head_text(path, 4096).lstrip("\ufeff \t\r\n").startswith(("{", "["))


def read_only(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a foreign record as a view that cannot be written to, nested no deeper than is shown.

    A hostile record may be nested so deeply that showing or copying it would fail.
    """
    if any(_is_deep(value) for value in record.values()):
        record = {key: without_pictures(value) for key, value in record.items()}
    return MappingProxyType(dict(record))


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def without_pictures(value: Any, depth: int = 0) -> Any:
    """Return JSON data with embedded pictures (long base64 texts) replaced by their length."""
    if isinstance(value, str):
        if len(value) > _LONG and _BASE64.match(value):
            return f"[base64, {len(value)} characters, left out]"
        return value
    if isinstance(value, dict | list) and depth >= _MAX_DEPTH:
        return "[nested too deeply, left out]"
    if isinstance(value, dict):
        return {key: without_pictures(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [without_pictures(item, depth + 1) for item in value]
    return value


def shortened(names: Sequence[str]) -> str:
    """Return a list for a sentence: the first few and how many more."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


class QuestionTable:
    """Collects the columns of a QuestionSet row by row."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.cases: list[str] = []
        self.stages: list[str] = []
        self.subtypes: list[str] = []
        self.texts: list[str] = []

    def add(self, id_: str, case: str, stage: str, subtype: str, text: str) -> None:
        """Append one row."""
        self.ids.append(id_)
        self.cases.append(case)
        self.stages.append(stage)
        self.subtypes.append(subtype)
        self.texts.append(text)

    def question_set(
        self,
        benchmark: str,
        path: Path,
        build: Callable[[int], Question],
        *,
        problems: Sequence[str] = (),
        notes: Mapping[str, str] | None = None,
    ) -> QuestionSet:
        """Return the set. Columns with few distinct values are categorical, so filters are quick.

        Raises
        ------
        InputFileError
            When there is no question at all.
        """
        if not self.ids:
            raise InputFileError(
                path,
                problems[0].removeprefix(f"{path}: ") if problems else "holds no question.",
                hint="Each record needs a question text and a case.",
            )
        all_notes = dict(notes or {})
        repeated = [key for key, count in Counter(self.ids).items() if count > 1]
        ids = self.ids
        if repeated:
            ids, build = _told_apart(ids, build)
            all_notes["duplicate_ids"] = (
                f"{len(repeated)} ids occur more than once: {shortened(repeated)}. The first keeps "
                f'its id and its predictions, the later ones are listed as "ID (2)" without any.'
            )
        frame = pd.DataFrame(
            {
                "id": pd.Series(ids, dtype=object),
                "case": pd.Categorical(self.cases),
                "stage": pd.Categorical(self.stages),
                "subtype": pd.Categorical(self.subtypes),
                "text": pd.Series(self.texts, dtype=object),
            }
        )
        return QuestionSet(benchmark, path, frame, build, tuple(problems), all_notes)


def _told_apart(
    ids: Sequence[str], build: Callable[[int], Question]
) -> tuple[list[str], Callable[[int], Question]]:
    """Return ids of which none repeats, and what builds questions with them.

    A prediction names an id: shown under two questions, it would be scored against both.
    """
    taken = set(ids)
    seen: set[str] = set()
    unique: list[str] = []
    for key in ids:
        number, name = 2, key
        while name in seen or (name != key and name in taken):
            name, number = f"{key} ({number})", number + 1
        seen.add(name)
        unique.append(name)
    return unique, lambda row: replace(build(row), id=unique[row])


class PredictionTable(Mapping[str, Prediction]):
    """Predictions by question id, built when asked for; the first counts where an id repeats.

    One that is asked for again is the same object, so that whoever worked something out of it
    knows that nothing has changed.
    """

    def __init__(self, ids: Sequence[str], build: Callable[[int], Prediction]) -> None:
        self._ids = ids
        self._build = build
        self._recent = lru_cache(_RECENT)(build)
        self._rows: dict[str, int] = {}
        for row, key in enumerate(ids):
            self._rows.setdefault(key, row)

    def __getitem__(self, key: str) -> Prediction:
        return self._recent(self._rows[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def every(self) -> Iterator[Prediction]:
        """Yield every row of the file, repeated ids included, in order."""
        return (self._build(row) for row in range(len(self._ids)))
