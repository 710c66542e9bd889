"""One question's reference held against what its case's masks say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.chains import ChainStatus, EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.checks import ReferenceCheck
from napari_ctvqa.core.question_checks import record_flags, stated_text
from napari_ctvqa.core.rules import rule_for, slices_off
from napari_ctvqa.evidence.chains import reference_chain

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Question


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
        slices_off=_slices_off(question, chain),
    )


def _slices_off(question: Question, chain: EvidenceChain) -> str:
    """Return how far a recomputed slice is above (+) or below the stated one, empty for others."""
    rule = rule_for(question.subtype)
    if rule is None or not rule.counts_slices or not chain.difference:
        return ""
    said = slices_off(chain.difference, 0.0, chain.steps[-1].unit).removesuffix(" off")
    return f"{'+' if chain.difference > 0 else '−'}{said}"


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
    if chain.status is not ChainStatus.DIFFERS:
        failed = next((step for step in chain.steps if step.error), None)
        return step_words(failed) if failed is not None else ""
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
