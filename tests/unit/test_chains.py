from dataclasses import replace

import numpy as np
import pytest
from evidence_cases import block, case, cm3_box, grid, question

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level
from napari_ctvqa.core.chains import ChainStatus, StepKind
from napari_ctvqa.core.measure import BORDER_CAVEAT
from napari_ctvqa.evidence.chains import reference_chain, wanted_structures
from napari_ctvqa.evidence.check import check

# 0.25 mm³ voxels would make any volume exact; 1 mm³ ones make 0.1 cm³ = 100 voxels
GRID = grid((110, 110, 110), (1.0, 1.0, 1.0))
NOTHING = np.zeros(GRID.shape_zyx, bool)


def spot(*where):
    array = NOTHING.copy()
    array[where or (5, 5, 5)] = True
    return array


def last(chain):
    assert chain.steps[-1].kind is StepKind.CONCLUDE
    return chain.steps[-1]


def concluded(chain):
    return last(chain).value


EXISTENCE = {
    "PDAC existence": "pancreatic_pdac",
    "PNET existence": "pancreatic_pnet",
    "colon lesion existence": "colon_lesion",
    "kidney cyst existence": "kidney_cyst",
    "kidney lesion existence": "kidney_lesion",
    "kidney tumor existence": "kidney_tumor",
    "liver lesion existence": "liver_lesion",
    "pancreatic lesion existence": "pancreatic_lesion",
}


@pytest.mark.parametrize(("subtype", "structure"), EXISTENCE.items())
def test_one_voxel_exists_an_empty_mask_is_no_and_an_absent_one_is_unknown(subtype, structure):
    asked = question(subtype, "Is there one?", options="Yes|No", letter="A", answer="Yes")
    there = reference_chain(asked, case({structure: spot()}, on=GRID))
    assert (concluded(there), there.status) == ("yes", ChainStatus.AGREES)
    assert there.steps[0].mask == structure
    empty = reference_chain(asked, case({structure: NOTHING}, on=GRID))
    assert (concluded(empty), empty.status) == ("no", ChainStatus.DIFFERS)
    absent = reference_chain(asked, case({"liver": spot()}, on=GRID))
    assert (concluded(absent), absent.status) == (None, ChainStatus.CANNOT_CHECK)
    assert absent.reason == f"no mask for {structure}"


def test_existence_asked_the_other_way_round():
    asked = question("liver lesion existence", "Is the liver free of lesions?", answer="No")
    assert reference_chain(asked, case({"liver_lesion": spot()}, on=GRID)).conclusion == "No"


def test_a_kind_is_not_read_from_the_wider_mask_unless_that_is_empty():
    asked = question("kidney cyst existence", "Any cyst in the kidney?", answer="No")
    full = reference_chain(asked, case({"kidney_lesion": spot()}, on=GRID))
    assert full.status is ChainStatus.CANNOT_CHECK
    assert full.reason == "no mask for kidney_cyst"
    none = reference_chain(asked, case({"kidney_lesion": NOTHING}, on=GRID))
    assert (none.conclusion, none.status) == ("No", ChainStatus.AGREES)
    tumour = question("kidney tumor existence", "Any tumor in the kidney?", answer="No")
    full = reference_chain(tumour, case({"kidney_lesion": spot()}, on=GRID))
    assert full.status is ChainStatus.CANNOT_CHECK
    assert "does not tell the kinds apart" in full.reason
    none = reference_chain(tumour, case({"kidney_lesion": NOTHING}, on=GRID))
    assert (none.conclusion, none.status) == ("No", ChainStatus.AGREES)


def test_any_lesion_is_the_union_of_its_kinds():
    asked = question("liver lesion existence", "Any liver lesion?", answer="Yes")
    masks = {"liver_lesion": NOTHING, "liver_cyst": spot()}
    assert reference_chain(asked, case(masks, on=GRID)).conclusion == "Yes"
    kinds_only = reference_chain(asked, case({"liver_cyst": spot()}, on=GRID))
    assert kinds_only.conclusion == "Yes"
    assert any("other kinds may be missing" in c for c in last(kinds_only).caveats)
    nothing_known = reference_chain(asked, case({"liver_cyst": NOTHING}, on=GRID))
    assert nothing_known.status is ChainStatus.CANNOT_CHECK


