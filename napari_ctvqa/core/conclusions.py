"""What follows from measured values by a rule of the table; looks at no voxel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from napari_ctvqa.core.rules import Rule, Variant, source_text

Value = float | str | None
"""A number, a name, or None for a step that may be without a mask and is."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What follows from measured values by one rule.

    ``label`` is ``yes``, ``no``, a label of the table, or structures joined by ``+``; empty for a
    number. ``value`` is the number concluded from or answered with, rounded to ``decimals``.
    ``problem`` says why nothing follows, empty where something does.
    """

    label: str
    value: float | None
    unit: str
    text: str
    source: str
    assumed: bool
    caveats: tuple[str, ...] = ()
    variant: str = ""
    decimals: int = 0
    problem: str = ""

    @property
    def shown(self) -> float | str | None:
        """Return the label, or the number where there is none."""
        return self.label or self.value


class Unknown(ValueError):
    """Nothing follows from these values; says why."""


def conclude(
    rule: Rule,
    values: Sequence[Value],
    variant: Variant | None = None,
    listed: Sequence[str] = (),
) -> Conclusion:
    """Draw the rule's conclusion from the values of its steps, in their order.

    ``listed`` are the structures that are compared, where the answer is one of them.

    Raises
    ------
    ValueError
        For no value, or a number of values that the rule does not take.
    """
    if not values:
        raise ValueError(f"{rule.subtype}: no value to conclude from")
    chosen = variant or rule.default
    work = _Work(rule, chosen, values, tuple(listed))
    try:
        drawn = _HOW[work.parameters["how"]](work)
    except Unknown as reason:
        drawn = replace(work.conclusion("", None), problem=str(reason))
    relabelled = work.parameters.get("relabel", {}).get(drawn.label, drawn.label)
    return replace(drawn, label=relabelled, variant=chosen.name)


def labels_of(rule: Rule) -> tuple[str, ...]:
    """Return the labels that a rule can conclude; none for a number or a structure."""
    return rule.labels


@dataclass(frozen=True)
class _Work:
    """One conclusion to draw."""

    rule: Rule
    variant: Variant
    values: Sequence[Value]
    listed: tuple[str, ...]

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.variant.parameters

    @property
    def decimals(self) -> int:
        decimals: int = self.parameters.get("decimals", 0)
        return decimals

    def numbers(self, count: int | None = None) -> list[float]:
        """Return all values, which must be numbers, and ``count`` of them."""
        found = [float(value) for value in self.values if isinstance(value, int | float)]
        wanted = len(self.values) if count is None else count
        if len(found) != len(self.values) or len(found) != wanted:
            words = {1: "one value", 2: "two values", 3: "three values", 4: "four values"}
            raise ValueError(
                f"{self.rule.subtype}: takes {words.get(wanted, f'{wanted} values')}, "
                f"got {len(self.values)}"
            )
        return found

    def first_numbers(self, count: int) -> list[float]:
        """Return the first values, which must be numbers."""
        found = [float(v) for v in self.values[:count] if isinstance(v, int | float)]
        if len(found) != count:
            raise Unknown("a value that this rule needs could not be measured")
        return found

    def combined(self) -> float:
        """Return the one number that the values make."""
        how = self.parameters.get("combine", "one")
        return _COMBINE[how](self)

    def boundary(self, exact: float, value: float, edges: Sequence[float]) -> tuple[str, ...]:
        """Return the boundary rule as a caveat where rounding or the boundary itself decides."""
        step: float = 10.0**-self.decimals
        near = any(abs(edge - value) < step / 2 or abs(edge - exact) < step / 2 for edge in edges)
        text = self.rule.boundary
        known = self.parameters.get("boundary", {}).get("status") == "known"
        if not near or not text:
            return ()
        return (f"{'at' if known else 'assumed at'} the boundary: {text}",)

    def conclusion(
        self, label: str, value: float | None, caveats: tuple[str, ...] = (), unit: str = ""
    ) -> Conclusion:
        assumed = any(caveat.startswith("assumed") for caveat in caveats)
        return Conclusion(
            label=label,
            value=value,
            unit=unit or self.parameters.get("unit", self.rule.unit),
            text=self.variant.text,
            source=source_text(self.variant.source, assumed=self.variant.assumed or assumed),
            assumed=self.variant.assumed or assumed,
            caveats=caveats,
            decimals=self.decimals,
        )


def _sum(work: _Work) -> float:
    return math.fsum(work.numbers())


def _one(work: _Work) -> float:
    return work.numbers(1)[0]


def _first(work: _Work) -> float:
    return work.numbers(2)[0]


def _ratio(work: _Work) -> float:
    above, below = work.numbers(2)
    if below == 0 or (above < 0) != (below < 0):
        raise Unknown(f"a ratio of {above:.1f} to {below:.1f} means nothing")
    return above / below


def _percent(work: _Work) -> float:
    part, whole = work.numbers(2)
    if whole <= 0:
        raise Unknown("the organ has no volume")
    return 100.0 * part / whole


def _percent_of_rest(work: _Work) -> float:
    part, whole = work.numbers(2)
    if whole <= part:
        raise Unknown("nothing of the organ is left beside its lesions")
    return 100.0 * part / (whole - part)


def _difference(work: _Work) -> float:
    first, second = work.numbers(2)
    return first - second


def _mean(work: _Work) -> float:
    return math.fsum(work.numbers()) / len(work.values)


_COMBINE: Mapping[str, Callable[[_Work], float]] = {
    "one": _one,
    "first": _first,
    "sum": _sum,
    "ratio": _ratio,
    "percent": _percent,
    "percent_of_rest": _percent_of_rest,
    "difference": _difference,
    "negative_difference": lambda work: -_difference(work),
    "absolute_difference": lambda work: abs(_difference(work)),
    "mean": _mean,
}


def _exists(work: _Work) -> Conclusion:
    found = work.numbers()
    return work.conclusion("yes" if any(value > 0 for value in found) else "no", sum(found))


def _number(work: _Work) -> Conclusion:
    return work.conclusion("", round(work.combined(), work.decimals) + 0.0)


def _above(work: _Work) -> Conclusion:
    (exact,) = work.numbers(1)
    value = round(exact, work.decimals)
    threshold = _threshold(work)
    label = "yes" if value > threshold else "no"
    return work.conclusion(label, value, work.boundary(exact, value, [threshold]))


def _threshold(work: _Work) -> float:
    limits = work.parameters.get("thresholds")
    if limits is None:
        return float(work.parameters["threshold"])
    organ = work.listed[0] if work.listed else ""
    if organ not in limits:
        raise Unknown(f"no limit is known for {organ or 'this organ'}: {', '.join(limits)}")
    return float(limits[organ])


def _bands(work: _Work) -> Conclusion:
    exact = work.combined()
    rounded = round(exact, work.decimals)
    value = exact if work.parameters.get("exact") else rounded
    bands = work.parameters["bands"]
    return work.conclusion(_band(bands, value), rounded, _band_caveats(work, exact, rounded, bands))


def _band(bands: Sequence[Mapping[str, Any]], value: float) -> str:
    """Return the label of the first band that a value is below, or at most, the edge of."""
    label: str = next(
        band["label"]
        for band in bands
        if value < band.get("below", -math.inf)
        or value <= band.get("up_to", -math.inf)
        or ("below" not in band and "up_to" not in band)
    )
    return label


def _band_caveats(
    work: _Work, exact: float, value: float, bands: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    edges = [float(band.get("below", band.get("up_to", math.inf))) for band in bands]
    return work.boundary(exact, value, edges)


def _compare(work: _Work) -> Conclusion:
    numbers = work.numbers()
    if work.parameters.get("combine") == "shares":
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        numbers = [100.0 * part / whole if whole > 0 else math.nan for part, whole in pairs]
    labels = work.rule.labels[:-1] or work.listed
    if len(numbers) < 2 or len(labels) not in (0, len(numbers)):
        raise ValueError(
            f"{work.rule.subtype}: takes {_two(len(labels))} values, got {len(numbers)}"
        )
    rounded = [round(number, work.decimals) for number in numbers]
    first, second = sorted(rounded, reverse=True)[:2]
    if first - second <= float(work.parameters["relative"]) * max(abs(first), abs(second)):
        return work.conclusion("same", None)
    return work.conclusion(labels[rounded.index(first)] if labels else "", None)


def _two(count: int) -> str:
    return {0: "two", 2: "two", 3: "three"}.get(count, str(count))


def _attenuation(work: _Work) -> Conclusion:
    lesion, organ, sd = work.numbers(3)
    apart = round(lesion - organ, work.decimals)
    share = float(work.parameters["sd_share"])
    if abs(lesion - organ) < share * sd or apart == 0:
        return work.conclusion("iso", apart)
    return work.conclusion("hypo" if apart < 0 else "hyper", apart)


def _names(work: _Work) -> Conclusion:
    last = work.values[-1]
    if not isinstance(last, str) or not last:
        raise Unknown("none of the structures fits")
    return work.conclusion(last, None)


def _outlier(work: _Work) -> Conclusion:
    count, largest, second = work.numbers(3)
    times = largest / second if second > 0 else math.inf
    enough = count >= work.parameters["min_count"]
    label = "yes" if enough and times >= float(work.parameters["times"]) else "no"
    value = round(times, work.decimals) if math.isfinite(times) else None
    return work.conclusion(label, value)


def _clustering(work: _Work) -> Conclusion:
    numbers = work.numbers()
    whole = work.parameters.get("whole")
    total, first, both = (float(whole), *numbers) if whole else numbers
    if not total:
        raise Unknown("there is no lesion")
    if first > work.parameters["over"] * total:
        return work.conclusion("highly_clustered", first)
    somewhat = both >= work.parameters["at_least"] * total
    return work.conclusion("somewhat_clustered" if somewhat else "widely_distributed", first)


def _larger(work: _Work) -> Conclusion:
    """Return the label of the larger of two volumes, of which one may be unknown."""
    numbers = [value if isinstance(value, int | float) else None for value in work.values[-2:]]
    known = [number for number in numbers if number is not None]
    if not any(known):
        empty = len(known) == 2
        raise Unknown("both masks are empty" if empty else "no mask tells the kinds apart")
    caveat = "assumed: only one of the two kinds has a mask"
    best = max(known)
    if numbers[0] == numbers[1]:
        raise Unknown("both kinds are equally large")
    label = work.parameters["labels"][numbers.index(best)]
    return work.conclusion(label, round(best, work.decimals), () if len(known) == 2 else (caveat,))


def _any_above(work: _Work) -> Conclusion:
    """Return whether any (or all) of the values that count are above their limits."""
    limits = work.parameters["thresholds"]
    over: list[bool] = []
    caveats: list[str] = []
    for number in work.parameters["of"]:
        value = work.values[number]
        if not isinstance(value, int | float):
            raise Unknown("a value that this rule needs could not be measured")
        rounded = round(value, work.decimals)
        over.append(rounded > limits[number])
        caveats += work.boundary(value, rounded, [limits[number]])
    yes = all(over) if work.parameters.get("all") else any(over)
    first = work.values[work.parameters["of"][0]]
    value = round(float(first), work.decimals) if isinstance(first, int | float) else None
    return work.conclusion("yes" if yes else "no", value, tuple(dict.fromkeys(caveats)))


def _worse_band(work: _Work) -> Conclusion:
    """Return the grade by HU, by ratio, or the worse of the two (bands run from worst to best)."""
    hu = work.numbers(2)[0]
    ratio = _ratio(work)
    bands, ratio_bands = work.parameters["hu_bands"], work.parameters["ratio_bands"]
    take = work.parameters["take"]
    grades = [band["label"] for band in bands]
    by_hu, by_ratio = _band(bands, round(hu, work.decimals)), _band(ratio_bands, ratio)
    both = {"hu": [by_hu], "ratio": [by_ratio], "worse": [by_hu, by_ratio]}[take]
    unlike = f"assumed: {by_hu.upper()} by HU, {by_ratio.upper()} by ratio"
    caveats = (unlike,) if by_hu != by_ratio else ()
    return work.conclusion(min(both, key=grades.index), round(hu, work.decimals), caveats)


def _stage(work: _Work) -> Conclusion:
    """Return the T stage: T4 by contact with an artery, else by diameter."""
    diameter = work.values[0]
    if not isinstance(diameter, int | float):
        raise Unknown("the tumour has no diameter")
    angles = [value for value in work.values[1:] if isinstance(value, int | float)]
    limit = float(work.parameters["t4_from_deg"])
    caveats = [] if len(angles) == len(work.values) - 1 else [_NO_ARTERY]
    rounded = round(float(diameter), work.decimals)
    if any(round(angle) >= limit for angle in angles):
        return work.conclusion("t4", rounded)
    bands = work.parameters["bands"]
    caveats += _band_caveats(work, float(diameter), rounded, bands)
    return work.conclusion(_band(bands, rounded), rounded, tuple(caveats))


_NO_ARTERY = "assumed: an artery has no mask, so that contact with it (T4) cannot be told"


def _resectable(work: _Work) -> Conclusion:
    """Return resectability from contact angles: mesenteric artery, coeliac trunk, portal vein."""
    sma, celiac, portal = work.first_numbers(3)
    largest = max(sma, celiac, portal)
    if not largest:
        return work.conclusion("resectable", 0.0)
    above = float(work.parameters["above"])
    if max(round(sma), round(celiac)) > above:
        return work.conclusion("unresectable", max(sma, celiac))
    if work.parameters["as_radgpt"]:
        return _resectable_as_radgpt(work, sma, celiac, portal)
    at_limit = above in (round(sma), round(celiac))
    caveats = (f"assumed at the boundary: {work.rule.boundary}",) if at_limit else ()
    return work.conclusion("borderline", largest, caveats)


def _resectable_as_radgpt(work: _Work, sma: float, celiac: float, portal: float) -> Conclusion:
    """Return what RadGPT says of a tumour with some contact, none above 180 degrees."""
    cava = work.values[3]
    if _in_head(work) and (celiac > 0 or (isinstance(cava, int | float) and cava > 0)):
        return work.conclusion("unresectable", celiac)
    if portal == 0 and celiac == 0 and sma < float(work.parameters["above"]):
        return work.conclusion("borderline", sma)
    raise Unknown("RadGPT makes no statement for this contact")


def _in_head(work: _Work) -> bool:
    place = work.values[4] if len(work.values) > 4 else None
    return isinstance(place, str) and "pancreas_head" in place.split("+")


_HOW: Mapping[str, Callable[[_Work], Conclusion]] = {
    "exists": _exists,
    "number": _number,
    "above": _above,
    "bands": _bands,
    "compare": _compare,
    "attenuation": _attenuation,
    "names": _names,
    "outlier": _outlier,
    "clustering": _clustering,
    "larger": _larger,
    "any_above": _any_above,
    "worse_band": _worse_band,
    "stage": _stage,
    "resectable": _resectable,
}
