"""The organs and their lesions: level functions that meet the stated volumes.

Order matters: what is painted first keeps its voxels. Lesions come first, so that their size is
the closed form's; each organ then takes its stated volume around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Owner, Painted
from napari_ctvqa.demo.parameters import CaseParameters, Lesion, voxels_of
from napari_ctvqa.demo.shapes import Selection, Tube, ellipsoid, lowest, smooth_max
from napari_ctvqa.demo.space import Box, Field, axes_mm, waves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def paint_organs(canvas: Canvas, case: CaseParameters) -> dict[str, Painted]:
    """Paint every organ of a case; return each lesion's voxels by the lesion's own name."""
    lesions = {lesion.name: _lesion(canvas, lesion) for lesion in case.lesions}
    _vessels(canvas, case)
    _kidneys(canvas, case, lesions)
    _adrenals(canvas, case)
    _pancreas(canvas, case, lesions)
    _gall_bladder(canvas, case)
    _stomach(canvas, case)
    _duodenum(canvas, case)
    _liver(canvas, case, lesions)
    _spleen(canvas, case)
    _bowel(canvas, case)
    _lesion_masks(canvas, case, lesions)
    return lesions


def _lesion(canvas: Canvas, lesion: Lesion) -> Painted:
    """Paint one lesion at unbent positions, so that its size is the stated one."""
    x, y, z = axes_mm()
    cz = float(z[lesion.centre_slice])
    cx, cy = lesion.centre_mm
    reach = max(lesion.semi_mm) * 1.3
    box = canvas.space.box((cx, cy, cz), (cx, cy, cz), reach)
    at = (x[None, None, box[2]], y[None, box[1], None], z[box[0], None, None])
    level = ellipsoid(at, (cx, cy, cz), lesion.semi_mm, lesion.turn_deg)
    size = np.float32(np.cbrt(np.prod(lesion.semi_mm)))
    angle = np.arctan2(at[1] - cy, at[0] - cx) - np.radians(lesion.turn_deg)
    odd = np.cos(3 * angle + 0.6) * 0.7 + np.cos(angle * 5 - 1.1) * 0.3
    level = (level + size) / (1 + np.float32(lesion.bump) * odd) - size
    count = voxels_of(lesion.volume_cm3)
    selection = lowest(level.astype(np.float32), canvas.free(box), count)
    canvas.fill(box, selection, lesion.hu, Owner.TAKEN)
    canvas.keep(lesion.name, box, selection)
    return canvas.masks.pop(lesion.name)


def _lesion_masks(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    for name in {m for lesion in case.lesions for m in lesion.masks}:
        parts = [lesions[x.name] for x in case.lesions if name in x.masks]
        canvas.masks[name] = union(parts)
    for name in case.empty_masks:
        if name not in canvas.masks:
            canvas.masks[name] = Painted((slice(0, 0),) * 3, np.zeros((0, 0, 0), bool))


def union(parts: list[Painted]) -> Painted:
    """Return the union of masks, in a box around all of them."""
    box = tuple(
        slice(min(p.box[a].start for p in parts), max(p.box[a].stop for p in parts))
        for a in range(3)
    )
    crop = np.zeros(tuple(s.stop - s.start for s in box), bool)
    for part in parts:
        inner = tuple(
            slice(s.start - o.start, s.stop - o.start) for s, o in zip(part.box, box, strict=True)
        )
        crop[inner] |= part.crop
    return Painted((box[0], box[1], box[2]), crop)


def _inside(box: Box, parts: list[Painted]) -> Selection:
    """Return the voxels of a box that belong to these masks."""
    chosen = np.zeros(tuple(s.stop - s.start for s in box), bool)
    for part in parts:
        inner = tuple(
            slice(s.start - o.start, s.stop - o.start) for s, o in zip(part.box, box, strict=True)
        )
        chosen[inner] |= part.crop
    return chosen


def _of(case: CaseParameters, organ: str, lesions: Mapping[str, Painted]) -> list[Painted]:
    return [lesions[x.name] for x in case.lesions if x.organ == organ]


def _take_around(
    canvas: Canvas, name: str, box: Box, level: Field, case: CaseParameters, inner: Selection
) -> Selection:
    """Give an organ its stated volume, lesions included; return all of its voxels."""
    organ = case.organs[name]
    assert organ.volume_cm3 is not None
    count = voxels_of(organ.volume_cm3) - int(inner.sum())
    selection = canvas.take(name, box, level, count, organ.hu)
    whole = selection | inner
    canvas.keep(name, box, whole)
    return whole


def _tube(canvas: Canvas, points: Sequence[Sequence[float]], **options: Any) -> Tube:
    return Tube(canvas.space, points, **options)


def _lumen(canvas: Canvas, name: str, tubes: list[Tube], hu: float) -> None:
    """Paint vessels that leave the field of view: all free voxels inside the tubes."""
    parts = []
    for tube in tubes:
        inside = (tube.level < 0) & canvas.free(tube.box)
        parts.append(Painted(tube.box, inside))
        canvas.fill(tube.box, inside, hu, Owner.TAKEN)
    joined = union(parts)
    canvas.keep(name, joined.box, joined.crop)


def _vessels(canvas: Canvas, case: CaseParameters) -> None:
    aorta = [
        (9, 10, -12, 9),
        (12, 11, 60, 9.5),
        (10, 10, 150, 10.5),
        (12, 12, 230, 11.5),
        (16, 18, 312, 12.5),
    ]
    cava = [
        (-20, 14, -12, 10),
        (-22, 12, 60, 11),
        (-24, 8, 140, 12),
        (-26, 2, 210, 13),
        (-22, -6, 262, 13),
    ]
    _lumen(canvas, "aorta", [_tube(canvas, aorta)], case.organs["aorta"].hu)
    _lumen(canvas, "postcava", [_tube(canvas, cava)], case.organs["postcava"].hu)
    portal = [(-8, -12, 118, 6.5), (-14, -12, 140, 7), (-34, -14, 168, 7.2), (-48, -16, 182, 6.5)]
    splenic = [(-10, -12, 128, 5), (18, -14, 140, 4.5), (50, 8, 152, 4.2), (82, 28, 166, 3.6)]
    name = "portal_vein_and_splenic_vein"
    _lumen(canvas, name, [_tube(canvas, portal), _tube(canvas, splenic)], case.organs[name].hu)


def _kidneys(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    for name, side, cz in (("kidney_left", 1.0, 112.0), ("kidney_right", -1.0, 99.0)):
        box = canvas.space.box((side * 58 - 44, 0, cz - 70), (side * 58 + 44, 80, cz + 70))
        x, y, z = canvas.space.at(box)
        lean = (z - cz) * np.float32(0.16)
        at = (x + side * lean, y - lean, z)
        level = ellipsoid(at, (side * 60, 34, cz), (29, 26, 54), side * 30)
        sinus = ellipsoid(at, (side * 42, 27, cz), (16, 9, 24), side * 30)
        level = smooth_max(level, -sinus, 8)
        level += waves(case.habitus.seed + 31, 1.6, 34.0)(x, y, z)
        inner = _inside(box, _of(case, name, lesions))
        whole = _take_around(canvas, name, box, level, case, inner) & ~inner
        medulla = np.maximum(level + 7.5, -sinus + 2.5)
        turn = np.arctan2(y - 34, x - side * 60)
        columns = np.sin(z * 0.27) + np.cos(3 * turn + z * 0.05)
        pyramid = whole & (medulla < 0) & (columns > -0.5)
        canvas.tint(box, whole, case.organs[name].hu + 12)
        canvas.tint(box, pyramid, case.organs[name].hu - 38)


def _adrenals(canvas: Canvas, case: CaseParameters) -> None:
    for name, side, cz in (
        ("adrenal_gland_left", 1.0, 172.0),
        ("adrenal_gland_right", -1.0, 168.0),
    ):
        x0 = 38.0 if side > 0 else 36.0
        limbs = [
            [
                (side * x0, 10, cz + 8, 3),
                (side * (x0 + 1), 22, cz, 3),
                (side * (x0 - 2), 36, cz - 8, 2.4),
            ],
            [(side * (x0 + 1), 22, cz, 3), (side * (x0 + 13), 34, cz - 10, 2.4)],
        ]
        tubes = [_tube(canvas, [tuple(p) for p in limb]) for limb in limbs]
        box, level = _joined(tubes)
        _take_around(canvas, name, box, level, case, np.zeros(level.shape, bool))


def _joined(tubes: list[Tube]) -> tuple[Box, Field]:
    """Return the union of tubes as one level in one box."""
    box = tuple(
        slice(min(t.box[a].start for t in tubes), max(t.box[a].stop for t in tubes))
        for a in range(3)
    )
    level = np.full(tuple(s.stop - s.start for s in box), 1e3, np.float32)
    for tube in tubes:
        inner = tuple(
            slice(s.start - o.start, s.stop - o.start) for s, o in zip(tube.box, box, strict=True)
        )
        np.minimum(level[inner], tube.level, out=level[inner])
    return (box[0], box[1], box[2]), level


def _pancreas(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    points = [
        (-26, -8, 92, 11),
        (-30, -14, 108, 15),
        (-24, -20, 122, 14),
        (-8, -26, 130, 9),
        (16, -26, 136, 9.5),
        (42, -8, 144, 10),
        (66, 12, 152, 10),
        (84, 26, 160, 8),
    ]
    tube = _tube(canvas, points, along=True)
    x, y, z = canvas.space.at(tube.box)
    level = tube.level + waves(case.habitus.seed + 41, 2.6, 17.0)(x, y, z)
    parts = ("pancreas_head", "pancreas_body", "pancreas_tail")
    inner = _inside(tube.box, _of(case, "pancreas", lesions))
    whole = _take_around(canvas, "pancreas", tube.box, level, case, inner)
    assert tube.along_mm is not None
    cut = np.where(inner, -1.0, tube.along_mm).astype(np.float32)
    _divide(canvas, case, tube.box, whole, [(parts, cut)])
    clefts = 26 * np.minimum(canvas.grain[tube.box], 0)
    canvas.tint(tube.box, whole & ~inner, (case.organs["pancreas"].hu + 8 + clefts))


def _divide(
    canvas: Canvas,
    case: CaseParameters,
    box: Box,
    whole: Selection,
    cuts: list[tuple[tuple[str, ...], Field]],
) -> None:
    """Cut an organ into parts of stated volume; the last part is what remains."""
    rest = whole
    for names, level in cuts:
        for name in names:
            volume = case.organs[name].volume_cm3
            assert volume is not None
            count = min(voxels_of(volume), int(rest.sum()))
            part = lowest(level, rest, count)
            canvas.keep(name, box, part)
            rest = rest & ~part


def _gall_bladder(canvas: Canvas, case: CaseParameters) -> None:
    tube = _tube(
        canvas, [(-62, -62, 92, 13), (-56, -48, 108, 14), (-48, -34, 126, 8), (-42, -26, 136, 4)]
    )
    _take_around(
        canvas, "gall_bladder", tube.box, tube.level, case, np.zeros(tube.level.shape, bool)
    )


def _stomach(canvas: Canvas, case: CaseParameters) -> None:
    points = [
        (58, 6, 222, 30),
        (66, -8, 196, 32),
        (60, -36, 168, 26),
        (38, -56, 142, 21),
        (8, -60, 128, 18),
        (-18, -48, 128, 14),
        (-34, -34, 132, 9),
    ]
    tube = _tube(canvas, points)
    x, y, z = canvas.space.at(tube.box)
    level = tube.level + waves(case.habitus.seed + 51, 2.0, 40.0)(x, y, z)
    whole = _take_around(canvas, "stomach", tube.box, level, case, np.zeros(level.shape, bool))
    lumen = whole & (level < level[whole].max() - 4.5)
    _, true_y, _ = axes_mm()
    air = lumen & (true_y[None, tube.box[1], None] < -30)
    canvas.tint(tube.box, whole, 82.0)
    canvas.tint(tube.box, lumen, 16 + 14 * canvas.grain[tube.box])
    canvas.tint(tube.box, air, -985.0)


def _duodenum(canvas: Canvas, case: CaseParameters) -> None:
    points = [
        (-40, -32, 134, 11),
        (-56, -20, 128, 12),
        (-56, -2, 104, 12),
        (-40, 0, 84, 12),
        (-6, -8, 80, 11),
        (22, -14, 88, 11),
        (32, -28, 100, 10),
    ]
    tube = _tube(canvas, points)
    whole = _take_around(
        canvas, "duodenum", tube.box, tube.level, case, np.zeros(tube.level.shape, bool)
    )
    lumen = whole & (tube.level < tube.level[whole].max() - 3.5)
    canvas.tint(tube.box, whole, 92.0)
    canvas.tint(tube.box, lumen, 22 + 10 * canvas.grain[tube.box])


def _liver(canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]) -> None:
    box = canvas.space.box((-150, -112, 62), (96, 86, 270))
    x, y, z = canvas.space.at(box)
    level = smooth_max(canvas.cavity_mm[box] + 2.5, canvas.dome_mm[box] + 3.0, 8)
    tip = (-0.55 * (z - 84) + 0.60 * (x + 128) + 0.12 * (y - 20)) / 0.823
    back = 0.72 * (x + 20) + 0.69 * (y - 20)
    level = smooth_max(level, tip, 24)
    level = smooth_max(level, back, 26)
    level = smooth_max(level, 0.95 * (x - 74) + 0.3 * (y + 60), 30)
    level = smooth_max(level, -(np.hypot(x + 60, y - 40) - 30) - 0.35 * (z - 140).clip(0), 10)
    level += waves(case.habitus.seed + 61, 2.4, 60.0)(x, y, z)
    own = _of(case, "liver", lesions)
    inner = _inside(box, own)
    whole = _take_around(canvas, "liver", box, level, case, inner)
    _segments(canvas, case, box, whole, lesions)
    canvas.tint(box, whole & ~inner, case.organs["liver"].hu + 3 * canvas.grain[box])
    _liver_vessels(canvas, case, box, whole & ~inner)


def _segments(
    canvas: Canvas,
    case: CaseParameters,
    box: Box,
    whole: Selection,
    lesions: Mapping[str, Painted],
) -> None:
    """Divide the liver into its eight segments, each of its stated volume."""
    x, y, z = canvas.space.at(box)
    planes = {
        "caudate": ellipsoid((x, y, z), (-18, -8, 178), (26, 22, 34)),
        "left": -x - 0.25 * (y + 60),
        "middle": -(x + 36) * 0.8 + (y + 20) * 0.6,
        "right": (y - 6) - 0.35 * (x + 90),
        "height": z,
    }
    owner = np.zeros(whole.shape, np.uint8)
    for lesion in case.lesions:
        if lesion.organ == "liver":
            _settle(owner, box, lesion, lesions[lesion.name])
    tree = (
        ("caudate", (1,), (2, 3, 4, 5, 6, 7, 8)),
        ("left", (2, 3), (4, 5, 6, 7, 8)),
        ("middle", (4,), (5, 6, 7, 8)),
        ("right", (5, 8), (6, 7)),
        ("height", (3,), (2,)),
        ("height", (5,), (8,)),
        ("height", (6,), (7,)),
    )
    rest = {frozenset(range(1, 9)): whole}
    for plane, low, high in tree:
        among = rest.pop(frozenset(low + high))
        volume = sum(case.organs[f"liver_segment_{n}"].volume_cm3 or 0 for n in low)
        settled = np.isin(owner, low) & among
        count = voxels_of(volume) - int(settled.sum())
        chosen = lowest(planes[plane], among & (owner == 0), count) | settled
        rest[frozenset(low)] = chosen
        rest[frozenset(high)] = among & ~chosen
    for numbers, part in rest.items():
        (number,) = numbers
        canvas.keep(f"liver_segment_{number}", box, part)


def _settle(owner: np.ndarray, box: Box, lesion: Lesion, painted: Painted) -> None:
    """Give a lesion's voxels to the segments its parameters name, upper share on top."""
    inner = tuple(
        slice(s.start - o.start, s.stop - o.start) for s, o in zip(painted.box, box, strict=True)
    )
    places = np.nonzero(painted.crop)
    numbers = sorted(
        lesion.shares, key=lambda n: n in {"liver_segment_2", "liver_segment_7", "liver_segment_8"}
    )
    start = 0
    values = np.zeros(places[0].size, np.uint8)
    for name in numbers:
        stop = start + round(lesion.shares[name] * values.size)
        values[start:stop] = int(name[-1])
        start = stop
    values[start:] = int(numbers[-1][-1])
    owner[inner][places] = values


