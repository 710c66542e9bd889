"""The one place where an exception becomes something a reader sees."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qtpy.QtWidgets import QApplication, QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.text import ElidedLabel, Label, TextBox, visible
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.session import Session

logger = logging.getLogger(__name__)

KEPT = 20
"""So many problems wait to be read; older ones are only in the log."""


def as_problem(error: BaseException) -> CtvqaError:
    """Return the error as something to show; an unexpected one is logged with its traceback."""
    if isinstance(error, CtvqaError):
        return error
    logger.error("unexpected failure", exc_info=error)
    problem = CtvqaError(
        f"Something failed that should not: {type(error).__name__}: {visible(error, 500)}",
        hint="Your work is kept and the window goes on. Copy the details for a report.",
    )
    problem.__cause__ = error
    return problem


def report(session: Session, error: BaseException) -> None:
    """Show an error to the reader; call in the GUI thread."""
    session.update(problem=as_problem(error))


def details(error: CtvqaError) -> str:
    """Return what a report needs: kind, message, hint, traceback where there is one."""
    lines = [f"{type(error).__name__} ({error.code})", error.message]
    if error.hint:
        lines.append(f"Hint: {error.hint}")
    source = error.__cause__ or error
    if source.__traceback__ is not None:
        lines.append("".join(traceback.format_exception(source)))
    return "\n".join(lines)


@dataclass(frozen=True)
class _Shown:
    error: CtvqaError
    times: int = 1


class ProblemBanner(QWidget):
    """A strip of two lines with the newest problem and its hint; the whole of it on demand.

    Never a dialog: problems of a fast queue pile up behind one strip, the same one twice is
    counted, and dismissing one shows the one before it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._waiting: list[_Shown] = []
        self._message = ElidedLabel(role="heading")
        self._hint = ElidedLabel()
        self._more = Label(role="small", selectable=False, wrap=False)
        self._whole = TextBox("The whole problem", max_lines=8)
        self._unfold = QPushButton("Details")
        self._copy = QPushButton("Copy details")
        self._dismiss = QPushButton("Dismiss")
        self._build()
        self._copy.clicked.connect(self._copy_details)
        self._dismiss.clicked.connect(self.dismiss)
        self._listening = Listening((session.problem_changed, self._add))
        self._add()

    def _build(self) -> None:
        self.setAccessibleName("Problem")
        Styling(self)
        strip = QFrame()
        strip.setProperty("ctvqa", "red")
        self._copy.setToolTip("Copy message, hint and traceback to the clipboard")
        self._unfold.setToolTip("Show the whole message")
        self._unfold.setCheckable(True)
        self._unfold.toggled.connect(self._whole.setVisible)
        self._whole.hide()
        lines = QVBoxLayout()
        lines.setSpacing(0)
        lines.addWidget(self._message)
        lines.addWidget(self._hint)
        row = QHBoxLayout()
        row.addLayout(lines, 1)
        for part in (self._more, self._unfold, self._copy, self._dismiss):
            row.addWidget(part)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(strip)
        layout = QVBoxLayout(strip)
        layout.setSpacing(GAP_PX // 2)
        layout.setContentsMargins(GAP_PX, GAP_PX // 2, GAP_PX, GAP_PX // 2)
        layout.addLayout(row)
        layout.addWidget(self._whole)

    def _add(self) -> None:
        error = self._session.problem
        if error is not None:
            last = self._waiting[-1] if self._waiting else None
            if last is not None and str(last.error) == str(error):
                self._waiting[-1] = replace(last, error=error, times=last.times + 1)
            else:
                self._waiting = [*self._waiting, _Shown(error)][-KEPT:]
        self._show()

    def _show(self) -> None:
        self.setVisible(bool(self._waiting))
        if not self._waiting:
            return
        newest = self._waiting[-1]
        self._message.show_text(f"⚠ {newest.error.message}")
        self._hint.show_text(newest.error.hint)
        self._whole.show_text("\n".join(filter(None, (newest.error.message, newest.error.hint))))
        notes = [f"happened {newest.times} times"] if newest.times > 1 else []
        earlier = len(self._waiting) - 1
        notes += [f"{earlier} earlier behind this one"] if earlier else []
        self._more.show_text(", ".join(notes))

    def dismiss(self) -> None:
        """Put the shown problem away; the one before it comes back."""
        self._waiting = self._waiting[:-1]
        if not self._waiting:
            self._session.update(problem=None)
        self._show()

    def _copy_details(self) -> None:
        if self._waiting:
            QApplication.clipboard().setText(details(self._waiting[-1].error))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)
