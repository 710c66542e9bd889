"""What the window has done off its thread: opening, scoring, chains, answers; as generators.

Nothing here knows of threads or windows: a Job runs these, a test lists them.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.checks import Validation, worst_first
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Status, Tokens
from napari_ctvqa.core.kits import LIVE
from napari_ctvqa.core.live import LiveRun
from napari_ctvqa.core.records import AnswerFormat, Prediction, Question, Run, Score, Turn
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain, wanted_structures
from napari_ctvqa.evidence.compare import compare_chains, judged
from napari_ctvqa.io.json_files import is_file
from napari_ctvqa.io.result_journal import partial_of
from napari_ctvqa.io.seen_writing import SeenAnswer
from napari_ctvqa.runners.batch import batch_description, run_batch
from napari_ctvqa.runners.kept import keep_answer, keep_stopped, result_path, unfinished
from napari_ctvqa.runners.opening import Opened, open_path
from napari_ctvqa.runners.segmenter import add_segmented

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.chains import ChainComparison
    from napari_ctvqa.core.checks import Checked, ReferenceCheck
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.servers import ServerCount
    from napari_ctvqa.runners.batch import Elsewhere
    from napari_ctvqa.runners.batch_progress import BatchProgress
    from napari_ctvqa.runners.validate import ValidationProgress

logger = logging.getLogger(__name__)

WORDS_EVERY_S = 1 / 30
"""How often the words of an answer are shown at most."""
GOES_ON = "Goes on with a run that was not finished; what failed in it is asked again."
_SWITCH_S = 0.0005
REPORT_EVERY_S = 0.2
"""How often a running batch shows what it has: the answers themselves are on disk at once."""
_MANY = 100_000
"""Answers after which that is done half as often: the window copies what it holds of them."""


@dataclass(frozen=True)
class OpenRequest:
    """What to open, and what to show first."""

    path: Path
    benchmark: str | None = None
    roots: tuple[Path, ...] = ()
    results: tuple[Path, ...] = ()
    question_id: str | None = None
    where: str = ""
    made_by: Callable[[], Path] | None = None
    """Makes what is opened, where it has to be made first; returns its path."""


@dataclass(frozen=True)
class ScoredRun:
    """A run and its scores by question id."""

    run: Run
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Chains:
    """The chains of one question; no reference chain without a case."""

    reference: EvidenceChain | None
    by_model: Mapping[str, EvidenceChain]
    comparisons: Mapping[str, ChainComparison]
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    """What the models' chains were made of."""


@dataclass(frozen=True)
class LiveAnswer:
    """What an answerer has done so far for one question."""

    model: str
    question: Question
    turns: tuple[Turn, ...]
    prediction: Prediction | None = None
    score: Score | None = None
    path: str = ""
    live: LiveRun | None = None
    """What a model is doing; None for an agent that has no words of its own."""


@dataclass(frozen=True)
class Begun:
    """Who answers, and the file that a batch writes; comes before the first answer."""

    answerer: Answerer
    path: str = ""
    message: str = ""


@dataclass(frozen=True)
class BatchReport:
    """Answers gathered since the last report, so that a fast run does not flood the window."""

    predictions: Mapping[str, Prediction]
    scores: Mapping[str, Score]
    done: int
    failed: int
    seconds_left: float | None
    per_second: float = 0.0
    accuracy: float | None = None
    """Mean official credit of the ``scored`` answers so far, 0 to 1."""
    scored: int = 0
    servers: tuple[ServerCount, ...] = ()


def opened_steps(request: OpenRequest, assumed: AnswerFormat) -> Generator[object, None, None]:
    """Yield what PATH is, then every result file read and scored, or the error that it gave.

    ``assumed`` is the format of files that do not say theirs.
    """
    path = request.path if request.made_by is None else request.made_by()
    opened = open_path(path, benchmark=request.benchmark, roots=request.roots)
    yield opened
    if opened.questions is not None:
        found = tuple(opened.found_results())
        paths = (*found, *(p for p in request.results if p not in found))
        yield from read_runs(opened, paths, assumed)


