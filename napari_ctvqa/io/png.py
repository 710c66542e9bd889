"""Pictures as PNG, with the standard library alone: an image library would be one more."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _RGB = 0, 2


def grey_png(grey_yx: npt.NDArray[np.uint8]) -> bytes:
    """Return an 8-bit grey picture (rows, columns) as the bytes of a PNG file."""
    return _png(grey_yx, grey_yx.shape[1], _GREY)


def rgb_png(rgb_yxc: npt.NDArray[np.uint8]) -> bytes:
    """Return an 8-bit colour picture (rows, columns, 3) as the bytes of a PNG file."""
    height, width, _ = rgb_yxc.shape
    return _png(rgb_yxc.reshape(height, 3 * width), width, _RGB)


def _png(bytes_yx: npt.NDArray[np.uint8], width: int, colour_type: int) -> bytes:
    height, row_bytes = bytes_yx.shape
    rows = np.zeros((height, row_bytes + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = bytes_yx
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check
