"""Measuring in the picture: drawn, moved, kept, found again, by pointer and by key alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from keyboard import press_key
from pointer import LEFT, click, double_click, drag, move, press, release
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLabel, QLineEdit
from view_cases import SPACING_MM_RAS, phantom_case, picture

from napari_ctvqa.core.drawings import Kind, in_plane
from napari_ctvqa.io.measure_store import MeasureStore
from napari_ctvqa.widgets.overlays import canvas_of
from napari_ctvqa.widgets.plane_canvas import PlaneCanvas
from napari_ctvqa.widgets.shortcuts import Shortcuts
from napari_ctvqa.widgets.view_tools import ViewTools

SPACING_MM_ZYX = SPACING_MM_RAS[::-1]
ALT, SHIFT = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ShiftModifier
CONTROL, PLAIN = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def window(viewer):
    dock = viewer.window.add_dock_widget(QLabel("dock"), area="bottom")
    window = dock.window()
    viewer.window.remove_dock_widget(dock)
    return window


@pytest.fixture
def canvas(window):
    return canvas_of(window)


@pytest.fixture
def tools(viewer, layers, canvas, session):
    made = ViewTools(viewer, layers, canvas, session)
    session.update(case=phantom_case())
    picture(viewer)
    layers.go_to(0, 6)
    yield made
    made.close()


@pytest.fixture
def draw_tool(tools):
    return tools._draw_tools()[0]


@pytest.fixture
def px(tools):
    """Return the pixel of a display index."""
    surface = tools._napari

    def at(*index_zyx):
        return tuple(float(part) for part in surface.px_at(index_zyx))

    return at


def only(session):
    (kept,) = session.measurements
    return kept


def stored(session):
    case = session.case
    return [e["id"] for e in MeasureStore(case.volume, case.case_id).load().entries]


# ----------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("plane", [0, 1, 2])
def test_a_dragged_ruler_measures_between_its_ends_and_is_on_disk(
    session, layers, tools, canvas, px, plane
):
    layers.set_plane(("axial", "coronal", "sagittal")[plane])
    here = [6, 9, 12]
    layers.go_to(plane, here[plane])
    first, last = [3.0, 4.0, 5.0], [8.0, 13.0, 17.0]
    first[plane] = last[plane] = here[plane]
    session.wishes.tool.emit("ruler")
    drag(canvas, px(*first), px(*last))
    kept = only(session)
    way = (np.array(last) - first) * SPACING_MM_ZYX
    assert kept.found.value("length_mm") == pytest.approx(np.linalg.norm(way), abs=0.01)
    assert (kept.drawing.plane, kept.drawing.slice_index) == (plane, here[plane])
    assert stored(session) == [kept.id] == [session.measurement]
    assert session.tool == "ruler"  # the next one may follow


def test_a_ruler_clicked_at_both_ends_is_the_same(session, tools, canvas, px):
    session.wishes.tool.emit("ruler")
    click(canvas, px(6, 4, 5))
    assert session.measurements == ()
    move(canvas, px(6, 9, 9))
    click(canvas, px(6, 12, 15))
    way = np.array((8, 10)) * SPACING_MM_ZYX[1:]
    assert only(session).found.value("length_mm") == pytest.approx(np.linalg.norm(way), abs=0.01)


def test_the_number_is_live_while_it_is_drawn(session, tools, draw_tool, canvas, px):
    session.wishes.tool.emit("ruler")
    press(canvas, px(6, 4, 5))
    for column in (9, 14):
        move(canvas, px(6, 4, column), LEFT)
        live = draw_tool.view.live.found.value("length_mm")
        assert live == pytest.approx((column - 5) * SPACING_MM_ZYX[2], abs=0.01)
    assert session.measurements == ()
    release(canvas, px(6, 4, 14))
    assert draw_tool.view.live is None


def test_a_bidirectional_gets_its_short_axis_at_a_right_angle(session, tools, canvas, px):
    session.wishes.tool.emit("bidirectional")
    drag(canvas, px(6, 4, 5), px(6, 12, 15))
    points = np.array(only(session).drawing.points) * SPACING_MM_ZYX[1:]
    assert abs((points[1] - points[0]) @ (points[3] - points[2])) < 1e-9
    drag(canvas, px(6, *only(session).drawing.points[2]), px(6, 12, 6))
    points = np.array(only(session).drawing.points) * SPACING_MM_ZYX[1:]
    assert abs((points[1] - points[0]) @ (points[3] - points[2])) < 1e-9
    assert only(session).drawing.points[2] == pytest.approx((12, 6), abs=0.05)


def test_an_ellipse_gives_the_hu_under_it(session, tools, canvas, px):
    session.wishes.tool.emit("ellipse")
    drag(canvas, px(6, 5.2, 7.3), px(6, 12.6, 14.8))
    found = only(session).found
    rows, columns = np.mgrid[0:20, 0:24]
    inside = ((rows - 8.9) / 3.7) ** 2 + ((columns - 11.05) / 3.75) ** 2 <= 1
    values = session.case.volume.array_zyx[6][inside].astype(float)
    assert found.value("mean_hu") == pytest.approx(values.mean())
    assert found.value("voxels") == inside.sum()
    area = math.pi * 3.7 * SPACING_MM_ZYX[1] * 3.75 * SPACING_MM_ZYX[2]
    assert found.value("area_mm2") == pytest.approx(area, rel=1e-3)


def test_a_polygon_is_clicked_and_closed_by_a_double_click(session, tools, canvas, px):
    session.wishes.tool.emit("polygon")
    for corner in ((4, 5), (4, 14)):
        click(canvas, px(6, *corner))
        move(canvas, px(6, 8, 8))
    double_click(canvas, px(6, 12, 14))
    assert only(session).drawing.points == pytest.approx(
        np.array(((4, 5), (4, 14), (12, 14))), abs=0.05
    )
    expected = 8 * 9 / 2 * SPACING_MM_ZYX[1] * SPACING_MM_ZYX[2]
    assert only(session).found.value("area_mm2") == pytest.approx(expected, rel=0.01)


def test_a_polygon_is_closed_by_a_click_on_its_first_corner(session, tools, canvas, px):
    session.wishes.tool.emit("polygon")
    for corner in ((4, 5), (4, 14), (12, 14), (12, 5), (4.05, 5.05)):
        click(canvas, px(6, *corner))
    assert len(only(session).drawing.points) == 4


def test_an_angle_is_one_drag_and_one_click(session, tools, canvas, px):
    session.wishes.tool.emit("angle")
    drag(canvas, px(6, 4, 5), px(6, 12, 5))
    move(canvas, px(6, 12, 9))
    click(canvas, px(6, 12, 15))
    assert only(session).found.value("angle_deg") == pytest.approx(90, abs=0.01)


def test_a_region_half_outside_the_picture_counts_what_is_inside(session, tools, canvas, px):
    session.wishes.tool.emit("ellipse")
    drag(canvas, px(6, 4, 19.5), px(6, 12, 27.5))
    found = only(session).found
    assert "50% of the outline lies outside" in found.caveats[0]
    drag(canvas, px(6, -6, 2), px(6, -2, 6))
    outside = session.measurements[-1].found
    assert "no voxels" in outside.caveats
    assert [m.value for m in outside.values if m.unit == "HU"] == [None] * 4


def test_a_click_without_a_way_keeps_nothing(session, tools, canvas, px):
    for tool in ("ruler", "ellipse"):
        session.wishes.tool.emit(tool)
        click(canvas, px(6, 4, 5))
        click(canvas, px(6, 4, 5))
        assert session.measurements == ()


def test_another_slice_drops_what_is_not_finished(session, layers, tools, draw_tool, canvas, px):
    session.wishes.tool.emit("polygon")
    click(canvas, px(6, 4, 5))
    click(canvas, px(6, 4, 14))
    layers.go_to(0, 7)
    assert draw_tool.view.live is None
    click(canvas, px(7, 12, 14))
    double_click(canvas, px(7, 12, 5))
    assert session.measurements == ()


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_canvas_beside_napari_s_measures_the_same(qtbot, session, layers, tools, mirrored):
    beside = PlaneCanvas(2)
    qtbot.addWidget(beside)
    beside.resize(320, 280)
    beside.show_plane(2, mirrored=mirrored)
    beside.show_scene(layers.scene())
    beside.show_place((6, 9, 12))
    beside.show()
    tools.add_surface(beside)
    session.wishes.tool.emit("ruler")
    first, last = ((3, 4, 12), (8, 13, 12))
    start, end = (tuple(float(n) for n in beside.px_at(point)) for point in (first, last))
    drag(beside, start, end)
    kept = only(session)
    assert (kept.drawing.plane, kept.drawing.slice_index) == (2, 12)
    assert np.array(kept.drawing.points) == pytest.approx(np.array([(3, 4), (8, 13)]), abs=0.01)
    way = np.array((5, 9)) * SPACING_MM_ZYX[:2]
    assert kept.found.value("length_mm") == pytest.approx(np.linalg.norm(way), abs=0.01)
    tools.remove_surface(beside)
    drag(beside, start, end)
    assert len(session.measurements) == 1


# ------------------------------------------------------------------------ afterwards


@pytest.fixture
def ruler(session, tools, canvas, px):
    session.wishes.tool.emit("ruler")
    drag(canvas, px(6, 4, 5), px(6, 4, 15))
    session.wishes.tool.emit("ruler")
    return only(session)


def test_a_handle_moves_a_point_and_a_line_the_whole(session, tools, canvas, px, ruler):
    drag(canvas, px(6, 4, 15), px(6, 10, 15))
    assert only(session).drawing.points == pytest.approx(np.array(((4, 5), (10, 15))), abs=0.05)
    drag(canvas, px(6, 7, 10), px(6, 9, 13))
    assert only(session).drawing.points == pytest.approx(np.array(((6, 8), (12, 18))), abs=0.05)
    assert only(session).id == ruler.id
    tools.undo()
    tools.undo()
    assert only(session).drawing == ruler.drawing


def test_undo_and_redo_go_through_drawing_moving_naming_and_deleting(
    session, tools, canvas, px, ruler
):
    drag(canvas, px(6, 4, 15), px(6, 10, 15))
    moved = only(session).drawing
    session.wishes.measure_rename.emit(ruler.id, "  the   lesion ")
    assert only(session).name == "the lesion"
    tools.measurements.delete()
    assert (session.measurements, stored(session)) == ((), [])
    tools.undo()
    assert (only(session).name, stored(session)) == ("the lesion", [ruler.id])
    tools.undo()
    assert only(session).name == ruler.name
    tools.undo()
    assert only(session).drawing == ruler.drawing
    tools.undo()
    assert (session.measurements, stored(session)) == ((), [])
    for _ in range(2):
        tools.redo()
    assert only(session).drawing == moved


def test_a_drag_beside_everything_still_moves_the_picture(
    viewer, session, tools, canvas, px, ruler
):
    before = tuple(viewer.scene.camera.center)
    drag(canvas, px(6, 12, 6), px(6, 14, 9))
    picture(viewer)
    assert tuple(viewer.scene.camera.center) != before
    assert only(session).drawing == ruler.drawing


def test_a_drawing_shows_on_its_own_slice_and_plane_alone(session, layers, tools, draw_tool, ruler):
    view = draw_tool.view
    assert [one.drawing for one in view.shown()] == [ruler.drawing]
    layers.go_to(0, 7)
    assert view.shown() == []
    layers.go_to(0, 6)
    layers.set_plane("coronal")
    layers.go_to(1, 6)
    assert view.shown() == []


def painted(draw_tool):
    """Return which pixels of the sheet are painted light."""
    view = draw_tool.view
    QApplication.processEvents()
    image = view.grab().toImage().convertToFormat(view.grab().toImage().Format.Format_RGB32)
    raw = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1, 4)
    return raw[..., :3].min(axis=2) > 150, image.devicePixelRatio()


def test_the_line_is_painted_where_its_voxels_are_at_any_zoom(
    viewer, session, layers, tools, draw_tool, px, ruler
):
    session.wishes.measure_choose.emit("")
    for zoom in (1.0, 1.6):
        viewer.scene.camera.zoom *= zoom
        picture(viewer)
        light, ratio = painted(draw_tool)
        for column in (6, 10, 14):
            x, y = (round(part * ratio) for part in px(6, 4, column))
            assert light[y - 1 : y + 2, x - 1 : x + 2].any()
        x, y = (round(part * ratio) for part in px(6, 12, 10))
        assert not light[y - 3 : y + 4, x - 3 : x + 4].any()


def test_measurements_are_there_again_when_the_case_is(session, layers, tools, ruler):
    case = session.case
    session.update(case=None)
    assert session.measurements == ()
    hu = case.volume.array_zyx + 1
    other = replace(case, volume=replace(case.volume, array_zyx=hu, display_zyx=hu))
    session.update(case=other)
    assert session.measurements == ()
    tools.undo()  # what was done on the first case is not undone on another
    assert session.measurements == ()
    session.update(case=case)
    again = only(session)
    assert (again.id, again.drawing, again.found) == (ruler.id, ruler.drawing, ruler.found)


def test_jumping_goes_to_plane_and_slice(session, layers, tools, ruler):
    layers.set_plane("sagittal")
    layers.go_to(0, 2)
    session.wishes.measure_jump.emit(ruler.id)
    assert (layers.plane, layers.current_slice(0)) == ("axial", 6)
    assert session.measurement == ruler.id


def test_a_measurement_that_cannot_be_written_is_not_shown_as_kept(
    session, tools, canvas, px, monkeypatch
):
    session.update(case=None)
    monkeypatch.setenv("NAPARI_CTVQA_MEASUREMENTS", "/dev/null/nowhere")
    session.update(case=phantom_case(case_id="elsewhere"))
    session.wishes.tool.emit("ruler")
    drag(canvas, px(6, 4, 5), px(6, 4, 15))
    assert session.measurements == ()
    assert "cannot be kept here" in session.problem.message


def test_a_damaged_file_is_said_and_the_rest_is_shown(session, tools, ruler):
    case = session.case
    path = MeasureStore(case.volume, case.case_id).path
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    session.update(case=None)
    session.update(case=case)
    assert only(session).id == ruler.id
    assert "1 of 2 lines cannot be read" in session.problem.message


def test_in_3d_nothing_is_drawn_nor_painted(viewer, session, tools, draw_tool, canvas, ruler):
    session.wishes.tool.emit("ruler")
    viewer.dims.ndisplay = 3
    drag(canvas, (200, 200), (300, 260))
    assert len(session.measurements) == 1
    light, _ = painted(draw_tool)
    assert not light.any()


# -------------------------------------------------------------------------------- keys


@pytest.fixture
def keys(window, tools, qtbot):
    """Press keys in the window as a person does; the tools' own actions answer."""
    shortcuts = Shortcuts(window, tools.actions())
    tools.bind(shortcuts)

    def press_here(key, modifier=PLAIN, times=1):
        press_key(window, key, modifier, times)
        QApplication.processEvents()

    yield press_here
    shortcuts.close()


