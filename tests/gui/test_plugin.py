"""The plugin as napari opens it: the menu's widget, the sample data, the reader."""

from pathlib import Path

import phantoms
import pytest
from napari.utils._proxies import PublicOnlyProxy
from npe2 import PluginManager, PluginManifest

from napari_ctvqa import _plugin
from napari_ctvqa.widgets import app as app_module
from napari_ctvqa.widgets.app import AppDock
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until

MANIFEST = Path(app_module.__file__).parents[1] / "napari.yaml"


@pytest.fixture
def plugin():
    """The manifest known to npe2, installed or not."""
    manager = PluginManager.instance()
    try:
        manager.get_manifest("napari-ctvqa")
    except KeyError:
        manager.register(PluginManifest.from_file(MANIFEST))
    return manager


def test_the_menus_widget_docks_the_panels(make_viewer, plugin):
    viewer = make_viewer(1366, 768)
    viewer.window.add_plugin_dock_widget("napari-ctvqa", "CT-VQA")
    wait_until(lambda: False, 0.3)
    app = app_module.app_for(viewer)
    assert app_module.app_for(PublicOnlyProxy(viewer)) is app
    assert all(dock_of(panel) is not None for panel in app.panels.values())
    assert app.panels["Questions"].isVisible()
    app.close()


def test_opening_it_twice_does_not_take_the_panels_away(make_viewer, qtbot):
    viewer = make_viewer(1366, 768)
    app = app_module.app_for(viewer)
    second = AppDock(viewer)
    qtbot.addWidget(second)
    assert dock_of(app.panels["Questions"]) is not None
    app.close()


def test_every_python_name_of_the_manifest_can_be_imported(plugin):
    PluginManifest.from_file(MANIFEST).validate_imports()


def test_the_sample_is_layers_of_the_demo(make_viewer):
    viewer = make_viewer()
    layers = _plugin.sample_demo()
    kinds = [kind for _, _, kind in layers]
    assert kinds[0] == "image"
    assert "labels" in kinds
    for data, kwargs, kind in layers:
        getattr(viewer, f"add_{kind}")(data, **kwargs)


def test_the_reader_takes_cases_and_nothing_else(tmp_path):
    case = phantoms.save_case(tmp_path / "case")
    assert _plugin.get_reader(str(case))
    assert _plugin.get_reader([str(case), str(case)]) is None
    (tmp_path / "text.txt").write_text("no CT")
    assert _plugin.get_reader(str(tmp_path / "text.txt")) is None
