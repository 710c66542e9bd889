"""What the words of an option or a short answer mean: one label, or nothing where it is not plain.

A text is understood only where every word of it is: taken up by a label's phrases, or among the
words that change nothing for its subtype. "No lesion is absent" and "not severe" mean nothing.
States (present, normal) and comparisons (the left one is smaller) are absolute: they are turned
into the question's terms once; a bare yes or side is in those terms already.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from napari_ctvqa.core.reading import read_yes_no
from napari_ctvqa.core.rules import Rule, label_words
from napari_ctvqa.core.wording import asks_for, harmless_words, size_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WORD = re.compile(r"[^\W_]+")
_SEGMENT_ENDS = re.compile(r"[(),;:.–—]|\s-\s")
_LEADS = {"yes": "yes", "true": "yes", "false": "no"}
_OTHER = {"yes": "no", "no": "yes"}
_NEGATIONS = frozenset({"no", "not", "none", "absent", "absence", "without", "negative"})
_TURNING = frozenset({
    "no", "not", "none", "nor", "neither", "never", "without", "except", "other", "or", "but",
    "unless", "isn", "aren", "cannot", "t",
})  # fmt: skip
_FOUND = frozenset({
    "present", "presence", "visible", "seen", "detected", "found", "identified", "exist", "exists",
    "positive", "lesion", "lesions", "tumor", "tumors", "tumour", "tumours", "cyst", "cysts",
    "mass", "masses", "nodule", "nodules", "finding", "findings", "cancer", "cancers", "carcinoma",
    "carcinomas", "adenocarcinoma", "adenocarcinomas", "neuroendocrine", "pdac", "pnet",
})  # fmt: skip
_ENLARGED = frozenset({"enlarged", "enlargement", "splenomegaly", "hepatomegaly", "present"})
_LARGER = frozenset({
    "larger", "bigger", "greater", "more", "higher", "largest", "biggest", "greatest", "most",
})  # fmt: skip
_SMALLER = frozenset({"smaller", "less", "fewer", "lower", "smallest", "least"})
_BESIDE_SIDES = frozenset({
    "kidney", "kidneys", "renal", "the", "on", "side", "is", "are", "has", "have", "one", "both",
    "of", "in", "by", "volume", "volumes", "size", "sizes", "a", "than", "other", "lesion",
    "lesions", "tumor", "tumour", "burden", "total", "about", "approximately", "roughly", "nearly",
    "almost", "carries", "it", "they", "show", "shows", "which", "and",
})  # fmt: skip
_ALONE = ("no", "not", "none", "yes", "true", "false")
"""Words of the label table that mean a label only where they are the whole text."""


def plain_label(text: str, rule: Rule, *, negated: bool, smaller: bool, by_name: bool) -> str:
    """Return the label that a text means in the question's terms; empty where it is not plain.

    ``negated``, ``smaller`` and ``by_name`` are the question's (see ``Understood``).
    """
    said = unicodedata.normalize("NFKC", text).casefold()
    if "left" in rule.labels and "right" in rule.labels:
        return _side(said, smaller=smaller, by_name=by_name)
    if set(rule.labels) == {"yes", "no"}:
        return _yes_no(said, rule, negated=negated, by_name=by_name)
    return _agreed(_segments(said), lambda part: _listed(part, rule))


def spoken_label(text: str, rule: Rule, question_text: str) -> str:
    """Return the label that a model's sentence means where it is not a plain one.

    Yes and no are read as answers are; another label where exactly one is said and no word could
    turn it round.
    """
    if set(rule.labels) == {"yes", "no"}:
        return read_yes_no(text, question_text).value
    words = _WORD.findall(text.casefold())
    rest, found = _without_phrases(words, rule)
    return found.pop() if len(found) == 1 and not _TURNING & set(rest) else ""


def _segments(said: str) -> list[list[str]]:
    """Return the words between brackets, commas and dashes, empty parts left out."""
    parts = (_WORD.findall(part) for part in _SEGMENT_ENDS.split(said))
    return [part for part in parts if part]


def _agreed(parts: list[list[str]], meaning: Callable[[list[str]], str]) -> str:
    """Return what all parts of a text mean; empty where one is not understood or they differ."""
    meanings = {meaning(part) for part in parts}
    return meanings.pop() if len(meanings) == 1 else ""


# ----------------------------------------------------------------------------------------- yes/no


def _yes_no(said: str, rule: Rule, *, negated: bool, by_name: bool) -> str:
    parts = _segments(said)
    bare = ""
    if parts and (parts[0] == ["no"] or parts[0][0] in _LEADS):
        bare = _LEADS.get(parts[0][0], "no")
        parts = [part for part in (parts[0][1:], *parts[1:]) if part]
    stated = [_state(part, rule) for part in parts]
    if "?" in stated:
        return ""
    absolute = {state for state in stated if state}
    if negated:
        absolute = {_OTHER[state] for state in absolute}
    if bare and not by_name:
        absolute.add(bare)
    return absolute.pop() if len(absolute) == 1 else ""


def _state(words: list[str], rule: Rule) -> str:
    """Return yes for present or enlarged, no for absent or normal, ``?`` where it is not plain.

    Words that say nothing ("there is") give an empty text.
    """
    kind = asks_for(rule)
    if kind not in ("presence", "size"):
        return _other_state(words, rule)
    if kind == "size":
        words = _WORD.findall(size_words(" ".join(words)))
    affirming = _FOUND if kind == "presence" else _ENLARGED
    normal = kind == "size" and "normal" in words
    known = affirming | _NEGATIONS | _harmless(rule) | ({"normal"} if kind == "size" else set())
    if not set(words) <= known:
        return "?"
    negations = sum(word in _NEGATIONS for word in words)
    affirmed = bool(affirming & set(words))
    if negations == 0:
        return {(True, False): "yes", (False, True): "no", (False, False): ""}.get(
            (affirmed, normal), "?"
        )
    return "no" if negations == 1 and not normal else "?"


def _other_state(words: list[str], rule: Rule) -> str:
    """Return yes or no by the phrases of the table; one "no" before a phrase of yes means no."""
    if len(words) == 1 and words[0] in label_words("no") and words[0] not in ("not",):
        return "no"
    rest, found = _without_phrases(words, rule)
    negations = sum(word in _NEGATIONS for word in rest)
    if not set(rest) <= _harmless(rule) | _NEGATIONS or len(found) > 1 or negations > 1:
        return "?"
    if negations:
        return "no" if found == {"yes"} else "?"
    return found.pop() if found else ""


# ----------------------------------------------------------------------------------- other labels


def _listed(words: list[str], rule: Rule) -> str:
    """Return the label of the table that words mean."""
    for label in rule.labels:
        if " ".join(words) in label_words(label):
            return label
    rest, found = _without_phrases(words, rule)
    return found.pop() if len(found) == 1 and set(rest) <= _harmless(rule) else ""


def _without_phrases(words: Iterable[str], rule: Rule) -> tuple[list[str], set[str]]:
    """Return the words that no phrase of a label takes up, and the labels; long phrases first."""
    text = f" {' '.join(words)} "
    phrases = [
        (phrase, label)
        for label in rule.labels
        for phrase in label_words(label)
        if phrase not in _ALONE
    ]
    found = set()
    for phrase, label in sorted(phrases, key=lambda pair: -len(pair[0])):
        if f" {phrase} " in text:
            found.add(label)
            text = text.replace(f" {phrase} ", " · ")
    return [word for word in text.split() if word != "·"], found


def _harmless(rule: Rule) -> frozenset[str]:
    """Return the words that change nothing in an option of a subtype."""
    return harmless_words(rule) - {"or", "to", "less", "more", "lower", "higher", "than"}


# ------------------------------------------------------------------------------------------ sides


def direction_in(text: str) -> str:
    """Return whether a text speaks of the ``larger`` or the ``smaller`` one; ``?`` for both."""
    words = set(_WORD.findall(text.casefold()))
    if words & _LARGER and words & _SMALLER:
        return "?"
    return "larger" if words & _LARGER else "smaller" if words & _SMALLER else ""


def _side(said: str, *, smaller: bool, by_name: bool) -> str:
    said = said.replace(">", " larger than ").replace("<", " smaller than ").replace("=", " equal ")
    words = _WORD.findall(said)
    text = f" {' '.join(words)} "
    for phrase in sorted(label_words("same"), key=len, reverse=True):
        text = text.replace(f" {phrase} ", " = ")
    rest = set(text.split()) - {"=", "left", "right"}
    direction = direction_in(text)
    if not rest <= _BESIDE_SIDES | _LARGER | _SMALLER or direction == "?":
        return ""
    subject, than, after = text.partition(" than ")
    sides = [side for side in ("left", "right") if f" {side} " in f" {subject} "]
    if "=" in text:
        equal = not direction or "neither" in said
        return "same" if equal and len(sides) != 1 else ""
    if len(sides) != 1 or (than and (not direction or f" {sides[0]} " in f" {after}")):
        return ""
    return turned(sides[0], direction, ("left", "right"), smaller=smaller, by_name=by_name)


def turned(
    label: str, direction: str, both: tuple[str, ...], *, smaller: bool, by_name: bool
) -> str:
    """Return a side in the question's terms: said to be the larger or smaller, or just named."""
    if not direction:
        return "" if by_name else label
    if (direction == "smaller") == smaller:
        return label
    if len(both) != 2:
        return ""
    return both[1] if label == both[0] else both[0]
