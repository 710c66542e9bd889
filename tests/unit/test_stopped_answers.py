"""A stopped answer is none; what its model saw and said is kept all the same."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.events import Done, Failed, FailureKind, Sent, Tokens
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Outcome,
    Prediction,
    Question,
    Reference,
    Score,
)
from napari_ctvqa.io.seen_files import read_events, read_seen
from napari_ctvqa.runners import kept
from napari_ctvqa.runners.desk import answered
from napari_ctvqa.runners.recorded import recorded_answers

QUESTION = Question("q1", "c1", "Side?", Reference("left"), answer_type=AnswerType.OPEN)
SENT = Sent(Prepared(Ask((Message("user", ("?", Picture(np.full((4, 4, 3), 7, np.uint8)))),))))
OPENED = SimpleNamespace(benchmark=SimpleNamespace(name="bench", score=lambda *_: SCORE))
SCORE = Score(Outcome.RIGHT, "A", Outcome.RIGHT, "A")
STOPPED = Failed(FailureKind.CANCELLED, "stopped")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "results_folder", lambda _: tmp_path)
    monkeypatch.setattr("napari_ctvqa.runners.recorded.results_folder", lambda _: tmp_path)
    return tmp_path


def answers(*events, **more):
    made = SimpleNamespace(name="toy", config={"seed": 3}, answer=lambda *_: iter(events), **more)
    return answered(made, QUESTION, None, AnswerFormat.MC, OPENED, "then")


def stopped_ones(folder):
    return sorted(item.name.removesuffix(".seen") for item in folder.glob("*_stopped_*.seen"))


def test_what_a_stopped_model_saw_is_kept_beside_the_results(folder):
    *_, last = answers(SENT, Tokens("Le"), STOPPED)
    assert last.prediction is None and last.live.reason == "cancelled"
    (name,) = stopped_ones(folder)
    seen = read_seen(folder / name, "q1")
    (picture,) = seen.requests[0].prepared.ask.pictures
    assert (picture.pixels == 7).all()
    texts = [e.event.text for e in read_events(folder / name, "q1") if isinstance(e.event, Tokens)]
    assert texts == ["Le"]
    (ask,) = (folder / f"{name}.seen").glob("*/ask.json")
    assert json.loads(ask.read_text())["config"]["config"] == {"seed": 3}
    assert not list(folder.glob("*.json")), "it is no answer"
    assert recorded_answers(OPENED, "q1") == (), "and nothing to be played"


def test_neither_the_next_stop_nor_the_answer_replaces_it(folder):
    list(answers(SENT, STOPPED))
    list(answers(SENT, Tokens("Right"), STOPPED))
    assert len(stopped_ones(folder)) == 2
    *_, last = answers(SENT, Done("Left"), Prediction("q1", "toy", "Left"))
    assert last.prediction.raw_text == "Left"
    assert len(stopped_ones(folder)) == 2
    assert len(list(folder.glob("*.json"))) == 1


def test_it_is_kept_where_nobody_waits_any_more(folder):
    """Something else is opened while the model writes: the generator is closed."""
    coming = answers(SENT, Tokens("Le"), Tokens("ft"), STOPPED)
    next(coming)
    next(coming)
    coming.close()
    assert len(stopped_ones(folder)) == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_a_replay_and_what_was_never_sent_leave_nothing(folder, recorded):
    events = (SENT, STOPPED) if recorded else (STOPPED,)
    list(answers(*events, recorded=recorded))
    assert list(folder.iterdir()) == []


def test_a_full_disk_costs_nothing_but_what_was_seen(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("napari_ctvqa.io.seen_writing._write_synced", full)
    *_, last = answers(SENT, STOPPED)
    assert last.live.reason == "cancelled"