# ------------------------------------------------------------------------------- splenomegaly


@pytest.mark.parametrize(
    ("volume_cm3", "enlarged", "grade"),
    [
        (100.0, "no", "normal"),
        (314.4, "no", "normal"),
        (314.5, "no", "mild"),
        (314.6, "yes", "mild"),
        (499.9, "yes", "mild"),
        (500.0, "yes", "mild"),
        (500.1, "yes", "moderate"),
        (800.0, "yes", "moderate"),
        (800.1, "yes", "severe"),
    ],
)
def test_spleen_below_at_and_above_every_threshold(volume_cm3, enlarged, grade):
    given = case({"spleen": cm3_box(volume_cm3, GRID)}, on=GRID)
    detection = question("splenomegaly detection", "Is the spleen enlarged?", answer=enlarged)
    chain = reference_chain(detection, given)
    assert (concluded(chain), chain.status) == (enlarged, ChainStatus.AGREES)
    grading = question("splenomegaly grading", "Which grade?", answer=grade)
    chain = reference_chain(grading, given)
    assert (concluded(chain), chain.status) == (grade, ChainStatus.AGREES)


def test_only_the_boundary_itself_is_an_assumption():
    asked = question("splenomegaly detection", "Is the spleen enlarged?", answer="No")
    at = reference_chain(asked, case({"spleen": cm3_box(314.5, GRID)}, on=GRID))
    below = reference_chain(asked, case({"spleen": cm3_box(200, GRID)}, on=GRID))
    assert last(at).assumed and not last(below).assumed
    assert any("assumed at the boundary" in caveat for caveat in last(at).caveats)


def test_the_steps_follow_the_primitives_of_the_subtype():
    given = case({"spleen": cm3_box(400, GRID)}, on=GRID)
    detection = reference_chain(question("splenomegaly detection", answer="Yes"), given)
    kinds = [step.kind.value for step in detection.steps]
    assert kinds == ["segment", "measure", "lookup", "conclude"]
    grading = reference_chain(question("splenomegaly_grading", answer="Mild"), given)
    assert [step.kind.value for step in grading.steps] == [
        "lookup",
        "segment",
        "measure",
        "conclude",
    ]
    assert "Bezerra" in grading.steps[0].source
    measured = grading.steps[2]
    assert (measured.measure, measured.unit, measured.value) == ("volume_cm3", "cm³", 400.0)


def test_a_spleen_asked_whether_it_is_normal():
    given = case({"spleen": cm3_box(400, GRID)}, on=GRID)
    asked = question("splenomegaly detection", "Is the spleen normal in size?", answer="No")
    assert reference_chain(asked, given).conclusion == "No"


# ------------------------------------------------------------------------------------ volumes


def test_volume_counts_anisotropic_voxels_in_cubic_centimetres():
    on = grid((40, 50, 60), (2.5, 0.8, 0.8))
    array = np.zeros(on.shape_zyx, bool)
    array[10:20, 10:30, 10:50] = True  # 8,000 voxels of 1.6 mm³ are 12.8 cm³
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver")
    chain = reference_chain(asked, case({"liver": array}, on=on))
    assert chain.conclusion == "12.8 cm³"


def test_the_text_decides_the_side_and_the_sides_differ():
    masks = {"kidney_left": cm3_box(150, GRID), "kidney_right": cm3_box(170, GRID)}
    given = case(masks, on=GRID)
    for side, expected in (("left", "150.0 cm³"), ("right", "170.0 cm³")):
        asked = question(
            "organ volume measurement", f"What is the volume of the {side} kidney?", organ="kidney"
        )
        chain = reference_chain(asked, given)
        assert chain.conclusion == expected
        assert chain.steps[1].target == f"kidney_{side}"
    both = question("organ volume measurement", "Total volume of the kidneys?", organ="kidney")
    assert reference_chain(both, given).conclusion == "320.0 cm³"


def test_text_and_record_that_name_different_sides_are_not_answered():
    asked = question(
        "organ volume measurement", "What is the volume of the left kidney?", organ="kidney_right"
    )
    chain = reference_chain(asked, case({"kidney_left": spot(), "kidney_right": spot()}, on=GRID))
    assert chain.status is ChainStatus.CANNOT_CHECK
    assert "left kidney" in chain.reason and "kidney_right" in chain.reason


