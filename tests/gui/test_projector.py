"""The projector key: full screen, large type everywhere, and back as it was."""

import napari
import pytest
from keyboard import press_key
from napari.settings import get_settings
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel

from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.picture_text import TEXT_PX, text_font, type_scale
from napari_ctvqa.widgets.projector import TYPE_SCALE


@pytest.fixture
def app(qapp):
    viewer = napari.Viewer(show=True)
    app = app_for(viewer)
    app.arrange()
    viewer.window.resize(1200, 700)
    wait_until(lambda: False, 0.2)
    yield app
    app.close()
    viewer.close()


def _press_f8(app):
    press_key(app.window, Qt.Key.Key_F8, focus=app.window)
    wait_until(lambda: False, 0.3)


def _label_px(app):
    labels = app.panels["Question"].findChildren(QLabel)
    return {label.fontInfo().pixelSize() for label in labels}


def test_f8_fills_the_screen_in_large_type_and_goes_back(app):
    before, kept = app.window.size(), get_settings().appearance.font_size
    usual_px, marker = _label_px(app), app.viewer.canvas.overlays["ctvqa_left"]
    marker_points, width = marker.font_size, app.canvas.width()
    _press_f8(app)
    assert app.window.isFullScreen()
    assert min(_label_px(app)) >= 1.4 * min(usual_px)
    assert max(_label_px(app)) >= 1.4 * max(usual_px)
    assert text_font().pixelSize() == round(TEXT_PX * TYPE_SCALE)
    assert marker.font_size == pytest.approx(marker_points * TYPE_SCALE)
    assert get_settings().appearance.font_size == kept
    _press_f8(app)
    assert not app.window.isFullScreen()
    wait_until(lambda: False, 1.0)
    assert app.window.size() == before
    assert abs(app.canvas.width() - width) <= 2
    assert _label_px(app) == usual_px
    assert text_font().pixelSize() == TEXT_PX
    assert marker.font_size == marker_points


def test_large_type_does_not_make_a_laptops_window_wider(app):
    app.viewer.window.resize(1366, 768)
    app.arrange()
    _press_f8(app)
    wait_until(lambda: False, 0.5)
    least = {title: panel.minimumSizeHint().width() for title, panel in app.panels.items()}
    assert max(least.values()) < 580, least  # two of them and 200 pixels of picture side by side
    assert app.window.width() <= max(1366, app.window.screen().size().width())
    _press_f8(app)


def test_the_other_theme_keeps_the_large_type(app):
    theme = app.viewer.theme
    _press_f8(app)
    large = _label_px(app)
    app.viewer.theme = "light"
    wait_until(lambda: False, 0.3)
    assert _label_px(app) == large
    app.viewer.theme = theme


def test_a_window_closed_in_full_screen_is_not_remembered_so(qapp):
    viewer = napari.Viewer(show=True)
    _press_f8(app_for(viewer))
    viewer.close()
    assert not get_settings().application.window_fullscreen
    assert type_scale() == 1.0
