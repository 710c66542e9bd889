"""Volume models through the worker: small random stand-ins of each class, loaded as the real ones.

What the worker says is compared with the model called by hand on the same tensor.
"""

import re
import sys
import threading
from dataclasses import replace

import numpy as np
import phantoms
import pytest

pytest.importorskip("torch", reason="volume models need the packages of the 'local' extra")
pytest.importorskip("transformers", reason="volume models need the packages of the 'local' extra")

import torch
import volume_models

from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.events import Done, Outlined, Segmented, Tokens, Usage
from napari_ctvqa.core.records import AnswerFormat, Prediction, Question, Reference
from napari_ctvqa.core.resampling import floored, half_pixel, linear, nearest
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.choices import Wanted, answerer_for, trust_code
from napari_ctvqa.runners.own_loaders import UnconfirmedCodeError
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay
from napari_ctvqa.runners.worker_volumes import code_mark

pytestmark = pytest.mark.slow
QUESTION = Question("q", "case", "Is there a lesion?", Reference("Yes"), organ="liver")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


def prepared(name, case, **settings):
    family = next(f for f in families().values() if name in f.presets)
    return family.prepare(
        family.presets[name],
        QUESTION,
        case,
        AnswerFormat.FREEFORM,
        {"max_new_tokens": 12} | settings,
    )


def events(way, ask):
    return list(way.ask(ask, threading.Event()))


# ----------------------------------------------------------------------------------- interpolation


@pytest.mark.parametrize(("shape", "size"), [((5, 7, 9), (8, 4, 9)), ((20, 31, 3), (7, 64, 16))])
def test_resampling_is_torch_s(shape, size):
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    tensor = torch.tensor(array)[None, None]
    theirs = torch.nn.functional.interpolate(
        tensor, size, mode="trilinear", align_corners=False
    )[0, 0].numpy()  # fmt: skip
    axes = list(zip(shape, size, strict=True))
    np.testing.assert_allclose(linear(array, [half_pixel(*a) for a in axes]), theirs, atol=3e-6)
    picked = torch.nn.functional.interpolate(tensor, size)[0, 0].numpy()
    np.testing.assert_array_equal(nearest(array, [floored(*a) for a in axes]), picked)


# ------------------------------------------------------------------- a library's own preprocessing


@pytest.mark.parametrize(
    "source", ["PIL", "RAS", 11, 17, pytest.param("ts_example", marks=pytest.mark.real)]
)
def test_merlin_s_tensor_is_what_its_library_makes(source, tmp_path, request):
    transforms = pytest.importorskip("merlin.data.monai_transforms").ImageTransforms
    if source == "ts_example":
        folder = request.getfixturevalue("real_data") / source
    elif isinstance(source, int):  # degrees
        turned = phantoms.oblique(phantoms.phantom(), source)
        folder = phantoms.save_case(tmp_path / "case", turned)
    else:
        folder = phantoms.save_case(tmp_path / "case", axcodes=source)
    ours = prepared("merlin", read_case(find_case(folder))).ask.volume.values
    (theirs,) = np.asarray(transforms({"image": str(folder / "ct.nii.gz")})["image"])
    assert np.ptp(theirs) > 0.5
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------- M3D-LaMed


@pytest.fixture(scope="module")
def m3d(tmp_path_factory):
    pytest.importorskip("monai", reason="M3D's vision tower is made of MONAI's blocks")
    folder = volume_models.save_m3d(tmp_path_factory.mktemp("models") / "m3d")
    way = WorkerWay(
        WorkerSettings(
            folder,
            dtype="float32",
            loader="m3d",
            trust_remote_code=True,
            code_mark=code_mark([folder]),
        )
    )
    yield way
    way.close()


def assert_given(folder, ask):
    """The tensor that came to the model's own code is the volume, nothing turned or scaled."""
    shape, figures = volume_models.given_to(folder)
    assert shape == ask.volume.tensor_shape
    wanted = volume_models.figures_of(ask.volume.values)
    np.testing.assert_allclose(figures, wanted, rtol=0, atol=1e-9)
    aside = np.array(wanted[1:])
    assert np.abs(aside).min() > 1e-7 and np.diff(np.sort(aside)).min() > 1e-7, (
        "a turned one would be seen"
    )


