"""Window presets: an editable table of width and level in HU, with the keys they lie on."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa._resources import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

SLIDER_RANGE_HU = (-1024.0, 3071.0)
"""What the contrast slider always spans, whatever the window."""

DEFAULT_PRESET = "abdomen"
LONGEST_NAME = 40
HU_PER_PIXEL = 4.0
"""How far one pixel of a drag moves width or level, as OHIF does for a CT of 4096 values."""
REGION_PERCENT = (5.0, 95.0)
"""A window from a region shows these percentiles of its HU black and white."""
NARROWEST_HU = 1.0
NARROWEST_FROM_REGION_HU = 10.0
"""A region of equal values still gives a window that noise does not fill."""
_MAX_BYTES = 1_000_000
_WIDEST_HU = 100_000.0
_FINER_BELOW_HU = 400.0


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

    @property
    def default(self) -> Preset:
        """Return the preset to begin with: the abdomen's, or the first of a table without it."""
        return self.named(DEFAULT_PRESET) or self.presets[0]


_BONES = (
    *("vertebrae", "rib_", "humerus", "scapula", "clavicula", "femur", "hip_", "sacrum"),
    *("sternum", "skull", "costal_cartilages"),
)
_SEEN_IN = {"lung": ("lung", "trachea"), "bone": _BONES, "brain": ("brain",)}
"""Beginnings of structures' names by the preset they are looked at in; others: the usual one."""


def preset_of_structure(structure: str, table: PresetTable) -> Preset | None:
    """Return the window that a structure is looked at in where the usual one hides it.

    Lungs, bones and brain; None for all others, and where the table has no such preset.
    """
    for name, beginnings in _SEEN_IN.items():
        if structure.startswith(beginnings):
            return table.named(name)
    return None


def width_level(lo: float, hi: float) -> tuple[float, float]:
    """Return (width, level) of a window: the difference, and half the sum."""
    return hi - lo, (hi + lo) / 2


def dragged(width: float, level: float, right_px: float, down_px: float) -> tuple[float, float]:
    """Return (width, level) after a drag from that window: right widens, down raises the level.

    A pixel is ``HU_PER_PIXEL``; below a width of 400 HU less, in proportion, so that a brain's
    window of 80 HU can be set as finely as a lung's. Both are rounded to whole HU.
    """
    per_px = HU_PER_PIXEL * min(1.0, max(width, NARROWEST_HU) / _FINER_BELOW_HU)
    low, high = SLIDER_RANGE_HU
    new_level = min(max(level + per_px * down_px, low), high)
    new_width = min(max(width + per_px * right_px, NARROWEST_HU), 2 * (high - low))
    return float(round(new_width)), float(round(new_level))


def region_window(values_hu: npt.NDArray[Any]) -> tuple[float, float] | None:
    """Return (width, level) of the 5th to the 95th percentile of HU; None without a value.

    Percentiles are interpolated linearly between values. What is no number is left out.
    """
    values = np.asarray(values_hu, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    lo, hi = np.percentile(values, REGION_PERCENT)
    width, level = width_level(float(lo), float(hi))
    return max(width, NARROWEST_FROM_REGION_HU), level


def presets(user_file: Path | None = None) -> tuple[Preset, ...]:
    """Return the shipped presets, changed by the user's file where there is one."""
    return preset_table(user_file).presets


def preset_table(user_file: Path | None = None) -> PresetTable:
    """Return the presets and what was wrong with the user's file.

    A row of the user's file replaces the shipped preset of that name or is added at the end. Its
    key is taken away from whichever preset had it. ``"removed"`` names shipped presets to leave
    out. Nothing in that file stops the others.
    """
    shipped = shipped_presets()
    if user_file is None or not user_file.is_file():
        return PresetTable(shipped)
    rows, removed, problem = _rows_of(user_file)
    if problem:
        return PresetTable(shipped, (problem,))
    good, problems = _parsed(rows, str(user_file))
    left = [preset for preset in shipped if preset.name.casefold() not in removed]
    return PresetTable(_merged(left, good) or shipped, problems)


def user_changes(table: Sequence[Preset]) -> dict[str, Any]:
    """Return what a user's file has to hold, so that ``preset_table`` gives this table.

    Only what differs from the shipped presets, so that those of a later version arrive.
    """
    shipped = {preset.name.casefold(): preset for preset in shipped_presets()}
    kept = {preset.name.casefold() for preset in table}
    return {
        "presets": [
            {"name": p.name, "width": p.width, "level": p.level, "key": p.key}
            for p in table
            if shipped.get(p.name.casefold()) != p
        ],
        "removed": [preset.name for name, preset in shipped.items() if name not in kept],
    }


def preset_faults(table: Sequence[Preset], taken: Mapping[str, str]) -> dict[int, str]:
    """Return what is wrong with each row of a table that is about to be kept, by its place.

    ``taken`` maps keys of the window, upper case, to what they do.
    """
    faults: dict[int, str] = {}
    names: set[str] = set()
    keys: dict[str, str] = {}
    for place, preset in enumerate(table):
        fault = _fault(preset) or _key_fault(preset, keys, taken)
        if not fault and preset.name.casefold() in names:
            fault = f"there are two presets named {preset.name}"
        names.add(preset.name.casefold())
        if preset.key:
            keys.setdefault(preset.key.upper(), preset.name)
        if fault:
            faults[place] = fault
    return faults


def _fault(preset: Preset) -> str:
    if not preset.name.strip() or len(preset.name) > LONGEST_NAME:
        return f"a name has 1 to {LONGEST_NAME} characters"
    if not NARROWEST_HU <= preset.width <= _WIDEST_HU:
        return f"the width is {NARROWEST_HU:g} to {_WIDEST_HU:g} HU"
    if not math.isfinite(preset.level) or abs(preset.level) > _WIDEST_HU:
        return f"the level is -{_WIDEST_HU:g} to {_WIDEST_HU:g} HU"
    return ""


def _key_fault(preset: Preset, keys: Mapping[str, str], taken: Mapping[str, str]) -> str:
    if len(preset.key) > 1 or (preset.key and not preset.key.isprintable()):
        return "a key is a single character"
    key = preset.key.strip().upper()
    if preset.key and not key:
        return "the space bar is no key for a preset"
    if key in keys:
        return f"the key {preset.key} is that of {keys[key]} already"
    return f"the key {preset.key} is taken: {taken[key]}" if key in taken else ""


@cache
def shipped_presets() -> tuple[Preset, ...]:
    """Return the presets as they come, without the user's changes."""
    path = resource_path("window_presets.json")
    rows, _, problem = _rows_of(path)
    good, problems = _parsed(rows, str(path))
    if problem or problems:
        raise ValueError(problem or problems[0])
    return good


def _rows_of(path: Path) -> tuple[list[Any], set[str], str]:
    """Return the rows of a file, the names it removes, and why neither could be read."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return [], set(), f"{path}: larger than {_MAX_BYTES:,} bytes, not read."
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return [], set(), f"{path}: not readable as JSON ({error}); the shipped presets are used."
    rows = data.get("presets") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        return [], set(), f'{path}: expected {{"presets": [...]}}; the shipped presets are used.'
    removed = data.get("removed", []) if isinstance(data, dict) else []
    named = removed if isinstance(removed, list) else []
    return rows, {name.casefold() for name in named if isinstance(name, str)}, ""


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
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise ValueError(f"needs a name of 1 to {LONGEST_NAME} characters")
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
