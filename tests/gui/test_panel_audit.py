"""Audit panel: totals, cross table, filters; published tables; calibration; what stays hidden."""

import pytest
from panel_sessions import FIRST_ID, listener, opened, question_set
from panel_texts import labels_are_plain, shown_texts
from qtpy.QtCore import QItemSelectionModel, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QComboBox, QLabel, QPushButton

from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core.audited import audited
from napari_ctvqa.core.records import AnswerFormat, Outcome, Prediction, Run, Score
from napari_ctvqa.core.session import Session
from napari_ctvqa.core.where import parse_where
from napari_ctvqa.widgets.audit_tables import BoardTable, CrossView, GroupTable, UnreadTable
from napari_ctvqa.widgets.calibration_view import CalibrationView
from napari_ctvqa.widgets.panels.audit import PAGES, PANEL

RIGHT, WRONG, UNREAD, UNSCORED = Outcome
NAME = "<b>sure</b>"


def scores(count=8):
    """Of 8 answers: 3 right for both, 2 read right only, 1 official right only, 2 unread."""
    pairs = [(RIGHT, RIGHT)] * 3 + [(WRONG, RIGHT)] * 2 + [(RIGHT, WRONG)] + [(UNREAD, UNREAD)] * 2
    hows = ["the letter alone"] * 6 + ["names several options", "no text"]
    return {
        f"bench_{i:05d}": Score(one, "A", other, "B", how=how)
        for i, ((one, other), how) in enumerate(zip(pairs, hows, strict=True))
        if i < count
    }


def session_of(sure=True, **state):
    made = scores()
    record = {"confidence": {"from": "samples", "answer": "B", "value": 0.8}} if sure else {}
    predictions = {key: Prediction(key, NAME, "B", record=record) for key in made}
    run = Run(NAME, predictions, AnswerFormat.MC, "/data/x.json")
    return opened(benchmark=BENCHMARK, runs={NAME: run}, scores={NAME: made}, **state)


def work_out(session):
    """Do what the coordinator does when a panel wishes for an audit."""

    def answer(model):
        run = session.runs[model]
        found = audited(
            BENCHMARK, session.questions, run, session.scores.get(model, {}), AnswerFormat.MC
        )
        session.update(audited=found)

    session.wishes.audit.connect(answer)
    return answer  # psygnal keeps no strong reference to it


@pytest.fixture
def show(qtbot):
    kept = []

    def make(session, page=0, width=400):
        kept.append(work_out(session))
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, 760)
        panel.show()
        choose(panel, page)
        return panel

    return make


def choose(panel, page):
    box = next(b for b in panel.findChildren(QComboBox) if b.itemText(0) == PAGES[0])
    box.setCurrentIndex(page)
    box.activated.emit(page)


def cells(table):
    return [
        [table.item(r, c).text() for c in range(table.columnCount())]
        for r in range(table.rowCount())
    ]


def click(table, row, column):
    table.scrollToItem(table.item(row, column))
    at = table.visualItemRect(table.item(row, column)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)


def test_without_a_run_it_says_what_to_do(show):
    panel = show(Session())
    assert "No run to audit." in shown_texts(panel)
    panel = show(opened(runs={}, scores={}))
    assert "Let a model answer in Run" in shown_texts(panel)


def test_both_totals_and_what_sets_them_apart_are_said(show):
    text = shown_texts(show(session_of()))
    assert "Official scorer: 50.0\N{NO-BREAK SPACE}% (21.5–78.5), 4 of 8 right" in text
    assert "As a person reads it: 62.5\N{NO-BREAK SPACE}% (30.6–86.3), 5 of 8 right" in text
    assert "counts 5 as right, “Official scorer” 4: 1 more." in text
    assert "8 answers to 82 questions." in text


