"""The worker way to run: a real process, with an engine that does what the question says."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Sampling
from napari_ctvqa.core.events import Done, Failed, FailureKind, Odds, Status, Tokens, Usage
from napari_ctvqa.core.records import ToolCall
from napari_ctvqa.runners import worker, worker_process
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


def test_odds_come_before_the_end_and_hold_numbers_alone(way_to):
    way = way_to()
    told = {"masses": {"A": 0.5, "B": "0.5", "C": None, "D": 1}, "unfollowed": 0.25, "said": "A"}
    ask = question(f"odds {json.dumps(told)}")
    ask = replace(ask, written={"A": ("A", "Yes"), "B": ("B",)})
    *_, odds, done = list(way.ask(ask, threading.Event()))
    assert odds == Odds("logits", {"A": 0.5, "D": 1.0}, 0.25, "A")
    assert json.loads(done.text) == {"A": ["A", "Yes"], "B": ["B"]}
    odds = answers(way, 'odds {"problem": "none", "masses": 3, "unfollowed": []}')[-2]
    assert odds == Odds("logits", problem="none")
    assert not [e for e in answers(way, "odds 7") if isinstance(e, Odds)]


def test_one_process_serves_many_questions(way_to):
    way = way_to()
    answers(way, "echo a")
    pid = way.pid
    answers(way, "echo b")
    assert way.pid == pid


@posix
def test_the_window_goes_before_the_model(way_to):
    way = way_to()
    answers(way, "echo a")
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, way.pid) == min(ours + worker.NICE, 19)


@posix
def test_killed_in_mid_answer_keeps_the_words_and_asks_anew(way_to):
    way = way_to()
    last = answers(way, "killed")[-1]
    assert isinstance(last, Failed)
    assert (last.kind, last.partial) == (FailureKind.KILLED, "before the end ")
    assert "want of memory" in last.message
    assert last.hint
    assert answers(way, "echo alive")[-1] == Done("alive")


@posix
def test_native_abort_shows_the_end_of_the_log(way_to):
    way = way_to()
    last = answers(way, "abort")[-1]
    assert (last.kind, last.partial) == (FailureKind.CRASHED, "before the end ")
    assert "SIGABRT" in last.message
    assert "a library's last words" in last.detail
    assert len(last.detail) <= 4000
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_an_exit_is_told_with_its_code(way_to):
    last = answers(way_to(), "exit")[-1]
    assert last.kind is FailureKind.CRASHED
    assert "code 3" in last.message


def test_out_of_memory_frees_and_the_second_one_ends_the_process(way_to):
    way = way_to()
    last = answers(way, "memory")[-1]
    assert (last.kind, last.partial) == (FailureKind.OUT_OF_MEMORY, "before the end ")
    assert "fewer slices" in last.hint
    assert "not enough memory" in last.detail
    first = way.pid
    assert answers(way, "echo alive")[-1] == Done("alive")
    assert way.pid == first
    assert answers(way, "memory")[-1].kind is FailureKind.OUT_OF_MEMORY
    again = answers(way, "memory")[-1]
    assert "process was ended" in again.hint
    assert answers(way, "echo alive")[-1] == Done("alive")
    assert way.pid != first


def test_a_broken_card_ends_the_process(way_to):
    way = way_to()
    answers(way, "echo a")
    first = way.pid
    last = answers(way, "card")[-1]
    assert last.kind is FailureKind.DEVICE
    assert "device-side assert" in last.detail
    assert gone(first)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_any_other_error_leaves_the_process_alone(way_to):
    way = way_to()
    last = answers(way, "broken")[-1]
    assert last.kind is FailureKind.BAD_MODEL
    assert "KeyError" in last.message
    assert "stand_in_engine.py" in last.detail
    first = way.pid
    assert answers(way, "echo alive")[-1] == Done("alive")
    assert way.pid == first


@pytest.mark.parametrize(
    ("folder", "kind", "hint"),
    [
        ("bad", FailureKind.BAD_MODEL, "Choose a model folder."),
        ("torchless", FailureKind.MISSING_LIBRARY, "-m pip install torch torchvision"),
        ("visionless", FailureKind.MISSING_LIBRARY, "-m pip install torch torchvision"),
    ],
)
def test_a_model_that_cannot_be_loaded(way_to, folder, kind, hint):
    way = way_to(folder)
    last = answers(way, "echo a")[-1]
    assert last.kind is kind
    assert hint in last.hint
    assert way.pid is None


@posix
def test_killed_while_loading(way_to):
    assert answers(way_to("killed"), "echo a")[-1].kind is FailureKind.KILLED


def cancelled_after(way, text, kind=Tokens):
    """Cancel at the first event of a kind; return the events."""
    flag, events = threading.Event(), []
    for event in way.ask(question(text), flag):
        events.append(event)
        if isinstance(event, kind) and not flag.is_set():
            flag.set()
    return events


def test_cancel_ends_within_a_word_and_keeps_the_text(way_to):
    way = way_to()
    answers(way, "echo a")
    events = cancelled_after(way, "words 100000")
    assert events[-1].reason == "cancelled"
    assert events[-1].text == spoken(events) != ""
    assert len(events[-1].text.split()) < 1000
    first = way.pid
    assert answers(way, "echo alive")[-1] == Done("alive")
    assert way.pid == first


@pytest.mark.parametrize("how", ["hang", pytest.param("stubborn", marks=posix)])
def test_what_does_not_stop_is_stopped_by_force(way_to, how):
    way = way_to()
    answers(way, "echo a")
    first = way.pid
    events = cancelled_after(way, how)
    assert events[-1] == Done("before the end ", reason="cancelled")
    assert any("by force" in e.text for e in events if isinstance(e, Status))
    assert gone(first)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_a_load_goes_on_when_its_question_is_cancelled(way_to):
    way = way_to("slow")
    events = cancelled_after(way, "echo a", Status)
    assert events[-1] == Done("", reason="cancelled")
    assert answers(way, "echo b")[-1] == Done("b")


def test_cancelled_during_the_load_the_process_stays(way_to):
    way = way_to("slow")
    flag, pids = threading.Event(), set()
    for event in way.ask(question("echo a"), flag):
        if event == Status("Loading the weights", 0.5):
            pids.add(way.pid)
            flag.set()
    assert answers(way, "echo b")[-1] == Done("b")
    assert pids == {way.pid}


def test_the_next_question_waits_for_the_one_before(way_to):
    way = way_to()
    answers(way, "echo a")
    first = way.ask(question("words 20"), threading.Event())
    next(first)
    other = []
    thread = threading.Thread(target=lambda: other.extend(answers(way, "echo second")))
    thread.start()
    rest = list(first)
    thread.join(30)
    assert rest[-1].reason == "stop"
    assert other[0].text.startswith("Waiting")
    assert other[-1] == Done("second")


def test_a_waiting_question_can_be_cancelled(way_to):
    way = way_to()
    answers(way, "echo a")
    first = way.ask(question("words 100000"), threading.Event())
    next(first)
    events = cancelled_after(way, "echo never", Status)
    assert events[-1] == Done("", reason="cancelled")
    first.close()
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_an_answer_that_nobody_listens_to_is_cancelled(way_to):
    way = way_to()
    events = way.ask(question("words 100000"), threading.Event())
    while not isinstance(next(events), Tokens):
        pass
    events.close()
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_close_ends_an_answer_of_another_thread(way_to):
    way = way_to()
    answers(way, "echo a")
    events, began = [], threading.Event()

    def listen():
        for event in way.ask(question("hang"), threading.Event()):
            events.append(event)
            if isinstance(event, Tokens):
                began.set()

    thread = threading.Thread(target=listen)
    thread.start()
    assert began.wait(30)
    pid = way.pid
    way.close()
    thread.join(30)
    assert not thread.is_alive()
    assert events[-1] == Done("before the end ", reason="cancelled")
    assert gone(pid)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_a_question_that_waited_while_all_was_closed_starts_nothing(way_to):
    way = way_to()
    first = way.ask(question("words 100000"), threading.Event())
    while not isinstance(next(first), Tokens):
        pass
    second = way.ask(question("echo late"), threading.Event())
    assert next(second).text.startswith("Waiting")
    way.close()
    assert list(first)[-1].reason == "cancelled"
    assert list(second)[-1] == Done("", reason="cancelled")
    assert way.pid is None


def test_idle_it_ends_by_itself_and_comes_back(way_to):
    way = way_to(idle_s=0.2)
    assert not way.holding
    answers(way, "echo a")
    assert way.holding
    first = way.pid
    way_process = way._process
    for _ in range(1000):
        if not way_process.alive():
            break
        time.sleep(0.01)
    assert not way_process.alive()
    assert not way.holding
    assert answers(way, "echo alive")[-1] == Done("alive")
    assert way.pid != first


def test_a_question_that_meets_the_end_of_an_idle_process_is_asked_again(way_to, monkeypatch):
    """The process is already ending, but nobody has noticed yet."""
    way = way_to(idle_s=0.2)
    answers(way, "echo a")
    way._process._process.wait(30)
    monkeypatch.setattr(way._process, "alive", lambda: True)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_garbage_on_the_channel_ends_the_process(way_to):
    way = way_to()
    last = answers(way, "garbage")[-1]
    assert isinstance(last, Failed)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_events_that_hold_something_else_are_no_exception(way_to):
    way = way_to()
    events = answers(way, "malformed")
    assert Usage() in events
    assert isinstance(events[-1], Done)
    assert answers(way, "echo alive")[-1] == Done("alive")


def test_five_megabytes_in_one_line_either_way(way_to):
    way = way_to()
    size = 5_000_000
    events = answers(way, f"long {size}")
    assert len(spoken(events)) == len(events[-1].text) == size
    text = "y" * size
    assert answers(way, f"echo {text}")[-1] == Done(text)


def test_hostile_text_goes_both_ways_as_it_is(way_to):
    text = 'a\nb\r\n\x00\x1b[31m\u2028</b><a href="x">🫁 {"do": "end", "id": 1}\n\n'
    assert answers(way_to(), f"echo {text}")[-1] == Done(text)


def test_what_libraries_print_is_not_on_the_channel(way_to):
    way = way_to()
    assert answers(way, "printing")[-1] == Done("still fine")
    assert "printed by a library" in way._process.log_tail()


def test_the_request_carries_everything(way_to):
    rng = np.random.default_rng(0)
    pictures = [Picture(rng.integers(0, 255, (4, 5, 3), dtype=np.uint8)) for _ in range(2)]
    ask = Ask(
        (
            Message("system", ("Be brief.",)),
            Message("user", ("SLICE 1", pictures[0])),
            Message("assistant", ("hm",), calls=(ToolCall("measure", {"organ": "liver"}),)),
            Message("tool", ("12 mm",), tool="measure"),
            Message("user", ("request", pictures[1], pictures[0])),
        ),
        tools=({"type": "function", "function": {"name": "measure"}},),
        sampling=Sampling(max_new_tokens=7, stop=("</s>",)),
        template={"enable_thinking": False},
        processor={"do_pan_and_scan": True},
    )
    way = way_to()
    last = list(way.ask(ask, threading.Event()))[-1]
    sent = json.loads(last.text)
    assert [message["role"] for message in sent["messages"]] == [
        *("system", "user", "assistant", "tool", "user")
    ]
    assert sent["messages"][2]["calls"] == [{"name": "measure", "arguments": {"organ": "liver"}}]
    assert sent["messages"][3]["tool"] == "measure"
    assert sent["sampling"]["max_new_tokens"] == 7
    assert sent["sampling"]["stop"] == ["</s>"]
    assert sent["template"] == {"enable_thinking": False}
    assert sent["processor"] == {"do_pan_and_scan": True}
    assert sent["tools"] == [{"type": "function", "function": {"name": "measure"}}]
    files = [part["file"] for m in sent["messages"] for part in m["parts"] if "file" in part]
    assert files == [files[0], files[1], files[0]]
    for picture, name in zip(pictures, files, strict=False):
        assert np.array_equal(np.load(Path(sent["pictures"]) / name), picture.pixels)


def test_pictures_that_are_not_sent_any_more_are_removed(way_to):
    way = way_to()
    picture = Picture(np.zeros((4, 4, 3), np.uint8))
    with_one = list(way.ask(question("files", picture), threading.Event()))[-1]
    without = list(way.ask(question("files"), threading.Event()))[-1]
    assert len([name for name in json.loads(with_one.text) if name.endswith(".npy")]) == 1
    assert [name for name in json.loads(without.text) if name.endswith(".npy")] == []


def test_its_state_is_told_while_it_rests(way_to):
    way = way_to()
    assert way.state() == {}
    answers(way, "echo a")
    state = way.state()
    assert (state["busy"], state["freed"]) == ([], 0)
    assert state["processor_s"] > 0
    running = way.ask(question("words 100000"), threading.Event())
    next(running)
    assert way.state() == {}
    running.close()


def test_an_interpreter_that_does_not_exist(way_to, tmp_path):
    last = answers(way_to(interpreter=str(tmp_path / "no-python")), "echo a")[-1]
    assert last.kind is FailureKind.CRASHED
    assert "no-python cannot be started" in last.message


@posix
def test_something_that_never_calls_is_given_up(way_to, tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 3600\n")
    silent.chmod(0o755)
    last = answers(way_to(interpreter=str(silent), start_s=0.3), "echo a")[-1]
    assert last.kind is FailureKind.TIMEOUT
    events = cancelled_after(way_to(interpreter=str(silent)), "echo a", Status)
    assert events[-1] == Done("", reason="cancelled")


@posix
def test_something_that_ends_at_once_is_told_with_what_it_printed(way_to, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho cannot load libfoo.so >&2\nexit 127\n")
    broken.chmod(0o755)
    last = answers(way_to(interpreter=str(broken)), "echo a")[-1]
    assert (last.kind, last.detail) == (FailureKind.CRASHED, "cannot load libfoo.so\n")
    assert "code 127" in last.message


@posix
def test_what_is_no_python_is_said_to_be_none(way_to, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    last = answers(way_to(interpreter=str(program)), "echo a")[-1]
    assert last.kind is FailureKind.CRASHED
    assert str(program) in last.message
    assert "Name a Python" in last.hint


@posix
def test_what_is_printed_without_end_does_not_fill_the_disk(way_to, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_process, "LOG_BYTES", 50_000)
    talker = tmp_path / "talker"
    talker.write_text("#!/bin/sh\nwhile :; do echo garbage; done\n")
    talker.chmod(0o755)
    sizes = []
    stop = threading.Event()

    def watch():
        while not stop.wait(0.01):
            logs = tmp_path.glob("private/*/log.txt")
            sizes.extend(log.stat().st_size for log in logs)

    watching = threading.Thread(target=watch)
    watching.start()
    last = answers(way_to(interpreter=str(talker), start_s=2.0), "echo a")[-1]
    stop.set()
    watching.join()
    assert last.kind is FailureKind.TIMEOUT
    assert any(after < before for before, after in pairwise(sizes)), "it was emptied"


def test_it_is_offline_unless_told_otherwise(way_to, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    way = way_to()
    assert answers(way, "environment HF_HUB_OFFLINE")[-1].text == "1"
    assert answers(way, f"environment {worker.TOKEN}")[-1].text == "(unset)"
    way = way_to(environment={"HF_HUB_OFFLINE": "0", "CUDA_VISIBLE_DEVICES": "3"})
    assert answers(way, "environment HF_HUB_OFFLINE")[-1].text == "0"
    assert answers(way, "environment CUDA_VISIBLE_DEVICES")[-1].text == "3"


def test_the_modules_beside_it_hide_no_library(way_to):
    found = json.loads(answers(way_to(), "path")[-1].text)
    assert str(Path(worker.__file__).parent) not in found


def test_the_load_command_carries_the_settings(way_to, tmp_path):
    way = way_to(dtype="float32", device="cuda:1", never_fp16=True, idle_s=60, revision="abc")
    answers(way, "echo a")
    assert way.loaded["wish"] | {"do": "", "id": 0} == {
        "folder": str(tmp_path / "model"),
        "dtype": "float32",
        "device": "cuda:1",
        "revision": "abc",
        "never_fp16": True,
        "trust_remote_code": False,
        "forced": False,
        "idle_s": 60,
        "do": "",
        "id": 0,
    }


def test_pictures_that_cannot_be_written_are_told(way_to, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    way = way_to()
    monkeypatch.setattr(np, "save", full)
    ask = question("echo a", Picture(np.zeros((4, 4, 3), np.uint8)))
    last = list(way.ask(ask, threading.Event()))[-1]
    assert last.kind is FailureKind.BAD_OUTPUT
    assert "No space left" in last.message


def test_half_a_picture_on_a_full_disk_is_not_taken_for_it_later(way_to, monkeypatch):
    save, way = np.save, way_to()

    def full(file, pixels, **_):
        if hasattr(file, "write"):
            file.write(b"\x93NUM")
        else:
            Path(file).write_bytes(b"\x93NUM")
        raise OSError(28, "No space left on device")

    ask = question("echo a", Picture(np.zeros((4, 4, 3), np.uint8)))
    monkeypatch.setattr(np, "save", full)
    assert list(way.ask(ask, threading.Event()))[-1].kind is FailureKind.BAD_OUTPUT
    monkeypatch.setattr(np, "save", save)
    assert isinstance(list(way.ask(ask, threading.Event()))[-1], Done)
    (picture,) = Path(tempfile.gettempdir()).glob("*/*.npy")
    assert np.load(picture).shape == (4, 4, 3)


def test_half_a_character_does_not_reach_the_model(way_to):
    assert answers(way_to(), "echo \ud800a")[-1].text == "\ufffda"


def test_a_folder_named_from_here_is_found_from_the_process(way_to, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    way = WorkerWay(WorkerSettings(Path("model"), engine=ENGINE))
    answers(way, "echo a")
    assert way.loaded["wish"]["folder"] == str(tmp_path / "model")
    way.close()


PARENT = """
import sys, threading
from pathlib import Path
from napari_ctvqa.core.asking import Ask, Message
from napari_ctvqa.core.events import Tokens
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay
way = WorkerWay(WorkerSettings(Path("model"), engine=Path(sys.argv[1])))
for event in way.ask(Ask((Message("user", (sys.argv[2],)),)), threading.Event()):
    if isinstance(event, Tokens):
        sys.stdout.write(f"{way.pid}\\n")
        sys.stdout.flush()
"""


@posix
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_window_dies_the_worker_and_its_files_go_too(tmp_path, ending):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(ENGINE), "hang"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        pid = int(parent.stdout.readline())
        assert [path.name.startswith(worker.FOLDER_PREFIX) for path in tmp_path.iterdir()] == [True]
    finally:
        parent.send_signal(ending)
        parent.wait(30)
        parent.stdout.close()
    for _ in range(1000):
        if not Path(f"/proc/{pid}").exists() or "Z" in state(pid):
            break
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists() or "Z" in state(pid)
    assert list(tmp_path.iterdir()) == []


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
