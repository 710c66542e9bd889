"""Solid organs: each takes exactly its stated volume, lesions included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Painted, around, box_shape, overlap, seen_in, within
from napari_ctvqa.demo.lesions import lesions_in, lesions_of_part
from napari_ctvqa.demo.shapes import FAR_MM, Selection, Tube, ellipsoid, lowest, smooth_max
from napari_ctvqa.demo.space import Box, Field, waves
from napari_ctvqa.demo.values import mean_hu, volume_cm3, voxel_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.demo.parameters import CaseParameters
    from napari_ctvqa.demo.vessels import Course

PANCREAS: Course = (
    (-24, -7, 90, 9), (-31, -13, 106, 15), (-26, -20, 120, 15), (-9, -25, 129, 9),
    (15, -26, 135, 9), (42, -10, 144, 10), (64, 9, 152, 10.5), (82, 24, 160, 8),
)  # fmt: skip
_PANCREAS_PARTS = ("pancreas_head", "pancreas_body", "pancreas_tail")
PANCREATIC_DUCT: Course = (
    (-10, -25, 129, 2.0), (15, -26, 135, 1.9), (42, -10, 144, 1.7), (66, 11, 153, 1.2),
)  # fmt: skip
GALL_BLADDER: Course = (
    (-66, -66, 96, 12), (-60, -54, 106, 14), (-52, -40, 120, 9), (-46, -30, 130, 3.5),
)  # fmt: skip
ADRENALS: Mapping[str, tuple[Course, ...]] = {
    "adrenal_gland_left": (
        ((36, 12, 176, 2.6), (37, 20, 168, 2.8), (33, 32, 160, 2.2)),
        ((37, 20, 168, 2.8), (46, 31, 160, 2.2)),
    ),
    "adrenal_gland_right": (
        ((-33, 14, 174, 2.4), (-36, 24, 167, 2.6), (-34, 38, 160, 2.2)),
        ((-36, 24, 167, 2.4), (-44, 37, 160, 2.2)),
    ),
}
HEPATIC_VESSELS: tuple[Course, ...] = (
    ((-48, -18, 180, 5.6), (-70, -14, 186, 4.8), (-98, 0, 192, 3.0), (-122, 16, 204, 1.4)),
    ((-48, -18, 180, 5.0), (-36, -40, 192, 4.6), (-8, -60, 202, 3.6), (16, -72, 210, 1.8)),
    ((-70, -14, 186, 4.0), (-84, -36, 168, 3.0), (-98, -50, 140, 1.6)),
    ((-70, -14, 186, 3.8), (-92, 18, 164, 3.0), (-108, 36, 132, 1.5)),
    ((-84, -24, 190, 3.4), (-90, -40, 214, 2.6), (-88, -48, 236, 1.3)),
    ((-98, 0, 192, 2.6), (-112, -24, 182, 2.0), (-124, -36, 164, 1.2)),
    ((-26, -6, 248, 6.0), (-62, -2, 236, 5.0), (-94, 14, 216, 3.4), (-116, 26, 184, 1.6)),
    ((-26, -8, 246, 5.5), (-46, -38, 226, 4.6), (-60, -58, 192, 3.0), (-66, -66, 150, 1.5)),
    ((-24, -8, 246, 5.0), (0, -38, 238, 4.0), (26, -60, 226, 2.4), (42, -68, 216, 1.3)),
    ((-62, -2, 236, 3.4), (-88, -28, 238, 2.4), (-108, -34, 230, 1.2)),
    ((-94, 14, 216, 2.4), (-108, 40, 210, 1.8), (-116, 50, 196, 1.2)),
    ((-36, -40, 192, 3.0), (-30, -66, 176, 2.2), (-34, -80, 160, 1.2)),
)


def paint_solid_organs(
    canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]
) -> None:
    """Paint the organs that hold no gas."""
    _kidneys(canvas, case, lesions)
    _adrenals(canvas, case)
    _pancreas(canvas, case, lesions)
    _gall_bladder(canvas, case)
    _liver(canvas, case, lesions)
    _spleen(canvas, case)


def _take(
    canvas: Canvas, case: CaseParameters, name: str, box: Box, level: Field, inner: Selection | None
) -> Selection:
    """Give an organ its stated volume; return its voxels without the lesions ``inner``."""
    return canvas.take(name, box, level, voxel_count(case, name), mean_hu(case, name), inner)


def _kidneys(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    for name, side, height in (("kidney_left", 1.0, 112.0), ("kidney_right", -1.0, 99.0)):
        box = canvas.space.box((side * 58 - 40, 0, height - 62), (side * 58 + 40, 80, height + 62))
        x, y, z = canvas.space.at(box)
        lean = (z - height) * np.float32(0.16)
        at = (x + side * lean, y - lean, z)
        level = ellipsoid(at, (side * 63, 30, height), (28.5, 25, 56), side * 32)
        sinus = ellipsoid(at, (side * 46, 23, height - 2), (17, 8.5, 24), side * 30)
        level = smooth_max(level, -sinus, 9)
        level += waves(case.habitus.seed + 31, 1.9, 36.0)(x, y, z)
        inner = seen_in(box, lesions_in(case, name, lesions))
        tissue = _take(canvas, case, name, box, level, inner)
        hilum = (x - side * 49) ** 2 + (y - 25) ** 2
        turn = np.arctan2(y - 29, (x - side * 53) * side)
        lobes = np.sin(5.0 * turn + 0.06 * z) * np.sin(0.24 * z + 0.8) + 0.35 * canvas.grain[box]
        pyramid = tissue & (level < -6.5) & (sinus > 2.0) & (lobes > -0.2) & (hilum > 60)
        canvas.tint(box, tissue, mean_hu(case, name) + case.phase.renal_cortex_gain)
        canvas.tint(box, pyramid, mean_hu(case, name) + case.phase.renal_medulla_gain)
        pelvis = canvas.free(box) & (sinus < -4.0) & (level < 12)
        canvas.tint(box, pelvis, 12.0)


def _adrenals(canvas: Canvas, case: CaseParameters) -> None:
    for name, courses in ADRENALS.items():
        box, level = _joined([Tube(canvas.space, course) for course in courses])
        _take(canvas, case, name, box, level, None)


def _joined(tubes: Sequence[Tube]) -> tuple[Box, Field]:
    """Return the union of tubes as one level in one box."""
    box = around([tube.box for tube in tubes])
    level: Field = np.full(box_shape(box), FAR_MM, np.float32)
    for tube in tubes:
        inner = within(tube.box, box)
        level[inner] = np.minimum(level[inner], tube.level)
    return box, level


def _pancreas(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    tube = Tube(canvas.space, PANCREAS, along=True)
    x, y, z = canvas.space.at(tube.box)
    level = tube.level + waves(case.habitus.seed + 41, 2.4, 15.0)(x, y, z)
    inner = seen_in(tube.box, lesions_in(case, "pancreas", lesions))
    tissue = _take(canvas, case, "pancreas", tube.box, level, inner)
    clefts = 24 * np.minimum(canvas.grain[tube.box] + 0.3, 0)
    canvas.tint(tube.box, tissue, mean_hu(case, "pancreas") + 6 + clefts)
    settled = {
        part: seen_in(tube.box, lesions_of_part(case, part, lesions)) for part in _PANCREAS_PARTS
    }
    if settled["pancreas_head"].any():
        _blocked_duct(canvas, tube.box, tissue)
    rest = tissue
    for name in ("pancreas_head", "pancreas_body"):
        fixed = settled[name]
        count = voxel_count(case, name) - int(np.count_nonzero(fixed))
        part = lowest(tube.along_mm, rest, count)
        canvas.keep(name, tube.box, part | fixed)
        rest = rest & ~part
    canvas.keep("pancreas_tail", tube.box, rest | settled["pancreas_tail"])


def _blocked_duct(canvas: Canvas, box: Box, tissue: Selection) -> None:
    """Widen the duct above a lesion of the head, as a lesion there does."""
    duct = Tube(canvas.space, PANCREATIC_DUCT, margin_mm=1.0)
    shared = _overlap(tissue, box, duct.box)
    canvas.tint(duct.box, shared & (duct.level < 0), 16.0)


def _gall_bladder(canvas: Canvas, case: CaseParameters) -> None:
    tube = Tube(canvas.space, GALL_BLADDER)
    tissue = _take(canvas, case, "gall_bladder", tube.box, tube.level, None)
    wall = tissue & (tube.level > tube.level[tissue].max() - 1.3)
    canvas.tint(tube.box, wall, mean_hu(case, "gall_bladder") + 38)


def _liver(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    box = canvas.space.box((-146, -104, 72), (88, 80, 268))
    x, y, z = canvas.space.at(box)
    level = smooth_max(canvas.cavity_mm[box] - 3.4, canvas.dome_mm[box] - 3.8, 6)
    level = smooth_max(level, 0.52 * (x + 128) - 0.85 * (z - 98) + 0.10 * (y - 20), 26)
    level = smooth_max(level, 0.70 * (x + 24) + 0.71 * (y - 14), 24)
    level = smooth_max(level, 0.95 * (x - 70) + 0.3 * (y + 60), 40)
    kidney = np.hypot(x + 58, y - 36) - 31 + 0.55 * np.maximum(z - 128, 0)
    level = smooth_max(level, -kidney, 10)
    fissure = (
        np.hypot((x - 4 + 0.12 * (y + 64)) * 1.9, (y + 66) * 0.4)
        - 4.6
        + 0.12 * np.maximum(z - 186, 0)
    )
    level = smooth_max(level, -fissure, 6)
    level += waves(case.habitus.seed + 61, 2.6, 60.0)(x, y, z)
    inner = seen_in(box, lesions_in(case, "liver", lesions))
    tissue = _take(canvas, case, "liver", box, level, inner)
    canvas.tint(box, tissue, mean_hu(case, "liver") + 3 * canvas.grain[box])
    _hepatic_vessels(canvas, case, box, tissue)
    _segments(canvas, case, box, tissue | inner, lesions)


def _hepatic_vessels(canvas: Canvas, case: CaseParameters, box: Box, tissue: Selection) -> None:
    for course in HEPATIC_VESSELS:
        tube = Tube(canvas.space, course, margin_mm=1.0)
        inside = (tube.level < 0) & _overlap(tissue, box, tube.box)
        canvas.tint(tube.box, inside, mean_hu(case, "liver") + case.phase.liver_vessel_gain)


def _overlap(selection: Selection, box: Box, other: Box) -> Selection:
    """Return a selection of one box as seen in another."""
    seen = np.zeros(box_shape(other), bool)
    shared = overlap(box, other)
    seen[within(shared, other)] = selection[within(shared, box)]
    return seen


_CUTS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("caudate", (1,), (2, 3, 4, 5, 6, 7, 8)),
    ("left", (2, 3), (4, 5, 6, 7, 8)),
    ("middle", (4,), (5, 6, 7, 8)),
    ("right", (5, 8), (6, 7)),
    ("height", (3,), (2,)),
    ("height", (5,), (8,)),
    ("height", (6,), (7,)),
)
"""How the liver is cut: along which plane, the segments on its low side, those on its high."""


def _segments(
    canvas: Canvas,
    case: CaseParameters,
    box: Box,
    whole: Selection,
    lesions: Mapping[str, Painted],
) -> None:
    """Cut the liver into eight segments of stated volume; lesions lie where they are stated."""
    x, y, z = canvas.space.at(box)
    planes = {
        "caudate": ellipsoid((x, y, z), (-16, -10, 180), (24, 20, 34)),
        "left": -x - 0.2 * (y + 60),
        "middle": -(x + 36) * 0.8 + (y + 20) * 0.6,
        "right": (y - 6) - 0.35 * (x + 90),
        "height": z,
    }
    settled = _settled(case, box, lesions)
    groups = {frozenset(range(1, 9)): whole}
    for plane, low, high in _CUTS:
        among = groups.pop(frozenset(low + high))
        fixed = among & np.isin(settled, low)
        count = sum(voxel_count(case, f"liver_segment_{n}") for n in low)
        chosen = lowest(planes[plane], among & (settled == 0), count - int(fixed.sum())) | fixed
        groups[frozenset(low)] = chosen
        groups[frozenset(high)] = among & ~chosen
    for numbers, part in groups.items():
        canvas.keep(f"liver_segment_{min(numbers)}", box, part)


def _settled(
    case: CaseParameters, box: Box, lesions: Mapping[str, Painted]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return the segment number of every lesion voxel, 0 elsewhere.

    A lesion that spans segments is shared out from its lowest voxel up, in the order in which its
    parameters list them.
    """
    numbers = np.zeros(box_shape(box), np.uint8)
    for lesion in case.lesions:
        if lesion.organ != "liver":
            continue
        painted = lesions[lesion.name]
        ends = np.round(np.cumsum(list(lesion.shares.values())) * painted.voxels).astype(int)
        shared = np.searchsorted(ends, np.arange(painted.voxels), side="right")
        own = np.array([int(name[-1]) for name in lesion.shares], np.uint8)[shared]
        numbers[within(painted.box, box)][painted.crop] = own
    return numbers


def _spleen(canvas: Canvas, case: CaseParameters) -> None:
    box = canvas.space.box((16, -70, 84), (150, 90, 258))
    x, y, z = canvas.space.at(box)
    size = float(np.cbrt(volume_cm3(case, "spleen") / 215))
    level = ellipsoid((x, y, z), (96, 34, 186), (48 * size, 56 * size, 60 * size), 12)
    level = smooth_max(level, canvas.cavity_mm[box] + 2.0, 8)
    level = smooth_max(level, canvas.dome_mm[box] + 2.2, 8)
    hollow = ellipsoid((x, y, z), (56, 6, 184), (46 / size, 44 / size, 76), 10)
    level = smooth_max(level, -hollow, 14)
    level += waves(case.habitus.seed + 71, 2.4, 45.0)(x, y, z)
    tissue = _take(canvas, case, "spleen", box, level, None)
    canvas.tint(box, tissue, mean_hu(case, "spleen") + 2 * canvas.grain[box])
