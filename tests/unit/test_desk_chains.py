"""Chains of a question: worked out anew only where something they are made of has changed."""

from types import SimpleNamespace

import pytest

from napari_ctvqa.core.chains import ChainComparison, EvidenceChain
from napari_ctvqa.core.records import AnswerType, Prediction, Question, Reference
from napari_ctvqa.runners import desk

QUESTION = Question(
    id="q", case_id="c", text="?", reference=Reference("1"), answer_type=AnswerType.NUMERIC
)
CASE = SimpleNamespace()


@pytest.fixture
def worked(monkeypatch):
    """What is worked out, in order; the chains hold nothing else."""
    log = []

    def reference(question, case):
        log.append("reference")
        return EvidenceChain(question.id, "reference")

    def model(question, prediction, case):
        log.append(prediction.raw_text)
        return EvidenceChain(question.id, prediction.model)

    monkeypatch.setattr(desk, "reference_chain", reference)
    monkeypatch.setattr(desk, "prediction_chain", model)
    monkeypatch.setattr(desk, "compare_chains", lambda *_: ChainComparison(()))
    monkeypatch.setattr(desk, "judged", lambda chain, comparison: chain)
    return log


def told(model, text):
    return Prediction("q", model, text)


def test_a_new_answer_costs_its_own_chain_alone(worked):
    one, other = told("one", "A"), told("other", "B")
    (first,) = desk.chains_of(QUESTION, CASE, {"one": one, "other": other})
    assert worked == ["reference", "A", "B"]
    worked.clear()
    again = told("other", "C")
    (second,) = desk.chains_of(QUESTION, CASE, {"one": one, "other": again}, first)
    assert worked == ["C"]
    assert second.reference is first.reference
    assert second.by_model["one"] is first.by_model["one"]
    assert second.comparisons["one"] is first.comparisons["one"]


def test_a_model_that_went_is_gone(worked):
    one, other = told("one", "A"), told("other", "B")
    (first,) = desk.chains_of(QUESTION, CASE, {"one": one, "other": other})
    (second,) = desk.chains_of(QUESTION, CASE, {"one": one}, first)
    assert list(second.by_model) == list(second.comparisons) == ["one"]


def test_an_equal_answer_given_anew_is_worked_out(worked):
    """Its tools may have returned something else: what is known of it is not looked into."""
    (first,) = desk.chains_of(QUESTION, CASE, {"one": told("one", "A")})
    worked.clear()
    list(desk.chains_of(QUESTION, CASE, {"one": told("one", "A")}, first))
    assert worked == ["A"]


def test_a_trace_that_cannot_be_read_costs_its_model_alone(worked, monkeypatch):
    def broken(question, prediction, case):
        raise ValueError("no")

    monkeypatch.setattr(desk, "prediction_chain", broken)
    (chains,) = desk.chains_of(QUESTION, CASE, {"shown as": told("one", "A")})
    assert chains.by_model["shown as"].origin == "shown as"
    assert "ValueError" in chains.by_model["shown as"].reason
