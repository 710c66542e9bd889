"""Probes panel: what is chosen and said before, the answers of a question, what stays hidden."""

from dataclasses import replace

import numpy as np
import pytest
from panel_sessions import listener, opened
from panel_texts import labels_are_plain, shown_texts
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QPlainTextEdit, QPushButton, QRadioButton, QTableWidget

from napari_ctvqa.core.asking import Picture
from napari_ctvqa.core.probe_results import ProbeAnswer, Verdict, behaviour, summaries
from napari_ctvqa.core.probes import Effect, table
from napari_ctvqa.core.probing import Probing
from napari_ctvqa.core.session import RunProgress, RunState, Session
from napari_ctvqa.runners.choices import Wanted
from napari_ctvqa.runners.probe_sight import ProbeSight
from napari_ctvqa.widgets.panels.probes import CHOOSE, FIRST_CHOSEN, MAKING, PANEL
from napari_ctvqa.widgets.pictures import PictureGrid

HOSTILE = "<b>left</b>\u202e"


def answer(probe, verdict, effect=Effect.FLIPS, said="left", original="right", **more):
    return ProbeAnswer("bench_00000", probe, "lesion_side", effect, verdict, said, original, **more)


ANSWERS = (
    answer("blank", Verdict.UNCHANGED, Effect.VOID, "right", right=True, chance=0.5),
    answer("mirrored", Verdict.AS_MUST),
    answer("reworded", Verdict.OTHER, Effect.SAME, HOSTILE),
    answer("lesion_removed", Verdict.NOT_MADE, said="", reason="There is no mask of the liver."),
    answer("window", Verdict.FAILED, Effect.SAME, "", reason="The server does not answer."),
)


def found(answers=ANSWERS, **changes):
    told = summaries(answers)
    by_probe = {one.probe: one for one in answers}
    state = Probing(
        False, "toy", 6, 6, 1, None, "", "/tmp/p.json", {"bench_00000": by_probe}, told,
        behaviour(told),
    )  # fmt: skip
    return replace(state, **changes)


@pytest.fixture
def session():
    made = opened(3)
    made.update(wanted=Wanted("toy"))
    return made


@pytest.fixture
def show(qtbot):
    def make(session, width=400):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, 700)
        panel.show()
        return panel

    return make


def button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text() == text)


def said(panel):
    return shown_texts(panel)


def cells(panel):
    shown = panel.findChild(QTableWidget)
    return [
        [shown.item(row, column).text() for column in range(shown.columnCount())]
        for row in range(shown.rowCount())
    ]


def test_every_probe_is_listed_with_what_it_does_and_needs(show, session):
    listed = show(session).findChild(QListWidget)
    items = [listed.item(row) for row in range(listed.count())]
    assert [item.text() for item in items] == [p.title for p in table().probes.values()]
    assert all("Needs" in item.toolTip() for item in items)


def test_what_is_ticked_is_asked_for_this_question_or_the_filter(show, session):
    panel, heard = show(session), listener(session.wishes.probe)
    assert panel.chosen == FIRST_CHOSEN
    button(panel, "Probe").click()
    button(panel, "None").click()
    assert not button(panel, "Probe").isEnabled() and "Tick a probe" in said(panel)
    panel.findChild(QListWidget).item(3).setCheckState(Qt.CheckState.Checked)
    everything = [b for b in panel.findChildren(QRadioButton) if "filter" in b.text()]
    everything[0].setChecked(True)
    assert "toy (chosen in Run) 6 times: 3 ×" in said(panel)
    button(panel, "Probe").click()
    assert heard == [("question", FIRST_CHOSEN), ("filter", ("blank",))]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wanted": None}, "Choose a model in Run"),
        ({"case": None}, "Wait until the case is read"),
        ({"question": None}, "Choose a question"),
    ],
)
def test_why_nothing_can_be_probed(show, session, change, why):
    panel = show(session)
    session.update(**change)
    assert why in said(panel) and not button(panel, "Probe").isEnabled()


def test_nothing_open_says_what_to_do(show):
    assert "Open a benchmark" in said(show(Session()))


def test_a_run_and_probes_do_not_ask_at_once(show, session):
    panel = show(session)
    session.update(progress=RunProgress(RunState.RUNNING, "toy", 0, 1))
    assert not button(panel, "Probe").isEnabled()
    session.update(progress=RunProgress(), probing=Probing(running=True, total=4))
    assert not button(panel, "Probe").isEnabled() and button(panel, "Stop").isEnabled()
    heard = listener(session.wishes.cancel_probes)
    button(panel, "Stop").click()
    assert heard == [()]


def test_the_answers_of_the_question_stand_in_the_table_s_order(show, session):
    panel = show(session)
    session.update(probing=found())
    rows = cells(panel)
    assert [row[0] for row in rows] == [
        "Mirrored left-right",
        "Lesion removed",
        "Blank volume",
        "Other window",
        "Question reworded",
    ]
    assert rows[0][1:] == ["right → left", "✓ changed, as it must"]
    assert rows[1][1:] == ["–", "not made: There is no mask of the liver."]
    assert rows[2][1:] == ["right", "= kept, though none is right: a guess"]
    assert "failed: The server does not answer." in rows[3][2]
    assert rows[4][2] == "≠ changed otherwise; it must stay"
    assert "6 of 6" in said(panel) and "1 failed" in said(panel)


