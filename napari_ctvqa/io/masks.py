"""Read mask files into regions: integers without loss, only the bounding box kept.

A file is inflated slab by slab; each slab is looked at while it is in the processor's cache, and
only the part around set voxels stays. A mask on another grid is put on the CT's grid through
world coordinates; where that cannot be trusted the mask is a problem and the case goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import (
    GeometryWarning,
    Level,
    Mask,
    MaskFile,
    MaskProblem,
    Region,
)
from napari_ctvqa.core.errors import CtvqaError, GeometryError, InputFileError
from napari_ctvqa.core.geometry import Grid, grid_of_file, to_display
from napari_ctvqa.core.names import canonical, is_lesion
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.core.sampling import grids_overlap, resample_region
from napari_ctvqa.io.geometry_checks import VOLUME_CAVEAT, check_mask_header, pixdim_affine
from napari_ctvqa.io.nifti import NiftiFile, as_integers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from napari_ctvqa.io.nifti import NiftiHeader

BORDER_CAVEAT = "touches the border of the volume"
OFF_GRID_CAVEAT = "resampled to the CT's grid for display; measured on its own"
ELSEWHERE_CAVEAT = "lies outside the CT"


@dataclass(frozen=True, eq=False)
class Frame:
    """What masks are placed on: the CT's grids, known from its header before its voxels."""

    grid: Grid
    display_grid: Grid
    has_world: bool
    caveats: tuple[str, ...] = ()
    """What every measured mask inherits from the CT's own header."""
    other: Grid | None = None
    """The CT's grid by the form of its header that is not used, where it has both."""


@dataclass(frozen=True, eq=False)
class _Placement:
    file_grid: Grid
    """By which the file's axes are turned; the mask's file may lie in another order."""
    grid: Grid
    """What the region lies on: the CT's own object where the two grids agree."""
    warnings: tuple[GeometryWarning, ...] = ()
    caveats: tuple[str, ...] = ()


class _Unplaceable(GeometryError):
    def __init__(self, warning: GeometryWarning) -> None:
        super().__init__(warning.message)
        self.warning = warning


def read_mask_file(files: Sequence[MaskFile], frame: Frame) -> list[Mask | MaskProblem]:
    """Read the masks that lie in one file: one binary mask, or several labels.

    Never raises for a bad file: each of its masks becomes a MaskProblem.
    """
    try:
        with NiftiFile(files[0].path) as file:
            placement = _place(file.header, frame)
            if files[0].label is None:
                regions = [_binary_region(file, placement.file_grid)]
            else:
                regions = _label_regions(file, placement.file_grid, [f.label or 0 for f in files])
    except _Unplaceable as error:
        return [_problem(f, str(error), (error.warning,)) for f in files]
    except CtvqaError as error:
        return [_problem(f, str(error)) for f in files]
    except MemoryError:
        text = f"{files[0].path}: not enough memory to read this mask. Close other programs."
        return [_problem(f, text) for f in files]
    regions = [replace(region, grid=placement.grid) for region in regions]
    return [_mask(f, r, placement, frame) for f, r in zip(files, regions, strict=True)]


def _problem(
    file: MaskFile, message: str, warnings: tuple[GeometryWarning, ...] = ()
) -> MaskProblem:
    return MaskProblem(file.name, canonical(file.name), message, warnings)


def _mask(file: MaskFile, own: Region, placement: _Placement, frame: Frame) -> Mask:
    warnings, caveats = list(placement.warnings), [*frame.caveats, *placement.caveats]
    if own.touches_border:
        caveats.append(BORDER_CAVEAT)
    if own.grid is frame.display_grid:
        region = own
    else:
        region = resample_region(own, frame.display_grid)
        if own.grid is not frame.grid and not own.empty and region.empty:
            warnings = [_elsewhere(file.path)]
            caveats.append(ELSEWHERE_CAVEAT)
    return Mask(
        name=file.name,
        structure=canonical(file.name),
        source=file.source,
        region=region,
        own_region=own,
        path=file.path,
        label=file.label,
        lesion=is_lesion(file.name),
        caveats=tuple(dict.fromkeys(caveats)),
        warnings=tuple(warnings),
    )


