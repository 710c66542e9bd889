"""Qt table model of the masks of a case: shown or not, swatch, name, volume, source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QRectF, QSize, Qt, Signal
from qtpy.QtGui import QPainter, QPixmap

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import beside_colours, colours_of, lesion_look, look_of
from napari_ctvqa.core.error_maps import source_word
from napari_ctvqa.core.overlay_state import Drawing, drawn_look
from napari_ctvqa.core.structure_list import StructureRow, structure_rows
from napari_ctvqa.io.geometry_checks import VOLUME_CAVEAT
from napari_ctvqa.widgets.notes_view import LegendRow, paint_chip
from napari_ctvqa.widgets.text import one_line, tooltip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ctvqa.core.cases import Mask
    from napari_ctvqa.core.colours import RGB, Look
    from napari_ctvqa.core.session import Session

NAME, VOLUME, SOURCE = range(3)
HEADINGS = ("Structure", "ml", "Source")
HIDDEN, NOT_TRUSTED = "hidden", "?"
SWATCH = QSize(20, 14)
_VOLUME_HELP = "Volume in ml by the geometry of the mask's own file."
_HIDDEN_HELP = "Hidden until the reference is revealed: a volume may be what is asked for."


class StructureTableModel(QAbstractTableModel):
    """Rows of ``structure_rows`` that fit a search, in the order asked for."""

    toggled = Signal(str, bool)
    """Structure, and whether it is to be shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._all: tuple[StructureRow, ...] = ()
        self._rows: list[StructureRow] = []
        self._colours: Mapping[str, RGB] = {}
        self._beside: Mapping[str, RGB] = {}
        self._words: tuple[str, ...] = ()
        self._order: tuple[int, bool] = (-1, False)
        self._swatches: dict[object, QPixmap] = {}
        self.reload()

    # -------------------------------------------------------------- following

    def reload(self) -> None:
        """Take over the masks from the session."""
        case, beside = self._session.case, self._session.beside
        self._all = () if case is None else structure_rows(case, beside)
        self._colours = {} if case is None else colours_of(case)
        self._beside = beside_colours(beside, self._colours)
        self._arrange()

    def search(self, text: str) -> None:
        """List only rows that hold every word."""
        self._words = tuple(text.lower().split())
        self._arrange()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Order the rows by a column; -1 is the case's own order."""
        self._order = (column, order == Qt.SortOrder.DescendingOrder)
        self._arrange()

    def repaint(self) -> None:
        """Show anew what the reader chose to see."""
        if self._rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._rows) - 1, SOURCE))

    def _arrange(self) -> None:
        self.beginResetModel()
        self._rows = [row for row in self._all if row.found_by(self._words)]
        column, descending = self._order
        if column >= 0:
            self._rows.sort(key=lambda row: self._key(row, column), reverse=descending)
        self.endResetModel()

    def _key(self, row: StructureRow, column: int) -> Any:
        if column == VOLUME:
            return -1.0 if self._volume(row) in (HIDDEN, NOT_TRUSTED) else row.volume_ml
        return row.label.lower() if column == NAME else row.source.value

    # -------------------------------------------------------------------- rows

    @property
    def structures(self) -> frozenset[str]:
        """Return the structures that the search lists."""
        return frozenset(row.structure for row in self._rows)

    @property
    def paired(self) -> frozenset[str]:
        """Return the structures that have two masks to compare."""
        return frozenset(row.structure for row in self._all if row.partner is not None)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the sources that have a mask here, the reference first."""
        found = {row.source for row in self._all}
        return tuple(source for source in Source if source in found and source != Source.ASSUMED)

    def row_at(self, place: int) -> StructureRow | None:
        """Return the row at a place, None beyond the ends."""
        return self._rows[place] if 0 <= place < len(self._rows) else None

    def place_of(self, mask: Mask | None) -> int | None:
        """Return where a mask is listed, None where it is not."""
        return next((n for n, row in enumerate(self._rows) if row.mask is mask), None)

    # --------------------------------------------------------------------- Qt

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Return the number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Return the number of columns."""
        return 0 if parent is not None and parent.isValid() else len(HEADINGS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return HEADINGS[section]
        return None

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        """Return that the first column can be checked."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return flags | Qt.ItemFlag.ItemIsUserCheckable if index.column() == NAME else flags

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        row = self.row_at(index.row())
        if row is None:
            return None
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return (one_line(row.label), self._volume(row), source_word(row.source))[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(self._help(row))
        if role == Qt.ItemDataRole.TextAlignmentRole and column == VOLUME:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if column == NAME and role == Qt.ItemDataRole.CheckStateRole:
            shown = self._session.overlays.shows(row.structure)
            return Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked
        if column == NAME and role == Qt.ItemDataRole.DecorationRole:
            return self._swatch(row)
        if column == NAME and role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{row.label}, {self._volume(row)} ml, {source_word(row.source)}"
        return None

    def setData(self, index: QModelIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Take a check mark: the structure is shown or hidden."""
        row = self.row_at(index.row())
        if row is None or role != Qt.ItemDataRole.CheckStateRole:
            return False
        self.toggled.emit(row.structure, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True

    def _volume(self, row: StructureRow) -> str:
        if row.source is Source.REFERENCE and not self._session.revealed:
            return HIDDEN
        case = self._session.case
        trusted = case is not None and case.report.side_trusted
        if not trusted or VOLUME_CAVEAT in row.mask.caveats:
            return NOT_TRUSTED
        if row.mask.own_region.empty:
            return "empty"
        return volume_text(row.volume_ml)

    def _help(self, row: StructureRow) -> str:
        hidden = row.source is Source.REFERENCE and not self._session.revealed
        lines = [f"{row.label} ({row.mask.name})", _HIDDEN_HELP if hidden else _VOLUME_HELP]
        return "\n".join((*lines, *row.mask.caveats, "Enter or double click: go there."))

    def _swatch(self, row: StructureRow) -> QPixmap:
        own = row.source is Source.REFERENCE or row.structure not in self._beside
        colours = self._colours if own else self._beside
        colour, look = colours.get(row.structure), self._look(row)
        key = (colour, look)
        if key not in self._swatches:
            self._swatches[key] = swatch(colour, look)
        return self._swatches[key]

    def _look(self, row: StructureRow) -> Look:
        lesion = row.source is Source.REFERENCE and row.mask.lesion
        drawing = self._session.overlays.drawing(row.source)
        look = lesion_look() if lesion else look_of(row.source)
        return drawn_look(look, row.source, drawing if drawing is not Drawing.OFF else Drawing.FILL)


def volume_text(volume_ml: float) -> str:
    """Return a volume in ml as written: three digits, whole ones from 100 ml on."""
    return f"{volume_ml:,.0f}" if volume_ml >= 100 else f"{volume_ml:.3g}"


def swatch(colour: RGB | None, look: Look) -> QPixmap:
    """Return a sample of a colour in its look; nothing without a colour."""
    ratio = 2  # sharp also on a screen of twice the pixels
    pixmap = QPixmap(SWATCH * ratio)
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    if colour is not None:
        painter = QPainter(pixmap)
        paint_chip(
            painter,
            QRectF(2, 2, SWATCH.width() - 4, SWATCH.height() - 4),
            LegendRow("", colour, look),
        )
        painter.end()
    return pixmap
