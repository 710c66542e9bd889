import json

import numpy as np
import pytest

from napari_ctvqa.core.windows import (
    Preset,
    dragged,
    preset_faults,
    preset_table,
    presets,
    region_window,
    user_changes,
    width_level,
)

TABLE = {
    "abdomen": (-160, 240),
    "liver": (-45, 105),
    "lung": (-1350, 150),
    "mediastinum": (-125, 225),
    "bone": (-500, 1300),
    "brain": (0, 80),
    "subdural": (-25, 175),
    "stroke": (20, 60),
    "CT angiography": (0, 600),
    "spine": (-75, 175),
    "temporal bone": (-800, 2000),
    "air": (-926, 74),
}


def test_every_window_of_the_table_is_shipped_with_its_limits():
    assert {p.name: (p.lo, p.hi) for p in presets()} == TABLE


def test_no_two_presets_share_a_key():
    keys = [p.key for p in presets() if p.key]
    assert len(keys) == len(set(keys)) == 10


def test_level_is_half_the_sum():
    assert width_level(-160, 240) == (400, 40)


@pytest.fixture
def user_file(tmp_path):
    def write(rows):
        path = tmp_path / "window_presets.json"
        path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
        return path

    return write


def test_users_row_replaces_the_shipped_one_and_takes_its_key(user_file):
    path = user_file([{"name": "Lung", "width": 1400, "level": -500, "key": "1"}])
    table = preset_table(path)
    assert table.problems == ()
    assert table.named("lung") == Preset("Lung", 1400, -500, "1")
    assert table.named("abdomen").key == ""
    assert len(table.presets) == len(TABLE)


def test_users_new_row_comes_last(user_file):
    path = user_file({"presets": [{"name": "mine", "width": 10, "level": 5}]})
    assert presets(path)[-1] == Preset("mine", 10, 5, "")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (7, "is not an object"),
        ({"name": "", "width": 1, "level": 1}, "needs a name"),
        ({"name": "x", "width": 0, "level": 1}, "not above 0"),
        ({"name": "x", "width": "wide", "level": 1}, "no usable width"),
        ({"name": "x", "width": 5, "level": None}, "no usable level"),
        ({"name": "x", "width": True, "level": 1}, "no usable width"),
        ({"name": "x", "width": 5, "level": 1e9}, "no usable level"),
        ({"name": "x", "width": 5, "level": 1, "key": "F1"}, "single character"),
    ],
)
def test_bad_row_is_named_and_the_good_ones_are_used(user_file, row, said):
    path = user_file([row, {"name": "mine", "width": 10, "level": 5}])
    table = preset_table(path)
    assert table.named("mine") is not None
    assert len(table.problems) == 1
    assert "preset 1" in table.problems[0]
    assert said in table.problems[0]
    assert str(path) in table.problems[0]


@pytest.mark.parametrize("text", ["{", "3", '{"presets": 4}', '[{"width": NaN, "name": "x"}]'])
def test_broken_file_leaves_the_shipped_presets(user_file, text):
    table = preset_table(user_file(text))
    assert table.presets == presets()
    assert len(table.problems) == 1


def test_nan_is_no_width(user_file):
    table = preset_table(user_file('[{"name": "x", "width": NaN, "level": 1}]'))
    assert "no usable width" in table.problems[0]


def test_a_drag_moves_width_to_the_right_and_level_down():
    assert dragged(400, 40, 10, 0) == (440, 40)
    assert dragged(400, 40, 0, 10) == (400, 80)
    assert dragged(1500, -600, -100, -25) == (1100, -700)


def test_a_narrow_window_is_dragged_in_finer_steps():
    assert dragged(80, 40, 10, 0) == (88, 40)
    assert dragged(80, 40, 0, 5) == (80, 44)


def test_a_drag_never_turns_the_window_round_nor_loses_it():
    width, level = dragged(400, 40, -10_000, 10_000)
    assert (width, level) == (1, 3071)
    width, level = dragged(400, 40, 10_000, -10_000)
    assert (width, level) == (8190, -1024)


def test_a_region_s_window_is_from_the_5th_to_the_95th_percentile():
    values = np.arange(101, dtype=np.int16) * 10
    assert region_window(values) == (900, 500)
    assert region_window(np.append(values.astype(float), [np.nan, np.inf])) == (900, 500)


def test_a_region_of_one_value_has_a_window_around_it_and_an_empty_one_none():
    assert region_window(np.full(7, 60, np.int16)) == (10, 60)
    assert region_window(np.zeros(0, np.int16)) is None


def test_what_is_kept_gives_the_same_table_again(user_file):
    table = [p for p in presets() if p.name not in ("air", "lung")]
    table[0] = Preset("abdomen", 350, 50, "2")
    table.append(Preset("mine", 10, 5, "1"))
    changes = user_changes(table)
    assert changes["removed"] == ["lung", "air"]
    assert [row["name"] for row in changes["presets"]] == ["abdomen", "mine"]
    found = preset_table(user_file(changes))
    assert (list(found.presets), found.problems) == (table, ())


def test_the_shipped_table_is_kept_as_nothing():
    assert user_changes(presets()) == {"presets": [], "removed": []}


@pytest.mark.parametrize("removed", [3, [4], ["nobody"], "air"])
def test_odd_removals_remove_nothing(user_file, removed):
    assert preset_table(user_file({"presets": [], "removed": removed})).presets == presets()


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        (Preset(" ", 10, 5), "name has 1 to 40"),
        (Preset("x" * 41, 10, 5), "name has 1 to 40"),
        (Preset("x", 0, 5), "width is 1 to"),
        (Preset("x", float("nan"), 5), "width is 1 to"),
        (Preset("x", 10, float("inf")), "level is -"),
        (Preset("x", 10, 5, "ab"), "single character"),
        (Preset("x", 10, 5, " "), "space bar"),
        (Preset("x", 10, 5, "g"), "taken: Hide"),
        (Preset("x", 10, 5, "1"), "that of abdomen"),
        (Preset("LUNG", 10, 5), "two presets"),
    ],
)
def test_a_row_that_cannot_be_kept_is_named(preset, said):
    faults = preset_faults([*presets(), preset], {"G": "Hide or show all overlays"})
    assert list(faults) == [len(TABLE)]
    assert said in faults[len(TABLE)]
