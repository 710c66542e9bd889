"""What is true of a case, from its parameters alone; nothing here looks at a voxel.

Why this agrees with a count of the files and is still independent of it:

* volume of an organ: an input. The painter takes the voxels of lowest level until that many are
  held, so the files meet it to half a voxel (0.003 cm³), whatever the warps did to the shape;
* volume and diameter of a lesion: closed forms of its half axes. It is painted at unbent
  positions, before everything else, and its bump is odd: no diameter through the centre changes;
* mean HU: an input. After blur and noise each organ (without lesions) and each lesion is shifted
  to it; a mean over several lesions is weighted by their closed-form volumes;
* where a lesion lies: its ``shares`` are an input; the liver is cut around them;
* the widest slice: the centre slice, by symmetry.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ctvqa.demo.parameters import PARTS, CaseParameters, Lesion, voxels_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def lesions_of(case: CaseParameters, mask: str) -> list[Lesion]:
    """Return the lesions that a mask holds, largest first."""
    found = [lesion for lesion in case.lesions if mask in lesion.masks]
    return sorted(found, key=lambda lesion: -lesion.volume_cm3)


def largest(case: CaseParameters, mask: str) -> Lesion:
    """Return the largest lesion of a mask. Raises IndexError where it has none."""
    return lesions_of(case, mask)[0]


def is_lesion_mask(case: CaseParameters, mask: str) -> bool:
    """Return whether this name stands for lesions in the case, present or none."""
    return any(mask in lesion.masks for lesion in case.lesions) or mask in case.empty_masks


def volume_cm3(case: CaseParameters, structure: str) -> float:
    """Return an organ's stated volume or the sum of its lesions' closed forms.

    Raises KeyError for a structure of which the parameters state no volume.
    """
    if is_lesion_mask(case, structure):
        return math.fsum(lesion.volume_cm3 for lesion in lesions_of(case, structure))
    volume = case.organs[structure].volume_cm3
    if volume is None:
        raise KeyError(f"{structure} leaves the field of view: no volume is stated")
    return volume


def voxel_count(case: CaseParameters, structure: str) -> int:
    """Return how many voxels a structure of stated volume takes; of an organ, all its parts'."""
    if structure in PARTS:
        return sum(voxel_count(case, part) for part in PARTS[structure])
    if is_lesion_mask(case, structure):
        return sum(voxels_of(lesion.volume_cm3) for lesion in lesions_of(case, structure))
    return voxels_of(volume_cm3(case, structure))


def mean_hu(case: CaseParameters, structure: str) -> float:
    """Return an organ's stated mean without lesions, or the volume-weighted mean of lesions."""
    if not is_lesion_mask(case, structure):
        hu = case.organs[structure].hu
        if hu is None:
            raise KeyError(f"no mean HU is stated of {structure}")
        return hu
    lesions = lesions_of(case, structure)
    total = math.fsum(voxels_of(lesion.volume_cm3) for lesion in lesions)
    return math.fsum(lesion.hu * voxels_of(lesion.volume_cm3) for lesion in lesions) / total


def count_in(lesions: Sequence[Lesion], part: str) -> int:
    """Return how many lesions have more than a tenth of their volume in a part of the organ."""
    return sum(lesion.shares.get(part, 0.0) > 0.1 for lesion in lesions)


def structures(case: CaseParameters) -> tuple[str, ...]:
    """Return every structure that the case has a mask file for."""
    lesion_masks = {m for lesion in case.lesions for m in lesion.masks}
    names = {*case.organs, *lesion_masks, *case.empty_masks} - set(case.absent_masks)
    return tuple(sorted(names))
