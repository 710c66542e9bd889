"""The whole window on the demo case: what a person sees and does, end to end."""

import json
from pathlib import Path

import pytest
from keyboard import press_key
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QTabBar

from napari_ctvqa import demo
from napari_ctvqa.core.chains import ChainStatus, StepMatch
from napari_ctvqa.core.session import CaseState, RunState
from napari_ctvqa.runners.choices import Wanted
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def demo_root():
    return demo.ensure_demo()


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def window_app(qapp):
    """One window for all tests here: making one takes seconds."""
    import napari

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    yield app
    app.close()
    viewer.close()


@pytest.fixture
def app(window_app, demo_root):
    """The demo, opened on its failure, everything read."""
    app = window_app
    app.show_napari_docks(False)
    app.session.update(hide_reference=False, problem=None)
    app.coordinator.open(demo_root, question_id=demo.FIRST_QUESTION)
    app.coordinator.focus.first_difference(demo.FIRST_MODEL)
    settle(app)
    return app


def settle(app):
    assert wait_until(lambda: not app.coordinator.busy)
    QApplication.processEvents()


def press(app, key, modifier=Qt.KeyboardModifier.NoModifier):
    press_key(app.window, key, modifier)
    settle(app)


def test_the_demo_opens_anew_as_it_was_at_first(app):
    before = app.session.focus
    app.session.wishes.step_question.emit(3)
    settle(app)
    app.session.wishes.open_demo.emit()
    settle(app)
    assert app.session.question.id == demo.FIRST_QUESTION
    assert app.session.focus == before


def test_letters_are_there_once_the_first_picture_is(app):
    assert (app.overlays.letters.left, app.overlays.letters.right) == ("R", "L")
    assert app.viewer.canvas.overlays.scale_bar.visible


def test_the_demo_opens_on_a_failure_and_its_first_wrong_step(app):
    session = app.session
    assert session.case_state is CaseState.READY
    assert session.question.id == demo.FIRST_QUESTION
    comparison = session.comparisons[demo.FIRST_MODEL]
    first = comparison.rows[comparison.first_difference]
    assert first.match is StepMatch.WRONG_TARGET
    assert session.focus.structure == first.model.mask != first.reference.mask
    assert session.reference_chain.status is ChainStatus.AGREES
    assert session.model_chains[demo.FIRST_MODEL].status is ChainStatus.DIFFERS


