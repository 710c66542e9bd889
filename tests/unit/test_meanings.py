"""Options compared by meaning: negation once, units converted, ranges by what they hold."""

import pytest
from evidence_cases import question

from napari_ctvqa.core.answers import answer_for, concluded, label_in
from napari_ctvqa.core.quantities import quantity_in, value_in
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.rules import rule_for
from napari_ctvqa.core.understanding import understand

MC = AnswerFormat.MC
VOLUME, EXISTS = "organ volume measurement", "liver lesion existence"
DETECT, GRADE = "splenomegaly detection", "splenomegaly grading"
COMPARE = "kidney volume comparison"


def chosen(subtype, text, options, values, answer_format=MC, organ=""):
    rule = rule_for(subtype)
    asked = question(subtype, text, options=options, organ=organ)
    understood = understand(asked, rule)
    conclusion = concluded(rule, rule.default, values, understood)
    return answer_for(conclusion, rule, asked, answer_format, understood)


@pytest.mark.parametrize(
    ("subtype", "text", "options", "values", "letter"),
    [
        (DETECT, "Is the spleen normal?", "Normal|Enlarged", [100.0], "A"),
        (DETECT, "Is the spleen normal?", "Normal|Enlarged", [400.0], "B"),
        (DETECT, "Is the spleen normal?", "Yes|No", [100.0], "A"),
        (DETECT, "Is the spleen normal?", "Yes, it is normal|No, it is enlarged", [400.0], "B"),
        (DETECT, "Is the spleen enlarged?", "Normal|Enlarged", [100.0], "A"),
        (DETECT, "Is the spleen of normal size?", "normal size|larger than normal", [400.0], "B"),
        (DETECT, "What is the condition of the spleen?", "Normal|Enlarged", [400.0], "B"),
        (DETECT, "Is the spleen normal or enlarged?", "Enlarged|Not enlarged", [100.0], "B"),
        (EXISTS, "Is the liver free of lesions?", "Lesion present|Lesion absent", [5.0], "A"),
        (EXISTS, "Is the liver free of lesions?", "Yes|No", [5.0], "B"),
        (EXISTS, "Is the liver free of lesions?", "Yes, no lesion|No, there is one", [5.0], "B"),
        (EXISTS, "Is a liver lesion absent?", "absent|present", [5.0], "B"),
        (EXISTS, "Is there a liver lesion?", "No lesion|A lesion is present", [0.0], "A"),
        (EXISTS, "Is a liver lesion present or absent?", "Present|Absent", [0.0], "B"),
        (COMPARE, "Which statement is true?",
         "The left kidney is smaller|The right kidney is smaller", [1.0, 2.0], "A"),
        (COMPARE, "Which kidney is smaller?",
         "The left kidney is larger|The right kidney is larger", [1.0, 2.0], "B"),
        (COMPARE, "Which kidney is smaller?", "Left|Right|Same", [1.0, 2.0], "A"),
        (COMPARE, "Compare kidney sizes", "left > right|right > left|equal", [1.0, 2.0], "B"),
        (COMPARE, "Compare kidney sizes", "left < right|left = right", [1.0, 2.0], "A"),
        (COMPARE, "Which kidney is larger?", "Left|Right|Same|Not assessable", [1.0, 2.0], "B"),
        (COMPARE, "Which kidney is larger?", "the kidney on the left|the kidney on the right"
         "|about the same", [2.0, 2.0], "C"),
        (GRADE, "Grade the splenomegaly", "No splenomegaly|Mild splenomegaly", [100.0], "A"),
        (GRADE, "Grade", "Not normal|Normal", [100.0], "B"),
    ],
)  # fmt: skip
def test_meanings_are_compared_once(subtype, text, options, values, letter):
    answer = chosen(subtype, text, options, values)
    assert (answer.text, bool(answer.problem)) == (letter, not letter), answer