def test_a_kidney_in_two_components_is_measured_whole():
    array = cm3_box(80, GRID)
    array[100:104, 50:60, 50:60] = True  # 400 voxels apart from the rest: 0.4 cm³
    asked = question("organ volume measurement", "Volume of the right kidney?", organ="kidney")
    chain = reference_chain(asked, case({"kidney_right": array}, on=GRID))
    assert chain.conclusion == "80.4 cm³"


def test_an_organ_at_the_border_carries_the_caveat_through_to_the_conclusion():
    array = NOTHING.copy()
    array[0:20, 10:20, 10:20] = True
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver", answer="2")
    chain = reference_chain(asked, case({"liver": array}, on=GRID))
    assert BORDER_CAVEAT in chain.steps[1].caveats
    assert BORDER_CAVEAT in last(chain).caveats
    inside = reference_chain(asked, case({"liver": cm3_box(2, GRID)}, on=GRID))
    assert BORDER_CAVEAT not in last(inside).caveats


def test_a_reference_that_differs_says_by_how_much():
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver", answer="90")
    chain = reference_chain(asked, case({"liver": cm3_box(100, GRID)}, on=GRID))
    assert chain.status is ChainStatus.DIFFERS
    assert "100.0 cm³" in chain.reason and "11.1 % more" in chain.reason


# ----------------------------------------------------------------------------------------- HU


def test_organ_hu_leaves_the_lesions_out():
    hu = np.full(GRID.shape_zyx, -1000, np.int16)
    liver, lesion = NOTHING.copy(), NOTHING.copy()
    liver[10:30, 10:30, 10:30] = True
    lesion[12:16, 12:16, 12:16] = True
    hu[liver] = 60
    hu[lesion] = 20
    asked = question("organ HU measurement", "What is the mean HU of the liver?", organ="liver")
    assert wanted_structures(asked)[:1] == ("liver",)
    assert "liver_lesion" in wanted_structures(asked)
    with_lesion = case({"liver": liver, "liver_lesion": lesion}, hu=hu, on=GRID)
    assert reference_chain(asked, with_lesion).conclusion == "60.0 HU"
    without = reference_chain(asked, case({"liver": liver}, hu=hu, on=GRID))
    assert without.conclusion == "59.7 HU"  # 60 - 40 * 64 / 8000 = 59.68
    assert any("lesions, if there are any" in caveat for caveat in last(without).caveats)


def test_hu_of_an_organ_that_is_all_lesion_cannot_be_given():
    asked = question("organ HU measurement", "Mean HU of the liver?", organ="liver")
    chain = reference_chain(asked, case({"liver": spot(), "liver_lesion": spot()}, on=GRID))
    assert chain.status is ChainStatus.CANNOT_CHECK
    assert "no voxel" in chain.reason


# ------------------------------------------------------------------------------------ lesions


def lesions():
    array = NOTHING.copy()
    array[10:20, 10:20, 10:20] = True  # 1000 mm³
    array[40:44, 40:44, 40:44] = True  # 64 mm³
    array[44, 44, 44] = True  # joined to it by a corner only: the same component, 65 mm³
    array[80, 80, 80] = True  # one voxel, 1 mm³
    return array


def test_lesions_are_26_connected_components():
    asked = question("lesion counting", "How many liver lesions?", organ="liver", answer="3")
    chain = reference_chain(asked, case({"liver_lesion": lesions()}, on=GRID))
    assert (concluded(chain), chain.status) == (3.0, ChainStatus.AGREES)
    assert chain.conclusion == "3 lesions"
    assert last(chain).assumed
    assert any("10 mm³" in c and "2 lesions" in c for c in last(chain).caveats)


def test_lesion_volume_in_all_and_of_the_largest():
    given = case({"liver_lesion": lesions()}, on=GRID)
    total = question("lesion volume measurement", "Total liver lesion volume?", organ="liver")
    assert reference_chain(total, given).conclusion == "1.1 cm³"  # 1066 mm³
    largest = question(
        "lesion volume measurement", "Volume of the largest liver lesion?", organ="liver"
    )
    chain = reference_chain(largest, given)
    assert chain.conclusion == "1.0 cm³"
    assert chain.steps[1].measure == "largest_lesion_volume_cm3"


