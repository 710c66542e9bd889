"""Measure panel: take a tool, see what was measured on this case, go there, name, copy, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSizePolicy,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.drawings import KINDS
from napari_ctvqa.core.measured_text import (
    KIND_TITLES,
    full_text,
    one_line_text,
    place_text,
)
from napari_ctvqa.core.measuring import PROBE_RADII_MM, length_doubt
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.text import Label, TextBox, one_line, tooltip
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.geometry import Grid
    from napari_ctvqa.core.kept_drawings import KeptDrawing
    from napari_ctvqa.core.session import Session

_COLUMNS = ("Name", "Value", "Slice")
_TOOLS_A_ROW = 3
_NOTHING = (
    "Nothing is measured on this case yet. Take a tool and drag in the picture; the number stands "
    "beside the line, and every measurement is kept."
)
_NO_CASE = "Open a case first."


class MeasurePanel(QWidget):
    """Shows ``session.measurements``; what is wished for, ``widgets/measurements.py`` does."""

    title = "Measure"
    order = 8

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self.tools = {kind: QPushButton(KIND_TITLES[kind]) for kind in KINDS}
        self.doubt = Label(role="amber")
        self.empty = Label(role="muted")
        self.table = QTableWidget(0, len(_COLUMNS))
        self.go = QPushButton("Go to")
        self.copy = QPushButton("Copy")
        self.rename = QPushButton("Rename")
        self.delete = QPushButton("Delete")
        self.export = QPushButton("Export…")
        self.details = TextBox("All about the chosen measurement", max_lines=5)
        self.radius = QComboBox()
        self._build()
        self._connect()
        self._listening = Listening(
            (session.measurements_changed, self._show),
            (session.case_changed, self._show),
            (session.tool_changed, self._show_tool),
            (session.probe_changed, self._show_radius),
        )
        self._show()
        self._show_tool()
        self._show_radius()

    # ------------------------------------------------------------------- parts

    def _build(self) -> None:
        tools = QGridLayout()
        tools.setSpacing(GAP_PX)
        for number, button in enumerate(self.tools.values()):
            button.setCheckable(True)
            tools.addWidget(button, *divmod(number, _TOOLS_A_ROW))
        table = self.table
        table.setHorizontalHeaderLabels(list(_COLUMNS))
        table.verticalHeader().hide()
        table.setAccessibleName("Measurements of this case")
        table.setTabKeyNavigation(False)
        table.setWordWrap(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        for column, width in ((0, 100), (2, 92)):
            table.setColumnWidth(column, width)
        buttons = QHBoxLayout()
        buttons.setSpacing(GAP_PX)
        for button in (self.go, self.copy, self.rename, self.delete, self.export):
            buttons.addWidget(button)
            button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            button.setMinimumWidth(button.fontMetrics().horizontalAdvance(button.text()) + 10)
        self.radius.setAccessibleName("Radius of the circle under the pointer")
        for radius_mm in PROBE_RADII_MM:
            self.radius.addItem(f"circle r {radius_mm:g} mm", radius_mm)
        self.radius.setToolTip("The strip under the picture gives the mean HU within this radius")
        tools.addWidget(self.radius, *divmod(len(self.tools), _TOOLS_A_ROW))
        for part in (*self.tools.values(), self.radius):
            part.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(GAP_PX)
        layout.addLayout(tools)
        layout.addWidget(self.doubt)
        layout.addWidget(self.empty)
        layout.addWidget(table, 1)
        layout.addLayout(buttons)
        layout.addWidget(self.details)
        layout.addStretch(0)

    def _connect(self) -> None:
        wishes = self._session.wishes
        for kind, button in self.tools.items():
            button.clicked.connect(lambda _=False, name=kind.value: wishes.tool.emit(name))
        self.go.clicked.connect(lambda: wishes.measure_jump.emit(self._session.measurement))
        self.delete.clicked.connect(lambda: wishes.measure_delete.emit(""))
        self.copy.clicked.connect(self._copy)
        self.rename.clicked.connect(self._edit_name)
        self.export.clicked.connect(self._export)
        self.table.itemSelectionChanged.connect(self._choose)
        self.table.itemActivated.connect(
            lambda _: wishes.measure_jump.emit(self._session.measurement)
        )
        self.table.itemChanged.connect(self._renamed)
        self.radius.activated.connect(
            lambda index: wishes.probe_radius.emit(self.radius.itemData(index))
        )

    # -------------------------------------------------------------------- show

    def _grid(self) -> Grid | None:
        case = self._session.case
        return None if case is None else case.volume.display_grid

    def _show(self) -> None:
        session, grid = self._session, self._grid()
        kept = session.measurements if grid is not None else ()
        self.doubt.show_text("" if session.case is None else length_doubt(session.case))
        self.empty.show_text(_NO_CASE if grid is None else "" if kept else _NOTHING)
        self.table.setVisible(bool(kept))
        self._fill(kept)
        chosen = session.chosen_measurement
        self.details.setVisible(chosen is not None and grid is not None)
        if chosen is not None and grid is not None:
            self.details.show_text(full_text(chosen, grid))
        for button in (self.go, self.copy, self.rename, self.delete):
            button.setEnabled(chosen is not None)
        self.export.setEnabled(bool(kept))
        for button in self.tools.values():
            button.setEnabled(grid is not None)

    def _fill(self, kept: tuple[KeptDrawing, ...]) -> None:
        table = self.table
        table.blockSignals(True)
        table.setRowCount(len(kept))
        for row, one in enumerate(kept):
            plane = PLANES[one.drawing.plane]
            place = f"{plane[:3]} {one.drawing.slice_index + 1}"
            texts = (one_line(one.name), one_line(one_line_text(one.found)), place)
            for column, text in enumerate(texts):
                item = table.item(row, column)
                if item is None:
                    item = QTableWidgetItem()
                    table.setItem(row, column, item)
                item.setText(text)
                item.setToolTip(tooltip(self._hint(one) if column else one.name))
                item.setFlags(_SHOWN | Qt.ItemFlag.ItemIsEditable if column == 0 else _SHOWN)
        rows = [row for row, one in enumerate(kept) if one.id == self._session.measurement]
        if rows:
            table.selectRow(rows[0])
        else:
            table.clearSelection()
        table.blockSignals(False)

    def _hint(self, one: KeptDrawing) -> str:
        grid = self._grid()
        return (
            "" if grid is None else f"{one_line_text(one.found)}\n{place_text(one.drawing, grid)}"
        )

    def _show_tool(self) -> None:
        for kind, button in self.tools.items():
            button.setChecked(self._session.tool == kind)

    def _show_radius(self) -> None:
        self.radius.setCurrentIndex(self.radius.findData(self._session.probe_radius_mm))

    # ------------------------------------------------------------------ wishes

    def _row(self) -> KeptDrawing | None:
        rows = {index.row() for index in self.table.selectedIndexes()}
        kept = self._session.measurements
        return kept[min(rows)] if rows and min(rows) < len(kept) else None

    def _choose(self) -> None:
        row = self._row()
        if row is not None and row.id != self._session.measurement:
            self._session.wishes.measure_choose.emit(row.id)

    def _copy(self) -> None:
        chosen, grid = self._session.chosen_measurement, self._grid()
        if chosen is not None and grid is not None:
            place = place_text(chosen.drawing, grid)
            text = f"{chosen.name}: {one_line_text(chosen.found)} ({place})"
            QApplication.clipboard().setText(text)

    def _edit_name(self) -> None:
        row = self._row()
        if row is not None:
            item = self.table.item(self._session.measurements.index(row), 0)
            self.table.setCurrentItem(item)
            self.table.editItem(item)

    def _renamed(self, item: QTableWidgetItem) -> None:
        kept = self._session.measurements
        if item.column() == 0 and item.row() < len(kept):
            one, text = kept[item.row()], item.text()
            if text.strip() and text != one_line(one.name):
                self._session.wishes.measure_rename.emit(one.id, text)
            else:
                self._show()

    def _export(self) -> None:
        case = self._session.case
        if case is None:
            return
        chosen, _ = QFileDialog.getSaveFileName(
            self, "Export the measurements of this case", "measurements.csv", "CSV table (*.csv)"
        )
        if chosen:
            path = Path(chosen)
            named = path if path.suffix else path.with_suffix(".csv")
            self._session.wishes.measure_export.emit(named)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


_SHOWN = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
PANEL = MeasurePanel
