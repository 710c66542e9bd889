"""ViewTools: what the pointer and the keys do in the picture: window, measuring, undo."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt

from napari_ctvqa.core.drawings import KINDS
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.measuring import PROBE_RADII_MM, next_radius_mm
from napari_ctvqa.core.session import WINDOW_REGION
from napari_ctvqa.core.undo import UndoStack
from napari_ctvqa.io.user_config import store_object, stored_object
from napari_ctvqa.widgets.measurements import Measurements
from napari_ctvqa.widgets.measuring import DrawTool
from napari_ctvqa.widgets.preset_editor import PresetEditor
from napari_ctvqa.widgets.shortcuts import Binding, keys_in_use
from napari_ctvqa.widgets.surface import NapariSurface
from napari_ctvqa.widgets.window_tools import WindowDrag, WindowRegion
from napari_ctvqa.widgets.windowing import Windowing

if TYPE_CHECKING:
    from collections.abc import Callable

    import napari
    import numpy.typing as npt
    from qtpy.QtWidgets import QWidget

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.core.windows import Preset
    from napari_ctvqa.widgets.layers import CaseLayers
    from napari_ctvqa.widgets.shortcuts import Shortcuts
    from napari_ctvqa.widgets.surface import Surface

logger = logging.getLogger(__name__)

_WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_WINDOW_WAYS = {"wider": (1, 0), "narrower": (-1, 0), "higher": (0, 1), "lower": (0, -1)}
_STEPS_VOXELS = {"": 1, "_far": 10}
_PRESET_KEYS = "presets"
_PROBE_FILE = "probe.json"


class ViewTools:
    """The tools of one window, on napari's canvas and on every surface that is added.

    Parameters
    ----------
    viewer, layers, canvas
        The picture of the viewer, as its first surface.
    session
        Its ``tool`` is set here, its wishes about window and tool are fulfilled here.
    """

    def __init__(
        self, viewer: napari.Viewer, layers: CaseLayers, canvas: QWidget, session: Session
    ) -> None:
        self.session, self.layers, self._canvas = session, layers, canvas
        self.undo_stack = UndoStack()
        self.windowing = Windowing(session, layers, self.undo_stack)
        self._tools: dict[int, list[Any]] = {}
        self._surfaces: list[Surface] = []
        self.measurements = Measurements(session, layers, self.undo_stack, self._shows)
        self._shortcuts: Shortcuts | None = None
        self._napari = NapariSurface(viewer, layers, canvas)
        self.add_surface(self._napari)
        radius_mm = stored_object(_PROBE_FILE).get("radius_mm")
        if isinstance(radius_mm, (int, float)) and radius_mm in PROBE_RADII_MM:
            session.update(probe_radius_mm=float(radius_mm))
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (session.wishes.tool, self.take_tool),
            (session.wishes.preset, self.windowing.choose_preset),
            (session.wishes.probe_radius, self.set_probe_radius),
            (session.tool_changed, self._show_tool),
            (self.windowing.presets_changed, self._bind_presets),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)

    def close(self) -> None:
        """Let go of session, layers and canvases."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        for surface in tuple(self._surfaces):
            self.remove_surface(surface)
        self.measurements.close()
        self.windowing.close()
        self._napari.close()

    def add_surface(self, surface: Surface) -> None:
        """Let the tools work on another canvas, too."""
        self._surfaces.append(surface)
        self._tools[id(surface)] = [
            WindowDrag(surface, self.windowing),
            WindowRegion(surface, self.windowing, self.session),
            DrawTool(surface, self.session, self.measurements, self._take_rectangle),
        ]

    def remove_surface(self, surface: Surface) -> None:
        """Take the tools off a canvas that goes."""
        self._surfaces = [other for other in self._surfaces if other is not surface]
        for tool in self._tools.pop(id(surface), []):
            tool.close()

    def _take_rectangle(
        self, plane: int, slice_index: int, first: npt.ArrayLike, last: npt.ArrayLike
    ) -> None:
        """Take the window from a rectangle that was drawn by keys, and put the tool down."""
        self.session.update(tool="")
        self.windowing.choose_region_or_say(plane, slice_index, first, last)

    def _shows(self, plane: int) -> bool:
        """Return whether a picture that is seen shows this plane."""
        return any(s.plane == plane and s.widget.isVisible() for s in self._surfaces)

    def _draw_tools(self) -> list[DrawTool]:
        tools = [tool for tools in self._tools.values() for tool in tools]
        return [tool for tool in tools if isinstance(tool, DrawTool)]

    def _draw_tool(self) -> DrawTool:
        """Return the tool that keys work on: where the chosen one is shown, or the pointer was."""
        tools = [tool for tool in self._draw_tools() if tool.surface.widget.isVisible()]
        tools = tools or self._draw_tools()
        showing = [tool for tool in tools if tool.shows_chosen() and not self.session.tool]
        return max(showing or tools, key=lambda tool: tool.seen)

    def leave(self) -> None:
        """Drop what is being drawn; else put the tool down; else choose no measurement."""
        dropped = [tool.cancel() for tool in self._draw_tools()]
        if any(dropped):
            return
        if self.session.tool:
            self.session.update(tool="")
        else:
            self.measurements.choose("")

    def take_tool(self, name: str) -> None:
        """Take a tool; the one that is in the hand already is put down."""
        self.session.update(tool="" if name == self.session.tool else name)

    def _show_tool(self) -> None:
        """Let the pointer say that dragging draws."""
        for surface in self._surfaces:
            if self.session.tool:
                surface.widget.setCursor(Qt.CursorShape.CrossCursor)
            else:
                surface.widget.unsetCursor()

    # ------------------------------------------------------------------- keys

    def actions(self) -> dict[str, Callable[[], None]]:
        """Return what the keys of ``resources/keys.json`` do here."""
        take = self.session.wishes.tool.emit
        return {
            "undo": self.undo,
            "redo": self.redo,
            "leave_tool": self.leave,
            **{f"measure_{kind.value}": partial(take, kind.value) for kind in KINDS},
            "measure_place": lambda: self._draw_tool().place(),
            "measure_next_point": lambda: self._draw_tool().pick_next(),
            **{
                f"measure_{name}{far}": partial(self._nudge, *way, voxels)
                for name, way in _WAYS.items()
                for far, voxels in _STEPS_VOXELS.items()
            },
            "next_measurement": partial(self.measurements.step, 1),
            "previous_measurement": partial(self.measurements.step, -1),
            "delete_measurement": self.measurements.delete,
            "window_reset": self.windowing.back_to_preset,
            **{
                f"window_{name}": partial(self.windowing.nudge, *way)
                for name, way in _WINDOW_WAYS.items()
            },
            "window_region": partial(take, WINDOW_REGION),
            "window_per_case": self._toggle_per_case,
            "edit_presets": self.edit_presets,
            "probe_larger": partial(self._step_probe_radius, 1),
            "probe_smaller": partial(self._step_probe_radius, -1),
        }

    def _nudge(self, right: int, down: int, voxels: int) -> None:
        self._draw_tool().nudge(right, down, voxels)

    def bind(self, shortcuts: Shortcuts) -> None:
        """Give the presets' keys to the window, now and whenever the table changes."""
        self._shortcuts = shortcuts
        self._bind_presets()

    def _bind_presets(self) -> None:
        if self._shortcuts is None:
            return
        wish = self.session.wishes.preset.emit
        self._shortcuts.replace(
            _PRESET_KEYS, {p.key: partial(wish, p.name) for p in self._keyed_presets()}
        )
        taken = keys_in_use()
        lost = [
            f"{p.key} ({p.name})" for p in self.layers.presets.presets if p.key.upper() in taken
        ]
        if lost:
            self.session.update(
                problem=CtvqaError(
                    f"Keys of window presets are taken by other actions: {', '.join(lost)}.",
                    hint="Give these presets other keys, in Window ▸ Edit presets.",
                )
            )

    def _keyed_presets(self) -> list[Preset]:
        """Return the presets whose key no action has: two on one key would both do nothing."""
        taken = keys_in_use()
        presets = self.layers.presets.presets
        return [p for p in presets if p.key and p.key.upper() not in taken]

    def preset_bindings(self) -> tuple[Binding, ...]:
        """Return the presets' keys, for the list of keys."""
        return tuple(
            Binding("preset", (p.key,), f"Window {p.name}: W {p.width:g} L {p.level:g}")
            for p in self._keyed_presets()
        )

    def undo(self) -> None:
        """Take the last step back."""
        self._step(self.undo_stack.undo)

    def redo(self) -> None:
        """Do again what was taken back last."""
        self._step(self.undo_stack.redo)

    def _step(self, step: Callable[[], str]) -> None:
        try:
            step()
        except CtvqaError as error:
            self.session.update(problem=error)

    def _step_probe_radius(self, step: int) -> None:
        self.set_probe_radius(next_radius_mm(self.session.probe_radius_mm, step))

    def set_probe_radius(self, radius_mm: float) -> None:
        """Average HU under the pointer within another radius; remembered."""
        self.session.update(probe_radius_mm=radius_mm)
        try:
            store_object(_PROBE_FILE, {"radius_mm": radius_mm})
        except OSError as error:
            logger.warning("the radius is not remembered: %s", error)

    def _toggle_per_case(self) -> None:
        self.windowing.keep_per_case(not self.windowing.per_case)

    def edit_presets(self) -> None:
        """Open the table of presets."""
        taken = keys_in_use()
        presets = self.layers.presets.presets
        change = self.windowing.change_presets
        PresetEditor(presets, taken, change, self._canvas.window()).open()
