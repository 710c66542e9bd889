"""Compare a model's chain with the reference's, step by step, and name the first difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.answers import number_text, with_unit
from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    OtherRule,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.plans import ADDED_UP, HU_MEASURES
from napari_ctvqa.core.rules import counts_slices, is_measure, measure_named, slices_off
from napari_ctvqa.core.selections import selection
from napari_ctvqa.evidence.equivalence import Targets

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

SAME_WITHIN = 0.01
"""Relative error up to which two measured values count as the same (sampling, rounding)."""
SAME_WITHIN_HU = 1.0
"""The same for HU, whose zero is water and not nothing."""
SAME_WITHIN_SLICES = 1.0
"""The same for numbers of slices, of which a part would be more the higher up they lie."""

_Test = Callable[[EvidenceStep, EvidenceStep], bool]


_WRONG_ANSWERS = (
    StepMatch.WRONG_VALUE,
    StepMatch.OUTPUT_IGNORED,
    StepMatch.KNOWLEDGE_NOT_USED,
)


def compare_chains(
    reference: EvidenceChain, model: EvidenceChain, case: Case | None = None
) -> ChainComparison:
    """Align two chains by kind, target and measure, in the reference's order.

    Without reference steps (a subtype without a rule) nothing is judged. A step on other words for
    the same voxels of ``case``, or on lesions that have the wanted ones among them and give the
    same value, is *same*; one of the same kind with another target is *wrong target*. What the
    model did besides is *extra* and stands where it happened; the answers come last. The first
    difference is the first that may have changed the answer.
    """
    if not reference.steps:
        return ChainComparison(tuple(_unchecked(step) for step in model.steps))
    work, targets = _work(model), Targets(case)
    pairs = _pair(_work(reference), work, targets)
    others = tuple(rule for rule in reference.other_rules if rule.conclusion)
    rows = [_compared(p, targets, others) for p in pairs] if work else _unseen(_work(reference))
    rows.append(_answers(_last(reference), _last(model), rows))
    rows = _without_harmless(rows, _work(reference))
    first = next((n for n, row in enumerate(rows) if row.differs), None)
    return ChainComparison(tuple(rows), first)


def judged(model: EvidenceChain, comparison: ChainComparison) -> EvidenceChain:
    """Return the model's chain with how its answer compares with the recomputed one."""
    last = comparison.rows[-1]
    error = "" if last.relative_error is None else f"{100 * last.relative_error:.1f} % off"
    if last.match is StepMatch.SAME:
        return model.with_status(ChainStatus.AGREES)
    if last.match in _WRONG_ANSWERS:
        reason = "; ".join(part for part in (last.note, error) if part)
        return model.with_status(ChainStatus.DIFFERS, reason)
    return model.with_status(ChainStatus.CANNOT_CHECK, last.note or model.reason)


def _work(chain: EvidenceChain) -> list[EvidenceStep]:
    return [step for step in chain.steps if step.kind is not StepKind.CONCLUDE]


def _last(chain: EvidenceChain) -> EvidenceStep | None:
    found = [step for step in chain.steps if step.kind is StepKind.CONCLUDE]
    return found[-1] if found else None


def _unchecked(step: EvidenceStep) -> AlignedStep:
    return AlignedStep(None, step, StepMatch.UNKNOWN, note="no reference chain")


def _unseen(reference: list[EvidenceStep]) -> list[AlignedStep]:
    """Return the rows of a model that shows no steps: only its answer can be compared."""
    note = "the model shows no steps"
    return [AlignedStep(step, None, StepMatch.UNKNOWN, note=note) for step in reference]


@dataclass(slots=True)
class _Pair:
    """A reference step and the model's step for it; ``parts`` are further ones that belong to it.

    ``part_of`` says of a model's step that it is one of those.
    """

    reference: EvidenceStep | None
    model: EvidenceStep | None
    repeated: bool = False
    parts: tuple[EvidenceStep, ...] = ()
    part_of: EvidenceStep | None = None


