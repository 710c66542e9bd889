"""How far a share of answers may lie from the one that more answers would give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

LEVEL = 0.95
_ROUNDED = 9
"""Decimals of a sum of credits: beyond them it is the arithmetic's, not the answers'."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends of an interval, 0 to 1."""

    low: float
    high: float


def percent(share: float, decimals: int = 1) -> str:
    """Return a share from 0 to 1 in percent; only all is ``100.0%``, only nothing is ``0.0%``."""
    said = f"{share:.{decimals}%}"
    least = 10.0**-decimals
    if 0 < share < 1 and said == f"{1:.{decimals}%}":
        return f">{100 - least:.{decimals}f}%"
    if 0 < share < 1 and said == f"{0:.{decimals}%}":
        return f"<{least:.{decimals}f}%"
    return said


@lru_cache(maxsize=4096)
def wilson(credit: float, n: int) -> Interval | None:
    """Return the 95 % Wilson interval of ``credit`` out of ``n``; None for n = 0.

    Partial credits (each 0 to 1) vary less about their mean than right and wrong answers of that
    mean do, so Wilson's interval, taken at the whole numbers around their sum, is at least as wide
    as it must be. Answers are taken as independent.
    """
    from scipy.stats import binomtest  # half a second, which only those who need it wait for

    if not n:
        return None
    total = min(max(round(credit, _ROUNDED), 0.0), float(n))
    low = binomtest(math.floor(total), n).proportion_ci(LEVEL, method="wilson").low
    high = binomtest(math.ceil(total), n).proportion_ci(LEVEL, method="wilson").high
    return Interval(float(low), float(high))
