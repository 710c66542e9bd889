"""DeepTumorVQA's official scorer, oddities included, and where a human reads otherwise."""

import pytest

from napari_ctvqa.benchmarks import _deeptumorvqa_official as official
from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Option,
    Outcome,
    Prediction,
    Question,
    Reference,
)

BINARY, NUMERIC, CATEGORICAL = AnswerType.BINARY, AnswerType.NUMERIC, AnswerType.CATEGORICAL


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: C", "A"),
        ("Based on the scan, D", "B"),
        ("Cannot determine", "C"),
        ("There is a lesion, so C", "A"),
        ("(D)", "D"),
        ("The answer is C", "C"),
        ("  b) mild", "B"),
        ("E", ""),
        ("", ""),
        ("[ERROR] timeout", ""),
        ("<think>A, B or C</think>The answer is D", "D"),
        ("<think>A never ends", ""),
        ("the_C_one", ""),
    ],
)
def test_official_letter(text, letter):
    assert official.letter(text) == letter


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", 1.0),
        (".5", 5.0),
        ("T2", 2.0),
        ("-3.5 HU", -3.5),
        ("1.2e3", 1.2),
        ("12.", 12.0),
        ("none", None),
        ("<think>7</think>8", 8.0),
    ],
)
def test_official_number(text, number):
    assert official.number(text) == number


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Yes", "yes"),
        ("Normal", "no"),
        ("None", "no"),
        ("Not visible", "no"),
        ("Nothing", "no"),
        ("Yesterday", "yes"),
        ("I say no", "no"),
        ("well, yes", "yes"),
        ("eyes", ""),
        ("unknown", ""),
    ],
)
def test_official_yes_no(text, answer):
    assert official.yes_no(text) == answer


def test_official_phrase_drops_punctuation_and_keeps_hyphens():
    assert official.phrase("  Iso-attenuating,  (mostly). ") == "iso-attenuating mostly"


@pytest.mark.parametrize(
    ("value", "reference", "credit"),
    [(90, 100, 0.9), (110, 100, 0.9), (250, 100, 0.0), (0, 0, 1.0), (1, 0, 0.0), (-9, -10, 0.9)],
)
def test_mra_is_one_continuous_value(value, reference, credit):
    assert official.mra(value, reference) == pytest.approx(credit)


def test_an_empty_letter_equals_an_empty_correct_option():
    assert official.judge_mc("nothing said", "").credit == 1.0
    assert official.judge_mc("nothing said", "B").credit == 0.0


def scorer(rows, *, mc=False):
    made = official.Scorer(mc=mc)
    for row in rows:
        made.add(*row)
    return made.metrics()


def test_mc_metrics_have_the_benchmark_structure():
    rows = [
        ("liver lesion existence", "recognition", BINARY, "A", "A"),
        ("liver lesion existence", "recognition", BINARY, "Answer: B", "B"),
        ("liver lesion existence", "recognition", BINARY, "?", "B"),
        ("lesion counting", "visual reasoning", NUMERIC, "D", "D"),
    ]
    assert scorer(rows, mc=True) == {
        "overall": {"accuracy": 0.5, "n_total": 4, "n_subtypes": 2},
        "by_super_type": {
            "recognition": {"accuracy": 0.3333, "n_total": 3},
            "visual reasoning": {"accuracy": 1.0, "n_total": 1},
        },
        "by_subtype": {
            "liver lesion existence": {"accuracy": 0.3333, "n_total": 3, "n_parsed": 2},
            "lesion counting": {"accuracy": 1.0, "n_total": 1, "n_parsed": 1},
        },
    }


def test_each_subtype_is_rounded_before_it_is_weighted():
    rows = [("a", "s", BINARY, "B", "A")] * 3
    rows += [("b", "s", BINARY, said, "A") for said in "ABB"]
    # (0 * 3 + .3333 * 3) / 6 = .16665, which prints as .1666; 1 of 6 would be .1667.
    assert scorer(rows, mc=True)["overall"]["accuracy"] == 0.1666


def test_overall_is_weighted_by_rows_not_by_subtypes():
    rows = [("a", "s", BINARY, "A", "A")] + [("b", "s", BINARY, "B", "A")] * 3
    assert scorer(rows, mc=True)["overall"]["accuracy"] == 0.25


def test_numeric_rows_without_a_reference_number_leave_the_mean_but_keep_their_weight():
    rows = [
        ("organ volume measurement", "measurement", NUMERIC, "100", "100"),
        ("organ volume measurement", "measurement", NUMERIC, "5", "unknown"),
        ("liver lesion existence", "recognition", BINARY, "no", "yes"),
    ]
    result = scorer(rows)
    volume = result["by_subtype"]["organ volume measurement"]
    assert (volume["mean_mra"], volume["n_total"], volume["n_scored"]) == (1.0, 2, 1)
    assert result["overall"]["accuracy"] == pytest.approx(0.6667)


def test_a_numeric_answer_without_a_number_counts_zero():
    rows = [
        ("x", "s", NUMERIC, "I cannot say", "100"),
        ("x", "s", NUMERIC, "100", "100"),
    ]
    assert scorer(rows)["by_subtype"]["x"]["mean_mra"] == 0.5


def test_tolerance_accuracies():
    rows = [("x", "s", NUMERIC, said, "100") for said in ("104", "109", "119", "149", "none")]
    result = scorer(rows)["by_subtype"]["x"]
    found = [result[f"accuracy_within_{p}pct"] for p in (5, 10, 20, 50)]
    assert found == [0.2, 0.4, 0.6, 0.8]


