"""Every change of the rule table that matters is caught: a table of mutations against probes.

A probe is a question about a small case with a conclusion argued from the numbers that went in.
Each mutation changes one leaf of the table; at least one probe must then fail.
"""

import copy
import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from evidence_cases import case, cm3_box, grid, question

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import answers, conclusions, rules
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.evidence.chains import reference_chain
from napari_ctvqa.models.rules import MODEL

ON = grid((40, 40, 40), (4.0, 5.0, 5.0))  # voxels of 0.1 cm³
NOTHING = np.zeros(ON.shape_zyx, bool)
TABLE = json.loads(resource_path("rules.json").read_text(encoding="utf-8"))

SCHEMA = {
    row["subtype"]: row
    for row in json.loads(resource_path("deeptumorvqa_subtypes.json").read_text())["subtypes"]
}
"""The benchmark's own schema: it knows nothing of our rules."""

# --------------------------------------------------------------------------------------- probes


@functools.cache
def organ(cm3: float) -> np.ndarray:
    return cm3_box(cm3, ON)


def speck(*where: int) -> np.ndarray:
    array = NOTHING.copy()
    array[where] = True
    return array


def lesions() -> np.ndarray:
    """Three components of 30.0, 0.2 and 0.1 cm³; the second is two voxels joined by a corner."""
    array = NOTHING.copy()
    array[4:10, 4:14, 4:9] = True
    array[20, 20, 20] = array[21, 21, 21] = True
    array[30, 30, 30] = True
    return array


def hu(**values: float) -> np.ndarray:
    array = np.full(ON.shape_zyx, -1000, np.int16)
    for name, value in values.items():
        array[PARTS[name]] = value
    return array


PARTS = {"liver": organ(100.0), "lesion": speck(3, 3, 3)}


def chain(subtype: str, masks: dict, text: str = "?", answer: str = "", ct=None, **more: str):
    asked = question(subtype, text, answer=answer, **more)
    return reference_chain(asked, case(masks, on=ON, hu=ct))


def said(*arguments: Any, **more: Any) -> tuple:
    made = chain(*arguments, **more)
    return made.conclusion, made.status.value, made.steps[-1].assumed


def kinds(subtype: str, masks: dict, **more: str) -> str:
    return " ".join(step.kind.value for step in chain(subtype, masks, **more).steps)


def raw(subtype: str, masks: dict, options: str, answer_format: AnswerFormat, **more: str) -> str:
    asked = question(subtype, more.pop("text", "?"), options=options, **more)
    *_, prediction = MODEL.answer(asked, case(masks, on=ON), answer_format)
    return prediction.raw_text


EXISTENCE = {
    "PDAC existence": "pancreatic_pdac",
    "PNET existence": "pancreatic_pnet",
    "colon lesion existence": "colon_lesion",
    "kidney cyst existence": "kidney_cyst",
    "kidney lesion existence": "kidney_lesion",
    "kidney tumor existence": "kidney_tumor",
    "liver lesion existence": "liver_lesion",
    "pancreatic lesion existence": "pancreatic_lesion",
}
MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM
GRADES = "Normal|Mild|Moderate|Severe"


