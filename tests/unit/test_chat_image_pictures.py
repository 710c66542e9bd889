"""Every preset's pictures against a second computation from the file itself, by nibabel and numpy.

Nothing here goes through the project's reader: the file's array is turned to RAS by nibabel, and a
radiological axial picture is ``vol[:, :, k].T[::-1, ::-1]``.
"""

import dataclasses
import json
import math

import nibabel as nib
import numpy as np
import phantoms
import pytest
from PIL import Image

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import AnswerFormat, Question, Reference
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models import _pictures

FAMILY = families()["chat-image"]
QUESTION = Question("q", "case", "Which side is the spleen on?", Reference("left"))
GREY = ((-150, 250),)
DARK_FAT = ((-40, 210),)
TRIPLE = ((-1024, 1024), (-135, 215), (0, 80))

# What each recipe says, typed here a second time: choice, most slices, square, windows, label first
EXPECTED = {
    "qwen3-vl": ("linspace", 32, None, GREY, True),
    "qwen3-vl-thinking": ("linspace", 32, None, GREY, True),
    "qwen2.5-vl": ("linspace", 32, 504, GREY, True),
    "qwen3.5": ("linspace", 32, None, GREY, True),
    "qwen3.5-thinking": ("linspace", 32, None, GREY, True),
    "medgemma-1.5": ("medgemma", 85, None, TRIPLE, False),
    "medgemma": ("centre", 1, None, GREY, None),
    "llava-onevision": ("linspace", 16, 384, GREY, True),
    "internvl": ("linspace", 32, 448, GREY, True),
    "lingshu": ("linspace", 32, None, TRIPLE, False),
    "lingshu-i": ("linspace", 32, 448, TRIPLE, False),
    "huatuogpt-vision": ("linspace", 6, 504, GREY, True),
    "meissa": ("linspace", 12, 448, GREY, True),
    "toy": ("medgemma", 8, 144, DARK_FAT, False),
}
FIELD_MM = {"toy": (200, 300)}
"""Presets that send the middle of a slice only, stretched to the square: height and width."""
CASES = ["phantom", pytest.param("ts_example", marks=pytest.mark.real)]


def prepared(case, name, **settings):
    preset = FAMILY.presets[name]
    return FAMILY.prepare(preset, QUESTION, case, AnswerFormat.FREEFORM, settings)


@pytest.fixture(scope="module")
def shown(request, tmp_path_factory):
    """(case as the project reads it, RAS array as nibabel reads it)."""
    if request.param == "phantom":
        folder = phantoms.save_case(tmp_path_factory.mktemp("p") / "case", axcodes="PIL")
    else:
        folder = request.getfixturevalue("real_data") / request.param
    image = nib.as_closest_canonical(nib.load(folder / "ct.nii.gz"))
    assert nib.aff2axcodes(image.affine) == ("R", "A", "S")
    return read_case(find_case(folder)), np.asarray(image.dataobj)


