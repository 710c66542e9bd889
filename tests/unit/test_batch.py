import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_benchmark
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay

from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.core.records import AnswerFormat, Prediction, ToolCall, ToolResult, Turn
from napari_ctvqa.io.result_journal import ResultJournal
from napari_ctvqa.io.seen_files import has_seen, read_events, read_seen
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners import batch, batch_progress
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import GaveUpError, run_batch
from napari_ctvqa.runners.kits import open_kit
from napari_ctvqa.runners.opening import open_path

PER_CASE = 9
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def benchmark(tmp_path):
    return small_benchmark.write(tmp_path / "bench")


class Scripted:
    """Answers A to everything, or fails as told; remembers what it was asked."""

    name = "scripted"
    title = "Scripted"

    def __init__(self, fail=None):
        self.asked = []
        self.fail = fail

    def wanted_masks(self, question):
        return ("liver",)

    def answer(self, question, case, answer_format):
        self.asked.append(question.id)
        yield Turn(1, ToolCall("segment_organ", {"target": "liver"}), ToolResult({"voxels": 1}))
        if self.fail is not None:
            raise self.fail
        yield Prediction(question.id, self.name, "A")


def everything(opened, answerer, out, *, rows=None, answer_format=AnswerFormat.MC, **options):
    rows = range(len(opened.questions)) if rows is None else rows
    return list(run_batch(opened, answerer, answer_format, out, rows=rows, **options))


def saved(out):
    return json.loads(out.read_text())


def test_both_formats_are_answered_right_where_the_reference_is_known(benchmark, tmp_path):
    expected = {
        AnswerFormat.MC: ["A", None, "A", "A", "A", "B", "B", "C", None],
        AnswerFormat.FREEFORM: ["Yes", None, *small_volumes(), "60.0", "1", "Normal", None],
    }
    opened = open_path(benchmark)
    for answer_format, answers in expected.items():
        out = tmp_path / f"{answer_format}.json"
        everything(opened, MODEL, out, answer_format=answer_format)
        rows = saved(out)["results"]
        assert [r["qid"] for r in rows] == list(opened.questions.frame["id"])
        for row, answer in zip(rows, answers * 2, strict=True):
            if answer is None:
                assert row["raw_output"].startswith("[ERROR] ")
            else:
                assert row["raw_output"] == answer
        assert rows[1]["raw_output"] == "[ERROR] no mask for colon_lesion"
        assert rows[8]["raw_output"] == "[ERROR] no mask for colon"


def small_volumes():
    rows = small_benchmark.questions_of("x", 0)
    return [r["answer"] for r in rows if r["question_subtype"] == "organ volume measurement"]


def test_the_file_has_the_benchmarks_layout(benchmark, tmp_path):
    out = tmp_path / "r.json"
    everything(open_path(benchmark), MODEL, out)
    data = saved(out)
    assert data["n_processed"] == len(data["results"]) == 2 * PER_CASE
    assert set(data["metrics"]) >= {"overall", "by_super_type", "by_subtype"}
    volume = data["results"][2]
    assert list(volume)[:8] == [
        "qid",
        "image_id",
        "question_subtype",
        "question_type",
        "raw_output",
        "pred_answer",
        "correct_option",
        "answer",
    ]
    assert volume["pred_answer"] == volume["raw_output"]
    segment, measure, final = volume["trajectory"]
    assert segment["tool"] == "segment_organ"
    assert segment["arguments"] == {"target": "kidney_left", "image_id": "BDMAP_00000001"}
    assert set(measure) == {"step", "tool", "arguments", "result"}
    assert measure["result"]["value"] == pytest.approx(float(volume["answer"]), abs=0.05)
    assert final == {"step": 3, "final_answer": "A"}
    assert data["results"][1]["trajectory"][-1] == {"step": 2, "error": "no mask for colon_lesion"}


