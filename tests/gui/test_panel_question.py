"""Question panel: what is shown, what is asked for, what stays hidden until the reveal."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import FIRST_ID, SECRET, case, chains, frame, opened, question, run, score
from panel_sessions import listener as heard_from
from panel_texts import labels_are_plain, shown_texts, texts_of
from qtpy.QtWidgets import QApplication, QCheckBox, QLabel, QPlainTextEdit, QPushButton

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.chains import ChainStatus, OtherRule
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import (
    Option,
    Outcome,
    Prediction,
    Reference,
    Run,
    Score,
    ToolCall,
    Trace,
    Turn,
)
from napari_ctvqa.core.session import CaseState, RunProgress, RunState, Session
from napari_ctvqa.widgets.answers import AnswerBox
from napari_ctvqa.widgets.banner import Folding
from napari_ctvqa.widgets.panels.question import PANEL
from napari_ctvqa.widgets.text import BOX_LIMIT, TextBox

HOSTILE = "<h1>bold</h1><a href='file:///etc/passwd'>x</a><img src='http://e.org/x'>\u202egnp\x07"


@pytest.fixture
def show(qtbot):
    def make(session, width=400, height=900):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, height)
        panel.show()
        return panel

    return make


def _one_answer(text, given=None, **state):
    return opened(
        runs={"m": run("m", {FIRST_ID: text})},
        scores={"m": {FIRST_ID: given}} if given is not None else {},
        **state,
    )


# ------------------------------------------------------------------- question


def test_the_question_its_place_its_options_and_its_reference_are_shown(show):
    text = shown_texts(show(opened()))
    for part in (
        "What is the volume of the left kidney in this CT?",
        "bench_00000 · BDMAP_00000017 · recognition · liver lesion existence",
        "98.4 cm³",
        "Reference: C · 154.2 cm³",
        "✓ reference",
    ):
        assert part in text


def test_the_patient_line_says_what_is_not_stated(show):
    patient = {"sex": "Female", "age": "nan", "contrast": ""}
    text = shown_texts(show(opened(question=question(patient=patient))))
    line = "Sex: Female, age: not stated, phase: not stated, scanner: not stated"
    assert line in text


def test_each_models_choice_is_marked_at_its_option(show):
    text = shown_texts(show(opened()))
    assert "◂ m3d" in text
    assert "◂ Meissa-4B-oracle" in text


def test_missing_keys_of_the_record_are_named(show):
    session = opened(question=question(missing_keys=("spacing", "organ")))
    assert "The record lacks: spacing, organ." in shown_texts(show(session))


def test_without_a_question_it_says_what_to_do(show):
    assert "Choose a question" in shown_texts(show(Session()))


def test_a_question_without_options_shows_none(show):
    session = opened(question=question(options=(), reference=Reference("two lesions")))
    text = shown_texts(show(session))
    assert "Reference: two lesions" in text
    assert "98.4" not in text


# -------------------------------------------------------------------- answers


def test_raw_text_is_shown_verbatim_in_a_box_of_its_own(show):
    raw = "Let me think.\n\n  The volume is  121 cm³.\nAnswer: B"
    panel = show(_one_answer(raw, score(Outcome.WRONG, "B")))
    boxes = [b for b in panel.findChildren(TextBox) if b.isVisible()]
    assert [b.toPlainText() for b in boxes] == [raw]
    assert boxes[0].accessibleName() == "Raw answer of m"


def test_both_scores_stand_side_by_side_and_a_difference_is_explained(show):
    given = score(Outcome.WRONG, "A", Outcome.RIGHT, "C")
    text = shown_texts(show(_one_answer("Answer: C", given)))
    for part in ("Official scorer", "✗ wrong", "read: A", "As a person reads it", "✓ right"):
        assert part in text
    sentence = "The official scorer read A from “Answer: C”, a person reads C: wrong officially"
    assert sentence in text


def test_equal_scores_need_no_explanation(show):
    text = shown_texts(show(_one_answer("B", score(Outcome.WRONG, "B"))))
    assert "The official scorer read" not in text


def test_partial_credit_is_shown(show):
    text = shown_texts(show(_one_answer("150", score(Outcome.WRONG, "150", value=0.75))))
    assert "wrong, credit 0.75" in text


def test_a_benchmark_may_call_its_scores_otherwise(show):
    benchmark = SimpleNamespace(score_titles=("Jury by position", "Jury by content"))
    given = score(Outcome.WRONG, "1 of 3 judges", Outcome.RIGHT, "2 of 3 judges")
    text = shown_texts(show(_one_answer("left", given, benchmark=benchmark)))
    assert "Jury by position: 1 of 3 judges, wrong. Jury by content: 2 of 3 judges, right." in text
    assert "a person reads" not in text


def test_an_answer_without_a_score_is_not_scored(show):
    assert "– not scored" in shown_texts(show(_one_answer("B")))


def test_a_failed_run_is_no_answer(show):
    text = shown_texts(show(_one_answer("[ERROR] no mask for spleen", score(Outcome.WRONG, ""))))
    assert "The run failed here" in text
    assert "[ERROR] no mask for spleen" in text


def test_a_failed_run_is_never_shown_as_right(show):
    counted = Score(Outcome.RIGHT, "no", Outcome.UNREAD, "", failed=True)
    text = shown_texts(show(_one_answer("[ERROR] no mask for spleen", counted)))
    assert "no answer, yet counted as right" in text
    assert "✓ right" not in text
    assert "The run failed here: this is no answer." in text


@pytest.mark.parametrize("by_a_way", [True, False])
def test_why_a_request_failed_is_told_with_its_numbers_but_no_agents_reason(show, by_a_way):
    turns = (Turn(1, error="No server is reachable at http://gpu7:8000/v1."),)
    record = {"failure": {"kind": "unreachable", "hint": "", "detail": ""}} if by_a_way else {}
    text = "[ERROR] not any server is reachable at http://gpu#:####/v#."
    failed = Prediction(FIRST_ID, "rules", text, Trace(turns), None, record)
    live = Run("rules", {FIRST_ID: failed})
    said = shown_texts(show(opened(runs={"rules": live}, scores={})))
    assert ("http://gpu7:8000/v1" in said) is by_a_way
    assert "The run failed here" in said


@pytest.mark.parametrize("by_a_way", [True, False])
def test_what_a_reader_must_know_of_a_model_s_answer_stands_below_it(show, by_a_way):
    """Not so an agent's note: it may hold the number that is still hidden."""
    record = {"note": "toy model, not valid on real CT; 'Yes.' is taken for A"}
    record |= {"usage": {"requests": 1}} if by_a_way else {}
    answered = Prediction(FIRST_ID, "toy", "A", Trace(), 9.1, record)
    said = shown_texts(show(opened(runs={"toy": Run("toy", {FIRST_ID: answered})}, scores={})))
    assert ("toy model, not valid on real CT; 'Yes.' is taken for A" in said) is by_a_way