def by_hand(folder, ask):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    ids = tokenizer(ask.messages[0].text, return_tensors="pt")["input_ids"]
    tensor = torch.tensor(ask.volume.values)[None, None]
    with torch.no_grad():
        tokens = model.generate(tensor, ids, max_new_tokens=ask.sampling.max_new_tokens)[0]
    tokens = [t for t in tokens.tolist() if t != model.generation_config.eos_token_id]
    return tokenizer.decode(tokens), ids.shape[1]


def test_m3d_says_what_it_says_when_called_by_hand(m3d, case):
    ask = prepared("m3d-phi3", case).ask
    came = events(m3d, ask)
    assert_given(m3d.settings.folder, ask)
    text, length = by_hand(m3d.settings.folder, ask)
    assert came[-1] == Done(text, reason=came[-1].reason) and text
    assert "".join(e.text for e in came if isinstance(e, Tokens)) == text
    (usage,) = (e for e in came if isinstance(e, Usage))
    assert usage.prompt_tokens == length and 0 < usage.new_tokens <= 12


def by_meaning(ask, way_to_decode):
    return replace(ask, sampling=replace(ask.sampling, decoding=way_to_decode))


def test_semsam_chooses_the_tokens_of_m3d(m3d, case):
    ask = prepared("m3d-phi3", case).ask
    plain, alone = (events(m3d, one)[-1] for one in (ask, by_meaning(ask, "semsam:K=1,M=10,p=0.9")))
    assert alone.text == plain.text, "a token that is its only neighbour is as likely as ever"
    came = events(m3d, by_meaning(ask, "semsam:K=200,M=1"))
    (told,) = (e.text for e in came if "MIS-SemSam scored" in getattr(e, "text", ""))
    scored, steps = map(int, re.search(r"scored (\d+) of (\d+) tokens", told).groups())
    usage = next(e for e in came if isinstance(e, Usage))
    assert 0 < scored <= steps == usage.new_tokens


def test_m3d_gives_a_mask_in_its_own_voxels(m3d, case):
    ask = prepared("m3d-phi3", case, segment=True).ask
    (segmented,) = (e for e in events(m3d, ask) if isinstance(e, Segmented))
    np.testing.assert_array_equal(segmented.mask, ask.volume.values > 0.5)


def test_the_mask_comes_back_to_the_ct_with_the_answer(m3d, case):
    family = families()["m3d"]
    answerer = ModelAnswerer("m3d", "m3d", family, family.presets["m3d-phi3"], m3d,
                             settings={"segment": True, "max_new_tokens": 4})  # fmt: skip
    *came, prediction = answerer.answer(QUESTION, case, AnswerFormat.FREEFORM)
    assert isinstance(prediction, Prediction) and not prediction.failed
    (outlined,) = (e for e in came if isinstance(e, Outlined))
    region = outlined.mask.region
    bright = case.volume.display_zyx[region.box_zyx][region.crop_zyx]
    assert bright.min() > -500, "all of what it outlined is brighter than half of the range"
    body = np.count_nonzero(case.volume.display_zyx > -350)
    assert abs(region.voxels / body - 1) < 0.25


def test_code_is_not_run_before_it_is_allowed(tmp_path, monkeypatch):
    pytest.importorskip("monai", reason="M3D's vision tower is made of MONAI's blocks")
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    folder = volume_models.save_m3d(tmp_path / "m3d")
    wanted = Wanted("m3d-phi3", folder=str(folder), python=sys.executable)
    with pytest.raises(UnconfirmedCodeError, match="trust-code"):
        answerer_for(wanted, None)
    trust_code(wanted)
    answerer_for(wanted, None).close()
    code = folder / "modeling_standin.py"
    code.write_text(code.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    with pytest.raises(UnconfirmedCodeError):
        answerer_for(wanted, None)


# ----------------------------------------------------------------- models of a repository's own


def way_of(tmp, monkeypatch, model, folder, repository="", base=""):
    """The way that the command line makes, once the code was allowed."""
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp / "config"))
    wanted = Wanted(model, folder=str(folder), python=sys.executable, device="cpu",
                    repository=str(repository), base=str(base))  # fmt: skip
    with pytest.raises(UnconfirmedCodeError):
        answerer_for(wanted, None)
    trust_code(wanted)
    return answerer_for(wanted, None).way


def answers(way, *asks):
    """The last event of each ask; what was streamed is the text."""
    try:
        found = []
        for ask in asks:
            *came, last = events(way, ask)
            assert isinstance(last, Done), last
            assert "".join(e.text for e in came if isinstance(e, Tokens)) == last.text
            assert any(isinstance(e, Usage) for e in came)
            found.append(last.text)
        return found
    finally:
        way.close()


