"""Carry a rule out on a case: which steps, on which masks, with which numbers and caveats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.rules import Rule, StepTemplate, Variant, lesion_classes, rule_for
from napari_ctvqa.core.selections import Selection, organ_and_parts, selection
from napari_ctvqa.core.targets import (
    Resolved,
    evidence_for,
    lesions_of,
    neighbours_for,
    resolve_structure,
    sides_of,
    structures_for,
)
from napari_ctvqa.core.understanding import Understood, understand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.records import Question


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step to take: segment or measure a target, or look a topic up.

    ``other`` is a second structure (the tumour that touches the vessel); several are joined by
    ``+``. ``optional`` steps may be without a mask.
    """

    kind: StepKind
    target: str
    measure: str = ""
    other: str = ""
    optional: bool = False


def plan(
    rule: Rule, understood: Understood, variant: Variant | None = None
) -> tuple[PlanStep, ...]:
    """Return the steps before the conclusion, in the order of the rule's primitives."""
    chosen = variant or chosen_variant(rule, understood)
    steps = chosen.steps or (understood.largest and rule.steps_if_largest) or rule.steps
    found: list[PlanStep] = []
    for step in steps:
        if isinstance(step, StepTemplate):
            found += _filled(step, rule, understood)
            continue
        for each in understood.listed:
            for inner in step:
                found += _filled(inner, rule, understood, each)
    return tuple(dict.fromkeys(found))


def chosen_variant(rule: Rule, understood: Understood) -> Variant:
    """Return the variant that the question's own words ask for, else the default."""
    return rule.variant_named(understood.variant)


def _filled(
    step: StepTemplate, rule: Rule, understood: Understood, each: str = ""
) -> Iterator[PlanStep]:
    """Yield a step for every structure that its roles stand for."""
    if step.kind == StepKind.LOOKUP:
        yield PlanStep(StepKind.LOOKUP, rule.knowledge)
        return
    fan_out = {"{sides}": sides_of(understood.structure), "{listed}": understood.listed}
    role = next((role for role in fan_out if role in step.target), "")
    for structure in fan_out[role] if role else ("",):
        target = step.target.replace(role, structure) if role else step.target
        yield PlanStep(
            StepKind(step.kind),
            _with_roles(target, understood, each),
            step.measure,
            _with_roles(step.other, understood, each),
            step.optional,
        )


def _with_roles(text: str, understood: Understood, each: str) -> str:
    """Return a target with its roles filled in."""
    if "{lesion} in " in text and " in " in understood.lesion:
        text = text.split(" in ")[0]  # the place that the question names is part of the lesion
    roles = {
        "{lesion}": understood.lesion,
        "{organ}": understood.organ,
        "{site}": understood.site,
        "{listed}": "+".join(understood.listed),
        "{place}": "+".join(understood.listed),
        "{each}": each,
        "{organ of each}": names.parent_of(each) or each,
    }
    for role, structure in roles.items():
        text = text.replace(role, structure)
    return text


def counts_for(item: PlanStep, rule: Rule) -> bool:
    """Return whether a step's value is concluded from: measurements, and where something lies.

    A mask alone says something only where its existence is asked for.
    """
    if item.kind is StepKind.MEASURE:
        return True
    return item.kind is StepKind.SEGMENT and (item.measure != "voxels" or rule.how == "exists")


def wanted_structures(question: Question) -> tuple[str, ...]:
    """Return the canonical structures that a question's chain may need, most needed first.

    Empty where the subtype has no rule or the target was not understood.
    """
    rule = rule_for(question.subtype)
    return wanted_for(rule, understand(question, rule)) if rule is not None else ()


