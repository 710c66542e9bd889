"""What one step of a plan finds on a case: a number, or where something lies, with its caveats.

The reference chain and the agents' tools both come here, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from napari_ctvqa.core import names
from napari_ctvqa.core.contact import CONTACT_MM, contact_around, touching_voxels
from napari_ctvqa.core.diameters import Diameter, longest_axial_diameter, longest_diameter_3d_mm
from napari_ctvqa.core.distances import centre_distance_mm, near, offset_mm, surface_distance
from napari_ctvqa.core.measure import (
    EMPTY_CAVEAT,
    MEASURED,
    SIZE_FILTERS,
    border_caveats,
    hu_percentile,
    measured,
    sd_hu,
)
from napari_ctvqa.core.parts import OVER_TENTH, Located, caudate_to_right_lobe
from napari_ctvqa.core.plans import PlanStep, lesions_left_out, other_caveats
from napari_ctvqa.core.regions import focus_slice, together
from napari_ctvqa.core.rules import Variant, measure_named, rule_for
from napari_ctvqa.core.sampling import centroid_ras_mm
from napari_ctvqa.core.selections import (
    components_of,
    located,
    location_caveats,
    on_grid,
    on_grid_of,
    selection,
)
from napari_ctvqa.core.targets import Resolved, resolve

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Region, Volume
    from napari_ctvqa.core.geometry import Grid


@dataclass(frozen=True, slots=True)
class Finding:
    """What a step found.

    ``value`` is a number, structures joined by ``+``, or None: then ``problem`` says why.
    ``slice_display`` is the axial display index that shows it, where one is meant. ``detail`` holds
    more JSON data for whoever asks for it.
    """

    resolved: Resolved
    measure: str
    value: float | str | None
    unit: str = ""
    caveats: tuple[str, ...] = ()
    problem: str = ""
    slice_display: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


def find(case: Case, step: PlanStep, variant: Variant | None = None) -> Finding:
    """Take one step of a plan on a case.

    ``variant`` is a rule's variant, which may name a size filter for lesions and a rule for the
    parts they lie in.

    Raises
    ------
    KeyError
        For a measure that is not known.
    """
    parameters = variant.parameters if variant is not None else {}
    part_rule = str(parameters.get("part_rule", OVER_TENTH))
    key = (step.target, step.measure, step.other, part_rule, _filter_name(variant))
    known = _FOUND.setdefault(case, {})
    if key not in known:
        known[key] = _find(case, step, variant, part_rule)
    return known[key]


_FOUND: WeakKeyDictionary[Case, dict[tuple[str, ...], Finding]] = WeakKeyDictionary()
"""What was found on a case, for as long as it is open: questions of a case ask the same often."""


def _find(case: Case, step: PlanStep, variant: Variant | None, part_rule: str) -> Finding:
    found = resolve(case, step.target, part_rule)
    if found.missing:
        return Finding(found, step.measure, None, problem=found.missing)
    work = _Work(case, step, found, variant)
    if step.measure == "voxels":
        return work.done(float(work.region.voxels))
    if step.measure in MEASURED:
        return work.one_of_the_tool()
    return _BY_MEASURE[step.measure](work)


@dataclass(frozen=True)
class _Work:
    """One step on a case, its masks found."""

    case: Case
    step: PlanStep
    found: Resolved
    variant: Variant | None

    @property
    def region(self) -> Region:
        return together(self.found.masks)

    @property
    def part_rule(self) -> str:
        rule: str = self.variant.parameters.get("part_rule", OVER_TENTH) if self.variant else ""
        return rule or OVER_TENTH

    def done(
        self,
        value: float | str | None,
        *caveats: str,
        problem: str = "",
        slice_display: int | None = None,
        **detail: Any,
    ) -> Finding:
        """Return the finding with its unit and every caveat, each once.

        A number that is none (infinite, undefined) never leaves as a value.
        """
        if isinstance(value, float) and not math.isfinite(value):
            value, problem = None, f"{self.step.measure} is no finite number"
        all_caveats = (
            *caveats,
            *border_caveats(self.found.masks),
            *self.found.caveats,
            *other_caveats(self.found.masks),
            *self._of_the_other(),
        )
        return Finding(
            self.found,
            self.step.measure,
            value,
            measure_named(self.step.measure).unit,
            tuple(dict.fromkeys(all_caveats)),
            problem,
            self._slice() if slice_display is None else slice_display,
            detail,
        )

    def _of_the_other(self) -> tuple[str, ...]:
        """Return what is to be said of the second structure, where the step has one."""
        if not self.step.other:
            return ()
        found, _ = self.other()
        return (*border_caveats(found.masks), *found.caveats, *other_caveats(found.masks))

    def _slice(self) -> int | None:
        """Return the slice where the chosen lesions are largest; a whole mask has its own."""
        if self.found.chosen is None:
            return None
        regions = [mask.region for mask in self.found.masks if not mask.region.empty]
        return focus_slice(max(regions, key=lambda region: region.voxels)) if regions else None

    def nothing(self, problem: str) -> Finding:
        return self.done(None, problem=problem)

    def one_of_the_tool(self) -> Finding:
        """Measure one of the six types of the benchmark's own tool."""
        hu = self.step.measure == "mean_hu"
        lesions, caveats = lesions_left_out(self.case, self.found) if hu else ((), ())
        number = measured(
            self.step.measure,
            self.found.masks,
            self.case.volume,
            lesions=lesions,
            size_filter=SIZE_FILTERS[_filter_name(self.variant)],
        )
        problem = "; ".join(number.caveats) if number.value is None else ""
        return self.done(number.value, *number.caveats, *caveats, problem=problem)

    def other(self) -> tuple[Resolved, str]:
        """Return the second structure, or why it has no mask."""
        found = resolve(self.case, self.step.other, self.part_rule)
        return found, found.missing


