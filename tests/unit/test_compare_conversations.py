"""The same work is compared the same, from a result file's trajectory or a conversation."""

import json

import pytest

from napari_ctvqa.core.chains import StepMatch
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain
from napari_ctvqa.evidence.compare import compare_chains
from napari_ctvqa.extensions import benchmarks
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.opening import open_path

TOOLS = json.dumps([{"type": "function", "function": {"name": "segment_organ"}}])


@pytest.fixture(scope="module")
def demo_opened(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
    yield open_path(ensure_demo())
    patch.undo()


def conversation_of(question, row):
    """One result row as an agent_sft record: thoughts before calls, results as JSON text."""
    turns = [{"from": "human", "value": f"<image>\nCase {row['image_id']}. {question.text}"}]
    for entry in row["trajectory"]:
        if "tool" in entry:
            arguments = {k: v for k, v in entry["arguments"].items() if k != "image_id"}
            call = json.dumps({"name": entry["tool"], "arguments": arguments})
            turns.append({"from": "function_call", "value": f"<think>next</think>\n{call}"})
            turns.append({"from": "observation", "value": json.dumps(entry["result"])})
    turns.append({"from": "gpt", "value": f"<think>so</think>\n[FINAL] {row['raw_output']}"})
    meta = {"question_subtype": question.subtype, "organ": question.organ}
    return {"conversations": turns, "tools": TOOLS, "id": question.id, "meta": meta}


def test_a_conversation_is_compared_like_the_trajectory_it_was_made_from(demo_opened, tmp_path):
    opened = demo_opened
    seen = set()
    cases = {}
    for path in opened.found_results():
        run = opened.read_results(path)
        rows = json.loads(path.read_text())["results"]
        with_steps = [
            row
            for row in rows
            if any("tool" in entry for entry in row.get("trajectory", []))
            and not row["raw_output"].startswith("[ERROR]")  # conversations have no failures
        ]
        records = [conversation_of(opened.questions.by_id(r["qid"]), r) for r in with_steps]
        if not records:
            continue
        file = tmp_path / f"{path.stem}.jsonl"
        file.write_text("\n".join(json.dumps(record) for record in records))
        talked = benchmarks()["deeptumorvqa"].results(file, opened.questions)
        for row in with_steps:
            question = opened.questions.by_id(row["qid"])
            if question.case_id not in cases:
                cases[question.case_id] = read_case(opened.case_files(question.case_id))
            case = cases[question.case_id]
            reference = reference_chain(question, case)
            by_file, by_talk = (
                compare_chains(
                    reference, prediction_chain(question, run_.predictions[row["qid"]], case)
                )
                for run_ in (run, talked)
            )
            assert [(r.match, r.note) for r in by_talk.rows] == [
                (r.match, r.note) for r in by_file.rows
            ], row["qid"]
            assert by_talk.first_difference == by_file.first_difference
            seen |= {r.match for r in by_talk.rows}
    assert seen >= {
        StepMatch.SAME, StepMatch.MISSING, StepMatch.WRONG_TARGET, StepMatch.OUTPUT_IGNORED,
        StepMatch.KNOWLEDGE_NOT_USED,
    }  # fmt: skip


def test_a_conversation_alone_says_its_subtype_in_its_meta(demo_opened, tmp_path):
    opened = demo_opened
    question = next(q for q in opened.questions if q.subtype == "splenomegaly grading")
    row = {"image_id": "BDMAP_00000001", "trajectory": [], "raw_output": "Mild"}
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps(conversation_of(question, row)))
    asked = benchmarks()["deeptumorvqa"].questions(file)[0]
    assert asked.subtype == "splenomegaly grading"
    assert asked.organ == "spleen"
    assert asked.case_id == "BDMAP_00000001"
    assert asked.reference.text == "Mild"
