"""ErrorMap: where two masks of one structure agree, and where only one of them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import BoxZYX, Mask, Region, Source
from napari_ctvqa.core.colours import RGB, Look
from napari_ctvqa.core.regions import same_grid

BOTH, ONLY_FIRST, ONLY_SECOND = 1, 2, 3
COLOURS = {
    BOTH: RGB.from_hex("#56B4E9"),
    ONLY_FIRST: RGB.from_hex("#E69F00"),
    ONLY_SECOND: RGB.from_hex("#CC79A7"),
}
"""Okabe and Ito's sky, orange and purple."""
LOOK = Look("solid", 1.0, "plain", 0.35)
_WORDS = {
    Source.REFERENCE: "reference",
    Source.PREDICTED: "model",
    Source.TOOL: "tool",
    Source.READER: "reader",
    Source.ASSUMED: "assumed",
}


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """Two masks of one structure laid over each other.

    ``labels_zyx`` (uint8) fills ``box_zyx`` of the CT's grid with BOTH, ONLY_FIRST, ONLY_SECOND
    and 0. ``voxels`` counts the three, on that grid. ``dice`` is 2·both / (first + second), None
    where both masks are empty.
    """

    structure: str
    first: Mask
    second: Mask
    labels_zyx: npt.NDArray[np.uint8]
    box_zyx: BoxZYX
    voxels: tuple[int, int, int]
    dice: float | None

    @property
    def table(self) -> dict[int, tuple[str, RGB]]:
        """Return the words and colour of each value."""
        words = (
            "both",
            f"only {source_word(self.first.source)}",
            f"only {source_word(self.second.source)}",
        )
        return {value: (words[value - 1], COLOURS[value]) for value in COLOURS}

    @property
    def volumes_ml(self) -> tuple[float, float, float]:
        """Return the volumes of the three in ml, by the CT's grid."""
        ml = self.first.region.grid.voxel_mm3 / 1000
        both, first, second = self.voxels
        return both * ml, first * ml, second * ml


def source_word(source: Source) -> str:
    """Return what masks of a source are called on the picture: ``"model"``."""
    return _WORDS[source]


def error_map(first: Mask, second: Mask) -> ErrorMap:
    """Return where two masks agree, computed on the CT's grid inside the box around both.

    Raises
    ------
    ValueError
        For masks of different grids.
    """
    if not same_grid(first.region.grid, second.region.grid):
        raise ValueError("masks of different grids")
    box = _box_around(first.region, second.region)
    labels = np.zeros([part.stop - part.start for part in box], np.uint8)
    _mark(labels, box, first.region, 1)
    _mark(labels, box, second.region, 2)
    # first alone 1, second alone 2, both 3: named in the order that the legend has
    values = np.array([0, ONLY_FIRST, ONLY_SECOND, BOTH], np.uint8)
    labels = values[labels]
    counts = np.bincount(labels.ravel(), minlength=4)
    total = first.region.voxels + second.region.voxels
    return ErrorMap(
        first.structure,
        first,
        second,
        labels,
        box,
        (int(counts[BOTH]), int(counts[ONLY_FIRST]), int(counts[ONLY_SECOND])),
        2 * int(counts[BOTH]) / total if total else None,
    )


def _box_around(first: Region, second: Region) -> BoxZYX:
    boxes = [region.box_zyx for region in (first, second) if region.box_zyx is not None]
    if not boxes:
        return slice(0, 1), slice(0, 1), slice(0, 1)
    z, y, x = (
        slice(min(b[axis].start for b in boxes), max(b[axis].stop for b in boxes))
        for axis in range(3)
    )
    return z, y, x


def _mark(labels: npt.NDArray[np.uint8], box: BoxZYX, region: Region, bit: int) -> None:
    if region.box_zyx is None or region.crop_zyx is None:
        return
    there = tuple(
        slice(own.start - outer.start, own.stop - outer.start)
        for own, outer in zip(region.box_zyx, box, strict=True)
    )
    labels[there] |= region.crop_zyx.astype(np.uint8) * np.uint8(bit)
