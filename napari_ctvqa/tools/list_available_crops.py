"""``list_available_crops``: of which organs ``crop_organ`` has a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.crop_names import available
from napari_ctvqa.core.records import ToolResult

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class ListAvailableCrops:
    """DeepTumorVQA's name, schema and keys."""

    name = "list_available_crops"
    primitive = "lookup"
    description = "The organs and pairs of organs that crop_organ can show of this case."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """List them; arguments play no part."""
        del arguments
        return ToolResult({"image_id": case.case_id, "available_organs": available(case)})


TOOL = ListAvailableCrops()
