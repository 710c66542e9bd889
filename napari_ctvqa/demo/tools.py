"""What the demo's tools return, from the parameters: segment, measure, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.demo.parameters import CaseParameters

BoxIJK = list[list[int]]
"""First and last voxel of a mask, both inside, each i, j, k."""

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
    "splenomegaly": (
        "Spleen volume up to 314.5 cm³ is normal; above: mild to 500, moderate to 800, "
        "severe beyond 800 cm³.",
        "Bezerra 2005, AJR 184(5):1510",
    ),
    "fatty liver": (
        "On non-contrast CT a liver-to-spleen attenuation ratio below 1.0 suggests steatosis.",
        "PMC3377794",
    ),
    "steatosis grade": (
        "G0: at least 58 HU and ratio at least 1.0; G1: 51–57 HU or 0.8–1.0; "
        "G2: 39–50 HU or 0.5–0.8; G3: below 39 HU or below 0.5.",
        "Kodama 2007, Radiology 245(1):95",
    ),
    "pancreatic steatosis": (
        "A pancreas-to-spleen attenuation ratio below 0.70 suggests pancreatic steatosis.",
        "PMC8833002",
    ),
    "kidney lesion type": (
        "Mean attenuation above 34.8 HU speaks for a solid tumour, at or below it for a cyst.",
        "AJR 2017, 10.2214/AJR.16.17119",
    ),
    "pancreatic tumor staging": (
        "T1 up to 2 cm, T2 above 2 to 4 cm, T3 above 4 cm, T4 with invasion of large arteries.",
        "AJCC 8th edition",
    ),
    "pdac or pnet": (
        "PDAC is hypoattenuating with irregular margins, mostly in the head; "
        "PNET is iso- or hyperattenuating and well circumscribed.",
        "NCCN 2024",
    ),
    "renal mass": (
        "Simple cyst −10 to 20 HU; 20 to 70 HU indeterminate; above 70 HU hyperattenuating.",
        "Bosniak v2019",
    ),
}


def segment(case: CaseParameters, target: str, boxes: Mapping[str, BoxIJK]) -> dict[str, Any]:
    """Return what segmenting a target gives: found or not, voxels, bounding box."""
    name = ALIASES.get(target, target)
    if name not in values.structures(case):
        return {
            "mask_found": False,
            "error": f"no mask for '{target}'",
            "available_targets": list(values.structures(case)),
        }
    box = boxes[name]
    return {
        "mask_found": bool(box),
        "voxel_count": _voxels(case, name, box),
        "bbox_ijk": box or None,
        "region_id": name,
    }


def _voxels(case: CaseParameters, name: str, box: BoxIJK) -> int | None:
    """Return the voxel count where the parameters state a volume; 0 for an empty mask."""
    if not box:
        return 0
    try:
        return values.voxel_count(case, name)
    except KeyError:
        return None


def measure(case: CaseParameters, target: str, kind: str) -> dict[str, Any]:
    """Return one measurement, or the failure result where it cannot be made."""
    name = ALIASES.get(target, target)
    if kind not in _UNITS:
        return {"error": f"unknown measurement type '{kind}'"}
    if name not in values.structures(case):
        return {"error": f"no mask for '{target}'"}
    value = _value(case, name, kind)
    if value is None:
        return {"error": f"'{kind}' cannot be measured on '{target}'"}
    return {
        "value": value,
        "unit": _UNITS[kind],
        "measurement_type": kind,
        "target": target,
        "region_id": name,
    }


def _value(case: CaseParameters, name: str, kind: str) -> float | int | None:
    if values.is_lesion_mask(case, name):
        return _lesion_value(case, name, kind)
    if kind == "volume_cm3" and case.organs[name].volume_cm3 is not None:
        return round(values.volume_cm3(case, name), 1)
    return round(values.mean_hu(case, name), 1) if kind == "mean_hu" else None


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


def lookup(topic: str) -> dict[str, Any]:
    """Return one entry of the knowledge base."""
    text, source = KNOWLEDGE[topic]
    return {"results": [{"text": text, "source": source}]}


def tool_cache(
    boxes: Mapping[str, Mapping[str, BoxIJK]], cases: tuple[CaseParameters, ...]
) -> dict[str, Any]:
    """Return the tool cache of all cases in DeepTumorVQA's layout."""
    cache = {}
    for case in cases:
        targets = [
            *values.structures(case),
            *(a for a, n in ALIASES.items() if n in values.structures(case)),
        ]
        measured = {target: _all_measures(case, target) for target in targets}
        cache[case.case_id] = {
            "segment": {t: segment(case, t, boxes[case.case_id]) for t in targets},
            "measure": {target: kinds for target, kinds in measured.items() if kinds},
        }
    return {"cache": cache}


def _all_measures(case: CaseParameters, target: str) -> dict[str, Any]:
    results = {kind: measure(case, target, kind) for kind in _UNITS}
    return {kind: result for kind, result in results.items() if "error" not in result}
