"""Asking a model on a server: what is sent, what is read, and how it is left."""

import base64
import io
import json
import threading
import time

import numpy as np
import pytest
from fake_server import (
    DONE,
    chunked,
    delta,
    error,
    event,
    finished,
    raw,
    serving,
    silent_after,
    words,
)
from PIL import Image

from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling
from napari_ctvqa.core.events import Done, Failed, FailureKind, Status, Tokens, Usage, Warned
from napari_ctvqa.core.ports import Way
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.runners._chat_body import chat_body
from napari_ctvqa.runners.server import Limits, ServerWay
from napari_ctvqa.runners.server_profile import Kind, Profile

TOOL = {"type": "function", "function": {"name": "side", "parameters": {"type": "object"}}}


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No configuration, key or proxy of whoever runs the tests."""
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("NAPARI_CTVQA_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def picture(value: int = 0, label: str = "") -> Picture:
    pixels = np.zeros((8, 6, 3), np.uint8)
    pixels[2, 3] = (255, value, 7)
    return Picture(pixels, label)


def question(*parts, **fields) -> Ask:
    return Ask((Message("user", parts or ("Which side?",)),), **fields)


def plain_way(url: str, model: str, **more) -> ServerWay:
    """A way to run that sends the ask and nothing before it."""
    return ServerWay(url, model, probes=False, **more)


def events_of(way: ServerWay, ask: Ask | None = None, cancelled: threading.Event | None = None):
    return list(way.ask(ask or question(), cancelled or threading.Event()))


def end_of(way: ServerWay, ask: Ask | None = None):
    *before, last = events_of(way, ask)
    assert not [e for e in before if isinstance(e, Done | Failed)]
    return last


def test_an_answer_is_streamed_counted_and_ended():
    with serving(words("Le", "ft", prompt_tokens=30, completion_tokens=2)) as server:
        events = events_of(plain_way(server.url, "m"))
    assert "".join(e.text for e in events if isinstance(e, Tokens)) == "Left"
    usage = next(e for e in events if isinstance(e, Usage))
    assert (usage.prompt_tokens, usage.new_tokens) == (30, 2)
    assert 0 <= usage.first_token_s <= usage.seconds
    assert events[-1] == Done("Left")


def test_it_is_a_way_to_run_and_names_its_host():
    way: Way = plain_way("gpu7:8000", "Qwen/Qwen3-VL-8B-Instruct")
    assert way.title == "http://gpu7:8000/v1, Qwen/Qwen3-VL-8B-Instruct"
    assert way.host == "gpu7"
    assert ServerWay("http://localhost:8000", "m").host == ""


def decoded(part: dict) -> np.ndarray:
    kind, _, data = part["image_url"]["url"].partition(";base64,")
    assert kind == "data:image/png"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def test_pictures_and_labels_are_sent_in_order_pixel_for_pixel():
    grey = Picture(np.repeat(np.arange(48, dtype=np.uint8).reshape(8, 6, 1), 3, axis=2))
    colour = picture(200)
    ask = question("SLICE 1", grey, "SLICE 2", colour, "Which side?")
    with serving(words("Left")) as server:
        end_of(plain_way(server.url, "m"), ask)
        parts = server.last["messages"][0]["content"]
    assert [p["type"] for p in parts] == ["text", "image_url", "text", "image_url", "text"]
    assert [p["text"] for p in parts if "text" in p] == ["SLICE 1", "SLICE 2", "Which side?"]
    np.testing.assert_array_equal(decoded(parts[1]), grey.pixels)
    np.testing.assert_array_equal(decoded(parts[3]), colour.pixels)


def test_pictures_that_are_too_much_as_png_go_as_good_jpeg_and_it_is_said(monkeypatch):
    from napari_ctvqa.runners import _chat_body

    monkeypatch.setattr(_chat_body, "_PNG_BYTES_AT_MOST", 1000)
    shades = np.add.outer(np.arange(128), np.arange(96)).astype(np.uint8)
    smooth = Picture(np.stack([shades, shades // 2, 255 - shades], axis=-1))
    with serving(words("Left")) as server:
        events = events_of(plain_way(server.url, "m"), question("SLICE 1", smooth))
        url = server.last["messages"][0]["content"][1]["image_url"]["url"]
    assert any("JPEG" in e.text for e in events if isinstance(e, Status))
    kind, _, data = url.partition(";base64,")
    assert kind == "data:image/jpeg"
    sent = np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))).astype(int)
    assert sent.shape == smooth.pixels.shape
    assert np.abs(sent - smooth.pixels).mean() < 2


def test_an_agents_pictures_are_encoded_once(monkeypatch):
    from napari_ctvqa.runners import _chat_body

    encoded = []
    png = _chat_body._png
    monkeypatch.setattr(_chat_body, "_png", lambda p: encoded.append(p) or png(p))
    shown = picture()
    with serving(words("Left")) as server:
        way = plain_way(server.url, "m")
        for _ in range(3):
            end_of(way, question(shown, "Which side?"))
    assert encoded == [shown]


def test_another_client_reads_the_fake_server_alike():
    openai = pytest.importorskip("openai", reason="an independent client, where it is installed")
    with serving(words("Le", "ft", prompt_tokens=3, completion_tokens=2)) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        stream = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "?"}], stream=True
        )
        chunks = [chunk for chunk in stream if chunk.choices]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Left"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.prompt_tokens == 3


def test_text_alone_is_sent_as_plain_text():
    ask = Ask((Message("system", ("Be brief.",)), Message("user", ("Is", "it?"))))
    with serving(words("Yes")) as server:
        end_of(plain_way(server.url, "m"), ask)
    assert server.last["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is\nit?"},
    ]


def test_calls_keep_their_ids_and_a_tools_pictures_follow_as_a_user_turn():
    ask = Ask(
        (
            Message("user", ("Which side?",)),
            Message(
                "assistant",
                ("I look.",),
                calls=(ToolCall("side", {"of": "liver"}), ToolCall("crop", {})),
            ),
            Message("tool", ('{"side": "right"}',), tool="side", call_id="abc"),
            Message("tool", ("done", picture()), tool="crop"),
            Message("user", ("Answer now.",)),
        ),
        tools=(TOOL,),
    )
    with serving(words("Right")) as server:
        end_of(plain_way(server.url, "m"), ask)
    _, assistant, first, second, shown, last = server.last["messages"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert ids[0] == "abc"
    assert ids[1].isalnum()
    assert len(ids[1]) == 9
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"of": "liver"}
    assert first == {"role": "tool", "tool_call_id": "abc", "content": '{"side": "right"}'}
    assert second == {"role": "tool", "tool_call_id": ids[1], "content": "done"}
    assert shown["role"] == "user"
    assert [part["type"] for part in shown["content"]] == ["image_url"]
    assert last == {"role": "user", "content": "Answer now."}
    assert server.last["tools"] == [TOOL]


def test_sampling_is_sent_under_the_names_of_the_protocol():
    sampling = Sampling(max_new_tokens=7, temperature=0.5, top_p=0.9, seed=3, stop=("###",))
    with serving(words("A")) as server:
        end_of(plain_way(server.url, "m"), question(sampling=sampling))
    sent = server.last
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert {
        name: sent[name] for name in ("max_tokens", "temperature", "top_p", "seed", "stop")
    } == {
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "stop": ["###"],
    }
    assert "top_k" not in sent


def test_a_field_that_is_refused_is_left_out_told_and_remembered():
    refusal = error(422, {"detail": "Unexpected fields in the request: {'top_k'}"})
    ask = question(sampling=Sampling(top_k=20))
    with serving(refusal, words("A"), words("B")) as server:
        events = events_of(plain_way(server.url, "m"), ask)
        again = end_of(plain_way(server.url, "m"), ask)
    assert events[-1] == Done("A")
    assert any("top_k" in e.text for e in events if isinstance(e, Status))
    assert ["top_k" in r.body for r in server.received] == [True, False, False]
    assert again == Done("B")


CALLED = (
    Message("user", ("Which side?",)),
    Message("assistant", ("",), calls=(ToolCall("side", {}),)),
    Message("tool", ("left",), tool="side", call_id="c1"),
    Message("user", ("Answer now, without a tool.",)),
)
TOOLS_MISSED = (
    "Requests which include `tool_use` or `tool_result` blocks must define `tools`.",
    "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    "This model expects the `tools` param if tool calls are in the conversation.",
)


@pytest.mark.parametrize("said", TOOLS_MISSED)
def test_a_server_that_wants_called_tools_listed_is_given_them_closed(said):
    """The last turn of an agent: Anthropic's service refuses tool calls without tools."""
    ask = Ask(CALLED, closed_tools=(TOOL,))
    refusal = error(400, {"error": {"type": "invalid_request_error", "message": said}})
    with serving(refusal, words("Left"), words("Left again")) as server:
        events = events_of(plain_way(server.url, "m"), ask)
        again = end_of(plain_way(server.url, "m"), ask)
    assert events[-1] == Done("Left")
    assert any("tools listed" in e.text for e in events if isinstance(e, Status))
    first, second, third = (r.body for r in server.received)
    assert "tools" not in first and "tool_choice" not in first
    for sent in (second, third):  # remembered, so that nothing is refused again
        assert sent["tools"] == [TOOL] and sent["tool_choice"] == "none"
    assert again == Done("Left again")


