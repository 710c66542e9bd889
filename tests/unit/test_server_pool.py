"""Several servers as one: who is asked, what happens to a dead or a slow one, what is counted."""

import json
import threading
import time
from collections import Counter

import pytest
import small_benchmark
from fake_server import FakeServer, delta, event, finished, raw, serving
from scripted_models import PRESET, ScriptedFamily

from napari_ctvqa.core.asking import Ask, Message
from napari_ctvqa.core.events import Again, Done, Failed, FailureKind, Status, Tokens, Warned
from napari_ctvqa.core.live import LiveRun
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.io.seen_files import read_seen
from napari_ctvqa.runners import hosts, server_pool
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import GaveUpError, run_batch
from napari_ctvqa.runners.choices import UnconfirmedHostError, Wanted, answerer_for
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.requests import Facts, Speaker
from napari_ctvqa.runners.server_pool import ServerPool

QUESTIONS = 18
ASK = Ask((Message("user", ("?",)),))
DOWN = Failed(FailureKind.UNREACHABLE, "No server is reachable at dead.", "Start it.")
TOO_LONG = Failed(FailureKind.CONTEXT_TOO_LONG, "The request is too long.", "Send less.")


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


class Stub:
    """A server that says what it is told, after a while; counts who is at it."""

    model = "m"

    def __init__(self, url, *ends, seconds=0.0):
        self.url, self.title, self.host = url, f"{url}, m", ""
        self.ends, self.seconds = list(ends) or [Done("A")], seconds
        self.asked = self.at_work = self.most_at_work = 0
        self._lock = threading.Lock()

    def ask(self, ask, cancelled):
        with self._lock:
            self.asked += 1
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        try:
            yield Tokens("half ")
            if cancelled.wait(self.seconds):
                end = Done("half ", reason="cancelled")
            yield end
        finally:
            with self._lock:
                self.at_work -= 1

    def close(self):
        pass


def said_by(pool, cancelled=None):
    return list(pool.ask(ASK, cancelled or threading.Event()))


def test_what_a_dead_server_could_not_do_another_does_and_says_so():
    dead, well = Stub("dead", DOWN), Stub("well")
    pool = ServerPool([dead, well])
    events = said_by(pool)
    assert [type(one) for one in events] == [Tokens, Again, Warned, Tokens, Done]
    assert events[2].message == f"asked anew, of well, since the first failed: {DOWN.message}"
    assert events[-1] == Done("A", server="well")
    assert [said_by(pool)[-1].server for _ in range(3)] == ["well"] * 3
    assert dead.asked == 1, "it rests, and nobody waits for it"
    assert [(one.answered, one.failed) for one in pool.counts] == [(0, 1), (4, 0)]
    assert pool.counts[0].why == DOWN.message and pool.counts[1].why == ""


def test_a_server_that_comes_back_is_asked_again(monkeypatch):
    monkeypatch.setattr(server_pool, "_FIRST_PAUSE_S", 0.01)
    back = Stub("back", DOWN, Done("A"))
    pool = ServerPool([back, Stub("slow", seconds=0.05)])
    assert said_by(pool)[-1].server == "slow"
    time.sleep(0.02)
    assert said_by(pool)[-1].server == "back"
    assert pool.counts[0].why == ""


def test_words_that_came_before_a_failure_are_no_part_of_the_answer():
    pool = ServerPool([Stub("dead", DOWN), Stub("well", Done("half A"))])
    facts, live = Facts(), LiveRun("q", "m")
    speaker = Speaker(ScriptedFamily(), PRESET, pool, threading.Event())
    asking = speaker.ask(ASK, facts)
    try:
        while True:
            live = live.after(next(asking))
    except StopIteration as ended:
        came = ended.value
    assert (came.text, live.text) == ("half A", "half ")
    assert facts.record("half A")["server"] == "well"
    assert "since the first failed" in facts.record("half A")["note"]


def test_a_failure_of_the_request_itself_is_not_tried_elsewhere():
    other = Stub("other")
    pool = ServerPool([Stub("first", TOO_LONG), other])
    assert said_by(pool)[-1] == TOO_LONG
    assert other.asked == 0 and pool.counts[0].why == ""


