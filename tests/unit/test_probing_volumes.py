"""Probes of models that get a volume: what reaches the tensor, what is refused, where it lies.

A stand-in looks at the tensor alone: it says on which side of it something bright lies.
"""

import json
from dataclasses import replace

import numpy as np
import phantoms
import pytest
import small_benchmark
from scripted_models import ScriptedWay

from napari_ctvqa.core.changed_asks import fingerprint, placed
from napari_ctvqa.core.changed_cases import blank, mirrored, regridded
from napari_ctvqa.core.events import Done, Segmented
from napari_ctvqa.core.model_volumes import box_zyx, region_of_mask, slice_pictures
from napari_ctvqa.core.records import AnswerFormat, Option, Question, Reference
from napari_ctvqa.core.volume_grounding import box_text, volume_boxes
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models._volumes import as_filed
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probing import read_probe_answers, run_probes

MC = AnswerFormat.MC
PRESETS = {
    "m3d": "m3d-phi3", "med3dvlm": "med3dvlm", "radfm": "radfm", "merlin": "merlin",
    "ct-chat": "ct-chat-8b",
}  # fmt: skip
LARGE = pytest.param("ct-chat", "ct-chat", marks=pytest.mark.slow)  # 55 million voxels
RECIPES = [
    ("m3d", "m3d"), ("m3d", "m3d-window"), ("m3d", "m3d-seg"), ("m3d", "ct-spatialvqa"),
    ("med3dvlm", "app"), ("radfm", "radfm"), ("merlin", "merlin"),
    pytest.param("radfm", "ct-spatialvqa", marks=pytest.mark.slow), LARGE,
]  # fmt: skip
BRIGHT_HU, SEEN_HU = 800, 240
SIDE, PRESENCE = "q000000", "q000001"
ASKED = [
    ("lesion side", "On which side is the liver lesion?", "A: Left B: Right", "Right", "B"),
    ("liver lesion existence", "Does the liver have any lesion?", "A: Yes B: No", "Yes", "A"),
]


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One case with a bright lesion in the liver, on the patient's right, and two questions."""
    root = small_benchmark.write(tmp_path_factory.mktemp("volumes"), cases=1)
    shown = phantoms.phantom()
    shown.ct[shown.ct == 300] = 40  # the rod in the spine
    shown.ct[shown.masks["liver_lesion"] > 0] = BRIGHT_HU
    folder = next((root / "benchmark" / "ct").iterdir())
    phantoms.save_case(folder, shown, "PIL")
    path = root / "benchmark" / "test_qa.json"
    data = json.loads(path.read_text())
    rows = []
    for row, (subtype, text, options, answer, letter) in zip(
        data["questions"], ASKED, strict=False
    ):
        rows.append(
            {**row, "question": text, "mc_question": f"{text} {options}", "answer": answer,
             "correct_option": letter, "question_subtype": subtype, "organ": "liver",
             "lesion": True}
        )  # fmt: skip
    path.write_text(json.dumps({**data, "questions": rows, "num_questions": len(rows)}))
    return root


@pytest.fixture(scope="module")
def case(bench):
    return read_case(find_case(next((bench / "benchmark" / "ct").iterdir())))


def bright(volume):
    """Return where the tensor is bright, by its own scaling."""
    low, high = volume.low_high
    window_low, window_high = volume.window_hu
    hu = (volume.values - low) / ((high - low) or 1) * (window_high - window_low) + window_low
    return hu > SEEN_HU


def looks(ask):
    """Answer from the tensor and the letters of the options, as a model that looks does."""
    seen, text = bright(ask.volume), ask.messages[-1].text
    if "which side" not in text:
        return "A" if seen.any() else "B"
    if not seen.any():
        return "A"
    axis = next(n for n, letter in enumerate(ask.volume.axes) if letter in "RL")
    at = np.argwhere(seen)[:, axis].mean() / seen.shape[axis] > 0.5
    return "B" if at == (ask.volume.axes[axis] == "R") else "A"


def answerer(family, recipe="", say=looks, **settings):
    found = families()[family]
    way = ScriptedWay(say)
    settings = {"recipe": recipe, **settings} if recipe else settings
    made = ModelAnswerer("m", "M", found, found.presets[PRESETS[family]], way, settings=settings)
    return made, way


def probed(bench, model, out, probes, rows=(0, 1)):
    steps = run_probes(open_path(bench), model, MC, out, rows=rows, probes=tuple(probes))
    last = list(steps)[-1]
    answers = {(a.question_id, a.probe): a for a in read_probe_answers(out)}
    return last, answers