def probes() -> Iterator[tuple[Any, Any]]:
    """Yield (what comes out, what must come out)."""
    for subtype, structure in EXISTENCE.items():
        yield said(subtype, {structure: speck(3, 3, 3)}, answer="Yes"), ("Yes", "agrees", True)
        yield said(subtype, {structure: NOTHING}, answer="Yes"), ("No", "differs", True)
        yield kinds(subtype, {structure: NOTHING}), "segment conclude"
        yield raw(subtype, {structure: NOTHING}, "Yes|No", MC), "B"
        yield raw(subtype, {structure: NOTHING}, "", FREE), "No"
        yield raw(subtype, {structure: speck(3, 3, 3)}, "", FREE), "Yes"
    for cm3, enlarged, grade, edge in (
        (314.4, "No", "Normal", False),
        (314.5, "No", "Mild", True),
        (314.6, "Yes", "Mild", False),
        (500.0, "Yes", "Mild", None),
        (500.1, "Yes", "Moderate", False),
        (800.0, "Yes", "Moderate", None),
        (800.1, "Yes", "Severe", False),
    ):
        spleen = {"spleen": organ(cm3)}
        detected = said("splenomegaly detection", spleen, answer=enlarged)
        yield detected, (enlarged, "agrees", bool(edge))
        graded = said("splenomegaly grading", spleen, answer=grade)
        yield graded, (grade, "agrees", edge in (True, None))
        yield (
            raw("splenomegaly grading", spleen, GRADES, MC),
            "ABCD"[GRADES.split("|").index(grade)],
        )
        yield raw("splenomegaly grading", spleen, "", FREE), grade
    yield kinds("splenomegaly detection", {"spleen": organ(9)}), "segment measure lookup conclude"
    yield kinds("splenomegaly grading", {"spleen": organ(9)}), "lookup segment measure conclude"
    topics = {
        name: [
            s.target for s in chain(name, {"spleen": organ(9)}).steps if s.kind is StepKind.LOOKUP
        ]
        for name in ("splenomegaly detection", "splenomegaly grading")
    }
    yield (
        topics,
        {
            "splenomegaly detection": ["splenomegaly detection"],
            "splenomegaly grading": ["splenomegaly grade"],
        },
    )
    looked_up = chain("splenomegaly detection", {"spleen": organ(9)})
    yield "Bezerra" in looked_up.steps[-1].source, True
    # 100.0 cm³: 1 % and at least 0.1 cm³ are allowed
    for stated, status in (("101.0", "agrees"), ("98.9", "differs"), ("100.0", "agrees")):
        volume = said(
            "organ volume measurement", {"liver": organ(100)}, organ="liver", answer=stated
        )
        yield volume, ("100.0 cm³", status, False)
    for stated, status in (("1.1", "agrees"), ("1.2", "differs")):
        small = said("organ volume measurement", {"liver": organ(1)}, organ="liver", answer=stated)
        yield small, ("1.0 cm³", status, False)
    pair = {"kidney_left": organ(150), "kidney_right": organ(120)}
    both = said("organ volume measurement", pair, organ="kidney", answer="270")
    yield both, ("270.0 cm³", "agrees", False)
    volume_steps = kinds("organ volume measurement", pair, organ="kidney")
    yield volume_steps, "segment segment measure measure conclude"
    # HU: 1 % and at least 0.5 HU
    ct = hu(liver=50)
    ct[10, 10, 10] = 51  # outside the masks below 100 voxels a slice: keeps the mean at 50
    masks = {"liver": organ(100.0), "liver_lesion": speck(2, 2, 2)}
    ct[2, 2, 2] = 1000
    for stated, status in (("50.5", "agrees"), ("50.6", "differs"), ("49.4", "differs")):
        mean = said("organ HU measurement", masks, organ="liver", answer=stated, ct=ct)
        yield mean, ("50.0 HU", status, False)
    ct_200 = hu(liver=200)
    for stated, status in (("198.1", "agrees"), ("197.9", "differs")):
        mean = said("organ HU measurement", {"liver": organ(100.0), "liver_lesion": NOTHING},
                    organ="liver", answer=stated, ct=ct_200)  # fmt: skip
        yield mean, ("200.0 HU", status, False)
    kidneys = {"kidney_left": organ(30), "kidney_right": speck(30, 30, 30)}
    uneven = np.zeros(ON.shape_zyx, np.int16)
    uneven[30, 30, 30] = 301
    whole = said("organ HU measurement", kidneys, organ="kidney", answer="1.0", ct=uneven)
    yield whole, ("1.0 HU", "agrees", False)  # 301 over 301 voxels, not 0 + 301
    found = {"liver_lesion": lesions()}
    for stated, status in (("3", "agrees"), ("2", "differs"), ("4", "differs")):
        count = said("lesion counting", found, organ="liver", answer=stated)
        yield count, ("3 lesions", status, True)
    yield kinds("lesion counting", found, organ="liver"), "segment measure conclude"
    for stated, status in (("30.9", "agrees"), ("31.0", "differs"), ("29.8", "agrees")):
        burden = said("lesion volume measurement", found, organ="liver", answer=stated)
        yield burden, ("30.3 cm³", status, False)
    for stated, status in (("0.3", "agrees"), ("0.5", "differs")):
        little = {"liver_lesion": speck(3, 3, slice(3, 6))}
        burden = said("lesion volume measurement", little, organ="liver", answer=stated)
        yield burden, ("0.3 cm³", status, False)
    largest = said(
        "lesion volume measurement",
        found,
        "Volume of the largest liver lesion?",
        "30",
        organ="liver",
    )
    yield largest, ("30.0 cm³", "agrees", False)
    for left, right, label in (
        (150.1, 150.0, "left kidney"),
        (150.0, 150.0, "the same"),
        (150.0, 150.1, "right kidney"),
    ):
        masks = {"kidney_left": organ(left), "kidney_right": organ(right)}
        compared = said("kidney volume comparison", masks, answer=label)
        yield compared, (label, "agrees", True)
        options = "right kidney|the same|left kidney"
        letter = "ABC"[options.split("|").index(label)]
        yield raw("kidney volume comparison", masks, options, MC), letter
        yield raw("kidney volume comparison", masks, "", FREE), label
    steps = kinds("kidney volume comparison", pair)
    yield steps, "segment measure segment measure conclude"
    named = said("kidney volume comparison", pair, "Which kidney is bigger?", organ="kidney")
    yield named[0] in ("left kidney", "right kidney"), True
    near = chain(
        "kidney volume comparison", {"kidney_left": organ(144), "kidney_right": organ(150)}
    )
    others = [c for c in near.steps[-1].caveats if "another rule" in c]
    yield [c.rsplit(": ", 1)[1] for c in others], ["the same", "the same"]
    apart = chain(
        "kidney volume comparison", {"kidney_left": organ(140), "kidney_right": organ(150)}
    )
    others = [c for c in apart.steps[-1].caveats if "another rule" in c]
    yield [c.rsplit(": ", 1)[1] for c in others], ["the same"]
    tiny = chain("lesion counting", found, organ="liver")
    others = [c for c in tiny.steps[-1].caveats if "another rule" in c]
    # of 4×5×5 mm voxels each survives an erosion of 3 mm: only sizes below 50 mm³ would not count
    yield others, []
    fine = grid((20, 20, 20), (1.0, 1.0, 1.0))
    small = np.zeros(fine.shape_zyx, bool)
    small[2:5, 2:5, 2:5] = True  # 27 mm³
    small[10, 10, 10] = True
    made = reference_chain(
        question("lesion counting", organ="liver"), case({"liver_lesion": small}, on=fine)
    )
    others = [c.rsplit(": ", 1)[1] for c in made.steps[-1].caveats if "another rule" in c]
    yield others, ["1 lesion", "0 lesions"]
    for text, label in (("mildly enlarged", "mild"), ("massive", "severe")):
        yield answers.label_in(text, rules.rule_for("splenomegaly grading")), label
    for text, label in (("enlarged", "yes"), ("absent", "no"), ("not present", "no")):
        yield answers.label_in(text, rules.rule_for("splenomegaly detection")), label
    for text, label in (("equal", "same"), ("the left one", "left")):
        yield answers.label_in(text, rules.rule_for("kidney volume comparison")), label
    far = {"kidney_left": organ(127.5), "kidney_right": organ(150)}  # 15 % apart
    caveats = chain("kidney volume comparison", far).steps[-1].caveats
    yield [c for c in caveats if "another rule" in c], []
    # rounding comes before the threshold, and is to 0.1 cm³
    detection, grading, kidneys_rule = (
        rules.rule_for(name)
        for name in ("splenomegaly detection", "splenomegaly grading", "kidney volume comparison")
    )
    yield conclusions.conclude(detection, [314.54]).label, "no"
    yield conclusions.conclude(grading, [500.04]).label, "mild"
    yield conclusions.conclude(kidneys_rule, [150.04, 150.0]).label, "same"
    # an organ in two parts is measured whole
    parted = organ(20.0) | speck(30, 30, slice(10, 20))
    yield said("organ volume measurement", {"liver": parted}, organ="liver")[0], "21.0 cm³"
    both_parts = {"kidney_left": parted, "kidney_right": organ(20.5)}
    yield said("kidney volume comparison", both_parts)[0], "left kidney"
    big = organ(314.0) | speck(38, 38, slice(10, 20))
    yield said("splenomegaly detection", {"spleen": big})[0], "Yes"
    yield said("splenomegaly grading", {"spleen": big})[0], "Mild"
    # small values: the absolute tolerance decides
    cold = {"liver": organ(100.0), "liver_lesion": NOTHING}
    ten = said("organ HU measurement", cold, organ="liver", answer="10.4", ct=hu(liver=10))
    yield ten[1], "agrees"
    bit = {"liver_lesion": speck(3, 3, slice(3, 6))}
    yield said("lesion volume measurement", bit, organ="liver", answer="0.4")[1], "agrees"
    many = NOTHING.copy()
    many[2:38:3, 2:38:3, 20] = True  # 144 lesions of one voxel
    yield said("lesion counting", {"liver_lesion": many}, organ="liver", answer="145")[1], "differs"
    for name in PROBED:
        rule, row = rules.rule_for(name), SCHEMA[name]
        primitives = [p.replace("knowledge", "lookup") for p in row["primitives"]]
        yield (rule.answer_type, list(rule.primitives)), (row["answer_type"], primitives)
    for kind in ("kidney_tumor", "kidney_cyst"):
        union = {"kidney_lesion": NOTHING, kind: speck(3, 3, 3)}
        yield said("kidney lesion existence", union)[0], "Yes"
    for kind in ("pancreas_tumor", "pancreatic_cyst", "pancreatic_pdac", "pancreatic_pnet"):
        union = {"pancreatic_lesion": NOTHING, kind: speck(3, 3, 3)}
        yield said("pancreatic lesion existence", union)[0], "Yes"
    for kind in ("liver_tumor", "hepatic_vessel_tumor", "liver_cyst"):
        union = {"liver_lesion": NOTHING, kind: speck(3, 3, 3)}
        yield said("liver lesion existence", union)[0], "Yes"
    yield (
        said("colon lesion existence", {"colon_lesion": NOTHING, "colon_tumor": organ(1)})[0],
        "Yes",
    )


