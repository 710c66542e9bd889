"""What is known of a running answer, event by event."""

from dataclasses import replace

from napari_ctvqa.core.asking import Ask, Prepared
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
from napari_ctvqa.core.live import MAX_TEXT, LiveRun
from napari_ctvqa.core.records import ToolCall, ToolResult


def after(*events) -> LiveRun:
    live = LiveRun("q", "m")
    for event in events:
        live = live.after(event)
    return live


def test_text_of_turns_is_kept_apart():
    sent = Sent(Prepared(Ask(())))
    live = after(sent, Tokens("Call"), Tokens("ing."), sent, Tokens("Left."))
    assert live.text == "Calling.\n\nLeft."
    assert len(live.sent) == 2


def test_status_and_failure_and_reason():
    live = after(Status("loading", 0.5))
    assert (live.status, live.fraction) == ("loading", 0.5)
    assert live.after(Done("x", reason="length")).reason == "length"
    failed = live.after(Failed(FailureKind.OUT_OF_MEMORY, "too big"))
    assert failed.failure is not None
    assert failed.fraction is None


def test_reasoning_that_comes_apart_is_no_part_of_the_text():
    live = after(Tokens("Hm.", thinking=True), Tokens("Left."))
    assert (live.thinking, live.text) == ("Hm.", "Left.")


def test_a_warning_does_not_end_it():
    live = after(Warned(FailureKind.PROMPT_CUT, "cut"), Done("x"))
    assert [w.message for w in live.warnings] == ["cut"]
    assert live.failure is None


def test_a_stopped_answer_did_not_fail():
    live = after(Tokens("Le"), Failed(FailureKind.CANCELLED, "stopped"))
    assert (live.failure, live.reason, live.text) == (None, "cancelled", "Le")


def test_two_equal_calls_are_closed_in_their_order():
    call = ToolCall("measure", {"target": "liver"})
    live = after(CallMade(1, call), CallMade(1, call))
    first = live.after(CallReturned(1, call, ToolResult({"value": 1})))
    assert [c.returned is not None for c in first.calls] == [True, False]
    second = first.after(CallReturned(1, call, ToolResult({"value": 2})))
    assert [c.returned.result.content["value"] for c in second.calls] == [1, 2]


def test_a_result_without_a_call_is_shown_too():
    call = ToolCall("measure", {})
    live = after(CallReturned(2, call, ToolResult({})))
    assert live.calls[0].made.step == 2


def test_tokens_are_counted_over_all_turns():
    assert after(Usage(10, 3), Usage(20, 4)).new_tokens == 7


def test_text_is_bounded_and_says_so():
    live = after(Tokens("a" * (MAX_TEXT - 1)), Tokens("bc"))
    assert len(live.text) == MAX_TEXT
    assert live.cut
    assert live.after(Tokens("d")).text == live.text
    assert not replace(live, text="a", cut=False).after(Tokens("b")).cut


def test_what_had_come_of_a_failed_turn_is_shown_though_it_did_not_come_as_words():
    first = after(Tokens("one"), Sent(Prepared(Ask(()))))
    broken = Failed(FailureKind.BROKEN_STREAM, "Broken.", partial="The left kid")
    assert first.after(broken).text == "one\n\nThe left kid"
    assert first.after(Tokens("The le")).after(broken).text == "one\n\nThe left kid"
    assert first.after(Tokens("The left kidney")).after(broken).text == "one\n\nThe left kidney"
