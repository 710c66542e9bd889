"""Window presets: an editable table of width and level in HU, with the keys they lie on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SLIDER_RANGE_HU = (-1024.0, 3071.0)
"""What the contrast slider always spans, whatever the window."""

DEFAULT_PRESET = "abdomen"
_MAX_BYTES = 1_000_000
_WIDEST_HU = 100_000.0


@dataclass(frozen=True, slots=True)
class Preset:
    """A named window: ``width`` and ``level`` in HU, ``key`` a single character or empty."""

    name: str
    width: float
    level: float
    key: str = ""

    @property
    def lo(self) -> float:
        """Return the HU shown black: level minus half the width."""
        return self.level - self.width / 2

    @property
    def hi(self) -> float:
        """Return the HU shown white: level plus half the width."""
        return self.level + self.width / 2


@dataclass(frozen=True, slots=True)
class PresetTable:
    """The presets in order, and a sentence for every row that could not be used."""

    presets: tuple[Preset, ...]
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> Preset | None:
        """Return the preset of that name, compared without case; None when there is none."""
        wanted = name.casefold()
        return next((p for p in self.presets if p.name.casefold() == wanted), None)


def width_level(lo: float, hi: float) -> tuple[float, float]:
    """Return (width, level) of a window: the difference, and half the sum."""
    return hi - lo, (hi + lo) / 2


def presets(user_file: Path | None = None) -> tuple[Preset, ...]:
    """Return the shipped presets, changed by the user's file where there is one."""
    return preset_table(user_file).presets


def preset_table(user_file: Path | None = None) -> PresetTable:
    """Return the presets and what was wrong with the user's file.

    A row of the user's file replaces the shipped preset of that name or is added at the end. Its
    key is taken away from whichever preset had it. Nothing in that file stops the others.
    """
    shipped = _shipped()
    if user_file is None or not user_file.is_file():
        return PresetTable(shipped)
    rows, problem = _rows_of(user_file)
    if problem:
        return PresetTable(shipped, (problem,))
    good, problems = _parsed(rows, str(user_file))
    return PresetTable(_merged(shipped, good), problems)


@cache
def _shipped() -> tuple[Preset, ...]:
    path = resource_path("window_presets.json")
    rows, problem = _rows_of(path)
    good, problems = _parsed(rows, str(path))
    if problem or problems:
        raise ValueError(problem or problems[0])
    return good


def _rows_of(path: Path) -> tuple[list[Any], str]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return [], f"{path}: larger than {_MAX_BYTES:,} bytes, not read."
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return [], f"{path}: not readable as JSON ({error}); the shipped presets are used."
    rows = data.get("presets") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        return [], f'{path}: expected {{"presets": [...]}}; the shipped presets are used.'
    return rows, ""


def _parsed(rows: list[Any], where: str) -> tuple[tuple[Preset, ...], tuple[str, ...]]:
    good: list[Preset] = []
    problems: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            good.append(_preset(row))
        except ValueError as error:
            problems.append(f"{where}: preset {number} {error}.")
    return tuple(good), tuple(problems)


def _preset(row: Any) -> Preset:
    if not isinstance(row, dict):
        raise ValueError("is not an object")
    name, key = row.get("name"), row.get("key", "")
    if not isinstance(name, str) or not name.strip() or len(name) > 40:
        raise ValueError("needs a name of 1 to 40 characters")
    if not isinstance(key, str) or len(key) > 1:
        raise ValueError(f"({name}) has a key that is not a single character")
    width, level = (_hu(row.get(part), part, name) for part in ("width", "level"))
    if width <= 0:
        raise ValueError(f"({name}) has a width that is not above 0")
    return Preset(name.strip(), width, level, key)


def _hu(value: Any, part: str, name: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _WIDEST_HU:
        raise ValueError(f"({name}) has no usable {part} in HU")
    return float(value)


def _merged(shipped: Iterable[Preset], user: Iterable[Preset]) -> tuple[Preset, ...]:
    table = {preset.name.casefold(): preset for preset in shipped}
    for preset in user:
        if preset.key:
            table = {
                name: replace(other, key="") if other.key == preset.key else other
                for name, other in table.items()
            }
        table[preset.name.casefold()] = preset
    return tuple(table.values())
