"""Validate references: recompute them from the masks, case by case, on several processors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.checks import FIELDS, Checked, ReferenceCheck
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.question_checks import asked_twice, duplicate_flag
from napari_ctvqa.evidence.check import unchecked
from napari_ctvqa.io.check_table import CheckTable
from napari_ctvqa.runners.check_pool import Done, Task, run_tasks
from napari_ctvqa.runners.check_worker import sentence, task

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.runners.opening import Opened

Elsewhere = Callable[[Iterator[Task]], Generator["Done | None", None, None]]
_RECORD_ERRORS = (CtvqaError, OSError, ValueError, LookupError, TypeError)
"""What building a question from a damaged record, or finding its case, may raise."""


@dataclass(frozen=True, slots=True)
class ValidationProgress:
    """One step of a validation: the checks just made, by row, and how far it is.

    ``failed`` counts questions whose case or record could not be read. ``seconds_left`` is None
    until it can be estimated.
    """

    done: int
    total: int
    failed: int
    checks: tuple[Checked, ...] = ()
    message: str = ""
    seconds_left: float | None = None
    per_second: float = 0.0
    complete: bool = False


def validate(
    opened: Opened,
    rows: Iterable[int],
    *,
    out: Path | None = None,
    jobs: int = 1,
    assume_none: bool = False,
    polite: bool = False,
    elsewhere: Elsewhere | None = None,
) -> Generator[ValidationProgress, None, None]:
    """Recompute the references of ``rows``, yielding after each case and now and then between.

    Parameters
    ----------
    opened
        A benchmark or a question file.
    rows
        Rows of its questions.
    out
        A CSV file; with one, each case's checks are on disk before they are yielded, and what an
        interrupted validation has done is not done again. None keeps nothing.
    jobs
        Worker processes; one keeps one processor busy.
    assume_none
        Take lesions without a mask file as not there, see ``core.assumed``.
    polite
        Let everything else on the machine go first.
    elsewhere
        Does the tasks in place of our own processes (``runners.cluster_answers``).

    Raises
    ------
    CtvqaError
        When ``out`` cannot be used, or PATH holds no questions.
    """
    if opened.questions is None or opened.benchmark is None:
        raise CtvqaError(
            f"{opened.path} holds no questions.", hint="Give a benchmark folder or question file."
        )
    wanted = list(dict.fromkeys(int(row) for row in rows))
    work = _Work(opened, opened.questions, jobs, assume_none, polite, elsewhere)
    if out is None:
        yield from work.go(wanted, {}, None)
        return
    run = {
        "benchmark": opened.benchmark.name,
        "path": str(opened.path),
        "questions": len(opened.questions),
        "absent_means_none": assume_none,
    }
    with CheckTable(out, FIELDS, run) as table:
        done = _known(opened.questions, wanted, table)
        try:
            yield from work.go(wanted, done, table)
        except BaseException:
            table.write(work.records(wanted))
            raise
        table.finish(work.records(wanted))


def _known(
    questions: QuestionSet, wanted: Sequence[int], table: CheckTable
) -> dict[int, ReferenceCheck]:
    """Return what the journal has of the wanted rows; what failed then is tried again."""
    ids = questions.frame["id"]
    found = {row: table.done.get((row, str(ids.iat[row]))) for row in wanted}
    known = {row: read_check(data) for row, data in found.items() if data is not None}
    return {row: check for row, check in known.items() if not check.failed}


def read_check(data: Mapping[str, Any]) -> ReferenceCheck:
    """Return a check from its JSON data."""
    return ReferenceCheck(
        **{**data, "caveats": tuple(data["caveats"]), "flags": tuple(data["flags"])}
    )


@dataclass
class _Work:
    opened: Opened
    questions: QuestionSet
    jobs: int
    assume_none: bool
    polite: bool
    elsewhere: Elsewhere | None
    checks: dict[int, ReferenceCheck] = field(default_factory=dict)

    def go(
        self, wanted: Sequence[int], done: Mapping[int, ReferenceCheck], table: CheckTable | None
    ) -> Iterator[ValidationProgress]:
        """Check what is not done yet, keeping each case's checks before telling of them."""
        self.checks.update(done)
        pace = _Pace(len(wanted))
        pace.add(tuple(done.items()), made=False)
        notes = list(table.notes) if table else []
        if done:
            notes.append(f"{len(done)} checks are taken over from {table.partial if table else ''}")
        yield pace.now(tuple(done.items()), message="; ".join(notes))
        pending = [row for row in wanted if row not in done]
        for made in self._made(pending):
            if table is not None and made:
                table.add([(row, asdict(check)) for row, check in made])
            self.checks.update(made)
            pace.add(made, made=True)
            yield pace.now(made)
        yield pace.now(complete=True)

    def records(self, wanted: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the record of each row that was checked, in the order of ``wanted``."""
        return (self.checks[row].record() for row in wanted if row in self.checks)

    def _made(self, rows: Sequence[int]) -> Iterator[tuple[Checked, ...]]:
        """Yield the checks of one case after the other as they are done, and none now and then."""
        unreadable: list[Checked] = []
        tasks = self._tasks(rows, unreadable)
        doing = run_tasks(tasks, self.jobs, polite=self.polite)
        if self.elsewhere is not None:
            doing = self.elsewhere(tasks)
        with closing(doing) as results:
            for result in results:
                if result is None:
                    yield ()
                    continue
                asked, answer = result
                if isinstance(answer, CtvqaError):
                    yield tuple((row, unchecked(q, str(answer))) for row, q in asked)
                else:
                    checks = (read_check(data) for data in answer)
                    yield tuple((row, c) for (row, _), c in zip(asked, checks, strict=True))
                if unreadable:
                    yield tuple(unreadable)
                    unreadable.clear()
        if unreadable:
            yield tuple(unreadable)

    def _tasks(
        self, rows: Sequence[int], unreadable: list[Checked]
    ) -> Iterator[tuple[list[tuple[int, Question]], dict[str, Any]]]:
        """Yield a task a case; what cannot even be asked goes to ``unreadable``."""
        for case_id, group in self.questions.by_case(rows):
            asked: list[tuple[int, Question]] = []
            for row in group:
                try:
                    asked.append((row, self.questions[row]))
                except _RECORD_ERRORS as error:
                    unreadable.append((row, self._no_record(row, error)))
            try:
                files = self.opened.case_files(case_id)
            except _RECORD_ERRORS as error:
                unreadable += [(row, unchecked(q, sentence(error))) for row, q in asked]
                continue
            if asked:
                yield asked, self._task(files, asked)

    def _task(self, files: CaseFiles, asked: Sequence[tuple[int, Question]]) -> dict[str, Any]:
        twice = asked_twice(self.questions, asked[0][0])
        flagged = [
            (question, _said(duplicate_flag(self.questions, row, twice.get(row, ()))))
            for row, question in asked
        ]
        return task(files, flagged, assume=self.assume_none)

    def _no_record(self, row: int, error: BaseException) -> ReferenceCheck:
        frame = self.questions.frame
        return ReferenceCheck(
            str(frame["id"].iat[row]),
            str(frame["subtype"].iat[row]),
            "",
            reason=f"the record cannot be read: {sentence(error)}",
            failed=True,
        )


def _said(flag: str) -> tuple[str, ...]:
    return (flag,) if flag else ()


@dataclass(slots=True)
class _Pace:
    """Counts, and how long the rest will take at the rate so far."""

    total: int
    done: int = 0
    made: int = 0
    failed: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, checks: Sequence[Checked], *, made: bool) -> None:
        """Count checks; those of an earlier run say nothing about the rate."""
        self.done += len(checks)
        self.made += len(checks) if made else 0
        self.failed += sum(check.failed for _, check in checks)

    def now(
        self, checks: tuple[Checked, ...] = (), *, message: str = "", complete: bool = False
    ) -> ValidationProgress:
        """Return where it is."""
        spent = time.monotonic() - self.began
        rate = self.made / spent if spent > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else None
        return ValidationProgress(
            self.done, self.total, self.failed, checks, message, left, rate, complete
        )
