"""What a drawing measures: lengths, angles, areas and HU, by the same rules as masks are.

Lengths, angles and areas are taken in the patient's millimetres, on oblique and sheared volumes
too. The voxels of an ellipse or polygon are those of the shown slice whose centre lies in or on
the outline; their HU go through ``core.measure``, as those of a mask do, so that a drawing and a
mask of the same voxels give the same numbers. Nothing outside the volume counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import Level, Region
from napari_ctvqa.core.drawings import (
    REGIONS,
    Drawing,
    Kind,
    Points,
    crosses_itself,
    in_plane,
    on_slice,
    outline,
    to_mm,
)
from napari_ctvqa.core.measure import HuStatistics, Measurement, hu_values, statistics_of
from napari_ctvqa.core.regions import empty_region, region_of

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Volume
    from napari_ctvqa.core.geometry import Grid

NO_VOXELS = "no voxels"
NO_AREA = "it encloses nothing of the volume"
SAME_POINTS = "two of its points are the same"
SPACING_CAVEAT = "voxel size in doubt (see the geometry check): lengths and areas may be wrong"
CROSSED = "the outline crosses itself: the area is that of its voxels"
PROBE_RADIUS_MM = 3.0
"""Radius of the circle under the pointer unless the reader chose another one."""

PROBE_RADII_MM = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0)

RULES = {
    Kind.RULER: "distance between two points, in mm of the patient",
    Kind.BIDIRECTIONAL: (
        "long axis and the axis at a right angle to it, in mm of the patient; the longer one is "
        "the long axis"
    ),
    Kind.ANGLE: "angle at the middle point between the ways to the two others",
    Kind.ELLIPSE: (
        "HU of the slice's voxels whose centre lies in or on the outline, SD of the population, "
        "padding left out; area of the outline within the volume"
    ),
}
RULES[Kind.POLYGON] = RULES[Kind.ELLIPSE]

TITLES = {
    "length_mm": "length",
    "long_axis_mm": "long axis",
    "short_axis_mm": "short axis",
    "angle_deg": "angle",
    "mean_hu": "mean",
    "sd_hu": "SD",
    "min_hu": "min",
    "max_hu": "max",
    "area_mm2": "area",
    "voxel_area_mm2": "area of the voxels",
    "voxels": "voxels",
}
UNITS = {"mm": "mm", "deg": "°", "hu": "HU", "mm2": "mm²", "voxels": "voxels"}
"""By the last part of a measure's name."""

_EDGE_VOXELS = 1e-7
"""So near to the outline a centre counts as on it."""
_FINE_CORNERS = 720
_HIDDEN_SHARE = 1e-6

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a drawing gives on one case: its numbers in order, and what is to be known of them.

    A number that cannot be given has the value None, never one that is not finite; why stands in
    its own caveats. ``caveats`` are about the drawing as a whole.
    """

    values: tuple[Measurement, ...]
    caveats: tuple[str, ...]
    rule: str

    def value(self, measure: str) -> float | None:
        """Return one number by its name, None where it is not given."""
        return next((m.value for m in self.values if m.measure == measure), None)


def measured(drawing: Drawing, case: Case) -> Measured:
    """Return what a complete drawing measures on a case.

    Raises
    ------
    ValueError
        When points are missing.
    """
    if not drawing.complete:
        raise ValueError(f"a {drawing.kind} of {len(drawing.points)} points")
    doubt, caveats = length_doubt(case), _spacing_caveats(case)
    if drawing.kind in REGIONS:
        values, more = _region(drawing, case.volume)
        caveats = (*caveats, *more)
    else:
        values = _lines(drawing, case.volume.display_grid)
    told = tuple(_without_length(value, doubt) for value in values)
    return Measured(told, caveats if not doubt else (doubt, *more_of(caveats)), RULES[drawing.kind])


def more_of(caveats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the caveats without the one that a stronger doubt takes the place of."""
    return tuple(caveat for caveat in caveats if caveat != SPACING_CAVEAT)


