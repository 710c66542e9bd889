"""Which masks of a case stand for a target, and what is said where none does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Level, Source
from napari_ctvqa.core.overlaps import outside_caveat, shared_caveat
from napari_ctvqa.core.parts import OVER_TENTH
from napari_ctvqa.core.regions import together
from napari_ctvqa.core.rules import lesion_classes
from napari_ctvqa.core.selections import (
    Selection,
    choose,
    components_of,
    on_grid_of,
    selected_mask,
    selection,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ctvqa.core.cases import Case, Mask


@dataclass(frozen=True, slots=True)
class Resolved:
    """The masks of a case that stand for one target.

    ``masks`` together are the target; ``exact`` is false where a wider structure stands in, and
    ``whole`` false where only some kinds of it have a mask. ``missing`` says why it cannot be
    checked, empty when there are masks.
    """

    target: str
    masks: tuple[Mask, ...] = ()
    exact: bool = True
    whole: bool = True
    caveats: tuple[str, ...] = ()
    missing: str = ""
    chosen: Selection | None = None
    """Which of its components are meant, where not all are."""

    @property
    def name(self) -> str:
        """Return the target as its masks have it: ``"largest kidney_tumor in kidney_left"``."""
        holding = [mask for mask in self.masks if not mask.own_region.empty]
        if self.chosen is None:
            return self.structure if len(holding) < 2 else self.target
        return replace(self.chosen, structure=self.structure).text

    @property
    def structure(self) -> str:
        """Return the structure to draw: the mask's, or of several the one with most voxels."""
        if not self.masks:
            return ""
        return max(self.masks, key=lambda mask: mask.own_region.voxels).structure

    @property
    def empty(self) -> bool:
        """Return whether no mask has a voxel."""
        return all(mask.own_region.empty for mask in self.masks)

    @property
    def assumed(self) -> bool:
        """Return whether the masks stand for the target only by an assumption."""
        given = all(mask.source is not Source.ASSUMED for mask in self.masks)
        return not (self.exact and self.whole and given)


def sides_of(structure: str) -> tuple[str, ...]:
    """Return left and right of an organ that has two sides, else the one structure."""
    parts = names.parts_of(structure)
    lateral = parts and all(names.side_of(part) for part in parts)
    return parts if lateral and not names.is_lesion(structure) else (structure,)


def structures_for(target: str) -> tuple[str, ...]:
    """Return every canonical structure whose mask may serve for a target, best first."""
    listed: list[str] = []
    general, _ = lesion_classes(names.parent_of(target))
    wider = (general,) if general else ()
    for candidate in (*names.candidates(target), *_kinds_of(target), *wider):
        listed += [candidate, *names.parts_of(candidate)]
    return tuple(dict.fromkeys(listed))


def lesions_of(organ: str) -> tuple[str, ...]:
    """Return the structures that are lesions of an organ (or of both sides of one)."""
    general, _ = lesion_classes(organ)
    if not general:
        whole = [row.name for row in names.table().structures.values() if organ in row.parts]
        general = next((g for g, _ in map(lesion_classes, whole) if g), "")
    if general:
        return structures_for(general)
    return tuple(
        row.name for row in names.table().structures.values() if row.lesion and row.parent == organ
    )


def _kinds_of(target: str) -> tuple[str, ...]:
    general, kinds = lesion_classes(names.parent_of(target))
    return kinds if target == general else ()


def resolve(case: Case, target: str, part_rule: str = OVER_TENTH) -> Resolved:
    """Find the masks that stand for a target, or for some of its components.

    ``"largest kidney_lesion in kidney_left"`` is understood as well as a structure; in which part a
    component lies is decided by ``part_rule``. Where the masks overlap with others in a way that
    bodies do not, a caveat says so.
    """
    wanted = selection(target)
    if "+" in wanted.structure:
        return _several(case, target, part_rule)
    found = _resolved(case, target, wanted, part_rule)
    if found.missing or found.empty:
        return found
    known = _DOUBTS.setdefault(case, {})
    if (target, part_rule) not in known:
        known[target, part_rule] = overlap_caveats(case, found, wanted.structure)
    return replace(found, caveats=(*found.caveats, *known[target, part_rule]))


_DOUBTS: WeakKeyDictionary[Case, dict[tuple[str, str], tuple[str, ...]]] = WeakKeyDictionary()


