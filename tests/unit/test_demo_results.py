"""The demo's invented models and tool cache: layout, mistakes of every kind, true tool results."""

import json
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from napari_ctvqa import demo
from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core.records import AnswerFormat, Outcome

MODELS = ("demo-agent", "demo-direct")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.ensure_demo(tmp_path_factory.getbasetemp() / "the demo")


@pytest.fixture(scope="module")
def questions(root: Path) -> dict[str, dict]:
    data = json.loads((root / "benchmark/test_qa.json").read_text(encoding="utf-8"))
    return {record["qid"]: record for record in data["questions"]}


def results(root: Path, model: str) -> dict[str, dict]:
    data = json.loads((root / "results" / f"{model}.json").read_text(encoding="utf-8"))
    assert data["n_processed"] == len(data["results"])
    return {row["qid"]: row for row in data["results"]}


@pytest.fixture(scope="module")
def agent(root: Path) -> dict[str, dict]:
    return results(root, "demo-agent")


def calls(row: dict) -> list[tuple[str, str]]:
    """Return tool and target (or query) of each call."""
    tools = [entry for entry in row["trajectory"] if "tool" in entry]
    return [(e["tool"], e["arguments"].get("target") or e["arguments"]["query"]) for e in tools]


@pytest.mark.parametrize("model", MODELS)
def test_every_question_has_one_row(root: Path, questions, model: str) -> None:
    rows = results(root, model)
    assert rows.keys() == questions.keys()
    for key, row in rows.items():
        assert row["raw_output"] == row["pred_answer"]
        assert row["correct_option"] == questions[key]["correct_option"]
        assert row["image_id"] == questions[key]["image_id"]


@pytest.mark.parametrize("model", MODELS)
def test_the_recorded_metrics_are_the_official_ones(root: Path, model: str) -> None:
    asked = BENCHMARK.questions(root)
    run = BENCHMARK.results(root / "results" / f"{model}.json", asked)
    computed = dict(BENCHMARK.metrics(asked, run, AnswerFormat.MC))
    assert {key: computed[key] for key in run.recorded_metrics} == run.recorded_metrics


def test_the_first_failure_measures_the_other_kidney(root: Path, questions, agent) -> None:
    question, row = questions[demo.FIRST_QUESTION], agent[demo.FIRST_QUESTION]
    assert demo.FIRST_MODEL == "demo-agent"
    assert question["organ"] == "kidney_left"
    assert calls(row) == [("segment_organ", "kidney_right"), ("measure", "kidney_right")]
    asked = BENCHMARK.questions(root)
    run = BENCHMARK.results(root / "results/demo-agent.json", asked)
    score = BENCHMARK.scores(asked, run, AnswerFormat.MC)[demo.FIRST_QUESTION]
    assert score.ours is Outcome.WRONG
    value = row["trajectory"][1]["result"]["value"]
    assert f"{value}" in question["mc_question"]


def test_trajectories_keep_the_layout(agent) -> None:
    for row in agent.values():
        *steps, last = row["trajectory"]
        assert [e["step"] for e in row["trajectory"]] == list(range(1, len(steps) + 2))
        for entry in steps:
            assert set(entry) == {"step", "tool", "arguments", "result"}
            assert entry["arguments"]["image_id"] == row["image_id"]
        if row["raw_output"].startswith("[ERROR] "):
            assert row["raw_output"] == f"[ERROR] {last['error']}"
        elif "final_answer" in last:
            assert last["final_answer"] == row["raw_output"]


