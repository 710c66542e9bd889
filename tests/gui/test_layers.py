import gc
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from napari.layers import Image, Labels, Points
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication
from view_cases import (
    ORDERS,
    case_of,
    go_through,
    iou,
    mask_of,
    on_canvas,
    phantom_case,
    phantom_hu_ras,
    phantom_masks_ras,
    picture,
    stored,
    whole,
)

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.chains import EvidenceStep, StepKind
from napari_ctvqa.core.colours import highlight_pixels
from napari_ctvqa.core.mask_planes import MaskPlanes
from napari_ctvqa.core.session import MaskFocus
from napari_ctvqa.widgets.focus import Focus
from napari_ctvqa.widgets.layers import CaseLayers

PLANES = ("axial", "coronal", "sagittal")


def settled_size(viewer):
    return picture(viewer).shape[:2]


# ------------------------------------------------------------------- hanging


@pytest.mark.parametrize("plane", ["axial", "coronal"])
def test_rod_on_patient_left_is_drawn_on_the_right(viewer, session, layers, plane):
    session.update(case=phantom_case())
    go_through(layers, session.case.masks["rod"])
    layers.set_plane(plane)
    layers.toggle_overlays()
    grey = picture(viewer)[..., 0].astype(int)
    bright = np.argwhere(grey > 250)[:, 1]
    body = np.argwhere(grey > 100)[:, 1]
    assert len(bright) > 100
    assert bright.min() > (body.min() + body.max()) / 2


def test_sagittal_has_the_nose_left_and_the_head_up(viewer, session, layers):
    session.update(case=phantom_case())
    layers.set_plane("sagittal")
    layers.toggle_overlays()
    masks = session.case.masks
    go_through(layers, masks["cube"])
    shown = on_canvas(viewer, whole(masks["cube"]), layers.grid, settled_size(viewer))
    assert np.argwhere(shown)[:, 1].mean() < settled_size(viewer)[1] / 2
    go_through(layers, masks["ball"])
    shown = on_canvas(viewer, whole(masks["ball"]), layers.grid, settled_size(viewer))
    assert np.argwhere(shown)[:, 0].mean() < settled_size(viewer)[0] / 2
    dark = picture(viewer)[..., 0]
    assert dark[shown].mean() < 60  # the ball is fat, dark in this window


@pytest.mark.slow
def test_all_48_axis_orders_give_the_same_pictures(viewer, session, layers):
    first = {}
    for order, flips in ORDERS:
        session.update(case=phantom_case(order, flips, case_id=f"{order}{flips}"))
        go_through(layers, session.case.masks["cube"])
        for plane in PLANES:
            layers.set_plane(plane)
            now = picture(viewer).astype(int)
            before = first.setdefault(plane, now)
            same = (abs(now - before) <= 1).all(axis=-1)
            assert same.mean() >= 0.999, (order, flips, plane)
    assert not np.array_equal(first["axial"], first["coronal"])


@pytest.mark.parametrize("plane", PLANES)
def test_next_case_opens_in_its_middle_though_nothing_was_shown_between(session, layers, plane):
    session.update(case=phantom_case())
    layers.set_plane(plane)
    session.update(case=None)
    larger = np.full((40, 60, 50), 10, np.int16)
    session.update(case=case_of(larger, np.diag([-2.0, -2.0, 4.0, 1.0]), {}, case_id="larger"))
    assert layers.place.index_zyx == (25, 30, 20)
    stops = [r.stop for r in layers.viewer.dims.range]
    assert np.allclose(stops, [49 * 4.0, 59 * 2.0, 39 * 2.0])


# -------------------------------------------------------------- highlighting


@pytest.mark.parametrize("structure", ["rod", "cube", "ball"])
def test_highlight_covers_the_mask_and_nothing_else(viewer, session, layers, structure):
    session.update(case=phantom_case())
    mask = session.case.masks[structure]
    for plane in PLANES:
        layers.set_plane(plane)
        go_through(layers, mask)
        layers.highlight(mask)
        shot = picture(viewer)
        found = highlight_pixels(shot)
        expected = on_canvas(viewer, whole(mask), layers.grid, shot.shape[:2])
        assert expected.sum() > 100
        assert iou(found, expected) >= 0.97, plane
        layers.highlight(None)
        assert not highlight_pixels(picture(viewer)).any()