def test_empty_lesions_are_zero_and_absent_ones_are_unknown():
    for subtype, empty in (
        ("lesion counting", "0 lesions"),
        ("lesion volume measurement", "0.0 cm³"),
    ):
        asked = question(subtype, "Liver lesions?", organ="liver", answer="0")
        none = reference_chain(asked, case({"liver_lesion": NOTHING}, on=GRID))
        assert (none.conclusion, none.status) == (empty, ChainStatus.AGREES)
        unknown = reference_chain(asked, case({"liver": spot()}, on=GRID))
        assert unknown.status is ChainStatus.CANNOT_CHECK
        assert unknown.reason == "no mask for liver_lesion"


def test_the_record_or_the_text_may_name_the_kind_of_lesion():
    masks = {"kidney_cyst": spot(), "kidney_tumor": lesions(), "kidney_lesion": NOTHING}
    given = case(masks, on=GRID)
    by_text = question("lesion counting", "How many kidney cysts?", organ="kidney")
    assert reference_chain(by_text, given).conclusion == "1 lesion"
    by_record = question("lesion counting", "How many?", organ="kidney", lesion="tumor")
    assert reference_chain(by_record, given).conclusion == "3 lesions"
    any_kind = question("lesion counting", "How many kidney lesions?", organ="kidney")
    assert reference_chain(any_kind, given).conclusion == "4 lesions"


def test_lesions_of_one_side_are_not_guessed_without_the_kidneys():
    asked = question("lesion counting", "How many lesions in the left kidney?", organ="kidney")
    chain = reference_chain(asked, case({"kidney_lesion": lesions()}, on=GRID))
    assert chain.status is ChainStatus.CANNOT_CHECK
    assert "no mask for kidney_left, kidney_right" in chain.reason


# ------------------------------------------------------------------------------------ kidneys


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(150.1, 150.0, "left"), (150.0, 150.0, "same"), (149.9, 150.0, "right"), (90, 150, "right")],
)
def test_kidney_comparison_below_at_and_above_equality(left, right, expected):
    masks = {"kidney_left": cm3_box(left, GRID), "kidney_right": cm3_box(right, GRID)}
    asked = question(
        "kidney volume comparison",
        "Pick the kidney that is bigger in size:",
        options="left kidney|right kidney|the same",
        letter={"left": "A", "right": "B", "same": "C"}[expected],
    )
    chain = reference_chain(asked, case(masks, on=GRID))
    assert (concluded(chain), chain.status) == (expected, ChainStatus.AGREES)
    assert [s.kind.value for s in chain.steps] == [*(["segment", "measure"] * 2), "conclude"]
    assert last(chain).assumed, "when kidneys count as the same is not known"


def test_the_smaller_kidney_is_the_other_one():
    masks = {"kidney_left": cm3_box(90, GRID), "kidney_right": cm3_box(150, GRID)}
    asked = question("kidney volume comparison", "Which kidney is smaller?", answer="left kidney")
    assert reference_chain(asked, case(masks, on=GRID)).conclusion == "left kidney"


def test_a_difference_of_three_percent_names_what_the_other_rules_say():
    masks = {"kidney_left": cm3_box(145.5, GRID), "kidney_right": cm3_box(150, GRID)}
    asked = question("kidney volume comparison", "Which kidney is larger?", answer="right kidney")
    chain = reference_chain(asked, case(masks, on=GRID))
    assert sum("by another rule" in caveat for caveat in last(chain).caveats) == 2


def test_one_kidney_without_a_mask_cannot_be_compared():
    asked = question("kidney volume comparison", "Which is larger?", answer="left kidney")
    chain = reference_chain(asked, case({"kidney_left": spot()}, on=GRID))
    assert chain.status is ChainStatus.CANNOT_CHECK
    assert chain.reason == "no mask for kidney_right"
    assert chain.steps[1].value is not None, "what can be measured is still shown"


# -------------------------------------------------------------------------------- not checked


