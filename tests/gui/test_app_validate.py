"""The Validate panel in the real window: the demo's wrong references, found and opened."""

import json
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QTableView

from napari_ctvqa import demo
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def app(make_viewer, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    viewer = make_viewer(1366, 768)
    app = app_for(viewer)
    app.coordinator.open(demo.ensure_demo(), question_id=demo.FIRST_QUESTION)
    assert wait_until(lambda: not app.coordinator.busy)
    QApplication.processEvents()
    yield app
    app.close()


def test_planted_references_are_found_opened_and_kept(app):
    session, panel = app.session, app.panels["Validate"]
    dock = dock_of(panel)
    assert dock_of(app.panels["Questions"]) in app.window.tabifiedDockWidgets(dock)
    dock.raise_()
    session.wishes.validate.emit()
    assert session.validation.running
    assert wait_until(lambda: not app.coordinator.busy, seconds=120)
    validation = session.validation
    assert validation.done == validation.total == len(session.rows)
    notes = json.loads((session.path / "benchmark" / "demo_notes.json").read_text())
    planted = {row["qid"] for row in notes["wrong_references"]}
    differing = {check.id for _, check in validation.checks if check.status == "differs"}
    assert differing == planted
    with Path(validation.path).open(encoding="utf-8") as file:
        assert file.readline().startswith("id,subtype,stated,recomputed,status")
    table = panel.findChild(QTableView)
    assert table.model().rowCount() == len(planted)
    at = table.visualRect(table.model().index(0, 0)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert wait_until(lambda: not app.coordinator.busy)
    assert session.question.id == table.model().index(0, 0).data()
    assert session.case_state is CaseState.READY


def test_cancelling_stops_at_once_and_opening_something_else_clears_the_list(app):
    session = app.session
    session.wishes.validate.emit()
    session.wishes.cancel_validate.emit()
    assert not session.validation.running
    assert session.validation.message == "Stopped."
    session.wishes.open_path.emit(session.path)
    assert wait_until(lambda: not app.coordinator.busy)
    assert session.validation.total == 0


def test_the_switch_makes_an_absent_lesion_none_and_says_assumed(app):
    session = app.session
    row = next(
        row
        for row in range(len(session.questions))
        if session.questions[row].subtype == "colon lesion existence"
    )
    for candidate in range(row, len(session.questions)):
        if session.questions[candidate].subtype != "colon lesion existence":
            continue
        session.wishes.select_row.emit(candidate)
        assert wait_until(lambda: not app.coordinator.busy)
        if session.reference_chain.reason == "no mask for colon_lesion":
            break
    session.wishes.absent_means_none.emit(True)
    assert wait_until(lambda: not app.coordinator.busy)
    last = session.reference_chain.steps[-1]
    assert last.value == "no"
    assert last.assumed
    assert "assumed empty: no mask file" in last.caveats
    session.wishes.absent_means_none.emit(False)
    assert wait_until(lambda: not app.coordinator.busy)
    assert session.reference_chain.reason == "no mask for colon_lesion"
