"""The result layout ``{metrics, n_processed, results}`` that every benchmark's runs are kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._deeptumorvqa_traces import trace_of_trajectory
from napari_ctvqa.benchmarks._records import (
    PredictionTable,
    as_text,
    read_only,
    shortened,
    without_pictures,
)
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import MADE, AnswerFormat, Prediction, Run
from napari_ctvqa.io.json_files import Row, Rows, is_lines, json_lines, parse_json, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.questions import QuestionSet


def holds_run(keys: frozenset[str]) -> bool:
    """Return whether a file with these folded keys holds results in this layout."""
    return "qid" in keys and bool(keys & {"rawoutput", "predanswer"})


def objects(items: Sequence[Any], path: Path, what: str) -> Rows:
    """Return the objects of a list as rows; ``line`` counts the entries from 1."""
    rows = [Row(i, item) for i, item in enumerate(items, start=1) if isinstance(item, dict)]
    problems = [
        f"{path}: {what} {i} of the list is no object."
        for i, item in enumerate(items, start=1)
        if not isinstance(item, dict)
    ]
    return Rows(rows, tuple(problems))


class _ResultRows:
    """The rows of a result file; one row becomes a Prediction when it is looked at."""

    def __init__(self, model: str, rows: list[dict[str, Any]]) -> None:
        self.model = model
        self.rows = rows

    @cached_property
    def ids(self) -> list[str]:
        return [as_text(row.get("qid")) for row in self.rows]

    def prediction(self, index: int) -> Prediction:
        row = self.rows[index]
        raw = row.get("raw_output")
        text = as_text(raw) if raw is not None else as_text(row.get("pred_answer"))
        seconds = row.get("seconds")
        timed = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        return Prediction(
            self.ids[index],
            self.model,
            text,
            trace_of_trajectory(row.get("trajectory")),
            float(seconds) if timed and seconds is not None else None,
            read_only(row),
        )


def read_run(path: Path, questions: QuestionSet) -> Run:
    """Read a finished or a partial result file.

    Raises
    ------
    InputFileError
        When the file cannot be read or has no list of results.
    """
    data, problems = _result_data(path)
    rows = [without_pictures(row) for row in data["results"]]
    table = _ResultRows(_model_name(data, path), rows)
    usable = [i for i, key in enumerate(table.ids) if key]
    metrics = data.get("metrics")
    predictions = PredictionTable(
        [table.ids[i] for i in usable], lambda row: table.prediction(usable[row])
    )
    return Run(
        table.model,
        predictions,
        _format(data),
        str(path),
        read_only(metrics) if isinstance(metrics, dict) else {},
        (*problems, *_notes(table, len(usable), data, questions)),
        read_only(_made(data, rows)),
    )


def _made(data: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the answers were made: as a file of our own says it.

    Of the benchmark's own files those of agents have trajectories, the others none.
    """
    if "answer_format" in data:
        return {key: data[key] for key in MADE if key in data}
    return {"config": {"mode": "agent" if any("trajectory" in row for row in rows) else "direct"}}


def _format(data: Mapping[str, Any]) -> AnswerFormat | None:
    """Return how a file of our own was made; the benchmark's own files do not say."""
    said = data.get("answer_format")
    return next((one for one in AnswerFormat if one == said), None)


def _notes(
    table: _ResultRows, usable: int, data: Mapping[str, Any], questions: QuestionSet
) -> list[str]:
    notes = []
    if usable < len(table.rows):
        notes.append(f"{len(table.rows) - usable} rows have no qid and are left out.")
    unknown = [key for key in table.ids if key and key not in questions.row_of]
    if unknown:
        notes.append(
            f"{len(unknown)} rows are about questions that are not in {questions.path} and are "
            f"not scored: {shortened(unknown)}."
        )
    repeated = usable - len({key for key in table.ids if key})
    if repeated:
        notes.append(f"{repeated} rows repeat a question; each is scored, the first is shown.")
    if not data.get("metrics"):
        notes.append("The file has no metrics: a partial file, or one that was never scored.")
    count = data.get("n_processed")
    if isinstance(count, int) and count != len(table.rows):
        notes.append(f"n_processed is {count}, the file has {len(table.rows)} rows.")
    return notes


def _model_name(data: Mapping[str, Any], path: Path) -> str:
    for key in ("model", "label"):
        if isinstance(data.get(key), str) and data[key].strip():
            return str(data[key]).strip()
    return path.name.removesuffix(".jsonl").removesuffix(".json").removesuffix(".partial")


def _result_data(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the file's object with ``results`` a list of objects, and problems."""
    text = read_text(path)
    if is_lines(text):
        lines = json_lines(text, path)
        values = [row.values for row in lines.rows]
        # the journal of a run of our own begins with what its file will say of it
        head = values.pop(0)["run"] if values and set(values[0]) == {"run"} else {}
        return {**(head if isinstance(head, dict) else {}), "results": values}, lines.problems
    data = parse_json(text, path)
    if isinstance(data, list):
        data = {"results": data}
    elif isinstance(data, dict) and "results" not in data and "qid" in data:
        data = {"results": [data]}
    if not isinstance(data, dict) or not isinstance(data.get("results"), list):
        raise InputFileError(
            path,
            "lacks the key results (a list).",
            hint="Expected {metrics, n_processed, results} as the benchmark's runner writes it.",
        )
    rows = objects(data["results"], path, "result")
    return {**data, "results": [row.values for row in rows.rows]}, rows.problems
