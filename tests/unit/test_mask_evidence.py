"""What masks may tell: not of another scan, not against each other, the same for every question."""

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models.rules import MODEL

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
