"""Amounts in options and references: one number, a range or a bound, in a unit; and which fits.

An amount is understood only where the whole text is one: ``"12.5"``, ``"9000 mm³"``, ``"5-9.5"``,
``"over 20 cm³"``, ``"10 or more"``. A unit is converted exactly; a text with a unit of another
kind, or with other words, is not understood. A range holds its lower end; its upper end too,
unless another option begins there.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.numbers import DIGITS, UNITS_BY_NAME, decimals_of, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.records import Option

NEAREST_WITHIN = 0.25
"""An option that does not equal a value is taken only within 25 % of it …"""
CLEARLY_NEARER = 0.5
"""… and only when it is at most half as far away as the next one."""

_AMOUNT = rf"([-+]?(?:{DIGITS}))(?:e([-+]?\d{{1,3}})|\s*[x*×]\s*10\s*\^?\s*([-+]?\d{{1,3}}))?"
_UNIT = r"\s*((?!(?:to|and|or|up)\b)[a-zµμ%][a-z0-9^%/ ]*?)?"
_ABOUT = r"(?:about|approximately|approx\.?|around|roughly|ca\.?|~|≈|=)?\s*"
_END = r"[\s.]*"
_POINT = re.compile(rf"{_ABOUT}{_AMOUNT}{_UNIT}{_END}")
_RANGE = re.compile(
    rf"(?:between\s+|from\s+)?{_AMOUNT}{_UNIT}\s*(?:-|to|and|up to)\s*{_AMOUNT}{_UNIT}{_END}"
)
_BELOW = {
    "<": False, "less than": False, "fewer than": False, "smaller than": False, "under": False,
    "below": False, "<=": True, "≤": True, "up to": True, "at most": True,
}  # fmt: skip
_ABOVE = {
    ">": False, "more than": False, "greater than": False, "larger than": False, "over": False,
    "above": False, ">=": True, "≥": True, "at least": True,
}  # fmt: skip
_BOUND = re.compile(
    rf"({'|'.join(sorted(map(re.escape, (*_BELOW, *_ABOVE)), key=len, reverse=True))})"
    rf"\s*{_AMOUNT}{_UNIT}{_END}"
)
_OR_LESS = re.compile(rf"{_AMOUNT}{_UNIT}\s+(?:or|and)\s+(?:less|fewer|below|smaller|lower){_END}")
_OR_MORE = re.compile(
    rf"{_AMOUNT}{_UNIT}(?:\s+(?:or|and)\s+(?:more|greater|above|larger|higher)|\s*\+){_END}"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in the unit that was asked for: ``low`` and ``high`` are equal for one number.

    ``step`` is the last stated digit of one number, in that unit. ``low_in`` and ``high_in`` say
    whether the ends belong to it; ``open_ended`` ranges have an infinite end.
    """

    low: float
    high: float
    step: float = 0.0
    low_in: bool = True
    high_in: bool = True

    @property
    def is_number(self) -> bool:
        """Return whether it is one number rather than a range."""
        return self.low == self.high

    def holds(self, value: float, others: Sequence[Quantity] = ()) -> bool:
        """Return whether a range holds a value; its upper end unless another begins there."""
        if value == self.low:
            return self.low_in
        if value == self.high:
            taken = any(o.low == value and o.low_in and not o.is_number for o in others)
            return self.high_in and not taken
        return self.low < value < self.high


def quantity_in(text: str, unit: str) -> Quantity | None:
    """Return the amount that a text is, in ``unit``; None where it is not understood."""
    said = unicodedata.normalize("NFKC", text).casefold().strip()
    said = re.sub(r"[−–—‒]", "-", said)
    return _range(said, unit) or _bound(said, unit) or _number(said, unit)


def value_in(text: str, unit: str) -> float | None:
    """Return the one number that a text is, in ``unit``; None for a range or what is none."""
    found = quantity_in(text, unit)
    return found.low if found is not None and found.is_number else None


def _number(said: str, unit: str) -> Quantity | None:
    found = _POINT.fullmatch(said)
    factor = _factor(found[4], unit) if found else None
    if found is None or factor is None:
        return None
    exponent = found[2] or found[3] or ""
    value = _product(value_of(found[1], exponent), factor)
    step = 10.0 ** (int(exponent or 0) - decimals_of(found[1])) * factor
    return Quantity(value, value, step) if math.isfinite(value) else None


def _range(said: str, unit: str) -> Quantity | None:
    found = _RANGE.fullmatch(said)
    if not found:
        return None
    second = _factor(found[8], unit)
    first = second if not found[4] else _factor(found[4], unit)
    if first is None or second is None:
        return None
    low = _product(value_of(found[1], found[2] or found[3] or ""), first)
    high = _product(value_of(found[5], found[6] or found[7] or ""), second)
    return Quantity(low, high) if low < high < math.inf else None


