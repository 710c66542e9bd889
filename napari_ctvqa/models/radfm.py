"""RadFM: a CT as 512 x 512 pixels by up to 64 slices, three equal channels; text back.

Contract. Tensor (1, 1, 3, 512, 512, D): rows, columns, slices; D one of 4, 8 … 64; values 0 to 1.
Unit: none of its own, each CT is scaled by its own range. Orientation: no source states one; its
volumes are stacks of pictures as a radiologist sees them, so rows to Posterior, columns to the
patient's Left, slices to Superior (assumed).

Recipes (``recipe``):

* ``radfm`` (default): the project's loader: each slice bilinear to 512 x 512 (pixels are areas),
  more than 64 slices to 64 by the nearest one (outer slices kept), min–max to 0–1, then to the
  nearest multiple of 4 by picking slices.
* ``ct-spatialvqa``: that benchmark's script: file order, ITK's linear resampling to 512 x 512 x 128
  with the origin kept, whole numbers, -1024 to 1024 HU to 0 to 1, filled with -1024 HU. Twice as
  many slices as the model was made for.

Prompt: ``<image>`` + 32 slots + ``</image>`` before the question. The model's own ``generate``
takes no settings: at most 200 new tokens, greedy, so none can be changed here. It reads no 2-D
picture through this family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Preset, Sampling
from napari_ctvqa.core.resampling import end_to_end
from napari_ctvqa.models._volume_family import VolumeFamily, Worded
from napari_ctvqa.models._volumes import (
    FILL_HU,
    Axis,
    along,
    as_filed,
    by_range,
    by_window,
    made,
    picked,
    resized,
    stretched_itk,
    unscaled,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question

TITLE = "RadFM"
SIDE, MOST_SLICES, SLICE_STEP = 512, 64, 4
AXES = "PLS"
WINDOW_HU = (-1024.0, 1024.0)
CT_SPATIALVQA_SLICES = 128
RECIPES = ("radfm", "ct-spatialvqa")
SLOTS = 32
LEAD = (1, 1, 3)

PRESETS = MappingProxyType(
    {
        "radfm": Preset(
            "radfm",
            "RadFM 14B",
            ("chaoyi-wu/RadFM",),
            windows_hu=(WINDOW_HU,),
            label="",
            sampling=Sampling(200),
            strip=("echo", "eot"),
            min_transformers="4.28.1",
            weights_gb=28.0,
            licence="none stated",
            facts=MappingProxyType(
                {
                    "loader": "radfm",
                    "fixed_drawing": True,
                    "needs": "transformers 4.28.1, einops",
                    "files": {
                        "pytorch_model.bin": "its weights, of the split archive",
                        "Language_files/config.json": "what its language model is made of",
                    },
                    "repository": {
                        "of": "chaoyi-wu/RadFM",
                        "holds": [
                            "Quick_demo/Model/RadFM/multimodality_model.py",
                            "Model/RadFM/multimodality_model.py",
                        ],
                    },
                    "recipes": list(RECIPES),
                    "tensor": [*LEAD, SIDE, SIDE, "4 to 64"],
                    "source": "Repository chaoyi-wu/RadFM: radiopaedia.py, multi_dataset_test.py, "
                    "Quick_demo; CT-SpatialVQA's preprocess_radfm.py.",
                    "assumed": "Rows run to Posterior, columns to Left, slices to Superior; "
                    "bilinear in floating point, where its loader gets 8-bit pictures.",
                }
            ),
        )
    }
)


def slices_for(count: int) -> int:
    """Return the nearest of 4, 8 … 64; of two equally near the smaller one."""
    return min(range(SLICE_STEP, MOST_SLICES + 1, SLICE_STEP), key=lambda n: abs(n - count))


def _volume(case: Case, recipe: str) -> ModelVolume:
    if recipe == "ct-spatialvqa":
        laid = as_filed(case.volume, "jik", TITLE)
        sizes = zip(laid.array.shape, (SIDE, SIDE, CT_SPATIALVQA_SLICES), strict=True)
        window = by_window(*WINDOW_HU, clip_first=False)
        filling = (FILL_HU - WINDOW_HU[0]) / (WINDOW_HU[1] - WINDOW_HU[0])
        scaling = replace(window, outside=filling, whole_numbers=case.volume.file_integers)
        axes = [stretched_itk(*size) for size in sizes]
        return made(laid, axes, scaling, recipe=recipe, lead=LEAD, slice_axis=2)
    laid = along(case.volume, AXES)
    rows, columns, slices = laid.array.shape
    axes = [resized(rows, SIDE), resized(columns, SIDE), _slices(slices)]
    raw = made(laid, axes, unscaled(0.0, 1.0), recipe=recipe, lead=LEAD, slice_axis=2)
    assert raw.values is not None
    low, high = float(raw.values.min()), float(raw.values.max())
    scaling = by_range(low, high)
    assert scaling.after is not None
    return replace(
        raw,
        values=scaling.after(raw.values),
        scaling=scaling.said.replace("the CT's own range", "the range of what was resampled"),
        window_hu=(low, high),
        low_high=(0.0, 1.0),
    )


def _slices(count: int) -> Axis:
    """Return which slices are taken: all, as few more or less as the next multiple of 4 wants."""
    if count <= MOST_SLICES:
        return picked(count, slices_for(count))
    nearest = np.floor(end_to_end(count, MOST_SLICES) + 0.5)
    return Axis(nearest, (count - 1) / (MOST_SLICES - 1), 0.0)


def _word(asked: str, question: Question, given: Mapping[str, Any]) -> Worded:
    del question, given
    slots = "".join(f"<image{number}>" for number in range(SLOTS))
    return Worded(f"<image>{slots}</image>{asked}")


MODEL = VolumeFamily(
    "radfm",
    TITLE,
    PRESETS,
    {"recipe": RECIPES},
    _volume,
    _word,
    "radfm 1",
    by_own_range=("radfm",),
    notes=(
        "RadFM's own code draws the answer: at most 200 tokens, greedy, whatever is set",
        "how its training volumes are turned is not stated: rows to Posterior, columns to Left and "
        "slices to Superior are assumed",
    ),
)
