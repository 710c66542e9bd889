"""The geometry check: every reason for amber or red, with what to do about it.

=====================  ======  ===================================================================
code                   level   when
=====================  ======  ===================================================================
codes_zero             red     the header gives no world position; readers disagree on left/right
qform_sform_differ     amber   the two positions differ by more than half a voxel; the sform wins
qform_sform_differ     red     ... and they disagree on which way an axis runs (also: pixdim[0] is
                               below 0 and not -1, so that readers disagree on the qform itself)
pixdim_affine_differ   amber   voxel sizes differ by more than 0.1 %; the affine wins
shear                  amber   axes off right angles by 0.5 degrees or half a voxel (gantry tilt)
oblique                amber   no shear, but turned by 0.5 degrees or more from the patient's axes
mask_off_grid          amber   a mask on another grid, resampled through world coordinates
mask_elsewhere         red     a mask that does not reach into the CT's box
mask_shape             red     a mask whose shape contradicts the position its header states
side_swapped           red     a structure lies on the other side than its name says
masks_differ           amber   several masks claim to be one structure and differ: none is used
mask_content           amber   a fifth or more of an organ without air lies in air (io/mask_content)
hu_implausible         amber   values that cannot be Hounsfield units
nan_filled             amber   values that are no numbers, shown as air
padding                amber   a constant below air around the scanned field
=====================  ======  ===================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cc3d
import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.cases import GeometryWarning, Level
from napari_ctvqa.core.geometry import OBLIQUE_DEG, FileSpace, grid_of_file
from napari_ctvqa.core.names import canonical, label, opposite_of, side_of, table
from napari_ctvqa.core.sampling import centroid_ras_mm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from napari_ctvqa.core.cases import Mask, Region
    from napari_ctvqa.core.geometry import Affine, Grid
    from napari_ctvqa.io.nifti import NiftiHeader

PIXDIM_TOLERANCE = 1e-3
QFORM_VOXELS = 0.5
PADDING_BELOW_HU = -1100
PADDING_SHARE = 0.002
AIR_FLOOR_HU = -4096
PADDING_HU = (-8192, -10000, -32767, -32768)
"""Constants below ``AIR_FLOOR_HU`` that scanners and converters write outside the field."""
CT_SPAN_HU = 200
HIGHEST_HU = 70000
"""No scanner stores more: 16 bits hold 65535."""
ODD_PERCENT = 0.01
"""This part of the voxels at either end says nothing about what the values are."""
COMPONENT_SHARE = 0.1
"""A component smaller than this part of its structure says nothing about sides."""

VOLUME_CAVEAT = "voxel size in doubt: pixdim and affine differ, the affine was taken"


def check_header(header: NiftiHeader, grid: Grid) -> tuple[GeometryWarning, ...]:
    """Return what the header alone says against the geometry."""
    found = (
        _codes_zero(header),
        _qform_sform(header, grid),
        pixdim_affine(header),
        _shear(header, grid),
        _oblique(header, grid),
    )
    return tuple(warning for warning in found if warning is not None)


def _codes_zero(header: NiftiHeader) -> GeometryWarning | None:
    if header.has_world:
        return None
    space = header.space
    said = "are both 0" if not (space.qform_code or space.sform_code) else f"are ({header.codes})"
    return GeometryWarning(
        "codes_zero",
        Level.RED,
        f"{header.path.name}: qform and sform code {said}, so the file does not say where "
        "left is and readers disagree. Do not judge sides; convert the scan again with its "
        "orientation, or confirm it from the source and set sform_code 1.",
    )


def other_form(header: NiftiHeader, grid: Grid) -> Grid | None:
    """Return the grid by the form that is not used, its axes along ``grid``'s; None without one."""
    unused = header.qform_ras if header.space.sform_code > 0 else header.sform_ras
    return _grid(header, unused, grid)


