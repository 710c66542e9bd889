"""VolumeView: the CT in 3-D, small and turnable, with a cube that says how the patient lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QPointF, QRectF, Qt
from qtpy.QtGui import QColor, QFont, QPainter, QPen, QPolygonF
from qtpy.QtWidgets import QVBoxLayout, QWidget
from vispy.scene import SceneCanvas, TurntableCamera, visuals
from vispy.visuals.transforms import STTransform

from napari_ctvqa.core.small_volumes import MIP_WINDOW_HU, SmallVolume, make_small
from napari_ctvqa.core.windows import width_level
from napari_ctvqa.widgets.background import Job
from napari_ctvqa.widgets.picture_text import LineWriter, line_px

if TYPE_CHECKING:
    import numpy.typing as npt
    from qtpy.QtGui import QPaintEvent, QResizeEvent

    from napari_ctvqa.core.cases import Volume
    from napari_ctvqa.core.geometry import Grid

_MARGIN_PX = 10
_LETTER_PX = 22
_CUBE_PX = 26.0
_FACE = QColor(235, 235, 235, 215)
_STEP = 1.3
"""Length of a ray's step in cells: a fifth of the time of the finest, and no bone is lost."""
_NO_CELLS = np.zeros((2, 2, 2), np.uint8)


class VolumeView(QWidget):
    """A maximum projection of the CT; drag turns it, the wheel zooms.

    The scene's axes are Left, Posterior, Superior, right-handed as vispy's own, so that nothing is
    mirrored; the first view is from the front, left on the right, as in a coronal plane.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.canvas = SceneCanvas(keys=None, bgcolor="black", parent=self)
        box = self.canvas.central_widget.add_view()
        self.camera = TurntableCamera(fov=0.0, elevation=0.0, azimuth=0.0)
        box.camera = self.camera
        self._box = box
        self._visual = visuals.Volume(
            _NO_CELLS,
            parent=box.scene,
            method="mip",
            clim=(0, 255),
            cmap="grays",
            relative_step_size=_STEP,
        )
        self._visual.visible = False
        self._volume: Volume | None = None
        self._job: Job | None = None
        self.figure = LetterCube(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.canvas.native)
        self.figure.raise_()
        self.canvas.events.draw.connect(self.figure.follow)
        self.setAccessibleName("3-D view")

    def close_view(self) -> None:
        """Stop all work and let go of OpenGL."""
        if self._job is not None:
            self._job.cancel()
        self.canvas.events.draw.disconnect(self.figure.follow)
        self.canvas.close()

    def show_volume(self, volume: Volume | None, *, trusted: bool) -> None:
        """Show a CT, once it is made small; until then nothing. ``trusted``: with letters."""
        self.figure.grid = volume.display_grid if volume is not None and trusted else None
        self.figure.update()
        if volume is self._volume:
            return
        self._volume = volume
        self._visual.visible = False
        if self._job is not None:
            self._job.cancel()
            self._job = None
        if volume is not None:
            spacing_mm = volume.display_grid.spacing_mm_zyx
            self._job = Job(make_small(volume.display_zyx, spacing_mm))
            self._job.item.connect(self._show_small)
            self._job.start()

    def _show_small(self, small: SmallVolume | None) -> None:
        if small is None:
            return
        z, y, x = small.spacing_mm_zyx
        # The scene's z runs up, the display's down; x and y are the same.
        self._visual.set_data(np.ascontiguousarray(small.cells[::-1]))
        self._visual.transform = STTransform(scale=(x, y, z))
        self._visual.visible = True
        high, deep, wide = (n * mm for n, mm in zip(small.cells.shape, (z, y, x), strict=True))
        self.camera.center = (wide / 2, deep / 2, high / 2)
        self.camera.scale_factor = 1.05 * max(wide, deep, high)
        self.canvas.update()

    @property
    def busy(self) -> bool:
        """Return whether the CT of a case is not shown yet."""
        return self._volume is not None and not self._visual.visible

    def screen_vectors(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return where screen right and screen up lead, as unit vectors (left, back, up).

        Taken from the transforms that the last drawing used, not from the camera's angles.
        """
        to_scene = self._box.scene.node_transform(self._box)
        points = np.array([[0.0, 0.0, 0.5], [100.0, 0.0, 0.5], [0.0, -100.0, 0.5]])
        mapped = np.asarray(to_scene.imap(points), dtype=np.float64)
        mapped = mapped[:, :3] / mapped[:, 3:]
        right, up = mapped[1] - mapped[0], mapped[2] - mapped[0]
        return right / np.linalg.norm(right), up / np.linalg.norm(up)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the letters over the whole picture."""
        super().resizeEvent(event)
        self.figure.setGeometry(self.rect())


class LetterCube(QWidget):
    """A cube in the corner that turns with the picture, a patient direction on each face."""

    def __init__(self, view: VolumeView) -> None:
        super().__init__(view)
        self.view = view
        self.grid: Grid | None = None
        """None: no letters."""
        self._seen: tuple[float, ...] = ()
        self._lines = LineWriter()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def follow(self, event: Any = None) -> None:
        """Turn with the picture, whenever it was drawn from elsewhere."""
        right, up = self.view.screen_vectors()
        seen = tuple(np.round([*right, *up], 4).tolist())
        if seen != self._seen:
            self._seen = seen
            self.update()

    def edge_letters(self) -> dict[str, str]:
        """Return the direction nearest each edge of the view: left, right, top, bottom."""
        if self.grid is None:
            return {}
        right, up = self.view.screen_vectors()
        ways = {"left": -right, "right": right, "top": up, "bottom": -up}
        return {edge: self._letter(way) for edge, way in ways.items()}

    def _letter(self, way_lps: npt.NDArray[np.float64]) -> str:
        """Return the letters of a direction (left, back, up) along the display's axes."""
        assert self.grid is not None
        left, back, up = way_lps
        spacing = np.array(self.grid.spacing_mm_zyx)
        return self.grid.direction_letters(np.array([-up, back, left]) / spacing)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the cube, the letters at the edges, and what is shown."""
        painter = QPainter(self)
        width, level = width_level(*MIP_WINDOW_HU)
        making = ["is being made …"] if self.view.busy else []
        limit = self.width() / 2.0 - _MARGIN_PX - _LETTER_PX
        texts = ["3-D · largest HU", f"W {width:.0f} L {level:.0f} HU", *making]
        for row, text in enumerate(texts, start=1):
            self._lines.write(painter, text, _MARGIN_PX, _MARGIN_PX + line_px() * row, limit)
        if self.grid is not None:
            self._paint_edges(painter)
            self._paint_cube(painter)

    def _paint_edges(self, painter: QPainter) -> None:
        wide, high = float(self.width()), float(self.height())
        places = {
            "left": (_MARGIN_PX, high / 2),
            "right": (wide - _MARGIN_PX - 20, high / 2),
            "top": (wide / 2, _MARGIN_PX + float(_LETTER_PX)),
            "bottom": (wide / 2, high - _MARGIN_PX),
        }
        for edge, text in self.edge_letters().items():
            x, y = places[edge]
            self._lines.write(painter, text, x, y, 60.0, px=_LETTER_PX if len(text) == 1 else 16)

    def _paint_cube(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        centre = QPointF(_MARGIN_PX + 2 * _CUBE_PX, self.height() - _MARGIN_PX - 2 * _CUBE_PX)
        right, up = self.view.screen_vectors()
        towards = np.cross(right, up)
        font = QFont()
        font.setBold(True)
        font.setPixelSize(round(0.9 * _CUBE_PX))
        painter.setFont(font)
        for axis in range(3):
            sign = 1.0 if towards[axis] > 0 else -1.0
            if abs(towards[axis]) > 0.05:
                self._paint_face(painter, centre, axis, sign, (right, up))

    def _paint_face(
        self,
        painter: QPainter,
        centre: QPointF,
        axis: int,
        sign: float,
        screen: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    ) -> None:
        right, up = screen
        normal = np.zeros(3)
        normal[axis] = sign
        sides = [np.eye(3)[other] for other in range(3) if other != axis]
        corners = [normal + a * sides[0] + b * sides[1] for a, b in _SQUARE]
        points = [
            centre + QPointF(float(c @ right) * _CUBE_PX, -float(c @ up) * _CUBE_PX)
            for c in corners
        ]
        shade = abs(float(normal @ np.cross(right, up)))
        face = QColor(_FACE)
        face.setRgb(*(int(part * (0.5 + 0.5 * shade)) for part in face.getRgb()[:3]), 215)
        painter.setBrush(face)
        painter.setPen(QPen(QColor(20, 20, 20), 1.5))
        painter.drawPolygon(QPolygonF(points))
        if shade > 0.3:
            middle = centre + QPointF(
                float(normal @ right) * _CUBE_PX, -float(normal @ up) * _CUBE_PX
            )
            box = QRectF(middle.x() - _CUBE_PX, middle.y() - _CUBE_PX, 2 * _CUBE_PX, 2 * _CUBE_PX)
            painter.setPen(QColor("black"))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self._letter(normal))


_SQUARE = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0))
