"""Recorded runs: the same events in the same order, with their times, offline, stoppable."""

import json
import socket
import threading
import time

import pytest
import small_benchmark
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay, call

from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.events import CallReturned, Failed, FailureKind, Sent, Tokens
from napari_ctvqa.core.records import AnswerFormat, Prediction, Turn
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.seen_files import has_seen
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import run_batch
from napari_ctvqa.runners.desk import answered, scored_batch
from napari_ctvqa.runners.kept import results_folder
from napari_ctvqa.runners.kits import open_kit
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.recorded import AT_ONCE, recorded_answerer, recorded_answers

SCRIPT = (call("segment_organ", target="liver"), "A: one")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def opened(tmp_path):
    return open_path(small_benchmark.write(tmp_path / "bench", cases=1))


@pytest.fixture
def case(opened):
    return read_case(opened.case_files("BDMAP_00000001"))


def agent(opened):
    def kit_of(shown):
        return open_kit(opened, "oracle", shown)

    parts = ("scripted", "Scripted", ScriptedFamily(), PRESET, ScriptedWay(*SCRIPT))
    return ModelAnswerer(*parts, mode="agent", kit="oracle", kit_of=kit_of)


def made(opened, out):
    list(run_batch(opened, agent(opened), AnswerFormat.MC, out, rows=[0]))
    return out


def told(answerer, opened, case, question=0):
    return list(answerer.answer(opened.questions[question], case, AnswerFormat.MC))


def kinds(items):
    return [type(item).__name__ for item in items]


def test_what_happened_happens_again(opened, case, tmp_path, monkeypatch):
    live = told(agent(opened), opened, case)
    out = made(opened, tmp_path / "r.json")

    def refused(*args, **options):
        raise AssertionError("a replay needs no network")

    monkeypatch.setattr(socket, "socket", refused)
    again = told(recorded_answerer(opened, out, speed=AT_ONCE), opened, case)
    assert kinds(again) == kinds(live)
    for one, other in zip(again, live, strict=True):
        if isinstance(one, Tokens | CallReturned):
            assert one == other
        if isinstance(one, Turn):
            assert (one.step, one.call, one.final_answer) == (
                other.step, other.call, other.final_answer,
            )  # fmt: skip
        if isinstance(one, Sent):
            assert len(one.prepared.ask.pictures) == len(other.prepared.ask.pictures) == 2
    last = again[-1]
    assert (last.raw_text, last.model) == ("A: one", "scripted (recorded)")


def test_with_its_timing_it_takes_as_long_as_then(opened, case, tmp_path):
    out = made(opened, tmp_path / "r.json")
    events = next((tmp_path / "r.json.seen").glob("q*/events.jsonl"))
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["t"] = number * 0.05
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for speed in (1.0, 2.0):
        began = time.monotonic()
        told(recorded_answerer(opened, out, speed=speed), opened, case)
        assert time.monotonic() - began >= (len(rows) - 1) * 0.05 / speed


def test_it_stops_at_once(opened, case, tmp_path):
    out = made(opened, tmp_path / "r.json")
    events = next((tmp_path / "r.json.seen").glob("q*/events.jsonl"))
    first, *rest = events.read_text().splitlines()
    late = [json.dumps({**json.loads(line), "t": 3600.0}) for line in rest]
    events.write_text("\n".join([first, *late]) + "\n")
    replay = recorded_answerer(opened, out)
    threading.Timer(0.1, replay.cancel).start()
    items = told(replay, opened, case)
    assert isinstance(items[-1], Failed) and items[-1].kind is FailureKind.CANCELLED
    assert not any(isinstance(item, Prediction) for item in items)


def test_shown_in_the_window_it_is_marked_and_not_kept_again(opened, case, tmp_path):
    out = made(opened, tmp_path / "r.json")
    replay = recorded_answerer(opened, out, speed=AT_ONCE)
    question = opened.questions[0]
    *_, last = answered(replay, question, case, AnswerFormat.MC, opened, "now")
    assert last.live.recorded and last.prediction.raw_text == "A: one" and last.path == ""
    assert last.score is not None and not results_folder(opened).exists()


def test_answers_given_in_the_window_are_recorded_and_found(opened, case, tmp_path):
    question = opened.questions[0]
    *_, last = answered(agent(opened), question, case, AnswerFormat.MC, opened, "now")
    batch = made(opened, tmp_path / "r.json")
    found = recorded_answers(opened, question.id, [batch])
    assert sorted(map(str, found)) == sorted([last.path, str(batch)])
    assert recorded_answers(opened, "q000005", [batch]) == ()
    again = told(recorded_answerer(opened, found[0], speed=AT_ONCE), opened, case)
    assert again[-1].raw_text == "A: one"


def test_what_was_not_recorded_is_a_sentence(opened, case, tmp_path):
    out = made(opened, tmp_path / "r.json")
    replay = recorded_answerer(opened, out, speed=AT_ONCE)
    with pytest.raises(NotFoundError, match="no answer to question q000003"):
        told(replay, opened, case, question=3)


def test_the_words_of_the_window_come_at_most_thirty_times_a_second(opened, case):
    flood = ModelAnswerer(
        "scripted", "Scripted", ScriptedFamily(), PRESET, ScriptedWay("word " * 5000)
    )
    began = time.monotonic()
    shown = list(answered(flood, opened.questions[0], case, AnswerFormat.MC, opened, "now"))
    spent = time.monotonic() - began
    assert len(shown) <= 30 * spent + 10
    assert shown[-1].live.text == "word " * 5000


def test_a_batch_that_gives_up_still_shows_what_was_answered(opened, tmp_path):
    parts = ("scripted", "Scripted", ScriptedFamily(), PRESET, ScriptedWay("A", UNREACHABLE))
    items = run_batch(
        opened, ModelAnswerer(*parts), AnswerFormat.MC, tmp_path / "r.json", rows=range(9)
    )
    shown = {}
    with pytest.raises(CtvqaError, match="3 questions in a row"):
        for report in scored_batch(items, opened, AnswerFormat.MC):
            shown |= report.predictions
    assert [p.failed for p in shown.values()] == [False, True, True, True]


@pytest.mark.parametrize("script", [(UNREACHABLE,), (SCRIPT[0], UNREACHABLE)])
def test_what_failed_is_not_offered_instead_of_itself(opened, tmp_path, script):
    good = made(opened, tmp_path / "good.json")
    bad = tmp_path / "bad.json"
    model = agent(opened)
    model.way = ScriptedWay(*script)
    list(run_batch(opened, model, AnswerFormat.MC, bad, rows=[0]))
    question = opened.questions[0].id
    assert has_seen(bad, question)
    assert recorded_answers(opened, question, [bad, good]) == (good,)
