"""EvidenceChains: the reference's recomputed from the masks, a model's read from its Trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from napari_ctvqa.core.answers import as_asked, label_in, number_in, number_text, with_unit
from napari_ctvqa.core.chains import (
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    OtherRule,
    StepKind,
)
from napari_ctvqa.core.knowledge import entry_named
from napari_ctvqa.core.measure import border_caveats, together
from napari_ctvqa.core.plans import (
    PlanStep,
    blocked_by_geometry,
    measure_target,
    other_caveats,
    plan,
    undecided,
    wanted_structures,
)
from napari_ctvqa.core.question_checks import option_flags
from napari_ctvqa.core.rules import (
    Conclusion,
    Rule,
    Variant,
    conclude,
    measure_named,
    phrase,
    rule_for,
)
from napari_ctvqa.core.targets import Resolved, Understood, resolve, understand
from napari_ctvqa.evidence.traces import prediction_chain

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Question

__all__ = ["judge", "prediction_chain", "reference_chain", "shown", "wanted_structures"]

REFERENCE = "reference"


def reference_chain(question: Question, case: Case) -> EvidenceChain:
    """Recompute the evidence behind a question's reference from the case's masks.

    A missing mask is *cannot be checked*, never "no"; a mask that is present and empty is "no" or
    0. ``status`` compares the conclusion with the stated reference.
    """
    rule = rule_for(question.subtype)
    if rule is None:
        return _unchecked(question, (), f"no rule for the subtype {question.subtype!r}")
    understood = understand(question, rule)
    if understood.problem:
        return _unchecked(question, (), f"target not understood: {understood.problem}")
    work = _Work(case, rule, understood)
    steps = tuple(work.step(item) for item in plan(rule, understood))
    problem = work.problem or blocked_by_geometry(case, rule, understood)
    if problem:
        last = EvidenceStep(StepKind.CONCLUDE, understood.structure, error=problem)
        return _unchecked(question, (*steps, last), problem)
    conclusion = work.conclusion()
    others = work.other_rules(question)
    status, reason = judge(conclusion, rule, question)
    difference, relative = differences(conclusion, rule, question)
    return EvidenceChain(
        question.id,
        REFERENCE,
        (*steps, _concluding(conclusion, rule, understood, steps, others)),
        shown(conclusion, rule),
        status,
        reason,
        rule.default.name,
        others,
        option_flags(conclusion, rule, question),
        difference,
        relative,
    )


def _unchecked(question: Question, steps: tuple[EvidenceStep, ...], reason: str) -> EvidenceChain:
    return EvidenceChain(question.id, REFERENCE, steps, reason=reason)


@dataclass
class _Work:
    """Takes the steps of one plan on one case, and collects the values to conclude from."""

    case: Case
    rule: Rule
    understood: Understood
    values: list[float] = field(default_factory=list)
    measured: list[PlanStep] = field(default_factory=list)
    problem: str = ""

    def step(self, item: PlanStep) -> EvidenceStep:
        """Take one step."""
        if item.kind is StepKind.SEGMENT:
            return self._segment(item)
        if item.kind is StepKind.MEASURE:
            return self._measure(item)
        return _look_up(item)

    def _segment(self, item: PlanStep) -> EvidenceStep:
        found = resolve(self.case, item.target)
        if found.missing:
            self._fail(found.missing)
            return EvidenceStep(StepKind.SEGMENT, item.target, "voxels", error=found.missing)
        voxels = float(together(found.masks).voxels)
        if self.rule.how == "exists":
            self._fail(undecided(found))
            self.values.append(voxels)
        measure = measure_named("voxels")
        return EvidenceStep(
            StepKind.SEGMENT,
            found.structure,
            "voxels",
            voxels,
            measure.unit,
            measure.formula,
            measure.source,
            found.assumed,
            found.structure,
            (*found.caveats, *_mask_caveats(found)),
        )

    def _measure(self, item: PlanStep) -> EvidenceStep:
        found, number = measure_target(self.case, item.target, item.measure, self.rule.default)
        if number is None:
            self._fail(found.missing)
            return EvidenceStep(StepKind.MEASURE, item.target, item.measure, error=found.missing)
        if number.value is None:
            self._fail("; ".join(number.caveats))
        else:
            self.values.append(number.value)
            self.measured.append(item)
        measure = measure_named(item.measure)
        return EvidenceStep(
            StepKind.MEASURE,
            found.structure,
            item.measure,
            number.value,
            number.unit,
            measure.formula,
            measure.source,
            measure.assumed or found.assumed,
            found.structure,
            number.caveats,
        )

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def conclusion(self, variant: Variant | None = None) -> Conclusion:
        """Conclude from the collected values, or by another variant of the rule."""
        values = self.values
        if variant is not None and "size_filter" in variant.parameters:
            again = [
                measure_target(self.case, item.target, item.measure, variant)[1]
                for item in self.measured
            ]
            values = [number.value for number in again if number and number.value is not None]
        return as_asked(conclude(self.rule, values, variant), self.understood)

    def other_rules(self, question: Question) -> tuple[OtherRule, ...]:
        """Return what each other variant of the rule concludes."""
        found = []
        for variant in self.rule.variants[1:]:
            other = self.conclusion(variant)
            status, _ = judge(other, self.rule, question)
            found.append(OtherRule(variant.name, variant.text, shown(other, self.rule), status))
        return tuple(found)


def _mask_caveats(found: Resolved) -> tuple[str, ...]:
    return (*border_caveats(found.masks), *other_caveats(found.masks))


def _look_up(item: PlanStep) -> EvidenceStep:
    entry = entry_named(item.target)
    return EvidenceStep(
        StepKind.LOOKUP, entry.topic, value=entry.text, source=entry.source, rule="knowledge base"
    )


def _concluding(
    conclusion: Conclusion,
    rule: Rule,
    understood: Understood,
    steps: Sequence[EvidenceStep],
    others: Sequence[OtherRule],
) -> EvidenceStep:
    inherited = [caveat for step in steps for caveat in step.caveats]
    here = shown(conclusion, rule)
    unlike = [
        f"by another rule ({other.text}): {other.conclusion}"
        for other in others
        if other.conclusion != here
    ]
    caveats = tuple(dict.fromkeys((*conclusion.caveats, *unlike, *inherited)))
    return EvidenceStep(
        StepKind.CONCLUDE,
        understood.structure,
        value=conclusion.shown,
        unit="" if conclusion.label else conclusion.unit,
        rule=conclusion.text,
        source=conclusion.source,
        assumed=conclusion.assumed or any(step.assumed for step in steps),
        caveats=caveats,
    )


def shown(conclusion: Conclusion, rule: Rule) -> str:
    """Return a conclusion for people: ``"Mild"``, ``"156.6 cm³"``."""
    if conclusion.label:
        return phrase(conclusion.label)
    if conclusion.value is None:
        return ""
    return with_unit(number_text(conclusion.value, rule.decimals), conclusion.unit)


def judge(conclusion: Conclusion, rule: Rule, question: Question) -> tuple[ChainStatus, str]:
    """Compare a recomputed conclusion with the stated reference; return status and reason."""
    stated = stated_text(question)
    if not stated:
        return ChainStatus.CANNOT_CHECK, "the question states no reference"
    if conclusion.label:
        label = label_in(stated, rule)
        if not label:
            return ChainStatus.CANNOT_CHECK, f"the stated reference {stated!r} was not understood"
        if label == conclusion.label:
            return ChainStatus.AGREES, ""
        found = shown(conclusion, rule)
        return ChainStatus.DIFFERS, f"recomputed {found!r}, stated {phrase(label)!r}"
    return _judge_number(conclusion, rule, stated)


def _judge_number(conclusion: Conclusion, rule: Rule, stated: str) -> tuple[ChainStatus, str]:
    number = number_in(stated)
    if number is None or conclusion.value is None:
        return ChainStatus.CANNOT_CHECK, f"the stated reference {stated!r} is no number"
    apart = conclusion.value - number
    if abs(apart) <= rule.allowed(number):
        return ChainStatus.AGREES, ""
    return ChainStatus.DIFFERS, (
        f"recomputed {shown(conclusion, rule)}, stated {stated}: {relative_text(apart, number)}"
    )


def differences(
    conclusion: Conclusion, rule: Rule, question: Question
) -> tuple[float | None, float | None]:
    """Return recomputed minus stated, and that as a part of the stated value; None for labels."""
    number = None if conclusion.label else number_in(stated_text(question))
    if number is None or conclusion.value is None:
        return None, None
    apart = conclusion.value - number
    if abs(apart) <= rule.allowed(number):
        apart = 0.0
    return apart, (apart / abs(number) if number else None)


def relative_text(apart: float, stated: float) -> str:
    """Return a difference for people: ``"5.3 % more"``."""
    if stated == 0:
        return f"{abs(apart):g} {'more' if apart > 0 else 'less'}"
    share = 100.0 * abs(apart) / abs(stated)
    return f"{share:.1f} % {'more' if apart > 0 else 'less'}"


def stated_text(question: Question) -> str:
    """Return the stated reference as text: the right option's, else the free-form answer."""
    letter = question.reference.letter.strip().upper()
    option = next((o for o in question.options if o.letter.upper() == letter), None)
    return option.text if option and letter else question.reference.text
