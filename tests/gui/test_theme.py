"""Colours from the palette: readable in napari's themes and in a plain one."""

import itertools

import pytest
from qtpy.QtGui import QColor, QPalette
from qtpy.QtWidgets import QApplication, QVBoxLayout, QWidget

from napari_ctvqa.core.records import Outcome
from napari_ctvqa.widgets.theme import GLYPHS, Styling, contrast, readable, theme_of

WINDOWS = {
    "napari dark": ("#23242b", "#f0f1f2"),
    "napari light": ("#ebe7e6", "#1e1e21"),
    "plain": ("#efefef", "#000000"),
    "black": ("#000000", "#ffffff"),
    "grey on grey": ("#808080", "#909090"),
}


def _theme(name):
    window, text = WINDOWS[name]
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Window, QColor(window))
    palette.setColor(QPalette.ColorRole.WindowText, QColor(text))
    return theme_of(palette)


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", sorted(set(WINDOWS) - {"grey on grey"}))
def test_every_text_is_readable_on_every_ground_it_stands_on(name):
    theme = _theme(name)
    plain = (theme.window, theme.card, theme.selection)
    banners = (theme.amber_ground, theme.red_ground, theme.info_ground)
    for colour, ground in itertools.product((theme.text, theme.muted), (*plain, *banners)):
        assert contrast(colour, ground) >= 4.5
    for outcome, ground in itertools.product(Outcome, plain):
        assert contrast(theme.of(outcome), ground) >= 4.5


def test_an_unreadable_palette_gets_the_best_there_is():
    theme = _theme("grey on grey")
    assert contrast(theme.text, theme.window) > contrast(*WINDOWS["grey on grey"])
    assert readable("#808080", "#808080") in ("#000000", "#ffffff") or (
        contrast(readable("#808080", "#808080"), "#808080") >= 4.5
    )


def test_outcomes_differ_by_glyph_not_only_by_colour():
    assert len(set(GLYPHS.values())) == len(Outcome)


def test_styling_follows_a_change_of_theme(qtbot):
    host = QWidget()
    qtbot.addWidget(host)
    inner = QWidget()
    QVBoxLayout(host).addWidget(inner)
    styling = Styling(inner)
    host.setStyleSheet("QWidget { background-color: #23242b; color: #f0f1f2; }")
    host.show()
    qtbot.waitUntil(lambda: styling.theme.window == "#23242b")
    with qtbot.waitSignal(styling.changed):
        host.setStyleSheet("QWidget { background-color: #ebe7e6; color: #1e1e21; }")
    assert styling.theme.window == "#ebe7e6"
    assert styling.theme.text in inner.styleSheet()
    for _ in range(5):  # it settles: no change leads to another
        QApplication.processEvents()
    sheet = inner.styleSheet()
    QApplication.processEvents()
    assert inner.styleSheet() == sheet
