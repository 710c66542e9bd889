"""Probes for the window: who answers into which file, then what was found, a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.probe_results import Verdict, behaviour, summaries
from napari_ctvqa.core.probing import Probing
from napari_ctvqa.runners.desk import REPORT_EVERY_S, Begun
from napari_ctvqa.runners.kept import results_folder
from napari_ctvqa.runners.probing import read_probe_answers, run_probes

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.probe_results import ProbeAnswer
    from napari_ctvqa.core.records import AnswerFormat
    from napari_ctvqa.runners.opening import Opened


def probes_path(opened: Opened, model: str, answer_format: AnswerFormat, began: str) -> Path:
    """Return the file of a window's probes of one model and format."""
    return results_folder(opened) / f"{model}_{answer_format.value}_probes_{began}.json"


def kept_probing(path: Path) -> Generator[Probing, None, None]:
    """Yield what the probes of a file found, once.

    Raises
    ------
    CtvqaError
        When it is not such a file.
    """
    answers: dict[str, dict[str, ProbeAnswer]] = {}
    every = read_probe_answers(path)
    for answer in every:
        answers.setdefault(answer.question_id, {})[answer.probe] = answer
    found = summaries(every)
    failed = sum(answer.verdict is Verdict.FAILED for answer in every)
    yield Probing(
        False, "", len(every), len(every), failed, None, "Read from a file.", str(path), answers,
        found, behaviour(found),
    )  # fmt: skip


def probe_reports(
    make: Callable[[], Answerer],
    opened: Opened,
    answer_format: AnswerFormat,
    rows: Sequence[int],
    probes: Sequence[str],
    *,
    began: str,
    case: Case | None = None,
    assume_none: bool = False,
    before: Probing | None = None,
) -> Generator[Begun | Probing, None, None]:
    """Yield who answers, then how far the probes are and what they found.

    ``case`` is the one that is open, read whole. ``before`` is what the same file held already in
    this window. What comes is gathered, and drawn conclusions from more rarely the more there is.

    Raises
    ------
    CtvqaError
        What ``make`` raises, and when the file cannot be written.
    """
    answerer = make()
    out = probes_path(opened, answerer.name, answer_format, began)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CtvqaError(
            f"{out.parent} cannot be made: {error.strerror or error}.",
            hint="Answers are kept there; make room or give the folder back.",
        ) from error
    yield Begun(answerer, str(out))
    known = before.answers if before is not None and before.path == str(out) else None
    answers: dict[str, dict[str, ProbeAnswer]] = {q: dict(a) for q, a in (known or {}).items()}
    next_report = 0.0
    steps = run_probes(
        opened,
        answerer,
        answer_format,
        out,
        rows=rows,
        probes=probes,
        case=case,
        assume_none=assume_none,
        retry_errors=True,
    )
    with closing(steps):
        for step in steps:
            if step.answer is not None:
                answers.setdefault(step.answer.question_id, {})[step.answer.probe] = step.answer
            last = step.done == step.total
            began_at = time.monotonic()
            if began_at < next_report and not last:
                continue
            found = summaries(one for by_probe in answers.values() for one in by_probe.values())
            yield Probing(
                not last,
                answerer.name,
                step.done,
                step.total,
                step.failed,
                step.seconds_left,
                step.message,
                str(out),
                {question: dict(by_probe) for question, by_probe in answers.items()},
                found,
                behaviour(found),
            )
            took = time.monotonic() - began_at
            next_report = time.monotonic() + max(REPORT_EVERY_S, 20 * took)