def test_unread_answers_to_a_no_are_true_negatives_for_specificity_only():
    rows = [
        ("x", "s", BINARY, "unclear", "No"),
        ("x", "s", BINARY, "yes", "No"),
        ("x", "s", BINARY, "yes", "Yes"),
        ("x", "s", BINARY, "unclear", "Yes"),
    ]
    result = scorer(rows)["by_subtype"]["x"]
    assert (result["accuracy"], result["sensitivity"], result["specificity"]) == (0.25, 0.5, 0.5)


def test_categorical_counts_exact_matches_and_containment_apart():
    rows = [
        ("x", "s", CATEGORICAL, "Normal (no splenomegaly).", "normal no splenomegaly"),
        ("x", "s", CATEGORICAL, "Normal", "Normal (no splenomegaly)"),
        ("x", "s", CATEGORICAL, "Severe", "Mild"),
    ]
    result = scorer(rows)["by_subtype"]["x"]
    assert (result["accuracy"], result["partial_accuracy"]) == (0.3333, 0.6667)


def question(**values):
    grades = ("Normal", "Moderate", "Severe", "Mild")
    given = {
        "id": "q1", "case_id": "c", "text": "Which grade?",
        "reference": Reference("Severe", "C"),
        "options": tuple(Option(a, b) for a, b in zip("ABCD", grades, strict=True)),
        "subtype": "splenomegaly grading", "answer_type": CATEGORICAL,
    }  # fmt: skip
    return Question(**{**given, **values})


def score(said, answer_format=AnswerFormat.MC, **values):
    return BENCHMARK.score(question(**values), Prediction("q1", "m", said), answer_format)


@pytest.mark.parametrize(
    ("text", "official_outcome", "official_letter", "ours", "our_letter"),
    [
        ("C", Outcome.RIGHT, "C", Outcome.RIGHT, "C"),
        ("Answer: C", Outcome.WRONG, "A", Outcome.RIGHT, "C"),
        ("Cannot determine", Outcome.RIGHT, "C", Outcome.UNREAD, ""),
        ("Answer: D", Outcome.WRONG, "A", Outcome.WRONG, "D"),
        ("severe", Outcome.UNREAD, "", Outcome.RIGHT, "C"),
        ("[ERROR] C failed", Outcome.RIGHT, "C", Outcome.UNREAD, ""),
    ],
)
def test_both_readings_of_a_letter(text, official_outcome, official_letter, ours, our_letter):
    got = score(text)
    assert (got.official, got.official_reading) == (official_outcome, official_letter)
    assert (got.ours, got.our_reading) == (ours, our_letter)
    assert got.disagrees == (official_letter != our_letter)


def test_a_number_with_thousands_separator_is_read_otherwise():
    got = score(
        "1,234.5 cm³", AnswerFormat.FREEFORM, subtype="organ volume measurement",
        answer_type=NUMERIC, reference=Reference("1234.5"), options=(),
    )  # fmt: skip
    assert (got.official, got.official_reading) == (Outcome.WRONG, "1")
    assert (got.ours, got.our_reading) == (Outcome.RIGHT, "1234.5")
    assert got.value == pytest.approx(1 - 1233.5 / 1234.5)
    assert got.disagrees


def test_millimetres_are_converted_where_centimetres_are_asked():
    got = score(
        "35 mm", AnswerFormat.FREEFORM, subtype="largest lesion diameter",
        answer_type=NUMERIC, reference=Reference("3.5"), options=(),
    )  # fmt: skip
    assert (got.official, got.ours) == (Outcome.WRONG, Outcome.RIGHT)


def test_a_count_must_be_equal():
    values = {"subtype": "lesion counting", "answer_type": NUMERIC, "options": ()}
    near = score("24", AnswerFormat.FREEFORM, reference=Reference("25"), **values)
    same = score("25", AnswerFormat.FREEFORM, reference=Reference("25"), **values)
    assert (near.official, near.ours) == (Outcome.WRONG, Outcome.WRONG)
    assert near.value == pytest.approx(0.96)
    assert (same.official, same.ours) == (Outcome.RIGHT, Outcome.RIGHT)


def test_normal_is_officially_no():
    got = score(
        "Normal", AnswerFormat.FREEFORM, subtype="splenomegaly detection", answer_type=BINARY,
        reference=Reference("No"), options=(), text="Is the spleen enlarged?",
    )  # fmt: skip
    assert (got.official, got.ours) == (Outcome.RIGHT, Outcome.UNREAD)


def test_a_phrase_inside_a_sentence_is_right_for_a_reader():
    got = score("The spleen is severe in size.", AnswerFormat.FREEFORM)
    assert (got.official, got.ours) == (Outcome.WRONG, Outcome.RIGHT)


def test_wording_alone_is_no_disagreement():
    got = score("Mild", AnswerFormat.FREEFORM)
    assert (got.official, got.ours, got.disagrees) == (Outcome.WRONG, Outcome.WRONG, False)


def test_the_value_read_is_pred_answer_or_raw_output_when_that_is_empty():
    both = Prediction("q1", "m", "C", record={"raw_output": "C", "pred_answer": "D"})
    empty = Prediction("q1", "m", "C", record={"raw_output": "C", "pred_answer": ""})
    assert BENCHMARK.score(question(), both, AnswerFormat.MC).official_reading == "D"
    assert BENCHMARK.score(question(), empty, AnswerFormat.MC).official_reading == "C"
