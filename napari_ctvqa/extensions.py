"""Find what one file adds: benchmarks, models, tools, exports, commands, panels."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Discovered:
    """Extensions by name, and the ones that failed to load with the reason."""

    found: dict[str, Any]
    unavailable: dict[str, str]


@cache
def discover(kind: str, attribute: str) -> Discovered:
    """Load every module of ``napari_ctvqa.<kind>`` and every entry point of that group.

    ``attribute`` is what each module must define, e.g. ``"BENCHMARK"``. Built-ins and other
    packages use the same door; a module that cannot be imported is listed with its reason and
    never hides the others. Modules beginning with ``_`` are not extensions.
    """
    package = importlib.import_module(f"napari_ctvqa.{kind}")
    names = [
        f"{package.__name__}.{info.name}"
        for info in pkgutil.iter_modules(package.__path__)
        if not info.name.startswith("_")
    ]
    names += [entry.value for entry in entry_points(group=f"napari_ctvqa.{kind}")]
    found: dict[str, Any] = {}
    unavailable: dict[str, str] = {}
    for name in names:
        try:
            extension = getattr(importlib.import_module(name), attribute)
        except Exception as error:
            logger.exception("extension %s cannot be used", name)
            unavailable[name] = f"{type(error).__name__}: {error}"
        else:
            found[getattr(extension, "name", name.rsplit(".", 1)[-1])] = extension
    return Discovered(found, unavailable)


def benchmarks() -> dict[str, Any]:
    """Return every Benchmark by its short name."""
    return discover("benchmarks", "BENCHMARK").found


def models() -> dict[str, Any]:
    """Return every Answerer by its name."""
    found = discover("models", "MODEL").found
    return {name: model for name, model in found.items() if hasattr(model, "answer")}


def families() -> dict[str, Any]:
    """Return every model family by its name: what needs a way to run before it answers."""
    found = discover("models", "MODEL").found
    return {name: model for name, model in found.items() if hasattr(model, "prepare")}


def tools() -> dict[str, Any]:
    """Return every Tool by its name."""
    return discover("tools", "TOOL").found


def commands() -> dict[str, Any]:
    """Return every Command by its name."""
    return discover("commands", "COMMAND").found