def overlap_caveats(case: Case, found: Resolved, structure: str) -> tuple[str, ...]:
    """Return what is to be said of how the masks of a target overlap with other masks of the case.

    A lesion is compared with its organ, an organ with its neighbours. Masks that do not belong to
    the CT (red) are left out: they have a warning of their own.
    """
    region = together(found.masks)
    if names.is_lesion(structure):
        organ = names.parent_of(structure)
        masks = [mask for mask in _with_parts(case.masks, organ) if _placed(mask)]
        if not masks:
            return ()
        bodies = [on_grid_of(mask, region) for mask in masks]
        labels = (names.label(structure), names.label(organ))
        said = outside_caveat(region, bodies, labels, components_of(region))
        return (said,) if said else ()
    caveats = []
    for mask in found.masks:
        for other in names.neighbours_of(mask.structure):
            beside = case.masks.get(other)
            if beside is None or not _placed(beside):
                continue
            labels = (names.label(mask.structure), names.label(other))
            own = mask.own_region
            caveats.append(shared_caveat(own, on_grid_of(beside, own), labels))
    return tuple(filter(None, caveats))


def _placed(mask: Mask) -> bool:
    return all(warning.level is not Level.RED for warning in mask.warnings)


def neighbours_for(structure: str) -> tuple[str, ...]:
    """Return the structures that the masks of a target are compared with for their overlap."""
    if names.is_lesion(structure):
        organ = names.parent_of(structure)
        return (organ, *names.parts_of(organ)) if organ else ()
    wholes = (structure, *names.parts_of(structure))
    return tuple(dict.fromkeys(other for one in wholes for other in names.neighbours_of(one)))


def _resolved(case: Case, target: str, wanted: Selection, part_rule: str) -> Resolved:
    if wanted.whole or target in case.masks:
        return resolve_structure(case, target)
    found = resolve_structure(case, wanted.structure)
    if found.missing:
        return replace(found, target=target)
    whole = together(found.masks)
    chosen = choose(case, whole, wanted, part_rule)
    if chosen.missing:
        return Resolved(target, missing=f"{wanted.label} cannot be told: {chosen.missing}")
    if not wanted.within and chosen.region.voxels == whole.voxels:
        return replace(found, target=target)  # the only component: the largest is all there is
    mask = selected_mask(found.masks, chosen.region, wanted, case)
    caveats = (*found.caveats, *chosen.caveats)
    return replace(found, target=target, masks=(mask,), caveats=caveats, chosen=wanted)


def _several(case: Case, target: str, part_rule: str) -> Resolved:
    """Find the masks of several structures that are meant together, joined by ``+``."""
    found = [resolve(case, part, part_rule) for part in target.split("+")]
    missing = next((one.missing for one in found if one.missing), "")
    return Resolved(
        target,
        () if missing else tuple(mask for one in found for mask in one.masks),
        exact=all(one.exact for one in found),
        whole=all(one.whole for one in found),
        caveats=tuple(dict.fromkeys(caveat for one in found for caveat in one.caveats)),
        missing=missing,
    )


def resolve_structure(case: Case, target: str) -> Resolved:
    """Find the masks that stand for one structure.

    A structure without a mask file is *missing*, never empty; so is one whose own file could not
    be read or is contradicted by another of the same structure. Any lesion of an organ is the union
    of its lesion mask and the masks of its kinds; a wider mask that stands in for a kind says so.
    "None" only follows from an empty mask while no mask of a part or a kind says otherwise.
    """
    target = names.canonical(target)
    if _problem_of(case, target):
        return Resolved(target, missing=why_missing(case, target))
    own = _with_parts(case.masks, target)
    narrower = [case.masks[name] for name in _narrower(target) if name in case.masks]
    narrower = [mask for mask in narrower if mask not in own]
    if own:
        return _by_own(case, target, own, narrower)
    if names.is_lesion(target) and any(not mask.own_region.empty for mask in narrower):
        return _by_kinds(target, narrower)
    for stand_in in names.candidates(target)[1:]:
        masks = _with_parts(case.masks, stand_in)
        if masks and stand_in not in _narrower(target):
            caveat = f"no mask for {target}: {stand_in} stands in"
            found = Resolved(target, masks, exact=False, caveats=(caveat,))
            return _unless_contradicted(case, found, stand_in)
    general, _ = lesion_classes(names.parent_of(target))
    if general in case.masks and case.masks[general].own_region.empty:
        caveat = f"no mask for {target}: {general} is empty, so there is none of any kind"
        found = Resolved(target, (case.masks[general],), exact=False, caveats=(caveat,))
        return _unless_contradicted(case, found, general)
    if narrower and names.is_lesion(target):
        missing = f"no mask for {target}: only some of its kinds have masks, all empty"
        return Resolved(target, missing=missing)
    return Resolved(target, missing=why_missing(case, target))


