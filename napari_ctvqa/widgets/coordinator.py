"""Coordinator: fulfils what panels wish for, with everything slow in a Job.

It is the only module that turns a wish into work. Each kind of work (opening, reading a case,
computing chains, running) has one slot: starting it again cancels the former, and items of a
former Job are dropped, so a late answer never appears under another question.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QObject

from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.names import canonical
from napari_ctvqa.core.ordering import ordered
from napari_ctvqa.core.records import AnswerFormat, Prediction, Question, Run, Score, Trace, Turn
from napari_ctvqa.core.regions import focus_slice, slices_of
from napari_ctvqa.core.session import CaseState, MaskFocus, RunProgress, RunState, Session
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.demo import FIRST_MODEL, FIRST_QUESTION, ensure_demo
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain, wanted_structures
from napari_ctvqa.evidence.compare import compare_chains, judged
from napari_ctvqa.extensions import models
from napari_ctvqa.io.case_cache import CaseCache
from napari_ctvqa.runners.batch import BatchProgress, run_batch
from napari_ctvqa.runners.kept import keep_answer, results_folder
from napari_ctvqa.runners.opening import Opened, open_path
from napari_ctvqa.widgets.background import Job
from napari_ctvqa.widgets.problems import report

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    import numpy.typing as npt

    from napari_ctvqa.core.cases import Case, CaseFiles, Mask
    from napari_ctvqa.core.chains import ChainComparison, EvidenceChain, EvidenceStep
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.widgets.layers import CaseLayers

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 0.2
"""How often a running batch shows what it has: the answers themselves are on disk at once."""


@dataclass(frozen=True)
class _OpenRequest:
    path: Path
    benchmark: str | None = None
    roots: tuple[Path, ...] = ()
    results: tuple[Path, ...] = ()
    question_id: str | None = None
    where: str = ""
    demo: bool = False


@dataclass(frozen=True)
class _ScoredRun:
    run: Run
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class _Chains:
    reference: EvidenceChain | None
    by_model: Mapping[str, EvidenceChain]
    comparisons: Mapping[str, ChainComparison]


@dataclass(frozen=True)
class _Live:
    """What an answerer has done so far for one question."""

    model: str
    question: Question
    turns: tuple[Turn, ...]
    prediction: Prediction | None = None
    score: Score | None = None
    path: str = ""


class Coordinator(QObject):
    """Connects one Session to the files, the evidence engine, the runners and the layers."""

    def __init__(self, session: Session, layers: CaseLayers) -> None:
        super().__init__()
        self.session = session
        self.layers = layers
        self.opened: Opened | None = None
        self._jobs: dict[str, Job] = {}
        self._pending_focus: str | None = None
        self._began = datetime.now().strftime("%Y%m%d-%H%M%S")
        self._case_key = ""
        """The question's word for the case that is shown or being read."""
        self._cases = CaseCache()
        wishes = session.wishes
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (wishes.open_path, self.open),
            (wishes.open_results, self.add_results),
            (wishes.add_case_root, self.add_case_root),
            (wishes.open_demo, self.open_demo),
            (wishes.filter, self.filter),
            (wishes.sort, self.sort),
            (wishes.hide_reference, self.hide_reference),
            (wishes.answer_format, self.set_answer_format),
            (wishes.select_row, self.select_row),
            (wishes.step_question, self.step_question),
            (wishes.reveal, self.reveal),
            (wishes.focus_step, self.focus_step),
            (wishes.mask_slice, self.step_mask_slice),
            (wishes.back, self.back),
            (wishes.run, self.run),
            (wishes.cancel_run, self.cancel_run),
            (wishes.preset, layers.apply_preset),
            (wishes.toggle_overlays, layers.toggle_overlays),
            (session.runs_changed, self._compute_chains),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)

    def close(self) -> None:
        """Stop all work and let go of the session."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()
        self._cases.close()

    # ------------------------------------------------------------------ jobs

    def _start(
        self,
        slot: str,
        items: Generator[Any, None, None],
        on_item: Callable[[Any], None],
        on_failed: Callable[[BaseException], None] | None = None,
        on_ended: Callable[[], None] | None = None,
    ) -> None:
        former = self._jobs.pop(slot, None)
        if former is not None:
            former.cancel()
        job = Job(items)
        self._jobs[slot] = job
        job.item.connect(partial(self._if_current, slot, job, on_item))
        job.failed.connect(partial(self._if_current, slot, job, on_failed or self._show_problem))
        job.ended.connect(partial(self._ended, slot, job, on_ended))
        job.start()

    def _if_current(self, slot: str, job: Job, handler: Callable[[Any], None], item: Any) -> None:
        if self._jobs.get(slot) is job:
            handler(item)

    def _ended(self, slot: str, job: Job, on_ended: Callable[[], None] | None) -> None:
        if self._jobs.get(slot) is not job:
            return
        del self._jobs[slot]
        if on_ended is not None:
            on_ended()

    def _cancel(self, slot: str) -> None:
        job = self._jobs.pop(slot, None)
        if job is not None:
            job.cancel()

    @property
    def busy(self) -> bool:
        """Return whether anything asked for is still being read, computed or answered."""
        return bool(self._jobs)

    def _show_problem(self, error: BaseException) -> None:
        report(self.session, error)

    # --------------------------------------------------------------- opening

    def open(
        self,
        path: object,
        *,
        benchmark: str | None = None,
        roots: Sequence[Path] = (),
        results: Sequence[Path] = (),
        question_id: str | None = None,
        where: str = "",
    ) -> None:
        """Open a case, a benchmark or a question file; see ``runners.opening``."""
        self._open(
            _OpenRequest(
                Path(str(path)), benchmark, tuple(roots), tuple(results), question_id, where
            )
        )

    def open_demo(self) -> None:
        """Make the demo data if they are not there yet, and open them on a failure."""
        self._open(_OpenRequest(Path("demo"), demo=True, question_id=FIRST_QUESTION))
        self.focus_first_difference(FIRST_MODEL)

    def _open(self, request: _OpenRequest) -> None:
        self._pending_focus = None
        for slot in ("case", "chains", "live", "batch"):
            self._cancel(slot)
        self.session.update(
            case_state=CaseState.LOADING, case_message=f"Opening {request.path.name} …"
        )
        self._start("open", _open(request), partial(self._show_opened, request), self._open_failed)

    def _open_failed(self, error: BaseException) -> None:
        self.session.update(case_state=CaseState.FAILED, case_message=str(error))
        self._show_problem(error)

    def _show_opened(self, request: _OpenRequest, item: object) -> None:
        if isinstance(item, _ScoredRun):
            self._add_run(item)
            return
        if isinstance(item, CtvqaError):
            self._show_problem(item)
            return
        assert isinstance(item, Opened)
        self.opened = item
        self.session.update(
            path=item.path,
            benchmark=item.benchmark,
            questions=item.questions,
            where="",
            rows=np.arange(len(item.questions) if item.questions is not None else 0),
            row=None,
            question=None,
            runs={},
            scores={},
            case=None,
            case_state=CaseState.NONE,
            case_message="",
            focus=None,
            focused_step=None,
            results_folder=results_folder(item) if item.questions is not None else None,
            **_NO_CHAINS,
        )
        if item.questions is None:
            self._read_case("", item.case_files(), ())
            return
        if request.where:
            self.filter(request.where)
        try:
            row = self._first_row(request.question_id)
        except NotFoundError as error:
            self._show_problem(error)
            row = self._first_row(None)
        if row is not None:
            self.select_row(row)

    def _first_row(self, question_id: str | None) -> int | None:
        questions = self.session.questions
        if questions is None or len(questions) == 0:
            return None
        if question_id is None:
            return int(self.session.rows[0]) if len(self.session.rows) else None
        questions.by_id(question_id)
        return questions.row_of[question_id]

    def add_results(self, path: object) -> None:
        """Read a result file and show its predictions."""
        if self.opened is None or self.opened.questions is None:
            self._show_problem(
                CtvqaError(
                    "There are no questions to which results could belong.",
                    hint="Open the benchmark first, then its result file.",
                )
            )
            return
        opened = self.opened
        self._start(
            f"results {path}",
            _read_runs(opened, (Path(str(path)),), self.session.answer_format),
            partial(self._show_opened, _OpenRequest(opened.path)),
        )

    def _add_run(self, item: _ScoredRun) -> None:
        session = self.session
        session.update(
            runs={**session.runs, item.run.model: item.run},
            scores={**session.scores, item.run.model: item.scores},
        )
        if session.where:
            self.filter(session.where)

    def add_case_root(self, path: object) -> None:
        """Look for cases under one more folder, now and the next time."""
        if self.opened is None:
            return
        try:
            self.opened = self.opened.with_roots(Path(str(path)))
        except CtvqaError as error:
            self._show_problem(error)
            return
        row = self.session.row
        if row is not None:
            self.session.update(case=None, row=None, question=None)
            self.select_row(row)

    # ------------------------------------------------------------- questions

    def filter(self, where: str) -> None:
        """Show the questions that fit; raises nothing, a bad filter is a problem."""
        questions = self.session.questions
        if questions is None:
            return
        try:
            rows = parse_where(where).rows(questions, self.session.scores)
        except CtvqaError as error:
            self._show_problem(error)
            return
        self.session.update(where=where, rows=self._ordered(rows))

    def sort(self, column: str, descending: bool) -> None:
        """Order what the filter shows by a column; an empty name is file order."""
        self.session.update(order=(column, descending))
        if self.session.questions is not None:
            self.session.update(rows=self._ordered(self.session.rows))

    def _ordered(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        assert self.session.questions is not None
        column, descending = self.session.order
        return ordered(
            rows,
            self.session.questions,
            column,
            descending=descending,
            scores=self.session.scores,
        )

    def hide_reference(self, hidden: bool) -> None:
        """Hide references until each is revealed, or show them all."""
        self.session.update(hide_reference=hidden)

    def set_answer_format(self, name: str) -> None:
        """Ask and score as mc or free form; runs whose file says which keep their own."""
        self.session.update(answer_format=AnswerFormat(name))
        unsaid = tuple(r for r in self.session.runs.values() if r.answer_format is None)
        if self.opened is not None and self.opened.questions is not None and unsaid:
            self._start(
                "rescore",
                _rescore(self.opened, unsaid, self.session.answer_format),
                self._add_run,
            )

    def select_row(self, row: int) -> None:
        """Make a question the current one and its case the shown one."""
        questions = self.session.questions
        if questions is None or not 0 <= row < len(questions):
            return
        self._cancel("live_view")
        try:
            question = questions[row]
        except CtvqaError as error:
            self._show_problem(error)
            return
        self.session.update(row=row, question=question, focus=None, focused_step=None, **_NO_CHAINS)
        if self.session.case is not None and self._case_key == question.case_id:
            self._compute_chains()
            return
        assert self.opened is not None
        try:
            files = self.opened.case_files(question.case_id)
        except CtvqaError as error:
            self._cancel("case")
            self._case_key = question.case_id
            self.session.update(case=None, case_state=CaseState.FAILED, case_message=str(error))
            self._compute_chains()
            return
        self._read_case(question.case_id, files, wanted_structures(question))

    def step_question(self, step: int) -> None:
        """Go to the next (+1) or previous (-1) question that the filter shows."""
        rows = self.session.rows
        if not len(rows):
            return
        here = np.flatnonzero(rows == self.session.row)
        if len(here):
            target = int(here[0]) + step
            if not 0 <= target < len(rows):
                return
        else:
            target = 0 if step > 0 else len(rows) - 1
        self.select_row(int(rows[target]))

    def reveal(self) -> None:
        """Show the reference of the current question."""
        question = self.session.question
        if question is not None:
            self.session.update(revealed_ids=self.session.revealed_ids | {question.id})

    # ------------------------------------------------------------------ case

    def _read_case(self, key: str, files: CaseFiles, first: tuple[str, ...]) -> None:
        self._case_key = key
        self.session.update(
            case=None,
            case_state=CaseState.LOADING,
            case_message=f"Reading {files.case_id} …",
            focus=None,
            focused_step=None,
        )
        self._start(
            "case",
            self._cases.open_steps(files, first=first),
            self._show_case,
            self._case_failed,
            self._read_ahead,
        )

    def _case_failed(self, error: BaseException) -> None:
        self.session.update(case=None, case_state=CaseState.FAILED, case_message=str(error))
        if not isinstance(error, CtvqaError):
            self._show_problem(error)
        self._compute_chains()

    def _show_case(self, case: Case) -> None:
        message = "" if case.complete else f"{len(case.masks)} masks read …"
        state = CaseState.READY if case.complete else CaseState.CT_SHOWN
        self.session.update(case=case, case_state=state, case_message=message)
        self._compute_chains()

    def _read_ahead(self) -> None:
        """Read the next case that the filter shows, so that going on takes no waiting."""
        key = self._next_case_key()
        if key is None or self.opened is None:
            return
        try:
            files = self.opened.case_files(key)
        except CtvqaError:
            return  # told when the reader gets there
        self._cases.read_ahead(files)

    def _next_case_key(self) -> str | None:
        session = self.session
        if session.questions is None or session.row is None:
            return None
        here = np.flatnonzero(session.rows == session.row)
        if not len(here):
            return None
        following = session.rows[int(here[0]) + 1 :]
        cases = session.questions.frame["case"].iloc[following]
        others = cases[cases != self._case_key]
        return None if others.empty else str(others.iloc[0])

    # ---------------------------------------------------------------- chains

    def _compute_chains(self) -> None:
        question, case = self.session.question, self.session.case
        if question is None or self._case_key != question.case_id:
            return
        if case is not None and not self._has_wanted(question, case):
            return
        if case is None and self.session.case_state is not CaseState.FAILED:
            return
        predictions = self.session.predictions
        self._start(
            "chains",
            _chains(question, case, predictions),
            partial(self._show_chains, question.id),
        )

    @staticmethod
    def _has_wanted(question: Question, case: Case) -> bool:
        return case.complete or all(s in case.masks for s in wanted_structures(question))

    def _show_chains(self, question_id: str, chains: _Chains) -> None:
        question = self.session.question
        if question is None or question.id != question_id:
            return
        self.session.update(
            reference_chain=chains.reference,
            model_chains=chains.by_model,
            comparisons=chains.comparisons,
        )
        pending = self._pending_focus
        if pending is not None and pending in chains.comparisons:
            self._pending_focus = None
            self._focus_first_difference(chains.comparisons[pending])

    # ----------------------------------------------------------------- focus

    def focus_step(self, step: EvidenceStep) -> None:
        """Go to the slice where the step's mask is largest and make it stand out."""
        mask = self.mask_of(step)
        if mask is None:  # nothing to go to: the reader stays where the former step led
            self.session.update(focused_step=step)
            return
        self._focus(mask, focus_slice(mask.region), step)

    def focus_first_difference(self, model: str) -> None:
        """Make the first differing step of a model stand out, as soon as its chain is known."""
        if model in self.session.comparisons:
            self._focus_first_difference(self.session.comparisons[model])
        else:
            self._pending_focus = model

    def _focus_first_difference(self, comparison: ChainComparison) -> None:
        first = comparison.first_difference
        if first is None:
            return
        for row in reversed(comparison.rows[: first + 1]):
            for step in (row.model, row.reference):
                if step is not None and self.mask_of(step) is not None:
                    self.focus_step(step)
                    return

    def mask_of(self, step: EvidenceStep) -> Mask | None:
        """Return the mask that a step speaks of, None where the case has none to draw."""
        case = self.session.case
        if case is None:
            return None
        mask = case.masks.get(step.mask) or case.masks.get(canonical(step.target))
        return None if mask is None or mask.region.empty else mask

    def _focus(self, mask: Mask, display_slice: int, step: EvidenceStep | None) -> None:
        found = mask.region.grid.file_slice(0, display_slice)
        file_slice = None if found is None else found[1]
        focus = MaskFocus(mask.structure, display_slice, file_slice, origin=mask.source.value)
        self.session.update(focus=focus, focused_step=step)

    def step_mask_slice(self, step: int) -> None:
        """Go to the next or previous slice that holds voxels of the focused mask."""
        case, focus = self.session.case, self.session.focus
        mask = case.masks.get(focus.structure) if case is not None and focus is not None else None
        if mask is None:
            return
        slices = slices_of(mask.region)
        here = self.layers.current_slice(0)
        side = slices[slices > here] if step > 0 else slices[slices < here][::-1]
        if len(side):
            self._focus(mask, int(side[0]), self.session.focused_step)

    def back(self) -> None:
        """Return to where the reader was before the first focus."""
        self.session.update(focus=None, focused_step=None)

    # ------------------------------------------------------------------ runs

    def run(self, name: str, kit: str, scope: str) -> None:
        """Let an answerer answer the current question, or all that the filter shows."""
        if "live" in self._jobs or "batch" in self._jobs:
            return
        answerer = models().get(name)
        if answerer is None:
            self._show_problem(NotFoundError(f"There is no model {name!r}."))
        elif scope == "question":
            self._run_question(answerer)
        else:
            self._run_filter(answerer)

    def _run_question(self, answerer: Any) -> None:
        question, case = self.session.question, self.session.case
        if question is None or case is None or not self._has_wanted(question, case):
            self._show_problem(
                CtvqaError(
                    "There is no case to look at yet.",
                    hint="Wait until its masks are read, or open a question whose case is found.",
                )
            )
            return
        self.session.update(
            progress=RunProgress(RunState.RUNNING, answerer.name, 0, 1, message=question.id)
        )
        assert self.opened is not None
        self._start(
            "live",
            _answer(answerer, question, case, self.session.answer_format, self.opened, self._began),
            self._show_live,
            self._run_failed,
            self._run_ended,
        )

    def _show_live(self, live: _Live) -> None:
        prediction = live.prediction or Prediction(
            live.question.id, live.model, "", Trace(live.turns)
        )
        run = self.session.runs.get(live.model) or Run(live.model, {}, self.session.answer_format)
        predictions = {**run.predictions, live.question.id: prediction}
        scores = dict(self.session.scores.get(live.model, {}))
        scores.pop(live.question.id, None)
        if live.score is not None:
            scores[live.question.id] = live.score
        self.session.update(
            runs={**self.session.runs, live.model: replace(run, predictions=predictions)},
            scores={**self.session.scores, live.model: scores},
        )
        if live.prediction is not None:
            failed = int(live.prediction.failed)
            self.session.update(
                progress=replace(self.session.progress, done=1, failed=failed, path=live.path)
            )

    def _run_filter(self, answerer: Any) -> None:
        opened = self.opened
        if opened is None or opened.questions is None or opened.benchmark is None:
            return
        out = result_path(opened, answerer.name, self.session.answer_format)
        out.parent.mkdir(parents=True, exist_ok=True)
        rows = [int(row) for row in self.session.rows]
        self.session.update(
            progress=RunProgress(RunState.RUNNING, answerer.name, 0, len(rows), path=str(out))
        )
        items = run_batch(opened, answerer, self.session.answer_format, out, rows=rows)
        self._start(
            "batch",
            _scored_batch(items, opened, self.session.answer_format),
            partial(self._show_batch, answerer.name, str(out)),
            self._run_failed,
            self._run_ended,
        )

    def _show_batch(self, model: str, out: str, item: _BatchItems) -> None:
        run = self.session.runs.get(model) or Run(model, {}, self.session.answer_format)
        self.session.update(
            runs={
                **self.session.runs,
                model: replace(run, path=out, predictions={**run.predictions, **item.predictions}),
            },
            scores={
                **self.session.scores,
                model: {**self.session.scores.get(model, {}), **item.scores},
            },
            progress=replace(
                self.session.progress,
                done=item.done,
                failed=item.failed,
                seconds_left=item.seconds_left,
            ),
        )

    def cancel_run(self) -> None:
        """Stop at the next answer; what is done is kept."""
        for slot in ("live", "batch"):
            if slot in self._jobs:
                self._cancel(slot)
                self.session.update(
                    progress=replace(
                        self.session.progress,
                        state=RunState.IDLE,
                        message=f"Stopped. {self.session.progress.message}",
                    )
                )

    def _run_failed(self, error: BaseException) -> None:
        self._show_problem(error)

    def _run_ended(self) -> None:
        self.session.update(progress=replace(self.session.progress, state=RunState.IDLE))


