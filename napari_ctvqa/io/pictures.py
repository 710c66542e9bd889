"""Pictures out of PNG files, whatever their depth and palette; written by ``io.png``."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

MAX_PIXELS = 64_000_000


def read_png(content: bytes) -> npt.NDArray[np.uint8]:
    """Return a PNG as uint8 (rows, columns, 3); transparency is left out.

    Raises
    ------
    ValueError
        When it is no PNG, is damaged, or has more than ``MAX_PIXELS`` pixels.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ValueError(f"the picture has more than {MAX_PIXELS} pixels")
            return np.array(picture.convert("RGB"), np.uint8)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"no PNG picture: {error}") from None
