"""Several servers in the real window: one is dead; the run is stopped, found again, finished."""

import json
import sys
import time
from pathlib import Path

import pytest
from panel_texts import shown_texts
from project_file import ROOT
from qtpy.QtWidgets import QPushButton

from napari_ctvqa.core.session import RunState
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.docks import dock_of
from napari_ctvqa.widgets.launch import wait_until

sys.path.insert(0, str(ROOT / "tests" / "unit"))

import small_benchmark
from fake_server import serving
from test_server_pool import chat

pytestmark = pytest.mark.slow

DEAD = "http://127.0.0.1:9/v1"


def slow(received, connection):
    if received.method == "POST":
        time.sleep(0.2)
    chat()(received, connection)


def button(panel, text):
    return next(one for one in panel.findChildren(QPushButton) if one.text() == text)


def settled(app):
    return wait_until(lambda: not app.coordinator.busy, 60)


def test_a_pool_is_stopped_named_when_opened_again_and_finishes(make_viewer, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = small_benchmark.write(tmp_path / "bench", cases=1, rounds=6)
    app = app_for(make_viewer(1366, 768))
    session, panel = app.session, app.panels["Run"]
    app.coordinator.open(root)
    assert settled(app)
    dock_of(panel).raise_()
    with serving(slow) as one, serving(slow) as two:
        panel._model.choose("qwen3-vl")
        panel._model._servers.show_addresses(f"{one.url} {two.url} {DEAD}")
        panel._filter.click()
        button(panel, "Run").click()
        dead = f"⚠ {DEAD}: 0 requests answered; "
        assert wait_until(lambda: session.progress.done >= 5 and dead in shown_texts(panel), 60)
        button(panel, "Stop").click()
        assert session.progress.state is RunState.IDLE
        said = shown_texts(panel)
        assert "Stopped: Run goes on from here" in said and " left" not in said
        path = Path(session.progress.path)
        partial = path.with_name(f"{path.name}.partial.jsonl")
        app.coordinator.open(root)
        assert settled(app) and wait_until(lambda: bool(session.unfinished), 20)
        (found,) = session.unfinished
        assert found.path == str(path) and 5 <= found.answered < 54
        assert f"multiple choice, {found.answered} answers" in shown_texts(panel)
        button(panel, "Run").click()
        assert wait_until(lambda: session.progress.done == 54, 60) and settled(app)
    assert session.progress.message == "Finished." and session.unfinished == ()
    assert not partial.exists()
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert len({row["qid"] for row in rows}) == len(rows) == 54
    assert {row["server"] for row in rows} == {one.url, two.url}
    app.close()
