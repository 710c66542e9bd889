"""The list of faults of the measuring code holds, and some of them are tried for real.

All of them: ``make mutations``.
"""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest
from code_mutations import FAULTS

ROOT = Path(__file__).resolve().parents[2]
MEASURING = (
    "boxes", "cases", "conclusions", "contact", "diameters", "distances", "findings", "geometry",
    "measure", "overlaps", "parts", "plans", "quantities", "regions", "rules", "sampling",
    "selections", "shape", "targets",
)  # fmt: skip


@pytest.fixture(scope="module")
def script():
    """``scripts/mutations.py`` as a module."""
    place = ROOT / "scripts" / "mutations.py"
    spec = importlib.util.spec_from_file_location("mutations_script", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    yield module
    del sys.modules[spec.name]


def test_every_measuring_module_has_faults():
    assert len(FAULTS) >= 40
    counted = Counter(fault.module for fault in FAULTS)
    assert set(counted) == {f"core/{name}.py" for name in MEASURING}
    assert len({(fault.module, fault.what) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.module} {fault.what}")
def test_every_fault_still_fits_the_code(fault):
    # a line that was rewritten takes its fault along: rewrite that too, or the list thins out
    source = (ROOT / "napari_ctvqa" / fault.module).read_text(encoding="utf-8")
    changed = fault.applied_to(source)
    assert changed != source
    compile(changed, fault.module, "exec")
    for name in fault.asked:
        assert (ROOT / "tests" / "unit" / f"{name.partition('::')[0]}.py").is_file(), name


TRIED = (
    "components by faces alone", "spacings in the order x, y", "left and right exchanged",
    "mm³ taken for cm³",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", TRIED)
def test_a_fault_is_caught_by_the_tests_that_are_asked(script, what):
    fault = next(fault for fault in FAULTS if fault.what == what)
    assert script.tried(fault).by


@pytest.mark.slow
def test_an_unchanged_copy_passes_the_same_tests(script, tmp_path):
    script.copied(tmp_path)
    assert script.failing_test(tmp_path, ("test_regions", "test_diameters")) == ""


def test_a_survivor_ends_the_script_with_1(script, monkeypatch, capsys):
    survived = script.Outcome("core/measure.py", "nothing changed", "")
    monkeypatch.setattr(script, "_of_table", lambda only, jobs: iter([survived]))
    assert script.main(["--table"]) == 1
    assert "SURVIVED  core/measure.py: nothing changed" in capsys.readouterr().out
    caught = script.Outcome("core/measure.py", "something", "test_measure.py::test_it")
    monkeypatch.setattr(script, "_of_table", lambda only, jobs: iter([caught]))
    assert script.main(["--table"]) == 0
    monkeypatch.setattr(script, "_of_table", lambda only, jobs: iter([]))
    assert script.main(["--table", "--only", "no such word"]) == 1, "nothing tried shows nothing"