def test_a_subtype_without_a_rule_says_so():
    chain = reference_chain(question("bone age", "Which?"), case({}, on=GRID))
    assert chain.status is ChainStatus.CANNOT_CHECK
    assert "bone age" in chain.reason
    assert wanted_structures(question("bone age", "Which?")) == ()


def test_red_geometry_blocks_sizes_and_sides_but_not_presence():
    warning = GeometryWarning("codes_zero", Level.RED, "no orientation is stored")
    red = GeometryReport((warning,))
    masks = {"spleen": cm3_box(400, GRID), "liver_lesion": spot()}
    given = case(masks, on=GRID, report=red)
    blocked = reference_chain(question("splenomegaly detection", answer="Yes"), given)
    assert blocked.status is ChainStatus.CANNOT_CHECK
    assert "no orientation is stored" in blocked.reason
    asked = question("liver lesion existence", answer="Yes")
    assert reference_chain(asked, given).status is ChainStatus.AGREES


def test_what_the_reader_says_of_a_mask_stays_with_its_numbers():
    given = case({"liver": cm3_box(5, GRID)}, on=GRID)
    doubted = replace(given.masks["liver"], caveats=("voxel size in doubt",))
    given = replace(given, masks={"liver": doubted})
    asked = question("organ volume measurement", organ="liver", answer="5")
    assert "voxel size in doubt" in last(reference_chain(asked, given)).caveats


@pytest.mark.parametrize("code", ["mask_elsewhere", "mask_shape", "codes_zero"])
def test_one_misplaced_mask_blocks_only_what_needs_it(code):
    warning = GeometryWarning(code, Level.RED, "colon.nii.gz lies elsewhere")
    report = GeometryReport((warning,))
    given = case({"spleen": cm3_box(200, GRID), "colon": spot()}, on=GRID)
    colon = replace(given.masks["colon"], warnings=(warning,))
    given = replace(given, masks={**given.masks, "colon": colon}, report=report)
    spleen = reference_chain(question("splenomegaly detection", answer="No"), given)
    assert spleen.status is ChainStatus.AGREES
    asked = question("organ volume measurement", organ="colon", answer="0.0")
    assert "lies elsewhere" in reference_chain(asked, given).reason


def test_a_mask_that_cannot_be_read_is_named_with_its_reason():
    given = case({}, on=GRID, problems={"spleen": "spleen.nii.gz: truncated"}, files=["spleen"])
    chain = reference_chain(question("splenomegaly detection", answer="No"), given)
    assert chain.reason == "no mask for spleen: spleen.nii.gz: truncated"


def test_the_formula_of_a_lesions_hu_speaks_of_the_lesion():
    on = grid()
    liver = block(on.shape_zyx, slice(2, 30), slice(2, 30), slice(2, 30))
    lesion = block(on.shape_zyx, slice(5, 9), slice(5, 9), slice(5, 9))
    text = "By how much do liver lesion and liver differ in HU?"
    asked = question("tumor organ HU difference", text, organ="liver", answer="0")
    steps = reference_chain(asked, case({"liver": liver, "liver_lesion": lesion})).steps
    assert {step.target: step.rule for step in steps if step.measure == "mean_hu"} == {
        "liver_lesion": "mean HU over the lesion's own voxels",
        "liver": "mean HU over the organ minus its lesions",
    }


def test_a_slice_differs_by_slices():
    on = grid()
    shown = case({"liver_lesion": block(on.shape_zyx, slice(12, 13), slice(5, 9), slice(5, 15))})
    text = "On which slice is the largest liver lesion widest?"
    asked = question("largest lesion slice", text, organ="liver", answer="20")
    chain = reference_chain(asked, shown)  # 40 slices, the display's 12th from above: 27
    assert chain.status is ChainStatus.DIFFERS
    assert chain.reason == "recomputed 27, stated 20: 7 slices off"
    assert (chain.difference, chain.relative_difference) == (7.0, None)
    made = check(asked, shown)
    assert made.slices_off == "+7 slices"


def test_without_a_subtype_the_reason_says_so():
    asked = replace(question("lesion counting", "How many?"), subtype="")
    assert "states no subtype" in reference_chain(asked, case({})).reason
