"""Lesions taken out of a CT, or copied to the other side: counterfactuals that need masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core import names
from napari_ctvqa.core.changed_cases import ChangedCase, check_straight, with_pixels
from napari_ctvqa.core.probes import CannotProbeError, kind_of, swapped_sides
from napari_ctvqa.core.regions import (
    components,
    difference,
    empty_region,
    region_of,
    shared_voxels,
    union,
)
from napari_ctvqa.core.rules import rule_for
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.targets import sides_of
from napari_ctvqa.core.understanding import organs_in_order, understand

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import BoxZYX, Case, Mask, Region
    from napari_ctvqa.core.records import Question

EDGE_MM = 4.0
"""How far around a lesion's mask its blurred edge reaches, which goes with it."""
_LEAST_TEXTURE = 50
"""Voxels of an organ without its lesions that texture can be taken from."""
_TRIES, _ROUNDS, _SAMPLED = 300, 16, 2000
_INSIDE = 0.85
"""Part of a copied lesion that must lie in the organ of the other side."""
_SHIFTS_MM = 12.0
_OF_LESIONS = frozenset(
    {
        *("presence", "count", "lesion_side", "organ", "slice", "lesion_volume"),
        *("lesion_diameter", "burden", "lesion_hu", "part", "liver_part", "assessment"),
    }
)
Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[np.generic]


def organs_asked(question: Question) -> tuple[str, ...]:
    """Return the organs whose lesions a question is about; none where it is about any organ's.

    Raises
    ------
    CannotProbeError
        When the question is not about a lesion.
    """
    if kind_of(question) not in _OF_LESIONS:
        raise CannotProbeError("The question is not about a lesion.")
    rule = rule_for(question.subtype)
    about = understand(question, rule) if rule is not None else None
    found: list[str] = []
    if about is not None and not about.problem:
        listed = [selection(name).structure for name in (*about.listed, about.structure) if name]
        found = [names.parent_of(name) for name in listed if names.is_lesion(name)]
        if not found:
            raise CannotProbeError("The question is not about a lesion.")
    if not found and names.is_lesion(question.lesion):
        found = [names.parent_of(question.lesion)]
    if not found:
        found = list(organs_in_order(question.text))
    if not found and names.is_known(question.organ):
        found = [names.canonical(question.organ)]
    wholes = [names.organ_of(organ) or organ for organ in found if organ]
    return tuple(dict.fromkeys(wholes))


def structure_asked(question: Question) -> str:
    """Return the lesions that a question is about as one structure; empty where that is not told.

    A kind of lesion (``kidney_tumor``) or any of an organ (``kidney_lesion``).
    """
    rule = rule_for(question.subtype)
    about = understand(question, rule) if rule is not None else None
    told = selection(about.structure).structure if about is not None and not about.problem else ""
    told = told or (names.canonical(question.lesion) if names.is_lesion(question.lesion) else "")
    return told if names.is_lesion(told) else ""


def lesion_masks(case: Case, organs: Iterable[str]) -> tuple[Mask, ...]:
    """Return the masks of lesions that have voxels, of these organs, or of all for none."""
    wanted = set(organs)
    found = []
    for mask in case.masks.values():
        parent = names.parent_of(mask.structure)
        whole = names.organ_of(parent) or parent
        if mask.region.empty or not (mask.lesion or names.is_lesion(mask.structure)):
            continue
        if not wanted or whole in wanted or parent in wanted:
            found.append(mask)
    return tuple(found)


def without_lesions(case: Case, organs: tuple[str, ...]) -> ChangedCase:
    """Return the case with the organs' lesions filled with texture of the same organ.

    Texture is copied from where the organ has no lesion, in pieces as large as fit, so that noise
    stays noise; the same case always gives the same voxels. Lesion masks become empty.

    Raises
    ------
    CannotProbeError
        For a sheared CT, and where a lesion, or the organ around it, has no mask.
    """
    check_straight(case)
    masks = _lesions_or_why(case, organs)
    array = case.volume.array_zyx.copy()
    for organ, lesions in _by_organ(masks).items():
        _fill(array, case, _organ_region(case, organ), union([m.region for m in lesions]))
    emptied = {mask.structure: empty_region(mask.region.grid) for mask in masks}
    named = ", ".join(sorted(names.label(name) for name in emptied))
    return with_pixels(case, array, emptied, f"filled with texture of the organ: {named}")


