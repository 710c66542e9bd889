from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    GeometryWarning,
    Level,
    Mask,
    Region,
    Source,
    Volume,
)
from napari_ctvqa.core.geometry import FileSpace, Grid, grid_of_file, to_display
from napari_ctvqa.core.plane_pictures import Slab
from napari_ctvqa.core.view_text import (
    file_slice_text,
    position_text,
    probe_fields,
    slab_text,
    slice_text,
    window_text,
    zoom_text,
)
from napari_ctvqa.core.windows import presets

# Stored RAS, 4 × 5 × 6 voxels of 2 × 3 × 4 mm; the first voxel lies at (-1, -2, 30) mm.
AFFINE = np.array([[2.0, 0, 0, -1], [0, 3, 0, -2], [0, 0, 4, 30], [0, 0, 0, 1]])
GRID = grid_of_file(FileSpace((4, 5, 6), AFFINE, 1, 1))


@pytest.fixture
def case():
    hu = np.arange(120, dtype=np.int16).reshape(4, 5, 6)
    shown = to_display(hu, GRID)
    volume = Volume(shown, GRID, shown, GRID, GeometryReport(), Path("ct.nii.gz"), 0, 119)
    inside = np.zeros((4, 5, 6), bool)
    inside[1, 2, 3] = True
    return Case(CaseFiles("c", Path("ct.nii.gz")), volume, masks(inside), GeometryReport())


def masks(inside_ijk):
    shown = to_display(inside_ijk, GRID)
    where = np.argwhere(shown)[0]
    box = tuple(slice(int(part), int(part) + 1) for part in where)
    region = Region(GRID, box, shown[box], 1)
    both = {}
    for name, source in (("kidney_left", Source.REFERENCE), ("liver", Source.TOOL)):
        both[name] = Mask(name, name, source, region, region)
    return both


def display_index(i, j, k):
    return GRID.display_index_zyx((i, j, k))


def test_slices_count_from_one_and_file_indices_from_zero():
    assert slice_text(GRID, 0, 0) == "Axial · slice 1 of 6"
    assert file_slice_text(GRID, 0, 0) == "file k 5 (from 0)"  # the top slice is the file's last
    assert slice_text(GRID, 2, 3) == "Sagittal · slice 4 of 4"
    assert file_slice_text(GRID, 2, 3) == "file i 0 (from 0)"
    assert file_slice_text(replace(GRID, file=None), 1, 2) == "resampled for display, no file slice"


def test_position_names_the_side():
    assert position_text(GRID, 0, 0) == "S 50.0 mm"
    assert position_text(GRID, 1, 0) == "A 10.0 mm"
    assert position_text(GRID, 1, 4) == "P 2.0 mm"
    assert position_text(GRID, 2, 0) == "R 5.0 mm"
    assert position_text(GRID, 2, 3) == "L 1.0 mm"


