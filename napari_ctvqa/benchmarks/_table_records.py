"""The rows of a table of questions: columns under any usual name, options in any usual form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import (
    Columns,
    PredictionTable,
    QuestionTable,
    as_text,
    fold,
    head_keys,
    is_json,
    patient,
    read_only,
    shortened,
    value_of,
)
from napari_ctvqa.benchmarks._result_file import objects
from napari_ctvqa.core.errors import AmbiguousError, InputFileError
from napari_ctvqa.core.reading import normalise, read_number
from napari_ctvqa.core.records import (
    AnswerType,
    Option,
    Prediction,
    Question,
    Reference,
    Run,
)
from napari_ctvqa.core.scoring import parse_options
from napari_ctvqa.io.json_files import (
    Rows,
    files_in,
    is_lines,
    json_lines,
    parse_json,
    read_csv,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet
_LETTERS = "ABCDE"
COLUMNS = Columns(
    {
        "id": ("id", "qid", "question id", "index"),
        "case": ("case", "case id", "image id", "image", "volume", "volume name", "ct", "scan",
                 "image path", "path", "file", "bdmap id"),
        "question": ("question", "text", "prompt"),
        "answer": ("answer", "reference", "ground truth", "gt", "reference answer", "label"),
        "options": ("options", "choices"),
        "correct": ("correct", "correct option", "answer choice", "correct answer", "letter"),
        "stage": ("stage", "question type", "type", "task"),
        "subtype": ("subtype", "question subtype", "category", "subtask"),
        "sex": ("sex",), "age": ("age",), "contrast": ("contrast", "phase"),
        "scanner": ("scanner",),
        **{letter: (letter, f"option {letter}", f"choice {letter}") for letter in _LETTERS},
    }
)  # fmt: skip
RESULTS = Columns(
    {
        "id": ("id", "qid", "question id"),
        "text": ("prediction", "raw output", "pred answer", "output", "response", "model answer"),
    }
)
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_NOTHING = ("", "-", "nan", "none", "null", "n/a")


def is_table(path: Path) -> bool:
    """Return whether a file's columns are those of such a table; never raises."""
    if path.suffix.lower() not in SUFFIXES:
        return False
    names = COLUMNS.names(list(head_keys(path)))
    return {"question", "case"} <= names and bool(names & {"answer", "correct"})


def tables(folder: Path) -> list[Path]:
    """Return the tables of a folder, sorted."""
    return [file for file in files_in(folder, *SUFFIXES) if is_table(file)]


def one_table(folder: Path) -> Path:
    """Return the one table of a folder.

    Raises
    ------
    AmbiguousError, InputFileError
        When it has several, or none.
    """
    found = tables(folder)
    if len(found) > 1:
        raise AmbiguousError(
            f"{folder} holds several tables of questions: {', '.join(t.name for t in found)}.",
            hint="Give one of them.",
        )
    if not found:
        raise InputFileError(
            folder,
            "holds no table of questions.",
            hint="A table needs the columns id, case, question, answer.",
        )
    return found[0]


def question_rows(file: Path) -> Rows:
    """Read a table; a JSON document may be a list of objects, or one object with questions."""
    if is_json(file):
        text = read_text(file)
        if is_lines(text):
            return _checked(json_lines(text, file), file)
        data = parse_json(text, file)
        if isinstance(data, dict):
            data = data["questions"] if isinstance(data.get("questions"), list) else [data]
        return _checked(objects(data, file, "question"), file)
    return _checked(read_csv(file), file)


def _checked(rows: Rows, file: Path) -> Rows:
    if rows.rows and not any("question" in COLUMNS.of(row.values) for row in rows.rows):
        raise InputFileError(
            file,
            f"lacks a column question; it has {shortened(list(rows.rows[0].values))}.",
            hint="A table needs the columns id, case, question, answer.",
        )
    return rows


def stem_and_options(
    record: Mapping[str, Any], keys: Mapping[str, str]
) -> tuple[str, tuple[Option, ...]]:
    """Return the question without its options, and the options from wherever they are."""
    text = value_of(record, keys, "question")
    columns = [(letter, value_of(record, keys, letter)) for letter in _LETTERS]
    own = tuple(Option(letter, said) for letter, said in columns if said.lower() not in _NOTHING)
    if own:
        return text, own
    if "options" in keys:
        given = _given_options(record[keys["options"]])
        if given:
            return text, given
    return parse_options(text)


