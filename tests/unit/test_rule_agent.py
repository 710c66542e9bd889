import numpy as np
import pytest
from evidence_cases import case, cm3_box, grid, question

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level
from napari_ctvqa.core.records import AnswerFormat, Prediction, Turn
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain, wanted_structures
from napari_ctvqa.evidence.compare import compare_chains
from napari_ctvqa.extensions import models, tools
from napari_ctvqa.models.rules import MODEL

ON = grid((110, 110, 110), (1.0, 1.0, 1.0))
NOTHING = np.zeros(ON.shape_zyx, bool)
MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM


def spot():
    array = NOTHING.copy()
    array[5, 5, 5] = True
    return array


CASE = case(
    {
        "liver": cm3_box(30, ON),
        "liver_lesion": spot(),
        "spleen": cm3_box(400, ON),
        "kidney_left": cm3_box(150, ON),
        "kidney_right": cm3_box(170, ON),
        "colon_lesion": NOTHING,
    },
    hu=np.full(ON.shape_zyx, 55, np.int16),
    on=ON,
)

ASKED = {
    "exists": question("liver lesion existence", "Any liver lesion?", options="No|Yes", letter="B"),
    "none": question("colon lesion existence", "Any colon lesion?", options="No|Yes", letter="A"),
    "volume": question(
        "organ volume measurement",
        "Volume of the left kidney?",
        organ="kidney",
        options="150.0|170.0",
    ),
    "both": question(
        "organ volume measurement", "Volume of the kidneys?", organ="kidney", options="150.0|320.0"
    ),
    "hu": question(
        "organ HU measurement", "Mean HU of the liver?", organ="liver", options="44|55.0"
    ),
    "count": question("lesion counting", "How many liver lesions?", organ="liver", options="0|1|2"),
    "burden": question(
        "lesion volume measurement", "Liver lesion volume?", organ="liver", options="0.0|9"
    ),
    "detect": question("splenomegaly detection", "Is the spleen enlarged?", options="Yes|No"),
    "grade": question(
        "splenomegaly grading", "Which grade?", options="Normal|Mild|Moderate|Severe"
    ),
    "compare": question(
        "kidney volume comparison", "Which is bigger?", options="left kidney|right kidney|the same"
    ),
}
ANSWERS = {
    "exists": ("B", "Yes"),
    "none": ("A", "No"),
    "volume": ("A", "150.0"),
    "both": ("B", "320.0"),
    "hu": ("B", "55.0"),
    "count": ("B", "1"),
    "burden": ("A", "0.0"),
    "detect": ("A", "Yes"),
    "grade": ("B", "Mild"),
    "compare": ("B", "right kidney"),
}


def answered(asked, given=CASE, answer_format=MC):
    *turns, prediction = MODEL.answer(asked, given, answer_format)
    assert isinstance(prediction, Prediction) and all(isinstance(t, Turn) for t in turns)
    assert prediction.trace.turns == tuple(turns)
    return prediction


def test_the_agent_is_found_by_its_name():
    assert models()["rules"] is MODEL
    assert MODEL.kits == ("live",)


@pytest.mark.parametrize("key", ASKED)
def test_it_answers_every_kind_of_question_in_both_formats(key):
    assert answered(ASKED[key]).raw_text == ANSWERS[key][0]
    assert answered(ASKED[key], answer_format=FREE).raw_text == ANSWERS[key][1]


@pytest.mark.parametrize("key", ASKED)
def test_its_trace_is_an_ordinary_trace_that_equals_the_reference(key):
    asked = ASKED[key]
    prediction = answered(asked)
    comparison = compare_chains(
        reference_chain(asked, CASE), prediction_chain(asked, prediction, CASE)
    )
    assert comparison.first_difference is None, comparison
    assert {row.match.value for row in comparison.rows} == {"same"}


@pytest.mark.parametrize(
    ("key", "primitives"),
    [
        ("exists", "segment"),
        ("volume", "segment measure"),
        ("detect", "segment measure lookup"),
        ("grade", "lookup segment measure"),
        ("compare", "segment measure segment measure"),
        ("count", "segment measure"),
    ],
)
def test_it_takes_the_primitives_of_the_subtype(key, primitives):
    calls = [t.call.name for t in answered(ASKED[key]).trace.turns if t.call]
    assert " ".join(tools()[name].primitive for name in calls) == primitives


