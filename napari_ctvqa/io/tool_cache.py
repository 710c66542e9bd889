"""DeepTumorVQA's tool caches: what its tools returned, by case, target and measurement.

``{"cache": {case: {"segment": {target: result}, "measure": {target: {measurement: result}}}}}``;
the outer ``cache`` may be absent. What a result holds is not documented: it is passed on as it is,
and nothing here interprets units or the order of a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.json_files import head_text, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class ToolCache:
    """A cache that was read; ``entries`` maps case id to the foreign object."""

    path: Path
    entries: Mapping[str, Mapping[str, Any]]
    problems: tuple[str, ...] = ()

    def targets(self, case_id: str) -> tuple[str, ...]:
        """Return the targets that a case has results for, in file order."""
        segments, measures = self._part(case_id, "segment"), self._part(case_id, "measure")
        return tuple(dict.fromkeys((*segments, *measures)))

    def segment(self, case_id: str, target: str) -> Any:
        """Return the stored segmentation result, or None when the cache has none."""
        return self._part(case_id, "segment").get(target)

    def measure(self, case_id: str, target: str, measurement: str) -> Any:
        """Return the stored measurement result, or None when the cache has none."""
        by_type = self._part(case_id, "measure").get(target)
        return by_type.get(measurement) if isinstance(by_type, dict) else None

    def _part(self, case_id: str, name: str) -> Mapping[str, Any]:
        part = self.entries.get(case_id, {}).get(name)
        return part if isinstance(part, dict) else {}


def is_tool_cache(path: Path) -> bool:
    """Return whether a file begins like a tool cache; never raises."""
    head = head_text(path, 64 * 1024).lstrip("\ufeff \t\r\n")
    return head.startswith("{") and '"segment"' in head and '"questions"' not in head


def read_tool_cache(path: Path) -> ToolCache:
    """Read a tool cache; a case that is no object becomes a problem.

    Raises
    ------
    InputFileError
        When the file is no JSON object of cases.
    """
    data = read_json(path)
    if isinstance(data, dict) and isinstance(data.get("cache"), dict):
        data = data["cache"]
    if not isinstance(data, dict):
        raise InputFileError(
            path, "holds no object of cases.", hint='Expected {"cache": {case: {"segment": …}}}.'
        )
    entries = {case: entry for case, entry in data.items() if isinstance(entry, dict)}
    problems = tuple(f"{path}: case {case} is no object." for case in data if case not in entries)
    if not any("segment" in e or "measure" in e for e in entries.values()):
        raise InputFileError(
            path,
            "has no case with the key segment or measure.",
            hint='Expected {"cache": {case: {"segment": …, "measure": …}}}.',
        )
    return ToolCache(path, entries, problems)