def _given_options(value: Any) -> tuple[Option, ...]:
    """Return options given as a list, an object by letter, JSON text of these, or ``A: … B: …``."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("[", "{")):
            try:
                return _given_options(json.loads(text))
            except (ValueError, RecursionError):
                return ()
        inline = parse_options(text)[1]
        parts = [part.strip() for part in text.split("|")]
        return inline or (_given_options(parts) if len(parts) > 1 else ())
    if isinstance(value, dict):
        pairs = [(str(key).strip().upper(), as_text(said)) for key, said in value.items()]
        return tuple(Option(key, said) for key, said in pairs if len(key) == 1 and said)
    if isinstance(value, list):
        texts = [as_text(said) for said in value[:26]]
        return tuple(Option(chr(ord("A") + i), said) for i, said in enumerate(texts))
    return ()


def _reference(answer: str, correct: str, options: Sequence[Option]) -> Reference:
    """Return text and letter; either may be given as the other, or as the option's text."""
    letters = {option.letter: option.text for option in options}
    letter = correct.strip("(). ").upper()
    if letter not in letters:
        wanted = {normalise(said) for said in (correct, answer) if said}
        fits = [option.letter for option in options if normalise(option.text) in wanted]
        bare = answer.strip("(). ").upper()
        letter = fits[0] if len(fits) == 1 else bare if bare in letters and not fits else ""
    text = answer
    if letter and answer.strip("(). ").upper() in ("", letter):
        text = letters[letter]
    return Reference(text, letter)


def _answer_type(reference: Reference) -> AnswerType:
    if normalise(reference.text) in ("yes", "no"):
        return AnswerType.BINARY
    number = read_number(reference.text)
    if number.value and len(reference.text) <= 20:
        return AnswerType.NUMERIC
    return AnswerType.CATEGORICAL if reference.letter else AnswerType.OPEN


def build_question(record: Mapping[str, Any], table: QuestionTable, row: int) -> Question:
    """Return the Question of a row."""
    keys = COLUMNS.of(record)
    text, options = stem_and_options(record, keys)
    reference = _reference(
        value_of(record, keys, "answer"), value_of(record, keys, "correct"), options
    )
    lacking = [name for name in ("id", "case") if not value_of(record, keys, name)]
    if not reference.text and not reference.letter:
        lacking.append("answer")
    return Question(
        id=table.ids[row], case_id=table.cases[row], text=text, reference=reference,
        options=options, stage=table.stages[row], subtype=table.subtypes[row],
        answer_type=_answer_type(reference),
        patient=patient(record, keys),
        raw=read_only(record), missing_keys=tuple(lacking),
    )  # fmt: skip


def read_predictions(path: Path, questions: QuestionSet) -> Run:
    """Read a table with the columns id and prediction.

    Raises
    ------
    InputFileError
        When it cannot be read or lacks these columns.
    """
    rows = _rows_of_results(path)
    ids: list[str] = []
    kept: list[Mapping[str, Any]] = []
    problems = list(rows.problems)
    for row in rows.rows:
        keys = RESULTS.of(row.values)
        key = value_of(row.values, keys, "id")
        if not key or "text" not in keys:
            problems.append(f"{path}: line {row.line} lacks an id or a prediction.")
            continue
        ids.append(key)
        kept.append(row.values)
    if not ids:
        raise InputFileError(
            path,
            "holds no predictions.",
            hint="Expected the columns id and prediction, or a run's result file.",
        )
    model = path.stem

    def build(index: int) -> Prediction:
        record = kept[index]
        text = as_text(record[RESULTS.of(record)["text"]])
        return Prediction(ids[index], model, text, record=read_only(record))

    unknown = [key for key in ids if key not in questions.row_of]
    if unknown:
        problems.append(f"{len(unknown)} rows name no question of the table: {shortened(unknown)}.")
    return Run(model, PredictionTable(ids, build), None, str(path), {}, tuple(problems))


def _rows_of_results(path: Path) -> Rows:
    if is_json(path):
        text = read_text(path)
        if is_lines(text):
            return json_lines(text, path)
        data = parse_json(text, path)
        if isinstance(data, dict):
            named = (data[k] for k in data if fold(k) in ("results", "predictions"))
            data = next((d for d in named if isinstance(d, list)), [data])
        return objects(data, path, "result")
    return read_csv(path)
