"""The shipped toy model, loaded as any other and asked about bodies that it has never seen."""

import json
import sys
from types import SimpleNamespace

import pytest
from project_file import ROOT

pytest.importorskip("torch", reason="the toy model needs the packages of the 'local' extra")
pytest.importorskip("transformers", reason="the toy model needs the packages of the 'local' extra")
sys.path.insert(0, str(ROOT / "scripts"))

import torch
from demo_model import evaluation
from demo_model.bodies import ASKED, bodies
from demo_model.pool import MIDLINE_MM, SEEN_MM2, lesion_areas_mm2
from demo_model.wordings import SIDE_ANY
from PIL import Image
from scipy import stats

from napari_ctvqa.core.records import AnswerFormat, Question, Reference
from napari_ctvqa.demo import ensure_demo, files
from napari_ctvqa.demo.parameters import FIRST_CASE, SHAPE_KJI, SPACING_MM_KJI
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models import _pictures
from napari_ctvqa.models.chat_image import ChatImage

FOLDER = ROOT / "resources" / "demo_model"
EACH, BODIES = 60, 14
"""A sample; the 200 a task of the card are asked by the script that trains the model."""
SEED = 5_000_000
"""Other bodies than those of the card, and far from those of training."""
LEAST = {"side": 0.95, "presence": 0.95, "slice": 0.95, "organ": 0.90}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def scores():
    return evaluation.score(FOLDER, BODIES, EACH, SEED)


@pytest.fixture(scope="module")
def asker():
    return evaluation.Asker(FOLDER)


def likely(counted, share):
    """Whether so few right answers would be seen once in a thousand samples of such a model."""
    return stats.binom.cdf(counted.right, counted.total, share) > 0.001


@pytest.mark.parametrize("task", LEAST)
def test_right_on_unseen_bodies(scores, task):
    counted = scores.tasks[task]
    assert counted.total >= EACH
    assert likely(counted, LEAST[task]), counted.wrong


@pytest.mark.parametrize("task", LEAST)
def test_the_card_states_200_a_task_and_blank_pictures(task):
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))
    stated, blank = card["scores"][task], card["blank"][task]
    assert stated["total"] >= 200 and blank["total"] >= 200
    assert stated["right"] / stated["total"] >= LEAST[task]
    assert blank["right"] / blank["total"] <= card["chance"][task] + 0.10


@pytest.mark.parametrize("task", ["side", "presence", "slice", "organ"])
def test_blank_pictures_are_guessed_at_best(scores, task):
    """What is right without a look at the picture was read from the question."""
    assert scores.blank[task].share <= scores.chance[task] + 0.15


def test_mirrored_bodies_flip_the_side(scores):
    assert likely(scores.turned, LEAST["side"]), scores.turned.wrong
    assert scores.mistaken.share <= 0.15


def test_tool_calls_and_answers_from_results(scores):
    """Long numbers are copied with a wrong digit at times: the card says how often."""
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))["tools"]
    assert likely(scores.tools["tool call"], 0.95), scores.tools["tool call"].wrong
    for name, counted in scores.tools.items():
        stated = card[name]
        assert likely(counted, stated["right"] / stated["total"] - 0.02), (name, counted.wrong)


def test_the_card_says_what_is_found(scores):
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))
    assert card["toy"] is True
    for task, counted in scores.tasks.items():
        stated = card["scores"][task]
        assert likely(counted, stated["right"] / stated["total"] - 0.02), task


def _case(folder, body):
    """Write a body as a case of NIfTI files and read it as the program does."""
    (folder / "segmentations").mkdir(parents=True)
    files.write_ct(folder / "ct.nii.gz", body.hu_zyx[::-1])
    for number, name in enumerate(("liver", "kidney_left", "kidney_right", "spleen"), start=1):
        whole = body.organs_zyx[::-1] == number
        files.write_mask(
            folder / "segmentations" / f"{name}.nii.gz",
            SimpleNamespace(box=(slice(None),) * 3, crop=whole),
        )
    return read_case(find_case(folder))


