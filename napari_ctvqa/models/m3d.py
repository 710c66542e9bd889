"""M3D-LaMed: the whole CT as 32 x 256 x 256 voxels, a question, text back; boxes and a mask, too.

Contract. Tensor (1, 1, 32, 256, 256): slices, rows, columns, values 0 to 1. Unit: none of its own,
each CT is scaled by its own range, so any linear scale does; values that may be no HU are told.
Orientation: no source states one. Its caption pictures are 8-bit slices as a radiologist sees them
and its segmentation data are files transposed to (z, y, x), mostly turned the same way: slices to
Superior (assumed), rows to Posterior, columns to the patient's Left.

Recipes (``recipe``), as the sources disagree:

* ``m3d`` (default): the project's preparation: min–max to 0–1, cut to the box of what is above the
  lowest value, trilinear resize (pixels are areas).
* ``m3d-window``: the same after a clip to -150 to 250 HU, nearer to the 8-bit pictures it was
  trained on (assumed, no source does it).
* ``m3d-seg``: the preparation of its segmentation data: clipped to the 0.05 and 99.95 percentiles
  of what is above the mean, then as ``m3d``.
* ``ct-spatialvqa``: that benchmark's script: file order, ITK's linear resampling with the origin
  kept, whole numbers where the file holds such, then min–max. Where the script fills with ITK's
  number of the pixel type, an oversight, this fills with -1024 HU.

Prompts (``prompt``): ``readme`` (default) puts the question right after the 256 image tokens, as
README, demo and CT-SpatialVQA do; ``trained`` puts a space between, as its training data have it.

Boxes are parts of 1 of the indices of the first and the last voxel, in the tensor's axis order
(``mask2box``); a mask has the tensor's shape and is asked for with ``segment``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Preset, Sampling
from napari_ctvqa.core.volume_grounding import without_marks
from napari_ctvqa.models._volume_family import VolumeFamily, Worded
from napari_ctvqa.models._volumes import (
    FILL_HU,
    TURNED_IN_TRAINING,
    Laid,
    Scaling,
    along,
    as_filed,
    by_range,
    by_window,
    foreground,
    made,
    resized,
    stretched_itk,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question

TITLE = "M3D-LaMed"
SHAPE = (32, 256, 256)
AXES = "SPL"
IMAGE_TOKENS = 256
WINDOW_HU = (-150.0, 250.0)
RECIPES = ("m3d", "m3d-window", "m3d-seg", "ct-spatialvqa")
PROMPTS = ("readme", "trained")
_SEG_PERCENTILES = (0.05, 99.95)
SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "recipe": RECIPES,
    "prompt": PROMPTS,
    "segment": (False, True),
}
_SOURCE = (
    "Repository BAAI-DCAI/M3D: preparation of captions and of segmentation data, README, mask2box; "
    "CT-SpatialVQA's preprocess_m3d.py."
)
_ASSUMED = (
    "Slices run to Superior, rows to Posterior, columns to Left; bilinear of three axes is "
    "trilinear with pixels as areas; greedy decoding (the demo's default), where README and "
    "CT-SpatialVQA draw with top_p 0.9, temperature 1."
)


def _preset(name: str, title: str, hf_id: str, weights_gb: float, licence: str) -> Preset:
    return Preset(
        name,
        title,
        (hf_id,),
        model_types=("lamed_phi3", "lamed_llama"),
        windows_hu=(WINDOW_HU,),
        label="",
        sampling=Sampling(256),
        grounding="norm3d",
        strip=("echo", "eot"),
        min_transformers="4.45.2",
        weights_gb=weights_gb,
        licence=licence,
        facts=MappingProxyType(
            {
                "loader": "m3d",
                "needs": "transformers 4.45.2, monai",
                "files": {"config.json": "its configuration", "*.safetensors": "its weights"},
                "recipes": list(RECIPES),
                "prompts": list(PROMPTS),
                "tensor": [1, 1, *SHAPE],
                "image_tokens": IMAGE_TOKENS,
                "source": _SOURCE,
                "assumed": _ASSUMED,
            }
        ),
    )


PRESETS = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _preset("m3d-phi3", "M3D-LaMed Phi-3 4B", "GoodBaiBai88/M3D-LaMed-Phi-3-4B", 8.0,
                    "Apache-2.0"),
            _preset("m3d-llama2", "M3D-LaMed Llama-2 7B", "GoodBaiBai88/M3D-LaMed-Llama-2-7B",
                    14.5, "Apache-2.0 and the terms of Llama 2"),
        )
    }
)  # fmt: skip


def _word(asked: str, question: Question, given: Mapping[str, Any]) -> Worded:
    del question
    space = " " if given["prompt"] == "trained" else ""
    return Worded("<im_patch>" * IMAGE_TOKENS + space + asked)


def _volume(case: Case, recipe: str) -> ModelVolume:
    if recipe == "ct-spatialvqa":
        return _as_ct_spatialvqa(case)
    laid = along(case.volume, AXES)
    if recipe == "m3d-window":
        low, high = WINDOW_HU
        scaling = by_window(low, high, clip_first=True)
        return _cut_and_resized(laid.cut(foreground(laid, low)), scaling, recipe)
    if recipe == "m3d-seg":
        low, high = _seg_range(laid)
        scaling = replace(
            by_window(low, high, clip_first=True),
            said=f"clipped to {low:g} to {high:g}, percentiles of this CT, to 0 to 1",
        )
        return _cut_and_resized(laid.cut(foreground(laid, low)), scaling, recipe)
    scaling = by_range(float(laid.array.min()), float(laid.array.max()))
    return _cut_and_resized(laid.cut(foreground(laid)), scaling, recipe)


def _cut_and_resized(laid: Laid, scaling: Scaling, recipe: str) -> ModelVolume:
    axes = [resized(count, wanted) for count, wanted in zip(laid.array.shape, SHAPE, strict=True)]
    return made(laid, axes, scaling, recipe=recipe)


def _seg_range(laid: Laid) -> tuple[float, float]:
    """Return the percentiles of what lies above the mean, which its data are clipped to."""
    values = laid.array.ravel()
    above = values[values > values.mean(dtype=np.float64)]
    if not above.size:  # one value everywhere: any range that holds it makes 0 of it
        return float(values.min()), float(values.min()) + 1.0
    low, high = map(float, np.percentile(above, _SEG_PERCENTILES))
    return low, high if high > low else low + 1.0  # one value above the mean: 0 as well


def _as_ct_spatialvqa(case: Case) -> ModelVolume:
    laid = as_filed(case.volume, "kji", TITLE)
    axes = [stretched_itk(n, wanted) for n, wanted in zip(laid.array.shape, SHAPE, strict=True)]
    whole_numbers = case.volume.file_integers
    raw = replace(by_range(0.0, 1.0), after=None, outside=FILL_HU, whole_numbers=whole_numbers)
    volume = made(laid, axes, raw, recipe="ct-spatialvqa")
    assert volume.values is not None
    low, high = float(volume.values.min()), float(volume.values.max())
    scaling = by_range(low, high)
    assert scaling.after is not None
    return replace(
        volume,
        values=scaling.after(volume.values),
        scaling=scaling.said.replace("the CT's own range", "the range of what was resampled"),
        window_hu=(low, high),
        fill=float(scaling.after(np.array([FILL_HU], np.float32))[0]),
    )


MODEL = VolumeFamily(
    "m3d",
    TITLE,
    PRESETS,
    SETTINGS,
    _volume,
    _word,
    "m3d 1",
    by_own_range=("m3d", "m3d-seg", "ct-spatialvqa"),
    processor=lambda given: {"seg_enable": given["segment"]},
    clean=without_marks,
    notes=(TURNED_IN_TRAINING,),
)
