"""A case as plain napari layer data: for File ▸ Open without the docks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.colormaps import DirectLabelColormap

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.colours import case_colours
from napari_ctvqa.core.names import label
from napari_ctvqa.core.windows import DEFAULT_PRESET, SLIDER_RANGE_HU, preset_table

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

LayerData = tuple[Any, dict[str, Any], str]
_OPACITY = 0.3
UNTRUSTED = " (geometry red: do not judge sides)"


def cautions(case: Case) -> tuple[str, ...]:
    """Return what a person must be told who sees only the layers: red geometry, unread masks."""
    red = [w.message for w in case.report.warnings if w.level is Level.RED]
    told = [f"{case.case_id}: geometry red. {' '.join(red)}"] if red else []
    told += [
        f"{case.case_id}: the mask {name} is not shown. {message}"
        for name, message in case.problems.items()
        if message not in " ".join(red)
    ]
    return tuple(told)


def layer_data(case: Case) -> list[LayerData]:
    """Return the CT and one labels layer a mask group, hung radiologically, in mm.

    These layers have no docks beside them: what the geometry check says goes into the CT layer's
    metadata, and a red check into its name, which stands in the layer list.
    """
    grid = case.volume.display_grid
    preset = preset_table(None).named(DEFAULT_PRESET)
    assert preset is not None
    placed = {"scale": grid.spacing_mm_zyx, "units": ("mm", "mm", "mm")}
    ct = {
        "name": f"CT {case.case_id}{'' if case.report.side_trusted else UNTRUSTED}",
        "rgb": False,
        "contrast_limits": (preset.lo, preset.hi),
        "metadata": {
            "slider_range_hu": SLIDER_RANGE_HU,
            "geometry": case.report.level.value,
            "warnings": [f"{w.level.value} {w.code}: {w.message}" for w in case.report.warnings],
            "problems": dict(case.problems),
        },
    }
    data: list[LayerData] = [(case.volume.display_zyx, {**ct, **placed}, "image")]
    names = {group: set(m.structures.values()) for group, m in case.label_maps.items()}
    colours = case_colours(names.get("organs", ()), names.get("lesions", ()))
    for group, label_map in case.label_maps.items():
        if not label_map.structures:
            continue
        table: dict[int | None, Any] = {None: (0, 0, 0, 0), 0: (0, 0, 0, 0)}
        table |= {v: colours[name].rgba(1.0) for v, name in label_map.structures.items()}
        structures = {v: label(name) for v, name in label_map.structures.items()}
        kwargs = {
            "name": group,
            "opacity": _OPACITY,
            "colormap": DirectLabelColormap(color_dict=table),
            "metadata": {"structures": structures},
        }
        data.append((label_map.array_zyx, {**kwargs, **placed}, "labels"))
    return data
