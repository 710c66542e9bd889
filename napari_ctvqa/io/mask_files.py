"""Masks that a model outlined, kept beside its answer: one bit a voxel of each mask's box.

``numpy.savez_compressed`` holds them, without pickle; whoever reads them trusts nothing in them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.regions import empty_region, region_of

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.geometry import Grid

MASKS = "masks.npz"
_MOST = 32
_MAX_BYTES = 256 * 1024**2
"""Of one file, unpacked: ten masks of a CT of 512 x 512 x 800 voxels."""


def masks_as_bytes(masks: Sequence[Mask]) -> bytes:
    """Return the first 32 masks as a file, each with its names, box and bits."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for number, mask in enumerate(masks[:_MOST]):
        region = mask.region
        box = region.box_zyx or (slice(0, 0),) * 3
        crop = np.zeros(0, np.bool_) if region.crop_zyx is None else region.crop_zyx
        arrays[f"names_{number}"] = np.array([mask.name[:200], mask.structure[:200]])
        arrays[f"grid_{number}"] = np.array(region.grid.shape_zyx)
        arrays[f"box_{number}"] = np.array([[part.start, part.stop] for part in box])
        arrays[f"bits_{number}"] = np.packbits(crop)
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def read_masks(path: Path, grid: Grid) -> tuple[Mask, ...]:
    """Return the masks of a file on the CT's display grid, as predicted ones.

    Raises
    ------
    InputFileError
        When the file is damaged, too large, or of another grid.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > _MAX_BYTES:
                raise ValueError(f"more than {_MAX_BYTES} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            count = sum(name.startswith("box_") for name in arrays.files)
            return tuple(_mask(arrays, number, grid) for number in range(min(count, _MOST)))
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or error}).") from None
    except (ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise InputFileError(
            path, f"holds no masks of this CT ({error}).", hint="Run the question again."
        ) from None


def _mask(arrays: Any, number: int, grid: Grid) -> Mask:
    name, structure = (str(text)[:200] for text in arrays[f"names_{number}"])
    if tuple(int(size) for size in arrays[f"grid_{number}"]) != grid.shape_zyx:
        raise ValueError("they lie on another grid")
    region = _region(np.array(arrays[f"box_{number}"]), arrays[f"bits_{number}"], grid)
    return Mask(name, structure, Source.PREDICTED, region, region)


def _region(box: npt.NDArray[Any], bits: npt.NDArray[Any], grid: Grid) -> Region:
    if box.shape != (3, 2) or box.dtype.kind != "i" or bits.dtype != np.uint8:
        raise ValueError("a box or bits of another kind")
    shape = tuple(int(high - low) for low, high in box)
    if (box < 0).any() or (box[:, 1] > np.array(grid.shape_zyx)).any() or min(shape) < 0:
        raise ValueError("a box outside the grid")
    count = int(np.prod(shape))
    if not count:
        return empty_region(grid)
    if bits.size != (count + 7) // 8:
        raise ValueError("bits of another number of voxels")
    inside = np.unpackbits(bits, count=count).astype(np.bool_).reshape(shape)
    z, y, x = (int(low) for low, _ in box)
    return region_of(inside, grid, (z, y, x))
