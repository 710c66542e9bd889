"""What a question is about: its target read from organ, lesion, text and options.

Reading is tolerant and says what was understood; where text and record contradict each other, or
nothing is recognised, it says so instead of guessing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.rules import Rule, lesion_classes
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.targets import sides_of
from napari_ctvqa.core.wording import plain_words, read_wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.records import Question

_KINDS = (
    ("cyst", r"cysts?|cystic"),
    ("pdac", r"pdac|(?:ductal )?adenocarcinomas?"),
    ("pnet", r"pnet|neuroendocrine"),
    ("tumor", r"tumou?rs?|cancers?|carcinomas?"),
    ("lesion", r"lesions?|mass(?:es)?|findings?|nodules?"),
)
_KIND_WORDS = re.compile("|".join(rf"\b(?:{shape})\b" for _, shape in _KINDS))
_BURDEN = re.compile(r"\btumou?r burden\b")
_NOUNS = {
    "renal": "kidney",
    "splenic": "spleen",
    "hepatic": "liver",
    "pancreatic": "pancreas",
    "colonic": "colon",
}
_SHORT_RATIOS = {
    "l/s": ("liver", "spleen"),
    "p/s": ("pancreas", "spleen"),
    "s/l": ("spleen", "liver"),
    "s/p": ("spleen", "pancreas"),
}
_WORD = re.compile(r"[0-9a-z]+")
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8}
_NUMBER = r"(?:[1-8]|viii|vii|vi|iv|v|iii|ii|i)"
_SEGMENTS = re.compile(
    rf"\bsegments?\s+({_NUMBER}\b(?:\s*(?:,|and|or|&|/|\+|vs\.?|versus|with|than|to)\s*"
    rf"(?:(?:liver )?segments?\s+)?{_NUMBER}\b)*)"
)
_BARE = re.compile(rf"(?:{_NUMBER})(?:\s*[,/&+]\s*(?:{_NUMBER}))*")


@dataclass(frozen=True, slots=True)
class Understood:
    """What was read from a question.

    ``structure`` is what it is about, canonical (``"kidney_lesion in kidney_left"`` for the lesions
    of one side). ``largest`` means the largest lesion alone; ``negated`` that "yes" means absence;
    ``smaller`` that the smaller of two is asked for. ``listed`` are the structures gone through
    (compared, added up, looked at). ``variant`` is the rule's variant that the text asks for.
    ``by_name`` means that a state or side is to be named: a bare yes, no or side says nothing.
    ``left_out`` are words that are not known and can only fill. ``problem`` is the sentence that
    says why the question cannot be worked on, empty when it can.
    """

    structure: str = ""
    largest: bool = False
    negated: bool = False
    smaller: bool = False
    problem: str = ""
    listed: tuple[str, ...] = ()
    variant: str = ""
    by_name: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def lesion(self) -> str:
        """Return the lesions that are meant; empty where the question is about an organ."""
        return self.structure if names.is_lesion(self._chosen) else ""

    @property
    def organ(self) -> str:
        """Return the organ that is meant: of lesions the one (or the side) they lie in."""
        if not self.lesion:
            return self.structure
        within = selection(self.structure).within
        whole = names.parent_of(self._chosen)
        return within if within in names.parts_of(whole) else whole

    @property
    def site(self) -> str:
        """Return where the lesions that are meant lie: a part of the organ, or all of it."""
        return selection(self.structure).within or self.organ

    @property
    def left_out_text(self) -> str:
        """Return which words of the question are not known and were left out, empty for none."""
        return f"words that were not understood: {_quoted(self.left_out)}" if self.left_out else ""

    @property
    def _chosen(self) -> str:
        return selection(self.structure).structure

    @property
    def answers(self) -> tuple[str, ...]:
        """Return the structures that an answer can be, of those listed: organs for lesions."""
        return tuple(names.parent_of(s) if names.is_lesion(s) else s for s in self.listed)

    @property
    def sentence(self) -> str:
        """Return what was understood, for people."""
        if self.problem:
            return self.problem
        parts = [selection(self.structure).label]
        every = set(self.listed) == set(names.divisions_of(self.organ))
        if self.listed and not every and self.structure not in self.listed:
            parts.append(f"of {_enumerated(self.listed)}")
        if self.largest:
            parts.append("the largest one only")
        if self.negated:
            parts.append("asked whether it is absent or normal")
        if self.smaller:
            parts.append("asked for the smaller")
        if self.by_name:
            parts.append("asked for the state by name")
        if self.left_out:
            parts.append(self.left_out_text)
        return ", ".join(parts)


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _enumerated(structures: Sequence[str]) -> str:
    labels = [names.label(structure) for structure in structures]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def understand(question: Question, rule: Rule) -> Understood:
    """Read target and sense of a question whose subtype has a rule."""
    plain = plain_words(question.text)
    question = replace(question, text=plain)
    structure, listed, problem = _about(question, rule, _BURDEN.sub("lesion burden", plain))
    wording = read_wording(plain, rule, (words for words, _ in _organ_names()))
    return Understood(
        structure=structure,
        largest=bool(rule.steps_if_largest) and wording.largest,
        negated=wording.negated,
        smaller=wording.smaller,
        problem=wording.problem or problem,
        listed=listed,
        variant=_variant(question, rule),
        by_name=wording.by_name,
        left_out=wording.left_out,
    )


def _about(question: Question, rule: Rule, text: str) -> tuple[str, tuple[str, ...], str]:
    """Return what a question is about, the structures it lists, and the problem if any."""
    if rule.target in ("{organs}", "{lesions}"):
        return _several(question, rule)
    if rule.target == "{organ}":
        problem = _one_of_several(text)
        structure, problem = ("", problem) if problem else _organ(question, text)
    elif rule.target == "{lesion}":
        structure, problem = _lesion(question, text, placed=rule.listed != "parts")
    elif rule.target == "{any lesion}":
        structure, problem = _lesion(question, _KIND_WORDS.sub("lesion", text))
    else:
        structure, problem = rule.target, _other_target(question, rule)
        if not problem and rule.listed == "" and names.is_lesion(rule.target):
            structure = _on_asked_side(question, rule.target)
    if problem:
        return structure, (), problem
    listed, problem = _listed(question, rule, structure)
    return structure, listed, problem


def _variant(question: Question, rule: Rule) -> str:
    """Return the variant whose words the question says, empty where it says none's."""
    options = " ".join(option.text for option in question.options)
    text = f"{question.text} {options}".casefold()
    said = [v.name for v in rule.variants if v.words and re.search(v.words, text)]
    return said[0] if said else ""


