"""How each subtype is asked and what its answer follows from: the parameters, nothing measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.demo import values
from napari_ctvqa.demo.clearance import COURSES, clearance_mm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.demo.parameters import CaseParameters

_LABELS = {
    "kidney_left": "the left kidney",
    "kidney_right": "the right kidney",
    "gall_bladder": "the gallbladder",
    "pancreas_tail": "the tail of the pancreas",
    "liver_segment_7": "segment 7 of the liver",
    "liver_lesion": "liver lesion",
    "kidney_lesion": "kidney lesion",
    "kidney_cyst": "kidney cyst",
    "pancreatic_lesion": "pancreatic lesion",
    "pancreatic_pdac": "pancreatic PDAC",
    "pancreatic_cyst": "pancreatic cyst",
    "postcava": "inferior vena cava",
    "celiac_trunk": "celiac trunk",
    "superior_mesenteric_artery": "superior mesenteric artery",
}
_PARENTS = {"liver": "liver", "kidney": "kidney", "pancreatic": "pancreas", "colon": "colon"}
_EXISTENCE = (
    ("PDAC existence", "pancreatic_pdac", "Is a pancreatic ductal adenocarcinoma (PDAC) present?"),
    ("PNET existence", "pancreatic_pnet", "Does the pancreas show a neuroendocrine tumor (PNET)?"),
    ("colon lesion existence", "colon_lesion", "Does the colon have any lesion?"),
    ("kidney cyst existence", "kidney_cyst", "Is there at least one cyst in the kidneys?"),
    ("kidney lesion existence", "kidney_lesion", "Are there any lesions in the kidneys?"),
    ("kidney tumor existence", "kidney_tumor", "Is there a kidney tumor on this scan?"),
    ("liver lesion existence", "liver_lesion", "Does the liver contain any lesion?"),
    ("pancreatic lesion existence", "pancreatic_lesion", "Is any pancreatic lesion visible?"),
)
_TOUCHING_MM = 1.0
_APART_MM = 15.0
_CLEAR_MM = 7.0
"""Clearances at which contact, and none, is sure whatever a grid makes of the shapes."""
_GRADES = ("Normal (no splenomegaly)", "Mild", "Moderate", "Severe")
_KIDNEYS = ("left kidney", "right kidney", "the same")
_ATTENUATION = ("hypoattenuating", "isoattenuating", "hyperattenuating")
_SPREAD = ("highly clustered", "somewhat clustered", "widely distributed")
_RESECTABLE = ("Resectable", "Borderline resectable", "Unresectable")
_MASSES = ("simple cyst", "indeterminate mass", "hyperattenuating cyst", "solid enhancing mass")


@dataclass(frozen=True)
class Ask:
    """One question before it has an id and letters.

    ``key`` names what is asked, for the invented models; ``planted`` is a wrong answer that the
    record states as its reference instead of ``answer``.
    """

    case: CaseParameters
    subtype: str
    key: str
    text: str
    answer: str
    wrong: tuple[str, ...]
    organ: str
    lesion: bool | str = False
    rule: str = ""
    planted: str = ""


def label(structure: str) -> str:
    """Return a structure's name inside a sentence, with its article where it takes one."""
    return _LABELS.get(structure, f"the {structure}")


def _bare(structure: str) -> str:
    """Return a structure's name as an option, without an article."""
    return label(structure).removeprefix("the ")


def parent(mask: str) -> str:
    """Return the organ that the lesions of a mask lie in, as records name it."""
    return _PARENTS[mask.split("_")[0]]


