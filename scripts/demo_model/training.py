"""Training in three parts: the eye on dense labels, the language on what it sees, both together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from demo_model.bodies import ORGANS
from demo_model.items import SWAPPED, Shelf, answer, mirrored_sides
from demo_model.painting import Painter
from demo_model.pool import GRID, UNSURE, Pool, patch_labels
from demo_model.tool_turns import tool_names, tool_turn
from demo_model.wordings import NO_LESION, TASK_SUBJECTS, wordings
from napari_ctvqa.models._toy_prompt import MOST_SLICES

if TYPE_CHECKING:
    from transformers import Gemma3ForConditionalGeneration

    from demo_model.texts import Lesson, Scribe

Say = Callable[[str], None]
_SHIFT_PX = 6
_BRIGHTNESS = 0.1
"""By how much pictures are moved and made brighter or darker, so that fewer bodies do."""
_EMPTY_SPREAD = 0.05
"""Patches of less spread show air only, in units of the processor's output."""
_NOISE_VARIANCE = 0.02
_NEARNESS = 1.2
"""How much queries and keys are enlarged: near patches get most of the attention."""
_PLACE = 2.5
"""How strong positions are beside a patch's content, which is of unit spread."""
_FAINT = 1e-3
"""Added to a direction's strength before it is evened out."""
_CLASSES = len(ORGANS) + 1
_SWAP_CLASS = np.full(256, UNSURE, np.uint8)
_SWAP_CLASS[:_CLASSES] = [0, *(SWAPPED + 1)]
_PATCH_WEIGHTS = torch.tensor([1.0] + [8.0] * len(ORGANS))
_TOKEN_WEIGHTS = torch.full((len(ORGANS),), 4.0)


@dataclass(frozen=True)
class Plan:
    """How long each part takes, in steps, and how large a step is."""

    eye_steps: int = 4600
    eye_batch: int = 24
    eye_rate: float = 2e-3
    word_steps: int = 2500
    word_batch: int = 16
    word_rate: float = 3e-3
    tool_batch: int = 8
    joint_steps: int = 1000
    joint_batch: int = 8
    joint_rate: float = 7e-4
    joint_eye: float = 0.2
    """Weight of the eye's own lesson while both learn together."""
    last_steps: int = 3000
    last_rate: float = 1e-3


def values_of(grey: np.ndarray, mirrored: np.ndarray) -> torch.Tensor:
    """Return pictures as the processor hands them over: (n, 3, size, size)."""
    turned = np.where(mirrored[:, None, None], grey[:, :, ::-1], grey).astype(np.float32)
    values = torch.from_numpy((turned / np.float32(255.0) - np.float32(0.3)) / np.float32(0.2))
    return values[:, None].expand(-1, 3, -1, -1).contiguous()


