"""Structures panel: every mask of every source, shown or not, and the way to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.error_maps import source_word
from napari_ctvqa.core.names import label
from napari_ctvqa.core.overlay_state import Drawing
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.structure_model import (
    NAME,
    SOURCE,
    VOLUME,
    StructureTableModel,
    volume_text,
)
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from qtpy.QtGui import QCloseEvent, QKeyEvent

    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.session import Session

_DRAWN = (Source.REFERENCE, Source.PREDICTED, Source.TOOL, Source.READER)
_WORDS = {Drawing.FILL: "filled", Drawing.OUTLINE: "outline", Drawing.OFF: "off"}
_VOLUME_PX, _SOURCE_PX = 66, 78


class StructuresPanel(QWidget):
    """Lists the masks of ``session.case`` and ``session.beside``."""

    title = "Structures"
    order = 8

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self._search = QLineEdit()
        self._open = QPushButton("Open masks…")
        self._model = StructureTableModel(session)
        self._table = StructureTable(self._model)
        self._drawings: dict[Source, QComboBox] = {}
        self._all = QPushButton("All")
        self._none = QPushButton("None")
        self._solo = QPushButton("Only this")
        self._errors = QPushButton("Error map")
        self._note = Label(role="muted")
        self._chosen: Mask | None = None
        self.setFocusProxy(self._search)
        self._build()
        self._connect()
        self._listening = Listening(
            (session.case_changed, self._reload),
            (session.masks_changed, self._reload),
            (session.overlays_changed, self._show_choice),
            (session.focus_changed, self._show_buttons),
            (session.question_changed, self._show_choice),
            (session.reveal_changed, self._show_choice),
        )
        self._reload()

    def _build(self) -> None:
        self._search.setPlaceholderText("Search structures")
        self._search.setAccessibleName("Search structures")
        self._search.setClearButtonEnabled(True)
        self._open.setToolTip("Show a model's masks of this CT beside its own: a folder of files")
        self._all.setToolTip("Show all structures that the search lists")
        self._none.setToolTip("Hide all structures that the search lists, in every case")
        self._solo.setToolTip("Show the chosen structure alone; again: all as before")
        self._errors.setToolTip("Lay the two masks of the chosen structure over each other")
        self._errors.setCheckable(True)
        self._solo.setCheckable(True)
        top = QHBoxLayout()
        top.addWidget(self._search, 1)
        top.addWidget(self._open)
        sources = QGridLayout()
        sources.setSpacing(4)
        for place, source in enumerate(_DRAWN):
            box = self._drawings[source] = QComboBox()
            box.setAccessibleName(f"How masks of the {source_word(source)} are drawn")
            for drawing, words in _WORDS.items():
                box.addItem(f"{source_word(source)}: {words}", drawing)
            box.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            box.activated.connect(partial(self._draw, source))
            sources.addWidget(box, place // 2, place % 2)
        buttons = QHBoxLayout()
        for button in (self._all, self._none, self._solo, self._errors):
            buttons.addWidget(button, 1)
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addLayout(sources)
        layout.addWidget(self._table, 1)
        layout.addWidget(self._note)
        layout.addLayout(buttons)
        fill(self, body, "Structures")

    def _connect(self) -> None:
        wishes, model = self._session.wishes, self._model
        self._search.textChanged.connect(self._find)
        self._search.returnPressed.connect(self._table.setFocus)
        self._open.clicked.connect(self.choose_masks)
        self._all.clicked.connect(lambda: wishes.show_structures.emit(model.structures, True))
        self._none.clicked.connect(lambda: wishes.show_structures.emit(model.structures, False))
        self._solo.clicked.connect(self.solo)
        self._errors.clicked.connect(self.error_map)
        model.toggled.connect(
            lambda structure, shown: wishes.show_structures.emit({structure}, shown)
        )
        self._table.wanted.connect(wishes.go_to_mask.emit)
        self._table.selectionModel().currentRowChanged.connect(self._on_chosen)

    # ---------------------------------------------------------------- choosing

    def choose_masks(self) -> None:
        """Ask for a folder of a model's masks and open it."""
        chosen = QFileDialog.getExistingDirectory(self, "Open a model's masks of this CT")
        if chosen:
            self._session.wishes.open_masks.emit(Path(chosen))

    def solo(self) -> None:
        """Show the chosen structure alone, or all as before."""
        structure = self._structure() or self._session.overlays.solo
        if structure:
            self._session.wishes.solo.emit(structure)
        self._show_choice()

    def error_map(self) -> None:
        """Lay the two masks of the chosen structure over each other, or take that away."""
        shown = self._session.error_map
        structure = self._structure() or ("" if shown is None else shown.structure)
        self._session.wishes.error_map.emit(structure)
        self._show_choice()

    def _structure(self) -> str:
        """Return what is chosen in the list, else what stands out in the picture."""
        row = self._model.row_at(self._table.currentIndex().row())
        focus = self._session.focus
        return row.structure if row is not None else "" if focus is None else focus.structure

    def _draw(self, source: Source) -> None:
        drawing = self._drawings[source].currentData()
        self._session.wishes.draw_source.emit(source.value, drawing.value)

    def _find(self, text: str) -> None:
        self._model.search(text)
        self._restore()

    def _on_chosen(self) -> None:
        row = self._model.row_at(self._table.currentIndex().row())
        if row is not None:
            self._chosen = row.mask
        self._show_buttons()

    def _restore(self) -> None:
        place = self._model.place_of(self._chosen)
        if place is not None:
            self._table.setCurrentIndex(self._model.index(place, NAME))

    # ----------------------------------------------------------------- showing

    def _reload(self) -> None:
        self._model.reload()
        self._restore()
        self._show_choice()

    def _show_choice(self) -> None:
        self._model.repaint()
        state, sources = self._session.overlays, self._model.sources
        for source, box in self._drawings.items():
            box.setVisible(source in sources)
            box.setCurrentIndex(list(_WORDS).index(state.drawing(source)))
        self._note.show_text(self._words())
        self._show_buttons()

    def _show_buttons(self) -> None:
        session = self._session
        structure, paired = self._structure(), self._model.paired
        self._solo.setChecked(bool(session.overlays.solo))
        self._solo.setEnabled(bool(session.overlays.solo or structure))
        self._errors.setChecked(session.error_map is not None)
        self._errors.setEnabled(structure in paired or session.error_map is not None)

    def _words(self) -> str:
        session, shown = self._session, self._session.error_map
        if session.case is None:
            return "Open a case to list its masks."
        if shown is not None:
            return _error_words(session)
        if session.overlays.solo:
            return f"Only {label(session.overlays.solo)} is shown."
        hidden = len(session.overlays.hidden & {*session.case.masks})
        waiting = "" if session.case.complete else "masks are still being read"
        failed = len(session.case.problems)
        parts = (
            f"{hidden} hidden" if hidden else "",
            f"{failed} could not be read" if failed else "",
            waiting,
        )
        return " · ".join(part for part in parts if part)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _error_words(session: Session) -> str:
    """Return how far two masks agree, in numbers; none while the reference is hidden."""
    shown = session.error_map
    assert shown is not None
    name = label(shown.structure)
    if not session.revealed:
        return f"Error map of {name}; its numbers are hidden until the reference is revealed."
    words = [row[0] for row in shown.table.values()]
    pairs = zip(words, shown.volumes_ml, strict=True)
    trusted = session.case is not None and session.case.report.side_trusted
    volumes = [f"{word} {volume_text(ml)} ml" for word, ml in pairs] if trusted else []
    dice = "no voxel in either" if shown.dice is None else f"Dice {shown.dice:.3f}"
    return " · ".join((f"Error map of {name}: {dice}", *volumes))


