"""Carry a rule out on a case: which steps, on which masks, with which numbers and caveats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.measure import SIZE_FILTERS, Measurement, measured
from napari_ctvqa.core.rules import Rule, Variant, lesion_classes, rule_for
from napari_ctvqa.core.targets import (
    Resolved,
    Understood,
    lesions_of,
    resolve,
    steps_of,
    structures_for,
    understand,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.records import Question

_OF_ONE_MASK = ("mask_elsewhere", "mask_shape")
"""Codes of warnings about one mask; the rest speak of the CT or of the case as a whole."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step to take: segment or measure a target, or look a topic up."""

    kind: StepKind
    target: str
    measure: str = ""


def plan(rule: Rule, understood: Understood) -> tuple[PlanStep, ...]:
    """Return the steps before the conclusion, in the order of the rule's primitives."""
    measure = (understood.largest and rule.measure_if_largest) or rule.measure
    steps: list[PlanStep] = []
    for target in steps_of(understood.structure, together=rule.together):
        steps.append(PlanStep(StepKind.SEGMENT, target))
        if "measure" in rule.primitives:
            steps.append(PlanStep(StepKind.MEASURE, target, measure))
    if "lookup" in rule.primitives:
        look_up = PlanStep(StepKind.LOOKUP, rule.knowledge)
        steps.insert(0 if rule.primitives[0] == "lookup" else len(steps), look_up)
    return tuple(steps)


def wanted_structures(question: Question) -> tuple[str, ...]:
    """Return the canonical structures that a question's steps may need, most needed first.

    Empty where the subtype has no rule or the target was not understood.
    """
    rule = rule_for(question.subtype)
    if rule is None:
        return ()
    understood = understand(question, rule)
    return () if understood.problem else _wanted(rule, understood)


def _wanted(rule: Rule, understood: Understood) -> tuple[str, ...]:
    wanted: list[str] = []
    for step in plan(rule, understood):
        if step.kind is StepKind.SEGMENT:
            wanted += structures_for(step.target)
    for step in plan(rule, understood):
        if step.measure == "mean_hu" and not names.is_lesion(step.target):
            wanted += lesions_of(step.target)
    return tuple(dict.fromkeys(wanted))


def measure_target(
    case: Case, target: str, measure: str, variant: Variant | None = None
) -> tuple[Resolved, Measurement | None]:
    """Measure a target of a case; None where it has no mask.

    ``variant`` is a rule's variant that may name a size filter for lesions.

    Raises
    ------
    KeyError
        For a measure that is not measured.
    """
    found = resolve(case, target)
    if found.missing:
        return found, None
    lesions, caveats = _lesions(case, found, measure)
    number = measured(
        measure,
        found.masks,
        case.volume,
        lesions=lesions,
        size_filter=SIZE_FILTERS[_filter_name(variant)],
    )
    return found, number.plus(*found.caveats, *other_caveats(found.masks), *caveats)


def _filter_name(variant: Variant | None) -> str:
    if variant is None:
        counting = rule_for("lesion counting")
        variant = counting.default if counting else None
    return str(variant.parameters.get("size_filter", "all")) if variant else "all"


def _lesions(case: Case, found: Resolved, measure: str) -> tuple[tuple[Mask, ...], tuple[str, ...]]:
    """Return the lesions to leave out of an organ's HU, and what is to be said about them."""
    if measure != "mean_hu" or names.is_lesion(found.target):
        return (), ()
    structures = lesions_of(found.target)
    masks = tuple(case.masks[name] for name in structures if name in case.masks)
    if masks or not _annotated(found.target):
        return masks, ()
    lesion = names.label(structures[0])
    return (), (f"no {lesion} mask: lesions, if there are any, are part of the mean",)


def _annotated(organ: str) -> bool:
    """Return whether the benchmark's masks have a lesion class for this organ."""
    wholes = (organ, *(row.name for row in names.table().structures.values() if organ in row.parts))
    return any(lesion_classes(whole)[0] for whole in wholes)


def other_caveats(masks: tuple[Mask, ...]) -> tuple[str, ...]:
    """Return what the reader of the files said about masks, the border apart (measured here)."""
    return tuple(caveat for mask in masks for caveat in mask.caveats if "border" not in caveat)


def blocked_by_geometry(case: Case, rule: Rule, understood: Understood) -> str:
    """Return why red geometry forbids a conclusion, empty where it does not.

    Whether a mask has a voxel does not depend on geometry; sizes and sides do. What is wrong with
    one mask only concerns the questions that need that mask.
    """
    if rule.how == "exists":
        return ""
    masks = [
        mask
        for step in plan(rule, understood)
        if step.kind is StepKind.SEGMENT
        for mask in resolve(case, step.target).masks
    ]
    warnings = [w for w in case.report.warnings if w.code not in _OF_ONE_MASK]
    warnings += [w for mask in masks for w in mask.warnings]
    reasons = dict.fromkeys(w.message for w in warnings if w.level is Level.RED)
    if not reasons:
        return ""
    return f"the geometry of {case.case_id} is not to be trusted: {'; '.join(reasons)}"


def undecided(found: Resolved) -> str:
    """Return why masks cannot tell whether their target exists, empty where they can.

    A wider mask that is empty says none; one with voxels does not say which kind. The masks of
    some kinds that are all empty do not say that there is no other kind.
    """
    if found.missing:
        return found.missing
    if not found.exact and not found.empty:
        stand_in = names.label(found.structure)
        return f"no mask for {found.target}: the {stand_in} mask does not tell the kinds apart"
    if not found.whole and found.empty:
        return f"no mask for {found.target}: only some of its kinds have masks, all empty"
    return ""
