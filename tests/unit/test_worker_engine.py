"""The parts of the engine that need no model: text from tokens, stops, memory, other Pythons."""

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import venv
from pathlib import Path

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message
from napari_ctvqa.core.events import Done, FailureKind
from napari_ctvqa.runners import (
    worker,
    worker_decoding,
    worker_engine,
    worker_odds,
    worker_volumes,
)
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

STAND_IN = Path(__file__).resolve().parents[1] / "stand_in_engine.py"
TEXT = "größer 12 µm³ 肝臓の病変 🫁🧠 <tool_call>{}</tool_call> κύστη \ufffd end"


def as_bytes(tokens):
    """A byte-level tokenizer at its worst: every byte is a token."""
    return bytes(tokens).decode("utf-8", "replace")


def as_words(tokens):
    """A tokenizer like SentencePiece's: the space before the first word is dropped."""
    return "".join(WORDS[token] for token in tokens).removeprefix(" ")


WORDS = [" the", " li", "ver", ",", " is", " 12", " mm", "."]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("decode", [as_bytes, as_words])
def test_pieces_of_text_join_to_the_whole(decode, seed):
    draw = random.Random(seed)
    tokens = list(TEXT.encode()) if decode is as_bytes else draw.choices(range(8), k=100)
    detokeniser, pieces, position = worker_engine.Detokeniser(decode), [], 0
    while position < len(tokens):
        count = draw.randint(1, 5)
        detokeniser.add(tokens[position : position + count])
        position += count
        pieces.append(detokeniser.piece())
    pieces.append(detokeniser.piece(last=True))
    assert "".join(pieces) == decode(tokens)
    assert len([piece for piece in pieces if piece]) > 10


def test_no_piece_ends_within_a_letter():
    detokeniser = worker_engine.Detokeniser(as_bytes)
    for byte in "肝".encode()[:-1]:
        detokeniser.add([byte])
        assert detokeniser.piece() == ""
    detokeniser.add(["肝".encode()[-1]])
    assert detokeniser.piece() == "肝"


class Heard:
    """A talk that keeps what is said."""

    def __init__(self):
        self.texts = []

    def event(self, event, **content):
        assert event == "tokens"
        self.texts.append(content["text"])


