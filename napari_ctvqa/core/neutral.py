"""Text of others before it goes into a prompt: what a chat template would act on is made inert.

A tokenizer turns ``<|im_end|>``, ``<start_of_image>`` or ``<image>`` into a control token wherever
it stands, so a benchmark record or a file's name could end the user's turn or add a picture. The
angle brackets of everything that looks like a tag become ‹ and ›: a reader sees what stood there,
no tokenizer does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 20_000
"""Characters of a foreign text that are sent; a question has a few hundred."""

_TAG = re.compile(r"<(?=[|｜/A-Za-z_])([^<>\s]{1,100})>")
_SYSTEM = re.compile(r"<<(/?SYS)>>")
_BRACKETED = re.compile(r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG"
                        r"|IMG_BREAK|IMG_END))\]")  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
                      r"\ud800-\udfff]")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neutral:
    """A text that cannot act, and what had to be changed in it, as sentences."""

    text: str
    notes: tuple[str, ...] = ()


def neutral(text: str, what: str = "the text") -> Neutral:
    """Return foreign text with tags, control characters and excess made inert.

    ``what`` names the text in the notes, e.g. ``"the question"``.
    """
    notes: list[str] = []
    if len(text) > LONGEST:
        notes.append(f"{what} is {len(text):,} characters long; the first {LONGEST:,} are sent")
        text = text[:LONGEST]
    text, controls = _CONTROL.subn("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    if controls:
        notes.append(f"{what} holds {controls} control characters, sent as \ufffd")
    return _inert(text, what, notes)


def inert_tags(text: str) -> str:
    """Return a text of any length with nothing in it that a tokenizer takes for a control token.

    For JSON that goes back to a model: what is changed stays readable JSON.
    """
    return _inert(text, "", []).text


def _inert(text: str, what: str, notes: list[str]) -> Neutral:
    found = [
        match[0] for pattern in (_TAG, _SYSTEM, _BRACKETED) for match in pattern.finditer(text)
    ]
    text = _BRACKETED.sub(r"⟦\1⟧", _SYSTEM.sub(r"‹‹\1››", _TAG.sub(r"‹\1›", text)))
    if found:
        named = ", ".join(list(dict.fromkeys(found))[:5])
        notes.append(f"{what} holds text that could act as a control token, made inert: {named}")
    return Neutral(text, tuple(notes))
