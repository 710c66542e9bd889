"""Masks: every way of storing them reads to the same voxels, or says why not."""

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.cases import CaseFiles, MaskFile, MaskProblem
from napari_ctvqa.core.geometry import to_file_order
from napari_ctvqa.core.sampling import centroid_ras_mm, hu_inside
from napari_ctvqa.io import nifti
from napari_ctvqa.io.case_files import find_case, with_masks
from napari_ctvqa.io.reader import read_case, read_masks, read_volume


@pytest.fixture
def folder(tmp_path, phantom):
    """A case whose only mask, the liver, a test stores in its own way."""
    phantoms.save(tmp_path / "ct.nii.gz", phantom.ct, phantom.affine, "RAS")
    (tmp_path / "segmentations").mkdir()
    return tmp_path


def stored(folder, phantom, array, name="liver", **header):
    path = folder / "segmentations" / f"{name}.nii.gz"
    nib.save(nib.Nifti1Image(array, phantom.affine, dtype=array.dtype), path)
    if header:
        phantoms.edit_header(path, **header)
    return path


def read_liver(folder):
    return read_case(find_case(folder)).masks["liver"]


def in_file_order(mask):
    """The mask as a whole array in the order of the CT's file."""
    grid = mask.region.grid
    whole = np.zeros(grid.shape_zyx, bool)
    if mask.region.box_zyx is not None:
        whole[mask.region.box_zyx] = mask.region.crop_zyx
    return to_file_order(whole, grid)


@pytest.mark.parametrize(
    "dtype", ["u1", "i1", "<i2", ">i2", "u2", "i4", "u4", "i8", "<f4", ">f4", "f8"]
)
def test_every_number_type_gives_the_same_voxels(folder, phantom, dtype):
    image = nib.Nifti1Image(
        phantom.masks["liver"].astype(dtype),
        phantom.affine,
        nib.Nifti1Header(endianness=">" if dtype.startswith(">") else "<"),
        dtype=np.dtype(dtype),
    )
    nib.save(image, folder / "segmentations" / "liver.nii.gz")
    mask = read_liver(folder)
    np.testing.assert_array_equal(in_file_order(mask), phantom.masks["liver"] != 0)
    assert mask.region.crop_zyx.dtype == bool


def test_a_slope_that_makes_255_to_1_is_applied(folder, phantom):
    stored(folder, phantom, phantom.masks["liver"] * np.uint8(255), scl_slope=1 / 255, scl_inter=0)
    assert read_liver(folder).own_region.voxels == phantom.masks["liver"].sum()


def test_an_intercept_is_applied_before_voxels_are_counted(folder, phantom):
    array = (phantom.masks["liver"] + 5).astype(np.uint8)
    stored(folder, phantom, array, scl_slope=1, scl_inter=-5)
    np.testing.assert_array_equal(in_file_order(read_liver(folder)), phantom.masks["liver"] != 0)


def test_a_mask_of_255_is_a_mask(folder, phantom):
    stored(folder, phantom, phantom.masks["liver"] * np.uint8(255))
    assert read_liver(folder).own_region.voxels == phantom.masks["liver"].sum()


