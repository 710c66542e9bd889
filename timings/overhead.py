"""What the worker costs: tokens per second through it, against a bare ``generate``, in one run.

Two models, one after the other: a random one of 50 million parameters and the shipped one. For each
the same question, greedy, float32, same pictures, goes in turns through the worker and through a
process that does what anybody would write with transformers. Both are timed from the messages to
the text, the worker in the client, so that the channel and the streaming count; both must give the
same text. On a busy machine wall times are noise: the tokens per second of processor time stand
beside them. See timings/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

PROMISED = {"random, 50 M": 0.97, "shipped": 0.9}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--only", choices=list(PROMISED))
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bare:
        serve_bare(args.bare)
        return 0
    kept = True
    with tempfile.TemporaryDirectory() as scratch:
        for name, promised in PROMISED.items():
            if args.only in (None, name):
                folder = random_model(Path(scratch)) if name != "shipped" else shipped_model()
                kept &= folder is None or compare(name, folder, promised, args)
    return 0 if kept else 1


def random_model(scratch: Path) -> Path:
    import tiny_models

    return tiny_models.save_gemma(scratch / "random", hidden=512, layers=12, words=24_000)


def shipped_model() -> Path | None:
    folder = ROOT / "resources" / "demo_model"
    if not (folder / "config.json").is_file():
        print("shipped: resources/demo_model is not in this tree; skipped")
        return None
    return folder


def question(tokens: int) -> Any:
    from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling

    rng = np.random.default_rng(5)
    parts: list[Any] = []
    for number in range(1, 5):
        pixels = np.repeat(rng.integers(0, 255, (144, 144, 1), dtype=np.uint8), 3, axis=2)
        parts += [f"SLICE {number}", Picture(pixels)]
    tool = {"type": "function", "function": {"name": "measure", "parameters": {}}}
    message = Message("user", (*parts, "What is the volume of the spleen in cm³?"))
    return Ask((message,), tools=(tool,), sampling=Sampling(max_new_tokens=tokens))


def compare(name: str, folder: Path, promised: float, args: argparse.Namespace) -> bool:
    from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

    ask = question(args.tokens)
    way = WorkerWay(WorkerSettings(folder, dtype="float32", device="cpu"))
    bare = Bare(folder, ask)
    try:
        walls: dict[str, list[float]] = {"worker": [], "bare": []}
        works: dict[str, list[float]] = {"worker": [], "bare": []}
        through(way, ask), bare.run()  # both are loaded and warm
        for pair in range(args.pairs):
            texts = set()
            for arm in ("worker", "bare") if pair % 2 else ("bare", "worker"):
                done = through(way, ask) if arm == "worker" else bare.run()
                walls[arm].append(done["tokens"] / done["seconds"])
                works[arm].append(done["tokens"] / done["processor_s"])
                texts.add(done["text"])
            if len(texts) != 1:
                raise SystemExit(f"{name}: the two texts differ: {texts}")
    finally:
        way.close()
        bare.close()
    print(
        f"{name}: {bare.parameters / 1e6:.1f} M parameters, {done['tokens']} tokens an answer, "
        f"{args.pairs} pairs, load {os.getloadavg()[0]:.1f}, promised {promised}"
    )
    report("wall time", walls)
    report("processor time", works)
    return ratio(walls) >= promised


def ratio(rates: dict[str, list[float]]) -> float:
    return statistics.median(rates["worker"]) / statistics.median(rates["bare"])


def report(what: str, rates: dict[str, list[float]]) -> None:
    worker, bare = (statistics.median(rates[arm]) for arm in ("worker", "bare"))
    pairs = [w / b for w, b in zip(rates["worker"], rates["bare"], strict=True)]
    print(
        f"  {what}: worker {worker:.1f} tokens/s, bare {bare:.1f}, ratio {worker / bare:.3f} "
        f"(pairs {min(pairs):.2f} to {max(pairs):.2f}, median {statistics.median(pairs):.3f})"
    )


def through(way: Any, ask: Any) -> dict[str, Any]:
    """Return tokens, times and text of one question through the worker."""
    from napari_ctvqa.core.events import Done, Usage

    before = way.state().get("processor_s", 0.0)
    begun, count, last = time.perf_counter(), 0, None
    for last in way.ask(ask, threading.Event()):
        if isinstance(last, Usage):
            count = last.new_tokens or 0
    seconds = time.perf_counter() - begun
    if not isinstance(last, Done):
        raise SystemExit(f"the worker failed: {last}")
    work = way.state()["processor_s"] - before
    return {"tokens": count, "seconds": seconds, "processor_s": work, "text": last.text}


class Bare:
    """The process that does without a worker; it is spoken to between the measurements alone."""

    def __init__(self, folder: Path, ask: Any) -> None:
        self._pictures = tempfile.TemporaryDirectory()
        files = []
        for number, picture in enumerate(ask.pictures):
            files.append(str(Path(self._pictures.name) / f"{number}.npy"))
            np.save(files[-1], picture.pixels)
        parts = [p if isinstance(p, str) else None for p in ask.messages[0].parts]
        wish = {
            "folder": str(folder),
            "parts": parts,
            "files": files,
            "tools": [dict(tool) for tool in ask.tools],
            "tokens": ask.sampling.max_new_tokens,
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--bare", json.dumps(wish)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.parameters = int(self._line()["parameters"])

    def run(self) -> dict[str, Any]:
        """Return tokens, times and text of the question, once more."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise SystemExit("the bare process ended")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pictures.cleanup()


def serve_bare(text: str) -> None:
    """Answer the question of ``text`` with plain transformers, once for each line on stdin."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from napari_ctvqa.runners import worker

    worker.step_back()  # other work on this machine must not hold up one arm alone
    wish = json.loads(text)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))  # as the worker
    processor = AutoProcessor.from_pretrained(wish["folder"])
    model = AutoModelForImageTextToText.from_pretrained(wish["folder"], dtype=torch.float32)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters())}), flush=True)
    for _ in sys.stdin:
        begun, work = time.perf_counter(), time.process_time()
        files = iter(wish["files"])
        content = [
            {"type": "image", "image": Image.fromarray(np.load(next(files)))}
            if part is None
            else {"type": "text", "text": part}
            for part in wish["parts"]
        ]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            tools=wish["tools"],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        with torch.no_grad():
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=wish["tokens"])
        new = tokens[0, inputs["input_ids"].shape[1] :].tolist()
        kept = new[:-1] if new[-1] == model.generation_config.eos_token_id else new
        answer = processor.tokenizer.decode(kept)
        done = {
            "tokens": len(new),
            "seconds": time.perf_counter() - begun,
            "processor_s": time.process_time() - work,
            "text": answer,
        }
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    sys.exit(main())
