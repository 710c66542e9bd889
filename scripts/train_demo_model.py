"""Train the toy model of resources/demo_model from nothing, and say how often it is right.

    python scripts/train_demo_model.py [--out FOLDER] [--pool FILE] [--bodies N] [--check-only]

Needs the packages of the ``local`` extra. One thread; the bodies are made first (minutes), then
the model is trained, saved, loaded again as any other model is, and asked about bodies that it
has not seen. The last lines give right answers per task and the seconds it took.

No model is shipped yet: the picture tasks stay at chance (side 42, presence 50 of 100 on twelve
unseen bodies after 900 + 1,500 steps), while 40 of 40 tool calls are right, and 13 of 40 values
are repeated. The vision tower is what lags: a linear reading of what it sees finds 64 % of the
lesions on unseen slices at 86 % specificity. Where lesions are put into its output by hand, the
language part learns all picture tasks in 900 steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from demo_model.architecture import model_of, processor_of, save, tokenizer_of  # noqa: E402
from demo_model.bodies import bodies  # noqa: E402
from demo_model.card import write_card  # noqa: E402
from demo_model.evaluation import Scores, score  # noqa: E402
from demo_model.pool import Pool, joined, load_pool, pool_of, save_pool  # noqa: E402
from demo_model.texts import Scribe, corpus  # noqa: E402
from demo_model.training import Plan, Teacher, train_eye, train_together, train_words  # noqa: E402

SHARES = (10_000, 20_000)
"""First seeds of the training bodies; those that are asked about lie far above."""
PAINTED = 5


def main() -> int:
    """Run what the command line asks for."""
    args = _arguments()
    torch.set_num_threads(1)
    seconds = {}
    if not args.check_only:
        began = time.perf_counter()
        pool = _pool(args.pool, args.bodies)
        seconds["pictures"] = time.perf_counter() - began
        began, used = time.perf_counter(), time.process_time()
        train(pool, args.out, Plan())
        seconds["training"] = time.perf_counter() - began
        seconds["training, processor time"] = time.process_time() - used
    began = time.perf_counter()
    scores = score(args.out, args.held_out)
    seconds["check"] = time.perf_counter() - began
    for line in scores.lines():
        _say(line)
    for name, taken in seconds.items():
        _say(f"{name}: {taken:.0f} s")
    if not args.check_only:
        _card(args.out, scores, seconds, args.bodies)
    return 0


def train(pool: Pool, out: Path, plan: Plan) -> None:
    """Train on the pool's pictures and save model and processor."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    tokenizer = tokenizer_of(corpus(rng))
    processor = processor_of(tokenizer)
    model = model_of(tokenizer)
    teacher = Teacher(pool, Scribe(processor), rng)
    train_eye(model, pool, plan, rng, _say)
    train_words(model, teacher, plan, _say)
    save(model, processor, out)
    train_together(model, teacher, plan, _say)
    save(model, processor, out)


def _pool(kept: Path | None, count: int) -> Pool:
    """Return the training pictures: kept ones where there are some, else newly made."""
    if kept is not None and kept.is_file():
        return load_pool(kept)
    parts = []
    for first in SHARES:
        made = bodies(first, count // len(SHARES), 3)
        parts.append(pool_of(made, np.random.default_rng(first), PAINTED))
        _say(f"pictures of {count // len(SHARES)} bodies from seed {first}: {len(parts[-1])}")
    pool = joined(parts)
    if kept is not None:
        save_pool(kept, pool)
    return pool


def _card(out: Path, scores: Scores, seconds: dict[str, float], count: int) -> None:
    training = {
        "bodies": count,
        "first_seeds": list(SHARES),
        "painted_copies": PAINTED,
        "plan": asdict(Plan()),
        "threads": 1,
        "seconds": {name: round(taken) for name, taken in seconds.items()},
    }
    write_card(out, scores, training)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "resources" / "demo_model")
    parser.add_argument("--pool", type=Path, help="keep the training pictures in this .npz")
    parser.add_argument("--bodies", type=int, default=60, help="bodies that are trained on")
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