def _listed(question: Question, rule: Rule, structure: str) -> tuple[tuple[str, ...], str]:
    """Return the structures that a rule goes through for this question, or the problem."""
    if isinstance(rule.listed, tuple):
        return rule.listed, ""
    if not rule.listed:
        return (), ""
    chosen = selection(structure)
    organ = names.parent_of(chosen.structure) or chosen.structure
    if rule.listed == "divisions":
        divisions = names.divisions_of(organ)
        return divisions, "" if divisions else f"no parts of {names.label(organ)} are known"
    if rule.listed == "options":
        texts = [option.text for option in question.options]
        named = [_on_one_side(organs_in_order(text), text) for text in texts]
        found = tuple(dict.fromkeys(name for name in named if name))
        return found, "" if found else "no option names a known organ"
    return _parts_asked(question, rule, organ)


def _on_one_side(found: Sequence[str], text: str) -> str:
    return found[0] if found else ""


def _parts_asked(question: Question, rule: Rule, organ: str) -> tuple[tuple[str, ...], str]:
    """Return the parts that a question names in its text, else in its options."""
    wanted = 2 if rule.how == "compare" else 1
    for text in (question.text, " ".join(option.text for option in question.options)):
        found = parts_in(text, organ)
        if len(found) >= wanted:
            return found if wanted == 1 else found[:2], ""
    return (), f"names no {'two parts' if wanted == 2 else 'part'} of the {names.label(organ)}"


