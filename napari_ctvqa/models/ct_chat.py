"""CT-CHAT: a chest CT at 1.5 x 0.75 x 0.75 mm, its middle of 240 x 480 x 480 voxels; chat back.

Contract. Tensor (1, 1, 240, 480, 480) for its encoder, axes to Superior, Left, Posterior; -1000 to
1000 HU to -1 to 1; 360 x 360 x 360 mm about the middle of the CT, filled with -1. The axes are
those of its encoder's training data: CT-RATE's files run to (L, P, S) and the script transposes
them to (k, i, j), which TorchIO's author found, too (TorchIO issue 1282); so rows run to the
patient's left.

Recipes (``recipe``):

* ``ct-chat`` (default): the project's encode_script.py as it is.
* ``z-y-x``: the same with rows to Posterior and columns to Left, as descriptions of the script say
  (slices, rows, columns) and as nobody's code does.

Both clip first, then resize trilinearly (pixels are areas) to ``int(n s/t)`` voxels, then cut or
pad about the middle.

Prompt: ``<image>``, a line break, ``<provided>``, the question and what kind of answer is wanted
(``answer``: ``short``, ``long``, ``report``; with options it is multiple choice). The conversation
around it, with a long system text, is taken from the repository's own ``conversation.py``, whose
words are not repeated here. CT-SpatialVQA's runner leaves ``<image>`` and ``<provided>`` away, so
that the CT is not looked at: not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Preset, Sampling
from napari_ctvqa.models._volume_family import VolumeFamily, Worded
from napari_ctvqa.models._volumes import along, by_window, centred, made, rescaled

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question

TITLE = "CT-CHAT"
SHAPE = (240, 480, 480)
SPACING_MM = (1.5, 0.75, 0.75)
WINDOW_HU = (-1000.0, 1000.0)
AXES = {"ct-chat": "SLP", "z-y-x": "SPL"}
ANSWERS = ("short", "long", "report")
_MARKS = {
    "short": "<short_answer>",
    "long": "<long_answer>",
    "report": "<report_generation>",
    "choice": "<multiple_choice>",
}


def _preset(name: str, title: str, weights_gb: float, base: str, conversation: str) -> Preset:
    return Preset(
        name,
        title,
        ("ibrahimhamamci/CT-RATE",),
        windows_hu=(WINDOW_HU,),
        label="",
        sampling=Sampling(512),
        strip=("echo", "eot"),
        min_transformers="4.44",
        gated=True,
        weights_gb=weights_gb,
        licence="CC-BY-NC-SA-4.0",
        facts=MappingProxyType(
            {
                "loader": "ct-chat",
                "needs": "transformers 4.44 and transformer_maskgit of CT-CLIP; the folder's name "
                "must hold llava and lora, as its loader goes by it",
                "files": {
                    "config.json": "its configuration",
                    "clip_visual_encoder.pth": "the weights of its encoder, put beside the others",
                },
                "repository": {
                    "of": "ibrahimethemhamamci/CT-CHAT",
                    "holds": ["llava/model/builder.py"],
                },
                "base": base,
                "conversation": conversation,
                "recipes": list(AXES),
                "answers": list(ANSWERS),
                "tensor": [1, 1, *SHAPE],
                "source": "Repository ibrahimethemhamamci/CT-CHAT: encode_script.py, "
                "ctchat_validation_llama.py, gradio_web_server.py; TorchIO issue 1282.",
                "assumed": "Short answers are wanted unless options are given.",
            }
        ),
    )


PRESETS = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _preset("ct-chat-8b", "CT-CHAT Llama 3.1 8B", 16.0,
                    "meta-llama/Llama-3.1-8B-Instruct", "llama3"),
            _preset("ct-chat-70b", "CT-CHAT Llama 3.1 70B", 140.0,
                    "meta-llama/Llama-3.1-70B-Instruct", "llama3"),
        )
    }
)  # fmt: skip


def _volume(case: Case, recipe: str) -> ModelVolume:
    laid = along(case.volume, AXES[recipe])
    axes = [
        centred(rescaled(count, mm, wanted_mm), wanted)
        for count, mm, wanted_mm, wanted in zip(
            laid.array.shape, laid.spacing_mm, SPACING_MM, SHAPE, strict=True
        )
    ]
    scaling = by_window(*WINDOW_HU, clip_first=True, to=(-1.0, 1.0))
    return made(laid, axes, scaling, recipe=recipe)


def _word(asked: str, question: Question, given: Mapping[str, Any]) -> Worded:
    kind = "choice" if question.options and "Choices: " in asked else given["answer"]
    return Worded(f"<image>\n <provided>{asked} {_MARKS[kind]}")


MODEL = VolumeFamily(
    "ct-chat",
    TITLE,
    PRESETS,
    {"recipe": tuple(AXES), "answer": ANSWERS},
    _volume,
    _word,
    "ct-chat 1",
    processor=lambda given: {"conversation": "llama3"},
)
