"""The odds of options out of the few likeliest tokens that a server tells (``logprobs``).

A server tells, for each token that it wrote, some tokens that it could have written instead. So
the tree of ``worker_odds`` can be followed along the answer alone: another token that spells an
option whole counts for it, whatever would have come after it; what was not told, or would have to
be followed, may be of any option and bounds them all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from napari_ctvqa.core.events import Odds
from napari_ctvqa.runners.worker_odds import Beginnings, Child, Place, place, spread

FIELDS: Mapping[str, Any] = {"logprobs": True, "top_logprobs": 20}
"""What is sent to be told; 20 is the most that any server promises."""
SOURCE = "logprobs"
NONE_TOLD = "the server told no probabilities of tokens; samples (samples:N) can tell"
TOO_MUCH_TOLD = "the probabilities that the server told of one token add up to more than 1"
MOST_TOKENS = 20_000
_MOST_OF_ONE = 1.05
"""What rounded probabilities of all tokens at one place may add up to."""
_MOST_LIKELY = 100
_NOTHING = -1000.0
"""Its exponential is 0; JSON has integers that no float holds."""
_WRITTEN = -1
"""The child that was written; others have their rank."""
_END = re.compile(r"<\|[^|>]{1,40}\|>|</?s>|<eos>|<end_of_turn>|<\|?end\w*\|?>")


@dataclass(frozen=True, slots=True)
class TokenTold:
    """A token, its probability, and whether it ends the answer."""

    data: bytes
    probability: float
    ends: bool = False

    @property
    def text(self) -> str:
        """Return its text; a part of a letter is U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class StepTold:
    """A token that was written, and the likeliest ones at its place, itself among them or not."""

    written: TokenTold
    likely: tuple[TokenTold, ...]


def step_of(entry: object) -> StepTold | None:
    """Return one entry of ``logprobs.content``; None for what is none."""
    if not isinstance(entry, Mapping):
        return None
    written = _token(entry)
    others = entry.get("top_logprobs")
    listed = others[:_MOST_LIKELY] if isinstance(others, list) else []
    likely = tuple(one for item in listed if (one := _token(item)) is not None)
    return None if written is None else StepTold(written, likely)


def _token(entry: object) -> TokenTold | None:
    if not isinstance(entry, Mapping):
        return None
    text, told, share = entry.get("token"), entry.get("bytes"), entry.get("logprob")
    if not isinstance(text, str) or isinstance(share, bool) or not isinstance(share, int | float):
        return None
    if not share <= 1e-3:  # NaN, too
        return None
    ends = _END.fullmatch(text) is not None or not (text or told)
    data = text.encode("utf-8", "replace")
    if isinstance(told, list) and told and all(type(b) is int and 0 <= b < 256 for b in told):
        data = bytes(told)
    return TokenTold(data, min(1.0, math.exp(max(share, _NOTHING))), ends)


def odds(steps: Sequence[StepTold], text: str, written: Mapping[str, Sequence[str]]) -> Odds:
    """Return the odds of the options where an answer begins.

    Parameters
    ----------
    steps
        What was told of each token, thoughts included where the server tells them.
    text
        The answer as it came.
    written
        For each option's letter the texts that say it.
    """
    if not any(step.likely for step in steps):
        return Odds(SOURCE, problem=NONE_TOLD)
    beginnings = Beginnings(written)
    where = place(text, beginnings)
    if where.problem:
        return Odds(SOURCE, problem=where.problem)
    said = beginnings.read(text[where.option :], ended=True)[1]
    first = _first_step(steps, text, where)
    if first is None:
        return Odds(SOURCE, problem="the tokens that the server told are not those of its answer")

    if any(_told_of(step) > _MOST_OF_ONE for step in steps[first:]):
        return Odds(SOURCE, problem=TOO_MUCH_TOLD)

    def expand(path: tuple[int, ...]) -> list[Child] | None:
        at = first + len(path)
        if any(token != _WRITTEN for token in path) or at >= len(steps):
            return None
        return _children(steps[at])

    found = spread(beginnings, expand)
    return Odds(SOURCE, found.masses, found.unfollowed, said)


def _first_step(steps: Sequence[StepTold], text: str, where: Place) -> int | None:
    """Return the step at which the answer begins, None where the tokens do not fit the text."""
    data = b"".join(step.written.data for step in steps if not step.written.ends)
    body = text.encode("utf-8", "replace")
    begins = data.rfind(body.strip())
    if begins < 0 or not body.strip():
        return None
    begins -= len(body) - len(body.lstrip())
    start = begins + len(text[: where.start].encode("utf-8", "replace"))
    option = begins + len(text[: where.option].encode("utf-8", "replace"))
    at = 0
    for number, step in enumerate(steps):
        if start <= at <= option:
            return number
        at += 0 if step.written.ends else len(step.written.data)
    return None


def _told_of(step: StepTold) -> float:
    return sum(child.probability for child in _children(step))


def _children(step: StepTold) -> list[Child]:
    """Return the tokens at one place, each once; the written one may be none of the likeliest."""
    mine = step.written
    found = [Child(_WRITTEN, mine.text, mine.probability, mine.ends)]
    seen = {mine.data}
    for rank, one in enumerate(step.likely):
        if one.data not in seen:
            seen.add(one.data)
            found.append(Child(rank, one.text, one.probability, one.ends))
    return found
