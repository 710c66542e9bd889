"""A run as the window starts it: goes on after a stop or a kill, in one file, in flat memory."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import small_benchmark
from fake_server import serving
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay
from test_server_pool import DOWN, Stub, chat

from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.io.result_journal import ResultJournal, partial_of
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import batch_description
from napari_ctvqa.runners.desk import GOES_ON, BatchReport, batch_answers
from napari_ctvqa.runners.kept import results_folder, unfinished_runs
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.server_pool import ServerPool

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = 18


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    return small_benchmark.write(tmp_path / "bench")


def asked(*script, **options):
    way = script[0] if isinstance(script[0], ServerPool) else ScriptedWay(*script)
    return ModelAnswerer("m", "M", ScriptedFamily(), PRESET, way, **options)


def started(opened, model, rows=range(QUESTIONS), answer_format=AnswerFormat.MC):
    return batch_answers(lambda: model, opened, answer_format, list(rows), assume_none=False)


def stopped_after(opened, model, count, **options):
    """Stop a run once so many answers were told of; return its file."""
    running = started(opened, model, **options)
    begun, told = next(running), 0
    for report in running:
        told += len(report.predictions)
        if told >= count:
            break
    running.close()
    return Path(begun.path)


def test_a_stopped_run_goes_on_in_its_file_and_shows_what_it_had(bench, monkeypatch):
    monkeypatch.setattr("napari_ctvqa.runners.desk.REPORT_EVERY_S", 0.0)
    opened = open_path(bench)
    out = stopped_after(opened, asked("A: so"), 4)
    kept = {row["qid"]: row for row in json.loads(out.read_text())["results"]}
    assert 4 <= len(kept) < QUESTIONS and partial_of(out).exists()
    model = asked("B")
    begun, *reports = started(opened, model)
    assert (Path(begun.path), begun.message) == (out, GOES_ON)
    assert set(reports[0].predictions) == set(reports[0].scores) == set(kept)
    assert reports[0].per_second == 0 < reports[-1].per_second, "what was there is not this run's"
    assert len(model.way.asks) == QUESTIONS - len(kept)
    rows = json.loads(out.read_text())["results"]
    assert [row["qid"] for row in rows] == [f"q{n:06d}" for n in range(QUESTIONS)]
    assert [row for row in rows if row["qid"] in kept] == list(kept.values())
    assert not partial_of(out).exists()
    last = reports[-1]
    assert isinstance(last, BatchReport) and (last.done, last.scored) == (QUESTIONS, QUESTIONS)
    metrics = json.loads(out.read_text())["metrics"]
    assert last.accuracy == pytest.approx(metrics["overall"]["accuracy"], abs=1e-3)


def test_what_was_not_finished_is_told_the_newest_first_and_nothing_else(bench, monkeypatch):
    monkeypatch.setattr("napari_ctvqa.runners.desk.REPORT_EVERY_S", 0.0)
    opened = open_path(bench)
    assert list(unfinished_runs(opened)) == [()]
    first = stopped_after(opened, asked("A: so"), 4)
    second = stopped_after(opened, asked("yes"), 2, answer_format=AnswerFormat.FREEFORM)
    partial_of(first).rename(partial_of(first.with_name("m_mc_20200101-000000.json")))
    folder = results_folder(opened)
    (folder / "m_mc_single_x_1.json.partial.jsonl").write_bytes(partial_of(second).read_bytes())
    (folder / "m_mc_20990101-000000.json.partial.jsonl").write_text("no journal\n")
    ((newest, older),) = unfinished_runs(opened)
    rows = json.loads(second.read_text())["results"]
    assert (newest.path, newest.model, newest.answer_format) == (str(second), "m", "freeform")
    assert (newest.answered, newest.failed) == (len(rows), 0) and older.answer_format == "mc"
    assert abs(newest.stopped.timestamp() - time.time()) < 600
    with ResultJournal(second, batch_description(opened, asked("A"), AnswerFormat.FREEFORM)):
        assert list(unfinished_runs(opened)) == [(older,)], "another window is at it"
    list(started(opened, asked("A"), answer_format=AnswerFormat.FREEFORM))
    assert list(unfinished_runs(opened)) == [(older,)]


def test_on_a_cluster_others_answer_and_what_was_not_asked_here_is_not_counted(bench):
    opened = open_path(bench)
    pool = ServerPool([Stub("a"), Stub("b")])
    model, entered = asked(pool), []

    @contextmanager
    def elsewhere(answerer):
        entered.append(answerer)
        yield others
        entered.append("left")

    def others(asking, pending):
        yield None
        for row in pending:
            question = asking.opened.questions[row]
            yield question, Prediction(question.id, "m", "A")

    begun, *reports = batch_answers(
        lambda: model, opened, AnswerFormat.MC, list(range(QUESTIONS)), assume_none=False,
        elsewhere=elsewhere, cluster="x",
    )  # fmt: skip
    again = reports.pop(0)
    assert (begun.message, again.message) == ("Waiting for the cluster x …", "On the cluster x.")
    assert entered == [model, "left"] and begun.path == again.path
    assert reports[-1].done == QUESTIONS and reports[-1].servers == ()
    assert model.way.counts[0].answered == 0


def test_a_run_that_is_stopped_while_it_waits_for_a_cluster_opens_no_file(bench):
    @contextmanager
    def elsewhere(answerer):
        yield lambda asking, pending: pytest.fail("nobody waits any more")

    running = batch_answers(
        lambda: asked("A"), open_path(bench), AnswerFormat.MC, [0], assume_none=False,
        elsewhere=elsewhere, cluster="x",
    )  # fmt: skip
    next(running), next(running)
    running.close()
    assert not list(results_folder(open_path(bench)).glob("*.json*"))


@pytest.mark.parametrize("left", [False, True])
def test_a_run_lets_the_window_go_first_and_leaves_the_interpreter_as_it_was(bench, left):
    before = (sys.getswitchinterval(), gc.get_freeze_count())
    running = started(open_path(bench), asked("A"))
    next(running), next(running)
    assert sys.getswitchinterval() < before[0] and gc.get_freeze_count() > before[1]
    if left:
        running.close()
    else:
        list(running)
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == before


def test_a_run_that_is_just_ending_is_waited_for_and_goes_on(bench):
    opened = open_path(bench)
    out = stopped_after(opened, asked("A: so"), 2)
    config = batch_description(opened, asked("A"), AnswerFormat.MC)
    held, over = threading.Event(), threading.Event()

    def hold():
        with ResultJournal(out, config):
            held.set()
            over.wait(0.5)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    begun, *_ = started(opened, asked("B"))
    thread.join()
    assert Path(begun.path) == out


def test_what_failed_is_asked_again_when_a_run_goes_on(bench):
    opened = open_path(bench)
    with pytest.raises(Exception, match="3 questions in a row"):
        list(started(opened, asked(UNREACHABLE)))
    (partial,) = results_folder(opened).glob("*.partial.jsonl")
    _, *reports = started(opened, asked("A"))
    assert (reports[-1].done, reports[-1].failed) == (QUESTIONS, 0)
    assert not partial.exists()


@pytest.mark.parametrize(
    "other",
    [{"seed": 7}, {"settings": {"max_slices": 1}}, {"name": "another"}, {"finished": True}],
)
def test_a_run_made_otherwise_or_finished_begins_a_file_of_its_own(bench, other):
    opened = open_path(bench)
    before = stopped_after(opened, asked("A: so"), 2)
    if other.pop("finished", False):
        list(started(opened, asked("A: so")))
    model = asked("B", **{key: value for key, value in other.items() if key != "name"})
    model.name = other.get("name", model.name)
    time.sleep(1.1)  # files are named by the second
    begun, *_ = started(opened, model, rows=[0])
    assert Path(begun.path) != before and begun.message == ""


def test_a_free_form_accuracy_is_the_official_one(bench):
    opened = open_path(bench)
    _, *reports = started(opened, asked("60"), answer_format=AnswerFormat.FREEFORM)
    (out,) = results_folder(opened).glob("*.json")
    metrics = json.loads(out.read_text())["metrics"]
    assert 0 < metrics["overall"]["accuracy"] < 1
    assert reports[-1].accuracy == pytest.approx(metrics["overall"]["accuracy"], abs=1e-3)


def test_the_servers_of_a_pool_are_told_of(bench):
    pool = ServerPool([Stub("dead", DOWN), Stub("well")])
    _, *reports = started(open_path(bench), asked(pool))
    assert [(one.url, one.answered) for one in reports[-1].servers] == [
        *(("dead", 0), ("well", QUESTIONS)),
    ]


SCRIPT = """
import sys, json
from pathlib import Path
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.runners.choices import Wanted, answerer_for
from napari_ctvqa.runners.desk import batch_answers
from napari_ctvqa.runners.opening import open_path

