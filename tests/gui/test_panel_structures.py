"""The Structures panel on a real viewer: what is listed, hidden, drawn and gone to."""

from dataclasses import replace

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication
from view_cases import case_of, mask_of, phantom_case, picture

from napari_ctvqa.core.cases import LabelMap, Source
from napari_ctvqa.core.colours import case_colours, highlight_pixels
from napari_ctvqa.core.error_maps import COLOURS
from napari_ctvqa.core.overlay_state import Drawing
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.widgets.focus import Focus
from napari_ctvqa.widgets.jobs import Jobs
from napari_ctvqa.widgets.panels.structures import StructuresPanel
from napari_ctvqa.widgets.structure_model import HIDDEN, NAME, SOURCE, VOLUME
from napari_ctvqa.widgets.structures import Structures


@pytest.fixture
def jobs():
    made = Jobs(lambda error: pytest.fail(str(error)))
    yield made
    made.close()


@pytest.fixture
def structures(session, layers, jobs):
    made = Structures(session, jobs, Focus(session, layers))
    yield made
    made.close()


@pytest.fixture
def panel(qtbot, session, structures):
    made = StructuresPanel(session)
    qtbot.addWidget(made)
    made.resize(420, 400)
    made.show()
    return made


def column(panel, which):
    model = panel._model
    return [model.index(row, which).data() for row in range(model.rowCount())]


def show(session, case, beside=()):
    session.update(case=case, case_state=CaseState.READY)
    session.update(beside=tuple(beside))


def shifted(case, name, by=2, source=Source.PREDICTED):
    """The same mask, some voxels to the left."""
    grid = case.volume.display_grid
    inside = np.zeros(grid.shape_zyx, bool)
    inside[case.masks[name].region.box_zyx] = case.masks[name].region.crop_zyx
    return mask_of(name, np.roll(inside, by, axis=2), grid, source=source)


def near(shot, colour, tolerance=3):
    return (abs(shot.astype(int) - np.array(colour)) <= tolerance).all(axis=-1)


def over(colour, alpha, grey):
    return np.rint(alpha * np.array(colour) + (1 - alpha) * grey)


# ------------------------------------------------------------------------------ list


def test_every_mask_of_every_source_is_listed_with_its_volume(session, panel):
    case = phantom_case()
    show(session, case, [shifted(case, "rod"), shifted(case, "ball", source=Source.TOOL)])
    assert column(panel, NAME) == ["rod", "cube", "ball", "rod", "ball"]
    assert column(panel, SOURCE) == ["reference"] * 3 + ["model", "tool"]
    voxel_ml = 0.9 * 1.1 * 2.5 / 1000
    assert column(panel, VOLUME)[0] == f"{case.masks['rod'].region.voxels * voxel_ml:.3g}"


def test_search_sort_and_empty_masks(session, panel, qtbot):
    case = phantom_case()
    nothing = mask_of("spleen", np.zeros(case.volume.grid.shape_zyx, bool), case.volume.grid)
    show(session, replace(case, masks={**case.masks, "spleen": nothing}))
    assert column(panel, VOLUME)[3] == "empty"
    qtbot.keyClicks(panel._search, "ball")
    assert column(panel, NAME) == ["ball"]
    panel._search.clear()
    panel._table.sortByColumn(NAME, Qt.SortOrder.DescendingOrder)
    assert column(panel, NAME) == ["spleen", "rod", "cube", "ball"]
    panel._table.sortByColumn(VOLUME, Qt.SortOrder.AscendingOrder)
    sizes = {name: mask.region.voxels for name, mask in case.masks.items()}
    assert column(panel, NAME)[1:] == sorted(sizes, key=sizes.get)


def test_reference_volumes_do_not_tell_a_hidden_reference(session, panel):
    import panel_sessions

    case = phantom_case()
    show(session, case, [shifted(case, "rod")])
    session.update(question=panel_sessions.question(), hide_reference=True)
    assert column(panel, VOLUME) == [HIDDEN] * 3 + [column(panel, VOLUME)[3]]
    panel._table.sortByColumn(VOLUME, Qt.SortOrder.AscendingOrder)
    assert column(panel, NAME)[:3] == ["rod", "cube", "ball"]  # no order that would tell
    session.wishes.error_map.emit("rod")


