"""Segment panel: what it would segment, how far it is, stopping, and what comes of it."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import phantoms
import pytest
from qtpy.QtWidgets import QCheckBox, QProgressBar, QPushButton

from napari_ctvqa.core.segmenting import Segmenting, SegmentProgress
from napari_ctvqa.core.session import Session
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.segmentations import kept
from napari_ctvqa.widgets.jobs import Jobs
from napari_ctvqa.widgets.panels.segment import PANEL, progress_words
from napari_ctvqa.widgets.segmenter import SLOT, Segmenter
from napari_ctvqa.widgets.text import Label

sys.path.append(str(Path(__file__).resolve().parents[1] / "unit"))
from stand_in_segmenter import write_program


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log.json"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(
        "napari_ctvqa.runners.segmenter.sys.executable", str(tmp_path / "no" / "python")
    )


@pytest.fixture
def case(tmp_path):
    folder = phantoms.save_case(tmp_path / "case")
    (folder / "segmentations" / "spleen.nii.gz").unlink()
    return read_case(find_case(folder))


@pytest.fixture
def session(case):
    session = Session()
    session.update(case=case)
    return session


@pytest.fixture
def panel(qtbot, session):
    panel = PANEL(session)
    qtbot.addWidget(panel)
    panel.resize(400, 600)
    panel.show()
    return panel


@pytest.fixture
def segmenter(qtbot, session):
    jobs = Jobs(lambda error: None)
    segmenter = Segmenter(session, jobs)
    wishes = session.wishes
    wishes.segment.connect(segmenter.start)
    wishes.cancel_segment.connect(segmenter.cancel)
    wishes.use_segmented.connect(segmenter.use)
    session.case_changed.connect(segmenter.look)
    yield segmenter
    jobs.close()


def button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text() == text)


def said(panel):
    return " | ".join(label.text() for label in panel.findChildren(Label))


def test_it_says_what_has_no_mask_and_offers_to_segment_it(panel, session):
    assert "No masks of: spleen" in said(panel)
    assert "liver," not in said(panel), "the liver has a mask"
    assert button(panel, "Segment").isEnabled() and not button(panel, "Stop").isEnabled()
    session.update(case=None)
    assert "Open a case first." in said(panel) and not button(panel, "Segment").isEnabled()


def test_progress_is_a_bar_where_it_is_told_and_else_only_lives(panel, session):
    bar = panel.findChild(QProgressBar)
    assert not bar.isVisible()
    session.update(segmenting=Segmenting(True, SegmentProgress("Predicting...", 0.4, 65.0)))
    assert bar.isVisible() and (bar.value(), bar.maximum()) == (400, 1000)
    assert "Predicting... · 40 % · 1:05" in said(panel)
    assert button(panel, "Stop").isEnabled() and not button(panel, "Segment").isEnabled()
    session.update(segmenting=Segmenting(True, SegmentProgress("Resampling...")))
    assert bar.maximum() == 0
    assert progress_words(SegmentProgress("x", None, 5.0)) == "x · 0:05"


def test_what_a_program_says_is_plain_text(panel, session):
    words = "<b>1</b> <img src=x>"
    session.update(segmenting=Segmenting(True, SegmentProgress(words), message=words))
    for label in panel.findChildren(Label):
        assert label.textFormat().name == "PlainText"
    assert words in said(panel)


def test_it_segments_and_tells_what_it_made(qtbot, panel, session, segmenter, tmp_path, case):
    write_program(tmp_path)
    button(panel, "Segment").click()
    assert session.segmenting.running
    qtbot.waitUntil(lambda: not session.segmenting.running, timeout=60_000)
    assert "spleen" in session.segmenting.made and "liver" not in session.segmenting.made
    assert "Made by TotalSegmentator 2.18.0" in said(panel)
    assert "Segmented" in said(panel)
    assert "spleen" in kept(case.files.ct).structures()


def test_stopping_ends_it_at_once_in_the_window(
    qtbot, panel, session, segmenter, tmp_path, case, monkeypatch
):
    monkeypatch.setenv("STAND_IN", "hang")
    write_program(tmp_path)
    button(panel, "Segment").click()
    qtbot.waitUntil(
        lambda: "Removing" in getattr(session.segmenting.progress, "words", ""), timeout=60_000
    )
    began = time.monotonic()
    button(panel, "Stop").click()
    assert not session.segmenting.running and "Stopped." in said(panel)
    assert time.monotonic() - began < 5
    qtbot.waitUntil(lambda: SLOT not in segmenter.jobs, timeout=30_000)
    assert kept(case.files.ct) is None


def test_a_program_that_is_not_there_is_told_with_what_to_do(qtbot, panel, session, segmenter):
    button(panel, "Segment").click()
    qtbot.waitUntil(lambda: not session.segmenting.running, timeout=30_000)
    assert "pip install napari-ctvqa[segment]" in session.problem.hint
    assert "not installed" in said(panel)


def test_using_its_masks_is_off_until_it_is_asked_for(panel, session, segmenter):
    box = panel.findChild(QCheckBox)
    assert not box.isChecked() and session.use_segmented is False
    box.click()
    assert session.use_segmented is True
    session.update(use_segmented=False)
    assert not box.isChecked()


def test_another_case_has_masks_of_its_own(qtbot, session, segmenter, tmp_path, case):
    write_program(tmp_path)
    segmenter.start()
    qtbot.waitUntil(lambda: not session.segmenting.running, timeout=60_000)
    assert session.segmenting.made
    other = replace(case, files=replace(case.files, ct=tmp_path / "other.nii.gz"))
    session.update(case=other)
    assert session.segmenting.made == ()
    assert np.all([name not in session.segmenting.by for name in ("TotalSegmentator",)])
