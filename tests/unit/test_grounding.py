"""Boxes, points and slice numbers of a model's text, back in the CT."""

import dataclasses
import json

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.grounding import boxes, picture_of, slices_named
from napari_ctvqa.core.picture_tokens import resized_px
from napari_ctvqa.core.records import AnswerFormat, Question, Reference
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

FAMILY = families()["chat-image"]
QUESTION = Question("q", "case", "Where is the spleen?", Reference(""))
NAMES = [name for name, preset in FAMILY.presets.items() if preset.grounding != "none"]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


def sent(case, name, **settings):
    ready = FAMILY.prepare(FAMILY.presets[name], QUESTION, case, AnswerFormat.FREEFORM, settings)
    return ready.ask.pictures


def written(preset, picture, top, left, bottom, right):
    """The box as a perfect model of this preset would write it, from edges in sent pixels."""
    rows, columns = picture.pixels.shape[:2]
    if preset.grounding == "abs_px_resized":
        high, wide = resized_px(preset.facts["tokens"], rows, columns)
    else:
        high = wide = 1000
    y0, y1 = (edge / rows * high for edge in (top, bottom))
    x0, x1 = (edge / columns * wide for edge in (left, right))
    if preset.grounding == "rel1000_yxyx":
        return {"box_2d": [y0, x0, y1, x1], "label": "spleen"}
    return {"bbox_2d": [x0, y0, x1, y1], "label": "spleen"}


def edges_of(region, picture):
    """Edges in sent pixels of a mask's box, by the inverse of the picture's own map."""
    matrix = picture.index_from_pixel
    _, y, x = region.box_zyx
    top = (y.start - 0.5 - matrix[1, 2]) / matrix[1, 0] + 0.5
    bottom = (y.stop - 0.5 - matrix[1, 2]) / matrix[1, 0] + 0.5
    left = (x.start - 0.5 - matrix[2, 2]) / matrix[2, 1] + 0.5
    right = (x.stop - 0.5 - matrix[2, 2]) / matrix[2, 1] + 0.5
    return top, left, bottom, right


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size_px", [None, 504, 300])
def test_a_perfect_box_comes_back_as_the_mask_s_box(case, name, size_px):
    preset = FAMILY.presets[name]
    region = case.masks["spleen"].region
    pictures = sent(case, name, size_px=size_px, slices=[2, region.box_zyx[0].start, 9])
    box = written(preset, pictures[1], *edges_of(region, pictures[1]))
    text = f"Here it is, on slice 2:\n```json\n{json.dumps([box])}\n```"
    found = boxes(preset, text, pictures, shape_zyx=case.volume.display_grid.shape_zyx)
    (placed,) = found.placed
    assert (placed.kind, placed.label, placed.picture, placed.axis) == ("box", "spleen", 1, 0)
    z, y, x = region.box_zyx
    np.testing.assert_allclose(placed.low_zyx, [z.start, y.start - 0.5, x.start - 0.5], atol=1e-6)
    np.testing.assert_allclose(placed.high_zyx, [z.start, y.stop - 0.5, x.stop - 0.5], atol=1e-6)
    assert bool(found.notes) == name.startswith("medgemma")


def test_y_first_and_x_first_are_not_exchanged(case):
    """The same numbers lie elsewhere for the two measures."""
    text = '{"box_2d": [100, 500, 300, 900], "label": "x"}'
    (first,) = boxes(FAMILY.presets["medgemma"], text, sent(case, "medgemma")).placed
    (second,) = boxes(FAMILY.presets["qwen3-vl"], text, sent(case, "qwen3-vl", max_slices=1)).placed
    rows, columns = case.volume.display_grid.shape_zyx[1:]
    assert first.low_zyx[1] == pytest.approx(0.1 * rows - 0.5)
    assert first.low_zyx[2] == pytest.approx(0.5 * columns - 0.5)
    assert second.low_zyx[1] == pytest.approx(0.5 * rows - 0.5)
    assert second.low_zyx[2] == pytest.approx(0.1 * columns - 0.5)