def test_tools_that_were_called_are_listed_for_nobody_else():
    with serving(error(400, {"error": {"message": TOOLS_MISSED[0]}}), words("Left")) as server:
        assert isinstance(end_of(plain_way(server.url, "m"), Ask(CALLED)), Failed)
        end_of(plain_way(server.url, "m"), Ask(CALLED, closed_tools=(TOOL,)))
    assert ["tools" in r.body for r in server.received] == [False, False]


def test_anthropics_service_is_given_them_at_once():
    profile = Profile("https://api.anthropic.com/v1", "m", kind=Kind.ANTHROPIC)
    fields = chat_body(Ask(CALLED, closed_tools=(TOOL,)), profile, {}).fields
    assert fields["tools"] == [TOOL] and fields["tool_choice"] == "none"
    assert "tools" not in chat_body(Ask(CALLED[:1]), profile, {}).fields
    offered = chat_body(Ask(CALLED, tools=(TOOL,)), profile, {}).fields
    assert "tool_choice" not in offered


@pytest.mark.parametrize(
    ("begun", "head"), [(b"", False), (b"", True), (event(delta(content="Left, beca")), True)]
)
def test_cancel_ends_at_once_keeps_the_text_and_closes_the_connection(begun, head):
    cancelled, events = threading.Event(), []
    with serving(silent_after(begun, head=head)) as server:
        for event_ in plain_way(server.url, "m").ask(question(), cancelled):
            events.append(event_)
            # The first word, or the first notice that none has come yet.
            cancelled.set()
        assert server.received[0].gone.wait(5)
    assert events[-1] == Done("Left, beca" if begun else "", reason="cancelled")


