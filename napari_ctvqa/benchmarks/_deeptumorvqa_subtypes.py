"""DeepTumorVQA's 42 subtypes: stage, answer type, primitives, implied unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.reading import read_number, read_yes_no
from napari_ctvqa.core.records import AnswerType


@dataclass(frozen=True, slots=True)
class Subtype:
    """One row of the subtype table."""

    subtype: str
    stage: str
    answer_type: AnswerType
    primitives: tuple[str, ...]
    steps: int
    unit: str
    counting: bool


@cache
def subtypes() -> Mapping[str, Subtype]:
    """Return the 42 subtypes by lower-cased name."""
    table = json.loads(resource_path("deeptumorvqa_subtypes.json").read_text(encoding="utf-8"))
    return {
        row["subtype"].lower(): Subtype(
            row["subtype"], row["stage"], AnswerType(row["answer_type"]),
            tuple(row["primitives"]), row["steps"], row["unit"], row["counting"],
        )
        for row in table["subtypes"]
    }  # fmt: skip


@lru_cache(maxsize=4096)
def spaced(name: str) -> str:
    """Return a name with underscores as blanks, and single blanks."""
    return " ".join(name.replace("_", " ").split())


@lru_cache(maxsize=4096)
def subtype_name(name: str) -> str:
    """Return a subtype as the schema spells it: underscores are spaces, case does not matter."""
    own = spaced(name)
    known = subtypes().get(own.lower())
    return known.subtype if known else own


def unit_and_counting(subtype: str) -> tuple[str, bool]:
    """Return the unit that a subtype implies, and whether it counts something."""
    known = subtypes().get(subtype.lower())
    return (known.unit, known.counting) if known else ("", False)


def inferred_type(reference: str) -> AnswerType:
    """Return the answer type of a subtype that the schema does not have, by its reference."""
    if read_yes_no(reference).value and len(reference) < 8:
        return AnswerType.BINARY
    if read_number(reference).value and len(reference) < 24:
        return AnswerType.NUMERIC
    return AnswerType.CATEGORICAL
