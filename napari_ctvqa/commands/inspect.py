"""``inspect CASE``: the geometry of a case and what its masks measure."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.cases import MaskProblem
from napari_ctvqa.core.sampling import centroid_ras_mm, hu_sample
from napari_ctvqa.io.case_files import find_case, with_masks
from napari_ctvqa.io.reader import case_of, read_masks, read_volume

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Case, CaseFiles, Mask


class Inspect:
    """Read a case and report; 1 when a mask file could not be read, 0 also with warnings."""

    name = "inspect"
    help = "show a case's geometry, its warnings, and what its masks measure"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("case", type=Path, help="case folder or CT file (.nii.gz, .nii)")
        parser.add_argument(
            "--masks", type=Path, metavar="PATH", help="folder of mask files, or one file"
        )
        parser.add_argument(
            "--labels", type=Path, metavar="FILE.json", help='names of labels: {"1": "spleen"}'
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def run(self, args: argparse.Namespace) -> int:
        """Print the report; return 1 when a mask could not be read."""
        files = find_case(args.case)
        if args.masks is not None or args.labels is not None:
            files = with_masks(files, args.masks, args.labels)
        volume = read_volume(_ct(files))
        found = list(read_masks(files, volume))
        case = case_of(files, volume, found)
        unread = [p for p in found if isinstance(p, MaskProblem) and not p.warnings]
        if args.json:
            sys.stdout.write(
                json.dumps(report(case, unread), ensure_ascii=False, indent=1, allow_nan=False)
                + "\n"
            )
        else:
            sys.stdout.write(table(case))
        return 1 if unread else 0


def report(case: Case, unread: Sequence[MaskProblem] = ()) -> dict[str, Any]:
    """Return the report as JSON data, shape and spacing in the file's own axis order.

    ``problems`` and ``error`` are there only when masks could not be read or placed.
    """
    space = case.volume.grid.file
    assert space is not None
    data: dict[str, Any] = {
        "axcodes": space.axcodes,
        "shape": list(space.shape_ijk),
        "spacing_mm": list(space.spacing_mm_ijk),
        "geometry": case.report.level.value,
        "warnings": [
            {"code": w.code, "level": w.level.value, "message": w.message}
            for w in case.report.warnings
        ],
        "hu": {"min": _finite(case.volume.hu_min), "max": _finite(case.volume.hu_max)},
        "masks": [_measured(case, mask) for mask in case.masks.values()],
    }
    if case.problems:
        data["problems"] = [{"name": n, "message": m} for n, m in case.problems.items()]
    if unread:
        names = ", ".join(problem.name for problem in unread)
        data["error"] = {
            "code": "mask",
            "message": unread[0].message,
            "hint": f"Masks that could not be read: {names}. The rest of this report holds.",
        }
    return data


def _measured(case: Case, mask: Mask) -> dict[str, Any]:
    own = mask.own_region
    centre = centroid_ras_mm(own)
    sample = hu_sample(case.volume, own)
    hu = sample.values[:0] if sample.no_number else sample.values  # nothing filled in is averaged
    return {
        "name": mask.name,
        "voxels": own.voxels,
        "volume_cm3": own.voxels * own.grid.voxel_mm3 / 1000,
        "centroid_ras_mm": None if centre is None else [float(mm) for mm in centre],
        "mean_hu": _finite(float(hu.mean(dtype=np.float64))) if hu.size else None,
        "touches_border": own.touches_border,
    }


def _finite(value: float) -> float | None:
    """Return a number, None for what JSON has no number for."""
    return value if math.isfinite(value) else None


def table(case: Case) -> str:
    """Return the report for people."""
    data = report(case)
    size = " x ".join(str(n) for n in data["shape"])
    spacing = " x ".join(f"{mm:.4g}" for mm in data["spacing_mm"])
    lines = [
        f"{case.case_id}: {size} voxels of {spacing} mm, axes to {data['axcodes']}, "
        f"HU {data['hu']['min']:g} to {data['hu']['max']:g}",
        f"geometry {data['geometry']}",
        *(f"  {w['level']} {w['code']}: {w['message']}" for w in data["warnings"]),
        *(f"  note: {note}" for note in case.files.notes),
        *(f"  {name} not read: {message}" for name, message in case.problems.items()),
    ]
    if data["masks"]:
        wide = max(len(row["name"]) for row in data["masks"])
        lines += [
            "",
            f"{'mask':{wide}}  {'voxels':>9}  {'cm³':>9}  {'mean HU':>8}  centre R A S mm",
            *(_row(row, wide) for row in data["masks"]),
        ]
    else:
        lines.append("no masks: what is in this scan is unknown")
    return "".join(f"{_printable(line)}\n" for line in lines)


def _row(row: dict[str, Any], wide: int) -> str:
    if row["centroid_ras_mm"] is None:
        return f"{row['name']:{wide}}  {0:>9}  {0:>9}  {'-':>8}  empty: none present"
    centre = " ".join(f"{mm:7.1f}" for mm in row["centroid_ras_mm"])
    hu = "-" if row["mean_hu"] is None else f"{row['mean_hu']:.1f}"
    border = "  touches the border" if row["touches_border"] else ""
    size = f"{row['voxels']:>9}  {row['volume_cm3']:>9.2f}"
    return f"{row['name']:{wide}}  {size}  {hu:>8}  {centre}{border}"


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line).rstrip()


def _ct(files: CaseFiles) -> Path:
    assert files.ct is not None
    return files.ct


COMMAND = Inspect()
