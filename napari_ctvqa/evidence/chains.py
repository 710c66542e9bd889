"""EvidenceChains: the reference's recomputed from the masks, a model's read from its Trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.answers import (
    answer_phrase,
    concluded,
    label_in,
    number_text,
    with_unit,
)
from napari_ctvqa.core.chains import (
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    OtherRule,
    StepKind,
)
from napari_ctvqa.core.findings import Finding, find
from napari_ctvqa.core.knowledge import entry_named
from napari_ctvqa.core.plans import (
    PlanStep,
    blocked_by_geometry,
    chosen_variant,
    counts_for,
    plan,
    undecided,
    wanted_structures,
)
from napari_ctvqa.core.quantities import quantity_in, value_in
from napari_ctvqa.core.question_checks import option_flags, stated_text
from napari_ctvqa.core.rules import (
    Rule,
    Variant,
    as_assumed,
    measure_named,
    of_the_benchmark,
    rule_for,
    slices_off,
    source_text,
)
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.understanding import Understood, understand
from napari_ctvqa.evidence.traces import prediction_chain

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.conclusions import Conclusion, Value
    from napari_ctvqa.core.records import Question

__all__ = ["judge", "prediction_chain", "reference_chain", "shown", "wanted_structures"]

REFERENCE = "reference"


def reference_chain(question: Question, case: Case) -> EvidenceChain:
    """Recompute the evidence behind a question's reference from the case's masks.

    A missing mask is *cannot be checked*, never "no"; a mask that is present and empty is "no" or
    0. ``status`` compares the conclusion with the stated reference. The rule's variant that the
    question's words ask for is used, else the default one; the others are computed beside it. For
    questions of another benchmark than the rule table's every rule is assumed.
    """
    chain = _reference_chain(question, case)
    return chain if of_the_benchmark(question.benchmark) else _for_other_questions(chain)


def _reference_chain(question: Question, case: Case) -> EvidenceChain:
    rule = rule_for(question.subtype)
    if rule is None:
        return _unchecked(question, (), no_rule(question.subtype))
    understood = understand(question, rule)
    if understood.problem:
        return _unchecked(question, (), f"target not understood: {understood.problem}")
    chosen = chosen_variant(rule, understood)
    work = _Work(case, rule, understood, chosen, question.patient)
    steps = work.steps()
    problem = work.problem or blocked_by_geometry(case, rule, understood)
    conclusion = None if problem else work.conclusion()
    if conclusion is not None:
        problem = conclusion.problem
    if conclusion is None or problem:
        last = EvidenceStep(StepKind.CONCLUDE, understood.structure, error=problem)
        return _unchecked(question, (*steps, last), problem)
    status, reason = judge(conclusion, rule, question, understood)
    others = work.other_rules(question)
    difference, relative = differences(conclusion, rule, question)
    here = shown(conclusion, rule)
    return EvidenceChain(
        question.id,
        REFERENCE,
        (*steps, _concluding(work, conclusion, steps, _unlike(others, here))),
        here,
        status,
        reason,
        chosen.name,
        others,
        option_flags(conclusion, rule, question, understood),
        difference,
        relative,
    )


def no_rule(subtype: str) -> str:
    """Return why a question without a rule has no chain."""
    if not subtype.strip():
        return "the question states no subtype, so no rule says how it is answered"
    return f"no rule for the subtype {subtype!r}"


def _unlike(others: Sequence[OtherRule], now: str) -> tuple[str, ...]:
    """Return a sentence for each other rule that concludes differently."""
    return tuple(
        f"by another rule ({other.text}): {other.conclusion}"
        for other in others
        if other.conclusion and other.conclusion != now
    )


def _unchecked(question: Question, steps: tuple[EvidenceStep, ...], reason: str) -> EvidenceChain:
    return EvidenceChain(question.id, REFERENCE, steps, reason=reason)


@dataclass
class _Work:
    """Takes the steps of one rule on one case, and collects the values to conclude from."""

    case: Case
    rule: Rule
    understood: Understood
    variant: Variant
    patient: Mapping[str, str] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    problem: str = ""

    def steps(self) -> tuple[EvidenceStep, ...]:
        """Take every step of the plan."""
        planned = plan(self.rule, self.understood, self.variant)
        return tuple(self._step(item) for item in planned)

    def _step(self, item: PlanStep) -> EvidenceStep:
        if item.kind is StepKind.LOOKUP:
            return _look_up(item)
        found = find(self.case, item, self.variant)
        counts = counts_for(item, self.rule)
        if counts and self.rule.how == "exists":
            self._fail(undecided(found.resolved))
        if found.problem and not item.optional:
            self._fail(found.problem)
        if counts:
            self.values.append(found.value)
        return _evidence(item, found)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def conclusion(self) -> Conclusion:
        """Conclude from the collected values."""
        return concluded(self.rule, self.variant, self.values, self.understood)

    def other_rules(self, question: Question) -> tuple[OtherRule, ...]:
        """Return what every other variant of the rule concludes."""
        others = (v for v in self.rule.variants if v.name != self.variant.name)
        return tuple(self._by(variant, question) for variant in others)

    def _by(self, variant: Variant, question: Question) -> OtherRule:
        work = _Work(self.case, self.rule, self.understood, variant)
        if variant.steps or self.variant.steps or _MEASURED_BY & variant.parameters.keys():
            work.steps()
        else:
            work.values = self.values
        drawn = None if work.problem else work.conclusion()
        if drawn is None or drawn.problem:
            reason = drawn.problem if drawn else work.problem
            found = ("", ChainStatus.CANNOT_CHECK, reason)
        else:
            status = judge(drawn, self.rule, question, self.understood)
            found = (shown(drawn, self.rule), *status)
        text, status_of, reason = found
        source = source_text(variant.source, assumed=variant.assumed)
        return OtherRule(variant.name, variant.text, text, status_of, source, reason)


_MEASURED_BY = {"size_filter", "part_rule"}
"""Parameters of a variant that change what is measured, not only what is concluded."""


def _evidence(item: PlanStep, found: Finding) -> EvidenceStep:
    """Return one step of the chain from what was found."""
    resolved = found.resolved
    if resolved.missing:
        return EvidenceStep(item.kind, item.target, item.measure, error=resolved.missing)
    measure = measure_named(item.measure)
    return EvidenceStep(
        item.kind,
        resolved.name,
        item.measure,
        found.value,
        found.unit,
        measure.formula_of(lesion=names.is_lesion(selection(resolved.name).structure)),
        _source(
            measure.source, rests_on="mask" if not measure.assumed and resolved.assumed else ""
        ),
        measure.assumed or resolved.assumed,
        resolved.structure,
        found.caveats,
        error=found.problem,
        other=item.other,
        slice_display=found.slice_display,
    )


def _source(source: str, *, rests_on: str) -> str:
    """Return a known rule's source, and that it was carried out on something that is assumed."""
    return f"{source}; on an assumed {rests_on}" if rests_on else source


