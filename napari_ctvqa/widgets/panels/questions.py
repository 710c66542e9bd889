"""Questions panel: the benchmark's questions as a table, with one search line and facets."""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.scoring import score_note
from napari_ctvqa.core.where import DISAGREES, OUTCOMES, SCORE_FIELDS, VALUES, parse_where
from napari_ctvqa.widgets.banner import Folding
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.question_model import QuestionTableModel
from napari_ctvqa.widgets.question_table import EmptyPage, QuestionTable
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.search_line import Facet, SearchLine, field_value, with_field
from napari_ctvqa.widgets.text import Label, TextBox, one_line, tooltip
from napari_ctvqa.widgets.theme import DIFFERS_GLYPH, GAP_PX, GLYPHS, Styling
from napari_ctvqa.widgets.words import file_notes, outcome_legend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.session import Session


class QuestionsPanel(QWidget):
    """Lists, filters, sorts and chooses questions."""

    title = "Questions"
    order = 1

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._styling = Styling(self)
        self._model = QuestionTableModel(session, self._styling.theme)
        self._search = SearchLine(_values(session))
        self._note = Label()
        self._facets = _facets(session)
        self._table = QuestionTable(self._model)
        self._pages = QStackedWidget()
        self._nothing = EmptyPage()
        self._no_match = EmptyPage()
        self._count = Label(role="heading")
        self._legend = Label(role="small", selectable=False)
        self._notes = TextBox("Notes on the files", max_lines=6)
        self._notes_folding = Folding("Notes on the files", self._notes)
        self._previous = QPushButton("◀ Previous")
        self._next = QPushButton("Next ▶")
        self._build()
        self._connect()
        self._listening = Listening(
            (session.questions_changed, self._show_questions),
            (session.rows_changed, self._show_rows),
            (session.question_changed, self._show_current),
            (session.runs_changed, self._show_runs),
            (session.reveal_changed, self._show_runs),
            (session.case_changed, self._show_notes),
            panel=self,
            session=session,
        )
        self._show_questions()

    # ------------------------------------------------------------------ build

    def _build(self) -> None:
        top = QHBoxLayout()
        top.addWidget(self._open_button())
        top.addWidget(self._search, 1)
        facets = QHBoxLayout()
        for facet in self._facets.values():
            facets.addWidget(facet, 1)
        for page in (self._nothing, self._table, self._no_match):
            self._pages.addWidget(page)
        self._nothing.add_button("Open the demo", self._session.wishes.open_demo.emit)
        self._nothing.add_button("Open a folder…", self.choose_folder)
        self._nothing.add_button("Open a file…", self.choose_file)
        self._no_match.add_button("Clear the filter", self.clear_filter)
        bottom = QHBoxLayout()
        bottom.addWidget(self._count, 1)
        bottom.addWidget(self._previous)
        bottom.addWidget(self._next)
        self._previous.setToolTip("Previous question of the filter (PgUp)")
        self._next.setToolTip("Next question of the filter (PgDown)")
        body = QWidget()
        layout = QVBoxLayout(body)
        layout.setContentsMargins(GAP_PX, GAP_PX, GAP_PX, GAP_PX)
        layout.setSpacing(GAP_PX)
        layout.addLayout(top)
        layout.addLayout(facets)
        layout.addWidget(self._note)
        layout.addWidget(self._pages, 1)
        layout.addWidget(self._legend)
        layout.addWidget(self._notes_folding)
        layout.addLayout(bottom)
        fill(self, body, "Questions")

    def _open_button(self) -> QToolButton:
        button = QToolButton()
        button.setText("Open ▾")
        button.setProperty("ctvqa", "menu")  # its own arrow would be drawn over the text
        button.setAccessibleName("Open")
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button)
        menu.addAction("Case or benchmark folder…", self.choose_folder)
        menu.addAction("Question or CT file…", self.choose_file)
        menu.addAction("Result file of a model…", self.choose_results)
        menu.addAction("Folder with CTs and masks…", self.choose_case_root)
        menu.addSeparator()
        menu.addAction("Demo", self._session.wishes.open_demo.emit)
        button.setMenu(menu)
        return button

    def _connect(self) -> None:
        wishes = self._session.wishes
        self._search.searched.connect(self._filter)
        self._search.left.connect(self._leave_search)
        for field, facet in self._facets.items():
            facet.chosen.connect(partial(self._choose_facet, field))
        self._table.row_chosen.connect(wishes.select_row.emit)
        self._table.horizontalHeader().sectionClicked.connect(self._sort)
        self._previous.clicked.connect(partial(wishes.step_question.emit, -1))
        self._next.clicked.connect(partial(wishes.step_question.emit, 1))
        self._styling.changed.connect(self._repaint)

    def _repaint(self) -> None:
        self._model.set_theme(self._styling.theme)

    # --------------------------------------------------------------- choosing

    def _leave_search(self) -> None:
        """Put the cursor into the list, where the keys of the window work again."""
        self._table.setFocus(Qt.FocusReason.OtherFocusReason)

    def focus_search(self) -> None:
        """Put the cursor into the search line."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def clear_filter(self) -> None:
        """Show all questions."""
        self._search.clear()
        self._filter("")

    def _choose_facet(self, field: str, value: str) -> None:
        text = self._search.text()
        if field == "outcome":
            outcome, _, model = value.partition(" ")
            text = with_field(with_field(text, "model", model), "outcome", outcome)
        else:
            text = with_field(text, field, value)
        self._search.setText(text)
        self._filter(text)

    def _filter(self, text: str) -> None:
        try:
            parse_where(text)
        except CtvqaError as error:
            self._show_note(str(error), "wrong")
            return
        self._show_note("", "small")
        if text.strip() != self._session.where.strip():
            self._session.wishes.filter.emit(text)

    def _sort(self, section: int) -> None:
        key = self._model.column_key(section)
        if self._model.is_outcome(section) and self._session.hide_reference:
            self._show_note("Outcomes are hidden, so the list is not sorted by them.", "small")
            self._show_order()
            return
        column, descending = self._session.order
        if column != key:
            self._session.wishes.sort.emit(key, False)
        elif not descending:
            self._session.wishes.sort.emit(key, True)
        else:
            self._session.wishes.sort.emit("", False)

    def _ask(self, title: str, mode: QFileDialog.FileMode, wish: object) -> None:
        dialog = QFileDialog(self, title)
        dialog.setFileMode(mode)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda chosen: wish.emit(Path(chosen)))  # type: ignore[attr-defined]
        dialog.open()

    def choose_folder(self) -> None:
        """Ask for a case or benchmark folder."""
        wish = self._session.wishes.open_path
        self._ask("Open a case or benchmark folder", QFileDialog.FileMode.Directory, wish)

    def choose_file(self) -> None:
        """Ask for a question file or a CT."""
        wish = self._session.wishes.open_path
        self._ask("Open a question file or a CT", QFileDialog.FileMode.ExistingFile, wish)

    def choose_results(self) -> None:
        """Ask for a model's result file."""
        wish = self._session.wishes.open_results
        self._ask("Open a result file", QFileDialog.FileMode.ExistingFile, wish)

    def choose_case_root(self) -> None:
        """Ask where CTs and masks lie."""
        wish = self._session.wishes.add_case_root
        self._ask("Folder with CTs and masks", QFileDialog.FileMode.Directory, wish)

    # ---------------------------------------------------------------- showing

    def _show_questions(self) -> None:
        self._model.reload()
        self._table.fit_columns()
        self._show_rows()
        self._show_notes()

    def _show_rows(self) -> None:
        session = self._session
        if not self._search.hasFocus() or session.where == "":
            self._show_search(session.where)
        for field in ("stage", "subtype", "case"):
            self._facets[field].show_value(field_value(session.where, field))
        self._show_outcome_facet()
        self._model.reload()
        self._show_order()
        self._show_page()
        self._show_current()

    def _show_search(self, where: str) -> None:
        if self._search.text().strip() != where.strip():
            self._search.setText(where)

    def _show_outcome_facet(self) -> None:
        facet, session = self._facets["outcome"], self._session
        outcome = field_value(session.where, "outcome")
        model = field_value(session.where, "model")
        facet.show_value(f"{outcome} {model}".strip())
        facet.setEnabled(bool(session.runs) and not session.hide_reference)
        if session.hide_reference:
            facet.setToolTip("Outcomes are hidden while references are")
            if any(field_value(session.where, field) for field in SCORE_FIELDS):
                self._show_note(
                    "This filter tells outcomes although references are hidden.", "unread"
                )

    def _show_order(self) -> None:
        column, descending = self._session.order
        header = self._table.horizontalHeader()
        keys = [self._model.column_key(s) for s in range(self._model.columnCount())]
        shown = column in keys
        header.setSortIndicatorShown(shown)
        if shown:
            order = Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
            header.setSortIndicator(keys.index(column), order)

    def _show_page(self) -> None:
        session = self._session
        questions = session.questions
        if questions is None or not len(questions):
            opened = session.path is not None
            self._nothing.show_text(*(_no_questions(session) if opened else _nothing_open()))
            self._pages.setCurrentWidget(self._nothing)
        elif not len(session.rows):
            self._no_match.show_text(
                "No question fits this filter.",
                f"{one_line(session.where, 200)} fits none of {len(questions):,} questions.",
            )
            self._pages.setCurrentWidget(self._no_match)
        else:
            self._pages.setCurrentWidget(self._table)
        self._show_legend()

    def _show_legend(self) -> None:
        session = self._session
        self._legend.show_text(outcome_legend(session.benchmark) if session.runs else "")
        self._legend.setToolTip(tooltip(score_note(session.benchmark)))

    def _show_current(self) -> None:
        place = self._model.place_of(self._session.row)
        self._table.show_place(place)
        total = len(self._session.questions) if self._session.questions is not None else 0
        shown = len(self._session.rows)
        count = f"{shown:,} of {total:,} questions" if total else ""
        if place is not None:
            count += f" · at {place + 1:,}"
        self._count.show_text(count)
        self._previous.setEnabled(shown > 0 and place != 0)
        self._next.setEnabled(shown > 0 and place != shown - 1)

    def _show_runs(self) -> None:
        before = self._model.columnCount()
        self._model.reload_outcomes()
        if self._model.columnCount() != before:
            self._table.fit_columns()
            self._show_current()
        self._show_legend()
        self._show_outcome_facet()
        self._show_notes()

    def _show_notes(self) -> None:
        notes = file_notes(self._session)
        self._notes_folding.show_title(f"Notes on the files ({len(notes):,})")
        self._notes.show_text("\n".join(notes))
        self._notes_folding.setVisible(bool(notes))

    def _show_note(self, text: str, role: str) -> None:
        self._note.show_role(role)
        self._note.show_text(text)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._listening.close()
        super().closeEvent(event)


