"""The trunk without its organs: outline, fat, muscle wall, spine, ribs, lungs, heart, table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from napari_ctvqa.demo.canvas import Canvas, Owner
from napari_ctvqa.demo.parameters import SHAPE_KJI, Habitus, Phase
from napari_ctvqa.demo.shapes import Tube, ellipsoid, smooth_max, smooth_min
from napari_ctvqa.demo.space import (
    Box,
    Field,
    axes_mm,
    bent_space,
    coarse_positions,
    upsampled,
    waves,
)

FAT_HU = -103.0
MUSCLE_HU = 57.0
WHOLE: Box = (slice(0, SHAPE_KJI[0]), slice(0, SHAPE_KJI[1]), slice(0, SHAPE_KJI[2]))

_VERTEBRA_MM = 34.0
_RIB_PITCH_MM = 27.0


def _ring(x: Field, y: Field, half_x: Field, half_y: Field, power: float) -> Field:
    """Return the level of a superellipse around the origin, measured along the radius."""
    p = np.float32(power)
    norm = (np.abs(x / half_x) ** p + np.abs(y / half_y) ** p) ** (1 / p)
    radius = np.sqrt(x * x + y * y)
    return np.where(norm > 1e-3, radius * (1 - 1 / np.maximum(norm, 1e-3)), -half_y)


@dataclass(frozen=True, eq=False)
class Hull:
    """The smooth surfaces that everything else refers to, as levels in mm on the full grid."""

    skin: Field
    cavity: Field
    wall: Field
    """Outer side of the muscle wall."""
    dome: Field


def _diaphragm(x: Field, y: Field) -> Field:
    """Return the height of the diaphragm over an axial position, mm."""
    deep = np.where(y < -12, 104, 88)
    right = ((x + 70) / 76) ** 2 + ((y + 12) / deep) ** 2
    left = ((x - 66) / 76) ** 2 + ((y + 12) / deep) ** 2
    height_right = 266 - 26 * right - 42 * right**3
    height_left = 252 - 26 * left - 40 * left**3
    middle = 244 - 26 * ((x - 8) / 46) ** 2 - 20 * ((y + 38) / 74) ** 2
    sides = smooth_max(height_right, height_left, 22)
    height: Field = np.clip(smooth_max(sides, middle, 16), 140, 270)
    return height


def hull(habitus: Habitus) -> Hull:
    """Return the surfaces of one patient."""
    x, y, z = coarse_positions()
    x = x + waves(habitus.seed + 1, 3.0, 160.0)(x, y, z)
    y = y + waves(habitus.seed + 2, 3.0, 160.0)(x, y, z)
    x, y = x / np.float32(habitus.width), y / np.float32(habitus.depth)
    up = z / 300
    waist = 1 - 0.05 * np.exp(-(((z - 110) / 60) ** 2)) + 0 * x
    half_x = 139 * waist + 4 * up
    front = np.where(y < -10, 84 - 8 * up, 80 + 0 * up)
    cavity = _ring(x, y + 10, half_x, front, 2.35)
    furrow = 4 * np.exp(-((x / 14) ** 2)) * (y > 0)
    fat = np.float32(habitus.fat_mm) + 6 * (1 - up) * np.exp(-(((y - 20) / 60) ** 2))
    skin = _ring(x, y + 9, half_x + 29 + fat, np.where(y < -9, 109, 119) + 0.8 * fat, 2.25)
    skin = smooth_max(skin, y - 103, 26.0) + furrow
    rectus = 3.5 * np.exp(-(((np.abs(x) - 32) / 20) ** 4)) * (y < -40)
    linea = -7 * np.exp(-((x / 5) ** 2)) * (y < -40)
    flank = 4 * np.exp(-((y / 45) ** 2))
    wall = cavity - (9 + rectus + linea + flank)
    dome = z - _diaphragm(x, y) + waves(habitus.seed + 3, 3.0, 120.0)(x, y, z)
    return Hull(*(upsampled(f.astype(np.float32)) for f in (skin, cavity, wall, dome)))


def grain_texture(seed: int) -> Field:
    """Return zero-mean texture of unit spread, with structure of some 5 mm."""
    rng = np.random.default_rng(seed)
    coarse = rng.standard_normal((SHAPE_KJI[0], 129, 129), np.float32)
    for axis in (0, 1, 2):
        coarse = (coarse + np.roll(coarse, 1, axis)) * np.float32(np.sqrt(0.5))
    return upsampled(coarse, (1, 2, 2))


def trunk(habitus: Habitus, phase: Phase) -> Canvas:
    """Return a canvas with everything but the organs; its cavity is fat that organs may take."""
    space = bent_space(habitus.seed)
    surfaces = hull(habitus)
    canvas = Canvas.blank(
        space, surfaces.cavity, surfaces.dome, grain_texture(habitus.seed + 7), phase
    )
    _outline(canvas, surfaces)
    _back_muscles(canvas)
    _ribs(canvas)
    _chest(canvas)
    _spine(canvas)
    _pelvis(canvas)
    return canvas


def _outline(canvas: Canvas, surfaces: Hull) -> None:
    grain = canvas.grain
    inside = surfaces.skin < 0
    wall = inside & (surfaces.wall < 0)
    cavity = inside & (surfaces.cavity < 0)
    canvas.fill(WHOLE, inside, FAT_HU + 9 * grain, Owner.FAT)
    canvas.tint(WHOLE, inside & (surfaces.skin > -2.2), 12.0)
    layers = np.sin(surfaces.cavity * np.float32(2 * np.pi / 4.6) - 1.2) > 0.86
    flesh = MUSCLE_HU + 8 * grain - 90 * layers
    canvas.fill(WHOLE, wall, flesh, Owner.WALL)
    canvas.fill(WHOLE, cavity, FAT_HU + 10 * grain, Owner.CAVITY)


def _muscle(canvas: Canvas, box: Box, level: Field) -> None:
    """Paint a muscle with fat strands between its bundles, inside the body only."""
    owner = canvas.owner[box]
    sheath = (level >= 0) & (level < 1.6) & (owner == Owner.WALL)
    canvas.tint(box, sheath, FAT_HU + 30)
    selection = (level < 0) & (owner != Owner.AIR)
    streaks = canvas.grain[box] * 9 - 60 * (canvas.grain[box] < -2.0)
    canvas.fill(box, selection, MUSCLE_HU + streaks, Owner.WALL)


def _back_muscles(canvas: Canvas) -> None:
    for side in (-1.0, 1.0):
        box = canvas.space.box(
            (min(side * 4, side * 66), 35, -20), (max(side * 4, side * 66), 95, 320)
        )
        x, y, z = canvas.space.at(box)
        lower = np.clip((150 - z) / 150, 0, 1)
        iliocostal = ellipsoid((x, y, 0 * z), (side * 41, 72, 0), (20, 14, 16), side * -14)
        longissimus = ellipsoid((x, y, 0 * z), (side * 20, 77, 0), (16.5, 15, 15))
        lumborum = ellipsoid((x, y, 0 * z), (side * 52, 57, 0), (14, 8, 11), side * -24)
        for muscle in (iliocostal, longissimus, lumborum + 12 * (z > 134)):
            _muscle(canvas, box, muscle)
        radius = 4 + 15 * lower**0.8
        psoas = np.hypot(x - side * (29 + 11 * lower), (y - 38) * 0.94) - radius
        _muscle(canvas, box, np.where(z < 150, psoas, 9))


def _ribs(canvas: Canvas) -> None:
    x, y, z = canvas.space.x, canvas.space.y, canvas.space.z
    shell = (canvas.cavity_mm > -1) & (canvas.cavity_mm < 13) & (canvas.owner > Owner.AIR)
    where = np.nonzero(shell)
    depth, xs, ys, zs = canvas.cavity_mm[where], x[where], y[where], z[where]
    turn = (zs - 0.52 * ys - 92) / _RIB_PITCH_MM
    number = np.round(turn)
    across = (turn - number) * _RIB_PITCH_MM * 0.88
    level = np.sqrt((across / 5.8) ** 2 + ((depth - 5.0) / 3.7) ** 2)
    reach = np.select([number < 0, number == 0, number == 1, number == 2], [200, 30, 0, -40], -200)
    bone = (level < 1) & (ys > reach) & (np.abs(xs) > 28)
    margin = zs - (150 + 62 * np.exp(-((xs / 60) ** 2)))
    gristle = bone & (ys < -52)
    bone &= ~gristle
    gristle &= margin > 0
    values = np.where(level > 0.6, 560.0, 240.0) + 60 * canvas.grain[where]
    values[gristle] = 105.0
    sternum = (np.abs(xs) < 17) & (ys < -40) & (zs > 226) & (np.abs(depth - 5.5) < 5)
    values[sternum] = np.where(np.abs(depth[sternum] - 5.5) > 3.4, 420.0, 190.0)
    chosen = bone | gristle | sternum
    places = tuple(axis[chosen] for axis in where)
    canvas.hu[places] = values[chosen]
    canvas.owner[places] = Owner.WALL


def _chest(canvas: Canvas) -> None:
    """Paint diaphragm, lungs with their vessels, mediastinal fat and the heart."""
    box = canvas.space.box((-200, -200, 140), (200, 200, 310))
    x, y, z = canvas.space.at(box)
    cavity = canvas.owner[box] == Owner.CAVITY
    dome, inset = canvas.dome_mm[box], canvas.cavity_mm[box]
    middle = ellipsoid((x, y, 0 * z), (4, 22, 0), (34, 30, 30))
    middle = np.minimum(middle, ellipsoid((x, y, 0 * z), (0, 62, 0), (36, 20, 25)))
    heart = ellipsoid((x, y, z), (22, -40, 296), (66, 50, 42), -20)
    cava = np.hypot(x + 18, y + 8) - 17
    sac = smooth_min(np.minimum(middle, cava), heart - 7, 18)
    above = cavity & (dome > 0)
    canvas.tint(box, above, FAT_HU + 9 * canvas.grain[box])
    passage = np.minimum(middle, np.hypot(x + 25, y - 0) - 17) < 0
    canvas.fill(box, cavity & (np.abs(dome - 0.5) < 1.6) & ~passage, 55.0, Owner.WALL)
    lung = above & (dome > 3.0) & (sac > 0) & (inset < -2.0)
    gravity = np.clip(y / 100, -1, 1) * 25
    grain = canvas.grain[box]
    capillaries = 300 * np.clip(grain - 1.9, 0, 1)
    canvas.fill(box, lung, -855 + gravity + 16 * grain + capillaries, Owner.LUNG)
    muscle = (heart < 0) & above & (dome > 2.2)
    wall_mm = 8 + 3 * np.sin(x * 0.07 + 1.0) + canvas.grain[box]
    septum = np.abs(0.72 * (x - 20) + 0.69 * (y + 42) - 0.2 * (z - 290)) < 4.5
    flesh = heart > -wall_mm
    phase = canvas.phase
    middle_hu = (phase.heart_muscle + phase.heart_chamber) / 2
    values = np.select([flesh, septum], [phase.heart_muscle, middle_hu], phase.heart_chamber)
    canvas.fill(box, muscle, values, Owner.TAKEN)
    _lung_vessels(canvas)


def _lung_vessels(canvas: Canvas) -> None:
    rng = np.random.default_rng(5)
    for side in (-1.0, 1.0):
        for _ in range(80):
            root = np.array([side * 42, 8.0, 318.0]) + rng.normal(0, 7, 3)
            aim = np.array(
                [side * rng.uniform(45, 128), rng.uniform(-78, 66), rng.uniform(196, 268)]
            )
            middle = (root + aim) / 2 + rng.normal(0, 9, 3)
            wide = rng.uniform(2.4, 5.0)
            points = [(*root, wide), (*middle, wide * 0.62), (*aim, 0.7)]
            tube = Tube(canvas.space, points, margin_mm=2.0, spacing_mm=16.0)
            inside = (tube.level < 0) & (canvas.owner[tube.box] == Owner.LUNG)
            canvas.tint(tube.box, inside, 60.0)


def _spine(canvas: Canvas) -> None:
    box = canvas.space.box((-44, 8, -20), (44, 104, 320))
    x, y, z = canvas.space.at(box)
    grain = canvas.grain[box]
    along = np.mod(z + 14, _VERTEBRA_MM) - _VERTEBRA_MM / 2
    waist = 1 - 0.09 * (1 - (along / 14) ** 2).clip(0, 1)
    body = ellipsoid((x / waist, y, 0 * z), (0, 37, 0), (23, 16.5, 19))
    body = np.maximum(body, -ellipsoid((x, y, 0 * z), (0, 61, 0), (13, 10.5, 12)))
    bony = np.abs(along) < 12.6
    end_plate = np.abs(along) > 11.3
    values = np.select([body > -2.0, end_plate], [390.0, 285.0], 172.0) + 34 * grain
    canvas.fill(box, (body < 0) & bony, values, Owner.WALL)
    canvas.fill(box, (body < 0.8) & ~bony, 84.0, Owner.WALL)
    arch = _arch(x, y, along)
    values = np.where(arch > -1.9, 480.0, 210.0) + 40 * grain
    canvas.fill(box, arch < 0, values, Owner.WALL)
    canal = ellipsoid((x, y, 0 * z), (0, 61, 0), (11.5, 9.0, 10))
    canvas.fill(box, canal < 0, -70.0, Owner.WALL)
    canvas.fill(box, canal < -2.4, 32.0, Owner.WALL)


def _rod(x: Field, y: Field, z: Field, a: tuple[float, ...], b: tuple[float, ...]) -> Field:
    """Return the distance to a segment from a to b."""
    step = np.subtract(b, a).astype(np.float32)
    dx, dy, dz = x - np.float32(a[0]), y - np.float32(a[1]), z - np.float32(a[2])
    t = np.clip((dx * step[0] + dy * step[1] + dz * step[2]) / np.float32(step @ step), 0, 1)
    distance: Field = np.sqrt(
        (dx - t * step[0]) ** 2 + (dy - t * step[1]) ** 2 + (dz - t * step[2]) ** 2
    )
    return distance


def _arch(x: Field, y: Field, along: Field) -> Field:
    """Return the level of pedicles, laminae, facets, spinous and transverse processes."""
    side = np.abs(x)
    arch = _rod(side, y, along, (14, 48, 5), (17, 64, 4)) - 4.6
    arch = np.minimum(arch, _rod(side, y, along, (17, 64, 2), (1, 74, -5)) - 4.2)
    arch = np.minimum(arch, _rod(side, y, along, (1, 74, -4), (0, 90, -9)) - 3.6)
    arch = np.minimum(arch, _rod(side, y, along, (17, 62, 4), (36, 68, 6)) - 3.9)
    facets: Field = _rod(side, y, along, (18, 65, -14), (18, 66, 10)) - 4.5
    whole: Field = np.minimum(arch, facets)
    return whole


def _pelvis(canvas: Canvas) -> None:
    for side in (-1.0, 1.0):
        points = [
            (side * 48, 66, -16, 11),
            (side * 74, 56, 8, 8),
            (side * 104, 32, 22, 6),
            (side * 124, 2, 16, 6),
            (side * 124, -24, -2, 8),
        ]
        for lift in (0.0, -6.0, -12.0, -18.0, -24.0):
            rim = [(x, y, z + lift, r) for x, y, z, r in points]
            tube = Tube(canvas.space, rim, margin_mm=2.0)
            values = np.where(tube.level > -2.2, 560.0, 230.0) + 40 * canvas.grain[tube.box]
            canvas.fill(tube.box, tube.level < 0, values, Owner.WALL)


def table(hu: Field) -> None:
    """Lay the patient on a table: mattress and two thin shells, where there is air."""
    x, y, _ = axes_mm()
    top = 105 + (x[None, :] ** 2) / 1300
    below = y[:, None] - top
    reach = np.abs(x)[None, :] < 176
    air = hu < -900
    for low, high, value in ((0.0, 9.0, -930.0), (9.0, 12.0, 480.0), (24.0, 27.0, 360.0)):
        part = (below >= low) & (below < high) & reach
        hu[air & part[None]] = value
    foam = (below >= 12.0) & (below < 24.0) & reach
    hu[air & foam[None]] = -960.0