def _for_other_questions(chain: EvidenceChain) -> EvidenceChain:
    """Return a chain about a question that is not the rule table's benchmark's.

    No rule is known to be its own, whatever that benchmark does; what is known stays known.
    """
    steps = tuple(
        step
        if step.kind is StepKind.LOOKUP or not step.source
        else replace(step, source=as_assumed(step.source), assumed=True)
        for step in chain.steps
    )
    others = tuple(replace(rule, source=as_assumed(rule.source)) for rule in chain.other_rules)
    return replace(chain, steps=steps, other_rules=others)


def _look_up(item: PlanStep) -> EvidenceStep:
    entry = entry_named(item.target)
    return EvidenceStep(
        StepKind.LOOKUP, entry.topic, value=entry.text, source=entry.source, rule="knowledge base"
    )


def _concluding(
    work: _Work, conclusion: Conclusion, steps: Sequence[EvidenceStep], others: tuple[str, ...]
) -> EvidenceStep:
    inherited = [caveat for step in steps for caveat in step.caveats]
    lacking = [step.error for step in steps if step.error]
    phase = phase_caveats(work.rule, work.patient)
    unread = [text for text in (work.understood.left_out_text,) if text]
    caveats = dict.fromkeys((*unread, *conclusion.caveats, *phase, *others, *lacking, *inherited))
    return EvidenceStep(
        StepKind.CONCLUDE,
        work.understood.structure,
        value=conclusion.shown,
        unit="" if conclusion.label else conclusion.unit,
        rule=conclusion.text,
        source=_source(
            conclusion.source,
            rests_on="step" if not conclusion.assumed and any(s.assumed for s in steps) else "",
        ),
        assumed=conclusion.assumed or any(step.assumed for step in steps),
        caveats=tuple(caveats),
    )


