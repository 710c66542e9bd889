"""Turns: panels show what came in the background one after the other, and are painted together.

A window with a picture drawn by OpenGL is composed as a whole whenever a panel changes: 10 to 14 ms
by software. What several panels show of one answer, their layouts and that painting took 40 ms in
one go, in which a key or the pointer waits.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from qtpy.QtCore import QObject, QTimer


class Waiting(Protocol):
    """What has something due: a panel's ``Listening``."""

    def take_turn(self) -> None:
        """Do one thing that is due, without painting."""

    def paint(self) -> None:
        """Let it be painted again."""


class Turns(QObject):
    """A queue; each turn of the window's loop, which sees to keys and timers between, does one."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Waiting] = deque()
        self._unpainted: dict[Waiting, None] = {}
        self._next = QTimer(self)
        self._next.timeout.connect(self._take_one)

    @property
    def waiting(self) -> bool:
        """Return whether something is not shown yet."""
        return bool(self._queue or self._unpainted)

    def add(self, waiting: Waiting) -> None:
        """Give one more turn to it."""
        self._queue.append(waiting)
        if not self._next.isActive():
            self._next.start(0)

    def _take_one(self) -> None:
        if self._queue:
            waiting = self._queue.popleft()
            self._unpainted[waiting] = None
            waiting.take_turn()
            return
        waiting = next(iter(self._unpainted))
        del self._unpainted[waiting]
        waiting.paint()
        if not self._unpainted:
            self._next.stop()
