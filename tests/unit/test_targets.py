from dataclasses import replace

import numpy as np
import pytest
from evidence_cases import case, grid, question

from napari_ctvqa.core.rules import rule_for
from napari_ctvqa.core.targets import lesions_of, resolve
from napari_ctvqa.core.understanding import lesion_kind, organs_in, understand

SHAPE = (8, 8, 8)


def understood(subtype, text, organ="", lesion=""):
    asked = question(subtype, text, organ=organ, lesion=lesion)
    return understand(asked, rule_for(subtype))


@pytest.mark.parametrize(
    ("text", "organ"),
    [
        ("What is the volume of the left kidney?", "kidney_left"),
        ("Volume of the kidney on the right side", "kidney_right"),
        ("right renal volume", "kidney_right"),
        ("LEFT KIDNEY", "kidney_left"),
        ("both kidneys, left and right", "kidney"),
        ("the splenic volume", "spleen"),
        ("hepatic attenuation", "liver"),
        ("the gall bladder", "gall_bladder"),
        ("the gallbladder", "gall_bladder"),
        ("inferior vena cava", "postcava"),
        ("urinary bladder", "bladder"),
        ("the left adrenal gland", "adrenal_gland_left"),
        ("head of the pancreas", "pancreas_head"),
        ("pancreatic volume", "pancreas"),
        ("liver segment 4", "liver_segment_4"),
        ("What is it?", ""),
        ("delivered", ""),
    ],
)
def test_the_organ_in_a_text(text, organ):
    assert "".join(organs_in(text)[:1]) == organ


@pytest.mark.parametrize(
    ("text", "recorded", "kind"),
    [
        ("How many liver lesions?", "", "lesion"),
        ("How many cysts?", "tumor", "cyst"),
        ("How many?", "tumor", "tumor"),
        ("Any tumour?", "", "tumor"),
        ("Any?", "False", "lesion"),
        ("Any ductal adenocarcinoma?", "", "pdac"),
        ("How many cancers?", "", "tumor"),
        ("a mass", "", "lesion"),
    ],
)
def test_the_kind_of_lesion(text, recorded, kind):
    assert lesion_kind(text, recorded) == kind


@pytest.mark.parametrize(
    ("text", "organ", "structure"),
    [
        ("What is its volume?", "kidney_left", "kidney_left"),
        ("What is its volume?", "left kidney", "kidney_left"),
        ("What is its volume?", "Gallbladder", "gall_bladder"),
        ("Volume of the kidney?", "kidney_right", "kidney_right"),
        ("Volume of the right kidney?", "kidney", "kidney_right"),
        ("Volume of the right kidney?", "", "kidney_right"),
        ("Volume of the right kidney?", "no such organ", "kidney_right"),
        ("Volume of the left and right kidney?", "", "kidney"),
        ("Volume of the left kidney and the right kidney?", "kidney", "kidney"),
        ("Total volume of the kidneys (left and right)?", "kidney", "kidney"),
    ],
)
def test_text_and_record_together_name_the_target(text, organ, structure):
    found = understood("organ volume measurement", text, organ)
    assert (found.structure, found.problem) == (structure, "")


@pytest.mark.parametrize(
    ("text", "organ"),
    [
        ("Volume of the left kidney?", "kidney_right"),
        ("Volume of the spleen?", "liver"),
        ("Volume of the gall bladder?", "bladder"),
        ("Volume of the liver beside the spleen?", "liver"),
        ("Volume of the liver and the spleen?", "spleen"),
        ("Volume of the left kidney, right kidney?", ""),
        ("Volume?", "something"),
        ("Volume?", ""),
    ],
)
def test_what_contradicts_or_is_unknown_is_a_problem(text, organ):
    found = understood("organ volume measurement", text, organ)
    assert found.problem and not found.structure


@pytest.mark.parametrize(
    ("text", "organ", "lesion", "structure"),
    [
        ("How many liver lesion instances?", "liver", "", "liver_lesion"),
        ("How many liver tumors?", "liver", "", "liver_tumor"),
        ("How many pancreatic cysts?", "pancreas", "", "pancreatic_cyst"),
        ("How many pancreatic lesions?", "pancreas", "tumor", "pancreatic_lesion"),
        ("How many?", "pancreas", "pdac", "pancreatic_pdac"),
        ("How many?", "pancreas", "tumor", "pancreas_tumor"),
        ("How many kidney cysts?", "kidney", "", "kidney_cyst"),
        ("How many colon lesions?", "colon", "", "colon_lesion"),
        ("How many lesions in the spleen?", "spleen", "", "spleen_lesion"),
    ],
)
def test_the_lesion_that_is_meant(text, organ, lesion, structure):
    found = understood("lesion counting", text, organ, lesion)
    assert (found.structure, found.problem) == (structure, "")


def test_lesions_of_one_kidney_are_those_in_it():
    found = understood("lesion counting", "How many lesions in the left kidney?", "kidney")
    assert (found.structure, found.organ) == ("kidney_lesion in kidney_left", "kidney_left")
    found = understood("kidney cyst existence", "Is there a cyst in the left kidney?", "kidney")
    assert found.structure == "kidney_cyst in kidney_left"
    both = understood("lesion counting", "How many lesions in the left and right kidney?", "kidney")
    assert (both.structure, both.organ) == ("kidney_lesion", "kidney")