def _filter_name(variant: Variant | None) -> str:
    if variant is None or "size_filter" not in variant.parameters:
        counting = rule_for("lesion counting")
        variant = counting.default if counting else None
    return str(variant.parameters.get("size_filter", "all")) if variant else "all"


def _sd(work: _Work) -> Finding:
    lesions, caveats = lesions_left_out(work.case, work.found)
    number = sd_hu(work.found.masks, lesions, work.case.volume)
    problem = "; ".join(number.caveats) if number.value is None else ""
    return work.done(number.value, *number.caveats, *caveats, problem=problem)


def _largest(work: _Work) -> Region:
    found = components_of(work.region)
    return found.region_of(0) if len(found) else work.region


def _radgpt_diameter(work: _Work) -> Finding:
    longest = longest_axial_diameter(_largest(work))
    if longest is None:
        return work.nothing(EMPTY_CAVEAT)
    return work.done(int(longest.length_mm + 1e-6) / 10.0, slice_display=longest.display_slice)


def _diameter_3d(work: _Work) -> Finding:
    longest_mm = longest_diameter_3d_mm(_largest(work))
    if longest_mm is None:
        return work.nothing(EMPTY_CAVEAT)
    return work.done(longest_mm / 10.0)


def _contact_angle(work: _Work) -> Finding:
    other, missing = work.other()
    if missing:
        return work.nothing(missing)
    tumour = on_grid_of(other.masks[0], work.region) if len(other.masks) == 1 else None
    contact = contact_around(work.region, tumour or together(other.masks))
    if contact is None:
        return work.nothing(f"{EMPTY_CAVEAT}: no contact can be told")
    return work.done(contact.angle_deg, surface_voxels=contact.surface_voxels)


def _distance(between: Callable[[Region, Region], float | None]) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        other, missing = work.other()
        if missing:
            return work.nothing(missing)
        apart = between(work.region, together(other.masks))
        if apart is None:
            return work.nothing(f"{EMPTY_CAVEAT}: no distance")
        return work.done(apart)

    return finding


def _surface_mm(region: Region, other: Region) -> float | None:
    gap = surface_distance(region, other)
    return gap.length_mm if gap is not None else None


