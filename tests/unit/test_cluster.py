"""Runs and validations on a cluster: same result, one file, nothing lost with a worker."""

import csv
import importlib.util
import json
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import small_benchmark
from fake_server import serving
from test_server_pool import chat

from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Outlined, Sent
from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.extensions import families
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.seen_files import has_seen, read_events, read_seen, seen_folder
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners import cluster_work
from napari_ctvqa.runners.batch import run_batch
from napari_ctvqa.runners.choices import Wanted, answerer_for
from napari_ctvqa.runners.cluster import Cluster, ClusterError
from napari_ctvqa.runners.cluster_answers import ClusterAnswers, answers_on, checking
from napari_ctvqa.runners.desk import batch_answers
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.sight import saw_reports
from napari_ctvqa.runners.validate import validate

distributed = pytest.importorskip("distributed", reason="needs the extra scale")

CASES, QUESTIONS = 4, 4 * 9 * 3


@pytest.fixture(scope="module", autouse=True)
def own_config(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="module")
def cluster():
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), Cluster("local:2") as made:
        yield made


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return small_benchmark.write(tmp_path_factory.mktemp("bench"), cases=CASES, rounds=3)


def rows_of(out):
    rows = json.loads(Path(out).read_text())["results"]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def batch(bench, out, elsewhere=None, answerer=MODEL, rows=range(QUESTIONS), **options):
    opened = open_path(bench)
    return run_batch(
        opened, answerer, AnswerFormat.MC, out, rows=rows, elsewhere=elsewhere, **options
    )


def worker_pids(cluster):
    return dict(cluster._client.run(os.getpid))


def killing_one_at_work(cluster):
    """Begin to look for a worker that has a task, in a thread; return the thread, and who died."""
    cluster._client.wait_for_workers(2, timeout=60)
    pids, killed = worker_pids(cluster), []

    def kill():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            at_work = [one for one, tasks in cluster._client.processing().items() if tasks]
            if at_work:
                os.kill(pids[at_work[0]], signal.SIGKILL)
                killed.append(at_work[0])

    thread = threading.Thread(target=kill)
    thread.start()
    return thread, killed


def test_a_cluster_answers_and_checks_as_one_process_does(cluster, bench, tmp_path):
    alone, shared = tmp_path / "alone.json", tmp_path / "shared.json"
    *_, one = batch(bench, alone)
    *_, two = batch(bench, shared, ClusterAnswers(cluster, Wanted("rules")))
    assert rows_of(alone) == rows_of(shared)
    assert (one.done, one.failed, one.accuracy) == (two.done, two.failed, two.accuracy)
    assert json.loads(alone.read_text())["metrics"] == json.loads(shared.read_text())["metrics"]
    tables = tmp_path / "alone.csv", tmp_path / "shared.csv"
    list(validate(open_path(bench), range(QUESTIONS), out=tables[0]))
    list(validate(open_path(bench), range(QUESTIONS), out=tables[1], elsewhere=checking(cluster)))
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_a_run_that_is_left_goes_on_and_asks_nothing_twice(cluster, bench, tmp_path):
    out = tmp_path / "r.json"
    running = batch(bench, out, ClusterAnswers(cluster, Wanted("rules")))
    next(step for step in running if step.prediction)
    running.close()
    kept = {row["qid"]: row for row in json.loads(out.read_text())["results"]}
    assert 0 < len(kept) < QUESTIONS
    *_, last = batch(bench, out, ClusterAnswers(cluster, Wanted("rules")))
    rows = {row["qid"]: row for row in json.loads(out.read_text())["results"]}
    assert last.done == len(rows) == QUESTIONS
    assert {key: rows[key] for key in kept} == kept


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_worker_loses_nothing_and_nothing_is_counted_twice(cluster, bench, tmp_path):
    out, table = tmp_path / "r.json", tmp_path / "c.csv"
    answered = batch(bench, out, ClusterAnswers(cluster, Wanted("rules")))
    checked = validate(open_path(bench), range(QUESTIONS), out=table, elsewhere=checking(cluster))
    for steps in (answered, checked):
        next(steps)
        thread, killed = killing_one_at_work(cluster)
        *_, last = steps
        thread.join()
        assert len(killed) == 1
        assert (last.done, last.total) == (QUESTIONS, QUESTIONS)
    ids = [row["qid"] for row in rows_of(out)]
    assert ids == [f"q{number:06d}" for number in range(QUESTIONS)]
    with table.open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ids
    alone = tmp_path / "alone.json"
    list(batch(bench, alone))
    assert rows_of(out) == rows_of(alone)


