"""Measurements of regions in physical units; every number carries its unit and its caveats.

Sizes are taken on the mask's own grid (``Mask.own_region``), HU where the mask lies on the CT's
grid, so oblique and anisotropic voxels are exact and nothing is resampled twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.diameters import longest_axial_diameter
from napari_ctvqa.core.regions import (
    Components,
    components,
    difference,
    largest_component,
    same_grid,
    together,
    union,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Mask, Region, Volume

from napari_ctvqa.core.sampling import hu_sample

BORDER_CAVEAT = "touches the border of the volume: part of it may lie outside the scan"
EMPTY_CAVEAT = "the mask is empty"
NO_VOXEL = "no voxel is left to measure HU on"

UNITS = {
    "volume_cm3": "cm³",
    "mean_hu": "HU",
    "sd_hu": "HU",
    "lesion_count": "lesions",
    "largest_lesion_volume_cm3": "cm³",
    "max_diameter_mm": "mm",
    "largest_lesion_diameter_cm": "cm",
}
"""Unit of each measurement type, DeepTumorVQA's names where it has one."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number; ``value`` is None where it cannot be given, and a caveat says why."""

    measure: str
    value: float | None
    unit: str
    caveats: tuple[str, ...] = ()

    def plus(self, *caveats: str) -> Measurement:
        """Return this measurement with more caveats, each once."""
        return replace(self, caveats=tuple(dict.fromkeys((*self.caveats, *caveats))))


def border_caveats(masks: Sequence[Mask]) -> tuple[str, ...]:
    """Return the border caveat when one of the masks is cut by its grid or by the CT's."""
    cut = any(m.own_region.touches_border or m.region.touches_border for m in masks)
    return (BORDER_CAVEAT,) if cut else ()


def region_volume_cm3(region: Region) -> float:
    """Return voxel count × voxel volume, in cm³; exact on oblique and sheared grids."""
    return region.voxels * region.grid.voxel_mm3 / 1000.0


def volume_cm3(masks: Sequence[Mask]) -> Measurement:
    """Return the volume in cm³ of one structure, or of several together (union where they overlap).

    Source: RadGPT counts voxels the same way, after resampling to 1 mm; it leaves out an organ
    that touches the border, where this gives the number with a caveat.
    """
    volume = region_volume_cm3(together(masks))
    caveats = border_caveats(masks)
    if volume == 0.0:
        caveats = (EMPTY_CAVEAT, *caveats)
    return Measurement("volume_cm3", volume, UNITS["volume_cm3"], caveats)


@dataclass(frozen=True, slots=True)
class HuStatistics:
    """HU over a set of voxels; mean and SD (population) are None where they cannot be given.

    ``problem`` says why; ``caveats`` name voxels that were left out.
    """

    voxels: int
    mean_hu: float | None
    sd_hu: float | None
    problem: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class HuValues:
    """The HU that may be measured on, or the reason why none may."""

    values: npt.NDArray[Any]
    problem: str = ""
    caveats: tuple[str, ...] = ()


def hu_doubt(volume: Volume) -> str:
    """Return why no HU of a volume is to be trusted, empty where they are."""
    found = (w.message for w in volume.report.warnings if w.code == "hu_implausible")
    return next((f"HU cannot be measured: {message}" for message in found), "")


def hu_values(region: Region, volume: Volume) -> HuValues:
    """Return the HU of a region that mean something.

    None where the CT's values are no HU, or a voxel of the region holds no number in the file: a
    value that was filled in is not measured. Padding is no tissue: it is left out, like what a
    structure has beyond the border of the volume, and a caveat says how much of it.
    """
    nothing = np.zeros(0, dtype=volume.array_zyx.dtype)
    doubt = hu_doubt(volume)
    if doubt:
        return HuValues(nothing, doubt)
    found = hu_sample(volume, region)
    if found.no_number:
        problem = (
            f"HU cannot be measured: {found.no_number} of {found.values.size} voxels hold no "
            "number in the file"
        )
        return HuValues(nothing, problem)
    padded = 0 if found.padding is None else int(np.count_nonzero(found.padding))
    if found.padding is None or not padded:
        return HuValues(found.values, "" if found.values.size else NO_VOXEL)
    kept = found.values[~found.padding]
    caveat = (
        f"{padded} of {found.values.size} voxels are padding outside the scanned field and are "
        "left out"
    )
    return HuValues(kept, "" if kept.size else f"{NO_VOXEL}: {caveat}", (caveat,))


def hu_statistics(region: Region, volume: Volume) -> HuStatistics:
    """Return mean and SD of HU over a region; see ``hu_values`` for what is measured on.

    Only the voxels inside the box are gathered, in the CT's own type; sums are in float64. The SD
    is the population's (divided by n). On a grid that is not the CT's, the CT is interpolated at
    the region's voxel centres.
    """
    return statistics_of(hu_values(region, volume))