def test_a_ruler_is_drawn_moved_stepped_and_deleted_by_keys_alone(session, layers, keys, draw_tool):
    keys(Qt.Key.Key_D)
    assert session.tool == "ruler"
    keys(Qt.Key.Key_Left, ALT, 2)
    start = draw_tool.view.cursor
    keys(Qt.Key.Key_Return, CONTROL)
    keys(Qt.Key.Key_Right, ALT | SHIFT)
    keys(Qt.Key.Key_Down, ALT, 3)
    keys(Qt.Key.Key_Return, CONTROL)
    kept = only(session)
    assert kept.drawing.points == (start, (start[0] + 3, start[1] + 10))
    keys(Qt.Key.Key_Escape)
    assert (session.tool, draw_tool.view.cursor) == ("ruler", None)
    keys(Qt.Key.Key_Escape)
    assert session.tool == ""
    keys(Qt.Key.Key_Period)
    keys(Qt.Key.Key_Up, ALT)
    assert only(session).drawing.points == (start, (start[0] + 2, start[1] + 10))
    layers.go_to(0, 2)
    keys(Qt.Key.Key_N)
    assert layers.current_slice(0) == kept.drawing.slice_index
    keys(Qt.Key.Key_Z, CONTROL)
    assert only(session).drawing == kept.drawing
    keys(Qt.Key.Key_Delete)
    assert session.measurements == ()
    keys(Qt.Key.Key_Z, CONTROL)
    keys(Qt.Key.Key_Y, CONTROL)
    assert session.measurements == ()