def die(task):
    os._exit(9)


@pytest.mark.slow
def test_a_task_that_its_workers_die_of_is_an_error_and_the_rest_goes_on(cluster):
    (came,) = [one for one in cluster.run(die, iter([("q", {})])) if one is not None]
    assert (came.key, came.kept_out) == ("q", False)
    assert str(came.error).startswith("the workers that were given it ended, one after the other.")
    assert [one.value for one in cluster.run(len, iter([("q", {})])) if one is not None] == [2]


def test_what_a_model_saw_on_a_worker_lies_beside_the_one_file(cluster, bench, tmp_path):
    with serving(chat()) as server:
        wanted = Wanted("qwen3-vl", server=server.url, settings={"max_slices": 2})
        model = answerer_for(wanted, open_path(bench))
        out, plain = tmp_path / "r.json", tmp_path / "plain.json"
        elsewhere = ClusterAnswers(cluster, wanted)
        *_, last = batch(bench, out, elsewhere, model, rows=range(10))
        *_, alone = batch(bench, plain, None, model, rows=range(10))
    assert (last.done, last.failed) == (alone.done, alone.failed) == (10, 0)
    kept = json.loads(out.read_text())
    assert kept["config"]["model_id"] == "qwen3-vl-x" and kept["software"]["server"] == "vLLM"
    for number in range(10):
        key = f"q{number:06d}"
        assert has_seen(out, key)
        ours, theirs = (read_seen(path, key).requests[0].prepared.ask for path in (out, plain))
        assert [(p.pixels == q.pixels).all() for p, q in
                zip(ours.pictures, theirs.pictures, strict=True)] == [True, True]  # fmt: skip
    assert not list(seen_folder(out).rglob("*.tmp"))


class Outliner:
    """As a volume model answers with a mask: sees M3D's volume, outlines the spleen."""

    name = "outliner"

    def wanted_masks(self, question):
        return ("spleen",)

    def answer(self, question, case, answer_format):
        family = families()["m3d"]
        preset = next(iter(family.presets.values()))
        yield Sent(family.prepare(preset, question, case, answer_format, {}))
        region = case.masks["spleen"].region
        yield Outlined(Mask("M3D: spleen", "spleen", Source.PREDICTED, region, region))
        yield Done("It is [SEG].")
        yield Prediction(question.id, self.name, "A")


def outliner(opened, wanted):
    return Outliner()


def stand_in():
    cluster_work.usual_answerer, cluster_work._answerer = cluster_work._answerer, outliner


def stand_out():
    cluster_work._answerer = cluster_work.usual_answerer