def _pair(
    reference: list[EvidenceStep], model: list[EvidenceStep], targets: Targets
) -> list[_Pair]:
    """Pair the steps: equal keys, the same voxels, lesions that hold them, then what is left.

    Before what is left is paired by kind and measure alone, several steps that together have the
    target of one are that one.
    """
    taken: dict[int, int] = {}
    parts: dict[int, list[int]] = {}
    for same in (_same_key, _same_voxels(targets), _holding(targets), None, _same_work):
        if same is None:
            parts = _in_parts(reference, model, taken, targets)
            continue
        used = {*taken.values(), *(n for listed in parts.values() for n in listed)}
        for here, step in enumerate(reference):
            if here in taken or (same is _same_work and _is_aid(step, reference)):
                continue
            free = [n for n, s in enumerate(model) if n not in used and same(step, s)]
            if free:  # a call that failed and was made again counts by the one that worked
                taken[here] = next((n for n in free if not model[n].error), free[0])
                used.add(taken[here])
    return _in_order(reference, model, taken, parts)


def _same_key(reference: EvidenceStep, model: EvidenceStep) -> bool:
    return reference.key() == model.key()


def _same_work(reference: EvidenceStep, model: EvidenceStep) -> bool:
    return reference.kind is model.kind and reference.measure == model.measure


def _same_voxels(targets: Targets) -> _Test:
    def same(reference: EvidenceStep, model: EvidenceStep) -> bool:
        return (
            _same_work(reference, model)
            and reference.kind is not StepKind.LOOKUP
            and reference.other == model.other
            and targets.same(model.target, reference.target)
        )

    return same


def _holding(targets: Targets) -> _Test:
    """Return the test for a step on more lesions than were meant that found the same."""

    def holding(reference: EvidenceStep, model: EvidenceStep) -> bool:
        if not _same_work(reference, model) or reference.kind is StepKind.LOOKUP:
            return False
        if reference.other != model.other or model.error or reference.error:
            return False
        found = reference.measure == "voxels" or _agree(model, reference)
        return found and targets.holds(model.target, reference.target)

    return holding


def _in_parts(
    reference: list[EvidenceStep],
    model: list[EvidenceStep],
    taken: dict[int, int],
    targets: Targets,
) -> dict[int, list[int]]:
    """Pair each free reference step whose target several free steps of the model make up.

    The first of them is its partner; a measurement must be one that can be added up.
    """
    found: dict[int, list[int]] = {}
    for here, step in enumerate(reference):
        if here in taken or step.measure not in ADDED_UP:
            continue
        used = {*taken.values(), *(n for listed in found.values() for n in listed)}
        free = {
            s.target: n
            for n, s in enumerate(model)
            if n not in used and _same_work(step, s) and not s.error
        }
        if targets.together(tuple(free), step.target):
            first, *rest = sorted(free.values())
            taken[here], found[here] = first, rest
    return found


def _is_aid(step: EvidenceStep, reference: list[EvidenceStep]) -> bool:
    """Return whether a mask is only looked up to say where something else lies."""
    if step.kind is not StepKind.SEGMENT or step.measure != "voxels":
        return False
    valued = [s for s in reference if s.measure not in ("", "voxels")]
    lesion = names.is_lesion(selection(step.target).structure)
    return bool(valued) and not lesion and all(s.target != step.target for s in valued)


def _in_order(
    reference: list[EvidenceStep],
    model: list[EvidenceStep],
    taken: dict[int, int],
    parts: dict[int, list[int]],
) -> list[_Pair]:
    """Return all pairs in the reference's order, each extra step after the one it followed."""
    rows = [
        _Pair(step, model[taken[n]] if n in taken else None) for n, step in enumerate(reference)
    ]
    row_of = {used: rows[here] for here, used in taken.items()}
    whole_of = {part: here for here, listed in parts.items() for part in listed}
    for here, listed in parts.items():
        rows[here].parts = tuple(model[n] for n in listed)
    after: _Pair | None = None
    keys = [step.key() for step in reference]
    for number, step in enumerate(model):
        if number in row_of:
            after = row_of[number]
            continue
        part_of = reference[whole_of[number]] if number in whole_of else None
        extra = _Pair(None, step, repeated=step.key() in keys, part_of=part_of)
        place = 0 if after is None else next(n for n, row in enumerate(rows) if row is after) + 1
        rows.insert(place, extra)
        after = extra
    return rows