def test_one_voxel_is_highlighted(viewer, session, layers):
    one = np.zeros((12, 20, 24), bool)
    one[5, 7, 18] = True
    case = phantom_case()
    mask = mask_of("dot", one, case.volume.grid)
    session.update(case=replace(case, masks={**case.masks, "dot": mask}))
    go_through(layers, mask)
    layers.highlight(mask)
    shot = picture(viewer)
    expected = on_canvas(viewer, one, layers.grid, shot.shape[:2])
    assert iou(highlight_pixels(shot), expected) >= 0.9


def test_mask_that_fills_the_volume_is_highlighted(viewer, session, layers):
    case = phantom_case()
    everything = np.ones(case.volume.grid.shape_zyx, bool)
    mask = mask_of("all", everything, case.volume.grid)
    session.update(case=case)
    layers.highlight(mask)
    shot = picture(viewer)
    expected = on_canvas(viewer, everything, layers.grid, shot.shape[:2])
    assert iou(highlight_pixels(shot), expected) >= 0.97


def test_empty_mask_changes_nothing(viewer, session, layers):
    case = phantom_case()
    session.update(case=case)
    before = picture(viewer)
    nothing = np.zeros(case.volume.grid.shape_zyx, bool)
    layers.highlight(mask_of("none", nothing, case.volume.grid))
    assert layers.focused is None
    assert np.array_equal(picture(viewer), before)


def test_highlight_hides_what_overlaps_it(viewer, session, layers):
    """A lesion inside the focused organ must not break the organ's colour."""
    case = phantom_case(lesions=("ball",))
    body = case.volume.array_zyx > -500
    organ = mask_of("body", body, case.volume.grid)
    session.update(case=replace(case, masks={**case.masks, "body": organ}))
    go_through(layers, case.masks["ball"])
    layers.highlight(organ)
    shot = picture(viewer)
    expected = on_canvas(viewer, body, layers.grid, shot.shape[:2])
    assert iou(highlight_pixels(shot), expected) >= 0.97


def test_other_masks_step_back_and_return(viewer, session, layers):
    session.update(case=phantom_case())
    go_through(layers, session.case.masks["ball"])
    rod = on_canvas(viewer, whole(session.case.masks["rod"]), layers.grid, settled_size(viewer))

    def colourfulness():
        shot = picture(viewer).astype(int)
        return (shot.max(axis=-1) - shot.min(axis=-1))[rod].mean()

    plain = colourfulness()
    layers.highlight(session.case.masks["ball"])
    stepped_back = colourfulness()
    layers.highlight(session.case.masks["cube"])
    layers.highlight(None)
    assert stepped_back < 0.6 * plain
    assert colourfulness() == plain


# --------------------------------------------------------------------- focus


def test_focus_goes_to_its_slice_and_back_returns(session, layers):
    session.update(case=phantom_case())
    layers.set_plane("sagittal")
    layers.go_to(2, 20)
    layers.go_to(0, 2)
    before = layers.place
    session.update(focus=MaskFocus("ball", 3, 8))
    assert (layers.plane, layers.current_slice(0)) == ("axial", 3)
    assert layers.focused is session.case.masks["ball"]
    session.update(focus=MaskFocus("cube", 7, 4))
    assert layers.current_slice() == 7
    session.update(focus=None)
    assert layers.place == before
    assert layers.focused is None


def test_a_step_on_both_kidneys_makes_both_stand_out(viewer, session, layers):
    made = phantom_masks_ras()
    masks = {"kidney_left": made["rod"], "kidney_right": made["ball"], "liver": made["cube"]}
    order, flips = (0, 1, 2), (True, True, False)
    hu, affine = stored(phantom_hu_ras(), order, flips)
    case = case_of(hu, affine, {n: stored(m, order, flips)[0] for n, m in masks.items()})
    focus = Focus(session, layers)
    session.update(case=case)
    focus.step(EvidenceStep(StepKind.MEASURE, "kidney", "volume_cm3", 9.0, mask="kidney_left"))
    assert session.focus.members == ("kidney_left", "kidney_right")
    both = whole(case.masks["kidney_left"]) | whole(case.masks["kidney_right"])
    assert (whole(layers.focused) == both).all()
    layers.go_to(0, 3)  # where both have voxels
    shown = on_canvas(viewer, both, layers.grid, settled_size(viewer))
    assert iou(highlight_pixels(picture(viewer)), shown) > 0.9
    assert [d.structure for d in layers.drawn_here()] == ["kidney"]
    focus.mask_slice(1)
    assert session.focus.members, "the next slice of both, not of one"
    focus.step(EvidenceStep(StepKind.MEASURE, "kidney_left", "volume_cm3", 9.0, mask="kidney_left"))
    assert layers.focused is case.masks["kidney_left"]
    focus.step(EvidenceStep(StepKind.SEGMENT, "largest kidney", mask="kidney_left"))
    larger = max(case.masks["kidney_left"], case.masks["kidney_right"], key=_voxels)
    assert (whole(layers.focused) == whole(larger)).all()


