"""napari's own picture as one of the linked planes: its cross-hair, and what the pointer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from psygnal import Signal
from qtpy.QtCore import QEvent, QObject, QPointF, QRect, QRectF, Qt
from qtpy.QtGui import QPainter, QRegion
from qtpy.QtWidgets import QWidget

from napari_ctvqa.core.plane_pictures import row_and_column_axis
from napari_ctvqa.widgets.cross_hair import paint_cross
from napari_ctvqa.widgets.directions import canvas_to_world
from napari_ctvqa.widgets.picture_text import scaled_px
from napari_ctvqa.widgets.plane_canvas import ZOOM_STEP

if TYPE_CHECKING:
    import napari
    from qtpy.QtGui import QMouseEvent, QPaintEvent, QWheelEvent

    from napari_ctvqa.widgets.layers import CaseLayers
    from napari_ctvqa.widgets.surface import Surface

_NOTCH = 120
_LETTER_PX = 64
"""As much as a letter with its shade and its distance from the edge takes, at usual type."""
_LEFT, _MIDDLE = Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton


def letter_places(area: QRect) -> QRegion:
    """Return where the letters of the sides stand: at the middle of each edge of a picture."""
    side = round(scaled_px(_LETTER_PX))
    middle, centre = area.center().x() - side // 2, area.center().y() - side // 2
    corners = (
        (area.left(), centre),
        (area.right() + 1 - side, centre),
        (middle, area.top()),
        (middle, area.bottom() + 1 - side),
    )
    found = QRegion()
    for left, top in corners:
        found += QRect(left, top, side, side)
    return found


class CrossSheet(QWidget):
    """The cross-hair over napari's picture; lets every click through.

    Painted anew only where it moved on the canvas, so that going through the slices costs nothing.
    """

    def __init__(self, surface: Surface, layers: CaseLayers) -> None:
        super().__init__(surface.widget)
        self.surface, self.layers = surface, layers
        self._at: tuple[int, float, float] | None = None
        self._wanted = True
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setGeometry(surface.widget.rect())
        surface.widget.installEventFilter(self)
        surface.changed.connect(self.refresh)
        self.show()
        self.refresh()

    def close_sheet(self) -> None:
        """Let go of the canvas."""
        self.surface.changed.disconnect(self.refresh)
        self.surface.widget.removeEventFilter(self)
        self.setParent(None)
        self.deleteLater()

    def show_cross(self, shown: bool) -> None:
        """Show or hide the cross-hair."""
        self._wanted = shown
        self.refresh()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the canvas."""
        if event.type() == QEvent.Type.Resize and watched is self.parent():
            self.setGeometry(self.parentWidget().rect())
        return False

    def refresh(self) -> None:
        """Paint the cross-hair where it is now, if that is elsewhere."""
        at = None
        if self._wanted and self.layers.case is not None:
            px = self.surface.px_at(np.array(self.layers.place.index_zyx, np.float64))
            at = None if px is None else (self.surface.plane, float(px[0]), float(px[1]))
        if at != self._at:
            self._at = at
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the two lines."""
        if self._at is not None:
            axis, x, y = self._at
            painter = QPainter(self)
            # napari's letters lie below this sheet, and an L whose foot is struck through is an I.
            painter.setClipRegion(QRegion(self.rect()) - letter_places(self.rect()))
            paint_cross(painter, QRectF(self.rect()), QPointF(x, y), axis)


class MainPointer(QObject):
    """The pointer over napari's picture, as over the planes beside it.

    Wheel: slices. Ctrl and wheel: zoom. Left button: take the cross-hair there. Middle button:
    move the picture. Double click: ``enlarged``. While a tool is in the hand, a layer is drawn in
    or the picture is 3-D, all of it is napari's.
    """

    picked = Signal(int, float, float)
    """The cross-hair was taken to (row, column) of this plane: axis, fractional indices."""
    stepped = Signal(int, int)
    """The wheel was turned: axis, number of slices."""
    enlarged = Signal(int)
    """A double click: axis."""

    def __init__(self, viewer: napari.Viewer, layers: CaseLayers, surface: Surface) -> None:
        super().__init__(surface.widget)
        self.viewer, self.layers, self.surface = viewer, layers, surface
        self._picking = False
        self._grip: tuple[QPointF, tuple[float, ...]] | None = None
        self._turned = 0
        surface.widget.installEventFilter(self)

    def close(self) -> None:
        """Let go of the canvas."""
        self.surface.widget.removeEventFilter(self)

    @property
    def _ours(self) -> bool:
        if self.layers.case is None or self.viewer.dims.ndisplay != 2:
            return False
        layer = self.viewer.layers.selection.active
        return layer is None or str(layer.mode) == "pan_zoom"

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take what is ours; all else goes through."""
        kind = event.type()
        if kind == QEvent.Type.MouseMove:
            self._move(event.position())
            return False  # the strip under the picture follows the pointer, too
        if kind == QEvent.Type.MouseButtonRelease and (self._picking or self._grip):
            self._picking, self._grip = False, None
            return True
        if kind == QEvent.Type.Wheel:
            return self._ours and self._turn(event)
        if kind in (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick):
            plain = event.modifiers() == Qt.KeyboardModifier.NoModifier
            if plain and self._ours and not self.layers.session.tool:
                return self._press(event, double=kind == QEvent.Type.MouseButtonDblClick)
        return False

    def _press(self, event: QMouseEvent, *, double: bool) -> bool:
        if event.button() == _LEFT:
            if double:
                self.enlarged.emit(self.surface.plane)
            else:
                self._picking = True
                self._pick(event.position())
            return True
        if event.button() == _MIDDLE:
            self._grip = (event.position(), tuple(self.viewer.scene.camera.center))
            return True
        return False

    def _move(self, at: QPointF) -> None:
        if self._picking:
            self._pick(at)
        elif self._grip is not None:
            start, centre = self._grip
            self._place_under(start, at, centre)

    def _place_under(self, start: QPointF, at: QPointF, centre: tuple[float, ...]) -> None:
        """Move the camera from ``centre`` so that what lay under ``start`` lies under ``at``."""
        camera = self.viewer.scene.camera
        vertical, horizontal = camera.orientation2d
        right = 1.0 if str(horizontal) == "right" else -1.0
        down = 1.0 if str(vertical) == "down" else -1.0
        way = at - start
        camera.center = (
            centre[0],
            centre[1] - down * way.y() / camera.zoom,
            centre[2] - right * way.x() / camera.zoom,
        )

    def _pick(self, at: QPointF) -> None:
        index = self.surface.index_at(at.x(), at.y())
        if index is not None:
            row_axis, column_axis = row_and_column_axis(self.surface.plane)
            self.picked.emit(self.surface.plane, float(index[row_axis]), float(index[column_axis]))

    def _turn(self, event: QWheelEvent) -> bool:
        angle, keys = event.angleDelta().y(), event.modifiers()
        if keys & Qt.KeyboardModifier.ControlModifier:
            self._zoom(ZOOM_STEP ** (angle / _NOTCH), event.position())
            return True
        self._turned += angle
        notches = int(self._turned / _NOTCH)
        self._turned -= notches * _NOTCH
        if notches:
            self.stepped.emit(self.surface.plane, -notches)
        return True

    def _zoom(self, factor: float, at: QPointF) -> None:
        """Zoom by a factor; what lies under ``at`` stays there."""
        camera, px = self.viewer.scene.camera, (at.x(), at.y())
        before = canvas_to_world(self.viewer, px)
        camera.zoom *= factor
        after = canvas_to_world(self.viewer, px)
        if before is not None and after is not None:
            row, column = self.viewer.dims.displayed
            centre = list(camera.center)
            centre[-2] += before[row] - after[row]
            centre[-1] += before[column] - after[column]
            camera.center = tuple(centre)
