"""Headers that contradict themselves, or that readers take in different ways."""

import json

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.cli import main
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.sampling import centroid_ras_mm, hu_inside
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case, read_volume

LPS = np.array([[-3.0, 0, 0, 36], [0, -3.5, 0, 36.5], [0, 0, 5, -100], [0, 0, 0, 1]])
"""The affine of the phantom saved as LPS."""


def codes(report):
    return {(warning.code, warning.level) for warning in report.warnings}


def mirrored(affine, count=24):
    """The same box with the first axis running the other way: right becomes left."""
    other = affine.copy()
    other[:3, 3] += other[:3, 0] * (count - 1)
    other[:3, 0] *= -1
    return other


def set_forms(path, qform, sform, **fields):
    """Give a file two forms with code 1 each; then any field in place."""
    image = nib.load(path)
    image.set_qform(qform, 1)
    image.set_sform(sform, 1)
    nib.save(image, path)
    return phantoms.edit_header(path, **fields) if fields else path


# The shape ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dim",
    [
        [3, -1, 1, 1],  # FreeSurfer's sign for "look at glmin": nibabel raises where that is 0
        [3, 27307, 1, 6],  # FreeSurfer's icosahedron: nibabel says 163842
        [0, 24, 20, 12],
        [8, 24, 20, 12],
        [-3, 24, 20, 12],
        [3, -24, 20, 12],
        [3, 0, 20, 12],
        [2, 24, 20, 12],
        [1, 24, 20, 12],
    ],
)
def test_a_shape_that_is_none_is_named(tmp_path, dim):
    path = phantoms.save_case(tmp_path / "case") / "ct.nii.gz"
    phantoms.edit_header(path, dim=[*dim, *[1] * (8 - len(dim))])
    with pytest.raises(InputFileError) as caught:
        read_volume(path)
    assert "ct.nii.gz" in caught.value.message and caught.value.hint


