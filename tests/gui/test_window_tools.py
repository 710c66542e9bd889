"""The window by pointer, rectangle, key and table."""

import json

import numpy as np
import pytest
from pointer import LEFT, RIGHT, drag, move, press, release
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDialogButtonBox
from view_cases import phantom_case, picture

from napari_ctvqa.core.session import WINDOW_REGION
from napari_ctvqa.core.windows import Preset, preset_table, shipped_presets
from napari_ctvqa.io.user_config import config_folder
from napari_ctvqa.widgets.layers import CaseLayers
from napari_ctvqa.widgets.preset_editor import PresetEditor
from napari_ctvqa.widgets.shortcuts import Shortcuts
from napari_ctvqa.widgets.surface import NapariSurface
from napari_ctvqa.widgets.view_tools import ViewTools
from napari_ctvqa.widgets.window_menu import PresetBox

SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def tools(viewer, layers, canvas, session):
    made = ViewTools(viewer, layers, canvas, session)
    session.update(case=phantom_case())
    picture(viewer)
    yield made
    made.close()


@pytest.mark.parametrize("plane", ["axial", "coronal", "sagittal"])
@pytest.mark.parametrize("flip", [("down", "right"), ("up", "left")])
def test_a_voxel_s_pixel_leads_back_to_it(viewer, session, layers, canvas, plane, flip):
    session.update(case=phantom_case())
    surface = NapariSurface(viewer, layers, canvas)
    layers.set_plane(plane)
    viewer.scene.camera.orientation2d = flip
    viewer.scene.camera.zoom *= 1.7
    picture(viewer)
    index = np.array([[5.0, 11.0, 18.0], [6.3, 9.2, 12.9]])
    index[:, surface.plane] = surface.slice_index
    for point, (x, y) in zip(index, surface.px_at(index), strict=True):
        assert surface.index_at(x, y) == pytest.approx(point, abs=1e-9)
    viewer.dims.ndisplay = 3
    assert surface.px_at(index) is None
    assert surface.index_at(3, 3) is None
    surface.close()


@pytest.mark.parametrize(("button", "keys"), [(RIGHT, Qt.KeyboardModifier(0)), (LEFT, SHIFT)])
def test_dragging_sets_width_and_level_and_moves_nothing_else(viewer, tools, canvas, button, keys):
    before = viewer.scene.camera.zoom, tuple(viewer.scene.camera.center)
    press(canvas, (100, 100), button, keys)
    move(canvas, (110, 105), button, keys)
    assert tools.windowing.window == (440, 60)  # live
    move(canvas, (120, 90), button, keys)
    release(canvas, (120, 90), button, keys)
    assert tools.windowing.window == (480, 0)
    picture(viewer)
    assert (viewer.scene.camera.zoom, tuple(viewer.scene.camera.center)) == before
    move(canvas, (150, 150))
    assert tools.windowing.window == (480, 0)


def test_one_drag_is_one_step_back(tools, canvas):
    drag(canvas, (100, 100), (120, 90), RIGHT)
    drag(canvas, (100, 100), (150, 100), RIGHT)
    tools.undo()
    assert tools.windowing.window == (480, 0)
    tools.undo()
    assert tools.windowing.window == (400, 40)
    tools.redo()
    assert tools.windowing.window == (480, 0)


def test_a_click_of_the_right_button_changes_nothing(tools, canvas):
    drag(canvas, (100, 100), (100, 100), RIGHT)
    assert tools.windowing.window == (400, 40)
    assert tools.undo_stack.undo() == ""


def test_a_key_leads_back_to_the_preset_and_can_be_undone(session, tools, canvas):
    session.wishes.preset.emit("lung")
    drag(canvas, (100, 100), (140, 60), RIGHT)
    tools.actions()["window_reset"]()
    assert tools.windowing.window == (1500, -600)
    tools.undo()
    assert tools.windowing.window == (1660, -760)
    for _ in range(2):
        tools.undo()
    assert tools.windowing.window == (400, 40)
    tools.windowing.back_to_preset()
    assert tools.windowing.window == (400, 40)


