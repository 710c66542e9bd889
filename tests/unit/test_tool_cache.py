"""Tool caches, with and without their wrapper, with any keys inside."""

import json

import pytest

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.tool_cache import is_tool_cache, read_tool_cache

ENTRIES = {
    "BDMAP_00000001": {
        "segment": {"liver": {"mask_found": True, "any key": [1, 2]}},
        "measure": {"liver": {"volume_cm3": {"value": 1200}}, "spleen": "odd"},
    },
    "BDMAP_00000002": {},
}


@pytest.fixture(params=["wrapped", "bare"])
def path(request, tmp_path):
    data = {"cache": ENTRIES} if request.param == "wrapped" else ENTRIES
    file = tmp_path / "cache.json"
    file.write_text(json.dumps(data))
    return file


def test_results_are_passed_on_as_they_are(path):
    cache = read_tool_cache(path)
    case = "BDMAP_00000001"
    assert cache.segment(case, "liver") == {"mask_found": True, "any key": [1, 2]}
    assert cache.measure(case, "liver", "volume_cm3") == {"value": 1200}
    assert cache.targets(case) == ("liver", "spleen")


def test_what_is_not_there_is_none(path):
    cache = read_tool_cache(path)
    assert cache.segment("gone", "liver") is None
    assert cache.measure("BDMAP_00000001", "spleen", "volume_cm3") is None
    assert cache.targets("BDMAP_00000002") == ()


def test_a_cache_is_recognised(path):
    assert is_tool_cache(path)


@pytest.mark.parametrize("data", [[], {}, {"x": 1}, {"cache": {"x": {"other": 1}}}])
def test_other_files_say_what_was_expected(tmp_path, data):
    file = tmp_path / "x.json"
    file.write_text(json.dumps(data))
    assert not is_tool_cache(file)
    with pytest.raises(InputFileError, match=r"x\.json"):
        read_tool_cache(file)


def test_cases_that_are_no_objects_are_named(tmp_path):
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"cache": {**ENTRIES, "bad": 3}}))
    assert "case bad" in read_tool_cache(file).problems[0]
