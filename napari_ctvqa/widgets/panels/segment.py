"""Segment panel: let TotalSegmentator segment what a case has no masks of, watch it, stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from napari_ctvqa.core import names
from napari_ctvqa.core.segmenting import TOTALSEGMENTATOR, SegmentProgress, lacking
from napari_ctvqa.evidence.chains import wanted_structures
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.session import Session

_FULL = 1000
_ABOUT = (
    f"{TOTALSEGMENTATOR} runs in a process of its own on this machine, its usage statistics "
    "switched off. It fetches its weights on its first run. On a CPU it takes many minutes."
)


class SegmentPanel(QWidget):
    """Shows ``session.segmenting``."""

    title = "Segment"
    order = 7

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self._scope = Label()
        self._about = Label(_ABOUT, role="muted")
        self._use = QCheckBox("Tools use these where no file is")
        self._start = QPushButton("Segment")
        self._cancel = QPushButton("Stop")
        self._bar = ProgressBar()
        self._progress = Label(role="heading")
        self._message = Label(role="muted")
        self._made = Label()
        self._build()
        self._start.clicked.connect(lambda: session.wishes.segment.emit())
        self._cancel.clicked.connect(lambda: session.wishes.cancel_segment.emit())
        self._use.toggled.connect(self._ask_to_use)
        self._listening = Listening(
            (session.segmenting_changed, self._show),
            (session.case_changed, self._show),
            (session.question_changed, self._show),
            panel=self,
        )
        self._show()

    def _build(self) -> None:
        self._bar.setAccessibleName("Progress of the segmentation")
        self._bar.setMaximum(_FULL)
        self._use.setToolTip(
            "Off: a structure without a file has no mask. On: an agent's tools, and the rule "
            "agent's, work on the program's mask, and every value says so. References are "
            "recomputed from the reference masks alone."
        )
        buttons = QHBoxLayout()
        buttons.addWidget(self._start, 1)
        buttons.addWidget(self._cancel, 1)
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(GAP_PX)
        layout.addWidget(self._scope)
        layout.addLayout(buttons)
        for part in (self._bar, self._progress, self._message, self._made, self._use, self._about):
            layout.addWidget(part)
        layout.addStretch(1)
        fill(self, body, "Segment")

    def _ask_to_use(self, use: bool) -> None:
        if use != self._session.use_segmented:
            self._session.wishes.use_segmented.emit(use)

    def _show(self) -> None:
        session, now = self._session, self._session.segmenting
        self._scope.show_text(self._what())
        self._start.setEnabled(not now.running and bool(self._lacking()))
        self._cancel.setEnabled(now.running)
        progress = now.progress
        self._bar.setVisible(now.running)
        share = None if progress is None else progress.share
        most = _FULL if share is not None else 0  # 0: it only shows that it lives
        self._bar.show_value(0 if share is None else round(_FULL * share), most)
        self._progress.show_text("" if progress is None else progress_words(progress))
        self._message.show_text(now.message)
        listed = ", ".join(names.label(structure) for structure in now.made)
        self._made.show_text(f"Made by {now.by}: {listed}" if now.made else "")
        self._use.setChecked(session.use_segmented)

    def _lacking(self) -> tuple[str, ...]:
        session = self._session
        if session.case is None or session.case.files.ct is None:
            return ()
        question = session.question
        return lacking(session.case, wanted_structures(question) if question is not None else ())

    def _what(self) -> str:
        if self._session.case is None:
            return "Open a case first."
        structures = self._lacking()
        if not structures:
            return "Every organ that is asked for has a mask."
        listed = ", ".join(names.label(structure) for structure in structures)
        return f"No masks of: {listed}."

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def progress_words(progress: SegmentProgress) -> str:
    """Return what it does, how far that is, and since when it runs."""
    share = "" if progress.share is None else f"{100 * progress.share:.0f} %"
    minutes, seconds = divmod(int(progress.seconds), 60)
    return " · ".join(part for part in (progress.words, share, f"{minutes}:{seconds:02}") if part)


PANEL = SegmentPanel
