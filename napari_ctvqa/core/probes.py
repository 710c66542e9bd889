"""The probes: what each changes, and which change of the answer is right for which question.

The table is ``resources/probes.json``. A probe asks the same question again with one thing
changed; ``core.changed_cases`` and ``core.changed_questions`` make the change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.numbers import read_number
from napari_ctvqa.core.reading import normalise
from napari_ctvqa.core.records import AnswerFormat, AnswerType

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

ORIGINAL = "original"
"""The question as it is: what the answers of all probes are compared with."""
VERSION = "probes 2"
"""To be raised with every change of what a probe does: answers of two versions are not mixed."""


class CannotProbeError(CtvqaError):
    """A probe that cannot be made for a question; the message says why."""

    code = "cannot_probe"


class Effect(StrEnum):
    """What a probe must do to the right answer."""

    SAME = "same"
    FLIPS = "flips"
    """Left and right change places in it."""
    NO = "no"
    """Yes becomes no."""
    ZERO = "zero"
    MORE = "more"
    """The number grows."""
    VOID = "void"
    """No answer is right any more."""
    UNKNOWN = "unknown"


CHANGING = frozenset({Effect.FLIPS, Effect.NO, Effect.ZERO, Effect.MORE})
"""The answer must become another, and which one is known."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One row of the table.

    ``expected`` maps a kind of question to the effect; ``follows`` and ``ignores`` are the
    sentences for a batch where the answers change as they must, or do not; ``steady`` and
    ``unsteady`` those for answers that must stay.
    """

    name: str
    title: str
    does: str
    needs: str
    expected: Mapping[str, Effect]
    follows: str = ""
    ignores: str = ""
    steady: str = ""
    unsteady: str = ""


@dataclass(frozen=True)
class ProbeTable:
    """All of ``probes.json``."""

    probes: Mapping[str, Probe]
    kinds: Mapping[str, str]
    subtypes: Mapping[str, str] = field(default_factory=dict)
    rewordings: tuple[tuple[re.Pattern[str], str], ...] = ()
    words: tuple[tuple[str, str], ...] = ()


@cache
def table() -> ProbeTable:
    """Return the table.

    Raises
    ------
    ValueError
        When it names a kind or an effect that there is not.
    """
    data = json.loads(resource_path("probes.json").read_text(encoding="utf-8"))
    kinds: dict[str, str] = data["kinds"]
    unknown = sorted(set(data["subtypes"].values()) - set(kinds))
    if unknown:
        raise ValueError(f"probes.json: {unknown[0]!r} is no kind of question")
    return ProbeTable(
        {name: _probe(name, row, data) for name, row in data["probes"].items()},
        kinds,
        {subtype.casefold(): kind for subtype, kind in data["subtypes"].items()},
        tuple((re.compile(match, re.DOTALL), said) for match, said in data["rewordings"]),
        tuple((anatomical, plain) for anatomical, plain in data["words"]),
    )


def _probe(name: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> Probe:
    stated = row["expected"]
    if isinstance(stated, str):
        left_out = row.get("unless", ())
        stated = {kind: stated for kind in data["kinds"] if kind not in left_out}
    if not set(stated) <= set(data["kinds"]):
        raise ValueError(f"probes.json: {name} expects something of a kind that there is not")
    steady, unsteady = row.get("steady"), row.get("unsteady")
    only_same = all(effect == Effect.SAME for effect in stated.values())
    return Probe(
        name,
        row["title"],
        row["does"],
        row["needs"],
        {kind: Effect(effect) for kind, effect in stated.items()},
        row.get("follows", ""),
        row.get("ignores", ""),
        steady or (row.get("follows", "") if only_same else "") or data["steady"],
        unsteady or (row.get("ignores", "") if only_same else "") or data["unsteady"],
    )


def probes_named(listed: str) -> tuple[str, ...]:
    """Return the probes of a list ``mirrored,blank``; all of them for ``all``.

    Raises
    ------
    NotFoundError
        For a name that there is not.
    """
    known = table().probes
    wanted = [name.strip() for name in listed.split(",") if name.strip()]
    if wanted == ["all"]:
        return tuple(known)
    wrong = [name for name in wanted if name not in known]
    if wrong or not wanted:
        said = repr(wrong[0]) if wrong else "nothing"
        raise NotFoundError(
            f"no probe is called {said}; there are {', '.join(known)}.",
            hint="Give one or several of these, with commas between them, or all.",
        )
    return tuple(dict.fromkeys(wanted))


# --------------------------------------------------------------------------- kinds of questions

_SIDED = re.compile(r"\b(?:left|right)\b", re.IGNORECASE)
_SWAPS = {"left": "right", "right": "left", "l": "r", "r": "l"}
_LESION = r"\b(?:lesions?|tumou?rs?|cysts?|mass(?:es)?|nodules?|pdac|pnet|cancers?|metastas[ie]s)\b"
_BY_WORDS = (
    (r"\bhow many\b|\bnumber of\b|\bcount\b", "count"),
    (r"\bwhich slice\b|\bslice (?:index|number)\b", "slice"),
    (r"\bwhich organ\b", "organ"),
    (r"\bwhich side\b|\bleft or (?:on )?(?:the )?right\b", "side"),
    (r"\bwhich (?:segment|lobe|part)\b", "part"),
    (r"\b(?:hu|attenuation|hounsfield)\b", "hu"),
    (r"\b(?:percentage|per cent|burden)\b", "burden"),
    (r"\bdiameter\b", "lesion_diameter"),
    (r"\bvolume\b|\bcm3\b|\bcm³", "volume"),
)


def kind_of(question: Question) -> str:
    """Return the kind of a question: by its subtype where the table has it, else by its words."""
    kind = table().subtypes.get(question.subtype.casefold()) or _kind_by_words(question)
    if kind != "part":
        return kind
    if _names_a_side(question):
        return "lesion_side"
    text = f"{question.organ} {question.text}".casefold()
    return "liver_part" if "liver" in text or "segment" in text else "part"


def _kind_by_words(question: Question) -> str:
    text = question.text.casefold()
    lesion = bool(re.search(_LESION, text) or question.lesion)
    found = next((kind for words, kind in _BY_WORDS if re.search(words, text)), "")
    if found == "side" or (not found and _names_a_side(question)):
        return "lesion_side" if lesion else "organ_side"
    if found in ("hu", "volume"):
        return f"{'lesion' if lesion else 'organ'}_{found}"
    if found:
        return found
    return "presence" if lesion and is_yes_no(question) else "other"


def is_yes_no(question: Question) -> bool:
    """Return whether a question is answered by yes or no."""
    options = {normalise(option.text) for option in question.options}
    if options:
        return options <= {"yes", "no"}
    said = normalise(question.reference.text)
    return question.answer_type is AnswerType.BINARY or said in ("yes", "no")


def _names_a_side(question: Question) -> bool:
    """Return whether an answer names a side of the patient."""
    options = [option.text for option in question.options]
    texts = options or [question.reference.text]
    if any("lobe" in text.casefold() for text in texts):
        return False  # of the liver: an organ's own left and right are no sides of the patient
    return any(_SIDED.search(text) for text in texts)


def effect_of(probe: str, question: Question, answer_format: AnswerFormat) -> Effect:
    """Return what a probe must do to the right answer of a question, asked in a format.

    In multiple choice the right answer may be none of the options any more: then none is right.
    """
    kind = kind_of(question)
    effect = table().probes[probe].expected.get(kind, Effect.UNKNOWN)
    if probe in ("mirrored", "lesion_copied") and _about_one_side(question.text):
        return Effect.UNKNOWN  # it is about the organ, or the lesions, of the other side then
    if probe == "lesion_removed" and kind == "presence" and _asks_for_absence(question.text):
        return Effect.UNKNOWN
    if answer_format is not AnswerFormat.MC or not question.options:
        return effect
    texts = [option.text for option in question.options]
    if effect is Effect.MORE:
        return Effect.UNKNOWN  # whether the number that is right now is an option is not known
    if effect is Effect.ZERO and not any(_is_zero(text) for text in texts):
        return Effect.VOID
    if effect is Effect.VOID and probe != "blank" and any(_EQUAL.search(text) for text in texts):
        return Effect.UNKNOWN  # "the same" is right where no lesion is left
    return effect


_EQUAL = re.compile(r"\b(?:same|equal(?:ly)?|neither|none|no)\b", re.IGNORECASE)


def _is_zero(text: str) -> bool:
    number = read_number(text).value
    return bool(number) and float(number) == 0


def _about_one_side(text: str) -> bool:
    return len({side.casefold() for side in _SIDED.findall(text)}) == 1


def _asks_for_absence(text: str) -> bool:
    return bool(re.search(r"\b(?:normal|free of|without|no)\b", text.casefold()))


def swapped_sides(text: str) -> str:
    """Return a text with left and right in each other's place; case of letters is kept."""

    def other(match: re.Match[str]) -> str:
        word = match[0]
        swapped = _SWAPS[word.casefold()]
        return swapped.capitalize() if word[0].isupper() else swapped

    return _SIDED.sub(other, text)


def chance_of(question: Question) -> float | None:
    """Return how often a guesser is right who knows what an answer can be; None if not known."""
    if question.options:
        return 1 / len(question.options)
    if is_yes_no(question):
        return 0.5
    return 0.5 if kind_of(question) in ("lesion_side", "organ_side") else None
