import numpy as np
import pytest
from view_cases import (
    go_through,
    mask_of,
    phantom_case,
    picture,
)

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.plane_pictures import plane_picture, row_and_column_axis
from napari_ctvqa.core.session import Session
from napari_ctvqa.widgets.layers import CaseLayers

PLANES = ("axial", "coronal", "sagittal")


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def layers(viewer, session):
    made = CaseLayers(viewer, session)
    yield made
    made.close()


def at_voxel_centres(viewer, layers, axis):
    """Return what napari draws at the centre of every voxel of the plane that fits the canvas."""
    shot, camera = picture(viewer), viewer.scene.camera
    spacing, shape = layers.grid.spacing_mm_zyx, layers.grid.shape_zyx
    where = []
    for along, centre, size_px in zip(
        row_and_column_axis(axis), camera.center[-2:], shot.shape[:2], strict=True
    ):
        mm = np.arange(shape[along]) * spacing[along]
        where.append(np.floor(size_px / 2 + (mm - centre) * camera.zoom).astype(int))
    return shot[np.ix_(*where)].astype(int)


def with_all_sources(case):
    grid = case.volume.grid
    middle = np.zeros(grid.shape_zyx, bool)
    middle[2:9, 5:14, 6:15] = True
    return mask_of("liver", middle, grid, source=Source.TOOL)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("focused", [False, True])
def test_the_scene_has_napari_s_own_colours(viewer, session, layers, axis, focused):
    session.update(case=phantom_case(lesions=("ball",)))
    go_through(layers, session.case.masks["ball"])
    layers.show_masks(Source.TOOL, [with_all_sources(session.case)])
    layers.highlight(session.case.masks["ball"] if focused else None)
    layers.layer("CT").interpolation2d = "nearest"  # else between the colours of two voxels
    try:
        layers.set_plane(PLANES[axis])
        ours = plane_picture(layers.scene(), axis, layers.current_slice(axis)).astype(int)
        drawn = at_voxel_centres(viewer, layers, axis)
    finally:
        layers.layer("CT").interpolation2d = "linear"
    assert len(np.unique(ours.reshape(-1, 3), axis=0)) > 4
    assert abs(ours - drawn).max() <= 3


def test_the_scene_follows_window_opacity_and_visibility(viewer, session, layers):
    session.update(case=phantom_case())
    told = []
    layers.window_changed.connect(lambda: told.append("window"))
    layers.looks_changed.connect(lambda: told.append("look"))
    layers.apply_preset("bone")
    assert layers.scene().window_hu == (-500.0, 1300.0)
    layers.layer("organs").opacity = 0.5
    assert [sheet.opacity for sheet in layers.scene().sheets] == [0.5]
    layers.layer("organs").visible = False
    assert layers.scene().sheets == ()
    assert set(told) == {"window", "look"}
    layers.layer("CT").visible = False
    assert layers.scene() is None
    assert layers.layer("CT").data is session.case.volume.display_zyx
