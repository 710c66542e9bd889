"""The rule table: how each question subtype is answered, and where the rule comes from.

The table is ``resources/rules.json``. This module reads it and draws the conclusion from measured
values; it looks at no voxel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.records import AnswerType


@dataclass(frozen=True, slots=True)
class Measure:
    """One measurement type of the table: unit, rounding, formula, source."""

    name: str
    unit: str
    decimals: int
    formula: str
    source: str
    assumed: bool


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several possible rules of a subtype; ``parameters`` are its numbers."""

    name: str
    text: str
    source: str
    assumed: bool
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one subtype is answered.

    ``target`` is a structure, or ``"{organ}"`` / ``"{lesion}"`` where the question names it.
    ``together`` says that several masks (both kidneys) are measured as one. ``variants`` holds at
    least the default one, which comes first.
    """

    subtype: str
    answer_type: AnswerType
    target: str
    primitives: tuple[str, ...]
    how: str
    variants: tuple[Variant, ...]
    measure: str = "voxels"
    measure_if_largest: str = ""
    together: bool = False
    query: str = ""
    knowledge: str = ""
    decimals: int = 0
    boundary: str = ""
    tolerance: Mapping[str, float] = field(default_factory=dict)

    @property
    def default(self) -> Variant:
        """Return the variant that is used unless another is asked for."""
        return self.variants[0]

    def allowed(self, stated: float) -> float:
        """Return how far a recomputed value may lie from a stated one and still agree with it."""
        least: float = 0.5 * 10.0**-self.decimals
        relative = self.tolerance.get("relative", 0.0) * abs(stated)
        return max(least, self.tolerance.get("absolute", 0.0), relative) + 1e-9


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What follows from measured values by one rule.

    ``label`` is ``yes``, ``no``, or a label of the table; empty for a number. ``value`` is the
    number concluded from or answered with, rounded as the rule says.
    """

    label: str
    value: float | None
    unit: str
    text: str
    source: str
    assumed: bool
    caveats: tuple[str, ...] = ()
    variant: str = ""

    @property
    def shown(self) -> float | str | None:
        """Return the label, or the number where there is none."""
        return self.label or self.value


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
        source_text(row["source"]),
        row["status"] != "known",
    )


def source_text(key: str) -> str:
    """Return a source's citation by its short name, or the name itself."""
    text: str = _table()["sources"].get(key, key)
    return text


def lesion_classes(organ: str) -> tuple[str, tuple[str, ...]]:
    """Return the structure that means any lesion of an organ, and its kinds; empty if unknown."""
    row = _table()["lesion_classes"].get(organ)
    return (row["any"], tuple(row["classes"])) if row else ("", ())


def label_words(label: str) -> tuple[str, ...]:
    """Return the words by which a text means a label."""
    return tuple(_table()["labels"].get(label, (label,)))


def phrase(label: str) -> str:
    """Return how a label is written in an answer."""
    text: str = _table()["phrases"].get(label, label)
    return text


def labels_of(rule: Rule) -> tuple[str, ...]:
    """Return the labels that a rule can conclude; none for a number."""
    return _HOW[rule.how][1](rule)


def conclude(rule: Rule, values: Sequence[float], variant: Variant | None = None) -> Conclusion:
    """Draw the rule's conclusion from the measured values, in the order of its targets.

    Raises
    ------
    ValueError
        For no value, or two where the rule takes one.
    """
    if not values:
        raise ValueError(f"{rule.subtype}: no value to conclude from")
    chosen = variant or rule.default
    drawn = _HOW[rule.how][0](rule, chosen, [float(value) for value in values])
    return replace(drawn, variant=chosen.name)


def _exists(rule: Rule, variant: Variant, values: Sequence[float]) -> Conclusion:
    found = any(value > 0 for value in values)
    return _conclusion(rule, variant, "yes" if found else "no", sum(values))


def _sum(rule: Rule, variant: Variant, values: Sequence[float]) -> Conclusion:
    return _conclusion(rule, variant, "", round(math.fsum(values), rule.decimals))


def _above(rule: Rule, variant: Variant, values: Sequence[float]) -> Conclusion:
    exact, value = _one(rule, values)
    threshold = float(variant.parameters["threshold"])
    label = "yes" if value > threshold else "no"
    return _conclusion(rule, variant, label, value, _boundary(rule, exact, value, [threshold]))


