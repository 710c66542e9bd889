"""``validate``: every reference recomputed, on several processes, through kills and bad input."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import small_benchmark

from napari_ctvqa import cli
from napari_ctvqa.core.checks import FIELDS, summary
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.io.append_log import BusyError
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.validate import validate

PER_CASE = 9
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def benchmark(tmp_path):
    return small_benchmark.write(tmp_path / "bench")


def edit(benchmark, change):
    """Change the questions on disk; ``change`` gets the list."""
    path = benchmark / "benchmark" / "test_qa.json"
    data = json.loads(path.read_text())
    change(data["questions"])
    path.write_text(json.dumps(data))


def checks_of(benchmark, **options):
    opened = open_path(benchmark)
    rows = options.pop("rows", range(len(opened.questions)))
    found = {}
    for step in validate(opened, rows, **options):
        found.update(step.checks)
    return [found[row] for row in sorted(found)]


def with_checks(steps):
    """Return the next step that has checks."""
    return next(step for step in steps if step.checks)


def table_of(out):
    with out.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run_command(*arguments):
    return cli.main([str(argument) for argument in arguments])


# ------------------------------------------------------------------------------ what it finds


def test_right_references_agree_and_what_has_no_mask_or_rule_cannot_be_checked(benchmark):
    checks = checks_of(benchmark, rows=range(PER_CASE))
    by_subtype = {check.subtype: check for check in checks}
    unknown = {"colon lesion existence", "adjacent organ"}
    assert {s for s, c in by_subtype.items() if c.status == "agrees"} == set(by_subtype) - unknown
    colon = by_subtype["colon lesion existence"]
    assert colon.status == "cannot_check"
    assert colon.reason == "no mask for colon_lesion"
    assert colon.first_differing_step == "segment colon_lesion"
    assert not colon.failed


def test_a_wrong_reference_differs_and_says_by_how_much_and_where(benchmark):
    def wrong(questions):
        questions[6]["correct_option"] = "A"  # two lesions, the phantom has one
        questions[7]["correct_option"] = "B"  # mild, the spleen is far below 314.5 cm³
        questions[0]["correct_option"] = "B"  # no liver lesion, there is one

    edit(benchmark, wrong)
    checks = checks_of(benchmark, rows=range(PER_CASE))
    assert [c.id for c in checks if c.status == "differs"] == ["q000000", "q000006", "q000007"]
    count = checks[6]
    assert (count.stated, count.recomputed) == ("2", "1 lesion")
    assert "50.0 % less" in count.reason
    assert count.relative_difference == -0.5
    assert count.first_differing_step == "measure lesion_count of liver_lesion"
    assert checks[0].first_differing_step == "segment liver_lesion"
    assert checks[7].first_differing_step == "measure volume_cm3 of spleen"


def test_right_by_another_rule_only_is_a_status_line_of_its_own(benchmark):
    # A voxel is 52.5 mm³: 24 of them are 1.3 cm³, 22 are 1.2 cm³, 8 % less. By the default rule the
    # right kidney is larger, by the 10 % rule they are the same, by the 5 % rule they are not.
    def compare(questions):
        questions[8].update(
            question_subtype="kidney volume comparison",
            organ="kidney",
            question="Which kidney is larger?",
            mc_question="Which kidney is larger? A: left kidney B: right kidney C: the same",
            answer="the same",
            correct_option="C",
        )

    edit(benchmark, compare)
    keep_voxels(benchmark, "kidney_left", 22)
    keep_voxels(benchmark, "kidney_right", 24)
    check = checks_of(benchmark, rows=[8])[0]
    assert check.status == "differs"
    assert check.recomputed == "right kidney"
    assert check.other_rules == {"within_5_percent": "differs", "within_10_percent": "agrees"}
    assert check.reason.startswith("differs by the default rule, agrees by ")
    assert "within_10_percent" in check.reason
    assert check.first_differing_step == "conclude kidney"
    assert check.agrees_by_another


def keep_voxels(benchmark, name, count):
    """Keep the first voxels of a mask of the first case."""
    case = benchmark / "benchmark" / "ct" / "BDMAP_00000001"
    path = case / "segmentations" / f"{name}.nii.gz"
    image = nib.load(path)
    array = np.asarray(image.dataobj).copy()
    array[tuple(np.argwhere(array)[count:].T)] = 0
    nib.save(nib.Nifti1Image(array, image.affine, image.header), path)


def test_absent_means_none_is_off_and_says_assumed(benchmark):
    colon = checks_of(benchmark, rows=[1], assume_none=True)[0]
    assert colon.status == "agrees"
    assert colon.caveats == ("assumed empty: no mask file",)


def test_duplicates_and_flawed_options_are_named(benchmark):
    def flawed(questions):
        questions[8] = {**questions[6], "qid": "again", "correct_option": "A", "answer": "2"}
        questions[6]["mc_question"] = "How many liver lesion instances? A: 1 B: 1 C: 0 D: 4"
        questions[5]["mc_question"] = "What is the mean HU value of the liver? A: 10.0 B: 70.0"
        questions[5]["answer"] = "70.0"

    edit(benchmark, flawed)
    checks = checks_of(benchmark, rows=range(PER_CASE))
    assert checks[6].status == "agrees"
    assert "options A and B both hold the recomputed value 1 lesion" in checks[6].reason
    assert "with another reference: again" in checks[6].reason
    assert "with another reference: q000006" in checks[8].reason
    assert checks[5].status == "differs"
    assert "no option holds the recomputed value 60.0 HU" in checks[5].reason


# --------------------------------------------------------------------------------- the command


def test_the_table_has_the_ten_columns_in_file_order(benchmark, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    assert run_command("validate", benchmark, "--jobs", "2", "--out", out, "--json") == 0
    records = json.loads(capsys.readouterr().out)
    rows = table_of(out)
    assert list(rows[0]) == list(FIELDS) == list(records[0])
    assert [row["id"] for row in rows] == [record["id"] for record in records]
    assert [row["id"] for row in rows] == [f"q{number:06d}" for number in range(2 * PER_CASE)]
    assert records[6]["other_rules"] == {"radgpt_10mm3": "agrees", "radgpt_ai_50mm3": "agrees"}
    assert json.loads(rows[6]["other_rules"]) == records[6]["other_rules"]
    assert not list(tmp_path.glob("*.partial*"))


def test_the_summary_counts_by_subtype(benchmark, tmp_path, capsys):
    assert run_command("validate", benchmark, "--out", tmp_path / "c.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    volume = next(line for line in lines if line.startswith("organ volume measurement"))
    assert volume.split()[3:] == ["6", "6", "0", "0", "0", "0"]
    assert lines[-2].split() == ["all", "18", "14", "0", "0", "4", "0"]
    counted = summary(checks_of(benchmark))
    assert counted["colon lesion existence"]["cannot_check"] == 2


def test_a_text_that_a_spreadsheet_would_calculate_is_text(benchmark, tmp_path):
    def formula(questions):
        questions[8]["answer"] = '=HYPERLINK("http://x")'
        questions[8]["mc_question"] = "What? A: @SUM(1) B: =1+1"
        questions[8]["correct_option"] = "B"

    edit(benchmark, formula)
    out = tmp_path / "c.csv"
    run_command("validate", benchmark, "--out", out)
    assert table_of(out)[8]["stated"] == "'=1+1"


def test_one_bad_case_never_stops_the_rest(benchmark, tmp_path, capsys):
    bad = benchmark / "benchmark" / "ct" / "BDMAP_00000001" / "ct.nii.gz"
    bad.write_bytes(b"not a volume")
    out = tmp_path / "c.csv"
    assert run_command("validate", benchmark, "--out", out, "--json") == 1
    records = json.loads(capsys.readouterr().out)
    assert all("ct.nii.gz" in r["reason"] for r in records[:PER_CASE])
    assert all(r["status"] == "cannot_check" for r in records[:PER_CASE])
    assert [r["status"] for r in records[PER_CASE:]].count("agrees") == 7


def test_an_absent_case_is_named_and_the_rest_is_checked(benchmark, tmp_path, capsys):
    edit(benchmark, lambda questions: questions[0].update(image_id="BDMAP_00000099"))
    out = tmp_path / "c.csv"
    assert run_command("validate", benchmark, "--out", out, "--json") == 1
    records = json.loads(capsys.readouterr().out)
    assert "BDMAP_00000099" in records[0]["reason"]
    assert records[2]["status"] == "agrees"


def test_a_worker_that_dies_costs_its_one_case(benchmark, monkeypatch):
    from napari_ctvqa.runners import check_pool

    real = check_pool._start
    begun = []

    def dying_first(*, polite):
        process = real(polite=polite)
        if not begun:
            process.kill()
        begun.append(process)
        return process

    monkeypatch.setattr(check_pool, "_start", dying_first)
    checks = checks_of(benchmark, jobs=1)
    assert all(c.failed and "ended (code -9)" in c.reason for c in checks[:PER_CASE])
    assert [c.status for c in checks[PER_CASE:]].count("agrees") == 7
    assert all(process.poll() is not None for process in begun)


def test_closing_ends_the_workers_at_once(benchmark, monkeypatch):
    from napari_ctvqa.runners import check_pool

    real = check_pool._start
    begun = []
    monkeypatch.setattr(
        check_pool, "_start", lambda *, polite: begun.append(real(polite=polite)) or begun[-1]
    )
    opened = open_path(benchmark)
    steps = validate(opened, range(len(opened.questions)), jobs=2)
    next(steps)
    next(steps)
    steps.close()
    assert begun
    assert all(process.poll() is not None for process in begun)


# -------------------------------------------------------------------------------- going on


def test_an_interrupted_validation_goes_on_where_it_was(benchmark, tmp_path):
    out = tmp_path / "c.csv"
    opened = open_path(benchmark)
    steps = validate(opened, range(len(opened.questions)), out=out)
    first = with_checks(steps)
    assert len(first.checks) == PER_CASE
    steps.close()
    assert len(table_of(out)) == PER_CASE
    partial = tmp_path / "c.csv.partial.jsonl"
    partial.write_bytes(partial.read_bytes() + b'{"row": 9, "check": {"id": "q0')
    again = list(validate(opened, range(len(opened.questions)), out=out))
    assert again[0].done == PER_CASE
    assert "9 checks are taken over" in again[0].message
    assert "not written to its end" in again[0].message
    assert sum(len(step.checks) for step in again[1:]) == PER_CASE
    assert [row["id"] for row in table_of(out)] == list(opened.questions.frame["id"])
    assert not partial.exists()


def test_what_failed_before_is_tried_again(benchmark, tmp_path):
    ct = benchmark / "benchmark" / "ct" / "BDMAP_00000001" / "ct.nii.gz"
    good = ct.read_bytes()
    ct.write_bytes(b"broken")
    out = tmp_path / "c.csv"
    opened = open_path(benchmark)
    steps = validate(opened, range(len(opened.questions)), out=out)
    assert with_checks(steps).failed == PER_CASE
    steps.close()
    ct.write_bytes(good)
    last = list(validate(opened, range(len(opened.questions)), out=out))[-1]
    assert last.failed == 0
    assert table_of(out)[2]["status"] == "agrees"


def test_a_journal_of_another_validation_is_refused(benchmark, tmp_path):
    out = tmp_path / "c.csv"
    opened = open_path(benchmark)
    steps = validate(opened, [0], out=out)
    next(steps)
    steps.close()
    with pytest.raises(InputFileError, match="absent_means_none: False, now True"):
        list(validate(opened, [0], out=out, assume_none=True))


def test_a_file_that_is_no_table_of_checks_is_never_overwritten(benchmark, tmp_path):
    out = tmp_path / "mine.csv"
    out.write_text("id,case,question,answer\n1,a,b,c\n")
    opened = open_path(benchmark)
    with pytest.raises(InputFileError, match="left as it is"):
        list(validate(opened, [0], out=out))
    assert out.read_text().startswith("id,case")


def test_two_validations_cannot_write_to_one_file(benchmark, tmp_path):
    out = tmp_path / "c.csv"
    opened = open_path(benchmark)
    steps = validate(opened, [0], out=out)
    next(steps)
    with pytest.raises(BusyError):
        next(validate(opened, [0], out=out))
    steps.close()


def test_a_case_has_no_questions_to_validate(benchmark):
    opened = open_path(benchmark / "benchmark" / "ct" / "BDMAP_00000001")
    with pytest.raises(CtvqaError, match="holds no questions"):
        next(validate(opened, [0]))


@pytest.mark.slow
def test_kills_lose_nothing_that_was_told(tmp_path):
    benchmark = small_benchmark.write(tmp_path / "bench", cases=6)
    out = tmp_path / "c.csv"
    partial = tmp_path / "c.csv.partial.jsonl"
    command = [sys.executable, "-m", "napari_ctvqa", "validate", benchmark, "--out", out]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for wait_s in (0.9, 1.3, 1.1):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if partial.exists():
            whole = partial.read_bytes().rpartition(b"\n")[0]
            assert all(json.loads(line) for line in whole.split(b"\n") if line)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    rows = table_of(out)
    assert [row["id"] for row in rows] == [f"q{number:06d}" for number in range(6 * PER_CASE)]
    assert not partial.exists()