def test_mistakes_of_every_kind_are_there(root: Path, questions, agent) -> None:
    asked = BENCHMARK.questions(root)
    run = BENCHMARK.results(root / "results/demo-agent.json", asked)
    scores = BENCHMARK.scores(asked, run, AnswerFormat.MC)

    def some(condition) -> bool:
        return any(condition(agent[key], scores[key], questions[key]) for key in agent)

    wrong, right = Outcome.WRONG, Outcome.RIGHT
    assert some(lambda r, s, q: s.ours is wrong and r["raw_output"].startswith("The kidney"))
    assert some(lambda r, s, q: "[ERROR]" in r["raw_output"] and not calls(r))
    assert some(lambda r, s, q: "[ERROR]" in r["raw_output"] and calls(r))
    assert some(lambda r, s, q: "final_answer" not in str(r["trajectory"]) and len(calls(r)) == 5)
    assert some(lambda r, s, q: r["raw_output"].startswith("I cannot") and s.ours is not right)
    assert some(lambda r, s, q: s.ours is Outcome.UNREAD and s.official is wrong)
    assert some(lambda r, s, q: r["raw_output"].startswith("Answer:") and s.official is wrong)
    assert some(lambda r, s, q: s.ours is right and s.official is not right)
    assert some(lambda r, s, q: s.ours is right and not calls(r))
    assert some(lambda r, s, q: "26 cm" in r["raw_output"])
    assert some(lambda r, s, q: re.search(r"\d{7} cm³", r["raw_output"]))
    assert some(lambda r, s, q: ("measure", "spleen") in calls(r) and q["organ"] == "pancreas")
    assert some(lambda r, s, q: "measure" in q["requires_tools"] and len(calls(r)) == 1)
    assert some(lambda r, s, q: r["raw_output"].startswith("<think>") and s.ours is right)
    assert some(lambda r, s, q: "available_targets" in str(r["trajectory"]) and s.ours is right)


def test_a_right_answer_with_the_wrong_evidence_is_there(questions, agent) -> None:
    lucky = [
        key
        for key, row in agent.items()
        if questions[key]["question_subtype"] == "kidney volume comparison"
        and row["raw_output"] == row["correct_option"]
        and ("measure", "kidney_left") not in calls(row)
    ]
    assert lucky == ["demo_00003"]


def masks_of(root: Path, case: str) -> dict[str, np.ndarray]:
    folder = root / "benchmark" / "ct" / case / "segmentations"
    return {f.name[:-7]: np.asarray(nib.load(f).dataobj) > 0 for f in folder.glob("*.nii.gz")}


def test_segment_results_are_what_the_files_hold(root: Path) -> None:
    path = root / "tool_cache/benchmark_oracle_tool_cache.json"
    cache = json.loads(path.read_text(encoding="utf-8"))["cache"]
    for case, kinds in cache.items():
        masks = masks_of(root, case)
        assert masks.keys() <= kinds["segment"].keys()
        for result in kinds["segment"].values():
            mask = masks[result["region_id"]]
            assert result["mask_found"] is True
            assert result["voxel_count"] == mask.sum(), result
            if not mask.any():
                assert result["bbox_ijk"] is None
                continue
            places = np.argwhere(mask)
            low, high = places.min(0), places.max(0) + 1
            assert result["bbox_ijk"] == [
                int(v) for ends in zip(low, high, strict=True) for v in ends
            ]


def test_measure_results_carry_value_unit_and_region(root: Path) -> None:
    path = root / "tool_cache/benchmark_oracle_tool_cache.json"
    cache = json.loads(path.read_text(encoding="utf-8"))["cache"]
    measured = [
        (case, target, kind, result)
        for case, kinds in cache.items()
        for target, own in kinds["measure"].items()
        for kind, result in own.items()
    ]
    assert len(measured) > 60
    for case, target, kind, result in measured:
        assert result["measurement_type"] == kind
        assert result["target"] == target
        assert result["unit"]
        if kind == "volume_cm3":
            voxels = masks_size(root, case, result["region_id"])
            assert result["value"] == pytest.approx(voxels * 0.005625, abs=0.05)


def masks_size(root: Path, case: str, name: str) -> int:
    path = root / "benchmark" / "ct" / case / "segmentations" / f"{name}.nii.gz"
    return int(np.count_nonzero(np.asarray(nib.load(path).dataobj)))


def test_the_agents_tools_never_lie(root: Path, agent) -> None:
    """The invented agent's mistakes are its own: every tool result is the cache's."""
    path = root / "tool_cache/benchmark_oracle_tool_cache.json"
    cache = json.loads(path.read_text(encoding="utf-8"))["cache"]
    seen = 0
    for row in agent.values():
        for entry in row["trajectory"]:
            result, arguments = entry.get("result", {}), entry.get("arguments", {})
            if "error" in result or "results" in result or not result:
                continue
            kinds = cache[row["image_id"]]
            stored = kinds["segment"][arguments["target"]]
            if entry["tool"] == "measure":
                stored = kinds["measure"][arguments["target"]][arguments["measurement_type"]]
            assert result == stored
            seen += 1
    assert seen > 100
