"""Direct answers: what is yielded, scored and kept, whatever the model says or does not say."""

import pytest
from evidence_cases import SHAPE, block, case, question
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Failed, FailureKind, Sent, Tokens
from napari_ctvqa.core.records import AnswerFormat, Outcome, Prediction
from napari_ctvqa.extensions import benchmarks, families
from napari_ctvqa.runners import requests
from napari_ctvqa.runners.answering import ModelAnswerer

ASKED = question(
    "liver lesion existence", "Any liver lesion?", options="Yes|No", answer="Yes", letter="A"
)


def shown_case():
    return case({"liver": block(SHAPE, slice(5, 20), slice(10, 30), slice(5, 25))})


def answerer(*script, family=None, **options):
    way = ScriptedWay(*script, **{k: options.pop(k) for k in ("reason",) if k in options})
    return ModelAnswerer("scripted", "Scripted", family or ScriptedFamily(), PRESET, way, **options)


def told(model, asked=ASKED, answer_format=AnswerFormat.MC):
    return list(model.answer(asked, shown_case(), answer_format))


def score(prediction):
    return benchmarks()["deeptumorvqa"].score(ASKED, prediction, AnswerFormat.MC)


def test_what_is_sent_said_and_answered_comes_in_this_order():
    model = answerer("A: Yes")
    items = told(model)
    kinds = [type(item).__name__ for item in items]
    assert kinds == ["Sent", "Status", "Tokens", "Tokens", "Usage", "Done", "Prediction"]
    assert "".join(i.text for i in items if isinstance(i, Tokens)) == items[-2].text == "A: Yes"
    last = items[-1]
    assert (last.raw_text, last.model, last.question_id) == ("A: Yes", "scripted", "q1")
    assert last.record["usage"] == {
        "requests": 1, "first_token_s": 0.25, "prompt_tokens": 900, "new_tokens": 3, "seconds": 0.5,
    }  # fmt: skip
    assert "whole_text" not in last.record
    assert items[0] == Sent(items[0].prepared) and items[0].prepared.ask is model.way.asks[0]
    assert [p.label for p in model.way.asks[0].pictures] == ["SLICE 1", "SLICE 2"]


def test_thinking_is_not_scored_and_not_lost():
    whole = "<think>Comparing A with B: B cannot be.</think>\nA"
    last = told(answerer(whole))[-1]
    assert last.raw_text == "A" and last.record["whole_text"] == whole
    assert score(last).official is Outcome.RIGHT


def test_thinking_that_never_ends_is_no_answer():
    whole = "<think>First A, then B, then"
    last = told(answerer(whole, reason="length"))[-1]
    assert last.raw_text == "" and last.record["whole_text"] == whole
    assert "cut off at 64 new tokens" in last.record["note"]
    assert "nothing is left" in last.record["note"]
    assert score(last).official is Outcome.UNREAD


def test_thinking_that_breaks_off_is_kept():
    class Breaks(ScriptedWay):
        def ask(self, ask, cancelled):
            yield Tokens("First B, ", thinking=True)
            yield Tokens("then", thinking=True)
            yield UNREACHABLE

    model = ModelAnswerer("m", "M", ScriptedFamily(), PRESET, Breaks())
    last = told(model)[-1]
    assert last.failed
    assert last.record["thinking"] == "First B, then"


@pytest.mark.parametrize("preset", ["qwen3-vl-thinking", "qwen3-vl", "medgemma-1.5"])
def test_thinking_that_a_server_sent_apart_does_not_hide_the_answer(preset):
    """A thinking model's text without the end of a thought would be taken for a thought."""
    family = families()["chat-image"]
    done = Done("A", thinking="First B, then </think> A.")
    model = ModelAnswerer("m", "M", family, family.presets[preset], ScriptedWay(done))
    last = told(model)[-1]
    assert last.raw_text == "A"
    assert last.record["thinking"] == done.thinking
    assert "never ends" not in last.record.get("note", "")
    silent = ModelAnswerer("m", "M", family, family.presets[preset], ScriptedWay(Done("A")))
    read = told(silent)[-1]
    assert read.raw_text == ("" if preset.endswith("thinking") else "A")


