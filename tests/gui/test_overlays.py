from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from panel_sessions import question
from plane_checks import pixels
from qtpy.QtWidgets import QApplication, QWidget
from view_cases import case_of, go_through, phantom_case, picture, stored

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level
from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.colours import highlight_pixels
from napari_ctvqa.core.geometry import FileSpace, grid_of_file
from napari_ctvqa.core.session import CaseState, MaskFocus
from napari_ctvqa.widgets.directions import edge_letters
from napari_ctvqa.widgets.notes_view import Notes, NotesView
from napari_ctvqa.widgets.overlays import Overlays

RED = GeometryReport((GeometryWarning("codes_zero", Level.RED, "Both codes are 0. Ask."),))
AMBER = GeometryReport((GeometryWarning("oblique", Level.AMBER, "The scan is oblique."),))
HANGING = {
    "axial": ("R", "L", "A", "P"),
    "coronal": ("R", "L", "S", "I"),
    "sagittal": ("A", "P", "S", "I"),
}


@pytest.fixture
def overlays(viewer, layers, canvas):
    made = Overlays(viewer, layers, canvas)
    yield made
    made.close()


def letters(overlays):
    found = overlays.letters
    return found.left, found.right, found.top, found.bottom


# -------------------------------------------------------------------- letters


def test_markers_of_the_three_planes(session, layers, overlays):
    session.update(case=phantom_case())
    for plane, expected in HANGING.items():
        layers.set_plane(plane)
        assert letters(overlays) == expected, plane


def test_letters_and_scale_bar_may_come_after_the_first_picture(viewer, session, layers, canvas):
    made = Overlays(viewer, layers, canvas, begun=False)
    session.update(case=phantom_case())
    assert letters(made) == ("", "", "", "")
    assert not viewer.canvas.overlays.scale_bar.visible
    made.begin()
    assert letters(made) == HANGING["axial"]
    assert viewer.canvas.overlays.scale_bar.visible
    made.close()


