"""``run``: answer the questions of a benchmark with a model or agent, into a result file."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.commands._questions import (
    add_path_arguments,
    open_questions,
    report_problems,
    rows_of,
)
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.extensions import models
from napari_ctvqa.runners.batch import BatchProgress, run_batch

if TYPE_CHECKING:
    import argparse

_SHOWN_EVERY_S = 0.2


class RunCommand:
    """Run a model or agent."""

    name = "run"
    help = "answer questions with a model or agent; resumes, keeps every answer"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        parser.add_argument("--model", default="rules", help="model or agent (default: rules)")
        parser.add_argument(
            "--format", choices=[f.value for f in AnswerFormat], default="mc", dest="answer_format"
        )
        parser.add_argument("--kit", default="", help="tool kit of the agent")
        parser.add_argument("--limit", type=count_of, metavar="N", help="the first N questions")
        parser.add_argument("--where", default="", help="e.g. \"subtype:'lesion counting'\"")
        parser.add_argument("--retry-errors", action="store_true", help="ask [ERROR] rows again")
        parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="result file")
        parser.add_argument("--json", action="store_true", help="print a summary as JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Answer; return 0, or 1 when a question of the selection has no answer."""
        answerer = _model(args.model)
        kit = _kit(answerer, args.kit)
        where = parse_where(args.where)
        answer_format = AnswerFormat(args.answer_format)
        opened, questions = open_questions(args)
        rows = rows_of(where, opened, questions, answer_format)[: args.limit]
        if not rows.size:
            raise NotFoundError(
                f"no question of {args.path} fits --where {args.where!r}.",
                hint="List what there is with: napari-ctvqa questions PATH --csv",
            )
        unread = report_problems(questions)
        batch = run_batch(
            opened,
            answerer,
            answer_format,
            args.out,
            rows=rows.tolist(),
            retry_errors=args.retry_errors,
            kit=kit,
        )
        last = _follow(batch)
        _report(last, args.out, as_json=args.json)
        return 1 if last.failed else unread


def count_of(text: str) -> int:
    """Return a count of at least 1. Raises ValueError, which argparse reports."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _model(name: str) -> Any:
    known = models()
    if name not in known:
        raise NotFoundError(
            f"no model is called {name!r}; there are {', '.join(sorted(known))}.",
            hint="Give one of these to --model.",
        )
    return known[name]


def _kit(answerer: Any, wanted: str) -> str:
    kits: tuple[str, ...] = tuple(getattr(answerer, "kits", ()))
    if wanted and wanted not in kits:
        listed = ", ".join(kits) or "none"
        raise NotFoundError(
            f"{answerer.name} has no tool kit {wanted!r}; it has: {listed}.",
            hint="Give one of these to --kit, or leave it away.",
        )
    return wanted


def _follow(batch: Iterator[BatchProgress]) -> BatchProgress:
    """Run the batch to its end, showing progress where somebody can see it."""
    last = BatchProgress(0, 0, 0)
    seen = sys.stderr.isatty()
    shown_at = 0.0
    with closing(batch):  # type: ignore[type-var]
        for last in batch:
            if last.message:
                sys.stderr.write(f"napari-ctvqa: {last.message}\n")
            if seen and time.monotonic() - shown_at >= _SHOWN_EVERY_S:
                shown_at = time.monotonic()
                sys.stderr.write(f"\r\x1b[K{progress_line(last)}")
                sys.stderr.flush()
    if seen:
        sys.stderr.write("\r\x1b[K")
    return last


def progress_line(progress: BatchProgress) -> str:
    """Return e.g. ``"120 of 400, 2 failed, 31.5 a second, 9 s left"``, cut to the terminal."""
    parts = [f"{progress.done} of {progress.total}"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.per_second:
        parts.append(f"{progress.per_second:.1f} a second")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 200
    return ", ".join(parts)[: width - 1]


def duration(seconds: float) -> str:
    """Return ``"9 s"``, ``"3 min"`` or ``"2.5 h"``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _report(last: BatchProgress, out: Path, *, as_json: bool) -> None:
    metrics = last.metrics or {}
    if as_json:
        summary = {
            "out": str(out),
            "n_processed": last.done,
            "failed": last.failed,
            "metrics": metrics,
        }
        sys.stdout.write(json.dumps(summary, ensure_ascii=False) + "\n")
        return
    failed = f", {last.failed} failed ([ERROR] rows; --retry-errors asks them again)"
    sys.stdout.write(f"{last.done} answers in {out}{failed if last.failed else ''}\n")


COMMAND = RunCommand()
