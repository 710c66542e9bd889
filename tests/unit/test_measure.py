from pathlib import Path

import numpy as np
import pytest
from evidence_cases import grid, mask

from napari_ctvqa.core.cases import GeometryReport, Mask, Source, Volume
from napari_ctvqa.core.diameters import longest_axial_diameter
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.measure import (
    BORDER_CAVEAT,
    EMPTY_CAVEAT,
    MEASURED,
    RADGPT_10MM3,
    RADGPT_AI_50MM3,
    SizeFilter,
    hu_percentile,
    hu_statistics,
    largest_lesion_diameter_cm,
    largest_lesion_volume_cm3,
    lesion_count,
    max_diameter_mm,
    mean_hu,
    measured,
    volume_cm3,
)
from napari_ctvqa.core.regions import region_of

SHAPE = (30, 40, 50)
UNIT = grid(SHAPE, (1.0, 1.0, 1.0))


def boxes(*slices, shape=SHAPE):
    array = np.zeros(shape, bool)
    for part in slices:
        array[part] = True
    return array


def ball(radius_mm, spacing_mm, shape=SHAPE):
    centre = [(n - 1) / 2 for n in shape]
    at = np.indices(shape)
    squares = [((at[a] - centre[a]) * spacing_mm[a]) ** 2 for a in range(3)]
    return sum(squares) <= radius_mm**2


def volume(hu, on):
    return Volume(hu, on, hu, on, GeometryReport(), Path("ct.nii.gz"), -1000.0, 1000.0)


# ------------------------------------------------------------------------------------ volumes


def test_volume_is_voxels_times_voxel_size():
    on = grid(SHAPE, (2.5, 0.8, 0.5))  # 1 mm³
    found = volume_cm3([mask("liver", boxes(np.s_[5:15, 5:25, 5:35]), on)])
    assert found.value == pytest.approx(10 * 20 * 30 / 1000)
    assert (found.unit, found.caveats) == ("cm³", ())


