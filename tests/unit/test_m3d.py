"""M3D-LaMed: what it is fed with equals a second computation, and what it says comes back."""

import json

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.errors import CtvqaError, GeometryError
from napari_ctvqa.core.model_volumes import box_zyx, region_of_mask, slice_pictures
from napari_ctvqa.core.records import AnswerFormat, Option, Question, Reference
from napari_ctvqa.core.volume_grounding import box_text, volume_boxes
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

from volume_recipes import boxed, by_itk, resized, to_one, turned  # isort: skip

FAMILY = families()["m3d"]
PRESET = FAMILY.presets["m3d-phi3"]
QUESTION = Question("q", "case", "Which side is the spleen on?", Reference("left"))
CASES = ["phantom", pytest.param("ts_example", marks=pytest.mark.real)]
SHAPE = (32, 256, 256)


def prepared(case, question=QUESTION, answer_format=AnswerFormat.FREEFORM, **settings):
    return FAMILY.prepare(PRESET, question, case, answer_format, settings)


def case_at(folder):
    return read_case(find_case(folder))


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    if request.param == "phantom":
        return case_at(phantoms.save_case(tmp_path_factory.mktemp("p") / "case", axcodes="PIL"))
    return case_at(request.getfixturevalue("real_data") / request.param)


def clipped_to_foreground(array):
    above = array[array > array.mean()]
    return np.clip(array, *np.percentile(above, (0.05, 99.95)))


def expected(path, recipe):
    if recipe == "ct-spatialvqa":
        return to_one(by_itk(path, SHAPE, -1024))
    array, _, _ = turned(path, "SPL")
    if recipe == "m3d-window":
        array = np.clip(array, -150, 250)
    elif recipe == "m3d-seg":
        array = clipped_to_foreground(array)
    part, _ = boxed(to_one(array))
    return resized(part, SHAPE)


@pytest.mark.parametrize("recipe", ["m3d", "m3d-window", "m3d-seg", "ct-spatialvqa"])
def test_the_volume_is_that_of_the_second_computation(case, recipe):
    ready = prepared(case, recipe=recipe)
    volume = ready.ask.volume
    assert volume.tensor_shape == (1, 1, 32, 256, 256) and volume.values.dtype == np.float32
    off = np.abs(volume.values - expected(case.volume.path, recipe))
    # ITK cuts fractions off: where ours is a whole number to the last bit, it may be one HU away.
    assert np.count_nonzero(off > 2e-5) <= (2e-5 if recipe == "ct-spatialvqa" else 0) * off.size
    assert off.max() <= 1.01 / (volume.window_hu[1] - volume.window_hu[0])
    assert 0 <= volume.values.min() < 0.05 and 0.9 < volume.values.max() <= 1 + 1e-6
    assert ready.recipe["recipe"] == recipe
    for axis, (_, last) in enumerate(volume.inner):
        around = np.moveaxis(volume.values, axis, 0)[last:]
        np.testing.assert_allclose(around, volume.fill, rtol=0, atol=1e-6)
    json.dumps(dict(ready.recipe))


def test_itk_cuts_no_fractions_off_where_the_file_has_an_intercept(tmp_path):
    """And what it puts around, -1024 HU, is not the lowest value here."""
    shown = phantoms.phantom()
    stored = np.where(shown.ct == -1000, -2048, shown.ct) + 1024
    lower = phantoms.Phantom(stored.astype(np.int16), {}, shown.affine)
    folder = phantoms.save_case(tmp_path / "c", lower)
    phantoms.edit_header(folder / "ct.nii.gz", scl_slope=1, scl_inter=-1024)
    case = case_at(folder)
    volume = prepared(case, recipe="ct-spatialvqa").ask.volume
    np.testing.assert_allclose(
        volume.values, expected(case.volume.path, "ct-spatialvqa"), rtol=0, atol=2e-5
    )
    (_, last), size = volume.inner[2], volume.shape[2]
    assert last < size and (np.abs(volume.values[..., last:] - volume.fill) < 1e-6).all()
    assert volume.fill > 0.4


@pytest.mark.parametrize(
    "wrong",
    [
        lambda array: array[::-1],
        lambda array: array[:, ::-1],
        lambda array: array[:, :, ::-1],
        lambda array: array.transpose(0, 2, 1),
        lambda array: array.transpose(2, 1, 0),
    ],
    ids=["from the head", "anterior last", "left first", "rows for columns", "x for z"],
)
def test_a_turned_volume_is_caught(case, wrong):
    """The second computation with one fault differs from what is sent."""
    array, _, _ = turned(case.volume.path, "SPL")
    part, _ = boxed(to_one(wrong(array)))
    values = prepared(case).ask.volume.values
    assert np.abs(values - resized(part, SHAPE)).max() > 0.02, (
        "a thousand times the tolerance above"
    )


