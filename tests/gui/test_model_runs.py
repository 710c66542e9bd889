"""Runs of models in the window: words as they come, stopping, force, hosts, one model kept."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import opened as panel_session
from qtpy.QtWidgets import QApplication

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Failed, FailureKind, Status, Tokens
from napari_ctvqa.core.records import Outcome, Prediction, Run, Score
from napari_ctvqa.core.session import RunState
from napari_ctvqa.io.code_consents import CodeConsent
from napari_ctvqa.runners import keeping
from napari_ctvqa.runners.choices import UnconfirmedHostError, Wanted
from napari_ctvqa.runners.own_loaders import UnconfirmedCodeError
from napari_ctvqa.widgets import runs as runs_module
from napari_ctvqa.widgets.jobs import Jobs
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.runs import THE_FILTER, THIS_QUESTION, Runs

TOY = Wanted("toy")


class Slow:
    """An answerer that says a word, waits, and goes on when it is told to."""

    name, title, host = "toy", "Toy", ""

    def __init__(self, *, obeys=True):
        self.cancelled, self.go_on = threading.Event(), threading.Event()
        self.obeys, self.ended = obeys, threading.Event()
        self.closed = 0

    def answer(self, question, case, answer_format):
        yield Status("thinking")
        yield Tokens("Le")
        while not self.go_on.wait(0.005):
            if (self.cancelled.is_set() and self.obeys) or self.ended.is_set():
                yield Failed(FailureKind.CANCELLED, "stopped")
                return
        yield Tokens("ft.")
        yield Done("Left.")
        yield Prediction(question.id, self.name, "Left.")

    def cancel(self):
        self.cancelled.set()

    def force_stop(self):
        self.ended.set()

    def close(self):
        self.closed += 1


@pytest.fixture
def desk(qapp, monkeypatch, tmp_path):
    """A session with a question, and Runs whose answerers the test makes."""
    session = panel_session(rows=np.arange(3))
    score = Score(Outcome.RIGHT, "A", Outcome.RIGHT, "A")
    opened = SimpleNamespace(
        benchmark=SimpleNamespace(name="bench", score=lambda *_: score),
        questions=session.questions,
        path=tmp_path,
    )
    made = SimpleNamespace(answerers=[], next=[], problems=[], asked=[], allowed=True)

    def answerer_for(wanted, _opened):
        item = made.next.pop(0)
        if isinstance(item, Exception):
            raise item
        made.answerers.append(item)
        return item

    monkeypatch.setattr(keeping, "answerer_for", answerer_for)
    monkeypatch.setattr(keeping, "place_of", lambda *_: None)
    monkeypatch.setattr("napari_ctvqa.runners.desk.keep_answer", lambda *_, **__: tmp_path / "x")
    monkeypatch.setattr(
        runs_module, "report", lambda session, error: made.problems.append(str(error))
    )

    def may_send(host):
        made.asked.append(host)
        return made.allowed

    jobs = Jobs(lambda error: made.problems.append(str(error)))
    runs = Runs(session, jobs, lambda: opened, may_send, may_send, may_send)
    yield SimpleNamespace(session=session, runs=runs, jobs=jobs, made=made)
    runs.close()
    jobs.close()


def until(condition):
    assert wait_until(condition, 20)
    QApplication.processEvents()


def begin(desk, answerer):
    desk.made.next.append(answerer)
    desk.runs.start(TOY, THIS_QUESTION)
    until(lambda: desk.session.live is not None and desk.session.live.text == "Le")


def test_words_come_before_the_answer_and_the_answer_is_scored(desk):
    slow = Slow()
    begin(desk, slow)
    assert desk.session.live.status == "thinking"
    assert desk.session.live.running
    assert desk.session.loaded == "toy"
    slow.go_on.set()
    until(lambda: not desk.runs.busy)
    key = desk.session.question.id
    assert desk.session.live.text == "Left."
    assert not desk.session.live.running
    assert desk.session.runs["toy"].predictions[key].raw_text == "Left."
    assert desk.session.scores["toy"][key].official is Outcome.RIGHT
    assert desk.session.progress.state is RunState.IDLE


def test_words_alone_change_no_answers(desk):
    """Chains are computed anew whenever answers change: not thirty times a second."""
    changes = []
    desk.session.runs_changed.connect(lambda: changes.append(1))
    slow = Slow()
    begin(desk, slow)
    assert changes == [1]
    slow.go_on.set()
    until(lambda: not desk.runs.busy)
    assert changes == [1, 1]


def test_a_stopped_answer_is_none_and_what_was_there_before_stays(desk):
    session, key = desk.session, desk.session.question.id
    before = Prediction(key, "toy", "Right.")
    session.update(runs={**session.runs, "toy": Run("toy", {key: before})})
    slow = Slow()
    begin(desk, slow)
    desk.runs.cancel()
    assert session.progress.state is RunState.CANCELLING
    until(lambda: not desk.runs.busy)
    assert session.progress.state is RunState.IDLE
    assert session.runs["toy"].predictions[key] is before
    assert (session.live.text, session.live.reason) == ("Le", "cancelled")
    assert desk.made.problems == []


def test_a_first_answer_that_is_stopped_leaves_no_run(desk):
    begin(desk, Slow())
    desk.runs.cancel()
    until(lambda: not desk.runs.busy)
    assert "toy" not in desk.session.runs


def test_what_does_not_stop_is_ended_by_force(desk):
    slow = Slow(obeys=False)
    begin(desk, slow)
    desk.runs.cancel()
    QApplication.processEvents()
    assert desk.runs.busy
    desk.runs.force_stop()
    until(lambda: not desk.runs.busy)


def test_a_model_is_kept_for_the_next_question_and_let_go_of_when_asked(desk):
    slow = Slow()
    slow.go_on.set()
    desk.made.next.append(slow)
    for _ in range(2):
        desk.runs.start(TOY, THIS_QUESTION)
        until(lambda: not desk.runs.busy)
    assert desk.made.answerers == [slow]
    assert slow.closed == 0
    desk.runs.unload()
    until(lambda: slow.closed == 1)
    assert desk.session.loaded == ""


def test_another_model_closes_the_former(desk):
    first, second = Slow(), Slow()
    for answerer, wanted in ((first, TOY), (second, Wanted("toy", mode="agent", kit="live"))):
        answerer.go_on.set()
        desk.made.next.append(answerer)
        desk.runs.start(wanted, THIS_QUESTION)
        until(lambda: not desk.runs.busy)
    assert (first.closed, second.closed) == (1, 0)


def test_a_host_is_asked_for_once_and_then_it_goes_on(desk, monkeypatch):
    confirmed = []
    monkeypatch.setattr(runs_module.hosts, "confirm", confirmed.append)
    slow = Slow()
    slow.go_on.set()
    desk.made.next += [UnconfirmedHostError("gpu7"), slow]
    desk.runs.start(TOY, THIS_QUESTION)
    until(lambda: desk.session.live is not None and not desk.runs.busy)
    assert (desk.made.asked, confirmed) == (["gpu7"], ["gpu7"])
    assert desk.session.live.text == "Left."


@pytest.mark.parametrize("allowed", [True, False])
def test_a_model_s_own_code_is_asked_about_before_it_runs(desk, monkeypatch, allowed):
    kept = []
    monkeypatch.setattr(runs_module.code_consents, "allow", kept.append)
    consent = CodeConsent("m3d-phi3", "/models/m3d", "0123456789abcdef")
    slow = Slow()
    slow.go_on.set()
    desk.made.allowed = allowed
    desk.made.next += [UnconfirmedCodeError(consent), slow]
    desk.runs.start(TOY, THIS_QUESTION)
    until(lambda: (desk.session.live is not None) == allowed and not desk.runs.busy)
    assert (desk.made.asked, kept) == ([consent], [consent] if allowed else [])
    assert not desk.made.problems


def test_a_refused_host_gets_nothing(desk, monkeypatch):
    confirmed = []
    monkeypatch.setattr(runs_module.hosts, "confirm", confirmed.append)
    desk.made.allowed = False
    desk.made.next.append(UnconfirmedHostError("gpu7"))
    desk.runs.start(TOY, THIS_QUESTION)
    until(lambda: not desk.runs.busy)
    assert confirmed == []
    assert desk.session.live is None
    assert desk.session.progress.state is RunState.IDLE


def test_opening_something_else_stops_the_model(desk):
    slow = Slow()
    begin(desk, slow)
    desk.runs.abandon()
    assert slow.cancelled.is_set()
    assert desk.session.live is None
    assert desk.session.progress.state is RunState.IDLE


def test_a_model_that_ended_itself_is_called_loaded_no_longer(desk, monkeypatch):
    monkeypatch.setattr(runs_module, "LOOK_EVERY_MS", 20)
    desk.runs = Runs(desk.session, desk.jobs, desk.runs.opened)
    slow = Slow()
    slow.holding = True
    begin(desk, slow)
    slow.go_on.set()
    until(lambda: not desk.runs.busy)
    QApplication.processEvents()
    assert desk.session.loaded == "toy"
    slow.holding = False
    until(lambda: desk.session.loaded == "")
    desk.runs.close()


def test_a_cluster_that_nobody_trusts_is_asked_about_once_and_not_used(desk):
    desk.session.update(scheduler="tcp://head:8786")
    desk.made.allowed = False
    desk.runs.start(TOY, THE_FILTER)
    assert desk.made.asked == ["tcp://head:8786"] and not desk.runs.busy
    assert desk.session.progress.state is RunState.IDLE
    desk.made.allowed = True
    for _ in range(2):
        desk.made.next.append(CtvqaError("no more is needed of it."))
        desk.runs.start(TOY, THE_FILTER)
        until(lambda: not desk.runs.busy)
    assert desk.made.asked == ["tcp://head:8786"] * 2, "a yes is remembered"
    assert desk.session.progress.message == "no more is needed of it."
    desk.session.update(scheduler="local:2")
    desk.made.next.append(CtvqaError("no more is needed of it."))
    desk.runs.start(TOY, THE_FILTER)
    until(lambda: not desk.runs.busy)
    assert len(desk.made.asked) == 2, "one's own is one's own"