def phase_caveats(rule: Rule, patient: Mapping[str, str]) -> tuple[str, ...]:
    """Return a caveat where a rule is made for another contrast phase than the record states."""
    stated = patient.get("contrast", "").strip()
    plain = re.sub(r"[^a-z]", "", stated.casefold()) in ("noncontrast", "plain", "native")
    if not rule.phase or plain:
        return ()
    said = f"the record says {stated}" if stated else "the record states no phase"
    return (f"the rule is made for plain CT: {said}",)


def shown(conclusion: Conclusion, rule: Rule) -> str:
    """Return a conclusion for people: ``"Mild"``, ``"156.6 cm³"``."""
    if conclusion.label:
        return answer_phrase(conclusion.label, rule)
    if conclusion.value is None:
        return ""
    return with_unit(number_text(conclusion.value, conclusion.decimals), conclusion.unit)


def judge(
    conclusion: Conclusion, rule: Rule, question: Question, understood: Understood
) -> tuple[ChainStatus, str]:
    """Compare a recomputed conclusion with the stated reference; return status and reason."""
    stated = stated_text(question)
    if not stated:
        return ChainStatus.CANNOT_CHECK, "the question states no reference"
    if conclusion.label:
        label = label_in(stated, rule, understood)
        if not label:
            return ChainStatus.CANNOT_CHECK, f"the stated reference {stated!r} was not understood"
        if label == conclusion.label:
            return ChainStatus.AGREES, ""
        found = shown(conclusion, rule)
        return ChainStatus.DIFFERS, f"recomputed {found!r}, stated {answer_phrase(label, rule)!r}"
    return _judge_number(conclusion, rule, stated)


def _judge_number(conclusion: Conclusion, rule: Rule, stated: str) -> tuple[ChainStatus, str]:
    quantity = quantity_in(stated, conclusion.unit)
    if quantity is None or conclusion.value is None:
        return ChainStatus.CANNOT_CHECK, f"the stated reference {stated!r} is no number"
    if not quantity.is_number:
        if quantity.holds(conclusion.value):
            return ChainStatus.AGREES, ""
        return ChainStatus.DIFFERS, f"recomputed {shown(conclusion, rule)}, stated {stated}"
    number = quantity.low
    apart = conclusion.value - number
    if abs(apart) <= rule.allowed(number, conclusion.decimals):
        return ChainStatus.AGREES, ""
    how_far = relative_text(apart, number)
    if rule.counts_slices:
        how_far = slices_off(conclusion.value, number, conclusion.unit)
    return ChainStatus.DIFFERS, f"recomputed {shown(conclusion, rule)}, stated {stated}: {how_far}"


def differences(
    conclusion: Conclusion, rule: Rule, question: Question
) -> tuple[float | None, float | None]:
    """Return recomputed minus stated, and that as a part of the stated value.

    Both are None for labels; slices lie apart, but no slice is a part of another.
    """
    number = None if conclusion.label else value_in(stated_text(question), conclusion.unit)
    if number is None or conclusion.value is None:
        return None, None
    apart = conclusion.value - number
    if abs(apart) <= rule.allowed(number, conclusion.decimals):
        apart = 0.0
    return apart, (apart / abs(number) if number and not rule.counts_slices else None)


def relative_text(apart: float, stated: float) -> str:
    """Return a difference for people: ``"5.3 % more"``."""
    if stated == 0:
        return f"{abs(apart):g} {'more' if apart > 0 else 'less'}"
    share = 100.0 * abs(apart) / abs(stated)
    return f"{share:.1f} % {'more' if apart > 0 else 'less'}"
