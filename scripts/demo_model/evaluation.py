"""How often the saved model is right, on bodies that it has never seen.

It is loaded and asked as any other model is: ``AutoProcessor``, ``AutoModelForImageTextToText``,
chat messages with pictures of whole slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from demo_model.bodies import ASKED, ORGANS, bodies
from demo_model.items import Shelf, answer, mirrored_sides
from demo_model.pictures import Grey
from demo_model.pool import Pool, pool_of
from demo_model.texts import question_message
from demo_model.tool_turns import tool_names, tool_turn
from demo_model.wordings import ORGAN_WORDS, wordings
from napari_ctvqa.models._toy_prompt import MOST_SLICES

FIRST_SEED = 900_000
"""Bodies to be asked about start here; training stays below."""
_AT_ONCE = 20
_TRIES = 20_000
Change = Callable[[Grey], Grey]


def unchanged(grey_yx: Grey) -> Grey:
    """Return the picture as it is."""
    return grey_yx


def mirrored(grey_yx: Grey) -> Grey:
    """Return the picture with its columns the other way round."""
    return np.ascontiguousarray(grey_yx[:, ::-1])


def blank(grey_yx: Grey) -> Grey:
    """Return a black picture."""
    return np.zeros_like(grey_yx)


@dataclass(frozen=True)
class Question:
    """What is asked about some rows of the pool, and what is right."""

    task: str
    rows: tuple[int, ...]
    text: str
    answer: str


@dataclass
class Tally:
    """Right answers of a task, and which wrong ones were given."""

    right: int = 0
    total: int = 0
    wrong: dict[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Return the fraction that is right."""
        return self.right / max(self.total, 1)


class Asker:
    """The saved model, asked in batches."""

    def __init__(self, folder: Path) -> None:
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    def answers(self, conversations: Sequence[Any], tokens: int, **template: Any) -> list[str]:
        """Return what the model writes, greedily, for conversations with as many pictures each."""
        said: list[str] = []
        for start in range(0, len(conversations), _AT_ONCE):
            inputs = self.processor.apply_chat_template(
                list(conversations[start : start + _AT_ONCE]),
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                processor_kwargs={"padding": True},
                **template,
            )
            with torch.no_grad():
                made = self.model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
            texts = made[:, inputs["input_ids"].shape[1] :]
            said += self.processor.batch_decode(texts, skip_special_tokens=True)
        return said


