"""A model's Trace as an EvidenceChain: its tool calls as steps, whatever keys the tools used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core import names
from napari_ctvqa.core.answers import answer_phrase, concluded, label_in, with_unit
from napari_ctvqa.core.chains import ChainStatus, EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.knowledge import near
from napari_ctvqa.core.meanings import spoken_label
from napari_ctvqa.core.measure import UNITS
from napari_ctvqa.core.numbers import UNITS_BY_NAME
from napari_ctvqa.core.plans import ADDED_UP, PlanStep, chosen_variant, counts_for, plan
from napari_ctvqa.core.quantities import value_in
from napari_ctvqa.core.reading import read_letter, read_number, strip_think
from napari_ctvqa.core.records import AnswerType
from napari_ctvqa.core.rules import Rule, is_measure, measure_named, rule_for
from napari_ctvqa.core.selections import Selection, selection
from napari_ctvqa.core.targets import resolve, structures_for
from napari_ctvqa.core.understanding import Understood, understand

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Prediction, Question, Turn

_KINDS = {
    "segment_organ": StepKind.SEGMENT,
    "measure": StepKind.MEASURE,
    "lookup_medical_knowledge": StepKind.LOOKUP,
}
_TARGET_KEYS = ("target", "organ", "structure", "region", "name")
_MEASURE_KEYS = ("measurement_type", "measurement")
_VOXEL_KEYS = ("voxel_count", "voxels", "num_voxels", "n_voxels", "voxel_number")
_SPELLINGS = {
    "cm3": "cm³", "cm^3": "cm³", "cc": "cm³", "ml": "cm³", "cubic centimeters": "cm³",
    "hu": "HU", "mm": "mm", "cm": "cm", "mm3": "mm³", "mm^3": "mm³",
}  # fmt: skip
_TEXT_LIMIT = 100_000
_QUERY_LIMIT = 10_000
_SHORT_WORDS = 6


def prediction_chain(
    question: Question, prediction: Prediction, case: Case | None = None
) -> EvidenceChain:
    """Return what a model did as a chain of steps, its answer last.

    Tool results may have any keys: a number and its unit are taken where they can be told, and
    ``raw`` holds the result as it is. With a case, targets are mapped to the masks that it has.
    """
    rule = rule_for(question.subtype)
    steps = tuple(
        _step(turn, case, rule.knowledge if rule else "")
        for turn in prediction.trace.turns
        if turn.call is not None
    ) + tuple(
        EvidenceStep(StepKind.CONCLUDE, "", error=turn.error)
        for turn in prediction.trace.turns
        if turn.error and turn.call is None
    )
    last = _conclusion(question, prediction, steps, case)
    return EvidenceChain(
        question.id,
        prediction.model,
        (*steps, last),
        str(last.raw["read"]) or prediction.raw_text.strip(),
        ChainStatus.CANNOT_CHECK,
        last.error,
    )


def _step(turn: Turn, case: Case | None, topic: str) -> EvidenceStep:
    assert turn.call is not None
    arguments = turn.call.arguments
    kind = _KINDS.get(turn.call.name, _kind_of(turn.call.name))
    content = _content(turn.result.content if turn.result else None)
    error = (turn.result.error if turn.result else "") or _error_in(content)
    if turn.result is None and not error:
        error = turn.error or "the call has no result"
    if kind is StepKind.LOOKUP:
        return _looked_up(turn.call.name, arguments, content, error, topic)
    target = _first_text(arguments, _TARGET_KEYS)
    structure, mask = _structure(target, case)
    measure = _first_text(arguments, _MEASURE_KEYS) or _measure_of(turn.call.name, content, kind)
    value, unit = _value(content, kind, measure)
    return EvidenceStep(
        kind,
        structure,
        measure,
        None if error else value,
        unit if value is not None else "",
        source=f"tool {turn.call.name}",
        mask=_mask_of(mask, case),
        caveats=_caveats(content),
        error=error,
        raw=content,
        other=_first_text(arguments, ("other",)),
    )


def _measure_of(tool: str, content: Any, kind: StepKind) -> str:
    """Return what a call without a measurement type measured: what its result says it did."""
    said = content.get("measurement_type") if isinstance(content, Mapping) else None
    if isinstance(said, str) and said:
        return said
    return "voxels" if kind is StepKind.SEGMENT and tool == "segment_organ" else ""


def _value(content: Any, kind: StepKind, measure: str) -> tuple[float | str | None, str]:
    """Return what a tool found: a place by its name, or a number with its unit."""
    said = content.get("value") if isinstance(content, Mapping) else None
    if isinstance(said, str) and is_measure(measure) and measure_named(measure).is_text:
        return said[:_QUERY_LIMIT], ""
    return _number(content, kind, measure)


def _kind_of(tool: str) -> StepKind:
    """Return the kind of a tool by its declared primitive; pictures and the rest are look-ups."""
    from napari_ctvqa.extensions import tools

    declared = getattr(tools().get(tool), "primitive", "")
    return StepKind(declared) if declared in set(StepKind) else StepKind.LOOKUP


def _content(content: Any) -> Any:
    """Return a tool's result as JSON data; a text that is JSON is parsed."""
    if isinstance(content, str) and len(content) <= _TEXT_LIMIT:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):  # no JSON, or nested too deep to be a result
            return content
    return content


