"""CaseLayers: the CT, its masks and the focused mask in the viewer.

The only module that adds, changes or removes napari layers. The layers are made once and reused:
a new case swaps their data, so memory stays flat. The viewer's world is millimetres along the
display axes (Inferior, Posterior, Left) from the first voxel's centre; which patient position
that is, the Grid knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from napari.layers import Image, Labels
from napari.utils.colormaps import DirectLabelColormap

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import (
    case_colours,
    highlight_colour,
    highlight_look,
    lesion_look,
    look_of,
)
from napari_ctvqa.core.windows import DEFAULT_PRESET, SLIDER_RANGE_HU, preset_table
from napari_ctvqa.widgets.label_styles import StyledLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import napari
    import numpy.typing as npt

    from napari_ctvqa.core.cases import BoxZYX, Case, LabelMap, Mask, Volume
    from napari_ctvqa.core.colours import RGB, Look
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.session import Session

PLANES = ("axial", "coronal", "sagittal")
"""By the display axis (z, y, x) that is not displayed."""

_ORDERS = {"axial": (0, 1, 2), "coronal": (1, 0, 2), "sagittal": (2, 0, 1)}
_STACK = ("CT", "organs", "lesions", "focus")
"""Our layers from bottom to top."""
_GROUPS = ("organs", "lesions")
_STEPPED_BACK = 0.35
"""How much of their opacity the other masks keep while one stands out."""
_FIT_MARGIN = 0.02

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """Where a reader is: the plane, and the display index along z, y and x."""

    plane: str
    index_zyx: Index


class CaseLayers:
    """Shows ``session.case`` and ``session.focus`` in one napari viewer.

    Parameters
    ----------
    viewer
        The napari viewer. Layers of others in it are left alone.
    session
        Observed; never changed from here.
    preset_file
        The user's window presets, where there are any.
    """

    def __init__(
        self, viewer: napari.Viewer, session: Session, *, preset_file: Path | None = None
    ) -> None:
        self.viewer = viewer
        self.session = session
        self.presets = preset_table(preset_file)
        self.preset_name = DEFAULT_PRESET
        self.colours: Mapping[str, RGB] = {}
        """The colour of every structure of the case that is drawn."""
        self.focused: Mask | None = None
        """The mask that stands out, None while none does."""
        self._case: Case | None = None
        self._layers: dict[str, Any] = {}
        self._wanted: dict[str, bool] = {}
        self._opacity: dict[str, float] = {}
        self._overlays_shown = True
        self._places: dict[tuple[str, Path], Index] = {}
        self._before_focus: tuple[Place, object] | None = None
        self._fitted: tuple[float, ...] | None = None
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (session.case_changed, self._on_case_changed),
            (session.focus_changed, self._on_focus_changed),
            (viewer.layers.events.removed, self._on_layer_removed),
            (viewer.dims.events.order, self._on_order_changed),
            (viewer.canvas.events.size, self._on_canvas_resized),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self._on_case_changed()
        self._on_focus_changed()

    def close(self) -> None:
        """Let go of session and viewer; the layers stay in the viewer."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()

    def layer(self, name: str) -> Any:
        """Return our napari layer ``"CT"``, ``"organs"``, ``"lesions"`` or ``"focus"``, or None."""
        return self._layers.get(name)

    # ------------------------------------------------------------------ place

    @property
    def case(self) -> Case | None:
        """Return the case that is drawn."""
        return self._case

    @property
    def grid(self) -> Grid | None:
        """Return the grid of what is drawn, None without a case."""
        return None if self._case is None else self._case.volume.display_grid

    @property
    def plane(self) -> str:
        """Return ``"axial"``, ``"coronal"`` or ``"sagittal"``."""
        dims = self.viewer.dims
        return PLANES[dims.order[-3] - (dims.ndim - 3)] if dims.ndim > 2 else PLANES[0]

    @property
    def place(self) -> Place:
        """Return where the reader is."""
        return Place(self.plane, self._index_zyx())

    def current_slice(self, axis: int | None = None) -> int:
        """Return the display index along ``axis`` (0 z, 1 y, 2 x), the shown plane's by default."""
        return self._index_zyx()[PLANES.index(self.plane) if axis is None else axis]

    def go_to(self, axis: int, index: int) -> None:
        """Show display slice ``index`` along ``axis``; beyond the ends, the last one there is."""
        here = list(self._index_zyx())
        here[axis] = int(index)
        self._move_to((here[0], here[1], here[2]))

    def set_plane(self, name: str) -> None:
        """Show the axial, coronal or sagittal plane. Raises ValueError for another name."""
        if name not in _ORDERS:
            raise ValueError(f"no plane {name!r}: one of {', '.join(PLANES)}")
        dims = self.viewer.dims
        before = max(dims.ndim - 3, 0)
        order = (*range(before), *(axis + before for axis in _ORDERS[name]))
        dims.ndisplay = 2
        if dims.ndim > 2 and dims.order != order:
            dims.order = order  # which fits the picture
        else:
            self.fit()

    def fit(self) -> None:
        """Show the whole picture, as large as the canvas allows."""
        self.viewer.fit_to_view(margin=_FIT_MARGIN)
        self._fitted = self._camera_state()

    def _index_zyx(self) -> Index:
        grid, point = self.grid, self.viewer.dims.point[-3:]
        if grid is None or len(point) < 3:
            return (0, 0, 0)
        index = [
            min(max(round(mm / spacing), 0), size - 1)
            for mm, spacing, size in zip(point, grid.spacing_mm_zyx, grid.shape_zyx, strict=True)
        ]
        return index[0], index[1], index[2]

    def _move_to(self, index_zyx: Index) -> None:
        grid, dims = self.grid, self.viewer.dims
        if grid is None or dims.ndim < 3:
            return
        point_mm = [
            min(max(index, 0), size - 1) * spacing
            for index, size, spacing in zip(
                index_zyx, grid.shape_zyx, grid.spacing_mm_zyx, strict=True
            )
        ]
        dims.set_point(range(dims.ndim - 3, dims.ndim), point_mm)

    def _camera_state(self) -> tuple[float, ...]:
        camera = self.viewer.scene.camera
        return (*camera.center, camera.zoom, *camera.angles)

    def _on_order_changed(self) -> None:
        if self._case is not None:
            self.fit()

    def _on_canvas_resized(self) -> None:
        # Whoever zoomed or moved the picture keeps what they see; a fitted one stays fitted.
        if self._fitted is not None and np.allclose(self._fitted, self._camera_state()):
            self.fit()

    # ----------------------------------------------------------------- window

    def apply_preset(self, name: str) -> None:
        """Show the window of that name; an unknown name changes nothing."""
        preset = self.presets.named(name)
        if preset is None:
            return
        self.preset_name = preset.name
        layer = self._layers.get("CT")
        if layer is not None:
            layer.contrast_limits = (preset.lo, preset.hi)
            # napari narrows the slider to the limits; no wider window could be drawn from there.
            low, high = SLIDER_RANGE_HU
            layer.contrast_limits_range = (min(preset.lo, low), max(preset.hi, high))

    # --------------------------------------------------------------- overlays

    @property
    def overlays_shown(self) -> bool:
        """Return whether masks are drawn (one key hides them all)."""
        return self._overlays_shown

    def toggle_overlays(self) -> None:
        """Hide all masks, or show them again."""
        self._overlays_shown = not self._overlays_shown
        self._wanted.clear()
        self._show_and_hide()

    def highlight(self, mask: Mask | None) -> None:
        """Make one mask stand out and let the others step back; None undoes it.

        An empty mask has nothing to draw: then the others stay as they were.
        """
        self.focused = None if mask is None or mask.region.empty else mask
        if self.focused is not None:
            region = self.focused.region
            assert region.box_zyx is not None and region.crop_zyx is not None
            self._draw_labels(
                "focus",
                region.crop_zyx,
                region.box_zyx,
                {1: (self.focused.structure, highlight_colour())},
                highlight_look(),
            )
            self._wanted.pop("focus", None)
        self._step_back_or_forth()
        self._show_and_hide()

    def _step_back_or_forth(self) -> None:
        """Dim the other masks, and cut the focused one out of them, while one stands out."""
        hole = None if self.focused is None else self.focused.region
        for name in _GROUPS:
            layer = self._layers.get(name)
            if layer is None:
                continue
            if hole is not None and name not in self._opacity:
                self._opacity[name] = layer.opacity
                layer.opacity *= _STEPPED_BACK
            elif hole is None and name in self._opacity:
                layer.opacity = self._opacity.pop(name)
            if isinstance(layer.data, StyledLabels) and layer.data.hole is not hole:
                layer.data.hole = hole
                layer.refresh()

    def _show_and_hide(self) -> None:
        """Set visibility where our wish changed; what the user switched otherwise stays so."""
        maps = {} if self._case is None else self._case.label_maps
        wanted = {"CT": self._case is not None}
        for name in _GROUPS:
            wanted[name] = self._overlays_shown and name in maps and bool(maps[name].structures)
        wanted["focus"] = self._overlays_shown and self.focused is not None
        for name, layer in self._layers.items():
            if self._wanted.get(name) is not wanted[name]:
                layer.visible = wanted[name]
        self._wanted = wanted

    # ------------------------------------------------------------------- case

    def _on_case_changed(self) -> None:
        case, before = self.session.case, self._case
        if case is before:
            return
        same_volume = before is not None and case is not None and case.volume is before.volume
        if before is not None and not same_volume:
            self._places[before.case_id, before.volume.path] = self._index_zyx()
            self._before_focus = None
            self.highlight(None)
            for name in self._layers:
                self._empty(name)
        self._case = case
        if case is not None:
            if not same_volume:
                self._draw_volume(case.volume)
            self._draw_maps(case, before if same_volume else None)
        self._show_and_hide()
        if case is not None and not same_volume:
            deep, high, wide = case.volume.display_grid.shape_zyx
            middle = (deep // 2, high // 2, wide // 2)
            self._move_to(self._places.get((case.case_id, case.volume.path), middle))
            self.fit()
        self._on_focus_changed()

    def _draw_volume(self, volume: Volume) -> None:
        scale = volume.display_grid.spacing_mm_zyx
        layer = self._layers.get("CT")
        if layer is None:
            preset = self.presets.named(self.preset_name)
            assert preset is not None
            layer = Image(
                volume.display_zyx,
                name="CT",
                rgb=False,  # a volume three voxels wide is not a colour picture
                multiscale=False,
                contrast_limits=(preset.lo, preset.hi),
                scale=scale,
                units=("mm", "mm", "mm"),
                axis_labels=("z", "y", "x"),
            )
            self._add("CT", layer)
            self.apply_preset(self.preset_name)
        else:
            self._swap(layer, volume.display_zyx, scale, (0.0, 0.0, 0.0))

    def _draw_maps(self, case: Case, before: Case | None) -> None:
        old = {} if before is None else before.label_maps
        names = {group: set(m.structures.values()) for group, m in case.label_maps.items()}
        self.colours = case_colours(names.get("organs", ()), names.get("lesions", ()))
        for group in _GROUPS:
            label_map = case.label_maps.get(group)
            if label_map is None or not label_map.structures:
                self._empty(group)
            elif label_map is not old.get(group) or group not in self._layers:
                table = {v: (name, self.colours[name]) for v, name in label_map.structures.items()}
                look = lesion_look() if group == "lesions" else look_of(Source.REFERENCE)
                box = _box_of(label_map, case)
                self._draw_labels(group, label_map.array_zyx[box], box, table, look)

    def _draw_labels(
        self,
        name: str,
        labels: npt.NDArray[Any],
        box: BoxZYX,
        table: Mapping[int, tuple[str, RGB]],
        look: Look,
    ) -> None:
        """Draw a label array that fills ``box`` of the display grid; ``table`` is by value."""
        grid = self.grid
        assert grid is not None
        scale = grid.spacing_mm_zyx
        corner = [part.start * mm for part, mm in zip(box, scale, strict=True)]
        data = StyledLabels(labels, max(table), look)
        if self.focused is not None and name != "focus":
            data.hole = self.focused.region
        data.corner = (box[0].start, box[1].start, box[2].start)
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
                scale=scale,
                translate=corner,
                units=("mm", "mm", "mm"),
                axis_labels=("z", "y", "x"),
            )
            self._add(name, layer)
        else:
            self._swap(layer, data, scale, corner, colormap)
        layer.features = _features(table, data.edge_offset)

    def _empty(self, name: str) -> None:
        """Leave nothing of the former case in a layer: neither memory nor a part in the extent."""
        layer = self._layers.get(name)
        if layer is None:
            return
        one_voxel = np.zeros((1, 1, 1), np.uint8)
        if name == "CT":
            self._swap(layer, one_voxel, layer.scale, layer.translate)
        else:
            nothing = StyledLabels(one_voxel, 1, look_of(Source.REFERENCE))
            self._swap(layer, nothing, layer.scale, (0.0, 0.0, 0.0))

    def _swap(self, layer: Any, data: Any, scale: Any, corner: Any, colormap: Any = None) -> None:
        """Give a layer other data; hidden meanwhile, so that it is sliced once, not five times."""
        shown = layer.visible
        layer.visible = False
        layer.data = data
        layer.scale = scale
        layer.translate = corner
        if colormap is not None:
            layer.colormap = colormap
        layer.editable = False  # napari makes a layer editable again with new data
        layer.visible = shown

    def _add(self, name: str, layer: Any) -> None:
        layer.editable = False
        layer.locked = True
        lower = [self._layers[n] for n in _STACK[: _STACK.index(name)] if n in self._layers]
        index = 1 + max((self.viewer.layers.index(other) for other in lower), default=-1)
        self.viewer.layers.insert(index, layer)
        self._layers[name] = layer

    def _on_layer_removed(self, event: Any) -> None:
        self._layers = {n: layer for n, layer in self._layers.items() if layer is not event.value}

    # ------------------------------------------------------------------ focus

    def _on_focus_changed(self) -> None:
        focus, case = self.session.focus, self._case
        if case is None:
            return
        mask = None if focus is None else case.masks.get(focus.structure)
        if mask is not self.focused:
            self.highlight(mask)
        if focus is None:
            self._return()
            return
        if self._before_focus is None:
            self._before_focus = (self.place, self.session.question)
        if self.plane != PLANES[0]:
            self.set_plane(PLANES[0])
        self.go_to(0, focus.display_slice)

    def _return(self) -> None:
        """Return to where the reader was before the first focus, unless for another question."""
        if self._before_focus is None:
            return
        (place, question), self._before_focus = self._before_focus, None
        if question is self.session.question:
            if self.plane != place.plane:
                self.set_plane(place.plane)
            self._move_to(place.index_zyx)


def _box_of(label_map: LabelMap, case: Case) -> BoxZYX:
    """Return the box around all masks of a label map: only what holds something is drawn."""
    whole = tuple(slice(0, size) for size in label_map.array_zyx.shape)
    boxes = []
    for structure in label_map.structures.values():
        mask = case.masks.get(structure)
        if mask is None:
            return whole[0], whole[1], whole[2]
        if mask.region.box_zyx is not None:
            boxes.append(mask.region.box_zyx)
    if not boxes:
        return slice(0, 1), slice(0, 1), slice(0, 1)
    around = [
        slice(min(b[axis].start for b in boxes), max(b[axis].stop for b in boxes))
        for axis in range(3)
    ]
    return around[0], around[1], around[2]


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
