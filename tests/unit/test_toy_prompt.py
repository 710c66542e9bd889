"""How questions are put to the shipped toy model, and that program and preset agree about it."""

import json

import pytest

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.records import Option, Question, Reference
from napari_ctvqa.models._toy_prompt import (
    ANY_ORGAN_S_SLICE,
    COPIES_BADLY,
    FIELD_MM,
    IN_KIDNEYS,
    IN_LIVER,
    KIDNEY_SIDE,
    LABEL,
    MOST_SLICES,
    NO_KINDS,
    NO_TASK,
    SIZE_PX,
    WINDOW_HU,
    toy_meanings,
    toy_question,
)


def _question(text, subtype="", organ=""):
    return Question("q", "case", text, Reference(""), subtype=subtype, organ=organ)


@pytest.mark.parametrize(
    ("subtype", "organ", "asked"),
    [
        ("liver lesion existence", "liver", IN_LIVER),
        ("kidney lesion existence", "kidney", IN_KIDNEYS),
        ("bilateral kidney asymmetry", "kidney", KIDNEY_SIDE),
        ("largest lesion location", "kidney", KIDNEY_SIDE),
    ],
)
def test_a_known_subtype_is_asked_in_the_trained_words(subtype, organ, asked):
    put = toy_question(_question("In the record's own words?", subtype, organ))
    assert (put.text, put.notes) == (asked, ())


def test_the_slice_of_one_organ_is_asked_with_a_warning():
    """Where another organ has a lesion too, the model often names that one's slice."""
    put = toy_question(_question("In the record's own words?", "largest lesion slice", "spleen"))
    assert (put.text, put.notes) == ("On which slice is the splenic lesion?", (ANY_ORGAN_S_SLICE,))


def test_a_kind_of_lesion_is_asked_as_any_lesion_and_said_so():
    put = toy_question(_question("Is there a cyst?", "Kidney Cyst Existence", "kidney"))
    assert (put.text, put.notes) == (IN_KIDNEYS, (NO_KINDS,))


@pytest.mark.parametrize(
    "text",
    [
        "Is there a lesion?",
        "On which side is the lesion?",
        "On which slice is the splenic lesion?",
        "Which organ has the lesion?",
        "Which slice shows the lesion?",
    ],
)
def test_free_questions_in_trained_words_go_as_they_are(text):
    assert toy_question(_question(text)) == toy_question(_question(text, "other"))
    assert (toy_question(_question(text)).text, toy_question(_question(text)).notes) == (text, ())


def test_a_question_without_a_task_goes_with_a_warning():
    put = toy_question(_question("Is the tumour resectable?", "pancreatic lesion resectability"))
    assert (put.text, put.notes) == ("Is the tumour resectable?", (NO_TASK,))


def test_with_tools_the_question_keeps_its_words():
    text = "What is the volume of the liver in cm³?"
    known = toy_question(_question(text, "organ volume measurement", "liver"), with_tools=True)
    unknown = toy_question(_question(text, "fatty liver", "liver"), with_tools=True)
    assert (known.text, known.notes) == (text, (COPIES_BADLY,))
    assert (unknown.text, unknown.notes) == (text, (NO_TASK,))


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (("No", "Yes"), {"Yes.": "B", "No.": "A"}),
        (("left", "right"), {"Left.": "A", "Right.": "B"}),
        (
            ("right kidney", "the same", "left kidney"),
            {"Left.": "C", "Right.": "A", "Left kidney.": "C", "Right kidney.": "A"},
        ),
        (("liver", "spleen"), {"Liver.": "A", "Spleen.": "B"}),
        (("left lobe", "left kidney"), {"Left kidney.": "B"}),
        (("62", "86", "101"), {"SLICE 1": "B", "SLICE 2": "A"}),
        (("50", "about 60"), {}),
        ((), {}),
    ],
    ids=str,
)
def test_a_word_is_the_option_that_says_the_same(options, meant):
    given = tuple(map(Option, "ABCD", options))
    question = Question(
        "q", "case", "Which?", Reference(""), options=given, subtype="largest lesion slice"
    )
    assert toy_meanings(question, (85, 51), choice=True) == meant


@pytest.mark.parametrize("subtype", ["lesion counting", "lesion count by location", ""])
def test_a_slice_is_no_number_where_something_else_is_counted(subtype):
    given = tuple(map(Option, "ABCD", ("1", "2", "3", "4")))
    question = Question(
        "q", "case", "How many lesions?", Reference(""), options=given, subtype=subtype
    )
    assert toy_meanings(question, (85, 51), choice=True) == {}


def test_a_slice_halfway_between_two_options_is_neither():
    given = (Option("A", "10"), Option("B", "20"))
    question = Question(
        "q", "case", "Which?", Reference(""), options=given, subtype="largest lesion slice"
    )
    assert toy_meanings(question, (15, 16), choice=True) == {"SLICE 2": "B"}


def test_in_free_form_only_a_slice_that_is_asked_for_is_a_number():
    assert toy_meanings(_question("Is there?", "liver lesion existence"), (4,), choice=False) == {}
    asked = _question("On which slice?", "largest lesion slice", "liver")
    assert toy_meanings(asked, (85, 51), choice=False) == {"SLICE 1": "85", "SLICE 2": "51"}


def test_the_preset_feeds_it_as_it_was_trained():
    presets = json.loads(resource_path("model_presets.json").read_text(encoding="utf-8"))
    (toy,) = [row for row in presets["presets"] if row.get("toy")]
    assert toy["max_slices"] <= MOST_SLICES
    assert toy["size_px"] == SIZE_PX
    assert toy["windows_hu"] == [list(WINDOW_HU)]
    assert (toy["label"], toy["label_first"]) == (LABEL, False)
    assert toy["facts"]["prompt"] == "toy"
    assert (toy["facts"]["fit"], toy["facts"]["field_mm"]) == ("field", list(FIELD_MM))
