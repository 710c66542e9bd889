"""Model panel: words as they come, calls, what went in, stopping; and the frame in the planes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import listener as heard_from
from panel_sessions import opened
from panel_texts import labels_are_plain, shown_texts
from qtpy.QtCore import QEvent, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QPlainTextEdit, QPushButton

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.events import (
    CallMade,
    CallReturned,
    Done,
    Failed,
    FailureKind,
    Sent,
    Status,
    Tokens,
    Usage,
    Warned,
)
from napari_ctvqa.core.live import LiveCall, LiveRun
from napari_ctvqa.core.records import AnswerFormat, Prediction, Run, ToolCall, ToolResult
from napari_ctvqa.core.session import RunProgress, RunState
from napari_ctvqa.extensions import families
from napari_ctvqa.runners.sight import saw_reports
from napari_ctvqa.widgets.panels.model import PANEL, calls_text
from napari_ctvqa.widgets.pictures import PictureGrid

HOSTILE = "<b>bold</b>\u202egnp\x00"


def picture(label="SLICE 1", z=7.0, side=32):
    affine = np.array([[0.0, 0.0, z], [2.0, 0.0, 0.5], [0.0, 2.0, 0.5]])
    return Picture(np.full((side, side, 3), 90, np.uint8), label, affine, ((-150.0, 250.0),))


def sent(count=3, notes=("3 of 120 slices",)):
    pictures = tuple(picture(f"SLICE {i + 1}", float(i)) for i in range(count))
    parts = tuple(part for p in pictures for part in (p.label, p))
    message = Message("user", (*parts, "On which side is the lesion?"))
    return Sent(Prepared(Ask((message,)), notes))


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch):
    monkeypatch.setattr("napari_ctvqa.runners.sight.recorded_answers", lambda *_: ())


@pytest.fixture
def show(qtbot):
    def make(live, session=None):
        session = session or opened(rows=np.arange(3))
        session.update(live=live)
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(400, 700)
        panel.show()
        return panel, session

    return make


def live_after(*events, **facts):
    live = LiveRun("bench_00000", "toy", "Toy model", **facts)
    for event in events:
        live = live.after(event)
    return live


def grid_of(panel):
    return next(g for g in panel.findChildren(PictureGrid) if "saw" in g.accessibleName())


def words(panel):
    return next(
        box for box in panel.findChildren(QPlainTextEdit) if "words" in box.accessibleName()
    )


def button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text().startswith(text))


def test_without_a_run_it_says_what_will_appear_and_where_to_begin(show):
    panel, _ = show(None)
    assert "Choose a model in Run" in shown_texts(panel)
    assert not button(panel, "Stop").isVisible()


def test_words_are_added_and_the_state_says_what_goes_on(show):
    live = live_after(Status("loading the model", 0.25))
    panel, session = show(live)
    assert "Loading the model" in shown_texts(panel)
    for word in ("Le", "ft", "."):
        live = live.after(Tokens(word))
        session.update(live=live)
    assert words(panel).toPlainText() == "Left."
    done = replace(live.after(Usage(900, 3)).after(Done("Left.")), ended_s=2.0)
    session.update(live=done)
    assert "Done · 2.0 s · 3 tokens · 900 tokens went in" in shown_texts(panel)
    assert not button(panel, "Stop").isVisible()


def test_another_run_begins_with_an_empty_page(show):
    panel, session = show(live_after(Tokens("the first answer")))
    session.update(live=replace(live_after(Tokens("B")), began_s=5.0))
    assert words(panel).toPlainText() == "B"


def test_where_pictures_go_is_said(show):
    panel, session = show(live_after())
    assert "On this machine" in shown_texts(panel)
    session.update(live=replace(live_after(host="gpu7.example.org"), began_s=1.0))
    assert "Pictures go to gpu7.example.org" in shown_texts(panel)
    session.update(live=replace(live_after(host="gpu7.example.org", recorded=True), began_s=2.0))
    assert "nothing is sent" in shown_texts(panel)
    assert "(recorded)" in shown_texts(panel)


def test_calls_and_what_they_gave_and_what_was_mended(show):
    call = ToolCall("measure", {"target": "liver"})
    panel, _ = show(
        live_after(
            CallMade(1, call, "a comma too many"),
            CallReturned(1, call, ToolResult({"value": 1432.5, "unit": "cm3", "region_id": "x"})),
            CallMade(2, ToolCall("segment_organ", {"target": "spleen"})),
        )
    )
    text = shown_texts(panel)
    assert "1. measure (target: liver) → value 1432.5, unit cm3  (mended: a comma too many)" in text
    assert "2. segment_organ (target: spleen) → …" in text


def test_failures_and_doubts_stand_out(show):
    panel, session = show(
        live_after(Warned(FailureKind.PROMPT_CUT, "The prompt was cut.", "Do A."))
    )
    assert "The prompt was cut. Do A." in shown_texts(panel)
    failed = live_after(Failed(FailureKind.OUT_OF_MEMORY, "No memory.", "Fewer slices.", "CUDA x"))
    session.update(live=replace(failed, began_s=1.0, ended_s=2.0))
    for part in ("Failed", "No memory.", "Fewer slices.", "CUDA x"):
        assert part in shown_texts(panel)


def test_stopping_offers_force_only_when_it_takes_long(show, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("napari_ctvqa.widgets.panels.model.time.monotonic", lambda: now[0])
    panel, session = show(live_after(Tokens("so")))
    heard = heard_from(session.wishes.cancel_run), heard_from(session.wishes.force_stop)
    button(panel, "Stop").click()
    session.update(progress=RunProgress(RunState.CANCELLING, "toy", 0, 1))
    assert not button(panel, "Stop by force").isVisible()
    now[0] += 2.5
    session.update(progress=RunProgress(RunState.CANCELLING, "toy", 0, 1))
    button(panel, "Stop by force").click()
    assert [len(h) for h in heard] == [1, 1]
    stopped = session.live.after(Done("so", reason="cancelled"))
    session.update(live=replace(stopped, ended_s=101.0))
    assert "these words are no answer" in shown_texts(panel)


def test_what_went_in_is_shown_and_pointing_moves_the_planes(show):
    panel, session = show(live_after(sent()))
    text = shown_texts(panel)
    assert "3 pictures of 32 × 32 pixels" in text
    assert "3 of 120 slices" in text
    grid = grid_of(panel)
    assert [grid.item(i).text() for i in range(3)] == ["SLICE 1", "SLICE 2", "SLICE 3"]
    heard = heard_from(session.wishes.show_picture)
    grid.setCurrentRow(2)
    assert heard[-1] is session.live.sent[0].ask.pictures[2]
    point_at(grid, grid.visualItemRect(grid.item(0)).center())
    assert heard[-1] is session.live.sent[0].ask.pictures[0]
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Left)
    assert heard[-1] is session.live.sent[0].ask.pictures[1]


def test_left_and_right_follow_the_order_in_which_pictures_were_sent(show):
    panel, session = show(live_after(sent()))
    grid = grid_of(panel)
    grid.setFixedWidth(grid.visualItemRect(grid.item(0)).width() + 40)  # one picture a row
    QTest.qWait(50)
    assert grid.visualItemRect(grid.item(1)).left() == grid.visualItemRect(grid.item(0)).left()
    heard = heard_from(session.wishes.show_picture)
    grid.setCurrentRow(2)
    QTest.keyClick(grid, Qt.Key.Key_Left)
    assert heard[-1] is session.live.sent[0].ask.pictures[1]
    QTest.keyClick(grid, Qt.Key.Key_Right)
    QTest.keyClick(grid, Qt.Key.Key_Right)  # no further than the last
    assert heard[-1] is session.live.sent[0].ask.pictures[2]


def point_at(grid, position):
    """The pointer over a place of the grid, told at once: a real one is told of when it suits."""
    move = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(position),
        QPointF(grid.viewport().mapToGlobal(position)),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(grid.viewport(), move)


def made_for(session, preset="qwen3-vl", **settings):
    """What the family sends for the session's question and case."""
    family = families()["chat-image"]
    return Sent(
        family.prepare(
            family.presets[preset], session.question, session.case, AnswerFormat.MC, settings
        )
    )


