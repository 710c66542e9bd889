"""Tiny models taught three answers by heart: their text depends on pixels, and they call a tool."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

TOOL = {
    "type": "function",
    "function": {
        "name": "measure",
        "description": "Measure an organ.",
        "parameters": {"type": "object", "properties": {"organ": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "measure", "arguments": {"organ": "liver"}}\n</tool_call>'
QUESTION, TASK, LABEL = "Which side?", "Measure the liver.", "SLICE 1"
RENAMED = {"<end>": "<|im_end|>", "<start>": "<|im_start|>"}


def slice_with_spot(side: str) -> np.ndarray:
    """Return a picture (rows, columns, 3) with a bright square on its left or right half."""
    pixels = np.full((64, 64, 3), 30, np.uint8)
    column = 8 if side == "left" else 40
    pixels[24:40, column : column + 16] = 240
    return pixels


def like_qwen(folder: Path) -> Path:
    """Give a folder's turn marks the names that servers know of this family."""
    for path in (*folder.glob("*.json"), *folder.glob("*.jinja")):
        text = path.read_text(encoding="utf-8")
        for ours, theirs in RENAMED.items():
            text = text.replace(ours, theirs)
        path.write_text(text, encoding="utf-8")
    return folder


@torch.enable_grad()  # an engine that another test ran in this process has put them off
def teach(folder: Path, steps: int = 400) -> Path:
    """Train the model in a folder until it says its three answers, and save it.

    Raises
    ------
    AssertionError
        When it has not learned them.
    """
    torch.manual_seed(3)
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    lessons = [_lesson(processor, *lesson) for lesson in _lessons()]
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        losses = [model(**inputs).loss for inputs in lessons]
        loss = torch.stack(losses).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        worst = max(one.item() for one in losses)
        if worst < 0.01:
            break
    assert worst < 0.1, "the lessons were not learned"
    model.save_pretrained(folder)
    return folder


def _lessons():
    for side, answer in (("left", "Left"), ("right", "Right")):
        picture = {"type": "image", "image": Image.fromarray(slice_with_spot(side))}
        parts = [_text(LABEL), picture, _text(QUESTION)]
        yield [{"role": "user", "content": parts}], None, answer
    yield [{"role": "user", "content": [_text(TASK)]}], [TOOL], CALL


def _text(text: str) -> dict:
    return {"type": "text", "text": text}


def _lesson(processor, messages, tools, answer) -> dict:
    """Return the model's input of a conversation with its answer; only the answer is learned."""
    inputs = processor.apply_chat_template(
        messages,
        tools=tools,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    tokenizer = processor.tokenizer
    said = tokenizer(answer, add_special_tokens=False, return_tensors="pt")["input_ids"]
    said = torch.cat([said, torch.tensor([[tokenizer.eos_token_id]])], dim=1)
    asked = inputs["input_ids"].shape
    longer = {}
    for name, value in inputs.items():
        more = said if name == "input_ids" else torch.full_like(said, name == "attention_mask")
        longer[name] = (
            torch.cat([value, more.to(value.dtype)], 1) if value.shape == asked else value
        )
    labels = longer["input_ids"].clone()
    labels[:, : asked[1]] = -100
    return {**longer, "labels": labels}
