import math

import numpy as np
import pytest
from evidence_cases import grid
from phantoms import ALL_ORDERS

from napari_ctvqa.core.distances import (
    centre_distance_mm,
    holds,
    near,
    offset_mm,
    surface_distance,
    surface_mm,
    within,
)
from napari_ctvqa.core.geometry import FileSpace, Grid, grid_of_file, to_display
from napari_ctvqa.core.regions import empty_region, region_of
from napari_ctvqa.core.sampling import resample_region

SHAPE = (24, 26, 28)


def region(*slices, spacing=(1.0, 1.0, 1.0), on=None):
    on = on or grid(SHAPE, spacing)
    array = np.zeros(on.shape_zyx, bool)
    for part in slices:
        array[part] = True
    return region_of(array, on)


def oblique(angle_deg=25, spacing=(2.0, 0.8, 1.1)):
    c, s = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    turn = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    return Grid(SHAPE, turn @ grid(SHAPE, spacing).affine_zyx_to_ras)


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (2.5, 0.8, 1.3)])
def test_two_boxes_have_the_closed_form_gap(spacing):
    dz, dy, dx = spacing
    first = region(np.s_[2:5, 2:5, 2:5], spacing=spacing)
    second = region(np.s_[9:12, 8:12, 7:12], spacing=spacing)
    gap = surface_distance(first, second)
    # from voxel 4 to voxel 9, 8 and 7 along z, y and x
    assert gap.length_mm == pytest.approx(math.hypot(5 * dz, 4 * dy, 3 * dx))
    ends = [np.array(end) for end in gap.ends_ras_mm]
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(gap.length_mm)
    assert holds(first, ends[0][None])[0] and holds(second, ends[1][None])[0]


def test_touching_is_one_voxel_apart_and_overlapping_is_zero():
    first = region(np.s_[2:5, 2:5, 2:5], spacing=(2.0, 1.0, 1.5))
    assert surface_distance(first, region(np.s_[5, 3, 3], spacing=(2.0, 1.0, 1.5))).length_mm == 2
    assert surface_distance(first, region(np.s_[4, 4, 4], spacing=(2.0, 1.0, 1.5))).length_mm == 0
    inside = region(np.s_[3, 3, 3], spacing=(2.0, 1.0, 1.5))  # hidden below the surface
    assert surface_distance(first, inside).length_mm == 0
    assert surface_distance(inside, first).length_mm == 0


def test_an_empty_region_is_at_no_distance():
    some, empty = region(np.s_[2, 2, 2]), empty_region(grid(SHAPE, (1.0, 1.0, 1.0)))
    assert surface_distance(some, empty) is None and surface_distance(empty, some) is None
    assert centre_distance_mm(some, empty) is None and offset_mm(empty, some) is None
    assert near(some, empty, 5.0) == near(empty, some, 5.0) == 0


def test_distances_are_simpleitks_maurer_distances():
    sitk = pytest.importorskip("SimpleITK")
    rng = np.random.default_rng(4)
    for spacing in ((1.0, 1.0, 1.0), (3.0, 0.7, 1.2)):
        on = grid(SHAPE, spacing)
        first = np.zeros(SHAPE, bool)
        second = np.zeros(SHAPE, bool)
        first[:9, :9, :9] = rng.random((9, 9, 9)) < 0.05
        second[14:, 12:, 13:] = rng.random((10, 14, 15)) < 0.05
        image = sitk.GetImageFromArray(second.astype(np.uint8))
        image.SetSpacing(spacing[::-1])
        to_second = sitk.GetArrayFromImage(sitk.SignedMaurerDistanceMap(image, False, False, True))
        expected = to_second[first].min()
        gap = surface_distance(region_of(first, on), region_of(second, on))
        assert gap.length_mm == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("angle_deg", [0, 25, 90])
def test_oblique_grids_are_exact(angle_deg):
    spacing = (2.0, 0.8, 1.1)
    slices = (np.s_[2:5, 2:5, 2:5], np.s_[9:12, 8:12, 7:12])
    expected = surface_distance(*(region(part, spacing=spacing) for part in slices))
    on = oblique(angle_deg, spacing)
    found = surface_distance(*(region(part, on=on) for part in slices))
    assert found.length_mm == pytest.approx(expected.length_mm)


def test_masks_on_two_grids_are_compared_in_the_world():
    fine = region(np.s_[2:5, 2:5, 2:5])
    other = region(np.s_[9:12, 8:12, 7:12])
    coarse = grid((12, 13, 14), (2.0, 2.0, 2.0))
    moved = Grid(coarse.shape_zyx, coarse.affine_zyx_to_ras.copy())
    moved.affine_zyx_to_ras[:3, 3] = fine.grid.ras_mm((0.5, 0.5, 0.5))  # voxels 2×2×2 of the fine
    elsewhere = resample_region(region(np.s_[10:12, 8:12, 8:12]), moved)
    gap = surface_distance(fine, elsewhere)
    # the coarse voxel (5, 4, 4) has its centre at fine (10.5, 8.5, 8.5); the nearest is (4, 4, 4)
    assert gap.length_mm == pytest.approx(math.hypot(6.5, 4.5, 4.5))
    assert near(fine, other, 5.0) == 0


def test_centres_are_apart_by_the_shift():
    first, second = region(np.s_[2:5, 2:5, 2:5]), region(np.s_[6:9, 5:8, 2:5])
    assert centre_distance_mm(first, second) == pytest.approx(5.0)


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_directions_are_the_patients_whatever_the_order_of_the_file(axcodes):
    import nibabel as nib

    # in RAS: 6 mm to the right, 4 to posterior, 9 to superior of the other
    base = np.zeros((20, 20, 20), np.uint8)
    other, target = base.copy(), base.copy()
    other[5, 12, 4] = 1
    target[8, 10, 7] = 1
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    found = []
    for array in (target, other):
        image = nib.Nifti1Image(array, affine)
        ornt = nib.orientations.axcodes2ornt(tuple(axcodes))
        image = image.as_reoriented(
            nib.orientations.ornt_transform(nib.io_orientation(affine), ornt)
        )
        space = FileSpace(image.shape, image.affine, 1, 1)
        on = grid_of_file(space)
        found.append(region_of(to_display(np.asarray(image.dataobj), on), on))
    shift = offset_mm(*found)
    assert shift == pytest.approx({"right": 6.0, "posterior": 4.0, "superior": 9.0})
    back = offset_mm(found[1], found[0])
    assert back == pytest.approx({"left": 6.0, "anterior": 4.0, "inferior": 9.0})


def test_near_counts_surface_voxels_up_to_the_bound():
    lesion = region(np.s_[10:13, 10:13, 10:13])
    row = region(np.s_[11, 11, 13:20])  # 1, 2, 3 … mm from the lesion's nearest centre
    assert [near(lesion, row, mm) for mm in (0.5, 1.0, 2.5, 4.0)] == [0, 1, 2, 4]


def test_near_counts_what_lies_inside_too():
    lesion = region(np.s_[2:22, 2:22, 2:22])
    deep = region(np.s_[12, 12, 12])  # 10 mm from every surface
    assert near(lesion, deep, 4.0) == 1
    assert within(surface_mm(deep), lesion, 0.0).all()


def test_surface_is_what_has_a_face_outside():
    block = region(np.s_[2:5, 2:5, 2:5])
    assert len(surface_mm(block)) == 26
    assert len(surface_mm(region(np.s_[0:3, 0:3, 0:3]))) == 26  # the border is outside too