def test_the_slider_s_range_never_shrinks(layers, tools):
    tools.windowing.show(8000, 1000)
    wide = tuple(layers.layer("CT").contrast_limits_range)
    assert wide == (-3000, 5000)
    tools.windowing.choose_preset("stroke")
    assert tuple(layers.layer("CT").contrast_limits_range) == wide


def test_dragging_in_3d_stays_napari_s(viewer, tools, canvas):
    viewer.dims.ndisplay = 3
    drag(canvas, (100, 100), (150, 120), RIGHT)
    assert tools.windowing.window == (400, 40)


def test_a_rectangle_gives_the_window_of_its_voxels(viewer, session, layers, tools, canvas):
    layers.go_to(0, 6)
    surface = tools._napari
    first, last = (6, 5.6, 8.7), (6, 12.4, 16.2)
    session.wishes.tool.emit(WINDOW_REGION)
    assert canvas.cursor().shape() == Qt.CursorShape.CrossCursor
    start, end = (tuple(surface.px_at(point)) for point in (first, last))
    drag(canvas, end, start)
    values = session.case.volume.array_zyx[6, 6:13, 9:17]
    lo, hi = np.percentile(values, (5, 95))
    width, level = tools.windowing.window
    assert width == max(round(hi - lo), 10)
    assert level == round((hi + lo) / 2)
    assert session.tool == ""
    tools.undo()
    assert tools.windowing.window == (400, 40)


def test_a_rectangle_beside_the_picture_says_so(session, tools, canvas):
    session.wishes.tool.emit(WINDOW_REGION)
    drag(canvas, (2, 2), (9, 9))
    assert "no voxel" in session.problem.message
    assert tools.windowing.window == (400, 40)


def test_left_drags_are_napari_s_while_no_tool_is_taken(viewer, session, tools, canvas):
    session.wishes.tool.emit(WINDOW_REGION)
    session.wishes.tool.emit(WINDOW_REGION)  # a second time puts it down
    assert session.tool == ""
    before = tuple(viewer.scene.camera.center)
    drag(canvas, (100, 100), (160, 150))
    picture(viewer)
    assert tuple(viewer.scene.camera.center) != before
    assert tools.windowing.window == (400, 40)


def test_the_box_names_the_window_that_is_shown_and_no_other(session, layers, tools):
    box = PresetBox(session, tools.windowing)
    assert box.currentText() == "[1] abdomen  W 400 L 40"
    tools.windowing.show(700, -100)
    assert (box.currentText(), box.placeholderText()) == ("", "W 700 L -100")
    layers.layer("CT").contrast_limits = (-500, 1300)  # by napari's own slider
    assert box.currentText() == "[4] bone  W 1800 L 400"


def other_case():
    return phantom_case(case_id="other")


def test_the_window_stays_across_cases_unless_each_has_its_own(session, tools):
    first, other = session.case, other_case()
    tools.windowing.choose(300, 10)
    session.update(case=other)
    assert tools.windowing.window == (300, 10)
    tools.windowing.keep_per_case(True)
    session.update(case=None)
    session.update(case=phantom_case(case_id="third"))
    assert tools.windowing.window == (400, 40)  # a case that was never seen begins with the preset
    session.update(case=first)
    assert tools.windowing.window == (300, 10)
    tools.windowing.choose_preset("bone")
    session.update(case=other)
    assert tools.windowing.window == (300, 10)
    session.update(case=first)
    assert tools.windowing.window == (1800, 400)
    tools.windowing.choose(1700, 300)
    tools.windowing.back_to_preset()
    assert tools.windowing.window == (1800, 400)


def test_the_choice_is_remembered(viewer, session, layers, canvas, tools):
    tools.windowing.keep_per_case(True)
    again = ViewTools(viewer, layers, canvas, session)
    assert again.windowing.per_case
    again.close()


