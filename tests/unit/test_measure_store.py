"""Measurements on disk: saved and loaded with unit and place, through kills and damage."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evidence_cases import case as case_of
from evidence_cases import grid

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level
from napari_ctvqa.core.drawings import Drawing, Kind
from napari_ctvqa.core.errors import CtvqaError, RecordError
from napari_ctvqa.core.kept_drawings import SOFTWARE, KeptDrawing, entry_of, kept_of
from napari_ctvqa.core.measuring import measured
from napari_ctvqa.io import measure_store
from napari_ctvqa.io.append_log import AppendLog
from napari_ctvqa.io.measure_store import COLUMNS, MeasureStore, identity, write_table

SHAPE = (12, 30, 40)
ON = grid(SHAPE, (2.5, 0.8, 0.5))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv(measure_store.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def case():
    hu = np.random.default_rng(1).integers(-100, 200, SHAPE).astype(np.int16)
    return case_of({}, hu=hu, on=ON)


@pytest.fixture
def store(case):
    return MeasureStore(case.volume, case.case_id)


def kept(case, key="a1", name="lesion", kind=Kind.ELLIPSE, points=((3.25, 4.5), (9.0, 14.125))):
    drawing = Drawing(kind, 1, 7, tuple(points))
    return KeptDrawing(key, name, drawing, "2026-01-02T03:04:05+00:00", measured(drawing, case))


def test_what_is_kept_comes_back_the_same(case, store):
    before = kept(case)
    store.put(entry_of(before, case))
    loaded = MeasureStore(case.volume, case.case_id).load()
    assert loaded.problem == ""
    assert [kept_of(entry, case) for entry in loaded.entries] == [before]


def test_an_entry_says_unit_plane_slice_and_place_in_words(case):
    entry = entry_of(kept(case), case)
    assert (entry["plane"], entry["slice_shown_from_1"]) == ("coronal", 8)
    axis, number = ON.file_slice(1, 7)
    assert (entry["file_axis"], entry["file_slice_from_0"]) == ("ijk"[axis], number)
    assert entry["points_display_zyx"] == [[3.25, 7.0, 4.5], [9.0, 7.0, 14.125]]
    x, y, z = ON.ras_mm((3.25, 7, 4.5))
    assert entry["points_lps_mm"][0] == pytest.approx([-x, -y, z])
    units = {row["measure"]: row["unit"] for row in entry["values"]}
    assert units["mean_hu"] == "HU" and units["area_mm2"] == "mm²"
    assert entry["software"] == SOFTWARE
    assert "centre lies in or on" in entry["rule"]
    json.dumps(entry, allow_nan=False)


def test_positions_that_are_not_trusted_are_not_written(case):
    red = GeometryReport((GeometryWarning("codes_zero", Level.RED, "?"),))
    doubted = replace(case, report=red, volume=replace(case.volume, report=red))
    entry = entry_of(kept(doubted), doubted)
    assert entry["points_lps_mm"] is None
    assert {r["measure"]: r["value"] for r in entry["values"]}["area_mm2"] is None


def test_the_last_put_of_an_id_counts_and_a_removed_one_is_gone(case, store):
    first, second = kept(case), kept(case, "b2", "other")
    store.put(entry_of(first, case))
    store.put(entry_of(second, case))
    store.put(entry_of(replace(first, name="renamed"), case))
    assert [e["name"] for e in store.load().entries] == ["renamed", "other"]
    store.remove("a1")
    assert [e["name"] for e in store.load().entries] == ["other"]
    store.put(entry_of(first, case))
    assert [e["id"] for e in store.load().entries] == ["b2", "a1"]


def test_nothing_is_there_before_anything_is_kept(store, folder):
    assert store.load() == measure_store.Loaded()
    assert not folder.exists()


def test_a_ct_is_known_by_its_content_whatever_it_is_called(case, store):
    store.put(entry_of(kept(case), case))
    moved = replace(case.volume, path=Path("/elsewhere/x.nii.gz"))
    assert len(MeasureStore(moved, "another name").load().entries) == 1
    hu = case.volume.array_zyx.copy()
    hu[0, 0, 0] += 1
    assert identity(replace(case.volume, array_zyx=hu)) != identity(case.volume)
    other = grid(SHAPE, (2.5, 0.8, 0.6))
    assert identity(replace(case.volume, grid=other)) != identity(case.volume)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b/c", "", "ü" * 200])
def test_a_case_s_name_never_leads_out_of_the_folder(case, folder, name):
    path = MeasureStore(case.volume, name).path
    assert path.parent == folder
    assert len(path.name) < 120


def test_a_line_cut_by_a_kill_is_dropped_and_the_next_is_kept(case, store):
    store.put(entry_of(kept(case), case))
    with store.path.open("ab") as file:
        file.write(b'{"put": {"id": "b2", "na')
    assert store.load().problem == ""
    store.put(entry_of(kept(case, "c3"), case))
    assert [e["id"] for e in store.load().entries] == ["a1", "c3"]


@pytest.mark.parametrize("rubbish", [b"\x00\x01\x02\xff", b"[1]\n", b"null\n", b'{"put": 3}\n'])
def test_a_damaged_file_is_kept_aside_and_said(case, store, folder, rubbish):
    store.put(entry_of(kept(case), case))
    before = store.path.read_bytes() + rubbish
    store.path.write_bytes(before)
    loaded = store.load()
    assert [e["id"] for e in loaded.entries] == ["a1"]
    assert "1 of 2 lines cannot be read" in loaded.problem
    (aside,) = folder.glob("*.damaged-*")
    assert aside.read_bytes() == before
    assert aside.name in loaded.problem
    assert store.load().problem == ""  # said once
    store.put(entry_of(kept(case, "b2"), case))
    assert [e["id"] for e in store.load().entries] == ["a1", "b2"]


def test_a_file_too_large_is_not_read(case, store, monkeypatch):
    store.put(entry_of(kept(case), case))
    monkeypatch.setattr(measure_store, "MAX_BYTES", 10)
    with pytest.raises(CtvqaError, match="more than the 10"):
        store.load()


def test_a_folder_that_cannot_be_written_is_named(case, monkeypatch):
    monkeypatch.setenv(measure_store.FOLDER_VARIABLE, "/dev/null/x")
    store = MeasureStore(case.volume, "c")
    with pytest.raises(CtvqaError, match="cannot be kept here"):
        store.put(entry_of(kept(case), case))


def test_another_window_that_writes_is_waited_for_and_then_named(case, store, monkeypatch):
    store.put(entry_of(kept(case), case))
    monkeypatch.setattr(measure_store, "_WAIT_S", 0.001)
    other = AppendLog(store.path, store.path)
    with pytest.raises(CtvqaError, match="another window"):
        store.put(entry_of(kept(case, "b2"), case))
    other.close()
    store.put(entry_of(kept(case, "b2"), case))
    assert len(store.load().entries) == 2


def test_a_kill_at_any_moment_loses_nothing_that_was_kept(case, store, tmp_path):
    entry = tmp_path / "entry.json"
    entry.write_text(json.dumps(entry_of(kept(case), case)))
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from napari_ctvqa.io.measure_store import MeasureStore\n"
        "store = MeasureStore.__new__(MeasureStore)\n"
        "store.path = Path(sys.argv[1])\n"
        "entry = json.loads(Path(sys.argv[2]).read_text())\n"
        "for number in range(100000):\n"
        "    store.put({**entry, 'id': str(number)})\n"
        "    sys.stdout.write(f'{number}\\n'); sys.stdout.flush()\n"
    )
    arguments = [sys.executable, "-c", code, str(store.path), str(entry)]
    worker = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert worker.stdout.readline() == "0\n"
    time.sleep(0.2)
    worker.send_signal(signal.SIGKILL)
    told = [0, *(int(line) for line in worker.stdout if line.endswith("\n"))]
    worker.wait()
    loaded = store.load()
    assert loaded.problem == ""
    assert {str(number) for number in told} <= {e["id"] for e in loaded.entries}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "lasso"},
        {"plane": "oblique"},
        {"slice_shown_from_1": 0},
        {"slice_shown_from_1": True},
        {"slice_shown_from_1": 31},
        {"points_display_zyx": [[1, 2, 3]]},
        {"points_display_zyx": [[1, 2], [3, 4]]},
        {"points_display_zyx": [[1, 2, 1e9], [3, 4, 5]]},
        {"points_display_zyx": [[1, 2, 3]] * 2000},
        {"points_display_zyx": None},
        {"name": 7},
    ],
)
def test_an_entry_that_is_no_drawing_is_refused(case, change):
    with pytest.raises(RecordError):
        kept_of({**entry_of(kept(case), case), **change}, case)


def test_a_number_that_was_another_when_kept_is_said(case):
    entry = entry_of(kept(case), case)
    entry["values"][0] = {**entry["values"][0], "value": 1234.5, "unit": "mm"}
    found = kept_of(entry, case)
    assert found.found == kept(case).found  # what is shown is measured now
    assert "mean_hu 1234.5 mm" in found.note


def test_the_table_has_a_row_for_each_value(case, tmp_path):
    entries = [
        entry_of(kept(case, name="=1+1"), case),
        entry_of(kept(case, "b2", "ruler", Kind.RULER), case),
    ]
    path = tmp_path / "out.csv"
    write_table(path, entries)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["measure"] for row in rows] == [
        *("mean_hu", "sd_hu", "min_hu", "max_hu", "area_mm2", "voxel_area_mm2", "voxels"),
        "length_mm",
    ]
    assert rows[0]["name"] == "'=1+1"
    assert float(rows[0]["value"]) == entries[0]["values"][0]["value"]
    assert (rows[-1]["unit"], rows[-1]["plane"]) == ("mm", "coronal")
    with pytest.raises(CtvqaError, match="cannot be written"):
        write_table(tmp_path / "none" / "x.csv", entries)