def _place(header: NiftiHeader, frame: Frame) -> _Placement:
    """Return the grid a mask lies on, the CT's own object where both agree."""
    if header.has_world != frame.has_world:
        raise _Unplaceable(_codes(header, frame))
    grid = grid_of_file(header.space, frame.grid)
    forms = check_mask_header(header, grid, frame.grid, frame.other)
    if forms is not None and forms.level is Level.RED:
        raise _Unplaceable(replace(forms, message=f"{forms.message} It is not shown."))
    doubt = pixdim_affine(header)
    caveats = () if doubt is None else (VOLUME_CAVEAT,)
    warnings = tuple(warning for warning in (forms, doubt) if warning is not None)
    if grid.same_as(frame.grid):
        return _Placement(grid, frame.grid, warnings, caveats)
    _refuse_contradiction(header, grid, frame.grid)
    if not grids_overlap(None, grid, frame.grid):
        return _Placement(grid, grid, (*warnings, _elsewhere(header.path)), caveats)
    return _Placement(
        grid, grid, (*warnings, _off_grid(header, grid, frame.grid)), (*caveats, OFF_GRID_CAVEAT)
    )


def _codes(header: NiftiHeader, frame: Frame) -> GeometryWarning:
    which = "the mask has qform and sform code 0" if frame.has_world else "only the mask has a code"
    return GeometryWarning(
        "codes_zero",
        Level.RED,
        f"{header.path.name}: {which}, so mask and CT share no world position and it is not "
        "shown. Save the mask again with the CT's header.",
    )


def _refuse_contradiction(header: NiftiHeader, grid: Grid, ct: Grid) -> None:
    """Raise for a shape that is not the CT's although the header says it lies on the CT's grid."""
    own, other = header.space.shape_ijk, ct.file.shape_ijk if ct.file else (0, 0, 0)
    if grid.shape_zyx == ct.shape_zyx:
        return
    turned = [
        order
        for order in permutations(range(3))
        if tuple(grid.shape_zyx[axis] for axis in order) == ct.shape_zyx
    ]
    copied = bool(
        np.abs(grid.affine_zyx_to_ras[:3, :3] - ct.affine_zyx_to_ras[:3, :3]).max() < 1e-3
        and _first_voxel_distance(header, ct) < 1e-3
    )
    if not turned and not copied:
        return
    if len(turned) == 1:
        assert ct.file is not None
        named = "".join("ijk"[_file_axis(grid, ct, turned[0], axis)] for axis in range(3))
        how = f"with its axes in the order {named} it would be the CT's; save it again that way"
    elif turned:
        how = "several orders of its axes would fit; save it again from its source"
    else:
        how = "its header is a copy of the CT's; save it again with its own"
    raise _Unplaceable(
        GeometryWarning(
            "mask_shape",
            Level.RED,
            f"{header.path.name}: its shape {own} is not the CT's {other}, and its header does "
            f"not explain why; {how}. It is not shown.",
        )
    )


def _file_axis(grid: Grid, ct: Grid, order: tuple[int, ...], ct_file_axis: int) -> int:
    """Return which axis of the mask's file must stand where the CT's file axis stands."""
    display = ct.file_axis_of.index(ct_file_axis)
    return grid.file_axis_of[order[display]]


def _first_voxel_distance(header: NiftiHeader, ct: Grid) -> float:
    """Return how far the two files' first voxels lie apart, in the CT's voxels."""
    assert ct.file is not None
    return float(
        np.abs(
            ct.index_zyx(header.space.affine_ras[:3, 3]) - ct.index_zyx(ct.file.affine_ras[:3, 3])
        ).max()
    )


def _elsewhere(path: Path) -> GeometryWarning:
    return GeometryWarning(
        "mask_elsewhere",
        Level.RED,
        f"{path.name}: does not reach into the CT's box, so nothing of it is drawn. It belongs to "
        "another scan or its header is wrong; give the mask of this case.",
    )


def _off_grid(header: NiftiHeader, grid: Grid, ct: Grid) -> GeometryWarning:
    if grid.shape_zyx == ct.shape_zyx:
        how = f"up to {ct.corner_distance_voxels(grid):.3g} voxels off"
    else:
        how = f"shape {header.space.shape_ijk}"
    return GeometryWarning(
        "mask_off_grid",
        Level.AMBER,
        f"{header.path.name}: not on the CT's grid ({how}). It is drawn resampled (nearest voxel) "
        "and measured on its own grid; check its outline on the CT.",
    )


def _binary_region(file: NiftiFile, grid: Grid) -> Region:
    """Return the set voxels of a file that holds one mask.

    Raises
    ------
    InputFileError
        When the file holds more than one value besides 0.
    """
    pieces: list[tuple[tuple[int, int, int], npt.NDArray[np.bool_]]] = []
    value = 0
    for first, slab in file.slabs():
        stored = slab if slab.flags.c_contiguous else np.ascontiguousarray(slab)
        if not file.header.scaled and not stored.any():
            continue
        labels = as_integers(stored, file.header)
        box = _bounds(labels)
        if box is None:
            continue
        part = labels[box]
        inside = part != 0
        value = value or int(part.max())
        if value < 0 or np.count_nonzero(part == value) != np.count_nonzero(inside):
            raise _several_values(file, part, value)
        pieces.append(((first + box[0].start, box[1].start, box[2].start), inside))
    return joined_region(pieces, grid)


