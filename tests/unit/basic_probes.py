"""Probes of the fifteen subtypes that need one organ, one lesion mask or two kidneys.

Like ``rule_probes``, which collects them: (what comes out, what must come out), argued from the
numbers that went in. Voxels are 0.1 cm³.
"""

import numpy as np
from evidence_cases import grid
from rule_probes import (
    BIG,
    FREE,
    agent,
    box,
    chain,
    concluded,
    none,
    organ,
    others,
    probe,
    rule_of,
    s,
    said,
    steps,
    why,
)

from napari_ctvqa.core import answers, conclusions, rules

NOTHING = none(BIG)


def speck(*where):
    return box(*where, BIG)


def lesions():
    """Three components of 30.0, 0.2 and 0.1 cm³; the second is two voxels joined by a corner."""
    array = speck(s(4, 10), s(4, 14), s(4, 9))
    array[20, 20, 20] = array[21, 21, 21] = True
    array[30, 30, 30] = True
    return array


def ct_of(liver=0):
    array = np.full(BIG.shape_zyx, -1000, np.int16)
    array[organ(100.0)] = liver
    return array


EXISTENCE = {
    "PDAC existence": ("pancreatic_pdac", ()),
    "PNET existence": ("pancreatic_pnet", ()),
    "colon lesion existence": ("colon_lesion", ("colon_tumor",)),
    "kidney cyst existence": ("kidney_cyst", ()),
    "kidney lesion existence": ("kidney_lesion", ("kidney_tumor", "kidney_cyst")),
    "kidney tumor existence": ("kidney_tumor", ()),
    "liver lesion existence": (
        "liver_lesion",
        ("liver_tumor", "hepatic_vessel_tumor", "liver_cyst"),
    ),
    "pancreatic lesion existence": (
        "pancreatic_lesion",
        ("pancreas_tumor", "pancreatic_cyst", "pancreatic_pdac", "pancreatic_pnet"),
    ),
}


def _existence(subtype, structure, kinds):
    def probes():
        there, empty = {structure: speck(3, 3, 3)}, {structure: NOTHING}
        yield said(subtype, there, answer="Yes", on=BIG), ("Yes", "agrees", True)
        yield said(subtype, empty, answer="Yes", on=BIG), ("No", "differs", True)
        yield why(subtype, {"spleen": organ(9)}, on=BIG)[0], "cannot_check"
        yield steps(subtype, empty, on=BIG), [f"segment voxels {structure}"]
        yield agent(subtype, empty, "Yes|No", on=BIG), "B"
        yield agent(subtype, empty, "", FREE, on=BIG), "No"
        yield agent(subtype, there, "", FREE, on=BIG), "Yes"
        for kind in kinds:
            union = {structure: NOTHING, kind: speck(3, 3, 3)}
            yield concluded(subtype, union, on=BIG), "Yes"

    probe(subtype)(probes)


for _subtype, (_structure, _kinds) in EXISTENCE.items():
    _existence(_subtype, _structure, _kinds)

SPLEENS = (
    # volume in cm³, enlarged, grade, whether the boundary itself decides (of both, or of the grade)
    (314.4, "No", "Normal", False),
    (314.5, "No", "Mild", True),
    (314.6, "Yes", "Mild", False),
    (499.9, "Yes", "Mild", False),
    (500.0, "Yes", "Mild", None),
    (500.1, "Yes", "Moderate", False),
    (799.9, "Yes", "Moderate", False),
    (800.0, "Yes", "Moderate", None),
    (800.1, "Yes", "Severe", False),
)