@pytest.mark.parametrize(("family", "recipe"), RECIPES)
def test_a_volume_model_that_looks_is_seen_to(bench, tmp_path, family, recipe):
    model, way = answerer(family, recipe)
    last, found = probed(bench, model, tmp_path / "p.json", ["mirrored", "lesion_removed", "blank"])
    assert last.failed == 0 and len(way.asks) == 8
    assert found[SIDE, "mirrored"].original == "right" and found[SIDE, "mirrored"].said == "left"
    assert found[SIDE, "mirrored"].verdict.value == "as it must"
    assert found[PRESENCE, "mirrored"].verdict.value == "as it must"
    assert found[PRESENCE, "lesion_removed"].original == "yes"
    assert found[PRESENCE, "lesion_removed"].said == "no"
    emptied = way.asks[-1].volume
    assert np.isfinite(emptied.values).all()
    of_the_ct = emptied.values[tuple(slice(*ends) for ends in emptied.inner)]
    assert np.ptp(of_the_ct) < 1e-6, "nothing is left in it"


@pytest.mark.parametrize(("family", "recipe"), [*RECIPES[:-1]])
def test_another_grid_reaches_the_tensor_and_keeps_what_it_shows(bench, tmp_path, family, recipe):
    model, way = answerer(family, recipe)
    last, found = probed(bench, model, tmp_path / "p.json", ["coarser", "finer"], rows=(0,))
    assert last.failed == 0 and len(way.asks) == 3
    first, *others = (ask.volume for ask in way.asks)
    assert all(
        one.shape != first.shape or not np.array_equal(one.values, first.values) for one in others
    )
    assert all(answer.verdict.value == "as it must" for answer in found.values())


@pytest.mark.parametrize("family", ["m3d", "med3dvlm", "radfm", "merlin"])
def test_what_is_of_pictures_is_refused_with_the_reason(bench, tmp_path, family):
    model, way = answerer(family)
    probes = ["window", "slices", "coronal", "overlay", "box", "point", "label", "tools_predicted"]
    last, found = probed(bench, model, tmp_path / "p.json", probes, rows=(0,))
    assert last.failed == 0 and len(way.asks) == 1, "the same is not asked again"
    reasons = {probe: found[SIDE, probe].reason for probe in probes}
    assert all(found[SIDE, probe].verdict.value == "not made" for probe in probes)
    assert way.asks[0].volume.scaling in reasons["window"]
    assert "no other slices" in reasons["slices"] and "not as slices" in reasons["coronal"]
    assert {reasons[mark] for mark in probes[3:7]} == {
        "It gets the CT as one volume: there is no picture to mark."
    }


def test_words_and_options_are_changed_of_a_volume_model_too(bench, tmp_path):
    model, way = answerer("m3d")
    _, found = probed(bench, model, tmp_path / "p.json", ["shuffled", "reworded"], rows=(1,))
    original, shuffled, reworded = way.asks
    assert original.volume is shuffled.volume is reworded.volume, "made once"
    assert "A. No B. Yes" in shuffled.messages[-1].text
    assert all(not answer.reason for answer in found.values())


def test_a_lesion_that_the_tensor_does_not_hold_cannot_be_taken_out_of_it(tmp_path):
    """Merlin takes the middle 48 cm: what is outside is asked about, and not shown."""
    root = small_benchmark.write(tmp_path / "wide", cases=1)
    shown = phantoms.phantom()
    moved = shown.affine.copy()
    moved[:3, :3] = np.diag([3.0, 3.5, 60.0])  # 72 cm from head to foot
    masks = {name: np.zeros_like(mask) for name, mask in shown.masks.items()}
    masks["liver"][4:12, 6:12, 0:3] = 1
    masks["liver_lesion"][6:8, 8:10, 0] = 1
    shown = replace(shown, affine=moved, masks=masks)
    shown.ct[masks["liver_lesion"] > 0] = BRIGHT_HU
    phantoms.save_case(next((root / "benchmark" / "ct").iterdir()), shown)
    model, way = answerer("merlin", say="A")
    last, found = probed(root, model, tmp_path / "p.json", ["lesion_removed"], rows=(0,))
    reason = found["q000000", "lesion_removed"].reason
    assert last.failed == 0 and len(way.asks) == 1 and "stays the same" in reason


# ------------------------------------------------------------------------------- where it lies


def made(family, case, recipe=""):
    found = families()[family]
    question = Question(
        "q", case.case_id, ASKED[0][1], Reference("Right", "B"),
        options=(Option("A", "Left"), Option("B", "Right")),
    )  # fmt: skip
    settings = {"recipe": recipe} if recipe else {}
    return found.prepare(found.presets[PRESETS[family]], question, case, MC, settings)


CHANGES = {"mirrored": mirrored, "coarser": lambda case: regridded(case, 1.5),
           "finer": lambda case: regridded(case, 2 / 3)}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("family", "recipe"), RECIPES[:-1])
