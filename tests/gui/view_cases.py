"""Cases for the tests of the view: a one-sided phantom in any axis order, and what is on screen."""

from itertools import permutations, product
from pathlib import Path

import numpy as np
from qtpy.QtWidgets import QApplication

from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    LabelMap,
    Mask,
    Region,
    Source,
    Volume,
)
from napari_ctvqa.core.geometry import FileSpace, Grid, grid_of_file, to_display
from napari_ctvqa.widgets.directions import canvas_to_world

SPACING_MM_RAS = (0.9, 1.1, 2.5)
SHAPE_RAS = (24, 20, 12)
ORDERS = [
    (order, flips) for order in permutations(range(3)) for flips in product((False, True), repeat=3)
]
"""All 48 ways to store a volume: which RAS axis each file axis runs along, which run backwards."""


def phantom_hu_ras():
    """Body 40 HU; rod 300 HU on patient left; cube anterior; ball superior: (x, y, z) in RAS."""
    x, y, z = np.ogrid[: SHAPE_RAS[0], : SHAPE_RAS[1], : SHAPE_RAS[2]]
    hu = np.full(SHAPE_RAS, -1000, np.int16)
    hu[((x - 11.5) / 11) ** 2 + ((y - 9.5) / 9) ** 2 + 0 * z <= 1] = 40
    for structure, inside in phantom_masks_ras().items():
        hu[inside] = {"rod": 300, "cube": 160, "ball": -100}[structure]
    return hu


def phantom_masks_ras():
    x, y, z = np.ogrid[: SHAPE_RAS[0], : SHAPE_RAS[1], : SHAPE_RAS[2]]
    rod = (abs(x - 5) <= 1) & (abs(y - 8) <= 1) & (z >= 0)
    cube = (abs(x - 11) <= 2) & (y >= 14) & (y <= 16) & (abs(z - 4) <= 1)
    ball = (x - 15) ** 2 + (y - 8) ** 2 + ((z - 8) * 2) ** 2 <= 9
    return {"rod": rod, "cube": cube, "ball": ball}


def stored(array_ras, order, flips, spacing_mm=SPACING_MM_RAS, origin_mm=(-10.0, 5.0, 100.0)):
    """Return array and affine as one of the 48 files would hold them."""
    array = array_ras.transpose(order)
    affine = np.eye(4)
    affine[:3, :3] = 0
    affine[:3, 3] = origin_mm
    for axis, (ras, flip) in enumerate(zip(order, flips, strict=True)):
        affine[ras, axis] = -spacing_mm[ras] if flip else spacing_mm[ras]
        if flip:
            affine[ras, 3] += spacing_mm[ras] * (array_ras.shape[ras] - 1)
    array = array[tuple(slice(None, None, -1 if flip else 1) for flip in flips)]
    return np.ascontiguousarray(array), affine


def case_of(hu_ijk, affine, masks_ijk, *, case_id="phantom", report=None, lesions=()):
    """Build a Case from file-order arrays, as the reader would."""
    report = report or GeometryReport()
    grid = grid_of_file(FileSpace(hu_ijk.shape, affine, 1, 1))
    hu = to_display(hu_ijk, grid)
    path = Path(f"{case_id}.nii.gz")
    volume = Volume(hu, grid, hu, grid, report, path, float(hu.min()), float(hu.max()))
    masks = {
        name: mask_of(name, to_display(array.astype(bool), grid), grid, lesion=name in lesions)
        for name, array in masks_ijk.items()
    }
    maps = {}
    for group, wanted in (("organs", False), ("lesions", True)):
        members = [m for m in masks.values() if m.lesion is wanted and not m.region.empty]
        if members:
            maps[group] = painted(group, members, grid)
    return Case(CaseFiles(case_id, path), volume, masks, report, maps)


def mask_of(name, inside_zyx, grid: Grid, *, lesion=False, source=Source.REFERENCE):
    if inside_zyx.any():
        where = np.argwhere(inside_zyx)
        low, high = where.min(axis=0), where.max(axis=0) + 1
        box = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        region = Region(grid, box, np.ascontiguousarray(inside_zyx[box]), len(where))
    else:
        region = Region(grid, None, None, 0)
    return Mask(name, name, source, region, region, lesion=lesion)


def painted(group, masks, grid):
    labels = np.zeros(grid.shape_zyx, np.uint8 if len(masks) < 128 else np.uint16)
    structures = {}
    for value, mask in enumerate(sorted(masks, key=lambda m: -m.region.voxels), start=1):
        labels[mask.region.box_zyx][mask.region.crop_zyx] = value
        structures[value] = mask.structure
    return LabelMap(group, labels, structures)


def phantom_case(order=(0, 1, 2), flips=(True, True, False), **options):
    hu, affine = stored(phantom_hu_ras(), order, flips)
    masks = {name: stored(m, order, flips)[0] for name, m in phantom_masks_ras().items()}
    return case_of(hu, affine, masks, **options)


def picture(viewer):
    """Return the rendered canvas, (h, w, 3) uint8, once the window's layout is settled."""
    for _ in range(3):
        QApplication.processEvents()
    return viewer.screenshot(canvas_only=True, flash=False)[..., :3]


def on_canvas(viewer, mask_zyx, grid, shape_px):
    """Return which pixels of the canvas show a voxel of the mask, from camera and dims alone."""
    rows, columns = np.mgrid[: shape_px[0], : shape_px[1]] + 0.5
    flat = [canvas_to_world(viewer, (x, y)) for x, y in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))]
    world = (
        flat[0] + columns[..., None] * (flat[1] - flat[0]) + rows[..., None] * (flat[2] - flat[0])
    )
    index = np.floor(world / grid.spacing_mm_zyx + 0.5).astype(int)
    inside = ((index >= 0) & (index < grid.shape_zyx)).all(axis=-1)
    hit = np.zeros(shape_px, bool)
    hit[inside] = mask_zyx[tuple(index[inside].T)]
    return hit


def whole(mask):
    """Return a mask's region on the whole grid."""
    out = np.zeros(mask.region.grid.shape_zyx, bool)
    if not mask.region.empty:
        out[mask.region.box_zyx] = mask.region.crop_zyx
    return out


def iou(a, b):
    return (a & b).sum() / max((a | b).sum(), 1)


def go_through(layers, mask):
    """Go to the middle of a mask along all three axes."""
    for axis, part in enumerate(mask.region.box_zyx):
        layers.go_to(axis, (part.start + part.stop - 1) // 2)