@pytest.mark.parametrize("angle_deg", [0, 10, 33])
def test_oblique_and_sheared_grids_are_exact(angle_deg):
    turn = np.deg2rad(angle_deg)
    rotation = np.array(
        [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
    )
    affine = np.eye(4)
    affine[:3, :3] = rotation @ np.diag([-3.0, -2.0, -1.0])
    array = boxes(np.s_[5:15, 5:15, 5:15])
    turned = volume_cm3([mask("liver", array, Grid(SHAPE, affine))])
    assert turned.value == pytest.approx(6.0)
    affine[0, 2] += 0.4  # a shear keeps the volume of a voxel
    sheared = volume_cm3([mask("liver", array, Grid(SHAPE, affine))])
    assert sheared.value == pytest.approx(abs(np.linalg.det(affine[:3, :3])) * 1.0)


def test_a_ball_has_the_volume_of_a_ball():
    spacing = (0.8, 0.5, 0.5)
    on = grid((60, 90, 90), spacing)
    found = volume_cm3([mask("liver_lesion", ball(20, spacing, (60, 90, 90)), on)])
    assert found.value == pytest.approx(4 / 3 * np.pi * 2**3, rel=0.005)


def test_overlapping_masks_count_their_overlap_once():
    one = mask("kidney_lesion", boxes(np.s_[2:6, 2:6, 2:6]), UNIT)
    two = mask("kidney_cyst", boxes(np.s_[4:8, 2:6, 2:6]), UNIT)
    assert volume_cm3([one, two]).value == pytest.approx(6 * 4 * 4 / 1000)


def test_a_mask_on_another_grid_is_measured_on_its_own():
    fine = grid((60, 80, 100), (0.5, 0.5, 0.5))
    own = region_of(boxes(np.s_[20:30, 20:30, 20:30], shape=fine.shape_zyx), fine)
    on_ct = region_of(boxes(np.s_[10:14, 10:14, 10:14]), UNIT)
    found = volume_cm3([Mask("m", "liver", Source.REFERENCE, on_ct, own)])
    assert found.value == pytest.approx(0.125)


def test_empty_and_cut_masks_say_so():
    empty = volume_cm3([mask("liver", boxes(), UNIT)])
    assert (empty.value, empty.caveats) == (0.0, (EMPTY_CAVEAT,))
    assert volume_cm3([mask("liver", boxes(np.s_[0:3, 5, 5]), UNIT)]).caveats == (BORDER_CAVEAT,)


# ----------------------------------------------------------------------------------------- HU


def test_hu_mean_and_sd_against_numpy():
    rng = np.random.default_rng(1)
    hu = rng.integers(-200, 200, SHAPE).astype(np.int16)
    array = rng.random(SHAPE) > 0.7
    found = hu_statistics(region_of(array, UNIT), volume(hu, UNIT))
    assert found.voxels == array.sum()
    assert found.mean_hu == pytest.approx(hu[array].mean())
    assert found.sd_hu == pytest.approx(hu[array].std())


@pytest.mark.parametrize(("percent", "value"), [(0, 0.0), (10, 4.9), (50, 24.5), (90, 44.1)])
def test_percentiles_are_of_the_voxels_between_which_they_lie(percent, value):
    # HU 0 to 49 along x, once in every row: between two of 50 values, at 49 × percent / 100
    hu = np.broadcast_to(np.arange(50, dtype=np.int16), SHAPE).copy()
    row = [mask("liver", boxes(np.s_[3, 3, :]), UNIT)]
    assert hu_percentile(row, [], volume(hu, UNIT), percent).value == pytest.approx(value)
    lesion = [mask("liver_lesion", boxes(np.s_[3, 3, 25:]), UNIT)]
    rest = hu_percentile(row, lesion, volume(hu, UNIT), percent).value
    assert rest == pytest.approx(24 * percent / 100)


def test_air_is_measured_and_padding_is_not():
    # a lung: -1000 and -1024 are air; below -1500 nothing is
    hu = np.full(SHAPE, -1000, np.int16)
    hu[3, 3, :10] = -1024
    lung = [mask("lung_left", boxes(np.s_[3, 3, 1:41]), UNIT)]
    assert mean_hu(lung, [], volume(hu, UNIT)).value == pytest.approx(-1000 - 24 * 9 / 40)
    hu[3, 3, 31:41] = -2000
    padded = mean_hu(lung, [], volume(hu, UNIT))
    assert padded.value == pytest.approx(-1000 - 24 * 9 / 30)
    assert any("10 of 40 voxels are padding" in caveat for caveat in padded.caveats)


def test_the_sd_of_bright_voxels_is_not_lost_in_rounding():
    hu = np.full(SHAPE, 3000, np.int16)
    hu[::2] = 3001
    found = hu_statistics(region_of(np.ones(SHAPE, bool), UNIT), volume(hu, UNIT))
    assert (found.mean_hu, found.sd_hu) == (3000.5, pytest.approx(0.5, rel=1e-6))


def test_an_organ_is_measured_without_a_float64_copy():
    import tracemalloc

    shape = (100, 200, 200)
    on, hu = grid(shape, (1.0, 1.0, 1.0)), np.ones(shape, np.int16)
    region = region_of(np.ones(shape, bool), on)
    tracemalloc.start()
    hu_statistics(region, volume(hu, on))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * hu.nbytes  # the voxels once, in their own type


def test_hu_sums_do_not_overflow_int16():
    hu = np.full(SHAPE, 3000, np.int16)
    assert hu_statistics(region_of(np.ones(SHAPE, bool), UNIT), volume(hu, UNIT)).mean_hu == 3000.0


def test_hu_leaves_out_the_lesions_of_the_organ():
    hu = np.zeros(SHAPE, np.int16)
    organ, lesion = boxes(np.s_[5:15, 5:15, 5:15]), boxes(np.s_[5:10, 5:15, 5:15])
    hu[organ], hu[lesion] = 100, 20
    organ_mask, lesion_mask = mask("liver", organ, UNIT), mask("liver_lesion", lesion, UNIT)
    assert mean_hu([organ_mask], [lesion_mask], volume(hu, UNIT)).value == 100.0
    assert mean_hu([organ_mask], [], volume(hu, UNIT)).value == 60.0
    nothing = mean_hu([lesion_mask], [organ_mask], volume(hu, UNIT))
    assert nothing.value is None and "no voxel" in nothing.caveats[0]


def test_hu_of_a_mask_on_another_grid_is_taken_at_its_own_voxels():
    # HU grow by 10 a voxel of 1 mm along x; the finer mask lies between CT voxels 20 and 24
    hu = np.broadcast_to(np.arange(50, dtype=np.int16) * 10, SHAPE).copy()
    fine = grid((60, 80, 100), (0.5, 0.5, 0.5))
    own = region_of(boxes(np.s_[20:30, 20:30, 40:49], shape=fine.shape_zyx), fine)
    on_ct = region_of(boxes(np.s_[10:15, 10:15, 20:24]), UNIT)
    found = mean_hu([Mask("m", "liver", Source.REFERENCE, on_ct, own)], [], volume(hu, UNIT))
    assert found.value == pytest.approx(220.0)  # the mean of 200, 205 … 240; on the CT's grid 215


def test_organ_and_lesion_on_different_grids_meet_on_the_cts():
    hu = np.zeros(SHAPE, np.int16)
    hu[10:14, 10:14, 10:14], hu[10:12, 10:14, 10:14] = 100, 20
    fine = grid((60, 80, 100), (0.5, 0.5, 0.5))
    own = region_of(boxes(np.s_[20:24, 20:28, 20:28], shape=fine.shape_zyx), fine)
    on_ct = region_of(boxes(np.s_[10:12, 10:14, 10:14]), UNIT)
    lesion = Mask("m", "liver_lesion", Source.REFERENCE, on_ct, own)
    organ = mask("liver", boxes(np.s_[10:14, 10:14, 10:14]), UNIT)
    assert mean_hu([organ], [lesion], volume(hu, UNIT)).value == 100.0


def test_hu_of_a_sheared_ct_uses_the_true_grid():
    sheared = np.eye(4)
    sheared[0, 2] = 0.3
    true_grid, shown_grid = Grid(SHAPE, sheared), UNIT
    hu, shown = np.full(SHAPE, 50, np.int16), np.full(SHAPE, -1, np.int16)
    array = boxes(np.s_[5:9, 5:9, 5:9])
    ct = Volume(hu, true_grid, shown, shown_grid, GeometryReport(), Path("ct.nii.gz"), 50.0, 50.0)
    both = Mask(
        "m", "liver", Source.REFERENCE, region_of(array, shown_grid), region_of(array, true_grid)
    )
    assert mean_hu([both], [], ct).value == 50.0


# ------------------------------------------------------------------------------------ lesions

# 1 mm³ voxels. A: 6×6×6 = 216. B: a plate 1×10×10 = 100 that no 3×3×3 erosion leaves.
# C: 3×3×3 = 27. D: 2×2×2 = 8. E: a corner pair of single voxels = 2.
LESIONS = boxes(
    np.s_[2:8, 2:8, 2:8],
    np.s_[20, 5:15, 5:15],
    np.s_[2:5, 20:23, 20:23],
    np.s_[12:14, 30:32, 30:32],
    np.s_[25, 35, 45],
    np.s_[26, 36, 46],
)


def test_lesions_are_counted_without_and_with_radgpts_filters():
    found = [mask("liver_lesion", LESIONS, UNIT)]
    assert lesion_count(found).value == 5.0
    # 10 mm³ and the erosion leave A and C; 50 mm³ leaves A
    at_10 = lesion_count(found, RADGPT_10MM3)
    assert (at_10.value, at_10.unit) == (2.0, "lesions")
    assert at_10.caveats == ("3 of 5 components left out as too small",)
    assert lesion_count(found, RADGPT_AI_50MM3).value == 1.0


@pytest.mark.parametrize(("voxels", "kept"), [(9, 0.0), (10, 1.0), (11, 1.0)])
def test_the_size_filter_below_at_and_above_its_bound(voxels, kept):
    array = boxes()
    array[5, 5, 5 : 5 + voxels] = True
    found = lesion_count([mask("liver_lesion", array, UNIT)], SizeFilter("by size", 10.0))
    assert found.value == kept


@pytest.mark.parametrize(
    ("spacing", "size", "kept"),
    [
        ((1.0, 1.0, 1.0), (3, 3, 3), 1.0),
        ((1.0, 1.0, 1.0), (2, 9, 9), 0.0),
        ((5.0, 1.0, 1.0), (1, 3, 3), 1.0),  # one voxel of 5 mm is five of 1 mm
        ((2.0, 2.0, 2.0), (1, 2, 2), 0.0),  # 2×4×4 mm
        ((2.0, 2.0, 2.0), (2, 2, 2), 1.0),  # 4×4×4 mm
        ((0.5, 0.5, 0.5), (4, 4, 4), 0.0),  # 2×2×2 mm
        ((0.5, 0.5, 0.5), (6, 6, 6), 1.0),  # 3×3×3 mm
    ],
)
def test_the_erosion_works_on_millimetres(spacing, size, kept):
    z, y, x = size
    found = mask(
        "liver_lesion", boxes(np.s_[5 : 5 + z, 5 : 5 + y, 5 : 5 + x]), grid(SHAPE, spacing)
    )
    assert lesion_count([found], SizeFilter("erosion", 0.0, True)).value == kept


def test_what_only_an_erosion_by_faces_would_leave_does_not_count():
    # a voxel with its six neighbours: all faces of the middle one are inside, no edge is
    array = boxes(np.s_[5, 5, 5], np.s_[4:7, 5, 5], np.s_[5, 4:7, 5], np.s_[5, 5, 4:7])
    found = [mask("liver_lesion", array, UNIT)]
    assert lesion_count(found, SizeFilter("erosion", 0.0, True)).value == 0.0
    assert lesion_count(found).value == 1.0


def test_one_voxel_is_a_lesion_of_its_volume():
    on = grid(SHAPE, (5.0, 0.7, 0.7))
    single = [mask("liver_lesion", boxes(np.s_[9, 9, 9]), on)]
    assert lesion_count(single).value == 1.0
    assert largest_lesion_volume_cm3(single).value == pytest.approx(5 * 0.49 / 1000)


def test_the_largest_lesion_alone():
    found = [mask("liver_lesion", LESIONS, UNIT)]
    assert largest_lesion_volume_cm3(found).value == pytest.approx(0.216)
    empty = largest_lesion_volume_cm3([mask("liver_lesion", boxes(), UNIT)])
    assert (empty.value, empty.caveats) == (0.0, (EMPTY_CAVEAT,))


# ---------------------------------------------------------------------------------- diameters


def test_the_diameter_of_a_box_is_the_diagonal_of_its_outline():
    on = grid(SHAPE, (5.0, 2.0, 0.5))
    region = region_of(boxes(np.s_[5:8, 10:13, 10:18]), on)
    # outline points half a voxel outside: from (10, 9.5) to (12, 17.5), or (9.5, 10) to (12.5, 17)
    expected = max(np.hypot(2 * 2.0, 8 * 0.5), np.hypot(3 * 2.0, 7 * 0.5))
    found = longest_axial_diameter(region)
    assert found.length_mm == pytest.approx(expected)
    assert found.display_slice == 5, "of equal slices the most superior"


def test_the_diameter_of_a_ball_and_its_slice():
    spacing = (0.5, 0.4, 0.4)
    shape = (81, 101, 101)
    found = longest_axial_diameter(region_of(ball(15, spacing, shape), grid(shape, spacing)))
    assert found.length_mm == pytest.approx(30, abs=0.8)
    assert found.display_slice == 40


def test_the_diameter_stays_within_a_slice():
    # a column of ten voxels through the slices: within a slice it is one voxel wide
    region = region_of(boxes(np.s_[5:15, 10, 10]), UNIT)
    assert longest_axial_diameter(region).length_mm == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_hull_finds_what_all_pairs_find(seed):
    rng = np.random.default_rng(seed)
    array = rng.random(SHAPE) > 0.999
    array[3, 5:30, 7:41] |= rng.random((25, 34)) > 0.5
    affine = np.eye(4)
    affine[:3, :3] = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    region = region_of(array, Grid(SHAPE, affine))
    best = 0.0
    for plane in array:
        at = np.argwhere(plane).astype(float)
        points = [at + step for step in ([0, 0.5], [0, -0.5], [0.5, 0], [-0.5, 0])]
        points_mm = np.concatenate(points) @ affine[:3, 1:3].T
        if len(points_mm):
            best = max(best, np.linalg.norm(points_mm[:, None] - points_mm[None], axis=2).max())
    assert longest_axial_diameter(region).length_mm == pytest.approx(best)


def test_diameters_have_their_units_and_the_largest_lesion_its_own():
    found = [mask("liver_lesion", LESIONS, UNIT)]
    # A is 6×6: 6.08 mm or so; the plate B, the second largest, is wider but not the largest
    assert largest_lesion_diameter_cm(found).value == pytest.approx(np.hypot(6, 5) / 10)
    assert max_diameter_mm(found).value == pytest.approx(np.hypot(10, 9))
    assert [max_diameter_mm(found).unit, largest_lesion_diameter_cm(found).unit] == ["mm", "cm"]
    empty = max_diameter_mm([mask("liver_lesion", boxes(), UNIT)])
    assert (empty.value, empty.caveats) == (None, (EMPTY_CAVEAT,))


def test_every_name_is_measured():
    found = [mask("liver_lesion", LESIONS, UNIT)]
    for name in MEASURED:
        result = measured(name, found, volume(np.zeros(SHAPE, np.int16), UNIT))
        assert result.measure == name and result.unit
    with pytest.raises(KeyError):
        measured("sphericity", found, volume(np.zeros(SHAPE, np.int16), UNIT))


def test_no_full_size_copy_is_made(tmp_path):
    import tracemalloc

    shape = (150, 256, 256)
    on = grid(shape, (1.0, 1.0, 1.0))
    hu = np.zeros(shape, np.int16)
    array = np.zeros(shape, bool)
    array[70:80, 100:130, 100:130] = True
    lesion = mask("liver_lesion", array, on)
    tracemalloc.start()
    for name in MEASURED:
        measured(name, [lesion], volume(hu, on))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < hu.nbytes / 10
