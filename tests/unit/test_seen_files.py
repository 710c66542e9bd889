"""What a model saw: exact pixels, places and prompts beside the result file, and the way back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared, Sampling
from napari_ctvqa.core.errors import InputFileError, NotFoundError
from napari_ctvqa.core.events import (
    CallMade,
    CallReturned,
    Done,
    Failed,
    FailureKind,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.records import ToolCall, ToolResult
from napari_ctvqa.io import seen_writing
from napari_ctvqa.io.seen_files import (
    folder_name,
    has_seen,
    read_events,
    read_seen,
    seen_folder,
)
from napari_ctvqa.io.seen_writing import SeenAnswer, SeenFiles

CALL = ToolCall("segment_organ", {"target": "liver"})


def picture(seed=0, *, grey=False, label="SLICE 1"):
    dice = np.random.default_rng(seed)
    pixels = dice.integers(0, 256, (20, 30, 3), np.uint8)
    if grey:
        pixels[...] = pixels[..., :1]
    place = np.array([[0, 0, 12.0], [0.7, 0, -0.15], [0, 0.7, -0.15]])
    return Picture(pixels, label, place, ((-150.0, 250.0),), "slice")


def requests():
    """Two requests of an agent: the second repeats the first's messages and adds some."""
    shown = [picture(1), picture(2, grey=True, label="SLICE 2")]
    user = Message("user", (shown[0].label, shown[0], shown[1].label, shown[1], "Which side?"))
    first = Ask(
        (Message("system", ("Be brief.",)), user),
        ({"type": "function", "function": {"name": "segment_organ"}},),
        Sampling(max_new_tokens=9, seed=3, stop=("</s>",)),
        {"enable_thinking": False},
        {"size": [448, 448]},
        700,
    )
    crop = Picture(picture(3).pixels, "liver", None, (), "crop")
    more = (
        Message("assistant", (), (CALL,)),
        Message("tool", ('{"mask_found": true}',), tool="segment_organ", call_id="call_1_1"),
        Message("user", (crop,)),
    )
    second = replace(first, messages=(*first.messages, *more), tools=())
    notes = ("2 of 12 slices",)
    return [
        Sent(Prepared(first, notes, {"slices": [1, 2]})),
        Sent(Prepared(second, notes, {"slices": [1, 2]}), 2),
    ]


def events():
    first, second = requests()
    return [
        first,
        Status("reading the prompt", 0.5),
        Tokens("hm", thinking=True),
        Usage(700, 2, 0.1, 0.4),
        Done("", (CALL,), "tool_calls"),
        CallMade(1, CALL, "a quote"),
        CallReturned(1, CALL, ToolResult({"mask_found": True}, "liver")),
        second,
        Tokens("Left"),
        Warned(FailureKind.PROMPT_CUT, "cut", "Ask with fewer slices."),
        Done("Left", thinking="hm"),
    ]


def keep(results, items, question_id="q1", **options):
    answer = SeenAnswer(question_id, "scripted")
    for item in items:
        answer.take(item)
    return SeenFiles(results, **options).keep(answer)


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def same_message(one, other):
    assert (one.role, one.calls, one.tool, one.call_id) == (
        other.role, other.calls, other.tool, other.call_id,
    )  # fmt: skip
    for ours, theirs in zip(one.parts, other.parts, strict=True):
        if isinstance(ours, str):
            assert ours == theirs
            continue
        assert np.array_equal(ours.pixels, theirs.pixels) and ours.pixels.dtype == np.uint8
        assert (ours.label, ours.windows, ours.kind) == (theirs.label, theirs.windows, theirs.kind)
        if theirs.index_from_pixel is None:
            assert ours.index_from_pixel is None
        else:
            assert np.array_equal(ours.index_from_pixel, theirs.index_from_pixel)


def test_requests_come_back_as_they_were_sent(tmp_path):
    results = tmp_path / "r.json"
    assert keep(results, events()) == ""
    assert has_seen(results, "q1") and not has_seen(results, "q2")
    seen = read_seen(results, "q1")
    assert (seen.question_id, seen.model) == ("q1", "scripted")
    for back, sent in zip(seen.requests, requests(), strict=True):
        assert back.step == sent.step
        ours, theirs = back.prepared.ask, sent.prepared.ask
        for one, other in zip(ours.messages, theirs.messages, strict=True):
            same_message(one, other)
        assert (ours.tools, ours.sampling) == (theirs.tools, theirs.sampling)
        assert (ours.template, ours.processor) == (theirs.template, theirs.processor)
        assert ours.expected_tokens == 700
        assert back.prepared.notes == ("2 of 12 slices",)
        assert back.prepared.recipe == {"slices": [1, 2]}
    first, second = (one.prepared.ask for one in seen.requests)
    assert second.messages[1] is first.messages[1], "what is repeated is not held twice"


