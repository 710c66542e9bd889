"""Kits: what stands behind each, and that nothing an agent says ends its loop."""

import base64
import json
from pathlib import Path

import nibabel as nib
import numpy as np
import phantoms
import pytest
from evidence_cases import SHAPE, block, case, grid

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.kits import KITS, KitFiles
from napari_ctvqa.core.records import ToolResult
from napari_ctvqa.evidence.kits import kit_for
from napari_ctvqa.extensions import benchmarks, tools
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.png import SIGNATURE
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.kits import open_kit
from napari_ctvqa.runners.opening import open_path

STORED = {"mask_found": True, "n": 12, "box": [1, 2]}
CACHE = {
    "cache": {
        "case_1": {
            "segment": {"liver": STORED, "left kidney": {"mask_found": True}},
            "measure": {"liver": {"volume_cm3": {"vol": 1200.5}, "mean_hu": {"error": "no CT"}}},
        }
    }
}


def two_organs():
    hu = np.full(SHAPE, -1000, np.int16)
    liver = block(SHAPE, slice(5, 20), slice(10, 30), slice(5, 25))
    spleen = block(SHAPE, slice(8, 14), slice(20, 30), slice(40, 50))
    hu[liver], hu[spleen] = 50, 250
    return case({"liver": liver, "spleen": spleen}, hu=hu)


@pytest.fixture
def cache(tmp_path):
    file = tmp_path / "benchmark_oracle_tool_cache.json"
    file.write_text(json.dumps(CACHE))
    return KitFiles(oracle_cache=file, predicted_cache=file)


# ------------------------------------------------------------------------------------ contents


def test_each_kit_offers_the_tools_it_is_known_for():
    shown = two_organs()
    names = {name: set(kit_for(name, shown, predicted=shown).tools) for name in KITS}
    three = {"segment_organ", "measure", "lookup_medical_knowledge"}
    assert names["oracle"] == names["predicted"] == three
    assert names["vision"] == {"crop_organ", "list_available_crops", "lookup_medical_knowledge"}
    assert names["live"] == set(tools()) - {"crop_organ", "list_available_crops"}
    assert {"distance", "side", "contact", "hu_at_point", "relative_position"} <= names["live"]


def test_schemas_are_function_calling_objects_without_the_case():
    for schema in kit_for("live", two_organs()).schemas():
        assert schema["type"] == "function"
        assert set(schema["function"]) == {"name", "description", "parameters"}
        assert "image_id" not in json.dumps(schema)


def test_oracle_works_on_the_masks_and_names_the_region():
    kit = kit_for("oracle", two_organs())
    result = kit.call("measure", {"target": "liver", "measurement_type": "volume_cm3"})
    assert result.content["value"] == 15 * 20 * 20 * 2 / 1000
    assert result.region_id == "liver"
    found = kit.call("segment_organ", '{"target": "spleen"}')
    assert found.content["voxel_count"] == 600
    assert found.region_id == "spleen"


def test_a_shipped_cache_is_passed_on_as_it_is(cache):
    kit = kit_for("oracle", two_organs(), cache, prefer_files=True)
    assert kit.origin == "from benchmark_oracle_tool_cache.json"
    found = kit.call("segment_organ", {"target": "liver", "image_id": "case_9"})
    assert (found.content, found.region_id, found.error) == (STORED, "liver", "")
    measured = kit.call("measure", {"target": "Liver", "measurement": "volume_cm3"})
    assert measured.content == {"vol": 1200.5}
    other_name = kit.call("segment_organ", {"target": "kidney_left"})
    assert other_name.content == {"mask_found": True}
    failed = kit.call("measure", {"target": "liver", "measurement_type": "mean_hu"})
    assert (failed.content, failed.error) == ({"error": "no CT"}, "no CT")


def test_what_a_cache_lacks_gets_the_failure_result(cache):
    kit = kit_for("predicted", two_organs(), cache)
    assert kit.call("segment_organ", {"target": "spleen"}).content == {
        "mask_found": False,
        "error": "no mask for spleen",
        "available_targets": ["liver", "left kidney"],
    }
    missing = kit.call("measure", {"target": "liver", "measurement_type": "lesion_count"})
    assert missing.content == {"error": "no lesion_count of liver in the cache"}


def test_masks_come_before_a_cache_unless_the_cache_is_wanted(cache):
    shown = two_organs()
    assert kit_for("oracle", shown, cache).origin == "oracle masks"
    assert kit_for("predicted", shown, cache, predicted=shown).origin == "predicted masks"
    assert kit_for("predicted", shown, cache).origin.startswith("from ")


def test_predicted_without_anything_says_what_to_do():
    with pytest.raises(NotFoundError, match="has no predicted masks"):
        kit_for("predicted", two_organs())


