"""Lesions taken out, and copied to the other side, on a body whose truth is known."""

import numpy as np
import pytest
from evidence_cases import block, case, grid, question

from napari_ctvqa.core.changed_lesions import (
    lesion_masks,
    organs_asked,
    structure_asked,
    with_copies,
    without_lesions,
)
from napari_ctvqa.core.probes import CannotProbeError
from napari_ctvqa.core.records import Question, Reference
from napari_ctvqa.core.regions import components
from napari_ctvqa.core.sampling import centroid_ras_mm

ON = grid((40, 60, 100), (2.0, 1.0, 1.0))
LIVER = block(ON.shape_zyx, slice(4, 36), slice(5, 55), slice(4, 36))
LEFT = block(ON.shape_zyx, slice(6, 30), slice(20, 50), slice(70, 96))
RIGHT = block(ON.shape_zyx, slice(8, 32), slice(20, 50), slice(40, 66))
SPOT = block(ON.shape_zyx, slice(18, 23), slice(30, 40), slice(15, 24))
"""In the liver."""
CYST = block(ON.shape_zyx, slice(14, 19), slice(30, 38), slice(50, 58))
"""In the right kidney, 3 voxels to the patient's right of its middle."""


def body(**more):
    rng = np.random.default_rng(7)
    hu = np.full(ON.shape_zyx, -100, np.int16)
    for organ, mean in ((LIVER, 110), (LEFT, 180), (RIGHT, 180)):
        hu[organ] = mean
    for lesion, mean in ((SPOT, 40), (CYST, 5)):
        hu[lesion] = mean
    hu += rng.normal(0, 12, ON.shape_zyx).astype(np.int16)
    arrays = {
        "liver": LIVER,
        "kidney_left": LEFT,
        "kidney_right": RIGHT,
        "liver_lesion": SPOT,
        "kidney_lesion": CYST,
        "kidney_cyst": CYST,
        "kidney_tumor": np.zeros(ON.shape_zyx, bool),
        **more,
    }
    return case({k: v for k, v in arrays.items() if v is not None}, hu=hu, on=ON)


@pytest.mark.parametrize(
    ("asked", "organs", "structure"),
    [
        (question("liver lesion existence", "Any liver lesion?"), ("liver",), "liver_lesion"),
        (question("kidney cyst existence", "Any kidney cyst?"), ("kidney",), "kidney_cyst"),
        (question("bilateral kidney asymmetry", "Which?"), ("kidney",), "kidney_lesion"),
        (Question("q", "c", "Which side is the renal mass on?", Reference("Left")),
         ("kidney",), ""),
        (Question("q", "c", "Is there a lesion?", Reference("Yes")), (), ""),
        (Question("q", "c", "Is there a cyst?", Reference("Yes"), lesion="kidney_cyst"),
         ("kidney",), "kidney_cyst"),
    ],
)  # fmt: skip
def test_which_lesions_are_asked_about(asked, organs, structure):
    assert organs_asked(asked) == organs
    assert structure_asked(asked) == structure


@pytest.mark.parametrize(
    "asked",
    [
        question("organ volume measurement", "Volume of the liver?", organ="liver"),
        question("splenomegaly grading", "Which grade?"),
        Question("q", "c", "What is the volume of the spleen?", Reference("200")),
    ],
)
def test_a_question_about_no_lesion_says_so(asked):
    with pytest.raises(CannotProbeError, match="not about a lesion"):
        organs_asked(asked)


def test_a_lesion_becomes_texture_of_its_organ():
    before = body()
    made = without_lesions(before, ("liver",))
    new, old = made.case.volume.array_zyx, before.volume.array_zyx
    clean = LIVER & ~SPOT
    assert new[SPOT].mean() == pytest.approx(old[clean].mean(), abs=3)
    assert new[SPOT].std() == pytest.approx(old[clean].std(), rel=0.25)
    assert set(np.unique(new[SPOT])) <= set(np.unique(old[clean])), "texture is copied, not made"
    assert made.case.masks["liver_lesion"].region.empty
    assert made.case.masks["kidney_cyst"].region.voxels == CYST.sum()


