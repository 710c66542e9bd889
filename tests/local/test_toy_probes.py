"""The probes recognise how the shipped model answers, and stand-ins that do not look.

A small sample through the real worker; ``scripts/probe_figures.py`` asks the hundred of each.
"""

import sys

import pytest
from project_file import ROOT
from scipy import stats

pytest.importorskip("torch", reason="the toy model needs the packages of the 'local' extra")
pytest.importorskip("transformers", reason="the toy model needs the packages of the 'local' extra")
sys.path.insert(0, str(ROOT / "scripts"))

import probe_figures

from napari_ctvqa.core.probes import table
from napari_ctvqa.runners.opening import open_path

BODIES, SEED = 8, 8_000_000
"""Others than those of the script; enough for an interval to clear one half."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return probe_figures.make_benchmark(tmp_path_factory.mktemp("bodies"), BODIES, SEED)


@pytest.fixture(scope="module", autouse=True)
def own_config(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="module")
def toy(folder, tmp_path_factory):
    answerer = probe_figures.toy(open_path(folder))
    try:
        yield probe_figures.probe(folder, answerer, tmp_path_factory.mktemp("out") / "toy.json")
    finally:
        answerer.close()


def found(last, probe):
    return next(one for one in last.found if one.probe == probe)


def said(last, probe):
    return " ".join(found(last, probe).sentences)


def likely(share, least):
    """Whether so few would be seen once in a thousand samples of a model with that share."""
    return stats.binom.cdf(share.count, share.total, least) > 0.001


def test_the_toy_looks_at_the_lesion(toy):
    assert toy.failed == 0
    mirrored, removed = found(toy, "mirrored"), found(toy, "lesion_removed")
    assert mirrored.turned.total >= BODIES - 2 and likely(mirrored.turned, 0.95)
    assert removed.turned.total >= BODIES - 2 and likely(removed.turned, 0.90)
    assert table().probes["mirrored"].follows in said(toy, "mirrored")
    assert table().probes["lesion_removed"].follows in said(toy, "lesion_removed")
    assert "It looks at the lesion." in toy.behaviour


def test_shuffled_options_change_nothing_and_a_blank_volume_gives_chance(toy):
    shuffled, blank = found(toy, "shuffled"), found(toy, "blank")
    assert shuffled.stayed.total >= 2 * BODIES and likely(shuffled.stayed, 0.95)
    assert table().probes["blank"].follows in said(toy, "blank")
    assert blank.chance == 0.5 and blank.right.interval[0] <= 0.5


@pytest.mark.parametrize("stand_in", [probe_figures.Guesser, probe_figures.FirstOption])
def test_what_ignores_pixels_is_recognised(folder, tmp_path, stand_in):
    last = probe_figures.probe(folder, stand_in(), tmp_path / "p.json")
    assert found(last, "mirrored").turned.count == 0
    assert table().probes["mirrored"].ignores in said(last, "mirrored")
    assert "do not depend on the pixels" in said(last, "blank")
    assert (
        "It does not look at the picture: its answers are the same without one." in last.behaviour
    )
    by_place = "It follows the place of an option, not what it says." in last.behaviour
    assert by_place == (stand_in is probe_figures.FirstOption)
