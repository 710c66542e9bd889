"""Scrolling: the bar is there when there is something to scroll, and never over the content."""

import pytest
from qtpy.QtWidgets import QApplication, QVBoxLayout, QWidget

from napari_ctvqa.widgets.scrolling import Scrolling


@pytest.fixture
def area(qtbot):
    """A shown area of 300 × 400 pixels whose content is at least 200 pixels high."""
    content, block = QWidget(), QWidget()
    block.setMinimumHeight(200)
    layout = QVBoxLayout(content)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(block)
    made = Scrolling(content, "made")
    made.block = block
    qtbot.addWidget(made)
    made.resize(300, 400)
    made.show()
    qtbot.waitExposed(made)
    QApplication.processEvents()
    return made


def fits(area):
    bar = area.verticalScrollBar()
    needed = area.widget().height() > area.viewport().height()
    return bar.isVisible() == needed and area.widget().width() == area.viewport().width()


def test_the_bar_comes_and_goes_with_the_height_at_once(area):
    """No turn of Qt's loop lies between: a picture taken now shows no bar over the content."""
    assert fits(area)
    area.resize(300, 150)
    assert area.verticalScrollBar().isVisible()
    assert fits(area)
    area.resize(300, 260)
    assert not area.verticalScrollBar().isVisible()
    assert fits(area)


def test_the_bar_comes_and_goes_with_the_content(area, qtbot):
    area.block.setMinimumHeight(900)
    qtbot.waitUntil(lambda: area.verticalScrollBar().isVisible())
    assert fits(area)
    area.block.setMinimumHeight(100)
    qtbot.waitUntil(lambda: not area.verticalScrollBar().isVisible())
    assert fits(area)
    QApplication.processEvents()
    assert fits(area)