def test_events_come_back_in_order_with_their_times(tmp_path):
    keep(tmp_path / "r.json", events())
    back = read_events(tmp_path / "r.json", "q1")
    assert [type(one.event) for one in back] == [type(event) for event in events()]
    plain = [one.event for one in back if not isinstance(one.event, Sent)]
    assert plain == [event for event in events() if not isinstance(event, Sent)]
    assert [one.event.step for one in back if isinstance(one.event, Sent)] == [1, 2]
    times = [one.at_s for one in back]
    assert times == sorted(times) and 0 <= times[0] <= times[-1] < 5


def test_two_requests_of_one_step_are_told_apart(tmp_path):
    first, second = requests()
    keep(tmp_path / "r.json", [first, Sent(second.prepared, 1)])
    one, other = (timed.event for timed in read_events(tmp_path / "r.json", "q1"))
    assert (len(one.prepared.ask.messages), len(other.prepared.ask.messages)) == (2, 5)


def test_a_failure_comes_back(tmp_path):
    failed = Failed(FailureKind.BROKEN_STREAM, "Broke off.", "Ask again.", "EOF", "Le")
    keep(tmp_path / "r.json", [requests()[0], failed])
    assert read_events(tmp_path / "r.json", "q1")[-1].event == failed


def test_one_picture_is_kept_once_for_all_questions(tmp_path):
    results = tmp_path / "r.json"
    keep(results, events(), "q1")
    keep(results, events(), "q2")
    assert len([name for name in files(seen_folder(results)) if name.endswith(".png")]) == 3


@pytest.mark.parametrize(
    "question_id",
    ["../../etc/passwd", "a/b\\c:d", "case_1::3", "CON", "", "ä" * 500, "q\x00\n", "."],
)
def test_any_question_id_has_a_folder_of_its_own_inside(tmp_path, question_id):
    results = tmp_path / "deep" / "r.json"
    keep(results, events(), question_id)
    (folder,) = [p for p in seen_folder(results).iterdir() if p.name != "pictures"]
    assert folder.name == folder_name(question_id) and len(folder.name) < 80
    assert read_seen(results, question_id).question_id == question_id
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]


def test_ids_that_differ_by_case_or_sign_only_do_not_meet(tmp_path):
    names = [folder_name(key).lower() for key in ("a b", "a/b", "A b", "a_b")]
    assert len(set(names)) == 4


def test_asking_again_replaces_what_was_seen(tmp_path):
    results = tmp_path / "r.json"
    keep(results, [requests()[0], Done("first")])
    keep(results, [requests()[0], Done("second")])
    assert read_events(results, "q1")[-1].event.text == "second"


def test_without_pictures_prompts_and_events_are_kept(tmp_path):
    results = tmp_path / "r.json"
    assert keep(results, events(), pictures=False) == ""
    assert not [name for name in files(seen_folder(results)) if name.endswith(".png")]
    parts = read_seen(results, "q1").requests[0].prepared.ask.messages[1].parts
    assert parts[1] == "[a picture that was not kept: SLICE 1]" and parts[-1] == "Which side?"


def test_beyond_the_limit_pictures_are_left_out_and_that_is_said(tmp_path):
    results = tmp_path / "r.json"
    assert "reached its limit" in keep(results, events(), max_bytes=2000)
    assert len([name for name in files(seen_folder(results)) if name.endswith(".png")]) == 1
    assert len(read_seen(results, "q1").requests) == 2


def test_a_disk_that_takes_nothing_costs_no_answer(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seen_writing, "_write_synced", full)
    assert "No space left" in keep(tmp_path / "r.json", events())


def test_nothing_is_written_where_nothing_was_sent(tmp_path):
    assert keep(tmp_path / "r.json", [Tokens("A")]) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_half_written_folder_does_not_count_and_is_cleared(tmp_path):
    results = tmp_path / "r.json"
    half = seen_folder(results) / f".{folder_name('q1')}.tmp"
    half.mkdir(parents=True)
    (half / "ask.json").write_text("{")
    assert not has_seen(results, "q1")
    keep(results, events())
    assert len(read_seen(results, "q1").requests) == 2 and not half.exists()


