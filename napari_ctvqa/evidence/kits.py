"""Kits: the tools an agent is given for one case, whatever stands behind them.

* *oracle*: DeepTumorVQA's three tools on the reference masks, or from the shipped cache;
* *predicted*: the same on predicted masks, or from the cache of TotalSegmentator's;
* *vision*: pictures of organs, rendered from the CT or shipped, and the knowledge base;
* *live*: every tool that computes now.

Whatever an agent does wrong comes back as DeepTumorVQA's failure result; a call never raises.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core import names
from napari_ctvqa.core.arguments import failure, text_argument
from napari_ctvqa.core.crop_names import crop_name, structures_in
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.kits import KITS, LIVE, ORACLE, PREDICTED, VISION, KitFiles
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.core.targets import resolve
from napari_ctvqa.extensions import tools
from napari_ctvqa.io.crop_files import CropFiles
from napari_ctvqa.io.tool_cache import ToolCache, read_tool_cache

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Tool

logger = logging.getLogger(__name__)

SEGMENT, MEASURE, LOOKUP = "segment_organ", "measure", "lookup_medical_knowledge"
CROP, LIST_CROPS = "crop_organ", "list_available_crops"
_TOOLS = {
    ORACLE: (SEGMENT, MEASURE, LOOKUP),
    PREDICTED: (SEGMENT, MEASURE, LOOKUP),
    VISION: (CROP, LIST_CROPS, LOOKUP),
}
_MAX_CALL = 100_000

Do = Callable[["Case", Mapping[str, Any]], ToolResult]


@dataclass(frozen=True)
class Kit:
    """The tools an agent may call for one case.

    ``origin`` says in a few words what stands behind them.
    """

    name: str
    case: Case
    tools: Mapping[str, Tool]
    origin: str
    _instead: Mapping[str, Do] = field(default_factory=dict)
    """What answers for a tool, where that is not the tool itself."""

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools as function-calling objects."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in self.tools.values()
        ]

    def call(self, name: object, arguments: object) -> ToolResult:
        """Call a tool; ``arguments`` is an object, or its JSON text as chat servers send it."""
        if not isinstance(name, str) or name not in self.tools:
            return failure(f"unknown tool {name!r:.80}, known: {', '.join(self.tools)}")
        read = _read(arguments)
        if isinstance(read, ToolResult):
            return read
        do = self._instead.get(name, self.tools[name])
        try:
            return do(self.case, read)
        except Exception as error:  # an agent's loop goes on, whatever a tool does
            logger.exception("tool %s failed", name)
            return failure(f"{type(error).__name__}: {error}"[:500])


def _read(arguments: object) -> Mapping[str, Any] | ToolResult:
    if isinstance(arguments, str):
        if len(arguments) > _MAX_CALL:
            size = len(arguments)
            return failure(f"arguments are too long: {size} characters, at most {_MAX_CALL}")
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            return failure(f"arguments are no JSON: {error}"[:500])
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        return failure(f"arguments must be an object, got {type(arguments).__name__}")
    return arguments


def kit_for(
    name: str,
    case: Case,
    files: KitFiles | None = None,
    *,
    predicted: Case | None = None,
    prefer_files: bool = False,
) -> Kit:
    """Return a kit for a case.

    Parameters
    ----------
    name
        ``oracle``, ``predicted``, ``vision`` or ``live``.
    case
        The case with its reference masks.
    files
        What the benchmark ships for its kits.
    predicted
        The same case with predicted masks, for the kit *predicted*.
    prefer_files
        Take the shipped cache or pictures although there are masks: what the benchmark's own
        agents saw.

    Raises
    ------
    NotFoundError
        For another name, and for *predicted* without masks and cache.
    InputFileError
        When a cache cannot be read.
    """
    if name not in KITS:
        raise NotFoundError(
            f"no tool kit is called {name!r}; there are {', '.join(KITS)}.",
            hint="Give one of these to --kit.",
        )
    files = files or KitFiles()
    if name == VISION:
        return _vision(case, files, prefer_files=prefer_files)
    if name == LIVE:
        chosen = {key: tool for key, tool in tools().items() if key not in (CROP, LIST_CROPS)}
        return Kit(LIVE, case, chosen, "computed now")
    return _masks_or_cache(name, case, files, predicted, prefer_files=prefer_files)


def _masks_or_cache(
    name: str, case: Case, files: KitFiles, predicted: Case | None, *, prefer_files: bool
) -> Kit:
    path = files.oracle_cache if name == ORACLE else files.predicted_cache
    source = case if name == ORACLE else predicted
    has_masks = source is not None and bool(source.masks)
    if path is not None and (prefer_files or not has_masks):
        cache = read_tool_cache(path)
        cached: dict[str, Do] = {SEGMENT: _CachedSegment(cache), MEASURE: _CachedMeasure(cache)}
        drawn_on = source or case
        return Kit(name, drawn_on, _named(name), f"from {path.name}", cached)
    if source is None or (name == PREDICTED and not has_masks):
        raise NotFoundError(
            f"case {case.case_id} has no predicted masks, and the benchmark no cache of them.",
            hint="Give the folder of predicted masks, or use another kit.",
        )
    return Kit(name, source, _named(name), f"{name} masks")


def _named(kit: str) -> dict[str, Tool]:
    return {name: tools()[name] for name in _TOOLS[kit]}


def _vision(case: Case, files: KitFiles, *, prefer_files: bool) -> Kit:
    shipped = None if files.crops is None else CropFiles(files.crops, case.case_id)
    if shipped is not None and shipped.organs and (prefer_files or not case.masks):
        instead: dict[str, Do] = {CROP: _ShippedCrop(shipped), LIST_CROPS: _ListShipped(shipped)}
        return Kit(VISION, case, _named(VISION), f"pictures of {shipped.folder.name}", instead)
    return Kit(VISION, case, _named(VISION), "rendered from the CT")


# --------------------------------------------------------------------------------- from caches


def _cached_target(cache: ToolCache, case: Case, target: str) -> str:
    """Return the cache's own name for a target: as asked, or another name of the structure."""
    known = cache.targets(case.case_id)
    if target in known:
        return target
    wanted = names.canonical(target)
    return next((name for name in known if names.canonical(name) == wanted), target)


