"""Masks at the edge of what there is, through the reference chain and the rule agent alike."""

from dataclasses import replace

import numpy as np
import phantoms
import pytest
from evidence_cases import case, grid, question

from napari_ctvqa.core.chains import ChainStatus
from napari_ctvqa.core.measure import BORDER_CAVEAT, EMPTY_CAVEAT
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.rules import supported
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain
from napari_ctvqa.evidence.compare import compare_chains
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models.rules import MODEL

MM = grid((40, 40, 40), (1.0, 1.0, 1.0))
LARGE = grid((40, 40, 40), (4.0, 5.0, 5.0))  # voxels of 100 mm³ = 0.1 cm³
NOTHING = np.zeros((40, 40, 40), bool)


def box(*parts, into=None):
    array = NOTHING.copy() if into is None else into.copy()
    array[parts] = True
    return array


def s(start, stop):
    return slice(start, stop)


def both(subtype, masks, text="?", *, on=MM, ct=None, **more):
    """What the reference chain and the rule agent conclude alike, and the chain."""
    return of_case(subtype, case(masks, on=on, hu=ct), text, **more)


def of_case(subtype, given, text="?", **more):
    asked = question(subtype, text, **more)
    chain = reference_chain(asked, given)
    *_, prediction = MODEL.answer(asked, given, AnswerFormat.FREEFORM)
    said = prediction.raw_text
    if not chain.conclusion:
        assert chain.status is ChainStatus.CANNOT_CHECK
        assert said.startswith("[ERROR]"), (chain.reason, said)
        return "", chain
    compared = compare_chains(chain, prediction_chain(asked, prediction, given))
    assert compared.first_difference is None, compared
    assert chain.conclusion == said or chain.conclusion.startswith(f"{said} "), (chain, said)
    return chain.conclusion, chain


def values(chain):
    return {step.measure: step.value for step in chain.steps if step.measure}


def said_of(chain):
    return chain.steps[-1].caveats


# --------------------------------------------------------------------------- one-voxel lesions

ONE = {
    "liver": box(s(2, 38), s(2, 38), s(2, 38)),
    "liver_lesion": box(10, 12, 14),
    **{
        f"liver_segment_{n + 1}": box(s(2, 38), s(2, 38), s(2 + 4 * n, 6 + 4 * n)) for n in range(8)
    },
}
"""A voxel at x 14: in segment 4, which holds x 14 to 17."""


@pytest.mark.parametrize(
    ("subtype", "text", "expected"),
    [
        ("liver lesion existence", "Any liver lesion?", "Yes"),
        ("lesion counting", "How many liver lesions?", "1 lesion"),
        # 4 × 5 × 5 mm = 100 mm³
        ("lesion volume measurement", "Liver lesion volume?", "0.1 cm³"),
        ("lesion volume measurement", "Volume of the largest liver lesion?", "0.1 cm³"),
        # the outline runs half a voxel beyond the centre on either side: one voxel of 5 mm
        ("largest lesion diameter", "Diameter of the largest liver lesion?", "0.5 cm"),
        ("largest lesion location", "Where is the largest liver lesion?", "liver segment 4"),
        # display slice 10 of 40, counted from the feet: 39 - 10
        ("largest lesion slice", "On which slice is the largest liver lesion?", "29"),
        ("lesion count by location", "How many liver lesions are in segment 4?", "1 lesion"),
        ("lesion count by location", "How many liver lesions are in segment 5?", "0 lesions"),
        # 1 lesion of the liver's 36³ voxels: 0.002 %
        ("tumor burden percentage", "What percentage of the liver is lesion?", "0.0 %"),
        # an outlier needs three lesions
        ("lesion outlier", "Is the largest liver lesion an outlier?", "No"),
        # the only lesion is over half of all lesions
        ("liver lesion clustering", "How are the liver lesions distributed?", "highly clustered"),
        # its one voxel has 20 HU, every other voxel of the liver 60, SD 0
        ("largest lesion attenuation", "How does the largest liver lesion attenuate?",
         "hypoattenuating"),
        ("tumor organ HU difference", "HU difference between liver lesion and liver?", "-40.0 HU"),
    ],
)  # fmt: skip
def test_a_lesion_of_one_voxel(subtype, text, expected):
    ct = np.full((40, 40, 40), 60, np.int16)
    ct[10, 12, 14] = 20
    assert both(subtype, ONE, text, on=LARGE, ct=ct, organ="liver")[0] == expected


