"""Stomach and bowel: a wall, what is inside, and gas that rises to the front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Owner, box_shape, overlap, within
from napari_ctvqa.demo.shapes import FAR_MM, Selection, Tube, smooth_max
from napari_ctvqa.demo.space import Box, Field, axes_mm, waves
from napari_ctvqa.demo.values import voxel_count
from napari_ctvqa.demo.vessels import MESENTERIC_ARTERY, Course, branches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.demo.parameters import CaseParameters

GAS_HU = -980.0
STOMACH: Course = (
    (54, 8, 230, 30), (64, -2, 208, 36), (63, -26, 180, 31), (46, -50, 152, 23),
    (16, -60, 132, 19), (-12, -52, 126, 15), (-32, -38, 130, 9),
)  # fmt: skip
ESOPHAGUS: Course = (
    (12, 0, 312, 8), (10, -4, 270, 8), (14, -8, 250, 8), (28, -4, 238, 8), (42, 2, 232, 8),
)  # fmt: skip
DUODENUM: Course = (
    (-40, -34, 132, 11), (-56, -22, 127, 12), (-57, -4, 104, 12.5), (-42, -2, 82, 12.5),
    (-6, -9, 76, 11), (22, -14, 86, 11), (30, -26, 100, 10),
)  # fmt: skip
COLON: Course = (
    (-96, 16, -18, 24), (-102, 14, 24, 25), (-104, 6, 58, 23), (-90, -36, 74, 20),
    (-50, -70, 62, 20), (0, -76, 52, 19), (50, -72, 70, 19), (92, -46, 108, 18),
    (110, 6, 138, 17), (112, 36, 112, 14), (110, 34, 60, 12), (106, 32, 10, 12),
    (102, 30, -18, 13),
)  # fmt: skip
_LOOP_PITCH_MM = 27.5


def paint_hollow_organs(canvas: Canvas, case: CaseParameters) -> None:
    """Paint esophagus, stomach, duodenum, colon and small bowel with its mesentery."""
    _esophagus(canvas)
    _stomach(canvas, case)
    _duodenum(canvas, case)
    _colon(canvas)
    _small_bowel(canvas, case)


def _fill_lumen(
    canvas: Canvas, box: Box, lumen: Selection, gas_above_mm: Field | float, content: Field
) -> None:
    """Fill a lumen; what lies in front of (above, for a patient on the back) the level is gas."""
    _, y, _ = axes_mm()
    canvas.tint(box, lumen, content)
    canvas.tint(box, lumen & (y[None, box[1], None] < gas_above_mm), GAS_HU)


def _esophagus(canvas: Canvas) -> None:
    tube = Tube(canvas.space, ESOPHAGUS)
    inside = (tube.level < 0) & canvas.free(tube.box)
    canvas.fill(tube.box, inside, canvas.phase.bowel_wall - 22, Owner.TAKEN)
    canvas.tint(tube.box, inside & (tube.level < -6.2), -420.0)
    canvas.keep("esophagus", tube.box, inside)


def _stomach(canvas: Canvas, case: CaseParameters) -> None:
    tube = Tube(canvas.space, STOMACH, margin_mm=8.0)
    box = tube.box
    x, y, z = canvas.space.at(box)
    level: Field = tube.level + waves(case.habitus.seed + 51, 3.0, 46.0)(x, y, z)
    level = smooth_max(level, canvas.dome_mm[box] + 2.2, 8)
    level = smooth_max(level, canvas.cavity_mm[box] + 2.0, 8)
    count = voxel_count(case, "stomach")
    whole = canvas.take("stomach", box, level, count, canvas.phase.bowel_wall)
    folds = 1.6 * np.sin(0.5 * y + 0.35 * z) + 1.2 * np.sin(0.45 * x - 0.3 * z)
    lumen = whole & (level < level[whole].max() - 4.6 - np.maximum(folds, 0))
    food = 18 + 16 * canvas.grain[box] + 26 * (canvas.grain[box] > 1.1)
    _fill_lumen(canvas, box, lumen, -34.0, food)


def _duodenum(canvas: Canvas, case: CaseParameters) -> None:
    tube = Tube(canvas.space, DUODENUM)
    level = tube.level + 1.2 * np.sin(canvas.space.x[tube.box] * 0.55)
    count = voxel_count(case, "duodenum")
    whole = canvas.take("duodenum", tube.box, level, count, canvas.phase.bowel_wall)
    lumen = whole & (level < level[whole].max() - 3.4)
    _fill_lumen(canvas, tube.box, lumen, -float(FAR_MM), 20 + 10 * canvas.grain[tube.box])


def _colon(canvas: Canvas) -> None:
    tube = Tube(canvas.space, COLON, along=True)
    box = tube.box
    pouches = np.cos(tube.along_mm * np.float32(2 * np.pi / 26))
    level = tube.level + 2.2 - 3.2 * pouches
    inside = (level < 0) & canvas.free(box)
    canvas.fill(box, inside, canvas.phase.bowel_wall - 16, Owner.TAKEN)
    canvas.keep("colon", box, inside)
    lumen = inside & (level < -2.4)
    total = float(tube.travelled_mm[-1])
    middle = np.interp(tube.along_mm, tube.travelled_mm, tube.curve[:, 1])
    share = tube.along_mm / total
    rise = np.select([share < 0.27, share < 0.62], [-7.0, 6.0], -7.5)
    stool = 28 + 38 * canvas.grain[box]
    bubbles = canvas.grain[box] > np.where(share < 0.62, 1.35, 2.2)
    stool[bubbles] = -520.0
    _fill_lumen(canvas, box, lumen, (middle + rise).astype(np.float32), stool)


def _small_bowel(canvas: Canvas, case: CaseParameters) -> None:
    """Pack short bent loops into the mesentery; where two meet, a little fat stays between."""
    low, high = (-84.0, -84.0, -14.0), (92.0, 14.0, 146.0)
    box = canvas.space.box(low, high, 4.0)
    rng = np.random.default_rng(case.habitus.seed + 81)
    shape = box_shape(box)
    nearest = np.full(shape, FAR_MM, np.float32)
    second = np.full(shape, FAR_MM, np.float32)
    gas_mm = np.full(shape, -FAR_MM, np.float32)
    shade = np.zeros(shape, np.float32)
    courses = _loops(rng, low, high)
    for course in courses:
        tube = Tube(canvas.space, course, margin_mm=3.0, spacing_mm=14.0)
        shared = overlap(tube.box, box)
        inner = within(shared, box)
        level = tube.level[within(shared, tube.box)]
        closer = level < nearest[inner]
        second[inner] = np.where(closer, nearest[inner], np.minimum(second[inner], level))
        nearest[inner] = np.where(closer, level, nearest[inner])
        gassy = rng.random() < 0.22
        surface = course[0][1] - (rng.uniform(-3, 3) if gassy else FAR_MM)
        gas_mm[inner][closer] = surface
        shade[inner][closer] = rng.uniform(8, 34)
    gap = second - nearest
    inside = (nearest < 0) & (gap > 1.4) & canvas.free(box) & (canvas.cavity_mm[box] < -5)
    canvas.fill(box, inside, canvas.phase.bowel_wall + 8 * canvas.grain[box], Owner.TAKEN)
    canvas.keep("intestine", box, inside)
    lumen = inside & (nearest < -2.7) & (gap > 5.0)
    _fill_lumen(canvas, box, lumen, gas_mm, shade + 9 * canvas.grain[box])
    ends = np.array([course[0][:3] for course in courses[::2]])
    branches(canvas, MESENTERIC_ARTERY[0][2:], ends, canvas.phase.vein - 20)


def _loops(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> list[Course]:
    """Return short bent courses on a jittered lattice inside the mesentery."""
    courses: list[Course] = []
    steps = [np.arange(a + 10, b, _LOOP_PITCH_MM) for a, b in zip(low, high, strict=True)]
    for n, corner in enumerate(np.array(np.meshgrid(*steps, indexing="ij")).reshape(3, -1).T):
        centre = corner + rng.uniform(-7, 7, 3) + np.array([0, 0, 13 * (n % 2)])
        x, y, z = centre
        outside = ((x - 2) / 92) ** 2 + ((y + 32) / 58) ** 2 > 1
        if outside or y > (-18 if abs(x) < 44 else -7) or (z > 108 and (x < 28 or y < -56)):
            continue
        way = rng.normal(size=3) * np.array([1.0, 0.8, 0.7])
        way *= rng.uniform(10, 22) / np.linalg.norm(way)
        bend = rng.normal(0, 6, 3)
        radius = rng.uniform(9.2, 13.6)
        courses.append(
            (
                (*(centre - way), radius * 0.86),
                (*(centre + bend), radius),
                (*(centre + way), radius * 0.9),
            )
        )
    return courses