def test_how_sure_the_model_was_stands_with_its_answer(show):
    options = [
        {"letter": "B", "text": HOSTILE, "share": 0.8, "mass": 0.7, "at_most": 0.8},
        {"letter": HOSTILE, "text": "x", "share": 0.2, "mass": 0.175, "at_most": 0.2},
    ]
    record = {"confidence": {"from": "logits", "answer": "B", "value": 0.8, "options": options,
                             "outside": 0.125}}  # fmt: skip
    answered = Prediction(FIRST_ID, "toy", "B", Trace(), 9.1, record)
    said = shown_texts(show(opened(runs={"toy": Run("toy", {FIRST_ID: answered})}, scores={})))
    assert "Confidence: B 0.80 · " in said and "0.20; 0.12 outside the options; from logits" in said
    assert "\u202e" not in said and "\x07" not in said
    damaged = Prediction(FIRST_ID, "toy", "B", Trace(), 9.1, {"confidence": {"value": 9}})
    said = shown_texts(show(opened(runs={"toy": Run("toy", {FIRST_ID: damaged})}, scores={})))
    assert "onfidence" not in said


def test_an_agent_at_work_shows_how_far_it_is(show):
    turns = tuple(Turn(i, ToolCall("measure", {})) for i in range(2))
    live = Run("rules", {FIRST_ID: Prediction(FIRST_ID, "rules", "", Trace(turns))})
    progress = RunProgress(RunState.RUNNING, "rules", 0, 1)
    text = shown_texts(show(opened(runs={"rules": live}, scores={}, progress=progress)))
    assert "2 tool calls so far" in text
    assert "rules is answering" in text


