"""The rule table: how each question subtype is answered, and where the rule comes from.

The table is ``resources/rules.json``. This module reads it; ``conclusions`` draws what follows from
measured values, ``plans`` carries the steps out on a case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.records import AnswerType

BENCHMARK = "deeptumorvqa"
"""The benchmark whose rules the table holds, by the name of its file in ``benchmarks/``."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measurement type of the table: unit, rounding, formula, source, and the tool for it.

    ``is_text`` measures say a place by its name instead of a number. ``words`` is its name for
    people; ``lesion_formula`` the formula for a lesion, where it is another one.
    """

    name: str
    unit: str
    decimals: int
    formula: str
    source: str
    assumed: bool
    tool: str = "measure"
    is_text: bool = False
    words: str = ""
    lesion_formula: str = ""

    def formula_of(self, *, lesion: bool) -> str:
        """Return the formula for a lesion or for an organ."""
        return (lesion and self.lesion_formula) or self.formula


@dataclass(frozen=True, slots=True)
class StepTemplate:
    """One step of a rule, its structures still to be filled in.

    ``kind`` is ``segment``, ``measure`` or ``lookup``; ``target`` and ``other`` hold structures or
    roles (``{lesion}``). ``optional`` steps may be without a mask.
    """

    kind: str
    measure: str = ""
    target: str = ""
    other: str = ""
    optional: bool = False


Steps = tuple[StepTemplate | tuple[StepTemplate, ...], ...]
"""Steps in order; an inner tuple is taken as a whole for each structure listed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several possible rules of a subtype; ``parameters`` are its numbers.

    ``words`` is a pattern: a question that says so asks for this variant. ``steps`` are its own,
    empty where it concludes from the rule's.
    """

    name: str
    text: str
    source: str
    assumed: bool
    parameters: Mapping[str, Any]
    words: str = ""
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """How one subtype is answered.

    ``target`` says what the question is about: a structure, or ``"{organ}"``, ``"{lesion}"``,
    ``"{organs}"``, ``"{lesions}"`` where it names one or several. ``listed`` says which structures
    are gone through besides: ``"parts"`` the question names, all ``"divisions"`` of the organ, the
    ``"options"``, or fixed ones. ``variants`` holds at least the default one, which comes first.
    """

    subtype: str
    answer_type: AnswerType
    target: str
    how: str
    variants: tuple[Variant, ...]
    steps: Steps
    steps_if_largest: Steps = ()
    listed: str | tuple[str, ...] = ""
    expand: bool = False
    labels: tuple[str, ...] = ()
    labels_are_structures: bool = False
    query: str = ""
    knowledge: str = ""
    phase: str = ""
    decimals: int = 0
    unit: str = ""
    boundary: str = ""
    tolerance: Mapping[str, float] = field(default_factory=dict)

    @property
    def default(self) -> Variant:
        """Return the variant that is used unless another is asked for."""
        return self.variants[0]

    def allowed(self, stated: float, decimals: int | None = None) -> float:
        """Return how far a recomputed value may lie from a stated one and still agree with it."""
        least: float = 0.5 * 10.0 ** -(self.decimals if decimals is None else decimals)
        relative = self.tolerance.get("relative", 0.0) * abs(stated)
        return max(least, self.tolerance.get("absolute", 0.0), relative) + 1e-9

    @property
    def counts_slices(self) -> bool:
        """Return whether the answer is the number of a slice."""
        flat = [
            s for step in self.steps for s in ((step,) if isinstance(step, StepTemplate) else step)
        ]
        return self.how == "number" and bool(flat) and counts_slices(flat[-1].measure)

    @property
    def primitives(self) -> tuple[str, ...]:
        """Return what the steps do, immediate repeats merged, as the benchmark's schema lists it.

        Steps taken for each structure are counted for two.
        """
        kinds: list[str] = []
        for step in self.steps:
            group = (step,) if isinstance(step, StepTemplate) else step * 2
            for inner in group:
                if kinds[-1:] != [inner.kind]:
                    kinds.append(inner.kind)
        return tuple(kinds)

    def variant_named(self, name: str) -> Variant:
        """Return a variant by its name, the default for an empty one. Raises KeyError."""
        if not name:
            return self.default
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)


@cache
def _table() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(resource_path("rules.json").read_text(encoding="utf-8"))
    return data


def normal_subtype(name: str) -> str:
    """Return a subtype name as the table writes it, whatever its case and separators."""
    return " ".join(name.replace("_", " ").split()).casefold()


@cache
def _rules() -> Mapping[str, Rule]:
    rows = _table()["subtypes"]
    return {normal_subtype(name): _rule(name, row) for name, row in rows.items()}


def rule_for(subtype: str) -> Rule | None:
    """Return the rule of a subtype (case, ``_`` and blanks do not matter), None without one."""
    return _rules().get(normal_subtype(subtype))


def supported() -> tuple[str, ...]:
    """Return the subtypes that the table has, in its order."""
    return tuple(rule.subtype for rule in _rules().values())


@cache
def measure_named(name: str) -> Measure:
    """Return one measurement type of the table. Raises KeyError for another name."""
    row = _table()["measures"][name]
    return Measure(
        name,
        row["unit"],
        row["decimals"],
        row["formula"],
        source_text(row["source"], assumed=row["status"] != "known"),
        row["status"] != "known",
        row.get("tool", "measure"),
        row.get("text", False),
        row.get("words", ""),
        row.get("formula_lesion", ""),
    )


def is_measure(name: str) -> bool:
    """Return whether the table has a measurement type of this name."""
    return name in _table()["measures"]


def counts_slices(measure: str) -> bool:
    """Return whether a measurement is the number of a slice: a place, of which no part is taken."""
    return is_measure(measure) and measure_named(measure).tool == "largest_slice"


def slices_off(value: float, reference: float, unit: str = "") -> str:
    """Return how far two numbers of slices lie apart: ``"3 slices off"``; percentages in points."""
    apart = abs(value - reference)
    what = "percentage point" if unit == "%" else "slice"
    return f"{apart:g} {what}{'' if apart == 1 else 's'} off"


def source_text(key: str, *, assumed: bool = False) -> str:
    """Return a source's citation by its short name, or the name itself.

    Of a rule that is assumed it is said that it was only made after that source.
    """
    text: str = _table()["sources"].get(key, key)
    return as_assumed(text) if assumed and key != "ours" else text


def as_assumed(source: str) -> str:
    """Return a source as one that an assumed rule follows, not known to be the right one.

    ``"RadGPT's code, from which …"`` becomes ``"assumed, after RadGPT's code"``.
    """
    if not source or source.startswith(_ASSUMED) or source == source_text("ours"):
        return source
    return f"{_ASSUMED}{source.split(', from which ')[0]}"


_ASSUMED = "assumed, after "


def of_the_benchmark(benchmark: str) -> bool:
    """Return whether the table's rules are about questions of this benchmark; unnamed ones are."""
    return benchmark in ("", BENCHMARK)


