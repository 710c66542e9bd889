"""The CT: values, types, memory order, bad files; and how a case fills."""

import gzip
import threading

import nibabel as nib
import numpy as np
import phantoms
import pytest
from phantoms import ALL_ORDERS

from napari_ctvqa.core.cases import CaseFiles, MaskFile
from napari_ctvqa.core.errors import InputFileError, NotFoundError
from napari_ctvqa.core.sampling import centroid_ras_mm, hu_inside
from napari_ctvqa.io import nifti
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import open_steps, read_case, read_masks, read_volume

AFFINE = np.diag([-2.0, -2.0, 3.0, 1.0])


def write(path, array, affine=AFFINE, **header):
    image = nib.Nifti1Image(array, affine, dtype=array.dtype)
    nib.save(image, path)
    return phantoms.edit_header(path, **header) if header else path


@pytest.fixture
def small():
    rng = np.random.default_rng(3)
    return rng.integers(-1000, 1500, (6, 5, 4)).astype(np.int16)


def shown(array):
    """The display order of an LPS+S array with AFFINE: z from superior to inferior."""
    return array.transpose(2, 1, 0)[::-1]


# Values and types ---------------------------------------------------------------------------


def test_int16_values_are_kept_as_they_are(tmp_path, small):
    volume = read_volume(write(tmp_path / "ct.nii.gz", small))
    assert volume.array_zyx.dtype == np.int16
    np.testing.assert_array_equal(volume.array_zyx, shown(small))
    assert (volume.hu_min, volume.hu_max) == (small.min(), small.max())
    assert volume.display_zyx is volume.array_zyx


def test_the_ct_cannot_be_written_to(tmp_path, small):
    volume = read_volume(write(tmp_path / "ct.nii.gz", small))
    with pytest.raises(ValueError, match="read-only"):
        volume.array_zyx[0, 0, 0] = 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint16, np.int64, np.float32, np.float64])
def test_whole_numbers_of_any_type_become_int16(tmp_path, small, dtype):
    values = small.astype(dtype)
    path = write(tmp_path / "ct.nii.gz", values)
    volume = read_volume(path)
    expected = np.asarray(nib.load(path).dataobj)
    wanted = np.int16 if abs(expected.astype(float)).max() < 32768 else np.float32
    assert volume.array_zyx.dtype == wanted
    np.testing.assert_array_equal(volume.array_zyx, shown(expected))


def test_raw_24_with_intercept_minus_1024_is_minus_1000(tmp_path):
    stored = np.full((4, 4, 4), 24, np.uint16)
    stored[0, 0, 0] = 2000
    path = write(tmp_path / "ct.nii.gz", stored, scl_slope=1, scl_inter=-1024)
    volume = read_volume(path)
    assert volume.array_zyx.dtype == np.int16
    assert volume.hu_min == -1000
    assert volume.hu_max == 976
    assert set(np.unique(volume.array_zyx)) == {-1000, 976}


def test_fractions_are_kept_as_float32(tmp_path, small):
    stored = small.copy()
    path = write(tmp_path / "ct.nii.gz", stored, scl_slope=0.5, scl_inter=-0.25)
    volume = read_volume(path)
    assert volume.array_zyx.dtype == np.float32
    np.testing.assert_allclose(volume.array_zyx, shown(small * 0.5 - 0.25), atol=1e-3)


def test_a_fraction_in_the_last_slab_keeps_the_first_ones(tmp_path, small, monkeypatch):
    monkeypatch.setattr(nifti, "SLAB_BYTES", 1)
    values = small.astype(np.float32)
    values[0, 0, -1] += 0.5
    volume = read_volume(write(tmp_path / "ct.nii.gz", values))
    np.testing.assert_array_equal(volume.array_zyx, shown(values))


def test_slope_zero_means_unscaled(tmp_path, small):
    path = write(tmp_path / "ct.nii.gz", small, scl_slope=0, scl_inter=7)
    np.testing.assert_array_equal(read_volume(path).array_zyx, shown(small))


def test_big_endian_files(tmp_path, small):
    image = nib.Nifti1Image(small, AFFINE, nib.Nifti1Header(endianness=">"))
    image.set_data_dtype(">i2")
    nib.save(image, tmp_path / "ct.nii.gz")
    volume = read_volume(tmp_path / "ct.nii.gz")
    assert volume.array_zyx.dtype.isnative
    np.testing.assert_array_equal(volume.array_zyx, shown(small))


