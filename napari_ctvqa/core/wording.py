"""The wording of a question: what it says beside its target, and whether all of it is understood.

The questions are templated, so the words are few: taken up by a phrase below that says what they
mean, or listed in ``resources/wording.json`` among those that change nothing for a subtype. A word
that is neither is left out, and told, where it can only fill: a few words that are not listed as
changing a meaning, do not stand before a finding or an organ, which they could narrow down, and do
not belong to a question that one word may turn round (present or absent, larger or smaller).
Everything else - negations that are not in the phrases, exceptions, thresholds, averages over
several - is a problem and a sentence about it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import names
from napari_ctvqa.core.rules import normal_subtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from napari_ctvqa.core.rules import Rule

_CONTRAST = r"(?:(?:iv|intravenous|oral)\s+)?contrast(?:\s+(?:agent|medium|material|enhancement))?"
_ASIDES = re.compile(
    r"\b(?:"
    r"(?:please\s+)?(?:answer|respond|reply)(?:\s+the\s+question)?(?:\s+only)?\s+(?:with\s+)?"
    r"(?:a\s+)?(?:yes\s+or\s+no|yes\s*/\s*no)(?:\s+only)?"
    r"|(?:yes\s+or\s+no|yes\s*/\s*no)(?=\s*[?.:)]|\s*\Z)"
    r"|without\s+(?:an?\s+|any\s+|further\s+)?(?:explanation|explanations|explaining)"
    rf"|(?:without|with|in\s+the\s+absence\s+of)\s+{_CONTRAST}"
    r"|(?:non|pre|post)\s*-?\s*contrast|contrast\s*-?\s*enhanced|(?:un)?enhanced\s+ct"
    r"|ct\s+volume|at\s+least\s+one|one\s+or\s+more"
    r"|(?:choose|select|pick)\s+(?:one|the\s+(?:correct|best|right))\s+(?:option|answer|letter)"
    r"|(?:from|of|among)\s+the\s+(?:following\s+)?(?:options|choices)(?:\s+(?:below|given))?"
    r"|(?:determine|check|see|assess|identify|evaluate|tell|state|indicate|say|decide|detect)"
    r"(?=\s+(?:me\s+)?if\b)(?:\s+me)?\s+if"
    r"|counted\s+from\s+the\s+feet,?\s+from\s+0"
    r"|[tg][0-4][abc]?(?:\s*(?:-|–|to)\s*[tg][0-4])?"
    r")(?!\w)"
)
"""What says how to answer, or what the scan is: it changes no meaning."""
_SEGMENT = r"(?:[1-8]|viii|vii|vi|iv|v|iii|ii|i)"
_SEGMENTS = re.compile(
    rf"\bsegments?\s+{_SEGMENT}\b(?:\s*(?:,|and|or|&|/|\+|vs\.?|versus|with|than|to)\s*"
    rf"(?:(?:liver\s+)?segments?\s+)?{_SEGMENT}\b)*"
)
_BOTH_SIDES = re.compile(
    r"\b(?:the\s+)?(left|right)(?:\s+(\w+))?\s*(?:and|&|\+)\s*(?:the\s+)?(left|right)\s+"
    r"(?!lobe|hepatic|liver)(\w+)\b"
)
_SIDES_AFTER = re.compile(r"\b(\w+s)\s*[,(]?\s*\b(?:left\s+and\s+right|right\s+and\s+left)\b\)?")
_TOKEN = re.compile(r"[^\W_]+|[<>≤≥=≠±%+×~]")
_YES_NO_OPENING = re.compile(
    r"\W*(?:is|are|was|were|does|do|did|has|have)\b(?!\s+you\b)(?!.*\bor\b)"
)
_NUMBER_OPENING = re.compile(r"\W*how\s+(?:many|much)\b")
_STATE_OPENING = re.compile(r"\W*(?:what|which|how|where)\b")

_EITHER_PRESENT = re.compile(
    r"\b(?:present\s+or\s+absent|absent\s+or\s+present|(?:the\s+)?presence\s+or\s+absence(?:\s+of)?"
    r"|(?:the\s+)?absence\s+or\s+presence(?:\s+of)?)\b"
)
_ABSENT = re.compile(
    r"\b(?:free\s+(?:of|from)|absence\s+of|absent|lacks?|lacking|devoid\s+of"
    r"|without\s+(?:any\s+)?(?:evidence\s+of\s+|signs?\s+of\s+)?(?=(?:any\s+|a\s+)?(?:\w+\s+)?"
    r"(?:lesions?|tumou?rs?|cysts?|mass(?:es)?|nodules?|cancers?)\b))"
)
_NORMAL_RANGE = (
    r"(?:the\s+)?(?:upper\s+limit\s+of\s+(?:the\s+)?)?normal(?:\s+(?:size|volume))?"
    r"(?:\s+(?:limits?|range))?"
)
_ENLARGED = re.compile(
    r"\b(?:(?:abnormally\s+)?enlarged|enlargement|splenomegaly|hepatomegaly|abnormally\s+(?:large|big)"
    rf"|oversized|(?:larger|bigger|greater)\s+than\s+{_NORMAL_RANGE}|above\s+{_NORMAL_RANGE}"
    rf"|exceed(?:s|ing)?\s+{_NORMAL_RANGE})\b"
)
_NORMAL = re.compile(
    r"\b(?:within\s+(?:the\s+)?normal\s+(?:limits?|range|size)|(?:of\s+)?(?:a\s+)?normal(?:\s+in)?"
    r"(?:\s+(?:size|volume))?)(?!\w)"
)
_LARGER = re.compile(r"\b(?:larger|largest|bigger|biggest|greater|greatest|more|most|higher)\b")
_SMALLER = re.compile(r"\b(?:smaller|smallest|less|lesser|least|lower|fewer)\b")
_LESION = r"(?:lesions?|tumou?rs?|cysts?|mass(?:es)?|nodules?|findings?|cancers?|carcinomas?)"
_LARGEST = re.compile(
    rf"\b(?:largest|biggest|dominant|main)\s+(?:(?:single|individual)\s+)?(?:\w+\s+)?{_LESION}\b"
)
_LARGEST_WORD = re.compile(r"\b(?:largest|biggest|dominant|main)\b")
_ALL_OF_THEM = re.compile(r"\b(?:total|all|combined|together|overall|every)\b")


@dataclass(frozen=True, slots=True)
class Wording:
    """What the words of a question say beside its target.

    ``negated``: yes means absent or normal. ``smaller``: the smaller of two is asked for.
    ``largest``: the largest lesion alone. ``by_name``: a state or side is to be named, so that a
    bare yes, no or side says nothing. ``left_out`` are words that are not known and can only fill.
    ``problem`` says what was not understood, else empty.
    """

    negated: bool = False
    smaller: bool = False
    largest: bool = False
    by_name: bool = False
    problem: str = ""
    left_out: tuple[str, ...] = ()


def plain_words(text: str) -> str:
    """Return a question's text in lower case, both sides of an organ called by its plural.

    ``"the left and right kidney"`` and ``"left kidney and right kidney"`` are ``"both kidneys"``.
    """
    flat = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    flat = _SIDES_AFTER.sub(r"\1", flat)
    return _BOTH_SIDES.sub(_pair, flat)


def _pair(found: re.Match[str]) -> str:
    first, between, second, organ = found.groups()
    if first == second or between not in (None, organ):
        return found[0]
    return f"both {organ}"


def read_wording(text: str, rule: Rule, organ_names: Iterable[str]) -> Wording:
    """Read the words of a question.

    ``organ_names`` are the names of organs as words between single blanks; what they name is read
    elsewhere, here they are understood.
    """
    said = plain_words(text)
    if not _TOKEN.search(said):
        return Wording()
    said = _SEGMENTS.sub(" segment ", _ASIDES.sub(" ", said))
    groups = _groups_of(rule.subtype)
    sense = Wording()
    asked = asks_for(rule)
    if asked == "presence":
        sense, said = _presence(said)
    elif asked == "size":
        sense, said = _size(said, spleen=rule.subtype.startswith("splenomegaly"))
    elif asked == "direction":
        sense = _direction(said)
    if sense.problem:
        return sense
    largest, problem = _largest(said, groups)
    problem = problem or _opening(said, rule) or _order(said, groups) or _mean_of_what(said)
    unknown = _unknown(said, rule, organ_names)
    filling = not asked and _only_fill(unknown, said)
    if unknown and not filling:
        problem = problem or _quoted("these words are not understood", list(unknown[:8]))
    left_out = unknown if filling else ()
    return Wording(sense.negated, sense.smaller, largest, sense.by_name, problem, left_out)


def asks_for(rule: Rule) -> str:
    """Return what a rule's question may turn round: presence, size or direction; else nothing."""
    groups = _groups_of(rule.subtype)
    if rule.how == "exists":
        return "presence"
    if rule.how == "above" and "enlargement" in groups:
        return "size"
    return "direction" if rule.how == "compare" else ""


