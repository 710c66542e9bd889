import numpy as np
import pytest

from napari_ctvqa.core.cases import Region
from napari_ctvqa.core.colours import RGB, Look
from napari_ctvqa.core.label_styles import StyledLabels, outline, styled_plane

SOLID = Look("solid", 1.0, "plain", 0.2)
WHITE = RGB(255, 255, 255)
TABLE = {1: ("one", WHITE), 2: ("two", WHITE)}


def plane(text):
    return np.array([[int(c) for c in row] for row in text.split()], np.uint8)


def drawn(edge):
    return ["".join("#" if part else "." for part in row) for row in edge]


def test_outline_is_the_outermost_voxel_inside():
    found = outline(plane("000000 011110 011110 011110 000000"))
    assert drawn(found) == ["......", ".####.", ".#..#.", ".####.", "......"]


def test_two_masks_that_touch_both_have_their_edge():
    found = outline(plane("0000000 0111222 0111222 0111222 0000000"))
    assert drawn(found)[2] == ".#.##.#"


def test_mask_at_the_border_is_closed_there():
    assert outline(np.ones((4, 4), np.uint8)).sum() == 12


def test_one_voxel_is_all_outline():
    styled = styled_plane(plane("000 010 000"), 128, SOLID)
    assert styled[1, 1] == 129
    assert styled.sum() == 129


def test_source_array_is_never_changed():
    labels = plane("0000 0110 0110 0000")
    labels.flags.writeable = False
    before = labels.copy()
    for fill in ("plain", "hatch", "cross", "none"):
        styled_plane(labels, 128, Look("dashed", 1.0, fill, 0.5))
    assert np.array_equal(labels, before)


@pytest.mark.parametrize(
    ("fill", "kept"),
    [("plain", 1.0), ("hatch", 0.25), ("none", 0.0)],
)
def test_fill_patterns_keep_part_of_the_inside(fill, kept):
    styled = styled_plane(np.ones((66, 66), np.uint8), 128, Look("solid", 1.0, fill, 0.5))
    assert (styled[1:-1, 1:-1] == 1).mean() == pytest.approx(kept, abs=0.01)
    assert (styled[0] == 129).all()


def test_cross_has_both_diagonals():
    styled = styled_plane(np.ones((40, 40), np.uint8), 128, Look("none", 0.0, "cross", 1.0))
    hatch = styled_plane(np.ones((40, 40), np.uint8), 128, Look("none", 0.0, "hatch", 1.0))
    assert (styled >= hatch).all()
    assert styled.sum() > 1.5 * hatch.sum()
    assert styled.max() == 1


def test_dashes_leave_gaps():
    solid = styled_plane(np.ones((30, 30), np.uint8), 128, SOLID) > 128
    dashed = styled_plane(np.ones((30, 30), np.uint8), 128, Look("dashed", 1.0, "plain", 0.2)) > 128
    assert 0.3 < dashed.sum() / solid.sum() < 0.7
    assert not (dashed & ~solid).any()


def test_planes_are_styled_and_volumes_are_not():
    cube = np.zeros((5, 6, 7), np.uint8)
    cube[1:4, 1:5, 1:6] = 2
    styled = StyledLabels(cube, TABLE, SOLID)
    assert (styled.shape, styled.ndim, styled.dtype) == ((5, 6, 7), 3, np.uint8)
    assert set(np.unique(styled[2, :, :])) == {0, 2, 130}
    assert set(np.unique(styled[:, 3, :])) == {0, 2, 130}
    assert set(np.unique(styled[:, :, 3])) == {0, 2, 130}
    assert set(np.unique(styled[:, :, :])) == {0, 2}
    assert np.array_equal(np.asarray(styled), cube)
    assert styled[2, 2, 2] == 2


def test_boolean_masks_are_labels_of_one():
    cube = np.zeros((3, 4, 4), bool)
    cube[:, 1:3, 1:3] = True
    assert set(np.unique(StyledLabels(cube, {1: ("m", WHITE)}, SOLID)[1, :, :])) == {0, 129}


def test_many_values_take_a_wider_type():
    cube = np.zeros((1, 9, 9), np.uint8)
    cube[0, 2:7, 2:7] = 200
    styled = StyledLabels(cube, {200: ("m", WHITE)}, SOLID)
    assert styled.dtype == np.uint16
    assert set(np.unique(styled[0, :, :])) == {0, 200, 200 + 32768}


