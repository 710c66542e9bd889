"""``measure``: a number with its unit, measured on the reference masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.findings import find
from napari_ctvqa.core.measure import MEASURED
from napari_ctvqa.core.plans import PlanStep
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.tools._steps import found_result

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
        return found_result(find(case, PlanStep(StepKind.MEASURE, target, kind)), target)


TOOL = Measure()
