"""Every small fault that the rule table could have, made from the table itself.

A mutation changes one thing of one subtype's row, or one word that several rows share. New
subtypes, steps and thresholds get theirs without a line here. ``caught`` says which probe notices.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import basic_probes
import rule_probes
from rule_probes import PROBES

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import rules

assert basic_probes.EXISTENCE  # its probes are among PROBES by being imported

Path = tuple[Any, ...]
TABLE: dict[str, Any] = json.loads(resource_path("rules.json").read_text(encoding="utf-8"))
WORDS_FOR_PEOPLE = {"about", "text", "note", "formula", "query"}
"""What is read by people alone; a wrong word there changes no number."""
BOUNDS = {
    "below", "up_to", "threshold", "thresholds", "above", "over", "at_least", "times", "min_count",
    "sd_share", "t4_from_deg", "relative", "whole",
}  # fmt: skip
STEPS_OF = {
    "over": 0.01, "at_least": 0.01, "sd_share": 0.01, "min_count": 1, "t4_from_deg": 1, "above": 1,
}  # fmt: skip
"""How far a bound is moved where the rule's last decimal is no measure for it."""
OTHER_STRUCTURE = {
    "spleen": "liver", "liver": "spleen", "pancreas": "spleen", "kidney": "spleen",
    "kidney_left": "kidney_right", "kidney_right": "kidney_left", "{lesion}": "{organ}",
    "{organ}": "{lesion}", "{site}": "{lesion}", "{each}": "spleen", "{sides}": "{organ}",
    "{organs}": "{organ}", "{lesions}": "{lesion}", "{any lesion}": "{organ}",
    "superior_mesenteric_artery": "celiac_trunk", "celiac_trunk": "superior_mesenteric_artery",
    "postcava": "aorta", "pancreatic_pdac": "pancreatic_pnet",
    "pancreatic_pnet": "pancreatic_pdac", "pancreatic_lesion": "liver_lesion",
    "pancreatic_cyst": "kidney_cyst", "kidney_cyst": "kidney_tumor", "kidney_tumor": "kidney_cyst",
    "liver_lesion": "kidney_lesion", "kidney_lesion": "liver_lesion",
    "colon_lesion": "liver_lesion", "liver_segment_1": "liver_segment_2",
    "liver_right_lobe": "liver_left_lobe", "portal_vein_and_splenic_vein": "aorta",
    "{organ of each}": "{each}", "{listed}": "{organ}", "{place}": "{organ}",
}  # fmt: skip
OTHER_WORD = {
    "exists": "number", "number": "exists", "above": "bands", "bands": "above", "compare": "number",
    "names": "number", "outlier": "number", "clustering": "number", "larger": "attenuation",
    "attenuation": "larger", "any_above": "number", "worse_band": "bands", "stage": "bands",
    "resectable": "stage", "sum": "mean", "mean": "sum", "ratio": "difference", "percent": "ratio",
    "percent_of_rest": "percent", "difference": "negative_difference", "shares": "sum",
    "negative_difference": "difference", "absolute_difference": "difference", "first": "ratio",
    "binary": "categorical", "numeric": "binary", "categorical": "binary", "known": "assumed",
    "assumed": "known", "cm³": "mm³", "HU": "cm³", "%": "cm³", "parts": "divisions",
    "divisions": "parts", "options": "divisions", "structures": "", "Non-contrast": "",
    "over_10_percent": "most", "most": "any", "any": "over_10_percent", "all": "radgpt_10mm3",
    "radgpt_10mm3": "radgpt_ai_50mm3", "radgpt_ai_50mm3": "radgpt_10mm3", "worse": "hu",
    "hu": "ratio", "left": "right", "right": "left",
}  # fmt: skip
OTHER_MEASURE = {
    "volume_cm3": "largest_lesion_volume_cm3", "largest_lesion_volume_cm3": "volume_cm3",
    "mean_hu": "sd_hu", "sd_hu": "mean_hu", "lesion_count": "volume_cm3",
    "largest_lesion_diameter_cm": "max_diameter_mm", "contact_angle_deg": "surface_distance_mm",
    "radgpt_diameter_cm": "largest_lesion_diameter_cm",
    "diameter_3d_cm": "largest_lesion_diameter_cm",
    "caudate_right_lobe_ratio": "surface_distance_mm", "adjacent": "nearest",
    "touching": "adjacent", "nearest": "touching", "parts": "side",
    "lesions_in_fullest_part": "lesions_in_fullest_two_parts",
    "lesions_in_fullest_two_parts": "lesions_in_fullest_part",
    "volume_share_of_fullest_part": "volume_share_of_fullest_two_parts",
    "volume_share_of_fullest_two_parts": "volume_share_of_fullest_part",
    "widest_slice_ras": "widest_slice_ras_from_1", "widest_slice_percent": "widest_slice_ras",
    "widest_slice_ras_from_1": "widest_slice_ras", "widest_slice_file": "widest_slice_ras",
    "largest_area_slice_ras": "widest_slice_ras",
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One change of the table. ``subtypes`` are those whose probes may notice it."""

    kind: str
    what: str
    change: Callable[[dict[str, Any]], None]
    subtypes: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.what}"

    @property
    def within_a_row(self) -> bool:
        """Whether only a subtype's own row differs: what was measured for it still holds."""
        return len(self.subtypes) == 1 and self.what.startswith(self.subtypes[0])

    def table(self) -> dict[str, Any]:
        changed = copy.deepcopy(TABLE)
        self.change(changed)
        return changed


def node_at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def put(path: Path, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        node_at(data, path[:-1])[path[-1]] = value

    return change


def leave_out(path: Path) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        del node_at(data, path[:-1])[path[-1]]

    return change


def rename(path: Path, new: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        node = node_at(data, path[:-1])
        node[new] = node.pop(path[-1])

    return change


def swap(path: Path, first: int, second: int) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        items = node_at(data, path)
        items[first], items[second] = items[second], items[first]

    return change


def swap_labels(path: Path, first: int, second: int) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        bands = node_at(data, path)
        for key in ("label",):
            bands[first][key], bands[second][key] = bands[second][key], bands[first][key]

    return change


def walk(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield every part of a row with its path, the row itself first."""
    yield path, node
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in WORDS_FOR_PEOPLE:
                yield from walk(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from walk(value, (*path, number))


def mutations() -> Iterator[Mutation]:
    for subtype, row in TABLE["subtypes"].items():
        seen: set[str] = set()
        for path, node in walk(row, ("subtypes", subtype)):
            for kind, what, change in _of_node(subtype, path, node):
                where = " ".join(map(str, path[1:]))
                found = Mutation(kind, f"{where}: {what}", change, (subtype,))
                if found.name in seen or found.table() == TABLE:
                    continue
                seen.add(found.name)
                yield found
    yield from _of_classes()
    yield from _of_words()


def _of_node(subtype: str, path: Path, node: Any) -> Iterator[tuple[str, str, Any]]:
    key = path[-1]
    row = TABLE["subtypes"][subtype]
    if isinstance(node, bool):
        yield "switch", f"{node} turned", put(path, not node)
    elif isinstance(node, int | float):
        yield from _of_number(path, node, row)
    elif isinstance(node, str):
        yield from _of_text(path, node)
    elif isinstance(node, list) and key in ("steps", "steps_if_largest"):
        yield from _of_steps(path, node)
    elif isinstance(node, list) and len(node) > 1:
        yield from _of_list(path, node)
    elif key == "variants":
        for name in node:
            if name != path and len(node) > 1:
                if name == node_at(TABLE, (*path[:-1], "default")):
                    continue
                yield "variant", f"{name} left out", leave_out((*path, name))
                default = (*path[:-1], "default")
                yield "variant", f"{name} made the default", put(default, name)
    if isinstance(node, dict):
        for one, other in (("below", "up_to"), ("up_to", "below")):
            if one in node:
                yield "comparison", f"{one} {node[one]} made {other}", rename((*path, one), other)
        if "words" in node:
            yield "words", f"{node['words']} left out", leave_out((*path, "words"))


def _of_number(path: Path, node: float, row: Any) -> Iterator[tuple[str, str, Any]]:
    names = [key for key in path if isinstance(key, str)]
    key = names[-1] if names[-1] not in OTHER_STRUCTURE else names[-2]
    if key == "decimals":
        for other in (node - 1, node + 1) if node else (node - 1,):
            yield "rounding", f"{node} decimals made {other}", put(path, other)
    elif key == "of":
        yield "order", f"value {node} made {1 - int(node)}", put(path, 1 - int(node))
    elif "tolerance" in names:
        for other in (node * 2, 0.0) if node else (1.0 if key == "absolute" else 0.02,):
            yield "tolerance", f"{node} made {other}", put(path, other)
    elif key in BOUNDS:
        decimals = row["conclude"].get("decimals", 0)
        step = STEPS_OF.get(key, 0.01 if key == "relative" else min(0.1, 10.0**-decimals))
        for other in (round(node - step, 6), round(node + step, 6)):
            if (key == "sd_share" and other < 0) or (key == "t4_from_deg" and other > 361):
                continue  # the same as no share, and as never: a full circle is 360
            yield "threshold", f"{node} moved to {other}", put(path, other)
        if key in ("threshold", "thresholds", "below", "up_to"):
            for factor in (0.001, 10.0, 1000.0):
                yield "unit", f"{node} × {factor:g}", put(path, node * factor)
    else:
        yield "number", f"{node} made {node + 1}", put(path, node + 1)


def _of_text(path: Path, node: str) -> Iterator[tuple[str, str, Any]]:
    key = path[-1]
    names = [one for one in path if isinstance(one, str)]
    if names[-1] in ("steps", "steps_if_largest"):
        for what, other in _other_steps(node):
            yield (
                "target" if what != "measure" else "measure",
                f"{node!r} made {other!r}",
                put(path, other),
            )
    elif key == "status" and _decides(path):
        yield "status", f"{node} made {OTHER_WORD[node]}", put(path, OTHER_WORD[node])
    elif key in ("source", "status", "default", "words", "boundary"):
        return
    elif key == "target" or names[-1] == "listed":
        other = OTHER_STRUCTURE.get(node, OTHER_WORD.get(node, "aorta"))
        kind = "side" if {"left", "right"} & set(node.split("_")) else "target"
        yield kind, f"{node} made {other}", put(path, other)
    elif key == "knowledge":
        other = "splenomegaly grade" if node != "splenomegaly grade" else "fatty liver"
        yield "knowledge", f"{node} made {other}", put(path, other)
    elif node in OTHER_WORD and names[-1] != "unit":
        yield names[-1], f"{node} made {OTHER_WORD[node]}", put(path, OTHER_WORD[node])
    elif names[-1] in ("labels", "label") or "relabel" in names:
        other = "no" if node != "no" else "yes"
        yield "label", f"{node} made {other}", put(path, other)
    elif names[-1] == "unit":
        other = "mm" if node == "cm" else "mm³" if node == "cm³" else "cm³"
        yield "unit", f"{node or 'none'} made {other}", put(path, other)
    elif names[-1] not in ("more_labels", "text"):
        raise KeyError(f"no mutation for {'.'.join(map(str, path))} = {node!r}")


def _decides(path: Path) -> bool:
    """Return whether a status is said of a conclusion of the default rule."""
    row = TABLE["subtypes"][path[1]]["conclude"]
    if "tolerance" in path:
        return False
    if "boundary" in path:
        return row["how"] in ("above", "bands")
    if "variants" in row:
        return len(path) == 6 and path[4] == row["default"]
    return len(path) == 4


def _other_steps(step: str) -> Iterator[tuple[str, str]]:
    """Yield a step with another target, second structure, measure or kind."""
    words = step.split()
    for number, word in enumerate(words):
        for table, what in ((OTHER_STRUCTURE, "target"), (OTHER_MEASURE, "measure")):
            if word in table and not (word == "parts" and number > 1):
                yield what, " ".join((*words[:number], table[word], *words[number + 1 :]))
    if "largest" in words:
        yield "target", step.replace("largest ", "", 1)
    if words[0] == "measure" and "volume_cm3" in words:
        yield "measure", step.replace("volume_cm3", "lesion_count")


def _of_steps(path: Path, node: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for number in range(len(node) - 1):
        if node[number] != node[number + 1]:
            what = f"{node[number]} and {node[number + 1]} exchanged"
            yield "order", what, swap(path, number, number + 1)
    for number, step in enumerate(node):
        yield "step", f"{step} left out", leave_out((*path, number))


def _of_list(path: Path, node: list[Any]) -> Iterator[tuple[str, str, Any]]:
    if path[-1] in ("steps", "more_labels"):
        return
    if path[-1] in ("bands", "hu_bands", "ratio_bands"):
        for number in range(len(node) - 1):
            what = f"{node[number]['label']} and {node[number + 1]['label']} exchanged"
            yield "order", what, swap_labels(path, number, number + 1)
        return
    if isinstance(node[0], str) and isinstance(path[-1], int):  # steps taken for each structure
        yield from _of_steps(path, node)
        return
    if node[0] == node[1] or (path[-1] == "labels" and _order_is_nothing(path)):
        return
    kind = "side" if "left" in str(node[0]) else "order"
    yield kind, f"{node[0]} and {node[1]} exchanged", swap(path, 0, 1)


def _order_is_nothing(path: Path) -> bool:
    """Return whether labels are only listed: the conclusion names them itself."""
    how = TABLE["subtypes"][path[1]]["conclude"]["how"]
    return "variants" not in path and how in ("attenuation", "clustering", "resectable", "stage")


def _of_classes() -> Iterator[Mutation]:
    about = {
        organ: tuple(name for name in PROBES if organ[:6] in name or name in _OF_ANY[organ])
        for organ in TABLE["lesion_classes"]
    }
    for organ, row in TABLE["lesion_classes"].items():
        for number, kind in enumerate(row["classes"]):
            if number == 0:  # the names know the kinds too: both must be wrong for one to be missed
                path = ("lesion_classes", organ, "classes", number)
                yield Mutation("target", f"{kind} made aorta", put(path, "aorta"), about[organ])
        path = ("lesion_classes", organ, "any")
        yield Mutation("target", f"{row['any']} made aorta", put(path, "aorta"), about[organ])
        yield Mutation("target", f"{organ} left out", leave_out(path[:-1]), about[organ])


_OF_ANY: dict[str, tuple[str, ...]] = {
    "liver": ("lesion counting", "organ HU measurement"),
    "kidney": ("renal mass characterization", "lesion type classification"),
    "pancreas": ("tumor organ HU difference", "pancreatic lesion existence"),
    "colon": ("colon lesion existence",),
}


READ_ELSEWHERE = ("yes", "no", "left", "right")
"""Labels that the wording and the names of structures understand before the table is asked."""


def _of_words() -> Iterator[Mutation]:
    """Yield a phrase of every label that a rule can conclude made another."""
    for label in TABLE["phrases"]:
        about = tuple(
            name for name in PROBES if (rule := rules.rule_for(name)) and label in rule.labels
        )
        change = put(("phrases", label), "Never")
        yield Mutation("phrase", f"{label} made Never", change, about)
        if label in TABLE["labels"] and label not in READ_ELSEWHERE:
            change = put(("labels", label), ["never said"])
            yield Mutation("words", f"of {label} forgotten", change, about)


class Changed:
    """Another table in place of the shipped one, while it is entered."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.own = data, rules._table

    def __enter__(self) -> None:
        rules._table = lambda: self.data
        self._forget()

    def __exit__(self, *_: object) -> None:
        rules._table = self.own
        self._forget()

    def _forget(self) -> None:
        rules._rules.cache_clear()
        rules.measure_named.cache_clear()


def caught(mutation: Mutation) -> str:
    """Return the probe that notices a mutation, in words; empty where none does."""
    fresh = not mutation.within_a_row
    with Changed(mutation.table()), rule_probes.other_cases(fresh):
        for subtype in mutation.subtypes:
            failed = rule_probes.failing(subtype)
            if failed:
                return f"{subtype}, {failed}"
    return ""