def _error_in(content: Any) -> str:
    if not isinstance(content, Mapping):
        return ""
    if content.get("error"):
        return _text(content["error"])[:500]
    empty = any(_is_number(content.get(key)) for key in _VOXEL_KEYS)
    return "no mask found" if content.get("mask_found") is False and not empty else ""


def _caveats(content: Any) -> tuple[str, ...]:
    listed = content.get("caveats") if isinstance(content, Mapping) else None
    return tuple(_text(item) for item in listed) if isinstance(listed, list) else ()


def _text(value: Any) -> str:
    """Return JSON data as text; a number too long, or data nested too deep, is not shown."""
    try:
        return str(value)
    except (ValueError, RecursionError):
        return "(too long or too deep to be shown)"


def _first_text(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((arguments[k] for k in keys if isinstance(arguments.get(k), str)), "")


def _structure(target: str, case: Case | None) -> tuple[str, str]:
    """Return a target by its canonical name, and the structure whose mask shows it."""
    if not target:
        return "", ""
    if case is not None:
        found = resolve(case, target)
        if found.structure:
            return found.name, found.structure
    wanted = selection(target)
    return wanted.text, wanted.structure


def _mask_of(structure: str, case: Case | None) -> str:
    return structure if case is None or structure in case.masks else ""


def _number(content: Any, kind: StepKind, measure: str) -> tuple[float | None, str]:
    """Return the number of a result and its unit; (None, "") where it cannot be told."""
    unit = _unit_of(measure)
    if _is_number(content):
        return float(content), unit
    if not isinstance(content, Mapping):
        return None, ""
    masks = kind is StepKind.SEGMENT and measure in ("", "voxels")
    keys = _VOXEL_KEYS if masks else ("value", measure, "result", "measurement")
    value = next((content[key] for key in keys if _is_number(content.get(key))), None)
    if value is None and kind is StepKind.MEASURE:
        numbers = [item for item in content.values() if _is_number(item)]
        value = numbers[0] if len(numbers) == 1 else None
    if value is None:
        return None, ""
    said = content.get("unit", content.get("units"))
    if kind is StepKind.MEASURE and isinstance(said, str) and said.strip():
        unit = _SPELLINGS.get(said.strip().casefold(), said.strip())
    return float(value), unit


def _unit_of(measure: str) -> str:
    """Return the unit that the rule table gives a measure; empty for one it lacks."""
    return measure_named(measure).unit if is_measure(measure) else UNITS.get(measure, "")


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond what a float holds
        return False


def _looked_up(
    tool: str, arguments: Mapping[str, Any], content: Any, error: str, wanted: str
) -> EvidenceStep:
    """Return a look-up; its target is the topic that was wanted where the query comes near it."""
    query = _first_text(arguments, ("query", "question", *_TARGET_KEYS))
    known = tool == "lookup_medical_knowledge"
    topics = [entry.topic for entry in near(query[:_QUERY_LIMIT])] if known else []
    topic = wanted if wanted in topics else (topics[0] if topics else query)
    text, source = _first_result(content)
    return EvidenceStep(
        StepKind.LOOKUP,
        topic,
        "" if known else tool,
        text or None,
        source=source or f"tool {tool}",
        error=error,
        raw=content,
    )


def _first_result(content: Any) -> tuple[str, str]:
    results = content.get("results") if isinstance(content, Mapping) else None
    if isinstance(results, list) and results and isinstance(results[0], Mapping):
        return _text(results[0].get("text", ""))[:2000], _text(results[0].get("source", ""))
    return (content[:2000], "") if isinstance(content, str) else ("", "")


def _conclusion(
    question: Question,
    prediction: Prediction,
    steps: tuple[EvidenceStep, ...],
    case: Case | None,
) -> EvidenceStep:
    """Return the model's answer as a step: what was read, and what its own numbers would say."""
    rule = rule_for(question.subtype)
    raw: dict[str, Any] = {"answer": prediction.raw_text, "read": "", "numbers_say": ""}
    note = prediction.record.get("note")
    caveats = (note,) if isinstance(note, str) and note else ()
    if prediction.failed:
        said = [t.error for t in prediction.trace.turns if t.error and t.call is None]
        error = said[-1] if said else prediction.raw_text.removeprefix("[ERROR]").strip()
        return EvidenceStep(StepKind.CONCLUDE, "", error=error, raw=raw, caveats=caveats)
    understood = understand(question, rule) if rule else Understood()
    value, unit, read = _read(question, prediction.raw_text, rule, understood)
    raw["read"] = read
    raw["options"] = options = _bound_to(question, value, unit)
    if rule is not None:
        raw["numbers_say"] = _numbers_say(rule, understood, steps, options, case)
    target = understood.structure
    return EvidenceStep(
        StepKind.CONCLUDE,
        target,
        value=value,
        unit=unit,
        source="the model's answer",
        caveats=caveats,
        raw=raw,
    )


def _read(
    question: Question, text: str, rule: Rule | None, understood: Understood
) -> tuple[float | str | None, str, str]:
    """Return (value, unit, text for people) of an answer; value in the reference's terms."""
    said = strip_think(text)
    if question.options:
        letter = read_letter(said, question.options, question.text).value
        option = next((o for o in question.options if o.letter == letter), None)
        if option is not None:
            value, unit, _ = _value_of(option.text, rule, understood)
            return value, unit, f"{option.letter}: {option.text}"
    spoken = _value_of(said, rule, understood)
    if rule is None or spoken[0] is not None:
        return spoken
    label = spoken_label(said, rule, question.text) if rule.labels else ""
    if not label or (understood.by_name and rule.answer_type is AnswerType.BINARY):
        return spoken
    return label, "", answer_phrase(label, rule)


def _value_of(
    text: str, rule: Rule | None, understood: Understood
) -> tuple[float | str | None, str, str]:
    if rule is None:
        return text or None, "", text
    label = label_in(text, rule, understood)
    if label:
        return label, "", answer_phrase(label, rule)
    variant = chosen_variant(rule, understood)
    unit = str(variant.parameters.get("unit", rule.unit))
    counting = unit == "lesions" and len(text.split()) <= _SHORT_WORDS
    number = read_number(text, unit, counting=counting).value
    if number and rule.how == "number":
        return float(number), unit, with_unit(number, unit)
    return None, "", text


def _numbers_say(
    rule: Rule,
    understood: Understood,
    steps: tuple[EvidenceStep, ...],
    options: list[float],
    case: Case | None,
) -> str | float:
    """Return what the rule concludes from the model's own tool results; empty where it cannot."""
    if understood.problem:
        return ""
    values: list[float | str | None] = []
    for item in plan(rule, understood):
        if not counts_for(item, rule):
            continue
        value = _value_for(item, steps, case)
        if value is None and not item.optional:
            return ""
        values.append(value)
    if not any(value is not None for value in values):
        return ""
    conclusion = concluded(rule, chosen_variant(rule, understood), values, understood)
    shown = None if conclusion.problem else conclusion.shown
    if isinstance(shown, float) and options:
        return min(options, key=lambda option: abs(option - float(shown)))
    return "" if shown is None else shown


def _bound_to(question: Question, value: float | str | None, unit: str) -> list[float]:
    """Return the options' numbers where the answer is one of them; free answers are not bound."""
    found = [value_in(option.text, unit) for option in question.options]
    numbers = [number for number in found if number is not None]
    return numbers if len(numbers) == len(found) and value in numbers else []


def _value_for(
    item: PlanStep, steps: tuple[EvidenceStep, ...], case: Case | None
) -> float | str | None:
    """Return the last value that a model got for a step of the plan.

    With a case, the largest of one lesion is the lesion. A whole may be measured by its parts.
    """
    value = _last_value(item, steps, case)
    parts = names.parts_of(selection(item.target).structure)
    if value is not None or not parts or item.measure not in ADDED_UP:
        return value
    each = [_last_value(replace(item, target=part), steps, case) for part in parts]
    numbers = [number for number in each if isinstance(number, float)]
    return math.fsum(numbers) if len(numbers) == len(parts) else None


def _last_value(
    item: PlanStep, steps: tuple[EvidenceStep, ...], case: Case | None
) -> float | str | None:
    wanted = selection(item.target)
    if case is not None:
        chosen = resolve(case, item.target).chosen
        wanted = chosen or Selection(wanted.structure)
    parts = names.parts_of(wanted.structure)
    able = tuple(name for name in structures_for(wanted.structure) if name not in parts)
    found = [
        _in_own_unit(step)
        for step in steps
        if step.kind is item.kind
        and step.measure == item.measure
        and _same_selection(step.target, wanted, able)
        and (not item.other or step.other == item.other)
    ]
    values = [value for value in found if isinstance(value, float | str)]
    return values[-1] if values else None


def _in_own_unit(step: EvidenceStep) -> float | str | None:
    """Return a step's value in the unit of its measure, exactly converted; None where it cannot be.

    What a rule concludes holds for that unit only.
    """
    wanted = _unit_of(step.measure)
    if not isinstance(step.value, float) or step.unit == wanted or not step.unit:
        return step.value
    here = UNITS_BY_NAME.get(step.unit.casefold())
    there = UNITS_BY_NAME.get(wanted.casefold())
    if here is None or there is None or here[0] != there[0]:
        return None
    return float(f"{step.value * here[1] / there[1]:.12g}")


def _same_selection(target: str, wanted: Selection, able: tuple[str, ...]) -> bool:
    """Return whether a model's target is the wanted one, or a structure that may stand for it."""
    said = selection(target)
    return said.structure in able and (said.rank, said.within) == (wanted.rank, wanted.within)