def _bound(said: str, unit: str) -> Quantity | None:
    found = _BOUND.fullmatch(said)
    if found:
        below, closed = found[1] in _BELOW, {**_BELOW, **_ABOVE}[found[1]]
        amount, rest = found[2], found.groups()[2:]
    else:
        found = _OR_LESS.fullmatch(said) or _OR_MORE.fullmatch(said)
        if not found:
            return None
        below, closed = bool(_OR_LESS.fullmatch(said)), True
        amount, rest = found[1], found.groups()[1:]
    factor = _factor(rest[2], unit)
    if factor is None:
        return None
    edge = _product(value_of(amount, rest[0] or rest[1] or ""), factor)
    if below:
        return Quantity(-math.inf, edge, low_in=False, high_in=closed)
    return Quantity(edge, math.inf, low_in=closed, high_in=False)


def _factor(said: str | None, unit: str) -> float | None:
    """Return by what an amount is multiplied to be in ``unit``; None for a unit of another kind."""
    said = " ".join((said or "").split())
    wanted = unicodedata.normalize("NFKC", unit).casefold()
    if said in ("", wanted) or (said, wanted) == ("lesion", "lesions"):
        return 1.0
    here, there = UNITS_BY_NAME.get(said), UNITS_BY_NAME.get(wanted)
    if here is None or there is None or here[0] != there[0]:
        return None
    return here[1] / there[1]


def _product(value: float, factor: float) -> float:
    """Return value × factor without the digits that binary fractions add."""
    return float(f"{value * factor:.12g}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The option that fits a value, what to know about it, or why none does."""

    letter: str = ""
    note: str = ""
    problem: str = ""


def choose(
    value: float, shown: str, unit: str, options: Sequence[Option], allowed: float
) -> Choice:
    """Return the option that a value fits.

    ``shown`` is the value for people, in ``unit``; ``allowed`` how far a nearest option may always
    be. A number fits within half of the last digit that it or the value is given with. Where no
    option fits, the nearest number is taken within 25 % when it is clearly nearer than the next.
    """
    read = [(option, quantity_in(option.text, unit)) for option in options]
    known = [(option, quantity) for option, quantity in read if quantity is not None]
    if not known:
        return Choice(problem="none of the options was understood as an amount")
    every = [quantity for _, quantity in known]
    ranges = [o for o, q in known if not q.is_number and q.holds(value, every)]
    numbers = [(o, q) for o, q in known if q.is_number and _equals(value, shown, q)]
    if ranges and (numbers or len(ranges) > 1):
        return Choice(problem=f"more than one of the options holds {shown}")
    if ranges:
        return Choice(ranges[0].letter, _edge_note(value, shown, every))
    if numbers:
        best, tied = _nearest(value, numbers)
        return Choice(problem=f"two of the options equal {shown}") if tied else Choice(best.letter)
    unread = [option.text for option, quantity in read if quantity is None]
    if any(re.search(r"\d", text) for text in unread):
        return Choice(problem=f"none of the options is {shown}, and not all were understood")
    if any(not quantity.is_number for quantity in every):
        return Choice(problem=f"none of the options holds {shown}")
    return _nearest_choice(value, shown, known, allowed)


def _equals(value: float, shown: str, quantity: Quantity) -> bool:
    own: float = 10.0 ** -decimals_of(shown.split(" ")[0])
    coarse = min(0.5 * quantity.step, NEAREST_WITHIN * abs(value))
    return abs(quantity.low - value) <= max(0.5 * own, coarse) * (1 + 1e-9)


def _nearest(value: float, numbers: Sequence[tuple[Option, Quantity]]) -> tuple[Option, bool]:
    """Return the nearest option, and whether another one is as near."""
    ordered = sorted(numbers, key=lambda pair: abs(pair[1].low - value))
    far = [abs(quantity.low - value) for _, quantity in ordered]
    return ordered[0][0], len(far) > 1 and far[1] - far[0] <= 1e-9 * max(1.0, abs(value))


def _edge_note(value: float, shown: str, every: Sequence[Quantity]) -> str:
    at_edge = sum(value in (quantity.low, quantity.high) for quantity in every)
    return f"{shown} is where two ranges meet: a range holds its lower end" if at_edge > 1 else ""


def _nearest_choice(
    value: float, shown: str, known: Sequence[tuple[Option, Quantity]], allowed: float
) -> Choice:
    ordered = sorted(known, key=lambda pair: abs(pair[1].low - value))
    far = [abs(quantity.low - value) for _, quantity in ordered]
    within = max(NEAREST_WITHIN * abs(value), allowed)
    if far[0] > within:
        return Choice(problem=f"none of the options is near {shown}")
    if len(far) > 1 and far[0] > CLEARLY_NEARER * far[1]:
        return Choice(problem=f"two of the options are about as near to {shown}")
    option = ordered[0][0]
    return Choice(
        option.letter,
        f"no option equals {shown}: the nearest option is {option.letter} ({option.text})",
    )
