"""Merlin: the CT at 1.5 x 1.5 x 3 mm, its middle of 224 x 224 x 160 voxels; a report section back.

Contract. Tensor (1, 1, 224, 224, 160), axes to Right, Anterior, Superior; -1000 to 1000 HU to 0 to
1; 336 x 336 x 480 mm about the middle of the CT, filled with 0 (air). The model takes any axis
order without a word and answers nonsense to a wrong one: this file gives it no other.

Recipe (``recipe``): ``merlin``, the library's own transforms (MONAI): reoriented to RAS; resampled
linearly, the first voxel's centre kept (of most oblique CTs the middle, as MONAI's rounding has
it), outer values going on; clipped and scaled; padded and cut about the middle. CT-SpatialVQA's
script makes (slices, rows, columns) of it, which is a wrong order for the model: not offered.

It writes sections of reports and was not trained on questions. Prompts (``prompt``): ``question``
(default) asks as CT-SpatialVQA does, in our words (assumed), ended by ``###`` as its training texts
are; ``report`` asks for the section of the organ that the question is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Preset, Sampling
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.models._volume_family import VolumeFamily, Worded
from napari_ctvqa.models._volumes import along, by_window, centred, first_is_kept, made, spaced

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question

TITLE = "Merlin"
SHAPE = (224, 224, 160)
AXES = "RAS"
SPACING_MM = (1.5, 1.5, 3.0)
WINDOW_HU = (-1000.0, 1000.0)
RECIPES = ("merlin",)
PROMPTS = ("question", "report")
END = "###"
_SECTIONS = {
    "lung": "lower thorax",
    "liver": "liver",
    "gall": "gallbladder",
    "spleen": "spleen",
    "pancrea": "pancreas",
    "adrenal": "adrenal glands",
    "kidney": "kidneys",
    "colon": "bowel",
    "bowel": "bowel",
    "intestine": "bowel",
    "duodenum": "bowel",
    "stomach": "bowel",
    "rectum": "bowel",
    "bladder": "pelvic",
    "prostate": "pelvic",
    "uterus": "pelvic",
    "aorta": "circulatory",
    "vein": "circulatory",
    "artery": "circulatory",
    "cava": "circulatory",
    "lymph": "lymph nodes",
    "bone": "musculoskeletal",
    "femur": "musculoskeletal",
}
"""What the organ systems of its reports are called, by a part of our names."""

PRESETS = MappingProxyType(
    {
        "merlin": Preset(
            "merlin",
            "Merlin report generation 7B",
            ("stanfordmimi/Merlin",),
            windows_hu=(WINDOW_HU,),
            label="",
            sampling=Sampling(128, repetition_penalty=1.2, stop=(END,)),
            strip=("echo", "eot"),
            licence="MIT",
            facts=MappingProxyType(
                {
                    "loader": "merlin",
                    "needs": "the folder that holds the package merlin (merlin-vlm) with its "
                    "checkpoints downloaded, about 25 GB, and beside it the folder checkpoints "
                    "with RadLLaMA-7b, which the library makes where it is first run; torch's "
                    "cache holds ResNet-152 since then",
                    "files": {
                        "merlin/__init__.py": "the library",
                        "merlin/models/checkpoints/*.pt": "its weights, downloaded at first use",
                    },
                    "recipes": list(RECIPES),
                    "prompts": list(PROMPTS),
                    "tensor": [1, 1, *SHAPE],
                    "source": "Repository StanfordMIMI/Merlin: monai_transforms.py, report "
                    "generation demo; MONAI: Spacing, SpatialPad, CenterSpatialCrop.",
                    "assumed": "The wording of a question: it was trained on report sections only.",
                }
            ),
        )
    }
)


def _volume(case: Case, recipe: str) -> ModelVolume:
    laid = along(case.volume, AXES)
    kept = first_is_kept(laid, case.volume.display_grid, SPACING_MM)
    axes = [
        centred(spaced(count, mm, wanted_mm, first_kept=kept), wanted)
        for count, mm, wanted_mm, wanted in zip(
            laid.array.shape, laid.spacing_mm, SPACING_MM, SHAPE, strict=True
        )
    ]
    scaling = by_window(*WINDOW_HU, clip_first=False)
    return made(laid, axes, scaling, recipe=recipe, slice_axis=2)


def section_of(question: Question) -> str:
    """Return the organ system of Merlin's reports that a question is about; empty for none."""
    names = f"{question.organ} {question.lesion}".lower()
    return next((section for part, section in _SECTIONS.items() if part in names), "")


def _word(asked: str, question: Question, given: Mapping[str, Any]) -> Worded:
    if given["prompt"] == "question":
        return Worded(
            f"Answer the question about this CT in a few words: {asked}{END}\n",
            ("Merlin was trained to write report sections, not to answer questions",),
        )
    section = section_of(question)
    if not section:
        raise CtvqaError(
            f"The question names no organ that Merlin writes a report section of: "
            f"{question.organ or 'none'}.",
            hint="Ask it with prompt=question.",
        )
    return Worded(
        f"Generate a radiology report for {section}{END}\n",
        (f"the answer is its report section on {section}, not an answer to the question",),
    )


def _clean(text: str) -> str:
    return text.split(END, 1)[0].strip()


MODEL = VolumeFamily(
    "merlin",
    TITLE,
    PRESETS,
    {"recipe": RECIPES, "prompt": PROMPTS},
    _volume,
    _word,
    "merlin 1",
    clean=_clean,
)
