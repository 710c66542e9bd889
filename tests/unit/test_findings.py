"""What one step finds that no rule of the table needs: sides, positions, axes, distances, HU."""

import numpy as np
import pytest
from evidence_cases import case, grid

from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.findings import find
from napari_ctvqa.core.plans import PlanStep

SHAPE = (41, 81, 81)
ON = grid(SHAPE, (2.0, 1.0, 1.0))
"""Voxel (20, 40, 40) is the middle; display x grows to the patient's left, z to inferior."""


def box(z, y, x):
    array = np.zeros(SHAPE, bool)
    array[z, y, x] = True
    return array


def s(start, stop):
    return slice(start, stop)


def found(masks, target, measure, other="", ct=None):
    kind = StepKind.SEGMENT if measure in ("side", "relative_position") else StepKind.MEASURE
    return find(case(masks, on=ON, hu=ct), PlanStep(kind, target, measure, other))


@pytest.mark.parametrize(
    ("x", "side"),
    [
        (20, "right"),  # 20 mm beside the middle, where display x is smaller: the patient's right
        (60, "left"),
        (40, "middle"),
        (33, "middle"),  # 7 mm
        (31, "middle"),  # 9 mm
        (30, "right"),  # 10 mm is beside the middle
        (50, "left"),
    ],
)
def test_the_side_is_the_patients(x, side):
    assert found({"stomach": box(20, 40, x)}, "stomach", "side").value == side


def test_a_name_with_a_side_keeps_it_and_a_place_that_contradicts_is_told():
    there = found({"kidney_left": box(20, 40, 60)}, "kidney_left", "side")
    assert (there.value, there.caveats) == ("left", ())
    odd = found({"kidney_left": box(20, 40, 20)}, "kidney_left", "side")
    assert odd.value == "left"
    assert "its centre lies on the right of the volume" in odd.caveats


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ((20, 40, 50), "left"),  # 10 mm towards greater display x
        ((20, 40, 30), "right"),
        ((20, 30, 40), "anterior"),
        ((20, 50, 40), "posterior"),
        ((10, 40, 40), "superior"),  # ten slices of 2 mm up
        ((30, 40, 40), "inferior"),
        ((20, 44, 40), "at the same place"),  # 4 mm are not told, 5 are
        ((20, 45, 40), "posterior"),
        ((10, 30, 48), "superior, anterior, left"),  # 20, 10 and 8 mm: the farthest first
    ],
)
def test_the_position_is_said_of_the_target_as_seen_from_the_other(at, said):
    masks = {"spleen": box(*at), "liver": box(20, 40, 40)}
    assert found(masks, "spleen", "relative_position", "liver").value == said


def test_axes_of_the_largest_component_in_cm():
    # a bar of 12 × 4 voxels: √(11² + 4²) or √(12² + 3²) long; the second component is longer
    masks = {"liver_lesion": box(s(8, 12), s(20, 24), s(20, 32)) | box(30, 10, s(10, 40))}
    long_cm = found(masks, "liver_lesion", "long_axis_cm")
    short_cm = found(masks, "liver_lesion", "short_axis_cm")
    assert long_cm.value == pytest.approx(np.hypot(12, 3) / 10)
    assert 0.4 <= short_cm.value <= 0.75 < long_cm.value
    assert (long_cm.unit, short_cm.unit) == ("cm", "cm")
    # 3-D: of 4 slices of 2 mm the outline is 8 mm thick; in whole mm 12.36 is 12
    three = found(masks, "liver_lesion", "diameter_3d_cm").value
    assert three == pytest.approx(np.sqrt(12**2 + 3**2 + 6**2) / 10, abs=0.05)
    assert found(masks, "liver_lesion", "radgpt_diameter_cm").value == 1.2


def test_distances_between_surfaces_and_centres():
    masks = {"spleen": box(20, 40, s(50, 61)), "liver": box(20, 40, s(20, 31))}
    # nearest voxels 30 and 50, centres 25 and 55
    assert found(masks, "spleen", "surface_distance_mm", "liver").value == pytest.approx(20.0)
    assert found(masks, "spleen", "centre_distance_mm", "liver").value == pytest.approx(30.0)
    up = {"spleen": box(10, 40, 40), "liver": box(20, 40, 40)}
    assert found(up, "spleen", "surface_distance_mm", "liver").value == pytest.approx(20.0)


def test_hu_measures_leave_the_lesions_out():
    ct = np.zeros(SHAPE, np.int16)
    ct[20, 40, 10:31] = np.arange(21)
    ct[20, 40, 31:36] = 900
    masks = {"liver": box(20, 40, s(10, 36)), "liver_lesion": box(20, 40, s(31, 36))}
    values = {m: found(masks, "liver", m, ct=ct).value for m in ("p10_hu", "median_hu", "p90_hu")}
    assert values == {"p10_hu": 2.0, "median_hu": 10.0, "p90_hu": 18.0}  # of 0 … 20
    assert found(masks, "liver", "mean_hu", ct=ct).value == 10.0
    assert found(masks, "liver", "sd_hu", ct=ct).value == pytest.approx(np.arange(21).std())


def test_slices_in_every_order_that_somebody_counts_in():
    # widest on display slice 10 of 41; in most voxels on 12
    lesion = box(10, 20, s(20, 30)) | box(11, 20, s(20, 24)) | box(12, s(19, 24), s(20, 24))
    masks = {"liver_lesion": lesion}
    values = {
        measure: found(masks, "liver_lesion", measure).value
        for measure in (
            "widest_slice_ras", "widest_slice_ras_from_1", "widest_slice_percent",
            "widest_slice_file", "largest_area_slice_ras",
        )
    }  # fmt: skip
    assert values == {
        "widest_slice_ras": 30.0,  # 41 - 1 - 10
        "widest_slice_ras_from_1": 31.0,
        "widest_slice_percent": 75.0,  # 30 of 40
        "widest_slice_file": 10.0,  # this grid's file runs as it is shown
        "largest_area_slice_ras": 28.0,
    }


def test_what_was_found_before_is_not_found_again_for_another_question():
    given = case({"liver": box(20, 40, s(20, 31)), "spleen": box(20, 40, s(50, 61)),
                  "stomach": box(20, 40, s(70, 72))}, on=ON)  # fmt: skip
    distances = [
        find(given, PlanStep(StepKind.MEASURE, "liver", "surface_distance_mm", other)).value
        for other in ("spleen", "stomach", "spleen")
    ]
    assert distances == pytest.approx([20.0, 40.0, 20.0])


def test_the_largest_in_a_part_is_not_the_largest_of_all():
    slabs = {
        f"liver_segment_{n + 1}": box(s(0, 41), s(0, 81), s(10 * n, 10 * n + 10)) for n in range(8)
    }
    # 30 voxels in segment 1; 5 and 3 in segment 7
    lesions = (
        box(5, 5, s(1, 9)) | box(5, s(6, 28), 1) | box(5, 5, s(61, 66)) | box(20, 5, s(61, 64))
    )
    masks = {**slabs, "liver_lesion": lesions}
    assert found(masks, "largest liver_lesion", "voxels").value == 30
    assert found(masks, "largest liver_lesion in liver_segment_7", "voxels").value == 5
    assert found(masks, "second largest liver_lesion in liver_segment_7", "voxels").value == 3
    assert found(masks, "second largest liver_lesion in liver_segment_1", "voxels").value == 0