def _lesions_or_why(case: Case, organs: tuple[str, ...]) -> tuple[Mask, ...]:
    masks = lesion_masks(case, organs)
    if not masks:
        where = " and ".join(names.label(organ) for organ in organs) or "any organ"
        raise CannotProbeError(f"No mask of a lesion of {where} has a voxel.")
    return masks


def _by_organ(masks: Iterable[Mask]) -> Mapping[str, list[Mask]]:
    found: dict[str, list[Mask]] = {}
    for mask in masks:
        parent = names.parent_of(mask.structure)
        found.setdefault(names.organ_of(parent) or parent, []).append(mask)
    return found


def _organ_region(case: Case, organ: str) -> Region:
    """Return the voxels of an organ, all its parts together."""
    listed = (organ, *names.parts_of(organ))
    regions = [case.masks[name].region for name in listed if name in case.masks]
    if not regions or all(region.empty for region in regions):
        raise CannotProbeError(f"There is no mask of the {names.label(organ) or 'organ'}.")
    return union(regions)


# ------------------------------------------------------------------------------------- filling


@dataclass(frozen=True)
class _Scene:
    """A box of the CT around an organ: its voxels, and which are safe to take texture from."""

    box: BoxZYX
    organ: Bools
    lesions: Bools
    safe: Bools
    edge: Bools
    """The lesions with their blurred edge, as far as that lies in the organ."""


def _fill(array: Values, case: Case, organ: Region, lesions: Region) -> None:
    """Replace the lesions of an organ in ``array`` by its texture."""
    scene = _scene(organ, lesions, case.volume.grid.spacing_mm_zyx)
    if np.count_nonzero(scene.safe) < _LEAST_TEXTURE:
        raise CannotProbeError("The organ has no part without lesions to take texture from.")
    taken = case.volume.array_zyx[scene.box]
    put = array[scene.box]
    rng = np.random.default_rng(0)
    safe_at = np.argwhere(scene.safe)
    for piece in _pieces(scene.edge):
        left = piece
        for _ in range(_ROUNDS):
            if not len(left):
                break
            source = left + _best_shift(left, scene.safe, safe_at, rng)
            fits = _inside(source, scene.safe)
            put[tuple(left[fits].T)] = taken[tuple(source[fits].T)]
            left = left[~fits]
        if len(left):  # where no piece fits any more: single voxels of the organ
            drawn = safe_at[rng.integers(len(safe_at), size=len(left))]
            put[tuple(left.T)] = taken[tuple(drawn.T)]


def _scene(organ: Region, lesions: Region, spacing_mm: tuple[float, float, float]) -> _Scene:
    from scipy import ndimage

    both = union([organ, lesions])
    assert both.box_zyx is not None
    margins = [int(np.ceil(EDGE_MM / mm)) + 1 for mm in spacing_mm]
    sides = zip(both.box_zyx, margins, organ.grid.shape_zyx, strict=True)
    z, y, x = (slice(max(0, s.start - m), min(n, s.stop + m)) for s, m, n in sides)
    box = (z, y, x)
    inside, ill = _in_box(organ, box), _in_box(lesions, box)
    away_mm = ndimage.distance_transform_edt(~ill, spacing_mm)
    near = away_mm <= EDGE_MM
    return _Scene(box, inside, ill, inside & ~near, ill | (near & inside))


def _in_box(region: Region, box: BoxZYX) -> Bools:
    array = np.zeros([s.stop - s.start for s in box], bool)
    if region.box_zyx is not None and region.crop_zyx is not None:
        at = tuple(
            slice(own.start - s.start, own.stop - s.start)
            for own, s in zip(region.box_zyx, box, strict=True)
        )
        array[at] = region.crop_zyx
    return array