def parts_in(text: str, organ: str) -> tuple[str, ...]:
    """Return the parts of an organ that a text names, in its order.

    ``"segments 7 and 2"``, ``"segment VIII"``, ``"5/8"``, ``"head,body"``, ``"right"``; a lobe
    where it is named. Bare numbers count only where the text is nothing else.
    """
    lowered = text.casefold().strip()
    if organ == "liver":
        return _segments_in(lowered)
    found = []
    for part in names.divisions_of(organ):
        word = part.rsplit("_", 1)[-1]
        at = re.search(rf"\b{word}\b", lowered)
        if at:
            found.append((at.start(), part))
    return tuple(part for _, part in sorted(found))


def _segments_in(text: str) -> tuple[str, ...]:
    groups = [(m.start(), m[1]) for m in _SEGMENTS.finditer(text)]
    if not groups and _BARE.fullmatch(text):
        groups = [(0, text)]
    found = [
        (at + hit.start(), f"liver_segment_{_ROMAN.get(hit[0]) or int(hit[0])}")
        for at, group in groups
        for hit in re.finditer(rf"\b{_NUMBER}\b", group)
    ]
    for words, part in (
        ("caudate", "liver_segment_1"),
        ("right lobe|right hepatic lobe", "liver_right_lobe"),
        ("left lobe|left hepatic lobe", "liver_left_lobe"),
    ):
        found += [(hit.start(), part) for hit in re.finditer(rf"\b(?:{words})\b", text)]
    return tuple(dict.fromkeys(part for _, part in sorted(found)))


def _several(question: Question, rule: Rule) -> tuple[str, tuple[str, ...], str]:
    """Return the organs (or their lesions) that a question names, in the order of its text."""
    lesions = rule.target == "{lesions}"
    text = question.text.casefold()
    none: tuple[str, ...] = ()
    found = next((pair for short, pair in _SHORT_RATIOS.items() if short in text), none)
    texts = [question.text] + (
        [" ; ".join(option.text for option in question.options)] if lesions else []
    )
    for source in texts:
        if len(found) < 2:
            found = organs_in_order(source)
    recorded = names.canonical(question.organ) if names.is_known(question.organ) else ""
    if rule.expand and len(found) < 2:
        whole = found[0] if found else recorded
        found = sides_of(whole) if whole else ()
    if len(found) < 2:
        named = _enumerated(found) if found else "no organ"
        return "", (), f"names {named}, where two or more organs are needed"
    if recorded and not any(_agree(organ, recorded) for organ in found):
        return (
            "",
            (),
            (
                f"the text names the {names.label(found[0])}, the record's organ says "
                f"{question.organ!r}"
            ),
        )
    if lesions:
        unknown = [organ for organ in found if not lesion_classes(organ)[0]]
        if unknown:
            return "", (), f"no lesion of {names.label(unknown[0])} is known"
        found = tuple(lesion_classes(organ)[0] for organ in found)
    return found[0], tuple(found), ""


def organs_in_order(text: str) -> tuple[str, ...]:
    """Return the organs that a text names, in its order, each once."""
    said = _as_words(text)
    said = " ".join(_NOUNS.get(word, word) for word in said.split(" "))
    found: list[tuple[int, str]] = []
    for words, structure in _organ_names():
        while words in said:
            at = said.index(words)
            found.append((at, structure))
            said = f"{said[:at]} {'·' * (len(words) - 2)} {said[at + len(words) :]}"
    ordered = [structure for _, structure in sorted(found)]
    sides = {side for side in ("left", "right") if f" {side} " in said}
    if len(sides) == 1:
        ordered = [_on_side(organ, next(iter(sides))) for organ in ordered]
    return tuple(dict.fromkeys(ordered))


