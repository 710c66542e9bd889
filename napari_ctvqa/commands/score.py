"""``score PATH RESULTS``: the official metrics, and where they read an answer wrongly."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line, speaks_utf8, write_out
from napari_ctvqa.commands._questions import open_questions, report_problems, warn
from napari_ctvqa.commands._scoring import add_results_arguments, read_run

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.core.records import AnswerFormat, Run

_SHOWN_IDS = 10
_ROUNDING = 5e-5 + 1e-9


class ScoreCommand:
    """Score a result file as the benchmark's official scorer does, and as a careful human reads."""

    name = "score"
    help = "score a result file: official metrics, and answers that are read differently"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        add_results_arguments(parser)
        parser.add_argument("--json", action="store_true", help="write JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Write the metrics."""
        opened, questions = open_questions(args)
        benchmark = opened.benchmark
        assert benchmark is not None
        run, answer_format = read_run(args, opened, questions)
        metrics = benchmark.metrics(questions, run, answer_format, judges=args.judges)
        warn((*run.notes, *_unlike_recorded(run, metrics, answer_format)))
        if args.json:
            text = json.dumps(plain_json(metrics), ensure_ascii=not speaks_utf8(), allow_nan=False)
            write_out(text + "\n")
        else:
            sys.stdout.write(f"{benchmark.title}, {run.model}, {len(run.predictions)} answers\n")
            for line in text_lines(metrics):
                sys.stdout.write(line + "\n")
        return report_problems(questions)


def _unlike_recorded(
    run: Run, metrics: Mapping[str, Any], answer_format: AnswerFormat
) -> Iterator[str]:
    """Yield a sentence where the file's own metrics say something else than what we computed."""
    if run.answer_format is not None and run.answer_format is not answer_format:
        yield (
            f"the file says that it was made as {run.answer_format.value}; it is scored as "
            f"{answer_format.value}, as asked."
        )
    recorded, ours = _accuracy(run.recorded_metrics), _accuracy(metrics)
    if recorded is not None and ours is not None and abs(recorded - ours) > _ROUNDING:
        yield (
            f"the file's own metrics say accuracy {recorded:.4f}; scored as {answer_format.value} "
            f"it is {ours:.4f}. Was it made in the other format, or for other questions?"
        )


def _accuracy(metrics: Mapping[str, Any]) -> float | None:
    overall = metrics.get("overall")
    value = overall.get("accuracy") if isinstance(overall, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def plain_json(value: Any) -> Any:
    """Return data that JSON can hold: mappings as dicts, NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def text_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the metrics as indented lines; long lists are cut, saying how long they are."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            if all(not isinstance(inner, Mapping) for inner in item.values()):
                inner = "  ".join(f"{name} {_shown(entry)}" for name, entry in item.items())
                yield f"{indent}{one_line(str(key))}: {inner or '-'}"
            else:
                yield f"{indent}{one_line(str(key))}:"
                yield from text_lines(item, indent + "  ")
        elif isinstance(item, list | tuple):
            names = ", ".join(one_line(str(entry)) for entry in item[:_SHOWN_IDS])
            more = f", and {len(item) - _SHOWN_IDS} more" if len(item) > _SHOWN_IDS else ""
            yield f"{indent}{key} ({len(item)}): {names}{more}"
        else:
            yield f"{indent}{key}: {_shown(item)}"


def _shown(value: Any) -> str:
    if value is None:
        return "not computed"
    if isinstance(value, float):
        return f"{value:.4f}"
    return one_line(str(value))


COMMAND = ScoreCommand()
