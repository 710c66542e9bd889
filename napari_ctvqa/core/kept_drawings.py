"""KeptDrawing: a drawing with its name and numbers, and what of it is written to a file.

An entry says everything in words and units of its own, so that it can be read without this
program: plane, slice as shown and in the file, points as display indices and in LPS mm, every
value with its unit, the rule, the version that measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa import __version__
from napari_ctvqa.core.drawings import Drawing, Kind
from napari_ctvqa.core.errors import RecordError
from napari_ctvqa.core.measuring import Measured, measured
from napari_ctvqa.core.view_text import PLANES

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

SOFTWARE = f"napari-ctvqa {__version__}"
LONGEST_NAME = 80
MOST_POINTS = 1000
_FARTHEST_VOXELS = 1e5
_SAME_SHARE = 1e-4
_FILE_AXES = "ijk"


@dataclass(frozen=True, slots=True)
class KeptDrawing:
    """A drawing on disk; ``found`` is what it measures now, ``note`` where that was different."""

    id: str
    name: str
    drawing: Drawing
    made_at: str
    """When it was last changed, ISO 8601, UTC."""
    found: Measured
    note: str = ""


def entry_of(kept: KeptDrawing, case: Case) -> dict[str, Any]:
    """Return what is written of a drawing: JSON's types only.

    Positions in mm are left out where the geometry is not to be trusted.
    """
    drawing, grid = kept.drawing, case.volume.display_grid
    index = drawing.index_zyx
    file = grid.file_slice(drawing.plane, drawing.slice_index)
    lps_mm = None
    if case.report.side_trusted:
        lps_mm = (grid.ras_mm(index) * (-1.0, -1.0, 1.0)).tolist()
    return {
        "id": kept.id,
        "name": kept.name,
        "kind": drawing.kind.value,
        "plane": PLANES[drawing.plane],
        "slice_shown_from_1": drawing.slice_index + 1,
        "file_axis": None if file is None else _FILE_AXES[file[0]],
        "file_slice_from_0": None if file is None else file[1],
        "points_display_zyx": index.tolist(),
        "points_lps_mm": lps_mm,
        "values": [
            {"measure": m.measure, "value": m.value, "unit": m.unit, "caveats": list(m.caveats)}
            for m in kept.found.values
        ],
        "caveats": list(kept.found.caveats),
        "rule": kept.found.rule,
        "software": SOFTWARE,
        "made_at": kept.made_at,
        "case": case.case_id,
    }


def kept_of(entry: Mapping[str, Any], case: Case) -> KeptDrawing:
    """Return the drawing of an entry, measured anew on its case.

    Where a number that was written is not the one that is measured now, ``note`` says so.

    Raises
    ------
    RecordError
        When the entry is none of ours, or its points do not fit on the case.
    """
    drawing = _drawing(entry)
    if not 0 <= drawing.slice_index < case.volume.display_grid.shape_zyx[drawing.plane]:
        raise RecordError(f"slice {drawing.slice_index + 1} is not in this scan")
    key, name, made_at = (entry.get(part) for part in ("id", "name", "made_at"))
    if not isinstance(key, str) or not isinstance(name, str) or not isinstance(made_at, str):
        raise RecordError("id, name or time is no text")
    found = measured(drawing, case)
    note = _differences(entry, found)
    return KeptDrawing(key[:LONGEST_NAME], name[:LONGEST_NAME], drawing, made_at, found, note)


def _drawing(entry: Mapping[str, Any]) -> Drawing:
    try:
        kind, plane = Kind(entry["kind"]), PLANES.index(entry["plane"])
        number, points = entry["slice_shown_from_1"], entry["points_display_zyx"]
    except (KeyError, ValueError, TypeError) as error:
        raise RecordError(f"no drawing: {error}") from None
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(points, list):
        raise RecordError("no drawing: slice or points are of the wrong kind")
    if len(points) > MOST_POINTS or not all(_is_point(point) for point in points):
        raise RecordError("no drawing: points are not triples of numbers")
    in_plane = [[part for axis, part in enumerate(p) if axis != plane] for p in points]
    drawing = Drawing(kind, plane, number - 1, tuple((float(r), float(c)) for r, c in in_plane))
    if not drawing.complete:
        raise RecordError(f"a {kind} of {len(points)} points")
    return drawing


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 3 and all(_is_number(part) for part in point)


def _is_number(value: Any) -> bool:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and math.isfinite(value) and abs(value) < _FARTHEST_VOXELS


def _differences(entry: Mapping[str, Any], found: Measured) -> str:
    """Return in which numbers the entry differs from what is measured now."""
    rows = entry.get("values")
    told = []
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, Mapping):
            continue
        now = next((m for m in found.values if m.measure == row.get("measure")), None)
        value = row.get("value")
        if now is not None and (row.get("unit") != now.unit or not _same(value, now.value)):
            before = f"{value:g}" if isinstance(value, (int, float)) else "none"
            told.append(f"{now.measure} {before} {str(row.get('unit'))[:20]}")
    if not told:
        return ""
    return f"when kept, by {str(entry.get('software'))[:60]}: {', '.join(told)}"


def _same(before: Any, now: float | None) -> bool:
    if before is None or now is None or not isinstance(before, (int, float)):
        return before is now
    return math.isclose(before, now, rel_tol=_SAME_SHARE, abs_tol=_SAME_SHARE)
