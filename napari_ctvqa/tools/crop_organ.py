"""``crop_organ``: a picture of the axial slice through an organ."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.crop_names import crop_name, regions_of, structures_in
from napari_ctvqa.core.crops import LEVEL_HU, WIDTH_HU, render
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.core.targets import resolve_structure
from napari_ctvqa.io.png import grey_png

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class CropOrgan:
    """DeepTumorVQA's name, schema and keys; the picture is rendered from the CT."""

    name = "crop_organ"
    primitive = "lookup"
    description = (
        "A picture of one axial CT slice through an organ or a pair of organs (see "
        "list_available_crops), at window width 400 and level 50 HU."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "organ": {"type": "string", "description": "E.g. liver, left_kidney, liver_spleen"}
        },
        "required": ["organ"],
    }

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Render it; an organ that cannot be shown comes back as ``{error}``."""
        organ = text_argument(arguments, "organ")
        if isinstance(organ, ToolResult):
            return organ
        crop = crop_name(organ)
        regions = regions_of(case, crop)
        if isinstance(regions, str):
            return failure(regions)
        shown = render(case.volume, regions)
        on_file = "" if shown.file_slice is None else f", slice {shown.file_slice} of the file"
        content = {
            "image_base64": base64.b64encode(grey_png(shown.grey_yx)).decode("ascii"),
            "image_path": "",
            "organ_queried": organ,
            "organ_localized": crop,
            "note": (
                f"Axial slice rendered from the CT{on_file}; window width {WIDTH_HU:g} and level "
                f"{LEVEL_HU:g} HU; the patient's left is on the right of the picture."
            ),
        }
        drawn = resolve_structure(case, structures_in(crop)[0]).structure
        return ToolResult(content, region_id=drawn, pictures=(shown.picture(case.volume, crop),))


TOOL = CropOrgan()
