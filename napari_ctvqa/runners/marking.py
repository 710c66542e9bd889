"""Which voxels a question is about: what a visual prompt marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.changed_lesions import lesion_masks, organs_asked
from napari_ctvqa.core.probes import CannotProbeError
from napari_ctvqa.core.regions import union
from napari_ctvqa.core.understanding import organs_in_order

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Region
    from napari_ctvqa.core.records import Question


def asked_region(question: Question, case: Case) -> Region:
    """Return the lesions that a question is about, or its organ where it is about none.

    Raises
    ------
    CannotProbeError
        Where nothing of it has a mask with a voxel.
    """
    try:
        organs = organs_asked(question)
    except CannotProbeError:
        return _organ_region(question, case)
    masks = lesion_masks(case, organs)
    if not masks:
        named = " and ".join(names.label(organ) for organ in organs) or "any organ"
        raise CannotProbeError(f"No mask of a lesion of {named} has a voxel.")
    return union([mask.region for mask in masks])


def _organ_region(question: Question, case: Case) -> Region:
    named = organs_in_order(question.text) or tuple(
        name for name in (names.canonical(question.organ),) if name
    )
    wanted = [part for organ in named for part in (organ, *names.parts_of(organ))]
    found = [case.masks[name].region for name in wanted if name in case.masks]
    filled = [region for region in found if not region.empty]
    if not filled:
        said = " or ".join(names.label(name) for name in named) or "what is asked about"
        raise CannotProbeError(f"There is no mask of {said}.")
    return union(filled)
