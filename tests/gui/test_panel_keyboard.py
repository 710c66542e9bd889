"""Every panel by keyboard: the order of the tab key, and a name for everything it reaches."""

from types import SimpleNamespace

import pytest
from panel_sessions import chains, opened
from qtpy.QtCore import Qt
from qtpy.QtGui import QShortcut
from qtpy.QtWidgets import QAbstractButton, QWidget

from napari_ctvqa.core.session import MaskFocus, RunProgress, RunState
from napari_ctvqa.extensions import Discovered
from napari_ctvqa.widgets.panels import evidence, measure, question, questions, run

MODULES = (questions, question, evidence, run, measure)


@pytest.fixture(params=MODULES, ids=lambda module: module.PANEL.title)
def panel(request, qtbot, monkeypatch):
    answerer = SimpleNamespace(name="rules", title="Rule agent", kits=("live",))
    known = Discovered({"rules": answerer}, {})
    monkeypatch.setattr(run, "discover", lambda kind, attribute: known)
    session = opened(**chains(), focus=MaskFocus("kidney_left", 5, 6), hide_reference=True)
    session.update(row=3, progress=RunProgress(RunState.RUNNING, "rules", 1, 3))
    made = request.param.PANEL(session)
    qtbot.addWidget(made)
    made.resize(400, 900)
    made.show()
    return made


def _reached(panel):
    """Return what the tab key reaches, in its order."""
    found, part = [], panel.nextInFocusChain()
    while part is not panel:
        reachable = bool(part.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if reachable and part.isVisible() and part.isEnabled() and part.focusProxy() is None:
            found.append(part)
        part = part.nextInFocusChain()
    return found


def _place(panel, part):
    point = part.mapTo(panel, part.rect().topLeft())
    return (round(point.y() / 8), point.x())


def test_the_tab_key_goes_from_top_to_bottom(panel):
    reached = [part for part in _reached(panel) if panel.isAncestorOf(part)]
    assert len(reached) >= 3
    places = [_place(panel, part) for part in reached]
    assert places == sorted(places)


def test_all_that_the_tab_key_reaches_has_a_name(panel):
    for part in _reached(panel):
        text = part.text() if isinstance(part, QAbstractButton) else ""
        assert part.accessibleName() or text, f"{type(part).__name__} has no name"


def test_no_panel_takes_keys_of_the_window(panel):
    assert panel.findChildren(QShortcut) == []
    assert [a for p in panel.findChildren(QWidget) for a in p.actions() if a.shortcuts()] == []
    assert [b for b in panel.findChildren(QAbstractButton) if not b.shortcut().isEmpty()] == []


def test_panels_have_a_title_and_an_order():
    order = [(module.PANEL.order, module.PANEL.title) for module in MODULES]
    assert order[:4] == [(1, "Questions"), (2, "Question"), (3, "Evidence"), (4, "Run")]
