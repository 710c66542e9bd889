"""Qt table model over the session's questions; it owns no question and builds none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt
from qtpy.QtGui import QBrush, QColor

from napari_ctvqa.core.ordering import MODEL_PREFIX
from napari_ctvqa.core.questions import COLUMNS
from napari_ctvqa.core.records import Outcome, Score
from napari_ctvqa.widgets.text import LABEL_LIMIT, one_line, tooltip
from napari_ctvqa.widgets.theme import DIFFERS_GLYPH, GLYPHS, HIDDEN_GLYPH, WORDS, Theme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.session import Session

FRAME_COLUMNS = ("id", "stage", "subtype", "case", "text")
assert set(FRAME_COLUMNS) == set(COLUMNS)
HEADINGS = {"id": "id", "stage": "stage", "subtype": "subtype", "case": "case", "text": "question"}
COUNTED_FAILURE = "the run failed here, there is no answer; the official scorer gives credit for it"
HIDDEN_WORDS = "hidden until the reference of this question is revealed"


class QuestionTableModel(QAbstractTableModel):
    """Rows of ``session.rows`` in their order; five columns of the frame, then one a model."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self._theme = theme
        self._questions: QuestionSet | None = None
        self._columns: dict[str, Any] = {}
        self._rows: npt.NDArray[np.intp] = session.rows
        self._models: tuple[str, ...] = ()
        self.reload()

    # ------------------------------------------------------------- following

    def reload(self) -> None:
        """Take over questions, rows and models from the session."""
        self.beginResetModel()
        self._questions = self._session.questions
        frame = self._questions.frame if self._questions is not None else None
        self._columns = {} if frame is None else {c: frame[c].array for c in FRAME_COLUMNS}
        self._rows = self._session.rows
        self._models = tuple(self._session.runs)
        self.endResetModel()

    def reload_outcomes(self) -> None:
        """Repaint the models' columns; a model that came or went changes the columns."""
        if tuple(self._session.runs) != self._models:
            self.reload()
        elif self._models and len(self._rows):
            first = self.index(0, len(FRAME_COLUMNS))
            self.dataChanged.emit(first, self.index(len(self._rows) - 1, self.columnCount() - 1))

    def set_theme(self, theme: Theme) -> None:
        """Paint with other colours."""
        self._theme = theme
        self.reload_outcomes()

    # ----------------------------------------------------------------- places

    def question_row(self, place: int) -> int:
        """Return the QuestionSet's row shown at a place of the table."""
        return int(self._rows[place])

    def place_of(self, question_row: int | None) -> int | None:
        """Return where a row of the QuestionSet is shown, None where the filter hides it."""
        if question_row is None:
            return None
        places = (self._rows == question_row).nonzero()[0]
        return int(places[0]) if len(places) else None

    def column_key(self, section: int) -> str:
        """Return what ``core.ordering`` calls a column."""
        if section < len(FRAME_COLUMNS):
            return FRAME_COLUMNS[section]
        return f"{MODEL_PREFIX}{self._models[section - len(FRAME_COLUMNS)]}"

    def is_outcome(self, section: int) -> bool:
        """Return whether a column shows a model's outcomes."""
        return section >= len(FRAME_COLUMNS)

    # -------------------------------------------------------------- Qt's part

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's
        """Return how many questions the filter shows."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's
        """Return five and one a model."""
        return 0 if parent.isValid() else len(FRAME_COLUMNS) + len(self._models)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading, and the whole of it as tooltip."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if section < len(FRAME_COLUMNS):
            return HEADINGS[FRAME_COLUMNS[section]] if role == Qt.ItemDataRole.DisplayRole else None
        if section >= self.columnCount():
            return None
        model = self._models[section - len(FRAME_COLUMNS)]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(model, 40)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(f"{model}: outcome by the official scorer")
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return text, tooltip or colour of a cell."""
        if not index.isValid():
            return None
        row, section = int(self._rows[index.row()]), index.column()
        if section < len(FRAME_COLUMNS):
            return self._frame_data(row, FRAME_COLUMNS[section], role)
        return self._outcome_data(row, self._models[section - len(FRAME_COLUMNS)], role)

    def _frame_data(self, row: int, column: str, role: int) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(self._columns[column][row])
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(self._columns[column][row], LABEL_LIMIT)
        return None

    def _outcome_data(self, row: int, model: str, role: int) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignCenter)
        question_id = self._columns["id"][row]
        hidden = self._session.hides(question_id)
        score = self._session.scores.get(model, {}).get(question_id)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._glyph(model, question_id, score, hidden)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            words = self._words(model, question_id, score, hidden)
            return tooltip(words) if role == Qt.ItemDataRole.ToolTipRole else words
        if role == Qt.ItemDataRole.ForegroundRole and score is not None:
            colour = self._theme.muted if hidden else self._theme.of(score.shown)
            return QBrush(QColor(colour))
        return None

    def _answered(self, model: str, question_id: str) -> bool:
        return question_id in self._session.runs[model].predictions

    def _glyph(self, model: str, question_id: str, score: Score | None, hidden: bool) -> str:
        if score is None:
            return GLYPHS[Outcome.UNSCORED] if self._answered(model, question_id) else ""
        if hidden:
            return HIDDEN_GLYPH
        if score.counted_though_failed:
            return f"{GLYPHS[score.shown]}{DIFFERS_GLYPH}"
        if score.disagrees:
            return f"{GLYPHS[score.official]}{DIFFERS_GLYPH}{GLYPHS[score.ours]}"
        return GLYPHS[score.official]

    def _words(self, model: str, question_id: str, score: Score | None, hidden: bool) -> str:
        name = one_line(model, 60)
        if score is None:
            answered = self._answered(model, question_id)
            return f"{name}: {'not scored' if answered else 'no answer'}"
        if hidden:
            return f"{name}: {HIDDEN_WORDS}"
        prediction = self._session.runs[model].predictions.get(question_id)
        failed = "; the run failed here" if prediction is not None and prediction.failed else ""
        if score.counted_though_failed:
            return f"{name}: {COUNTED_FAILURE}"
        words = f"{name}: {WORDS[score.official]} by the official scorer"
        if score.disagrees:
            return f"{words}, {WORDS[score.ours]} as a person reads it{failed}"
        return f"{words}{failed}"
