"""DeepTumorVQA v2 (and v1 tables): arXiv 2605.09679, 2505.18915; layout as its release has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.benchmarks import _deeptumorvqa_official as official
from napari_ctvqa.benchmarks._deeptumorvqa_traces import (
    after_thought,
    case_of,
    said,
    trace_of_conversation,
)
from napari_ctvqa.benchmarks._records import (
    Columns,
    PredictionTable,
    QuestionTable,
    as_text,
    head_keys,
    is_json,
    patient,
    read_only,
    value_of,
)
from napari_ctvqa.benchmarks._result_file import holds_run, objects, read_run
from napari_ctvqa.core.errors import AmbiguousError, InputFileError
from napari_ctvqa.core.reading import read_number, read_yes_no
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Prediction,
    Question,
    Reference,
    Run,
    Score,
)
from napari_ctvqa.core.scoring import disagreeing, parse_options, read_answer
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import (
    Rows,
    files_in,
    head_text,
    is_file,
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


@dataclass(frozen=True, slots=True)
class Subtype:
    """One row of the subtype table."""

    subtype: str
    stage: str
    answer_type: AnswerType
    primitives: tuple[str, ...]
    steps: int
    unit: str
    counting: bool


@cache
def subtypes() -> Mapping[str, Subtype]:
    """Return the 42 subtypes by lower-cased name."""
    table = json.loads(resource_path("deeptumorvqa_subtypes.json").read_text(encoding="utf-8"))
    return {
        row["subtype"].lower(): Subtype(
            row["subtype"], row["stage"], AnswerType(row["answer_type"]),
            tuple(row["primitives"]), row["steps"], row["unit"], row["counting"],
        )
        for row in table["subtypes"]
    }  # fmt: skip


@lru_cache(maxsize=4096)
def _spaced(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


@lru_cache(maxsize=4096)
def subtype_name(name: str) -> str:
    """Return a subtype as the schema spells it: underscores are spaces, case does not matter."""
    spaced = _spaced(name)
    known = subtypes().get(spaced.lower())
    return known.subtype if known else spaced


def _unit_and_counting(subtype: str) -> tuple[str, bool]:
    known = subtypes().get(subtype.lower())
    return (known.unit, known.counting) if known else ("", False)


def _inferred_type(reference: str) -> AnswerType:
    """Return the answer type of a subtype that the schema does not have, by its reference."""
    if read_yes_no(reference).value and len(reference) < 8:
        return AnswerType.BINARY
    if read_number(reference).value and len(reference) < 24:
        return AnswerType.NUMERIC
    return AnswerType.CATEGORICAL


class DeepTumorVQA:
    """Questions on abdominal CTs about organs and tumours, in four stages."""

    name = "deeptumorvqa"
    title = "DeepTumorVQA"

    # ----------------------------------------------------------------------------- recognising

    def recognises(self, path: Path) -> bool:
        """Return whether PATH holds such questions (or agent conversations); never raises."""
        if is_folder(path):
            return bool(_question_files(path))
        return _holds_questions(path) or _holds_conversations(path)

    def recognises_results(self, path: Path) -> bool:
        """Return whether PATH is a result file, a partial one, or agent conversations."""
        keys = head_keys(path)
        return holds_run(keys) or _holds_conversations(path)

    # ------------------------------------------------------------------------------- questions

    def questions(self, path: Path) -> QuestionSet:
        """Read test_qa.json, .jsonl, a split's CSV or agent conversations.

        Raises
        ------
        InputFileError
            When the file cannot be read or holds no question.
        AmbiguousError
            When a folder has several question files and none is the benchmark's own.
        """
        file = _one_question_file(path) if is_folder(path) else path
        if _holds_conversations(file):
            return _conversation_questions(self.name, file)
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
            stage = _spaced(value_of(record, keys, "question_type")).lower()
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
            self.name, path, build, problems=problems, notes={"questions_from": str(file)}
        )

    # --------------------------------------------------------------------------------- results

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return result files in ``results/`` beside the questions, and a conversation file."""
        if is_file(path) and _holds_conversations(path):
            return (path,)
        folder = path if is_folder(path) else path.parent
        places = [folder / "results", folder.parent / "results"]
        files = [f for place in places for f in files_in(place, ".json", ".jsonl")]
        return tuple(f for f in files if self.recognises_results(f))

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read ``{metrics, n_processed, results}``, a partial file, or agent conversations.

        Raises
        ------
        InputFileError
            When the file cannot be read or holds no results.
        """
        if _holds_conversations(path):
            return _conversation_run(path, questions)
        return read_run(path, questions)

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find the CT under ``benchmark/ct/<id>`` or a root, the masks there or under a root.

        DeepTumorVQA ships no masks: they come from an AbdomenAtlas root by the same id.
        """
        folder = path if is_folder(path) else path.parent
        return find_in_roots(case_id, [folder, *roots])

    # --------------------------------------------------------------------------------- scoring

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Score one answer: officially by the letter or the answer type, and as a human reads."""
        unit, counting = _unit_and_counting(question.subtype)
        text = official_text(prediction)
        choice = answer_format is AnswerFormat.MC
        if choice:
            judged = official.judge_mc(text, question.reference.letter)
        else:
            judged = official.judge_freeform(
                text, question.reference.text, question.answer_type, counting=counting
            )
        outcome, reading = read_answer(question, text, choice=choice, unit=unit, counting=counting)
        value = judged.credit if not choice and question.answer_type is AnswerType.NUMERIC else None
        # Two wordings of one phrase are no disagreement; two letters or numbers are.
        differ = not _is_phrase(question, choice) and judged.read != reading.value
        return Score(judged.outcome, judged.read, outcome, reading.value, value, differ)

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
            key: self.score(questions[questions.row_of[key]], prediction, answer_format)
            for key, prediction in run.predictions.items()
            if key in questions.row_of
        }

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return ``overall``, ``by_super_type``, ``by_subtype`` and ``reading_disagrees``."""
        del options
        frame = questions.frame
        stages = zip(frame["subtype"].tolist(), frame["stage"].tolist(), strict=True)
        stage_of: dict[str, str] = {}
        for subtype, stage in stages:
            stage_of.setdefault(subtype, stage)
        scorer = official.Scorer(mc=answer_format is AnswerFormat.MC)
        every = run.predictions
        rows = every.every() if isinstance(every, PredictionTable) else iter(every.values())
        for prediction in rows:
            row = questions.row_of.get(prediction.question_id)
            if row is None:
                continue
            question = questions[row]
            reference = question.reference
            scorer.add(
                question.subtype, stage_of[question.subtype], question.answer_type,
                official_text(prediction),
                reference.letter if answer_format is AnswerFormat.MC else reference.text,
            )  # fmt: skip
        scores = self.scores(questions, run, answer_format)
        return {
            **scorer.metrics(),
            "reading_disagrees": disagreeing(scores, list(run.predictions)),
        }


