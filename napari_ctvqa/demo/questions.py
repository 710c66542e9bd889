"""The demo's questions in DeepTumorVQA's layout; references derive from the parameters.

Each record says in ``reference_rule`` how its reference follows, and "assumed" where the
benchmark's own rule is not known. A few references are wrong on purpose, for people who check
them; which ones is listed apart, in ``demo_notes.json``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo import values
from napari_ctvqa.demo.parameters import (
    FIRST_CASE,
    SECOND_CASE,
    SHAPE_KJI,
    SPACING_MM_KJI,
    CaseParameters,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOOLS = {"S": "segment_organ", "M": "measure", "K": "lookup_medical_knowledge"}
_STAGES = {
    "R": "recognition",
    "M": "measurement",
    "V": "visual reasoning",
    "C": "medical reasoning",
}
_SUBTYPES = {
    "PDAC existence": "R S",
    "PNET existence": "R S",
    "colon lesion existence": "R S",
    "kidney cyst existence": "R S",
    "kidney lesion existence": "R S",
    "kidney tumor existence": "R S",
    "liver lesion existence": "R S",
    "pancreatic lesion existence": "R S",
    "splenomegaly detection": "R SMK",
    "lesion volume measurement": "M SM",
    "organ HU measurement": "M SM",
    "organ HU ratio": "M SM",
    "organ volume measurement": "M SM",
    "tumor burden percentage": "M SM",
    "bilateral kidney asymmetry": "V SM",
    "inter-segment comparison": "V SM",
    "kidney volume comparison": "V SM",
    "largest lesion attenuation": "V SM",
    "largest lesion diameter": "V SM",
    "largest lesion location": "V S",
    "largest lesion slice": "V S",
    "lesion count by location": "V SM",
    "lesion counting": "V SM",
    "lesion outlier": "V SM",
    "liver lesion clustering": "V SM",
    "multi-organ lesion burden comparison": "V SM",
    "organ aggregation": "V SM",
    "organ enlargement": "V SM",
    "tumor organ HU difference": "V SM",
    "PDAC vs PNET classification": "C KSM",
    "fatty liver": "C KSM",
    "hepatic steatosis grading": "C KSM",
    "lesion type classification": "C KSM",
    "pancreatic steatosis": "C KSM",
    "pancreatic tumor staging": "C KSM",
    "renal mass characterization": "C KSM",
    "splenomegaly grading": "C KSM",
}
"""Subtype -> stage and primitives. Left out: what the parameters cannot answer honestly."""


@dataclass(frozen=True)
class Ask:
    """One question before it has an id and letters."""

    case: CaseParameters
    subtype: str
    text: str
    answer: str
    wrong: tuple[str, ...]
    organ: str
    lesion: bool | str = False
    rule: str = ""
    key: str = ""
    """Names the question for the invented models, stable while questions are added."""
    planted: str = ""
    """A wrong answer that the record states as its reference instead."""


def _number(value: float, decimals: int = 1) -> str:
    return f"{value:.{decimals}f}"


def _around(
    value: float, factors: Sequence[float], *also: float, decimals: int = 1
) -> tuple[str, ...]:
    """Return three wrong numbers: other values of the case, then multiples of the right one."""
    texts = [_number(v, decimals) for v in (*also, *(value * f for f in factors))]
    right = _number(value, decimals)
    return tuple(dict.fromkeys(t for t in texts if t != right))[:3]


_YES_NO = {"Yes": ("No",), "No": ("Yes",)}


def _existence(case: CaseParameters) -> Iterator[Ask]:
    asked = (
        (
            "PDAC existence",
            "pancreatic_pdac",
            "pancreas",
            "Is a pancreatic ductal adenocarcinoma (PDAC) present in this CT?",
        ),
        (
            "PNET existence",
            "pancreatic_pnet",
            "pancreas",
            "Does the pancreas show a neuroendocrine tumor (PNET)?",
        ),
        ("colon lesion existence", "colon_lesion", "colon", "Does the colon have any lesion?"),
        (
            "kidney cyst existence",
            "kidney_cyst",
            "kidney",
            "Is there at least one cyst in the kidneys?",
        ),
        (
            "kidney lesion existence",
            "kidney_lesion",
            "kidney",
            "Are there any lesions in the kidneys?",
        ),
        (
            "kidney tumor existence",
            "kidney_tumor",
            "kidney",
            "Is there a kidney tumor on this scan?",
        ),
        ("liver lesion existence", "liver_lesion", "liver", "Does the liver contain any lesion?"),
        (
            "pancreatic lesion existence",
            "pancreatic_lesion",
            "pancreas",
            "Is any lesion visible in the pancreas?",
        ),
    )
    for subtype, mask, organ, text in asked:
        answer = "Yes" if values.lesions_of(case, mask) else "No"
        yield Ask(
            case,
            subtype,
            text,
            answer,
            _YES_NO[answer],
            organ,
            lesion=True,
            rule=f"yes where the phantom's parameters place a lesion of mask {mask}",
            key=f"exists:{mask}",
        )


def _organ_volume(
    case: CaseParameters, organ: str, text: str, *others: str, planted: str = ""
) -> Ask:
    value = values.volume_cm3(case, organ)
    near = [values.volume_cm3(case, other) for other in others]
    return Ask(
        case,
        "organ volume measurement",
        text,
        _number(value),
        _around(value, (0.72, 1.31, 1.62), *near),
        organ,
        rule="cm³, stated volume of the phantom, lesions included",
        key=f"volume:{organ}",
        planted=planted,
    )


def _organ_hu(case: CaseParameters, organ: str, text: str, *others: str) -> Ask:
    value = values.mean_hu(case, organ)
    near = [values.mean_hu(case, other) for other in others]
    return Ask(
        case,
        "organ HU measurement",
        text,
        _number(value),
        _around(value, (0.76, 1.22, 1.4), *near),
        organ,
        rule="HU, stated mean of the phantom, lesions left out",
        key=f"hu:{organ}",
    )


def _lesion_volume(
    case: CaseParameters, mask: str, organ: str, text: str, lesion: bool | str = True
) -> Ask:
    value = values.volume_cm3(case, mask)
    return Ask(
        case,
        "lesion volume measurement",
        text,
        _number(value),
        _around(value, (0.58, 1.37, 1.9)),
        organ,
        lesion,
        rule="cm³, sum of 4/3 pi abc over the lesions",
        key=f"lesion-volume:{mask}",
    )


def _count(case: CaseParameters, mask: str, organ: str, text: str, planted: str = "") -> Ask:
    value = len(values.lesions_of(case, mask))
    wrong = tuple(str(n) for n in (value + 1, value + 3, abs(value - 2) + value + 4))
    return Ask(
        case,
        "lesion counting",
        text,
        str(value),
        wrong,
        organ,
        True,
        rule="number of lesions placed; none touches another (benchmark's size filter assumed off)",
        key=f"count:{mask}",
        planted=planted,
    )


def _spleen(case: CaseParameters, planted: str = "") -> Iterator[Ask]:
    volume = values.volume_cm3(case, "spleen")
    answer = "Yes" if volume > 314.5 else "No"
    grades = ("Normal (no splenomegaly)", "Mild", "Moderate", "Severe")
    grade = grades[sum(volume > limit for limit in (314.5, 500.0, 800.0))]
    rule = "stated spleen volume against 314.5 / 500 / 800 cm³ (Bezerra 2005)"
    yield Ask(
        case,
        "splenomegaly detection",
        "Is the spleen enlarged (splenomegaly)?",
        answer,
        _YES_NO[answer],
        "spleen",
        rule=rule,
        key="splenomegaly",
    )
    yield Ask(
        case,
        "splenomegaly grading",
        "How would you classify the splenic enlargement based on volume?",
        grade,
        tuple(g for g in grades if g != grade),
        "spleen",
        rule=rule,
        key="spleen-grade",
        planted=planted,
    )


def _kidney_comparison(case: CaseParameters, planted: str = "") -> Ask:
    left, right = (values.volume_cm3(case, f"kidney_{side}") for side in ("left", "right"))
    options = ("left kidney", "right kidney", "the same")
    answer = options[0] if left > right else options[1]
    return Ask(
        case,
        "kidney volume comparison",
        "Pick the kidney that is bigger in size:",
        answer,
        tuple(o for o in options if o != answer),
        "kidney",
        rule="the stated volumes differ by more than 8 %, so every tolerance for 'the same' agrees",
        key="kidney-comparison",
        planted=planted,
    )


def _ratio(case: CaseParameters, upper: str, lower: str, text: str) -> Ask:
    value = values.mean_hu(case, upper) / values.mean_hu(case, lower)
    return Ask(
        case,
        "organ HU ratio",
        text,
        _number(value, 2),
        _around(value, (0.7, 1.35, 1.8), decimals=2),
        upper,
        rule=f"mean HU {upper} / {lower}, two decimals (rounding assumed)",
        key=f"ratio:{upper}",
    )


def _burden(case: CaseParameters, mask: str, organs: Sequence[str], organ: str, text: str) -> Ask:
    whole = sum(values.volume_cm3(case, name) for name in organs)
    value = 100 * values.volume_cm3(case, mask) / whole
    return Ask(
        case,
        "tumor burden percentage",
        text,
        _number(value),
        _around(value, (0.4, 1.9, 3.1)),
        organ,
        True,
        rule="lesion volume / organ volume × 100, one decimal (rounding assumed)",
        key=f"burden:{mask}",
    )


def _asymmetry(case: CaseParameters) -> Ask:
    burden = {
        side: sum(x.volume_cm3 for x in case.lesions if x.organ == f"kidney_{side}")
        for side in ("left", "right")
    }
    options = ("left kidney", "right kidney", "neither")
    answer = options[0] if burden["left"] > burden["right"] else options[1]
    return Ask(
        case,
        "bilateral kidney asymmetry",
        "Which kidney carries the larger lesion burden by volume?",
        answer,
        tuple(o for o in options if o != answer),
        "kidney",
        True,
        rule="assumed: compares the lesions' total volume a side",
        key="asymmetry",
    )


def _segments(case: CaseParameters, first: int, second: int) -> Ask:
    lesions = values.lesions_of(case, "liver_lesion")
    counts = [values.count_in(lesions, f"liver_segment_{n}") for n in (first, second)]
    more = [f"Segment {n} has more lesions" for n in (first, second)]
    options = (*more, "Both segments have the same number of lesions")
    answer = options[0 if counts[0] > counts[1] else 1 if counts[1] > counts[0] else 2]
    return Ask(
        case,
        "inter-segment comparison",
        f"Evaluate lesion distribution between segments {first} and {second}.",
        answer,
        tuple(o for o in options if o != answer),
        "liver",
        True,
        rule="counts lesions with more than a tenth of their volume in a segment; "
        "neither segment holds a lesion that spans several",
        key=f"segments:{first}-{second}",
    )


def _attenuation(case: CaseParameters, mask: str, organ: str, text: str) -> Ask:
    options = ("hypoattenuating", "isoattenuating", "hyperattenuating")
    lesion = values.largest(case, mask)
    answer = options[0] if lesion.hu < values.mean_hu(case, lesion.organ) else options[2]
    return Ask(
        case,
        "largest lesion attenuation",
        text,
        answer,
        tuple(o for o in options if o != answer),
        organ,
        True,
        rule="the lesion's mean differs from the organ's by far more than a tenth of its SD",
        key=f"attenuation:{mask}",
    )


def _diameter(case: CaseParameters, mask: str, organ: str, text: str) -> Ask:
    value = values.largest(case, mask).diameter_cm
    return Ask(
        case,
        "largest lesion diameter",
        text,
        _number(value),
        _around(value, (0.6, 1.45, 1.95)),
        organ,
        True,
        rule="cm, twice the longer in-plane half axis of the largest lesion",
        key=f"diameter:{mask}",
    )


def _location(
    case: CaseParameters, mask: str, organ: str, text: str, wrong: tuple[str, ...]
) -> Ask:
    lesion = values.largest(case, mask)
    parts = sorted(part for part, share in lesion.shares.items() if share > 0.1)
    answer = ",".join(_part_label(part) for part in parts)
    return Ask(
        case,
        "largest lesion location",
        text,
        answer,
        wrong,
        organ,
        True,
        rule="parts that hold more than a tenth of the lesion",
        key=f"location:{mask}",
    )


def _part_label(part: str) -> str:
    return (
        part.removeprefix("liver_")
        .replace("_", " ")
        .removeprefix("pancreas ")
        .removeprefix("kidney ")
    )


def _slice(case: CaseParameters, mask: str, organ: str, text: str) -> Ask:
    value = values.largest(case, mask).centre_slice
    wrong = tuple(str(n) for n in (value - 24, value + 15, value + 29))
    return Ask(
        case,
        "largest lesion slice",
        f"{text} (slice index from the feet, first slice 0)",
        str(value),
        wrong,
        organ,
        True,
        rule="centre slice of the largest lesion, RAS z index (form of the benchmark assumed)",
        key=f"slice:{mask}",
    )


def _count_in(case: CaseParameters, mask: str, part: str, organ: str, text: str) -> Ask:
    value = values.count_in(values.lesions_of(case, mask), part)
    wrong = tuple(str(n) for n in range(5) if n != value)[:3]
    return Ask(
        case,
        "lesion count by location",
        text,
        str(value),
        wrong,
        organ,
        True,
        rule="lesions with more than a tenth of their volume in that part",
        key=f"count-in:{part}",
    )


def _yes_no(
    case: CaseParameters,
    subtype: str,
    text: str,
    yes: bool,
    organ: str,
    rule: str,
    key: str,
    lesion: bool = False,
) -> Ask:
    answer = "Yes" if yes else "No"
    return Ask(case, subtype, text, answer, _YES_NO[answer], organ, lesion, rule, key)


def _choice(
    case: CaseParameters,
    subtype: str,
    text: str,
    options: Sequence[str],
    answer: str,
    organ: str,
    rule: str,
    key: str,
    lesion: bool = False,
) -> Ask:
    return Ask(
        case,
        subtype,
        text,
        answer,
        tuple(o for o in options if o != answer),
        organ,
        lesion,
        rule,
        key,
    )


def _sum(case: CaseParameters, organs: Sequence[str], text: str, organ: str) -> Ask:
    value = sum(values.volume_cm3(case, name) for name in organs)
    return Ask(
        case,
        "organ aggregation",
        text,
        _number(value),
        _around(value, (0.78, 1.24, 1.5)),
        organ,
        rule="assumed: sum of the stated volumes, cm³",
        key=f"sum:{organ}",
    )


def _first_case() -> Iterator[Ask]:
    case = FIRST_CASE
    yield _organ_volume(
        case, "kidney_left", "What is the volume of the left kidney in cm³?", "kidney_right"
    )
    yield _organ_volume(
        case, "kidney_right", "What is the volume of the right kidney in cm³?", "kidney_left"
    )
    yield _kidney_comparison(case)
    yield from _existence(case)
    yield from _spleen(case)
    yield _organ_volume(case, "spleen", "What is the volume of the spleen in cm³?")
    yield _organ_volume(case, "liver", "Estimate the liver volume in cm³.")
    yield _organ_volume(case, "pancreas", "What is the volume of the pancreas in cm³?")
    yield _organ_volume(
        case, "gall_bladder", "What is the volume of the gallbladder in cm³?", planted="62.8"
    )
    yield _organ_hu(case, "liver", "What is the mean HU value of the liver?", "spleen")
    yield _organ_hu(case, "spleen", "What is the mean HU value of the spleen?", "liver")
    yield _organ_hu(case, "pancreas", "What is the mean HU value of the pancreas?", "spleen")
    yield _organ_hu(case, "kidney_left", "What is the mean HU value of the left kidney?")
    yield _organ_hu(case, "aorta", "What is the mean HU value of the aorta?", "postcava")
    yield _lesion_volume(
        case, "liver_lesion", "liver", "What is the total liver lesion volume in cm³?"
    )
    yield _lesion_volume(
        case, "kidney_cyst", "kidney", "What is the total kidney cyst volume in cm³?", "cyst"
    )
    yield _lesion_volume(
        case,
        "pancreatic_pdac",
        "pancreas",
        "What is the total pancreatic PDAC volume in cm³?",
        "pdac",
    )
    yield _count(
        case, "liver_lesion", "liver", "How many liver lesion instances are there?", planted="4"
    )
    yield _count(case, "kidney_lesion", "kidney", "How many kidney lesion instances are there?")
    yield _count(
        case, "pancreatic_lesion", "pancreas", "How many pancreatic lesion instances are there?"
    )
    yield _ratio(case, "liver", "spleen", "What is the liver-to-spleen HU ratio?")
    yield _ratio(case, "pancreas", "spleen", "What is the pancreas-to-spleen HU ratio?")
    yield _burden(
        case, "liver_lesion", ["liver"], "liver", "What percentage of the liver volume is lesion?"
    )
    yield _burden(
        case,
        "kidney_lesion",
        ["kidney_left", "kidney_right"],
        "kidney",
        "What percentage of the volume of both kidneys is lesion?",
    )
    yield _asymmetry(case)
    yield _segments(case, 7, 2)
    yield _segments(case, 4, 3)
    yield _segments(case, 6, 2)
    yield _attenuation(
        case,
        "liver_lesion",
        "liver",
        "How does the largest liver lesion attenuate compared with the liver?",
    )
    yield _attenuation(
        case,
        "kidney_lesion",
        "kidney",
        "How does the largest kidney lesion attenuate compared with its kidney?",
    )
    yield _diameter(
        case,
        "liver_lesion",
        "liver",
        "What is the longest diameter of the largest liver lesion in cm?",
    )
    yield _diameter(
        case,
        "pancreatic_lesion",
        "pancreas",
        "What is the longest diameter of the largest pancreatic lesion in cm?",
    )
    yield _location(
        case,
        "liver_lesion",
        "liver",
        "Where is the largest liver lesion?",
        ("segment 4", "segment 5", "segment 2"),
    )
    yield _location(
        case,
        "pancreatic_lesion",
        "pancreas",
        "Which part of the pancreas holds the largest lesion?",
        ("body", "tail"),
    )
    yield _location(
        case, "kidney_lesion", "kidney", "Which kidney holds the largest kidney lesion?", ("left",)
    )
    yield _slice(
        case, "liver_lesion", "liver", "On which slice is the largest liver lesion widest?"
    )
    yield _slice(
        case, "kidney_lesion", "kidney", "On which slice is the largest kidney lesion widest?"
    )
    yield _count_in(
        case, "liver_lesion", "liver_segment_7", "liver", "How many liver lesions lie in segment 7?"
    )
    yield _count_in(
        case,
        "kidney_lesion",
        "kidney_left",
        "kidney",
        "How many lesions does the left kidney have?",
    )
    yield _count_in(
        case,
        "pancreatic_lesion",
        "pancreas_tail",
        "pancreas",
        "How many lesions lie in the tail of the pancreas?",
    )
    yield from _first_reasoning(case)


def _first_reasoning(case: CaseParameters) -> Iterator[Ask]:
    sizes = [x.volume_cm3 for x in values.lesions_of(case, "liver_lesion")]
    yield _yes_no(
        case,
        "lesion outlier",
        "Is the largest liver lesion an outlier in size?",
        len(sizes) >= 3 and sizes[0] >= 3 * sizes[1],
        "liver",
        "at least three lesions and the largest at least three times the second by volume",
        "outlier",
        True,
    )
    spread = ("highly clustered", "somewhat clustered", "widely distributed")
    yield _choice(
        case,
        "liver lesion clustering",
        "How are the liver lesions distributed over the segments, by count?",
        spread,
        spread[2],
        "liver",
        "assumed by count: no segment holds more than half, no two hold three quarters",
        "clustering",
        True,
    )
    liver, pancreas = (values.volume_cm3(case, m) for m in ("liver_lesion", "pancreatic_lesion"))
    yield _choice(
        case,
        "multi-organ lesion burden comparison",
        "Which organ has the larger total lesion volume, the liver or the pancreas?",
        ("liver", "pancreas", "the same"),
        "liver" if liver > pancreas else "pancreas",
        "liver",
        "assumed: total lesion volume",
        "burden-comparison",
        True,
    )
    yield _sum(
        case,
        ("kidney_left", "kidney_right"),
        "What is the total volume of both kidneys in cm³?",
        "kidney",
    )
    yield _sum(
        case,
        ("liver", "spleen"),
        "What is the combined volume of liver and spleen in cm³?",
        "liver",
    )
    yield _yes_no(
        case,
        "organ enlargement",
        "Is the pancreas enlarged?",
        values.volume_cm3(case, "pancreas") > 83,
        "pancreas",
        "below 83 and below 100 cm³: both published limits agree",
        "enlarged:pancreas",
    )
    lesion = values.largest(case, "pancreatic_lesion")
    gap = values.mean_hu(case, "pancreas") - lesion.hu
    yield Ask(
        case,
        "tumor organ HU difference",
        "By how many HU is the pancreatic lesion darker than the pancreas?",
        _number(gap),
        _around(gap, (0.5, 1.6, 2.2)),
        "pancreas",
        True,
        "organ mean without lesions minus lesion mean (sign assumed)",
        "hu-gap",
    )
    yield _choice(
        case,
        "PDAC vs PNET classification",
        "Is the pancreatic lesion a PDAC or a PNET?",
        ("PDAC", "PNET"),
        "PDAC",
        "pancreas",
        "the phantom's lesion lies in the PDAC mask",
        "pdac-pnet",
        True,
    )
    yield _yes_no(
        case,
        "pancreatic steatosis",
        "Does the pancreas-to-spleen HU ratio suggest pancreatic steatosis?",
        values.mean_hu(case, "pancreas") / values.mean_hu(case, "spleen") < 0.70,
        "pancreas",
        "pancreas / spleen below 0.70",
        "steatosis:pancreas",
    )
    yield _choice(
        case,
        "lesion type classification",
        "Identify whether the largest kidney lesion is a cyst or tumor.",
        ("Cyst", "Tumor"),
        "Tumor",
        "kidney",
        "mask and the 34.8 HU limit agree",
        "lesion-type",
        True,
    )
    yield _choice(
        case,
        "pancreatic tumor staging",
        "How is the pancreatic tumor staged (T1-T4)?",
        ("T1", "T2", "T3", "T4"),
        "T2",
        "pancreas",
        "diameter 2.6 cm, no artery is touched (AJCC 8)",
        "staging",
        True,
    )
    yield _yes_no(
        case,
        "fatty liver",
        "Based on the liver-to-spleen HU ratio, is there fatty metamorphosis of the liver?",
        values.mean_hu(case, "liver") / values.mean_hu(case, "spleen") < 1,
        "liver",
        "liver / spleen below 1.0",
        "fatty-liver",
    )


def _second_case() -> Iterator[Ask]:
    case = SECOND_CASE
    yield from _existence(case)
    yield from _spleen(case, planted="Moderate")
    yield _kidney_comparison(case, planted="left kidney")
    yield _organ_volume(case, "spleen", "What is the volume of the spleen in cm³?")
    yield _organ_volume(case, "liver", "Estimate the liver volume in cm³.")
    yield _organ_volume(
        case, "kidney_left", "What is the volume of the left kidney in cm³?", "kidney_right"
    )
    yield _organ_hu(case, "liver", "What is the mean HU value of the liver?", "spleen")
    yield _organ_hu(case, "kidney_right", "What is the mean HU value of the right kidney?")
    yield _lesion_volume(
        case, "kidney_lesion", "kidney", "What is the total kidney lesion volume in cm³?"
    )
    yield _count(case, "kidney_cyst", "kidney", "How many kidney cyst instances are there?")
    yield _count(case, "liver_lesion", "liver", "How many liver lesion instances are there?")
    yield _ratio(case, "liver", "spleen", "What is the liver-to-spleen HU ratio?")
    yield _asymmetry(case)
    yield _diameter(
        case,
        "kidney_lesion",
        "kidney",
        "What is the longest diameter of the largest kidney lesion in cm?",
    )
    yield _count_in(
        case,
        "kidney_lesion",
        "kidney_right",
        "kidney",
        "How many lesions does the right kidney have?",
    )
    yield _yes_no(
        case,
        "organ enlargement",
        "Is the spleen enlarged?",
        values.volume_cm3(case, "spleen") > 314.5,
        "spleen",
        "above 314.5 cm³",
        "enlarged:spleen",
    )
    yield _yes_no(
        case,
        "fatty liver",
        "Based on the liver-to-spleen HU ratio, is there fatty metamorphosis of the liver?",
        values.mean_hu(case, "liver") / values.mean_hu(case, "spleen") < 1,
        "liver",
        "liver / spleen below 1.0",
        "fatty-liver",
    )
    grades = ("G0", "G1", "G2", "G3")
    yield _choice(
        case,
        "hepatic steatosis grading",
        "Grade the hepatic steatosis (G0-G3).",
        grades,
        "G2",
        "liver",
        "39–50 HU and ratio 0.5–0.8: both criteria give G2 (Kodama 2007)",
        "steatosis-grade",
    )
    yield _yes_no(
        case,
        "pancreatic steatosis",
        "Does the pancreas-to-spleen HU ratio suggest pancreatic steatosis?",
        values.mean_hu(case, "pancreas") / values.mean_hu(case, "spleen") < 0.70,
        "pancreas",
        "pancreas / spleen below 0.70",
        "steatosis:pancreas",
    )
    yield _choice(
        case,
        "lesion type classification",
        "Identify whether the largest kidney lesion is a cyst or tumor.",
        ("Cyst", "Tumor"),
        "Cyst",
        "kidney",
        "mask and the 34.8 HU limit agree",
        "lesion-type",
        True,
    )
    kinds = ("simple cyst", "indeterminate mass", "hyperattenuating cyst", "solid enhancing mass")
    yield _choice(
        case,
        "renal mass characterization",
        "How would you characterize the largest renal mass?",
        kinds,
        kinds[0],
        "kidney",
        "assumed wording: −10 to 20 HU is a simple cyst (Bosniak v2019)",
        "renal-mass",
        True,
    )


@dataclass(frozen=True)
class Asked:
    """A question with its id and record; ``truth`` is the letter the parameters give."""

    ask: Ask
    record: dict[str, Any]
    options: dict[str, str]
    truth: str

    @property
    def id(self) -> str:
        """Return the question's id."""
        return str(self.record["qid"])


