"""What a model's answers change in the window is drawn anew; everything else is left as it is."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import FIRST_ID, chains, opened, run, score
from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QApplication, QTableWidget
from view_cases import phantom_case

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.live import LiveRun
from napari_ctvqa.core.records import Outcome, Prediction, Run, Turn
from napari_ctvqa.core.session import RunProgress, RunState
from napari_ctvqa.runners.desk import Begun, LiveAnswer
from napari_ctvqa.widgets import answers, pictures, words
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.evidence_table import StepCard
from napari_ctvqa.widgets.panels import evidence, question, side_by_side
from napari_ctvqa.widgets.pictures import PictureGrid
from napari_ctvqa.widgets.runs import Runs


def counted(monkeypatch, owner, name):
    """Let a function count its calls; the list holds the first argument of each."""
    calls, real = [], getattr(owner, name)

    def call(*args, **more):
        calls.append(args[0])
        return real(*args, **more)

    monkeypatch.setattr(owner, name, call)
    return calls


def two_models():
    return opened(
        runs={m: run(m, {FIRST_ID: f"Answer of {m}"}) for m in ("one", "two")},
        scores={m: {FIRST_ID: score(Outcome.RIGHT, "C")} for m in ("one", "two")},
    )


def answer_anew(session, model, text):
    runs = {**session.runs, model: Run(model, {FIRST_ID: Prediction(FIRST_ID, model, text)})}
    session.update(runs=runs)


def test_another_models_answer_leaves_an_answer_box_alone(qtbot, monkeypatch):
    session = two_models()
    panel = question.PANEL(session)
    qtbot.addWidget(panel)
    drawn = counted(monkeypatch, answers.AnswerBox, "_show_score")
    answer_anew(session, "two", "Another answer")
    assert len(drawn) == 1
    assert "Another answer" in [box._text.toPlainText() for box in panel._answers._boxes]


def test_a_runs_answers_to_other_questions_leave_its_answer_box_alone(qtbot, monkeypatch):
    session = two_models()
    panel = question.PANEL(session)
    qtbot.addWidget(panel)
    drawn = counted(monkeypatch, answers.AnswerBox, "_show_score")
    before = session.runs["one"]
    more = {**before.predictions, "other": Prediction("other", "one", "An answer")}
    session.update(runs={**session.runs, "one": replace(before, predictions=more)})
    assert drawn == []
    session.update(runs={**session.runs, "one": replace(before, path="/data/elsewhere.json")})
    assert len(drawn) == 1


def test_progress_alone_draws_no_answer(qtbot, monkeypatch):
    session = two_models()
    panel = question.PANEL(session)
    qtbot.addWidget(panel)
    drawn = counted(monkeypatch, answers.AnswerList, "show_answers")
    session.update(progress=RunProgress(RunState.RUNNING, "two", 0, 1))
    assert drawn == []
    assert "two is answering …" in panel._answers._note.text()


def test_who_else_asks_the_same_is_looked_up_once_a_question(qtbot, monkeypatch):
    session = two_models()
    asked = counted(monkeypatch, words, "asked_twice")
    panel = question.PANEL(session)
    qtbot.addWidget(panel)
    answer_anew(session, "two", "Another answer")
    session.update(**chains())
    assert len(asked) == 1
    session.update(question=replace(session.question, id="another"), row=1)
    assert len(asked) == 2


def test_evidence_that_is_the_same_is_not_laid_out_again(qtbot, monkeypatch):
    session = opened(**chains())
    panel = evidence.PANEL(session)
    qtbot.addWidget(panel)
    drawn = counted(monkeypatch, StepCard, "show_step")
    model, comparison = next(iter(session.comparisons.items()))
    session.update(comparisons={model: replace(comparison)})
    assert drawn == []
    rows = (replace(comparison.rows[0], note="seen anew"), *comparison.rows[1:])
    session.update(comparisons={model: replace(comparison, rows=rows)})
    assert len(drawn) == 2  # both columns of one row


def test_side_by_side_replaces_the_cells_that_changed(qtbot):
    session = two_models()
    panel = side_by_side.PANEL(session)
    qtbot.addWidget(panel)
    table = panel.findChild(QTableWidget)
    at = [table.horizontalHeaderItem(c).text() for c in range(table.columnCount())]
    one, two = at.index("one"), at.index("two")
    before = [table.item(0, one), table.item(0, two)]
    answer_anew(session, "two", "Another answer")
    assert table.item(0, one) is before[0]
    assert table.item(0, two).text() == "Another answer"
    session.update(runs={"two": session.runs["two"]})
    assert [table.horizontalHeaderItem(c).text() for c in range(table.columnCount())] == [
        "Reference",
        "two",
    ]


def picture(label, grey):
    return Picture(np.full((8, 8, 3), grey, np.uint8), label)


def test_the_same_pictures_made_anew_cost_no_thumbnail(qtbot, monkeypatch):
    grid = PictureGrid()
    qtbot.addWidget(grid)
    grid.show_pictures([picture("SLICE 1", 10), picture("SLICE 2", 20)])
    drawn = counted(monkeypatch, pictures, "thumbnail")
    again = [picture("SLICE 1", 10), picture("SLICE 2", 20)]
    grid.show_pictures(again)
    assert drawn == []
    pointed = []
    grid.pointed.connect(pointed.append)
    grid.setCurrentRow(1)
    assert pointed[-1] is again[1]  # which may have been cut elsewhere
    grid.show_pictures([picture("SLICE 1", 10), picture("SLICE 2", 21), picture("SLICE 3", 30)])
    assert len(drawn) == 2
    assert [grid.item(n).text() for n in range(grid.count())] == ["SLICE 1", "SLICE 2", "SLICE 3"]
    grid.show_pictures([picture("SLICE 9", 10)])
    assert [grid.item(n).text() for n in range(grid.count())] == ["SLICE 9"]
    grid.show_pictures(())
    assert grid.count() == 0


class Paints(QObject):
    """Counts a widget's paintings."""

    def __init__(self, widget):
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched, event):
        self.count += event.type() == QEvent.Type.Paint
        return False


