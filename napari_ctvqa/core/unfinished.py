"""Unfinished: a run over many questions that was stopped or killed, and can go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Unfinished:
    """A run that did not come to its end.

    ``path`` is its result file, ``answered`` counts its answers and ``failed`` the questions that
    failed, ``stopped`` says when the last one came, in the time of this machine.
    """

    path: str
    model: str
    answer_format: str
    answered: int
    failed: int
    stopped: datetime
