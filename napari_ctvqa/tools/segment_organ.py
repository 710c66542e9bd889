"""``segment_organ``: which voxels of the case are a structure, by the reference masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core import names
from napari_ctvqa.core.arguments import text_argument
from napari_ctvqa.core.boxes import bbox_ijk
from napari_ctvqa.core.measure import border_caveats
from napari_ctvqa.core.plans import other_caveats
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.core.regions import together
from napari_ctvqa.core.targets import resolve

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class SegmentOrgan:
    """DeepTumorVQA's name, schema and failure result; the keys of a success are ours."""

    name = "segment_organ"
    primitive = "segment"
    description = (
        "Segment an organ or a lesion. Returns mask_found, voxel_count, bbox_ijk "
        "[i0, i1, j0, j1, k0, k1] (the file's voxel indices, first and one past the last) and "
        "region_id."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "target": {
                "type": "string",
                "description": "Structure to segment, e.g. liver, kidney_left, liver_tumor",
            }
        },
        "required": ["target"],
    }

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Find the mask; a target without one gets DeepTumorVQA's failure result."""
        target = text_argument(arguments, "target")
        if isinstance(target, ToolResult):
            return self._failed(case, target.error)
        found = resolve(case, target)
        if found.missing:
            return self._failed(case, found.missing)
        region = together(found.masks)
        content: dict[str, Any] = {
            "mask_found": True,
            "voxel_count": region.voxels,
            "bbox_ijk": bbox_ijk(region),
            "region_id": found.structure,
        }
        said = (*border_caveats(found.masks), *other_caveats(found.masks))
        caveats = dict.fromkeys((*found.caveats, *said))
        if caveats:
            content["caveats"] = list(caveats)
        return ToolResult(content, region_id=found.structure)

    def _failed(self, case: Case, error: str) -> ToolResult:
        content = {
            "mask_found": False,
            "error": error,
            "available_targets": available_targets(case),
        }
        return ToolResult(content, error=error)


def available_targets(case: Case) -> list[str]:
    """Return the structures that the case has a mask for, sorted."""
    files = {names.canonical(item.name) for item in case.files.masks}
    return sorted(files | set(case.masks))


TOOL = SegmentOrgan()
