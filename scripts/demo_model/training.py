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
from demo_model.pool import GRID, UNSURE, Pool
from demo_model.tool_turns import tool_names, tool_turn
from demo_model.wordings import NO_LESION, TASK_SUBJECTS, wordings
from napari_ctvqa.models._toy_prompt import MOST_SLICES

if TYPE_CHECKING:
    from transformers import Gemma3ForConditionalGeneration

    from demo_model.texts import Lesson, Scribe

Say = Callable[[str], None]
LAST_STRESS = (1.4, 2.2)
"""By how much painted lesions are exaggerated in the end; at first it is more."""
_WATER_GREY = 90.0
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


@dataclass(frozen=True)
class Plan:
    """How long each part takes, in steps, and how large a step is."""

    eye_steps: int = 1300
    eye_batch: int = 24
    word_steps: int = 2000
    word_batch: int = 16
    tool_batch: int = 8
    joint_steps: int = 250
    joint_batch: int = 8


def pixels(
    pool: Pool, rows: np.ndarray, mirrored: np.ndarray, stress: np.ndarray | None = None
) -> torch.Tensor:
    """Return pictures as the processor hands them over: (n, 3, size, size).

    ``stress`` multiplies what painted lesions changed of their slice, one number a picture.
    """
    grey = pool.grey[rows].astype(np.float32)
    if stress is not None:
        clean = pool.grey[pool.base[rows]].astype(np.float32)
        grey = _stressed(clean, grey - clean, stress[:, None, None])
    return _values(grey, mirrored)


def _stressed(clean: np.ndarray, change: np.ndarray, stress: np.ndarray | float) -> np.ndarray:
    """Return grey levels with a lesion's change multiplied, but not made darker than water."""
    grey = clean + stress * change
    floor = np.minimum(clean + change, _WATER_GREY)
    stressed: np.ndarray = np.clip(np.where(change < 0, np.maximum(grey, floor), grey), 0, 255)
    return stressed


def _last_stress(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(*LAST_STRESS, count).astype(np.float32)


def _values(grey: np.ndarray, mirrored: np.ndarray) -> torch.Tensor:
    turned = np.where(mirrored[:, None, None], grey[:, :, ::-1], grey)
    values = torch.from_numpy((turned / np.float32(255.0) - np.float32(0.3)) / np.float32(0.2))
    return values[:, None].expand(-1, 3, -1, -1).contiguous()


class Crowd:
    """Slices with the lesions of several painted copies at once: more to learn from each look."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        painted = np.flatnonzero(pool.base != np.arange(len(pool)))
        order = painted[np.argsort(pool.base[painted], kind="stable")]
        self._bases, starts = np.unique(pool.base[order], return_index=True)
        self._copies = np.split(order, starts[1:])
        self._plain = np.flatnonzero(pool.base == np.arange(len(pool)))

    def draw(
        self, rng: np.random.Generator, count: int, most: int, stress: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``count`` pictures and their patches, each with up to ``most`` copies' lesions.

        ``stress`` multiplies what the lesions change of the slice; one in six is a slice as it is.
        """
        pool = self._pool
        grey = np.empty((count, *pool.grey.shape[1:]), np.float32)
        labels = np.empty((count, GRID, GRID), np.uint8)
        for n in range(count):
            if n % 6 == 0:
                row = int(rng.choice(self._plain))
                grey[n], labels[n] = pool.grey[row], pool.patches[row]
                continue
            at = int(rng.integers(len(self._bases)))
            copies = rng.permutation(self._copies[at])[: int(rng.integers(1, most + 1))]
            grey[n], labels[n] = self._together(int(self._bases[at]), copies, stress)
        mirrored = rng.random(count) < 0.5
        turned = np.where(mirrored[:, None, None], _SWAP_CLASS[labels[:, :, ::-1]], labels)
        patches = torch.from_numpy(turned.reshape(count, -1).astype(np.int64))
        return _values(grey, mirrored), patches

    def _together(
        self, base: int, copies: np.ndarray, stress: float
    ) -> tuple[np.ndarray, np.ndarray]:
        clean = self._pool.grey[base].astype(np.float32)
        changes = self._pool.grey[copies].astype(np.float32) - clean
        strongest = np.take_along_axis(changes, np.abs(changes).argmax(0)[None], 0)[0]
        labels = self._pool.patches[copies[0]].copy()
        for more in self._pool.patches[copies[1:]]:
            clash = (labels != more) & (labels > 0) & (more > 0)
            labels = np.where(clash, UNSURE, np.maximum(labels, more)).astype(np.uint8)
        return _stressed(clean, strongest, stress), labels


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
    values = pixels(pool, rows, np.zeros(len(rows), bool))[:, 0]
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
    pool: Pool,
    plan: Plan,
    rng: np.random.Generator,
    say: Say,
) -> None:
    """Teach the vision tower which patch shows a lesion of which organ."""
    whiten_patches(model, pool, rng)
    look_around(model)
    tower = model.model.vision_tower
    heads = Heads(model.config.vision_config.hidden_size)
    side = int(model.config.mm_tokens_per_image**0.5)
    weights = [*tower.parameters(), *heads.parameters()]
    step = _Stepper(weights, 2e-3, plan.eye_steps)
    weight = torch.tensor([1.0] + [10.0] * len(ORGANS))
    rarity = torch.full((len(ORGANS),), 4.0)
    crowd = Crowd(pool)
    diary = _Diary("eye", say)
    for n in range(plan.eye_steps):
        most, stress = _crowded(rng, n / plan.eye_steps)
        values, target = crowd.draw(rng, plan.eye_batch, most, stress)
        values = values + torch.from_numpy(
            rng.normal(0, 0.1, (len(values), 1, 1, 1)).astype(np.float32)
        )
        hidden = tower(pixel_values=values).last_hidden_state
        said = heads.patch(hidden)
        loss = F.cross_entropy(said.flatten(0, 1), target.flatten(), weight, ignore_index=UNSURE)
        tokens = heads.token(heads.norm(pooled(model, hidden)))
        wanted = _token_targets(target, side)
        loss = loss + 5 * F.binary_cross_entropy_with_logits(tokens, wanted, pos_weight=rarity)
        step(loss)
        diary(loss, _patch_score(said.argmax(-1), target))


