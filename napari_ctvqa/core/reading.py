"""Read a model's answer as a careful human reads it.

Nothing is guessed: where the text names two answers, refuses, or says something that does not fit
the question, the reading is empty and ``how`` says why. What a benchmark's official scorer reads
is another matter and lies with that benchmark.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from napari_ctvqa.core.records import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ctvqa.core.records import Option

_OPEN, _CLOSE = "<think>", "</think>"
_READ_AT_MOST = 40_000


def strip_think(text: str) -> str:
    """Return text without ``<think>…</think>`` and without what follows an unclosed ``<think>``."""
    kept: list[str] = []
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(_CLOSE)
    return ("".join(kept) + text[position:]).partition(_OPEN)[0].strip()


def normalise(text: str) -> str:
    """Return text lower-cased, punctuation other than hyphens removed, white space collapsed."""
    return " ".join(re.sub(r"[^\w\s-]", "", text.lower()).split())


_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_FINAL_TAG = re.compile(r"\[FINAL\]|####", re.IGNORECASE)
_MARKUP = re.compile(r"\*\*|__|`|\$|\\[()\[\]]|</?[bi]>|</s>|<\|[^|>]*\|>")


def plain(text: str) -> str:
    """Return text without thoughts and markup; boxed and tagged answers become ``Answer: …``."""
    text = strip_think(text)
    if len(text) > _READ_AT_MOST:  # an answer stands at the beginning or at the end
        half = _READ_AT_MOST // 2
        text = f"{text[:half]}\n{text[-half:]}"
    text = _LATEX_TEXT.sub(r"\1", text)
    text = _BOXED.sub(r"\nAnswer: \1\n", text)
    text = _TAGGED.sub(r"\nAnswer: \1\n", text)
    text = _FINAL_TAG.sub("\nAnswer: ", text)
    return _MARKUP.sub("", text).strip()


_REFUSAL = re.compile(
    r"\b(?:can(?:no|')?t|cannot|could not|unable to|not possible to|impossible to|insufficient"
    r"|not enough information|(?:do not|don't) know|not sure|unsure|unclear|uncertain"
    r"|undetermined|not (?:be )?determin\w+|no answer)\b",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Return whether the text says that it cannot answer."""
    return bool(_REFUSAL.search(text))


# ---------------------------------------------------------------------------------------- letters

_LETTER = r"[(\[{\"']*(?:option\s+|choice\s+)?[(\[{\"']*"
_STATEMENT = re.compile(
    r"(?i:\b(?:answers?|(?:correct|right|best|final|chosen|selected)\s+(?:option|choice|letter)"
    r"|i(?:\s+would)?\s+(?:choose|select|pick|go\s+with)"
    r"|(?:option|choice|letter)\s*(?=[\"'”’]?\s*[:=])))[\"'”’]?"
    r"(?i:\s+(?:is|was|(?:would|should|must)\s+be|(?:seems|appears)\s+to\s+be))?"
    r"\s*[:=\-–—→]*\s*"
    rf"(?i:the\s+)?(?i:{_LETTER})"
    r"(?:([A-H])(?![\w'’])|([a-h])(?=\s*[)\]}\"'.]*\s*(?:\n|\Z)))"
)
_CALLED_RIGHT = re.compile(
    r"(?<![\w'’])([A-H])[)\]}\"']*\s+(?i:is\s+(?:the\s+|thus\s+|therefore\s+)?"
    r"(?:correct|right|best|most\s+likely|answer))\b"
)
_ALSO = re.compile(r"[)\]}\"']*\s*(?:,|/|&|\bor\b|\band\b)\s*(?:option\s+)?[(\[]?[A-H](?![\w'’])")
_WHOLE = re.compile(r"\A[\s(\[{\"']*([A-Ha-h])[\s)\]}\"'.:]*\Z")
_LEADING = re.compile(
    r"\A[(\[{\"']*([A-H])(?:[)\]}\"']+[.:,]?|[.:),]|\s+[-–—]\s|\s*\n|(?=\s+(?:because|since|as|due)\b))"
)
_FOLLOWED = re.compile(r"\s*(?:or\s+|and\s+)?[(\[]?[A-H](?![\w'’])")
_MARKER = re.compile(r"(?<![\w'’])([A-H])\s?[:.)]\s")
_IN_BRACKETS = re.compile(r"[(\[]([A-H])[)\]]")
_MENTION = re.compile(r"(?i:\b(?:option|choice)\s+)[(\[\"']*([A-H])(?![\w'’])")
_DENIED = re.compile(
    r"[)\]}\"']*\s*(?:is|was|can|cannot|seems|appears)\s*(?:be\s+)?"
    r"(?:not|wrong|incorrect|unlikely|less|excluded|ruled|false|be)\b",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"(?:[,:;–—-]|(?i:\b(?:so|therefore|thus|hence|is|it['’]s|be|choose|select|pick|think|believe"
    r"|guess|say)))\s+(?i:option\s+)?[(\[\"']*([A-H])[)\]\"']*\s*[.!]?\s*\Z"
)