def test_an_unknown_kit_lists_the_known():
    with pytest.raises(NotFoundError, match="oracle, predicted, vision, live"):
        kit_for("magic", two_organs())


# -------------------------------------------------------------------------------------- vision


def png(content):
    data = base64.b64decode(content["image_base64"])
    assert data.startswith(SIGNATURE)
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_crop_is_the_slice_through_the_organ_at_w400_l50():
    kit = kit_for("vision", two_organs())
    result = kit.call("crop_organ", {"organ": "spleen"})
    picture = png(result.content)
    assert picture.shape == SHAPE[1:]  # pixels of 1 mm × 1 mm
    # −150 HU is black, 250 HU white: 50 HU lies half-way, air is black
    assert picture[15, 10] == round(200 / 400 * 255)
    assert picture[25, 45] == 255
    assert picture[45, 5] == 0
    assert result.region_id == "spleen"
    assert (result.content["organ_queried"], result.content["organ_localized"]) == (
        "spleen",
        "spleen",
    )
    assert "patient's left is on the right" in result.content["note"]


def test_a_pair_is_shown_where_both_are():
    result = kit_for("vision", two_organs()).call("crop_organ", {"organ": "liver_spleen"})
    picture = png(result.content)
    assert picture[15, 10] > 0 and picture[25, 45] == 255


def test_a_lesion_shows_its_organ_and_sides_have_both_names():
    kidney = block(SHAPE, slice(5, 9), slice(10, 20), slice(40, 50))
    shown = case({"kidney_left": kidney, "liver": kidney})
    kit = kit_for("vision", shown)
    assert kit.call("crop_organ", {"organ": "liver_tumor"}).content["organ_localized"] == "liver"
    for asked in ("kidney_left", "left_kidney", "left kidney"):
        content = kit.call("crop_organ", {"organ": asked}).content
        assert content["organ_localized"] == "left_kidney"
    assert kit.call("crop_organ", {"organ": "kidney"}).error.startswith("no mask for kidney")


def test_pixels_are_squares_where_voxels_are_not():
    on = grid(spacing=(2.0, 2.0, 1.0))
    shown = case({"liver": block(SHAPE, slice(5, 9), slice(10, 20), slice(10, 20))}, on=on)
    picture = png(kit_for("vision", shown).call("crop_organ", {"organ": "liver"}).content)
    assert picture.shape == (2 * SHAPE[1], SHAPE[2])


def test_available_crops_are_what_can_be_shown():
    shown = two_organs()
    listed = kit_for("vision", shown).call("list_available_crops", None).content
    assert listed == {
        "image_id": "case_1",
        "available_organs": ["liver", "spleen", "liver_spleen"],
    }
    for organ in listed["available_organs"]:
        assert not kit_for("vision", shown).call("crop_organ", {"organ": organ}).error


def test_shipped_pictures_are_passed_on(tmp_path):
    for name in ("case_1_left_kidney.png", "case_1_liver.png", "case_12_liver.png", "x.txt"):
        (tmp_path / name).write_bytes(SIGNATURE + name.encode())
    files = KitFiles(crops=tmp_path)
    kit = kit_for("vision", two_organs(), files, prefer_files=True)
    listed = kit.call("list_available_crops", {}).content["available_organs"]
    assert listed == ["left_kidney", "liver"]
    result = kit.call("crop_organ", {"organ": "kidney_left"})
    assert base64.b64decode(result.content["image_base64"]).endswith(b"case_1_left_kidney.png")
    assert result.content["image_path"] == "case_1_left_kidney.png"
    assert kit.call("crop_organ", {"organ": "../x"}).content == {
        "error": "no picture of '../x'; there are: left_kidney, liver"
    }
    (tmp_path / "case_1_liver.png").write_bytes(b"<html>")
    assert "is no PNG picture" in kit.call("crop_organ", {"organ": "liver"}).error


# ---------------------------------------------------------------------------- what agents do


HUGE = "x" * 10_000_000
CALLS = [
    ("segment_organ", {}),
    ("segment_organ", {"target": 5}),
    ("segment_organ", {"target": HUGE}),
    ("segment_organ", {"target": "no such thing"}),
    ("segment_organ", HUGE),
    ("segment_organ", "{not json"),
    ("segment_organ", "[" * 100_000),
    ("segment_organ", ["liver"]),
    ("segment_organ", None),
    ("measure", {"target": "liver"}),
    ("measure", {"measurement_type": "volume_cm3"}),
    ("measure", {"target": "liver", "measurement_type": "12"}),
    ("measure", {"target": "liver", "measurement_type": HUGE}),
    ("lookup_medical_knowledge", {"query": HUGE}),
    ("lookup_medical_knowledge", {}),
    ("lookup_medical_knowledge", {"query": "zzz"}),
    ("crop_organ", {"organ": HUGE}),
    ("crop_organ", {"organ": 3}),
    ("crop_organ", {}),
    ("hu_at_point", {"i": "3", "j": "4", "k": "5"}),
    (HUGE, {}),
    ("rm -rf", {}),
    (None, {}),
    (5, "5"),
]