def test_the_file_s_axis_order_does_not_matter(tmp_path, phantom_case):
    plain = prepared(case_at(phantom_case)).ask.volume
    for axcodes in ("RAS", "SRP", "ILA"):
        folder = phantoms.save_case(tmp_path / axcodes, axcodes=axcodes)
        other = prepared(case_at(folder)).ask.volume
        np.testing.assert_array_equal(other.values, plain.values)
        np.testing.assert_array_equal(other.index_from_voxel, plain.index_from_voxel)


def test_a_voxel_of_the_model_lies_where_the_second_computation_took_it(case):
    """RAS mm of model voxels: by our map and by nibabel's affine of the cut, resized array."""
    volume = prepared(case).ask.volume
    array, _, affine = turned(case.volume.path, "SPL")
    part, begins = boxed(array)
    rng = np.random.default_rng(1)
    voxels = rng.integers(0, SHAPE, (50, 3))
    at = (voxels + 0.5) * np.array(part.shape) / SHAPE - 0.5 + begins
    world = at @ affine[:3, :3].T + affine[:3, 3]
    np.testing.assert_allclose(volume.ras_mm(voxels, case.volume.display_grid), world, atol=1e-3)
    np.testing.assert_allclose(volume.voxel(volume.index_zyx(voxels)), voxels, atol=1e-6)


def test_the_words_are_the_image_tokens_and_the_question(phantom_case):
    case = case_at(phantom_case)
    (message,) = prepared(case).ask.messages
    assert message.role == "user"
    assert message.text == "<im_patch>" * 256 + QUESTION.text
    (trained,) = prepared(case, prompt="trained").ask.messages
    assert trained.text == "<im_patch>" * 256 + " " + QUESTION.text
    closed = Question("q", "case", "Side?", Reference("L", "A"),
                      (Option("A", "left"), Option("B", "<im_patch>")))  # fmt: skip
    (asked,) = prepared(case, closed, AnswerFormat.MC).ask.messages
    assert asked.text.endswith("Side? Choices: A. left B. ‹im_patch›")
    assert asked.text.count("<im_patch>") == 256, "an option is no image"
    assert prepared(case).ask.processor == {"seg_enable": False}
    assert prepared(case, segment=True).ask.processor == {"seg_enable": True}


@pytest.mark.parametrize(
    "settings", [{"recipe": "merlin"}, {"segment": 1}, {"prompt": None, "window": 3}, {"top_p": 2}]
)
def test_a_wrong_setting_is_named(phantom_case, settings):
    with pytest.raises(CtvqaError, match=next(reversed(settings))):
        prepared(case_at(phantom_case), **settings)


def test_a_case_without_sides_is_refused(phantom_case):
    phantoms.edit_header(phantom_case / "ct.nii.gz", qform_code=0, sform_code=0)
    with pytest.raises(GeometryError, match="sides"):
        prepared(case_at(phantom_case))


def test_a_scrap_is_refused(tmp_path):
    shown = phantoms.phantom()
    scrap = phantoms.Phantom(shown.ct[..., :3], {}, shown.affine)
    with pytest.raises(GeometryError, match="at least 4"):
        prepared(case_at(phantoms.save_case(tmp_path / "c", scrap)))


def test_missing_hu_scaling_is_refused_by_the_window_and_told_by_the_range(tmp_path):
    shown = phantoms.phantom()
    lost = phantoms.Phantom((shown.ct + 1024).astype(np.int16), {}, shown.affine)
    case = case_at(phantoms.save_case(tmp_path / "c", lost))
    with pytest.raises(CtvqaError, match="Hounsfield"):
        prepared(case, recipe="m3d-window")
    assert any("intercept lost" in note for note in prepared(case).notes)


# ------------------------------------------------------------------------------------ the way back


@pytest.fixture
def organ(case):
    return case.masks["spleen" if "spleen" in case.masks else "liver"].region


