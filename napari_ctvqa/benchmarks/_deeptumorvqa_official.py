"""DeepTumorVQA's official scorer (v2), by its published behaviour, oddities included.

Reads what the scorer reads, not what a person would: ``Answer: C`` is A there. Where the behaviour
is not known (marked "assumed" below) the plainest reading of the rule was taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.reading import normalise, strip_think
from napari_ctvqa.core.records import AnswerType, Outcome
from napari_ctvqa.core.scoring import close_enough

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TOLERANCES = (0.05, 0.10, 0.20, 0.50)

_LETTERS = "ABCD"
_STANDALONE = re.compile(r"\b([A-D])\b")
_NUMBER = re.compile(r"-?\d+\.?\d*")


def letter(text: str) -> str:
    """Return the letter as scored: the first character if A-D, else the first stand-alone A-D."""
    upper = strip_think(text).upper()
    if upper[:1] and upper[0] in _LETTERS:
        return upper[0]
    found = _STANDALONE.search(upper)
    return found[1] if found else ""


def number(text: str) -> float | None:
    """Return the first number as scored: no thousands separator, no leading point, no exponent."""
    found = _NUMBER.search(strip_think(text))
    return float(found[0]) if found else None


def yes_no(text: str) -> str:
    """Return ``yes``, ``no`` or empty as scored: exact, then prefix, then a word anywhere.

    The prefix rule reads ``Normal``, ``None`` and ``Not …`` as no. That *yes* is searched before
    *no* in the last step is assumed.
    """
    flat = strip_think(text).lower()
    for word in ("yes", "no"):
        if flat.startswith(word):
            return word
    for word in ("yes", "no"):
        if re.search(rf"\b{word}\b", flat):
            return word
    return ""


def phrase(text: str) -> str:
    """Return text as categorical answers are compared."""
    return normalise(strip_think(text))


def mra(value: float, reference: float) -> float:
    """Return ``max(0, 1 - |p - g| / |g|)``; for g = 0: 1 if p = 0 else 0."""
    if reference == 0:
        return 1.0 if value == 0 else 0.0
    return max(0.0, 1.0 - abs(value - reference) / abs(reference))


def _within(value: float, reference: float, tolerance: float) -> bool:
    if reference == 0:
        return value == 0
    return abs(value - reference) / abs(reference) <= tolerance


@dataclass(frozen=True, slots=True)
class Judged:
    """One row as scored. ``credit`` is 0 to 1; None when the row is left out of the mean."""

    outcome: Outcome
    read: str
    credit: float | None


def judge_mc(text: str, correct_option: str) -> Judged:
    """Score a multiple-choice answer; an empty letter equals an empty correct option."""
    read = letter(text)
    right = read == correct_option
    if not correct_option:
        outcome = Outcome.UNSCORED
    elif not read:
        outcome = Outcome.UNREAD
    else:
        outcome = Outcome.RIGHT if right else Outcome.WRONG
    return Judged(outcome, read, 1.0 if right else 0.0)


def judge_freeform(text: str, answer: str, kind: AnswerType, *, counting: bool = False) -> Judged:
    """Score a free-form answer by its answer type.

    A numeric answer has partial credit only; its outcome is right within 10 % (a count: equal).
    """
    if kind is AnswerType.NUMERIC:
        return _judge_number(text, answer, counting)
    if kind is AnswerType.BINARY:
        read, wanted = yes_no(text), yes_no(answer)
    else:
        read, wanted = phrase(text), phrase(answer)
    right = read == wanted and (bool(read) or kind is not AnswerType.BINARY)
    outcome = Outcome.RIGHT if right else Outcome.WRONG if read else Outcome.UNREAD
    return Judged(outcome, read, 1.0 if right else 0.0)


def _judge_number(text: str, answer: str, counting: bool) -> Judged:
    value, reference = number(text), number(answer)
    read = "" if value is None else f"{value:.10g}"
    if reference is None:
        return Judged(Outcome.UNSCORED, read, None)
    if value is None:
        return Judged(Outcome.UNREAD, read, 0.0)
    right = close_enough(value, reference, exact=counting)
    return Judged(Outcome.RIGHT if right else Outcome.WRONG, read, mra(value, reference))


@dataclass
class _Subtype:
    """The rows of one subtype: (text, reference) pairs."""

    stage: str
    kind: AnswerType
    rows: list[tuple[str, str]] = field(default_factory=list)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return round(sum(values) / len(values), 4) if values else 0.0


def _mc_result(rows: list[tuple[str, str]]) -> tuple[float, dict[str, Any]]:
    read = [letter(text) for text, _ in rows]
    accuracy = _mean(float(r == wanted) for r, (_, wanted) in zip(read, rows, strict=True))
    return accuracy, {
        "accuracy": accuracy,
        "n_total": len(rows),
        "n_parsed": sum(1 for r in read if r),
    }


def _numeric_result(rows: list[tuple[str, str]]) -> tuple[float, dict[str, Any]]:
    pairs = [(number(text), number(answer)) for text, answer in rows]
    scored = [(p, g) for p, g in pairs if g is not None]
    mean = _mean(0.0 if p is None else mra(p, g) for p, g in scored)
    result: dict[str, Any] = {"mean_mra": mean, "n_total": len(rows), "n_scored": len(scored)}
    result["n_parsed"] = sum(1 for p, _ in pairs if p is not None)
    for tolerance in TOLERANCES:
        hits = (float(p is not None and _within(p, g, tolerance)) for p, g in scored)
        result[f"accuracy_within_{round(tolerance * 100)}pct"] = _mean(hits)
    return mean, result


def _binary_result(rows: list[tuple[str, str]]) -> tuple[float, dict[str, Any]]:
    pairs = [(yes_no(text), yes_no(answer)) for text, answer in rows]
    accuracy = _mean(float(bool(p) and p == g) for p, g in pairs)
    return accuracy, {
        "accuracy": accuracy,
        "sensitivity": _mean(float(p == "yes") for p, g in pairs if g == "yes"),
        # An unread answer to a question whose answer is no is no false positive here.
        "specificity": _mean(float(p != "yes") for p, g in pairs if g == "no"),
        "n_total": len(rows),
        "n_parsed": sum(1 for p, _ in pairs if p),
    }


def _categorical_result(rows: list[tuple[str, str]]) -> tuple[float, dict[str, Any]]:
    pairs = [(phrase(text), phrase(answer)) for text, answer in rows]
    accuracy = _mean(float(p == g) for p, g in pairs)
    # Containment is taken literally (assumed): an empty answer is contained in every reference.
    partial = _mean(float(p in g or g in p) for p, g in pairs)
    return accuracy, {"accuracy": accuracy, "partial_accuracy": partial, "n_total": len(rows)}


_RESULT_OF = {
    AnswerType.NUMERIC: _numeric_result,
    AnswerType.BINARY: _binary_result,
    AnswerType.CATEGORICAL: _categorical_result,
    AnswerType.OPEN: _categorical_result,
}


class Scorer:
    """Collects rows and returns the metrics in the benchmark's own structure."""

    def __init__(self, *, mc: bool) -> None:
        self._mc = mc
        self._subtypes: dict[str, _Subtype] = {}

    def add(self, subtype: str, stage: str, kind: AnswerType, text: str, reference: str) -> None:
        """Add one result row; ``reference`` is the letter (mc) or the answer (free form)."""
        group = self._subtypes.setdefault(subtype, _Subtype(stage, kind))
        group.rows.append((text, reference))

    def metrics(self) -> dict[str, Any]:
        """Return overall, by_super_type and by_subtype.

        Each subtype's value is rounded to 4 decimals before it is weighted by the subtype's rows,
        unscored ones included.
        """
        by_subtype: dict[str, Any] = {}
        values: list[tuple[str, float, int]] = []
        for name, group in self._subtypes.items():
            score = _mc_result if self._mc else _RESULT_OF[group.kind]
            value, by_subtype[name] = score(group.rows)
            values.append((group.stage, value, len(group.rows)))
        stages = dict.fromkeys(stage for stage, _, _ in values)
        by_stage: Mapping[str, Any] = {
            stage: _weighted([(v, n) for s, v, n in values if s == stage]) for stage in stages
        }
        overall = _weighted([(v, n) for _, v, n in values])
        overall["n_subtypes"] = len(values)
        return {"overall": overall, "by_super_type": by_stage, "by_subtype": by_subtype}


def _weighted(values: list[tuple[float, int]]) -> dict[str, Any]:
    total = sum(n for _, n in values)
    mean = sum(value * n for value, n in values) / total if total else 0.0
    return {"accuracy": round(mean, 4), "n_total": total}
