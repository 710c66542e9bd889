import json

import numpy as np
import pytest
from evidence_cases import case, grid

from napari_ctvqa.core.geometry import FileSpace, Grid
from napari_ctvqa.core.knowledge import NOTHING_FOUND
from napari_ctvqa.core.measure import BORDER_CAVEAT, MEASURED
from napari_ctvqa.extensions import tools

SHAPE = (20, 24, 28)
ON = grid(SHAPE, (2.0, 1.0, 1.0))
TOOLS = tools()
TEN_MB = "x" * 10_000_000


def box(*slices):
    array = np.zeros(SHAPE, bool)
    if slices:
        array[slices] = True
    return array


CASE = case(
    {
        "liver": box(slice(2, 12), slice(3, 13), slice(4, 14)),
        "liver_lesion": box(slice(4, 6), slice(5, 7), slice(6, 8)),
        "kidney_left": box(slice(0, 5), slice(3, 8), slice(20, 24)),
        "pancreatic_lesion": box(),
    },
    on=ON,
)


def call(name, **arguments):
    result = TOOLS[name](CASE, arguments)
    json.dumps(result.content)  # what a model is sent is JSON
    return result


def test_the_three_tools_have_deeptumorvqas_names_and_required_arguments():
    theirs = ("segment_organ", "measure", "lookup_medical_knowledge")
    assert {n: TOOLS[n].parameters["required"] for n in theirs} == {
        "segment_organ": ["target"],
        "measure": ["target", "measurement_type"],
        "lookup_medical_knowledge": ["query"],
    }
    assert {n: TOOLS[n].primitive for n in theirs} == {
        "segment_organ": "segment",
        "measure": "measure",
        "lookup_medical_knowledge": "lookup",
    }
    enum = TOOLS["measure"].parameters["properties"]["measurement_type"]["enum"]
    assert sorted(enum) == [
        "largest_lesion_diameter_cm",
        "largest_lesion_volume_cm3",
        "lesion_count",
        "max_diameter_mm",
        "mean_hu",
        "volume_cm3",
    ]


def test_segmenting_names_voxels_box_and_region():
    found = call("segment_organ", target="liver")
    assert found.content == {
        "mask_found": True,
        "voxel_count": 1000,
        "bbox_ijk": [4, 14, 3, 13, 2, 12],
        "region_id": "liver",
    }
    assert found.region_id == "liver" and not found.error


def test_the_box_of_a_ras_file_counts_from_the_other_end():
    # display z, y, x run against k, j, i of a RAS file: k = 19 - z, j = 23 - y, i = 27 - x
    space = FileSpace(SHAPE[::-1], np.eye(4), 1, 1)
    ras = Grid(SHAPE, ON.affine_zyx_to_ras, space, (2, 1, 0), (True, True, True))
    given = case({"liver": box(slice(2, 12), slice(3, 13), slice(4, 14))}, on=ras)
    found = TOOLS["segment_organ"](given, {"target": "liver"})
    assert found.content["bbox_ijk"] == [14, 24, 11, 21, 8, 18]


def test_the_box_follows_the_files_own_axes():
    # k runs to the left and j to the head: i = y, j = 19 - z, k = x
    affine = np.array([[0, 0, -1.0, 0], [0, -1.0, 0, 0], [-2.0, 0, 0, 0], [0, 0, 0, 1]])
    other = Grid(
        SHAPE, affine, FileSpace((24, 20, 28), np.eye(4), 1, 1), (1, 0, 2), (True, False, False)
    )
    given = case({"liver": box(slice(2, 12), slice(3, 13), slice(4, 14))}, on=other)
    found = TOOLS["segment_organ"](given, {"target": "liver"})
    assert found.content["bbox_ijk"] == [3, 13, 8, 18, 4, 14]


def test_an_empty_mask_is_found_and_has_no_voxel():
    found = call("segment_organ", target="pancreatic_lesion")
    assert found.content["mask_found"] is True
    assert (found.content["voxel_count"], found.content["bbox_ijk"]) == (0, None)