def in_model_voxels(case, region, volume):
    """A region painted in model voxels through world coordinates, by nibabel's affine."""
    array, _, affine = turned(case.volume.path, "SPL")
    part, begins = boxed(array)
    mask = np.zeros(case.volume.display_zyx.shape, bool)
    mask[region.box_zyx] = region.crop_zyx
    at = [
        (np.arange(n) + 0.5) * size / n - 0.5 + b
        for n, size, b in zip(SHAPE, part.shape, begins, strict=True)
    ]
    points = np.stack(np.meshgrid(*at, indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    grid = case.volume.display_grid
    index = np.rint(grid.index_zyx(points)).astype(int)
    return mask[tuple(np.moveaxis(index, -1, 0))]


def test_a_mask_comes_back_within_one_model_voxel(case, organ):
    volume = prepared(case).ask.volume
    painted = in_model_voxels(case, organ, volume)
    assert painted.any()
    back = region_of_mask(volume, painted, case.volume.display_grid)
    per_voxel = np.abs(volume.index_from_voxel[:3, :3]).sum(axis=1)  # of a model voxel, z y x
    for axis in range(3):
        ours, theirs = back.box_zyx[axis], organ.box_zyx[axis]
        assert abs(ours.start - theirs.start) <= max(1, per_voxel[axis])
        assert abs(ours.stop - theirs.stop) <= max(1, per_voxel[axis])
    both = np.zeros((2, *case.volume.display_zyx.shape), bool)
    for whole, region in zip(both, (back, organ), strict=True):
        whole[region.box_zyx] = region.crop_zyx
    assert 2 * (both[0] & both[1]).sum() / both.sum() > 0.9


def test_a_box_comes_back_within_one_model_voxel(case, organ):
    volume = prepared(case).ask.volume
    painted = np.argwhere(in_model_voxels(case, organ, volume))
    written = f"The spleen is {box_text(painted.min(0), painted.max(0), SHAPE)}."
    found = volume_boxes(written, volume, case.volume.display_grid)
    (box,) = found.placed
    per_voxel = np.abs(volume.index_from_voxel[:3, :3]).sum(axis=1)
    low = np.array([part.start for part in organ.box_zyx]) - 0.5
    high = np.array([part.stop for part in organ.box_zyx]) - 0.5
    assert (np.abs(np.array(box.low_zyx) - low) <= per_voxel + 1e-6).all()
    assert (np.abs(np.array(box.high_zyx) - high) <= per_voxel + 1e-6).all()
    assert not found.unplaced


ODD = {  # shape in the file's order, spacing in mm, axes
    "few thick slices": ((60, 64, 7), (0.7, 0.7, 5.0), "LPS"),
    "slices first": ((7, 40, 48), (6.0, 1.1, 0.9), "ILA"),
    "oblique": ((30, 44, 20), (2.0, 1.3, 4.0), "LPS"),
}


def odd_cases(folder, name):
    """CTs whose values are the patient's x, y and z (-900 to 900), by the affine alone."""
    shape, mm, axes = ODD[name]
    affine = np.eye(4)
    affine[:3, :3] = 0
    for axis, letter in enumerate(axes):
        affine["RLAPSI".index(letter) // 2, axis] = mm[axis] * (1 if letter in "RAS" else -1)
    if name == "oblique":
        turn = np.deg2rad(25)
        about_z = [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
        affine[:3, :3] = about_z @ affine[:3, :3]
    affine[:3, 3] = (-80.5, 31.25, -420.0)
    where = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)
    for axis in range(3):
        world = where @ affine[axis, :3] + affine[axis, 3]
        low, high = world.min(), world.max()
        ct = (-900 + 1800 * (world - low) / (high - low)).astype(np.float32)
        ct[0, 0, 0] = -1000  # nothing is cut off as background
        (folder / str(axis)).mkdir()
        nib.save(nib.Nifti1Image(ct, affine), folder / str(axis) / "ct.nii.gz")
        yield case_at(folder / str(axis)), axis, (low, high)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("family", ["m3d", "merlin", "radfm"])
def test_a_model_voxel_lies_where_its_value_says(tmp_path, family, name):
    """And a mask of that voxel alone comes back there, however small it is in the CT's voxels."""
    found = families()[family]
    preset = next(iter(found.presets.values()))
    to_hu = {"m3d": (1900, -1000), "merlin": (2000, -1000), "radfm": (1900, -1000)}[family]
    for case, axis, (start, end) in odd_cases(tmp_path, name):
        ready = found.prepare(preset, QUESTION, case, AnswerFormat.FREEFORM, {})
        volume, grid = ready.ask.volume, case.volume.display_grid
        low, high = np.array(volume.inner).T
        voxels = np.random.default_rng(4).integers(low, high, (500, 3))
        index = volume.index_zyx(voxels)
        away = (index > 1.5) & (index < np.array(grid.shape_zyx) - 2.5)
        voxels, index = voxels[away.all(axis=1)], index[away.all(axis=1)]
        hu = volume.values[tuple(voxels.T)] * to_hu[0] + to_hu[1]
        truth = start + (hu + 900) / 1800 * (end - start)
        voxel_mm = np.ptp(volume.ras_mm([[0, 0, 0], [1, 1, 1]], grid)[:, axis])
        most = voxel_mm if family == "radfm" else 0.01  # it picks slices, and is that far off
        assert len(voxels) and np.abs(volume.ras_mm(voxels, grid)[:, axis] - truth).max() <= most
    reach = np.maximum(np.abs(volume.index_from_voxel[:3, :3]).sum(axis=1), 1.0)
    for voxel, at in zip(voxels[:5], index[:5], strict=True):
        mask = np.zeros(volume.shape, bool)
        mask[tuple(voxel)] = True
        region = region_of_mask(volume, mask, grid)
        assert not region.empty
        ends = np.array([[part.start, part.stop - 1] for part in region.box_zyx]).T
        assert (np.abs(ends - at) <= reach).all()
        low_zyx, high_zyx = box_zyx(volume, voxel - 0.5, voxel + 0.5, grid)
        np.testing.assert_allclose((np.array(low_zyx) + high_zyx) / 2, at, atol=1e-6)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("[12, 30, 40, 20, 90, 80]", "0 to 1"),
        ("[0.5, 0.5, 0.5, 0.4, 0.6, 0.6]", "before"),
        ("[0.1, -0.1, 0.1, 0.4, 0.6, 0.6]", "0 to 1"),
    ],
)
def test_a_box_that_is_none_is_told(phantom_case, written, why):
    case = case_at(phantom_case)
    found = volume_boxes(written, prepared(case).ask.volume, case.volume.display_grid)
    assert not found.placed and why in found.unplaced[0].why


def test_text_that_holds_no_box_gives_none(phantom_case):
    case = case_at(phantom_case)
    for text in ("[0.1, 0.2]", "[1,2,3,4,5,6,7]", "[a]", "[" * 10_000, ""):
        found = volume_boxes(text, prepared(case).ask.volume, case.volume.display_grid)
        assert not found.placed and not found.unplaced


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (" No.</s>", "No."),
        ("It is [SEG].<|end|>", "It is ."),
        ("<bx_start>[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]<bx_end>", "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]"),
        ("", ""),
    ],
)
def test_an_answer_is_read_without_marks(text, read):
    assert FAMILY.read(PRESET, text, "p") == read


