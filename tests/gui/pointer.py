"""The pointer over a canvas, as the window system moves it."""

from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent, QWheelEvent
from qtpy.QtWidgets import QApplication

LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton
NONE, PLAIN = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier


def send(widget, kind, at, button, held, keys=PLAIN):
    here = QPointF(*at)
    there = QPointF(widget.mapToGlobal(QPoint(round(at[0]), round(at[1]))))
    QApplication.sendEvent(widget, QMouseEvent(kind, here, there, button, held, keys))


def press(widget, at, button=LEFT, keys=PLAIN):
    send(widget, QEvent.Type.MouseButtonPress, at, button, button, keys)


def move(widget, at, held=NONE, keys=PLAIN):
    send(widget, QEvent.Type.MouseMove, at, NONE, held, keys)


def release(widget, at, button=LEFT, keys=PLAIN):
    send(widget, QEvent.Type.MouseButtonRelease, at, button, NONE, keys)


def click(widget, at, button=LEFT, keys=PLAIN):
    press(widget, at, button, keys)
    release(widget, at, button, keys)


def double_click(widget, at, button=LEFT):
    click(widget, at, button)
    send(widget, QEvent.Type.MouseButtonDblClick, at, button, button)
    release(widget, at, button)


def drag(widget, start, end, button=LEFT, keys=PLAIN, steps=3):
    press(widget, start, button, keys)
    for n in range(1, steps + 1):
        part = n / steps
        at = [a + (b - a) * part for a, b in zip(start, end, strict=True)]
        move(widget, at, button, keys)
    release(widget, end, button, keys)


def wheel(widget, at, angle, keys=PLAIN):
    here = QPointF(*at)
    phase = Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(here, here, QPoint(), QPoint(0, angle), NONE, keys, phase, False)
    QApplication.sendEvent(widget, event)