def test_a_missing_mask_is_a_miss_that_lists_what_there_is():
    found = call("segment_organ", target="spleen")
    assert found.content == {
        "mask_found": False,
        "error": "no mask for spleen",
        "available_targets": ["kidney_left", "liver", "liver_lesion", "pancreatic_lesion"],
    }
    assert found.error == "no mask for spleen"


def test_names_of_the_benchmark_lead_to_the_masks_that_are_there():
    assert call("segment_organ", target="left kidney").region_id == "kidney_left"
    tumour = call("segment_organ", target="liver_tumor")
    assert tumour.region_id == "liver_lesion"
    assert "liver_lesion stands in" in tumour.content["caveats"][0]


def test_measuring_names_value_unit_and_region():
    found = call("measure", target="liver", measurement_type="volume_cm3")
    assert found.content == {
        "value": 2.0,
        "unit": "cm³",
        "measurement_type": "volume_cm3",
        "target": "liver",
        "region_id": "liver",
    }
    alias = call("measure", target="liver", measurement="volume_cm3")
    assert alias.content == found.content


def test_every_measurement_type_works_and_caveats_travel():
    for kind in MEASURED:
        found = call("measure", target="liver_lesion", measurement_type=kind)
        assert found.content["measurement_type"] == kind and not found.error
    cut = call("measure", target="kidney_left", measurement_type="volume_cm3")
    assert cut.content["caveats"] == [BORDER_CAVEAT]


def test_what_cannot_be_measured_is_an_error():
    missing = call("measure", target="spleen", measurement_type="volume_cm3")
    assert missing.content == {"error": "no mask for spleen"}
    empty = call("measure", target="pancreatic_lesion", measurement_type="mean_hu")
    assert list(empty.content) == ["error"] and "no voxel" in empty.error
    unknown = call("measure", target="liver", measurement_type="sphericity")
    assert "sphericity" in unknown.error and "volume_cm3" in unknown.error


@pytest.mark.parametrize("name", ["segment_organ", "measure", "lookup_medical_knowledge"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"target": 5, "query": 5, "measurement_type": "volume_cm3"},
        {"target": None, "query": None, "measurement_type": None},
        {"target": ["liver"], "query": {"a": 1}, "measurement_type": ["volume_cm3"]},
        {"target": "", "query": "  ", "measurement_type": ""},
        {"target": TEN_MB, "query": TEN_MB, "measurement_type": "volume_cm3"},
        {"target": "liver", "measurement_type": TEN_MB, "querie": "x"},
        {"target": "../../etc/passwd", "measurement_type": "volume_cm3"},
        {"target": "liver\x00", "measurement_type": "volume_cm3", "query": "\x00"},
        {"target": "kidney", "measurement_type": 3.5},
        [],
        "liver",
        None,
    ],
)
def test_a_wrong_call_is_a_failure_result_never_an_exception(name, arguments):
    result = TOOLS[name](CASE, arguments)
    text = json.dumps(result.content)
    assert len(text) < 20_000, "the argument is not sent back"
    if name == "segment_organ" and result.error:
        assert result.content["mask_found"] is False and "available_targets" in result.content
    elif name == "measure" and result.error:
        assert result.content == {"error": result.error}
    elif name == "lookup_medical_knowledge":
        assert result.content["results"][0]["source"]
    if arguments == {}:
        assert "missing argument" in result.error


def test_looking_up_returns_one_or_two_facts_with_sources():
    found = call("lookup_medical_knowledge", query="Splenomegaly grading: mild or severe?")
    first = found.content["results"][0]
    assert "314.5" in first["text"] and "800" in first["text"] and "Bezerra" in first["source"]
    assert 1 <= len(found.content["results"]) <= 2


def test_nothing_found_has_the_same_shape():
    nothing = call("lookup_medical_knowledge", query="cricket")
    assert nothing.content == {"results": [{"text": NOTHING_FOUND, "source": "N/A"}]}
