"""Probes that every subtype has: what it is about, what it takes, what follows from which numbers.

They look at no voxel. ``NUMBERS`` holds values below, at and above every threshold, finer than the
masks of a small phantom can make them; ``STEPS`` what each other rule of a subtype does.
"""

import json
from collections.abc import Iterator
from typing import Any

from evidence_cases import question

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import rules
from napari_ctvqa.core.answers import label_in
from napari_ctvqa.core.conclusions import conclude
from napari_ctvqa.core.plans import plan
from napari_ctvqa.core.understanding import understand

SCHEMA = {
    row["subtype"]: row
    for row in json.loads(resource_path("deeptumorvqa_subtypes.json").read_text())["subtypes"]
}
"""The benchmark's own schema: it knows nothing of our rules."""

KNOWN = {
    "splenomegaly detection": {"default"}, "splenomegaly grading": {"default"},
    "lesion volume measurement": {"default"}, "organ HU measurement": {"default"},
    "organ volume measurement": {"default"}, "lesion outlier": {"default"},
    "tumor burden percentage": {"of_the_organ"}, "pseudocyst determination": {"default"},
    "largest lesion attenuation": {"radgpt"},
    "largest lesion diameter": {"in_plane", "radgpt_whole_mm"},
    "largest lesion location": {"over_10_percent"}, "fatty liver": {"ratio_below_1"},
    "pancreatic cyst resectability": {"volume_or_diameter"},
    "pancreatic steatosis": {"ratio_below_0_70", "radgpt"}, "pancreatic tumor staging": {"radgpt"},
}  # fmt: skip
"""Rules that the benchmark's material or RadGPT's code states; every other one is assumed."""

BOUNDARY_KNOWN = {"lesion outlier", "pancreatic tumor staging"}
"""Where it is stated too what holds exactly at the bound."""

ABOUT = {
    # subtype: a question, the record's organ, what it is about
    "PDAC existence": ("Is there a PDAC?", "", "pancreatic_pdac"),
    "PNET existence": ("Is there a PNET?", "", "pancreatic_pnet"),
    "colon lesion existence": ("Is there a lesion in the colon?", "", "colon_lesion"),
    "kidney cyst existence": ("Is there a kidney cyst?", "", "kidney_cyst"),
    "kidney lesion existence": ("Is there a kidney lesion?", "", "kidney_lesion"),
    "kidney tumor existence": ("Is there a kidney tumor?", "", "kidney_tumor"),
    "liver lesion existence": ("Is there a liver lesion?", "", "liver_lesion"),
    "pancreatic lesion existence": ("Is there a pancreatic lesion?", "", "pancreatic_lesion"),
    "splenomegaly detection": ("Is the spleen enlarged?", "", "spleen"),
    "splenomegaly grading": ("How large is the spleen?", "", "spleen"),
    "lesion volume measurement": ("Volume of the lesions?", "liver", "liver_lesion"),
    "organ HU measurement": ("What is the mean HU?", "liver", "liver"),
    "organ volume measurement": ("What is the volume?", "liver", "liver"),
    "tumor burden percentage": ("What percentage is lesion?", "liver", "liver_lesion"),
    "adjacent organ": (
        "Which organ is adjacent to the largest lesion?",
        "pancreas",
        "pancreatic_lesion",
    ),
    "bilateral kidney asymmetry": ("Which kidney has more?", "kidney", "kidney_lesion"),
    "inter-segment comparison": ("Segment 2 or 3?", "liver", "liver_lesion"),
    "kidney volume comparison": ("Which kidney is larger?", "", "kidney"),
    "largest lesion attenuation": ("How does it attenuate?", "liver", "liver_lesion"),
    "largest lesion diameter": ("What is the diameter?", "liver", "liver_lesion"),
    "largest lesion location": ("Where is it?", "liver", "liver_lesion"),
    "largest lesion slice": ("On which slice?", "liver", "liver_lesion"),
    "lesion count by location": ("How many in segment 2?", "liver", "liver_lesion"),
    "lesion counting": ("How many?", "liver", "liver_lesion"),
    "lesion outlier": ("Is it an outlier?", "liver", "liver_lesion"),
    "liver lesion clustering": ("How are the liver lesions distributed?", "liver", "liver_lesion"),
    "organ enlargement": ("Is the liver enlarged?", "liver", "liver"),
    "tumor organ HU difference": ("HU difference?", "pancreas", "pancreatic_lesion"),
    "PDAC vs PNET classification": ("PDAC or PNET?", "pancreas", "pancreatic_lesion"),
    "fatty liver": ("Is the liver fatty?", "", "liver"),
    "hepatic steatosis grading": ("Grade the steatosis of the liver.", "", "liver"),
    "lesion type classification": ("Cyst or tumor?", "kidney", "kidney_lesion"),
    "pancreatic cyst resectability": (
        "Should resection of the cyst be considered?",
        "pancreas",
        "pancreatic_cyst",
    ),
    "pancreatic lesion resectability": (
        "Is the pancreatic lesion resectable?",
        "pancreas",
        "pancreatic_lesion",
    ),
    "pancreatic steatosis": ("Is the pancreas fatty?", "", "pancreas"),
    "pancreatic tumor staging": ("Which T stage has the tumor?", "pancreas", "pancreas_tumor"),
    "portal hypertension assessment": (
        "Does the size of the spleen suggest portal hypertension?",
        "",
        "spleen",
    ),
    "pseudocyst determination": ("Is the cyst a pseudocyst?", "pancreas", "pancreatic_cyst"),
    "renal mass characterization": ("What is the mass?", "kidney", "kidney_lesion"),
}

