"""The one reader for a CT and all its masks."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    Mask,
    MaskFile,
    MaskProblem,
    Volume,
)
from napari_ctvqa.core.errors import InputFileError, NotFoundError
from napari_ctvqa.core.geometry import Grid, grid_of_file, to_display
from napari_ctvqa.core.names import canonical
from napari_ctvqa.core.sampling import AIR_HU, resample_linear
from napari_ctvqa.io.geometry_checks import (
    VOLUME_CAVEAT,
    check_header,
    check_sides,
    check_values,
    merged,
    other_form,
    side_evidence,
)
from napari_ctvqa.io.label_maps import CasePainter
from napari_ctvqa.io.mask_claims import settled
from napari_ctvqa.io.mask_content import in_content
from napari_ctvqa.io.masks import Frame, joined_region, read_mask_file
from napari_ctvqa.io.nifti import NiftiFile, NiftiHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from napari_ctvqa.core.cases import GeometryWarning

THREADS = 2
GROWTH_SECONDS = 0.5
"""Masks that arrive within this time are shown together."""
_SPARE_CORE = (os.cpu_count() or 1) > 2
"""Whether masks are inflated beside the CT; on two cores the window has the second to itself."""
WHOLE_HU = 1e-3
"""A CT whose values are this close to whole numbers is kept as int16."""

_INT16 = np.iinfo(np.int16)
_FLOAT32 = np.finfo(np.float32)


def read_volume(path: Path) -> Volume:
    """Read a CT in HU: int16 where all values are whole numbers in its range, else float32.

    Raises
    ------
    InputFileError
        Naming the file, what was found, what was expected and what to do.
    """
    return _read_on(path, *_grids(read_header(path)))


def read_masks(
    files: CaseFiles,
    volume: Volume,
    *,
    wanted: Collection[str] | None = None,
    first: Sequence[str] = (),
    threads: int = THREADS,
) -> Iterator[Mask | MaskProblem]:
    """Yield the case's masks, those named in ``first`` first.

    ``wanted`` and ``first`` hold structure names; ``wanted`` None means all. A bad file is a
    MaskProblem of its own masks.
    """
    frame = _frame(volume.grid, volume.display_grid, volume.report.warnings, volume.other_grid)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="masks")
    try:
        groups = _by_file(files.masks, wanted, first)
        for future in [pool.submit(read_mask_file, group, frame) for group in groups]:
            yield from future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def read_case(
    files: CaseFiles,
    *,
    wanted: Collection[str] | None = None,
    label_maps: bool = False,
    threads: int = THREADS,
) -> Case:
    """Read a CT and its masks at once, with ``label_maps`` where the case is to be drawn.

    With ``wanted`` only those structures are kept, and the case is not ``complete``. Left and
    right are checked on all masks that the side check compares, whatever is wanted: what a case
    is worth does not depend on what is asked. ``threads`` inflate masks at once.

    Raises
    ------
    InputFileError, NotFoundError
        When the CT cannot be used. A bad mask only becomes one of ``problems``.
    """
    volume = read_volume(_ct(files))
    painter = CasePainter(volume.display_grid, len(files.masks)) if label_maps else None
    growing = _GrowingCase(files, volume, painter, wanted)
    both = None if wanted is None else {*wanted, *side_evidence(m.name for m in files.masks)}
    growing.add(read_masks(files, volume, wanted=both, threads=threads))
    growing.check_sides()
    return growing.case(complete=wanted is None)


def case_of(files: CaseFiles, volume: Volume, found: Iterable[Mask | MaskProblem]) -> Case:
    """Return the case of a CT and what was found for it, checked, without label maps."""
    growing = _GrowingCase(files, volume)
    growing.add(found)
    growing.check_sides()
    return growing.case(complete=True)


def open_steps(
    files: CaseFiles, *, first: Sequence[str] = (), threads: int = THREADS
) -> Generator[Case, None, None]:
    """Yield the case as it fills: the CT alone, with the ``first`` masks, growing, complete.

    The masks that tell of sides come next after the ``first`` ones. For a worker thread;
    ``threads`` more inflate, and label maps are painted here. Closing the generator stops the
    reading.

    Raises
    ------
    InputFileError, NotFoundError
        When the CT cannot be used.
    """
    path = _ct(files)
    header = read_header(path)
    grid, display_grid = _grids(header)
    frame = _frame(grid, display_grid, check_header(header, grid), other_form(header, grid))
    sides = side_evidence(mask.name for mask in files.masks)
    groups = _by_file(files.masks, None, (*first, *sides))
    urgent = sum(_rank(group, first) < len(first) for group in groups)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="case")
    try:
        ct = pool.submit(_read_on, path, grid, display_grid)
        if not _SPARE_CORE:
            wait([ct])
        pending = [pool.submit(read_mask_file, group, frame) for group in groups]
        growing = _GrowingCase(files, ct.result(), CasePainter(display_grid, len(files.masks)))
        yield growing.case(complete=not pending)
        if not pending:
            return
        if urgent:
            for future in pending[:urgent]:
                growing.add(future.result())
            growing.check_sides()
            yield growing.case(complete=False)
        shown, checked = time.monotonic(), growing.sides_known
        for future in as_completed(pending[urgent:]):
            growing.add(future.result())
            news = growing.sides_known and not checked
            if news or time.monotonic() - shown > GROWTH_SECONDS:
                growing.check_sides()
                checked = growing.sides_known
                yield growing.case(complete=False)
                shown = time.monotonic()
        growing.check_sides()
        yield growing.case(complete=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _GrowingCase:
    """A case while its masks arrive; with ``wanted``, others only tell of sides."""

    def __init__(
        self,
        files: CaseFiles,
        volume: Volume,
        painter: CasePainter | None = None,
        wanted: Collection[str] | None = None,
    ) -> None:
        self._files, self._volume, self._painter = files, volume, painter
        self._wanted = None if wanted is None else {canonical(name) for name in wanted}
        self._masks: dict[str, Mask] = {}
        self._beside: dict[str, Mask] = {}
        self._problems: dict[str, str] = {}
        self._notes: list[str] = []
        self._warnings = list(volume.report.warnings)
        self._sides: tuple[GeometryWarning, ...] = ()
        self._claims = Counter(canonical(file.name) for file in files.masks)
        self._held: dict[str, list[Mask | MaskProblem]] = {}
        self._awaited = set(side_evidence(file.name for file in files.masks))

    @property
    def sides_known(self) -> bool:
        """Return whether every mask that tells of sides has been read, or cannot be."""
        return not self._awaited

    def add(self, found: Iterable[Mask | MaskProblem]) -> None:
        """Take masks and problems, and paint the masks.

        Of several that claim to be one structure none counts before all are there.
        """
        for item in found:
            claims = self._claims[item.structure]
            if claims <= 1:
                self._take([item])
                continue
            held = self._held.setdefault(item.structure, [])
            held.append(item)
            if len(held) == claims:
                items, note = settled(held)
                self._take(items)
                self._notes += [note] if note else []

    def _take(self, items: Sequence[Mask | MaskProblem]) -> None:
        for given in items:
            self._awaited.discard(given.structure)
            if self._wanted is not None and given.structure not in self._wanted:
                if isinstance(given, Mask):
                    self._beside[given.structure] = given
                continue
            item = in_content(given, self._volume) if isinstance(given, Mask) else given
            self._warnings += item.warnings
            if isinstance(item, MaskProblem):
                self._problems[item.name] = item.message
                continue
            self._masks[item.structure] = item
            if self._painter is not None:
                self._painter.paint([item])

    def check_sides(self) -> None:
        """Compare sides of what is there."""
        self._sides = check_sides({**self._beside, **self._masks})

    def case(self, *, complete: bool) -> Case:
        """Return what is there as one frozen Case."""
        names = dict.fromkeys(canonical(file.name) for file in self._files.masks)
        return Case(
            files=replace(self._files, notes=(*self._files.notes, *self._notes)),
            volume=self._volume,
            masks={name: self._masks[name] for name in names if name in self._masks},
            report=GeometryReport(merged([*self._warnings, *self._sides])),
            label_maps={} if self._painter is None else self._painter.maps(),
            problems=dict(self._problems),
            complete=complete,
            sides_checked=complete or self.sides_known,
        )


class _Values:
    """The CT's values while they arrive: int16 until a value does not fit, then float32."""

    def __init__(self, header: NiftiHeader) -> None:
        self._header = header
        self.array: npt.NDArray[np.generic] = np.empty(header.shape_kji, np.int16)
        plain = header.dtype == np.int16 and not header.scaled
        self.direct = self.array if plain else None
        """Where the file's bytes are the values: the array to inflate into."""
        self.low, self.high = np.inf, -np.inf
        self.filled = 0
        self.no_number: list[tuple[tuple[int, int, int], npt.NDArray[np.bool_]]] = []
        """Where the file holds no number: boxes of it, as ``joined_region`` takes them."""

    def take(self, first: int, slab: npt.NDArray[np.generic]) -> None:
        """Convert and keep one slab (k, j, i) that begins at slice ``first``."""
        if self.direct is not None:
            self._stretch(slab)
            return
        if self._header.dtype.kind in "iu" and not self._header.scaled:
            values = slab
        else:
            values = self._numbers(first, slab)
        self._stretch(values)
        if self.array.dtype == np.int16 and not self._fits(values):
            self.array = self.array.astype(np.float32)
        whole = self.array.dtype == np.int16 and values.dtype.kind == "f"
        self.array[first : first + len(slab)] = np.rint(values) if whole else values

    def _numbers(self, first: int, slab: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
        with np.errstate(invalid="ignore", over="ignore"):
            values = slab.astype(np.float64)
            values *= self._header.slope
            values += self._header.inter
        wrong = ~(np.abs(values) <= _FLOAT32.max)
        if wrong.any():
            self.filled += int(np.count_nonzero(wrong))
            values[wrong] = AIR_HU
            box = [np.flatnonzero(wrong.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1))]
            part = tuple(slice(int(at[0]), int(at[-1]) + 1) for at in box)
            start = (first + part[0].start, part[1].start, part[2].start)
            self.no_number.append((start, wrong[part].copy()))
        return values

    def _stretch(self, values: npt.NDArray[np.generic]) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def _fits(self, values: npt.NDArray[np.generic]) -> bool:
        if self.low < _INT16.min or self.high > _INT16.max:
            return False
        return values.dtype.kind != "f" or bool(
            np.abs(values - np.rint(values)).max() < WHOLE_HU  # type: ignore[operator, call-overload]
        )


