"""Lesions: solids of closed form, painted first, so that nothing changes their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Owner, Painted, trimmed, union
from napari_ctvqa.demo.parameters import CaseParameters, Lesion, voxels_of
from napari_ctvqa.demo.shapes import ellipsoid, lowest
from napari_ctvqa.demo.space import axes_mm

if TYPE_CHECKING:
    from collections.abc import Mapping


def paint_lesions(canvas: Canvas, case: CaseParameters) -> dict[str, Painted]:
    """Paint a case's lesions and remember their masks; return each by the lesion's own name."""
    painted = {lesion.name: _paint(canvas, lesion) for lesion in case.lesions}
    for mask in {name for lesion in case.lesions for name in lesion.masks} | set(case.empty_masks):
        canvas.masks[mask] = union([painted[x.name] for x in case.lesions if mask in x.masks])
    return painted


def lesions_in(case: CaseParameters, organ: str, painted: Mapping[str, Painted]) -> list[Painted]:
    """Return the painted lesions of one organ."""
    return [painted[lesion.name] for lesion in case.lesions if lesion.organ == organ]


def lesions_of_part(
    case: CaseParameters, part: str, painted: Mapping[str, Painted]
) -> list[Painted]:
    """Return the painted lesions that lie in one part of an organ; none spans two parts here."""
    return [painted[lesion.name] for lesion in case.lesions if part in lesion.shares]


def _paint(canvas: Canvas, lesion: Lesion) -> Painted:
    """Paint one lesion at unbent positions: the warp of the anatomy must not change its size."""
    x, y, z = axes_mm()
    cx, cy = lesion.centre_mm
    cz = float(z[lesion.centre_slice])
    box = canvas.space.box((cx, cy, cz), (cx, cy, cz), max(lesion.semi_mm) * 1.3)
    at = (x[None, None, box[2]], y[None, box[1], None], z[box[0], None, None])
    size = np.float32(np.cbrt(np.prod(lesion.semi_mm)))
    radius = ellipsoid(at, (cx, cy, cz), lesion.semi_mm, lesion.turn_deg) + size
    angle = np.arctan2(at[1] - cy, at[0] - cx) - np.radians(lesion.turn_deg)
    odd = 0.7 * np.cos(3 * angle + 0.6) + 0.3 * np.cos(5 * angle - 1.1)
    level = radius / (1 + np.float32(lesion.bump) * odd) - size
    selection = lowest(level, canvas.free(box), voxels_of(lesion.volume_cm3))
    canvas.fill(box, selection, _inside(lesion, level, canvas.grain[box]), Owner.TAKEN)
    return trimmed(box, selection)


def _inside(lesion: Lesion, level: np.ndarray, grain: np.ndarray) -> np.ndarray:
    """Return a solid lesion's attenuation: darker core, uneven rim; cysts are even."""
    if lesion.hu < 20:
        return np.full(level.shape, lesion.hu, np.float32)
    depth = np.clip(-level / max(lesion.semi_mm), 0, 1)
    values: np.ndarray = lesion.hu + 12 - 34 * depth + 5 * grain
    return values
