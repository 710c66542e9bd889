"""QuestionSet: very many questions, listed and filtered without building each one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from napari_ctvqa.core.errors import NotFoundError

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

COLUMNS = ("id", "case", "stage", "subtype", "text")


@dataclass(frozen=True, eq=False)
class QuestionSet:
    """The questions of one benchmark, in file order.

    ``frame`` has the columns id, case, stage, subtype, text (strings) and a plain RangeIndex;
    ``build(row)`` makes the whole Question of a row on demand. ``problems`` are sentences about
    records that could not be used; they never stop the rest.
    """

    benchmark: str
    path: Path
    frame: pd.DataFrame
    build: Callable[[int], Question]
    problems: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, row: int) -> Question:
        return replace(self.build(row), benchmark=self.benchmark)

    def __iter__(self) -> Iterator[Question]:
        return (self[row] for row in range(len(self)))

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """Map question id to row (the first, where an id occurs twice)."""
        rows: dict[str, int] = {}
        for row, key in enumerate(self.frame["id"].tolist()):
            rows.setdefault(key, row)
        return rows

    def by_case(self, rows: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
        """Yield case and rows, cases in the order they first appear: each is to be read once."""
        cases = self.frame["case"]
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(str(cases.iat[row]), []).append(row)
        yield from groups.items()

    def by_id(self, question_id: str) -> Question:
        """Return the question of that id. Raises NotFoundError."""
        try:
            return self[self.row_of[question_id]]
        except KeyError:
            raise NotFoundError(
                f"{self.path} has no question {question_id!r}.",
                hint="List the ids with: napari-ctvqa questions PATH --csv",
            ) from None