@probe("splenomegaly detection")
def _detection():
    name = "splenomegaly detection"
    for cm3, enlarged, _, edge in SPLEENS:
        spleen = {"spleen": organ(cm3)}
        yield said(name, spleen, answer=enlarged, on=BIG), (enlarged, "agrees", bool(edge))
    # rounding comes before the threshold, and is to 0.1 cm³
    yield conclusions.conclude(rules.rule_for(name), [314.54]).label, "no"
    yield conclusions.conclude(rules.rule_for(name), [314.56]).label, "yes"
    at = chain(name, {"spleen": organ(314.5)}, on=BIG).steps[-1]
    yield any("exactly 314.5 cm³ is not enlarged" in caveat for caveat in at.caveats), True
    yield "Bezerra" in chain(name, {"spleen": organ(9)}, on=BIG).steps[-1].source, True
    yield (
        steps(name, {"spleen": organ(9)}, on=BIG),
        ["segment voxels spleen", "measure volume_cm3 spleen", "lookup splenomegaly detection"],
    )
    # an organ in two parts is measured whole
    big = organ(314.0) | speck(38, 38, s(10, 20))
    yield concluded(name, {"spleen": big}, on=BIG), "Yes"
    for text, label in (("enlarged", "yes"), ("absent", "no"), ("not present", "no")):
        yield answers.label_in(text, rules.rule_for(name)), label
    yield why(name, {"spleen": organ(9)}, "Is the liver enlarged?", on=BIG)[0], "cannot_check"
    yield agent(name, {"spleen": organ(400)}, "No|Yes", on=BIG), "B"


GRADES = "Normal|Mild|Moderate|Severe"


@probe("splenomegaly grading")
def _grading():
    name = "splenomegaly grading"
    for cm3, _, grade, edge in SPLEENS:
        spleen = {"spleen": organ(cm3)}
        yield said(name, spleen, answer=grade, on=BIG), (grade, "agrees", edge in (True, None))
        letter = "ABCD"[GRADES.split("|").index(grade)]
        yield agent(name, spleen, GRADES, on=BIG), letter
        yield agent(name, spleen, "", FREE, on=BIG), grade
    yield conclusions.conclude(rules.rule_for(name), [500.04]).label, "mild"
    yield conclusions.conclude(rules.rule_for(name), [500.06]).label, "moderate"
    yield "Bezerra" in chain(name, {"spleen": organ(9)}, on=BIG).steps[-1].source, True
    yield (
        steps(name, {"spleen": organ(9)}, on=BIG),
        ["lookup splenomegaly grade", "segment voxels spleen", "measure volume_cm3 spleen"],
    )
    big = organ(314.0) | speck(38, 38, s(10, 20))
    yield concluded(name, {"spleen": big}, on=BIG), "Mild"
    for text, label in (("mildly enlarged", "mild"), ("massive", "severe")):
        yield answers.label_in(text, rules.rule_for(name)), label
    yield why(name, {"spleen": organ(9)}, "Is the liver enlarged?", on=BIG)[0], "cannot_check"


@probe("organ volume measurement")
def _volume():
    name = "organ volume measurement"
    # 100.0 cm³: 1 % and at least 0.1 cm³ are allowed
    for stated, status in (("101.0", "agrees"), ("98.9", "differs"), ("100.0", "agrees")):
        volume = said(name, {"liver": organ(100)}, organ="liver", answer=stated, on=BIG)
        yield volume, ("100.0 cm³", status, False)
    for stated, status in (("1.1", "agrees"), ("1.2", "differs")):
        small = said(name, {"liver": organ(1)}, organ="liver", answer=stated, on=BIG)
        yield small, ("1.0 cm³", status, False)
    pair = {"kidney_left": organ(150), "kidney_right": organ(120)}
    both = said(name, pair, organ="kidney", answer="270", on=BIG)
    yield both, ("270.0 cm³", "agrees", False)
    for side, volume in (("left", "150.0 cm³"), ("right", "120.0 cm³")):
        text = f"Volume of the {side} kidney?"
        yield concluded(name, pair, text, organ="kidney", on=BIG), volume
    yield (
        steps(name, pair, organ="kidney", on=BIG),
        [
            "segment voxels kidney_left",
            "segment voxels kidney_right",
            "measure volume_cm3 kidney_left",
            "measure volume_cm3 kidney_right",
        ],
    )
    parted = organ(20.0) | speck(30, 30, s(10, 20))
    yield concluded(name, {"liver": parted}, organ="liver", on=BIG), "21.0 cm³"
    # 9 voxels of 0.08 cm³ are 0.72
    fine = grid((40, 40, 40), (4.0, 5.0, 4.0))
    few = {"liver": box(s(0, 9), 1, 1, fine)}
    yield concluded(name, few, organ="liver", on=fine), "0.7 cm³"


