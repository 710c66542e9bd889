"""What is learned of a server before it is trusted with a question, and how that is remembered."""

import base64
import io
import json
import threading

import numpy as np
import pytest
from fake_server import delta, error, event, finished, raw, serving, words
from PIL import Image
from test_server import TOOL, alone, events_of, picture, question  # noqa: F401

from napari_ctvqa.core.asking import Sampling
from napari_ctvqa.core.events import Done, Failed, FailureKind, Status, Warned
from napari_ctvqa.runners import server_probe
from napari_ctvqa.runners.server import ServerWay
from napari_ctvqa.runners.server_listing import models_of
from napari_ctvqa.runners.server_profile import (
    Kind,
    Pictures,
    Profile,
    Tools,
    forget_profile,
    kind_of,
    store_profile,
    stored_profile,
)

K = FailureKind


def number_on(part: dict) -> int:
    """Read the number by its pixels, as a model would, with the only knowledge of 900 pictures."""
    data = base64.b64decode(part["image_url"]["url"].partition(";base64,")[2])
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return next(n for n in range(100, 1000) if np.array_equal(server_probe.drawn(n), pixels))


class Model:
    """Answers "Left" to any question, and probes as its faults make it."""

    def __init__(self, *, reads=True, keeps=True, counts=True, tools="parsed", listed=("m",)):
        self.reads, self.keeps, self.counts = reads, keeps, counts
        self.tools, self.listed = tools, listed

    def __call__(self, received, connection):
        self.reply(received)(received, connection)

    def reply(self, received):
        if received.method == "GET":
            models = [
                {"id": name, "owned_by": "vllm", "max_model_len": 900} for name in self.listed
            ]
            return error(200, {"object": "list", "data": models})
        body = received.body
        content = body["messages"][-1]["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        shown = [p for p in parts if p["type"] == "image_url"] if self.keeps else []
        text = "".join(p["text"] for p in parts if p["type"] == "text")
        usage = {"prompt_tokens": 20 + 64 * len(shown), "completion_tokens": 2}
        if "report_number" in text:
            return self.call(body)
        answer = "Left"
        if "number is drawn" in text:
            answer = str(number_on(shown[0])) if shown and self.reads else "It is 42."
        return words(answer, **(usage if self.counts else {}))

    def call(self, body):
        if self.tools == "refused":
            return error(400, {"message": "tool choice requires --enable-auto-tool-choice"})
        if self.tools == "choice refused" and "tool_choice" in body:
            return error(400, {"error": {"message": "Unknown parameter: 'tool_choice'."}})
        if self.tools == "text":
            return words('<tool_call>{"name": "report_number", "arguments": {}}</tool_call>')
        if self.tools == "ignored":
            return words("Sure!")
        call = {"index": 0, "function": {"name": "report_number", "arguments": '{"number": 1}'}}
        last = event(finished("tool_calls"))
        return raw(200, "text/event-stream", event(delta(tool_calls=[call])), last)


def asked(model, *asks):
    """Return the way, the events of each ask, and how many requests there were."""
    with serving(model) as server:
        way = ServerWay(server.url, "m")
        events = [events_of(way, ask) for ask in asks or (question(picture()),)]
    return way, events, server.received


def test_the_numbers_are_all_different_pictures_of_black_on_white():
    pictures = {n: server_probe.drawn(n) for n in range(100, 1000)}
    assert len({p.tobytes() for p in pictures.values()}) == 900
    assert all(np.isin(p, (0, 255)).all() for p in pictures.values())
    assert all((p[:20] == 255).all() and (p[:, :20] == 255).all() for p in pictures.values())


def test_a_model_that_reads_the_number_is_trusted_and_asked_once():
    way, (first, second), received = asked(Model(), question(picture()), question(picture()))
    assert way.profile.pictures is Pictures.SEEN
    assert (way.profile.kind, way.profile.context) == (Kind.VLLM, 900)
    assert way.profile.usage is True
    assert [e for e in first if isinstance(e, Warned)] == []
    assert first[-1] == second[-1] == Done("Left")
    assert any("Checking" in e.text for e in first if isinstance(e, Status))
    # The list, the number, and the two questions.
    assert [r.method for r in received] == ["GET", "POST", "POST", "POST"]
    assert stored_profile(way.url, "m") == way.profile


def test_another_way_to_the_same_model_does_not_probe_again():
    with serving(Model()) as server:
        events_of(ServerWay(server.url, "m"), question(picture()))
        before = len(server.received)
        events_of(ServerWay(server.url, "m"), question(picture()))
        chats = [r for r in server.received[before:] if r.method == "POST"]
        assert len(chats) == 1
        events_of(ServerWay(server.url, "another"), question(picture()))
        assert len([r for r in server.received if r.method == "POST"]) == 2 + 1 + 2


def test_a_model_that_cannot_read_is_told_from_a_server_that_drops_pictures():
    way, ((*_, last),), _ = asked(Model(reads=False))
    assert way.profile.pictures is Pictures.COUNTED
    assert last == Done("Left")
    way, ((*_, last),), received = asked(Model(keeps=False))
    assert way.profile.pictures is Pictures.DROPPED
    assert isinstance(last, Failed)
    assert last.kind is K.PICTURES_DROPPED
    assert "without seeing the CT" in last.message
    assert not [r for r in received if r.method == "POST" and "Which side?" in str(r.body)]


def test_a_guess_does_not_pass_for_reading(monkeypatch):
    """Whatever number a blind model says, another one is drawn."""
    monkeypatch.setattr(server_probe.secrets, "randbelow", lambda n: 437)
    way, _, _ = asked(Model(keeps=False))
    assert way.profile.pictures is Pictures.DROPPED


def test_dropped_pictures_are_looked_for_again_when_the_server_was_mended():
    model = Model(keeps=False)
    with serving(model) as server:
        way = ServerWay(server.url, "m")
        assert isinstance(events_of(way, question(picture()))[-1], Failed)
        assert events_of(way, question())[-1] == Done("Left")
        model.keeps = True
        assert events_of(way, question(picture()))[-1] == Done("Left")
    assert way.profile.pictures is Pictures.SEEN


def test_where_it_cannot_be_told_the_answer_is_marked_each_time():
    for keeps in (True, False):
        asks = (question(picture()), question(picture()))
        way, answers, received = asked(Model(reads=False, keeps=keeps, counts=False), *asks)
        assert way.profile.pictures is Pictures.UNKNOWN
        assert way.profile.usage is False
        for events in answers:
            kinds = [e.kind for e in events if isinstance(e, Warned)]
            assert kinds == [K.PICTURES_DROPPED]
            assert events[-1] == Done("Left")
        assert len([r for r in received if r.method == "POST"]) == 3


def test_a_text_model_refuses_with_its_own_sentence():
    refusal = error(400, {"error": {"message": "m is not a multimodal model"}})
    with serving(error(404, "no list"), refusal) as server:
        *_, last = events_of(ServerWay(server.url, "m"), question(picture()))
    assert last.kind is K.PICTURES_DROPPED
    assert "takes no pictures" in last.message


@pytest.mark.parametrize(
    ("behaves", "tools"),
    [
        ("parsed", Tools.PARSED),
        ("choice refused", Tools.PARSED),
        ("text", Tools.IN_TEXT),
        ("ignored", Tools.IGNORED),
        ("refused", Tools.REFUSED),
    ],
)
def test_how_a_tool_call_comes_back_is_learned(behaves, tools):
    way, (events,), received = asked(Model(tools=behaves), question(tools=(TOOL,)))
    assert way.profile.tools is tools
    kinds = [e.kind for e in events if isinstance(e, Warned)]
    assert kinds == ([K.UNSUPPORTED_FIELD] if tools is Tools.IGNORED else [])
    assert "tool_choice" not in received[-1].body
    assert "Which side?" in str(received[-1].body)


def test_a_server_that_is_down_ends_the_ask_at_the_first_request():
    (failed,) = events_of(ServerWay("127.0.0.1:9", "m"), question(picture()))
    assert failed.kind is K.UNREACHABLE


def test_a_missing_model_is_told_with_the_names_that_there_are():
    def missing(received, connection):
        if received.method == "GET":
            return Model(listed=("qwen", "gemma"))(received, connection)
        message = "The model `m` does not exist."
        return error(404, {"error": {"message": message}})(received, connection)

    for ask in (question(), question(picture())):
        _, ((*_, failed),), _ = asked(missing, ask)
        assert failed.kind is K.NO_SUCH_MODEL
        assert "qwen, gemma" in failed.hint


def test_cancel_during_a_probe_ends_the_ask():
    cancelled = threading.Event()

    def cancels(received, connection):
        if received.method == "POST":
            cancelled.set()
        Model(reads=False)(received, connection)

    with serving(cancels) as server:
        way = ServerWay(server.url, "m")
        assert events_of(way, question(picture()), cancelled)[-1] == Done("", reason="cancelled")
    assert way.profile.pictures is Pictures.UNKNOWN


def test_a_probe_for_itself_says_what_it_learned():
    with serving(Model(tools="text")) as server:
        way = ServerWay(server.url, "m")
        *_, done = list(way.probe(threading.Event()))
    assert isinstance(done, Done)
    for word in ("vLLM", "pictures reach the model", "as text", "900 tokens", "checked 20"):
        assert word in done.text


def test_each_kind_of_server_is_recognised():
    def found(url, server="", owned_by="", **headers):
        models = [{"id": "m", "owned_by": owned_by}]
        return kind_of(url, {"server": server, **headers}, models)

    here = "http://127.0.0.1:8000/v1"
    assert found(here, "uvicorn", "vllm") is Kind.VLLM
    assert found(here, "uvicorn", "sglang") is Kind.SGLANG
    assert found(here, "llama.cpp", "llamacpp") is Kind.LLAMACPP
    assert found(here, "", "library") is Kind.OLLAMA
    assert found(here, "", "organization_owner") is Kind.LM_STUDIO
    assert found(here, "uvicorn", "local", **{"x-request-id": "1"}) is Kind.TRANSFORMERS
    assert found(here, "uvicorn", "local") is Kind.UNKNOWN
    assert found("http://127.0.0.1:11434/v1") is Kind.OLLAMA
    assert found("http://127.0.0.1:1234/v1") is Kind.LM_STUDIO
    assert found("https://api.openai.com/v1") is Kind.OPENAI
    assert found("https://api.anthropic.com/v1") is Kind.ANTHROPIC
    assert found("https://generativelanguage.googleapis.com/v1beta/openai") is Kind.GEMINI
    assert found("https://api.openai.com.evil.com/v1") is Kind.UNKNOWN


def sent_to(kind):
    """Return the body that goes to a kind of server, and what is said of it."""
    sampling = Sampling(max_new_tokens=9, temperature=0.7, top_k=20, repetition_penalty=1.2)
    ask = question(
        sampling=sampling,
        template={"enable_thinking": False},
        processor={"max_pixels": 9},
    )
    with serving(words("A")) as server:
        store_profile(Profile(server.url, "m", kind=kind))
        events = events_of(ServerWay(server.url, "m", probes=False), ask)
        told = " ".join(e.text for e in events if isinstance(e, Status))
        return server.last, told


def test_fields_beyond_the_standard_go_where_they_are_understood():
    body, told = sent_to(Kind.VLLM)
    assert (body["top_k"], body["repetition_penalty"]) == (20, 1.2)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["mm_processor_kwargs"] == {"max_pixels": 9}
    assert told == ""
    body, _ = sent_to(Kind.LLAMACPP)
    assert (body["top_k"], body["repeat_penalty"]) == (20, 1.2)
    body, told = sent_to(Kind.TRANSFORMERS)
    assert "top_k" not in body
    generation = json.loads(body["generation_config"])
    assert (generation["top_k"], generation["do_sample"]) == (20, True)
    assert "mm_processor_kwargs" in told
    body, told = sent_to(Kind.OPENAI)
    assert body["max_completion_tokens"] == 9
    assert not {"top_k", "repetition_penalty", "chat_template_kwargs", "max_tokens"} & set(body)
    assert "top_k" in told


def test_the_name_of_the_length_limit_is_learned():
    message = "Unsupported parameter: 'max_tokens' is not supported with this model."
    refusal = error(400, {"error": {"message": message, "param": "max_tokens"}})
    with serving(refusal, words("A")) as server:
        events = events_of(ServerWay(server.url, "m", probes=False))
    assert events[-1] == Done("A")
    assert server.last["max_completion_tokens"] == 512
    assert "max_tokens" not in server.last


@pytest.mark.parametrize(
    "stored",
    [
        *("{", "[]", '{"K": 3}', '{"K": {"kind": "other"}}'),
        *('{"K": {"kind": "vllm", "refused": 3}}', '{"K": {"kind": [], "pictures": {}}}'),
    ],
)
def test_a_broken_file_of_profiles_counts_as_unknown(stored, tmp_path):
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    file = folder / "server_profiles.json"
    file.write_text(stored.replace("K", "http://gpu7/v1 m"))
    profile = stored_profile("http://gpu7/v1", "m")
    assert profile.pictures is Pictures.UNKNOWN
    assert profile.refused == frozenset()
    store_profile(Profile("http://gpu7/v1", "m", pictures=Pictures.SEEN, kind=Kind.VLLM))
    assert stored_profile("http://gpu7/v1", "m").pictures is Pictures.SEEN


def test_a_profile_is_kept_whole_and_can_be_forgotten():
    profile = Profile(
        "http://gpu7/v1",
        "a model",
        kind=Kind.SGLANG,
        pictures=Pictures.COUNTED,
        tools=Tools.IN_TEXT,
        usage=True,
        refused=frozenset({"top_k", "seed"}),
        context=4096,
        checked="2031-02-03T04:05:06+00:00",
    )
    store_profile(profile)
    assert stored_profile("http://gpu7/v1", "a model") == profile
    forget_profile("http://gpu7/v1", "a model")
    assert stored_profile("http://gpu7/v1", "a model") == Profile("http://gpu7/v1", "a model")


def test_models_are_listed_with_what_the_server_says_of_them():
    with serving(Model(listed=("qwen", "gemma"))) as server:
        listing = models_of(server.url)
    assert listing.models == ("qwen", "gemma")
    assert listing.contexts == {"qwen": 900, "gemma": 900}
    assert listing.kind is Kind.VLLM