def independent_slices(count, choice, most):
    """RAS k of each picture, superior first."""
    if count <= most:
        from_top = list(range(count))
    elif choice == "linspace":
        from_top = [round(i * (count - 1) / (most - 1)) for i in range(most)]
    elif choice == "medgemma":
        from_top = [round(i / most * (count - 1)) for i in range(1, most + 1)]
    else:
        from_top = [count // 2]
    return [count - 1 - at for at in from_top]


def independent_picture(vol, k, windows, square=None, field=None):
    """uint8 (rows, columns, 3), one voxel after the other's formula, without our code.

    ``field`` is the number of rows and columns about the middle that are stretched to the square.
    """
    hu = vol[:, :, k].T[::-1, ::-1].astype(np.float64)
    channels = []
    for low, high in windows * (3 // len(windows)):
        grey = (np.minimum(np.maximum(hu, low), high) - low) * 255.0 / (high - low)
        channels.append(np.rint(grey))
    picture = np.stack(channels, -1).astype(np.uint8)
    if square is None:
        return picture
    if field is not None:
        top, left = ((n - m) // 2 for n, m in zip(picture.shape, field, strict=False))
        picture = picture[top : top + field[0], left : left + field[1]]
    rows, columns = picture.shape[:2]
    scale = square / max(rows, columns)
    size = (round(rows * scale), round(columns * scale)) if field is None else (square, square)
    resized = np.stack([bilinear(picture[..., c].astype(float), size) for c in range(3)], -1)
    whole = np.zeros((square, square, 3))
    top, left = (square - size[0]) // 2, (square - size[1]) // 2
    whole[top : top + size[0], left : left + size[1]] = resized
    return whole


def bilinear(grey, size):
    """Pixel r of n weighs voxels by a triangle about (r + 1/2) N / n, wider where it shrinks."""
    for axis, n in enumerate(size):
        old = grey.shape[axis]
        wide = max(1.0, old / n)
        centre = (np.arange(n)[:, None] + 0.5) * old / n
        weight = np.maximum(0, 1 - np.abs(np.arange(old) + 0.5 - centre) / wide)
        weight /= weight.sum(1, keepdims=True)
        grey = weight @ grey if axis == 0 else grey @ weight.T
    return grey


def field_of(case, name):
    """Rows and columns of the middle that a preset sends, by the file's own voxel sizes."""
    if name not in FIELD_MM:
        return None
    image = nib.as_closest_canonical(nib.load(case.volume.path))
    return tuple(
        min(image.shape[axis], round(mm / float(image.header.get_zooms()[axis])))
        for axis, mm in zip((1, 0), FIELD_MM[name], strict=True)
    )


def within_rounding(pixels, expected, resized):
    worst = np.abs(pixels.astype(float) - expected).max()
    return worst <= (1.01 if resized else 0)


@pytest.mark.parametrize("shown", CASES, indirect=True)
@pytest.mark.parametrize("name", EXPECTED)
def test_pictures_are_those_of_the_second_computation(shown, name):
    case, vol = shown
    choice, most, square, windows, label_first = EXPECTED[name]
    ready = prepared(case, name)
    pictures = ready.ask.pictures
    ks = independent_slices(vol.shape[2], choice, most)
    assert len(pictures) == len(ks) <= most
    for number, (picture, k) in enumerate(zip(pictures, ks, strict=True), start=1):
        expected = independent_picture(vol, k, windows, square, field_of(case, name))
        assert picture.pixels.dtype == np.uint8
        assert picture.pixels.shape == expected.shape
        assert within_rounding(picture.pixels, expected, square)
        assert picture.windows == windows
        assert picture.label == ("" if label_first is None else f"SLICE {number}")
    check_order_of_parts(ready, label_first)
    check_recipe(ready, case, ks)


def check_order_of_parts(ready, label_first):
    (user,) = ready.ask.messages
    assert user.role == "user"
    parts = list(user.parts)
    for at, part in enumerate(parts):
        if not isinstance(part, str) and label_first is not None:
            assert parts[at - 1 if label_first else at + 1] == part.label
    assert isinstance(parts[-1], str) and QUESTION.text in parts[-1], "the question is last"
    json.dumps(dict(ready.recipe))


def check_recipe(ready, case, ks):
    rows = ready.recipe["slices"]
    assert [row["ras_slice"] for row in rows] == ks
    for row, picture in zip(rows, ready.ask.pictures, strict=True):
        z, _, _ = picture.index_zyx(0, 0)
        assert row["display_slice"] == z == row["shown"] - 1
        axis = "ijk".index(row["file_axis"])
        assert case.volume.grid.file_index_ijk([z, 0, 0])[axis] == row["file_slice"]
    assert ready.recipe["rows_to"] == "P" and ready.recipe["columns_to"] == "L"


@pytest.mark.parametrize("shown", CASES, indirect=True)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("left and right exchanged", lambda vol, k: vol[:, :, k].T[::-1, :]),
        ("anterior below", lambda vol, k: vol[:, :, k].T[:, ::-1]),
        ("rows and columns exchanged", lambda vol, k: vol[:, :, k][::-1, ::-1]),
        ("from the feet", lambda vol, k: vol[:, :, -1 - k].T[::-1, ::-1]),
        ("another axis", lambda vol, k: vol[:, k, :].T[::-1, ::-1]),
    ],
)
def test_a_turned_volume_is_caught(shown, name, wrong):
    """The second computation with one fault each differs from what is sent."""
    case, vol = shown
    k = vol.shape[2] // 3
    (picture,) = prepared(case, "qwen3-vl", slices=[vol.shape[2] - 1 - k]).ask.pictures
    assert within_rounding(picture.pixels, independent_picture(vol, k, GREY), False)
    hu = wrong(vol, k)
    turned = independent_picture(hu.T[::-1, ::-1][:, :, None], 0, GREY)
    assert turned.shape != picture.pixels.shape or not np.array_equal(turned, picture.pixels), name


@pytest.mark.parametrize(
    "fault",
    [lambda hu: hu[:, ::-1], lambda hu: hu[::-1], lambda hu: hu[::-1, ::-1]],
    ids=["left and right", "anterior and posterior", "both"],
)
def test_a_flip_in_the_preprocessing_is_caught(phantom_case, monkeypatch, fault):
    case = read_case(find_case(phantom_case))
    vol = np.asarray(nib.as_closest_canonical(nib.load(phantom_case / "ct.nii.gz")).dataobj)
    cut = _pictures.hu_slice
    monkeypatch.setattr(_pictures, "hu_slice", lambda *where: fault(cut(*where)))
    pictures = prepared(case, "medgemma-1.5").ask.pictures
    ks = independent_slices(vol.shape[2], "medgemma", 85)
    same = [
        np.array_equal(picture.pixels, independent_picture(vol, k, TRIPLE))
        for picture, k in zip(pictures, ks, strict=True)
    ]
    assert not all(same)


@pytest.mark.parametrize("axcodes", phantoms.ALL_ORDERS)
def test_the_file_s_axis_order_does_not_matter(tmp_path, phantom_case, axcodes):
    plain = prepared(read_case(find_case(phantom_case)), "lingshu").ask.pictures
    folder = phantoms.save_case(tmp_path / "turned", axcodes=axcodes)
    turned = prepared(read_case(find_case(folder)), "lingshu").ask.pictures
    for one, other in zip(plain, turned, strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)


def test_the_patient_s_left_is_on_the_right_of_the_picture(phantom_case):
    """The spleen (50 HU) is on the patient's left, the liver (60 HU) on the right."""
    case = read_case(find_case(phantom_case))
    spleen, liver = (case.masks[name].region.box_zyx for name in ("spleen", "liver"))
    index = (spleen[0].start + spleen[0].stop) // 2
    settings = {"slices": [index], "windows_hu": [[45, 55]]}
    (picture,) = prepared(case, "qwen3-vl", **settings).ask.pictures
    rows, columns = np.nonzero(picture.pixels[..., 0] == 128)
    assert columns.min() > picture.pixels.shape[1] / 2 > liver[2].stop - 1
    assert (rows.min(), rows.max() + 1) == (spleen[1].start, spleen[1].stop)


@pytest.mark.parametrize("plane", ["axial", "coronal", "sagittal"])
@pytest.mark.parametrize("size_px", [None, 64, 100, 37])
@pytest.mark.parametrize("fit", ["pad", "stretch"])
def test_a_pixel_leads_back_to_its_voxel(phantom_case, plane, size_px, fit):
    """A gradient along each axis, drawn by the same resize, reads as its own index."""
    case = read_case(find_case(phantom_case))
    fed = {"plane": plane, "size_px": size_px, "fit": fit, "slices": [5]}
    (picture,) = prepared(case, "qwen3-vl", **fed).ask.pictures
    frame = _pictures.frame_of(
        case.volume.display_grid,
        _feeding(fed),
    )
    across = [axis for axis in range(3) if axis != frame.axis]
    (top, left), (height, width) = frame.at_px, frame.inner_px
    assert picture.pixels.shape[:2] == frame.outer_px
    rows, columns = np.mgrid[top : top + height, left : left + width]
    index = picture.index_zyx(rows, columns)
    assert np.all(index[..., frame.axis] == 5)
    for place, axis in enumerate(across):
        ramp = np.arange(frame.voxels[place], dtype=np.float32)
        ramp = ramp[:, None] if place == 0 else ramp[None, :]
        ramp = np.ascontiguousarray(np.broadcast_to(ramp, frame.voxels))
        image = Image.fromarray(ramp).resize((width, height), Image.Resampling.BILINEAR)
        inner = np.clip(index[..., axis], 0, frame.voxels[place] - 1)
        step = max(1.0, frame.voxels[place] / (height, width)[place])
        middle = (inner > step) & (inner < frame.voxels[place] - 1 - step)
        assert middle.any()
        np.testing.assert_allclose(np.asarray(image)[middle], inner[middle], atol=1e-4)


@pytest.mark.parametrize("plane", ["axial", "coronal", "sagittal"])
def test_a_field_is_the_middle_of_the_slice_and_leads_back_to_its_voxels(phantom_case, plane):
    case = read_case(find_case(phantom_case))
    grid = case.volume.display_grid
    fed = {"plane": plane, "size_px": 48, "fit": "field", "field_mm": [24, 18], "slices": [5]}
    (picture,) = prepared(case, "qwen3-vl", **fed).ask.pictures
    across = [axis for axis in range(3) if axis != ("axial", "coronal", "sagittal").index(plane)]
    corners = picture.index_zyx(np.array([-0.5, 47.5]), np.array([-0.5, 47.5]))
    for axis, mm in zip(across, (24, 18), strict=True):
        count = min(grid.shape_zyx[axis], round(mm / grid.spacing_mm_zyx[axis]))
        first = (grid.shape_zyx[axis] - count) // 2
        np.testing.assert_allclose(corners[:, axis], [first - 0.5, first + count - 0.5])
    whole = _pictures.hu_slice(case.volume, ("axial", "coronal", "sagittal").index(plane), 5)
    rows, columns = (slice(int(low + 0.5), int(high + 0.5)) for low, high in corners[:, across].T)
    image = Image.fromarray(_pictures.windowed(np.ascontiguousarray(whole[rows, columns]), GREY))
    expected = np.asarray(image.resize((48, 48), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(picture.pixels, expected)


@pytest.mark.parametrize("wrong", [[24], "24", [0, 10], [24, "x"]])
def test_a_field_that_is_no_height_and_width_is_refused(phantom_case, wrong):
    case = read_case(find_case(phantom_case))
    with pytest.raises(CtvqaError, match="field_mm"):
        prepared(case, "toy", field_mm=wrong)


def _feeding(settings):
    from napari_ctvqa.models._settings import feeding

    return feeding(FAMILY.presets["qwen3-vl"], settings)


def test_a_bright_voxel_is_found_again_through_resize_and_pad(tmp_path):
    phantom = phantoms.phantom()
    phantom.ct[15, 6, 4] = 1000
    case = read_case(find_case(phantoms.save_case(tmp_path / "case", phantom)))
    world = phantom.affine @ [15, 6, 4, 1]
    in_file = np.linalg.inv(nib.load(case.volume.path).affine) @ world
    z, y, x = case.volume.grid.display_index_zyx(in_file[:3])
    settings = {"slices": [int(z)], "size_px": 200, "windows_hu": [[500, 1000]]}
    (picture,) = prepared(case, "qwen3-vl", **settings).ask.pictures
    grey = picture.pixels[..., 0].astype(float)
    rows, columns = np.mgrid[: grey.shape[0], : grey.shape[1]]
    centre = [(grey * rows).sum() / grey.sum(), (grey * columns).sum() / grey.sum()]
    np.testing.assert_allclose(picture.index_zyx(*centre), [z, y, x], atol=0.05)


def test_a_slice_is_taken_without_copying_the_volume(phantom_case):
    """A view of a file in any order is no contiguous array; ``np.take`` would copy all of it."""
    volume = read_case(find_case(phantom_case)).volume
    views = []

    class Watched(np.ndarray):
        def __getitem__(self, at):
            views.append(at)
            return np.asarray(self)[at]

    watched = dataclasses.replace(volume, display_zyx=volume.display_zyx.view(Watched))
    for axis in range(3):
        shape = tuple(n for a, n in enumerate(volume.display_zyx.shape) if a != axis)
        assert _pictures.hu_slice(watched, axis, 4).shape == shape
    assert [at.index(4) for at in views] == [0, 1, 2]


def test_no_preset_is_left_out():
    assert set(EXPECTED) == set(FAMILY.presets)


def test_medgemma_takes_85_of_a_long_scan_as_its_notebook_does():
    for count in (86, 112, 170, 171, 512, 1203):
        expected = [round(i / 85 * (count - 1)) for i in range(1, 86)]
        assert list(_pictures.chosen_slices(count, "medgemma", 85)) == expected
        assert expected[-1] == count - 1 and expected[0] > 0
    assert _pictures.chosen_slices(85, "medgemma", 85) == tuple(range(85))


@pytest.mark.parametrize("choice", ["linspace", "medgemma", "centre", "all"])
@pytest.mark.parametrize("count", [1, 2, 5, 31, 32, 33, 300])
@pytest.mark.parametrize("most", [1, 2, 32])
def test_slices_are_in_range_ascending_and_no_more_than_asked(choice, count, most):
    chosen = _pictures.chosen_slices(count, choice, most)
    assert chosen and list(chosen) == sorted(set(chosen))
    assert chosen[0] >= 0 and chosen[-1] < count
    if choice == "all":
        assert len(chosen) == count
    else:
        assert len(chosen) == min(count, most)


@pytest.mark.parametrize("windows", [GREY, TRIPLE, ((-1000, 1000),), ((0.5, 80.25),)])
def test_every_int16_and_its_float_get_the_same_grey(windows):
    hu = np.arange(-32768, 32768, dtype=np.int16).reshape(256, 256)
    by_table = _pictures.windowed(hu, windows)
    np.testing.assert_array_equal(by_table, _pictures.windowed(hu.astype(np.float32), windows))
    exact = independent_picture(hu.T[::-1, ::-1][:, :, None], 0, windows)
    differing = np.abs(by_table.astype(int) - exact.astype(int))
    assert differing.max() <= 1 and np.count_nonzero(differing) < 20, "ties of float32 only"


def test_values_that_are_no_numbers_are_air():
    hu = np.array([[np.nan, np.inf, -np.inf, 50.0]], np.float32)
    assert _pictures.windowed(hu, GREY)[0, :, 0].tolist() == [0, 255, 0, 128]


def test_stretched_planes_have_square_pixels(phantom_case):
    case = read_case(find_case(phantom_case))
    z, y, x = case.volume.grid.shape_zyx
    z_mm, y_mm, x_mm = case.volume.grid.spacing_mm_zyx
    (coronal,) = prepared(case, "qwen3-vl", plane="coronal", slices=[3]).ask.pictures
    assert coronal.pixels.shape == (round(z * z_mm / x_mm), x, 3)
    (sagittal,) = prepared(case, "qwen3-vl", plane="sagittal", slices=[3]).ask.pictures
    assert sagittal.pixels.shape == (round(z * z_mm / y_mm), y, 3)
    assert math.isclose(y_mm / x_mm, 3.5 / 3)


def test_a_sheared_ct_is_sent_as_it_is_drawn_and_says_so(tmp_path):
    phantom = phantoms.phantom()
    affine = phantom.affine.copy()
    affine[1, 2] = 2.0  # a tilted gantry: slices shift to the front by 2 mm each
    image = nib.Nifti1Image(phantom.ct, affine)
    image.set_sform(affine, 1)
    (tmp_path / "case").mkdir()
    nib.save(image, tmp_path / "case" / "ct.nii.gz")
    case = read_case(find_case(tmp_path / "case"))
    assert case.volume.display_grid is not case.volume.grid
    ready = prepared(case, "qwen3-vl", slices=[3])
    (picture,) = ready.ask.pictures
    expected = independent_picture(
        np.asarray(case.volume.display_zyx)[3].T[:, :, None][::-1, ::-1], 0, GREY
    )
    np.testing.assert_array_equal(picture.pixels, expected)
    assert ready.recipe["slices"][0]["file_slice"] is None
    assert any("sheared" in note for note in ready.notes)
