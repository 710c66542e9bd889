"""A model's answer as a careful human reads it."""

import time

import pytest

from napari_ctvqa.core.reading import (
    normalise,
    read_letter,
    read_number,
    read_yes_no,
    strip_think,
)
from napari_ctvqa.core.records import Option

GRADES = tuple(
    Option(a, b) for a, b in zip("ABCD", ("Normal", "Moderate", "Severe", "Mild"), strict=True)
)
VOLUMES = tuple(
    Option(a, b) for a, b in zip("ABCD", ("16.5", "19.4", "28.9", "-14.1"), strict=True)
)
YES_NO = (Option("A", "No"), Option("B", "Yes"))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("C", "C"),
        ("c", "C"),
        ("(D)", "D"),
        ("**C**", "C"),
        ("C.", "C"),
        ("C. Severe", "C"),
        ("C) Severe", "C"),
        ("C: Severe", "C"),
        ("C\nbecause it is large", "C"),
        ("Answer: C", "C"),
        ("answer: c", "C"),
        ("The answer is C", "C"),
        ("The answer is: **C) Severe**", "C"),
        ("Final answer - B", "B"),
        ("Correct option: D", "D"),
        ("C is correct.", "C"),
        (r"\boxed{C}", "C"),
        (r"$\boxed{\text{B}}$", "B"),
        ("<answer>D</answer>", "D"),
        ("[FINAL] D", "D"),
        ("I would choose (B) because", "B"),
        ("The answer is A. Wait, the answer is B.", "B"),
        ("Option A is wrong, so B", "B"),
        ("Based on the scan, D", "D"),
        ("There is a lesion, so C", "C"),
        ("<think>A or maybe D</think> B", "B"),
        ("The grade is severe.", "C"),
        ("C, because it is large", "C"),
        ("C because it is large", "C"),
        ("It's C", "C"),
        ("I think C", "C"),
        ("### Answer\nC", "C"),
        ("**Answer:** C", "C"),
        ('{"answer": "C", "confidence": 0.9}', "C"),
        (r"\(C\)", "C"),
        ("The answer seems to be C", "C"),
        ("Severe (C)", "C"),
        ("A: Normal is small. B: Moderate is larger. The answer is C", "C"),
        ("not severe but mild", "D"),
        ("Severe", "C"),
        ("I cannot be sure, but the answer is C", "C"),
    ],
)
def test_letter_is_read(text, letter):
    assert read_letter(text, GRADES).value == letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "Cannot determine",
        "Based on the images, I am unable to answer.",
        "A lesion is visible",
        "A small amount of fluid surrounds the liver.",
        "C: Mild",
        "Answer: A or B",
        "A, B and C are possible",
        "E",
        "The answer is not C",
        "I think hepatitis B",
        "mild to severe",
        "A: Normal B: Moderate C: Severe D: Mild",
        "A. Normal\nB. Moderate",
        "Severe (D)",
        "C or D",
        "C/D",
        "A, B",
        "<think>the answer is C",
        "It cannot be determined whether it is mild",
        "A. Normal would be below 314.5. It is 900, so C",
    ],
)
def test_letter_is_not_guessed(text):
    assert read_letter(text, GRADES).value == ""


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The volume is 16.5cm³", "A"),
        ("16.50", "A"),
        ("-14.1", "D"),
        ("14.1", ""),
        ("about 17", ""),
        ("The lesion measures 19.4 cm³.", "B"),
        ("between 16.5 and 19.4", ""),
    ],
)
def test_option_is_found_by_its_number(text, letter):
    assert read_letter(text, VOLUMES).value == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("No", "A"),
        ("Yes, there is a cyst.", "B"),
        ("There is no lesion.", "A"),
        ("A: Yes", ""),
        ("B: Yes", "B"),
        ("No evidence either way can be given; I cannot determine it", ""),
    ],
)
def test_yes_no_options_are_read_by_meaning(text, letter):
    assert read_letter(text, YES_NO, "Does the colon have any lesion?").value == letter


def test_an_option_may_begin_with_an_article():
    options = (Option("A", "No lesion"), Option("B", "A cyst"))
    assert read_letter("B. A cyst", options).value == "B"
    assert read_letter("B: A cyst", options).value == "B"


def test_letter_says_how_it_was_read():
    assert read_letter("Answer: C", GRADES).how == "stated as the answer"
    assert "another option" in read_letter("C: Mild", GRADES).how


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Yes", "yes"),
        ("yes.", "yes"),
        ("No, there is none", "no"),
        ("Answer: Yes", "yes"),
        (r"\boxed{No}", "no"),
        ("There is no lesion", "no"),
        ("A lesion is present", "yes"),
        ("There is a 2 cm lesion but no cyst", "yes"),
        ("The spleen is not enlarged", "no"),
        ("Looking at the scan, it appears to be Yes.", "yes"),
        ("It is clearly a no", "no"),
        ("The liver says nothing about yes", ""),
        ("None", "no"),
        ("Absent", "no"),
        ("Normal", ""),
        ("No doubt, there is a lesion", ""),
        ("No idea", ""),
        ("I have no idea.", ""),
        ("No way to tell from this slice", ""),
        ("No information is available", ""),
        ("cannot exclude a lesion", ""),
        ("A lesion is not absent", ""),
        ("Although no cyst is seen, a lesion is present", ""),
        ("Not sure", ""),
        ("Yes/No", ""),
        ("Yes or no", ""),
        ("The liver", ""),
        ("", ""),
    ],
)
def test_yes_no(text, answer):
    assert read_yes_no(text).value == answer


