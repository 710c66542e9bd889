"""Regions and values brought from one grid to another."""

import numpy as np
import pytest

from napari_ctvqa.core import sampling
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.core.sampling import resample_linear, resample_region


def grid(shape, spacing=(1.0, 1.0, 1.0), origin=(0.0, 0.0, 0.0), degrees=0.0):
    """A display grid along the patient's axes, or turned about the patient's long axis."""
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    affine = np.eye(4)
    frame = np.array([[0, 0, -1], [0, -1, 0], [-1, 0, 0]], float)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    affine[:3, :3] = turn @ frame * spacing
    affine[:3, 3] = origin
    return Grid(shape, affine)


@pytest.fixture
def ball():
    z, y, x = np.ogrid[:20, :24, :28]
    return ((z - 9) / 6) ** 2 + ((y - 12) / 8) ** 2 + ((x - 14) / 9) ** 2 < 1


def whole(region):
    out = np.zeros(region.grid.shape_zyx, bool)
    if region.box_zyx is not None:
        out[region.box_zyx] = region.crop_zyx
    return out


def brute(inside, source, target):
    """Ask for every voxel of the target which voxel of the source is nearest."""
    index = np.stack(np.indices(target.shape_zyx), axis=-1).reshape(-1, 3)
    at = np.floor(source.index_zyx(target.ras_mm(index)) + 0.5).astype(int)
    valid = ((at >= 0) & (at < source.shape_zyx)).all(axis=1)
    out = np.zeros(len(index), bool)
    out[valid] = inside[tuple(at[valid].T)]
    return out.reshape(target.shape_zyx)


@pytest.mark.parametrize(
    "target",
    [
        grid((20, 24, 28)),
        grid((10, 12, 14), (2, 2, 2)),
        grid((40, 48, 56), (0.5, 0.5, 0.5)),
        grid((20, 24, 28), origin=(3.3, -2.2, 5.1)),
        grid((8, 9, 7), (1.3, 2.1, 0.9), (-9.0, -6.0, -4.0)),
        grid((20, 24, 28), degrees=20),
        grid((15, 30, 30), (1.5, 0.9, 1.1), (2.0, 3.0, 1.0), degrees=-75),
    ],
)
def test_each_voxel_asks_its_nearest(ball, target):
    source = grid(ball.shape)
    region = resample_region(region_of(ball, source), target)
    np.testing.assert_array_equal(whole(region), brute(ball, source, target))
    assert region.voxels == whole(region).sum()


def test_the_fast_way_gives_what_the_slow_one_gives(ball, monkeypatch):
    source, target = grid(ball.shape), grid((17, 30, 31), (1.2, 0.8, 0.9), (1.0, 0.5, -0.7))
    fast = resample_region(region_of(ball, source), target)
    monkeypatch.setattr(sampling, "SAME_GRID_VOXELS", -1.0)
    slow = resample_region(region_of(ball, source), target)
    assert fast.box_zyx == slow.box_zyx
    np.testing.assert_array_equal(fast.crop_zyx, slow.crop_zyx)


def test_nothing_stays_nothing(ball):
    empty = region_of(np.zeros_like(ball), grid(ball.shape))
    assert empty.empty and resample_region(empty, grid((5, 5, 5))).empty
    far = grid((5, 5, 5), origin=(500.0, 0.0, 0.0))
    assert resample_region(region_of(ball, grid(ball.shape)), far).empty


def test_a_region_is_cut_to_its_box(ball):
    region = region_of(ball[2:, 3:, 4:], grid(ball.shape), (2, 3, 4))
    np.testing.assert_array_equal(whole(region), ball)
    assert all(region.crop_zyx.any(axis=tuple({0, 1, 2} - {a})).all() for a in range(3))


def test_linear_values_of_a_ramp_are_exact_and_air_lies_outside():
    source, target = grid((10, 10, 10)), grid((10, 10, 30), (1, 1, 0.5))
    ramp = np.broadcast_to(np.arange(10) * 100, (10, 10, 10)).astype(np.int16)
    found = resample_linear(ramp, source, target)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found[5, 5, :19], np.arange(19) * 50)
    assert (found[:, :, 19:] == -1024).all()


def test_the_centroid_is_the_mean_of_the_voxels_not_the_middle_of_their_box():
    # along x: nine voxels at 0 and one at 9; along y one row; along z the odd one stands higher
    array = np.zeros((4, 3, 12), bool)
    array[1, 1, 0:9] = True
    array[3, 1, 9] = True
    found = sampling.centroid_ras_mm(region_of(array, grid((4, 3, 12), (2.0, 1.0, 1.0))))
    # display x runs to the left and z to inferior: RAS is (-x, -y, -z)
    assert found == pytest.approx([-(36 + 9) / 10, -1.0, -2.0 * (9 * 1 + 3) / 10])


def test_the_centroid_of_one_voxel_is_its_centre():
    array = np.zeros((4, 5, 6), bool)
    array[1, 2, 3] = True
    found = sampling.centroid_ras_mm(region_of(array, grid((4, 5, 6), origin=(10.0, 20.0, 30.0))))
    assert found == pytest.approx([10 - 3, 20 - 2, 30 - 1])
