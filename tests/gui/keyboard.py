"""Keys pressed in a window that has the keyboard, as the window system gives it."""

from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_ctvqa.widgets.launch import wait_until

PLAIN = Qt.KeyboardModifier.NoModifier


def activate(window):
    """Give a window the keyboard.

    A shortcut of a window that is not active is lost without a word, and a display server that has
    much to do makes it active later than asked.
    """

    def active():
        window.activateWindow()
        QApplication.processEvents()
        return window.isActiveWindow()

    assert wait_until(active), "the display server does not make the window active"


def press_key(window, key, modifier=PLAIN, times=1, focus=None):
    """Press a key ``times`` times; ``focus`` has the keyboard meanwhile, else the middle."""
    activate(window)
    (focus or window.centralWidget()).setFocus()
    QApplication.processEvents()
    for _ in range(times):
        QTest.keyClick(window, key, modifier)