def _by_own(case: Case, target: str, own: tuple[Mask, ...], narrower: Sequence[Mask]) -> Resolved:
    """Return what a structure's own mask says, and the masks of its parts and kinds beside it."""
    filled = [mask for mask in narrower if not mask.own_region.empty]
    if any(not mask.own_region.empty for mask in own):
        return Resolved(target, (*own, *narrower) if _kinds_of(target) else own)
    if filled and not names.is_lesion(target):
        return Resolved(target, missing=_contradiction(target, filled))
    broken = [name for name in _narrower(target) if _problem_of(case, name)]
    if broken and not filled:
        problem = _problem_of(case, broken[0])
        missing = f"the mask of {target} is empty, that of {broken[0]} is not to be used: {problem}"
        return Resolved(target, missing=missing)
    told = filled and any(mask.source is not Source.ASSUMED for mask in own)
    caveats = (f"{_contradiction(target, filled)}; taken together",) if told else ()
    return Resolved(target, (*own, *(narrower if _kinds_of(target) else filled)), caveats=caveats)


def _by_kinds(target: str, masks: Sequence[Mask]) -> Resolved:
    listed = ", ".join(mask.name for mask in masks)
    others = "kinds" if _kinds_of(target) else "parts"
    caveat = f"no mask for {target}: measured on {listed}, other {others} may be missing"
    return Resolved(target, tuple(masks), whole=False, caveats=(caveat,))


def _unless_contradicted(case: Case, found: Resolved, wider: str) -> Resolved:
    """Return what an empty wider mask says, or that a narrower one with voxels contradicts it."""
    narrower = [case.masks[name] for name in _narrower(wider) if name in case.masks]
    filled = [mask for mask in narrower if not mask.own_region.empty]
    if not found.empty or not filled:
        return found
    missing = f"no mask for {found.target}, and {_contradiction(wider, filled)}"
    return Resolved(found.target, missing=missing)


def _contradiction(empty: str, filled: Sequence[Mask]) -> str:
    listed = ", ".join(mask.name for mask in filled)
    return f"the mask of {empty} is empty, but {listed} has voxels"


def _narrower(structure: str) -> tuple[str, ...]:
    """Return every structure that is a part or a kind of this one: what it holds, this one has."""
    found: dict[str, None] = {}
    for name in (*names.parts_of(structure), *_kinds_of(structure), *names.kinds_of(structure)):
        found |= dict.fromkeys((name, *_narrower(name)))
    return tuple(found)


def evidence_for(structure: str) -> tuple[str, ...]:
    """Return the structures whose masks can contradict that there is none of a structure."""
    general, _ = lesion_classes(names.parent_of(structure))
    wider = dict.fromkeys((structure, *names.candidates(structure)[1:], general))
    return tuple(dict.fromkeys(name for one in wider for name in _narrower(one)))


def _problem_of(case: Case, structure: str) -> str:
    """Return why the structure's own mask cannot be used, empty where nothing is wrong with it."""
    named = [m.name for m in case.files.masks if names.canonical(m.name) == structure]
    found = (case.problems.get(name, "") for name in (structure, *named))
    return "" if structure in case.masks else next(filter(None, found), "")


def _with_parts(masks: Mapping[str, Mask], structure: str) -> tuple[Mask, ...]:
    """Return the structure's mask, or the masks of all its parts; nothing if one part lacks."""
    if structure in masks:
        return (masks[structure],)
    parts = names.parts_of(structure)
    if parts and all(part in masks for part in parts):
        return tuple(masks[part] for part in parts)
    return ()


def why_missing(case: Case, target: str) -> str:
    """Return the sentence that says why a target has no mask: absent, unreadable or unread."""
    wanted = structures_for(target)
    for structure in wanted:
        if structure in case.problems:
            return f"no mask for {target}: {case.problems[structure]}"
    by_name = {names.canonical(item.name): item for item in case.files.masks}
    unread = [structure for structure in wanted if structure in by_name]
    broken = [s for s in unread if by_name[s].name in case.problems]
    if broken:
        return f"no mask for {target}: {case.problems[by_name[broken[0]].name]}"
    lacking = [part for part in names.parts_of(target) if part not in case.masks]
    if lacking and len(lacking) < len(names.parts_of(target)):
        return f"no mask for {target}: {', '.join(lacking)} is missing"
    if unread and not any(s in case.masks for s in unread):
        return f"no mask for {target}: its file {'was not' if case.complete else 'is not yet'} read"
    return f"no mask for {target}"