def test_models_without_an_answer_are_named(show):
    session = opened(row=70, question=question(70))
    assert "No answer to this question from: m3d, Meissa-4B-oracle." in shown_texts(show(session))


def test_an_unstated_format_is_said_to_be_assumed(show):
    session = opened()
    session.update(runs={"m3d": Run("m3d", session.runs["m3d"].predictions, None, "r.json")})
    assert "does not say its format: scored as multiple choice" in shown_texts(show(session))


def test_the_next_question_leaves_nothing_of_the_last(show):
    session = opened()
    panel = show(session)
    session.update(row=70, question=question(70, text="Another one?", options=(), raw={}))
    text = texts_of(panel)
    assert "Answer: C" not in text
    assert "98.4" not in text
    assert "Another one?" in text


def test_a_lone_answer_goes_to_the_clipboard_as_it_is(show):
    raw = "C\x00" + "long " * 10_000
    panel = show(_one_answer(raw, score(Outcome.RIGHT, "C")))
    next(b for b in panel.findChildren(QPushButton) if b.text() == "Copy").click()
    assert QApplication.clipboard().text() == raw


# ------------------------------------------------------------------- geometry


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Level.RED, ("NOT verified", "Both orientation codes are 0", "Export the CT again")),
        (Level.AMBER, ("needs a look", "the sform is used")),
    ],
)
def test_unverified_geometry_stands_beside_the_answer(show, level, words):
    text = shown_texts(show(opened(case=case(level))))
    for part in words:
        assert part in text


def test_sound_geometry_needs_no_banner(show):
    text = shown_texts(show(opened()))
    assert "verified" not in text
    assert "needs a look" not in text


def test_masks_that_could_not_be_read_are_named(show):
    session = opened(case=case(problems={"spleen": "spleen.nii.gz: the gzip data end early."}))
    assert "spleen.nii.gz: the gzip data end early." in shown_texts(show(session))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (CaseState.LOADING, "Reading BDMAP_00000017"),
        (CaseState.CT_SHOWN, "masks are still being read"),
        (CaseState.FAILED, "The case cannot be shown. Reading BDMAP_00000017"),
    ],
)
def test_the_state_of_the_case_is_said(show, state, words):
    session = opened(case=None, case_state=state, case_message="Reading BDMAP_00000017 …")
    assert words in shown_texts(show(session))


# --------------------------------------------------------------------- hiding


def _secret_session(**state):
    letter = question(
        reference=Reference(SECRET, "C"),
        options=(Option("A", "one"), Option("C", "three")),
        raw={"answer": SECRET, "correct_option": "C"},
    )
    judged = score(Outcome.WRONG, f"official {SECRET}", Outcome.RIGHT, f"ours {SECRET}")
    return _one_answer("A", judged, question=letter, **state)


def test_nothing_tells_a_hidden_reference(show):
    session = _secret_session(hide_reference=True)
    panel = show(session)
    panel.findChild(Folding).unfold()
    text = texts_of(panel)
    assert SECRET not in text
    for word in ("✓", "✗", "right", "wrong", "reference:"):
        assert word not in text.replace("Reference: hidden", "")
    assert "Reference: hidden until you reveal it" in shown_texts(panel)
    assert "raw record is hidden" in shown_texts(panel)


