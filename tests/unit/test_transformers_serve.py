"""A real ``transformers serve`` on loopback gives what the worker gives: texts, streams, calls."""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling
from napari_ctvqa.core.dialects import read_calls
from napari_ctvqa.core.events import Done, FailureKind, Tokens, Usage
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.runners.server import ServerWay
from napari_ctvqa.runners.server_listing import models_of
from napari_ctvqa.runners.server_profile import Kind, Pictures, Tools
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

NEEDED = ("torch", "torchvision", "transformers", "fastapi", "uvicorn", "openai")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: transformers[serving]"),
]
START_S = 300
CALL = ToolCall("measure", {"organ": "liver"})


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory):
    """No configuration, key or proxy of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        patch.delenv("NAPARI_CTVQA_API_KEY", raising=False)
        yield


@contextlib.contextmanager
def served(folder, log):
    """Serve a model folder; yield the address. The server's own words stand in the log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()"]
    command += ["serve", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--device", "cpu", "--dtype", "float32"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            _wait_for(port, process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _wait_for(port, process, log):
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"not listening after {START_S} s: {log.read_text()}")


class Both:
    """One model folder behind the two ways to run."""

    def __init__(self, folder, url):
        self.url = url
        self.server = ServerWay(url, str(folder))
        settings = WorkerSettings(folder, dtype="float32", device="cpu")
        self.worker = WorkerWay(settings)

    def answers(self, ask):
        """Return (Done of the server, Done of the worker), each with its text streamed."""
        return self.answer(self.server, ask), self.answer(self.worker, ask)

    def answer(self, way, ask):
        events = list(way.ask(ask, threading.Event()))
        done = events[-1]
        assert isinstance(done, Done), done
        streamed = "".join(e.text for e in events if isinstance(e, Tokens) and not e.thinking)
        assert streamed == done.text
        return done


@pytest.fixture(scope="module", params=["qwen", "gemma"])
def both(request, tmp_path_factory):
    import taught_models
    import tiny_models

    folder = tmp_path_factory.mktemp("models") / request.param
    if request.param == "qwen":
        taught_models.like_qwen(tiny_models.save_qwen(folder))
    else:
        tiny_models.save_gemma(folder)
    taught_models.teach(folder)
    with served(folder, folder.with_suffix(".log")) as url:
        made = Both(folder, url)
        made.family = request.param
        yield made
        made.worker.close()


def side_question(side, **more):
    import taught_models

    picture = Picture(taught_models.slice_with_spot(side), taught_models.LABEL)
    parts = (taught_models.LABEL, picture, taught_models.QUESTION)
    return Ask((Message("user", parts),), sampling=Sampling(max_new_tokens=12), **more)


def tool_question():
    import taught_models

    messages = (Message("user", (taught_models.TASK,)),)
    return Ask(messages, tools=(taught_models.TOOL,), sampling=Sampling(max_new_tokens=80))


def test_the_same_picture_gives_the_same_text_through_server_and_worker(both):
    for side, answer in (("left", "Left"), ("right", "Right")):
        by_server, by_worker = both.answers(side_question(side))
        assert by_server.text == by_worker.text == answer
        assert by_server.reason == by_worker.reason == "stop"


def test_pictures_that_were_never_learned_give_the_same_text_too(both):
    """Of other sizes, several at once: a difference in the pixels would tip some of the answers."""
    rng = np.random.default_rng(5)
    said = set()
    for number in range(12):
        shapes = rng.integers(40, 130, (1 + number % 3, 2))
        pictures = [Picture(rng.integers(0, 255, (*hw, 3), dtype=np.uint8)) for hw in shapes]
        parts = [part for i, p in enumerate(pictures, 1) for part in (f"SLICE {i}", p)]
        ask = Ask((Message("user", (*parts, "Which?")),), sampling=Sampling(max_new_tokens=30))
        by_server, by_worker = both.answers(ask)
        assert by_server.text == by_worker.text
        said.add(by_worker.text)
    assert len(said) > 1


def test_a_tool_call_arrives_by_the_servers_parser_or_in_the_text(both):
    by_server, by_worker = both.answers(tool_question())
    assert read_calls("hermes", by_worker.text).calls == (CALL,)
    if both.family == "qwen":
        assert by_server.calls == (CALL,)
        assert by_server.reason == "tool_calls"
        assert both.server.profile.tools in (Tools.PARSED, Tools.IGNORED)
    else:
        assert by_server.calls == ()
        assert read_calls("hermes", by_server.text).calls == (CALL,)


