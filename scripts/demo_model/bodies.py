"""Generated bodies like the demo's phantoms, with random anatomy and lesions: what is asked about.

Every body is rendered by the demo's own painter, so that the slices look as those of the demo do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from napari_ctvqa.demo.build import phantom
from napari_ctvqa.demo.parameters import (
    CASES,
    FIRST_CASE,
    SPACING_MM_KJI,
    CaseParameters,
    Habitus,
    Lesion,
    Organ,
)
from napari_ctvqa.demo.space import axes_mm

ORGANS = ("liver", "kidney_left", "kidney_right", "spleen")
"""Organs that lesions are painted in; their number in a label array is the index plus one."""
SEMI_MM = {
    "liver": (10.0, 21.0),
    "kidney_left": (10.0, 17.0),
    "kidney_right": (10.0, 17.0),
    "spleen": (10.0, 14.0),
}
"""Smallest and largest half axis of a lesion; each of the three is shortened by up to
``SHORTEST``."""
SHORTEST = 0.85
Span = tuple[float, float]


@dataclass(frozen=True)
class Lesions:
    """How hard lesions are to see.

    ``darker_hu`` and ``kidney_darker_hu`` say how much darker than its organ one is; kidneys are
    bright in the venous phase. Its centre lies ``inset`` of its largest half axis below the
    organ's surface, where the organ is thick enough, and 6 mm at least.
    """

    darker_hu: Span
    kidney_darker_hu: Span
    inset: float


PAINTED = Lesions((44.0, 110.0), (60.0, 172.0), 0.0)
"""Lesions of training."""
ASKED = Lesions((50.0, 110.0), (65.0, 172.0), 0.8)
"""Lesions that the trained model is asked about."""
_LIGHTEST_CYST_HU = 2.0
_APART_MM = 45.0
_TRIES = 60


@dataclass(frozen=True, eq=False)
class Body:
    """One generated body in display order: axes to Inferior, Posterior, Left.

    ``organs_zyx`` holds the index of the organ in ``ORGANS`` plus one, ``lesions_zyx`` the index
    of the lesion in ``lesions`` plus one.
    """

    seed: int
    hu_zyx: npt.NDArray[np.int16]
    organs_zyx: npt.NDArray[np.uint8]
    lesions_zyx: npt.NDArray[np.uint8]
    lesions: tuple[Lesion, ...]
    means_hu: tuple[float, ...]
    """Mean of each organ without its lesions."""


def bodies(
    first_seed: int, count: int, most_lesions: int, kind: Lesions = PAINTED
) -> Iterator[Body]:
    """Yield ``count`` bodies; seeds that make no possible anatomy are passed over."""
    seed, made = first_seed, 0
    while made < count:
        made_body = body(seed, most_lesions, kind)
        seed += 1
        if made_body is not None:
            made += 1
            yield made_body


def body(seed: int, most_lesions: int, kind: Lesions = PAINTED) -> Body | None:
    """Return the body of a seed, None where its organs do not fit into its trunk."""
    rng = np.random.default_rng(seed)
    case = _anatomy(rng, seed)
    count = int(rng.integers(1, most_lesions + 1))
    case = replace(case, lesions=_lesions(rng, case, count, kind))
    try:
        canvas, hu_kji = phantom(case)
    except ValueError:
        return None
    organs = np.zeros(hu_kji.shape, np.uint8)
    lesions = np.zeros(hu_kji.shape, np.uint8)
    for number, name in enumerate(ORGANS, start=1):
        mask = canvas.masks[name]
        organs[mask.box][mask.crop] = number
    for number, lesion in enumerate(case.lesions, start=1):
        mask = canvas.masks[lesion.masks[0]]
        lesions[mask.box][mask.crop] = number
    return Body(
        seed,
        *(np.ascontiguousarray(volume[::-1]) for volume in (hu_kji, organs, lesions)),
        case.lesions,
        tuple(float(case.organs[name].hu or 0.0) for name in ORGANS),
    )


def _anatomy(rng: np.random.Generator, seed: int) -> CaseParameters:
    """Return the demo's venous case with another habitus, other volumes and attenuations."""
    base = FIRST_CASE
    habitus = Habitus(
        width=float(rng.uniform(0.95, 1.05)),
        depth=float(rng.uniform(0.96, 1.06)),
        fat_mm=float(rng.uniform(0.0, 14.0)),
        seed=seed,
    )
    whole = {name: float(rng.uniform(0.86, 1.12)) for name in base.organs}
    shift = float(rng.uniform(-6.0, 6.0))
    organs = {
        name: _varied(organ, whole[_whole(name)], shift + float(rng.uniform(-4.0, 4.0)))
        for name, organ in base.organs.items()
    }
    organs["spleen"] = replace(organs["spleen"], volume_cm3=float(rng.uniform(150.0, 420.0)))
    return replace(
        base,
        case_id=f"BODY_{seed}",
        habitus=habitus,
        organs=organs,
        lesions=(),
        empty_masks=(),
        absent_masks=(),
    )


