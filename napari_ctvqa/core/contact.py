"""Contact of a tumour with a vessel or an organ: how much surface, and how far around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.distances import surface_index, surface_mm, within

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region

Points = npt.NDArray[np.float64]

CONTACT_MM = 4.0
"""RadGPT grows a tumour by four steps of 1 mm and looks what it then meets."""
_BRANCH_MM = 10.0
"""How far beyond the contact the vessel's direction is taken from."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Contact of a tumour with a vessel.

    ``angle_deg`` is the largest share of the circumference in contact on one cross-section, in
    degrees, 0 without contact and 360 all around; ``surface_voxels`` the vessel's surface voxels
    in contact.
    """

    angle_deg: float
    surface_voxels: int


def contact_around(vessel: Region, tumour: Region, within_mm: float = CONTACT_MM) -> Contact | None:
    """Return how far around a vessel a tumour touches it; None where one of the two is empty.

    A surface voxel of the vessel is in contact where a tumour voxel's centre lies within
    ``within_mm`` of its own. The vessel near the contact is cut across its main direction (first
    principal axis) into slabs of one voxel; on each slab the surface voxels, sorted by angle around
    the slab's centre, share the circumference, and those in contact are added up. The largest sum
    counts.

    RadGPT turns the vessel's main branch upright and counts degrees on a 1 mm grid; where several
    vessels of one mask run side by side both are rough.
    """
    if vessel.empty or tumour.empty:
        return None
    points_mm = surface_mm(vessel)
    touched = within(points_mm, tumour, within_mm)
    if not touched.any():
        return Contact(0.0, 0)
    branch = _branch(points_mm, points_mm[touched])
    angle = _angle_deg(points_mm[branch], touched[branch], max(vessel.grid.spacing_mm_zyx))
    return Contact(angle, int(touched.sum()))


def _branch(points_mm: Points, touched_mm: Points) -> npt.NDArray[np.bool_]:
    """Return which surface points belong to the vessel near the contact."""
    low = touched_mm.min(axis=0) - _BRANCH_MM
    high = touched_mm.max(axis=0) + _BRANCH_MM
    return np.asarray(((points_mm >= low) & (points_mm <= high)).all(axis=1), dtype=np.bool_)


def _angle_deg(points_mm: Points, touched: npt.NDArray[np.bool_], slab_mm: float) -> float:
    centred = points_mm - points_mm.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    along, across = centred @ axes[0], centred @ axes[1:].T
    slabs = np.floor((along - along.min()) / slab_mm).astype(np.intp)
    return max(
        _covered_deg(across[slabs == slab], touched[slabs == slab])
        for slab in np.unique(slabs[touched])
    )


def _covered_deg(across_mm: Points, touched: npt.NDArray[np.bool_]) -> float:
    """Return the part of a cross-section's circumference in contact, in degrees.

    Each point has the half of the angle to either neighbour.
    """
    if len(across_mm) < 3:
        return 360.0 if touched.all() else 180.0
    centred = across_mm - (across_mm.min(axis=0) + across_mm.max(axis=0)) / 2
    angles = np.degrees(np.arctan2(centred[:, 1], centred[:, 0]))
    order = np.argsort(angles)
    after = np.diff(angles[order], append=angles[order][0] + 360.0)
    owned = (after + np.roll(after, 1)) / 2
    return float(owned[touched[order]].sum())


def touching_voxels(region: Region, other: Region) -> int:
    """Return how many surface voxels of ``other`` share a face, an edge or a corner with a region.

    Voxels that both hold count too. Regions must be of one grid.
    """
    if region.box_zyx is None or region.crop_zyx is None:
        return 0
    from scipy.ndimage import binary_dilation

    grown = binary_dilation(np.pad(region.crop_zyx, 1), np.ones((3, 3, 3), bool))
    start = np.array([part.start - 1 for part in region.box_zyx])
    there = surface_index(other) - start
    valid = ((there >= 0) & (there < grown.shape)).all(axis=1)
    return int(np.count_nonzero(grown[tuple(there[valid].T)]))