@pytest.fixture(scope="module")
def sided(tmp_path_factory):
    """Return cases with a slice that shows one lesion, and its side by the parameters."""
    found = []
    for body in bodies(SEED + 1000, 8, 1, ASKED):
        (lesion,) = body.lesions
        z = len(body.hu_zyx) - 1 - lesion.centre_slice
        shown = lesion_areas_mm2(body)[z, 0] >= SEEN_MM2
        if abs(lesion.centre_mm[0]) < MIDLINE_MM + SPACING_MM_KJI[2] or not shown:
            continue
        case = _case(tmp_path_factory.mktemp("case") / f"body_{body.seed}", body)
        found.append((case, z, "Left." if lesion.centre_mm[0] > 0 else "Right."))
    assert {side for *_, side in found} == {"Left.", "Right."}
    return found


def _said(asker, case, *slices, text=SIDE_ANY[0]):
    """Return what the model says of display slices, asked through the program's own family."""
    family = ChatImage()
    question = Question("q", case.case_id, text, Reference(""))
    prepared = family.prepare(
        family.presets["toy"], question, case, AnswerFormat.FREEFORM, {"slices": list(slices)}
    )
    parts = []
    for part in prepared.ask.messages[-1].parts:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        else:
            parts.append({"type": "image", "image": Image.fromarray(part.pixels)})
    return asker.answers([[{"role": "user", "content": parts}]], 12)[0]


def test_side_through_files_reader_and_family(asker, sided):
    """From the file on disk to the word: the side is the patient's, by the parameters alone."""
    said = [(_said(asker, case, z), side) for case, z, side in sided]
    wrong = [pair for pair in said if pair[0] != pair[1]]
    assert len(wrong) <= len(said) // 8, said


def test_a_mirrored_preprocessing_is_caught(asker, sided, monkeypatch):
    """The check above must fail where the pictures are mirrored on their way."""
    honest = _pictures.windowed
    monkeypatch.setattr(_pictures, "windowed", lambda hu, w: honest(hu, w)[:, ::-1])
    said = [(_said(asker, case, z), side) for case, z, side in sided]
    right = [pair for pair in said if pair[0] == pair[1]]
    assert len(right) <= len(said) // 8, said


@pytest.fixture(scope="module")
def demo():
    return read_case(find_case(ensure_demo() / "benchmark" / "ct" / FIRST_CASE.case_id))


def _slice_of(name):
    """The display slice through the middle of one of the demo's lesions, by its parameters."""
    (lesion,) = [lesion for lesion in FIRST_CASE.lesions if lesion.name == name]
    return SHAPE_KJI[0] - 1 - lesion.centre_slice


LIVER, LEFT, RIGHT = map(
    _slice_of, ("liver lesion A", "cyst of the left kidney", "tumour of the right kidney")
)
CLEAR = [10, 25, 105]
"""Display slices of the demo without a lesion."""


@pytest.mark.parametrize(
    ("slices", "text", "answer"),
    [
        ([LEFT], "On which side is the kidney lesion?", "Left."),
        ([RIGHT], "On which side is the kidney lesion?", "Right."),
        ([LIVER], "On which side is the lesion?", "Right."),
        ([LIVER], "Is there a lesion in the liver?", "Yes."),
        ([RIGHT], "Is there a lesion in the kidneys?", "Yes."),
        (CLEAR, "Is there a lesion?", "No."),
        ([LIVER], "Which organ has the lesion?", "Liver."),
        ([LEFT], "Which organ has the lesion?", "Left kidney."),
        ([RIGHT], "Which organ has the lesion?", "Right kidney."),
        ([*CLEAR[:2], LEFT, CLEAR[2]], "On which slice is the lesion?", "SLICE 3"),
        ([*CLEAR[:2], LIVER, CLEAR[2]], "On which slice is the liver lesion?", "SLICE 3"),
    ],
)
def test_the_demo_s_own_lesions(asker, demo, slices, text, answer):
    assert _said(asker, demo, *slices, text=text) == answer