def size_words(text: str) -> str:
    """Return a text with its phrases for enlarged and for normal put as these two words."""
    return _NORMAL.sub(" normal ", _ENLARGED.sub(" enlarged ", text))


def harmless_words(rule: Rule) -> frozenset[str]:
    """Return the words that change nothing in a text about a rule's subtype, organs included."""
    return _vocabulary(normal_subtype(rule.subtype)) | _organ_words()


@cache
def _organ_words() -> frozenset[str]:
    rows = names.table().structures.values()
    return frozenset(
        word
        for row in rows
        if not row.lesion
        for word in _TOKEN.findall(f"{row.name} {row.label}".replace("_", " ").casefold())
    ) - {"left", "right"}


def _presence(said: str) -> tuple[Wording, str]:
    if _EITHER_PRESENT.search(said):
        return Wording(by_name=True), _EITHER_PRESENT.sub(" ", said)
    found = _ABSENT.findall(said)
    if len(found) > 1:
        return Wording(problem=_quoted("two negations", found)), said
    before = said.partition("without")[0]
    if before != said and (re.search(_LESION, before) or not _YES_NO_OPENING.match(said)):
        return Wording(problem="it is not clear what is asked to be missing: 'without'"), said
    by_name = bool(_STATE_OPENING.match(said)) and not _NUMBER_OPENING.match(said)
    return Wording(negated=bool(found), by_name=by_name), _ABSENT.sub(" ", said)


