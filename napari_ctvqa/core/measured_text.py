"""What a measurement says, as text: beside its line, in a list, on the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.drawings import Kind
from napari_ctvqa.core.measuring import NO_VOXELS, TITLES
from napari_ctvqa.core.view_text import file_slice_text, slice_text, tenth

if TYPE_CHECKING:
    from napari_ctvqa.core.drawings import Drawing
    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.kept_drawings import KeptDrawing
    from napari_ctvqa.core.measure import Measurement
    from napari_ctvqa.core.measuring import Measured

KIND_TITLES = {
    Kind.RULER: "Ruler",
    Kind.BIDIRECTIONAL: "Bidirectional",
    Kind.ELLIPSE: "Ellipse",
    Kind.POLYGON: "Polygon",
    Kind.ANGLE: "Angle",
}


def value_text(value: Measurement) -> str:
    """Return ``"23.4 mm"``, or in brackets why the number is not given."""
    if value.value is None:
        return f"({value.caveats[0]})" if value.caveats else "(not given)"
    number = f"{value.value:.0f}" if value.unit == "voxels" else tenth(value.value)
    return f"{number}{'' if value.unit == '°' else ' '}{value.unit}"


def short_text(found: Measured) -> tuple[str, ...]:
    """Return the lines that stand beside a drawing: its numbers, and what they leave out."""
    by_name = {value.measure: value for value in found.values}
    if "mean_hu" in by_name:
        return (*_region_lines(by_name), *_leaves_out(found))
    if "long_axis_mm" in by_name:
        long_mm, short_mm = by_name["long_axis_mm"], by_name["short_axis_mm"]
        if long_mm.value is None or short_mm.value is None:
            return (value_text(long_mm),)
        return (f"{tenth(long_mm.value)} × {tenth(short_mm.value)} mm",)
    return tuple(value_text(value) for value in found.values)


def shortest_text(found: Measured) -> tuple[str, ...]:
    """Return the first of those lines, and what it leaves out: for all but the chosen drawing."""
    return (short_text(found)[0], *_leaves_out(found))


def _region_lines(by_name: dict[str, Measurement]) -> tuple[str, ...]:
    mean, sd = by_name["mean_hu"], by_name["sd_hu"]
    low, high = by_name["min_hu"], by_name["max_hu"]
    area, voxels = value_text(by_name["area_mm2"]), value_text(by_name["voxels"])
    if mean.value is None or sd.value is None or low.value is None or high.value is None:
        if NO_VOXELS in mean.caveats:
            return (NO_VOXELS,)
        return (f"HU {value_text(mean)}", f"area {area} · {voxels}")
    return (
        f"mean {tenth(mean.value)} ± {tenth(sd.value)} HU",
        f"min {low.value:.0f} max {high.value:.0f} HU",
        f"area {area} · {voxels}",
    )


def _leaves_out(found: Measured) -> tuple[str, ...]:
    """Return the caveats that change what the numbers are of: they stand beside them."""
    return tuple(caveat for caveat in found.caveats if "lies outside" in caveat)


def one_line_text(found: Measured) -> str:
    """Return the numbers in one line, for a list."""
    return " · ".join(short_text(found)[:3])


def place_text(drawing: Drawing, grid: Grid) -> str:
    """Return plane and slice, as shown and in the file."""
    shown = slice_text(grid, drawing.plane, drawing.slice_index)
    return f"{shown}, {file_slice_text(grid, drawing.plane, drawing.slice_index)}"


def full_text(kept: KeptDrawing, grid: Grid) -> str:
    """Return everything about a measurement: name, place, numbers, caveats, rule."""
    values = [f"{TITLES[v.measure]}: {value_text(v)}" for v in kept.found.values]
    note = [kept.note] if kept.note else []
    return "\n".join(
        (
            f"{kept.name} ({KIND_TITLES[kept.drawing.kind].lower()})",
            place_text(kept.drawing, grid),
            *values,
            *note,
            *kept.found.caveats,
            f"rule: {kept.found.rule}",
        )
    )
