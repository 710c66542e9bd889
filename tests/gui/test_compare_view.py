"""Reference and models side by side: whose mask is shown, where, and what stays hidden."""

import numpy as np
import pytest
from test_player import chains
from view_cases import mask_of, phantom_case

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.chains import AlignedStep, ChainComparison, StepMatch
from napari_ctvqa.core.compared_masks import HIDDEN, NO_STEP, compared_masks
from napari_ctvqa.core.plane_pictures import plane_overlay
from napari_ctvqa.core.session import CaseState, Session
from napari_ctvqa.widgets.compare_view import CompareView
from napari_ctvqa.widgets.focus import Focus
from napari_ctvqa.widgets.layers import CaseLayers


def comparisons():
    """Model A takes the ball for the cube; model B has no such step."""
    reference, model, _ = chains()
    rod, cube = reference.steps
    ball = model.steps[2]
    a = ChainComparison(
        (AlignedStep(rod, rod, StepMatch.SAME), AlignedStep(cube, ball, StepMatch.WRONG_TARGET)), 1
    )
    b = ChainComparison((AlignedStep(cube, None, StepMatch.MISSING),), 0)
    return {"A": a, "B": b}, cube, ball


@pytest.fixture
def session():
    import panel_sessions

    made = Session()
    found, _, _ = comparisons()
    made.update(
        question=panel_sessions.question(),
        case=phantom_case(),
        case_state=CaseState.READY,
        comparisons=found,
    )
    return made


@pytest.fixture
def view(viewer, session, qtbot):
    layers = CaseLayers(viewer, session)
    focus = Focus(session, layers)
    session.wishes.focus_step.connect(focus.step)
    made = CompareView(session, layers, lambda: False)
    qtbot.addWidget(made)
    made.resize(700, 240)
    made.show()
    yield made
    made.close_view()
    layers.close()


def settled(view, qtbot):
    qtbot.waitUntil(lambda: not view._idle.isActive())
    return view._shown


def shown_on(view, number):
    """Return which voxels of the plane a column lays colour over."""
    canvas = view.columns[number].canvas
    found = plane_overlay(canvas.scene, canvas.axis, canvas.slice_index)
    if found is None:
        return set()
    rows, columns = np.nonzero(found.pixels)
    return {(r + found.corner[0], c + found.corner[1]) for r, c in zip(rows, columns, strict=True)}


def voxels(mask, index):
    box, crop = mask.region.box_zyx, mask.region.crop_zyx
    if not box[0].start <= index < box[0].stop:
        return set()
    plane = np.argwhere(crop[index - box[0].start])
    return {(r + box[1].start, c + box[2].start) for r, c in plane}


def test_each_column_shows_its_own_mask_at_the_main_plane_s_place(session, view, qtbot):
    _, cube, ball = comparisons()
    for step in (cube, ball):  # the reference's step and the model's lead to one row
        session.wishes.focus_step.emit(step)
        shown = settled(view, qtbot)
        assert [column.title for column in shown] == ["Reference", "A", "B"]
        assert [c.mask and c.mask.structure for c in shown] == ["cube", "ball", None]
        assert shown[2].words == NO_STEP
    masks = session.case.masks
    for index in (7, 3):
        view._layers.go_to(0, index)
        assert {c.canvas.slice_index for c in view.columns} == {index}
        assert shown_on(view, 0) == voxels(masks["cube"], index)
        assert shown_on(view, 1) <= voxels(masks["ball"], index)  # hatched
        assert bool(shown_on(view, 1)) == bool(voxels(masks["ball"], index))
        assert shown_on(view, 2) == set()
    looks = [view._sheets[n][0].labels.look for n in (0, 1)]
    assert (looks[0].outline, looks[1].outline) == ("solid", "dashed")


def test_a_hidden_reference_is_not_shown(session, view, qtbot):
    _, _, ball = comparisons()
    session.update(hide_reference=True)
    session.wishes.focus_step.emit(ball)
    shown = settled(view, qtbot)
    assert (shown[0].mask, shown[0].words) == (None, HIDDEN)
    view._layers.go_to(0, 7)
    assert shown_on(view, 0) == set()


def test_two_masks_of_one_ct(session, view, qtbot):
    case = session.case
    grid = case.volume.display_grid
    inside = np.zeros(grid.shape_zyx, bool)
    inside[6:9, 3:6, 8:12] = True
    other = mask_of("cube", inside, grid, source=Source.PREDICTED)
    shown = compared_masks(case, {}, None, case.masks["cube"], [other])
    assert [c.mask for c in shown] == [case.masks["cube"], other]
    assert compared_masks(case, {}, None, other, [other])[0].mask is case.masks["cube"]
    assert compared_masks(case, {}, None, None, [other]) == ()


def test_a_click_in_a_picture_takes_the_main_plane_along(session, view, qtbot):
    _, cube, _ = comparisons()
    session.wishes.focus_step.emit(cube)
    settled(view, qtbot)
    view.columns[1].canvas.picked.emit(0, 4.2, 9.6)
    assert view._layers.place.index_zyx[1:] == (4, 10)
    before = view._layers.current_slice(0)
    view.columns[0].canvas.stepped.emit(0, 2)
    assert view._layers.current_slice(0) == before + 2
    view._layers.set_plane("coronal")
    assert {c.canvas.axis for c in view.columns} == {1}
