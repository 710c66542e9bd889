"""StructureRow: every mask of a case and of what lies beside it, as a list that can be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.measure import region_volume_cm3
from napari_ctvqa.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ctvqa.core.cases import Case, Mask, Source


@dataclass(frozen=True, eq=False)
class StructureRow:
    """One mask: what it is called, its volume in ml by its own file's geometry, where it is from.

    ``partner`` is the mask of the same structure to compare it with: a reference's is the first
    one beside it, another's the reference; None where there is no second.
    """

    mask: Mask
    label: str
    volume_ml: float
    partner: Mask | None = None

    @property
    def structure(self) -> str:
        """Return the canonical name."""
        return self.mask.structure

    @property
    def source(self) -> Source:
        """Return where the mask is from."""
        return self.mask.source

    def found_by(self, words: Iterable[str]) -> bool:
        """Return whether every word, lower case, is part of the name, the label or the source."""
        text = f"{self.label} {self.structure} {self.mask.name} {self.source.value}".lower()
        return all(word in text for word in words)


def structure_rows(case: Case, beside: Sequence[Mask] = ()) -> tuple[StructureRow, ...]:
    """Return a row for every mask: the case's own in their order, then those beside them."""
    first: dict[str, Mask] = {}
    for mask in beside:
        first.setdefault(mask.structure, mask)
    own = [_row(mask, first.get(mask.structure)) for mask in case.masks.values()]
    return (*own, *(_row(mask, case.masks.get(mask.structure)) for mask in beside))


def _row(mask: Mask, partner: Mask | None) -> StructureRow:
    # a cubic centimetre is a millilitre
    return StructureRow(mask, label(mask.structure), region_volume_cm3(mask.own_region), partner)