def read_letter(text: str, options: Sequence[Option], question: str = "") -> Reading:
    r"""Return the letter of the option that the text chooses.

    In this order: the last explicit statement (``The answer is C``, ``\boxed{C}``), a bare or
    leading letter (``(D)``, ``**C**``, ``C. Severe``), the text of exactly one option, a letter
    at the very end (``…, so C``). A letter that is no option, or that stands beside another
    option's text, is not read.
    """
    body = plain(text)
    if not body:
        return Reading("", "no text")
    for attempt in (_stated_letter, _bare_letter):
        found = attempt(body, options)
        if found is not None:
            return found
    spoken = _option_by_text(body, options, question)
    if spoken is None:
        return _last_resort(body, options)
    beside = set(_IN_BRACKETS.findall(_last_statement(body) or body))
    if beside and beside != {spoken.value}:
        return Reading("", "names several options")
    return spoken


def _checked(letter: str, rest: str, options: Sequence[Option], how: str) -> Reading:
    """Return the letter unless it is no option or the text beside it is another option's."""
    letter = letter.upper()
    if not options:
        return Reading(letter, how)
    if letter not in {option.letter for option in options}:
        return Reading("", f"{letter} is not an option")
    beside = normalise(rest.split("\n", 1)[0])
    named = {
        option.letter for option in options if option.text and normalise(option.text) == beside
    }
    if named and letter not in named:
        return Reading("", f"letter {letter} stands beside another option's text")
    return Reading(letter, how)


def _stated_letter(body: str, options: Sequence[Option]) -> Reading | None:
    found: tuple[int, str, int] | None = None
    for match in _STATEMENT.finditer(body):
        if not _DENIED.match(body, match.end()):
            found = (match.start(), match[1] or match[2], match.end())
    for match in _CALLED_RIGHT.finditer(body):
        if found is None or match.start() > found[0]:
            found = (match.start(), match[1], len(body))
    if found is None:
        return None
    _, letter, end = found
    if _ALSO.match(body, end):
        return Reading("", "names several options")
    return _checked(letter, body[end:], options, "stated as the answer")


def _bare_letter(body: str, options: Sequence[Option]) -> Reading | None:
    whole = _WHOLE.match(body)
    if whole:
        return _checked(whole[1], "", options, "the letter alone")
    leading = _LEADING.match(body)
    if leading is None:
        return None
    rest = body[leading.end() :]
    listed = leading[0].endswith(",") and _FOLLOWED.match(rest)
    if listed or _ALSO.match(rest):
        return Reading("", "names several options")
    letters = {option.letter for option in options}
    if len(letters & {m[1] for m in _MARKER.finditer(body)}) > 1:
        return None  # the options are listed again; that chooses none
    trailing = _TRAILING.search(body)
    if trailing and trailing[1] != leading[1] and trailing.start() > leading.end():
        return Reading("", "names several options")
    return _checked(leading[1], rest, options, "begins with the letter")