def length_doubt(case: Case) -> str:
    """Return why no length of a case may be given, empty where it may.

    As for the evidence: what is red about the CT itself, or about its sides, blocks measuring;
    what is wrong with one mask only does not.
    """
    red = [w for w in case.volume.report.warnings if w.level is Level.RED]
    red += [w for w in case.report.warnings if w.code == "side_swapped" and w.level is Level.RED]
    reasons = dict.fromkeys(w.message for w in red)
    if not reasons:
        return ""
    said = "Lengths, angles and areas are not given, the geometry is not to be trusted"
    return f"{said}: {' '.join(reasons)}"


def _spacing_caveats(case: Case) -> tuple[str, ...]:
    codes = {warning.code for warning in case.volume.report.warnings}
    return (SPACING_CAVEAT,) if "pixdim_affine_differ" in codes else ()


def _without_length(value: Measurement, doubt: str) -> Measurement:
    if not doubt or _unit_of(value.measure) not in ("mm", "mm²", "°"):
        return value
    return Measurement(value.measure, None, value.unit, ("geometry red",))


def _unit_of(measure: str) -> str:
    return UNITS[measure.rpartition("_")[2]]


def _given(measure: str, value: float | None, *caveats: str) -> Measurement:
    return Measurement(measure, value, _unit_of(measure), caveats if value is None else ())


# ------------------------------------------------------------------------------- lines


def _lines(drawing: Drawing, grid: Grid) -> tuple[Measurement, ...]:
    points = np.array(drawing.points) @ to_mm(grid, drawing.plane).T
    if drawing.kind is Kind.RULER:
        return (_given("length_mm", _distance(points[0], points[1])),)
    if drawing.kind is Kind.ANGLE:
        return (_given("angle_deg", _angle_deg(points), SAME_POINTS),)
    lengths = (_distance(points[0], points[1]), _distance(points[2], points[3]))
    return (_given("long_axis_mm", max(lengths)), _given("short_axis_mm", min(lengths)))


def _distance(first: Points, last: Points) -> float:
    return float(np.linalg.norm(last - first))


def _angle_deg(points: Points) -> float | None:
    one, other = points[0] - points[1], points[2] - points[1]
    if not np.linalg.norm(one) or not np.linalg.norm(other):
        return None
    across = abs(float(one[0] * other[1] - one[1] * other[0]))
    return float(np.rad2deg(np.arctan2(across, float(one @ other))))


# ----------------------------------------------------------------------------- regions


def region(drawing: Drawing, grid: Grid) -> Region:
    """Return the voxels of a grid that an ellipse or polygon encloses, on its slice."""
    points = outline(drawing)
    edges = points if drawing.kind is Kind.POLYGON else np.array(drawing.points)
    low, high = edges.min(axis=0) - _EDGE_VOXELS, edges.max(axis=0) + _EDGE_VOXELS
    size = np.delete(np.array(grid.shape_zyx), drawing.plane)
    first = np.clip(np.ceil(low), 0, size).astype(int)
    end = np.clip(np.floor(high) + 1, 0, size).astype(int)
    if (end <= first).any() or not 0 <= drawing.slice_index < grid.shape_zyx[drawing.plane]:
        return empty_region(grid)
    inside = _inside(drawing, first, end)
    start = np.insert(first, drawing.plane, drawing.slice_index)
    part = np.expand_dims(inside, drawing.plane)
    return region_of(part, grid, (int(start[0]), int(start[1]), int(start[2])))


def _inside(drawing: Drawing, first: npt.NDArray[Any], end: npt.NDArray[Any]) -> BoolArray:
    """Return which points of the lattice from ``first`` to ``end`` lie in or on the outline."""
    if drawing.kind is Kind.ELLIPSE:
        corners = np.array(drawing.points)
        middle, half = corners.mean(axis=0), np.ptp(corners, axis=0) / 2
        if not half.all():
            return np.zeros(end - first, bool)
        rows, columns = (
            ((np.arange(first[axis], end[axis]) - middle[axis]) / half[axis]) ** 2
            for axis in (0, 1)
        )
        return np.asarray(rows[:, None] + columns[None, :] <= 1 + 2 * _EDGE_VOXELS)
    points, shape = np.array(drawing.points) - first, (int(n) for n in end - first)
    height, width = shape
    found = np.zeros((height, width), bool)
    for rows in (-_EDGE_VOXELS, _EDGE_VOXELS):  # on the outline: in it after a step to one side
        for columns in (-_EDGE_VOXELS, _EDGE_VOXELS):
            found |= _even_odd(points + np.array((rows, columns)), height, width)
    return found