def test_a_subtype_about_another_organ_than_the_text_is_refused():
    found = understood("splenomegaly detection", "Is the liver enlarged?", "liver")
    assert "liver" in found.problem and "spleen" in found.problem


def test_the_organ_of_the_subtype_among_others_is_refused():
    found = understood("colon lesion existence", "Any lesion in the colon or rectum?", "colon")
    assert "several organs" in found.problem
    found = understood("splenomegaly detection", "Is the spleen or the liver enlarged?", "spleen")
    assert "several organs" in found.problem


@pytest.mark.parametrize(
    ("subtype", "text"),
    [
        ("lesion counting", "How many kidney cysts and tumors are there?"),
        ("kidney cyst existence", "Is there a kidney tumor?"),
        ("kidney tumor existence", "Is there a kidney lesion?"),
        ("PNET existence", "Is there a PDAC in the pancreas?"),
    ],
)
def test_another_kind_of_lesion_than_the_subtypes_or_several_are_refused(subtype, text):
    assert (
        "kind" in understood(subtype, text, "").problem
        or "about" in understood(subtype, text, "").problem
    )


def test_a_kind_may_be_called_a_tumour_or_a_lesion_too():
    for text in ("Is a neuroendocrine tumor (PNET) present?", "Any neuroendocrine lesion?"):
        assert understood("PNET existence", text).problem == ""


def test_the_side_in_the_record_alone_is_refused():
    found = understood("kidney cyst existence", "Any cyst in it?", "kidney_left")
    assert found.structure == "kidney_cyst in kidney_left", "the record alone may name the side"


@pytest.mark.parametrize(
    ("subtype", "text", "negated", "smaller"),
    [
        ("liver lesion existence", "Is the liver free of lesions?", True, False),
        ("liver lesion existence", "Does the liver have lesions?", False, False),
        ("splenomegaly detection", "Is the spleen of normal size?", True, False),
        ("splenomegaly detection", "Is the spleen larger than normal?", False, False),
        ("splenomegaly detection", "Is there splenomegaly?", False, False),
        ("kidney volume comparison", "Which kidney is smaller?", False, True),
        ("kidney volume comparison", "Which kidney is larger?", False, False),
        ("lesion counting", "How many lesions?", False, False),
    ],
)
def test_the_sense_of_the_question(subtype, text, negated, smaller):
    found = understood(subtype, text)
    assert (found.negated, found.smaller) == (negated, smaller)


def test_what_was_understood_is_a_sentence():
    found = understood("kidney volume comparison", "Which kidney is smaller?")
    assert found.sentence == "kidneys, asked for the smaller"
    largest = understood(
        "lesion volume measurement", "Volume of the largest liver lesion?", "liver"
    )
    assert largest.sentence == "liver lesion, the largest one only"


# ------------------------------------------------------------------------------------- masks


def masks(**voxels):
    arrays = {}
    for number, (name, count) in enumerate(voxels.items()):
        arrays[name] = np.zeros(SHAPE, bool)
        arrays[name][number, 1, 1 : 1 + count] = True
    return case(arrays, on=grid(SHAPE))


def found_in(given, target):
    return [mask.structure for mask in resolve(given, target).masks]


def test_the_mask_itself_then_what_may_stand_for_it():
    assert found_in(masks(liver_tumor=1, liver_lesion=1), "liver_tumor") == ["liver_tumor"]
    stand_in = resolve(masks(liver_lesion=1), "liver_tumor")
    assert not stand_in.exact and stand_in.structure == "liver_lesion"


def test_both_kidneys_are_needed_for_the_kidneys():
    assert found_in(masks(kidney_left=1, kidney_right=1), "kidney") == [
        "kidney_left",
        "kidney_right",
    ]
    one = resolve(masks(kidney_left=1), "kidney")
    assert one.missing == "no mask for kidney: kidney_right is missing"


def test_an_empty_wider_mask_says_none_of_any_kind():
    none = resolve(masks(kidney_lesion=0), "kidney_cyst")
    assert none.structure == "kidney_lesion" and none.empty and not none.exact
    assert resolve(masks(kidney_lesion=1), "kidney_cyst").missing


def test_a_file_that_was_not_read_is_not_called_absent():
    given = case({}, on=grid(SHAPE), files=["spleen"])
    assert resolve(given, "spleen").missing == "no mask for spleen: its file was not read"
    assert resolve(given, "liver").missing == "no mask for liver"
    loading = replace(given, complete=False)
    assert resolve(loading, "spleen").missing == "no mask for spleen: its file is not yet read"


def test_lesions_of_an_organ_and_of_one_of_a_pair():
    assert {"liver_lesion", "liver_tumor", "liver_cyst"} <= set(lesions_of("liver"))
    assert "kidney_cyst_left" in lesions_of("kidney_left")
    assert lesions_of("spleen") == ("spleen_lesion",)
    assert lesions_of("aorta") == ()