def _bands(rule: Rule, variant: Variant, values: Sequence[float]) -> Conclusion:
    exact, value = _one(rule, values)
    bands = variant.parameters["bands"]
    edges = [float(band.get("below", band.get("up_to", math.inf))) for band in bands]
    label = next(
        band["label"]
        for band in bands
        if value < band.get("below", -math.inf)
        or value <= band.get("up_to", -math.inf)
        or ("below" not in band and "up_to" not in band)
    )
    return _conclusion(rule, variant, label, value, _boundary(rule, exact, value, edges))


def _compare(rule: Rule, variant: Variant, values: Sequence[float]) -> Conclusion:
    if len(values) != 2:
        raise ValueError(f"{rule.subtype}: takes two values, got {len(values)}")
    left, right = (round(value, rule.decimals) for value in values)
    apart = abs(left - right)
    if apart <= float(variant.parameters["relative"]) * max(abs(left), abs(right)):
        return _conclusion(rule, variant, "same", None)
    return _conclusion(rule, variant, "left" if left > right else "right", None)


def _one(rule: Rule, values: Sequence[float]) -> tuple[float, float]:
    if len(values) != 1:
        raise ValueError(f"{rule.subtype}: takes one value, got {len(values)}")
    return values[0], round(values[0], rule.decimals)


def _boundary(rule: Rule, exact: float, value: float, edges: Sequence[float]) -> tuple[str, ...]:
    """Return the boundary rule as a caveat where rounding or the boundary itself decides."""
    step: float = 10.0**-rule.decimals
    near = any(abs(edge - value) < step / 2 or abs(edge - exact) < step / 2 for edge in edges)
    return (f"assumed at the boundary: {rule.boundary}",) if near and rule.boundary else ()


def _conclusion(
    rule: Rule,
    variant: Variant,
    label: str,
    value: float | None,
    caveats: tuple[str, ...] = (),
) -> Conclusion:
    return Conclusion(
        label=label,
        value=value,
        unit=measure_named(rule.measure).unit,
        text=variant.text,
        source=source_text(variant.source),
        assumed=variant.assumed or bool(caveats),
        caveats=caveats,
    )


def _yes_no(rule: Rule) -> tuple[str, ...]:
    return ("yes", "no")


def _band_labels(rule: Rule) -> tuple[str, ...]:
    return tuple(band["label"] for band in rule.default.parameters["bands"])


Draw = Callable[[Rule, Variant, Sequence[float]], Conclusion]
_HOW: Mapping[str, tuple[Draw, Callable[[Rule], tuple[str, ...]]]] = {
    "exists": (_exists, _yes_no),
    "sum": (_sum, lambda rule: ()),
    "above": (_above, _yes_no),
    "bands": (_bands, _band_labels),
    "compare": (_compare, lambda rule: ("left", "right", "same")),
}
_TEXTS = {
    "exists": "yes when the mask has a voxel, no when it is present and empty",
    "sum": "the measured value, rounded",
}


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    how = row["conclude"]
    tolerance = how.get("tolerance", {})
    return Rule(
        subtype=name,
        answer_type=AnswerType(row["answer_type"]),
        target=row["target"],
        primitives=tuple(row["primitives"]),
        how=how["how"],
        variants=_variants(how),
        measure=row.get("measure", "voxels"),
        measure_if_largest=row.get("measure_if_largest", ""),
        together=row.get("together", False),
        query=row.get("query", ""),
        knowledge=row.get("knowledge", ""),
        decimals=how.get("decimals", 0),
        boundary=how.get("boundary", {}).get("text", ""),
        tolerance={key: float(tolerance[key]) for key in ("relative", "absolute") if tolerance},
    )


def _variants(how: Mapping[str, Any]) -> tuple[Variant, ...]:
    listed = how.get("variants")
    if not listed:
        text = how.get("text", _TEXTS.get(how["how"], ""))
        return (Variant("default", text, how["source"], how["status"] != "known", how),)
    found = [
        Variant(name, row["text"], row["source"], row["status"] != "known", {**how, **row})
        for name, row in listed.items()
    ]
    return tuple(sorted(found, key=lambda variant: variant.name != how["default"]))
