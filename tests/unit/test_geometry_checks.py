"""Every reason for amber or red: when it is given, when not, and what it says to do."""

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.cases import Level
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case, read_volume


def ct_image(phantom, affine=None, dtype=np.int16):
    return nib.Nifti1Image(phantom.ct.astype(dtype), phantom.affine if affine is None else affine)


def codes(report):
    return [warning.code for warning in report.warnings]


def only(report, code):
    """The report's only warning, which must have this code."""
    assert codes(report) == [code]
    return report.warnings[0]


def saved(tmp_path, image, qform=None, sform=None):
    """Write a CT with the given (affine, code) pairs and return its report."""
    if qform is not None:
        image.set_qform(*qform)
    if sform is not None:
        image.set_sform(*sform)
    nib.save(image, tmp_path / "ct.nii.gz")
    return read_volume(tmp_path / "ct.nii.gz").report


def tilted(degrees, affine):
    """Shear an affine as a tilted gantry does: the stack leaves the slices' normal."""
    sheared = affine.copy()
    sheared[1, 2] = np.tan(np.deg2rad(degrees)) * affine[2, 2]
    return sheared


def turned(degrees, affine):
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    rotation = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    out = affine.copy()
    out[:3, :3] = rotation @ affine[:3, :3]
    return out


# The header ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("qcode", "scode"), [(1, 0), (0, 1), (0, 2), (1, 1), (2, 4)])
def test_one_form_or_two_that_agree_are_green(tmp_path, phantom, qcode, scode):
    affine = phantom.affine
    report = saved(tmp_path, ct_image(phantom), (affine, qcode), (affine, scode))
    assert report.warnings == ()
    assert report.level is Level.GREEN
    assert report.side_trusted


def test_no_code_is_red_and_hides_sides(tmp_path, phantom):
    report = saved(tmp_path, ct_image(phantom), (phantom.affine, 0), (phantom.affine, 0))
    warning = only(report, "codes_zero")
    assert warning.level is Level.RED
    assert not report.side_trusted
    assert "ct.nii.gz" in warning.message and "sform_code" in warning.message


@pytest.mark.parametrize(
    ("shift_voxels", "found"), [(0.0, False), (0.4, False), (0.6, True), (5.0, True)]
)
def test_forms_half_a_voxel_apart_are_amber(tmp_path, phantom, shift_voxels, found):
    other = phantom.affine.copy()
    other[0, 3] += shift_voxels * 3.0
    report = saved(tmp_path, ct_image(phantom), (other, 1), (phantom.affine, 1))
    assert codes(report) == (["qform_sform_differ"] if found else [])
    assert report.level is (Level.AMBER if found else Level.GREEN)


def test_forms_that_disagree_on_left_are_red(tmp_path, phantom):
    mirrored = np.diag([-1.0, 1, 1, 1]) @ phantom.affine
    report = saved(tmp_path, ct_image(phantom), (mirrored, 1), (phantom.affine, 1))
    warning = only(report, "qform_sform_differ")
    assert warning.level is Level.RED
    assert "LAS" in warning.message and "RAS" in warning.message


def test_the_sform_wins_over_the_qform(tmp_path, phantom):
    other = phantom.affine.copy()
    other[2, 3] += 50
    saved(tmp_path, ct_image(phantom), (other, 1), (phantom.affine, 1))
    grid = read_volume(tmp_path / "ct.nii.gz").grid
    np.testing.assert_allclose(grid.file.affine_ras, phantom.affine)


@pytest.mark.parametrize(("factor", "found"), [(1.0005, False), (1.002, True), (1.28, True)])
def test_voxel_sizes_that_differ_are_amber_and_the_affine_wins(tmp_path, phantom, factor, found):
    folder = phantoms.save_case(tmp_path / "case")
    stated = [1, 3.0 * factor, 3.5, 5.0, 0, 0, 0, 0]
    path = phantoms.edit_header(folder / "ct.nii.gz", pixdim=stated, qform_code=0, sform_code=2)
    case = read_case(find_case(folder))
    assert codes(case.report) == (["pixdim_affine_differ"] if found else [])
    assert case.volume.grid.spacing_mm_zyx == pytest.approx((5.0, 3.5, 3.0))
    caveats = {caveat for mask in case.masks.values() for caveat in mask.caveats}
    assert any("pixdim" in caveat for caveat in caveats) is found
    if found:
        assert case.report.level is Level.AMBER
        assert path.name in case.report.warnings[0].message