def kidney_chain(question_id="bench_00000"):
    step = EvidenceStep(StepKind.SEGMENT, "kidney_left", mask="kidney_left")
    return EvidenceChain(question_id, "reference", (step, step))


def beside_the_kidney(session):
    box = session.case.masks["kidney_left"].region.box_zyx[0]
    count = session.case.volume.display_grid.shape_zyx[0]
    return next(z for z in range(count) if not box.start <= z < box.stop)


def asked(session, *events, **settings):
    live = LiveRun(session.question.id, "m", "Model")
    for event in (made_for(session, **settings), *events):
        live = live.after(event)
    return live


def work_out(session, live):
    """As the window does in the background."""
    everything = (session.question, session.case, session.reference_chain, {}, live)
    (saw,) = saw_reports(SimpleNamespace(), *everything)
    session.update(saw=saw)


def test_a_mask_that_was_not_sent_is_warned_of_after_the_reveal_only(show):
    session = opened(rows=np.arange(3))
    live = asked(session, slices=[beside_the_kidney(session)])
    session.update(reference_chain=kidney_chain(session.question.id), hide_reference=True)
    panel, _ = show(live, session)
    work_out(session, live)
    assert "was sent" not in shown_texts(panel)
    session.update(hide_reference=False)
    assert "slices that it touches was sent" in shown_texts(panel)
    assert shown_texts(panel).lower().count("left kidney: none of the") == 1, "each mask once"
    session.update(saw=None)
    assert "was sent" not in shown_texts(panel)


