"""Fixtures for every test: the real-data folder and a small phantom case."""

import os
from pathlib import Path

import phantoms
import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real input; skips where it is not at hand."""
    folder = os.environ.get("NAPARI_CTVQA_REAL_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set NAPARI_CTVQA_REAL_DATA to its folder")
    return Path(folder)


@pytest.fixture(scope="session")
def phantom() -> phantoms.Phantom:
    """Arrays of the one-sided phantom, RAS. Do not change them."""
    return phantoms.phantom()


@pytest.fixture
def phantom_case(tmp_path: Path) -> Path:
    """A case folder with ``ct.nii.gz`` and five masks, LPS."""
    return phantoms.save_case(tmp_path / "case")
