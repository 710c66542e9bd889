"""Case, Volume, Mask, Region: arrays with the grid they live on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from napari_ctvqa.core.geometry import Grid

BoxZYX = tuple[slice, slice, slice]


class Level(StrEnum):
    """The traffic light of the geometry check."""

    GREEN = "green"
    AMBER = "amber"
    RED = "red"


@dataclass(frozen=True, slots=True)
class GeometryWarning:
    """One reason for amber or red. ``code`` is stable, ``message`` says what to do."""

    code: str
    level: Level
    message: str


@dataclass(frozen=True)
class GeometryReport:
    """What the geometry check found; ``level`` is the worst of the warnings."""

    warnings: tuple[GeometryWarning, ...] = ()

    @property
    def level(self) -> Level:
        """Return green, amber or red."""
        levels = {w.level for w in self.warnings}
        return next((x for x in (Level.RED, Level.AMBER) if x in levels), Level.GREEN)

    @property
    def side_trusted(self) -> bool:
        """Return whether left and right may be shown and scored (false when red)."""
        return self.level is not Level.RED


class Source(StrEnum):
    """Where a mask came from."""

    REFERENCE = "reference"
    PREDICTED = "predicted"
    TOOL = "tool"
    READER = "reader"
    ASSUMED = "assumed"
    """Nobody drew it: absent files are taken as "none" because a person said so."""


@dataclass(frozen=True, eq=False)
class Region:
    """A set of voxels of one grid, kept as a bounding box and the voxels inside it.

    ``crop_zyx`` is boolean with the shape of ``box_zyx``; both are None for an empty region.
    """

    grid: Grid
    box_zyx: BoxZYX | None
    crop_zyx: npt.NDArray[np.bool_] | None
    voxels: int

    @property
    def empty(self) -> bool:
        """Return whether no voxel is set."""
        return self.voxels == 0

    @property
    def touches_border(self) -> bool:
        """Return whether a voxel lies on an outer face of the grid: the volume may cut it off."""
        if self.box_zyx is None:
            return False
        sides = zip(self.box_zyx, self.grid.shape_zyx, strict=True)
        return any(part.start == 0 or part.stop == size for part, size in sides)


@dataclass(frozen=True, eq=False)
class Mask:
    """One named binary region, with where it came from.

    ``region`` lies on the CT's grid (what is drawn). ``own_region`` lies on the grid of the mask's
    file (what is measured); it is the same object where the two grids agree. Reference data: never
    written, never editable.
    """

    name: str
    """The file's or the label table's own name."""
    structure: str
    """The canonical name, by the alias table; equals ``name`` when the table has none."""
    source: Source
    region: Region
    own_region: Region
    path: Path | None = None
    label: int | None = None
    """The value in a multi-label file; None for a binary file."""
    lesion: bool = False
    caveats: tuple[str, ...] = ()
    """E.g. ``"touches the border of the volume"``, ``"resampled to the CT's grid"``."""
    warnings: tuple[GeometryWarning, ...] = ()
    """What this mask adds to the case's geometry report."""


@dataclass(frozen=True, eq=False)
class MaskProblem:
    """A mask that could not be read or placed: its structure stays unknown, the case goes on."""

    name: str
    structure: str
    message: str
    """Names the file, what was expected and what to do."""
    warnings: tuple[GeometryWarning, ...] = ()


@dataclass(frozen=True, eq=False)
class LabelMap:
    """One label layer for many masks: what is drawn, never what is measured.

    ``array_zyx`` (uint8 or uint16, on the CT's display grid) holds the value of the mask painted
    last; ``structures`` maps value to canonical structure name. Masks of one group may overlap:
    the larger is painted first, and ``overlaps`` says by how many voxels each mask is covered.
    """

    group: str
    """``"organs"`` or ``"lesions"``."""
    array_zyx: npt.NDArray[np.unsignedinteger]
    structures: Mapping[int, str]
    overlaps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Volume:
    """A CT: HU on a (z, y, x) grid that increases to Inferior, Posterior, Left.

    ``array_zyx`` is int16 (or float32 where the file has fractions); it is a view of the decoded
    file where the geometry allows. ``grid`` is the true geometry, used for all measurements.
    ``display_zyx`` and ``display_grid`` are what is drawn: the same objects, except for a sheared
    volume, which is resampled to an orthogonal grid.
    """

    array_zyx: npt.NDArray[np.generic]
    grid: Grid
    display_zyx: npt.NDArray[np.generic]
    display_grid: Grid
    report: GeometryReport
    path: Path
    hu_min: float
    hu_max: float
    no_number: Region | None = None
    """The voxels that hold no number in the file (NaN, infinite) and are shown as air, on
    ``grid``; None where there are none."""
    other_grid: Grid | None = None
    """The grid by the form of the header (qform or sform) that is not used, where it has both."""
    padding_hu: float | None = None
    """The constant around the scanned field, where the geometry check found one."""
    file_integers: bool = True
    """Whether the file stores HU as integers, without slope and intercept."""


@dataclass(frozen=True)
class MaskFile:
    """Where one mask lies: a binary file, or one value of a multi-label file."""

    name: str
    path: Path
    label: int | None = None
    source: Source = Source.REFERENCE


@dataclass(frozen=True)
class CaseFiles:
    """The files of one case, before anything large is read."""

    case_id: str
    ct: Path | None
    masks: tuple[MaskFile, ...] = ()
    notes: tuple[str, ...] = ()
    """E.g. which of several candidates was taken, or that masks lie under another root."""


@dataclass(frozen=True, eq=False)
class Case:
    """One CT volume with its masks.

    ``masks`` maps the canonical structure name to its mask, reference source. A structure that is
    not in ``masks`` is *unknown*, unless ``complete`` is false: then it may still be loading.
    ``problems`` holds masks that could not be read, by name, with the sentence to show.
    """

    files: CaseFiles
    volume: Volume
    masks: Mapping[str, Mask]
    report: GeometryReport
    """Volume and mask checks together."""
    label_maps: Mapping[str, LabelMap] = field(default_factory=dict)
    """By group; built beside the reading, off the GUI thread."""
    problems: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    sides_checked: bool = True
    """Whether left and right were compared on every mask that tells of them; false while some of
    these are still read."""

    @property
    def case_id(self) -> str:
        """Return the id that questions use."""
        return self.files.case_id
