"""HU that are none are not measured: other scales, holes in the file, padding."""

import json

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.cli import main
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.chains import ChainStatus, StepKind
from napari_ctvqa.core.findings import find
from napari_ctvqa.core.plans import HU_MEASURES, PlanStep
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.evidence.chains import reference_chain
from napari_ctvqa.extensions import tools
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models.rules import MODEL

from evidence_cases import question  # isort: skip

ASKED = question("organ HU measurement", "What is the mean HU of the liver?", organ="liver")


def opened(tmp_path, ct, affine, masks=None):
    """A phantom case whose CT has other values."""
    folder = phantoms.save_case(tmp_path / "case")
    nib.save(nib.Nifti1Image(ct, affine), folder / "ct.nii.gz")
    for name, (array, mask_affine) in (masks or {}).items():
        nib.save(nib.Nifti1Image(array, mask_affine), folder / "segmentations" / f"{name}.nii.gz")
    return read_case(find_case(folder))


def said(case, asked=ASKED):
    """Return the answer; of a failed one the whole sentence, which stands in the trace."""
    prediction = list(MODEL.answer(asked, case, AnswerFormat.FREEFORM))[-1]
    if not prediction.failed:
        return prediction.raw_text
    return f"[ERROR] {prediction.trace.turns[-1].error}"


def codes(case):
    return {(warning.code, warning.level) for warning in case.report.warnings}


def organ(phantom):
    """The liver without its lesion."""
    return (phantom.masks["liver"] > 0) & (phantom.masks["liver_lesion"] == 0)


def scaled(ct, low, high, dtype):
    part = (ct.astype(float) - ct.min()) / (ct.max() - ct.min())
    return (low + part * (high - low)).astype(dtype)


OTHER_SCALES = {
    "0 to 1": lambda ct: scaled(ct, 0, 1, np.float32),
    "0 to 255": lambda ct: scaled(ct, 0, 255, np.uint8),
    "-1 to 1": lambda ct: scaled(ct, -1, 1, np.float32),
    "unsigned": lambda ct: (ct + 1024).astype(np.uint16),
    "times 10": lambda ct: ct.astype(np.int32) * 10,
    "times 1e30": lambda ct: ct.astype(np.float64) * 1e30,
}


@pytest.mark.parametrize("odd", [None, -1000], ids=["all", "all but one voxel"])
@pytest.mark.parametrize("scale", OTHER_SCALES)
def test_values_that_are_no_hu_are_no_answer(tmp_path, phantom, scale, odd):
    """Also where one odd voxel lies where a CT's air would."""
    ct = OTHER_SCALES[scale](np.repeat(phantom.ct, 6, axis=2))
    affine = phantom.affine @ np.diag([1, 1, 1 / 6, 1])
    if odd is not None:
        ct = ct.astype(np.float64)
        ct[0, 0, 0] = odd
    masks = {n: (np.repeat(m, 6, axis=2), affine) for n, m in phantom.masks.items()}
    case = opened(tmp_path, ct, affine, masks)
    assert ("hu_implausible", Level.AMBER) in codes(case)
    assert said(case).startswith("[ERROR]") and "HU cannot be measured" in said(case)
    chain = reference_chain(ASKED, case)
    assert chain.status is ChainStatus.CANNOT_CHECK and "HU cannot be measured" in chain.reason
    assert "mean_hu" not in chain.conclusion


def test_sizes_are_measured_whatever_the_values_are(tmp_path, phantom):
    case = opened(tmp_path, scaled(phantom.ct, 0, 1, np.float32), phantom.affine)
    asked = question("organ volume measurement", "Volume of the liver?", organ="liver")
    volume_cm3 = phantom.masks["liver"].sum() * np.prod(phantoms.SPACING_MM) / 1000
    assert float(said(case, asked)) == pytest.approx(volume_cm3, abs=0.05)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("share", [1, 2, 10**6], ids=["all", "half", "one voxel"])
def test_voxels_without_a_number_are_not_averaged(tmp_path, phantom, value, share):
    ct = phantom.ct.astype(np.float64)
    inside = np.argwhere(organ(phantom))
    for i, j, k in inside[:: min(share, len(inside))]:
        ct[i, j, k] = value
    case = opened(tmp_path, ct, phantom.affine)
    assert codes(case) == {("nan_filled", Level.AMBER)}
    assert np.isfinite(case.volume.array_zyx).all()
    assert said(case).startswith("[ERROR]") and "no number in the file" in said(case)
    count = len(inside[:: min(share, len(inside))])
    assert f"{count} of {len(inside)}" in said(case)


@pytest.mark.parametrize("axcodes", ["LPS", "RAS", "SPR"])
def test_where_there_is_no_number_is_known_voxel_by_voxel(tmp_path, phantom, axcodes):
    """Holes beside the liver, on both sides of a gap, do not concern it."""
    ct = phantom.ct.astype(np.float32)
    ct[0, 0, 0] = ct[-1, -1, -1] = np.nan
    ct[phantom.masks["spleen"] > 0] = np.nan
    folder = phantoms.save_case(tmp_path / "case", axcodes=axcodes)
    phantoms.save(folder / "ct.nii.gz", ct, phantom.affine, axcodes)
    case = read_case(find_case(folder))
    holes = case.volume.no_number
    assert holes.voxels == 2 + phantom.masks["spleen"].sum()
    at_mm = case.volume.grid.ras_mm(
        np.argwhere(holes.crop_zyx) + [part.start for part in holes.box_zyx]
    )
    index = nib.affines.apply_affine(np.linalg.inv(phantom.affine), at_mm).round().astype(int)
    assert np.isnan(ct[tuple(index.T)]).all()
    assert float(said(case)) == pytest.approx(60, abs=0.05)
    spleen = question("organ HU measurement", "What is the mean HU of the spleen?", organ="spleen")
    assert said(case, spleen).startswith("[ERROR]")