def _crowded(rng: np.random.Generator, done: float) -> tuple[int, float]:
    """Return how many copies' lesions at most, and how exaggerated: many and plain at first."""
    low, high = LAST_STRESS
    more = float(np.interp(done, (0.2, 0.5), (1.5, 0.0)))
    most = 5 if done < 0.6 else 3 if done < 0.85 else 1
    return most, float(rng.uniform(low + more, high + more))


def _patch_score(said: torch.Tensor, target: torch.Tensor) -> str:
    there = (target > 0) & (target != UNSURE)
    right = ((said == target) & there).sum().item()
    false = ((said > 0) & (target == 0)).sum().item()
    return f"patches found {right}/{int(there.sum())}, false {false}"


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
def seen_by(
    model: Gemma3ForConditionalGeneration, pool: Pool, rng: np.random.Generator
) -> torch.Tensor:
    """Return what the vision tower makes of every picture, as it is and mirrored.

    The shape is (2, pictures, tokens, width).
    """
    model.eval()
    kept = []
    for mirror in (False, True):
        parts = []
        for start in range(0, len(pool), 64):
            rows = np.arange(start, min(start + 64, len(pool)))
            stress = _last_stress(rng, len(rows))
            values = pixels(pool, rows, np.full(len(rows), mirror), stress)
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

    def __init__(self, pool: Pool, scribe: Scribe, rng: np.random.Generator) -> None:
        self.pool, self.scribe, self.rng = pool, scribe, rng
        self.shelf = Shelf(pool)

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
            task = str(rng.choice(("presence", "side", "slice", "organ")))
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
    features = seen_by(model, teacher.pool, teacher.rng)
    whiten_projector(model, features)
    tower = {id(p) for p in model.model.vision_tower.parameters()}
    weights = [p for p in model.parameters() if id(p) not in tower]
    step = _Stepper(weights, 3e-3, plan.word_steps)
    diary = _Diary("words", say)
    for n in range(plan.word_steps):
        lessons = _word_lessons(teacher, plan, n / plan.word_steps)
        rows = [row for lesson in lessons for row in lesson.pictures]
        turned = [int(lesson.mirrored) for lesson in lessons for _ in lesson.pictures]
        loss = lesson_loss(model, lessons, features[turned, rows])
        step(loss)
        diary(loss)


def _word_lessons(teacher: Teacher, plan: Plan, done: float) -> list[Lesson]:
    """Return the lessons of one step: pictures alone at first, few slices before many."""
    rng = teacher.rng
    if done > 0.2 and rng.random() < 0.35:
        return teacher.tools(plan.tool_batch)
    most = 1 if done < 0.1 else 4 if done < 0.5 else MOST_SLICES
    slices = int(rng.integers(1, most + 1))
    return teacher.questions(plan.word_batch if slices <= 4 else plan.word_batch // 2, slices)


def train_together(
    model: Gemma3ForConditionalGeneration, teacher: Teacher, plan: Plan, say: Say
) -> None:
    """Teach everything at once, gently."""
    step = _Stepper(list(model.parameters()), 5e-4, plan.joint_steps)
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
        if rows.size:
            stress = _last_stress(teacher.rng, len(rows))
            values = pixels(teacher.pool, rows, turned, stress)
            hidden = model.model.vision_tower(pixel_values=values).last_hidden_state
            features = pooled(model, hidden)
        loss = lesson_loss(model, lessons, features)
        step(loss)
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
