"""Job: a generator runs in a thread, its items arrive in the GUI thread."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import closing
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject, Qt, QTimer, Signal

from napari_ctvqa.core.errors import CtvqaError

if TYPE_CHECKING:
    from collections.abc import Generator

logger = logging.getLogger(__name__)

TURN_S = 0.004
"""How long items are delivered one after the other before the window has its turn."""

_running: set[Job] = set()
"""Every started Job until its ``ended`` is delivered: a Job that nobody holds would take its last
signals with it, and be destroyed in the wrong thread."""


class Job(QObject):
    """Run a generator in a daemon thread.

    Signals arrive in the thread that made the Job, in the order they happened: any number of
    ``item``, at most one ``failed`` with the exception, then exactly one ``ended``. After
    ``cancel`` no further ``item`` is delivered, and ``ended`` still comes. The generator is closed
    in its own thread, so that its ``finally`` runs where its work ran. A daemon thread never keeps
    the program alive, so whatever a generator must not lose it writes before it yields.

    Whoever starts one Job after the other tells late results by the Job itself: ``self.sender()``
    or a check of ``job is current`` in a bound slot; ``tag`` is free for a run number.

    napari's generator workers are not used because one that raises ``RuntimeError`` (running out
    of GPU memory is one) tells nobody, and because they leave the generator open on quit.
    """

    item = Signal(object)
    failed = Signal(object)
    ended = Signal()

    _happened = Signal(str, object)

    def __init__(self, items: Generator[Any, None, None], *, tag: object = None) -> None:
        super().__init__()
        self.tag = tag
        self._items = items
        self._cancelled = Event()
        self._started = False
        self._finished = False
        self._waiting: deque[tuple[str, Any]] = deque()
        self._next = QTimer(self)
        self._next.timeout.connect(self._deliver_next)
        self._happened.connect(self._take, Qt.ConnectionType.QueuedConnection)

    @property
    def running(self) -> bool:
        """Return whether the Job was started and ``ended`` has not been delivered."""
        return self._started and not self._finished

    @property
    def cancelled(self) -> bool:
        """Return whether ``cancel`` was called."""
        return self._cancelled.is_set()

    def start(self) -> None:
        """Start the thread. Raises RuntimeError when started before."""
        if self._started:
            raise RuntimeError("a Job is started once")
        self._started = True
        _running.add(self)
        Thread(target=self._run, name="ctvqa-job", daemon=True).start()

    def cancel(self) -> None:
        """Stop at the next item; returns at once. ``ended`` comes when the generator is closed."""
        self._cancelled.set()

    def _run(self) -> None:
        try:
            self._work()
        except CtvqaError as failure:
            self._tell("failed", failure)  # a sentence for a person, nothing for the log
        except BaseException as failure:
            # The outermost frame of a thread: also a stray SystemExit must reach a person.
            logger.exception("background work failed")
            self._tell("failed", failure)
        finally:
            self._tell("ended", None)

    def _work(self) -> None:
        with closing(self._items):
            for item in self._items:
                if self._cancelled.is_set():
                    return
                self._tell("item", item)

    def _tell(self, kind: str, value: object) -> None:
        try:
            self._happened.emit(kind, value)
        except RuntimeError:
            # The application, and this QObject with it, went away while the work went on.
            self._cancelled.set()

    def _take(self, kind: str, value: object) -> None:
        """Have it delivered by a timer: what waits, and then whatever else the window has to do.

        Qt calls all queued slots, and paints what they changed, before it looks at timers and at
        the mouse again: items that come fast would keep both waiting.
        """
        self._waiting.append((kind, value))
        if not self._next.isActive():
            self._next.start(0)

    def _deliver_next(self) -> None:
        until = time.perf_counter() + TURN_S
        while True:
            kind, value = self._waiting.popleft()
            if not self._waiting:
                self._next.stop()
            self._deliver(kind, value)
            if not self._waiting or time.perf_counter() > until:
                return

    def _deliver(self, kind: str, value: object) -> None:
        if kind == "item":
            if not self._cancelled.is_set():
                self.item.emit(value)
        elif kind == "failed":
            self.failed.emit(value)
        else:
            self._finished = True
            _running.discard(self)
            self.ended.emit()