def test_a_hundred_masks_are_listed(session, panel):
    case = phantom_case()
    rod = case.masks["rod"]
    many = {f"thing {n}": replace(rod, structure=f"thing {n}") for n in range(100)}
    show(session, replace(case, masks=many))
    assert panel._model.rowCount() == 100


# ------------------------------------------------------------------------------ hiding


def test_a_click_on_the_check_box_hides_a_structure_here_and_in_the_next_case(
    viewer, session, layers, panel, qtbot
):
    show(session, phantom_case())
    layers.go_to(0, 7)
    colour = case_colours(["rod", "cube", "ball"], ())["rod"]
    before = drawn(viewer, colour)
    panel._table.setCurrentIndex(panel._model.index(0, NAME))
    qtbot.keyClick(panel._table, Qt.Key.Key_Space)
    assert session.overlays.hidden == {"rod"}
    assert before > 100 and drawn(viewer, colour) == 0
    assert "rod" not in [d.structure for d in layers.drawn_here()]
    show(session, phantom_case(case_id="another"))
    assert drawn(viewer, colour) == 0
    qtbot.mouseClick(panel._all, Qt.MouseButton.LeftButton)
    layers.go_to(0, 7)
    assert drawn(viewer, colour) == before


def drawn(viewer, colour):
    """Return how many pixels have the differences of a colour's outline."""
    shot = picture(viewer).astype(int)
    wanted = 0.9 * np.diff(np.array(colour, int))
    return int((abs(np.diff(shot, axis=-1) - wanted) <= 4).all(axis=-1).sum())


def test_only_this_and_back(viewer, session, layers, panel, qtbot):
    show(session, phantom_case())
    layers.go_to(0, 7)
    panel._table.setCurrentIndex(panel._model.index(1, NAME))
    qtbot.mouseClick(panel._solo, Qt.MouseButton.LeftButton)
    assert [d.structure for d in layers.drawn_here()] == ["cube"]
    qtbot.mouseClick(panel._solo, Qt.MouseButton.LeftButton)
    assert {d.structure for d in layers.drawn_here()} == {"cube", "rod"}
    qtbot.mouseClick(panel._none, Qt.MouseButton.LeftButton)
    assert layers.drawn_here() == []


def test_outline_and_off_by_source(viewer, session, layers, panel):
    show(session, phantom_case())
    layers.go_to(0, 7)
    colour = case_colours(["rod", "cube", "ball"], ())["cube"]
    inside = over(colour, 0.25, 255 * (160 + 160) / 400)
    filled = near(picture(viewer), inside).sum()
    session.wishes.draw_source.emit("reference", "outline")
    assert filled > 200 and near(picture(viewer), inside).sum() == 0
    assert near(picture(viewer), colour).sum() > 50  # the outline, opaque
    session.wishes.draw_source.emit("reference", "")
    assert session.overlays.drawing(Source.REFERENCE) is Drawing.OFF
    assert near(picture(viewer), colour).sum() == 0 and layers.drawn_here() == []
    session.wishes.draw_source.emit("reference", "fill")
    assert near(picture(viewer), inside).sum() == filled


# ------------------------------------------------------------------------- going there


@pytest.mark.parametrize("how", ["enter", "double click"])
def test_enter_or_a_double_click_goes_to_the_largest_slice(session, layers, panel, qtbot, how):
    case = phantom_case()
    show(session, case)
    layers.go_to(0, 0)
    index = panel._model.index(2, NAME)
    panel._table.setCurrentIndex(index)
    if how == "enter":
        qtbot.keyClick(panel._table, Qt.Key.Key_Return)
    else:
        at = panel._table.visualRect(index).center()
        view = panel._table.viewport()
        qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=at)
        qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=at)
    ball = case.masks["ball"].region
    areas = ball.crop_zyx.sum(axis=(1, 2))
    assert layers.current_slice(0) == ball.box_zyx[0].start + int(np.argmax(areas))
    assert layers.focused is case.masks["ball"]


