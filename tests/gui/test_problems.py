"""Problems: one strip, never a storm of dialogs, nothing lost that a report needs."""

import logging

import pytest
from panel_texts import labels_are_plain, shown_texts, texts_of
from qtpy.QtWidgets import QApplication, QPushButton

from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.widgets.problems import KEPT, ProblemBanner, as_problem, report


@pytest.fixture
def banner(qtbot, session):
    strip = ProblemBanner(session)
    qtbot.addWidget(strip)
    strip.resize(500, 120)
    return strip


def _press(banner, text):
    next(b for b in banner.findChildren(QPushButton) if b.text() == text).click()


def test_no_problem_takes_no_room(banner):
    assert banner.isHidden()


def test_a_problem_shows_what_and_what_to_do(banner, session):
    error = InputFileError("ct.nii.gz", "the gzip data end early.", hint="Copy it again.")
    session.update(problem=error)
    assert not banner.isHidden()
    assert "ct.nii.gz: the gzip data end early." in shown_texts(banner)
    assert "Copy it again." in shown_texts(banner)


def test_dismissing_the_last_clears_the_session(banner, session):
    session.update(problem=CtvqaError("one"))
    _press(banner, "Dismiss")
    assert session.problem is None
    assert banner.isHidden()


def test_problems_pile_up_behind_one_strip(banner, session):
    session.update(problem=CtvqaError("first"))
    session.update(problem=CtvqaError("second"))
    assert "second" in shown_texts(banner)
    assert "1 earlier behind this one" in shown_texts(banner)
    _press(banner, "Dismiss")
    assert "first" in shown_texts(banner)
    assert not banner.isHidden()


def test_the_same_problem_again_is_counted(banner, session):
    for _ in range(300):
        session.update(problem=CtvqaError("again"))
    assert "happened 300 times" in shown_texts(banner)
    _press(banner, "Dismiss")
    assert banner.isHidden()


def test_a_storm_keeps_the_newest_only(banner, session):
    for number in range(1000):
        session.update(problem=CtvqaError(f"problem {number}"))
    assert "problem 999" in shown_texts(banner)
    assert f"{KEPT - 1} earlier behind this one" in shown_texts(banner)
    assert not [w for w in QApplication.topLevelWidgets() if w.isVisible() and w is not banner]


def test_an_unexpected_exception_is_shown_and_logged(banner, session, caplog):
    with caplog.at_level(logging.ERROR):
        try:
            {}["missing"]
        except KeyError as error:
            report(session, error)
    assert "Something failed that should not: KeyError: 'missing'" in shown_texts(banner)
    assert "Traceback" in caplog.text
    _press(banner, "Copy details")
    copied = QApplication.clipboard().text()
    assert "KeyError: 'missing'" in copied
    assert "test_problems.py" in copied


def test_an_expected_error_is_not_wrapped():
    error = CtvqaError("no case", hint="open one")
    assert as_problem(error) is error


def test_hostile_messages_stay_plain_and_bounded(banner, session):
    session.update(problem=CtvqaError("<b>x</b>\u202e" * 100_000, hint="<img src=x>"))
    text = texts_of(banner)
    assert "\u202e" not in text
    assert len(text) < 40_000
    assert labels_are_plain(banner)


def test_closing_lets_go_of_the_session(banner, session):
    before = len(session.problem_changed)
    banner.close()
    assert len(session.problem_changed) == before - 1


def test_a_long_problem_takes_two_lines_until_its_details_are_asked_for(banner, session):
    long = "the reason goes on " * 60
    session.update(problem=CtvqaError(long, hint="Do this. " * 60))
    banner.show()
    banner.adjustSize()
    line = banner.fontMetrics().lineSpacing()
    low = banner.sizeHint().height()
    assert low < 5 * line, "two lines, margins and a button's height"
    next(b for b in banner.findChildren(QPushButton) if b.text() == "Details").click()
    assert banner.sizeHint().height() > low + 3 * line
    assert long.strip() in shown_texts(banner)
