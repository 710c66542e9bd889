"""One plane of a case as a picture: CT in its window, masks over it, in napari's own colours.

Pure arrays: the planes beside the main one, an export and a film are all drawn from here. Rows and
columns of a picture run along the two display axes that stay, so it hangs radiologically.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.label_styles import StyledLabels

    Colouring = Callable[[npt.NDArray[np.unsignedinteger]], npt.NDArray[np.uint32]]

Grey = npt.NDArray[np.uint8]
Packed = npt.NDArray[np.uint32]

SlabKind = Literal["mip", "mean", "minip"]

_ROW_AXIS, _COLUMN_AXIS = (1, 0, 0), (2, 2, 1)
"""Which display axis the rows (columns) of a plane are counted along, by the plane's axis."""
_INT16_COUNT = 1 << 16
_WIDE_OFFSET = 32768
_RED_BLUE = np.uint32(0x00FF00FF)
_HALVES = np.uint32(0x00800080)
_EIGHT = np.uint32(8)


@dataclass(frozen=True)
class Slab:
    """Several slices drawn as one: the largest, mean or smallest HU along ``thickness_mm``."""

    kind: SlabKind
    thickness_mm: float

    def range_of(self, index: int, size: int, spacing_mm: float) -> tuple[int, int]:
        """Return first and one past the last slice: an odd number, ``index`` in their middle.

        Cut off at the ends of the ``size`` slices there are.
        """
        half = self.half_of(spacing_mm)
        return max(index - half, 0), min(index + half + 1, size)

    def half_of(self, spacing_mm: float) -> int:
        """Return how many slices are taken on either side of the middle one.

        As many as make the slab nearest to its thickness; of two that are as near, the thicker.
        """
        return max(math.floor(self.thickness_mm / spacing_mm / 2), 0)


