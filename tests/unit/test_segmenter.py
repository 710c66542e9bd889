"""A segmenter outside the process: followed, stopped, failing; with a stand-in for the program."""

import json
import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import phantoms
import pytest
import small_benchmark
from evidence_cases import question
from stand_in_segmenter import write_program

from napari_ctvqa import cli
from napari_ctvqa.core import names
from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.segmenting import USUAL, classes, segmentable
from napari_ctvqa.evidence.kits import kit_for
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.segmentations import folder_for, kept
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners import segmenter
from napari_ctvqa.runners.batch import run_batch
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.segmenter import SegmenterSettings, add_segmented, segment


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    """Neither the cache nor the settings of whoever runs the tests."""
    monkeypatch.setenv("NAPARI_CTVQA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log.json"))
    monkeypatch.delenv("STAND_IN", raising=False)
    monkeypatch.delenv("TOTALSEG_HOME_DIR", raising=False)
    monkeypatch.delenv("TOTALSEG_WEIGHTS_PATH", raising=False)


@pytest.fixture
def program(tmp_path):
    (tmp_path / "bin").mkdir()
    return SegmenterSettings(str(write_program(tmp_path / "bin")))


@pytest.fixture
def folder(tmp_path):
    """A case with a CT, liver and left kidney, and no other mask."""
    folder = phantoms.save_case(tmp_path / "case")
    for path in (folder / "segmentations").glob("*.nii.gz"):
        if path.name not in ("liver.nii.gz", "kidney_left.nii.gz"):
            path.unlink()
    return folder


def followed(running):
    """Every progress, and what the generator returned."""
    heard = []
    while True:
        try:
            heard.append(next(running))
        except StopIteration as ended:
            return heard, ended.value


def logged(tmp_path):
    return json.loads((tmp_path / "log.json").read_text())


def alive(pid):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def wait_until(true, seconds=20):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    assert true()


def test_masks_are_made_and_kept_by_the_ct_and_the_version(tmp_path, folder, program):
    ct = folder / "ct.nii.gz"
    heard, made = followed(segment(ct, ["spleen", "Gall bladder"], program))
    assert (made.program, made.version, made.missing) == ("TotalSegmentator", "2.18.0", ())
    assert made.structures == ("spleen", "gall_bladder")
    assert any(progress.share == 1.0 for progress in heard), "tqdm's bar is read"
    assert any("Predicting" in progress.words for progress in heard)
    argv = logged(tmp_path)["argv"]
    assert argv[argv.index("-i") + 1] == str(ct) and argv[argv.index("-ta") + 1] == "total"
    assert argv[argv.index("-rs") + 1 :] == ["spleen", "gallbladder"]
    place = kept(ct)
    assert place.folder.name == "TotalSegmentator-total-2.18.0"
    assert set(place.structures()) == {"spleen", "gall_bladder"}
    assert not list((tmp_path / "cache" / "segmentations").glob(".making*"))


