"""A kit for a case of what is open: the benchmark's own files, or predicted masks from a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.kits import KitFiles
from napari_ctvqa.evidence.kits import Kit, kit_for
from napari_ctvqa.io.case_files import safe_inside, with_masks
from napari_ctvqa.io.reader import read_case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Case, CaseFiles
    from napari_ctvqa.runners.opening import Opened


def open_kit(
    opened: Opened,
    name: str,
    case: Case,
    *,
    predicted_roots: Sequence[Path] = (),
    prefer_files: bool = False,
) -> Kit:
    """Return a kit of that name for a case.

    ``predicted_roots`` are folders with ``<case id>/segmentations/*.nii.gz`` (or the mask files
    themselves) of predicted masks; see ``evidence.kits`` for the rest.

    Raises
    ------
    CtvqaError
        When the kit has nothing to stand on, or a file of it cannot be read.
    """
    shipped = getattr(opened.benchmark, "kit_files", None)
    files = shipped(opened.path) if shipped is not None else KitFiles()
    found = predicted_files(case.files, predicted_roots)
    predicted = read_case(found) if found is not None else None
    return kit_for(name, case, files, predicted=predicted, prefer_files=prefer_files)


def predicted_files(files: CaseFiles, roots: Sequence[Path]) -> CaseFiles | None:
    """Return the case's CT with its predicted masks, None where no root has any.

    Raises
    ------
    NotFoundError
        When a root has a folder of the case without a mask in it.
    """
    for root in roots:
        inside = safe_inside(root, files.case_id)
        if inside is None or not (root / inside).is_dir():
            continue
        found = with_masks(files, root / inside)
        masks = tuple(replace(mask, source=Source.PREDICTED) for mask in found.masks)
        return replace(found, masks=masks)
    return None
