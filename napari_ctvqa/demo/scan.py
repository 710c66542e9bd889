"""From a painted canvas to int16 HU: blur, noise, and the stated mean of every structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from napari_ctvqa.demo.parameters import SHAPE_KJI, CaseParameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.demo.canvas import Canvas, Painted
    from napari_ctvqa.demo.space import Box, Field

_POINT_SPREAD = np.array([0.06, 0.24, 0.40, 0.24, 0.06], np.float32)
_NOISE_HU = 27.0


def scanned(
    canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]
) -> npt.NDArray[np.int16]:
    """Return the CT, (k, j, i), in which every structure has its stated mean attenuation."""
    rng = np.random.default_rng(case.habitus.seed + 101)
    hu = canvas.hu
    noise = rng.standard_normal(SHAPE_KJI, np.float32)
    noise *= np.float32(_NOISE_HU)
    hu += noise
    for axis in (1, 2):
        hu = ndimage.correlate1d(hu, _POINT_SPREAD, axis, mode="nearest")
    hu += _bias()
    np.clip(hu, -1024, 1600, out=hu)
    _meet_means(hu, canvas, case, lesions)
    return np.rint(hu).astype(np.int16)


def _bias() -> Field:
    """Return a slight smooth error of the scanner, as beam hardening leaves it."""
    y = np.linspace(-1, 1, SHAPE_KJI[1], dtype=np.float32)[None, :, None]
    x = np.linspace(-1, 1, SHAPE_KJI[2], dtype=np.float32)[None, None, :]
    return 2.5 * (x * x + y * y) + 1.2 * x


def _meet_means(
    hu: Field, canvas: Canvas, case: CaseParameters, lesions: Mapping[str, Painted]
) -> None:
    """Shift each organ without its lesions, and each lesion, to its stated mean."""
    for name, organ in case.organs.items():
        if organ.hu is None:
            continue
        mask = canvas.masks[name]
        own = mask.crop.copy()
        for lesion in case.lesions:
            if lesion.organ == name:
                _clear(own, mask.box, lesions[lesion.name])
        _shift(hu, mask.box, own, organ.hu)
    for lesion in case.lesions:
        painted = lesions[lesion.name]
        _shift(hu, painted.box, painted.crop, lesion.hu)


def _clear(selection: npt.NDArray[np.bool_], box: Box, painted: Painted) -> None:
    inner = tuple(
        slice(s.start - o.start, s.stop - o.start) for s, o in zip(painted.box, box, strict=True)
    )
    selection[inner] &= ~painted.crop


def _shift(hu: Field, box: Box, selection: npt.NDArray[np.bool_], mean_hu: float) -> None:
    values = hu[box][selection]
    hu[box][selection] = values + np.float32(mean_hu - values.mean(dtype=np.float64))
