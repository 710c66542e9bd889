"""Keys act on the window, and never while somebody types."""

import json

import pytest
from keyboard import activate
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLineEdit, QListWidget, QMainWindow, QPlainTextEdit, QVBoxLayout, QWidget

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.widgets import shortcuts
from napari_ctvqa.widgets.shortcuts import HelpSheet, Shortcuts, bindings


@pytest.fixture
def window(qtbot):
    window = QMainWindow()
    body = QWidget()
    window.search, window.plain, window.rows = QLineEdit(), QPlainTextEdit(), QListWidget()
    window.rows.addItems(["a", "b", "c"])
    layout = QVBoxLayout(body)
    for part in (window.search, window.plain, window.rows):
        layout.addWidget(part)
    window.setCentralWidget(body)
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    activate(window)
    return window


@pytest.fixture
def fired(window):
    """Return the names of the actions that fired."""
    names = []
    actions = {b.action: (lambda name=b.action: names.append(name)) for b in bindings()}
    keys = Shortcuts(window, actions)
    yield names
    keys.close()


def press(qtbot, window, widget, key, modifier=Qt.KeyboardModifier.NoModifier):
    widget.setFocus()
    qtbot.waitUntil(widget.hasFocus)
    qtbot.keyClick(widget, key, modifier)


@pytest.mark.parametrize(
    "key", [Qt.Key.Key_G, Qt.Key.Key_PageDown, Qt.Key.Key_Down, Qt.Key.Key_F1, Qt.Key.Key_J]
)
def test_typing_never_pages_or_answers(qtbot, window, fired, key):
    press(qtbot, window, window.search, key)
    press(qtbot, window, window.plain, key)
    assert fired == []


def test_letters_reach_the_text_field(qtbot, window, fired):
    press(qtbot, window, window.search, Qt.Key.Key_G)
    assert window.search.text() == "g"


def test_a_list_keeps_its_arrow_keys_and_gives_the_letters(qtbot, window, fired):
    window.rows.setCurrentRow(0)
    press(qtbot, window, window.rows, Qt.Key.Key_Down)
    assert window.rows.currentRow() == 1
    press(qtbot, window, window.rows, Qt.Key.Key_G)
    assert fired == ["toggle_overlays"]


def test_no_key_is_given_twice():
    keys = [key for binding in bindings() for key in binding.keys]
    assert len(keys) == len(set(keys))


def test_the_users_own_keys_replace_ours(tmp_path):
    own = tmp_path / "keys.json"
    own.write_text(json.dumps({"toggle_overlays": ["O"]}))
    keys = {b.action: b.keys for b in bindings(own)}
    assert keys["toggle_overlays"] == ("O",)
    assert keys["help"] == ("F1",)


def test_a_key_the_user_gives_is_taken_from_who_had_it(tmp_path):
    own = tmp_path / "keys.json"
    own.write_text(json.dumps({"toggle_overlays": ["d"]}))
    keys = {b.action: b.keys for b in bindings(own)}
    assert keys["toggle_overlays"] == ("d",)
    assert keys["measure_ruler"] == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"help": "F1"}', '{"fly": ["F"]}'])
def test_a_bad_key_file_is_named(tmp_path, text):
    own = tmp_path / "keys.json"
    own.write_text(text)
    with pytest.raises(InputFileError, match=r"keys\.json"):
        bindings(own)


def test_the_help_sheet_lists_every_key(qtbot, monkeypatch, tmp_path):
    monkeypatch.setattr(shortcuts, "user_keys_path", lambda: tmp_path / "none.json")
    sheet = HelpSheet()
    qtbot.addWidget(sheet)
    table = sheet.findChild(shortcuts.QTableWidget)
    assert table.rowCount() == len(bindings())
