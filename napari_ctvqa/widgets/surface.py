"""Surface: what a tool of the pointer needs to know of a canvas that shows one plane of the CT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from psygnal import Signal

from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.widgets.directions import canvas_to_world

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari
    import numpy.typing as npt
    from qtpy.QtWidgets import QWidget

    from napari_ctvqa.widgets.layers import CaseLayers


class Surface(Protocol):
    """A canvas that shows one plane: where a pixel lies in the CT, and a voxel on the canvas.

    Pixels are Qt's (logical ones), from the widget's top left corner; indices are fractional
    display indices (z, y, x), voxel centres at whole numbers. ``changed`` is emitted when slice,
    zoom, plane or case change what lies where.
    """

    widget: QWidget
    changed: Any

    @property
    def plane(self) -> int:
        """Return the display axis that is not displayed: 0 axial, 1 coronal, 2 sagittal."""
        ...

    @property
    def slice_index(self) -> int:
        """Return the display index of the slice that is shown."""
        ...

    def index_at(self, x_px: float, y_px: float) -> npt.NDArray[np.float64] | None:
        """Return the display index under a pixel, None where no plane is shown."""
        ...

    def px_at(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64] | None:
        """Return (…, 2) pixels x, y of (…, 3) display indices, None where no plane is shown."""
        ...


class NapariSurface:
    """The picture of napari's own canvas, by viewer, camera and CT layer as they are now."""

    changed = Signal()

    def __init__(self, viewer: napari.Viewer, layers: CaseLayers, canvas: QWidget) -> None:
        self.viewer, self.layers, self.widget = viewer, layers, canvas
        dims, camera = viewer.dims, viewer.scene.camera
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (dims.events.point, self._announce),
            (dims.events.order, self._announce),
            (dims.events.ndisplay, self._announce),
            (camera.events.zoom, self._announce),
            (camera.events.center, self._announce),
            (camera.events.orientation, self._announce),
            (viewer.canvas.events.size, self._announce),
            (layers.changed, self._announce),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)

    def close(self) -> None:
        """Let go of viewer and layers."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()

    def _announce(self) -> None:
        self.changed.emit()

    @property
    def plane(self) -> int:
        """Return the display axis that is not displayed."""
        return PLANES.index(self.layers.plane)

    @property
    def slice_index(self) -> int:
        """Return the display index of the slice that is shown."""
        return self.layers.current_slice(self.plane)

    def _layer(self) -> Any:
        """Return the CT's layer where it is drawn as a plane, else None."""
        layer, dims = self.layers.layer("CT"), self.viewer.dims
        if layer is None or self.layers.case is None or dims.ndisplay != 2:
            return None
        return layer if dims.ndim >= layer.ndim else None

    def index_at(self, x_px: float, y_px: float) -> npt.NDArray[np.float64] | None:
        """Return the display index under a pixel, as the CT's layer is drawn."""
        layer, world = self._layer(), canvas_to_world(self.viewer, (x_px, y_px))
        if layer is None or world is None:
            return None
        return np.asarray(layer.world_to_data(world), dtype=np.float64)

    def px_at(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64] | None:
        """Return the pixels at which display indices are drawn."""
        layer = self._layer()
        if layer is None:
            return None
        index = np.asarray(index_zyx, dtype=np.float64)
        origin, *ends = (np.array(layer.data_to_world(p)) for p in (np.zeros(3), *np.eye(3)))
        world = index.reshape(-1, 3) @ (np.array(ends) - origin) + origin
        dims, camera = self.viewer.dims, self.viewer.scene.camera
        row, column = (axis - (dims.ndim - 3) for axis in dims.displayed)
        vertical, horizontal = camera.orientation2d
        right = 1.0 if str(horizontal) == "right" else -1.0
        down = 1.0 if str(vertical) == "down" else -1.0
        height, width = self.viewer.canvas.size
        x = (world[:, column] - camera.center[-1]) * camera.zoom * right + width / 2
        y = (world[:, row] - camera.center[-2]) * camera.zoom * down + height / 2
        return np.stack([x, y], axis=-1).reshape(*index.shape[:-1], 2)