def test_the_cross_table_is_that_of_the_chosen_group(show):
    panel = show(session_of())
    groups, cross = panel.findChild(GroupTable), panel.findChild(CrossView)
    assert [row[0] for row in cells(groups)][:2] == ["all answers", "recognition"]
    assert cells(cross) == [
        ["right", "3", "1", "0", "4"],
        ["wrong", "2", "0", "0", "2"],
        ["unread", "0", "0", "2", "2"],
        ["all", "5", "1", "2", "8"],
    ]
    groups.setCurrentCell(1, 0)  # recognition: questions 0 and 4
    assert cells(cross)[0] == ["right", "1", "0", "0", "1"]
    assert cells(cross)[1] == ["wrong", "1", "0", "0", "1"]
    text = shown_texts(panel)
    assert "recognition: official 50.0\N{NO-BREAK SPACE}% (9.5–90.5), read 100.0" in text


@pytest.mark.parametrize(("row", "column", "found"), [(1, 1, 2), (0, 2, 1), (3, 4, 8), (2, 3, 2)])
def test_a_cell_that_is_clicked_filters_the_questions_to_its_answers(show, row, column, found):
    session = session_of()
    heard = listener(session.wishes.filter)
    panel = show(session)
    click(panel.findChild(CrossView), row, column)
    (where,) = heard
    assert len(parse_where(where).rows(session.questions, session.scores)) == found
    assert f"Questions shows: {where}" in shown_texts(panel)


def test_enter_chooses_a_cell_as_a_click_does(show):
    session = session_of()
    heard = listener(session.wishes.filter)
    cross = show(session).findChild(CrossView)
    index = cross.model().index(1, 1)
    cross.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
    QTest.keyClick(cross, Qt.Key.Key_Return)
    assert heard == [f'model:"{NAME}" official:wrong read:right']


def test_unread_answers_are_listed_by_why_and_lead_to_their_questions(show):
    session = session_of()
    heard = listener(session.wishes.filter)
    table = show(session).findChild(UnreadTable)
    assert cells(table) == [
        ["no text, or none but thoughts", "0", "1"],
        ["names several, or yes and no", "0", "1"],
    ]
    click(table, 1, 0)
    click(table, 0, 1)
    assert heard == [
        f'model:"{NAME}" unread:several', f'model:"{NAME}" official:right unread:empty',
    ]  # fmt: skip


def test_hidden_references_hide_the_outcomes(show):
    session = session_of(hide_reference=True)
    for page in range(len(PAGES)):
        panel = show(session, page)
        assert "References are hidden." in shown_texts(panel)
        shown = [p for t in (GroupTable, CrossView, BoardTable, CalibrationView)
                 for p in panel.findChildren(t) if p.isVisible()]  # fmt: skip
        assert shown == []
    session.update(hide_reference=False)
    assert "References are hidden." not in shown_texts(panel)


def test_a_name_from_outside_is_plain_text(show):
    panel = show(session_of())
    assert labels_are_plain(panel)
    assert panel.findChildren(QComboBox)[0].currentText() == NAME


def test_what_is_shown_is_copied_as_text(show):
    panel = show(session_of())
    button = next(b for b in panel.findChildren(QPushButton) if b.text() == "Copy")
    button.click()
    copied = QApplication.clipboard().text()
    assert copied.startswith(NAME) and "rows: Official scorer" in copied
    choose(panel, 1)
    button.click()
    assert "Meissa-4B FT (organ)" in QApplication.clipboard().text()
    choose(panel, 2)
    button.click()
    assert "Expected calibration error" in QApplication.clipboard().text()


def test_published_tables_say_why_a_run_does_not_stand_in_them(show):
    panel = show(session_of(), 1)
    text = shown_texts(panel)
    assert "Not compared: these are 82 questions, the table's are the 10,000" in text
    assert "Source: leaderboard.csv" in text
    rows = cells(panel.findChild(BoardTable))
    assert rows[0] == ["Meissa-4B FT (organ)", "66.3", "70.3", "66.7", "65.2", "64.0"]
    assert not any(row[0].startswith("▶") for row in rows)
    assert ["Senior radiologist *", "54.5", "70.0", "40.0", "64.0", "44.0"] in rows