def questions() -> list[Asked]:
    """Return all questions of both cases, in file order."""
    asks = [*_first_case(), *_second_case()]
    return [_asked(ask, number) for number, ask in enumerate(asks, start=1)]


def _asked(ask: Ask, number: int) -> Asked:
    texts = [ask.answer, *ask.wrong]
    if ask.planted and ask.planted not in texts:
        texts[-1] = ask.planted
    random.Random(f"{ask.case.case_id} {ask.key}").shuffle(texts)
    options = dict(zip("ABCD", texts, strict=False))
    letters = {text: letter for letter, text in options.items()}
    stage, primitives = _SUBTYPES[ask.subtype].split()
    stated = ask.planted or ask.answer
    dz, dy, dx = SPACING_MM_KJI
    record = {
        "qid": f"demo_{number:05d}",
        "image_id": ask.case.case_id,
        "spacing": f"[{dx} {dy} {dz}]",
        "shape": str(SHAPE_KJI[::-1]),
        "sex": ask.case.sex,
        "age": ask.case.age,
        "scanner": ask.case.scanner,
        "contrast": ask.case.contrast,
        "question": ask.text,
        "answer": stated,
        "mc_question": " ".join([ask.text, *(f"{a}: {t}" for a, t in options.items())]),
        "correct_option": letters[stated],
        "organ": ask.organ,
        "lesion": ask.lesion,
        "question_type": _STAGES[stage],
        "question_subtype": ask.subtype,
        "requires_tools": [_TOOLS[p] for p in primitives],
        "reference_rule": ask.rule,
    }
    return Asked(ask, record, options, letters[ask.answer])


def question_file(asked: Sequence[Asked]) -> dict[str, Any]:
    """Return the content of ``test_qa.json``."""
    return {
        "version": "2.0",
        "dataset": "napari-ctvqa demo: generated phantoms, no patients",
        "num_questions": len(asked),
        "question_types": list(_STAGES.values()),
        "questions": [item.record for item in asked],
    }


def notes(asked: Sequence[Asked]) -> dict[str, Any]:
    """Return which references are wrong on purpose, and what the parameters say."""
    return {
        "about": "References that are wrong on purpose, for people who check references.",
        "wrong_references": [
            {
                "qid": item.id,
                "stated": item.record["answer"],
                "parameters_give": item.ask.answer,
                "correct_letter": item.truth,
            }
            for item in asked
            if item.ask.planted
        ],
    }
