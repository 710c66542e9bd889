"""The Audit panel in the real window: the demo's misread answers, counted and found."""

import pytest
from qtpy.QtWidgets import QApplication, QComboBox

from napari_ctvqa import demo
from napari_ctvqa.core.records import Outcome
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.audit_tables import CrossView
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def app(make_viewer, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    app = app_for(make_viewer(1366, 768))
    app.coordinator.open(demo.ensure_demo(), question_id=demo.FIRST_QUESTION)
    assert wait_until(lambda: not app.coordinator.busy)
    QApplication.processEvents()
    yield app
    app.close()


def test_a_cell_lists_its_answers_and_what_is_opened_next_is_audited_anew(app):
    session, panel = app.session, app.panels["Audit"]
    assert session.audited is None  # nobody looks at it
    dock_of(panel).raise_()
    assert wait_until(lambda: session.audited is not None and not app.coordinator.busy)
    box = panel.findChildren(QComboBox)[0]
    box.setCurrentIndex(box.findText("demo-direct"))
    box.activated.emit(box.currentIndex())
    assert wait_until(lambda: session.audited.model == "demo-direct")
    table = session.audited.audit.total
    scores = session.scores["demo-direct"].values()
    assert table.official.right == sum(s.official is Outcome.RIGHT for s in scores)
    cross = panel.findChild(CrossView)
    cross.chosen.emit(2, 1)  # officially unread, right as read
    wanted = set(table.ids(Outcome.UNREAD, Outcome.RIGHT))
    assert len(wanted) == 14  # as the README says
    assert wait_until(lambda: len(session.rows) == 14)
    assert set(session.questions.frame["id"].iloc[session.rows]) == wanted
    app.coordinator.open(session.path)
    assert wait_until(lambda: session.where == "" and not app.coordinator.busy)
    assert wait_until(lambda: session.audited is not None)