def test_a_mask_on_another_grid_that_touches_a_hole_is_not_measured(tmp_path, phantom):
    ct = phantom.ct.astype(np.float32)
    beside = np.argwhere(organ(phantom))[:, 0].max() + 1
    hole = np.argwhere(organ(phantom))[-1]
    ct[beside, hole[1], hole[2]] = np.nan
    moved = phantom.affine.copy()
    moved[0, 3] += 1.4  # a voxel of the mask lies between two of the CT
    masks = {name: (phantom.masks[name], moved) for name in ("liver", "liver_lesion")}
    assert "no number in the file" in said(opened(tmp_path, ct, phantom.affine, masks))
    whole = opened(tmp_path / "whole", phantom.ct, phantom.affine, masks)
    assert not said(whole).startswith("[ERROR]")


@pytest.mark.parametrize("padding", [-1500, -2000, -3024, -32768])
def test_padding_inside_a_mask_is_left_out_and_told(tmp_path, phantom, padding):
    ct = phantom.ct.copy()
    inside = np.argwhere(organ(phantom))
    ct[: inside[:, 0].min() + 3] = padding
    padded = int((ct[organ(phantom)] == padding).sum())
    assert 0 < padded < len(inside)
    case = opened(tmp_path, ct, phantom.affine)
    assert codes(case) == {("padding", Level.AMBER)}
    assert float(said(case)) == pytest.approx(60, abs=0.05)
    chain = reference_chain(ASKED, case)
    caveats = " ".join(chain.steps[-1].caveats)
    assert f"{padded} of {len(inside)} voxels are padding" in caveats


def test_a_declared_padding_above_the_limit_is_left_out_too(tmp_path, phantom):
    ct = phantom.ct.copy()
    ct[: np.argwhere(organ(phantom))[:, 0].min() + 3] = -1200
    case = opened(tmp_path, ct, phantom.affine)
    assert case.volume.padding_hu == -1200
    assert float(said(case)) == pytest.approx(60, abs=0.05)


def test_a_mask_that_is_all_padding_has_no_hu(tmp_path, phantom):
    ct = phantom.ct.copy()
    ct[phantom.masks["liver"] > 0] = -3024
    answer = said(opened(tmp_path, ct, phantom.affine))
    assert answer.startswith("[ERROR]") and "padding" in answer


def test_padding_does_not_bleed_into_a_mask_on_another_grid(tmp_path, phantom):
    ct = phantom.ct.copy()
    ct[: np.argwhere(organ(phantom))[:, 0].min() + 3] = -3024
    moved = phantom.affine.copy()
    moved[0, 3] += 1.4
    masks = {name: (phantom.masks[name], moved) for name in ("liver", "liver_lesion")}
    case = opened(tmp_path, ct, phantom.affine, masks)
    answer = float(said(case))
    assert 30 < answer <= 60.05  # of liver, lesion and body alone


@pytest.mark.parametrize("measure", HU_MEASURES)
@pytest.mark.parametrize("fault", ["scale", "hole", "padding"])
def test_every_measure_of_hu_keeps_to_the_same_values(tmp_path, phantom, measure, fault):
    ct = phantom.ct.astype(np.float32)
    first = np.argwhere(organ(phantom))[:, 0].min() + 3
    if fault == "scale":
        ct = scaled(ct, 0, 1, np.float32)
    else:
        ct[:first] = np.nan if fault == "hole" else -3024
    case = opened(tmp_path, ct, phantom.affine)
    found = find(case, PlanStep(StepKind.MEASURE, "liver", measure))
    if fault == "padding":
        assert found.value == pytest.approx(0 if measure == "sd_hu" else 60, abs=0.05)
        assert any("padding" in caveat for caveat in found.caveats)
    else:
        assert found.value is None and "HU cannot be measured" in found.problem


@pytest.mark.parametrize("fault", ["scale", "hole"])
def test_a_single_voxel_is_held_to_the_same(tmp_path, phantom, fault):
    ct = phantom.ct.astype(np.float32)
    if fault == "scale":
        ct = scaled(ct, 0, 1, np.float32)
    else:
        ct[3, 4, 5] = np.nan
    case = opened(tmp_path, ct, phantom.affine)
    result = tools()["hu_at_point"](case, {"i": 3, "j": 4, "k": 5})
    assert result.error
    good = tools()["hu_at_point"](case, {"i": 3, "j": 4, "k": 6})
    assert bool(good.error) is (fault == "scale")


def test_inspect_gives_no_mean_over_holes(tmp_path, phantom, capsys):
    ct = phantom.ct.astype(np.float32)
    ct[tuple(np.argwhere(phantom.masks["liver"])[0])] = np.nan
    opened(tmp_path, ct, phantom.affine)
    assert main(["inspect", str(tmp_path / "case"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["masks"]}
    assert rows["liver"]["mean_hu"] is None
    assert rows["spleen"]["mean_hu"] == pytest.approx(50)
