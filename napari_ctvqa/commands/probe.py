"""``probe``: ask again with one thing changed, and say what the answers show of a model."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.cli import write_out
from napari_ctvqa.commands._models import add_model_arguments, chosen_answerer, remember
from napari_ctvqa.commands._progress import ProgressLine
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
from napari_ctvqa.core.probes import probes_named, table
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.runners.batch import GaveUpError

if TYPE_CHECKING:
    from collections.abc import Generator

    from napari_ctvqa.core.probe_results import ProbeSummary
    from napari_ctvqa.runners.probing import ProbeProgress


class ProbeCommand:
    """Counterfactual reruns."""

    name = "probe"
    help = "ask again with one thing changed; resumes, the run itself stays untouched"
    description = """\
Ask a model each question as it is, and once more a probe with one thing changed
(the volume mirrored, the lesion removed, the options shuffled ...), and say what the
answers show of it: looks at the lesion, guesses, confuses the sides.

FILE is the probes' own; probes may be added to it, and the same command goes on with
one that was stopped. probe --list says what each probe changes and needs."""
    examples = """\
examples:
  napari-ctvqa probe PATH --probe mirrored,blank --model toy --limit 50 --out probes.json
  napari-ctvqa probe --list"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_path_arguments(parser)
        which = parser.add_argument_group("which probes and questions")
        which.add_argument(
            "--probe", default="all", metavar="NAMES",
            help="names with commas between them, or all (default)",
        )  # fmt: skip
        which.add_argument(
            "--list", action=_List, nargs=0, help="say what each probe changes and needs, and end"
        )
        add_selection_arguments(which)
        add_format_argument(which)
        add_model_arguments(parser)
        add_absent_argument(parser.add_argument_group("masks that are not there"))
        work = parser.add_argument_group("the work and its result")
        work.add_argument(
            "--out", type=_file_path, required=True, metavar="FILE",
            help="the probes' own file (JSON); what it holds already is not asked again",
        )  # fmt: skip
        work.add_argument(
            "--retry-errors", action="store_true",
            help="ask again what FILE holds an [ERROR] row of",
        )  # fmt: skip
        work.add_argument("--json", action="store_true", help="print the summary as JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Probe; return 0, or 1 when something failed."""
        from napari_ctvqa.runners.probing import run_probes  # and scipy's statistics with it

        probes = probes_named(args.probe)
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
            steps = run_probes(
                opened,
                answerer,
                answer_format,
                args.out,
                rows=rows.tolist(),
                probes=probes,
                kit=kit,
                retry_errors=args.retry_errors,
                assume_none=args.absent_means_none,
            )
            last = _follow(steps)
            if last.done > last.failed:
                remember(args, answerer)
        _report(last, args.out, as_json=args.json)
        return 1 if last.failed else unread


class _List(argparse.Action):
    """Says what there is and ends, as ``--version`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for name, probe in table().probes.items():
            write_out(f"{name}\n    {probe.does}\n    Needs {probe.needs}.\n")
        parser.exit()


def _file_path(text: str) -> Path:
    """Return where results go; an argparse type, so that no name at all is a usage error."""
    if not Path(text).name:
        raise argparse.ArgumentTypeError("the name of a file was expected")
    return Path(text)


def _follow(steps: Generator[ProbeProgress, None, None]) -> ProbeProgress:
    last: ProbeProgress | None = None
    try:
        with closing(steps), ProgressLine() as line:
            for last in steps:
                if last.message:
                    warn([last.message])
                line.show(last)
    except GaveUpError as error:
        hint = f"{error.hint} Go on with the same command and --retry-errors."
        raise GaveUpError(error.message, hint=hint) from None
    assert last is not None  # the first step comes before anything is asked
    return last


def _report(last: ProbeProgress, out: Path, *, as_json: bool) -> None:
    if as_json:
        from napari_ctvqa.runners.probing import probe_json

        data = json.loads(probe_json(last.found, last.behaviour))
        told = {"out": str(out), "n_processed": last.done, "failed": last.failed, **data}
        sys.stdout.write(json.dumps(told) + "\n")
        return
    for summary in last.found:
        write_out("\n".join(summary_lines(summary)) + "\n")
    for sentence in last.behaviour:
        write_out(f"{sentence}\n")
    failed = f", {last.failed} failed (--retry-errors asks them again)" if last.failed else ""
    write_out(f"{last.done} of {last.total} in {out}{failed}\n")


def summary_lines(summary: ProbeSummary) -> list[str]:
    """Return a probe's summary for a terminal."""
    lines = [f"{summary.title} ({summary.probe}), {summary.asked} asked"]
    lines += [f"  {sentence}" for sentence in summary.sentences]
    for reason, count in sorted(summary.not_made.items(), key=lambda item: -item[1])[:5]:
        lines.append(f"  not made for {count}: {reason}")
    if summary.not_judged:
        lines.append(f"  not judged: {summary.not_judged}")
    if summary.unread:
        lines.append(f"  no answer read: {summary.unread}")
    if summary.failed:
        lines.append(f"  failed: {summary.failed}")
    return lines


COMMAND = ProbeCommand()
