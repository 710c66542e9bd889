"""Listening: a panel behind another tab waits, and is right the moment it is seen."""

import pytest
from psygnal import Signal
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QDockWidget, QMainWindow, QWidget

from napari_ctvqa.widgets.listening import Listening


class Source:
    """Two signals as a session has them."""

    first = Signal()
    second = Signal()


@pytest.fixture
def window(qtbot):
    """A window with two docks in one tab group; the second is in front."""
    main = QMainWindow()
    main.setCentralWidget(QWidget())
    qtbot.addWidget(main)
    main.docks = []
    for name in ("behind", "front"):
        dock = QDockWidget(name, main)
        dock.setWidget(QWidget())
        main.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
        main.docks.append(dock)
    main.tabifyDockWidget(*main.docks)
    main.resize(600, 400)
    main.show()
    qtbot.waitExposed(main)
    main.docks[1].raise_()
    QApplication.processEvents()
    return main


@pytest.fixture
def heard():
    return []


def listening(source, heard, panel):
    return Listening(
        (source.first, lambda: heard.append("first")),
        (source.second, lambda: heard.append("second")),
        panel=panel,
    )


def test_what_is_seen_hears_at_once(window, heard):
    source = Source()
    kept = listening(source, heard, window.docks[1].widget())
    source.first.emit()
    assert heard == ["first"]
    kept.close()


def test_what_is_behind_waits_and_hears_each_once_when_it_is_seen(window, heard):
    source = Source()
    kept = listening(source, heard, window.docks[0].widget())
    for signal in (source.second, source.first, source.second):
        signal.emit()
    assert heard == []
    window.docks[0].raise_()
    QApplication.processEvents()
    assert heard == ["second", "first"]
    source.first.emit()
    assert heard == ["second", "first", "first"]
    window.docks[1].raise_()
    QApplication.processEvents()
    source.first.emit()
    assert len(heard) == 3
    kept.close()


def test_a_closed_dock_waits_too(window, heard):
    source = Source()
    kept = listening(source, heard, window.docks[1].widget())
    window.docks[1].close()
    QApplication.processEvents()
    source.first.emit()
    assert heard == []
    window.docks[1].show()
    window.docks[1].raise_()
    QApplication.processEvents()
    assert heard == ["first"]
    kept.close()


def test_whoever_uses_it_before_makes_it_catch_up(window, heard):
    source = Source()
    kept = listening(source, heard, window.docks[0].widget())
    source.first.emit()
    kept.catch_up()
    assert heard == ["first"]
    window.docks[0].raise_()
    QApplication.processEvents()
    assert heard == ["first"]
    kept.close()


@pytest.mark.parametrize("shown", [True, False])
def test_without_a_dock_or_a_shown_window_nothing_waits(qtbot, heard, shown):
    source, panel = Source(), QWidget()
    qtbot.addWidget(panel)
    panel.setVisible(shown)
    kept = listening(source, heard, panel)
    source.first.emit()
    assert heard == ["first"]
    kept.close()


def test_after_the_end_nothing_is_heard(window, heard):
    source = Source()
    kept = listening(source, heard, window.docks[0].widget())
    source.first.emit()
    kept.close()
    kept.close()
    source.first.emit()
    window.docks[0].raise_()
    QApplication.processEvents()
    assert heard == []
