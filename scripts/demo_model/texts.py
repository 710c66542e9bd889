"""Conversations as token ids, with the part that the model is to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from transformers import Gemma3Processor

    from demo_model.tool_turns import ToolTurn

END = "<end_of_turn>"


@dataclass(frozen=True)
class Lesson:
    """Token ids of a conversation, ``taught`` marks what is learned, ``pictures`` are rows."""

    ids: list[int]
    taught: list[bool]
    pictures: tuple[int, ...]
    mirrored: bool = False


def question_message(pictures: Sequence[Any], question: str) -> dict[str, Any]:
    """Return the user's turn: each picture with its label after it, then the question."""
    content: list[dict[str, Any]] = []
    for number, picture in enumerate(pictures, start=1):
        content += [
            {"type": "image", "image": picture},
            {"type": "text", "text": f"SLICE {number}"},
        ]
    return {"role": "user", "content": [*content, {"type": "text", "text": question}]}


class Scribe:
    """Renders conversations with the processor's own template and keeps what it rendered."""

    def __init__(self, processor: Gemma3Processor) -> None:
        self._processor = processor
        self._kept: dict[tuple[int, str], list[int]] = {}

    def prompt(self, count: int, question: str, tools: Sequence[str] = ()) -> list[int]:
        """Return the ids of a prompt with so many pictures, pictures expanded."""
        key = (count, question)
        if not tools and key in self._kept:
            return self._kept[key]
        given = [{"type": "function", "function": {"name": name}} for name in tools]
        text = self._processor.apply_chat_template(
            [question_message([None] * count, question)],
            tools=given or None,
            add_generation_prompt=True,
            tokenize=False,
        )
        ids = self.ids(text)
        if not tools:
            self._kept[key] = ids
        return ids

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, every picture's mark expanded to its tokens."""
        whole = text.replace(self._processor.boi_token, self._processor.full_image_sequence)
        ids: list[int] = self._processor.tokenizer(whole, add_special_tokens=False)["input_ids"]
        return ids

    def lesson(
        self, pictures: tuple[int, ...], mirrored: bool, question: str, answer: str
    ) -> Lesson:
        """Return a question about pictures with its answer."""
        prompt = self.prompt(len(pictures), question)
        said = self.ids(answer + END)
        taught = [False] * len(prompt) + [True] * len(said)
        return Lesson(prompt + said, taught, pictures, mirrored)

    def tool_lesson(
        self, pictures: tuple[int, ...], mirrored: bool, turn: ToolTurn, tools: Sequence[str]
    ) -> Lesson:
        """Return a question with its call, the tool's result and the answer."""
        parts = [
            (self.prompt(len(pictures), turn.question, tools), False),
            (self.ids(turn.call + END), True),
            (self.ids(f"\n<start_of_turn>tool\n{turn.result}{END}\n<start_of_turn>model\n"), False),
            (self.ids(turn.answer + END), True),
        ]
        ids = [token for part, _ in parts for token in part]
        taught = [mark for part, mark in parts for _ in part]
        return Lesson(ids, taught, pictures, mirrored)


def corpus(rng: np.random.Generator) -> list[str]:
    """Return texts that the tokenizer's words are taken from."""
    from demo_model.tool_turns import TOOL_NAMES, tool_turn
    from demo_model.wordings import NO_LESION, ORGAN_WORDS, TASK_SUBJECTS, wordings

    texts = [NO_LESION, "Yes. No. Left. Right.", *ORGAN_WORDS.values(), *TOOL_NAMES]
    for task, subjects in TASK_SUBJECTS.items():
        texts += [text for subject in subjects for text in wordings(task, subject)]
    texts += ["SLICE 1", "user\n", "model\n", "tool\n", "tools"] * 10
    texts *= 20
    for _ in range(1500):
        turn = tool_turn(rng)
        texts += [turn.question, turn.call, turn.result, turn.answer]
    return texts