def test_pixels_are_those_of_the_resized_picture(case):
    """24 x 20 voxels become 28 x 56 or so: half of that is the middle of the CT."""
    preset = FAMILY.presets["lingshu"]
    pictures = sent(case, "lingshu", slices=[4])
    high, wide = resized_px(preset.facts["tokens"], 20, 24)
    assert (high, wide) != (20, 24)
    text = json.dumps({"bbox_2d": [0, 0, wide / 2, high / 2]})
    (placed,) = boxes(preset, text, pictures).placed
    np.testing.assert_allclose(placed.high_zyx, [4, 9.5, 11.5])
    (other,) = boxes(preset, text, pictures, sent_size=[(high * 2, wide * 2)]).placed
    np.testing.assert_allclose(other.high_zyx, [4, 4.5, 5.5])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"bbox_2d": [10, 10, 20, 20]}', "which of the 12 pictures"),
        ('slice 40: {"bbox_2d": [10, 10, 20, 20]}', "no picture 40 was sent"),
        ('{"bbox_2d": [10, 10, 20, 2000], "slice": 3}', "not within 0 to 1000"),
        ('{"bbox_2d": [-1, 10, 20, 20], "slice": 3}', "not within"),
        ('{"bbox_2d": [20, 10, 10, 20], "slice": 3}', "is no box"),
        ('{"bbox_2d": [0.1, 0.2, 0.3, 0.4], "slice": 3}', "parts of 1"),
        ('{"bbox_2d": [10, 20], "slice": 3}', "a box of 2 numbers"),
        ('{"bbox_2d": [10, 10, 20, 20], "label": "SLICE 0"}', "no picture 0"),
    ],
)
def test_what_has_no_place_is_said_with_its_reason(case, text, why):
    found = boxes(FAMILY.presets["qwen3-vl"], text, sent(case, "qwen3-vl"))
    assert found.placed == ()
    (unplaced,) = found.unplaced
    assert why in unplaced.why


def test_a_box_in_the_border_has_no_place_and_one_over_the_edge_is_cut(case):
    pictures = sent(case, "qwen3-vl", size_px=240, slices=[3])
    shape = case.volume.display_grid.shape_zyx
    border = '{"bbox_2d": [0, 0, 1000, 50]}'
    found = boxes(FAMILY.presets["qwen3-vl"], border, pictures, shape_zyx=shape)
    assert found.placed == () and "border" in found.unplaced[0].why
    over = '{"bbox_2d": [0, 0, 1000, 500]}'
    (placed,) = boxes(FAMILY.presets["qwen3-vl"], over, pictures, shape_zyx=shape).placed
    assert placed.low_zyx == (3, -0.5, -0.5) and placed.high_zyx[2] == shape[2] - 0.5


def test_other_ways_to_write_a_box(case):
    pictures = sent(case, "internvl", size_px=None)
    preset = FAMILY.presets["internvl"]
    text = "On SLICE 3 <ref>spleen</ref><box>[[0, 0, 500, 1000]]</box>"
    (placed,) = boxes(preset, text, pictures).placed
    assert (placed.label, placed.picture) == ("spleen", 2)
    np.testing.assert_allclose(placed.high_zyx[1:], [19.5, 11.5])
    (point,) = boxes(preset, '{"point_2d": [500, 500], "slice": "SLICE 12"}', pictures).placed
    assert point.kind == "point" and point.low_zyx == point.high_zyx
    np.testing.assert_allclose(point.low_zyx[1:], [9.5, 11.5])


def test_a_model_that_gives_no_boxes_gets_none_placed(case):
    found = boxes(FAMILY.presets["toy"], '{"bbox_2d": [1, 2, 3, 4]}', sent(case, "toy"))
    assert found.placed == () and "not known to give boxes" in found.unplaced[0].why


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("SLICE 3", [3]),
        ("slice #3 and later", [3]),
        ("slices 3-5", [3, 4, 5]),
        ("Slices 3, 5 and 9", [3, 5, 9]),
        ("on picture 2 and on image 4", [2, 4]),
        ("SLICE 3. SLICE 3", [3]),
        ("slice thickness 5 mm", []),
        ("slice 5 mm thick", []),
        ("slice 2.5", []),
        ("12 slices", []),
        ("the liver", []),
    ],
)
def test_slices_are_found_by_their_number(case, text, numbers):
    found = slices_named(text, sent(case, "qwen3-vl"))
    assert [placed.picture + 1 for placed in found.placed] == numbers
    assert [placed.low_zyx[0] for placed in found.placed] == [n - 1 for n in numbers]
    assert found.unplaced == ()


