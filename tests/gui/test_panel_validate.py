"""Validate panel: what is said before, the list of what differs, copying, what stays hidden."""

import numpy as np
import pytest
from panel_sessions import listener, opened
from panel_texts import labels_are_plain, shown_texts
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QCheckBox, QComboBox, QProgressBar, QPushButton, QTableView

from napari_ctvqa.core.checks import ReferenceCheck, Validation, worst_first
from napari_ctvqa.core.session import Session
from napari_ctvqa.widgets.check_model import off_by
from napari_ctvqa.widgets.panels.validate import PANEL

HOSTILE = "=<b>1</b>\u202e\tnext"


def check(row, status="differs", relative=None, **changes):
    values = {
        "id": f"bench_{row:05d}",
        "subtype": "organ volume measurement",
        "stated": "100.0",
        "recomputed": "110.0 cm³",
        "status": status,
        "reason": "recomputed 110.0 cm³, stated 100.0",
        "relative_difference": relative,
    }
    return row, ReferenceCheck(**{**values, **changes})


CHECKS = worst_first(
    [
        check(0, "agrees", 0.0),
        check(1, relative=0.1),
        check(2, relative=-0.5),
        check(3, other_rules={"radgpt_10mm3": "agrees"}, relative=2.0),
        check(4, "cannot_check", reason="no mask for colon_lesion"),
        check(5, "agrees", 0.0, flags=("options A and B say the same",)),
        check(6, subtype="splenomegaly grading", stated="Mild", recomputed="Severe"),
    ]
)


@pytest.fixture
def show(qtbot):
    def make(session, width=400):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, 700)
        panel.show()
        return panel

    return make


def _button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text() == text)


def _column(panel, name):
    table = panel.findChild(QTableView)
    model = table.model()
    heads = [model.headerData(n, Qt.Orientation.Horizontal) for n in range(model.columnCount())]
    return [model.index(r, heads.index(name)).data() for r in range(model.rowCount())]


def _choose(panel, word):
    box = panel.findChild(QComboBox)
    box.setCurrentIndex(box.findText(word))
    box.activated.emit(box.currentIndex())


def done(**changes):
    return Validation(**{"done": 7, "total": 7, "checks": CHECKS, "path": "/d/v.csv", **changes})


def test_without_questions_it_says_what_to_do(show):
    panel = show(Session())
    assert "Open a benchmark or a question file first." in shown_texts(panel)
    assert not _button(panel, "Validate").isEnabled()
    assert not _button(panel, "Stop").isEnabled()


def test_it_says_what_will_be_recomputed_and_follows_the_filter(show):
    session = opened(rows=np.arange(1300))
    panel = show(session)
    assert "Recomputes 1,300 references" in shown_texts(panel)
    assert "Nothing has been validated yet." in shown_texts(panel)
    session.update(rows=np.zeros(0, np.intp), where="x")
    assert "The filter shows no question." in shown_texts(panel)
    assert not _button(panel, "Validate").isEnabled()


def test_start_and_cancel_are_wishes(show):
    session = opened()
    panel = show(session)
    started, stopped = listener(session.wishes.validate), listener(session.wishes.cancel_validate)
    _button(panel, "Validate").click()
    assert len(started) == 1
    session.update(validation=Validation(running=True, total=82, done=20, seconds_left=30))
    assert not _button(panel, "Validate").isEnabled()
    assert "20 of 82 · about 30 s left" in shown_texts(panel)
    assert panel.findChild(QProgressBar).value() == 20
    _button(panel, "Stop").click()
    assert len(stopped) == 1


def test_what_differs_is_listed_worst_first(show):
    panel = show(opened(validation=done()))
    # wrong label counts as 100 %; what another rule makes right comes after what none does
    assert _column(panel, "id") == ["bench_00006", "bench_00002", "bench_00001", "bench_00003"]
    assert _column(panel, "off by") == ["", "−50.0 %", "+10.0 %", "+200.0 %"]
    assert _column(panel, "status")[-1] == "≈ differs, agrees by another rule"
    text = shown_texts(panel)
    assert "✓ 2 agree · ✗ 4 differ · 1 of them right by another rule" in text
    assert "? 1 cannot be checked · 1 questions with a flaw" in text
    assert "Kept in /d/v.csv" in text


