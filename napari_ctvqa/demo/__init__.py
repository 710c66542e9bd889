"""The generated demo: two CT phantoms, their questions, answers with mistakes, a tool cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FIRST_QUESTION = "demo_00001"
"""The failure that the first screen shows: the agent measured the other kidney."""
FIRST_MODEL = "demo-agent"


def ensure_demo(folder: Path | None = None) -> Path:
    """Return the demo's benchmark root, generated on first use; see ``build.ensure_demo``.

    The import waits until here, so that naming the demo costs nothing.
    """
    from napari_ctvqa.demo.build import ensure_demo as ensure

    return ensure(folder)


def is_made(folder: Path | None = None) -> bool:
    """Return whether the demo of this version lies there already."""
    from napari_ctvqa.demo.build import is_made as made

    return made(folder)