def test_nifti_2_and_uncompressed_and_misnamed_files(tmp_path, small):
    nib.save(nib.Nifti2Image(small, AFFINE), tmp_path / "two.nii.gz")
    nib.save(nib.Nifti1Image(small, AFFINE), tmp_path / "plain.nii")
    (tmp_path / "misnamed.nii.gz").write_bytes((tmp_path / "plain.nii").read_bytes())
    for name in ("two.nii.gz", "plain.nii", "misnamed.nii.gz"):
        np.testing.assert_array_equal(read_volume(tmp_path / name).array_zyx, shown(small))


def test_a_gzip_of_several_members_is_read_to_its_end(tmp_path, small):
    path = write(tmp_path / "ct.nii.gz", small)
    raw = gzip.decompress(path.read_bytes())
    path.write_bytes(b"".join(gzip.compress(raw[n : n + 100]) for n in range(0, len(raw), 100)))
    np.testing.assert_array_equal(read_volume(path).array_zyx, shown(small))


def test_header_extensions_are_skipped(tmp_path, small):
    image = nib.Nifti1Image(small, AFFINE)
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"x" * 5000))
    nib.save(image, tmp_path / "ct.nii.gz")
    np.testing.assert_array_equal(read_volume(tmp_path / "ct.nii.gz").array_zyx, shown(small))


def test_one_volume_in_four_dimensions_is_accepted(tmp_path, small):
    path = write(tmp_path / "ct.nii.gz", small[..., None])
    np.testing.assert_array_equal(read_volume(path).array_zyx, shown(small))


def test_values_agree_with_nibabel_on_random_scalings(tmp_path, small):
    rng = np.random.default_rng(5)
    for n in range(6):
        slope, inter = float(rng.uniform(0.1, 3)), float(rng.uniform(-1100, 100))
        path = write(tmp_path / f"{n}.nii.gz", small, scl_slope=slope, scl_inter=inter)
        expected = shown(np.asarray(nib.load(path).dataobj))
        np.testing.assert_allclose(read_volume(path).array_zyx, expected, atol=2e-3)


# Geometry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_every_axis_order_gives_the_same_case(tmp_path, phantom, axcodes):
    plain = read_case(find_case(phantoms.save_case(tmp_path / "plain")))
    case = read_case(find_case(phantoms.save_case(tmp_path / "case", axcodes=axcodes)))
    assert case.volume.grid.file.axcodes == axcodes
    assert case.report.warnings == ()
    np.testing.assert_array_equal(case.volume.array_zyx, plain.volume.array_zyx)
    assert case.volume.array_zyx.dtype == np.int16
    for name, mask in case.masks.items():
        centre = centroid_ras_mm(mask.own_region)
        np.testing.assert_allclose(centre, phantom.centres_mm[name], atol=1e-3)
        voxels = int(phantom.masks[name].sum())
        assert mask.own_region.voxels * mask.own_region.grid.voxel_mm3 == pytest.approx(
            voxels * 3.0 * 3.5 * 5.0
        )
        assert mask.region.box_zyx == plain.masks[name].region.box_zyx
        np.testing.assert_array_equal(mask.region.crop_zyx, plain.masks[name].region.crop_zyx)


@pytest.mark.parametrize("axcodes", ["RAS", "PIR", "ASL", "LPS"])
def test_masks_in_another_axis_order_than_the_ct_lie_on_it(tmp_path, phantom, axcodes):
    folder = phantoms.save_case(tmp_path / "case", axcodes="LAS", masks_axcodes=axcodes)
    case = read_case(find_case(folder))
    assert case.report.warnings == ()
    for name, mask in case.masks.items():
        assert mask.own_region is mask.region
        assert set(hu_inside(case.volume, mask)) <= {60, 50, 30, 35, 10}
        np.testing.assert_allclose(
            centroid_ras_mm(mask.region), phantom.centres_mm[name], atol=1e-3
        )


def test_left_is_at_high_x_anterior_at_low_y_superior_at_low_z(tmp_path, phantom):
    case = read_case(find_case(phantoms.save_case(tmp_path / "case", axcodes="RSP")))
    box = {name: mask.region.box_zyx for name, mask in case.masks.items()}
    middle = [n / 2 for n in case.volume.grid.shape_zyx]
    assert box["spleen"][2].start > middle[2] > box["liver"][2].stop - 1
    assert box["kidney_left"][1].start > middle[1]
    assert box["kidney_left"][0].start > box["spleen"][0].start


