import math

import numpy as np
import pytest
from evidence_cases import grid

from napari_ctvqa.core.contact import contact_around, touching_voxels
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.regions import empty_region, region_of

SHAPE = (40, 60, 60)


def rod(on, radius_mm=6.0, axis=0):
    """A vessel through the middle along one axis of the grid."""
    at = np.indices(on.shape_zyx)
    middle = [(n - 1) / 2 for n in on.shape_zyx]
    others = [a for a in range(3) if a != axis]
    squares = sum(((at[a] - middle[a]) * on.spacing_mm_zyx[a]) ** 2 for a in others)
    return region_of(squares <= radius_mm**2, on)


def sleeve(on, degrees, radius_mm=6.0, axis=0, begin_deg=10.0, gap_mm=0.0):
    """A tumour around the rod: a shell over a part of the circumference, in the middle third."""
    at = np.indices(on.shape_zyx)
    middle = [(n - 1) / 2 for n in on.shape_zyx]
    a, b = (n for n in range(3) if n != axis)
    u, v = ((at[n] - middle[n]) * on.spacing_mm_zyx[n] for n in (a, b))
    apart = np.hypot(u, v)
    turned = (np.degrees(np.arctan2(u, v)) - begin_deg) % 360
    third = abs(at[axis] - middle[axis]) < on.shape_zyx[axis] / 6
    inside = (apart > radius_mm + gap_mm) & (apart < radius_mm + gap_mm + 4) & (turned < degrees)
    return region_of(inside & third, on)


# Contact reaches 1.6 mm here, so that a sleeve's ends reach a little farther than its angle: a
# chord of about 1.6 mm on a circle of 6 mm is some 12 degrees at either end.
ENDS_DEG = 2 * math.degrees(1.6 / 6.5)


@pytest.mark.parametrize("degrees", [60, 90, 150, 180, 210, 270])
def test_the_angle_of_a_sleeve_around_a_rod(degrees):
    on = grid(SHAPE, (1.0, 0.8, 0.8))
    found = contact_around(rod(on), sleeve(on, degrees), within_mm=1.6)
    assert found.angle_deg == pytest.approx(degrees + ENDS_DEG / 2, abs=18)


def test_all_around_and_not_at_all():
    on = grid(SHAPE, (1.0, 0.8, 0.8))
    assert contact_around(rod(on), sleeve(on, 360)).angle_deg == pytest.approx(360.0)
    far = contact_around(rod(on), sleeve(on, 360, gap_mm=6.0))
    assert (far.angle_deg, far.surface_voxels) == (0.0, 0)


def test_the_bound_counts():
    on = grid(SHAPE, (1.0, 1.0, 1.0))
    vessel = region_of(np.broadcast_to(np.arange(60) < 10, SHAPE), on)
    beyond = np.zeros(SHAPE, bool)
    beyond[20, 30, 13] = True  # 4 mm from voxel 9
    assert contact_around(vessel, region_of(beyond, on)).surface_voxels == 1
    beyond[20, 30, 13], beyond[20, 30, 14] = False, True
    assert contact_around(vessel, region_of(beyond, on)).surface_voxels == 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_vessel_along_any_axis_is_cut_across_it(axis):
    on = grid((60, 60, 60), (1.0, 1.0, 1.0))
    found = contact_around(rod(on, axis=axis), sleeve(on, 120, axis=axis), within_mm=1.6)
    assert found.angle_deg == pytest.approx(120 + ENDS_DEG / 2, abs=20)


@pytest.mark.parametrize("angle_deg", [0, 30, 90])
def test_an_oblique_scan_gives_the_same_angle(angle_deg):
    c, s = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    turn = np.array([[c, 0, -s, 3], [0, 1, 0, -7], [s, 0, c, 2], [0, 0, 0, 1.0]])
    straight = grid(SHAPE, (1.0, 0.8, 0.8))
    oblique = Grid(SHAPE, turn @ straight.affine_zyx_to_ras)
    vessel, tumour = rod(straight), sleeve(straight, 150)
    expected = contact_around(vessel, tumour).angle_deg
    other = contact_around(rod(oblique), sleeve(oblique, 150)).angle_deg
    assert other == pytest.approx(expected, abs=1.0)


