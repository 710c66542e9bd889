"""Which masks of a case stand for a target, and what is said where none does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.parts import OVER_TENTH
from napari_ctvqa.core.regions import together
from napari_ctvqa.core.rules import lesion_classes
from napari_ctvqa.core.selections import Selection, choose, selected_mask, selection

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        if self.chosen is None:
            return self.structure
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
    component lies is decided by ``part_rule``.
    """
    wanted = selection(target)
    if wanted.whole or target in case.masks:
        return resolve_structure(case, target)
    found = resolve_structure(case, wanted.structure)
    if found.missing:
        return replace(found, target=target)
    chosen = choose(case, together(found.masks), wanted, part_rule)
    if chosen.missing:
        return Resolved(target, missing=f"{wanted.label} cannot be told: {chosen.missing}")
    mask = selected_mask(found.masks, chosen.region, wanted, case)
    caveats = (*found.caveats, *chosen.caveats)
    return replace(found, target=target, masks=(mask,), caveats=caveats, chosen=wanted)


def resolve_structure(case: Case, target: str) -> Resolved:
    """Find the masks that stand for one structure.

    A structure without a mask file is *missing*, never empty. Any lesion of an organ is the union
    of its lesion mask and the masks of its kinds; a wider mask that stands in for a kind says so.
    """
    target = names.canonical(target)
    kinds = _kinds_of(target)
    own = _with_parts(case.masks, target)
    if own and not kinds:
        return Resolved(target, own)
    if kinds:
        more = [mask for kind in kinds for mask in _with_parts(case.masks, kind)]
        if own:
            return Resolved(target, (*own, *more))
        if more:
            listed = ", ".join(mask.name for mask in more)
            caveat = f"no mask for {target}: measured on {listed}, other kinds may be missing"
            return Resolved(target, tuple(more), whole=False, caveats=(caveat,))
    for stand_in in names.candidates(target)[1:]:
        masks = _with_parts(case.masks, stand_in)
        if masks:
            caveat = f"no mask for {target}: {stand_in} stands in"
            return Resolved(target, masks, exact=False, caveats=(caveat,))
    general, _ = lesion_classes(names.parent_of(target))
    if general in case.masks and case.masks[general].own_region.empty:
        caveat = f"no mask for {target}: {general} is empty, so there is none of any kind"
        return Resolved(target, (case.masks[general],), exact=False, caveats=(caveat,))
    return Resolved(target, missing=why_missing(case, target))


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
