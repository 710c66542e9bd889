"""In which order questions are listed: by one column, ties in file order."""

from __future__ import annotations

import operator
import weakref
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from napari_ctvqa.core.questions import COLUMNS
from napari_ctvqa.core.records import Outcome, Score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.questions import QuestionSet

Rows = npt.NDArray[np.intp]

OUTCOME_ORDER = (Outcome.WRONG, Outcome.UNREAD, Outcome.RIGHT, Outcome.UNSCORED)
"""Failures first: they are what a reviewer looks for. Questions without a score come last."""

MODEL_PREFIX = "model:"
"""``"model:<name>"`` orders by that model's official outcome."""

_ranks_of: weakref.WeakKeyDictionary[QuestionSet, dict[str, Rows]] = weakref.WeakKeyDictionary()


def ordered(
    rows: Rows,
    questions: QuestionSet,
    column: str,
    *,
    descending: bool = False,
    scores: Mapping[str, Mapping[str, Score]] | None = None,
) -> Rows:
    """Return ``rows`` sorted by a column of the frame or by ``"model:<name>"``.

    An empty or unknown column gives file order. Equal values keep file order in both directions.
    """
    rows = np.sort(rows)
    if column.startswith(MODEL_PREFIX):
        ranks = _outcome_ranks(questions, (scores or {}).get(column[len(MODEL_PREFIX) :], {}))
    elif column in COLUMNS:
        ranks = _column_ranks(questions, column)
    else:
        return rows[::-1] if descending else rows
    keys = -ranks[rows] if descending else ranks[rows]
    return rows[np.argsort(keys, kind="stable")]


def _outcome_ranks(questions: QuestionSet, scores: Mapping[str, Score]) -> Rows:
    ranks = np.full(len(questions), len(OUTCOME_ORDER), np.intp)
    row_of = questions.row_of
    for question_id, score in scores.items():
        row = row_of.get(question_id)
        if row is not None:
            ranks[row] = OUTCOME_ORDER.index(score.shown)
    return ranks


def _column_ranks(questions: QuestionSet, column: str) -> Rows:
    known = _ranks_of.setdefault(questions, {})
    if column not in known:
        known[column] = _ranks(questions.frame[column])
    return known[column]


def _ranks(values: pd.Series) -> Rows:
    """Return each value's place among the distinct values.

    Sorting half a million distinct strings takes Python a third of a second. Ids mostly come
    sorted and many texts are alike, so sorted values are only compared with their neighbours, and
    of the others only the distinct ones are sorted.
    """
    filled = values.fillna("")
    texts = filled.tolist()
    if all(map(operator.le, texts, texts[1:])):
        steps = np.fromiter(map(operator.ne, texts, texts[1:]), np.intp, max(0, len(texts) - 1))
        return np.concatenate([np.zeros(min(1, len(texts)), np.intp), np.cumsum(steps)])
    codes, found = pd.factorize(filled)
    distinct = found.tolist()
    places = np.empty(len(distinct), np.intp)
    places[sorted(range(len(distinct)), key=distinct.__getitem__)] = np.arange(len(distinct))
    return np.asarray(places[codes], np.intp)
