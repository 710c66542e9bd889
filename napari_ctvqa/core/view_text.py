"""What stands beside a picture, as text: slice, position, window, zoom, what is under the pointer.

One place, so that the window, an export and a film say the same. Slices are counted from 1 as
shown, as readers do; file indices from 0, as in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.geometry import OBLIQUE_DEG
from napari_ctvqa.core.measuring import NO_VOXELS, PROBE_RADIUS_MM, circle_statistics
from napari_ctvqa.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.plane_pictures import Slab
    from napari_ctvqa.core.windows import Preset

PLANES = ("axial", "coronal", "sagittal")
"""By the display axis (z, y, x) that is not displayed."""

Voxel = tuple[int, int, int]

NOTHING = "—"
_ENDS = (("S", "I"), ("A", "P"), ("R", "L"))
_RAS_OF_DISPLAY = (2, 1, 0)
_FILE_AXES = "ijk"


def slice_text(grid: Grid, axis: int, index: int) -> str:
    """Return ``"Axial · slice 57 of 112"`` for a display index along a display axis."""
    return f"{PLANES[axis].capitalize()} · slice {index + 1} of {grid.shape_zyx[axis]}"


def file_slice_text(grid: Grid, axis: int, index: int) -> str:
    """Return ``"file k 55 (from 0)"``, or that the picture was resampled and has none."""
    if grid.file is None:
        return "resampled for display, no file slice"
    found = grid.file_slice(axis, index)
    assert found is not None  # only a resampled grid has no file slices
    file_axis, file_index = found
    return f"file {_FILE_AXES[file_axis]} {file_index} (from 0)"


def position_text(grid: Grid, axis: int, index: int) -> str:
    """Return ``"S 123.4 mm"``: how far the slice's centre lies to that side of the origin."""
    centre = [(size - 1) / 2 for size in grid.shape_zyx]
    centre[axis] = index
    ras_axis = _RAS_OF_DISPLAY[axis]
    mm = round(float(grid.ras_mm(centre)[ras_axis]), 1)
    at_centre = " at its centre" if grid.oblique_deg > OBLIQUE_DEG else ""
    return f"{_ENDS[axis][0 if mm >= 0 else 1]} {abs(mm):.1f} mm{at_centre}"


def slab_text(slab: Slab, grid: Grid, axis: int, index: int) -> tuple[str, ...]:
    """Return what is drawn as one slice, e.g. ``"MIP of 7 slices, 10.5 mm"``.

    And that the HU under the pointer are not those of the picture. Nothing for a single slice.
    """
    spacing_mm = grid.spacing_mm_zyx[axis]
    start, stop = slab.range_of(index, grid.shape_zyx[axis], spacing_mm)
    if stop - start < 2:
        return ()
    name = {"mip": "MIP", "mean": "mean", "minip": "MinIP"}[slab.kind]
    thick_mm = (stop - start) * spacing_mm
    return f"{name} of {stop - start} slices, {thick_mm:.1f} mm", "masks, HU: middle slice"


def window_text(width: float, level: float, presets: Iterable[Preset] = ()) -> str:
    """Return ``"W 400 L 40 HU · abdomen"``; the name only where a preset has these numbers."""
    name = next(
        (p.name for p in presets if abs(p.width - width) < 0.5 and abs(p.level - level) < 0.5), ""
    )
    return f"W {width:.0f} L {level:.0f} HU" + (f" · {name}" if name else "")


def zoom_text(px_per_mm: float) -> str:
    """Return ``"2.4 px/mm"``."""
    return f"{px_per_mm:.2g} px/mm" if px_per_mm < 10 else f"{px_per_mm:.0f} px/mm"


def structures_at(masks: Iterable[Mask], index_zyx: Voxel) -> list[Mask]:
    """Return every mask that holds this voxel of the display grid, overlapping ones too."""
    return [mask for mask in masks if _holds(mask, index_zyx)]


PROBE_FIELDS = ("HU", "mean", "labels", "voxel", "file", "LPS", "RAS")