def failing() -> list[str]:
    """Return the probes that fail with the table as it is, in words."""
    found = []
    try:
        for number, (got, expected) in enumerate(probes()):
            if got != expected:
                found.append(f"probe {number}: {got} instead of {expected}")
                break
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        found.append(f"{type(error).__name__}: {error}")
    return found


# ------------------------------------------------------------------------------------ mutations

TEXTS = {"about", "text", "note", "formula", "formula_lesion", "words", "source", "query", "unit"}
"""Words for people; units are checked against the measuring code in test_rules_table."""
SWAPS = {
    "segment": "measure", "measure": "segment", "lookup": "segment",
    "exists": "number", "number": "exists", "above": "bands", "bands": "above",
    "compare": "number", "sum": "mean", "segment {lesion}": "segment {organ}",
    "segment {organ}": "segment aorta", "segment {sides}": "segment {organ}",
    "segment {each}": "segment aorta",
    "known": "assumed", "assumed": "known",
    "volume_cm3": "largest_lesion_volume_cm3", "mean_hu": "volume_cm3",
    "lesion_count": "volume_cm3", "largest_lesion_volume_cm3": "volume_cm3",
    "{organ}": "spleen", "{lesion}": "{organ}", "spleen": "liver", "kidney": "liver",
    "binary": "categorical", "numeric": "binary", "categorical": "binary",
    "splenomegaly detection": "splenomegaly grade", "splenomegaly grade": "splenomegaly detection",
    "all": "radgpt_10mm3", "radgpt_10mm3": "all", "radgpt_ai_50mm3": "all",
    "equal_at_0.1": "within_10_percent",
}  # fmt: skip


