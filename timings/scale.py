"""`validate` on a dask cluster of one and of two workers, in one run: the ratio of their times.

The case of evidence.py (512 x 512 x 300, 40 masks) under twelve names, with fifty questions each.
Both clusters are local, one thread a worker; they are started before the clock, which is printed
apart, and have imported what they need. The arms take turns, one and two workers, twice. To reach:
two workers at least 1.7 times as fast as one. See timings/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from evidence import make_case, write_questions

CASES, QUESTIONS = 12, 600
FASTER = 1.7
CALM_LOAD = 1.0


def make_many(folder: Path, case: Path) -> Path:
    """Write questions about the case under many names; return PATH for validate."""
    ids = [f"BDMAP_{number:08d}" for number in range(1, CASES + 1)]
    write_questions(folder, ids, QUESTIONS)
    (folder / "benchmark" / "ct").mkdir(exist_ok=True)
    for case_id in ids:
        link = folder / "benchmark" / "ct" / case_id
        if not link.exists():
            link.symlink_to(case)
    return folder


def validate_s(folder: Path, workers: int, round_: int) -> tuple[float, float]:
    """Return the seconds of starting a cluster, and of validating on it."""
    from napari_ctvqa.runners.cluster import Cluster
    from napari_ctvqa.runners.cluster_answers import checking
    from napari_ctvqa.runners.cluster_work import checks
    from napari_ctvqa.runners.opening import open_path
    from napari_ctvqa.runners.validate import validate

    opened = open_path(folder)
    out = folder / f"checks_{workers}_{round_}.csv"
    out.unlink(missing_ok=True)
    began = time.perf_counter()
    with Cluster(f"local:{workers}") as cluster:
        cluster._client.wait_for_workers(workers, timeout=60)
        cluster._client.run(checks, '{"case": {"id": "", "ct": null, "masks": []}, "questions": [],'
                            ' "absent_means_none": false}')  # fmt: skip
        start = time.perf_counter()
        *_, last = validate(opened, range(QUESTIONS), out=out, elsewhere=checking(cluster))
        took = time.perf_counter() - start
    assert last.done == QUESTIONS and not last.failed
    return start - began, took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=Path, help="use this folder's case, made where it is not")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if load > CALM_LOAD:
        print(f"other work keeps this machine busy (load {load:.1f}): the ratio is not to be kept")
    with tempfile.TemporaryDirectory() as temporary:
        os.environ.setdefault("NAPARI_CTVQA_CONFIG_DIR", f"{temporary}/config")
        folder = (args.case or Path(temporary)).absolute()
        case = folder / "case"
        if not case.exists():
            make_case(case)
        many = make_many(folder / "scale", case)
        times: dict[int, list[float]] = {1: [], 2: []}
        for round_ in range(args.rounds):
            for workers in times:
                started, took = validate_s(many, workers, round_)
                times[workers].append(took)
                print(
                    f"{workers} workers: {took:6.2f} s for {QUESTIONS} questions of {CASES} cases "
                    f"(started in {started:.1f} s)",
                    flush=True,
                )
        tables = {path.read_bytes() for path in many.glob("checks_*.csv")}
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    best = min(times[1]) / min(times[2])
    rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(
        f"two workers are {best:.2f} × as fast as one (each round: {rounds}; at least {FASTER} ×)"
    )
    print("the tables are the same" if len(tables) == 1 else "THE TABLES DIFFER")
    return 0 if best >= FASTER and len(tables) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
