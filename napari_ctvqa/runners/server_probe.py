"""Learn by asking what a server and model do: do pictures arrive, how do tool calls come back.

Some servers drop pictures without a word, and the model then answers as if it had seen the CT. A
number that is drawn at random cannot be guessed; a model too small to read it is told from a
server that drops pictures by the length of the prompt.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling
from napari_ctvqa.core.events import Done, Event, Failed, FailureKind, Odds, Status, Tokens, Usage
from napari_ctvqa.runners._chat_odds import NONE_TOLD
from napari_ctvqa.runners.server_profile import Pictures, Tools

Send = Callable[[Ask, Mapping[str, Any]], Iterator[Event]]
"""Sends an ask with more fields in its body and yields what comes of it."""

SIDE_PX = 448
_STROKE_PX = 22
_FEWEST_TOKENS = 8
"""By which a picture lengthens a prompt in any model; the text beside it is the same."""
_OF_FIELDS = (FailureKind.UNSUPPORTED_FIELD, FailureKind.SERVER, FailureKind.BAD_OUTPUT)
_READ = "Which number is drawn in the picture? Answer with its digits alone."
_TOOL = "report_number"
_DIGITS = (  # 5 x 7 cells, by rows from the top
    *("01110 10001 10001 10001 10001 10001 01110", "00100 01100 00100 00100 00100 00100 01110"),
    *("01110 10001 00001 00110 01000 10000 11111", "11110 00001 00001 01110 00001 00001 11110"),
    *("00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110"),
    *("01110 10000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000"),
    *("01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00001 01110"),
)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a probe found; ``end`` is the failure or cancel that stopped it."""

    pictures: Pictures = Pictures.UNKNOWN
    tools: Tools = Tools.UNKNOWN
    usage: bool | None = None
    logprobs: bool | None = None
    end: Failed | Done | None = None


@dataclass(frozen=True, slots=True)
class _Heard:
    text: str = ""
    done: Done | None = None
    failed: Failed | None = None
    prompt_tokens: int | None = None

    @property
    def end(self) -> Failed | Done | None:
        """Return what ends the probe: a failure, or that it was cancelled."""
        cancelled = self.done is not None and self.done.reason == "cancelled"
        return self.done if cancelled else self.failed


def drawn(number: int) -> npt.NDArray[np.uint8]:
    """Return a picture (rows, columns, 3) with a number of three digits, black on white."""
    rows = [" ".join(_DIGITS[int(digit)].split()[row] for digit in str(number)) for row in range(7)]
    cells = np.array([[cell == "1" for cell in row.replace(" ", "0")] for row in rows])
    big = np.kron(cells, np.ones((_STROKE_PX, _STROKE_PX), bool))
    top, left = (SIDE_PX - big.shape[0]) // 2, (SIDE_PX - big.shape[1]) // 2
    pixels = np.full((SIDE_PX, SIDE_PX, 3), 255, np.uint8)
    pixels[top : top + big.shape[0], left : left + big.shape[1]][big] = 0
    return pixels


def probe_pictures(send: Send) -> Generator[Event, None, Learned]:
    """Ask for a number that is drawn on a picture; yield Status, return what it tells."""
    yield Status("Checking once that pictures reach the model")
    number = 100 + secrets.randbelow(900)
    with_picture = _heard(send(_question(Picture(drawn(number)), _READ), {}))
    if (failed := with_picture.failed) is not None:
        if failed.kind is FailureKind.PICTURES_DROPPED:
            return Learned(Pictures.REFUSED)
        return Learned(end=failed)
    if with_picture.end is not None:
        return Learned(end=with_picture.end)
    usage = with_picture.prompt_tokens is not None
    if str(number) in re.sub(r"\D", "", with_picture.text):
        return Learned(Pictures.SEEN, usage=usage)
    if with_picture.prompt_tokens is None:
        return Learned(usage=usage)
    without = _heard(send(_question(_READ), {}))
    if without.end is not None:
        return Learned(end=without.end)
    if without.prompt_tokens is None:
        return Learned(usage=usage)
    more = with_picture.prompt_tokens - without.prompt_tokens
    return Learned(Pictures.COUNTED if more >= _FEWEST_TOKENS else Pictures.DROPPED, usage=usage)


def probe_tools(send: Send) -> Generator[Event, None, Learned]:
    """Ask for a tool call; yield Status, return how it comes back."""
    yield Status("Checking once how the model calls a tool")
    number = 100 + secrets.randbelow(900)
    schema = {
        "name": _TOOL,
        "description": "Report a number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        },
    }
    text = f"Call the tool {_TOOL} with the number {number}. Write nothing else."
    ask = _question(text, tools=({"type": "function", "function": schema},))
    choice = {"tool_choice": {"type": "function", "function": {"name": _TOOL}}}
    heard = _heard(send(ask, choice))
    if (failed := heard.failed) is not None:
        if failed.kind is FailureKind.UNSUPPORTED_FIELD:
            return Learned(tools=Tools.REFUSED)
        return Learned(end=failed)
    if heard.end is not None:
        return Learned(end=heard.end)
    if heard.done is not None and any(call.name == _TOOL for call in heard.done.calls):
        return Learned(tools=Tools.PARSED)
    written = re.search(rf"<tool_call>|<function=|\"name\"\s*:\s*\"{_TOOL}\"", heard.text)
    return Learned(tools=Tools.IN_TEXT if written else Tools.IGNORED)


def probe_logprobs(send: Send) -> Generator[Event, None, Learned]:
    """Ask for a letter; yield Status, return whether its probability was told."""
    yield Status("Checking once whether the server tells how likely a token was")
    ask = _question("Answer with the letter A and nothing else.")
    told = False
    for event in send(replace(ask, written={"A": ("A",)}), {}):
        if isinstance(event, Odds):
            told = event.problem != NONE_TOLD
        elif isinstance(event, Failed):
            # One that has to do with what was asked; the question itself does without.
            return Learned(logprobs=False) if event.kind in _OF_FIELDS else Learned(end=event)
        elif isinstance(event, Done) and event.reason == "cancelled":
            return Learned(end=event)
    return Learned(logprobs=told)


def _question(*parts: str | Picture, tools: tuple[Mapping[str, Any], ...] = ()) -> Ask:
    # Room for a model that thinks before it answers; the number may stand in its thoughts.
    return Ask((Message("user", parts),), tools=tools, sampling=Sampling(max_new_tokens=128))


def _heard(events: Iterator[Event]) -> _Heard:
    pieces: list[str] = []
    counted: int | None = None
    for event in events:
        if isinstance(event, Tokens):
            pieces.append(event.text)
        elif isinstance(event, Usage):
            counted = event.prompt_tokens
        elif isinstance(event, Done):
            return _Heard("".join(pieces), done=event, prompt_tokens=counted)
        elif isinstance(event, Failed):
            return _Heard("".join(pieces), failed=event, prompt_tokens=counted)
    return _Heard("".join(pieces), prompt_tokens=counted)