def _organ(question: Question, text: str) -> tuple[str, str]:
    """Return the organ a question names, and the problem if it cannot be told."""
    said = organs_in(text)
    problem = several_organs(said)
    if problem:
        return "", problem
    recorded = names.canonical(question.organ) if names.is_known(question.organ) else ""
    if said and recorded:
        fitting = [organ for organ in said if _agree(organ, recorded)]
        if not fitting:
            return "", (
                f"the text names the {names.label(said[0])}, "
                f"the record's organ says {question.organ!r}"
            )
        return _narrower(fitting[0], recorded), ""
    structure = said[0] if said else recorded
    if not structure and _SEGMENTS.search(text):
        structure = "liver"  # no other organ has numbered segments here
    if not structure:
        return "", f"no known organ in text or record (organ: {question.organ!r})"
    return structure, ""


def _one_of_several(text: str) -> str:
    """Return the problem where a text about one organ names two sides or two parts of it."""
    said = organs_in(text)
    parts = [organ for organ in said if names.organ_of(organ) and not names.parts_of(organ)]
    words = _as_words(text)
    if len(parts) > 1:
        return f"it names several parts: {_enumerated(parts)}"
    return "it names both sides" if " left " in words and " right " in words else ""


def several_organs(said: Sequence[str]) -> str:
    """Return the problem where a text about one organ names several, empty where it does not.

    An organ beside its own parts is one organ; which of two others is meant is not guessed.
    """
    wholes = tuple(dict.fromkeys(names.organ_of(organ) or organ for organ in said))
    if len(wholes) < 2:
        return ""
    return f"it names several organs: {_enumerated(wholes)}"


def _agree(said: str, recorded: str) -> bool:
    """Return whether two names can mean the same organ: equal, or one is a part of the other."""
    return (
        said == recorded
        or recorded in (names.organ_of(said), *names.parts_of(said), *names.candidates(said))
        or said in (names.organ_of(recorded), *names.parts_of(recorded))
    )


def _narrower(said: str, recorded: str) -> str:
    """Return the more specific of two names that agree; the text's where both are alike."""
    return recorded if recorded in names.divisions_of(said) else said


