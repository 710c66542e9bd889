"""Fixtures for tests with a window: they need a display (Xvfb will do) and OpenGL."""

import gc
import os

import pytest
from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QApplication, QLabel

from napari_ctvqa.core.session import Session

os.environ.setdefault("NAPARI_ASYNC", "0")


@pytest.fixture(autouse=True)
def _no_user_s_settings(monkeypatch, tmp_path_factory):
    """Leave the folders of whoever runs the tests alone."""
    kept = tmp_path_factory.mktemp("measurements")
    monkeypatch.setenv("NAPARI_CTVQA_MEASUREMENTS", str(kept))
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))


def _destroy_what_is_due():
    for _ in range(3):
        QApplication.processEvents()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()


def _open_windows():
    return {w for w in QApplication.topLevelWidgets() if w.isVisible()}


@pytest.fixture(autouse=True)
def _nothing_left_open(qapp, request):
    """Fail a test that leaves a window behind."""
    if "viewer" in request.fixturenames:
        request.getfixturevalue("_modules_viewer")
    before = _open_windows()
    yield
    QApplication.processEvents()
    if _open_windows() - before:  # collecting all garbage takes longer than most tests
        _destroy_what_is_due()
    left = _open_windows() - before
    assert not left, f"windows left open: {left}"


@pytest.fixture
def make_viewer(qapp):
    """Make shown napari viewers of a given size in pixels; all are closed after the test."""
    import napari

    viewers = []

    def make(width=900, height=700):
        viewer = napari.Viewer(show=True)
        viewer.window.resize(width, height)
        viewers.append(viewer)
        QApplication.processEvents()
        return viewer

    yield make
    for viewer in viewers:
        viewer.close()
    _destroy_what_is_due()


@pytest.fixture(scope="module")
def _modules_viewer(qapp):
    import napari

    viewer = napari.Viewer(show=True)
    yield viewer
    viewer.close()
    _destroy_what_is_due()


@pytest.fixture
def viewer(_modules_viewer):
    """A napari viewer as good as new, 900 × 700 pixels; one a module, as making one takes long."""
    viewer = _modules_viewer
    viewer.window.resize(900, 700)
    viewer.dims.ndisplay = 2
    viewer.scene.camera.orientation = ("towards", "down", "right")
    viewer.scene.camera.angles = (0, 0, 0)
    QApplication.processEvents()
    yield viewer
    viewer.layers.clear()
    viewer.dims.order = tuple(range(viewer.dims.ndim))
    QApplication.processEvents()


@pytest.fixture
def canvas(viewer):
    """The widget that napari draws its picture on."""
    from napari_ctvqa.widgets.overlays import canvas_of

    dock = viewer.window.add_dock_widget(QLabel("dock"), area="bottom")
    window = dock.window()
    viewer.window.remove_dock_widget(dock)
    return canvas_of(window)


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def layers(viewer, session):
    """The session's case in the viewer."""
    from napari_ctvqa.widgets.layers import CaseLayers

    made = CaseLayers(viewer, session)
    yield made
    made.close()
