import pytest
from evidence_cases import question

from napari_ctvqa.core.answers import answer_for, as_asked, label_in
from napari_ctvqa.core.conclusions import conclude
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.rules import rule_for
from napari_ctvqa.core.understanding import Understood

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM


def answered(subtype, values, options, answer_format=MC):
    rule = rule_for(subtype)
    asked = question(subtype, options=options)
    return answer_for(conclude(rule, values), rule, asked, answer_format)


@pytest.mark.parametrize(
    ("value", "letter", "noted"),
    [
        (156.61, "B", False),
        (156.64, "B", False),
        (156.66, "B", True),  # rounds to 156.7, which no option has
        (160.0, "B", True),
        (109.9, "A", False),
        (1e6, "", True),
        (193.0, "", True),  # between two options
        (300.0, "", True),  # no option within 25 %
    ],
)
def test_the_option_equal_at_the_rounding_else_the_nearest_with_a_note(value, letter, noted):
    answer = answered("organ volume measurement", [value], "109.9|156.6|211.9|173.6")
    assert answer.text == letter
    if noted:
        assert "near" in answer.note + answer.problem
        assert f"{value:.1f}" in answer.note + answer.problem
    else:
        assert not answer.note


def test_a_count_needs_no_decimals_and_thousands_are_read():
    assert answered("lesion counting", [25.0], "62|32|25|19").text == "C"
    assert answered("organ volume measurement", [1444.0], "1,039.7|1,444.0").text == "B"


def test_options_without_numbers_are_a_problem():
    answer = answered("organ volume measurement", [3.0], "small|large")
    assert not answer.text and "amount" in answer.problem


def test_free_form_is_a_bare_number_or_the_options_words():
    assert answered("organ volume measurement", [1444.04], "", FREE).text == "1444.0"
    assert answered("lesion counting", [3.0], "1|3", FREE).text == "3"
    options = "Moderate|Normal (no splenomegaly)|Mild|Severe"
    assert answered("splenomegaly grading", [100], options, FREE).text == "Normal (no splenomegaly)"
    assert answered("splenomegaly grading", [100], "", FREE).text == "Normal"
    assert answered("liver lesion existence", [4.0], "Yes, there is|No", FREE).text == "Yes"


@pytest.mark.parametrize(("volume", "letter"), [(100, "B"), (400, "C"), (600, "A"), (900, "D")])
def test_grades_are_found_among_the_options(volume, letter):
    options = "Moderate|Normal (no splenomegaly)|Mild splenomegaly|Severe"
    assert answered("splenomegaly grading", [volume], options).text == letter


def test_a_label_that_no_option_or_two_mean_is_a_problem():
    missing = answered("splenomegaly grading", [100], "Mild|Severe")
    assert not missing.text and "Normal" in missing.problem
    twice = answered("splenomegaly grading", [400], "Mild|Mild enlargement")
    assert not twice.text and twice.problem


@pytest.mark.parametrize(
    ("options", "left_is"),
    [
        ("left kidney|right kidney|the same", "A"),
        ("The right kidney|They are equal in size|The left kidney", "C"),
        ("Both are similar|left|right", "B"),
    ],
)
def test_sides_are_found_among_the_options(options, left_is):
    assert answered("kidney volume comparison", [150.0, 120.0], options).text == left_is


def test_an_option_that_names_both_sides_says_which_is_larger_or_means_neither():
    rule = rule_for("kidney volume comparison")
    assert label_in("left larger than right", rule) == "left"
    assert label_in("left or right", rule) == ""
    assert label_in("left and right are the same", rule) == "same"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Yes", "yes"),
        ("No", "no"),
        ("No splenomegaly", "no"),
        ("Enlarged", "yes"),
        ("Not enlarged", "no"),
        ("Normal", "no"),
        ("Yes, it is enlarged", "yes"),
        ("Yes, not small", ""),
        ("Yes, it is normal", ""),
        ("Not normal", ""),
        ("perhaps", ""),
        ("", ""),
    ],
)
def test_words_that_mean_yes_or_no(text, label):
    assert label_in(text, rule_for("splenomegaly detection")) == label


def test_the_answer_turns_round_with_the_question():
    exists, rule = rule_for("liver lesion existence"), rule_for("kidney volume comparison")
    assert as_asked(conclude(exists, [3.0]), Understood(negated=True)).label == "no"
    assert as_asked(conclude(rule, [2.0, 1.0]), Understood(smaller=True)).label == "right"
    assert as_asked(conclude(rule, [1.0, 1.0]), Understood(smaller=True)).label == "same"