def _liver_vessels(canvas: Canvas, case: CaseParameters, box: Box, tissue: Selection) -> None:
    trees = [
        [(-48, -16, 182, 6.0), (-70, -14, 186, 5.0), (-98, 0, 190, 3.0), (-120, 16, 198, 1.5)],
        [(-48, -16, 182, 5.5), (-36, -40, 192, 5), (-8, -62, 200, 4), (14, -74, 206, 2)],
        [(-70, -14, 186, 4.0), (-84, -36, 168, 3), (-98, -50, 140, 1.8)],
        [(-70, -14, 186, 4.0), (-90, 22, 160, 3), (-104, 40, 128, 1.6)],
        [(-84, -24, 190, 3.5), (-90, -40, 214, 2.6), (-88, -48, 236, 1.4)],
        [(-26, -6, 248, 6), (-62, -4, 234, 5), (-94, 14, 214, 3.4), (-116, 24, 180, 1.8)],
        [(-26, -8, 246, 5.5), (-46, -38, 224, 4.6), (-60, -58, 190, 3), (-66, -66, 150, 1.6)],
        [(-24, -8, 246, 5), (0, -40, 236, 4), (26, -62, 222, 2.4), (40, -70, 214, 1.4)],
        [(-62, -4, 234, 3.4), (-88, -28, 236, 2.4), (-108, -34, 230, 1.3)],
    ]
    for points in trees:
        tube = _tube(canvas, points, margin_mm=2.0)
        inside = (tube.level < 0) & _cropped(tissue, box, tube.box)
        canvas.tint(tube.box, inside, case.organs["liver"].hu + 42)