def _pieces(inside: Bools) -> list[npt.NDArray[np.intp]]:
    """Return the indices, (n, 3), of each connected piece."""
    from scipy import ndimage

    labels, count = ndimage.label(inside, np.ones((3, 3, 3), bool))
    order = np.argsort(labels[inside], kind="stable")
    at = np.argwhere(inside)[order]
    ends = np.cumsum(np.bincount(labels[inside], minlength=count + 1)[1:])
    return np.split(at, ends[:-1]) if count else []


def _best_shift(
    at: npt.NDArray[np.intp],
    safe: Bools,
    safe_at: npt.NDArray[np.intp],
    rng: np.random.Generator,
) -> npt.NDArray[np.intp]:
    """Return the shift, of some, that takes most of the voxels to safe ones."""
    middle = at[len(at) // 2]
    few = at[:: max(1, len(at) // _SAMPLED)]
    shifts = safe_at[rng.integers(len(safe_at), size=_TRIES)] - middle
    fits = [np.count_nonzero(_inside(few + shift, safe)) for shift in shifts]
    best: npt.NDArray[np.intp] = shifts[int(np.argmax(fits))]
    return best


def _inside(at: npt.NDArray[np.intp], where: Bools) -> Bools:
    """Return which indices lie in the array where it is true."""
    valid = ((at >= 0) & (at < where.shape)).all(axis=1)
    found = np.zeros(len(at), bool)
    found[valid] = where[tuple(at[valid].T)]
    return found


# ------------------------------------------------------------------------------------- copying


def with_copies(case: Case, organs: tuple[str, ...], structure: str = "") -> ChangedCase:
    """Return the case with the lesions of one side mirrored into the organ of the other side.

    ``structure`` copies those of one kind alone, where it has a mask. Of two sides with lesions the
    one with more voxels of them gives. A copy lies as the lesion
    lies to the middle of its organ, moved a little where it would reach out of the other one.

    Raises
    ------
    CannotProbeError
        Where no organ with two sides is asked about, a mask lacks, or a copy does not fit.
    """
    check_straight(case)
    paired = [organ for organ in organs if len(sides_of(organ)) == 2]
    if len(paired) != 1 or len(organs) != 1:
        named = " and ".join(names.label(organ) for organ in organs) or "any organ"
        raise CannotProbeError(f"The question is about {named}: no organ with two sides.")
    masks = _lesions_or_why(case, organs)
    if structure in case.masks:
        asked = case.masks[structure].region
        masks = tuple(mask for mask in masks if shared_voxels(mask.region, asked))
        if not masks:
            raise CannotProbeError(f"The mask of {names.label(structure)} has no voxel.")
    else:
        asked = union([mask.region for mask in masks])
    parts = sides_of(organs[0])
    lacking = [p for p in parts if p not in case.masks or case.masks[p].region.empty]
    if lacking:
        raise CannotProbeError(f"There is no mask of the {names.label(lacking[0])}.")
    return _copied(case, masks, asked, parts)


def _copied(
    case: Case, masks: tuple[Mask, ...], asked: Region, parts: tuple[str, ...]
) -> ChangedCase:
    lesions = union([mask.region for mask in masks])
    regions = {part: case.masks[part].region for part in parts}
    giving = max(parts, key=lambda part: shared_voxels(asked, regions[part]))
    taking = next(part for part in parts if part != giving)
    array = case.volume.array_zyx.copy()
    copies: dict[str, list[Region]] = {mask.structure: [] for mask in masks}
    count = 0
    for lesion in _lesions_in(asked, regions[giving]):
        place = _Place(case, regions[giving], regions[taking], lesions)
        copy = place.put(array, lesion)
        count += 1
        for mask in masks:
            holds = shared_voxels(mask.region, lesion) * 2 >= lesion.voxels
            home = _at_home(mask.structure, case)
            if holds and home:
                copies.setdefault(home, []).append(copy)
    if not count:
        raise CannotProbeError(f"No lesion lies in the {names.label(giving)} by its mask.")
    grown = {
        name: union([case.masks[name].region, *added]) for name, added in copies.items() if added
    }
    said = f"{count} {'lesion' if count == 1 else 'lesions'} of the {names.label(giving)} copied"
    return with_pixels(case, array, grown, f"{said} into the {names.label(taking)}")


def _at_home(structure: str, case: Case) -> str:
    """Return the mask that a copy belongs to: of a sided structure that of the other side."""
    if not names.side_of(structure):
        return structure
    other = names.canonical(swapped_sides(structure.replace("_", " ")).replace(" ", "_"))
    return other if other in case.masks else ""


def _lesions_in(lesions: Region, organ: Region) -> list[Region]:
    """Return the connected lesions of which most lies in or nearest to this side."""
    found = components(lesions)
    each = [found.region_of(number) for number in range(len(found))]
    return [one for one in each if shared_voxels(one, organ) * 2 >= one.voxels]


class _Place:
    """Where a lesion goes on the other side, and its voxels with their blurred edge."""

    def __init__(self, case: Case, giving: Region, taking: Region, lesions: Region) -> None:
        self.case, self.giving, self.taking = case, giving, taking
        self.free = difference(taking, [lesions])
        self._spacing = np.array(case.volume.grid.spacing_mm_zyx)

    def put(self, array: Values, lesion: Region) -> Region:
        """Write the mirrored lesion into ``array`` and return its copy's voxels."""
        scene = _scene(self.giving, lesion, self.case.volume.grid.spacing_mm_zyx)
        start = np.array([s.start for s in scene.box])
        core = np.argwhere(scene.lesions) + start
        whole = np.argwhere(scene.edge & _without_rim(scene.organ | scene.lesions)) + start
        free = _array_of(self.free)
        shift = self._shift(self._mirrored(core), free)
        target = self._mirrored(whole) + shift
        fits = _inside(target, free)
        source = self.case.volume.array_zyx
        array[tuple(target[fits].T)] = source[tuple(whole[fits].T)]
        copied = self._mirrored(core) + shift
        inside = np.zeros(lesion.grid.shape_zyx, bool)
        inside[tuple(copied[_inside(copied, free)].T)] = True
        return region_of(inside, lesion.grid)

    def _mirrored(self, at: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return indices mirrored so that the middle of one organ falls on that of the other."""
        here, there = _middle(self.giving), _middle(self.taking)
        away = at - here
        away[:, 2] *= -1
        return np.rint(there + away).astype(np.intp)

    def _shift(self, core: npt.NDArray[np.intp], free: Bools) -> npt.NDArray[np.intp]:
        """Return the smallest of the best small shifts; raise where none is good enough."""
        few = core[:: max(1, len(core) // _SAMPLED)]
        reach = np.maximum(1, (_SHIFTS_MM / self._spacing).astype(int))
        axes = [np.linspace(-r, r, 7).round().astype(int) for r in reach]
        shifts = np.unique(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 3), axis=0)
        shifts = shifts[np.argsort(((shifts * self._spacing) ** 2).sum(axis=1), kind="stable")]
        fits = np.array([np.count_nonzero(_inside(few + shift, free)) for shift in shifts])
        if fits.max() < _INSIDE * len(few):
            raise CannotProbeError("The lesion does not fit into the organ of the other side.")
        best: npt.NDArray[np.intp] = shifts[int(np.argmax(fits))]
        return best


def _without_rim(inside: Bools) -> Bools:
    """Return what is no outermost voxel: those are blurred with the fat around the organ."""
    from scipy import ndimage

    return np.asarray(ndimage.binary_erosion(inside))


def _middle(region: Region) -> npt.NDArray[np.float64]:
    assert region.box_zyx is not None and region.crop_zyx is not None
    start = [s.start for s in region.box_zyx]
    return np.asarray(np.argwhere(region.crop_zyx).mean(axis=0) + start)


def _array_of(region: Region) -> Bools:
    z, y, x = (slice(0, n) for n in region.grid.shape_zyx)
    return _in_box(region, (z, y, x))
