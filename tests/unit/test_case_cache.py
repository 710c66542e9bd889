"""Cases kept in memory, and the next one read ahead."""

import os
import time

import phantoms
import pytest

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io import case_cache
from napari_ctvqa.io.case_cache import CaseCache, case_bytes
from napari_ctvqa.io.case_files import find_case


@pytest.fixture
def files(tmp_path):
    return [find_case(phantoms.save_case(tmp_path / f"case {n}")) for n in range(3)]


@pytest.fixture
def reads(monkeypatch):
    """The ids of all cases that are read from disk from here on."""
    read = []
    original = case_cache.open_steps

    def counted(files, **kwargs):
        read.append(files.case_id)
        return original(files, **kwargs)

    monkeypatch.setattr(case_cache, "open_steps", counted)
    return read


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def last(steps):
    return list(steps)[-1]


def test_a_kept_case_is_given_at_once_and_complete(files, reads):
    cache = CaseCache()
    case = last(cache.open_steps(files[0]))
    assert list(cache.open_steps(files[0], first=("liver",))) == [case]
    assert reads == ["case 0"]


def test_a_case_that_changed_on_disk_is_read_again(files, reads):
    cache = CaseCache()
    last(cache.open_steps(files[0]))
    mask = files[0].masks[0].path
    os.utime(mask, ns=(1, 1))
    last(cache.open_steps(files[0]))
    assert reads == ["case 0", "case 0"]


def test_other_masks_make_another_case(files, reads):
    from dataclasses import replace

    cache = CaseCache()
    last(cache.open_steps(files[0]))
    fewer = replace(files[0], masks=files[0].masks[:2])
    assert len(last(cache.open_steps(fewer)).masks) == 2
    assert len(reads) == 2


def test_the_least_recently_shown_case_goes_first(files, reads):
    size = case_bytes(last(CaseCache().open_steps(files[0])))
    cache = CaseCache(budget_bytes=int(2.5 * size))
    for shown in (files[0], files[1], files[0], files[2]):
        last(cache.open_steps(shown))
    reads.clear()
    last(cache.open_steps(files[0]))
    assert reads == []
    last(cache.open_steps(files[1]))
    assert reads == ["case 1"]


def test_one_case_is_kept_whatever_the_budget(files, reads):
    cache = CaseCache(budget_bytes=1)
    last(cache.open_steps(files[0]))
    last(cache.open_steps(files[0]))
    assert len(reads) == 1


def test_an_opening_that_is_broken_off_keeps_nothing(files, reads):
    cache = CaseCache()
    steps = cache.open_steps(files[0])
    next(steps)
    steps.close()
    assert last(cache.open_steps(files[0])).complete
    assert len(reads) == 2


def test_the_next_case_is_there_before_it_is_asked_for(files, reads):
    cache = CaseCache()
    cache.read_ahead(files[1])
    wait_until(lambda: cache._kept(case_cache._key(files[1])) is not None)
    steps = list(cache.open_steps(files[1]))
    assert len(steps) == 1 and steps[0].complete
    assert reads == ["case 1"]


def test_a_case_asked_for_while_it_is_read_ahead_is_read_once(files, reads):
    cache = CaseCache()
    cache.read_ahead(files[1])
    cache.read_ahead(files[1])
    case = last(cache.open_steps(files[1]))
    assert case.complete and len(case.masks) == 5
    assert reads == ["case 1"]


def test_another_case_asked_for_stops_the_reading_ahead(files, reads):
    cache = CaseCache()
    cache.read_ahead(files[1])
    assert last(cache.open_steps(files[0])).case_id == "case 0"
    assert last(cache.open_steps(files[1])).case_id == "case 1"


def test_a_bad_case_read_ahead_tells_when_it_is_opened(files):
    files[1].ct.write_text("no volume")
    cache = CaseCache()
    cache.read_ahead(files[1])
    with pytest.raises(InputFileError, match="not a NIfTI"):
        list(cache.open_steps(files[1]))


def test_closing_lets_go_of_everything(files, reads):
    cache = CaseCache()
    last(cache.open_steps(files[0]))
    cache.read_ahead(files[1])
    cache.close()
    last(cache.open_steps(files[0]))
    assert reads.count("case 0") == 2


def test_bytes_count_shared_arrays_once(files):
    case = last(CaseCache().open_steps(files[0]))
    crops = sum(m.region.crop_zyx.nbytes for m in case.masks.values())
    voxels = 24 * 20 * 12
    assert case_bytes(case) == 2 * voxels + 2 * voxels + crops
