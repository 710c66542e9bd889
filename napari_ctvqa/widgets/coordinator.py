"""Coordinator: fulfils what panels wish for, with everything slow in a Job.

It opens, filters, chooses questions, reads cases and has chains computed; ``focus`` and ``runs``
do what their names say.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QObject

from napari_ctvqa.core.checks import Validation
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.ordering import ordered
from napari_ctvqa.core.records import AnswerFormat, Outcome, named_apart
from napari_ctvqa.core.session import CaseState, Session
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.demo import FIRST_MODEL, FIRST_QUESTION, begin_demo
from napari_ctvqa.evidence.chains import wanted_structures
from napari_ctvqa.io.case_cache import CaseCache
from napari_ctvqa.runners.desk import OpenRequest, ScoredRun, opened_steps, read_runs, rescored
from napari_ctvqa.runners.kept import results_folder
from napari_ctvqa.runners.opening import Opened
from napari_ctvqa.runners.probing import holds_probes
from napari_ctvqa.widgets.auditor import Auditor
from napari_ctvqa.widgets.chain_work import NO_CHAINS, ChainWork
from napari_ctvqa.widgets.focus import Focus
from napari_ctvqa.widgets.jobs import Jobs
from napari_ctvqa.widgets.prober import Prober
from napari_ctvqa.widgets.problems import report
from napari_ctvqa.widgets.runs import Runs
from napari_ctvqa.widgets.saw import Saw
from napari_ctvqa.widgets.segmenter import Segmenter
from napari_ctvqa.widgets.structures import Structures
from napari_ctvqa.widgets.validator import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from napari_ctvqa.core.cases import Case, CaseFiles
    from napari_ctvqa.core.records import Score
    from napari_ctvqa.widgets.layers import CaseLayers


class Coordinator(QObject):
    """Connects one Session to the files, the evidence engine, the runners and the layers."""

    def __init__(self, session: Session, layers: CaseLayers) -> None:
        super().__init__()
        self.session = session
        self.layers = layers
        self.opened: Opened | None = None
        self.jobs = Jobs(self._show_problem)
        self.focus = Focus(session, layers)
        self.chains = ChainWork(session, self.jobs, self._show_problem, self.focus.chains_arrived)
        self.runs = Runs(session, self.jobs, lambda: self.opened)
        self.saw = Saw(session, self.jobs, lambda: self.opened)
        self.validator = Validator(session, self.jobs, lambda: self.opened)
        self.auditor = Auditor(session, self.jobs, lambda: self.opened)
        self.prober = Prober(session, self.jobs, lambda: self.opened, self.runs)
        self.segmenter = Segmenter(session, self.jobs)
        self.structures = Structures(session, self.jobs, self.focus)
        self._case_key = ""
        """The question's word for the case that is shown or being read."""
        self._untrusted: set[str] = set()
        """Cases whose geometry came out red."""
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
            (wishes.focus_step, self.focus.step),
            (wishes.mask_slice, self.focus.mask_slice),
            (wishes.back, self.focus.back),
            (wishes.run, self.runs.start),
            (wishes.cancel_run, self.runs.cancel),
            (wishes.force_stop, self.runs.force_stop),
            (wishes.unload, self.runs.unload),
            (wishes.replay, self.runs.replay),
            (wishes.probe, self.prober.start),
            (wishes.cancel_probes, self.prober.cancel),
            (wishes.show_probe, self.prober.show_sent),
            (wishes.validate, self.validator.start),
            (wishes.cancel_validate, self.validator.cancel),
            (wishes.audit, self.auditor.start),
            (wishes.absent_means_none, self.set_absent_means_none),
            (wishes.segment, self.segmenter.start),
            (wishes.cancel_segment, self.segmenter.cancel),
            (wishes.use_segmented, self.segmenter.use),
            (session.case_changed, self.segmenter.look),
            (wishes.toggle_overlays, layers.toggle_overlays),
            (wishes.show_picture, layers.show_picture),
            (session.runs_changed, self._compute_chains),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)

    def close(self) -> None:
        """Stop all work and let go of the session."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        self.structures.close()
        self.saw.close()
        self.prober.cancel()
        self.runs.close()
        self.jobs.close()
        self._cases.close()

    @property
    def busy(self) -> bool:
        """Return whether anything asked for is still being read, computed or answered."""
        return self.jobs.busy or bool(self.session.turns and self.session.turns.waiting)

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
        made_by: Callable[[], Path] | None = None,
    ) -> None:
        """Open a case, a benchmark or a question file; see ``runners.opening``."""
        self._open(
            OpenRequest(
                Path(str(path)),
                benchmark,
                tuple(roots),
                tuple(results),
                question_id,
                where,
                made_by,
            )
        )

    def open_demo(self) -> None:
        """Make the demo data if they are not there yet, and open them on a failure."""
        self.open("demo", question_id=FIRST_QUESTION, made_by=lambda: begin_demo()())
        self.focus.first_difference(FIRST_MODEL)

    def _open(self, request: OpenRequest) -> None:
        self.focus.forget()
        self.prober.abandon()
        self.runs.abandon()
        self.chains.forget()
        self.auditor.forget()
        for slot in ("case", "validate"):
            self.jobs.cancel(slot)
        self.session.update(
            case_state=CaseState.LOADING,
            case_message=f"Opening {request.path.name} …",
            **NO_CHAINS,  # what is asked for from now on is about what is being opened
        )
        self.jobs.start(
            "open",
            opened_steps(request, self.session.answer_format),
            partial(self._show_opened, request),
            self._open_failed,
        )

    def _open_failed(self, error: BaseException) -> None:
        self.session.update(case_state=CaseState.FAILED, case_message=str(error))
        self._show_problem(error)
        self._compute_chains()  # what was open before is still there

    def _show_opened(self, request: OpenRequest, item: object) -> None:
        if isinstance(item, ScoredRun):
            self._add_run(item)
            return
        if isinstance(item, CtvqaError):
            self._show_problem(item)
            return
        assert isinstance(item, Opened)
        self.opened = item
        self._untrusted.clear()
        self.chains.forget()
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
            validation=Validation(),
            audited=None,
            results_folder=results_folder(item) if item.questions is not None else None,
            **NO_CHAINS,
        )
        if item.questions is None:
            self._read_case("", item.case_files(), ())
            return
        self.runs.look_for_unfinished()
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
        if holds_probes(Path(str(path))):
            self.prober.show_file(Path(str(path)))
            return
        opened = self.opened
        self.jobs.start(
            f"results {path}",
            read_runs(opened, (Path(str(path)),), self.session.answer_format),
            partial(self._show_opened, OpenRequest(opened.path)),
        )

    def _add_run(self, item: ScoredRun) -> None:
        session = self.session
        run = named_apart(item.run, session.runs)
        session.update(
            runs={**session.runs, run.model: run},
            scores={**session.scores, run.model: self._trusted(item.scores)},
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
            self.jobs.start(
                "rescore",
                rescored(self.opened, unsaid, self.session.answer_format),
                self._add_run,
            )

    def select_row(self, row: int) -> None:
        """Make a question the current one and its case the shown one."""
        questions = self.session.questions
        if questions is None or not 0 <= row < len(questions):
            return
        try:
            question = questions[row]
        except CtvqaError as error:
            self._show_problem(error)
            return
        self.chains.forget()
        self.session.update(row=row, question=question, focus=None, focused_step=None, **NO_CHAINS)
        if self.session.case is not None and self._case_key == question.case_id:
            self._compute_chains()
            return
        assert self.opened is not None
        try:
            files = self.opened.case_files(question.case_id)
        except CtvqaError as error:
            self.jobs.cancel("case")
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
        self.jobs.start(
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
        if not case.report.side_trusted and self._case_key not in self._untrusted:
            self._untrusted.add(self._case_key)
            scores = {m: self._trusted(found) for m, found in self.session.scores.items()}
            self.session.update(scores=scores)
        self._compute_chains()

    def _trusted(self, scores: Mapping[str, Score]) -> Mapping[str, Score]:
        """Leave what is about a case with red geometry unscored: nothing in it can be checked."""
        questions = self.session.questions
        if questions is None or not self._untrusted:
            return scores
        red = questions.frame.loc[questions.frame["case"].isin(self._untrusted), "id"]
        unscored = {
            key: replace(scores[key], official=Outcome.UNSCORED, ours=Outcome.UNSCORED)
            for key in red
            if key in scores
        }
        return {**scores, **unscored}

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

    def set_absent_means_none(self, assume: bool) -> None:
        """Take lesions without a mask file as not there, or as unknown."""
        self.session.update(absent_means_none=assume)
        self._compute_chains()

    def _compute_chains(self) -> None:
        self.chains.begin(self._case_key)
