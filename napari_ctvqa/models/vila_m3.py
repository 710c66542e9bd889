"""VILA-M3: one axial slice, a question, and an expert that the model itself may ask for.

Contract. One picture of the CT in RAS: slice n // 2 counted from the feet, where its
demonstration's slider stands at first; -150 to 250 HU to 0 to 255, cut to whole numbers, rows to
Posterior and columns to the patient's Left. (Its demonstration stores the picture as JPEG; it is
sent without loss here.)

Protocols (``protocol``):

* ``m3`` (default): the demonstration's. The prompt lists the experts; where the answer holds one
  trigger word, ``<VISTA3D(hepatic tumor)>``, the result is given back as a second turn: what its
  colours mean, the overlay, and the question again. The demonstration's own words for the list are
  not repeated here: the same facts stand in ours (assumed).
* ``ct-spatialvqa``: that benchmark's runner: no list, the result for ``everything`` is given at
  once, and the question again. Its own system text and its drawing are not followed (assumed).

The expert (``expert``) is ``off`` by default: VISTA3D is not run, and an answer that asks for it is
told to be none. ``masks`` puts the case's own masks in its place; of reference masks that is an
oracle, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Ask, Message, Prepared, Preset, Sampling
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.expert_calls import EVERYTHING, EXPERT, ExpertCall, expert_called
from napari_ctvqa.core.output_text import stripped
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.models._contract import check_case
from napari_ctvqa.models._settings import chosen, drawing
from napari_ctvqa.models._slices import middle_slice, slice_as_seen, slice_recipe
from napari_ctvqa.models._vista3d import Result, groups, result
from napari_ctvqa.models._volume_prompt import asked_plainly

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import AnswerFormat, Question

TITLE = "VILA-M3"
WINDOW_HU = (-150.0, 250.0)
OFFERED = (
    EVERYTHING, "hepatic tumor", "pancreatic tumor", "lung tumor", "bone lesion", "organs",
    "cardiovascular", "gastrointestinal", "skeleton", "muscles",
)  # fmt: skip
SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "protocol": ("m3", "ct-spatialvqa"),
    "expert": ("off", "masks"),
}
ORACLE = (
    f"masks of the case stand in for {EXPERT}: of reference masks this is an oracle, no fair test"
)
_AGAIN = "Use this result to respond to this prompt:\n"
_CARDS = (
    "Expert models that can be called:\n"
    f"<{EXPERT}(args)> Modality: CT, Task: segmentation, Overview: human anatomy and some tumors, "
    f"Valid args are: {', '.join(repr(name) for name in OFFERED)}\n"
    "Write the expert as <NAME(args)> to call it.\n"
)


def _preset(name: str, title: str, hf_id: str, memory: str, conversation: str) -> Preset:
    return Preset(
        name,
        title,
        (hf_id,),
        max_slices=1,
        windows_hu=(WINDOW_HU,),
        label="",
        sampling=Sampling(1024, stop=("<|eot_id|>",)),
        strip=("echo", "eot"),
        min_transformers="4.37.2",
        licence="CC-BY-NC-SA-4.0",
        facts=MappingProxyType(
            {
                "loader": "vila-m3",
                "needs": f"transformers 4.37.2, flash-attn 2.5.8, {memory}",
                "files": {"config.json": "its configuration"},
                "repository": {
                    "of": "Project-MONAI/VLM-Radiology-Agent-Framework with its submodule VILA",
                    "holds": ["thirdparty/VILA/llava/model/builder.py", "llava/model/builder.py"],
                },
                "conversation": conversation,
                "prompts": list(SETTINGS["protocol"]),
                "source": "Repository Project-MONAI/VLM-Radiology-Agent-Framework: gradio_m3.py, "
                "experts/utils.py, expert_monai_vista3d.py; CT-SpatialVQA's run_vista3d_eval.py.",
                "assumed": "The wording of the list of experts, of which only the one for CT is "
                "told of; greedy decoding in protocol ct-spatialvqa, too, without a system text "
                "of its own, where that runner has one and draws with temperature 0.2, top_p 0.9.",
            }
        ),
    )


PRESETS = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _preset(
                "vila-m3-8b",
                "VILA-M3 8B",
                "MONAI/Llama3-VILA-M3-8B",
                "18 GB of graphics memory",
                "llama_3",
            ),
            _preset(
                "vila-m3-3b",
                "VILA-M3 3B",
                "MONAI/Llama3-VILA-M3-3B",
                "a graphics card",
                "vicuna_v1",
            ),
            _preset(
                "vila-m3-13b",
                "VILA-M3 13B",
                "MONAI/Llama3-VILA-M3-13B",
                "30 GB of graphics memory",
                "vicuna_v1",
            ),
        )
    }
)


class VilaM3:
    """The family of VILA-M3."""

    name = "vila-m3"
    title = TITLE
    prompt_version = "vila-m3 1"
    presets: Mapping[str, Preset] = PRESETS
    modes = ("direct",)

    def wants_masks(self, settings: Mapping[str, Any]) -> bool:
        """Return whether every mask of the case has to be read first."""
        return settings.get("expert") == "masks"

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return picture and words; settings are ``protocol``, ``expert`` and ``Sampling``'s.

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
        index = middle_slice(case)
        picture = slice_as_seen(case, index, WINDOW_HU, rounded=False)
        said = asked_plainly(question, answer_format)
        count = case.volume.display_grid.shape_zyx[0]
        notes = [f"one of {count} slices: the middle one"]
        if given["protocol"] == "m3":
            messages = [
                Message("user", (f"{_CARDS}<image>This is a CT image.\n", picture, said.text))
            ]
        else:
            messages = [Message("user", ("<image> ", picture, said.text))]
            if given["expert"] == "masks":
                messages.append(_told(result(case, EVERYTHING, index, picture), said.text))
                notes.append(ORACLE)
        conversation = str(preset.facts["conversation"])
        ask = Ask(
            tuple(messages),
            sampling=sampling,
            processor={"conversation": conversation, "min_new_tokens": 2},
        )
        recipe = slice_recipe(self.name, preset, case, index, picture, **given)
        return Prepared(ask, (*notes, *said.notes), recipe)

    def follow_up(
        self,
        preset: Preset,
        prepared: Prepared,
        text: str,
        question: Question,
        case: Case,
        settings: Mapping[str, Any],
    ) -> Prepared | None:
        """Return the conversation with the result of the expert that the text asks for.

        None where it asks for none, where none is run, or where it was given one already.

        Raises
        ------
        CtvqaError
            When the masks that stand in for the expert are still being read.
        """
        del preset
        called = expert_called(text)
        asked_before = any(message.role == "assistant" for message in prepared.ask.messages)
        if not self._gives(called, settings) or asked_before:
            return None
        assert called is not None
        if not case.complete:
            raise CtvqaError(
                f"The masks of {case.case_id}, which stand in for {EXPERT}, are still being read.",
                hint="Ask again when the case is complete.",
            )
        (picture,) = prepared.ask.pictures
        index = int(prepared.recipe["slices"][0]["display_slice"])
        given = result(case, called.group, index, picture)
        *_, last = prepared.ask.messages
        asked = str(last.parts[-1])
        messages = (*prepared.ask.messages, Message("assistant", (text,)), _told(given, asked))
        shows = list(given.structures)
        notes = (
            ORACLE,
            f"it asked for {called.group!r}; in this slice: {', '.join(shows) or 'nothing'}",
        )
        return Prepared(
            replace(prepared.ask, messages=messages),
            notes,
            {**prepared.recipe, "expert_group": called.group, "expert_shows": shows},
        )

    def _gives(self, called: ExpertCall | None, settings: Mapping[str, Any]) -> bool:
        if called is None or called.problem or called.answered or not self.wants_masks(settings):
            return False
        return called.group in groups()

    def read(self, preset: Preset, text: str, prompt: str = "") -> str:
        """Return the answer without echo and end marks; a trigger word stays as it is."""
        return stripped(text, preset.strip, prompt).text

    def reading_notes(self, preset: Preset, text: str, prompt: str = "") -> tuple[str, ...]:
        """Return what a reader should know: that a text asks for an expert instead of answering."""
        notes = stripped(text, preset.strip, prompt).notes
        called = expert_called(text)
        if called is None:
            return notes
        known = called.group in groups()
        why = called.problem or ("" if known else f"{EXPERT} knows no group {called.group!r:.80}")
        said = f"it asks for {EXPERT}({called.group:.80}) and gives no answer of its own"
        return (*notes, f"{said}: {why}" if why else said)

    def calls(self, preset: Preset, text: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return the expert that a text asks for as a call."""
        del preset
        called = expert_called(text)
        if called is None:
            return (), ""
        return (
            () if called.problem else (ToolCall(EXPERT, {"group": called.group}),)
        ), called.problem


def _told(given: Result, asked: str) -> Message:
    """Return the expert's turn, which goes to the model as the user's."""
    return Message("user", (given.text, given.overlay, f"{_AGAIN}{asked}"))


MODEL = VilaM3()
