"""PlaneCanvas: one plane of the case beside napari's own picture.

Painted by Qt's raster engine from the arrays of ``core.plane_pictures``: the CT smoothly, the
masks voxel by voxel, as napari draws them. On a machine whose OpenGL is software that is several
times faster than a canvas of vispy's, and every machine draws the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal
from qtpy.QtCore import QPointF, QRectF, QSize, Qt
from qtpy.QtGui import QColor, QImage, QPainter, QPixmap
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_ctvqa.core.colours import plane_colour
from napari_ctvqa.core.plane_pictures import (
    NO_LETTERS,
    EdgeLetters,
    plane_grey,
    plane_letters,
    plane_overlay,
    plane_spacing_mm,
    row_and_column_axis,
)
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
from napari_ctvqa.widgets.cross_hair import paint_cross, paint_frame
from napari_ctvqa.widgets.picture_text import TEXT_PX, LineWriter, line_px, scaled_px, text_width

if TYPE_CHECKING:
    import numpy.typing as npt
    from qtpy.QtGui import QMouseEvent, QPaintEvent, QResizeEvent, QWheelEvent

    from napari_ctvqa.core.plane_pictures import PlaneScene

NOT_TRUSTED = "orientation not trusted"
FIT_MARGIN = 0.02
ZOOM_STEP = 1.15
_NOTCH = 120
"""The angle of one step of a wheel, in eighths of a degree, as Qt counts."""
_ZOOM_PX_PER_MM = (0.05, 200.0)
_MARGIN_PX = 10
_NARROW_PX, _SMALL_TEXT_PX = 420, 12
_LETTER_PX, _TWO_LETTERS_PX = 22, 16
_TEXT_FROM_PX = 240
"""A narrower picture has no corner text: it would hide the patient."""

Index = tuple[int, int, int]


@dataclass(frozen=True)
class View:
    """What part of a plane is shown: the point (row mm, column mm) in the middle, and how large."""

    row_mm: float
    column_mm: float
    px_per_mm: float


class PlaneCanvas(QWidget):
    """Shows plane ``axis`` of a scene at one place; a Surface for the tools of the pointer.

    Wheel: slices. Ctrl and wheel: zoom. Left button: take the cross-hair there. Middle button:
    move the picture. Double click: ``enlarged``.
    """

    changed = Signal()
    """Slice, zoom, plane or case changed what lies where."""
    picked = Signal(int, float, float)
    """The cross-hair was taken to (row, column) of this plane: axis, fractional indices."""
    stepped = Signal(int, int)
    """The wheel was turned: axis, number of slices."""
    enlarged = Signal(int)
    """A double click: axis."""
    pointed = Signal(int, object)
    """Axis, and the fractional display index under the pointer, None when it left."""

    def __init__(self, axis: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.widget = self
        self.axis = axis
        self.mirrored = False
        """Whether columns run to the left: a sagittal plane with the nose to the right."""
        self.trusted = True
        """Whether the sides of the patient are known."""
        self.cross_hair = True
        self.case_code = ""
        self.presets: tuple[Any, ...] = ()
        self._scene: PlaneScene | None = None
        self._index: Index = (0, 0, 0)
        self._view = View(0.0, 0.0, 1.0)
        self._fitted = True
        self._picture: QPixmap | None = None
        self._lines = LineWriter()
        self._turned = 0
        self._grip: tuple[QPointF, View] | None = None
        self._picking = False
        self._pointer_px: QPointF | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)

    # ---------------------------------------------------------------- what is shown

    @property
    def scene(self) -> PlaneScene | None:
        """Return what is shown, None without a case."""
        return self._scene

    @property
    def plane(self) -> int:
        """Return the display axis that is not displayed."""
        return self.axis

    @property
    def slice_index(self) -> int:
        """Return the display index of the slice that is shown."""
        return self._index[self.axis]

    @property
    def letters(self) -> EdgeLetters:
        """Return what stands at the four edges, from the grid and the view as they are now."""
        if self._scene is None or not self.trusted:
            return NO_LETTERS
        return plane_letters(self._scene.grid, self.axis, mirrored=self.mirrored)

    def show_scene(self, scene: PlaneScene | None) -> None:
        """Show another scene; the view stays where the grid does."""
        before, self._scene = self._scene, scene
        if scene is not None and (before is None or before.grid is not scene.grid):
            self.fit()
        self.redraw()

    def show_plane(self, axis: int, *, mirrored: bool) -> None:
        """Show another plane, or the same one mirrored, wholly."""
        if (axis, mirrored) != (self.axis, self.mirrored):
            self.axis, self.mirrored = axis, mirrored
            self.setAccessibleName(f"{PLANES[axis].capitalize()} plane")
            self.fit()

    def show_place(self, index_zyx: Index) -> bool:
        """Go to a place; return whether another slice is shown, not only a moved cross-hair.

        Another slice is painted with the next paint event. A cross-hair that only moved is for
        the caller to have painted, with ``update``, when there is time.
        """
        moved = index_zyx[self.axis] != self._index[self.axis]
        self._index = index_zyx
        if moved:
            self.redraw()
        return moved

    def redraw(self) -> None:
        """Draw the picture anew with the next paint event."""
        self._picture = None
        self.update()
        self.changed.emit()
        if self._pointer_px is not None:  # which may rest while the picture moves
            self._say_where()

    # ---------------------------------------------------------------------- the view

    @property
    def view(self) -> View:
        """Return which part is shown."""
        return self._view

    def fit(self) -> None:
        """Show the whole plane, as large as the canvas allows."""
        self._fitted = True
        if self._scene is None:
            return
        (row_mm, column_mm), (rows, columns) = self._spacing_mm(), self._size()
        high, wide = max(rows * row_mm, 1e-3), max(columns * column_mm, 1e-3)
        room = (1 - FIT_MARGIN) * np.array([self.height() / high, self.width() / wide])
        zoom = float(np.clip(room.min(), *_ZOOM_PX_PER_MM))
        self._view = View((rows - 1) / 2 * row_mm, (columns - 1) / 2 * column_mm, zoom)
        self.redraw()

    def zoom_at(self, factor: float, at: QPointF) -> None:
        """Zoom by a factor; what lies under ``at`` stays there."""
        before = self._mm_at(at)
        zoom = float(np.clip(self._view.px_per_mm * factor, *_ZOOM_PX_PER_MM))
        self._fitted = False
        self._view = View(self._view.row_mm, self._view.column_mm, zoom)
        after = self._mm_at(at)
        row, column = (v + b - a for v, b, a in zip(self._centre_mm(), before, after, strict=True))
        self._view = View(row, column, zoom)
        self.redraw()

    def _centre_mm(self) -> tuple[float, float]:
        return self._view.row_mm, self._view.column_mm

    def _spacing_mm(self) -> tuple[float, float]:
        assert self._scene is not None
        return plane_spacing_mm(self._scene.grid, self.axis)

    def _size(self) -> tuple[int, int]:
        assert self._scene is not None
        shape = self._scene.grid.shape_zyx
        row_axis, column_axis = row_and_column_axis(self.axis)
        return shape[row_axis], shape[column_axis]

    @property
    def _sense(self) -> float:
        return -1.0 if self.mirrored else 1.0

    def _mm_at(self, at: QPointF) -> tuple[float, float]:
        """Return (row mm, column mm) from the centre of the first voxel."""
        view = self._view
        return (
            view.row_mm + (at.y() - self.height() / 2) / view.px_per_mm,
            view.column_mm + self._sense * (at.x() - self.width() / 2) / view.px_per_mm,
        )

    def index_at(self, x_px: float, y_px: float) -> npt.NDArray[np.float64] | None:
        """Return the fractional display index under a pixel; None without a case."""
        if self._scene is None:
            return None
        index = np.array(self._index, dtype=np.float64)
        row_axis, column_axis = row_and_column_axis(self.axis)
        (row, column), (row_mm, column_mm) = self._mm_at(QPointF(x_px, y_px)), self._spacing_mm()
        index[row_axis], index[column_axis] = row / row_mm, column / column_mm
        return index

    def px_at(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64] | None:
        """Return (…, 2) pixels x, y of (…, 3) display indices; None without a case."""
        if self._scene is None:
            return None
        index = np.asarray(index_zyx, dtype=np.float64)
        row_axis, column_axis = row_and_column_axis(self.axis)
        (row_mm, column_mm), view = self._spacing_mm(), self._view
        x = self._sense * (index[..., column_axis] * column_mm - view.column_mm) * view.px_per_mm
        y = (index[..., row_axis] * row_mm - view.row_mm) * view.px_per_mm
        return np.stack([x + self.width() / 2, y + self.height() / 2], axis=-1)

    # ---------------------------------------------------------------------- painting

    def sizeHint(self) -> QSize:
        """Return a size for a layout that asks; the layouts of the planes do not."""
        return QSize(320, 280)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep a fitted picture fitted, and any other one in its place."""
        super().resizeEvent(event)
        if self._fitted:
            self.fit()
        self.redraw()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the picture, drawn anew only where it changed, and cross-hair and text on it."""
        painter = QPainter(self)
        if self._scene is None:
            painter.fillRect(self.rect(), QColor("black"))
        else:
            ratio = self.devicePixelRatioF()
            if self._picture is None or self._picture.devicePixelRatioF() != ratio:
                self._picture = self._drawn(ratio)
            painter.drawPixmap(0, 0, self._picture)
            if self.cross_hair:
                self._paint_cross(painter)
            self._paint_text(painter)
            self._paint_letters(painter)  # over the text: an L without its foot is an I
        paint_frame(painter, QRectF(self.rect()), plane_colour(PLANES[self.axis]))

    def _drawn(self, ratio: float) -> QPixmap:
        picture = QPixmap(self.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(QColor("black"))
        scene = self._scene
        assert scene is not None
        if not 0 <= self.slice_index < scene.grid.shape_zyx[self.axis]:
            return picture
        painter = QPainter(picture)
        grey = plane_grey(scene, self.axis, self.slice_index)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        self._draw_image(painter, _grey_image(self._turn(grey)), (0, 0), grey.shape)
        overlay = plane_overlay(scene, self.axis, self.slice_index)
        if overlay is not None:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
            pixels = overlay.pixels
            image = _image(self._turn(pixels), QImage.Format.Format_ARGB32_Premultiplied)
            self._draw_image(painter, image, overlay.corner, pixels.shape)
        painter.end()
        return picture

    def _turn(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # Mirrored here: through a mirroring transform Qt draws several times slower.
        return np.ascontiguousarray(array[:, ::-1] if self.mirrored else array)

    def _draw_image(
        self, painter: QPainter, image: QImage, corner: tuple[int, int], shape: tuple[int, ...]
    ) -> None:
        """Draw one pixel a voxel, from row and column ``corner`` on, half a voxel around each."""
        where = np.zeros((2, 3))
        for axis, start, size in zip(row_and_column_axis(self.axis), corner, shape, strict=True):
            where[:, axis] = start - 0.5, start + size - 0.5
        ends = self.px_at(where)
        assert ends is not None
        (left, top), (right, bottom) = ends.min(axis=0), ends.max(axis=0)
        painter.drawImage(QRectF(left, top, right - left, bottom - top), image)

    def _paint_cross(self, painter: QPainter) -> None:
        at = self.px_at(self._index)
        assert at is not None
        paint_cross(painter, QRectF(self.rect()), QPointF(*at), self.axis)

    def _paint_letters(self, painter: QPainter) -> None:
        letters, margin = self.letters, _MARGIN_PX
        wide, high = self.width(), self.height()
        for text, x, y in (
            (letters.left, 0.0, 0.5),
            (letters.right, 1.0, 0.5),
            (letters.top, 0.5, 0.0),
            (letters.bottom, 0.5, 1.0),
        ):
            if not text:
                continue
            px = _LETTER_PX if len(text) == 1 else _TWO_LETTERS_PX
            letter_wide, letter_high = text_width(text, px), scaled_px(px)
            left = margin + x * (wide - 2 * margin - letter_wide)
            base = margin + letter_high + y * (high - 2 * margin - letter_high)
            box = QRectF(left - 4, base - letter_high, letter_wide + 8, letter_high + 5)
            painter.fillRect(box, QColor(0, 0, 0, 165))
            self._lines.write(painter, text, left, base, 200.0, px=px)

    def _paint_text(self, painter: QPainter) -> None:
        if self.width() < _TEXT_FROM_PX:
            return
        px = TEXT_PX if self.width() >= _NARROW_PX else _SMALL_TEXT_PX
        line, limit = line_px(px), self.width() / 2 - _MARGIN_PX - _LETTER_PX
        for row, text in enumerate(self.top_left(), start=1):
            base = _MARGIN_PX + line * row
            fits = text_width(text, px) <= limit
            shown = text if fits else text.replace(" · slice ", " ")
            self._lines.write(painter, shown, _MARGIN_PX, base, limit, px=px)
        right, bottom = self.width() - _MARGIN_PX, self.height() - _MARGIN_PX
        for row, text in enumerate(self.bottom_right()):
            fits = text_width(text, px) <= limit
            shown = text if fits else text.partition(" · ")[0]  # the numbers, without the name
            base = bottom - line * row
            self._lines.write(painter, shown, right, base, limit, px=px, from_right=True)

    def top_left(self) -> tuple[str, ...]:
        """Return the corner text about the slice: where it is, in the display and in the file."""
        if self._scene is None:
            return ()
        grid, slab, index = self._scene.grid, self._scene.slab, self.slice_index
        position = position_text(grid, self.axis, index) if self.trusted else NOT_TRUSTED
        return (
            slice_text(grid, self.axis, index),
            file_slice_text(grid, self.axis, index),
            position,
            *(() if slab is None else slab_text(slab, grid, self.axis, index)),
        )

    def bottom_right(self) -> tuple[str, ...]:
        """Return the corner text about the picture, from the lowest line up."""
        if self._scene is None:
            return ()
        width, level = width_level(*self._scene.window_hu)
        text = (window_text(width, level, self.presets), zoom_text(self._view.px_per_mm))
        return (*text, self.case_code) if self.case_code else text

    # ----------------------------------------------------------------------- pointer

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Go through the slices, or zoom with Ctrl."""
        angle = event.angleDelta().y()
        event.accept()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_at(ZOOM_STEP ** (angle / _NOTCH), event.position())
            return
        self._turned += angle
        notches = int(self._turned / _NOTCH)
        self._turned -= notches * _NOTCH
        if notches:
            self.stepped.emit(self.axis, -notches)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to take the cross-hair along, or to move the picture."""
        if event.modifiers() != Qt.KeyboardModifier.NoModifier:
            return
        if event.button() == Qt.MouseButton.LeftButton:
            self._picking = True
            self._pick(event.position())
        elif event.button() == Qt.MouseButton.MiddleButton:
            self._grip = (event.position(), self._view)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what lies under the pointer; take along what it holds."""
        at = self._pointer_px = event.position()
        if self._picking:
            self._pick(at)
        elif self._grip is not None:
            start, view = self._grip
            self._fitted = False
            self._view = View(
                view.row_mm - (at.y() - start.y()) / view.px_per_mm,
                view.column_mm - self._sense * (at.x() - start.x()) / view.px_per_mm,
                view.px_per_mm,
            )
            self.redraw()
        self._say_where()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        self._picking, self._grip = False, None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask to be shown large."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._picking = False
            self.enlarged.emit(self.axis)

    def leaveEvent(self, event: Any) -> None:
        """Say that nothing lies under the pointer."""
        super().leaveEvent(event)
        self._pointer_px = None
        self._say_where()

    def _say_where(self) -> None:
        at = self._pointer_px
        self.pointed.emit(self.axis, None if at is None else self.index_at(at.x(), at.y()))

    def _pick(self, at: QPointF) -> None:
        index = self.index_at(at.x(), at.y())
        if index is not None:
            row_axis, column_axis = row_and_column_axis(self.axis)
            self.picked.emit(self.axis, float(index[row_axis]), float(index[column_axis]))


def _grey_image(grey: npt.NDArray[np.uint8]) -> QImage:
    """Return greys in the format that Qt scales fastest."""
    return _image(grey, QImage.Format.Format_Grayscale8).convertToFormat(QImage.Format.Format_RGB32)


def _image(pixels: npt.NDArray[Any], kind: QImage.Format) -> QImage:
    """Return a picture on an array's own memory, which must outlive it."""
    rows, columns = pixels.shape
    return QImage(pixels.data, columns, rows, pixels.strides[0], kind)