def test_slices_can_be_looked_at_in_place(case):
    volume = prepared(case).ask.volume
    pictures = slice_pictures(volume)
    assert len(pictures) == 32
    for number, picture in enumerate(pictures):
        np.testing.assert_allclose(
            picture.index_zyx(10, 200), volume.index_zyx([number, 10, 200]), atol=1e-9
        )
        grey = picture.pixels[10, 200, 0] / 255
        assert abs(grey - volume.values[number, 10, 200]) < 0.51 / 255 + 1e-6


def test_a_reader_is_told_what_was_made_of_the_ct_and_what_of_sides_is_worth(phantom_case):
    grid, *_, sides = prepared(case_at(phantom_case)).notes
    assert "32 x 256 x 256 voxels" in grid and "axes to SPL" in grid
    assert "left and right is not to be relied on" in sides


def test_many_questions_about_a_case_share_one_volume(phantom_case):
    case = case_at(phantom_case)
    first = prepared(case).ask.volume
    assert prepared(case, prompt="trained").ask.volume is first
    assert prepared(case, recipe="m3d-seg").ask.volume is not first
    assert not first.values.flags.writeable


def test_a_float_ct_and_one_of_a_single_value(tmp_path):
    shown = phantoms.phantom()
    folder = phantoms.save_case(tmp_path / "c", shown)
    nib.save(nib.Nifti1Image(np.full(shown.ct.shape, -1000, np.float32), shown.affine),
             folder / "ct.nii.gz")  # fmt: skip
    values = prepared(case_at(folder)).ask.volume.values
    assert np.isfinite(values).all() and (values == 0).all()


def test_the_percentiles_of_a_ct_may_be_one_value(tmp_path):
    shown = phantoms.phantom()
    folder = phantoms.save_case(tmp_path / "c", shown)
    two = np.where(shown.ct > -1000, 40, -1000).astype(np.int16)
    nib.save(nib.Nifti1Image(two, shown.affine), folder / "ct.nii.gz")
    values = prepared(case_at(folder), recipe="m3d-seg").ask.volume.values
    assert (values == 0).all()  # as (x - min) / max(max - min, 1e-8) is

    one = two.astype(np.float32)
    one[5, 5, 5] = 3e38
    nib.save(nib.Nifti1Image(one, shown.affine), folder / "ct.nii.gz")
    with pytest.raises(CtvqaError, match="cannot be scaled from"):
        prepared(case_at(folder), recipe="m3d-seg")
