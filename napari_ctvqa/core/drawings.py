"""Drawings: what a reader draws on one slice to measure with, and how its points may be moved.

Points are (row, column) display indices on the slice, fractional, voxel centres at whole numbers:
axial rows and columns run along y and x, coronal along z and x, sagittal along z and y. They may
lie outside the volume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from napari_ctvqa.core.geometry import Grid

Point = tuple[float, float]
Points = npt.NDArray[np.float64]

_SHORT_SHARE = 0.5
"""The short axis, before it is moved, in parts of the long one."""
_ELLIPSE_CORNERS = 72


class Kind(StrEnum):
    """What is drawn."""

    RULER = "ruler"
    BIDIRECTIONAL = "bidirectional"
    ELLIPSE = "ellipse"
    POLYGON = "polygon"
    ANGLE = "angle"


KINDS = tuple(Kind)
REGIONS = (Kind.ELLIPSE, Kind.POLYGON)
"""The kinds that enclose voxels."""
FEWEST_POINTS = {
    Kind.RULER: 2,
    Kind.BIDIRECTIONAL: 4,
    Kind.ELLIPSE: 2,
    Kind.POLYGON: 3,
    Kind.ANGLE: 3,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure on one slice.

    ``plane`` is the display axis that is not displayed (0 axial, 1 coronal, 2 sagittal),
    ``slice_index`` the display index along it.

    ======================  =====================================================
    kind                    points
    ======================  =====================================================
    ruler                   its two ends
    bidirectional           the ends of the long axis, then those of the short one
    ellipse                 two opposite corners of the box around it
    polygon                 its corners in order; the last is joined to the first
    angle                   end, vertex, end
    ======================  =====================================================
    """

    kind: Kind
    plane: int
    slice_index: int
    points: tuple[Point, ...]

    @property
    def complete(self) -> bool:
        """Return whether it has all points that it needs."""
        return len(self.points) >= FEWEST_POINTS[self.kind]

    @property
    def index_zyx(self) -> Points:
        """Return the points as (n, 3) display indices."""
        return on_slice(np.array(self.points).reshape(-1, 2), self.plane, self.slice_index)


def on_slice(points: Points, plane: int, slice_index: float) -> Points:
    """Return (n, 3) display indices of (n, 2) points on a slice."""
    return np.insert(points, plane, slice_index, axis=1)


def in_plane(index_zyx: npt.ArrayLike, plane: int) -> Point:
    """Return the point (row, column) of a display index."""
    row, column = np.delete(np.asarray(index_zyx, dtype=np.float64), plane)
    return float(row), float(column)


def to_mm(grid: Grid, plane: int) -> npt.NDArray[np.float64]:
    """Return the (2, 2) matrix that takes points to millimetres in the plane.

    Lengths, angles and areas there are those of the patient, on sheared grids too: it is the root
    of the plane's metric, so a turn of the plane is left open and nothing else.
    """
    axes = np.delete(grid.affine_zyx_to_ras[:3, :3], plane, axis=1)
    return np.asarray(np.linalg.cholesky(axes.T @ axes).T, dtype=np.float64)


# ----------------------------------------------------------------------------- drawing


def with_short_axis(drawing: Drawing, grid: Grid) -> Drawing:
    """Return a bidirectional drawing of two points with a short axis across its middle."""
    matrix = to_mm(grid, drawing.plane)
    first, last = (matrix @ point for point in np.array(drawing.points[:2]))
    half = _across(last - first) * np.linalg.norm(last - first) * _SHORT_SHARE / 2
    middle = (first + last) / 2
    return _of_mm(drawing, matrix, (first, last, middle - half, middle + half))


def handles(drawing: Drawing) -> tuple[Point, ...]:
    """Return the points that can be moved: its own, and an ellipse's two other corners."""
    if drawing.kind is not Kind.ELLIPSE or len(drawing.points) < 2:
        return drawing.points
    (top, left), (bottom, right) = drawing.points
    return (*drawing.points, (top, right), (bottom, left))


