"""Answer many questions: case by case, resumable, one bad case never stops the rest."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa import __version__
from napari_ctvqa.core.assumed import absent_means_none, assumed_in
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Failed, FailureKind
from napari_ctvqa.core.failures import failed_text
from napari_ctvqa.core.kits import LIVE
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.core.records import AnswerFormat, Prediction, Run, Trace, Turn
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.result_journal import ResultJournal
from napari_ctvqa.io.seen_writing import SeenFiles
from napari_ctvqa.runners.batch_progress import BatchProgress, Counting
from napari_ctvqa.runners.segmenter import add_segmented
from napari_ctvqa.runners.together import Together

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Question, Score
    from napari_ctvqa.io.seen_writing import SeenAnswer
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.runners.together import Work

logger = logging.getLogger(__name__)

OWN_KEYS = (
    *("server", "whole_text", "thinking", "partial_text", "failure", "usage", "confidence"),
)
"""What a row of a model's answer tells beside the benchmark's keys (``runners.requests``)."""

_HOPELESS = frozenset(
    {
        *(FailureKind.UNREACHABLE, FailureKind.WRONG_SCHEME, FailureKind.NOT_A_SERVER),
        *(FailureKind.AUTH, FailureKind.NOT_CONFIRMED, FailureKind.NO_SUCH_MODEL),
        *(FailureKind.BAD_MODEL, FailureKind.MISSING_LIBRARY, FailureKind.LOADING),
        *(FailureKind.PICTURES_DROPPED, FailureKind.CRASHED, FailureKind.KILLED),
    }
)
"""Failures that the next question will meet, too."""
_EARLIER_AT_ONCE = 50
_GIVEN_UP_AFTER = 3
"""So many of them in a row end the run, which goes on when their cause is gone."""

_CASE_ERRORS = (CtvqaError, OSError, ValueError, MemoryError)
"""What reading a damaged case may raise; anything else is a fault of ours and ends the run."""


class GaveUpError(CtvqaError):
    """A run that ended because question after question failed for a reason that stays."""

    code = "gave_up"


def run_batch(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    out: Path,
    *,
    rows: Iterable[int],
    retry_errors: bool = False,
    kit: str = "",
    assume_none: bool = False,
    segmented: bool = False,
    pictures: bool = True,
    elsewhere: Elsewhere | None = None,
) -> Generator[BatchProgress, None, None]:
    """Answer the questions of ``rows`` into ``out``, yielding after each answer.

    While a model writes it also yields its last words, five times a second at most. What a model
    saw and said is kept beside ``out`` (``io.seen_files``), pixels with ``pictures``.

    ``kit`` is one of the answerer's kits, the first unless given. What ``out`` already answers is
    not asked again; its ``[ERROR]`` rows are with ``retry_errors``. ``assume_none`` takes
    lesions without a mask file as not there (``core.assumed``); with ``segmented`` the tools of
    the live kit work on masks that a program made where there is none (``runners.segmenter``);
    ``out`` says so. Closing the
    generator stops cleanly, and so does an answerer that was cancelled: what was answered is in
    ``out``, the rest is asked when the run goes on.

    An answerer with a ``width`` above 1 is asked so many questions at once; with ``elsewhere``
    others answer in its place (``runners.cluster_answers``), and it says how the run is made.

    Raises
    ------
    CtvqaError
        When ``out`` cannot be used, or PATH holds no questions.
    """
    questions = opened.questions
    if questions is None or opened.benchmark is None:
        raise CtvqaError(
            f"{opened.path} holds no questions.", hint="Give a benchmark folder or question file."
        )
    config = batch_description(
        opened, answerer, answer_format, kit=kit, assume_none=assume_none, segmented=segmented
    )
    wanted = _rows_by_id(questions, rows)
    asking = Asking(
        opened,
        answerer,
        answer_format,
        assume_none,
        segmented,
        SeenFiles(out, pictures=pictures),
    )
    with ResultJournal(out, config) as journal:
        counting = _counting(asking, journal, wanted, retry_errors=retry_errors)
        try:
            yield from _answer_all(
                asking, journal, wanted, counting, elsewhere, retry_errors=retry_errors
            )
        except Stopped:
            _write_what_there_is(journal)
            return
        except BaseException:
            _write_what_there_is(journal)
            raise
        metrics = _metrics(opened, questions, journal, answerer.name, answer_format, out)
        order = questions.frame["id"].tolist()
        journal.finish(metrics, order)
        _score_earlier(asking, journal, counting, len(counting.earlier))
        yield counting.now(metrics=metrics)


def batch_description(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    *,
    kit: str = "",
    assume_none: bool = False,
    segmented: bool = False,
) -> dict[str, Any]:
    """Return what the result file of a batch says of how it was made.

    Raises
    ------
    CtvqaError
        For masks of a program without the kit that uses them.
    """
    assert opened.benchmark is not None
    config = run_description(answerer, answer_format, kit, opened.benchmark.name)
    if assume_none:
        config["absent_means_none"] = True
    if segmented:
        if config["kit"] != LIVE:
            raise CtvqaError(
                f"Masks that a program made are for the kit {LIVE}, not for "
                f"{config['kit'] or 'a model without tools'}.",
                hint=f"Give --kit {LIVE}, or leave --segmented away.",
            )
        config["segmented_masks"] = True
    return config


def run_description(
    answerer: Answerer, answer_format: AnswerFormat, kit: str, benchmark: str
) -> dict[str, Any]:
    """Return what a result file says of the run that made it."""
    description = {
        "model": answerer.name,
        "answer_format": answer_format.value,
        "kit": kit or next(iter(getattr(answerer, "kits", ())), ""),
        "benchmark": benchmark,
        "software": software_of(answerer),
    }
    config = getattr(answerer, "config", None)
    return description if config is None else {**description, "config": plain(config)}


def software_of(answerer: Answerer) -> dict[str, str]:
    """Return versions: ours, and those of what runs the model as soon as it has told them."""
    return {"napari-ctvqa": __version__, **getattr(answerer, "software", {})}


def _write_what_there_is(journal: ResultJournal) -> None:
    """Write FILE on the way out; should that fail, the journal still has every answer."""
    try:
        journal.write()
    except CtvqaError:
        logger.warning("%s is not up to date; %s has all answers", journal.path, journal.partial)


def _rows_by_id(questions: QuestionSet, rows: Iterable[int]) -> dict[str, int]:
    """Return the rows to answer by question id; the first row of an id that occurs twice."""
    ids = questions.frame["id"]
    wanted: dict[str, int] = {}
    for row in rows:
        wanted.setdefault(str(ids.iat[int(row)]), int(row))
    return wanted


@dataclass(frozen=True)
class Asking:
    """What is the same for every question of a batch."""

    opened: Opened
    answerer: Answerer
    answer_format: AnswerFormat
    assume_none: bool
    segmented: bool
    seen: SeenFiles

    def score(self, prediction: Prediction) -> Score:
        """Score an answer as its benchmark does."""
        assert self.opened.benchmark is not None
        assert self.opened.questions is not None
        question = self.opened.questions.by_id(prediction.question_id)
        return self.opened.benchmark.score(question, prediction, self.answer_format)


@dataclass(frozen=True)
class Written:
    """An answer with its row of the result file, and the versions of what made it."""

    prediction: Prediction
    row: Mapping[str, Any]
    software: Mapping[str, str]


Elsewhere = Callable[
    [Asking, Sequence[int]], Generator["tuple[Question, object] | None", None, None]
]
"""Answers the questions of rows: yields each with a Written or a Prediction, None now and then."""


def asked_of(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    rows: Sequence[int],
    *,
    assume_none: bool,
    segmented: bool,
    seen: SeenFiles,
) -> Iterator[tuple[Question, object]]:
    """Yield what happens and each Prediction of some questions, for whoever writes the file.

    Raises
    ------
    GaveUpError
        After three in a row that failed for a reason that stays.
    """
    asking = Asking(opened, answerer, answer_format, assume_none, segmented, seen)
    counting = Counting(len(rows), 0, 0)
    for question, item in _one_by_one(asking, rows):
        yield question, item
        if isinstance(item, Prediction):
            _give_up_on(counting, item)


def _counting(
    asking: Asking, journal: ResultJournal, wanted: Mapping[str, int], *, retry_errors: bool
) -> Counting:
    """Return the counts before the first question."""
    failed = journal.failed
    kept = [key for key in wanted if key in journal and not (retry_errors and key in failed)]
    return Counting(len(wanted), len(kept), sum(key in failed for key in kept), earlier=kept)


def _score_earlier(asking: Asking, journal: ResultJournal, counting: Counting, most: int) -> None:
    """Score some of what an earlier run answered: all at once would keep the first one waiting."""
    texts, name = journal.raw_texts, asking.answerer.name
    for _ in range(min(most, len(counting.earlier))):
        key = counting.earlier.pop()
        counting.add(asking.score(Prediction(key, name, texts[key])))


def _answer_all(
    asking: Asking,
    journal: ResultJournal,
    wanted: Mapping[str, int],
    counting: Counting,
    elsewhere: Elsewhere | None,
    *,
    retry_errors: bool,
) -> Iterator[BatchProgress]:
    failed = journal.failed if retry_errors else frozenset()
    pending = [row for key, row in wanted.items() if key not in journal or key in failed]
    yield counting.now(message="; ".join(journal.notes))
    if elsewhere is not None and pending:
        # What servers did is counted where they are asked: here it would be none.
        yield from _kept(asking, journal, counting, elsewhere(asking, pending), counts=False)
        return
    width = max(1, int(getattr(asking.answerer, "width", 1)))
    if width == 1 or not pending:
        yield from _kept(asking, journal, counting, _one_by_one(asking, pending))
        return
    together = Together(width, partial(cancel, asking.answerer))
    try:
        yield from _kept(asking, journal, counting, together.run(_works(asking, pending)))
    finally:
        for question, item in together.rest():  # what was answered while it was being stopped
            if isinstance(item, Prediction):
                journal.add(result_row(question, item))
        uncancel(asking.answerer)


def _kept(
    asking: Asking,
    journal: ResultJournal,
    counting: Counting,
    answers: Generator[tuple[Question, object], None, None]
    | Generator[tuple[Any, object] | None, None, None],
    *,
    counts: bool = True,
) -> Iterator[BatchProgress]:
    """Put each answer on disk, then tell of it; with ``counts`` of what each server did, too."""
    with closing(answers):
        for said in answers:
            _score_earlier(asking, journal, counting, _EARLIER_AT_ONCE)
            if said is None:
                yield counting.now()
                continue
            question, item = said
            if isinstance(item, Prediction):
                item = Written(item, result_row(question, item), software_of(asking.answerer))
            if not isinstance(item, Written):
                if counting.hears(item, question.id):
                    yield counting.now()
                continue
            journal.run["software"] = item.software
            journal.add(item.row)
            journal.write_if_due()
            score = asking.score(item.prediction)
            if counts:
                counting.servers = tuple(getattr(asking.answerer, "servers", ()))
            counting.count(item.prediction, score)
            yield counting.now(item.prediction, score=score)
            _give_up_on(counting, item.prediction)


def cancel(answerer: Answerer) -> None:
    """Stop an answerer that can be stopped; from any thread."""
    stop = getattr(answerer, "cancel", None)
    if stop is not None:
        stop()


def uncancel(answerer: Answerer) -> None:
    """Let an answerer be asked again that was stopped because nobody listened any more."""
    flag = getattr(answerer, "cancelled", None)
    if flag is not None:
        flag.clear()


def _give_up_on(counting: Counting, prediction: Prediction) -> None:
    """Raise after the third answer in a row that failed for a reason that stays."""
    failure = prediction.record.get("failure") or {}
    counting.hopeless = counting.hopeless + 1 if failure.get("kind") in _HOPELESS else 0
    if counting.hopeless == _GIVEN_UP_AFTER:
        turns = prediction.trace.turns
        why = turns[-1].error if turns else prediction.raw_text
        raise GaveUpError(
            f"The run stopped, as {_GIVEN_UP_AFTER} questions in a row failed alike: {why}",
            hint=f"{failure.get('hint', '')} What was answered until then is kept.",
        )


def _one_by_one(
    asking: Asking, pending: Sequence[int]
) -> Generator[tuple[Question, object], None, None]:
    assert asking.opened.questions is not None
    for case_id, rows in asking.opened.questions.by_case(pending):
        for work in _case_works(asking, case_id, rows):
            yield from work()


def _works(asking: Asking, pending: Sequence[int]) -> Iterator[Work]:
    assert asking.opened.questions is not None
    for case_id, rows in asking.opened.questions.by_case(pending):
        yield from _case_works(asking, case_id, rows)


def _case_works(asking: Asking, case_id: str, rows: Sequence[int]) -> Iterator[Work]:
    """Yield what answers each question of a case; a case that cannot be read fails its questions.

    A work yields what happens, and last the prediction, its pictures on disk before it.
    """
    assert asking.opened.questions is not None
    asked = [asking.opened.questions[row] for row in rows]
    wanted = _wanted(asking.answerer, asked)
    try:
        case = read_case(asking.opened.case_files(case_id), wanted=wanted)
        case = add_segmented(case, wanted) if asking.segmented else case
    except _CASE_ERRORS as error:
        problem = _sentence(error)
        for question in asked:
            yield partial(_failing, question, asking.answerer.name, problem)
        return
    case = absent_means_none(case) if asking.assume_none else case
    for question in asked:
        yield partial(_answer, asking, question, case)


def _failing(
    question: Question, model: str, problem: str
) -> Generator[tuple[Question, object], None, None]:
    yield question, failed_prediction(question, model, problem)


def failed_prediction(
    question: Question, model: str, problem: str, kind: FailureKind | None = None
) -> Prediction:
    """Return the ``[ERROR]`` prediction of a question that could not be asked."""
    failed = _failure(question, model, problem)
    if kind is None:
        return failed
    record = {"failure": {"kind": kind.value, "hint": "", "detail": ""}}
    return replace(failed, record=MappingProxyType(record))


def _answer(
    asking: Asking, question: Question, case: Case
) -> Generator[tuple[Question, object], None, None]:
    seen = asking.seen
    keeping = seen.answer(question.id, asking.answerer.name)
    answers = answering(asking.answerer, question, case, asking.answer_format)
    try:
        prediction = yield from _followed(question, answers, keeping)
    except (Stopped, GeneratorExit, KeyboardInterrupt):
        seen.keep(keeping)  # what had come until then is no answer, and not lost
        raise
    yield question, with_note(prediction, seen.keep(keeping))


def _followed(
    question: Question, answers: Generator[object, None, Prediction], keeping: SeenAnswer
) -> Generator[tuple[Question, object], None, Prediction]:
    with closing(answers):
        while True:
            try:
                item = next(answers)
            except StopIteration as ended:
                answered: Prediction = ended.value
                return answered
            keeping.take(item)
            yield question, item


def with_note(prediction: Prediction, note: str) -> Prediction:
    """Return a prediction with one more thing to know about it."""
    if not note:
        return prediction
    had = prediction.record.get("note")
    record = {**prediction.record, "note": f"{had}; {note}" if had else note}
    return replace(prediction, record=MappingProxyType(record))


def _wanted(answerer: Answerer, asked: Sequence[Question]) -> tuple[str, ...] | None:
    """Return the structures to read, None for all."""
    if getattr(answerer, "all_masks", False):
        return None
    return tuple(dict.fromkeys(name for q in asked for name in answerer.wanted_masks(q)))


class Stopped(Exception):
    """The answerer was cancelled; the question it was at has no answer."""


def answer_one(
    answerer: Answerer, question: Question, case: Case, answer_format: AnswerFormat
) -> Prediction:
    """Return the prediction for one question; a failing answerer gives an ``[ERROR]`` one.

    Raises
    ------
    Stopped
        When the answerer was cancelled: half an answer is none.
    """
    steps = answering(answerer, question, case, answer_format)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            answered: Prediction = ended.value
            return answered


def answering(
    answerer: Answerer, question: Question, case: Case, answer_format: AnswerFormat
) -> Generator[object, None, Prediction]:
    """Yield what an answerer does (Turns, events) and return its prediction, as ``answer_one``."""
    began = time.monotonic()
    turns: list[Turn] = []
    try:
        for item in answerer.answer(question, case, answer_format):
            if isinstance(item, Prediction):
                return item
            if isinstance(item, Turn):
                turns.append(item)
            yield item
            if isinstance(item, Failed) and item.kind is FailureKind.CANCELLED:
                raise Stopped
    except _CASE_ERRORS as error:
        problem = _sentence(error)
    else:
        problem = f"{answerer.name} ended without an answer"
    seconds = time.monotonic() - began
    return _failure(question, answerer.name, problem, turns, seconds)


def _sentence(error: BaseException) -> str:
    if isinstance(error, CtvqaError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _failure(
    question: Question,
    model: str,
    problem: str,
    turns: Sequence[Turn] = (),
    seconds: float | None = None,
) -> Prediction:
    trace = Trace((*turns, Turn(len(turns) + 1, error=problem)))
    return Prediction(question.id, model, failed_text(problem), trace, seconds)


def result_row(question: Question, prediction: Prediction) -> dict[str, Any]:
    """Return one row of DeepTumorVQA's result layout.

    ``seconds``, ``note`` (what to know about the answer) and what a model's run tells are ours
    and stand last.
    """
    row: dict[str, Any] = {
        "qid": question.id,
        "image_id": question.case_id,
        "question_subtype": question.subtype,
        "question_type": question.stage,
        "raw_output": prediction.raw_text,
        "pred_answer": prediction.raw_text,
        "correct_option": question.reference.letter,
        "answer": question.reference.text,
        "trajectory": trajectory(prediction.trace, question.case_id),
    }
    if prediction.seconds is not None:
        row["seconds"] = round(prediction.seconds, 6)
    note = prediction.record.get("note")
    notes = [note] if isinstance(note, str) and note else []
    assumed = assumed_in(prediction.trace)
    notes += [assumed] if assumed else []
    row |= {"note": "; ".join(notes)} if notes else {}
    return row | {key: prediction.record[key] for key in OWN_KEYS if key in prediction.record}


def trajectory(trace: Trace, case_id: str) -> list[dict[str, Any]]:
    """Return a Trace as DeepTumorVQA's trajectory entries; the case's id joins the arguments."""
    entries: list[dict[str, Any]] = []
    for turn in trace.turns:
        if turn.call is not None:
            entries.append(
                {
                    "step": turn.step,
                    "tool": turn.call.name,
                    "arguments": {**plain(turn.call.arguments), "image_id": case_id},
                    "result": plain(turn.result.content) if turn.result else None,
                }
            )
        if turn.final_answer is not None:
            entries.append({"step": turn.step, "final_answer": turn.final_answer})
        if turn.error is not None:
            entries.append({"step": turn.step, "error": turn.error})
    return entries


def _metrics(
    opened: Opened,
    questions: QuestionSet,
    journal: ResultJournal,
    model: str,
    answer_format: AnswerFormat,
    out: Path,
) -> Mapping[str, Any]:
    """Return the benchmark's official metrics over every row of the file."""
    assert opened.benchmark is not None
    predictions = {key: Prediction(key, model, text) for key, text in journal.raw_texts.items()}
    run = Run(model, predictions, answer_format, str(out))
    return dict(opened.benchmark.metrics(questions, run, answer_format))