def test_a_lesion_of_one_voxel_does_not_count_by_a_size_filter():
    # 100 mm³ pass both bounds, but of 4×5×5 mm a 3×3×3 erosion at 1 mm leaves 2×3×3: it counts;
    # 1 mm³ is below 10 mm³ and does not
    for on, expected in ((LARGE, ["1 lesion", "1 lesion"]), (MM, ["0 lesions", "0 lesions"])):
        text = "How many liver lesions?"
        _, chain = both("lesion counting", ONE, text, on=on, organ="liver")
        assert [rule.conclusion for rule in chain.other_rules] == expected
        assert chain.conclusion == "1 lesion"


def test_a_cyst_of_one_voxel_is_typed_by_that_voxel():
    ct = np.full((40, 40, 40), 500, np.int16)
    ct[10, 12, 14] = 30
    masks = {"kidney_lesion": box(10, 12, 14)}
    said = both("lesion type classification", masks, "of the largest kidney lesion", ct=ct,
                organ="kidney")  # fmt: skip
    assert said[0] == "Cyst"  # 30 HU are not above 34.8


# ------------------------------------------------------------- lesions joined by a corner alone

# 8 voxels and 8 voxels that share the corner between (11, 11, 11) and (12, 12, 12), and one apart
CORNER = box(s(10, 12), s(10, 12), s(10, 12)) | box(s(12, 14), s(12, 14), s(12, 14))
APART = CORNER | box(30, 30, 30)


@pytest.mark.parametrize(
    ("subtype", "text", "expected"),
    [
        ("lesion counting", "How many liver lesions?", "2 lesions"),  # by faces alone: 3
        # 16 voxels of 0.1 cm³; by faces the largest had 8
        ("lesion volume measurement", "Volume of the largest liver lesion?", "1.6 cm³"),
        ("lesion volume measurement", "Liver lesion volume?", "1.7 cm³"),
        # two lesions are too few; by faces three, of which the largest is as large as the second
        ("lesion outlier", "Is the largest liver lesion an outlier?", "No"),
        # within a slice each half is 2×2 voxels of 5 mm: √(10² + 5²) = 11.2 mm, not across both
        ("largest lesion diameter", "Diameter of the largest liver lesion?", "1.1 cm"),
    ],
)
def test_two_blocks_that_share_a_corner_are_one_lesion(subtype, text, expected):
    said, _ = both(subtype, {"liver_lesion": APART}, text, on=LARGE, organ="liver")
    assert said == expected


def test_an_outlier_is_seen_across_a_corner():
    # 16 voxels joined by the corner against 5 and 1: 3.2 times; by faces 8 against 8
    lesions = CORNER | box(20, 20, s(20, 25)) | box(30, 30, 30)
    said, _ = both("lesion outlier", {"liver_lesion": lesions}, "an outlier?", organ="liver")
    assert said == "Yes"


@pytest.mark.parametrize(
    ("second", "count"),
    [
        ((11, 10, 10), 1),  # a face
        ((11, 11, 10), 1),  # an edge
        ((11, 11, 11), 1),  # a corner
        ((9, 9, 9), 1),
        ((11, 9, 11), 1),
        ((12, 11, 11), 2),  # a voxel between
        ((10, 10, 12), 2),
    ],
)
def test_two_voxels_and_what_they_share(second, count):
    lesions = box(10, 10, 10) | box(*second)
    _, chain = both("lesion counting", {"liver_lesion": lesions}, "?", organ="liver")
    assert values(chain)["lesion_count"] == count


def test_a_corner_across_two_kinds_joins_them():
    # any lesion is the union of the kinds: a cyst that shares a corner with a tumour is one lesion
    masks = {
        "kidney_tumor": box(10, 10, 10),
        "kidney_cyst": box(11, 11, 11),
        "kidney_lesion": NOTHING,
    }
    said = both("lesion counting", masks, "How many kidney lesions?", organ="kidney")[0]
    assert said == "1 lesion"
    tumours = both("lesion counting", masks, "How many kidney tumors?", organ="kidney")[0]
    assert tumours == "1 lesion"


# ------------------------------------------------------------------ a lesion across two segments


