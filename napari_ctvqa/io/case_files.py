"""Find the files of a case: the CT, its masks and the table of their names.

Layouts: a folder with ``ct.nii.gz`` and ``segmentations/*.nii.gz``; a CT beside a multi-label file
and a JSON of names; AbdomenAtlas roots (merged, split into ``image_only`` and ``mask_only``, one
folder deeper); DeepTumorVQA's ``benchmark/ct/<id>``; CT-RATE's nested folders; a CT alone.
Nothing large is read here.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from napari_ctvqa.core.cases import CaseFiles, MaskFile
from napari_ctvqa.core.errors import AmbiguousError, CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.core.names import canonical, is_known
from napari_ctvqa.io.label_table import read_label_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".nii.gz", ".nii")
MASK_FOLDER = "segmentations"
LABEL_STEMS = ("labels", "label", "combined_labels", "segmentation", "segmentations", "masks")
PREFIXES = ("", "image_only", "mask_only", "ct", "benchmark/ct", "ImageTr", "LabelTr")
SPLIT = {"image_only": "mask_only", "ImageTr": "LabelTr"}
CT_RATE_BASES = ("", "dataset", "data_volumes/dataset", "dataset/data_volumes/dataset")
MAX_CHILDREN = 256
"""A root with more folders than this holds cases, not one more level of roots."""

_CT_RATE = re.compile(r"((train|valid)_\d+)_([a-z]+)_\d+")
_WANTED = "a case is a folder with ct.nii.gz and segmentations/*.nii.gz, or one CT file"


def stem(path: Path) -> str:
    """Return the file name without ``.nii.gz`` or ``.nii``."""
    return next((path.name[: -len(s)] for s in SUFFIXES if path.name.endswith(s)), path.stem)


def is_volume_name(path: PurePath) -> bool:
    """Return whether the name ends like a NIfTI volume's."""
    return path.name.endswith(SUFFIXES)


def find_case(path: Path, case_id: str | None = None) -> CaseFiles:
    """Find the files of the case at ``path``: a CT file, a case folder, or (with an id) a root.

    Raises
    ------
    NotFoundError
        When there is no CT; says what was looked for, also when only masks were found.
    AmbiguousError
        When a folder holds several volumes and none is called ``ct``.
    """
    path = Path(path)
    try:
        return _found(path, case_id)
    except OSError as error:
        raise _not_looked_at(path, error) from None


def _not_looked_at(path: Path, error: OSError) -> NotFoundError:
    """Return the error for a path that the system does not look at: too long, not permitted."""
    said = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}…"
    return NotFoundError(
        f"{said} cannot be looked at ({error.strerror or error}); {_WANTED}.",
        hint="Check the path, and that its folders may be read.",
    )


def _found(path: Path, case_id: str | None) -> CaseFiles:
    if path.is_file():
        return _case_of_file(path, case_id)
    if not path.is_dir():
        raise NotFoundError(f"{path} does not exist; {_WANTED}.", hint="Check the path.")
    ct = _ct_in(path)
    if ct is not None:
        files = _case_of_file(ct, case_id or path.name)
        return files if files.masks else _with_split_masks(files, path)
    if case_id is not None:
        return find_in_roots(case_id, [path])
    if path.name == MASK_FOLDER and (ct := _ct_in(path.parent)) is not None:
        return _case_of_file(ct, path.parent.name)
    raise _no_ct(path)


def find_in_roots(case_id: str, roots: Sequence[Path]) -> CaseFiles:
    """Find a case by id (or by a path relative to a root) in folders that hold many cases.

    The CT is the first found in the order of ``roots``, the masks are the first found; they may
    lie under different roots. An id comes from a question file and is not trusted: it never leads
    outside the roots.

    Raises
    ------
    NotFoundError
        When no root has a CT of that id, or the id leads outside.
    """
    try:
        return _found_in_roots(case_id, [Path(root) for root in roots])
    except OSError as error:
        raise _not_looked_at(Path(error.filename or case_id), error) from None


def _found_in_roots(case_id: str, roots: list[Path]) -> CaseFiles:
    found: CaseFiles | None = None
    for root in roots:
        inside = safe_inside(root, case_id)
        places = [] if inside is None else list(_places(root, inside))
        if found is None:
            ct = next((c for c in map(_ct_at, places) if c is not None), None)
            found = None if ct is None else _case_of_file(ct, case_id)
        if found is not None and found.masks:
            return found
    if found is not None:
        return _with_masks_of_roots(found, roots)
    raise _not_in_roots(case_id, roots)


def with_masks(files: CaseFiles, masks: Path | None, labels: Path | None = None) -> CaseFiles:
    """Return the case with the masks that a person named: a folder of files, or one file.

    Raises
    ------
    NotFoundError, InputFileError, RecordError
        Naming the path and what was expected.
    """
    try:
        return _with_masks(files, masks or _label_volume_beside(files), labels)
    except OSError as error:
        raise _not_looked_at(Path(error.filename or masks or ""), error) from None