def test_nothing_is_sent_and_our_libraries_are_not_its(tmp_path, folder, program, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    followed(segment(folder / "ct.nii.gz", ["spleen"], program))
    told = logged(tmp_path)
    assert told["config"]["send_usage_stats"] is False
    assert told["pythonpath"] is None
    assert told["weights"] == str(tmp_path / "home" / ".totalsegmentator" / "nnunet" / "results")
    assert not (tmp_path / "home" / ".totalsegmentator").exists(), "the person's folder is theirs"


def test_what_was_made_is_not_made_again(tmp_path, folder, program):
    ct = folder / "ct.nii.gz"
    followed(segment(ct, ["spleen"], program))
    followed(segment(ct, ["spleen", "stomach"], program))
    assert logged(tmp_path)["argv"][-1:] == ["stomach"]
    (tmp_path / "log.json").unlink()
    _, made = followed(segment(ct, ["stomach", "spleen"], program))
    assert made.structures == ("stomach", "spleen") and not (tmp_path / "log.json").exists()
    followed(segment(ct, ["spleen"], program, again=True))
    assert logged(tmp_path)["argv"][-1:] == ["spleen"]
    # the coarse model's masks are others
    followed(segment(ct, ["spleen"], replace(program, fast=True)))
    assert "-f" in logged(tmp_path)["argv"]


def test_a_ct_that_changed_has_no_masks(folder, program):
    ct = folder / "ct.nii.gz"
    followed(segment(ct, ["spleen"], program))
    assert kept(ct) is not None
    os.utime(ct, ns=(1, 1))
    assert kept(ct) is None
    assert kept(folder / "no.nii.gz") is None


@pytest.mark.parametrize("how", ["hang", "stubborn"])
def test_stopping_ends_the_program_and_its_workers(tmp_path, folder, program, monkeypatch, how):
    monkeypatch.setenv("STAND_IN", how)
    monkeypatch.setattr(segmenter, "TERMINATE_S", 0.5)
    ct = folder / "ct.nii.gz"
    running = segment(ct, ["spleen"], program)
    with closing(running):
        for progress in running:
            if "Removing" in progress.words:
                break
        pids = logged(tmp_path)
        assert alive(pids["pid"]) and alive(pids["child"])
    wait_until(lambda: not alive(pids["pid"]) and not alive(pids["child"]))
    assert kept(ct) is None
    assert not list((tmp_path / "cache" / "segmentations").glob(".making*"))


def test_it_is_told_of_while_nothing_is_said(folder, program, monkeypatch):
    monkeypatch.setenv("STAND_IN", "hang")
    with closing(segment(folder / "ct.nii.gz", ["spleen"], program)) as running:
        silent = 0
        for progress in running:
            silent += "Removing" in progress.words
            if silent == 3:
                break
    assert progress.seconds > 0


@pytest.mark.parametrize(
    ("how", "words", "todo"),
    [
        ("crash", "ended with code 1: RuntimeError: the weights are damaged", "by hand"),
        ("killed", "was killed, likely for want of memory", "--fast"),
        ("offline", "could not fetch its weights", "totalseg_download_weights"),
        ("gpu memory", "out of memory", "--device cpu"),
        ("nothing", "ended without a mask of spleen", "by hand"),
    ],
)
def test_what_goes_wrong_is_one_sentence_with_what_to_do(
    folder, program, monkeypatch, how, words, todo
):
    monkeypatch.setenv("STAND_IN", how)
    with pytest.raises(CtvqaError) as failed:
        followed(segment(folder / "ct.nii.gz", ["spleen"], program))
    assert words in failed.value.message and todo in failed.value.hint
    assert len(str(failed.value).splitlines()) == 1
    assert kept(folder / "ct.nii.gz") is None


def test_a_crash_leaves_no_worker_and_does_not_wait_for_one(tmp_path, folder, program, monkeypatch):
    monkeypatch.setenv("STAND_IN", "crash with workers")
    monkeypatch.setattr(segmenter, "TERMINATE_S", 0.5)
    with pytest.raises(CtvqaError, match="ended with code 3"):
        followed(segment(folder / "ct.nii.gz", ["spleen"], program))
    wait_until(lambda: not alive(logged(tmp_path)["child"]))


def test_a_mask_that_is_not_written_is_told_and_the_others_are_kept(folder, program, monkeypatch):
    monkeypatch.setenv("STAND_IN", "one")
    _, made = followed(segment(folder / "ct.nii.gz", ["spleen", "stomach"], program))
    assert (made.structures, made.missing) == (("spleen",), ("stomach",))


def test_a_program_without_a_version_still_works(folder, program, monkeypatch):
    monkeypatch.setenv("STAND_IN", "no version")
    _, made = followed(segment(folder / "ct.nii.gz", ["spleen"], program))
    assert made.version == "unknown" and kept(folder / "ct.nii.gz").structures() == ("spleen",)


def test_a_program_that_never_says_its_version_is_given_up(folder, program, monkeypatch):
    monkeypatch.setenv("STAND_IN", "silent")
    monkeypatch.setattr(segmenter, "VERSION_S", 1.0)
    with pytest.raises(CtvqaError, match="says nothing"):
        followed(segment(folder / "ct.nii.gz", ["spleen"], program))


def test_without_the_program_it_says_how_to_install_it(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(segmenter.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(NotFoundError, match="not installed") as missing:
        followed(segment(folder / "ct.nii.gz", ["spleen"]))
    assert "pip install napari-ctvqa[segment]" in missing.value.hint
    with pytest.raises(NotFoundError, match="no program"):
        followed(segment(folder / "ct.nii.gz", ["spleen"], SegmenterSettings("/no/such")))
    script = tmp_path / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(NotFoundError, match="cannot be started"):
        followed(segment(folder / "ct.nii.gz", ["spleen"], SegmenterSettings(str(script))))


def test_a_program_beside_our_interpreter_is_found(tmp_path, program, monkeypatch):
    monkeypatch.setattr(segmenter.sys, "executable", str(tmp_path / "bin" / "python"))
    assert segmenter.find_executable() == program.executable


def test_lesions_and_unknown_structures_are_not_asked_for(folder, program):
    with pytest.raises(NotFoundError, match="segments none of: liver_lesion"):
        followed(segment(folder / "ct.nii.gz", ["liver lesion"], program))
    assert segmentable(["kidney", "liver_lesion", "Spleen"]) == (
        ("kidney_left", "kidney_right", "spleen"),
        ("liver_lesion",),
    )
    # the table has no parts of a whole lung: it is not guessed from lobes
    assert segmentable(["lung", "lung_upper_lobe_left"]) == (("lung_upper_lobe_left",), ("lung",))


def test_every_class_is_a_structure_of_its_own():
    table = classes()
    assert len(table) == 117
    assert all(names.is_known(name) for name in table.values())
    assert set(USUAL) <= set(table)


# ------------------------------------------------------------------------ where its masks stand in


def test_its_masks_stand_in_only_where_there_is_no_file(folder, program):
    ct = folder / "ct.nii.gz"
    followed(segment(ct, ["spleen", "liver"], program))
    case = read_case(find_case(folder))
    both = add_segmented(case)
    assert both.masks["spleen"].source is Source.TOOL
    assert both.masks["liver"] is case.masks["liver"], "a reference is never replaced"
    assert "spleen" not in case.masks
    assert "spleen" not in add_segmented(case, wanted=("stomach",)).masks
    # a file that was not read, or could not be, is no absent one
    some = read_case(find_case(folder), wanted=("kidney_left",))
    assert "liver" not in add_segmented(some).masks
    (folder / "segmentations" / "spleen.nii.gz").write_bytes(b"no mask")
    broken = read_case(find_case(folder))
    assert "spleen" not in add_segmented(broken).masks


def test_without_any_the_case_is_the_same(folder):
    case = read_case(find_case(folder))
    assert add_segmented(case) is case


def test_the_live_kit_measures_them_and_says_whose_they_are(folder, program):
    followed(segment(folder / "ct.nii.gz", ["spleen"], program))
    case = add_segmented(read_case(find_case(folder)))
    # 4 × 4 voxels of 3 × 3.5 × 5 mm on one slice
    asked = {"target": "spleen", "measurement_type": "volume_cm3"}
    found = kit_for("live", case).call("measure", asked).content
    assert found["value"] == pytest.approx(16 * 3 * 3.5 * 5 / 1000)
    assert any("made by TotalSegmentator 2.18.0, it is no reference" in c for c in found["caveats"])
    *_, prediction = MODEL.answer(
        question("splenomegaly detection", "Is the spleen enlarged?"), case, AnswerFormat.FREEFORM
    )
    assert prediction.raw_text == "No"


def test_masks_lie_where_the_program_wrote_them(folder, program):
    ct = folder / "ct.nii.gz"
    followed(segment(ct, ["spleen"], program))
    case = add_segmented(read_case(find_case(folder)))
    region = case.masks["spleen"].own_region
    assert region.grid.file_index_ijk([[part.start for part in region.box_zyx]]) is not None
    index = np.argwhere(region.crop_zyx) + [part.start for part in region.box_zyx]
    ijk = np.rint(region.grid.file_index_ijk(index)).astype(int)
    assert ijk.min(axis=0).tolist() == [4, 4, 2] and ijk.max(axis=0).tolist() == [7, 7, 2]


# -------------------------------------------------------------------------------- the command line


def test_the_command_segments_and_remembers_the_program(folder, program, capsys):
    line = ["segment", str(folder), "--structures", "spleen", "kidney", "--json"]
    assert cli.main([*line, "--executable", program.executable]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["structures"] == ["spleen", "kidney_left", "kidney_right"]
    assert (told["program"], told["version"]) == ("TotalSegmentator", "2.18.0")
    assert cli.main(line) == 0, "the program that was named is taken again"


def test_the_command_says_what_was_not_segmented(folder, program, capsys):
    line = ["segment", str(folder), "--executable", program.executable]
    assert cli.main([*line, "--structures", "spleen", "liver_lesion"]) == 1
    assert "not segmented: liver_lesion" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_in_one_line(folder, program, monkeypatch, capsys):
    monkeypatch.setenv("STAND_IN", "crash")
    line = ["segment", str(folder), "--executable", program.executable]
    assert cli.main(line) == 1
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1 and "the weights are damaged" in err


def test_a_run_takes_them_in_only_when_told_to(tmp_path, program, capsys):
    root = small_benchmark.write(tmp_path / "bench", cases=1)
    (spleen,) = root.rglob("spleen.nii.gz")
    spleen.unlink()
    (ct,) = root.rglob("ct.nii.gz")
    followed(segment(ct, ["spleen", "liver"], program))
    asked = ["--where", "subtype:splenomegaly", "--format", "freeform", "--json"]
    answers = {}
    for name, more in (("without", []), ("with", ["--segmented"])):
        out = tmp_path / f"{name}.json"
        cli.main(["run", str(root), "--model", "rules", "--out", str(out), *asked, *more])
        told = json.loads(out.read_text())
        answers[name] = [row["raw_output"] for row in told["results"]]
        assert told.get("segmented_masks", False) is bool(more)
    assert answers["without"] and all("no mask" in said for said in answers["without"])
    assert set(answers["with"]) == {"Normal"}  # 0.8 cm³
    capsys.readouterr()


@pytest.mark.parametrize("kits", [(), ("oracle",)])
def test_a_run_without_the_live_kit_is_told(tmp_path, kits):
    root = small_benchmark.write(tmp_path / "bench", cases=1)
    answerer = SimpleNamespace(name="other", kits=kits)
    running = run_batch(open_path(root), answerer, AnswerFormat.MC, tmp_path / "r.json", rows=[0],
                        segmented=True)  # fmt: skip
    with pytest.raises(CtvqaError, match="--kit live"):
        next(running)
    assert not (tmp_path / "r.json").exists()


def test_folders_are_named_by_what_made_them(tmp_path, folder):
    ct = folder / "ct.nii.gz"
    one = folder_for(ct, "TotalSegmentator", "2.18.0", "total").folder
    other = folder_for(ct, "TotalSegmentator", "../2.9", "total").folder
    assert one.parent == other.parent and one != other
    assert other.resolve().is_relative_to((tmp_path / "cache").resolve())
