"""Cases kept in memory: the newest within a budget, views counted as what they view."""

import phantoms
import pytest

from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.case_shelf import CaseShelf, case_bytes
from napari_ctvqa.io.reader import read_case


@pytest.fixture
def case(tmp_path):
    return read_case(find_case(phantoms.save_case(tmp_path / "case")))


def test_a_kept_case_comes_back(case):
    shelf = CaseShelf()
    shelf.put("a", case)
    assert shelf.get("a") is case
    assert shelf.get("b") is None


def test_the_longest_unused_goes_first(case):
    shelf = CaseShelf(budget_bytes=2 * case_bytes(case))
    shelf.put("a", case)
    shelf.put("b", case)
    shelf.get("a")
    shelf.put("c", case)
    assert "b" not in shelf
    assert "a" in shelf and "c" in shelf


def test_a_case_larger_than_the_budget_stays_alone(case):
    shelf = CaseShelf(budget_bytes=1)
    shelf.put("a", case)
    shelf.put("b", case)
    assert "a" not in shelf and "b" in shelf


def test_ct_bytes_are_counted_once_though_two_names_hold_them(case):
    assert case.volume.display_zyx is case.volume.array_zyx
    ct = case.volume.array_zyx
    assert ct.nbytes <= case_bytes(case) < 2 * ct.nbytes + 200_000
