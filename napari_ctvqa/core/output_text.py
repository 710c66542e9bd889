"""A model's raw output before anything is read: thoughts, echo and end marks taken away.

What a family does to its own text. The raw text is kept verbatim elsewhere; what is left here is
what is scored. Nothing is guessed: a thought that never ends leaves nothing to read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_THINK = ("<think>", "</think>")
_UNUSED = ("<unused94>", "<unused95>")
_ECHO_WITHIN = 3
"""An echoed prompt begins at offset 0, 1 or 2."""
_ENDS = ("<|im_end|>", "<|endoftext|>", "<end_of_turn>", "<eos>", "<|eot_id|>", "<|end|>", "</s>")
_BEGINS = ("<bos>", "<s>", "<|im_start|>assistant", "<start_of_turn>model")
_FINAL = re.compile(r"final answer\b[*_`\s]{0,20}[:：][*_`]{0,4}", re.IGNORECASE)
_TAGGED = "[FINAL]"

NEVER_CLOSED = "the thought never ends: there is no answer to read"


@dataclass(frozen=True, slots=True)
class Stripped:
    """The answer, empty where there is none, and what a reader should know of how it was got."""

    text: str
    notes: tuple[str, ...] = ()


def stripped(
    text: str, rules: Sequence[str], prompt: str = "", *, opens_thinking: bool = False
) -> Stripped:
    """Return output without what the rules name.

    Parameters
    ----------
    rules
        ``echo`` (the prompt repeated at the beginning), ``think`` (``<think>…</think>``, also
        where only the end stands), ``unused94`` (Gemma's thoughts), ``eot`` (end marks and what
        follows them), ``final`` (what stands after the last ``[FINAL]`` is the answer),
        ``final_answer`` (what stands after the last ``Final Answer:``).
    opens_thinking
        Whether the chat template itself opens the thought, so that a text without its end is
        still thinking.
    """
    notes: list[str] = []
    if "echo" in rules and prompt:
        at = text.find(prompt, 0, len(prompt) + _ECHO_WITHIN - 1)
        if at >= 0:
            text = text[at + len(prompt) :]
            notes.append("the echoed prompt is taken away")
    for rule, marks in (("think", _THINK), ("unused94", _UNUSED)):
        if rule in rules:
            kept = without_thoughts(text, *marks, opened=opens_thinking)
            if kept is None:
                return Stripped("", (*notes, NEVER_CLOSED))
            text = kept
    if "eot" in rules:
        text = _to_the_end_mark(text, notes)
    if "final" in rules and _TAGGED in text:
        text = text.rpartition(_TAGGED)[2]
    if "final_answer" in rules:
        text = _final_answer(text)
    return Stripped(text.strip(), tuple(notes))


def without_thoughts(text: str, opening: str, closing: str, *, opened: bool = False) -> str | None:
    """Return text without its thoughts, None where one never ends.

    An end without a beginning ends a thought that the template opened, or an unmarked one: all
    before it goes.
    """
    first_open, first_close = text.find(opening), text.find(closing)
    if first_close >= 0 and (first_open < 0 or first_close < first_open):
        text = text[first_close + len(closing) :]
    elif opened and first_close < 0:
        return None
    kept: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            return None
        kept.append(text[position:start])
        position = end + len(closing)
    return ("".join(kept) + text[position:]).rpartition(closing)[2]


def _to_the_end_mark(text: str, notes: list[str]) -> str:
    for mark in _BEGINS:
        text = text.removeprefix(mark)
    ends = [at for at in map(text.find, _ENDS) if at >= 0]
    if not ends:
        return text
    rest = text[min(ends) :]
    for mark in _ENDS:
        rest = rest.replace(mark, "")
    if rest.strip():
        notes.append("the model went on after its end mark; what follows is not read")
    return text[: min(ends)]


def _final_answer(text: str) -> str:
    found = [match.end() for match in _FINAL.finditer(text)]
    said = next((s for at in reversed(found) if (s := text[at:].strip(" \t\r\n*_`"))), "")
    return said or text
