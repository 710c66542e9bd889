"""Where the demo lies, and whether it is there: known without the generator, which takes long."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import platformdirs

from napari_ctvqa.core.errors import CtvqaError

MARKER = "demo.json"


def version() -> str:
    """Return a stamp of the generator's own source: other code makes another folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def demo_root(folder: Path | None = None) -> Path:
    """Return the demo's folder in ``folder``, in the user's cache folder by default.

    The environment variable ``NAPARI_CTVQA_CACHE`` names another default.
    """
    return (folder if folder is not None else _cache_folder()) / f"demo-{version()}"


def whole(root: Path) -> bool:
    """Return whether every file that the marker lists is there in its size."""
    try:
        sizes = json.loads((root / MARKER).read_text(encoding="utf-8"))["files"]
        return all((root / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def usable(root: Path) -> bool:
    """Return whether the demo is there, whole; if so, note that it is in use."""
    if not whole(root):
        return False
    with suppress(OSError):  # a folder that cannot be written to is not noted
        os.utime(root / MARKER)
    return True


def not_writable(parent: Path, error: OSError) -> CtvqaError:
    """Return what a person is told where the demo cannot be written."""
    return CtvqaError(
        f"The demo cannot be written to {parent}: {error.strerror or error}.",
        hint="Free some space, or name another folder in NAPARI_CTVQA_CACHE.",
    )


def _cache_folder() -> Path:
    named = os.environ.get("NAPARI_CTVQA_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("napari-ctvqa"))
