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


def test_the_last_line_says_what_is_assumed_to_be_absent(benchmark, capsys):
    _, out = evidence(benchmark, capsys, "q000001", "--absent-means-none")
    assert "agrees, assumed (a lesion without a mask file is taken as not there)\n" in out
    _, out = evidence(benchmark, capsys, "q000000", "--absent-means-none")
    assert "\nagrees\n" in out, "nothing is assumed where the mask is there"
    _, out = evidence(benchmark, capsys, "q000001")
    assert "is taken as not there" not in out


def test_the_text_names_every_step_and_the_other_rules(benchmark, capsys):
    _, out = evidence(benchmark, capsys, "q000006")
    assert "understood: liver lesion" in out
    assert "2. measure liver lesion: number of lesions = 1 lesion\n" in out
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


# --------------------------------------------------------------- targets that a person names


@pytest.fixture
def table(benchmark, tmp_path):
    case = benchmark / "benchmark" / "ct" / "BDMAP_00000001"
    path = tmp_path / "mine.csv"
    spleen_cm3 = small_benchmark.questions_of("x", 0)[4]["answer"]
    rows = [
        f"t1,{case},How big is that organ in cm3?,{spleen_cm3}",
        f"t2,{case},Is there any lesion?,Yes",
        f"t3,{case},Is this organ spared by whatever was found elsewhere?,Yes",
        f"t4,{case},Is it free of lesions?,Yes",
    ]
    path.write_text("\n".join(["id,case,question,answer", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("question_id", "subtype", "target", "conclusion", "status"),
    [
        # a number has no opposite: it is compared although the question's words are not known
        ("t1", "organ volume measurement", "spleen", None, "agrees"),
        ("t2", "Liver_Lesion_Existence", "hepatic_lesion", "Yes", "agrees"),
        # the liver has a lesion; "spared" is not understood, and would turn the answer round
        ("t3", "liver lesion existence", "liver_lesion", "Yes", "cannot_check"),
        # "free of" is understood: the liver is not
        ("t4", "liver lesion existence", "liver_lesion", "No", "differs"),
    ],
)
def test_a_person_names_subtype_and_target_of_a_table_s_question(
    table, capsys, question_id, subtype, target, conclusion, status
):
    named = ("--subtype", subtype, "--target", target, "--json")
    code, out = evidence(table, capsys, question_id, *named)
    data = json.loads(out)
    assert code == 0
    assert data["status"] == status
    if conclusion:
        assert data["conclusion"] == conclusion
    if status == "cannot_check":
        assert "compare the conclusion with the reference yourself" in data["difference"]


def test_two_organs_can_be_named(table, capsys):
    code, out = evidence(
        table, capsys, "t1", "--subtype", "organ HU ratio", "--target", "liver", "--target",
        "spleen", "--json",
    )  # fmt: skip
    data = json.loads(out)
    assert code == 0
    assert {step["target"] for step in data["steps"][:-1]} == {"liver", "spleen"}
    assert data["conclusion"] == "1.20"  # 60 HU over 50 HU


def test_without_a_subtype_it_says_that_there_is_no_rule(table, capsys):
    _, out = evidence(table, capsys, "t1", "--json")
    assert json.loads(out)["status"] == "cannot_check"


@pytest.mark.parametrize("arguments", [("--subtype", "no such"), ("--target", "no such organ")])
def test_unknown_names_are_errors(table, capsys, arguments):
    code, out = evidence(table, capsys, "t1", *arguments, "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "not_found"


def test_a_question_of_ones_own_is_never_said_to_follow_a_known_rule(benchmark, table, capsys):
    named = ("--subtype", "organ volume measurement", "--target", "spleen", "--json")
    _, out = evidence(table, capsys, "t1", *named)
    own = json.loads(out)["steps"]
    assert all(step["assumed"] for step in own)
    assert own[1]["source"] == "assumed, after RadGPT's measuring code"
    _, out = evidence(benchmark, capsys, "q000004", "--json")
    step = json.loads(out)["steps"][1]
    assert not step["assumed"]
    assert step["source"].endswith("from which DeepTumorVQA's numbers come")
