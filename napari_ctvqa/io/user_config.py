"""What is remembered between sessions in the user's config folder, e.g. case roots by benchmark."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.json_files import is_file, is_folder, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

logger = logging.getLogger(__name__)

CONFIG_DIR_VARIABLE = "NAPARI_CTVQA_CONFIG_DIR"
_ROOTS = "case_roots.json"
_MAX_BYTES = 1024 * 1024
_MAX_ROOTS = 32


def config_folder() -> Path:
    """Return the folder; the variable NAPARI_CTVQA_CONFIG_DIR overrides the platform's own."""
    override = os.environ.get(CONFIG_DIR_VARIABLE)
    return Path(override) if override else Path(platformdirs.user_config_dir("napari-ctvqa"))


def stored_object(name: str) -> dict[str, Any]:
    """Return the JSON object in a file of the folder; one that cannot be used counts as empty.

    What is wrong with it is logged.
    """
    path = config_folder() / name
    if not is_file(path):
        return {}
    try:
        stored = read_json(path, max_bytes=_MAX_BYTES)
    except InputFileError as error:
        logger.warning("what was remembered is ignored: %s", error)
        return {}
    if not isinstance(stored, dict):
        logger.warning("what was remembered is ignored: %s holds no object", path)
        return {}
    return stored


def store_object(name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object to a file of the folder, atomically. Raises OSError."""
    path = config_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary_name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.stem}", suffix=".json"
    )
    temporary = Path(temporary_name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, indent=1)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _roots() -> dict[str, list[str]]:
    return {
        name: [root for root in roots if isinstance(root, str)]
        for name, roots in stored_object(_ROOTS).items()
        if isinstance(roots, list)
    }


def remembered_roots(benchmark: str) -> tuple[Path, ...]:
    """Return the case roots remembered for a benchmark that still exist, newest first."""
    return tuple(path for root in _roots().get(benchmark, ()) if is_folder(path := Path(root)))


def remember_roots(benchmark: str, roots: Iterable[Path]) -> None:
    """Put roots in front of those remembered; written atomically, a failure is logged only."""
    new = [str(root.resolve()) for root in roots]
    if not new:
        return
    stored = _roots()
    merged: Sequence[str] = [*new, *stored.get(benchmark, ())]
    stored[benchmark] = list(dict.fromkeys(merged))[:_MAX_ROOTS]
    try:
        store_object(_ROOTS, stored)
    except OSError as error:
        logger.warning("case roots cannot be remembered in %s: %s", config_folder(), error)
