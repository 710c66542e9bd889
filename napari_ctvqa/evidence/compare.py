"""Compare a model's chain with the reference's, step by step, and name the first difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.rules import measure_named
from napari_ctvqa.core.selections import selection

SAME_WITHIN = 0.01
"""Relative error up to which two measured values count as the same (sampling, rounding)."""


_WRONG_ANSWERS = (
    StepMatch.WRONG_VALUE,
    StepMatch.OUTPUT_IGNORED,
    StepMatch.KNOWLEDGE_NOT_USED,
)


def compare_chains(reference: EvidenceChain, model: EvidenceChain) -> ChainComparison:
    """Align two chains by kind, target and measure, in the reference's order.

    Without reference steps (a subtype without a rule) nothing is judged. A step of the same kind
    with another target is *wrong target*; what the model did besides is *extra* and stands where it
    happened; the answers come last.
    """
    if not reference.steps:
        return ChainComparison(tuple(_unchecked(step) for step in model.steps))
    work = _work(model)
    pairs = _pair(_work(reference), work)
    rows = [_compared(pair) for pair in pairs] if work else _unseen(_work(reference))
    rows.append(_answers(_last(reference), _last(model), rows))
    first = next(
        (n for n, row in enumerate(rows) if row.match not in (StepMatch.SAME, StepMatch.UNKNOWN)),
        None,
    )
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
    reference: EvidenceStep | None
    model: EvidenceStep | None
    repeated: bool = False


def _pair(reference: list[EvidenceStep], model: list[EvidenceStep]) -> list[_Pair]:
    """Pair the steps: first those with equal keys, then what is left of one kind and measure."""
    taken: dict[int, int] = {}
    for same in (_same_key, _same_work):
        for here, step in enumerate(reference):
            if here in taken:
                continue
            free = [n for n, s in enumerate(model) if n not in taken.values() and same(step, s)]
            if free:  # a call that failed and was made again counts by the one that worked
                taken[here] = next((n for n in free if not model[n].error), free[0])
    return _in_order(reference, model, taken)


def _same_key(reference: EvidenceStep, model: EvidenceStep) -> bool:
    return reference.key() == model.key()


def _same_work(reference: EvidenceStep, model: EvidenceStep) -> bool:
    return reference.kind is model.kind and reference.measure == model.measure


def _in_order(
    reference: list[EvidenceStep], model: list[EvidenceStep], taken: dict[int, int]
) -> list[_Pair]:
    """Return all pairs in the reference's order, each extra step after the one it followed."""
    rows = [
        _Pair(step, model[taken[n]] if n in taken else None) for n, step in enumerate(reference)
    ]
    row_of = {used: row for row, used in ((rows[here], used) for here, used in taken.items())}
    after: _Pair | None = None
    keys = [step.key() for step in reference]
    for number, step in enumerate(model):
        if number in row_of:
            after = row_of[number]
            continue
        extra = _Pair(None, step, repeated=step.key() in keys)
        place = 0 if after is None else next(n for n, row in enumerate(rows) if row is after) + 1
        rows.insert(place, extra)
        after = extra
    return rows


def _compared(pair: _Pair) -> AlignedStep:
    reference, model = pair.reference, pair.model
    if reference is None:
        return AlignedStep(None, model, StepMatch.EXTRA, note=_why_extra(pair))
    if model is None:
        return AlignedStep(reference, None, StepMatch.MISSING)
    if reference.target != model.target:
        wanted = selection(reference.target).label
        got = selection(model.target).label if model.target else "nothing"
        return AlignedStep(reference, model, StepMatch.WRONG_TARGET, note=f"{got} for {wanted}")
    return _values(reference, model)


def _why_extra(pair: _Pair) -> str:
    if pair.model is not None and pair.model.error:
        return f"failed: {pair.model.error}"
    return "repeated" if pair.repeated else ""


def _values(reference: EvidenceStep, model: EvidenceStep) -> AlignedStep:
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
    error = relative_error(theirs, ours)
    match = StepMatch.SAME if _same(theirs, ours, reference.measure) else StepMatch.WRONG_VALUE
    return AlignedStep(reference, model, match, error)


def relative_error(value: float, reference: float) -> float | None:
    """Return |value − reference| / |reference|: 0 where both are 0, None for a 0 reference."""
    if reference == 0:
        return 0.0 if value == 0 else None
    return abs(value - reference) / abs(reference)


def _same(value: float, reference: float, measure: str) -> bool:
    if measure == "lesion_count":
        return value == reference
    apart = abs(value - reference)
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
    said = model.raw.get("numbers_say", "") if isinstance(model.raw, dict) else ""
    if said != "" and model.value is not None and not _equal(model.value, said):
        match, note = _ignored(model.value, said, rows)
        return AlignedStep(reference, model, match, _error(model, reference), note)
    if reference.value is None or reference.error:
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note=reference.error)
    if model.value is None:
        return AlignedStep(reference, model, StepMatch.UNKNOWN, note="no answer was read")
    same = _equal(model.value, _nearest_option(reference.value, model))
    match = StepMatch.SAME if same else StepMatch.WRONG_VALUE
    return AlignedStep(reference, model, match, _error(model, reference))


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
