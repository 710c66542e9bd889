"""What the volume families have in common: one CT, one sentence, one answer; no tools.

A family's file states its contract and says how a CT becomes a tensor and a question a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.asking import Ask, Message, Prepared
from napari_ctvqa.core.output_text import Stripped, stripped
from napari_ctvqa.core.records import no_items
from napari_ctvqa.models._contract import check_case, hu_doubt
from napari_ctvqa.models._settings import chosen, drawing
from napari_ctvqa.models._volume_prompt import asked_plainly
from napari_ctvqa.models._volumes import LastVolume, volume_notes, volume_recipe

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import AnswerFormat, Question, ToolCall

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Worded:
    """The prompt of one question, and what a reader should know of it."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class VolumeFamily:
    """A family of models that take one CT as a tensor.

    Parameters
    ----------
    settings
        What a run may change, the default first: ``recipe`` and what else there is.
    make
        The volume of a case by a recipe.
    word
        The prompt around a question that was made inert, by the settings.
    by_own_range
        Recipes that scale a CT by its own range, so that values that may be no HU are told, not
        refused.
    processor
        What of the settings goes to the model's code beside the tensor.
    clean
        What is done to an answer after end marks are taken away.
    notes
        What a reader should know of every answer of the family.
    """

    name: str
    title: str
    presets: Mapping[str, Preset]
    settings: Mapping[str, Values]
    make: Callable[[Case, str], ModelVolume]
    word: Callable[[str, Question, Mapping[str, Any]], Worded]
    prompt_version: str
    by_own_range: Sequence[str] = ()
    processor: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda given: {}
    clean: Callable[[str], str] = str.strip
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=no_items)
    modes: tuple[str, ...] = ("direct",)
    _last: LastVolume = field(default_factory=LastVolume, repr=False)

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return volume and words; ``settings`` are the family's own and those of ``Sampling``.

        Raises
        ------
        GeometryError
            When the sides of the case are not to be trusted, or it is too small.
        CtvqaError
            For a setting that cannot be used, and where a window in HU meets values that are none.
        """
        given = chosen(settings, self.settings)
        sampling = replace(preset.sampling, **drawing(settings))
        recipe = given["recipe"]
        check_case(case, self.title, in_hu=recipe not in self.by_own_range)
        volume = self._last.get(case.volume, (recipe,), partial(self.make, case, recipe))
        said = asked_plainly(question, answer_format)
        worded = self.word(said.text, question, given)
        ask = Ask(
            (Message("user", (worded.text,)),),
            sampling=sampling,
            processor=self.processor(given),
            volume=volume,
        )
        doubt = hu_doubt(case)
        notes = (
            *volume_notes(case, volume),
            *((doubt,) if doubt else ()),
            *worded.notes,
            *said.notes,
            *self.notes,
        )
        more = {name: value for name, value in given.items() if name != "recipe"}
        return Prepared(ask, notes, volume_recipe(self.name, preset, case, volume, **more))

    def read(self, preset: Preset, text: str, prompt: str = "") -> str:
        """Return the answer without echo and end marks."""
        return self._stripped(preset, text, prompt).text

    def reading_notes(self, preset: Preset, text: str, prompt: str = "") -> tuple[str, ...]:
        """Return what a reader should know of how the answer was got from the text."""
        return self._stripped(preset, text, prompt).notes

    def _stripped(self, preset: Preset, text: str, prompt: str) -> Stripped:
        found = stripped(text, preset.strip, prompt)
        return Stripped(self.clean(found.text), found.notes)

    def calls(self, preset: Preset, text: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return no calls: it knows no tools."""
        del preset, text
        return (), ""
