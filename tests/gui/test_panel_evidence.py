"""Evidence panel: two chains side by side, the way into the voxels, nothing told while hidden."""

from dataclasses import replace

import numpy as np
import pytest
from panel_sessions import FIRST_ID, SECRET, case, chains, opened, question, steps
from panel_sessions import listener as heard_from
from panel_texts import labels_are_plain, shown_texts, texts_of
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QComboBox, QPushButton

from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    ChainStatus,
    EvidenceChain,
    EvidenceStep,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.session import CaseState, MaskFocus, RunProgress, RunState, Session
from napari_ctvqa.widgets.evidence_table import MODEL, REFERENCE, EvidenceTable
from napari_ctvqa.widgets.panels.evidence import PANEL

HOSTILE = "<b>bold</b><a href='http://example.org'>x</a>\u202egnp\x00"


@pytest.fixture
def show(qtbot):
    def make(session, width=400, height=700):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, height)
        panel.show()
        qtbot.waitExposed(panel)
        return panel

    return make


def _table(panel):
    return panel.findChild(EvidenceTable)


def _card(panel, row, column):
    return _table(panel).cellWidget(row, column)


def _button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if text in b.text())


def _long_session(count=30, differs_at=25):
    """A session whose chains are too long to be seen at once."""
    made = [
        EvidenceStep(StepKind.MEASURE, f"part {i}", "volume", float(i), "cm³", mask="kidney_left")
        for i in range(count)
    ]
    rows = tuple(
        AlignedStep(s, s, StepMatch.SAME if i != differs_at else StepMatch.WRONG_VALUE)
        for i, s in enumerate(made)
    )
    chain = EvidenceChain(FIRST_ID, "m", tuple(made))
    return opened(
        reference_chain=chain,
        model_chains={"m": chain},
        comparisons={"m": ChainComparison(rows, differs_at)},
    )


# ---------------------------------------------------------------------- steps


def test_a_card_shows_all_that_makes_a_step_checkable(show):
    panel = show(opened(**chains()))
    text = shown_texts(_card(panel, 1, REFERENCE))
    for part in (
        *("measure · volume", "left kidney", "154.2 cm³", "rule: voxel count times voxel volume"),
        *("source: reference mask", "⚠ touches the border of the volume"),
    ):
        assert part in text
    assert "≈ assumed" in shown_texts(_card(panel, 2, REFERENCE))
    assert "≈ assumed" not in text


def test_a_rows_match_is_told_by_sign_word_and_error(show):
    panel = show(opened(**chains()))
    assert "✓ same" in shown_texts(_card(panel, 0, MODEL))
    assert "✗ wrong value (−21.5\N{NO-BREAK SPACE}%)" in shown_texts(_card(panel, 1, MODEL))
    assert "∅ missing" in shown_texts(_card(panel, 2, MODEL))


def test_only_the_first_difference_is_marked_so(show):
    panel = show(opened(**chains()))
    marked = [i for i in range(3) if "First difference" in shown_texts(_card(panel, i, MODEL))]
    assert marked == [1]


@pytest.mark.parametrize(
    ("match", "error", "words"),
    [
        (StepMatch.WRONG_TARGET, "", "▶ Same answer from another target"),
        (StepMatch.WRONG_VALUE, "", "▶ Same answer from another value"),
        (StepMatch.WRONG_VALUE, "no mask", "▶ Same answer though this step failed"),
        (StepMatch.MISSING, "", "▶ Same answer without this step"),
    ],
)
def test_a_difference_on_the_way_to_the_same_answer_says_what_is_so(show, match, error, words):
    wanted = EvidenceStep(StepKind.MEASURE, "liver", "volume_cm3", 1500.0, "cm³")
    other = None if match is StepMatch.MISSING else replace(wanted, value=200.0, error=error)
    end = EvidenceStep(StepKind.CONCLUDE, "liver", value="yes")
    rows = (AlignedStep(wanted, other, match), AlignedStep(end, end, StepMatch.SAME))
    session = opened(
        reference_chain=EvidenceChain(FIRST_ID, "reference", (wanted, end)),
        model_chains={"m": EvidenceChain(FIRST_ID, "m", (*([other] if other else []), end))},
        comparisons={"m": ChainComparison(rows, 0)},
    )
    shown = shown_texts(_card(show(session), 0, MODEL))
    assert words in shown
    assert "difference" not in shown


