"""Published result tables, and one's own run beside them where the two can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.audit import ALL, STAGE, Audit, Total
from napari_ctvqa.core.audit_text import FORMAT_WORDS, interval_text, percent
from napari_ctvqa.core.records import AnswerFormat

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Run

DIRECT, AGENT = "direct", "agent"
RULES = "rules"
OTHER_CONDITIONS = (
    "Published values are the authors' and were not recomputed. Their models were given other "
    "pictures and prompts than this run; ranks are by this run's interval, theirs have none."
)


@dataclass(frozen=True, slots=True)
class Column:
    """What a column of a table is about: ``group`` and ``label`` as an audit has them.

    ``n`` is how many questions it rests on, ``least`` how many answers a published row of it may
    rest on. Where ``missing_is_wrong`` the source divides by ``n`` whatever was scored.
    """

    title: str
    group: str
    label: str
    n: int
    least: int
    missing_is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """One row; ``values`` in per cent, by column. ``apart`` says why it is ranked with no other."""

    model: str
    params: str
    input: str
    mode: str
    kit: str
    values: tuple[float, ...]
    source: str
    apart: str = ""
    note: str = ""

    @property
    def way(self) -> str:
        """Return how it was asked: ``direct``, or the kit of its agent."""
        return way_of(self.mode, self.kit)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """One published table; ``unknown`` holds sentences on what its source does not say."""

    name: str
    benchmark: str
    version: str
    title: str
    format: AnswerFormat
    metric: str
    decimals: int
    questions: int
    source: str
    date: str
    unknown: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Published, ...]

    def peers(self, mode: str, kit: str) -> tuple[Published, ...]:
        """Return the rows asked in the same way, on all questions."""
        way = way_of(mode, kit)
        return tuple(row for row in self.rows if row.way == way and not row.apart)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a run was asked; an empty ``mode`` or, for an agent, ``kit`` is not known.

    ``caveats`` are reasons of the run's own why it stands in no table.
    """

    benchmark: str
    format: AnswerFormat
    mode: str = ""
    kit: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankRange:
    """Which ranks the run's interval leaves open among ``among`` rows, its own counted."""

    best: int
    worst: int
    among: int

    @property
    def text(self) -> str:
        """Return the range in words: ``"between 3rd and 7th of 28"``."""
        if self.best == self.worst:
            return f"{ordinal(self.best)} of {self.among} anywhere in its interval"
        return f"between {ordinal(self.best)} and {ordinal(self.worst)} of {self.among}"


@dataclass(frozen=True, slots=True)
class OwnValue:
    """The run's value in one column: its total, its ranks, or why it is not compared there."""

    total: Total
    rank: RankRange | None = None
    reason: str = ""

    @property
    def percent(self) -> float | None:
        """Return the value in per cent."""
        return None if self.total.share is None else self.total.share * 100


@dataclass(frozen=True, slots=True)
class Beside:
    """One's own run beside a table; ``reasons`` say why it is not compared at all."""

    board: Leaderboard
    model: str
    asked: Asked
    values: tuple[OwnValue, ...]
    reasons: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        """Return whether any column is compared."""
        return any(value.rank is not None for value in self.values)


