"""``run``: answer the questions of a benchmark with a model or agent, into a result file."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import one_line, write_out
from napari_ctvqa.commands._clusters import add_scheduler_argument, cluster_of
from napari_ctvqa.commands._models import (
    add_model_arguments,
    chosen_answerer,
    remember,
    wanted_of,
)
from napari_ctvqa.commands._progress import ProgressLine, count_of, so_far
from napari_ctvqa.commands._questions import (
    add_absent_argument,
    add_path_arguments,
    open_questions,
    report_problems,
    rows_of,
    warn,
)
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.servers import server_line
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.runners.batch import GaveUpError, run_batch
from napari_ctvqa.runners.batch_progress import BatchProgress

if TYPE_CHECKING:
    from collections.abc import Generator

    from napari_ctvqa.core.records import Prediction
    from napari_ctvqa.runners.batch import Elsewhere
    from napari_ctvqa.runners.cluster import Cluster

_REASON = 1000
"""Characters of one reason."""
_MOST_REASONS, _TOLD_REASONS = 1000, 3
"""How many are kept, and told at the end."""


class RunCommand:
    """Run a model or agent."""

    name = "run"
    help = "answer questions with a model or agent; resumes, keeps every answer"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        parser.add_argument(
            "--format", choices=[f.value for f in AnswerFormat], default="mc", dest="answer_format"
        )
        add_model_arguments(parser)
        parser.add_argument("--limit", type=count_of, metavar="N", help="the first N questions")
        parser.add_argument("--where", default="", help='e.g. subtype:"lesion counting"')
        parser.add_argument("--retry-errors", action="store_true", help="ask [ERROR] rows again")
        add_scheduler_argument(parser)
        add_absent_argument(parser)
        parser.add_argument(
            "--segmented", action="store_true",
            help="kit live: where a structure has no file, the mask that `segment` made",
        )  # fmt: skip
        parser.add_argument(
            "--no-pictures", action="store_true",
            help="keep prompts and events beside FILE, not the pixels that were sent",
        )  # fmt: skip
        parser.add_argument(
            "--out", type=_file_path, required=True, metavar="FILE", help="result file"
        )
        parser.add_argument("--json", action="store_true", help="print a summary as JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Answer; return 0, or 1 when a question of the selection has no answer."""
        where = parse_where(args.where)
        answer_format = AnswerFormat(args.answer_format)
        opened, questions = open_questions(args)
        answerer, kit = chosen_answerer(args, opened)
        with closing(answerer) if hasattr(answerer, "close") else nullcontext():
            rows = rows_of(where, opened, questions, answer_format)[: args.limit]
            if not rows.size:
                raise NotFoundError(
                    f"no question of {args.path} fits --where {args.where!r}.",
                    hint="List what there is with: napari-ctvqa questions PATH --csv",
                )
            unread = report_problems(questions)
            with cluster_of(args, loads_a_model=_is_loaded(answerer)) as cluster:
                batch = run_batch(
                    opened,
                    answerer,
                    answer_format,
                    args.out,
                    rows=rows.tolist(),
                    retry_errors=args.retry_errors,
                    kit=kit,
                    assume_none=args.absent_means_none,
                    segmented=args.segmented,
                    pictures=not args.no_pictures,
                    elsewhere=_on(cluster, args),
                )
                last, reasons = _follow(batch)
            if last.done > last.failed:
                remember(args, answerer)
        warn(reasons.sentences())
        _report(last, args.out, as_json=args.json)
        return 1 if last.failed else unread


def _file_path(text: str) -> Path:
    """Return where results go; an argparse type, so that no name at all is a usage error."""
    if not Path(text).name:
        raise argparse.ArgumentTypeError("the name of a file was expected")
    return Path(text)


def _is_loaded(answerer: object) -> bool:
    """Return whether each worker would load a model into its machine's memory."""
    return getattr(answerer, "way_kind", "") == "worker"


def _on(cluster: Cluster | None, args: argparse.Namespace) -> Elsewhere | None:
    if cluster is None:
        return None
    from napari_ctvqa.runners.cluster_answers import ClusterAnswers

    return ClusterAnswers(cluster, wanted_of(args))


class _Reasons:
    """Why questions failed in this run: each sentence once, with how often."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def take(self, prediction: Prediction | None) -> None:
        """Take the reason of an answer that failed, as it was before digits were taken out."""
        if prediction is None or not prediction.failed:
            return
        errors = [turn.error for turn in prediction.trace.turns if turn.error]
        hint = (prediction.record.get("failure") or {}).get("hint", "")
        sentence = f"{errors[-1] if errors else prediction.raw_text} {hint}".strip()[:_REASON]
        if sentence in self._counts or len(self._counts) < _MOST_REASONS:
            self._counts[sentence] += 1

    def sentences(self) -> list[str]:
        """Return the most frequent reasons."""
        common = self._counts.most_common(_TOLD_REASONS)
        left = sum(self._counts.values()) - sum(count for _, count in common)
        told = [f"{count} failed: {sentence}" for sentence, count in common]
        return [*told, f"{left} failed otherwise; their rows say why"] if left else told


def _follow(batch: Generator[BatchProgress, None, None]) -> tuple[BatchProgress, _Reasons]:
    """Run the batch to its end, showing progress where somebody can see it."""
    last, reasons = BatchProgress(0, 0, 0), _Reasons()
    try:
        with closing(batch), ProgressLine() as line:
            for last in batch:
                if last.message:
                    warn([last.message])
                reasons.take(last.prediction)
                line.show(last)
    except GaveUpError as error:
        hint = f"{error.hint} Go on with the same command and --retry-errors."
        raise GaveUpError(error.message, hint=hint) from None
    return last, reasons


def _report(last: BatchProgress, out: Path, *, as_json: bool) -> None:
    metrics = last.metrics or {}
    if as_json:
        summary = {
            "out": str(out),
            "n_processed": last.done,
            "failed": last.failed,
            "metrics": metrics,
        }
        if last.servers:
            summary["servers"] = [asdict(one) for one in last.servers]
        sys.stdout.write(json.dumps(summary, ensure_ascii=False) + "\n")
        return
    failed = f", {last.failed} failed ([ERROR] rows; --retry-errors asks them again)"
    credited = int(metrics.get("errors", {}).get("officially_credited", 0))
    counted = f"; the official scorer gives credit to {credited} [ERROR] rows" if credited else ""
    said = so_far(last.accuracy, last.scored).replace(" so far", "")
    sys.stdout.write(
        f"{last.done} answers in {out}{failed if last.failed else ''}{counted}"
        f"{f'; {said}' if said else ''}\n"
    )
    for one in last.servers:
        write_out(f"  {one_line(server_line(one))}\n")


COMMAND = RunCommand()
