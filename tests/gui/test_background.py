import gc
import threading
import time
from itertools import pairwise

import pytest
from qtpy.QtCore import QThread, QTimer

from napari_ctvqa.widgets import background
from napari_ctvqa.widgets.background import Job


class Log:
    def __init__(self, job):
        self.items, self.errors, self.ends, self.threads = [], [], [], set()
        job.item.connect(lambda x: self._note(self.items, x))
        job.failed.connect(lambda x: self._note(self.errors, x))
        job.ended.connect(lambda: self._note(self.ends, True))

    def _note(self, where, what):
        where.append(what)
        self.threads.add(QThread.currentThread())


@pytest.fixture
def run(qtbot):
    def start(items):
        job = Job(items)
        log = Log(job)
        job.start()
        return job, log

    return start


def numbers(n, pause=0.0):
    for i in range(n):
        time.sleep(pause)
        yield i


def settled(qtbot):
    """Give a wrong second signal the time to arrive."""
    qtbot.wait(50)


def test_items_arrive_in_order_in_the_gui_thread_then_one_end(run, qtbot, qapp):
    job, log = run(numbers(200))
    qtbot.waitUntil(lambda: bool(log.ends))
    settled(qtbot)
    assert log.items == list(range(200))
    assert log.threads == {qapp.thread()}
    assert log.ends == [True]
    assert log.errors == []
    assert not job.running


def test_work_runs_in_another_thread(run, qtbot):
    def where():
        yield threading.current_thread()

    _, log = run(where())
    qtbot.waitUntil(lambda: bool(log.ends))
    assert log.items[0] is not threading.main_thread()
    assert log.items[0].daemon


@pytest.mark.parametrize(
    "error",
    [ValueError("boom"), RuntimeError("out of GPU memory"), NotImplementedError(), SystemExit(3)],
)
def test_every_error_is_told_once_before_the_end(run, qtbot, error):
    def broken():
        yield 1
        raise error

    _, log = run(broken())
    qtbot.waitUntil(lambda: bool(log.ends))
    settled(qtbot)
    assert log.items == [1]
    assert log.errors == [error]
    assert log.ends == [True]


def test_error_of_the_clean_up_after_cancel_is_told(run, qtbot):
    def stubborn():
        try:
            yield from numbers(1000, 0.005)
        finally:
            raise OSError("disk full")

    job, log = run(stubborn())
    qtbot.waitUntil(lambda: bool(log.items))
    job.cancel()
    qtbot.waitUntil(lambda: bool(log.ends))
    settled(qtbot)
    assert [str(e) for e in log.errors] == ["disk full"]
    assert log.ends == [True]


def test_cancel_delivers_nothing_more_and_cleans_up_in_the_same_thread(run, qtbot):
    cleaned = []

    def items():
        worker = threading.current_thread()
        try:
            yield from numbers(1000, 0.005)
        finally:
            cleaned.append(threading.current_thread() is worker)

    job, log = run(items())
    qtbot.waitUntil(lambda: len(log.items) >= 2)
    job.cancel()
    seen = len(log.items)
    qtbot.waitUntil(lambda: bool(log.ends))
    settled(qtbot)
    assert len(log.items) == seen
    assert cleaned == [True]
    assert log.ends == [True]
    assert log.errors == []


def test_items_queued_before_cancel_are_dropped(run, qtbot):
    job, log = run(numbers(50))
    time.sleep(0.2)  # all 50 lie in the event queue, none was delivered
    job.cancel()
    qtbot.waitUntil(lambda: bool(log.ends))
    assert log.items == []


def test_a_job_that_nobody_holds_still_ends(qtbot):
    ends = []

    def start():
        job = Job(numbers(3, 0.02))
        job.ended.connect(lambda: ends.append(True))
        job.start()

    start()
    gc.collect()
    qtbot.waitUntil(lambda: bool(ends))
    settled(qtbot)
    assert ends == [True]


def test_second_start_is_refused(run, qtbot):
    job, log = run(numbers(1))
    with pytest.raises(RuntimeError, match="once"):
        job.start()
    qtbot.waitUntil(lambda: bool(log.ends))


def test_late_results_of_a_former_job_are_recognised(qtbot):
    current, shown = [], []

    def start(name):
        job = Job((f"{name}{i}" for i in range(3)), tag=name)
        current[:] = [job]
        job.item.connect(lambda item: shown.append(item) if current[0] is job else None)
        job.start()
        return job

    first = start("a")
    time.sleep(0.1)
    second = start("b")
    qtbot.waitUntil(lambda: not first.running and not second.running)
    assert shown == ["b0", "b1", "b2"]
    assert second.tag == "b"


def test_window_keeps_ticking_while_a_job_sleeps(run, qtbot):
    ticks = []
    timer = QTimer()
    timer.timeout.connect(lambda: ticks.append(time.perf_counter()))
    timer.start(10)
    _, log = run(numbers(1, 0.5))
    qtbot.waitUntil(lambda: bool(log.ends))
    timer.stop()
    assert len(ticks) > 10
    assert max(b - a for a, b in pairwise(ticks)) < 0.2


def test_many_items_at_once_leave_the_window_its_turn(run, qtbot, monkeypatch):
    """Timers, and the mouse, are served between two items, however many wait."""
    served = []
    timer = QTimer(interval=0)
    timer.timeout.connect(lambda: served.append(len(seen.items)))
    monkeypatch.setattr(background, "TURN_S", 0.0)
    gate = threading.Event()

    def items():
        yield 0
        gate.wait()
        yield from range(1, 9)

    _, seen = run(items())
    qtbot.waitUntil(lambda: len(seen.items) == 1)
    gate.set()
    time.sleep(0.2)  # all of them wait now
    timer.start()
    qtbot.waitUntil(lambda: len(seen.items) == 9)
    assert len(set(served) & set(range(2, 9))) >= 6