def _side(work: _Work) -> Finding:
    """Say on which side a structure lies: by name where it has a side, else by the body's middle.

    The middle is the volume's; a centre within 10 mm of it lies across the middle.
    """
    centre = centroid_ras_mm(work.region)
    if centre is None:
        return work.nothing(EMPTY_CAVEAT)
    grid = work.case.volume.grid
    middle = grid.ras_mm([(size - 1) / 2 for size in grid.shape_zyx])
    offset_mm = float(centre[0] - middle[0])
    named = names.side_of(selection(work.step.target).within or work.step.target)
    by_place = "middle" if abs(offset_mm) < _MIDDLE_MM else "right" if offset_mm > 0 else "left"
    side = named or by_place
    caveats = [] if side == by_place else [f"its centre lies on the {by_place} of the volume"]
    return work.done(side, *caveats, offset_mm={"right": round(offset_mm, 1)})


_MIDDLE_MM = 10.0
_DIRECTION_MM = 5.0


def _relative_position(work: _Work) -> Finding:
    """Say where one centre lies as seen from another; shifts under 5 mm are left out."""
    other, missing = work.other()
    if missing:
        return work.nothing(missing)
    shift = offset_mm(work.region, together(other.masks))
    if shift is None:
        return work.nothing(EMPTY_CAVEAT)
    ranked = sorted(shift, key=lambda direction: -shift[direction])
    said = [direction for direction in ranked if shift[direction] >= _DIRECTION_MM]
    rounded = {direction: round(mm, 1) for direction, mm in shift.items()}
    return work.done(", ".join(said) or "at the same place", offset_mm=rounded)


def _percentile(share: float) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        lesions, caveats = lesions_left_out(work.case, work.found)
        number = hu_percentile(work.found.masks, lesions, work.case.volume, share)
        problem = "; ".join(number.caveats) if number.value is None else ""
        return work.done(number.value, *number.caveats, *caveats, problem=problem)

    return finding


def _axis(which: str) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        longest = longest_axial_diameter(_largest(work))
        if longest is None:
            return work.nothing(EMPTY_CAVEAT)
        length_mm = longest.length_mm if which == "long" else longest.perpendicular_mm
        return work.done(length_mm / 10.0, slice_display=longest.display_slice)

    return finding


def _lobe_ratio(work: _Work) -> Finding:
    other, missing = work.other()
    if missing:
        return work.nothing(missing)
    ratio = caudate_to_right_lobe(work.region, _on_one_grid(other, work.region))
    if ratio is None:
        return work.nothing("no slice shows both")
    return work.done(ratio)


def _on_one_grid(found: Resolved, like: Region) -> Region:
    from napari_ctvqa.core.regions import union

    return union([on_grid_of(mask, like) for mask in found.masks])


def _parts(work: _Work) -> Finding:
    region = work.region
    if region.empty:
        return work.nothing(EMPTY_CAVEAT)
    where, missing = located(work.case, region, _organ(work), work.part_rule)
    if where is None:
        return work.nothing(missing)
    order = names.divisions_of(_organ(work))
    listed = sorted(where.parts, key=order.index)
    shares = {part: round(share, 4) for part, share in where.shares.items()}
    return work.done("+".join(listed), *location_caveats(where), shares=shares, main=where.parts[0])


def _organ(work: _Work) -> str:
    return names.parent_of(selection(work.step.target).structure)


def _per_part(work: _Work) -> tuple[Sequence[Located], str]:
    """Return where each lesion lies, or why that cannot be told."""
    found = components_of(work.region)
    where: list[Located] = []
    for number in range(len(found)):
        one, missing = located(work.case, found.region_of(number), _organ(work), work.part_rule)
        if one is None:
            return (), missing
        where.append(one)
    return where, ""


def _fullest(count: int) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        where, missing = _per_part(work)
        if missing:
            return work.nothing(missing)
        counts: dict[str, int] = {}
        for one in where:
            for part in one.parts:
                counts[part] = counts.get(part, 0) + 1
        ranked = sorted(counts.values(), reverse=True)
        caveats = [caveat for one in where for caveat in location_caveats(one)]
        return work.done(float(sum(ranked[:count])), *caveats, counts=counts)

    return finding


def _fullest_by_volume(count: int) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        region = work.region
        if region.empty:
            return work.nothing(EMPTY_CAVEAT)
        where, missing = located(work.case, region, _organ(work))
        if where is None:
            return work.nothing(missing)
        ranked = sorted(where.shares.values(), reverse=True)
        return work.done(100.0 * sum(ranked[:count]))

    return finding


