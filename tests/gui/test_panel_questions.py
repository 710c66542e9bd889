"""Questions panel: what it lists, what it asks for, what it must not tell."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from panel_sessions import CASES, FIRST_ID, frame, opened, question_set, run, score
from panel_sessions import listener as heard_from
from panel_texts import labels_are_plain, shown_texts, texts_of
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QCompleter, QFileDialog, QHeaderView, QPushButton

from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Outcome, Score
from napari_ctvqa.core.session import Session
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.widgets.banner import Folding
from napari_ctvqa.widgets.panels.questions import PANEL
from napari_ctvqa.widgets.question_model import FRAME_COLUMNS, QuestionTableModel
from napari_ctvqa.widgets.question_table import QuestionTable
from napari_ctvqa.widgets.search_line import (
    Facet,
    SearchLine,
    field_value,
    terms,
    with_field,
)
from napari_ctvqa.widgets.theme import theme_of
from napari_ctvqa.widgets.words import file_notes

HOSTILE = "<b>bold</b><a href='http://example.org'>x</a>\u202egnp\x00"


def _never(_row):
    raise AssertionError("a question was built although only the table was shown")


@pytest.fixture
def show(qtbot):
    def make(session, width=400, height=600):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, height)
        panel.show()
        return panel

    return make


@pytest.fixture
def model(qapp):
    def make(session):
        return QuestionTableModel(session, theme_of(qapp.palette()))

    return make


def _table(panel):
    return panel.findChild(QuestionTable)


def _button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if text in b.text() and b.isVisible())


def _column(model, heading):
    headings = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    return headings.index(heading)


def _colour(model, row, heading):
    return _cell(model, row, heading, Qt.ItemDataRole.ForegroundRole).color().name()


def _cell(model, row, heading, role=Qt.ItemDataRole.DisplayRole):
    return model.index(row, _column(model, heading)).data(role)


# ---------------------------------------------------------------------- table


def test_columns_are_those_of_a_question_and_one_a_model(model):
    shown = model(opened())
    assert [shown.column_key(i) for i in range(shown.columnCount())] == [
        *("id", "stage", "subtype", "case", "text"),
        *("model:m3d", "model:Meissa-4B-oracle"),
    ]
    assert _cell(shown, 1, "subtype") == "kidney volume"


def test_outcomes_show_as_glyphs_with_words(model):
    session = opened(runs={"m": run("m", dict.fromkeys((f"bench_0000{i}" for i in range(5)), "B"))})
    outcomes = (Outcome.RIGHT, Outcome.WRONG, Outcome.UNREAD, Outcome.UNSCORED)
    session.update(scores={"m": {f"bench_0000{i}": score(o, "B") for i, o in enumerate(outcomes)}})
    shown = model(session)
    assert [_cell(shown, i, "m") for i in range(6)] == ["✓", "✗", "?", "–", "–", ""]
    tips = [_cell(shown, i, "m", Qt.ItemDataRole.AccessibleTextRole) for i in range(6)]
    assert [t.split(": ", 1)[1].split()[0] for t in tips] == [
        *("right", "wrong", "unread:", "not", "not", "no")
    ]
    colours = {
        _cell(shown, i, "m", Qt.ItemDataRole.ForegroundRole).color().name() for i in range(4)
    }
    assert len(colours) == 4


def test_a_reading_that_differs_is_marked(model):
    shown = model(opened())
    assert _cell(shown, 0, "m3d") == "✗≠✓"
    words = _cell(shown, 0, "m3d", Qt.ItemDataRole.AccessibleTextRole)
    assert "wrong by the official scorer" in words
    assert "right as a person reads it" in words


def test_a_failed_run_is_told_from_a_wrong_answer(model):
    session = opened(
        runs={"m": run("m", {FIRST_ID: "[ERROR] timeout"})},
        scores={"m": {FIRST_ID: score(Outcome.WRONG, "")}},
    )
    assert "failed" in _cell(model(session), 0, "m", Qt.ItemDataRole.AccessibleTextRole)


def test_a_failed_run_is_never_right_in_the_list(model):
    counted = Score(Outcome.RIGHT, "no", Outcome.UNREAD, "", failed=True)
    session = opened(
        runs={"m": run("m", {FIRST_ID: "[ERROR] no mask"})}, scores={"m": {FIRST_ID: counted}}
    )
    shown = model(session)
    assert _cell(shown, 0, "m") == "?≠"
    words = _cell(shown, 0, "m", Qt.ItemDataRole.AccessibleTextRole)
    assert "no answer" in words and "gives credit" in words
    ground = _cell(shown, 0, "m", Qt.ItemDataRole.ForegroundRole)
    assert ground.color().name() == shown._theme.unread.lower()
    assert "credit to 1 of 1 failed answers" in " ".join(file_notes(session))


def test_painting_half_a_million_rows_builds_no_question(show, qtbot):
    session = opened(476_000, questions=question_set(476_000, build=_never))
    panel = show(session, 700)
    table = _table(panel)
    qtbot.waitUntil(lambda: table.rowAt(10) == 0)
    table.scrollToBottom()
    panel.grab()
    assert table.model().rowCount() == 476_000
    for where in ("subtype:kidney", "item 4711", "case:2203 -stage:measurement", ""):
        rows = parse_where(where).rows(session.questions, session.scores)
        session.update(where=where, rows=rows)
        panel.grab()
        assert table.model().rowCount() == len(rows)
    session.update(rows=session.rows[::-1], order=("id", True))
    assert table.model().index(0, 0).data() == "bench_475999"
    panel.grab()


def test_a_column_of_half_a_million_rows_is_not_measured_row_by_row(show):
    table = _table(show(opened(476_000)))
    mode = table.verticalHeader().sectionResizeMode(0)
    assert mode == QHeaderView.ResizeMode.Fixed


def test_the_models_stand_beside_the_id_where_a_narrow_dock_shows_them(show):
    table = _table(show(opened()))
    header = table.horizontalHeader()
    models = [header.visualIndex(len(FRAME_COLUMNS) + i) for i in range(2)]
    assert models == [1, 2]
    assert header.sectionViewportPosition(len(FRAME_COLUMNS) + 1) < 300


def test_answers_that_arrive_repaint_and_keep_the_place(show):
    session = opened()
    panel = show(session)
    table = _table(panel)
    session.update(row=5)
    scores = {
        **session.scores,
        "m3d": {**session.scores["m3d"], FIRST_ID: score(Outcome.RIGHT, "C")},
    }
    session.update(scores=scores)
    assert _cell(table.model(), 0, "m3d") == "✓"
    assert table.currentIndex().row() == 5


def test_a_new_model_adds_a_column_and_keeps_the_place(show):
    session = opened(row=4)
    table = _table(show(session))
    session.update(runs={**session.runs, "rules": run("rules", {FIRST_ID: "C"})})
    assert table.model().columnCount() == len(FRAME_COLUMNS) + 3
    assert table.currentIndex().row() == 4


# ------------------------------------------------------------------- choosing


def test_choosing_a_row_asks_for_that_row_of_the_file(show):
    session = opened(rows=np.array([7, 3, 1]), row=None)
    heard = heard_from(session.wishes.select_row)
    table = _table(show(session))
    table.setCurrentIndex(table.model().index(1, 0))
    assert heard == [3]


def test_the_session_moves_the_cursor_without_asking_back(show):
    session = opened()
    heard = heard_from(session.wishes.select_row)
    table = _table(show(session))
    session.update(row=9)
    assert table.currentIndex().row() == 9
    assert heard == []


def test_a_held_arrow_key_opens_not_every_question(show, qtbot):
    session = opened(row=0)
    heard = heard_from(session.wishes.select_row)
    table = _table(show(session))
    table.setFocus()
    for _ in range(12):
        QTest.keyClick(table, Qt.Key.Key_Down)
    assert len(heard) < 6
    qtbot.waitUntil(lambda: heard[-1] == 12)


def test_next_and_previous_ask_and_stop_at_the_ends(show):
    session = opened(rows=np.array([2, 5]), row=2)
    heard = heard_from(session.wishes.step_question)
    panel = show(session)
    forward, back = _button(panel, "Next"), _button(panel, "Previous")
    assert forward.isEnabled()
    assert not back.isEnabled()
    forward.click()
    session.update(row=5)
    assert not forward.isEnabled()
    back.click()
    assert heard == [1, -1]


def test_a_heading_sorts_up_then_down_then_in_file_order(show):
    session = opened()
    heard = heard_from(session.wishes.sort)
    table = _table(show(session))
    section = FRAME_COLUMNS.index("subtype")
    for order in (("", False), ("subtype", False), ("subtype", True)):
        session.update(order=order)
        table.horizontalHeader().sectionClicked.emit(section)
    assert heard == [("subtype", False), ("subtype", True), ("", False)]


def test_the_sorted_column_is_marked(show):
    session = opened(order=("case", True))
    header = _table(show(session)).horizontalHeader()
    assert header.isSortIndicatorShown()
    assert header.sortIndicatorSection() == FRAME_COLUMNS.index("case")


# ------------------------------------------------------------------ searching


def test_the_count_says_how_many_of_how_many(show):
    session = opened(82, rows=np.arange(37), row=4)
    assert "37 of 82 questions · at 5" in shown_texts(show(session))


def test_typing_asks_for_the_filter_after_a_pause(show, qtbot):
    session = opened()
    heard = heard_from(session.wishes.filter)
    line = show(session).findChild(SearchLine)
    QTest.keyClicks(line, "stage:measurement")
    assert heard == []
    qtbot.waitUntil(lambda: heard == ["stage:measurement"])


def test_a_filter_that_cannot_be_understood_is_explained_under_the_line(show, qtbot):
    session = opened()
    heard = heard_from(session.wishes.filter)
    panel = show(session)
    line = panel.findChild(SearchLine)
    QTest.keyClicks(line, "colour:red")
    QTest.keyClick(line, Qt.Key.Key_Return)
    assert "no field 'colour'" in shown_texts(panel)
    assert "stage, subtype, case, model, outcome" in shown_texts(panel)
    assert heard == []
    line.clear()
    qtbot.waitUntil(lambda: "colour" not in shown_texts(panel))


def test_a_filter_set_elsewhere_shows_in_the_line_and_the_facets(show):
    session = opened()
    panel = show(session)
    session.update(where='stage:"visual reasoning" outcome:wrong', rows=np.arange(3))
    assert panel.findChild(SearchLine).text() == 'stage:"visual reasoning" outcome:wrong'
    assert {f.currentText() for f in panel.findChildren(Facet)} >= {"visual reasoning", "wrong"}


def test_a_facet_edits_the_search_line(show):
    session = opened()
    heard = heard_from(session.wishes.filter)
    panel = show(session)
    line = panel.findChild(SearchLine)
    line.setText("kidney stage:recognition")
    facet = next(f for f in panel.findChildren(Facet) if f.accessibleName() == "Only this stage")
    facet.chosen.emit("visual reasoning")
    assert line.text() == 'kidney stage:"visual reasoning"'
    facet.chosen.emit("")
    assert line.text() == "kidney"
    assert heard == ['kidney stage:"visual reasoning"', "kidney"]


def test_the_outcome_facet_names_the_model_where_there_are_several(show):
    session = opened()
    heard = heard_from(session.wishes.filter)
    panel = show(session)
    facet = next(f for f in panel.findChildren(Facet) if f.accessibleName() == "Only this outcome")
    facet.showPopup()
    facet.hidePopup()
    facet.setCurrentIndex(facet.findData("wrong m3d"))
    facet.activated.emit(facet.currentIndex())
    assert heard == ["model:m3d outcome:wrong"]
    assert len(parse_where(heard[0]).rows(session.questions, session.scores)) > 0


def test_facets_list_values_with_counts_only_when_opened(show):
    panel = show(opened(82))
    facet = next(f for f in panel.findChildren(Facet) if f.accessibleName() == "Only this case")
    assert facet.count() == 1
    facet.showPopup()
    texts = [facet.itemText(i) for i in range(facet.count())]
    facet.hidePopup()
    assert texts[0] == "Any case"
    assert f"{CASES[0]}  (28)" in texts


def test_fields_and_values_are_completed(qtbot):
    line = SearchLine({"stage": lambda: ("recognition", "visual reasoning"), "case": list})
    qtbot.addWidget(line)
    line.setText("kidney sta")
    assert line.candidates() == ["stage:"]
    line.setText("kidney -stage:vis")
    assert line.candidates() == ['-stage:"visual reasoning"']
    heard = heard_from(line.searched)
    line._insert('-stage:"visual reasoning"')
    assert line.text() == 'kidney -stage:"visual reasoning" '
    assert heard == ['kidney -stage:"visual reasoning" ']


def test_a_completion_is_chosen_by_keyboard(show, qtbot):
    line = show(opened()).findChild(SearchLine)
    line.setFocus()
    QTest.keyClicks(line, "kidney sta")
    popup = line.findChild(QCompleter).popup()
    assert popup.isVisible()
    QTest.keyClick(popup, Qt.Key.Key_Down)
    QTest.keyClick(popup, Qt.Key.Key_Return)
    assert line.text() == "kidney stage:"
    QTest.keyClicks(line, "vis")
    QTest.keyClick(popup, Qt.Key.Key_Down)
    QTest.keyClick(popup, Qt.Key.Key_Return)
    assert line.text() == 'kidney stage:"visual reasoning" '


@pytest.mark.parametrize(
    ("before", "field", "value", "after"),
    [
        ("", "stage", "a b", 'stage:"a b"'),
        ('x stage:"a b" y', "stage", "", "x y"),
        ("-case:1 case:2", "case", "3", "case:3"),
        ('"stage:x in the text"', "stage", "y", '"stage:x in the text" stage:y'),
    ],
)
def test_a_field_is_replaced_in_the_text(before, field, value, after):
    assert with_field(before, field, value) == after
    assert field_value(after, field) == value


def test_terms_are_split_outside_quotes():
    assert terms('a -stage:"b c" "d e" f:') == ["a", '-stage:"b c"', '"d e"', "f:"]


# --------------------------------------------------------------------- empty


def test_nothing_open_says_what_to_do(show):
    session = Session()
    demo = heard_from(session.wishes.open_demo)
    panel = show(session)
    assert "Nothing is open yet." in shown_texts(panel)
    _button(panel, "demo").click()
    assert demo == [()]


def test_a_filter_without_matches_offers_to_clear_it(show):
    session = opened(where="stage:nothing", rows=np.zeros(0, np.intp))
    heard = heard_from(session.wishes.filter)
    panel = show(session)
    assert "No question fits this filter." in shown_texts(panel)
    assert "0 of 82 questions" in shown_texts(panel)
    _button(panel, "Clear the filter").click()
    assert heard == [""]


def test_a_case_without_questions_says_so(show):
    session = opened(questions=None, rows=np.zeros(0, np.intp), row=None, question=None)
    assert "There are no questions in test_qa.json" in shown_texts(show(session))


def test_what_the_readers_left_out_is_noted(show):
    session = opened()
    noted = replace(session.runs["m3d"], notes=("3 rows have no qid and are left out.",))
    problems = ("line 7: no key question",)
    questions = replace(session.questions, problems=problems, notes={"questions_from": "x.json"})
    panel = show(session)
    folding = panel.findChild(Folding)
    assert not folding.isVisible()
    session.update(questions=questions, runs={**session.runs, "m3d": noted})
    folding.unfold()
    assert folding.button.text() == "Notes on the files (2)"
    text = shown_texts(panel)
    assert "questions: line 7: no key question" in text
    assert "m3d: 3 rows have no qid and are left out." in text
    assert "x.json" not in text


def test_dialogs_never_block_and_ask_for_what_was_chosen(show, monkeypatch, tmp_path):
    monkeypatch.setattr(QFileDialog, "open", lambda dialog: dialog.fileSelected.emit(str(tmp_path)))
    session = opened()
    wishes = session.wishes
    heard = {
        n: heard_from(getattr(wishes, n)) for n in ("open_path", "open_results", "add_case_root")
    }
    panel = show(session)
    panel.choose_folder()
    panel.choose_file()
    panel.choose_results()
    panel.choose_case_root()
    assert heard == {
        "open_path": [tmp_path, tmp_path],
        "open_results": [tmp_path],
        "add_case_root": [tmp_path],
    }


# ---------------------------------------------------------- hiding and trust


def test_hidden_references_leave_no_outcome_in_the_list(show, model):
    session = opened(hide_reference=True)
    shown = model(session)
    glyphs = {_cell(shown, i, "m3d") for i in range(60)}
    assert glyphs == {"·"}
    for role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
        words = " ".join(str(_cell(shown, i, "m3d", role)) for i in range(60))
        assert "hidden" in words
        assert not {"right", "wrong", "unread"} & set(words.replace(":", " ").split())
    colours = {
        _cell(shown, i, "m3d", Qt.ItemDataRole.ForegroundRole).color().name() for i in range(60)
    }
    assert len(colours) == 1
    session.update(revealed_ids=frozenset({FIRST_ID}))
    assert _cell(shown, 0, "m3d") == "✗≠✓"
    assert _cell(shown, 1, "m3d") == "·"


def test_hidden_references_are_told_neither_by_sorting_nor_by_the_facet(show):
    session = opened(hide_reference=True)
    heard = heard_from(session.wishes.sort)
    panel = show(session)
    _table(panel).horizontalHeader().sectionClicked.emit(len(FRAME_COLUMNS))
    assert heard == []
    assert "not sorted by them" in shown_texts(panel)
    facet = next(f for f in panel.findChildren(Facet) if f.accessibleName() == "Only this outcome")
    assert not facet.isEnabled()


def test_a_filter_that_tells_outcomes_is_pointed_out_while_hidden(show):
    panel = show(opened(hide_reference=True, where="outcome:wrong"))
    assert "tells outcomes" in shown_texts(panel)


def test_foreign_text_stays_text(show, model):
    rows = frame(82).assign(text=HOSTILE, stage=HOSTILE)
    questions = QuestionSet("made", Path("made.json"), rows, _never)
    session = opened()
    session.update(questions=questions, runs={HOSTILE: run(HOSTILE, {})}, scores={})
    panel = show(session)
    everything = texts_of(panel)
    assert "\u202e" not in everything
    assert "\x00" not in everything
    assert labels_are_plain(panel)
    tip = _cell(model(session), 0, "question", Qt.ItemDataRole.ToolTipRole)
    assert "&lt;b&gt;bold" in tip
    assert "<b>" not in tip


def test_closing_lets_go_of_the_session(show):
    session = opened()
    panel = show(session)
    before = len(session.rows_changed)
    panel.close()
    assert len(session.rows_changed) == before - 1
    session.update(rows=np.arange(2), row=1)


def test_it_fits_a_narrow_dock(show):
    panel = show(opened(), 380)
    assert panel.minimumSizeHint().width() <= 380
    for button in panel.findChildren(QPushButton):
        if button.isVisible():
            assert button.width() >= button.minimumSizeHint().width()


def test_a_long_count_is_never_cut(show):
    panel = show(opened(60, rows=np.arange(60)), width=400)
    panel._count.show_text("476,000 of 476,000 questions · at 123,456")
    QApplication.processEvents()
    needed = panel._count.heightForWidth(panel._count.width())
    assert panel._count.height() >= needed


def test_the_legend_says_what_the_sign_between_two_scores_means(show):
    session = opened()
    assert "≠\u00a0read\u00a0differently" in shown_texts(show(session))
    titles = ("Jury as published", "Jury aligned")
    titled = SimpleNamespace(score_titles=titles, score_note="By x.")
    session.update(benchmark=titled)
    panel = show(session)
    assert (
        "≠\u00a0first:\u00a0Jury\u00a0as\u00a0published,\u00a0then:\u00a0Jury\u00a0aligned"
        in shown_texts(panel)
    )
    assert "By x." in panel._legend.toolTip()
