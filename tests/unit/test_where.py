"""The grammar of --where."""

from pathlib import Path

import pandas as pd
import pytest

from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Outcome, Question, Reference, Score
from napari_ctvqa.core.where import WhereError, parse_where

ROWS = [
    ("q1", "BDMAP_00000001", "recognition", "liver lesion existence", "Is there a liver lesion?"),
    ("q2", "BDMAP_00000001", "measurement", "organ volume measurement", "Volume of the liver?"),
    ("q3", "BDMAP_00000012", "measurement", "lesion volume measurement", "Volume of the lesion?"),
    ("q4", "case two", "visual reasoning", "lesion counting", "How many LESIONS, T2-weighted?"),
    ("q5", "", "", "Laterality & Side; Depth", "Über-segment 4: where?"),
]


def score(official, ours=None):
    return Score(official, "", ours or official, "")


SCORES = {
    "m3d": {"q1": score(Outcome.RIGHT), "q2": score(Outcome.WRONG), "q3": score(Outcome.UNREAD)},
    "m3d-large": {"q1": score(Outcome.WRONG, Outcome.RIGHT), "q4": score(Outcome.RIGHT)},
}


@pytest.fixture(params=["categorical", "text"])
def questions(request):
    frame = pd.DataFrame(ROWS, columns=["id", "case", "stage", "subtype", "text"])
    if request.param == "categorical":
        frame = frame.astype({"case": "category", "stage": "category", "subtype": "category"})
    return QuestionSet(
        "x", Path("x"), frame, lambda row: Question(ROWS[row][0], "", "", Reference(""))
    )


def found(questions, text):
    return [ROWS[row][0] for row in parse_where(text).rows(questions, SCORES)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["q1", "q2", "q3", "q4", "q5"]),
        ("   ", ["q1", "q2", "q3", "q4", "q5"]),
        ("stage:measurement", ["q2", "q3"]),
        ("STAGE:Measurement", ["q2", "q3"]),
        ("-stage:measurement", ["q1", "q4", "q5"]),
        ("stage:reasoning", ["q4"]),
        ('subtype:"lesion counting"', ["q4"]),
        ("subtype:lesion_counting", ["q4"]),
        ("subtype:volume", ["q2", "q3"]),
        ("subtype:depth", ["q5"]),
        ("subtype:side", ["q5"]),
        ("case:BDMAP_00000001", ["q1", "q2"]),
        ("case:BDMAP", ["q1", "q2", "q3"]),
        ('case:"case two"', ["q4"]),
        ("case:nowhere", []),
        ("liver", ["q1", "q2"]),
        ("LIVER volume", ["q2"]),
        ("-liver", ["q3", "q4", "q5"]),
        ('"of the liver"', ["q2"]),
        ('-"of the liver" volume', ["q3"]),
        ("q3", ["q3"]),
        ("über", ["q5"]),
        ('"4: where"', ["q5"]),
        ("t2-weighted", ["q4"]),
        ("stage:measurement lesion", ["q3"]),
        ("stage:measurement stage:recognition", []),
        ("model:m3d", ["q1", "q2", "q3"]),
        ("model:m3d-large", ["q1", "q4"]),
        ("-model:m3d", ["q4", "q5"]),
        ("model:large", ["q1", "q4"]),
        ("model:gone", []),
        ("outcome:right", ["q1", "q4"]),
        ("outcome:wrong", ["q1", "q2"]),
        ("outcome:wrong model:m3d", ["q2"]),
        ("-outcome:right model:m3d", ["q2", "q3"]),
        ("outcome:unread", ["q3"]),
        ("outcome:disagrees", ["q1"]),
        ("outcome:unr", ["q3"]),
        ("outcome:wrong model:gone", []),
        ("stage:", ["q1", "q2", "q3", "q4", "q5"]),
        ('subtype:"lesion cou', ["q4"]),
        ('""', ["q1", "q2", "q3", "q4", "q5"]),
        ("-", ["q4", "q5"]),
    ],
)
def test_filter(questions, text, ids):
    assert found(questions, text) == ids


def test_an_exact_value_wins_over_those_that_contain_it(questions):
    frame = questions.frame.assign(case=["a", "ab", "a", "b", "abc"])
    other = QuestionSet("x", Path("x"), frame, questions.build)
    assert found(other, "case:a") == ["q1", "q3"]
    assert found(other, "case:b") == ["q4"]
    assert found(other, "case:bc") == ["q5"]


def test_an_unknown_field_lists_the_fields():
    with pytest.raises(WhereError) as caught:
        parse_where("organ:liver")
    assert "stage, subtype, case, model, outcome" in caught.value.message
    assert '"organ:liver"' in caught.value.hint


def test_an_unknown_outcome_lists_the_outcomes():
    with pytest.raises(WhereError, match="right, wrong, unread, unscored, disagrees"):
        parse_where("outcome:good")


def test_a_filter_says_whether_it_needs_scores():
    assert parse_where("outcome:right").needs_scores
    assert parse_where("-model:x").needs_scores
    assert not parse_where("stage:x model").needs_scores


def test_no_scores_means_no_outcome(questions):
    assert parse_where("outcome:right").rows(questions).tolist() == []
    assert parse_where("-outcome:right").rows(questions).tolist() == [0, 1, 2, 3, 4]


def test_scores_of_unknown_questions_are_ignored(questions):
    scores = {"m": {"gone": score(Outcome.RIGHT)}}
    assert parse_where("outcome:right").rows(questions, scores).tolist() == []


def test_an_empty_set_has_no_rows():
    frame = pd.DataFrame({name: [] for name in ("id", "case", "stage", "subtype", "text")})
    empty = QuestionSet("x", Path("x"), frame, lambda row: None)
    for text in ("", "a", "stage:b", "outcome:right"):
        assert parse_where(text).rows(empty).tolist() == []


def test_rare_and_frequent_words_are_found_alike_in_many_rows():
    texts = [f"row {i} common" + (" ü≥needle" if i % 997 == 5 else "") for i in range(5000)]
    frame = pd.DataFrame({"id": [str(i) for i in range(5000)], "case": "", "stage": "",
                          "subtype": "", "text": texts})  # fmt: skip
    many = QuestionSet("x", Path("x"), frame, lambda row: None)

    def plainly(word):
        return [i for i, t in enumerate(texts) if word in f"{i}\n{t}".lower()]

    for word in ("needle", "≥n", "common", "row 4999", "4998", "absent", "e"):
        assert parse_where(f'"{word}"').rows(many).tolist() == plainly(word)
        others = sorted(set(range(5000)) - set(plainly(word)))
        assert parse_where(f'-"{word}"').rows(many).tolist() == others
    assert parse_where('common needle -"row 5 "').rows(many).tolist() == plainly("needle")[1:]
