"""Pictures out of PNG files, whatever their depth and palette, and into them."""

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


def png_of(rgb_yxc: npt.NDArray[np.uint8]) -> bytes:
    """Return uint8 (rows, columns, 3) as a PNG, packed quickly; a grey one as grey."""
    from PIL import Image

    grey = (rgb_yxc == rgb_yxc[..., :1]).all()
    stream = io.BytesIO()
    Image.fromarray(rgb_yxc[..., 0] if grey else rgb_yxc).save(stream, "PNG", compress_level=1)
    return stream.getvalue()
