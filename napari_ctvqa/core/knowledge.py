"""The knowledge base: 27 facts with their sources, found by keywords as DeepTumorVQA does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from napari_ctvqa._resources import resource_path

NOTHING_FOUND = "Nothing was found for this query."


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact."""

    topic: str
    text: str
    keywords: tuple[str, ...]
    source: str


@cache
def entries() -> tuple[Entry, ...]:
    """Return the facts of ``resources/knowledge.json``, in its order."""
    data = json.loads(resource_path("knowledge.json").read_text(encoding="utf-8"))
    return tuple(
        Entry(row["topic"], row["text"], tuple(row["keywords"]), row["source"])
        for row in data["entries"]
    )


def entry_named(topic: str) -> Entry:
    """Return the fact of that topic. Raises KeyError."""
    for entry in entries():
        if entry.topic == topic:
            return entry
    raise KeyError(topic)


def score(entry: Entry, query: str) -> int:
    """Return how well a fact fits: keywords inside the query, plus words equal to a keyword.

    As in DeepTumorVQA, the query is lower-cased and a keyword is not, so a keyword with capitals
    never matches.
    """
    lowered = query.lower()
    inside = sum(keyword in lowered for keyword in entry.keywords)
    return inside + sum(word in entry.keywords for word in lowered.split())


def search(query: str) -> tuple[Entry, ...]:
    """Return the best fact, and the second where it scores at least half as much; or nothing."""
    return near(query)[:2]


def near(query: str) -> tuple[Entry, ...]:
    """Return every fact that scores at least half as much as the best, best first."""
    ranked = sorted(((score(e, query), e) for e in entries()), key=lambda pair: -pair[0])
    best = ranked[0][0]
    return tuple(entry for points, entry in ranked if best and 2 * points >= best)
