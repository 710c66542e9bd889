"""Recorded runs: an answer that was given before happens again, with its timing or faster.

Needs no model, no server and no network; what it yields is what happened then, and it is labelled
as recorded wherever it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Event as Flag
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.events import CallReturned, Event, Failed, FailureKind
from napari_ctvqa.core.records import Prediction, Run, Turn
from napari_ctvqa.io.json_files import is_folder
from napari_ctvqa.io.seen_files import ended_well, has_seen, read_events
from napari_ctvqa.runners.kept import results_folder

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import AnswerFormat, Question
    from napari_ctvqa.runners.opening import Opened

AT_ONCE = 0.0
_MOST_FILES = 2000
_MOST_LOOKED_AT = 100


class RecordedAnswerer:
    """Replays the answers of one run.

    Parameters
    ----------
    run
        As read from its result file; ``run.path`` is where what happened lies beside it.
    results
        The result file.
    speed
        1 is the timing of then, 4 four times as fast, 0 without any waiting.
    """

    recorded = True
    host = ""
    kits: tuple[str, ...] = ()

    def __init__(self, run: Run, results: Path, *, speed: float = 1.0) -> None:
        self.run, self.results, self.speed = run, results, speed
        self.name = f"{run.model} (recorded)"
        self.title = f"{run.model}, recorded"
        self.cancelled = Flag()
        """Set from any thread to stop at once; whoever starts a run clears it."""

    def wanted_masks(self, question: Question) -> tuple[str, ...]:
        """Return no structure: nothing is looked at again."""
        del question
        return ()

    def cancel(self) -> None:
        """Stop at once; from any thread."""
        self.cancelled.set()

    def force_stop(self) -> None:
        """Stop at once; there is nothing to end."""
        self.cancelled.set()

    def answer(
        self, question: Question, case: Case, answer_format: AnswerFormat
    ) -> Iterator[Event | Turn | Prediction]:
        """Yield what happened then, and the Prediction that was kept.

        Raises
        ------
        NotFoundError, InputFileError
            When nothing of this question was recorded, or it cannot be read.
        """
        del case, answer_format
        prediction = self._prediction(question)
        events = read_events(self.results, question.id)
        began = time.monotonic()
        for one in events:
            if self._stopped_before(began, one.at_s):
                yield Failed(FailureKind.CANCELLED, "Stopped.")
                return
            yield one.event
            if isinstance(one.event, CallReturned):
                yield Turn(one.event.step, one.event.call, one.event.result)
        yield from (turn for turn in prediction.trace.turns if turn.call is None)
        yield replace(prediction, model=self.name)

    def _prediction(self, question: Question) -> Prediction:
        if question.id not in self.run.predictions:
            raise NotFoundError(
                f"{self.results} holds no answer to question {question.id[:200]}.",
                hint="Choose another recorded run.",
            )
        return self.run.predictions[question.id]

    def _stopped_before(self, began: float, at_s: float) -> bool:
        """Wait until it is time; return whether it was stopped meanwhile."""
        wait_s = began + at_s / self.speed - time.monotonic() if self.speed > 0 else 0.0
        return self.cancelled.wait(wait_s) if wait_s > 0 else self.cancelled.is_set()


def recorded_answers(
    opened: Opened, question_id: str, results: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Return the result files that have an answer to this question recorded, newest first.

    What failed or was stopped is none: it is what a recording is played instead of. Looks into
    those given (runs that are shown) and where the window keeps its own runs.
    """
    folder = results_folder(opened)
    kept = sorted(folder.glob("*.json"))[:_MOST_FILES] if is_folder(folder) else []
    files = {path: None for path in (*results, *kept) if has_seen(path, question_id)}
    newest = sorted(files, key=_changed, reverse=True)[:_MOST_LOOKED_AT]
    return tuple(path for path in newest if ended_well(path, question_id))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def recorded_answerer(opened: Opened, results: Path, *, speed: float = 1.0) -> RecordedAnswerer:
    """Return what replays a result file's answers. Raises CtvqaError when it cannot be read."""
    return RecordedAnswerer(opened.read_results(results), results, speed=speed)
