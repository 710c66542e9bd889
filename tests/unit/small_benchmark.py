"""A benchmark of a few phantom cases in DeepTumorVQA's layout, for the tests of ``run``."""

import json
from pathlib import Path

import numpy as np
import phantoms

_YES_NO = "A: Yes B: No"


def questions_of(case_id: str, start: int) -> list[dict]:
    """Nine questions about one phantom; references counted from its arrays and voxel size."""
    shown = phantoms.phantom()
    cm3 = float(np.prod(phantoms.SPACING_MM)) / 1000

    def volume(name: str) -> str:
        return f"{shown.masks[name].sum() * cm3:.1f}"

    rows = [
        ("liver lesion existence", "Does the liver have any lesion?", _YES_NO, "Yes", "A", "liver"),
        ("colon lesion existence", "Does the colon have a lesion?", _YES_NO, "No", "B", "colon"),
        *(
            (
                "organ volume measurement",
                f"What is the volume of the {text}?",
                f"A: {volume(name)} B: 1.0 C: 2.0 D: 3.0",
                volume(name),
                "A",
                organ,
            )
            for name, text, organ in (
                ("kidney_left", "left kidney", "kidney"),
                ("kidney_right", "right kidney", "kidney"),
                ("spleen", "spleen", "spleen"),
            )
        ),
        (
            "organ HU measurement",
            "What is the mean HU value of the liver?",
            "A: 10.0 B: 60.0 C: 55.0 D: 40.0",
            "60.0",
            "B",
            "liver",
        ),
        (
            "lesion counting",
            "How many liver lesion instances?",
            "A: 2 B: 1 C: 0 D: 4",
            "1",
            "B",
            "liver",
        ),
        (
            "splenomegaly grading",
            "How would you classify the splenic enlargement?",
            "A: Severe B: Mild C: Normal D: Moderate",
            "Normal",
            "C",
            "spleen",
        ),
        ("adjacent organ", "What borders it?", "A: colon B: spleen", "spleen", "B", "liver"),
    ]
    return [
        {
            "qid": f"q{start + number:06d}",
            "image_id": case_id,
            "spacing": "[3. 3.5 5.]",
            "shape": "(24, 20, 12)",
            "sex": None,
            "age": None,
            "question": text,
            "answer": answer,
            "mc_question": f"{text} {options}",
            "correct_option": letter,
            "organ": organ,
            "lesion": False,
            "question_type": "measurement",
            "question_subtype": subtype,
            "requires_tools": [],
        }
        for number, (subtype, text, options, answer, letter, organ) in enumerate(rows)
    ]


def write(root: Path, cases: int = 2, rounds: int = 1) -> Path:
    """Write cases and questions under ``root`` and return it.

    The cases take turns, so that the questions of one case do not follow each other.
    """
    ids = [f"BDMAP_{number:08d}" for number in range(1, cases + 1)]
    for case_id in ids:
        phantoms.save_case(root / "benchmark" / "ct" / case_id)
    rows: list[dict] = []
    for _ in range(rounds):
        for case_id in ids:
            rows += questions_of(case_id, len(rows))
    data = {"version": "test", "num_questions": len(rows), "questions": rows}
    (root / "benchmark" / "test_qa.json").write_text(json.dumps(data))
    return root
