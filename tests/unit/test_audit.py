"""Audit: cross tables of hand-made runs, totals with intervals, why answers are unread, filters."""

import ast
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core import answer_text, numbers, reading, scoring
from napari_ctvqa.core.audit import ALL, STAGE, SUBTYPE, Total, audit
from napari_ctvqa.core.audit_text import explained, total_text, where_text
from napari_ctvqa.core.intervals import wilson
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import AnswerFormat, Outcome, Prediction, Run, Score
from napari_ctvqa.core.scoring import TEXT_SCORES
from napari_ctvqa.core.unread import UNREAD_WORDS, Unread, unread_kind
from napari_ctvqa.core.where import parse_where

RIGHT, WRONG, UNREAD, UNSCORED = Outcome
OPTIONS = "A: mild B: none C: severe D: moderate"


def ask(qid, stage, subtype, answer, letter, options=OPTIONS):
    return {"qid": qid, "image_id": "BDMAP_00000001", "question": "Which grade?",
            "mc_question": f"Which grade? {options}", "answer": answer, "correct_option": letter,
            "question_type": stage, "question_subtype": subtype}  # fmt: skip


MED, MEA = "medical_reasoning", "measurement"
SPLEEN, FATTY, VOLUME = "splenomegaly grading", "fatty liver", "organ volume measurement"
NUMBERS = "A: 100 B: 200 C: 300 D: 400"
RECORDS = [
    ask("a1", MED, SPLEEN, "severe", "C"),
    ask("a2", MED, SPLEEN, "severe", "C"),
    ask("a3", MED, SPLEEN, "severe", "C"),
    ask("a4", MED, FATTY, "moderate", "D"),
    ask("a5", MED, FATTY, "none", "B"),
    ask("v1", MEA, VOLUME, "200", "B", NUMBERS),
    ask("v2", MEA, VOLUME, "400", "D", NUMBERS),
    ask("v3", MEA, VOLUME, "100", "A", NUMBERS),
    ask("v4", MEA, VOLUME, "300", "", NUMBERS),  # without the letter of the right option
    ask("v5", MEA, VOLUME, "300", "C", NUMBERS),  # nobody answers this one
]
SAID = {
    "a1": "C",  # right, right
    "a2": "Answer: C",  # officially A: wrong, right
    "a3": "Cannot determine",  # officially C: right, unread
    "a4": "[ERROR] device D lost",  # officially D, credited though failed
    "a5": "The answer is B or C",  # officially B: right, unread (several)
    "v1": "the volume is 200",  # officially unread, right
    "v2": "the volume is 37",  # unread, unread
    "v3": "B",  # wrong, wrong
    "v4": "C",  # not scored, not scored
}


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "test_qa.json"
    path.write_text(json.dumps({"questions": RECORDS}))
    return BENCHMARK.questions(path)


def run_of(said):
    return Run("hand made", {k: Prediction(k, "hand made", text) for k, text in said.items()})


@pytest.fixture(scope="module")
def made(questions):
    return audit("hand made", questions, BENCHMARK.scores(questions, run_of(SAID), AnswerFormat.MC))


def counts(table):
    return {pair: list(ids) for pair, ids in table.cells.items()}


def test_the_cross_table_is_the_one_worked_out_by_hand(made):
    assert counts(made.total) == {
        (RIGHT, RIGHT): ["a1"],
        (RIGHT, UNREAD): ["a3", "a4", "a5"],
        (WRONG, RIGHT): ["a2"],
        (WRONG, WRONG): ["v3"],
        (UNREAD, RIGHT): ["v1"],
        (UNREAD, UNREAD): ["v2"],
        (UNSCORED, UNSCORED): ["v4"],
    }
    assert (made.total.n, made.questions, made.unanswered) == (9, 10, 1)
    assert made.total.credited_failures == ("a4",)


def test_totals_leave_out_what_is_not_scored(made):
    assert (made.total.official.right, made.total.official.n) == (4, 8)
    assert (made.total.ours.right, made.total.ours.n) == (3, 8)
    assert made.total.official.share == 0.5


