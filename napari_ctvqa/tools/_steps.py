"""What tools that take one step of a plan have in common: schema, checks, result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.findings import find
from napari_ctvqa.core.plans import PlanStep
from napari_ctvqa.core.records import ToolResult

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.findings import Finding

TARGET: Mapping[str, Any] = {
    "type": "string",
    "description": (
        "A structure, e.g. liver, kidney_left, liver_lesion; or some of its lesions: "
        "'largest liver_lesion', 'kidney_lesion in kidney_left'"
    ),
}
_OTHER: Mapping[str, Any] = {
    "type": "string",
    "description": "The second structure, named like the target",
}


def schema(required: Mapping[str, Any], **optional: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


@dataclass(frozen=True)
class StepTool:
    """A tool that says one of several things (``types``) of a target, the first by default.

    ``with_other`` tools need a second structure. The keys of a success are ours: value, unit,
    measurement_type, target, region_id, and what else was found.
    """

    name: str
    primitive: str
    description: str
    types: tuple[str, ...]
    with_other: bool = False

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the JSON schema of the arguments."""
        kind = {"type": "string", "enum": list(self.types)}
        required = {"target": TARGET, "other": _OTHER} if self.with_other else {"target": TARGET}
        return schema(required, measurement_type=kind)

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Find it; whatever is wrong with an argument comes back as ``{error}``."""
        read = {}
        for key in ("target", "other") if self.with_other else ("target",):
            said = text_argument(arguments, key)
            if isinstance(said, ToolResult):
                return said
            read[key] = said
        kind: str | ToolResult = self.types[0]
        if "measurement_type" in arguments:
            kind = text_argument(arguments, "measurement_type")
        if isinstance(kind, ToolResult):
            return kind
        if kind not in self.types:
            known = ", ".join(self.types)
            return failure(f"unknown measurement_type {kind[:80]!r}, known: {known}")
        step = PlanStep(StepKind(self.primitive), read["target"], kind, read.get("other", ""))
        return found_result(find(case, step), read["target"])


def found_result(found: Finding, target: str) -> ToolResult:
    """Return a finding as a tool's result; without a value it is ``{error}``.

    ``slice_display`` becomes the slice counted from the feet, as the benchmarks count.
    """
    if found.value is None:
        if found.resolved.missing:
            return failure(found.problem)
        return failure(f"{found.measure} of {found.resolved.target}: {found.problem}")
    content: dict[str, Any] = {
        "value": found.value,
        "unit": found.unit,
        "measurement_type": found.measure,
        "target": target,
        "region_id": found.resolved.structure,
        **found.detail,
    }
    if found.slice_display is not None:
        grid = found.resolved.masks[0].own_region.grid
        content["slice_ras"] = grid.ras_slice(0, found.slice_display)
    if found.caveats:
        content["caveats"] = list(found.caveats)
    return ToolResult(content, region_id=found.resolved.structure)
