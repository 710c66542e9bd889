"""Probes: ask again with one thing changed, into a file of their own; the run stays untouched.

Each question is asked as it is first; then once a probe. What a probe cannot change for a question
is kept as a sentence instead of an answer, and nothing else is done in its place.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Lock, Semaphore
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.core.probe_results import ProbeAnswer, answer_of, behaviour, summaries
from napari_ctvqa.core.probes import ORIGINAL, VERSION, CannotProbeError, table
from napari_ctvqa.io.json_files import parse_json, read_text
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.result_journal import ResultJournal
from napari_ctvqa.runners.batch import GaveUpError, Stopped, cancel, run_description, uncancel
from napari_ctvqa.runners.probe_asking import ProbeAsking, Row, original_of, row_key
from napari_ctvqa.runners.probe_changes import (
    BODIES,
    MARKS,
    Changed,
    Made,
    Original,
    changed_for,
)
from napari_ctvqa.runners.together import Together

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.probe_results import ProbeSummary
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import AnswerFormat, Prediction, Question
    from napari_ctvqa.runners.opening import Opened
    from napari_ctvqa.runners.together import Work

logger = logging.getLogger(__name__)

KIND = "probes"
_GIVEN_UP_AFTER = 3
_READ_ERRORS = (CtvqaError, OSError, ValueError, MemoryError)


@dataclass(frozen=True)
class ProbeProgress:
    """One step of a batch of probes.

    ``done`` counts what is answered, or known not to be possible, of ``total`` (questions times
    probes, and once as they are). ``answer`` is the one just made: it is on disk. ``found`` and
    ``behaviour`` come with the last step.
    """

    done: int
    total: int
    failed: int
    answer: ProbeAnswer | None = None
    message: str = ""
    seconds_left: float | None = None
    per_second: float = 0.0
    found: tuple[ProbeSummary, ...] = ()
    behaviour: tuple[str, ...] = ()


def run_probes(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    out: Path,
    *,
    rows: Iterable[int],
    probes: Sequence[str],
    case: Case | None = None,
    kit: str = "",
    retry_errors: bool = False,
    assume_none: bool = False,
) -> Generator[ProbeProgress, None, None]:
    """Ask the questions of ``rows`` as they are and under each probe, into ``out``.

    What ``out`` holds is not asked again; its ``[ERROR]`` rows are with ``retry_errors``. Probes
    may be added to a file of the same model and configuration. ``case`` is one that is read
    already. Closing the generator, and an answerer that is cancelled, stop cleanly. An answerer
    with a ``width`` above 1 is asked so many questions at once; the file is the same but for the
    times in it.

    Raises
    ------
    CtvqaError
        When ``out`` cannot be used, or is of another run.
    GaveUpError
        When the original of three questions in a row failed for a reason that is not the case's.
    """
    questions = opened.questions
    if questions is None or opened.benchmark is None:
        raise CtvqaError(
            f"{opened.path} holds no questions.", hint="Give a benchmark folder or question file."
        )
    description = run_description(answerer, answer_format, kit, opened.benchmark.name)
    description["kind"] = KIND
    description["config"] = {**description.get("config", {}), "probes": VERSION}
    if assume_none:
        description["absent_means_none"] = True
    wanted = _rows_by_id(questions, rows)
    with ResultJournal(out, description) as journal:
        work = _Work(
            opened, answerer, answer_format, journal, tuple(probes), retry_errors, assume_none, case
        )
        try:
            yield from work.run(questions, wanted)
        except Stopped:
            work.leave()
            return
        except BaseException:
            work.leave()
            raise
        order = work.in_order(questions)
        found = summaries(work.answers(order))
        said = behaviour(found)
        journal.finish({"probes": [_plain(one) for one in found], "behaviour": list(said)}, order)
        yield replace(work.now(), found=found, behaviour=said)


def _rows_by_id(questions: QuestionSet, rows: Iterable[int]) -> dict[str, int]:
    ids = questions.frame["id"]
    wanted: dict[str, int] = {}
    for row in rows:
        wanted.setdefault(str(ids.iat[int(row)]), int(row))
    return wanted


_HEAD_BYTES = 4 * 1024**2


def holds_probes(path: Path) -> bool:
    """Return whether a file is one that probes wrote, by its head; never raises."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).partition(b'"results": [')[0]
    except OSError:
        return False
    return f'"kind": "{KIND}"'.encode() in head