def _voxels(mask):
    return mask.region.voxels


def test_a_step_on_one_lesion_makes_that_one_stand_out(viewer, session, layers):
    made = phantom_masks_ras()
    lesions = made["ball"] | made["cube"]
    parts = {f"liver_segment_{n}": np.zeros_like(lesions) for n in range(1, 9)}
    parts["liver_segment_7"], parts["liver_segment_2"] = made["ball"], made["cube"]
    order, flips = (0, 1, 2), (True, True, False)
    hu, affine = stored(phantom_hu_ras(), order, flips)
    masks = {"liver_lesion": lesions, "spleen": made["rod"], **parts}
    case = case_of(hu, affine, {n: stored(m, order, flips)[0] for n, m in masks.items()})
    focus = Focus(session, layers)
    session.update(case=case)
    one, other = (case.masks[f"liver_segment_{n}"] for n in (7, 2))
    larger, smaller = sorted((one, other), key=_voxels, reverse=True)
    for target, wanted in (
        ("largest liver_lesion", larger),
        ("second largest liver_lesion", smaller),
        ("liver_lesion in liver_segment_7", one),
        ("liver_lesion in liver_segment_2", other),
    ):
        focus.step(EvidenceStep(StepKind.MEASURE, target, "mean_hu", 60.0, mask="liver_lesion"))
        assert (whole(layers.focused) == whole(wanted)).all(), target
        assert layers.current_slice(0) in np.flatnonzero(whole(wanted).any(axis=(1, 2)))
    assert session.focus.structure == "liver lesion in liver segment 2"
    focus.step(EvidenceStep(StepKind.SEGMENT, "liver_lesion", mask="liver_lesion"))
    assert layers.focused is case.masks["liver_lesion"]
    nowhere = EvidenceStep(StepKind.MEASURE, "liver_lesion in liver_segment_5", mask="liver_lesion")
    assert focus.mask_of(nowhere) is None, "not those of another segment"


def test_the_other_planes_run_through_the_focused_mask(session, layers):
    session.update(case=phantom_case())
    for structure, index in (("rod", 2), ("cube", 7), ("ball", 3)):
        session.update(focus=MaskFocus(structure, index, 0))
        assert whole(session.case.masks[structure])[layers.place.index_zyx]


def test_another_question_about_the_case_stays_where_the_reader_is(session, layers):
    session.update(case=phantom_case(), question="first")
    layers.go_to(0, 1)
    session.update(focus=MaskFocus("ball", 3, 8))
    session.update(question="second", focus=None)
    assert layers.current_slice(0) == 3


def test_last_slice_of_each_case_is_kept(session, layers):
    one, two = phantom_case(case_id="one"), phantom_case((2, 1, 0), case_id="two")
    session.update(case=one)
    assert layers.place.index_zyx == (6, 10, 12)
    layers.go_to(0, 2)
    layers.go_to(2, 5)
    session.update(case=two)
    assert layers.place.index_zyx == (6, 10, 12)
    layers.go_to(0, 9)
    session.update(case=one)
    assert layers.place.index_zyx == (2, 10, 5)
    session.update(case=two)
    assert layers.current_slice(0) == 9


def test_masks_that_arrive_later_move_nothing(viewer, session, layers):
    case = phantom_case()
    session.update(case=replace(case, masks={}, label_maps={}, complete=False))
    layers.go_to(0, 3)
    viewer.scene.camera.zoom = 7.0
    ct = layers.layer("CT").data
    assert layers.layer("organs") is None or not layers.layer("organs").visible
    session.update(case=case)
    assert layers.layer("organs").visible
    assert layers.layer("CT").data is ct
    assert layers.current_slice(0) == 3
    assert viewer.scene.camera.zoom == 7.0


