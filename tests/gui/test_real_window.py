"""Real CTs in the window: every evidence step's mask is where it stands out, left is right."""

import numpy as np
import pytest
from ts_example import CASE_ID, measure_organs, write_benchmark
from view_cases import iou, on_canvas, picture, whole

from napari_ctvqa.core.cases import Level
from napari_ctvqa.core.colours import highlight_pixels
from napari_ctvqa.core.names import side_of
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.runners.choices import Wanted
from napari_ctvqa.widgets.app import app_for
from napari_ctvqa.widgets.launch import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def app(qapp):
    import napari

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    yield app
    app.close()
    viewer.close()


def settle(app):
    assert wait_until(lambda: not app.coordinator.busy)


def test_every_evidence_step_of_every_question_lights_up_its_mask_alone(
    app, real_data, tmp_path_factory
):
    root = write_benchmark(real_data, measure_organs(real_data), tmp_path_factory.mktemp("bench"))
    app.coordinator.open(root)
    settle(app)
    assert len(app.session.questions) >= 40
    pictured = {}
    for row in range(len(app.session.questions)):
        app.session.wishes.select_row.emit(row)
        settle(app)
        app.session.wishes.run.emit(Wanted("rules"), "question")
        settle(app)
        chains = (app.session.reference_chain, app.session.model_chains["rules"])
        for step in (step for chain in chains for step in chain.steps if step.mask):
            app.session.wishes.focus_step.emit(step)
            focus = app.session.focus
            assert step.mask in (focus.structure, *focus.members)
            assert not focus.members or focus.structure == step.target
            if focus.structure not in pictured:
                pictured[focus.structure] = _overlap(app, focus)
    assert len(pictured) >= 20
    assert min(pictured.values()) >= 0.9, pictured


def _overlap(app, focus):
    """Return how well the pixels in the highlight's colour cover the mask on the shown slice."""
    mask = focus.mask or app.session.case.masks[focus.structure]
    assert app.layers.current_slice(0) == focus.display_slice
    assert app.session.case.case_id == CASE_ID
    shot = picture(app.viewer)
    shown = on_canvas(app.viewer, whole(mask), app.layers.grid, shot.shape[:2])
    return iou(highlight_pixels(shot), shown)


@pytest.mark.parametrize("plane", ["axial", "coronal"])
def test_left_structures_lie_on_the_right_of_the_picture(app, real_data, plane):
    app.coordinator.open(real_data / "ts_example")
    settle(app)
    app.layers.set_plane(plane)
    sides = {}
    for name in ("kidney_left", "kidney_right", "hip_left", "hip_right", "iliopsoas_left"):
        mask = app.session.case.masks[name]
        _go_through(app, mask)
        app.layers.highlight(mask)
        found = highlight_pixels(picture(app.viewer))
        sides[name] = np.nonzero(found)[1].mean() / found.shape[1]
    for name, across in sides.items():
        assert (across > 0.5) == (side_of(name) == "left"), sides
    letters = app.overlays.letters
    assert (letters.left, letters.right) == ("R", "L")


def _go_through(app, mask):
    for axis, part in enumerate(mask.region.box_zyx):
        app.layers.go_to(axis, (part.start + part.stop) // 2)


def test_the_tumour_of_the_thigh_opens_green_and_shows_on_its_side(app, real_data):
    app.coordinator.open(real_data / "sts_018")
    settle(app)
    case = app.session.case
    assert app.session.case_state is CaseState.READY
    assert case.report.level is Level.GREEN
    (mask,) = case.masks.values()
    left_mm = -_centre_ras_mm(mask)[0]
    app.layers.set_plane("axial")
    _go_through(app, mask)
    app.layers.highlight(mask)
    found = highlight_pixels(picture(app.viewer))
    middle_mm = -float(case.volume.grid.ras_mm((np.array(case.volume.grid.shape_zyx) - 1) / 2)[0])
    assert (np.nonzero(found)[1].mean() / found.shape[1] > 0.5) == (left_mm > middle_mm)


def _centre_ras_mm(mask):
    start = [part.start for part in mask.region.box_zyx]
    inside = np.argwhere(mask.region.crop_zyx).mean(axis=0) + start
    return mask.region.grid.ras_mm(inside)