def test_words_without_end_are_cut_the_whole_text_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(seen_writing, "MAX_EVENTS_BYTES", 2000)
    words = [Tokens("word ")] * 500
    keep(tmp_path / "r.json", [requests()[0], *words, Done("word " * 500)])
    back = read_events(tmp_path / "r.json", "q1")
    assert 10 < len(back) < 100 and back[-1].event.text == "word " * 500


def test_a_huge_result_is_left_out_of_the_events(tmp_path):
    huge = CallReturned(1, CALL, ToolResult({"rows": ["x" * 100] * 20_000}, "liver"))
    keep(tmp_path / "r.json", [requests()[0], huge])
    result = read_events(tmp_path / "r.json", "q1")[-1].event.result
    assert result.region_id == "liver" and "characters" in result.content["left_out"]


# --------------------------------------------------------------------------------------- hostile


def changed(results, change):
    path = seen_folder(results) / folder_name("q1") / "ask.json"
    data = json.loads(path.read_text())
    change(data["requests"][0])
    path.write_text(json.dumps(data))


def first_picture(row):
    return next(p for m in row["messages"] for p in m["parts"] if "picture" in p)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: first_picture(row).update(picture="../../../etc/passwd"),
        lambda row: first_picture(row).update(index_from_pixel=[[1, 2], [3, 4]]),
        lambda row: first_picture(row).update(index_from_pixel=[[float("nan")] * 3] * 3),
        lambda row: row.update(same_messages=7),
        lambda row: row.update(sampling={"nonsense": 1}),
        lambda row: row.pop("messages"),
        lambda row: row.update(messages=[5]),
    ],
)
def test_a_changed_file_is_refused_with_a_sentence(tmp_path, change):
    results = tmp_path / "r.json"
    keep(results, events())
    changed(results, change)
    with pytest.raises(InputFileError, match=r"ask\.json"):
        read_seen(results, "q1")


def test_another_picture_in_its_place_is_not_shown(tmp_path):
    results = tmp_path / "r.json"
    keep(results, events())
    pictures = sorted((seen_folder(results) / "pictures").iterdir())
    pictures[0].write_bytes(pictures[1].read_bytes())
    with pytest.raises(InputFileError, match="not the picture that was sent"):
        read_seen(results, "q1")
    pictures[0].write_bytes(b"\x89PNG nothing")
    with pytest.raises(InputFileError, match="damaged"):
        read_seen(results, "q1")
    pictures[0].unlink()
    with pytest.raises(InputFileError, match="cannot be read"):
        read_seen(results, "q1")


def test_bad_lines_among_the_events_are_left_out(tmp_path):
    results = tmp_path / "r.json"
    keep(results, events())
    path = seen_folder(results) / folder_name("q1") / "events.jsonl"
    path.write_text('{"t": 0, "event": "eval"}\nnonsense\n{"event": "done"}\n' + path.read_text())
    assert len(read_events(results, "q1")) == len(events())


def test_what_was_not_kept_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match="holds nothing of question q9"):
        read_seen(tmp_path / "r.json", "q9")


@pytest.mark.parametrize(
    "line",
    [
        '{"t": 1e300, "event": "tokens", "text": "a", "thinking": false}',
        '{"t": NaN, "event": "tokens", "text": "a", "thinking": false}',
        '{"t": -Infinity, "event": "tokens", "text": "a", "thinking": false}',
        '{"t": 1, "event": "tokens", "text": 5, "thinking": false}',
        '{"t": 1, "event": "status", "text": "a", "fraction": "half"}',
        '{"t": 1, "event": "usage", "prompt_tokens": "many", "new_tokens": 1}',
        '{"t": 1, "event": "done", "text": ["A"], "calls": [], "reason": "stop", "thinking": ""}',
    ],
)
def test_events_that_would_break_whoever_replays_them_are_left_out(tmp_path, line):
    results = tmp_path / "r.json"
    keep(results, events())
    path = seen_folder(results) / folder_name("q1") / "events.jsonl"
    path.write_text(f"{line}\n{path.read_text()}")
    assert len(read_events(results, "q1")) == len(events())
