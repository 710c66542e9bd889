"""CT-SpatialVQA's question files: nested, by line, with categories, with reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import (
    QuestionTable,
    as_text,
    head_keys,
    is_json,
    read_only,
)
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import AnswerType, Question, Reference
from napari_ctvqa.io.json_files import (
    is_file,
    is_folder,
    is_lines,
    json_lines,
    parse_json,
    read_json,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet

_STEM = "spatial_qa_filtered_full"
_QUESTION_PLACES = ("dataset/ct_spatialvqa", "", "QA_generation", "benchmarking/eval_scripts/"
                    "spatial_categories", "eval_scripts/spatial_categories")  # fmt: skip
_QUESTION_NAMES = (f"{_STEM}.json", f"{_STEM}_nifti.jsonl", f"{_STEM}_with_categories.json")
_CATEGORY_PLACES = ("benchmarking/eval_scripts/spatial_categories", "eval_scripts/"
                    "spatial_categories", "spatial_categories", "")  # fmt: skip
_CATEGORY_ALIASES = {"Medial-Lateral Orientation": "Medial-Lateral Orientation (Centricity)"}
_VOLUMES = (".nii.gz", ".npy", ".npz", ".nii")
_REPORT = "report (validation_reports_output.json)"
"""Key under which a record shows the report that its question was made from."""


def case_of_path(image_path: str) -> str:
    """Return the case id of an image path: its stem, with ``.nii.gz``; empty for no path."""
    name = image_path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for suffix in _VOLUMES:
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return f"{name}.nii.gz" if name else ""


class Pairs:
    """Questions in file order; calling it with a row builds that Question."""

    def __init__(self, table: QuestionTable) -> None:
        self.table = table
        self.records: list[Mapping[str, Any]] = []
        self.answers: list[str] = []
        self.categories: list[tuple[str, ...]] = []
        self.reports: Mapping[str, Any] = {}

    def __call__(self, row: int) -> Question:
        record = self.records[row]
        report = self.reports.get(self.table.cases[row])
        if report is not None:
            record = {**record, _REPORT: report}
        return Question(
            id=self.table.ids[row],
            case_id=self.table.cases[row],
            text=self.table.texts[row],
            reference=Reference(self.answers[row]),
            subtype=self.table.subtypes[row],
            answer_type=AnswerType.OPEN,
            categories=self.categories[row],
            raw=read_only(record),
            missing_keys=() if record.get("answer") is not None else ("answer",),
        )


def read_questions(name: str, path: Path) -> QuestionSet:
    """Read the questions of a folder or of one file; ids are ``<case_id>::<index>``.

    Raises
    ------
    InputFileError
        When there is no question file or it cannot be read.
    """
    file = question_file(path) if is_folder(path) else path
    if file is None:
        raise InputFileError(
            path,
            f"has no {_STEM}.json.",
            hint="Give the benchmark's folder, or one question file.",
        )
    pairs = Pairs(QuestionTable())
    problems: list[str] = []
    known = _Categories(_category_file(path, file), problems)
    pairs.reports = _reports(path, file, problems)
    counts: dict[str, int] = defaultdict(int)
    for case, record in _records(file, problems):
        index = counts[case]
        counts[case] += 1
        question = as_text(record.get("question"))
        if not question:
            problems.append(f"{file}: {case}::{index} lacks the key question.")
            continue
        answer = as_text(record.get("answer"))
        categories = _labels(record) or known.of(case, index, question, answer)
        pairs.table.add(f"{case}::{index}", case, "", "; ".join(categories), question)
        pairs.records.append(record)
        pairs.answers.append(answer)
        pairs.categories.append(categories)
    notes = {"questions_from": str(file)}
    return pairs.table.question_set(name, path, pairs, problems=problems, notes=notes)


def question_file(folder: Path) -> Path | None:
    """Return the folder's question file, the benchmark's own first; None when it has none."""
    files = (folder / place / name for name in _QUESTION_NAMES for place in _QUESTION_PLACES)
    return next((file for file in files if holds_questions(file)), None)


def benchmark_root(path: Path) -> Path:
    """Return the benchmark's folder that PATH lies in, by the names of its own layout only."""
    folder = path if is_folder(path) else path.parent
    inside = ("dataset/ct_spatialvqa", "benchmarking/eval_scripts/spatial_categories",
              "benchmarking/reports/predictions", "benchmarking", "dataset")  # fmt: skip
    for place in inside:
        parts = PurePosixPath(place).parts
        if folder.parts[-len(parts) :] == parts:
            return folder.parents[len(parts) - 1]
    return folder