def _is_phrase(question: Question, choice: bool) -> bool:
    return not choice and question.answer_type in (AnswerType.CATEGORICAL, AnswerType.OPEN)


def official_text(prediction: Prediction) -> str:
    """Return the text that the official scorer reads: ``pred_answer``, or ``raw_output``."""
    return as_text(prediction.record.get("pred_answer")) or prediction.raw_text


# --------------------------------------------------------------------------------------- layout


def _holds_questions(path: Path) -> bool:
    names = head_keys(path)
    question = "questionsubtype" in names and bool(names & {"imageid", "bdmapid"})
    choice = bool(names & {"mcquestion", "multiplechoicequestion"}) and "imageid" in names
    return (question or choice) and not holds_run(names)


def _holds_conversations(path: Path) -> bool:
    if is_folder(path) or "conversations" not in head_keys(path):
        return False
    head = head_text(path)
    return '"function_call"' in head or '"observation"' in head or '"tools"' in head


def _question_files(folder: Path) -> list[Path]:
    """Return the question files of a folder in the release's layout, the benchmark's own first."""
    for place in (folder / "benchmark", folder):
        for name in _BENCHMARK_FILES:
            if _holds_questions(place / name):
                return [place / name]
    return [
        place / name
        for place in (folder / "train", folder)
        for name in _TRAINING_FILES
        if _holds_questions(place / name)
    ]


def _one_question_file(folder: Path) -> Path:
    files = _question_files(folder)
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