def _several_values(file: NiftiFile, part: npt.NDArray[np.integer], value: int) -> InputFileError:
    values = sorted({int(v) for v in np.unique(part)} - {0} | {value})
    shown = ", ".join(str(v) for v in values[:6])
    return InputFileError(
        file.path,
        f"holds the values {shown}{', …' if len(values) > 6 else ''}; one value besides 0 was "
        "expected in the mask of one structure.",
        hint="Name its labels with --labels FILE.json, or split it into single masks.",
    )


def _bounds(labels: npt.NDArray[np.integer]) -> tuple[slice, slice, slice] | None:
    """Return the box around the set voxels of a slab (k, j, i)."""
    plane = np.bitwise_or.reduce(labels, axis=0)
    columns = np.flatnonzero(plane.any(axis=0))
    if not len(columns):
        return None
    rows = np.flatnonzero(plane.any(axis=1))
    depths = np.flatnonzero(labels.reshape(len(labels), -1).any(axis=1))
    return (
        slice(int(depths[0]), int(depths[-1]) + 1),
        slice(int(rows[0]), int(rows[-1]) + 1),
        slice(int(columns[0]), int(columns[-1]) + 1),
    )


def joined_region(
    pieces: list[tuple[tuple[int, int, int], npt.NDArray[np.bool_]]], grid: Grid
) -> Region:
    """Return the region of boxes of a file: each (first k, j, i) and what is set, (k, j, i)."""
    if not pieces:
        return Region(grid, None, None, 0)
    low = [min(start[a] for start, _ in pieces) for a in range(3)]
    high = [max(start[a] + piece.shape[a] for start, piece in pieces) for a in range(3)]
    inside = np.zeros([b - a for a, b in zip(low, high, strict=True)], dtype=bool)
    for start, piece in pieces:
        at = tuple(
            slice(s - lo, s - lo + n) for s, lo, n in zip(start, low, piece.shape, strict=True)
        )
        inside[at] = piece
    return _file_part(inside, (low[0], low[1], low[2]), grid)


def _file_part(
    inside_kji: npt.NDArray[np.bool_], start_kji: tuple[int, int, int], grid: Grid
) -> Region:
    """Turn a part of the file, (k, j, i), into a region in display order."""
    start = []
    for axis, (file_axis, back) in enumerate(zip(grid.file_axis_of, grid.flipped, strict=True)):
        first, count = start_kji[2 - file_axis], inside_kji.shape[2 - file_axis]
        start.append(grid.shape_zyx[axis] - first - count if back else first)
    part = to_display(inside_kji.transpose(2, 1, 0), grid)
    return region_of(part, grid, (start[0], start[1], start[2]))


def _label_regions(file: NiftiFile, grid: Grid, wanted: Sequence[int]) -> list[Region]:
    """Return the region of each wanted value, in that order; a value that is absent is empty."""
    from scipy import ndimage  # half a second to import, for label maps only

    dtype = np.uint8 if file.header.dtype.itemsize == 1 else np.uint16
    labels = np.empty(file.header.shape_kji, dtype)
    for first, slab in file.slabs():
        whole = as_integers(slab, file.header)
        if whole.size and (whole.min() < 0 or whole.max() > np.iinfo(np.uint16).max):
            raise InputFileError(
                file.path,
                f"holds labels from {whole.min()} to {whole.max()}; 0 to 65535 are read.",
                hint="Renumber the labels and their table.",
            )
        if dtype is np.uint8 and whole.max() > 255:
            labels, dtype = labels.astype(np.uint16), np.uint16  # type: ignore[assignment]
        labels[first : first + len(whole)] = whole
    boxes = ndimage.find_objects(labels, max_label=max(wanted))
    return [_label_region(labels, boxes[value - 1], value, grid) for value in wanted]


def _label_region(
    labels: npt.NDArray[np.unsignedinteger],
    box: tuple[slice, ...] | None,
    value: int,
    grid: Grid,
) -> Region:
    if box is None:
        return Region(grid, None, None, 0)
    start = (box[0].start, box[1].start, box[2].start)
    return _file_part(labels[box] == value, start, grid)
