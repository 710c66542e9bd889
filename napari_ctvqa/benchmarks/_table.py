"""Questions in a table, CSV or JSON, with the columns id, case, question, answer.

Optional: A…E or options, correct (the letter), stage, subtype, sex, age, contrast, scanner.
``case`` is an id, or a path relative to the table. A path stays inside the table's folder or a
folder given with ``--cases``; that holds for absolute paths too, as the table may be somebody
else's. A question with options is scored by its letter, one without by what its reference is: yes
or no, a number (right within 10 %), else the same words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import (
    QuestionTable,
    head_keys,
    is_json,
    value_of,
)
from napari_ctvqa.benchmarks._result_file import holds_run, read_run
from napari_ctvqa.benchmarks._table_records import (
    COLUMNS,
    RESULTS,
    SUFFIXES,
    build_question,
    is_table,
    one_table,
    question_rows,
    read_predictions,
    stem_and_options,
    tables,
)
from napari_ctvqa.core.reading import normalise, read_number, read_yes_no
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Outcome,
    Prediction,
    Question,
    Run,
    Score,
)
from napari_ctvqa.core.scoring import close_enough, disagreeing, failures, read_answer
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import (
    files_in,
    is_folder,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet


class Table:
    """Questions in a table; a benchmark of that kind adds its name and how it is recognised."""

    name: str
    title: str
    score_titles = ("Plain comparison", "As a person reads it")

    def recognises(self, path: Path) -> bool:
        """Return whether PATH is such a table, or a folder that holds one; never raises."""
        if is_folder(path):
            return bool(tables(path))
        return is_table(path)

    def recognises_results(self, path: Path) -> bool:
        """Return whether PATH is a table of predictions by question id."""
        keys = head_keys(path)
        return holds_run(keys) or (
            "text" in RESULTS.names(list(keys)) and "id" in RESULTS.names(list(keys))
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
        file = one_table(path) if is_folder(path) else path
        rows = question_rows(file)
        table = QuestionTable()
        kept: list[Mapping[str, Any]] = []
        problems = list(rows.problems)
        for index, row in enumerate(rows.rows):
            keys = COLUMNS.of(row.values)
            if not value_of(row.values, keys, "question"):
                problems.append(f"{file}: line {row.line} lacks a question.")
                continue
            table.add(
                value_of(row.values, keys, "id") or f"{file.stem}::{index}",
                value_of(row.values, keys, "case"), value_of(row.values, keys, "stage"),
                value_of(row.values, keys, "subtype"), stem_and_options(row.values, keys)[0],
            )  # fmt: skip
            kept.append(row.values)

        def build(row: int) -> Question:
            return build_question(kept[row], table, row)

        notes = {"questions_from": str(file)}
        return table.question_set(self.name, path, build, problems=problems, notes=notes)

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return the files in ``results/`` beside the table."""
        folder = (path if is_folder(path) else path.parent) / "results"
        return tuple(f for f in files_in(folder, *SUFFIXES) if self.recognises_results(f))

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read a result file of a run, or a table with the columns id and prediction.

        Raises
        ------
        InputFileError
            When it cannot be read or lacks these columns.
        """
        if is_json(path) and holds_run(head_keys(path)):
            return read_run(path, questions)
        return read_predictions(path, questions)

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
        return Score(
            outcome,
            reading,
            ours,
            ours_reading.value,
            readings_differ=differ,
            failed=prediction.failed,
            how=ours_reading.how,
        )

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
            "errors": failures(scores),
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