def _last_resort(body: str, options: Sequence[Option]) -> Reading:
    trailing = _TRAILING.search(body)
    if trailing:
        return _checked(trailing[1], "", options, "ends with the letter")
    mentioned = {m[1] for m in _MENTION.finditer(body) if not _DENIED.match(body, m.end())}
    if len(mentioned) == 1:
        return _checked(mentioned.pop(), "", options, "names one option")
    if refuses(body):
        return Reading("", "says that it cannot answer")
    return Reading("", "no option found")


_YES_NO = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}


def _option_by_text(body: str, options: Sequence[Option], question: str) -> Reading | None:
    """Return the option whose text the answer says, or None when it says none of them."""
    usable = [option for option in options if normalise(option.text)]
    said = _last_statement(body)
    exact = [o for o in usable if normalise(o.text) in (normalise(body), normalise(said))]
    if len(exact) == 1:
        return Reading(exact[0].letter, "the option's text")
    if usable and all(normalise(option.text) in _YES_NO for option in usable):
        answer = read_yes_no(body, question).value
        hits = [o for o in usable if _YES_NO[normalise(o.text)] == answer]
        return Reading(hits[0].letter, f"says {answer}") if len(hits) == 1 else None
    if refuses(body):
        return None
    by_number = _option_by_number(said or body, usable)
    if by_number is not None:
        return by_number
    for part in (said, body):
        letters = _contained(part, usable)
        if len(letters) == 1:
            return Reading(letters.pop(), "names the option's text")
    return None


def _option_by_number(text: str, options: Sequence[Option]) -> Reading | None:
    """Return the option whose number the text gives, where every option is one number."""
    numbers = [read_number(option.text).value for option in options]
    if not numbers or not all(numbers):
        return None
    said = read_number(text).value
    hits = [o for o, n in zip(options, numbers, strict=True) if said and float(n) == float(said)]
    return Reading(hits[0].letter, "gives the option's number") if len(hits) == 1 else None


def _contained(text: str, options: Sequence[Option]) -> set[str]:
    """Return letters of options said in the text, the longest where texts lie in each other."""
    flat = _flat(text)
    spans: list[tuple[int, int, str]] = []
    for option in options:
        for match in re.finditer(
            rf"(?<![\w.-]){re.escape(_flat(option.text))}(?![\w-]|\.\d)", flat
        ):
            before = flat[max(0, match.start() - _AROUND) : match.start()]
            if not _NEGATED_BEFORE.search(before):
                spans.append((match.start(), match.end(), option.letter))
    return {
        letter
        for start, end, letter in spans
        if not any(s <= start and end <= e and (e - s) > (end - start) for s, e, _ in spans)
    }


_NEGATED_BEFORE = re.compile(
    r"\b(?:not|no|rather than|instead of|without|unlike|nor)\s(?:\w+\s)?\Z"
)


def _flat(text: str) -> str:
    return " ".join(text.lower().replace("−", "-").split())


_ANSWER_IS = re.compile(
    r"\banswer\b(?:\s+(?:is|would be|should be|must be|was))?\s*[:=\-–—→]*\s*([^\n]*)",
    re.IGNORECASE,
)


def _last_statement(body: str) -> str:
    """Return what follows the last ``answer is`` / ``answer:`` on its line; else empty."""
    found = [match[1].strip() for match in _ANSWER_IS.finditer(body)]
    return next((said for said in reversed(found) if said), "")


# ----------------------------------------------------------------------------------------- yes/no

