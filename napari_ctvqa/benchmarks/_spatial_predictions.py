"""CT-SpatialVQA's prediction files: every model's layout, aligned with the questions by content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import PredictionTable, as_text, read_only, shortened
from napari_ctvqa.benchmarks._result_file import objects
from napari_ctvqa.benchmarks._spatial_questions import Pairs, case_of_path
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import AnswerFormat, Prediction, Run
from napari_ctvqa.io.json_files import Rows, json_lines, parse_json, read_text

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet


class _Alignment:
    """Finds the question of a prediction record by its content."""

    def __init__(self, questions: QuestionSet) -> None:
        build = questions.build
        if isinstance(build, Pairs):
            answers = build.answers
        else:
            answers = [question.reference.text for question in questions]
        frame = questions.frame
        self.ids: list[str] = frame["id"].tolist()
        self._full: dict[tuple[str, str, str], list[int]] = {}
        self._loose: dict[tuple[str, str], list[int]] = {}
        columns = zip(frame["case"].tolist(), frame["text"].tolist(), answers, strict=True)
        for row, (case, text, answer) in enumerate(columns):
            self._full.setdefault((case, text, answer), []).append(row)
        self._columns = frame, answers
        self._used: set[int] = set()
        self._last = -1

    def row_of(self, record: Mapping[str, Any], case: str) -> int | None:
        """Return the question's row: by case, question and answer; else the next that fits."""
        question = as_text(record.get("question"))
        answer = record.get("answer")
        if case and answer is not None:
            return self._next(self._full.get((case, question, as_text(answer))))
        if not self._loose:
            self._fill_loose()
        return self._next(
            self._loose.get((case, question) if case else (question, as_text(answer)))
        )

    def _fill_loose(self) -> None:
        frame, answers = self._columns
        columns = zip(frame["case"].tolist(), frame["text"].tolist(), answers, strict=True)
        for row, (case, text, answer) in enumerate(columns):
            self._loose.setdefault((case, text), []).append(row)
            self._loose.setdefault((text, answer), []).append(row)

    def _next(self, rows: list[int] | None) -> int | None:
        """Return the one row, or of several the first unused after the last one given.

        Records keep the order of the questions; where several questions fit, order decides.
        """
        if rows is None:
            return None
        if len(rows) > 1:
            unused = [row for row in rows if row not in self._used]
            rows = [row for row in unused if row > self._last] or unused
            if not rows:
                return None
            self._used.add(rows[0])
        self._last = rows[0]
        return self._last


def _model_of(path: Path) -> str:
    return re.sub(r"_predictions(?:_full)?\Z", "", path.stem)


def _prediction_rows(path: Path) -> Rows:
    text = read_text(path)
    if not text.lstrip("\ufeff \t\r\n").startswith("["):
        return json_lines(text, path)
    return objects(parse_json(text, path), path, "prediction")


def read_predictions(path: Path, questions: QuestionSet) -> Run:
    """Read predictions in any model's layout, aligned with the questions by content.

    Raises
    ------
    InputFileError
        When the file cannot be read or holds no prediction.
    """
    rows = _prediction_rows(path)
    alignment = _Alignment(questions)
    model = _model_of(path)
    ids: list[str] = []
    lost: list[str] = []
    lacking = 0
    for row in rows.rows:
        record = row.values
        case = as_text(record.get("case_id")) or case_of_path(as_text(record.get("image_path")))
        found = alignment.row_of(record, case)
        lacking += "prediction" not in record
        if found is None:
            lost.append(f"line {row.line}")
        ids.append(alignment.ids[found] if found is not None else f"(line {row.line})")
    if lacking == len(rows.rows):
        raise InputFileError(
            path, "no line has the key prediction.", hint="Expected a model's prediction file."
        )

    def build(index: int) -> Prediction:
        record = rows.rows[index].values
        return Prediction(
            ids[index], model, as_text(record.get("prediction")), record=read_only(record)
        )

    notes = list(rows.problems)
    if lost:
        notes.append(
            f"{len(lost)} predictions belong to no question of {questions.path} (case, question "
            f"and answer do not occur): {shortened(lost)}."
        )
    if lacking:
        notes.append(f"{lacking} lines lack the key prediction.")
    repeated = len(ids) - len(set(ids))
    if repeated:
        notes.append(f"{repeated} lines repeat a question; the first is shown.")
    return Run(
        model,
        PredictionTable(ids, build),
        AnswerFormat.FREEFORM,
        str(path),
        {},
        tuple(notes),
        {"config": {"mode": "direct"}},  # the benchmark knows no tools
    )
