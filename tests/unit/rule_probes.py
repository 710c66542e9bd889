"""Probes of the rule table: small cases whose conclusions are argued from what went into them.

Each function yields (what comes out, what must come out) for one subtype. Grids have voxels of
1 mm³ unless a volume needs larger ones; HU are set per structure, so means are exact.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from itertools import chain as chain_of
from typing import Any

import numpy as np
from common_probes import common_probes
from evidence_cases import case, cm3_box, grid, question

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.evidence.chains import reference_chain
from napari_ctvqa.models.rules import MODEL

MM = grid((40, 40, 40), (1.0, 1.0, 1.0))
BIG = grid((40, 40, 40), (4.0, 5.0, 5.0))  # voxels of 0.1 cm³
PROBES: dict[str, Callable[[], Iterator[tuple[Any, Any]]]] = {}
MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM


def probe(subtype: str):
    def keep(function):
        PROBES[subtype] = function
        return function

    return keep


def box(z, y, x, on=MM):
    """Return an array with one box set; a number is one index."""
    array = np.zeros(on.shape_zyx, bool)
    array[z, y, x] = True
    return array


def none(on=MM):
    return np.zeros(on.shape_zyx, bool)


def s(start, stop):
    return slice(start, stop)


@functools.cache
def organ(cm3):
    return cm3_box(cm3, BIG)


def hu(on=MM, **values):
    """Return HU: 0, and in each (array, value) pair the value; later ones win."""
    array = np.zeros(on.shape_zyx, np.float32)
    for mask, value in values.values():
        array[mask] = value
    return array


_CASES = {}


def case_of(masks, on, ct):
    """Return a case of these arrays, the same one again for the same arrays.

    What was measured on a case is kept with it, so that a table can be changed a thousand times
    and every lesion is measured once. ``other_cases`` where the measuring itself is changed.
    """
    drawn = tuple((name, hash(array.tobytes())) for name, array in masks.items())
    key = (on.shape_zyx, on.spacing_mm_zyx, drawn, None if ct is None else hash(ct.tobytes()))
    if key not in _CASES:
        _CASES[key] = case(masks, on=on, hu=ct)
    return _CASES[key]


@contextlib.contextmanager
def other_cases(fresh):
    """Make every case anew, where ``fresh``; the ones that were measured come back afterwards."""
    kept = dict(_CASES)
    if fresh:
        _CASES.clear()
    yield
    if fresh:
        _CASES.clear()
        _CASES.update(kept)


def chain(subtype, masks, text="?", answer="", on=MM, ct=None, options="", **more):
    asked = question(subtype, text, answer=answer, options=options, **more)
    return reference_chain(asked, case_of(masks, on, ct))


def said(*args, **kwargs):
    """Return conclusion, status and whether it is assumed."""
    made = chain(*args, **kwargs)
    return made.conclusion, made.status.value, made.steps[-1].assumed


def concluded(*args, **kwargs):
    return chain(*args, **kwargs).conclusion


def others(*args, **kwargs):
    """Return what the other rules give, by name."""
    return {rule.name: rule.conclusion for rule in chain(*args, **kwargs).other_rules}


def rule_of(*args, **kwargs):
    return chain(*args, **kwargs).rule


def steps(*args, **kwargs):
    """Return each step but the last as a text: kind, measure, target, second structure."""
    made = chain(*args, **kwargs)
    return [
        " ".join(filter(None, (x.kind.value, x.measure, x.target, x.other and f"with {x.other}")))
        for x in made.steps[:-1]
    ]


def why(*args, **kwargs):
    made = chain(*args, **kwargs)
    return made.status.value, made.reason


def agent(subtype, masks, options, answer_format=MC, text="?", on=MM, ct=None, **more):
    asked = question(subtype, text, options=options, **more)
    *_, prediction = MODEL.answer(asked, case_of(masks, on, ct), answer_format)
    return prediction.raw_text


# ------------------------------------------------------------------------------- measurement


@probe("organ HU ratio")
def _ratio():
    liver, spleen, lesion = box(s(0, 9), 1, 1), box(s(0, 9), 5, 5), box(8, 1, 1)
    masks = {"liver": liver, "spleen": spleen, "liver_lesion": lesion}
    ct = hu(a=(liver, 60), b=(lesion, -500), c=(spleen, 50))
    text = "What is the liver-to-spleen HU ratio?"
    # 60 / 50; 2 % of 1.20 and at least 0.01 are allowed
    for stated, status in (("1.22", "agrees"), ("1.23", "differs"), ("1.18", "agrees")):
        made = said("organ HU ratio", masks, text, stated, ct=ct, organ="liver")
        yield made, ("1.20", status, True)
    yield concluded("organ HU ratio", masks, "the spleen to liver ratio", ct=ct), "0.83"
    yield concluded("organ HU ratio", masks, "the L/S ratio", ct=ct), "1.20"
    small = hu(a=(liver, 5), b=(lesion, -500), c=(spleen, 50))
    for stated, status in (("0.11", "agrees"), ("0.12", "differs")):  # 0.10: the absolute part
        yield said("organ HU ratio", masks, text, stated, ct=small)[1], status
    cold = hu(a=(liver, 60), c=(spleen, -50))
    yield why("organ HU ratio", masks, text, ct=cold)[0], "cannot_check"
    yield (
        steps("organ HU ratio", masks, text, ct=ct),
        [
            "segment voxels liver",
            "measure mean_hu liver",
            "segment voxels spleen",
            "measure mean_hu spleen",
        ],
    )
    yield why("organ HU ratio", masks, "the ratio of the liver", ct=ct)[0], "cannot_check"


@probe("tumor burden percentage")
def _burden():
    liver = organ(100)
    lesion = np.zeros_like(liver)
    lesion.flat[np.flatnonzero(liver)[:100]] = True  # 10 cm³ of 100
    masks = {"liver": liver, "liver_lesion": lesion}
    text = "What percentage of the liver is lesion?"
    # 10 %; 2 % of it are allowed, and at least 0.1
    for stated, status in (("10.2", "agrees"), ("10.3", "differs"), ("9.9", "agrees")):
        made = said("tumor burden percentage", masks, text, stated, on=BIG, organ="liver")
        yield made, ("10.0 %", status, False)
    yield others("tumor burden percentage", masks, text, on=BIG), {"of_the_rest": "11.1 %"}
    tiny = np.zeros_like(liver)
    tiny.flat[np.flatnonzero(liver)[:10]] = True  # 1 %
    few = {"liver": liver, "liver_lesion": tiny}
    for stated, status in (("1.1", "agrees"), ("1.2", "differs")):
        yield said("tumor burden percentage", few, text, stated, on=BIG, organ="liver")[1], status
    yield (
        steps("tumor burden percentage", masks, text, on=BIG, organ="liver"),
        [
            "segment voxels liver_lesion",
            "measure volume_cm3 liver_lesion",
            "segment voxels liver",
            "measure volume_cm3 liver",
        ],
    )
    left, right = box(s(0, 10), s(0, 10), s(20, 30)), box(s(0, 10), s(0, 10), s(0, 10))
    sided = {
        "kidney_left": left,
        "kidney_right": right,
        "kidney_lesion": box(s(0, 5), s(0, 10), s(20, 30)) | box(0, 0, 0),
    }
    # 500 of 1000 voxels on the left; 501 of 2000 in both
    for text, answer in (
        ("What percentage of the left kidney is lesion?", "50.0 %"),
        ("What percentage of the kidneys is lesion?", "25.1 %"),
    ):
        yield concluded("tumor burden percentage", sided, text, organ="kidney"), answer


# ---------------------------------------------------------------------------- visual reasoning


@probe("adjacent organ")
def _adjacent():
    lesion = box(s(10, 15), s(10, 15), s(10, 15)) | box(30, 30, 30)
    stomach = box(s(10, 12), s(10, 12), s(19, 25))  # 5 mm from 14 to 19: too far
    spleen = box(s(10, 12), s(10, 12), s(0, 7))  # 4 mm from 10 to 6
    masks = {"pancreatic_lesion": lesion, "stomach": stomach, "spleen": spleen}
    masks["colon"] = box(31, 30, 30)  # beside the small lesion only
    more = {"organ": "pancreas", "options": "stomach|spleen|colon"}
    text = "Which organ is adjacent to the largest pancreatic lesion?"
    made = said("adjacent organ", masks, text, "spleen", **more)
    yield made, ("spleen", "agrees", True)
    yield said("adjacent organ", masks, text, "stomach", **more)[1], "differs"
    yield others("adjacent organ", masks, text, **more), {"touching": "", "nearest": "spleen"}
    nearer = {**masks, "stomach": box(s(10, 12), s(10, 12), s(18, 25))}
    nearer["spleen"] = box(s(10, 15), s(10, 15), s(0, 7))
    nearer["colon"] = box(10, 10, 15)  # touches with one voxel
    # within 4 mm: spleen with most surface; touching: colon alone; nearest: colon
    yield concluded("adjacent organ", nearer, text, **more), "spleen"
    yield others("adjacent organ", nearer, text, **more), {"touching": "colon", "nearest": "colon"}
    yield agent("adjacent organ", nearer, more["options"], text=text, organ="pancreas"), "B"
    yield (
        steps("adjacent organ", masks, text, **more),
        [
            "segment voxels largest pancreatic_lesion",
            "segment voxels stomach",
            "segment voxels spleen",
            "segment voxels colon",
            "segment adjacent largest pancreatic_lesion with stomach+spleen+colon",
        ],
    )
    alone = {**masks, "spleen": none()}
    yield why("adjacent organ", alone, text, **more)[0], "cannot_check"


@probe("bilateral kidney asymmetry")
def _asymmetry():
    left, right = box(s(0, 20), s(0, 20), s(20, 40)), box(s(0, 20), s(0, 20), s(0, 20))
    big = box(s(2, 12), s(2, 12), s(22, 32))  # 1 cm³ on the left
    small = box(s(2, 4), 2, 2) | box(s(8, 10), 2, 2)  # two specks on the right
    masks = {"kidney_left": left, "kidney_right": right, "kidney_lesion": big | small}
    text = "Which kidney carries the larger lesion burden?"
    made = said("bilateral kidney asymmetry", masks, text, "left kidney", organ="kidney")
    yield made, ("left kidney", "agrees", True)
    yield others("bilateral kidney asymmetry", masks, text), {"by_count": "right kidney"}
    counted = "Which kidney has more lesions?"
    yield (
        concluded("bilateral kidney asymmetry", masks, counted),
        "right kidney",
    )
    yield rule_of("bilateral kidney asymmetry", masks, counted), "by_count"
    # 0.04 cm³ apart at most: the same at 0.1 cm³
    even = {**masks, "kidney_lesion": big | box(s(2, 12), s(2, 12), s(3, 13)) | box(18, 18, 18)}
    yield concluded("bilateral kidney asymmetry", even, text), "the same"
    yield others("bilateral kidney asymmetry", even, text), {"by_count": "right kidney"}
    less = {**masks, "kidney_lesion": big | box(s(2, 11), s(2, 12), s(3, 13))}  # 1.0 and 0.9
    yield concluded("bilateral kidney asymmetry", less, text), "left kidney"
    yield (
        steps("bilateral kidney asymmetry", masks, text),
        [
            "segment voxels kidney_left",
            "measure volume_cm3 kidney_lesion in kidney_left",
            "segment voxels kidney_right",
            "measure volume_cm3 kidney_lesion in kidney_right",
            "segment voxels kidney_lesion",
        ],
    )
    yield why("bilateral kidney asymmetry", masks, "of the liver?")[0], "cannot_check"
    options = "left kidney|right kidney|the same"
    yield agent("bilateral kidney asymmetry", masks, options, text=text), "A"


def segments(**lesions):
    """A liver of eight segments, each a slab of 5 mm in x, and the lesions given."""
    masks = {
        f"liver_segment_{n + 1}": box(s(0, 40), s(0, 40), s(5 * n, 5 * n + 5)) for n in range(8)
    }
    masks["liver"] = box(s(0, 40), s(0, 40), s(0, 40))
    return {**masks, **lesions}


@probe("inter-segment comparison")
def _between():
    both = box(1, 1, s(32, 37))  # 3 voxels in segment 7, 2 in 8: 60 and 40 %
    edge = box(5, 5, s(9, 19))  # 1 voxel in 2 (10 %: not more than a tenth), 5 in 3, 4 in 4
    masks = segments(liver_lesion=both | edge | box(9, 9, 38))
    text = "Evaluate lesion distribution between segments 7 and 8."
    options = "Segment 7 has more lesions|Segment 8 has more lesions|Both have the same number"
    made = said("inter-segment comparison", masks, text, "Segment 8 has more lesions",
                organ="liver", options=options)  # fmt: skip
    yield made, ("liver segment 8", "agrees", True)
    yield others("inter-segment comparison", masks, text, organ="liver"), {
        "most": "the same", "any": "liver segment 8",
    }  # fmt: skip
    for text, default, any_voxel in (
        ("Segment 2 or segment 1?", "the same", "liver segment 2"),
        ("between segments II and III", "liver segment 3", "the same"),
    ):
        yield concluded("inter-segment comparison", masks, text, organ="liver"), default
        other = others("inter-segment comparison", masks, text, organ="liver")
        yield other["any"], any_voxel
    yield (
        agent("inter-segment comparison", masks, options, text="Compare both.", organ="liver"),
        "B",
    )
    yield (
        steps("inter-segment comparison", masks, "segments 7 and 8", organ="liver"),
        [
            "segment voxels liver_lesion",
            "segment voxels liver_segment_7",
            "segment voxels liver_segment_8",
            "measure lesion_count liver_lesion in liver_segment_7",
            "measure lesion_count liver_lesion in liver_segment_8",
        ],
    )
    fewer = concluded(
        "inter-segment comparison", masks, "Which has fewer, segment 7 or 8?", organ="liver"
    )
    yield fewer, "liver segment 7"


@probe("largest lesion attenuation")
def _attenuation():
    liver = box(s(0, 10), s(0, 10), s(0, 10))
    lesion = box(0, 0, s(0, 5))
    small = box(5, 5, 5)
    masks = {"liver": liver, "liver_lesion": lesion | small}
    rest = liver & ~lesion & ~small
    high = rest & (np.cumsum(rest.ravel()).reshape(rest.shape) % 2 == 0)
    text = "How does the largest liver lesion attenuate?"
    # the organ's voxels are 90 and 110: mean 100, SD 10; a tenth of it is 1 HU
    for value, label, other in (
        (98.9, "hypoattenuating", "hypoattenuating"),
        (99.0, "hypoattenuating", "hypoattenuating"),
        (99.2, "isoattenuating", "hypoattenuating"),
        (100.0, "isoattenuating", "isoattenuating"),
        (100.8, "isoattenuating", "hyperattenuating"),
        (101.1, "hyperattenuating", "hyperattenuating"),
    ):
        ct = hu(a=(rest, 90), b=(high, 110), c=(lesion, value), d=(small, 500))
        made = said("largest lesion attenuation", masks, text, label, ct=ct, organ="liver")
        yield made, (label, "agrees", False)
        found = others("largest lesion attenuation", masks, text, ct=ct, organ="liver")
        yield found, {"any_difference": other}
    yield (
        steps("largest lesion attenuation", masks, text, ct=hu(), organ="liver"),
        [
            "segment voxels largest liver_lesion",
            "measure mean_hu largest liver_lesion",
            "segment voxels liver",
            "measure mean_hu liver",
            "measure sd_hu liver",
        ],
    )
    gone = {**masks, "liver_lesion": none()}
    yield why("largest lesion attenuation", gone, text, organ="liver")[0], "cannot_check"


@probe("largest lesion diameter")
def _diameter():
    # of 29×1 voxels in plane: the outline is 29 mm long; 3 slices make √(29² + 2²) in 3-D,
    # and a smaller lesion of one slice is longer: 31 mm, but not the largest
    lesion = box(s(0, 3), 5, s(5, 34))
    longer = box(20, 20, s(5, 36))
    masks = {"liver_lesion": lesion | longer}
    text = "What is the longest axial diameter of the largest liver lesion in cm?"
    # 3 % of the stated value and at least 0.1 cm are allowed
    for stated, status in (("3.0", "agrees"), ("3.1", "differs"), ("2.8", "agrees")):
        made = said("largest lesion diameter", masks, text, stated, organ="liver")
        yield made, ("2.9 cm", status, False)
    yield others("largest lesion diameter", masks, text, organ="liver"), {
        "radgpt_whole_mm": "2.9 cm", "3d": "2.9 cm",
    }  # fmt: skip
    deep = {"liver_lesion": box(s(0, 30), 5, s(5, 15))}
    # in plane 10 mm; in 3-D √(10² + 29²) = 30.7 or √(9² + 30²) = 31.3
    yield concluded("largest lesion diameter", deep, text, organ="liver"), "1.0 cm"
    yield others("largest lesion diameter", deep, text, organ="liver")["3d"], "3.1 cm"
    in_3d = "What is the 3D diameter of the largest liver lesion?"
    yield concluded("largest lesion diameter", deep, in_3d, organ="liver"), "3.1 cm"
    coarse = grid((40, 40, 40), (1.0, 1.0, 0.93))
    # 29 × 0.93 = 26.97 mm: cut to 26
    cut = {"liver_lesion": box(s(0, 3), 5, s(5, 34), coarse)}
    yield concluded("largest lesion diameter", cut, text, on=coarse, organ="liver"), "2.7 cm"
    found = others("largest lesion diameter", cut, text, on=coarse, organ="liver")
    yield found["radgpt_whole_mm"], "2.6 cm"
    wide = grid((40, 40, 40), (1.0, 1.0, 4.0))  # 116 mm: 3 % are 0.35 cm
    wider = {"liver_lesion": box(s(0, 3), 5, s(5, 34), wide)}
    for stated, status in (("11.9", "agrees"), ("12.0", "differs")):
        made = said("largest lesion diameter", wider, text, stated, on=wide, organ="liver")
        yield made[1], status
    yield (
        steps("largest lesion diameter", masks, text, organ="liver"),
        ["segment voxels liver_lesion", "measure largest_lesion_diameter_cm liver_lesion"],
    )


@probe("largest lesion location")
def _location():
    lesion = box(1, 1, s(29, 39))  # 1 voxel in 6 (a tenth), 5 in 7, 4 in 8
    masks = segments(liver_lesion=lesion | box(20, 20, 1))
    text = "Where is the largest liver lesion?"
    options = "segment 6|segment 7|segment 7/8|1"
    more = {"organ": "liver", "options": options}
    made = said("largest lesion location", masks, text, "segment 7, 8", **more)
    yield made, ("liver segment 7, liver segment 8", "agrees", False)
    yield said("largest lesion location", masks, text, "segment 7", **more)[1], "differs"
    yield (
        others("largest lesion location", masks, text, organ="liver", options=options),
        {
            "most": "liver segment 7",
            "any": "liver segment 6, liver segment 7, liver segment 8",
        },
    )
    yield agent("largest lesion location", masks, options, text=text, organ="liver"), "C"
    pancreas = {
        "pancreas": box(s(0, 9), 1, 1),
        "pancreas_head": box(s(0, 3), 1, 1),
        "pancreas_body": box(s(3, 6), 1, 1),
        "pancreas_tail": box(s(6, 9), 1, 1),
        "pancreatic_lesion": box(s(7, 12), 1, 1),
    }
    place = concluded("largest lesion location", pancreas, "?", organ="pancreas")
    yield place, "tail of the pancreas"
    told = said("largest lesion location", pancreas, "?", "tail", organ="pancreas")
    yield told[1], "agrees"
    found = steps("largest lesion location", masks, text, organ="liver")
    yield found[0], "segment voxels largest liver_lesion"
    yield found[1:9], [f"segment voxels liver_segment_{n}" for n in range(1, 9)]
    yield found[9:], ["segment parts largest liver_lesion"]


@probe("largest lesion slice")
def _slice():
    # widest (7 mm) on display slice 12; most voxels (9) on 14; 40 slices: RAS 27 and 25
    widest = box(12, 10, s(10, 17)) | box(13, 10, s(10, 13)) | box(14, s(9, 12), s(10, 13))
    masks = {"liver_lesion": widest | box(30, 30, s(2, 14))}
    text = "On which slice is the largest liver lesion widest?"
    for stated, status in (("28", "agrees"), ("29", "differs"), ("26", "agrees")):
        made = said("largest lesion slice", masks, text, stated, organ="liver")
        yield made, ("27", status, True)
    found = others("largest lesion slice", masks, text, organ="liver")
    # the grid's file runs from superior to inferior: its index is the display's
    yield found, {"percent": "69 %", "from_1": "28", "file_index": "12", "largest_area": "25"}
    percent = "At what percentage of the z extent is the largest liver lesion widest?"
    yield concluded("largest lesion slice", masks, percent, organ="liver"), "69 %"
    yield (
        steps("largest lesion slice", masks, text, organ="liver"),
        ["segment voxels liver_lesion", "segment widest_slice_ras largest liver_lesion"],
    )
    far = said("largest lesion slice", {"liver_lesion": box(0, 1, s(1, 9))}, text, "40",
               organ="liver")  # fmt: skip
    yield far[1], "agrees"  # 39 and 40


@probe("lesion count by location")
def _count_in():
    both = box(1, 1, s(32, 37))  # 60 % in 7, 40 % in 8
    edge = box(5, 5, s(25, 35))  # half in 6, half in 7
    rim = box(7, 7, s(29, 39))  # a tenth in 6, half in 7, 40 % in 8
    masks = segments(liver_lesion=both | edge | rim | box(9, 9, 38))
    text = "How many liver lesions lie in segment 7?"
    for stated, status in (("3", "agrees"), ("4", "differs"), ("2", "differs")):
        made = said("lesion count by location", masks, text, stated, organ="liver")
        yield (
            made[0:2] if status == "agrees" else made[1],
            (("3 lesions", status) if status == "agrees" else status),
        )
    yield said("lesion count by location", masks, text, organ="liver")[2], True
    six = "How many liver lesions are in segment 6?"
    yield concluded("lesion count by location", masks, six, organ="liver"), "1 lesion"
    found = others("lesion count by location", masks, six, organ="liver")
    yield found, {"most": "1 lesion", "any": "2 lesions"}
    eight = "How many liver lesions are in segment 8?"
    yield concluded("lesion count by location", masks, eight, organ="liver"), "3 lesions"
    yield others("lesion count by location", masks, eight, organ="liver")["most"], "1 lesion"
    together = "How many liver lesions lie in segments 6 and 8?"  # each counts once
    yield concluded("lesion count by location", masks, together, organ="liver"), "4 lesions"
    lobe = "How many liver lesions are in the left lobe?"
    yield concluded("lesion count by location", masks, lobe, organ="liver"), "0 lesions"
    yield (
        steps("lesion count by location", masks, text, organ="liver"),
        [
            "segment voxels liver_lesion",
            "segment voxels liver_segment_7",
            "measure lesion_count liver_lesion in liver_segment_7",
        ],
    )
    yield (
        why("lesion count by location", masks, "How many in it?", organ="liver")[0],
        "cannot_check",
    )
    many = segments(liver_lesion=none())
    many["liver_lesion"][::2, ::2, 31] = True  # 400 lesions of one voxel in segment 7
    yield said("lesion count by location", many, text, "401", organ="liver")[1], "differs"


@probe("lesion outlier")
def _outlier():
    text = "Is the largest liver lesion an outlier in size?"
    two, one = box(10, 10, s(0, 2)), box(20, 20, 20)
    for voxels, label in ((5, "No"), (6, "Yes"), (7, "Yes")):  # 2.5, 3 and 3.5 times the second
        masks = {"liver_lesion": box(0, 0, s(0, voxels)) | two | one}
        made = said("lesion outlier", masks, text, label, organ="liver")
        yield made, (label, "agrees", False)
    pair = {"liver_lesion": box(0, 0, s(0, 9)) | two}  # two lesions are too few
    yield concluded("lesion outlier", pair, text, organ="liver"), "No"
    masks = {"liver_lesion": box(0, 0, s(0, 7)) | two | one}
    yield (
        steps("lesion outlier", masks, text, organ="liver"),
        [
            "segment voxels liver_lesion",
            "measure lesion_count liver_lesion",
            "measure largest_lesion_volume_cm3 liver_lesion",
            "measure volume_cm3 second largest liver_lesion",
        ],
    )
    value = chain("lesion outlier", masks, text, organ="liver").steps[2].value
    yield round(value, 6), 0.007
    at = chain("lesion outlier", {"liver_lesion": box(0, 0, s(0, 6)) | two | one}, text,
               organ="liver")  # fmt: skip
    yield at.conclusion, "Yes"


@probe("liver lesion clustering")
def _clustering():
    text = "How are the liver lesions distributed?"

    def spread(**per_segment):
        lesions = none()
        for name, count in per_segment.items():
            x = 5 * (int(name[1:]) - 1) + 2
            for n in range(count):
                lesions[2 * n, 2, x] = True
        return segments(liver_lesion=lesions)

    for counts, label in (
        ({"s7": 3, "s2": 2}, "highly clustered"),  # 3 of 5: over half
        ({"s7": 2, "s2": 1, "s3": 1}, "somewhat clustered"),  # half is not over half; 3 of 4
        ({"s7": 2, "s2": 1, "s3": 1, "s5": 1}, "widely distributed"),  # 3 of 5 in two
    ):
        made = said("liver lesion clustering", spread(**counts), text, label, organ="liver")
        yield made, (label, "agrees", True)
    # by volume: one lesion of 30 voxels in segment 7 beside three single ones
    big = spread(s1=1, s2=1, s3=1)
    big["liver_lesion"] |= box(s(0, 30), 20, 32)
    yield concluded("liver lesion clustering", big, text), "widely distributed"
    yield others("liver lesion clustering", big, text), {"by_volume": "highly clustered"}
    said_so = "How are the liver lesions distributed by volume?"
    yield rule_of("liver lesion clustering", big, said_so), "by_volume"
    # half of the volume in one segment, all of it in two
    halves = spread(s1=4, s2=4)
    yield concluded("liver lesion clustering", halves, said_so), "somewhat clustered"
    thirds = spread(s1=4, s2=4, s3=4)
    yield concluded("liver lesion clustering", thirds, said_so), "widely distributed"
    found = steps("liver lesion clustering", big, text)
    yield found[0], "segment voxels liver_lesion"
    yield found[1:9], [f"segment voxels liver_segment_{n}" for n in range(1, 9)]
    yield (
        found[9:],
        [
            "measure lesion_count liver_lesion",
            "measure lesions_in_fullest_part liver_lesion",
            "measure lesions_in_fullest_two_parts liver_lesion",
        ],
    )
    yield why("liver lesion clustering", spread(), text)[0], "cannot_check"
    yield why("liver lesion clustering", big, "of the kidney lesions?")[0], "cannot_check"


@probe("multi-organ lesion burden comparison")
def _burdens():
    liver, pancreas = organ(200), box(s(0, 2), s(0, 10), s(0, 10), BIG)  # 200 and 20 cm³
    lesions = box(10, 10, s(10, 20), BIG)  # 1.0 cm³ in one
    several = none(BIG)
    several[20, 20, 10:30:2] = True  # ten of 0.1 cm³, less one: 0.9
    several[20, 20, 28] = False
    masks = {"liver": liver, "pancreas": pancreas}
    masks |= {"liver_lesion": lesions, "pancreatic_lesion": several}
    text = "Which organ has the larger total lesion volume, the liver or the pancreas?"
    name = "multi-organ lesion burden comparison"
    made = said(name, masks, text, "liver", on=BIG, organ="liver")
    yield made, ("liver", "agrees", True)
    yield others(name, masks, text, on=BIG), {"by_count": "pancreas", "by_percentage": "pancreas"}
    even = {**masks, "pancreatic_lesion": box(20, 20, s(10, 20), BIG)}
    yield concluded(name, even, text, on=BIG), "the same"
    less = {**masks, "pancreatic_lesion": box(20, 20, s(10, 19), BIG)}
    yield concluded(name, less, text, on=BIG), "liver"
    yield others(name, less, text, on=BIG)["by_count"], "the same"
    for asked, rule in (
        ("Which of liver and pancreas has more lesions?", "by_count"),
        ("Which of liver and pancreas has the larger percentage of lesion?", "by_percentage"),
    ):
        yield (rule_of(name, masks, asked, on=BIG), concluded(name, masks, asked, on=BIG)), (
            rule, "pancreas",
        )  # fmt: skip
    # shares 0.5 and 0.5 %: equal at one decimal
    shares = {**masks, "pancreatic_lesion": box(20, 20, 10, BIG)}
    percent = "Which of liver and pancreas has the larger percentage of lesion?"
    yield concluded(name, shares, percent, on=BIG), "the same"
    shares["pancreatic_lesion"] = box(20, 20, s(10, 12), BIG)  # 1 %
    yield concluded(name, shares, percent, on=BIG), "pancreas"
    options = "the pancreas|the liver|both the same"
    yield agent(name, masks, options, text=text, on=BIG, organ="liver"), "B"
    yield (
        steps(name, masks, text, on=BIG),
        [
            "segment voxels liver_lesion",
            "measure volume_cm3 liver_lesion",
            "segment voxels pancreatic_lesion",
            "measure volume_cm3 pancreatic_lesion",
        ],
    )
    smaller = "Which of liver and pancreas has the smaller lesion volume?"
    yield concluded(name, masks, smaller, on=BIG), "pancreas"


@probe("organ aggregation")
def _aggregation():
    liver, spleen = organ(100), box(s(20, 30), s(20, 30), s(20, 30), BIG)  # 100 cm³ each
    spleen = spleen & ~box(20, 20, s(20, 30), BIG)  # 99.0
    masks = {"liver": liver, "spleen": spleen, "liver_lesion": none(BIG)}
    ct = hu(BIG, a=(liver, 60), b=(spleen, 50))
    text = "What is the combined volume of the liver and the spleen?"
    name = "organ aggregation"
    for stated, status in (("201.0", "agrees"), ("201.1", "differs"), ("197.1", "agrees")):
        made = said(name, masks, text, stated, on=BIG, ct=ct, organ="liver")
        yield made, ("199.0 cm³", status, True)
    yield others(name, masks, text, on=BIG, ct=ct), {
        "difference_of_volumes": "1.0 cm³", "mean_hu": "55.0 HU",
    }  # fmt: skip
    differ = "What is the difference in volume between the spleen and the liver?"
    for stated, status in (("1.1", "agrees"), ("1.2", "differs")):
        yield said(name, masks, differ, stated, on=BIG, ct=ct)[:2], ("1.0 cm³", status)
    mean = "What is the mean HU of the liver and the spleen?"
    yield concluded(name, masks, mean, on=BIG, ct=ct), "55.0 HU"
    kidneys = {"kidney_left": organ(30), "kidney_right": organ(20)}
    yield concluded(name, kidneys, "Total kidney volume?", on=BIG, organ="kidney"), "50.0 cm³"
    yield (
        steps(name, kidneys, "Total kidney volume?", on=BIG, organ="kidney"),
        [
            "segment voxels kidney_left",
            "measure volume_cm3 kidney_left",
            "segment voxels kidney_right",
            "measure volume_cm3 kidney_right",
        ],
    )


@probe("organ enlargement")
def _enlargement():
    name = "organ enlargement"
    limits = {
        "liver": (1800.0, 3000.0),
        "spleen": (314.5, 314.5),
        "pancreas": (100.0, 83.0),
        "left kidney": (260.0, 207.6),
        "right kidney": (260.0, 207.6),
    }
    for words, (ours, radgpt) in limits.items():
        structure = "_".join(reversed(words.split(" ")))
        for limit, which in ((ours, "knowledge_base"), (radgpt, "radgpt")):
            for step, label in ((-0.1, "No"), (0.0, "No"), (0.1, "Yes")):
                masks = {structure: organ(round(limit + step, 1))}
                made = chain(name, masks, f"Is the {words} enlarged?", label, on=BIG)
                given = {made.rule: made.conclusion}
                given |= {rule.name: rule.conclusion for rule in made.other_rules}
                yield given[which], label
    both = {"kidney_left": organ(260.0), "kidney_right": box(39, 39, s(0, 3), BIG)}
    for left, default, radgpt in ((520.0, "Yes", "Yes"), (415.0, "No", "Yes"), (414.9, "No", "No")):
        both["kidney_left"] = organ(left)
        made = chain(name, both, "Are the kidneys enlarged?", on=BIG, organ="kidney")
        yield (made.conclusion, made.other_rules[0].conclusion), (default, radgpt)
    for left, default in ((519.7, "No"), (519.8, "Yes")):
        both["kidney_left"] = organ(left)
        yield concluded(name, both, "Are the kidneys enlarged?", on=BIG, organ="kidney"), default
    made = said(name, {"spleen": organ(314.5)}, "Is the spleen enlarged?", "No", on=BIG)
    yield made, ("No", "agrees", True)
    # rounding to 0.1 cm³ comes first: 100.04 is 100.0
    tenth = grid((40, 40, 40), (4.0, 5.0, 2.5))  # 0.05 cm³
    masks = {"pancreas": cm3_box(100.05, tenth)}
    yield concluded(name, masks, "Is the pancreas enlarged?", on=tenth), "No"
    size = chain(name, {"liver": organ(100)}, "Is the liver enlarged?", on=BIG)
    yield round(size.steps[1].value, 6), 100.0
    yield steps(name, {"liver": organ(9)}, "Is the liver enlarged?", on=BIG), [
        "segment voxels liver", "measure volume_cm3 liver",
    ]  # fmt: skip
    yield why(name, {"aorta": organ(9)}, "Is the aorta enlarged?", on=BIG)[0], "cannot_check"


@probe("tumor organ HU difference")
def _hu_difference():
    name = "tumor organ HU difference"
    organ_, lesion, small = box(s(0, 10), 1, 1), box(s(0, 3), 1, 1), box(9, 1, 1)
    masks = {"pancreas": organ_, "pancreatic_lesion": lesion | small}
    ct = hu(a=(organ_, 80), b=(lesion, 50), c=(small, 10))  # lesions: (150 + 10) / 4 = 40
    text = "What is the HU difference between pancreatic lesion and pancreas?"
    for stated, status in (("-41.0", "agrees"), ("-41.1", "differs"), ("-39.0", "agrees")):
        made = said(name, masks, text, stated, ct=ct, organ="pancreas")
        yield made, ("-40.0 HU", status, True)
    yield others(name, masks, text, ct=ct, organ="pancreas"), {
        "organ_minus_lesion": "40.0 HU", "absolute": "40.0 HU",
    }  # fmt: skip
    darker = "How much darker is the pancreatic lesion than the pancreas?"
    made = chain(name, masks, darker, ct=ct, organ="pancreas")
    yield (made.rule, made.conclusion), ("organ_minus_lesion", "40.0 HU")
    absolute = "What is the absolute HU difference of pancreatic lesion and pancreas?"
    yield concluded(name, masks, absolute, ct=ct, organ="pancreas"), "40.0 HU"
    largest = "What is the HU difference between the largest pancreatic lesion and the pancreas?"
    yield concluded(name, masks, largest, ct=ct, organ="pancreas"), "-30.0 HU"
    wide = hu(a=(organ_, 180), b=(lesion | small, 80))  # 2 % of 100 HU
    for stated, status in (("-102.0", "agrees"), ("-102.1", "differs")):
        yield said(name, masks, text, stated, ct=wide, organ="pancreas")[1], status
    bright = hu(a=(organ_, 40), b=(lesion | small, 80))
    yield others(name, masks, text, ct=bright, organ="pancreas")["absolute"], "40.0 HU"
    yield concluded(name, masks, text, ct=bright, organ="pancreas"), "40.0 HU"
    yield (
        steps(name, masks, text, ct=ct, organ="pancreas"),
        [
            "segment voxels pancreatic_lesion",
            "measure mean_hu pancreatic_lesion",
            "segment voxels pancreas",
            "measure mean_hu pancreas",
        ],
    )
    yield (
        steps(name, masks, largest, ct=ct, organ="pancreas")[:2],
        [
            "segment voxels largest pancreatic_lesion",
            "measure mean_hu largest pancreatic_lesion",
        ],
    )


# --------------------------------------------------------------------------- medical reasoning


@probe("PDAC vs PNET classification")
def _pdac():
    name = "PDAC vs PNET classification"
    text = "Is the pancreatic lesion a PDAC or a PNET?"
    one, two = box(1, 1, 1), box(9, 9, s(1, 3))
    for pdac, pnet, label in ((one, none(), "PDAC"), (none(), one, "PNET"), (one, two, "PNET")):
        masks = {"pancreatic_pdac": pdac, "pancreatic_pnet": pnet}
        made = said(name, masks, text, label, organ="pancreas")
        yield made, (label, "agrees", True)
    alone = chain(name, {"pancreatic_pnet": one}, text, "PNET")
    yield (alone.status.value, alone.conclusion), ("agrees", "PNET")
    for masks in ({}, {"pancreatic_pdac": none(), "pancreatic_pnet": none()},
                  {"pancreatic_pnet": none()}):  # fmt: skip
        yield why(name, masks, text)[0], "cannot_check"
    pancreas = box(s(0, 5), 1, 1)
    masks = {"pancreatic_lesion": two, "pancreatic_pdac": none(), "pancreatic_pnet": two}
    masks["pancreas"] = pancreas
    for value, label in ((79.9, "PDAC"), (80.0, "PNET"), (80.1, "PNET")):
        ct = hu(a=(pancreas, 80), b=(two, value))
        yield others(name, masks, text, ct=ct), {"attenuation": label}
    yield (
        steps(name, masks, text),
        [
            "lookup PDAC or PNET",
            "segment voxels pancreatic_pdac",
            "segment voxels pancreatic_pnet",
            "measure volume_cm3 pancreatic_pdac",
            "measure volume_cm3 pancreatic_pnet",
        ],
    )
    yield why(name, masks, "of the liver lesion?")[0], "cannot_check"
    yield agent(name, masks, "PNET|PDAC", text=text), "A"
    yield agent(name, masks, "", FREE, text=text), "PNET"


@probe("fatty liver")
def _fatty_liver():
    name = "fatty liver"
    liver, spleen = box(s(0, 9), 1, 1), box(s(0, 9), 5, 5)
    masks = {"liver": liver, "spleen": spleen, "liver_lesion": none()}
    for value, label, radgpt in (
        (39.9, "Yes", "Yes"), (40.0, "Yes", "Yes"), (40.1, "Yes", "No"), (49.8, "Yes", "No"),
        (50.0, "No", "No"), (50.1, "No", "No"),
    ):  # fmt: skip
        ct = hu(a=(liver, value), b=(spleen, 50))
        made = chain(name, masks, "Is there fatty liver?", label, ct=ct)
        yield (made.conclusion, made.status.value), (label, "agrees")
        yield {r.name: r.conclusion for r in made.other_rules}, {"radgpt": radgpt}
    ct = hu(a=(liver, 30), b=(spleen, 50))
    yield said(name, masks, "?", "Yes", ct=ct), ("Yes", "agrees", False)
    last = chain(name, masks, "?", ct=ct).steps[-1]
    yield any("plain CT" in caveat for caveat in last.caveats), True
    yield (
        steps(name, masks, "?", ct=ct),
        [
            "lookup fatty liver",
            "segment voxels liver",
            "measure mean_hu liver",
            "segment voxels spleen",
            "measure mean_hu spleen",
        ],
    )
    yield why(name, masks, "Is the kidney fatty?", ct=ct)[0], "cannot_check"
    yield agent(name, masks, "No|Yes", ct=ct), "B"


@probe("hepatic steatosis grading")
def _steatosis():
    name = "hepatic steatosis grading"
    liver, spleen = box(s(0, 9), 1, 1), box(s(0, 9), 5, 5)
    masks = {"liver": liver, "spleen": spleen, "liver_lesion": none()}
    for value, by_hu in (
        (58.0, "G0"), (57.9, "G1"), (51.0, "G1"), (50.9, "G2"), (39.0, "G2"), (38.9, "G3"),
    ):  # fmt: skip
        ct = hu(a=(liver, value), b=(spleen, value))  # the ratio is 1: G0
        made = chain(name, masks, "?", by_hu, ct=ct)
        yield (made.conclusion, made.status.value), (by_hu, "agrees")
        yield {r.name: r.conclusion for r in made.other_rules}, {"by_hu": by_hu, "by_ratio": "G0"}
    for value, by_ratio in (
        (100, "G0"),
        (99, "G1"),
        (80, "G1"),
        (79, "G2"),
        (50, "G2"),
        (49, "G3"),
    ):
        ct = hu(a=(liver, value * 2), b=(spleen, 200))  # 98 HU and more: G0 by HU
        made = chain(name, masks, "?", by_ratio, ct=ct)
        yield (made.conclusion, made.status.value), (by_ratio, "agrees")
        found = {r.name: r.conclusion for r in made.other_rules}
        yield found, {"by_hu": "G0", "by_ratio": by_ratio}
    ct = hu(a=(liver, 60), b=(spleen, 50))
    yield said(name, masks, "?", "G0", ct=ct), ("G0", "agrees", True)
    shown = chain(name, masks, "?", ct=hu(a=(liver, 50.96), b=(spleen, 50))).conclusion
    yield shown, "G1"  # 50.96 is 51.0 at one decimal
    yield (
        steps(name, masks, "?", ct=ct),
        [
            "lookup hepatic steatosis grade",
            "segment voxels liver",
            "measure mean_hu liver",
            "segment voxels spleen",
            "measure mean_hu spleen",
        ],
    )
    last = chain(name, masks, "?", ct=ct).steps[-1]
    yield any("plain CT" in caveat for caveat in last.caveats), True
    yield why(name, masks, "of the pancreas?", ct=ct)[0], "cannot_check"
    yield agent(name, masks, "G3|G1|G0|G2", ct=ct), "C"


@probe("lesion type classification")
def _lesion_type():
    name = "lesion type classification"
    text = "Identify whether the largest kidney lesion is a cyst or tumor."
    largest, small = box(1, 1, s(1, 4)), box(9, 9, 9)
    masks = {"kidney_lesion": largest | small, "kidney_cyst": largest, "kidney_tumor": small}
    for value, label in ((34.7, "Cyst"), (34.8, "Cyst"), (34.9, "Tumor")):
        ct = hu(a=(largest, value), b=(small, 500))
        made = chain(name, masks, text, label, ct=ct, organ="kidney")
        yield (made.conclusion, made.status.value), (label, "agrees")
        yield {r.name: r.conclusion for r in made.other_rules}, {"mask": "Cyst"}
    ct = hu(a=(largest, 34.84), b=(small, 500))  # rounded first
    yield concluded(name, masks, text, ct=ct, organ="kidney"), "Cyst"
    yield said(name, masks, text, "Cyst", ct=hu(), organ="kidney"), ("Cyst", "agrees", True)
    swapped = {**masks, "kidney_cyst": small, "kidney_tumor": largest}
    yield others(name, swapped, text, ct=hu(), organ="kidney"), {"mask": "Tumor"}
    yield (
        steps(name, masks, text, ct=ct, organ="kidney"),
        [
            "lookup kidney lesion type",
            "segment voxels largest kidney_lesion",
            "measure mean_hu largest kidney_lesion",
        ],
    )
    yield agent(name, masks, "Tumor|Cyst", ct=ct, text=text, organ="kidney"), "B"


@probe("pancreatic cyst resectability")
def _cyst_resection():
    name = "pancreatic cyst resectability"
    text = "Should resection of the largest pancreatic cyst be considered?"
    tenth = grid((40, 40, 40), (4.0, 5.0, 5.0))
    for voxels, label in ((29, "No"), (30, "No"), (31, "Yes")):  # of 0.1 cm³, all in a column
        masks = {"pancreatic_cyst": box(s(0, voxels), 1, 1, tenth)}
        made = chain(name, masks, text, label, on=tenth)
        yield (made.conclusion, made.status.value), (label, "agrees")
        found = {r.name: r.conclusion for r in made.other_rules}
        yield found, {"volume_alone": label, "diameter_alone": "No"}
    for voxels, label in ((29, "No"), (30, "No"), (31, "Yes")):  # a row of 29 to 31 mm
        masks = {"pancreatic_cyst": box(1, 1, s(2, 2 + voxels))}
        made = chain(name, masks, text, label)
        yield (made.conclusion, made.status.value), (label, "agrees")
        found = {r.name: r.conclusion for r in made.other_rules}
        yield found, {"volume_alone": "No", "diameter_alone": label}
    masks = {"pancreatic_cyst": box(s(0, 35), 1, 1, tenth)}
    yield said(name, masks, text, "Yes", on=tenth), ("Yes", "agrees", False)
    two = {"pancreatic_cyst": box(s(0, 20), 1, 1, tenth) | box(s(0, 20), 9, 9, tenth)}
    yield concluded(name, two, text, on=tenth), "No"  # 2.0 and 2.0: the largest counts
    fine = grid((40, 40, 40), (4.0, 5.0, 4.0))  # 38 voxels of 0.08 cm³: 3.04 is 3.0 at one decimal
    yield concluded(name, {"pancreatic_cyst": box(s(0, 38), 1, 1, fine)}, text, on=fine), "No"
    yield (
        steps(name, masks, text, on=tenth),
        [
            "lookup pancreatic cyst resection",
            "segment voxels pancreatic_cyst",
            "measure largest_lesion_volume_cm3 pancreatic_cyst",
            "measure largest_lesion_diameter_cm pancreatic_cyst",
        ],
    )
    yield steps(name, two, text, on=tenth)[1], "segment voxels largest pancreatic_cyst"
    yield why(name, masks, "of the largest liver cyst?", on=tenth)[0], "cannot_check"
    yield agent(name, masks, "No|Yes", on=tenth), "B"


def vessels(**arrays):
    """A pancreas with its vessels far from a lesion at the middle, but for those given."""
    found = {
        "superior_mesenteric_artery": box(s(0, 40), s(0, 2), s(0, 2)),
        "celiac_trunk": box(s(0, 40), s(38, 40), s(0, 2)),
        "portal_vein_and_splenic_vein": box(s(0, 40), s(38, 40), s(38, 40)),
        "postcava": box(s(0, 40), s(0, 2), s(38, 40)),
        "pancreatic_lesion": box(s(18, 22), s(18, 22), s(18, 22)),
        "pancreas_head": box(s(10, 30), s(10, 30), s(10, 30)),
        "pancreas_body": box(s(30, 34), s(10, 30), s(10, 30)),
        "pancreas_tail": box(s(34, 38), s(10, 30), s(10, 30)),
    }
    return {**found, **arrays}


def rod(y=20.0, x=20.0, radius=4.0):
    """A vessel along z."""
    at_y, at_x = np.ogrid[:40, :40]
    return np.broadcast_to((at_y - y) ** 2 + (at_x - x) ** 2 <= radius**2, (40, 40, 40)).copy()


def sleeve(fraction, y=20.0, x=20.0, radius=4.0):
    """A tumour that lies around a rod over a part of its circumference, centred on one side."""
    at_y, at_x = np.ogrid[:40, :40]
    angle = np.degrees(np.arctan2(at_y - y, at_x - x)) % 360
    apart = np.hypot(at_y - y, at_x - x)
    # contact reaches 4 mm: a sleeve that begins 3 mm outside touches what lies behind it
    around = (apart > radius + 2.5) & (apart < radius + 7) & (angle < 360 * fraction)
    return np.broadcast_to(around, (40, 40, 40)) & box(s(15, 25), s(0, 40), s(0, 40))


@probe("pancreatic lesion resectability")
def _resectable():
    name = "pancreatic lesion resectability"
    text = "Assess the resectability of the pancreatic lesion."
    free = said(name, vessels(), text, "Resectable", organ="pancreas")
    yield free, ("Resectable", "agrees", True)
    yield others(name, vessels(), text, organ="pancreas"), {"radgpt": "Resectable"}
    for fraction, label in ((0.25, "Borderline resectable"), (0.75, "Unresectable")):
        for artery in ("superior_mesenteric_artery", "celiac_trunk"):
            masks = vessels(**{artery: rod(), "pancreatic_lesion": sleeve(fraction)})
            yield concluded(name, masks, text, organ="pancreas"), label
    touched = sleeve(0.25)
    sma = vessels(superior_mesenteric_artery=rod(), pancreatic_lesion=touched)
    celiac = vessels(celiac_trunk=rod(), pancreatic_lesion=touched)
    portal = vessels(portal_vein_and_splenic_vein=rod(), pancreatic_lesion=touched)
    cava = vessels(postcava=rod(), pancreatic_lesion=touched)
    # RadGPT: of the head, contact with celiac trunk is unresectable, portal alone no statement
    for masks, default, radgpt in (
        (sma, "Borderline resectable", "Borderline resectable"),
        (celiac, "Borderline resectable", "Unresectable"),
        (portal, "Borderline resectable", ""),
        (cava, "Resectable", "Resectable"),
    ):
        made = chain(name, masks, text, organ="pancreas")
        yield (made.conclusion, made.other_rules[0].conclusion), (default, radgpt)
    read = said(name, sma, text, "Borderline resectable", organ="pancreas")
    yield read[:2], ("Borderline resectable", "agrees")
    around = vessels(celiac_trunk=rod(), pancreatic_lesion=sleeve(0.75))
    yield said(name, around, text, "Unresectable", organ="pancreas")[:2], ("Unresectable", "agrees")
    sma_and_cava = {**sma, "postcava": sma["superior_mesenteric_artery"]}
    yield others(name, sma_and_cava, text, organ="pancreas"), {"radgpt": "Unresectable"}
    whole = {**celiac, "pancreas_head": celiac["pancreas_tail"]}
    whole["pancreas_tail"] = celiac["pancreas_head"]
    yield others(name, whole, text, organ="pancreas"), {"radgpt": ""}
    wrapped = vessels(portal_vein_and_splenic_vein=rod(), pancreatic_lesion=sleeve(0.9))
    yield concluded(name, wrapped, text, organ="pancreas"), "Borderline resectable"
    without = {k: v for k, v in vessels().items() if k != "postcava"}
    yield concluded(name, without, text, organ="pancreas"), "Resectable"
    lacking = {k: v for k, v in vessels().items() if k != "celiac_trunk"}
    yield why(name, lacking, text, organ="pancreas")[0], "cannot_check"
    listed = ("superior_mesenteric_artery", "celiac_trunk", "portal_vein_and_splenic_vein",
              "postcava")  # fmt: skip
    yield (
        steps(name, vessels(), text, organ="pancreas"),
        [
            "lookup resectability",
            "segment voxels pancreatic_lesion",
            *(f"segment voxels {vessel}" for vessel in listed),
            *(
                f"measure contact_angle_deg {vessel} with largest pancreatic_lesion"
                for vessel in listed
            ),
        ],
    )
    options = "Borderline|Unresectable|Resectable"
    yield agent(name, vessels(), options, text=text, organ="pancreas"), "C"


@probe("pancreatic steatosis")
def _fatty_pancreas():
    name = "pancreatic steatosis"
    pancreas, spleen = box(s(0, 9), 1, 1), box(s(0, 9), 5, 5)
    masks = {"pancreas": pancreas, "spleen": spleen, "pancreatic_lesion": none()}
    for value, label, radgpt in ((69.9, "Yes", "Yes"), (70, "No", "Yes"), (70.1, "No", "No")):
        ct = hu(a=(pancreas, value), b=(spleen, 100))
        made = chain(name, masks, "?", label, ct=ct)
        yield (made.conclusion, made.status.value), (label, "agrees")
        yield {r.name: r.conclusion for r in made.other_rules}, {"radgpt": radgpt}
    ct = hu(a=(pancreas, 30), b=(spleen, 100))
    yield said(name, masks, "?", "Yes", ct=ct), ("Yes", "agrees", False)
    last = chain(name, masks, "?", ct=ct).steps[-1]
    yield any("plain CT" in caveat for caveat in last.caveats), True
    yield (
        steps(name, masks, "?", ct=ct),
        [
            "lookup pancreatic steatosis",
            "segment voxels pancreas",
            "measure mean_hu pancreas",
            "segment voxels spleen",
            "measure mean_hu spleen",
        ],
    )
    yield why(name, masks, "Is the kidney fatty?", ct=ct)[0], "cannot_check"


@probe("pancreatic tumor staging")
def _stage():
    name = "pancreatic tumor staging"
    text = "How is the pancreatic tumor staged (T1-T4)?"
    far = {k: v for k, v in vessels().items() if k != "pancreatic_lesion"}
    wide = grid((40, 40, 40), (1.0, 1.0, 1.1))
    for on, voxels, label in (
        (MM, 20, "T1"), (MM, 21, "T2"), (wide, 36, "T2"), (wide, 37, "T3"),
    ):  # fmt: skip
        masks = {**far, "pancreatic_lesion": box(20, 20, s(2, 2 + voxels))}
        made = chain(name, masks, text, label, on=on, organ="pancreas")
        yield (made.conclusion, made.status.value), (label, "agrees")
        yield made.other_rules[1].conclusion, label
    at = grid((40, 40, 40), (1.0, 1.0, 4.0))  # exactly 40 mm, and 20
    for voxels, label in ((10, "T2"), (5, "T1")):
        masks = {**far, "pancreatic_lesion": box(20, 20, s(2, 2 + voxels), at)}
        yield concluded(name, masks, text, on=at, organ="pancreas"), label
    for artery in ("superior_mesenteric_artery", "celiac_trunk"):
        for fraction, encased in ((0.25, False), (0.75, True)):
            masks = vessels(**{artery: rod(), "pancreatic_lesion": sleeve(fraction)})
            made = chain(name, masks, text, organ="pancreas")
            found = {r.name: r.conclusion for r in made.other_rules}
            diameter = made.steps[2].value
            by_size = "T1" if diameter <= 2 else "T2" if diameter <= 4 else "T3"
            yield made.conclusion, "T4" if encased else by_size
            yield found, {"any_contact": "T4", "size_alone": by_size}
    small = {**far, "pancreatic_lesion": box(20, 20, s(2, 12))}
    yield said(name, small, text, "T1", organ="pancreas"), ("T1", "agrees", True)
    lesion_only = {"pancreatic_lesion": small["pancreatic_lesion"]}
    without = chain(name, lesion_only, text, organ="pancreas")
    yield without.conclusion, "T1"
    yield any("T4" in caveat for caveat in without.steps[-1].caveats), True
    yield (
        steps(name, small, text, organ="pancreas"),
        [
            "lookup pancreatic T stage",
            "segment voxels pancreatic_lesion",
            "measure largest_lesion_diameter_cm pancreatic_lesion",
            "measure contact_angle_deg superior_mesenteric_artery with largest pancreas_tumor",
            "measure contact_angle_deg celiac_trunk with largest pancreas_tumor",
        ],
    )
    yield agent(name, small, "T2|T1|T3|T4", text=text, organ="pancreas"), "B"
    around = vessels(celiac_trunk=rod(), pancreatic_lesion=sleeve(0.75))
    yield said(name, around, text, "T4", organ="pancreas")[:2], ("T4", "agrees")


@probe("portal hypertension assessment")
def _portal():
    name = "portal hypertension assessment"
    text = "Does the size of the spleen suggest portal hypertension?"
    caudate = box(s(5, 9), s(5, 9), s(0, 13), BIG)
    right = {f"liver_segment_{n}": box(s(5, 9), s(10, 14), s(0, 20), BIG) for n in (5, 6, 7, 8)}
    low = {"liver_segment_1": caudate, **right}  # 13 / 20 = 0.65
    high = {**low, "liver_segment_1": box(s(5, 9), s(5, 9), s(0, 14), BIG)}  # 0.70
    for cm3, label in ((314.4, "No"), (314.5, "No"), (314.6, "Yes")):
        for lobes, above in ((low, False), (high, True)):
            made = chain(name, {"spleen": organ(cm3), **lobes}, text, label, on=BIG)
            yield (made.conclusion, made.status.value), (label, "agrees")
            found = {r.name: r.conclusion for r in made.other_rules}
            large = label == "Yes"
            yield (
                found,
                {
                    "either": "Yes" if large or above else "No",
                    "both": "Yes" if large and above else "No",
                },
            )
    alone = chain(name, {"spleen": organ(400)}, text, "Yes", on=BIG)
    yield (alone.conclusion, alone.status.value), ("Yes", "agrees")
    yield [r.status.value for r in alone.other_rules], ["cannot_check", "cannot_check"]
    yield said(name, {"spleen": organ(400), **low}, text, "Yes", on=BIG)[2], True
    found = steps(name, {"spleen": organ(400), **low}, text, on=BIG)
    yield (
        found,
        [
            "lookup portal hypertension",
            "segment voxels spleen",
            "measure volume_cm3 spleen",
            "segment voxels liver_segment_1",
            found[4],
            "measure caudate_right_lobe_ratio liver_segment_1 with liver_right_lobe",
        ],
    )
    yield found[4], "segment voxels liver_right_lobe"
    yield why(name, {"spleen": organ(400)}, "Is the kidney large?", on=BIG)[0], "cannot_check"
    fine = grid((40, 40, 40), (4.0, 5.0, 2.5))  # 314.55 is above 314.5: two decimals
    yield concluded(name, {"spleen": cm3_box(314.55, fine)}, text, on=fine), "Yes"


@probe("pseudocyst determination")
def _pseudocyst():
    name = "pseudocyst determination"
    largest, small = box(1, 1, s(1, 4)), box(9, 9, 9)
    masks = {"pancreatic_cyst": largest | small}
    text = "Is the largest pancreatic cyst a pseudocyst?"
    for value, label in ((14.4, "No"), (14.5, "No"), (14.54, "No"), (14.6, "Yes")):
        ct = hu(a=(largest, value), b=(small, 500))
        made = chain(name, masks, text, label, ct=ct)
        yield (made.conclusion, made.status.value), (label, "agrees")
    yield said(name, masks, text, "No", ct=hu()), ("No", "agrees", False)
    yield (
        steps(name, masks, text),
        [
            "lookup pseudocyst or mucinous cyst",
            "segment voxels largest pancreatic_cyst",
            "measure mean_hu largest pancreatic_cyst",
        ],
    )
    yield why(name, masks, "Is the liver cyst a pseudocyst?")[0], "cannot_check"


@probe("renal mass characterization")
def _renal_mass():
    name = "renal mass characterization"
    text = "How would you characterize the largest renal mass?"
    largest, small = box(1, 1, s(1, 4)), box(9, 9, 9)
    masks = {"kidney_lesion": largest | small}
    for value, label in (
        (-10.1, "fat-containing mass"), (-10.0, "simple cyst"), (20.0, "simple cyst"),
        (20.1, "indeterminate mass"), (70.0, "indeterminate mass"), (70.1, "hyperattenuating cyst"),
        (20.04, "simple cyst"),
    ):  # fmt: skip
        ct = hu(a=(largest, value), b=(small, 500))
        made = said(name, masks, text, label, ct=ct, organ="kidney")
        yield made, (label, "agrees", True)
    solid = said(name, masks, text, "solid enhancing mass", ct=hu(), organ="kidney")
    yield solid[1], "differs"
    yield (
        steps(name, masks, text, organ="kidney"),
        [
            "lookup renal mass by HU",
            "segment voxels largest kidney_lesion",
            "measure mean_hu largest kidney_lesion",
        ],
    )
    options = "hyperattenuating cyst|simple cyst|indeterminate mass|solid enhancing mass"
    yield agent(name, masks, options, text=text, organ="kidney"), "B"


def failing(subtype: str) -> str:
    """Return the first probe of a subtype that fails, in words; empty where all pass."""
    try:
        for number, (got, expected) in enumerate(
            chain_of(common_probes(subtype), PROBES[subtype]())
        ):
            if got != expected:
                return f"probe {number}: {got} instead of {expected}"
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
