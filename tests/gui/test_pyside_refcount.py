"""PySide6 6.12.0 loses references to None on CPython 3.11 until the process aborts."""

import sys
from importlib.metadata import version

import pytest
from project_file import requirement
from qtpy.QtCore import QObject, Signal

TURNS = 2_000


class Sender(QObject):
    sent = Signal(object)


def test_event_turns_and_signals_keep_the_references_to_none(qapp):
    sender = Sender()
    received = []
    sender.sent.connect(received.append)
    sender.sent.emit(None)
    qapp.processEvents()
    received.clear()

    before = sys.getrefcount(None)
    for _ in range(TURNS):
        sender.sent.emit(None)
        qapp.processEvents()
    count = len(received)
    received.clear()

    assert count == TURNS
    assert abs(sys.getrefcount(None) - before) <= 50


def test_the_installed_binding_is_one_that_the_extra_allows():
    assert version("PySide6") in requirement("gui", "PySide6").specifier


@pytest.mark.parametrize("broken", ["6.11.0", "6.11.1", "6.12.0"])
def test_the_extra_refuses_the_broken_ones(broken):
    assert broken not in requirement("gui", "PySide6").specifier
