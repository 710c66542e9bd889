import math

import numpy as np
import pytest
from evidence_cases import grid

from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.parts import PART_RULES, caudate_to_right_lobe, locate, shares
from napari_ctvqa.core.regions import empty_region, region_of

SHAPE = (10, 10, 60)
ON = grid(SHAPE, (2.0, 1.0, 1.0))


def run(start, stop, row=5, on=ON):
    array = np.zeros(on.shape_zyx, bool)
    array[5, row, start:stop] = True
    return region_of(array, on)


PARTS = {"a": run(0, 20), "b": run(20, 40), "c": run(40, 60)}


def test_shares_are_of_what_lies_in_any_part():
    found, outside = shares(run(15, 25), PARTS)
    assert (found, outside) == ({"a": 0.5, "b": 0.5}, 0.0)
    two = {"a": PARTS["a"], "b": PARTS["b"]}
    found, outside = shares(run(35, 45), two)
    assert (found, outside) == ({"b": 1.0}, 0.5)  # half of it lies in no part


@pytest.mark.parametrize(
    ("lesion", "over", "most", "every"),
    [
        (run(5, 15), "a", "a", "a"),
        (run(11, 21), "a", "a", "ab"),  # 1 of 10 voxels in b: a tenth is not more than a tenth
        (run(12, 22), "ab", "a", "ab"),  # 2 of 10
        (run(18, 42), "b", "b", "bac"),  # 2 of 24 in a and in c
        (run(16, 44), "bac", "b", "bac"),  # 4 of 28
        (run(30, 31), "b", "b", "b"),  # one voxel
    ],
)
def test_each_rule_at_its_bound(lesion, over, most, every):
    by_rule = {rule: "".join(locate(lesion, PARTS, rule).parts) for rule in PART_RULES}
    assert by_rule == {"over_10_percent": over, "most": most, "any": every}


def test_the_order_of_the_parts_does_not_matter():
    # files come in any order from a directory; RadGPT's map gave the first one number 1
    lesion = run(12, 22)
    names = ["a", "b", "c"]
    for order in (names, names[::-1], ["b", "c", "a"]):
        found = locate(lesion, {name: PARTS[name] for name in order})
        assert (found.parts, found.shares) == (("a", "b"), {"a": 0.8, "b": 0.2})


def test_overlapping_parts_count_for_themselves():
    found, outside = shares(run(15, 25), {**PARTS, "d": run(18, 23)})
    assert found == {"a": 0.5, "b": 0.5, "d": 0.5} and outside == 0


def test_what_lies_in_no_part_belongs_to_the_nearest_and_says_how_far():
    lesion = run(25, 30, row=9)  # 4 mm beside part b
    found = locate(lesion, PARTS)
    assert (found.parts, found.shares, found.outside) == (("b",), {}, 1.0)
    assert found.nearest_mm == pytest.approx(4.0)
    corner = locate(run(45, 46, row=8), {"a": PARTS["a"], "b": PARTS["b"]})
    assert corner.parts == ("b",)
    assert corner.nearest_mm == pytest.approx(math.hypot(6, 3))


def test_nothing_has_no_place():
    with pytest.raises(ValueError, match="no location"):
        locate(empty_region(ON), PARTS)
    with pytest.raises(ValueError, match="no location"):
        locate(run(1, 2), {"a": empty_region(ON)})
    with pytest.raises(ValueError, match="unknown rule"):
        locate(run(1, 2), PARTS, "majority")


def slab(z, y, x, on):
    array = np.zeros(on.shape_zyx, bool)
    array[z, y, x] = True
    return region_of(array, on)


def test_the_lobe_ratio_is_of_widths_from_right_to_left():
    on = grid((12, 20, 40), (3.0, 1.0, 1.5))
    caudate = slab(np.s_[2:9], np.s_[3:6], np.s_[20:26], on)
    lobe = slab(np.s_[0:12], np.s_[2:15], np.s_[2:17], on)
    assert caudate_to_right_lobe(caudate, lobe) == pytest.approx(6 / 15)
    wide = region_of(slab(np.s_[2:9], np.s_[3:6], np.s_[20:26], on).crop_zyx, on, (2, 3, 20))
    assert caudate_to_right_lobe(wide, lobe) == pytest.approx(6 / 15)
    above = slab(np.s_[0:2], np.s_[2:15], np.s_[2:17], on)
    assert caudate_to_right_lobe(caudate, above) is None
    assert caudate_to_right_lobe(empty_region(on), lobe) is None
    assert caudate_to_right_lobe(caudate, empty_region(on)) is None


def test_the_lobe_ratio_is_taken_where_the_caudate_is_largest():
    on = grid((12, 20, 40), (3.0, 1.0, 1.0))
    array = np.zeros(on.shape_zyx, bool)
    array[3, 3:5, 20:24] = True
    array[7, 3:9, 20:30] = True  # the largest area: 10 wide
    lobe = np.zeros(on.shape_zyx, bool)
    lobe[3, 2:9, 2:4] = True
    lobe[7, 2:9, 2:18] = True
    found = caudate_to_right_lobe(region_of(array, on), region_of(lobe, on))
    assert found == pytest.approx(10 / 16)


def test_widths_run_along_the_patient_on_a_turned_grid():
    on = grid((6, 30, 30), (3.0, 1.0, 1.0))
    quarter = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    turned = Grid(on.shape_zyx, quarter @ on.affine_zyx_to_ras)
    caudate = slab(2, np.s_[3:9], np.s_[20:22], turned)  # rows run from right to left here
    lobe = slab(2, np.s_[3:15], np.s_[2:4], turned)
    assert caudate_to_right_lobe(caudate, lobe) == pytest.approx(6 / 12)
