"""Time to draw every chain of one large case against measuring it the plain way, in one run.

The case: a 512 x 512 x 300 int16 CT and 40 mask files, organs, their parts and lesions, generated.
The peer is what the scientific Python stack offers first: nibabel's ``get_fdata`` of each mask,
``scipy.ndimage.label`` with the full structure, ``center_of_mass``, the mean HU by boolean index,
no boxes. SimpleITK's label statistics stand beside it. Each arm runs in a process of its own; the
values must be the same. Then ``validate`` on 1,000 questions over 20 such cases with one and two
processes. See timings/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from open_case import SHAPE_ZYX, SPACING_MM, blob, save

TARGETS = {"chains": 1 / 10, "memory MB": 1000.0, "two jobs": 1.7}
CALM_LOAD = 1.5
CASES, QUESTIONS = 20, 1000

# Centre and half-axes as parts of the body's box, as in open_case; then HU.
PLACES = {
    "liver": (0.30, 0.42, 0.30, 0.20, 0.22, 0.15, 62),
    "spleen": (0.76, 0.58, 0.28, 0.07, 0.10, 0.09, 52),
    "pancreas": (0.52, 0.48, 0.42, 0.14, 0.05, 0.03, 40),
    "kidney_right": (0.32, 0.66, 0.45, 0.06, 0.07, 0.09, 34),
    "kidney_left": (0.68, 0.66, 0.43, 0.06, 0.07, 0.09, 34),
    "colon": (0.50, 0.38, 0.58, 0.34, 0.24, 0.20, 20),
    "stomach": (0.64, 0.38, 0.30, 0.12, 0.12, 0.10, 25),
    "gall_bladder": (0.36, 0.34, 0.42, 0.04, 0.05, 0.05, 8),
    "duodenum": (0.42, 0.48, 0.46, 0.06, 0.06, 0.05, 30),
    "esophagus": (0.51, 0.60, 0.12, 0.02, 0.025, 0.12, 30),
    "aorta": (0.53, 0.62, 0.40, 0.025, 0.035, 0.38, 160),
    "postcava": (0.45, 0.58, 0.45, 0.025, 0.03, 0.30, 120),
    "celiac_trunk": (0.52, 0.55, 0.40, 0.012, 0.05, 0.010, 150),
    "superior_mesenteric_artery": (0.53, 0.52, 0.48, 0.012, 0.02, 0.07, 150),
    "portal_vein_and_splenic_vein": (0.52, 0.50, 0.38, 0.14, 0.02, 0.02, 130),
    "adrenal_gland_right": (0.38, 0.60, 0.36, 0.02, 0.03, 0.02, 30),
    "adrenal_gland_left": (0.60, 0.60, 0.36, 0.02, 0.03, 0.02, 30),
    "lung_right": (0.28, 0.42, 0.10, 0.14, 0.24, 0.10, -800),
    "lung_left": (0.72, 0.42, 0.10, 0.14, 0.24, 0.10, -800),
    "bladder": (0.50, 0.40, 0.92, 0.10, 0.12, 0.06, 5),
    **{
        f"liver_segment_{n + 1}": (
            0.20 + 0.2 * (n % 2), 0.32 + 0.2 * (n // 2 % 2), 0.23 + 0.14 * (n // 4),
            0.10, 0.11, 0.075, 62,
        )
        for n in range(8)
    },
    "pancreas_head": (0.43, 0.48, 0.42, 0.05, 0.05, 0.03, 40),
    "pancreas_body": (0.52, 0.48, 0.42, 0.05, 0.05, 0.03, 40),
    "pancreas_tail": (0.61, 0.48, 0.42, 0.05, 0.05, 0.03, 40),
    "liver_lesion": (0.26, 0.40, 0.28, 0.04, 0.04, 0.03, 25),
    "kidney_tumor": (0.70, 0.68, 0.40, 0.02, 0.02, 0.02, 60),
    "kidney_cyst": (0.31, 0.66, 0.47, 0.02, 0.02, 0.02, 5),
    "kidney_lesion": (0.69, 0.65, 0.46, 0.015, 0.015, 0.015, 45),
    "pancreatic_pdac": (0.44, 0.48, 0.42, 0.02, 0.03, 0.02, 20),
    "pancreatic_pnet": (0.60, 0.48, 0.42, 0.015, 0.02, 0.015, 70),
    "pancreatic_cyst": (0.53, 0.48, 0.42, 0.015, 0.02, 0.015, 8),
    "pancreatic_lesion": (0.48, 0.48, 0.43, 0.01, 0.015, 0.01, 30),
    "colon_lesion": (0.30, 0.40, 0.60, 0.02, 0.03, 0.03, 40),
}  # fmt: skip
MORE = {
    "adjacent organ": ("pancreas", "Which organ is next to the largest pancreatic lesion? "
                       "A: duodenum B: stomach C: spleen D: colon"),
    "pseudocyst determination": ("pancreas", "Is the largest pancreatic cyst a pseudocyst?"),
    "pancreatic cyst resectability": ("pancreas", "Is surgery advised for the largest "
                                      "pancreatic cyst?"),
    "pancreatic lesion resectability": ("pancreas", "Is the pancreatic lesion resectable?"),
    "portal hypertension assessment": ("spleen", "Does the spleen speak for portal "
                                       "hypertension?"),
}  # fmt: skip
"""Subtypes that the demo may not ask about."""


def make_case(folder: Path) -> Path:
    """Write the case; return its folder."""
    import nibabel as nib

    assert len(PLACES) == 40
    rng = np.random.default_rng(7)
    affine = np.diag([-SPACING_MM[0], -SPACING_MM[1], SPACING_MM[2], 1.0])
    affine[:3, 3] = [204.4, 204.4, -300.0]
    ct = rng.normal(-1000, 12, SHAPE_ZYX).astype(np.int16)
    y, x = np.ogrid[-1:1:512j, -1:1:512j]
    ct[:, (x / 0.88) ** 2 + (y / 0.62) ** 2 < 1] += 1030
    noise = rng.normal(0, 12, SHAPE_ZYX[1:]).astype(np.int16)
    (folder / "segmentations").mkdir(parents=True)
    for name, (*place, hu) in PLACES.items():
        mask = np.zeros(SHAPE_ZYX, np.uint8)
        box, inside = blob(tuple(place), rng)
        mask[box][inside] = 1
        grain = np.broadcast_to(noise[box[1:]], inside.shape)
        ct[box][inside] = hu + grain[inside]
        save(folder / "segmentations" / f"{name}.nii.gz", mask, affine, nib)
    save(folder / "ct.nii.gz", ct, affine, nib)
    return folder


def asked() -> list[dict[str, object]]:
    """Return the demo's questions, of every subtype at least one."""
    from napari_ctvqa.core.rules import supported
    from napari_ctvqa.demo import ensure_demo

    path = ensure_demo() / "benchmark" / "test_qa.json"
    questions = json.loads(path.read_text(encoding="utf-8"))["questions"]
    there = {question["question_subtype"] for question in questions}
    for subtype, (organ, text) in MORE.items():
        if subtype not in there:
            more = {"question": text, "mc_question": text, "answer": "Yes", "correct_option": ""}
            questions.append({**questions[0], **more, "question_subtype": subtype, "organ": organ})
    missing = set(supported()) - {question["question_subtype"] for question in questions}
    assert not missing, missing
    return questions