def test_only_a_plain_yes_or_no_is_read_where_the_question_is_negative():
    assert read_yes_no("There is no change", "Is the liver normal?").value == ""
    assert read_yes_no("No abnormality", "Is the liver normal?").value == ""
    assert read_yes_no("No", "Is the liver normal?").value == "no"


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("1,234.5", "", "1234.5"),
        ("1 234.5 cm³", "cm³", "1234.5"),
        ("1.234,5 mL", "cm³", "1234.5"),
        ("1'234", "", "1234"),
        ("1,234", "", "1234"),
        ("0,123", "", "0.123"),
        ("3,5 cm", "cm", "3.5"),
        (".5", "", "0.5"),
        ("12.", "", "12"),
        ("-10 HU", "HU", "-10"),
        ("−10 HU", "HU", "-10"),
        ("1.2e3", "", "1200"),
        ("1.2 x 10^3 cm3", "cm³", "1200"),
        ("1.2 L", "cm³", "1200"),
        ("1200 mm³", "cm³", "1.2"),
        ("35 mm", "cm", "3.5"),
        ("12.3 cc", "cm³", "12.3"),
        ("The volume is 12.3cm3.", "cm³", "12.3"),
        ("approximately 1,234.5 cm³ (normal 1000-1800)", "cm³", "1234.5"),
        ("The spleen has 300 cm³ and 45 HU", "HU", "45"),
        ("Step 1: look. Answer: 12 lesions", "", "12"),
        ("5 lesions in segment 4", "", "5"),
        ("10 %", "%", "10"),
        ("12 ± 1 cm³", "cm³", "12"),
        ("150 cm³ + 160 cm³ = 310 cm³", "cm³", "310"),
        ("12.3 cm³. The whole liver has 1500 cm³.", "cm³", "12.3"),
        ('{"answer": 42.5}', "", "42.5"),
    ],
)
def test_number_is_read(text, unit, number):
    assert read_number(text, unit).value == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", ""),
        ("T2", ""),
        ("segment 4", ""),
        ("between 3 and 4", ""),
        ("3-4", ""),
        ("more than 5", ""),
        ("3 x 4 cm", "cm"),
        ("35 mm", "cm³"),
        ("12 or 15", ""),
        ("3 lesions in the liver, 2 in the kidney", ""),
        ("left 150 cm³, right 160 cm³", "cm³"),
        ("120/80", ""),
        ("1e999", ""),
        ("no number here", ""),
    ],
)
def test_number_is_not_guessed(text, unit):
    assert read_number(text, unit).value == ""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("two lesions", "2"),
        ("There are no liver lesions", "0"),
        ("No, three lesions", "3"),
        ("one or two lesions", ""),
        ("3", "3"),
    ],
)
def test_counts_are_read_written_out(text, number):
    assert read_number(text, counting=True).value == number


def test_written_numbers_count_only_where_something_is_counted():
    assert read_number("two lesions").value == ""


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("a<think>b", "a"),
        ("<think>a</think>b<think>c</think>d<think>e", "bd"),
        ("a</think>b", "a</think>b"),
        ("<think>a<think>b</think>c", "c"),
    ],
)
def test_thoughts_are_left_out(text, rest):
    assert strip_think(text) == rest


def test_normalised_text_keeps_hyphens():
    assert normalise("  Iso-attenuating, (mostly)  ") == "iso-attenuating mostly"


@pytest.mark.parametrize(
    "text",
    [
        "1 " * 200_000,
        "no " * 200_000,
        "answer is " * 50_000,
        "<think>" * 100_000,
        "(" * 300_000,
        "\\boxed{" * 50_000,
        "A, " * 100_000,
        "1" * 1_000_000,
        "1,111" * 50_000,
        "option A is " * 30_000,
        " " * 1_000_000 + "x",
        "<answer>" * 50_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_is_read_in_no_time(text):
    begin = time.process_time()
    read_letter(text, GRADES)
    read_yes_no(text)
    read_number(text, "cm³", counting=True)
    assert time.process_time() - begin < 2


def test_the_end_of_a_long_answer_is_read():
    assert read_letter("reasoning " * 100_000 + "\nAnswer: C", GRADES).value == "C"


# ---------------------------------------------------------------- refused rather than guessed


@pytest.mark.parametrize(
    "text",
    [
        "There is neither cyst nor tumor",
        "There are 0 lesions",
        "There is hardly any lesion",
        "There is a lack of lesions",
        "There is complete absence of lesions",
        "It is unlikely that there is a lesion",
        "There is unlikely a lesion",
        "There is little evidence of a lesion",
        "There is zero evidence",
        "There is nothing.",
        "There is a possibility of no lesion",
        "There might be a lesion; there is some density",
        "There is a lesion in no segment but 4",
        "There is no normal liver tissue without lesion",
        "There are no signs against a lesion.",
        "The lesion is not seen on slice 3 but is seen on slice 4",
        "I would not say no",
        "I can't say yes",
        "yes/no",
        "Yes or no",
        "No. Yes.",
        "Yes... no, wait: no",
        "No, I am wrong: yes",
        "No lesion? Yes there is one.",
        "No, there is",
        "Yes, there is none",
        "Neither yes nor no",
        "It is not true that there is no lesion",
    ],
)
def test_a_yes_or_no_that_is_not_plain_is_not_read(text):
    assert read_yes_no(text, "Is there a lesion?").value == ""
    assert read_letter(text, YES_NO, "Is there a lesion?").value == ""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Yes there is a lesion", "yes"),
        ("Yes, there is", "yes"),
        ("No, there isn't any lesion", "no"),
        ("There are no lesions.", "no"),
        ("Lesion present: no", "no"),
        ("There is a hypodense lesion in segment 4", "yes"),
    ],
)
def test_what_is_plain_is_still_read(text, answer):
    assert read_yes_no(text, "Is there a lesion?").value == answer


