"""The engine on the demo: every chain, every answer, against references it never measured."""

import json

import pytest

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.chains import ChainStatus, StepKind
from napari_ctvqa.core.records import AnswerFormat, Outcome
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain
from napari_ctvqa.evidence.compare import compare_chains
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.opening import open_path

SCHEMA = {
    row["subtype"]: [p.replace("knowledge", "lookup") for p in row["primitives"]]
    for row in json.loads(resource_path("deeptumorvqa_subtypes.json").read_text())["subtypes"]
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    root = ensure_demo(tmp_path_factory.mktemp("demo"))
    opened = open_path(root)
    cases = {q.case_id: None for q in opened.questions}
    cases = {case_id: read_case(opened.case_files(case_id)) for case_id in cases}
    notes = json.loads((root / "benchmark" / "demo_notes.json").read_text())
    wrong = {item["qid"] for item in notes["wrong_references"]}
    chains = {q.id: reference_chain(q, cases[q.case_id]) for q in opened.questions}
    return opened, cases, chains, wrong, set(notes["without_mask"])


def test_all_42_subtypes_have_a_chain_with_the_benchmarks_primitives(demo):
    opened, _, chains, _, without_mask = demo
    assert {q.subtype for q in opened.questions} == set(SCHEMA)
    for question in opened.questions:
        kinds = []
        for step in chains[question.id].steps:
            if step.kind is not StepKind.CONCLUDE and kinds[-1:] != [step.kind.value]:
                kinds.append(step.kind.value)
        assert kinds == SCHEMA[question.subtype], question.text
        assert chains[question.id].steps[-1].kind is StepKind.CONCLUDE
        assert bool(chains[question.id].conclusion) == (question.id not in without_mask)


def test_the_planted_references_differ_and_nothing_else_does(demo):
    opened, _, chains, wrong, without_mask = demo
    assert len(wrong) == 4 and len(without_mask) == 1
    for question in opened.questions:
        expected = ChainStatus.AGREES
        if question.id in without_mask:
            expected = ChainStatus.CANNOT_CHECK
        elif question.id in wrong:
            expected = ChainStatus.DIFFERS
            assert not chains[question.id].agreeing_rules, "wrong by every rule"
        assert chains[question.id].status is expected, (question.text, chains[question.id].reason)


@pytest.mark.parametrize("answer_format", AnswerFormat)
def test_the_rule_agent_is_right_by_the_official_scorer_and_by_the_reference(demo, answer_format):
    opened, cases, chains, wrong, without_mask = demo
    for question in opened.questions:
        if question.id in wrong | without_mask:
            continue
        case = cases[question.case_id]
        *_, prediction = MODEL.answer(question, case, answer_format)
        score = opened.benchmark.score(question, prediction, answer_format)
        assert score.official is Outcome.RIGHT, (question.text, prediction.raw_text)
        model = prediction_chain(question, prediction, case)
        comparison = compare_chains(chains[question.id], model)
        assert comparison.first_difference is None, (question.text, comparison)


def test_a_right_answer_is_flagged_only_where_its_evidence_does_not_give_it(demo):
    opened, cases, chains, _, _ = demo
    run = next(
        run for run in map(opened.read_results, opened.found_results()) if run.model == "demo-agent"
    )
    flagged, right = {}, 0
    for question in opened.questions:
        prediction = run.predictions.get(question.id)
        if prediction is None or not prediction.trace.turns:
            continue
        case = cases[question.case_id]
        comparison = compare_chains(
            chains[question.id], prediction_chain(question, prediction, case), case
        )
        if comparison.same_answer:
            right += 1
            if comparison.first_difference is not None:
                flagged[question.id] = question.subtype
    assert right > 60
    # one kidney measured; lesions of the whole organ counted for one part; another lesion
    # measured, or all for the largest; no vessel looked at
    assert sorted(set(flagged.values())) == [
        "PDAC vs PNET classification", "bilateral kidney asymmetry", "inter-segment comparison",
        "kidney volume comparison", "largest lesion attenuation", "lesion count by location",
        "lesion type classification", "pancreatic lesion resectability",
    ]  # fmt: skip
    assert len(flagged) <= 12