def test_a_mask_that_was_sent_whole_is_no_warning(show):
    session = opened(rows=np.arange(3), reference_chain=None)
    live = asked(session, sampling_of_slices="all")
    session.update(reference_chain=kidney_chain(session.question.id))
    panel, _ = show(live, session)
    work_out(session, live)
    assert session.saw.sights
    assert "rests on" not in shown_texts(panel)


def places(panel):
    return next(g for g in panel.findChildren(PictureGrid) if "points" in g.accessibleName())


def test_boxes_and_slices_of_a_finished_text_lead_to_the_ct(show):
    session = opened(rows=np.arange(3))
    box = '{"bbox_2d": [250, 500, 750, 1000], "label": "spleen"}'
    live = asked(session, Tokens(f"SLICE 2: {box}. See SLICE 1, not slice 77."), slices=[4, 9])
    panel, _ = show(live, session)
    assert not places(panel).isVisible(), "while words come nothing is placed"
    session.update(live=replace(live, ended_s=1.0))
    grid = places(panel)
    assert [grid.item(i).text() for i in range(grid.count())] == ["spleen on SLICE 2", "SLICE 1"]
    assert "slice 77: no place in the CT, no picture 77 was sent" in shown_texts(panel)
    heard = heard_from(session.wishes.show_picture)
    grid.setCurrentRow(1)
    grid.setCurrentRow(0)
    pointed = heard[-1]
    _, rows, columns = session.case.volume.display_grid.shape_zyx
    np.testing.assert_allclose(
        pointed.index_zyx(-0.5, -0.5), [9, rows / 2 - 0.5, columns / 4 - 0.5]
    )
    high, wide = pointed.pixels.shape[:2]
    np.testing.assert_allclose(
        pointed.index_zyx(high - 0.5, wide - 0.5), [9, rows - 0.5, columns * 3 / 4 - 0.5]
    )


