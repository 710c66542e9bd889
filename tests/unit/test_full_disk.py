"""A disk that takes nothing more: no answer is lost, and the file is named in one line."""

import json

import pytest
import small_benchmark
from evidence_cases import SHAPE, block, case
from scripted_models import PRESET, ScriptedFamily, ScriptedWay

from napari_ctvqa import cli
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.io.append_log import AppendLog
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.desk import answered
from napari_ctvqa.runners.opening import open_path


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def benchmark(tmp_path):
    return small_benchmark.write(tmp_path / "bench")


def fills_after(monkeypatch, entries):
    append, left = AppendLog.append, [entries]

    def appended(self, *rows):
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        append(self, *rows)

    monkeypatch.setattr(AppendLog, "append", appended)


def test_a_batch_ends_in_one_line_and_goes_on_when_there_is_room(
    benchmark, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "r.json"
    line = ["run", str(benchmark), "--model", "rules", "--out", str(out)]
    with monkeypatch.context() as full:
        fills_after(full, 4)
        assert cli.main(line) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert "r.json.partial.jsonl: cannot be written (No space left on device)" in told
    assert len(json.loads(out.read_text())["results"]) == 3
    cli.main(line)
    ids = [row["qid"] for row in json.loads(out.read_text())["results"]]
    assert len(ids) == len(set(ids)) == len(open_path(benchmark).questions)


def test_a_tool_that_breaks_is_one_line_unless_tracebacks_are_asked_for(monkeypatch, capsys):
    cli._log_in_lines()
    for wanted in ("", "1"):
        monkeypatch.setenv("NAPARI_CTVQA_TRACEBACKS", wanted)
        try:
            raise KeyError("a\nb\x1b[31m")
        except KeyError:
            cli.logging.getLogger("napari_ctvqa.any").exception("tool %s failed", "x\ny")
        told = capsys.readouterr().err
        assert told.startswith("napari-ctvqa: tool x y failed (KeyError:")
        assert "\x1b" not in told
        assert ("Traceback" in told) is bool(wanted)


@pytest.mark.parametrize("entries", [0, 1])
def test_an_answer_that_cannot_be_kept_is_shown_and_said_to_be_lost(
    benchmark, monkeypatch, entries
):
    opened = open_path(benchmark)
    model = ModelAnswerer("m", "M", ScriptedFamily(), PRESET, ScriptedWay("A"))
    shown = case({"liver": block(SHAPE, slice(5, 20), slice(10, 30), slice(5, 25))})
    fills_after(monkeypatch, entries)
    steps = answered(model, opened.questions[0], shown, AnswerFormat.MC, opened, "20260101-000000")
    predictions = []
    with pytest.raises(CtvqaError, match=r"shown, but it could not be kept: .*No space") as caught:
        for item in steps:
            predictions += [item.prediction] if item.prediction is not None else []
    assert [p.raw_text for p in predictions] == ["A"]
    assert caught.value.hint
