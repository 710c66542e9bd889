import json

import pytest

from napari_ctvqa.core.windows import Preset, preset_table, presets, width_level

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