def test_position_of_an_oblique_slice_is_that_of_its_centre():
    angle = np.deg2rad(10)
    turn = np.eye(4)
    turn[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    grid = grid_of_file(FileSpace((4, 5, 6), turn @ AFFINE, 1, 1))
    centre = grid.ras_mm((2.0, 2.0, 1.5))
    assert position_text(grid, 0, 2) == f"S {centre[2]:.1f} mm at its centre"


def test_window_is_named_only_when_it_is_that_preset():
    assert window_text(400, 40, presets()) == "W 400 L 40 HU · abdomen"
    assert window_text(401, 40, presets()) == "W 401 L 40 HU"


def test_zoom_has_a_unit():
    assert zoom_text(1.4142) == "1.4 px/mm"
    assert zoom_text(12.6) == "13 px/mm"


def test_probe_tells_everything_about_a_voxel(case):
    fields = probe_fields(case, display_index(1, 2, 3))
    assert fields == {
        "HU": f"{(1 * 5 + 2) * 6 + 3}",
        # 2 mm to either side in i (± 30 HU), 3 mm in j (± 6 HU): root of (2 · 30² + 2 · 6²) / 5
        "mean": "45.0 ± 19.3 (r 3 mm, 5 voxels)",
        "labels": "left kidney (reference), liver (tool)",
        "voxel": "z 3 y 3 x 3",
        "file": "i 1 j 2 k 3",
        "RAS": "1.0 4.0 42.0",
        "LPS": "-1.0 -4.0 42.0",
    }


@pytest.mark.parametrize("ijk", [(0, 0, 0), (3, 4, 5), (1, 0, 5)])
def test_probe_reads_the_file_s_own_voxel(case, ijk):
    fields = probe_fields(case, display_index(*ijk))
    assert fields["HU"] == str(np.ravel_multi_index(ijk, (4, 5, 6)))
    assert fields["file"] == "i {} j {} k {}".format(*ijk)
    assert fields["labels"] == "—"
    x, y, z = (AFFINE @ [*ijk, 1])[:3]
    assert fields["LPS"] == f"{-x + 0.0:.1f} {-y + 0.0:.1f} {z:.1f}"


def test_the_mean_is_that_of_the_plane_that_is_shown(case):
    at = display_index(1, 2, 3)
    shown = case.volume.array_zyx
    for plane, radius_mm in ((0, 3.0), (1, 2.9), (2, 3.9)):
        index = np.argwhere(np.ones(shown.shape, bool))
        near = np.linalg.norm((index - at) * (4, 3, 2), axis=1) <= radius_mm
        values = shown[tuple(index[near & (index[:, plane] == at[plane])].T)].astype(float)
        text = probe_fields(case, at, plane=plane, radius_mm=radius_mm)["mean"]
        voxels = f"{len(values)} voxel{'s' if len(values) > 1 else ''}"
        assert text == f"{values.mean():.1f} ± {values.std():.1f} (r {radius_mm:g} mm, {voxels})"


def test_a_circle_between_the_centres_has_no_voxels(case):
    point = display_index(1, 2, 3) + np.array((0, 0.4, 0.4))
    assert probe_fields(case, point, radius_mm=0.5)["mean"] == "no voxels (r 0.5 mm)"


def test_values_that_are_no_hu_have_no_mean(case):
    doubt = GeometryReport((GeometryWarning("hu_implausible", Level.AMBER, "?"),))
    volume = replace(case.volume, report=doubt)
    fields = probe_fields(replace(case, volume=volume), display_index(1, 2, 3))
    assert (fields["HU"], fields["mean"]) == ("45", "—")


def test_probe_position_is_the_pointer_s_not_the_voxel_s(case):
    point = display_index(1, 2, 3) + np.array((0.25, 0.0, 0.0))
    assert probe_fields(case, point)["RAS"] == "1.0 4.0 41.0"
    assert probe_fields(case, point)["file"] == "i 1 j 2 k 3"


@pytest.mark.parametrize("index", [(-0.51, 0, 0), (0, 4.51, 0), (0, 0, 99), (5.5, 0, 0)])
def test_outside_the_picture_everything_is_a_dash(case, index):
    assert set(probe_fields(case, index).values()) == {"—"}


def test_edge_voxels_reach_half_a_voxel_outwards(case):
    assert probe_fields(case, (-0.49, 0, 0))["HU"] != "—"
    assert probe_fields(case, (5.49, 4.49, 3.49))["HU"] != "—"


def test_without_case_or_pointer_everything_is_a_dash(case):
    assert set(probe_fields(None, (0, 0, 0)).values()) == {"—"}
    assert set(probe_fields(case, None).values()) == {"—"}


def test_positions_that_are_not_trusted_are_not_shown(case):
    red = GeometryReport((GeometryWarning("codes_zero", Level.RED, "?"),))
    fields = probe_fields(replace(case, report=red), display_index(1, 2, 3))
    assert (fields["LPS"], fields["RAS"]) == ("—", "—")
    assert "mm" not in fields["mean"] and "voxels" in fields["mean"]
    assert fields["file"] == "i 1 j 2 k 3"


def test_sheared_volume_is_looked_up_in_its_own_voxels(case):
    """The drawn picture is resampled: HU and file voxel come from the file, through mm."""
    drawn = Grid((12, 10, 8), GRID.affine_zyx_to_ras @ np.diag([0.5, 0.5, 0.5, 1.0]))
    volume = replace(case.volume, display_grid=drawn, display_zyx=np.zeros((12, 10, 8), np.int16))
    resampled = replace(case, volume=volume, masks={})
    fields = probe_fields(resampled, display_index(1, 2, 3) * 2)
    assert fields["file"] == "i 1 j 2 k 3"
    assert fields["HU"] == f"{(1 * 5 + 2) * 6 + 3}"


def test_a_slab_says_how_many_slices_it_holds_here():
    slab = Slab("minip", 14.0)  # of 4 mm slices: 3, which is nearest
    assert slab_text(slab, GRID, 0, 3)[0] == "MinIP of 3 slices, 12.0 mm"
    assert slab_text(slab, GRID, 0, 0)[0] == "MinIP of 2 slices, 8.0 mm"
    assert slab_text(Slab("mip", 3.0), GRID, 0, 3) == ()
