"""``audit PATH RESULTS``: the two scores of a run against each other, with intervals.

A command of its own beside ``score``: that one writes the benchmark's own metrics in the
benchmark's own structure, which programs read; an audit has another one.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line, speaks_utf8, write_out
from napari_ctvqa.commands._questions import open_questions, report_problems, warn
from napari_ctvqa.commands._scoring import add_results_arguments, read_scored
from napari_ctvqa.core.audit import ALL, audit
from napari_ctvqa.core.audit_lines import text_lines
from napari_ctvqa.core.audit_text import INTERVAL_NOTE, explained, where_text
from napari_ctvqa.core.calibration import calibration_words, calibrations
from napari_ctvqa.core.cells import safe_cell
from napari_ctvqa.core.errors import UsageError
from napari_ctvqa.core.scoring import score_note, score_titles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from napari_ctvqa.core.audit import Audit, CrossTable, Total
    from napari_ctvqa.core.calibration import Calibration
    from napari_ctvqa.core.records import Run

CELL_FIELDS = ("group", "label", "official", "read", "unread", "n", "where")


class AuditCommand:
    """Cross the official outcome of each answer with that of a careful reader."""

    name = "audit"
    help = "audit a result file: official against as read, by stage and subtype, with intervals"
    description = """\
Cross what the benchmark's official scorer makes of each answer with what a careful
person reads, for all answers, by stage and by subtype, with 95 % intervals; and sort
the answers that cannot be read by why. Nothing is asked of a model."""
    examples = """\
examples:
  napari-ctvqa audit PATH answers.json
  napari-ctvqa audit PATH answers.json --calibration sure.svg  # of a run with --confidence"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_results_arguments(parser)
        parser.add_argument(
            "--calibration", type=Path, metavar="FILE.svg",
            help="draw how often answers are right against how sure the model was of them; of a "
            "run with --confidence",
        )  # fmt: skip
        form = parser.add_mutually_exclusive_group()
        form.add_argument(
            "--json", action="store_true", help="write JSON, with the ids of questions"
        )
        form.add_argument(
            "--csv", action="store_true",
            help="write CSV, a line for each pair of outcomes; the last column is a filter for "
            "`questions PATH --results RESULTS --where`",
        )  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        """Write the audit."""
        opened, questions = open_questions(args)
        found = read_scored(args, opened, questions)
        warn(found.run.notes)
        made = audit(found.run.model, questions, found.scores)
        calibrated = calibrations(found.run, found.scores)
        if args.calibration is not None:
            _draw(args.calibration, calibrated, found.run)
        titles, note = score_titles(opened.benchmark), score_note(opened.benchmark)
        if args.json:
            data = {**as_json(made, titles, note), "calibration": [*map(_curve, calibrated)]}
            text = json.dumps(data, ensure_ascii=not speaks_utf8())
            write_out(text + "\n")
        elif args.csv:
            write_out(as_csv(made))
        else:
            assert opened.benchmark is not None
            head = f"{opened.benchmark.title}, {one_line(made.model)}, {found.format.value}"
            write_out(f"{head}\n")
            curves = [line for one in calibrated for line in calibration_words(one)]
            for line in (*text_lines(made, titles, note), *curves):
                write_out(line + "\n")
        sys.stdout.flush()
        return report_problems(questions)


def _draw(path: Path, calibrated: Sequence[Calibration], run: Run) -> None:
    """Draw the run's calibration.

    Raises
    ------
    UsageError
        Where it has no confidences, or of two kinds.
    """
    from napari_ctvqa.exports.calibration import EXPORT

    if not calibrated:
        raise UsageError(
            f"{one_line(run.path)} holds no confidence to draw.",
            hint="Ask for it when the model answers: napari-ctvqa run --help.",
        )
    if len(calibrated) > 1:
        raise UsageError(
            f"{one_line(run.path)} holds confidences of {len(calibrated)} kinds, which are not "
            "one curve.",
            hint="See them apart in --json.",
        )
    EXPORT.write(calibrated[0], path, one_line(run.model))


# ------------------------------------------------------------------------------------ JSON and CSV


def as_json(made: Audit, titles: tuple[str, str], note: str = "") -> dict[str, Any]:
    """Return the audit as data: every cell with its question ids."""
    return {
        "model": made.model,
        "questions": made.questions,
        "answers": made.total.n,
        "scores": {"official": titles[0], "read": titles[1]},
        "intervals": INTERVAL_NOTE,
        "all": _table_json(made, made.total, titles, note),
        "by_stage": {t.label: _table_json(made, t, titles) for t in made.stages},
        "by_subtype": {t.label: _table_json(made, t, titles) for t in made.subtypes},
    }


def _table_json(
    made: Audit, table: CrossTable, titles: tuple[str, str], note: str = ""
) -> dict[str, Any]:
    return {
        "official": _total_json(table.official),
        "read": _total_json(table.ours),
        "explained": list(explained(table, titles, note)),
        "cells": [
            {"official": one.value, "read": other.value, "n": len(ids), "ids": list(ids)}
            for (one, other), ids in table.cells.items()
        ],
        "unread": {kind.value: list(ids) for kind, ids in table.unread.items()},
        "differing": list(table.differing),
        "credited_failures": list(table.credited_failures),
        "where": where_text(made, table),
    }


def _total_json(total: Total) -> dict[str, Any]:
    ends = total.interval
    return {
        "n": total.n,
        "right": total.right,
        "credit": total.credit,
        "share": total.share,
        "interval": None if ends is None else [ends.low, ends.high],
    }


def _curve(found: Calibration) -> dict[str, Any]:
    return {
        "from": None if found.source is None else found.source.value,
        "n": found.total.n,
        "right": found.total.right,
        "mean_confidence": found.confidence,
        "expected_calibration_error": found.error,
        "without_confidence": found.without,
        "unread": found.unread,
        "bins": [
            {
                "from": one.low,
                "to": one.high,
                "mean_confidence": one.confidence,
                **_total_json(one.total),
                "ids": list(one.ids),
            }
            for one in found.bins
        ],
    }


def as_csv(made: Audit) -> str:
    """Return one line a cell and one a kind of unread answer, all groups."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CELL_FIELDS)
    for table in made.tables:
        name = "" if table.group == ALL else table.label
        for (one, other), ids in table.cells.items():
            where = where_text(made, table, official=one, ours=other)
            row = (table.group, name, one.value, other.value, "", str(len(ids)), where)
            writer.writerow([safe_cell(cell) for cell in row])
        for kind, ids in table.unread.items():
            where = where_text(made, table, unread=kind)
            row = (table.group, name, "", "unread", kind.value, str(len(ids)), where)
            writer.writerow([safe_cell(cell) for cell in row])
    return buffer.getvalue()


COMMAND = AuditCommand()