def test_the_file_says_how_it_was_made(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    everything(opened, MODEL, out, rows=[0], answer_format=AnswerFormat.FREEFORM)
    run = opened.read_results(out)
    assert (run.model, run.answer_format) == ("rules", AnswerFormat.FREEFORM)
    assert saved(out)["kit"] == "live" and saved(out)["software"]["napari-ctvqa"]
    foreign = saved(out)
    del foreign["answer_format"], foreign["model"]
    out.write_text(json.dumps(foreign))
    assert opened.read_results(out).answer_format is None


def test_what_is_answered_is_not_asked_again(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    first = Scripted()
    everything(opened, first, out, rows=range(5))
    assert len(first.asked) == 5
    before = {r["qid"]: r for r in saved(out)["results"]}
    second = Scripted()
    last = everything(opened, second, out)[-1]
    assert len(second.asked) == 2 * PER_CASE - 5 and not set(second.asked) & set(first.asked)
    assert (last.done, last.total, last.failed) == (18, 18, 0)
    after = {r["qid"]: r for r in saved(out)["results"]}
    assert len(after) == 18 and all(after[key] == row for key, row in before.items())
    third = Scripted()
    everything(opened, third, out)
    assert third.asked == []


def test_closing_the_batch_keeps_what_was_answered(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    running = run_batch(opened, Scripted(), AnswerFormat.MC, out, rows=range(18))
    made = []
    for progress in running:
        made += [progress.prediction.question_id] if progress.prediction else []
        if len(made) == 4:
            break
    running.close()
    assert [r["qid"] for r in saved(out)["results"]] == made
    assert "metrics" not in saved(out)
    rest = Scripted()
    everything(opened, rest, out)
    assert len(rest.asked) == 14 and len(saved(out)["results"]) == 18


def test_each_case_is_read_once_and_only_its_wanted_masks(benchmark, tmp_path, monkeypatch):
    read = []
    real = batch.read_case

    def counting(files, *, wanted=None):
        case = real(files, wanted=wanted)
        read.append((files.case_id, sorted(case.masks)))
        return case

    monkeypatch.setattr(batch, "read_case", counting)
    everything(open_path(benchmark), Scripted(), tmp_path / "r.json")
    assert read == [("BDMAP_00000001", ["liver"]), ("BDMAP_00000002", ["liver"])]


def test_a_damaged_case_fails_its_questions_and_the_next_case_is_answered(benchmark, tmp_path):
    ct = benchmark / "benchmark/ct/BDMAP_00000001/ct.nii.gz"
    whole = ct.read_bytes()
    ct.write_bytes(whole[: len(whole) // 2])
    opened, out = open_path(benchmark), tmp_path / "r.json"
    last = everything(opened, MODEL, out)[-1]
    rows = saved(out)["results"]
    for row in rows[:PER_CASE]:
        assert row["raw_output"].startswith("[ERROR] ") and "ct.nii.gz" in row["raw_output"]
    assert rows[PER_CASE]["raw_output"] == "A"
    assert last.failed == PER_CASE + 2
    ct.write_bytes(whole)
    unchanged = everything(opened, MODEL, out)[-1]
    assert unchanged.failed == PER_CASE + 2, "errors are kept unless a retry is asked for"
    retried = everything(opened, MODEL, out, retry_errors=True)[-1]
    assert retried.failed == 4
    assert saved(out)["results"][0]["raw_output"] == "A"


def test_a_damaged_mask_fails_the_questions_that_need_it(benchmark, tmp_path):
    mask = benchmark / "benchmark/ct/BDMAP_00000001/segmentations/spleen.nii.gz"
    mask.write_bytes(b"no gzip at all")
    out = tmp_path / "r.json"
    everything(open_path(benchmark), MODEL, out)
    rows = saved(out)["results"]
    assert rows[0]["raw_output"] == "A"
    assert rows[4]["raw_output"].startswith("[ERROR] no mask for spleen: ")
    assert "spleen.nii.gz" in rows[4]["raw_output"]
    assert rows[4]["trajectory"][-1]["error"].startswith("no mask for spleen: ")
    assert str(mask) in rows[4]["trajectory"][-1]["error"]


def test_an_absent_case_is_named_and_the_queue_goes_on(benchmark, tmp_path):
    (benchmark / "benchmark/ct/BDMAP_00000001").rename(tmp_path / "elsewhere")
    out = tmp_path / "r.json"
    everything(open_path(benchmark), MODEL, out)
    rows = saved(out)["results"]
    assert rows[0]["raw_output"].startswith("[ERROR] not any CT of case BDMAP_########")
    assert rows[0]["image_id"] == "BDMAP_00000001"
    assert "no CT of case BDMAP_00000001" in rows[0]["trajectory"][-1]["error"]
    assert rows[PER_CASE]["raw_output"] == "A"


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (CtvqaError("the server is down.", hint="Start it."), "the server is down. Start it."),
        (ValueError("odd"), "ValueError: odd"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_failing_answerer_gives_error_rows_with_what_it_did(
    benchmark, tmp_path, failure, sentence
):
    out = tmp_path / "r.json"
    everything(open_path(benchmark), Scripted(failure), out, rows=[0])
    row = saved(out)["results"][0]
    assert row["raw_output"] == f"[ERROR] {sentence}"
    assert [sorted(entry) for entry in row["trajectory"]] == [
        ["arguments", "result", "step", "tool"],
        ["error", "step"],
    ]


def test_an_answerer_that_gives_no_answer_is_an_error(benchmark, tmp_path):
    class Silent(Scripted):
        def answer(self, question, case, answer_format):
            return iter(())

    out = tmp_path / "r.json"
    everything(open_path(benchmark), Silent(), out, rows=[0])
    assert saved(out)["results"][0]["raw_output"].startswith("[ERROR] scripted ended")


def test_the_file_of_another_format_is_refused(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    everything(opened, Scripted(), out, rows=[0])
    before = out.read_bytes()
    with pytest.raises(InputFileError, match="answer_format"):
        everything(opened, Scripted(), out, answer_format=AnswerFormat.FREEFORM)
    assert out.read_bytes() == before


def test_a_case_without_questions_cannot_be_run(benchmark, tmp_path):
    opened = open_path(benchmark / "benchmark/ct/BDMAP_00000001")
    with pytest.raises(CtvqaError, match="no questions"):
        list(run_batch(opened, MODEL, AnswerFormat.MC, tmp_path / "r.json", rows=[]))


def test_the_questions_of_a_plain_table_are_run_too(tmp_path):
    import phantoms

    phantoms.save_case(tmp_path / "cases" / "patient_7")
    table = tmp_path / "mine.csv"
    table.write_text(
        "id,case,question,A,B,answer,correct,subtype\n"
        "one,patient_7,Does the liver have any lesion?,Yes,No,Yes,A,liver lesion existence\n"
    )
    out = tmp_path / "r.json"
    opened = open_path(table, roots=[tmp_path / "cases"])
    everything(opened, MODEL, out)
    row = saved(out)["results"][0]
    assert (row["qid"], row["image_id"], row["raw_output"]) == ("one", "patient_7", "A")


# ------------------------------------------------------------------------------- command line


def command(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "napari_ctvqa", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
        **options,
    )


def test_exit_codes_and_the_json_summary(benchmark, tmp_path):
    out = tmp_path / "r.json"
    one = command(benchmark, "--out", out, "--limit", 1, "--json")
    assert one.returncode == 0, one.stderr
    summary = json.loads(one.stdout)
    assert (summary["n_processed"], summary["failed"], summary["out"]) == (1, 0, str(out))
    assert summary["metrics"]["overall"]["accuracy"] == 1.0
    every = command(benchmark, "--out", out)
    assert every.returncode == 1 and "4 failed" in every.stdout
    slow_machine = re.compile(r"napari-ctvqa: \d+ of \d+")
    told = [line for line in every.stderr.splitlines() if not slow_machine.match(line)]
    assert all(line.startswith("napari-ctvqa: ") and " failed: " in line for line in told)
    assert sum(int(line.split()[1]) for line in told) == 4
    assert not [line for line in told if "#" in line], "the sentence, not the row's text of it"
    volumes = command(
        benchmark, "--out", tmp_path / "v.json", "--where", 'subtype:"organ volume measurement"'
    )
    assert volumes.returncode == 0, volumes.stderr
    assert saved(tmp_path / "v.json")["n_processed"] == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nobody"], "no model is called 'nobody'; there are rules"),
        (["--kit", "magic"], "no tool kit 'magic'"),
        (["--where", "subtype:nothing"], "no question of"),
    ],
)
def test_what_cannot_be_done_is_one_line(benchmark, tmp_path, arguments, said):
    done = command(benchmark, "--out", tmp_path / "r.json", *arguments)
    assert done.returncode == 1
    assert said in done.stderr and done.stderr.count("\n") == 1
    as_json = command(benchmark, "--out", tmp_path / "r.json", "--json", *arguments)
    assert said in json.loads(as_json.stdout)["error"]["message"]
    assert not (tmp_path / "r.json").exists()


def test_a_count_of_zero_is_wrong_usage(benchmark, tmp_path):
    assert command(benchmark, "--out", tmp_path / "r.json", "--limit", 0).returncode == 2


def test_running_loads_no_toolkit_and_nothing_heavy(benchmark, tmp_path):
    code = (
        "import sys; from napari_ctvqa.cli import main; "
        f"code = main(['run', {str(benchmark)!r}, '--out', {str(tmp_path / 'r.json')!r}]); "
        "print(code, sorted(set(m.split('.')[0] for m in sys.modules) & "
        "{'napari', 'qtpy', 'vispy', 'PySide6', 'skimage', 'torch', 'matplotlib', 'SimpleITK'}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "1 []"


def test_ctrl_c_keeps_what_is_done(tmp_path):
    root = small_benchmark.write(tmp_path / "bench", cases=2, rounds=400)
    out = tmp_path / "r.json"
    partial = tmp_path / "r.json.partial.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        [sys.executable, "-m", "napari_ctvqa", "run", str(root), "--out", str(out)],
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        # A shell that runs the tests in the background makes its children ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (partial.exists() and partial.stat().st_size > 20_000):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "what was finished is kept" in said and "Traceback" not in said
    kept = saved(out)["results"]
    assert 0 < len(kept) < 7200
    assert len({row["qid"] for row in kept}) == len(kept)


def test_progress_says_count_rate_and_time_left():
    from napari_ctvqa.commands._progress import duration, progress_line

    line = progress_line(batch.BatchProgress(120, 400, 2, None, "", 9.2, 31.46))
    assert line == "120 of 400, 2 failed, 31.5 a second, 9 s left"
    assert [duration(s) for s in (99, 150, 9000)] == ["99 s", "2 min", "2.5 h"]


# ------------------------------------------------------------------------------ model answerers


def asked_model(*script, **options):
    way = ScriptedWay(*script)
    return ModelAnswerer("scripted", "Scripted", ScriptedFamily(), PRESET, way, **options)


def test_a_models_rows_tell_what_it_took_and_the_file_how_it_was_asked(benchmark, tmp_path):
    out = tmp_path / "r.json"
    everything(open_path(benchmark), asked_model("<think>B?</think>A", seed=3), out)
    data = saved(out)
    assert data["config"]["seed"] == 3 and data["config"]["preset"]["dialect"] == "hermes"
    assert data["software"]["torch"] == "1.0"
    row = data["results"][0]
    assert (row["raw_output"], row["whole_text"]) == ("A", "<think>B?</think>A")
    assert row["usage"]["new_tokens"] == 3
    run = open_path(benchmark).read_results(out)
    assert run.predictions[row["qid"]].record["whole_text"] == "<think>B?</think>A"


def test_another_configuration_is_refused_by_what_differs(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    everything(opened, asked_model("A", seed=3), out, rows=[0])
    with pytest.raises(InputFileError, match=r"made with seed 3, this run has 4"):
        everything(opened, asked_model("A", seed=4), out, rows=[1])
    more = asked_model("A", seed=3, settings={"max_slices": 1})
    with pytest.raises(InputFileError, match=r"settings.max_slices None, this run has 1"):
        everything(opened, more, out, rows=[1])
    elsewhere = asked_model("A", seed=3)
    elsewhere.way.host = "gpu8"
    everything(opened, elsewhere, out, rows=[1])
    assert len(saved(out)["results"]) == 2, "the same model on another host goes on"


def test_a_cancelled_run_keeps_whole_answers_only_and_goes_on(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    model = asked_model("A", "A", "A: I am")
    model.way.after_token = lambda heard: heard == "A: " and model.cancelled.set()
    everything(opened, model, out)
    assert [row["raw_output"] for row in saved(out)["results"]] == ["A", "A"]
    assert "metrics" not in saved(out)
    last = everything(opened, asked_model("B"), out)[-1]
    assert (last.done, last.failed) == (2 * PER_CASE, 0)
    assert [row["raw_output"] for row in saved(out)["results"]].count("B") == 2 * PER_CASE - 2


def test_an_agent_is_given_every_mask(benchmark, tmp_path):
    opened, seen = open_path(benchmark), []

    def kit_of(shown):
        seen.append(set(shown.masks))
        return open_kit(opened, "oracle", shown)

    agent = asked_model("A", mode="agent", kit="oracle", kit_of=kit_of)
    everything(opened, agent, tmp_path / "r.json", rows=[0])
    assert seen[0] >= {"liver", "spleen", "kidney_left", "kidney_right", "liver_lesion"}
    assert saved(tmp_path / "r.json")["kit"] == "oracle"


def test_what_was_seen_lies_beside_the_file_before_the_answer_is_in_it(benchmark, tmp_path):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    there = []

    class Watched(ResultJournal):
        def add(self, row):
            there.append(has_seen(out, row["qid"]))
            super().add(row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "ResultJournal", Watched)
        everything(opened, asked_model("A"), out, rows=[0, 1])
    assert there == [True, True]
    shown = read_seen(out, "q000000").requests[0].prepared.ask.pictures
    assert [one.label for one in shown] == ["SLICE 1", "SLICE 2"]
    everything(opened, MODEL, tmp_path / "rules.json", rows=[0])
    assert not (tmp_path / "rules.json.seen").exists(), "the rule agent sends nothing"


def test_a_run_left_in_the_middle_of_an_answer_keeps_what_had_come_as_no_answer(
    benchmark, tmp_path
):
    opened, out = open_path(benchmark), tmp_path / "r.json"
    items = run_batch(opened, asked_model("A: so"), AnswerFormat.MC, out, rows=[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_progress, "SHOWN_EVERY_S", 0)
        for item in items:
            if item.words == "A: ":
                break
    items.close()
    assert saved(out)["results"] == []
    assert [one.event.text for one in read_events(out, "q000000")[2:]] == ["A: "]
    assert everything(opened, asked_model("B"), out, rows=[0])[-1].done == 1
    assert read_events(out, "q000000")[-1].event.text == "B"


def test_the_words_of_a_running_answer_are_told_now_and_then(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(batch_progress, "SHOWN_EVERY_S", 0)
    items = everything(open_path(benchmark), asked_model("A: yes"), tmp_path / "r", rows=[0])
    words = [item.words for item in items if item.words]
    assert "reading the prompt" in words and "A: yes" in "".join(words)


def test_a_run_that_gives_up_says_what_to_do_also_where_there_is_no_command_line(
    benchmark, tmp_path
):
    parts = ("scripted", "Scripted", ScriptedFamily(), PRESET, ScriptedWay(UNREACHABLE))
    with pytest.raises(GaveUpError, match="3 questions in a row") as caught:
        everything(open_path(benchmark), ModelAnswerer(*parts), tmp_path / "r.json")
    assert caught.value.hint.startswith(UNREACHABLE.hint)
    assert "--" not in caught.value.hint
