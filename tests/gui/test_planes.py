import gc
import weakref

import numpy as np
import pytest
from plane_checks import lies_on, pixels, world_of
from pointer import click, double_click, drag, press, wheel
from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QImage, QRegion
from qtpy.QtWidgets import QApplication, QLabel, QWidget
from view_cases import (
    case_of,
    go_through,
    mask_of,
    on_canvas,
    phantom_case,
    picture,
    whole,
)

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level, Source
from napari_ctvqa.core.plane_pictures import plane_picture, row_and_column_axis
from napari_ctvqa.io.user_config import stored_object
from napari_ctvqa.widgets.directions import edge_letters
from napari_ctvqa.widgets.overlays import canvas_of
from napari_ctvqa.widgets.planes import Planes
from napari_ctvqa.widgets.planes_area import Layout

PLANES = ("axial", "coronal", "sagittal")


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
@pytest.mark.parametrize(("focused", "opacity"), [(False, 1.0), (True, 1.0), (False, 0.4)])
def test_the_scene_has_napari_s_own_colours(viewer, session, layers, axis, focused, opacity):
    session.update(case=phantom_case(lesions=("ball",)))
    go_through(layers, session.case.masks["ball"])
    layers.show_masks(Source.TOOL, [with_all_sources(session.case)])
    layers.highlight(session.case.masks["ball"] if focused else None)
    layers.layer("CT").interpolation2d = "nearest"  # else between the colours of two voxels
    layers.layer("masks").opacity = opacity
    try:
        layers.set_plane(PLANES[axis])
        ours = plane_picture(layers.scene(), axis, layers.current_slice(axis)).astype(int)
        drawn = at_voxel_centres(viewer, layers, axis)
    finally:
        layers.layer("CT").interpolation2d = "linear"
    assert len(np.unique(ours.reshape(-1, 3), axis=0)) > 4
    assert abs(ours - drawn).max() <= 3


@pytest.mark.parametrize("presses", [1, 2, 3])
def test_napari_draws_the_slab_that_the_scene_tells_of(viewer, session, layers, presses):
    session.update(case=phantom_case())
    layers.toggle_overlays()
    box = session.case.masks["ball"].region.box_zyx
    layers.move_to(tuple(part.start for part in box))  # at the ball's rim: all slabs differ there
    layers.layer("CT").interpolation2d = "nearest"
    single = plane_picture(layers.scene(), 0, layers.current_slice(0)).astype(int)
    for _ in range(presses):
        layers.next_slab()
    kinds = set()
    try:
        for axis, plane in enumerate(PLANES):
            layers.set_plane(plane)
            scene, index = layers.scene(), layers.current_slice(axis)
            ours = plane_picture(scene, axis, index).astype(int)
            assert abs(ours - at_voxel_centres(viewer, layers, axis)).max() <= 3
            kinds.add((scene.slab.kind, scene.slab.thickness_mm))
            if axis == 0:
                assert abs(ours - single).max() > 20
        assert kinds == {(("mip", "mean", "minip")[presses - 1], 10.0)}
    finally:
        layers.layer("CT").interpolation2d = "linear"
        while layers.slab is not None:
            layers.next_slab()
    assert abs(plane_picture(layers.scene(), 0, layers.current_slice(0)) - single).max() == 0


def test_a_slab_keeps_its_thickness_in_a_case_of_other_spacing(viewer, session, layers):
    session.update(case=phantom_case())
    layers.next_slab()
    layers.next_slab_thickness()
    assert np.allclose(viewer.dims.margin_left, (4 * 2.5, 9 * 1.1, 11 * 0.9))
    coarse = np.full((24, 20, 12), 10, np.int16)
    session.update(case=case_of(coarse, np.diag([-4.0, -4.0, 4.0, 1.0]), {}, case_id="coarse"))
    assert np.allclose(viewer.dims.margin_left, (8.0, 8.0, 8.0))
    while layers.slab is not None:
        layers.next_slab()
    assert not any(viewer.dims.margin_left)


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
    layers.layer("organs").visible = True
    layers.layer("masks").opacity = 0.25
    assert layers.scene().opacity == 0.25
    layers.layer("masks").visible = False
    assert layers.scene().sheets == ()
    assert told == ["window", *["look"] * 5]
    layers.layer("CT").visible = False
    assert layers.scene() is None
    assert layers.layer("CT").data is session.case.volume.display_zyx


# ------------------------------------------------------------------- linked planes


@pytest.fixture
def window(viewer):
    """Return napari's window and picture; its middle is given back what it held afterwards."""
    window = viewer.window.add_dock_widget(QLabel("dock"), name="of a test", area="bottom").window()
    viewer.window.resize(1340, 740)
    QApplication.processEvents()
    yield window
    viewer.window.remove_dock_widget("all")


