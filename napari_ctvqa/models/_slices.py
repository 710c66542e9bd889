"""One axial slice as a picture, for models that are shown no more of a CT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.models._pictures import hu_slice, slice_records

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.cases import Case

MASK_CHOSE = "a mask chose the slice: the model is told where to look, so this is no fair test"


def middle_slice(case: Case) -> int:
    """Return the display index of the middle slice, counted n // 2 from the feet as files are."""
    count = case.volume.display_grid.shape_zyx[0]
    return count - 1 - count // 2


def slice_as_seen(
    case: Case, index: int, window_hu: tuple[float, float], *, rounded: bool
) -> Picture:
    """Return a display slice in grey: rows to Posterior, columns to the patient's Left.

    Scaled to 0–255 in float32; ``rounded`` half to even, else cut to whole numbers, as a bare
    ``astype(uint8)`` does.
    """
    low, high = np.float32(window_hu[0]), np.float32(window_hu[1])
    hu = hu_slice(case.volume, 0, index).astype(np.float32)
    grey = (np.clip(hu, low, high) - low) / (high - low) * np.float32(255)
    pixels = (np.rint(grey) if rounded else grey).astype(np.uint8)
    place = np.array([[0.0, 0.0, index], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return Picture(np.repeat(pixels[..., None], 3, axis=2), "", place, (window_hu,))


def slice_recipe(
    family: str, preset: Preset, case: Case, index: int, picture: Picture, **more: Any
) -> Mapping[str, Any]:
    """Return what was sent as plain data, enough to make it again."""
    grid = case.volume.display_grid
    return {
        "family": family,
        "preset": preset.name,
        "case_id": case.case_id,
        "slices": slice_records(grid, 0, (index,), (picture.label,)),
        "windows_hu": [list(window) for window in picture.windows],
        "sent_px": list(picture.pixels.shape[:2]),
        **more,
    }
