"""The player and the export dialog on a session with two chains."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QApplication, QWidget
from view_cases import phantom_case

from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    EvidenceChain,
    EvidenceStep,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.session import CaseState, Session
from napari_ctvqa.widgets.export_dialog import ExportDialog
from napari_ctvqa.widgets.focus import Focus
from napari_ctvqa.widgets.layers import CaseLayers
from napari_ctvqa.widgets.player import SPEEDS_S, Player, PlayerBar


def chains():
    def step(target, value):
        return EvidenceStep(StepKind.MEASURE, target, "volume_cm3", value, "cm³", mask=target)

    rod, cube, ball = step("rod", 1.0), step("cube", 2.0), step("ball", 3.0)
    wrong = replace(cube, value=9.0)
    rows = (
        AlignedStep(rod, rod, StepMatch.SAME),
        AlignedStep(cube, wrong, StepMatch.WRONG_VALUE),
        AlignedStep(None, ball, StepMatch.EXTRA),
    )
    return (
        EvidenceChain("q", "reference", (rod, cube)),
        EvidenceChain("q", "a model", (rod, wrong, ball)),
        ChainComparison(rows, 1),
    )


@pytest.fixture
def session():
    import panel_sessions

    made = Session()
    reference, model, comparison = chains()
    made.update(
        question=panel_sessions.question(),
        case=phantom_case(case_id="QZ-SECRET-77"),
        case_state=CaseState.READY,
        reference_chain=reference,
        model_chains={"a model": model},
        comparisons={"a model": comparison},
    )
    return made


@pytest.fixture
def layers(viewer, session):
    made = CaseLayers(viewer, session)
    focus = Focus(session, made)
    session.wishes.focus_step.connect(focus.step)
    yield made
    made.close()


@pytest.fixture
def player(session, layers):
    made = Player(session, lambda: "a model", lambda: False)
    yield made
    made.close()


@pytest.fixture
def bar(qtbot, player):
    made = PlayerBar(player, lambda: None)
    qtbot.addWidget(made)
    made.show()
    return made


def test_each_step_goes_to_its_mask_and_says_what_it_is(session, layers, player, bar, qtbot):
    seen = []
    for _ in range(3):
        qtbot.mouseClick(bar._on, Qt.MouseButton.LeftButton)
        seen.append((layers.focused.structure, layers.current_slice(0)))
    masks = session.case.masks
    assert [name for name, _ in seen] == ["rod", "cube", "ball"]
    for name, index in seen:
        box = masks[name].region.box_zyx
        assert box[0].start <= index < box[0].stop
    assert bar._caption.text().startswith("3 of 3 · ")
    assert "measure ball: volume = 3 cm³" in bar._caption.text()
    qtbot.mouseClick(bar._back, Qt.MouseButton.LeftButton)
    assert layers.focused.structure == "cube"
    assert "First difference" in bar._caption.text()
    assert bar._caption.property("ctvqa") == "wrong"


def test_it_plays_to_the_end_and_again_from_the_beginning(session, player, bar, qtbot, monkeypatch):
    monkeypatch.setattr("napari_ctvqa.widgets.player.SPEEDS_S", (0.02,) * len(SPEEDS_S))
    places = []
    session.wishes.focus_step.connect(lambda step: places.append(step.target))
    qtbot.mouseClick(bar._play, Qt.MouseButton.LeftButton)
    assert player.playing and "Pause" in bar._play.text()
    qtbot.waitUntil(lambda: not player.playing)
    assert places == ["rod", "cube", "ball"]
    player.toggle()
    assert places[3:] == ["rod"] and player.playing
    player.toggle()
    assert not player.playing and "Play" in bar._play.text()


def test_to_the_first_difference_and_by_the_slider(player, bar, qtbot):
    qtbot.mouseClick(bar._first, Qt.MouseButton.LeftButton)
    assert player.place == 1
    bar._line.setSliderPosition(2)
    bar._line.actionTriggered.emit(0)
    assert player.place == 2


def test_speed_stays_within_what_there_is(player, bar):
    for _ in range(10):
        player.faster()
    assert SPEEDS_S[player.speed] == min(SPEEDS_S)
    for _ in range(10):
        player.faster(-1)
    assert bar._speed.currentData() == max(SPEEDS_S)


def test_a_step_chosen_elsewhere_is_where_the_film_goes_on(session, player):
    session.wishes.focus_step.emit(player.steps[2].step)
    assert player.place == 2
    player.go(-1)
    assert session.focused_step is player.steps[1].step


def test_another_question_is_another_film_from_its_beginning(session, player, bar):
    player.go_to(2)
    reference, _, _ = chains()
    session.update(reference_chain=reference, model_chains={}, comparisons={})
    assert len(player.steps) == 2 and player.place < 2
    session.update(reference_chain=None)
    assert player.steps == () and not bar._play.isEnabled()


def test_while_something_is_read_it_waits(session, layers):
    player = Player(session, lambda: "a model", lambda: True)
    player.play(1)
    player._play_on()
    assert player.place == -1
    player.close()


def test_a_hidden_reference_is_not_played(session, player, bar):
    session.update(hide_reference=True)
    player.go_to(1)
    assert "Reference" not in bar._caption.text() and "First" not in bar._caption.text()
    assert not bar._first.isEnabled()


# ------------------------------------------------------------------------------- export


@pytest.fixture
def dialog(qtbot, session, layers, player):
    made = ExportDialog(session, layers, player, lambda: False)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(made)
    made.show()
    return made


def test_the_view_is_saved_as_a_figure(tmp_path, session, layers, player, dialog, qtbot):
    player.go_to(1)
    dialog._what.setCurrentIndex(0)
    dialog._size.setText("50x40mm")
    dialog.save(tmp_path / "a.png")
    qtbot.waitUntil(lambda: "Saved" in dialog._message.text())
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (591, 472)
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    dialog.save(tmp_path / "a.svg")
    qtbot.waitUntil(lambda: "a.svg" in dialog._message.text() and dialog._job is None)
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert ">L<" in svg and ">cube<" in svg and "First difference" in svg
    assert "QZ-SECRET" not in svg


def test_a_film_goes_on_when_the_window_closes_and_tells_nobody(
    tmp_path, session, layers, player, qtbot
):
    window = QWidget()
    dialog = ExportDialog(session, layers, player, lambda: False, window)
    dialog._what.setCurrentIndex(1)
    dialog.save(tmp_path / "film")
    job = dialog._job
    window.deleteLater()
    del dialog
    QApplication.sendPostedEvents(window, QEvent.Type.DeferredDelete)
    qtbot.waitUntil(lambda: not job.running)  # an error in a slot would fail the test
    assert len(list((tmp_path / "film").iterdir())) == 3


def test_the_film_is_saved_with_its_steps(tmp_path, player, dialog, qtbot):
    dialog._what.setCurrentIndex(1)
    dialog._seconds.setValue(0.5)
    dialog.save(tmp_path / "a.gif")
    qtbot.waitUntil(lambda: "Saved" in dialog._message.text(), timeout=20_000)
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3 and film.info["duration"] == 500


def test_a_film_can_be_stopped(tmp_path, player, dialog, qtbot):
    dialog._what.setCurrentIndex(1)
    dialog._size.setText("3000x3000")
    dialog.save(tmp_path / "a.gif")
    job = dialog._job
    qtbot.mouseClick(dialog._stop, Qt.MouseButton.LeftButton)
    assert "Stopped" in dialog._message.text() and dialog._save.isEnabled()
    qtbot.waitUntil(lambda: not job.running, timeout=30_000)
    assert list(Path(tmp_path).iterdir()) == []
    assert "Stopped" in dialog._message.text()


@pytest.mark.parametrize(
    ("size", "name", "word"), [("8x8", "a.gif", "pixels"), ("900x800", "a.avi", "gif")]
)
def test_what_cannot_be_saved_is_said(tmp_path, dialog, size, name, word):
    dialog._what.setCurrentIndex(1)
    dialog._size.setText(size)
    dialog.save(tmp_path / name)
    assert word in dialog._message.text() and dialog._message.property("ctvqa") == "red"
    assert list(Path(tmp_path).iterdir()) == []
