import numpy as np
import pytest

from napari_ctvqa.core.colours import RGB, Look
from napari_ctvqa.core.geometry import FileSpace, grid_of_file
from napari_ctvqa.core.label_styles import StyledLabels, styled_plane
from napari_ctvqa.core.plane_pictures import (
    PlaneScene,
    Sheet,
    Slab,
    plane_letters,
    plane_overlay,
    plane_picture,
    plane_spacing_mm,
    row_and_column_axis,
)

SHAPE_ZYX = (7, 11, 13)
SPACING_MM_ZYX = (2.5, 0.9, 0.7)
FILL = Look("solid", 0.9, "plain", 0.3)
RED, GREEN, BLUE = RGB(250, 10, 30), RGB(20, 240, 60), RGB(40, 30, 220)


def grid_like(shape_zyx=SHAPE_ZYX, spacing_mm_zyx=SPACING_MM_ZYX):
    z, y, x = spacing_mm_zyx
    affine = np.diag([-x, -y, -z, 1.0])
    return grid_of_file(FileSpace(shape_zyx[::-1], affine, 1, 1))


def noise(dtype=np.int16):
    hu = np.random.default_rng(1).normal(40, 200, SHAPE_ZYX)
    return hu.astype(dtype)


def sheet(name, labels, table, *, corner=(0, 0, 0), opacity=1.0, look=FILL):
    styled = StyledLabels(labels, table, look)
    styled.corner = corner
    return Sheet(name, styled, opacity)


def expected(scene, axis, index):
    """Lay every voxel's colours over its grey in floating point, one after the other."""
    lo, hi = scene.window_hu
    hu = np.take(scene.ct_zyx, index, axis=axis).astype(float)
    picture = np.repeat(np.clip((hu - lo) / (hi - lo), 0, 1)[..., None], 3, axis=2)
    for part in scene.sheets:
        labels = part.labels
        inside = index - labels.corner[axis]
        if not 0 <= inside < labels.shape[axis]:
            continue
        key = [slice(None)] * 3
        key[axis] = inside
        plane = labels[tuple(key)]
        for row, column in np.argwhere(plane):
            value = int(plane[row, column])
            on_edge = value >= labels.edge_offset
            colour = labels.table[value - labels.edge_offset * on_edge][1]
            alpha = labels.look.outline_alpha if on_edge else labels.look.fill_alpha
            alpha *= part.opacity
            corner = [labels.corner[a] for a in row_and_column_axis(axis)]
            there = row + corner[0], column + corner[1]
            picture[there] = picture[there] * (1 - alpha) + np.array(colour) / 255 * alpha
    return picture * 255


def scene_of(*sheets, dtype=np.int16, slab=None):
    return PlaneScene(noise(dtype), grid_like(), (-160.0, 240.0), sheets, slab)


def blocks(dtype):
    labels = np.zeros((5, 6, 8), dtype)
    labels[:4, 1:6, 1:7] = 1
    labels[2:, 2:4, 3:] = 2
    return labels