def statistics_of(found: HuValues) -> HuStatistics:
    """Return mean and SD (population) of the HU that may be measured on."""
    values = found.values
    if not values.size:
        return HuStatistics(0, None, None, found.problem, found.caveats)
    mean_hu = float(values.mean(dtype=np.float64))
    # einsum casts block by block: the squares of 16-bit HU are summed without a float64 copy
    mean_square = float(np.einsum("i,i->", values, values, dtype=np.float64)) / values.size
    sd_hu = math.sqrt(max(0.0, mean_square - mean_hu**2))
    return HuStatistics(int(values.size), mean_hu, sd_hu, "", found.caveats)


def mean_hu(masks: Sequence[Mask], lesions: Sequence[Mask], volume: Volume) -> Measurement:
    """Return the mean HU of a structure without its lesions.

    Source: RadGPT's organ HU is the mean over organ minus all lesions. An empty mask, or one that
    is all lesion, has no HU.
    """
    found = hu_statistics(without(masks, lesions), volume)
    return _of_hu("mean_hu", found.mean_hu, found.problem, found.caveats, masks)


def sd_hu(masks: Sequence[Mask], lesions: Sequence[Mask], volume: Volume) -> Measurement:
    """Return the standard deviation (population) of HU of a structure without its lesions.

    Source: RadGPT gives an organ's HU as mean ± SD over organ minus all lesions.
    """
    found = hu_statistics(without(masks, lesions), volume)
    return _of_hu("sd_hu", found.sd_hu, found.problem, found.caveats, masks)


def hu_percentile(
    masks: Sequence[Mask], lesions: Sequence[Mask], volume: Volume, percent: float
) -> Measurement:
    """Return a percentile (0 to 100) of HU of a structure without its lesions.

    Between two voxels it is interpolated linearly; 50 is the median.
    """
    found = hu_values(without(masks, lesions), volume)
    value = float(np.percentile(found.values, percent)) if found.values.size else None
    return _of_hu(f"p{percent:g}_hu", value, found.problem, found.caveats, masks)


def _of_hu(
    name: str,
    value: float | None,
    problem: str,
    caveats: tuple[str, ...],
    masks: Sequence[Mask],
) -> Measurement:
    """Return a number of HU; without one, the reason alone is its first caveat."""
    said = (problem,) if value is None else caveats
    return Measurement(name, value, "HU", (*said, *border_caveats(masks)))


def without(masks: Sequence[Mask], lesions: Sequence[Mask]) -> Region:
    """Return the voxels of the masks that are in none of the lesions."""
    organ, lesion = _on_one_grid(masks, lesions)
    return difference(organ, lesion)


def _on_one_grid(masks: Sequence[Mask], others: Sequence[Mask]) -> tuple[Region, list[Region]]:
    """Return the union of the masks and the others, on their own grid if all share one.

    Else both on the CT's grid, where masks of different grids can be put together.
    """
    grid = masks[0].own_region.grid
    if all(same_grid(grid, mask.own_region.grid) for mask in (*masks, *others)):
        return union([m.own_region for m in masks]), [m.own_region for m in others]
    return union([m.region for m in masks]), [m.region for m in others]


@dataclass(frozen=True, slots=True)
class SizeFilter:
    """Which components count as lesions.

    ``min_mm3``: smaller components do not count. ``must_survive_erosion``: components that vanish
    under a 3×3×3 erosion on a 1 mm grid do not count.
    """

    name: str = "all"
    min_mm3: float = 0.0
    must_survive_erosion: bool = False


EVERY_COMPONENT = SizeFilter()
RADGPT_10MM3 = SizeFilter("radgpt_10mm3", 10.0, True)
RADGPT_AI_50MM3 = SizeFilter("radgpt_ai_50mm3", 50.0, True)
SIZE_FILTERS = {f.name: f for f in (EVERY_COMPONENT, RADGPT_10MM3, RADGPT_AI_50MM3)}
"""By name; the two of RadGPT's code (its README's 10 mm³, and 50 mm³ for masks made by a model)."""


def counted(found: Components, size_filter: SizeFilter) -> list[int]:
    """Return the numbers of the components that the filter lets through, largest first."""
    voxel_mm3 = found.region.grid.voxel_mm3
    return [
        number
        for number in range(len(found))
        if found.voxels[number] * voxel_mm3 >= size_filter.min_mm3
        and not (
            size_filter.must_survive_erosion and _vanishes_under_erosion(found.region_of(number))
        )
    ]


def lesion_count(masks: Sequence[Mask], size_filter: SizeFilter = EVERY_COMPONENT) -> Measurement:
    """Return the number of 26-connected components of the masks' union that the filter keeps."""
    found = components(together(masks))
    kept = counted(found, size_filter)
    caveats = border_caveats(masks)
    if len(kept) < len(found):
        caveats = (
            f"{len(found) - len(kept)} of {len(found)} components left out as too small",
            *caveats,
        )
    return Measurement("lesion_count", float(len(kept)), UNITS["lesion_count"], caveats)