def test_a_benchmark_without_tables_says_so(show):
    session = session_of()
    panel = show(session, 1)
    found = session.audited
    session.update(audited=type(found)(found.audit, found.titles))
    assert "No published table of this benchmark is known." in shown_texts(panel)


def test_a_run_without_confidences_says_so_and_one_with_them_is_drawn(show):
    panel = show(session_of(sure=False), 2)
    assert "This run says of no answer how sure it was." in shown_texts(panel)
    panel = show(session_of(), 2)
    assert "Of 6 answers the confidence (agreement of samples)" in shown_texts(panel)
    view = panel.findChild(CalibrationView)
    drawn = view.grab().toImage()
    grounds = {drawn.pixelColor(x, y).name() for x in range(0, drawn.width(), 3)
               for y in range(0, drawn.height(), 3)}  # fmt: skip
    assert len(grounds) > 3  # axes, marks and words, not an empty widget


def test_a_run_that_grows_is_audited_anew_but_not_at_every_answer(show, qtbot):
    session = session_of()
    panel = show(session)
    heard = listener(session.wishes.audit)
    for count in range(1, 7):
        session.update(scores={NAME: scores(count)})
    assert heard == []  # within the pause
    qtbot.waitUntil(lambda: len(heard) == 1, timeout=5000)
    assert session.audited.audit.total.n == 6
    assert "6 answers to 82 questions." in shown_texts(panel)


def test_tables_are_filled_when_an_audit_came_not_when_an_answer_did(show, monkeypatch):
    session = session_of()
    panel = show(session)
    filled = []
    monkeypatch.setattr(GroupTable, "show_audit", lambda self, *given: filled.append(given))
    session.update(scores={NAME: scores(5)})
    session.update(scores={NAME: scores(6)})
    assert filled == []
    session.wishes.audit.emit(NAME)
    assert len(filled) == 1
    choose(panel, 1)
    choose(panel, 0)
    assert len(filled) == 2


def test_the_chosen_group_stays_while_a_run_grows_and_goes_with_its_benchmark(show):
    session = session_of()
    panel = show(session)
    groups = panel.findChild(GroupTable)
    groups.setCurrentCell(2, 0)
    chosen = groups.item(2, 0).text()
    session.wishes.audit.emit(NAME)
    assert groups.item(groups.currentRow(), 0).text() == chosen
    session.update(questions=question_set(3))
    session.wishes.audit.emit(NAME)
    session.update(questions=question_set(1), scores={NAME: {FIRST_ID: scores()[FIRST_ID]}})
    session.wishes.audit.emit(NAME)
    assert groups.currentRow() == 0


def test_all_that_the_tab_key_reaches_has_a_name_and_comes_from_top_to_bottom(show):
    for page in range(len(PAGES)):
        panel = show(session_of(), page)
        reached, part = [], panel.nextInFocusChain()
        while part is not panel:
            tabbed = bool(part.focusPolicy() & Qt.FocusPolicy.TabFocus)
            if tabbed and part.isVisible() and part.isEnabled() and panel.isAncestorOf(part):
                reached.append(part)
            part = part.nextInFocusChain()
        named = [p.accessibleName() or (p.text() if isinstance(p, QPushButton) else "")
                 for p in reached]  # fmt: skip
        assert len(reached) >= 3 and all(named), named
        places = [(round(p.mapTo(panel, p.rect().topLeft()).y() / 8),
                   p.mapTo(panel, p.rect().topLeft()).x()) for p in reached]  # fmt: skip
        assert places == sorted(places)


def test_no_text_is_cut_at_the_docks_width(show):
    panel = show(session_of(), width=400)
    for label in panel.findChildren(QLabel):
        if label.isVisible():
            assert label.width() <= 400
            assert label.height() >= label.heightForWidth(label.width()) - 1
    cross = panel.findChild(CrossView)
    assert cross.horizontalScrollBar().maximum() == 0
    assert cross.verticalScrollBar().maximum() == 0