opened = open_path(Path(sys.argv[1]))
wanted = Wanted("qwen3-vl", server=sys.argv[2], settings={"max_slices": 1})
rows = list(range(len(opened.questions)))

def memory_mb():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024

reports = batch_answers(
    lambda: answerer_for(wanted, opened), opened, AnswerFormat.MC, rows, assume_none=False
)
runs = {}
next(reports)
for report in reports:
    runs |= report.predictions
    print(json.dumps([report.done, memory_mb()]), flush=True)
"""
MANY = 9 * 2 * 25
MOST_MB = 25.0
"""Of growth while hundreds of answers come, all of which the window holds."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory as Linux tells it")
def test_two_kills_lose_nothing_of_many_answers_and_memory_stays_flat(tmp_path):
    root = small_benchmark.write(tmp_path / "bench", cases=2, rounds=MANY // 18)
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NAPARI_CTVQA_CONFIG_DIR": str(tmp_path / "config"),
    }
    with serving(chat()) as one, serving(chat()) as two:
        command = [sys.executable, "-c", SCRIPT, str(root), f"{one.url} {two.url}"]
        for kill_at in (MANY // 3, 2 * MANY // 3, None):
            running = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
            told = []
            for line in running.stdout:
                told.append(json.loads(line))
                if kill_at is not None and told[-1][0] >= kill_at:
                    running.send_signal(signal.SIGKILL)
                    break
            running.communicate()
            assert running.returncode == (0 if kill_at is None else -signal.SIGKILL)
            left = len(list((tmp_path / "data").rglob("*.partial.jsonl")))
            assert left == (0 if kill_at is None else 1)
        asked_for = len(one.received) + len(two.received)
    (out,) = (path for path in (tmp_path / "data").rglob("*.json") if path.is_file()
              and ".seen" not in str(path))  # fmt: skip
    rows = json.loads(out.read_text())["results"]
    assert [row["qid"] for row in rows] == [f"q{number:06d}" for number in range(MANY)]
    assert {row["raw_output"] for row in rows} == {"A"}
    assert asked_for < 1.2 * MANY, "what was answered is not asked again"
    grown = told[-1][1] - told[len(told) // 4][1]
    assert grown < MOST_MB