def test_turns_come_as_they_happen():
    running = MODEL.answer(ASKED["grade"], CASE, MC)
    assert next(running).call.name == "lookup_medical_knowledge"
    assert next(running).call.name == "segment_organ"
    running.close()


@pytest.mark.parametrize("answer_format", [MC, FREE])
@pytest.mark.parametrize(
    ("subtype", "target"),
    [
        ("PDAC existence", "pancreatic_pdac"),
        ("PNET existence", "pancreatic_pnet"),
        ("colon lesion existence", "colon_lesion"),
        ("kidney cyst existence", "kidney_cyst"),
        ("kidney lesion existence", "kidney_lesion"),
        ("kidney tumor existence", "kidney_tumor"),
        ("liver lesion existence", "liver_lesion"),
        ("pancreatic lesion existence", "pancreatic_lesion"),
        ("splenomegaly detection", "spleen"),
        ("splenomegaly grading", "spleen"),
        ("kidney volume comparison", "kidney_left"),
    ],
)
def test_a_missing_mask_is_an_error_never_no(subtype, target, answer_format):
    asked = question(subtype, "?", options="Yes|No")
    prediction = answered(asked, case({"aorta": spot()}, on=ON), answer_format)
    assert prediction.raw_text == f"[ERROR] no mask for {target}"
    assert prediction.failed
    assert prediction.trace.turns[-1].error == f"no mask for {target}"
    assert all(turn.final_answer is None for turn in prediction.trace.turns)


@pytest.mark.parametrize("subtype", ["organ volume measurement", "organ HU measurement"])
def test_an_organ_without_a_mask_is_an_error(subtype):
    prediction = answered(question(subtype, "Of the aorta?", organ="aorta", options="1|2"))
    assert prediction.raw_text == "[ERROR] no mask for aorta"


def test_a_mask_that_is_there_and_empty_is_no_and_zero():
    assert answered(ASKED["none"], answer_format=FREE).raw_text == "No"
    count = question("lesion counting", "How many colon lesions?", organ="colon", options="0|1")
    assert answered(count).raw_text == "A"


def test_a_wider_mask_does_not_decide_a_kind():
    asked = question("kidney tumor existence", "Any tumor?", options="Yes|No")
    full = answered(asked, case({"kidney_lesion": spot()}, on=ON))
    assert full.raw_text.startswith("[ERROR] no mask for kidney_tumor")
    assert answered(asked, case({"kidney_lesion": NOTHING}, on=ON)).raw_text == "B"


def test_a_subtype_without_a_rule_is_an_error_that_lists_the_others():
    prediction = answered(question("bone age", "Which?", options="a|b"))
    assert prediction.raw_text.startswith("[ERROR] ") and "lesion counting" in prediction.raw_text
    assert prediction.failed


def test_a_target_that_was_not_understood_is_an_error():
    asked = question("organ volume measurement", "Volume of the left kidney?", organ="kidney_right")
    assert "kidney_right" in answered(asked).raw_text


def test_the_nearest_option_is_given_bare_and_the_note_says_so():
    asked = question(
        "organ volume measurement", "Volume of the left kidney?", organ="kidney", options="149.0|90"
    )
    prediction = answered(asked)
    assert prediction.raw_text == "A"
    assert "nearest" in prediction.record["note"]
    chain = prediction_chain(asked, prediction, CASE)
    assert prediction.record["note"] in chain.steps[-1].caveats


def test_red_geometry_is_not_measured():
    red = GeometryReport((GeometryWarning("codes_zero", Level.RED, "no orientation is stored"),))
    given = case({"spleen": spot(), "liver_lesion": spot()}, on=ON, report=red)
    prediction = answered(ASKED["detect"], given)
    assert prediction.failed
    assert "no orientation" in prediction.trace.turns[-1].error
    assert answered(ASKED["exists"], given).raw_text == "B"


@pytest.mark.parametrize("key", ASKED)
def test_it_asks_for_the_masks_that_the_evidence_needs(key):
    assert MODEL.wanted_masks(ASKED[key]) == wanted_structures(ASKED[key]) != ()


def test_it_asks_for_no_mask_where_it_cannot_answer():
    assert MODEL.wanted_masks(question("bone age", "Which?")) == ()