def wanted_for(rule: Rule, understood: Understood) -> tuple[str, ...]:
    """Return the canonical structures whose masks the plan may need, most needed first.

    Masks that only another variant of the rule needs come last.
    """
    if understood.problem:
        return ()
    wanted: list[str] = []
    first = chosen_variant(rule, understood)
    plans = [plan(rule, understood, v) for v in (first, *rule.variants) if v is first or v.steps]
    for steps in plans:
        for step in steps:
            wanted += _masks_of(step)
        for step in steps:
            if step.measure in HU_MEASURES and not names.is_lesion(step.target):
                wanted += lesions_of(step.target)
    for steps in plans:
        for step in steps:
            wanted += _beside(step)
    return tuple(dict.fromkeys(wanted))


def _beside(step: PlanStep) -> Iterator[str]:
    """Yield the structures that only tell whether the masks of a step overlap as they may."""
    if step.kind is StepKind.LOOKUP:
        return
    for target in (step.target, *filter(None, step.other.split("+"))):
        for structure in selection(target).structure.split("+"):
            yield from neighbours_for(structure)


def _masks_of(step: PlanStep) -> Iterator[str]:
    """Yield the structures whose masks one step may need."""
    if step.kind is StepKind.LOOKUP:
        return
    for target in (step.target, *filter(None, step.other.split("+"))):
        wanted = selection(target)
        for structure in wanted.structure.split("+"):
            yield from structures_for(structure)
            yield from evidence_for(structure)
        yield from _places_of(wanted)
    if step.measure in NEEDS_PARTS:
        yield from names.divisions_of(names.parent_of(selection(step.target).structure))


def _places_of(wanted: Selection) -> tuple[str, ...]:
    """Return the parts of an organ that tell where a selection's components lie."""
    return names.divisions_of(organ_and_parts(wanted.within)[0]) if wanted.within else ()


HU_MEASURES = ("mean_hu", "sd_hu", "median_hu", "p10_hu", "p90_hu")
"""Measures of the CT's values; an organ's leave its lesions out."""

ADDED_UP = ("voxels", "volume_cm3", "lesion_count")
"""Measures of a whole that are the sum of those of its parts."""

NEEDS_PARTS = (
    "parts",
    "lesions_in_fullest_part",
    "lesions_in_fullest_two_parts",
    "volume_share_of_fullest_part",
    "volume_share_of_fullest_two_parts",
)
"""Measures that need the masks of the parts of the lesion's organ."""


def lesions_left_out(case: Case, found: Resolved) -> tuple[tuple[Mask, ...], tuple[str, ...]]:
    """Return the lesions to leave out of an organ's HU, and what is to be said about them."""
    if names.is_lesion(found.target):
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

    Whether a mask has a voxel does not depend on the CT's geometry; sizes and sides do. A mask
    that does not belong to the CT tells nothing at all, not even that there is something. What is
    wrong with one mask only concerns the questions that need that mask.
    """
    warnings = [
        warning
        for step in plan(rule, understood)
        for mask in _used_masks(case, step)
        for warning in mask.warnings
    ]
    if rule.how != "exists" or not selection(understood.lesion or understood.structure).whole:
        warnings += case.volume.report.warnings
        warnings += [w for w in case.report.warnings if w.code == "side_swapped"]
    reasons = dict.fromkeys(w.message for w in warnings if w.level is Level.RED)
    if not reasons:
        return ""
    return f"the geometry of {case.case_id} is not to be trusted: {'; '.join(reasons)}"


def _used_masks(case: Case, step: PlanStep) -> Iterator[Mask]:
    """Yield the masks that one step's value rests on, those that it leaves out included."""
    if step.kind is StepKind.LOOKUP:
        return
    targets = [selection(target) for target in (step.target, *step.other.split("+")) if target]
    for wanted in targets:
        yield from resolve_structure(case, wanted.structure).masks
    beside = [part for wanted in targets for part in _places_of(wanted)]
    if step.measure in NEEDS_PARTS:
        beside += names.divisions_of(names.parent_of(targets[0].structure))
    if step.measure in HU_MEASURES and not names.is_lesion(step.target):
        beside += lesions_of(step.target)
    yield from (case.masks[name] for name in beside if name in case.masks)


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