def read_runs(
    opened: Opened, paths: tuple[Path, ...], assumed: AnswerFormat
) -> Generator[ScoredRun | CtvqaError, None, None]:
    """Yield each result file scored; a bad one yields its error and never stops the rest."""
    assert opened.benchmark is not None
    assert opened.questions is not None
    for path in paths:
        try:
            run = opened.read_results(path)
            scores = opened.benchmark.scores(opened.questions, run, run.answer_format or assumed)
        except CtvqaError as error:
            yield error
        else:
            yield ScoredRun(run, scores)


def rescored(
    opened: Opened, runs: tuple[Run, ...], answer_format: AnswerFormat
) -> Generator[ScoredRun, None, None]:
    """Yield runs scored again under another format."""
    assert opened.benchmark is not None
    assert opened.questions is not None
    for run in runs:
        yield ScoredRun(run, opened.benchmark.scores(opened.questions, run, answer_format))


def has_wanted(question: Question, case: Case, answerer: Answerer | None = None) -> bool:
    """Return whether every mask that the question needs has been read, and sides are checked.

    An agent may ask its tools for any structure: it needs all masks.
    """
    if case.complete:
        return True
    if getattr(answerer, "all_masks", False):
        return False
    return case.sides_checked and all(name in case.masks for name in wanted_structures(question))


def chains_of(
    question: Question,
    case: Case | None,
    predictions: Mapping[str, Prediction],
    before: Chains | None = None,
) -> Generator[Chains, None, None]:
    """Yield the reference chain, the models' chains and how they compare, once.

    ``before`` are chains of the same question and case: of them the reference's is kept, and that
    of every model whose prediction is the same object still.
    """
    if case is None:  # what the models did can be read all the same
        by_model = {m: _model_chain(m, question, p, None) for m, p in predictions.items()}
        yield Chains(None, by_model, {}, predictions)
        return
    reference = None if before is None else before.reference
    if reference is None:
        reference = reference_chain(question, case)
    by_model, comparisons = {}, {}
    for model, prediction in predictions.items():
        if before is not None and before.predictions.get(model) is prediction:
            by_model[model], comparisons[model] = before.by_model[model], before.comparisons[model]
            continue
        chain = _model_chain(model, question, prediction, case)
        comparisons[model] = compare_chains(reference, chain, case)
        by_model[model] = judged(chain, comparisons[model])
    yield Chains(reference, by_model, comparisons, predictions)


def _model_chain(
    model: str, question: Question, prediction: Prediction, case: Case | None
) -> EvidenceChain:
    """Return a model's chain; a trace that cannot be read costs that model its chain only."""
    try:
        return prediction_chain(question, prediction, case)
    except Exception as error:
        logger.exception("the trace of %s on %s cannot be read", model, question.id)
        reason = f"the trace cannot be read: {type(error).__name__}"
        step = EvidenceStep(StepKind.CONCLUDE, "", error=reason)
        return EvidenceChain(question.id, model, (step,), reason=reason)


def answered(
    answerer: Answerer,
    question: Question,
    case: Case,
    answer_format: AnswerFormat,
    opened: Opened,
    began: str,
) -> Generator[LiveAnswer, None, None]:
    """Yield what an answerer does, last with its answer: scored and on disk.

    A stopped answer (``reason`` of its last turn is ``cancelled``) comes without a prediction; what
    the model saw and said until then is kept all the same.

    Raises
    ------
    CtvqaError
        When the answer could not be kept; it was yielded before.
    """
    turns: tuple[Turn, ...] = ()
    live = LiveRun(
        question.id,
        answerer.name,
        str(getattr(answerer, "title", "")),
        str(getattr(answerer, "host", "")),
        recorded=bool(getattr(answerer, "recorded", False)),
        began_s=time.monotonic(),
    )
    seen = SeenAnswer(question.id, answerer.name)
    pace = _Pace(WORDS_EVERY_S)
    over = live.recorded  # a replay is no new answer
    try:
        for event in answerer.answer(question, case, answer_format):
            seen.take(event)
            if isinstance(event, Turn):
                turns = (*turns, event)
            elif isinstance(event, Prediction):
                assert opened.benchmark is not None
                live, over = replace(live, ended_s=time.monotonic()), True
                score = opened.benchmark.score(question, event, answer_format)
                path, lost = "", None
                if not live.recorded:
                    kept = (opened, answerer, answer_format, question, event)
                    try:
                        path = str(keep_answer(*kept, began=began, seen=seen))
                    except CtvqaError as error:
                        lost = error
                yield LiveAnswer(answerer.name, question, turns, event, score, path, live)
                if lost is not None:
                    raise _not_kept(lost) from lost
                continue
            else:
                live = live.after(event)
            if isinstance(event, Tokens | Status) and not pace.allows():
                continue
            yield LiveAnswer(answerer.name, question, turns, live=live)
    finally:  # also where nobody waits any more, since something else was opened
        if not over:
            keep_stopped(opened, answerer, answer_format, began=began, seen=seen)
    if live.running:
        live = replace(live, ended_s=time.monotonic())
        yield LiveAnswer(answerer.name, question, turns, live=live)


