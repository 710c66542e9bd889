"""CaseLayers: the case of the session in the viewer: what is drawn, where the reader is."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal
from qtpy.QtCore import QTimer

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import (
    beside_colours,
    colours_of,
    highlight_colour,
    highlight_look,
    lesion_look,
    look_of,
)
from napari_ctvqa.core.error_maps import LOOK as ERROR_LOOK
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.names import label
from napari_ctvqa.core.overlay_state import Drawing, drawn_look
from napari_ctvqa.core.plane_pictures import Slab
from napari_ctvqa.core.regions import same_grid, shared_voxels
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.core.windows import preset_table
from napari_ctvqa.io.user_config import config_folder
from napari_ctvqa.widgets.layer_stack import CT, ERRORS, FOCUS, LayerStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import napari
    import numpy.typing as npt

    from napari_ctvqa.core.asking import Picture
    from napari_ctvqa.core.cases import BoxZYX, Case, LabelMap, Mask, Region, Volume
    from napari_ctvqa.core.colours import RGB, Look
    from napari_ctvqa.core.error_maps import ErrorMap
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.plane_pictures import PlaneScene, SlabKind
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.layer_stack import Spacing

_ORDERS = {"axial": (0, 1, 2), "coronal": (1, 0, 2), "sagittal": (2, 0, 1)}
_GROUPS = ("organs", "lesions")
_EXTRA = (Source.PREDICTED, Source.TOOL, Source.READER)
_FIT_MARGIN = 0.02
_SLABS: tuple[SlabKind | None, ...] = (None, "mip", "mean", "minip")
SLAB_MM = (10.0, 20.0, 40.0)
"""How thick a slab may be chosen to be; the first is the one to begin with."""

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """Where a reader is: the plane, and the display index along z, y and x."""

    plane: str
    index_zyx: Index


@dataclass(frozen=True)
class Drawn:
    """One structure that is drawn on the current slice: how large, in which colour and look."""

    structure: str
    colour: RGB
    voxels: int
    look: Look
    focused: bool = False
    first: bool = False
    """Stands first in the legend, whatever is asked about."""
    source: Source = Source.REFERENCE

    @property
    def words(self) -> str:
        """Return its name for a legend, with whose mask it is where it is not the reference's."""
        whose = "" if self.source is Source.REFERENCE else f" ({self.source})"
        return f"{label(self.structure)}{whose}"


@contextmanager
def _told_once(dims: Any) -> Iterator[None]:
    """Tell those who listen both to the point and to the step of a viewer's dims of its point only.

    napari looks at all layers for either, although one follows from the other: 2 of 43 ms a slice,
    measured with a CT and three layers of masks.
    """
    steps = dims.events.current_step
    twice = [
        c for c in steps.callbacks if isinstance(c, tuple) and c in dims.events.point.callbacks
    ]
    with ExitStack() as blocked:
        for reference, name in twice:
            listener = reference()
            if listener is not None:
                blocked.enter_context(steps.blocker(getattr(listener, name)))
        yield


