"""PATH is decided by content."""

import gzip
import json
import os

import numpy as np
import pytest

from napari_ctvqa.core.errors import AmbiguousError, CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.io import user_config
from napari_ctvqa.runners.opening import open_path

nibabel = pytest.importorskip("nibabel")

CASE = "BDMAP_00000001"
QUESTION = {
    "qid": "q1", "image_id": CASE, "question": "Is there a lesion?", "answer": "No",
    "mc_question": "Is there a lesion? A: No B: Yes", "correct_option": "A",
    "question_type": "recognition", "question_subtype": "liver lesion existence",
}  # fmt: skip


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def volume(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(np.zeros((3, 4, 5), np.int16), np.eye(4)), path)
    return path


@pytest.fixture
def benchmark(tmp_path):
    write(tmp_path / "b" / "benchmark" / "test_qa.json", {"questions": [QUESTION]})
    return tmp_path / "b"


def test_a_benchmark_folder_and_its_file_hold_questions(benchmark):
    for path in (benchmark, benchmark / "benchmark", benchmark / "benchmark" / "test_qa.json"):
        opened = open_path(path)
        assert (opened.kind, opened.benchmark.name) == ("questions", "deeptumorvqa")
        assert len(opened.questions) == 1


def test_a_case_folder_a_ct_and_bare_masks_are_cases(tmp_path):
    ct = volume(tmp_path / "case" / "ct.nii.gz")
    volume(tmp_path / "case" / "segmentations" / "liver.nii.gz")
    for path in (ct, ct.parent):
        opened = open_path(path)
        assert opened.kind == "case"
        assert opened.case_files().ct == ct
        assert opened.found_results() == ()
    volume(tmp_path / "masks" / "segmentations" / "liver.nii.gz")
    masks = open_path(tmp_path / "masks")
    with pytest.raises(NotFoundError, match="no CT"):
        masks.case_files()


def test_a_volume_is_known_by_its_header_when_its_name_says_nothing(tmp_path):
    packed = volume(tmp_path / "x.nii.gz").rename(tmp_path / "scan.bin")
    bare = tmp_path / "scan"
    bare.write_bytes(gzip.decompress(packed.read_bytes()))
    for path in (packed, bare):
        assert open_path(path).kind == "case"


def test_a_text_named_like_a_volume_is_a_case_whose_reader_says_what_is_wrong(tmp_path):
    assert open_path(write(tmp_path / "x.nii.gz", "hello")).kind == "case"


def test_a_plain_table_gives_way_to_a_benchmark_of_its_own_keys(tmp_path):
    plain = write(tmp_path / "plain.csv", "id,case,question,answer\n1,c,Q,a\n")
    theirs = write(tmp_path / "theirs.jsonl", json.dumps(QUESTION) + "\n")
    assert open_path(plain).benchmark.name == "plain_table"
    assert open_path(theirs).benchmark.name == "deeptumorvqa"


def test_several_candidates_are_an_error_that_lists_them(tmp_path):
    volume(tmp_path / "ct.nii.gz")
    table = write(tmp_path / "questions.csv", "id,case,question,answer\n1,c,Q,a\n")
    with pytest.raises(AmbiguousError) as caught:
        open_path(tmp_path)
    assert "Plain table (--benchmark plain_table)" in caught.value.message
    assert "case folder" in caught.value.message
    assert open_path(tmp_path, benchmark="plain_table").kind == "questions"
    assert open_path(table).kind == "questions"


def test_two_benchmarks_in_one_folder_are_ambiguous(benchmark):
    write(benchmark / "spatial_qa_filtered_full.json",
          {"valid_1_a_1.nii.gz": {"qa_pairs": [{"question": "q", "answer": "a"}]}})  # fmt: skip
    with pytest.raises(AmbiguousError, match=r"CT-SpatialVQA .* or DeepTumorVQA"):
        open_path(benchmark)
    assert open_path(benchmark, benchmark="ct_spatialvqa").benchmark.name == "ct_spatialvqa"


def test_an_unknown_benchmark_lists_those_there_are(benchmark):
    with pytest.raises(NotFoundError, match="ct_spatialvqa, deeptumorvqa, plain_table"):
        open_path(benchmark, benchmark="other")


def test_a_forced_benchmark_says_what_it_misses(tmp_path):
    path = write(tmp_path / "x.json", {"hello": 1})
    with pytest.raises(InputFileError, match="questions"):
        open_path(path, benchmark="deeptumorvqa")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("r.json", {"results": [{"qid": "q", "raw_output": "A"}]}, "holds predictions"),
        ("p.jsonl", '{"question": "q", "prediction": "a"}', "holds predictions"),
        ("cache.json", {"cache": {"c": {"segment": {}}}}, "is a tool cache"),
        ("notes.txt", "hello", "is neither a case"),
        ("empty.json", "", "is neither a case"),
    ],
)
def test_other_files_say_what_they_are(tmp_path, name, data, message):
    with pytest.raises(InputFileError, match=message) as caught:
        open_path(write(tmp_path / name, data))
    assert caught.value.hint


@pytest.mark.parametrize("root", ["", "image_only"])
def test_a_root_of_cases_says_what_it_is_for(tmp_path, root):
    volume(tmp_path / "atlas" / root / CASE / "ct.nii.gz")
    with pytest.raises(InputFileError, match=f"holds case folders .{CASE}") as caught:
        open_path(tmp_path / "atlas")
    assert "--cases" in caught.value.hint


def test_what_is_not_there_is_said(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (tmp_path / "gone", loop, tmp_path / ("x" * 5000)):
        with pytest.raises(NotFoundError, match="no such file or folder"):
            open_path(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputFileError, match="neither"):
        open_path(tmp_path / "empty")


def test_roots_are_used_and_remembered_for_the_benchmark(benchmark, tmp_path):
    root = tmp_path / "atlas"
    ct = volume(root / "image_only" / CASE / "ct.nii.gz")
    mask = volume(root / "mask_only" / CASE / "segmentations" / "liver.nii.gz")
    opened = open_path(benchmark, roots=[root])
    files = opened.case_files(CASE)
    assert (files.ct, files.masks[0].path) == (ct, mask)
    again = open_path(benchmark)
    assert again.roots == (root,)
    assert again.case_files(CASE).ct == ct
    assert user_config.remembered_roots("plain_table") == ()


def test_roots_can_be_added_later(benchmark, tmp_path):
    root = tmp_path / "atlas"
    root.mkdir()
    opened = open_path(benchmark).with_roots(root)
    assert opened.roots == (root,)
    assert open_path(benchmark).roots == (root,)


def test_a_root_that_is_no_folder_is_an_error(benchmark, tmp_path):
    with pytest.raises(NotFoundError, match="--cases"):
        open_path(benchmark, roots=[tmp_path / "gone"])


def test_a_set_of_questions_needs_the_name_of_a_case(benchmark):
    with pytest.raises(NotFoundError, match="many cases"):
        open_path(benchmark).case_files()


def test_results_need_questions(tmp_path):
    ct = volume(tmp_path / "ct.nii.gz")
    with pytest.raises(CtvqaError, match="without questions"):
        open_path(ct).read_results(tmp_path / "r.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_said(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    with pytest.raises(InputFileError):
        open_path(folder)
