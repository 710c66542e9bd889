"""``bounding_box``: the box around a structure, in voxels and millimetres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.boxes import bounding_box
from napari_ctvqa.core.measure import EMPTY_CAVEAT, border_caveats
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.core.regions import together
from napari_ctvqa.core.targets import resolve
from napari_ctvqa.tools._steps import TARGET, schema

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class BoundingBox:
    """Half-open index ranges in every order that somebody counts in."""

    name = "bounding_box"
    primitive = "segment"
    description = (
        "The box around a structure: bbox_ijk (the file's voxel indices, first and one past the "
        "last), bbox_ras (counted to the right, anterior and superior), size_mm and world corners."
    )
    parameters: Mapping[str, Any] = schema({"target": TARGET})

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Find the box; whatever is wrong with the target comes back as ``{error}``."""
        target = text_argument(arguments, "target")
        if isinstance(target, ToolResult):
            return target
        found = resolve(case, target)
        if found.missing:
            return failure(found.missing)
        box = bounding_box(together(found.masks))
        if box is None:
            return failure(f"{found.target}: {EMPTY_CAVEAT}")
        z_mm, y_mm, x_mm = (round(size, 3) for size in box.size_mm_zyx)
        content: dict[str, Any] = {
            "measurement_type": "bounding_box",
            "target": target,
            "region_id": found.structure,
            "bbox_ijk": list(box.file_ijk),
            "bbox_ras": list(box.ras_xyz),
            "bbox_display_zyx": list(box.display_zyx),
            "size_mm": {"x": x_mm, "y": y_mm, "z": z_mm},
            "low_ras_mm": [round(value, 3) for value in box.low_ras_mm],
            "high_ras_mm": [round(value, 3) for value in box.high_ras_mm],
        }
        caveats = dict.fromkeys((*found.caveats, *border_caveats(found.masks)))
        if caveats:
            content["caveats"] = list(caveats)
        return ToolResult(content, region_id=found.structure)


TOOL = BoundingBox()
