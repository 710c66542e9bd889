"""The generated demo: two CT phantoms, their questions, answers with mistakes, a tool cache."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.demo.place import demo_root, not_writable, usable, whole

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FIRST_MODEL", "FIRST_QUESTION", "begin_demo", "demo_root", "ensure_demo", "is_made"]

FIRST_QUESTION = "demo_00001"
"""The failure that the first screen shows: the agent measured the other kidney."""
FIRST_MODEL = "demo-agent"


def ensure_demo(folder: Path | None = None) -> Path:
    """Return the demo's benchmark root, generated on first use; see ``build.ensure_demo``.

    The import waits until here, so that naming the demo costs nothing.
    """
    root = demo_root(folder)
    if usable(root):
        return root
    from napari_ctvqa.demo.build import ensure_demo as ensure

    return ensure(folder)


def is_made(folder: Path | None = None) -> bool:
    """Return whether the demo of this version is there, whole."""
    return whole(demo_root(folder))


def begin_demo(folder: Path | None = None) -> Callable[[], Path]:
    """Begin to generate the demo in a process of its own, where it is not there yet.

    Returns what waits for it and gives its root, raising as ``ensure_demo`` does. A thread would
    hold up the window that is made meanwhile.

    Raises
    ------
    CtvqaError
        Where the folder for it cannot be made.
    """
    root = demo_root(folder)
    if usable(root):
        return lambda: root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(root.parent, error) from error
    # -P: a module lying in the folder one happens to work in is not ours to run. Where this
    # package is not installed, its folder is looked in last.
    package = str(Path(__file__).resolve().parents[2])
    begin = (
        f"import sys; sys.path.append({package!r}); from pathlib import Path; "
        f"from napari_ctvqa.demo import ensure_demo; ensure_demo(Path({str(root.parent)!r}))"
    )
    nowhere = subprocess.DEVNULL  # if it fails, so does what the caller does next, and tells why
    command = [sys.executable, "-P", "-c", begin]
    process = None
    with suppress(OSError):  # a Python inside another program cannot be started
        process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)

    def made() -> Path:
        if process is not None:
            process.wait()
        return ensure_demo(folder)

    return made
