"""Questions in a table, CSV or JSON, with the columns id, case, question, answer.

Optional: A…E or options, correct (the letter), stage, subtype, sex, age, contrast, scanner.
``case`` is an id, or a path relative to the table. A path stays inside the table's folder or a
folder given with ``--cases``; that holds for absolute paths too, as the table may be somebody
else's. A question with options is scored by its letter, one without by what its reference is: yes
or no, a number (right within 10 %), else the same words.
"""

from __future__ import annotations

import json
from collections import defaultdict
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
from napari_ctvqa.benchmarks._result_file import holds_run, objects, read_run
from napari_ctvqa.core.errors import AmbiguousError, InputFileError
from napari_ctvqa.core.reading import normalise, read_number, read_yes_no
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Option,
    Outcome,
    Prediction,
    Question,
    Reference,
    Run,
    Score,
)
from napari_ctvqa.core.scoring import close_enough, disagreeing, parse_options, read_answer
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import (
    Rows,
    files_in,
    is_folder,
    is_lines,
    json_lines,
    parse_json,
    read_csv,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet

_LETTERS = "ABCDE"
_COLUMNS = Columns(
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
_RESULTS = Columns(
    {
        "id": ("id", "qid", "question id"),
        "text": ("prediction", "raw output", "pred answer", "output", "response", "model answer"),
    }
)
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_NOTHING = ("", "-", "nan", "none", "null", "n/a")


class Table:
    """Questions in a table; a benchmark of that kind adds its name and how it is recognised."""

    name: str
    title: str

    def recognises(self, path: Path) -> bool:
        """Return whether PATH is such a table, or a folder that holds one; never raises."""
        if is_folder(path):
            return bool(_tables(path))
        return _is_table(path)

    def recognises_results(self, path: Path) -> bool:
        """Return whether PATH is a table of predictions by question id."""
        keys = head_keys(path)
        return holds_run(keys) or (
            "text" in _RESULTS.names(list(keys)) and "id" in _RESULTS.names(list(keys))
        )

    def questions(self, path: Path) -> QuestionSet:
        """Read the table.

        Raises
        ------
        InputFileError
            When it cannot be read, or lacks a column question.
        AmbiguousError
            When a folder holds several tables.
        """
        file = _one_table(path) if is_folder(path) else path
        rows = _rows(file)
        table = QuestionTable()
        kept: list[Mapping[str, Any]] = []
        problems = list(rows.problems)
        for index, row in enumerate(rows.rows):
            keys = _COLUMNS.of(row.values)
            if not value_of(row.values, keys, "question"):
                problems.append(f"{file}: line {row.line} lacks a question.")
                continue
            table.add(
                value_of(row.values, keys, "id") or f"{file.stem}::{index}",
                value_of(row.values, keys, "case"), value_of(row.values, keys, "stage"),
                value_of(row.values, keys, "subtype"), _stem_and_options(row.values, keys)[0],
            )  # fmt: skip
            kept.append(row.values)

        def build(row: int) -> Question:
            return _question(kept[row], table, row)

        notes = {"questions_from": str(file)}
        return table.question_set(self.name, path, build, problems=problems, notes=notes)

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return the files in ``results/`` beside the table."""
        folder = (path if is_folder(path) else path.parent) / "results"
        return tuple(f for f in files_in(folder, *_SUFFIXES) if self.recognises_results(f))

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read a result file of a run, or a table with the columns id and prediction.

        Raises
        ------
        InputFileError
            When it cannot be read or lacks these columns.
        """
        if is_json(path) and holds_run(head_keys(path)):
            return read_run(path, questions)
        return _table_run(path, questions)

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find the case beside the table or under a root. Raises NotFoundError."""
        folder = path if is_folder(path) else path.parent
        return find_in_roots(case_id, [folder, *roots])

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Score one answer; official is the plain comparison that ``plain_outcome`` makes."""
        choice = _by_letter(question, answer_format)
        outcome, reading = plain_outcome(question, prediction.raw_text, choice=choice)
        ours, ours_reading = read_answer(question, prediction.raw_text, choice=choice)
        same_kind = choice or question.answer_type in (AnswerType.NUMERIC, AnswerType.BINARY)
        differ = same_kind and reading != ours_reading.value
        return Score(outcome, reading, ours, ours_reading.value, readings_differ=differ)

    def scores(
        self,
        questions: QuestionSet,
        run: Run,
        answer_format: AnswerFormat,
        judges: Sequence[Path] = (),
    ) -> Mapping[str, Score]:
        """Score every prediction whose question is known. ``judges`` plays no part here."""
        del judges
        return {
            key: self.score(questions.by_id(key), prediction, answer_format)
            for key, prediction in run.predictions.items()
            if key in questions.row_of
        }

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return accuracy overall, by stage and by subtype, and ``reading_disagrees``."""
        del options
        scores = self.scores(questions, run, answer_format)
        groups: dict[str, dict[str, list[Score]]] = {
            "by_stage": defaultdict(list),
            "by_subtype": defaultdict(list),
        }
        for key, score in scores.items():
            row = questions.row_of[key]
            groups["by_stage"][str(questions.frame["stage"].iat[row])].append(score)
            groups["by_subtype"][str(questions.frame["subtype"].iat[row])].append(score)
        return {
            "overall": _accuracy(list(scores.values())),
            **{
                name: {label: _accuracy(members) for label, members in group.items() if label}
                for name, group in groups.items()
            },
            "reading_disagrees": disagreeing(scores, list(scores)),
        }


def _accuracy(scores: list[Score]) -> dict[str, Any]:
    scored = [s for s in scores if s.official is not Outcome.UNSCORED]
    right = sum(s.official is Outcome.RIGHT for s in scored)
    return {
        "accuracy": round(right / len(scored), 4) if scored else None,
        "accuracy_as_read": (
            round(sum(s.ours is Outcome.RIGHT for s in scored) / len(scored), 4) if scored else None
        ),
        "n_total": len(scored),
        "n_unread": sum(s.official is Outcome.UNREAD for s in scored),
    }


def _by_letter(question: Question, answer_format: AnswerFormat) -> bool:
    return (
        answer_format is AnswerFormat.MC
        and bool(question.options)
        and bool(question.reference.letter)
    )


def plain_outcome(question: Question, text: str, *, choice: bool) -> tuple[Outcome, str]:
    """Compare without interpretation: the bare letter or option text, or the bare answer.

    Blanks, case and a final full stop do not matter; a number must stand alone.
    """
    bare = text.strip().rstrip(".").strip()
    if not bare or text.lstrip().startswith("[ERROR]"):
        return Outcome.UNREAD, ""
    if choice:
        letters = {o.letter: o for o in question.options}
        named = [o.letter for o in question.options if normalise(o.text) == normalise(bare)]
        read = bare.upper() if bare.upper() in letters else named[0] if len(named) == 1 else ""
        if not read:
            return Outcome.UNREAD, ""
        right = read == question.reference.letter
        return (Outcome.RIGHT if right else Outcome.WRONG), read
    wanted = question.reference.text
    if not wanted:
        return Outcome.UNSCORED, bare
    if question.answer_type is AnswerType.NUMERIC:
        return _plain_number(bare, wanted)
    if question.answer_type is AnswerType.BINARY:
        read = normalise(bare) if normalise(bare) in ("yes", "no") else ""
        if not read:
            return Outcome.UNREAD, ""
        return (Outcome.RIGHT if read == read_yes_no(wanted).value else Outcome.WRONG), read
    right = normalise(bare) == normalise(wanted)
    return (Outcome.RIGHT if right else Outcome.WRONG), bare


def _plain_number(bare: str, wanted: str) -> tuple[Outcome, str]:
    try:
        value = float(bare)
    except ValueError:
        return Outcome.UNREAD, ""
    right = close_enough(value, float(read_number(wanted).value))
    return (Outcome.RIGHT if right else Outcome.WRONG), f"{value:.10g}"


# --------------------------------------------------------------------------------------- reading


def _is_table(path: Path) -> bool:
    if path.suffix.lower() not in _SUFFIXES:
        return False
    names = _COLUMNS.names(list(head_keys(path)))
    return {"question", "case"} <= names and bool(names & {"answer", "correct"})


def _tables(folder: Path) -> list[Path]:
    return [file for file in files_in(folder, *_SUFFIXES) if _is_table(file)]


def _one_table(folder: Path) -> Path:
    tables = _tables(folder)
    if len(tables) > 1:
        raise AmbiguousError(
            f"{folder} holds several tables of questions: {', '.join(t.name for t in tables)}.",
            hint="Give one of them.",
        )
    if not tables:
        raise InputFileError(
            folder,
            "holds no table of questions.",
            hint="A table needs the columns id, case, question, answer.",
        )
    return tables[0]


def _rows(file: Path) -> Rows:
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
    if rows.rows and not any("question" in _COLUMNS.of(row.values) for row in rows.rows):
        raise InputFileError(
            file,
            f"lacks a column question; it has {shortened(list(rows.rows[0].values))}.",
            hint="A table needs the columns id, case, question, answer.",
        )
    return rows


def _stem_and_options(
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


def _question(record: Mapping[str, Any], table: QuestionTable, row: int) -> Question:
    keys = _COLUMNS.of(record)
    text, options = _stem_and_options(record, keys)
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


def _table_run(path: Path, questions: QuestionSet) -> Run:
    rows = _rows_of_results(path)
    ids: list[str] = []
    kept: list[Mapping[str, Any]] = []
    problems = list(rows.problems)
    for row in rows.rows:
        keys = _RESULTS.of(row.values)
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
        text = as_text(record[_RESULTS.of(record)["text"]])
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
