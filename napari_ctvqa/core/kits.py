"""What DeepTumorVQA's agents are given: names of its kits, and files behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ORACLE, PREDICTED, VISION, LIVE = "oracle", "predicted", "vision", "live"
KITS = (ORACLE, PREDICTED, VISION, LIVE)


@dataclass(frozen=True)
class KitFiles:
    """Files that a benchmark ships for its kits; None where it has none.

    The caches hold what tools returned, ``crops`` is a folder of pictures
    ``<case>_<organ>.png``.
    """

    oracle_cache: Path | None = None
    predicted_cache: Path | None = None
    crops: Path | None = None
