"""CT-SpatialVQA's jury of three judges: as published (by position) and aligned by content."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import as_text
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.io.json_files import is_file, read_json

if TYPE_CHECKING:
    from pathlib import Path

JUDGES = ("gemini", "gpt", "qwen")
SUFFIXES = {
    "gemini": ("_gemini2.5_eval_full", "_gemini2.5_eval_fixed", "_gemini2.5_eval", "_gemini_eval"),
    "gpt": ("_gpt_eval",),
    "qwen": ("_qwen_eval",),
}
RIGHT_FROM = 66
"""A question is right from this many hundredths of the mean vote on: two of three judges."""

_MARKER = re.compile(r"\s*(PARSE_ERROR|REQUEST_ERROR|BLOCKED_OR_EMPTY_RESPONSE)")


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge's row: what it judged, whether it found it right, and a marker of trouble."""

    case_id: str
    question: str
    answer: str
    prediction: str
    right: bool
    """A null verdict counts as false, as in the published numbers."""
    null: bool
    marker: str


@dataclass(frozen=True)
class JudgeFile:
    """One judge's votes on one model's predictions, in file order."""

    judge: str
    path: Path
    votes: tuple[Vote, ...]

    @property
    def markers(self) -> int:
        """Return how many votes were recovered from, or lost to, a broken reply."""
        return sum(1 for vote in self.votes if vote.marker)


def judge_of(path: Path) -> str:
    """Return which judge a file name speaks of; empty for none."""
    stem = path.name.lower()
    return next((judge for judge in JUDGES if judge in stem), "")


def found_judges(predictions: Path, model: str) -> dict[str, Path]:
    """Return the judge files that lie beside a prediction file in the benchmark's layout."""
    places = (predictions.parent.parent / "llm_eval", predictions.parent / "llm_eval",
              predictions.parent)  # fmt: skip
    found: dict[str, Path] = {}
    for judge, suffixes in SUFFIXES.items():
        files = (place / f"{model}{suffix}.json" for suffix in suffixes for place in places)
        file = next((file for file in files if is_file(file)), None)
        if file is not None:
            found[judge] = file
    return found


def named_judges(files: Sequence[Path]) -> dict[str, Path]:
    """Return given judge files by judge.

    Raises
    ------
    CtvqaError
        When a name tells no judge, or two files are of the same one.
    """
    found: dict[str, Path] = {}
    for file in files:
        judge = judge_of(file)
        if not judge or judge in found:
            why = f"is a second file of {judge}" if judge else "names no judge"
            raise CtvqaError(
                f"{file} {why}; the judges are {', '.join(JUDGES)}.",
                hint="Give one file a judge, its name holding gemini, gpt or qwen.",
            )
        found[judge] = file
    return found


def read_judge(judge: str, path: Path) -> JudgeFile:
    """Read a judge file: a list of ``{case_id, question, answer, prediction, is_correct}``.

    Raises
    ------
    InputFileError
        When it is no such list, naming the entry.
    """
    data = read_json(path)
    if not isinstance(data, list):
        raise InputFileError(
            path, "holds no list of judged answers.", hint="Expected one judge's file."
        )
    return JudgeFile(judge, path, tuple(_vote(item, i, path) for i, item in enumerate(data)))


def _vote(item: Any, index: int, path: Path) -> Vote:
    if not isinstance(item, dict) or "is_correct" not in item or "question" not in item:
        raise InputFileError(
            path,
            f"entry {index} lacks the key is_correct or question.",
            hint="Expected {case_id, question, answer, prediction, is_correct}.",
        )
    verdict = item["is_correct"]
    marker = _MARKER.match(as_text(item.get("reasoning")))
    return Vote(
        as_text(item.get("case_id")), as_text(item["question"]), as_text(item.get("answer")),
        as_text(item.get("prediction")), verdict is True, verdict is None,
        marker[1] if marker else "",
    )  # fmt: skip


Key = tuple[str, str, str, str]


def align(predictions: Sequence[Key], votes: Sequence[Vote]) -> list[int | None]:
    """Return, for each vote, the index of the prediction it judges, or None.

    Votes follow the order of the predictions with some left out: each takes the next prediction of
    the same (question, answer, prediction), and of the same case where the vote names it. Where
    that does not place every vote the order was changed; then the n-th vote on a content takes the
    n-th prediction of that content.
    """
    named = bool(votes) and all(vote.case_id for vote in votes)
    places: dict[Key, list[int]] = defaultdict(list)
    for index, (case, question, answer, prediction) in enumerate(predictions):
        places[case if named else "", question, answer, prediction].append(index)
    keys = [(v.case_id if named else "", v.question, v.answer, v.prediction) for v in votes]
    in_order: list[int | None] = []
    last = -1
    for key in keys:
        fitting = places.get(key, [])
        at = bisect_left(fitting, last + 1)
        if at == len(fitting):
            return _by_count(keys, places)
        last = fitting[at]
        in_order.append(last)
    return in_order


def _by_count(keys: Sequence[Key], places: Mapping[Key, list[int]]) -> list[int | None]:
    used: dict[Key, int] = defaultdict(int)
    found: list[int | None] = []
    for key in keys:
        fitting = places.get(key, [])
        found.append(fitting[used[key]] if used[key] < len(fitting) else None)
        used[key] += 1
    return found


@dataclass(frozen=True)
class Jury:
    """The jury's votes by index of the prediction, both ways of pairing the judges' rows."""

    official: Mapping[int, int]
    """Votes for right, 0 to 3, as published: the judges' n-th rows taken together; the question
    is that of the first judge's row."""
    aligned: Mapping[int, int]
    """Votes for right, 0 to 3, each on this prediction; only where all three judges voted."""
    n: int
    """How many rows the published pairing covers."""
    misaligned_rows: int
    """Rows whose judges speak of different questions or answers in the published pairing."""
    unplaced: int
    """Votes that belong to no prediction."""


def is_right(votes: int) -> bool:
    """Return whether so many of three votes make a question right."""
    return votes * 100 // 3 >= RIGHT_FROM


def jury(files: Sequence[JudgeFile], predictions: Sequence[Key]) -> Jury:
    """Return the jury of exactly three judges, in the order of JUDGES."""
    placed = [align(predictions, file.votes) for file in files]
    n = min(len(file.votes) for file in files)
    official: dict[int, int] = {}
    misaligned = 0
    for row in range(n):
        together = [file.votes[row] for file in files]
        misaligned += len({(vote.question, vote.answer) for vote in together}) > 1
        index = placed[0][row]
        official[index if index is not None else -1 - row] = sum(v.right for v in together)
    by_judge = [
        {index: file.votes[row].right for row, index in enumerate(where) if index is not None}
        for file, where in zip(files, placed, strict=True)
    ]
    common = set.intersection(*(set(votes) for votes in by_judge))
    aligned = {index: sum(votes[index] for votes in by_judge) for index in sorted(common)}
    unplaced = sum(index is None for where in placed for index in where)
    return Jury(official, aligned, n, misaligned, unplaced)


def accuracy(votes: Mapping[int, int]) -> float | None:
    """Return the share of questions that at least two judges found right."""
    return sum(map(is_right, votes.values())) / len(votes) if votes else None