def test_a_shape_that_is_none_is_one_line_for_inspect(tmp_path, capsys):
    folder = phantoms.save_case(tmp_path / "case")
    phantoms.edit_header(folder / "ct.nii.gz", dim=[3, -1, 1, 1, 1, 1, 1, 1], glmin=0)
    assert main(["inspect", str(folder)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_mask_with_a_shape_that_is_none_leaves_the_others(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    phantoms.edit_header(
        folder / "segmentations" / "liver.nii.gz", dim=[3, -1, 1, 1, 1, 1, 1, 1], glmin=0
    )
    case = read_case(find_case(folder))
    assert "liver" in case.problems and len(case.masks) == 4


def test_sizes_whose_product_overflows_are_refused(tmp_path, phantom):
    image = nib.Nifti2Image(phantom.ct, phantom.affine)
    path = tmp_path / "ct.nii"
    nib.save(image, path)
    data = bytearray(path.read_bytes())
    header = nib.Nifti2Header(bytes(data[:540]), check=False)
    header["dim"][1:4] = [2**31, 2**31, 4]  # 2**64 voxels: 0 in 64 bits
    data[:540] = header.binaryblock
    path.write_bytes(bytes(data))
    with pytest.raises(InputFileError, match="promises"):
        read_volume(path)


# The qform ----------------------------------------------------------------------------------


def qform_only(tmp_path, phantom, axcodes="LPS", **fields):
    folder = phantoms.save_case(tmp_path / "case", axcodes=axcodes)
    path = folder / "ct.nii.gz"
    image = nib.load(path)
    image.set_qform(image.affine, 1)
    image.set_sform(None, 0)
    nib.save(image, path)
    pixdim = np.array(nib.load(path).header["pixdim"])
    for index, value in fields.items():
        pixdim[int(index[1:])] = value(pixdim[int(index[1:])])
    return phantoms.edit_header(path, pixdim=pixdim)


@pytest.mark.parametrize("axcodes", ["LPS", "RAS", "LPI", "SPL"])
@pytest.mark.parametrize(
    "change",
    [
        {"_0": lambda old: 0.0 if old > 0 else old},
        {"_1": lambda old: -old},
        {"_2": lambda old: -old},
        {"_1": lambda old: -old, "_2": lambda old: -old, "_3": lambda old: -old},
    ],
    ids=["qfac 0", "-x", "-y", "-xyz"],
)
def test_a_qform_that_nibabel_reads_is_read_alike(tmp_path, phantom, axcodes, change):
    path = qform_only(tmp_path, phantom, axcodes, **change)
    volume = read_volume(path)
    np.testing.assert_allclose(volume.grid.file.affine_ras, nib.load(path).affine, atol=1e-4)
    assert volume.grid.file.axcodes == axcodes
    signs = any(index != "_0" for index in change)
    expected = {("pixdim_affine_differ", Level.AMBER)} if signs else set()
    assert codes(volume.report) == expected


def test_a_qfac_that_readers_take_in_two_ways_is_red(tmp_path, phantom):
    path = qform_only(tmp_path, phantom, _0=lambda old: -0.5)
    assert codes(read_volume(path).report) == {("qform_sform_differ", Level.RED)}


def test_a_negative_size_beside_an_sform_is_not_used_and_green(tmp_path):
    path = phantoms.save_case(tmp_path / "case") / "ct.nii.gz"
    phantoms.edit_header(path, pixdim=[1, -3.0, 3.5, 5.0, 0, 0, 0, 0], qform_code=0, sform_code=1)
    assert codes(read_volume(path).report) == set()


# The codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qcode", "scode", "axcodes"), [(1, -1, "LPS"), (-1, 1, "RPS"), (1, -2, "LPS"), (2, 1, "RPS")]
)
def test_two_forms_that_contradict_are_red_whatever_their_codes(tmp_path, qcode, scode, axcodes):
    """A code below 0 is none of the standard's: some readers pass it over, nibabel does not."""
    path = phantoms.save_case(tmp_path / "case") / "ct.nii.gz"
    set_forms(path, LPS, mirrored(LPS), qform_code=qcode, sform_code=scode)
    volume = read_volume(path)
    assert volume.grid.file.axcodes == axcodes
    assert codes(volume.report) == {("qform_sform_differ", Level.RED)}
    assert str(min(qcode, scode)) in volume.report.warnings[0].message


@pytest.mark.parametrize(("qcode", "scode"), [(0, -1), (-1, 0), (-1, -1)])
def test_codes_below_0_alone_place_nothing(tmp_path, qcode, scode):
    path = phantoms.save_case(tmp_path / "case") / "ct.nii.gz"
    set_forms(path, LPS, LPS, qform_code=qcode, sform_code=scode)
    report = read_volume(path).report
    assert codes(report) == {("codes_zero", Level.RED)}
    assert str(min(qcode, scode)) in report.warnings[0].message


def test_a_code_below_0_whose_form_agrees_is_green(tmp_path):
    path = phantoms.save_case(tmp_path / "case") / "ct.nii.gz"
    set_forms(path, LPS, LPS, sform_code=-1)
    assert codes(read_volume(path).report) == set()


# Masks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("swap", [False, True], ids=["sform mirrored", "qform mirrored"])
def test_a_mask_whose_forms_contradict_is_red_and_not_placed(tmp_path, swap):
    folder = phantoms.save_case(tmp_path / "case")
    forms = (mirrored(LPS), LPS) if swap else (LPS, mirrored(LPS))
    set_forms(folder / "segmentations" / "liver.nii.gz", *forms)
    case = read_case(find_case(folder))
    assert codes(case.report) == {("qform_sform_differ", Level.RED)}
    assert "liver" not in case.masks and "liver.nii.gz" in case.problems["liver"]
    assert len(case.masks) == 4


def test_a_mask_whose_forms_lie_apart_is_amber(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    apart = LPS.copy()
    apart[2, 3] += 20
    set_forms(folder / "segmentations" / "liver.nii.gz", apart, LPS)
    case = read_case(find_case(folder))
    assert codes(case.report) == {("qform_sform_differ", Level.AMBER)}
    assert case.masks["liver"].region is case.masks["liver"].own_region


def test_masks_that_share_the_fault_of_their_ct_lie_on_it(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    for path in [folder / "ct.nii.gz", *(folder / "segmentations").iterdir()]:
        set_forms(path, LPS, mirrored(LPS))
    case = read_case(find_case(folder))
    assert len(case.masks) == 5 and not case.problems
    found = [w for w in case.report.warnings if w.code == "qform_sform_differ"]
    assert len(found) == 1 and "ct.nii.gz" in found[0].message


# Half-way turned ----------------------------------------------------------------------------


def rotated(affine, axis, degrees):
    cosine, sine = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    first, second = [a for a in range(3) if a != axis]
    turn = np.eye(3)
    turn[first, first] = turn[second, second] = cosine
    turn[first, second], turn[second, first] = -sine, sine
    out = affine.copy()
    out[:3, :3] = turn @ affine[:3, :3]
    return out


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("degrees", [45, 135])
@pytest.mark.parametrize("off_deg", [-1e-3, -1e-5, 1e-5, 1e-3])
def test_rounding_at_half_way_does_not_part_a_mask_from_its_ct(
    tmp_path, phantom, axis, degrees, off_deg
):
    affine = rotated(LPS, axis, degrees)
    nib.save(nib.Nifti1Image(phantom.ct, affine), tmp_path / "ct.nii.gz")
    (tmp_path / "segmentations").mkdir()
    path = tmp_path / "segmentations" / "liver.nii.gz"
    nib.save(nib.Nifti1Image(phantom.masks["liver"], rotated(LPS, axis, degrees + off_deg)), path)
    case = read_case(find_case(tmp_path))
    assert {code for code, _ in codes(case.report)} == {"oblique"}
    mask = case.masks["liver"]
    assert mask.region.voxels == phantom.masks["liver"].sum()
    expected = phantom.ct[phantom.masks["liver"] > 0].mean()
    assert hu_inside(case.volume, mask).mean() == pytest.approx(expected)
    index = np.argwhere(phantom.masks["liver"]).mean(axis=0)
    at_mm = nib.affines.apply_affine(affine, index)
    np.testing.assert_allclose(centroid_ras_mm(mask.region), at_mm, atol=1e-2)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("degrees", [44.9999, 45, 45.0001, 135])
def test_one_matrix_saved_in_both_forms_agrees_with_itself(tmp_path, phantom, axis, degrees):
    affine = rotated(LPS, axis, degrees)
    image = nib.Nifti1Image(phantom.ct, affine)
    image.set_qform(affine, 1)
    image.set_sform(affine, 1)
    nib.save(image, tmp_path / "ct.nii.gz")
    report = read_volume(tmp_path / "ct.nii.gz").report
    assert codes(report) == {("oblique", Level.AMBER)}


def test_forms_that_contradict_are_red_also_half_way(tmp_path, phantom):
    affine = rotated(LPS, 2, 45)
    image = nib.Nifti1Image(phantom.ct, affine)
    image.set_qform(mirrored(affine), 1)
    image.set_sform(affine, 1)
    nib.save(image, tmp_path / "ct.nii.gz")
    assert ("qform_sform_differ", Level.RED) in codes(read_volume(tmp_path / "ct.nii.gz").report)


# What leaves --------------------------------------------------------------------------------


def test_inspect_writes_strict_json_for_values_without_end(tmp_path, phantom, capsys):
    ct = phantom.ct.astype(np.float64)
    ct[phantom.masks["liver"] > 0] = 1e300
    phantoms.save_case(tmp_path / "case")
    nib.save(nib.Nifti1Image(ct, phantom.affine), tmp_path / "case" / "ct.nii.gz")
    main(["inspect", str(tmp_path / "case"), "--json"])

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    json.loads(capsys.readouterr().out, parse_constant=refuse)
