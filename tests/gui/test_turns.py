"""Turns: what comes in the background is shown by one panel after the other, and is all shown."""

import pytest
from qtpy.QtWidgets import QApplication, QWidget

from napari_ctvqa.core.session import RunProgress, RunState, Session
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.turns import Turns

RUNNING = RunProgress(RunState.RUNNING, "toy", 0, 1)


@pytest.fixture
def session(qapp):
    session = Session()
    session.turns = Turns()
    return session


class Panel(QWidget):
    """Notes each call with whether it could be painted then."""

    def __init__(self, qtbot, session, name, log):
        super().__init__()
        qtbot.addWidget(self)
        self.name, self.log = name, log
        self.listening = Listening(
            (session.progress_changed, self.hear_progress),
            (session.runs_changed, self.hear_runs),
            panel=self,
            session=session,
        )

    def hear_progress(self):
        self.log.append((self.name, "progress", self.updatesEnabled()))

    def hear_runs(self):
        self.log.append((self.name, "runs", self.updatesEnabled()))


def all_turns(session):
    while session.turns.waiting:
        QApplication.processEvents()


def test_each_slot_has_a_turn_and_painting_comes_after(qtbot, session):
    log = []
    one, two = (Panel(qtbot, session, name, log) for name in "ab")
    session.update_unhurried(progress=RUNNING, runs={})
    assert log == [] and session.turns.waiting
    session.update_unhurried(progress=RUNNING)  # due already: shown once
    all_turns(session)
    assert sorted(log) == [(n, what, False) for n in "ab" for what in ("progress", "runs")]
    assert one.updatesEnabled() and two.updatesEnabled()
    one.listening.close()
    two.listening.close()


def test_what_a_person_did_is_shown_at_once_with_all_that_was_due(qtbot, session):
    log = []
    panel = Panel(qtbot, session, "a", log)
    session.update_unhurried(runs={})
    session.update(progress=RUNNING)
    assert [what for _, what, _ in log] == ["runs", "progress"]
    all_turns(session)
    assert len(log) == 2 and panel.updatesEnabled()
    panel.listening.close()


def test_without_turns_or_a_panel_nothing_waits(qtbot):
    session, log = Session(), []
    panel = Panel(qtbot, session, "a", log)
    heard = []
    session.turns = Turns()
    bare = Listening((session.runs_changed, lambda: heard.append(1)), session=session)
    session.update_unhurried(runs={})
    assert heard == [1]
    session.turns = None
    session.update_unhurried(progress=RUNNING)
    assert log[-1] == ("a", "progress", True)
    bare.close()
    panel.listening.close()


def test_a_panel_that_is_closed_meanwhile_is_left_alone(qtbot, session):
    log = []
    panel = Panel(qtbot, session, "a", log)
    session.update_unhurried(runs={}, progress=RUNNING)
    panel.listening.close()
    panel.close()
    all_turns(session)
    assert log == []


def test_one_slot_that_fails_stops_neither_the_others_nor_the_painting(qtbot, session):
    log = []
    panel = Panel(qtbot, session, "a", log)

    def fail():
        raise ValueError("on purpose")

    failing = Listening((session.progress_changed, fail), panel=panel, session=session)
    with qtbot.captureExceptions() as caught:
        session.update_unhurried(progress=RUNNING, runs={})
        all_turns(session)
    assert [str(error) for _, error, _ in caught] == ["on purpose"]
    assert {what for _, what, _ in log} == {"progress", "runs"} and panel.updatesEnabled()
    failing.close()
    panel.listening.close()