def test_markers_follow_every_flip_at_once(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    for plane, (left, right, top, bottom) in HANGING.items():
        layers.set_plane(plane)
        for vertical, horizontal in product(("up", "down"), ("left", "right")):
            viewer.scene.camera.orientation2d = (vertical, horizontal)
            across = (left, right) if horizontal == "right" else (right, left)
            along = (top, bottom) if vertical == "down" else (bottom, top)
            assert letters(overlays) == (*across, *along), (plane, vertical, horizontal)
            assert viewer.canvas.overlays["ctvqa_left"].text == across[0]


def test_markers_follow_napari_s_own_axis_buttons(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    viewer.dims.transpose()
    assert letters(overlays) == ("A", "P", "R", "L")
    viewer.dims.roll()
    shown = viewer.dims.displayed
    expected = {0: ("S", "I"), 1: ("A", "P"), 2: ("R", "L")}
    assert letters(overlays) == (*expected[shown[1]], *expected[shown[0]])


def test_markers_follow_a_layer_that_is_flipped_by_its_own_scale(session, layers, overlays):
    session.update(case=phantom_case())
    ct = layers.layer("CT")
    ct.scale = [*ct.scale[:2], -ct.scale[2]]
    assert letters(overlays) == ("L", "R", "A", "P")


def test_markers_turn_with_the_3d_camera(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    viewer.dims.ndisplay = 3
    assert letters(overlays) == ("R", "L", "A", "P")
    viewer.scene.camera.set_view_direction((0, -1, 0), (-1, 0, 0))  # facing the patient: coronal
    view = np.array(viewer.scene.camera.view_direction)
    up = np.array(viewer.scene.camera.up_direction)
    assert np.allclose([view, up], [(0, -1, 0), (-1, 0, 0)], atol=1e-6)
    assert overlays.letters.top == "S"
    # Looking from posterior to anterior with the head up, patient left is on the left.
    assert overlays.letters.left == "L"
    viewer.scene.camera.set_view_direction((0, 1, 0), (-1, 0, 0))
    assert letters(overlays) == ("R", "L", "S", "I")


def test_3d_letters_agree_with_the_rendered_volume(viewer, session, layers, overlays):
    """The bright rod on patient left is rendered on the side that is marked L."""
    session.update(case=phantom_case())
    layers.apply_preset("bone")
    layers.toggle_overlays()
    viewer.dims.ndisplay = 3
    viewer.scene.camera.center = tuple(
        (size - 1) / 2 * mm
        for size, mm in zip(layers.grid.shape_zyx, layers.grid.spacing_mm_zyx, strict=True)
    )
    for orientation in product(("towards", "away"), ("up", "down"), ("left", "right")):
        viewer.scene.camera.orientation = orientation
        for marker in ("left", "right", "top", "bottom"):
            viewer.canvas.overlays[f"ctvqa_{marker}"].visible = False
        viewer.canvas.overlays.scale_bar.visible = False
        grey = picture(viewer)[..., 0].astype(int)
        rod = np.argwhere(grey > grey.max() - 20)[:, 1].mean()
        body = np.argwhere(grey > 20)[:, 1]
        rod_is_right = rod > (body.min() + body.max()) / 2
        assert (overlays.letters.left, overlays.letters.right) == (
            ("R", "L") if rod_is_right else ("L", "R")
        )
        assert rod_is_right == (orientation[2] == "right")


def oblique_case():
    angle = np.deg2rad(20)
    affine = np.diag([-1.0, -1.0, 2.0, 1.0])
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return case_of(np.zeros((24, 20, 12), np.int16), turn @ affine, {})


def test_oblique_scan_has_two_letters_largest_first(session, layers, overlays):
    session.update(case=oblique_case())
    left, right, top, bottom = letters(overlays)
    # The file's first axis runs to the right turned 20 degrees towards anterior, stored backwards.
    assert (left, right, top, bottom) == ("RA", "LP", "AL", "PR")


def test_every_axis_order_is_marked_alike(viewer, session, layers, overlays):
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        for flips in product((False, True), repeat=3):
            session.update(case=phantom_case(order, flips, case_id=f"{order}{flips}"))
            assert letters(overlays) == HANGING["axial"]


def test_letters_come_from_the_grid_not_from_the_name_of_the_plane():
    """A grid whose x runs to the right must be marked L on its left, were it ever drawn."""
    affine = np.diag([1.0, -1.0, -1.0, 1.0])
    grid = grid_of_file(FileSpace((4, 4, 4), affine, 1, 1))
    flipped = replace(grid, affine_zyx_to_ras=grid.affine_zyx_to_ras @ np.diag([1, 1, -1, 1]))

    class Camera:
        orientation2d = ("down", "right")

    class Scene:
        camera = Camera

    class Dims:
        ndim, ndisplay, displayed = 3, 2, (1, 2)

    class Viewer:
        dims, scene = Dims, Scene

    class Layer:
        ndim = 3

        @staticmethod
        def world_to_data(point):
            return point

    assert edge_letters(Viewer, Layer, grid).right == "L"
    assert edge_letters(Viewer, Layer, flipped).right == "R"


# ------------------------------------------------------- nothing where unsure


def test_red_report_has_no_markers_but_the_reason(session, layers, overlays):
    session.update(case=phantom_case(report=RED))
    assert letters(overlays) == ("", "", "", "")
    shown = overlays.viewer.canvas.overlays
    assert not shown["ctvqa_left"].visible
    assert not shown["ctvqa_right"].visible
    assert not shown["ctvqa_bottom"].visible
    assert "not trusted" in shown["ctvqa_top"].text
    assert overlays.view.notes.warning == "Both codes are 0. Ask."
    assert overlays.view.notes.top_left[-1] == "position not trusted"
    assert not overlays.viewer.canvas.overlays.scale_bar.visible
    session.update(case=phantom_case(case_id="sound"))
    assert overlays.viewer.canvas.overlays.scale_bar.visible
    assert letters(overlays) == HANGING["axial"]
    assert overlays.view.notes.warning == ""


def test_amber_report_is_marked_and_said(session, layers, overlays):
    session.update(case=phantom_case(report=AMBER))
    assert letters(overlays) == HANGING["axial"]
    assert "geometry: amber" in overlays.view.notes.top_right


def test_report_that_turns_red_when_masks_arrive_takes_the_markers_away(session, layers, overlays):
    case = phantom_case()
    session.update(case=case)
    session.update(case=replace(case, report=RED))
    assert letters(overlays) == ("", "", "", "")


def test_without_a_picture_there_are_no_markers(viewer, session, layers, overlays):
    assert letters(overlays) == ("", "", "", "")
    session.update(case=phantom_case())
    layers.layer("CT").visible = False
    assert letters(overlays) == ("", "", "", "")
    layers.layer("CT").visible = True
    assert letters(overlays) == HANGING["axial"]
    session.update(case=None)
    assert letters(overlays) == ("", "", "", "")
    assert not viewer.canvas.overlays.scale_bar.visible


def test_why_there_is_no_picture_stands_in_its_place(session, overlays):
    session.update(case=None, case_state=CaseState.LOADING, case_message="Reading case_7 …")
    assert overlays.view.notes.message == "Reading case_7 …"
    session.update(case_state=CaseState.FAILED, case_message="case_7 has no CT.")
    assert overlays.view.notes.message == "case_7 has no CT."
    session.update(case=phantom_case(), case_message="3 masks read …")
    assert overlays.view.notes.message == ""
    assert overlays.view.notes.top_right[-1] == "3 masks read …"
    session.update(case_message="")
    assert overlays.view.notes.top_right == ("phantom",)


# --------------------------------------------------------------------- pixels


def ink(viewer, edge):
    """Return which pixels of the canvas a marker lights, by drawing with and without it."""
    marker = viewer.canvas.overlays[f"ctvqa_{edge}"]
    drawn = picture(viewer).astype(int)
    marker.visible = False
    plain = picture(viewer).astype(int)
    marker.visible = True
    lit = (drawn - plain).max(axis=-1) > 80
    rows, columns = np.nonzero(lit)
    glyph = lit[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    return glyph, rows.mean() / lit.shape[0], columns.mean() / lit.shape[1]


def is_an_l(glyph):
    """An L has its ink in the left stem and the foot, none in the upper right quarter."""
    high, wide = glyph.shape
    return not glyph[: high // 2, wide // 2 :].any() and glyph[-max(high // 8, 1) :].mean() > 0.6


@pytest.mark.parametrize("plane", ["axial", "coronal"])
def test_the_glyph_l_is_drawn_where_patient_left_is(viewer, session, layers, overlays, plane):
    session.update(case=phantom_case())
    layers.set_plane(plane)
    layers.toggle_overlays()
    go_through(layers, session.case.masks["rod"])
    for flipped in (False, True):
        viewer.scene.camera.orientation2d = ("down", "left" if flipped else "right")
        right, row, column = ink(viewer, "right")
        left, _, left_column = ink(viewer, "left")
        assert abs(row - 0.5) < 0.05
        assert column > 0.9
        assert left_column < 0.1
        assert min(right.shape[0], left.shape[0]) >= 15
        assert is_an_l(left if flipped else right)
        assert not is_an_l(right if flipped else left)
        for edge in ("left", "right", "top", "bottom"):
            viewer.canvas.overlays[f"ctvqa_{edge}"].visible = False
        viewer.canvas.overlays.scale_bar.visible = False
        rod = np.argwhere(picture(viewer)[..., 0] > 250)[:, 1].mean() / viewer.canvas.size[1]
        assert (rod < 0.5) == flipped
        for edge in ("left", "right", "top", "bottom"):
            viewer.canvas.overlays[f"ctvqa_{edge}"].visible = True


def test_text_is_in_the_screenshot_of_the_window(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    QApplication.processEvents()
    shot = viewer.screenshot(canvas_only=False, flash=False)[..., :3].astype(int)
    overlays.view.hide()
    QApplication.processEvents()
    plain = viewer.screenshot(canvas_only=False, flash=False)[..., :3].astype(int)
    overlays.view.show()
    changed = np.argwhere((abs(shot - plain) > 80).any(axis=-1))
    origin = overlays.view.mapTo(overlays.view.window(), overlays.view.rect().topLeft())
    rows, columns = changed[:, 0] - origin.y(), changed[:, 1] - origin.x()
    high, wide = overlays.view.height(), overlays.view.width()
    for vertical in (rows < high / 4, rows > high * 3 / 4):
        for horizontal in (columns < wide / 2, columns > wide / 2):
            assert (vertical & horizontal).sum() > 100


def test_clicks_go_through_the_text(overlays, canvas, session, layers):
    session.update(case=phantom_case())
    assert overlays.view.geometry() == canvas.rect()
    assert canvas.childAt(canvas.rect().center()) is None


# ----------------------------------------------------------------------- text


def test_corner_text_says_slice_position_window_zoom_and_case(viewer, session, layers, overlays):
    hu, affine = stored(np.zeros((24, 20, 12), np.int16), (0, 1, 2), (True, True, False))
    session.update(case=case_of(hu, affine, {}, case_id="case_7"))
    viewer.scene.camera.zoom = 4.0
    layers.go_to(0, 3)
    notes = overlays.view.notes
    # Stored LPS with z upwards: the fourth slice from the top of twelve is k 8, at 100 + 8 × 2.5.
    assert notes.top_left == ("Axial · slice 4 of 12", "file k 8 (from 0)", "S 120.0 mm")
    assert notes.top_right == ("case_7",)
    assert notes.bottom_right == ("4 px/mm", "W 400 L 40 HU · abdomen")
    layers.apply_preset("lung")
    assert overlays.view.notes.bottom_right[-1] == "W 1500 L -600 HU · lung"
    layers.layer("CT").contrast_limits = (-100, 120)
    assert overlays.view.notes.bottom_right[-1] == "W 220 L 10 HU"
    layers.set_plane("sagittal")
    layers.go_to(2, 0)
    # The first sagittal slice is the rightmost: x = -10 mm + 23 × 0.9 mm, to the patient's right.
    assert overlays.view.notes.top_left == (
        "Sagittal · slice 1 of 24",
        "file i 0 (from 0)",
        "R 10.7 mm",
    )


def test_scale_bar_is_in_mm(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    assert viewer.canvas.overlays.scale_bar.visible
    assert {str(unit) for unit in layers.layer("CT").units} == {"millimeter"}


def test_legend_names_what_is_on_the_slice_when_the_reader_rests(session, layers, overlays, qtbot):
    session.update(case=phantom_case(lesions=("ball",)))

    def rows():
        return [row.text for row in overlays.view.notes.legend]

    layers.go_to(0, 7)
    qtbot.waitUntil(lambda: rows() == ["cube", "rod"])
    layers.go_to(0, 3)
    qtbot.waitUntil(lambda: set(rows()) == {"ball", "rod"})
    session.update(focus=MaskFocus("rod", 3, 8))
    assert rows() == ["rod", "ball"]
    assert overlays.view.notes.legend[0].bold
    layers.toggle_overlays()
    assert rows() == []


def test_legend_of_the_focus_is_not_in_the_highlight_s_colour(viewer, session, layers, overlays):
    """So that also in a picture of the whole window that colour is the mask and nothing else."""
    session.update(case=phantom_case(), focus=MaskFocus("ball", 3, 8))
    picture(viewer)
    layers.layer("focus").visible = False
    overlays.view.show_notes(replace(overlays.view.notes, top_left=("drawn",)))
    QApplication.processEvents()
    assert overlays.view.notes.legend[0].bold
    shot = viewer.screenshot(canvas_only=False, flash=False)[..., :3]
    origin = overlays.view.mapTo(overlays.view.window(), overlays.view.rect().topLeft())
    canvas_part = shot[origin.y() :, origin.x() :][: overlays.view.height()]
    assert not highlight_pixels(canvas_part).any()


def test_legend_counts_what_it_has_no_room_for(session, layers, overlays):
    shape = (40, 10, 3)
    masks = {f"m{n}": np.zeros(shape, bool) for n in range(12)}
    for n, mask in enumerate(masks.values()):
        mask[n * 3 : n * 3 + 2] = True
    session.update(case=case_of(*stored(np.zeros(shape, np.int16), (0, 1, 2), (False,) * 3), masks))
    assert len(overlays.view.notes.legend) + overlays.view.notes.hidden_rows == 12
    assert overlays.view.notes.hidden_rows == 4


def test_legend_begins_with_what_the_question_is_about(session, layers, overlays, qtbot):
    shape = (40, 10, 3)
    masks = {f"m{n}": np.zeros(shape, bool) for n in range(12)}
    masks["spleen"] = np.zeros(shape, bool)
    for n, mask in enumerate(masks.values()):
        mask[n * 3 : n * 3 + 2] = True
    masks["spleen"][:, 5:] = False  # the smallest
    session.update(case=case_of(*stored(np.zeros(shape, np.int16), (0, 1, 2), (False,) * 3), masks))
    assert "spleen" not in [row.text for row in overlays.view.notes.legend]
    asked = question(subtype="organ volume measurement", text="How large is the spleen?")
    session.update(question=asked)
    qtbot.waitUntil(lambda: overlays.view.notes.legend[0].text == "spleen")
    assert overlays.view.notes.hidden_rows == 5
    step = EvidenceStep(StepKind.SEGMENT, "m11", mask="m11")
    session.update(model_chains={"m": EvidenceChain(asked.id, "m", (step,))})
    qtbot.waitUntil(lambda: overlays.view.notes.legend[1].text == "m11")
    hidden = EvidenceStep(StepKind.SEGMENT, "m10", mask="m10")
    session.update(reference_chain=EvidenceChain(asked.id, "reference", (hidden,)))
    qtbot.waitUntil(lambda: overlays.view.notes.legend[1].text == "m10")
    session.update(hide_reference=True, model_chains={})
    overlays.refresh()
    assert [row.text for row in overlays.view.notes.legend][:2] == ["spleen", "m0"]


def test_losing_all_layers_in_3d_breaks_nothing(viewer, session, layers, overlays):
    session.update(case=phantom_case())
    viewer.dims.ndisplay = 3
    viewer.layers.clear()
    assert letters(overlays) == ("", "", "", "")


def test_closing_leaves_nothing_on_the_canvas(viewer, session, layers, canvas):
    made = Overlays(viewer, layers, canvas)
    session.update(case=phantom_case())
    made.close()
    assert not [name for name in viewer.canvas.overlays if name.startswith("ctvqa")]
    session.update(case=phantom_case(case_id="two"))
    layers.go_to(0, 2)


def test_corner_text_leaves_the_letters_of_a_low_picture_free(qtbot):
    """An L without its foot is an I."""
    canvas = QWidget()
    qtbot.addWidget(canvas)
    canvas.resize(400, 150)
    view = NotesView(canvas)
    lines = tuple("WMWMWMWM" for _ in range(6))
    bare = pixels(view)
    view.show_notes(Notes(top_left=lines, top_right=lines, bottom_right=lines))
    written = (pixels(view) != bare).any(axis=-1)
    assert written[:, 70:330].any()
    middle = written[75 - 20 : 75 + 20]
    assert not middle[:, :50].any()
    assert not middle[:, -50:].any()