def write_questions(folder: Path, case_ids: list[str], count: int) -> Path:
    """Write a question file that asks ``count`` questions, the same of each case."""
    texts = asked()
    each = count // len(case_ids)
    rows = [
        {**texts[n % len(texts)], "qid": f"{case_id}-{n}", "image_id": case_id}
        for case_id in case_ids
        for n in range(each)
    ]
    (folder / "benchmark").mkdir(parents=True, exist_ok=True)
    (folder / "benchmark" / "test_qa.json").write_text(json.dumps({"questions": rows}))
    return folder


# The arms: each runs alone in its process and prints one line of JSON -------------------------


def run_ours(folder: Path) -> dict[str, object]:
    from napari_ctvqa.core.measure import hu_statistics
    from napari_ctvqa.core.regions import components
    from napari_ctvqa.core.sampling import centroid_ras_mm
    from napari_ctvqa.evidence.chains import reference_chain
    from napari_ctvqa.io.case_files import find_case
    from napari_ctvqa.io.reader import read_case
    from napari_ctvqa.runners.opening import open_path

    questions = list(open_path(folder.parent / "questions").questions)
    start = time.perf_counter()
    case = read_case(find_case(folder))
    read_s = time.perf_counter() - start
    values = {}
    for name, mask in case.masks.items():
        region = mask.own_region
        values[name] = {
            "voxels": region.voxels,
            "components": len(components(region)),
            "centre_mm": centroid_ras_mm(region).tolist(),
            "hu": hu_statistics(region, case.volume).mean_hu,
        }
    measured_s = time.perf_counter() - start
    chains = [reference_chain(question, case) for question in questions]
    total_s = time.perf_counter() - start
    return {
        "seconds": total_s,
        "read_s": read_s,
        "measured_s": measured_s - read_s,
        "chains_s": total_s - measured_s,
        "chains": len(chains),
        "drawn": sum(bool(chain.conclusion) for chain in chains),
        "subtypes": len({question.subtype for question in questions}),
        "values": values,
    }