def leaves(node: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Yield (path, value) of every leaf that is not words for people."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in TEXTS:
                yield from leaves(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from leaves(value, (*path, number))
    else:
        yield path, node


def changed_values(path: tuple, value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        if path[-1] in ("below", "up_to", "threshold"):
            yield from (round(value - 0.1, 1), round(value + 0.1, 1))
        elif path[-1] == "decimals":
            yield from (value + 1, value - 1) if value else (value - 1,)
        else:
            yield from (value * 2, 0.0) if value else (1.0 if path[-1] == "absolute" else 0.02,)
    elif path[0] == "labels":
        yield "never said"
    elif path[0] == "phrases":
        yield "Never"
    elif value in SWAPS:
        yield SWAPS[value]
    elif isinstance(value, str):
        yield "aorta"


PROBED = (
    *EXISTENCE, "splenomegaly detection", "splenomegaly grading", "organ volume measurement",
    "organ HU measurement", "lesion volume measurement", "lesion counting",
    "kidney volume comparison",
)  # fmt: skip


def is_probed(path: tuple) -> bool:
    """Return whether a leaf is of a subtype (or a label of one) that this module's probes ask."""
    if path[0] == "subtypes":
        return path[1] in PROBED
    known = {label for name in PROBED for label in rules.rule_for(name).labels}
    return path[0] not in ("labels", "phrases") or path[1] in known


def not_seen_by_design(path: tuple) -> bool:
    """Return whether a leaf says what another one already decides, or is checked elsewhere."""
    if path[0] in ("sources", "measures"):
        return True
    words = path[0] == "labels"
    if words:  # most words are synonyms: removing one is seen only where a probe uses it
        # "enlarged", "absent" and "not present" are understood by the wording before the labels
        used = {"mildly", "massive", "equal"}
        return TABLE["labels"][path[1]][path[2]] not in used
    if path[0] == "lesion_classes" and path[2] == "classes" and path[3] > 0:
        return True  # the names know the kinds too, and both must be wrong for a kind to be missed
    if path[-1] == "status":  # the variants' status decides where there are variants
        row = TABLE["subtypes"].get(path[1], {})
        listed = "variants" in row.get("conclude", {})
        inherited = listed and (len(path) == 4 or path[4] != row["conclude"]["default"])
        return "boundary" in path or "tolerance" in path or inherited
    return False


def mutations() -> Iterator[tuple[str, tuple, Any]]:
    for path, value in leaves(TABLE):
        if not_seen_by_design(path) or not is_probed(path):
            continue
        for other in changed_values(path, value):
            yield ".".join(map(str, path)) + f"={other}", path, other


MUTATIONS = list(mutations())


@pytest.fixture
def table(monkeypatch):
    """A function that puts another table in place of the shipped one."""

    def put(data: dict) -> None:
        monkeypatch.setattr(rules, "_table", lambda: data)
        rules._rules.cache_clear()
        rules.measure_named.cache_clear()

    yield put
    monkeypatch.undo()
    rules._rules.cache_clear()
    rules.measure_named.cache_clear()


def test_the_shipped_table_passes_every_probe():
    assert failing() == []


def test_there_are_mutations_of_every_subtype():
    touched = {path[1] for _, path, _ in MUTATIONS if path[0] == "subtypes"}
    assert touched == set(PROBED) and len(MUTATIONS) > 100


@pytest.mark.parametrize(
    ("path", "value"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS]
)
def test_a_changed_table_is_caught(table, path, value):
    data = copy.deepcopy(TABLE)
    node = data
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    table(data)
    assert failing(), "no probe notices this change"


@pytest.mark.parametrize("subtype", PROBED)
def test_a_missing_subtype_is_caught(table, subtype):
    data = copy.deepcopy(TABLE)
    del data["subtypes"][subtype]
    table(data)
    assert failing()
