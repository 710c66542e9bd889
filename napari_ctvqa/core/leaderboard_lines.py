"""A published table as lines of plain text, for a terminal and for the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.audit_text import flat
from napari_ctvqa.core.leaderboards import OTHER_CONDITIONS, own_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ctvqa.core.leaderboards import Beside, Leaderboard, OwnValue, Published

_MODEL_WIDTH, _INPUT_WIDTH, _WIDTH = 30, 24, 12
OWN = "▶ "


def board_lines(board: Leaderboard, own: Beside | None) -> Iterator[str]:
    """Yield a table, best overall first, with the run in its place where it is compared."""
    yield f"{board.title}: {board.metric}; {board.questions:,} questions"
    yield f"Source: {board.source}, {board.date}. {' '.join(board.unknown)}"
    titles = [column.title[: _WIDTH - 1] for column in board.columns]
    yield _row("model", "input", "asked", titles)
    rows = sorted(board.rows, key=lambda row: -row.values[0])
    mine = own.values[0].percent if own is not None and own.compared else None
    for row in rows:
        if own is not None and mine is not None and row.values[0] < mine:
            yield _own_row(own)
            mine = None
        yield _published_row(row, board.decimals)
    if own is not None and mine is not None:
        yield _own_row(own)
    yield from (f"* {row.model}: {row.apart}." for row in rows if row.apart)
    yield from (f"* {row.model}: {row.note}" for row in rows if row.note)
    if own is not None:
        if not own.compared and not own.reasons:
            yield _own_row(own)
        yield from own_words(own)
        yield OTHER_CONDITIONS


def _published_row(row: Published, decimals: int) -> str:
    starred = f"{row.model} *" if row.apart or row.note else row.model
    return _row(starred, row.input, row.way, [f"{value:.{decimals}f}" for value in row.values])


def _own_row(own: Beside) -> str:
    cells = [own_cell(value, own.board.decimals) for value in own.values]
    asked = own.asked.kit or own.asked.mode or "?"
    return _row(f"{OWN}{flat(own.model)}", "this run", asked, cells)


def own_cell(value: OwnValue, decimals: int) -> str:
    """Return the run's value in one column, as the table prints values."""
    return "–" if value.percent is None else f"{value.percent:.{decimals}f}"


def _row(model: str, source: str, way: str, cells: Sequence[str]) -> str:
    model = model if len(model) <= _MODEL_WIDTH else model[: _MODEL_WIDTH - 1] + "…"
    source = source if len(source) <= _INPUT_WIDTH else source[: _INPUT_WIDTH - 1] + "…"
    numbers = "".join(f"{cell:>{_WIDTH}}" for cell in cells)
    return f"{model:<{_MODEL_WIDTH}} {source:<{_INPUT_WIDTH}} {way:<9}{numbers}".rstrip()
