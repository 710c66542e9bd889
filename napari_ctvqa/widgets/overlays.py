"""What is written on the picture: edge markers, corner text, legend, scale bar.

The edge markers and the scale bar are napari's own canvas overlays, so that no screenshot lacks
them. What changes with every slice is painted by a transparent Qt widget on the canvas: changing
one text overlay costs napari about 25 ms a slice (software OpenGL), painting it here nothing that
can be measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.components.overlays import TextOverlay
from qtpy.QtCore import QObject, QTimer
from qtpy.QtOpenGLWidgets import QOpenGLWidget

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.plane_pictures import NO_LETTERS, EdgeLetters
from napari_ctvqa.core.view_text import (
    PLANES,
    file_slice_text,
    position_text,
    slab_text,
    slice_text,
    window_text,
    zoom_text,
)
from napari_ctvqa.core.windows import width_level
from napari_ctvqa.evidence.chains import wanted_structures
from napari_ctvqa.widgets.directions import edge_letters
from napari_ctvqa.widgets.notes_view import LegendRow, Notes, NotesView
from napari_ctvqa.widgets.picture_text import scaled_px

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import napari
    from qtpy.QtWidgets import QMainWindow, QWidget

    from napari_ctvqa.core.cases import GeometryWarning
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.widgets.layers import CaseLayers, Drawn

_EDGES = {
    "left": "middle_left",
    "right": "middle_right",
    "top": "top_center",
    "bottom": "bottom_center",
}
_TRANSFORMS = ("scale", "translate", "rotate", "shear", "affine")
_MARKER_POINTS = 22
_NOT_TRUSTED = "orientation\nnot trusted"
_LEGEND_ROWS = 8
_LEGEND_DELAY_MS = 200
"""Changing the legend draws the picture once more, which a scrolling reader must not wait for."""


class Overlays(QObject):
    """Keeps markers, corner text and legend right, from the live state of viewer and layers.

    Parameters
    ----------
    viewer, layers
        Observed; nothing of them is changed but the canvas overlays.
    canvas
        The Qt widget that the picture is drawn on.
    begun
        False leaves letters and scale bar away until ``begin``: the first time, making ready to
        draw text takes longer than drawing the CT (software OpenGL), which need not wait for it.
    """

    def __init__(
        self, viewer: napari.Viewer, layers: CaseLayers, canvas: QWidget, *, begun: bool = True
    ) -> None:
        super().__init__(canvas)
        self._begun = begun
        self.viewer, self.layers = viewer, layers
        self.letters: EdgeLetters = NO_LETTERS
        self.view = NotesView(canvas)
        self._markers = {
            edge: TextOverlay(
                position=position,
                font_size=_MARKER_POINTS,
                color="white",
                box=True,
                box_color=(0, 0, 0, 0.65),
            )
            for edge, position in _EDGES.items()
        }
        self._layer_connections: list[tuple[Any, Callable[..., None]]] = []
        self._ct: Any = None
        self._legend_timer = QTimer(self, singleShot=True, interval=_LEGEND_DELAY_MS)
        self._legend_timer.timeout.connect(self._update_legend)
        self._legend: tuple[tuple[LegendRow, ...], int] = ((), 0)
        self._question: Question | None = None
        self._wanted: tuple[str, ...] = ()
        for edge, marker in self._markers.items():
            viewer.canvas.overlays[f"ctvqa_{edge}"] = marker
        dims, camera = viewer.dims, viewer.scene.camera
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (dims.events.order, self.refresh),
            (dims.events.ndisplay, self.refresh),
            (dims.events.point, self._on_slice),
            (camera.events.orientation, self.refresh),
            (camera.events.angles, self.refresh),
            (camera.events.zoom, self._on_slice),
            (layers.changed, self.refresh),
            (layers.looks_changed, self._show_notes),
            (layers.session.case_changed, self._show_notes),
            (layers.session.question_changed, self._look_legend_up),
            (layers.session.chains_changed, self._look_legend_up),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self.refresh()

    def close(self) -> None:
        """Take everything off the canvas and let go of viewer and session."""
        for signal, slot in (*self._connections, *self._layer_connections):
            signal.disconnect(slot)
        self._connections.clear()
        self._layer_connections.clear()
        self._legend_timer.stop()
        for edge in self._markers:
            self.viewer.canvas.overlays.pop(f"ctvqa_{edge}", None)
        self.view.setParent(None)
        self.view.deleteLater()

    def begin(self) -> None:
        """Draw letters and scale bar from now on."""
        if not self._begun:
            self._begun = True
            self._update_markers()

    def refresh(self) -> None:
        """Bring everything up to date now, the legend included."""
        self._watch_layer()
        self._update_markers()
        self._update_legend()

    # ---------------------------------------------------------------- markers

    def _watch_layer(self) -> None:
        layer = self.layers.layer("CT")
        if layer is self._ct:
            return
        for signal, slot in self._layer_connections:
            signal.disconnect(slot)
        self._layer_connections = []
        self._ct = layer
        if layer is None:
            return
        events = layer.events
        self._layer_connections = [
            *((getattr(events, name), self._update_markers) for name in _TRANSFORMS),
            (events.visible, self._update_markers),
            (events.contrast_limits, self._on_slice),
        ]
        for signal, slot in self._layer_connections:
            signal.connect(slot)

    @property
    def _trusted(self) -> bool:
        case = self.layers.case
        return case is not None and case.report.side_trusted

    def _update_markers(self) -> None:
        layer, grid = self.layers.layer("CT"), self.layers.grid
        drawn = self._begun and layer is not None and layer.visible and grid is not None
        self.letters = (
            edge_letters(self.viewer, layer, grid)
            if drawn and self._trusted and grid is not None
            else NO_LETTERS
        )
        texts = {edge: getattr(self.letters, edge) for edge in _EDGES}
        if drawn and not self._trusted:
            texts["top"] = _NOT_TRUSTED
        for edge, marker in self._markers.items():
            if marker.text != texts[edge]:
                marker.text = texts[edge]
            marker.font_size = scaled_px(_MARKER_POINTS if len(texts[edge]) < 3 else 11)
            marker.visible = bool(texts[edge])
        # Lengths are not given where the geometry is not trusted, nor is a bar to read them from.
        self.viewer.canvas.overlays.scale_bar.visible = drawn and self._trusted

    # ------------------------------------------------------------ text, legend

    def _on_slice(self) -> None:
        """Repaint the text now; look the legend up when the reader rests."""
        self._look_legend_up()
        self._show_notes()

    def _look_legend_up(self) -> None:
        self._legend_timer.start()

    def _update_legend(self) -> None:
        self._legend_timer.stop()
        drawn = asked_first(self.layers.drawn_here(), self._asked())
        rows = tuple(LegendRow(d.words, d.colour, d.look, d.focused) for d in drawn[:_LEGEND_ROWS])
        self._legend = (rows, len(drawn) - len(rows))
        self._show_notes()

    def _asked(self) -> tuple[str, ...]:
        """Return the structures that question and shown evidence are about, most needed first.

        The reference's own steps only where it is revealed.
        """
        session = self.layers.session
        question = session.question
        if question is None:
            return ()
        if question is not self._question:
            self._question, self._wanted = question, wanted_structures(question)
        chains = list(session.model_chains.values())
        if session.revealed and session.reference_chain is not None:
            chains.insert(0, session.reference_chain)
        steps = [step.mask for chain in chains for step in chain.steps if step.mask]
        return (*self._wanted, *steps)

    def _show_notes(self) -> None:
        case, grid, layer = self.layers.case, self.layers.grid, self.layers.layer("CT")
        message = self.layers.session.case_message
        if case is None or grid is None or layer is None:
            self.view.show_notes(Notes(message=message))
            return
        flat = self.viewer.dims.ndisplay == 2
        axis = PLANES.index(self.layers.plane)
        index = self.layers.current_slice(axis)
        position = position_text(grid, axis, index) if self._trusted else "position not trusted"
        width, level = width_level(*layer.contrast_limits)
        rows, more = self._legend
        slab = self.layers.slab
        self.view.show_notes(
            Notes(
                top_left=(
                    slice_text(grid, axis, index),
                    file_slice_text(grid, axis, index),
                    position,
                    *(() if slab is None else slab_text(slab, grid, axis, index)),
                )
                if flat
                else ("3-D",),
                top_right=(
                    case.case_id,
                    *_geometry_lines(case.report.level),
                    *([message] if message else []),
                ),
                bottom_right=(
                    zoom_text(self.viewer.scene.camera.zoom),
                    window_text(width, level, self.layers.presets.presets),
                ),
                warning="" if self._trusted else _reason(case.report.warnings),
                legend=rows,
                hidden_rows=more,
            )
        )


def asked_first(drawn: Sequence[Drawn], asked: Sequence[str]) -> list[Drawn]:
    """Return what is drawn with the focused one first, then what is asked about, then by size."""
    place = {structure: n for n, structure in reversed(list(enumerate(asked)))}
    return sorted(
        drawn, key=lambda d: (not d.first, not d.focused, place.get(d.structure, len(asked)))
    )


def canvas_of(window: QMainWindow) -> QWidget:
    """Return the widget that napari draws its picture on: the OpenGL one in the window's middle.

    Raises LookupError in a window that has none.
    """
    found = window.centralWidget().findChild(QOpenGLWidget)
    if found is None:
        raise LookupError("this window has no picture")
    canvas: QWidget = found
    return canvas


def _geometry_lines(level: Level) -> tuple[str, ...]:
    return () if level is Level.GREEN else (f"geometry: {level}",)


def _reason(warnings: Sequence[GeometryWarning]) -> str:
    return " ".join(w.message for w in warnings if w.level is Level.RED)