def _compared(pair: _Pair, targets: Targets, others: tuple[OtherRule, ...]) -> AlignedStep:
    reference, model = pair.reference, pair.model
    if reference is None:
        if pair.part_of is not None:
            note = f"part of {_name(pair.part_of)}"
            return AlignedStep(None, model, StepMatch.SAME, note=note)
        return AlignedStep(None, model, StepMatch.EXTRA, note=_why_extra(pair))
    if model is None:
        return AlignedStep(reference, None, StepMatch.MISSING)
    if pair.parts:
        return _together(reference, (model, *pair.parts), others)
    if reference.target == model.target:
        return _values(reference, model, others)
    if reference.kind is not StepKind.LOOKUP and not model.error:
        if targets.same(model.target, reference.target):
            found = _values(reference, model, others)
            return replace(found, note=found.note or f"on {_name(model)}")
        fits = reference.measure == "voxels" or _agree(model, reference)
        if fits and targets.holds(model.target, reference.target):
            return AlignedStep(
                reference, model, StepMatch.SAME, _off(model, reference), f"on {_name(model)}"
            )
    wanted, got = _name(reference), _name(model) if model.target else "nothing"
    return AlignedStep(reference, model, StepMatch.WRONG_TARGET, note=f"{got} for {wanted}")


def _name(step: EvidenceStep) -> str:
    return selection(step.target).label


def _together(
    reference: EvidenceStep, models: tuple[EvidenceStep, ...], others: tuple[OtherRule, ...]
) -> AlignedStep:
    """Compare the sum of several steps with the step on all that they are about."""
    note = " and ".join(_name(model) for model in models) + " together"
    values = [model.value for model in models]
    if not all(isinstance(value, float) for value in values):
        return AlignedStep(reference, models[0], StepMatch.UNKNOWN, note=f"{note}: no numbers")
    total = sum(value for value in values if isinstance(value, float))
    found = _values(reference, replace(models[0], value=total), others)
    return replace(found, model=models[0], note=f"{note}: {found.note}".removesuffix(": "))


def _why_extra(pair: _Pair) -> str:
    if pair.model is not None and pair.model.error:
        return f"failed: {pair.model.error}"
    return "repeated" if pair.repeated else ""


def _values(
    reference: EvidenceStep, model: EvidenceStep, others: tuple[OtherRule, ...] = ()
) -> AlignedStep:
    if model.error and not reference.error:
        return AlignedStep(reference, model, StepMatch.WRONG_VALUE, note=model.error)
    if reference.kind is StepKind.LOOKUP:
        return AlignedStep(reference, model, StepMatch.SAME)
    theirs, ours = model.value, reference.value
    if isinstance(theirs, str) and isinstance(ours, str):
        match = StepMatch.SAME if theirs == ours else StepMatch.WRONG_VALUE
        return AlignedStep(reference, model, match)
    if not isinstance(ours, float) or not isinstance(theirs, float):
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note="no number to compare")
    if model.unit and reference.unit and model.unit != reference.unit:
        note = f"in {model.unit}, the reference is in {reference.unit}"
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note=note)
    error = _off(model, reference)
    note = _slices_off(theirs, ours) if counts_slices(reference.measure) else ""
    if _same(theirs, ours, reference.measure):
        return AlignedStep(reference, model, StepMatch.SAME, error, note)
    by_other = _by_another_rule(theirs, reference, others)
    if by_other:
        return AlignedStep(reference, model, StepMatch.SAME, error, by_other)
    return AlignedStep(reference, model, StepMatch.WRONG_VALUE, error, note)


def _slices_off(value: float, reference: float, unit: str = "") -> str:
    return slices_off(value, reference, unit) if value != reference else ""


def _by_another_rule(value: float, reference: EvidenceStep, others: tuple[OtherRule, ...]) -> str:
    """Return by which other rule a measured value is right, where it is what is concluded."""
    decimals = measure_named(reference.measure).decimals if is_measure(reference.measure) else 0
    text = with_unit(number_text(value, decimals), reference.unit)
    found = next((rule for rule in others if rule.conclusion == text), None)
    return f"right by another rule: {found.text}" if found is not None else ""


def _agree(model: EvidenceStep, reference: EvidenceStep) -> bool:
    return _values(reference, model).match is StepMatch.SAME


