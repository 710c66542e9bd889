"""``measure``: a number with its unit, measured on the reference masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.measure import MEASURED
from napari_ctvqa.core.plans import measure_target
from napari_ctvqa.core.records import ToolResult

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class Measure:
    """DeepTumorVQA's name, schema and failure result; the keys of a success are ours."""

    name = "measure"
    primitive = "measure"
    description = (
        "Measure an organ or a lesion. Returns value, unit, measurement_type, target and region_id."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "target": {
                "type": "string",
                "description": "Structure to measure, e.g. liver, kidney_left, liver_tumor",
            },
            "measurement_type": {"type": "string", "enum": list(MEASURED)},
        },
        "required": ["target", "measurement_type"],
    }

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Measure; whatever is wrong with target or type comes back as ``{error}``."""
        target = text_argument(arguments, "target")
        if isinstance(target, ToolResult):
            return target
        kind = text_argument(arguments, "measurement_type", "measurement")
        if isinstance(kind, ToolResult):
            return kind
        if kind not in MEASURED:
            return failure(f"unknown measurement_type {kind[:80]!r}, known: {', '.join(MEASURED)}")
        found, number = measure_target(case, target, kind)
        if number is None:
            return failure(found.missing)
        if number.value is None:
            return failure(f"{kind} of {found.target}: {'; '.join(number.caveats)}")
        content: dict[str, Any] = {
            "value": number.value,
            "unit": number.unit,
            "measurement_type": kind,
            "target": target,
            "region_id": found.structure,
        }
        if number.caveats:
            content["caveats"] = list(number.caveats)
        return ToolResult(content, region_id=found.structure)


TOOL = Measure()