def test_nothing_far_from_the_lesion_changes_and_the_original_stays():
    before = body()
    kept = before.volume.array_zyx.copy()
    new = without_lesions(before, ("liver",)).case.volume.array_zyx
    changed = np.argwhere(new != kept)
    spacing = np.array(ON.spacing_mm_zyx)
    low, high = np.argwhere(SPOT).min(axis=0), np.argwhere(SPOT).max(axis=0)
    away_mm = np.maximum(np.maximum(low - changed, changed - high), 0) * spacing
    assert np.linalg.norm(away_mm, axis=1).max() <= 4.0
    assert np.array_equal(before.volume.array_zyx, kept)
    again = without_lesions(before, ("liver",)).case.volume.array_zyx
    assert np.array_equal(new, again), "the same case always gives the same voxels"


def test_every_kind_of_lesion_of_the_organ_goes_together():
    made = without_lesions(body(), ("kidney",)).case
    assert made.masks["kidney_lesion"].region.empty and made.masks["kidney_cyst"].region.empty
    assert made.masks["liver_lesion"].region.voxels == SPOT.sum()


def test_a_question_about_any_lesion_takes_all_of_them():
    made = without_lesions(body(), ()).case
    assert lesion_masks(made, ()) == ()
    assert made.volume.array_zyx[SPOT].mean() > 90 and made.volume.array_zyx[CYST].mean() > 150


def test_a_lesion_that_reaches_out_of_its_organ_goes_too():
    out = block(ON.shape_zyx, slice(18, 23), slice(30, 40), slice(32, 39))
    made = without_lesions(body(liver_lesion=out), ("liver",)).case
    assert made.volume.array_zyx[out].mean() == pytest.approx(110, abs=4)


@pytest.mark.parametrize(
    ("changes", "organs", "why"),
    [
        ({"liver_lesion": None}, ("liver",), "No mask of a lesion of liver"),
        ({"liver_lesion": np.zeros(ON.shape_zyx, bool)}, ("liver",), "has a voxel"),
        ({"liver": None}, ("liver",), "no mask of the liver"),
        ({"liver": SPOT}, ("liver",), "no part without lesions"),
    ],
)
def test_what_lacks_is_said(changes, organs, why):
    with pytest.raises(CannotProbeError, match=why):
        without_lesions(body(**changes), organs)


def test_a_lesion_is_copied_to_the_mirrored_place_on_the_other_side():
    before = body()
    made = with_copies(before, ("kidney",), "kidney_cyst")
    new = made.case
    for name in ("kidney_lesion", "kidney_cyst"):
        found = components(new.masks[name].region)
        assert len(found) == 2
        assert new.masks[name].region.voxels == pytest.approx(2 * CYST.sum(), rel=0.05)
    assert new.masks["kidney_tumor"].region.empty, "a cyst makes no tumour"
    regions = [components(new.masks["kidney_cyst"].region).region_of(n) for n in range(2)]
    at = sorted((centroid_ras_mm(one) for one in regions), key=lambda mm: mm[0])
    left, right = (centroid_ras_mm(before.masks[f"kidney_{s}"].region) for s in ("left", "right"))
    copy, own = at
    assert (copy - left)[0] == pytest.approx(-(own - right)[0], abs=1.0)
    assert np.allclose((copy - left)[1:], (own - right)[1:], atol=1.0)
    inside = new.masks["kidney_cyst"].region
    z, y, x = inside.box_zyx
    hu = new.volume.array_zyx[z, y, x][inside.crop_zyx]
    assert hu.mean() == pytest.approx(5, abs=3)
    assert new.volume.array_zyx[CYST].mean() == before.volume.array_zyx[CYST].mean()


@pytest.mark.parametrize(
    ("changes", "organs", "structure", "why"),
    [
        ({}, ("liver",), "", "no organ with two sides"),
        ({}, (), "", "any organ: no organ with two sides"),
        ({"kidney_left": None}, ("kidney",), "", "no mask of the left kidney"),
        ({}, ("kidney",), "kidney_tumor", "has no voxel"),
        ({"kidney_left": block(ON.shape_zyx, slice(6, 8), slice(20, 23), slice(70, 73))},
         ("kidney",), "", "does not fit"),
    ],
)  # fmt: skip
def test_why_a_lesion_cannot_be_copied(changes, organs, structure, why):
    with pytest.raises(CannotProbeError, match=why):
        with_copies(body(**changes), organs, structure)