def _category_file(path: Path, questions: Path) -> Path | None:
    roots = dict.fromkeys((benchmark_root(path), benchmark_root(questions), questions.parent))
    name = f"{_STEM}_with_categories.json"
    files = (base / place / name for base in roots for place in _CATEGORY_PLACES)
    return next((file for file in files if is_file(file) and file != questions), None)


def _reports(path: Path, questions: Path, problems: list[str]) -> Mapping[str, Any]:
    """Return the report text behind each case's questions, where the folder has it."""
    roots = dict.fromkeys((benchmark_root(path), benchmark_root(questions)))
    files = (base / "QA_generation" / "validation_reports_output.json" for base in roots)
    file = next((file for file in files if is_file(file)), None)
    if file is None:
        return {}
    try:
        data = read_json(file)
    except InputFileError as error:
        problems.append(f"Reports are not shown: {error}")
        return {}
    return data if isinstance(data, dict) else {}


def holds_questions(path: Path) -> bool:
    """Return whether a file begins like the questions or a model's input; never raises."""
    if not is_json(path):
        return False
    keys = head_keys(path)
    if not {"question", "answer"} <= keys or keys & {"prediction", "iscorrect", "qid"}:
        return False
    special = keys & {"mcquestion", "options", "correctoption", "questionsubtype"}
    by_line = "imagepath" in keys
    return not special and ("qapairs" in keys or by_line)


def _records(file: Path, problems: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (case id, record) from the nested JSON or from JSON lines."""
    text = read_text(file)
    if is_lines(text):
        rows = json_lines(text, file)
        problems += rows.problems
        for row in rows.rows:
            case = as_text(row.values.get("case_id"))
            yield case or case_of_path(as_text(row.values.get("image_path"))), row.values
        return
    data = parse_json(text, file)
    if not isinstance(data, dict):
        raise InputFileError(
            file, "holds no object of cases.", hint='Expected {"<case>": {"qa_pairs": [...]}}.'
        )
    if "question" in data:
        yield case_of_path(as_text(data.get("case_id") or data.get("image_path"))), data
        return
    for case, entry in data.items():
        pairs = entry.get("qa_pairs") if isinstance(entry, dict) else None
        if not isinstance(pairs, list):
            problems.append(f"{file}: case {case} lacks the key qa_pairs (a list).")
            continue
        for index, record in enumerate(pairs):
            if isinstance(record, dict):
                yield case, record
            else:
                problems.append(f"{file}: {case}::{index} is no object.")


def _labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    labels = record.get("category")
    if not isinstance(labels, list):
        return ()
    return _named(tuple(map(as_text, labels)))


@lru_cache(maxsize=4096)
def _named(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels under one spelling, each once; the same few combinations recur."""
    return tuple(dict.fromkeys(_CATEGORY_ALIASES.get(name, name) for name in labels if name))


class _Categories:
    """The labels of the categories file, found by position and checked by content."""

    def __init__(self, file: Path | None, problems: list[str]) -> None:
        self._cases: Mapping[str, Any] = {}
        if file is None:
            return
        try:
            data = read_json(file)
        except InputFileError as error:
            problems.append(f"Categories are not shown: {error}")
            return
        if isinstance(data, dict):
            self._cases = data
        else:
            problems.append(f"Categories are not shown: {file} holds no object of cases.")

    def of(self, case: str, index: int, question: str, answer: str) -> tuple[str, ...]:
        entry = self._cases.get(case)
        pairs = entry.get("qa_pairs") if isinstance(entry, dict) else None
        if not isinstance(pairs, list):
            return ()
        if index < len(pairs) and _says(pairs[index], question, answer):
            return _labels(pairs[index])
        return next((_labels(p) for p in pairs if _says(p, question, answer)), ())


def _says(pair: Any, question: str, answer: str) -> bool:
    return (
        isinstance(pair, dict)
        and pair.get("question") == question
        and as_text(pair.get("answer")) == answer
    )
