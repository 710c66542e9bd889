"""What a volume model saw: lesions that vanish in its grid are told, its slices lie in the CT."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.asking import Prepared
from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.chains import EvidenceChain, EvidenceStep, StepKind
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.events import Done, Outlined, Sent
from napari_ctvqa.core.live import LiveRun
from napari_ctvqa.core.records import AnswerFormat, Prediction, Question, Reference, Run
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.core.saw import Sight
from napari_ctvqa.core.volume_sight import seen_in_volume, seen_of_case
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.mask_files import MASKS
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.seen_files import ASK, folder_name, kept_masks, read_seen, seen_folder
from napari_ctvqa.io.seen_writing import SeenFiles
from napari_ctvqa.runners import sight
from napari_ctvqa.runners.sight import saw_reports

QUESTION = Question("q1", "c", "Is there a lesion?", Reference("Yes"))


@pytest.fixture(autouse=True)
def no_recordings(monkeypatch):
    monkeypatch.setattr(sight, "recorded_answers", lambda *_: ())


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


def prepared(case, family="m3d", **settings):
    found = families()[family]
    preset = next(iter(found.presets.values()))
    return found.prepare(preset, QUESTION, case, AnswerFormat.FREEFORM, settings)


def spots(case, *places):
    """A region of single voxels at these display indices, and blocks where a pair is given."""
    inside = np.zeros(case.volume.display_grid.shape_zyx, bool)
    for place in places:
        inside[place] = True
    return region_of(inside, case.volume.display_grid)


def coarse(case, factor, first=0.0, cut=0):
    """A made-up volume: every ``factor``-th voxel in each direction, from ``first`` on."""
    shape = tuple(n // factor - cut for n in case.volume.display_grid.shape_zyx)
    matrix = np.diag([factor, factor, factor, 1.0])
    matrix[:3, 3] = first
    return replace(
        prepared(case).ask.volume,
        values=None,
        shape=shape,
        index_from_voxel=matrix,
        inner=tuple((0, n) for n in shape),
    )


def brute(case, volume, region):
    """Model voxels whose centre lies in the region, one after the other."""
    whole = np.zeros(case.volume.display_grid.shape_zyx, bool)
    whole[region.box_zyx] = region.crop_zyx
    count = 0
    for a in range(*volume.inner[0]):
        for b in range(*volume.inner[1]):
            for c in range(*volume.inner[2]):
                at = np.floor(volume.index_zyx([a, b, c]) + 0.5).astype(int)
                inside = (at >= 0).all() and (at < whole.shape).all()
                count += bool(inside and whole[tuple(at)])
    return count


@pytest.mark.parametrize(("factor", "first"), [(2, 0.5), (3, 1.0), (4, 1.5)])
@pytest.mark.parametrize("name", ["liver", "liver_lesion", "spleen", "kidney_left"])
def test_counts_agree_with_one_voxel_at_a_time(case, factor, first, name):
    volume, region = coarse(case, factor, first), case.masks[name].region
    (found,) = seen_in_volume([(name, region)], volume, case.volume.display_grid)
    assert found.model_voxels == brute(case, volume, region)
    assert found.voxels_sent == found.voxels == region.voxels


def test_a_lesion_between_the_model_s_voxels_is_told(case):
    grid, volume = case.volume.display_grid, coarse(case, 4, 1.5)
    regions = [
        ("between", spots(case, (4, 4, 4))),
        ("on one", spots(case, (2, 2, 2))),
        ("on two", spots(case, (2, 2, 2), (2, 2, 6))),
        ("whole", spots(case, (slice(0, 8), slice(0, 8), slice(0, 8)))),
    ]
    between, one, two, whole = seen_in_volume(regions, volume, grid)
    assert (between.sight, one.sight) == (Sight.NOT, Sight.SMALL)
    assert (two.sight, whole.sight) == (Sight.WHOLE, Sight.WHOLE)
    assert "between the model's voxels" in between.text and "1 of the model's" in one.text
    assert between.warns and one.warns and not two.warns
    assert f"({grid.voxel_mm3:.3g} mm³)" in one.text


def test_a_lesion_outside_the_crop_is_told(case):
    volume = coarse(case, 1, 0.0, cut=6)
    far = spots(case, (11, 19, 23))
    half = spots(case, (slice(2, 10), 3, 3))
    outside, partly = seen_in_volume([("far", far), ("half", half)], volume,
                                     case.volume.display_grid)  # fmt: skip
    assert outside.sight is Sight.NOT and "outside of what" in outside.text
    assert partly.sight is Sight.PARTLY and "50 % of it" in partly.text


def test_what_lies_elsewhere_or_is_empty_is_told(case, tmp_path):
    other = read_case(find_case(phantoms.save_case(tmp_path / "c", axcodes="RAS")))
    moved = replace(other.volume.display_grid, affine_zyx_to_ras=np.eye(4))
    grid = case.volume.display_grid
    regions = [("a", spots(case)), ("b", region_of(np.ones((2, 2, 2), bool), moved))]
    empty, unknown = seen_in_volume(regions, coarse(case, 2), grid)
    assert (empty.sight, unknown.sight) == (Sight.EMPTY, Sight.UNKNOWN)


def test_every_lesion_is_looked_at_by_itself(case):
    """Two lesions in one mask, far apart: the single voxel vanishes, the block does not."""
    region = spots(case, (4, 4, 4), (slice(6, 10), slice(10, 16), slice(10, 16)))
    lesion = Mask("liver_lesion", "liver_lesion", Source.REFERENCE, region, region, lesion=True)
    masks = {**case.masks, "liver_lesion": lesion}
    step = EvidenceStep(StepKind.SEGMENT, "spleen", mask="spleen")
    chain = EvidenceChain("q1", "reference", (step, step))
    grid, volume = case.volume.display_grid, coarse(case, 4, 1.5)
    spleen, large, small = seen_of_case(chain, masks, volume, grid)
    assert spleen.name.lower() == "spleen"
    assert large.name.endswith(", 1 of 2") and not large.warns
    assert small.name.endswith(", 2 of 2") and small.warns
    assert [s.name for s in seen_of_case(None, masks, volume, grid)] == [large.name, small.name]


def report(case, sent):
    live = LiveRun("q1", "m", sent=sent, text="words")
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, None, {}, live)
    return found


def test_the_report_of_a_running_answer_has_the_slices(case):
    ready = prepared(case)
    ready = Prepared(ready.ask, ready.notes, {**ready.recipe, "case_id": case.case_id})
    found = report(case, (ready,))
    assert len(found.slices) == 32 and found.volume is ready.ask.volume
    assert [s.name.lower() for s in found.sights] == ["liver lesion"]
    assert report(None, (ready,)).sights == ()


# ------------------------------------------------------------------------------------------- kept


def kept(case, tmp_path, ready):
    files = SeenFiles(tmp_path / "run.jsonl")
    answer = files.answer("q1", "m")
    answer.take(Sent(ready))
    answer.take(Done("No."))
    assert files.keep(answer) == ""
    (request,) = read_seen(tmp_path / "run.jsonl", "q1").requests
    return request.prepared


def test_a_kept_answer_says_where_its_volume_lay(case, tmp_path):
    ready = prepared(case, recipe="m3d-seg")
    back = kept(case, tmp_path, ready).ask.volume
    ours = ready.ask.volume
    assert back.values is None and ours.values is not None
    np.testing.assert_array_equal(back.index_from_voxel, ours.index_from_voxel)
    for key in ("shape", "axes", "inner", "fill", "scaling", "lead", "recipe", "crop_voxels"):
        assert getattr(back, key) == getattr(ours, key), key
    folder = seen_folder(tmp_path / "run.jsonl")
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) < 100_000


def test_its_slices_are_made_again_from_the_ct(case, tmp_path):
    ready = prepared(case)
    back = kept(case, tmp_path, ready)
    found = report(case, (back,))
    assert len(found.slices) == 32 and not found.problem
    np.testing.assert_array_equal(found.volume.values, ready.ask.volume.values)


def test_a_ct_that_gives_another_volume_is_told(case, tmp_path):
    back = kept(case, tmp_path, prepared(case))
    moved = back.ask.volume.index_from_voxel + 0
    moved[0, 3] += 1
    elsewhere = replace(back.ask.volume, index_from_voxel=moved)
    other = replace(back, ask=replace(back.ask, volume=elsewhere))
    found = report(case, (other,))
    assert found.slices == () and "another one" in found.problem


@pytest.mark.parametrize("change", ["mirrored", "lesion"])
def test_a_ct_that_was_changed_for_the_model_is_told(case, tmp_path, change):
    """A probe sends the CT mirrored, or without its lesion: the CT itself is not what it saw."""
    if change == "mirrored":
        array = case.volume.display_zyx[:, :, ::-1]
    else:
        array = case.volume.display_zyx.copy()
        lesion = case.masks["liver_lesion"].region
        array[lesion.box_zyx][lesion.crop_zyx] = 60
    other = replace(case, volume=replace(case.volume, display_zyx=array, array_zyx=array))
    back = kept(other, tmp_path, prepared(other))
    found = report(case, (back,))
    assert found.slices == () and "another one" in found.problem


@pytest.mark.parametrize(
    "damage",
    [
        {"index_from_voxel": [[0] * 4] * 4},
        {"shape": [1, 2]},
        {"shape": [10**9, 1, 1]},
        {"inner": [[5, 2], [0, 1], [0, 1]]},
        {"low_high": [1, 1]},
        {"slice_axis": 7},
        {"index_from_voxel": [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]},
    ],
)
def test_a_damaged_place_is_no_place(case, tmp_path, damage):
    kept(case, tmp_path, prepared(case))
    path = seen_folder(tmp_path / "run.jsonl") / folder_name("q1") / ASK
    said = json.loads(path.read_text(encoding="utf-8"))
    said["requests"][0]["volume"].update(damage)
    path.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(InputFileError):
        read_seen(tmp_path / "run.jsonl", "q1")


def outlined(case, tmp_path, *masks):
    files = SeenFiles(tmp_path / "run.jsonl")
    answer = files.answer("q1", "m")
    answer.take(Sent(prepared(case)))
    for mask in masks:
        answer.take(Outlined(mask))
    answer.take(Done("It is [SEG]."))
    assert files.keep(answer) == ""
    return tmp_path / "run.jsonl"


def a_mask(region, name="M3D: liver"):
    return Mask(name, "liver", Source.PREDICTED, region, region)


def test_what_a_model_outlined_is_kept_with_its_answer(case, tmp_path):
    liver, nothing = case.masks["liver"].region, spots(case)
    results = outlined(case, tmp_path, a_mask(liver), a_mask(nothing, "nothing"))
    grid = case.volume.display_grid
    back, empty = kept_masks(results, "q1", grid)
    assert (back.name, back.structure, back.source) == ("M3D: liver", "liver", Source.PREDICTED)
    assert back.region.box_zyx == liver.box_zyx and back.region.grid is grid
    np.testing.assert_array_equal(back.region.crop_zyx, liver.crop_zyx)
    assert empty.region.empty and kept_masks(results, "q2", grid) == ()
    runs = {"m": Run("m", {"q1": Prediction("q1", "m", "It is .")}, path=str(results))}
    (found,) = saw_reports(SimpleNamespace(), QUESTION, case, None, runs, None)
    assert [mask.name for mask in found.masks] == ["M3D: liver", "nothing"] and not found.problem


@pytest.mark.parametrize(
    "damage",
    [
        {"box_0": np.array([[0, 99], [0, 1], [0, 1]])},
        {"box_0": np.array([[0.0, 1.0]] * 3)},
        {"bits_0": np.zeros(3, np.uint8)},
        {"grid_0": np.array([1, 2, 3])},
        {"names_0": np.array([{"a": 1}], object)},
        None,
    ],
    ids=["outside", "no numbers of voxels", "too few bits", "other grid", "pickle", "no file"],
)
def test_damaged_masks_are_told_and_nothing_of_them_runs(case, tmp_path, damage):
    results = outlined(case, tmp_path, a_mask(case.masks["liver"].region))
    path = seen_folder(results) / folder_name("q1") / MASKS
    if damage is None:
        path.write_bytes(b"PK no archive")
    else:
        with np.load(path) as arrays:
            np.savez(path, **{**arrays, **damage})
    with pytest.raises(InputFileError):
        kept_masks(results, "q1", case.volume.display_grid)
