"""Texts of foreign origin as table cells that a spreadsheet takes as text, not as a formula."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:\s?[A-Za-zµ%]{1,8}[³²]?)?")


def safe_cell(text: str) -> str:
    """Return a cell's text, with an apostrophe before what a spreadsheet would calculate.

    A cell that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to spreadsheets, and a
    question file from elsewhere could hold one that fetches or runs something. Numbers, with or
    without a unit, stay as they are.
    """
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text.strip()):
        return f"'{text}"
    return text


def tab_separated(rows: list[list[str]]) -> str:
    """Return rows as tab-separated text for the clipboard: one line a row, no tabs inside."""
    return "\n".join("\t".join(safe_cell(" ".join(cell.split())) for cell in row) for row in rows)