def test_focused_mask_that_arrives_later_stands_out_and_moves_nobody(session, layers):
    case = phantom_case()
    session.update(case=replace(case, masks={}, label_maps={}, complete=False))
    session.update(focus=MaskFocus("ball", 3, 8))
    assert layers.current_slice(0) == 3
    layers.go_to(0, 9)
    session.update(case=case)
    assert layers.focused is case.masks["ball"]
    assert layers.current_slice(0) == 9


def test_go_to_stops_at_the_ends(session, layers):
    session.update(case=phantom_case())
    for axis, size in enumerate(layers.grid.shape_zyx):
        layers.go_to(axis, 10**6)
        assert layers.current_slice(axis) == size - 1
        layers.go_to(axis, -5)
        assert layers.current_slice(axis) == 0


def test_every_slice_can_be_reached_on_an_uneven_spacing(session, layers):
    hu, affine = stored(np.zeros((5, 7, 301), np.int16), (0, 1, 2), (False,) * 3, (0.7, 0.7, 1.37))
    session.update(case=case_of(hu, affine, {}))
    for index in range(0, 301, 7):
        layers.go_to(0, index)
        assert layers.current_slice(0) == index
        shown = layers.layer("CT").world_to_data(layers.viewer.dims.point)
        assert round(float(shown[0])) == index


def test_napari_s_sliders_have_a_step_for_every_slice_of_this_case(viewer, session, layers):
    coarse = case_of(
        *stored(np.zeros((9, 8, 7), np.int16), (0, 1, 2), (False,) * 3, (2.0, 2.0, 5.0)),
        {"organ": np.ones((9, 8, 7), bool)},
        case_id="coarse",
    )
    session.update(case=phantom_case(lesions=("ball",)))
    layers.highlight(session.case.masks["rod"])
    session.update(case=coarse)
    assert tuple(viewer.dims.nsteps) == (7, 8, 9)
    session.update(case=phantom_case())
    assert tuple(viewer.dims.nsteps) == (12, 20, 24)


def test_unknown_plane_is_refused(layers):
    with pytest.raises(ValueError, match="sagital"):
        layers.set_plane("sagital")


# -------------------------------------------------------------------- window


def test_presets_set_the_window_and_never_narrow_the_slider(session, layers):
    session.update(case=phantom_case())
    ct = layers.layer("CT")
    for name, limits in (("lung", (-1350, 150)), ("stroke", (20, 60)), ("bone", (-500, 1300))):
        layers.apply_preset(name)
        assert tuple(ct.contrast_limits) == limits
        assert ct.contrast_limits_range[0] <= -1024
        assert ct.contrast_limits_range[1] >= 3071
    layers.apply_preset("no such window")
    assert tuple(ct.contrast_limits) == (-500, 1300)


def test_window_survives_the_next_case(session, layers):
    session.update(case=phantom_case())
    layers.apply_preset("lung")
    session.update(case=phantom_case((2, 0, 1), case_id="other"))
    assert tuple(layers.layer("CT").contrast_limits) == (-1350, 150)
    assert layers.layer("CT").contrast_limits_range[1] >= 3071


def test_presets_of_the_config_folder_are_used(viewer, session, tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path))
    rows = (
        '[{"name": "liver", "width": 200, "level": 80}, {"name": "mine", "width": 0, "level": 1}]'
    )
    (tmp_path / "window_presets.json").write_text(rows, encoding="utf-8")
    made = CaseLayers(viewer, session)
    session.update(case=phantom_case())
    made.apply_preset("liver")
    assert tuple(made.layer("CT").contrast_limits) == (-20, 180)
    assert "mine" in made.presets.problems[0]
    made.close()


def test_preset_chosen_before_any_case_is_used(session, layers):
    layers.apply_preset("bone")
    session.update(case=phantom_case())
    assert tuple(layers.layer("CT").contrast_limits) == (-500, 1300)


# -------------------------------------------------------------------- layers