def _off(model: EvidenceStep, reference: EvidenceStep) -> float | None:
    """Return the relative error of a value; None where there is none: of a slice, of a text."""
    if counts_slices(reference.measure):
        return None
    if isinstance(model.value, float) and isinstance(reference.value, float):
        return relative_error(model.value, reference.value)
    return None


# ------------------------------------------------------------------- what does not matter


def _without_harmless(rows: list[AlignedStep], reference: list[EvidenceStep]) -> list[AlignedStep]:
    """Mark the differences that changed nothing: another way to the same numbers.

    A mask that was only to say where something lies, or whose value was measured all the same, is
    not missed. With the right answer nothing that was done besides is a fault, and of steps of one
    kind in a row one that is the same will do: the benchmark lists them as one. Nor is a mask or a
    measurement missed, or one of something else a fault, where the model's own numbers give that
    answer by the rule; nor are other masks where all that was to be measured came out the same.
    """
    right = rows[-1].match is StepMatch.SAME
    decided = right and _own_numbers(rows[-1].model) != ""
    all_measured = right and _all_measured(rows)
    measured = {
        row.reference.target
        for row in rows
        if row.reference and row.reference.kind is StepKind.MEASURE and row.match is StepMatch.SAME
    }
    done = _runs_done(rows) if right else set()
    found = []
    for number, row in enumerate(rows):
        harmless = (right and row.match is StepMatch.EXTRA) or number in done
        step = row.reference
        looked_up = step is not None and step.kind is StepKind.LOOKUP
        if row.match in (StepMatch.MISSING, StepMatch.WRONG_TARGET) and not looked_up:
            harmless = harmless or decided
        if step is not None and step.kind is StepKind.SEGMENT and all_measured:
            harmless = harmless or row.differs
        if row.match is StepMatch.MISSING and step is not None and step.measure:
            needless = _is_aid(step, reference) or step.target in measured
            harmless = harmless or (step.measure == "voxels" and needless)
        found.append(replace(row, harmless=True) if harmless else row)
    return found


def _all_measured(rows: list[AlignedStep]) -> bool:
    """Return whether there was something to be measured, and every value of it is the same."""
    measures = [r for r in rows if r.reference and r.reference.kind is StepKind.MEASURE]
    return bool(measures) and all(row.match is StepMatch.SAME for row in measures)


def _runs_done(rows: list[AlignedStep]) -> set[int]:
    """Return the missing rows beside a row of the same kind that is the same.

    Only the reference's rows count; a run ends where the kind changes. A run with a wrong target or
    value has none.
    """
    runs: list[list[int]] = []
    kind: StepKind | None = None
    for number, row in enumerate(rows):
        if row.reference is None or row.reference.kind is StepKind.CONCLUDE:
            continue
        if row.reference.kind is not kind:
            runs.append([])
            kind = row.reference.kind
        runs[-1].append(number)
    found: set[int] = set()
    for run in runs:
        matches = {rows[number].match for number in run}
        if StepMatch.SAME in matches and matches <= {StepMatch.SAME, StepMatch.MISSING}:
            found |= {number for number in run if rows[number].match is StepMatch.MISSING}
    return found


# ------------------------------------------------------------------------------- numbers


def relative_error(value: float, reference: float) -> float | None:
    """Return |value − reference| / |reference|: 0 where both are 0, None for a 0 reference."""
    if reference == 0:
        return 0.0 if value == 0 else None
    return abs(value - reference) / abs(reference)


def _same(value: float, reference: float, measure: str) -> bool:
    apart = abs(value - reference)
    if measure == "lesion_count":
        return value == reference
    if counts_slices(measure):
        return apart <= SAME_WITHIN_SLICES
    if measure in HU_MEASURES:  # 0 HU is water, not nothing: a part of it says nothing
        return apart <= SAME_WITHIN_HU
    return apart <= SAME_WITHIN * abs(reference) or apart <= _half_digit(measure)


def _half_digit(measure: str) -> float:
    """Return half of the last digit that the measure is given with."""
    try:
        return 0.5 * 10.0 ** -measure_named(measure).decimals
    except KeyError:
        return 0.0