def test_what_was_done_besides_is_no_fault_and_measures_are_words(show):
    wanted = EvidenceStep(StepKind.MEASURE, "liver", "volume_cm3", 1500.0, "cm³")
    other = EvidenceStep(StepKind.MEASURE, "spleen", "volume_cm3", 200.0, "cm³")
    end = EvidenceStep(StepKind.CONCLUDE, "liver", value="yes")
    extra = EvidenceStep(StepKind.SEGMENT, "aorta", "voxels", 9.0, "voxels")
    rows = (
        AlignedStep(wanted, other, StepMatch.WRONG_TARGET, note="spleen for liver"),
        AlignedStep(None, extra, StepMatch.EXTRA, harmless=True),
        AlignedStep(end, end, StepMatch.SAME),
    )
    session = opened(
        reference_chain=EvidenceChain(FIRST_ID, "reference", (wanted, end)),
        model_chains={"m": EvidenceChain(FIRST_ID, "m", (other, extra, end))},
        comparisons={"m": ChainComparison(rows, 0)},
    )
    panel = show(session)
    assert "+ besides: the reference has no such step" in shown_texts(_card(panel, 1, MODEL))
    assert "volume\n" in shown_texts(_card(panel, 0, MODEL)), "words, not volume_cm3"


def test_it_says_with_what_each_chain_was_compared(show):
    text = shown_texts(show(opened(**chains())))
    assert "✓ agrees with the stated reference" in text
    assert "✗ differs from what the masks give: says B" in text


def test_an_error_of_a_tool_is_no_value(show):
    failed = EvidenceStep(StepKind.MEASURE, "spleen", "volume", error="no mask for spleen")
    row = AlignedStep(None, failed, StepMatch.EXTRA)
    chain = EvidenceChain(FIRST_ID, "m", (failed,))
    session = opened(
        reference_chain=EvidenceChain(FIRST_ID, "reference"),
        model_chains={"m": chain},
        comparisons={"m": ChainComparison((row,), 0)},
    )
    text = shown_texts(_card(show(session), 0, MODEL))
    assert "✗ no mask for spleen" in text
    assert "no value" not in text


def test_a_value_that_cannot_be_checked_is_no_zero(show):
    step = EvidenceStep(StepKind.MEASURE, "liver", "volume", None, "cm³")
    session = opened(reference_chain=EvidenceChain(FIRST_ID, "reference", (step,)))
    assert "no value" in shown_texts(_card(show(session), 0, REFERENCE))


def test_the_first_difference_is_scrolled_to(show, qtbot):
    table = _table(show(_long_session(), height=420))
    qtbot.waitUntil(lambda: 0 <= table.rowViewportPosition(25) < table.viewport().height())


def test_the_chosen_model_is_shown_and_kept(show):
    session = opened(**chains())
    panel = show(session)
    panel.choose_model("Meissa-4B-oracle")
    assert "+ extra" in shown_texts(panel)
    session.update(**chains())
    assert panel.findChild(QComboBox).currentData() == "Meissa-4B-oracle"
    assert "+ extra" in shown_texts(panel)


def test_the_chosen_model_comes_back_after_a_question_it_did_not_answer(show, qtbot):
    session = opened(**chains())
    panel = show(session)
    panel.choose_model("Meissa-4B-oracle")
    state = chains()
    del state["model_chains"]["Meissa-4B-oracle"]
    session.update(**state)
    assert "First difference" in shown_texts(panel)
    session.update(**chains())
    qtbot.waitUntil(lambda: "+ extra" in shown_texts(panel))


def test_who_answered_just_now_is_shown(show):
    session = opened(**chains())
    panel = show(session)
    live = EvidenceChain(FIRST_ID, "rules", steps()[:1], "C")
    row = AlignedStep(None, live.steps[0], StepMatch.EXTRA)
    session.update(
        progress=RunProgress(RunState.RUNNING, "rules", 1, 1),
        model_chains={**session.model_chains, "rules": live},
        comparisons={**session.comparisons, "rules": ChainComparison((row,), 0)},
    )
    assert panel.findChild(QComboBox).currentData() == "rules"


def test_one_model_needs_no_choice(show):
    state = chains()
    only = {"m3d": state["model_chains"]["m3d"]}
    panel = show(opened(**{**state, "model_chains": only}))
    assert not panel.findChild(QComboBox).isVisible()
    assert "m3d" in shown_texts(panel)


def test_a_shorter_chain_leaves_nothing_of_a_longer_one(show):
    session = opened(**chains(SECRET))
    panel = show(session)
    one = EvidenceChain(FIRST_ID, "reference", steps()[:1], "yes")
    session.update(reference_chain=one, model_chains={}, comparisons={})
    assert SECRET not in texts_of(panel)
    assert "21.5" not in texts_of(panel)


# ----------------------------------------------------------------- conclusion


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ChainStatus.AGREES, "✓ agrees with the stated reference: within 0.1 %"),
        (ChainStatus.DIFFERS, "✗ differs from the stated reference: within 0.1 %"),
        (ChainStatus.CANNOT_CHECK, "? cannot be checked: within 0.1 %"),
    ],
)
def test_the_conclusion_says_whether_it_can_be_checked(show, status, words):
    text = shown_texts(show(opened(**chains(status=status))))
    assert "⇒ C · 154.2 cm³" in text
    assert words in text


