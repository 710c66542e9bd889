"""Which voxel lies where: the only module that turns indices into millimetres and back.

Display order is (z, y, x) increasing to Inferior, Posterior, Left, so that axial, coronal and
sagittal planes hang radiologically. World coordinates are RAS millimetres, as in NIfTI.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Affine = npt.NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)

OBLIQUE_DEG = 0.5
"""From this angle on a grid counts as turned against the patient's axes, or as sheared."""
SHEAR_VOXELS = 0.5
"""A sheared grid drawn unsheared may misplace no voxel by more than this."""
SAME_GRID_VOXELS = 1e-3
"""Two grids are the same where no corner differs by more than this part of a voxel."""

FARTHEST_MM = 1e6
"""No patient is farther from the origin, and no voxel smaller than its inverse."""

_POSITIVE, _NEGATIVE = "RAS", "LPI"


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
        return _lengths(self.affine_ras)

    @property
    def axcodes(self) -> str:
        """Return e.g. ``"LPS"``: where i, j and k increase to."""
        return "".join(
            (_POSITIVE if sign > 0 else _NEGATIVE)[axis]
            for axis, sign in closest_axes(self.affine_ras)
        )


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
        return _lengths(self.affine_zyx_to_ras)

    @property
    def voxel_mm3(self) -> float:
        """Return the volume of one voxel, exact also for sheared grids."""
        return float(abs(np.linalg.det(self.affine_zyx_to_ras[:3, :3])))

    @cached_property
    def affine_ras_to_zyx(self) -> Affine:
        """Return the inverse of ``affine_zyx_to_ras``."""
        return np.asarray(np.linalg.inv(self.affine_zyx_to_ras), dtype=np.float64)

    def ras_mm(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return RAS mm of (…, 3) display indices (voxel centres are integers)."""
        return _apply(self.affine_zyx_to_ras, index_zyx)

    def index_zyx(self, ras_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return fractional display indices of (…, 3) RAS mm points."""
        return _apply(self.affine_ras_to_zyx, ras_mm)

    def file_index_ijk(self, index_zyx: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the file's own indices of (…, 3) display indices."""
        index = np.asarray(index_zyx, dtype=np.float64)
        out = np.empty_like(index)
        for axis, (file_axis, back) in enumerate(zip(self.file_axis_of, self.flipped, strict=True)):
            last = self.shape_zyx[axis] - 1
            out[..., file_axis] = last - index[..., axis] if back else index[..., axis]
        return out

    def display_index_zyx(self, index_ijk: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return display indices of (…, 3) file indices."""
        index = np.asarray(index_ijk, dtype=np.float64)
        out = np.empty_like(index)
        for axis, (file_axis, back) in enumerate(zip(self.file_axis_of, self.flipped, strict=True)):
            last = self.shape_zyx[axis] - 1
            out[..., axis] = last - index[..., file_axis] if back else index[..., file_axis]
        return out

    def file_slice(self, axis: int, index: int) -> tuple[int, int] | None:
        """Return (file axis, 0-based file index) of one display slice along display ``axis``.

        None for a grid that is only drawn: its slices are no slices of the file.
        """
        if self.file is None:
            return None
        back = self.flipped[axis]
        return self.file_axis_of[axis], self.shape_zyx[axis] - 1 - index if back else index

    def ras_slice(self, axis: int, index: int) -> int:
        """Return the 0-based index counted along the RAS-canonical axis (benchmarks' counting).

        Display axes run to Inferior, Posterior and Left, RAS axes the other way on all three.
        """
        return self.shape_zyx[axis] - 1 - index

    def direction_letters(self, vector_zyx: npt.ArrayLike) -> str:
        """Return the patient letter(s) a display-index direction points to.

        One letter for a grid along the patient's axes; two, largest component first, for an
        oblique one. Empty for a vector without a length.
        """
        world = self.affine_zyx_to_ras[:3, :3] @ np.asarray(vector_zyx, dtype=np.float64)
        length = float(np.linalg.norm(world))
        if not length:
            return ""
        part = world / length
        seen = np.sin(np.deg2rad(OBLIQUE_DEG))
        order = [axis for axis in np.argsort(-abs(part), kind="stable") if abs(part[axis]) > seen]
        return "".join((_POSITIVE if part[axis] > 0 else _NEGATIVE)[axis] for axis in order[:2])

    @property
    def oblique_deg(self) -> float:
        """Return the largest angle between a grid axis and the patient axis closest to it."""
        turned = nearest_rotation(self.affine_zyx_to_ras)
        cosines = np.clip(np.abs(turned).max(axis=0), 0.0, 1.0)
        return float(np.rad2deg(np.arccos(cosines)).max())

    @property
    def shear_deg(self) -> float:
        """Return by how much the angles between the grid's axes differ from 90 degrees, at most."""
        unit = self.affine_zyx_to_ras[:3, :3] / np.array(self.spacing_mm_zyx)
        cosines = np.clip(np.abs(np.triu(unit.T @ unit, 1)), 0.0, 1.0)
        return float(np.rad2deg(np.arcsin(cosines)).max())

    @property
    def sheared(self) -> bool:
        """Return whether drawing this grid as a box would misplace anything visibly."""
        if self.shear_deg > OBLIQUE_DEG:
            return True
        box = nearest_rotation(self.affine_zyx_to_ras) * np.array(self.spacing_mm_zyx)
        corners = _corners(self.shape_zyx)
        off_mm = (self.affine_zyx_to_ras[:3, :3] - box) @ (corners - corners.mean(axis=0)).T
        worst = float(np.linalg.norm(off_mm, axis=0).max())
        return worst > SHEAR_VOXELS * min(self.spacing_mm_zyx)

    def same_as(self, other: Grid) -> bool:
        """Return whether both grids put every voxel in the same place (1e-3 of a voxel)."""
        if self.shape_zyx != other.shape_zyx:
            return False
        return self.corner_distance_voxels(other) <= SAME_GRID_VOXELS

    def corner_distance_voxels(self, other: Grid) -> float:
        """Return how far the corners of two grids of one shape lie apart, in own voxels."""
        corners = _corners(self.shape_zyx)
        there = self.index_zyx(other.ras_mm(corners))
        return float(np.abs(there - corners).max())

    def orthogonal(self) -> Grid:
        """Return the smallest grid along the patient's axes that holds this one, same spacing.

        For drawing a sheared grid: a tilted gantry turns either the slices or the stack, and
        only the patient's own axes are right for both.
        """
        frame = -np.eye(3)[::-1].T
        spacing_mm = np.array(self.spacing_mm_zyx)
        along_mm = self.ras_mm(_corners(self.shape_zyx)) @ frame
        low_mm, high_mm = along_mm.min(axis=0), along_mm.max(axis=0)
        counts = np.ceil((high_mm - low_mm) / spacing_mm - 1e-6).astype(int) + 1
        affine = np.eye(4)
        affine[:3, :3] = frame * spacing_mm
        affine[:3, 3] = frame @ low_mm
        return Grid((int(counts[0]), int(counts[1]), int(counts[2])), affine)


def closest_axes(affine_ras: Affine, like: Grid | None = None) -> tuple[tuple[int, int], ...]:
    """Return, for each column, the RAS axis it runs along and +1 or -1.

    The choice that nibabel's ``io_orientation`` makes (this layer does not import nibabel): the
    closest rotation's columns, strongest first, each taking the free axis it points along most.
    ``like`` puts a grid's own frame in the place of the patient's axes: a file turned by 45
    degrees is as close to one axis as to the next, and rounding must not tell it from a grid that
    is turned in the same way.
    """
    turned = nearest_rotation(affine_ras)
    if like is not None:
        turned = -nearest_rotation(like.affine_zyx_to_ras)[:, ::-1].T @ turned
    left = np.abs(turned)
    chosen = [(0, 1)] * 3
    for column in np.argsort(-(left**2).max(axis=0), kind="stable"):
        axis = int(np.argmax(left[:, column]))
        chosen[int(column)] = (axis, -1 if turned[axis, column] < 0 else 1)
        left[axis, :] = -1.0
    return tuple(chosen)


def nearest_rotation(affine: Affine) -> npt.NDArray[np.float64]:
    """Return the orthogonal matrix closest to the affine's directions (polar decomposition)."""
    matrix = affine[:3, :3] / np.array(_lengths(affine))
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right, dtype=np.float64)


def grid_of_file(space: FileSpace, like: Grid | None = None) -> Grid:
    """Return the display grid of a file: its axes permuted and flipped, nothing resampled.

    With ``like`` its axes are ordered to run along that grid's, as a mask's along its CT's.

    Raises
    ------
    ValueError
        When the affine is not finite or has no inverse.
    """
    check_affine(space.affine_ras)
    axes = closest_axes(space.affine_ras, like)
    file_axis_of = [0, 0, 0]
    flipped = [False, False, False]
    for file_axis, (ras_axis, sign) in enumerate(axes):
        file_axis_of[2 - ras_axis] = file_axis
        flipped[2 - ras_axis] = sign > 0
    to_file = np.zeros((4, 4))
    to_file[3, 3] = 1.0
    for display_axis, (file_axis, back) in enumerate(zip(file_axis_of, flipped, strict=True)):
        to_file[file_axis, display_axis] = -1.0 if back else 1.0
        to_file[file_axis, 3] = space.shape_ijk[file_axis] - 1 if back else 0
    shape = tuple(space.shape_ijk[axis] for axis in file_axis_of)
    return Grid(
        (shape[0], shape[1], shape[2]),
        space.affine_ras @ to_file,
        space,
        (file_axis_of[0], file_axis_of[1], file_axis_of[2]),
        (flipped[0], flipped[1], flipped[2]),
    )


def to_display(array_ijk: npt.NDArray[Scalar], grid: Grid) -> npt.NDArray[Scalar]:
    """Return the (z, y, x) view of an array in file order; nothing is copied."""
    turned = array_ijk.transpose(grid.file_axis_of)
    steps = tuple(slice(None, None, -1 if back else 1) for back in grid.flipped)
    return turned[steps]


def to_file_order(array_zyx: npt.NDArray[Scalar], grid: Grid) -> npt.NDArray[Scalar]:
    """Return the (i, j, k) view of an array in display order; nothing is copied."""
    steps = tuple(slice(None, None, -1 if back else 1) for back in grid.flipped)
    return array_zyx[steps].transpose(np.argsort(grid.file_axis_of))


def check_affine(affine: Affine) -> None:
    """Raise ValueError, saying why, for an affine that places voxels nowhere."""
    if not np.isfinite(affine).all():
        raise ValueError("the affine holds numbers that are not finite")
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    if not (lengths > 0).all():
        raise ValueError("an axis of the affine has no length")
    if abs(np.linalg.det(affine[:3, :3] / lengths)) < 1e-3:
        raise ValueError("the axes of the affine lie in one plane")
    if lengths.min() < 1 / FARTHEST_MM or np.abs(affine).max() > FARTHEST_MM:
        raise ValueError(f"voxels of {lengths.min():.3g} mm, or positions beyond a kilometre")


def _lengths(affine: Affine) -> tuple[float, float, float]:
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    return float(lengths[0]), float(lengths[1]), float(lengths[2])


def _apply(affine: Affine, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(points, dtype=np.float64) @ affine[:3, :3].T + affine[:3, 3]


def _corners(shape: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    """Return the eight corner voxels' indices, (8, 3)."""
    return np.array(list(product(*((0, n - 1) for n in shape))), dtype=np.float64)
