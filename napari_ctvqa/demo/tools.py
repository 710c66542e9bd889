"""What the demo's tools return, from the parameters: segment, measure, look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.demo.parameters import CaseParameters


@dataclass(frozen=True)
class Segmented:
    """What the painter knows of a mask: how many voxels, and the box around them.

    ``bbox_ijk`` is i0, i1, j0, j1, k0, k1: first voxel and one past the last, None when empty.
    """

    voxels: int
    bbox_ijk: list[int] | None


Masks = Mapping[str, Segmented]
"""The mask files of one case, by structure."""

ALIASES = {
    "liver_tumor": "liver_lesion",
    "pancreas_tumor": "pancreatic_lesion",
    "colon_tumor": "colon_lesion",
}
"""DeepTumorVQA tool target -> the mask that stands for it here."""

_UNITS = {
    "volume_cm3": "cm³",
    "mean_hu": "HU",
    "max_diameter_mm": "mm",
    "lesion_count": "lesions",
    "largest_lesion_volume_cm3": "cm³",
    "largest_lesion_diameter_cm": "cm",
}

KNOWLEDGE = {
    "splenomegaly detection threshold": (
        "A spleen of more than 314.5 cm³ is enlarged.",
        "Bezerra 2005, AJR 184(5):1510",
    ),
    "splenomegaly grade mild moderate severe": (
        "Spleen volume below 314.5 cm³ is normal, to 500 cm³ mildly, to 800 cm³ moderately, "
        "beyond severely enlarged.",
        "Bezerra 2005, AJR 184(5):1510",
    ),
    "fatty liver ratio on non-contrast CT": (
        "On non-contrast CT a liver-to-spleen attenuation ratio below 1.0 suggests steatosis.",
        "PMC3377794",
    ),
    "hepatic steatosis grade": (
        "G0: at least 58 HU and ratio at least 1.0; G1: 51–57 HU or 0.8–1.0; "
        "G2: 39–50 HU or 0.5–0.8; G3: below 39 HU or below 0.5.",
        "Kodama 2007, Radiology 245(1):95",
    ),
    "pancreatic steatosis ratio": (
        "A pancreas-to-spleen attenuation ratio below 0.70 suggests pancreatic steatosis.",
        "PMC8833002",
    ),
    "kidney lesion type cyst or solid tumor": (
        "Mean attenuation above 34.8 HU speaks for a solid tumour, at or below it for a cyst.",
        "AJR 2017, 10.2214/AJR.16.17119",
    ),
    "pancreatic tumor staging by diameter": (
        "T1 up to 2 cm, T2 above 2 to 4 cm, T3 above 4 cm, T4 with invasion of large arteries.",
        "AJCC 8th edition",
    ),
    "pdac or pnet classification": (
        "PDAC is hypoattenuating with irregular margins, mostly in the head; "
        "PNET is iso- or hyperattenuating and well circumscribed.",
        "NCCN 2024",
    ),
    "pancreatic cyst resection size": (
        "Resection of a pancreatic cyst is considered above 3.0 cm³ or above 3 cm.",
        "Hopkins / ACR",
    ),
    "pseudocyst or mucinous cyst attenuation": (
        "Above 14.5 HU a pancreatic cyst is more likely a pseudocyst, else mucinous.",
        "PMID 21737901",
    ),
    "pancreatic tumor resectability vessel contact": (
        "Resectable without contact to arteries and without involvement of the portal vein.",
        "NCCN",
    ),
    "portal hypertension spleen volume": (
        "A spleen of more than 314.5 cm³ is one sign of portal hypertension.",
        "Harbin 1980; Radiology 2024",
    ),
    "renal mass by hu simple cyst": (
        "Simple cyst −10 to 20 HU; 20 to 70 HU indeterminate; above 70 HU hyperattenuating.",
        "Bosniak v2019",
    ),
}
"""What the invented agent looks up, and what it is told: text and source."""


def segment(case: CaseParameters, target: str, masks: Masks) -> dict[str, Any]:
    """Return what segmenting a target gives; an empty mask is found, with no voxel."""
    name = ALIASES.get(target, target)
    if name not in masks:
        return {
            "mask_found": False,
            "error": f"no mask for {target}",
            "available_targets": sorted(masks),
        }
    return {
        "mask_found": True,
        "voxel_count": _voxels(case, name, masks[name]),
        "bbox_ijk": masks[name].bbox_ijk,
        "region_id": name,
    }


def _voxels(case: CaseParameters, name: str, painted: Segmented) -> int:
    """Return the count that the parameters give; the painter's where they state no volume."""
    try:
        return values.voxel_count(case, name)
    except KeyError:
        return painted.voxels


def measure(case: CaseParameters, target: str, kind: str) -> dict[str, Any]:
    """Return one measurement by the parameters, or the failure result."""
    name = ALIASES.get(target, target)
    if kind not in _UNITS:
        return {"error": f"unknown measurement_type '{kind}', known: {', '.join(_UNITS)}"}
    try:
        value = _value(case, name, kind)
    except KeyError:
        return {"error": f"no mask for {target}"}
    if value is None:
        return {"error": f"{kind} of {target}: cannot be measured"}
    return {
        "value": value,
        "unit": _UNITS[kind],
        "measurement_type": kind,
        "target": target,
        "region_id": name,
    }


def _value(case: CaseParameters, name: str, kind: str) -> float | int | None:
    """Return what the parameters say; None where they say nothing of the kind."""
    if values.is_lesion_mask(case, name):
        return _lesion_value(case, name, kind)
    organ = case.organs[name]
    stated = {"volume_cm3": organ.volume_cm3, "mean_hu": organ.hu}.get(kind)
    return None if stated is None else round(stated, 1)


def _lesion_value(case: CaseParameters, name: str, kind: str) -> float | int | None:
    lesions = values.lesions_of(case, name)
    if kind == "lesion_count":
        return len(lesions)
    if kind == "volume_cm3":
        return round(values.volume_cm3(case, name), 1)
    if not lesions:
        return None
    return {
        "mean_hu": round(values.mean_hu(case, name), 1),
        "max_diameter_mm": round(10 * max(lesion.diameter_cm for lesion in lesions)),
        "largest_lesion_volume_cm3": round(lesions[0].volume_cm3, 1),
        "largest_lesion_diameter_cm": round(lesions[0].diameter_cm, 1),
    }[kind]


def lookup(query: str) -> dict[str, Any]:
    """Return one entry of the knowledge base."""
    text, source = KNOWLEDGE[query]
    return {"results": [{"text": text, "source": source}]}


def tool_cache(painted: Mapping[str, Masks], cases: Sequence[CaseParameters]) -> dict[str, Any]:
    """Return the tool cache of all cases in DeepTumorVQA's layout."""
    cache = {}
    for case in cases:
        masks = painted[case.case_id]
        targets = sorted({*masks, *(a for a, name in ALIASES.items() if name in masks)})
        measured = {target: _all_measures(case, target) for target in targets}
        cache[case.case_id] = {
            "segment": {target: segment(case, target, masks) for target in targets},
            "measure": {target: kinds for target, kinds in measured.items() if kinds},
        }
    return {"cache": cache}


def _all_measures(case: CaseParameters, target: str) -> dict[str, Any]:
    results = {kind: measure(case, target, kind) for kind in _UNITS}
    return {kind: result for kind, result in results.items() if "error" not in result}
