"""What the commands about a benchmark share: PATH, opening it, and warnings on stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import DONE, FAILED, one_line
from napari_ctvqa.commands._progress import count_of
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import AnswerFormat, named_apart

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Run
    from napari_ctvqa.core.where import Where
    from napari_ctvqa.runners.opening import Opened

    Arguments = argparse.ArgumentParser | argparse._ArgumentGroup
_MAX_WARNINGS = 20


def add_path_arguments(
    parser: argparse.ArgumentParser, *, path: str = "benchmark folder or question file"
) -> None:
    """Declare PATH, ``--benchmark`` and ``--cases``; ``path`` says what PATH may be."""
    parser.add_argument("path", type=Path, metavar="PATH", help=path)
    parser.add_argument(
        "--benchmark", metavar="NAME",
        help="take PATH as of this benchmark, e.g. deeptumorvqa (default: by what is in it)",
    )  # fmt: skip
    parser.add_argument(
        "--cases", type=Path, action="append", default=[], metavar="ROOT",
        help="folder with CTs and masks, where PATH does not hold them; remembered for the "
        "benchmark (repeatable)",
    )  # fmt: skip


def add_selection_arguments(parser: Arguments, *, limit: bool = True) -> None:
    """Declare ``--where``, and ``--limit`` where that is wanted."""
    parser.add_argument(
        "--where", default="", metavar="FILTER",
        help="only the questions that fit, e.g. 'stage:measurement subtype:\"lesion counting\"'; "
        "the terms are those of the window's search line (default: all)",
    )  # fmt: skip
    if limit:
        parser.add_argument("--limit", type=count_of, metavar="N", help="only the first N of them")


def add_format_argument(parser: Arguments) -> None:
    """Declare ``--format`` of commands that ask."""
    parser.add_argument(
        "--format", choices=[f.value for f in AnswerFormat], default="mc", dest="answer_format",
        help="ask with the options to choose from (mc, the default), or without (freeform)",
    )  # fmt: skip


def add_absent_argument(parser: Arguments) -> None:
    """Declare ``--absent-means-none``."""
    parser.add_argument(
        "--absent-means-none", action="store_true",
        help="take a lesion without a mask file as not there, which is otherwise unknown; what "
        "follows from it says assumed",
    )  # fmt: skip


def open_questions(args: argparse.Namespace) -> tuple[Opened, QuestionSet]:
    """Open PATH and return it with its questions.

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
    return opened, opened.questions


def rows_of(
    where: Where,
    opened: Opened,
    questions: QuestionSet,
    answer_format: AnswerFormat,
    results: Sequence[Path] = (),
) -> npt.NDArray[np.intp]:
    """Return the rows that a filter shows, in file order.

    Result files are read only for a filter about models or outcomes: the given ones, or else
    those found beside PATH.
    """
    scores = {}
    runs: dict[str, Run] = {}
    if where.needs_scores and opened.benchmark is not None:
        for path in results or opened.found_results():
            run = named_apart(opened.read_results(path), runs)
            runs[run.model] = run
            form = run.answer_format or answer_format
            scores[run.model] = opened.benchmark.scores(questions, run, form)
    return where.rows(questions, scores)


def warn(sentences: Iterable[str]) -> None:
    """Write one line a sentence on stderr, at most twenty."""
    lines = list(sentences)
    for line in lines[:_MAX_WARNINGS]:
        sys.stderr.write(f"napari-ctvqa: {one_line(line)}\n")
    if len(lines) > _MAX_WARNINGS:
        sys.stderr.write(f"napari-ctvqa: and {len(lines) - _MAX_WARNINGS} more\n")


def report_problems(questions: QuestionSet) -> int:
    """Name repeated ids and unreadable records on stderr; return the exit code."""
    if "duplicate_ids" in questions.notes:
        warn([questions.notes["duplicate_ids"]])
    warn(questions.problems)
    return FAILED if questions.problems else DONE
