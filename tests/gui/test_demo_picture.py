"""The picture that `make demo` leaves: overlays, question rows, both evidence columns, R and L."""

import imageio.v3 as iio
import numpy as np
import pytest
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QTableView, QTableWidget
from skimage.color import rgb2hsv
from skimage.measure import label, regionprops

from napari_ctvqa import demo
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import wait_until

pytestmark = pytest.mark.slow

GLYPH_HEIGHT_PX = (16, 60)


@pytest.fixture(scope="module")
def pictured(qapp, tmp_path_factory):
    """The whole window as a picture (h, w, 3), and where its parts lie: name -> (rows, columns)."""
    import napari

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    app.coordinator.open(demo.ensure_demo(), question_id=demo.FIRST_QUESTION)
    app.coordinator.focus.first_difference(demo.FIRST_MODEL)
    assert wait_until(lambda: not app.coordinator.busy)
    wait_until(lambda: False, 0.5)
    app.planes.toggle_cross_hair()  # its two colours are no masks
    path = tmp_path_factory.mktemp("demo") / "demo.png"
    viewer.screenshot(str(path), canvas_only=False, flash=False)
    picture = iio.imread(path)[..., :3]
    per_px = picture.shape[1] / app.window.width()
    parts = {
        "canvas": app.probe.canvas,
        "rows": app.panels["Questions"].findChild(QTableView).viewport(),
        "evidence": app.panels["Evidence"].findChild(QTableWidget).viewport(),
    }
    places = {name: _place(widget, app.window, per_px) for name, widget in parts.items()}
    app.session.wishes.toggle_overlays.emit()
    bare = viewer.screenshot(canvas_only=False, flash=False)[..., :3]
    app.planes.toggle_cross_hair()  # which is remembered
    app.close()
    viewer.close()
    return picture, places, bare


def _place(widget, window, per_px):
    corner = widget.mapTo(window, QPoint(0, 0))
    left, top = round(corner.x() * per_px), round(corner.y() * per_px)
    right, bottom = left + round(widget.width() * per_px), top + round(widget.height() * per_px)
    return slice(top, bottom), slice(left, right)


def test_six_or_more_hues_lie_over_the_ct_and_none_without_overlays(pictured):
    picture, places, bare = pictured
    assert _hues(picture[places["canvas"]]) >= 6
    assert _hues(bare[places["canvas"]]) == 0


def _hues(canvas):
    """Return how many of 18 hues colour at least 40 pixels of the picture without its legend."""
    body = canvas[canvas.shape[0] // 5 : int(canvas.shape[0] * 0.75), canvas.shape[1] // 20 :]
    hsv = rgb2hsv(body)
    coloured = hsv[..., 0][(hsv[..., 1] > 0.08) & (hsv[..., 2] > 0.15)]
    counts, _ = np.histogram(coloured, bins=18, range=(0, 1))
    return (counts >= 40).sum()


def test_many_question_rows_hold_text(pictured):
    picture, places, _ = pictured
    rows = _ink(picture[places["rows"]]).any(axis=1)
    starts = np.flatnonzero(np.diff(rows.astype(int)) == 1)
    assert len(starts) >= 10


def test_both_evidence_columns_hold_text(pictured):
    picture, places, _ = pictured
    ink = _ink(picture[places["evidence"]])
    half = ink.shape[1] // 2
    for column in (ink[:, :half], ink[:, half:]):
        assert column.any(axis=1).mean() > 0.3


def test_the_marker_r_is_left_and_l_is_right(pictured):
    picture, places, _ = pictured
    canvas = picture[places["canvas"]]
    found = {"L": [], "R": []}
    for glyph in regionprops(label((canvas > 235).all(axis=-1), connectivity=2)):
        name = _letter(glyph)
        if name in found:
            found[name].append(glyph.centroid[1] / canvas.shape[1])
    assert len(found["L"]) == len(found["R"]) == 1, found
    assert found["R"][0] < 0.15
    assert found["L"][0] > 0.85


def _ink(part):
    """Return which pixels differ clearly from the part's most frequent colour."""
    grey = part.mean(axis=-1)
    background = np.bincount(grey.astype(int).ravel()).argmax()
    return np.abs(grey - background) > 60


def _letter(glyph):
    """Return "L" or "R" for a component with that letter's shape, "" for anything else."""
    shape = np.pad(glyph.image, 0)
    high, wide = shape.shape
    if not (GLYPH_HEIGHT_PX[0] <= high <= GLYPH_HEIGHT_PX[1] and high / 3 <= wide <= high):
        return ""
    stem = shape[:, : max(wide // 4, 2)].any(axis=1).mean()
    top = shape[: high // 5, wide // 2 :].any(axis=0).mean()
    bottom = shape[-high // 5 :, wide // 4 :].any(axis=0).mean()
    middle = shape[high // 4 : high // 2, wide // 2 :].any(axis=1).mean()
    if stem > 0.95 and top == 0 and middle == 0 and bottom > 0.9:
        return "L"
    if stem > 0.95 and glyph.euler_number == 0 and shape[-3:, -wide // 4 :].any() and top > 0:
        return "R"
    return ""
