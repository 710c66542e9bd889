"""At 1366 × 768 nothing is cut off: the axial picture has its width, tabs their whole names."""

import napari
import pytest
from qtpy.QtWidgets import QTabBar

from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import WINDOW_SIZE_PX, wait_until
from napari_ctvqa.widgets.planes_area import Layout


@pytest.fixture(scope="module")
def app(qapp):
    viewer = napari.Viewer(show=True)
    app = app_for(viewer)
    app.arrange()
    viewer.window.resize(*WINDOW_SIZE_PX)
    wait_until(lambda: False, 0.3)
    yield app
    app.close()
    viewer.close()


def _inside(app, part, rect):
    return app.window.rect().contains(rect.translated(part.mapTo(app.window, rect.topLeft())))


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_picture_is_wide_and_every_tab_s_name_is_whole(app, layout, theme):
    app.viewer.theme = theme
    app.layouts.show(layout)
    wait_until(lambda: False, 0.4)
    assert (app.window.width(), app.window.height()) == WINDOW_SIZE_PX
    assert app.canvas.width() >= 500
    bars = [bar for bar in app.window.findChildren(QTabBar) if bar.isVisible() and bar.count()]
    assert sum(bar.count() for bar in bars) >= 9
    for bar in bars:
        assert _inside(app, bar, bar.rect())
        for tab in range(bar.count()):
            needed = bar.fontMetrics().horizontalAdvance(bar.tabText(tab))
            assert bar.tabRect(tab).width() > needed, bar.tabText(tab)
            assert bar.rect().contains(bar.tabRect(tab)), bar.tabText(tab)