# ------------------------------------------------------------------- choosing


def test_a_click_asks_for_the_step(show):
    session = opened(**chains())
    heard = heard_from(session.wishes.focus_step)
    card = _card(show(session), 1, MODEL)
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    assert heard == [session.comparisons["m3d"].rows[1].model]


def test_a_click_on_a_words_in_a_card_counts_too(show):
    session = opened(**chains())
    heard = heard_from(session.wishes.focus_step)
    panel = show(session)
    card = _card(panel, 1, REFERENCE)
    label = next(p for p in card.findChildren(type(card._target)) if "154.2" in p.text())
    QTest.mouseClick(label, Qt.MouseButton.LeftButton)
    assert heard == [session.comparisons["m3d"].rows[1].reference]


def test_a_missing_step_leads_to_its_counterpart(show):
    session = opened(**chains())
    heard = heard_from(session.wishes.focus_step)
    QTest.mouseClick(_card(show(session), 2, MODEL), Qt.MouseButton.LeftButton)
    assert heard == [session.comparisons["m3d"].rows[2].reference]


def test_arrow_keys_move_and_enter_asks(show):
    session = opened(**chains())
    heard = heard_from(session.wishes.focus_step)
    table = _table(show(session))
    table.setCurrentCell(0, MODEL)
    QTest.keyClick(table, Qt.Key.Key_Down)
    assert heard == []
    QTest.keyClick(table, Qt.Key.Key_Left)
    QTest.keyClick(table, Qt.Key.Key_Return)
    assert heard == [session.comparisons["m3d"].rows[1].reference]


def test_steps_are_walked_and_end_at_the_ends(show):
    session = opened(**chains())
    heard = heard_from(session.wishes.focus_step)
    panel = show(session)
    for by in (1, 1, 1, 1, -1):
        panel.step(by)
    rows = session.comparisons["m3d"].rows
    assert heard == [
        *(rows[0].model, rows[1].model, rows[2].reference, rows[2].reference, rows[1].model)
    ]


def test_walking_an_empty_panel_does_nothing(show):
    session = Session()
    heard = heard_from(session.wishes.focus_step)
    show(session).step(1)
    assert heard == []


def test_buttons_ask_for_slices_and_back(show):
    session = opened(**chains(), focus=MaskFocus("kidney_left", 56, 63, "reference"))
    slices, back = heard_from(session.wishes.mask_slice), heard_from(session.wishes.back)
    panel = show(session)
    _button(panel, "] ▶").click()
    _button(panel, "◀").click()
    _button(panel, "Back").click()
    assert slices == [1, -1]
    assert back == [()]


def test_without_a_focus_there_are_no_slices_to_go_to(show):
    panel = show(opened(**chains()))
    assert not _button(panel, "] ▶").isEnabled()
    assert not _button(panel, "Back").isEnabled()


def test_the_focus_is_stated_with_both_slice_numbers(show):
    session = opened(**chains())
    panel = show(session)
    step = session.comparisons["m3d"].rows[1].model
    session.update(focus=MaskFocus("kidney_left", 6, 13, "reference"), focused_step=step)
    text = shown_texts(panel)
    assert "left kidney · reference mask · slice 7 of 20 as shown, 13 in the file" in text
    table = _table(panel)
    assert (table.currentRow(), table.currentColumn()) == (1, MODEL)


def test_the_same_step_of_a_new_chain_stays_chosen(show):
    session = opened(**chains())
    panel = show(session)
    session.update(focused_step=session.comparisons["m3d"].rows[1].model)
    session.update(**chains())
    table = _table(panel)
    assert (table.currentRow(), table.currentColumn()) == (1, MODEL)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (EvidenceStep(StepKind.MEASURE, "spleen", mask="spleen"), "this case has no mask for it"),
        (EvidenceStep(StepKind.LOOKUP, "normal range"), "this step has no mask"),
    ],
)
def test_a_step_without_a_mask_says_why_nothing_is_shown(show, step, words):
    assert words in shown_texts(show(opened(**chains(), focused_step=step)))


def test_a_mask_still_to_be_read_is_said_to_be_so(show):
    step = EvidenceStep(StepKind.MEASURE, "spleen", mask="spleen")
    session = opened(**chains(), focused_step=step, case=case(complete=False))
    assert "not read yet" in shown_texts(show(session))