def test_a_mask_beside_stands_out_where_it_lies(viewer, session, layers, panel):
    case = phantom_case()
    other = shifted(case, "ball", by=5)
    show(session, case, [other])
    session.wishes.go_to_mask.emit(other)
    assert layers.focused is other
    assert highlight_pixels(picture(viewer)).any()


# --------------------------------------------------------------------------- error map


def test_error_map_draws_three_colours_and_their_legend(
    viewer, session, layers, panel, jobs, qtbot
):
    case = phantom_case()
    show(session, case, [shifted(case, "cube")])
    layers.go_to(0, case.masks["cube"].region.box_zyx[0].start + 1)
    panel._table.setCurrentIndex(panel._model.index(1, NAME))
    qtbot.mouseClick(panel._errors, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.error_map is not None)
    shot = picture(viewer)
    for colour in COLOURS.values():
        assert near(shot, colour).sum() > 20, colour
    cube = case_colours(["rod", "cube", "ball"], ())["cube"]
    assert drawn(viewer, cube) == 0  # the two masks themselves are not drawn below it
    words = [d.structure for d in layers.drawn_here()][:3]
    assert words == ["both", "only reference", "only model"]
    assert "Dice 0.600" in panel._note.text()
    session.update(case=phantom_case(case_id="another"))
    assert session.error_map is None and session.beside == ()
    for colour in COLOURS.values():
        assert near(picture(viewer), colour).sum() == 0


def test_of_overlapping_masks_both_are_seen(viewer, session, layers, panel):
    """The larger one's outline runs over the smaller one."""
    case = phantom_case()
    grid = case.volume.display_grid
    large, small = np.zeros(grid.shape_zyx, bool), np.zeros(grid.shape_zyx, bool)
    large[4:8, 4:16, 4:14] = True
    small[4:8, 7:11, 8:20] = True
    made = case_of(
        np.zeros(grid.shape_zyx, np.int16).transpose(2, 1, 0),
        np.diag([-1.0, -1, -1, 1]),
        {n: a.transpose(2, 1, 0) for n, a in (("large", large), ("small", small))},
    )
    whole = made.label_maps["organs"]
    shared = int((large & small).sum())
    organs = LabelMap("organs", whole.array_zyx, whole.structures, {"large": shared})
    show(session, replace(made, label_maps={"organs": organs}))
    layers.go_to(0, made.volume.display_grid.shape_zyx[0] - 1 - 5)
    layers.go_to(0, 5)
    colours = case_colours(["large", "small"], ())
    plane = layers.layer("organs").data.covered_on(0, 5)
    assert list(plane.values()) == [120]
    assert {d.structure for d in layers.drawn_here()} == {"large", "small"}
    assert drawn(viewer, colours["large"]) > 100 and drawn(viewer, colours["small"]) > 100


# ------------------------------------------------------------------------ masks beside


def test_a_model_s_folder_of_masks_is_shown_beside(
    tmp_path, session, layers, panel, qtbot, phantom
):
    import phantoms

    from napari_ctvqa.io.case_files import find_case
    from napari_ctvqa.io.reader import read_case

    folder = phantoms.save_case(tmp_path / "case")
    other = phantoms.save_case(tmp_path / "other")
    show(session, read_case(find_case(folder), label_maps=True))
    session.wishes.open_masks.emit(other / "segmentations")
    qtbot.waitUntil(lambda: len(session.beside) > 0)
    assert {mask.source for mask in session.beside} == {Source.PREDICTED}
    assert {mask.structure for mask in session.beside} == set(session.case.masks)
    assert layers.layer("predicted").visible
    session.wishes.error_map.emit(session.beside[0].structure)
    qtbot.waitUntil(lambda: session.error_map is not None)
    assert session.error_map.dice == 1


def test_masks_without_a_case_are_a_sentence(session, panel, tmp_path):
    session.wishes.open_masks.emit(tmp_path)
    assert "no case" in str(session.problem)
    QApplication.processEvents()
