"""What happens while a model or an agent answers, in the order in which it happens.

A way to run yields ``Status``, ``Tokens``, ``Again``, ``Usage``, ``Odds``, ``Warned`` and last
``Done`` or ``Failed``; the agent loop adds ``CallMade`` and ``CallReturned`` around its tools, and
a ``Turn`` when one is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from napari_ctvqa.core.records import no_items

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from napari_ctvqa.core.asking import Prepared
    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.records import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes to the model now: of each turn of an agent, too."""

    prepared: Prepared
    step: int = 1


@dataclass(frozen=True, slots=True)
class Status:
    """What is going on, for people; ``fraction`` 0 to 1 where it is known."""

    text: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """New text, as it came; ``thinking`` for what a server sends apart as reasoning."""

    text: str
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class CallMade:
    """A tool call as the model made it; ``repaired`` says what had to be mended to read it."""

    step: int
    call: ToolCall
    repaired: str = ""


@dataclass(frozen=True, slots=True)
class CallReturned:
    """What the tool gave back; ``result.region_id`` is the region to light up."""

    step: int
    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts and times of one request; None where they are not known."""

    prompt_tokens: int | None = None
    new_tokens: int | None = None
    first_token_s: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely each option was where the answer began; comes before ``Done``.

    ``masses`` are probabilities by letter, as far as they were seen; ``unfollowed`` is what might
    be of any of them. ``said`` is the option that the text begins with. ``source`` is ``logits``
    or ``logprobs``; ``problem`` says why there are none.
    """

    source: str
    masses: Mapping[str, float] = field(default_factory=no_items)
    unfollowed: float = 0.0
    said: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The whole text of one request.

    ``calls`` are calls that the server itself parsed; those written in the text are the family's
    to read. ``reason`` is ``stop``, ``length``, ``tool_calls`` or ``cancelled``. ``thinking`` is
    reasoning that came apart from the text; it is never part of the answer.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    reason: str = "stop"
    thinking: str = ""
    server: str = ""
    """Which of several servers answered; empty where there is but one."""


@dataclass(frozen=True, slots=True)
class Again:
    """The request is made anew: what came of it so far counts for nothing. ``text`` says why."""

    text: str


@dataclass(frozen=True, eq=False)
class Segmented:
    """A mask that a volume model gave with its text, in its own voxels (three axes, boolean)."""

    mask: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Outlined:
    """The same mask on the CT's grid."""

    mask: Mask


class FailureKind(StrEnum):
    """Why a request failed; each has its own sentence and next step."""

    UNREACHABLE = "unreachable"
    WRONG_SCHEME = "wrong_scheme"
    LOADING = "loading"
    AUTH = "auth"
    NO_SUCH_MODEL = "no_such_model"
    TOO_MANY_PICTURES = "too_many_pictures"
    PICTURES_DROPPED = "pictures_dropped"
    CONTEXT_TOO_LONG = "context_too_long"
    PROMPT_CUT = "prompt_cut"
    UNSUPPORTED_FIELD = "unsupported_field"
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE = "device"
    CRASHED = "crashed"
    KILLED = "killed"
    NOT_A_SERVER = "not_a_server"
    SERVER = "server"
    BROKEN_STREAM = "broken_stream"
    TOO_LONG = "too_long"
    BAD_OUTPUT = "bad_output"
    MISSING_LIBRARY = "missing_library"
    BAD_MODEL = "bad_model"
    TIMEOUT = "timeout"
    NOT_CONFIRMED = "not_confirmed"
    CASE = "case"
    """The case cannot be shown to the model, or its tools have nothing to stand on."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a request that failed.

    ``message`` is one sentence, ``hint`` what to do next, ``detail`` the foreign text verbatim
    (bounded), ``partial`` what had come until then.
    """

    kind: FailureKind
    message: str
    hint: str = ""
    detail: str = ""
    partial: str = ""
    wait_s: float | None = None
    """After how many seconds a server wants to be asked again, where it said so."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that makes the answer of this request doubtful; the answer is kept and marked.

    E.g. PROMPT_CUT when a server counted far fewer prompt tokens than were sent. Same fields as
    ``Failed``; comes before ``Done``.
    """

    kind: FailureKind
    message: str
    hint: str = ""
    detail: str = ""


Event = (
    Sent
    | Status
    | Tokens
    | CallMade
    | CallReturned
    | Usage
    | Again
    | Odds
    | Segmented
    | Outlined
    | Warned
    | Done
    | Failed
)