def _answers(
    reference: EvidenceStep | None, model: EvidenceStep | None, rows: list[AlignedStep]
) -> AlignedStep:
    """Compare the answers; one that the model's own results contradict ignores what it knew."""
    if model is None:
        return AlignedStep(reference, None, StepMatch.MISSING)
    if reference is None:
        return AlignedStep(None, model, StepMatch.UNKNOWN)
    if model.error:
        return AlignedStep(reference, model, StepMatch.MISSING, note=model.error)
    said = _own_numbers(model)
    if said != "" and model.value is not None and not _equal(model.value, said):
        match, note = _ignored(model.value, said, rows)
        error = None if _concludes_slice(rows) else _error(model, reference)
        return AlignedStep(reference, model, match, error, note)
    if reference.value is None or reference.error:
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note=reference.error)
    if model.value is None:
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note="no answer was read")
    wanted = _nearest_option(reference.value, model)
    if _concludes_slice(rows) and isinstance(model.value, float) and isinstance(wanted, float):
        same = abs(model.value - wanted) <= SAME_WITHIN_SLICES
        match = StepMatch.SAME if same else StepMatch.WRONG_VALUE
        note = _slices_off(model.value, wanted, reference.unit)
        return AlignedStep(reference, model, match, note=note)
    same = _equal(model.value, wanted)
    match = StepMatch.SAME if same else StepMatch.WRONG_VALUE
    return AlignedStep(reference, model, match, _error(model, reference))


def _own_numbers(model: EvidenceStep | None) -> float | str:
    """Return what the rule concludes from the model's own results, empty where it cannot."""
    raw = model.raw if model is not None else None
    return raw.get("numbers_say", "") if isinstance(raw, dict) else ""


def _concludes_slice(rows: list[AlignedStep]) -> bool:
    return any(row.reference and counts_slices(row.reference.measure) for row in rows)


def _ignored(
    answer: float | str, said: float | str, rows: list[AlignedStep]
) -> tuple[StepMatch, str]:
    """Return what an answer against the model's own results left out, and why that is known.

    Where the rule takes no knowledge, the results alone give the answer: it ignored them. Where it
    does, the thresholds between results and answer were not used, whether it looked them up or not.
    """
    lookups = [row for row in rows if row.reference and row.reference.kind is StepKind.LOOKUP]
    if not lookups:
        note = f"its own numbers say {said}{_unit_mistake(answer, said)}"
        return StepMatch.OUTPUT_IGNORED, note
    topic = lookups[0].reference.target if lookups[0].reference else ""
    found = any(row.match is StepMatch.SAME for row in lookups)
    how = "which it looked up" if found else "which it did not look up"
    return StepMatch.KNOWLEDGE_NOT_USED, (
        f"by the knowledge on {topic}, {how}, its own numbers say {said}"
    )


def _nearest_option(value: float | str, model: EvidenceStep) -> float | str:
    """Return the option nearest to a value where the model had to choose one, else the value."""
    options = model.raw.get("options", ()) if isinstance(model.raw, dict) else ()
    if not options or not isinstance(value, float):
        return value
    nearest: float = min(options, key=lambda option: abs(float(option) - value))
    return nearest


def _unit_mistake(answer: float | str, own: float | str) -> str:
    """Return a remark where an answer is a power of ten away from the model's own number."""
    if not (isinstance(answer, float) and isinstance(own, float)) or answer * own <= 0:
        return ""
    ratio = answer / own
    if not 0 < ratio < math.inf:
        return ""
    power = round(math.log10(ratio))
    if power == 0 or abs(answer / own / 10.0**power - 1) > SAME_WITHIN:
        return ""
    times = f"{10**power:,} times as much" if power > 0 else f"1/{10**-power:,} of it"
    return f", the answer is {times}: a mistake of unit?"


def _equal(answer: float | str, wanted: float | str) -> bool:
    if isinstance(answer, float) and isinstance(wanted, float):
        return abs(answer - wanted) <= max(SAME_WITHIN * abs(wanted), 0.05)
    return answer == wanted


def _error(model: EvidenceStep, reference: EvidenceStep) -> float | None:
    if isinstance(model.value, float) and isinstance(reference.value, float):
        return relative_error(model.value, reference.value)
    return None
