"""Windowing: which HU are shown black and white, and what the reader's choices about it are.

The CT layer's contrast limits are the one truth: whoever changes them, napari's own slider too,
changes the window that is shown and kept.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.undo import UndoStep
from napari_ctvqa.core.windows import (
    dragged,
    preset_table,
    region_window,
    user_changes,
    width_level,
)
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object
from napari_ctvqa.widgets.layer_stack import CT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.core.undo import UndoStack
    from napari_ctvqa.core.windows import Preset
    from napari_ctvqa.widgets.layers import CaseLayers

NUDGE_PX = 10
"""One press of a key changes the window as a drag of so many pixels."""
PRESETS_FILE, SETTINGS_FILE = "window_presets.json", "window.json"
Window = tuple[float, float]
"""Width and level in HU."""


class Windowing:
    """Sets the window of the CT layer; keeps it per case or across cases.

    Parameters
    ----------
    session
        Observed: a new case may have its own window. Its problem is set when a choice cannot be
        kept.
    layers
        Whose CT layer and presets these are.
    undo
        Where a changed window becomes one step that can be taken back.
    """

    changed = Signal()
    """Another window, by whomever."""
    presets_changed = Signal()
    per_case_changed = Signal()

    def __init__(self, session: Session, layers: CaseLayers, undo: UndoStack) -> None:
        self.session, self.layers, self._undo = session, layers, undo
        self.per_case = stored_object(SETTINGS_FILE).get("per_case") is True
        """Whether each case has a window of its own; else one stays across cases."""
        self._windows: dict[tuple[str, Path], tuple[Window, str]] = {}
        self._key: tuple[str, Path] | None = None
        self._watched: Any = None
        session.case_changed.connect(self._on_case)
        layers.changed.connect(self._watch)
        self._on_case()
        self._watch()

    def close(self) -> None:
        """Let go of the session."""
        self.session.case_changed.disconnect(self._on_case)
        self.layers.changed.disconnect(self._watch)
        if self._watched is not None:
            self._watched.events.contrast_limits.disconnect(self._announce)
            self._watched = None

    def _watch(self) -> None:
        """Listen to the CT's layer, which is made anew when the user deletes it."""
        layer = self.layers.layer(CT)
        if layer is self._watched:
            return
        if self._watched is not None:
            self._watched.events.contrast_limits.disconnect(self._announce)
        self._watched = layer
        if layer is not None:
            layer.events.contrast_limits.connect(self._announce)
        self._announce()

    def _announce(self) -> None:
        self.changed.emit()

    # ----------------------------------------------------------------- window

    @property
    def window(self) -> Window | None:
        """Return width and level in HU, None before the first CT."""
        layer = self.layers.layer(CT)
        return None if layer is None else width_level(*layer.contrast_limits)

    def show(self, width: float, level: float) -> None:
        """Show this window, without a step to take back: for what is still being dragged."""
        self.layers.stack.set_window(level - width / 2, level + width / 2)

    def choose(self, width: float, level: float, *, before: Window | None = None) -> None:
        """Show this window as one step, from ``before`` (now, unless given) to there."""
        start = before or self.window
        self.show(width, level)
        if start is None or start == (width, level):
            return
        after = (width, level)
        self._undo.push(UndoStep("window", partial(self.show, *start), partial(self.show, *after)))

    def choose_preset(self, name: str) -> None:
        """Show the window of that name as one step; an unknown name changes nothing."""
        before, preset_before = self.window, self.layers.preset_name
        self.layers.apply_preset(name)
        preset, now = self.layers.preset_name, self.window
        if before is None or now is None or before == now:
            return
        self._undo.push(
            UndoStep(
                "window",
                partial(self._show_preset, before, preset_before),
                partial(self._show_preset, now, preset),
            )
        )

    def _show_preset(self, window: Window, preset: str) -> None:
        self.layers.preset_name = preset
        self.show(*window)

    def back_to_preset(self) -> None:
        """Show the window of the preset that was chosen last."""
        self.choose_preset(self.layers.preset_name)

    def choose_region(
        self, plane: int, slice_index: int, first: npt.ArrayLike, last: npt.ArrayLike
    ) -> bool:
        """Take the window from a rectangle of a slice; return whether it holds a voxel.

        The rectangle is given by two display indices; a voxel counts when its centre lies in it.
        The slice as it is drawn is looked at (a sheared CT's resampled one), never a slab.
        """
        case = self.session.case
        if case is None:
            return False
        shown = np.take(case.volume.display_zyx, slice_index, axis=plane)
        corners = np.delete(np.array([first, last], dtype=np.float64), plane, axis=1)
        low = np.maximum(np.ceil(corners.min(axis=0)), 0).astype(int)
        high = np.maximum(np.floor(corners.max(axis=0)) + 1, 0).astype(int)
        found = region_window(shown[low[0] : high[0], low[1] : high[1]])
        if found is not None:
            self.choose(*(float(round(part)) for part in found))
        return found is not None

    def choose_region_or_say(
        self, plane: int, slice_index: int, first: npt.ArrayLike, last: npt.ArrayLike
    ) -> None:
        """Take the window from a rectangle; tell the reader where that holds no voxel."""
        if not self.choose_region(plane, slice_index, first, last):
            self.session.update(
                problem=CtvqaError(
                    "The rectangle holds no voxel, so the window stays as it is.",
                    hint="Draw it over the picture, at least one voxel wide.",
                )
            )

    def nudge(self, wider: int, higher: int) -> None:
        """Change width or level as a short drag does, for keys."""
        window = self.window
        if window is not None:
            self.choose(*dragged(*window, wider * NUDGE_PX, higher * NUDGE_PX))

    # ---------------------------------------------------------------- choices

    def keep_per_case(self, per_case: bool) -> None:
        """Give each case its own window from now on, or keep one across cases; remembered."""
        self.per_case = per_case
        self._keep(SETTINGS_FILE, {"per_case": per_case})
        self.per_case_changed.emit()

    def change_presets(self, table: Sequence[Preset]) -> None:
        """Use other presets from now on; the user's file is written first.

        Raises
        ------
        CtvqaError
            When it cannot be written: nothing is changed then.
        """
        try:
            store_object(PRESETS_FILE, user_changes(table))
        except OSError as error:
            raise CtvqaError(
                f"The presets cannot be written to {config_folder() / PRESETS_FILE}: "
                f"{error.strerror or error}.",
                hint="Check the folder's rights and its free space; the former presets are used.",
            ) from error
        self.layers.presets = preset_table(config_folder() / PRESETS_FILE)
        if self.layers.presets.named(self.layers.preset_name) is None:
            self.layers.preset_name = self.layers.presets.default.name
        self.presets_changed.emit()

    def _keep(self, name: str, value: dict[str, Any]) -> None:
        try:
            store_object(name, value)
        except OSError as error:
            self.session.update(
                problem=CtvqaError(
                    f"{config_folder() / name}: cannot be written ({error.strerror or error}).",
                    hint="The choice counts until the window is closed.",
                )
            )

    # ------------------------------------------------------------------- case

    def _on_case(self) -> None:
        case = self.session.case
        key = None if case is None else (case.case_id, case.volume.path)
        if key == self._key:
            return
        window = self.window
        if self._key is not None and window is not None:
            self._windows[self._key] = (window, self.layers.preset_name)
        self._key = key
        if key is not None and self.per_case:
            self._show_own(key)

    def _show_own(self, key: tuple[str, Path]) -> None:
        """Show a case's own window, the default preset's until it has one."""
        default = self.layers.presets.default
        own = self._windows.get(key, ((default.width, default.level), default.name))
        self._show_preset(*own)
