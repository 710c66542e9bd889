"""Auditor: off the GUI thread, the last wish of several, nothing of what was closed."""

import threading
from types import SimpleNamespace

import pytest
from panel_sessions import opened
from test_panel_audit import NAME, session_of

from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core import audited as core_audited
from napari_ctvqa.widgets import auditor
from napari_ctvqa.widgets.auditor import SLOT, Auditor
from napari_ctvqa.widgets.jobs import Jobs


@pytest.fixture
def work(qapp):
    """An Auditor with real threads over a session with one run."""
    session, failed = session_of(), []
    jobs = Jobs(failed.append)
    source = SimpleNamespace(benchmark=BENCHMARK, questions=session.questions)
    yield Auditor(session, jobs, lambda: source), session, jobs
    jobs.close()
    assert failed == []


def test_an_audit_is_worked_out_in_another_thread_and_shown(work, qtbot, monkeypatch):
    made, session, _ = work
    threads = []

    def audited(*arguments):
        threads.append(threading.current_thread())
        return core_audited.audited(*arguments)

    monkeypatch.setattr(auditor, "audited", audited)
    made.start(NAME)
    qtbot.waitUntil(lambda: session.audited is not None, timeout=20_000)
    assert session.audited.audit.total.n == 8
    assert threads and threads[0] is not threading.main_thread()


def test_wishes_that_come_meanwhile_are_one_audit_of_what_there_is_then(work, qtbot, monkeypatch):
    made, session, jobs = work
    held, begun = threading.Event(), []

    def audited(*arguments):
        begun.append(len(arguments[3]))
        held.wait(20)
        return core_audited.audited(*arguments)

    monkeypatch.setattr(auditor, "audited", audited)
    made.start(NAME)
    qtbot.waitUntil(lambda: len(begun) == 1, timeout=20_000)
    scores = dict(session.scores[NAME])
    for _ in range(3):
        scores.popitem()
        session.update(scores={NAME: dict(scores)})
        made.start(NAME)
    held.set()
    qtbot.waitUntil(lambda: len(begun) == 2 and SLOT not in jobs, timeout=20_000)
    assert begun == [8, 5]
    assert session.audited.audit.total.n == 5


def test_what_was_closed_is_not_shown(work, qtbot, monkeypatch):
    made, session, jobs = work
    held, ended = threading.Event(), threading.Event()

    def audited(*arguments):
        held.wait(20)
        ended.set()
        return core_audited.audited(*arguments)

    monkeypatch.setattr(auditor, "audited", audited)
    made.start(NAME)
    made.forget()
    held.set()
    assert ended.wait(20)
    qtbot.wait(50)
    assert session.audited is None and SLOT not in jobs


def test_a_model_that_is_gone_is_no_fault(work):
    made, _, jobs = work
    made.start("nobody")
    assert SLOT not in jobs
    without = Auditor(opened(), jobs, lambda: None)
    without.start("m3d")
    assert SLOT not in jobs