def _as_cached(content: Any, case: Case, target: str) -> ToolResult:
    """Return a stored result as it is, with the region that the viewer draws for it."""
    error = content.get("error") if isinstance(content, dict) else None
    region = resolve(case, target).structure
    return ToolResult(content, region_id=region, error=str(error)[:500] if error else "")


@dataclass(frozen=True)
class _CachedSegment:
    cache: ToolCache

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Return what the cache holds; a target without an entry gets the failure result."""
        target = text_argument(arguments, "target")
        if isinstance(target, ToolResult):
            return self._failed(case, target.error)
        content = self.cache.segment(case.case_id, _cached_target(self.cache, case, target))
        if content is None:
            return self._failed(case, f"no mask for {target[:80]}")
        return _as_cached(content, case, target)

    def _failed(self, case: Case, error: str) -> ToolResult:
        available = list(self.cache.targets(case.case_id))
        content = {"mask_found": False, "error": error, "available_targets": available}
        return ToolResult(content, error=error)


@dataclass(frozen=True)
class _CachedMeasure:
    cache: ToolCache

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Return what the cache holds, or ``{error}``."""
        target = text_argument(arguments, "target")
        if isinstance(target, ToolResult):
            return target
        kind = text_argument(arguments, "measurement_type", "measurement")
        if isinstance(kind, ToolResult):
            return kind
        name = _cached_target(self.cache, case, target)
        content = self.cache.measure(case.case_id, name, kind)
        if content is None:
            return failure(f"no {kind[:80]} of {target[:80]} in the cache")
        return _as_cached(content, case, target)


# ------------------------------------------------------------------------------- from pictures


@dataclass(frozen=True)
class _ShippedCrop:
    files: CropFiles

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the shipped picture of an organ, or ``{error}``."""
        organ = text_argument(arguments, "organ")
        if isinstance(organ, ToolResult):
            return organ
        crop = next((c for c in (organ, crop_name(organ)) if c in self.files.organs), "")
        if not crop:
            listed = ", ".join(self.files.organs)
            return failure(f"no picture of {organ[:80]!r}; there are: {listed}")
        content = {
            "image_base64": base64.b64encode(self.files.read(crop)).decode("ascii"),
            "image_path": self.files.organs[crop].name,
            "organ_queried": organ,
            "organ_localized": crop,
            "note": "The benchmark's own picture; which slice it shows is not stated.",
        }
        drawn = resolve(case, structures_in(crop_name(crop))[0]).structure
        return ToolResult(content, region_id=drawn)


@dataclass(frozen=True)
class _ListShipped:
    files: CropFiles

    def __call__(self, case: Case, arguments: Mapping[str, Any]) -> ToolResult:
        """List the organs of which there is a picture."""
        del arguments
        return ToolResult({"image_id": case.case_id, "available_organs": list(self.files.organs)})
