"""LayerStack: our napari layers, made once, given other data with every case.

The only module that adds, changes or removes napari layers. What is drawn, and when, is for
``layers.py`` to say. The viewer's world is millimetres along the display axes (Inferior,
Posterior, Left) from the centre of the first voxel; which patient position that is, the Grid
knows.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from napari.layers import Image, Labels, Shapes
from napari.utils.colormaps import DirectLabelColormap
from psygnal import Signal

from napari_ctvqa.core.colours import Look
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.plane_pictures import PlaneScene, Sheet
from napari_ctvqa.core.windows import SLIDER_RANGE_HU

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import napari
    import numpy.typing as npt

    from napari_ctvqa.core.cases import BoxZYX, Region
    from napari_ctvqa.core.colours import RGB
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.plane_pictures import Slab

CT = "CT"
FOCUS = "focus"
ERRORS = "error map"
STACK = (CT, "organs", "lesions", "predicted", "tool", "reader", ERRORS, FOCUS)
"""Our layers from bottom to top."""

_STEPPED_BACK = 0.35
"""How much of their opacity the other masks keep while one stands out."""
_UNITS = ("mm", "mm", "mm")
_AXIS_LABELS = ("z from 0", "y from 0", "x from 0")
"""Beside napari's own sliders, which count from 0 what we count from 1."""
FRAME = "what the model saw"
FRAME_COLOUR = "#56B4E9"
_FRAME_WIDTH_VOXELS = 1.5
_NO_LOOK = Look("none", 0.0, "plain", 0.0)
_ORIGIN = (0.0, 0.0, 0.0)

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
    """Draws arrays in napari layers of ours; layers of others in the viewer are left alone.

    Every layer of ours is read-only, in pan and zoom mode, and locked against deletion. A user
    who deletes one all the same gets it back with the next thing drawn in it.
    """

    window_changed = Signal()
    """The CT is drawn in another window, whoever chose it."""
    looks_changed = Signal()
    """A layer was shown, hidden, or given another opacity, by us or by hand."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._layers: dict[str, Any] = {}
        self._visible: dict[str, bool] = {}
        self._opacity: dict[str, float] = {}
        self._hole: Region | None = None
        self._frame: Any = None
        self._sheets: dict[str, Sheet] = {}
        self._spacing_mm: Spacing = (1.0, 1.0, 1.0)
        viewer.layers.events.removed.connect(self._on_removed)

    def close(self) -> None:
        """Let go of the viewer; the layers stay in it."""
        self.viewer.layers.events.removed.disconnect(self._on_removed)
        for name in [*self._layers]:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        events = self._layers.pop(name).events
        for event in (events.visible, events.opacity):
            event.disconnect(self._on_look_changed)
        if name == CT:
            events.contrast_limits.disconnect(self._on_window_changed)

    def get(self, name: str) -> Any:
        """Return our layer of that name in ``STACK``, whatever the user calls it now, or None."""
        return self._layers.get(name)

    # ---------------------------------------------------------------- drawing

    @_uncollected()
    def draw_image(
        self, array_zyx: npt.NDArray[Any], spacing_mm_zyx: Spacing, window: tuple[float, float]
    ) -> None:
        """Draw a CT; ``window`` (lo, hi) counts for a new layer, else the window stays."""
        self._spacing_mm = spacing_mm_zyx
        layer = self._layers.get(CT)
        if layer is not None:
            self._swap(layer, array_zyx, spacing_mm_zyx, _ORIGIN)
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

    @_uncollected()
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
        corner_mm = tuple(
            start * mm for start, mm in zip(data.corner, self._spacing_mm, strict=True)
        )
        colormap = _colormap(table, look, data.edge_offset)
        layer = self._layers.get(name)
        if layer is None:
            layer = Labels(
                data,
                name=name,
                multiscale=False,
                colormap=colormap,
                opacity=1.0,
                blending="translucent_no_depth",
                scale=self._spacing_mm,
                translate=corner_mm,
                units=_UNITS,
                axis_labels=_AXIS_LABELS,
            )
            if self._hole is not None and name != FOCUS:
                self._opacity[name] = 1.0
                layer.opacity = _STEPPED_BACK
            self._add(name, layer)
        else:
            self._swap(layer, data, self._spacing_mm, corner_mm, colormap)
        layer.features = _features(table, data.edge_offset)

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
        """Leave these values of a layer undrawn, and no others."""
        layer = self._layers.get(name)
        data = None if layer is None else layer.data
        if layer is not None and isinstance(data, StyledLabels) and data.hidden != hidden:
            data.hidden = hidden
            layer.refresh()
            self.looks_changed.emit()

    def empty(self, name: str) -> None:
        """Leave nothing of the former case in a layer: neither memory, extent nor spacing.

        napari's sliders step by the finest spacing of all layers, hidden ones too.
        """
        layer = self._layers.get(name)
        if layer is None:
            return
        data = layer.data
        if data.size > 1:
            one_voxel = np.zeros((1, 1, 1), np.uint8)
            data = one_voxel if name == CT else StyledLabels(one_voxel, {}, _NO_LOOK)
        elif np.array_equal(layer.scale, self._spacing_mm):
            return
        self._swap(layer, data, self._spacing_mm, _ORIGIN)

    def empty_all(self, *, keep: Collection[str] = ()) -> None:
        """Leave nothing of the former case in any layer but those to ``keep``."""
        for name in self._layers:
            if name not in keep:
                self.empty(name)

    def drawn(self, name: str) -> StyledLabels | None:
        """Return the labels that a layer shows, None where it shows none."""
        layer = self._layers.get(name)
        if layer is None or not layer.visible or not isinstance(layer.data, StyledLabels):
            return None
        return layer.data

    def scene(self, grid: Grid) -> PlaneScene | None:
        """Return what a plane of the CT's ``grid`` shows now; None while the CT is not shown."""
        ct = self._layers.get(CT)
        if ct is None or not ct.visible:
            return None
        sheets = [self._sheet(name) for name in STACK[1:]]
        lo, hi = ct.contrast_limits
        return PlaneScene(ct.data, grid, (lo, hi), tuple(s for s in sheets if s is not None))

    def _sheet(self, name: str) -> Sheet | None:
        labels = self.drawn(name)
        if labels is None:
            self._sheets.pop(name, None)
            return None
        opacity = float(self._layers[name].opacity)
        kept = self._sheets.get(name)
        if kept is None or kept.labels is not labels or kept.opacity != opacity:
            kept = self._sheets[name] = Sheet(name, labels, opacity)
        return kept

    # ------------------------------------------------------------- appearance

    def step_back(self, hole: Region | None) -> None:
        """Dim all masks but the focused one and leave ``hole`` out of them; None undoes it."""
        self._hole = hole
        for name, layer in self._layers.items():
            if name in (CT, FOCUS):
                continue
            if hole is not None and name not in self._opacity:
                self._opacity[name] = layer.opacity
                layer.opacity *= _STEPPED_BACK
            elif hole is None and name in self._opacity:
                layer.opacity = self._opacity.pop(name)
            if isinstance(layer.data, StyledLabels) and layer.data.hole is not hole:
                layer.data.hole = hole
                layer.refresh()

    def show_only(self, names: set[str], *, insist: frozenset[str] = frozenset()) -> None:
        """Show these layers and hide the rest of ours.

        Only what differs from the last call is touched, so that a layer which the user switched
        by hand stays as they left it; ``insist`` names layers that are set all the same.
        """
        for name, layer in self._layers.items():
            wanted = name in names
            if name in insist or self._visible.get(name) is not wanted:
                layer.visible = wanted
                self._visible[name] = wanted

    # ----------------------------------------------------------------- layers

    def _swap(
        self, layer: Any, data: Any, scale: Any, corner_mm: Any, colormap: Any = None
    ) -> None:
        """Give a layer other data and place; what stays the same is not set, to save a redraw."""
        for name in [n for n, sheet in self._sheets.items() if sheet.labels is layer.data]:
            del self._sheets[name]  # or it would keep the former case's masks in memory
        if not np.array_equal(layer.scale, scale):
            layer.scale = scale
        if not np.array_equal(layer.translate, corner_mm):
            layer.translate = corner_mm
        layer.data = data
        if not layer.visible:
            # napari lets a hidden layer keep the extent of its old data; placing it clears that.
            layer.scale = scale
        if colormap is not None:
            layer.colormap = colormap
        layer.editable = False  # napari makes a layer editable again with new data

    def _add(self, name: str, layer: Any) -> None:
        layer.editable = False
        layer.locked = True
        lower = [self._layers[n] for n in STACK[: STACK.index(name)] if n in self._layers]
        index = 1 + max((self.viewer.layers.index(other) for other in lower), default=-1)
        self.viewer.layers.insert(index, layer)
        self._layers[name] = layer
        self._visible.pop(name, None)
        for event in (layer.events.visible, layer.events.opacity):
            event.connect(self._on_look_changed)
        if name == CT:
            layer.events.contrast_limits.connect(self._on_window_changed)

    def _on_look_changed(self) -> None:
        self.looks_changed.emit()

    def _on_window_changed(self) -> None:
        self.window_changed.emit()

    def _on_removed(self, event: Any) -> None:
        for name in [n for n, layer in self._layers.items() if layer is event.value]:
            self._let_go(name)
            self._sheets.pop(name, None)
            self._opacity.pop(name, None)
        if self._frame is event.value:
            self._frame = None


def _colormap(
    table: Mapping[int, tuple[str, RGB]], look: Look, edge_offset: int
) -> DirectLabelColormap:
    colours: dict[int | None, Any] = {None: (0, 0, 0, 0), 0: (0, 0, 0, 0)}
    for value, (_, colour) in table.items():
        colours[value] = colour.rgba(look.fill_alpha)
        colours[value + edge_offset] = colour.rgba(look.outline_alpha)
    return DirectLabelColormap(color_dict=colours)


def _features(table: Mapping[int, tuple[str, RGB]], edge_offset: int) -> pd.DataFrame:
    """Return the names for napari's own status line, for fill and outline values."""
    rows = [(v + add, name) for v, (name, _) in table.items() for add in (0, edge_offset)]
    return pd.DataFrame(rows, columns=["index", "structure"])
