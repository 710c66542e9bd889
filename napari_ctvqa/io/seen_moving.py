"""What models saw, moved from the machine that asked to the one that keeps the result file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.io.mask_files import MASKS
from napari_ctvqa.io.seen_files import ASK, EVENTS, PICTURES, folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from napari_ctvqa.io.seen_writing import SeenFiles

Moved = dict[str, bytes | None]
"""Files by their path in the folder, ``/`` between its parts; None for one that was too much."""

MAX_MOVED_BYTES = 256 * 1024**2
"""Of all files that go with the answers of one task: client and worker hold them in memory."""
_ORDER = {ASK: 0, EVENTS: 0, MASKS: 1}


def packed(folder: Path, max_bytes: int = MAX_MOVED_BYTES) -> Moved:
    """Return everything in a folder of ``io.seen_files``; nothing where there is none.

    Requests and events go first, then masks, then pictures; of what does not fit the name alone.
    """
    moved: Moved = {}
    room = max_bytes
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (_ORDER.get(path.name, 2), path)):
        size = path.stat().st_size
        moved[path.relative_to(folder).as_posix()] = path.read_bytes() if size <= room else None
        room -= size if size <= room else 0
    return moved


def unpacked(moved: Moved, question_ids: Iterable[str], seen: SeenFiles) -> Mapping[str, str]:
    """Put what was moved on disk, of these questions and nothing else.

    Returns by question what of it could not be kept, as a sentence.
    """
    pictures = {
        name.removeprefix(f"{PICTURES}/"): content
        for name, content in moved.items()
        if name.startswith(f"{PICTURES}/") and content is not None
    }
    answers: dict[str, dict[str, bytes]] = {}
    notes: dict[str, str] = {}
    for question_id in question_ids:
        place = folder_name(question_id)
        ask, events = moved.get(f"{place}/{ASK}"), moved.get(f"{place}/{EVENTS}")
        masks = moved.get(f"{place}/{MASKS}")
        if ask is not None and events is not None:
            outlined = {} if masks is None else {MASKS: masks}
            answers[question_id] = {ASK: ask, EVENTS: events, **outlined}
        elif f"{place}/{ASK}" in moved:
            notes[question_id] = f"what the model saw could not be kept ({_TOO_MUCH})"
            continue
        if masks is None and f"{place}/{MASKS}" in moved:
            notes[question_id] = f"what the model outlined could not be kept ({_TOO_MUCH})"
    kept = seen.keep_files(pictures, answers)
    return {
        key: "; ".join(note for note in (notes.get(key), kept.get(key)) if note)
        for key in {**notes, **kept}
    }


_TOO_MUCH = (
    f"too much for a worker to send: {MAX_MOVED_BYTES // 1024**2} MiB for the questions that it "
    "is given at a time"
)