def test_a_polygon_is_drawn_by_keys_and_closed_where_it_ended(session, keys, draw_tool):
    keys(Qt.Key.Key_P)
    keys(Qt.Key.Key_Return, CONTROL)
    keys(Qt.Key.Key_Return, CONTROL)  # the same place again is no corner
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left):
        keys(key, ALT, 3)
        keys(Qt.Key.Key_Return, CONTROL)
    assert session.measurements == ()
    keys(Qt.Key.Key_Return, CONTROL)
    points = np.array(only(session).drawing.points)
    assert (points - points[0]).tolist() == [[0, 0], [0, 3], [3, 3], [3, 0]]


def test_the_window_is_taken_from_a_rectangle_and_changed_by_keys(session, tools, keys, draw_tool):
    keys(Qt.Key.Key_W, SHIFT)
    keys(Qt.Key.Key_Return, CONTROL)
    assert tools.windowing.window == (400, 40)
    row, column = (int(part) for part in draw_tool.view.cursor)
    keys(Qt.Key.Key_Right, ALT, 3)
    keys(Qt.Key.Key_Down, ALT, 4)
    keys(Qt.Key.Key_Return, CONTROL)
    values = session.case.volume.array_zyx[6, row : row + 5, column : column + 4]
    lo, hi = np.percentile(values, (5, 95))
    assert session.tool == ""
    assert tools.windowing.window == (max(round(hi - lo), 10), round((hi + lo) / 2))
    keys(Qt.Key.Key_W)
    keys(Qt.Key.Key_Right, CONTROL | SHIFT)
    keys(Qt.Key.Key_Up, CONTROL | SHIFT, 2)
    assert tools.windowing.window == (440, 120)
    keys(Qt.Key.Key_Z, CONTROL, 3)
    assert tools.windowing.window == (400, 40)