def test_a_unit_other_than_mm_is_told(tmp_path, phantom):
    image = ct_image(phantom)
    image.header.set_xyzt_units("meter")
    warning = only(saved(tmp_path, image), "pixdim_affine_differ")
    assert "unit is m" in warning.message


@pytest.mark.parametrize(
    ("degrees", "found"), [(0.0, False), (0.05, False), (0.7, True), (11, True)]
)
def test_a_tilted_gantry_is_amber(tmp_path, phantom, degrees, found):
    affine = tilted(degrees, phantom.affine)
    report = saved(tmp_path, ct_image(phantom, affine), (affine, 0), (affine, 1))
    assert codes(report) == (["shear"] if found else [])


def test_a_tilted_sform_beside_a_shear_free_qform_is_told(tmp_path, phantom):
    affine = tilted(11.3, phantom.affine)
    image = ct_image(phantom, affine)
    image.set_qform(affine, 1, strip_shears=True)
    image.set_sform(affine, 1)
    nib.save(image, tmp_path / "ct.nii.gz")
    found = codes(read_volume(tmp_path / "ct.nii.gz").report)
    assert "shear" in found and "qform_sform_differ" in found


@pytest.mark.parametrize(
    ("degrees", "found"), [(0.0, False), (0.3, False), (1.0, True), (30, True)]
)
def test_a_turned_grid_is_amber_and_not_resampled(tmp_path, phantom, degrees, found):
    affine = turned(degrees, phantom.affine)
    report = saved(tmp_path, ct_image(phantom, affine), (affine, 1), (affine, 1))
    assert codes(report) == (["oblique"] if found else [])
    volume = read_volume(tmp_path / "ct.nii.gz")
    assert volume.display_grid is volume.grid


# The values ---------------------------------------------------------------------------------


def with_values(tmp_path, phantom, array):
    return saved(tmp_path, nib.Nifti1Image(array, phantom.affine))


def test_plain_hu_are_green(tmp_path, phantom):
    assert with_values(tmp_path, phantom, phantom.ct).warnings == ()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda ct: (ct + 1024).astype(np.int16), "below 0"),
        (lambda ct: ((ct + 1000) / 1300).astype(np.float32), "normalised"),
        (lambda ct: (ct.astype(np.int32) * 7).astype(np.int16), "scaled twice"),
    ],
    ids=["unsigned", "normalised", "scaled"],
)
def test_values_that_cannot_be_hu_are_amber(tmp_path, phantom, change, word):
    warning = only(with_values(tmp_path, phantom, change(phantom.ct)), "hu_implausible")
    assert warning.level is Level.AMBER
    assert word in warning.message and "intercept" in warning.message


@pytest.mark.parametrize("padding", [-2000, -3024, -2048, -8192, -32768])
def test_padding_around_the_field_is_amber(tmp_path, phantom, padding):
    ct = phantom.ct.copy()
    ct[:2], ct[-2:] = padding, padding
    assert only(with_values(tmp_path, phantom, ct), "padding").level is Level.AMBER


def test_unsigned_values_below_their_padding_are_told_too(tmp_path, phantom):
    ct = (phantom.ct + 1024).astype(np.int16)
    ct[:2] = -2000
    assert codes(with_values(tmp_path, phantom, ct)) == ["padding", "hu_implausible"]


def test_a_few_low_voxels_are_no_padding(tmp_path, phantom):
    ct = phantom.ct.copy()
    ct[0, 0, 0] = -1207
    assert with_values(tmp_path, phantom, ct).warnings == ()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_become_air_and_are_told(tmp_path, phantom, value):
    ct = phantom.ct.astype(np.float32)
    ct[3, 4, 5] = value
    warning = only(with_values(tmp_path, phantom, ct), "nan_filled")
    assert warning.level is Level.AMBER and "1 voxels" in warning.message
    volume = read_volume(tmp_path / "ct.nii.gz")
    index = volume.grid.display_index_zyx([3, 4, 5]).astype(int)
    assert volume.array_zyx[tuple(index)] == -1024
    assert np.isfinite(volume.array_zyx).all()


# The masks ----------------------------------------------------------------------------------


def case_with(tmp_path, **changed):
    """A phantom case with some masks replaced: name -> (array, affine)."""
    folder = phantoms.save_case(tmp_path / "case")
    for name, (array, affine) in changed.items():
        path = folder / "segmentations" / f"{name}.nii.gz"
        nib.save(nib.Nifti1Image(array, affine), path)
    return read_case(find_case(folder))


def test_right_sides_are_green(phantom_case):
    assert read_case(find_case(phantom_case)).report.warnings == ()


