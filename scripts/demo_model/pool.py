"""The training pictures: slices of generated bodies, and the same with lesions painted in 2-D.

A body costs seconds, a painted lesion a tenth of a millisecond: these give the variety.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from demo_model.bodies import ORGANS, Body, lesion_areas_mm2
from demo_model.pictures import PIXEL_MM, cut, grey, shrunk

SEEN_MM2 = 177.0
"""A lesion counts as shown on a slice from this area on (a disc of 15 mm); smaller cuts of one
are left out of all questions, as neither answer would be fair."""
GRID = 16
"""Patches along a side."""
UNSURE = 255
_SURE = 0.35
"""Part of a patch that a lesion takes at least where the patch is said to show it."""
MIDLINE_MM = 15.0
"""A lesion whose centre is nearer to the midline has no side."""
PLACES = 64
_DEEP_MM = 6.0


@dataclass(frozen=True, eq=False)
class Pool:
    """Pictures with what they show; all arrays have one row a picture.

    ``lesions`` holds for each pixel 0 or the organ number of the lesion there. ``seen`` holds, for
    each organ, the signed side of its lesion: 0 none, 1 patient's left, -1 patient's right, 2 in
    the middle. ``places`` holds, for each organ, row and column of pixels where a lesion may be
    painted, all zero where there are none; ``means_hu`` is each organ's mean.
    """

    grey: npt.NDArray[np.uint8]
    lesions: npt.NDArray[np.uint8]
    seen: npt.NDArray[np.int8]
    body: npt.NDArray[np.int32]
    z: npt.NDArray[np.int16]
    places: npt.NDArray[np.uint8]
    means_hu: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.grey)


def sides(lesions_yx: npt.NDArray[np.uint8], pixel_mm: float = PIXEL_MM[1]) -> npt.NDArray[np.int8]:
    """Return per organ the side of its lesion on a picture; see ``Pool.seen``."""
    found = np.zeros(len(ORGANS), np.int8)
    middle = (lesions_yx.shape[1] - 1) / 2
    for number in np.unique(lesions_yx[lesions_yx > 0]):
        column = np.nonzero(lesions_yx == number)[1].mean()
        x_mm = (column - middle) * pixel_mm
        found[number - 1] = 2 if abs(x_mm) < MIDLINE_MM else (1 if x_mm > 0 else -1)
    return found


def patch_labels(lesions_yx: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return for each patch 0, the organ number of the lesion in it, or ``UNSURE`` at its edge."""
    side = lesions_yx.shape[0] // GRID
    labels = np.zeros((GRID, GRID), np.uint8)
    if not lesions_yx.any():
        return labels
    for number in np.unique(lesions_yx[lesions_yx > 0]):
        pixels = (lesions_yx == number).reshape(GRID, side, GRID, side).sum(axis=(1, 3))
        sure = min(_SURE * side**2, pixels.max())
        labels[(pixels > 0) & (labels == 0)] = UNSURE
        labels[pixels >= sure] = number
    return labels


def pool_of(made: Iterable[Body], rng: np.random.Generator, step: int = 1) -> Pool:
    """Return pictures of bodies: every slice with a lesion, of the others every ``step``-th."""
    rows = [row for number, body in enumerate(made) for row in _rows(body, number, rng, step)]
    return Pool(*(np.stack(values) for values in zip(*rows, strict=True)))


def _rows(
    body: Body, number: int, rng: np.random.Generator, step: int
) -> Iterable[tuple[np.ndarray, ...]]:
    areas = lesion_areas_mm2(body)
    organ_of = np.array([0, *(ORGANS.index(x.organ) + 1 for x in body.lesions)], np.uint8)
    means = np.array(body.means_hu, np.float32)
    first = int(rng.integers(step))
    for z in range(len(body.hu_zyx)):
        shown = areas[z] > 0
        if (areas[z][shown] < SEEN_MM2).any() or not (shown.any() or z % step == first):
            continue
        lesions, organs = (
            shrunk(np.ascontiguousarray(cut(labels)), Image.Resampling.NEAREST)
            for labels in (organ_of[body.lesions_zyx[z]], body.organs_zyx[z])
        )
        places = np.zeros((len(ORGANS), PLACES, 2), np.uint8)
        if not shown.any():
            places = _places(organs, rng)
        yield (
            grey(body.hu_zyx[z]), lesions, sides(lesions), np.int32(number), np.int16(z), places,
            means,
        )  # fmt: skip


def _places(organs_yx: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    places = np.zeros((len(ORGANS), PLACES, 2), np.uint8)
    for n in np.unique(organs_yx[organs_yx > 0]):
        deep = ndimage.distance_transform_edt(organs_yx == n, PIXEL_MM)
        found = np.argwhere(deep > _DEEP_MM)
        if len(found) >= 10:
            places[n - 1] = found[rng.integers(len(found), size=PLACES)]
    return places


def first_bodies(pool: Pool, count: int) -> Pool:
    """Return the pictures of the first bodies."""
    rows = np.flatnonzero(pool.body < count)
    return Pool(*(getattr(pool, f.name)[rows] for f in fields(Pool)))


def save_pool(path: Path, pool: Pool) -> None:
    """Keep a pool's arrays in one file."""
    np.savez_compressed(path, **{f.name: getattr(pool, f.name) for f in fields(Pool)})


def load_pool(path: Path) -> Pool:
    """Return a kept pool."""
    with np.load(path, allow_pickle=False) as kept:
        return Pool(*(kept[f.name] for f in fields(Pool)))