def _cropped(selection: Selection, box: Box, other: Box) -> Selection:
    """Return a selection as seen in another box."""
    seen = np.zeros(tuple(s.stop - s.start for s in other), bool)
    common = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, other, strict=True)]
    if any(stop <= start for start, stop in common):
        return seen
    target = tuple(slice(a - o.start, b - o.start) for (a, b), o in zip(common, other, strict=True))
    source = tuple(slice(a - o.start, b - o.start) for (a, b), o in zip(common, box, strict=True))
    seen[target] = selection[source]
    return seen


def _spleen(canvas: Canvas, case: CaseParameters) -> None:
    box = canvas.space.box((20, -70, 90), (150, 90, 262))
    x, y, z = canvas.space.at(box)
    level = ellipsoid((x, y, z), (96, 34, 190), (48, 56, 58))
    level = smooth_max(level, canvas.cavity_mm[box] + 2.5, 8)
    level = smooth_max(level, canvas.dome_mm[box] + 3.0, 8)
    hollow = ellipsoid((x, y, z), (58, 8, 186), (52, 50, 74))
    level = smooth_max(level, -hollow, 12)
    level += waves(case.habitus.seed + 71, 2.0, 45.0)(x, y, z)
    whole = _take_around(canvas, "spleen", box, level, case, np.zeros(level.shape, bool))
    canvas.tint(box, whole, case.organs["spleen"].hu + 2 * canvas.grain[box])


