"""Probes: ask again with one thing changed, into a file of their own; the run stays untouched.

Each question is asked as it is first; then once a probe. What a probe cannot change for a question
is kept as a sentence instead of an answer, and nothing else is done in its place.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.core.probe_results import (
    ProbeAnswer,
    Verdict,
    answer_of,
    answer_row,
    behaviour,
    is_right,
    letter_in,
    options_said,
    said_in,
    summaries,
    verdict_of,
)
from napari_ctvqa.core.probes import (
    ORIGINAL,
    VERSION,
    CannotProbeError,
    Effect,
    chance_of,
    effect_of,
    kind_of,
    swapped_sides,
)
from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.io.json_files import parse_json, read_text
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.result_journal import ResultJournal
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import (
    GaveUpError,
    Stopped,
    answering,
    result_row,
    run_description,
)
from napari_ctvqa.runners.probe_changes import (
    BODIES,
    MARKS,
    Made,
    Original,
    changed_for,
    watched,
)

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.probe_results import ProbeSummary
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.runners.opening import Opened

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
    already. Closing the generator, and an answerer that is cancelled, stop cleanly.

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
        found = summaries(work.answers())
        said = behaviour(found)
        journal.finish({"probes": [_plain(one) for one in found], "behaviour": list(said)}, ())
        yield replace(work.now(), found=found, behaviour=said)


def _rows_by_id(questions: QuestionSet, rows: Iterable[int]) -> dict[str, int]:
    ids = questions.frame["id"]
    wanted: dict[str, int] = {}
    for row in rows:
        wanted.setdefault(str(ids.iat[int(row)]), int(row))
    return wanted


def row_key(question_id: str, probe: str) -> str:
    """Return what a row of a probe's file is called."""
    return f"{question_id}@{probe}"


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
        self.journal, self.probes = journal, probes
        self.assume, self.given = assume, case
        self.retried = journal.failed if retry else frozenset()
        self.total = self.done = self.failed = self.made = self.hopeless = 0
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
        for case_id, group in questions.by_case(pending):
            yield from self._case(case_id, [questions[row] for row in group])

    def _open(self, key: str) -> bool:
        return key not in self.journal or key in self.retried

    def _case(
        self, case_id: str, asked: Sequence[Question]
    ) -> Generator[ProbeProgress, None, None]:
        try:
            case = self._read(case_id, asked)
        except _READ_ERRORS as error:
            for question in asked:
                yield from self._lost(question, str(error) or type(error).__name__)
            return
        for question in asked:
            if self._open(row_key(question.id, ORIGINAL)):
                yield from self._ask_original(question, case)
        made = Made(case)
        for probe in self.probes:
            for question in asked:
                original = self._original(question.id)
                if original is None:
                    self._count(failed=True)
                elif self._open(row_key(question.id, probe)):
                    yield from self._ask(probe, question, original, made)
            made.forget()
        del made

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

    # ----------------------------------------------------------------------------- the original

    def _ask_original(self, question: Question, case: Case) -> Generator[ProbeProgress, None, None]:
        answerer, watch = watched(self.answerer, None)
        prediction = yield from self._answered(answerer, question, case)
        row = {
            **result_row(question, prediction),
            "qid": row_key(question.id, ORIGINAL),
            "question_id": question.id,
            "probe": ORIGINAL,
            "kind": kind_of(question),
            "said": self._said(question, prediction),
            "right": is_right(question, prediction.raw_text, self.answer_format),
        }
        if watch is not None:
            row |= {"mark": watch.mark, "sent": watch.sent}
        self.journal.add(row)
        self._count(failed=prediction.failed)
        yield self.now()
        self._give_up(prediction)

    def _original(self, question_id: str) -> Original | None:
        """Return what is known of a question as it is; None where that failed."""
        row = self.journal.row(row_key(question_id, ORIGINAL))
        if row is None or row["qid"] in self.journal.failed:
            return None
        return Original(str(row["raw_output"]), str(row.get("mark", "")), row.get("sent") or {})

    def _lost(self, question: Question, problem: str) -> Iterator[ProbeProgress]:
        key = row_key(question.id, ORIGINAL)
        if self._open(key):
            text = f"[ERROR] {problem}"
            ids = {"qid": key, "question_id": question.id, "probe": ORIGINAL}
            self.journal.add({**ids, "raw_output": text, "pred_answer": text})
        self.done += sum(self._open(row_key(question.id, p)) for p in self.probes) + 1
        self.failed += 1
        yield self.now(problem)

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

    # ------------------------------------------------------------------------------- the probes

    def _ask(
        self, probe: str, question: Question, original: Original, made: Made
    ) -> Generator[ProbeProgress, None, None]:
        known = ProbeAnswer(
            question.id,
            probe,
            kind_of(question),
            effect_of(probe, question, self.answer_format),
            Verdict.NOT_MADE,
            original=said_in(question, original.text, self.answer_format),
            original_right=is_right(question, original.text, self.answer_format),
        )
        row: dict[str, Any] = {}
        try:
            changed = changed_for(
                probe, question, original, made, self.answerer, self.answer_format
            )
            answerer, watch = watched(self.answerer, changed.change)
            if changed.tools is not None and isinstance(answerer, ModelAnswerer):
                answerer.kit_of, answerer.kit = changed.tools, changed.tools_named
            prediction = yield from self._answered(answerer, changed.question, changed.case)
            if watch is not None and watch.cannot is not None:
                raise watch.cannot
        except CannotProbeError as error:
            answer = replace(known, reason=error.message)
            row = {"raw_output": "", "pred_answer": ""}
        else:
            answer = self._judged(known, question, changed.question, prediction, original)
            row = {**result_row(changed.question, prediction), "changed": changed.note}
        self.journal.add(
            {
                "image_id": question.case_id,
                "question_subtype": question.subtype,
                **row,
                **answer_row(answer),
                "qid": row_key(question.id, probe),
            }
        )
        self.journal.write_if_due()
        self._count(failed=answer.verdict is Verdict.FAILED)
        yield replace(self.now(), answer=answer)

    def _judged(
        self,
        known: ProbeAnswer,
        question: Question,
        put: Question,
        prediction: Prediction,
        original: Original,
    ) -> ProbeAnswer:
        """Return the answer with what it did; ``put`` is the question as the probe asked it."""
        if prediction.failed:
            reason = prediction.raw_text.removeprefix("[ERROR]").strip()
            return replace(known, verdict=Verdict.FAILED, reason=reason[:500])
        said = self._said(put, prediction)
        options = options_said(question, self.answer_format)
        verdict = verdict_of(known.effect, known.kind, known.original, said, options)
        right, chance = None, None
        if known.effect is Effect.SAME or known.probe == "blank":
            right = is_right(put, prediction.raw_text, self.answer_format)
            chance = chance_of(question)
        elif known.effect is Effect.FLIPS:
            reference = _reference_said(question, self.answer_format)
            right = said == swapped_sides(reference) if reference else None
        kept = None
        if known.probe == "shuffled" and said and known.original:
            kept = letter_in(put, prediction.raw_text) == letter_in(question, original.text)
        return replace(
            known, verdict=verdict, said=said, right=right, chance=chance, place_kept=kept
        )

    def _said(self, question: Question, prediction: Prediction) -> str:
        if prediction.failed:
            return ""
        return said_in(question, prediction.raw_text, self.answer_format)

    def _answered(
        self, answerer: Answerer, question: Question, case: Case
    ) -> Generator[ProbeProgress, None, Prediction]:
        """Return the prediction; a step now and then lets the caller stop while a model works."""
        steps = answering(answerer, question, case, self.answer_format)
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as ended:
                    prediction: Prediction = ended.value
                    return prediction
                yield self.now()
        finally:
            steps.close()

    # ------------------------------------------------------------------------------ bookkeeping

    def _count(self, *, failed: bool) -> None:
        self.done += 1
        self.made += 1
        self.failed += failed

    def now(self, message: str = "") -> ProbeProgress:
        spent = time.monotonic() - self.began
        rate = self.made / spent if spent > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else None
        return ProbeProgress(self.done, self.total, self.failed, None, message, left, rate)

    def answers(self) -> Iterator[ProbeAnswer]:
        """Return every probe's answer in the file, earlier runs included."""
        return _answers_in(self.journal.rows())

    def leave(self) -> None:
        """Write the file on the way out; should that fail, the journal has every answer."""
        try:
            self.journal.write()
        except CtvqaError:
            logger.warning("%s is not up to date; its journal has all", self.journal.path)


def _reference_said(question: Question, answer_format: AnswerFormat) -> str:
    if answer_format is AnswerFormat.MC and question.options:
        letter = question.reference.letter
        return said_in(question, letter, answer_format) if letter else ""
    return said_in(question, question.reference.text, answer_format)


def probe_json(found: Sequence[ProbeSummary], said: Sequence[str]) -> str:
    """Return summaries as JSON text."""
    data = {"probes": [_plain(one) for one in found], "behaviour": list(said)}
    return json.dumps(data, ensure_ascii=False)
