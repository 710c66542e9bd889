import math

import numpy as np
import pytest
from evidence_cases import grid

from napari_ctvqa.core.diameters import longest_axial_diameter, longest_diameter_3d_mm
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.regions import empty_region, region_of

SHAPE = (20, 24, 28)


def boxed(*slices, shape=SHAPE, spacing=(1.0, 1.0, 1.0)):
    array = np.zeros(shape, bool)
    for part in slices:
        array[part] = True
    return region_of(array, grid(shape, spacing))


def in_plane(rows, columns, dy, dx):
    """The outline runs half a voxel beyond the ends of rows and columns, not around corners."""
    return max(math.hypot((rows - 1) * dy, columns * dx), math.hypot(rows * dy, (columns - 1) * dx))


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (5.0, 0.7, 0.7), (2.0, 0.9, 0.6)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (7, 1), (6, 8)])
def test_a_box_has_the_closed_form_diameter_and_perpendicular(spacing, rows, columns):
    found = longest_axial_diameter(
        boxed(np.s_[3:5, 4 : 4 + rows, 5 : 5 + columns], spacing=spacing)
    )
    _, dy, dx = spacing
    assert found.length_mm == pytest.approx(in_plane(rows, columns, dy, dx))
    assert found.display_slice == 3  # both slices are alike: the more superior one
    first, second = map(np.array, found.ends_ras_mm)
    assert np.linalg.norm(first - second) == pytest.approx(found.length_mm)
    assert first[2] == second[2] == pytest.approx(-3 * spacing[0])
    if rows == 1:
        assert found.length_mm == pytest.approx(max(columns * dx, dy))
        assert found.perpendicular_mm == pytest.approx(dy if columns * dx > dy else dx)


def test_one_voxel_is_as_long_as_its_longer_edge():
    found = longest_axial_diameter(boxed(np.s_[3, 4, 5], spacing=(9.0, 2.0, 3.0)))
    assert (found.length_mm, found.perpendicular_mm) == (3.0, 2.0)
    # in 3-D the longest edge is the slice thickness
    assert longest_diameter_3d_mm(boxed(np.s_[3, 4, 5], spacing=(9.0, 2.0, 3.0))) == 9.0


def test_the_perpendicular_of_a_diagonal_bar():
    # 10 voxels along the diagonal: √2 × 9 between the outer centres; across it the outline is one
    # voxel wide: the ends of rows and columns lie half a voxel off, 0.5 √2 on either side
    array = np.zeros((1, 12, 12), bool)
    for n in range(10):
        array[0, n, n] = True
    found = longest_axial_diameter(region_of(array, grid((1, 12, 12), (1.0, 1.0, 1.0))))
    assert found.length_mm == pytest.approx(math.hypot(9, 10))
    angle = math.atan2(9, 10) - math.pi / 4
    # a strip of length 9√2 and width √2/2 × 2, seen at that small angle
    width = max(
        abs((x - y) * math.cos(angle) / math.sqrt(2) - (x + y) * math.sin(angle) / math.sqrt(2))
        for x, y in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5), (9.5, 9), (9, 9.5))
    )
    assert found.perpendicular_mm == pytest.approx(2 * width, rel=0.35)


def test_the_slice_with_the_longest_diameter_and_the_larger_area_of_two_equal():
    longest = boxed(np.s_[2, 3, 3:6], np.s_[9, 3, 3:12], np.s_[12, 3:9, 3:9])
    assert longest_axial_diameter(longest).display_slice == 9
    equal = boxed(np.s_[2, 3, 3:12], np.s_[9, 3, 3:12], np.s_[9, 4, 5:7])
    assert longest_axial_diameter(equal).display_slice == 9


