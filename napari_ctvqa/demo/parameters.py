"""The numbers the demo's phantoms are made of; every reference answer derives from these.

A volume, a mean attenuation or a lesion's size is an *input* here. The painter is obliged to meet
it: an organ of ``volume_cm3`` takes exactly that many voxels (the lowest values of its level
function), a lesion is a solid with closed-form volume and diameter, and the noise inside each
structure is shifted to zero mean. So a stated answer is never a count of the painted array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SHAPE_KJI = (120, 256, 256)
SPACING_MM_KJI = (2.5, 1.5, 1.5)
VOXEL_CM3 = math.prod(SPACING_MM_KJI) / 1000.0


PARTS = {
    "liver": tuple(f"liver_segment_{n}" for n in range(1, 9)),
    "pancreas": ("pancreas_head", "pancreas_body", "pancreas_tail"),
}
"""Organ -> the parts that make it up."""


def voxels_of(volume_cm3: float) -> int:
    """Return how many voxels of the phantom's grid make up this volume."""
    return round(volume_cm3 / VOXEL_CM3)


@dataclass(frozen=True)
class Organ:
    """What is stated of one organ; ``hu`` is its mean without lesions, None for hollow organs.

    ``volume_cm3`` includes the lesions inside; None for structures that leave the field of view.
    """

    hu: float | None = None
    volume_cm3: float | None = None


@dataclass(frozen=True)
class Lesion:
    """An ellipsoid with an odd bump, so that its outline is no ellipse but its size is known.

    ``semi_mm`` holds two in-plane half axes and the one along z, ``turn_deg`` turns it in plane.
    The outline's radius is scaled by ``1 + bump * odd(angle)``: what one side gains the opposite
    side loses, so diameters through the centre keep their length, and the painter keeps the
    volume at 4/3 pi abc. The widest slice is ``centre_slice``, by symmetry along z.
    """

    name: str
    masks: tuple[str, ...]
    organ: str
    centre_mm: tuple[float, float]
    """x (to the left) and y (to posterior) of the centre; z is ``centre_slice``."""
    centre_slice: int
    semi_mm: tuple[float, float, float]
    hu: float
    shares: Mapping[str, float] = field(default_factory=dict)
    """Part of the organ -> the lesion's fraction inside it; sums to 1."""
    turn_deg: float = 0.0
    bump: float = 0.08

    @property
    def volume_cm3(self) -> float:
        """Return 4/3 pi abc."""
        return 4.0 / 3.0 * math.pi * math.prod(self.semi_mm) / 1000.0

    @property
    def diameter_cm(self) -> float:
        """Return the longest in-plane diameter: twice the longer in-plane half axis."""
        return 2.0 * max(self.semi_mm[:2]) / 10.0


@dataclass(frozen=True)
class Habitus:
    """How one patient differs from another: outline scale, fat, seeds of the smooth warps."""

    width: float = 1.0
    depth: float = 1.0
    fat_mm: float = 0.0
    seed: int = 1


@dataclass(frozen=True)
class Phase:
    """What contrast medium does to tissues for which no mean is stated, HU.

    The gains are differences from the stated mean of the organ around.
    """

    name: str
    artery: float
    vein: float
    bowel_wall: float
    heart_muscle: float
    heart_chamber: float
    renal_cortex_gain: float
    renal_medulla_gain: float
    liver_vessel_gain: float


VENOUS = Phase("Venous", 160.0, 162.0, 96.0, 104.0, 152.0, 14.0, -40.0, 46.0)
PLAIN = Phase("Non-contrast", 42.0, 41.0, 44.0, 46.0, 41.0, 0.5, -1.5, -1.0)


@dataclass(frozen=True)
class CaseParameters:
    """One phantom."""

    case_id: str
    sex: str
    age: int
    phase: Phase
    scanner: str
    habitus: Habitus
    organs: Mapping[str, Organ]
    lesions: tuple[Lesion, ...]
    empty_masks: tuple[str, ...] = ()
    absent_masks: tuple[str, ...] = ()
    """Structures without a file although questions ask about them: unknown, never none."""


_SEGMENTS_1 = {
    "liver_segment_1": 38.4,
    "liver_segment_2": 117.2,
    "liver_segment_3": 131.5,
    "liver_segment_4": 236.8,
    "liver_segment_5": 245.3,
    "liver_segment_6": 224.6,
    "liver_segment_7": 277.1,
    "liver_segment_8": 291.9,
}
_SEGMENTS_2 = {
    "liver_segment_1": 40.0,
    "liver_segment_2": 118.0,
    "liver_segment_3": 128.0,
    "liver_segment_4": 234.0,
    "liver_segment_5": 236.0,
    "liver_segment_6": 224.0,
    "liver_segment_7": 262.0,
    "liver_segment_8": 290.0,
}


def _parts(volumes_cm3: Mapping[str, float]) -> dict[str, Organ]:
    """Return parts of an organ: their volumes are stated, a mean only of the whole organ."""
    return {name: Organ(volume_cm3=volume) for name, volume in volumes_cm3.items()}


