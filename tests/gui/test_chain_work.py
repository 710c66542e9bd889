"""Chains of the current question: begun only for what is new, never for another question."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import opened

from napari_ctvqa.core.records import Prediction, Run
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.runners.desk import Chains
from napari_ctvqa.widgets import chain_work
from napari_ctvqa.widgets.chain_work import ChainWork


class NoThreads:
    """Jobs that keep what they are given; ``finish`` runs it."""

    def __init__(self):
        self.started = []

    def start(self, slot, items, on_item, on_failed=None):
        self.started.append((items, on_item, on_failed))

    def cancel(self, slot):
        self.started.clear()

    def finish(self):
        for items, on_item, on_failed in self.started:
            try:
                for item in items:
                    on_item(item)
            except ValueError as error:
                on_failed(error)
        self.started.clear()


@pytest.fixture
def work(qapp, monkeypatch):
    """A ChainWork whose chains are names; ``asked`` holds the predictions it was asked for."""
    session = opened(rows=np.arange(3))
    asked, failed, shown = [], [], []

    def chains_of(question, case, predictions, before):
        asked.append((tuple(predictions), before is not None))
        if any(p.raw_text == "broken" for p in predictions.values()):
            raise ValueError("broken")
        yield Chains(None, dict.fromkeys(predictions, "chain"), {}, predictions)

    monkeypatch.setattr(chain_work, "chains_of", chains_of)
    monkeypatch.setattr(chain_work, "has_wanted", lambda *_: True)
    jobs = NoThreads()
    made = ChainWork(session, jobs, failed.append, lambda: shown.append(1))
    return SimpleNamespace(
        session=session, jobs=jobs, work=made, asked=asked, failed=failed, shown=shown
    )


def answer(session, model, text):
    key = session.question.id
    runs = {**session.runs, model: Run(model, {key: Prediction(key, model, text)})}
    session.update(runs=runs)


def begin(work):
    work.work.begin(work.session.question.case_id)
    work.jobs.finish()


def test_nothing_is_begun_for_what_is_known(work):
    answer(work.session, "m", "A")
    begin(work)
    count = len(work.asked)
    begin(work)
    work.session.update(scores={})  # another event of the runs
    begin(work)
    assert len(work.asked) == count == 1
    assert work.shown == [1]


def test_a_new_answer_is_begun_with_what_is_known(work):
    answer(work.session, "m", "A")
    begin(work)
    answer(work.session, "m", "B")
    begin(work)
    assert [before for _, before in work.asked] == [False, True]


@pytest.mark.parametrize("change", ["case", "assume", "question", "forget"])
def test_another_base_begins_anew(work, change):
    answer(work.session, "m", "A")
    begin(work)
    session = work.session
    if change == "case":
        session.update(case=replace(session.case))
    elif change == "assume":
        session.update(absent_means_none=True, case=None, case_state=CaseState.FAILED)
    elif change == "question":
        session.update(question=replace(session.question))
    else:
        work.work.forget()
    begin(work)
    assert [before for _, before in work.asked] == [False, False]


def test_what_failed_is_tried_again(work):
    answer(work.session, "m", "broken")
    begin(work)
    begin(work)
    assert len(work.failed) == 2


def test_chains_of_a_question_that_was_left_are_not_shown(work):
    answer(work.session, "m", "A")
    work.work.begin(work.session.question.case_id)
    before = dict(work.session.model_chains)
    work.session.update(question=replace(work.session.question, id="another"))
    work.jobs.finish()
    assert work.session.model_chains == before
    assert work.shown == []
