"""One question's reference held against what its case's masks say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.chains import ChainStatus, EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.question_checks import record_flags
from napari_ctvqa.evidence.chains import reference_chain, stated_text

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Question

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


def check(question: Question, case: Case, flags: tuple[str, ...] = ()) -> ReferenceCheck:
    """Recompute a question's reference; ``flags`` are what is already known to be wrong with it."""
    chain = reference_chain(question, case)
    all_flags = tuple(dict.fromkeys((*flags, *record_flags(question), *chain.flags)))
    last = chain.steps[-1] if chain.steps else None
    return ReferenceCheck(
        id=question.id,
        subtype=question.subtype,
        stated=stated_text(question),
        recomputed=chain.conclusion,
        status=chain.status.value,
        reason="; ".join((*status_reasons(chain), *all_flags)),
        other_rules={rule.name: rule.status.value for rule in chain.other_rules},
        first_differing_step=first_differing_step(chain),
        rule=f"{chain.rule}: {last.rule}" if chain.rule and last else "",
        caveats=tuple(dict.fromkeys(c for step in chain.steps for c in step.caveats)),
        flags=all_flags,
        relative_difference=chain.relative_difference,
    )


def unchecked(question: Question, reason: str) -> ReferenceCheck:
    """Return the row of a question whose case could not be read."""
    flags = record_flags(question)
    return ReferenceCheck(
        question.id,
        question.subtype,
        stated_text(question),
        reason="; ".join((reason, *flags)),
        flags=flags,
        failed=True,
    )


def status_reasons(chain: EvidenceChain) -> tuple[str, ...]:
    """Return why a chain differs or cannot be checked, and by which rules it would agree."""
    if chain.status is not ChainStatus.DIFFERS or not chain.agreeing_rules:
        return (chain.reason,) if chain.reason else ()
    names = ", ".join(f"{rule.name} ({rule.text})" for rule in chain.agreeing_rules)
    return (f"differs by the default rule, agrees by {names}", chain.reason)


def first_differing_step(chain: EvidenceChain) -> str:
    """Return the first step at which the stated reference left the recomputed chain.

    A reference states no steps, so this is the first that has to be another for it to be right:
    the conclusion where another rule gives it from the same numbers, else the one measurement it
    was drawn from, the conclusion again where several were. For a chain that could not be drawn it
    is the step that failed; empty where the two agree.
    """
    if chain.status is ChainStatus.AGREES or not chain.steps:
        return ""
    failed = next((step for step in chain.steps if step.error), None)
    if failed is not None:
        return step_words(failed)
    if chain.status is not ChainStatus.DIFFERS:
        return ""
    kinds = (StepKind.MEASURE, StepKind.SEGMENT)
    for kind in kinds:
        steps = [step for step in chain.steps if step.kind is kind]
        if steps:
            single = len(steps) == 1 and not chain.agreeing_rules
            return step_words(steps[0] if single else chain.steps[-1])
    return step_words(chain.steps[-1])


def step_words(step: EvidenceStep) -> str:
    """Return a step in words: ``"measure volume_cm3 of spleen"``."""
    parts = [step.kind.value]
    if step.measure and step.kind is StepKind.MEASURE:
        parts.append(step.measure)
    if step.target:
        parts.append(f"of {step.target}" if step.kind is StepKind.MEASURE else step.target)
    return " ".join(parts)
