"""Train the toy model of resources/demo_model from nothing, and say how often it is right.

    python scripts/train_demo_model.py [--out FOLDER] [--work FOLDER] [--check-only]

Needs the packages of the ``local`` extra. One thread; the bodies are made first (minutes), then
the model is trained, saved, loaded again as any other model is, and asked about bodies that it
has not seen. The last lines give right answers per task and the seconds it took. What is kept in
the work folder is not made a second time: every part has random numbers of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from demo_model.architecture import model_of, processor_of, save, tokenizer_of  # noqa: E402
from demo_model.bodies import bodies  # noqa: E402
from demo_model.card import write_card  # noqa: E402
from demo_model.evaluation import score  # noqa: E402
from demo_model.painting import with_painted  # noqa: E402
from demo_model.pool import Pool, first_bodies, load_pool, pool_of, save_pool  # noqa: E402
from demo_model.texts import Scribe, corpus  # noqa: E402
from demo_model.training import (  # noqa: E402
    Heads,
    Plan,
    Teacher,
    train_eye,
    train_last,
    train_together,
    train_words,
)

SHARES = ((10_000, 73), (20_000, 60))
"""First seeds of the training bodies, and how many; those that are asked about lie far above."""
STEP = 2
"""Of slices without a lesion every second one is kept: they are alike."""
WORD_BODIES, WORD_COPIES, JOINT_COPIES, LAST_COPIES = 60, 2, 2, 1
LAST_TASKS = ("presence", "side", "slice", "slice", "organ")


def main() -> int:
    """Run what the command line asks for."""
    args = _arguments()
    torch.set_num_threads(1)
    studio = Studio(args.work, Plan())
    if not args.check_only:
        studio.train(args.out)
    with studio.timed("check"):
        scores = score(args.out, args.held_out)
    for line in scores.lines():
        _say(line)
    for name, taken in studio.seconds.items():
        _say(f"{name}: {taken:.0f} s")
    if not args.check_only:
        write_card(args.out, scores, _training(studio))
    return 0


class Studio:
    """Makes the pictures and the model, part after part, and keeps them where it is told."""

    def __init__(self, work: Path | None, plan: Plan) -> None:
        self._work, self.plan = work, plan
        self.seconds: dict[str, float] = {}
        """How long each part took, where it was first made."""
        self.parameters = 0
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)

    def train(self, out: Path) -> None:
        """Train from nothing and save model and processor."""
        torch.manual_seed(0)
        processor = processor_of(tokenizer_of(corpus(np.random.default_rng(0))))
        model = model_of(processor.tokenizer)
        self.parameters = sum(weights.numel() for weights in model.parameters())
        heads = Heads(model.config.vision_config.hidden_size)
        pool = self._pool()
        plan, scribe = self.plan, Scribe(processor)

        def eye() -> None:
            train_eye(model, heads, pool, plan, np.random.default_rng(1), _say)

        def words() -> None:
            rng = np.random.default_rng(2)
            some = with_painted(first_bodies(pool, WORD_BODIES), rng, WORD_COPIES)
            train_words(model, Teacher(some, scribe, rng), plan, _say)

        def together() -> None:
            rng = np.random.default_rng(3)
            teacher = Teacher(with_painted(pool, rng, JOINT_COPIES), scribe, rng)
            train_together(model, heads, teacher, plan, _say)

        def last() -> None:
            rng = np.random.default_rng(4)
            some = with_painted(pool, rng, LAST_COPIES)
            train_last(model, Teacher(some, scribe, rng, LAST_TASKS), plan, _say)

        both = torch.nn.ModuleList([model, heads])
        parts = {"eye": eye, "words": words, "both": together, "last": last}
        for seed, (name, part) in enumerate(parts.items()):
            torch.manual_seed(seed)
            self._made(name, part, both)
        save(model, processor, out)

    def _made(self, name: str, part: Callable[[], None], weights: torch.nn.Module) -> None:
        """Run a part, or take the weights that it had when it was run before."""
        kept = self._work and self._work / f"{name}.pt"
        if kept and kept.is_file():
            found = torch.load(kept, weights_only=True)
            weights.load_state_dict(found["weights"])
            self.seconds[name] = found["seconds"]
            return
        with self.timed(name):
            part()
        if kept:
            torch.save({"weights": weights.state_dict(), "seconds": self.seconds[name]}, kept)

    def _pool(self) -> Pool:
        kept = self._work and self._work / "pool.npz"
        if kept and kept.is_file():
            return load_pool(kept)
        with self.timed("pictures"):
            made = chain.from_iterable(bodies(first, count, 3) for first, count in SHARES)
            pool = pool_of(made, np.random.default_rng(0), STEP)
        _say(f"{len(pool)} pictures of {int(pool.body.max()) + 1} bodies")
        if kept:
            save_pool(kept, pool)
        return pool

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add up what is done inside under a name, seconds."""
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began


def _training(studio: Studio) -> dict[str, Any]:
    return {
        "parameters": studio.parameters,
        "bodies": sum(count for _, count in SHARES),
        "first_seeds": [first for first, _ in SHARES],
        "plan": asdict(studio.plan),
        "threads": 1,
        "seconds": {name: round(taken) for name, taken in studio.seconds.items()},
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "resources" / "demo_model")
    parser.add_argument("--work", type=Path, help="keep pictures and weights of each part here")
    parser.add_argument("--held-out", type=int, default=30, help="bodies that are asked about")
    parser.add_argument(
        "--check-only", action="store_true", help="ask the saved model, no training"
    )
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