class Clock:
    """Time that stands still unless moved."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(worker_engine.time, "monotonic", lambda: self.now)


def stream(text, monkeypatch, *, step_s, stops=(), ends=frozenset()):
    clock, heard = Clock(monkeypatch), Heard()
    stream = worker_engine.Stream(as_bytes, heard, set(ends), list(stops))
    stream.put([0, 0])  # the prompt
    for byte in text.encode():
        clock.now += step_s
        stream.put(byte)
        if stream.stopped:
            break
    stream.end()
    return stream, heard


def test_text_is_sent_thirty_times_a_second_at_most(monkeypatch):
    text = "word " * 200
    _, heard = stream(text, monkeypatch, step_s=0.001)
    assert "".join(heard.texts) == text
    assert 25 <= len(heard.texts) <= 32  # 1000 tokens took one second


def test_a_slow_model_is_heard_token_by_token(monkeypatch):
    _, heard = stream("slow", monkeypatch, step_s=1.0)
    assert heard.texts == ["s", "l", "o", "w"]


def test_the_end_mark_is_no_text(monkeypatch):
    made, heard = stream("Yes.\x03", monkeypatch, step_s=0.001, ends={3})
    assert made.text == "".join(heard.texts) == "Yes."
    assert (made.tokens, made.last_token) == (5, 3)


@pytest.mark.parametrize("step_s", [0.001, 0.02, 1.0])
@pytest.mark.parametrize("stop", ["</tool_call>", "x", "Yes"])
def test_text_ends_before_a_stop(monkeypatch, step_s, stop):
    text = "Yes, I call <tool_call>{x}</tool_call> and then I go on and on " * 3
    made, heard = stream(text, monkeypatch, step_s=step_s, stops=[stop, "never there"])
    if step_s > worker_engine.BATCH_S and stop == "</tool_call>":
        # Token by token the first letters of a stop are sent before it is known to be one.
        assert made.text.startswith(text[: text.find(stop)])
    else:
        assert text.startswith(made.text)
    assert made.stopped
    assert stop not in made.text
    assert made.text == "".join(heard.texts)


@pytest.fixture
def folder(tmp_path):
    """A model folder of 8 MB in bfloat16."""
    config = {
        "model_type": "gemma3",
        "dtype": "bfloat16",
        "text_config": {
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 64,
            "head_dim": 32,
        },
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    for number in range(2):
        (tmp_path / f"model-{number}.safetensors").write_bytes(bytes(4_000_000))
    return tmp_path


@pytest.mark.parametrize(("dtype", "size"), [("bfloat16", 2), ("float16", 2), ("float32", 4)])
def test_memory_needed(folder, dtype, size):
    cache = 2 * 2 * 2 * 32 * size * 1000  # keys and values, layers, groups, width, bytes, tokens
    weights = 8_000_000 * size / 2 * 1.2
    assert worker_engine.needed_bytes(folder, dtype, 1000) == pytest.approx(weights + cache)


def test_free_memory_is_a_part_of_what_there_is():
    free = worker_engine.free_memory_bytes()
    if not Path("/proc/meminfo").exists():
        assert free is None
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free <= total


def test_one_core_is_left_free():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert worker_engine.usable_threads() == max(1, cores - 1)


@pytest.mark.parametrize(
    "module", [worker, worker_engine, worker_decoding, worker_odds, worker_volumes]
)
def test_the_worker_is_python_3_9_and_the_standard_library(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
    at_import = [
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert {name.split(".")[0] for name in at_import} <= sys.stdlib_module_names
    assert any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
    )


@pytest.fixture(scope="module")
def numpy_alone(tmp_path_factory):
    """The Python of an environment that holds numpy and nothing else, not even pip."""
    folder = tmp_path_factory.mktemp("numpy") / "env"
    venv.create(folder, with_pip=False, symlinks=os.name == "posix")
    home = Path(np.__file__).parents[1]
    (site,) = folder.glob("[lL]ib/**/site-packages")
    for name in ("numpy", "numpy.libs"):
        if (home / name).exists():
            (site / name).symlink_to(home / name)
    (python,) = [*folder.glob("bin/python"), *folder.glob("Scripts/python.exe")]
    found = subprocess.run(
        [python, "-c", "import numpy, importlib.util as u; print(u.find_spec('napari_ctvqa'))"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        timeout=120,
    )
    assert found.stdout == "None\n", found.stderr
    return str(python)


def ask(way, text):
    return list(way.ask(Ask((Message("user", (text,)),)), threading.Event()))


def test_the_worker_runs_where_only_numpy_is(numpy_alone, tmp_path):
    way = WorkerWay(WorkerSettings(tmp_path, interpreter=numpy_alone, engine=STAND_IN))
    try:
        assert ask(way, "echo here")[-1] == Done("here")
    finally:
        way.close()


def pythons():
    """Other Pythons of this machine, 3.9 and newer: on the path, or pyenv's."""
    versions = [f"3.{minor}" for minor in range(9, 15)]
    found = {v: shutil.which(f"python{v}") for v in versions}
    for version in versions:
        for python in (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"):
            found[version] = str(python)
    return sorted(python for python in found.values() if python)


def test_the_worker_runs_in_other_pythons(tmp_path):
    """Also in one that has no numpy: nothing needs it before a picture comes."""
    ran = []
    for python in pythons():
        # A shim of a version manager may name a version that is not installed.
        if subprocess.run([python, "-c", ""], capture_output=True, timeout=60).returncode != 0:
            continue
        way = WorkerWay(WorkerSettings(tmp_path, interpreter=python, engine=STAND_IN))
        try:
            assert ask(way, "words 3")[-1] == Done("0 1 2 "), python
        finally:
            way.close()
        for module in (worker_engine, worker_decoding, worker_odds):
            real = [python, "-c", f"import runpy; runpy.run_path({module.__file__!r})"]
            assert subprocess.run(real, timeout=60).returncode == 0, python
        ran.append(python)
    if not ran:
        pytest.skip("needs another Python from 3.9 on: none is on the path")


def test_there_it_says_that_torch_is_missing(numpy_alone, tmp_path):
    way = WorkerWay(WorkerSettings(tmp_path, interpreter=numpy_alone))
    last = ask(way, "a question")[-1]
    assert last.kind is FailureKind.MISSING_LIBRARY
    assert numpy_alone in last.message
    assert "-m pip install torch torchvision transformers accelerate" in last.hint
    assert way.pid is None
