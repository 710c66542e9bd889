"""``questions PATH``: list a benchmark's questions."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import DONE, FAILED, one_line
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.where import parse_where

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Question, Score
    from napari_ctvqa.runners.opening import Opened

FIELDS = ("id", "case", "stage", "subtype", "text", "options", "reference")
_MAX_WARNINGS = 20


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare PATH, --benchmark and --cases, as every command about a benchmark has them."""
    parser.add_argument("path", type=Path, metavar="PATH", help="benchmark folder or question file")
    parser.add_argument("--benchmark", metavar="NAME", help="take PATH as this benchmark's")
    parser.add_argument(
        "--cases", type=Path, action="append", default=[], metavar="ROOT",
        help="where volumes and masks lie (repeatable, remembered for the benchmark)",
    )  # fmt: skip


def open_questions(args: argparse.Namespace) -> Opened:
    """Open PATH and return it, when it holds questions.

    Raises
    ------
    CtvqaError
        When PATH cannot be opened or is a case without questions.
    """
    from napari_ctvqa.runners.opening import open_path

    opened = open_path(args.path, benchmark=args.benchmark, roots=args.cases)
    if opened.questions is None:
        raise InputFileError(
            args.path,
            "is a case; a benchmark folder or a question file was expected.",
            hint="To look at a case: napari-ctvqa open PATH.",
        )
    return opened


def warn(sentences: Iterable[str]) -> None:
    """Write one line a sentence on stderr, at most twenty."""
    lines = list(sentences)
    for line in lines[:_MAX_WARNINGS]:
        sys.stderr.write(f"napari-ctvqa: {one_line(line)}\n")
    if len(lines) > _MAX_WARNINGS:
        sys.stderr.write(f"napari-ctvqa: and {len(lines) - _MAX_WARNINGS} more\n")


def record(question: Question) -> dict[str, Any]:
    """Return one question as the JSON output has it."""
    return {
        "id": question.id,
        "case": question.case_id,
        "stage": question.stage,
        "subtype": question.subtype,
        "text": question.text,
        "options": {option.letter: option.text for option in question.options},
        "reference": {"text": question.reference.text, "letter": question.reference.letter},
    }


def _scores(
    opened: Opened, results: Sequence[Path], answer_format: AnswerFormat
) -> Mapping[str, Mapping[str, Score]]:
    """Return scores by model of the given result files, or of those found beside PATH."""
    questions, benchmark = opened.questions, opened.benchmark
    if questions is None or benchmark is None:
        return {}
    scores = {}
    for path in results or opened.found_results():
        run = opened.read_results(path)
        scores[run.model] = benchmark.scores(questions, run, run.answer_format or answer_format)
    return scores


class Questions:
    """List the questions of a benchmark that a filter shows."""

    name = "questions"
    help = "list a benchmark's questions as JSON, CSV or text"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        parser.add_argument(
            "--where", default="", metavar="FILTER",
            help='e.g. \'stage:measurement -subtype:"organ volume measurement" liver\'; fields '
            "stage, subtype, case, model, outcome",
        )  # fmt: skip
        parser.add_argument(
            "--results", type=Path, action="append", default=[], metavar="FILE",
            help="result files for model: and outcome: (default: those found beside PATH)",
        )  # fmt: skip
        parser.add_argument(
            "--format", choices=[f.value for f in AnswerFormat], default=AnswerFormat.MC.value,
            help="how the results are scored for outcome: (default mc)",
        )  # fmt: skip
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="write a JSON list")
        form.add_argument("--csv", action="store_true", help="write CSV")

    def run(self, args: argparse.Namespace) -> int:
        """Write the questions; unreadable records are named on stderr and make the exit code 1."""
        where = parse_where(args.where)
        opened = open_questions(args)
        questions = opened.questions
        assert questions is not None
        wanted = where.needs_scores
        scores = _scores(opened, args.results, AnswerFormat(args.format)) if wanted else {}
        rows = where.rows(questions, scores)
        write = _write_json if args.json else _write_csv if args.csv else _write_text
        write(questions[row] for row in rows.tolist())
        if not args.json and not args.csv:
            sys.stdout.write(f"{len(rows)} of {len(questions)} questions\n")
        return report_problems(questions)


def report_problems(questions: QuestionSet) -> int:
    """Name repeated ids and unreadable records on stderr; return the exit code."""
    if "duplicate_ids" in questions.notes:
        warn([questions.notes["duplicate_ids"]])
    warn(questions.problems)
    return FAILED if questions.problems else DONE


def _write_json(questions: Iterator[Question]) -> None:
    sys.stdout.write("[")
    for index, question in enumerate(questions):
        sys.stdout.write(("," if index else "") + "\n")
        json.dump(record(question), sys.stdout, ensure_ascii=False)
    sys.stdout.write("\n]\n")


def _write_csv(questions: Iterator[Question]) -> None:
    writer = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    writer.writeheader()
    for question in questions:
        row = record(question)
        reference = question.reference
        row["options"] = " ".join(f"{o.letter}: {o.text}" for o in question.options)
        row["reference"] = (
            f"{reference.letter}: {reference.text}" if reference.letter else reference.text
        )
        writer.writerow(row)


def _write_text(questions: Iterator[Question]) -> None:
    for question in questions:
        reference = question.reference
        answer = " ".join(part for part in (reference.letter, reference.text) if part)
        cells = (question.id, question.subtype, question.case_id, question.text, answer)
        sys.stdout.write("  ".join(one_line(cell) for cell in cells) + "\n")


COMMAND = Questions()
