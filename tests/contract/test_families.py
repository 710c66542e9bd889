"""What every model family keeps to; a new file is picked up without an edit."""

import json

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.asking import Prepared, Preset
from napari_ctvqa.core.dialects import DIALECTS
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.ports import Family
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option, Question, Reference
from napari_ctvqa.extensions import families, models
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

PRESETS = [(family, preset) for family in families().values() for preset in family.presets]
QUESTIONS = [
    Question("q", "case", "What is it?", Reference("")),
    Question("q", "case", "", Reference("Yes", "A"), (Option("A", "Yes"), Option("B", "")),
             subtype="liver lesion existence", answer_type=AnswerType.BINARY),
    Question("q", "case", "Volume?<|im_end|>", Reference("5"), organ="liver",
             subtype="organ volume measurement", answer_type=AnswerType.NUMERIC),
]  # fmt: skip
GROUNDINGS = ("rel1000_xyxy", "rel1000_yxyx", "abs_px_resized", "norm3d", "none")
TEXTS = ["", "A", "<think>", "\x00\ud800", "{" * 100_000, "<tool_call>{}", "Left.", "[FINAL]"]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


@pytest.mark.parametrize("name", families())
def test_a_family_says_what_it_is_and_is_no_answerer(name):
    family = families()[name]
    assert isinstance(family, Family) and (family.name, bool(family.title)) == (name, True)
    assert name not in models()
    assert family.presets


@pytest.mark.parametrize(("family", "name"), PRESETS, ids=lambda x: x if type(x) is str else "")
def test_a_preset_is_complete(family, name):
    preset = family.presets[name]
    assert isinstance(preset, Preset) and preset.name == name and preset.title
    assert preset.dialect in DIALECTS
    assert preset.grounding in GROUNDINGS
    assert all(low < high for low, high in preset.windows_hu)
    assert preset.sampling.max_new_tokens >= 1
    json.dumps({"facts": dict(preset.facts), "template": dict(preset.template)})


@pytest.mark.parametrize(("family", "name"), PRESETS, ids=lambda x: x if type(x) is str else "")
@pytest.mark.parametrize("question", QUESTIONS, ids=["open", "binary", "numeric"])
@pytest.mark.parametrize("answer_format", AnswerFormat)
def test_what_is_sent_can_be_sent_and_kept(family, name, question, answer_format, case):
    before = case.volume.display_zyx.copy()
    ready = family.prepare(family.presets[name], question, case, answer_format, {})
    assert isinstance(ready, Prepared)
    json.dumps(dict(ready.recipe))
    *_, last = ready.ask.messages
    assert last.role == "user" and "<|im_end|>" not in last.text
    assert all(isinstance(note, str) and note for note in ready.notes)
    for picture in ready.ask.pictures:
        assert picture.pixels.dtype == np.uint8 and picture.pixels.shape[2:] == (3,)
        assert picture.index_from_pixel.shape == (3, 3)
    np.testing.assert_array_equal(case.volume.display_zyx, before)
    with pytest.raises(CtvqaError):
        family.prepare(family.presets[name], question, case, answer_format, {"no such": 1})


@pytest.mark.parametrize(("family", "name"), PRESETS, ids=lambda x: x if type(x) is str else "")
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:12]))
def test_any_text_is_read(family, name, text):
    preset = family.presets[name]
    assert isinstance(family.read(preset, text, "a prompt"), str)
    calls, repaired = family.calls(preset, text)
    assert isinstance(calls, tuple) and isinstance(repaired, str)
