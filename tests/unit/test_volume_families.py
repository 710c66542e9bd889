"""Med3DVLM, RadFM, Merlin, CT-CHAT: tensors equal second computations, and lead back to the CT.

Compared at many random voxels, corners included: a whole second tensor would be 55 million.
"""

import json

import numpy as np
import phantoms
import pytest
from scipy import ndimage

from napari_ctvqa.core.errors import CtvqaError, GeometryError
from napari_ctvqa.core.model_volumes import region_of_mask
from napari_ctvqa.core.records import AnswerFormat, Option, Question, Reference
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models._volumes import (
    centred,
    picked,
    rescaled,
    resized,
    stretched_itk,
)
from napari_ctvqa.models._volumes import spaced as spaced_axis
from napari_ctvqa.models.merlin import section_of
from napari_ctvqa.models.radfm import _slices as radfm_slices
from napari_ctvqa.models.radfm import slices_for

from volume_recipes import areas, boxed, by_itk, turned  # isort: skip

PRESETS = {"med3dvlm": "med3dvlm", "radfm": "radfm", "merlin": "merlin", "ct-chat": "ct-chat-8b"}
QUESTION = Question("q", "case", "Is there a lesion?", Reference("Yes"), organ="liver")
CASES = ["phantom", pytest.param("ts_example", marks=pytest.mark.real)]
RECIPES = [
    ("med3dvlm", "med3dvlm"), ("med3dvlm", "ct-spatialvqa"), ("med3dvlm", "ct-spatialvqa-window"),
    ("med3dvlm", "app"), ("radfm", "radfm"), ("radfm", "ct-spatialvqa"), ("merlin", "merlin"),
    ("ct-chat", "ct-chat"), ("ct-chat", "z-y-x"),
]  # fmt: skip
SHAPES = {  # of the tensor; D is RadFM's choice
    "med3dvlm": (1, 1, 128, 256, 256),
    "radfm": (1, 1, 3, 512, 512, None),
    "merlin": (1, 1, 224, 224, 160),
    "ct-chat": (1, 1, 240, 480, 480),
}
AXES = {"med3dvlm": "SPL", "radfm": "PLS", "merlin": "RAS", "ct-chat": "SLP", "z-y-x": "SPL"}


def prepared(family, case, question=QUESTION, answer_format=AnswerFormat.FREEFORM, **settings):
    found = families()[family]
    return found.prepare(found.presets[PRESETS[family]], question, case, answer_format, settings)


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    if request.param == "phantom":
        folder = phantoms.save_case(tmp_path_factory.mktemp("p") / "case", axcodes="PIL")
    else:
        folder = request.getfixturevalue("real_data") / request.param
    return read_case(find_case(folder))


def some_voxels(ranges, count=20_000):
    """Random voxels of half-open ranges, or of a whole shape, with two corners."""
    low, high = np.array([(0, end) if np.isscalar(end) else end for end in ranges]).T
    inside = np.random.default_rng(5).integers(low, high, (count, 3))
    return np.concatenate([[low, high - 1], inside])


def spaced(count, mm, wanted_mm, wanted):
    """MONAI's Spacing, SpatialPad and CenterSpatialCrop: where each sample lies, NaN is fill."""
    made = np.arange(round((count - 1) * mm / wanted_mm + 1)) * (wanted_mm / mm)
    return middle(np.minimum(made, count - 1), wanted)


