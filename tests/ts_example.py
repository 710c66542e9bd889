"""Questions in DeepTumorVQA's layout about the real CT of the trunk, references by SimpleITK."""

import json

import numpy as np
import pytest

from napari_ctvqa.core import names

CASE_ID = "BDMAP_00000042"
ORGANS = (
    "liver", "spleen", "pancreas", "stomach", "gallbladder", "kidney_left", "kidney_right", "aorta",
    "inferior_vena_cava", "colon", "duodenum", "small_bowel", "urinary_bladder", "prostate",
    "adrenal_gland_left", "adrenal_gland_right", "iliopsoas_left", "iliopsoas_right",
    "portal_vein_and_splenic_vein", "sacrum",
)  # fmt: skip
CUT = ("liver", "spleen", "stomach")


def measure_organs(real_data):
    """(volume in cm³, mean HU) of every organ by SimpleITK; it knows nothing of our code."""
    sitk = pytest.importorskip("SimpleITK")
    folder = real_data / "ts_example"
    ct = sitk.ReadImage(str(folder / "ct.nii.gz"))
    found = {}
    for organ in ORGANS:
        mask = sitk.ReadImage(str(folder / "segmentations" / f"{organ}.nii.gz"))
        statistics = sitk.LabelStatisticsImageFilter()
        statistics.Execute(ct, sitk.Cast(mask > 0, sitk.sitkUInt8))
        voxel_mm3 = float(np.prod(ct.GetSpacing()))
        found[organ] = (statistics.GetCount(1) * voxel_mm3 / 1000, statistics.GetMean(1))
    return found


def options(right, wrong, position):
    texts = [*wrong[:position], right, *wrong[position:]]
    letters = "ABCD"[: len(texts)]
    inline = " ".join(f"{letter}: {text}" for letter, text in zip(letters, texts, strict=True))
    return inline, letters[position]


def number_question(subtype, text, value, organ, position):
    right = f"{value:.1f}"
    wrong = [f"{value * factor + 1:.1f}" for factor in (0.7, 1.25, 1.6)]
    return subtype, text, right, options(right, wrong, position % 4), organ


def grade(volume_cm3):
    grades = ["Normal (no splenomegaly)", "Mild", "Moderate", "Severe"]
    right = grades[sum(volume_cm3 > bound for bound in (314.5, 500, 800))]
    return right, [g for g in grades if g != right]


def write_benchmark(real_data, measured, root):
    """Write a question file beside a case folder that holds ts_example; return the root."""
    folder = root / "benchmark" / "ct"
    folder.mkdir(parents=True)
    (folder / CASE_ID).symlink_to(real_data / "ts_example", target_is_directory=True)
    rows = []
    for number, (organ, (volume, hu)) in enumerate(measured.items()):
        label = names.label(names.canonical(organ))
        rows.append(
            number_question(
                "organ volume measurement",
                f"What is the volume of the {label}?",
                volume,
                organ.removesuffix("_left").removesuffix("_right"),
                number,
            )
        )
        rows.append(
            number_question(
                "organ HU measurement",
                f"What is the mean HU value of the {label}?",
                hu,
                organ,
                number + 1,
            )
        )
    spleen = measured["spleen"][0]
    left, right = measured["kidney_left"][0], measured["kidney_right"][0]
    side, other = ("left", "right") if left > right else ("right", "left")
    enlarged = "Yes" if spleen > 314.5 else "No"
    answers = grade(spleen)
    rows += [
        ("splenomegaly detection", "Is the spleen enlarged?", enlarged,
         options(enlarged, ["No" if enlarged == "Yes" else "Yes"], 1), "spleen"),
        ("splenomegaly grading", "How would you classify the splenic enlargement based on volume?",
         answers[0], options(answers[0], answers[1], 2), "spleen"),
        ("kidney volume comparison", "Pick the kidney that is bigger in size:", f"{side} kidney",
         options(f"{side} kidney", [f"{other} kidney", "the same"], 1), "kidney"),
        ("kidney volume comparison", "Which kidney is smaller?", f"{other} kidney",
         options(f"{other} kidney", [f"{side} kidney", "the same"], 0), "kidney"),
    ]  # fmt: skip
    records = [
        {
            "qid": f"bench_{number:05d}",
            "image_id": CASE_ID,
            "spacing": "[3. 3. 3.]",
            "shape": "(122, 101, 112)",
            "sex": None,
            "age": None,
            "question": text,
            "answer": answer,
            "mc_question": f"{text} {inline}",
            "correct_option": letter,
            "organ": organ,
            "lesion": False,
            "question_type": "measurement",
            "question_subtype": subtype,
            "requires_tools": ["segment_organ", "measure"],
        }
        for number, (subtype, text, answer, (inline, letter), organ) in enumerate(rows)
    ]
    data = {"version": "2.0", "num_questions": len(records), "questions": records}
    (root / "benchmark" / "test_qa.json").write_text(json.dumps(data))
    return root
