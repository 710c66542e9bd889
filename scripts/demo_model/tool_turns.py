"""Training texts for tool calls: a question, the call, the tool's result, the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TOOL_NAMES = (
    "segment_organ",
    "measure",
    "lookup_medical_knowledge",
    "list_available_crops",
    "crop_organ",
    "adjacent_organs",
    "bounding_box",
    "diameters",
    "hu_statistics",
    "largest_slice",
    "side",
)
_ORGANS = {
    "liver": "the liver",
    "spleen": "the spleen",
    "pancreas": "the pancreas",
    "kidney_left": "the left kidney",
    "kidney_right": "the right kidney",
    "gall_bladder": "the gallbladder",
    "stomach": "the stomach",
    "aorta": "the aorta",
}
_LESIONS = {
    "liver_lesion": "liver lesion",
    "kidney_lesion": "kidney lesion",
    "kidney_cyst": "kidney cyst",
    "pancreatic_lesion": "pancreatic lesion",
}
_EXISTENCE = {
    "liver_lesion": (
        "Does the liver contain any lesion?",
        "Is there a lesion in the liver?",
    ),
    "kidney_lesion": (
        "Are there any lesions in the kidneys?",
        "Is there a lesion in the kidneys?",
    ),
    "kidney_cyst": (
        "Is there at least one cyst in the kidneys?",
        "Is there a cyst in the kidneys?",
    ),
    "kidney_tumor": (
        "Is there a kidney tumor on this scan?",
        "Is there a tumor in the kidneys?",
    ),
    "pancreatic_lesion": (
        "Is any pancreatic lesion visible?",
        "Is there a lesion in the pancreas?",
    ),
    "colon_lesion": (
        "Does the colon have any lesion?",
        "Is there a lesion in the colon?",
    ),
}
UNITS = {
    "volume_cm3": "cm³",
    "mean_hu": "HU",
    "lesion_count": "lesions",
    "largest_lesion_diameter_cm": "cm",
}
_ASKS = {
    "volume_cm3": (
        "What is the volume of {organ} in cm³?",
        "What is the volume of {organ}?",
    ),
    "mean_hu": (
        "What is the mean HU value of {organ}?",
        "What is the mean HU of {organ}?",
    ),
}
_LESION_ASKS = {
    "volume_cm3": (
        "What is the total {lesion} volume in cm³?",
        "What is the total {lesion} volume?",
    ),
    "lesion_count": (
        "How many {lesion} instances are there?",
        "How many {lesion}s are there?",
    ),
    "largest_lesion_diameter_cm": (
        "What is the longest axial diameter of the largest {lesion} in cm?",
        "What is the diameter of the largest {lesion}?",
    ),
}
ASKED_OF_TOOLS = (
    f"volume and mean HU of {', '.join(_ORGANS.values())}",
    f"volume, number and largest diameter of a {', '.join(_LESIONS.values())}",
    f"whether there is a {', '.join(name.replace('_', ' ') for name in _EXISTENCE)}",
)
"""What the tool turns are about, for the card."""
NO_MASK = "I cannot tell: no mask."
_CAVEATS = (
    "touches the border of the volume: part of it may lie outside the scan",
    "resampled to the CT's grid",
    "the mask is empty",
)


@dataclass(frozen=True)
class ToolTurn:
    """A question that wants a tool; ``result`` is the JSON text that the tool returns."""

    question: str
    name: str
    arguments: Mapping[str, str]
    result: str
    answer: str

    @property
    def call(self) -> str:
        """Return the call as the model writes it."""
        return call_text(self.name, dict(self.arguments))


def call_text(name: str, arguments: dict[str, str]) -> str:
    """Return a tool call as the model writes it."""
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def tool_turn(rng: np.random.Generator) -> ToolTurn:
    """Return a random question with its call, a possible result and the answer."""
    kind = rng.random()
    if kind < 0.25:
        return _existence(rng)
    if kind < 0.7:
        return _measured(rng, _ORGANS, _ASKS, "organ")
    return _measured(rng, _LESIONS, _LESION_ASKS, "lesion")


def tool_names(rng: np.random.Generator) -> list[str]:
    """Return the names of the tools that are given: the two that are needed and some others."""
    others = rng.permutation(TOOL_NAMES[2:])[: int(rng.integers(0, len(TOOL_NAMES) - 1))]
    names = [*TOOL_NAMES[:2], *map(str, others)]
    return names if rng.random() < 0.6 else [str(n) for n in rng.permutation(names)]


def _pick(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    return texts[int(rng.integers(len(texts)))]


def _existence(rng: np.random.Generator) -> ToolTurn:
    target = _pick(rng, tuple(_EXISTENCE))
    question = _pick(rng, _EXISTENCE[target])
    if rng.random() < 0.15:
        result: dict[str, Any] = {
            "mask_found": False,
            "error": f"no mask for {target}",
            "available_targets": sorted(map(str, rng.permutation(tuple(_ORGANS))[:4])),
        }
        answer = NO_MASK
    else:
        voxels = int(rng.integers(1, 10 ** int(rng.integers(2, 7)))) if rng.random() < 0.5 else 0
        box = sorted(map(int, rng.integers(0, 250, 6))) if voxels else None
        result = {
            "mask_found": True,
            "voxel_count": voxels,
            "bbox_ijk": box,
            "region_id": target,
        }
        answer = "Yes." if voxels else "No."
    return ToolTurn(question, "segment_organ", {"target": target}, _json(rng, result), answer)


def _measured(
    rng: np.random.Generator,
    targets: Mapping[str, str],
    asks: Mapping[str, tuple[str, ...]],
    role: str,
) -> ToolTurn:
    target = _pick(rng, tuple(targets))
    measure = _pick(rng, tuple(asks))
    question = _pick(rng, asks[measure]).format(**{role: targets[target]})
    if rng.random() < 0.1:
        result: dict[str, Any] = {"error": f"no mask for {target}"}
        answer = NO_MASK
    else:
        value = _value(rng, measure)
        result = {
            "value": value,
            "unit": UNITS[measure],
            "measurement_type": measure,
            "target": target,
            "region_id": target,
        }
        answer = f"{json.dumps(value)} {UNITS[measure]}"
    if rng.random() < 0.15:
        result["caveats"] = [_pick(rng, _CAVEATS)]
    arguments = {"target": target, "measurement_type": measure}
    return ToolTurn(question, "measure", arguments, _json(rng, result), answer)


def _value(rng: np.random.Generator, measure: str) -> float | int:
    if measure == "lesion_count":
        return int(rng.integers(0, 12))
    digits = int(rng.integers(1, 5)) if measure == "volume_cm3" else int(rng.integers(1, 4))
    if measure == "largest_lesion_diameter_cm":
        digits = 1
    value = float(rng.uniform(0, 10**digits))
    if measure == "mean_hu" and rng.random() < 0.15:
        value = -value
    return round(value, int(rng.choice((1, 1, 1, 2, 3, 5))))


def _json(rng: np.random.Generator, result: Mapping[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=bool(rng.random() < 0.5))