def read_probe_answers(path: Path) -> tuple[ProbeAnswer, ...]:
    """Return the answers in a probe file, and none of their originals.

    Raises
    ------
    InputFileError
        When it is not such a file.
    """
    data = parse_json(read_text(path), path)
    rows = data.get("results") if isinstance(data, dict) and data.get("kind") == KIND else None
    if not isinstance(rows, list):
        raise InputFileError(
            path, "holds no probes.", hint="Give a file that `napari-ctvqa probe` wrote."
        )
    return tuple(_answers_in(rows))


def _answers_in(rows: Iterable[Any]) -> Iterator[ProbeAnswer]:
    for row in rows:
        try:
            answer = answer_of(row) if isinstance(row, Mapping) else None
        except ValueError:
            continue  # written by a later version: a verdict that is not known here
        if answer is not None:
            yield answer


def _plain(summary: ProbeSummary) -> dict[str, Any]:
    shares = ("turned", "stayed", "kept", "right", "right_before", "placed")
    told = {
        name: {
            "count": getattr(summary, name).count,
            "total": getattr(summary, name).total,
            "interval_95": list(getattr(summary, name).interval),
        }
        for name in shares
        if getattr(summary, name).total
    }
    return {
        "probe": summary.probe,
        "asked": summary.asked,
        **told,
        "chance": summary.chance,
        "unread": summary.unread,
        "failed": summary.failed,
        "not_judged": summary.not_judged,
        "not_made": dict(summary.not_made),
        "sentences": list(summary.sentences),
    }


HEAVY = frozenset({"lesion_removed", "lesion_copied", "coarser", "finer"})
"""Probes whose changed case is a copy of the CT, not a view."""
MOST_COPIES = 2
"""Changed copies of a CT that are held at once, where several questions are asked at once."""
_LOOK_S = 0.1
_NO_MEMORY = "There is not enough memory for the changed volume."


class _Copies:
    """How many changed copies of CTs may be held; whoever waits is let go when all is stopped."""

    def __init__(self) -> None:
        self._free = Semaphore(MOST_COPIES)
        self._stopped = Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def wait_for(self, event: Event) -> None:
        while not event.wait(_LOOK_S) and not self.stopped:
            pass

    def take(self) -> None:
        while not self._free.acquire(timeout=_LOOK_S) and not self.stopped:
            pass

    def give_back(self) -> None:
        self._free.release()


class _Shared:
    """Something that several works use; ``freed`` is called after the last one."""

    def __init__(self, freed: Callable[[], None]) -> None:
        self._freed, self._users, self._lock = freed, 1, Lock()

    def use(self) -> None:
        with self._lock:
            self._users += 1

    def let_go(self) -> None:
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._freed()


class _Asked:
    """The questions of one case, and what is known of them as they are."""

    def __init__(self, case: Case, questions: Sequence[Question]) -> None:
        self.case, self.questions = case, questions
        self.originals: dict[str, Original | None] = {}
        self.known = Event()
        """Set once every original has been answered, or has failed."""

    def know(self, question_id: str, original: Original | None) -> None:
        self.originals[question_id] = original
        if len(self.originals) == len(self.questions):
            self.known.set()