def test_nothing_can_be_written():
    styled = StyledLabels(np.zeros((2, 2, 2), np.uint8), TABLE, SOLID)
    with pytest.raises(TypeError):
        styled[0, 0, 0] = 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_hole_is_cut_out_where_it_lies_on_the_grid(axis):
    rng = np.random.default_rng(0)
    grid_labels = np.ones((6, 7, 8), np.uint8)
    inside = np.zeros((6, 7, 8), bool)
    inside[1:4, 3:6, 4:8] = rng.random((3, 3, 4)) > 0.3
    hole = Region(None, (slice(1, 4), slice(3, 6), slice(4, 8)), inside[1:4, 3:6, 4:8], 1)
    corner = (2, 1, 3)  # the drawn array begins here and ends at (6, 5, 7)
    styled = StyledLabels(grid_labels[2:6, 1:5, 3:7], TABLE, Look("none", 0.0, "plain", 1.0))
    styled.corner, styled.hole = corner, hole
    expected = np.where(inside, 0, grid_labels)[2:6, 1:5, 3:7]
    for index in range(4):
        key = [slice(None)] * 3
        key[axis] = index
        assert np.array_equal(styled[tuple(key)], expected[tuple(key)])


def test_plain_plane_counts_on_the_whole_grid():
    cube = np.zeros((3, 3, 3), np.uint8)
    cube[1] = 2
    styled = StyledLabels(cube, TABLE, SOLID)
    styled.corner = (10, 0, 0)
    assert (styled.plain_plane(0, 11) == 2).all()
    assert styled.plain_plane(0, 9).size == 0
    assert styled.plain_plane(0, 13).size == 0


# ------------------------------------------------------------- overlapping, hidden


def two_masks():
    """A square of 8 (value 1) below a square of 4 (value 2), in the middle slice of three."""
    labels = np.zeros((3, 10, 10), np.uint8)
    labels[1, 1:9, 1:9] = 1
    labels[1, 3:7, 3:7] = 2
    below = np.zeros((1, 8, 8), bool)
    below[0] = True
    region = Region(None, (slice(1, 2), slice(1, 9), slice(1, 9)), below, 64)
    return labels, region


def test_a_mask_below_a_smaller_one_is_outlined_over_it():
    labels = np.zeros((1, 6, 6), np.uint8)
    labels[0, :, :3] = 1
    labels[0, 2:4, 0:6] = 2
    crop = np.ones((1, 6, 3), bool)
    data = StyledLabels(labels, TABLE, SOLID)
    data.covered = ((1, Region(None, (slice(0, 1), slice(0, 6), slice(0, 3)), crop, 18)),)
    styled = data[0]
    assert set(styled[2:4, 3:].ravel().tolist()) == {130}  # the smaller one's own edge
    labels[0, 1:5, 0:6] = 2
    styled = data[0]
    assert styled[2, 4] == 2 and styled[2, 1] == 2  # inside both: the smaller one's fill
    assert styled[2, 2] == 129 and styled[3, 2] == 129  # the larger one's edge, seen through it
    assert data.covered_on(0, 0) == {1: 18}


def test_below_a_mask_without_outlines_the_larger_one_is_hatched():
    labels, region = two_masks()
    data = StyledLabels(labels, TABLE, Look("none", 0.0, "plain", 0.3))
    data.covered = ((1, region),)
    inner = data[1][3:7, 3:7]
    assert set(inner.ravel().tolist()) == {1, 2}


def test_a_hidden_mask_leaves_what_it_lies_over_in_its_place():
    labels, region = two_masks()
    data = StyledLabels(labels, TABLE, SOLID)
    data.covered, data.hidden = ((1, region),), frozenset({2})
    alone = StyledLabels(np.where(labels == 2, 1, labels).astype(np.uint8), TABLE, SOLID)
    for key in (1, np.s_[1, :, :], np.s_[:, 4, :], np.s_[:, :, 5]):
        assert np.array_equal(data[key], alone[key])
    assert np.array_equal(data.plain_plane(2, 5), np.asarray(alone)[:, :, 5])
    assert np.array_equal(np.asarray(data), np.asarray(alone))
    assert labels.max() == 2


def test_a_hidden_mask_over_nothing_leaves_nothing():
    labels, region = two_masks()
    data = StyledLabels(labels, TABLE, SOLID)
    data.covered, data.hidden = ((1, region),), frozenset({1, 2})
    assert not data[1].any() and not np.asarray(data).any()
    data.hidden = frozenset({1})
    assert set(np.unique(data[1])) == {0, 2, 130}


@pytest.mark.parametrize("outline", ["dashed", "dotted", "long dashes"])
def test_broken_outlines_differ_by_their_gaps(outline):
    edge = styled_plane(np.ones((80, 80), np.uint8), 128, Look(outline, 1.0, "none", 0.0))[0]
    share = {"dashed": 3 / 6, "dotted": 1 / 2, "long dashes": 7 / 10}[outline]
    assert (edge == 129).mean() == pytest.approx(share, abs=0.03)
    runs = np.flatnonzero(np.diff((edge == 129).astype(int)) == 1)
    assert set(np.diff(runs)) == {{"dashed": 6, "dotted": 2, "long dashes": 10}[outline]}