def test_the_reveal_shows_it_and_hiding_again_takes_it_away(show):
    session = _secret_session(hide_reference=True)
    panel = show(session)
    panel.findChild(Folding).unfold()
    session.update(revealed_ids=frozenset({FIRST_ID}))
    assert SECRET in shown_texts(panel)
    assert f'"answer": "{SECRET}"' in shown_texts(panel)
    session.update(revealed_ids=frozenset())
    assert SECRET not in texts_of(panel)


def test_the_next_question_is_hidden_although_the_last_was_revealed(show):
    session = _secret_session(hide_reference=True, revealed_ids=frozenset({FIRST_ID}))
    panel = show(session)
    session.update(row=1, question=question(1, reference=Reference("OTHER-9", "B"), raw={}))
    assert "OTHER-9" not in texts_of(panel)
    assert SECRET not in texts_of(panel)


def test_a_models_choice_may_be_seen_before_the_reveal(show):
    session = _one_answer("A", score(Outcome.WRONG, "A"), hide_reference=True)
    assert "◂ m" in shown_texts(show(session))


def test_the_switch_and_the_button_ask(show):
    session = opened()
    hide, reveal = heard_from(session.wishes.hide_reference), heard_from(session.wishes.reveal)
    panel = show(session)
    panel.findChild(QCheckBox).click()
    assert hide == [True]
    session.update(hide_reference=True)
    assert hide == [True]
    next(b for b in panel.findChildren(QPushButton) if b.text().startswith("Reveal")).click()
    assert reveal == [()]


def _flawed():
    """Options C and D say the same, and rows 0 and 3 of one case ask the same."""
    rows = frame(6)
    rows.loc[3, ["text", "subtype"]] = rows.loc[0, ["text", "subtype"]].tolist()
    asked = question(
        options=(Option("C", "154.2 cm³"), Option("D", "154.2 cm³")),
    )
    questions = QuestionSet(
        "deeptumorvqa",
        Path("q.json"),
        rows,
        lambda row: asked if row == 0 else question(row, reference=Reference("98.4", "A")),
    )
    return opened(questions=questions, question=asked, rows=np.arange(6), **chains())


def test_what_is_wrong_with_the_question_itself_is_a_plain_line(show):
    session = _flawed()
    panel = show(session)
    text = shown_texts(panel)
    assert "⚠ This question: options C and D say the same." in text
    assert (
        "⚠ This question: asked more than once in this case, with another reference: bench_00003."
        in text
    )
    flag = "no option holds the recomputed value 154.2 cm³"
    session.update(reference_chain=replace(session.reference_chain, flags=(flag,)))
    assert f"⚠ This question: {flag}." in shown_texts(panel)
    session.update(hide_reference=True)
    assert "This question:" not in texts_of(panel)
    session.update(revealed_ids=frozenset({FIRST_ID}))
    assert f"⚠ This question: {flag}." in shown_texts(panel)


def test_a_sound_question_has_no_such_line(show):
    assert "This question:" not in texts_of(show(opened()))


# ---------------------------------------------------------------------- trust


def test_hostile_text_stays_plain_bounded_text(show):
    session = opened(
        question=question(
            text=HOSTILE,
            options=(Option(HOSTILE, HOSTILE),),
            patient={"sex": HOSTILE},
            reference=Reference(HOSTILE),
            missing_keys=(HOSTILE,),
            raw={HOSTILE: HOSTILE},
        ),
        runs={HOSTILE: run(HOSTILE, {FIRST_ID: HOSTILE})},
        scores={HOSTILE: {FIRST_ID: score(Outcome.WRONG, HOSTILE, Outcome.RIGHT, "x")}},
        case_state=CaseState.FAILED,
        case_message=HOSTILE,
    )
    panel = show(session)
    panel.findChild(Folding).unfold()
    text = texts_of(panel)
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "<h1>bold</h1>" in text
    assert labels_are_plain(panel)
    assert not any(label.openExternalLinks() for label in panel.findChildren(QLabel))


