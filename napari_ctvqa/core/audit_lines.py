"""An audit as lines of plain text, for a terminal and for the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.audit import OUTCOMES
from napari_ctvqa.core.audit_text import (
    INTERVAL_NOTE,
    OUTCOME_WORDS,
    explained,
    flat,
    group_words,
    short_text,
    total_text,
    unread_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ctvqa.core.audit import Audit, CrossTable

_LABEL_WIDTH = 38


def text_lines(made: Audit, titles: tuple[str, str], note: str = "") -> Iterator[str]:
    """Yield the audit for people."""
    total = made.total
    left = (
        f"; {made.unanswered:,} {'has' if made.unanswered == 1 else 'have'} none"
        if made.unanswered
        else ""
    )
    yield f"{total.n:,} answers to {made.questions:,} questions{left}"
    width = max(map(len, titles))
    yield f"{titles[0]:{width}}  {total_text(total.official)}"
    yield f"{titles[1]:{width}}  {total_text(total.ours)}"
    yield from explained(total, titles, note)
    yield ""
    yield from _cross_lines(total, titles)
    for name, tables in (("by stage", made.stages), ("by subtype", made.subtypes)):
        if tables:
            yield ""
            yield from _group_lines(name, tables, titles)
    if total.unread:
        yield ""
        yield f"Unread by “{titles[1]}”:"
        for kind, ids in total.unread.items():
            credited = len(total.credited(kind))
            right = f"; “{titles[0]}” counts {credited:,} as right" if credited else ""
            yield f"{len(ids):>8,}  {kind.value:<13} {unread_words(kind)}{right}"
    yield ""
    yield INTERVAL_NOTE


def _cross_lines(table: CrossTable, titles: tuple[str, str]) -> Iterator[str]:
    yield f"rows: {titles[0]}; columns: {titles[1]}"
    yield " " * 12 + "".join(f"{OUTCOME_WORDS[o]:>12}" for o in OUTCOMES) + f"{'all':>12}"
    for official in OUTCOMES:
        counts = [len(table.ids(official, ours)) for ours in OUTCOMES]
        cells = "".join(f"{count:>12,}" for count in (*counts, sum(counts)))
        yield f"{OUTCOME_WORDS[official]:<12}{cells}"
    sums = [len(table.ids(None, ours)) for ours in OUTCOMES]
    yield f"{'all':<12}" + "".join(f"{count:>12,}" for count in (*sums, sum(sums)))


def _group_lines(
    name: str, tables: tuple[CrossTable, ...], titles: tuple[str, str]
) -> Iterator[str]:
    yield f"{name:<{_LABEL_WIDTH}} {'n':>6}  {titles[0]:<22}  {titles[1]:<22}  ≠"
    for table in tables:
        label = flat(group_words(table))
        label = label if len(label) <= _LABEL_WIDTH else label[: _LABEL_WIDTH - 1] + "…"
        first, second = (short_text(total) for total in (table.official, table.ours))
        differing = f"{len(table.differing):,}"
        yield f"{label:<{_LABEL_WIDTH}} {table.n:>6,}  {first:<22}  {second:<22}  {differing}"