def lesion_classes(organ: str) -> tuple[str, tuple[str, ...]]:
    """Return the structure that means any lesion of an organ, and its kinds; empty if unknown."""
    row = _table()["lesion_classes"].get(organ)
    return (row["any"], tuple(row["classes"])) if row else ("", ())


def label_words(label: str) -> tuple[str, ...]:
    """Return the words by which a text means a label."""
    return tuple(_table()["labels"].get(label, (label,)))


def phrase(label: str) -> str:
    """Return how a label of the table is written in an answer."""
    text: str = _table()["phrases"].get(label, label)
    return text


_TEXTS = {
    "exists": "yes when the mask has a voxel, no when it is present and empty",
    "number": "the measured value, rounded",
}
_YES_NO = ("exists", "above", "any_above", "outlier")


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    how = row["conclude"]
    tolerance = how.get("tolerance", {})
    listed = row.get("listed", "")
    variants = _variants(how)
    steps = _steps(row["steps"])
    labels = row.get("labels", ())
    return Rule(
        subtype=name,
        answer_type=AnswerType(row["answer_type"]),
        target=row["target"],
        how=how["how"],
        variants=variants,
        steps=steps,
        steps_if_largest=_steps(row.get("steps_if_largest", ())),
        listed=tuple(listed) if isinstance(listed, list) else listed,
        expand=row.get("expand", False),
        labels=_labels(how, labels, variants[0]),
        labels_are_structures=labels == "structures",
        query=row.get("query", ""),
        knowledge=row.get("knowledge", ""),
        phase=row.get("phase", ""),
        decimals=how.get("decimals", 0),
        unit=how.get("unit", _unit_of(steps)),
        boundary=how.get("boundary", {}).get("text", ""),
        tolerance={key: float(tolerance[key]) for key in ("relative", "absolute") if tolerance},
    )


def _labels(
    how: Mapping[str, Any], labels: str | Sequence[str], default: Variant
) -> tuple[str, ...]:
    """Return the labels that a rule can conclude, and those a reference may say besides."""
    if labels and not isinstance(labels, str):
        return (*labels, "same")
    if how["how"] in _YES_NO:
        return ("yes", "no")
    bands = default.parameters.get("bands", default.parameters.get("hu_bands", ()))
    found = [*how.get("labels", ()), *(band["label"] for band in bands)]
    return tuple(dict.fromkeys((*found, *how.get("more_labels", ()))))


def _unit_of(steps: Steps) -> str:
    """Return the unit of the last step that has one."""
    flat = [s for step in steps for s in ((step,) if isinstance(step, StepTemplate) else step)]
    units = [measure_named(step.measure).unit for step in flat if step.measure]
    return units[-1] if units else ""


def _steps(rows: Sequence[Any]) -> Steps:
    return tuple(
        tuple(_step(item) for item in row) if isinstance(row, list) else _step(row) for row in rows
    )


def _step(text: str) -> StepTemplate:
    """Read one step: ``"try measure contact_angle_deg celiac_trunk with {lesion}"``."""
    words = text.removeprefix("try ").split()
    kind, rest = words[0], words[1:]
    if kind not in ("segment", "measure", "lookup"):
        raise ValueError(f"rules.json: no kind of step {kind!r} in {text!r}")
    measure = rest.pop(0) if rest and is_measure(rest[0]) else ""
    if kind == "measure" and not measure:
        raise ValueError(f"rules.json: no known measure in {text!r}")
    target, _, other = " ".join(rest).partition(" with ")
    if kind == "segment":
        measure = measure or "voxels"
    return StepTemplate(kind, measure, target, other, text.startswith("try "))


def _variants(how: Mapping[str, Any]) -> tuple[Variant, ...]:
    listed = how.get("variants")
    if not listed:
        text = how.get("text", _TEXTS.get(how["how"], ""))
        return (Variant("default", text, how["source"], how["status"] != "known", how),)
    found = [
        Variant(
            name,
            row["text"],
            row["source"],
            row["status"] != "known",
            {**how, **row},
            row.get("words", ""),
            _steps(row.get("steps", ())),
        )
        for name, row in listed.items()
    ]
    return tuple(sorted(found, key=lambda variant: variant.name != how["default"]))
