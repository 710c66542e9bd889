"""The channel between the window and a worker: who may speak on it, and what."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from napari_ctvqa.runners import worker, worker_process

WORKER = Path(worker.__file__)
ENGINE = Path(__file__).resolve().parents[1] / "stand_in_engine.py"


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    channel = worker.Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_objects_arrive_however_they_are_cut(pair):
    channel, theirs = pair
    data = b'{"a": 1}\n{"b": "x"}\n'
    for position in range(len(data)):
        theirs.sendall(data[position : position + 1])
    assert channel.receive(5) == {"a": 1}
    assert channel.receive(5) == {"b": "x"}
    assert channel.receive(0.01) is None


@pytest.mark.parametrize("line", [b"no JSON\n", b"[1]\n", b'"text"\n', b"\xff\xfe\n", b"\n"])
def test_what_is_no_object_is_refused(pair, line):
    channel, theirs = pair
    theirs.sendall(line)
    with pytest.raises(ValueError):
        channel.receive(5)


def test_an_endless_line_is_refused(pair, monkeypatch):
    monkeypatch.setattr(worker, "MAX_LINE_BYTES", 100_000)
    channel, theirs = pair
    sending = threading.Thread(target=lambda: theirs.sendall(b"x" * 200_000))
    sending.start()
    with pytest.raises(ValueError, match="longer"):
        while True:
            channel.receive(5)
    channel.close()
    theirs.close()
    sending.join(5)


def test_the_end_is_told_apart_from_silence(pair):
    channel, theirs = pair
    theirs.close()
    with pytest.raises(EOFError):
        channel.receive(5)


def test_many_threads_may_send(pair):
    channel, theirs = pair
    text = "z" * 10_000
    threads = [
        threading.Thread(target=lambda n=n: channel.send({"n": n, "text": text})) for n in range(20)
    ]
    other = worker.Channel(theirs)
    for thread in threads:
        thread.start()
    assert {other.receive(5)["n"] for _ in threads} == set(range(20))
    for thread in threads:
        thread.join()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def spawn(listener, token):
    return subprocess.Popen(
        [sys.executable, str(WORKER)],
        env={
            **os.environ,
            worker.CHANNEL: f"127.0.0.1:{listener.getsockname()[1]}",
            worker.TOKEN: token,
            worker.ENGINE: str(ENGINE),
        },
        stderr=subprocess.DEVNULL,
    )


def test_a_worker_serves_nobody_who_does_not_know_the_token(listener):
    process = spawn(listener, "right")
    connection, _ = listener.accept()
    channel = worker.Channel(connection)
    channel.send({"event": "hello", "nonce": "n"})
    hello = channel.receive(30)
    assert hello["proof"] == worker.proof("right", "worker", "n")
    channel.send({"proof": worker.proof("wrong", "client", hello["nonce"])})
    with pytest.raises(EOFError):
        while channel.receive(30) is not None:
            pass
    assert process.wait(30) == 0
    channel.close()


def test_a_proof_is_good_for_one_side_and_one_nonce():
    assert worker.proof("t", "worker", "n") != worker.proof("t", "client", "n")
    assert worker.proof("t", "worker", "n") != worker.proof("t", "worker", "m")


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        json.dumps({"event": "hello", "proof": "0" * 64, "nonce": "n"}).encode() + b"\n",
        json.dumps({"event": "hello", "proof": "\u00e9", "nonce": "n"}).encode() + b"\n",
        b"",
    ],
    ids=["HTTP", "wrong proof", "no ASCII", "nothing"],
)
def test_strangers_are_sent_away_and_the_worker_is_still_awaited(words, monkeypatch):
    """A stranger calls first; the worker is started only when he was."""
    calls = []
    create = worker_process._spawn

    def after_a_stranger(interpreter, variables, folder):
        host, _, port = variables[worker.CHANNEL].rpartition(":")
        stranger = socket.create_connection((host, int(port)))
        stranger.sendall(words)
        if not words:
            stranger.close()
        calls.append(stranger)
        return create(interpreter, variables, folder)

    monkeypatch.setattr(worker_process, "_spawn", after_a_stranger)
    process = worker_process.start(sys.executable, {}, engine=ENGINE)
    try:
        assert calls
        process.send("status")
        assert process.next(30)["event"] == "state"
    finally:
        process.end()
        calls[0].close()


def test_estimate_and_status_are_answered_at_any_time():
    process = worker_process.start(sys.executable, {}, engine=ENGINE)
    try:
        number = process.send("estimate", folder="model")
        event = process.next(30)
        assert (event["id"], event["needed_bytes"], event["free_bytes"]) == (number, 1, 2)
        process.send("load", folder="slow")
        assert process.next(30)["event"] == "status"
        process.send("status")
        assert process.next(30)["event"] == "state"
    finally:
        process.end()


def test_an_unknown_command_is_refused_and_the_next_one_served():
    process = worker_process.start(sys.executable, {}, engine=ENGINE)
    try:
        process.send("format_disk")
        assert process.next(30)["event"] == "failed"
        process.send("estimate", folder="model")
        assert process.next(30)["event"] == "estimate"
    finally:
        process.end()


def test_end_leaves_no_process_and_no_files():
    process = worker_process.start(sys.executable, {}, engine=ENGINE)
    folder = process.folder
    process.end(patience_s=10)
    assert not process.alive()
    assert not folder.exists()