def test_the_axial_picture_is_wide_enough_and_napari_s_docks_are_hidden(app):
    assert app.window.size().width() <= 1366
    assert app.window.size().height() <= 768
    width, _ = app.viewer.canvas.size[::-1]
    assert width >= 500
    assert not any(d.isVisible() for d in app.napari_docks())
    press(app, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    assert all(d.isVisible() for d in app.napari_docks())


def test_napari_s_docks_shown_and_hidden_leave_the_window_as_large_as_it_was(app, qtbot):
    before = app.window.size()
    for shown in (True, False, True, False):
        press(app, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
        qtbot.wait(50)
        assert any(d.isVisible() for d in app.napari_docks()) == shown
    assert app.window.size() == before


def test_page_down_and_up_go_through_the_questions(app):
    first = app.session.row
    press(app, Qt.Key.Key_PageDown)
    assert app.session.row == first + 1
    assert app.session.reference_chain.question_id == app.session.question.id
    press(app, Qt.Key.Key_PageUp)
    assert app.session.row == first


def test_the_filter_leads_the_next_key(app):
    app.session.wishes.filter.emit("outcome:wrong")
    rows = app.session.rows
    assert 0 < len(rows) < len(app.session.questions)
    app.session.wishes.select_row.emit(int(rows[0]))
    settle(app)
    press(app, Qt.Key.Key_PageDown)
    assert app.session.row == rows[1]


def test_a_bad_filter_is_told_and_changes_nothing(app):
    before = app.session.rows
    app.session.wishes.filter.emit("stagee:x")
    assert app.session.problem is not None
    assert app.session.rows is before


def test_pressing_1_sets_a_window_and_never_the_eraser(app):
    masks = app.layers.layer("masks")
    app.viewer.layers.selection = {masks}
    before = masks.mode
    press(app, Qt.Key.Key_5)
    other = tuple(app.layers.layer("CT").contrast_limits)
    press(app, Qt.Key.Key_1)
    assert masks.mode == before
    assert tuple(app.layers.layer("CT").contrast_limits) != other


def test_back_returns_to_the_slice_before_the_focus(app):
    app.session.wishes.back.emit()
    app.layers.go_to(0, 11)
    step = app.session.reference_chain.steps[0]
    app.session.wishes.focus_step.emit(step)
    assert app.layers.current_slice(0) == app.session.focus.display_slice != 11
    press(app, Qt.Key.Key_Backspace)
    assert app.session.focus is None
    assert app.layers.current_slice(0) == 11


def test_the_rule_agent_answers_this_question(app):
    app.session.wishes.run.emit(Wanted("rules"), "question")
    settle(app)
    question = app.session.question
    prediction = app.session.runs["rules"].predictions[question.id]
    assert prediction.raw_text == question.reference.letter
    assert app.session.scores["rules"][question.id].official.value == "right"
    assert app.session.progress.state is RunState.IDLE
    assert app.session.comparisons["rules"].first_difference is None
    kept = json.loads(Path(app.session.progress.path).read_text())
    assert [row["qid"] for row in kept["results"]] == [question.id]


def test_asking_again_rewrites_no_answer(app):
    app.session.wishes.step_question.emit(1)
    settle(app)
    paths = set()
    for _ in range(2):
        app.session.wishes.run.emit(Wanted("rules"), "question")
        settle(app)
        paths.add(app.session.progress.path)
    assert len(paths) == 2


def test_the_rule_agent_answers_what_the_filter_shows_and_keeps_a_file(app):
    app.session.wishes.filter.emit('subtype:"organ volume measurement"')
    wanted = len(app.session.rows)
    app.session.wishes.run.emit(Wanted("rules"), "filter")
    assert app.session.progress.state is RunState.RUNNING
    settle(app)
    assert app.session.progress.done == wanted
    assert len(app.session.runs["rules"].predictions) == wanted
    assert Path(app.session.progress.path).is_file()


def test_a_run_can_be_stopped_and_keeps_what_it_has(app):
    app.session.wishes.filter.emit("")
    app.session.wishes.run.emit(Wanted("rules"), "filter")
    app.session.wishes.cancel_run.emit()
    assert app.session.progress.state is RunState.IDLE
    settle(app)


def test_another_case_is_read_and_shown(app):
    ids = app.session.questions.frame["case"]
    other = int((ids != app.session.question.case_id).to_numpy().argmax())
    app.session.wishes.select_row.emit(other)
    settle(app)
    assert app.session.case.case_id == ids[other] == app.layers.case.case_id
    assert app.session.reference_chain.question_id == app.session.question.id


def test_a_case_seen_before_is_not_read_again(app):
    before, row = app.session.case, app.session.row
    ids = app.session.questions.frame["case"]
    other = int((ids != app.session.question.case_id).to_numpy().argmax())
    app.session.wishes.select_row.emit(other)
    settle(app)
    assert app.session.case is not before
    app.session.wishes.select_row.emit(row)
    settle(app)
    assert app.session.case is before


def test_a_case_that_is_not_there_is_said_and_the_next_one_opens(app, tmp_path):
    table = tmp_path / "mine.csv"
    case = app.session.case.volume.path.parent
    table.write_text(
        "id,case,question,answer\n"
        "q1,nowhere/ct.nii.gz,Is it there?,no\n"
        f"q2,{case},Is it there?,yes\n"
    )
    app.coordinator.open(table, roots=(case.parent,))
    settle(app)
    assert app.session.case_state is CaseState.FAILED
    assert "nowhere" in app.session.case_message
    press(app, Qt.Key.Key_PageDown)
    assert app.session.question.id == "q2"
    assert app.session.case_state is CaseState.READY
    assert app.session.reference_chain.question_id == "q2"


def test_hiding_the_reference_hides_its_chain_until_revealed(app):
    app.session.wishes.hide_reference.emit(True)
    assert not app.session.revealed
    press(app, Qt.Key.Key_T)
    assert app.session.revealed


def test_closing_a_dock_does_not_break_the_rest(app):
    dock_of(app.panels["Question"]).close()
    dock_of(app.panels["Evidence"]).close()
    press(app, Qt.Key.Key_PageDown)
    assert app.session.case_state is CaseState.READY


def test_a_window_arranged_before_it_is_shown_keeps_no_stray_tab_bar(qapp):
    import napari

    viewer = napari.Viewer(show=False)
    made = app_for(viewer)
    made.arrange()
    viewer.window.show()
    made.arrange()
    wait_until(lambda: False, 0.3)
    bars = [bar for bar in made.window.findChildren(QTabBar) if bar.isVisible() and bar.count()]
    shown = sorted([bar.tabText(n) for n in range(bar.count())] for bar in bars if bar.x() >= 0)
    made.close()
    viewer.close()
    read = ["Evidence", "Structures", "Side by side", "Segment", "Measure"]
    assert shown[1:] == [["Questions", "Run", "Model", "Validate", "Audit", "Probes"]]
    assert shown[0] in (read, ["Question", *read])  # a narrow window has them in one place
