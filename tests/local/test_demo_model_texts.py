"""The toy model before training: its prompts are the template's, its files are read by others."""

import json
import sys

import numpy as np
import pytest
from project_file import ROOT

pytest.importorskip("torch", reason="the toy model needs the packages of the 'local' extra")
pytest.importorskip("transformers", reason="the toy model needs the packages of the 'local' extra")
sys.path.insert(0, str(ROOT / "scripts"))

import torch
from demo_model.architecture import model_of, processor_of, save, tokenizer_of
from demo_model.texts import Scribe, corpus, question_message
from demo_model.tool_turns import tool_names, tool_turn
from PIL import Image
from safetensors import safe_open
from transformers import AutoModelForImageTextToText, AutoProcessor

SYSTEM = {"role": "system", "content": "Not seen by the model."}


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    tokenizer = tokenizer_of(corpus(np.random.default_rng(0)))
    return model_of(tokenizer).eval(), processor_of(tokenizer)


def _picture(seed):
    grey = np.random.default_rng(seed).integers(0, 256, (144, 144), np.uint8)
    return Image.fromarray(grey).convert("RGB")


def test_what_is_learned_in_pieces_is_what_the_template_makes_of_a_conversation(made):
    _, processor = made
    scribe, rng = Scribe(processor), np.random.default_rng(1)
    for _ in range(20):
        turn, names = tool_turn(rng), tool_names(rng)
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        call = {"name": turn.name, "arguments": dict(turn.arguments)}
        chat = [
            SYSTEM,
            question_message([_picture(1), _picture(2)], turn.question),
            {"role": "assistant", "tool_calls": [{"type": "function", "function": call}]},
            {"role": "tool", "name": turn.name, "content": turn.result},
        ]
        whole = processor.apply_chat_template(
            chat, tools=tools, add_generation_prompt=True, tokenize=True, return_dict=True
        )["input_ids"]
        lesson = scribe.tool_lesson((0, 1), False, turn, names)
        answer = len(scribe.ids(turn.answer + "<end_of_turn>"))
        assert np.ravel(whole).tolist() == lesson.ids[:-answer]


def test_labels_stand_after_their_pictures_and_the_question_last(made):
    _, processor = made
    chat = [question_message([_picture(1), _picture(2)], "Is there a lesion?")]
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == (
        "<bos><start_of_turn>user\n<start_of_image>SLICE 1\n<start_of_image>SLICE 2\n"
        "Is there a lesion?<end_of_turn>\n<start_of_turn>model\n"
    )


def test_saved_files_load_as_any_model_s_and_say_the_same(made, tmp_path):
    """Older releases look for other names: where they find none, they go on with random weights."""
    model, processor = made
    save(model, processor, tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as weights:
        tower = [name for name in weights.keys() if "vision_tower" in name]  # noqa: SIM118
    assert tower
    assert all("vision_tower.vision_model." in name for name in tower)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (tmp_path / "preprocessor_config.json").is_file()
    size = (tmp_path / "model.safetensors").stat().st_size
    assert 1_700_000 <= size <= 3_000_000
    again = AutoModelForImageTextToText.from_pretrained(tmp_path, dtype=torch.float32).eval()
    reader = AutoProcessor.from_pretrained(tmp_path)
    chat = [question_message([_picture(3)], "Which organ has the lesion?")]
    logits = []
    for asked, through in ((model, processor), (again, reader)):
        inputs = through.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        with torch.no_grad():
            logits.append(asked(**inputs).logits)
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)
