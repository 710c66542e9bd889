"""What VILA-M3's segmentation expert gives back: an overlay of one slice, and what its colours are.

The masks of the case stand in for VISTA3D: its names and label numbers, painted on the slice as its
demonstration does (``skimage.color.label2rgb`` with the same colours).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.expert_calls import EVERYTHING
from napari_ctvqa.core.names import canonical

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.asking import Picture
    from napari_ctvqa.core.cases import Case, Mask

COLOURS = (
    "red", "blue", "yellow", "magenta", "green", "indigo", "darkorange", "cyan", "pink", "brown",
    "orange", "lime", "orange", "gold", "yellowgreen", "darkgreen",
)  # fmt: skip
"""Of the labels in a slice, in the order of their numbers; orange stands twice in the source."""


@cache
def _table() -> Mapping[str, Any]:
    text = resource_path("vista3d_groups.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = MappingProxyType(json.loads(text))
    return loaded


def groups() -> Mapping[str, Mapping[str, int]]:
    """Return the groups that can be asked for: label numbers by the expert's names."""
    named: dict[str, Mapping[str, int]] = dict(_table()["groups"])
    whole = {name: number for group in named.values() for name, number in group.items()}
    return {EVERYTHING: whole, **named}


@dataclass(frozen=True)
class Result:
    """The expert's result: its text, the overlay, and the structures that it shows."""

    text: str
    overlay: Picture
    structures: tuple[str, ...]


def result(case: Case, group: str, index: int, picture: Picture) -> Result:
    """Return the result for a group on a display slice.

    ``picture`` is the slice as it was sent. Larger masks are painted first, so that what lies
    inside stays in sight.

    Raises
    ------
    KeyError
        For a group that the expert does not know.
    """
    from skimage.color import label2rgb

    numbers = groups()[group]
    found = {name: mask for name in numbers if (mask := _mask(case, name)) is not None}
    labels = np.zeros(picture.pixels.shape[:2], np.int32)
    for name, mask in sorted(found.items(), key=lambda item: -item[1].region.voxels):
        _paint(labels, mask, index, numbers[name])
    grey = picture.pixels[..., 0]
    blended: Any = label2rgb
    coloured = blended(labels, image=grey, colors=COLOURS, bg_label=0)
    overlay = replace(
        picture, pixels=(coloured * 255).astype(np.uint8), label="the expert's result"
    )
    names = {number: name for name, number in numbers.items()}
    seen = [int(number) for number in np.unique(labels) if number]
    said = [f"{c}: {names[n]}" for n, c in zip(seen, cycle(COLOURS), strict=False)]
    text = f"The results are <image>. The colors in this image describe {', '.join(said)}. "
    return Result(text, overlay, tuple(found[names[number]].structure for number in seen))


def _mask(case: Case, name: str) -> Mask | None:
    for structure in (canonical(name), *_table()["instead"].get(name, ())):
        mask = case.masks.get(structure)
        if mask is not None and not mask.region.empty:
            return mask
    return None


def _paint(labels: npt.NDArray[np.int32], mask: Mask, index: int, number: int) -> None:
    box, crop = mask.region.box_zyx, mask.region.crop_zyx
    assert box is not None and crop is not None
    if box[0].start <= index < box[0].stop:
        labels[box[1], box[2]][crop[index - box[0].start]] = number