def _with_masks(files: CaseFiles, masks: Path, labels: Path | None) -> CaseFiles:
    if masks.is_dir():
        single = masks / MASK_FOLDER if (masks / MASK_FOLDER).is_dir() else masks
        found = tuple(m for m in _single_masks(single) if m.path != files.ct)
        if found:
            return _with_single(files, found, ())
        multi = _multi_label(masks, labels)
        if multi:
            return replace(files, masks=multi, notes=())
        raise NotFoundError(
            f"{masks} holds no mask; expected *.nii.gz files, or labels.nii.gz with labels.json.",
            hint="Give the folder that holds the mask files.",
        )
    if not masks.is_file():
        raise NotFoundError(f"{masks} does not exist.", hint="Check the path given for masks.")
    table = labels or _table_beside(masks)
    if table is None:
        return replace(files, masks=(MaskFile(stem(masks), masks),), notes=())
    return replace(files, masks=_from_table(masks, table), notes=())


def safe_inside(root: Path, case_id: str) -> PurePath | None:
    """Return an id as a path below ``root``, or None for one that leads elsewhere.

    Decided by the text alone: links that a person put into the data folder are followed.
    """
    if not case_id.strip() or not case_id.isprintable() or len(case_id) > 1024:
        return None
    inside = PurePath(case_id)
    if inside.is_absolute():
        base = root.absolute()
        if not inside.is_relative_to(base):
            return None
        inside = inside.relative_to(base)
    too_long = any(len(os.fsencode(part)) > 255 for part in inside.parts)
    return None if ".." in inside.parts or too_long or not inside.parts else inside


def _case_of_file(ct: Path, case_id: str | None) -> CaseFiles:
    if not is_volume_name(ct):
        raise InputFileError(
            ct, "is not named like a CT volume (.nii.gz or .nii).", hint="Give the CT's NIfTI file."
        )
    own = stem(ct)
    files = CaseFiles(case_id or (ct.parent.name if own == "ct" else own), ct)
    if own in LABEL_STEMS:
        raise NotFoundError(
            f"{ct} is a file of masks, not a CT; {_WANTED}.",
            hint="Give the CT, and this file with --masks.",
        )
    if ct.parent.name == MASK_FOLDER:
        raise _no_ct(ct.parent)
    alone = own == "ct" or _ct_in(ct.parent) == ct
    return _masks_beside(files, ct.parent) if alone else files


def _masks_beside(files: CaseFiles, folder: Path) -> CaseFiles:
    single = _single_masks(folder / MASK_FOLDER)
    label_files = [p for p in _volumes(folder) if stem(p) in LABEL_STEMS]
    if single:
        notes = tuple(
            f"{p.name} beside {MASK_FOLDER}/ is not read: the single files are taken."
            for p in label_files
        )
        return _with_single(files, single, notes)
    multi = _multi_label(folder, None)
    if multi:
        return replace(files, masks=multi)
    notes = tuple(
        f"{p.name} is not read: no JSON of names beside it (give one with --labels)."
        for p in label_files
    )
    return replace(files, notes=notes)


def _with_single(
    files: CaseFiles, masks: tuple[MaskFile, ...], notes: tuple[str, ...]
) -> CaseFiles:
    """Leave out fallbacks: AbdomenAtlas marks a model's mask, for want of a better, with ``_``.

    Other files of one structure are all read: only their voxels tell whether they agree.
    """
    plain = {canonical(m.name): m for m in reversed(masks) if not m.name.startswith("_")}
    kept = []
    for mask in masks:
        better = plain.get(canonical(mask.name))
        if better is None or not mask.name.startswith("_"):
            kept.append(mask)
        else:
            notes = (
                *notes,
                f"{mask.path.name} is not read: {better.path.name} is the same structure, and a "
                "leading _ marks a fallback.",
            )
    return replace(files, masks=tuple(kept), notes=notes)


def _single_masks(folder: Path) -> tuple[MaskFile, ...]:
    return tuple(MaskFile(stem(path), path) for path in _volumes(folder))


def _multi_label(folder: Path, table: Path | None) -> tuple[MaskFile, ...]:
    for path in _volumes(folder):
        names = table or _table_beside(path)
        if stem(path) in LABEL_STEMS and names is not None:
            return _from_table(path, names)
    return ()


def _from_table(path: Path, table: Path) -> tuple[MaskFile, ...]:
    names = read_label_table(table)
    return tuple(MaskFile(name, path, label) for label, name in sorted(names.items()))


def _table_beside(path: Path) -> Path | None:
    beside = (path.with_name(f"{name}.json") for name in (stem(path), "labels"))
    return next((table for table in beside if table.is_file()), None)


def _label_volume_beside(files: CaseFiles) -> Path:
    folder = files.ct.parent if files.ct else Path()
    found = [p for p in _volumes(folder) if stem(p) in LABEL_STEMS]
    if len(found) != 1:
        raise NotFoundError(
            f"{folder} holds {len(found)} multi-label files; a JSON of names needs one.",
            hint="Name the file with --masks.",
        )
    return found[0]


def _with_split_masks(files: CaseFiles, folder: Path) -> CaseFiles:
    partner = SPLIT.get(folder.parent.name)
    if partner is None:
        return files
    return _masks_beside(files, folder.parent.parent / partner / folder.name)


