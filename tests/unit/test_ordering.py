from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from napari_ctvqa.core.ordering import ordered
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Outcome, Score


def _questions(ids="cab", subtypes=("z", "a", "z")):
    frame = pd.DataFrame(
        {
            "id": list(ids),
            "case": "1",
            "stage": "s",
            "subtype": list(subtypes),
            "text": [f"text {key}" for key in ids],
        }
    )

    def build(_row):
        raise AssertionError("sorting must not build questions")

    return QuestionSet("made", Path("made.json"), frame, build)


def _score(outcome):
    return Score(outcome, "", outcome, "")


def test_rows_are_sorted_by_a_text_column():
    assert ordered(np.arange(3), _questions(), "id").tolist() == [1, 2, 0]
    assert ordered(np.arange(3), _questions(), "id", descending=True).tolist() == [0, 2, 1]


@pytest.mark.parametrize("descending", [False, True])
def test_equal_values_keep_file_order(descending):
    rows = ordered(np.arange(3), _questions(), "subtype", descending=descending).tolist()
    assert rows.index(0) < rows.index(2)


def test_only_the_given_rows_come_back():
    assert ordered(np.array([2, 0]), _questions(), "id").tolist() == [2, 0]
    assert ordered(np.array([2, 0]), _questions(), "").tolist() == [0, 2]


def test_failures_come_first_and_unanswered_questions_last():
    questions = _questions("abcd", ("s",) * 4)
    scores = {"m": {"a": _score(Outcome.RIGHT), "d": _score(Outcome.WRONG), "gone": None}}
    rows = ordered(np.arange(4), questions, "model:m", scores=scores)
    assert rows.tolist() == [3, 0, 1, 2]


def test_an_unknown_column_gives_file_order():
    assert ordered(np.array([2, 1, 0]), _questions(), "nonsense").tolist() == [0, 1, 2]


def test_missing_values_are_sorted_and_not_mistaken():
    questions = _questions("abc", ("z", None, "a"))
    assert set(ordered(np.arange(3), questions, "subtype").tolist()) == {0, 1, 2}
    assert ordered(np.array([0, 2]), questions, "subtype").tolist() == [2, 0]
