import nibabel as nib
import numpy as np
import pytest
from phantoms import ALL_ORDERS

from napari_ctvqa.core.boxes import bbox_ijk, bounding_box
from napari_ctvqa.core.geometry import FileSpace, Grid, grid_of_file, to_display
from napari_ctvqa.core.regions import empty_region, region_of


def image_in(axcodes):
    """A RAS array with one box, turned into a file of another order; and its canonical array."""
    array = np.zeros((11, 13, 17), np.uint8)
    array[2:5, 3:9, 6:16] = 1
    affine = np.diag([2.0, 0.5, 3.0, 1.0])
    affine[:3, 3] = [-10, 20, 5]
    image = nib.Nifti1Image(array, affine)
    ornt = nib.orientations.axcodes2ornt(tuple(axcodes))
    return image.as_reoriented(nib.orientations.ornt_transform(nib.io_orientation(affine), ornt))


def ends_of(array):
    """Half-open index ranges, found with NumPy alone."""
    at = np.argwhere(array)
    return tuple(int(n) for pair in zip(at.min(0), at.max(0) + 1, strict=True) for n in pair)


@pytest.mark.parametrize("axcodes", ALL_ORDERS)
def test_a_box_in_the_files_order_in_ras_order_and_in_the_world(axcodes):
    image = image_in(axcodes)
    on = grid_of_file(FileSpace(image.shape, image.affine, 1, 1))
    shown = to_display(np.asarray(image.dataobj), on)
    found = bounding_box(region_of(shown, on))
    assert found.file_ijk == ends_of(np.asarray(image.dataobj))
    assert list(found.file_ijk) == bbox_ijk(region_of(shown, on))
    canonical = nib.as_closest_canonical(image)
    assert found.ras_xyz == ends_of(np.asarray(canonical.dataobj)) == (2, 5, 3, 9, 6, 16)
    assert found.display_zyx == ends_of(shown)
    assert found.size_mm_zyx == pytest.approx((10 * 3.0, 6 * 0.5, 3 * 2.0))
    # from the outer face of the first voxel to that of the last, by the canonical affine
    assert found.low_ras_mm == pytest.approx((-10 + 1.5 * 2, 20 + 2.5 * 0.5, 5 + 5.5 * 3))
    assert found.high_ras_mm == pytest.approx((-10 + 4.5 * 2, 20 + 8.5 * 0.5, 5 + 15.5 * 3))


def test_an_empty_region_has_no_box():
    on = Grid((3, 4, 5), np.eye(4))
    assert bounding_box(empty_region(on)) is None and bbox_ijk(empty_region(on)) is None


def test_one_voxel_has_a_box_of_one_voxel():
    on = grid_of_file(FileSpace((5, 6, 7), np.diag([-1.0, -2.0, 3.0, 1.0]), 1, 1))
    array = np.zeros((5, 6, 7), bool)
    array[1, 2, 3] = True
    found = bounding_box(region_of(to_display(array, on), on))
    assert found.file_ijk == (1, 2, 2, 3, 3, 4)
    assert found.ras_xyz == (3, 4, 3, 4, 3, 4)
    assert found.size_mm_zyx == (3.0, 2.0, 1.0)
