"""The demo: its folder, its images, and that its references are what an own count finds."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial.distance import pdist

from napari_ctvqa import demo
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.demo import build

TOUCHING = np.ones((3, 3, 3), bool)
PARTS = {
    "liver": [f"liver_segment_{n}" for n in range(1, 9)],
    "pancreas": ["pancreas_head", "pancreas_body", "pancreas_tail"],
}
LESIONS = {
    "liver": ["liver_lesion"],
    "kidney_left": ["kidney_lesion"],
    "kidney_right": ["kidney_lesion"],
    "pancreas": ["pancreatic_lesion"],
}
LUNGS_FROM = 70
"""The lowest slice that the lungs reach."""
HOLLOW = ("stomach", "colon", "intestine", "esophagus", "duodenum")


@dataclass(frozen=True, eq=False)
class Scan:
    """One case read back from its files, measured by this test's own few lines."""

    folder: Path
    found: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @cached_property
    def image(self) -> nib.Nifti1Image:
        return nib.load(self.folder / "ct.nii.gz")

    @cached_property
    def hu(self) -> np.ndarray:
        return np.asarray(self.image.dataobj)

    @cached_property
    def masks(self) -> dict[str, np.ndarray]:
        files = sorted(self.folder.glob("segmentations/*.nii.gz"))
        return {f.name[:-7]: np.asarray(nib.load(f).dataobj) > 0 for f in files}

    @property
    def voxel_cm3(self) -> float:
        return abs(np.linalg.det(self.image.affine[:3, :3])) / 1000

    def volume(self, name: str) -> float:
        return self.masks[name].sum() * self.voxel_cm3

    def mean(self, name: str) -> float:
        lesions = [self.masks[x] for x in LESIONS.get(name, []) if x in self.masks]
        tissue = self.masks[name] & ~np.logical_or.reduce([*lesions, np.zeros_like(self.hu, bool)])
        return float(self.hu[tissue].mean())

    def components(self, name: str) -> list[np.ndarray]:
        """Return the 26-connected components, largest first."""
        if name not in self.found:
            self.found[name] = self._components(self.masks[name])
        return self.found[name]

    @staticmethod
    def _components(mask: np.ndarray) -> list[np.ndarray]:
        if not mask.any():
            return []
        (box,) = ndimage.find_objects(mask.view(np.uint8))
        labels, count = ndimage.label(mask[box], TOUCHING)
        found = []
        for number in sorted(range(1, count + 1), key=lambda n: -(labels == n).sum()):
            found.append(np.zeros_like(mask))
            found[-1][box] = labels == number
        return found

    def widest(self, name: str) -> tuple[float, int]:
        """Return the longest in-plane extent of the largest lesion in cm, and its slice."""
        part = self.components(name)[0]
        best = (0.0, -1)
        for k in np.flatnonzero(part.any(axis=(0, 1))):
            points = np.argwhere(part[:, :, k]) * self.image.header.get_zooms()[:2]
            if len(points) > 1:
                best = max(best, (pdist(points).max() / 10, int(k)))
        return best


@dataclass(frozen=True)
class Demo:
    root: Path

    @cached_property
    def questions(self) -> dict[str, dict]:
        data = json.loads((self.root / "benchmark/test_qa.json").read_text(encoding="utf-8"))
        return {record["qid"]: record for record in data["questions"]}

    @cached_property
    def wrong(self) -> dict[str, dict]:
        path = self.root / "benchmark/demo_notes.json"
        notes = json.loads(path.read_text(encoding="utf-8"))
        return {entry["qid"]: entry for entry in notes["wrong_references"]}

    @cached_property
    def scans(self) -> dict[str, Scan]:
        return {f.name: Scan(f) for f in sorted((self.root / "benchmark/ct").iterdir())}

    def results(self, model: str) -> list[dict]:
        path = self.root / "results" / f"{model}.json"
        return json.loads(path.read_text(encoding="utf-8"))["results"]

    def asked(self, subtype: str) -> list[dict]:
        """Return the questions of a subtype, with what the parameters give as their answer."""
        found = [q for q in self.questions.values() if q["question_subtype"] == subtype]
        right = {key: entry["parameters_give"] for key, entry in self.wrong.items()}
        return [{**q, "answer": right.get(q["qid"], q["answer"])} for q in found]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(demo.ensure_demo(tmp_path_factory.getbasetemp() / "the demo"))


