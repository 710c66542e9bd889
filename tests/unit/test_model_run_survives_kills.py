"""SIGKILL in the middle of a model's answers: whole answers stay, with what was seen, once each."""

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

from napari_ctvqa.io.seen_files import has_seen, read_events, read_seen, seen_folder

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = 2 * 9 * 3
KILLS = 10
SCRIPT = """
import sys, time
from pathlib import Path
from scripted_models import PRESET, ScriptedFamily, ScriptedWay
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import run_batch
from napari_ctvqa.runners.opening import open_path

opened = open_path(Path(sys.argv[1]))
way = ScriptedWay("A: so it is", after_token=lambda heard: time.sleep(0.004))
model = ModelAnswerer("scripted", "Scripted", ScriptedFamily(), PRESET, way, seed=1)
rows = range(len(opened.questions))
for _ in run_batch(opened, model, AnswerFormat.MC, Path(sys.argv[2]), rows=rows):
    pass
"""


def start(root: Path, out: Path, config: Path) -> subprocess.Popen:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "unit")))
    environment = {**os.environ, "PYTHONPATH": paths, "NAPARI_CTVQA_CONFIG_DIR": str(config)}
    command = [sys.executable, "-c", SCRIPT, str(root), str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)


def answered(out: Path) -> dict[str, str]:
    """Every answer that is on disk, as text; FILE must be whole at any moment."""
    rows = json.loads(out.read_text())["results"] if out.exists() else []
    partial = out.with_name(f"{out.name}.partial.jsonl")
    lines = partial.read_text().split("\n")[:-1] if partial.exists() else []
    rows += [row for row in map(json.loads, lines) if "qid" in row]
    found: dict[str, str] = {}
    for row in rows:
        text = json.dumps(row, sort_keys=True)
        assert found.setdefault(row["qid"], text) == text, f"{row['qid']} has two answers"
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_kills_lose_no_answer_and_leave_no_half_one(tmp_path):
    dice = random.Random(20261130)
    root = small_benchmark.write(tmp_path / "bench", cases=2, rounds=3)
    out = tmp_path / "r.json"
    partial = out.with_name(f"{out.name}.partial.jsonl")
    known: dict[str, str] = {}
    for number in range(KILLS):
        running = start(root, out, tmp_path / "config")
        enough = len(known) + dice.randrange(1, 5)
        while running.poll() is None and len(answered(out)) < enough:
            time.sleep(dice.uniform(0, 0.01))
        time.sleep(dice.uniform(0, 0.05))
        running.send_signal(signal.SIGKILL)
        _, said = running.communicate()
        assert running.returncode == -signal.SIGKILL, said.decode()
        now = answered(out)
        assert {key: now[key] for key in known} == known, f"kill {number} lost or changed an answer"
        for key, row in now.items():
            assert json.loads(row)["raw_output"] == "A: so it is"
            assert has_seen(out, key) and len(read_seen(out, key).requests) == 1
        known = now
    assert KILLS <= len(known) < QUESTIONS

    running = start(root, out, tmp_path / "config")
    _, said = running.communicate()
    assert running.returncode == 0, said.decode()
    assert len(json.loads(out.read_text())["results"]) == QUESTIONS
    assert {key: answered(out)[key] for key in known} == known
    assert not partial.exists()
    names = [p.name for p in seen_folder(out).rglob("*")]
    assert not [name for name in names if name.endswith(".tmp")], "what was torn was cleared"
    assert names.count("ask.json") == QUESTIONS
    assert read_events(out, "q000000")[-1].event.text == "A: so it is"
