"""ReferenceCheck: one reference held against its recomputation; Validation: many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from napari_ctvqa.core.chains import ChainStatus

Checked = tuple[int, "ReferenceCheck"]
"""Row of the QuestionSet, and its check."""
FIELDS = (
    "id", "subtype", "stated", "recomputed", "status", "reason", "other_rules",
    "first_differing_step", "rule", "caveats",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """What recomputing one reference gave.

    ``reason`` says why it differs or cannot be checked, and what is wrong with the question
    itself (``flags``). ``failed`` means that case or record could not be read at all.
    """

    id: str
    subtype: str
    stated: str
    recomputed: str = ""
    status: str = ChainStatus.CANNOT_CHECK.value
    reason: str = ""
    other_rules: Mapping[str, str] = field(default_factory=dict)
    first_differing_step: str = ""
    rule: str = ""
    caveats: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    relative_difference: float | None = None
    failed: bool = False
    slices_off: str = ""
    """How far a recomputed slice lies from the stated one, which is no part of it."""

    def record(self) -> dict[str, Any]:
        """Return the ten documented keys."""
        return {name: getattr(self, name) for name in FIELDS} | {"caveats": list(self.caveats)}

    @property
    def agrees_by_another(self) -> bool:
        """Return whether the reference is right by another variant of the rule only."""
        another = ChainStatus.AGREES.value in self.other_rules.values()
        return self.status == ChainStatus.DIFFERS.value and another

    @property
    def badness(self) -> tuple[int, float]:
        """Return what worst first sorts by, descending.

        Wrong by every rule, wrong by the default one only, a question with a flaw, the rest. A
        wrong label counts as 100 %, as does a number where 0 was stated.
        """
        relative = self.relative_difference
        apart = 1.0 if relative is None else abs(relative)
        if self.status == ChainStatus.DIFFERS.value:
            return (2 if self.agrees_by_another else 3, apart)
        return (1 if self.flags else 0, 0.0)


@dataclass(frozen=True)
class Validation:
    """Where a validation is, and what it found so far.

    ``checks`` stand worst first. ``failed`` counts questions whose case or record could not be
    read; ``seconds_left`` is None until it can be estimated; ``path`` is the table that is kept.
    """

    running: bool = False
    done: int = 0
    total: int = 0
    failed: int = 0
    seconds_left: float | None = None
    checks: tuple[Checked, ...] = ()
    path: str = ""
    message: str = ""


def worst_first(checks: Iterable[Checked]) -> tuple[Checked, ...]:
    """Return checks sorted by badness, equal ones in the order of the questions."""
    in_order = sorted(checks, key=lambda checked: checked[0])
    return tuple(sorted(in_order, key=lambda checked: checked[1].badness, reverse=True))


def summary(checks: Iterable[ReferenceCheck]) -> dict[str, dict[str, int]]:
    """Return, by subtype in the order they appear, how many references agree, differ and so on.

    ``differs`` counts those wrong by the default rule, ``agrees_by_another_rule`` those of them
    that another variant makes right, ``flagged`` the questions with a flaw of their own.
    """
    found: dict[str, Counter[str]] = {}
    for check in checks:
        counts = found.setdefault(check.subtype, Counter())
        counts["n"] += 1
        counts[check.status] += 1
        counts["agrees_by_another_rule"] += check.agrees_by_another
        counts["flagged"] += bool(check.flags)
    names = ("n", *_STATUSES, "agrees_by_another_rule", "flagged")
    return {subtype: {name: counts[name] for name in names} for subtype, counts in found.items()}


_STATUSES = tuple(
    status.value for status in (ChainStatus.AGREES, ChainStatus.DIFFERS, ChainStatus.CANNOT_CHECK)
)
