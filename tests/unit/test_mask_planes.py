import numpy as np
import pytest

from napari_ctvqa.core.colours import RGB, Look
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.mask_planes import MaskPlanes, box_around
from napari_ctvqa.core.plane_pictures import Sheet, masks_on_plane

RED, BLUE = RGB(255, 40, 0), RGB(10, 60, 250)


def masks(shape, corner, value, colour, look):
    data = StyledLabels(np.full(shape, value, np.uint8), {value: ("m", colour)}, look)
    data.corner = corner
    return data


@pytest.fixture
def sheets():
    plain, lined = Look("none", 0.0, "plain", 0.3), Look("solid", 0.8, "plain", 0.45)
    return (
        Sheet("below", masks((4, 6, 5), (2, 1, 3), 1, RED, plain)),
        Sheet("above", masks((3, 3, 7), (4, 3, 4), 2, BLUE, lined), 0.5),
    )


@pytest.fixture
def planes(sheets):
    made = MaskPlanes(*box_around(sheet.labels for sheet in sheets))
    made.sheets = sheets
    return made


def test_the_box_holds_all_masks(planes):
    assert planes.corner == (2, 1, 3)
    assert planes.shape == (5, 6, 8, 4)
    assert box_around([]) is None


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_plane_laid_over_grey_is_that_of_the_planes_beside(planes, sheets, axis):
    key = [slice(None)] * 3
    for inside in range(planes.shape[axis]):
        key[axis] = inside
        found = planes[tuple(key)].astype(float)
        packed = np.zeros(found.shape[:2], np.uint32)
        overlay = masks_on_plane(sheets, axis, inside + planes.corner[axis])
        corner = [c for at, c in enumerate(planes.corner) if at != axis]
        row, column = (a - b for a, b in zip(overlay.corner, corner, strict=True))
        high, wide = overlay.pixels.shape
        packed[row : row + high, column : column + wide] = overlay.pixels
        alpha = (packed >> 24).astype(float)[..., None]
        parts = np.stack([(packed >> shift) & 255 for shift in (16, 8, 0)], axis=-1)
        assert np.array_equal(found[..., 3:], alpha)
        for grey in (0, 128, 255):
            ours = found[..., :3] * alpha / 255 + grey * (1 - alpha / 255)
            beside = parts + grey * (1 - alpha / 255)
            assert abs(ours - beside).max() <= 0.5
        assert (alpha > 0).any()


def test_an_opaque_mask_keeps_its_colour_and_nothing_else_is_coloured():
    data = masks((1, 1, 1), (0, 0, 0), 1, RED, Look("none", 0.0, "plain", 1.0))
    planes = MaskPlanes((0, 0, 0), (2, 2, 2))
    planes.sheets = (Sheet("one", data),)
    assert planes[0].tolist() == [[[255, 40, 0, 255], [0] * 4], [[0] * 4, [0] * 4]]
    assert not planes[1].any()


def test_whatever_is_no_plane_is_one_voxel_without_colour(planes):
    assert planes[:, :, :].shape == (1, 1, 1, 4)
    assert not planes[:, :, :].any()
    assert planes[1, 2, 3].shape == (4,)
    with pytest.raises(TypeError, match="plane by plane"):
        np.asarray(planes)
