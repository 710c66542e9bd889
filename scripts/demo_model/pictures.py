"""From HU to the pictures that the model is shown: one field, one window, one size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from napari_ctvqa.demo.parameters import SPACING_MM_KJI
from napari_ctvqa.models import _pictures
from napari_ctvqa.models._toy_prompt import FIELD_MM, WINDOW_HU
from napari_ctvqa.models._toy_prompt import SIZE_PX as SIZE

Grey = npt.NDArray[np.uint8]
_PITCH_MM = SPACING_MM_KJI[1]
PIXEL_MM = tuple(round(mm / _PITCH_MM) * _PITCH_MM / SIZE for mm in FIELD_MM)
"""Height and width of a picture's pixel."""
GREY_PER_HU = 255.0 / (WINDOW_HU[1] - WINDOW_HU[0])


def cut(plane_yx: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the middle of a display slice, which is what the model is shown of it."""
    middles = [
        _pictures.middle(voxels, _PITCH_MM, mm)
        for voxels, mm in zip(plane_yx.shape, FIELD_MM, strict=True)
    ]
    return plane_yx[tuple(slice(first, first + count) for first, count in middles)]


def grey(hu_yx: npt.NDArray[np.generic]) -> Grey:
    """Return an axial slice as the program sends it: rows to Posterior, columns to Left."""
    field = np.ascontiguousarray(cut(hu_yx))
    return shrunk(_pictures.windowed(field, (WINDOW_HU,))[..., 0])


def shrunk(grey_yx: Grey, how: Image.Resampling = Image.Resampling.BILINEAR) -> Grey:
    """Return a picture in the model's size, resized as the program does it."""
    return np.asarray(Image.fromarray(grey_yx).resize((SIZE, SIZE), how))
