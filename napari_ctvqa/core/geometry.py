"""Which voxel lies where: the only module that turns indices into millimetres and back.

Display order is (z, y, x) increasing to Inferior, Posterior, Left, so that axial, coronal and
sagittal planes hang radiologically. World coordinates are RAS millimetres, as in NIfTI.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Affine = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FileSpace:
    """The grid as a NIfTI file stores it, axes i, j, k."""

    shape_ijk: tuple[int, int, int]
    affine_ras: Affine
    qform_code: int
    sform_code: int

    @property
    def spacing_mm_ijk(self) -> tuple[float, float, float]:
        """Return the lengths of the affine's columns."""
        raise NotImplementedError

    @property
    def axcodes(self) -> str:
        """Return e.g. ``"LPS"``: where i, j and k increase to."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Grid:
    """A (z, y, x) grid with the affine from its indices to RAS millimetres.

    ``file`` and the two mappings remember the file's own axes: display axis ``d`` runs along file
    axis ``file_axis_of[d]``, backwards where ``flipped[d]``. A grid made for display only
    (resampled) has ``file`` None.
    """

    shape_zyx: tuple[int, int, int]
    affine_zyx_to_ras: Affine
    file: FileSpace | None = None
    file_axis_of: tuple[int, int, int] = (2, 1, 0)
    flipped: tuple[bool, bool, bool] = (False, False, False)

    @property
    def spacing_mm_zyx(self) -> tuple[float, float, float]:
        """Return voxel edge lengths."""
        raise NotImplementedError

    @property
    def voxel_mm3(self) -> float:
        """Return the volume of one voxel, exact also for sheared grids."""
        raise NotImplementedError

    def ras_mm(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return RAS mm of (…, 3) display indices (voxel centres are integers)."""
        raise NotImplementedError

    def index_zyx(self, ras_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return fractional display indices of (…, 3) RAS mm points."""
        raise NotImplementedError

    def file_index_ijk(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the file's own indices of (…, 3) display indices."""
        raise NotImplementedError

    def display_index_zyx(self, index_ijk: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return display indices of (…, 3) file indices."""
        raise NotImplementedError

    def file_slice(self, axis: int, index: int) -> tuple[int, int]:
        """Return (file axis, 0-based file index) of one display slice along display ``axis``."""
        raise NotImplementedError

    def ras_slice(self, axis: int, index: int) -> int:
        """Return the 0-based index counted along the RAS-canonical axis (benchmarks' counting)."""
        raise NotImplementedError

    def direction_letters(self, vector_zyx: npt.ArrayLike) -> str:
        """Return the patient letter(s) a display-index direction points to.

        One letter for a grid along the patient's axes; two, largest component first, for an
        oblique one.
        """
        raise NotImplementedError