def test_a_sheared_ct_is_drawn_at_right_angles_and_measured_as_it_is(tmp_path):
    shape = (20, 20, 10)
    affine = np.diag([2.0, 2.0, 4.0, 1.0])
    affine[1, 2] = 1.5
    array = np.full(shape, -1000, np.int16)
    array[8:12, 8:12, 2:8] = 500
    write(tmp_path / "ct.nii.gz", array, affine)
    (tmp_path / "segmentations").mkdir()
    write(tmp_path / "segmentations" / "liver.nii.gz", (array > 0).astype(np.uint8), affine)
    case = read_case(find_case(tmp_path))
    volume, mask = case.volume, case.masks["liver"]
    assert [w.code for w in case.report.warnings] == ["shear"]
    assert volume.display_grid is not volume.grid
    assert volume.display_grid.shear_deg == pytest.approx(0, abs=1e-6)
    assert volume.display_zyx.shape == volume.display_grid.shape_zyx
    assert mask.own_region.grid is volume.grid
    assert mask.region.grid is volume.display_grid
    assert mask.own_region.voxels * mask.own_region.grid.voxel_mm3 == pytest.approx(96 * 16.0)
    index = np.argwhere(array > 0).mean(axis=0)
    world = affine[:3, :3] @ index + affine[:3, 3]
    np.testing.assert_allclose(centroid_ras_mm(mask.own_region), world, atol=1e-3)
    half_voxel = np.array(volume.display_grid.spacing_mm_zyx[::-1]) / 2
    assert (np.abs(centroid_ras_mm(mask.region) - world) < half_voxel).all()
    assert set(hu_inside(volume, mask)) == {500}
    drawn = volume.display_zyx[mask.region.box_zyx][mask.region.crop_zyx]
    assert np.median(drawn) == 500
    bright = np.argwhere(volume.display_zyx > -250)
    centre = volume.display_grid.ras_mm(bright.mean(axis=0))
    assert (np.abs(centre - world) < half_voxel).all()


# Bad files ----------------------------------------------------------------------------------