def segments(lesion, order=range(1, 9)):
    """Eight slabs of 5 voxels along x, their masks listed in an order."""
    slabs = {f"liver_segment_{n}": box(s(0, 40), s(0, 40), s(5 * n - 5, 5 * n)) for n in order}
    return {**slabs, "liver": np.ones((40, 40, 40), bool), "liver_lesion": lesion}


# x 32 to 36: 3 voxels in segment 7 (x 30 to 34), 2 in segment 8, so 60 and 40 %
ACROSS = box(5, 5, s(32, 37))


@pytest.mark.parametrize(
    ("subtype", "text", "expected", "most"),
    [
        ("largest lesion location", "Where is the largest liver lesion?",
         "liver segment 7, liver segment 8", "liver segment 7"),
        # over a tenth in both: it counts in both, though it is one lesion
        ("lesion count by location", "How many liver lesions are in segment 7?", "1 lesion",
         "1 lesion"),
        ("lesion count by location", "How many liver lesions are in segment 8?", "1 lesion",
         "0 lesions"),
        # asked for both together it is still one
        ("lesion count by location", "How many liver lesions are in segments 7 and 8?", "1 lesion",
         "1 lesion"),
        ("lesion counting", "How many liver lesions?", "1 lesion", None),
        ("inter-segment comparison", "Which has more lesions, segment 7 or segment 8?",
         "the same", "liver segment 7"),
        ("inter-segment comparison", "Which has more lesions, segment 6 or segment 8?",
         "liver segment 8", "the same"),
        # the fullest segment holds the one lesion that there is
        ("liver lesion clustering", "How are the liver lesions distributed?",
         "highly clustered", None),
    ],
)  # fmt: skip
def test_a_lesion_across_two_segments(subtype, text, expected, most):
    said, chain = both(subtype, segments(ACROSS), text, organ="liver")
    assert said == expected
    if most is not None:
        found = {rule.name: rule.conclusion for rule in chain.other_rules}
        assert found["most"] == most


@pytest.mark.parametrize(("inside", "counted"), [(9, "0 lesions"), (8, "1 lesion")])
def test_a_tenth_in_a_segment_is_not_more_than_a_tenth(inside, counted):
    # ten voxels, of which ``inside`` lie in segment 3 (x 10 to 14) on two rows, the rest in 4
    lesion = box(5, 5, s(10, 15)) | box(5, 6, s(15 - (inside - 5), 15 + (10 - inside)))
    assert lesion.sum() == 10
    text = "How many liver lesions are in segment 4?"
    said = both("lesion count by location", segments(lesion), text, organ="liver")[0]
    assert said == counted  # 1 of 10 is a tenth: not counted; 2 of 10 is


def test_a_lesion_in_no_segment_is_counted_for_the_nearest_and_says_so():
    masks = segments(box(5, 5, 38))
    masks["liver_segment_8"] = box(s(0, 40), s(0, 40), 35)  # 3 mm from the lesion
    said, chain = both("largest lesion location", masks, "Where?", organ="liver")
    assert said == "liver segment 8"
    assert any("3.0 mm" in caveat for caveat in said_of(chain))


@pytest.mark.parametrize("absent", [1, 7])
def test_without_the_mask_of_one_segment_no_place_is_told(absent):
    # what lies in no mask might lie in the absent one: not counted for a neighbour
    masks = segments(ACROSS)
    del masks[f"liver_segment_{absent}"]
    for subtype, text in (
        ("largest lesion location", "Where is the largest liver lesion?"),
        ("lesion count by location", "How many liver lesions are in segment 8?"),
    ):
        said, chain = both(subtype, masks, text, organ="liver")
        assert said == "" and f"liver_segment_{absent}" in chain.reason


# --------------------------------------------------------- liver segment files in any file order