def test_esc_drops_the_drawing_first_then_the_tool_then_the_choice(
    session, keys, canvas, px, draw_tool, ruler
):
    keys(Qt.Key.Key_E)
    click(canvas, px(6, 8, 8))
    keys(Qt.Key.Key_Escape)
    assert (draw_tool.view.live, session.tool) == (None, "ellipse")
    keys(Qt.Key.Key_Escape)
    assert (session.tool, session.measurement) == ("", ruler.id)
    keys(Qt.Key.Key_Escape)
    assert session.measurement == ""


def test_typing_takes_no_tool_and_deletes_nothing(session, window, keys, qtbot, ruler):
    field = QLineEdit(window)
    field.show()
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    for key in "debpan":
        QTest.keyClick(field, key)
    for key in (Qt.Key.Key_Backspace, Qt.Key.Key_Delete, Qt.Key.Key_Escape, Qt.Key.Key_Period):
        QTest.keyClick(field, key)
    QTest.keyClick(field, Qt.Key.Key_Z, CONTROL)
    assert (session.tool, only(session).id) == ("", ruler.id)
    assert field.text().startswith("debpa")
    field.deleteLater()


def test_keys_of_all_kinds_take_their_tool(session, keys):
    wanted = {
        Qt.Key.Key_B: Kind.BIDIRECTIONAL,
        Qt.Key.Key_A: Kind.ANGLE,
        Qt.Key.Key_E: Kind.ELLIPSE,
    }
    for key, kind in wanted.items():
        keys(key)
        assert session.tool == kind
        keys(key)
        assert session.tool == ""


def test_points_keep_their_place_in_the_plane():
    assert in_plane((1, 2, 3), 1) == (1, 3)