def _qform_sform(header: NiftiHeader, grid: Grid) -> GeometryWarning | None:
    if not header.has_world:
        return None
    sform_used = header.space.sform_code > 0
    used, unused = ("sform", "qform") if sform_used else ("qform", "sform")
    if not (header.space.qform_code if sform_used else header.space.sform_code):
        return None if sform_used else _qfac(header)
    name = header.path.name
    other = other_form(header, grid)
    if other is None:
        text = f"{name}: the {unused} is not usable; the {used} is used. Check it at the source."
        return GeometryWarning("qform_sform_differ", Level.AMBER, text)
    if other.file_axis_of != grid.file_axis_of or other.flipped != grid.flipped:
        assert other.file is not None and grid.file is not None
        return GeometryWarning(
            "qform_sform_differ",
            Level.RED,
            f"{name}: the {unused} says {other.file.axcodes}, the {used} {grid.file.axcodes} "
            f"({header.codes}): readers that take one or the other show different sides. The "
            f"{used} is used; do not judge sides until the header is repaired.",
        )
    distance = grid.corner_distance_voxels(other)
    if distance <= QFORM_VOXELS:
        return None
    return GeometryWarning(
        "qform_sform_differ",
        Level.AMBER,
        f"{name}: qform and sform differ by up to {distance:.1f} voxels. The {used} is used; "
        f"positions from a reader that takes the {unused} differ. Repair the header to agree.",
    )


def _qfac(header: NiftiHeader) -> GeometryWarning | None:
    """Return the warning for a qform whose third axis readers turn in two ways."""
    if header.qfac >= 0 or header.qfac == -1 or not np.isfinite(header.qfac):
        return None
    return GeometryWarning(
        "qform_sform_differ",
        Level.RED,
        f"{header.path.name}: pixdim[0] is {header.qfac:g}; 1 or -1 was expected. Some readers "
        "take it for -1, some for 1, and turn the third axis the other way. Do not judge sides "
        "until the header is repaired.",
    )


def check_mask_header(
    header: NiftiHeader, grid: Grid, ct: Grid, ct_other: Grid | None
) -> GeometryWarning | None:
    """Return what a mask's two forms say against each other.

    ``ct_other`` is the CT's grid by its unused form: a mask that lies on the CT's grid by both
    forms lies on the CT whatever a reader takes, and the CT's own warning says the rest.
    """
    found = _qform_sform(header, grid)
    other = other_form(header, grid) if found is not None else None
    if other is None or ct_other is None:
        return found
    return None if grid.same_as(ct) and other.same_as(ct_other) else found


def pixdim_affine(header: NiftiHeader) -> GeometryWarning | None:
    """Return the warning about voxel sizes that contradict each other."""
    norms = np.array(header.space.spacing_mm_ijk)
    stated = np.array(header.pixdim_ijk)
    name = header.path.name
    if header.unit in ("m", "µm"):
        return GeometryWarning(
            "pixdim_affine_differ",
            Level.AMBER,
            f"{name}: the header's unit is {header.unit}; its numbers are read as mm. Check sizes "
            "against a known structure before trusting any length or volume.",
        )
    if np.abs(stated / norms - 1).max() <= PIXDIM_TOLERANCE:
        return None
    if (stated < 0).any() and np.abs(np.abs(stated) / norms - 1).max() <= PIXDIM_TOLERANCE:
        return GeometryWarning(
            "pixdim_affine_differ",
            Level.AMBER,
            f"{name}: pixdim says {_mm(stated)} mm; a voxel size below 0 is read without its "
            "sign, which not every reader does. Check the voxel size at the source before "
            "trusting lengths or volumes.",
        )
    ratio = float(norms.prod() / abs(stated.prod())) if stated.all() else float("inf")
    return GeometryWarning(
        "pixdim_affine_differ",
        Level.AMBER,
        f"{name}: pixdim says {_mm(stated)} mm, the affine {_mm(norms)} mm (volumes differ by a "
        f"factor {ratio:.3g}). The affine is used; check the voxel size at the source before "
        "trusting lengths or volumes.",
    )