def test_groups_are_the_stages_and_subtypes_and_add_up(made):
    assert [(t.group, t.label, t.n) for t in made.stages] == [
        (STAGE, "medical reasoning", 5), (STAGE, "measurement", 4),
    ]  # fmt: skip
    assert [(t.group, t.label, t.n) for t in made.subtypes] == [
        (SUBTYPE, SPLEEN, 3), (SUBTYPE, FATTY, 2), (SUBTYPE, VOLUME, 4),
    ]  # fmt: skip
    for tables in (made.stages, made.subtypes):
        assert sorted(key for t in tables for key in t.ids()) == sorted(SAID)
        assert sum(t.official.right for t in tables) == made.total.official.right
    assert made.tables[0].group == ALL


def test_unread_answers_are_sorted_by_why(made):
    assert made.total.unread == {
        Unread.FAILED: ("a4",),
        Unread.REFUSED: ("a3",),
        Unread.SEVERAL: ("a5",),
        Unread.NOTHING: ("v2",),
    }
    credited = {kind: made.total.credited(kind) for kind in made.total.unread}
    assert credited == {
        Unread.FAILED: ("a4",), Unread.REFUSED: ("a3",), Unread.SEVERAL: ("a5",),
        Unread.NOTHING: (),
    }  # fmt: skip


def test_the_sentences_say_what_makes_the_difference(made):
    assert explained(made.total, TEXT_SCORES, "A note.") == (
        "“As a person reads it” counts 3 as right, “Official scorer” 4: 1 fewer.",
        "Right by “As a person reads it” alone: 2 (by “Official scorer” wrong 1, unread 1).",
        "Right by “Official scorer” alone: 3 (by “As a person reads it” unread 3).",
        "“Official scorer” gives credit to 1 failed answer, which is none.",
        "Of 9 answers “Official scorer” scores 8, “As a person reads it” 8.",
        "A note.",
    )


def test_nothing_to_explain_is_said(questions):
    scores = {"a1": Score(RIGHT, "C", RIGHT, "C"), "a2": Score(WRONG, "A", WRONG, "A")}
    table = audit("m", questions, scores).total
    assert explained(table, TEXT_SCORES, "A note.") == ("Both count the same 1 answer as right.",)
    assert explained(audit("m", questions, {}).total, TEXT_SCORES) == ()
    swapped = {"a1": Score(RIGHT, "C", WRONG, "A"), "a2": Score(WRONG, "A", RIGHT, "C")}
    first = explained(audit("m", questions, swapped).total, TEXT_SCORES)[0]
    assert first == "Both count 1 answer as right, but not the same ones."


def test_every_cell_is_found_again_by_its_filter(made, questions):
    scores = BENCHMARK.scores(questions, run_of(SAID), AnswerFormat.MC)
    others = {"another": {key: Score(RIGHT, "", RIGHT, "") for key in SAID}}
    by_model = {"hand made": scores, **others}

    def found(where):
        rows = parse_where(where).rows(questions, by_model)
        return tuple(questions.frame["id"].iloc[rows])

    for table in made.tables:
        for (official, ours), ids in table.cells.items():
            assert found(where_text(made, table, official=official, ours=ours)) == ids
        for kind, ids in table.unread.items():
            assert found(where_text(made, table, unread=kind)) == ids
        assert sorted(found(where_text(made, table))) == sorted(table.ids())
        assert found(where_text(made, table, differing=True)) == table.differing


def test_a_name_that_no_filter_can_say_has_none(questions):
    made = audit('a "quoted" model', questions, {"a1": Score(RIGHT, "C", RIGHT, "C")})
    assert where_text(made, made.total) == ""


def labelled(subtypes):
    count = len(subtypes)
    frame = pd.DataFrame(
        {"id": [f"q{i}" for i in range(count)], "case": "c", "stage": "", "subtype": subtypes,
         "text": "?"}
    )  # fmt: skip
    return QuestionSet("x", Path("x"), frame, lambda row: None)


def test_a_question_with_several_labels_counts_in_each_and_one_without_is_said_so():
    questions = labelled(["left; right", "right", ""])
    scores = {f"q{i}": Score(RIGHT, "", RIGHT, "") for i in range(3)}
    made = audit("m", questions, scores)
    assert made.stages == ()  # no question has one
    groups = {t.label: t.ids() for t in made.subtypes}
    assert groups == {"left": ("q0",), "right": ("q0", "q1"), "not stated": ("q2",)}
    for table in made.subtypes:
        rows = parse_where(where_text(made, table)).rows(questions, {"m": scores})
        assert tuple(questions.frame["id"].iloc[rows]) == table.ids()