def _read_on(path: Path, grid: Grid, display_grid: Grid) -> Volume:
    try:
        with NiftiFile(path) as file:
            values = _Values(file.header)
            for first, slab in file.slabs(values.direct):
                values.take(first, slab)
            header = file.header
    except MemoryError:
        raise InputFileError(
            path, "does not fit into memory.", hint="Close other programs, or crop the scan."
        ) from None
    if values.filled == values.array.size:
        raise InputFileError(path, "holds no number at all.", hint="Give the CT in HU.")
    return _volume(header, values, grid, display_grid)


def _volume(header: NiftiHeader, values: _Values, grid: Grid, display_grid: Grid) -> Volume:
    array = to_display(values.array.transpose(2, 1, 0), grid)
    if grid.file_axis_of != (2, 1, 0):
        array = np.ascontiguousarray(array)
    array.flags.writeable = False
    shown = array if display_grid is grid else resample_linear(array, grid, display_grid)
    warnings = check_header(header, grid) + check_values(
        array, values.low, values.high, values.filled, header.path.name
    )
    return Volume(
        array_zyx=array,
        grid=grid,
        display_zyx=shown,
        display_grid=display_grid,
        report=GeometryReport(warnings),
        path=header.path,
        hu_min=values.low,
        hu_max=values.high,
        no_number=joined_region(values.no_number, grid) if values.no_number else None,
        other_grid=other_form(header, grid),
        padding_hu=values.low if any(w.code == "padding" for w in warnings) else None,
        file_integers=header.dtype.kind in "iu" and not header.scaled,
    )


