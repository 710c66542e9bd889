import numpy as np
import pytest
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtWidgets import QApplication
from view_cases import phantom_case, picture

from napari_ctvqa.core.view_text import PROBE_FIELDS
from napari_ctvqa.widgets.directions import canvas_to_world
from napari_ctvqa.widgets.probe import ProbeStrip, probe_rows


@pytest.fixture
def probe(viewer, layers, canvas, qtbot):
    made = ProbeStrip(viewer, layers, canvas)
    qtbot.addWidget(made)
    made.resize(1366, 24)
    made.show()
    yield made
    made.close_probe()


def point_at(canvas, x, y):
    """Move the pointer over the canvas, as the window system does."""
    here = QPointF(x, y)
    no, none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        here,
        QPointF(canvas.mapToGlobal(QPoint(int(x), int(y)))),
        no,
        no,
        none,
    )
    QApplication.sendEvent(canvas, event)


def centre_of(viewer, layers, index_zyx):
    """Return where on the canvas a voxel's centre is drawn, from camera and canvas size."""
    camera, dims = viewer.scene.camera, viewer.dims
    height, width = viewer.canvas.size
    world = np.array(index_zyx) * layers.grid.spacing_mm_zyx
    row, column = dims.displayed
    return (
        (world[column] - camera.center[-1]) * camera.zoom + width / 2,
        (world[row] - camera.center[-2]) * camera.zoom + height / 2,
    )


@pytest.mark.parametrize("plane", ["axial", "coronal", "sagittal"])
@pytest.mark.parametrize("zoom", [None, 21.5])
def test_strip_tells_the_voxel_under_the_pointer(
    viewer, session, layers, probe, canvas, plane, zoom
):
    case = phantom_case()
    session.update(case=case)
    layers.set_plane(plane)
    picture(viewer)
    if zoom:
        viewer.scene.camera.zoom = zoom
    for index in ((5, 11, 18), (6, 9, 12), (3, 8, 15)):
        for axis, part in enumerate(index):
            layers.go_to(axis, part)
        point_at(canvas, *centre_of(viewer, layers, index))
        hu = case.volume.array_zyx[index]
        i, j, k = case.volume.grid.file_index_ijk(index).astype(int)
        x, y, z = case.volume.grid.ras_mm(index)
        assert f"HU {hu:.0f} " in probe.text()
        assert f"file i {i} j {j} k {k} (from 0)" in probe.text()
        assert f"shown z {index[0] + 1} y {index[1] + 1} x {index[2] + 1} (from 1)" in probe.text()
        assert f"RAS {x:.1f} {y:.1f} {z:.1f} mm" in probe.text()
        assert f"LPS {-x:.1f} {-y:.1f} {z:.1f} mm" in probe.text()
    rod = tuple(part.start + 1 for part in case.masks["rod"].region.box_zyx)
    for axis, part in enumerate(rod):
        layers.go_to(axis, part)
    point_at(canvas, *centre_of(viewer, layers, rod))
    assert probe.text().endswith("rod (reference)")


def test_canvas_to_world_is_where_napari_says_the_pointer_is(viewer, session, layers, canvas):
    session.update(case=phantom_case())
    picture(viewer)
    for plane in ("axial", "coronal", "sagittal"):
        layers.set_plane(plane)
        for flip in (("down", "right"), ("up", "left")):
            viewer.scene.camera.orientation2d = flip
            picture(viewer)
            point_at(canvas, 123, 45)
            ours = canvas_to_world(viewer, (123.0, 45.0))
            assert np.allclose(viewer.cursor.position, ours, atol=0.01)


def test_strip_follows_the_picture_under_a_resting_pointer(viewer, session, layers, probe, canvas):
    session.update(case=phantom_case())
    picture(viewer)
    layers.go_to(0, 5)
    point_at(canvas, *centre_of(viewer, layers, (5, 11, 18)))
    assert "z 6 y 12 x 19" in probe.text()
    layers.go_to(0, 7)
    assert "z 8 y 12 x 19" in probe.text()
    x, y = centre_of(viewer, layers, (7, 11, 18))
    viewer.scene.camera.zoom *= 3
    layers.fit()
    assert (x, y) == pytest.approx(centre_of(viewer, layers, (7, 11, 18)), abs=0.5)
    assert "z 8 y 12 x 19" in probe.text()
    session.update(case=None)
    assert "HU —" in probe.text()


def test_the_pointer_over_the_picture_ends_what_another_canvas_told(
    viewer, session, layers, probe, canvas
):
    session.update(case=phantom_case())
    picture(viewer)
    probe.show_index(1, np.array([2.0, 10.0, 3.0]))
    assert "z 3 y 11 x 4" in probe.text()
    point_at(canvas, *centre_of(viewer, layers, (5, 11, 18)))
    assert "y 12 x 19" in probe.text()


def test_strip_shows_dashes_outside_the_picture(viewer, session, layers, probe, canvas):
    dashes = "   ".join(probe_rows(dict.fromkeys(PROBE_FIELDS, "—"), 1))
    assert probe.text() == dashes
    session.update(case=phantom_case())
    picture(viewer)
    assert probe.text() == dashes
    point_at(canvas, *centre_of(viewer, layers, (6, 9, 12)))
    assert probe.text() != dashes
    point_at(canvas, 2, 2)
    assert probe.text() == dashes
    point_at(canvas, *centre_of(viewer, layers, (6, 9, 12)))
    QApplication.sendEvent(canvas, QEvent(QEvent.Type.Leave))
    assert probe.text() == dashes
    point_at(canvas, *centre_of(viewer, layers, (6, 9, 12)))
    viewer.dims.ndisplay = 3
    assert probe.text() == dashes


def test_the_circle_s_mean_follows_radius_and_plane(viewer, session, layers, probe, canvas):
    session.update(case=phantom_case())
    picture(viewer)
    layers.go_to(0, 5)
    at = (5, 11, 18)
    point_at(canvas, *centre_of(viewer, layers, at))
    assert "mean " in probe.text() and "(r 3 mm, " in probe.text()
    before = probe.text()
    session.update(probe_radius_mm=0.5)
    hu = session.case.volume.array_zyx[at]
    assert f"mean {hu:.1f} ± 0.0 (r 0.5 mm, 1 voxel)" in probe.text() != before


def test_names_from_files_are_never_taken_for_markup(probe):
    assert probe.textFormat() == Qt.TextFormat.PlainText


@pytest.mark.parametrize(("width", "rows"), [(1700, 1), (1000, 2), (640, 3), (420, 4)])
def test_strip_takes_the_rows_its_width_needs(probe, width, rows):
    probe.resize(width, probe.height())
    QApplication.processEvents()
    assert len(probe.text().split("\n")) == rows
    height = probe.height()
    assert height >= rows * probe.fontMetrics().lineSpacing()
    for line in probe.text().split("\n"):
        assert probe.fontMetrics().horizontalAdvance(line) <= width
