"""Write what was generated: NIfTI files with reproducible bytes, JSON."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo.parameters import SHAPE_KJI, SPACING_MM_KJI
from napari_ctvqa.demo.space import axes_mm

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.demo.canvas import Painted

_TABLE_HEIGHT_MM = -412.5
"""Where the first slice lies in the scanner; any number but zero, as in real files."""
_GZIP = 31
"""zlib's window setting for a gzip wrapper; it writes no name and no time."""


def affine_ras() -> npt.NDArray[np.float64]:
    """Return the affine of an LPS file: i to the left, j to posterior, k to superior."""
    x, y, _ = axes_mm()
    dz, dy, dx = SPACING_MM_KJI
    affine = np.diag([-dx, -dy, dz, 1.0])
    affine[:3, 3] = (-float(x[0]), -float(y[0]), _TABLE_HEIGHT_MM)
    return affine


def _header(dtype: npt.DTypeLike) -> bytes:
    header = nib.Nifti1Header()
    header.set_data_dtype(dtype)
    header.set_data_shape(SHAPE_KJI[::-1])
    header.set_qform(affine_ras(), code=1)
    header.set_sform(affine_ras(), code=1)
    header.set_xyzt_units("mm")
    header["magic"] = b"n+1"
    header["vox_offset"] = 352
    header["descrip"] = b"generated phantom, no patient"
    return bytes(header.binaryblock) + bytes(4)


def write_ct(path: Path, hu_kji: npt.NDArray[np.int16]) -> None:
    """Write the CT; the same voxels give the same bytes."""
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP, 9, zlib.Z_HUFFMAN_ONLY)
    body = _header(np.int16) + np.ascontiguousarray(hu_kji, "<i2").tobytes()
    path.write_bytes(packer.compress(body) + packer.flush())


def write_mask(path: Path, mask: Painted) -> None:
    """Write one binary mask on the CT's grid, uint8 0 and 1."""
    whole = np.zeros(SHAPE_KJI, np.uint8)
    whole[mask.box] = mask.crop
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP, 9, zlib.Z_RLE)
    body = _header(np.uint8) + whole.tobytes()
    path.write_bytes(packer.compress(body) + packer.flush())


def write_json(path: Path, data: Any) -> None:
    """Write JSON as people can read it."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
