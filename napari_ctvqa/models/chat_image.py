"""Chat models that take pictures: slices with labels and a question in, text out.

One file of presets (``resources/model_presets.json``) says how each of them is fed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.dialects import read_calls, terminated
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.output_text import Stripped, stripped
from napari_ctvqa.core.picture_tokens import prompt_tokens
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.regions import slices_of
from napari_ctvqa.models._contract import check_sides
from napari_ctvqa.models._pictures import (
    chosen_slices,
    frame_of,
    picture,
    pixel_mm,
    slice_records,
    square,
)
from napari_ctvqa.models._presets import presets
from napari_ctvqa.models._prompts import Shown, Words, words
from napari_ctvqa.models._settings import PLANES, Feeding, feeding
from napari_ctvqa.models._toy_prompt import toy_meanings

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Question, ToolCall
    from napari_ctvqa.models._pictures import Frame

TOY_NOTE = "toy model, not valid on real CT"
MASKS_CHOSE = (
    "the slices were chosen by masks: the model is told where to look, so this is no fair test"
)


class ChatImage:
    """The family of chat models that take several pictures."""

    name = "chat-image"
    title = "Chat models with pictures"
    prompt_version = "chat-image 1"
    """To be raised with every change of what is sent: answers of two versions are two runs."""

    @property
    def presets(self) -> Mapping[str, Preset]:
        """Return the presets by name."""
        return presets()

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return the pictures and words that are sent for one question.

        ``settings`` may hold what ``_settings.Feeding`` names: ``plane``, ``sampling_of_slices``,
        ``max_slices`` (0: no picture), ``slices``, ``structures``, ``order``, ``size_px``,
        ``fit``, ``windows_hu``, ``prompt``, ``system``, ``with_tools`` (an agent asks) and the
        values of ``Sampling``.

        Raises
        ------
        GeometryError
            When the sides of the case are not to be trusted, or not known yet.
        CtvqaError
            For a setting that cannot be used, or when no mask names a slice.
        """
        fed = feeding(preset, settings)
        if fed.max_slices:
            check_sides(case)
        grid = case.volume.display_grid
        frame = frame_of(grid, fed)
        indices = _indices(case, question, fed, frame.axis)
        pictures = _pictures(preset, case, frame, fed, indices)
        shown = _shown(case, frame, indices)
        said = words(
            question,
            answer_format,
            fed,
            shown,
            case.volume.grid,
            instruction_first=bool(preset.facts.get("instruction_first")),
            final_answer=bool(preset.facts.get("final_answer")),
        )
        messages = _messages(preset, fed, said, pictures)
        ask = Ask(
            messages,
            sampling=fed.sampling,
            template=preset.template,
            processor=preset.processor,
            expected_tokens=prompt_tokens(preset, messages),
            meanings=_meanings(question, answer_format, fed, case, indices),
        )
        notes = (*_notes(preset, case, fed, frame, indices), *said.notes)
        return Prepared(ask, notes, _recipe(self.name, preset, case, fed, frame, indices, pictures))

    def read(self, preset: Preset, text: str, prompt: str = "") -> str:
        """Return the answer without thinking, echo and end marks; this is what is scored."""
        return self.stripped(preset, text, prompt).text

    def reading_notes(self, preset: Preset, text: str, prompt: str = "") -> tuple[str, ...]:
        """Return what a reader should know of how the answer was got from the text."""
        return self.stripped(preset, text, prompt).notes

    def stripped(self, preset: Preset, text: str, prompt: str = "") -> Stripped:
        """Return the answer and the notes on it."""
        rules = preset.strip
        if preset.facts.get("final_answer"):
            rules = (*rules, "final_answer")
        if preset.dialect == "meissa":
            ended = terminated(read_calls(preset.dialect, text).calls)
            if ended is not None:
                return Stripped(ended.strip(), ("the answer stands in a call of Terminate",))
        opens = bool(preset.facts.get("opens_thinking"))
        return stripped(text, rules, prompt, opens_thinking=opens)

    def calls(self, preset: Preset, text: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return the tool calls written in the text, and what had to be repaired (or empty).

        No call beside a sentence means that one was written that could not be read. Meissa's
        ``Terminate`` is an answer, no call.
        """
        opens = bool(preset.facts.get("opens_thinking"))
        found = read_calls(preset.dialect, text, opens_thinking=opens)
        if preset.dialect == "meissa" and terminated(found.calls) is not None:
            return (), ""
        return found.calls, "; ".join((*found.repaired, *found.unread))


def _indices(case: Case, question: Question, fed: Feeding, axis: int) -> tuple[int, ...]:
    """Return the display indices in the order in which they are sent."""
    count = case.volume.display_grid.shape_zyx[axis]
    if fed.slices is not None:
        beyond = [index for index in fed.slices if index >= count]
        if beyond:
            raise CtvqaError(
                f"The setting slices names slice {beyond[0]}; {case.case_id} has {count} "
                f"{PLANES[axis]} slices, 0 to {count - 1}.",
                hint="Give numbers in that range.",
            )
        return fed.slices
    if fed.choice == "structures":
        touched = _touched(case, question, fed, axis)
        picked = chosen_slices(len(touched), "linspace", fed.max_slices)
        indices = tuple(touched[number] for number in picked)
    else:
        indices = chosen_slices(count, fed.choice, fed.max_slices)
    return indices if fed.order == "forward" else indices[::-1]


def _touched(case: Case, question: Question, fed: Feeding, axis: int) -> list[int]:
    wanted = fed.structures or tuple(n for n in (question.organ, question.lesion) if n)
    masks = [case.masks[name] for name in wanted if name in case.masks]
    touched = sorted({int(at) for mask in masks for at in slices_of(mask.region, axis)})
    if not touched:
        named = ", ".join(wanted) or "none (the question names no organ)"
        raise CtvqaError(
            f"No slice of {case.case_id} holds a mask of: {named}.",
            hint="Name structures that have a mask, or choose slices another way.",
        )
    return touched


def _pictures(
    preset: Preset, case: Case, frame: Frame, fed: Feeding, indices: Sequence[int]
) -> tuple[Picture, ...]:
    return tuple(
        picture(case.volume, frame, index, fed.windows_hu, preset.label.format(i=number))
        for number, index in enumerate(indices, start=1)
    )


def _messages(
    preset: Preset, fed: Feeding, said: Words, pictures: Sequence[Picture]
) -> tuple[Message, ...]:
    parts: list[str | Picture] = [said.before] if said.before else []
    for shown in pictures:
        labelled = (shown.label, shown) if preset.label_first else (shown, shown.label)
        parts += [part for part in labelled if part != ""]
    parts.append(said.after)
    user = Message("user", tuple(parts))
    return (Message("system", (fed.system,)), user) if fed.system else (user,)


def _meanings(
    question: Question,
    answer_format: AnswerFormat,
    fed: Feeding,
    case: Case,
    indices: Sequence[int],
) -> Mapping[str, str]:
    if fed.prompt != "toy":
        return {}
    grid, axis = case.volume.display_grid, PLANES.index(fed.plane)
    slices = [grid.ras_slice(axis, index) for index in indices]
    return toy_meanings(question, slices, choice=answer_format is AnswerFormat.MC)


def _shown(case: Case, frame: Frame, indices: Sequence[int]) -> Shown:
    grid = case.volume.display_grid
    steps = {b - a for a, b in pairwise(indices)}
    even = len(steps) == 1 and steps != {0}
    rising, falling = all(step > 0 for step in steps), all(step < 0 for step in steps)
    return Shown(
        len(indices),
        grid.shape_zyx[frame.axis],
        1 if rising else -1 if falling else 0,
        abs(steps.pop()) * grid.spacing_mm_zyx[frame.axis] if even else None,
        pixel_mm(frame, grid) if frame.resampled else None,
    )


def _notes(
    preset: Preset, case: Case, fed: Feeding, frame: Frame, indices: Sequence[int]
) -> tuple[str, ...]:
    grid = case.volume.display_grid
    notes = []
    if preset.toy and not _valid_here(preset, case):
        notes.append(TOY_NOTE)
    count = grid.shape_zyx[frame.axis]
    notes.append(f"{len(indices)} of {count} {fed.plane} slices")
    if fed.choice == "structures" and fed.slices is None:
        notes.append(MASKS_CHOSE)
    if indices and not square(*pixel_mm(frame, grid)):
        height, width = pixel_mm(frame, grid)
        notes.append(f"pixels are {width:.3g} mm wide and {height:.3g} mm high, sent as they are")
    most = preset.facts.get("evaluated_pictures")
    if most is not None and len(indices) > most:
        notes.append(f"{preset.title} is not made for more than {most} picture(s)")
    if case.report.level is Level.AMBER:
        notes.append("the geometry of this case is doubtful (amber)")
    if grid is not case.volume.grid:
        notes.append("the CT is sheared: the slices are resampled, not those of the file")
    return tuple(notes)


def _valid_here(preset: Preset, case: Case) -> bool:
    """Return whether the case looks like what a toy model was trained on."""
    valid = preset.facts.get("valid_on", {})
    grid = case.volume.grid
    return (
        case.case_id in valid.get("case_ids", ())
        and list(grid.shape_zyx) == valid.get("shape_zyx")
        and [round(mm, 3) for mm in grid.spacing_mm_zyx] == valid.get("spacing_mm_zyx")
    )


def _recipe(
    family: str,
    preset: Preset,
    case: Case,
    fed: Feeding,
    frame: Frame,
    indices: Sequence[int],
    pictures: Sequence[Picture],
) -> Mapping[str, Any]:
    """Return the exact preprocessing as plain data, enough to make the pictures again."""
    grid = case.volume.display_grid
    labels = [shown.label for shown in pictures]
    by_hand, by_masks = fed.slices is not None, fed.choice == "structures"
    return {
        "family": family,
        "preset": preset.name,
        "case_id": case.case_id,
        "plane": fed.plane,
        "rows_to": grid.direction_letters(frame.index_from_pixel(0)[:, 0]),
        "columns_to": grid.direction_letters(frame.index_from_pixel(0)[:, 1]),
        "slice_choice": "by hand" if by_hand else fed.choice,
        "masks_chose_slices": by_masks and not by_hand,
        "order": fed.order,
        "slices_in_plane": grid.shape_zyx[frame.axis],
        "slices": slice_records(grid, frame.axis, indices, labels),
        "windows_hu": [list(window) for window in fed.windows_hu],
        "scaling": "clip, (HU - low) / (high - low) * 255 in float32, rounded half to even, uint8",
        "first_voxel": list(frame.first),
        "voxels": list(frame.voxels),
        "resized_px": list(frame.inner_px),
        "resampling": "bilinear" if frame.resampled else "none",
        "sent_px": list(frame.outer_px),
        "placed_at_px": list(frame.at_px),
        "padding": 0,
        "pixel_mm": list(pixel_mm(frame, grid)),
        "prompt": fed.prompt,
    }


MODEL = ChatImage()