def _nothing_open() -> tuple[str, str]:
    return (
        "Nothing is open yet.",
        "Open the folder of a benchmark or of a case, a question file, or a CT. "
        "The demo is a made-up CT with questions and a model's answers.",
    )


def _no_questions(session: Session) -> tuple[str, str]:
    name = one_line(session.path.name if session.path is not None else "", 80)
    problems = session.questions.problems if session.questions is not None else ()
    why = one_line(problems[0], 300) if problems else "A CT alone has none."
    return f"There are no questions in {name}.", f"{why} Open a benchmark or a question file."


def _values(session: Session) -> dict[str, Callable[[], Sequence[str]]]:
    known: weakref.WeakKeyDictionary[QuestionSet, dict[str, list[str]]] = (
        weakref.WeakKeyDictionary()
    )

    def distinct(column: str) -> list[str]:
        questions = session.questions
        if questions is None:
            return []
        columns = known.setdefault(questions, {})
        if column not in columns:
            columns[column] = [str(value) for value in questions.frame[column].unique()]
        return columns[column]

    return {
        "stage": partial(distinct, "stage"),
        "subtype": partial(distinct, "subtype"),
        "case": partial(distinct, "case"),
        "model": lambda: list(session.runs),
        **{field: partial(_known, field) for field in VALUES},
    }


def _known(field: str) -> Sequence[str]:
    return VALUES[field]


def _facets(session: Session) -> dict[str, Facet]:
    def counted(column: str) -> Sequence[tuple[str, str]]:
        if session.questions is None:
            return []
        counts = session.questions.frame[column].value_counts().sort_index()
        return [(str(v), f"{one_line(v, 60)}  ({n:,})") for v, n in counts.items() if str(v)]

    def outcomes() -> Sequence[tuple[str, str]]:
        glyphs = {**{o.value: glyph for o, glyph in GLYPHS.items()}, DISAGREES: DIFFERS_GLYPH}
        if len(session.runs) == 1:
            return [(value, f"{glyphs[value]} {value}") for value in OUTCOMES]
        return [
            (f"{value} {model}", f"{glyphs[value]} {value} · {one_line(model, 40)}")
            for model in session.runs
            for value in OUTCOMES
        ]

    return {
        "stage": Facet("Stage", partial(counted, "stage")),
        "subtype": Facet("Subtype", partial(counted, "subtype")),
        "outcome": Facet("Outcome", outcomes),
        "case": Facet("Case", partial(counted, "case")),
    }


PANEL = QuestionsPanel