class CaseLayers:
    """Shows ``session.case`` and ``session.focus`` in one napari viewer.

    Parameters
    ----------
    viewer
        The napari viewer. Layers of others in it are left alone.
    session
        Observed; never changed from here.
    preset_file
        The user's window presets; by default ``window_presets.json`` in the config folder.
    """

    changed = Signal()
    """Another case, other masks, another focus, or masks shown or hidden."""
    window_changed = Signal()
    """The CT is drawn in another window (a preset, a drag, napari's slider)."""
    looks_changed = Signal()
    """A layer was shown, hidden or given another opacity, also by hand."""

    def __init__(
        self, viewer: napari.Viewer, session: Session, *, preset_file: Path | None = None
    ) -> None:
        self.viewer = viewer
        self.session = session
        self.stack = LayerStack(viewer)
        self.presets = preset_table(preset_file or config_folder() / "window_presets.json")
        self.preset_name = self.presets.default.name
        self.colours: Mapping[str, RGB] = {}
        """The colour of every structure of the case that is drawn."""
        self.focused: Mask | None = None
        """The mask that stands out, None while none does."""
        self.overlays_shown = True
        """Whether masks are drawn (one key hides them all)."""
        self.slab: Slab | None = None
        """Several slices drawn as one, None for single slices."""
        self._slab_mm = SLAB_MM[0]
        self._case: Case | None = None
        self._extra: dict[Source, tuple[Mask, ...]] = {}
        self._places: dict[tuple[str, Path], Index] = {}
        self._before_focus: tuple[Place, object] | None = None
        self._fitted: tuple[float, ...] | None = None
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (session.case_changed, self._on_case_changed),
            (session.focus_changed, self._on_focus_changed),
            (session.masks_changed, self._on_masks_changed),
            (session.overlays_changed, self._on_overlays_changed),
            (viewer.dims.events.order, self._on_order_changed),
            (viewer.canvas.events.size, self._on_canvas_resized),
            (self.stack.window_changed, self.window_changed.emit),
            (self.stack.looks_changed, self.looks_changed.emit),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self._on_case_changed()

    def close(self) -> None:
        """Let go of session and viewer; the layers stay in the viewer."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()
        self.stack.close()

    def layer(self, name: str) -> Any:
        """Return what is drawn by that name, None before it is: see ``LayerStack.get``.

        ``"CT"`` and ``"masks"`` are napari layers, ``"organs"``, ``"lesions"``, ``"focus"`` and the
        like the sheets of the latter.
        """
        return self.stack.get(name)

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
        self.move_to((here[0], here[1], here[2]))

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

    def move_to(self, index_zyx: Index) -> None:
        """Go to a display index along all three axes; beyond the ends, the last one there is."""
        grid, dims = self.grid, self.viewer.dims
        if grid is None or dims.ndim < 3:
            return
        sizes = zip(index_zyx, grid.shape_zyx, grid.spacing_mm_zyx, strict=True)
        point_mm = [min(max(index, 0), size - 1) * spacing for index, size, spacing in sizes]
        with _told_once(dims):
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

    def scene(self) -> PlaneScene | None:
        """Return what every plane shows now, for ``core.plane_pictures``; None without a CT.

        Asked for anew after ``changed``, ``window_changed`` and ``looks_changed``.
        """
        scene = None if self.grid is None else self.stack.scene(self.grid)
        return None if scene is None else replace(scene, slab=self.slab)

    # ------------------------------------------------------------------- slab

    def next_slab(self) -> None:
        """Draw slabs: the largest HU, the mean, the smallest, and single slices again."""
        kind = None if self.slab is None else self.slab.kind
        following = _SLABS[(_SLABS.index(kind) + 1) % len(_SLABS)]
        self._show_slab(None if following is None else Slab(following, self._slab_mm))

    def next_slab_thickness(self) -> None:
        """Draw thicker slabs, after the thickest the thinnest."""
        self._slab_mm = SLAB_MM[(SLAB_MM.index(self._slab_mm) + 1) % len(SLAB_MM)]
        if self.slab is not None:
            self._show_slab(Slab(self.slab.kind, self._slab_mm))

    def _show_slab(self, slab: Slab | None) -> None:
        self.slab = slab
        self.stack.set_slab(slab)
        self.looks_changed.emit()

    # ----------------------------------------------------------------- window

    def apply_preset(self, name: str) -> None:
        """Show the window of that name; an unknown name changes nothing."""
        preset = self.presets.named(name)
        if preset is not None:
            self.preset_name = preset.name
            self.stack.set_window(preset.lo, preset.hi)

    # --------------------------------------------------------------- overlays

    def toggle_overlays(self) -> None:
        """Hide all masks, or show them again; markers and text stay."""
        self._bring_back()
        self.overlays_shown = not self.overlays_shown
        self._show_and_hide(insist=frozenset({*_GROUPS, *_EXTRA, ERRORS, FOCUS}))
        self.changed.emit()

    def highlight(self, mask: Mask | None) -> None:
        """Make one mask stand out and let the others step back; None undoes it.

        An empty mask has nothing to draw: then the others stay as they were.
        """
        self.focused = None if mask is None or mask.region.empty else mask
        with self.stack.at_once():
            if self.focused is not None:
                self._draw_focus(self.focused)
            self.stack.step_back(None if self.focused is None else self.focused.region)
            self._show_and_hide(insist=frozenset({FOCUS}))
        self.changed.emit()

    def _draw_focus(self, mask: Mask) -> None:
        region, table = mask.region, {1: (mask.structure, highlight_colour())}
        assert region.box_zyx is not None and region.crop_zyx is not None
        self.stack.draw_labels(FOCUS, region.crop_zyx, region.box_zyx, table, highlight_look())

    def show_picture(self, picture: Picture | None) -> None:
        """Go to the slice that a picture was cut from and draw its frame; None takes it away."""
        grid = self.grid
        if picture is None or grid is None or picture.index_from_pixel is None:
            self.stack.draw_frame(None)
            return
        rows, columns = picture.pixels.shape[:2]
        edges = [
            (-0.5, -0.5),
            (-0.5, columns - 0.5),
            (rows - 0.5, columns - 0.5),
            (rows - 0.5, -0.5),
        ]
        corners = picture.index_zyx(*np.array(edges).T)
        axis = int(np.argmin(np.ptp(corners, axis=0)))
        if self.plane != PLANES[axis]:
            self.set_plane(PLANES[axis])
        index = round(float(corners[:, axis].mean()))
        corners[:, axis] = index  # napari draws a shape only on the slice that it lies on
        self.go_to(axis, index)
        self.stack.draw_frame(corners)

    def show_masks(self, source: Source, masks: Iterable[Mask]) -> None:
        """Draw masks of a model, a tool or a reader in that source's own look; none hides it.

        Raises ValueError for reference masks, which come with the case.
        """
        if source not in _EXTRA:
            raise ValueError("reference masks are drawn from the case")
        kept = tuple(mask for mask in masks if not mask.region.empty)
        self._extra[source] = kept
        with self.stack.at_once():
            self._draw_extra(source, kept)
            self._show_and_hide()
        self.changed.emit()

    def _draw_extra(self, source: Source, kept: tuple[Mask, ...]) -> None:
        if kept:
            box = _around(mask.region.box_zyx for mask in kept)
            colours = beside_colours(kept, self.colours)
            table = {
                value: (mask.structure, colours[mask.structure])
                for value, mask in enumerate(kept, start=1)
            }
            self.stack.draw_labels(
                source,
                _painted(kept, box),
                box,
                table,
                self._look(source),
                covered=_overlapping(kept),
                hidden=self._hidden({v: name for v, (name, _) in table.items()}),
            )
        else:
            self.stack.empty(source)

    def _look(self, name: str) -> Look:
        """Return how a layer is drawn by the reader's choice."""
        source = Source(name) if name in _EXTRA else Source.REFERENCE
        look = lesion_look() if name == "lesions" else look_of(source)
        return drawn_look(look, source, self.session.overlays.drawing(source))

    def _hidden(self, structures: Mapping[int, str]) -> frozenset[int]:
        """Return the values of structures that are not drawn."""
        state = self.session.overlays
        return frozenset(value for value, name in structures.items() if not state.shows(name))

    @property
    def _error_map(self) -> ErrorMap | None:
        """Return the error map that is drawn: one of the case that is shown."""
        shown, grid = self.session.error_map, self.grid
        fits = shown is not None and grid is not None and same_grid(shown.first.region.grid, grid)
        return shown if fits else None

    def _on_masks_changed(self) -> None:
        for source in _EXTRA:
            masks = tuple(mask for mask in self.session.beside if mask.source is source)
            if masks != self._extra.get(source, ()):
                self.show_masks(source, masks)

    def _on_overlays_changed(self) -> None:
        """Draw what the reader chose: hidden structures cost a look-up, other looks a new layer."""
        case = self._case
        if case is None:
            return
        with self.stack.at_once():
            self._draw_chosen(case)
            self._show_and_hide()
        self.changed.emit()

    def _draw_chosen(self, case: Case) -> None:
        for group in _GROUPS:
            data = self.stack.get(group) and self.stack.get(group).data
            if group not in case.label_maps or not isinstance(data, StyledLabels):
                continue
            if data.table and data.look != self._look(group):
                self._draw_map(case, group)
            self.stack.hide(group, self._hidden(case.label_maps[group].structures))
        for source, masks in list(self._extra.items()):
            data = self.stack.get(source) and self.stack.get(source).data
            if masks and data.look != self._look(source):
                self.show_masks(source, masks)
            elif masks:
                names = {v: name for v, (name, _) in data.table.items()}
                self.stack.hide(source, self._hidden(names))
        self._draw_errors()

    def _draw_errors(self) -> None:
        shown = self._error_map
        if shown is None:
            self.stack.empty(ERRORS)
            return
        data = self.stack.drawn(ERRORS)
        if data is None or not data.shows(shown.labels_zyx):
            self.stack.draw_labels(ERRORS, shown.labels_zyx, shown.box_zyx, shown.table, ERROR_LOOK)

    @property
    def extra_masks(self) -> tuple[Mask, ...]:
        """Return the masks that were drawn beside the case's own."""
        return tuple(mask for masks in self._extra.values() for mask in masks)

    def drawn_here(self) -> list[Drawn]:
        """Return what is drawn on the current slice: the focused mask, then by size."""
        found: list[Drawn] = []
        for name in (*_GROUPS, *_EXTRA):
            data = self.stack.drawn(name)
            if data is not None:
                source = Source(name) if name in _EXTRA else Source.REFERENCE
                found += [
                    Drawn(*data.table[value], voxels, data.look, source=source)
                    for value, voxels in self._voxels(data).items()
                    if voxels and value in data.table
                ]
        found.sort(key=lambda drawn: -drawn.voxels)
        errors = self.stack.drawn(ERRORS)
        if errors is not None:  # all three, also where the slice has none of one
            counts = self._counts(errors)
            rows = [
                Drawn(*row, int(counts[v]) if v < len(counts) else 0, errors.look, first=True)
                for v, row in errors.table.items()
            ]
            found = [*rows, *found]
        data = self.stack.drawn(FOCUS)
        if self.focused is None or data is None:
            return found
        name, colour = data.table[1]
        voxels, source = int(self._counts(data)[1:].sum()), self.focused.source
        source = source if source in _EXTRA else Source.REFERENCE
        here = Drawn(name, colour, voxels, data.look, focused=True, source=source)
        focus = self.session.focus
        told = {name, *(focus.members if focus is not None else ())}
        # Another source's mask of the same structure is still drawn beside it.
        return [here, *(d for d in found if d.structure not in told or d.source is not source)]

    def _voxels(self, data: StyledLabels) -> dict[int, int]:
        """Return the voxels of each value, those that lie below others too."""
        found = dict(enumerate(self._counts(data).tolist()))
        if data.covered and self.viewer.dims.ndisplay == 2:
            axis = PLANES.index(self.plane)
            found |= data.covered_on(axis, self._index_zyx()[axis])
        return found

    def _counts(self, data: StyledLabels) -> npt.NDArray[np.intp]:
        """Return how many voxels of each value the current slice (3-D: the array) holds."""
        axis = PLANES.index(self.plane)
        flat = self.viewer.dims.ndisplay == 2
        part = data.plain_plane(axis, self._index_zyx()[axis]) if flat else np.asarray(data)
        return np.bincount(part.ravel(), minlength=2)

    def _show_and_hide(self, *, insist: frozenset[str] = frozenset()) -> None:
        shown = set() if self._case is None else {CT}
        if self.overlays_shown and self._error_map is not None:
            shown |= {ERRORS}  # alone: other colours over its three would be taken for them
        elif self.overlays_shown and self._case is not None:
            maps, state = self._case.label_maps, self.session.overlays
            if state.drawing(Source.REFERENCE) is not Drawing.OFF:
                shown |= {group for group in _GROUPS if group in maps and maps[group].structures}
            drawn = [source for source, masks in self._extra.items() if masks]
            shown |= {source for source in drawn if state.drawing(source) is not Drawing.OFF}
            shown |= set() if self.focused is None else {FOCUS}
        self.stack.show_only(shown, insist=insist)

    # ------------------------------------------------------------------- case

    def _on_case_changed(self) -> None:
        case, before = self.session.case, self._case
        if case is before:
            if self.session.case_state is CaseState.LOADING:
                # Once the reading, which is started after this signal, is on its way.
                QTimer.singleShot(0, self._prepare)
            return
        same_volume = before is not None and case is not None and case.volume is before.volume
        with self.stack.at_once():
            if before is not None and not same_volume:
                self._leave(before)
            self._case = case
            self._draw_case(case, before if same_volume else None)
            self._show_and_hide()
        if case is not None and not same_volume:
            self._arrive(case)
            self._on_focus_changed()
        else:
            self._highlight_focus()  # masks arrived: nobody is moved for that
        self.changed.emit()

    def _draw_case(self, case: Case | None, before: Case | None) -> None:
        """Draw a case; of one that was drawn before, of the same volume, only what is new."""
        if case is None:
            self.stack.draw_frame(None)
            self.stack.empty_all()
            return
        if before is None:
            self._draw_volume(case.volume)
        self._draw_maps(case, before)

    def _prepare(self) -> None:
        """Make the CT's layer while the CT is inflated: napari's first one takes a second."""
        if self._connections and self._case is None and self.stack.get(CT) is None:
            self._draw_image(np.zeros((1, 1, 1), np.int16), (1.0, 1.0, 1.0))
            self._show_and_hide()

    def _draw_volume(self, volume: Volume) -> None:
        self._draw_image(volume.display_zyx, volume.display_grid.spacing_mm_zyx)
        self.stack.set_slab(self.slab)  # as many slices as the new spacing makes of it
        # What the new case draws anyway is not emptied first: each swap costs napari 30 ms.
        self.stack.empty_all(keep=(CT, *_GROUPS))

    def _draw_image(self, array_zyx: npt.NDArray[Any], spacing_mm_zyx: Spacing) -> None:
        preset = self.presets.named(self.preset_name)
        assert preset is not None
        self.stack.draw_image(array_zyx, spacing_mm_zyx, (preset.lo, preset.hi))

    def _leave(self, case: Case) -> None:
        self._places[case.case_id, case.volume.path] = self._index_zyx()
        self._before_focus = None
        self._extra.clear()
        self.focused = None
        self.stack.step_back(None)
        self.stack.draw_frame(None)

    def _arrive(self, case: Case) -> None:
        """Go to where the reader last was in this case, else to its middle."""
        deep, high, wide = case.volume.display_grid.shape_zyx
        middle = (deep // 2, high // 2, wide // 2)
        self.move_to(self._places.get((case.case_id, case.volume.path), middle))
        self.fit()

    def _draw_maps(self, case: Case, before: Case | None) -> None:
        old = {} if before is None else before.label_maps
        self.colours = colours_of(case)
        for group in _GROUPS:
            label_map = case.label_maps.get(group)
            if label_map is None or not label_map.structures:
                self.stack.empty(group)
            elif label_map is not old.get(group) or self.stack.get(group) is None:
                self._draw_map(case, group)

    def _draw_map(self, case: Case, group: str) -> None:
        label_map = case.label_maps[group]
        table = {v: (name, self.colours[name]) for v, name in label_map.structures.items()}
        box = _box_of(label_map, case)
        self.stack.draw_labels(
            group,
            label_map.array_zyx[box],
            box,
            table,
            self._look(group),
            covered=_covered(label_map, case),
            hidden=self._hidden(label_map.structures),
        )

    def _bring_back(self) -> None:
        """Make the layers anew that the user deleted: what is asked for now would not be seen."""
        case = self._case
        if case is None:
            return
        drawn = [group for group, m in case.label_maps.items() if m.structures]
        drawn += [source for source, masks in self._extra.items() if masks]
        drawn += [ERRORS] if self._error_map is not None else []
        drawn += [FOCUS] if self.focused is not None else []
        lost = frozenset(name for name in (CT, *drawn) if self.stack.get(name) is None)
        if not lost:
            return
        volume = case.volume
        if CT in lost:
            self._draw_image(volume.display_zyx, volume.display_grid.spacing_mm_zyx)
        self._draw_maps(case, case)
        for source, masks in self._extra.items():
            if source in lost:
                self.show_masks(source, masks)
        if ERRORS in lost:
            self._draw_errors()
        if FOCUS in lost:
            self.highlight(self.focused)
        self._show_and_hide(insist=lost)
        if CT in lost:
            self._arrive(case)

    # ------------------------------------------------------------------ focus

    def _highlight_focus(self) -> None:
        focus, case = self.session.focus, self._case
        mask = None
        if focus is not None and case is not None:
            mask = focus.mask or case.masks.get(focus.structure)
        if mask is not self.focused and case is not None:
            self.highlight(mask)

    def _on_focus_changed(self) -> None:
        focus = self.session.focus
        if self._case is None:
            return
        self._bring_back()
        self._highlight_focus()
        if focus is None:
            self._return()
            return
        if self._before_focus is None:
            self._before_focus = (self.place, self.session.question)
        if self.plane != PLANES[0]:
            self.set_plane(PLANES[0])
        _, row, column = self._index_zyx()
        if self.focused is not None:
            row, column = _inside_on(self.focused, focus.display_slice) or (row, column)
        self.move_to((focus.display_slice, row, column))

    def _return(self) -> None:
        """Return to where the reader was before the first focus, unless for another question."""
        if self._before_focus is None:
            return
        (place, question), self._before_focus = self._before_focus, None
        if question is self.session.question:
            if self.plane != place.plane:
                self.set_plane(place.plane)
            self.move_to(place.index_zyx)


def _around(boxes: Iterable[BoxZYX | None]) -> BoxZYX:
    """Return the smallest box around all boxes; one voxel where there is none."""
    known = [box for box in boxes if box is not None]
    if not known:
        return slice(0, 1), slice(0, 1), slice(0, 1)
    z, y, x = (
        slice(min(box[axis].start for box in known), max(box[axis].stop for box in known))
        for axis in range(3)
    )
    return z, y, x


def _box_of(label_map: LabelMap, case: Case) -> BoxZYX:
    """Return the box around all masks of a label map, the whole map where one is not known."""
    masks = [case.masks.get(structure) for structure in label_map.structures.values()]
    if None in masks:
        deep, high, wide = label_map.array_zyx.shape
        return slice(0, deep), slice(0, high), slice(0, wide)
    return _around(mask.region.box_zyx for mask in masks if mask is not None)


def _covered(label_map: LabelMap, case: Case) -> tuple[tuple[int, Region], ...]:
    """Return the masks of a label map that others lie over, largest first."""
    found = [
        (value, case.masks[name].region)
        for value, name in label_map.structures.items()
        if label_map.overlaps.get(name) and name in case.masks
    ]
    return tuple(sorted(found, key=lambda pair: -pair[1].voxels))


def _overlapping(masks: tuple[Mask, ...]) -> tuple[tuple[int, Region], ...]:
    """Return those of several masks, numbered from 1, that share voxels with a smaller one."""
    numbered = sorted(enumerate(masks, start=1), key=lambda pair: -pair[1].region.voxels)
    regions = [(value, mask.region) for value, mask in numbered]
    return tuple(
        (value, region)
        for place, (value, region) in enumerate(regions)
        if any(shared_voxels(region, other) for _, other in regions[place + 1 :])
    )


def _inside_on(mask: Mask, index_z: int) -> tuple[int, int] | None:
    """Return row and column of the mask's voxel nearest its middle on an axial slice.

    The coronal and sagittal planes then run through the mask, too. None where it has no voxel.
    """
    box, crop = mask.region.box_zyx, mask.region.crop_zyx
    if box is None or crop is None or not box[0].start <= index_z < box[0].stop:
        return None
    voxels = np.argwhere(crop[index_z - box[0].start])
    if not len(voxels):
        return None
    row, column = voxels[np.argmin(((voxels - voxels.mean(axis=0)) ** 2).sum(axis=1))]
    return int(row) + box[1].start, int(column) + box[2].start


def _painted(masks: tuple[Mask, ...], box: BoxZYX) -> npt.NDArray[np.unsignedinteger]:
    """Return the masks' numbers (from 1) inside ``box``, larger masks below smaller ones."""
    shape = [part.stop - part.start for part in box]
    labels: npt.NDArray[np.unsignedinteger] = (
        np.zeros(shape, np.uint8) if len(masks) < 128 else np.zeros(shape, np.uint16)
    )
    for value, mask in sorted(enumerate(masks, start=1), key=lambda pair: -pair[1].region.voxels):
        own, crop = mask.region.box_zyx, mask.region.crop_zyx
        assert own is not None and crop is not None
        there = tuple(
            slice(part.start - edge.start, part.stop - edge.start)
            for part, edge in zip(own, box, strict=True)
        )
        labels[there][crop] = value
    return labels
