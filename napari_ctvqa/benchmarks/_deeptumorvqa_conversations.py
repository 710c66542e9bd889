"""DeepTumorVQA's agent_sft conversations, as questions and as a run with Traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._deeptumorvqa_official import letter as official_letter
from napari_ctvqa.benchmarks._deeptumorvqa_subtypes import inferred_type, subtype_name, subtypes
from napari_ctvqa.benchmarks._deeptumorvqa_traces import (
    after_thought,
    case_of,
    said,
    trace_of_conversation,
)
from napari_ctvqa.benchmarks._records import (
    PredictionTable,
    QuestionTable,
    as_text,
    head_keys,
    read_only,
)
from napari_ctvqa.benchmarks._result_file import objects
from napari_ctvqa.core.records import AnswerType, Prediction, Question, Reference, Run
from napari_ctvqa.core.scoring import parse_options
from napari_ctvqa.io.json_files import (
    Rows,
    head_text,
    is_folder,
    is_lines,
    json_lines,
    parse_json,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet


def holds_conversations(path: Path) -> bool:
    """Return whether a file begins like an agent's conversations; never raises."""
    if is_folder(path) or "conversations" not in head_keys(path):
        return False
    head = head_text(path)
    return '"function_call"' in head or '"observation"' in head or '"tools"' in head


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


def _stated(record: Mapping[str, Any], *keys: str) -> str:
    """Return the first of these keys that a record has, itself or in its ``meta``."""
    metas = [record[name] for name in ("meta", "metadata") if isinstance(record.get(name), dict)]
    values = (of.get(key) for of in (record, *metas) for key in keys)
    return next((as_text(value) for value in values if isinstance(value, str | int)), "")


def _answer_type(subtype: str, answer: str) -> AnswerType:
    known = subtypes().get(subtype.lower())
    return known.answer_type if known else inferred_type(answer)


def conversation_questions(name: str, path: Path) -> QuestionSet:
    """Read each conversation as a question: the user's text, the last answer as reference."""
    rows = _conversations(path)
    table = QuestionTable()
    for index, row in enumerate(rows.rows):
        turns = said(row.values["conversations"])
        asked = next((text for role, text in turns if role == "user"), "")
        subtype = subtype_name(_stated(row.values, "question_subtype", "subtype"))
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
        letter = official_letter(final) if options and len(final) <= 3 else ""
        return Question(
            id=table.ids[row], case_id=table.cases[row], text=table.texts[row],
            reference=Reference(final, letter), options=options, stage=table.stages[row],
            subtype=table.subtypes[row], answer_type=_answer_type(table.subtypes[row], final),
            organ=_stated(record, "organ"), lesion=_stated(record, "lesion"), raw=read_only(record),
        )  # fmt: skip

    notes = {"reference": "The reference is the conversation's own last answer."}
    return table.question_set(name, path, build, problems=rows.problems, notes=notes)


def conversation_run(path: Path, questions: QuestionSet) -> Run:
    """Read each conversation as a prediction with its Trace, joined by id or by the text asked."""
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
