"""The training pictures: slices of generated bodies, and the same with lesions painted in 2-D.

A body costs seconds, a painted slice milliseconds: the painted ones give the variety.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from demo_model.bodies import ORGANS, SEMI_MM, Body, lesion_areas_mm2, lesion_hu
from demo_model.pictures import SIZE, Grey, shrunk, windowed
from napari_ctvqa.demo.parameters import SPACING_MM_KJI
from napari_ctvqa.demo.shapes import ellipsoid

SEEN_MM2 = 113.0
"""A lesion counts as shown on a slice from this area on (a disc of 12 mm); smaller cuts of one
are left out of all questions, as neither answer would be fair."""
GRID = 16
"""Patches along a side."""
UNSURE = 255
_SURE = 0.35
"""Part of a patch that a lesion takes at least where the patch is said to show it."""
MIDLINE_MM = 15.0
"""A lesion whose centre is nearer to the midline has no side."""
_PITCH_MM = SPACING_MM_KJI[1]
_POINT_SPREAD = np.array([0.06, 0.24, 0.40, 0.24, 0.06], np.float32)
_NOISE_HU = 27.0


@dataclass(frozen=True, eq=False)
class Pool:
    """Pictures with what they show; all arrays have one row a picture.

    ``seen`` holds, for each organ, the signed side of its lesion: 0 none, 1 patient's left, -1
    patient's right, 2 in the middle. ``patches`` holds for each patch 0 or the organ number of
    the lesion in it.
    """

    grey: npt.NDArray[np.uint8]
    patches: npt.NDArray[np.uint8]
    seen: npt.NDArray[np.int8]
    body: npt.NDArray[np.int32]
    z: npt.NDArray[np.int16]
    base: npt.NDArray[np.int32]
    """The row of the same slice without the lesions that were painted in; its own row elsewhere."""

    def __len__(self) -> int:
        return len(self.grey)


@dataclass
class _Rows:
    size: int
    grey: list[Grey] = field(default_factory=list)
    patches: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    seen: list[npt.NDArray[np.int8]] = field(default_factory=list)
    body: list[int] = field(default_factory=list)
    z: list[int] = field(default_factory=list)
    base: list[int] = field(default_factory=list)

    def add(
        self,
        hu: npt.NDArray[np.generic],
        lesions: npt.NDArray[np.uint8],
        at: tuple[int, int],
        base: int | None = None,
    ) -> None:
        """Add a slice of body and height ``at``; ``lesions`` holds organ numbers."""
        self.base.append(len(self.base) if base is None else base)
        grey = windowed(hu)
        self.grey.append(shrunk(grey, self.size) if self.size else grey)
        self.patches.append(patch_labels(lesions))
        self.seen.append(sides(lesions))
        self.body.append(at[0])
        self.z.append(at[1])


def sides(lesions_yx: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """Return per organ the side of its lesion on a display slice; see ``Pool.seen``."""
    found = np.zeros(len(ORGANS), np.int8)
    middle = (lesions_yx.shape[1] - 1) / 2
    for number in np.unique(lesions_yx[lesions_yx > 0]):
        column = np.nonzero(lesions_yx == number)[1].mean()
        x_mm = (column - middle) * _PITCH_MM
        found[number - 1] = 2 if abs(x_mm) < MIDLINE_MM else (1 if x_mm > 0 else -1)
    return found


def patch_labels(lesions_yx: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return what each patch shows of a lesion, see ``Pool.patches``; every lesion has a patch."""
    height, width = lesions_yx.shape
    rows = np.arange(height) * GRID // height
    columns = np.arange(width) * GRID // width
    labels = np.zeros((GRID, GRID), np.uint8)
    for number in np.unique(lesions_yx[lesions_yx > 0]):
        voxels = np.zeros((GRID, GRID), np.int64)
        np.add.at(voxels, np.ix_(rows, columns), lesions_yx == number)
        sure = min(_SURE * height * width / GRID**2, voxels.max())
        labels[(voxels > 0) & (labels == 0)] = UNSURE
        labels[voxels >= sure] = number
    return labels


def pool_of(
    made: Iterable[Body],
    rng: np.random.Generator,
    painted: int,
    step: int = 2,
    size: int = SIZE,
) -> Pool:
    """Return pictures of bodies.

    These are every ``step``-th slice as it is, and ``painted`` copies of each slice without a
    lesion that cuts an organ, with lesions painted in.

    ``size`` 0 leaves the slices as large as they are.
    """
    rows = _Rows(size)
    for number, body in enumerate(made):
        _add_body(rows, body, number, rng, painted, step)
    return Pool(
        np.stack(rows.grey),
        np.stack(rows.patches),
        np.stack(rows.seen),
        np.array(rows.body, np.int32),
        np.array(rows.z, np.int16),
        np.array(rows.base, np.int32),
    )


