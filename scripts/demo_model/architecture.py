"""The model before training: a Gemma3-class VLM of half a million parameters, and its processor."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessorPil,
    Gemma3Processor,
    PreTrainedTokenizerFast,
)

from demo_model.pictures import SIZE
from demo_model.pool import GRID

PICTURE_TOKENS = 16
"""Tokens that one picture takes in the prompt."""
TOWER = {
    "hidden_size": 80,
    "intermediate_size": 320,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vision_use_head": False,
}
SPECIAL = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
)
TAGS = ("<tool_call>", "</tool_call>")
"""Single tokens, but kept when special ones are left out: they are what a program reads."""

TEMPLATE = """\
{{- bos_token -}}
{%- if tools -%}
<start_of_turn>tools
{%- for tool in tools %} {{ (tool.function or tool).name }}{% endfor -%}
<end_of_turn>
{% endif -%}
{%- for message in messages if message.role != 'system' -%}
<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content or [] -%}
{%- if part.type in ('image', 'image_url') -%}
<start_of_image>
{%- elif part.type == 'text' -%}
{{ part.text | trim }}{{ '' if loop.last else '\\n' }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- set call = call.function or call -%}
<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments if call.arguments is string \
else call.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<end_of_turn>
{% endfor -%}
{%- if add_generation_prompt -%}
<start_of_turn>model
{% endif -%}
"""
"""Gemma's turns, a turn that names the tools, and no system turn: the model was trained on none."""


def tokenizer_of(corpus: list[str], words: int = 640) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on these texts; every digit is a token."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(corpus, trainer)
    raw.add_tokens(list(TAGS))
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<bos>",
        eos_token="<end_of_turn>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=4096,
        extra_special_tokens={
            "image_token": "<image_soft_token>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )


def processor_of(tokenizer: PreTrainedTokenizerFast) -> Gemma3Processor:
    """Return the processor: pictures to 144 x 144, grey levels about zero, and the template."""
    pictures = Gemma3ImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        image_seq_length=PICTURE_TOKENS,
        image_mean=[0.3] * 3,
        image_std=[0.2] * 3,
    )
    return Gemma3Processor(
        image_processor=pictures,
        tokenizer=tokenizer,
        chat_template=TEMPLATE,
        image_seq_length=PICTURE_TOKENS,
    )


def model_of(tokenizer: PreTrainedTokenizerFast) -> Gemma3ForConditionalGeneration:
    """Return the untrained model, every matrix scaled by the number of its inputs."""
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL}
    config = Gemma3Config(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 4096,
            "max_position_embeddings": 4096,
            "bos_token_id": ids["<bos>"],
            "eos_token_id": ids["<end_of_turn>"],
            "pad_token_id": ids["<pad>"],
        },
        vision_config={**TOWER, "image_size": SIZE, "patch_size": SIZE // GRID},
        mm_tokens_per_image=PICTURE_TOKENS,
        boi_token_index=ids["<start_of_image>"],
        eoi_token_index=ids["<end_of_image>"],
        image_token_index=ids["<image_soft_token>"],
    )
    model = Gemma3ForConditionalGeneration(config)
    for name, weights in model.named_parameters():
        if weights.dim() >= 2:
            torch.nn.init.normal_(weights, std=_spread(name, weights))
    model.generation_config.bos_token_id = ids["<bos>"]
    model.generation_config.eos_token_id = ids["<end_of_turn>"]
    model.generation_config.pad_token_id = ids["<pad>"]
    return model


def _spread(name: str, weights: torch.Tensor) -> float:
    """Return the spread of first weights; the library's 0.02 starves a model this narrow."""
    if "embed_tokens" in name:
        return 0.1
    if "position" in name:
        return 0.5
    inputs = weights.shape[0] if "mm_input_projection" in name else weights[0].numel()
    return float((3.0 if "patch_embedding" in name else 1.0) * inputs**-0.5)


def save(model: Gemma3ForConditionalGeneration, processor: Gemma3Processor, folder: Path) -> None:
    """Save model and processor so that transformers from 4.57 on read them.

    What the current release writes is read by older ones in part only, and without an error: the
    vision tower's names, the picture processor's file and the tokenizer's class are put as these
    expect them, which the current one reads as well.
    """
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    named = {
        re.sub(r"vision_tower\.(?!vision_model)", "vision_tower.vision_model.", name): values
        for name, values in weights.items()
    }
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    pictures = json.loads((folder / "processor_config.json").read_text(encoding="utf-8"))
    _write(folder / "preprocessor_config.json", pictures["image_processor"])
    tokens = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    marks = ("image_token", "boi_token", "eoi_token")
    tokens["tokenizer_class"] = "PreTrainedTokenizerFast"
    tokens["extra_special_tokens"] = {mark: tokens[mark] for mark in marks}
    _write(folder / "tokenizer_config.json", tokens)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