FIRST_CASE = CaseParameters(
    case_id="DEMO_0001",
    sex="Male",
    age=61,
    phase=VENOUS,
    scanner="phantom",
    habitus=Habitus(seed=11),
    organs={
        "liver": Organ(113.8, math.fsum(_SEGMENTS_1.values())),
        **_parts(_SEGMENTS_1),
        "spleen": Organ(107.2, 212.7),
        "kidney_left": Organ(171.3, 186.4),
        "kidney_right": Organ(168.2, 151.8),
        "pancreas": Organ(86.4, 74.6),
        "pancreas_head": Organ(None, 34.2),
        "pancreas_body": Organ(None, 22.9),
        "pancreas_tail": Organ(None, 17.5),
        "gall_bladder": Organ(11.8, 31.4),
        "stomach": Organ(None, 408.5),
        "adrenal_gland_left": Organ(54.0, 4.9),
        "adrenal_gland_right": Organ(52.0, 4.2),
        "duodenum": Organ(None, 62.3),
        "aorta": Organ(143.6),
        "postcava": Organ(128.4),
        "portal_vein_and_splenic_vein": Organ(139.7),
        "colon": Organ(),
        "intestine": Organ(),
        "esophagus": Organ(),
        "celiac_trunk": Organ(),
        "superior_mesenteric_artery": Organ(),
    },
    lesions=(
        Lesion(
            name="liver lesion A",
            masks=("liver_lesion",),
            organ="liver",
            centre_mm=(-96.0, 18.0),
            centre_slice=86,
            semi_mm=(21.0, 17.0, 18.0),
            hu=61.5,
            shares={"liver_segment_7": 1.0},
            turn_deg=25.0,
        ),
        Lesion(
            name="liver lesion B",
            masks=("liver_lesion",),
            organ="liver",
            centre_mm=(-84.0, -48.0),
            centre_slice=75,
            semi_mm=(12.5, 10.5, 12.0),
            hu=66.0,
            shares={"liver_segment_5": 0.5, "liver_segment_8": 0.5},
            turn_deg=-30.0,
        ),
        Lesion(
            name="liver lesion C",
            masks=("liver_lesion",),
            organ="liver",
            centre_mm=(22.0, -72.0),
            centre_slice=79,
            semi_mm=(8.0, 7.0, 7.5),
            hu=58.0,
            shares={"liver_segment_3": 1.0},
        ),
        Lesion(
            name="cyst of the left kidney",
            masks=("kidney_lesion", "kidney_cyst"),
            organ="kidney_left",
            centre_mm=(87.0, 38.0),
            centre_slice=39,
            semi_mm=(15.0, 14.0, 15.0),
            hu=6.4,
            shares={"kidney_left": 1.0},
            bump=0.02,
        ),
        Lesion(
            name="tumour of the right kidney",
            masks=("kidney_lesion", "kidney_tumor"),
            organ="kidney_right",
            centre_mm=(-82.0, 33.0),
            centre_slice=47,
            semi_mm=(17.5, 15.5, 16.0),
            hu=96.8,
            shares={"kidney_right": 1.0},
            turn_deg=40.0,
        ),
        Lesion(
            name="lesion of the pancreatic head",
            masks=("pancreatic_lesion", "pancreatic_pdac"),
            organ="pancreas",
            centre_mm=(-31.0, -14.0),
            centre_slice=44,
            semi_mm=(13.0, 11.0, 12.0),
            hu=57.2,
            shares={"pancreas_head": 1.0},
            turn_deg=15.0,
            bump=0.12,
        ),
    ),
    empty_masks=("colon_lesion", "pancreatic_pnet"),
)

SECOND_CASE = CaseParameters(
    case_id="DEMO_0002",
    sex="Female",
    age=54,
    phase=PLAIN,
    scanner="phantom",
    habitus=Habitus(width=0.97, depth=1.03, fat_mm=9.0, seed=23),
    organs={
        "liver": Organ(41.6, math.fsum(_SEGMENTS_2.values())),
        **_parts(_SEGMENTS_2),
        "spleen": Organ(56.2, 402.8),
        "kidney_left": Organ(31.8, 148.3),
        "kidney_right": Organ(32.6, 161.7),
        "pancreas": Organ(38.4, 66.8),
        "pancreas_head": Organ(None, 27.6),
        "pancreas_body": Organ(None, 22.1),
        "pancreas_tail": Organ(None, 17.1),
        "gall_bladder": Organ(9.4, 26.7),
        "stomach": Organ(None, 344.2),
        "adrenal_gland_left": Organ(18.0, 4.4),
        "adrenal_gland_right": Organ(17.0, 4.0),
        "duodenum": Organ(None, 58.1),
        "aorta": Organ(41.2),
        "postcava": Organ(38.7),
        "portal_vein_and_splenic_vein": Organ(39.5),
        "colon": Organ(),
        "intestine": Organ(),
        "esophagus": Organ(),
        "celiac_trunk": Organ(),
        "superior_mesenteric_artery": Organ(),
    },
    lesions=(
        Lesion(
            name="cyst of the right kidney",
            masks=("kidney_lesion", "kidney_cyst"),
            organ="kidney_right",
            centre_mm=(-84.0, 36.0),
            centre_slice=36,
            semi_mm=(12.0, 11.0, 11.5),
            hu=7.8,
            shares={"kidney_right": 1.0},
            bump=0.02,
        ),
        Lesion(
            name="cyst of the left kidney",
            masks=("kidney_lesion", "kidney_cyst"),
            organ="kidney_left",
            centre_mm=(76.0, 28.0),
            centre_slice=52,
            semi_mm=(8.0, 7.5, 8.0),
            hu=4.1,
            shares={"kidney_left": 1.0},
            bump=0.02,
        ),
        Lesion(
            name="cyst of the pancreatic body",
            masks=("pancreatic_lesion", "pancreatic_cyst"),
            organ="pancreas",
            centre_mm=(17.0, -38.0),
            centre_slice=55,
            semi_mm=(11.0, 9.5, 10.0),
            hu=22.6,
            shares={"pancreas_body": 1.0},
            turn_deg=20.0,
            bump=0.02,
        ),
    ),
    empty_masks=(
        "liver_lesion",
        "kidney_tumor",
        "pancreatic_pdac",
        "pancreatic_pnet",
    ),
    absent_masks=("colon_lesion",),
)

CASES = (FIRST_CASE, SECOND_CASE)