def bad_gzip_cut(path):
    data = write(path, np.random.default_rng(0).integers(0, 999, (40, 40, 40)).astype(np.int16))
    whole = data.read_bytes()
    path.write_bytes(whole[: len(whole) * 6 // 10])


def bad_damaged(path):
    data = write(path, np.random.default_rng(0).integers(0, 999, (40, 40, 40)).astype(np.int16))
    broken = bytearray(data.read_bytes())
    broken[len(broken) // 2] ^= 0xFF
    path.write_bytes(broken)


def bad_text(path):
    path.write_text("<html>404 not found</html>")


def bad_text_zipped(path):
    path.write_bytes(gzip.compress(b"id,question,answer\n" * 40))


def bad_empty(path):
    path.write_bytes(b"")


def bad_rgb(path):
    rgb = np.zeros((4, 4, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.save(nib.Nifti1Image(rgb, AFFINE), path)


def bad_complex(path):
    nib.save(nib.Nifti1Image(np.zeros((4, 4, 4), np.complex64), AFFINE), path)


def bad_4d(path):
    nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 3), np.int16), AFFINE), path)


def bad_2d(path):
    nib.save(nib.Nifti1Image(np.zeros((4, 4), np.int16), AFFINE), path)


def bad_all_nan(path):
    nib.save(nib.Nifti1Image(np.full((4, 4, 4), np.nan, np.float32), AFFINE), path)


def bad_flat_affine(path):
    write(path, np.zeros((4, 4, 4), np.int16), sform_code=1, srow_z=[0, 0, 0, 0])


def bad_promise(path):
    write(path, np.zeros((4, 4, 4), np.int16), dim=[3, 4000, 4000, 4000, 1, 1, 1, 1])


def bad_pair(path):
    write(path, np.zeros((4, 4, 4), np.int16), magic=b"ni1")


BAD = {
    bad_gzip_cut: r"cut off: it ends at byte \d+",
    bad_damaged: r"damaged at or before byte \d+",
    bad_text: "not a NIfTI volume",
    bad_text_zipped: "not a NIfTI volume",
    bad_empty: "empty",
    bad_rgb: "RGB",
    bad_complex: "complex",
    bad_4d: "3 volumes",
    bad_2d: "three axes",
    bad_all_nan: "no number",
    bad_flat_affine: "places no voxel",
    bad_promise: "promises|cannot hold",
    bad_pair: "single-file",
}


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_a_bad_ct_is_named_with_what_was_expected_and_what_to_do(tmp_path, make):
    path = tmp_path / "ct.nii.gz"
    make(path)
    with pytest.raises(InputFileError, match=BAD[make]) as caught:
        read_volume(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_a_bad_mask_is_a_problem_of_that_mask_only(phantom_case, make):
    make(phantom_case / "segmentations" / "stomach.nii.gz")
    case = read_case(find_case(phantom_case))
    assert set(case.masks) == {"liver", "spleen", "kidney_left", "kidney_right", "liver_lesion"}
    assert set(case.problems) == {"stomach"}
    assert "stomach.nii.gz" in case.problems["stomach"]
    assert case.complete


def test_the_next_case_opens_after_a_bad_one(tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    bad_gzip_cut(bad / "ct.nii.gz")
    with pytest.raises(InputFileError):
        list(open_steps(find_case(bad)))
    assert list(open_steps(find_case(phantoms.save_case(tmp_path / "good"))))[-1].complete


def test_a_file_cut_at_every_tenth_of_its_length_is_refused(tmp_path):
    whole = tmp_path / "whole.nii.gz"
    bad_gzip_cut(whole)
    write(whole, np.random.default_rng(1).integers(0, 999, (30, 30, 30)).astype(np.int16))
    data = whole.read_bytes()
    for cut in [*range(1, len(data), len(data) // 10), len(data) - 9, len(data) - 1]:
        path = tmp_path / "ct.nii.gz"
        path.write_bytes(data[:cut])
        with pytest.raises(InputFileError):
            read_volume(path)


@pytest.mark.parametrize("sform_code", [0, 1])
@pytest.mark.filterwarnings("error")
def test_any_header_opens_or_says_why_not(tmp_path, small, sform_code):
    image = nib.Nifti1Image((small > 900).astype(np.uint8), AFFINE)
    image.set_qform(AFFINE, 1)
    image.set_sform(AFFINE, sform_code)
    nib.save(image, tmp_path / "ct.nii")
    sound = (tmp_path / "ct.nii").read_bytes()
    files = CaseFiles("x", tmp_path / "ct.nii", (MaskFile("liver", tmp_path / "liver.nii"),))
    volume = read_volume(files.ct)
    rng = np.random.default_rng(11 + sform_code)
    outcomes = set()
    for _ in range(400):
        broken = bytearray(sound)
        for place in rng.integers(0, 352, rng.integers(1, 6)):
            broken[place] = rng.choice([0, 255, 127, 128, rng.integers(256)])
        path = tmp_path / "liver.nii"
        path.write_bytes(broken)
        try:
            outcomes.add(type(read_volume(path)))
        except InputFileError as error:
            assert error.hint
            outcomes.add(type(error))
        outcomes |= {type(found) for found in read_masks(files, volume)}
    assert len(outcomes) == 4


def test_no_more_is_inflated_than_the_header_promises(tmp_path, small):
    path = write(tmp_path / "ct.nii.gz", small)
    raw = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(raw + bytes(1 << 26)))
    with nifti.NiftiFile(path) as file:
        taken = sum(slab.nbytes for _, slab in file.slabs())
    assert taken == small.nbytes
    np.testing.assert_array_equal(read_volume(path).array_zyx, shown(small))


def test_a_missing_ct_file_and_a_case_without_ct(tmp_path):
    with pytest.raises(InputFileError, match="cannot be opened"):
        read_volume(tmp_path / "ct.nii.gz")
    with pytest.raises(NotFoundError, match="no CT"):
        read_case(CaseFiles("x", None))


# How a case fills ---------------------------------------------------------------------------


def test_the_ct_comes_first_then_what_matters_then_the_rest(phantom_case):
    steps = list(open_steps(find_case(phantom_case), first=("spleen", "liver")))
    assert not steps[0].masks and not steps[0].complete
    assert set(steps[1].masks) == {"spleen", "liver"} and not steps[1].complete
    assert len(steps[-1].masks) == 5 and steps[-1].complete
    assert [s.complete for s in steps].count(True) == 1


def test_a_case_without_masks_is_complete_at_once(tmp_path, small):
    write(tmp_path / "ct.nii.gz", small)
    steps = list(open_steps(find_case(tmp_path)))
    assert len(steps) == 1 and steps[0].complete and not steps[0].masks


def test_closing_stops_the_reading(phantom_case):
    steps = open_steps(find_case(phantom_case))
    next(steps)
    steps.close()
    for thread in threading.enumerate():
        if thread.name.startswith("case"):
            thread.join(timeout=10)
            assert not thread.is_alive()


def test_label_maps_hold_organs_and_lesions_with_the_smaller_on_top(phantom_case):
    organs = phantom_case / "segmentations"
    body = nib.load(organs / "liver.nii.gz")
    everything = np.ones(body.shape, np.uint8)
    nib.save(nib.Nifti1Image(everything, body.affine), organs / "aorta.nii.gz")
    case = list(open_steps(find_case(phantom_case)))[-1]
    assert set(case.label_maps) == {"organs", "lesions"}
    drawn = case.label_maps["organs"]
    assert drawn.array_zyx.dtype == np.uint8
    values = {name: value for value, name in drawn.structures.items()}
    assert set(values) == {"aorta", "liver", "spleen", "kidney_left", "kidney_right"}
    small = 0
    for name in ("liver", "spleen", "kidney_left", "kidney_right"):
        region = case.masks[name].region
        assert (drawn.array_zyx[region.box_zyx][region.crop_zyx] == values[name]).all()
        small += region.voxels
    assert (drawn.array_zyx == values["aorta"]).sum() == everything.size - small
    assert drawn.overlaps == {"aorta": small}
    lesion = case.masks["liver_lesion"].region
    assert (case.label_maps["lesions"].array_zyx != 0).sum() == lesion.voxels


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_overlaps_do_not_depend_on_who_came_first(phantom_case, order):
    from napari_ctvqa.io.label_maps import label_maps

    case = read_case(find_case(phantom_case))
    nested = [case.masks[n] for n in ("liver", "spleen", "kidney_left")]
    region = case.masks["liver"].region
    painted = label_maps([nested[i] for i in order], case.volume.display_grid)["organs"]
    value = next(v for v, n in painted.structures.items() if n == "liver")
    assert (painted.array_zyx == value).sum() == region.voxels


def test_more_than_255_masks_need_wider_labels(tmp_path, small):
    labels = np.zeros(small.shape, np.uint16)
    labels[0, 0, 0] = 300
    ct = write(tmp_path / "ct.nii.gz", small)
    path = write(tmp_path / "labels.nii.gz", labels)
    masks = tuple(MaskFile(f"thing {n}", path, n) for n in range(1, 301))
    case = list(open_steps(CaseFiles("x", ct, masks)))[-1]
    painted = case.label_maps["organs"]
    assert painted.array_zyx.dtype == np.uint16
    value = next(v for v, name in painted.structures.items() if name == "thing 300")
    assert (painted.array_zyx == value).sum() == 1
    assert case.masks["thing 7"].region.empty


def test_a_case_read_at_once_is_painted_only_when_asked(phantom_case):
    files = find_case(phantom_case)
    assert read_case(files).label_maps == {}
    painted = read_case(files, label_maps=True).label_maps
    grown = list(open_steps(files))[-1].label_maps
    assert set(painted) == {"organs", "lesions"}
    for group, label_map in painted.items():
        structures = dict(label_map.structures)
        assert set(structures.values()) == set(grown[group].structures.values())
        assert np.count_nonzero(label_map.array_zyx) == np.count_nonzero(grown[group].array_zyx)


def test_wanted_masks_alone_are_read(phantom_case):
    files = find_case(phantom_case)
    case = read_case(files, wanted=("liver", "left kidney"))
    assert set(case.masks) == {"liver", "kidney_left"}
    assert not case.complete
    volume = read_volume(files.ct)
    names = [m.structure for m in read_masks(files, volume, first=("spleen",))]
    assert names[0] == "spleen" and len(names) == 5


def test_masks_come_in_the_files_order_whatever_was_read_first(phantom_case):
    files = find_case(phantom_case)
    case = list(open_steps(files, first=("spleen",)))[-1]
    assert list(case.masks) == [mask.name for mask in files.masks]


@pytest.mark.real
@pytest.mark.parametrize("name", ["ts_example", "sts_018"])
def test_real_cases_read_as_nibabel_reads_them(real_data, name):
    case = read_case(find_case(real_data / name))
    image = nib.as_closest_canonical(nib.load(real_data / name / "ct.nii.gz"))
    expected = np.asarray(image.dataobj)[::-1, ::-1, ::-1].T
    np.testing.assert_array_equal(case.volume.array_zyx, expected)
    assert case.volume.array_zyx.dtype == np.int16
    assert case.report.level == "green"
    for mask in case.masks.values():
        labels = np.asarray(nib.as_closest_canonical(nib.load(mask.path)).dataobj)
        expected = labels[::-1, ::-1, ::-1].T != 0
        drawn = np.zeros(expected.shape, bool)
        if mask.region.box_zyx is not None:
            drawn[mask.region.box_zyx] = mask.region.crop_zyx
        np.testing.assert_array_equal(drawn, expected)
