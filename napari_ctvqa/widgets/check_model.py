"""Qt table model over the checks of a validation: one kind of finding at a time, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt
from qtpy.QtGui import QBrush, QColor

from napari_ctvqa.core.chains import ChainStatus
from napari_ctvqa.core.records import Outcome
from napari_ctvqa.widgets.text import LABEL_LIMIT, one_line, tooltip
from napari_ctvqa.widgets.words import STATUS_WORDS, plain_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ctvqa.core.checks import Checked, ReferenceCheck
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.theme import Theme

KINDS: dict[str, tuple[str, Callable[[ReferenceCheck], bool]]] = {
    "differs": ("Differs", lambda check: check.status == ChainStatus.DIFFERS.value),
    "flawed": ("Flawed questions", lambda check: bool(check.flags)),
    "unknown": ("Cannot be checked", lambda c: c.status == ChainStatus.CANNOT_CHECK.value),
    "agrees": ("Agrees", lambda check: check.status == ChainStatus.AGREES.value),
    "all": ("All", lambda check: True),
}
COLUMNS: dict[str, Callable[[ReferenceCheck], str]] = {
    "id": lambda check: check.id,
    "status": lambda check: status_words(check),
    "stated": lambda check: check.stated,
    "recomputed": lambda check: check.recomputed,
    "off by": lambda check: off_by(check),
    "subtype": lambda check: check.subtype,
    "why": lambda check: plain_names(check.reason),
    "first differing step": lambda check: plain_names(check.first_differing_step),
    "rule": lambda check: check.rule,
    "caveats": lambda check: "; ".join(check.caveats),
}


def status_words(check: ReferenceCheck) -> str:
    """Return glyph and word of a check's status; right by another rule is a status of its own."""
    glyph, word, _ = STATUS_WORDS[ChainStatus(check.status)]
    if check.agrees_by_another:
        return "≈ differs, agrees by another rule"
    return f"{glyph} {word}"


def off_by(check: ReferenceCheck) -> str:
    """Return how much the recomputed number is above or below the stated one.

    In per cent, but a slice in slices.
    """
    relative = check.relative_difference
    if check.status != ChainStatus.DIFFERS.value:
        return ""
    if relative is None:
        return check.slices_off
    digits = 1 if abs(relative) < 10 else 0
    return f"{100 * relative:+,.{digits}f} %".replace("-", "−")


class CheckTableModel(QAbstractTableModel):
    """The checks of ``session.validation`` of one kind, in their order."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self._theme = theme
        self._kind = "differs"
        self._shown: list[Checked] = []
        self.reload()

    @property
    def kind(self) -> str:
        """Return the kind of finding that is shown, a key of ``KINDS``."""
        return self._kind

    def show_kind(self, kind: str) -> None:
        """Show another kind of finding."""
        self._kind = kind
        self.reload()

    def reload(self) -> None:
        """Take the session's checks over."""
        fits = KINDS[self._kind][1]
        self.beginResetModel()
        self._shown = [c for c in self._session.validation.checks if fits(c[1])]
        self.endResetModel()

    def set_theme(self, theme: Theme) -> None:
        """Paint with other colours."""
        self._theme = theme
        self.reload()

    def question_row(self, place: int) -> int:
        """Return the QuestionSet's row shown at a place."""
        return self._shown[place][0]

    def places_of(self, question_rows: set[int]) -> list[int]:
        """Return where rows of the QuestionSet are shown."""
        return [place for place, (row, _) in enumerate(self._shown) if row in question_rows]

    def cells(self, places: Sequence[int]) -> list[list[str]]:
        """Return rows as text, whole, the headings first."""
        rows = [[text(self._shown[place][1]) for text in COLUMNS.values()] for place in places]
        return [list(COLUMNS), *rows]

    # -------------------------------------------------------------- Qt's part

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's
        """Return how many checks are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's
        """Return one a field."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return list(COLUMNS)[section]
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return text, tooltip or colour of a cell."""
        if not index.isValid():
            return None
        check = self._shown[index.row()][1]
        name = list(COLUMNS)[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(COLUMNS[name](check))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(COLUMNS[name](check), LABEL_LIMIT)
        if role == Qt.ItemDataRole.ForegroundRole and name == "status":
            return QBrush(QColor(self._colour(check)))
        if role == Qt.ItemDataRole.TextAlignmentRole and name == "off by":
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    def _colour(self, check: ReferenceCheck) -> str:
        if check.agrees_by_another:
            return self._theme.unread
        return self._theme.of(Outcome(STATUS_WORDS[ChainStatus(check.status)][2]))
