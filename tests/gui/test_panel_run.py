"""Run panel: what is said before, what is asked for, how far a run is."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from panel_sessions import listener as heard_from
from panel_sessions import opened
from panel_texts import labels_are_plain, shown_texts, texts_of
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QSpinBox,
    QToolButton,
)

from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.servers import ServerCount
from napari_ctvqa.core.session import CaseState, RunProgress, RunState, Session
from napari_ctvqa.core.unfinished import Unfinished
from napari_ctvqa.extensions import Discovered
from napari_ctvqa.io.run_settings import last_scheduler
from napari_ctvqa.io.user_config import config_folder
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.choices import (
    BUILT_IN,
    PLACE,
    PRESET,
    SHIPPED,
    Choice,
    ModelPlace,
    Wanted,
    place_names,
)
from napari_ctvqa.widgets.launch import wait_until
from napari_ctvqa.widgets.panels import run as run_panel
from napari_ctvqa.widgets.panels.run import PANEL

HOSTILE = "<b>bold</b>\u202egnp\x00"
CHOICES = (
    Choice("rules", "Rule agent", BUILT_IN, modes=("direct",), kits=("live",)),
    Choice("toy", "Toy model", SHIPPED, modes=("direct", "agent"), kits=("oracle", "live"),
           facts={"toy": True}),
    Choice("big", "Big model", PRESET, modes=("direct", "agent"), kits=("oracle", "live"),
           facts={"weights_gb": 17.5, "licence": "Apache-2.0", "gated": True}),
)  # fmt: skip


@pytest.fixture
def show(qtbot, monkeypatch):
    def make(session, found=CHOICES, unavailable=None, width=400):
        known = Discovered({}, dict(unavailable or {}))
        monkeypatch.setattr(run_panel, "discover", lambda kind, attribute: known)
        monkeypatch.setattr(run_panel, "choices", lambda: tuple(found))
        panel = PANEL(session)
        qtbot.addWidget(panel)
        panel.resize(width, 600)
        panel.show()
        return panel

    return make


def _button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text().startswith(text))


def _scope(panel, text):
    return next(b for b in panel.findChildren(QRadioButton) if b.text().startswith(text))


def _combo(panel, name):
    return next(c for c in panel.findChildren(QComboBox) if c.accessibleName() == name)


# --------------------------------------------------------------------- before


def test_it_says_what_will_be_asked_and_where_answers_go(show):
    session = opened(rows=np.arange(37), results_folder=Path("/data/runs"))
    panel = show(session)
    assert "Asks bench_00000." in shown_texts(panel)
    assert "kept in a file in /data/runs" in shown_texts(panel)
    _scope(panel, "All that").click()
    text = shown_texts(panel)
    assert "Asks 37 questions." in text
    assert "as it comes in a file in /data/runs" in text
    assert _scope(panel, "All that").text() == "All that the filter shows (37)"


def test_the_count_follows_the_filter(show):
    session = opened()
    panel = show(session)
    _scope(panel, "All that").click()
    session.update(rows=np.arange(5), where="x")
    assert "Asks 5 questions." in shown_texts(panel)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"questions": None}, "Open a benchmark"),
        ({"question": None}, "Choose a question first."),
        ({"case": None, "case_state": CaseState.LOADING}, "Wait until the case is read."),
        (
            {"case": None, "case_state": CaseState.FAILED, "case_message": "no ct.nii.gz"},
            "cannot be shown. no ct.nii.gz",
        ),
    ],
)
def test_what_cannot_be_run_says_why(show, state, words):
    panel = show(opened(**state))
    assert words in shown_texts(panel)
    assert not _button(panel, "Run").isEnabled()


def test_an_empty_filter_cannot_be_run(show):
    panel = show(opened(rows=np.zeros(0, np.intp)))
    _scope(panel, "All that").click()
    assert "The filter shows no question." in shown_texts(panel)
    assert not _button(panel, "Run").isEnabled()


def test_a_case_may_be_missing_for_a_run_over_the_filter(show):
    panel = show(opened(case=None, case_state=CaseState.LOADING))
    _scope(panel, "All that").click()
    assert _button(panel, "Run").isEnabled()


def test_models_that_cannot_be_used_are_listed_with_the_reason(show):
    why = "ModuleNotFoundError: No module named 'torch'"
    panel = show(opened(), unavailable={"napari_ctvqa.models.big": why})
    assert "not available: napari_ctvqa.models.big" in shown_texts(panel)
    assert "No module named 'torch'" in shown_texts(panel)
    models = _combo(panel, "Model or agent")
    assert [models.itemData(i) for i in range(models.count())] == ["rules", "toy", "big"]


def test_without_any_model_there_is_nothing_to_run(show):
    panel = show(opened(), found=())
    assert "No model or agent can be used" in shown_texts(panel)
    assert not _button(panel, "Run").isEnabled()


# --------------------------------------------------------------------- asking


def choose(panel, name, **fields):
    models = _combo(panel, "Model or agent")
    models.setCurrentIndex(models.findData(name))
    for title, text in fields.items():
        line = next(
            x for x in panel.findChildren(QLineEdit) if x.accessibleName().startswith(title)
        )
        line.setText(text)


def test_run_asks_with_model_mode_kit_and_scope(show):
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session)
    _button(panel, "Run").click()
    choose(panel, "toy")
    assert "not valid on real CT" in shown_texts(panel)
    assert "Nothing leaves this machine." in shown_texts(panel)
    assert not _combo(panel, "Tool kit").isVisible()
    _button(panel, "Run").click()
    mode = _combo(panel, "How it answers")
    mode.setCurrentIndex(mode.findData("agent"))
    _combo(panel, "Tool kit").setCurrentIndex(1)
    _scope(panel, "All that").click()
    _button(panel, "Run").click()
    assert heard == [
        (Wanted("rules"), "question"),
        (Wanted("toy", idle_s=900.0), "question"),
        (Wanted("toy", mode="agent", kit="live", idle_s=900.0), "filter"),
    ]


def test_a_model_without_a_place_asks_for_one_and_says_where_pictures_go(show, monkeypatch):
    monkeypatch.setattr(hosts, "is_allowed", lambda host: False)
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session)
    choose(panel, "big")
    text = shown_texts(panel)
    assert "Give the server's address first." in text
    assert "weights 17.5 GB · licence Apache-2.0 · access must be asked for" in text
    assert not _button(panel, "Run").isEnabled()
    choose(panel, "big", Server="http://localhost:8000/v1")
    assert "on this machine" in shown_texts(panel)
    choose(panel, "big", Server="https://gpu7.example.org/v1")
    assert "gpu7.example.org, another machine (you are asked once before)" in shown_texts(panel)
    assert _button(panel, "Run").isEnabled()
    _button(panel, "Run").click()
    where = _combo(panel, "Where it runs")
    where.setCurrentIndex(where.findData("folder"))
    assert "Give the model's folder first." in shown_texts(panel)
    choose(panel, "big", **{"Model folder": "/models/big", "Python": "/envs/big/bin/python"})
    _button(panel, "Run").click()
    assert heard == [
        (Wanted("big", server="https://gpu7.example.org/v1"), "question"),
        (
            Wanted("big", folder="/models/big", python="/envs/big/bin/python", idle_s=900.0),
            "question",
        ),
    ]


def test_a_wrong_address_says_what_is_wrong_with_it(show):
    panel = show(opened())
    choose(panel, "big", Server="ftp://somewhere")
    assert not _button(panel, "Run").isEnabled()
    assert "http" in shown_texts(panel)


def test_what_cannot_run_now_says_why_and_takes_another_python(show):
    missing = replace(CHOICES[1], unavailable="torch not installed")
    panel = show(opened(), found=(missing,))
    assert "This cannot be run now: torch not installed." in shown_texts(panel)
    assert not _button(panel, "Run").isEnabled()
    choose(panel, "toy", Python="/envs/torch/bin/python")
    assert _button(panel, "Run").isEnabled()


def test_a_place_that_was_used_before_is_listed_with_its_host(show):
    place = ModelPlace("big", "http://localhost:9/v1", "org/Big")
    panel = show(opened(), found=(Choice("Big", "org/Big on localhost", PLACE, place=place),))
    models = _combo(panel, "Model or agent")
    assert models.itemText(0) == "org/Big on localhost  (used before)"
    assert "Pictures go to localhost" in shown_texts(panel)


def test_a_place_stays_chosen_when_another_of_its_model_becomes_the_newest(show, monkeypatch):
    one, two = (ModelPlace("big", f"http://localhost:{n}/v1", "org/Big") for n in (1, 2))

    def listed(*places):
        names = ("Big", place_names(places[1])[1])
        return tuple(
            Choice(n, p.server, PLACE, place=p) for n, p in zip(names, places, strict=True)
        )

    session = opened()
    panel = show(session, found=listed(one, two))
    panel._model.choose("Big")
    assert session.wanted.model == place_names(one)[1] and session.wanted.shown_name == "Big"
    monkeypatch.setattr(run_panel, "choices", lambda: listed(two, one))
    panel._list_models()
    models = _combo(panel, "Model or agent")
    assert models.currentText() == "http://localhost:1/v1  (used before)"
    assert session.wanted.model == place_names(one)[1]


def test_the_key_asks_what_is_chosen_about_this_question(show):
    session = opened(rows=np.arange(37))
    heard = heard_from(session.wishes.run)
    panel = show(session)
    assert panel.ask()
    choose(panel, "toy")
    _scope(panel, "All that").click()
    assert panel.ask()
    assert [(wanted.model, scope) for wanted, scope in heard] == [
        ("rules", "question"),
        ("toy", "question"),
    ]
    choose(panel, "big")
    assert not panel.ask()
    assert len(heard) == 2
    assert "Give the server's address first." in shown_texts(panel)


def test_confidence_and_decoding_are_asked_for_where_they_can_be_had(show):
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session)
    sure, decoding = _combo(panel, "Confidence"), _combo(panel, "Decoding")
    spins = panel.findChildren(QSpinBox)
    count = next(b for b in spins if b.accessibleName() == "Number of samples")
    assert not sure.isVisible() and not decoding.isVisible(), "rules are no model"
    choose(panel, "toy")
    assert sure.isVisible() and decoding.isVisible() and not count.isVisible()
    sure.setCurrentIndex(sure.findData("logits"))
    decoding.setCurrentIndex(decoding.findData("semsam"))
    _button(panel, "Run").click()
    sure.setCurrentIndex(sure.findData("samples"))
    assert count.isVisible()
    count.setValue(5)
    _button(panel, "Run").click()
    mode = _combo(panel, "How it answers")
    mode.setCurrentIndex(mode.findData("agent"))
    assert not sure.isVisible(), "of direct answers only"
    _button(panel, "Run").click()
    assert [(wanted.confidence, wanted.decoding) for wanted, _ in heard] == [
        ("logits", "semsam:K=8,M=10,p=0.9"),
        ("samples:5@0.7", "semsam:K=8,M=10,p=0.9"),
        ("", "semsam:K=8,M=10,p=0.9"),
    ]
    mode.setCurrentIndex(mode.findData("direct"))
    choose(panel, "big", Server="http://localhost:8000/v1")
    assert sure.isVisible() and not decoding.isVisible(), "a server chooses its own tokens"
    _button(panel, "Run").click()
    assert heard[-1][0].decoding == "" and heard[-1][0].confidence == "samples:5@0.7"


def test_a_model_that_draws_as_it_likes_is_not_asked_how_sure_it_is(show):
    """Its samples would all be one text: 5 of 5 agree, whether it is sure or not."""
    facts = {"loader": "radfm", "repository": {}, "fixed_drawing": True}
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session, found=(*CHOICES, Choice("radfm", "R", PRESET, "", facts=facts)))
    choose(panel, "toy")
    sure, decoding = _combo(panel, "Confidence"), _combo(panel, "Decoding")
    sure.setCurrentIndex(sure.findData("samples"))
    decoding.setCurrentIndex(decoding.findData("semsam"))
    choose(panel, "radfm", **{"Model folder": "/m"})
    assert not sure.isVisible() and not decoding.isVisible()
    _button(panel, "Run").click()
    ((wanted, _),) = heard
    assert (wanted.confidence, wanted.decoding) == ("", "")


def test_a_volume_model_asks_for_the_folders_that_its_code_needs(show):
    facts = {"loader": "ct-chat", "recipes": ["ct-chat", "z-y-x"], "repository": {}, "base": "b"}
    volume = Choice("ct-chat-8b", "CT-CHAT", PRESET, "a clone (--repository)", modes=("direct",),
                    facts=facts)  # fmt: skip
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session, found=(*CHOICES, volume))
    choose(panel, "toy")
    mode = _combo(panel, "How it answers")
    mode.setCurrentIndex(mode.findData("agent"))
    choose(panel, "ct-chat-8b")
    lines = {line.accessibleName(): line for line in panel.findChildren(QLineEdit)}
    assert not lines["Server address"].isVisible(), "no server takes a volume"
    assert not _combo(panel, "Where it runs").isVisible() and not mode.isVisible()
    assert _combo(panel, "Decoding").isVisible()
    assert "a clone" in shown_texts(panel)
    lines["Model folder"].setText("/m")
    lines["Folder of the model's own code"].setText("/code")
    lines["Folder of the model it was trained upon"].setText("/base")
    _button(panel, "Run").click()
    recipe = _combo(panel, "Recipe of the preprocessing")
    recipe.setCurrentIndex(1)
    _button(panel, "Run").click()
    first, second = (wanted for wanted, _ in heard)
    assert (first.folder, first.repository, first.base) == ("/m", "/code", "/base")
    assert (first.mode, first.settings) == ("direct", {})
    assert second.settings == {"recipe": "z-y-x"}
    choose(panel, "toy")
    assert not recipe.isVisible() and not lines["Folder of the model's own code"].isVisible()


def _idle(panel):
    return next(b for b in panel.findChildren(QSpinBox) if b.accessibleName() == "Unload after")


def test_after_how_long_a_model_unloads_itself_is_said_set_and_remembered(show):
    session = opened()
    heard = heard_from(session.wishes.run)
    panel = show(session)
    assert not _idle(panel).isVisible(), "rules hold nothing"
    choose(panel, "toy")
    assert _idle(panel).isVisible()
    assert _idle(panel).text() == "15 min without a question"
    _idle(panel).setValue(2)
    _button(panel, "Run").click()
    _idle(panel).setValue(0)
    assert _idle(panel).text() == "never"
    _button(panel, "Run").click()
    assert [wanted.idle_s for wanted, _ in heard] == [120.0, None]
    _idle(panel).setValue(40)
    assert _idle(show(opened())).value() == 40
    choose(panel, "big", Server="http://localhost:8000/v1")
    assert not _idle(panel).isVisible(), "a server's memory is its own"


@pytest.mark.parametrize(
    "stored", ['{"unload_after_min": "soon"}', '{"unload_after_min": -3}', "x"]
)
def test_a_setting_that_cannot_be_read_is_the_usual_one(show, stored):
    file = config_folder() / "runs.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(stored)
    assert _idle(show(opened())).value() == 15


def test_a_loaded_model_can_be_unloaded_when_nothing_runs(show):
    session = opened()
    heard = heard_from(session.wishes.unload)
    panel = show(session)
    assert not _button(panel, "Unload").isVisible()
    session.update(loaded="toy", progress=RunProgress(RunState.RUNNING, "toy", 0, 1))
    assert not _button(panel, "Unload").isVisible()
    session.update(progress=RunProgress(RunState.IDLE, "toy", 1, 1))
    _button(panel, "Unload toy").click()
    assert len(heard) == 1


def test_the_format_is_asked_for_and_shown(show):
    session = opened()
    heard = heard_from(session.wishes.answer_format)
    combo = _combo(show(session), "Answer format")
    combo.setCurrentIndex(combo.findData("freeform"))
    combo.activated.emit(combo.currentIndex())
    assert heard == ["freeform"]
    session.update(answer_format=AnswerFormat.MC)
    assert combo.currentData() == "mc"


def test_files_that_do_not_say_their_format_are_named(show):
    session = opened()
    panel = show(session)
    assert "does not say its format" not in shown_texts(panel)
    unsaid = replace(session.runs["m3d"], answer_format=None)
    session.update(runs={**session.runs, "m3d": unsaid})
    assert "m3d: the file does not say its format" in shown_texts(panel)


# -------------------------------------------------------------------- running


def test_progress_shows_count_failures_time_left_and_the_file(show):
    session = opened()
    cancel = heard_from(session.wishes.cancel_run)
    panel = show(session)
    path = "/data/runs/rules_mc.json"
    session.update(progress=RunProgress(RunState.RUNNING, "rules", 37, 82, 2, 184.0, "", path))
    text = shown_texts(panel)
    assert "rules: 37 of 82 · 2 failed · about 3 min left" in text
    assert f"Answers are kept, as they come, in {path}" in text
    bar = panel.findChild(QProgressBar)
    assert (bar.value(), bar.maximum()) == (37, 82)
    assert not _button(panel, "Run").isEnabled()
    _button(panel, "Stop").click()
    assert cancel == [()]
    session.update(progress=RunProgress(RunState.CANCELLING, "rules", 37, 82))
    assert not _button(panel, "Stopping").isEnabled()
    session.update(progress=RunProgress(RunState.IDLE, "rules", 38, 82, message="Stopped."))
    assert "Stopped." in shown_texts(panel)
    assert _button(panel, "Run").isEnabled()
    assert not _button(panel, "Stop").isEnabled()


def test_the_rate_is_the_run_s_own_and_told_while_it_runs(show):
    session = opened()
    panel = show(session)
    resumed = RunProgress(RunState.RUNNING, "rules", 3900, 8200)
    session.update(progress=resumed)
    assert "rules: 3,900 of 8,200" in shown_texts(panel).split("\n"), "none was made yet"
    session.update(progress=replace(resumed, done=3904, per_second=2.04))
    assert "3,904 of 8,200 · 2.0/s" in shown_texts(panel)
    session.update(progress=replace(resumed, per_second=0.25))
    assert "· 15.0/min" in shown_texts(panel)
    session.update(progress=replace(resumed, state=RunState.IDLE, per_second=2.04))
    assert "/s" not in shown_texts(panel).split("rules: ")[-1].split("\n")[0]


def test_hostile_names_stay_plain_text(show):
    hostile = Choice(
        HOSTILE, HOSTILE, PRESET, modes=(HOSTILE, HOSTILE), kits=(HOSTILE,),
        facts={"licence": HOSTILE, "hf_ids": (HOSTILE,)},
    )  # fmt: skip
    session = opened()
    session.update(progress=RunProgress(RunState.RUNNING, HOSTILE, 1, 2, 0, 1.0, HOSTILE, HOSTILE))
    panel = show(session, (hostile,), {HOSTILE: HOSTILE * 9999})
    combos = panel.findChildren(QComboBox)
    shown = texts_of(panel) + "".join(c.itemText(i) for c in combos for i in range(c.count()))
    assert "\u202e" not in shown
    assert "\x00" not in shown
    assert len(shown) < 20_000
    assert labels_are_plain(panel)


def test_nothing_open_is_no_error(show):
    assert "Open a benchmark" in shown_texts(show(Session()))


def test_it_fits_a_narrow_dock(show):
    panel = show(opened(), width=380)
    assert panel.minimumSizeHint().width() <= 380
    for part in panel.findChildren(QPushButton):
        assert part.width() >= part.minimumSizeHint().width()


def test_closing_lets_go_of_the_session(show):
    session = opened()
    panel = show(session)
    before = len(session.progress_changed)
    panel.close()
    assert len(session.progress_changed) == before - 1
    session.update(progress=RunProgress())


def test_accuracy_and_servers_are_told_while_it_runs_and_the_accuracy_hides(show):
    session = opened(rows=np.arange(3))
    panel = show(session)
    servers = (
        ServerCount("http://gpu7:8000/v1", 80, 0, 1.24),
        ServerCount("http://gpu8:8000/v1", 0, 3, None, f"No server is reachable {HOSTILE}"),
    )
    running = RunProgress(
        RunState.RUNNING, "big", 120, 400, 2, 60.0, accuracy=0.6186, scored=118, servers=servers
    )
    session.update(progress=running)
    said = shown_texts(panel)
    assert "Official accuracy so far: 61.9% of 118 answers, failed ones included" in said
    lines = said.split("\n")
    assert "http://gpu7:8000/v1: 80 requests answered, 1.2 s each" in lines
    (other,) = (line for line in lines if line.startswith("⚠ http://gpu8"))
    assert other.startswith("⚠ http://gpu8:8000/v1: 0 requests answered; 3 failed; resting: No se")
    assert labels_are_plain(panel)
    session.update(hide_reference=True)
    assert "The accuracy is hidden while references are." in shown_texts(panel)
    assert "61.9" not in shown_texts(panel)
    session.update(
        hide_reference=False,
        progress=replace(running, state=RunState.IDLE, done=400, scored=400, servers=()),
    )
    assert "Official accuracy: 61.9% of 400 answers" in shown_texts(panel)


def test_answers_that_come_read_no_file_and_parse_no_address(show, monkeypatch):
    session = opened(rows=np.arange(3))
    panel = show(session)
    panel._model.choose("big")
    panel._model._servers.show_addresses("http://gpu7:8000/v1")
    session.update(progress=RunProgress(RunState.RUNNING, "big", 0, 400))
    looked = []
    monkeypatch.setattr(hosts, "confirmed", lambda: looked.append("confirmed") or ())
    for done in range(1, 4):
        session.update(progress=RunProgress(RunState.RUNNING, "big", done, 400))
    assert looked == []
    assert not _button(panel, "Run").isEnabled()
    session.update(progress=RunProgress(RunState.IDLE, "big", 400, 400))
    assert looked and _button(panel, "Run").isEnabled()


def test_several_servers_are_a_line_each_and_each_host_is_named(show, monkeypatch):
    session = opened(rows=np.arange(3))
    panel = show(session)
    heard = heard_from(session.wishes.run)
    panel._model.choose("big")
    assert panel._model.host_line() == "", "where pictures go is not known yet"
    assert _at_once(panel).text() == "one after the other (usual)"
    _button(panel, "Add a server").click()
    first, second = _addresses(panel)
    assert [first.accessibleName(), second.accessibleName()] == [
        "Server address",
        "Server address 2",
    ]
    first.setText("localhost:1")
    second.setText("gpu8:8000")
    assert panel._model.problem() == ""
    assert _at_once(panel).text() == "4 at each server (usual)"
    lines = panel._model.host_line().split("\n")
    assert lines[0] == "Pictures go to localhost, on this machine."
    assert lines[1].startswith("Pictures go to gpu8, another machine (you are asked once")
    _button(panel, "Run").click()
    _at_once(panel).setValue(9)
    assert _at_once(panel).text() == "9 at each server"
    second.setText("gpu8:8000 gpu9:8000")
    assert "gpu8, gpu9, other machines (you are asked once before)." in panel._model.host_line()
    second.setText("ftp://gpu8")
    assert "is no server address" in panel._model.problem()
    assert not _button(panel, "Run").isEnabled()
    next(
        b for b in panel.findChildren(QToolButton) if b.accessibleName().endswith("2 away")
    ).click()
    assert [line.text() for line in _addresses(panel)] == ["localhost:1"]
    _button(panel, "Run").click()
    assert [(wanted.server, wanted.at_once) for wanted, _ in heard] == [
        ("localhost:1 gpu8:8000", 0),
        ("localhost:1", 9),
    ]


def _addresses(panel):
    lines = [x for x in panel.findChildren(QLineEdit) if x.accessibleName().startswith("Server")]
    return [line for line in lines if line.isVisible()]


def _at_once(panel):
    spins = panel.findChildren(QSpinBox)
    return next(b for b in spins if b.accessibleName() == "Questions at once")


def test_addresses_that_are_pasted_into_one_line_get_a_line_each(show, qtbot):
    panel = show(opened())
    panel._model.choose("big")
    (line,) = _addresses(panel)
    QApplication.clipboard().setText("gpu7:8000, gpu8:8000")
    line.paste()
    assert [line.text() for line in _addresses(panel)] == ["gpu7:8000", "gpu8:8000"]
    qtbot.keyClicks(_addresses(panel)[1], " g")
    assert [line.text() for line in _addresses(panel)] == ["gpu7:8000", "gpu8:8000", "g"]
    assert panel._model.wanted.server == "gpu7:8000 gpu8:8000 g"


def test_servers_that_were_asked_are_there_in_the_next_window(show):
    panel = show(opened(rows=np.arange(3)))
    panel._model.choose("big")
    panel._model._servers.show_addresses("localhost:1 localhost:2")
    _at_once(panel).setValue(6)
    other = show(opened())
    other._model.choose("big")
    assert [line.text() for line in _addresses(other)] == [""], "asked they were not yet"
    _button(panel, "Run").click()
    other = show(opened())
    other._model.choose("big")
    assert [line.text() for line in _addresses(other)] == ["localhost:1", "localhost:2"]
    assert _at_once(other).value() == 6


@pytest.mark.parametrize("stored", ['{"servers": 5, "at_once": 9999}', '{"at_once": "all"}', "x"])
def test_settings_that_cannot_be_read_are_none(show, stored):
    file = config_folder() / "runs.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(stored)
    panel = show(opened())
    panel._model.choose("big")
    assert [line.text() for line in _addresses(panel)] == [""]
    assert _at_once(panel).value() == 0


def test_a_stopped_run_tells_no_time_left_and_a_running_one_is_brought_into_view(show):
    session = opened(rows=np.arange(3))
    panel = show(session, width=400)
    panel._model.choose("big")
    panel._model._servers.show_addresses(" ".join(f"gpu{n}:8000" for n in range(8)))
    _scope(panel, "All that").click()
    panel.resize(400, 320)
    path = "/data/runs/big_mc.json"
    running = RunProgress(RunState.RUNNING, "big", 37, 82, 2, 184.0, "", path)
    session.update(progress=running)
    assert wait_until(lambda: _inside(panel, _button(panel, "Stop")))
    assert _inside(panel, panel.findChild(QProgressBar))
    assert "Asks 3 questions." not in shown_texts(panel), "that was before"
    session.update(progress=replace(running, state=RunState.IDLE))
    assert "left" not in shown_texts(panel) and "37 of 82 · 2 failed" in shown_texts(panel)
    assert "Asks 3 questions." in shown_texts(panel)


def test_a_cluster_is_asked_for_of_many_questions_and_is_there_in_the_next_window(show):
    session = opened(rows=np.arange(3))
    panel = show(session)
    line = next(x for x in panel.findChildren(QLineEdit) if x.accessibleName() == "Cluster")
    assert not line.isVisible(), "one question is asked here"
    _scope(panel, "All that").click()
    assert line.isVisible()
    line.setText("tcp://key@head:8786")
    assert "is no address of a scheduler" in shown_texts(panel)
    assert not _button(panel, "Run").isEnabled()
    line.setText("tcp://head:8786")
    panel._model.choose("big")
    panel._model._servers.show_addresses("localhost:1")
    assert "confirm each host on their machines" in shown_texts(panel)
    assert last_scheduler() == ""
    _button(panel, "Run").click()
    assert session.scheduler == last_scheduler() == "tcp://head:8786"
    other = show(opened(rows=np.arange(3)))
    assert other.scheduler == "tcp://head:8786"
    line.setText("")
    _button(panel, "Run").click()
    assert session.scheduler == last_scheduler() == ""


def test_what_was_not_finished_is_told_where_many_are_asked(show):
    session = opened(rows=np.arange(3))
    panel = show(session)
    _scope(panel, "All that").click()
    when = datetime(2026, 11, 30, 23, 10)
    session.update(unfinished=(Unfinished("/x.json", f"big{HOSTILE}", "mc", 1200, 3, when),))
    said = shown_texts(panel)
    assert (
        ", multiple choice, 1,200 answers, 3 failed, 2026-11-30 23:10. Run it again as it was"
        in said
    )
    assert labels_are_plain(panel)
    _scope(panel, "This").click()
    assert "Not finished" not in shown_texts(panel)


def _inside(panel, part):
    return panel.rect().contains(part.mapTo(panel, part.rect().center()))
