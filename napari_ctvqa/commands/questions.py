"""``questions PATH``: list a benchmark's questions."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line, speaks_utf8, write_out
from napari_ctvqa.commands._questions import (
    add_path_arguments,
    open_questions,
    report_problems,
    rows_of,
)
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.where import parse_where

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from napari_ctvqa.core.records import Question

FIELDS = ("id", "case", "stage", "subtype", "text", "options", "reference")


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
        opened, questions = open_questions(args)
        rows = rows_of(where, opened, questions, AnswerFormat(args.format), args.results)
        write = _write_json if args.json else _write_csv if args.csv else _write_text
        write(questions[row] for row in rows.tolist())
        if not args.json and not args.csv:
            sys.stdout.write(f"{len(rows)} of {len(questions)} questions\n")
        return report_problems(questions)


def _write_json(questions: Iterator[Question]) -> None:
    sys.stdout.write("[")
    for index, question in enumerate(questions):
        sys.stdout.write(("," if index else "") + "\n")
        write_out(json.dumps(record(question), ensure_ascii=not speaks_utf8()))
    sys.stdout.write("\n]\n")


def _write_csv(questions: Iterator[Question]) -> None:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, FIELDS, lineterminator="\n")
    writer.writeheader()
    for question in questions:
        row = record(question)
        reference = question.reference
        row["options"] = " ".join(f"{o.letter}: {o.text}" for o in question.options)
        row["reference"] = (
            f"{reference.letter}: {reference.text}" if reference.letter else reference.text
        )
        writer.writerow(row)
        write_out(buffer.getvalue())
        buffer.seek(0)
        buffer.truncate()
    write_out(buffer.getvalue())


def _write_text(questions: Iterator[Question]) -> None:
    for question in questions:
        reference = question.reference
        answer = " ".join(part for part in (reference.letter, reference.text) if part)
        cells = (question.id, question.subtype, question.case_id, question.text, answer)
        sys.stdout.write("  ".join(one_line(cell) for cell in cells) + "\n")


COMMAND = Questions()
