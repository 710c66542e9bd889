"""DrawTool: draw and move measurements on one surface, by pointer and by key.

A ruler, an ellipse or a long axis is dragged, or clicked at both ends; an angle gets its third
point by one more click; a polygon gets a corner with each click and is closed by a double click
or a click on its first corner. Points of what is there already are moved by their handles, the
whole by its line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from qtpy.QtCore import QEvent, QObject, Qt

from napari_ctvqa.core.drawings import (
    FEWEST_POINTS,
    KINDS,
    Drawing,
    Kind,
    handles,
    in_plane,
    on_slice,
    shifted,
    strokes,
    with_point,
    with_short_axis,
)
from napari_ctvqa.core.kept_drawings import MOST_POINTS
from napari_ctvqa.core.measuring import measured
from napari_ctvqa.core.session import WINDOW_REGION
from napari_ctvqa.widgets.measure_view import MeasureView, Shown, near, on_line
from napari_ctvqa.widgets.window_tools import MODIFIERS, PRESSES

if TYPE_CHECKING:
    import numpy.typing as npt
    from qtpy.QtGui import QMouseEvent

    from napari_ctvqa.core.drawings import Point
    from napari_ctvqa.core.kept_drawings import KeptDrawing
    from napari_ctvqa.core.measuring import Measured
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.measurements import Measurements
    from napari_ctvqa.widgets.surface import Surface

_HANDLE_REACH_PX, _LINE_REACH_PX = 8.0, 5.0
_CLICK_PX = 3.0
"""A press that moves less than this is a click."""
_SAME_VOXELS = 1e-6

Px = tuple[float, float]
OnRectangle = Callable[[int, int, "npt.NDArray[np.float64]", "npt.NDArray[np.float64]"], None]


@dataclass
class _Draft:
    """What is being drawn: the placed points, and one more that follows the pointer."""

    drawing: Drawing
    placed: int = 1

    def follow(self, to: Point) -> None:
        points = (*self.drawing.points[: self.placed], to)
        self.drawing = replace(self.drawing, points=points)

    @property
    def fixed(self) -> tuple[Point, ...]:
        return self.drawing.points[: self.placed]


@dataclass
class _Move:
    """What is being moved: one handle, or for None the whole."""

    key: str
    before: Drawing
    handle: int | None
    start: Point
    now: Drawing


class DrawTool(QObject):
    """Mouse and keys of one surface; what is drawn goes to ``measurements``.

    Parameters
    ----------
    surface, session, measurements
        Where it draws, which tool is taken, and who keeps what was drawn.
    on_rectangle
        Called with plane, slice and two corners (display indices) when keys drew the rectangle
        of the window.
    """

    def __init__(
        self,
        surface: Surface,
        session: Session,
        measurements: Measurements,
        on_rectangle: OnRectangle,
    ) -> None:
        super().__init__(surface.widget)
        self._on_rectangle = on_rectangle
        self._corner: Point | None = None
        self.surface, self.session, self.measurements = surface, session, measurements
        self.view = MeasureView(surface, session)
        self.seen = 0
        """Grows with every move of the pointer over this surface."""
        self._draft: _Draft | None = None
        self._move: _Move | None = None
        self._pressed_px: Px | None = None
        self._picked = 0
        self._floating = False
        """Whether the last point follows the pointer without a button held."""
        surface.widget.installEventFilter(self)
        surface.changed.connect(self._on_surface)
        session.tool_changed.connect(self._on_tool)
        session.case_changed.connect(self._on_case)
        session.measurements_changed.connect(self._show_picked)

    def close(self) -> None:
        """Let go of surface and session."""
        self.surface.changed.disconnect(self._on_surface)
        self.session.tool_changed.disconnect(self._on_tool)
        self.session.case_changed.disconnect(self._on_case)
        self.session.measurements_changed.disconnect(self._show_picked)
        self.surface.widget.removeEventFilter(self)
        self.view.close_view()

    # ------------------------------------------------------------------ events

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the left button where it draws or moves; let all else through."""
        kind = event.type()
        if kind in PRESSES:
            return self._press(event)
        if kind == QEvent.Type.MouseMove:
            self._follow((event.position().x(), event.position().y()))
            return False  # what else follows the pointer goes on doing so
        if kind == QEvent.Type.MouseButtonRelease and event.button() == Qt.MouseButton.LeftButton:
            return self._release((event.position().x(), event.position().y()))
        return False

    def _press(self, event: QMouseEvent) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if event.modifiers() & MODIFIERS:
            return False
        px = (event.position().x(), event.position().y())
        at = self._point_at(px)
        if at is None or self.session.case is None:
            return False
        self.view.cursor = None
        twice = event.type() == QEvent.Type.MouseButtonDblClick
        if self._draft is not None:
            if self._closes(px, twice=twice):
                self._finish(self._draft.fixed)
            else:
                self._draft.follow(at)
                self._show()
        elif not self._grip(px, at):
            return False
        self._pressed_px = px
        return True

    def _closes(self, px: Px, *, twice: bool) -> bool:
        """Return whether a press ends a polygon: the second of two, or on its first corner."""
        draft = self._draft
        if draft is None or draft.drawing.kind is not Kind.POLYGON:
            return False
        if draft.placed < FEWEST_POINTS[Kind.POLYGON]:
            return False
        first = self._px_of(draft.drawing, draft.fixed[:1])
        return twice or near(first, px, _HANDLE_REACH_PX) is not None

    def _grip(self, px: Px, at: Point) -> bool:
        """Take hold of a handle, begin a drawing, or take hold of a line; else nothing."""
        found: tuple[str, int | None] | None = self._handle_at(px)
        drawing_tool = self._kind()
        if found is None and drawing_tool is not None:
            self._begin(drawing_tool, at)
            return True
        if found is None:
            found = self._line_at(px)
        if found is None:
            return False
        key, handle = found
        self.measurements.choose(key)
        chosen = self.session.chosen_measurement
        assert chosen is not None
        self._picked = handle or 0
        self._move = _Move(key, chosen.drawing, handle, at, chosen.drawing)
        self._show()
        return True

    def _follow(self, px: Px) -> None:
        self.seen += 1
        at = self._point_at(px)
        if at is None:
            return
        if self._draft is not None:
            self._draft.follow(at)
            self._show()
        elif self._move is not None:
            self._move.now = self._moved_to(self._move, at)
            self._show()
        else:
            hot = self._handle_at(px)
            if hot != self.view.hot:
                self.view.hot = hot
                self.view.update()

    def _moved_to(self, move: _Move, at: Point) -> Drawing:
        if move.handle is None:
            rows, columns = at[0] - move.start[0], at[1] - move.start[1]
            return shifted(move.before, rows, columns)
        case = self.session.case
        assert case is not None
        return with_point(move.before, move.handle, at, case.volume.display_grid)

    def _release(self, px: Px) -> bool:
        start, self._pressed_px = self._pressed_px, None
        if start is None:
            return False
        moved = max(abs(px[0] - start[0]), abs(px[1] - start[1])) >= _CLICK_PX
        at = self._point_at(px)
        if self._move is not None:
            move, self._move = self._move, None
            if moved and at is not None:
                self.measurements.change(move.key, self._moved_to(move, at))
            self._show()
        elif self._draft is not None and at is not None:
            draft = self._draft
            draft.follow(at)
            if moved or self._floating:
                self._place()
            else:
                self._floating = True
                self._show()
        return True

    # ----------------------------------------------------------------- drawing

    def _kind(self) -> Kind | None:
        return Kind(self.session.tool) if self.session.tool in KINDS else None

    def _begin(self, kind: Kind, at: Point) -> None:
        surface = self.surface
        self._draft = _Draft(Drawing(kind, surface.plane, surface.slice_index, (at, at)))
        self._floating = False
        self._show()

    def _place(self) -> None:
        """Fix the point that follows the pointer; a drawing with all its points is kept."""
        draft = self._draft
        assert draft is not None
        kind, placed = draft.drawing.kind, draft.drawing.points
        wanted = 2 if kind is Kind.BIDIRECTIONAL else FEWEST_POINTS[kind]
        if kind is Kind.POLYGON:
            wanted = MOST_POINTS
        draft.placed = len(placed)
        if draft.placed >= wanted:
            self._finish(placed)
            return
        self._floating = True
        draft.follow(placed[-1])
        self._show()

    def _finish(self, points: tuple[Point, ...]) -> None:
        draft, self._draft = self._draft, None
        assert draft is not None
        case = self.session.case
        points = _without_repeats(points)
        drawing = replace(draft.drawing, points=points)
        if case is not None and drawing.kind is Kind.BIDIRECTIONAL and len(points) == 2:
            drawing = with_short_axis(drawing, case.volume.display_grid)
        self._show()
        if drawing.complete:
            self._picked = 0
            self.measurements.add(drawing)

    def cancel(self) -> bool:
        """Drop what is being drawn or moved; return whether there was something."""
        busy = self._draft is not None or self._move is not None or self.view.cursor is not None
        self._draft = self._move = self._corner = None
        self.view.cursor = None
        self._show()
        return busy

    def _on_tool(self) -> None:
        drawn = WINDOW_REGION if self._corner is not None else self.session.tool
        if self._draft is not None:
            drawn = self._draft.drawing.kind.value
        if drawn != self.session.tool or not self.session.tool:
            self.cancel()

    def _on_case(self) -> None:
        if self.session.case is None:
            self.cancel()

    def _on_surface(self) -> None:
        """A drawing lies on one slice: going to another one drops what is not finished."""
        unfinished = self._draft.drawing if self._draft is not None else None
        if self._move is not None:
            unfinished = self._move.before
        if unfinished is not None and not self.view.here(unfinished):
            self.cancel()

    # -------------------------------------------------------------------- keys

    def shows_chosen(self) -> bool:
        """Return whether the chosen measurement lies on the slice that is shown here."""
        chosen = self.session.chosen_measurement
        return chosen is not None and self.view.here(chosen.drawing)

    def nudge(self, right: int, down: int, voxels: int) -> None:
        """Move by whole voxels: the key's cross while a tool is taken, else the picked point."""
        way = self._way(right * voxels, down * voxels)
        if way is None or self.session.case is None:
            return
        if self.session.tool:
            here = self.view.cursor or self._middle()
            if here is not None:
                self._show_cursor((here[0] + way[0], here[1] + way[1]))
            return
        chosen = self.session.chosen_measurement
        if chosen is not None and self.view.here(chosen.drawing):
            point = handles(chosen.drawing)[self._picked]
            to = (point[0] + way[0], point[1] + way[1])
            grid = self.session.case.volume.display_grid
            self.measurements.change(chosen.id, with_point(chosen.drawing, self._picked, to, grid))

    def pick_next(self) -> None:
        """Let the keys move the next point of the chosen measurement."""
        chosen = self.session.chosen_measurement
        if chosen is not None:
            self._picked = (self._picked + 1) % len(handles(chosen.drawing))
            self._show_picked()

    def place(self) -> None:
        """Place a point at the key's cross; a polygon's last point once more closes it."""
        kind = self._kind()
        at = self.view.cursor or self._middle()
        if not self.session.tool or self.session.case is None or at is None:
            return
        self._show_cursor(at)
        if kind is None:
            self._place_corner(at)
            return
        if self._draft is None:
            self._begin(kind, at)
            self._floating = True
            return
        closed = self._draft.drawing.kind is Kind.POLYGON and _same(self._draft.fixed[-1], at)
        if closed and self._draft.placed >= FEWEST_POINTS[Kind.POLYGON]:
            self._finish(self._draft.fixed)
        elif not _same(self._draft.fixed[-1], at):
            self._draft.follow(at)
            self._place()

    def _place_corner(self, at: Point) -> None:
        """Place a corner of the window's rectangle; the second one takes the window."""
        first, self._corner = self._corner, at
        if first is None:
            return
        surface, self._corner = self.surface, None
        corners = on_slice(np.array([first, at]), surface.plane, surface.slice_index)
        self._on_rectangle(surface.plane, surface.slice_index, corners[0], corners[1])

    def _show_cursor(self, at: Point) -> None:
        self.view.cursor = at
        if self._draft is not None:
            self._draft.follow(at)
        self._show()

    def _middle(self) -> Point | None:
        """Return the voxel in the middle of the canvas."""
        size = self.surface.widget.size()
        at = self._point_at((size.width() / 2, size.height() / 2))
        return None if at is None else (float(round(at[0])), float(round(at[1])))

    def _way(self, right: float, down: float) -> Point | None:
        """Return the way in rows and columns that leads right and down on the canvas."""
        first, last = self._point_at((0.0, 0.0)), self._point_at((right * 100, down * 100))
        if first is None or last is None:
            return None
        way = np.array(last) - first
        axis, size = int(np.argmax(np.abs(way))), max(abs(right), abs(down))
        out = [0.0, 0.0]
        out[axis] = float(np.copysign(size, way[axis]))
        return out[0], out[1]

    # ------------------------------------------------------------------- places

    def _point_at(self, px: Px) -> Point | None:
        index = self.surface.index_at(*px)
        return None if index is None else in_plane(index, self.surface.plane)

    def _px_of(self, drawing: Drawing, points: tuple[Point, ...]) -> npt.NDArray[np.float64]:
        px = self.view.px_of(points, drawing.plane, drawing.slice_index)
        return np.zeros((0, 2)) if px is None else px

    def _handle_at(self, px: Px) -> tuple[str, int] | None:
        """Return id and number of the handle under a pixel, the chosen measurement's first."""
        for kept in self._here():
            drawing = kept.drawing
            number = near(self._px_of(drawing, handles(drawing)), px, _HANDLE_REACH_PX)
            if number is not None:
                return kept.id, number
        return None

    def _line_at(self, px: Px) -> tuple[str, int | None] | None:
        for kept in self._here():
            drawing = kept.drawing
            for points, closed in strokes(drawing):
                line = self.view.px_of(points, drawing.plane, drawing.slice_index)
                if line is not None and on_line(line, px, _LINE_REACH_PX, closed=closed):
                    return kept.id, None
        return None

    def _here(self) -> list[KeptDrawing]:
        """Return the measurements on the shown slice, the chosen one first."""
        chosen = self.session.measurement
        shown = [m for m in self.session.measurements if self.view.here(m.drawing)]
        return sorted(shown, key=lambda kept: kept.id != chosen)

    # --------------------------------------------------------------------- show

    def _show(self) -> None:
        view, case = self.view, self.session.case
        view.live, view.moved_id = None, ""
        if case is not None and self._draft is not None:
            view.live = Shown(self._draft.drawing, self._measured(self._draft.drawing), chosen=True)
        elif case is not None and self._move is not None:
            move, chosen = self._move, self.session.chosen_measurement
            name = "" if chosen is None else chosen.name
            found = measured(move.now, case)
            view.live = Shown(move.now, found, name, chosen=True, handle=move.handle)
            view.moved_id = move.key
        view.update()

    def _measured(self, drawing: Drawing) -> Measured | None:
        """Return the live numbers of a draft; a long axis shows its length."""
        case = self.session.case
        if drawing.kind is Kind.BIDIRECTIONAL:
            drawing = replace(drawing, kind=Kind.RULER)
        return measured(drawing, case) if case is not None and drawing.complete else None

    def _show_picked(self) -> None:
        chosen = self.session.chosen_measurement
        if chosen is None:
            self.view.hot = None
        else:
            self._picked = min(self._picked, len(handles(chosen.drawing)) - 1)
            self.view.hot = (chosen.id, self._picked)
        self.view.update()


def _same(first: Point, last: Point) -> bool:
    return max(abs(first[0] - last[0]), abs(first[1] - last[1])) < _SAME_VOXELS


def _without_repeats(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the points without those that repeat the one before them, as a double click makes."""
    kept = points[:1]
    for point in points[1:]:
        if not _same(kept[-1], point):
            kept = (*kept, point)
    return kept