def test_a_failed_request_is_an_error_with_what_had_come():
    failed = Failed(FailureKind.BROKEN_STREAM, "The server broke off.", "Ask again.", "EOF", "A: Y")
    items = told(answerer(failed))
    last = items[-1]
    assert last.failed and "The server broke off. Ask again." in last.raw_text
    assert [turn.error for turn in last.trace.turns] == ["The server broke off."]
    assert last.record["partial_text"] == "A: Y"
    assert last.record["failure"] == {
        "kind": "broken_stream", "hint": "Ask again.", "detail": "EOF"
    }  # fmt: skip
    assert score(last).shown is Outcome.UNREAD
    assert any(isinstance(item, Failed) for item in items)


def test_a_case_that_cannot_be_shown_is_an_error_not_an_exception():
    refusing = ScriptedFamily(fail=CtvqaError("The orientation is unknown.", hint="Mend it."))
    last = told(answerer("A", family=refusing))[-1]
    assert last.failed and "orientation is unknown" in last.raw_text


def test_a_way_that_just_ends_gives_no_answer():
    model = answerer("A")
    model.way.ask = lambda ask, cancelled: iter([Tokens("A")])
    last = told(model)[-1]
    assert last.failed and last.record["partial_text"] == "A"
    assert last.record["failure"]["kind"] == "bad_output"


@pytest.mark.parametrize("how", ["tokens", "done"])
def test_ten_megabytes_of_text_are_stopped_and_bounded(how):
    model = answerer("A")
    flood = [Tokens("A" * 100_000)] * 100 if how == "tokens" else [Done("A" * 10_000_000)]
    model.way.ask = lambda ask, cancelled: iter(flood)
    items = told(model)
    assert items[-1].failed and items[-1].record["failure"]["kind"] == "too_long"
    assert len(items[-1].record["partial_text"]) == requests.MAX_TEXT
    assert len(items) < 20


def test_cancelled_within_a_token_it_gives_no_answer():
    model = answerer("A: Yes, there is one, I am sure of it.")
    model.way.after_token = lambda heard: model.cancelled.set()
    items = told(model)
    assert [i.text for i in items if isinstance(i, Tokens)] == ["A: "]
    last = items[-1]
    assert isinstance(last, Failed) and last.kind is FailureKind.CANCELLED and last.partial == "A: "
    assert not any(isinstance(item, Prediction) for item in items)
    model.cancelled.clear()
    model.way.after_token = None
    assert isinstance(told(model)[-1], Prediction), "the next run works"


def test_closing_the_generator_closes_the_request():
    model = answerer("A: Yes, there is one.")
    items = model.answer(ASKED, shown_case(), AnswerFormat.MC)
    while not isinstance(next(items), Tokens):
        pass
    assert model.way.requests_closed == 0
    items.close()
    assert model.way.requests_closed == 1


def test_the_seed_is_sent_and_all_that_decides_an_answer_is_told():
    model = answerer(
        "A", seed=7, settings={"max_slices": 1}, model_id="org/model", way_kind="server"
    )
    told(model)
    assert model.way.asks[0].sampling.seed == 7 and len(model.way.asks[0].pictures) == 1
    config = model.config
    assert (config.seed, config.mode, config.way, config.model_id) == (
        7, "direct", "server", "org/model",
    )  # fmt: skip
    assert config.settings == {"max_slices": 1} and config.prompts == {"family": "scripted 1"}
    assert config.preset["dialect"] == "hermes" and "licence" not in config.preset


def test_a_server_that_is_down_says_so_with_what_to_do():
    last = told(answerer(UNREACHABLE))[-1]
    assert last.raw_text.startswith("[ERROR] ") and last.raw_text.endswith("Start the server.")
