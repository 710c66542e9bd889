"""Change the rule table and the measuring code, one fault at a time, and see that a test fails.

Two lists: ``tests/unit/table_mutations.py`` makes its mutations from ``resources/rules.json``,
``tests/unit/code_mutations.py`` holds faults of the measuring modules. Tables are changed in
memory; code is changed in a copy of the package that the tests are pointed at. Nothing in the tree
is written.

    python scripts/mutations.py [--table] [--code] [--only WORD] [--jobs N] [--quiet]

Exit 1 if a mutation survived, 2 if the tests fail without any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "unit"
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(TESTS)]

if TYPE_CHECKING:
    from code_mutations import Fault

SECONDS = 600
"""No test of these runs nearly as long: a mutation that does is an endless loop, and caught."""


@dataclass(frozen=True)
class Outcome:
    """One mutation and what noticed it; ``by`` is empty where nothing did."""

    kind: str
    name: str
    by: str


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    everything = not (options.table or options.code)
    outcomes: list[Outcome] = []
    if everything or options.table:
        outcomes += _shown(_of_table(options.only, options.jobs), options.quiet)
    if everything or options.code:
        broken = unchanged_fails(options.only)
        if broken:
            print(f"the tests fail without any mutation:\n{broken}")
            return 2
        outcomes += _shown(_of_code(options.only, options.jobs), options.quiet)
    survived = [outcome for outcome in outcomes if not outcome.by]
    counts = ", ".join(f"{n} {kind}" for kind, n in Counter(o.kind for o in outcomes).most_common())
    print(f"{len(outcomes)} mutations ({counts}): {len(survived)} survived")
    for outcome in survived:
        print(f"SURVIVED  {outcome.kind}: {outcome.name}")
    return 1 if survived or not outcomes else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Show that every mutation is caught.")
    parser.add_argument("--table", action="store_true", help="the rule table alone")
    parser.add_argument("--code", action="store_true", help="the measuring code alone")
    parser.add_argument("--only", default="", help="mutations whose name holds this word")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="only the sum and the survivors")
    return parser.parse_args(arguments)


def _shown(outcomes: Iterable[Outcome], quiet: bool) -> Iterator[Outcome]:
    for outcome in outcomes:
        if not quiet or not outcome.by:
            said = f"caught by {outcome.by[:100]}" if outcome.by else "SURVIVED"
            print(f"{outcome.kind:12} {outcome.name[:110]}: {said}", flush=True)
        yield outcome


# -------------------------------------------------------------------------------- the rule table


def _of_table(only: str, jobs: int) -> Iterator[Outcome]:
    from table_mutations import mutations

    subtypes = dict.fromkeys(mutation.subtypes[0] for mutation in mutations())
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(_of_subtype, subtypes, [only] * len(subtypes)):
            yield from found


def _of_subtype(subtype: str, only: str) -> list[Outcome]:
    from table_mutations import caught, mutations

    return [
        Outcome(mutation.kind, mutation.what, caught(mutation))
        for mutation in mutations()
        if mutation.subtypes[0] == subtype and only in mutation.name
    ]


# ---------------------------------------------------------------------------- the measuring code


def unchanged_fails(only: str = "") -> str:
    """Return what fails in an unchanged copy of the package, empty where nothing does."""
    from code_mutations import FAULTS

    names = dict.fromkeys(name for fault in FAULTS for name in fault.asked if only in fault.what)
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        return failing_test(Path(folder), tuple(names))


def _of_code(only: str, jobs: int) -> Iterator[Outcome]:
    from code_mutations import FAULTS

    wanted = [fault for fault in FAULTS if only in fault.what or only in fault.module]
    with ThreadPoolExecutor(jobs) as pool:  # each waits for a process of its own
        yield from pool.map(tried, wanted)


def tried(fault: Fault) -> Outcome:
    """Apply one fault to a copy of the package and run the tests that are asked of it."""
    with tempfile.TemporaryDirectory() as folder:
        changed = copied(Path(folder)) / fault.module
        changed.write_text(fault.applied_to(changed.read_text(encoding="utf-8")), encoding="utf-8")
        return Outcome(fault.module, fault.what, _named(failing_test(Path(folder), fault.asked)))


def copied(folder: Path) -> Path:
    """Copy the package and its resources into a folder; return the copy of the package."""
    without = shutil.ignore_patterns("__pycache__", "widgets")
    shutil.copytree(ROOT / "resources", folder / "resources")
    return shutil.copytree(ROOT / "napari_ctvqa", folder / "napari_ctvqa", ignore=without)


def failing_test(folder: Path, names: Sequence[str]) -> str:
    """Return what pytest says of the first test that fails with the package of a folder."""
    files = [_place(name) for name in names]
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rf",
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider",
        *files,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # no test of these needs a window
        "OMP_NUM_THREADS": "1",
    }
    try:
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "FAILED a test that does not end"
    return "" if ran.returncode == 0 else f"{ran.stdout[-2000:]}{ran.stderr[-1000:]}"


def _place(name: str) -> str:
    """Return where a test module is, or one test of it, for pytest."""
    module, _, test = name.partition("::")
    return f"{TESTS / module}.py{'::' if test else ''}{test}"


def _named(said: str) -> str:
    """Return the test that failed from what pytest said; the last line where none is named."""
    lines = [line for line in said.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    named = failed[0].split(" - ")[0] if failed else lines[-1] if lines else ""
    return named.split("/")[-1].removeprefix("FAILED ")


if __name__ == "__main__":
    raise SystemExit(main())
