"""One look at the worker on a graphics card: a random model of Qwen3-VL-4B's shape, 32 slices.

Prints how long the slices take to read (prefill), tokens per second against a bare ``generate`` in
a process without a worker, the most memory taken, and how late a 60 Hz clock in the asking process
came meanwhile and at rest. Without a CUDA device it says so and ends. ``--rehearse`` runs the same
steps on the CPU with a tiny model. See timings/README.md.
"""

from __future__ import annotations

import argparse
import json
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

SHAPE_4B: dict[str, Any] = {
    "text": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20]},
        "tie_word_embeddings": True,
    },
    "vision": {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "out_hidden_size": 2560,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [5, 11, 17],
    },
    "words": 151_936,
    "most_pixels": 512 * 512,
}
SLICES, SIZE_PX = 32, 512
TICK_S = 1 / 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rehearse", action="store_true", help="tiny model on the CPU")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    why = "" if args.rehearse else reason_to_skip()
    if why:
        print(f"skipped: {why}")
        return 0
    if args.build:
        build(Path(args.build), rehearse=args.rehearse)
        return 0
    if args.bare:
        bare(Path(args.bare[0]), Path(args.bare[1]), args)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        # In a process of its own, so that this one, which asks, holds nothing on the card.
        call(["--build", scratch], args)
        look(Path(scratch), args)
    return 0


def reason_to_skip() -> str:
    try:
        import torch
        import torchvision  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        return f"{sys.executable} has no {error.name}: install the extra `local`"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no CUDA device on this machine"
    free, total = torch.cuda.mem_get_info()
    if free < 14e9:
        return f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free on the card, it takes 14"
    return ""


def call(options: list[str], args: argparse.Namespace) -> str:
    command = [sys.executable, __file__, *options, "--tokens", str(args.tokens)]
    command += ["--rounds", str(args.rounds)] + ["--rehearse"] * args.rehearse
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(folder: Path, *, rehearse: bool) -> None:
    import tiny_models
    import torch

    shape = {"most_pixels": 64 * 64} if rehearse else SHAPE_4B
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cpu" if rehearse else "cuda"):
        tiny_models.save_qwen(folder / "model", **shape)


def question(folder: Path, args: argparse.Namespace) -> Any:
    from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling

    count, size = (4, 64) if args.rehearse else (SLICES, SIZE_PX)
    rng = np.random.default_rng(3)
    parts: list[Any] = []
    for number in range(1, count + 1):
        pixels = rng.integers(0, 255, (size, size, 3), dtype=np.uint8)
        np.save(folder / f"slice_{number}.npy", pixels)
        parts += [f"SLICE {number}", Picture(pixels)]
    message = Message("user", (*parts, "Is there a lesion in the liver?"))
    return Ask((message,), sampling=Sampling(max_new_tokens=args.tokens))


def look(folder: Path, args: argparse.Namespace) -> None:
    from napari_ctvqa.core.events import Done, Failed
    from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

    ask = question(folder, args)
    device = "cpu" if args.rehearse else "cuda"
    way = WorkerWay(WorkerSettings(folder / "model", device=device, dtype="bfloat16"))
    late: list[float] = []
    with Clock() as rest:
        time.sleep(3)
    try:
        begun = time.perf_counter()
        runs = []
        for number in range(args.rounds + 1):  # the first one warms up, and loads the model
            with Clock() as clock:
                events = list(way.ask(ask, threading.Event()))
            if isinstance(events[-1], Failed):
                raise SystemExit(f"the worker failed: {events[-1]}")
            assert isinstance(events[-1], Done)
            if number:
                runs.append(speed(events))
                late += clock.late_ms
        loaded, state = dict(way.loaded), dict(way.state())
    finally:
        way.close()
    print(f"device: {state.get('device_name', device)}, torch {loaded['torch']}")
    print(
        f"model: {loaded['needed_bytes'] / 1e9:.1f} GB estimated, loaded {loaded['seconds']:.1f} s"
    )
    print(f"all of it: {time.perf_counter() - begun:.0f} s")
    if "peak_bytes" in state:
        print(f"peak memory of the card: {state['peak_bytes'] / 1e9:.1f} GB")
    alone = json.loads(call(["--bare", str(folder / "model"), str(folder)], args).splitlines()[-1])
    prefill = float(np.median([run["prefill_s"] for run in runs]))
    rate = float(np.median([run["rate"] for run in runs]))
    print(f"prompt: {runs[0]['prompt']} tokens; answer: {runs[0]['new']}")
    print(f"prefill: worker {prefill:.2f} s, bare {alone['prefill_s']:.2f} s")
    print(f"tokens/s: worker {rate:.1f}, bare {alone['rate']:.1f}, {rate / alone['rate']:.3f}")
    print("60 Hz clock of the asking process, late by")
    for what, times in (("at rest", rest.late_ms), ("model at work", late)):
        parts = (np.median(times), np.percentile(times, 99), max(times))
        print("  {}: {:.2f} ms median, {:.2f} p99, {:.2f} most".format(what, *parts))


def speed(events: list[Any]) -> dict[str, float]:
    from napari_ctvqa.core.events import Usage

    (usage,) = (event for event in events if isinstance(event, Usage))
    after = usage.seconds - usage.first_token_s
    return {
        "prompt": usage.prompt_tokens,
        "new": usage.new_tokens,
        "prefill_s": usage.first_token_s,
        "rate": (usage.new_tokens - 1) / after,
    }


class Clock:
    """Notes how late a 60 Hz clock of this process's other thread comes."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Clock:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.perf_counter() + TICK_S
        while not self._over.wait(max(0.0, due - time.perf_counter())):
            now = time.perf_counter()
            self.late_ms.append(1000 * (now - due))
            due = now + TICK_S


def bare(model_folder: Path, pictures: Path, args: argparse.Namespace) -> None:
    """Answer the same question with plain transformers; print prefill and tokens per second."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from napari_ctvqa.runners import worker

    worker.step_back()  # other work on this machine must not hold up one arm alone
    device = "cpu" if args.rehearse else "cuda:0"
    processor = AutoProcessor.from_pretrained(model_folder)
    model = AutoModelForImageTextToText.from_pretrained(
        model_folder, dtype=torch.bfloat16, device_map=None if args.rehearse else {"": device}
    )
    count = len(list(pictures.glob("slice_*.npy")))
    content: list[dict[str, Any]] = []
    prefills, rates = [], []
    for number in range(1, count + 1):
        pixels = np.load(pictures / f"slice_{number}.npy")
        content.append({"type": "text", "text": f"SLICE {number}"})
        content.append({"type": "image", "image": Image.fromarray(pixels)})
    content.append({"type": "text", "text": "Is there a lesion in the liver?"})
    for number in range(args.rounds + 1):
        begun = time.perf_counter()
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        ).to(device, dtype=torch.bfloat16)
        read = time.perf_counter()
        with torch.no_grad():
            model.generate(**inputs, do_sample=False, max_new_tokens=1)
            first = time.perf_counter()
            model.generate(**inputs, do_sample=False, max_new_tokens=args.tokens)
            last = time.perf_counter()
        if number:  # the first one warms up
            prefills.append(first - begun)
            # The second call reads the prompt again; what it takes longer are the other tokens.
            rates.append((args.tokens - 1) / ((last - first) - (first - read)))
    median = {"prefill_s": float(np.median(prefills)), "rate": float(np.median(rates))}
    print(json.dumps(median))


if __name__ == "__main__":
    sys.exit(main())
