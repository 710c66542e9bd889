"""Masks that overlap as bodies do not: the value stays, and a caveat goes with it everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from evidence_cases import case, grid, mask, question

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import GeometryWarning, Level, Source
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.measure import BORDER_CAVEAT
from napari_ctvqa.core.overlaps import outside_caveat, shared_caveat
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.regions import empty_region, region_of, shared_voxels
from napari_ctvqa.core.targets import resolve
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain, wanted_structures
from napari_ctvqa.extensions import tools
from napari_ctvqa.models.rules import MODEL

SHAPE = (40, 40, 40)
MM = grid(SHAPE, (1.0, 1.0, 1.0))
NOTHING = np.zeros(SHAPE, bool)
LABELS = ("liver lesion", "liver")


def box(*parts):
    array = NOTHING.copy()
    array[parts] = True
    return array


def s(start, stop):
    return slice(start, stop)


def region(array):
    return region_of(array, MM)


LIVER = box(s(5, 25), s(5, 25), s(5, 25))


def outside(lesion, organ=LIVER):
    return outside_caveat(region(lesion), [region(organ)], LABELS)


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (0, ""),
        (1, ""),  # 1 of 10 voxels: a tenth is not more than a tenth
        (2, "20 % of liver lesion lies outside the mask of liver"),
        (9, "90 % of liver lesion lies outside the mask of liver"),
        (10, "100 % of liver lesion lies outside the mask of liver"),
    ],
)
def test_a_lesion_that_reaches_out_of_its_organ(beyond, said):
    # ten voxels in a row along x; the liver ends at x 24
    lesion = box(10, 10, s(15 + beyond, 25 + beyond))
    assert outside(lesion) == said


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", ["before", "behind"])
def test_outside_on_every_side(axis, side):
    at = [s(10, 12)] * 3
    at[axis] = s(1, 3) if side == "before" else s(30, 32)
    assert outside(box(*at)).startswith("100 %")


def test_a_whole_component_outside_is_told_however_small():
    # 1000 voxels inside, one far away: 0.1 % of the voxels, but one of two lesions
    lesion = box(s(6, 16), s(6, 16), s(6, 16)) | box(35, 35, 35)
    assert outside(lesion) == (
        "1 of 2 components of liver lesion and 1 % of its voxels lie outside the mask of liver"
    )
    both = box(35, 35, 35) | box(30, 30, 30)
    assert outside(both).startswith("2 of 2 components of liver lesion and 100 %")


def test_a_mask_that_leaves_its_lesions_out_is_told_as_such():
    # some data sets draw the organ without its tumours: the lesion lies in a hole, not beside it
    lesion = box(s(10, 14), s(10, 14), s(10, 14))
    assert "leaves liver lesion out" in outside(lesion, LIVER & ~lesion)
    # at the organ's face a third of its surroundings is not liver: still a hole
    at_face = box(s(5, 9), s(10, 14), s(10, 14))
    assert "leaves liver lesion out" in outside(at_face, LIVER & ~at_face)
    # beside the liver one of six faces touches it: outside
    beside = box(s(10, 14), s(10, 14), s(25, 29))
    assert outside(beside) == "100 % of liver lesion lies outside the mask of liver"


def test_nothing_to_say_of_nothing_and_of_an_empty_organ():
    assert outside(NOTHING) == ""
    assert outside(box(1, 1, 1), NOTHING) == (
        "the mask of liver is empty, though liver lesion has voxels"
    )


@pytest.mark.parametrize(("shared", "said"), [(0, ""), (5, ""), (6, "6 % of a is marked as b too")])
def test_two_organs_that_share_voxels(shared, said):
    # 100 voxels each: 5 % are let pass
    first, second = box(1, s(0, 10), s(0, 10)), box(2, s(0, 10), s(0, 10))
    second[1, 0, :shared] = True
    second[2, 0, :shared] = False
    assert shared_caveat(region(first), region(second), ("a", "b")) == said


def test_the_smaller_of_two_decides_and_the_share_is_of_the_one_asked_for():
    small, large = box(1, s(0, 2), s(0, 5)), box(s(1, 3), s(0, 20), s(0, 25))
    # all 10 voxels of the small one are in the large one, which has 1000
    assert (
        shared_caveat(region(small), region(large), ("a", "b")) == "100 % of a is marked as b too"
    )
    assert shared_caveat(region(large), region(small), ("b", "a")) == "1 % of b is marked as a too"
    assert shared_caveat(region(small), empty_region(MM), ("a", "b")) == ""


def test_shared_voxels_are_those_of_the_arrays():
    rng = np.random.default_rng(7)
    for _ in range(30):
        a, b = (rng.random(SHAPE) > 0.9 for _ in range(2))
        a[: rng.integers(0, 39)], b[:, :, rng.integers(1, 39) :] = False, False
        assert shared_voxels(region(a), region(b)) == np.count_nonzero(a & b)
    with pytest.raises(ValueError, match="different grids"):
        shared_voxels(region(a), region_of(a, grid(SHAPE, (2.0, 1.0, 1.0))))


# -------------------------------------------------------------------- wherever a value is used

STRAY = box(s(30, 34), s(30, 34), s(30, 34))  # far from the liver, and no lesion of any organ
SEGMENTS = {f"liver_segment_{n + 1}": LIVER & box(s(0, 40), s(0, 40), s(5 + 3 * n, 8 + 3 * n))
            for n in range(8)}  # fmt: skip
PANCREAS = {
    "pancreas": box(s(2, 4), s(30, 34), s(2, 32)),
    "pancreas_head": box(s(2, 4), s(30, 34), s(2, 12)),
    "pancreas_body": box(s(2, 4), s(30, 34), s(12, 22)),
    "pancreas_tail": box(s(2, 4), s(30, 34), s(22, 32)),
    "superior_mesenteric_artery": box(s(1, 9), 36, 5),
    "celiac_trunk": box(s(1, 9), 36, 9),
    "portal_vein_and_splenic_vein": box(s(1, 9), 36, 13),
}
MASKS = {
    **SEGMENTS, **PANCREAS, "liver": LIVER, "liver_lesion": STRAY, "spleen": box(35, 2, s(2, 9)),
    "kidney_left": box(s(30, 36), s(2, 8), s(30, 36)),
    "kidney_right": box(s(30, 36), s(2, 8), s(2, 8)),
    "stomach": box(38, 38, 38), "colon": box(s(36, 38), s(20, 22), s(2, 8)),
    **dict.fromkeys(
        ("kidney_lesion", "pancreatic_lesion", "pancreatic_pdac", "pancreatic_pnet",
         "pancreatic_cyst", "kidney_cyst", "kidney_tumor", "colon_lesion"), STRAY),
}  # fmt: skip
OF_LESIONS = {
    "PDAC existence": ("?", ""),
    "PNET existence": ("?", ""),
    "colon lesion existence": ("?", ""),
    "kidney cyst existence": ("?", ""),
    "kidney lesion existence": ("?", ""),
    "kidney tumor existence": ("?", ""),
    "liver lesion existence": ("?", ""),
    "pancreatic lesion existence": ("?", ""),
    "lesion volume measurement": ("?", "liver"),
    "tumor burden percentage": ("What percentage of the liver?", "liver"),
    "adjacent organ": ("?", "pancreas"),
    "bilateral kidney asymmetry": ("?", "kidney"),
    "inter-segment comparison": ("Which has more lesions, segment 7 or segment 8?", "liver"),
    "largest lesion attenuation": ("?", "liver"),
    "largest lesion diameter": ("?", "liver"),
    "largest lesion location": ("?", "liver"),
    "largest lesion slice": ("?", "liver"),
    "lesion count by location": ("in segment 7?", "liver"),
    "lesion counting": ("?", "liver"),
    "lesion outlier": ("?", "liver"),
    "liver lesion clustering": ("?", "liver"),
    "multi-organ lesion burden comparison": (
        "Which has the larger lesion volume, the liver or the pancreas?", "liver"),
    "tumor organ HU difference": ("?", "pancreas"),
    "PDAC vs PNET classification": ("?", "pancreas"),
    "lesion type classification": ("of the kidney lesion?", "kidney"),
    "pancreatic cyst resectability": ("?", "pancreas"),
    "pancreatic lesion resectability": ("?", "pancreas"),
    "pancreatic tumor staging": ("?", "pancreas"),
    "pseudocyst determination": ("?", "pancreas"),
    "renal mass characterization": ("of the kidney?", "kidney"),
}  # fmt: skip


def _is_of_a_lesion(step):
    target = step.target.split(" in ")[0].split(" ")[-1]
    return step.kind is not StepKind.LOOKUP and names.is_lesion(target)


@pytest.mark.parametrize("subtype", OF_LESIONS)
def test_a_lesion_outside_its_organ_is_told_with_every_value_made_of_it(subtype):
    text, organ = OF_LESIONS[subtype]
    options = "stomach|spleen" if subtype == "adjacent organ" else ""
    asked = question(subtype, text, organ=organ, options=options)
    given = case(MASKS, on=MM)
    chain = reference_chain(asked, given)
    of_it = [step for step in chain.steps[:-1] if _is_of_a_lesion(step)]
    measured = [step for step in of_it if step.value]  # 0: no lesion is counted there
    assert measured
    for step in measured:
        assert any("outside the mask of" in caveat for caveat in step.caveats), step
    if chain.conclusion:
        assert any("outside the mask of" in caveat for caveat in chain.steps[-1].caveats)
    inside = {**MASKS, **{n: MASKS[names.parent_of(n)] for n in ("liver_lesion",) if n in MASKS}}
    inside["liver_lesion"] = box(s(10, 12), s(10, 12), s(10, 12))
    if organ == "liver" and "multi" not in subtype:
        quiet = reference_chain(asked, case(inside, on=MM))
        assert not any("outside the mask" in c for x in quiet.steps for c in x.caveats)


@pytest.mark.parametrize("tool", ["segment_organ", "measure", "bounding_box", "hu_statistics"])
def test_the_tools_say_it_too(tool):
    arguments = {"target": "liver_lesion"}
    if tool == "measure":
        arguments["measurement_type"] = "lesion_count"
    found = tools()[tool](case(MASKS, on=MM), arguments)
    assert any("outside the mask of liver" in caveat for caveat in found.content["caveats"])


@pytest.mark.parametrize("tool", ["distance", "contact", "relative_position"])
def test_the_second_structure_of_a_tool_is_doubted_too(tool):
    given = case(MASKS, on=MM)
    found = tools()[tool](given, {"target": "spleen", "other": "liver_lesion"}).content
    assert any("outside the mask of liver" in caveat for caveat in found["caveats"])
    cut = case({**MASKS, "stomach": box(39, 38, 38)}, on=MM)
    found = tools()[tool](cut, {"target": "spleen", "other": "stomach"}).content
    assert found["caveats"] == [BORDER_CAVEAT]


def test_the_agents_chain_carries_it():
    asked = question("lesion counting", "How many liver lesions?", organ="liver", answer="1")
    given = case(MASKS, on=MM)
    *_, prediction = MODEL.answer(asked, given, AnswerFormat.FREEFORM)
    chain = prediction_chain(asked, prediction, given)
    assert any("outside the mask of liver" in c for step in chain.steps for c in step.caveats)


KIDNEY = box(s(10, 20), s(10, 20), s(10, 20))
SPLEEN = box(s(18, 28), s(10, 20), s(10, 20))  # a fifth of the kidney's voxels


@pytest.mark.parametrize(
    ("subtype", "text", "organ"),
    [
        ("organ volume measurement", "Volume of the left kidney?", "kidney"),
        ("organ volume measurement", "Volume of the kidneys?", "kidney"),
        ("organ volume measurement", "Volume of the spleen?", "spleen"),
        ("organ HU measurement", "Mean HU of the spleen?", "spleen"),
        ("kidney volume comparison", "Which kidney is larger?", ""),
        ("splenomegaly detection", "Is the spleen enlarged?", ""),
        ("splenomegaly grading", "Which grade?", ""),
        ("organ enlargement", "Is the spleen enlarged?", "spleen"),
        ("organ aggregation", "Volume of the spleen and the liver?", ""),
    ],
)
def test_two_organs_in_one_place_are_told_of_both(subtype, text, organ):
    masks = {"kidney_left": KIDNEY, "spleen": SPLEEN, "kidney_right": box(s(30, 32), 5, 5),
             "liver": box(s(2, 4), s(2, 4), s(2, 4))}  # fmt: skip
    chain = reference_chain(question(subtype, text, organ=organ), case(masks, on=MM))
    assert chain.conclusion
    said = [c for c in chain.steps[-1].caveats if "marked as" in c]
    whole = {"spleen": "20 % of spleen is marked as left kidney too",
             "kidney": "20 % of left kidney is marked as spleen too"}  # fmt: skip
    assert said == [whole["kidney" if "kidney" in text else "spleen"]]
    apart = {**masks, "spleen": box(s(20, 28), s(10, 20), s(10, 20))}
    quiet = reference_chain(question(subtype, text, organ=organ), case(apart, on=MM))
    assert not any("marked as" in c for step in quiet.steps for c in step.caveats)


def test_masks_on_two_grids_are_compared_in_the_world():
    fine = grid((80, 80, 80), (0.5, 0.5, 0.5))
    # of the finer grid, voxel centres run from 0 in steps of 0.5 mm: its 20 to 39 are 10 to 19.5
    lesion = np.zeros(fine.shape_zyx, bool)
    lesion[20:24, 20:24, 20:24] = True
    inside = mask("liver_lesion", lesion, fine)
    given = case({"liver": LIVER}, on=MM)
    given = replace(given, masks={**given.masks, "liver_lesion": inside})
    assert resolve(given, "liver_lesion").caveats == ()
    lesion = np.zeros(fine.shape_zyx, bool)
    lesion[60:64, 60:64, 60:64] = True  # 30 to 31.5 mm: the liver ends at 24
    given = replace(
        given, masks={**given.masks, "liver_lesion": mask("liver_lesion", lesion, fine)}
    )
    assert resolve(given, "liver_lesion").caveats == (
        "100 % of liver lesion lies outside the mask of liver",
    )


def test_a_mask_that_does_not_belong_to_the_ct_says_nothing_about_others():
    elsewhere = GeometryWarning("mask_elsewhere", Level.RED, "liver.nii.gz lies elsewhere")
    given = case({"liver": LIVER, "liver_lesion": STRAY}, on=MM)
    assert resolve(given, "liver_lesion").caveats
    bad = replace(given.masks["liver"], warnings=(elsewhere,))
    given = replace(given, masks={**given.masks, "liver": bad})
    assert resolve(given, "liver_lesion").caveats == ()


def test_without_the_organs_mask_nothing_is_said():
    assert resolve(case({"liver_lesion": STRAY}, on=MM), "liver_lesion").caveats == ()


def test_an_assumed_empty_lesion_says_nothing():
    given = case({"liver": LIVER, "liver_lesion": NOTHING}, on=MM)
    none = replace(given.masks["liver_lesion"], source=Source.ASSUMED)
    given = replace(given, masks={**given.masks, "liver_lesion": none})
    assert resolve(given, "liver_lesion").caveats == ()


def test_only_the_component_that_is_asked_for_is_judged():
    lesions = box(s(10, 14), s(10, 14), s(10, 14)) | box(35, 35, 35)
    given = case({"liver": LIVER, "liver_lesion": lesions}, on=MM)
    assert resolve(given, "largest liver_lesion").caveats == ()
    assert "100 %" in resolve(given, "second largest liver_lesion").caveats[0]
    assert "1 of 2" in resolve(given, "liver_lesion").caveats[0]


def test_what_the_caveats_need_is_asked_for_last():
    asked = question("lesion counting", "How many liver lesions?", organ="liver")
    wanted = wanted_structures(asked)
    assert wanted[0] == "liver_lesion" and wanted[-1] == "liver"
    asked = question("organ volume measurement", "Volume of the left kidney?", organ="kidney")
    assert wanted_structures(asked)[0] == "kidney_left"
    assert "spleen" in wanted_structures(asked)


def test_neighbours_are_known_structures_and_no_part_of_one_another():
    for first, second in names.table().apart:
        assert first != second
        for one, other in ((first, second), (second, first)):
            assert names.canonical(one) == one and names.is_known(one)
            assert other in names.neighbours_of(one)
            assert other not in (*names.parts_of(one), *names.divisions_of(one))
            assert not names.is_lesion(one)
