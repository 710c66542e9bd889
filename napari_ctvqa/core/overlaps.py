"""Masks that overlap as bodies do not: a lesion outside its organ, two organs in one place.

Nothing is corrected: the numbers stay what the masks say, and a caveat goes with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.regions import components, difference, shared_voxels, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Region
    from napari_ctvqa.core.regions import Components

OUTSIDE_SHARE = 0.1
"""A lesion may reach so far out of its organ's mask without a word: outlines are drawn freehand."""
SHARED_SHARE = 0.05
"""Two organs may share so much of the smaller one: neighbours blur into each other."""
_MOSTLY = 0.5


def outside_caveat(
    lesion: Region,
    organ: Sequence[Region],
    names: tuple[str, str],
    found: Components | None = None,
) -> str:
    """Return what is to be said where a lesion lies outside its organ; empty where it lies within.

    More than a tenth of its voxels, or a whole 26-connected component, is told; shares are of the
    voxels of ``lesion``, which ``organ`` must share the grid of. ``names`` are the lesion's and the
    organ's, for people. ``found`` are the lesion's components, where they are known already.

    A lesion in a hole of the organ's mask (voxels around it are the organ's) is not outside the
    organ: the mask leaves lesions out, as some data sets draw them.
    """
    if lesion.box_zyx is None or lesion.crop_zyx is None:
        return ""
    said, whole = names
    body = union(organ)
    if body.empty:
        return f"the mask of {whole} is empty, though {said} has voxels"
    left = difference(lesion, [body])
    if left.voxels == lesion.voxels and _enclosed(lesion, body):
        return f"the mask of {whole} leaves {said} out: it lies in a hole of the mask"
    found = found or components(lesion)
    apart = _components_outside(found, left)
    share = left.voxels / lesion.voxels
    if apart and len(found) > 1:
        return (
            f"{apart} of {len(found)} components of {said} and {_percent(share)} of its voxels lie "
            f"outside the mask of {whole}"
        )
    if share > OUTSIDE_SHARE:
        return f"{_percent(share)} of {said} lies outside the mask of {whole}"
    return ""


def shared_caveat(region: Region, other: Region, names: tuple[str, str]) -> str:
    """Return what is to be said where two organs share voxels; empty where they hardly do.

    More than 5 % of the smaller one is told, as the share of ``region`` that also is ``other``.
    Both on one grid; ``names`` are theirs, for people.
    """
    if region.empty or other.empty:
        return ""
    both = shared_voxels(region, other)
    if both <= SHARED_SHARE * min(region.voxels, other.voxels):
        return ""
    return f"{_percent(both / region.voxels)} of {names[0]} is marked as {names[1]} too"


def _components_outside(found: Components, left: Region) -> int:
    """Return how many components have no voxel in the organ; ``left`` is what lies outside it."""
    if left.box_zyx is None or left.crop_zyx is None or found.region.box_zyx is None:
        return 0
    z, y, x = (
        slice(part.start - outer.start, part.stop - outer.start)
        for part, outer in zip(left.box_zyx, found.region.box_zyx, strict=True)
    )
    outside = np.bincount(
        found.labels_zyx[z, y, x][left.crop_zyx], minlength=max(found.values, default=0) + 1
    )
    sizes = zip(found.values, found.voxels, strict=True)
    return sum(int(outside[value]) == voxels for value, voxels in sizes)


def _enclosed(lesion: Region, body: Region) -> bool:
    """Return whether most of the voxels around a lesion are the organ's."""
    from scipy.ndimage import binary_dilation

    assert lesion.box_zyx is not None and lesion.crop_zyx is not None
    padded = np.pad(lesion.crop_zyx, 1)
    around = np.argwhere(binary_dilation(padded) & ~padded)
    around += [part.start - 1 for part in lesion.box_zyx]
    assert body.box_zyx is not None and body.crop_zyx is not None
    own = around - [part.start for part in body.box_zyx]
    inside = ((own >= 0) & (own < body.crop_zyx.shape)).all(axis=1)
    z, y, x = own[inside].T
    return int(np.count_nonzero(body.crop_zyx[z, y, x])) > _MOSTLY * len(around)


def _percent(share: float) -> str:
    return f"{max(1, round(100 * share))} %"