def test_a_progress_bar_waits_for_the_windows_painting(qtbot):
    bar = ProgressBar()
    qtbot.addWidget(bar)
    bar.show()
    qtbot.waitExposed(bar)
    bar.show_value(1, 9)
    qtbot.wait(30)
    paints = Paints(bar)
    bar.show_value(5, 9)
    assert paints.count == 0
    qtbot.waitUntil(lambda: paints.count > 0)
    assert (bar.value(), bar.maximum()) == (5, 9)
    bar.show_value(0, 0)
    assert bar.maximum() == 0


class AtOnce:
    """Jobs that deliver everything before anything else can happen."""

    def start(self, slot, items, on_item, on_failed=None, on_ended=None):
        for item in items:
            on_item(item)
        on_ended()

    def cancel(self, slot):
        pass

    def __contains__(self, slot):
        return False


@pytest.mark.parametrize("ends_well", [True, False])
def test_of_what_comes_at_once_the_first_and_the_last_are_shown(qapp, monkeypatch, ends_well):
    session = opened(rows=np.arange(3))
    key = session.question
    live = [LiveRun(key.id, "m", text="word " * n) for n in range(1, 9)]
    told = [LiveAnswer("m", key, (Turn(n),) * n, live=one) for n, one in enumerate(live)]
    last = replace(live[-1], ended_s=1.0, reason="" if ends_well else "cancelled")
    prediction = Prediction(key.id, "m", last.text) if ends_well else None
    told.append(LiveAnswer("m", key, told[-1].turns, prediction, live=last))
    told.insert(0, Begun(SimpleNamespace(name="m")))
    monkeypatch.setattr("napari_ctvqa.widgets.runs.live_answers", lambda *_, **__: iter(told))
    monkeypatch.setattr("napari_ctvqa.widgets.runs.has_wanted", lambda *_: True)
    runs = Runs(session, AtOnce(), lambda: SimpleNamespace())
    shown, chains_due = [], []
    session.live_changed.connect(lambda: shown.append(session.live))
    session.runs_changed.connect(lambda: chains_due.append(1))
    runs.ask_current(SimpleNamespace(name="m"))
    assert shown == [live[0], last]
    assert len(chains_due) == 2
    assert ("m" in session.runs) is ends_well
    runs.abandon()


def test_words_that_were_held_come_before_the_next_ones(qtbot, monkeypatch):
    """What is not the last of an answer is shown a moment later, also when nothing else comes."""
    session = opened(rows=np.arange(3))
    live = [LiveRun(session.question.id, "m", text="word " * n) for n in (1, 2)]
    told = [LiveAnswer("m", session.question, (), live=one) for one in live]
    monkeypatch.setattr("napari_ctvqa.widgets.runs.live_answers", lambda *_, **__: iter(told))
    monkeypatch.setattr("napari_ctvqa.widgets.runs.has_wanted", lambda *_: True)
    jobs = AtOnce()
    jobs.start = lambda slot, items, on_item, *_: [on_item(item) for item in items]
    runs = Runs(session, jobs, lambda: SimpleNamespace())
    runs.ask_current(SimpleNamespace(name="m"))
    assert session.live is live[0]
    qtbot.waitUntil(lambda: session.live is live[1])
    QApplication.processEvents()
    runs.abandon()


class BothEars:
    """What listens to the point and the step of a viewer's dims, as napari's own viewer does."""

    def __init__(self, dims):
        self.heard = 0
        dims.events.point.connect(self.hear)
        dims.events.current_step.connect(self.hear)

    def hear(self):
        self.heard += 1


def test_a_move_has_all_layers_looked_at_once(viewer, session, layers):
    session.update(case=phantom_case())
    ears, slider = BothEars(viewer.dims), []
    viewer.dims.events.current_step.connect(lambda: slider.append(viewer.dims.current_step))
    layers.go_to(0, 2)
    assert ears.heard == 1
    assert layers.current_slice(0) == 2 and slider[-1][0] == viewer.dims.current_step[0]
    viewer.dims.set_current_step(0, 1)  # by another hand: as napari does it
    assert ears.heard == 3