def test_the_official_total_is_the_benchmarks_own_accuracy(questions):
    said = {key: text for key, text in SAID.items() if key != "v4"}
    for form in AnswerFormat:
        scores = BENCHMARK.scores(questions, run_of(said), form)
        made = audit("m", questions, scores)
        own = BENCHMARK.metrics(questions, run_of(said), form)
        assert made.total.official.share == pytest.approx(own["overall"]["accuracy"], abs=1e-4)
        for table in made.stages:
            accuracy = own["by_super_type"][table.label]["accuracy"]
            assert table.official.share == pytest.approx(accuracy, abs=1e-4)


def test_partial_credit_is_in_the_official_total_and_said(questions):
    scores = BENCHMARK.scores(questions, run_of({"v1": "150", "v2": "400"}), AnswerFormat.FREEFORM)
    table = audit("m", questions, scores).total
    assert (table.official.right, table.official.credit) == (1, 1.75)
    assert table.official.partial and not table.ours.partial
    assert "with partial credit for numbers; 1 of 2 right" in total_text(table.official)
    assert any("1.8 of 2 by credit, while 1 are right" in s for s in explained(table, TEXT_SCORES))


def test_scores_of_untrusted_geometry_count_nowhere(questions):
    """Their partial credit stays on the record, so the outcome has to decide."""
    scores = {"v1": Score(UNSCORED, "150", UNSCORED, "150", value=0.75)}
    table = audit("m", questions, scores).total
    assert (table.official.n, table.official.credit, table.official.share) == (0, 0.0, None)
    assert total_text(table.official) == "no answer is scored"


# -------------------------------------------------------------------------------------- intervals


def test_one_wrong_of_ten_thousand_is_no_hundred_per_cent():
    assert total_text(Total(10_000, 9_999, 9_999.0)).startswith(">99.9\N{NO-BREAK SPACE}% (")
    assert total_text(Total(10_000, 1, 1.0)).startswith("<0.1\N{NO-BREAK SPACE}% (")
    assert total_text(Total(4, 4, 4.0)).startswith("100.0\N{NO-BREAK SPACE}% (")


def test_wilson_is_the_textbooks():
    """Newcombe 1998, table I, method 3: 81 of 263 and 15 of 148; 0 of 20 and 1 of 29."""
    for right, n, low, high in (
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
    ):  # fmt: skip
        found = wilson(right, n)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert wilson(0, 0) is None


def test_wilson_of_partial_credit_is_never_narrower_than_what_resampling_gives():
    rng = np.random.default_rng(5)
    credits = rng.uniform(0, 1, 400) ** 2
    found = wilson(float(credits.sum()), len(credits))
    means = rng.choice(credits, (4000, len(credits))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    assert found.low < low and high < found.high


def test_a_sum_that_is_whole_but_for_the_arithmetic_stays_whole():
    assert wilson(sum([0.1] * 30), 10) == wilson(3, 10)


# ------------------------------------------------------------------------------------ unread kinds


def said_when_unread():
    """What ``Reading("", …)`` says in the sources, with a name in place of what is filled in."""
    for module in (reading, numbers, scoring, answer_text):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "Reading":
                continue
            value, *how = node.args
            if isinstance(value, ast.Constant) and value.value == "" and how:
                yield how[0]


def filled(node):
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(p.value if isinstance(p, ast.Constant) else "hu" for p in node.values)]
    return []


def test_every_reason_in_the_sources_has_a_kind():
    reasons = [text for node in said_when_unread() for text in filled(node)]
    assert len(reasons) > 12
    unknown = [t for t in reasons if unread_kind(t) is Unread.OTHER and t != "the number hu"]
    assert unknown == []
    assert unread_kind("the number is in mm, hu was asked") is Unread.OTHER_UNIT
    assert {unread_kind(text) for text in reasons} >= set(Unread) - {Unread.OTHER}


def test_every_kind_has_words():
    assert set(UNREAD_WORDS) == set(Unread)
    assert unread_kind("something new") is Unread.OTHER