@pytest.mark.parametrize(
    ("subtype", "text", "options", "values"),
    [
        (EXISTS, "Is there a liver lesion?", "No lesion is absent|There is one", [5.0]),
        (EXISTS, "Is a liver lesion present or absent?", "Yes|No", [5.0]),
        (DETECT, "Is the spleen normal or enlarged?", "Yes|No", [5.0]),
        (DETECT, "Is the spleen normal?", "Yes, it is enlarged|No, it is normal", [5.0]),
        (COMPARE, "Compare kidney sizes", "Left|Right", [1.0, 2.0]),
        (COMPARE, "Which kidney is larger?", "Left|Not the left|Same", [1.0, 2.0]),
        (GRADE, "Is it severe?", "not severe|severe|none of these", [100.0]),
        (GRADE, "Grade", "Mild or moderate|Severe", [400.0]),
        (GRADE, "Grade", "At most mild|Severe", [400.0]),
    ],
)
def test_options_that_are_not_plain_get_no_letter(subtype, text, options, values):
    answer = chosen(subtype, text, options, values)
    assert not answer.text and answer.problem


def test_a_state_by_name_has_no_free_form_yes_or_no():
    for text in ("Is a liver lesion present or absent?", "What is the presence of liver lesions?"):
        answer = chosen(EXISTS, text, "", [5.0], AnswerFormat.FREEFORM)
        assert not answer.text and "by name" in answer.problem


def test_a_sentence_about_segments_says_which_has_more_or_fewer():
    subtype, text = "inter-segment comparison", "Compare segments 7 and 2."
    more = "Segment 7 has more lesions|Segment 2 has more lesions|The same number"
    fewer = "Segment 7 has fewer lesions|Segment 2 has fewer lesions|The same number"
    for options, letter in ((more, "A"), (fewer, "B"), ("Segment 7|Segment 2", "")):
        assert chosen(subtype, text, options, [3.0, 1.0], organ="liver").text == letter


@pytest.mark.parametrize(
    ("options", "letter"),
    [
        ("9000 mm³|12 cm³|8.2 cm³|20 cm³", "A"),
        ("0.009 L|12 mL|8.2 mL", "A"),
        ("0-5 cm³|5-9.5 cm³|9.5-20 cm³|over 20 cm³", "B"),
        ("0-9|9-20", "B"),  # a range holds its lower end
        ("5-9|10-20", "A"),  # and its upper end where no other begins there
        ("less than 9.1|more than 9.1", "A"),
        ("between 1 and 5|between 5 and 10|10 or more", "B"),
        ("9,0 cm³|12,0 cm³", "A"),
        ("1.5e3|9e0", "B"),
        ("8.9|12.0", "A"),
        ("12 cm³ (9.0 is wrong)|9.0", "B"),
    ],
)
def test_amounts_are_converted_exactly_and_ranges_hold_values(options, letter):
    assert chosen(VOLUME, "Volume of the liver?", options, [9.0]).text == letter


@pytest.mark.parametrize(
    "options",
    [
        "1500|1600|1700|1800", "less than 9.1|9.0", "9.0|9.0", "0-5|10-20", "9 cm|12 cm",
        "8.5|9.5", "6.7|40", "9.0 HU|12", "about nine|12", "5-10|8-20", "12 (not 9)|30",
    ],
)  # fmt: skip
def test_no_letter_is_given_where_no_amount_or_more_than_one_fits(options):
    answer = chosen(VOLUME, "Volume of the liver?", options, [9.0])
    assert not answer.text and answer.problem


def test_the_nearest_option_is_called_so():
    answer = chosen(VOLUME, "Volume of the liver?", "8.2|12.0|20", [9.0])
    assert (answer.text, answer.problem) == ("A", "")
    assert "nearest option" in answer.note and "8.2" in answer.note


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1,444.5 cm³", "cm³", 1444.5), ("-12 HU", "HU", -12.0), ("about 3", "lesions", 3.0),
        ("1 lesion", "lesions", 1.0), ("35 mm", "cm", 3.5), ("3 dm3", "cm³", 3000.0),
        ("0", "", 0.0), ("none", "", None), ("5-9", "", None), ("12 mm", "cm³", None),
        ("50%", "%", 50.0), ("1.2.3", "", None), ("3 and 4", "", None), ("", "", None),
    ],
)  # fmt: skip
def test_numbers_in_options(text, unit, value):
    assert value_in(text, unit) == value


def test_a_range_of_negative_values_keeps_its_signs():
    found = quantity_in("-12 to -3 HU", "HU")
    assert (found.low, found.high) == (-12.0, -3.0)


def test_a_reference_in_another_unit_is_compared_after_conversion():
    rule = rule_for(DETECT)
    assert label_in("Normal", rule, understand(question(DETECT, "Is it normal?"), rule)) == "yes"
