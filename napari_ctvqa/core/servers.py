"""ServerCount: what one of several model servers has done in a run."""

from __future__ import annotations

from dataclasses import dataclass

AT_ONCE = 4
"""Requests under way at each of several servers, where nobody says otherwise."""
MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ServerCount:
    """What one server of a pool has done so far.

    ``answered`` and ``failed`` count requests (an agent makes several a question; one that fails
    here is made of another server). ``seconds`` is the mean time of its answers, None before the
    first; ``why`` is its last failure, empty while it is well.
    """

    url: str
    answered: int = 0
    failed: int = 0
    seconds: float | None = None
    why: str = ""


def server_line(count: ServerCount) -> str:
    """Return e.g. ``"http://a:8000/v1: 80 requests answered, 1.2 s each; 2 failed"``."""
    parts = [f"{count.answered:,} requests answered"]
    if count.seconds is not None:
        parts[0] += f", {count.seconds:.2g} s each"
    if count.failed:
        parts.append(f"{count.failed:,} failed")
    if count.why:
        parts.append(f"resting: {count.why}")
    return f"{count.url}: {'; '.join(parts)}"
