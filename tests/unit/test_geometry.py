"""Which voxel lies where, against nibabel and against plain matrix arithmetic."""

from itertools import product

import nibabel as nib
import numpy as np
import pytest
from phantoms import ALL_ORDERS

from napari_ctvqa.core.geometry import FileSpace, Grid, grid_of_file, to_display, to_file_order

SHAPE = (4, 5, 6)


def space(affine, shape=SHAPE):
    return FileSpace(shape, np.asarray(affine, float), 1, 1)


def oriented(axcodes, spacing=(1.0, 2.0, 3.0)):
    """Return the affine of a grid whose axes run to ``axcodes``, first voxel at (7, -3, 2)."""
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    affine[:3, 3] = [7, -3, 2]
    for column, letter in enumerate(axcodes):
        row = next(r for r, pair in enumerate(("RL", "AP", "SI")) if letter in pair)
        affine[row, column] = spacing[column] * (1 if letter in "RAS" else -1)
    return affine


def random_affines(count, sheared):
    rng = np.random.default_rng(7)
    for _ in range(count):
        rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        affine = np.eye(4)
        affine[:3, :3] = rotation * rng.uniform(0.5, 5, 3)
        affine[:3, 3] = rng.uniform(-200, 200, 3)
        if sheared:
            shear = np.eye(3) + np.triu(rng.normal(0, 0.2, (3, 3)), 1)
            affine[:3, :3] = affine[:3, :3] @ shear
        yield affine