_NO_CHAINS: dict[str, Any] = {"reference_chain": None, "model_chains": {}, "comparisons": {}}


@dataclass(frozen=True)
class _BatchItems:
    """Answers gathered since the last report, so that a fast run does not flood the window."""

    predictions: Mapping[str, Prediction]
    scores: Mapping[str, Score]
    done: int
    failed: int
    seconds_left: float | None


def result_path(opened: Opened, model: str, answer_format: AnswerFormat) -> Path:
    """Return a new file for a run's results in the user's data folder."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return results_folder(opened) / f"{model}_{answer_format.value}_{stamp}.json"


def _open(request: _OpenRequest) -> Generator[object, None, None]:
    path = ensure_demo() if request.demo else request.path
    opened = open_path(path, benchmark=request.benchmark, roots=request.roots)
    yield opened
    if opened.questions is not None:
        found = tuple(opened.found_results())
        paths = (*found, *(p for p in request.results if p not in found))
        yield from _read_runs(opened, paths, AnswerFormat.MC)


def _read_runs(
    opened: Opened, paths: tuple[Path, ...], assumed: AnswerFormat
) -> Generator[_ScoredRun | CtvqaError, None, None]:
    assert opened.benchmark is not None
    assert opened.questions is not None
    for path in paths:
        try:
            run = opened.read_results(path)
            scores = opened.benchmark.scores(opened.questions, run, run.answer_format or assumed)
        except CtvqaError as error:
            yield error
        else:
            yield _ScoredRun(run, scores)


def _rescore(
    opened: Opened, runs: tuple[Run, ...], answer_format: AnswerFormat
) -> Generator[_ScoredRun, None, None]:
    assert opened.benchmark is not None
    assert opened.questions is not None
    for run in runs:
        yield _ScoredRun(run, opened.benchmark.scores(opened.questions, run, answer_format))


def _chains(
    question: Question, case: Case | None, predictions: Mapping[str, Prediction]
) -> Generator[_Chains, None, None]:
    if case is None:  # what the models did can be read all the same
        models_alone = {m: prediction_chain(question, p) for m, p in predictions.items()}
        yield _Chains(None, models_alone, {})
        return
    reference = reference_chain(question, case)
    by_model = {m: prediction_chain(question, p, case) for m, p in predictions.items()}
    comparisons = {m: compare_chains(reference, c) for m, c in by_model.items()}
    by_model = {m: judged(c, comparisons[m]) for m, c in by_model.items()}
    yield _Chains(reference, by_model, comparisons)


def _answer(
    answerer: Answerer,
    question: Question,
    case: Case,
    answer_format: AnswerFormat,
    opened: Opened,
    began: str,
) -> Generator[_Live, None, None]:
    turns: tuple[Turn, ...] = ()
    for event in answerer.answer(question, case, answer_format):
        if isinstance(event, Turn):
            turns = (*turns, event)
            yield _Live(answerer.name, question, turns)
        elif isinstance(event, Prediction):
            assert opened.benchmark is not None
            score = opened.benchmark.score(question, event, answer_format)
            path = keep_answer(opened, answerer, answer_format, question, event, began=began)
            yield _Live(answerer.name, question, turns, event, score, str(path))


def _scored_batch(
    items: Generator[BatchProgress, None, None], opened: Opened, answer_format: AnswerFormat
) -> Generator[_BatchItems, None, None]:
    assert opened.benchmark is not None
    assert opened.questions is not None
    predictions: dict[str, Prediction] = {}
    scores: dict[str, Score] = {}
    reported = 0.0
    last: BatchProgress | None = None
    try:
        for last in items:
            if last.prediction is not None:
                key = last.prediction.question_id
                question = opened.questions.by_id(key)
                predictions[key] = last.prediction
                scores[key] = opened.benchmark.score(question, last.prediction, answer_format)
            if time.monotonic() - reported >= REPORT_EVERY_S:
                yield _batch_items(predictions, scores, last)
                predictions, scores, reported = {}, {}, time.monotonic()
        if last is not None:
            yield _batch_items(predictions, scores, last)
    finally:
        items.close()  # closing it writes the file


def _batch_items(
    predictions: dict[str, Prediction], scores: dict[str, Score], progress: BatchProgress
) -> _BatchItems:
    return _BatchItems(predictions, scores, progress.done, progress.failed, progress.seconds_left)