def test_masks_are_read_only_and_keys_edit_nothing(viewer, session, layers, qtbot):
    session.update(case=phantom_case())
    layers.highlight(session.case.masks["rod"])
    before = {k: np.asarray(m.array_zyx).copy() for k, m in session.case.label_maps.items()}
    canvas = QApplication.focusWidget()
    viewer.window.activate()
    for name in ("CT", "masks"):
        layer = layers.layer(name)
        viewer.layers.selection.active = layer
        for key in (Qt.Key.Key_1, Qt.Key.Key_2, Qt.Key.Key_E, Qt.Key.Key_F, Qt.Key.Key_T):
            for target in [canvas] if canvas is not None else []:
                qtbot.keyClick(target, key)
        assert str(layer.mode) == "pan_zoom"
        layer.mode = "transform"
        assert str(layer.mode) == "pan_zoom"
        assert not layer.editable
        assert layer.locked
    for name in ("organs", "focus", "masks"):
        with pytest.raises(TypeError):
            layers.layer(name).data[0, 0, 0] = 1
    for key, array in before.items():
        assert np.array_equal(session.case.label_maps[key].array_zyx, array)


def test_case_change_keeps_the_layers_and_their_protection(viewer, session, layers):
    session.update(case=phantom_case(lesions=("ball",)))
    made = list(viewer.layers)
    assert len(made) == 2
    session.update(case=phantom_case((2, 1, 0), case_id="two", lesions=("ball",)))
    assert list(viewer.layers) == made
    assert all(not layer.editable and layer.locked for layer in made)


def test_delete_key_leaves_our_layers(viewer, session, layers):
    session.update(case=phantom_case())
    viewer.layers.select_all()
    viewer.layers.remove_selected()
    assert {layer.name for layer in viewer.layers} == {"CT", "masks"}


def test_a_focus_brings_back_layers_that_the_user_removed(viewer, session, layers):
    session.update(case=phantom_case(lesions=("ball",)))
    viewer.layers.remove("masks")
    assert layers.layer("lesions") is None
    session.update(focus=MaskFocus("ball", 3, 8))
    assert layers.layer("masks").visible
    assert all(layers.layer(name).visible for name in ("organs", "lesions", "focus"))
    viewer.layers.clear()
    assert layers.layer("CT") is None
    session.update(focus=MaskFocus("rod", 2, 9))
    assert all(layers.layer(name).visible for name in ("CT", "organs", "lesions", "focus"))
    assert layers.current_slice(0) == 2
    rod = on_canvas(viewer, whole(session.case.masks["rod"]), layers.grid, settled_size(viewer))
    assert iou(highlight_pixels(picture(viewer)), rod) > 0.9
    viewer.layers.clear()
    layers.toggle_overlays()
    assert layers.layer("CT").visible and not layers.layer("organs").visible


def test_layers_that_the_user_removed_come_back_with_the_next_case(viewer, session, layers):
    session.update(case=phantom_case())
    layers.highlight(session.case.masks["rod"])
    viewer.layers.clear()
    layers.go_to(0, 2)
    layers.apply_preset("lung")
    layers.toggle_overlays()
    layers.toggle_overlays()
    layers.highlight(None)
    session.update(case=phantom_case(case_id="two"))
    assert [layer.name for layer in viewer.layers][:2] == ["CT", "masks"]
    layers.highlight(session.case.masks["rod"])
    assert highlight_pixels(picture(viewer)).any() or layers.current_slice(0) == 2


def test_renamed_layers_are_still_ours(viewer, session, layers):
    session.update(case=phantom_case())
    layers.layer("CT").name = "mine"
    layers.layer("masks").name = "CT"
    session.update(case=phantom_case(case_id="two"))
    assert [x.rgb for x in viewer.layers if isinstance(x, Image)] == [False, True]
    assert len(viewer.layers) == 2


def test_layers_of_others_are_left_alone(viewer, session, layers):
    points = viewer.add_points(np.zeros((1, 3)))
    session.update(case=phantom_case())
    session.update(case=None)
    assert points in viewer.layers
    assert isinstance(points, Points)
    assert points.visible


def test_without_a_case_nothing_old_is_shown(viewer, session, layers):
    session.update(case=phantom_case())
    session.update(case=None)
    assert not any(layer.visible for layer in viewer.layers)
    assert all(np.prod(layer.data.shape[:3]) == 1 for layer in viewer.layers)
    assert layers.layer("masks").data.sheets == ()
    assert all(np.asarray(layers.layer(name).data).size == 1 for name in ("organs",))


