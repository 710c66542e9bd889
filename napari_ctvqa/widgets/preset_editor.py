"""PresetEditor: the table of window presets, to add, change, remove and reset rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.windows import LONGEST_NAME, Preset, preset_faults, shipped_presets
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_COLUMNS = ("Name", "Width HU", "Level HU", "Key")
_ABOUT = (
    "Black is level - width / 2, white is level + width / 2. A key is one character, pressed "
    "alone; it is free when no other preset and no action of the window (F1) has it."
)


class PresetEditor(QDialog):
    """Edits a copy; nothing changes until it is kept.

    Parameters
    ----------
    presets
        The rows to begin with.
    taken
        Keys of the window (upper case) and what they do: no preset may have them.
    keep
        Called with the new table; a CtvqaError it raises is shown, and the dialog stays open.
    """

    def __init__(
        self,
        presets: Sequence[Preset],
        taken: Mapping[str, str],
        keep: Callable[[Sequence[Preset]], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._taken, self._keep = taken, keep
        self.setWindowTitle("Window presets")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._styling = Styling(self)
        self.table = QTableWidget(0, len(_COLUMNS))
        self.fault = Label(role="unread")
        self.add_row = QPushButton("Add")
        self.remove_row = QPushButton("Remove")
        self.reset_row = QPushButton("Reset row")
        self.reset_all = QPushButton("Reset all")
        box = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(box.Save | box.Cancel)
        self._build()
        self.add_row.clicked.connect(self._add)
        self.remove_row.clicked.connect(self._remove)
        self.reset_row.clicked.connect(self._reset)
        self.reset_all.clicked.connect(lambda: self._fill(shipped_presets()))
        self.buttons.accepted.connect(self._save)
        self.buttons.rejected.connect(self.reject)
        self.table.itemChanged.connect(lambda _: self._check())
        self.table.currentCellChanged.connect(lambda *_: self._check())
        self._fill(presets)

    def _build(self) -> None:
        table = self.table
        table.setHorizontalHeaderLabels(list(_COLUMNS))
        table.verticalHeader().hide()
        table.setAccessibleName("Window presets")
        table.setTabKeyNavigation(False)
        table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        row = QHBoxLayout()
        for button in (self.add_row, self.remove_row, self.reset_row, self.reset_all):
            button.setAutoDefault(False)
            row.addWidget(button)
        self.reset_row.setToolTip("Back to the shipped numbers and key of this name")
        self.reset_all.setToolTip("Back to the shipped table")
        layout = QVBoxLayout(self)
        layout.setSpacing(GAP_PX)
        layout.addWidget(table, 1)
        layout.addLayout(row)
        layout.addWidget(self.fault)
        layout.addWidget(Label(_ABOUT, role="muted"))
        layout.addWidget(self.buttons)
        self.resize(520, 520)

    # ------------------------------------------------------------------- rows

    def presets(self) -> list[Preset]:
        """Return the rows as they stand; what is no number is NaN."""
        return [self._row(row) for row in range(self.table.rowCount())]

    def _row(self, row: int) -> Preset:
        name, width, level, key = (self._text(row, column) for column in range(len(_COLUMNS)))
        return Preset(
            name.strip(), _number(width), _number(level), key if key == " " else key.strip()
        )

    def _text(self, row: int, column: int) -> str:
        item = self.table.item(row, column)
        return "" if item is None else str(item.text())

    def _fill(self, presets: Sequence[Preset]) -> None:
        self.table.blockSignals(True)
        self.table.setRowCount(0)
        for preset in presets:
            self._append(preset)
        self.table.blockSignals(False)
        self.table.setCurrentCell(0, 0)
        self._check()

    def _append(self, preset: Preset) -> None:
        row = self.table.rowCount()
        self.table.insertRow(row)
        self._write(row, preset)

    def _write(self, row: int, preset: Preset) -> None:
        texts = (preset.name, f"{preset.width:g}", f"{preset.level:g}", preset.key)
        for column, text in enumerate(texts):
            item = QTableWidgetItem(text)
            if column in (1, 2):
                item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.table.setItem(row, column, item)

    def _add(self) -> None:
        names = {preset.name.casefold() for preset in self.presets()}
        number = next(n for n in range(1, len(names) + 2) if f"window {n}" not in names)
        self._append(Preset(f"window {number}", 400, 40))
        self.table.setCurrentCell(self.table.rowCount() - 1, 0)
        self.table.editItem(self.table.currentItem())
        self._check()

    def _remove(self) -> None:
        row = self.table.currentRow()
        if row >= 0:
            self.table.removeRow(row)
        self._check()

    def _reset(self) -> None:
        shipped = self._shipped()
        if shipped is not None:
            self._write(self.table.currentRow(), shipped)
        self._check()

    def _shipped(self) -> Preset | None:
        """Return the shipped preset of the current row's name."""
        name = self._text(self.table.currentRow(), 0).strip().casefold()
        return next((p for p in shipped_presets() if p.name.casefold() == name), None)

    # ------------------------------------------------------------------ check

    def _check(self) -> None:
        """Say what cannot be kept, the current row's fault first."""
        table, here = self.presets(), self.table.currentRow()
        faults = preset_faults(table, self._taken)
        row = here if here in faults else min(faults, default=-1)
        text = f"{table[row].name[:LONGEST_NAME] or 'row'}: {faults[row]}." if faults else ""
        if not table:
            text = "One preset at least stays: add a row, or reset all."
        self.fault.show_text(text)
        self.buttons.button(QDialogButtonBox.StandardButton.Save).setEnabled(not text)
        self.remove_row.setEnabled(here >= 0)
        self.reset_row.setEnabled(here >= 0 and self._shipped() is not None)

    def _save(self) -> None:
        try:
            self._keep(self.presets())
        except CtvqaError as error:
            self.fault.show_text(error)
            return
        self.accept()


def _number(text: str) -> float:
    try:
        return float(text.strip().replace(",", ".").replace("−", "-"))
    except ValueError:
        return math.nan