def _with_masks_of_roots(files: CaseFiles, roots: Sequence[Path]) -> CaseFiles:
    for root in roots:
        inside = safe_inside(root, files.case_id)
        for place in [] if inside is None else _places(root, inside):
            found = _masks_beside(CaseFiles(files.case_id, None), place)
            if found.masks:
                note = f"The masks come from {place}."
                return replace(files, masks=found.masks, notes=(*found.notes, note))
    return files


def _places(root: Path, inside: PurePath) -> Iterator[Path]:
    """Yield where the case may lie, likeliest first; most of these do not exist."""
    names = [inside]
    if is_volume_name(inside):
        names.append(inside.with_name(stem(Path(inside))))
    if inside.parts == (root.name,):
        yield root
    for name in names:
        for prefix in PREFIXES:
            yield root / prefix / name
    yield from _ct_rate_places(root, inside)
    for name in names:
        for child in _children(root):
            for prefix in PREFIXES:
                yield child / prefix / name
        for prefix in PREFIXES[1:]:
            for child in _children(root / prefix):
                yield child / name


def _ct_rate_places(root: Path, inside: PurePath) -> Iterator[Path]:
    match = _CT_RATE.fullmatch(stem(Path(inside)))
    if match is None:
        return
    patient, split, scan = match.groups()
    name = inside.name if is_volume_name(inside) else f"{inside.name}.nii.gz"
    for base in CT_RATE_BASES:
        for top in (f"{split}_fixed", split, ""):
            yield root / base / top / patient / f"{patient}_{scan}" / name


def _ct_at(place: Path) -> Path | None:
    """Return the CT at a place: the file itself, the same name with a suffix, or in a folder."""
    if is_volume_name(place) and place.is_file():
        return place
    if place.is_dir():
        ct = _ct_in(place)
        if ct is not None:
            return ct
    flat = (place.with_name(place.name + suffix) for suffix in SUFFIXES)
    return next((path for path in flat if path.is_file()), None)


def _ct_in(folder: Path) -> Path | None:
    """Return the folder's CT: ``ct.nii.gz``, else the only volume that is no mask file."""
    for suffix in SUFFIXES:
        if (folder / f"ct{suffix}").is_file():
            return folder / f"ct{suffix}"
    if folder.name == MASK_FOLDER:
        return None
    volumes = [p for p in _volumes(folder) if not _is_mask_name(p)]
    if len(volumes) > 1 and (folder / MASK_FOLDER).is_dir():
        names = ", ".join(p.name for p in volumes[:6])
        raise AmbiguousError(
            f"{folder} holds {len(volumes)} volumes and none is called ct.nii.gz: {names}.",
            hint="Give the CT file itself.",
        )
    return volumes[0] if len(volumes) == 1 else None


def _volumes(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    names = (p for p in folder.iterdir() if is_volume_name(p) and not p.name.startswith("."))
    return sorted(p for p in names if p.is_file())


def _children(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    children = sorted(p for p in folder.iterdir() if p.is_dir())
    return children if len(children) <= MAX_CHILDREN else []


def _is_mask_name(path: Path) -> bool:
    return stem(path) in LABEL_STEMS or is_known(stem(path))


def _no_ct(folder: Path) -> CtvqaError:
    inner = folder / MASK_FOLDER if (folder / MASK_FOLDER).is_dir() else folder
    volumes = _volumes(inner)
    if volumes and (inner.name == MASK_FOLDER or all(map(_is_mask_name, volumes))):
        return NotFoundError(
            f"{folder} holds masks ({len(volumes)} files) but no CT; masks are shown on their CT.",
            hint="Put ct.nii.gz beside segmentations/, or give the CT and this folder as --masks.",
        )
    if len(volumes) > 1:
        names = ", ".join(p.name for p in volumes[:6])
        return AmbiguousError(
            f"{folder} holds {len(volumes)} volumes and none is called ct.nii.gz: {names}.",
            hint="Give the CT file itself, and masks with --masks.",
        )
    return NotFoundError(
        f"{folder} holds no CT; {_WANTED}.", hint="Give the case folder or the CT file."
    )


def _not_in_roots(case_id: str, roots: Sequence[Path]) -> NotFoundError:
    places = ", ".join(str(root) for root in roots) or "no folder"
    if roots and all(safe_inside(root, case_id) is None for root in roots):
        return NotFoundError(
            f"the case {case_id[:200]!r} leads outside the data folders ({places}).",
            hint="Name cases by an id or by a path below the folder given with --cases.",
        )
    masks = chain.from_iterable(
        _masks_beside(CaseFiles(case_id, None), place).masks
        for root in roots
        if (inside := safe_inside(root, case_id)) is not None
        for place in _places(root, inside)
    )
    if any(True for _ in masks):
        return NotFoundError(
            f"masks of case {case_id} are under {places}, its CT is not.",
            hint="Give the folder that holds the CTs with --cases ROOT, in the window by Open.",
        )
    return NotFoundError(
        f"no CT of case {case_id} under {places}.",
        hint="Give the folder that holds CTs and masks with --cases ROOT, in the window by Open.",
    )
