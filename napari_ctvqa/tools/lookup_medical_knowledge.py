"""``lookup_medical_knowledge``: the fact of the knowledge base that fits a query best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.arguments import text_argument
from napari_ctvqa.core.knowledge import NOTHING_FOUND, search
from napari_ctvqa.core.records import ToolResult

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case


class LookupMedicalKnowledge:
    """DeepTumorVQA's name, schema, search and results."""

    name = "lookup_medical_knowledge"
    primitive = "lookup"
    description = "Look up medical reference values, thresholds and criteria."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look up, in a few words"}
        },
        "required": ["query"],
    }

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Return one or two facts; nothing found and a wrong argument have the same shape."""
        query = text_argument(arguments, "query")
        if isinstance(query, ToolResult):
            results = [{"text": query.error, "source": "N/A"}]
            return ToolResult({"results": results}, error=query.error)
        found = [{"text": entry.text, "source": entry.source} for entry in search(query)]
        if not found:
            found = [{"text": NOTHING_FOUND, "source": "N/A"}]
        return ToolResult({"results": found})


TOOL = LookupMedicalKnowledge()
