"""The picture of the window: of what was asked for, or none."""

import napari
import pytest
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QTabBar

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.demo import FIRST_MODEL, FIRST_QUESTION, ensure_demo
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import WINDOW_SIZE_PX, run_app, wait_until


@pytest.fixture(scope="module")
def demo_root():
    return ensure_demo()


def test_the_picture_has_the_size_of_a_laptop_s_screen(qapp, demo_root, tmp_path):
    picture = tmp_path / "a.png"
    asked = {"question_id": FIRST_QUESTION, "first_model": FIRST_MODEL}
    assert run_app(demo_root, screenshot=picture, **asked) == 0
    image = QImage(str(picture))
    assert (image.width(), image.height()) == WINDOW_SIZE_PX


def test_the_moments_of_a_start_are_noted_in_their_order(qapp, demo_root, tmp_path, monkeypatch):
    times = tmp_path / "times"
    monkeypatch.setenv("NAPARI_CTVQA_TIMES", str(times))
    run_app(demo_root, screenshot=tmp_path / "a.png", question_id=FIRST_QUESTION)
    seconds, moments = zip(*(line.split() for line in times.read_text().splitlines()), strict=True)
    assert moments == ("libraries", "window", "CT", "complete")
    assert sorted(map(float, seconds)) == list(map(float, seconds))


def test_what_is_still_being_made_is_waited_for(qapp, demo_root, tmp_path):
    picture = tmp_path / "a.png"
    asked = {"question_id": FIRST_QUESTION, "made_by": lambda: demo_root}
    assert run_app(tmp_path / "demo", screenshot=picture, **asked) == 0
    assert picture.stat().st_size > 0


def test_no_picture_of_another_question_than_the_one_asked_for(qapp, demo_root, tmp_path):
    picture = tmp_path / "a.png"
    with pytest.raises(CtvqaError, match="demo_99999"):
        run_app(demo_root, question_id="demo_99999", screenshot=picture)
    assert not picture.exists()


def test_a_path_that_is_nothing_is_told(qapp, tmp_path):
    with pytest.raises(CtvqaError, match="absent"):
        run_app(tmp_path / "absent", screenshot=tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_a_question_without_its_case_is_pictured_and_the_case_named(qapp, tmp_path, caplog):
    table = tmp_path / "mine.csv"
    table.write_text("id,case,question,answer\nq1,gone_17,Is it there?,no\n", encoding="utf-8")
    assert run_app(table, question_id="q1", screenshot=tmp_path / "a.png") == 0
    assert (tmp_path / "a.png").stat().st_size > 0
    assert "gone_17" in caplog.text


def test_no_tab_bar_of_an_earlier_layout_is_left_over_the_panels(qapp):
    viewer = napari.Viewer(show=True)
    try:
        app = app_for(viewer)
        for _ in range(3):
            app.arrange()
            qapp.processEvents()
        empty = QTabBar(app.window)  # Qt keeps one now and then
        empty.show()
        app.arrange()
        assert wait_until(lambda: not empty.isVisible(), 10)
        bars = [bar for bar in app.window.findChildren(QTabBar) if bar.isVisible()]
        assert [[bar.tabText(i) for i in range(bar.count())] for bar in bars] == [
            ["Questions", "Run", "Model", "Validate", "Audit", "Probes"],
            ["Evidence", "Structures", "Side by side", "Segment", "Measure"],
        ]
    finally:
        viewer.close()
