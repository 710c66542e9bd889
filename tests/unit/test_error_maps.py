import numpy as np
import pytest

from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.error_maps import BOTH, COLOURS, ONLY_FIRST, ONLY_SECOND, error_map
from napari_ctvqa.core.geometry import FileSpace, grid_of_file
from napari_ctvqa.core.regions import region_of

GRID = grid_of_file(FileSpace((8, 7, 6), np.diag([2.0, 1.5, 4.0, 1.0]), 1, 1))


def mask(box, source=Source.REFERENCE):
    inside = np.zeros(GRID.shape_zyx, bool)
    inside[box] = True
    region = region_of(inside, GRID)
    return Mask("liver", "liver", source, region, region)


def whole(found):
    labels = np.zeros(GRID.shape_zyx, np.uint8)
    labels[found.box_zyx] = found.labels_zyx
    return labels


def test_every_voxel_is_said_to_be_in_both_or_in_one():
    first, second = mask(np.s_[1:4, 1:4, 1:4]), mask(np.s_[2:6, 2:5, 0:3], Source.PREDICTED)
    found = error_map(first, second)
    a, b = np.zeros(GRID.shape_zyx, bool), np.zeros(GRID.shape_zyx, bool)
    a[1:4, 1:4, 1:4] = True
    b[2:6, 2:5, 0:3] = True
    labels = whole(found)
    assert np.array_equal(labels == BOTH, a & b)
    assert np.array_equal(labels == ONLY_FIRST, a & ~b)
    assert np.array_equal(labels == ONLY_SECOND, b & ~a)
    assert found.voxels == (8, 19, 28)
    assert found.dice == pytest.approx(2 * 8 / (27 + 36))
    assert found.volumes_ml == pytest.approx(tuple(n * 2 * 1.5 * 4 / 1000 for n in (8, 19, 28)))


def test_legend_names_the_two_sources_in_the_set_colours():
    found = error_map(mask(np.s_[1:3, 1:3, 1:3]), mask(np.s_[1:3, 1:3, 1:3], Source.TOOL))
    assert [words for words, _ in found.table.values()] == ["both", "only reference", "only tool"]
    assert [c.hex for c in COLOURS.values()] == ["#56b4e9", "#e69f00", "#cc79a7"]


@pytest.mark.parametrize("empty", [0, 1])
def test_one_empty_mask_leaves_the_other_alone(empty):
    pair = [mask(np.s_[1:3, 1:3, 1:3]), mask(np.s_[1:3, 1:3, 1:3], Source.PREDICTED)]
    pair[empty] = mask(np.s_[0:0, 0:0, 0:0], pair[empty].source)
    found = error_map(*pair)
    assert found.voxels == ((0, 0, 8) if empty == 0 else (0, 8, 0))
    assert found.dice == 0


def test_two_empty_masks_have_no_dice():
    nothing = np.s_[0:0, 0:0, 0:0]
    assert error_map(mask(nothing), mask(nothing, Source.PREDICTED)).dice is None


def test_masks_of_other_grids_are_refused():
    first = mask(np.s_[1:3, 1:3, 1:3])
    other = grid_of_file(FileSpace((8, 7, 5), np.diag([2.0, 1.5, 4.0, 1.0]), 1, 1))
    region = region_of(np.ones(other.shape_zyx, bool), other)
    with pytest.raises(ValueError, match="grids"):
        error_map(first, Mask("liver", "liver", Source.PREDICTED, region, region))
