"""LayerStack: our napari layers, made once, given other data with every case.

With ``mask_solids.py`` the only module that adds, changes or removes napari layers. What is drawn,
and when, is for ``layers.py`` to say. The viewer's world is millimetres along the display axes
(Inferior, Posterior, Left) from the centre of the first voxel; which patient position that is, the
Grid knows.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image, Shapes
from psygnal import Signal

from napari_ctvqa.core.colours import Look
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.mask_planes import MaskPlanes, box_around
from napari_ctvqa.core.plane_pictures import PlaneScene
from napari_ctvqa.core.windows import SLIDER_RANGE_HU
from napari_ctvqa.widgets.mask_sheets import MaskSheet
from napari_ctvqa.widgets.mask_solids import MaskSolids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import napari
    import numpy.typing as npt

    from napari_ctvqa.core.cases import BoxZYX, Region
    from napari_ctvqa.core.colours import RGB
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.plane_pictures import Sheet, Slab

CT = "CT"
MASKS = "masks"
FOCUS = "focus"
ERRORS = "error map"
SHEETS = ("organs", "lesions", "predicted", "tool", "reader", ERRORS, FOCUS)
"""What the layer of masks draws, from bottom to top."""

_STEPPED_BACK = 0.35
"""How much of their opacity the other masks keep while one stands out."""
_UNITS = ("mm", "mm", "mm")
_AXIS_LABELS = ("z from 0", "y from 0", "x from 0")
"""Beside napari's own sliders, which count from 0 what we count from 1."""
FRAME = "what the model saw"
FRAME_COLOUR = "#56B4E9"
_FRAME_WIDTH_VOXELS = 1.5
_NO_LOOK = Look("none", 0.0, "plain", 0.0)
_ORIGIN = (0, 0, 0)

