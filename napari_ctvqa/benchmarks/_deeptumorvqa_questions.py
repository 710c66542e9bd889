"""DeepTumorVQA's question files: nested JSON, JSON lines, tables under any spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._deeptumorvqa_subtypes import (
    inferred_type,
    spaced,
    subtype_name,
    subtypes,
)
from napari_ctvqa.benchmarks._records import (
    Columns,
    QuestionTable,
    head_keys,
    is_json,
    patient,
    read_only,
    value_of,
)
from napari_ctvqa.benchmarks._result_file import holds_run, objects
from napari_ctvqa.core.errors import AmbiguousError, InputFileError
from napari_ctvqa.core.records import Question, Reference
from napari_ctvqa.core.scoring import parse_options
from napari_ctvqa.io.json_files import (
    Rows,
    is_lines,
    json_lines,
    parse_json,
    read_csv,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet

_ALIASES = {
    "qid": ("qid", "question id"),
    "case": ("image id", "bdmap id"),
    "question": ("question",),
    "mc_question": ("mc question", "multiple choice question"),
    "answer": ("answer",),
    "correct_option": ("correct option",),
    "organ": ("organ",),
    "lesion": ("lesion",),
    "question_type": ("question type",),
    "question_subtype": ("question subtype",),
    "sex": ("sex",),
    "age": ("age",),
    "scanner": ("scanner",),
    "contrast": ("contrast",),
}
_COLUMNS = Columns(_ALIASES)
_PROMISED = ("qid", "case", "question", "mc_question", "answer", "correct_option",
             "question_type", "question_subtype")  # fmt: skip
_BENCHMARK_FILES = ("test_qa.json", "test_qa.jsonl")
_TRAINING_FILES = ("train_qa.csv", "val_qa_pool.csv")


def read_questions(name: str, path: Path, file: Path) -> QuestionSet:
    """Read the question records of ``file``; PATH is what was opened.

    Raises
    ------
    InputFileError
        When the file cannot be read or holds no question.
    """
    rows = _question_rows(file)
    table = QuestionTable()
    kept: list[Mapping[str, Any]] = []
    problems = list(rows.problems)
    for index, row in enumerate(rows.rows):
        record = row.values
        keys = _COLUMNS.of(record)
        text = _text(record, keys)
        if not text:
            problems.append(f"{file}: line {row.line}: record {index} lacks the key question.")
            continue
        subtype = subtype_name(value_of(record, keys, "question_subtype"))
        stage = spaced(value_of(record, keys, "question_type")).lower()
        if not stage and subtype.lower() in subtypes():
            stage = subtypes()[subtype.lower()].stage
        id_ = value_of(record, keys, "qid") or f"{file.stem}::{index}"
        table.add(id_, value_of(record, keys, "case"), stage, subtype, text)
        kept.append(record)

    def build(row: int) -> Question:
        return _question(
            kept[row], table.ids[row], table.cases[row],
            table.stages[row], table.subtypes[row], table.texts[row],
        )  # fmt: skip

    return table.question_set(
        name, path, build, problems=problems, notes={"questions_from": str(file)}
    )


def holds_questions(path: Path) -> bool:
    """Return whether a file begins like this benchmark's questions; never raises."""
    names = head_keys(path)
    question = "questionsubtype" in names and bool(names & {"imageid", "bdmapid"})
    choice = bool(names & {"mcquestion", "multiplechoicequestion"}) and "imageid" in names
    return (question or choice) and not holds_run(names)


def question_files(folder: Path) -> list[Path]:
    """Return the question files of a folder in the release's layout, the benchmark's own first."""
    for place in (folder / "benchmark", folder):
        for name in _BENCHMARK_FILES:
            if holds_questions(place / name):
                return [place / name]
    return [
        place / name
        for place in (folder / "train", folder)
        for name in _TRAINING_FILES
        if holds_questions(place / name)
    ]


def one_question_file(folder: Path) -> Path:
    """Return the folder's question file.

    Raises
    ------
    InputFileError
        When it has none.
    AmbiguousError
        When it has several and none is the benchmark's own.
    """
    files = question_files(folder)
    if not files:
        raise InputFileError(
            folder,
            "has no benchmark/test_qa.json, test_qa.jsonl or train/*.csv.",
            hint="Give the folder of the release, or one question file.",
        )
    if len(files) > 1:
        raise AmbiguousError(
            f"{folder} holds several question files: {', '.join(map(str, files))}.",
            hint="Give one of them.",
        )
    return files[0]


def _question_rows(path: Path) -> Rows:
    """Return question records of a nested file, a list, JSON lines or a table."""
    if not is_json(path):
        return read_csv(path)
    text = read_text(path)
    if is_lines(text):
        return json_lines(text, path)
    data = parse_json(text, path)
    if isinstance(data, dict) and not isinstance(data.get("questions"), list):
        if "question" not in data and "mc_question" not in data:
            raise InputFileError(
                path,
                "lacks the key questions (a list).",
                hint="Expected the benchmark's test_qa.json, or one question a line.",
            )
        data = [data]
    return objects(data["questions"] if isinstance(data, dict) else data, path, "question")


def _text(record: Mapping[str, Any], keys: Mapping[str, str]) -> str:
    text = value_of(record, keys, "question")
    return text or parse_options(value_of(record, keys, "mc_question"))[0]


def _question(
    record: Mapping[str, Any], id_: str, case_id: str, stage: str, subtype: str, text: str
) -> Question:
    keys = _COLUMNS.of(record)
    answer = value_of(record, keys, "answer")
    _, options = parse_options(value_of(record, keys, "mc_question"))
    known = subtypes().get(subtype.lower())
    lesion = value_of(record, keys, "lesion")
    return Question(
        id=id_,
        case_id=case_id,
        text=text,
        reference=Reference(answer, value_of(record, keys, "correct_option").upper()),
        options=options,
        stage=stage,
        subtype=subtype,
        answer_type=known.answer_type if known else inferred_type(answer),
        organ=value_of(record, keys, "organ"),
        lesion="" if lesion.lower() in ("true", "false") else lesion,
        patient=patient(record, keys),
        raw=read_only(record),
        missing_keys=tuple(n for n in _missing(record, keys)),
    )


def _missing(record: Mapping[str, Any], keys: Mapping[str, str]) -> Iterator[str]:
    for name in _PROMISED:
        if name not in keys or record[keys[name]] is None:
            yield {"case": "image_id"}.get(name, name)