def _add_body(
    rows: _Rows, body: Body, number: int, rng: np.random.Generator, painted: int, step: int
) -> None:
    areas = lesion_areas_mm2(body)
    organ_of = np.array([0, *(ORGANS.index(x.organ) + 1 for x in body.lesions)], np.uint8)
    for z in range(int(rng.integers(step)), len(body.hu_zyx), step):
        shown = areas[z] > 0
        if (areas[z][shown] < SEEN_MM2).any():
            continue
        rows.add(body.hu_zyx[z], organ_of[body.lesions_zyx[z]], (number, z))
        organs, base = body.organs_zyx[z], len(rows.base) - 1
        for _ in range(0 if shown.any() or not organs.any() else painted):
            hu, lesions = with_lesions(body, z, rng)
            if lesions.any():
                rows.add(hu, lesions, (number, z), base)


def with_lesions(
    body: Body, z: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Return a slice with one lesion painted in, sometimes two, and their organ numbers."""
    hu = body.hu_zyx[z].astype(np.float32)
    lesions = np.zeros(hu.shape, np.uint8)
    present = [n for n in np.unique(body.organs_zyx[z]) if n]
    count = 2 if rng.random() < 0.15 else 1
    for number in rng.permutation(present)[:count]:
        _paint(body, z, int(number), (hu, lesions), rng)
    return hu, lesions


def _paint(
    body: Body,
    z: int,
    number: int,
    into: tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]],
    rng: np.random.Generator,
) -> None:
    hu, lesions = into
    name = ORGANS[number - 1]
    inside = body.organs_zyx[z] == number
    deep = ndimage.distance_transform_edt(inside) * _PITCH_MM
    rows, columns = np.nonzero(deep > min(4.0, float(deep.max()) - 1.0))
    if rows.size < 40:
        return
    at = int(rng.integers(rows.size))
    low, high = SEMI_MM[name]
    semi = rng.uniform(max(low - 1.0, 6.5), high) * rng.uniform(0.82, 1.0, 2)
    y = (np.arange(hu.shape[0], dtype=np.float32)[:, None] - rows[at]) * np.float32(_PITCH_MM)
    x = (np.arange(hu.shape[1], dtype=np.float32)[None, :] - columns[at]) * np.float32(_PITCH_MM)
    turn = float(rng.uniform(-90, 90))
    level = ellipsoid((x, y, np.zeros((1, 1), np.float32)), (0, 0, 0), (*semi, 10.0), turn)
    size = np.float32(np.cbrt(semi[0] * semi[1] * 10.0))
    angle = np.arctan2(y, x) - np.radians(turn)
    odd = 0.7 * np.cos(3 * angle + 0.6) + 0.3 * np.cos(5 * angle - 1.1)
    level = (level + size) / (1 + rng.uniform(0, 0.12) * odd) - size
    mean = lesion_hu(rng, name, body.means_hu[number - 1])
    core = np.float32(mean)
    if mean >= 20:
        core = mean + 9 - 28 * np.clip(-level / semi.max(), 0, 1)
    noise = rng.standard_normal(hu.shape, np.float32) * np.float32(_NOISE_HU)
    for axis in (0, 1):
        noise = ndimage.correlate1d(noise, _POINT_SPREAD, axis, mode="nearest")
    cover = np.clip(0.5 - level / np.float32(2.2), 0, 1)
    if (lesions[level < 0] > 0).any():
        return
    hu += cover * (core + noise - hu)
    lesions[level < 0] = number


def joined(pools: Sequence[Pool]) -> Pool:
    """Return several pools as one; bodies stay apart."""
    first = np.cumsum([0, *(int(pool.body.max()) + 1 for pool in pools)])
    rows = np.cumsum([0, *(len(pool) for pool in pools)])
    return Pool(
        np.concatenate([pool.grey for pool in pools]),
        np.concatenate([pool.patches for pool in pools]),
        np.concatenate([pool.seen for pool in pools]),
        np.concatenate([pool.body + n for pool, n in zip(pools, first, strict=False)]),
        np.concatenate([pool.z for pool in pools]),
        np.concatenate([pool.base + n for pool, n in zip(pools, rows, strict=False)]),
    )


def save_pool(path: Path, pool: Pool) -> None:
    """Keep a pool's arrays in one file."""
    np.savez(path, **{name: getattr(pool, name) for name in _ARRAYS})


def load_pool(path: Path) -> Pool:
    """Return a kept pool."""
    with np.load(path, allow_pickle=False) as kept:
        return Pool(*(kept[name] for name in _ARRAYS))


_ARRAYS = ("grey", "patches", "seen", "body", "z", "base")
