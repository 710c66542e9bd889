import numpy as np
import pytest
from evidence_cases import grid

from napari_ctvqa.core.regions import (
    components,
    difference,
    empty_region,
    focus_slice,
    largest_component,
    region_of,
    slices_of,
    union,
)

SHAPE = (12, 10, 8)
GRID = grid(SHAPE)


def region(*boxes):
    array = np.zeros(SHAPE, bool)
    for box in boxes:
        array[box] = True
    return region_of(array, GRID)


def whole(found):
    """The region as a full array again."""
    array = np.zeros(SHAPE, bool)
    if found.box_zyx is not None:
        array[found.box_zyx] = found.crop_zyx
    return array


def test_a_region_is_the_tightest_box():
    found = region(np.s_[3:5, 2:4, 1:7])
    assert found.box_zyx == (slice(3, 5), slice(2, 4), slice(1, 7))
    assert found.voxels == 2 * 2 * 6


def test_a_part_of_the_grid_says_where_it_begins():
    found = region_of(np.ones((1, 2, 1), np.uint8), GRID, (5, 6, 7))
    assert found.box_zyx == (slice(5, 6), slice(6, 8), slice(7, 8))


def test_an_array_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        region_of(np.zeros((12, 10, 9), bool), GRID)


def test_a_mask_with_a_gap_is_shown_where_it_is_largest_not_in_the_middle():
    # one voxel on slice 2, four on slice 8: the middle, slice 5, is empty
    found = region(np.s_[2, 1, 1], np.s_[8, 1:3, 1:3])
    assert focus_slice(found) == 8
    assert slices_of(found).tolist() == [2, 8]


def test_the_largest_component_decides_not_the_largest_area():
    # component A: 12 voxels on one slice; component B: 3 slices of 6 = 18 voxels in all
    found = region(np.s_[1, 1:4, 1:5], np.s_[6:9, 5:8, 5:7])
    assert focus_slice(found) == 6
    assert largest_component(found).voxels == 18


def test_equal_areas_take_the_most_superior_slice():
    # display z grows to inferior, so the smallest index is the most superior
    assert focus_slice(region(np.s_[4:9, 2:5, 2:5])) == 4


def test_equal_components_take_the_most_superior_one():
    found = region(np.s_[9, 1:3, 1:3], np.s_[2, 6:8, 5:7])
    assert focus_slice(found) == 2
    assert largest_component(found).box_zyx[0] == slice(2, 3)


def test_an_empty_region_has_no_slice():
    empty = empty_region(GRID)
    assert slices_of(empty).size == 0
    with pytest.raises(ValueError, match="empty"):
        focus_slice(empty)


def test_voxels_that_share_only_a_corner_are_one_component():
    found = region(np.s_[2, 2, 2], np.s_[3, 3, 3])
    assert len(components(found)) == 1
    assert len(components(region(np.s_[2, 2, 2], np.s_[3, 3, 4]))) == 2


def test_components_come_largest_first():
    found = components(region(np.s_[1, 1, 1], np.s_[5:7, 5:7, 5:7], np.s_[9, 1, 1:4]))
    assert found.voxels == (8, 3, 1)
    assert found.region_of(1).box_zyx == (slice(9, 10), slice(1, 2), slice(1, 4))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_of_every_axis(axis):
    found = region(np.s_[3, 4:6, 1:3], np.s_[5, 4:6, 1:3])
    expected = np.flatnonzero(whole(found).any(axis=tuple(a for a in range(3) if a != axis)))
    assert slices_of(found, axis).tolist() == expected.tolist()


def test_box_algebra_equals_array_algebra():
    rng = np.random.default_rng(3)
    for _ in range(30):
        a, b, c = (rng.random(SHAPE) > 0.8 for _ in range(3))
        for array in (a, b, c):
            array[: rng.integers(0, 9)] = False
            array[:, :, rng.integers(1, 8) :] = False
        ra, rb, rc = (region_of(array, GRID) for array in (a, b, c))
        assert np.array_equal(whole(union([ra, rb, rc])), a | b | c)
        left = difference(ra, [rb, rc])
        assert np.array_equal(whole(left), a & ~b & ~c)
        assert left.voxels == np.count_nonzero(a & ~b & ~c)
        assert np.array_equal(whole(ra), a), "the operands stay as they were"


def test_regions_of_different_grids_do_not_mix():
    other = region_of(np.ones(SHAPE, bool), grid(SHAPE, (1.0, 1.0, 3.0)))
    with pytest.raises(ValueError, match="different grids"):
        union([region(np.s_[1, 1, 1]), other])
    with pytest.raises(ValueError, match="different grids"):
        difference(region(np.s_[1, 1, 1]), [other])


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        (np.s_[1:11, 1:9, 1:7], False),
        (np.s_[0, 4, 4], True),
        (np.s_[11, 4, 4], True),
        (np.s_[5, 0, 4], True),
        (np.s_[5, 9, 4], True),
        (np.s_[5, 4, 0], True),
        (np.s_[5, 4, 7], True),
    ],
)
def test_border_contact_on_all_six_sides(box, expected):
    assert region(box).touches_border is expected


def test_components_of_thin_and_scattered_masks_are_those_of_scipy():
    # a library's guess at the number of labels was too low for boxes of one slice or one row
    from scipy import ndimage

    rng = np.random.default_rng(5)
    for number in range(400):
        shape = tuple(int(n) for n in rng.integers(1, 8, 3))
        array = rng.random(shape) < rng.choice([0.1, 0.3, 0.5])
        if number % 3 == 0:
            array[...] = False
            array[:: rng.integers(1, 3), :: rng.integers(1, 3), :: rng.integers(1, 3)] = True
        labels, count = ndimage.label(array, np.ones((3, 3, 3)))
        found = components(region_of(array, grid(shape)))
        assert len(found) == count
        sizes = sorted(np.bincount(labels.ravel())[1:].tolist(), reverse=True)
        assert list(found.voxels) == sizes
        for part in range(count):
            one = found.region_of(part)
            assert one.voxels == one.crop_zyx.sum() == found.voxels[part]
            assert len(np.unique(labels[one.box_zyx][one.crop_zyx])) == 1


def test_two_voxels_apart_in_a_row_are_two_components(capfd):
    row = np.array([[[True, False, True]]])
    assert len(components(region_of(row, grid((1, 1, 3))))) == 2
    assert capfd.readouterr().out == ""


def test_the_slice_shown_is_that_of_the_largest_area():
    # one component whose slices have 1, 6 and 2 voxels: not the first, the last or the middle
    found = region(np.s_[2, 2, 2], np.s_[3, 2:5, 2:4], np.s_[4, 2, 2:4], np.s_[5, 2, 2:4])
    assert focus_slice(found) == 3
