"""What the commands about a result file share: RESULTS, how it was asked, its scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.commands._questions import add_path_arguments
from napari_ctvqa.core.errors import InputFileError, UsageError
from napari_ctvqa.core.records import AnswerFormat

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from napari_ctvqa.core.ports import Benchmark
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Run, Score
    from napari_ctvqa.runners.opening import Opened


@dataclass(frozen=True)
class ScoredResults:
    """A result file's run, the format it is scored as, and its scores by question id."""

    run: Run
    format: AnswerFormat
    scores: Mapping[str, Score]


def add_results_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare PATH, RESULTS, ``--format`` and ``--judges``."""
    add_path_arguments(parser)
    parser.add_argument(
        "results", type=Path, metavar="RESULTS",
        help="result file that run wrote, or a model's predictions in the benchmark's layout",
    )  # fmt: skip
    add_format_arguments(parser)


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--format`` and ``--judges``."""
    parser.add_argument(
        "--format", choices=[f.value for f in AnswerFormat],
        help="how the questions were asked, with options (mc) or without, where RESULTS does not "
        "say it; not for CT-SpatialVQA, which has one way to ask",
    )  # fmt: skip
    parser.add_argument(
        "--judges", type=Path, nargs="+", action="extend", default=[], metavar="FILE",
        help="verdicts of CT-SpatialVQA's judges (default: those found beside RESULTS)",
    )  # fmt: skip


def read_run(
    args: argparse.Namespace, opened: Opened, questions: QuestionSet
) -> tuple[Run, AnswerFormat]:
    """Read RESULTS and say in which format it is to be scored.

    Raises
    ------
    CtvqaError
        When it cannot be read, answers other questions, or nothing says its format.
    """
    assert opened.benchmark is not None
    run = opened.read_results(args.results)
    if not any(key in questions.row_of for key in run.predictions):
        raise InputFileError(
            args.results,
            f"has no answer to a question of {args.path}.",
            hint="Give the results that belong to these questions.",
        )
    return run, format_of(args.format, opened.benchmark, run, args.results)


def read_scored(args: argparse.Namespace, opened: Opened, questions: QuestionSet) -> ScoredResults:
    """Read RESULTS and score it. Raises what ``read_run`` raises."""
    assert opened.benchmark is not None
    run, answer_format = read_run(args, opened, questions)
    scores = opened.benchmark.scores(questions, run, answer_format, args.judges)
    return ScoredResults(run, answer_format, scores)


def format_of(asked: str | None, benchmark: Benchmark, run: Run, path: Path) -> AnswerFormat:
    """Return the format to score as: the one asked for, the benchmark's only one, the file's own.

    Raises
    ------
    UsageError
        Where nothing says it.
    """
    if asked is not None:
        return AnswerFormat(asked)
    only: AnswerFormat | None = getattr(benchmark, "only_format", None)
    found = only or run.answer_format
    if found is None:
        raise UsageError(
            f"{path} does not say whether its answers are multiple choice or free form.",
            hint="Add --format mc or --format freeform.",
        )
    return found
