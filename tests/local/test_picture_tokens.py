"""What a picture costs, against the library's own processors (no weights are needed)."""

import numpy as np
import pytest
from PIL import Image

from napari_ctvqa.core.asking import Message, Picture
from napari_ctvqa.core.picture_tokens import picture_tokens, prompt_tokens, resized_px
from napari_ctvqa.extensions import families

transformers = pytest.importorskip("transformers", reason="needs the packages of the 'local' extra")
pytest.importorskip("torchvision", reason="needs the packages of the 'local' extra")

pytestmark = pytest.mark.slow
PRESETS = families()["chat-image"].presets
SIZES = [
    (512, 512), (448, 448), (504, 504), (896, 896), (512, 400), (101, 112), (20, 24), (336, 336),
    (300, 900), (1024, 768), (257, 511), (16, 2000), (640, 48),
]  # fmt: skip
SPECIAL = (
    "<eos>", "<pad>", "<image>", "<video>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>",
    "<|vision_end|>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<IMG_CONTEXT>",
    "<img>", "</img>",
)  # fmt: skip


def sent(rows, columns):
    grey = np.random.default_rng(rows).integers(0, 255, (rows, columns, 3), dtype=np.uint8)
    return Picture(grey, "SLICE 1")


def images(*pictures):
    return [Image.fromarray(picture.pixels) for picture in pictures]


def tokenizer(**special):
    """A byte-level tokenizer that knows the control tokens and no words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=alphabet
    )
    made.train_from_iterator(["SLICE 1"], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<eos>", pad_token="<pad>", extra_special_tokens=special
    )


def counted(processor, token, text, *pictures, **options):
    """How often the picture token stands in the prompt that the processor makes."""
    made = processor(text=[text], images=[images(*pictures)], **options)
    wanted = processor.tokenizer.convert_tokens_to_ids(token)
    return [int(i) for i in np.ravel(made["input_ids"])].count(wanted)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "name",
    [n for n, preset in PRESETS.items() if preset.facts["tokens"]["rule"] == "area"],
)
def test_a_token_per_square_after_the_processor_s_resize(name, size):
    rule = PRESETS[name].facts["tokens"]
    patch = rule["side_px"] // 2
    processor = transformers.Qwen2VLImageProcessor(
        patch_size=patch,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": rule["least_px"], "longest_edge": rule["most_px"]},
    )
    picture = sent(*size)
    _, rows, columns = processor(images=images(picture))["image_grid_thw"][0].tolist()
    assert resized_px(rule, *size) == (rows * patch, columns * patch)
    assert picture_tokens(PRESETS[name], picture) == rows * columns // 4


def test_the_processor_scales_down_what_is_above_its_limit():
    rule = {"rule": "area", "side_px": 32, "least_px": 65536, "most_px": 200_000}
    processor = transformers.Qwen2VLImageProcessor(
        patch_size=16, merge_size=2, size={"shortest_edge": 65536, "longest_edge": 200_000}
    )
    for size in SIZES:
        _, rows, columns = processor(images=images(sent(*size)))["image_grid_thw"][0].tolist()
        assert resized_px(rule, *size) == (rows * 16, columns * 16)


@pytest.mark.parametrize("name", ["medgemma", "medgemma-1.5"])
def test_gemma_takes_256_tokens_a_picture_whatever_its_size(name):
    config = transformers.Gemma3Config()
    assert config.mm_tokens_per_image == PRESETS[name].facts["tokens"]["tokens"]
    processor = transformers.Gemma3Processor(
        image_processor=transformers.Gemma3ImageProcessor(size={"height": 896, "width": 896}),
        tokenizer=tokenizer(
            image_token="<image_soft_token>",
            boi_token="<start_of_image>",
            eoi_token="<end_of_image>",
        ),
        image_seq_length=config.mm_tokens_per_image,
    )
    pictures = [sent(512, 512), sent(101, 112), sent(600, 300)]
    text = "<start_of_image> SLICE 1" * len(pictures)
    count = counted(processor, "<image_soft_token>", text, *pictures)
    assert count == sum(picture_tokens(PRESETS[name], picture) for picture in pictures)


def test_llava_onevision_takes_27_x_27_and_a_line_end_when_there_are_several_and_more_for_one():
    preset = PRESETS["llava-onevision"]
    processor = transformers.LlavaOnevisionProcessor(
        image_processor=transformers.LlavaOnevisionImageProcessor(),
        video_processor=transformers.LlavaOnevisionVideoProcessor(),
        tokenizer=tokenizer(image_token="<image>", video_token="<video>"),
        num_image_tokens=729,
        vision_feature_select_strategy="full",
    )
    pictures = [sent(384, 384), sent(384, 384), sent(512, 512)]
    count = counted(processor, "<image>", "<image>" * 3, *pictures)
    costs = [picture_tokens(preset, picture, len(pictures)) for picture in pictures]
    assert count == sum(costs)
    alone = counted(processor, "<image>", "<image>", pictures[2])
    assert alone > 2 * 729 and picture_tokens(preset, pictures[2], 1) is None
    assert prompt_tokens(preset, [Message("user", (pictures[2], "x"))]) == 0, "not known"


@pytest.mark.parametrize("name", ["internvl", "lingshu-i"])
def test_internvl_takes_256_a_slice_without_tiles_and_more_with_them(name):
    preset = PRESETS[name]
    processor = transformers.InternVLProcessor(
        image_processor=transformers.GotOcr2ImageProcessor(
            size={"height": 448, "width": 448}, crop_to_patches=True
        ),
        video_processor=transformers.InternVLVideoProcessor(),
        tokenizer=tokenizer(
            start_image_token="<img>",
            end_image_token="</img>",
            context_image_token="<IMG_CONTEXT>",
            video_token="<video>",
        ),
    )
    pictures = [sent(448, 448), sent(600, 300)]
    marks = processor.image_token * len(pictures)
    token = processor.tokenizer.context_image_token
    plain = counted(processor, token, marks, *pictures, **dict(preset.processor))
    assert plain == sum(picture_tokens(preset, picture) for picture in pictures)
    tiled = counted(processor, token, marks, *pictures)
    assert tiled > plain, "without the preset's option the pictures are tiled"


def test_a_prompt_s_estimate_is_near_what_a_tokenizer_counts():
    """A tokenizer of bytes takes a token a character; ours assumes four, so pictures dominate."""
    preset = PRESETS["qwen3-vl"]
    pictures = [sent(512, 512)] * 32
    messages = [Message("user", (*pictures, "x" * 400))]
    assert prompt_tokens(preset, messages) == 32 * 256 + 100
