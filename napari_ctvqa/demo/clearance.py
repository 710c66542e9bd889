"""How far a lesion's surface lies from a vessel, from their parameters alone.

A lesion is painted at unbent positions, the anatomy at bent ones. Both are closed forms: points of
the lesion's surface are bent as the anatomy's positions are, and held against the vessel's curve.
Nothing here looks at a voxel.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo import vessels
from napari_ctvqa.demo.shapes import path
from napari_ctvqa.demo.space import WARP_AMPLITUDE_MM, WARP_WAVELENGTH_MM, axes_mm, waves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.demo.parameters import CaseParameters, Lesion
    from napari_ctvqa.demo.vessels import Course

Points = npt.NDArray[np.float64]

COURSES: Mapping[str, tuple[Course, ...]] = {
    "aorta": vessels.AORTA,
    "postcava": vessels.POSTCAVA,
    "portal_vein_and_splenic_vein": vessels.PORTAL,
    "celiac_trunk": vessels.CELIAC,
    "superior_mesenteric_artery": vessels.MESENTERIC_ARTERY,
}
_POINTS = 4000


def clearance_mm(case: CaseParameters, lesion: Lesion, vessel: str) -> float:
    """Return the distance between a lesion's surface and a vessel's, mm; negative where they meet.

    Known to about a millimetre: the bend stretches lengths by a few percent.
    """
    bent = _bent(case.habitus.seed, _surface(lesion))
    return min(float(_level(course, bent).min()) for course in COURSES[vessel])


def _surface(lesion: Lesion) -> Points:
    """Return points spread over a lesion's surface, bump included: x, y, z in mm."""
    number = np.arange(_POINTS) + 0.5
    polar = np.arccos(1 - 2 * number / _POINTS)
    azimuth = math.pi * (1 + math.sqrt(5)) * number
    a, b, c = lesion.semi_mm
    x, y, z = a * np.cos(azimuth) * np.sin(polar), b * np.sin(azimuth) * np.sin(polar), c
    angle = np.arctan2(y, x)
    odd = 0.7 * np.cos(3 * angle + 0.6) + 0.3 * np.cos(5 * angle - 1.1)
    scale = 1 + lesion.bump * odd
    cos, sin = math.cos(math.radians(lesion.turn_deg)), math.sin(math.radians(lesion.turn_deg))
    height = float(axes_mm()[2][lesion.centre_slice])
    return np.stack(
        [
            lesion.centre_mm[0] + scale * (cos * x - sin * y),
            lesion.centre_mm[1] + scale * (sin * x + cos * y),
            height + z * np.cos(polar),
        ],
        axis=1,
    )


def _bent(seed: int, points: Points) -> Points:
    x, y, z = points.T
    moved = [
        base + waves(seed * 10 + n, WARP_AMPLITUDE_MM, WARP_WAVELENGTH_MM)(x, y, z)
        for n, base in enumerate((x, y, z))
    ]
    return np.stack(moved, axis=1)


def _level(course: Course, points: Points) -> Points:
    """Return the distance of points from the surface of a tube, negative inside."""
    best = np.full(len(points), np.inf)
    for start, end in itertools.pairwise(path(course)):
        step = end - start
        length = max(float(np.linalg.norm(step[:3])), 1e-6)
        along = np.clip((points - start[:3]) @ step[:3] / length**2, 0, 1)
        apart = np.linalg.norm(points - start[:3] - along[:, None] * step[:3], axis=1)
        best = np.minimum(best, apart - (start[3] + along * step[3]))
    return best
