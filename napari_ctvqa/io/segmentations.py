"""Masks that a program made, kept in the user's cache by the CT they are of.

``<cache>/segmentations/<CT>/<program>-<task>-<version>/<class>.nii.gz``. The CT is known by its
path, size and time, so that a CT that was changed has no masks. A mask appears there whole or not
at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from napari_ctvqa.core import names
from napari_ctvqa.core.cases import MaskFile, Source
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.user_config import stored_object

if TYPE_CHECKING:
    from collections.abc import Iterable

CACHE_VARIABLE = "NAPARI_CTVQA_CACHE"
SETTINGS = "segmenter.json"
"""In the user's config folder: ``{"executable": "/path/to/TotalSegmentator"}``."""
SUFFIX = ".nii.gz"


@dataclass(frozen=True, slots=True)
class SegmentationFolder:
    """The masks that one version of a program made of one CT."""

    folder: Path
    program: str
    version: str

    def masks(self) -> tuple[MaskFile, ...]:
        """Return the masks that are there, by the program's own names."""
        paths = sorted(self.folder.glob(f"*{SUFFIX}")) if self.folder.is_dir() else []
        return tuple(
            MaskFile(path.name.removesuffix(SUFFIX), path, source=Source.TOOL)
            for path in paths
            if not path.name.startswith(".")
        )

    def structures(self) -> tuple[str, ...]:
        """Return the canonical names of the structures that are there."""
        return tuple(names.canonical(mask.name) for mask in self.masks())

    def take(self, paths: Iterable[Path]) -> None:
        """Move finished masks in, each whole.

        Raises
        ------
        CtvqaError
            When they cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in paths:
                partial = self.folder / f".{path.name}.partial"
                shutil.move(path, partial)
                partial.replace(self.folder / path.name)
        except OSError as error:
            raise CtvqaError(
                f"Masks cannot be kept in {self.folder}: {error.strerror or error}.",
                hint=f"Free some space, or name another folder in {CACHE_VARIABLE}.",
            ) from error


def cache_root() -> Path:
    """Return where segmentations are kept."""
    named = os.environ.get(CACHE_VARIABLE)
    root = Path(named) if named else Path(platformdirs.user_cache_dir("napari-ctvqa"))
    return root / "segmentations"


def folder_for(ct: Path, program: str, version: str, task: str) -> SegmentationFolder:
    """Return where masks of a CT are kept. Raises OSError when the CT is not there."""
    plain = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in version)
    folder = cache_root() / _key(ct) / f"{program}-{task}-{plain[:40] or 'unknown'}"
    return SegmentationFolder(folder, program, version)


def kept(ct: Path) -> SegmentationFolder | None:
    """Return the newest masks that were made of a CT, None where there are none."""
    try:
        folders = [path for path in (cache_root() / _key(ct)).iterdir() if path.is_dir()]
    except OSError:
        return None
    found = []
    for folder in folders:
        program, _, version = folder.name.split("-", 2) if folder.name.count("-") > 1 else [""] * 3
        masks = SegmentationFolder(folder, program, version)
        if program and masks.masks():
            found.append((folder.stat().st_mtime, masks))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _key(ct: Path) -> str:
    told = ct.resolve()
    state = told.stat()
    identity = f"{told}\0{state.st_size}\0{state.st_mtime_ns}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:20]


def chosen_executable() -> str:
    """Return the program that a person chose, empty for none."""
    executable = stored_object(SETTINGS).get("executable", "")
    return executable if isinstance(executable, str) else ""
