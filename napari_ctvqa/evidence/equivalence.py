"""Whether two targets mean the same voxels of a case: its only kidney lesion is the largest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.regions import difference, together, union
from napari_ctvqa.core.selections import on_grid, selection
from napari_ctvqa.core.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Case, Region


class Targets:
    """Compares targets by the masks of a case; without one, or without a mask, by their names.

    Only targets of one kind are compared: lesions of one organ with each other, an organ with the
    parts it is made of. A liver holds its lesions, and yet it is never they.
    """

    def __init__(self, case: Case | None) -> None:
        self._case = case
        self._regions: dict[str, Region | None] = {}

    def same(self, model: str, reference: str) -> bool:
        """Return whether two targets are the same voxels; two that are both empty are not."""
        if model == reference:
            return True
        if not _of_one_kind(model, reference):
            return False
        theirs, ours = self._region(model), self._region(reference)
        if theirs is None or ours is None or ours.empty:
            return False
        return theirs.voxels == ours.voxels and _holds(theirs, ours)

    def holds(self, model: str, reference: str) -> bool:
        """Return whether a model's lesions have those that are meant among them."""
        if not (_is_lesion(model) and _of_one_kind(model, reference)):
            return False
        theirs, ours = self._region(model), self._region(reference)
        if theirs is None or ours is None:
            wanted, said = selection(reference), selection(model)
            return said.whole and not wanted.whole and said.structure == wanted.structure
        return not ours.empty and _holds(theirs, ours)

    def together(self, models: Sequence[str], reference: str) -> bool:
        """Return whether several targets, all different, are the reference's target together."""
        if len(models) < 2 or not all(_of_one_kind(model, reference) for model in models):
            return False
        if set(models) == set(names.parts_of(reference)):
            return True
        theirs, ours = [self._region(model) for model in models], self._region(reference)
        if ours is None or ours.empty or any(region is None for region in theirs):
            return False
        if any(region.empty for region in theirs if region is not None):
            return False
        parts = [on_grid(region, ours.grid) for region in theirs if region is not None]
        whole = union(parts)
        apart = sum(part.voxels for part in parts) == whole.voxels
        return apart and whole.voxels == ours.voxels and _holds(whole, ours)

    def _region(self, target: str) -> Region | None:
        if self._case is None or not target:
            return None
        if target not in self._regions:
            found = resolve(self._case, target)
            self._regions[target] = None if found.missing else together(found.masks)
        return self._regions[target]


def _holds(wider: Region, region: Region) -> bool:
    return difference(region, [on_grid(wider, region.grid)]).empty


def _is_lesion(target: str) -> bool:
    return names.is_lesion(selection(target).structure)


def _of_one_kind(model: str, reference: str) -> bool:
    said, wanted = selection(model).structure, selection(reference).structure
    if names.is_lesion(said) and names.is_lesion(wanted):
        return said == wanted or names.parent_of(said) == names.parent_of(wanted) != ""
    return said == wanted or said in names.parts_of(wanted)
