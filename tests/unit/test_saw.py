"""What a model could see of a mask: counted here by another way, pixel by pixel."""

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.records import AnswerFormat, Question, Reference
from napari_ctvqa.core.regions import empty_region, region_of
from napari_ctvqa.core.saw import Sight, seen, seen_of_chain
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

FAMILY = families()["chat-image"]
QUESTION = Question("q", "case", "Where is the spleen?", Reference(""))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


def sent(case, **settings):
    preset = FAMILY.presets["qwen3-vl"]
    return FAMILY.prepare(preset, QUESTION, case, AnswerFormat.FREEFORM, settings).ask.pictures


def look(case, name, pictures, model_size=None):
    region = case.masks[name].region
    grid = case.volume.display_grid
    (found,) = seen([(name, region)], pictures, grid, model_size)
    return found


def voxels_in_pictures(region, pictures):
    """Every voxel centre that some picture's pixels reach, one voxel at a time."""
    whole = np.zeros(region.grid.shape_zyx, bool)
    whole[region.box_zyx] = region.crop_zyx
    count = 0
    for voxel in np.argwhere(whole):
        for picture in pictures:
            rows, columns = picture.pixels.shape[:2]
            low = picture.index_zyx(-0.5, -0.5)
            high = picture.index_zyx(rows - 0.5, columns - 0.5)
            if all(min(a, b) - 1e-6 <= v <= max(a, b) + 1e-6
                   for a, b, v in zip(low, high, voxel, strict=True)):  # fmt: skip
                count += 1
                break
    return count


def test_all_slices_show_all_of_it(case):
    found = look(case, "spleen", sent(case))
    assert found.sight is Sight.WHOLE and not found.warns
    assert found.voxels == found.voxels_sent == int(case.masks["spleen"].region.voxels)
    box = case.masks["spleen"].region.box_zyx
    assert found.pictures == tuple(range(box[0].start, box[0].stop))
    assert found.widest_px == min(box[1].stop - box[1].start, box[2].stop - box[2].start)


@pytest.mark.parametrize("settings", [
    {"slices": [4]}, {"slices": [4, 6]}, {"max_slices": 3}, {"plane": "coronal", "max_slices": 5},
    {"plane": "sagittal", "slices": [18, 2, 19]}, {"slices": [5], "size_px": 90},
    {"slices": [5], "size_px": 90, "fit": "stretch"}, {"order": "backward", "max_slices": 6},
])  # fmt: skip
def test_counts_agree_with_one_voxel_at_a_time(case, settings):
    pictures = sent(case, **settings)
    for name, mask in case.masks.items():
        found = look(case, name, pictures)
        assert found.voxels_sent == voxels_in_pictures(mask.region, pictures), name
        assert found.warns == (found.voxels_sent < found.voxels or found.widest_px < 2)


def test_a_mask_between_the_slices_is_not_seen(case):
    box = case.masks["spleen"].region.box_zyx[0]
    found = look(case, "spleen", sent(case, slices=[0, box.stop]))
    assert (found.sight, found.voxels_sent, found.pictures) == (Sight.NOT, 0, ())
    assert found.slices == box.stop - box.start and found.widest_px is None
    assert found.text == f"spleen: none of the {found.slices} slices that it touches was sent"


def test_some_of_its_slices_is_partly(case):
    box = case.masks["spleen"].region.box_zyx[0]
    found = look(case, "spleen", sent(case, slices=[box.start]))
    assert found.sight is Sight.PARTLY and found.warns
    assert found.text.startswith(f"spleen: 1 of its {found.slices} slices sent, ")


def cropped(picture, rows, columns):
    """The part of a picture from a row and column on: what a crop tool sends."""
    matrix = picture.index_from_pixel.copy()
    matrix[:, 2] += matrix[:, 0] * rows.start + matrix[:, 1] * columns.start
    return Picture(picture.pixels[rows, columns], "crop", matrix, picture.windows, "crop")


def test_a_mask_outside_the_crop_is_not_seen(case):
    region = case.masks["spleen"].region
    z, y, x = region.box_zyx
    (whole,) = sent(case, slices=[z.start])
    beside = cropped(whole, slice(0, 20), slice(0, x.start))
    found = look(case, "spleen", [beside])
    assert found.sight is Sight.NOT and found.text == "spleen: outside the frame of every picture"
    half = cropped(whole, slice(y.start + 1, 20), slice(0, 24))
    found = look(case, "spleen", [half])
    assert found.sight is Sight.PARTLY
    assert found.voxels_sent == voxels_in_pictures(region, [half])


def test_a_mask_that_has_shrunk_below_two_pixels_is_small(case):
    """20 x 24 voxels become 13 x 16 pixels."""
    pictures = sent(case, size_px=16)
    _, y, x = case.masks["liver_lesion"].region.box_zyx
    found = look(case, "liver_lesion", pictures)
    narrow = min((y.stop - y.start) * 13 / 20, (x.stop - x.start) * 16 / 24)
    assert found.widest_px == pytest.approx(narrow) and narrow < 2
    assert found.sight is Sight.SMALL and "px across" in found.text


def test_it_is_the_model_s_own_grid_that_counts(case):
    pictures = sent(case)
    same = look(case, "liver_lesion", pictures, lambda picture: picture.pixels.shape[:2])
    halved = look(case, "liver_lesion", pictures, lambda p: (p.pixels.shape[0] // 2, 12))
    assert same.sight is Sight.WHOLE
    assert halved.widest_px == pytest.approx(same.widest_px / 2)
    assert halved.sight is Sight.SMALL


def test_nothing_sent_and_nothing_there(case):
    grid = case.volume.display_grid
    found = seen([("cyst", empty_region(grid))], sent(case), grid)
    assert found[0].sight is Sight.EMPTY and not found[0].warns
    assert look(case, "spleen", []).sight is Sight.NOT
    blank = Picture(np.zeros((4, 4, 3), np.uint8))
    assert look(case, "spleen", [blank]).sight is Sight.NOT


def test_a_mask_of_another_grid_is_unknown_not_unseen(case):
    other = Grid((12, 20, 24), np.diag([2.0, 2.0, 2.0, 1.0]))
    region = region_of(np.ones((12, 20, 24), bool), other)
    (found,) = seen([("x", region)], sent(case), case.volume.display_grid)
    assert found.sight is Sight.UNKNOWN and found.warns


def test_every_mask_of_a_chain_is_looked_for_once(case):
    steps = (
        EvidenceStep(StepKind.SEGMENT, "spleen", mask="spleen"),
        EvidenceStep(StepKind.MEASURE, "spleen", "volume", mask="spleen", other="liver"),
        EvidenceStep(StepKind.LOOKUP, "splenomegaly"),
        EvidenceStep(StepKind.SEGMENT, "heart", mask="heart"),
    )
    chain = EvidenceChain("q", "reference", steps)
    grid = case.volume.display_grid
    found = seen_of_chain(chain, case.masks, sent(case, slices=[0]), grid)
    assert [mask.name for mask in found] == ["spleen", "liver"]
    alone = seen([(m, case.masks[m].region) for m in ("spleen", "liver")], sent(case, slices=[0]),
                 grid)  # fmt: skip
    assert found == alone
