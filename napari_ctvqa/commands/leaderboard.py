"""``leaderboard [PATH [RESULTS]]``: published tables, and one's own run beside them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import DONE, one_line, speaks_utf8, write_out
from napari_ctvqa.commands._questions import open_questions, report_problems, warn
from napari_ctvqa.commands._scoring import add_format_arguments, read_scored
from napari_ctvqa.core.audit import audit
from napari_ctvqa.core.audit_text import interval_text
from napari_ctvqa.core.cells import safe_cell
from napari_ctvqa.core.errors import UsageError
from napari_ctvqa.core.leaderboards import (
    OTHER_CONDITIONS,
    asked_of,
    beside,
    leaderboards,
    leaderboards_of,
    own_words,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from napari_ctvqa.core.leaderboards import Beside, Leaderboard, OwnValue, Published

_MODEL_WIDTH, _INPUT_WIDTH, _WIDTH = 30, 24, 12
OWN = "▶ "


class LeaderboardCommand:
    """Show published results, and where one's own run stands among them by its interval."""

    name = "leaderboard"
    help = "published result tables; with RESULTS one's own run beside them, with intervals"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "path", type=Path, metavar="PATH", nargs="?",
            help="benchmark folder or question file (default: the tables of all benchmarks)",
        )  # fmt: skip
        parser.add_argument("results", type=Path, metavar="RESULTS", nargs="?", help="result file")
        parser.add_argument("--benchmark", metavar="NAME", help="show this benchmark's tables")
        parser.add_argument(
            "--kit", default="", metavar="NAME",
            help="what an agent's tools worked on, where its file does not say",
        )  # fmt: skip
        parser.set_defaults(cases=[])
        add_format_arguments(parser)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="write JSON")
        form.add_argument("--csv", action="store_true", help="write CSV, one line a row and column")

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
        write_out("\n\n".join("\n".join(_lines(*pair)) for pair in pairs) + "\n")


# ------------------------------------------------------------------------------------------ text


def _lines(board: Leaderboard, own: Beside | None) -> Iterator[str]:
    yield f"{board.title}: {board.metric}; {board.questions:,} questions"
    yield f"Source: {board.source}, {board.date}. {' '.join(board.unknown)}"
    titles = [column.title[: _WIDTH - 1] for column in board.columns]
    yield _row("model", "input", "asked", titles)
    rows = sorted(board.rows, key=lambda row: -row.values[0])
    mine = own.values[0].percent if own is not None and own.compared else None
    for row in rows:
        if own is not None and mine is not None and row.values[0] < mine:
            yield _own_row(own)
            mine = None
        yield _published_row(row, board.decimals)
    if own is not None and mine is not None:
        yield _own_row(own)
    yield from (f"* {row.model}: {row.apart}." for row in rows if row.apart)
    yield from (f"* {row.model}: {row.note}" for row in rows if row.note)
    if own is not None:
        if not own.compared and not own.reasons:
            yield _own_row(own)
        yield from own_words(own)
        yield OTHER_CONDITIONS


def _published_row(row: Published, decimals: int) -> str:
    starred = f"{row.model} *" if row.apart or row.note else row.model
    return _row(starred, row.input, row.way, [f"{value:.{decimals}f}" for value in row.values])


def _own_row(own: Beside) -> str:
    cells = [_own_cell(value, own.board.decimals) for value in own.values]
    asked = own.asked.kit or own.asked.mode or "?"
    return _row(f"{OWN}{one_line(own.model)}", "this run", asked, cells)


def _own_cell(value: OwnValue, decimals: int) -> str:
    return "–" if value.percent is None else f"{value.percent:.{decimals}f}"


def _row(model: str, source: str, way: str, cells: Sequence[str]) -> str:
    model = model if len(model) <= _MODEL_WIDTH else model[: _MODEL_WIDTH - 1] + "…"
    source = source if len(source) <= _INPUT_WIDTH else source[: _INPUT_WIDTH - 1] + "…"
    numbers = "".join(f"{cell:>{_WIDTH}}" for cell in cells)
    return f"{model:<{_MODEL_WIDTH}} {source:<{_INPUT_WIDTH}} {way:<9}{numbers}".rstrip()


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
                _own_cell(value, own.board.decimals),
                interval_text(value.total),
                "" if value.rank is None else value.rank.text,
                why or value.reason,
            ]
        )


COMMAND = LeaderboardCommand()