def test_the_other_kinds_can_be_listed(show):
    panel = show(opened(validation=done()))
    _choose(panel, "Flawed questions")
    assert _column(panel, "id") == ["bench_00005"]
    _choose(panel, "Cannot be checked")
    assert _column(panel, "why") == ["no mask for colon lesion"]
    _choose(panel, "All")
    assert len(_column(panel, "id")) == 7


def test_a_click_and_enter_open_the_question(show):
    session = opened(validation=done())
    panel = show(session)
    chosen = listener(session.wishes.select_row)
    table = panel.findChild(QTableView)
    at = table.visualRect(table.model().index(1, 0)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert chosen == [2]
    QTest.keyClick(table, Qt.Key.Key_Down)
    QTest.keyClick(table, Qt.Key.Key_Return)
    assert chosen == [2, 1]


def test_rows_copy_as_a_table_that_no_spreadsheet_calculates(show):
    hostile = check(9, stated=HOSTILE, recomputed="-12.5 HU", relative=9.0)
    panel = show(opened(validation=done(checks=worst_first([*CHECKS, hostile]))))
    table = panel.findChild(QTableView)
    table.selectRow(0)
    QTest.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = QApplication.clipboard().text().split("\n")
    assert len(lines) == 2
    heads, cells = (line.split("\t") for line in lines)
    assert len(heads) == len(cells)
    row = dict(zip(heads, cells, strict=True))
    assert row["id"] == "bench_00009"
    assert row["stated"] == "'=<b>1</b>\u202e next"
    assert row["recomputed"] == "-12.5 HU"
    table.clearSelection()
    _button(panel, "Copy").click()
    assert len(QApplication.clipboard().text().split("\n")) == 6


def test_hostile_text_is_shown_plain(show):
    panel = show(opened(validation=done(checks=(check(9, stated=HOSTILE),), message=HOSTILE)))
    labels_are_plain(panel)
    assert _column(panel, "stated") == ["=<b>1</b>⟨U+202E⟩ next"]


def test_the_list_is_hidden_while_references_are(show):
    session = opened(validation=done(), hide_reference=True)
    panel = show(session)
    assert "References are hidden." in shown_texts(panel)
    assert "differ" not in shown_texts(panel).replace("differs", "")
    assert not panel.findChild(QTableView).isVisible()
    assert not _button(panel, "Copy").isEnabled()
    session.update(hide_reference=False)
    assert panel.findChild(QTableView).isVisible()


def test_what_was_chosen_stays_while_the_list_grows(show):
    session = opened(validation=done(checks=CHECKS[:3], done=3, running=True))
    panel = show(session)
    table = panel.findChild(QTableView)
    place = _column(panel, "id").index("bench_00001")
    table.selectRow(place)
    worse = worst_first([*CHECKS, check(20, relative=50.0), check(21, relative=60.0)])
    session.update(validation=done(checks=worse, done=9, total=9))
    (index,) = table.selectionModel().selectedRows()
    assert index.data() == "bench_00001"


def test_the_switch_for_absent_masks_is_a_wish(show):
    session = opened()
    panel = show(session)
    wished = listener(session.wishes.absent_means_none)
    box = panel.findChild(QCheckBox)
    assert not box.isChecked()
    box.click()
    assert wished == [True]
    session.update(absent_means_none=True)
    assert wished == [True]
    assert box.isChecked()


def test_it_lets_go_of_the_session(show):
    session = opened()
    panel = show(session)
    panel.close()
    session.update(validation=done())
    assert _column(panel, "id") == []


def test_a_long_list_is_shown_without_a_pause(show):
    import time

    many = worst_first(check(row, relative=row / 1000) for row in range(20_000))
    session = opened(count=20_000)
    show(session)
    began = time.perf_counter()
    session.update(validation=done(checks=many, done=20_000, total=20_000))
    assert time.perf_counter() - began < 1.0


def test_a_slice_is_off_by_slices():
    assert off_by(check(1, slices_off="+7 slices")[1]) == "+7 slices"
    assert off_by(check(1, relative=0.1)[1]) == "+10.0 %"