def test_another_question_has_a_table_of_its_own(show, session):
    panel = show(session)
    session.update(probing=found())
    session.update(row=1, question=session.questions[1])
    assert cells(panel) == [] and "has not been probed" in said(panel)


def test_sentences_say_what_the_probes_show(show, session):
    panel = show(session)
    session.update(probing=found())
    text = panel.findChild(QPlainTextEdit).toPlainText()
    assert "Mirrored left-right: 1 asked" in text and "do not decide" in text
    assert "Not made for 1: There is no mask of the liver." in text


def test_nothing_that_tells_a_hidden_reference_is_shown(show, session):
    session.update(hide_reference=True)
    panel = show(session)
    session.update(probing=found())
    assert cells(panel) == [] and not panel.findChild(QPlainTextEdit).isVisible()
    assert "References are hidden" in said(panel) and "no mask" not in said(panel)
    session.update(revealed_ids=frozenset({session.question.id}))
    assert len(cells(panel)) == 5, "revealed, its own answers may be seen"
    assert not panel.findChild(QPlainTextEdit).isVisible(), "sentences are about all of them"


def test_foreign_text_stays_text(show, session):
    panel = show(session)
    session.update(probing=found())
    labels_are_plain(panel)
    shown = panel.findChild(QTableWidget)
    assert "<b>left</b>" in cells(panel)[4][1] and "\u202e" not in cells(panel)[4][1]
    assert "&lt;b&gt;" in shown.item(4, 1).toolTip()


# ------------------------------------------------------------------ what was sent under a probe


def grid(panel):
    return panel.findChild(PictureGrid)


def sight(probe, **changes):
    pixels = np.full((24, 30, 3), 90, np.uint8)
    pictures = (Picture(pixels, "SLICE 1", np.eye(3)), Picture(pixels + 20, "SLICE 2", np.eye(3)))
    return ProbeSight("bench_00000", probe, pictures, "mirrored between left and right", **changes)


def choose(panel, row):
    panel.findChild(QTableWidget).selectRow(row)


def test_a_chosen_row_asks_for_its_pictures_and_shows_them_as_changed(show, session):
    session.update(row=0, question=session.questions[0], revealed_ids={"bench_00000"})
    session.update(probing=found())
    panel = show(session)
    wished = listener(session.wishes.show_probe)
    assert CHOOSE in said(panel) and not grid(panel).isVisible()
    choose(panel, 0)
    assert wished == ["mirrored"] and MAKING in said(panel)
    session.update(probe_sight=sight("mirrored"))
    text = said(panel)
    assert "Changed pictures, not the patient's." in text
    assert "left and right are swapped in these pictures" in text
    assert grid(panel).isVisible() and grid(panel).count() == 2
    pointed = listener(session.wishes.show_picture)
    grid(panel).setCurrentRow(1)
    assert pointed[-1].label == "SLICE 2"
    choose(panel, 1)
    assert pointed[-1] is None, "the frame of another probe's picture goes"
    labels_are_plain(panel)


def test_pictures_of_another_probe_or_question_are_not_shown(show, session):
    session.update(row=0, question=session.questions[0], revealed_ids={"bench_00000"})
    session.update(probing=found())
    panel = show(session)
    choose(panel, 0)
    session.update(probe_sight=sight("blank"))
    assert not grid(panel).isVisible() and MAKING in said(panel)
    session.update(probe_sight=sight("mirrored"))
    assert grid(panel).isVisible()
    wished = listener(session.wishes.show_probe)
    session.update(row=1, question=session.questions[1])
    assert wished == [""] and not grid(panel).isVisible()
    assert "swapped" not in said(panel)


def test_the_chosen_probe_stays_chosen_where_another_comes_before_it(show, session):
    session.update(row=0, question=session.questions[0], revealed_ids={"bench_00000"})
    session.update(probing=found(tuple(a for a in ANSWERS if a.probe != "mirrored")))
    panel = show(session)
    choose(panel, [row[0] for row in cells(panel)].index(table().probes["blank"].title))
    session.update(probe_sight=sight("blank"))
    wished = listener(session.wishes.show_probe)
    session.update(probing=found())
    shown = panel.findChild(QTableWidget)
    assert shown.item(shown.currentRow(), 0).text() == table().probes["blank"].title
    assert wished == [] and grid(panel).isVisible()


def test_hidden_references_hide_what_was_sent(show, session):
    session.update(row=0, question=session.questions[0], revealed_ids={"bench_00000"})
    session.update(probing=found())
    panel = show(session)
    choose(panel, 1)
    session.update(probe_sight=sight("lesion_removed"))
    assert grid(panel).isVisible()
    session.update(hide_reference=True, revealed_ids=frozenset())
    assert not grid(panel).isVisible() and "the patient has it" not in said(panel)


def test_why_there_are_no_pictures_is_said(show, session):
    session.update(row=0, question=session.questions[0], revealed_ids={"bench_00000"})
    session.update(probing=found())
    panel = show(session)
    choose(panel, 0)
    session.update(probe_sight=ProbeSight("bench_00000", "mirrored", problem=HOSTILE))
    assert not grid(panel).isVisible()
    labels_are_plain(panel)
