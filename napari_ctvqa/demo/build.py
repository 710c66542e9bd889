"""Make the demo's folder once, whole or not at all."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.demo import files, questions, results, tools
from napari_ctvqa.demo.hollow import paint_hollow_organs
from napari_ctvqa.demo.lesions import paint_lesions
from napari_ctvqa.demo.parameters import CASES, CaseParameters
from napari_ctvqa.demo.place import MARKER, demo_root, not_writable, usable, version, whole
from napari_ctvqa.demo.scan import scanned
from napari_ctvqa.demo.solid import paint_solid_organs
from napari_ctvqa.demo.trunk import table, trunk
from napari_ctvqa.demo.vessels import paint_vessels

if TYPE_CHECKING:
    from napari_ctvqa.demo.canvas import Canvas

_OUR_NAME = re.compile(r"demo-[0-9a-f]{12}")
_ABANDONED_S = 3600.0
_UNUSED_S = 86400.0
_CASES_AT_ONCE = 2
"""NumPy and zlib let other threads run while they work, so two cases keep two cores busy."""


def ensure_demo(folder: Path | None = None) -> Path:
    """Return the demo's benchmark root, generating it first where it is not there yet.

    Parameters
    ----------
    folder
        Where the demo folder lies or is made; the user's cache folder by default, or the folder
        that the environment variable ``NAPARI_CTVQA_CACHE`` names.

    Raises
    ------
    CtvqaError
        Where the folder cannot be written.
    """
    root = demo_root(folder)
    if usable(root):
        return root
    parent = root.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(parent)
        made = _generate(parent, root)
    except OSError as error:
        raise not_writable(parent, error) from error
    _clear_older(parent, made)
    return made


def _clear_abandoned(parent: Path) -> None:
    """Remove what killed runs left behind long ago; a run that is still at work is younger."""
    for path in parent.glob(".demo-*.partial"):
        if time.time() - path.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


def _clear_older(parent: Path, made: Path) -> None:
    """Remove the demos of other versions that nobody has opened for a day.

    Only folders of our name that hold our marker; what cannot be removed is left.
    """
    for path in parent.glob("demo-*"):
        marker = path / MARKER
        ours = _OUR_NAME.fullmatch(path.name) and marker.is_file() and not path.is_symlink()
        if ours and path != made and time.time() - marker.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(path, ignore_errors=True)


def _generate(parent: Path, root: Path) -> Path:
    """Write everything beside the final place, then rename; the first of several wins."""
    partial = Path(tempfile.mkdtemp(prefix=".demo-", suffix=".partial", dir=parent))
    try:
        _write(partial)
        if root.exists() and not whole(root):
            broken = partial.with_suffix(".broken.partial")
            root.rename(broken)
            shutil.rmtree(broken, ignore_errors=True)
        try:
            partial.rename(root)
        except OSError:
            if not whole(root):
                raise
        return root
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(root: Path) -> None:
    with ThreadPoolExecutor(_CASES_AT_ONCE) as pool:
        written_cases = pool.map(lambda case: _write_case(root / "benchmark" / "ct", case), CASES)
        masks = {case.case_id: of for case, of in zip(CASES, written_cases, strict=True)}
    asked = questions.questions()
    for name in ("results", "tool_cache"):
        (root / name).mkdir()
    files.write_json(root / "benchmark" / "test_qa.json", questions.question_file(asked))
    files.write_json(root / "benchmark" / "demo_notes.json", questions.notes(asked))
    cache = tools.tool_cache(masks, CASES)
    files.write_json(root / "tool_cache" / "benchmark_oracle_tool_cache.json", cache)
    for model, content in results.result_files(asked, masks).items():
        files.write_json(root / "results" / f"{model}.json", content)
    written = sorted(path for path in root.rglob("*") if path.is_file())
    sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in written}
    files.write_json(root / MARKER, {"version": version(), "files": sizes})


def _write_case(parent: Path, case: CaseParameters) -> tools.Masks:
    """Write CT and masks; return what a segmenting tool reports of each mask."""
    folder = parent / case.case_id / "segmentations"
    folder.mkdir(parents=True)
    canvas, hu = phantom(case)
    files.write_ct(folder.parent / "ct.nii.gz", hu)
    written: dict[str, tools.Segmented] = {}
    for name, mask in sorted(canvas.masks.items()):
        if name in case.absent_masks:
            continue
        files.write_mask(folder / f"{name}.nii.gz", mask)
        box = [end for side in reversed(mask.box) for end in (side.start, side.stop)]
        written[name] = tools.Segmented(mask.voxels, box if mask.voxels else None)
    return written


def phantom(case: CaseParameters) -> tuple[Canvas, npt.NDArray[np.int16]]:
    """Return one phantom: the canvas with its masks, and the CT in HU, (k, j, i)."""
    canvas = trunk(case.habitus, case.phase)
    lesions = paint_lesions(canvas, case)
    paint_vessels(canvas, case)
    paint_solid_organs(canvas, case, lesions)
    paint_hollow_organs(canvas, case)
    table(canvas.hu)
    return canvas, scanned(canvas, case, lesions)
