"""From HU to the pictures that the model is shown: one window, one size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from napari_ctvqa.models import _pictures
from napari_ctvqa.models._toy_prompt import SIZE_PX as SIZE
from napari_ctvqa.models._toy_prompt import WINDOW_HU

Grey = npt.NDArray[np.uint8]


def windowed(hu_yx: npt.NDArray[np.generic]) -> Grey:
    """Return an axial slice as the program shows it: rows to Posterior, columns to Left."""
    return np.ascontiguousarray(_pictures.windowed(hu_yx, (WINDOW_HU,))[..., 0])


def shrunk(grey_yx: Grey, size: int = SIZE) -> Grey:
    """Return a picture in the model's size, resized as the program does it."""
    image = Image.fromarray(grey_yx).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image)
