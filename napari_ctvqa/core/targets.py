"""What a question is about: its target read from organ, lesion and text, and the masks for it.

Reading is tolerant and says what was understood; where text and record contradict each other, or
nothing is recognised, it says so instead of guessing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.rules import Rule, lesion_classes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.records import Question

_KINDS = (
    ("cyst", r"cysts?|cystic"),
    ("pdac", r"pdac|(?:ductal )?adenocarcinomas?"),
    ("pnet", r"pnet|neuroendocrine"),
    ("tumor", r"tumou?rs?|cancers?|carcinomas?"),
    ("lesion", r"lesions?|mass(?:es)?|findings?|nodules?"),
)
_LARGEST = re.compile(r"\b(?:largest|biggest|dominant|main)\b")
_SMALLER = re.compile(r"\b(?:smaller|smallest|less|lower|lesser|least)\b")
_ABSENT = re.compile(r"\b(?:free of|absence|absent|without|lacks?|no evidence|devoid)\b")
_NORMAL = re.compile(r"\bnormal\b")
_ENLARGED = re.compile(r"\b(?:enlarge\w*|splenomegaly|abnormal\w*|larger|bigger|oversized?)\b")
_NOUNS = {
    "renal": "kidney",
    "splenic": "spleen",
    "hepatic": "liver",
    "pancreatic": "pancreas",
    "colonic": "colon",
}
_WORD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class Understood:
    """What was read from a question.

    ``structure`` is canonical; ``largest`` means the largest lesion alone; ``negated`` that "yes"
    means absence; ``smaller`` that the smaller of two is asked for. ``problem`` is the sentence
    that says why the question cannot be worked on, empty when it can.
    """

    structure: str = ""
    largest: bool = False
    negated: bool = False
    smaller: bool = False
    problem: str = ""

    @property
    def sentence(self) -> str:
        """Return what was understood, for people."""
        if self.problem:
            return self.problem
        parts = [names.label(self.structure)]
        if self.largest:
            parts.append("the largest one only")
        if self.negated:
            parts.append("asked whether it is absent or normal")
        if self.smaller:
            parts.append("asked for the smaller")
        return ", ".join(parts)


def understand(question: Question, rule: Rule) -> Understood:
    """Read target and sense of a question whose subtype has a rule."""
    text = question.text.casefold()
    if rule.target == "{organ}":
        structure, problem = _organ(question, text)
    elif rule.target == "{lesion}":
        structure, problem = _lesion(question, text)
    else:
        structure, problem = rule.target, _other_target(question, rule.target)
    return Understood(
        structure=structure,
        largest=bool(rule.measure_if_largest) and bool(_LARGEST.search(text)),
        negated=_negated(rule, text),
        smaller=rule.how == "compare" and bool(_SMALLER.search(text)),
        problem=problem,
    )


def _negated(rule: Rule, text: str) -> bool:
    if rule.how == "exists":
        return bool(_ABSENT.search(text))
    if rule.how == "above":
        return bool(_NORMAL.search(text)) and not _ENLARGED.search(text)
    return False


def _organ(question: Question, text: str) -> tuple[str, str]:
    """Return the organ a question names, and the problem if it cannot be told.

    Where the text names several, the record's organ says which is meant.
    """
    said = organs_in(text)
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
    if not structure:
        return "", f"no known organ in text or record (organ: {question.organ!r})"
    return structure, ""


def _agree(said: str, recorded: str) -> bool:
    """Return whether two names can mean the same organ: equal, or one is a part of the other."""
    return (
        said == recorded
        or said in names.parts_of(recorded)
        or recorded in names.parts_of(said)
        or recorded in names.candidates(said)
    )


def _narrower(said: str, recorded: str) -> str:
    """Return the more specific of two names that agree; the text's where both are alike."""
    return recorded if recorded in names.parts_of(said) else said


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


def _lesion(question: Question, text: str) -> tuple[str, str]:
    """Return the lesion structure a question names, and the problem if it cannot be told."""
    organ, problem = _organ(question, text)
    if problem:
        return "", problem
    side = names.side_of(organ)
    if side:
        return "", (
            f"asks for the lesions of the {names.label(organ)} alone, "
            "which needs the lesions of one side: not supported yet"
        )
    general, _ = lesion_classes(organ)
    kind = lesion_kind(text, question.lesion)
    if not general:
        named = names.canonical(f"{organ}_{kind}")
        return (named, "") if names.is_known(named) else ("", f"no lesion of {organ} is known")
    if kind == "lesion":
        return general, ""
    for stem in (general.rsplit("_", 1)[0], organ):
        if names.is_known(f"{stem}_{kind}"):
            return names.canonical(f"{stem}_{kind}"), ""
    return "", f"no {kind} of {names.label(organ)} is known"


def lesion_kind(text: str, recorded: str = "") -> str:
    """Return the kind that the text says, else the record: ``lesion``, ``tumor``, ``cyst`` …."""
    for source in (text.casefold(), recorded.casefold()):
        for kind, shape in _KINDS:
            if re.search(rf"\b(?:{shape})\b", source.replace("_", " ")):
                return kind
    return "lesion"


