"""What a model saw of the reference's masks, from a running answer or from what is kept."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.live import LiveRun
from napari_ctvqa.core.records import Prediction, Question, Reference, Run
from napari_ctvqa.core.saw import Sight
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners import sight
from napari_ctvqa.runners.sight import saw_reports

QUESTION = Question("q1", "c", "?", Reference("x"))


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch):
    monkeypatch.setattr(sight, "recorded_answers", lambda *_: ())


@pytest.fixture
def case(tmp_path):
    """A CT of 12 slices and one mask on display slices 2 to 5."""
    import nibabel as nib

    folder = tmp_path / "c"
    (folder / "segmentations").mkdir(parents=True)
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    nib.save(nib.Nifti1Image(np.zeros((20, 20, 12), np.int16), affine), folder / "ct.nii.gz")
    mask = np.zeros((20, 20, 12), np.uint8)
    mask[4:10, 4:10, 6:10] = 1  # file slices 6 to 9 from below: display 2 to 5 from above
    nib.save(nib.Nifti1Image(mask, affine), folder / "segmentations" / "spleen.nii.gz")
    return read_case(find_case(folder))


def chain():
    step = EvidenceStep(StepKind.SEGMENT, "spleen", mask="spleen")
    return EvidenceChain("q1", "reference", (step, step))


def prepared(*slices):
    whole = np.zeros((20, 20, 3), np.uint8)
    pictures = tuple(
        Picture(whole, f"SLICE {z}", np.array([[0.0, 0, z], [1, 0, 0], [0, 1, 0]])) for z in slices
    )
    return Prepared(Ask((Message("user", pictures),)))


def report(case, sent, live=True):
    run = LiveRun("q1", "m", sent=sent, text="words") if live else None
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, chain(), {}, run)
    return found


@pytest.mark.parametrize(
    ("slices", "expected", "sent"),
    [
        (range(12), Sight.WHOLE, 4),
        ((0, 3, 4, 11), Sight.PARTLY, 2),
        ((0, 1, 6, 11), Sight.NOT, 0),  # the mask lies on 2 to 5
    ],
)
def test_slices_that_were_sent_decide_what_was_seen(case, slices, expected, sent):
    found = report(case, (prepared(*slices),))
    (spleen,) = found.sights  # one mask, though two steps name it
    assert (spleen.sight, spleen.slices, spleen.slices_sent) == (expected, 4, sent)
    assert (found.model, found.words) == ("m", "words")


def test_pictures_of_all_turns_count(case):
    assert report(case, (prepared(0), prepared(2, 3, 4, 5))).sights[0].sight is Sight.WHOLE


def test_without_a_case_or_pictures_nothing_is_said(case):
    assert report(None, (prepared(0),)).sights == ()
    assert report(case, ()).sights == ()


def test_what_is_kept_of_an_answer_is_read_and_damage_is_told(case, tmp_path, monkeypatch):
    monkeypatch.setattr(sight, "has_seen", lambda path, key: path.name == "kept.json")
    kept = SimpleNamespace(requests=(SimpleNamespace(prepared=prepared(3)),))
    monkeypatch.setattr(sight, "read_seen", lambda path, key: kept)
    answers = {"q1": Prediction("q1", "m", "Left.")}
    runs = {
        "other": Run("other", answers, path=str(Path("other.json"))),
        "m": Run("m", answers, path=str(tmp_path / "kept.json")),
    }
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, chain(), runs, None)
    assert (found.model, found.words, len(found.sent)) == ("m", "Left.", 1)
    assert found.sights[0].sight is Sight.PARTLY

    def damaged(path, key):
        from napari_ctvqa.core.errors import InputFileError

        raise InputFileError(path, "is damaged.", hint="Run it again.")

    monkeypatch.setattr(sight, "read_seen", damaged)
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, chain(), runs, None)
    assert "is damaged" in found.problem
    assert found.sent == ()


def test_the_running_answer_of_another_question_is_not_this_one_s(case):
    other = LiveRun("q2", "m", sent=(prepared(3),))
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, chain(), {}, other)
    assert found.sent == ()
    same = replace(other, question_id="q1")
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, chain(), {}, same)
    assert len(found.sent) == 1
