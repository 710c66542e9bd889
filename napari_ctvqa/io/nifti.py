"""Read NIfTI files: the header once, the voxels once, slab by slab, never more than it promises.

nibabel reads the header's fields; the voxels are inflated by isal straight into the array that is
kept (nibabel's ``get_fdata`` makes a float64 copy of everything).
"""

from __future__ import annotations

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import nibabel as nib
import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from isal.isal_zlib import _GzipReader
from nibabel.spatialimages import HeaderDataError

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.geometry import Affine, FileSpace, check_affine

MAX_BYTES = 16 << 30
"""No volume is read whose header promises more."""
MAX_EXTENSION_BYTES = 1 << 28
"""What may lie between the header and the first voxel."""
SLAB_BYTES = 4 << 20
"""Inflated at a time: small enough to stay in the processor's cache while it is looked at."""
BULK_BYTES = 16 << 20
"""Inflated at a time into an array that is kept: each step waits for the interpreter's lock."""
FILE_BUFFER_BYTES = 8 << 20
"""Read from a compressed file at a time, for the same reason."""
MAX_INFLATION = 1100
"""Deflate cannot expand further than 1032 times."""

LARGEST_LABEL = 2**31

_DAMAGE: tuple[type[Exception], ...] = (
    OSError,
    gzip.BadGzipFile,
    zlib.error,
    isal_zlib.error,  # type: ignore[assignment]
)
_AGAIN = "Get the file again from where it came from, or take the case out of the list."
_EXPECTED = "a NIfTI volume (.nii.gz or .nii) was expected"


@dataclass(frozen=True, eq=False)
class NiftiHeader:
    """What a header says, checked: three axes, real numbers, an affine that has an inverse."""

    path: Path
    space: FileSpace
    dtype: np.dtype[Any]
    slope: float
    inter: float
    offset: int
    pixdim_ijk: tuple[float, float, float]
    qform_ras: Affine | None
    """None where the header's qform code is 0, or it cannot be used; likewise ``sform_ras``."""
    sform_ras: Affine | None
    unit: str
    """``"mm"``, ``"m"``, ``"µm"`` or empty, as the header says; the numbers are read as mm."""
    qfac: float = 1.0
    """``pixdim[0]`` as stored; only 1 and -1 mean the same to every reader."""

    @property
    def codes(self) -> str:
        """Return the two codes for people."""
        return f"qform code {self.space.qform_code}, sform code {self.space.sform_code}"

    @property
    def scaled(self) -> bool:
        """Return whether stored numbers must be multiplied or shifted to be values."""
        return (self.slope, self.inter) != (1.0, 0.0)

    @property
    def has_world(self) -> bool:
        """Return whether the header says where the volume lies (a code above 0)."""
        return self.space.qform_code > 0 or self.space.sform_code > 0

    @property
    def shape_kji(self) -> tuple[int, int, int]:
        """Return the shape in the order in which the bytes lie."""
        i, j, k = self.space.shape_ijk
        return k, j, i

    @property
    def voxel_bytes(self) -> int:
        """Return how many bytes the voxels take, inflated."""
        return math.prod(self.space.shape_ijk) * self.dtype.itemsize