Row = tuple[str, tuple[Any, ...], str, float | None, str, int]
"""Variant, values of the steps, then label, value, unit and decimals of what follows."""
LIVER_PANCREAS = ("liver", "pancreas")
LISTED = {
    "inter-segment comparison": ("liver_segment_7", "liver_segment_8"),
    "multi-organ lesion burden comparison": LIVER_PANCREAS,
}
NUMBERS: dict[str, tuple[Row, ...]] = {
    "splenomegaly detection": (
        ("", (314.44,), "no", 314.4, "cm³", 1),
        ("", (314.5,), "no", 314.5, "cm³", 1),
        ("", (314.54,), "no", 314.5, "cm³", 1),  # rounded first
        ("", (314.56,), "yes", 314.6, "cm³", 1),
    ),
    "splenomegaly grading": (
        ("", (314.44,), "normal", 314.4, "cm³", 1),
        ("", (314.46,), "mild", 314.5, "cm³", 1),
        ("", (500.04,), "mild", 500.0, "cm³", 1),
        ("", (500.06,), "moderate", 500.1, "cm³", 1),
        ("", (800.04,), "moderate", 800.0, "cm³", 1),
        ("", (800.06,), "severe", 800.1, "cm³", 1),
    ),
    "lesion volume measurement": (("", (1.26,), "", 1.3, "cm³", 1),),
    "organ HU measurement": (("", (-3.26,), "", -3.3, "HU", 1),),
    "organ HU ratio": (("", (60.0, 51.0), "", 1.18, "", 2),),  # 1.1765
    "organ volume measurement": (("", (1.26, 2.0), "", 3.3, "cm³", 1),),
    "tumor burden percentage": (
        ("of_the_organ", (1.0, 30.0), "", 3.3, "%", 1),
        ("of_the_rest", (1.0, 31.0), "", 3.3, "%", 1),
    ),
    "bilateral kidney asymmetry": (
        ("by_volume", (1.04, 1.0), "same", None, "cm³", 1),
        ("by_volume", (1.06, 1.0), "left", None, "cm³", 1),
        ("by_volume", (100.0, 100.5), "right", None, "cm³", 1),
        ("by_count", (200.0, 200.0), "same", None, "lesions", 0),
        ("by_count", (200.0, 201.0), "right", None, "lesions", 0),  # half a percent
        ("by_count", (3.0, 2.0), "left", None, "lesions", 0),
    ),
    "inter-segment comparison": (
        ("", (200.0, 200.0), "same", None, "lesions", 0),
        ("", (201.0, 200.0), "liver_segment_7", None, "lesions", 0),
        ("", (2.0, 3.0), "liver_segment_8", None, "lesions", 0),
    ),
    "kidney volume comparison": (
        ("", (150.04, 150.0), "same", None, "cm³", 1),
        ("", (150.06, 150.0), "left", None, "cm³", 1),
        ("", (150.0, 151.0), "right", None, "cm³", 1),
        ("within_5_percent", (190.0, 200.0), "same", None, "cm³", 1),
        ("within_5_percent", (189.9, 200.0), "right", None, "cm³", 1),
        ("within_10_percent", (200.0, 180.0), "same", None, "cm³", 1),
        ("within_10_percent", (200.0, 179.9), "left", None, "cm³", 1),
    ),
    # lesion, organ, SD: iso while both differ by less than a tenth of the SD, and at 0.1 HU
    "largest lesion attenuation": (
        ("radgpt", (99.04, 100.0, 10.0), "iso", -1.0, "HU", 1),
        ("radgpt", (99.0, 100.0, 10.0), "hypo", -1.0, "HU", 1),
        ("radgpt", (101.0, 100.0, 10.0), "hyper", 1.0, "HU", 1),
        ("radgpt", (100.9, 100.0, 10.0), "iso", 0.9, "HU", 1),
        ("any_difference", (100.04, 100.0, 50.0), "iso", 0.0, "HU", 1),
        ("any_difference", (100.06, 100.0, 50.0), "hyper", 0.1, "HU", 1),
        ("any_difference", (99.9, 100.0, 50.0), "hypo", -0.1, "HU", 1),
    ),
    "largest lesion diameter": (("", (2.94,), "", 2.9, "cm", 1),),
    "largest lesion slice": (
        ("", (27.0,), "", 27.0, "", 0),
        ("percent", (69.2,), "", 69.0, "%", 0),
        ("from_1", (28.0,), "", 28.0, "", 0),
    ),
    "lesion count by location": (("", (3.0,), "", 3.0, "lesions", 0),),
    "lesion counting": (("", (3.0,), "", 3.0, "lesions", 0),),
    # count, largest, second
    "lesion outlier": (
        ("", (3.0, 3.0, 1.0), "yes", 3.0, "", 3),
        ("", (3.0, 2.9996, 1.0), "no", 3.0, "", 3),
        ("", (3.0, 3.0004, 1.0), "yes", 3.0, "", 3),
        ("", (2.0, 9.0, 1.0), "no", 9.0, "", 3),
        ("", (4.0, 10.0, 3.0), "yes", 3.333, "", 3),
    ),
    "liver lesion clustering": (
        ("by_count", (10.0, 5.0, 8.0), "somewhat_clustered", 5.0, "lesions", 0),
        ("by_count", (10.0, 6.0, 7.0), "highly_clustered", 6.0, "lesions", 0),
        ("by_count", (4.0, 2.0, 3.0), "somewhat_clustered", 2.0, "lesions", 0),  # 75 %
        ("by_count", (100.0, 50.0, 74.0), "widely_distributed", 50.0, "lesions", 0),
        ("by_count", (100.0, 51.0, 74.0), "highly_clustered", 51.0, "lesions", 0),
        ("by_volume", (50.0, 75.0), "somewhat_clustered", 50.0, "%", 0),
        ("by_volume", (50.04, 75.0), "highly_clustered", 50.04, "%", 0),
        ("by_volume", (50.0, 74.9), "widely_distributed", 50.0, "%", 0),
    ),
    "multi-organ lesion burden comparison": (
        ("by_volume", (1.04, 1.0), "same", None, "cm³", 1),
        ("by_volume", (1.06, 1.0), "liver", None, "cm³", 1),
        ("by_volume", (200.0, 201.0), "pancreas", None, "cm³", 1),
        ("by_count", (3.0, 3.0), "same", None, "lesions", 0),
        ("by_count", (3.0, 4.0), "pancreas", None, "lesions", 0),
        # 1.04 and 1.00 %; 1.06 and 1.00 %; twice the lesion in an organ of four times the size
        ("by_percentage", (1.04, 100.0, 1.0, 100.0), "same", None, "%", 1),
        ("by_percentage", (1.06, 100.0, 1.0, 100.0), "liver", None, "%", 1),
        ("by_percentage", (2.0, 400.0, 1.0, 100.0), "pancreas", None, "%", 1),
    ),
    "organ aggregation": (
        ("sum_of_volumes", (1.26, 2.0), "", 3.3, "cm³", 1),
        ("difference_of_volumes", (1.0, 3.26), "", 2.3, "cm³", 1),
        ("mean_hu", (50.0, 60.1), "", 55.0, "HU", 1),
    ),
    "tumor organ HU difference": (
        ("lesion_minus_organ", (40.0, 80.06), "", -40.1, "HU", 1),
        ("organ_minus_lesion", (40.0, 80.06), "", 40.1, "HU", 1),
        ("absolute", (40.0, 80.06), "", 40.1, "HU", 1),
    ),
    "PDAC vs PNET classification": (
        ("mask", (0.0014, 0.0004), "pdac", 0.001, "cm³", 3),
        ("mask", (0.0004, 0.0014), "pnet", 0.001, "cm³", 3),
        ("attenuation", (79.94, 80.0, 50.0), "pdac", -0.1, "HU", 1),
        ("attenuation", (79.96, 80.0, 50.0), "pnet", -0.0, "HU", 1),
        ("attenuation", (80.06, 80.0, 50.0), "pnet", 0.1, "HU", 1),
    ),
    "fatty liver": (
        ("ratio_below_1", (49.996, 50.0), "yes", 1.0, "", 2),  # not rounded first
        ("ratio_below_1", (50.0, 50.0), "no", 1.0, "", 2),
        ("ratio_below_1", (30.0, 51.0), "yes", 0.59, "", 2),
        ("radgpt", (40.0, 50.0), "yes", 40.0, "HU", 2),
        ("radgpt", (40.004, 50.0), "no", 40.0, "HU", 2),
    ),
    "hepatic steatosis grading": (
        ("by_hu", (38.94, 10.0), "g3", 38.9, "HU", 1),
        ("by_hu", (38.96, 10.0), "g2", 39.0, "HU", 1),
        ("by_hu", (50.94, 10.0), "g2", 50.9, "HU", 1),
        ("by_hu", (50.96, 10.0), "g1", 51.0, "HU", 1),
        ("by_hu", (57.94, 10.0), "g1", 57.9, "HU", 1),
        ("by_hu", (57.96, 10.0), "g0", 58.0, "HU", 1),
        ("by_ratio", (49.9, 100.0), "g3", 49.9, "HU", 1),  # ratios are not rounded
        ("by_ratio", (50.0, 100.0), "g2", 50.0, "HU", 1),
        ("by_ratio", (79.9, 100.0), "g2", 79.9, "HU", 1),
        ("by_ratio", (80.0, 100.0), "g1", 80.0, "HU", 1),
        ("by_ratio", (99.9, 100.0), "g1", 99.9, "HU", 1),
        ("by_ratio", (100.0, 100.0), "g0", 100.0, "HU", 1),
        ("worse_of_both", (45.0, 45.0), "g2", 45.0, "HU", 1),
        ("worse_of_both", (60.0, 100.0), "g2", 60.0, "HU", 1),
    ),
    "lesion type classification": (
        ("hu_34_8", (34.84,), "cyst", 34.8, "HU", 1),
        ("hu_34_8", (34.86,), "tumor", 34.9, "HU", 1),
        ("mask", (0.0014, 0.0004), "cyst", 0.001, "cm³", 3),
        ("mask", (0.0004, 0.0014), "tumor", 0.001, "cm³", 3),
    ),
    # cm³, cm
    "pancreatic cyst resectability": (
        ("volume_or_diameter", (3.04, 3.04), "no", 3.0, "cm³", 1),
        ("volume_or_diameter", (3.06, 1.0), "yes", 3.1, "cm³", 1),
        ("volume_or_diameter", (1.0, 3.06), "yes", 1.0, "cm³", 1),
        ("volume_alone", (3.06, 1.0), "yes", 3.1, "cm³", 1),
        ("volume_alone", (1.0, 9.0), "no", 1.0, "cm³", 1),
        ("diameter_alone", (9.0, 1.0), "no", 1.0, "cm", 1),
        ("diameter_alone", (1.0, 3.06), "yes", 3.1, "cm", 1),
    ),
    # mesenteric artery, coeliac trunk, portal vein, cava
    "pancreatic lesion resectability": (
        ("knowledge_base", (0.0, 0.0, 0.0, 90.0), "resectable", 0.0, "°", 0),
        ("knowledge_base", (1.0, 0.0, 0.0, 0.0), "borderline", 1.0, "°", 0),
        ("knowledge_base", (180.0, 180.0, 0.0, 0.0), "borderline", 180.0, "°", 0),
        ("knowledge_base", (181.0, 0.0, 0.0, 0.0), "unresectable", 181.0, "°", 0),
        ("knowledge_base", (0.0, 181.0, 0.0, 0.0), "unresectable", 181.0, "°", 0),
        ("knowledge_base", (0.0, 0.0, 360.0, 0.0), "borderline", 360.0, "°", 0),
        ("radgpt", (179.0, 0.0, 0.0, 0.0, "pancreas_head"), "borderline", 179.0, "°", 0),
        ("radgpt", (9.0, 1.0, 0.0, 0.0, "pancreas_head"), "unresectable", 1.0, "°", 0),
        ("radgpt", (9.0, 0.0, 0.0, 1.0, "pancreas_head"), "unresectable", 0.0, "°", 0),
        ("radgpt", (9.0, 0.0, 0.0, 1.0, "pancreas_tail"), "borderline", 9.0, "°", 0),
    ),
    "pancreatic steatosis": (
        ("ratio_below_0_70", (69.99, 100.0), "yes", 0.7, "", 2),  # not rounded first
        ("ratio_below_0_70", (70.0, 100.0), "no", 0.7, "", 2),
        ("radgpt", (70.0, 100.0), "yes", 0.7, "", 2),
        ("radgpt", (70.01, 100.0), "no", 0.7, "", 2),
        ("radgpt", (33.3, 99.0), "yes", 0.34, "", 2),
    ),
    # cm, then degrees around the mesenteric artery and the coeliac trunk
    "pancreatic tumor staging": (
        ("radgpt", (2.04, 0.0, 0.0), "t1", 2.0, "cm", 1),
        ("radgpt", (2.06, 0.0, 0.0), "t2", 2.1, "cm", 1),
        ("radgpt", (4.04, 0.0, 0.0), "t2", 4.0, "cm", 1),
        ("radgpt", (4.06, 0.0, 0.0), "t3", 4.1, "cm", 1),
        ("radgpt", (1.0, 179.4, 0.0), "t1", 1.0, "cm", 1),
        ("radgpt", (1.0, 179.6, 0.0), "t4", 1.0, "cm", 1),
        ("radgpt", (1.0, 0.0, 180.0), "t4", 1.0, "cm", 1),
        ("any_contact", (1.0, 0.4, 0.4), "t1", 1.0, "cm", 1),
        ("any_contact", (1.0, 0.0, 1.0), "t4", 1.0, "cm", 1),
        ("size_alone", (5.0, 360.0, 360.0), "t3", 5.0, "cm", 1),
    ),
    # cm³ of the spleen, caudate over right lobe
    "portal hypertension assessment": (
        ("spleen", (314.504, 0.9), "no", 314.5, "cm³", 2),
        ("spleen", (314.51, 0.9), "yes", 314.51, "cm³", 2),
        ("either", (314.5, 0.654), "no", 314.5, "cm³", 2),
        ("either", (314.5, 0.656), "yes", 314.5, "cm³", 2),
        ("either", (314.6, 0.1), "yes", 314.6, "cm³", 2),
        ("both", (314.6, 0.65), "no", 314.6, "cm³", 2),
        ("both", (314.6, 0.66), "yes", 314.6, "cm³", 2),
        ("both", (314.5, 0.66), "no", 314.5, "cm³", 2),
    ),
    "pseudocyst determination": (
        ("", (14.54,), "no", 14.5, "HU", 1),
        ("", (14.56,), "yes", 14.6, "HU", 1),
    ),
    "renal mass characterization": (
        ("", (-10.06,), "fat_containing", -10.1, "HU", 1),
        ("", (-10.04,), "simple_cyst", -10.0, "HU", 1),
        ("", (20.04,), "simple_cyst", 20.0, "HU", 1),
        ("", (20.06,), "indeterminate", 20.1, "HU", 1),
        ("", (70.04,), "indeterminate", 70.0, "HU", 1),
        ("", (70.06,), "hyperattenuating_cyst", 70.1, "HU", 1),
    ),
    "organ enlargement": (
        ("knowledge_base", (1800.04,), "no", 1800.0, "cm³", 1),
        ("knowledge_base", (1800.06,), "yes", 1800.1, "cm³", 1),
        ("radgpt", (3000.04,), "no", 3000.0, "cm³", 1),
        ("radgpt", (3000.06,), "yes", 3000.1, "cm³", 1),
    ),
}
LISTED["organ enlargement"] = ("liver",)
AT_THE_BOUND = {
    "splenomegaly detection": (314.5,), "splenomegaly grading": (500.0,),
    "organ enlargement": (1800.0,), "fatty liver": (50.0, 50.0),
    "pseudocyst determination": (14.5,),
    "lesion type classification": (34.8,), "pancreatic cyst resectability": (3.0, 1.0),
    "pancreatic steatosis": (70.0, 100.0), "pancreatic tumor staging": (2.0, 0.0, 0.0),
    "portal hypertension assessment": (314.5, 0.1), "renal mass characterization": (20.0,),
}  # fmt: skip
ALLOWED = {
    # subtype: a stated value and how far from it a recomputed one may lie
    "lesion volume measurement": ((1.0, 0.1), (100.0, 2.0)),
    "organ HU measurement": ((10.0, 0.5), (200.0, 2.0)),
    "organ HU ratio": ((0.1, 0.01), (2.0, 0.04)),
    "organ volume measurement": ((1.0, 0.1), (100.0, 1.0)),
    "tumor burden percentage": ((1.0, 0.1), (50.0, 1.0)),
    "largest lesion diameter": ((1.0, 0.1), (10.0, 0.3)),
    "largest lesion slice": ((5.0, 1.0), (500.0, 1.0)),
    "lesion count by location": ((1.0, 0.5), (100.0, 0.5)),
    "lesion counting": ((1.0, 0.5), (100.0, 0.5)),
    "organ aggregation": ((1.0, 0.1), (100.0, 1.0)),
    "tumor organ HU difference": ((10.0, 1.0), (100.0, 2.0)),
}
VESSELS = ("superior_mesenteric_artery", "celiac_trunk", "portal_vein_and_splenic_vein", "postcava")
SEGMENTS = tuple(f"segment voxels liver_segment_{n}" for n in range(1, 9))


