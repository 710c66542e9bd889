"""The number that a text answers with: separators, units, ranges and counts in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from napari_ctvqa.core.answer_text import ANSWER_IS, plain, refuses
from napari_ctvqa.core.records import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS: dict[str, tuple[str, float]] = {
    "cm³": ("volume", 1.0), "cm3": ("volume", 1.0), "cm^3": ("volume", 1.0), "cc": ("volume", 1.0),
    "ccm": ("volume", 1.0), "ml": ("volume", 1.0), "milliliter": ("volume", 1.0),
    "milliliters": ("volume", 1.0), "cubic centimeter": ("volume", 1.0),
    "cubic centimeters": ("volume", 1.0), "cubic centimetres": ("volume", 1.0),
    "mm³": ("volume", 1e-3), "mm3": ("volume", 1e-3), "mm^3": ("volume", 1e-3),
    "l": ("volume", 1e3), "liter": ("volume", 1e3), "liters": ("volume", 1e3),
    "litres": ("volume", 1e3), "dm³": ("volume", 1e3),
    "cm": ("length", 1.0), "centimeter": ("length", 1.0), "centimeters": ("length", 1.0),
    "mm": ("length", 0.1), "millimeter": ("length", 0.1), "millimeters": ("length", 0.1),
    "hu": ("attenuation", 1.0), "hounsfield units": ("attenuation", 1.0),
    "hounsfield unit": ("attenuation", 1.0),
    "%": ("percent", 1.0), "percent": ("percent", 1.0), "per cent": ("percent", 1.0),
}  # fmt: skip
_UNIT_WORDS = "|".join(re.escape(u) for u in sorted(_UNITS, key=len, reverse=True))
_DIGITS = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"  # 1,234.5
    r"|\d{1,3}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?!\d)(?:[.,]\d+)?"  # 1 234.5
    r"|\d{1,3}(?:\.\d{3})+,\d+"  # 1.234,5
    r"|\d+(?:[.,]\d+)?|\.\d+"
)
_NUMBER = re.compile(
    rf"(?<![\w.,])([-+−]?(?:{_DIGITS}))"
    r"(?:[eE]([-+]?\d{1,3})|\s*[×x*]\s*10\s*\^?\s*\{?([-−+]?\d{1,3})\}?)?"
    rf"(?:\s*({_UNIT_WORDS})(?![\w³^]))?(?![\w³])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.;!?](?=\s|\Z)|\n")
_AROUND = 60
_MOST_NUMBERS = 400
_WORDS = {
    word: value
    for value, names in enumerate(
        ("zero none", "one single", "two", "three", "four", "five", "six", "seven", "eight",
         "nine", "ten", "eleven", "twelve")
    )
    for word in names.split()
}  # fmt: skip
_WORD_NUMBER = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_NO_THINGS = re.compile(
    r"\bno (?:\w+ ){0,2}(?:lesions?|tumou?rs?|cysts?|mass(?:es)?|nodules?|instances?)\b",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|–|—|to|and|or|[×x*])\s*\.?\d", re.IGNORECASE)
_BEFORE_RANGE = re.compile(
    r"\d\s*(?:-|–|—|to|and|or|±|\+/-|[×x*])\s*\Z|\bbetween\s*\Z", re.IGNORECASE
)
_NAMED = re.compile(
    r"\b(?:segments?|slices?|grade|stage|figure|fig|step|level|phase|class|type|no|image)\.?\s*#?\Z",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:[<>≤≥]=?|\b(?:less|more|greater|fewer|larger|smaller) than|\bat (?:least|most)|\bover"
    r"|\bunder|\babove|\bbelow|\bup to|\bnormal(?: range)?:?)\s*\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Number:
    value: float
    unit: str
    start: int
    end: int
    aside: bool


def read_number(text: str, unit: str = "", *, counting: bool = False) -> Reading:
    """Return the number that the text answers with, in ``unit`` when one is expected.

    Thousands separators, decimal commas (where they can be nothing else), powers of ten and
    written-out counts are understood. A unit is converted only when the text states it and it
    measures the same (35 mm is 3.5 cm); a unit that measures something else is not read. Ranges,
    bounds, numbers that name a segment or slice, and two different candidates are not read.
    """
    body = plain(text)
    if not body:
        return Reading("", "no text")
    candidates = list(_numbers(body))
    main = [c for c in candidates if not c.aside] or candidates
    chosen, how = _choose(main, body, unit)
    if chosen is None and counting and not main:
        chosen, how = _written_count(body)
    if chosen is None:
        return Reading("", how)
    return _in_unit(chosen, unit, how)


def _written_count(body: str) -> tuple[_Number | None, str]:
    words = {_WORDS[m[1].lower()] for m in _WORD_NUMBER.finditer(body)}
    if _NO_THINGS.search(body):
        words.add(0)
    if len(words) == 1 and not refuses(body):
        return _Number(float(words.pop()), "", 0, 0, False), "written out"
    return None, "no number" if not words else "names several numbers"


def _choose(numbers: list[_Number], body: str, unit: str) -> tuple[_Number | None, str]:
    if not numbers:
        return None, "no number"
    statement = [m.start(1) for m in ANSWER_IS.finditer(body) if m[1].strip()]
    if statement:
        after = [n for n in numbers if n.start >= statement[-1]]
        if after:
            return after[0], "stated as the answer"
    if len({(n.value, n.unit) for n in numbers}) == 1:
        return numbers[0], "the only number"
    equals = max(body.rfind("="), body.rfind("≈"))
    after = [n for n in numbers if n.start > equals >= 0]
    if after:
        return after[0], "after the last ="
    ends = _SENTENCE_END.search(body, numbers[0].end)
    first = [n for n in numbers if n.start < (ends.start() if ends else len(body))]
    if numbers[0].start == 0 and len(first) == 1:
        return numbers[0], "begins with it"
    dimension = _UNITS.get(unit.lower(), ("", 1.0))[0]
    fitting = [n for n in numbers if dimension and _UNITS.get(n.unit, ("",))[0] == dimension]
    if len({(n.value, n.unit) for n in fitting}) == 1:
        return fitting[0], "the only number with a fitting unit"
    return None, "names several numbers"


def _in_unit(number: _Number, unit: str, how: str) -> Reading:
    if not unit or not number.unit:
        return Reading(f"{number.value:.10g}", how)
    wanted, wanted_factor = _UNITS.get(unit.lower(), ("", 1.0))
    stated, factor = _UNITS[number.unit]
    if wanted != stated:
        return Reading("", f"is in {number.unit}, {unit} was asked")
    value = number.value * factor / wanted_factor
    converted = "" if factor == wanted_factor else f", {number.unit} converted to {unit}"
    return Reading(f"{value:.10g}", how + converted)


def _numbers(body: str) -> Iterator[_Number]:
    opened = at = 0
    for match in islice(_NUMBER.finditer(body), _MOST_NUMBERS):
        opened += body.count("(", at, match.start()) - body.count(")", at, match.start())
        at = match.start()
        before = body[max(0, match.start() - _AROUND) : match.start()]
        after = body[match.end() : match.end() + _AROUND]
        if _NAMED.search(before) or _BOUND.search(before) or _BEFORE_RANGE.search(before):
            continue
        if _RANGE.match(after) or (before[-1:] == "/" or after[:1] == "/"):
            continue
        value = _value(match[1], match[2] or match[3] or "")
        if not math.isfinite(value):
            continue
        aside = opened > 0 and before.strip() != "("
        yield _Number(value, (match[4] or "").lower(), match.start(), match.end(), aside)


def _value(digits: str, exponent: str) -> float:
    digits = re.sub(r"[\s'’]", "", digits.replace("−", "-"))
    sign = -1.0 if digits.startswith("-") else 1.0
    digits = digits.lstrip("+-")
    if "," in digits and "." in digits:
        last = max(digits.rfind(","), digits.rfind("."))
        digits = re.sub(r"[.,]", "", digits[:last]) + "." + digits[last + 1 :]
    elif re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", digits):
        digits = digits.replace(",", "")
    else:
        digits = digits.replace(",", ".")
    return sign * float(f"{digits}e{int(exponent.replace('−', '-') or 0)}")