@probe("organ HU measurement")
def _hu():
    name = "organ HU measurement"
    # 1 % and at least 0.5 HU are allowed
    ct = ct_of(50)
    ct[2, 2, 2] = 1000  # under the lesion, which is left out
    masks = {"liver": organ(100.0), "liver_lesion": speck(2, 2, 2)}
    for stated, status in (("50.5", "agrees"), ("50.6", "differs"), ("49.4", "differs")):
        mean = said(name, masks, organ="liver", answer=stated, ct=ct, on=BIG)
        yield mean, ("50.0 HU", status, False)
    bare = {"liver": organ(100.0), "liver_lesion": NOTHING}
    for stated, status in (("198.1", "agrees"), ("197.9", "differs")):
        mean = said(name, bare, organ="liver", answer=stated, ct=ct_of(200), on=BIG)
        yield mean, ("200.0 HU", status, False)
    # small values: the absolute tolerance decides
    for stated, status in (("10.4", "agrees"), ("10.6", "differs")):
        ten = said(name, bare, organ="liver", answer=stated, ct=ct_of(10), on=BIG)
        yield ten[1], status
    kidneys = {"kidney_left": organ(30), "kidney_right": speck(30, 30, 30)}
    uneven = np.zeros(BIG.shape_zyx, np.int16)
    uneven[30, 30, 30] = 301
    whole = said(name, kidneys, organ="kidney", answer="1.0", ct=uneven, on=BIG)
    yield whole, ("1.0 HU", "agrees", False)  # 301 over 301 voxels, not 0 + 301
    third = np.zeros(BIG.shape_zyx, np.int16)
    third[3, 3, 3] = 100  # of three voxels: 33.33
    three = {"liver": speck(3, 3, s(3, 6)), "liver_lesion": NOTHING}
    yield concluded(name, three, organ="liver", ct=third, on=BIG), "33.3 HU"
    found = steps(name, masks, organ="liver", ct=ct, on=BIG)
    yield found, ["segment voxels liver", "measure mean_hu liver"]


@probe("lesion volume measurement")
def _lesion_volume():
    name = "lesion volume measurement"
    found = {"liver_lesion": lesions()}
    # 30.3 cm³; 2 % of what is stated and at least 0.1 are allowed
    for stated, status in (("30.9", "agrees"), ("31.0", "differs"), ("29.8", "agrees")):
        volume = said(name, found, organ="liver", answer=stated, on=BIG)
        yield volume, ("30.3 cm³", status, False)
    little = {"liver_lesion": speck(3, 3, s(3, 6))}
    for stated, status in (("0.3", "agrees"), ("0.4", "agrees"), ("0.5", "differs")):
        volume = said(name, little, organ="liver", answer=stated, on=BIG)
        yield volume, ("0.3 cm³", status, False)
    text = "Volume of the largest liver lesion?"
    largest = said(name, found, text, "30", organ="liver", on=BIG)
    yield largest, ("30.0 cm³", "agrees", False)
    fine = grid((40, 40, 40), (4.0, 5.0, 4.0))
    few = {"liver_lesion": box(s(0, 9), 1, 1, fine)}  # 0.72 cm³
    yield concluded(name, few, organ="liver", on=fine), "0.7 cm³"
    masks = {**found, "liver": organ(100)}
    yield (
        steps(name, masks, organ="liver", on=BIG),
        ["segment voxels liver_lesion", "measure volume_cm3 liver_lesion"],
    )
    yield (
        steps(name, masks, text, organ="liver", on=BIG),
        ["segment voxels liver_lesion", "measure largest_lesion_volume_cm3 liver_lesion"],
    )


