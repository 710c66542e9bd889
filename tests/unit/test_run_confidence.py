"""How sure a model is, asked beside its answer: odds, samples, what stops them, what is kept."""

import json
from dataclasses import replace

import pytest
import small_benchmark
from evidence_cases import SHAPE, block, case, question
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay

from napari_ctvqa.core.confidence import Source, confidence_of
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.events import Done, Failed, FailureKind, Odds, Status, Tokens
from napari_ctvqa.core.records import AnswerFormat, Option, Prediction
from napari_ctvqa.extensions import benchmarks
from napari_ctvqa.io.result_journal import OtherRunError
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import result_row, run_batch
from napari_ctvqa.runners.choices import Wanted, answerer_for
from napari_ctvqa.runners.confidence import NO_OPTIONS, NOT_TOLD, wish, written
from napari_ctvqa.runners.opening import open_path

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM
ASKED = question(
    "liver lesion existence", "Any liver lesion?", options="Yes|No", answer="Yes", letter="A"
)


class OddsWay(ScriptedWay):
    """Tells odds where they are asked for, as a worker does."""

    odds = Odds("logits", {"A": 0.6, "B": 0.2}, 0.01, "A")

    def ask(self, ask, cancelled):
        for event in super().ask(ask, cancelled):
            if isinstance(event, Done) and ask.written:
                yield self.odds
            yield event


def answered(*script, how="logits", asked=ASKED, answer_format=MC, way=OddsWay, **options):
    wanted = wish(how) if how else None
    model = ModelAnswerer(
        "m", "M", ScriptedFamily(), PRESET, way(*script), confidence=wanted, **options
    )
    shown = case({"liver": block(SHAPE, slice(5, 20), slice(10, 30), slice(5, 25))})
    items = list(model.answer(asked, shown, answer_format))
    return model, items, items[-1]


def test_odds_are_asked_for_and_kept_with_the_answer():
    model, _, last = answered("A: Yes")
    assert model.way.asks[0].written == {"A": ("A", "Yes"), "B": ("B", "No")}
    kept = confidence_of(last)
    assert (kept.source, kept.answer, kept.value) == (Source.LOGITS, "A", 0.75)
    assert [one.text for one in kept.options] == ["Yes", "No"]
    assert kept.outside == pytest.approx(0.2) and kept.unfollowed == 0.01
    assert len(model.way.asks) == 1


def test_without_a_wish_nothing_is_asked_and_nothing_kept():
    model, _, last = answered("A", how="")
    assert not model.way.asks[0].written and confidence_of(last) is None
    assert "confidence" not in model.config.settings


def test_the_value_is_of_the_option_that_was_read():
    class B(OddsWay):
        odds = replace(OddsWay.odds, said="B")

    assert confidence_of(answered("B", way=B)[2]).value == pytest.approx(0.25)


def test_a_text_that_goes_on_otherwise_has_no_value():
    kept = confidence_of(answered("A or rather: the answer is B")[2])
    assert kept.answer == "B" and kept.value is None
    assert kept.problem == "the text begins with A, and answers otherwise further on"
    assert len(kept.options) == 2


def test_a_shuffled_question_keeps_the_texts_with_their_letters():
    """What is asked decides: the letters of the shuffled question, with its texts."""
    turned = replace(ASKED, options=(Option("A", "No"), Option("B", "Yes")))
    model, _, last = answered("A", asked=turned)
    assert model.way.asks[0].written == {"A": ("A", "No"), "B": ("B", "Yes")}
    assert {one.text: one.share for one in confidence_of(last).options} == {"No": 0.75, "Yes": 0.25}


def test_a_way_that_tells_nothing_and_a_question_without_options_say_why():
    assert confidence_of(answered("A", way=ScriptedWay)[2]).problem == NOT_TOLD
    assert confidence_of(answered("Yes", answer_format=FREE)[2]).problem == NO_OPTIONS


def test_what_a_way_could_not_tell_is_told():
    class Broken(OddsWay):
        odds = Odds("logprobs", problem="the server gave none")

    kept = confidence_of(answered("A", way=Broken)[2])
    assert kept.source is Source.LOGPROBS and kept.problem == "the server gave none"


MEANINGS = {"Yes.": "A", "No.": "B", "Left.": "C", "SLICE 3": "A"}


def test_words_of_a_model_that_knows_few_stand_for_their_letters():
    assert written(ASKED, MC, MEANINGS) == {"A": ("Yes.", "SLICE 3"), "B": ("No.",)}
    assert written(ASKED, FREE, MEANINGS) == {}
    assert written(replace(ASKED, options=()), MC, {}) == {}
    assert written(ASKED, MC, {"Left.": "C"}) == {}


SAMPLES = ["A", "B", "(A)", "I cannot tell", "Yes"]