def test_details_hold_the_raw_result_as_text(show):
    state = chains()
    step = EvidenceStep(StepKind.MEASURE, "liver", "volume", 3.0, "cm³", raw={"volume_cm3": 3.0})
    chain = EvidenceChain(FIRST_ID, "m3d", (step,))
    session = opened(**{**state, "model_chains": {"m3d": chain}, "comparisons": {}})
    session.update(reference_chain=None)
    panel = show(session)
    panel.step(1)
    _button(panel, "Details").click()
    assert '"volume_cm3": 3.0' in shown_texts(panel)


# ---------------------------------------------------------------- empty states


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"question": None}, "Choose a question"),
        ({"case_state": CaseState.LOADING, "case_message": "Reading X"}, "Reading X"),
        ({"case_state": CaseState.CT_SHOWN}, "masks are still being read"),
        ({"case_state": CaseState.FAILED, "case_message": "no ct.nii.gz"}, "stands under Question"),
        ({}, "being worked out"),
        (
            {
                "reference_chain": EvidenceChain(
                    FIRST_ID, "reference", reason="no rule for the subtype adjacent organ"
                )
            },
            "no rule for the subtype adjacent organ",
        ),
        ({"reference_chain": EvidenceChain(FIRST_ID, "reference", steps())}, "No model's answer"),
    ],
)
def test_an_empty_panel_says_why(show, state, words):
    assert words in shown_texts(show(opened(**state)))


# --------------------------------------------------------------------- hiding


def test_nothing_tells_a_hidden_reference(show):
    panel = show(opened(**chains(SECRET), hide_reference=True))
    text = texts_of(panel)
    assert SECRET not in text
    for word in ("same", "wrong", "missing", "extra", "difference", "agrees", "differs", "21.5"):
        assert word not in text
    for word in ("154.2", "130 to 260", "reference mask"):
        assert word not in text
    assert "121 cm³" in shown_texts(panel)
    assert "hidden until you reveal" in shown_texts(panel)


def test_walking_the_steps_tells_none_of_the_hidden_ones(show):
    session = opened(**chains(SECRET), hide_reference=True)
    heard = heard_from(session.wishes.focus_step)
    panel = show(session)
    _button(panel, "Details").setChecked(True)
    for _ in range(5):
        panel.step(1)
    QTest.mouseClick(_card(panel, 0, REFERENCE), Qt.MouseButton.LeftButton)
    assert SECRET not in texts_of(panel)
    model = session.model_chains["m3d"].steps
    assert all(any(step is own for own in model) for step in heard)


def test_the_reveal_shows_it_and_hiding_again_takes_it_away(show):
    session = opened(**chains(SECRET), hide_reference=True)
    panel = show(session)
    session.update(revealed_ids=frozenset({FIRST_ID}))
    assert SECRET in shown_texts(panel)
    session.update(revealed_ids=frozenset())
    assert SECRET not in texts_of(panel)


# ---------------------------------------------------------------------- trust


def test_hostile_steps_stay_plain_bounded_text(show):
    step = EvidenceStep(
        *(StepKind.MEASURE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE * 10_000),
        caveats=(HOSTILE,) * 500,
        error=HOSTILE,
        raw={HOSTILE: [HOSTILE] * 10_000},
    )
    chain = EvidenceChain(FIRST_ID, HOSTILE, (step,), HOSTILE, ChainStatus.DIFFERS, HOSTILE)
    rows = (AlignedStep(step, step, StepMatch.WRONG_VALUE, float("inf"), HOSTILE),)
    session = opened(
        reference_chain=chain,
        model_chains={HOSTILE: chain, "m": chain},
        comparisons={HOSTILE: ChainComparison(rows, 0)},
    )
    panel = show(session)
    panel.step(1)
    _button(panel, "Details").click()
    text = texts_of(panel)
    assert "\u202e" not in text
    assert "\x00" not in text
    assert len(text) < 200_000
    assert labels_are_plain(panel)


def test_very_many_steps_are_cut(show):
    panel = show(_long_session(500, 3))
    assert _table(panel).rowCount() <= 60
    assert "first 60 of 500 steps" in shown_texts(panel)


def test_it_fits_a_narrow_dock(show, qtbot):
    panel = show(opened(**chains()), 380, 400)
    assert panel.minimumSizeHint().width() <= 380
    table = _table(panel)
    assert table.columnWidth(0) + table.columnWidth(1) <= table.viewport().width()
    cards = [_card(panel, row, column) for row in range(3) for column in (REFERENCE, MODEL)]
    qtbot.waitUntil(lambda: all(c.heightForWidth(c.width()) <= c.height() for c in cards))


def test_closing_lets_go_of_the_session(show):
    session = opened(**chains())
    panel = show(session)
    before = len(session.chains_changed)
    panel.close()
    assert len(session.chains_changed) == before - 1
    session.update(question=question(2), rows=np.arange(3))