def test_five_megabytes_of_answer_are_shown_bounded(show):
    raw = "A" + "<b>x</b>\u202e" * 500_000
    began = time.monotonic()
    panel = show(_one_answer(raw, score(Outcome.UNREAD, ""), question=question(text=raw)))
    longest = max(len(b.toPlainText()) for b in panel.findChildren(QPlainTextEdit))
    assert longest <= BOX_LIMIT * 8 + 50
    assert "more characters" in shown_texts(panel)
    assert max(len(label.text()) for label in panel.findChildren(QLabel)) < 20_000
    assert time.monotonic() - began < 30


def test_it_fits_a_narrow_dock_and_scrolls(show):
    panel = show(opened(case=case(Level.RED)), 380, 300)
    assert panel.minimumSizeHint().width() <= 380
    for box in panel.findChildren(AnswerBox):
        assert box.width() <= 380


def test_closing_lets_go_of_the_session(show):
    session = opened()
    panel = show(session)
    before = len(session.question_changed)
    panel.close()
    assert len(session.question_changed) == before - 1
    session.update(question=question(2), row=2)


# ------------------------------------------------------- a reference that the masks contradict


def contradicted(**state):
    made = chains(status=ChainStatus.DIFFERS)
    reference = made["reference_chain"].with_status(
        ChainStatus.DIFFERS, "recomputed 121.0 cm³, stated 154.2: 21.5 % less"
    )
    m3d = made["model_chains"]["m3d"].with_status(ChainStatus.AGREES)
    right = {FIRST_ID: score(Outcome.RIGHT, "C")}
    return opened(
        **{**made, "reference_chain": reference, "model_chains": {"m3d": m3d}},
        scores={"m3d": right, "Meissa-4B-oracle": right},
        **state,
    )


def test_a_contradicted_reference_is_told_beside_it_and_beside_each_tick(show):
    text = shown_texts(show(contradicted()))
    assert (
        "⚠ Reference contradicted by the masks: recomputed 121.0 cm³, stated 154.2: 21.5 % less."
    ) in text
    assert "✓ reference" not in text and "⚠ reference" in text
    said = "⚠ Right against the stated reference, which the masks contradict"
    assert text.count(said) == 2
    assert f"{said}; the answer agrees with the masks." in text


def test_a_reference_that_the_masks_support_is_not_doubted(show):
    text = shown_texts(show(opened(**chains())))
    assert "contradict" not in text and "✓ reference" in text


def test_a_reference_right_by_another_rule_is_not_called_contradicted(show):
    session = contradicted()
    other = OtherRule("radgpt", "as RadGPT", "154.2 cm³", ChainStatus.AGREES)
    session.update(reference_chain=replace(session.reference_chain, other_rules=(other,)))
    text = shown_texts(show(session))
    assert "≈ Reference right by another rule only (radgpt)" in text
    assert "contradict" not in text


def test_nothing_of_it_is_told_while_the_reference_is_hidden(show):
    text = shown_texts(show(contradicted(hide_reference=True)))
    assert "contradict" not in text and "121.0 cm³, stated" not in text


def test_what_the_masks_say_comes_when_it_is_worked_out(show):
    session = opened(scores={"m3d": {FIRST_ID: score(Outcome.RIGHT, "C")}})
    panel = show(session)
    assert "contradict" not in shown_texts(panel)
    late = contradicted()
    session.update(reference_chain=late.reference_chain, model_chains=late.model_chains)
    assert "⚠ Right against the stated reference" in shown_texts(panel)


def test_the_choosers_of_an_option_never_stand_one_word_a_line(show):
    both = {m: {FIRST_ID: score(Outcome.RIGHT, "C")} for m in ("m3d", "Meissa-4B-oracle")}
    panel = show(opened(scores=both), width=420)
    told = [
        x for x in panel.findChildren(QLabel) if "m3d, Meissa" in x.text().replace("\u200b", "")
    ]
    assert len(told) == 1 and told[0].isVisibleTo(panel)
    assert told[0].height() < 2 * told[0].fontMetrics().lineSpacing()
