"""What every family asks of a case before anything of it is sent; what breaks it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.errors import CtvqaError, GeometryError

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

_SIDES_SWAPPED = "side_swapped"
_NO_HU = "hu_implausible"
FEWEST_VOXELS = 4
"""Along each axis; less is a picture or a scrap, no volume."""


def check_case(case: Case, title: str, *, in_hu: bool = True) -> None:
    """Raise where a case breaks what all families of volumes and slices ask of it.

    ``in_hu`` says that values are windowed in HU, so that they have to be some.

    Raises
    ------
    GeometryError
        When the sides of the case are not to be trusted, or it is too small.
    CtvqaError
        Where values that are windowed in HU may be none.
    """
    check_size(case, title)
    check_sides(case)
    if in_hu:
        check_hu(case, title)


def check_sides(case: Case) -> None:
    """Raise GeometryError where left and right of the case are not to be trusted.

    A mask that does not fit the CT tells nothing of the CT's sides; labels on the wrong side do.
    """
    warnings = [
        *case.volume.report.warnings,
        *(w for w in case.report.warnings if w.code == _SIDES_SWAPPED),
    ]
    red = dict.fromkeys(w.message for w in warnings if w.level is Level.RED)
    if red:
        raise GeometryError(
            f"The sides of {case.case_id} are not known, so no picture of it is sent: "
            + "; ".join(red),
            hint="Correct the header, or ask about another case.",
        )
    if not case.sides_checked:
        raise GeometryError(
            f"The masks that tell left from right in {case.case_id} are still being read.",
            hint="Ask again when the case is complete.",
        )


def check_size(case: Case, title: str) -> None:
    """Raise GeometryError for a CT that is too small to be a volume."""
    shape = case.volume.display_zyx.shape
    if len(shape) != 3 or min(shape) < FEWEST_VOXELS:
        said = " x ".join(str(size) for size in shape)
        raise GeometryError(
            f"{case.case_id} has {said} voxels (z, y, x); {title} takes a volume of at least "
            f"{FEWEST_VOXELS} along each axis.",
            hint="Ask about a whole scan.",
        )


def hu_doubt(case: Case) -> str:
    """Return why the values of a CT may be no Hounsfield units; empty for nothing."""
    said = [w.message for w in case.volume.report.warnings if w.code == _NO_HU]
    return "; ".join(said)


def check_hu(case: Case, title: str) -> None:
    """Raise CtvqaError where values that are windowed in HU may be none."""
    doubt = hu_doubt(case)
    if doubt:
        raise CtvqaError(
            f"{title} takes Hounsfield units, and {doubt}",
            hint="Convert the scan again with its rescale slope and intercept.",
        )
