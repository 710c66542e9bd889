"""What is remembered between sessions in the user's config folder: case roots by benchmark."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.json_files import is_file, is_folder, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

CONFIG_DIR_VARIABLE = "NAPARI_CTVQA_CONFIG_DIR"
_MAX_BYTES = 1024 * 1024
_MAX_ROOTS = 32


def config_folder() -> Path:
    """Return the folder; the variable NAPARI_CTVQA_CONFIG_DIR overrides the platform's own."""
    override = os.environ.get(CONFIG_DIR_VARIABLE)
    return Path(override) if override else Path(platformdirs.user_config_dir("napari-ctvqa"))


def _file() -> Path:
    return config_folder() / "case_roots.json"


def _read() -> dict[str, list[str]]:
    """Return what is stored; a file that cannot be used counts as empty, and is logged."""
    path = _file()
    if not is_file(path):
        return {}
    try:
        stored = read_json(path, max_bytes=_MAX_BYTES)
    except InputFileError as error:
        logger.warning("remembered case roots are ignored: %s", error)
        return {}
    if not isinstance(stored, dict):
        logger.warning("remembered case roots are ignored: %s holds no object", path)
        return {}
    return {
        name: [root for root in roots if isinstance(root, str)]
        for name, roots in stored.items()
        if isinstance(roots, list)
    }


def remembered_roots(benchmark: str) -> tuple[Path, ...]:
    """Return the case roots remembered for a benchmark that still exist, newest first."""
    return tuple(path for root in _read().get(benchmark, ()) if is_folder(path := Path(root)))


def remember_roots(benchmark: str, roots: Iterable[Path]) -> None:
    """Put roots in front of those remembered; written atomically, a failure is logged only."""
    new = [str(root.resolve()) for root in roots]
    if not new:
        return
    stored = _read()
    merged: Sequence[str] = [*new, *stored.get(benchmark, ())]
    stored[benchmark] = list(dict.fromkeys(merged))[:_MAX_ROOTS]
    try:
        _write(stored)
    except OSError as error:
        logger.warning("case roots cannot be remembered in %s: %s", _file(), error)


def _write(stored: dict[str, list[str]]) -> None:
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".case_roots", suffix=".json")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(stored, file, ensure_ascii=False, indent=1)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