@pytest.mark.parametrize("angle_deg", [0, 17, 45])
def test_turning_the_patient_changes_nothing(angle_deg):
    straight = grid(SHAPE, (3.0, 0.8, 1.1))
    c, s = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    turn = np.array([[c, -s, 0, 5], [s * c, c * c, -s, 0], [s * s, s * c, c, 2], [0, 0, 0, 1.0]])
    assert np.allclose(turn[:3, :3] @ turn[:3, :3].T, np.eye(3))
    oblique = Grid(SHAPE, turn @ straight.affine_zyx_to_ras)
    array = np.random.default_rng(3).random(SHAPE) < 0.02
    first, second = (longest_axial_diameter(region_of(array, on)) for on in (straight, oblique))
    assert second.length_mm == pytest.approx(first.length_mm)
    assert second.perpendicular_mm == pytest.approx(first.perpendicular_mm)
    assert second.display_slice == first.display_slice
    both = [longest_diameter_3d_mm(region_of(array, on)) for on in (straight, oblique)]
    assert both[0] == pytest.approx(both[1])


def test_a_sheared_slice_is_measured_on_its_true_geometry():
    # columns lean by 30 degrees: a row of 5 and a column of 5 are no longer at a right angle
    lean = math.radians(30)
    affine = np.eye(4)
    affine[:3, 1] = [2 * math.sin(lean), -2 * math.cos(lean), 0]
    affine[:3, 2] = [-2, 0, 0]
    affine[:3, 0] = [0, 0, -3]
    array = np.zeros((1, 5, 5), bool)
    array[...] = True
    found = longest_axial_diameter(region_of(array, Grid((1, 5, 5), affine)))
    corners = ((0, 4.5), (4, -0.5), (4.5, 0), (-0.5, 4), (0, -0.5), (4, 4.5))
    ends = [np.array([2 * y * math.sin(lean) - 2 * x, -2 * y * math.cos(lean)]) for y, x in corners]
    farthest = max(float(np.linalg.norm(a - b)) for a in ends for b in ends)
    assert found.length_mm == pytest.approx(farthest)


def test_the_hull_misses_no_pair():
    # brute force over every outline point of every slice
    rng = np.random.default_rng(11)
    array = rng.random((4, 18, 21)) < 0.2
    on = grid(array.shape, (2.0, 0.7, 1.3))
    best = 0.0
    for plane in array:
        y, x = np.nonzero(plane)
        points = np.concatenate(
            [np.stack([y + dy, x + dx], 1) for dy, dx in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5))]
        ) * [0.7, 1.3]
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        best = max(best, apart.max())
    assert longest_axial_diameter(region_of(array, on)).length_mm == pytest.approx(best)


def test_the_3d_diameter_of_a_box_is_the_longest_of_its_three_outlines():
    dz, dy, dx = 2.5, 0.8, 1.2
    found = longest_diameter_3d_mm(boxed(np.s_[1:7, 2:12, 3:20], spacing=(dz, dy, dx)))
    nz, ny, nx = 6, 10, 17
    expected = max(
        math.hypot(nz * dz, (ny - 1) * dy, (nx - 1) * dx),
        math.hypot((nz - 1) * dz, ny * dy, (nx - 1) * dx),
        math.hypot((nz - 1) * dz, (ny - 1) * dy, nx * dx),
    )
    assert found == pytest.approx(expected)


def test_a_ball_is_as_wide_in_3d_as_in_plane():
    at = np.indices((41, 41, 41)) - 20
    ball = region_of((at**2).sum(axis=0) <= 18**2, grid((41, 41, 41), (1.0, 1.0, 1.0)))
    assert longest_axial_diameter(ball).length_mm == pytest.approx(37.0)
    assert longest_diameter_3d_mm(ball) == pytest.approx(37.0, abs=0.5)
    assert longest_axial_diameter(ball).display_slice == 20


def test_an_empty_region_has_no_diameter():
    empty = empty_region(grid(SHAPE))
    assert longest_axial_diameter(empty) is None and longest_diameter_3d_mm(empty) is None
