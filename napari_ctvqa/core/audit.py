"""Audit of a run: what the official scorer and a person make of each answer, in cross tables.

Every number is a list of question ids, so that whoever doubts it can look at the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from napari_ctvqa.core.intervals import Interval, wilson
from napari_ctvqa.core.records import Outcome
from napari_ctvqa.core.unread import Unread, unread_of

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Score

ALL, STAGE, SUBTYPE = "all", "stage", "subtype"
OUTCOMES = tuple(Outcome)
NOT_STATED = "not stated"

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """How many of ``n`` scored answers are right.

    ``credit`` is what they add up to: ``right``, or with partial credit for numbers another sum.
    """

    n: int
    right: int
    credit: float

    @property
    def share(self) -> float | None:
        """Return credit a scored answer, 0 to 1; None where nothing is scored."""
        return self.credit / self.n if self.n else None

    @property
    def interval(self) -> Interval | None:
        """Return the 95 % interval of the share."""
        return wilson(self.credit, self.n)

    @property
    def partial(self) -> bool:
        """Return whether partial credit is in it."""
        return abs(self.credit - self.right) > 1e-9


@dataclass(frozen=True)
class CrossTable:
    """The answers of one group: official outcome against the outcome as a person reads it.

    ``group`` is ALL, STAGE or SUBTYPE and ``label`` its name; ``cells`` holds ids by (official,
    as read). ``unread`` holds ids by why a person reads nothing. ``differing`` are those of which
    the two read different answers, or count them differently.
    """

    group: str
    label: str
    cells: Mapping[tuple[Outcome, Outcome], Ids]
    official: Total
    ours: Total
    unread: Mapping[Unread, Ids] = field(default_factory=dict)
    differing: Ids = ()
    credited_failures: Ids = ()
    """Failed answers to which the official scorer gives credit all the same."""

    @property
    def n(self) -> int:
        """Return how many answers there are, scored or not."""
        return sum(map(len, self.cells.values()))

    def ids(self, official: Outcome | None = None, ours: Outcome | None = None) -> Ids:
        """Return the ids of a cell; of a row or a column, where one outcome is left open."""
        return tuple(
            key
            for (one, other), keys in self.cells.items()
            if official in (None, one) and ours in (None, other)
            for key in keys
        )

    def credited(self, kind: Unread) -> Ids:
        """Return the unread answers of a kind that the official scorer counts as right."""
        right = set(self.ids(Outcome.RIGHT))
        return tuple(key for key in self.unread.get(kind, ()) if key in right)


@dataclass(frozen=True)
class Audit:
    """A run's cross tables: of all its answers, by stage and by subtype.

    ``questions`` is how many there are, answered or not. An answer with several labels (``a; b``)
    counts in each group that it names.
    """

    model: str
    questions: int
    total: CrossTable
    stages: tuple[CrossTable, ...] = ()
    subtypes: tuple[CrossTable, ...] = ()

    @property
    def tables(self) -> tuple[CrossTable, ...]:
        """Return all cross tables, that of all answers first."""
        return (self.total, *self.stages, *self.subtypes)

    @property
    def unanswered(self) -> int:
        """Return how many questions the run has no answer to."""
        return self.questions - self.total.n


def audit(model: str, questions: QuestionSet, scores: Mapping[str, Score]) -> Audit:
    """Return the audit of a run from its scores by question id; unknown ids are left out.

    Groups come in the order in which the questions name them.
    """
    row_of = questions.row_of
    rows = sorted((row_of[key], key) for key in scores if key in row_of)
    facts = [(row, _fact(key, scores[key])) for row, key in rows]
    return Audit(
        model,
        len(questions),
        _cross_table(ALL, "", [fact for _, fact in facts]),
        _grouped(STAGE, questions, facts),
        _grouped(SUBTYPE, questions, facts),
    )


@dataclass(frozen=True, slots=True)
class _Fact:
    """What one answer adds to every table that it is in."""

    id: str
    pair: tuple[Outcome, Outcome]
    credit: float
    unread: Unread | None
    differing: bool
    credited_failure: bool


def _fact(key: str, score: Score) -> _Fact:
    scored = score.official is not Outcome.UNSCORED
    return _Fact(
        key,
        (score.official, score.ours),
        official_credit(score) if scored else 0.0,
        unread_of(score),
        score.disagrees,
        score.counted_though_failed,
    )


def labels_of(value: str) -> list[str]:
    """Return the labels of a stage or subtype; ``not stated`` for none."""
    return list(dict.fromkeys(filter(None, map(str.strip, value.split("; "))))) or [NOT_STATED]


def _grouped(
    group: str, questions: QuestionSet, facts: Sequence[tuple[int, _Fact]]
) -> tuple[CrossTable, ...]:
    """Return a table a label; none where no question has one."""
    values = [str(value) for value in questions.frame[group].tolist()]
    by_value: dict[str, list[str]] = {value: labels_of(value) for value in dict.fromkeys(values)}
    if all(labels == [NOT_STATED] for labels in by_value.values()):
        return ()
    members: dict[str, list[_Fact]] = {}
    for labels in by_value.values():
        members.update({label: [] for label in labels if label not in members})
    for row, fact in facts:
        for label in by_value[values[row]]:
            members[label].append(fact)
    return tuple(_cross_table(group, label, m) for label, m in members.items() if m)


def _cross_table(group: str, label: str, facts: Sequence[_Fact]) -> CrossTable:
    cells: dict[tuple[Outcome, Outcome], list[str]] = defaultdict(list)
    unread: dict[Unread, list[str]] = defaultdict(list)
    for fact in facts:
        cells[fact.pair].append(fact.id)
        if fact.unread is not None:
            unread[fact.unread].append(fact.id)
    frozen = {
        (one, other): tuple(cells[one, other])
        for one in OUTCOMES
        for other in OUTCOMES
        if (one, other) in cells
    }
    return CrossTable(
        group, label, frozen,
        _total(frozen, 0, sum(fact.credit for fact in facts)),
        _total(frozen, 1, None),
        {kind: tuple(unread[kind]) for kind in Unread if kind in unread},
        tuple(fact.id for fact in facts if fact.differing),
        tuple(fact.id for fact in facts if fact.credited_failure),
    )  # fmt: skip


def official_credit(score: Score) -> float:
    """Return what the official scorer gives for one scored answer, 0 to 1."""
    return float(score.official is Outcome.RIGHT) if score.value is None else score.value


def _total(cells: Mapping[tuple[Outcome, Outcome], Ids], which: int, credit: float | None) -> Total:
    scored = {pair: ids for pair, ids in cells.items() if pair[which] is not Outcome.UNSCORED}
    right = sum(len(ids) for pair, ids in scored.items() if pair[which] is Outcome.RIGHT)
    n = sum(map(len, scored.values()))
    return Total(n, right, float(right) if credit is None else credit)
