"""Read a model's answer as a careful human reads it.

Nothing is guessed: where the text names two answers, refuses, or says something that does not fit
the question, the reading is empty and ``how`` says why. What a benchmark's official scorer reads
is another matter and lies with that benchmark.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from napari_ctvqa.core.answer_text import last_statement, normalise, plain, refuses, strip_think
from napari_ctvqa.core.numbers import number_unit, read_number, unit_asked
from napari_ctvqa.core.records import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.records import Option

__all__ = ["normalise", "read_letter", "read_number", "read_yes_no", "refuses", "strip_think"]

_AROUND = 60
_FAR = 400

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


_PIECE_ENDS = re.compile(
    r"[.,;:!?\n]|\b(?:so|therefore|thus|hence|but|and|because|since)\b", re.IGNORECASE
)
_SAYS_NOT = re.compile(
    r"\b(?:not|never|cannot|can\s?not|neither|nor|no|except|exclud\w*|rul\w+\s+out|rather\s+than"
    r"|instead\s+of|other\s+than|anything\s+but|unlikely|wrong|incorrect|doubt\w*)\b|n['’]t\b",
    re.IGNORECASE,
)


def _denied_before(body: str, start: int) -> bool:
    """Return whether what stands at ``start`` is denied in its own piece of the sentence."""
    return bool(_SAYS_NOT.search(_PIECE_ENDS.split(body[max(0, start - _FAR) : start])[-1]))


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
    beside = set(_IN_BRACKETS.findall(last_statement(body) or body))
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
        if not _DENIED.match(body, match.end()) and not _denied_before(body, match.start()):
            found = (match.start(), match[1] or match[2], match.end())
    for match in _CALLED_RIGHT.finditer(body):
        later = found is None or match.start() > found[0]
        if later and not _denied_before(body, match.start()):
            found = (match.start(), match[1], len(body))
    if found is None:
        return None
    _, letter, end = found
    trailing = _TRAILING.search(body, end)
    if _ALSO.match(body, end) or (trailing and trailing[1] != letter.upper()):
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
    if trailing and not _denied_before(body, trailing.start(1)):
        return _checked(trailing[1], "", options, "ends with the letter")
    mentioned = {
        m[1]
        for m in _MENTION.finditer(body)
        if not _DENIED.match(body, m.end()) and not _denied_before(body, m.start())
    }
    if len(mentioned) == 1:
        return _checked(mentioned.pop(), "", options, "names one option")
    if refuses(body):
        return Reading("", "says that it cannot answer")
    return Reading("", "no option found")


_YES_NO = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}


def _option_by_text(body: str, options: Sequence[Option], question: str) -> Reading | None:
    """Return the option whose text the answer says, or None when it says none of them."""
    usable = [option for option in options if normalise(option.text)]
    said = last_statement(body)
    exact = [o for o in usable if normalise(o.text) in (normalise(body), normalise(said))]
    if len(exact) == 1:
        return Reading(exact[0].letter, "the option's text")
    if usable and all(normalise(option.text) in _YES_NO for option in usable):
        answer = read_yes_no(body, question).value
        hits = [o for o in usable if _YES_NO[normalise(o.text)] == answer]
        return Reading(hits[0].letter, f"says {answer}") if len(hits) == 1 else None
    if refuses(body):
        return None
    by_number = _option_by_number(said or body, usable, question)
    if by_number is not None:
        return by_number
    for part in (said, body):
        letters = _contained(part, usable, question)
        if len(letters) == 1:
            return Reading(letters.pop(), "names the option's text")
    return None


def _option_by_number(text: str, options: Sequence[Option], question: str) -> Reading | None:
    """Return the option whose number the text gives, where every option is one number.

    An answer's own unit is converted to the one that the options state, else to the one that the
    question asks for; a unit of another kind gives none of them. Where neither states one, the
    number alone decides.
    """
    units = {number_unit(option.text) for option in options}
    unit = units.pop() if len(units) == 1 else ""
    unit = unit or unit_asked(question)
    numbers = [read_number(option.text, unit).value for option in options]
    if not numbers or not all(numbers):
        return None
    said, bare = read_number(text, unit), read_number(text)
    if not said.value:
        return Reading("", f"the number {said.how}") if bare.value else None
    hits = [o for o, n in zip(options, numbers, strict=True) if float(n) == float(said.value)]
    if len(hits) == 1:
        return Reading(hits[0].letter, "gives the option's number")
    converted = said.value != bare.value
    return Reading("", "gives a number that no option has") if converted else None


def _contained(text: str, options: Sequence[Option], question: str) -> set[str]:
    """Return letters of options said in the text, the longest where texts lie in each other.

    In a comparison it is what stands before "than"; one that goes the other way than the question
    ("the left one is smaller", asked for the larger) names none.
    """
    flat = _flat(text).partition(" than ")[0]
    asked = _direction(_flat(question)) or "larger"
    spans: list[tuple[int, int, str]] = []
    for option in options:
        for match in re.finditer(
            rf"(?<![\w.-]){re.escape(_flat(option.text))}(?![\w-]|\.\d)", flat
        ):
            before = flat[max(0, match.start() - _AROUND) : match.start()]
            after = _PIECE_ENDS.split(flat[match.end() :])[0]
            if _direction(f"{before} {after}") not in ("", asked):
                continue
            if not _NEGATED_BEFORE.search(before) and not _DENIED_AFTER.search(after):
                spans.append((match.start(), match.end(), option.letter))
    return {
        letter
        for start, end, letter in spans
        if not any(s <= start and end <= e and (e - s) > (end - start) for s, e, _ in spans)
    }


_LARGER = re.compile(r"\b(?:larger|largest|bigger|biggest|greater|greatest|more|most|higher)\b|>")
_SMALLER = re.compile(r"\b(?:smaller|smallest|less|least|fewer|lower)\b|<")


def _direction(text: str) -> str:
    larger, smaller = bool(_LARGER.search(text)), bool(_SMALLER.search(text))
    return "both" if larger and smaller else "larger" if larger else "smaller" if smaller else ""


_DENIED_AFTER = re.compile(
    r"\A\s*(?:\w+\s+){0,2}(?:is|are|was|were|does|do|has|have|can|could|would)\s*"
    r"(?:not\b|n['’]t\b|unlikely\b|wrong\b|incorrect\b|excluded\b|ruled\b)"
)
_NEGATED_BEFORE = re.compile(
    r"(?:\b(?:not|no|rather than|instead of|without|unlike|nor)|n['’]t)\s(?:\w+\s)?\Z"
)


def _flat(text: str) -> str:
    return " ".join(text.lower().replace("−", "-").split())


# ----------------------------------------------------------------------------------------- yes/no

_LEAD_YES_NO = re.compile(
    r"\A\W*(yes|no|true|false)\b(?!\s+(?:doubt|question|idea|clue|comment|opinion))"
    r"(\s*(?:[^\w\s]|\n|\Z))?",
    re.IGNORECASE,
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
_DOUBTED = re.compile(
    r"\b(?:no|not|none|nothing|neither|nor|never|without|hardly|barely|scarcely|rarely|seldom"
    r"|lack\w*|absen\w+|unlikely|improbabl\w+|doubt\w*|zero|0|little|few|might|may|could|maybe"
    r"|perhaps|possib\w+|uncertain|unclear|if|whether|or|except|other than|negative|impossible"
    r"|exclud\w*|against|free)\b|n['’]t\b",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|while|whereas|yet|wait|actually|instead)\b", re.IGNORECASE
)
_CORRECTION = re.compile(r"\b(?:wait|actually|instead)\b", re.IGNORECASE)
_ANSWERED_BACK = re.compile(
    r"(?<=[,;.])\s*(?:it|there|they)\s+(?:is|are|does|do|has)(\s+(?:not|none|no\s+\w+))?\W*\Z",
    re.IGNORECASE,
)
_ANSWERS = re.compile(
    r"(?:\A|[.:;,!?\n–—-])\s*[\"'(]*(?:(yes)\b(?!['’])|(no)\b(?=\s*(?:[^\w\s]|\n|\Z)))",
    re.IGNORECASE,
)
"""Yes or no standing as an answer of its own; "no" before a word is none."""
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
    said = last_statement(body)
    answers = {(m[1] or m[2]).lower() for m in _ANSWERS.finditer(said or body)}
    if _EITHER.match(body) or len(answers) > 1:
        return Reading("", "says both")
    inverted = bool(_INVERTED.search(question))
    doubtful = inverted or refuses(body) or bool(_DOUBLE.search(body))
    for part, how in ((said, "stated as the answer"), (body, "begins with it")):
        lead = _LEAD_YES_NO.match(part)
        # "No." is an answer; "No evidence …" is one only where the rest says nothing else.
        plainly = not doubtful and "yes" not in answers and not _CONTRAST.search(part)
        back = _ANSWERED_BACK.search(part, lead.end()) if lead and not inverted else None
        if lead and back and (_YES_NO[lead[1].lower()] == "no") != bool(back[1]):
            return Reading("", "says both")
        if lead and (lead[2] is not None or plainly):
            return Reading(_YES_NO[lead[1].lower()], how)
    trailing = _TRAIL_YES_NO.search(body)
    if trailing and not _denied_before(body, trailing.start(1)):
        return Reading(_YES_NO[trailing[1].lower()], "ends with it")
    short = _SHORT.get(normalise(body))
    if short and not inverted:
        return Reading(short, "says so")
    clause = _CLAUSE_END.split(body.strip(), maxsplit=1)[0]
    negation = _NEGATION.search(clause)
    corrected = _CONTRAST.search(body) if negation else _CORRECTION.search(body)
    if doubtful or _SUBORDINATE.match(body) or corrected:
        return Reading("", "no clear yes or no")
    rest = clause.replace(negation[0], " ", 1) if negation else clause
    if _DOUBTED.search(rest):
        return Reading("", "no clear yes or no")
    if negation:
        return Reading("no", "its first clause negates")
    if _EXISTS.search(clause):
        return Reading("yes", "its first clause affirms")
    return Reading("", "no clear yes or no")