def test_an_invaded_vessel_is_in_contact_deep_inside_too():
    on = grid(SHAPE, (1.0, 1.0, 1.0))
    whole = region_of(np.ones(SHAPE, bool), on)
    found = contact_around(rod(on), whole)
    assert found.angle_deg == pytest.approx(360.0)


def test_no_vessel_and_no_tumour_have_no_angle():
    on = grid(SHAPE)
    assert contact_around(empty_region(on), rod(on)) is None
    assert contact_around(rod(on), empty_region(on)) is None


def test_touching_means_a_face_an_edge_or_a_corner():
    on = grid((12, 12, 12), (3.0, 1.0, 1.0))
    lesion = np.zeros(on.shape_zyx, bool)
    lesion[5, 5, 5] = True
    for at, touches in (
        ((6, 6, 6), 1),
        ((5, 6, 5), 1),
        ((4, 5, 4), 1),
        ((7, 5, 5), 0),
        ((5, 5, 7), 0),
    ):
        other = np.zeros(on.shape_zyx, bool)
        other[at] = True
        assert touching_voxels(region_of(lesion, on), region_of(other, on)) == touches
    block = np.zeros(on.shape_zyx, bool)
    block[6:9, 3:8, 3:8] = True  # nine voxels of it lie under the lesion
    assert touching_voxels(region_of(lesion, on), region_of(block, on)) == 9
    assert touching_voxels(empty_region(on), region_of(block, on)) == 0
    at_border = np.zeros(on.shape_zyx, bool)
    at_border[0, 0, 0] = True
    beside = np.zeros(on.shape_zyx, bool)
    beside[0, 0, 1] = True
    assert touching_voxels(region_of(at_border, on), region_of(beside, on)) == 1


def test_the_angle_is_that_of_the_slab_with_most_contact():
    # a thin ring all around at one height, a quarter sleeve at another: 360, not 90 and not between
    on = grid(SHAPE, (1.0, 0.8, 0.8))
    at = np.indices(on.shape_zyx)
    y, x = ((at[n] - (on.shape_zyx[n] - 1) / 2) * 0.8 for n in (1, 2))
    shell = (np.hypot(y, x) > 6) & (np.hypot(y, x) < 9)
    quarter = (np.degrees(np.arctan2(y, x)) % 360) < 90
    tumour = shell & ((at[0] == 15) | (quarter & (at[0] > 22) & (at[0] < 30)))
    found = contact_around(rod(on), region_of(tumour, on), within_mm=1.6)
    assert found.angle_deg == pytest.approx(360.0)
    alone = contact_around(rod(on), region_of(shell & quarter & (at[0] > 22), on), within_mm=1.6)
    assert alone.angle_deg < 130


def test_a_flat_vessel_is_seen_from_its_middle():
    # a section of 3 × 9 voxels has 20 at its surface. The short side's three, 4 mm off, reach to
    # half-way between the directions of its corner (4, 1) and the next voxel (3, 1): 32 degrees in
    # all, though they are 3 of 20 (54). The long side's nine reach half-way to (4, 0): 166.
    on = grid(SHAPE, (1.0, 1.0, 1.0))
    vessel = np.zeros(SHAPE, bool)
    vessel[:, 29:32, 26:35] = True
    at_the_end, beside = np.zeros(SHAPE, bool), np.zeros(SHAPE, bool)
    at_the_end[10:20, 29:32, 35] = True
    beside[10:20, 32, 26:35] = True
    narrow = contact_around(region_of(vessel, on), region_of(at_the_end, on), within_mm=1.0)
    wide = contact_around(region_of(vessel, on), region_of(beside, on), within_mm=1.0)
    corner, following = (math.degrees(math.atan2(1, x)) for x in (4, 3))
    assert narrow.angle_deg == pytest.approx(corner + following)
    assert wide.angle_deg == pytest.approx(180 - corner)
