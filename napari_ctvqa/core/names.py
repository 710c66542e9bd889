"""What structures are called: one canonical name for the many names that files and tools use.

Canonical is AbdomenAtlas' name where it has one, else TotalSegmentator's. The table is
``resources/names.json``; a name that it lacks stays as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from napari_ctvqa._resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIDES = ("left", "right")
_LESION_WORD = re.compile(
    r"lesions?|tumou?rs?|cysts?|mass(es)?|nodules?|metastas[ie]s|gtv|pdac|pnet|cancer"
)


@dataclass(frozen=True, slots=True)
class Structure:
    """One row of the alias table."""

    name: str
    label: str
    aliases: tuple[str, ...] = ()
    side: str = ""
    opposite: str = ""
    """The same structure on the other side, where left and right can be compared."""
    lesion: bool = False
    parent: str = ""
    """For a lesion: the organ it lies in."""
    stand_ins: tuple[str, ...] = ()
    """Structures that may stand for this one when its own mask is absent, best first."""
    parts: tuple[str, ...] = ()
    """Structures that this one is the union of, where it has no mask of its own."""
    divisions: tuple[str, ...] = ()
    """Where in an organ a lesion can lie; the organ has a mask of its own."""
    kinds: tuple[str, ...] = ()
    """For a lesion: narrower ones that it holds (a tumour holds adenocarcinomas)."""


@dataclass(frozen=True, slots=True)
class NameTable:
    """The table and its index by normalised name."""

    structures: Mapping[str, Structure]
    by_key: Mapping[str, str]
    right_of: tuple[tuple[str, str], ...]
    """Pairs (A, B): in every patient, A lies to the right of B (situs inversus apart)."""
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of neighbours of which no voxel is both: where two masks share some, one is wrong."""


@cache
def table() -> NameTable:
    """Return the alias table, read once.

    Raises
    ------
    ValueError
        When one alias stands for two structures.
    """
    data = json.loads(resource_path("names.json").read_text(encoding="utf-8"))
    structures = {name: _row(name, row) for name, row in data["structures"].items()}
    by_key: dict[str, str] = {}
    for row in structures.values():
        for name in (row.name, *row.aliases):
            if by_key.setdefault(_key(name), row.name) != row.name:
                raise ValueError(
                    f"names.json: {name!r} stands for {row.name} and {by_key[_key(name)]}"
                )
    apart = tuple((a, b) for a, b in data.get("apart", ()))
    return NameTable(structures, by_key, tuple((a, b) for a, b in data["order_checks"]), apart)


def canonical(name: str) -> str:
    """Return the canonical name, or ``name`` itself where the table has none.

    Case, blanks, hyphens and a leading underscore do not matter, nor where the side stands:
    ``"left kidney"``, ``"Kidney-Left"`` and ``"_kidney_left"`` are ``"kidney_left"``.
    """
    return table().by_key.get(_key(name), name)


def is_known(name: str) -> bool:
    """Return whether the table has this name."""
    return _key(name) in table().by_key


def side_of(structure: str) -> str:
    """Return ``"left"``, ``"right"`` or nothing; by the name's own words where not in the table."""
    row = _find(structure)
    if row is not None:
        return row.side
    words = _words(structure)
    sides = [side for side in _SIDES if side in words]
    return sides[0] if len(sides) == 1 else ""


def opposite_of(structure: str) -> str:
    """Return the same structure on the other side, or nothing where that cannot be compared."""
    row = _find(structure)
    return row.opposite if row is not None else ""


def is_lesion(structure: str) -> bool:
    """Return whether this is a finding rather than an organ; unknown names by their words."""
    row = _find(structure)
    if row is not None:
        return row.lesion
    return any(_LESION_WORD.fullmatch(word) for word in _words(structure))


def parent_of(lesion: str) -> str:
    """Return the organ a lesion lies in, or nothing. It may have parts: ``kidney``."""
    row = _find(lesion)
    return row.parent if row is not None else ""


def parts_of(structure: str) -> tuple[str, ...]:
    """Return what a structure is the union of: kidney -> (kidney_left, kidney_right)."""
    row = _find(structure)
    return row.parts if row is not None else ()


def kinds_of(lesion: str) -> tuple[str, ...]:
    """Return the lesions that are each one of this kind: a tumour's adenocarcinomas."""
    row = _find(lesion)
    return row.kinds if row is not None else ()


def divisions_of(structure: str) -> tuple[str, ...]:
    """Return where in an organ a lesion can lie: segments of the liver, or left and right."""
    row = _find(structure)
    return (row.divisions or row.parts) if row is not None else ()


@cache
def organ_of(division: str) -> str:
    """Return the organ that a structure is a division of, or several of (a lobe); else empty."""
    rows = [row for row in table().structures.values() if not row.lesion]
    found = next((row.name for row in rows if division in divisions_of(row.name)), "")
    parts = parts_of(division)
    whole = organ_of(parts[0]) if not found and parts and not is_lesion(division) else ""
    return found or (whole if whole != division else "")


def label(structure: str) -> str:
    """Return the name for people: ``"left kidney"``."""
    row = _find(structure)
    return row.label if row is not None else structure.strip("_ ").replace("_", " ")


@cache
def neighbours_of(structure: str) -> tuple[str, ...]:
    """Return the organs beside this one that share no voxel with it in the body."""
    pairs = (pair for pair in table().apart if structure in pair)
    return tuple(second if first == structure else first for first, second in pairs)


def candidates(target: str) -> tuple[str, ...]:
    """Return the canonical structures that may stand for a target, best first.

    A stand-in is a finding of the same organ (a lesion mask for a tumour); the parts that make up
    a whole are not stand-ins, see ``parts_of``.
    """
    row = _find(target)
    return (row.name, *row.stand_ins) if row is not None else (target,)


def _find(name: str) -> Structure | None:
    return table().structures.get(canonical(name))


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^0-9a-z]+", name.lower()) if word]


def _key(name: str) -> str:
    words = _words(name)
    return "_".join(sorted(words, key=_SIDES.__contains__))


def _row(name: str, row: Mapping[str, object]) -> Structure:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Structure(**{"name": name, "label": name.replace("_", " "), **fields})  # type: ignore[arg-type]