def test_a_slice_number_leads_to_the_slice_that_was_sent_not_to_that_of_the_ct(case):
    pictures = sent(case, "qwen3-vl", slices=[7, 2, 11])
    found = slices_named("SLICE 2, SLICE 3 and SLICE 12", pictures)
    assert [placed.low_zyx[0] for placed in found.placed] == [2, 11]
    assert [unplaced.why for unplaced in found.unplaced] == ["no picture 12 was sent; there were 3"]


def test_a_picture_that_is_no_cut_has_no_place():
    picture = Picture(np.zeros((8, 8, 3), np.uint8), "SLICE 1")
    preset = FAMILY.presets["qwen3-vl"]
    assert "no cut" in boxes(preset, '{"bbox_2d": [1, 2, 3, 4]}', [picture]).unplaced[0].why
    assert "no cut" in slices_named("SLICE 1", [picture]).unplaced[0].why


@pytest.mark.parametrize("name", ["qwen3-vl", "medgemma-1.5", "qwen2.5-vl", "internvl", "toy"])
@pytest.mark.parametrize(
    "text",
    [
        "", "{", "{}" * 200_000, "slice 1, " * 300_000, "slices 1-9999 " * 1000,
        '{"bbox_2d": [1, 2, 3, 4], "slice": 1}' * 10_000, "[" * 1_000_000, "<box>" * 200_000,
        "<box>[" + "[" * 1900 + "]</box>", '{"bbox_2d": [1e400, 1, 2, 3]}', "slice " * 500_000,
        '{"bbox_2d": [' + "9" * 3000 + ", 1, 2, 3]}", '{"bbox_2d": [null, true, "a", 1]}',
        '{"bbox_2d": [NaN, 1, 2, 3], "slice": 1}', '{"slice": {"a": [1, 2]}}', "slice" * 500_000,
        '{"label": 5, "bbox_2d": [1, 2, 3, 4], "slice": true}', "slice 1" + " " * 1_000_000,
        "slice 1" + " , " * 500_000,
    ],
    ids=lambda text: text[:14],
)  # fmt: skip
def test_hostile_text_neither_raises_nor_stays(case, name, text):
    pictures = sent(case, name)
    found = boxes(FAMILY.presets[name], text, pictures)
    named = slices_named(text, pictures)
    assert len(found.placed) + len(found.unplaced) <= 200
    assert len(named.placed) + len(named.unplaced) <= 200


def test_the_preset_is_only_told_by_its_measure(case):
    swapped = dataclasses.replace(FAMILY.presets["qwen3-vl"], grounding="abs_px_resized")
    text = '{"bbox_2d": [0, 0, 100, 100]}'
    pictures = sent(case, "qwen3-vl", size_px=320, slices=[1])
    (relative,) = boxes(FAMILY.presets["qwen3-vl"], text, pictures).placed
    (absolute,) = boxes(swapped, text, pictures).placed
    assert relative.edges_px == (0, 0, 32, 32) and absolute.edges_px == (0, 0, 100, 100)


@pytest.mark.parametrize("kind", ["box", "point"])
def test_what_was_pointed_at_has_a_frame_of_its_own(case, kind):
    pictures = sent(case, "qwen3-vl", size_px=240, slices=[5])
    written = {"bbox_2d": [251, 500, 750, 999]} if kind == "box" else {"point_2d": [251, 500]}
    (placed,) = boxes(FAMILY.presets["qwen3-vl"], json.dumps(written), pictures).placed
    part = picture_of(placed, pictures)
    rows, columns = part.pixels.shape[:2]
    low, high = part.index_zyx(-0.5, -0.5), part.index_zyx(rows - 0.5, columns - 0.5)
    assert (low <= np.array(placed.low_zyx) + 1e-9).all()
    assert (high >= np.array(placed.high_zyx) - 1e-9).all()
    voxels_a_pixel = 24 / 240
    assert np.abs(low - placed.low_zyx).max() < voxels_a_pixel
    if kind == "point":
        assert (rows, columns) == (1, 1)
    whole = picture_of(slices_named("SLICE 1", pictures).placed[0], pictures)
    assert whole is pictures[0]
