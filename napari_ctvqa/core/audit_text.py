"""An audit in sentences and as filters: totals with intervals, what sets the two scores apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from napari_ctvqa.core import intervals
from napari_ctvqa.core.audit import ALL, NOT_STATED, OUTCOMES, SUBTYPE
from napari_ctvqa.core.records import AnswerFormat, Outcome
from napari_ctvqa.core.unread import UNREAD_WORDS

if TYPE_CHECKING:
    from napari_ctvqa.core.audit import Audit, CrossTable, Total
    from napari_ctvqa.core.unread import Unread

OUTCOME_WORDS = {
    Outcome.RIGHT: "right",
    Outcome.WRONG: "wrong",
    Outcome.UNREAD: "unread",
    Outcome.UNSCORED: "not scored",
}
FORMAT_WORDS = {AnswerFormat.MC: "multiple choice", AnswerFormat.FREEFORM: "free form"}
INTERVAL_NOTE = (
    "Intervals are Wilson's at 95 % and take answers as independent; those about one CT are not "
    "quite, so the truth is a little wider."
)


def flat(text: str) -> str:
    """Return foreign text on one line, without what is not printable."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share as ``41.2 %``; a dash for none. Only all is ``100.0 %``."""
    if share is None:
        return "–"
    return intervals.percent(share, decimals).replace("%", "\N{NO-BREAK SPACE}%")


def interval_text(total: Total) -> str:
    """Return both ends of the interval in per cent: ``40.2–42.2``."""
    ends = total.interval
    return "–" if ends is None else f"{ends.low * 100:.1f}–{ends.high * 100:.1f}"


def total_text(total: Total) -> str:
    """Return share, interval and numbers of a total in words."""
    if not total.n:
        return "no answer is scored"
    right = f"{total.right:,} of {total.n:,} right"
    if total.partial:
        right = f"with partial credit for numbers; {right}"
    return f"{percent(total.share)} ({interval_text(total)}), {right}"


def short_text(total: Total) -> str:
    """Return share and interval of a total; a dash where nothing is scored."""
    return f"{percent(total.share)} ({interval_text(total)})" if total.n else "–"


def explained(table: CrossTable, titles: tuple[str, str], note: str = "") -> tuple[str, ...]:
    """Return in sentences what makes the two totals differ, or that nothing does.

    ``titles`` are what the scores are called, official first; ``note`` says what sets them apart.
    """
    if not table.n:
        return ()
    official, ours = titles
    return tuple(
        filter(
            None,
            (
                _difference(table, titles),
                _alone(f"Right by “{ours}” alone", official, _cells(table, second=Outcome.RIGHT)),
                _alone(f"Right by “{official}” alone", ours, _cells(table, first=Outcome.RIGHT)),
                _read_otherwise(table),
                _partial(table, official),
                _failures(table, official),
                _numbers_scored(table, titles),
                note if table.differing else "",
            ),
        )
    )


def _difference(table: CrossTable, titles: tuple[str, str]) -> str:
    first, second = table.official.right, table.ours.right
    same = len(table.cells.get((Outcome.RIGHT, Outcome.RIGHT), ()))
    if first == second == same:
        return f"Both count the same {_answers(same)} as right."
    if first == second:
        return f"Both count {_answers(first)} as right, but not the same ones."
    apart = f"{abs(second - first):,} {'more' if second > first else 'fewer'}"
    return f"“{titles[1]}” counts {second:,} as right, “{titles[0]}” {first:,}: {apart}."


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count:,} answers"


def _cells(
    table: CrossTable, first: Outcome | None = None, second: Outcome | None = None
) -> dict[Outcome, int]:
    """Return how often one score says right and the other says what else, by the latter."""
    found: dict[Outcome, int] = {}
    for (official, ours), ids in table.cells.items():
        if first is not None and official is first and ours is not first:
            found[ours] = len(ids)
        if second is not None and ours is second and official is not second:
            found[official] = len(ids)
    return found


def _alone(what: str, other: str, counts: Mapping[Outcome, int]) -> str:
    if not counts:
        return ""
    parts = [f"{OUTCOME_WORDS[o]} {counts[o]:,}" for o in OUTCOMES if o in counts]
    return f"{what}: {sum(counts.values()):,} (by “{other}” {', '.join(parts)})."


def _read_otherwise(table: CrossTable) -> str:
    """Return how many answers are read differently without being right by one score alone."""
    told = {
        key
        for (official, ours), ids in table.cells.items()
        if (official is Outcome.RIGHT) != (ours is Outcome.RIGHT)
        for key in ids
    }
    count = sum(key not in told for key in table.differing)
    if not count:
        return ""
    are = "is" if count == 1 else "are"
    return f"{_answers(count)} more {are} read differently, which changes neither total."


def _partial(table: CrossTable, official: str) -> str:
    total = table.official
    if not total.partial:
        return ""
    return (
        f"“{official}” gives partial credit to numbers: {total.credit:,.1f} of {total.n:,} by "
        f"credit, while {total.right:,} are right (a measured value within 10 %, a count equal)."
    )


def _failures(table: CrossTable, official: str) -> str:
    count = len(table.credited_failures)
    if not count:
        return ""
    failed = "1 failed answer" if count == 1 else f"{count:,} failed answers"
    return f"“{official}” gives credit to {failed}, which is none."


def _numbers_scored(table: CrossTable, titles: tuple[str, str]) -> str:
    first, second = table.official.n, table.ours.n
    if first == second == table.n:
        return ""
    return f"Of {_answers(table.n)} “{titles[0]}” scores {first:,}, “{titles[1]}” {second:,}."


def group_words(table: CrossTable) -> str:
    """Return what a table is about: ``"all answers"``, ``"measurement"``."""
    return "all answers" if table.group == ALL else table.label


def unread_words(kind: Unread) -> str:
    """Return a kind of unread answer for people."""
    return UNREAD_WORDS[kind]


def where_text(
    audit: Audit,
    table: CrossTable,
    *,
    official: Outcome | None = None,
    ours: Outcome | None = None,
    unread: Unread | None = None,
    differing: bool = False,
) -> str:
    """Return the filter (``core.where``) that shows the answers of a cell.

    Empty where a name has a quotation mark in it, which a filter cannot say.
    """
    terms = [_term("model", audit.model)]
    terms += _group_terms(audit, table)
    if official is not None:
        terms.append(f"official:{official.value}")
    if ours is not None:
        terms.append(f"read:{ours.value}")
    if unread is not None:
        terms.append(f"unread:{unread.value}")
    if differing:
        terms.append("outcome:disagrees")
    return "" if any(term.count('"') > 2 for term in terms) else " ".join(terms)


def _group_terms(audit: Audit, table: CrossTable) -> Iterable[str]:
    if table.group == ALL:
        return []
    if table.label != NOT_STATED:
        return [_term(table.group, table.label)]
    named = audit.subtypes if table.group == SUBTYPE else audit.stages
    return [f"-{_term(table.group, t.label)}" for t in named if t.label != NOT_STATED]


def _term(field: str, value: str) -> str:
    return f'{field}:"{value}"'