ORDERS = [tuple(range(1, 9)), tuple(range(8, 0, -1)), (3, 8, 1, 6, 2, 7, 5, 4)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("subtype", "text"),
    [
        ("largest lesion location", "Where is the largest liver lesion?"),
        ("lesion count by location", "How many liver lesions are in segment 7?"),
        ("inter-segment comparison", "Which has more lesions, segment 6 or segment 8?"),
        ("liver lesion clustering", "How are the liver lesions distributed?"),
    ],
)
def test_segments_are_told_by_their_names_not_by_their_order(subtype, text, order):
    # RadGPT paints the files into one map in directory order, so that the number it gives a
    # segment, and which of two that overlap wins, depend on the order; ours must not
    overlapping = segments(ACROSS, order)
    overlapping["liver_segment_6"] = box(s(0, 40), s(0, 40), s(25, 33))  # one voxel more of 7
    first = segments(ACROSS)
    first["liver_segment_6"] = overlapping["liver_segment_6"]
    here, _ = both(subtype, overlapping, text, organ="liver")
    assert here == both(subtype, first, text, organ="liver")[0]
    if subtype == "largest lesion location":
        # 1 of 5 voxels lies in 6 too: 20 % are more than a tenth
        assert here == "liver segment 6, liver segment 7, liver segment 8"


@pytest.mark.parametrize("order", ORDERS)
def test_segment_files_written_and_listed_in_any_order(tmp_path, phantom, order):
    folder = phantoms.save_case(tmp_path / "case")
    x_ras = (np.arange(phantoms.SHAPE_IJK[0]) * 3.0 - 33.0)[:, None, None]
    liver = phantom.masks["liver"].astype(bool)
    # eight slabs of the liver from right to left: it reaches from x = 6 to 24 mm
    for n in order:
        slab = liver & (x_ras >= 24 - 3 * (n - 1) - 1.5) & (x_ras < 24 - 3 * (n - 1) + 1.5)
        path = folder / "segmentations" / f"liver_segment_{n}.nii.gz"
        phantoms.save(path, slab.astype(np.uint8), phantom.affine, "LPS" if n % 2 else "RAS")
    files = find_case(folder)
    listed = {item.name: item for item in files.masks}
    again = [listed.pop(f"liver_segment_{n}") for n in order]
    read = read_case(replace(files, masks=(*again, *listed.values())))
    said, _ = of_case("largest lesion location", read, "Where is the liver lesion?", organ="liver")
    # the lesion's voxels lie at x = 12, 15 and 18 mm: slabs 5, 4 and 3, a third in each
    assert said == "liver segment 3, liver segment 4, liver segment 5"


# ------------------------------------------------------------------- a kidney in two components

LEFT = box(s(2, 22), s(2, 12), s(22, 32)) | box(s(30, 35), s(2, 12), s(22, 32))  # 2000 + 500
RIGHT = box(s(2, 26), s(2, 12), s(2, 12))  # 2400 in one piece


@pytest.mark.parametrize(
    ("subtype", "text", "organ", "expected"),
    [
        # 2500 mm³, not the larger piece's 2000
        ("organ volume measurement", "Volume of the left kidney?", "kidney", "2.5 cm³"),
        ("organ volume measurement", "Volume of the kidneys?", "kidney", "4.9 cm³"),
        ("organ aggregation", "Total kidney volume?", "kidney", "4.9 cm³"),
        # 2500 against 2400; the largest piece alone would be smaller
        ("kidney volume comparison", "Which kidney is bigger?", "", "left kidney"),
        # (2000 × 30 + 500 × 80) / 2500
        ("organ HU measurement", "Mean HU of the left kidney?", "kidney", "40.0 HU"),
        # 250 of 2500
        ("tumor burden percentage", "What percentage of the left kidney is lesion?", "kidney",
         "10.0 %"),
        # the lesions lie in the smaller piece: in the left kidney all the same
        ("lesion counting", "How many lesions in the left kidney?", "kidney", "1 lesion"),
        ("bilateral kidney asymmetry", "Which kidney carries more?", "kidney", "left kidney"),
        ("organ enlargement", "Is the left kidney enlarged?", "kidney", "No"),
    ],
)  # fmt: skip
def test_a_kidney_in_two_components_is_one_kidney(subtype, text, organ, expected):
    ct = np.full((40, 40, 40), 30, np.int16)
    ct[30:35] = 80
    lesion = box(s(30, 35), s(2, 7), s(22, 32))
    masks = {"kidney_left": LEFT, "kidney_right": RIGHT, "kidney_lesion": lesion}
    if subtype == "organ HU measurement":
        masks["kidney_lesion"] = NOTHING
    assert both(subtype, masks, text, ct=ct, organ=organ)[0] == expected


