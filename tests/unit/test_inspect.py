"""``inspect``: the JSON, the table, the exit codes; real values against other readers."""

import json

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.cli import main

KEYS = {"axcodes", "shape", "spacing_mm", "geometry", "warnings", "hu", "masks"}
MASK_KEYS = {"name", "voxels", "volume_cm3", "centroid_ras_mm", "mean_hu", "touches_border"}


def inspect(capsys, *arguments, code=0):
    """Run the command with --json and return its data."""
    assert main(["inspect", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def by_name(data):
    return {row["name"]: row for row in data["masks"]}


def test_the_keys_and_values_of_the_phantom(capsys, phantom_case, phantom):
    data = inspect(capsys, phantom_case)
    assert set(data) == KEYS
    assert data["axcodes"] == "LPS"
    assert data["shape"] == [24, 20, 12]
    assert data["spacing_mm"] == pytest.approx([3.0, 3.5, 5.0])
    assert (data["geometry"], data["warnings"]) == ("green", [])
    assert data["hu"] == {"min": -1000, "max": 300}
    rows = by_name(data)
    assert set(rows) == set(phantom.masks)
    for name, array in phantom.masks.items():
        row = rows[name]
        assert set(row) == MASK_KEYS
        assert row["voxels"] == array.sum()
        assert row["volume_cm3"] == pytest.approx(array.sum() * 52.5 / 1000)
        assert row["centroid_ras_mm"] == pytest.approx(phantom.centres_mm[name], abs=1e-3)
        assert row["mean_hu"] == pytest.approx(phantom.ct[array > 0].mean())
        assert row["touches_border"] is False


def test_shape_and_spacing_are_in_the_files_own_order(capsys, tmp_path):
    data = inspect(capsys, phantoms.save_case(tmp_path / "case", axcodes="SPL"))
    assert data["axcodes"] == "SPL"
    assert data["shape"] == [12, 20, 24]
    assert data["spacing_mm"] == pytest.approx([5.0, 3.5, 3.0])


def test_an_empty_mask_has_no_centroid_and_no_hu(capsys, phantom_case, phantom):
    empty = np.zeros_like(phantom.masks["liver"])
    phantoms.save(phantom_case / "segmentations" / "colon.nii.gz", empty, phantom.affine)
    row = by_name(inspect(capsys, phantom_case))["colon"]
    assert row == {
        "name": "colon",
        "voxels": 0,
        "volume_cm3": 0.0,
        "centroid_ras_mm": None,
        "mean_hu": None,
        "touches_border": False,
    }


def test_warnings_are_told_and_exit_is_0(capsys, phantom_case):
    phantoms.edit_header(phantom_case / "ct.nii.gz", qform_code=0, sform_code=0)
    data = inspect(capsys, phantom_case)
    assert data["geometry"] == "red"
    assert {"code", "level", "message"} == set(data["warnings"][0])
    assert data["warnings"][0]["code"] == "codes_zero"


def test_a_mask_on_another_grid_is_measured_on_its_own(capsys, tmp_path, phantom):
    folder = phantoms.save_case(tmp_path / "case")
    coarse = phantom.masks["liver"][::2, ::2, ::2]
    affine = phantom.affine.copy()
    affine[:3, :3] *= 2
    phantoms.save(folder / "segmentations" / "liver.nii.gz", coarse, affine, "PIR")
    data = inspect(capsys, folder)
    row = by_name(data)["liver"]
    assert [w["code"] for w in data["warnings"]] == ["mask_off_grid"]
    assert data["geometry"] == "amber"
    assert row["voxels"] == coarse.sum()
    assert row["volume_cm3"] == pytest.approx(coarse.sum() * 8 * 52.5 / 1000)
    index = np.argwhere(coarse).mean(axis=0)
    expected = affine[:3, :3] @ index + affine[:3, 3]
    assert row["centroid_ras_mm"] == pytest.approx(expected, abs=1e-3)
    same = phantom.masks["liver"].copy()
    same[1::2], same[:, 1::2], same[:, :, 1::2] = 0, 0, 0
    assert row["mean_hu"] == pytest.approx(phantom.ct[same > 0].mean(), abs=1e-3)


def test_masks_given_by_folder_and_by_file(capsys, tmp_path, phantom):
    ct = phantoms.save(tmp_path / "scan.nii.gz", phantom.ct, phantom.affine)
    masks = phantoms.save_case(tmp_path / "other") / "segmentations"
    assert set(by_name(inspect(capsys, ct, "--masks", masks))) == set(phantom.masks)
    labels = phantom.masks["liver"] * 3 + phantom.masks["spleen"] * 7
    path = phantoms.save(tmp_path / "all.nii.gz", labels, phantom.affine)
    table = tmp_path / "names.json"
    table.write_text('{"3": "liver", "spleen": 7}')
    rows = by_name(inspect(capsys, ct, "--masks", path, "--labels", table))
    assert {n: r["voxels"] for n, r in rows.items()} == {
        "liver": phantom.masks["liver"].sum(),
        "spleen": phantom.masks["spleen"].sum(),
    }


def test_an_unreadable_mask_fails_but_the_rest_is_reported(capsys, phantom_case):
    (phantom_case / "segmentations" / "colon.nii.gz").write_text("<html>")
    data = inspect(capsys, phantom_case, code=1)
    assert {"code", "message", "hint"} == set(data["error"])
    assert "colon.nii.gz" in data["error"]["message"]
    assert len(data["masks"]) == 5
    assert data["problems"][0]["name"] == "colon"


@pytest.mark.parametrize("path", ["absent", "ct.nii.gz"])
def test_an_unusable_case_is_an_error_as_json_and_as_one_line(capsys, tmp_path, path):
    if path == "ct.nii.gz":
        (tmp_path / path).write_text("no volume")
    data = inspect(capsys, tmp_path / path, code=1)
    assert set(data) == {"error"}
    assert str(tmp_path / path) in data["error"]["message"]
    assert data["error"]["hint"]
    assert main(["inspect", str(tmp_path / path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1


def test_the_table_names_units_warnings_and_what_is_empty(capsys, phantom_case, phantom):
    empty = np.zeros_like(phantom.masks["liver"])
    phantoms.save(phantom_case / "segmentations" / "colon.nii.gz", empty, phantom.affine)
    phantoms.edit_header(
        phantom_case / "ct.nii.gz", pixdim=[1, 2, 3.5, 5, 0, 0, 0, 0], qform_code=0
    )
    assert main(["inspect", str(phantom_case)]) == 0
    text = capsys.readouterr().out
    for words in ("mm", "cm³", "mean HU", "amber pixdim_affine_differ", "empty: none present"):
        assert words in text


def test_a_case_without_masks_says_unknown(capsys, tmp_path, phantom):
    ct = phantoms.save(tmp_path / "scan.nii.gz", phantom.ct, phantom.affine)
    assert main(["inspect", str(ct)]) == 0
    assert "no masks" in capsys.readouterr().out


def test_names_from_files_cannot_write_control_codes(capsys, phantom_case):
    source = phantom_case / "segmentations" / "liver.nii.gz"
    (source.parent / "a\x1b[31mb.nii.gz").write_bytes(source.read_bytes())
    assert main(["inspect", str(phantom_case)]) == 0
    assert "\x1b" not in capsys.readouterr().out


# Real input ---------------------------------------------------------------------------------


def with_nibabel(folder):
    """Measure in the file's own order, without any reorientation."""
    ct = nib.load(folder / "ct.nii.gz")
    hu = np.asarray(ct.dataobj)
    rows = {}
    for path in sorted((folder / "segmentations").iterdir()):
        image = nib.load(path)
        inside = np.asarray(image.dataobj) > 0.5
        index = np.argwhere(inside)
        ends = np.array(inside.shape) - 1
        rows[path.name.removesuffix(".nii.gz")] = {
            "voxels": len(index),
            "volume_cm3": len(index) * abs(np.linalg.det(image.affine[:3, :3])) / 1000,
            "centroid_ras_mm": image.affine[:3, :3] @ index.mean(axis=0) + image.affine[:3, 3],
            "mean_hu": hu[inside].mean(dtype=np.float64),
            "touches_border": bool(((index == 0) | (index == ends)).any()),
        }
    return ct, hu, rows


@pytest.mark.real
@pytest.mark.parametrize("name", ["ts_example", "sts_018"])
def test_real_values_agree_with_nibabel_in_file_order(capsys, real_data, name):
    ct, hu, expected = with_nibabel(real_data / name)
    data = inspect(capsys, real_data / name)
    assert data["axcodes"] == "".join(nib.aff2axcodes(ct.affine))
    assert tuple(data["shape"]) == ct.shape
    assert data["spacing_mm"] == pytest.approx(np.linalg.norm(ct.affine[:3, :3], axis=0))
    assert (data["geometry"], data["warnings"]) == ("green", [])
    assert (data["hu"]["min"], data["hu"]["max"]) == (hu.min(), hu.max())
    rows = by_name(data)
    assert set(rows) == set(expected)
    for mask, values in expected.items():
        row = rows[mask]
        assert row["voxels"] == values["voxels"]
        assert row["volume_cm3"] == pytest.approx(values["volume_cm3"], rel=1e-6)
        assert row["centroid_ras_mm"] == pytest.approx(values["centroid_ras_mm"], abs=1e-3)
        assert row["mean_hu"] == pytest.approx(values["mean_hu"], abs=1e-6)
        assert row["touches_border"] is values["touches_border"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["ts_example", "sts_018"])
def test_real_values_agree_with_simpleitk(capsys, real_data, name):
    sitk = pytest.importorskip("SimpleITK")
    folder = real_data / name
    ct = sitk.ReadImage(str(folder / "ct.nii.gz"))
    for mask, row in by_name(inspect(capsys, folder)).items():
        labels = sitk.ReadImage(str(folder / "segmentations" / f"{mask}.nii.gz"), sitk.sitkUInt8)
        shape, hu = sitk.LabelShapeStatisticsImageFilter(), sitk.LabelStatisticsImageFilter()
        shape.Execute(labels)
        hu.Execute(ct, labels)
        left, posterior, superior = shape.GetCentroid(1)
        assert row["voxels"] == shape.GetNumberOfPixels(1)
        assert row["volume_cm3"] == pytest.approx(shape.GetPhysicalSize(1) / 1000, rel=1e-5)
        assert row["centroid_ras_mm"] == pytest.approx([-left, -posterior, superior], abs=1e-2)
        assert row["mean_hu"] == pytest.approx(hu.GetMean(1), abs=1e-3)


@pytest.mark.real
def test_the_multi_label_file_gives_what_the_single_files_give(capsys, real_data):
    folder = real_data / "ts_example"
    single = by_name(inspect(capsys, folder))
    merged = by_name(
        inspect(
            capsys,
            folder,
            "--masks",
            folder / "labels.nii.gz",
            "--labels",
            folder / "labels.json",
        )
    )
    assert merged == single