def test_one_key_hides_all_masks(viewer, session, layers):
    session.update(case=phantom_case(lesions=("ball",)))
    layers.highlight(session.case.masks["rod"])
    layers.toggle_overlays()
    shot = picture(viewer)
    assert (shot.max(axis=-1) == shot.min(axis=-1)).all()
    layers.toggle_overlays()
    assert highlight_pixels(picture(viewer)).any() == (layers.layer("focus").visible)
    assert layers.layer("organs").visible


def coloured(viewer):
    shot = picture(viewer).astype(int)
    return (shot.max(axis=-1) - shot.min(axis=-1) > 8).sum()


def test_source_switched_off_by_hand_stays_off(viewer, session, layers):
    session.update(case=phantom_case())
    go_through(layers, session.case.masks["rod"])
    assert coloured(viewer) > 100
    layers.layer("organs").visible = False
    assert coloured(viewer) == 0
    layers.highlight(session.case.masks["rod"])
    assert coloured(viewer) > 100
    layers.highlight(None)
    assert not layers.layer("organs").visible
    assert coloured(viewer) == 0


def test_eye_of_napari_s_list_hides_all_masks_until_one_is_asked_for(viewer, session, layers):
    session.update(case=phantom_case(lesions=("ball",)))
    go_through(layers, session.case.masks["ball"])
    layers.layer("masks").visible = False
    assert coloured(viewer) == 0
    assert layers.drawn_here() == [] and layers.scene().sheets == ()
    layers.show_masks(Source.TOOL, [session.case.masks["cube"]])
    layers.show_masks(Source.TOOL, [])
    assert not layers.layer("masks").visible
    layers.highlight(session.case.masks["ball"])
    assert layers.layer("masks").visible
    assert highlight_pixels(picture(viewer)).any()


def test_a_change_of_what_is_drawn_makes_one_picture_of_it(session, layers, monkeypatch):
    session.update(case=phantom_case(lesions=("ball",)))
    made, plane = [], MaskPlanes.plane
    monkeypatch.setattr(MaskPlanes, "plane", lambda *key: made.append(key) or plane(*key))
    layers.highlight(session.case.masks["rod"])
    assert len(made) == 1
    layers.go_to(0, 3)
    assert len(made) == 2
    layers.toggle_overlays()
    layers.go_to(0, 4)
    assert len(made) == 2
    layers.toggle_overlays()
    assert len(made) == 3


def test_napari_s_3d_shows_the_masks_in_layers_that_go_with_it(viewer, session, layers):
    session.update(case=phantom_case(lesions=("ball",)))
    layers.apply_preset("bone")
    layers.highlight(session.case.masks["rod"])
    viewer.layers.selection.active = layers.layer("CT")
    flat = [layer.name for layer in viewer.layers]
    viewer.dims.ndisplay = 3
    solid = [layer for layer in viewer.layers if isinstance(layer, Labels)]
    assert [layer.name for layer in solid] == ["organs", "lesions", "focus"]
    assert not any(layer.editable for layer in solid)
    assert coloured(viewer) > 100
    layers.layer("masks").visible = False
    assert coloured(viewer) == 0
    layers.layer("masks").visible = True
    layers.highlight(None)
    solid = [layer.name for layer in viewer.layers if isinstance(layer, Labels)]
    assert solid == ["organs", "lesions"]
    assert coloured(viewer) > 100
    layers.toggle_overlays()
    assert coloured(viewer) == 0
    layers.toggle_overlays()
    session.update(case=phantom_case((2, 1, 0), case_id="two"))
    (only,) = (layer for layer in viewer.layers if isinstance(layer, Labels))
    assert only.data is layers.layer("organs").data
    layers.set_plane("axial")
    assert [layer.name for layer in viewer.layers] == flat
    assert viewer.layers.selection.active is layers.layer("CT")
    go_through(layers, session.case.masks["rod"])
    assert coloured(viewer) > 100


def test_no_volume_of_colours_is_ever_made(session, layers):
    session.update(case=phantom_case())
    data = layers.layer("masks").data
    assert data[:, :, :].size == 4
    with pytest.raises(TypeError, match="plane by plane"):
        np.asarray(data)