@probe("lesion counting")
def _counting():
    name = "lesion counting"
    found = {"liver_lesion": lesions(), "liver": organ(100)}
    for stated, status in (("3", "agrees"), ("2", "differs"), ("4", "differs")):
        count = said(name, found, organ="liver", answer=stated, on=BIG)
        yield count, ("3 lesions", status, True)
    yield (
        steps(name, found, organ="liver", on=BIG),
        ["segment voxels liver_lesion", "measure lesion_count liver_lesion"],
    )
    # of 4×5×5 mm voxels each survives an erosion of 3 mm: only sizes below 50 mm³ would not count
    same = {"radgpt_10mm3": "3 lesions", "radgpt_ai_50mm3": "3 lesions"}
    yield others(name, found, organ="liver", on=BIG), same
    fine = grid((20, 20, 20), (1.0, 1.0, 1.0))
    small = box(s(2, 5), s(2, 5), s(2, 5), fine)  # 27 mm³
    small[10, 10, 10] = True
    filtered = {"radgpt_10mm3": "1 lesion", "radgpt_ai_50mm3": "0 lesions"}
    yield others(name, {"liver_lesion": small}, organ="liver", on=fine), filtered
    yield rule_of(name, found, organ="liver", on=BIG), "all"
    many = NOTHING.copy()
    many[2:38:3, 2:38:3, 20] = True  # 144 lesions of one voxel
    off_by_one = said(name, {"liver_lesion": many}, organ="liver", answer="145", on=BIG)
    yield off_by_one[1], "differs"
    yield concluded(name, {"liver_lesion": small}, organ="liver", on=fine), "2 lesions"


@probe("kidney volume comparison")
def _kidneys():
    name = "kidney volume comparison"
    for left, right, label in (
        (150.1, 150.0, "left kidney"),
        (150.0, 150.0, "the same"),
        (150.0, 150.1, "right kidney"),
    ):
        masks = {"kidney_left": organ(left), "kidney_right": organ(right)}
        yield said(name, masks, answer=label, on=BIG), (label, "agrees", True)
        options = "right kidney|the same|left kidney"
        letter = "ABC"[options.split("|").index(label)]
        yield agent(name, masks, options, on=BIG), letter
        yield agent(name, masks, "", FREE, on=BIG), label
    pair = {"kidney_left": organ(150), "kidney_right": organ(120)}
    yield (
        steps(name, pair, on=BIG),
        [
            "segment voxels kidney_left",
            "measure volume_cm3 kidney_left",
            "segment voxels kidney_right",
            "measure volume_cm3 kidney_right",
        ],
    )
    named = concluded(name, pair, "Which kidney is bigger?", organ="kidney", on=BIG)
    yield named, "left kidney"
    smaller = concluded(name, pair, "Which kidney is smaller?", organ="kidney", on=BIG)
    yield smaller, "right kidney"
    # of 200 cm³: 0.1 cm³ beyond 5 %, at 5 %, beyond 10 %, at 10 %
    for left, within_5, within_10 in (
        (200.0, "the same", "the same"),
        (190.0, "the same", "the same"),
        (189.9, "right kidney", "the same"),
        (180.0, "right kidney", "the same"),
        (179.9, "right kidney", "right kidney"),
    ):
        masks = {"kidney_left": organ(left), "kidney_right": organ(200.0)}
        given = {"within_5_percent": within_5, "within_10_percent": within_10}
        yield others(name, masks, on=BIG), given
    yield rule_of(name, pair, on=BIG), "equal_at_0.1"
    rule = rules.rule_for(name)
    for text, label in (("equal", "same"), ("the left one", "left")):
        yield answers.label_in(text, rule), label
    yield conclusions.conclude(rule, [150.04, 150.0]).label, "same"
    yield conclusions.conclude(rule, [150.06, 150.0]).label, "left"
    # an organ in two parts is measured whole
    parted = organ(20.0) | speck(30, 30, s(10, 20))
    both_parts = {"kidney_left": parted, "kidney_right": organ(20.5)}
    yield concluded(name, both_parts, on=BIG), "left kidney"
    yield why(name, pair, "Which is bigger, liver or spleen?", on=BIG)[0], "cannot_check"
