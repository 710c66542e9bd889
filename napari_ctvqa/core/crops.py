"""One axial slice through an organ as a grey picture, as DeepTumorVQA shows it to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.regions import focus_slice

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Region, Volume

WIDTH_HU, LEVEL_HU = 400.0, 50.0
_SQUARE_WITHIN = 0.01


@dataclass(frozen=True, eq=False)
class Crop:
    """A rendered slice: ``grey_yx`` (uint8) runs to Posterior and to the patient's Left.

    Its pixels are squares; ``file_slice`` is the index along the file's own axis, None where the
    picture is resampled (a sheared CT).
    """

    grey_yx: npt.NDArray[np.uint8]
    display_slice: int
    file_slice: int | None

    def picture(self, volume: Volume, label: str) -> Picture:
        """Return it as it is sent to a model, with where its pixels lie in the CT."""
        _, *shape_yx = volume.display_zyx.shape
        step_y, step_x = (
            (voxels - 1) / max(pixels - 1, 1)  # zoom keeps the centres of the outer voxels
            for voxels, pixels in zip(shape_yx, self.grey_yx.shape, strict=True)
        )
        place = np.array([[0, 0, self.display_slice], [step_y, 0, 0], [0, step_x, 0]], float)
        pixels = np.repeat(self.grey_yx[..., None], 3, axis=2)
        window = (LEVEL_HU - WIDTH_HU / 2, LEVEL_HU + WIDTH_HU / 2)
        return Picture(pixels, label, place, (window,), "crop")


def render(volume: Volume, regions: Sequence[Region]) -> Crop:
    """Return the axial slice through one or several organs, at width 400 and level 50 HU.

    Which slice DeepTumorVQA took is not known; this takes the one where the organ is largest, for
    several the one where the smallest of them is.

    Raises
    ------
    ValueError
        When every region is empty.
    """
    index = _slice_through(regions, len(volume.display_zyx))
    low = LEVEL_HU - WIDTH_HU / 2
    hu = volume.display_zyx[index].astype(np.float32)
    grey = np.rint((hu - low) * (255.0 / WIDTH_HU)).clip(0, 255).astype(np.uint8)
    _, y_mm, x_mm = volume.display_grid.spacing_mm_zyx
    on_file = volume.display_grid.file_slice(0, index)
    return Crop(_squared(grey, y_mm, x_mm), index, None if on_file is None else on_file[1])


def _slice_through(regions: Sequence[Region], count: int) -> int:
    there = [region for region in regions if not region.empty]
    if not there:
        raise ValueError("nothing to show: every region is empty")
    if len(there) == 1:
        return focus_slice(there[0])
    areas = np.zeros((len(there), count), np.int64)
    for row, region in zip(areas, there, strict=True):
        assert region.box_zyx is not None and region.crop_zyx is not None
        row[region.box_zyx[0]] = region.crop_zyx.sum(axis=(1, 2))
    shared = areas.min(axis=0)
    return int(np.argmax(shared if shared.any() else areas.sum(axis=0)))


def _squared(grey: npt.NDArray[np.uint8], y_mm: float, x_mm: float) -> npt.NDArray[np.uint8]:
    """Return the picture with square pixels of the smaller of the two spacings."""
    if abs(y_mm / x_mm - 1) < _SQUARE_WITHIN:
        return grey
    from scipy.ndimage import zoom

    pixel_mm = min(y_mm, x_mm)
    stretched: npt.NDArray[np.uint8] = zoom(grey, (y_mm / pixel_mm, x_mm / pixel_mm), order=1)
    return stretched
