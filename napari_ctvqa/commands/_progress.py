"""The line on a terminal that says how far a long command is."""

from __future__ import annotations

import os
import sys
import time
from typing import Protocol, Self

from napari_ctvqa.cli import one_line
from napari_ctvqa.core.intervals import percent

_SHOWN_EVERY_S = 0.2
_LEAST_WORDS = 10
"""Fewer characters of a model's words say nothing."""
_TOLD_EVERY_S = 10.0
"""Where stderr is no terminal: a log wants few lines, and yet to know that there is life."""


class Progress(Protocol):
    """What a long command tells of itself."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def seconds_left(self) -> float | None: ...
    @property
    def per_second(self) -> float: ...


class ProgressLine:
    """One line on stderr, rewritten now and then; a line of its own now and then in a log."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty()
        self._shown_at = 0.0 if self._seen else time.monotonic()

    def __enter__(self) -> Self:
        return self

    def show(self, progress: Progress) -> None:
        """Show where it is, not faster than eyes can follow."""
        every = _SHOWN_EVERY_S if self._seen else _TOLD_EVERY_S
        if time.monotonic() - self._shown_at < every:
            return
        self._shown_at = time.monotonic()
        line = progress_line(progress, words=self._seen)
        sys.stderr.write(f"\r\x1b[K{line}" if self._seen else f"napari-ctvqa: {line}\n")
        sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._seen:
            sys.stderr.write("\r\x1b[K")


def tell(sentence: str) -> None:
    """Say on stderr what is being done that takes a while, also where that is no terminal."""
    sys.stderr.write(f"napari-ctvqa: {sentence}\n")
    sys.stderr.flush()


def progress_line(progress: Progress, *, words: bool = False) -> str:
    """Return e.g. ``"120 of 400, 2 failed, 31.5 a second, 9 s left"``, cut to the terminal.

    With ``words`` the last words of the answer that is being written follow, where there is room.
    """
    parts = [f"{progress.done} of {progress.total}"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.per_second:
        parts.append(f"{progress.per_second:.1f} a second")
    said = so_far(getattr(progress, "accuracy", None), getattr(progress, "scored", 0))
    if said:
        parts.append(said)
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 200
    line = ", ".join(parts)
    said = one_line(getattr(progress, "words", "")) if words else ""
    room = width - 1 - len(line) - 2
    if said and room > _LEAST_WORDS:
        line = f"{line}: {said[-room:]}"
    return line[: width - 1]


def so_far(accuracy: float | None, scored: int) -> str:
    """Return ``"official accuracy so far 61.9% of 118"``; empty where nothing is scored."""
    return "" if accuracy is None else f"official accuracy so far {percent(accuracy)} of {scored}"


def duration(seconds: float) -> str:
    """Return ``"9 s"``, ``"3 min"`` or ``"2.5 h"``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count_of(text: str) -> int:
    """Return a count of at least 1. Raises ValueError, which argparse reports."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
