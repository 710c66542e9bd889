"""Marks drawn into pictures, and telling whether anything changed in what is sent."""

from dataclasses import replace

import numpy as np
import pytest
from evidence_cases import block, case, grid

from napari_ctvqa.core.asking import Ask, Message, Picture
from napari_ctvqa.core.changed_asks import SAYS, fingerprint, pixels_of, with_marks
from napari_ctvqa.core.probes import CannotProbeError

ON = grid((20, 40, 60))
LESION = block(ON.shape_zyx, slice(8, 12), slice(10, 20), slice(30, 45))
CASE = case({"liver_lesion": LESION}, on=ON)
REGION = CASE.masks["liver_lesion"].region


def shown(z, scale=1):
    """An axial slice of grey; a pixel is 1/scale of a voxel."""
    step = 1 / scale
    first = step / 2 - 0.5
    place = np.array([[0, 0, z], [step, 0, first], [0, step, first]])
    pixels = np.full((40 * scale, 60 * scale, 3), 100, np.uint8)
    return Picture(pixels, f"SLICE {z}", place)


def ask(*pictures):
    return Ask((Message("system", ("s",)), Message("user", (*pictures, "Is there a lesion?"))))


def changed(picture, marked):
    return (marked.pixels != picture.pixels).any(axis=2)


@pytest.mark.parametrize("scale", [1, 3])
def test_pixels_of_a_region_are_those_whose_voxel_lies_in_it(scale):
    seen = pixels_of(REGION, shown(9, scale))
    wanted = np.kron(LESION[9], np.ones((scale, scale), bool)).astype(bool)
    assert np.array_equal(seen, wanted)
    assert not pixels_of(REGION, shown(3)).any()


def test_an_overlay_covers_the_mask_and_nothing_else():
    picture, clear = shown(9), shown(2)
    marked = with_marks(ask(picture, clear), REGION, "overlay")
    first, second = marked.pictures
    assert np.array_equal(changed(picture, first), LESION[9])
    assert np.array_equal(second.pixels, clear.pixels)
    assert first.pixels[12, 35].tolist() == [162, 60, 60]
    assert (picture.pixels == 100).all(), "the picture that was given is not drawn into"
    assert marked.messages[-1].parts[-2:] == ("Is there a lesion?", SAYS["overlay"])


def test_a_box_lies_around_the_mask_and_leaves_it_free():
    drawn = changed(shown(9, 3), with_marks(ask(shown(9, 3)), REGION, "box").pictures[0])
    inside = pixels_of(REGION, shown(9, 3))
    assert drawn.any() and not (drawn & inside).any()
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (29, 60, 89, 135)


@pytest.mark.parametrize("how", ["point", "label"])
def test_a_point_and_a_letter_lie_in_the_middle_of_the_mask(how):
    drawn = changed(shown(9, 3), with_marks(ask(shown(9, 3)), REGION, how).pictures[0])
    inside = pixels_of(REGION, shown(9, 3))
    assert drawn.any() and not (drawn & ~inside).any()
    assert np.abs(np.argwhere(drawn).mean(axis=0) - np.argwhere(inside).mean(axis=0)).max() < 8


def test_a_point_in_a_ring_lies_on_the_ring():
    ring = block(ON.shape_zyx, 9, slice(10, 30), slice(10, 30))
    ring[9, 14:26, 14:26] = False
    region = case({"liver_lesion": ring}, on=ON).masks["liver_lesion"].region
    drawn = changed(shown(9, 3), with_marks(ask(shown(9, 3)), region, "point").pictures[0])
    row, column = np.argwhere(drawn).mean(axis=0).round().astype(int)
    assert pixels_of(region, shown(9, 3))[row, column]


def test_a_mark_at_the_edge_of_a_picture_stays_in_it():
    corner = block(ON.shape_zyx, 9, slice(0, 2), slice(58, 60))
    region = case({"liver_lesion": corner}, on=ON).masks["liver_lesion"].region
    for how in SAYS:
        assert changed(shown(9), with_marks(ask(shown(9)), region, how).pictures[0]).any()


def test_no_picture_of_it_is_said():
    for pictures in ((shown(2),), (), (Picture(np.zeros((4, 4, 3), np.uint8)),)):
        with pytest.raises(CannotProbeError, match="No picture"):
            with_marks(ask(*pictures), REGION, "box")


def test_a_fingerprint_tells_words_pixels_and_meanings_apart():
    one = ask(shown(9))
    assert fingerprint(one) == fingerprint(ask(shown(9)))
    others = [
        ask(shown(9), shown(9)),
        with_marks(one, REGION, "point", say=False),
        replace(one, messages=(*one.messages, Message("user", ("More.",)))),
        replace(one, meanings={"Yes.": "B"}),
        replace(one, tools=({"name": "measure"},)),
    ]
    marks = {fingerprint(other) for other in (one, *others)}
    assert len(marks) == 1 + len(others)
    moved = replace(one, expected_tokens=7)
    assert fingerprint(moved) == fingerprint(one)
