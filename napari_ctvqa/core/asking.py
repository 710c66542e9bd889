"""What a model is asked: messages with pictures, tools, sampling; and where each picture lies.

A model family makes an ``Ask`` of a case and a question; a way to run (server, worker process)
executes it. Nothing here knows a server or a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.records import no_items

if TYPE_CHECKING:
    import numpy.typing as npt

    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import ToolCall


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture exactly as it is sent, and where its pixels lie in the CT.

    Parameters
    ----------
    pixels
        uint8, (rows, columns, 3).
    label
        The text that stands beside it in the prompt, e.g. ``"SLICE 12"``; empty for none.
    index_from_pixel
        3 x 3: ``(z, y, x) = index_from_pixel @ (row, column, 1)``, display voxels of the CT, both
        with integer centres; None for a picture that is not a cut of the CT.
    windows
        HU range ``(low, high)`` of each channel, empty where the pixels are no CT values.
    kind
        ``"slice"``, ``"crop"`` or ``"montage"``.
    """

    pixels: npt.NDArray[np.uint8]
    label: str = ""
    index_from_pixel: npt.NDArray[np.float64] | None = None
    windows: tuple[tuple[float, float], ...] = ()
    kind: str = "slice"

    def index_zyx(self, row: npt.ArrayLike, column: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return display voxel coordinates of pixel positions, shape (..., 3).

        Raises
        ------
        ValueError
            When the picture is not a cut of the CT.
        """
        if self.index_from_pixel is None:
            raise ValueError("this picture is not a cut of the CT")
        rows, columns = np.broadcast_arrays(np.asarray(row, float), np.asarray(column, float))
        points = np.stack([rows, columns, np.ones_like(rows)], axis=-1)
        return np.asarray(points @ self.index_from_pixel.T)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    ``role`` is ``system``, ``user``, ``assistant`` or ``tool``. ``parts`` are texts and pictures
    in order. ``calls`` are what an assistant turn called; ``tool`` names the tool that a ``tool``
    turn answers, ``call_id`` ties it to its call where a server wants that.
    """

    role: str
    parts: tuple[str | Picture, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    tool: str = ""
    call_id: str = ""

    @property
    def text(self) -> str:
        """Return the text parts, joined by newlines."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Return the picture parts."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How text is drawn; temperature 0 is greedy. None leaves a value to the model's own."""

    max_new_tokens: int = 512
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    decoding: str = ""
    """How the next token is chosen, where not as usual: ``semsam:K=8,M=10,p=0.9``; a worker's."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model.

    ``tools`` are function-calling objects; none on an agent's last turn, where ``closed_tools`` are
    those that the conversation has called and that may be called no more. ``template`` goes to the
    chat template (``enable_thinking`` …), ``processor`` to the picture processor (pixel limits,
    ``crop_to_patches`` …), where the way to run can pass them on. ``expected_tokens`` is our
    estimate of the prompt, 0 when unknown: a server that reports far fewer has cut it.
    ``meanings`` holds, for a model that knows a few words only, what each of them is in the form
    that is asked for: the letter of the option that says ``Yes``. ``volume`` is what a volume model
    gets beside the words; its place in them is the prompt's own. ``written`` holds, for each
    option's letter, the texts that say it; where it is not empty the way to run is to tell how
    likely each option was (``events.Odds``).
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    template: Mapping[str, Any] = field(default_factory=no_items)
    processor: Mapping[str, Any] = field(default_factory=no_items)
    expected_tokens: int = 0
    closed_tools: tuple[Mapping[str, Any], ...] = ()
    meanings: Mapping[str, str] = field(default_factory=no_items)
    volume: ModelVolume | None = None
    written: Mapping[str, tuple[str, ...]] = field(default_factory=no_items)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Return all pictures in the order in which they are sent."""
        return tuple(p for message in self.messages for p in message.pictures)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a family made of a case and a question.

    ``notes`` say what a reader should know ("85 of 312 slices", "toy model, not valid on real
    CT"); ``recipe`` is the exact preprocessing in plain data (slice list, windows, size, crop),
    kept with the RunConfig.
    """

    ask: Ask
    notes: tuple[str, ...] = ()
    recipe: Mapping[str, Any] = field(default_factory=no_items)


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known of one model of a family: how it is fed and read.

    Parameters
    ----------
    name, title
        Short and stable, and for people.
    hf_ids
        Repositories this was written for; a server's model name or a folder's configuration is
        matched against them and ``model_types``.
    model_types
        ``model_type`` of the configuration, e.g. ``qwen3_vl``.
    sampling_of_slices
        ``linspace``, ``medgemma`` (index = round(i / n (N - 1)), i from 1), ``centre`` or ``all``.
    max_slices
        How many slices are sent at most.
    size_px
        Side of the square that a slice is resized to before it is sent; None sends it as it is.
    windows_hu
        One (low, high) for grey, three for red, green, blue.
    label
        Text beside a picture, with ``{i}`` from 1; empty for none.
    label_first
        Whether the label stands before its picture.
    dialect
        How tool calls are written: ``hermes``, ``qwen3_coder``, ``meissa``, ``json`` or ``none``.
    grounding
        ``rel1000_xyxy``, ``rel1000_yxyx``, ``abs_px_resized``, ``norm3d`` (a volume's box, parts of
        1 along its own axes) or ``none``.
    strip
        What is cut from the text before reading: ``think``, ``unused94``, ``echo``, ``eot``.
    needs_torchvision, gated, never_fp16
        Facts for messages before loading.
    weights_gb
        bf16 weights; None when unknown.
    toy
        Whether answers on a real CT carry the banner that they are not valid.
    """

    name: str
    title: str
    hf_ids: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    sampling_of_slices: str = "linspace"
    max_slices: int = 32
    size_px: int | None = None
    windows_hu: tuple[tuple[float, float], ...] = ((-150.0, 250.0),)
    label: str = "SLICE {i}"
    label_first: bool = True
    system: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    template: Mapping[str, Any] = field(default_factory=no_items)
    processor: Mapping[str, Any] = field(default_factory=no_items)
    dialect: str = "none"
    grounding: str = "none"
    strip: tuple[str, ...] = ()
    min_transformers: str = "4.57"
    needs_torchvision: bool = False
    gated: bool = False
    never_fp16: bool = False
    weights_gb: float | None = None
    licence: str = ""
    toy: bool = False
    facts: Mapping[str, Any] = field(default_factory=no_items)
