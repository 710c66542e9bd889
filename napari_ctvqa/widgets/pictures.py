"""PictureGrid: the pictures that a model was given, small; pointing at one moves the planes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from qtpy.QtCore import QEvent, QModelIndex, QSize, Qt, Signal
from qtpy.QtGui import QIcon, QImage, QPixmap
from qtpy.QtWidgets import QAbstractItemView, QListView, QListWidget, QListWidgetItem

from napari_ctvqa.widgets.text import one_line, tooltip

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from napari_ctvqa.core.asking import Picture

SIDE_PX = 84
_BELOW_PX = 46
"""Room for a label under a picture, and for a scroll bar."""
MAX_SHOWN = 400
"""More pictures than any preset sends; the note says when some are left out."""
_STEPS = {
    QAbstractItemView.CursorAction.MoveLeft: -1,
    QAbstractItemView.CursorAction.MoveRight: 1,
}


class PictureGrid(QListWidget):
    """Thumbnails with their labels, in the order in which they were sent.

    ``pointed`` carries the Picture under the pointer or the keyboard's cursor, None when both
    have left.
    """

    pointed = Signal(object)

    def __init__(self, name: str = "Pictures that the model saw", rows: int = 2) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setMovement(QListView.Movement.Static)
        self.setUniformItemSizes(True)
        self.setIconSize(QSize(SIDE_PX, SIDE_PX))
        self.setMouseTracking(True)
        self.setMinimumHeight(2 * SIDE_PX if rows > 1 else 0)
        if rows == 1:
            self.setFixedHeight(SIDE_PX + _BELOW_PX)
        self._shown: tuple[Picture, ...] = ()
        self.itemEntered.connect(self._point)
        self.currentItemChanged.connect(lambda item, _: self._point(item))

    def show_pictures(self, pictures: Sequence[Picture]) -> None:
        """Show pictures; what is shown already, made anew or not, costs no new thumbnail."""
        before, self._shown = self._shown, tuple(pictures[:MAX_SHOWN])
        new = [n for n, p in enumerate(self._shown) if n >= len(before) or not _alike(p, before[n])]
        if not new and len(before) == len(self._shown):
            return
        blocked = self.blockSignals(True)
        for number in range(len(before), len(self._shown)):
            item = QListWidgetItem()
            item.setData(Qt.ItemDataRole.UserRole, number)
            self.addItem(item)
        for number in range(len(before) - 1, len(self._shown) - 1, -1):
            self.takeItem(number)
        for number in new:
            self._draw(number)
        if new:
            self.setCurrentRow(-1)
        self.blockSignals(blocked)
        self.setVisible(bool(self._shown))

    def _draw(self, number: int) -> None:
        picture, item = self._shown[number], self.item(number)
        label = one_line(picture.label, 40) or f"{picture.kind} {number + 1}"
        rows, columns = picture.pixels.shape[:2]
        item.setText(label)
        item.setIcon(QIcon(thumbnail(picture.pixels)))
        item.setToolTip(tooltip(f"{label}: {columns} × {rows} pixels, {picture.kind}"))

    def _point(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.pointed.emit(self._shown[int(item.data(Qt.ItemDataRole.UserRole))])

    def moveCursor(
        self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        """Go left and right in the order in which they were sent, on to the next line of them."""
        step = _STEPS.get(action)
        if step is None or self.currentRow() < 0:
            return super().moveCursor(action, modifiers)
        return self.model().index(min(max(self.currentRow() + step, 0), self.count() - 1), 0)

    def leaveEvent(self, event: QEvent) -> None:
        """Take the frame away with the pointer."""
        self.pointed.emit(None)
        super().leaveEvent(event)


def _alike(one: Picture, other: Picture) -> bool:
    """Return whether two pictures look the same here: each question has its own made anew."""
    return one is other or (
        one.label == other.label
        and one.kind == other.kind
        and np.array_equal(one.pixels, other.pixels)
    )


def thumbnail(pixels: npt.NDArray[np.uint8]) -> QPixmap:
    """Return a small picture of uint8 pixels, shape (rows, columns, 3)."""
    step = max(1, min(pixels.shape[:2]) // (2 * SIDE_PX))
    small = np.ascontiguousarray(pixels[::step, ::step])
    rows, columns = small.shape[:2]
    image = QImage(small.data, columns, rows, 3 * columns, QImage.Format.Format_RGB888)
    return QPixmap.fromImage(image).scaled(
        SIDE_PX,
        SIDE_PX,
        Qt.AspectRatioMode.KeepAspectRatio,
        Qt.TransformationMode.SmoothTransformation,
    )
