"""Sentences for people: signs, units of time, and what is not known."""

from dataclasses import replace

import pytest
from panel_sessions import question, score

from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    OtherRule,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.records import Outcome, Reference
from napari_ctvqa.core.scoring import score_titles
from napari_ctvqa.extensions import benchmarks
from napari_ctvqa.widgets.words import (
    disagreement,
    error_text,
    match_text,
    measure_words,
    patient_line,
    plain_names,
    reading_text,
    reference_line,
    source_words,
    status_role,
    status_text,
    time_left,
)

NBSP = "\N{NO-BREAK SPACE}"


def _row(reference, model, error, match=StepMatch.WRONG_VALUE):
    def step(value):
        return EvidenceStep(StepKind.MEASURE, "liver", "volume", value)

    return AlignedStep(step(reference), step(model), match, error)


@pytest.mark.parametrize(
    ("reference", "model", "error", "text"),
    [
        (100.0, 80.0, 0.2, f"−20.0{NBSP}%"),
        (100.0, 120.0, 0.2, f"+20.0{NBSP}%"),
        (-10.0, -12.0, 0.2, f"−20.0{NBSP}%"),
        (-10.0, 5.0, 1.5, f"+150.0{NBSP}%"),
        (1.0, 1001.0, 1000.0, f"+100,000{NBSP}%"),
        (100.0, 100.0, 0.0, f"0{NBSP}% off"),
        (100.0, 100.01, 0.0001, f"under 0.1{NBSP}% off"),
        ("Mild", 3.0, 0.5, f"±50.0{NBSP}%"),
        (0.0, 3.0, None, ""),
    ],
)
def test_an_error_has_the_sign_of_the_values(reference, model, error, text):
    assert error_text(_row(reference, model, error)) == text


def test_a_match_without_an_error_has_no_brackets():
    assert match_text(_row(1.0, 1.0, None, StepMatch.SAME)) == "✓ same"
    assert match_text(_row(1.0, 1.01, 0.01, StepMatch.SAME)).startswith("✓ same (")
    by_other_rule = match_text(_row(1.0, 1.726, 0.726, StepMatch.SAME))
    assert by_other_rule.startswith("✓ another value, right all the same (")


@pytest.mark.parametrize("match", StepMatch)
def test_every_match_has_a_sign_and_a_word(match):
    icon, word = match_text(_row(1.0, 2.0, None, match)).split(" ", 1)
    assert len(icon) == 1
    assert word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.2, "about 1 s left"),
        (59, "about 59 s left"),
        (184, "about 3 min left"),
        (7200, "about 2.0 h left"),
    ],
)
def test_time_left(seconds, text):
    assert time_left(seconds) == text


def test_two_wrong_readings_that_differ_are_told():
    given = score(Outcome.WRONG, "A", Outcome.WRONG, "B")
    object.__setattr__(given, "readings_differ", True)
    assert "read A from “x”, a person reads B: both count as wrong." in disagreement(given, "x")


def test_nothing_read_is_said_to_be_nothing():
    given = score(Outcome.UNREAD, "", Outcome.RIGHT, "C")
    text = disagreement(given, "Answer:\nC")
    assert "read nothing from “Answer: C”" in text
    assert "unread officially, right as read" in text


@pytest.mark.parametrize(
    ("reference", "line"),
    [
        (Reference("154.2 cm³", "C"), "Reference: C · 154.2 cm³"),
        (Reference("C", "C"), "Reference: C"),
        (Reference("yes"), "Reference: yes"),
        (Reference("", "B"), "Reference: B"),
        (Reference(""), "Reference: not stated"),
    ],
)
def test_a_reference_is_letter_and_text(reference, line):
    assert reference_line(question(reference=reference)) == line


def test_what_the_record_lacks_about_the_patient_is_not_stated():
    assert patient_line({}) == (
        "Sex: not stated, age: not stated, phase: not stated, scanner: not stated"
    )
    assert patient_line({"sex": "Male", "age": "0"}).startswith("Sex: Male, age: 0,")


def test_a_jury_is_not_called_a_person_that_reads():
    titles = score_titles(benchmarks()["ct_spatialvqa"])
    assert titles == ("Jury as published", "Jury aligned by content")
    assert reading_text("2 of 3 judges", titles) == "2 of 3 judges"
    assert score_titles(benchmarks()["deeptumorvqa"]) == score_titles(None)


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("volume_cm3", "volume"),
        ("mean_hu", "mean HU"),
        ("largest_lesion_diameter_cm", "diameter of the largest lesion"),
        ("some_other_cm", "some other"),
        ("", ""),
    ],
)
def test_a_measurement_type_is_put_into_words(measure, words):
    assert measure_words(measure) == words


def test_right_by_another_rule_is_a_status_line_of_its_own():
    radgpt = OtherRule("radgpt", "10 mm³ and more", "2 lesions", ChainStatus.AGREES)
    ours = OtherRule("other", "50 mm³ and more", "1 lesion", ChainStatus.DIFFERS)
    chain = EvidenceChain("q", "reference", status=ChainStatus.DIFFERS, reason="recomputed 3")
    assert status_text(chain) == "✗ differs from the stated reference: recomputed 3"
    assert status_role(chain) == "wrong"
    chain = replace(chain, other_rules=(ours, radgpt))
    assert status_text(chain) == (
        "≈ stated reference: differs by the default rule, "
        "agrees by radgpt (10 mm³ and more): recomputed 3"
    )
    assert status_role(chain) == "unread"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("no mask for colon_lesion", "no mask for colon lesion"),
        ("measure volume_cm3 of kidney_left", "measure volume of left kidney"),
        ("/data/kidney_left.nii.gz: no_such_name", "/data/kidney_left.nii.gz: no_such_name"),
        ("largest liver_lesion in liver_segment_7.", "largest liver lesion in liver segment 7."),
    ],
)
def test_raw_names_in_a_sentence_are_put_into_words(raw, said):
    assert plain_names(raw) == said


def test_a_models_tool_is_named_in_words():
    assert source_words("tool segment_organ") == "the model's tool “segment organ”"
    assert source_words("tool <b>x</b>") == "tool <b>x</b>"
    assert source_words("RadGPT's code") == "RadGPT's code"
