"""Planes: the planes beside napari's picture, linked with it at one place of the patient."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject, QTimer

from napari_ctvqa.core.colours import plane_colour
from napari_ctvqa.core.plane_pictures import row_and_column_axis
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object
from napari_ctvqa.widgets.main_plane import CrossSheet, MainPointer
from napari_ctvqa.widgets.plane_canvas import PlaneCanvas
from napari_ctvqa.widgets.planes_area import Layout, PlanesArea
from napari_ctvqa.widgets.surface import NapariSurface
from napari_ctvqa.widgets.volume_view import VolumeView

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari
    from qtpy.QtWidgets import QMainWindow, QWidget

    from napari_ctvqa.widgets.layers import CaseLayers

logger = logging.getLogger(__name__)

_SAGITTAL = 2
_SETTINGS = "view.json"
_IDLE_MS = 60
"""How long nothing must happen before the planes beside the main one follow what can wait."""


class Planes(QObject):
    """Keeps the two other planes and the 3-D view at the place, window and masks of the main one.

    The main plane is napari's; the others show what it does not. Another slice of a plane is
    drawn at once, a cross-hair that only moved and another window or mask when the reader rests.

    Parameters
    ----------
    viewer, layers
        Observed; the place and the plane are changed through ``layers``.
    canvas
        The Qt widget that napari draws its picture on.
    window
        Its middle becomes the ``area`` of all planes.
    """

    def __init__(
        self, viewer: napari.Viewer, layers: CaseLayers, canvas: QWidget, window: QMainWindow
    ) -> None:
        super().__init__(window)
        self.viewer, self.layers = viewer, layers
        self.beside = (PlaneCanvas(1), PlaneCanvas(2))
        self.area = PlanesArea(window, self.beside)
        self.surface = NapariSurface(viewer, layers, canvas)
        self.sheet = CrossSheet(self.surface, layers)
        self.pointer = MainPointer(viewer, layers, self.surface)
        self.volume: VolumeView | None = None
        stored = stored_object(_SETTINGS)
        self.nose_right = stored.get("nose_right") is True
        """Whether a sagittal plane has the nose to the right; left is the convention here."""
        self.cross_hair = stored.get("cross_hair") is not False
        self._layout_before = Layout.THREE
        self._scene_is_old = False
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(self.catch_up)
        dims, camera = viewer.dims, viewer.scene.camera
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (dims.events.point, self._on_place),
            (dims.events.order, self._on_plane),
            (dims.events.ndisplay, self._on_plane),
            (layers.changed, self._on_changed),
            (layers.window_changed, self._on_look),
            (layers.looks_changed, self._on_look),
            (self.pointer.enlarged, self._toggle_alone),
        ]
        for source in (self.pointer, *self.beside):
            self._connections += [(source.picked, self._pick), (source.stepped, self._step)]
        for plane in self.beside:
            self._connections.append((plane.enlarged, self._enlarge))
        for signal, slot in self._connections:
            signal.connect(slot)
        self._camera = camera
        self.sheet.show_cross(self.cross_hair)
        self._on_plane()

    def close(self) -> None:
        """Let go of viewer and layers."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        self._idle.stop()
        self.pointer.close()
        self.sheet.close_sheet()
        self.surface.close()
        if self.volume is not None:
            self.volume.close_view()

    # ------------------------------------------------------------------------ layout

    @property
    def layout_now(self) -> Layout:
        """Return which pictures are shown."""
        return self.area.layout_now

    def show_layout(self, layout: Layout) -> None:
        """Show one, three or four pictures, up to date."""
        if layout is Layout.FOUR and self.volume is None:
            self.volume = VolumeView(self.area)
        if layout is not Layout.ONE:
            self._layout_before = layout
        self.area.show_layout(layout, self.volume)
        self._on_plane()

    def fit(self) -> None:
        """Show every plane wholly."""
        self.layers.fit()
        for canvas in self.beside:
            canvas.fit()

    def _toggle_alone(self, axis: int) -> None:
        """Show the main plane alone, or the others beside it again."""
        alone = self.layout_now is Layout.ONE
        self.show_layout(self._layout_before if alone else Layout.ONE)

    def _enlarge(self, axis: int) -> None:
        self.layers.set_plane(PLANES[axis])

    # ---------------------------------------------------------------------- settings

    def toggle_cross_hair(self) -> None:
        """Hide the cross-hair in all planes, or show it again."""
        self.cross_hair = not self.cross_hair
        self._remember()
        self.sheet.show_cross(self.cross_hair)
        self._on_plane()

    def toggle_nose_side(self) -> None:
        """Let the nose point to the other side in sagittal planes, the main one included."""
        self.nose_right = not self.nose_right
        self._remember()
        self._on_plane()

    def _remember(self) -> None:
        stored = {**stored_object(_SETTINGS)}
        stored |= {"nose_right": self.nose_right, "cross_hair": self.cross_hair}
        try:
            store_object(_SETTINGS, stored)
        except OSError as error:
            logger.warning("the view cannot be remembered in %s: %s", config_folder(), error)

    # ----------------------------------------------------------------------- drawing

    @property
    def shown(self) -> tuple[PlaneCanvas, ...]:
        """Return the planes beside the main one that are shown."""
        return () if self.layout_now is Layout.ONE else self.beside

    def _on_plane(self) -> None:
        """Show beside the main plane what it does not; everything is drawn at once."""
        flat, main = self.viewer.dims.ndisplay == 2, PLANES.index(self.layers.plane)
        self.area.frame_main(plane_colour(PLANES[main]) if flat else None)
        if flat:
            mirrored = main == _SAGITTAL and self.nose_right
            orientation = ("down", "left" if mirrored else "right")
            if tuple(str(part) for part in self._camera.orientation2d) != orientation:
                self._camera.orientation2d = orientation
        others = [axis for axis in range(3) if axis != main]
        for canvas, axis in zip(self.beside, others, strict=True):
            canvas.cross_hair = self.cross_hair
            canvas.show_plane(axis, mirrored=axis == _SAGITTAL and self.nose_right)
        self._scene_is_old = True
        self.catch_up()

    def _on_changed(self) -> None:
        """Follow a change of the case at once, of its masks when there is time."""
        here = self.layers.grid
        self._scene_is_old = True
        if any(c.scene is None or c.scene.grid is not here for c in self.shown):
            self.catch_up()  # nothing of the former case stays on screen
        else:
            self._idle.start()

    def _on_look(self) -> None:
        self._scene_is_old = True
        self._idle.start()

    def _on_place(self) -> None:
        index = self.layers.place.index_zyx
        moved = [canvas.show_place(index) for canvas in self.shown]
        if not all(moved):
            self._idle.start()

    def catch_up(self) -> None:
        """Bring the other planes up to date now."""
        self._idle.stop()
        old, self._scene_is_old = self._scene_is_old, False
        case = self.layers.case
        trusted = case is not None and case.report.side_trusted
        index = self.layers.place.index_zyx
        scene = self.layers.scene() if case is not None and self.shown else None
        for canvas in self.beside:
            canvas.trusted = trusted
            canvas.case_code = "" if case is None else case.case_id
            canvas.presets = self.layers.presets.presets
            canvas.show_place(index)
            if old or scene is None or canvas.scene is None:
                canvas.show_scene(scene)
            else:
                canvas.update()
        if self.volume is not None and self.layout_now is Layout.FOUR:
            self.volume.show_volume(None if case is None else case.volume, trusted=trusted)

    # ------------------------------------------------------------------------- place

    def _pick(self, axis: int, row: float, column: float) -> None:
        index = list(self.layers.place.index_zyx)
        row_axis, column_axis = row_and_column_axis(axis)
        index[row_axis], index[column_axis] = round(row), round(column)
        self.layers.move_to((index[0], index[1], index[2]))

    def _step(self, axis: int, count: int) -> None:
        self.layers.go_to(axis, self.layers.current_slice(axis) + count)
