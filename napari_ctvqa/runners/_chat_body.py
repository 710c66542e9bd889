"""The body of a chat-completions request: messages, pictures, tools, sampling."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from napari_ctvqa.core.records import EMPTY
from napari_ctvqa.io.png import grey_png, rgb_png
from napari_ctvqa.runners._chat_odds import FIELDS
from napari_ctvqa.runners.server_profile import Kind

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling
    from napari_ctvqa.runners.server_profile import Profile

JPEG_QUALITY = 92
_PNG_BYTES_AT_MOST = 24_000_000
"""Of all pictures of a request together; more is sent as JPEG."""
OPTIONAL = frozenset(
    {
        *("temperature", "top_p", "top_k", "repetition_penalty", "repeat_penalty"),
        *("presence_penalty", "seed", "stop", "stream_options", "generation_config"),
        *("chat_template_kwargs", "mm_processor_kwargs", "max_tokens", "max_completion_tokens"),
        "tool_choice",
        *FIELDS,
    }
)
"""Fields that a request can do without; only these are ever left out."""
_TEMPLATE, _PROCESSOR = "chat_template_kwargs", "mm_processor_kwargs"
_HOSTED = frozenset({"top_k", "repetition_penalty", _TEMPLATE, _PROCESSOR})
_LOGPROBS = frozenset(FIELDS)
_NOT_TAKEN: Mapping[Kind, frozenset[str]] = {
    Kind.OPENAI: _HOSTED,
    Kind.GEMINI: _HOSTED,
    Kind.ANTHROPIC: _HOSTED | _LOGPROBS | {"seed", "presence_penalty"},
    Kind.OLLAMA: _HOSTED,
    Kind.LLAMACPP: frozenset({_PROCESSOR}),
    Kind.LM_STUDIO: frozenset({_TEMPLATE, _PROCESSOR}),
    # Its stop texts fail for every model with pictures (5.24: its processor has no vocabulary).
    Kind.TRANSFORMERS: _LOGPROBS | {_PROCESSOR, "presence_penalty", "stop"},
}
"""Fields that a kind of server refuses, or ignores without a word."""


class Pictures:
    """Pictures as data URLs; each is made once, for an agent sends the same ones at every step."""

    def __init__(self) -> None:
        self._png: WeakKeyDictionary[Picture, str] = WeakKeyDictionary()
        self._jpeg: WeakKeyDictionary[Picture, str] = WeakKeyDictionary()

    def urls(self, pictures: Sequence[Picture]) -> dict[Picture, str]:
        """Return the data URL of each picture: PNG, or JPEG where that would be too much."""
        urls = {picture: self._as_png(picture) for picture in pictures}
        if sum(len(url) for url in urls.values()) * 3 // 4 > _PNG_BYTES_AT_MOST:
            urls = {picture: self._as_jpeg(picture) for picture in pictures}
        return urls

    def _as_png(self, picture: Picture) -> str:
        if picture not in self._png:
            self._png[picture] = _data_url("png", _png(picture))
        return self._png[picture]

    def _as_jpeg(self, picture: Picture) -> str:
        if picture not in self._jpeg:
            self._jpeg[picture] = _data_url("jpeg", _jpeg(picture))
        return self._jpeg[picture]


def _data_url(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _png(picture: Picture) -> bytes:
    pixels = picture.pixels
    red = pixels[..., 0]
    if np.array_equal(red, pixels[..., 1]) and np.array_equal(red, pixels[..., 2]):
        return grey_png(red)
    return rgb_png(pixels)


def _jpeg(picture: Picture) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(picture.pixels))
    image.save(file, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body, and the names of the fields of the ask that the server does not take."""

    fields: Mapping[str, Any]
    left_out: frozenset[str]

    def encoded(self) -> bytes:
        """Return the JSON text as bytes."""
        return json.dumps(self.fields, ensure_ascii=False, allow_nan=False).encode(
            "utf-8", "replace"
        )


def chat_body(
    ask: Ask,
    profile: Profile,
    urls: Mapping[Picture, str],
    more: Mapping[str, Any] = EMPTY,
) -> Body:
    """Return the body of a streamed request, without what the server is known not to take.

    ``more`` are further fields, e.g. a ``tool_choice``.
    """
    closed = bool(ask.closed_tools) and not ask.tools and profile.lists_closed_tools
    wanted = {**dict(_wanted(ask, profile)), **({"tool_choice": "none"} if closed else {}), **more}
    not_taken = profile.refused | _NOT_TAKEN.get(profile.kind, frozenset())
    kept = {name: value for name, value in wanted.items() if name not in not_taken}
    fields: dict[str, Any] = {
        "model": profile.model,
        "messages": chat_messages(ask.messages, urls),
        "stream": True,
        **kept,
    }
    tools = ask.closed_tools if closed else ask.tools
    if tools:
        fields["tools"] = [dict(tool) for tool in tools]
    left_out = frozenset(wanted) - frozenset(kept) - {"stream_options", "tool_choice", *FIELDS}
    return Body(fields, left_out)