def test_med3dvlm_is_loaded_and_asked_as_m3d_is(tmp_path, case, monkeypatch):
    """Its own code is a Qwen; the interface is the same, and so the blocks are of its grid."""
    pytest.importorskip("monai", reason="the stand-in's tower is made of MONAI's blocks")
    folder = volume_models.save_m3d(tmp_path / "med3dvlm", block=(32, 32, 32))
    ask = prepared("med3dvlm", case).ask
    (text,) = answers(way_of(tmp_path, monkeypatch, "med3dvlm", folder), ask)
    assert_given(folder, ask)
    assert text == by_hand(folder, ask)[0] and text


def test_radfm_answers_through_its_repository(tmp_path, case, monkeypatch):
    folder, repository = volume_models.save_radfm(tmp_path)
    ask = prepared("radfm", case).ask
    way = way_of(tmp_path, monkeypatch, "radfm", folder, repository)
    first, again = answers(way, ask, ask)
    assert first and first == again
    assert_given(repository / "Quick_demo" / "Model" / "RadFM", ask)


@pytest.mark.parametrize("wish", [{"decoding": "semsam"}, {"confidence": "samples:3"}])
def test_a_model_whose_code_draws_as_it_likes_is_not_asked_to_draw_otherwise(wish):
    """All of its samples would be one text, which is no sign that it is sure."""
    with pytest.raises(NotFoundError, match="RadFM"):
        answerer_for(Wanted("radfm", folder="/nowhere", repository="/nowhere", **wish), None)


def test_merlin_says_what_its_library_says_when_called_by_hand(tmp_path, case, monkeypatch):
    pytest.importorskip("merlin", reason="Merlin is made by its library, merlin-vlm")
    folder = volume_models.save_merlin(tmp_path / "site")
    ask = prepared("merlin", case).ask
    values = np.ascontiguousarray(ask.volume.values.transpose(1, 0, 2))
    turned = replace(ask, volume=replace(ask.volume, values=values))
    way = way_of(tmp_path, monkeypatch, "merlin", folder)
    alone = by_meaning(ask, "semsam:K=1,M=10,p=0.9")
    other, first, again = answers(way, turned, ask, alone)
    assert_given(folder / "merlin", ask)
    assert first == again
    assert first != other, "the order of axes is nothing that the library checks"
    np.save(tmp_path / "volume.npy", ask.volume.values)
    sampling = ask.sampling
    assert sampling.temperature == 0
    by_hand = volume_models.merlin_by_hand(
        folder, tmp_path / "volume.npy", ask.messages[0].text, do_sample=False,
        max_new_tokens=sampling.max_new_tokens, repetition_penalty=sampling.repetition_penalty,
    )  # fmt: skip
    assert first == by_hand.split("###")[0] and first


def test_ct_chat_encodes_once_and_answers(tmp_path, case, monkeypatch):
    folder, repository, base = volume_models.save_ct_chat(tmp_path)
    ask = prepared("ct-chat-8b", case).ask
    turned = prepared("ct-chat-8b", case, recipe="z-y-x").ask
    way = way_of(tmp_path, monkeypatch, "ct-chat-8b", folder, repository, base)
    first, again, other = answers(way, ask, ask, turned)
    assert first and first == again and other
    assert_given(repository / "transformer_maskgit", turned)


@pytest.mark.parametrize(
    ("model", "name"), [("llava-med", "llava-med-mistral"), ("vila-m3-8b", "llava-vila")]
)
def test_a_picture_model_answers_through_its_repository(tmp_path, case, monkeypatch, model, name):
    folder, repository = volume_models.save_llava(tmp_path, name)
    ready = prepared(model, case, temperature=0.0)
    asks = [ready.ask]
    if model == "vila-m3-8b":
        family = families()["vila-m3"]
        more = family.follow_up(family.presets[model], ready, "<VISTA3D(organs)>", QUESTION, case,
                                {"expert": "masks"})  # fmt: skip
        asks.append(more.ask)
    asks.append(by_meaning(ready.ask, "semsam:K=1,M=10,p=0.9"))
    way = way_of(tmp_path, monkeypatch, model, folder, repository)
    first, *_, alone = answers(way, *asks)
    assert first == alone and first
