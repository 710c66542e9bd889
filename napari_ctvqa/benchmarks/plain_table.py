"""Your own questions: a CSV or JSON-lines table, see ``_table`` for its columns."""

from __future__ import annotations

from napari_ctvqa.benchmarks._table import Table


class PlainTable(Table):
    """People's own questions in a table."""

    name = "plain_table"
    title = "Plain table"
    generic = True
    """Gives way to any benchmark that recognises a file by its own keys."""


BENCHMARK = PlainTable()