def _even_odd(points: Points, height: int, width: int) -> BoolArray:
    """Return which lattice points lie inside a closed polygon, by the even-odd rule."""
    toggles = np.zeros((height, width + 1), np.int32)
    for a, b in zip(points, np.roll(points, -1, axis=0), strict=True):
        (top, left), (bottom, right) = (a, b) if a[0] <= b[0] else (b, a)
        rows = np.arange(max(int(np.ceil(top)), 0), min(int(np.ceil(bottom)), height))
        if bottom > top and rows.size:
            at = left + (rows - top) * (right - left) / (bottom - top)
            np.add.at(toggles, (rows, np.clip(np.ceil(at), 0, width).astype(int)), 1)
    return np.asarray(np.cumsum(toggles, axis=1)[:, :width] % 2 == 1)


def _region(drawing: Drawing, volume: Volume) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    grid = volume.display_grid
    voxels = region(drawing, grid)
    found = hu_values(voxels, volume)
    statistics = statistics_of(found)
    problem = NO_VOXELS if voxels.empty else found.problem
    values = found.values
    voxel_mm2 = abs(float(np.linalg.det(to_mm(grid, drawing.plane))))
    kept, outside = _voxels_inside(voxels, volume)
    area, caveats = _area(drawing, volume, kept * voxel_mm2)
    if outside:
        caveats = (*caveats, f"{outside} of {voxels.voxels} voxels lie outside the scan")
    numbers = (
        _given("mean_hu", statistics.mean_hu, problem),
        _given("sd_hu", statistics.sd_hu, problem),
        _given("min_hu", float(values.min()) if values.size else None, problem),
        _given("max_hu", float(values.max()) if values.size else None, problem),
        _given("area_mm2", area, NO_AREA),
        _given("voxel_area_mm2", kept * voxel_mm2),
        _given("voxels", float(statistics.voxels)),
    )
    reasons = (problem,) if problem else ()
    return numbers, tuple(dict.fromkeys((*reasons, *caveats, *found.caveats)))


def _voxels_inside(voxels: Region, volume: Volume) -> tuple[int, int]:
    """Return how many voxels of the picture lie in the scan, and how many do not.

    The picture of a sheared scan is a box around it; elsewhere the two are one.
    """
    if volume.grid is volume.display_grid or voxels.box_zyx is None or voxels.crop_zyx is None:
        return voxels.voxels, 0
    index = np.argwhere(voxels.crop_zyx) + [part.start for part in voxels.box_zyx]
    at = volume.grid.index_zyx(voxels.grid.ras_mm(index))
    last = np.array(volume.grid.shape_zyx) - 1
    kept = int(((at > -0.5) & (at < last + 0.5)).all(axis=1).sum())
    return kept, voxels.voxels - kept


def _area(
    drawing: Drawing, volume: Volume, voxels_mm2: float
) -> tuple[float | None, tuple[str, ...]]:
    """Return the area of the outline within the volume in mm², and what is to be said of it."""
    points = outline(drawing, _FINE_CORNERS)
    matrix = to_mm(volume.display_grid, drawing.plane)
    if drawing.kind is Kind.POLYGON and crosses_itself(points):
        return voxels_mm2 or None, (CROSSED,)
    whole = _shoelace(points)
    inside = _shoelace(_clipped(points, drawing, volume))
    voxel_mm2 = abs(float(np.linalg.det(matrix)))
    if not whole:
        return None, ()
    if drawing.kind is Kind.ELLIPSE:
        half = np.ptp(np.array(drawing.points), axis=0) / 2
        exact = float(np.pi * half[0] * half[1])
        inside, whole = exact * inside / whole, exact
    share = 1 - inside / whole
    if share <= _HIDDEN_SHARE:
        return whole * voxel_mm2, ()
    told = f"{share:.0%}" if share >= 0.005 else "less than 1%"
    said = f"{told} of the outline lies outside the volume and is not counted"
    return inside * voxel_mm2 or None, (said,)


