import math

import numpy as np
import pytest
from evidence_cases import grid

from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.regions import empty_region, region_of
from napari_ctvqa.core.shape import border_contact, sphericity, surface_area_mm2

SHAPE = (30, 30, 30)


def block(shape=SHAPE, spacing=(1.0, 1.0, 1.0), at=np.s_[5:15, 5:20, 5:25]):
    array = np.zeros(shape, bool)
    array[at] = True
    return region_of(array, grid(shape, spacing))


def ball(radius, spacing=(1.0, 1.0, 1.0)):
    counts = [int(2 * radius / s) + 5 for s in spacing]
    at = np.indices(counts)
    squares = sum(((at[a] - (counts[a] - 1) / 2) * spacing[a]) ** 2 for a in range(3))
    return region_of(squares <= radius**2, grid(tuple(counts), spacing))


def bevelled_mm2(a, b, c):
    """The mesh of a box of unit voxels: it cuts the edges half-way to the outer centres.

    Faces between the outermost centres; along each edge a strip of half a diagonal, √2 / 2; at
    each corner a triangle with edges of that length, √3 / 8.
    """
    faces = 2 * (a * b + b * c + c * a)
    strips = 4 * (a + b + c) * math.sqrt(2) / 2
    return faces + strips + 8 * math.sqrt(3) / 8


def test_a_box_has_the_closed_form_area_of_its_mesh():
    assert surface_area_mm2(block()) == pytest.approx(bevelled_mm2(9, 14, 19), rel=1e-5)


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (2.0, 0.8, 1.2)])
def test_a_ball_is_nearly_round(spacing):
    # a mesh on voxels is 5 to 15 % larger than the ball it stands for
    found = ball(14.0, spacing)
    assert 1.05 < surface_area_mm2(found) / (4 * math.pi * 14**2) < 1.15
    assert 0.87 < sphericity(found) < 0.96


def test_a_needle_is_not():
    assert sphericity(block(at=np.s_[2:28, 5, 5])) < 0.65
    ratio = sphericity(block())
    volume, area = 10 * 15 * 20, bevelled_mm2(9, 14, 19)
    assert ratio == pytest.approx(math.pi ** (1 / 3) * (6 * volume) ** (2 / 3) / area, rel=1e-5)


def test_turning_and_scaling_leave_sphericity_alone():
    straight = block(spacing=(2.0, 2.0, 2.0))
    turn = np.array([[0, -1, 0, 0], [0.6, 0, -0.8, 0], [0.8, 0, 0.6, 0], [0, 0, 0, 1.0]])
    turned = Grid(SHAPE, turn @ straight.grid.affine_zyx_to_ras)
    other = region_of(block().crop_zyx, turned)
    assert sphericity(other) == pytest.approx(sphericity(straight), rel=1e-5)
    assert sphericity(straight) == pytest.approx(sphericity(block()), rel=1e-5)


def test_nothing_has_no_shape():
    empty = empty_region(grid(SHAPE))
    assert (surface_area_mm2(empty), sphericity(empty), border_contact(empty)) == (0.0, None, {})


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (np.s_[5:15, 5:20, 5:25], {}),
        (np.s_[0:15, 5:20, 5:25], {"superior": 300}),
        (np.s_[5:30, 5:20, 5:25], {"inferior": 300}),
        (np.s_[5:15, 0:20, 5:25], {"anterior": 200}),
        (np.s_[5:15, 5:30, 5:25], {"posterior": 200}),
        (np.s_[5:15, 5:20, 0:25], {"right": 150}),
        (np.s_[5:15, 5:20, 5:30], {"left": 150}),
        (np.s_[0:30, 5:6, 5:6], {"superior": 1, "inferior": 1}),
    ],
)
def test_faces_that_cut_a_region_are_named_by_what_lies_beyond(at, expected):
    assert border_contact(block(at=at)) == expected
