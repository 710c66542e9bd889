"""What masks may tell: not of another scan, not against each other, the same for every question."""

import itertools
import json
from dataclasses import replace

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.targets import resolve
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import open_steps, read_case
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.desk import has_wanted

from evidence_cases import question  # isort: skip


@pytest.fixture
def folder(tmp_path, phantom):
    """A case with the phantom's masks."""
    return phantoms.save_case(tmp_path / "case")


def put(folder, name, array, affine):
    phantoms.save(folder / "segmentations" / f"{name}.nii.gz", array, affine, "LPS")


def answer(folder, subtype, text, **fields):
    """Return the rule agent's raw text, from the masks that it asks for."""
    asked = question(subtype, text, **fields)
    case = read_case(find_case(folder), wanted=MODEL.wanted_masks(asked))
    return list(MODEL.answer(asked, case, AnswerFormat.FREEFORM))[-1].raw_text


# Masks of another scan ----------------------------------------------------------------------

EXISTENCE = ("liver lesion existence", "Is there a liver lesion?")


def far(affine):
    moved = affine.copy()
    moved[2, 3] += 5000
    return moved


@pytest.mark.parametrize("filled", [True, False])
def test_a_mask_of_another_scan_says_neither_yes_nor_no(folder, phantom, filled):
    put(folder, "liver_lesion", phantom.masks["liver_lesion"] * filled, far(phantom.affine))
    said = answer(folder, *EXISTENCE, organ="liver")
    assert said.startswith("[ERROR]") and "liver_lesion.nii.gz" in said


def test_a_kind_of_another_scan_says_nothing_of_any_lesion(folder, phantom):
    put(folder, "liver_tumor", phantom.masks["liver_lesion"], far(phantom.affine))
    assert answer(folder, *EXISTENCE, organ="liver").startswith("[ERROR]")


def test_a_lesion_of_another_scan_blocks_the_hu_that_leave_it_out(folder, phantom):
    put(folder, "liver_lesion", phantom.masks["liver_lesion"], far(phantom.affine))
    said = answer(folder, "organ HU measurement", "Mean HU of the liver?", organ="liver")
    assert said.startswith("[ERROR]") and "liver_lesion.nii.gz" in said


def test_existence_does_not_need_to_know_the_sides(folder):
    for path in [folder / "ct.nii.gz", *(folder / "segmentations").iterdir()]:
        phantoms.edit_header(path, qform_code=0, sform_code=0)
    assert answer(folder, *EXISTENCE, organ="liver") == "Yes"


def test_a_bad_mask_only_concerns_the_questions_that_need_it(folder, phantom):
    put(folder, "spleen", phantom.masks["spleen"], far(phantom.affine))
    phantoms.edit_header(
        folder / "segmentations" / "kidney_left.nii.gz", qform_code=0, sform_code=0
    )
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver")
    case = read_case(find_case(folder))
    said = list(MODEL.answer(asked, case, AnswerFormat.FREEFORM))[-1].raw_text
    volume_cm3 = phantom.masks["liver"].sum() * np.prod(phantoms.SPACING_MM) / 1000
    assert float(said) == pytest.approx(volume_cm3, abs=0.05)


# Several masks of one structure ---------------------------------------------------------------

VOLUME = ("organ volume measurement", "What is the volume of the gallbladder?")
PAIRS = [("liver_lesion", "Liver-Lesion"), ("Liver-Lesion", "hepatic_lesion")]


def both(folder, phantom, first, second, names=PAIRS[0]):
    """Write two masks of one structure from arrays."""
    (folder / "segmentations" / "liver_lesion.nii.gz").unlink()
    for name, array in zip(names, (first, second), strict=True):
        put(folder, name, array.astype(np.uint8), phantom.affine)


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("filled", [(1, 0), (0, 1)])
def test_masks_of_one_structure_that_differ_are_not_used(folder, phantom, names, filled):
    lesion = phantom.masks["liver_lesion"]
    both(folder, phantom, lesion * filled[0], lesion * filled[1], names)
    case = read_case(find_case(folder), label_maps=True)
    assert "liver_lesion" not in case.masks and set(case.problems) == set(names)
    [warning] = case.report.warnings
    assert (warning.code, warning.level) == ("masks_differ", "amber")
    assert all(f"{name}.nii.gz" in warning.message for name in names)
    assert "lesions" not in case.label_maps  # nothing of them is drawn either
    assert answer(folder, *EXISTENCE, organ="liver").startswith("[ERROR]")


