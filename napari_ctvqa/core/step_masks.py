"""Which mask an evidence step speaks of: one of the case's, or several of them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.names import canonical
from napari_ctvqa.core.regions import union
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.targets import resolve

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import EvidenceStep


def made_for(case: Case, target: str) -> tuple[Mask, tuple[str, ...]] | None:
    """Return a target that is no mask of the case as a mask, and the structures it is made of.

    Several masks together are one, and so are the components of a mask that a target means: of
    these the others stay in sight, so no structure is named.
    """
    if not target:
        return None
    wanted, found = selection(target), resolve(case, target)
    if found.missing or not found.masks:
        return None
    if found.chosen is not None:  # some components, cut out already
        return replace(found.masks[0], name=target, structure=wanted.label), ()
    filled = [mask for mask in found.masks if not mask.region.empty]
    if len(filled) < 2:
        return None
    region = union([mask.region for mask in filled])
    one = replace(filled[0], name=target, structure=target, region=region, own_region=region)
    return one, tuple(mask.structure for mask in filled)


def mask_of(case: Case, step: EvidenceStep) -> Mask | None:
    """Return the mask that a step speaks of, None where the case has none to draw."""
    made = made_for(case, step.target)
    if made is not None:
        return None if made[0].region.empty else made[0]
    return single_mask(case, step)


def single_mask(case: Case, step: EvidenceStep) -> Mask | None:
    """Return the one mask of the case that a step speaks of, None where there is none to draw."""
    mask = case.masks.get(step.mask) or case.masks.get(canonical(step.target))
    return None if mask is None or mask.region.empty else mask