def _shear(header: NiftiHeader, grid: Grid) -> GeometryWarning | None:
    if not grid.sheared:
        return None
    return GeometryWarning(
        "shear",
        Level.AMBER,
        f"{header.path.name}: the axes are {grid.shear_deg:.2f} degrees off right angles (gantry "
        "tilt). It is drawn resampled along the patient's axes and measured on its true grid; "
        "slice numbers of the picture are not those of the file.",
    )


def _oblique(header: NiftiHeader, grid: Grid) -> GeometryWarning | None:
    turned = grid.oblique_deg
    if turned < OBLIQUE_DEG or grid.sheared:
        return None
    return GeometryWarning(
        "oblique",
        Level.AMBER,
        f"{header.path.name}: the scan is turned by {turned:.1f} degrees against the patient's "
        "axes. It is shown in its own frame; read directions from the two-letter markers.",
    )


def check_values(
    array_zyx: npt.NDArray[np.generic], hu_min: float, hu_max: float, filled: int, name: str
) -> tuple[GeometryWarning, ...]:
    """Return what the values say: ``filled`` voxels were no numbers and were set to air."""
    found: list[GeometryWarning] = []
    if filled:
        found.append(
            GeometryWarning(
                "nan_filled",
                Level.AMBER,
                f"{name}: {filled} voxels hold no number and are shown as air (-1024 HU). Leave "
                "out measurements that include them, or get the file again.",
            )
        )
    sample = array_zyx[tuple(slice(None, None, 1 + n // 128) for n in array_zyx.shape)]
    rest = sample
    if AIR_FLOOR_HU <= hu_min < PADDING_BELOW_HU or hu_min in PADDING_HU:
        padded = sample == hu_min
        share = float(padded.mean())
        if share >= PADDING_SHARE:
            rest = sample[~padded]
            found.append(
                GeometryWarning(
                    "padding",
                    Level.AMBER,
                    f"{name}: {share:.0%} of the voxels are {hu_min:g}, outside the scanned "
                    "field. They are drawn as air; means over regions that reach there leave "
                    "them out.",
                )
            )
    reason = _implausible(rest, hu_min if rest is sample else None, hu_max)
    if reason:
        found.append(
            GeometryWarning(
                "hu_implausible",
                Level.AMBER,
                f"{name}: values from {hu_min:g} to {hu_max:g} {reason}. Do not use HU values; "
                "check rescale slope and intercept, or convert the scan again.",
            )
        )
    return tuple(found)


def _implausible(sample: npt.NDArray[np.generic], lowest: float | None, highest: float) -> str:
    """Return why values are no HU, empty where they may be.

    ``sample`` are the values without padding. A handful of odd voxels neither makes HU of other
    numbers nor hides that they are none: span and air are judged without the extremes.
    """
    if not sample.size:
        return ""
    low, high = (
        float(np.percentile(sample, percent))  # type: ignore[type-var]
        for percent in (ODD_PERCENT, 100 - ODD_PERCENT)
    )
    if high - low < CT_SPAN_HU:
        return "span too little for a CT (normalised?)"
    if low >= 0:
        return "never fall below 0, so air is not -1000 HU (intercept lost?)"
    if (float(sample.min()) if lowest is None else lowest) < AIR_FLOOR_HU:
        return "lie far below air at -1000 HU (scaled twice?)"
    if highest > HIGHEST_HU:
        return "lie far above metal (scaled twice, or a damaged voxel?)"
    return ""


def check_sides(masks: Mapping[str, Mask]) -> tuple[GeometryWarning, ...]:
    """Return where structures lie on the other side than their names say.

    Centroid of left X against right X, the liver against the spleen, and each large component of
    a paired structure against the middle between the pair. A mask that does not belong to the CT
    says nothing.
    """
    at = {
        name: (mask, float(centre[0]))
        for name, mask in masks.items()
        if _needs_side(name)
        and all(warning.level is not Level.RED for warning in mask.warnings)
        and (centre := centroid_ras_mm(mask.own_region)) is not None
    }
    wrong: list[str] = []
    for name, (mask, x_mm) in at.items():
        other = opposite_of(name)
        if side_of(name) != "left" or other not in at:
            continue
        if x_mm >= at[other][1]:
            wrong.append(f"{label(name)} lies to the right of {label(other)}")
        else:
            wrong += _stray_components(mask, at[other][0])
    for right, left in table().right_of:
        if right in at and left in at and at[right][1] <= at[left][1]:
            wrong.append(f"{label(right)} lies to the left of {label(left)}")
    if not wrong:
        return ()
    return (
        GeometryWarning(
            "side_swapped",
            Level.RED,
            f"{_few(wrong, '; ')}. Either the header or the masks have left and right exchanged "
            "(or, for liver and spleen, situs inversus). Do not judge sides until it is settled.",
        ),
    )


def side_evidence(names: Iterable[str]) -> tuple[str, ...]:
    """Return the structures of these names that ``check_sides`` compares with one another."""
    there = dict.fromkeys(canonical(name) for name in names)
    pairs = [(name, opposite_of(name)) for name in there] + list(table().right_of)
    compared = {name for pair in pairs if all(one in there for one in pair) for name in pair}
    return tuple(name for name in there if name in compared)


def _needs_side(name: str) -> bool:
    return bool(opposite_of(name)) or any(name in pair for pair in table().right_of)


def _stray_components(left: Mask, right: Mask) -> list[str]:
    """Return which large components lie beyond the middle, on the other structure's side."""
    parts = {mask.structure: _component_centres_x(mask.own_region) for mask in (left, right)}
    main = {name: max(centres)[1] for name, centres in parts.items()}
    if main[left.structure] >= main[right.structure]:
        return [f"the main part of {label(left.structure)} lies on the right"]
    middle = (main[left.structure] + main[right.structure]) / 2
    wrong = []
    for mask, sign in ((left, 1), (right, -1)):
        total = mask.own_region.voxels
        for voxels, x_mm in parts[mask.structure]:
            if voxels >= COMPONENT_SHARE * total and sign * (x_mm - middle) > 0:
                wrong.append(f"a part of {label(mask.structure)} ({voxels} voxels) lies across")
    return wrong


def _component_centres_x(region: Region) -> list[tuple[int, float]]:
    """Return (voxels, RAS x in mm) of each 26-connected component."""
    assert region.box_zyx is not None and region.crop_zyx is not None
    # the margin is for cc3d, which takes too little room for the labels of thin boxes
    labels = cc3d.connected_components(np.pad(region.crop_zyx, 1), connectivity=26)
    stats = cc3d.statistics(labels)
    start = np.array([part.start - 1 for part in region.box_zyx])
    centres = region.grid.ras_mm(stats["centroids"][1:] + start)
    counts = stats["voxel_counts"][1:]
    return [(int(n), float(c[0])) for n, c in zip(counts, centres, strict=True)]


def merged(warnings: Iterable[GeometryWarning]) -> tuple[GeometryWarning, ...]:
    """Return one warning for each code and level; many masks with one fault say so once."""
    by_kind: dict[tuple[str, Level], list[str]] = {}
    for warning in warnings:
        messages = by_kind.setdefault((warning.code, warning.level), [])
        if warning.message not in messages:
            messages.append(warning.message)
    return tuple(
        GeometryWarning(code, level, _few(messages, " | "))
        for (code, level), messages in by_kind.items()
    )


def _few(texts: Sequence[str], between: str) -> str:
    shown = between.join(texts[:3])
    return f"{shown}{between}and {len(texts) - 3} more" if len(texts) > 3 else shown


def _grid(header: NiftiHeader, affine: Affine | None, like: Grid) -> Grid | None:
    if affine is None:
        return None
    try:
        return grid_of_file(FileSpace(header.space.shape_ijk, affine, 1, 0), like)
    except ValueError:
        return None


def _mm(lengths: npt.NDArray[np.float64]) -> str:
    return " x ".join(f"{value:.4g}" for value in lengths)
