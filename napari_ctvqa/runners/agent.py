"""The agent loop by DeepTumorVQA's protocol: a system prompt, one question, tools, an answer.

At most so many steps, the last without tools; a text without calls is the answer. The benchmark's
own system prompt is not known: the wording is ours (assumed).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.arguments import failure
from napari_ctvqa.core.asking import Message, Picture, Prepared
from napari_ctvqa.core.dialects import Returned, described_tools, lists_tools, turns_of_step
from napari_ctvqa.core.events import (
    CallMade,
    CallReturned,
    Done,
    Event,
    Failed,
    FailureKind,
    Sent,
)
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.core.records import Turn
from napari_ctvqa.io.pictures import read_png

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Ask
    from napari_ctvqa.core.records import ToolCall, ToolResult
    from napari_ctvqa.evidence.kits import Kit
    from napari_ctvqa.runners.requests import Facts, Heard, Speaker

PROMPT = "agent 1"
"""Version of ``resources/prompts/agent.txt`` and of the texts here."""
MAX_CALLS = 8
"""Calls of one step that are carried out; more are answered with a failure."""
MAX_REPAIRS = 3
"""Texts of one question in which malformed calls are mended, or complained of."""
_MAX_RESULT = 50_000


@cache
def _system_prompt() -> str:
    return resource_path("prompts/agent.txt").read_text(encoding="utf-8").strip()


@dataclass
class Agent:
    """One question answered with tools.

    ``turns`` grows as the trace does; what was done before a failure stays in it.
    """

    speaker: Speaker
    kit: Kit
    prepared: Prepared
    facts: Facts
    turns: list[Turn]
    max_steps: int
    tools_refused: bool = False
    """Whether the server takes no tools: nothing was answered, and the tools must be described."""
    _repairs: int = 0
    _messages: list[Message] = field(default_factory=list)

    def run(self) -> Generator[Event | Turn, None, str]:
        """Yield what happens; return the text to score, with ``facts.failed`` on failure."""
        self._messages = self._opening()
        text = ""
        for step in range(1, self.max_steps + 1):
            last = step == self.max_steps
            ask = self._ask(with_tools=not last)
            yield Sent(replace(self.prepared, ask=ask), step)
            came = yield from self.speaker.ask(ask, self.facts)
            if came.failed is not None:
                self.tools_refused = step == 1 and bool(ask.tools) and _refuses(came.failed)
                self.facts.failed = came.failed
                if not self.tools_refused:
                    yield came.failed
                return ""
            yield Done(came.text, came.calls, came.reason)
            text = self.speaker.read(came, ask, self.facts)
            calls, repaired = self._calls(came)
            if not calls and not repaired:
                yield self._took(Turn(step, final_answer=text))
                return text
            if last:
                self.facts.note(f"the last of {step} steps called a tool instead of answering")
            elif calls:
                yield from self._carry_out(step, came, calls, repaired)
            else:
                self._complain(came, repaired)
        return text

    # ---------------------------------------------------------------------------------- messages

    def _opening(self) -> list[Message]:
        """Return the family's messages with the agent's system prompt before its own."""
        system = _system_prompt().replace("{steps}", str(self.max_steps))
        described = described_tools(self.speaker.preset.dialect, self.kit.schemas())
        system = f"{system}\n\n{described}".rstrip()
        messages = list(self.prepared.ask.messages)
        if messages and messages[0].role == "system":
            own = messages.pop(0).text
            system = f"{own}\n\n{system}" if own else system
        return [Message("system", (system,)), *messages]

    def _ask(self, *, with_tools: bool) -> Ask:
        listed = lists_tools(self.speaker.preset.dialect)
        tools = tuple(self.kit.schemas()) if listed else ()
        messages = tuple(self._messages)
        if with_tools:
            return replace(self.prepared.ask, messages=messages, tools=tools)
        messages = (*messages[:-1], _with_text(messages[-1], "Answer now, without a tool."))
        return replace(self.prepared.ask, messages=messages, tools=(), closed_tools=tools)

    def _calls(self, came: Heard) -> tuple[Sequence[ToolCall], str]:
        """Return the calls of a text, and what had to be mended; neither when it is an answer."""
        if came.calls:
            return came.calls, ""
        calls, repaired = self.speaker.calls(came)
        if repaired:
            self._repairs += 1
            self.facts.note(f"a tool call had to be mended: {repaired}")
        if repaired and self._repairs > MAX_REPAIRS:
            return (), repaired
        return calls, repaired

    def _complain(self, came: Heard, repaired: str) -> None:
        said = f"The tool call could not be read ({repaired}). Write it again, or answer."
        self._messages += [Message("assistant", (came.text,)), Message("user", (said,))]

    # ------------------------------------------------------------------------------------- tools

    def _carry_out(
        self, step: int, came: Heard, calls: Sequence[ToolCall], repaired: str
    ) -> Generator[Event | Turn, None, None]:
        """Call the tools of one step and put what they gave into the conversation."""
        results: list[ToolResult] = []
        if len(calls) > MAX_CALLS:
            self.facts.note(f"step {step} made {len(calls)} calls; {MAX_CALLS} were carried out")
            calls = calls[:MAX_CALLS]
        for call in calls:
            yield CallMade(step, call, repaired)
            if self.speaker.cancelled.is_set():
                result = failure("stopped")
            else:
                result = self.kit.call(call.name, call.arguments)
            results.append(result)
            yield CallReturned(step, call, result)
            yield self._took(Turn(step, call, result))
        self._messages += self._conversation(step, came, calls, results)

    def _took(self, turn: Turn) -> Turn:
        self.turns.append(turn)
        return turn

    def _conversation(
        self, step: int, came: Heard, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> list[Message]:
        """Return the assistant's turn and the results, pictures in a user turn after them."""
        returned = []
        for call, result in zip(calls, results, strict=True):
            pictures = pictures_of(result)
            returned.append(Returned(call, _result_text(result, bool(pictures)), pictures))
        dialect = self.speaker.preset.dialect
        by_server = bool(came.calls)
        return list(turns_of_step(dialect, came.text, returned, step=step, by_server=by_server))


def _refuses(failed: Failed) -> bool:
    return failed.kind is FailureKind.UNSUPPORTED_FIELD and not failed.partial


def _with_text(message: Message, text: str) -> Message:
    """Return a user turn with a text at its end; after another turn there is none to add to."""
    if message.role != "user":
        return message
    return replace(message, parts=(*message.parts, text))


def pictures_of(result: ToolResult) -> tuple[Picture, ...]:
    """Return a result's pictures: its own, or the one that its content holds as base64."""
    if result.pictures:
        return result.pictures
    content = result.content
    encoded = content.get("image_base64") if isinstance(content, Mapping) else None
    if not isinstance(encoded, str):
        return ()
    try:
        pixels = read_png(base64.b64decode(encoded, validate=True))
    except (ValueError, binascii.Error):
        return ()
    label = content.get("organ_localized")
    return (Picture(pixels, label[:80] if isinstance(label, str) else "", kind="crop"),)


def _result_text(result: ToolResult, shown: bool) -> str:
    """Return a result as the JSON text that a model is given, without embedded pictures."""
    content = result.content
    if isinstance(content, Mapping) and "image_base64" in content:
        instead = "(the picture follows)" if shown else "(not shown: it is no picture)"
        content = {**content, "image_base64": instead}
    text = json.dumps(plain(content), ensure_ascii=False)
    if len(text) > _MAX_RESULT:
        return f"{text[:_MAX_RESULT]} (cut: {len(text)} characters)"
    return text