def middle(positions, wanted):
    missing = max(wanted - len(positions), 0)
    padded = np.pad(positions, (missing // 2, missing - missing // 2), constant_values=np.nan)
    start = len(padded) // 2 - wanted // 2
    return padded[start : start + wanted]


def picked_slices(count):
    """RadFM: more than 64 to 64 with the outer ones kept, else the nearest multiple of 4."""
    if count > 64:
        return np.array([int((count - 1) * i / 63 + 0.5) for i in range(64)], float)
    wanted = min((abs(4 * n - count), 4 * n) for n in range(1, 17))[1]
    return np.array([i * count // wanted for i in range(wanted)], float)


def expected(case, family, recipe, voxels, change=lambda array: array):
    """Values of a second computation at these model voxels, and its shape.

    ``change`` is a fault put into the volume before anything else.
    """
    path = case.volume.path
    if recipe.startswith("ct-spatialvqa"):
        return _by_script(path, family, recipe, voxels)
    array, mm, _ = turned(path, AXES[recipe if recipe in AXES else family])
    array = change(array)
    low, high, fill = array.min(), array.max(), 0.0
    if family == "med3dvlm":
        part, _ = boxed(array) if recipe == "med3dvlm" else (array, 0)
        where = [areas(n, m) for n, m in zip(part.shape, (128, 256, 256), strict=True)]
    elif family == "radfm":
        part = array
        where = [areas(part.shape[0], 512), areas(part.shape[1], 512)]
        where.append(picked_slices(part.shape[2]))
    elif family == "merlin":
        part = array
        where = [
            spaced(*axis)
            for axis in zip(part.shape, mm, (1.5, 1.5, 3), (224, 224, 160), strict=True)
        ]
    else:
        part, fill = np.clip(array, -1000, 1000), -1.0
        where = [
            middle(areas(n, int(n * s / t)), m)
            for n, s, t, m in zip(part.shape, mm, (1.5, 0.75, 0.75), (240, 480, 480), strict=True)
        ]
    at = np.stack([axis[v] for axis, v in zip(where, voxels.T, strict=True)])
    values = ndimage.map_coordinates(part, np.nan_to_num(at), order=1, mode="nearest")
    if family == "radfm":
        low, high = _range_of(part, where)
    if family == "merlin":
        values = (np.clip(values, -1000, 1000) + 1000) / 2000
    elif family == "ct-chat":
        values = values / 1000
    elif recipe != "app":
        values = (values - low) / (high - low)
    return np.where(np.isnan(at).any(0), fill, values), tuple(map(len, where))


def _range_of(part, where):
    """Range of everything that was resampled, slice by slice."""
    flat = [np.meshgrid(where[0], where[1], indexing="ij")]
    seen = [
        ndimage.map_coordinates(part[..., int(k)], flat[0], order=1, mode="nearest")
        for k in np.unique(where[2])
    ]
    return np.min(seen), np.max(seen)


def _by_script(path, family, recipe, voxels):
    if family == "radfm":
        whole = by_itk(path, (128, 512, 512), -1024)
        whole = ((np.clip(whole, -1024, 1024) + 1024) / 2048).transpose(1, 2, 0)
    elif recipe == "ct-spatialvqa-window":
        whole = by_itk(path, (128, 256, 256), -1024)
        whole = (np.clip(whole, -1200, 600) + 1200) / 1800 * 2 - 1
    else:
        whole = _scaled_then_resampled(path)
    return whole[tuple(voxels.T)], whole.shape


def _scaled_then_resampled(path):
    import SimpleITK as sitk

    array = sitk.GetArrayFromImage(sitk.ReadImage(str(path))).astype(np.float64)
    image = sitk.GetImageFromArray((array - array.min()) / (array.max() - array.min()))
    size = (256, 256, 128)
    resampler = sitk.ResampleImageFilter()
    resampler.SetInterpolator(sitk.sitkLinear)
    resampler.SetSize(size)
    resampler.SetOutputSpacing([n / m for n, m in zip(image.GetSize(), size, strict=True)])
    return sitk.GetArrayFromImage(resampler.Execute(image))


@pytest.mark.parametrize(("family", "recipe"), RECIPES)
def test_the_volume_is_that_of_the_second_computation(case, family, recipe):
    ready = prepared(family, case, recipe=recipe)
    volume = ready.ask.volume
    voxels = some_voxels(volume.shape)
    values, shape = expected(case, family, recipe, voxels)
    assert volume.shape == shape and volume.values.dtype == np.float32
    for ours, wanted in zip(volume.tensor_shape, SHAPES[family], strict=True):
        assert wanted in (ours, None)
    off = np.abs(volume.values[tuple(voxels.T)] - values)
    span = volume.low_high[1] - volume.low_high[0]
    one_hu = span / (volume.window_hu[1] - volume.window_hu[0])
    cut = recipe in ("ct-spatialvqa-window",) or (family, recipe) == ("radfm", "ct-spatialvqa")
    # ITK cuts fractions off: where ours is a whole number to the last bit, it may be one HU away.
    assert np.count_nonzero(off > 3e-5 * span) <= (5 if cut else 0)
    assert off.max() <= max(1.01 * one_hu, 3e-5 * span)
    assert_fill_is_what_lies_around(volume)
    json.dumps(dict(ready.recipe))


def assert_fill_is_what_lies_around(volume):
    for axis, (first, last) in enumerate(volume.inner):
        for part in (slice(None, first), slice(last, None)):
            around = np.moveaxis(volume.values, axis, 0)[part]
            np.testing.assert_allclose(around, volume.fill, rtol=0, atol=1e-6)


@pytest.mark.parametrize("stored", ["with an intercept", "as fractions"])
@pytest.mark.parametrize(
    ("family", "recipe"), [("med3dvlm", "ct-spatialvqa-window"), ("radfm", "ct-spatialvqa")]
)
def test_itk_cuts_no_fractions_off_where_the_file_holds_no_integers(
    tmp_path, stored, family, recipe
):
    shown = phantoms.phantom()
    shift = 1024 if stored == "with an intercept" else 0
    ct = (shown.ct + shift).astype(np.int16 if shift else np.float32)
    folder = phantoms.save_case(tmp_path / "c", phantoms.Phantom(ct, {}, shown.affine))
    if shift:
        phantoms.edit_header(folder / "ct.nii.gz", scl_slope=1, scl_inter=-shift)
    case = read_case(find_case(folder))
    assert case.volume.display_zyx.dtype == np.int16, "as a file of integers is kept"
    volume = prepared(family, case, recipe=recipe).ask.volume
    voxels = some_voxels(volume.shape)
    values, _ = expected(case, family, recipe, voxels)
    np.testing.assert_allclose(volume.values[tuple(voxels.T)], values, rtol=0, atol=3e-5)


@pytest.mark.parametrize(("degrees", "kept"), [(0, "first"), (11, "first"), (17, "middle")])
def test_merlin_gets_an_oblique_ct_from_its_middle_where_monai_does(tmp_path, degrees, kept):
    """By the rounding of the header: that of 17 degrees puts a corner before the first voxel."""
    shown = phantoms.oblique(phantoms.phantom(), degrees)
    case = read_case(find_case(phantoms.save_case(tmp_path / "c", shown)))
    volume = prepared("merlin", case).ask.volume
    first, last = np.array(volume.inner).T
    sizes = np.array(case.volume.display_grid.shape_zyx)
    # In (R, A, S), which run against the display's x, y and z.
    at = (sizes - 1 - volume.index_zyx({"first": first, "middle": (first + last) / 2}[kept]))[::-1]
    wanted = {"first": np.zeros(3), "middle": sizes[::-1] / 2}[kept]
    np.testing.assert_allclose(at, wanted, atol=1e-6)


@pytest.fixture(scope="module")
def phantom_read(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


@pytest.mark.parametrize("family", ["med3dvlm", "radfm", "merlin", "ct-chat"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[:, :, ::-1],
        lambda a: a.swapaxes(0, 1),
        lambda a: a.swapaxes(0, 2),
    ],
    ids=["first flipped", "second flipped", "third flipped", "turned", "x for z"],
)
def test_a_turned_volume_is_caught(phantom_read, family, wrong):
    """A second computation with one fault has another shape, or other values in many voxels."""
    volume = prepared(family, phantom_read).ask.volume
    voxels = some_voxels(volume.inner)
    try:
        values, shape = expected(phantom_read, family, family, voxels, wrong)
    except IndexError:  # another number of slices
        return
    off = np.abs(volume.values[tuple(voxels.T)] - values)
    assert shape != volume.shape or np.count_nonzero(off > 0.002) > 100


@pytest.mark.parametrize("family", ["radfm", "merlin", "ct-chat"])
def test_the_file_s_axis_order_does_not_matter(tmp_path, phantom_case, family):
    plain = prepared(family, read_case(find_case(phantom_case))).ask.volume
    voxels = some_voxels(plain.shape)
    for axcodes in ("RAS", "IPR"):
        folder = phantoms.save_case(tmp_path / axcodes, axcodes=axcodes)
        other = prepared(family, read_case(find_case(folder))).ask.volume
        np.testing.assert_array_equal(other.values[tuple(voxels.T)], plain.values[tuple(voxels.T)])
        np.testing.assert_array_equal(other.index_from_voxel, plain.index_from_voxel)


@pytest.mark.parametrize(("family", "recipe"), RECIPES)
def test_a_mask_and_a_point_come_back_within_one_model_voxel(case, family, recipe):
    """An organ painted in model voxels through world coordinates; resample, cut and pad in it."""
    volume = prepared(family, case, recipe=recipe).ask.volume
    grid = case.volume.display_grid
    region = case.masks["spleen"].region
    edges = np.array([[part.start, part.stop - 1] for part in region.box_zyx], float).T
    corners = grid.index_zyx(grid.ras_mm(edges))
    there = np.sort(volume.voxel(corners), axis=0)
    low, high = np.floor(there[0]).astype(int) - 1, np.ceil(there[1]).astype(int) + 2
    low, high = np.maximum(low, 0), np.minimum(high, volume.shape)
    part = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), -1)
    index = np.rint(grid.index_zyx(volume.ras_mm(part, grid))).astype(int)
    index = np.clip(index, 0, np.array(grid.shape_zyx) - 1)
    whole = np.zeros(grid.shape_zyx, bool)
    whole[region.box_zyx] = region.crop_zyx
    painted = np.zeros(volume.shape, bool)
    painted[tuple(map(slice, low, high))] = whole[tuple(np.moveaxis(index, -1, 0))]
    back = region_of_mask(volume, painted, grid)
    per_voxel = np.maximum(1, np.abs(volume.index_from_voxel[:3, :3]).sum(axis=1))
    for axis in range(3):
        ours, theirs = back.box_zyx[axis], region.box_zyx[axis]
        assert abs(ours.start - theirs.start) <= per_voxel[axis]
        assert abs(ours.stop - theirs.stop) <= per_voxel[axis]


@pytest.mark.parametrize(
    "axis",
    [
        resized(7, 32), resized(512, 256), stretched_itk(7, 32), stretched_itk(300, 128),
        spaced_axis(120, 0.8, 1.5), spaced_axis(119, 0.8, 1.5, first_kept=False),
        rescaled(310, 0.9, 0.75),
        centred(spaced_axis(401, 1.2, 1.5), 224), centred(rescaled(701, 0.9, 0.75), 480),
        centred(resized(512, 256), 300),
    ],
)  # fmt: skip
def test_an_axis_leads_back_to_where_its_samples_were_taken(axis):
    """What was sampled is compared with second computations; the way back goes by this line."""
    line = axis.first + axis.step * np.arange(len(axis.positions))
    np.testing.assert_allclose(axis.positions, line, atol=1e-9)


@pytest.mark.parametrize(
    "axis",
    [picked(7, 8), picked(38, 36), picked(63, 64), picked(8, 8), radfm_slices(30),
     radfm_slices(300)],
)  # fmt: skip
def test_a_picked_slice_lies_where_it_was_picked(axis):
    """Rounded to a slice of the CT, as a reader is shown it; no other slice is."""
    line = axis.first + axis.step * np.arange(len(axis.positions))
    np.testing.assert_array_equal(np.floor(line + 0.5), axis.positions)


@pytest.mark.parametrize(("slices", "outside"), [(7, 0), (8, 0), (9, 1), (10, 1)])
def test_slices_that_were_not_picked_at_the_end_are_told(tmp_path, slices, outside):
    """Of 7, one comes twice; of 10, the sixth and the last are left out."""
    shown = phantoms.phantom()
    folder = phantoms.save_case(
        tmp_path / "c", phantoms.Phantom(shown.ct[..., :slices], {}, shown.affine)
    )
    notes = " ".join(prepared("radfm", read_case(find_case(folder))).notes)
    assert (f"{100 * outside / slices:.3g} % of the CT's voxels are outside" in notes) == (
        outside > 0
    )


@pytest.mark.parametrize("family", ["merlin", "ct-chat"])
def test_a_mark_in_the_fill_is_not_in_the_ct(phantom_case, family):
    case = read_case(find_case(phantom_case))
    volume = prepared(family, case).ask.volume
    mask = np.ones(volume.shape, bool)
    for axis, (first, last) in enumerate(volume.inner):
        assert 0 < last - first < volume.shape[axis], "the phantom is smaller than the frame"
        np.moveaxis(mask, axis, 0)[first:last] = False
        assert region_of_mask(volume, mask, case.volume.display_grid).empty
        np.moveaxis(mask, axis, 0)[first:last] = True
    whole = region_of_mask(volume, mask, case.volume.display_grid)
    assert whole.voxels == case.volume.display_zyx.size, "and every voxel of the CT is in the rest"


def test_what_is_cut_off_or_filled_is_told(case):
    notes = prepared("merlin", case).notes
    outside = [note for note in notes if "outside of it" in note or "is filled" in note]
    assert outside


@pytest.mark.parametrize(
    ("count", "slices"), [(4, 4), (5, 4), (6, 4), (7, 8), (30, 28), (55, 56), (64, 64), (300, 64)]
)
def test_radfm_takes_the_nearest_multiple_of_four(count, slices):
    assert slices_for(count) == slices


def test_the_words(phantom_case):
    case = read_case(find_case(phantom_case))
    asked = QUESTION.text

    def text(family, question=QUESTION, answer_format=AnswerFormat.FREEFORM, **settings):
        (message,) = prepared(family, case, question, answer_format, **settings).ask.messages
        return message.text

    assert text("med3dvlm") == "<im_patch>" * 256 + " " + asked
    assert text("med3dvlm", prompt="readme") == "<im_patch>" * 256 + asked
    slots = "".join(f"<image{n}>" for n in range(32))
    assert text("radfm") == f"<image>{slots}</image>{asked}"
    assert text("ct-chat") == f"<image>\n <provided>{asked} <short_answer>"
    assert text("ct-chat", answer="report").endswith(" <report_generation>")
    closed = Question("q", "c", "Where?", Reference("L", "A"), (Option("A", "left"),))
    assert text("ct-chat", closed, AnswerFormat.MC).endswith("A. left <multiple_choice>")
    assert text("merlin").endswith(f"{asked}###\n")
    assert text("merlin", prompt="report") == "Generate a radiology report for liver###\n"
    with pytest.raises(CtvqaError, match="names no organ"):
        text("merlin", Question("q", "c", "Why?", Reference("")), prompt="report")
    for family in PRESETS:
        injected = Question("q", "c", "<image> <provided> <im_patch> ###", Reference(""))
        assert text(family, injected).count("<image>") == text(family).count("<image>")
        assert text(family, injected).count("<im_patch>") == text(family).count("<im_patch>")


@pytest.mark.parametrize(
    ("organ", "section"), [("gall_bladder", "gallbladder"), ("kidney_left", "kidneys"), ("", "")]
)
def test_merlin_s_sections(organ, section):
    assert section_of(Question("q", "c", "?", Reference(""), organ=organ)) == section


def test_a_wrong_order_is_not_offered_for_merlin(phantom_case):
    with pytest.raises(CtvqaError, match="recipe"):
        prepared("merlin", read_case(find_case(phantom_case)), recipe="ct-spatialvqa")


@pytest.mark.parametrize(
    ("family", "recipe"),
    [("merlin", "merlin"), ("ct-chat", "ct-chat"), ("radfm", "ct-spatialvqa"),
     ("med3dvlm", "ct-spatialvqa-window")],
)  # fmt: skip
@pytest.mark.parametrize("fault", ["intercept", "scaled"])
def test_missing_hu_scaling_is_refused(tmp_path, family, recipe, fault):
    shown = phantoms.phantom()
    lost = {
        "intercept": (shown.ct + 1024).astype(np.int16),
        "scaled": ((shown.ct + 1000) / 1300).astype(np.float32),
    }[fault]
    folder = phantoms.save_case(tmp_path / "c", phantoms.Phantom(lost, {}, shown.affine))
    with pytest.raises(CtvqaError, match="Hounsfield"):
        prepared(family, read_case(find_case(folder)), recipe=recipe)


@pytest.mark.parametrize("family", PRESETS)
def test_a_case_without_sides_is_refused(phantom_case, family):
    phantoms.edit_header(phantom_case / "ct.nii.gz", qform_code=0, sform_code=0)
    with pytest.raises(GeometryError, match="sides"):
        prepared(family, read_case(find_case(phantom_case)))


@pytest.mark.parametrize(
    ("family", "text", "read"),
    [
        ("merlin", " No lesion.###</s>", "No lesion."),
        ("merlin", "A.### more", "A."),
        ("ct-chat", "Yes.<|eot_id|>", "Yes."),
        ("med3dvlm", " left</s>", "left"),
        ("radfm", "", ""),
    ],
)
def test_an_answer_is_read_without_its_end(family, text, read):
    found = families()[family]
    assert found.read(found.presets[PRESETS[family]], text, "p") == read