def test_samples_are_drawn_after_the_answer_each_with_its_own_seed():
    model, items, last = answered("A", *SAMPLES, how="samples:5@0.9", seed=40)
    first, *rest = [ask.sampling for ask in model.way.asks]
    assert (first.temperature, first.seed) == (0.0, 40)
    assert [one.temperature for one in rest] == [0.9] * 5
    assert [one.seed for one in rest] == [41, 42, 43, 44, 45]
    kept = confidence_of(last)
    assert kept.samples == ("A", "B", "A", "", "A") and kept.value == pytest.approx(3 / 5)
    assert kept.temperature == 0.9
    assert last.raw_text == "A" and last.record["usage"]["requests"] == 6
    assert last.record["usage"]["first_token_s"] == 0.25
    tokens = [item.text for item in items if isinstance(item, Tokens)]
    assert tokens == ["A"]  # samples are no answer: nothing of them is shown as one
    told = [item.text for item in items if isinstance(item, Status)]
    assert told[-5:] == [f"Sample {n} of 5" for n in range(1, 6)]


def test_samples_are_read_as_the_answer_is():
    thought = "<think>B, B, B</think>A"
    kept = confidence_of(answered("A", thought, "B", how="samples:2")[2])
    assert kept.samples == ("A", "B")


def test_an_answer_outlives_a_sample_that_fails():
    _, _, last = answered("A", "A", UNREACHABLE, how="samples:4")
    assert not last.failed and last.raw_text == "A"
    kept = confidence_of(last)
    assert kept.samples == ("A",) and kept.value == 1.0
    assert kept.problem.startswith("1 of 4 samples came: http://gpu7:8000 does not answer")


def test_a_failed_answer_is_not_sampled():
    model, _, last = answered(UNREACHABLE, how="samples:4")
    assert last.failed and len(model.way.asks) == 1
    assert confidence_of(last) is None


def test_stopping_in_a_sample_leaves_no_answer():
    """The question is asked again when the run goes on: with its samples, or not at all."""
    _, items, last = answered("A", "A", Done("A", reason="cancelled"), how="samples:4")
    assert isinstance(last, Failed) and last.kind is FailureKind.CANCELLED
    assert not any(isinstance(item, Prediction) for item in items)


@pytest.mark.parametrize(
    ("text", "made"),
    [("logits", "logits"), ("samples", "samples:8@0.7"), ("samples:3", "samples:3@0.7"),
     (" samples:20@1.5 ", "samples:20@1.5")],
)  # fmt: skip
def test_a_wish_is_read_and_written(text, made):
    assert wish(text).text == made == wish(wish(text).text).text


@pytest.mark.parametrize(
    "text",
    ["", "logit", "logits:3", "samples:1", "samples:0", "samples:101", "samples:5@0",
     "samples:5@2.1", "samples:x", "samples:5@nan", "samples:-3", "tea"],
)  # fmt: skip
def test_a_wish_that_is_none_says_what_was_expected(text):
    with pytest.raises(CtvqaError) as caught:
        wish(text)
    assert "samples:8@0.7" in caught.value.hint


def wanted(**more):
    return Wanted("qwen3-vl", **{"server": "http://127.0.0.1:9/v1", "server_model": "m", **more})


def test_agents_and_rules_have_none(tmp_path):
    opened = open_path(small_benchmark.write(tmp_path / "bench", cases=1))
    with pytest.raises(NotFoundError, match="direct answers"):
        answerer_for(wanted(mode="agent", confidence="logits"), opened)
    for more in ({"confidence": "logits"}, {"decoding": "semsam"}):
        with pytest.raises(NotFoundError, match="rules is no model"):
            answerer_for(Wanted("rules", **more), opened)
    with pytest.raises(NotFoundError, match="on a server"):
        answerer_for(wanted(decoding="semsam"), opened)
    with pytest.raises(CtvqaError, match="no way to decode"):
        answerer_for(wanted(decoding="beams"), opened)
    made = answerer_for(wanted(confidence="samples:3"), opened)
    assert made.config.settings == {"confidence": "samples:3@0.7"}


def test_a_row_holds_it_last_and_the_benchmark_reads_the_row_as_ever(tmp_path):
    opened = open_path(small_benchmark.write(tmp_path / "bench", cases=1))
    model = ModelAnswerer(
        "m", "M", ScriptedFamily(), PRESET, OddsWay("A"), confidence=wish("logits")
    )
    out = tmp_path / "out.json"
    list(run_batch(opened, model, MC, out, rows=range(3)))
    row = json.loads(out.read_text())["results"][0]
    assert list(row)[-1] == "confidence" and row["raw_output"] == row["pred_answer"] == "A"
    run = benchmarks()["deeptumorvqa"].results(out, opened.questions)
    back = next(iter(run.predictions.values()))
    assert confidence_of(back).value == pytest.approx(0.75)
    assert result_row(ASKED, back)["confidence"] == back.record["confidence"]
    plain = ModelAnswerer("m", "M", ScriptedFamily(), PRESET, OddsWay("A"))
    with pytest.raises(OtherRunError, match="confidence"):
        list(run_batch(opened, plain, MC, out, rows=range(3)))


def test_the_way_to_decode_goes_with_every_request_and_is_noted():
    decoding = "semsam:K=4,M=10,p=0.9"
    model, _, last = answered("A", "A", how="samples:2", decoding=decoding)
    assert {ask.sampling.decoding for ask in model.way.asks} == {decoding}
    assert "values assumed" in last.record["note"] and decoding in last.record["note"]
    assert model.config.settings["decoding"] == decoding