def varied(
    grey: np.ndarray, lesions: np.ndarray, mirrored: np.ndarray, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures, each moved and made brighter by a little, and the organs of its patches."""
    labels = np.empty((len(grey), GRID, GRID), np.uint8)
    moved = np.empty(grey.shape, np.float32)
    for n in range(len(grey)):
        by = tuple(map(int, rng.integers(-_SHIFT_PX, _SHIFT_PX + 1, 2)))
        moved[n] = _moved(grey[n], by)
        labels[n] = patch_labels(_moved(lesions[n], by))
    turned = np.where(mirrored[:, None, None], _SWAP_CLASS[labels[:, :, ::-1]], labels)
    brighter = rng.normal(0, _BRIGHTNESS, (len(grey), 1, 1, 1)).astype(np.float32)
    patches = torch.from_numpy(turned.reshape(len(grey), -1).astype(np.int64))
    return values_of(moved, mirrored) + torch.from_numpy(brighter), patches


def _moved(picture: np.ndarray, by: tuple[int, ...]) -> np.ndarray:
    """Return a picture moved by whole pixels; what comes in is zero."""
    out = np.zeros_like(picture)
    to, of = (
        tuple(
            slice(max(0, step), size + min(0, step))
            for step, size in zip(steps, out.shape, strict=True)
        )
        for steps in (by, tuple(-step for step in by))
    )
    out[to] = picture[of]
    return out


class Gallery:
    """Draws pictures for the eye: painted lesions, many a picture at first, real ones, none."""

    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        self._pool, self._rng = pool, rng
        self._painter = Painter(pool, rng)
        shown = pool.seen.any(axis=1)
        self._real, self._clean = np.flatnonzero(shown), np.flatnonzero(~shown)

    def draw(self, count: int, done: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``count`` pictures and the organ of the lesion in each of their patches."""
        rng, pool = self._rng, self._pool
        most = 4 if done < 0.4 else 2 if done < 0.7 else 1
        grey = np.empty((count, *pool.grey.shape[1:]), np.float32)
        lesions = np.empty(grey.shape, np.uint8)
        for n in range(count):
            kind = n % 8
            if kind < 3:
                row = int(rng.choice(self._real if kind else self._clean))
                grey[n], lesions[n] = pool.grey[row], pool.lesions[row]
                continue
            row = int(rng.choice(self._painter.rows))
            made = self._painter.painted(row, int(rng.integers(0 if most == 1 else 1, most + 1)))
            grey[n], lesions[n] = made.grey, made.lesions
        return varied(grey, lesions, rng.random(count) < 0.5, rng)


class Heads(nn.Module):
    """Read the lesion's organ off every patch and off every pooled token; thrown away later."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch = nn.Linear(width, _CLASSES)
        self.norm = nn.RMSNorm(width)
        self.token = nn.Linear(width, len(ORGANS))


def pooled(model: Gemma3ForConditionalGeneration, hidden: torch.Tensor) -> torch.Tensor:
    """Return the vision tower's output averaged to the tokens that the language part gets."""
    grid = hidden.transpose(1, 2).reshape(hidden.shape[0], -1, GRID, GRID)
    averaged: torch.Tensor = model.model.multi_modal_projector.avg_pool(grid)
    return averaged.flatten(2).transpose(1, 2)


def _token_targets(patches: torch.Tensor, side: int) -> torch.Tensor:
    """Return which organs' lesions lie in each pooled token, (n, tokens, organs)."""
    known = torch.where(patches == UNSURE, 0, patches)
    hot = F.one_hot(known, _CLASSES)[..., 1:].float()
    grid = hot.transpose(1, 2).reshape(patches.shape[0], len(ORGANS), GRID, GRID)
    return F.max_pool2d(grid, GRID // side).flatten(2).transpose(1, 2)


def whiten_patches(
    model: Gemma3ForConditionalGeneration, pool: Pool, rng: np.random.Generator
) -> None:
    """Start the patch embedding as the principal components of patches, each of unit spread.

    Random first filters see little but a patch's mean; lesions are in the rest.
    """
    weight = model.model.vision_tower.embeddings.patch_embedding.weight
    size = weight.shape[-1]
    rows = rng.choice(len(pool), 600, replace=False)
    values = values_of(pool.grey[rows], np.zeros(len(rows), bool))[:, 0]
    patches = values.unfold(1, size, size).unfold(2, size, size).reshape(-1, size * size)
    patches = patches[patches.std(dim=1) > _EMPTY_SPREAD].double()
    patches = patches - patches.mean(dim=0)
    variances, axes = torch.linalg.eigh(patches.T @ patches / len(patches))
    kept = torch.argsort(variances, descending=True)[: weight.shape[0]]
    gain = (variances[kept] + _NOISE_VARIANCE).rsqrt()
    filters = (axes[:, kept] * gain).T.reshape(-1, 1, size, size) / weight.shape[1]
    with torch.no_grad():
        weight.copy_(filters.expand_as(weight))


@torch.no_grad()
def look_around(model: Gemma3ForConditionalGeneration) -> None:
    """Start the vision tower so that each patch attends to its neighbours.

    Positions are sines and cosines of row and column, queries equal keys: near patches are alike.
    From random positions a tower this small does not learn in minutes where "beside" is; a lesion
    is what differs from the organ beside it. After Trockman and Kolter 2023, "Mimetic
    initialization of self-attention layers".
    """
    tower = model.model.vision_tower
    width = model.config.vision_config.hidden_size
    steps = torch.arange(GRID, dtype=torch.float32)
    rates = torch.pi / GRID * torch.logspace(0, 2, width // 4, base=2)
    waves = torch.cat([torch.sin(steps[:, None] * rates), torch.cos(steps[:, None] * rates)], dim=1)
    rows = waves[:, None].expand(GRID, GRID, -1)
    columns = waves[None].expand(GRID, GRID, -1)
    tower.embeddings.position_embedding.weight.copy_(
        _PLACE * torch.cat([rows, columns], dim=2).reshape(GRID * GRID, width)
    )
    for layer in tower.encoder.layers:
        attention = layer.self_attn
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.mul_(_NEARNESS)
            projection.bias.zero_()


def train_eye(
    model: Gemma3ForConditionalGeneration,
    heads: Heads,
    pool: Pool,
    plan: Plan,
    rng: np.random.Generator,
    say: Say,
) -> None:
    """Teach the vision tower which patch shows a lesion of which organ."""
    whiten_patches(model, pool, rng)
    look_around(model)
    tower = model.model.vision_tower
    step = _Stepper([*tower.parameters(), *heads.parameters()], plan.eye_rate, plan.eye_steps)
    gallery = Gallery(pool, rng)
    diary = _Diary("eye", say)
    for n in range(plan.eye_steps):
        values, patches = gallery.draw(plan.eye_batch, n / plan.eye_steps)
        hidden = tower(pixel_values=values).last_hidden_state
        loss = eye_loss(model, heads, hidden, patches)
        step(loss)
        diary(loss)


def eye_loss(
    model: Gemma3ForConditionalGeneration,
    heads: Heads,
    hidden: torch.Tensor,
    patches: torch.Tensor,
) -> torch.Tensor:
    """Return how far the organs that the heads read off patches and tokens are from the truth."""
    said = heads.patch(hidden).flatten(0, 1)
    of_patches = F.cross_entropy(said, patches.flatten(), _PATCH_WEIGHTS, ignore_index=UNSURE)
    tokens = pooled(model, hidden)
    of_tokens = F.binary_cross_entropy_with_logits(
        heads.token(heads.norm(tokens)),
        _token_targets(patches, int(tokens.shape[1] ** 0.5)),
        pos_weight=_TOKEN_WEIGHTS,
    )
    return of_patches + 5 * of_tokens


class _Diary:
    """Says every hundred steps how large the loss was and how long it took."""

    def __init__(self, name: str, say: Say) -> None:
        self._name, self._say = name, say
        self._losses: list[float] = []
        self._began = time.perf_counter()

    def __call__(self, loss: torch.Tensor, more: str = "") -> None:
        self._losses.append(loss.item())
        steps = len(self._losses)
        if steps % 100 == 0:
            mean = float(np.mean(self._losses[-100:]))
            taken = time.perf_counter() - self._began
            self._say(f"{self._name} {steps}: loss {mean:.4f}, {taken:.0f} s {more}".rstrip())


class _Stepper:
    """One optimiser with a one-cycle rate and clipped gradients."""

    def __init__(self, weights: Sequence[nn.Parameter], rate: float, steps: int) -> None:
        self._weights = list(weights)
        self._optimiser = torch.optim.AdamW(
            self._weights, lr=rate, betas=(0.9, 0.97), weight_decay=0.01
        )
        self._rate = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, rate, total_steps=steps, pct_start=0.2
        )

    def __call__(self, loss: torch.Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._optimiser.step()
        self._rate.step()
        self._optimiser.zero_grad()


@torch.no_grad()
def seen_by(model: Gemma3ForConditionalGeneration, pool: Pool) -> torch.Tensor:
    """Return what the vision tower makes of every picture, as it is and mirrored.

    The shape is (2, pictures, tokens, width).
    """
    model.eval()
    kept = []
    for mirror in (False, True):
        parts = []
        for start in range(0, len(pool), 64):
            grey = pool.grey[start : start + 64]
            values = values_of(grey, np.full(len(grey), mirror))
            hidden = model.model.vision_tower(pixel_values=values).last_hidden_state
            parts.append(pooled(model, hidden))
        kept.append(torch.cat(parts))
    model.train()
    return torch.stack(kept)


@torch.no_grad()
def whiten_projector(model: Gemma3ForConditionalGeneration, features: torch.Tensor) -> None:
    """Start the projector so that every direction of what the tower sees is as strong.

    Most of a token says where it lies; what a lesion changes would drown in that.
    """
    projector = model.model.multi_modal_projector
    normed = projector.mm_soft_emb_norm(features[0, ::5]).flatten(0, 1).double()
    strengths, axes = torch.linalg.eigh(normed.T @ normed / len(normed))
    weight = projector.mm_input_projection_weight
    evened = (axes * (strengths + _FAINT).rsqrt()) @ axes.T
    spread = torch.linalg.qr(torch.randn(weight.shape[1], weight.shape[0]).double())[0].T
    weight.copy_((evened @ spread).float())


class Teacher:
    """Draws lessons: questions on pictures, and a share of tool turns."""

    def __init__(
        self,
        pool: Pool,
        scribe: Scribe,
        rng: np.random.Generator,
        tasks: Sequence[str] = ("presence", "side", "slice", "organ"),
    ) -> None:
        self.pool, self.scribe, self.rng = pool, scribe, rng
        self.shelf = Shelf(pool)
        self._tasks = tuple(tasks)

    def questions(self, count: int, slices: int) -> list[Lesson]:
        """Return ``count`` questions on so many slices each: none is padded for another."""
        return [self._question(slices) for _ in range(count)]

    def tools(self, count: int) -> list[Lesson]:
        """Return ``count`` tool turns, each with the same number of pictures before it."""
        slices = int(self.rng.choice((0, 0, 0, 1, 2, 4, MOST_SLICES)))
        return [self._tool(slices) for _ in range(count)]

    def _question(self, count: int) -> Lesson:
        rng = self.rng
        while True:
            task = str(rng.choice(self._tasks))
            empty = 0.45 if task == "presence" else 0.06
            lesioned = 0 if rng.random() < empty else (2 if rng.random() < 0.25 else 1)
            rows = self.shelf.slices(rng, count, min(lesioned, count))
            mirrored = bool(rng.random() < 0.5)
            seen = self.pool.seen[list(rows)]
            seen = mirrored_sides(seen) if mirrored else seen
            subjects = TASK_SUBJECTS[task]
            subject = "any" if rng.random() < 0.5 else str(rng.choice(subjects))
            right = answer(list(seen), task, subject)
            absent = right in ("No.", NO_LESION) and subject != "any"
            if right is None or (absent and rng.random() < 0.5):
                continue
            texts = wordings(task, subject)
            text = texts[0] if rng.random() < 0.6 else str(rng.choice(texts))
            return self.scribe.lesson(rows, mirrored, text, right)

    def _tool(self, count: int) -> Lesson:
        rng = self.rng
        rows = self.shelf.slices(rng, count, int(rng.integers(0, 2))) if count else ()
        return self.scribe.tool_lesson(rows, False, tool_turn(rng), tool_names(rng))


def train_words(
    model: Gemma3ForConditionalGeneration, teacher: Teacher, plan: Plan, say: Say
) -> None:
    """Teach the language part and the projector on what the vision tower, left alone, sees."""
    features = seen_by(model, teacher.pool)
    whiten_projector(model, features)
    step = _Stepper(_words_of(model), plan.word_rate, plan.word_steps)
    diary = _Diary("words", say)
    for n in range(plan.word_steps):
        done = n / plan.word_steps
        most = 1 if done < 0.1 else 4 if done < 0.5 else MOST_SLICES
        tools = 0.35 if done > 0.2 else 0.0
        lessons = _word_lessons(teacher, plan, tools, most)
        loss = _word_loss(model, lessons, features)
        step(loss)
        diary(loss)


def train_last(
    model: Gemma3ForConditionalGeneration, teacher: Teacher, plan: Plan, say: Say
) -> None:
    """Teach the language part once more, on what the tower sees in the end: mostly many slices."""
    features = seen_by(model, teacher.pool)
    step = _Stepper(_words_of(model), plan.last_rate, plan.last_steps)
    diary = _Diary("last", say)
    for _ in range(plan.last_steps):
        least = int(teacher.rng.integers(1, MOST_SLICES + 1))
        lessons = _word_lessons(teacher, plan, 0.25, MOST_SLICES, least)
        loss = _word_loss(model, lessons, features)
        step(loss)
        diary(loss)


def _words_of(model: Gemma3ForConditionalGeneration) -> list[nn.Parameter]:
    """Return all weights but the vision tower's."""
    tower = {id(p) for p in model.model.vision_tower.parameters()}
    return [p for p in model.parameters() if id(p) not in tower]


def _word_lessons(
    teacher: Teacher, plan: Plan, tools: float, most: int, least: int = 1
) -> list[Lesson]:
    """Return the lessons of one step: tool turns with this probability, else questions."""
    if tools and teacher.rng.random() < tools:
        return teacher.tools(plan.tool_batch)
    slices = int(teacher.rng.integers(least, most + 1))
    return teacher.questions(plan.word_batch if slices <= 4 else plan.word_batch // 2, slices)


def _word_loss(
    model: Gemma3ForConditionalGeneration, lessons: Sequence[Lesson], features: torch.Tensor
) -> torch.Tensor:
    rows = [row for lesson in lessons for row in lesson.pictures]
    turned = [int(lesson.mirrored) for lesson in lessons for _ in lesson.pictures]
    return lesson_loss(model, lessons, features[turned, rows])


def train_together(
    model: Gemma3ForConditionalGeneration,
    heads: Heads,
    teacher: Teacher,
    plan: Plan,
    say: Say,
) -> None:
    """Teach everything at once, gently; the eye keeps its own lesson."""
    weights = [*model.parameters(), *heads.parameters()]
    step = _Stepper(weights, plan.joint_rate, plan.joint_steps)
    diary = _Diary("joint", say)
    for _ in range(plan.joint_steps):
        if teacher.rng.random() < 0.15:
            lessons = teacher.tools(plan.tool_batch)
        else:
            slices = int(teacher.rng.integers(1, MOST_SLICES + 1))
            lessons = teacher.questions(plan.joint_batch, slices)
        rows = np.array([row for lesson in lessons for row in lesson.pictures], int)
        turned = np.array([lesson.mirrored for lesson in lessons for _ in lesson.pictures], bool)
        features = torch.zeros(0)
        aside = torch.zeros(())
        if rows.size:
            pool = teacher.pool
            values, patches = varied(pool.grey[rows], pool.lesions[rows], turned, teacher.rng)
            hidden = model.model.vision_tower(pixel_values=values).last_hidden_state
            features = pooled(model, hidden)
            aside = plan.joint_eye * eye_loss(model, heads, hidden, patches)
        loss = lesson_loss(model, lessons, features)
        step(loss + aside)
        diary(loss)


def lesson_loss(
    model: Gemma3ForConditionalGeneration, lessons: Sequence[Lesson], features: torch.Tensor
) -> torch.Tensor:
    """Return the loss, averaged within each lesson first: one word weighs as much as a call."""
    longest = max(len(lesson.ids) for lesson in lessons)
    ids = torch.full((len(lessons), longest), model.config.text_config.pad_token_id)
    taught = torch.zeros(ids.shape, dtype=torch.bool)
    there = torch.zeros(ids.shape, dtype=torch.long)
    for n, lesson in enumerate(lessons):
        ids[n, : len(lesson.ids)] = torch.tensor(lesson.ids)
        taught[n, : len(lesson.ids)] = torch.tensor(lesson.taught)
        there[n, : len(lesson.ids)] = 1
    picture = ids == model.config.image_token_id
    embedded = model.get_input_embeddings()(ids)
    if features.shape[0]:
        projector = model.model.multi_modal_projector
        projected = projector.mm_soft_emb_norm(features) @ projector.mm_input_projection_weight
        embedded = embedded.masked_scatter(picture[..., None], projected)
    hidden = model.model(
        inputs_embeds=embedded,
        attention_mask=there,
        token_type_ids=picture.long(),
        use_cache=False,
    ).last_hidden_state
    keep = taught[:, 1:]
    logits = model.lm_head(hidden[:, :-1][keep])
    each = F.cross_entropy(logits, ids[:, 1:][keep], reduction="none")
    share = (keep / keep.sum(1, keepdim=True))[keep]
    return (each * share).sum() / len(lessons)