def _size(said: str, *, spleen: bool) -> tuple[Wording, str]:
    rest = _ENLARGED.sub(" ", said)
    enlarged = rest != said
    normal = bool(spleen and _NORMAL.search(rest))
    rest = _NORMAL.sub(" ", rest) if spleen else rest
    if enlarged and normal and not re.search(r"\bor\b", said):
        return Wording(problem="it speaks of normal and of enlarged"), rest
    by_name = enlarged == normal or bool(_STATE_OPENING.match(said))
    return Wording(negated=normal and not enlarged, by_name=by_name), rest


def _direction(said: str) -> Wording:
    larger, smaller = _LARGER.findall(said), _SMALLER.findall(said)
    if larger and smaller:
        return Wording(problem=_quoted("it asks for both directions", [*larger, *smaller]))
    return Wording(smaller=bool(smaller), by_name=not (larger or smaller))


def _largest(said: str, groups: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether the largest lesion alone is meant, and the problem if that cannot be told."""
    if groups != _groups_of("lesion volume measurement"):
        return bool(_LARGEST.search(said)), ""
    words = _LARGEST_WORD.findall(said)
    if not words:
        return False, ""
    if not _LARGEST.search(said) or len(words) > 1:
        return False, _quoted("it is not clear what is the", words)
    if _ALL_OF_THEM.search(said):
        return False, "it speaks of the largest lesion and of all of them"
    return True, ""


def _opening(said: str, rule: Rule) -> str:
    """Return the problem where the question asks for another kind of answer than its subtype."""
    wants_yes_no = rule.answer_type.value == "binary"
    if wants_yes_no and _NUMBER_OPENING.match(said):
        return f"it asks for an amount, {rule.subtype!r} answers yes or no"
    numeric = rule.answer_type.value == "numeric"
    if (numeric or rule.how == "compare") and _YES_NO_OPENING.match(said):
        kind = "number" if numeric else "side"
        return f"it asks for yes or no, {rule.subtype!r} answers with one {kind}"
    return ""


def _order(said: str, groups: tuple[str, ...]) -> str:
    """Return the problem where a difference is asked the other way round: organ than lesion."""
    before, than, _ = said.partition(" than ")
    if "difference" in groups and than and not re.search(_LESION, before):
        return "it asks by how much the organ differs from the lesion, not the lesion from it"
    return ""


def _mean_of_what(said: str) -> str:
    """Return the problem where a mean of something else than attenuation is asked for."""
    if not re.search(r"\b(?:mean|average)\b", said):
        return ""
    if re.search(r"\b(?:hu|hounsfield|attenuation|density|intensity|radiodensity)\b", said):
        return ""
    return "it asks for the average of a size"


def _unknown(said: str, rule: Rule, organ_names: Iterable[str]) -> tuple[str, ...]:
    """Return the words that are not known, in their order, each once."""
    tokens = _TOKEN.findall(said)
    rest = f" {' '.join(tokens)} "
    for name in organ_names:
        rest = rest.replace(name, " ")
    known = _vocabulary(normal_subtype(rule.subtype))
    return tuple(dict.fromkeys(token for token in rest.split() if token not in known))


def _only_fill(unknown: tuple[str, ...], said: str) -> bool:
    """Return whether words that are not known can only fill.

    They are few, plain words, none is listed as changing a meaning, and none stands right before a
    finding or an organ, which it might narrow down: ``"calcified lesions"``.
    """
    if len(unknown) > MOST_LEFT_OUT or set(unknown) & _changing():
        return False
    if not all(word.isalpha() and len(word) > 2 and word.isascii() for word in unknown):
        return False
    tokens = _TOKEN.findall(said)
    nouns = (_organ_words() | set(_TOKEN.findall(" ".join(_ADJECTIVES)))) - _vocabulary("")
    narrowed = {
        before
        for before, word in pairwise(tokens)
        if word in nouns or re.fullmatch(_LESION, word) or word in _MEASURED
    }
    return not narrowed & set(unknown)


MOST_LEFT_OUT = 3
"""A question with more words that are not known is not understood."""
_MEASURED = frozenset({"volume", "volumes", "size", "hu", "diameter", "attenuation", "density"})


def _quoted(what: str, words: list[str]) -> str:
    listed = ", ".join(f"'{' '.join(word.split())}'" for word in words)
    return f"{what}: {listed}"


@cache
def _table() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(resource_path("wording.json").read_text(encoding="utf-8"))
    return data


@cache
def _changing() -> frozenset[str]:
    lines: list[str] = _table()["changing"]
    return frozenset(word for line in lines for word in line.split())


@cache
def _subtypes() -> Mapping[str, tuple[str, ...]]:
    rows: Mapping[str, list[str]] = _table()["subtypes"]
    return {normal_subtype(name): tuple(groups) for name, groups in rows.items()}


def _groups_of(subtype: str) -> tuple[str, ...]:
    """Return the groups of words of a subtype; none for one that is not listed."""
    return _subtypes().get(normal_subtype(subtype), ())


@cache
def _vocabulary(subtype: str) -> frozenset[str]:
    groups: Mapping[str, list[str]] = _table()["groups"]
    chosen = _groups_of(subtype)
    lines = [*_table()["any"], subtype, *(_ADJECTIVES if subtype else ())]
    lines += [line for group in chosen for line in groups[group]]
    return frozenset(word for line in lines for word in _TOKEN.findall(line.casefold()))


_ADJECTIVES = ("renal splenic hepatic pancreatic colonic colorectal", "left right")