def probe_fields(
    case: Case | None,
    index_zyx: npt.ArrayLike | None,
    extra: Iterable[Mask] = (),
    *,
    plane: int = 0,
    radius_mm: float = PROBE_RADIUS_MM,
) -> dict[str, str]:
    """Return what lies under the pointer: HU, mean HU, labels, voxel, file voxel, LPS mm, RAS mm.

    ``index_zyx`` is a fractional index on the display grid. Outside the picture, or without a
    case, every field is an em dash; where the geometry is not trusted the two positions are.
    A sheared volume is looked up in the file's own voxels, not in the resampled picture. The mean
    is that of the voxels of the slice along ``plane`` whose centre lies within the radius.
    """
    fields = dict.fromkeys(PROBE_FIELDS, NOTHING)
    if case is None or index_zyx is None:
        return fields
    shown, point = case.volume.display_grid, np.asarray(index_zyx, dtype=np.float64)
    voxel = _nearest(point)
    if not _inside(voxel, shown.shape_zyx):
        return fields
    ras_mm = shown.ras_mm(point)
    if case.report.side_trusted:
        fields["RAS"] = _mm(ras_mm)
        fields["LPS"] = _mm(ras_mm * (-1, -1, 1))
    fields["mean"] = circle_text(case, plane, point, radius_mm)
    masks = structures_at((*case.masks.values(), *extra), voxel)
    fields["labels"] = ", ".join(f"{label(m.structure)} ({m.source})" for m in masks) or NOTHING
    z, y, x = voxel
    fields["voxel"] = f"z {z + 1} y {y + 1} x {x + 1}"
    own, grid = voxel, case.volume.grid
    if grid is not shown:
        own = _nearest(grid.index_zyx(shown.ras_mm(voxel)))
    if _inside(own, grid.shape_zyx):
        fields["HU"] = f"{case.volume.array_zyx[own]:.0f}"
        i, j, k = (int(part) for part in grid.file_index_ijk(own))
        fields["file"] = f"i {i} j {j} k {k}"
    return fields


def circle_text(
    case: Case, plane: int, index_zyx: npt.NDArray[np.float64], radius_mm: float
) -> str:
    """Return ``"45.2 ± 12.1 (r 3 mm, 21 voxels)"`` of the circle around a point of a slice.

    Mean and SD (population) of HU. Where the geometry is not trusted the radius in mm is left
    out; where HU cannot be measured there is an em dash.
    """
    found = circle_statistics(case.volume, plane, index_zyx, radius_mm)
    radius = f"r {radius_mm:g} mm" if case.report.side_trusted else ""
    if found.mean_hu is None or found.sd_hu is None:
        said = NO_VOXELS if found.problem == NO_VOXELS else NOTHING
        return f"{said} ({radius})" if said == NO_VOXELS and radius else said
    count = f"{found.voxels} voxel{'' if found.voxels == 1 else 's'}"
    beside = ", ".join(part for part in (radius, count) if part)
    return f"{tenth(found.mean_hu)} ± {tenth(found.sd_hu)} ({beside})"


def _holds(mask: Mask, index_zyx: Voxel) -> bool:
    box, crop = mask.region.box_zyx, mask.region.crop_zyx
    if box is None or crop is None:
        return False
    inside = [part - edge.start for part, edge in zip(index_zyx, box, strict=True)]
    within = all(0 <= part < size for part, size in zip(inside, crop.shape, strict=True))
    return within and bool(crop[tuple(inside)])


def _nearest(point: npt.NDArray[np.float64]) -> Voxel:
    z, y, x = (int(part) for part in np.floor(point + 0.5))
    return z, y, x


def _inside(voxel: Voxel, shape_zyx: tuple[int, int, int]) -> bool:
    return all(0 <= part < size for part, size in zip(voxel, shape_zyx, strict=True))


def _mm(point: npt.NDArray[np.float64]) -> str:
    return " ".join(tenth(float(part)) for part in point)


def tenth(value: float) -> str:
    """Return a number with one decimal; never "-0.0", which would look like a side."""
    return f"{round(value, 1) + 0.0:.1f}"
