"""The key map: window-level shortcuts that never fire while somebody types.

Window-level shortcuts win over napari's layer keys, so that ``1`` never puts a labels layer into
erase mode. While a text field has the focus all of them are off (Down, Page Down, Esc and F1
would otherwise still fire there); while a list has it, the keys that move within the list are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Qt
from qtpy.QtGui import QKeySequence, QShortcut
from qtpy.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTableWidget,
    QTableWidgetItem,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.io.user_config import config_folder
from napari_ctvqa.widgets.opengl import check_opengl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LIST_KEYS = frozenset({"Up", "Down", "Home", "End", "PgUp", "PgDown"})


@dataclass(frozen=True)
class Binding:
    """One action, its keys as Qt writes them, and what it does in words."""

    action: str
    keys: tuple[str, ...]
    title: str


def user_keys_path() -> Path:
    """Return where a user's own keys are read from: ``{"action": ["Key", …]}``."""
    return config_folder() / "keys.json"


def bindings(user_file: Path | None = None) -> tuple[Binding, ...]:
    """Return the key map, with the user's own keys where that file names an action.

    A key that the user gives to one action is taken from whichever had it, as two on one key
    would both do nothing.

    Raises
    ------
    InputFileError
        When the user's file is not the JSON object it should be, or names an unknown action.
    """
    shipped = json.loads(resource_path("keys.json").read_text(encoding="utf-8"))
    own = _own_keys(user_file or user_keys_path())
    unknown = sorted(set(own) - set(shipped))
    if unknown:
        raise InputFileError(
            user_file or user_keys_path(),
            f"unknown action {', '.join(unknown)}",
            hint=f"The actions are: {', '.join(sorted(shipped))}.",
        )
    taken = {_plain(key) for keys in own.values() for key in keys}
    return tuple(
        Binding(
            action,
            tuple(own[action] if action in own else _left(entry["keys"], taken)),
            entry["title"],
        )
        for action, entry in shipped.items()
    )


def _left(keys: list[str], taken: set[str]) -> list[str]:
    return [key for key in keys if _plain(key) not in taken]


def _plain(key: str) -> str:
    """Return a key as Qt writes it, so that ``ctrl+r`` and ``Ctrl+R`` are one."""
    return str(QKeySequence(key).toString()) or key


def keys_in_use() -> dict[str, str]:
    """Return every key of the window, upper case, and what it does."""
    return {_plain(key).upper(): b.title for b in bindings() for key in b.keys}


def _own_keys(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        return {}
    hint = 'Write e.g. {"next_question": ["N"]}, or remove the file.'
    try:
        own = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputFileError(path, f"cannot be read as JSON: {error}", hint=hint) from None
    if not isinstance(own, dict) or not all(
        isinstance(keys, list) and all(isinstance(key, str) for key in keys)
        for keys in own.values()
    ):
        raise InputFileError(path, "expected an object of lists of key names", hint=hint)
    return own


class Shortcuts(QObject):
    """The live shortcuts of one window."""

    def __init__(self, window: QWidget, actions: Mapping[str, Callable[[], None]]) -> None:
        super().__init__(window)
        self._shortcuts: list[tuple[str, QShortcut]] = []
        self._groups: dict[str, list[QShortcut]] = {}
        self._window = window
        for binding in bindings():
            if binding.action in actions:
                self._bind(binding, actions[binding.action])
        app = QApplication.instance()
        app.focusChanged.connect(self._focus_changed)

    def _bind(self, binding: Binding, act: Callable[[], None]) -> None:
        self.add(binding.keys, act)

    def add(self, keys: tuple[str, ...], act: Callable[[], None]) -> list[QShortcut]:
        """Add keys for one action."""
        made = []
        for key in keys:
            shortcut = QShortcut(QKeySequence(key), self._window)
            shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
            shortcut.activated.connect(act)
            self._shortcuts.append((key, shortcut))
            made.append(shortcut)
        self._focus_changed(None, QApplication.focusWidget())
        return made

    def replace(self, group: str, actions: Mapping[str, Callable[[], None]]) -> None:
        """Put other keys in the place of those that were given for this group before."""
        former = self._groups.pop(group, [])
        self._shortcuts = [(key, own) for key, own in self._shortcuts if own not in former]
        for shortcut in former:
            shortcut.setEnabled(False)
            shortcut.deleteLater()
        self._groups[group] = [own for key, act in actions.items() for own in self.add((key,), act)]

    def _focus_changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        typing = _is_typing(new)
        listing = isinstance(new, QAbstractItemView)
        for key, shortcut in self._shortcuts:
            shortcut.setEnabled(not typing and not (listing and key in _LIST_KEYS))

    def close(self) -> None:
        """Let go of the application's focus signal."""
        QApplication.instance().focusChanged.disconnect(self._focus_changed)
        for _, shortcut in self._shortcuts:
            shortcut.setEnabled(False)
            shortcut.deleteLater()
        self._shortcuts.clear()


def _is_typing(widget: QWidget | None) -> bool:
    if isinstance(widget, QLineEdit | QAbstractSpinBox):
        return True
    if isinstance(widget, QPlainTextEdit | QTextEdit):
        return not widget.isReadOnly()
    return isinstance(widget, QComboBox) and widget.isEditable()


class HelpSheet(QDialog):
    """All keys in one list (F1)."""

    def __init__(self, extra: tuple[Binding, ...] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        rows = (*bindings(), *extra)
        table = QTableWidget(len(rows), 2)
        table.setHorizontalHeaderLabels(["Key", "What it does"])
        table.verticalHeader().hide()
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        for row, binding in enumerate(rows):
            table.setItem(row, 0, QTableWidgetItem("  or  ".join(binding.keys)))
            table.setItem(row, 1, QTableWidgetItem(binding.title))
        table.resizeColumnToContents(0)
        table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(table)
        layout.addWidget(self._drawn_by())
        layout.addWidget(buttons)
        self.resize(560, 620)

    @staticmethod
    def _drawn_by() -> QLabel:
        try:
            text = check_opengl().told()
        except CtvqaError as error:
            text = str(error)
        label = QLabel(text)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        return label