def test_left_and_right_exchanged_is_red(tmp_path, phantom):
    left, right = phantom.masks["kidney_left"], phantom.masks["kidney_right"]
    case = case_with(
        tmp_path, kidney_left=(right, phantom.affine), kidney_right=(left, phantom.affine)
    )
    warning = only(case.report, "side_swapped")
    assert warning.level is Level.RED
    assert "left kidney" in warning.message and not case.report.side_trusted


def test_the_liver_left_of_the_spleen_is_red(tmp_path, phantom):
    liver, spleen = phantom.masks["liver"], phantom.masks["spleen"]
    case = case_with(tmp_path, liver=(spleen, phantom.affine), spleen=(liver, phantom.affine))
    assert "liver" in only(case.report, "side_swapped").message


def test_a_component_on_the_wrong_side_is_red(tmp_path, phantom):
    left, right = phantom.masks["kidney_left"].copy(), phantom.masks["kidney_right"].copy()
    k = np.flatnonzero(right.any(axis=(0, 1)))
    upper = np.zeros_like(right)
    upper[:, :, k[-1] :] = right[:, :, k[-1] :]
    right[upper > 0] = 0
    right[:, :, k[-2]] = 0
    case = case_with(
        tmp_path, kidney_left=(left + upper, phantom.affine), kidney_right=(right, phantom.affine)
    )
    warning = only(case.report, "side_swapped")
    assert "a part of left kidney" in warning.message


