"""Med3DVLM: the whole CT as 128 x 256 x 256 voxels, a question, text back.

Contract. Tensor (1, 1, 128, 256, 256): slices, rows, columns, values 0 to 1 (by the default
recipe). Unit: none of its own, each CT is scaled by its own range. Orientation: no source states
one; trained on the pictures of M3D-Cap, so slices to Superior (assumed), rows to Posterior, columns
to the patient's Left.

Recipes (``recipe``), as the sources disagree:

* ``med3dvlm`` (default): the project's preparation of its training data: min–max to 0–1, cut to the
  box of what is above the lowest value, trilinear resize (pixels are areas).
* ``ct-spatialvqa``: that benchmark's script: file order, min–max to 0–1, no cut, ITK's linear
  resampling with the origin kept, filled with 0.
* ``ct-spatialvqa-window``: what that benchmark's README says and its second script does: ITK's
  resampling, -1200 to 600 HU to -1 to 1. The model never saw values below 0.
* ``app``: the project's demonstration: trilinear resize of HU as they are, nothing scaled.

Prompts (``prompt``): ``trained`` (default) puts a space between the 256 image tokens and the
question, as the training data have it; its tokenizer puts no beginning mark, so the model replaces
the first of what follows by image features: without the space (``readme``, as README, demo and
CT-SpatialVQA ask) that is the question's first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Preset, Sampling
from napari_ctvqa.models._volume_family import VolumeFamily, Worded
from napari_ctvqa.models._volumes import (
    FILL_HU,
    TURNED_IN_TRAINING,
    along,
    as_filed,
    by_range,
    by_window,
    foreground,
    made,
    resized,
    stretched_itk,
    unscaled,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question

TITLE = "Med3DVLM"
SHAPE = (128, 256, 256)
AXES = "SPL"
IMAGE_TOKENS = 256
WINDOW_HU = (-1200.0, 600.0)
RECIPES = ("med3dvlm", "ct-spatialvqa", "ct-spatialvqa-window", "app")
PROMPTS = ("trained", "readme")

PRESETS = MappingProxyType(
    {
        "med3dvlm": Preset(
            "med3dvlm",
            "Med3DVLM Qwen2.5 7B",
            ("MagicXin/Med3DVLM-Qwen-2.5-7B",),
            windows_hu=(WINDOW_HU,),
            label="",
            sampling=Sampling(256),
            strip=("echo", "eot"),
            min_transformers="4.48.3",
            licence="MIT",
            facts=MappingProxyType(
                {
                    "loader": "med3dvlm",
                    "needs": "transformers 4.48.3, timm, monai",
                    "files": {"config.json": "its configuration", "*.safetensors": "its weights"},
                    "recipes": list(RECIPES),
                    "prompts": list(PROMPTS),
                    "tensor": [1, 1, *SHAPE],
                    "image_tokens": IMAGE_TOKENS,
                    "source": "Repository mirthAI/Med3DVLM: preparation for 128 slices, dataset, "
                    "demo, app; CT-SpatialVQA's preprocess_med3dvlm.py, preprocess_ctrate.py.",
                    "assumed": "Slices run to Superior, rows to Posterior, columns to Left; greedy "
                    "decoding (its evaluation), where README and CT-SpatialVQA draw with top_p "
                    "0.9, temperature 1.",
                }
            ),
        )
    }
)


def _volume(case: Case, recipe: str) -> ModelVolume:
    filed = recipe.startswith("ct-spatialvqa")
    laid = as_filed(case.volume, "kji", TITLE) if filed else along(case.volume, AXES)
    low, high = float(laid.array.min()), float(laid.array.max())
    sizes = list(zip(laid.array.shape, SHAPE, strict=True))
    if recipe == "ct-spatialvqa":
        scaling = by_range(low, high)
        return made(laid, [stretched_itk(*size) for size in sizes], scaling, recipe=recipe)
    if recipe == "ct-spatialvqa-window":
        window = by_window(*WINDOW_HU, clip_first=False, to=(-1.0, 1.0))
        filling = 2 * (FILL_HU - WINDOW_HU[0]) / (WINDOW_HU[1] - WINDOW_HU[0]) - 1
        scaling = replace(window, outside=filling, whole_numbers=case.volume.file_integers)
        return made(laid, [stretched_itk(*size) for size in sizes], scaling, recipe=recipe)
    if recipe == "app":
        return made(laid, [resized(*size) for size in sizes], unscaled(low, high), recipe=recipe)
    cut = laid.cut(foreground(laid))
    axes = [resized(count, wanted) for count, wanted in zip(cut.array.shape, SHAPE, strict=True)]
    return made(cut, axes, by_range(low, high), recipe=recipe)


def _word(asked: str, question: Question, given: Mapping[str, Any]) -> Worded:
    del question
    space = " " if given["prompt"] == "trained" else ""
    return Worded("<im_patch>" * IMAGE_TOKENS + space + asked)


MODEL = VolumeFamily(
    "med3dvlm",
    TITLE,
    PRESETS,
    {"recipe": RECIPES, "prompt": PROMPTS},
    _volume,
    _word,
    "med3dvlm 1",
    by_own_range=("med3dvlm", "ct-spatialvqa", "app"),
    notes=(TURNED_IN_TRAINING,),
)