def test_what_a_volume_model_outlined_on_a_worker_is_shown_from_the_one_file(
    cluster, bench, tmp_path
):
    out, alone = tmp_path / "r.json", tmp_path / "alone.json"
    cluster._client.run(stand_in)
    try:
        list(batch(bench, out, ClusterAnswers(cluster, Wanted("rules")), Outliner(), rows=[0, 9]))
    finally:
        cluster._client.run(stand_out)
    list(batch(bench, alone, None, Outliner(), rows=[0, 9]))
    ours, theirs = (
        {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        for folder in (seen_folder(out), seen_folder(alone))
    )
    assert ours == theirs and len([path for path in ours if path.name == "masks.npz"]) == 2
    opened = open_path(bench)
    run = opened.read_results(out)
    for question in (opened.questions[0], opened.questions[9]):
        case = read_case(opened.case_files(question.case_id))
        (saw,) = saw_reports(opened, question, case, None, {run.model: run}, None)
        assert [mask.name for mask in saw.masks] == ["M3D: spleen"] and not saw.problem
        spleen = case.masks["spleen"].region
        assert saw.masks[0].region.box_zyx == spleen.box_zyx
        assert (saw.masks[0].region.crop_zyx == spleen.crop_zyx).all()
        assert saw.volume is not None and len(saw.slices) == 32
        assert [type(one.event).__name__ for one in read_events(out, question.id)] == [
            "Sent",
            "Done",
        ]


def test_a_worker_that_lacks_the_files_is_named_before_anything_is_done(cluster, bench, tmp_path):
    with pytest.raises(ClusterError, match=r"worker tls://\S+ does not find .*at the same path"):
        cluster.prepare(cluster_work.can_check, {}, tmp_path / "only here.nii.gz")
    task = {"case": {"id": "x", "ct": str(tmp_path / "gone.nii.gz"), "masks": []}}
    (came,) = [one for one in cluster.run(cluster_work.checks, iter([(1, task)])) if one]
    assert "a worker does not find" in str(came.error) and came.kept_out
    with pytest.raises(ClusterError, match="cannot do this: no model is called 'nobody'"):
        list(batch(bench, tmp_path / "r.json", ClusterAnswers(cluster, Wanted("nobody"))))


def test_a_case_that_is_nowhere_fails_its_questions_alone(cluster, bench, tmp_path):
    data = json.loads((bench / "benchmark" / "test_qa.json").read_text())
    data["questions"][0]["image_id"] = "BDMAP_00000999"
    other = tmp_path / "other"
    (other / "benchmark").mkdir(parents=True)
    (other / "benchmark" / "ct").symlink_to(bench / "benchmark" / "ct")
    (other / "benchmark" / "test_qa.json").write_text(json.dumps(data))
    out, alone = tmp_path / "r.json", tmp_path / "alone.json"
    list(batch(other, out, ClusterAnswers(cluster, Wanted("rules")), rows=range(5)))
    list(batch(other, alone, rows=range(5)))
    assert rows_of(out)[0]["raw_output"].startswith("[ERROR] not any CT of case")
    assert rows_of(out) == rows_of(alone)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("bench/questions.json", "is no address of a scheduler"),
        ("local:none", "is no address of a scheduler"),
        ("tcp://user:key@head:8786", "is no address of a scheduler"),
    ],
)
def test_what_is_no_address_is_said(address, said):
    with pytest.raises(ClusterError, match=said):
        Cluster(address)


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match=r"pip install 'napari-ctvqa\[scale\]'"):
        Cluster("local")


def test_a_scheduler_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("napari_ctvqa.runners.cluster._CONNECT_S", 1.0)
    with pytest.raises(ClusterError, match=r"No scheduler answers at tcp://127\.0\.0\.1:9"):
        Cluster("tcp://127.0.0.1:9").__enter__()


@pytest.mark.slow
def test_the_window_s_run_is_done_by_a_cluster_of_its_own(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    opened, wanted = open_path(bench), Wanted("rules")
    with answers_on("", wanted, MODEL) as none:
        assert none is None
    begun, *reports = batch_answers(
        lambda: MODEL, opened, AnswerFormat.MC, list(range(9)), assume_none=False,
        elsewhere=partial(answers_on, "local:1", wanted), cluster="local:1",
    )  # fmt: skip
    out = tmp_path / "alone.json"
    list(batch(bench, out, rows=range(9)))
    assert reports[-1].done == 9 and rows_of(begun.path) == rows_of(out)


def test_errors_of_workers_survive_the_way_to_the_client():
    import pickle

    error = pickle.loads(pickle.dumps(cluster_work.not_found("/x")))
    assert isinstance(error, CtvqaError) and error.hint == cluster_work.not_found("/x").hint


def test_a_cluster_leaves_no_thread_and_no_process_behind():
    with Cluster("local:1") as made:
        (pid,) = worker_pids(made).values()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not [t for t in threading.enumerate() if t.name.startswith("ctvqa")]