@pytest.mark.parametrize("name", KITS)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]!s:.20} {call[1]!s:.30}")
def test_whatever_an_agent_does_wrong_is_a_failure_result(name, call, cache):
    shown = two_organs()
    for prefer_files in (False, True):
        kit = kit_for(name, shown, cache, predicted=shown, prefer_files=prefer_files)
        result = kit.call(*call)
        assert isinstance(result, ToolResult)
        assert len(json.dumps(result.content)) < 3000
        known = call[0] in kit.tools
        if known and call[0] == "lookup_medical_knowledge":
            (entry,) = result.content["results"]
            assert entry["source"] == "N/A"
            continue
        assert result.error
        assert result.content["error"] == result.error
        readable = isinstance(call[1], dict | type(None))
        if known and call[0] == "segment_organ" and readable:
            assert result.content["mask_found"] is False
            assert "liver" in result.content["available_targets"]
        else:
            assert set(result.content) == {"error"}


def test_an_exception_in_a_tool_is_its_type_and_message(monkeypatch):
    kit = kit_for("oracle", two_organs())

    def broken(case, arguments):
        raise ZeroDivisionError("by zero " + HUGE)

    kit._instead["measure"] = broken
    result = kit.call("measure", {"target": "liver"})
    assert result.content["error"].startswith("ZeroDivisionError: by zero")
    assert len(result.error) <= 500


# -------------------------------------------------------------------------------- of what is open


def test_a_kit_of_what_is_open(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    root = tmp_path / "bench" / "benchmark"
    case_id = "BDMAP_00000001"
    phantoms.save_case(root / "ct" / case_id)
    asked = {
        "qid": "q1", "image_id": case_id, "question": "Is there a liver lesion?",
        "mc_question": "Is there a liver lesion? A: Yes B: No", "answer": "Yes",
        "correct_option": "A", "organ": "liver", "lesion": False,
        "question_type": "recognition", "question_subtype": "liver lesion existence",
        "spacing": "[3. 3.5 5.]", "shape": "(24, 20, 12)",
    }  # fmt: skip
    (root / "test_qa.json").write_text(json.dumps({"questions": [asked]}))
    (tmp_path / "bench" / "tool_cache").mkdir()
    for name in ("training_oracle_tool_cache", "benchmark_oracle_tool_cache"):
        path = tmp_path / "bench" / "tool_cache" / f"{name}.json"
        path.write_text(json.dumps({"cache": {case_id: CACHE["cache"]["case_1"]}}))
    (root / "images_2d" / "organ").mkdir(parents=True)
    opened = open_path(tmp_path / "bench")
    files = benchmarks()["deeptumorvqa"].kit_files(opened.path)
    assert files.oracle_cache.name == "benchmark_oracle_tool_cache.json"
    assert files.predicted_cache is None
    assert files.crops == root / "images_2d" / "organ"
    shown = read_case(opened.case_files(case_id))
    stored = open_kit(opened, "oracle", shown, prefer_files=True)
    assert stored.call("segment_organ", {"target": "liver"}).content == STORED
    predicted = tmp_path / "predicted"
    smaller = nib.load(root / "ct" / case_id / "segmentations" / "liver.nii.gz")
    array = np.asarray(smaller.dataobj).copy()
    array[tuple(np.argwhere(array)[10:].T)] = 0
    folder = predicted / case_id / "segmentations"
    folder.mkdir(parents=True)
    nib.save(nib.Nifti1Image(array, smaller.affine), folder / "liver.nii.gz")
    kit = open_kit(opened, "predicted", shown, predicted_roots=[predicted])
    assert kit.call("segment_organ", {"target": "liver"}).content["voxel_count"] == 10
    assert kit.case.masks["liver"].source is Source.PREDICTED
    assert kit.call("segment_organ", {"target": "spleen"}).content["mask_found"] is False


def test_a_case_id_never_leads_out_of_the_predicted_folder(tmp_path):
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.runners.kits import predicted_files

    phantoms.save_case(tmp_path / "other")
    (tmp_path / "root").mkdir()
    files = CaseFiles("../other", Path("ct.nii.gz"))
    assert predicted_files(files, [tmp_path / "root"]) is None
    assert find_case(tmp_path / "other").masks
