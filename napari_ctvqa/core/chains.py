"""EvidenceStep and EvidenceChain: segment, measure, look up, conclude."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class StepKind(StrEnum):
    """What one step of a chain does."""

    SEGMENT = "segment"
    MEASURE = "measure"
    LOOKUP = "lookup"
    CONCLUDE = "conclude"


class ChainStatus(StrEnum):
    """How a recomputed conclusion compares with the stated reference."""

    AGREES = "agrees"
    DIFFERS = "differs"
    CANNOT_CHECK = "cannot_check"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class EvidenceStep:
    """One step: what was looked at, what came out, by which rule.

    ``mask`` is the name of a Mask of the case (canonical structure name) that the viewer draws;
    empty when the step has none. ``value`` is a number, a text or None (cannot be checked).
    ``unit`` is ``"cm³"``, ``"HU"``, ``"cm"``, ``"mm"``, ``"voxels"``, ``"lesions"`` or empty.
    """

    kind: StepKind
    target: str
    measure: str = ""
    value: float | str | None = None
    unit: str = ""
    rule: str = ""
    source: str = ""
    assumed: bool = False
    mask: str = ""
    caveats: tuple[str, ...] = ()
    error: str = ""
    raw: Any = None
    """For a model's step: the tool's result as JSON data."""
    other: str = ""
    """The second structure, where there is one: the tumour that touches the vessel."""
    slice_display: int | None = None
    """The axial display index that shows this step, where one is meant."""

    def key(self) -> tuple[str, str, str]:
        """Return what two chains are aligned by: kind, target, measure."""
        return (self.kind.value, self.target, self.measure)


@dataclass(frozen=True, slots=True)
class OtherRule:
    """What another variant of a rule concludes, and how that compares with the reference.

    ``conclusion`` is empty where it gives none, and ``reason`` says why.
    """

    name: str
    text: str
    conclusion: str
    status: ChainStatus
    source: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceChain:
    """The steps behind one answer, in order.

    ``origin`` is ``"reference"`` or the model's name. ``rule`` names the variant of the subtype's
    rule that was used, ``other_rules`` holds what the others conclude. ``flags`` are sentences
    about the question itself: options that hold the recomputed value twice or not at all.
    """

    question_id: str
    origin: str
    steps: tuple[EvidenceStep, ...] = ()
    conclusion: str = ""
    status: ChainStatus = ChainStatus.CANNOT_CHECK
    reason: str = ""
    rule: str = ""
    other_rules: tuple[OtherRule, ...] = ()
    flags: tuple[str, ...] = ()
    difference: float | None = None
    """Recomputed minus stated, in the conclusion's unit; None where they are no two numbers."""
    relative_difference: float | None = None
    """The same as a part of the stated value: 0.1 is 10 % more; None also for a stated 0."""

    def with_status(self, status: ChainStatus, reason: str = "") -> EvidenceChain:
        """Return this chain with another status."""
        return replace(self, status=status, reason=reason)

    @property
    def agreeing_rules(self) -> tuple[OtherRule, ...]:
        """Return the other variants of the rule by which the stated reference is right."""
        return tuple(rule for rule in self.other_rules if rule.status is ChainStatus.AGREES)


class StepMatch(StrEnum):
    """How a model's step compares with the reference step it is aligned with."""

    SAME = "same"
    MISSING = "missing"
    EXTRA = "extra"
    WRONG_TARGET = "wrong target"
    WRONG_VALUE = "wrong value"
    OUTPUT_IGNORED = "output ignored"
    KNOWLEDGE_NOT_USED = "knowledge not used"
    UNKNOWN = "not comparable"


@dataclass(frozen=True, slots=True)
class AlignedStep:
    """One row of the two columns: a reference step beside a model's step."""

    reference: EvidenceStep | None
    model: EvidenceStep | None
    match: StepMatch
    relative_error: float | None = None
    note: str = ""
    harmless: bool = False
    """It is missing or done besides, and changed nothing: another way to the same numbers."""

    @property
    def differs(self) -> bool:
        """Return whether this may be where the model left the reference."""
        return not self.harmless and self.match not in (StepMatch.SAME, StepMatch.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ChainComparison:
    """Two chains aligned by target; ``first_difference`` is a row index, None when all agree."""

    rows: tuple[AlignedStep, ...]
    first_difference: int | None = None
    """Index of the first row that ``differs``."""

    @property
    def same_answer(self) -> bool:
        """Return whether the answers, which come last, are the same."""
        return bool(self.rows) and self.rows[-1].match is StepMatch.SAME