class StructureTable(QTableView):
    """The list; double click or Enter asks to go to a mask, Space shows or hides it."""

    wanted = Signal(object)
    """Mask to go to."""

    def __init__(self, model: StructureTableModel) -> None:
        super().__init__()
        self._structures = model
        self.setModel(model)
        self.setAccessibleName("Structures")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setSortingEnabled(True)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(self.fontMetrics().height() + 8)
        columns = self.horizontalHeader()
        columns.setHighlightSections(False)
        columns.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        columns.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        columns.setSortIndicatorClearable(True)
        columns.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setColumnWidth(VOLUME, _VOLUME_PX)
        self.setColumnWidth(SOURCE, _SOURCE_PX)
        self.doubleClicked.connect(self._want)

    def sizeHint(self) -> QSize:
        """Return a low one: the panel gives what is left, so that its buttons stay in view."""
        return QSize(300, 120)

    def _want(self) -> None:
        row = self._structures.row_at(self.currentIndex().row())
        if row is not None:
            self.wanted.emit(row.mask)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter goes there, Space shows or hides; all else is the table's own."""
        index = self._structures.index(self.currentIndex().row(), NAME)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._want()
        elif event.key() == Qt.Key.Key_Space and index.isValid():
            role = Qt.ItemDataRole.CheckStateRole
            shown = Qt.CheckState(index.data(role)) == Qt.CheckState.Checked
            wanted = Qt.CheckState.Unchecked if shown else Qt.CheckState.Checked
            self._structures.setData(index, wanted, role)
        else:
            super().keyPressEvent(event)


PANEL = StructuresPanel