def _not_kept(error: CtvqaError) -> CtvqaError:
    return CtvqaError(
        f"This answer is shown, but it could not be kept: {error.message}",
        hint="Make room or give the folder back, and ask again.",
    )


class _Pace:
    """Lets a few events pass at once and many only so often.

    Without the few, words that come right after another event would wait for the next ones.
    """

    FEW = 5.0

    def __init__(self, every_s: float) -> None:
        self._every_s, self._left, self._asked = every_s, self.FEW, time.monotonic()

    def allows(self) -> bool:
        now = time.monotonic()
        self._left = min(self.FEW, self._left + (now - self._asked) / self._every_s)
        self._asked = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def live_answers(
    make: Callable[[], Answerer],
    question: Question,
    case: Case,
    answer_format: AnswerFormat,
    opened: Opened,
    began: str,
    *,
    segmented: bool = False,
) -> Generator[Begun | LiveAnswer, None, None]:
    """Yield who answers, then what ``answered`` does; making it may ask a server.

    With ``segmented`` the tools of the live kit work on a program's masks where there is no file.

    Raises
    ------
    CtvqaError
        What ``make`` raises.
    """
    answerer = make()
    yield Begun(answerer)
    if segmented and is_live(answerer):
        case = add_segmented(case)
    yield from answered(answerer, question, case, answer_format, opened, began)


@contextmanager
def here(answerer: Answerer) -> Iterator[None]:
    """Give nothing that answers in an answerer's place."""
    del answerer
    yield None


def batch_answers(
    make: Callable[[], Answerer],
    opened: Opened,
    answer_format: AnswerFormat,
    rows: Sequence[int],
    *,
    assume_none: bool,
    segmented: bool = False,
    elsewhere: Callable[[Answerer], AbstractContextManager[Elsewhere | None]] = here,
    cluster: str = "",
) -> Generator[Begun | BatchReport, None, None]:
    """Yield who answers into which file, then a batch's answers as ``scored_batch`` does.

    A run of the same kind that was not finished goes on in its file, and what failed in it is
    asked again.

    ``segmented``: see ``live_answers``. ``elsewhere`` gives what answers in the answerer's place
    (``cluster_answers.answers_on``); ``cluster`` is its name for people, and who answers is then
    told once more when it is there.

    Raises
    ------
    CtvqaError
        What ``make`` raises, and when the file cannot be written.
    """
    answerer = make()
    segmented = segmented and is_live(answerer)
    config = batch_description(
        opened, answerer, answer_format, assume_none=assume_none, segmented=segmented
    )
    begun = unfinished(opened, answerer.name, answer_format, config)
    out = begun or result_path(opened, answerer.name, answer_format)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CtvqaError(
            f"{out.parent} cannot be made: {error.strerror or error}.",
            hint="Answers are kept there; make room or give the folder back.",
        ) from error
    goes_on = "" if begun is None else GOES_ON
    waits = f"Waiting for the cluster {cluster} …" if cluster else ""
    yield Begun(answerer, str(out), f"{goes_on} {waits}".strip())
    if begun is not None:
        yield from _answered_before(opened, begun, answer_format)
    with elsewhere(answerer) as others, _window_first():
        if others is not None:  # whoever has stopped it while it waited is heard here
            yield Begun(answerer, str(out), f"{goes_on} On the cluster {cluster}.".strip())
        items = run_batch(
            opened,
            answerer,
            answer_format,
            out,
            rows=rows,
            assume_none=assume_none,
            segmented=segmented,
            retry_errors=begun is not None,
            elsewhere=others,
        )
        yield from scored_batch(items, opened, answer_format)