def with_point(drawing: Drawing, number: int, to: Point, grid: Grid) -> Drawing:
    """Return the drawing with one of its ``handles`` moved.

    The short axis of a bidirectional drawing stays at a right angle: moved at one end it slides
    along the long axis; moving the long axis takes it along, its lengths to either side kept.
    """
    points = list(drawing.points)
    if number < len(points):
        points[number] = to
    else:  # an ellipse's other corners: row of the one point, column of the other
        row, column = (0, 1) if number == 2 else (1, 0)
        points[row] = (to[0], points[row][1])
        points[column] = (points[column][0], to[1])
    moved = replace(drawing, points=tuple(points))
    if drawing.kind is not Kind.BIDIRECTIONAL or len(points) < 4:
        return moved
    matrix = to_mm(grid, drawing.plane)
    old = np.array(drawing.points) @ matrix.T
    new = np.array(points) @ matrix.T
    return _of_mm(drawing, matrix, _squared(old, new, number))


def _squared(old: Points, new: Points, number: int) -> tuple[Points, ...]:
    """Return the four points in mm with the short axis at a right angle again."""
    first, last = new[:2]
    along = last - first
    length = float(np.linalg.norm(along))
    if not length:
        return tuple(new[[0, 1, 0, 0]])
    across = _across(along)
    if number < 2:
        before = old[1] - old[0]
        share = float((old[2] - old[0]) @ before / max(float(before @ before), 1e-12))
        sides = [float((point - old[0]) @ _across(before)) for point in old[2:]]
    else:
        share = float((new[number] - first) @ along / length**2)
        sides = [float((point - first) @ across) for point in new[2:]]
    foot = first + min(max(share, 0.0), 1.0) * along
    return first, last, foot + sides[0] * across, foot + sides[1] * across


def _across(way: Points) -> Points:
    """Return the direction of length 1 at a right angle; a way without a length has none."""
    length = float(np.linalg.norm(way))
    return np.array([-way[1], way[0]]) / length if length else np.zeros(2)


def _of_mm(drawing: Drawing, matrix: Points, points_mm: tuple[Points, ...]) -> Drawing:
    back = np.array(points_mm) @ np.linalg.inv(matrix).T
    return replace(drawing, points=tuple((float(row), float(column)) for row, column in back))


def shifted(drawing: Drawing, rows: float, columns: float) -> Drawing:
    """Return the drawing moved as a whole."""
    points = tuple((row + rows, column + columns) for row, column in drawing.points)
    return replace(drawing, points=points)


# ------------------------------------------------------------------------------ shape


def strokes(drawing: Drawing) -> tuple[tuple[Points, bool], ...]:
    """Return the lines to draw, as points and whether the last is joined to the first."""
    if drawing.kind in REGIONS:
        return ((outline(drawing), True),)
    points = np.array(drawing.points).reshape(-1, 2)
    if drawing.kind is Kind.BIDIRECTIONAL:
        return tuple((part, False) for part in (points[:2], points[2:4]) if len(part) == 2)
    return ((points, False),)


def outline(drawing: Drawing, corners: int = _ELLIPSE_CORNERS) -> Points:
    """Return the closed outline of a region as (n, 2) points, an ellipse's with so many corners."""
    points = np.array(drawing.points).reshape(-1, 2)
    if drawing.kind is not Kind.ELLIPSE or len(points) < 2:
        return points
    middle, half = (points[0] + points[1]) / 2, np.abs(points[1] - points[0]) / 2
    turn = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    round_it = np.stack([np.sin(turn), np.cos(turn)], axis=1)
    return np.asarray(middle + half * round_it, dtype=np.float64)


def crosses_itself(points: Points) -> bool:
    """Return whether two sides of a closed polygon that are not neighbours meet."""
    count = len(points)
    starts, ends = points, np.roll(points, -1, axis=0)
    # for each side (row) on which side of it each corner (column) lies
    ways = (ends - starts)[:, None, :]
    to_corner = points[None, :, :] - starts[:, None, :]
    turns = ways[..., 0] * to_corner[..., 1] - ways[..., 1] * to_corner[..., 0]
    parted = turns * np.roll(turns, -1, axis=1) < 0  # side i has the ends of side j on both sides
    apart = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    neighbours = (apart <= 1) | (apart == count - 1)
    return bool((parted & parted.T & ~neighbours).any())
