"""Sessions built by hand for the panel tests: no file is read, no viewer is opened."""

from pathlib import Path

import numpy as np
import pandas as pd

from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    GeometryWarning,
    Level,
    Mask,
    Region,
    Source,
    Volume,
)
from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Option,
    Outcome,
    Prediction,
    Question,
    Reference,
    Run,
    Score,
)
from napari_ctvqa.core.session import CaseState, Session

STAGES = ("recognition", "measurement", "visual reasoning", "medical reasoning")
SUBTYPES = ("liver lesion existence", "kidney volume", "lesion counting", "splenomegaly grading")
CASES = ("BDMAP_00000017", "BDMAP_00000451", "BDMAP_00002203")
FIRST_ID = "bench_00000"
SECRET = "QZ-REFERENCE-7731"
"""A reference text that occurs nowhere else, to be searched for where it must not be."""


def frame(count):
    """Rows of a question table without a Question behind any of them."""
    number = np.arange(count)
    return pd.DataFrame(
        {
            "id": [f"bench_{i:05d}" for i in range(count)],
            "case": np.array(CASES)[number % len(CASES)],
            "stage": np.array(STAGES)[number % len(STAGES)],
            "subtype": np.array(SUBTYPES)[number % len(SUBTYPES)],
            "text": [f"What is the volume of the left kidney, item {i}?" for i in range(count)],
        }
    )


def question(row=0, **changes):
    """A multiple-choice question of one row of ``frame``."""
    values = {
        "id": f"bench_{row:05d}",
        "case_id": CASES[row % len(CASES)],
        "text": "What is the volume of the left kidney in this CT?",
        "reference": Reference("154.2 cm³", "C"),
        "options": (
            Option("A", "98.4 cm³"),
            Option("B", "121.0 cm³"),
            Option("C", "154.2 cm³"),
            Option("D", "187.9 cm³"),
        ),
        "stage": STAGES[row % len(STAGES)],
        "subtype": SUBTYPES[row % len(SUBTYPES)],
        "answer_type": AnswerType.NUMERIC,
        "patient": {"sex": "Female", "age": "61", "contrast": "Venous"},
        "raw": {"qid": f"bench_{row:05d}", "answer": "154.2", "correct_option": "C"},
    }
    return Question(**{**values, **changes})


def question_set(count=82, build=question):
    return QuestionSet("deeptumorvqa", Path("made/test_qa.json"), frame(count), build)


def run(model, texts, path=None):
    predictions = {i: Prediction(i, model, text, seconds=1.4) for i, text in texts.items()}
    return Run(model, predictions, AnswerFormat.MC, path or f"/data/results/{model}.json")


def score(official, read, ours=None, our_read=None, value=None):
    return Score(official, read, ours or official, our_read or read, value)


def opened(count=82, **state):
    """A session with a benchmark open and two models' answers to its questions."""
    session = Session()
    outcomes = (Outcome.RIGHT, Outcome.WRONG, Outcome.UNREAD, Outcome.UNSCORED)
    ids = [f"bench_{i:05d}" for i in range(min(count, 60))]
    session.update(
        path=Path("made/test_qa.json"),
        questions=question_set(count),
        rows=np.arange(count),
        row=0,
        question=question(),
        runs={
            "m3d": run("m3d", {FIRST_ID: "Answer: C", **dict.fromkeys(ids[1:], "B")}),
            "Meissa-4B-oracle": run(
                "Meissa-4B-oracle",
                {FIRST_ID: "The measured volume is 121 cm³, so B."},
            ),
        },
        scores={
            "m3d": {
                FIRST_ID: score(Outcome.WRONG, "A", Outcome.RIGHT, "C"),
                **{i: score(outcomes[k % 4], "B") for k, i in enumerate(ids[1:])},
            },
            "Meissa-4B-oracle": {FIRST_ID: score(Outcome.WRONG, "B")},
        },
        case_state=CaseState.READY,
        case=case(),
    )
    session.update(**state)
    return session


# ------------------------------------------------------------------------ case


def grid(shape=(20, 16, 16)):
    return Grid(shape, np.diag([-3.0, -1.0, -1.0, 1.0]))