@contextmanager
def _window_first() -> Iterator[None]:
    """Let the window's thread have the interpreter sooner while many threads answer.

    A thread that wants it waits for Python's switch interval each time, 5 ms unless set, and Qt
    gives it away at nearly every call. The garbage collector stops all threads while it looks
    through everything: a quarter of a second in an open window, so that what is there by now is
    left out until the run has ended.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_S))
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def _answered_before(
    opened: Opened, out: Path, answer_format: AnswerFormat
) -> Iterator[BatchReport]:
    """Yield what a run that was not finished has answered; what cannot be read is not shown.

    Nothing is lost then: the run itself goes by its own journal.
    """
    assert opened.benchmark is not None
    assert opened.questions is not None
    for path in (out, partial_of(out)):
        if not is_file(path):
            continue
        try:
            run = opened.read_results(path)
        except CtvqaError as error:
            logger.warning("what was answered before is not shown: %s", error)
            continue
        scores = opened.benchmark.scores(opened.questions, run, answer_format)
        predictions = dict(run.predictions)  # built here, not in the window's thread
        yield BatchReport(predictions, scores, len(predictions), 0, None)


def is_live(answerer: Answerer) -> bool:
    """Return whether an answerer's tools compute now."""
    return next(iter(getattr(answerer, "kits", ())), "") == LIVE


def scored_batch(
    items: Generator[BatchProgress, None, None], opened: Opened, answer_format: AnswerFormat
) -> Generator[BatchReport, None, None]:
    """Yield a batch's answers scored, gathered for ``REPORT_EVERY_S`` at a time."""
    assert opened.benchmark is not None
    assert opened.questions is not None
    predictions: dict[str, Prediction] = {}
    scores: dict[str, Score] = {}
    reported = 0.0
    last: BatchProgress | None = None
    try:
        for last in items:
            if last.prediction is not None:
                predictions[last.prediction.question_id] = last.prediction
                if last.score is not None:
                    scores[last.prediction.question_id] = last.score
            if time.monotonic() - reported >= REPORT_EVERY_S * (1 + last.done / _MANY):
                yield _batch_report(predictions, scores, last)
                predictions, scores, reported = {}, {}, time.monotonic()
    except CtvqaError:
        if last is not None:  # what was answered until then is shown all the same
            yield _batch_report(predictions, scores, last)
        raise
    else:
        if last is not None:
            yield _batch_report(predictions, scores, last)
    finally:
        items.close()  # closing it writes the file


def _batch_report(
    predictions: dict[str, Prediction], scores: dict[str, Score], progress: BatchProgress
) -> BatchReport:
    return BatchReport(
        predictions,
        scores,
        progress.done,
        progress.failed,
        progress.seconds_left,
        progress.per_second,
        progress.accuracy,
        progress.scored,
        progress.servers,
    )


def validation_reports(
    steps: Generator[ValidationProgress, None, None], path: str
) -> Generator[Validation, None, None]:
    """Yield where a validation is, its checks sorted, gathered for ``REPORT_EVERY_S`` at a time.

    Sorting many checks takes longer, so that they are reported more rarely.
    """
    checks: dict[int, ReferenceCheck] = {}
    shown: tuple[Checked, ...] = ()
    messages: list[str] = []
    next_report = 0.0
    with closing(steps):
        for step in steps:
            checks.update(step.checks)
            messages += [step.message] if step.message else []
            began = time.monotonic()
            if began >= next_report or step.complete:
                shown = shown if len(shown) == len(checks) else worst_first(checks.items())
                yield Validation(
                    not step.complete,
                    step.done,
                    step.total,
                    step.failed,
                    step.seconds_left,
                    shown,
                    path,
                    "; ".join(messages),
                )
                took = time.monotonic() - began
                next_report = time.monotonic() + max(REPORT_EVERY_S, 20 * took)
