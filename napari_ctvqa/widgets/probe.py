"""ProbeStrip: what lies under the pointer, always visible, in one strip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QLabel, QSizePolicy

from napari_ctvqa.core.view_text import NOTHING, PLANES, probe_fields
from napari_ctvqa.widgets.directions import canvas_to_world

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari
    import numpy.typing as npt
    from qtpy.QtWidgets import QWidget

    from napari_ctvqa.widgets.layers import CaseLayers

_CAPTIONS = {
    "HU": ("HU ", ""),
    "mean": ("mean ", ""),
    "labels": ("", ""),
    "voxel": ("shown ", " (from 1)"),
    "file": ("file ", " (from 0)"),
    "LPS": ("LPS ", " mm"),
    "RAS": ("RAS ", " mm"),
}
_ROWS: Mapping[int, tuple[tuple[str, ...], ...]] = {
    1: (("HU", "mean", "voxel", "file", "LPS", "RAS", "labels"),),
    2: (("HU", "mean", "labels"), ("voxel", "file", "LPS", "RAS")),
    3: (("HU", "mean", "labels"), ("voxel", "file"), ("LPS", "RAS")),
    4: (("HU", "mean"), ("labels",), ("voxel", "file"), ("LPS", "RAS")),
}
_WIDEST = {
    "HU": "-1024",
    "mean": "-100.0 ± 100.0 (r 3 mm, 99 voxels)",
    "labels": "left kidney (reference)",
    "voxel": "z 512 y 512 x 512",
    "file": "i 511 j 511 k 511",
    "LPS": "-200.0 -200.0 -1000.0",
    "RAS": "-200.0 -200.0 -1000.0",
}
"""What a row must have room for; structures that do not fit are cut with an ellipsis."""


def probe_rows(fields: Mapping[str, str], rows: int) -> list[str]:
    """Return the strip's text in 1 to 4 rows; names stand last or alone: they have no limit."""
    return ["   ".join(_captioned(name, fields[name]) for name in names) for names in _ROWS[rows]]


def _captioned(name: str, text: str) -> str:
    before, after = _CAPTIONS[name]
    return f"{before}{text}{'' if text == NOTHING else after}"


class ProbeStrip(QLabel):
    """Under the picture: HU, their mean in a circle, names of all masks, voxel, file voxel, mm.

    In one row where there is room for it, else in two to four; the height changes with the width
    alone, never with what is shown.

    Parameters
    ----------
    viewer, layers
        Observed, never changed.
    canvas
        The Qt widget that the picture is drawn on; the pointer is followed there.
    """

    def __init__(self, viewer: napari.Viewer, layers: CaseLayers, canvas: QWidget) -> None:
        super().__init__()
        self.viewer, self.layers, self.canvas = viewer, layers, canvas
        self._pointer_px: tuple[float, float] | None = None
        self._elsewhere: tuple[int, npt.NDArray[np.float64]] | None = None
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._rows = 1
        self.setContentsMargins(8, 2, 8, 2)
        canvas.setMouseTracking(True)
        canvas.installEventFilter(self)
        dims, camera = viewer.dims, viewer.scene.camera
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (dims.events.point, self.refresh),
            (dims.events.order, self.refresh),
            (dims.events.ndisplay, self.refresh),
            (camera.events.zoom, self.refresh),
            (camera.events.center, self.refresh),
            (camera.events.orientation, self.refresh),
            (layers.changed, self.refresh),
            (layers.session.probe_changed, self.refresh),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self.refresh()

    def close_probe(self) -> None:
        """Let go of viewer, layers and canvas."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        self.canvas.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the pointer over the canvas; never take an event away."""
        kind = event.type()
        if kind in (QEvent.Type.MouseMove, QEvent.Type.MouseButtonPress):
            position = event.position()
            self._pointer_px = (position.x(), position.y())
            self._elsewhere = None  # whether or not the other canvas was told that it left
            self.refresh()
        elif kind == QEvent.Type.Leave:
            self._pointer_px = None
            self.refresh()
        return False

    def show_index(self, plane: int, index_zyx: npt.NDArray[np.float64] | None) -> None:
        """Show what lies at a fractional display index: under the pointer on another canvas.

        ``plane`` is the display axis that is not displayed there; None when the pointer left.
        """
        self._elsewhere = None if index_zyx is None else (plane, index_zyx)
        self.refresh()

    def refresh(self) -> None:
        """Look again at what is under the pointer: it may rest while the picture moves."""
        fields = probe_fields(
            self.layers.case,
            self._index_zyx(),
            self.layers.extra_masks,
            plane=self._elsewhere[0] if self._elsewhere else PLANES.index(self.layers.plane),
            radius_mm=self.layers.session.probe_radius_mm,
        )
        metrics, room = self.fontMetrics(), self._room_px()
        self.setText(
            "\n".join(
                metrics.elidedText(row, Qt.TextElideMode.ElideRight, room)
                for row in probe_rows(fields, self._rows)
            )
        )

    def resizeEvent(self, event: Any) -> None:
        """Take as many rows as this width needs."""
        super().resizeEvent(event)
        metrics, room = self.fontMetrics(), self._room_px()
        self._rows = next(
            (
                rows
                for rows in (1, 2, 3)
                if all(metrics.horizontalAdvance(row) <= room for row in probe_rows(_WIDEST, rows))
            ),
            4,
        )
        margins = self.contentsMargins()
        self.setFixedHeight(
            self._rows * metrics.lineSpacing() + margins.top() + margins.bottom() + 2
        )
        self.refresh()

    def _room_px(self) -> int:
        margins = self.contentsMargins()
        return max(int(self.width() - margins.left() - margins.right()) - 2, 40)

    def _index_zyx(self) -> npt.NDArray[np.float64] | None:
        """Return the display index under the pointer, as the CT layer is drawn."""
        layer, case = self.layers.layer("CT"), self.layers.case
        if self._elsewhere is not None:
            return self._elsewhere[1]
        if self._pointer_px is None or layer is None or case is None or not layer.visible:
            return None
        world = canvas_to_world(self.viewer, self._pointer_px)
        return None if world is None else np.asarray(layer.world_to_data(world), dtype=np.float64)
