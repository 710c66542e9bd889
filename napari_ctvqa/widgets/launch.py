"""Start the program: a napari viewer with the App in it, for people or for a picture."""

from __future__ import annotations

import gc
import logging
import time
from typing import TYPE_CHECKING

import napari
from napari.qt import get_qapp
from napari.settings import get_settings
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.moments import Watch, note
from napari_ctvqa.widgets.opengl import check_opengl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from napari_ctvqa.widgets.app import App

logger = logging.getLogger(__name__)

WINDOW_SIZE_PX = (1366, 768)
PATIENCE_S = 120.0
AUTOPLAY_STEP_MS = 2500
START_MS = 4000
"""From the window to the end of the start, after which garbage is collected again."""
SETTLE_S = 0.5
"""Time for the last repaint before a picture is taken."""


def run_app(
    path: Path | None,
    *,
    made_by: Callable[[], Path] | None = None,
    benchmark: str | None = None,
    roots: Sequence[Path] = (),
    results: Sequence[Path] = (),
    question_id: str | None = None,
    where: str = "",
    screenshot: Path | None = None,
    autoplay: bool = False,
    first_model: str = "",
) -> int:
    """Open the window on PATH; return 0 when it was closed, or the picture was written.

    With ``screenshot`` the window is closed once the case, its masks and its chains are shown, and
    the picture of the whole window is written. ``first_model`` is the model whose first differing
    step is made to stand out. ``made_by`` waits for PATH where it is being made, and returns it.

    Raises
    ------
    CtvqaError
        When this display has no OpenGL, or nothing could be shown for the picture.
    """
    if path is not None and made_by is None and not path.exists():
        raise NotFoundError(f"{path}: no such file or folder.", hint="Check the path.")
    note("libraries")
    first_time = get_settings().application.first_time
    get_qapp()
    check_opengl()  # vispy would end the process
    viewer = napari.Viewer(title="CT-VQA", show=False, show_welcome_screen=False)
    app = app_for(viewer)
    app.arrange()
    viewer.window.show()
    app.arrange()
    if first_time or screenshot is not None:  # show() took napari's size, or the last one saved
        viewer.window.resize(*WINDOW_SIZE_PX)
    note("window")
    Watch(app)
    if not gc.isenabled():
        QTimer.singleShot(START_MS, _collect_again)
    if path is not None:
        app.coordinator.open(
            path,
            benchmark=benchmark,
            roots=roots,
            results=results,
            question_id=question_id,
            where=where,
            made_by=made_by,
        )
    if first_model:
        app.coordinator.focus.first_difference(first_model)
    if screenshot is not None:
        return _picture(app, screenshot, question_id)
    if autoplay:
        app.play(AUTOPLAY_STEP_MS)
    napari.run()
    return 0


def _collect_again() -> None:
    gc.freeze()  # what the libraries made stays to the end; never look through it again
    gc.enable()


def _picture(app: App, out: Path, question_id: str | None) -> int:
    try:
        if not wait_until(lambda: not app.coordinator.busy):
            raise CtvqaError(f"The picture was not ready after {PATIENCE_S:g} s.")
        session = app.session
        shown = None if session.question is None else session.question.id
        failed = session.case_state is CaseState.FAILED
        if (failed and shown is None) or question_id not in (None, shown):
            raise session.problem or CtvqaError(session.case_message)
        if failed:
            logger.warning("The picture is without its case: %s", session.case_message)
        app.coordinator.focus.anything()
        wait_until(lambda: False, SETTLE_S)
        app.viewer.screenshot(str(out), canvas_only=False, flash=False)
    finally:
        app.viewer.close()
    return 0


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Process events until the condition holds; return whether it did in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        if condition():
            return True
        time.sleep(0.005)
    return False
