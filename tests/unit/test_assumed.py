"""The switch "absent means none": what is taken as absent, and what stays unknown."""

import numpy as np
import pytest
from evidence_cases import SHAPE, block, case, question

from napari_ctvqa.core.assumed import CAVEAT, absent_means_none, assumed_in
from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.chains import ChainStatus
from napari_ctvqa.core.records import Prediction, ToolCall, ToolResult, Trace, Turn
from napari_ctvqa.evidence.chains import reference_chain
from napari_ctvqa.runners.batch import result_row

THERE = block(SHAPE, slice(5, 9), slice(10, 20), slice(10, 20))
EMPTY = np.zeros(SHAPE, bool)


def added(arrays, **options):
    shown = case(arrays, **options)
    assumed = absent_means_none(shown)
    assert {name: assumed.masks[name] for name in shown.masks} == dict(shown.masks)
    return {name for name in assumed.masks if name not in shown.masks}


def test_an_absent_lesion_is_an_empty_mask_that_says_so():
    assumed = absent_means_none(case({"liver": THERE}))
    mask = assumed.masks["liver_lesion"]
    assert mask.source is Source.ASSUMED
    assert mask.region.empty and mask.own_region.empty
    assert mask.caveats == (CAVEAT,)
    assert assumed.masks["liver"].source is Source.REFERENCE


def test_organs_are_never_taken_as_absent():
    found = added({"liver": THERE})
    assert not found & {"spleen", "kidney_left", "kidney_right", "pancreas", "liver_segment_1"}


@pytest.mark.parametrize(
    ("arrays", "stays_unknown", "is_assumed"),
    [
        # any lesion is drawn, its kinds are not told apart: a tumour may be in it
        ({"kidney_lesion": THERE}, {"kidney_tumor", "kidney_cyst"}, {"liver_lesion"}),
        # the kinds are told apart: a kind without a file is none
        ({"kidney_lesion": THERE, "kidney_cyst": THERE}, set(), {"kidney_tumor"}),
        ({"kidney_cyst": THERE}, set(), {"kidney_tumor", "kidney_lesion"}),
        # a PDAC is a tumour: neither says anything about the other's absence
        ({"pancreatic_pdac": THERE}, {"pancreas_tumor"}, {"pancreatic_pnet", "pancreatic_lesion"}),
        ({"pancreas_tumor": THERE}, {"pancreatic_pdac", "pancreatic_pnet"}, {"pancreatic_cyst"}),
        # one side of a pair of files: the other side is none, the whole is their union
        ({"kidney_cyst_left": THERE}, {"kidney_cyst"}, {"kidney_cyst_right"}),
        ({"kidney_cyst": THERE}, {"kidney_cyst_left", "kidney_cyst_right"}, set()),
    ],
)
def test_what_another_mask_may_hold_stays_unknown(arrays, stays_unknown, is_assumed):
    found = added(arrays)
    assert not found & stays_unknown
    assert is_assumed <= found


def test_a_file_that_was_not_or_could_not_be_read_stays_unknown():
    assert "liver_lesion" not in added({"liver": THERE}, files=("liver", "hepatic_lesion"))
    broken = {"liver_lesion": "liver_lesion.nii.gz: truncated."}
    assert "liver_lesion" not in added({"liver": THERE}, problems=broken)


def status_of(subtype, text, arrays, answer, **options):
    asked = question(subtype, text, answer=answer, **options)
    shown = case(arrays)
    off = reference_chain(asked, shown)
    on = reference_chain(asked, absent_means_none(shown))
    return off, on


@pytest.mark.parametrize(
    ("subtype", "text", "answer", "options"),
    [
        ("liver lesion existence", "Is there a lesion in the liver?", "No", {"organ": "liver"}),
        ("lesion counting", "How many liver lesions?", "0", {"organ": "liver"}),
        ("PDAC existence", "Is there a PDAC?", "No", {"organ": "pancreas"}),
    ],
)
def test_existence_and_counts_are_unknown_without_it_and_assumed_with_it(
    subtype, text, answer, options
):
    off, on = status_of(subtype, text, {"liver": THERE, "pancreas": THERE}, answer, **options)
    assert off.status is ChainStatus.CANNOT_CHECK
    assert off.reason.startswith("no mask for")
    assert on.status is ChainStatus.AGREES
    last = on.steps[-1]
    assert last.assumed
    assert CAVEAT in last.caveats


def test_it_changes_nothing_where_the_masks_are_there():
    off, on = status_of(
        "liver lesion existence", "Is there a lesion in the liver?",
        {"liver": THERE, "liver_lesion": THERE}, "Yes", organ="liver",
    )  # fmt: skip
    assert off.status is on.status is ChainStatus.AGREES
    assert off.steps == on.steps


def test_a_missing_organ_is_still_no_zero():
    _, on = status_of(
        "organ volume measurement", "Volume of the spleen?", {"liver": THERE}, "0", organ="spleen"
    )
    assert on.status is ChainStatus.CANNOT_CHECK


def test_an_answer_that_rests_on_it_says_so_in_the_result_file():
    content = {"mask_found": True, "voxel_count": 0, "caveats": [CAVEAT]}
    call = ToolCall("segment_organ", {"target": "liver_lesion"})
    trace = Trace((Turn(1, call, ToolResult(content)), Turn(2, final_answer="No")))
    asked = question("liver lesion existence", "?", answer="No")
    row = result_row(asked, Prediction("q1", "rules", "No", trace))
    assert row["note"] == CAVEAT
    assert assumed_in(Trace((Turn(1, call, ToolResult({"caveats": "text"})),))) == ""
    assert "note" not in result_row(asked, Prediction("q1", "rules", "No"))