class _Work:
    def __init__(
        self,
        opened: Opened,
        answerer: Answerer,
        answer_format: AnswerFormat,
        journal: ResultJournal,
        probes: tuple[str, ...],
        retry: bool,
        assume: bool,
        case: Case | None,
    ) -> None:
        self.opened, self.answerer, self.answer_format = opened, answerer, answer_format
        self.asking = ProbeAsking(answerer, answer_format)
        self.journal, self.probes = journal, probes
        self.assume, self.given = assume, case
        self.retried = journal.failed if retry else frozenset()
        self.total = self.done = self.failed = self.made = self.hopeless = 0
        self.width = max(1, int(getattr(answerer, "width", 1)))
        self.copies = _Copies()
        self.began = time.monotonic()

    # ------------------------------------------------------------------------------- the loop

    def run(
        self, questions: QuestionSet, wanted: Mapping[str, int]
    ) -> Generator[ProbeProgress, None, None]:
        keys = [row_key(name, probe) for name in wanted for probe in (ORIGINAL, *self.probes)]
        self.total = len(keys)
        self.done = sum(not self._open(key) for key in keys)
        self.failed = sum(key in self.journal.failed for key in keys if not self._open(key))
        yield self.now("; ".join(self.journal.notes))
        pending = [
            row
            for name, row in wanted.items()
            if any(self._open(row_key(name, probe)) for probe in (ORIGINAL, *self.probes))
        ]
        works = self._works(questions, pending)
        if self.width == 1 or not pending:
            yield from self._kept(_one_by_one(works))
            return
        together = Together(self.width, self._stop)
        try:
            yield from self._kept(together.run(works))
        finally:
            for _, item in together.rest():  # what was answered while it was being stopped
                if isinstance(item, Row):
                    self.journal.add(item.row)
            uncancel(self.answerer)

    def _stop(self) -> None:
        self.copies.stop()
        cancel(self.answerer)

    def _kept(
        self, said: Generator[tuple[Any, object] | None, None, None]
    ) -> Generator[ProbeProgress, None, None]:
        """Put each answer on disk, then tell of it."""
        with closing(said):
            for one in said:
                item = None if one is None else one[1]
                if isinstance(item, _Lost):
                    yield self._lost(item)
                elif isinstance(item, Row):
                    self.journal.add(item.row)
                    self.journal.write_if_due()
                    self._count(failed=item.failed)
                    yield replace(self.now(), answer=item.answer)
                    if item.answer is None and item.prediction is not None:
                        self._give_up(item.prediction)
                else:
                    yield self.now()

    def _open(self, key: str) -> bool:
        return key not in self.journal or key in self.retried

    # ------------------------------------------------------------------------------- what is done

    def _works(self, questions: QuestionSet, pending: Sequence[int]) -> Iterator[Work]:
        """Yield what asks each question: a case's originals, then probe by probe.

        Where several are asked at once the originals of the next case go before the probes of one,
        so that nobody waits for the last of them: two cases are held.
        """
        waiting: _Asked | None = None
        for case_id, group in questions.by_case(pending):
            asked = [questions[row] for row in group]
            try:
                of_case = _Asked(self._read(case_id, asked), asked)
            except _READ_ERRORS as error:
                problem = str(error) or type(error).__name__
                for question in asked:
                    yield partial(_losing, _Lost(question, problem))
                continue
            for question in asked:
                if self._open(row_key(question.id, ORIGINAL)):
                    yield partial(self._ask_original, question, of_case)
                else:
                    of_case.know(question.id, self._original(question.id))
            if self.width == 1:
                yield from self._probe_works(of_case)
                continue
            if waiting is not None:
                yield from self._probe_works(waiting)
            waiting = of_case
            del of_case
        if waiting is not None:
            yield from self._probe_works(waiting)

    def _probe_works(self, asked: _Asked) -> Iterator[Work]:
        self.copies.wait_for(asked.known)
        made = Made(asked.case)
        for probe in self.probes:
            if self.copies.stopped:
                return
            copy = _Shared(self.copies.give_back if probe in HEAVY else _nothing)
            if probe in HEAVY:
                self.copies.take()
            for question in asked.questions:
                original = asked.originals.get(question.id)
                if original is None:
                    yield partial(_losing, _Lost(question, "", probe))
                elif self._open(row_key(question.id, probe)):
                    changed = self._changed(probe, question, original, made)
                    copy.use()
                    yield partial(self._ask_probe, probe, question, original, changed, copy)
                    del changed
            made.forget()
            copy.let_go()

    def _changed(
        self, probe: str, question: Question, original: Original, made: Made
    ) -> Changed | CannotProbeError:
        try:
            return changed_for(probe, question, original, made, self.answerer, self.answer_format)
        except CannotProbeError as error:
            return error
        except MemoryError:
            return CannotProbeError(_NO_MEMORY)

    def _ask_original(
        self, question: Question, asked: _Asked
    ) -> Generator[tuple[Question, object], None, None]:
        original: Original | None = None
        try:
            row = yield from _followed(question, self.asking.original(question, asked.case))
            original = row.original
            yield question, row
        finally:
            asked.know(question.id, original)  # after its row: that is on disk before its probes'

    def _ask_probe(
        self,
        probe: str,
        question: Question,
        original: Original,
        changed: Changed | CannotProbeError,
        copy: _Shared,
    ) -> Generator[tuple[Question, object], None, None]:
        try:
            steps = self.asking.under(probe, question, original, changed)
            yield question, (yield from _followed(question, steps))
        finally:
            copy.let_go()

    def _read(self, case_id: str, asked: Sequence[Question]) -> Case:
        case = self.given
        if case is None or case.case_id != case_id:
            masks = bool(BODIES.union(MARKS).intersection(self.probes))
            every = masks or getattr(self.answerer, "all_masks", False)
            named = dict.fromkeys(n for q in asked for n in self.answerer.wanted_masks(q))
            case = read_case(
                self.opened.case_files(case_id), wanted=None if every else tuple(named)
            )
        return absent_means_none(case) if self.assume else case

    def _original(self, question_id: str) -> Original | None:
        """Return what is kept of a question as it is; None where that failed."""
        row = self.journal.row(row_key(question_id, ORIGINAL))
        return None if row is None or row["qid"] in self.journal.failed else original_of(row)

    # ------------------------------------------------------------------------------ bookkeeping

    def _lost(self, lost: _Lost) -> ProbeProgress:
        """Take note of a question that cannot be asked, or of a probe of one that failed."""
        question = lost.question
        if lost.probe:
            if self._open(row_key(question.id, lost.probe)):
                self._count(failed=True)
            return self.now()
        key = row_key(question.id, ORIGINAL)
        self.done += sum(self._open(row_key(question.id, p)) for p in self.probes)
        if self._open(key):  # else it was counted with what the file holds
            self._count(failed=True)
            text = f"[ERROR] {lost.problem}"
            ids = {"qid": key, "question_id": question.id, "probe": ORIGINAL}
            self.journal.add({**ids, "raw_output": text, "pred_answer": text})
        return self.now(lost.problem)

    def _give_up(self, prediction: Prediction) -> None:
        failure = prediction.record.get("failure") or {}
        stays = prediction.failed and failure.get("kind", "case") != "case"
        self.hopeless = self.hopeless + 1 if stays else 0
        if self.hopeless == _GIVEN_UP_AFTER:
            raise GaveUpError(
                f"The probes stopped, as {_GIVEN_UP_AFTER} questions in a row failed: "
                f"{prediction.trace.turns[-1].error if prediction.trace.turns else ''}",
                hint=f"{failure.get('hint', '')} What was answered until then is kept.",
            )

    def _count(self, *, failed: bool) -> None:
        self.done += 1
        self.made += 1
        self.failed += failed

    def now(self, message: str = "") -> ProbeProgress:
        spent = time.monotonic() - self.began
        rate = self.made / spent if spent > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else None
        return ProbeProgress(self.done, self.total, self.failed, None, message, left, rate)

    def in_order(self, questions: QuestionSet) -> list[str]:
        """Return the keys of the file by question and probe, whoever answered first."""
        place = {str(name): number for number, name in enumerate(questions.frame["id"])}
        probes = {name: number for number, name in enumerate((ORIGINAL, *table().probes))}

        def rank(key: str) -> tuple[int, int, str]:
            name, _, probe = key.rpartition("@")
            return place.get(name, len(place)), probes.get(probe, len(probes)), key

        return sorted(self.journal.raw_texts, key=rank)

    def answers(self, order: Iterable[str]) -> Iterator[ProbeAnswer]:
        """Return every probe's answer in the file, earlier runs included."""
        rows = (self.journal.row(key) for key in order)
        return _answers_in(row for row in rows if row is not None)

    def leave(self) -> None:
        """Write the file on the way out; should that fail, the journal has every answer."""
        try:
            self.journal.write()
        except CtvqaError:
            logger.warning("%s is not up to date; its journal has all", self.journal.path)


@dataclass(frozen=True)
class _Lost:
    """A question whose case cannot be read, or one probe of a question that failed as it is."""

    question: Question
    problem: str
    probe: str = ""


def _losing(lost: _Lost) -> Generator[tuple[Question, object], None, None]:
    yield lost.question, lost


def _nothing() -> None:
    """Free nothing: a view of the CT takes no memory."""


def _one_by_one(works: Iterator[Work]) -> Generator[tuple[Any, object] | None, None, None]:
    for work in works:
        yield from work()


def _followed(
    question: Question, steps: Generator[object, None, Row]
) -> Generator[tuple[Question, object], None, Row]:
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                row: Row = ended.value
                return row
            yield question, None


def probe_json(found: Sequence[ProbeSummary], said: Sequence[str]) -> str:
    """Return summaries as JSON text."""
    data = {"probes": [_plain(one) for one in found], "behaviour": list(said)}
    return json.dumps(data, ensure_ascii=False)