def _whole(name: str) -> str:
    """Return the organ that a part belongs to: parts keep their shares."""
    return next((o for o in ("liver", "pancreas") if name.startswith(o)), name)


def _varied(organ: Organ, scale: float, shift_hu: float) -> Organ:
    return Organ(
        None if organ.hu is None else organ.hu + shift_hu,
        None if organ.volume_cm3 is None else organ.volume_cm3 * scale,
    )


def lesion_hu(
    rng: np.random.Generator, organ: str, organ_hu: float, kind: Lesions = PAINTED
) -> float:
    """Return a lesion's mean: darker than its organ, never darker than water."""
    low, high = kind.kidney_darker_hu if organ.startswith("kidney") else kind.darker_hu
    if rng.random() < 0.3:
        high = organ_hu
    darkest = max(_LIGHTEST_CYST_HU, organ_hu - high)
    return float(rng.uniform(min(darkest, organ_hu - low), organ_hu - low))


def _lesions(
    rng: np.random.Generator, case: CaseParameters, count: int, kind: Lesions
) -> tuple[Lesion, ...]:
    """Return lesions of different organs that lie apart from each other."""
    organs = rng.permutation(ORGANS)[:count]
    lesions: list[Lesion] = []
    for organ in map(str, organs):
        for _ in range(_TRIES):
            lesion = _lesion(rng, case, organ, len(lesions), kind)
            if all(_distance_mm(lesion, other) > _APART_MM for other in lesions):
                lesions.append(lesion)
                break
    return tuple(lesions)


def _lesion(
    rng: np.random.Generator, case: CaseParameters, organ: str, number: int, kind: Lesions
) -> Lesion:
    semi = rng.uniform(*SEMI_MM[organ]) * rng.uniform(SHORTEST, 1.0, 3)
    voxels, parts = _places()[organ]
    inset = float(semi.max()) + 2.0 if organ == "spleen" else kind.inset * float(semi.max())
    deep = np.flatnonzero(voxels[:, 3] >= min(inset, float(voxels[:, 3].max()) - 1.0))
    chosen = int(deep[rng.integers(deep.size)])
    k, j, i, _ = voxels[chosen]
    x, y, _ = axes_mm()
    organ_hu = float(case.organs[organ].hu or 0.0)
    return Lesion(
        name=f"lesion {number}",
        masks=(f"lesion_{number}",),
        organ=organ,
        centre_mm=(float(x[int(i)]), float(y[int(j)])),
        centre_slice=int(k),
        semi_mm=(float(semi[0]), float(semi[1]), float(semi[2])),
        hu=lesion_hu(rng, organ, organ_hu, kind),
        shares={parts[chosen]: 1.0},
        turn_deg=float(rng.uniform(-90.0, 90.0)),
        bump=float(rng.uniform(0.0, 0.12)),
    )


def _distance_mm(one: Lesion, other: Lesion) -> float:
    across = np.subtract(one.centre_mm, other.centre_mm)
    up = (one.centre_slice - other.centre_slice) * SPACING_MM_KJI[0]
    return float(np.hypot(np.hypot(*across), up))


@cache
def _places() -> dict[str, tuple[npt.NDArray[np.float32], list[str]]]:
    """Return where a lesion's centre may lie: k, j, i and depth in mm, and the part of the organ.

    Voxels that belong to the organ in both of the demo's anatomies, some way below its surface.
    """
    canvases = [phantom(replace(c, lesions=(), empty_masks=(), absent_masks=()))[0] for c in CASES]
    places = {}
    for organ in ORGANS:
        both = np.logical_and(*(_mask(canvas, organ) for canvas in canvases))
        depth = ndimage.distance_transform_edt(both, SPACING_MM_KJI)
        where = np.nonzero(depth > 6.0)
        parts = np.full(where[0].size, organ, object)
        for name in canvases[0].masks:
            if name.startswith(f"{organ}_"):
                parts[_mask(canvases[0], name)[where]] = name
        table = np.stack([*where, depth[where]], axis=1).astype(np.float32)
        kept = parts != "liver_segment_1"  # smaller than a large lesion
        places[organ] = (table[kept], parts[kept].tolist())
    return places


def _mask(canvas: object, name: str) -> npt.NDArray[np.bool_]:
    mask = canvas.masks[name]  # type: ignore[attr-defined]
    whole = np.zeros(canvas.hu.shape, bool)  # type: ignore[attr-defined]
    whole[mask.box] = mask.crop
    return whole


def lesion_areas_mm2(made: Body) -> npt.NDArray[np.float64]:
    """Return the area of each lesion on each slice: (slices, lesions)."""
    pixel = SPACING_MM_KJI[1] * SPACING_MM_KJI[2]
    numbers: Sequence[int] = range(1, len(made.lesions) + 1)
    return np.stack([(made.lesions_zyx == n).sum(axis=(1, 2)) * pixel for n in numbers], axis=1)