def three_sheets(dtype=np.uint8):
    organs = sheet("organs", blocks(dtype), {1: ("a", RED), 2: ("b", GREEN)}, corner=(1, 2, 3))
    lesion = np.ones((3, 4, 4), bool)
    tool = np.zeros(SHAPE_ZYX, np.uint8)
    tool[:, 4:, 5:] = 1
    return (
        organs,
        sheet("lesions", lesion, {1: ("c", BLUE)}, corner=(2, 3, 4), opacity=0.35),
        sheet("tool", tool, {1: ("d", RED)}, look=Look("dashed", 1.0, "hatch", 0.4)),
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_plane_is_its_masks_laid_over_the_windowed_ct(axis):
    scene = scene_of(*three_sheets())
    for index in range(SHAPE_ZYX[axis]):
        found = plane_picture(scene, axis, index)
        assert found.dtype == np.uint8
        assert abs(found - expected(scene, axis, index)).max() <= 2.0


def test_more_than_127_structures_are_drawn_alike():
    labels = blocks(np.uint16)
    labels[labels == 2] = 300
    scene = scene_of(sheet("organs", labels, {1: ("a", RED), 300: ("b", GREEN)}))
    assert abs(plane_picture(scene, 0, 3) - expected(scene, 0, 3)).max() <= 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_hu_with_fractions_are_windowed_alike(dtype):
    scene = scene_of(dtype=dtype)
    assert abs(plane_picture(scene, 1, 5) - expected(scene, 1, 5)).max() <= 1.0


def test_a_value_without_a_colour_shows_the_ct():
    scene = scene_of(sheet("organs", blocks(np.uint8), {1: ("a", RED)}))
    plane, grey = plane_picture(scene, 0, 3), plane_picture(scene_of(), 0, 3)
    assert np.array_equal(plane[2:4, 3:8], grey[2:4, 3:8])
    assert not np.array_equal(plane, grey)


@pytest.mark.parametrize(("kind", "of"), [("mip", np.max), ("mean", np.mean), ("minip", np.min)])
def test_a_slab_is_the_largest_mean_or_smallest_of_its_slices(kind, of):
    scene = scene_of(slab=Slab(kind, 7.4))  # 2.5 mm slices: 3 of them
    lo, hi = scene.window_hu
    hu = of(scene.ct_zyx[2:5].astype(float), axis=0)
    grey = np.clip((hu - lo) / (hi - lo), 0, 1) * 255
    assert abs(plane_picture(scene, 0, 3)[..., 0] - grey).max() <= 1.0
    first = of(scene.ct_zyx[:2].astype(float), axis=0)
    grey = np.clip((first - lo) / (hi - lo), 0, 1) * 255
    assert abs(plane_picture(scene, 0, 0)[..., 0] - grey).max() <= 1.0


def test_a_slab_counts_slices_by_the_planes_own_spacing():
    slab = Slab("mip", 4.6)
    assert [slab.range_of(5, 11, mm) for mm in (2.5, 0.9, 20.0)] == [(5, 6), (3, 8), (5, 6)]
    assert slab.range_of(0, 11, 0.9) == (0, 3)
    assert slab.range_of(10, 11, 0.9) == (8, 11)


def test_the_masks_of_a_slab_are_those_of_its_middle_slice():
    sheets = three_sheets()
    thick, thin = scene_of(*sheets, slab=Slab("mip", 20.0)), scene_of(*sheets)
    assert np.array_equal(plane_overlay(thick, 0, 3).pixels, plane_overlay(thin, 0, 3).pixels)


def test_no_slice_beyond_the_ends():
    with pytest.raises(IndexError):
        plane_picture(scene_of(), 0, -1)
    with pytest.raises(IndexError):
        plane_picture(scene_of(), 2, SHAPE_ZYX[2])


def test_no_mask_on_the_slice_leaves_no_overlay():
    scene = scene_of(*three_sheets()[:2])
    assert plane_overlay(scene, 0, 0) is None


def test_a_hole_for_the_mask_that_stands_out_shows_the_ct():
    from napari_ctvqa.core.cases import Region

    grid = grid_like()
    organs = three_sheets()[0]
    hole = Region(grid, (slice(2, 4), slice(4, 6), slice(5, 8)), np.ones((2, 2, 3), bool), 12)
    organs.labels.hole = hole
    plane, grey = plane_picture(scene_of(organs), 0, 3), plane_picture(scene_of(), 0, 3)
    assert np.array_equal(plane[4:6, 5:8], grey[4:6, 5:8])
    assert not np.array_equal(plane[2:4, 5:8], grey[2:4, 5:8])


def test_spacing_is_that_of_rows_and_columns():
    grid = grid_like()
    assert [plane_spacing_mm(grid, a) for a in range(3)] == [(0.9, 0.7), (2.5, 0.7), (2.5, 0.9)]


def test_letters_are_radiological_and_follow_a_mirrored_plane():
    grid = grid_like()
    letters = [plane_letters(grid, a) for a in range(3)]
    assert [(e.left, e.right, e.top, e.bottom) for e in letters] == [
        ("R", "L", "A", "P"),
        ("R", "L", "S", "I"),
        ("A", "P", "S", "I"),
    ]
    nose_right = plane_letters(grid, 2, mirrored=True)
    assert (nose_right.left, nose_right.right, nose_right.top) == ("P", "A", "S")


def test_an_oblique_plane_has_two_letters_the_larger_part_first():
    angle = np.deg2rad(20)
    affine = np.eye(4)
    affine[:3, :3] = [
        [-np.cos(angle), np.sin(angle), 0],
        [-np.sin(angle), -np.cos(angle), 0],
        [0, 0, -1],
    ]
    grid = grid_of_file(FileSpace((13, 11, 7), affine, 1, 1))
    assert plane_letters(grid, 0).right == "LP"
    assert plane_letters(grid, 0).top == "AL"


def test_styled_planes_are_what_is_coloured():
    labels = blocks(np.uint8)
    part = sheet("organs", labels, {1: ("a", RED), 2: ("b", GREEN)})
    colours = plane_overlay(scene_of(part), 0, 1).pixels
    styled = styled_plane(labels[1], 128, FILL)
    assert np.array_equal(colours != 0, styled != 0)
    assert set((colours[styled > 128] >> 24).tolist()) == {round(255 * 0.9)}
