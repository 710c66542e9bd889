"""Checks of a painted plane; run as a program, the same on a screen of another scale."""

import sys

import napari
import numpy as np
from pointer import move
from qtpy.QtWidgets import QApplication, QLabel
from view_cases import phantom_case

from napari_ctvqa.core.plane_pictures import PlaneScene, row_and_column_axis
from napari_ctvqa.core.session import Session
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.widgets.layers import CaseLayers
from napari_ctvqa.widgets.overlays import canvas_of
from napari_ctvqa.widgets.plane_canvas import PlaneCanvas
from napari_ctvqa.widgets.surface import NapariSurface

WINDOW_HU = (-160.0, 240.0)


def scene_of(case, window_hu=WINDOW_HU):
    return PlaneScene(case.volume.display_zyx, case.volume.display_grid, window_hu)


def rod_canvas(axis, case, size):
    """Return a canvas of a phantom at a place through the rod."""
    made = PlaneCanvas(axis)
    made.resize(*size)
    made.show_scene(scene_of(case))
    made.show_place((5, 11, 15))
    made.show()
    QApplication.processEvents()
    return made


def pixels(canvas):
    """Return what is painted, (rows, columns, 3), in the screen's own pixels."""
    image = canvas.grab().toImage().convertToFormat(canvas.grab().toImage().Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
    return rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).copy()


def lies_on(picture, brighter_than):
    """Return on which side of the body what is bright and grey lies."""
    inner = picture[6:-6, 6:-6].astype(int)
    grey = np.ptp(inner, axis=-1) <= 2
    level = inner[..., 0]
    high, wide = level.shape
    # Letters stand at the middle of the edges and text in the corners; the body does not.
    clear = np.zeros_like(grey)
    clear[60 : high - 60, 35 : wide - 35] = True
    bright = np.argwhere(grey & clear & (level > brighter_than))[:, 1]
    body = np.argwhere(grey & clear & (level > 100))[:, 1]
    assert len(bright) > 100
    return "right" if bright.mean() > (body.min() + body.max()) / 2 else "left"


def world_of(case, index_zyx):
    """Return RAS mm of a display voxel through the file's own indices and affine."""
    grid = case.volume.grid
    ijk = np.zeros(3)
    for axis, (file_axis, back) in enumerate(zip(grid.file_axis_of, grid.flipped, strict=True)):
        last = grid.shape_zyx[axis] - 1
        ijk[file_axis] = last - index_zyx[axis] if back else index_zyx[axis]
    return (grid.file.affine_ras @ [*ijk, 1.0])[:3]


def check_pointer(canvas, *, mirrored):
    """Check against the case's affine what the pointer finds, and where a voxel is painted."""
    case = phantom_case()
    grid, axis = case.volume.grid, canvas.axis
    canvas.cross_hair = False
    canvas.show_plane(axis, mirrored=mirrored)
    row_axis, column_axis = row_and_column_axis(axis)
    told = []
    connected = canvas.pointed.connect(lambda _, index: told.append(index))
    view, spacing = canvas.view, grid.spacing_mm_zyx
    for row, column in ((2, 3), (6, 9), (9, 15), (grid.shape_zyx[row_axis] - 1, 0)):
        index = [canvas.slice_index] * 3
        index[row_axis], index[column_axis] = row, column
        x = (column * spacing[column_axis] - view.column_mm) * view.px_per_mm
        y = (row * spacing[row_axis] - view.row_mm) * view.px_per_mm
        at = canvas.width() / 2 + (-x if mirrored else x), canvas.height() / 2 + y
        move(canvas, at)
        found = grid.ras_mm(told[-1])
        assert np.abs(found - world_of(case, index)).max() < 0.01
        if 40 < at[0] < canvas.width() - 40 and 80 < at[1] < canvas.height() - 80:
            check_painted(canvas, case, index, at)
    canvas.pointed.disconnect(connected)


def check_painted(canvas, case, index, at):
    """Check that one bright voxel is painted around a place.

    To a third of a screen pixel, or a fiftieth of a voxel: Qt counts in 65,536ths of one.
    """
    scene, ratio = canvas.scene, canvas.devicePixelRatioF()
    one = np.full_like(case.volume.display_zyx, -1000)
    canvas.show_scene(PlaneScene(one, scene.grid, WINDOW_HU))
    without = pixels(canvas)[..., 0].astype(float)
    one = one.copy()
    one[tuple(index)] = 3000
    canvas.show_scene(PlaneScene(one, scene.grid, WINDOW_HU))
    bright = pixels(canvas)[..., 0] - without
    canvas.show_scene(scene)
    rows, columns = np.mgrid[: bright.shape[0], : bright.shape[1]] + 0.5
    assert bright.max() > 200
    weight = bright / bright.sum()
    where = np.array([(weight * columns).sum(), (weight * rows).sum()]) / ratio
    voxel_px = ratio * canvas.view.px_per_mm * min(scene.grid.spacing_mm_zyx)
    assert np.abs(where - at).max() * ratio < max(0.35, 0.02 * voxel_px), (where, at)


def check_napari():
    """Check the same of napari's own picture: the pointer's place, and where a voxel is painted."""
    viewer = napari.Viewer(show=True)
    viewer.window.resize(640, 480)
    session = Session()
    layers = CaseLayers(viewer, session)
    case = phantom_case()
    session.update(case=case)
    layers.toggle_overlays()
    window = viewer.window.add_dock_widget(QLabel("dock")).window()
    surface = NapariSurface(viewer, layers, canvas_of(window))
    for axis, plane in enumerate(PLANES):
        layers.set_plane(plane)
        row_axis, column_axis = row_and_column_axis(axis)
        index = list(layers.place.index_zyx)
        index[row_axis], index[column_axis] = 7, 11
        for _ in range(4):
            QApplication.processEvents()
        camera, widget = viewer.scene.camera, surface.widget
        mm = np.array(index) * layers.grid.spacing_mm_zyx
        x = widget.width() / 2 + (mm[column_axis] - camera.center[-1]) * camera.zoom
        y = widget.height() / 2 + (mm[row_axis] - camera.center[-2]) * camera.zoom
        found = layers.grid.ras_mm(surface.index_at(x, y))
        assert np.abs(found - world_of(case, index)).max() < 0.01, (plane, found)
        one = np.full_like(case.volume.display_zyx, -1000)
        one[tuple(index)] = 3000
        layers.layer("CT").data = one
        shot = viewer.screenshot(canvas_only=True, flash=False)[..., 0].astype(float)
        rows, columns = np.mgrid[: shot.shape[0], : shot.shape[1]] + 0.5
        scale = shot.shape[1] / widget.width()
        near = (abs(columns / scale - x) < 25) & (abs(rows / scale - y) < 25)
        weight = shot * near / (shot * near).sum()
        where = np.array([(weight * columns).sum(), (weight * rows).sum()]) / scale
        assert np.abs(where - [x, y]).max() < 1.0, (plane, where, (x, y))
        layers.layer("CT").data = case.volume.display_zyx
    surface.close()
    layers.close()
    viewer.close()


def main():
    app = QApplication(sys.argv)
    for axis in range(3):
        for mirrored in (False, True):
            canvas = rod_canvas(axis, phantom_case(), (420, 360))
            check_pointer(canvas, mirrored=mirrored)
            canvas.zoom_at(2.7, canvas.rect().center().toPointF())
            check_pointer(canvas, mirrored=mirrored)
            ratio = canvas.devicePixelRatioF()
            canvas.close()
    check_napari()
    sys.stdout.write(f"ratio {ratio:g}\n")
    app.quit()


if __name__ == "__main__":
    main()