def test_pictures_of_another_case_are_not_drawn_in_this_one(show):
    session = opened(rows=np.arange(3))
    panel, _ = show(asked(session), session)
    heard = heard_from(session.wishes.show_picture)
    grid = next(g for g in panel.findChildren(PictureGrid) if "saw" in g.accessibleName())
    grid.setCurrentRow(1)
    assert heard[-1] is not None
    files = replace(session.case.files, case_id="another")
    session.update(case=replace(session.case, files=files))
    grid.setCurrentRow(2)
    assert heard[-1] is None


def test_hostile_text_is_text_and_bounded(show):
    call = ToolCall(HOSTILE, {HOSTILE: HOSTILE})
    live = live_after(
        Status(HOSTILE),
        Tokens(HOSTILE + "x" * 3_000_000),
        CallMade(1, call, HOSTILE),
        Warned(FailureKind.SERVER, HOSTILE, detail=HOSTILE),
        sent(1, (HOSTILE,)),
        host=HOSTILE,
    )
    panel, _ = show(live)
    assert labels_are_plain(panel)
    shown = words(panel).toPlainText()
    assert shown.startswith("<b>bold</b>⟨U+202E⟩gnp␀x")
    assert len(shown) < 250_000


def test_the_frame_lies_on_the_slice_the_picture_was_cut_from(make_viewer):
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.layers import CaseLayers

    viewer = make_viewer(600, 500)
    session = Session()
    layers = CaseLayers(viewer, session)
    case = opened().case
    session.update(case=case)
    deep, high, wide = case.volume.grid.shape_zyx
    z = deep - 2
    affine = np.array(
        [[0.0, 0.0, z], [high / 4, 0.0, high / 8 - 0.5], [0.0, wide / 4, wide / 8 - 0.5]]
    )
    cut = Picture(np.zeros((4, 4, 3), np.uint8), "SLICE 1", affine)
    layers.set_plane("coronal")
    layers.show_picture(cut)
    assert layers.plane == "axial"
    assert layers.current_slice() == z
    frame = layers.stack.frame
    corners = np.asarray(frame.data[0])
    assert frame.visible
    np.testing.assert_allclose(corners.min(axis=0), [z, -0.5, -0.5])
    np.testing.assert_allclose(corners.max(axis=0), [z, high - 0.5, wide - 0.5])
    layers.show_picture(None)
    assert not frame.visible
    layers.show_picture(cut)
    assert layers.stack.frame.visible
    layers.close()


# ------------------------------------------------------------------- kept, recorded, seen


def report_of(session, **facts):
    from napari_ctvqa.runners.sight import SawReport

    return SawReport(session.question.id, **facts)


def test_what_an_earlier_answer_saw_is_shown_with_its_words(show):
    panel, session = show(None)
    prepared = sent(2).prepared
    session.update(
        saw=report_of(session, model="Qwen", words="It is on the left.", sent=(prepared,))
    )
    assert "Answered earlier" in shown_texts(panel)
    assert words(panel).toPlainText() == "It is on the left."
    assert grid_of(panel).count() == 2
    session.update(saw=None)
    assert "Choose a model in Run" in shown_texts(panel)
    assert not grid_of(panel).isVisible()


def test_how_sure_it_was_is_told_when_the_answer_is_there(show):
    live = live_after(sent(1), Tokens("B"))
    panel, session = show(live)
    record = {"confidence": {"from": "samples", "answer": "B", "value": 0.5, "temperature": 0.7,
                             "samples": ["B", "A"]}}  # fmt: skip
    answered = Prediction(session.question.id, live.model, "B", record=record)
    session.update(runs={live.model: Run(live.model, {session.question.id: answered})})
    line = "Confidence: B 0.50: 1 of 2 samples at temperature 0.7 agree; B 1, A 1"
    assert line not in shown_texts(panel), "it still runs"
    session.update(live=replace(live, ended_s=3.0))
    assert line in shown_texts(panel)
    session.update(question=replace(session.question, id="bench_00001"))
    assert "Confidence" not in shown_texts(panel)


