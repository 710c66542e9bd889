"""``validate``: recompute the references of a benchmark's questions from the masks."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import FAILED, speaks_utf8, write_out
from napari_ctvqa.commands._clusters import add_scheduler_argument, cluster_of
from napari_ctvqa.commands._progress import ProgressLine, count_of
from napari_ctvqa.commands._questions import (
    add_absent_argument,
    add_path_arguments,
    add_selection_arguments,
    open_questions,
    report_problems,
    rows_of,
    warn,
)
from napari_ctvqa.core.checks import summary
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.runners.validate import ValidationProgress, validate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Mapping

    from napari_ctvqa.core.checks import ReferenceCheck
    from napari_ctvqa.runners.cluster import Cluster
    from napari_ctvqa.runners.validate import Elsewhere


class Validate:
    """Recompute references and say which agree, which differ, and what cannot be checked."""

    name = "validate"
    help = "recompute references from the masks; lists what agrees, differs or cannot be checked"
    description = """\
Recompute the references of a benchmark's questions from the masks of its cases, by
the rule table: which agree, which differ and by how much, and which cannot be checked
and why. No model is asked. evidence shows one question's steps.

A validation that was stopped goes on with the same command."""
    examples = """\
examples:
  napari-ctvqa validate PATH --out checks.csv
  napari-ctvqa validate PATH --where stage:measurement --jobs 4 --out checks.csv"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        add_selection_arguments(parser, limit=False)
        add_absent_argument(parser)
        parser.add_argument(
            "--out", type=Path, required=True, metavar="FILE.csv",
            help="table of all checks (CSV), one that validate wrote before is replaced; a text "
            "that a spreadsheet would take for a formula gets an apostrophe in front",
        )  # fmt: skip
        parser.add_argument(
            "--jobs", type=count_of, default=os.cpu_count() or 1, metavar="N",
            help="processes, each with one case at a time (default: one a processor); not with "
            "--scheduler",
        )  # fmt: skip
        add_scheduler_argument(parser, processes="one process a processor")
        parser.add_argument(
            "--json", action="store_true",
            help="print the checks as JSON, and the summary on stderr",
        )  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        """Validate; return 0, or 1 when a case or a record could not be read."""
        where = parse_where(args.where)
        opened, questions = open_questions(args)
        rows = rows_of(where, opened, questions, AnswerFormat.MC)
        if not rows.size:
            raise NotFoundError(
                f"no question of {args.path} fits --where {args.where!r}.",
                hint="List what there is with: napari-ctvqa questions PATH --csv",
            )
        unread = report_problems(questions)
        with cluster_of(args) as cluster:
            steps = validate(
                opened,
                rows.tolist(),
                out=args.out,
                jobs=args.jobs,
                assume_none=args.absent_means_none,
                elsewhere=_on(cluster),
            )
            last, checks = _follow(steps)
        in_order = [checks[row] for row in rows.tolist()]
        table = summary_text(summary(in_order))
        if args.json:
            _write_json(in_order)
            sys.stderr.write(table)
        else:
            write_out(table + f"{last.done} checks in {args.out}\n")
        return FAILED if last.failed else unread


def _on(cluster: Cluster | None) -> Elsewhere | None:
    if cluster is None:
        return None
    from napari_ctvqa.runners.cluster_answers import checking

    return checking(cluster)


def _follow(
    steps: Generator[ValidationProgress, None, None],
) -> tuple[ValidationProgress, dict[int, ReferenceCheck]]:
    """Run to the end, showing progress where somebody can see it."""
    last = ValidationProgress(0, 0, 0)
    checks: dict[int, ReferenceCheck] = {}
    with closing(steps), ProgressLine() as line:
        for last in steps:
            checks.update(last.checks)
            if last.message:
                warn([last.message])
            line.show(last)
    return last, checks


def _write_json(checks: list[ReferenceCheck]) -> None:
    sys.stdout.write("[")
    for index, check in enumerate(checks):
        sys.stdout.write(("," if index else "") + "\n")
        write_out(json.dumps(check.record(), ensure_ascii=not speaks_utf8()))
    sys.stdout.write("\n]\n")


def summary_text(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the summary by subtype as an aligned table, its sum in the last line."""
    heads = ("subtype", "n", "agrees", "differs", "of these right by another rule",
             "cannot check", "question flawed")  # fmt: skip
    keys = ("n", "agrees", "differs", "agrees_by_another_rule", "cannot_check", "flagged")
    rows = [[name or "(none)", *(of[key] for key in keys)] for name, of in counts.items()]
    rows.append(["all", *(sum(of[key] for of in counts.values()) for key in keys)])
    wide = max(len(str(row[0])) for row in rows)
    lines = [f"{'subtype':<{wide}}  {'  '.join(heads[1:])}"]
    for row in rows:
        cells = (f"{cell:>{len(head)}}" for cell, head in zip(row[1:], heads[1:], strict=True))
        lines.append(f"{row[0]:<{wide}}  {'  '.join(cells)}")
    return "\n".join(lines) + "\n"


COMMAND = Validate()
