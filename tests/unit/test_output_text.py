"""What is left of a model's text before it is read: thoughts, echo, marks, final answers."""

import pytest

from napari_ctvqa.core.output_text import NEVER_CLOSED, stripped
from napari_ctvqa.extensions import families

FAMILY = families()["chat-image"]
PROMPT = "Which side is the spleen on?\nA: left B: right"


def read(name, text, prompt=""):
    return FAMILY.read(FAMILY.presets[name], text, prompt)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("qwen3-vl", "B", "B"),
        ("qwen3-vl", "<think>A or B?</think>\n\nB", "B"),
        ("qwen3-vl", "<think></think>B<think>sure?</think>", "B"),
        ("qwen3-vl", "A or B? I take B.</think>\nB", "B"),
        ("qwen3-vl", "first</think>second</think>B", "B"),
        ("qwen3-vl", "B<|im_end|>\n<|im_start|>user\nNo, A", "B"),
        ("qwen3-vl", "<|im_start|>assistant\nB<|im_end|>", "\nB".strip()),
        ("qwen3-vl-thinking", "It is on the left.</think>\n\nA", "A"),
        ("qwen3-vl-thinking", "<think>It is on the left.</think>\n\nA", "A"),
        ("qwen3.5", "<think>\n\n</think>\n\nA", "A"),
        ("medgemma-1.5", "The spleen is left.\nFinal Answer: A<end_of_turn>", "A"),
        ("medgemma-1.5", "**Final Answer:** A\nNo: **Final Answer: B**", "B"),
        ("medgemma-1.5", "<unused94>thought\nleft?<unused95>Final Answer: A", "A"),
        ("medgemma-1.5", "Final Answer: \n", "Final Answer:"),
        ("medgemma-1.5", "the spleen is on the left", "the spleen is on the left"),
        ("medgemma", "Final Answer: A", "Final Answer: A"),
        ("meissa", "<think>left</think>\n[FINAL] A", "A"),
        ("meissa", "<think>[FINAL] B</think>[FINAL] A", "A"),
        ("meissa", '<tool_call>{"name": "Terminate", "arguments": {"ans": "A"}}</tool_call>', "A"),
        ("meissa", '<think>so</think>{"name": "terminate", "arguments": {"said": " A "}}', "A"),
        ("internvl", "A</s>", "A"),
    ],
)
def test_the_answer_is_what_is_left(name, text, answer):
    assert read(name, text) == answer


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3-vl", "<think>It could be A or B, so"),
        ("qwen3-vl", "Perhaps A <think>or not"),
        ("qwen3-vl", "<think>a</think>B<think>but"),
        ("qwen3-vl-thinking", "It could be A or B, so"),
        ("qwen3.5-thinking", "A"),
        ("medgemma-1.5", "<unused94>thought\nFinal Answer: A"),
        ("meissa", "<think>[FINAL] A"),
    ],
)
def test_a_thought_that_never_ends_leaves_nothing_to_read(name, text):
    preset = FAMILY.presets[name]
    assert FAMILY.read(preset, text) == ""
    assert FAMILY.reading_notes(preset, text) == (NEVER_CLOSED,)


def test_terminate_is_an_answer_and_no_call():
    text = '<tool_call>{"name": "Terminate", "arguments": {"ans": "A"}}</tool_call>'
    assert FAMILY.calls(FAMILY.presets["meissa"], text) == ((), "")
    assert len(FAMILY.calls(FAMILY.presets["qwen3-vl"], text)[0]) == 1


@pytest.mark.parametrize("before", ["", "\n", "> "])
def test_an_echoed_prompt_is_taken_away_where_it_begins(before):
    assert read("medgemma-1.5", f"{before}{PROMPT}\nFinal Answer: B", PROMPT) == "B"
    assert read("internvl", f"{before}{PROMPT} B", PROMPT) == "B"


@pytest.mark.parametrize("before", ["abc", "I was asked: "])
def test_a_prompt_quoted_later_stays(before):
    assert read("internvl", f"{before}{PROMPT} B", PROMPT) == f"{before}{PROMPT} B"
    assert read("internvl", "B", "") == "B"


def test_text_after_an_end_mark_is_not_read_and_said():
    found = stripped("A<|im_end|>user: B", ("eot",))
    assert found.text == "A" and "end mark" in found.notes[0]
    assert stripped("A<|im_end|>\n<|endoftext|>", ("eot",)).notes == ()


@pytest.mark.parametrize("name", FAMILY.presets)
@pytest.mark.parametrize(
    "text",
    [
        "", " ", "<", "<think>" * 300_000, "</think>" * 300_000, "<unused94>" * 300_000,
        "<think></think>" * 200_000, "Final Answer:" * 200_000, "[FINAL]" * 300_000,
        "x" * 5_000_000, "Final Answer:" + " " * 3_000_000, "<|im_end|>" * 300_000, "\ud800\x00",
        "final answer" + "*" * 2_000_000,
    ],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_hostile_text_is_read_without_harm(name, text):
    answer = read(name, text, "x")
    assert isinstance(answer, str) and len(answer) <= len(text)