def _bowel(canvas: Canvas, case: CaseParameters) -> None:
    _colon(canvas, case)


def _colon(canvas: Canvas, case: CaseParameters) -> None:
    points = [
        (-98, 14, -16, 24),
        (-104, 14, 30, 25),
        (-106, 8, 64, 22),
        (-92, -40, 78, 19),
        (-48, -72, 66, 19),
        (0, -76, 58, 18),
        (52, -72, 74, 18),
        (94, -44, 112, 18),
        (112, 10, 140, 17),
        (112, 36, 110, 15),
        (110, 34, 60, 14),
        (108, 30, 10, 14),
        (104, 26, -16, 14),
    ]
    tube = _tube(canvas, points, along=True)
    assert tube.along_mm is not None
    level = tube.level + 2.6 * np.cos(tube.along_mm * np.float32(2 * np.pi / 27)) + 1.5
    inside = (level < 0) & canvas.free(tube.box)
    canvas.fill(tube.box, inside, 70.0, Owner.TAKEN)
    canvas.keep("colon", tube.box, inside)
    lumen = inside & (level < -2.6)
    _, y, _ = canvas.space.at(tube.box)
    canvas.tint(tube.box, lumen, 30 + 45 * canvas.grain[tube.box])
    gas = lumen & (canvas.grain[tube.box] + 0.0 * y > 0.9)
    canvas.tint(tube.box, gas, -860.0)
