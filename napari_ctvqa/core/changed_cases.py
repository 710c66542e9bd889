"""A case with one thing changed in its pixels and masks: counterfactuals. Pure, nothing is written.

Such a case is for a model to be asked about, never to be shown as the patient's. ``to_original``
says where each of its voxels lies in the CT, so that a picture of it can be placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Region
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.probes import CannotProbeError, swapped_sides
from napari_ctvqa.core.regions import same_grid
from napari_ctvqa.core.sampling import AIR_HU, resample_linear, resample_region

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Mask, Volume

Scalar = TypeVar("Scalar", bound=np.generic)
MOST_VOXELS = 300_000_000
"""Of a finer grid: 0.6 GB of int16."""


@dataclass(frozen=True, eq=False)
class ChangedCase:
    """A changed case; ``to_original`` (4 x 4) takes its display indices to the CT's.

    ``note`` says what was done, for people.
    """

    case: Case
    to_original: npt.NDArray[np.float64]
    note: str


def mirrored(case: Case) -> ChangedCase:
    """Return the case mirrored between left and right: pixels and masks, not the geometry.

    The mirror is the grid's own middle plane. A structure with a side in its name takes the other
    name, as a left kidney lies on the right now. The geometry check stays that of the file.

    Raises
    ------
    CannotProbeError
        For a sheared CT, whose grid has no plane to mirror in.
    """
    volume = case.volume
    check_straight(case)
    count = volume.grid.shape_zyx[2]
    array = volume.array_zyx[:, :, ::-1]
    holes = volume.no_number
    turned = replace(
        volume,
        array_zyx=array,
        display_zyx=array,
        no_number=None if holes is None else _mirrored(holes, volume.grid),
    )
    masks = [_mirrored_mask(mask, volume.grid) for mask in case.masks.values()]
    matrix = np.eye(4)
    matrix[2, 2], matrix[2, 3] = -1.0, count - 1
    return ChangedCase(
        _with(case, turned, {mask.structure: mask for mask in masks}),
        matrix,
        "mirrored between left and right",
    )


def other_side(structure: str) -> str:
    """Return the same structure on the other side, by the table or by the words of its name."""
    if not names.side_of(structure):
        return structure
    known = names.opposite_of(structure)
    return known or names.canonical(swapped_sides(structure.replace("_", " ")).replace(" ", "_"))


def _mirrored_mask(mask: Mask, grid: Grid) -> Mask:
    region = _mirrored(mask.region, grid)
    sided = bool(names.side_of(mask.structure))
    name = swapped_sides(mask.name.replace("_", " ")).replace(" ", "_") if sided else mask.name
    return replace(
        mask, name=name, structure=other_side(mask.structure), region=region, own_region=region
    )


def _mirrored(region: Region, grid: Grid) -> Region:
    if region.box_zyx is None or region.crop_zyx is None:
        return region
    z, y, x = region.box_zyx
    count = grid.shape_zyx[2]
    box = (z, y, slice(count - x.stop, count - x.start))
    return Region(region.grid, box, region.crop_zyx[:, :, ::-1], region.voxels)


def blank(case: Case) -> ChangedCase:
    """Return the case with air in every voxel; masks stay. Takes no memory."""
    volume = case.volume

    def air(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        return np.broadcast_to(np.asarray(AIR_HU, array.dtype), array.shape)

    array = air(volume.array_zyx)
    straight = volume.display_zyx is volume.array_zyx
    emptied = replace(
        volume,
        array_zyx=array,
        display_zyx=array if straight else air(volume.display_zyx),
        hu_min=float(AIR_HU),
        hu_max=float(AIR_HU),
        no_number=None,
        padding_hu=None,
    )
    return ChangedCase(_with(case, emptied, case.masks), np.eye(4), "every voxel is air")


def regridded(case: Case, factor: float) -> ChangedCase:
    """Return the case on voxels of ``factor`` times the edge, which fill the same space.

    HU are interpolated linearly, masks take the nearest voxel; both are measured on the new grid.

    Raises
    ------
    CannotProbeError
        For a sheared CT, and a grid of more than ``MOST_VOXELS``.
    """
    check_straight(case)
    old = case.volume.grid
    shape = tuple(max(1, round(size / factor)) for size in old.shape_zyx)
    if np.prod(shape, dtype=np.int64) > MOST_VOXELS:
        raise CannotProbeError(f"The grid would have more than {MOST_VOXELS:,} voxels.")
    matrix = np.diag([factor, factor, factor, 1.0])
    matrix[:3, 3] = (factor - 1) / 2  # outer faces stay where they are
    grid = Grid(
        (shape[0], shape[1], shape[2]),
        old.affine_zyx_to_ras @ matrix,
        file_axis_of=old.file_axis_of,  # no file has this grid, but recipes go by its axes
        flipped=old.flipped,
    )
    array = resample_linear(case.volume.array_zyx, old, grid)
    volume = replace(
        case.volume,
        array_zyx=array,
        display_zyx=array,
        grid=grid,
        display_grid=grid,
        no_number=None,
        other_grid=None,
    )
    masks = {name: _moved(mask, grid) for name, mask in case.masks.items()}
    edges = " x ".join(f"{mm:.3g}" for mm in grid.spacing_mm_zyx[::-1])
    return ChangedCase(_with(case, volume, masks), matrix, f"voxels of {edges} mm (x, y, z)")


def _moved(mask: Mask, grid: Grid) -> Mask:
    region = resample_region(mask.region, grid)
    return replace(mask, region=region, own_region=region)


def with_pixels(
    case: Case, array_zyx: npt.NDArray[np.generic], regions: Mapping[str, Region], note: str
) -> ChangedCase:
    """Return the case with other HU on the same grid, and other voxels for the named masks."""
    volume = replace(case.volume, array_zyx=array_zyx, display_zyx=array_zyx)
    masks = dict(case.masks)
    for name, region in regions.items():
        masks[name] = replace(masks[name], region=region, own_region=region)
    return ChangedCase(_with(case, volume, masks), np.eye(4), note)


def _with(case: Case, volume: Volume, masks: Mapping[str, Mask]) -> Case:
    return replace(case, volume=volume, masks=MappingProxyType(dict(masks)), label_maps={})


def check_straight(case: Case) -> None:
    """Raise CannotProbeError for a sheared CT, whose pictures are not of its own grid."""
    if not same_grid(case.volume.grid, case.volume.display_grid):
        raise CannotProbeError("The CT is sheared: what is sent is resampled already.")
