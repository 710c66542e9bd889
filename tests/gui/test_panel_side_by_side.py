"""Side by side: columns, differences, nothing told before the reveal, a click leads to the mask."""

from dataclasses import replace

import numpy as np
import pytest
from panel_sessions import SECRET, opened
from panel_sessions import listener as heard_from
from panel_texts import shown_texts, texts_of
from qtpy.QtWidgets import QTableWidget

from napari_ctvqa.core.chains import AlignedStep, ChainComparison, EvidenceStep, StepKind, StepMatch
from napari_ctvqa.core.records import Prediction, Reference, Run
from napari_ctvqa.widgets.panels.side_by_side import PANEL
from napari_ctvqa.widgets.side_table import side_table

LIVER = EvidenceStep(StepKind.MEASURE, "liver", "volume_cm3", 1432.5, "cm³", mask="liver")
SPLEEN = replace(LIVER, target="spleen", value=200.0, mask="spleen")
OFF = replace(LIVER, value=1500.0)


def session_of(*texts):
    session = opened(rows=np.arange(3))
    key = session.question.id
    runs = {
        f"model {n}": Run(f"model {n}", {key: Prediction(key, f"model {n}", t)})
        for n, t in enumerate(texts)
    }
    comparisons = {
        "model 0": ChainComparison((AlignedStep(LIVER, LIVER, StepMatch.SAME),)),
        "model 1": ChainComparison(
            (
                AlignedStep(LIVER, OFF, StepMatch.WRONG_VALUE, 0.047),
                AlignedStep(None, SPLEEN, StepMatch.EXTRA),
            ),
            0,
        ),
    }
    session.update(runs=runs, scores={}, comparisons=comparisons)
    return session


@pytest.fixture
def show(qtbot):
    def make(session):
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(500, 400)
        panel.show()
        return panel, panel.findChild(QTableWidget)

    return make


def line(table, title):
    return next(x for x in table.lines if x.title == title)


def test_answers_and_steps_stand_in_columns_and_differences_are_marked():
    table = side_table(session_of("A", "B"))
    assert table.columns == ("Reference", "model 0", "model 1")
    assert [c.text for c in line(table, "Answer").cells[1:]] == ["A", "B"]
    assert line(table, "Answer").differs
    volume = line(table, "measure volume: liver")
    assert volume.cells[0].text == "1,432.5 cm³"
    assert volume.cells[1].text == "✓ same\n1,432.5 cm³"
    assert "wrong value (+4.7" in volume.cells[2].text
    assert volume.cells[2].text.endswith("1,500 cm³")
    extra = line(table, "measure volume: spleen")
    assert extra.cells[0].text == extra.cells[1].text == "–"
    assert "extra" in extra.cells[2].text


def test_equal_answers_are_not_marked():
    assert not line(side_table(session_of("A", "A")), "Answer").differs


def test_before_the_reveal_neither_reference_nor_comparison_is_told(show):
    session = session_of("A", "B")
    question = replace(session.question, reference=Reference(SECRET, "A"))
    session.update(question=question, hide_reference=True)
    table = side_table(session)
    assert table.columns == ("model 0", "model 1")
    panel, _ = show(session)
    told = texts_of(panel)
    for word in (SECRET, "same", "wrong", "extra", "right"):
        assert word not in told
    assert "1,432.5 cm³" in told
    session.update(revealed_ids=frozenset({question.id}))
    assert SECRET in texts_of(panel)


def test_a_click_asks_for_the_step(show):
    session = session_of("A", "B")
    _panel, table = show(session)
    heard = heard_from(session.wishes.focus_step)
    row = next(r for r in range(table.rowCount()) if "liver" in table.verticalHeaderItem(r).text())
    table.cellClicked.emit(row, 2)
    table.cellClicked.emit(0, 1)
    assert heard == [OFF]


def test_what_is_missing_is_said(show):
    session = opened(rows=np.arange(3))
    session.update(runs={}, scores={}, comparisons={})
    panel, table = show(session)
    assert "let two or more models answer in Run" in shown_texts(panel)
    assert not table.isVisible()
    session.update(
        runs={"a": Run("a", {session.question.id: Prediction(session.question.id, "a", "X")})}
    )
    assert "One answer only" in shown_texts(panel)


def test_many_models_are_bounded_and_it_is_said():
    session = session_of(*("A",) * 20)
    table = side_table(session)
    assert len(table.columns) == 13
    assert table.note == "8 more models are not shown here."