def _wanted(ask: Ask, profile: Profile) -> Iterator[tuple[str, Any]]:
    yield "stream_options", {"include_usage": True}
    yield _length_field(profile), ask.sampling.max_new_tokens
    sampling = ask.sampling
    for name in ("temperature", "top_p", "presence_penalty", "seed"):
        if (value := getattr(sampling, name)) is not None:
            yield name, value
    if sampling.stop:
        yield "stop", list(sampling.stop)
    yield from _beyond_the_standard(sampling, profile.kind)
    if ask.template:
        yield _TEMPLATE, dict(ask.template)
    if ask.processor:
        yield _PROCESSOR, dict(ask.processor)
    if ask.written:
        yield from FIELDS.items()


def _length_field(profile: Profile) -> str:
    """Return how the length limit is called: OpenAI's newer name, unless it was refused."""
    names = ["max_tokens", "max_completion_tokens"]
    if profile.kind is Kind.OPENAI:
        names.reverse()
    return next((name for name in names if name not in profile.refused), names[0])


def _beyond_the_standard(sampling: Sampling, kind: Kind) -> Iterator[tuple[str, Any]]:
    values = {"top_k": sampling.top_k, "repetition_penalty": sampling.repetition_penalty}
    given = {name: value for name, value in values.items() if value is not None}
    if kind is Kind.TRANSFORMERS:
        # Refuses other fields. It draws only where the model's own configuration says so: without
        # this a temperature is ignored, and each answer is the greedy one.
        draws = sampling.temperature > 0
        if given or draws:
            more = {"max_new_tokens": sampling.max_new_tokens, "do_sample": draws}
            yield "generation_config", json.dumps(given | more)
        return
    for name, value in given.items():
        penalty = name == "repetition_penalty" and kind in (Kind.LLAMACPP, Kind.LM_STUDIO)
        yield ("repeat_penalty" if penalty else name), value


def chat_messages(messages: Sequence[Message], urls: Mapping[Picture, str]) -> list[dict[str, Any]]:
    """Return the messages in the form of the protocol.

    Pictures are parts of user turns only: several servers refuse or drop those of a tool's turn,
    so they follow in a user turn after it. Calls get ids where the conversation has none.
    """
    written: list[dict[str, Any]] = []
    waiting: list[str] = []
    left: list[Picture] = []
    for number, message in enumerate(messages):
        if message.role != "tool" and left:
            written.append({"role": "user", "content": _parts(left, urls)})
            left = []
        if message.role == "user":
            written.append({"role": "user", "content": _content(message, urls)})
        elif message.role == "tool":
            call_id = waiting.pop(0) if waiting else message.call_id or f"call{number:05d}"
            written.append({"role": "tool", "tool_call_id": call_id, "content": message.text})
            left.extend(message.pictures)
        elif message.role == "assistant":
            ids = _ids(messages, number)
            waiting = list(ids)
            written.append(_assistant(message, ids))
        else:
            written.append({"role": message.role, "content": message.text})
    if left:
        written.append({"role": "user", "content": _parts(left, urls)})
    return written


def _ids(messages: Sequence[Message], number: int) -> list[str]:
    """Return an id for each call of a turn: that of the tool turn that answers it, or a new one.

    New ones are nine letters and digits, which is what the strictest chat templates want.
    """
    answers = []
    for message in messages[number + 1 :]:
        if message.role != "tool":
            break
        answers.append(message.call_id)
    return [
        (answers[i] if i < len(answers) else "") or f"c{number:04d}{i:04d}"
        for i in range(len(messages[number].calls))
    ]


def _assistant(message: Message, ids: Sequence[str]) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
                },
            }
            for call_id, call in zip(ids, message.calls, strict=True)
        ]
    return written


def _content(message: Message, urls: Mapping[Picture, str]) -> str | list[dict[str, Any]]:
    """Return plain text where there is no picture: servers of text models take nothing else."""
    return _parts(message.parts, urls) if message.pictures else message.text


def _parts(parts: Sequence[str | Picture], urls: Mapping[Picture, str]) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": urls[part]}}
        for part in parts
        if part != ""
    ]
