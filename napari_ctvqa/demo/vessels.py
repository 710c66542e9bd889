"""Large vessels, their branches to the organs, and the crura that lie beside the aorta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Owner, Painted, union
from napari_ctvqa.demo.shapes import Tube

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.demo.parameters import CaseParameters

Course = tuple[tuple[float, float, float, float], ...]
"""Points of x, y, z and radius, mm."""

AORTA: tuple[Course, ...] = (
    ((9, 10, -12, 8.6), (12, 11, 60, 9), (10, 10, 150, 10), (12, 12, 230, 11), (16, 20, 312, 12)),
)
POSTCAVA: tuple[Course, ...] = (
    ((-20, 14, -12, 9.5), (-22, 12, 60, 10.5), (-24, 7, 140, 12), (-26, 2, 210, 13),
     (-23, -7, 254, 13), (-6, -22, 276, 13)),
)  # fmt: skip
PORTAL: tuple[Course, ...] = (
    ((-8, -13, 116, 6.2), (-14, -13, 140, 6.8), (-32, -15, 164, 7.0), (-48, -18, 180, 6.2)),
    ((-10, -13, 128, 5), (18, -13, 138, 4.6), (48, 7, 148, 4.4), (74, 24, 160, 4.0),
     (84, 30, 172, 3.2)),
)  # fmt: skip
CELIAC: tuple[Course, ...] = (
    ((10, 2, 152, 3.4), (10, -9, 153, 3.2), (6, -15, 154, 2.8)),
    ((6, -15, 154, 2.4), (-18, -20, 158, 2.0), (-36, -22, 172, 1.7)),
    ((8, -13, 154, 2.3), (34, -2, 158, 2.0), (64, 18, 164, 1.7)),
)
MESENTERIC_ARTERY: tuple[Course, ...] = (
    ((10, 2, 138, 3.3), (8, -9, 130, 3.2), (5, -15, 108, 3.0), (2, -24, 70, 2.4),
     (-8, -28, 40, 1.8)),
)  # fmt: skip
UNNAMED_VEINS: tuple[Course, ...] = (
    ((-8, -13, 120, 5.6), (-9, -17, 96, 5.0), (-12, -26, 66, 3.8), (-20, -30, 40, 2.4)),
    ((46, 26, 112, 4.0), (30, 14, 116, 3.8), (12, -3, 118, 3.6), (-14, 4, 117, 3.8)),
    ((-46, 27, 100, 4.0), (-36, 20, 103, 4.0), (-26, 12, 106, 4.2)),
)
UNNAMED_ARTERIES: tuple[Course, ...] = (
    ((12, 12, 120, 2.6), (30, 24, 116, 2.3), (45, 29, 112, 1.9)),
    ((8, 14, 118, 2.6), (-22, 26, 106, 2.3), (-44, 30, 99, 1.9)),
)
CRURA: tuple[Course, ...] = (
    ((22, 25, 226, 4), (20, 24, 180, 4.5), (17, 22, 140, 4.5), (12, 20, 96, 3)),
    ((-4, 27, 226, 4), (-6, 25, 180, 5.5), (-7, 22, 140, 5.5), (-6, 20, 84, 3)),
)


def paint_vessels(canvas: Canvas, case: CaseParameters) -> None:
    """Paint vessels from the largest to the smallest, then the crura beside the aorta."""
    phase = case.phase
    _lumen(canvas, "aorta", AORTA, phase.artery)
    _calcify(canvas)
    _lumen(canvas, "postcava", POSTCAVA, phase.vein - 8)
    _lumen(canvas, "portal_vein_and_splenic_vein", PORTAL, phase.vein + 4)
    _lumen(canvas, "celiac_trunk", CELIAC, phase.artery)
    _lumen(canvas, "superior_mesenteric_artery", MESENTERIC_ARTERY, phase.artery)
    _lumen(canvas, "", UNNAMED_VEINS, phase.vein)
    _lumen(canvas, "", UNNAMED_ARTERIES, phase.artery)
    _lumen(canvas, "", CRURA, 58.0)


def _lumen(canvas: Canvas, name: str, courses: Sequence[Course], hu: float) -> None:
    """Paint the free voxels inside the tubes; remember them as a mask where it has a name."""
    parts = []
    for course in courses:
        tube = Tube(canvas.space, course, margin_mm=2.0)
        inside = (tube.level < 0) & canvas.free(tube.box)
        parts.append(Painted(tube.box, inside))
        canvas.fill(tube.box, inside, hu, Owner.TAKEN)
    if name:
        joined = union(parts)
        canvas.keep(name, joined.box, joined.crop)


def _calcify(canvas: Canvas) -> None:
    """Put plaques into the wall of the lower aorta."""
    tube = Tube(canvas.space, AORTA[0], margin_mm=2.0)
    _, y, z = canvas.space.at(tube.box)
    wall = (tube.level < 0) & (tube.level > -2.2)
    plaque = wall & (z < 150) & (np.sin(z * 0.21) + 0.05 * (y - 12) + canvas.grain[tube.box] > 1.9)
    canvas.tint(tube.box, plaque, 620.0)


def branches(canvas: Canvas, roots: Course, ends: np.ndarray, hu: float) -> None:
    """Paint thin vessels through the fat from the nearest root to each end (x, y, z)."""
    starts = np.array(roots)[:, :3]
    for end in ends:
        start = starts[np.argmin(np.linalg.norm(starts - end, axis=1))]
        middle = (start + end) / 2 + np.array([0.0, -4.0, 3.0])
        course = ((*start, 2.0), (*middle, 1.6), (*end, 1.1))
        tube = Tube(canvas.space, course, margin_mm=1.0, spacing_mm=18.0)
        inside = (tube.level < 0) & canvas.free(tube.box)
        canvas.tint(tube.box, inside, hu)
