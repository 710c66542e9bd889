"""ExportDialog: save the view that is shown as a figure, or the evidence as a film."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QGridLayout,
    QLineEdit,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.film_steps import film_steps
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.exports._composing import MAX_LEGEND
from napari_ctvqa.exports._views import LegendEntry, Parts, View, view_of
from napari_ctvqa.exports.figure import EXPORT as FIGURE
from napari_ctvqa.exports.figure import FigureSize
from napari_ctvqa.exports.film import EXPORT as FILM
from napari_ctvqa.exports.film import check, film_views
from napari_ctvqa.widgets.background import Job
from napari_ctvqa.widgets.player import SPEEDS_S
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import Styling

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.exports.film import Progress
    from napari_ctvqa.widgets.layers import CaseLayers
    from napari_ctvqa.widgets.player import Player

_WHAT = ("This view as a figure (PNG, SVG)", "The evidence as a film (GIF, MP4, PNG pictures)")
_FILTERS = ("PNG picture (*.png);;SVG drawing (*.svg)", "GIF film (*.gif);;MP4 film (*.mp4)")
_PARTS = {
    "markers": "Side markers",
    "slice_text": "Slice n of N",
    "window": "Window",
    "scale_bar": "Scale bar",
    "legend": "Legend",
    "caption": "Caption",
}
assert set(_PARTS) == {field.name for field in fields(Parts)}
_PRIVATE = "The file holds no name, path or id of the case. Burnt-in words are checked, too."


class ExportDialog(QDialog):
    """Asks what, how large and where to; writes in the background, and can be stopped."""

    def __init__(
        self,
        session: Session,
        layers: CaseLayers,
        player: Player,
        nose_right: Callable[[], bool],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Export")
        self._session, self._layers, self._player = session, layers, player
        self._nose_right = nose_right
        self._styling = Styling(self)
        self._job: Job | None = None
        self._path = Path()
        self._what = QComboBox()
        self._size = QLineEdit("900x800")
        self._dpi = QDoubleSpinBox()
        self._seconds = QDoubleSpinBox()
        self._parts = {name: QCheckBox(words) for name, words in _PARTS.items()}
        self._bar = QProgressBar()
        self._message = Label(_PRIVATE, role="muted")
        self._buttons = QDialogButtonBox()
        self._build()

    def _build(self) -> None:
        self._what.addItems(_WHAT)
        self._what.setAccessibleName("What is saved")
        self._what.setCurrentIndex(1 if self._player.playing or self._player.place >= 0 else 0)
        self._size.setAccessibleName("Size, e.g. 900x800 or 85x75mm")
        self._size.setToolTip("e.g. 900x800 (pixels) or 85x75mm")
        self._dpi.setRange(36, 1200)
        self._dpi.setValue(300)
        self._dpi.setAccessibleName("Pixels per inch")
        self._seconds.setRange(0.1, 60)
        self._seconds.setValue(SPEEDS_S[self._player.speed])
        self._seconds.setSuffix(" s")
        self._seconds.setAccessibleName("Seconds a step")
        self._save = self._buttons.addButton("Save…", QDialogButtonBox.ButtonRole.AcceptRole)
        self._stop = self._buttons.addButton("Close", QDialogButtonBox.ButtonRole.RejectRole)
        self._bar.hide()
        form = QFormLayout()
        form.addRow("Save", self._what)
        form.addRow("Size", self._size)
        form.addRow("Pixels per inch", self._dpi)
        form.addRow("Each step", self._seconds)
        parts = QGridLayout()
        for place, box in enumerate(self._parts.values()):
            box.setChecked(True)
            parts.addWidget(box, place // 3, place % 3)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addLayout(parts)
        for part in (self._message, self._bar, self._buttons):
            layout.addWidget(part)
        self._what.currentIndexChanged.connect(self._show_form)
        self._buttons.accepted.connect(self._ask)
        self._buttons.rejected.connect(self._close_or_stop)
        self._show_form()

    def _show_form(self) -> None:
        film = self._what.currentIndex() == 1
        self._dpi.setEnabled(not film)
        self._seconds.setEnabled(film)

    # ------------------------------------------------------------------- saving

    def _ask(self) -> None:
        film = self._what.currentIndex()
        usual = ("figure.png", "film.gif")[film]
        chosen, _ = QFileDialog.getSaveFileName(self, "Export", usual, _FILTERS[film])
        if chosen:
            self.save(Path(chosen))

    def save(self, path: Path) -> None:
        """Write what is chosen to a file, in the background; what is wrong is said here."""
        try:
            items = self._items(path)
        except CtvqaError as error:
            self._tell("red", str(error))
            return
        self._tell("muted", f"Writing {path.name} …")
        self._save.setEnabled(False)
        self._stop.setText("Stop")
        self._bar.setRange(0, 0)
        self._bar.show()
        self._job = job = Job(items)
        job.item.connect(self._progress)
        job.failed.connect(self._failed)
        self._path = path
        job.ended.connect(self._ended)  # bound: let go of when the window goes first
        job.start()

    def _items(self, path: Path) -> Generator[Progress, None, None]:
        case = self._session.case
        if case is None:
            raise CtvqaError("There is no case to draw.", hint="Open one first.")
        size = FigureSize.from_text(self._size.text(), self._dpi.value())
        parts = replace(Parts(), **{n: box.isChecked() for n, box in self._parts.items()})
        if self._what.currentIndex() == 0:
            return _figure(self._view(case), path, size, parts)
        scene = self._layers.scene()
        if scene is None or not self._player.steps:
            raise CtvqaError("There is no evidence to film.", hint="Choose a question first.")
        check([self._view(case)], path, self._seconds.value())
        session, model = self._session, self._player.model
        steps = partial(
            film_steps,
            case,
            session.reference_chain,
            session.model_chains.get(model),
            session.comparisons.get(model),
            revealed=session.revealed,
        )
        size_px = (size.wide_px, size.high_px)
        return _film(case, steps, scene.window_hu, path, size_px, self._seconds.value(), parts)

    def _view(self, case: Case) -> View:
        """Return what the main plane shows, with its legend and the step that is shown."""
        layers, scene = self._layers, self._layers.scene()
        if scene is None:
            raise CtvqaError("The CT is hidden.", hint="Show its layer first.")
        axis = PLANES.index(layers.plane)
        step = self._player.step
        legend = [LegendEntry(d.words, d.colour, d.look) for d in layers.drawn_here()[:MAX_LEGEND]]
        return view_of(
            case,
            scene,
            axis,
            layers.current_slice(axis),
            legend=legend,
            caption=() if step is None or self._session.focus is None else step.lines,
            mirrored=axis == PLANES.index("sagittal") and self._nose_right(),
        )

    # ---------------------------------------------------------------- progress

    def _progress(self, progress: Progress) -> None:
        done, total = progress
        self._bar.setRange(0, total)
        self._bar.setValue(done)

    def _failed(self, error: BaseException) -> None:
        self._at_rest()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._tell("red", reason or type(error).__name__)

    def _ended(self) -> None:
        if self._job is None or self.sender() is not self._job:
            return  # stopped, or the dialog is closed
        self._tell("muted", f"Saved {self._path.name}.")
        self._at_rest()

    def _at_rest(self) -> None:
        self._job = None
        self._bar.hide()
        self._save.setEnabled(True)
        self._stop.setText("Close")

    def _close_or_stop(self) -> None:
        if self._job is None:
            self.reject()
            return
        self._job.cancel()
        self._tell("muted", "Stopped: no film was written.")
        self._at_rest()

    def reject(self) -> None:
        """Close; what is being written is stopped."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
        super().reject()

    def _tell(self, role: str, text: str) -> None:
        self._message.show_role(role)
        self._message.show_text(text)


def _figure(
    view: View, path: Path, size: FigureSize, parts: Parts
) -> Generator[Progress, None, None]:
    yield 0, 1
    FIGURE.write(view, path, size, parts)
    yield 1, 1


def _film(
    case: Case,
    steps: Callable[[], Any],
    window_hu: tuple[float, float],
    path: Path,
    size_px: tuple[int, int],
    seconds_each: float,
    parts: Parts,
) -> Generator[Progress, None, None]:
    views = film_views(case, steps(), window_hu)
    yield from FILM.steps(views, path, size_px, seconds_each=seconds_each, parts=parts)