@pytest.mark.parametrize("shape", [(3, 3, 3), (4, 3, 2), (1, 1, 1), (1, 40, 3)])
def test_tiny_volumes_are_greyscale_volumes(viewer, session, layers, shape):
    hu, affine = stored(np.zeros(shape, np.int16), (0, 1, 2), (False,) * 3)
    session.update(case=case_of(hu, affine, {"dot": np.ones(shape, bool)}))
    assert layers.layer("CT").rgb is False
    assert layers.layer("CT").ndim == 3
    for plane in PLANES:
        layers.set_plane(plane)
    layers.highlight(session.case.masks["dot"])
    assert highlight_pixels(picture(viewer)).any()


def test_more_masks_than_a_byte_holds_with_outlines(viewer, session, layers):
    shape = (30, 30, 5)
    masks = {}
    for number in range(200):
        masks[f"m{number}"] = np.zeros(shape, bool)
        masks[f"m{number}"][number % 30, number // 30 * 4, 2] = True
    hu, affine = stored(np.zeros(shape, np.int16), (0, 1, 2), (False,) * 3)
    session.update(
        case=case_of(
            hu, affine, {k: stored(m, (0, 1, 2), (False,) * 3)[0] for k, m in masks.items()}
        )
    )
    assert layers.layer("organs").data.dtype == np.uint16
    assert len(set(layers.colours.values())) == 200
    assert {drawn.structure for drawn in layers.drawn_here()} == set(masks)


def test_each_source_has_a_look_of_its_own(viewer, session, layers):
    session.update(case=phantom_case())
    grid = session.case.volume.grid
    tool = mask_of("ball", whole(session.case.masks["ball"]), grid, source=Source.TOOL)
    go_through(layers, tool)
    layers.show_masks(Source.TOOL, [tool])
    layer = layers.layer("tool")
    assert layer.visible
    assert layer.data.look.outline == "none"
    assert 0.25 <= layer.data.look.fill_alpha <= 0.35
    layers.show_masks(Source.TOOL, [])
    assert not layer.visible
    with pytest.raises(ValueError, match="reference"):
        layers.show_masks(Source.REFERENCE, [tool])


def test_a_legend_names_both_masks_of_a_structure_and_whose_the_second_is(viewer, session, layers):
    session.update(case=phantom_case())
    own = session.case.masks["ball"]
    tool = mask_of("ball", whole(own), session.case.volume.grid, source=Source.TOOL)
    go_through(layers, own)
    layers.show_masks(Source.TOOL, [tool])
    for focused, other in (
        (None, ["ball", "ball (tool)"]),
        (own, ["ball (tool)"]),
        (tool, ["ball"]),
    ):
        layers.highlight(focused)
        rows = layers.drawn_here()
        balls = [d.words for d in rows if d.structure == "ball" and not d.focused]
        assert sorted(balls) == other
        assert [d.words for d in rows if d.focused] == (
            [] if focused is None else ["ball (tool)" if focused is tool else "ball"]
        )


def test_fitted_picture_stays_fitted_when_the_window_grows(viewer, session, layers, qtbot):
    session.update(case=phantom_case())
    layers.fit()
    before = viewer.scene.camera.zoom
    viewer.window.resize(1200, 900)
    qtbot.waitUntil(lambda: viewer.scene.camera.zoom > before * 1.05)
    viewer.scene.camera.zoom = 3.0
    viewer.window.resize(900, 700)
    qtbot.wait(50)
    assert viewer.scene.camera.zoom == 3.0


def _resident_mb():
    status = Path("/proc/self/statm").read_text().split()
    return int(status[1]) * resource.getpagesize() / 2**20


@pytest.mark.slow
def test_memory_stays_flat_over_many_cases(viewer, session, layers):
    rng = np.random.default_rng(0)
    after = []
    for number in range(25):
        hu = rng.integers(-1000, 1000, (160, 160, 100), dtype=np.int16)
        mask = np.zeros(hu.shape, bool)
        mask[40:90, 40:90, 20:60] = hu[40:90, 40:90, 20:60] > 0
        case = case_of(*stored(hu, (0, 1, 2), (False,) * 3), {"m": mask}, case_id=str(number))
        session.update(case=case)
        layers.highlight(case.masks["m"])
        picture(viewer)
        del case, mask, hu
        if number % 5 == 4:
            gc.collect()
        after.append(_resident_mb())
    assert np.mean(after[-5:]) - np.mean(after[4:9]) < 20  # one case and its masks take 12 MB