@cache
def _organ_names() -> tuple[tuple[str, str], ...]:
    """Return (words, structure) for every organ name of the table, longest first."""
    found: dict[str, str] = {}
    for row in names.table().structures.values():
        if row.lesion:
            continue
        for name in (row.name, row.label, *row.aliases):
            found.setdefault(_as_words(name), row.name)
        if row.side:
            bare = row.name.replace(f"_{row.side}", "")
            found.setdefault(_as_words(f"{row.side} {bare}"), row.name)
    return tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _as_words(text: str) -> str:
    """Return the words of a text between single blanks, so that ``in`` finds whole words only."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def organs_in(text: str) -> tuple[str, ...]:
    """Return the canonical organs that a text names, the longest name first.

    A text that names an organ of two sides and exactly one side means that side. Adjectives
    (renal, hepatic …) are understood where no organ is named by its noun.
    """
    said = _as_words(text)
    found = _named_in(said)
    if not found:
        found = _named_in(" ".join(_NOUNS.get(word, word) for word in said.split(" ")))
    sides = {side for side in ("left", "right") if f" {side} " in said}
    if len(sides) == 1:
        found = [_on_side(organ, next(iter(sides))) for organ in found]
    return tuple(dict.fromkeys(found))


def _named_in(text: str) -> list[str]:
    """Return the organs named in words between blanks; a name within a longer one is none."""
    found = []
    for words, structure in _organ_names():
        if words in text:
            found.append(structure)
            text = text.replace(words, " · ")
    return found


def _on_side(organ: str, side: str) -> str:
    """Return the part of an organ on that side, the organ itself where it has none."""
    return next((part for part in names.parts_of(organ) if names.side_of(part) == side), organ)


def _lesion(question: Question, text: str, *, placed: bool = True) -> tuple[str, str]:
    """Return the lesion structure a question names, and the problem if it cannot be told.

    Where it names a part of the organ, the lesions in that part are meant; not ``placed`` where the
    parts are what is asked about.
    """
    organ, problem = _organ(question, text)
    if problem:
        return "", problem
    whole = names.organ_of(organ) or organ
    structure, problem = _lesion_of(whole, text, question.lesion)
    if problem or not placed:
        return structure, problem
    place = parts_in(text, whole) or ((organ,) if organ != whole else ())
    everywhere = set(place) == set(names.divisions_of(whole))
    return (f"{structure} in {'+'.join(place)}" if place and not everywhere else structure), ""


def _lesion_of(organ: str, text: str, recorded: str) -> tuple[str, str]:
    """Return the lesions of an organ of the kind that is said, and the problem if none is known."""
    problem = several_kinds(text)
    if problem:
        return "", problem
    general, _ = lesion_classes(organ)
    kind = lesion_kind(text, recorded)
    if not general:
        named = names.canonical(f"{organ}_{kind}")
        return (named, "") if names.is_known(named) else ("", f"no lesion of {organ} is known")
    if kind == "lesion":
        return general, ""
    for stem in (general.rsplit("_", 1)[0], organ):
        if names.is_known(f"{stem}_{kind}"):
            return names.canonical(f"{stem}_{kind}"), ""
    return "", f"no {kind} of {names.label(organ)} is known"


def _on_asked_side(question: Question, lesion: str) -> str:
    """Return the lesions of the one side that text or record name, all where they name none."""
    organ = names.parent_of(lesion)
    recorded = names.canonical(question.organ) if names.is_known(question.organ) else ""
    said = [part for part in organs_in(question.text) if part in names.parts_of(organ)]
    sides = said or ([recorded] if recorded in names.parts_of(organ) else [])
    return f"{lesion} in {sides[0]}" if len(sides) == 1 else lesion


def lesion_kind(text: str, recorded: str = "") -> str:
    """Return the kind that the text says, else the record: ``lesion``, ``tumor``, ``cyst`` …."""
    for source in (text.casefold(), recorded.casefold()):
        for kind, shape in _KINDS:
            if re.search(rf"\b(?:{shape})\b", source.replace("_", " ")):
                return kind
    return "lesion"


def several_kinds(text: str, wanted: str = "") -> str:
    """Return the problem where a text names several kinds of lesion, or another than is wanted.

    A PDAC or PNET may be called a tumour too, and every kind a lesion.
    """
    said = [kind for kind, shape in _KINDS if re.search(rf"\b(?:{shape})\b", text)]
    special = [kind for kind in said if kind != "lesion"]
    if "tumor" in special and {"pdac", "pnet"} & set(special):
        special.remove("tumor")
    if len(special) > 1:
        return f"it names several kinds of lesion: {' and '.join(special)}"
    kind = (special or said)[:1]
    if wanted and kind and kind[0] != wanted:
        return f"it speaks of {kind[0]}s, the subtype is about {wanted}s"
    return ""


def _other_target(question: Question, rule: Rule) -> str:
    """Return the problem where text or record are about something else than the subtype's own."""
    target = rule.target
    organ = names.parent_of(target) or target
    others = rule.listed if isinstance(rule.listed, tuple) else ()
    recorded = (names.canonical(question.organ),) if names.is_known(question.organ) else ()
    for named in (organs_in(question.text), recorded):
        fitting = [name for name in named if name == target or _agree(name, organ)]
        if named and not fitting:
            return f"it names the {names.label(named[0])}, the subtype is about the {organ}"
        unlike = [name for name in named if name not in (*fitting, *others)]
        if unlike:
            return several_organs((organ, *unlike))
    if rule.how != "exists":
        return ""
    kind = next((kind for kind, _ in _KINDS if target.endswith(f"_{kind}")), "")
    return several_kinds(question.text, kind)