def _text(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


@dataclass(frozen=True)
class Asker:
    """Asks about one case."""

    case: CaseParameters

    def _choice(
        self,
        subtype: str,
        key: str,
        text: str,
        answer: str,
        options: Sequence[str],
        *,
        organ: str,
        rule: str,
        lesion: bool | str = False,
        planted: str = "",
    ) -> Ask:
        wrong = tuple(option for option in options if option != answer)
        return Ask(self.case, subtype, key, text, answer, wrong, organ, lesion, rule, planted)

    def _yes_no(
        self, subtype: str, key: str, text: str, yes: bool, *, organ: str, rule: str,
        lesion: bool = False,
    ) -> Ask:  # fmt: skip
        answer = "Yes" if yes else "No"
        return self._choice(
            subtype, key, text, answer, ("Yes", "No"), organ=organ, rule=rule, lesion=lesion
        )

    def _number(
        self,
        subtype: str,
        key: str,
        text: str,
        value: float,
        wrong: Sequence[float],
        *,
        organ: str,
        rule: str,
        lesion: bool | str = False,
        decimals: int = 1,
        planted: str = "",
    ) -> Ask:
        """Ask for a number; the first three of ``wrong`` that differ from it are the distractors.

        They are far enough away that no way of sampling the same shape makes another one right.
        """
        answer = _text(value, decimals)
        others = dict.fromkeys(_text(other, decimals) for other in wrong)
        options = [answer, *[other for other in others if other != answer][:3]]
        return self._choice(
            subtype, key, text, answer, options,
            organ=organ, rule=rule, lesion=lesion, planted=planted,
        )  # fmt: skip

    def existence(self) -> list[Ask]:
        """Ask whether each kind of lesion is there."""
        return [
            self._yes_no(
                subtype, f"exists:{mask}", text, bool(values.lesions_of(self.case, mask)),
                organ=parent(mask), lesion=True,
                rule=f"yes where the parameters place a lesion of mask {mask}",
            )
            for subtype, mask, text in _EXISTENCE
        ]  # fmt: skip

    def volume(self, organ: str, *others: str, planted: str = "") -> Ask:
        """Ask for an organ's volume; volumes of ``others`` are among the wrong options."""
        value = values.volume_cm3(self.case, organ)
        near = [values.volume_cm3(self.case, other) for other in others]
        return self._number(
            "organ volume measurement",
            f"volume:{organ}",
            f"What is the volume of {label(organ)} in cm³?",
            value,
            [*near, value * 0.72, value * 1.31, value * 1.62],
            organ=organ,
            rule="cm³, the phantom's stated volume, lesions included",
            planted=planted,
        )

    def hu(self, organ: str, *others: str) -> Ask:
        """Ask for an organ's mean attenuation; means of ``others`` are among the options."""
        value = values.mean_hu(self.case, organ)
        near = [values.mean_hu(self.case, other) for other in others]
        return self._number(
            "organ HU measurement",
            f"hu:{organ}",
            f"What is the mean HU value of {label(organ)}?",
            value,
            [*near, value * 0.76, value * 1.22, value * 1.4],
            organ=organ,
            rule="HU, the phantom's stated mean, lesions left out",
        )

    def lesion_volume(self, mask: str, lesion: bool | str = True) -> Ask:
        """Ask for the total volume of lesions."""
        value = values.volume_cm3(self.case, mask)
        return self._number(
            "lesion volume measurement",
            f"lesion-volume:{mask}",
            f"What is the total {label(mask)} volume in cm³?",
            value,
            [value * 0.58, value * 1.37, value * 1.9],
            organ=parent(mask),
            lesion=lesion,
            rule="cm³, sum of 4/3 pi abc over the lesions",
        )

    def count(self, mask: str, planted: str = "") -> Ask:
        """Ask how many lesions there are."""
        number = len(values.lesions_of(self.case, mask))
        return self._number(
            "lesion counting",
            f"count:{mask}",
            f"How many {label(mask)} instances are there?",
            number,
            [number + 1, number + 3, number + 6],
            organ=parent(mask),
            lesion=True,
            rule="lesions placed; none touches another (benchmark's size filter assumed off)",
            decimals=0,
            planted=planted,
        )

    def spleen(self, planted: str = "") -> list[Ask]:
        """Ask whether the spleen is enlarged, and how much."""
        volume = values.volume_cm3(self.case, "spleen")
        grade = _GRADES[sum(volume > limit for limit in (314.5, 500.0, 800.0))]
        rule = "stated spleen volume against 314.5 / 500 / 800 cm³ (Bezerra 2005)"
        return [
            self._yes_no(
                "splenomegaly detection", "splenomegaly", "Is the spleen enlarged (splenomegaly)?",
                volume > 314.5, organ="spleen", rule=rule,
            ),
            self._choice(
                "splenomegaly grading", "spleen-grade",
                "How would you classify the splenic enlargement based on volume?",
                grade, _GRADES, organ="spleen", rule=rule, planted=planted,
            ),
        ]  # fmt: skip

    def kidneys(self, planted: str = "") -> Ask:
        """Ask which kidney is bigger."""
        left, right = (values.volume_cm3(self.case, f"kidney_{s}") for s in ("left", "right"))
        return self._choice(
            "kidney volume comparison",
            "kidney-comparison",
            "Pick the kidney that is bigger in size:",
            _KIDNEYS[0 if left > right else 1],
            _KIDNEYS,
            organ="kidney",
            rule="assumed: by stated volume; they differ by more than 5 %, whatever 'same' allows",
            planted=planted,
        )

    def ratio(self, upper: str, lower: str) -> Ask:
        """Ask for the ratio of two means."""
        value = values.mean_hu(self.case, upper) / values.mean_hu(self.case, lower)
        return self._number(
            "organ HU ratio",
            f"ratio:{upper}",
            f"What is the {upper}-to-{lower} HU ratio?",
            value,
            [value * 0.7, value * 1.35, value * 1.8],
            organ=upper,
            rule=f"stated mean HU {upper} / {lower}; two decimals assumed",
            decimals=2,
        )

    def burden(self, mask: str, organs: Sequence[str]) -> Ask:
        """Ask for the share of an organ that is lesion."""
        whole = sum(values.volume_cm3(self.case, organ) for organ in organs)
        value = 100 * values.volume_cm3(self.case, mask) / whole
        named = " and ".join(label(organ) for organ in organs)
        return self._number(
            "tumor burden percentage",
            f"burden:{mask}",
            f"What percentage of the volume of {named} is lesion?",
            value,
            [value * 0.4, value * 1.9, value * 3.1],
            organ=parent(mask),
            lesion=True,
            rule="lesion volume / organ volume × 100; one decimal assumed",
        )

    def asymmetry(self) -> Ask:
        """Ask which kidney carries more lesion."""
        left, right = (
            sum(x.volume_cm3 for x in self.case.lesions if x.organ == f"kidney_{side}")
            for side in ("left", "right")
        )
        return self._choice(
            "bilateral kidney asymmetry",
            "asymmetry",
            "Which kidney carries the larger lesion burden by volume?",
            _KIDNEYS[0 if left > right else 1],
            _KIDNEYS,
            organ="kidney",
            lesion=True,
            rule="assumed: total lesion volume of each side",
        )

    def segments(self, first: int, second: int) -> Ask:
        """Ask which of two liver segments has more lesions."""
        lesions = values.lesions_of(self.case, "liver_lesion")
        a, b = (values.count_in(lesions, f"liver_segment_{n}") for n in (first, second))
        options = (
            f"Segment {first} has more lesions",
            f"Segment {second} has more lesions",
            "Both segments have the same number of lesions",
        )
        return self._choice(
            "inter-segment comparison",
            f"segments:{first}-{second}",
            f"Evaluate lesion distribution between segments {first} and {second}.",
            options[0 if a > b else 1 if b > a else 2],
            options,
            organ="liver",
            lesion=True,
            rule="lesions with more than a tenth of their volume in a segment; "
            "neither segment holds a lesion that spans several",
        )

    def attenuation(self, mask: str) -> Ask:
        """Ask how the largest lesion compares with its organ."""
        lesion = values.largest(self.case, mask)
        darker = lesion.hu < values.mean_hu(self.case, lesion.organ)
        return self._choice(
            "largest lesion attenuation",
            f"attenuation:{mask}",
            f"How does the largest {label(mask)} attenuate compared with the organ around it?",
            _ATTENUATION[0 if darker else 2],
            _ATTENUATION,
            organ=parent(mask),
            lesion=True,
            rule="stated means differ by far more than a tenth of the organ's SD",
        )

    def diameter(self, mask: str) -> Ask:
        """Ask for the longest diameter of the largest lesion."""
        value = values.largest(self.case, mask).diameter_cm
        return self._number(
            "largest lesion diameter",
            f"diameter:{mask}",
            f"What is the longest axial diameter of the largest {label(mask)} in cm?",
            value,
            [value * 0.6, value * 1.45, value * 1.95],
            organ=parent(mask),
            lesion=True,
            rule="cm, twice the longer in-plane half axis of the largest lesion",
        )

    def location(self, mask: str, *wrong: str) -> Ask:
        """Ask in which part of the organ the largest lesion lies."""
        lesion = values.largest(self.case, mask)
        parts = sorted(part for part, share in lesion.shares.items() if share > 0.1)
        answer = ",".join(part.split("_", 1)[1].replace("_", " ") for part in parts)
        return self._choice(
            "largest lesion location",
            f"location:{mask}",
            f"Where is the largest {label(mask)}?",
            answer,
            (answer, *wrong),
            organ=parent(mask),
            lesion=True,
            rule="parts of the organ that hold more than a tenth of the lesion",
        )

    def widest_slice(self, mask: str) -> Ask:
        """Ask on which slice the largest lesion is widest."""
        index = values.largest(self.case, mask).centre_slice
        return self._number(
            "largest lesion slice",
            f"slice:{mask}",
            f"On which slice is the largest {label(mask)} widest (counted from the feet, from 0)?",
            index,
            [index - 24, index + 15, index + 29],
            organ=parent(mask),
            lesion=True,
            rule="centre slice of the largest lesion, RAS z index; form of the benchmark assumed",
            decimals=0,
        )

    def count_in(self, mask: str, part: str) -> Ask:
        """Ask how many lesions lie in one part of an organ."""
        number = values.count_in(values.lesions_of(self.case, mask), part)
        return self._number(
            "lesion count by location",
            f"count-in:{part}",
            f"How many {label(mask)} instances lie in {label(part)}?",
            number,
            [0, 1, 2, 4],
            organ=parent(mask),
            lesion=True,
            rule="lesions with more than a tenth of their volume in that part",
            decimals=0,
        )

    def total(self, organ: str, *parts: str) -> Ask:
        """Ask for the volume of several organs together."""
        value = sum(values.volume_cm3(self.case, part) for part in parts)
        return self._number(
            "organ aggregation",
            f"sum:{organ}",
            f"What is the combined volume of {' and '.join(map(label, parts))} in cm³?",
            value,
            [value * 0.78, value * 1.24, value * 1.5],
            organ=organ,
            rule="assumed: sum of the stated volumes, cm³",
        )

    def enlarged(self, organ: str, limit_cm3: float, rule: str) -> Ask:
        """Ask whether an organ is enlarged."""
        return self._yes_no(
            "organ enlargement",
            f"enlarged:{organ}",
            f"Is {label(organ)} enlarged?",
            values.volume_cm3(self.case, organ) > limit_cm3,
            organ=organ,
            rule=rule,
        )

    def outlier(self) -> Ask:
        """Ask whether one liver lesion is far larger than the others."""
        sizes = [lesion.volume_cm3 for lesion in values.lesions_of(self.case, "liver_lesion")]
        return self._yes_no(
            "lesion outlier",
            "outlier",
            "Is the largest liver lesion an outlier in size?",
            len(sizes) >= 3 and sizes[0] >= 3 * sizes[1],
            organ="liver",
            lesion=True,
            rule="three lesions or more, the largest at least three times the second by volume",
        )

    def clustering(self) -> Ask:
        """Ask how liver lesions spread over the segments."""
        lesions = values.lesions_of(self.case, "liver_lesion")
        counts = [values.count_in(lesions, f"liver_segment_{n}") for n in range(1, 9)]
        first, second = sorted(counts, reverse=True)[:2]
        clustered = first > len(lesions) / 2
        somewhat = first + second >= 0.75 * len(lesions)
        return self._choice(
            "liver lesion clustering",
            "clustering",
            "How are the liver lesions distributed over the segments, by count?",
            _SPREAD[0 if clustered else 1 if somewhat else 2],
            _SPREAD,
            organ="liver",
            lesion=True,
            rule="assumed by count: over half in one segment, or three quarters in two, or neither",
        )

    def burden_comparison(self) -> Ask:
        """Ask which of liver and pancreas holds more lesion."""
        liver, pancreas = (
            values.volume_cm3(self.case, mask) for mask in ("liver_lesion", "pancreatic_lesion")
        )
        return self._choice(
            "multi-organ lesion burden comparison",
            "burden-comparison",
            "Which organ has the larger total lesion volume, the liver or the pancreas?",
            "liver" if liver > pancreas else "pancreas",
            ("liver", "pancreas", "the same"),
            organ="liver",
            lesion=True,
            rule="assumed: total lesion volume",
        )

    def hu_gap(self) -> Ask:
        """Ask how much darker the pancreatic lesion is."""
        lesion = values.largest(self.case, "pancreatic_lesion")
        gap = values.mean_hu(self.case, "pancreas") - lesion.hu
        return self._number(
            "tumor organ HU difference",
            "hu-gap",
            "By how many HU is the pancreatic lesion darker than the pancreas?",
            gap,
            [gap * 0.5, gap * 1.6, gap * 2.2],
            organ="pancreas",
            lesion=True,
            rule="organ's mean without lesions minus the lesion's mean; sign assumed",
        )

    def pdac_or_pnet(self) -> Ask:
        """Ask which of the two kinds the pancreatic lesion is."""
        pdac = "pancreatic_pdac" in values.largest(self.case, "pancreatic_lesion").masks
        return self._choice(
            "PDAC vs PNET classification",
            "pdac-pnet",
            "Is the pancreatic lesion a PDAC or a PNET?",
            "PDAC" if pdac else "PNET",
            ("PDAC", "PNET"),
            organ="pancreas",
            lesion=True,
            rule="the mask that the parameters name",
        )

    def staging(self) -> Ask:
        """Ask for the T stage of the pancreatic tumour."""
        size = values.largest(self.case, "pancreatic_lesion").diameter_cm
        return self._choice(
            "pancreatic tumor staging",
            "staging",
            "How is the pancreatic tumor staged (T1-T4)?",
            ("T1", "T2", "T3")[(size > 2) + (size > 4)],
            ("T1", "T2", "T3", "T4"),
            organ="pancreas",
            lesion=True,
            rule="AJCC 8 by diameter; the phantom's lesion encases no artery",
        )

    def fatty_liver(self) -> Ask:
        """Ask for steatosis by the liver-to-spleen ratio."""
        ratio = values.mean_hu(self.case, "liver") / values.mean_hu(self.case, "spleen")
        return self._yes_no(
            "fatty liver",
            "fatty-liver",
            "Based on the liver-to-spleen HU ratio, is there fatty metamorphosis of the liver?",
            ratio < 1.0,
            organ="liver",
            rule="stated liver / spleen mean below 1.0",
        )

    def steatosis_grade(self) -> Ask:
        """Ask for the grade of steatosis; attenuation and ratio must agree on it."""
        hu = values.mean_hu(self.case, "liver")
        ratio = hu / values.mean_hu(self.case, "spleen")
        by_hu = (hu < 58) + (hu < 51) + (hu < 39)
        by_ratio = (ratio < 1.0) + (ratio < 0.8) + (ratio < 0.5)
        if by_hu != by_ratio:
            raise ValueError("attenuation and ratio give different grades: no honest reference")
        return self._choice(
            "hepatic steatosis grading",
            "steatosis-grade",
            "Grade the hepatic steatosis (G0-G3).",
            f"G{by_hu}",
            ("G0", "G1", "G2", "G3"),
            organ="liver",
            rule="attenuation and liver / spleen ratio give the same grade (Kodama 2007)",
        )

    def fatty_pancreas(self) -> Ask:
        """Ask for pancreatic steatosis by the pancreas-to-spleen ratio."""
        ratio = values.mean_hu(self.case, "pancreas") / values.mean_hu(self.case, "spleen")
        return self._yes_no(
            "pancreatic steatosis",
            "steatosis:pancreas",
            "Does the pancreas-to-spleen HU ratio suggest pancreatic steatosis?",
            ratio < 0.70,
            organ="pancreas",
            rule="stated pancreas / spleen mean below 0.70",
        )

    def kidney_lesion_type(self) -> Ask:
        """Ask whether the largest kidney lesion is cyst or tumour."""
        cyst = "kidney_cyst" in values.largest(self.case, "kidney_lesion").masks
        return self._choice(
            "lesion type classification",
            "lesion-type",
            "Identify whether the largest kidney lesion is a cyst or tumor.",
            "Cyst" if cyst else "Tumor",
            ("Cyst", "Tumor"),
            organ="kidney",
            lesion=True,
            rule="the mask that the parameters name; the 34.8 HU limit agrees",
        )

    def renal_mass(self) -> Ask:
        """Ask for the character of the largest renal mass."""
        hu = values.largest(self.case, "kidney_lesion").hu
        if not -10 <= hu <= 20:
            raise ValueError("only a simple cyst has an honest reference here")
        return self._choice(
            "renal mass characterization",
            "renal-mass",
            "How would you characterize the largest renal mass?",
            _MASSES[0],
            _MASSES,
            organ="kidney",
            lesion=True,
            rule="assumed wording: a stated mean of −10 to 20 HU is a simple cyst (Bosniak v2019)",
        )

    def beside(self, mask: str, vessel: str, *others: str) -> Ask:
        """Ask which structure lies against the largest lesion; it must be clear by far."""
        lesion = values.largest(self.case, mask)
        if clearance_mm(self.case, lesion, vessel) > _TOUCHING_MM:
            raise ValueError(f"{vessel} does not touch: no honest reference")
        if min(clearance_mm(self.case, lesion, other) for other in others) < _APART_MM:
            raise ValueError("another structure is near too: no honest reference")
        options = [_bare(name) for name in (vessel, *others)]
        return self._choice(
            "adjacent organ",
            f"beside:{mask}",
            f"Which of these structures is adjacent to the largest {label(mask)}?",
            options[0],
            options,
            organ=parent(mask),
            lesion=True,
            rule="surfaces of lesion and vessel meet by their equations; the others' are more than "
            f"{_APART_MM:g} mm away",
        )

    def resectable(self) -> Ask:
        """Ask whether the pancreatic lesion can be resected; it must be far from every vessel."""
        lesion = values.largest(self.case, "pancreatic_lesion")
        near = [vessel for vessel in COURSES if clearance_mm(self.case, lesion, vessel) < _CLEAR_MM]
        if near:
            raise ValueError(f"{', '.join(near)} may be in contact: no honest reference")
        return self._choice(
            "pancreatic lesion resectability",
            "resectable",
            "Assess the resectability of the pancreatic lesion.",
            _RESECTABLE[0],
            _RESECTABLE,
            organ="pancreas",
            lesion=True,
            rule=f"every vessel's surface is more than {_CLEAR_MM:g} mm away by its equation: no "
            "contact by any rule",
        )

    def cyst_resection(self) -> Ask:
        """Ask whether the pancreatic cyst is large enough to be resected."""
        cyst = values.largest(self.case, "pancreatic_cyst")
        return self._yes_no(
            "pancreatic cyst resectability",
            "cyst-resection",
            "Should resection of the largest pancreatic cyst be considered for its size?",
            cyst.volume_cm3 > 3.0 or cyst.diameter_cm > 3.0,
            organ="pancreas",
            lesion=True,
            rule="4/3 pi abc above 3.0 cm³ or the longer in-plane diameter above 3 cm",
        )

    def pseudocyst(self) -> Ask:
        """Ask whether the pancreatic cyst is a pseudocyst."""
        return self._yes_no(
            "pseudocyst determination",
            "pseudocyst",
            "Does its attenuation suggest that the largest pancreatic cyst is a pseudocyst?",
            values.largest(self.case, "pancreatic_cyst").hu > 14.5,
            organ="pancreas",
            lesion=True,
            rule="stated mean above 14.5 HU (PMID 21737901)",
        )

    def portal_hypertension(self) -> Ask:
        """Ask for signs of portal hypertension."""
        return self._yes_no(
            "portal hypertension assessment",
            "portal-hypertension",
            "Does the size of the spleen suggest portal hypertension?",
            values.volume_cm3(self.case, "spleen") > 314.5,
            organ="spleen",
            rule="assumed: the spleen's stated volume above 314.5 cm³ is the criterion",
        )