def _grids(header: NiftiHeader) -> tuple[Grid, Grid]:
    """Return the true grid and the one that is drawn: the same object unless sheared."""
    grid = grid_of_file(header.space)
    return grid, grid.orthogonal() if grid.sheared else grid


def _frame(
    grid: Grid,
    display_grid: Grid,
    warnings: Iterable[GeometryWarning],
    other_grid: Grid | None,
) -> Frame:
    codes = {warning.code for warning in warnings}
    caveats = (VOLUME_CAVEAT,) if "pixdim_affine_differ" in codes else ()
    return Frame(grid, display_grid, "codes_zero" not in codes, caveats, other_grid)


def _by_file(
    masks: Sequence[MaskFile], wanted: Collection[str] | None, first: Sequence[str]
) -> list[list[MaskFile]]:
    """Return the masks grouped by file, the groups with the structures of ``first`` first."""
    names = None if wanted is None else {canonical(name) for name in wanted}
    kept = [mask for mask in masks if names is None or canonical(mask.name) in names]
    by_path = sorted(kept, key=lambda mask: mask.path)
    groups = [list(group) for _, group in groupby(by_path, key=lambda mask: mask.path)]
    return sorted(groups, key=lambda group: _rank(group, first))


def _rank(group: Sequence[MaskFile], first: Sequence[str]) -> int:
    """Return the place of a group's most urgent structure, ``len(first)`` for none."""
    order = {canonical(name): place for place, name in reversed(list(enumerate(first)))}
    return min(order.get(canonical(mask.name), len(first)) for mask in group)


def _ct(files: CaseFiles) -> Path:
    if files.ct is None:
        raise NotFoundError(
            f"case {files.case_id} has no CT; masks are only shown on their CT.",
            hint="Give the folder that holds the CT with --cases ROOT, in the window by Open.",
        )
    return files.ct