_LEAD_YES_NO = re.compile(
    r"\A\W*(yes|no|true|false)\b(?!\s+(?:doubt|question))(\s*(?:[^\w\s]|\n|\Z))?", re.IGNORECASE
)
_EITHER = re.compile(r"\W*(?:yes|no)\s*(?:/|or|and|,)\s*(?:yes|no)\b", re.IGNORECASE)
_TRAIL_YES_NO = re.compile(
    r"(?:[:,–—-]|\b(?:is|be|so|therefore|thus|hence|say|a|definitely|clearly|probably|likely))\s+"
    r"[\"'(]*(yes|no)[\"')]*\s*[.!]?\s*\Z",
    re.IGNORECASE,
)
_SHORT = {
    "present": "yes", "positive": "yes", "absent": "no", "negative": "no", "none": "no",
    "not present": "no", "not visible": "no", "not seen": "no", "not detected": "no",
    "not enlarged": "no",
}  # fmt: skip
_INVERTED = re.compile(
    r"\b(?:normal|unremarkable|absent|absence|free of|without|no|not|preserved|intact)\b",
    re.IGNORECASE,
)
_DOUBLE = re.compile(
    r"\b(?:not|no|never|cannot)\s+(?:\w+\s+){0,2}(?:absent|absence|without|negative|unlikely|exclude\w*"
    r"|rule\w* out|impossible|doubt|question)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:there (?:is|are|was|were) (?:no|not)|no (?:evidence|sign|signs|indication)"
    r"|(?:is|are|was|were) (?:not|absent)|not (?:seen|present|visible|detected|identified)"
    r"|(?:isn't|aren't|does not|doesn't|do not|don't|has no|have no|shows? no|without)"
    r"|no \w+(?: \w+){0,8} (?:is|are|was|were)"
    r" (?:seen|present|visible|detected|identified|found))\b",
    re.IGNORECASE,
)
_EXISTS = re.compile(
    r"\b(?:there (?:is|are|was|were)|(?:is|are|was|were) (?:clearly )?"
    r"(?:present|visible|seen|detected|identified|found|noted))\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[.;,!\n]|\b(?:but|however|although|though|while|whereas)\b", re.IGNORECASE
)
_SUBORDINATE = re.compile(
    r"\A\W*(?:although|though|while|whereas|despite|if|unless)\b", re.IGNORECASE
)


def read_yes_no(text: str, question: str = "") -> Reading:
    """Return ``yes`` or ``no``.

    An explicit yes or no counts; else the first clause, where it says that something is there or
    is not. Where the question itself is negative (``Is the liver normal?``) only an explicit yes
    or no is read, as its clause could mean either.
    """
    body = plain(text)
    if not body:
        return Reading("", "no text")
    if _EITHER.match(body):
        return Reading("", "says both")
    said = _last_statement(body)
    inverted = bool(_INVERTED.search(question))
    doubtful = inverted or refuses(body) or bool(_DOUBLE.search(body))
    for part, how in ((said, "stated as the answer"), (body, "begins with it")):
        lead = _LEAD_YES_NO.match(part)
        # "No." is an answer; "No evidence …" is one only where the rest says nothing else.
        if lead and (lead[2] is not None or not doubtful):
            return Reading(_YES_NO[lead[1].lower()], how)
    trailing = _TRAIL_YES_NO.search(body)
    if trailing:
        return Reading(_YES_NO[trailing[1].lower()], "ends with it")
    short = _SHORT.get(normalise(body))
    if short and not inverted:
        return Reading(short, "says so")
    if doubtful or _SUBORDINATE.match(body):
        return Reading("", "no clear yes or no")
    clause = _CLAUSE_END.split(body.strip(), maxsplit=1)[0]
    if _NEGATION.search(clause):
        return Reading("no", "its first clause negates")
    if _EXISTS.search(clause):
        return Reading("yes", "its first clause affirms")
    return Reading("", "no clear yes or no")


# ---------------------------------------------------------------------------------------- numbers

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
    statement = [m.start(1) for m in _ANSWER_IS.finditer(body) if m[1].strip()]
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
