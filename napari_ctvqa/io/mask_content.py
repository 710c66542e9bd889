"""Whether a mask fits what the CT shows: an organ without air does not lie in air.

A mask that was written transposed or mirrored under the CT's own header contradicts nothing in
the headers where the CT is as wide as it is high. What lies under it does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.cases import GeometryWarning, Level
from napari_ctvqa.core.names import label
from napari_ctvqa.core.regions import overlap_voxels, same_grid
from napari_ctvqa.core.sampling import padding_limit

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.cases import Mask, Volume

SOLID = frozenset(
    ("liver", "spleen", "pancreas", "kidney_left", "kidney_right", "heart", "aorta", "postcava")
)
"""Organs that hold no air in any patient."""
AIR_BELOW_HU = -500
AIR_SHARE = 0.2
"""From this part of an organ on it is not the organ; the rim of a coarse mask is far less."""
SAMPLE_VOXELS = 200_000


def in_content(mask: Mask, volume: Volume) -> Mask:
    """Return the mask, with a warning and a caveat where much of a solid organ lies in air."""
    region = mask.own_region
    if mask.structure not in SOLID or region.empty or not _comparable(mask, volume):
        return mask
    assert region.box_zyx is not None and region.crop_zyx is not None
    step = math.ceil((region.voxels / SAMPLE_VOXELS) ** (1 / 3))
    sample = np.argwhere(region.crop_zyx[::step, ::step, ::step]) * step
    if not len(sample):
        return mask
    index = sample + [part.start for part in region.box_zyx]
    share = _air_share(volume, index)
    if share < AIR_SHARE:
        return mask
    how = ""
    if volume.grid.shape_zyx[1] == volume.grid.shape_zyx[2]:
        exchanged = _air_share(volume, index[:, [0, 2, 1]])
        if exchanged < share / 4:
            how = f" With its in-plane axes exchanged that would be {exchanged:.0%}: transposed?"
    source = mask.path.name if mask.path is not None else mask.name
    message = (
        f"{source}: {share:.0%} of the {label(mask.structure)} lies in air, so the mask does not "
        f"fit the CT (transposed, mirrored, or of another scan).{how} Check its outline before "
        "trusting anything measured on it."
    )
    warning = GeometryWarning("mask_content", Level.AMBER, message)
    caveat = f"{share:.0%} of it lies in air: the mask does not fit the CT"
    return replace(mask, warnings=(*mask.warnings, warning), caveats=(*mask.caveats, caveat))


def _comparable(mask: Mask, volume: Volume) -> bool:
    """Return whether the CT's values are HU all over the mask, and it lies voxel on voxel."""
    implausible = any(w.code == "hu_implausible" for w in volume.report.warnings)
    if implausible or not same_grid(mask.own_region.grid, volume.grid):
        return False
    holes = volume.no_number
    return holes is None or not overlap_voxels(mask.own_region, [holes])


def _air_share(volume: Volume, index_zyx: npt.NDArray[np.intp]) -> float:
    z, y, x = index_zyx.T
    values = volume.array_zyx[z, y, x].astype(np.float32)
    scanned = values[values > padding_limit(volume)]
    return float(np.mean(scanned < AIR_BELOW_HU)) if scanned.size else 0.0