def run_peer(folder: Path) -> dict[str, object]:
    import nibabel as nib
    from nibabel.affines import apply_affine
    from scipy import ndimage

    start = time.perf_counter()
    ct = nib.load(folder / "ct.nii.gz").get_fdata()
    full = np.ones((3, 3, 3), int)
    values = {}
    for path in sorted((folder / "segmentations").iterdir()):
        image = nib.load(path)
        mask = image.get_fdata()
        _, count = ndimage.label(mask, full)
        values[path.name.removesuffix(".nii.gz")] = {
            "voxels": int(mask.sum()),
            "components": count,
            "centre_mm": apply_affine(image.affine, ndimage.center_of_mass(mask)).tolist(),
            "hu": float(ct[mask > 0].mean()),
        }
    return {"seconds": time.perf_counter() - start, "values": values}


def run_simpleitk(folder: Path) -> dict[str, object]:
    import SimpleITK as sitk

    start = time.perf_counter()
    ct = sitk.ReadImage(str(folder / "ct.nii.gz"))
    values = {}
    for path in sorted((folder / "segmentations").iterdir()):
        mask = sitk.ReadImage(str(path))
        count = sitk.ConnectedComponentImageFilter()
        count.FullyConnectedOn()
        count.Execute(mask)
        found = sitk.LabelIntensityStatisticsImageFilter()
        found.Execute(mask, ct)
        left, posterior, superior = found.GetCentroid(1)
        values[path.name.removesuffix(".nii.gz")] = {
            "voxels": found.GetNumberOfPixels(1),
            "components": count.GetObjectCount(),
            "centre_mm": [-left, -posterior, superior],
            "hu": found.GetMean(1),
        }
    return {"seconds": time.perf_counter() - start, "values": values}


ARMS = {"ours": run_ours, "peer": run_peer, "SimpleITK": run_simpleitk}


# The run ------------------------------------------------------------------------------------


def run_arm(name: str, folder: Path) -> dict[str, object]:
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, __file__, "--arm", name, "--case", folder],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the arm {name!r} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def same_values(ours: dict[str, dict], theirs: dict[str, dict]) -> bool:
    """Return whether two arms found the same, and print the first thing they did not."""
    for name, mine in ours.items():
        other = theirs[name]
        exact = (mine["voxels"], mine["components"]) == (other["voxels"], other["components"])
        numbers = ([*of["centre_mm"], of["hu"]] for of in (mine, other))
        close = np.allclose(*numbers, rtol=1e-6, atol=1e-3)
        if not (exact and close):
            print(f"{name}: {mine} here, {other} there")
            return False
    return True


