"""The worker way to run: a real process, with an engine that does what the question says."""

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from napari_ctvqa.core.asking import Ask, Message
from napari_ctvqa.core.events import Done, Failed, FailureKind, Status, Tokens
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

ENGINE = Path(__file__).resolve().parents[1] / "stand_in_engine.py"
posix = pytest.mark.skipif(os.name != "posix", reason="speaks of POSIX signals")


def question(text, *pictures, **more):
    return Ask((Message("user", (text, *pictures)),), **more)


def answers(way, text, cancelled=None):
    return list(way.ask(question(text), cancelled or threading.Event()))


def spoken(events):
    return "".join(event.text for event in events if isinstance(event, Tokens))


def gone(pid):
    """Whether a process has ended and was waited for, within ten seconds."""
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def way_to(tmp_path, monkeypatch):
    """Make ways whose private folders lie in a folder of this test; all closed afterwards."""
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    made = []

    def make(folder="model", **settings):
        settings = {"engine": ENGINE, "force_stop_s": 0.5} | settings
        made.append(WorkerWay(WorkerSettings(tmp_path / folder, **settings)))
        return made[-1]

    yield make
    pids = [way.pid for way in made]
    for way in made:
        way.close()
    assert all(gone(pid) for pid in pids if pid is not None)
    assert list(private.iterdir()) == []


def test_nothing_leaves_this_machine(way_to):
    way = way_to(title="the model")
    assert (way.title, way.host) == ("the model", "")


def test_words_come_and_then_the_whole(way_to):
    way = way_to()
    events = answers(way, "words 5")
    assert events[-1] == Done("0 1 2 3 4 ")
    assert spoken(events) == "0 1 2 3 4 "
    assert Status("Loading the weights", 0.5) in events
    assert answers(way, "echo again")[-1] == Done("again")


def test_one_process_serves_many_questions(way_to):
    way = way_to()
    answers(way, "echo a")
    pid = way.pid
    answers(way, "echo b")
    assert way.pid == pid


@posix
def test_killed_in_mid_answer_keeps_the_words_and_asks_anew(way_to):
    way = way_to()
    last = answers(way, "killed")[-1]
    assert isinstance(last, Failed)
    assert (last.kind, last.partial) == (FailureKind.KILLED, "before the end ")
    assert "want of memory" in last.message
    assert last.hint
    assert answers(way, "echo alive")[-1] == Done("alive")
