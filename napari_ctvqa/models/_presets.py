"""The presets of the chat-image family, read from ``resources/model_presets.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.asking import Preset, Sampling

FILE = "model_presets.json"
_TUPLES = ("hf_ids", "model_types", "strip")
_MAPPINGS = ("template", "processor", "facts")


@cache
def presets() -> Mapping[str, Preset]:
    """Return the presets by name, in the order of the file."""
    rows = json.loads(resource_path(FILE).read_text(encoding="utf-8"))["presets"]
    return MappingProxyType({row["name"]: preset_of(row) for row in rows})


def preset_of(row: Mapping[str, Any]) -> Preset:
    """Return the preset of one row; a key that no preset has raises TypeError."""
    values = dict(row)
    for key in _TUPLES:
        values[key] = tuple(values.get(key, ()))
    for key in _MAPPINGS:
        values[key] = MappingProxyType(values.get(key, {}))
    windows = values.pop("windows_hu")
    return Preset(
        **{key: value for key, value in values.items() if key != "sampling"},
        windows_hu=tuple((float(low), float(high)) for low, high in windows),
        sampling=Sampling(**values.get("sampling", {})),
    )