def _adjacent(score: Callable[[Region, Region], float]) -> Callable[[_Work], Finding]:
    """Return the finding that ranks organs beside a lesion by a score, the highest first."""

    def finding(work: _Work) -> Finding:
        region = work.region
        if region.empty:
            return work.nothing(EMPTY_CAVEAT)
        scores: dict[str, float] = {}
        caveats: list[str] = []
        for organ in work.step.other.split("+"):
            found = resolve(work.case, organ)
            if found.missing:
                return work.nothing(found.missing)
            scores[organ] = score(region, _on_one_grid(found, region))
        ranked = sorted(scores, key=lambda organ: -scores[organ])
        best = ranked[0] if ranked and scores[ranked[0]] > 0 else ""
        also = [names.label(o) for o in ranked[1:] if scores[o] > 0]
        if also and score is not _closeness:
            caveats.append(f"{', '.join(also)} fits too, with less surface")
        if not best:
            return work.nothing("none of the structures is that near")
        return work.done(best, *caveats, scores=scores)

    return finding


def _closeness(lesion: Region, organ: Region) -> float:
    gap = surface_distance(lesion, organ)
    return 1.0 / (1.0 + gap.length_mm) if gap is not None else 0.0


def _slice(kind: str) -> Callable[[_Work], Finding]:
    def finding(work: _Work) -> Finding:
        volume = work.case.volume
        region = on_grid(work.region, volume.grid)
        longest = longest_axial_diameter(region)
        if longest is None:
            return work.nothing(EMPTY_CAVEAT)
        index = focus_slice(region) if kind == "area" else longest.display_slice
        value = _counted(kind, region.grid, index)
        if value is None:
            return work.nothing("these slices are no slices of a file")
        return work.done(value, slice_display=_drawn_slice(volume, longest, index))

    return finding


def _counted(kind: str, grid: Grid, index: int) -> float | None:
    """Return a slice of the CT as it is counted: from the feet, in percent, in the file's order."""
    from_feet = grid.ras_slice(0, index)
    if kind == "percent":
        return 100.0 * from_feet / max(1, grid.shape_zyx[0] - 1)
    if kind == "from_1":
        return from_feet + 1.0
    if kind == "file":
        at = grid.file_slice(0, index)
        return None if at is None else float(at[1])
    return float(from_feet)


def _drawn_slice(volume: Volume, longest: Diameter, index: int) -> int:
    """Return the display index that shows a slice of the CT; a sheared CT is drawn resampled."""
    if volume.display_grid is volume.grid or volume.display_grid.same_as(volume.grid):
        return index
    middle = np.mean(longest.ends_ras_mm, axis=0)
    return int(np.rint(volume.display_grid.index_zyx(middle)[0]))


_BY_MEASURE: Mapping[str, Callable[[_Work], Finding]] = {
    "sd_hu": _sd,
    "median_hu": _percentile(50.0),
    "p10_hu": _percentile(10.0),
    "p90_hu": _percentile(90.0),
    "long_axis_cm": _axis("long"),
    "short_axis_cm": _axis("short"),
    "surface_distance_mm": _distance(_surface_mm),
    "centre_distance_mm": _distance(centre_distance_mm),
    "side": _side,
    "relative_position": _relative_position,
    "radgpt_diameter_cm": _radgpt_diameter,
    "diameter_3d_cm": _diameter_3d,
    "contact_angle_deg": _contact_angle,
    "caudate_right_lobe_ratio": _lobe_ratio,
    "parts": _parts,
    "lesions_in_fullest_part": _fullest(1),
    "lesions_in_fullest_two_parts": _fullest(2),
    "volume_share_of_fullest_part": _fullest_by_volume(1),
    "volume_share_of_fullest_two_parts": _fullest_by_volume(2),
    "adjacent": _adjacent(lambda lesion, organ: near(lesion, organ, CONTACT_MM)),
    "touching": _adjacent(touching_voxels),
    "nearest": _adjacent(_closeness),
    "widest_slice_ras": _slice("ras"),
    "widest_slice_ras_from_1": _slice("from_1"),
    "widest_slice_percent": _slice("percent"),
    "widest_slice_file": _slice("file"),
    "largest_area_slice_ras": _slice("area"),
}