def way_of(mode: str, kit: str) -> str:
    """Return a mode and a kit in one word: ``direct``, or the kit's name."""
    return DIRECT if mode == DIRECT else kit or AGENT


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``11th``."""
    if 10 < number % 100 < 14:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


@cache
def leaderboards() -> tuple[Leaderboard, ...]:
    """Return the published tables of ``resources/leaderboards.json``, in its order."""
    data = json.loads(resource_path("leaderboards.json").read_text(encoding="utf-8"))
    return tuple(map(_leaderboard, data["tables"]))


def leaderboards_of(benchmark: str) -> tuple[Leaderboard, ...]:
    """Return the tables of a benchmark by its name."""
    return tuple(board for board in leaderboards() if board.benchmark == benchmark)


def _leaderboard(data: Mapping[str, Any]) -> Leaderboard:
    columns = tuple(Column(**{"least": column["n"], **column}) for column in data["columns"])
    rows = tuple(Published(**{**row, "values": tuple(row["values"])}) for row in data["rows"])
    plain = {key: value for key, value in data.items() if key not in ("columns", "rows")}
    plain |= {"format": AnswerFormat(data["format"]), "unknown": tuple(data["unknown"])}
    return Leaderboard(**plain, columns=columns, rows=rows)


# -------------------------------------------------------------------------------------- own run


def asked_of(run: Run, benchmark: str, answer_format: AnswerFormat, *, kit: str = "") -> Asked:
    """Return how a run was asked, as its file says it; ``kit`` where it does not.

    A run that was made in a window, and may be of several settings, says nothing.
    """
    config = run.made.get("config")
    said = str(run.made.get("kit") or "")
    mode = str(config.get("mode") or "") if isinstance(config, Mapping) else ""
    mode = mode or (AGENT if said else "")
    return Asked(
        benchmark,
        answer_format,
        mode,
        (said or kit) if mode == AGENT else "",
        tuple(_caveats(run)),
    )


def _caveats(run: Run) -> Iterator[str]:
    if run.model == RULES:
        yield "the rule agent computes the references by their own rules: it is no baseline"
    if run.made.get("absent_means_none"):
        yield "absent masks were taken as none, which is assumed"
    if run.made.get("segmented_masks"):
        yield "its tools worked on masks that a program made here"


def beside(board: Leaderboard, audit: Audit, asked: Asked) -> Beside:
    """Put a run beside a table: its value in each column, compared where both are of one kind."""
    reasons = tuple(_reasons(board, audit, asked))
    peers = board.peers(asked.mode, asked.kit)
    values = tuple(
        _own_value(board, place, audit, () if reasons else peers)
        for place in range(len(board.columns))
    )
    return Beside(board, audit.model, asked, values, reasons)


def _reasons(board: Leaderboard, audit: Audit, asked: Asked) -> Iterator[str]:
    if asked.benchmark != board.benchmark:
        yield f"the table is of another benchmark ({board.benchmark})"
        return
    if audit.questions != board.questions:
        yield (
            f"these are {audit.questions:,} questions, the table's are the {board.questions:,} of "
            f"{board.version}: another version, or a part of it"
        )
    if asked.format is not board.format:
        yield f"the table is {FORMAT_WORDS[board.format]}, the run {FORMAT_WORDS[asked.format]}"
    if not asked.mode or (asked.mode == AGENT and not asked.kit):
        unsaid = "the run does not say "
        yield unsaid + (
            "with which kit its tools worked"
            if asked.mode
            else "how it was asked (of a run made in a window its result file does: open that)"
        )
    elif not board.peers(asked.mode, asked.kit):
        yield f"the table has no row for {_way_words(asked)}"
    yield from asked.caveats


def _way_words(asked: Asked) -> str:
    return "a direct answer" if asked.mode == DIRECT else f"an agent with the kit {asked.kit}"


def _own_value(
    board: Leaderboard, place: int, audit: Audit, peers: Sequence[Published]
) -> OwnValue:
    column = board.columns[place]
    total = _total_of(audit, column)
    if total.n < column.least:
        return OwnValue(total, reason=f"{total.n:,} of {column.n:,} questions are scored")
    if column.missing_is_wrong:
        total = Total(column.n, total.right, total.credit)
    if total.n > column.n:
        return OwnValue(total, reason=f"{total.n:,} questions instead of {column.n:,}")
    if not peers:
        return OwnValue(total)
    return OwnValue(total, _rank(total, [row.values[place] for row in peers], board.decimals))


def _total_of(audit: Audit, column: Column) -> Total:
    if column.group == ALL:
        return audit.total.official
    tables = audit.stages if column.group == STAGE else audit.subtypes
    wanted = column.label.casefold()
    fitting = (table.official for table in tables if table.label.casefold() == wanted)
    return next(fitting, Total(0, 0, 0.0))


def _rank(total: Total, published: Sequence[float], decimals: int) -> RankRange:
    """Return the ranks that the interval leaves open; printed values may be off by half a digit."""
    ends = total.interval
    assert ends is not None
    off = 0.5 * 10**-decimals
    surely_above = sum(value - off > ends.high * 100 for value in published)
    maybe_above = sum(value + off >= ends.low * 100 for value in published)
    return RankRange(surely_above + 1, maybe_above + 1, len(published) + 1)


# ------------------------------------------------------------------------------------------ text


def own_words(own: Beside) -> tuple[str, ...]:
    """Return in sentences where the run stands, or why it is not compared."""
    if own.reasons:
        return (f"Not compared: {'; '.join(own.reasons)}.",)
    sentences = []
    if own.compared:
        count = len(own.board.peers(own.asked.mode, own.asked.kit))
        asked = "asked directly" if own.asked.mode == DIRECT else f"with the kit {own.asked.kit}"
        sentences.append(f"Ranks are among the {count} published rows {asked}, and this run.")
    for column, value in zip(own.board.columns, own.values, strict=True):
        if value.rank is not None:
            shown = percent(value.total.share, own.board.decimals)
            shown += f" ({interval_text(value.total)})"
            sentences.append(f"{column.title}: {shown}, {value.rank.text}.")
        else:
            sentences.append(f"{column.title}: not compared, {value.reason}.")
    return tuple(sentences)