@pytest.fixture
def planes(viewer, session, layers, window):
    made = Planes(viewer, layers, canvas_of(window), window)
    yield made
    made.close()
    main = made.area.main
    main.setParent(window)
    window.setCentralWidget(main)
    main.show()


def settle():
    for _ in range(4):
        QApplication.processEvents()


def test_the_others_show_what_the_main_plane_does_not(session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    for main, others in ((0, [1, 2]), (1, [0, 2]), (2, [0, 1])):
        layers.set_plane(PLANES[main])
        assert [canvas.axis for canvas in planes.beside] == others
        for canvas in planes.beside:
            assert canvas.slice_index == layers.current_slice(canvas.axis)


@pytest.mark.parametrize("main", PLANES)
def test_our_pixels_show_the_rod_right_beside_any_main_plane(session, layers, planes, main):
    session.update(case=phantom_case())
    layers.toggle_overlays()
    planes.show_layout(Layout.THREE)
    go_through(layers, session.case.masks["rod"])
    layers.set_plane(main)
    planes.toggle_cross_hair()
    settle()
    for canvas in planes.beside:
        if canvas.axis != 2:
            assert lies_on(pixels(canvas), brighter_than=250) == "right"
            assert canvas.letters.right == "L"


def painted_by(sheet):
    """Return where a sheet paints at all, as booleans (rows, columns)."""
    image = QImage(sheet.size(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(0)
    sheet.render(image, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
    return rows[:, : 4 * image.width()].reshape(image.height(), image.width(), 4)[..., 3] > 0


@pytest.mark.parametrize("down", [-12, -6, 0, 6, 12])
def test_the_cross_hair_goes_through_no_letter(session, planes, down):
    """An L whose foot is struck through is an I."""
    session.update(case=phantom_case())
    settle()
    sheet = planes.sheet
    centre = sheet.rect().center()
    sheet._at = (0, float(centre.x() + down), float(centre.y() + down))
    lit = painted_by(sheet)
    across, along = lit[centre.y() + down], lit[:, centre.x() + down]
    for line, middle in ((across, centre.x()), (along, centre.y())):
        assert not line[:48].any() and not line[-48:].any()
        assert line[70 : middle - 40].all() and line[middle + 40 : -70].all()


def test_a_click_takes_all_planes_there(viewer, session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    settle()
    coronal, sagittal = planes.beside
    x, y = coronal.px_at((3, 0, 18))
    click(coronal, (x, y))
    assert layers.place.index_zyx == (3, 10, 18)
    assert sagittal.slice_index == 18
    x, y = planes.surface.px_at((3, 6, 7))
    click(planes.surface.widget, (x, y))
    assert layers.place.index_zyx == (3, 6, 7)
    assert (coronal.slice_index, sagittal.slice_index) == (6, 7)


def test_the_pointer_moves_the_cross_hair_only_where_nothing_else_is_in_hand(
    viewer, session, layers, planes
):
    session.update(case=phantom_case())
    before = layers.place.index_zyx
    at = tuple(planes.surface.px_at((0, 3, 3)))
    session.update(tool="window_region")
    click(planes.surface.widget, at)
    assert layers.place.index_zyx == before
    session.update(tool="")
    shapes = viewer.add_shapes(ndim=3)
    shapes.mode = "add_line"
    press(planes.surface.widget, at)
    assert layers.place.index_zyx == before
    shapes.mode = "pan_zoom"
    viewer.layers.remove(shapes)


def test_the_wheel_goes_through_the_slices_of_the_plane_under_it(session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    wheel(planes.beside[0], (60, 60), -120)
    assert layers.place.index_zyx == (6, 11, 12)
    wheel(planes.surface.widget, (60, 60), 240)
    assert layers.place.index_zyx == (4, 11, 12)


def test_control_and_wheel_zoom_the_main_plane_at_the_pointer(viewer, session, layers, planes):
    session.update(case=phantom_case())
    settle()
    zoom, under = viewer.scene.camera.zoom, planes.surface.index_at(200.0, 150.0)
    wheel(planes.surface.widget, (200, 150), 120, Qt.KeyboardModifier.ControlModifier)
    assert viewer.scene.camera.zoom > zoom
    assert np.allclose(planes.surface.index_at(200.0, 150.0), under)
    drag(planes.surface.widget, (200, 150), (230, 160), Qt.MouseButton.MiddleButton)
    assert np.allclose(planes.surface.index_at(230.0, 160.0), under)


def test_scrolling_the_main_plane_paints_no_other_until_the_reader_rests(
    qtbot, session, layers, planes
):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    settle()
    kept = [canvas._picture for canvas in planes.beside]
    layers.go_to(0, 2)
    assert planes._idle.isActive()
    qtbot.waitUntil(lambda: not planes._idle.isActive())
    settle()
    assert [canvas._picture for canvas in planes.beside] == kept
    assert all(canvas._index[0] == 2 for canvas in planes.beside)


def test_another_window_reaches_the_others_when_the_reader_rests(qtbot, session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    settle()
    layers.apply_preset("bone")
    assert planes.beside[0].scene.window_hu != layers.scene().window_hu
    qtbot.waitUntil(lambda: not planes._idle.isActive())
    assert all(c.scene.window_hu == layers.scene().window_hu for c in planes.beside)


def test_nothing_of_the_former_case_stays_on_the_other_planes(session, layers, planes):
    first, second = phantom_case(), phantom_case(case_id="second")
    session.update(case=first)
    planes.show_layout(Layout.THREE)
    session.update(case=second)
    for canvas in planes.beside:
        assert canvas.scene.ct_zyx is second.volume.display_zyx
        assert canvas.case_code == "second"
    session.update(case=None)
    assert all(canvas.scene is None for canvas in planes.beside)
    session.update(case=first)
    planes.show_layout(Layout.ONE)
    assert all(canvas.scene is None for canvas in planes.beside)  # no memory for what is not seen


def test_the_former_case_s_masks_are_let_go_of_when_one_plane_is_shown(session, layers, planes):
    first = phantom_case()
    session.update(case=first)
    planes.show_layout(Layout.THREE)
    former = weakref.ref(layers.scene().sheets[0].labels)
    planes.show_layout(Layout.ONE)
    session.update(case=phantom_case(case_id="second"))
    planes.catch_up()
    gc.collect()
    assert former() is None


def test_the_nose_side_counts_for_the_main_plane_with_its_letters(viewer, session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    ct = layers.layer("CT")
    layers.set_plane("sagittal")
    assert edge_letters(viewer, ct, layers.grid).left == "A"
    planes.toggle_nose_side()
    assert edge_letters(viewer, ct, layers.grid).left == "P"
    go_through(layers, session.case.masks["cube"])
    layers.toggle_overlays()
    shown = on_canvas(
        viewer, whole(session.case.masks["cube"]), layers.grid, picture(viewer).shape[:2]
    )
    assert np.argwhere(shown)[:, 1].mean() > shown.shape[1] / 2
    assert picture(viewer)[shown].mean() > 180
    layers.set_plane("axial")
    assert edge_letters(viewer, ct, layers.grid).right == "L"
    assert planes.beside[1].letters.left == "P"
    planes.toggle_nose_side()
    assert planes.beside[1].letters.left == "A"
    assert stored_object("view.json")["nose_right"] is False


def test_sides_that_are_not_trusted_are_nowhere(session, layers, planes):
    red = GeometryReport((GeometryWarning("codes-0", Level.RED, "no orientation"),))
    session.update(case=phantom_case(report=red))
    planes.show_layout(Layout.THREE)
    assert all(canvas.letters.right == "" for canvas in planes.beside)


def test_double_click_makes_a_plane_the_main_one_and_the_main_one_alone(session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.THREE)
    settle()
    double_click(planes.beside[0], (80, 80))
    assert layers.plane == "coronal"
    double_click(planes.surface.widget, (80, 80))
    assert planes.layout_now is Layout.ONE
    double_click(planes.surface.widget, (80, 80))
    assert planes.layout_now is Layout.THREE


@pytest.mark.parametrize("layout", list(Layout))
def test_napari_s_pixels_tell_the_pointer_s_place_in_every_layout(
    viewer, session, layers, planes, layout
):
    """By camera and canvas size alone, to 0.01 mm at the centres of voxels."""
    session.update(case=phantom_case())
    planes.show_layout(layout)
    settle()
    for zoom in (1.0, 2.3):
        viewer.scene.camera.zoom *= zoom
        for axis, plane in enumerate(PLANES):
            layers.set_plane(plane)
            settle()
            camera, (high, wide) = viewer.scene.camera, viewer.canvas.size
            row_axis, column_axis = row_and_column_axis(axis)
            index = list(layers.place.index_zyx)
            index[row_axis], index[column_axis] = 4, 6
            mm = np.array(index) * layers.grid.spacing_mm_zyx
            x = wide / 2 + (mm[column_axis] - camera.center[-1]) * camera.zoom
            y = high / 2 + (mm[row_axis] - camera.center[-2]) * camera.zoom
            found = layers.grid.ras_mm(planes.surface.index_at(x, y))
            assert np.abs(found - world_of(session.case, index)).max() < 0.01


def test_3d_shows_the_case_and_lets_go_of_it(qtbot, session, layers, planes):
    session.update(case=phantom_case())
    planes.show_layout(Layout.FOUR)
    qtbot.waitUntil(lambda: not planes.volume.busy)
    assert planes.volume.figure.edge_letters()["right"] == "L"
    session.update(case=None)
    assert planes.volume.figure.edge_letters() == {}
