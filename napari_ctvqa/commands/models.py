"""``models``: what can answer questions, what each needs, and why one cannot be run now."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from napari_ctvqa.cli import one_line, speaks_utf8, write_out

if TYPE_CHECKING:
    import argparse

    from napari_ctvqa.runners.choices import Choice

_AT_ONCE = 8


class ModelsCommand:
    """List the models."""

    name = "models"
    help = "list models and agents, what each needs, and why one cannot be run now"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "--offline", action="store_true", help="do not ask the servers that were used before"
        )
        parser.add_argument("--json", action="store_true", help="write a JSON list")

    def run(self, args: argparse.Namespace) -> int:
        """Write the list; return 0."""
        from napari_ctvqa.runners.choices import choices

        listed = choices()
        reasons = {} if args.offline else _asked(listed)
        rows = [_row(choice, reasons.get(index, "")) for index, choice in enumerate(listed)]
        if args.json:
            write_out(json.dumps(rows, ensure_ascii=not speaks_utf8(), indent=1) + "\n")
        else:
            for row in rows:
                write_out(_line(row) + "\n")
        return 0


def _asked(listed: tuple[Choice, ...]) -> dict[int, str]:
    """Ask each remembered server once; return why a model cannot be used, by index."""
    from napari_ctvqa.runners.choices import model_unavailable, offered_by

    places = {
        index: choice.place
        for index, choice in enumerate(listed)
        if choice.place is not None and choice.place.server and not choice.unavailable
    }
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        servers = tuple(dict.fromkeys(place.server for place in places.values()))
        offered = dict(zip(servers, pool.map(offered_by, servers), strict=True))
    return {i: model_unavailable(p.model, offered[p.server]) for i, p in places.items()}


def _row(choice: Choice, reason: str) -> dict[str, Any]:
    from napari_ctvqa.core.plain_data import plain

    place = choice.place
    return {
        "name": choice.name,
        "title": choice.title,
        "kind": choice.kind,
        "available": not (choice.unavailable or reason) and choice.kind != "preset",
        "why_not": choice.unavailable or reason,
        "needs": choice.needs,
        "modes": list(choice.modes),
        "kits": list(choice.kits),
        "preset": choice.preset,
        "where": "" if place is None else place.server or place.folder,
        **plain(choice.facts),
    }


def _line(row: dict[str, Any]) -> str:
    said = row["why_not"] or (f"needs {row['needs']}" if row["kind"] == "preset" else "ready")
    return "  ".join(one_line(str(cell)) for cell in (row["name"], row["title"], said))


COMMAND = ModelsCommand()