def mask(structure, empty=False):
    where = grid()
    if empty:
        region = Region(where, None, None, 0)
    else:
        box = (slice(4, 9), slice(2, 6), slice(2, 6))
        region = Region(where, box, np.ones((5, 4, 4), bool), 80)
    return Mask(structure, structure, Source.REFERENCE, region, region)


def case(level=Level.GREEN, masks=("kidney_left", "kidney_right"), complete=True, problems=None):
    """A case with a made volume and masks; ``level`` sets the traffic light."""
    messages = {
        Level.GREEN: (),
        Level.AMBER: (
            GeometryWarning(
                "qform_sform_differ",
                Level.AMBER,
                "qform and sform differ by 11.3°; the sform is used. Compare with the source.",
            ),
        ),
        Level.RED: (
            GeometryWarning(
                "codes_zero",
                Level.RED,
                "Both orientation codes are 0, so left and right are a guess. "
                "Export the CT again from its DICOM series.",
            ),
            GeometryWarning(
                "side_swapped", Level.RED, "kidney_left lies on the patient's right side."
            ),
        ),
    }
    report = GeometryReport(messages[level])
    array = np.zeros((20, 16, 16), np.int16)
    volume = Volume(array, grid(), array, grid(), report, Path("ct.nii.gz"), -1024, 1200)
    return Case(
        CaseFiles(CASES[0], Path("ct.nii.gz")),
        volume,
        {name: mask(name) for name in masks},
        report,
        problems=problems or {},
        complete=complete,
    )


# -------------------------------------------------------------------- evidence


def steps(volume=154.2, source="ct + segmentations/kidney_left.nii.gz"):
    return (
        EvidenceStep(
            StepKind.SEGMENT,
            "kidney_left",
            value="found",
            rule="mask file of the case",
            source=source,
            mask="kidney_left",
        ),
        EvidenceStep(
            StepKind.MEASURE,
            "kidney_left",
            "volume",
            volume,
            "cm³",
            "voxel count times voxel volume",
            source,
            mask="kidney_left",
            caveats=("touches the border of the volume",),
        ),
        EvidenceStep(
            StepKind.LOOKUP,
            "kidney volume, normal range",
            "range",
            "130 to 260 cm³",
            rule="single kidney",
            source="knowledge base",
            assumed=True,
        ),
    )


def chains(secret="", status=ChainStatus.AGREES):
    """Session state with a reference chain and two models' chains against it."""
    mine = steps(source=f"reference mask {secret}".strip())
    reference = EvidenceChain(
        FIRST_ID, "reference", mine, f"C · 154.2 cm³ {secret}".strip(), status, "within 0.1 %"
    )
    found, measured, looked = steps(121.0, "tool: measure")
    m3d = EvidenceChain(FIRST_ID, "m3d", (found, measured), "B", ChainStatus.DIFFERS, "says B")
    meissa = EvidenceChain(FIRST_ID, "Meissa-4B-oracle", (found,), "B", ChainStatus.DIFFERS)
    rows = (
        AlignedStep(mine[0], found, StepMatch.SAME),
        AlignedStep(mine[1], measured, StepMatch.WRONG_VALUE, -0.2153, secret),
        AlignedStep(mine[2], None, StepMatch.MISSING),
    )
    shorter = (
        AlignedStep(mine[0], found, StepMatch.SAME),
        AlignedStep(mine[1], None, StepMatch.MISSING),
        AlignedStep(mine[2], None, StepMatch.MISSING),
        AlignedStep(None, looked, StepMatch.EXTRA),
    )
    return {
        "reference_chain": reference,
        "model_chains": {"m3d": m3d, "Meissa-4B-oracle": meissa},
        "comparisons": {
            "m3d": ChainComparison(rows, 1),
            "Meissa-4B-oracle": ChainComparison(shorter, 1),
        },
    }


# ------------------------------------------------------------------- searching


def listener(signal):
    """Return the list that collects what a signal sends."""
    heard = []
    signal.connect(lambda *values: heard.append(values[0] if len(values) == 1 else values))
    return heard