def turned_about(axis, degrees, spacing=(1.0, 1.0, 1.0)):
    angle = np.deg2rad(degrees)
    c, s = np.cos(angle), np.sin(angle)
    rotation = {
        "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }[axis]
    affine = np.eye(4)
    affine[:3, :3] = np.array(rotation) * spacing
    return affine


def test_there_are_48_axis_orders():
    assert len(set(ALL_ORDERS)) == 48


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_axcodes_and_spacing_are_the_files_own(axcodes):
    file = space(oriented(axcodes))
    assert file.axcodes == axcodes
    assert file.spacing_mm_ijk == pytest.approx((1.0, 2.0, 3.0))


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_display_axes_run_to_inferior_posterior_left(axcodes):
    grid = grid_of_file(space(oriented(axcodes)))
    assert [grid.direction_letters(v) for v in np.eye(3)] == ["I", "P", "L"]
    assert [grid.direction_letters(-v) for v in np.eye(3)] == ["S", "A", "R"]


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_one_voxel_keeps_its_place_in_the_world(axcodes):
    affine = oriented(axcodes)
    grid = grid_of_file(space(affine))
    array = np.zeros(SHAPE, np.uint8)
    array[1, 3, 2] = 1
    shown = to_display(array, grid)
    found = np.argwhere(shown)[0]
    expected = affine[:3, :3] @ [1, 3, 2] + affine[:3, 3]
    np.testing.assert_allclose(grid.ras_mm(found), expected, atol=1e-9)
    np.testing.assert_allclose(grid.index_zyx(expected), found, atol=1e-9)
    np.testing.assert_allclose(grid.file_index_ijk(found), [1, 3, 2])
    np.testing.assert_allclose(grid.display_index_zyx([1, 3, 2]), found)
    for axis in range(3):
        file_axis, index = grid.file_slice(axis, int(found[axis]))
        assert index == [1, 3, 2][file_axis]
    assert grid.voxel_mm3 == pytest.approx(6.0)


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_ras_slice_counts_as_nibabels_canonical_image_does(axcodes):
    array = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(np.int16)
    canonical = nib.as_closest_canonical(nib.Nifti1Image(array, oriented(axcodes)))
    ras = np.asarray(canonical.dataobj)
    grid = grid_of_file(space(oriented(axcodes)))
    shown = to_display(array, grid)
    for index in range(shown.shape[0]):
        k = grid.ras_slice(0, index)
        np.testing.assert_array_equal(shown[index], ras[::-1, ::-1, k].T)


def test_display_is_a_view_and_goes_back():
    array = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    for axcodes in ALL_ORDERS:
        grid = grid_of_file(space(oriented(axcodes)))
        shown = to_display(array, grid)
        assert np.shares_memory(shown, array)
        assert shown.shape == grid.shape_zyx
        np.testing.assert_array_equal(to_file_order(shown, grid), array)


@pytest.mark.parametrize("sheared", [False, True])
def test_axes_are_chosen_as_nibabel_chooses_them(sheared):
    for affine in random_affines(400, sheared):
        assert space(affine).axcodes == "".join(nib.aff2axcodes(affine))


def test_round_trips_hold_on_any_affine():
    index = np.array(list(product(range(3), range(4), range(5))), float)
    for affine in random_affines(50, sheared=True):
        grid = grid_of_file(space(affine))
        np.testing.assert_allclose(grid.index_zyx(grid.ras_mm(index)), index, atol=1e-4)
        ijk = grid.file_index_ijk(index)
        expected = ijk @ affine[:3, :3].T + affine[:3, 3]
        np.testing.assert_allclose(grid.ras_mm(index), expected, atol=1e-4)


def test_oblique_directions_have_two_letters_largest_first():
    grid = grid_of_file(space(turned_about("z", 30)))
    assert grid.direction_letters([0, 0, 1]) == "LP"
    assert grid.direction_letters([0, 1, 0]) == "PR"
    assert grid.direction_letters([1, 0, 0]) == "I"
    assert grid_of_file(space(turned_about("z", 0.2))).direction_letters([0, 0, 1]) == "L"


def test_a_vector_without_length_points_nowhere():
    assert grid_of_file(space(np.eye(4))).direction_letters([0, 0, 0]) == ""


def test_oblique_and_shear_angles():
    turned = grid_of_file(space(turned_about("x", 10, (1, 1, 2.5))))
    assert turned.oblique_deg == pytest.approx(10)
    assert turned.shear_deg == pytest.approx(0, abs=1e-6)
    assert not turned.sheared
    tilted = np.diag([1, 1, 2.5, 1.0])
    tilted[1, 2] = 0.5
    grid = grid_of_file(space(tilted))
    assert grid.shear_deg == pytest.approx(np.rad2deg(np.arctan(0.2)))
    assert grid.sheared
    assert grid.voxel_mm3 == pytest.approx(2.5)


def test_a_shear_too_small_to_see_is_drawn_as_it_is():
    slight = np.eye(4)
    slight[1, 2] = 1e-4
    assert not grid_of_file(space(slight, (512, 512, 300))).sheared


def test_a_small_shear_over_many_slices_misplaces_voxels_and_counts():
    slight = np.eye(4)
    slight[1, 2] = 5e-3
    assert not grid_of_file(space(slight, (8, 8, 8))).sheared
    assert grid_of_file(space(slight, (512, 512, 600))).sheared


def test_the_grid_for_drawing_holds_every_corner_along_the_patients_axes():
    for affine in random_affines(50, sheared=True):
        grid = grid_of_file(space(affine, (9, 8, 7)))
        box = grid.orthogonal()
        assert [box.direction_letters(v) for v in np.eye(3)] == ["I", "P", "L"]
        assert box.shear_deg == box.oblique_deg == 0
        assert box.spacing_mm_zyx == pytest.approx(grid.spacing_mm_zyx)
        corners = list(product(*((0, n - 1) for n in grid.shape_zyx)))
        at = box.index_zyx(grid.ras_mm(corners))
        assert (at > -1e-6).all() and (at < np.array(box.shape_zyx) - 1 + 1e-6).all()
        assert box.file is None


def test_same_grid_within_a_thousandth_of_a_voxel():
    base = grid_of_file(space(oriented("LPS")))
    near, far = oriented("LPS"), oriented("LPS")
    near[0, 3] += 0.0009
    far[0, 3] += 0.0011
    assert base.same_as(grid_of_file(space(near)))
    assert not base.same_as(grid_of_file(space(far)))
    assert not base.same_as(grid_of_file(space(oriented("LPS"), (4, 5, 7))))


def test_another_axis_order_of_the_same_voxels_is_the_same_grid():
    image = nib.Nifti1Image(np.zeros(SHAPE, np.uint8), oriented("LPS"))
    flip = nib.orientations.ornt_transform(
        nib.io_orientation(image.affine), nib.orientations.axcodes2ornt("SAR")
    )
    other = image.as_reoriented(flip)
    assert other.shape != image.shape
    assert grid_of_file(space(other.affine, other.shape)).same_as(grid_of_file(space(image.affine)))


@pytest.mark.parametrize(
    ("affine", "word"),
    [
        (np.full((4, 4), np.nan), "finite"),
        (np.diag([1.0, 0, 1, 1]), "length"),
        (np.diag([1.0, 1, 1e-8, 1]), "voxels of"),
        (np.diag([1.0, 1, 1e8, 1]), "kilometre"),
        (np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]), "plane"),
    ],
)
def test_an_affine_that_places_no_voxel_is_refused(affine, word):
    with pytest.raises(ValueError, match=word):
        grid_of_file(space(affine))


def test_a_display_grid_has_no_file():
    grid = Grid((2, 2, 2), np.eye(4))
    assert grid.file is None
    assert grid.file_slice(0, 1) is None
