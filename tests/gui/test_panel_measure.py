"""The Measure panel: what is listed, what its buttons wish for, what it says when empty."""

import pytest
from panel_sessions import opened
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QFileDialog, QLineEdit
from view_cases import phantom_case

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level
from napari_ctvqa.core.drawings import Drawing, Kind
from napari_ctvqa.core.kept_drawings import KeptDrawing
from napari_ctvqa.core.measuring import measured
from napari_ctvqa.widgets.panels.measure import MeasurePanel


@pytest.fixture
def session():
    made = opened()
    made.update(case=phantom_case())
    return made


@pytest.fixture
def panel(qtbot, session):
    made = MeasurePanel(session)
    qtbot.addWidget(made)
    made.resize(420, 420)
    made.show()
    return made


@pytest.fixture
def wished(session):
    """Return the wishes about measurements, as they come."""
    seen = []
    for name in ("choose", "jump", "step", "rename", "delete", "export"):
        signal = getattr(session.wishes, f"measure_{name}")
        signal.connect(lambda *given, name=name: seen.append((name, *given)), check_nargs=False)
    return seen


def kept(session, key, name, kind=Kind.RULER, points=((3.0, 4.0), (9.0, 12.0))):
    drawing = Drawing(kind, 0, 6, points)
    return KeptDrawing(
        key, name, drawing, "2026-01-01T00:00:00+00:00", measured(drawing, session.case)
    )


@pytest.fixture
def two(session, panel):
    both = (kept(session, "a", "first"), kept(session, "b", "<b>second</b>", Kind.ELLIPSE))
    session.update(measurements=both)
    return both


def test_an_empty_list_says_what_to_do(session, panel):
    assert "Take a tool" in panel.empty.text()
    assert not panel.table.isVisible()
    assert not any(b.isEnabled() for b in (panel.go, panel.copy, panel.rename, panel.delete))
    session.update(case=None)
    assert panel.empty.text() == "Open a case first."


def test_each_measurement_has_a_row_with_value_unit_and_slice(panel, two):
    table = panel.table
    assert [table.item(0, c).text() for c in range(3)] == ["first", "9.8 mm", "axi 7"]
    assert table.item(1, 0).text() == "<b>second</b>"  # plain text
    assert "HU" in table.item(1, 1).text() and "mm²" in table.item(1, 1).text()
    assert not panel.empty.isVisible()


def test_one_click_chooses_and_a_double_click_goes_there(qtbot, session, panel, two, wished):
    place = panel.table.visualItemRect(panel.table.item(1, 1)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert wished == [("choose", "b")]
    session.update(measurement="b")
    qtbot.mouseDClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert ("jump", "b") in wished


def test_the_chosen_one_is_told_in_full(session, panel, two):
    session.update(measurement="b")
    text = panel.details.toPlainText()
    assert "Axial · slice 7 of 12, file" in text
    assert "SD:" in text and "rule: HU of the slice's voxels" in text
    panel.copy.click()
    copied = QApplication.clipboard().text()
    assert copied.startswith("<b>second</b>: mean ")
    assert "Axial · slice 7 of 12" in copied


def test_buttons_wish_for_what_they_say(session, panel, two, wished, monkeypatch, tmp_path):
    session.update(measurement="a")
    panel.go.click()
    panel.delete.click()
    out = tmp_path / "out"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(out), ""))
    panel.export.click()
    assert wished == [("jump", "a"), ("delete", ""), ("export", out.with_suffix(".csv"))]


def test_a_name_is_edited_in_its_row(qtbot, session, panel, two, wished):
    session.update(measurement="a")
    panel.rename.click()
    editor = panel.table.findChild(QLineEdit)
    editor.selectAll()
    QTest.keyClicks(editor, "liver lesion")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()
    assert ("rename", "a", "liver lesion") in wished


def test_an_empty_name_is_none(session, panel, two, wished):
    panel.table.item(0, 0).setText("  ")
    assert wished == []
    assert panel.table.item(0, 0).text() == "first"


def test_tools_are_taken_and_the_taken_one_is_shown(session, panel):
    seen = []
    session.wishes.tool.connect(seen.append)
    panel.tools[Kind.ELLIPSE].click()
    assert seen == ["ellipse"]
    session.update(tool="polygon")
    assert [kind for kind, button in panel.tools.items() if button.isChecked()] == [Kind.POLYGON]


def test_red_geometry_is_told_before_anything_is_measured(session, panel):
    red = GeometryReport((GeometryWarning("codes_zero", Level.RED, "No side is known."),))
    session.update(case=phantom_case(report=red))
    assert "No side is known." in panel.doubt.text()
    session.update(measurements=(kept(session, "a", "first"),))
    assert panel.table.item(0, 1).text() == "(geometry red)"


def test_the_circle_s_radius_is_chosen_and_shown(session, panel):
    seen = []
    session.wishes.probe_radius.connect(seen.append)
    assert panel.radius.currentText() == "circle r 3 mm"
    panel.radius.activated.emit(panel.radius.findData(7.5))
    assert seen == [7.5]
    session.update(probe_radius_mm=7.5)
    assert panel.radius.currentText() == "circle r 7.5 mm"
