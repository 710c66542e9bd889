"""What models saw, moved from the machine that asked to the one that keeps the result file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.io.seen_files import ASK, EVENTS, PICTURES, folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from napari_ctvqa.io.seen_writing import SeenFiles

Moved = dict[str, bytes]
"""Files by their path in the folder, ``/`` between its parts."""


def packed(folder: Path) -> Moved:
    """Return everything in a folder of ``io.seen_files``; nothing where there is none."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def unpacked(moved: Moved, question_ids: Iterable[str], seen: SeenFiles) -> str:
    """Put what was moved on disk, of these questions and nothing else.

    Returns what could not be kept as a sentence, empty for nothing.
    """
    pictures = {
        name.removeprefix(f"{PICTURES}/"): content
        for name, content in moved.items()
        if name.startswith(f"{PICTURES}/")
    }
    answers = {}
    for question_id in question_ids:
        place = folder_name(question_id)
        ask, events = moved.get(f"{place}/{ASK}"), moved.get(f"{place}/{EVENTS}")
        if ask is not None and events is not None:
            answers[place] = {ASK: ask, EVENTS: events}
    return seen.keep_files(pictures, answers)