def _shoelace(points: Points) -> float:
    if len(points) < 3:
        return 0.0
    following = np.roll(points, -1, axis=0)
    return abs(float((points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]).sum())) / 2


def _clipped(points: Points, drawing: Drawing, volume: Volume) -> Points:
    """Return the part of a polygon that lies in the scan, cut along its six outer faces."""
    lattice = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    index = on_slice(lattice, drawing.plane, drawing.slice_index)
    own = volume.grid.index_zyx(volume.display_grid.ras_mm(index))
    for axis, size in enumerate(volume.grid.shape_zyx):
        at, slope = own[0, axis], own[1:, axis] - own[0, axis]
        points = _cut(points, at + 0.5, slope)
        points = _cut(points, size - 0.5 - at, -slope)
    return points


def _cut(points: Points, offset: float, slope: Points) -> Points:
    """Return the part of a polygon where ``offset + slope · point`` is not below 0."""
    if not len(points):
        return points
    height = points @ slope + offset
    if (height >= 0).all():
        return points
    kept: list[Points] = []
    for number, (point, here) in enumerate(zip(points, height, strict=True)):
        before, there = points[number - 1], height[number - 1]
        if (here < 0) != (there < 0):
            kept.append(before + (point - before) * there / (there - here))
        if here >= 0:
            kept.append(point)
    return np.array(kept).reshape(-1, 2)


# -------------------------------------------------------------------------------- probe


def circle_statistics(
    volume: Volume, plane: int, index_zyx: npt.ArrayLike, radius_mm: float
) -> HuStatistics:
    """Return HU over the voxels of a slice whose centre lies within a radius of a point.

    ``index_zyx`` is a fractional display index; the slice is the one it lies on. Without such a
    voxel there is no mean, and ``problem`` says "no voxels".
    """
    grid = volume.display_grid
    index = np.asarray(index_zyx, dtype=np.float64)
    number = int(np.floor(index[plane] + 0.5))
    found = _circle(grid, plane, number, np.array(in_plane(index, plane)), radius_mm)
    if found.empty:
        return HuStatistics(0, None, None, NO_VOXELS)
    return statistics_of(hu_values(found, volume))


def next_radius_mm(radius_mm: float, step: int) -> float:
    """Return the next larger (+1) or smaller (-1) radius that is offered; at an end, that one."""
    side = [r for r in PROBE_RADII_MM if (r > radius_mm if step > 0 else r < radius_mm)]
    return (side[0] if step > 0 else side[-1]) if side else radius_mm


def _circle(grid: Grid, plane: int, number: int, at: Points, radius_mm: float) -> Region:
    matrix = to_mm(grid, plane)
    # the farthest row and column that a circle of this radius reaches, on turned axes too
    reach = radius_mm * np.linalg.norm(np.linalg.inv(matrix), axis=1) + 1e-9
    size = np.delete(np.array(grid.shape_zyx), plane)
    first = np.clip(np.ceil(at - reach), 0, size).astype(int)
    end = np.clip(np.floor(at + reach) + 1, 0, size).astype(int)
    if (end <= first).any() or not 0 <= number < grid.shape_zyx[plane]:
        return empty_region(grid)
    rows, columns = (np.arange(first[a], end[a]) - at[a] for a in (0, 1))
    ways = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1) @ matrix.T
    inside = np.linalg.norm(ways, axis=-1) <= radius_mm + 1e-9
    start = np.insert(first, plane, number)
    part = np.expand_dims(inside, plane)
    return region_of(part, grid, (int(start[0]), int(start[1]), int(start[2])))