def _per_kidney(measure):
    return [
        step
        for side in ("left", "right")
        for step in (
            f"segment voxels kidney_{side}",
            f"measure {measure} kidney_lesion in kidney_{side}",
        )
    ]


STEPS: dict[tuple[str, str], tuple[str, str, str, list[str]]] = {
    # (subtype, other rule): text, organ, options, steps
    **{
        ("adjacent organ", rule): (
            "Which organ is adjacent to the largest lesion?", "pancreas", "stomach|spleen",
            ["segment voxels largest pancreatic_lesion", "segment voxels stomach",
             "segment voxels spleen",
             f"segment {rule} largest pancreatic_lesion with stomach+spleen"],
        )
        for rule in ("touching", "nearest")
    },
    ("bilateral kidney asymmetry", "by_count"): (
        "Which kidney?", "kidney", "",
        [*_per_kidney("lesion_count"), "segment voxels kidney_lesion"],
    ),
    ("largest lesion diameter", "radgpt_whole_mm"): (
        "Diameter?", "liver", "",
        ["segment voxels liver_lesion", "measure radgpt_diameter_cm liver_lesion"],
    ),
    ("largest lesion diameter", "3d"): (
        "Diameter?", "liver", "",
        ["segment voxels liver_lesion", "measure diameter_3d_cm liver_lesion"],
    ),
    **{
        ("largest lesion slice", rule): (
            "Which slice?", "liver", "",
            ["segment voxels liver_lesion", f"segment {measure} largest liver_lesion"],
        )
        for rule, measure in (
            ("percent", "widest_slice_percent"), ("from_1", "widest_slice_ras_from_1"),
            ("file_index", "widest_slice_file"), ("largest_area", "largest_area_slice_ras"),
        )
    },
    ("liver lesion clustering", "by_volume"): (
        "How distributed?", "liver", "",
        ["segment voxels liver_lesion", *SEGMENTS,
         "measure volume_share_of_fullest_part liver_lesion",
         "measure volume_share_of_fullest_two_parts liver_lesion"],
    ),
    ("multi-organ lesion burden comparison", "by_count"): (
        "The liver or the pancreas?", "", "",
        ["segment voxels liver_lesion", "measure lesion_count liver_lesion",
         "segment voxels pancreatic_lesion", "measure lesion_count pancreatic_lesion"],
    ),
    ("multi-organ lesion burden comparison", "by_percentage"): (
        "The liver or the pancreas?", "", "",
        ["segment voxels liver_lesion", "measure volume_cm3 liver_lesion", "segment voxels liver",
         "measure volume_cm3 liver", "segment voxels pancreatic_lesion",
         "measure volume_cm3 pancreatic_lesion", "segment voxels pancreas",
         "measure volume_cm3 pancreas"],
    ),
    ("organ aggregation", "mean_hu"): (
        "The liver and the spleen?", "", "",
        ["segment voxels liver", "measure mean_hu liver", "segment voxels spleen",
         "measure mean_hu spleen"],
    ),
    ("PDAC vs PNET classification", "attenuation"): (
        "PDAC or PNET?", "pancreas", "",
        ["lookup PDAC or PNET", "segment voxels pancreatic_lesion", "segment voxels pancreas",
         "measure mean_hu largest pancreatic_lesion", "measure mean_hu pancreas",
         "measure sd_hu pancreas"],
    ),
    ("lesion type classification", "mask"): (
        "Cyst or tumor?", "kidney", "",
        ["lookup kidney lesion type", "segment voxels kidney_cyst", "segment voxels kidney_tumor",
         "measure largest_lesion_volume_cm3 kidney_cyst",
         "measure largest_lesion_volume_cm3 kidney_tumor"],
    ),
    ("pancreatic lesion resectability", "radgpt"): (
        "Is the pancreatic lesion resectable?", "pancreas", "",
        ["lookup resectability", "segment voxels pancreatic_lesion",
         *(f"segment voxels {vessel}" for vessel in VESSELS),
         *(f"measure contact_angle_deg {vessel} with largest pancreatic_lesion"
           for vessel in VESSELS),
         "segment parts largest pancreatic_lesion"],
    ),
    ("tumor organ HU difference", "largest"): (
        "HU difference of the largest lesion?", "pancreas", "",
        ["segment voxels largest pancreatic_lesion", "measure mean_hu largest pancreatic_lesion",
         "segment voxels pancreas", "measure mean_hu pancreas"],
    ),
}  # fmt: skip


