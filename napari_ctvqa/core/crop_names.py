"""What crops are called, and which a case can give: DeepTumorVQA's names for organs and pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.regions import union
from napari_ctvqa.core.targets import resolve_structure

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Region

ORGANS = {
    "liver": ("liver",),
    "spleen": ("spleen",),
    "pancreas": ("pancreas",),
    "colon": ("colon",),
    "kidney": ("kidney",),
    "left_kidney": ("kidney_left",),
    "right_kidney": ("kidney_right",),
    "liver_spleen": ("liver", "spleen"),
    "pancreas_spleen": ("pancreas", "spleen"),
    "left_kidney_spleen": ("kidney_left", "spleen"),
    "right_kidney_spleen": ("kidney_right", "spleen"),
    "left_kidney_pancreas": ("kidney_left", "pancreas"),
    "liver_kidney": ("liver", "kidney"),
    "liver_pancreas": ("liver", "pancreas"),
    "kidney_pancreas": ("kidney", "pancreas"),
}
"""Names of the shipped pictures, and the organs they show."""

ALIASES = {"pancreatic": "pancreas", "kidney_left": "left_kidney", "kidney_right": "right_kidney"}


def crop_name(asked: str) -> str:
    """Return the name of the crop that shows what was asked for: a lesion's organ, an alias's.

    A name that is none stays as it is.
    """
    name = "_".join(asked.casefold().split())
    name = ALIASES.get(name, name)
    if name in ORGANS:
        return name
    canonical = names.canonical(asked)
    organ = names.parent_of(canonical) or canonical
    return next((crop for crop, shown in ORGANS.items() if shown == (organ,)), organ)


def structures_in(crop: str) -> tuple[str, ...]:
    """Return the structures that a crop shows."""
    return ORGANS.get(crop, (crop,))


def regions_of(case: Case, crop: str) -> list[Region] | str:
    """Return the regions a crop shows, one a structure, or why it cannot be made."""
    found = []
    for structure in structures_in(crop):
        resolved = resolve_structure(case, structure)
        if resolved.missing:
            return resolved.missing
        if resolved.empty:
            return f"the mask of the {names.label(structure)} is empty"
        on_ct = [mask for mask in resolved.masks if not mask.region.empty]
        if not on_ct:
            return f"the {names.label(structure)} lies outside the CT"
        found.append(union([mask.region for mask in on_ct]))
    return found


def available(case: Case) -> list[str]:
    """Return the crops that a case can give: DeepTumorVQA's first, then its other organs."""
    known = [crop for crop in ORGANS if not isinstance(regions_of(case, crop), str)]
    shown = {structure for organs in ORGANS.values() for structure in organs}
    others = (m.structure for m in case.masks.values() if not (m.lesion or m.region.empty))
    return known + sorted(set(others) - shown)
