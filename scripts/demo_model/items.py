"""Questions on pictures: which slices, which question, which answer; always with one answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from demo_model.bodies import ORGANS
from demo_model.wordings import NO_LESION, ORGAN_WORDS, SUBJECTS

if TYPE_CHECKING:
    from demo_model.pool import Pool

_MIRROR = {"kidney_left": "kidney_right", "kidney_right": "kidney_left"}
SWAPPED = np.array([ORGANS.index(_MIRROR.get(name, name)) for name in ORGANS])
"""Which organ a lesion's organ becomes in a mirrored picture."""


def mirrored_sides(seen: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return ``Pool.seen`` of mirrored pictures: sides flip, and a kidney is named by its side."""
    swapped = seen[..., SWAPPED]
    return np.where(np.abs(swapped) == 1, -swapped, swapped).astype(np.int8)


def answer(seen: Sequence[npt.NDArray[np.int8]], task: str, subject: str) -> str | None:
    """Return the only right answer on these slices, None where there is not exactly one."""
    organs = [ORGANS.index(name) for name in SUBJECTS[subject]]
    shown = np.stack(seen)[:, organs]
    slices, which = np.nonzero(shown)
    if task == "presence":
        return "Yes." if slices.size else "No."
    if not slices.size:
        return NO_LESION
    if task == "slice":
        return f"SLICE {slices[0] + 1}" if len(set(slices)) == 1 else None
    if task == "organ":
        found = {ORGANS[organs[n]] for n in which}
        return ORGAN_WORDS[found.pop()] if len(found) == 1 else None
    sides = set(shown[slices, which].tolist())
    return {1: "Left.", -1: "Right."}.get(sides.pop()) if len(sides) == 1 else None


class Shelf:
    """The rows of a pool by body and by what they show, to draw slices of one body from."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        clean = ~pool.seen.any(axis=1)
        self.clean = [np.flatnonzero(clean & (pool.body == b)) for b in self._bodies]
        self.lesioned = [np.flatnonzero(~clean & (pool.body == b)) for b in self._bodies]
        self.by_organ = [
            [rows[pool.seen[rows, n] != 0] for n in range(len(ORGANS))] for rows in self.lesioned
        ]

        self._shown = [n for n, rows in enumerate(self.lesioned) if rows.size]

    @cached_property
    def _bodies(self) -> range:
        return range(int(self.pool.body.max()) + 1)

    def slices(
        self, rng: np.random.Generator, count: int, lesioned: int, body: int | None = None
    ) -> tuple[int, ...]:
        """Return ``count`` rows of one body at different heights.

        ``lesioned`` of them show a lesion; they are in order of height, half of the time from
        below.
        """
        if body is None:
            body = int(rng.choice(self._shown if lesioned else len(self.clean)))
        rows: list[int] = []
        for _ in range(lesioned):
            organs = [x for x in self.by_organ[body] if x.size]
            rows.append(int(rng.choice(organs[int(rng.integers(len(organs)))])))
        for row in rng.permutation(self.clean[body]):
            if len(rows) >= count:
                break
            rows.append(int(row))
        taken = {int(self.pool.z[row]): row for row in rows[::-1]}
        for row in self.clean[body]:
            if len(taken) >= count:
                break
            taken.setdefault(int(self.pool.z[row]), int(row))
        ordered = tuple(taken[z] for z in sorted(taken))
        return ordered if rng.random() < 0.5 else ordered[::-1]