def common_probes(subtype: str) -> Iterator[tuple[Any, Any]]:
    """Yield (what comes out, what must come out) for one subtype."""
    rule, row = rules.rule_for(subtype), SCHEMA[subtype]
    primitives = [p.replace("knowledge", "lookup") for p in row["primitives"]]
    yield (rule.answer_type, list(rule.primitives)), (row["answer_type"], primitives)
    for label in rule.labels:
        yield label_in(rules.phrase(label), rule), label
    known = {variant.name for variant in rule.variants if not variant.assumed}
    yield known, KNOWN.get(subtype, set())
    if subtype in ABOUT:
        text, organ, target = ABOUT[subtype]
        options = "stomach|spleen" if rule.listed == "options" else ""
        found = understand(question(subtype, text, organ=organ, options=options), rule)
        yield (found.structure, found.problem), (target, "")
    for name, values, *expected in NUMBERS.get(subtype, ()):
        made = conclude(rule, values, rule.variant_named(name), LISTED.get(subtype, ()))
        yield [made.label, made.value, made.unit, made.decimals], expected
    if subtype in AT_THE_BOUND:
        made = conclude(rule, AT_THE_BOUND[subtype], None, LISTED.get(subtype, ()))
        told = [caveat.split(":")[0] for caveat in made.caveats]
        yield told, ["at the boundary" if subtype in BOUNDARY_KNOWN else "assumed at the boundary"]
    for stated, allowed in ALLOWED.get(subtype, ()):
        yield round(rule.allowed(stated), 6), allowed
    for (name, variant), (text, organ, options, steps) in STEPS.items():
        if name == subtype:
            asked = understand(question(subtype, text, organ=organ, options=options), rule)
            chosen = None if variant == "largest" else rule.variant_named(variant)
            yield [_said(step) for step in plan(rule, asked, chosen)], steps


def _said(step):
    other = step.other and f"with {step.other}"
    return " ".join(filter(None, (step.kind.value, step.measure, step.target, other)))
