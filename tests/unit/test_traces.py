import json
from dataclasses import replace

import pytest
from evidence_cases import case, cm3_box, grid, question

from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.records import Prediction, ToolCall, ToolResult, Trace, Turn
from napari_ctvqa.evidence.chains import prediction_chain
from napari_ctvqa.evidence.compare import compare_chains

ON = grid((60, 60, 60), (1.0, 1.0, 1.0))
CASE = case({"kidney_left": cm3_box(50, ON), "liver_lesion": cm3_box(5, ON)}, on=ON)
VOLUME = question(
    "organ volume measurement", "Volume of the left kidney?", organ="kidney", options="50.0|60.0"
)


def chain(*turns, text="A", asked=VOLUME, given=CASE, record=None):
    prediction = Prediction(asked.id, "m", text, Trace(turns), None, record or {})
    return prediction_chain(asked, prediction, given)


def called(name, result, step=1, **arguments):
    return Turn(step, ToolCall(name, {**arguments, "image_id": "case_1"}), ToolResult(result))


@pytest.mark.parametrize(
    "result",
    [
        {"value": 50, "unit": "cm³"},
        {"value": 50.0},
        {"volume_cm3": 50.0},
        {"result": 50.0, "units": "cc"},
        {"volume": 50.0, "unit": "ml", "target": "kidney"},
        {"measurement": 50, "unit": "cm3"},
        50,
        json.dumps({"value": 50.0, "unit": "cm^3"}),
        "50",
    ],
)
def test_any_keys_of_a_measurement_are_read(result):
    step = chain(
        called("measure", result, target="kidney_left", measurement_type="volume_cm3")
    ).steps[0]
    assert (step.kind, step.target, step.measure) == (
        StepKind.MEASURE,
        "kidney_left",
        "volume_cm3",
    )
    assert (step.value, step.unit, step.mask) == (50.0, "cm³", "kidney_left")


@pytest.mark.parametrize(
    "result",
    [
        {"a": 1.0, "b": 2.0},
        {"value": True},
        {"value": float("nan")},
        {"value": "many"},
        {},
        None,
        [1, 2],
        "no JSON {",
    ],
)
def test_what_is_no_number_stays_raw(result):
    step = chain(
        called("measure", result, target="kidney_left", measurement_type="volume_cm3")
    ).steps[0]
    assert step.value is None and step.unit == ""
    assert step.raw is result or step.raw == result


def test_a_unit_that_is_not_the_measures_own_is_kept_as_said():
    step = chain(
        called(
            "measure",
            {"value": 50000, "unit": "mm3"},
            target="liver",
            measurement_type="volume_cm3",
        )
    ).steps[0]
    assert (step.value, step.unit) == (50000.0, "mm³")


@pytest.mark.parametrize("key", ["voxel_count", "voxels", "num_voxels"])
def test_voxels_of_a_segmentation_are_read(key):
    step = chain(
        called("segment_organ", {"mask_found": True, key: 12}, target="left kidney")
    ).steps[0]
    assert (step.kind, step.target, step.value, step.unit) == (
        StepKind.SEGMENT,
        "kidney_left",
        12.0,
        "voxels",
    )


def test_targets_lead_to_the_masks_of_the_case():
    turn = called("segment_organ", {"mask_found": True}, target="liver_tumor")
    assert chain(turn).steps[0].mask == "liver_lesion"
    without = chain(turn, given=None).steps[0]
    assert without.target == "liver_tumor"
    unknown = chain(called("segment_organ", {}, target="tail")).steps[0]
    assert (unknown.target, unknown.mask) == ("tail", "")


def test_a_miss_is_an_error_and_an_empty_mask_is_not():
    miss = chain(called("segment_organ", {"mask_found": False}, target="spleen")).steps[0]
    assert miss.error == "no mask found" and miss.value is None
    said = chain(called("segment_organ", {"mask_found": False, "error": "gone"}, target="x")).steps[
        0
    ]
    assert said.error == "gone"
    empty = {"mask_found": False, "voxel_count": 0}
    assert chain(called("segment_organ", empty, target="spleen")).steps[0].value == 0.0


def test_a_call_without_a_result_and_an_error_turn_are_shown():
    made = chain(
        Turn(1, ToolCall("measure", {"target": "liver"})),
        Turn(2, error="timeout"),
        text="[ERROR] timeout",
    )
    assert made.steps[0].error == "the call has no result"
    assert made.steps[1].error == "timeout"
    assert made.steps[-1].error == "timeout"


def test_arguments_of_the_wrong_kind_do_not_matter():
    made = chain(
        Turn(
            1,
            ToolCall("measure", {"target": 5, "measurement_type": ["x"]}),
            ToolResult({"value": 1}),
        ),
        Turn(2, ToolCall("(not readable)", {"(as given)": "…"}), ToolResult(None)),
        Turn(3, ToolCall("crop_organ", {"organ": "liver"}), ToolResult({"image_path": "x.png"})),
    )
    assert [s.target for s in made.steps[:3]] == ["", "", "liver"]
    assert made.steps[0].value is None or made.steps[0].value == 1.0


