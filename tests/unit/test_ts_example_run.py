"""The rule agent on a real CT: questions whose references SimpleITK computes, asked and scored."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ts_example import CASE_ID, CUT, ORGANS, measure_organs, write_benchmark

from napari_ctvqa.core import names
from napari_ctvqa.core.chains import ChainStatus, StepKind
from napari_ctvqa.core.measure import BORDER_CAVEAT
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.evidence.chains import prediction_chain, reference_chain, wanted_structures
from napari_ctvqa.evidence.compare import compare_chains
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.opening import open_path

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def measured(real_data):
    return measure_organs(real_data)


@pytest.fixture(scope="module")
def benchmark(real_data, measured, tmp_path_factory):
    return write_benchmark(real_data, measured, tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def opened(benchmark):
    return open_path(benchmark)


@pytest.fixture(scope="module")
def whole_case(opened):
    return read_case(opened.case_files(CASE_ID))


def napari_ctvqa(*arguments, config):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NAPARI_CTVQA_CONFIG_DIR": str(config)}
    return subprocess.run(
        [sys.executable, "-m", "napari_ctvqa", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("answer_format", ["mc", "freeform"])
def test_every_question_is_answered_right_by_the_official_scorer(
    benchmark, tmp_path, answer_format
):
    out = tmp_path / "rules.json"
    ran = napari_ctvqa(
        "run", benchmark, "--model", "rules", "--format", answer_format, "--out", out,
        config=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    scored = napari_ctvqa(
        "score", benchmark, out, "--format", answer_format, "--json", config=tmp_path
    )
    assert scored.returncode == 0, scored.stderr
    metrics = json.loads(scored.stdout)
    assert metrics["overall"] == {"accuracy": 1.0, "n_total": 44, "n_subtypes": 5}
    assert metrics["reading_disagrees"] == []
    assert json.loads(out.read_text())["metrics"]["overall"] == metrics["overall"]


def test_the_reference_chains_agree_with_an_independent_computation(opened, whole_case, measured):
    statuses = {}
    for question in opened.questions:
        chain = reference_chain(question, whole_case)
        statuses[question.id] = chain.status
        for step in chain.steps:
            if step.kind is StepKind.MEASURE:
                organ = next(o for o in ORGANS if names.canonical(o) == step.target)
                expected = measured[organ][step.measure == "mean_hu"]
                assert step.value == pytest.approx(expected, rel=1e-6), question.text
    assert set(statuses.values()) == {ChainStatus.AGREES}


def test_organs_cut_by_the_field_of_view_say_so_and_whole_ones_do_not(opened, whole_case):
    for question in opened.questions:
        if "volume" not in question.subtype or "comparison" in question.subtype:
            continue
        chain = reference_chain(question, whole_case)
        cut = chain.steps[1].target in CUT
        if chain.steps[1].target in (*CUT, "kidney_left", "kidney_right", "gall_bladder", "aorta"):
            assert (BORDER_CAVEAT in chain.steps[-1].caveats) == (
                cut or chain.steps[1].target == "aorta"
            )


def test_the_agents_own_chain_carries_the_caveat_too_and_equals_the_reference(
    opened, whole_case, tmp_path, benchmark
):
    from napari_ctvqa.models.rules import MODEL
    from napari_ctvqa.runners.batch import run_batch

    out = tmp_path / "rules.json"
    list(run_batch(opened, MODEL, AnswerFormat.MC, out, rows=range(len(opened.questions))))
    run = opened.read_results(out)
    caveats = 0
    for question in opened.questions:
        model = prediction_chain(question, run.predictions[question.id], whole_case)
        comparison = compare_chains(reference_chain(question, whole_case), model)
        assert comparison.first_difference is None, (question.text, comparison)
        if any(step.target in ("liver", "spleen") for step in model.steps):
            caveats += 1
            assert any(BORDER_CAVEAT in step.caveats for step in model.steps), question.text
    assert caveats == 6


def test_only_what_a_question_needs_is_asked_for(opened, whole_case):
    for question in opened.questions:
        wanted = wanted_structures(question)
        # the organ, its four kinds of lesions, and the neighbours that it must not overlap with
        assert 0 < len(wanted) <= 10, question.text
        assert len(wanted) < len(whole_case.masks) / 4


def test_what_has_no_mask_is_an_error_never_no(opened, whole_case):
    from dataclasses import replace

    from napari_ctvqa.models.rules import MODEL

    asked = replace(
        opened.questions[0], subtype="liver lesion existence", text="Does the liver have a lesion?"
    )
    for answer_format in AnswerFormat:
        *_, prediction = MODEL.answer(asked, whole_case, answer_format)
        assert prediction.raw_text == "[ERROR] no mask for liver_lesion"
