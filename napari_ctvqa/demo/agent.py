"""One run of the invented agent while it is written: tool calls, results, last words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo import tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.demo.parameters import CaseParameters
    from napari_ctvqa.demo.questions import Asked

Answer = tuple[str, list[dict[str, Any]]]
"""Raw text and trajectory."""

SPLENOMEGALY = "splenomegaly detection threshold"
LESION_TYPE = "kidney lesion type cyst or solid tumor"

_RECIPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "exists": (("segment", "{}"),),
    "volume": (("both", "{}", "volume_cm3"),),
    "hu": (("both", "{}", "mean_hu"),),
    "lesion-volume": (("both", "{}", "volume_cm3"),),
    "count": (("both", "{}", "lesion_count"),),
    "splenomegaly": (("both", "spleen", "volume_cm3"), ("lookup", SPLENOMEGALY)),
    "spleen-grade": (
        ("lookup", "splenomegaly grade mild moderate severe"),
        ("both", "spleen", "volume_cm3"),
    ),
    "kidney-comparison": (
        ("both", "kidney_left", "volume_cm3"),
        ("both", "kidney_right", "volume_cm3"),
    ),
    "ratio": (("both", "{}", "mean_hu"), ("both", "spleen", "mean_hu")),
    "burden": (("both", "{}", "volume_cm3"), ("each", "{organ}", "volume_cm3")),
    "asymmetry": (("both", "kidney_cyst", "volume_cm3"), ("both", "kidney_tumor", "volume_cm3")),
    "segments": (("both", "liver_lesion", "lesion_count"),),
    "attenuation": (("both", "{}", "mean_hu"), ("both", "{whole}", "mean_hu")),
    "diameter": (("both", "{}", "largest_lesion_diameter_cm"),),
    "location": (("segment", "{}"),),
    "slice": (("segment", "{}"),),
    "count-in": (("both", "{lesion}", "lesion_count"),),
    "sum": (("both", "{whole}", "volume_cm3"), ("both", "{other}", "volume_cm3")),
    "enlarged": (("both", "{}", "volume_cm3"),),
    "outlier": (("both", "liver_lesion", "largest_lesion_volume_cm3"),),
    "clustering": (("both", "liver_lesion", "lesion_count"),),
    "burden-comparison": (
        ("both", "liver_lesion", "volume_cm3"),
        ("both", "pancreatic_lesion", "volume_cm3"),
    ),
    "hu-gap": (("both", "pancreatic_lesion", "mean_hu"), ("both", "pancreas", "mean_hu")),
    "pdac-pnet": (
        ("lookup", "pdac or pnet classification"),
        ("both", "pancreatic_lesion", "mean_hu"),
    ),
    "steatosis": (
        ("lookup", "pancreatic steatosis ratio"),
        ("both", "pancreas", "mean_hu"),
        ("both", "spleen", "mean_hu"),
    ),
    "fatty-liver": (
        ("lookup", "fatty liver ratio on non-contrast CT"),
        ("both", "liver", "mean_hu"),
        ("both", "spleen", "mean_hu"),
    ),
    "steatosis-grade": (
        ("lookup", "hepatic steatosis grade"),
        ("both", "liver", "mean_hu"),
        ("both", "spleen", "mean_hu"),
    ),
    "lesion-type": (("lookup", LESION_TYPE), ("both", "kidney_lesion", "mean_hu")),
    "renal-mass": (
        ("lookup", "renal mass by hu simple cyst"),
        ("both", "kidney_lesion", "mean_hu"),
    ),
    "beside": (("segment", "{}"),),
    "cyst-resection": (
        ("lookup", "pancreatic cyst resection size"),
        ("both", "pancreatic_cyst", "largest_lesion_volume_cm3"),
    ),
    "pseudocyst": (
        ("lookup", "pseudocyst or mucinous cyst attenuation"),
        ("both", "pancreatic_cyst", "mean_hu"),
    ),
    "resectable": (
        ("lookup", "pancreatic tumor resectability vessel contact"),
        ("both", "pancreatic_lesion", "largest_lesion_diameter_cm"),
    ),
    "portal-hypertension": (
        ("lookup", "portal hypertension spleen volume"),
        ("both", "spleen", "volume_cm3"),
    ),
    "staging": (
        ("lookup", "pancreatic tumor staging by diameter"),
        ("both", "pancreatic_lesion", "largest_lesion_diameter_cm"),
    ),
}
"""Kind of question -> the calls that lead to its answer."""

_ROOTS = {"liver": "liver", "kidney": "kidney", "pancreas": "pancreatic"}
_PARTS = {"kidney": ("kidney_left", "kidney_right")}
_WHOLES = {"liver": ("liver", "spleen"), "kidney": ("kidney_left", "kidney_right")}


@dataclass
class Script:
    """Tool steps so far. A tool's result is always true; mistakes are what is done with it."""

    asked: Asked
    masks: tools.Masks
    entries: list[dict[str, Any]] = field(default_factory=list)
    step: int = 0

    @property
    def case(self) -> CaseParameters:
        """Return the case the question is about."""
        return self.asked.ask.case

    @property
    def target(self) -> str:
        """Return the structure that the question is about, empty where it is about several."""
        return self.asked.ask.key.partition(":")[2]

    @property
    def right(self) -> str:
        """Return the letter that the parameters give."""
        return self.asked.truth

    @property
    def wrong(self) -> str:
        """Return a letter that is neither right nor stated as the reference."""
        stated = self.asked.record["correct_option"]
        return next(key for key in self.asked.options if key not in {self.right, stated})

    @property
    def value(self) -> float:
        """Return the number that the last tool returned."""
        return float(self.entries[-1]["result"]["value"])

    def letter(self, text: str) -> str:
        """Return the letter of an option. Raises KeyError for a text that is none."""
        return {option: key for key, option in self.asked.options.items()}[text]

    def segment(self, target: str) -> Script:
        """Call ``segment_organ``."""
        return self._call(
            "segment_organ", {"target": target}, tools.segment(self.case, target, self.masks)
        )

    def measure(self, target: str, kind: str) -> Script:
        """Call ``measure``."""
        arguments = {"target": target, "measurement_type": kind}
        return self._call("measure", arguments, tools.measure(self.case, target, kind))

    def both(self, target: str, kind: str) -> Script:
        """Segment a target, then measure it."""
        return self.segment(target).measure(target, kind)

    def lookup(self, query: str) -> Script:
        """Call ``lookup_medical_knowledge``."""
        return self._call("lookup_medical_knowledge", {"query": query}, tools.lookup(query))

    def properly(self) -> Script:
        """Make the calls that lead to the right answer."""
        organ = self.asked.ask.organ
        whole, other = _WHOLES.get(organ, (organ, organ))
        lesion = f"{_ROOTS.get(organ, organ)}_lesion"
        names = {"whole": whole, "other": other, "lesion": lesion, "organ": organ}
        for verb, *arguments in _RECIPES[self.asked.ask.key.partition(":")[0]]:
            filled = [text.format(self.target, **names) for text in arguments]
            if verb == "segment":
                self.segment(*filled)
            elif verb == "lookup":
                self.lookup(*filled)
            elif verb == "each":
                for part in _PARTS.get(filled[0], filled[:1]):
                    self.both(part, filled[1])
            else:
                self.both(*filled)
        return self

    def says(self, text: str) -> Answer:
        """End with a final answer."""
        return text, [*self.entries, {"step": self.step + 1, "final_answer": text}]

    def fails(self, message: str) -> Answer:
        """End with a failure."""
        return f"[ERROR] {message}", [*self.entries, {"step": self.step + 1, "error": message}]

    def runs_out(self, text: str) -> Answer:
        """End at the step limit, without a final answer."""
        return text, list(self.entries)

    def _call(self, tool: str, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> Script:
        self.step += 1
        given = {**arguments, "image_id": self.case.case_id}
        self.entries.append(
            {"step": self.step, "tool": tool, "arguments": given, "result": dict(result)}
        )
        return self
