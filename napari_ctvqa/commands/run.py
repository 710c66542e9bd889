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
from napari_ctvqa.commands._progress import ProgressLine, so_far
from napari_ctvqa.commands._questions import (
    add_absent_argument,
    add_format_argument,
    add_path_arguments,
    add_selection_arguments,
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
    description = """\
Let a model or an agent answer a benchmark's questions, into a result file.

Each answer is on disk as it comes. A run that was stopped or killed goes on with
the same command. score, audit and leaderboard read FILE; open shows it."""
    examples = """\
examples:
  napari-ctvqa run PATH --out answers.json
  napari-ctvqa run PATH --model toy --where 'subtype:"lesion counting"' --limit 20 --out toy.json
  napari-ctvqa run PATH --model qwen3-vl --server http://gpu7:8000/v1 --confirm-host --out q.json
  napari-ctvqa run PATH --model qwen3-vl --mode agent --kit live --server URL --out agent.json"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        which = parser.add_argument_group("which questions")
        add_selection_arguments(which)
        add_format_argument(which)
        add_model_arguments(parser)
        masks = parser.add_argument_group("masks that are not there")
        add_absent_argument(masks)
        masks.add_argument(
            "--segmented", action="store_true",
            help="let the tools of the kit live use masks that `napari-ctvqa segment` made, where "
            "a structure has no file",
        )  # fmt: skip
        work = parser.add_argument_group("the work and its result")
        work.add_argument(
            "--out", type=_file_path, required=True, metavar="FILE",
            help="result file (JSON); what it has answered already is not asked again",
        )  # fmt: skip
        work.add_argument(
            "--retry-errors", action="store_true",
            help="ask again what FILE holds an [ERROR] row of",
        )  # fmt: skip
        work.add_argument(
            "--no-pictures", action="store_true",
            help="of what the model was sent keep the texts beside FILE, not the pictures",
        )  # fmt: skip
        add_scheduler_argument(
            work, processes="one process a processor (one in all for a model that each would load)"
        )
        work.add_argument("--json", action="store_true", help="print the summary as JSON")

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