def test_masks_that_differ_by_one_voxel_differ(folder, phantom):
    lesion = phantom.masks["liver_lesion"]
    more = lesion.copy()
    more[tuple(np.argwhere(lesion)[0])] = 0
    both(folder, phantom, lesion, more)
    assert "liver_lesion" not in read_case(find_case(folder)).masks


@pytest.mark.parametrize("filled", [1, 0])
def test_masks_of_one_structure_that_agree_are_one(folder, phantom, filled):
    lesion = phantom.masks["liver_lesion"] * filled
    both(folder, phantom, lesion, lesion)
    case = read_case(find_case(folder), label_maps=True)
    assert case.masks["liver_lesion"].name == "liver_lesion"
    assert not case.problems and not case.report.warnings
    assert "Liver-Lesion.nii.gz" in case.files.notes[-1]
    assert answer(folder, *EXISTENCE, organ="liver") == ("Yes" if filled else "No")


def test_alike_masks_stored_in_different_orders_are_one(folder, phantom):
    lesion = phantom.masks["liver_lesion"]
    phantoms.save(folder / "segmentations" / "hepatic_lesion.nii.gz", lesion, phantom.affine, "SPR")
    assert read_case(find_case(folder)).masks["liver_lesion"].own_region.voxels == lesion.sum()


def test_a_second_mask_that_cannot_be_read_leaves_the_structure_unknown(folder):
    (folder / "segmentations" / "gallbladder.nii.gz").write_bytes(b"no mask")
    liver = folder / "segmentations" / "liver.nii.gz"
    (folder / "segmentations" / "gall_bladder.nii.gz").write_bytes(liver.read_bytes())
    case = read_case(find_case(folder))
    assert "gall_bladder" not in case.masks and "gall_bladder" in case.problems
    assert answer(folder, *VOLUME, organ="gallbladder").startswith("[ERROR]")


@pytest.mark.parametrize("names", [("gallbladder", "gall_bladder"), ("liver", "liver")])
def test_two_labels_of_one_structure_are_not_settled(tmp_path, phantom, names):
    phantoms.save(tmp_path / "ct.nii.gz", phantom.ct, phantom.affine)
    phantoms.save(tmp_path / "labels.nii.gz", phantom.masks["liver"] * 2, phantom.affine)
    table = {"1": names[0], "2": names[1]}
    (tmp_path / "labels.json").write_text(json.dumps(table))
    case = read_case(find_case(tmp_path))
    assert not case.masks and set(case.problems) == set(names)
    assert "label 1" in case.problems[names[0]] and "label 2" in case.problems[names[0]]


def test_masks_that_differ_are_never_shown_while_a_case_fills(folder, phantom):
    lesion = phantom.masks["liver_lesion"]
    both(folder, phantom, lesion, lesion * 0)
    for case in open_steps(find_case(folder), first=("liver_lesion",)):
        assert "liver_lesion" not in case.masks
        assert "lesions" not in case.label_maps
    assert case.complete and len(case.problems) == 2


def test_other_structures_are_answered_beside_masks_that_differ(folder, phantom):
    lesion = phantom.masks["liver_lesion"]
    both(folder, phantom, lesion, lesion * 0)
    asked = question("organ volume measurement", "Volume of the spleen?", organ="spleen")
    case = read_case(find_case(folder))
    said = list(MODEL.answer(asked, case, AnswerFormat.FREEFORM))[-1].raw_text
    assert float(said) > 0


# Kinds and parts of lesions -------------------------------------------------------------------

FAMILIES = {
    "pancreas": (
        "pancreatic_lesion",
        {"pancreas_tumor": (), "pancreatic_cyst": (), "pancreatic_pdac": (), "pancreatic_pnet": ()},
    ),
    "kidney": (
        "kidney_lesion",
        {"kidney_tumor": (), "kidney_cyst": ("kidney_cyst_left", "kidney_cyst_right")},
    ),
    "liver": (
        "liver_lesion",
        {"liver_tumor": ("hepatic_vessel_tumor",), "liver_cyst": (), "hepatic_vessel_tumor": ()},
    ),
    "colon": ("colon_lesion", {"colon_tumor": ()}),
}
"""By organ: the mask of any lesion, and its kinds with what each of them holds."""
ASKED = {
    "pancreatic_pdac": ("PDAC existence", "Is there PDAC?"),
    "pancreatic_pnet": ("PNET existence", "Is there a PNET?"),
    "pancreatic_lesion": ("pancreatic lesion existence", "Is there a pancreatic lesion?"),
    "kidney_cyst": ("kidney cyst existence", "Is there a kidney cyst?"),
    "kidney_tumor": ("kidney tumor existence", "Is there a kidney tumor?"),
    "kidney_lesion": ("kidney lesion existence", "Is there a kidney lesion?"),
    "liver_lesion": ("liver lesion existence", "Is there a liver lesion?"),
    "colon_lesion": ("colon lesion existence", "Is there a colon lesion?"),
}