class NiftiFile:
    """One open file. A context manager; ``slabs`` can be run through once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputFileError(
                path,
                f"cannot be opened ({error.strerror}); {_EXPECTED}.",
                hint="Check that the file exists and may be read.",
            ) from None
        self.size_bytes = os.fstat(self._raw.fileno()).st_size
        self._zipped = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._left = b""
        self._stream = _inflating(self._raw, self.size_bytes) if self._zipped else self._raw
        self._step_bytes = 0

    def __enter__(self) -> NiftiFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    @cached_property
    def header(self) -> NiftiHeader:
        """Read the header.

        Raises
        ------
        InputFileError
            For everything that is not one volume of real numbers; says what was found.
        """
        if self.size_bytes == 0:
            raise InputFileError(self.path, f"is empty (0 bytes); {_EXPECTED}.", hint=_AGAIN)
        # A header's own numbers may be anything; what they come to is checked, not warned about.
        with self._damage_named(), np.errstate(all="ignore"):
            head = self._stream.read(540)
            header = _parse(self.path, head, zipped=self._zipped)
            _check_size(header, self.size_bytes, zipped=self._zipped)
            self._skip(header.offset - len(head), head, header)
        return header

    def slabs(
        self, into: npt.NDArray[np.generic] | None = None
    ) -> Iterator[tuple[int, npt.NDArray[np.generic]]]:
        """Yield (first k, stored numbers as (k, j, i)) from the first slice to the last.

        ``into`` is filled when given (shape ``header.shape_kji``, the header's dtype); otherwise
        each slab is only valid until the next one is asked for.

        Raises
        ------
        InputFileError
            When the file is cut off or damaged, with the byte where that shows.
        """
        depth, height, width = self.header.shape_kji
        slice_bytes = height * width * self.header.dtype.itemsize
        step = max(1, (SLAB_BYTES if into is None else BULK_BYTES) // slice_bytes)
        self._step_bytes = step * slice_bytes
        own = (
            None
            if into is not None
            else np.empty((min(step, depth), height, width), self.header.dtype)
        )
        for first in range(0, depth, step):
            count = min(step, depth - first)
            slab = own[:count] if own is not None else into[first : first + count]  # type: ignore[index]
            self._fill(slab, first * slice_bytes)
            yield first, slab
        with self._damage_named(self.header.voxel_bytes):
            self._stream.read(1)

    def _fill(self, slab: npt.NDArray[np.generic], done: int) -> None:
        view = memoryview(slab.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        if self._left:
            head, self._left = self._left[: len(view)], self._left[len(view) :]
            view[: len(head)] = head
            view, done = view[len(head) :], done + len(head)
        with self._damage_named(done):
            while len(view):
                count = self._stream.readinto(view)  # type: ignore[attr-defined]
                if not count:
                    raise EOFError
                view, done = view[count:], done + count

    def _skip(self, count: int, head: bytes, header: NiftiHeader) -> None:
        """Go to the first voxel; what of it came with the header is kept."""
        self._left = head[header.offset :]
        while count > 0:
            skipped = len(self._stream.read(min(count, SLAB_BYTES)))
            if not skipped:
                raise EOFError
            count -= skipped

    @contextmanager
    def _damage_named(self, done: int = 0) -> Iterator[None]:
        try:
            yield
        except EOFError:
            of = f" of {self.header.voxel_bytes}" if "header" in self.__dict__ else ""
            raise InputFileError(
                self.path,
                f"is cut off: it ends at byte {self.size_bytes}, and gives only the first "
                f"{done}{of} bytes of a whole volume (give or take {self._step_bytes}).",
                hint=_AGAIN,
            ) from None
        except _DAMAGE as error:
            raise InputFileError(
                self.path,
                f"is damaged at or before byte {self._raw.tell()} ({error}); "
                "the compressed data cannot be read.",
                hint=_AGAIN,
            ) from None


def _inflating(raw: BinaryIO, size_bytes: int) -> BinaryIO:
    """Return the stream of what a compressed file inflates to.

    It is what ``igzip.IGzipFile`` holds inside. That itself has no ``readinto`` of its own (it
    copies every slab) and reads half a MiB at a time.
    """
    inflater: Any = _GzipReader(raw, min(max(size_bytes, 1 << 16), FILE_BUFFER_BYTES))
    return io.BufferedReader(inflater)


def read_header(path: Path) -> NiftiHeader:
    """Return the header alone. Raises InputFileError."""
    with NiftiFile(path) as file:
        return file.header


def as_integers(stored: npt.NDArray[np.generic], header: NiftiHeader) -> npt.NDArray[np.integer]:
    """Return labels without loss: stored integers as they are, anything else rounded and checked.

    Raises
    ------
    InputFileError
        When a value is further than 1e-3 from a whole number, too large, or no number.
    """
    if header.dtype.kind in "iu" and not header.scaled:
        return stored  # type: ignore[return-value]
    with np.errstate(invalid="ignore", over="ignore"):
        values = stored.astype(np.float64) * header.slope + header.inter
        whole = np.rint(values)
        wrong = ~((np.abs(values - whole) < 1e-3) & (np.abs(whole) < LARGEST_LABEL))
    if wrong.any():
        raise InputFileError(
            header.path,
            f"holds {float(values[wrong][0]):g}; a mask holds whole numbers only.",
            hint="Threshold it, and save it as uint8 with slope 1 and intercept 0.",
        )
    return whole.astype(np.int64)


def _parse(path: Path, head: bytes, *, zipped: bool) -> NiftiHeader:
    fields = _fields(path, head, zipped=zipped)
    dtype = _dtype(path, fields)
    shape = _shape(path, fields)
    slope, inter = _scaling(path, fields)
    qform, sform = int(fields["qform_code"]), int(fields["sform_code"])
    qform_ras, sform_ras = _qform(fields), np.array(fields.get_sform(), dtype=np.float64)
    try:
        affine = _affine(fields, qform_ras, sform_ras)
        check_affine(affine)
    except (ValueError, HeaderDataError) as error:
        raise InputFileError(
            path,
            f"has a header that places no voxel: {error}.",
            hint="Repair the header's qform or sform, or convert the scan again.",
        ) from None
    # A size below 0 is read without its sign, as nibabel does; where the sform gives the place it
    # is not used at all, else the check says so.
    spacing = [float(value) for value in fields["pixdim"][1:4]]
    if sform > 0:
        spacing = [abs(value) for value in spacing]
    return NiftiHeader(
        path=path,
        space=FileSpace(shape, affine, qform, sform),
        dtype=dtype,
        slope=slope,
        inter=inter,
        offset=_offset(path, fields),
        pixdim_ijk=(spacing[0], spacing[1], spacing[2]),
        qform_ras=qform_ras if qform else None,
        sform_ras=sform_ras if sform else None,
        unit={1: "m", 2: "mm", 3: "µm"}.get(int(fields["xyzt_units"]) & 7, ""),
        qfac=float(fields["pixdim"][0]),
    )


def _affine(fields: Any, qform_ras: Affine | None, sform_ras: Affine) -> Affine:
    """Return the affine by the standard: the sform, else the qform, where their code is above 0.

    nibabel's ``get_best_affine`` takes every code but 0; a code below 0 is none that the standard
    knows, and other readers pass it over.
    """
    if int(fields["sform_code"]) > 0:
        return sform_ras
    if int(fields["qform_code"]) > 0:
        if qform_ras is None:
            raise ValueError("its qform is not usable")
        return qform_ras
    return np.array(fields.get_base_affine(), dtype=np.float64)


def _fields(path: Path, head: bytes, *, zipped: bool) -> Any:
    """Return nibabel's header, NIfTI-1 or -2 in either byte order."""
    size = head[:4]
    if size in (b"\x5c\x01\x00\x00", b"\x00\x00\x01\x5c") and len(head) >= 348:
        fields: Any = nib.Nifti1Header(head[:348], check=False)
        magics = (b"n+1",)
    elif size in (b"\x1c\x02\x00\x00", b"\x00\x00\x02\x1c") and len(head) >= 540:
        fields, magics = nib.Nifti2Header(head[:540], check=False), (b"n+2",)
    else:
        how = "inflates to" if zipped else "begins with"
        raise InputFileError(
            path, f"is not a NIfTI volume (it {how} {head[:12]!r}); {_EXPECTED}.", hint=_AGAIN
        )
    if bytes(fields["magic"])[:3] not in magics:
        raise InputFileError(
            path,
            f"is not a single-file NIfTI volume (its magic is {bytes(fields['magic'])!r}).",
            hint="Convert Analyze or .hdr/.img pairs to .nii.gz first.",
        )
    return fields


def _dtype(path: Path, fields: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(fields.get_data_dtype())
    except (HeaderDataError, KeyError):
        code = int(fields["datatype"])
        raise InputFileError(path, f"has the data type {code}, not known.", hint=_AGAIN) from None
    if dtype.fields is not None:
        raise InputFileError(
            path,
            "holds RGB colours; a volume of one number a voxel was expected.",
            hint="Give the scan itself, not a colour picture of it.",
        )
    if dtype.kind not in "iuf":
        what = "complex numbers" if dtype.kind == "c" else f"data of type {dtype}"
        raise InputFileError(
            path,
            f"holds {what}; a volume of one real number a voxel was expected.",
            hint="Give the CT in HU, or a mask of whole numbers.",
        )
    return dtype


def _shape(path: Path, fields: Any) -> tuple[int, int, int]:
    """Return the three sizes from the header's ``dim`` itself.

    nibabel's ``get_data_shape`` reads other fields for some numbers, as FreeSurfer writes them,
    and raises for others.
    """
    dim = [int(n) for n in fields["dim"]]
    if not 1 <= dim[0] <= 7:
        raise InputFileError(
            path,
            f"says that it has {dim[0]} axes (dim[0]); three were expected.",
            hint="Repair the header's dim, or convert the scan again.",
        )
    shape = tuple(dim[1 : dim[0] + 1])
    if any(n < 1 for n in shape) or len(shape) < 3:
        raise InputFileError(
            path, f"has the shape {shape}; three axes were expected.", hint="Give a 3-D volume."
        )
    if any(n != 1 for n in shape[3:]):
        raise InputFileError(
            path,
            f"holds {math.prod(shape[3:])} volumes (shape {shape}); one 3-D volume was expected.",
            hint="Save the volume that the question is about as its own file.",
        )
    return shape[0], shape[1], shape[2]


def _scaling(path: Path, fields: Any) -> tuple[float, float]:
    try:
        slope, inter = fields.get_slope_inter()
    except HeaderDataError as error:
        raise InputFileError(
            path,
            f"has a scaling that is no number ({error}).",
            hint="Repair the header's scl_inter.",
        ) from None
    return (1.0 if slope is None else float(slope)), (0.0 if inter is None else float(inter))


def _offset(path: Path, fields: Any) -> int:
    """Return where the voxels begin: the header's word, never inside the header."""
    stated = float(fields["vox_offset"])
    if not 0 <= stated <= MAX_EXTENSION_BYTES:
        raise InputFileError(
            path, f"says that its voxels begin at byte {stated:g}.", hint="Repair vox_offset."
        )
    return max(int(stated), int(fields["sizeof_hdr"]) + 4)


def _qform(fields: Any) -> Affine | None:
    """Return the qform as the standard reads it, None where it cannot be computed.

    A ``pixdim[0]`` that is neither 1 nor -1 counts by its sign (0 is 1), a voxel size without its
    sign. nibabel does the same to a file that it loads, and refuses a bare header.
    """
    usable = fields.copy()
    usable["pixdim"][0] = -1.0 if float(fields["pixdim"][0]) < 0 else 1.0
    usable["pixdim"][1:4] = np.abs(fields["pixdim"][1:4])
    try:
        return np.array(usable.get_qform(), dtype=np.float64)
    except (ValueError, HeaderDataError):
        return None


def _check_size(header: NiftiHeader, file_bytes: int, *, zipped: bool) -> None:
    wanted = header.offset + header.voxel_bytes
    if header.voxel_bytes > MAX_BYTES:
        raise InputFileError(
            header.path,
            f"promises {header.voxel_bytes} bytes (shape {header.space.shape_ijk}); at most "
            f"{MAX_BYTES} are read.",
            hint="Check the header's dimensions; crop or downsample a volume of this size.",
        )
    possible = file_bytes * MAX_INFLATION if zipped else file_bytes
    if possible < wanted:
        raise InputFileError(
            header.path,
            f"is cut off: it ends at byte {file_bytes}, and cannot hold the {wanted} bytes that "
            "its header promises.",
            hint=_AGAIN,
        )