def test_what_is_learned_of_the_server(both):
    listing = models_of(both.url)
    assert listing.kind is Kind.TRANSFORMERS
    assert both.server.model in listing.models
    both.answer(both.server, side_question("left"))
    # A model that never saw a digit cannot read one; the prompt shows that the picture arrived.
    assert both.server.profile.pictures is Pictures.COUNTED


def test_usage_is_counted(both):
    events = list(both.server.ask(side_question("left"), threading.Event()))
    (usage,) = [e for e in events if isinstance(e, Usage)]
    assert usage.prompt_tokens > 16
    assert usage.new_tokens >= 1


def test_fields_beyond_the_standard_are_taken(both):
    sampling = Sampling(max_new_tokens=12, top_k=5, repetition_penalty=1.0, stop=("###",))
    ask = side_question("left", template={"thinking": False})
    done = both.answer(both.server, Ask(ask.messages, sampling=sampling, template=ask.template))
    assert done.text == "Left"
    assert both.server.profile.refused == frozenset()


def test_a_temperature_draws(both):
    def drawn(seed):
        sampling = Sampling(max_new_tokens=30, temperature=5.0, seed=seed)
        return both.answer(both.server, Ask(side_question("left").messages, sampling=sampling)).text

    first = drawn(1)
    assert drawn(1) == first
    assert any(drawn(seed) != first for seed in (2, 3, 4))


def test_cancel_stops_the_server_and_the_next_ask_works(both):
    def cancelled_early(seed):
        """Cancel at the first words; an answer that was over by then cannot be cancelled."""
        cancelled = threading.Event()
        sampling = Sampling(max_new_tokens=4000, temperature=5.0, seed=seed)
        ask = Ask(side_question("left").messages, sampling=sampling)
        for event in both.server.ask(ask, cancelled):
            if isinstance(event, Tokens):
                cancelled.set()
        return event.reason == "cancelled"

    assert any(cancelled_early(seed) for seed in range(8))
    assert both.answer(both.server, side_question("right")).text == "Right"


def test_another_model_is_refused_with_its_sentence(both):
    other = ServerWay(both.url, "/no/such/model")
    failed = list(other.ask(side_question("left"), threading.Event()))[-1]
    assert failed.kind is FailureKind.NO_SUCH_MODEL
    assert both.server.model in failed.hint
    assert both.answer(both.server, side_question("left")).text == "Left"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = Path(__file__).resolve().parents[2] / "resources" / "demo_model"
    if not (folder / "config.json").is_file():
        pytest.skip("resources/demo_model has not been built")
    with served(folder, tmp_path_factory.mktemp("logs") / "shipped.log") as url:
        made = Both(folder, url)
        yield made
        made.worker.close()


def body(spot_column, row=72):
    """Return a slice (rows, columns, 3): a grey ellipse with a bright spine and a dark spot."""
    rows, columns = np.mgrid[:144, :144]
    pixels = np.full((144, 144), 10, np.uint8)
    pixels[((rows - 72) / 50) ** 2 + ((columns - 72) / 64) ** 2 < 1] = 130
    pixels[(rows - 105) ** 2 + (columns - 72) ** 2 < 60] = 240
    pixels[(rows - row) ** 2 + (columns - spot_column) ** 2 < 40] = 40
    return Picture(np.repeat(pixels[..., None], 3, axis=2))


@pytest.mark.parametrize(
    "question",
    ["On which side is the kidney lesion?", "Is there a lesion in the liver?", "Find the lesion."],
)
def test_the_shipped_model_says_the_same_through_server_and_worker(shipped, question):
    import taught_models

    for columns in ((40,), (104, 40), (72, 100, 110, 30)):
        pictures = [body(column) for column in columns]
        parts = [part for i, p in enumerate(pictures, 1) for part in (p, f"SLICE {i}")]
        messages = (Message("user", (*parts, question)),)
        for tools in ((), (taught_models.TOOL,)):
            ask = Ask(messages, tools=tools, sampling=Sampling(max_new_tokens=60))
            by_server, by_worker = shipped.answers(ask)
            assert by_server.text == by_worker.text
            assert by_server.text