def test_cancel_is_seen_while_nothing_comes():
    cancelled = threading.Event()
    with serving(silent_after(head=False)) as server:
        asked = plain_way(server.url, "m").ask(question(), cancelled)
        threading.Thread(target=lambda: server.arrived.wait(20) and cancelled.set()).start()
        assert list(asked)[-1] == Done("", reason="cancelled")
        assert server.received[0].gone.wait(5)


def test_leaving_the_iteration_closes_the_connection():
    with serving(silent_after(event(delta(content="Left")))) as server:
        answer = plain_way(server.url, "m").ask(question(), threading.Event())
        assert next(answer) == Tokens("Left")
        answer.close()
        assert server.received[0].gone.wait(2)


def test_silence_before_and_within_the_answer_is_a_timeout_with_the_text_kept():
    for begun, partial in ((b"", ""), (event(delta(content="Le")), "Le")):
        limits = Limits(first_token_s=30 if begun else 0.5, next_token_s=0.5)
        with serving(silent_after(begun), words("Left")) as server:
            failed = end_of(plain_way(server.url, "m", limits=limits))
            assert (failed.kind, failed.partial) == (FailureKind.TIMEOUT, partial)
            assert end_of(plain_way(server.url, "m")) == Done("Left")


def test_comments_do_not_count_as_an_answer():
    def ping_for_ever(received, connection):
        connection.sendall(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:
            connection.sendall(b": ping\n\n")
            time.sleep(0.01)

    limits = Limits(first_token_s=0.3, next_token_s=0.3)
    with serving(ping_for_ever) as server:
        assert end_of(plain_way(server.url, "m", limits=limits)).kind is FailureKind.TIMEOUT


def test_thinking_that_comes_apart_is_no_part_of_the_answer():
    pieces = [
        event(delta(reasoning_content="Is it ")),
        event(delta(reasoning="left?")),
        event(delta(content="Left")),
        event(finished()),
    ]
    with serving(raw(200, "text/event-stream", *pieces)) as server:
        events = events_of(plain_way(server.url, "m"))
    assert events[-1] == Done("Left", thinking="Is it left?")
    thought = [e.text for e in events if isinstance(e, Tokens) and e.thinking]
    assert "".join(thought) == "Is it left?"


def test_tool_calls_are_put_together_from_their_pieces():
    def call(index, **function):
        return event(delta(tool_calls=[{"index": index, "function": function}]))

    pieces = [
        call(0, name="side", arguments=""),
        call(0, arguments='{"of": '),
        call(1, name="crop", arguments='{"z":3}'),
        call(0, arguments='"liver"}'),
        event(finished("tool_calls")),
        DONE,
    ]
    with serving(raw(200, "text/event-stream", *pieces)) as server:
        done = end_of(plain_way(server.url, "m"), question(tools=(TOOL,)))
    assert done.calls == (ToolCall("side", {"of": "liver"}), ToolCall("crop", {"z": 3}))
    assert done.reason == "tool_calls"


def test_a_stream_in_awkward_pieces_reads_the_same():
    text = "Linke Niere: 4,2 cm³ – \U0001f600 „ja“"
    stream = b"".join(
        [
            b"\xef\xbb\xbf: hello\r\n\r\n",
            b"event: message\r\nid: 1\r\n",
            b"data: " + json.dumps(delta(content=text), ensure_ascii=False).encode() + b"\r\n\r\n",
            b"data:" + json.dumps(finished()).encode(),
        ]
    )
    with serving(chunked(bytes([b]) for b in stream)) as server:
        assert end_of(plain_way(server.url, "m")) == Done(text)


def test_halves_of_a_character_are_joined_and_lone_ones_replaced():
    pieces = [
        b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00b\\ud83d!"}}]}\n\n',
        event(finished()),
    ]
    with serving(raw(200, "text/event-stream", *pieces)) as server:
        assert end_of(plain_way(server.url, "m")) == Done("a\U0001f600b\ufffd!")


def test_a_whole_answer_instead_of_a_stream_is_read():
    whole = {
        "choices": [{"message": {"role": "assistant", "content": "Left"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 1},
    }
    with serving(raw(200, "application/json", json.dumps(whole).encode())) as server:
        events = events_of(plain_way(server.url, "m"))
    assert events[-1] == Done("Left")
    assert "".join(e.text for e in events if isinstance(e, Tokens)) == "Left"


def test_a_prompt_that_was_cut_silently_marks_the_answer():
    ask = question(picture(), "Which side?", expected_tokens=1000)
    with serving(words("Left", prompt_tokens=300, completion_tokens=1)) as server:
        events = events_of(plain_way(server.url, "m"), ask)
    warned = next(e for e in events if isinstance(e, Warned))
    assert warned.kind is FailureKind.PROMPT_CUT
    assert "300" in warned.message
    assert "1000" in warned.message
    assert events[-1] == Done("Left")


def test_a_prompt_too_short_for_its_pictures_marks_the_answer():
    ask = question(picture(), picture(), "Which side?")
    with serving(words("Left", prompt_tokens=12, completion_tokens=1)) as server:
        events = events_of(plain_way(server.url, "m"), ask)
    kinds = [e.kind for e in events if isinstance(e, Warned)]
    assert kinds == [FailureKind.PICTURES_DROPPED]
    assert events[-1] == Done("Left")
