"""A family and a way to run that follow a script, for the tests of what lies around them."""

import json
import re
from types import MappingProxyType

import numpy as np

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared, Preset, Sampling
from napari_ctvqa.core.events import Done, Failed, FailureKind, Status, Tokens, Usage
from napari_ctvqa.core.records import ToolCall

PRESET = Preset("scripted", "Scripted", dialect="hermes", strip=("think",))
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class ScriptedFamily:
    """Sends two slices and the question; reads what stands outside <think>."""

    name = "scripted"
    title = "Scripted family"
    presets = MappingProxyType({"scripted": PRESET})
    prompt_version = "scripted 1"

    def __init__(self, fail=None, notes=()):
        self.fail, self.notes = fail, notes

    def prepare(self, preset, question, case, answer_format, settings):
        if self.fail is not None:
            raise self.fail
        slices = int(settings.get("max_slices", 2))
        parts = []
        for number in range(slices):
            place = np.array([[0, 0, number], [1, 0, 0], [0, 1, 0]], float)
            plane = case.volume.display_zyx[number]
            grey = np.clip(plane / 4 + 128, 0, 255).astype(np.uint8)
            picture = Picture(np.repeat(grey[..., None], 3, axis=2), f"SLICE {number + 1}", place)
            parts += [picture.label, picture]
        parts.append(question.text)
        sampling = Sampling(max_new_tokens=64)
        ask = Ask((Message("user", tuple(parts)),), sampling=sampling, expected_tokens=900)
        return Prepared(ask, tuple(self.notes), {"slices": list(range(slices))})

    def read(self, preset, text, prompt=""):
        return _THINK.sub("", text).strip()

    def calls(self, preset, text):
        calls, repaired = [], ""
        for body in _CALL.findall(text):
            if body.endswith(",}"):
                body, repaired = body[:-2] + "}", "a comma before the closing brace"
            try:
                data = json.loads(body)
            except ValueError:
                return (), "no JSON"
            calls.append(ToolCall(data["name"], data.get("arguments", {})))
        return tuple(calls), repaired


class ScriptedWay:
    """Says one text of the script a request, word by word; an event is given as it is.

    A text is a str, a list of ToolCalls (parsed by the server), an exception-free Failed, or a
    function of the Ask that returns one of these.
    """

    title = "scripted way"
    host = ""
    loaded = MappingProxyType({"torch": "1.0", "seconds": 2})

    def __init__(self, *script, reason="stop", after_token=None):
        self.script, self.reason, self.after_token = list(script), reason, after_token
        self.asks = []
        self.closed = False
        self.requests_closed = 0

    def ask(self, ask, cancelled):
        self.asks.append(ask)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if callable(said):
            said = said(ask)
        return self._events(said, cancelled)

    def _events(self, said, cancelled):
        heard = ""
        try:
            yield Status("reading the prompt")
            if isinstance(said, Failed):
                yield Tokens(said.partial)
                yield said
                return
            if isinstance(said, Done):
                yield said
                return
            calls = tuple(said) if isinstance(said, list) else ()
            for word in () if calls else re.findall(r"\S+\s*", said):
                if cancelled.is_set():
                    yield Done(heard, reason="cancelled")
                    return
                heard += word
                yield Tokens(word)
                if self.after_token is not None:
                    self.after_token(heard)
            yield Usage(prompt_tokens=900, new_tokens=3, first_token_s=0.25, seconds=0.5)
            yield Done(heard, calls, "tool_calls" if calls else self.reason)
        finally:
            self.requests_closed += 1

    def close(self):
        self.closed = True


def call(name, **arguments):
    """A call as a model of the hermes dialect writes it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


UNREACHABLE = Failed(
    FailureKind.UNREACHABLE, "http://gpu7:8000 does not answer.", "Start the server.", "refused"
)
