"""Moments of a start, for timings: a line each in the file that NAPARI_CTVQA_TIMES names.

A line is seconds since 1970 and the moment: ``libraries`` (Python and napari are loaded),
``window`` (it is shown, empty), ``CT`` (the first frame with it was swapped to the screen),
``complete`` (masks, chains and answers are shown, too). Without the variable nothing is done.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, QTimer

if TYPE_CHECKING:
    from napari_ctvqa.widgets.app import App

_FILE = "NAPARI_CTVQA_TIMES"
_WATCH_MS = 10


def note(moment: str) -> None:
    """Add a line for this moment, where anybody wants to know."""
    path = os.environ.get(_FILE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{time.time():.3f} {moment}\n")


class Watch(QObject):
    """Notes when the CT is on screen, and when nothing is left to do."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._app = app
        if _FILE not in os.environ:
            return
        self._canvas = app.canvas
        self._canvas.frameSwapped.connect(self._on_frame)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)

    def _on_frame(self) -> None:
        if self._app.session.case is not None:
            self._canvas.frameSwapped.disconnect(self._on_frame)
            note("CT")
            self._timer.start(_WATCH_MS)

    def _look(self) -> None:
        if not self._app.coordinator.busy:
            self._timer.stop()
            note("complete")
