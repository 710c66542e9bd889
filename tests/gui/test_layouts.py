"""The layouts of the whole window at 1366 × 768: keys, docks, room for the pictures."""

import pytest
from keyboard import press_key
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QTabBar
from view_cases import phantom_case

from napari_ctvqa.widgets.app import RESEARCH_ONLY, app_for
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.planes_area import Layout
from napari_ctvqa.widgets.theme import TEXT_CONTRAST, contrast, theme_of

pytestmark = pytest.mark.slow

KEYS = {
    Layout.ONE: Qt.Key.Key_F2,
    Layout.THREE: Qt.Key.Key_F3,
    Layout.FOUR: Qt.Key.Key_F4,
}
LEFT, RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea


@pytest.fixture(scope="module")
def app(qapp):
    """One window for all tests here: making one takes seconds."""
    import napari

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    wait_until(lambda: False, 0.3)
    app.session.update(case=phantom_case())
    yield app
    app.close()
    viewer.close()


def press(app, key, modifier=Qt.KeyboardModifier.NoModifier):
    press_key(app.window, key, modifier)
    wait_until(lambda: False, 0.4)


def inside(app, widget):
    corner = widget.mapTo(app.window, widget.rect().topLeft())
    end = widget.mapTo(app.window, widget.rect().bottomRight())
    return app.window.rect().contains(corner) and app.window.rect().contains(end)


def test_a_first_window_shows_three_planes_where_there_is_room_and_keeps_no_choice(app):
    assert app.planes.layout_now is Layout.ONE  # 1366 pixels
    app.window.resize(1920, 768)
    try:
        app.layouts.begin()
        assert app.planes.layout_now is Layout.THREE
        press(app, KEYS[Layout.ONE])
        app.layouts.begin()
        assert app.planes.layout_now is Layout.ONE
    finally:
        app.window.resize(1366, 768)
        wait_until(lambda: False, 0.4)


@pytest.mark.parametrize("layout", [*KEYS, Layout.ONE, Layout.FOUR, Layout.THREE])
def test_every_layout_has_a_wide_axial_picture_and_cuts_nothing_off(app, layout):
    press(app, KEYS[layout])
    assert app.planes.layout_now is layout
    assert app.layouts.remembered() is layout
    assert (app.window.width(), app.window.height()) == (1366, 768)
    assert app.canvas.width() >= 500
    shown = [app.canvas, *app.planes.shown]
    shown += [app.planes.volume] if layout is Layout.FOUR else []
    assert len(shown) == {Layout.ONE: 1, Layout.THREE: 3, Layout.FOUR: 4}[layout]
    for widget in shown:
        assert widget.isVisible() and inside(app, widget)
        assert widget.visibleRegion().boundingRect().size() == widget.size()
    docks = [dock_of(panel) for panel in app.panels.values()]
    in_front = [dock for dock in docks if not dock.visibleRegion().isEmpty()]
    assert dock_of(app.panels["Questions"]) in in_front
    assert len(in_front) >= 2
    assert all(inside(app, dock) for dock in in_front)
    area = app.window.dockWidgetArea(dock_of(app.panels["Question"]))
    assert area == (RIGHT if layout is Layout.ONE else LEFT)
    bars = [b for b in app.window.findChildren(QTabBar) if b.parent() is app.window]
    for bar in bars:
        if bar.isVisible():  # none is left behind over a picture or where no dock is
            assert any(d.geometry().left() <= bar.x() <= d.geometry().right() for d in in_front)


def test_the_pictures_alone_and_back(app):
    press(app, KEYS[Layout.THREE])
    width = app.canvas.width()
    press(app, Qt.Key.Key_F5)
    assert app.canvas.width() > width + 200
    assert not any(dock_of(p).isVisible() for p in app.panels.values())
    assert dock_of(app.probe).isVisible()
    press(app, Qt.Key.Key_F5)
    assert abs(app.canvas.width() - width) <= 2
    assert dock_of(app.panels["Questions"]).isVisible()


def test_keys_hide_the_cross_hair_and_turn_the_nose(app):
    press(app, KEYS[Layout.THREE])
    assert app.planes.beside[1].letters.left == "A"
    press(app, Qt.Key.Key_N, Qt.KeyboardModifier.ShiftModifier)
    assert app.planes.beside[1].letters.left == "P"
    press(app, Qt.Key.Key_N, Qt.KeyboardModifier.ShiftModifier)
    press(app, Qt.Key.Key_X)
    assert not any(canvas.cross_hair for canvas in app.planes.beside)
    press(app, Qt.Key.Key_X)
    assert all(canvas.cross_hair for canvas in app.planes.beside)


def test_what_the_program_is_for_is_never_cut_off(app):
    for layout in KEYS:
        press(app, KEYS[layout])
        labels = [w for w in app.window.findChildren(QLabel) if w.text() == RESEARCH_ONLY]
        assert [inside(app, label) and label.isVisible() for label in labels] == [True]
        assert labels[0].visibleRegion().boundingRect().width() == labels[0].width()


def test_the_geometry_light_is_readable_in_either_theme(app):
    before = app.viewer.theme
    light = app.toolbar.light
    seen = {}
    for theme in ("dark", "light"):
        app.viewer.theme = theme
        wait_until(lambda: False, 0.3)
        window = theme_of(app.toolbar.palette()).window
        ink = light.styleSheet().partition("color: ")[2].partition(";")[0]
        assert contrast(ink, window) >= TEXT_CONTRAST
        seen[theme] = window
    app.viewer.theme = before
    assert seen["dark"] != seen["light"]


def test_the_light_has_no_colour_without_a_case(app):
    case = app.session.case
    app.session.update(case=None)
    assert not app.toolbar.light.styleSheet()
    app.session.update(case=case)
    assert "color" in app.toolbar.light.styleSheet()
