"""The two real cases on screen, against what nibabel alone says about the files."""

import nibabel as nib
import numpy as np
import pytest
from view_cases import go_through, iou, on_canvas, picture, whole

from napari_ctvqa.core.colours import highlight_pixels
from napari_ctvqa.core.names import table
from napari_ctvqa.core.regions import focus_slice
from napari_ctvqa.core.session import MaskFocus
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

pytestmark = [pytest.mark.real, pytest.mark.slow]

PLANES = ("axial", "coronal", "sagittal")
LEFT = ("kidney_left", "hip_left", "adrenal_gland_left", "gluteus_maximus_left", "autochthon_left")


@pytest.fixture(scope="module")
def cases(real_data):
    return {
        name: read_case(find_case(real_data / name), label_maps=True)
        for name in ("ts_example", "sts_018")
    }


def middle_of_body(viewer, layers):
    """Return the column halfway between the first and the last pixel of the body."""
    shown = layers.overlays_shown
    if shown:
        layers.toggle_overlays()
    columns = np.nonzero((picture(viewer)[..., 0] > 90).sum(axis=0) > 5)[0]
    if shown:
        layers.toggle_overlays()
    return (columns[0] + columns[-1]) / 2


@pytest.mark.parametrize("plane", ["axial", "coronal"])
def test_left_structures_are_drawn_right_of_the_middle(viewer, session, layers, cases, plane):
    session.update(case=cases["ts_example"])
    layers.set_plane(plane)
    for left in LEFT:
        right = table().structures[left].opposite
        columns = {}
        for name in (left, right):
            mask = session.case.masks[name]
            go_through(layers, mask)
            layers.highlight(mask)
            found = highlight_pixels(picture(viewer))
            assert found.sum() > 30, name
            columns[name] = np.nonzero(found)[1].mean()
        layers.highlight(None)
        assert columns[left] > middle_of_body(viewer, layers) > columns[right]


def as_nibabel_says(path, plane, index_from_top):
    """Return a slice hung radiologically, by nibabel's canonical axes alone: rows, columns."""
    canonical = nib.as_closest_canonical(nib.load(path))
    hu = np.asarray(canonical.dataobj)[::-1, ::-1, ::-1]  # x to the left, y to posterior, z down
    return np.take(hu, index_from_top, axis=2 - PLANES.index(plane)).T


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("name", ["ts_example", "sts_018"])
def test_picture_is_the_slice_that_nibabel_reads(viewer, session, layers, cases, name, plane):
    session.update(case=cases[name])
    layers.set_plane(plane)
    layers.toggle_overlays()
    layers.layer("CT").interpolation2d = "nearest"
    axis = PLANES.index(plane)
    layers.go_to(axis, layers.grid.shape_zyx[axis] // 3)
    shot = picture(viewer)[..., 0].astype(int)
    hu = as_nibabel_says(session.case.volume.path, plane, layers.current_slice())
    grey = np.clip((hu - -160.0) / 400 * 255, 0, 255)
    rows, columns = (np.arange(size) for size in shot.shape)
    spacing = [mm for at, mm in enumerate(layers.grid.spacing_mm_zyx) if at != axis]
    camera = viewer.scene.camera

    def voxel(pixels, size_px, centre_mm, spacing_mm):
        mm = centre_mm + (pixels + 0.5 - size_px / 2) / camera.zoom
        return np.floor(mm / spacing_mm + 0.5).astype(int)

    at_row = voxel(rows, shot.shape[0], camera.center[-2], spacing[0])
    at_column = voxel(columns, shot.shape[1], camera.center[-1], spacing[1])
    in_row = (at_row >= 0) & (at_row < grey.shape[0])
    in_column = (at_column >= 0) & (at_column < grey.shape[1])
    drawn = shot[np.ix_(in_row, in_column)]

    def agreement(expected):
        there = expected[np.ix_(at_row[in_row], at_column[in_column])]
        return (abs(drawn - there) <= 1.5).mean()

    assert drawn.size > 50_000
    assert agreement(grey) > 0.97  # pixels on the border between two voxels may fall to either
    assert agreement(grey[:, ::-1]) < 0.9
    assert agreement(grey[::-1]) < 0.9


@pytest.mark.parametrize("plane", PLANES)
def test_highlight_covers_real_masks_in_every_plane(viewer, session, layers, cases, plane):
    session.update(case=cases["ts_example"])
    layers.set_plane(plane)
    axis = PLANES.index(plane)
    for structure in ("kidney_left", "liver", "aorta", "hip_right", "colon", "adrenal_gland_right"):
        mask = session.case.masks[structure]
        go_through(layers, mask)
        inside = whole(mask)
        if not np.take(inside, layers.current_slice(), axis=axis).any():
            layers.go_to(axis, int(np.argmax(inside.any(axis=tuple({0, 1, 2} - {axis})))))
        layers.highlight(mask)
        shot = picture(viewer)
        expected = on_canvas(viewer, inside, layers.grid, shot.shape[:2])
        assert expected.sum() > 20
        assert iou(highlight_pixels(shot), expected) >= 0.95, structure


@pytest.mark.parametrize("preset", ["abdomen", "lung", "bone", "stroke"])
def test_every_mask_of_the_case_can_be_told_on_its_focus_slice(
    viewer, session, layers, cases, preset
):
    session.update(case=cases["ts_example"])
    layers.apply_preset(preset)
    for structure, mask in list(session.case.masks.items())[:: 1 if preset == "abdomen" else 10]:
        where = focus_slice(mask.region)
        session.update(focus=MaskFocus(structure, where, 0))
        assert layers.current_slice(0) == where
        shot = picture(viewer)
        expected = on_canvas(viewer, whole(mask), layers.grid, shot.shape[:2])
        assert iou(highlight_pixels(shot), expected) >= 0.9, structure


def test_tumour_of_sts_018_is_highlighted(viewer, session, layers, cases):
    session.update(case=cases["sts_018"])
    (mask,) = session.case.masks.values()
    for plane in PLANES:
        layers.set_plane(plane)
        go_through(layers, mask)
        layers.highlight(mask)
        shot = picture(viewer)
        expected = on_canvas(viewer, whole(mask), layers.grid, shot.shape[:2])
        assert iou(highlight_pixels(shot), expected) >= 0.97