def test_a_mask_half_a_voxel_off_is_resampled_and_told(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[0, 3] += 1.4
    case = case_with(tmp_path, liver=(phantom.masks["liver"], affine))
    assert only(case.report, "mask_off_grid").level is Level.AMBER
    mask = case.masks["liver"]
    assert any("resampled" in caveat for caveat in mask.caveats)
    assert mask.region.grid is case.volume.display_grid
    assert mask.own_region.grid is not mask.region.grid
    assert mask.region.voxels == mask.own_region.voxels


def test_origins_that_differ_in_the_fourth_decimal_are_the_same_grid(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[0, 3] -= 0.0003
    case = case_with(tmp_path, liver=(phantom.masks["liver"], affine))
    assert case.report.warnings == ()
    assert case.masks["liver"].region is case.masks["liver"].own_region


def test_a_coarser_mask_lies_in_place_and_is_measured_on_its_own_grid(tmp_path, phantom):
    """Corners share a place, so centres differ by half the difference in spacing."""
    coarse = phantom.masks["liver"][::2, ::2, ::2]
    affine = phantom.affine.copy()
    affine[:3, :3] *= 2
    affine[:3, 3] += phantom.affine[:3, :3] @ [0.5, 0.5, 0.5]
    case = case_with(tmp_path, liver=(coarse, affine))
    assert only(case.report, "mask_off_grid").level is Level.AMBER
    mask = case.masks["liver"]
    assert mask.own_region.voxels == coarse.sum()
    assert mask.own_region.grid.voxel_mm3 == pytest.approx(8 * 3 * 3.5 * 5)
    assert mask.region.voxels == 8 * coarse.sum()


def test_a_mask_of_another_scan_is_red_and_not_drawn(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[2, 3] += 500
    case = case_with(tmp_path, liver=(phantom.masks["liver"], affine))
    assert only(case.report, "mask_elsewhere").level is Level.RED
    mask = case.masks["liver"]
    assert mask.region.empty and mask.own_region.voxels == phantom.masks["liver"].sum()


def test_a_grid_that_overlaps_while_its_mask_does_not_is_elsewhere(tmp_path, phantom):
    array = np.zeros((60, 20, 12), np.uint8)
    array[50:55, 5:8, 5:8] = 1
    affine = phantom.affine.copy()
    affine[0, 3] += 9.0
    case = case_with(tmp_path, liver=(array, affine))
    assert codes(case.report) == ["mask_elsewhere"]
    assert "outside the CT" in " ".join(case.masks["liver"].caveats)


def test_a_mask_that_reaches_out_of_the_ct_is_cut_for_drawing_only(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[0, 3] += 3.0 * 5
    case = case_with(tmp_path, spleen=(phantom.masks["liver"], affine))
    mask = case.masks["spleen"]
    assert 0 < mask.region.voxels < mask.own_region.voxels


def test_a_transposed_mask_is_named_and_not_drawn(tmp_path, phantom):
    case = case_with(tmp_path, liver=(phantom.masks["liver"].T.copy(), phantom.affine))
    warning = only(case.report, "mask_shape")
    assert warning.level is Level.RED
    assert "(12, 20, 24)" in warning.message and "(24, 20, 12)" in warning.message
    assert "kji" in warning.message
    assert "liver" not in case.masks and "liver" in case.problems


def test_the_named_order_puts_a_transposed_mask_right(tmp_path, phantom):
    """Follow the message's advice on a cyclic permutation and get the right mask back."""
    wrong = phantom.masks["liver"].transpose(1, 2, 0).copy()
    folder = tmp_path / "ras"
    phantoms.save_case(folder, axcodes="RAS")
    path = folder / "segmentations" / "liver.nii.gz"
    nib.save(nib.Nifti1Image(wrong, phantom.affine), path)
    message = read_case(find_case(folder)).problems["liver"]
    order = message.split("axes in the order ")[1][:3]
    again = wrong.transpose(["ijk".index(letter) for letter in order])
    np.testing.assert_array_equal(again, phantom.masks["liver"])


def test_a_shape_that_fits_in_several_orders_is_not_guessed(tmp_path):
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    ct = np.full((16, 16, 8), -1000, np.int16)
    ct[4:12, 4:12] = 40
    folder = tmp_path / "case"
    phantoms.save(folder / "ct.nii.gz", ct, affine)
    mask = np.zeros((16, 8, 16), np.uint8)
    mask[2:6, 2:4, 2:9] = 1
    phantoms.save(folder / "segmentations" / "liver.nii.gz", mask, affine)
    case = read_case(find_case(folder))
    assert only(case.report, "mask_shape").level is Level.RED
    assert "several orders" in case.problems["liver"]


def test_a_header_copied_onto_another_shape_is_red(tmp_path, phantom):
    folder = phantoms.save_case(tmp_path / "case", axcodes="RAS")
    path = folder / "segmentations" / "liver.nii.gz"
    nib.save(nib.Nifti1Image(phantom.masks["liver"][:20], phantom.affine), path)
    case = read_case(find_case(folder))
    assert only(case.report, "mask_shape").level is Level.RED
    assert "copy" in case.problems["liver"]


def test_a_cropped_mask_with_its_own_origin_is_only_off_grid(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [2, 3, 1]
    crop = phantom.masks["liver"][2:, 3:, 1:]
    case = case_with(tmp_path, liver=(crop, affine))
    assert codes(case.report) == ["mask_off_grid"]
    mask = case.masks["liver"]
    assert mask.region.voxels == mask.own_region.voxels == phantom.masks["liver"].sum()


def test_a_mask_without_codes_is_not_placed(tmp_path, phantom):
    folder = phantoms.save_case(tmp_path / "case")
    path = folder / "segmentations" / "liver.nii.gz"
    phantoms.edit_header(path, qform_code=0, sform_code=0)
    case = read_case(find_case(folder))
    assert only(case.report, "codes_zero").level is Level.RED
    assert "liver" in case.problems


def test_ct_and_masks_without_codes_lie_on_each_other_and_stay_red(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    for path in [folder / "ct.nii.gz", *(folder / "segmentations").iterdir()]:
        phantoms.edit_header(path, qform_code=0, sform_code=0)
    case = read_case(find_case(folder))
    assert len(case.masks) == 5 and not case.problems
    assert "codes_zero" in codes(case.report)
    assert not case.report.side_trusted


def test_a_mask_with_a_doubtful_voxel_size_carries_the_caveat(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    path = folder / "segmentations" / "liver.nii.gz"
    stated = [1, 2.0, 3.5, 5.0, 0, 0, 0, 0]
    phantoms.edit_header(path, pixdim=stated, qform_code=0, sform_code=2)
    case = read_case(find_case(folder))
    assert codes(case.report) == ["pixdim_affine_differ"]
    doubtful = [n for n, m in case.masks.items() if any("pixdim" in c for c in m.caveats)]
    assert doubtful == ["liver"]


def test_one_fault_of_many_masks_is_told_once(tmp_path, phantom):
    affine = phantom.affine.copy()
    affine[0, 3] += 1.4
    changed = {name: (mask, affine) for name, mask in phantom.masks.items()}
    case = case_with(tmp_path, **changed)
    warning = only(case.report, "mask_off_grid")
    assert "and 2 more" in warning.message


@pytest.mark.real
@pytest.mark.parametrize("name", ["ts_example", "sts_018"])
def test_real_cases_are_green(real_data, name):
    assert read_case(find_case(real_data / name)).report.warnings == ()