def test_what_comes_back_of_a_changed_case_lands_on_the_lesion(case, family, recipe, change):
    """A mask and a box around what is bright in the tensor, within one voxel of the model's."""
    changed = CHANGES[change](case)
    sent = made(family, changed.case, recipe)
    there = placed(sent, changed.to_original).ask.volume
    grid = case.volume.display_grid
    seen = bright(there)
    lesion = case.masks["liver_lesion"].region
    region = region_of_mask(there, seen, grid)
    at = np.argwhere(seen)
    low, high = box_zyx(there, at.min(axis=0) - 0.5, at.max(axis=0) + 0.5, grid)
    steps = np.abs(there.index_from_voxel[:3, :3]).max(axis=1)
    near = steps + (2.0 if change != "mirrored" else 1.0)  # resampling blurs by a voxel
    for axis, box in enumerate(lesion.box_zyx):
        assert abs(region.box_zyx[axis].start - box.start) <= near[axis]
        assert abs(region.box_zyx[axis].stop - box.stop) <= near[axis]
        assert abs(low[axis] + 0.5 - box.start) <= near[axis]
        assert abs(high[axis] + 0.5 - box.stop) <= near[axis]
    middle = sum(s.start + s.stop for s in region.box_zyx[2:]) / 2
    assert middle < grid.shape_zyx[2] / 2, "display columns run to the patient's left"


def test_a_mirrored_volume_is_named_after_the_patient_s_sides(case):
    changed = mirrored(case)
    sent = made("m3d", changed.case)
    there = placed(sent, changed.to_original).ask.volume
    assert (sent.ask.volume.axes, there.axes) == ("SPL", "SPR")
    grid = case.volume.display_grid
    assert there.spacing_mm(grid) == sent.ask.volume.spacing_mm(grid)
    assert there.crop_voxels[:2] == sent.ask.volume.crop_voxels[:2]
    count = grid.shape_zyx[2]
    first, last = sent.ask.volume.crop_voxels[2]
    assert there.crop_voxels[2] == (count - last, count - first)
    pictures = slice_pictures(there)
    assert pictures[0].index_from_pixel[2, 1] < 0, "its columns run to the patient's right"


def test_the_box_of_an_answer_to_a_mirrored_case_is_on_the_lesion_s_side(case):
    changed = mirrored(case)
    there = placed(made("m3d", changed.case), changed.to_original).ask.volume
    at = np.argwhere(bright(there))
    text = f"It is here: {box_text(at.min(axis=0), at.max(axis=0), there.shape)}"
    (box,) = volume_boxes(text, there, case.volume.display_grid).placed
    lesion = case.masks["liver_lesion"].region.box_zyx
    assert box.low_zyx[2] < lesion[2].stop and box.high_zyx[2] > lesion[2].start
    assert box.high_zyx[2] < case.volume.display_grid.shape_zyx[2] / 2


def test_a_coarser_volume_has_its_millimetres_on_either_grid(case):
    changed = regridded(case, 1.5)
    sent = made("merlin", changed.case).ask.volume
    there = placed(made("merlin", changed.case), changed.to_original).ask.volume
    ours, theirs = case.volume.display_grid, changed.case.volume.display_grid
    assert np.allclose(there.spacing_mm(ours), sent.spacing_mm(theirs))
    corner = [3, 5, 7]
    assert np.allclose(there.ras_mm(corner, ours), sent.ras_mm(corner, theirs))


@pytest.mark.parametrize("axcodes", ["LPS", "PIL", "SRA", "IAR"])
def test_a_coarser_grid_keeps_the_file_s_order_and_no_slice_of_it(tmp_path, axcodes):
    """Recipes that take the voxels as the file holds them go by its axes."""
    case = read_case(find_case(phantoms.save_case(tmp_path / "case", axcodes=axcodes)))
    changed = regridded(case, 1.5).case
    ours, theirs = (as_filed(one.volume, "kji", "M") for one in (case, changed))
    assert theirs.axes == ours.axes == axcodes[::-1]
    step = ours.index_from_voxel[:3, :3]
    assert np.array_equal(step, theirs.index_from_voxel[:3, :3])
    assert np.allclose(np.multiply(ours.spacing_mm, 1.5), theirs.spacing_mm)
    assert changed.volume.grid.file is None and changed.volume.grid.file_slice(0, 3) is None


def test_the_same_numbers_at_another_place_are_the_same_to_a_model(case):
    emptied = blank(case)
    one = made("m3d", emptied.case).ask
    other = made("m3d", regridded(emptied.case, 1.5).case).ask
    assert not np.array_equal(one.volume.index_from_voxel, other.volume.index_from_voxel)
    assert fingerprint(one) == fingerprint(other)


def test_a_mask_that_comes_back_under_a_probe_is_said_not_to_be_kept(bench, tmp_path):
    class Outlining(ScriptedWay):
        def ask(self, ask, cancelled):
            self.asks.append(ask)
            yield Segmented(bright(ask.volume).astype(np.uint8))
            yield Done("It is left.", (), "stop")

    model, _ = answerer("m3d", segment=True)
    model.way = Outlining("")
    out = tmp_path / "p.json"
    probed(bench, model, out, ["mirrored", "shuffled", "coarser"], rows=(0,))
    rows = {row["probe"]: row for row in json.loads(out.read_text())["results"]}
    assert "outlined" in rows["original"]["note"] and "not kept" in rows["original"]["note"]
    for probe in ("mirrored", "coarser"):
        assert "of the changed CT and has no place in this one" in rows[probe]["note"]
    assert "not kept" in rows["shuffled"]["note"] and "changed" not in rows["shuffled"]["note"]