def questions(pool: Pool, rng: np.random.Generator, each: int) -> dict[str, list[Question]]:
    """Return ``each`` questions a task, every answer as often as the others.

    For slices: every place among as many slices.
    """
    drawer = _Drawer(pool, rng)
    organs = tuple(ORGAN_WORDS[name] for name in ORGANS)
    named = ("liver", "kidneys", "spleen")
    return {
        "side": [drawer.draw("side", "any", ("Left.", "Right.")[n % 2]) for n in range(each)],
        "presence": [drawer.draw("presence", "any", ("Yes.", "No.")[n % 2]) for n in range(each)],
        "slice": [drawer.draw_place(2 + n % (MOST_SLICES - 1)) for n in range(each)],
        "organ": [drawer.draw("organ", "any", organs[n % len(organs)]) for n in range(each)],
        "presence in an organ": [
            drawer.draw("presence", named[n // 2 % len(named)], ("Yes.", "No.")[n % 2])
            for n in range(each)
        ],
    }


class _Drawer:
    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        self._pool, self._rng, self._shelf = pool, rng, Shelf(pool)

    def draw(self, task: str, subject: str, wanted: str) -> Question:
        """Return a question with that answer on 1 to ``MOST_SLICES`` slices."""
        for _ in range(_TRIES):
            count = int(self._rng.integers(1, MOST_SLICES + 1))
            found = self._any(task, subject, count, int(wanted != "No." or subject != "any"))
            if found.answer == wanted:
                return found
        raise ValueError(f"no slices of these bodies give {wanted!r}: more bodies are needed")

    def draw_place(self, count: int) -> Question:
        """Return which of ``count`` slices shows the lesion, each place as likely."""
        wanted = f"SLICE {int(self._rng.integers(1, count + 1))}"
        for _ in range(_TRIES):
            found = self._any("slice", "any", count, 1)
            if found.answer == wanted:
                return found
        raise ValueError(f"no slices of these bodies give {wanted!r}: more bodies are needed")

    def _any(self, task: str, subject: str, count: int, lesioned: int) -> Question:
        rows = self._shelf.slices(self._rng, count, lesioned)
        right = answer(list(self._pool.seen[list(rows)]), task, subject)
        return Question(task, rows, wordings(task, subject)[0], right or "")


def ask(
    asker: Asker, pool: Pool, asked: Sequence[Question], change: Change = unchanged
) -> list[tuple[Question, str]]:
    """Return each question with the model's answer, on pictures changed first."""
    said: list[tuple[Question, str]] = []
    for count in sorted({len(q.rows) for q in asked}):
        group = [q for q in asked if len(q.rows) == count]
        chats = [[question_message(_pictures(pool, q, change), q.text)] for q in group]
        said += zip(group, asker.answers(chats, 12), strict=True)
    return said


def _pictures(pool: Pool, question: Question, change: Change) -> list[Image.Image]:
    return [Image.fromarray(change(pool.grey[row])).convert("RGB") for row in question.rows]


def tally(said: Sequence[tuple[Question, str]]) -> Tally:
    """Return how many answers are right."""
    counted = Tally()
    for question, text in said:
        counted.total += 1
        if text == question.answer:
            counted.right += 1
        else:
            wrong = f"{question.answer} > {text}"
            counted.wrong[wrong] = counted.wrong.get(wrong, 0) + 1
    return counted


def flipped(question: Question, pool: Pool) -> Question:
    """Return a question with the answer that is right on mirrored pictures."""
    seen = mirrored_sides(pool.seen[list(question.rows)])
    right = answer(list(seen), question.task, "any")
    return Question(question.task, question.rows, question.text, right or "")


def tool_score(asker: Asker, rng: np.random.Generator, count: int) -> dict[str, Tally]:
    """Return how often the call is right to the letter, and the answer from the tool's result."""
    scores = {"tool call": Tally(), "answer from the result": Tally()}
    for _ in range(count):
        turn, names = tool_turn(rng), tool_names(rng)
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        chat = [question_message([], turn.question)]
        after = [
            *chat,
            {"role": "assistant", "content": [{"type": "text", "text": turn.call}]},
            {"role": "tool", "content": [{"type": "text", "text": turn.result}]},
        ]
        wanted = {"tool call": (chat, turn.call), "answer from the result": (after, turn.answer)}
        for name, (messages, right) in wanted.items():
            (text,) = asker.answers([messages], 80, tools=tools)
            said = Question(name, (), turn.question, right)
            one = tally([(said, text)])
            scores[name].total += 1
            scores[name].right += one.right
            scores[name].wrong.update(one.wrong)
    return scores


@dataclass
class Scores:
    """Right answers per task; ``blank`` on black pictures, ``chance`` what guessing gives."""

    tasks: dict[str, Tally]
    blank: dict[str, Tally]
    chance: dict[str, float]
    turned: Tally
    """Sides on mirrored pictures, against the mirrored truth."""
    mistaken: Tally
    """Sides on mirrored pictures, against the unmirrored truth: what a mirroring fault gives."""
    tools: dict[str, Tally]
    bodies: int

    def lines(self) -> list[str]:
        """Return one line a task, for people."""
        said = []
        for name, counted in self.tasks.items():
            empty = self.blank[name]
            said.append(
                f"{name}: {counted.right}/{counted.total} = {counted.share:.1%}; on blank pictures "
                f"{empty.right}/{empty.total} = {empty.share:.1%} (chance {self.chance[name]:.1%})"
            )
        others = {
            "side, pictures and truth mirrored": self.turned,
            "side, pictures alone mirrored": self.mistaken,
            **self.tools,
        }
        said += [f"{k}: {v.right}/{v.total} = {v.share:.1%}" for k, v in others.items()]
        return said


def score(folder: Path, count: int, each: int = 200, seed: int = FIRST_SEED) -> Scores:
    """Return the scores of a saved model on ``count`` unseen bodies, ``each`` questions a task."""
    asker = Asker(folder)
    pool = pool_of(bodies(seed, count, 3, ASKED), np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    asked = questions(pool, rng, each)
    said = {name: ask(asker, pool, group) for name, group in asked.items()}
    sides = asked["side"]
    turned = ask(asker, pool, sides, mirrored)
    return Scores(
        {name: tally(group) for name, group in said.items()},
        {name: tally(ask(asker, pool, group, blank)) for name, group in asked.items()},
        {name: _chance(group) for name, group in asked.items()},
        tally([(flipped(question, pool), text) for question, text in turned]),
        tally(turned),
        tool_score(asker, rng, each),
        count,
    )


def _chance(asked: Sequence[Question]) -> float:
    """Return what a guesser gets who knows the possible answers, for slices their number."""
    if asked[0].task == "slice":
        return float(np.mean([1 / len(question.rows) for question in asked]))
    return 1 / len({question.answer for question in asked})