def test_labels_survive_a_float_round_trip(folder, phantom):
    """nibabel writes a scale factor when floats go into an old integer header."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 300, phantom.ct.shape).astype(np.uint16)
    header = nib.Nifti1Image(labels, phantom.affine).header
    path = folder / "labels.nii.gz"
    nib.save(nib.Nifti1Image(labels.astype(np.float64), phantom.affine, header), path)
    assert nib.load(path).header["scl_slope"] != 1
    masks = tuple(MaskFile(f"thing {n}", path, n) for n in (1, 79, 299))
    case = read_case(CaseFiles("x", folder / "ct.nii.gz", masks))
    for mask in case.masks.values():
        np.testing.assert_array_equal(in_file_order(mask), labels == mask.label)


def test_an_empty_mask_is_there_and_empty(folder, phantom):
    stored(folder, phantom, np.zeros(phantom.ct.shape, np.uint8))
    mask = read_liver(folder)
    assert mask.region.empty and mask.own_region.empty
    assert not mask.own_region.touches_border
    assert centroid_ras_mm(mask.own_region) is None
    assert hu_inside(read_case(find_case(folder)).volume, mask).size == 0


def test_a_full_mask_fills_the_grid(folder, phantom):
    stored(folder, phantom, np.ones(phantom.ct.shape, np.uint8))
    mask = read_liver(folder)
    assert mask.own_region.voxels == phantom.ct.size
    assert "touches the border of the volume" in mask.caveats


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("end", [0, -1])
def test_each_face_of_the_volume_is_a_border(folder, phantom, axis, end):
    array = np.zeros(phantom.ct.shape, np.uint8)
    at = [5, 5, 5]
    at[axis] = end
    array[tuple(at)] = 1
    stored(folder, phantom, array)
    assert read_liver(folder).own_region.touches_border
    at[axis] = 1 if end == 0 else -2
    array[:] = 0
    array[tuple(at)] = 1
    stored(folder, phantom, array)
    assert not read_liver(folder).own_region.touches_border


@pytest.mark.parametrize("slab_bytes", [1, 1000, 10**6])
def test_a_gap_and_any_slab_size_give_the_same_voxels(folder, phantom, monkeypatch, slab_bytes):
    monkeypatch.setattr(nifti, "SLAB_BYTES", slab_bytes)
    array = np.zeros(phantom.ct.shape, np.uint8)
    array[3:6, 2:4, 2] = 1
    array[9, 15, 8] = 1
    stored(folder, phantom, array)
    np.testing.assert_array_equal(in_file_order(read_liver(folder)), array != 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: m * 0.5, ("0.5", "whole numbers", "Threshold")),
        (lambda m: np.where(m, np.nan, 0), ("nan", "whole numbers")),
        (lambda m: m * 2 + np.roll(m, 4, axis=2), ("the values 1, 2", "--labels")),
        (lambda m: -m.astype(float), ("-1",)),
    ],
    ids=["fractions", "nan", "several", "negative"],
)
def test_what_is_no_single_mask_is_told_and_the_case_opens(folder, phantom, make, words):
    array = make(phantom.masks["liver"].astype(np.int16))
    stored(folder, phantom, array.astype(np.float32))
    stored(folder, phantom, phantom.masks["spleen"], "spleen")
    case = read_case(find_case(folder))
    assert set(case.masks) == {"spleen"}
    message = case.problems["liver"]
    assert "liver.nii.gz" in message
    for word in words:
        assert word in message


def test_a_label_too_large_to_read_is_told(folder, phantom):
    labels = phantom.masks["liver"].astype(np.int32) * 70000
    path = folder / "labels.nii.gz"
    nib.save(nib.Nifti1Image(labels, phantom.affine, dtype=np.int32), path)
    files = CaseFiles("x", folder / "ct.nii.gz", (MaskFile("liver", path, 1),))
    found = list(read_masks(files, read_volume(folder / "ct.nii.gz")))
    assert isinstance(found[0], MaskProblem)
    assert "70000" in found[0].message


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_a_multi_label_file_gives_each_of_its_masks(tmp_path, phantom, dtype):
    labels = np.zeros(phantom.ct.shape, dtype)
    values = {"liver": 5, "spleen": 1, "kidney_left": 79, "kidney_right": 2}
    for name, value in values.items():
        labels[phantom.masks[name] > 0] = value
    phantoms.save(tmp_path / "ct.nii.gz", phantom.ct, phantom.affine, "LPS")
    phantoms.save(tmp_path / "labels.nii.gz", labels, phantom.affine, "SAR")
    (tmp_path / "labels.json").write_text(
        '{"5": "liver", "1": "spleen", "79": "kidney_left", "2": "kidney_right", "90": "stomach"}'
    )
    case = read_case(find_case(tmp_path))
    assert set(case.masks) == {*values, "stomach"}
    assert case.masks["stomach"].own_region.empty
    assert case.report.warnings == ()
    for name, value in values.items():
        mask = case.masks[name]
        assert mask.label == value
        assert mask.own_region.voxels == phantom.masks[name].sum()
        np.testing.assert_allclose(
            centroid_ras_mm(mask.own_region), phantom.centres_mm[name], atol=1e-3
        )


def test_a_bad_multi_label_file_is_a_problem_of_all_its_masks(tmp_path, phantom):
    phantoms.save(tmp_path / "ct.nii.gz", phantom.ct, phantom.affine)
    (tmp_path / "labels.nii.gz").write_text("not a volume")
    (tmp_path / "labels.json").write_text('{"1": "liver", "2": "spleen"}')
    case = read_case(find_case(tmp_path))
    assert set(case.problems) == {"liver", "spleen"} and not case.masks


def test_masks_know_where_they_came_from(phantom_case):
    case = read_case(find_case(phantom_case))
    assert case.masks["liver_lesion"].lesion and not case.masks["liver"].lesion
    assert case.masks["liver"].path == phantom_case / "segmentations" / "liver.nii.gz"
    assert case.masks["liver"].source == "reference"


def test_hu_on_another_grid_is_interpolated_at_the_masks_own_voxels(folder, phantom):
    inner = np.zeros_like(phantom.masks["liver"])
    where = np.argwhere(phantom.masks["liver"] & ~phantom.masks["liver_lesion"])
    x, y, z = where[len(where) // 2]
    inner[x, y, z] = 1
    affine = phantom.affine.copy()
    affine[:3, 3] += [0.4, 0.4, 0.4]
    path = folder / "segmentations" / "liver.nii.gz"
    nib.save(nib.Nifti1Image(inner, affine), path)
    case = read_case(find_case(folder))
    mask = case.masks["liver"]
    assert mask.own_region.grid is not case.volume.grid
    weights = np.array([0.4 / 3.0, 0.4 / 3.5, 0.4 / 5.0])
    block = phantom.ct[x : x + 2, y : y + 2, z : z + 2].astype(float)
    for weight in weights:
        block = block[0] * (1 - weight) + block[1] * weight
    assert hu_inside(case.volume, mask) == pytest.approx([block], abs=0.01)


def test_hu_outside_the_ct_is_left_out(folder, phantom):
    affine = phantom.affine.copy()
    affine[0, 3] += 30.0
    full = np.ones(phantom.ct.shape, np.uint8)
    nib.save(nib.Nifti1Image(full, affine), folder / "segmentations" / "liver.nii.gz")
    case = read_case(find_case(folder))
    assert hu_inside(case.volume, case.masks["liver"]).size == full[:14].size


def test_the_mask_file_alone_can_be_named(folder, phantom):
    path = stored(folder, phantom, phantom.masks["spleen"], "spleen")
    files = with_masks(find_case(folder / "ct.nii.gz"), path)
    assert [mask.name for mask in files.masks] == ["spleen"]
