"""A run on a cluster: workers check or answer case by case, the client alone writes the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import FailureKind
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.core.records import EMPTY, Prediction, Question, Trace, Turn
from napari_ctvqa.io.seen_moving import unpacked
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import OWN_KEYS, Written, failed_prediction
from napari_ctvqa.runners.cluster import Cluster
from napari_ctvqa.runners.cluster_work import answers, can_answer, can_check, checks

if TYPE_CHECKING:
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.runners.batch import Asking
    from napari_ctvqa.runners.check_pool import Done, Task
    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.cluster import Came

AT_A_TIME, RULES_AT_A_TIME = 8, 100
"""Questions of a case that a worker answers before it tells of them: a model, the quick rules."""


def checking(cluster: Cluster) -> Callable[[Iterator[Task]], Generator[Done | None, None, None]]:
    """Return what does the tasks of ``runners.validate`` on a cluster."""

    def run(tasks: Iterator[Task]) -> Generator[Done | None, None, None]:
        first = next(tasks, None)
        if first is None:
            return
        ct = first[1]["case"]["ct"]
        if ct is not None:
            cluster.prepare(can_check, {}, Path(ct))
        for came in cluster.run(checks, chain([first], tasks)):
            if came is None:
                yield None
            else:
                yield came.key, came.error or json.loads(came.value)

    return run


@contextmanager
def answers_on(
    scheduler: str, wanted: Wanted, answerer: Answerer
) -> Generator[ClusterAnswers | None, None, None]:
    """Give what answers on a cluster, beside a window; None without a scheduler's address.

    ``local`` leaves one processor of this machine alone; of a model that each process would load
    it starts one.

    Raises
    ------
    ClusterError
        When it cannot be had.
    """
    if not scheduler:
        yield None
        return
    loads = getattr(answerer, "way_kind", "") == "worker"
    processes = 1 if loads else max(1, (os.cpu_count() or 1) - 1)
    with Cluster(scheduler, processes=processes) as cluster:
        yield ClusterAnswers(cluster, wanted)


class ClusterAnswers:
    """What answers a batch's questions on a cluster.

    Parameters
    ----------
    cluster
        Where.
    wanted
        Who answers: each worker makes an answerer of it.
    """

    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self._cluster, self._wanted = cluster, wanted

    def __call__(
        self, asking: Asking, pending: Sequence[int]
    ) -> Generator[tuple[Question, object] | None, None, None]:
        """Yield a question and its answer as they come, None now and then.

        Raises
        ------
        ClusterError
            When a worker cannot do it, or the cluster is lost.
        """
        opened = asking.opened
        common = {"opened": _opened(asking), "wanted": self._wanted_data(asking)}
        self._cluster.prepare(can_answer, common, opened.path.absolute())
        absent: list[tuple[Question, Prediction]] = []
        tasks = self._tasks(asking, pending, common, absent)
        for came in self._cluster.run(answers, tasks):
            yield from absent
            absent.clear()
            if came is None:
                yield None
            else:
                yield from _answered(asking, came)
        yield from absent

    def _wanted_data(self, asking: Asking) -> dict[str, Any]:
        """Return who answers, with the model's name: a worker need not ask a server for it."""
        data: dict[str, Any] = plain(self._wanted)
        if self._wanted.server and isinstance(asking.answerer, ModelAnswerer):
            data["server_model"] = asking.answerer.model_id
        for name in ("folder", "repository", "base"):
            if data[name]:
                data[name] = str(Path(data[name]).expanduser().absolute())
        data["predicted"] = [str(root.absolute()) for root in self._wanted.predicted]
        return data

    def _tasks(
        self,
        asking: Asking,
        pending: Sequence[int],
        common: Mapping[str, Any],
        absent: list[tuple[Question, Prediction]],
    ) -> Iterator[tuple[list[Question], dict[str, Any]]]:
        """Yield a task for a case or a part of it; questions without a case go to ``absent``."""
        questions = asking.opened.questions
        assert questions is not None
        slow = isinstance(asking.answerer, ModelAnswerer)
        for case_id, rows in questions.by_case(pending):
            size = AT_A_TIME if slow else RULES_AT_A_TIME
            for begin in range(0, len(rows), size):
                some = rows[begin : begin + size]
                asked = [questions[row] for row in some]
                try:
                    asking.opened.case_files(case_id)
                except CtvqaError as error:
                    name = asking.answerer.name
                    absent += [(q, failed_prediction(q, name, str(error))) for q in asked]
                    continue
                yield (
                    asked,
                    {
                        **common,
                        "case_id": case_id,
                        "rows": some,
                        "answer_format": asking.answer_format.value,
                        "assume_none": asking.assume_none,
                        "segmented": asking.segmented,
                        "pictures": asking.seen.pictures,
                    },
                )


def _opened(asking: Asking) -> dict[str, Any]:
    opened = asking.opened
    assert opened.benchmark is not None
    return {
        "path": str(opened.path.absolute()),
        "benchmark": opened.benchmark.name,
        "roots": [str(root.absolute()) for root in opened.roots],
    }


def _answered(asking: Asking, came: Came) -> Iterator[tuple[Question, object]]:
    """Yield the answers of a task, what the model saw on disk before them."""
    asked: list[Question] = came.key
    name = asking.answerer.name
    if came.error is not None:
        kind = FailureKind.CRASHED if came.kept_out else FailureKind.OUT_OF_MEMORY
        for question in asked:
            yield question, failed_prediction(question, name, str(came.error), kind)
        return
    text, moved = came.value
    data = json.loads(text)
    by_id = {row["qid"]: row for row in data["rows"]}
    notes = unpacked(moved, by_id, asking.seen)
    for question in asked:
        row = by_id.get(question.id)
        if row is None:
            problem = "the worker gave no answer to it"
            yield question, failed_prediction(question, name, problem)
            continue
        if note := notes.get(question.id):
            row["note"] = f"{row['note']}; {note}" if row.get("note") else note
        yield question, Written(_prediction(row, name), row, data["software"])


def _prediction(row: Mapping[str, Any], model: str) -> Prediction:
    """Return what is told of an answer while the run goes on; its calls stand in the row."""
    errors = tuple(
        Turn(entry["step"], error=entry["error"]) for entry in row["trajectory"] if "error" in entry
    )
    record = {key: row[key] for key in (*OWN_KEYS, "note") if key in row}
    return Prediction(
        row["qid"],
        model,
        row["raw_output"],
        Trace(errors),
        row.get("seconds"),
        MappingProxyType(record) if record else EMPTY,
    )
