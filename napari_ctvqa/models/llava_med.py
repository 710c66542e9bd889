"""LLaVA-Med v1.5: one slice of a CT as a picture, a question, text back.

Contract. One picture, rows to Posterior, columns to the patient's Left, an axial slice. It was
trained on single pictures of papers; no source says how a CT is shown to it, so slice and window
are ours (assumed): the slice where the question's structure is largest where it names one that has
a mask and ``slice`` is ``structure``, else the middle slice; W400/L50, grey. A picture that is no
square is made one with the mean colour of its encoder's training pictures (122, 116, 104), in the
middle, as the project's code does, but never a pixel beside it, as that does at random.

Prompt: ``<image>``, a line break, the question; the conversation around it is the repository's own
template ``mistral_instruct``. Its checkpoint's names are not those that transformers knows: it is
loaded by its repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared, Preset, Sampling
from napari_ctvqa.core.output_text import stripped
from napari_ctvqa.core.regions import focus_slice
from napari_ctvqa.models._contract import check_case
from napari_ctvqa.models._settings import chosen, drawing
from napari_ctvqa.models._slices import MASK_CHOSE, middle_slice, slice_as_seen, slice_recipe
from napari_ctvqa.models._volume_prompt import asked_plainly

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import AnswerFormat, Question, ToolCall

TITLE = "LLaVA-Med"
WINDOW_HU = (-150.0, 250.0)
MEAN_COLOUR = (122, 116, 104)
"""CLIP's means .48145466, .4578275, .40821073, times 255, cut to whole numbers."""
SETTINGS: Mapping[str, tuple[Any, ...]] = {"slice": ("middle", "structure")}

PRESETS = MappingProxyType(
    {
        "llava-med": Preset(
            "llava-med",
            "LLaVA-Med v1.5 Mistral 7B",
            ("microsoft/llava-med-v1.5-mistral-7b",),
            max_slices=1,
            windows_hu=(WINDOW_HU,),
            label="",
            sampling=Sampling(1024, temperature=0.2),
            strip=("echo", "eot"),
            min_transformers="4.36.2",
            weights_gb=15.0,
            licence="research only",
            facts=MappingProxyType(
                {
                    "loader": "llava-med",
                    "needs": "transformers 4.36.2; the folder's name must hold llava and mistral",
                    "files": {"config.json": "its configuration", "*.safetensors": "its weights"},
                    "repository": {
                        "of": "microsoft/LLaVA-Med",
                        "holds": ["llava/model/builder.py"],
                    },
                    "tokens": {"rule": "each", "tokens": 576, "model_px": 336},
                    "source": "Repository microsoft/LLaVA-Med: model_vqa.py, mm_utils.py.",
                    "assumed": "Which slice and which window; temperature 0.2 as model_vqa.py.",
                }
            ),
        )
    }
)


class LlavaMed:
    """The family of LLaVA-Med."""

    name = "llava-med"
    title = TITLE
    prompt_version = "llava-med 1"
    presets: Mapping[str, Preset] = PRESETS
    modes = ("direct",)

    def wants_masks(self, settings: Mapping[str, Any]) -> bool:
        """Return whether every mask of the case has to be read first."""
        return settings.get("slice") == "structure"

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return the picture and the words; settings are ``slice`` and those of ``Sampling``.

        Raises
        ------
        GeometryError
            When the sides of the case are not to be trusted, or it is too small.
        CtvqaError
            For a setting that cannot be used, and where values may be no HU.
        """
        given = chosen(settings, SETTINGS)
        sampling = replace(preset.sampling, **drawing(settings))
        check_case(case, TITLE)
        index, notes = _index(case, question, given["slice"])
        picture = _squared(slice_as_seen(case, index, WINDOW_HU, rounded=True))
        said = asked_plainly(question, answer_format)
        user = Message("user", ("<image>\n", picture, said.text))
        processor = {"conversation": "mistral_instruct"}
        ask = Ask((user,), sampling=sampling, processor=processor)
        recipe = slice_recipe(self.name, preset, case, index, picture, slice=given["slice"])
        return Prepared(ask, (*notes, *said.notes), recipe)

    def read(self, preset: Preset, text: str, prompt: str = "") -> str:
        """Return the answer without echo and end marks."""
        return stripped(text, preset.strip, prompt).text

    def calls(self, preset: Preset, text: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return no calls: it knows no tools."""
        del preset, text
        return (), ""


def _index(case: Case, question: Question, choice: str) -> tuple[int, tuple[str, ...]]:
    """Return the display slice, and what a reader should know of the choice."""
    count = case.volume.display_grid.shape_zyx[0]
    names = [name for name in (question.lesion, question.organ) if name]
    masks = [case.masks[name] for name in names if name in case.masks]
    filled = [mask for mask in masks if not mask.region.empty]
    if choice == "structure" and filled:
        index = focus_slice(filled[0].region)
        return index, (f"one of {count} slices: where {filled[0].name} is largest", MASK_CHOSE)
    return middle_slice(case), (f"one of {count} slices: the middle one",)


def _squared(picture: Picture) -> Picture:
    """Return the picture in the middle of a square of the mean colour."""
    rows, columns = picture.pixels.shape[:2]
    side = max(rows, columns)
    if rows == columns:
        return picture
    whole: npt.NDArray[np.uint8] = np.full((side, side, 3), MEAN_COLOUR, np.uint8)
    top, left = (side - rows) // 2, (side - columns) // 2
    whole[top : top + rows, left : left + columns] = picture.pixels
    assert picture.index_from_pixel is not None
    matrix = picture.index_from_pixel.copy()
    matrix[:, 2] -= top * matrix[:, 0] + left * matrix[:, 1]
    return replace(picture, pixels=whole, index_from_pixel=matrix)


MODEL = LlavaMed()