def _other_target(question: Question, target: str) -> str:
    """Return the problem where text or record names another organ than the subtype's own."""
    organ = names.parent_of(target) or target
    recorded = (names.canonical(question.organ),) if names.is_known(question.organ) else ()
    for named in (organs_in(question.text), recorded):
        fitting = [name for name in named if name == target or _agree(name, organ)]
        if named and not fitting:
            return f"it names the {names.label(named[0])}, the subtype is about the {organ}"
        sided = [name for name in fitting if names.side_of(name) and names.parts_of(organ)]
        if sided and names.is_lesion(target):
            return f"asks about the {names.label(sided[0])} alone: not supported yet"
    return ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The masks of a case that stand for one target.

    ``masks`` together are the target; ``exact`` is false where a wider structure stands in, and
    ``whole`` false where only some kinds of it have a mask. ``missing`` says why it cannot be
    checked, empty when there are masks.
    """

    target: str
    masks: tuple[Mask, ...] = ()
    exact: bool = True
    whole: bool = True
    caveats: tuple[str, ...] = ()
    missing: str = ""

    @property
    def structure(self) -> str:
        """Return the structure to draw: the mask's, or of several the one with most voxels."""
        if not self.masks:
            return ""
        return max(self.masks, key=lambda mask: mask.own_region.voxels).structure

    @property
    def empty(self) -> bool:
        """Return whether no mask has a voxel."""
        return all(mask.own_region.empty for mask in self.masks)

    @property
    def assumed(self) -> bool:
        """Return whether the masks stand for the target only by an assumption."""
        given = all(mask.source is not Source.ASSUMED for mask in self.masks)
        return not (self.exact and self.whole and given)


def steps_of(structure: str, *, together: bool) -> tuple[str, ...]:
    """Return the targets that are segmented one after another: both kidneys, or the one organ."""
    parts = names.parts_of(structure)
    lateral = parts and all(names.side_of(part) for part in parts)
    if lateral and not together and not names.is_lesion(structure):
        return parts
    return (structure,)


def structures_for(target: str) -> tuple[str, ...]:
    """Return every canonical structure whose mask may serve for a target, best first."""
    listed: list[str] = []
    general, _ = lesion_classes(names.parent_of(target))
    wider = (general,) if general else ()
    for candidate in (*names.candidates(target), *_kinds_of(target), *wider):
        listed += [candidate, *names.parts_of(candidate)]
    return tuple(dict.fromkeys(listed))


def lesions_of(organ: str) -> tuple[str, ...]:
    """Return the structures that are lesions of an organ (or of both sides of one)."""
    general, _ = lesion_classes(organ)
    if not general:
        whole = [row.name for row in names.table().structures.values() if organ in row.parts]
        general = next((g for g, _ in map(lesion_classes, whole) if g), "")
    if general:
        return structures_for(general)
    return tuple(
        row.name for row in names.table().structures.values() if row.lesion and row.parent == organ
    )


def _kinds_of(target: str) -> tuple[str, ...]:
    general, kinds = lesion_classes(names.parent_of(target))
    return kinds if target == general else ()


def resolve(case: Case, target: str) -> Resolved:
    """Find the masks that stand for a target.

    A structure without a mask file is *missing*, never empty. Any lesion of an organ is the union
    of its lesion mask and the masks of its kinds; a wider mask that stands in for a kind says so.
    """
    target = names.canonical(target)
    kinds = _kinds_of(target)
    own = _with_parts(case.masks, target)
    if own and not kinds:
        return Resolved(target, own)
    if kinds:
        more = [mask for kind in kinds for mask in _with_parts(case.masks, kind)]
        if own:
            return Resolved(target, (*own, *more))
        if more:
            listed = ", ".join(mask.name for mask in more)
            caveat = f"no mask for {target}: measured on {listed}, other kinds may be missing"
            return Resolved(target, tuple(more), whole=False, caveats=(caveat,))
    for stand_in in names.candidates(target)[1:]:
        masks = _with_parts(case.masks, stand_in)
        if masks:
            caveat = f"no mask for {target}: {stand_in} stands in"
            return Resolved(target, masks, exact=False, caveats=(caveat,))
    general, _ = lesion_classes(names.parent_of(target))
    if general in case.masks and case.masks[general].own_region.empty:
        caveat = f"no mask for {target}: {general} is empty, so there is none of any kind"
        return Resolved(target, (case.masks[general],), exact=False, caveats=(caveat,))
    return Resolved(target, missing=why_missing(case, target))


def _with_parts(masks: Mapping[str, Mask], structure: str) -> tuple[Mask, ...]:
    """Return the structure's mask, or the masks of all its parts; nothing if one part lacks."""
    if structure in masks:
        return (masks[structure],)
    parts = names.parts_of(structure)
    if parts and all(part in masks for part in parts):
        return tuple(masks[part] for part in parts)
    return ()


def why_missing(case: Case, target: str) -> str:
    """Return the sentence that says why a target has no mask: absent, unreadable or unread."""
    wanted = structures_for(target)
    for structure in wanted:
        if structure in case.problems:
            return f"no mask for {target}: {case.problems[structure]}"
    by_name = {names.canonical(item.name): item for item in case.files.masks}
    unread = [structure for structure in wanted if structure in by_name]
    broken = [s for s in unread if by_name[s].name in case.problems]
    if broken:
        return f"no mask for {target}: {case.problems[by_name[broken[0]].name]}"
    lacking = [part for part in names.parts_of(target) if part not in case.masks]
    if lacking and len(lacking) < len(names.parts_of(target)):
        return f"no mask for {target}: {', '.join(lacking)} is missing"
    if unread and not any(s in case.masks for s in unread):
        return f"no mask for {target}: its file {'was not' if case.complete else 'is not yet'} read"
    return f"no mask for {target}"
