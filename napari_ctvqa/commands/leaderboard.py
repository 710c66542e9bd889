"""``leaderboard [PATH [RESULTS]]``: published tables, and one's own run beside them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import DONE, speaks_utf8, write_out
from napari_ctvqa.commands._questions import open_questions, report_problems, warn
from napari_ctvqa.commands._scoring import add_format_arguments, read_scored
from napari_ctvqa.core.audit import audit
from napari_ctvqa.core.audit_text import interval_text
from napari_ctvqa.core.cells import safe_cell
from napari_ctvqa.core.errors import UsageError
from napari_ctvqa.core.leaderboard_lines import board_lines, own_cell
from napari_ctvqa.core.leaderboards import (
    OTHER_CONDITIONS,
    asked_of,
    beside,
    leaderboards,
    leaderboards_of,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from napari_ctvqa.core.leaderboards import Beside, Leaderboard, OwnValue


class LeaderboardCommand:
    """Show published results, and where one's own run stands among them by its interval."""

    name = "leaderboard"
    help = "published result tables; with RESULTS one's own run beside them, with intervals"
    description = """\
Show the published result tables with their sources. With RESULTS, a run of yours stands
beside those that it can be compared with, its rank a range by its 95 % interval; where
it is not compared, the reason is given."""
    examples = """\
examples:
  napari-ctvqa leaderboard
  napari-ctvqa leaderboard PATH answers.json"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "path", type=Path, metavar="PATH", nargs="?",
            help="benchmark folder or question file (default: the tables of all benchmarks)",
        )  # fmt: skip
        parser.add_argument(
            "results", type=Path, metavar="RESULTS", nargs="?", help="result file that run wrote"
        )
        parser.add_argument(
            "--benchmark", metavar="NAME",
            help="without PATH: the tables of this benchmark; with it: take PATH as of it",
        )  # fmt: skip
        parser.add_argument(
            "--kit", default="", metavar="NAME",
            help="oracle, predicted, vision or live: what the agent's tools worked on, where "
            "RESULTS does not say",
        )  # fmt: skip
        parser.set_defaults(cases=[])
        add_format_arguments(parser)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="write JSON")
        form.add_argument(
            "--csv", action="store_true", help="write CSV, a line for each model and column"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Write the tables."""
        if args.path is None:
            boards = leaderboards_of(args.benchmark) if args.benchmark else leaderboards()
            if not boards:
                raise _no_table(args.benchmark)
            _write(args, boards, [])
            return DONE
        opened, questions = open_questions(args)
        assert opened.benchmark is not None
        boards = leaderboards_of(opened.benchmark.name)
        if not boards:
            raise _no_table(opened.benchmark.name)
        own: list[Beside] = []
        if args.results is not None:
            found = read_scored(args, opened, questions)
            warn(found.run.notes)
            made = audit(found.run.model, questions, found.scores)
            asked = asked_of(found.run, opened.benchmark.name, found.format, kit=args.kit)
            own = [beside(board, made, asked) for board in boards]
        _write(args, boards, own)
        return report_problems(questions)


def _no_table(benchmark: str) -> UsageError:
    known = ", ".join(dict.fromkeys(board.benchmark for board in leaderboards()))
    return UsageError(f"no published table of {benchmark!r} is known.", hint=f"Known: {known}.")


def _write(args: argparse.Namespace, boards: Sequence[Leaderboard], own: Sequence[Beside]) -> None:
    by_name = {found.board.name: found for found in own}
    pairs = [(board, by_name.get(board.name)) for board in boards]
    if args.json:
        data = [_board_json(board, found) for board, found in pairs]
        write_out(json.dumps(data, ensure_ascii=not speaks_utf8()) + "\n")
    elif args.csv:
        write_out(_csv(pairs))
    else:
        write_out("\n\n".join("\n".join(board_lines(*pair)) for pair in pairs) + "\n")


# ------------------------------------------------------------------------------------ JSON and CSV


def _board_json(board: Leaderboard, own: Beside | None) -> dict[str, Any]:
    titles = [column.title for column in board.columns]
    data: dict[str, Any] = {
        "name": board.name,
        "benchmark": board.benchmark,
        "version": board.version,
        "format": board.format.value,
        "metric": board.metric,
        "questions": board.questions,
        "source": board.source,
        "date": board.date,
        "unknown": list(board.unknown),
        "rows": [
            {
                "model": row.model,
                "params": row.params,
                "input": row.input,
                "asked": row.way,
                "values": dict(zip(titles, row.values, strict=True)),
                "source": row.source,
                "apart": row.apart,
                "note": row.note,
            }
            for row in board.rows
        ],
    }
    if own is not None:
        data["own"] = {
            "model": own.model,
            "compared": own.compared,
            "reasons": list(own.reasons),
            "values": {
                title: _own_json(value) for title, value in zip(titles, own.values, strict=True)
            },
            "conditions": OTHER_CONDITIONS,
        }
    return data


def _own_json(value: OwnValue) -> dict[str, Any]:
    ends, rank = value.total.interval, value.rank
    return {
        "n": value.total.n,
        "percent": value.percent,
        "interval": None if ends is None else [ends.low * 100, ends.high * 100],
        "ranks": None if rank is None else [rank.best, rank.worst],
        "among": None if rank is None else rank.among,
        "reason": value.reason,
    }


_FIELDS = ("table", "model", "input", "asked", "column", "percent", "interval", "rank", "reason")


def _csv(pairs: Sequence[tuple[Leaderboard, Beside | None]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_FIELDS)
    for board, own in pairs:
        for row in board.rows:
            for column, shown in zip(board.columns, row.values, strict=True):
                head = (board.name, row.model, row.input, row.way, column.title)
                writer.writerow([*head, f"{shown:.{board.decimals}f}", "", "", row.apart])
        if own is not None:
            _write_own(writer, own)
    return buffer.getvalue()


def _write_own(writer: Any, own: Beside) -> None:
    why = "; ".join(own.reasons)
    for column, value in zip(own.board.columns, own.values, strict=True):
        writer.writerow(
            [
                own.board.name,
                safe_cell(own.model),
                "this run",
                own.asked.kit or own.asked.mode,
                column.title,
                own_cell(value, own.board.decimals),
                interval_text(value.total),
                "" if value.rank is None else value.rank.text,
                why or value.reason,
            ]
        )


COMMAND = LeaderboardCommand()
