"""Lesions painted into finished pictures, as the demo's painter does it in the volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from demo_model.bodies import ORGANS, SEMI_MM, lesion_hu
from demo_model.pictures import GREY_PER_HU, PIXEL_MM, SIZE, cut
from demo_model.pool import Pool, sides
from napari_ctvqa.demo.parameters import SHAPE_KJI
from napari_ctvqa.demo.shapes import ellipsoid
from napari_ctvqa.models._toy_prompt import WINDOW_HU

_POINT_SPREAD = np.array([0.06, 0.24, 0.40, 0.24, 0.06], np.float32)
_NOISE_HU = 27.0
_EDGE_MM = 2.6
_REACH = tuple(int(26.0 / mm) for mm in PIXEL_MM)
_NOISES = 200
_SMALLER = 0.94
"""Half axes on a slice that does not go through the middle of a lesion."""


@dataclass(frozen=True)
class Painted:
    """A picture with lesions, and the organ number of the lesion at each pixel."""

    grey: npt.NDArray[np.float32]
    lesions: npt.NDArray[np.uint8]


class Painter:
    """Paints lesions into slices of a pool that show none."""

    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        self._pool, self._rng = pool, rng
        self._noise = _noise(rng)
        self.organs = pool.places.any(axis=(2, 3))
        """Which organs a lesion can be painted in, (pictures, organs)."""
        self.rows = np.flatnonzero(self.organs.any(axis=1))

    def painted(self, row: int, count: int) -> Painted:
        """Return the slice of a row with up to ``count`` lesions of different places."""
        grey = self._pool.grey[row].astype(np.float32)
        lesions = np.zeros(grey.shape, np.uint8)
        for _ in range(count):
            self._paint(row, int(self._rng.choice(np.flatnonzero(self.organs[row]))), grey, lesions)
        return Painted(grey, lesions)

    def _paint(
        self,
        row: int,
        organ: int,
        grey: npt.NDArray[np.float32],
        lesions: npt.NDArray[np.uint8],
    ) -> None:
        rng = self._rng
        name = ORGANS[organ]
        places = self._pool.places[row, organ]
        at = places[int(rng.integers(len(places)))].astype(int)
        box = tuple(
            slice(max(0, n - reach), n + reach + 1) for n, reach in zip(at, _REACH, strict=True)
        )
        y, x = (
            ((np.arange(s.start, min(s.stop, SIZE)) - n) * mm).astype(np.float32)
            for s, n, mm in zip(box, at, PIXEL_MM, strict=True)
        )
        semi = rng.uniform(*SEMI_MM[name]) * rng.uniform(0.85, 1.0, 2)
        semi *= _SMALLER if rng.random() < 0.5 else 1.0
        level = _level(y[:, None], x[None, :], semi, rng)
        if lesions[box][level < 0].any():
            return
        mean = lesion_hu(rng, name, float(self._pool.means_hu[row, organ]))
        core: npt.NDArray[np.float32] | float = mean
        if mean >= 20:
            core = mean + 9 - 28 * np.clip(-level / semi.max(), 0, 1)
        noise = self._noise[int(rng.integers(_NOISES))][: len(y), : len(x)]
        cover = np.clip(0.5 - level / np.float32(_EDGE_MM), 0, 1)
        inside = np.clip((core - WINDOW_HU[0]) * GREY_PER_HU + noise, 0, 255)
        grey[box] += cover * (inside - grey[box])
        lesions[box][level < 0] = organ + 1


def _level(
    y: npt.NDArray[np.float32],
    x: npt.NDArray[np.float32],
    semi: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Return how far outside of a lesion's outline each pixel lies, mm."""
    turn = float(rng.uniform(-90, 90))
    flat = np.zeros((1, 1), np.float32)
    level = ellipsoid((x, y, flat), (0, 0, 0), (float(semi[0]), float(semi[1]), 10.0), turn)
    size = np.float32(np.cbrt(semi[0] * semi[1] * 10.0))
    angle = np.arctan2(y, x) - np.radians(turn)
    odd = 0.7 * np.cos(3 * angle + 0.6) + 0.3 * np.cos(5 * angle - 1.1)
    found: npt.NDArray[np.float32] = (level + size) / (1 + rng.uniform(0, 0.12) * odd) - size
    return found


def _noise(rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return patches of the scan's noise as the pictures show it, grey levels."""
    kept = []
    while len(kept) < _NOISES:
        noise = cut(rng.standard_normal(SHAPE_KJI[1:], np.float32)) * np.float32(_NOISE_HU)
        for axis in (0, 1):
            noise = ndimage.correlate1d(noise, _POINT_SPREAD, axis, mode="nearest")
        small = np.asarray(Image.fromarray(noise).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        height, width = (2 * reach + 1 for reach in _REACH)
        kept += [
            small[top : top + height, left : left + width]
            for top in range(0, SIZE - height, height)
            for left in range(0, SIZE - width, width)
        ]
    return np.stack(kept[:_NOISES]) * np.float32(GREY_PER_HU)


def with_painted(pool: Pool, rng: np.random.Generator, copies: int) -> Pool:
    """Return the pool with ``copies`` of each slice through an organ, with a lesion, or two."""
    painter = Painter(pool, rng)
    rows = np.repeat(painter.rows, copies)
    made = [painter.painted(int(row), 2 if rng.random() < 0.15 else 1) for row in rows]
    lesions = np.stack([one.lesions for one in made])
    return Pool(
        np.concatenate([pool.grey, np.stack([one.grey for one in made]).round().astype(np.uint8)]),
        np.concatenate([pool.lesions, lesions]),
        np.concatenate([pool.seen, np.stack([sides(one) for one in lesions])]),
        *(
            np.concatenate([values, values[rows]])
            for values in (pool.body, pool.z, pool.places, pool.means_hu)
        ),
    )
