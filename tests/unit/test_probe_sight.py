"""What was sent under a probe is made again: the very pictures, at their place, or a sentence."""

import json

import numpy as np
import phantoms
import pytest
import small_benchmark
from scripted_models import ScriptedWay

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.result_journal import partial_of
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.choices import KitOfCase
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probe_sight import ANOTHER, NO_MODEL, probe_sight
from napari_ctvqa.runners.probing import run_probes

MC = AnswerFormat.MC
PROBES = (
    *("mirrored", "lesion_removed", "blank", "window", "slices", "coronal", "coarser", "finer"),
    *("overlay", "box", "shuffled", "reworded"),
)


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return open_path(small_benchmark.write(tmp_path_factory.mktemp("sight") / "bench", cases=1))


@pytest.fixture(scope="module")
def case(opened):
    return read_case(opened.case_files("BDMAP_00000001"))


def answerer(family="chat-image", preset="qwen3-vl", **options):
    found = families()[family]
    way = ScriptedWay("A")
    return ModelAnswerer("m", "M", found, found.presets[preset], way, **options), way


def probed(opened, model, out, probes=PROBES):
    list(run_probes(opened, model, MC, out, rows=[0], probes=probes))


def seen(opened, case, out, probe):
    (sight,) = probe_sight(out, opened.questions[0], case, probe)
    return sight


def name_of(family):
    return next(name for name, one in families().items() if family in one.presets)


def test_the_pictures_are_those_that_were_sent(opened, case, tmp_path):
    out = tmp_path / "p.json"
    model, way = answerer(name_of("qwen3-vl"), settings={"max_slices": 4, "size_px": 48})
    probed(opened, model, out)
    assert len(way.asks) == 1 + len(PROBES)
    for probe, ask in zip(PROBES, way.asks[1:], strict=True):
        sight = seen(opened, case, out, probe)
        assert not sight.problem and (sight.question_id, sight.probe) == ("q000000", probe)
        assert len(sight.pictures) == len(ask.pictures) > 0
        for shown, sent in zip(sight.pictures, ask.pictures, strict=True):
            assert np.array_equal(shown.pixels, sent.pixels) and shown.label == sent.label


def test_a_mirrored_picture_leads_to_the_voxels_that_it_shows(opened, case, tmp_path):
    out = tmp_path / "p.json"
    settings = {"max_slices": 3, "size_px": None, "windows_hu": [[-1000, 1000]]}
    model, _ = answerer(name_of("qwen3-vl"), settings=settings)
    probed(opened, model, out, ["mirrored"])
    for picture in seen(opened, case, out, "mirrored").pictures:
        row, column = np.mgrid[: picture.pixels.shape[0], : picture.pixels.shape[1]]
        at = np.rint(picture.index_zyx(row, column)).astype(int)
        inside = ((at >= 0) & (at < case.volume.array_zyx.shape)).all(axis=-1)
        hu = case.volume.array_zyx[tuple(at[inside].T)].astype(float)
        grey = picture.pixels[..., 0][inside]
        assert np.abs(np.clip((hu + 1000) / 2000, 0, 1) * 255 - grey).max() <= 1
        assert picture.index_from_pixel[2, 1] < 0, "its columns run to the patient's right"


def test_a_mirrored_volume_is_shown_at_its_place(opened, case, tmp_path):
    out = tmp_path / "p.json"
    model, way = answerer("m3d", "m3d-phi3")
    probed(opened, model, out, ["mirrored"])
    sight = seen(opened, case, out, "mirrored")
    assert len(sight.pictures) == 32 and "mirrored" in sight.changed
    values = way.asks[1].volume.values[16]
    grey = np.rint(np.clip(values, 0, 1) * 255)
    assert np.abs(sight.pictures[16].pixels[..., 0] - grey).max() <= 1
    assert sight.pictures[0].index_from_pixel[2, 1] < 0


def test_another_ct_is_not_shown_as_what_was_sent(opened, tmp_path):
    out = tmp_path / "p.json"
    model, _ = answerer(name_of("qwen3-vl"))
    probed(opened, model, out, ["mirrored", "coarser"])
    shown = phantoms.phantom()
    shown.ct[10, 10, :] += 300
    folder = phantoms.save_case(tmp_path / "BDMAP_00000001", shown)
    other = read_case(find_case(folder))
    sight = seen(opened, other, out, "mirrored")
    assert sight.problem == ANOTHER and not sight.pictures


def test_what_was_not_asked_of_pictures_says_so(opened, case, tmp_path):
    rules, words = tmp_path / "rules.json", tmp_path / "words.json"
    probed(opened, MODEL, rules, ["mirrored"])
    assert seen(opened, case, rules, "mirrored").problem == NO_MODEL
    assert seen(opened, case, tmp_path / "none.json", "mirrored").problem == NO_MODEL
    model, _ = answerer(name_of("qwen3-vl"), settings={"max_slices": 4})
    probed(opened, model, words, ["axial", "tools_predicted"])
    assert "does not say" in seen(opened, case, words, "axial").problem, "it was not made"
    assert "tools are changed" in seen(opened, case, words, "tools_predicted").problem


def test_a_preset_that_is_not_here_is_named(opened, case, tmp_path):
    out = tmp_path / "p.json"
    model, _ = answerer(name_of("qwen3-vl"))
    probed(opened, model, out, ["mirrored"])
    out.write_text(out.read_text().replace('"name": "qwen3-vl"', '"name": "gone"'))
    assert "'gone'" in seen(opened, case, out, "mirrored").problem


def test_what_is_still_in_the_journal_is_found(opened, case, tmp_path):
    out = tmp_path / "p.json"
    model, _ = answerer(name_of("qwen3-vl"))
    steps = run_probes(opened, model, MC, out, rows=[0], probes=("mirrored", "blank"))
    while next(steps).done < 2:
        pass
    assert not out.exists() and partial_of(out).exists()
    assert seen(opened, case, out, "mirrored").pictures
    steps.close()


def test_an_agent_s_first_pictures_are_shown_as_the_first(opened, case, tmp_path):
    out = tmp_path / "p.json"
    kit_of = KitOfCase(opened, "oracle", (), False)
    model, way = answerer(name_of("qwen3-vl"), mode="agent", kit="oracle", kit_of=kit_of)
    probed(opened, model, out, ["mirrored"])
    sight = seen(opened, case, out, "mirrored")
    assert sight.first_only and len(sight.pictures) == len(way.asks[1].pictures)
    assert json.loads(out.read_text())["config"]["mode"] == "agent"