@dataclass(frozen=True, eq=False)
class Sheet:
    """The masks of one source: what is drawn, and the opacity on top of its look's own."""

    name: str
    labels: StyledLabels
    opacity: float = 1.0
    colours: Colouring = field(init=False, repr=False)
    """Turns a plane read from ``labels`` into packed colours."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "colours", _colouring(self.labels, self.opacity))


@dataclass(frozen=True, eq=False)
class PlaneScene:
    """All that a plane of a case shows, wherever it is cut; the arrays are shared, not copied.

    ``window_hu`` is (black, white). ``ct_zyx`` and ``grid`` are those of the display. The masks of
    a slab are those of its middle slice.
    """

    ct_zyx: npt.NDArray[Any]
    grid: Grid
    window_hu: tuple[float, float]
    sheets: tuple[Sheet, ...] = ()
    slab: Slab | None = None
    opacity: float = 1.0
    """Of all masks together, on top of each sheet's own."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """Colours to lay over a part of a plane, from row and column ``corner`` on.

    ``pixels`` hold 0xAARRGGBB, colours times alpha, as Qt's ARGB32_Premultiplied.
    """

    pixels: Packed
    corner: tuple[int, int]


@dataclass(frozen=True)
class EdgeLetters:
    """What the four edges of the picture point to; empty where nothing may be said."""

    left: str = ""
    right: str = ""
    top: str = ""
    bottom: str = ""


NO_LETTERS = EdgeLetters()


# ------------------------------------------------------------------------------------ geometry


def row_and_column_axis(axis: int) -> tuple[int, int]:
    """Return the display axes that the rows and the columns of plane ``axis`` are counted along."""
    return _ROW_AXIS[axis], _COLUMN_AXIS[axis]


def plane_spacing_mm(grid: Grid, axis: int) -> tuple[float, float]:
    """Return the distances from row to row and from column to column of plane ``axis``."""
    spacing_mm = grid.spacing_mm_zyx
    return spacing_mm[_ROW_AXIS[axis]], spacing_mm[_COLUMN_AXIS[axis]]


def plane_letters(grid: Grid, axis: int, *, mirrored: bool = False) -> EdgeLetters:
    """Return the patient directions at the edges of plane ``axis``, from the grid's own affine.

    ``mirrored`` exchanges left and right, as a sagittal plane with the nose to the right does.
    """
    right, down = np.zeros(3), np.zeros(3)
    right[_COLUMN_AXIS[axis]] = -1.0 if mirrored else 1.0
    down[_ROW_AXIS[axis]] = 1.0
    return EdgeLetters(
        left=grid.direction_letters(-right),
        right=grid.direction_letters(right),
        top=grid.direction_letters(-down),
        bottom=grid.direction_letters(down),
    )


# ------------------------------------------------------------------------------------ pictures


def plane_picture(scene: PlaneScene, axis: int, index: int) -> npt.NDArray[np.uint8]:
    """Return display slice ``index`` along ``axis`` (0 z, 1 y, 2 x) as (rows, columns, 3) uint8.

    One pixel a voxel, within 3 grey levels of what napari draws at the voxel's centre. Raises
    IndexError for a slice that the grid does not have.
    """
    grey = plane_grey(scene, axis, index)
    picture = np.repeat(grey[..., None], 3, axis=2)
    overlay = plane_overlay(scene, axis, index)
    if overlay is None:
        return picture
    row, column = overlay.corner
    high, wide = overlay.pixels.shape
    there = np.s_[row : row + high, column : column + wide]
    picture[there] = _over_grey(overlay.pixels, grey[there])
    return picture


def plane_grey(scene: PlaneScene, axis: int, index: int) -> Grey:
    """Return the CT of one slice, or of the slab around it, as (rows, columns) uint8."""
    size = scene.grid.shape_zyx[axis]
    if not 0 <= index < size:
        raise IndexError(f"slice {index} along axis {axis}, which has {size}")
    lo, hi = scene.window_hu
    return _windowed(_plane_hu(scene, axis, index, size), float(lo), float(hi))


def plane_overlay(scene: PlaneScene, axis: int, index: int) -> Overlay | None:
    """Return all masks of one slice, laid over each other in their order; None for no mask."""
    overlay = masks_on_plane(scene.sheets, axis, index)
    if overlay is None or scene.opacity == 1.0:
        return overlay
    part = np.uint32(round(255 * scene.opacity))
    return Overlay(_times(overlay.pixels, np.asarray(part)), overlay.corner)


def masks_on_plane(sheets: tuple[Sheet, ...], axis: int, index: int) -> Overlay | None:
    """Return the sheets of one slice, later ones over earlier ones; None for no mask."""
    parts: list[tuple[Packed, tuple[int, int]]] = []
    for sheet in sheets:
        labels = sheet.labels
        inside = index - labels.corner[axis]
        if not 0 <= inside < labels.shape[axis]:
            continue
        key: list[Any] = [slice(None)] * 3
        key[axis] = inside
        colours = sheet.colours(labels[tuple(key)])
        parts.append((colours, (labels.corner[_ROW_AXIS[axis]], labels.corner[_COLUMN_AXIS[axis]])))
    return _merged(parts)


def _plane_hu(scene: PlaneScene, axis: int, index: int, size: int) -> npt.NDArray[Any]:
    if scene.slab is None:
        return np.asarray(scene.ct_zyx[_across(axis, index)])
    start, stop = scene.slab.range_of(index, size, scene.grid.spacing_mm_zyx[axis])
    if stop - start == 1:
        return np.asarray(scene.ct_zyx[_across(axis, start)])
    slab = scene.ct_zyx[_across(axis, slice(start, stop))]
    if scene.slab.kind == "mip":
        return np.asarray(slab.max(axis=axis))
    if scene.slab.kind == "minip":
        return np.asarray(slab.min(axis=axis))
    return np.asarray(slab.mean(axis=axis, dtype=np.float32))


def _across(axis: int, part: int | slice) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * 3
    key[axis] = part
    return tuple(key)


# -------------------------------------------------------------------------------------- colours


def _windowed(hu: npt.NDArray[Any], lo: float, hi: float) -> Grey:
    if hu.dtype == np.int16:
        # Twice as fast as arithmetic: one look-up a voxel instead of four passes over the plane.
        return np.asarray(_window_table(lo, hi).take(np.ascontiguousarray(hu).view(np.uint16)))
    return _grey_levels(hu.astype(np.float32), lo, hi)


@lru_cache(maxsize=4)
def _window_table(lo: float, hi: float) -> Grey:
    """Return the grey of every int16, by its bits read as uint16."""
    hu = np.arange(_INT16_COUNT, dtype=np.uint16).view(np.int16).astype(np.float32)
    return _grey_levels(hu, lo, hi)


def _grey_levels(hu: npt.NDArray[np.float32], lo: float, hi: float) -> Grey:
    level = (hu - lo) * (255.0 / max(hi - lo, 1e-6))
    return np.asarray(np.rint(np.clip(level, 0.0, 255.0)).astype(np.uint8))


def _colouring(labels: StyledLabels, opacity: float) -> Colouring:
    """Return what turns a styled plane into colours: one look-up a voxel.

    The values of a wide table are those of the masks and the same plus 32768 for outlines, so
    that both halves fit one short table.
    """
    look, last = labels.look, max(labels.table, default=0)
    rows = np.zeros(256 if labels.edge_offset < _WIDE_OFFSET else 2 * (last + 1), np.uint32)
    outlines = labels.edge_offset if labels.edge_offset < _WIDE_OFFSET else last + 1
    for value, (_, colour) in labels.table.items():
        rows[value] = _packed(colour, look.fill_alpha * opacity)
        rows[value + outlines] = _packed(colour, look.outline_alpha * opacity)

    def narrow(plane: npt.NDArray[np.unsignedinteger]) -> Packed:
        return np.asarray(rows.take(plane))

    def wide(plane: npt.NDArray[np.unsignedinteger]) -> Packed:
        edge = plane >= _WIDE_OFFSET
        value = (plane & np.uint16(_WIDE_OFFSET - 1)).astype(np.intp)
        value[value > last] = 0
        return np.asarray(rows.take(value + edge * outlines))

    return narrow if labels.edge_offset < _WIDE_OFFSET else wide


def _packed(colour: tuple[int, int, int], alpha: float) -> int:
    red, green, blue = (round(part * alpha) for part in colour)
    return round(255 * alpha) << 24 | red << 16 | green << 8 | blue


def _merged(parts: list[tuple[Packed, tuple[int, int]]]) -> Overlay | None:
    """Return all parts as one, later ones over earlier ones."""
    if not parts:
        return None
    first = [corner for _, corner in parts]
    last = [(c[0] + p.shape[0], c[1] + p.shape[1]) for p, c in parts]
    top, left = min(c[0] for c in first), min(c[1] for c in first)
    high, wide = max(c[0] for c in last) - top, max(c[1] for c in last) - left
    pixels, corner = parts[0]
    if corner != (top, left) or pixels.shape != (high, wide):
        pixels = np.zeros((high, wide), np.uint32)
        pixels[_inside(parts[0], top, left)] = parts[0][0]
    for part in parts[1:]:
        _lay_over(pixels[_inside(part, top, left)], part[0])
    return Overlay(pixels, (top, left))


def _inside(part: tuple[Packed, tuple[int, int]], top: int, left: int) -> tuple[slice, slice]:
    (high, wide), (row, column) = part[0].shape, part[1]
    return (
        slice(row - top, row - top + high),
        slice(column - left, column - left + wide),
    )


def _lay_over(below: Packed, above: Packed) -> None:
    """Lay colours over others in place: above + below * (1 - alpha), two channels at a time."""
    where = np.flatnonzero(above)
    if not len(where):
        return
    rows, columns = np.divmod(where, above.shape[1])
    new = above[rows, columns]
    clear = np.uint32(255) - (new >> np.uint32(24))
    old = below[rows, columns]
    below[rows, columns] = new + _times(old, clear)


def _times(colours: Packed, of_255: Packed) -> Packed:
    """Return packed colours times a part of 255, rounded."""
    low = (colours & _RED_BLUE) * of_255 + _HALVES
    high = ((colours >> _EIGHT) & _RED_BLUE) * of_255 + _HALVES
    low = ((low + ((low >> _EIGHT) & _RED_BLUE)) >> _EIGHT) & _RED_BLUE
    high = (high + ((high >> _EIGHT) & _RED_BLUE)) & ~_RED_BLUE
    return np.asarray(low | high)


def _over_grey(colours: Packed, grey: Grey) -> npt.NDArray[np.uint8]:
    """Return (rows, columns, 3): packed colours over grey."""
    level = grey.astype(np.uint32)
    below = level << np.uint32(16) | level << _EIGHT | level
    both = colours + _times(below, np.uint32(255) - (colours >> np.uint32(24)))
    out = np.empty((*grey.shape, 3), np.uint8)
    for channel, shift in enumerate((16, 8, 0)):
        out[..., channel] = both >> np.uint32(shift)
    return out
