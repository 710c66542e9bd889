"""CompareView: reference, model A and model B side by side, at the place of the main plane."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSize, QTimer
from qtpy.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import highlight_colour, look_of
from napari_ctvqa.core.compared_masks import MOST, ComparedMask, compared_masks
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.plane_pictures import PlaneScene, Sheet, row_and_column_axis
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.plane_canvas import PlaneCanvas
from napari_ctvqa.widgets.text import ElidedLabel, Label, one_line, tooltip
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtGui import QCloseEvent, QShowEvent

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.layers import CaseLayers

HEIGHT_PX = 240
_IDLE_MS = 60
NOTHING = "Choose an evidence step, or a structure with two masks, to compare masks side by side."


class Column(QWidget):
    """One picture with whose mask it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.canvas = PlaneCanvas(0, self)
        self._title = ElidedLabel(role="heading")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(1)
        layout.addWidget(self._title)
        layout.addWidget(self.canvas, 1)

    def show_column(self, shown: ComparedMask, scene: PlaneScene | None) -> None:
        """Show one mask over the CT."""
        words = " · ".join(part for part in (shown.title, shown.words) if part)
        self._title.show_text(one_line(words, 60))
        self._title.setToolTip(tooltip(words))
        self.canvas.setAccessibleName(words)
        self.canvas.show_scene(scene)


class CompareView(QWidget):
    """Shows ``compared_masks`` of the session; linked with the main plane in place and window."""

    def __init__(
        self, session: Session, layers: CaseLayers, nose_right: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._session, self._layers, self._nose_right = session, layers, nose_right
        self._styling = Styling(self)
        self.columns = tuple(Column() for _ in range(MOST))
        self._nothing = Label(NOTHING, role="muted")
        self._shown: tuple[ComparedMask, ...] = ()
        self._sheets: dict[int, tuple[Sheet, ...]] = {}
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(self._fill)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(GAP_PX, 2, GAP_PX, 2)
        layout.addWidget(self._nothing)
        for column in self.columns:
            layout.addWidget(column, 1)
            column.canvas.picked.connect(self._pick)
            column.canvas.stepped.connect(self._step)
        later, dims = self._idle.start, layers.viewer.dims
        self._dims: tuple[tuple[Any, Callable[..., None]], ...] = (
            (dims.events.point, self._on_place),
            (dims.events.order, self._on_look),
        )
        for signal, slot in self._dims:
            signal.connect(slot)
        self._listening = Listening(
            (session.focus_changed, self._later),
            (session.chains_changed, self._later),
            (session.masks_changed, self._later),
            (session.case_changed, self._later),
            (session.reveal_changed, self._later),
            (layers.window_changed, self._on_look),
        )
        later()

    def sizeHint(self) -> QSize:
        """Return a low strip."""
        return QSize(600, HEIGHT_PX)

    def minimumSizeHint(self) -> QSize:
        """Return what the pictures need to be pictures."""
        return QSize(300, 140)

    def close_view(self) -> None:
        """Let go of session and viewer."""
        self._idle.stop()
        self._listening.close()
        for signal, slot in self._dims:
            signal.disconnect(slot)
        self._dims = ()

    # ------------------------------------------------------------------- showing

    def _later(self) -> None:
        """Look at the masks anew when there is time; nothing while nobody sees it."""
        if self.isVisible():
            self._idle.start()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what came while this was hidden."""
        super().showEvent(event)
        self._fill()

    def _fill(self) -> None:
        case = self._session.case
        self._shown = (
            ()
            if case is None
            else compared_masks(
                case,
                self._session.comparisons,
                self._session.focused_step,
                self._layers.focused,
                self._session.beside,
                revealed=self._session.revealed,
            )
        )
        self._sheets = {n: _sheets(shown) for n, shown in enumerate(self._shown)}
        self._nothing.setVisible(not self._shown)
        self._on_look()
        self._on_place()

    def _on_look(self) -> None:
        """Show the masks over the CT in its window, in the plane of the main picture."""
        if not self.isVisible():
            return
        scene, case = self._layers.scene(), self._session.case
        axis = PLANES.index(self._layers.plane)
        mirrored = axis == PLANES.index("sagittal") and self._nose_right()
        for number, column in enumerate(self.columns):
            column.setVisible(number < len(self._shown))
            if number < len(self._shown):
                column.canvas.trusted = case is not None and case.report.side_trusted
                column.canvas.show_plane(axis, mirrored=mirrored)
                alone = None if scene is None else replace(scene, sheets=self._sheets[number])
                column.show_column(self._shown[number], alone)

    def _on_place(self) -> None:
        if not self.isVisible():
            return
        index = self._layers.place.index_zyx
        for column in self.columns[: len(self._shown)]:
            if not column.canvas.show_place(index):
                column.canvas.update()

    # ------------------------------------------------------------------- pointer

    def _pick(self, axis: int, row: float, column: float) -> None:
        index = list(self._layers.place.index_zyx)
        row_axis, column_axis = row_and_column_axis(axis)
        index[row_axis], index[column_axis] = round(row), round(column)
        self._layers.move_to((index[0], index[1], index[2]))

    def _step(self, axis: int, by: int) -> None:
        self._layers.go_to(axis, self._layers.current_slice(axis) + by)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of session and viewer."""
        self.close_view()
        super().closeEvent(event)


def _sheets(shown: ComparedMask) -> tuple[Sheet, ...]:
    """Return one mask in the look of its column: solid, dashed and hatched, filled."""
    mask = shown.mask
    if mask is None or mask.region.box_zyx is None or mask.region.crop_zyx is None:
        return ()
    look = look_of(shown.source if shown.source is not Source.ASSUMED else Source.REFERENCE)
    labels = StyledLabels(mask.region.crop_zyx, {1: (mask.structure, highlight_colour())}, look)
    z, y, x = mask.region.box_zyx
    labels.corner = (z.start, y.start, x.start)
    return (Sheet(shown.title, labels),)