@pytest.fixture(params=["DEMO_0001", "DEMO_0002"])
def scan(made: Demo, request: pytest.FixtureRequest) -> Scan:
    return made.scans[request.param]


# --- the folder


def fake_content(root: Path) -> None:
    (root / "benchmark").mkdir()
    (root / "benchmark" / "test_qa.json").write_text("{}")
    marker = {"files": {"benchmark/test_qa.json": 2}}
    (root / "demo.json").write_text(json.dumps(marker))


def test_the_second_call_makes_nothing(made: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_write", lambda root: pytest.fail("made again"))
    assert demo.ensure_demo(made.root.parent) == made.root


def test_many_calls_at_once_give_one_whole_demo(tmp_path, monkeypatch) -> None:
    barrier = threading.Barrier(8)

    def slowly(root: Path) -> None:
        barrier.wait(10)
        fake_content(root)

    monkeypatch.setattr(build, "_write", slowly)
    roots: list[Path] = []
    calls = [
        threading.Thread(target=lambda: roots.append(demo.ensure_demo(tmp_path))) for _ in range(8)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join(20)
    assert len(roots) == 8
    assert len(set(roots)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [roots[0].name]


def test_a_damaged_demo_is_made_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "_write", fake_content)
    root = demo.ensure_demo(tmp_path)
    (root / "benchmark" / "test_qa.json").write_text("")
    assert demo.ensure_demo(tmp_path) == root
    assert (root / "benchmark" / "test_qa.json").read_text() == "{}"


def test_a_new_demo_takes_the_place_of_those_that_nobody_opens_any_more(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(build, "_write", fake_content)
    day_old = time.time() - 90_000
    for name, marker, used_at in (
        ("demo-0123456789ab", "demo.json", day_old),
        ("demo-ba9876543210", "demo.json", time.time()),
        ("demo-of-mine", "demo.json", day_old),
        ("demo-0123456789ac", "other.json", day_old),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / marker).write_text("{}")
        os.utime(tmp_path / name / marker, (used_at, used_at))
    root = demo.ensure_demo(tmp_path)
    kept = {"demo-ba9876543210", "demo-of-mine", "demo-0123456789ac", root.name}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_opening_a_demo_notes_that_it_is_in_use(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "_write", fake_content)
    root = demo.ensure_demo(tmp_path)
    marker = root / "demo.json"
    os.utime(marker, (0, 0))
    assert demo.is_made(tmp_path) and demo.ensure_demo(tmp_path) == root
    assert time.time() - marker.stat().st_mtime < 60


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    def no_space(root: Path) -> None:
        (root / "half").write_text("x")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "_write", no_space)
    with pytest.raises(CtvqaError, match="No space left on device"):
        demo.ensure_demo(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CtvqaError, match="file") as caught:
        demo.ensure_demo(tmp_path / "file")
    assert "NAPARI_CTVQA_CACHE" in caught.value.hint


def test_the_cache_folder_can_be_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "_write", fake_content)
    monkeypatch.setenv("NAPARI_CTVQA_CACHE", str(tmp_path / "named"))
    assert demo.ensure_demo().parent == tmp_path / "named"


def test_a_demo_that_is_there_is_not_begun_again(made: Demo, monkeypatch) -> None:
    monkeypatch.setattr(demo.subprocess, "Popen", lambda *_, **__: pytest.fail("begun again"))
    assert demo.begin_demo(made.root.parent)() == made.root


@pytest.mark.parametrize("python", ["false", "/no/such/python", ""])
def test_what_was_begun_is_made_here_where_its_process_fails(python, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(build, "_write", fake_content)
    root = demo.begin_demo(tmp_path)()
    assert (root / "benchmark" / "test_qa.json").read_text() == "{}"


@pytest.mark.slow
def test_the_demo_is_begun_in_another_process(made: Demo, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "_write", lambda root: pytest.fail("made here"))
    assert digests(demo.begin_demo(tmp_path)()) == digests(made.root)


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_begun(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CtvqaError, match="file"):
        demo.begin_demo(tmp_path / "file")


def digests(root: Path) -> dict[str, str]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.mark.slow
def test_two_processes_at_once_make_the_same_bytes_again(made: Demo, tmp_path) -> None:
    code = (
        "import sys; from pathlib import Path; from napari_ctvqa.demo import ensure_demo;"
        "sys.stdout.write(str(ensure_demo(Path(sys.argv[1]))))"
    )
    calls = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    roots = {call.communicate(timeout=300)[0].decode() for call in calls}
    assert [call.returncode for call in calls] == [0, 0]
    assert len(roots) == 1
    assert digests(Path(roots.pop())) == digests(made.root)


def test_gzip_files_carry_no_time(made: Demo) -> None:
    for path in made.root.rglob("*.nii.gz"):
        head = path.read_bytes()[:10]
        assert head[:2] == b"\x1f\x8b"
        assert head[4:8] == bytes(4), path.name


def test_the_generator_knows_nothing_of_what_measures() -> None:
    allowed = ("napari_ctvqa.demo", "napari_ctvqa.core.errors")
    for path in Path(build.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            ours = [name for name in names if name.startswith("napari_ctvqa")]
            assert all(name.startswith(allowed) for name in ours), (path.name, ours)


# --- the images


def test_files_are_plain_lps_volumes_on_one_grid(scan: Scan) -> None:
    header = scan.image.header
    assert scan.image.get_data_dtype() == np.int16
    assert (int(header["qform_code"]), int(header["sform_code"])) == (1, 1)
    assert np.allclose(header.get_qform(), header.get_sform())
    assert nib.aff2axcodes(scan.image.affine) == ("L", "P", "S")
    for path in scan.folder.glob("segmentations/*.nii.gz"):
        mask = nib.load(path)
        assert mask.shape == scan.image.shape, path.name
        assert np.array_equal(mask.affine, scan.image.affine), path.name
        assert mask.get_data_dtype() == np.uint8
        assert np.asarray(mask.dataobj).max() <= 1, path.name


def test_attenuation_is_that_of_a_ct(scan: Scan) -> None:
    assert scan.hu.min() >= -1024
    assert 400 < scan.hu.max() <= 1600
    corner = scan.hu[:8, :8]
    assert abs(corner.mean() + 1000) < 5
    assert 5 < corner.std() < 25


def body_of(scan: Scan) -> np.ndarray:
    """Return the body on every second row and column, cavities included."""
    labels, _ = ndimage.label(scan.hu[::2, ::2] > -400)
    flesh = labels == np.bincount(labels[labels > 0]).argmax()
    return np.stack([ndimage.binary_fill_holes(s) for s in np.moveaxis(flesh, 2, 0)], axis=2)


def test_every_mask_lies_in_the_body(scan: Scan) -> None:
    body = body_of(scan)
    for name, mask in scan.masks.items():
        assert not (mask[::2, ::2] & ~body).any(), name


def test_gas_is_in_the_bowel_or_in_the_lungs(scan: Scan) -> None:
    """No black between organs: what is neither lung nor bowel is fat or denser."""
    gas = (scan.hu[::2, ::2] < -400) & body_of(scan)
    hollow = np.logical_or.reduce([scan.masks[name][::2, ::2] for name in HOLLOW])
    lungs = np.zeros_like(gas)
    lungs[:, :, LUNGS_FROM:] = True
    stray = gas & ~ndimage.binary_dilation(hollow, TOUCHING) & ~lungs
    assert stray.sum() == 0, np.argwhere(stray)[0]


def test_organs_do_not_overlap(scan: Scan) -> None:
    parts = {part for listed in PARTS.values() for part in listed}
    organs = [
        n for n in scan.masks if n not in parts and not re.search("lesion|cyst|tumor|p.*_p", n)
    ]
    total = np.sum([scan.masks[name] for name in organs], axis=0)
    assert total.max() == 1
    assert len(organs) >= 15


@pytest.mark.parametrize("whole", PARTS)
def test_parts_make_up_the_organ(scan: Scan, whole: str) -> None:
    total = np.sum([scan.masks[name] for name in PARTS[whole]], axis=0)
    assert np.array_equal(total, scan.masks[whole].astype(total.dtype))


def test_solid_organs_are_of_one_piece(scan: Scan) -> None:
    for name in ("liver", "spleen", "kidney_left", "kidney_right", "pancreas", "gall_bladder"):
        parts = scan.components(name)
        assert parts[0].sum() >= 0.999 * scan.masks[name].sum(), name


def test_lesions_lie_in_their_organs(scan: Scan) -> None:
    kidneys = scan.masks["kidney_left"] | scan.masks["kidney_right"]
    assert not (scan.masks["liver_lesion"] & ~scan.masks["liver"]).any()
    assert not (scan.masks["pancreatic_lesion"] & ~scan.masks["pancreas"]).any()
    assert not (scan.masks["kidney_lesion"] & ~kidneys).any()


def test_organs_are_on_their_sides(scan: Scan) -> None:
    def centre_ras(name: str) -> np.ndarray:
        voxel = ndimage.center_of_mass(scan.masks[name])
        return nib.affines.apply_affine(scan.image.affine, voxel)

    for name in ("liver", "kidney_right", "gall_bladder", "postcava", "adrenal_gland_right"):
        assert centre_ras(name)[0] > 5, name
    for name in ("spleen", "kidney_left", "stomach", "aorta", "adrenal_gland_left"):
        assert centre_ras(name)[0] < -5, name
    assert centre_ras("liver")[2] > centre_ras("colon")[2]
    assert centre_ras("kidney_left")[1] < centre_ras("stomach")[1]


# --- references against an own count


def number(text: str) -> float:
    return float(re.findall(r"-?\d+\.?\d*", text)[0])


def assert_all(made: Demo, subtype: str, measured, *, least: int) -> None:
    """Check that every stated answer of a subtype is what ``measured(scan, question)`` finds."""
    asked = made.asked(subtype)
    assert len(asked) >= least
    for question in asked:
        found = measured(made.scans[question["image_id"]], question)
        assert found == question["answer"], (question["qid"], question["question"])


def test_organ_volumes(made: Demo) -> None:
    assert_all(
        made, "organ volume measurement", lambda s, q: f"{s.volume(q['organ']):.1f}", least=8
    )


def test_organ_means(made: Demo) -> None:
    assert_all(made, "organ HU measurement", lambda s, q: f"{s.mean(q['organ']):.1f}", least=6)


def test_lesion_volumes(made: Demo) -> None:
    def measured(scan: Scan, question: dict) -> str:
        text = question["question"]
        names = ("liver_lesion", "kidney_cyst", "pancreatic_pdac", "pancreatic_cyst",
                 "kidney_lesion")  # fmt: skip
        name = next(n for n in names if n.replace("_", " ").casefold() in text.casefold())
        return f"{scan.volume(name):.1f}"

    assert_all(made, "lesion volume measurement", measured, least=4)


def test_lesion_counts(made: Demo) -> None:
    def measured(scan: Scan, question: dict) -> str:
        name = "_".join(question["question"].split()[2:4])
        return str(len(scan.components(name)))

    assert_all(made, "lesion counting", measured, least=4)


@pytest.mark.parametrize(
    ("subtype", "mask"),
    [
        ("PDAC existence", "pancreatic_pdac"),
        ("PNET existence", "pancreatic_pnet"),
        ("kidney cyst existence", "kidney_cyst"),
        ("kidney lesion existence", "kidney_lesion"),
        ("kidney tumor existence", "kidney_tumor"),
        ("liver lesion existence", "liver_lesion"),
        ("pancreatic lesion existence", "pancreatic_lesion"),
    ],
)
def test_existence(made: Demo, subtype: str, mask: str) -> None:
    assert_all(made, subtype, lambda s, q: "Yes" if s.masks[mask].any() else "No", least=2)


def test_one_structure_has_no_mask_file_although_it_is_asked_about(made: Demo) -> None:
    asked = {q["image_id"] for q in made.asked("colon lesion existence")}
    assert asked == {"DEMO_0001", "DEMO_0002"}
    assert not made.scans["DEMO_0001"].masks["colon_lesion"].any()
    assert "colon_lesion" not in made.scans["DEMO_0002"].masks


def test_spleens(made: Demo) -> None:
    def grade(scan: Scan, question: dict) -> str:
        volume = scan.volume("spleen")
        names = ("Normal (no splenomegaly)", "Mild", "Moderate", "Severe")
        return names[sum(volume > limit for limit in (314.5, 500, 800))]

    assert_all(made, "splenomegaly grading", grade, least=2)
    assert_all(
        made,
        "splenomegaly detection",
        lambda s, q: "Yes" if s.volume("spleen") > 314.5 else "No",
        least=2,
    )


def test_kidneys_compared(made: Demo) -> None:
    def bigger(scan: Scan, question: dict) -> str:
        left, right = scan.volume("kidney_left"), scan.volume("kidney_right")
        assert abs(left - right) > 0.05 * max(left, right)
        return "left kidney" if left > right else "right kidney"

    assert_all(made, "kidney volume comparison", bigger, least=2)


def test_ratios_burdens_and_sums(made: Demo) -> None:
    def ratio(scan: Scan, question: dict) -> str:
        upper, lower = re.findall(r"the (\w+)-to-(\w+)", question["question"])[0]
        return f"{scan.mean(upper) / scan.mean(lower):.2f}"

    def burden(scan: Scan, question: dict) -> str:
        organs = ["liver"] if question["organ"] == "liver" else ["kidney_left", "kidney_right"]
        lesion = scan.volume(f"{question['organ']}_lesion")
        return f"{100 * lesion / sum(map(scan.volume, organs)):.1f}"

    def total(scan: Scan, question: dict) -> str:
        organs = ["liver", "spleen"]
        if question["organ"] == "kidney":
            organs = ["kidney_left", "kidney_right"]
        return f"{sum(map(scan.volume, organs)):.1f}"

    assert_all(made, "organ HU ratio", ratio, least=3)
    assert_all(made, "tumor burden percentage", burden, least=2)
    assert_all(made, "organ aggregation", total, least=2)


def nearest_option(question: dict, value: float) -> str:
    options = re.findall(r"([A-D]): (-?[\d.]+)", question["mc_question"])
    return min(options, key=lambda option: abs(float(option[1]) - value))[0]


def test_diameters_and_slices_point_to_the_right_option(made: Demo) -> None:
    """Sampling moves an extent by up to a voxel: the right option must stay the nearest."""
    for question in made.asked("largest lesion diameter"):
        mask = "_".join(question["question"].split()[-4:-2])
        extent, _ = made.scans[question["image_id"]].widest(mask)
        assert abs(extent - number(question["answer"])) < 0.3
        assert nearest_option(question, extent) == question["correct_option"]
    for question in made.asked("largest lesion slice"):
        mask = "_".join(question["question"].split()[6:8])
        _, index = made.scans[question["image_id"]].widest(mask)
        assert abs(index - int(question["answer"])) <= 3
        assert nearest_option(question, index) == question["correct_option"]


def located(scan: Scan, lesion: np.ndarray, parts: list[str]) -> list[str]:
    """Return the parts of an organ that hold more than a tenth of a lesion."""
    return [part for part in parts if (scan.masks[part] & lesion).sum() > 0.1 * lesion.sum()]


def test_locations(made: Demo) -> None:
    kidneys = ["kidney_left", "kidney_right"]
    parts = {"liver": PARTS["liver"], "pancreas": PARTS["pancreas"], "kidney": kidneys}
    masks = {"liver": "liver_lesion", "pancreas": "pancreatic_lesion", "kidney": "kidney_lesion"}

    def where(scan: Scan, question: dict) -> str:
        largest = scan.components(masks[question["organ"]])[0]
        found = located(scan, largest, parts[question["organ"]])
        return ",".join(part.split("_", 1)[1].replace("_", " ") for part in found)

    assert_all(made, "largest lesion location", where, least=3)


def test_one_lesion_spans_two_segments(made: Demo) -> None:
    scan = made.scans["DEMO_0001"]
    spanned = [located(scan, lesion, PARTS["liver"]) for lesion in scan.components("liver_lesion")]
    assert sorted(map(len, spanned)) == [1, 1, 2]
    assert ["liver_segment_5", "liver_segment_8"] in spanned


def test_counts_by_place_and_segment_comparison(made: Demo) -> None:
    scan = made.scans["DEMO_0001"]
    counts = [
        sum(
            name in located(scan, lesion, PARTS["liver"])
            for lesion in scan.components("liver_lesion")
        )
        for name in PARTS["liver"]
    ]
    for question in made.asked("inter-segment comparison"):
        first, second = map(int, re.findall(r"\d", question["question"]))
        a, b = counts[first - 1], counts[second - 1]
        more = first if a > b else second
        expected = "Both" if a == b else f"Segment {more} has more"
        assert question["answer"].startswith(expected)
    asked = {q["question"]: q["answer"] for q in made.asked("lesion count by location")}
    assert asked["How many liver lesion instances lie in segment 7 of the liver?"] == str(counts[6])


def test_outlier_and_asymmetry(made: Demo) -> None:
    scan = made.scans["DEMO_0001"]
    sizes = [part.sum() for part in scan.components("liver_lesion")]
    assert len(sizes) == 3
    assert sizes[0] >= 3 * sizes[1]
    assert made.asked("lesion outlier")[0]["answer"] == "Yes"
    for question in made.asked("bilateral kidney asymmetry"):
        own = made.scans[question["image_id"]]
        left, right = (
            (own.masks["kidney_lesion"] & own.masks[f"kidney_{side}"]).sum()
            for side in ("left", "right")
        )
        assert question["answer"] == ("left kidney" if left > right else "right kidney")


def test_attenuation_of_lesions(made: Demo) -> None:
    scan = made.scans["DEMO_0001"]
    gap = scan.mean("pancreas") - scan.mean("pancreatic_lesion")
    assert made.asked("tumor organ HU difference")[0]["answer"] == f"{gap:.1f}"
    for question in made.asked("largest lesion attenuation"):
        organ = {"liver": "liver", "kidney": "kidney_right"}[question["organ"]]
        largest = scan.components(f"{question['organ']}_lesion")[0]
        spread = scan.hu[scan.masks[organ]].std()
        assert scan.hu[largest].mean() < scan.mean(organ) - 0.1 * spread
        assert question["answer"] == "hypoattenuating"


def test_steatosis(made: Demo) -> None:
    for subtype, organ, limit in (
        ("fatty liver", "liver", 1.0),
        ("pancreatic steatosis", "pancreas", 0.7),
    ):
        assert_all(
            made,
            subtype,
            lambda s, q, o=organ, t=limit: "Yes" if s.mean(o) / s.mean("spleen") < t else "No",
            least=2,
        )
    scan = made.scans["DEMO_0002"]
    assert 39 <= scan.mean("liver") <= 50
    assert 0.5 <= scan.mean("liver") / scan.mean("spleen") < 0.8
    assert made.asked("hepatic steatosis grading")[0]["answer"] == "G2"


# --- the questions


def test_wrong_references_are_listed_and_never_marked_in_the_record(made: Demo) -> None:
    assert len(made.wrong) >= 3
    for key, entry in made.wrong.items():
        record = made.questions[key]
        assert record["answer"] == entry["stated"] != entry["parameters_give"]
        assert record["correct_option"] != entry["correct_letter"]
        assert not any(re.search("plant|wrong", name) for name in record)


def options_of(question: dict) -> dict[str, str]:
    pieces = re.split(r"\s?\b([A-D]): ", question["mc_question"])
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_question_is_complete_and_answerable(made: Demo) -> None:
    keys = {
        *("qid", "image_id", "spacing", "shape", "sex", "age", "question", "answer"),
        *("mc_question", "correct_option", "organ", "lesion", "question_type"),
        *("question_subtype", "requires_tools", "reference_rule"),
    }
    assert len(made.questions) >= 60
    for question in made.questions.values():
        assert keys <= question.keys()
        options = options_of(question)
        assert 2 <= len(options) <= 4
        assert len(set(options.values())) == len(options)
        assert options[question["correct_option"]] == question["answer"]
        assert question["mc_question"].startswith(question["question"])


def test_wrong_numbers_are_far_from_the_right_one(made: Demo) -> None:
    for key, question in made.questions.items():
        right = made.wrong.get(key, {}).get("parameters_give", question["answer"])
        values = list(options_of(question).values())
        if all(re.fullmatch(r"-?[\d.]+", value) for value in values):
            others = np.array([float(value) for value in values if value != right])
            assert (np.abs(others - float(right)) > 0.05 * float(right)).all(), key


def test_many_subtypes_in_all_stages(made: Demo) -> None:
    subtypes = {q["question_subtype"] for q in made.questions.values()}
    stages = {q["question_type"] for q in made.questions.values()}
    assert len(subtypes) >= 35
    assert stages == {"recognition", "measurement", "visual reasoning", "medical reasoning"}
