"""Several masks that claim to be one structure: alike they are one, unlike none is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.cases import GeometryWarning, Level, Mask, MaskProblem
from napari_ctvqa.core.names import label
from napari_ctvqa.core.regions import same_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Region


def settled(items: Sequence[Mask | MaskProblem]) -> tuple[list[Mask | MaskProblem], str]:
    """Return what holds of masks that claim to be one structure, and a note for people.

    Masks with the same voxels are one: the canonically spelled, else the first. Otherwise all
    become problems: whichever were taken, questions would be answered from a choice that nobody
    made.
    """
    masks = [item for item in items if isinstance(item, Mask)]
    kept = min(masks, key=lambda mask: mask.name != mask.structure, default=None)
    if kept is not None and len(masks) == len(items):
        others = [mask for mask in masks if mask is not kept]
        if all(same_voxels(kept, mask) for mask in others):
            called = ", ".join(_called(mask) for mask in others)
            return [kept], f"{called}: the same voxels as {_called(kept)}, read as one mask."
    return _contradiction(items), ""


def same_voxels(mask: Mask, other: Mask) -> bool:
    """Return whether two masks mark the same voxels: each on its own grid, else as drawn."""
    if same_grid(mask.own_region.grid, other.own_region.grid):
        return _same(mask.own_region, other.own_region)
    return mask.own_region.empty == other.own_region.empty and _same(mask.region, other.region)


def _same(region: Region, other: Region) -> bool:
    if region.crop_zyx is None or other.crop_zyx is None:
        return region.empty and other.empty
    return region.box_zyx == other.box_zyx and np.array_equal(region.crop_zyx, other.crop_zyx)


def _contradiction(items: Sequence[Mask | MaskProblem]) -> list[Mask | MaskProblem]:
    structure = items[0].structure
    readable = [item for item in items if isinstance(item, Mask)]
    unlike = "differ" if len(readable) == len(items) else "cannot be compared"
    listed = "; ".join(_called(item) for item in items)
    message = (
        f"{len(items)} masks claim to be the {label(structure)} and {unlike}: {listed}. None of "
        "them is used: keep the right one, remove or rename the others."
    )
    warning = GeometryWarning("masks_differ", Level.AMBER, message)
    return [MaskProblem(item.name, structure, message, (*item.warnings, warning)) for item in items]


def _called(item: Mask | MaskProblem) -> str:
    if isinstance(item, MaskProblem):
        return f"{item.name} (unreadable: {item.message})"
    where = item.path.name if item.path is not None else item.name
    if item.label is not None:
        where = f"{item.name} (label {item.label} of {where})"
    return f"{where} with {item.own_region.voxels} voxels"