def test_an_enlarged_kidney_in_two_components():
    # pieces of 200 and 60.1 cm³: together above 260, each below
    whole = box(s(2, 22), s(2, 12), s(2, 12)) | box(s(25, 31), s(2, 12), s(2, 12))
    whole |= box(35, 20, 20)
    said, _ = both("organ enlargement", {"kidney_left": whole}, "Is the left kidney enlarged?",
                   on=LARGE, organ="kidney")  # fmt: skip
    assert said == "Yes"


# ---------------------------------------------------------- an organ cut by the field of view

FACES = {
    "superior": np.s_[0:10, 10:20, 10:20],
    "inferior": np.s_[30:40, 10:20, 10:20],
    "anterior": np.s_[10:20, 0:10, 10:20],
    "posterior": np.s_[10:20, 30:40, 10:20],
    "right": np.s_[10:20, 10:20, 0:10],
    "left": np.s_[10:20, 10:20, 30:40],
}
ASKED = [
    ("organ volume measurement", "Volume of the spleen?"),
    ("organ HU measurement", "Mean HU of the spleen?"),
    ("splenomegaly detection", "Is the spleen enlarged?"),
    ("splenomegaly grading", "How is the spleen graded?"),
    ("organ enlargement", "Is the spleen enlarged?"),
    ("portal hypertension assessment", "Does the spleen suggest portal hypertension?"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("subtype", "text"), ASKED)
def test_an_organ_cut_by_the_field_of_view_is_measured_and_says_so(subtype, text, face):
    # every number is a lower bound only: the value stays, the caveat goes with it to the end
    cut = box(*FACES[face])
    said, chain = both(subtype, {"spleen": cut}, text, organ="spleen")
    assert said and BORDER_CAVEAT in said_of(chain)
    inside = box(s(1, 39), s(1, 39), s(1, 39))  # one voxel of margin on every side
    _, whole = both(subtype, {"spleen": inside}, text, organ="spleen")
    assert BORDER_CAVEAT not in said_of(whole)


def test_a_comparison_with_one_cut_kidney_says_so():
    masks = {"kidney_left": box(*FACES["inferior"]), "kidney_right": RIGHT}
    said, chain = both("kidney volume comparison", masks, "Which kidney is bigger?")
    assert said == "right kidney" and BORDER_CAVEAT in said_of(chain)


def test_a_mask_that_fills_its_own_smaller_grid_is_cut_too(tmp_path, phantom):
    # the file covers half of the body: the liver reaches its face, though not the CT's
    folder = phantoms.save_case(tmp_path / "case")
    half = phantom.masks["liver"][:, :, :7]
    assert half[:, :, -1].any() and not phantom.masks["liver"][:, :, -1].any()
    phantoms.save(folder / "segmentations" / "liver.nii.gz", half, phantom.affine, "RAS")
    read = read_case(find_case(folder))
    _, chain = of_case("organ volume measurement", read, "Volume of the liver?", organ="liver")
    assert BORDER_CAVEAT in said_of(chain)


# ----------------------------------------------- lesion masks that are empty, and that are absent

ORGANS = {
    "liver": box(s(2, 12), s(2, 12), s(2, 38)),
    "pancreas": box(s(20, 22), s(2, 4), s(2, 38)),
    "kidney_left": box(s(30, 35), s(2, 7), s(25, 30)),
    "kidney_right": box(s(30, 35), s(2, 7), s(5, 10)),
    "spleen": box(s(30, 35), s(20, 25), s(30, 35)),
    "stomach": box(s(30, 35), s(30, 35), s(30, 35)),
    "pancreas_head": box(s(20, 22), s(2, 4), s(2, 14)),
    "pancreas_body": box(s(20, 22), s(2, 4), s(14, 26)),
    "pancreas_tail": box(s(20, 22), s(2, 4), s(26, 38)),
    "superior_mesenteric_artery": box(s(25, 35), 10, 10),
    "celiac_trunk": box(s(25, 35), 14, 10),
    "portal_vein_and_splenic_vein": box(s(25, 35), 18, 10),
    **{
        f"liver_segment_{n + 1}": box(s(2, 12), s(2, 12), s(2 + 4 * n, 6 + 4 * n)) for n in range(8)
    },
}
LESIONS = (
    "liver_lesion", "pancreatic_lesion", "kidney_lesion", "colon_lesion", "pancreatic_pdac",
    "pancreatic_pnet", "pancreatic_cyst", "kidney_cyst", "kidney_tumor",
)  # fmt: skip
# What follows where every lesion mask is there and empty; None: a largest lesion, an HU, a type of
# nothing means nothing, which is "cannot be checked", not a number and not "no".
OF_NONE = {
    "PDAC existence": ("?", "", "No"),
    "PNET existence": ("?", "", "No"),
    "colon lesion existence": ("?", "", "No"),
    "kidney cyst existence": ("?", "", "No"),
    "kidney lesion existence": ("?", "", "No"),
    "kidney tumor existence": ("?", "", "No"),
    "liver lesion existence": ("?", "", "No"),
    "pancreatic lesion existence": ("?", "", "No"),
    "lesion volume measurement": ("?", "liver", "0.0 cm³"),
    "tumor burden percentage": ("What percentage of the liver?", "liver", "0.0 %"),
    "adjacent organ": ("?", "pancreas", None),
    "bilateral kidney asymmetry": ("?", "kidney", "the same"),  # 0.0 cm³ on either side
    "inter-segment comparison": (
        "Which has more lesions, segment 7 or segment 8?",
        "liver",
        "the same",
    ),
    "largest lesion attenuation": ("?", "liver", None),
    "largest lesion diameter": ("?", "liver", None),
    "largest lesion location": ("?", "liver", None),
    "largest lesion slice": ("?", "liver", None),
    "lesion count by location": ("in segment 7?", "liver", "0 lesions"),
    "lesion counting": ("?", "liver", "0 lesions"),
    "lesion outlier": ("?", "liver", "No"),  # fewer than three
    "liver lesion clustering": ("?", "liver", None),
    "multi-organ lesion burden comparison": (
        "Which has the larger lesion volume, the liver or the pancreas?",
        "liver",
        "the same",
    ),
    "tumor organ HU difference": ("?", "pancreas", None),
    "PDAC vs PNET classification": ("?", "pancreas", None),
    "lesion type classification": ("of the kidney lesion?", "kidney", None),
    "pancreatic cyst resectability": ("?", "pancreas", None),
    "pancreatic lesion resectability": ("?", "pancreas", None),
    "pancreatic tumor staging": ("?", "pancreas", None),
    "pseudocyst determination": ("?", "pancreas", None),
    "renal mass characterization": ("of the kidney?", "kidney", None),
}
WITHOUT_LESIONS = {
    "splenomegaly detection", "splenomegaly grading", "organ HU measurement", "organ HU ratio",
    "organ volume measurement", "kidney volume comparison", "organ aggregation",
    "organ enlargement", "fatty liver", "hepatic steatosis grading", "pancreatic steatosis",
    "portal hypertension assessment",
}  # fmt: skip


def test_every_subtype_is_about_lesions_or_not():
    assert set(OF_NONE) | WITHOUT_LESIONS == set(supported())
    assert not set(OF_NONE) & WITHOUT_LESIONS


def asked_of(subtype, lesions):
    text, organ, _ = OF_NONE[subtype]
    options = {"adjacent organ": "stomach|spleen"}.get(subtype, "")
    masks = {**ORGANS, **dict.fromkeys(lesions, NOTHING)}
    return both(subtype, masks, text, organ=organ, options=options)


@pytest.mark.parametrize("subtype", OF_NONE)
def test_an_empty_lesion_mask_means_none(subtype):
    said, chain = asked_of(subtype, LESIONS)
    expected = OF_NONE[subtype][2]
    if expected is None:
        assert said == ""
        assert "no mask" not in chain.reason, "the masks are there"
    else:
        assert said == expected


@pytest.mark.parametrize("subtype", OF_NONE)
def test_an_absent_lesion_mask_is_unknown_whatever_is_asked(subtype):
    said, chain = asked_of(subtype, ())
    assert (said, chain.status) == ("", ChainStatus.CANNOT_CHECK)
    assert "no mask" in chain.reason


def test_an_empty_organ_has_a_volume_of_zero_that_says_so():
    said, chain = both("organ volume measurement", {"spleen": NOTHING}, "?", organ="spleen")
    assert said == "0.0 cm³" and EMPTY_CAVEAT in said_of(chain)
    _, hu = both("organ HU measurement", {"spleen": NOTHING}, "?", organ="spleen")
    assert hu.status is ChainStatus.CANNOT_CHECK