def test_with_all_servers_down_the_failure_is_told_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(server_pool, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(server_pool, "_LONGEST_PAUSE_S", 0.02)
    pool = ServerPool([Stub("one", DOWN), Stub("two", DOWN)])
    assert said_by(pool)[-1] == DOWN
    assert all(one.failed for one in pool.counts)


def test_whoever_waits_for_a_server_can_be_stopped(monkeypatch):
    monkeypatch.setattr(server_pool, "_TOLD_EVERY_S", 0.0)
    pool = ServerPool([Stub("one", DOWN)])
    cancelled = threading.Event()
    said = pool.ask(ASK, cancelled)
    assert next(one for one in said if isinstance(one, Status)).text.startswith("No server answers")
    cancelled.set()
    assert list(said)[-1] == Done("", reason="cancelled")


def test_a_slow_server_gets_less_and_none_gets_more_than_its_share():
    slow, fast = Stub("slow", seconds=0.4), Stub("fast", seconds=0.01)
    pool = ServerPool([slow, fast], at_once=2)
    assert pool.width == 4
    todo = iter(range(60))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if next(todo, None) is None:
                    return
            assert said_by(pool)[-1].text == "A"

    threads = [threading.Thread(target=work) for _ in range(pool.width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.asked + fast.asked == 60 and fast.asked > 3 * slow.asked > 0
    assert slow.most_at_work <= 2 and fast.most_at_work == 2


def test_an_overloaded_server_gets_fewer_at_once():
    busy = Failed(FailureKind.LOADING, "Too many requests.", wait_s=0.0)
    server = server_pool._Server(Stub("one"), 8)
    for _ in range(10):
        server.did(0.1)
    assert server.room == 8
    server.did_not(busy)
    assert server.room == 4 and server.again_at > time.monotonic()
    server.did_not(DOWN)
    assert server.room == 1


# ------------------------------------------------------------------------------ a whole run


def everything(pool, root, out):
    opened = open_path(root)
    model = ModelAnswerer("m", "M", ScriptedFamily(), PRESET, pool)
    return list(run_batch(opened, model, AnswerFormat.MC, out, rows=range(len(opened.questions))))


def test_a_run_with_one_dead_and_one_slow_server_finishes(tmp_path):
    root, out = small_benchmark.write(tmp_path / "bench"), tmp_path / "r.json"
    slow, fast, dead = Stub("slow", seconds=0.1), Stub("fast", seconds=0.01), Stub("dead", DOWN)
    last = everything(ServerPool([dead, slow, fast], at_once=2), root, out)[-1]
    rows = json.loads(out.read_text())["results"]
    assert [row["qid"] for row in rows] == [f"q{n:06d}" for n in range(QUESTIONS)]
    assert {row["raw_output"] for row in rows} == {"A"} and last.failed == 0
    seen = [read_seen(out, row["qid"]).requests for row in rows]
    assert all(len(requests[-1].prepared.ask.pictures) == 2 for requests in seen)
    by_server = Counter(row["server"] for row in rows)
    assert set(by_server) == {"slow", "fast"}
    assert {one.url: one.answered for one in last.servers} == {"dead": 0, **by_server}
    metrics = json.loads(out.read_text())["metrics"]
    assert last.scored == QUESTIONS
    assert last.accuracy == pytest.approx(metrics["overall"]["accuracy"], abs=1e-3)


def test_a_run_whose_servers_are_all_dead_gives_up_and_keeps_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(server_pool, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(server_pool, "_LONGEST_PAUSE_S", 0.02)
    root, out = small_benchmark.write(tmp_path / "bench"), tmp_path / "r.json"
    with pytest.raises(GaveUpError, match="No server is reachable at dead"):
        everything(ServerPool([Stub("a", DOWN), Stub("b", DOWN)]), root, out)
    rows = json.loads(out.read_text())["results"]
    assert len(rows) >= 3 and all(row["raw_output"].startswith("[ERROR]") for row in rows)


def test_a_run_that_is_left_keeps_every_answer_that_came_and_goes_on(tmp_path):
    root, out = small_benchmark.write(tmp_path / "bench"), tmp_path / "r.json"
    opened = open_path(root)
    pool = ServerPool([Stub("a", seconds=0.02), Stub("b", seconds=0.02)])
    model = ModelAnswerer("m", "M", ScriptedFamily(), PRESET, pool)
    running = run_batch(opened, model, AnswerFormat.MC, out, rows=range(QUESTIONS))
    told = [next(p for p in running if p.prediction).prediction.question_id for _ in range(3)]
    running.close()
    kept = {row["qid"]: row for row in json.loads(out.read_text())["results"]}
    assert set(told) <= set(kept) and len(kept) < QUESTIONS
    assert not [t for t in threading.enumerate() if t.name.startswith("ctvqa-")]
    *_, last = run_batch(opened, model, AnswerFormat.MC, out, rows=range(QUESTIONS))
    rows = {row["qid"]: row for row in json.loads(out.read_text())["results"]}
    assert last.done == len(rows) == QUESTIONS
    assert all(rows[key] == row for key, row in kept.items())


# ---------------------------------------------------------------------------- real addresses


def chat(text="A", model="qwen3-vl-x"):
    """A server as vLLM is one: lists its model, counts the tokens of pictures."""

    def reply(received, connection):
        if received.method == "GET":
            listing = {"data": [{"id": model, "owned_by": "vllm"}]}
            raw(200, "application/json", json.dumps(listing).encode())(received, connection)
            return
        tokens = 4000 * received.content.count(b'"image_url":') + 1000
        pieces = [event(delta(content=text)), event(finished(prompt_tokens=tokens))]
        raw(200, "text/event-stream", *pieces, b"data: [DONE]\n\n")(received, connection)

    return reply


def test_servers_of_the_command_line_share_the_questions(tmp_path, capfd):
    from napari_ctvqa.cli import main

    root, out = small_benchmark.write(tmp_path / "bench", cases=1), tmp_path / "r.json"
    gone = FakeServer(chat())
    gone.close()
    with serving(chat()) as one, serving(chat()) as two:
        code = main(
            ["run", str(root), "--model", "qwen3-vl", "--slices", "1", "--out", str(out), "--json"]
            + [word for url in (gone.url, one.url, two.url) for word in ("--server", url)]
        )
        asked = {server.url: server.received for server in (one, two)}
    assert code == 0
    summary = json.loads(capfd.readouterr().out)
    rows = json.loads(out.read_text())["results"]
    by_server = Counter(row["server"] for row in rows)
    assert len(rows) == 9 and set(by_server) == set(asked)
    told = {row["url"]: (row["answered"], row["failed"] > 0) for row in summary["servers"]}
    assert told == {gone.url: (0, True), **{url: (n, False) for url, n in by_server.items()}}


def test_servers_of_the_command_line_share_the_probes(tmp_path, capfd):
    from napari_ctvqa.cli import main

    root, out = small_benchmark.write(tmp_path / "bench", cases=1), tmp_path / "p.json"
    with serving(chat()) as one, serving(chat()) as two:
        code = main(
            ["probe", str(root), "--model", "qwen3-vl", "--slices", "1", "--out", str(out)]
            + ["--probe", "mirrored,shuffled", "--at-once", "3", "--json"]
            + [word for url in (one.url, two.url) for word in ("--server", url)]
        )
        asked = [sum(r.method == "POST" for r in server.received) for server in (one, two)]
    assert code == 0
    summary = json.loads(capfd.readouterr().out)
    rows = json.loads(out.read_text())["results"]
    assert (summary["n_processed"], summary["failed"], len(rows)) == (27, 0, 27)
    assert min(asked) > 0
    assert [row["probe"] for row in rows[:3]] == ["original", "mirrored", "shuffled"]


def test_each_host_of_a_pool_is_confirmed_by_itself(tmp_path):
    opened = open_path(small_benchmark.write(tmp_path / "bench", cases=1))
    both = Wanted("qwen3-vl", server="http://gpu7:8000/v1, http://gpu8:8000", server_model="x/y")
    for host in ("gpu7", "gpu8"):
        with pytest.raises(UnconfirmedHostError) as caught:
            answerer_for(both, opened)
        assert caught.value.host == host
        hosts.confirm(host)
    made = answerer_for(both, opened)
    assert made.way.urls == ("http://gpu7:8000/v1", "http://gpu8:8000/v1")
    assert (made.host, made.width) == ("gpu7, gpu8", 8)
    assert answerer_for(Wanted("qwen3-vl", server="gpu7", server_model="x"), opened).width == 1
