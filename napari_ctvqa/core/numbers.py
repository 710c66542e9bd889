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

_VOLUMES_CM3 = {
    1.0: "cm³ cm3 cm^3 cc ccm ml milliliter milliliters millilitre millilitres|cubic centimeter"
    "|cubic centimeters|cubic centimetre|cubic centimetres",
    1e-3: "mm³ mm3 mm^3 µl μl ul microliter microliters|cubic millimeter|cubic millimeters"
    "|cubic millimetre|cubic millimetres",
    10.0: "cl centiliter centiliters centilitre centilitres",
    1e2: "dl deciliter deciliters decilitre decilitres",
    1e3: "l liter liters litre litres dm³ dm3 dm^3|cubic decimeter|cubic decimeters",
    1e6: "m³ m3 m^3|cubic meter|cubic meters|cubic metre|cubic metres",
    16.387064: "in³ in3 in^3|cubic inch|cubic inches",
}
_LENGTHS_CM = {
    1.0: "cm centimeter centimeters centimetre centimetres",
    0.1: "mm millimeter millimeters millimetre millimetres",
    1e-4: "µm μm um micron microns micrometer micrometers micrometre micrometres",
    10.0: "dm decimeter decimeters decimetre decimetres",
    1e2: "m meter meters metre metres",
    2.54: "inch inches",
    30.48: "foot feet",
}
_OTHERS = {
    "area": "cm² cm2 cm^2 mm² mm2 mm^2",
    "weight": "kg g mg kilogram kilograms gram grams milligram milligrams",
    "density": "mg/ml g/ml g/cm³ g/cm3 kg/m3",
    "time": "years year months month weeks week days day hours hour minutes minute",
    "voxels": "voxel voxels pixel pixels",
}


def _named(kind: str, factors: dict[float, str]) -> dict[str, tuple[str, float]]:
    """Return kind and factor by unit; words between bars are one name, else each word is one."""
    found = {}
    for factor, words in factors.items():
        single, *phrases = words.split("|")
        found.update(dict.fromkeys((*single.split(), *phrases), (kind, factor)))
    return found


UNITS_BY_NAME: dict[str, tuple[str, float]] = {
    **_named("volume", _VOLUMES_CM3),
    **_named("length", _LENGTHS_CM),
    **_named("attenuation", {1.0: "hu|hounsfield units|hounsfield unit"}),
    **_named("percent", {1.0: "% percent|per cent"}),
    **{name: value for k, v in _OTHERS.items() for name, value in _named(k, {1.0: v}).items()},
}
"""Kind and factor of every unit that is understood; the factors of a kind relate exactly."""
_UNIT_WORDS = "|".join(re.escape(u) for u in sorted(UNITS_BY_NAME, key=len, reverse=True))
DIGITS = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"  # 1,234.5
    r"|\d{1,3}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?!\d)(?:[.,]\d+)?"  # 1 234.5
    r"|\d{1,3}(?:\.\d{3})+,\d+"  # 1.234,5
    r"|\d+(?:[.,]\d+)?|\.\d+"
)
_NUMBER = re.compile(
    rf"(?<![\w.,])([-+−]?(?:{DIGITS}))"
    r"(?:[eE]([-+]?\d{1,3})|\s*[×x*]\s*10\s*\^?\s*\{?([-−+]?\d{1,3})\}?)?"
    rf"(?:\s*({_UNIT_WORDS})(?![\w³^]))?(?![\w³²^]|[.,]\d)",
    re.IGNORECASE,
)
_ASKED_UNIT = re.compile(rf"(?:\bin|\()\s*({_UNIT_WORDS})(?![\w³²^])", re.IGNORECASE)
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
_RANGE = re.compile(r"\s*(?:-|–|—|to|and|or|minus|plus|times|[×x*+])\s*\.?\d", re.IGNORECASE)
_BEFORE_RANGE = re.compile(
    r"\d\s*(?:-|–|—|to|and|or|±|\+/-|[×x*])\s*\Z|\bbetween\s*\Z", re.IGNORECASE
)
_NUMBERED = re.compile(
    r"\b(?:segments?|slices?|grade|stage|figure|fig|step|level|phase|class|type|no|image)\.?\s*#?\Z",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:\A|[^\d\s])\s*\b(?:minus|negative)\s*\Z", re.IGNORECASE)
_MINUS_WORD = re.compile(r"\b(?:minus|negative)\s*\Z", re.IGNORECASE)
_LOOSE_DASH = re.compile(r"(?:\A|[\s(])[-–—−]\s+\Z")
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|rather than|instead of|other than|unlike|except|nor|neither)"
    r"|n['’]t)\s+(?:(?:be|is|the|a|an|about|exactly|equal|to|have|there|are)\s+){0,4}\Z",
    re.IGNORECASE,
)
"""What comes next is said not to be the answer."""
_DENIED_AFTER = re.compile(
    r"\s*(?:is|are|was|were)\s*(?:not|n['’]t|wrong|incorrect|false|excluded)\b", re.IGNORECASE
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
    dimension = UNITS_BY_NAME.get(unit.lower(), ("", 1.0))[0]
    fitting = [n for n in numbers if dimension and UNITS_BY_NAME.get(n.unit, ("",))[0] == dimension]
    if len({(n.value, n.unit) for n in fitting}) == 1:
        return fitting[0], "the only number with a fitting unit"
    return None, "names several numbers"


def number_unit(text: str) -> str:
    """Return the unit that stands behind the first number of a text, empty for none."""
    found = _NUMBER.search(text)
    return (found[4] or "").lower() if found else ""


def unit_asked(text: str) -> str:
    """Return the one unit that a question asks for (``"in cm³"``, ``"(HU)"``), empty for none."""
    found = {unit.lower() for unit in _ASKED_UNIT.findall(text)}
    return found.pop() if len(found) == 1 else ""


def _in_unit(number: _Number, unit: str, how: str) -> Reading:
    if not unit or not number.unit:
        return Reading(f"{number.value:.10g}", how)
    wanted, wanted_factor = UNITS_BY_NAME.get(unit.lower(), ("", 1.0))
    stated, factor = UNITS_BY_NAME[number.unit]
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
        if _NUMBERED.search(before) or _BOUND.search(before) or _BEFORE_RANGE.search(before):
            continue
        if _RANGE.match(after) or before.endswith(("/", "^")) or after[:1] == "/":
            continue
        if _DENIED.search(before) or _DENIED_AFTER.match(after):
            continue
        if _LOOSE_DASH.search(before) or _is_feet(before, after):
            continue
        value = value_of(match[1], match[2] or match[3] or "")
        if _MINUS_WORD.search(before):
            if value < 0 or not _MINUS.search(before):
                continue  # a subtraction, or a sign said twice
            value = -value
        if not math.isfinite(value):
            continue
        aside = opened > 0 and before.strip() != "("
        yield _Number(value, (match[4] or "").lower(), match.start(), match.end(), aside)


def _is_feet(before: str, after: str) -> bool:
    """Return whether a mark of feet or inches follows, rather than a closing quotation mark."""
    return after[:1] in ("'", '"', "′", "″") and before[-1:] != after[:1]


def decimals_of(digits: str) -> int:
    """Return how many digits a number's text has after its decimal point (or comma)."""
    grouped = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+", digits)
    after = re.search(r"[.,](\d+)\Z", digits)
    return 0 if grouped or after is None else len(after[1])


def value_of(digits: str, exponent: str = "") -> float:
    """Return the number that digits (``"1,234.5"``, ``"9,0"``, ``"−3"``) and an exponent are."""
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