def expected(family, target, state):
    """What masks (filled, empty, absent) allow to say, worked out from sets alone."""
    general, kinds = FAMILIES[family]
    held = kinds.get(target, ()) if target != general else ()
    says_yes = [target, *held] if target != general else list(state)
    if any(state.get(name) for name in says_yes):
        return "Yes"
    if state.get(target) is False:
        return "No"
    if len(held) == 2 and all(state.get(part) is False for part in held):
        return "No"
    if state.get(general) is False and not any(state.values()):
        return "No"
    return "[ERROR]"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_combination_of_lesion_masks_is_answered_by_what_they_say(tmp_path, phantom, family):
    general, kinds = FAMILIES[family]
    names = tuple(dict.fromkeys([general, *kinds, *(p for held in kinds.values() for p in held)]))
    cases = {}
    for filled in (False, True):
        folder = phantoms.save_case(tmp_path / str(filled))
        for name in names:
            put(folder, name, phantom.masks["liver_lesion"] * filled, phantom.affine)
        cases[filled] = read_case(find_case(folder))
    wrong = []
    for combination in itertools.product((None, False, True), repeat=len(names)):
        state = {n: f for n, f in zip(names, combination, strict=True) if f is not None}
        masks = {name: cases[filled].masks[name] for name, filled in state.items()}
        listed = tuple(f for f in cases[True].files.masks if f.name in state)
        files = replace(cases[True].files, masks=listed)
        given = replace(cases[True], masks=masks, files=files)
        for target, (subtype, text) in ASKED.items():
            if target not in names:
                continue
            asked = question(subtype, text, organ=family)
            said = list(MODEL.answer(asked, given, AnswerFormat.FREEFORM))[-1].raw_text
            if said.split()[0] != expected(family, target, state):
                wrong.append((target, state, said))
    assert wrong == []


def test_a_kind_against_an_empty_wider_mask_is_read_for_the_question(folder, phantom):
    """The mask that contradicts is loaded also where only the question's own masks are."""
    lesion = phantom.masks["liver_lesion"]
    put(folder, "pancreatic_lesion", lesion * 0, phantom.affine)
    put(folder, "pancreatic_pnet", lesion, phantom.affine)
    said = answer(folder, "PDAC existence", "Is there PDAC?", organ="pancreas")
    assert said.startswith("[ERROR]") and "pancreatic_pnet" in said


def test_a_side_against_an_empty_whole_is_taken_and_told(folder, phantom):
    lesion = phantom.masks["liver_lesion"]
    put(folder, "kidney_cyst", lesion * 0, phantom.affine)
    put(folder, "kidney_cyst_right", lesion, phantom.affine)
    asked = question("kidney cyst existence", "Is there a kidney cyst?", organ="kidney")
    case = read_case(find_case(folder), wanted=MODEL.wanted_masks(asked))
    last = list(MODEL.answer(asked, case, AnswerFormat.FREEFORM))[-1]
    assert last.raw_text == "Yes"
    caveats = [c for t in last.trace.turns if t.result for c in t.result.content.get("caveats", ())]
    assert any("kidney_cyst_right" in caveat and "empty" in caveat for caveat in caveats)


def test_a_count_from_some_kinds_that_are_all_empty_is_unknown(folder, phantom):
    (folder / "segmentations" / "liver_lesion.nii.gz").unlink()
    put(folder, "liver_cyst", phantom.masks["liver_lesion"] * 0, phantom.affine)
    said = answer(folder, "lesion counting", "How many liver lesions?", organ="liver")
    assert said.startswith("[ERROR]") and "kinds" in said


def test_an_organ_that_is_empty_while_its_part_is_not_is_a_contradiction(folder, phantom):
    put(folder, "kidney", phantom.masks["liver"] * 0, phantom.affine)
    found = resolve(read_case(find_case(folder)), "kidney")
    assert not found.masks and "kidney_left" in found.missing


# Sides ----------------------------------------------------------------------------------------