Spacing = tuple[float, float, float]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage: a new layer is many objects, none dropped, and a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class LayerStack:
    """Draws a CT and masks in two napari layers of ours; layers of others are left alone.

    All masks share one layer, as every further one costs a slice 5 ms: its eye and opacity in
    napari's layer list count for all of them, and each source has a ``MaskSheet`` besides. Every
    layer of ours is read-only, in pan and zoom mode, and locked against deletion. A user who
    deletes one all the same gets it back with the next thing drawn in it.
    """

    window_changed = Signal()
    """The CT is drawn in another window, whoever chose it."""
    looks_changed = Signal()
    """CT or masks were shown, hidden, or given another opacity, by us or by hand."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._layers: dict[str, Any] = {}
        self._sheets: dict[str, MaskSheet] = {}
        self._planes = MaskPlanes(_ORIGIN, (1, 1, 1))
        self._solids = MaskSolids(viewer)
        self._visible: dict[str, bool] = {}
        self._opacity: dict[str, float] = {}
        self._hole: Region | None = None
        self._frame: Any = None
        self._spacing_mm: Spacing = (1.0, 1.0, 1.0)
        self._waiting = 0
        """How many ``at_once`` are under way."""
        self._masks_are_old = self._looks_are_new = self._insisted = False
        viewer.layers.events.removed.connect(self._on_removed)
        # After napari has turned to 3-D itself.
        viewer.dims.events.ndisplay.connect(self._on_ndisplay, position="last")

    def close(self) -> None:
        """Let go of the viewer; the layers stay in it."""
        self.viewer.layers.events.removed.disconnect(self._on_removed)
        self.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._solids.clear()
        for name in [*self._layers]:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        events = self._layers.pop(name).events
        for event in (events.visible, events.opacity):
            event.disconnect(self._on_layer_look)
        if name == CT:
            events.contrast_limits.disconnect(self._on_window_changed)

    def get(self, name: str) -> Any:
        """Return the layer ``CT`` or ``MASKS`` or a sheet of ``SHEETS``; None before it is drawn.

        A layer is found whatever the user calls it now.
        """
        return self._layers.get(name) or self._sheets.get(name)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Draw the masks once, at the end, whatever is done to them in between."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._catch_up()

    # ---------------------------------------------------------------- drawing

    @_uncollected()
    def draw_image(
        self, array_zyx: npt.NDArray[Any], spacing_mm_zyx: Spacing, window: tuple[float, float]
    ) -> None:
        """Draw a CT; ``window`` (lo, hi) counts for a new layer, else the window stays."""
        self._spacing_mm = spacing_mm_zyx
        self._masks_are_old = True
        layer = self._layers.get(CT)
        if layer is not None:
            self._swap(layer, array_zyx, _ORIGIN)
            self._catch_up()
            return
        layer = Image(
            array_zyx,
            name=CT,
            rgb=False,  # a volume three voxels wide is not a colour picture
            multiscale=False,
            contrast_limits=window,
            scale=spacing_mm_zyx,
            units=_UNITS,
            axis_labels=_AXIS_LABELS,
            interpolation2d="linear",
        )
        self._add(CT, layer)
        self.set_window(*window)
        self._catch_up()

    def set_window(self, lo: float, hi: float) -> None:
        """Show HU from ``lo`` black to ``hi`` white; the slider's range only ever grows."""
        layer = self._layers.get(CT)
        if layer is not None:
            (low, high), (was_low, was_high) = SLIDER_RANGE_HU, layer.contrast_limits_range
            layer.contrast_limits = (lo, hi)
            # napari narrows the slider to the limits; no wider window could be drawn from there.
            layer.contrast_limits_range = (min(lo, low, was_low), max(hi, high, was_high))

    def set_slab(self, slab: Slab | None) -> None:
        """Draw several slices of the CT as one; masks stay those of the middle slice."""
        layer, dims = self._layers.get(CT), self.viewer.dims
        if layer is None or dims.ndim < 3:
            return
        halves = [0] * 3 if slab is None else [slab.half_of(mm) for mm in self._spacing_mm]
        margins = [half * mm for half, mm in zip(halves, self._spacing_mm, strict=True)]
        before = (0.0,) * (dims.ndim - 3)
        if slab is not None:
            layer.projection_mode = {"mip": "max", "mean": "mean", "minip": "min"}[slab.kind]
        for side in ("margin_left", "margin_right"):
            if not np.allclose(getattr(dims, side)[-3:], margins):
                setattr(dims, side, (*before, *margins))

    def draw_labels(
        self,
        name: str,
        labels: npt.NDArray[Any],
        box: BoxZYX,
        table: Mapping[int, tuple[str, RGB]],
        look: Look,
        *,
        covered: tuple[tuple[int, Region], ...] = (),
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        """Draw labels that fill ``box`` of the CT's grid; ``table``: value to name and colour.

        Only the box is drawn, which costs less than the whole grid and shows the same. ``covered``
        and ``hidden``: see StyledLabels.
        """
        data = StyledLabels(labels, table, look)
        data.covered, data.hidden = covered, hidden
        data.corner = (box[0].start, box[1].start, box[2].start)
        data.hole = None if name == FOCUS else self._hole
        sheet = self._sheets.get(name)
        if sheet is None:
            sheet = self._sheets[name] = MaskSheet(name, data)
            self._visible.pop(name, None)
            if self._hole is not None and name != FOCUS:
                self._opacity[name] = 1.0
                sheet.opacity = _STEPPED_BACK
            sheet.changed.connect(self._on_sheet_look)
        sheet.data = data
        self._draw_masks()

    def draw_frame(self, corners_zyx: npt.NDArray[np.float64] | None) -> None:
        """Draw the outline of a picture in the CT, (4, 3) display voxels; None takes it away."""
        if corners_zyx is None:
            if self._frame is not None:
                self._frame.visible = False
            return
        if self._frame is None:
            self._frame = Shapes(
                [corners_zyx],
                ndim=3,
                name=FRAME,
                shape_type="polygon",
                edge_color=FRAME_COLOUR,
                face_color="transparent",
                edge_width=_FRAME_WIDTH_VOXELS,
                scale=self._spacing_mm,
                units=_UNITS,
                axis_labels=_AXIS_LABELS,
            )
            self._frame.editable = False
            self._frame.locked = True
            self.viewer.layers.append(self._frame)
            return
        self._frame.scale = self._spacing_mm
        self._frame.data = [(corners_zyx, "polygon")]
        self._frame.edge_color = FRAME_COLOUR
        self._frame.face_color = "transparent"
        self._frame.edge_width = _FRAME_WIDTH_VOXELS
        self._frame.visible = True
        self._frame.editable = False

    @property
    def frame(self) -> Any:
        """Return the layer of the frame, None before the first one."""
        return self._frame

    def hide(self, name: str, hidden: frozenset[int]) -> None:
        """Leave these values of a sheet undrawn, and no others."""
        sheet = self._sheets.get(name)
        if sheet is not None and sheet.data.hidden != hidden:
            sheet.data.hidden = hidden
            self._draw_masks(looks=True)

    def empty(self, name: str) -> None:
        """Leave nothing of the former case in the CT's layer or a sheet: no memory, no extent.

        Nor its spacing: napari's sliders step by the finest spacing of all layers, hidden ones too.
        """
        if name in self._sheets:
            sheet = self._sheets[name]
            if not sheet.empty:
                sheet.data = StyledLabels(np.zeros((1, 1, 1), np.uint8), {}, _NO_LOOK)
                self._draw_masks()
        elif name in self._layers:
            layer = self._layers[name]
            if layer.data.size > 1:
                self._swap(layer, np.zeros((1, 1, 1), np.uint8), _ORIGIN)
            elif not np.array_equal(layer.scale, self._spacing_mm):
                self._swap(layer, layer.data, _ORIGIN)

    def empty_all(self, *, keep: Collection[str] = ()) -> None:
        """Leave nothing of the former case in CT and sheets but those to ``keep``."""
        with self.at_once():
            for name in (CT, *self._sheets):
                if name not in keep:
                    self.empty(name)

    def drawn(self, name: str) -> StyledLabels | None:
        """Return the labels that a sheet shows, None where it shows none."""
        sheet = self._sheets.get(name)
        if sheet is None or not sheet.visible or self._masks_hidden_by_hand:
            return None
        return sheet.data

    def scene(self, grid: Grid) -> PlaneScene | None:
        """Return what a plane of the CT's ``grid`` shows now; None while the CT is not shown."""
        ct, masks = self._layers.get(CT), self._layers.get(MASKS)
        if ct is None or not ct.visible:
            return None
        lo, hi = ct.contrast_limits
        sheets = () if self._masks_hidden_by_hand else self._shown()
        opacity = 1.0 if masks is None else float(masks.opacity)
        return PlaneScene(ct.data, grid, (lo, hi), sheets, opacity=opacity)

    # ------------------------------------------------------------------ masks

    @property
    def _masks_hidden_by_hand(self) -> bool:
        layer = self._layers.get(MASKS)
        return layer is not None and not layer.visible and self._visible.get(MASKS, False)

    def _ordered(self) -> list[MaskSheet]:
        """Return the sheets that hold something, from bottom to top."""
        found = [self._sheets[name] for name in SHEETS if name in self._sheets]
        return [sheet for sheet in found if not sheet.empty]

    def _shown(self) -> tuple[Sheet, ...]:
        return tuple(sheet.sheet() for sheet in self._ordered() if sheet.visible)

    def _draw_masks(self, *, looks: bool = False) -> None:
        """Draw the masks anew, later if more is to come; ``looks``: and say so."""
        self._masks_are_old = True
        self._looks_are_new |= looks
        self._catch_up()

    def _catch_up(self) -> None:
        if self._waiting:
            return
        if self._masks_are_old:
            self._masks_are_old = False
            self._place_masks()
        if self._looks_are_new:
            self._looks_are_new = False
            self.looks_changed.emit()

    @_uncollected()
    def _place_masks(self) -> None:
        """Show the sheets in the layer of masks, which fills the box around all that hold any.

        Those that are hidden count for the box, so that showing them is a look, not new data.
        """
        layer, shown = self._layers.get(MASKS), self._shown()
        if layer is None and not shown:
            return
        box = box_around(sheet.data for sheet in self._ordered()) or (_ORIGIN, (1, 1, 1))
        same_box = (self._planes.corner, self._planes.shape[:3]) == box
        if not same_box:
            self._planes = MaskPlanes(*box)
        self._planes.sheets = shown
        if layer is None:
            same_box, layer = False, self._new_masks()
        elif not same_box or not np.array_equal(layer.scale, self._spacing_mm):
            same_box = False
            self._swap(layer, self._planes, box[0])
        seen = layer.visible
        self._show_masks(layer, bool(shown))
        if same_box and seen and layer.visible:  # else napari has drawn it anew, or will
            layer.refresh(extent=False)
        self._show_solids()

    def _new_masks(self) -> Any:
        layer = Image(
            self._planes,
            rgb=True,
            name=MASKS,
            multiscale=False,
            blending="translucent_no_depth",
            interpolation2d="nearest",
            projection_mode="none",  # a slab's masks are those of its middle slice
            cache=False,
            scale=self._spacing_mm,
            translate=np.multiply(self._planes.corner, self._spacing_mm),
            units=_UNITS,
            axis_labels=_AXIS_LABELS,
        )
        self._add(MASKS, layer)
        return layer

    def _show_masks(self, layer: Any, wanted: bool) -> None:
        """Show the layer while it draws something, unless the user has hidden it by hand."""
        insisted, self._insisted = self._insisted and wanted, False
        if insisted or self._visible.get(MASKS) is not wanted:
            self._visible[MASKS] = wanted
            if layer.visible is not wanted:
                layer.visible = wanted

    def _show_solids(self) -> None:
        """Show in napari's 3-D what the layer of masks shows in its planes."""
        layer = self._layers.get(MASKS)
        if layer is None or self.viewer.dims.ndisplay == 2:
            self._solids.clear()
        else:
            self._solids.show(self._shown() if layer.visible else (), layer, layer.opacity)

    def _on_ndisplay(self) -> None:
        self._show_solids()

    # ------------------------------------------------------------- appearance

    def step_back(self, hole: Region | None) -> None:
        """Dim all masks but the focused one and leave ``hole`` out of them; None undoes it."""
        self._hole = hole
        with self.at_once():
            for name, sheet in self._sheets.items():
                if name == FOCUS:
                    continue
                if hole is not None and name not in self._opacity:
                    self._opacity[name] = sheet.opacity
                    sheet.opacity *= _STEPPED_BACK
                elif hole is None and name in self._opacity:
                    sheet.opacity = self._opacity.pop(name)
                if sheet.data.hole is not hole:
                    sheet.data.hole = hole
                    self._masks_are_old = True

    def show_only(self, names: set[str], *, insist: frozenset[str] = frozenset()) -> None:
        """Show the CT's layer and the sheets of these names and hide the rest of ours.

        Only what differs from the last call is touched, so that what the user switched by hand
        stays as they left it; ``insist`` names what is set all the same. A layer of masks that the
        user hid comes back when a sheet is shown that is insisted on.
        """
        with self.at_once():
            for name, shown in [(CT, self._layers.get(CT)), *self._sheets.items()]:
                wanted = name in names
                if shown is None or (name not in insist and self._visible.get(name) is wanted):
                    continue
                shown.visible = wanted
                self._visible[name] = wanted
            if insist & names:
                self._insisted = self._masks_are_old = True

    # ----------------------------------------------------------------- layers

    def _swap(self, layer: Any, data: Any, corner: tuple[int, int, int]) -> None:
        """Give a layer other data and place; what stays the same is not set, to save a redraw."""
        corner_mm = np.multiply(corner, self._spacing_mm)
        if not np.array_equal(layer.scale, self._spacing_mm):
            layer.scale = self._spacing_mm
        if not np.array_equal(layer.translate, corner_mm):
            layer.translate = corner_mm
        layer.data = data
        if not layer.visible:
            # napari lets a hidden layer keep the extent of its old data; placing it clears that.
            layer.scale = self._spacing_mm
        layer.editable = False  # napari makes a layer editable again with new data

    def _add(self, name: str, layer: Any) -> None:
        layer.editable = False
        layer.locked = True
        ct = self._layers.get(CT)
        index = 0 if ct is None or name == CT else self.viewer.layers.index(ct) + 1
        self.viewer.layers.insert(index, layer)
        self._layers[name] = layer
        self._visible.pop(name, None)
        for event in (layer.events.visible, layer.events.opacity):
            event.connect(self._on_layer_look)
        if name == CT:
            layer.events.contrast_limits.connect(self._on_window_changed)

    def _on_layer_look(self) -> None:
        self._looks_are_new = True
        self._show_solids()
        self._catch_up()

    def _on_sheet_look(self) -> None:
        self._draw_masks(looks=True)

    def _on_window_changed(self) -> None:
        self.window_changed.emit()

    def _on_removed(self, event: Any) -> None:
        for name in [n for n, layer in self._layers.items() if layer is event.value]:
            self._let_go(name)
            if name == MASKS:
                self._sheets.clear()
                self._opacity.clear()
                self._planes = MaskPlanes(_ORIGIN, (1, 1, 1))
        if self._frame is event.value:
            self._frame = None