def test_a_choice_that_cannot_be_kept_is_said(session, tools, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", "/dev/null/nowhere")
    tools.windowing.keep_per_case(True)
    assert tools.windowing.per_case
    assert "cannot be written" in session.problem.message


# ---------------------------------------------------------------------------- editor


@pytest.fixture
def editor(qtbot, tools):
    taken = {"G": "Hide or show all overlays"}
    made = PresetEditor(tools.layers.presets.presets, taken, tools.windowing.change_presets)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(made)
    made.show()
    return made


def save_of(editor):
    return editor.buttons.button(QDialogButtonBox.StandardButton.Save)


def test_rows_are_changed_added_and_removed_and_the_file_says_so(editor, layers, tools):
    seen = []
    tools.windowing.presets_changed.connect(lambda: seen.append(1))
    editor.table.item(0, 1).setText("350")
    editor.table.item(0, 2).setText("−50")
    editor.table.setCurrentCell(1, 0)
    editor.remove_row.click()
    editor.add_row.click()
    last = editor.table.rowCount() - 1
    editor.table.item(last, 0).setText("mine")
    editor.table.item(last, 3).setText("2")
    save_of(editor).click()
    table = layers.presets
    assert table.named("abdomen") == Preset("abdomen", 350, -50, "1")
    assert table.named("lung") is None
    assert table.named("mine") == Preset("mine", 400, 40, "2")
    assert seen == [1]
    assert preset_table(config_folder() / "window_presets.json").presets == table.presets


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [(0, "", "a name has"), (1, "0", "the width"), (1, "x", "the width"), (3, "g", "taken")],
)
def test_what_cannot_be_kept_is_said_and_not_saved(editor, column, text, said):
    editor.table.item(2, column).setText(text)
    assert said in editor.fault.text()
    assert not save_of(editor).isEnabled()
    editor.reset_all.click()
    assert save_of(editor).isEnabled()
    assert editor.presets() == list(shipped_presets())


def test_a_row_is_reset_to_the_shipped_one(editor):
    editor.table.item(3, 1).setText("17")
    editor.table.setCurrentCell(3, 0)
    editor.reset_row.click()
    assert editor.presets() == list(shipped_presets())


def test_a_preset_s_key_that_an_action_has_is_said_and_left_to_the_action(
    viewer, session, canvas, qtbot
):
    rows = {"presets": [{"name": "mine", "width": 9, "level": 5, "key": "g"}]}
    (config_folder() / "window_presets.json").write_text(json.dumps(rows))
    layers = CaseLayers(viewer, session)
    tools = ViewTools(viewer, layers, canvas, session)
    shortcuts = Shortcuts(canvas.window(), {})
    tools.bind(shortcuts)
    assert "g (mine)" in session.problem.message
    assert "g" not in [key for binding in tools.preset_bindings() for key in binding.keys]
    shortcuts.close()
    tools.close()
    layers.close()


def test_an_empty_table_is_not_kept(editor):
    for _ in range(editor.table.rowCount()):
        editor.remove_row.click()
    assert not save_of(editor).isEnabled()
    assert editor.fault.text().startswith("One preset")


def test_a_file_that_cannot_be_written_keeps_the_dialog_open(editor, layers, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", "/dev/null/nowhere")
    editor.table.item(0, 1).setText("350")
    save_of(editor).click()
    assert editor.isVisible()
    assert "cannot be written" in editor.fault.text()
    assert layers.presets.named("abdomen").width == 400


def test_a_table_without_the_default_preset_still_shows_a_ct(viewer, session):
    rows = {"presets": [], "removed": [p.name for p in shipped_presets() if p.name != "bone"]}
    (config_folder() / "window_presets.json").write_text(json.dumps(rows))
    made = CaseLayers(viewer, session)
    session.update(case=phantom_case())
    assert tuple(made.layer("CT").contrast_limits) == (-500, 1300)
    made.close()