def compare_arms(folder: Path, skipped: list[str]) -> bool:
    """Run the arms on one case and print the table; return whether the promises are kept."""
    found = {name: run_arm(name, folder) for name in ARMS if name not in skipped}
    ours = found["ours"]
    print(
        f"ours: read {ours['read_s']:.2f} s, measured as the peer does {ours['measured_s']:.2f} s, "
        f"{ours['chains']} chains of {ours['subtypes']} subtypes {ours['chains_s']:.2f} s "
        f"({ours['drawn']} with a conclusion)"
    )
    kept = ours["peak_mb"] < TARGETS["memory MB"]
    for name, arm in found.items():
        ratio = ours["seconds"] / arm["seconds"]
        print(
            f"{name:<10} {arm['seconds']:8.2f} s  {arm['cpu_s']:8.2f} s of processor  "
            f"{arm['peak_mb']:6.0f} MB   ours / {name}: 1/{1 / ratio:.1f}"
        )
        if name == "ours":
            continue
        kept &= same_values(ours["values"], arm["values"])
        if name == "peer":
            kept &= ratio <= TARGETS["chains"]
    return kept


def compare_jobs(folder: Path, case: Path) -> bool:
    """Validate 1,000 questions over 20 cases with one and two processes."""
    ids = [f"BDMAP_{number:08d}" for number in range(1, CASES + 1)]
    write_questions(folder, ids, QUESTIONS)
    (folder / "benchmark" / "ct").mkdir(exist_ok=True)
    for case_id in ids:
        link = folder / "benchmark" / "ct" / case_id
        if not link.exists():
            link.symlink_to(case)
    seconds = {jobs: validate_s(folder, jobs) for jobs in (1, 2)}
    faster = seconds[1] / seconds[2]
    print(
        f"validate, {QUESTIONS} questions over {CASES} cases: {seconds[1]:.1f} s with 1 process, "
        f"{seconds[2]:.1f} s with 2: {faster:.2f} × (at least {TARGETS['two jobs']} ×)"
    )
    return faster >= TARGETS["two jobs"]


def validate_s(folder: Path, jobs: int) -> float:
    from napari_ctvqa.runners.opening import open_path
    from napari_ctvqa.runners.validate import validate

    opened = open_path(folder)
    out = folder / f"checks_{jobs}.csv"
    out.unlink(missing_ok=True)
    start = time.perf_counter()
    *_, last = validate(opened, range(len(opened.questions)), out=out, jobs=jobs)
    assert last.done == QUESTIONS and not last.failed
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--case", type=Path, help="use this folder's case, made where it is not")
    parser.add_argument("--skip", action="append", default=[], help="an arm, or validate")
    args = parser.parse_args()
    if args.arm:
        result = ARMS[args.arm](args.case)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        result |= {"peak_mb": usage.ru_maxrss / 1024, "cpu_s": usage.ru_utime + usage.ru_stime}
        print(json.dumps(result))
        return 0
    load = os.getloadavg()[0]
    if load > CALM_LOAD:
        print(
            f"other work keeps this machine busy (load {load:.1f}): wall times are not to be kept"
        )
    with tempfile.TemporaryDirectory() as temporary:
        os.environ.setdefault("NAPARI_CTVQA_CONFIG_DIR", f"{temporary}/config")
        folder = (args.case or Path(temporary)).absolute()
        case = folder / "case"
        if not case.exists():
            make_case(case)
        write_questions(folder / "questions", [case.name], len(asked()))
        kept = compare_arms(case, args.skip)
        if "validate" not in args.skip:
            kept &= compare_jobs(folder / "many", case)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