@pytest.mark.parametrize(
    "text",
    [
        "The answer can't be A",
        "The answer cannot be A",
        "It could never be A",
        "I do not think the answer is A",
        "I would not say A",
        "It is anything but A",
        "Answer: A. No wait, B",
        "Answer: A\n\nActually reconsidering: B",
        "A: Normal B: Moderate C: Severe D: Mild",
        "A. Normal\nB. Moderate\nC. Severe\nD. Mild",
        "Normal, Moderate, Severe, Mild",
        "mild is not right",
    ],
)
def test_a_letter_that_is_denied_corrected_or_one_of_a_list_is_not_read(text):
    assert read_letter(text, GRADES, "Which grade?").value == ""


@pytest.mark.parametrize("text", ["not 16.5", "It isn't 16.5", "16.5 is wrong", "rather than 16.5"])
def test_a_number_that_is_denied_is_no_option(text):
    assert read_letter(text, VOLUMES).value in ("",)


KIDNEYS = (Option("A", "left kidney"), Option("B", "right kidney"), Option("C", "the same"))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("the left kidney is larger", "A"),
        ("the left kidney is smaller", ""),
        ("the left kidney is not larger than the right kidney", ""),
        ("the right kidney is larger than the left kidney", "B"),
        ("the right kidney is smaller than the left kidney", ""),
        ("left kidney", "A"),
    ],
)
def test_a_comparison_that_goes_the_other_way_names_no_side(text, letter):
    assert read_letter(text, KIDNEYS, "Which kidney is larger?").value == letter


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("minus 5", "HU", "-5"),
        ("negative 40 HU", "HU", "-40"),
        ("it is minus 12.5 HU", "HU", "-12.5"),
        ("3 dm3", "cm³", "3000"),
        ("0.5 m", "cm", "50"),
        ("12 inches", "cm", "30.48"),
        ("1 cl", "cm³", "10"),
        ("2000 cubic millimetres", "cm³", "2"),
    ],
)
def test_signs_in_words_and_every_known_unit_are_kept(text, unit, number):
    assert read_number(text, unit).value == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("10^3", ""), ("2^10", ""), ("1.2.3", ""), ("5'", "cm"), ("5 minus 3", ""),
        ("minus -5", "HU"), ("– 5", "HU"), ("not 12.5", ""), ("It is not exactly 12.5", ""),
        ("12 kg", "cm³"), ("3 g/ml", "cm³"), ("4 cm2", "cm"), ("7 years", "cm"),
    ],
)  # fmt: skip
def test_a_number_with_another_sign_power_or_unit_is_not_guessed(text, unit):
    assert read_number(text, unit).value == ""


@pytest.mark.parametrize(
    ("said", "options", "question", "letter"),
    [
        ("12.5 mm", ("12.5", "14.0"), "How long is it?", "A"),  # nothing states another unit
        ("12.5", ("12.5", "14.0"), "How long is it in cm?", "A"),
        ("12.5 cm", ("12.5", "14.0"), "How long is it in cm?", "A"),
        ("12.5 mm", ("12.5", "14.0"), "How long is it in cm?", ""),
        ("125 mm", ("12.5", "14.0"), "How long is it in cm?", "A"),
        ("It is 12.5 mm.", ("12.5", "14.0"), "How long is it (cm)?", ""),
        ("12.5 HU", ("12.5", "14.0"), "How long is it in cm?", ""),
        ("12.5 mm", ("12.5 cm", "14.0 cm"), "How long is it?", ""),
        ("12.5 mm", ("12.5 mm", "14.0 mm"), "How long is it in cm?", "A"),
        ("B", ("12.5", "14.0"), "How long is it in cm?", "B"),
    ],
)
def test_a_number_in_another_unit_is_not_that_option(said, options, question, letter):
    listed = [Option("AB"[n], text) for n, text in enumerate(options)]
    assert read_letter(said, listed, question).value == letter
