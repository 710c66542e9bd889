"""Recently used and prefetched cases in memory, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

BUDGET_BYTES = 1_500_000_000
"""About six cases of 512×512×300 with 40 masks."""


class CaseShelf:
    """Keeps complete cases by key; puts away the longest unused when the budget is reached."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.budget_bytes = budget_bytes
        self._cases: OrderedDict[str, Case] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._cases

    def get(self, key: str) -> Case | None:
        """Return the case of that key, None when it is not here."""
        if key in self._cases:
            self._cases.move_to_end(key)
        return self._cases.get(key)

    def put(self, key: str, case: Case) -> None:
        """Keep a case; one that alone is larger than the budget stays as the only one."""
        self._cases[key] = case
        self._cases.move_to_end(key)
        while len(self._cases) > 1 and self.used_bytes > self.budget_bytes:
            self._cases.popitem(last=False)

    def clear(self) -> None:
        """Let go of all cases."""
        self._cases.clear()

    @property
    def used_bytes(self) -> int:
        """Return how much memory the arrays of all cases take."""
        return sum(case_bytes(case) for case in self._cases.values())


def case_bytes(case: Case) -> int:
    """Return the memory of a case's arrays: CT, what is drawn of it, label maps, mask crops."""
    arrays = [case.volume.array_zyx, case.volume.display_zyx]
    arrays += [label_map.array_zyx for label_map in case.label_maps.values()]
    for mask in case.masks.values():
        for region in {id(r): r for r in (mask.region, mask.own_region)}.values():
            if region.crop_zyx is not None:
                arrays.append(region.crop_zyx)
    owners = {id(_owner(array)): _owner(array) for array in arrays}
    return sum(int(owner.nbytes) for owner in owners.values())


def _owner(array: Any) -> Any:
    """Return the array that holds the memory: a view counts as what it is a view of."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "nbytes"):
        array = array.base
    return array
