"""Probes in the real window: one question, the filter, stopping; the picture stays as it is."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from project_file import ROOT
from qtpy.QtWidgets import QPushButton, QTableWidget

from napari_ctvqa.core.probe_results import Verdict
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.session import RunState
from napari_ctvqa.extensions import families
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.choices import Wanted
from napari_ctvqa.runners.probing import run_probes
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.pictures import PictureGrid

sys.path.insert(0, str(ROOT / "tests" / "unit"))

import small_benchmark
from scripted_models import ScriptedWay

pytestmark = pytest.mark.slow


@pytest.fixture
def app(make_viewer, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    app = app_for(make_viewer(1366, 768))
    app.coordinator.open(small_benchmark.write(tmp_path / "bench"))
    assert wait_until(lambda: not app.coordinator.busy)
    app.session.update(wanted=Wanted("rules"))
    yield app
    app.close()


def ended(app):
    return wait_until(lambda: not app.coordinator.busy and not app.session.probing.running)


def test_one_click_probes_the_question_and_nothing_else_changes(app):
    session, panel = app.session, app.panels["Probes"]
    layer = app.viewer.layers[0]
    shown = np.asarray(layer.data).copy()
    runs = dict(session.runs)
    dock_of(panel).raise_()
    assert wait_until(panel.isVisible)
    next(b for b in panel.findChildren(QPushButton) if b.text() == "Probe").click()
    assert ended(app)
    probing = session.probing
    assert (probing.done, probing.total, probing.failed) == (5, 5, 0)
    answers = probing.of(session.question.id)
    assert answers["lesion_removed"].said == "no" and answers["lesion_removed"].original == "yes"
    assert answers["blank"].said == "yes"
    data = json.loads(Path(probing.path).read_text(encoding="utf-8"))
    assert data["kind"] == "probes" and len(data["results"]) == 5
    assert np.array_equal(np.asarray(layer.data), shown)
    assert dict(session.runs) == runs
    assert session.progress.state is RunState.IDLE and session.problem is None


def test_a_batch_adds_to_the_same_file_and_can_be_stopped(app):
    session = app.session
    session.wishes.probe.emit("question", ("blank",))
    assert ended(app)
    path = session.probing.path
    session.wishes.probe.emit("filter", ("blank", "mirrored"))
    assert ended(app)
    assert session.probing.path == path and session.probing.total == 3 * len(session.rows)
    assert {s.probe for s in session.probing.found} == {"mirrored", "blank"}
    session.wishes.probe.emit("filter", ("coarser",))
    session.wishes.cancel_probes.emit()
    assert not session.probing.running and session.probing.message == "Stopped."
    assert wait_until(lambda: not app.coordinator.busy)


def test_opening_something_else_lets_go_of_what_was_found(app):
    app.session.wishes.probe.emit("question", ("blank",))
    assert ended(app) and app.session.probing.total
    app.session.wishes.open_path.emit(app.session.path)
    assert ended(app)
    assert app.session.probing.total == 0 and not app.session.probing.path


def test_a_probe_file_is_opened_where_result_files_are(app, tmp_path):
    session = app.session
    out = tmp_path / "probes.json"
    steps = run_probes(
        app.coordinator.opened, MODEL, AnswerFormat.MC, out, rows=[0], probes=("blank",)
    )
    assert list(steps)[-1].done == 2
    session.wishes.open_results.emit(out)
    assert ended(app)
    assert session.probing.of(session.question.id)["blank"].verdict is Verdict.UNCHANGED
    assert session.probing.found and session.problem is None and not session.runs


def test_a_chosen_row_shows_what_was_sent_and_where_it_lies(app, tmp_path):
    """Of a mirrored case the frame of a picture is drawn at the place in the CT itself."""
    session, panel = app.session, app.panels["Probes"]
    out = tmp_path / "probes.json"
    family = families()["chat-image"]
    preset = family.presets["qwen3-vl"]
    answerer = ModelAnswerer(
        "qwen", "Qwen", family, preset, ScriptedWay("A"), settings={"max_slices": 3}
    )
    steps = run_probes(
        app.coordinator.opened, answerer, AnswerFormat.MC, out, rows=[0],
        probes=("mirrored", "blank", "shuffled"),
    )  # fmt: skip
    assert list(steps)[-1].done == 4
    session.wishes.open_results.emit(out)
    assert ended(app)
    dock_of(panel).raise_()
    shown = panel.findChild(QTableWidget)
    assert wait_until(shown.isVisible)
    shown.selectRow(0)
    assert ended(app)
    sight = session.probe_sight
    assert sight.probe == "mirrored" and not sight.problem and len(sight.pictures) == 3
    grid = panel.findChild(PictureGrid)
    assert wait_until(grid.isVisible) and grid.count() == 3
    session.wishes.step_question.emit(1)
    assert ended(app)
    assert session.probe_sight is None and not grid.isVisible()