def exchanged(folder, first, second):
    masks = folder / "segmentations"
    (masks / f"{first}.nii.gz").rename(masks / "x.nii.gz")
    (masks / f"{second}.nii.gz").rename(masks / f"{first}.nii.gz")
    (masks / "x.nii.gz").rename(masks / f"{second}.nii.gz")


ONE_MASK = [
    ("organ volume measurement", "Volume of the left kidney?", "kidney_left"),
    ("organ volume measurement", "Volume of the right kidney?", "kidney_right"),
    ("organ volume measurement", "Volume of the liver?", "liver"),
    ("splenomegaly detection", "Is the spleen enlarged?", "spleen"),
    ("organ HU measurement", "Mean HU of the spleen?", "spleen"),
]


@pytest.mark.parametrize("swapped", [("kidney_left", "kidney_right"), ("liver", "spleen")])
@pytest.mark.parametrize(("subtype", "text", "organ"), ONE_MASK)
def test_sides_are_judged_by_all_masks_whatever_is_asked(folder, swapped, subtype, text, organ):
    exchanged(folder, *swapped)
    said = answer(folder, subtype, text, organ=organ)
    assert said.startswith("[ERROR]") and all(n.split("_")[0] in said for n in swapped)


@pytest.mark.parametrize("wanted", [(), ("kidney_left",), ("spleen",), ("liver_lesion",), None])
def test_what_is_wanted_does_not_change_the_report(folder, wanted):
    exchanged(folder, "kidney_left", "kidney_right")
    case = read_case(find_case(folder), wanted=wanted)
    assert case.report.warnings == read_case(find_case(folder)).report.warnings
    if wanted is not None:
        assert set(case.masks) == set(wanted)


def test_masks_read_for_their_side_alone_add_nothing_else(folder, phantom):
    (folder / "segmentations" / "kidney_left.nii.gz").write_bytes(b"no mask")
    put(folder, "spleen", phantom.masks["spleen"], far(phantom.affine))
    case = read_case(find_case(folder), wanted=("liver_lesion",))
    assert not case.problems and not case.report.warnings


def test_a_mask_of_another_scan_says_nothing_about_sides(folder, phantom):
    moved = far(phantom.affine)
    moved[0, 3] += 5000
    put(folder, "kidney_left", phantom.masks["kidney_left"], moved)
    case = read_case(find_case(folder))
    assert [warning.code for warning in case.report.warnings] == ["mask_elsewhere"]


def test_a_filling_case_has_no_checked_sides_before_all_that_tell_of_them_are_read(folder):
    exchanged(folder, "kidney_left", "kidney_right")
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver")
    ready = []
    for case in open_steps(find_case(folder), first=("liver",), threads=1):
        if has_wanted(asked, case):
            ready.append([w.code for w in case.report.warnings])
    assert ready and all("side_swapped" in found for found in ready)


# What lies under a mask -----------------------------------------------------------------------


def square_case(tmp_path, turn, low=-1000):
    """A CT as wide as it is high; the liver's array is turned, its header is the CT's."""
    ct = np.full((30, 30, 8), low, np.int16)
    ct[2:28, 9:21] = 40
    ct[14:16, 19:21] = 900
    liver = np.zeros(ct.shape, np.uint8)
    liver[3:10, 10:18, 2:6] = 1
    affine = np.diag([-3.0, -3.0, 5.0, 1.0])
    phantoms.save(tmp_path / "ct.nii.gz", ct, affine, "LPS")
    phantoms.save(tmp_path / "segmentations" / "liver.nii.gz", turn(liver), affine, "LPS")
    return read_case(find_case(tmp_path))


TURNS = {
    "transposed": lambda array: array.transpose(1, 0, 2).copy(),
    "rolled": lambda array: np.roll(array, 12, axis=1),
}


@pytest.mark.parametrize("turn", TURNS)
def test_an_organ_in_air_is_amber_and_its_numbers_say_so(tmp_path, turn):
    case = square_case(tmp_path, TURNS[turn])
    [warning] = case.report.warnings
    assert (warning.code, warning.level) == ("mask_content", "amber")
    assert "liver.nii.gz" in warning.message
    assert ("transposed?" in warning.message) is (turn == "transposed")
    assert any("in air" in caveat for caveat in case.masks["liver"].caveats)


def test_an_organ_in_tissue_is_green(tmp_path):
    assert square_case(tmp_path, np.copy).report.warnings == ()


def test_values_that_are_no_hu_say_nothing_about_masks(tmp_path):
    case = square_case(tmp_path, TURNS["transposed"], low=0)
    assert [warning.code for warning in case.report.warnings] == ["hu_implausible"]