def test_an_answer_to_another_question_is_not_shown_here(show):
    done = replace(live_after(Tokens("Left."), sent(1)), ended_s=3.0)
    panel, session = show(done)
    assert words(panel).isVisible()
    session.update(question=replace(session.question, id="bench_00001"))
    assert not words(panel).isVisible()


def test_a_recording_can_be_played_also_when_the_server_died(show):
    failed = live_after(Failed(FailureKind.UNREACHABLE, "The server is gone."))
    panel, session = show(replace(failed, ended_s=1.0))
    assert not button(panel, "Play").isVisible()
    heard = heard_from(session.wishes.replay)
    session.update(saw=report_of(session, recording="/runs/x.json"))
    assert "without model and network" in shown_texts(panel)
    button(panel, "Play").click()
    assert heard == ["/runs/x.json"]
    session.update(live=live_after(Tokens("a")))
    assert not button(panel, "Play").isVisible()


def test_what_the_pictures_miss_is_warned_of_after_the_reveal_only(show):
    from napari_ctvqa.core.saw import Seen, Sight

    missed = Seen("left kidney", Sight.NOT, 1000, 0, 20, 0)
    whole = Seen("spleen", Sight.WHOLE, 1000, 1000, 20, 20, (0,), 30.0)
    panel, session = show(None)
    session.update(hide_reference=True)
    session.update(
        saw=report_of(session, model="Q", sent=(sent(1).prepared,), sights=(missed, whole))
    )
    assert "left kidney" not in shown_texts(panel)
    session.update(revealed_ids=frozenset({session.question.id}))
    assert "⚠ left kidney" in shown_texts(panel)
    assert "spleen" not in shown_texts(panel)


def test_a_volume_is_shown_by_its_slices_with_its_boxes_in_the_ct(show):
    session = opened(rows=np.arange(3))
    question, case, family = session.question, session.case, families()["m3d"]
    preset = family.presets["m3d-phi3"]
    ready = family.prepare(preset, question, case, AnswerFormat.FREEFORM, {})
    text = "It is <bx_start>[0.0, 0.25, 0.5, 0.5, 0.5, 0.75]<bx_end>, not [1, 2, 3, 4, 5, 6]."
    live = LiveRun(question.id, "m3d", "M3D").after(Sent(ready)).after(Tokens(text))
    panel, _ = show(replace(live, ended_s=1.0), session)
    work_out(session, session.live)
    grid = grid_of(panel)
    assert grid.count() == 32 and grid.item(3).text() == "slice 4 of 32"
    assert "a tensor of 1 × 1 × 32 × 256 × 256" in shown_texts(panel)
    heard = heard_from(session.wishes.show_picture)
    grid.setCurrentRow(3)
    volume = ready.ask.volume
    np.testing.assert_allclose(heard[-1].index_zyx(5, 7), volume.index_zyx([3, 5, 7]))
    (item,) = [places(panel).item(i).text() for i in range(places(panel).count())]
    assert item == "box 1 on slice 9 of 32"
    places(panel).setCurrentRow(0)
    np.testing.assert_allclose(heard[-1].index_zyx(-0.5, -0.5), volume.index_zyx([8, 63.5, 127.5]))
    assert "[1, 2, 3, 4, 5, 6]: no place in the CT" in shown_texts(panel)


def test_names_of_arguments_cannot_look_like_a_result():
    arguments = {"x) → 5 cm³\n2. measure (y": 1} | {f"key{n}" * 1000: n for n in range(1000)}
    made = LiveCall(CallMade(1, ToolCall("measure", arguments)))
    text = calls_text((made,))
    assert "\n" not in text
    assert len(text) < 1000