# ------------------------------------------------------------------------------------- records


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
        answer_type=known.answer_type if known else _inferred_type(answer),
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


# ------------------------------------------------------------------------------- conversations


def _conversations(path: Path) -> Rows:
    text = read_text(path)
    lines = is_lines(text) or path.suffix == ".jsonl"
    rows = (
        json_lines(text, path)
        if lines
        else objects(_listed(parse_json(text, path)), path, "conversation")
    )
    good = [row for row in rows.rows if isinstance(row.values.get("conversations"), list)]
    kept = {row.line for row in good}
    problems = [
        f"{path}: line {row.line} lacks the key conversations (a list)."
        for row in rows.rows
        if row.line not in kept
    ]
    return Rows(good, (*rows.problems, *problems))


def _listed(data: Any) -> list[Any]:
    return data if isinstance(data, list) else [data]


def _conversation_id(record: Mapping[str, Any], path: Path, index: int) -> str:
    for key in ("qid", "id", "question_id"):
        if isinstance(record.get(key), str | int):
            return str(record[key])
    return f"{path.stem}::{index}"


def _conversation_questions(name: str, path: Path) -> QuestionSet:
    """Read each conversation as a question: the user's text, the last answer as reference."""
    rows = _conversations(path)
    table = QuestionTable()
    for index, row in enumerate(rows.rows):
        turns = said(row.values["conversations"])
        asked = next((text for role, text in turns if role == "user"), "")
        subtype = subtype_name(as_text(row.values.get("question_subtype")))
        known = subtypes().get(subtype.lower())
        table.add(
            _conversation_id(row.values, path, index), case_of(row.values, turns),
            known.stage if known else "", subtype, asked.replace("<image>", "").strip(),
        )  # fmt: skip

    def build(row: int) -> Question:
        record = rows.rows[row].values
        turns = said(record["conversations"])
        answer = next((text for role, text in reversed(turns) if role == "answer"), "")
        final = after_thought(answer).removeprefix("[FINAL]").strip()
        _, options = parse_options(table.texts[row])
        letter = official.letter(final) if options and len(final) <= 3 else ""
        return Question(
            id=table.ids[row], case_id=table.cases[row], text=table.texts[row],
            reference=Reference(final, letter), options=options, stage=table.stages[row],
            subtype=table.subtypes[row], answer_type=_inferred_type(final), raw=read_only(record),
        )  # fmt: skip

    notes = {"reference": "The reference is the conversation's own last answer."}
    return table.question_set(name, path, build, problems=rows.problems, notes=notes)


def _conversation_run(path: Path, questions: QuestionSet) -> Run:
    rows = _conversations(path)
    turns = [said(row.values["conversations"]) for row in rows.rows]
    ids = [_conversation_id(row.values, path, i) for i, row in enumerate(rows.rows)]
    if not any(key in questions.row_of for key in ids):
        ids = _ids_by_text(questions, turns, rows, ids)

    def build(row: int) -> Prediction:
        trace, answer = trace_of_conversation(turns[row])
        return Prediction(
            ids[row], path.stem, answer, trace, None, read_only(rows.rows[row].values)
        )

    unknown = [key for key in ids if key not in questions.row_of]
    notes = [*rows.problems]
    if unknown:
        notes.append(f"{len(unknown)} conversations belong to no open question.")
    return Run(path.stem, PredictionTable(ids, build), None, str(path), {}, tuple(notes))


def _ids_by_text(
    questions: QuestionSet, turns: list[list[tuple[str, str]]], rows: Rows, ids: list[str]
) -> list[str]:
    """Return, for each conversation, the one question of its case whose text it contains."""
    by_case: dict[str, list[tuple[str, str]]] = {}
    frame = questions.frame
    for id_, case, text in zip(frame["id"], frame["case"], frame["text"], strict=True):
        by_case.setdefault(case, []).append((id_, text))
    found: list[str] = []
    for own, row, said_here in zip(ids, rows.rows, turns, strict=True):
        asked = "\n".join(text for role, text in said_here if role == "user")
        fits = [
            id_ for id_, text in by_case.get(case_of(row.values, said_here), ()) if text in asked
        ]
        found.append(fits[0] if len(fits) == 1 else own)
    return found


BENCHMARK = DeepTumorVQA()
