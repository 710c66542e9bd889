"""SIGKILL at random moments of ``run``: nothing is lost, nothing is asked or written twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_benchmark

ROOT = Path(__file__).resolve().parents[2]
KILLS = 50
QUESTIONS = 4 * 9 * 140
FAILED_SOME = 1
"""How ``run`` ends here: two questions of nine have no answer."""


def start(root: Path, out: Path, config: Path) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NAPARI_CTVQA_CONFIG_DIR": str(config)}
    return subprocess.Popen(
        [sys.executable, "-m", "napari_ctvqa", "run", str(root), "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
    )


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def confirmed(out: Path, partial: Path) -> dict[str, str]:
    """Every answer that is on disk, as text; FILE must be whole at any moment."""
    rows = json.loads(out.read_text())["results"] if out.exists() else []
    lines = partial.read_text().split("\n")[:-1] if partial.exists() else []
    rows += [row for row in map(json.loads, lines) if "qid" in row]
    found: dict[str, str] = {}
    for row in rows:
        text = json.dumps(row, sort_keys=True)
        assert found.setdefault(row["qid"], text) == text, f"{row['qid']} has two answers"
    return found


def kill_while_starting(running: subprocess.Popen, start_s: float, dice: random.Random) -> None:
    time.sleep(dice.uniform(0, start_s))
    running.send_signal(signal.SIGKILL)


def kill_while_answering(running: subprocess.Popen, partial: Path, dice: random.Random) -> None:
    """Kill once the journal has grown by up to some 60 answers, at no particular byte."""
    enough = size(partial) + dice.randrange(1, 50_000)
    while running.poll() is None and size(partial) < enough:
        time.sleep(dice.uniform(0, 0.004))
    running.send_signal(signal.SIGKILL)


def check_finished(out: Path, partial: Path, known: dict[str, str]) -> None:
    """Whoever ended by itself has answered everything once, and changed nothing."""
    data = json.loads(out.read_text())
    ids = [row["qid"] for row in data["results"]]
    assert ids == [f"q{number:06d}" for number in range(QUESTIONS)]
    assert data["n_processed"] == QUESTIONS
    assert data["metrics"]["overall"]["n_total"] == QUESTIONS
    final = {row["qid"]: json.dumps(row, sort_keys=True) for row in data["results"]}
    assert {key: final[key] for key in known} == known, "a finished answer was written again"
    assert not partial.exists()
    assert not [p.name for p in out.parent.iterdir() if "tmp" in p.name]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_fifty_kills_lose_no_answer_and_double_none(tmp_path):
    dice = random.Random(20260830)
    root = small_benchmark.write(tmp_path / "bench", cases=4, rounds=140)
    out, partial = tmp_path / "r.json", tmp_path / "r.json.partial.jsonl"
    known: dict[str, str] = {}
    start_s, kills, caught_answering, ended = 0.5, 0, 0, 0
    while kills < KILLS:
        began = time.monotonic()
        running = start(root, out, tmp_path / "config")
        if kills % 2:
            kill_while_starting(running, start_s, dice)
        else:
            kill_while_answering(running, partial, dice)
            start_s = time.monotonic() - began
        _, said = running.communicate()
        if running.returncode == FAILED_SOME:  # on a busy machine the kill can come too late
            ended += 1
            assert ended < KILLS, "hardly a run could be killed before its end"
            check_finished(out, partial, known)
            out.unlink()
            known = {}
            continue
        assert running.returncode == -signal.SIGKILL, said.decode()
        kills += 1
        now = confirmed(out, partial)
        assert {key: now[key] for key in known} == known, f"kill {kills} lost or changed an answer"
        caught_answering += len(now) > len(known)
        known = now
    assert caught_answering >= KILLS // 3

    running = start(root, out, tmp_path / "config")
    _, said = running.communicate()
    assert running.returncode == FAILED_SOME, said.decode()
    check_finished(out, partial, known)