def test_a_look_up_is_the_fact_it_comes_near():
    grading = question("splenomegaly grading", options="Normal|Mild")
    result = {"results": [{"text": "314.5", "source": "somebody"}]}
    step = chain(
        called("lookup_medical_knowledge", result, query="splenomegaly"), asked=grading
    ).steps[0]
    assert (step.kind, step.target) == (StepKind.LOOKUP, "splenomegaly grade")
    assert (step.value, step.source) == ("314.5", "somebody")
    other = chain(
        called("lookup_medical_knowledge", result, query="kidney volume"), asked=grading
    ).steps[0]
    assert other.target == "kidney volume"


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("B", 60.0, "B: 60.0"),
        ("Answer: B", 60.0, "B: 60.0"),
        ("<think>A</think>B", 60.0, "B: 60.0"),
        ("61.5 cm³", 61.5, "61.5 cm³"),
        ("I cannot tell.", None, "I cannot tell."),
    ],
)
def test_the_answer_is_read_in_the_references_terms(text, value, shown):
    made = chain(text=text)
    assert made.steps[-1].value == value
    assert made.conclusion == shown


def test_labels_are_read_in_the_references_terms():
    grading = question("splenomegaly grading", options="Normal (no splenomegaly)|Mild")
    assert chain(text="A", asked=grading).steps[-1].value == "normal"
    assert chain(text="mild", asked=grading).steps[-1].value == "mild"
    freeform = question("splenomegaly grading", answer="Mild")
    assert chain(text="Severe enlargement", asked=freeform).steps[-1].value == "severe"


def test_what_its_own_numbers_say_goes_with_the_answer():
    turn = called(
        "measure",
        {"value": 59.0, "unit": "cm³"},
        target="kidney_left",
        measurement_type="volume_cm3",
    )
    assert chain(turn).steps[-1].raw["numbers_say"] == 60.0, "of the options the nearest"
    assert chain().steps[-1].raw["numbers_say"] == ""


def test_an_unknown_subtype_still_shows_what_was_done():
    asked = question("bone age", options="colon|spleen")
    made = chain(called("segment_organ", {"voxels": 3}, target="liver"), text="B", asked=asked)
    assert made.steps[0].value == 3.0
    assert made.steps[-1].value == "spleen"


def test_ten_megabytes_of_text_are_shown_raw_and_not_parsed():
    big = '{"value": 1, "x": "' + "y" * 10_000_000 + '"}'
    step = chain(
        called("measure", big, target="kidney_left", measurement_type="volume_cm3"), text=big
    ).steps[0]
    assert step.value is None and step.raw is big


def test_caveats_of_a_tool_stay_with_its_step():
    result = {"value": 1.0, "caveats": ["cut", 5]}
    step = chain(called("measure", result, target="liver", measurement_type="volume_cm3")).steps[0]
    assert step.caveats == ("cut", "5")


# ------------------------------------------------------------------------- units of tools


@pytest.mark.parametrize(
    ("value", "unit"),
    [(150_000.0, "mm3"), (0.15, "L"), (150.0, "mL"), (150.0, "cm3"), (150.0, None), (1.5, "dl")],
)
def test_what_the_models_numbers_say_is_in_the_rules_unit(value, unit):
    free = replace(VOLUME, options=())
    content = {"value": value, "unit": unit} if unit else {"value": value}
    made = chain(
        called("measure", content, target="kidney_left", measurement_type="volume_cm3"),
        text="150.0",
        asked=free,
    )
    assert made.steps[-1].raw["numbers_say"] == 150.0
    assert made.steps[0].value == value, "the tool's own number stays as it said it"


@pytest.mark.parametrize("unit", ["cm", "HU", "furlongs", "voxels"])
def test_a_tools_number_in_a_unit_of_another_kind_says_nothing(unit):
    made = chain(
        called(
            "measure",
            {"value": 150.0, "unit": unit},
            target="kidney_left",
            measurement_type="volume_cm3",
        ),
        text="150.0",
        asked=replace(VOLUME, options=()),
    )
    assert made.steps[-1].raw["numbers_say"] == ""


# ------------------------------------------------------------------------- hostile results


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "content",
    [
        {"value": 10**400},
        {"value": -(10**400), "unit": "cm3"},
        10**400,
        "[" * 50_000,
        '{"a":' * 20_000,
        "9" * 5_000,
        '{"value": 1e999}',
        {"error": _nested(100_000)},
        {"error": 10**5_000},
        {"caveats": [_nested(100_000), 10**5_000]},
        {"results": [{"text": _nested(100_000), "source": 10**5_000}]},
        {"value": float("nan")},
        {"value": True},
        {"unit": ["cm3"], "value": 150.0},
        {"unit": _nested(100_000), "value": 150.0},
    ],
    ids=range(15),
)
@pytest.mark.parametrize("tool", ["measure", "segment_organ", "lookup_medical_knowledge", "other"])
def test_a_hostile_tool_result_costs_its_own_value_only(content, tool):
    good = called("measure", {"value": 150.0}, target="kidney_left", measurement_type="volume_cm3")
    bad = called(tool, content, target="kidney_left", measurement_type="mean_hu", query="x")
    made = chain(bad, good, text="A")
    assert len(made.steps) == 3
    assert made.steps[1].value == 150.0
    assert compare_chains(made, made).rows


def test_numbers_that_are_too_far_apart_for_a_ratio_are_only_different():
    made = chain(
        called("measure", {"value": 1e-200}, target="kidney_left", measurement_type="volume_cm3"),
        text="1e200",
        asked=replace(VOLUME, options=()),
    )
    assert compare_chains(made, made).rows
