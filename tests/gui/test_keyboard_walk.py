"""The whole of the view by keys alone, sent to the window as a keyboard sends them."""

import napari
import pytest
from keyboard import press_key
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLineEdit, QTableWidget

from napari_ctvqa import demo
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.planes_area import Layout
from napari_ctvqa.widgets.shortcuts import HelpSheet, bindings

pytestmark = pytest.mark.slow

KEY, SHIFT = Qt.Key, Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture(scope="module")
def app(qapp):
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    app.coordinator.open(demo.ensure_demo(), question_id=demo.FIRST_QUESTION)
    assert wait_until(lambda: not app.coordinator.busy)
    yield app
    app.close()
    viewer.close()


def press(app, key, modifier=Qt.KeyboardModifier.NoModifier):
    press_key(app.window, key, modifier, focus=app.window)
    assert wait_until(lambda: not app.coordinator.busy)
    QApplication.processEvents()


def test_planes_and_slices(app):
    for key, plane in ((KEY.Key_2, "coronal"), (KEY.Key_3, "sagittal"), (KEY.Key_1, "axial")):
        press(app, key, SHIFT)
        assert app.layers.plane == plane
    before = app.layers.current_slice(0)
    press(app, KEY.Key_Down)
    assert app.layers.current_slice(0) == before + 1
    press(app, KEY.Key_Home)
    assert app.layers.current_slice(0) == 0


def test_layouts(app):
    for key, layout in (
        (KEY.Key_F3, Layout.THREE),
        (KEY.Key_F4, Layout.FOUR),
        (KEY.Key_F2, Layout.ONE),
    ):
        press(app, key)
        assert app.planes.layout_now is layout
    for alone in (True, False):
        press(app, KEY.Key_F5)
        assert app.layouts.picture_alone is alone


def test_the_window(app):
    press(app, KEY.Key_1)
    abdomen = app.tools.windowing.window
    press(app, KEY.Key_2)
    assert app.tools.windowing.window != abdomen
    press(app, KEY.Key_1)
    assert app.tools.windowing.window == abdomen
    press(app, KEY.Key_Right, CONTROL | SHIFT)
    width, level = app.tools.windowing.window
    assert width > abdomen[0]
    assert level == abdomen[1]
    press(app, KEY.Key_W)
    assert app.tools.windowing.window == abdomen


def test_overlays_and_player(app):
    drawn = len(app.layers.drawn_here())
    press(app, KEY.Key_G)
    hidden = len(app.layers.drawn_here())
    press(app, KEY.Key_G)
    assert (hidden, len(app.layers.drawn_here())) == (0, drawn)
    assert drawn > 0
    press(app, KEY.Key_P, SHIFT)
    assert app.player.playing
    press(app, KEY.Key_P, SHIFT)
    assert not app.player.playing
    speed = app.player.speed
    press(app, KEY.Key_J, SHIFT)
    assert app.player.speed == speed + 1
    press(app, KEY.Key_K, SHIFT)
    assert app.player.speed == speed


def test_evidence_steps(app):
    told = []
    app.session.wishes.focus_step.connect(told.append)
    for key in (KEY.Key_J, KEY.Key_J, KEY.Key_K):
        press(app, key)
    app.session.wishes.focus_step.disconnect(told.append)
    first, second, again = told
    assert first is not second
    assert again is first


def test_a_ruler(app):
    press(app, KEY.Key_D)
    assert app.session.tool == "ruler"
    press(app, KEY.Key_Return, CONTROL)
    press(app, KEY.Key_Right, Qt.KeyboardModifier.AltModifier | SHIFT)
    press(app, KEY.Key_Return, CONTROL)
    (kept,) = app.session.measurements
    (_, from_x), (_, to_x) = kept.drawing.points
    assert to_x - from_x == 10
    press(app, KEY.Key_Delete)
    assert app.session.measurements == ()
    for _ in range(2):
        press(app, KEY.Key_Escape)
    assert app.session.tool == ""


def test_f1_lists_every_key(app):
    press(app, KEY.Key_F1)
    (sheet,) = app.window.findChildren(HelpSheet)
    table = sheet.findChild(QTableWidget)
    listed = " ".join(table.item(row, 0).text() for row in range(table.rowCount()))
    for key in (key for binding in bindings() for key in binding.keys):
        assert key in listed
    sheet.close()
    sheet.deleteLater()


def test_typing_neither_answers_nor_pages(app):
    press(app, KEY.Key_F, CONTROL)
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    row, window, plane = app.session.row, app.tools.windowing.window, app.layers.plane
    place = app.layers.current_slice(0)
    QTest.keyClicks(field, "1g5jkpwe")
    for key in (KEY.Key_PageUp, KEY.Key_Home, KEY.Key_End, KEY.Key_F4):
        QTest.keyClick(field, key)
    assert field.text() == "1g5jkpwe"
    now = (app.session.row, app.tools.windowing.window, app.layers.plane)
    assert now == (row, window, plane)
    assert app.layers.current_slice(0) == place
    assert app.planes.layout_now is Layout.ONE
    field.clear()
