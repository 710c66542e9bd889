"""Random models of real architectures, saved as folders: they prove plumbing, never an answer."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessorPil,
    Gemma3Processor,
    PreTrainedTokenizerFast,
)

TEMPLATE = """\
{%- for message in messages -%}
<start>{{ message.role }}
{% for part in message.content -%}
{%- if part.type == 'image' -%}PICTURE{%- else -%}{{ part.text }}{%- endif %}
{% endfor -%}
{%- for call in message.tool_calls or [] -%}
<tool_call>{{ call.function | tojson }}</tool_call>
{%- endfor -%}
<end>
{% endfor -%}
{%- for tool in tools or [] -%}tool {{ tool.function.name }}
{% endfor -%}
{%- if add_generation_prompt -%}<start>assistant
{% if thinking %}<think>{% endif -%}
{% endif -%}
"""
CORPUS = [
    "Is there a lesion in the liver? Yes. No. Left. Right. SLICE 1 SLICE 2",
    "user assistant system tool measure volume kidney spleen pancreas",
    "größer · 12 µm, 3 × 4 × 5 mm³; naïve; œdème; 肝臓 の 病変; почка; κύστη; 🫁 🫀 🧠",
]
GEMMA = ("<pad>", "<eos>", "<bos>", "<start>", "<end>", "<boi>", "<eoi>", "<image>")
QWEN = ("<pad>", "<eos>", "<start>", "<end>", "<vision>", "</vision>", "<image>", "<video>")


def tokenizer_of(
    special: tuple[str, ...], names: dict[str, str], words: int = 0
) -> PreTrainedTokenizerFast:
    """Byte-level BPE: letters of several bytes are spread over several tokens.

    ``words`` is the size of the vocabulary, filled up with made-up words, so that every token of a
    model with a large one has a text.
    """
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(CORPUS, trainer)
    learned = json.loads(raw.to_str())["model"]
    more = range(len(learned["vocab"]), words - 3)
    vocabulary = learned["vocab"] | {f"\u0120w{number}": number for number in more}
    raw.model = models.BPE(vocabulary, [tuple(pair) for pair in learned["merges"]])
    raw.add_special_tokens(list(special))
    raw.add_tokens(["<tool_call>", "</tool_call>", "<think>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<end>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=100_000,
        extra_special_tokens=names,
    )


def finish(model, tokenizer, processor, folder: Path, seed: int) -> Path:
    """Randomise so that answers wander through the vocabulary, and save."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids("<end>")
    model.generation_config.pad_token_id = tokenizer.convert_tokens_to_ids("<pad>")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return folder


def save_gemma(folder: Path, *, hidden: int = 64, layers: int = 2, words: int = 0) -> Path:
    """Save a Gemma3-class model (what MedGemma is); it needs no torchvision.

    ``words`` widens the vocabulary, to make a model as large as wanted.
    """
    names = {"image_token": "<image>", "boi_token": "<boi>", "eoi_token": "<eoi>"}
    tokenizer = tokenizer_of(GEMMA, names, words)
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in GEMMA}
    pictures = Gemma3ImageProcessorPil(size={"height": 64, "width": 64}, image_seq_length=16)
    processor = Gemma3Processor(
        image_processor=pictures,
        tokenizer=tokenizer,
        chat_template=TEMPLATE.replace("PICTURE", "<boi>"),
        image_seq_length=16,
    )
    config = Gemma3Config(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 2 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": hidden // 4,
            "query_pre_attn_scalar": hidden // 4,
            "sliding_window": 4096,
            "max_position_embeddings": 4096,
            "eos_token_id": ids["<end>"],
            "pad_token_id": ids["<pad>"],
            "bos_token_id": ids["<bos>"],
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
            "vision_use_head": False,
        },
        tie_word_embeddings=False,  # tied, a random model repeats its last token
        mm_tokens_per_image=16,
        boi_token_index=ids["<boi>"],
        eoi_token_index=ids["<eoi>"],
        image_token_index=ids["<image>"],
        eos_token_id=ids["<end>"],
        pad_token_id=ids["<pad>"],
    )
    return finish(Gemma3ForConditionalGeneration(config), tokenizer, processor, folder, seed=1)


def save_qwen(folder: Path, *, words: int = 0, most_pixels: int = 128 * 128, **shape) -> Path:
    """Save a Qwen3-VL-class model; its processor needs torchvision.

    ``shape`` may hold ``text`` and ``vision``: what differs from the tiny configuration.
    """
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    names = {
        "image_token": "<image>",
        "video_token": "<video>",
        "vision_start_token": "<vision>",
        "vision_end_token": "</vision>",
    }
    tokenizer = tokenizer_of(QWEN, names, words)
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in QWEN}
    shapes = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    size = {"shortest_edge": 32 * 32, "longest_edge": most_pixels}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size, **shapes),
        video_processor=Qwen3VLVideoProcessor(size=size, **shapes),
        tokenizer=tokenizer,
        chat_template=TEMPLATE.replace("PICTURE", "<vision><image></vision>"),
    )
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2]},
            "eos_token_id": ids["<end>"],
            "pad_token_id": ids["<pad>"],
            **shape.get("text", {}),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 16,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
            **shape.get("vision", {}),
        },
        image_token_id=ids["<image>"],
        video_token_id=ids["<video>"],
        vision_start_token_id=ids["<vision>"],
        vision_end_token_id=ids["</vision>"],
    )
    return finish(Qwen3VLForConditionalGeneration(config), tokenizer, processor, folder, seed=2)
