"""``evidence PATH ID``: the documented keys, the slices, the text."""

import json

import nibabel as nib
import numpy as np
import pytest
import small_benchmark

from napari_ctvqa import cli

KEYS = {"id", "subtype", "understood", "steps", "conclusion", "reference", "status", "difference"}
STEP_KEYS = {
    "kind", "target", "measure", "value", "unit", "rule", "source", "assumed", "caveats", "mask",
    "slice_display", "slice_file",
}  # fmt: skip


@pytest.fixture
def benchmark(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    return small_benchmark.write(tmp_path / "bench", cases=1)


def evidence(benchmark, capsys, question_id, *more):
    code = cli.main(["evidence", str(benchmark), question_id, *more])
    return code, capsys.readouterr().out


def test_the_record_has_the_documented_keys(benchmark, capsys):
    code, out = evidence(benchmark, capsys, "q000004", "--json")
    data = json.loads(out)
    assert code == 0
    assert set(data) == KEYS
    assert all(set(step) == STEP_KEYS for step in data["steps"])
    assert [step["kind"] for step in data["steps"]] == ["segment", "measure", "conclude"]
    assert data["understood"]["structure"] == "spleen"
    assert (data["status"], data["difference"]) == ("agrees", None)
    measured = data["steps"][1]
    assert measured["mask"] == measured["target"] == "spleen"
    assert measured["unit"] == "cm³"
    assert measured["rule"] and measured["source"]


def test_slices_are_where_the_mask_is_largest_in_display_and_file(benchmark, capsys):
    path = benchmark / "benchmark" / "ct" / "BDMAP_00000001" / "segmentations" / "spleen.nii.gz"
    image = nib.load(path)
    areas = np.asarray(image.dataobj).sum(axis=(0, 1))
    _, out = evidence(benchmark, capsys, "q000004", "--json")
    step = json.loads(out)["steps"][0]
    # LPS files run from inferior to superior, the display from superior to inferior
    best = np.flatnonzero(areas == areas.max())
    assert step["slice_file"] == best[-1]
    assert step["slice_display"] == len(areas) - 1 - best[-1]


def test_what_cannot_be_checked_says_why_and_is_no_failure(benchmark, capsys):
    code, out = evidence(benchmark, capsys, "q000001", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["status"] == "cannot_check"
    assert data["difference"] == "no mask for colon_lesion"
    code, out = evidence(benchmark, capsys, "q000001", "--json", "--absent-means-none")
    data = json.loads(out)
    assert data["status"] == "agrees"
    assert data["steps"][-1]["assumed"]
    assert "assumed empty: no mask file" in data["steps"][-1]["caveats"]


def test_the_text_names_every_step_and_the_other_rules(benchmark, capsys):
    _, out = evidence(benchmark, capsys, "q000006")
    assert "understood: liver lesion" in out
    assert "2. measure liver_lesion lesion_count = 1 lesion\n" in out
    assert "recomputed: 1 lesion\nreference:  1\nagrees" in out
    assert "by radgpt_10mm3" in out


def test_an_unknown_question_is_an_error_that_says_where_to_look(benchmark, capsys):
    code, out = evidence(benchmark, capsys, "nope", "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "not_found"


def test_a_missing_case_is_an_error(benchmark, capsys):
    (benchmark / "benchmark" / "ct" / "BDMAP_00000001" / "ct.nii.gz").unlink()
    code, out = evidence(benchmark, capsys, "q000004", "--json")
    assert code == 1
    assert "BDMAP_00000001" in json.loads(out)["error"]["message"]