def largest_lesion_volume_cm3(masks: Sequence[Mask]) -> Measurement:
    """Return the volume of the largest 26-connected component, 0 for an empty mask."""
    region = together(masks)
    found = components(region)
    volume = found.voxels[0] * region.grid.voxel_mm3 / 1000.0 if len(found) else 0.0
    caveats = border_caveats(masks)
    if not len(found):
        caveats = (EMPTY_CAVEAT, *caveats)
    unit = UNITS["largest_lesion_volume_cm3"]
    return Measurement("largest_lesion_volume_cm3", volume, unit, caveats)


def max_diameter_mm(masks: Sequence[Mask]) -> Measurement:
    """Return the longest in-plane axial diameter of any 26-connected component, in mm.

    DeepTumorVQA's tool has a measure of this name and does not say which diameter it means.
    """
    found = components(together(masks))
    diameters = [
        longest_axial_diameter(found.region_of(number)) for number in _worth_measuring(found)
    ]
    return _diameter("max_diameter_mm", masks, [d.length_mm for d in diameters if d], 1.0)


def _worth_measuring(found: Components) -> list[int]:
    """Return the components whose box is not smaller in-plane than the largest one's inside.

    A component of n voxels on s slices has a diameter of at least that of a square of n/s voxels;
    one whose box has a shorter diagonal cannot be the longest. Noise of thousands of specks is
    passed over in this way.
    """
    if not len(found):
        return []
    _, y_mm, x_mm = found.region.grid.spacing_mm_zyx
    slices = found.boxes_zyx[0][0].stop - found.boxes_zyx[0][0].start
    at_least_mm = math.sqrt(found.voxels[0] / slices) * min(y_mm, x_mm)
    return [
        number
        for number, (_, y, x) in enumerate(found.boxes_zyx)
        if (y.stop - y.start) * y_mm + (x.stop - x.start) * x_mm >= at_least_mm
    ]


def largest_lesion_diameter_cm(masks: Sequence[Mask]) -> Measurement:
    """Return the longest in-plane axial diameter of the largest 26-connected component, in cm.

    Source: RadGPT's report diameters, from which DeepTumorVQA's come; not the 3-D diameter.
    """
    found = longest_axial_diameter(largest_component(together(masks)))
    lengths_mm = [found.length_mm] if found else []
    return _diameter("largest_lesion_diameter_cm", masks, lengths_mm, 0.1)


def _diameter(
    name: str, masks: Sequence[Mask], lengths_mm: Sequence[float], per_mm: float
) -> Measurement:
    value = max(lengths_mm) * per_mm if lengths_mm else None
    caveats = border_caveats(masks)
    if value is None:
        caveats = (EMPTY_CAVEAT, *caveats)
    return Measurement(name, value, UNITS[name], caveats)


def _vanishes_under_erosion(region: Region) -> bool:
    """Return whether nothing is left of a component eroded by 3×3×3 on a 1 mm grid.

    The grid of 1 mm is sampled by nearest voxel along the region's own axes.
    """
    from scipy.ndimage import binary_erosion

    crop = region.crop_zyx
    if crop is None:
        return True
    for axis, spacing_mm in enumerate(region.grid.spacing_mm_zyx):
        length = max(1, round(crop.shape[axis] * spacing_mm))
        centres = (np.arange(length) + 0.5) * crop.shape[axis] / length
        crop = crop.take(np.floor(centres).astype(np.intp), axis)
    return not binary_erosion(crop, np.ones((3, 3, 3), bool)).any()


def measured(
    name: str,
    masks: Sequence[Mask],
    volume: Volume,
    *,
    lesions: Sequence[Mask] = (),
    size_filter: SizeFilter = EVERY_COMPONENT,
) -> Measurement:
    """Return one measurement by its name.

    ``lesions`` are left out of HU; ``size_filter`` decides what counts as a lesion.

    Raises
    ------
    KeyError
        For a name that this module does not measure.
    """
    if name == "mean_hu":
        return mean_hu(masks, lesions, volume)
    if name == "lesion_count":
        return lesion_count(masks, size_filter)
    return _BY_NAME[name](masks)


_BY_NAME: dict[str, Callable[[Sequence[Mask]], Measurement]] = {
    "volume_cm3": volume_cm3,
    "largest_lesion_volume_cm3": largest_lesion_volume_cm3,
    "max_diameter_mm": max_diameter_mm,
    "largest_lesion_diameter_cm": largest_lesion_diameter_cm,
}
MEASURED = (
    "volume_cm3",
    "mean_hu",
    "max_diameter_mm",
    "lesion_count",
    "largest_lesion_volume_cm3",
    "largest_lesion_diameter_cm",
)
"""The names that ``measured`` takes: the six of DeepTumorVQA's ``measure`` tool."""
