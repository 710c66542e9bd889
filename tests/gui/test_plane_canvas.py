"""The planes that we paint ourselves, and 3-D, by what is on their pixels."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plane_checks import check_pointer, lies_on, pixels, rod_canvas, scene_of, world_of
from pointer import drag, move, press, release, wheel
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QWidget
from view_cases import ORDERS, phantom_case

from napari_ctvqa.core.colours import plane_colour
from napari_ctvqa.widgets.plane_canvas import PlaneCanvas
from napari_ctvqa.widgets.volume_view import VolumeView

PLANES = ("axial", "coronal", "sagittal")
MIDDLE = Qt.MouseButton.MiddleButton


@pytest.fixture
def canvas(qtbot):
    def make(axis, case=None, size=(420, 360)):
        made = rod_canvas(axis, case or phantom_case(), size)
        qtbot.addWidget(made)
        return made

    return make


# ------------------------------------------------------------------------- sides


@pytest.mark.parametrize("axis", [0, 1])
def test_the_rod_on_patient_left_is_right_in_all_48_orders_and_the_letter_says_l(canvas, axis):
    made = canvas(axis)
    first = None
    for order, flips in ORDERS:
        case = phantom_case(order, flips)
        made.show_scene(scene_of(case))
        picture = pixels(made)[70:]  # above stands which slice of the file it is
        assert lies_on(picture, brighter_than=250) == "right", (order, flips)
        assert (made.letters.left, made.letters.right) == ("R", "L"), (order, flips)
        first = picture if first is None else first
        same = abs(picture.astype(int) - first).max(axis=-1) <= 1
        assert same.mean() >= 0.999, (order, flips)


def test_the_sagittal_nose_is_left_in_all_48_orders_and_right_when_mirrored(canvas):
    for order, flips in ORDERS:
        case = phantom_case(order, flips)
        made = canvas(2, case)
        made.show_place((7, 8, 12))  # through the cube, which lies anterior
        for mirrored, side, letters in ((False, "left", ("A", "P")), (True, "right", ("P", "A"))):
            made.show_plane(2, mirrored=mirrored)
            assert lies_on(pixels(made), brighter_than=190) == side, (order, flips)
            assert (made.letters.left, made.letters.right) == letters
            assert (made.letters.top, made.letters.bottom) == ("S", "I")
        made.close()


def test_letters_follow_a_plane_change_at_once(canvas):
    made = canvas(0)
    found = []
    for axis in (0, 1, 2):
        made.show_plane(axis, mirrored=False)
        found.append((made.letters.left, made.letters.top))
    assert found == [("R", "A"), ("R", "S"), ("A", "S")]


def test_letters_are_painted_at_their_edges_and_not_where_sides_are_unknown(canvas):
    made = canvas(0)
    made.cross_hair = False
    told = pixels(made)
    made.trusted = False
    made.redraw()
    untold = pixels(made)
    changed = np.argwhere(abs(told.astype(int) - untold).max(axis=-1) > 60)
    high, wide = told.shape[:2]
    middle = (abs(changed[:, 0] - high / 2) < 30) | (abs(changed[:, 1] - wide / 2) < 30)
    assert {
        "left": (changed[middle][:, 1] < 40).any(),
        "right": (changed[middle][:, 1] > wide - 40).any(),
    } == {"left": True, "right": True}
    assert made.letters.left == made.letters.right == ""
    assert made.top_left()[-1] == "orientation not trusted"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_no_text_covers_a_letter_where_the_picture_is_low(canvas, axis):
    """An L without its foot is an I."""
    made = canvas(axis, size=(300, 96))
    made.cross_hair = False
    written = pixels(made).min(axis=-1) > 220
    made.top_left = made.bottom_right = tuple
    alone = pixels(made).min(axis=-1) > 220
    for side in (np.s_[34:62, 4:40], np.s_[34:62, -40:-4]):
        assert alone[side].sum() > 20
        assert written[side][alone[side]].all()


def test_the_frame_and_the_lines_have_the_planes_colours(canvas):
    made = canvas(1)
    picture = pixels(made)
    assert tuple(picture[0, 100]) == plane_colour("coronal")
    row, column = np.argwhere((picture == plane_colour("axial")).all(axis=-1)).T
    assert len(row) > 100 and np.ptp(row) == 0  # a horizontal line is the axial plane
    row, column = np.argwhere((picture == plane_colour("sagittal")).all(axis=-1)).T
    assert len(row) > 100 and np.ptp(column) == 0
    at = made.px_at((5, 11, 15))
    gap = abs(row - at[1]).min()
    assert 10 <= gap <= 18  # open at the centre


# ------------------------------------------------------------------------- pixels


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_voxel_is_painted_where_the_pointer_finds_it(canvas, axis, mirrored):
    check_pointer(canvas(axis), mirrored=mirrored)


def test_the_pointer_is_right_after_zooming_moving_and_another_size(canvas):
    made = canvas(1)
    for at, angle in (((100, 120), 360), ((300, 90), -120), ((210, 180), 600)):
        wheel(made, at, angle, Qt.KeyboardModifier.ControlModifier)
        drag(made, (200, 180), (230, 150), MIDDLE)
        check_pointer(made, mirrored=False)
    made.resize(333, 287)
    check_pointer(made, mirrored=False)
    made.fit()
    check_pointer(made, mirrored=False)


def test_the_pointer_is_right_on_a_screen_of_scale_2():
    here = Path(__file__).parent
    found = subprocess.run(
        [sys.executable, str(here / "plane_checks.py")],
        env=os.environ | {"QT_SCALE_FACTOR": "2", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert found.returncode == 0, found.stderr
    assert "ratio 2" in found.stdout


# ------------------------------------------------------------------------ pointer


def test_zooming_keeps_what_lies_under_the_pointer(canvas):
    made = canvas(0)
    before, zoom = made.index_at(120.0, 90.0), made.view.px_per_mm
    wheel(made, (120, 90), 120, Qt.KeyboardModifier.ControlModifier)
    assert made.view.px_per_mm > zoom
    assert np.allclose(made.index_at(120.0, 90.0), before)


def test_the_wheel_asks_for_slices_a_notch_at_a_time(canvas):
    made = canvas(2)
    told = []
    made.stepped.connect(lambda axis, count: told.append((axis, count)))
    for angle in (-120, 240, -60, -60, 40):
        wheel(made, (100, 100), angle)
    assert told == [(2, 1), (2, -2), (2, 1)]


def test_the_left_button_takes_the_cross_hair_along_and_shift_does_not(canvas):
    made = canvas(0)
    told = []
    made.picked.connect(lambda *where: told.append(where))
    press(made, (200, 100))
    move(made, (210, 140), Qt.MouseButton.LeftButton)
    release(made, (210, 140))
    move(made, (250, 140))
    assert [axis for axis, _, _ in told] == [0, 0]
    assert told[1][1:] == pytest.approx(tuple(made.index_at(210.0, 140.0)[1:]))
    press(made, (200, 100), keys=Qt.KeyboardModifier.ShiftModifier)
    assert len(told) == 2


def test_a_picture_under_a_resting_pointer_says_what_lies_there_now(canvas):
    made = canvas(0)
    told = []
    made.pointed.connect(lambda axis, index: told.append(index))
    move(made, (200, 150))
    made.show_place((7, 11, 15))
    assert [round(index[0]) for index in told] == [5, 7]


def test_moving_the_cross_hair_draws_no_picture_anew(canvas):
    made = canvas(0)
    pixels(made)
    drawn = []
    made._drawn, draw = lambda ratio: drawn.append(ratio) or draw(ratio), made._drawn
    assert not made.show_place((5, 4, 4))
    pixels(made)
    assert not drawn
    assert made.show_place((6, 4, 4))
    pixels(made)
    assert len(drawn) == 1


# ---------------------------------------------------------------------------- 3-D


@pytest.fixture
def volume_view(qtbot):
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.resize(360, 320)
    view = VolumeView(parent)
    view.resize(360, 320)
    parent.show()
    QApplication.processEvents()
    yield view
    view.close_view()


def side_of_rod(view):
    grey = view.canvas.render()[..., 0].astype(int)
    rod, all_of_it = grey > 95, grey > 8
    assert rod.sum() > 50
    where = np.argwhere(rod).mean(axis=0) - np.argwhere(all_of_it).mean(axis=0)
    return {"right": where[1], "down": where[0]}


def test_in_3d_the_rod_lies_where_the_letter_l_is_from_everywhere(volume_view, qtbot):
    for order, flips in ORDERS:
        case = phantom_case(order, flips)
        volume_view.show_volume(case.volume, trusted=True)
        qtbot.waitUntil(lambda: not volume_view.busy)
        volume_view.camera.azimuth = volume_view.camera.elevation = 0
        assert side_of_rod(volume_view)["right"] > 20, (order, flips)
        letters = volume_view.figure.edge_letters()
        assert letters == {"left": "R", "right": "L", "top": "S", "bottom": "I"}, (order, flips)


@pytest.mark.parametrize(
    ("azimuth", "elevation", "letters"),
    [
        (180, 0, {"left": "L", "right": "R", "top": "S", "bottom": "I"}),
        (90, 0, {"left": "A", "right": "P", "top": "S", "bottom": "I"}),
        (-90, 0, {"left": "P", "right": "A", "top": "S", "bottom": "I"}),
        (0, 90, {"left": "R", "right": "L", "top": "P", "bottom": "A"}),
        (0, -90, {"left": "R", "right": "L", "top": "A", "bottom": "P"}),
    ],
)
def test_in_3d_letters_follow_a_rotation_at_once(volume_view, qtbot, azimuth, elevation, letters):
    volume_view.show_volume(phantom_case().volume, trusted=True)
    qtbot.waitUntil(lambda: not volume_view.busy)
    volume_view.camera.azimuth, volume_view.camera.elevation = azimuth, elevation
    assert volume_view.figure.edge_letters() == letters
    way = side_of_rod(volume_view)
    if "L" in (letters["left"], letters["right"]):
        assert (way["right"] > 20) == (letters["right"] == "L")


def test_in_3d_nothing_is_said_of_sides_that_are_unknown(volume_view):
    volume_view.show_volume(phantom_case().volume, trusted=False)
    assert volume_view.figure.edge_letters() == {}


def test_the_truth_is_that_of_the_file(canvas):
    """What the checks compare with comes from the file's own affine, not from the grid."""
    case = phantom_case((2, 0, 1), (True, False, True))
    grid = case.volume.grid
    assert np.allclose(world_of(case, (3, 4, 5)), grid.ras_mm((3, 4, 5)))


def test_an_empty_canvas_is_black_and_says_nothing(qtbot):
    made = PlaneCanvas(0)
    qtbot.addWidget(made)
    made.resize(200, 200)
    assert made.index_at(5.0, 5.0) is None
    assert not pixels(made)[10:-10, 10:-10].any()
