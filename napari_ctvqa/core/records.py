"""Question, Prediction, Trace, Score: frozen records in the field's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Picture

EMPTY: Mapping[str, Any] = MappingProxyType({})


def no_items() -> Mapping[str, Any]:
    """Return ``EMPTY``: Python 3.11 takes a mapping proxy for a mutable default."""
    return EMPTY


class AnswerType(StrEnum):
    """How an answer is read and compared."""

    NUMERIC = "numeric"
    BINARY = "binary"
    CATEGORICAL = "categorical"
    OPEN = "open"


class AnswerFormat(StrEnum):
    """How a run asked for its answers."""

    MC = "mc"
    FREEFORM = "freeform"


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a question."""

    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The benchmark's answer: free text, and the letter of the right option where there is one."""

    text: str
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one case.

    ``raw`` is the foreign record, read-only, for the raw view. ``missing_keys`` names what the
    benchmark's layout promises and this record lacks. ``patient`` holds what the record says of
    sex, age, contrast (phase) and scanner, as text.
    """

    id: str
    case_id: str
    text: str
    reference: Reference
    options: tuple[Option, ...] = ()
    stage: str = ""
    subtype: str = ""
    answer_type: AnswerType = AnswerType.OPEN
    organ: str = ""
    lesion: str = ""
    patient: Mapping[str, str] = field(default_factory=no_items)
    categories: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=no_items)
    missing_keys: tuple[str, ...] = ()
    benchmark: str = ""
    """Name of the benchmark it is of, where that is not the rule table's; see ``core.rules``."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call an agent made; arguments exactly as it gave them."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returned. ``content`` is JSON data; ``region_id`` names the region to draw.

    ``pictures`` are those that ``content`` holds as base64, with where they lie in the CT.
    """

    content: Any
    region_id: str = ""
    error: str = ""
    pictures: tuple[Picture, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of a trace: a tool call with its result, a final answer, or a failure."""

    step: int
    call: ToolCall | None = None
    result: ToolResult | None = None
    final_answer: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """What an agent did, in order."""

    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """One model's raw text for a question, with what it did to get there.

    ``raw_text`` is what scorers read: the model's text verbatim, of a model family what is left
    without thinking, echo and end marks. A failure is text beginning ``[ERROR] `` (then ``failed``
    is true). ``record`` is the result record, read-only; of our own runs ``whole_text`` is the
    text as the model gave it, where something was taken out.
    """

    question_id: str
    model: str
    raw_text: str
    trace: Trace = Trace()
    seconds: float | None = None
    record: Mapping[str, Any] = field(default_factory=no_items)

    @property
    def failed(self) -> bool:
        """Return whether the run failed instead of answering."""
        return self.raw_text.startswith("[ERROR]")


class Outcome(StrEnum):
    """How one answer counts."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREAD = "unread"
    """No answer could be read from the text."""
    UNSCORED = "unscored"
    """The scorer leaves this item out, or no score exists for it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from a model's text.

    ``value`` is an option letter, ``yes``/``no``, a number as text, or a phrase; empty when unread.
    """

    value: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """One answer as the benchmark's official scorer counts it, and as a careful human reads it."""

    official: Outcome
    official_reading: str
    ours: Outcome
    our_reading: str
    value: float | None = None
    """Partial credit of a numeric answer (0 to 1), as the official scorer computes it."""
    readings_differ: bool = False
    """The official scorer read another letter, number or word, also where both are wrong."""
    failed: bool = False
    """The run failed: there is no answer, whatever the official scorer reads from the error."""
    how: str = ""
    """How our reading was got, or why there is none (``Reading.how``)."""

    @property
    def shown(self) -> Outcome:
        """Return the official outcome; unread for a failed answer, which is never right."""
        return Outcome.UNREAD if self.failed else self.official

    @property
    def counted_though_failed(self) -> bool:
        """Return whether the official scorer gives credit to an answer that there is not."""
        return self.failed and (self.official is Outcome.RIGHT or bool(self.value))

    @property
    def disagrees(self) -> bool:
        """Return whether the two read different answers, or count them differently.

        An answer that we cannot judge (ours is UNSCORED) is no disagreement.
        """
        unlike = self.ours is not Outcome.UNSCORED and self.official is not self.ours
        return self.readings_differ or unlike


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Under which conditions predictions were made: whatever decides an answer.

    ``preset`` is how the model is fed and read, ``settings`` what a person changed of it;
    ``prompts`` are the versions of the prompt templates by name. ``model_id`` is the model's own
    name on its server, or its folder; ``way`` is ``server`` or ``worker``. ``kit_from`` is
    ``files`` where the benchmark's own caches and pictures stood behind the kit.
    """

    model: str
    mode: str = "direct"
    kit: str = ""
    kit_from: str = ""
    max_steps: int = 1
    way: str = ""
    model_id: str = ""
    host: str = ""
    seed: int | None = None
    preset: Mapping[str, Any] = field(default_factory=no_items)
    settings: Mapping[str, Any] = field(default_factory=no_items)
    prompts: Mapping[str, str] = field(default_factory=no_items)


def named_apart(run: Run, shown: Mapping[str, Run]) -> Run:
    """Return the run under a model name that no run of another file has.

    Two files of one model are two runs: the later one is named after its file as well.
    """
    name, number = run.model, 2
    stem = run.path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".json")
    while name in shown and shown[name].path != run.path:
        name = f"{run.model} [{stem}]" if number == 2 else f"{run.model} [{stem} {number}]"
        number += 1
    return run if name == run.model else replace(run, model=name)


@dataclass(frozen=True)
class Run:
    """The predictions of one model over a benchmark, by question id, where they came from."""

    model: str
    predictions: Mapping[str, Prediction]
    answer_format: AnswerFormat | None = None
    """None when the file does not say; the reader of the file guesses nothing."""
    path: str = ""
    recorded_metrics: Mapping[str, Any] = field(default_factory=no_items)
    notes: tuple[str, ...] = ()
    made: Mapping[str, Any] = field(default_factory=no_items)
    """What is known from its file of how it was made: kit, config …; see ``MADE``."""


MADE = ("kit", "benchmark", "config", "absent_means_none", "segmented_masks")
"""Keys of a result file of our own that say under which conditions its answers were made."""
