"""The demo's questions in DeepTumorVQA's layout; references derive from the parameters.

Each record says in ``reference_rule`` how its reference follows, and "assumed" where the
benchmark's own rule is not known. A few references are wrong on purpose, for people who check
them; which ones is listed apart, in ``demo_notes.json``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.demo.asks import Ask, Asker
from napari_ctvqa.demo.parameters import FIRST_CASE, SECOND_CASE, SHAPE_KJI, SPACING_MM_KJI

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    "adjacent organ": "V S",
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
    "pancreatic cyst resectability": "C KSM",
    "pancreatic lesion resectability": "C KSM",
    "pancreatic steatosis": "C KSM",
    "pancreatic tumor staging": "C KSM",
    "portal hypertension assessment": "C KSM",
    "pseudocyst determination": "C KSM",
    "renal mass characterization": "C KSM",
    "splenomegaly grading": "C KSM",
}
"""Subtype -> stage and primitives: all 42."""


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


def _first_case() -> list[Ask]:
    ask = Asker(FIRST_CASE)
    return [
        ask.volume("kidney_left", "kidney_right"),
        ask.volume("kidney_right", "kidney_left"),
        ask.kidneys(),
        *ask.existence(),
        *ask.spleen(),
        ask.volume("spleen"),
        ask.volume("liver"),
        ask.volume("pancreas"),
        ask.volume("gall_bladder", planted="62.8"),
        ask.hu("liver", "spleen"),
        ask.hu("spleen", "liver"),
        ask.hu("pancreas", "spleen"),
        ask.hu("kidney_left"),
        ask.hu("aorta", "postcava"),
        ask.lesion_volume("liver_lesion"),
        ask.lesion_volume("kidney_cyst", "cyst"),
        ask.lesion_volume("pancreatic_pdac", "pdac"),
        ask.count("liver_lesion", planted="4"),
        ask.count("kidney_lesion"),
        ask.count("pancreatic_lesion"),
        ask.ratio("liver", "spleen"),
        ask.ratio("pancreas", "spleen"),
        ask.burden("liver_lesion", ["liver"]),
        ask.burden("kidney_lesion", ["kidney_left", "kidney_right"]),
        ask.asymmetry(),
        ask.segments(7, 2),
        ask.segments(4, 3),
        ask.segments(6, 2),
        ask.attenuation("liver_lesion"),
        ask.attenuation("kidney_lesion"),
        ask.diameter("liver_lesion"),
        ask.diameter("pancreatic_lesion"),
        ask.location("liver_lesion", "segment 4", "segment 5", "segment 2"),
        ask.location("pancreatic_lesion", "body", "tail"),
        ask.location("kidney_lesion", "left"),
        ask.widest_slice("liver_lesion"),
        ask.widest_slice("kidney_lesion"),
        ask.count_in("liver_lesion", "liver_segment_7"),
        ask.count_in("kidney_lesion", "kidney_left"),
        ask.count_in("pancreatic_lesion", "pancreas_tail"),
        ask.outlier(),
        ask.clustering(),
        ask.burden_comparison(),
        ask.total("kidney", "kidney_left", "kidney_right"),
        ask.total("liver", "liver", "spleen"),
        ask.enlarged("pancreas", 83.0, "below 83 and below 100 cm³: both published limits agree"),
        ask.hu_gap(),
        ask.pdac_or_pnet(),
        ask.fatty_pancreas(),
        ask.kidney_lesion_type(),
        ask.staging(),
        ask.fatty_liver(),
    ]


def _second_case() -> list[Ask]:
    ask = Asker(SECOND_CASE)
    return [
        *ask.existence(),
        *ask.spleen(planted="Moderate"),
        ask.kidneys(planted="left kidney"),
        ask.volume("spleen"),
        ask.volume("liver"),
        ask.volume("kidney_left", "kidney_right"),
        ask.hu("liver", "spleen"),
        ask.hu("kidney_right"),
        ask.lesion_volume("kidney_lesion"),
        ask.count("kidney_cyst"),
        ask.count("liver_lesion"),
        ask.ratio("liver", "spleen"),
        ask.burden("kidney_lesion", ["kidney_left", "kidney_right"]),
        ask.asymmetry(),
        ask.diameter("kidney_lesion"),
        ask.location("kidney_lesion", "left"),
        ask.count_in("kidney_lesion", "kidney_right"),
        ask.total("kidney", "kidney_left", "kidney_right"),
        ask.enlarged("spleen", 314.5, "above 314.5 cm³"),
        ask.fatty_liver(),
        ask.steatosis_grade(),
        ask.fatty_pancreas(),
        ask.kidney_lesion_type(),
        ask.renal_mass(),
    ]


def _further() -> list[Ask]:
    """Return the questions about vessels and about the pancreatic cyst."""
    first, second = Asker(FIRST_CASE), Asker(SECOND_CASE)
    return [
        first.beside(
            "pancreatic_lesion", "postcava", "aorta", "celiac_trunk", "superior_mesenteric_artery"
        ),
        second.cyst_resection(),
        second.pseudocyst(),
        second.resectable(),
        second.portal_hypertension(),
        second.lesion_volume("pancreatic_cyst", "cyst"),
    ]


def questions() -> list[Asked]:
    """Return all questions of both cases, in file order."""
    asks = [*_first_case(), *_second_case(), *_further()]
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
        "contrast": ask.case.phase.name,
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
    """Return which references are wrong on purpose, and which cannot be checked from masks."""
    return {
        "about": "References that are wrong on purpose, for people who check references; and "
        "questions whose mask is left out on purpose, so that nobody can check them.",
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
        "without_mask": [
            item.id
            for item in asked
            if item.ask.key.removeprefix("exists:") in item.ask.case.absent_masks
        ],
    }
