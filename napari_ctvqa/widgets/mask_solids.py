"""MaskSolids: the masks in napari's own 3-D, which draws no colour pictures but labels.

A layer a source, there only while napari shows 3-D: beside planes they would cost every slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.layers import Labels
from napari.utils.colormaps import DirectLabelColormap

if TYPE_CHECKING:
    from collections.abc import Iterable

    import napari

    from napari_ctvqa.core.label_styles import StyledLabels
    from napari_ctvqa.core.plane_pictures import Sheet


class MaskSolids:
    """Puts sheets above a layer as labels, read-only and locked, and takes them away again."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._layers: dict[str, tuple[StyledLabels, Any]] = {}

    def show(self, sheets: Iterable[Sheet], below: Any, opacity: float) -> None:
        """Show these sheets, from bottom to top, and no others.

        ``below`` is the layer that they lie above, placed as they are; ``opacity`` counts for all.
        """
        wanted = {sheet.name: sheet for sheet in sheets}
        active = self.viewer.layers.selection.active
        for name, (labels, layer) in [*self._layers.items()]:
            same = name in wanted and wanted[name].labels is labels
            if not same or layer not in self.viewer.layers:
                self._take_away(name)
        index = self.viewer.layers.index(below) if wanted else 0
        for above, sheet in enumerate(wanted.values(), start=1):
            if sheet.name not in self._layers:
                layer = _labels(sheet, below)
                self.viewer.layers.insert(index + above, layer)
                self._layers[sheet.name] = (sheet.labels, layer)
            layer = self._layers[sheet.name][1]
            if layer.opacity != sheet.opacity * opacity:
                layer.opacity = sheet.opacity * opacity
            layer.refresh()  # values are hidden in the labels that it has
        if active is not None and active in self.viewer.layers:
            self.viewer.layers.selection.active = active

    def clear(self) -> None:
        """Take all of them away."""
        for name in [*self._layers]:
            self._take_away(name)

    def _take_away(self, name: str) -> None:
        layer = self._layers.pop(name)[1]
        if layer in self.viewer.layers:
            self.viewer.layers.remove(layer)


def _labels(sheet: Sheet, below: Any) -> Any:
    data = sheet.labels
    layer = Labels(
        data,
        name=sheet.name,
        multiscale=False,
        colormap=_colormap(data),
        blending="translucent_no_depth",
        scale=below.scale,
        translate=[start * mm for start, mm in zip(data.corner, below.scale, strict=True)],
        units=below.units,
        axis_labels=below.axis_labels,
    )
    layer.editable = False
    layer.locked = True
    return layer


def _colormap(data: StyledLabels) -> DirectLabelColormap:
    colours: dict[int | None, Any] = {None: (0, 0, 0, 0), 0: (0, 0, 0, 0)}
    for value, (_, colour) in data.table.items():
        colours[value] = colour.rgba(data.look.fill_alpha)
        colours[value + data.edge_offset] = colour.rgba(data.look.outline_alpha)
    return DirectLabelColormap(color_dict=colours)
