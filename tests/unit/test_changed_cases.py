"""Counterfactual cases: what is changed, and that nothing else is."""

from dataclasses import replace

import numpy as np
import phantoms
import pytest
from evidence_cases import case, grid

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.changed_asks import placed
from napari_ctvqa.core.changed_cases import blank, mirrored, regridded
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.measure import volume_cm3
from napari_ctvqa.core.probes import CannotProbeError
from napari_ctvqa.core.sampling import centroid_ras_mm, hu_inside
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models._pictures import chosen_slices, frame_of, picture
from napari_ctvqa.models._presets import presets
from napari_ctvqa.models._settings import feeding


@pytest.fixture(params=["LPS", "RAS", "SLP"])
def read(request, tmp_path):
    """The one-sided phantom, read from files in several axis orders."""
    return read_case(find_case(phantoms.save_case(tmp_path / "case", axcodes=request.param)))


def side(mask):
    """Millimetres to the patient's left of the middle of the phantom's grid."""
    middle_mm = phantoms.phantom().affine[0, 3] + (phantoms.SHAPE_IJK[0] - 1) / 2 * 3.0
    return middle_mm - centroid_ras_mm(mask.own_region)[0]


def test_a_mirrored_case_has_its_organs_on_the_other_side_under_their_own_names(read):
    turned = mirrored(read).case
    assert side(read.masks["liver"]) < 0 < side(turned.masks["liver"])
    assert side(read.masks["spleen"]) > 0 > side(turned.masks["spleen"])
    assert side(turned.masks["kidney_left"]) > 0 > side(turned.masks["kidney_right"])
    assert side(turned.masks["kidney_left"]) == pytest.approx(-side(read.masks["kidney_right"]))
    for name in ("liver", "spleen", "liver_lesion"):
        old, new = (one.masks[name] for one in (read, turned))
        assert volume_cm3([old]) == volume_cm3([new])
        assert hu_inside(read.volume, old).mean() == hu_inside(turned.volume, new).mean()
    assert turned.masks["kidney_left"].name == "kidney_left"
    assert turned.volume.grid is read.volume.grid and turned.report is read.report


def test_the_original_is_not_touched_and_mirroring_twice_gives_it_back(read):
    before = read.volume.array_zyx.copy()
    again = mirrored(mirrored(read).case).case
    assert np.array_equal(read.volume.array_zyx, before)
    assert np.array_equal(again.volume.array_zyx, before)
    for name, mask in read.masks.items():
        assert again.masks[name].region.box_zyx == mask.region.box_zyx
        assert np.array_equal(again.masks[name].region.crop_zyx, mask.region.crop_zyx)


def test_a_sheared_ct_is_not_mirrored_nor_resampled():
    made = case({})
    sheared = replace(made, volume=replace(made.volume, display_grid=grid((41, 50, 60))))
    for change in (mirrored, lambda one: regridded(one, 1.5)):
        with pytest.raises(CannotProbeError, match="sheared"):
            change(sheared)


def test_a_blank_volume_is_air_takes_no_memory_and_keeps_its_masks(read):
    empty = blank(read).case
    assert np.unique(empty.volume.array_zyx).tolist() == [-1024]
    assert empty.volume.array_zyx.dtype == read.volume.array_zyx.dtype
    assert empty.volume.array_zyx.strides == (0, 0, 0)
    assert empty.masks["liver"].region is read.masks["liver"].region


@pytest.mark.parametrize("factor", [1.5, 2 / 3])
def test_another_grid_fills_the_same_space(read, factor):
    made = regridded(read, factor)
    old, new = read.volume.grid, made.case.volume.grid
    for corner, at in ((0, -0.5), (1, -0.5)):
        outer_old = old.ras_mm(np.array(old.shape_zyx) * corner + at)
        outer_new = new.ras_mm(np.array(new.shape_zyx) * corner + at)
        assert np.abs(outer_old - outer_new).max() <= max(new.spacing_mm_zyx)
    assert new.spacing_mm_zyx == pytest.approx([mm * factor for mm in old.spacing_mm_zyx])
    for name in ("liver", "spleen", "kidney_left"):
        here, there = (one.masks[name] for one in (read, made.case))
        moved_mm = centroid_ras_mm(here.own_region) - centroid_ras_mm(there.own_region)
        assert np.abs(moved_mm).max() <= max(old.spacing_mm_zyx)
        assert side(there) * side(here) > 0


def test_a_grid_of_too_many_voxels_is_refused():
    made = case({}, hu=np.broadcast_to(np.int16(0), (600, 600, 600)), on=grid((600, 600, 600)))
    with pytest.raises(CannotProbeError, match="300,000,000 voxels"):
        regridded(made, 2 / 3)


@pytest.mark.parametrize("change", [mirrored, lambda one: regridded(one, 1.5)])
def test_pictures_of_a_changed_case_are_placed_in_the_ct_itself(read, change):
    """A pixel's place leads to the voxel of the CT whose HU it shows."""
    made = change(read)
    volume = made.case.volume
    fed = feeding(presets()["qwen3-vl"], {"size_px": None, "windows_hu": [[-1000, 1000]]})
    frame = frame_of(volume.grid, fed)
    index = chosen_slices(volume.grid.shape_zyx[0], "centre", 1)[0]
    shown = picture(volume, frame, index, fed.windows_hu)
    ask = placed(Prepared(Ask((Message("user", (shown,)),))), made.to_original).ask
    row, column = np.mgrid[: shown.pixels.shape[0], : shown.pixels.shape[1]]
    there = volume.grid.ras_mm(shown.index_zyx(row, column))
    original = read.volume.grid.ras_mm(ask.pictures[0].index_zyx(row, column))
    if change is mirrored:
        low, high = (
            read.volume.grid.ras_mm([0, 0, x])[0] for x in (0, volume.grid.shape_zyx[2] - 1)
        )
        there[..., 0] = low + high - there[..., 0]
    assert np.allclose(there, original)
    if change is mirrored:
        at = ask.pictures[0].index_zyx(row, column).round().astype(int)
        hu = read.volume.array_zyx[tuple(np.moveaxis(at, -1, 0))]
        assert np.array_equal(hu, volume.array_zyx[index])


def test_a_picture_without_a_place_keeps_none():
    shown = Picture(np.zeros((2, 2, 3), np.uint8))
    matrix = np.diag([1.0, 1, -1, 1])
    prepared = placed(Prepared(Ask((Message("user", ("text", shown)),))), matrix)
    assert prepared.ask.pictures[0].index_from_pixel is None


def test_a_grid_without_a_file_has_no_slices_of_the_file(read):
    assert regridded(read, 1.5).case.volume.grid.file is None
    assert isinstance(read.volume.grid, Grid) and read.volume.grid.file is not None
