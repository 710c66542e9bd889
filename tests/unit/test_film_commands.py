"""``figure`` and ``film`` on the demo: what is written, and what is refused in one line."""

import re

import pytest
from PIL import Image

from napari_ctvqa import cli
from napari_ctvqa.demo import FIRST_QUESTION, ensure_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return ensure_demo(tmp_path_factory.getbasetemp() / "the demo")


def call(command, demo, out, *more):
    results = demo / "results" / "demo-agent.json"
    return cli.main(
        [command, str(demo / "benchmark"), "--question", FIRST_QUESTION,
         "--results", str(results), "--out", str(out), *more]
    )  # fmt: skip


def test_a_film_of_the_first_failure(demo, tmp_path, capsys):
    assert call("film", demo, tmp_path / "a.gif", "--size", "400x380", "--seconds", "1") == 0
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3 and film.size == (400, 380)
    assert "3 steps" in capsys.readouterr().out
    data = (tmp_path / "a.gif").read_bytes()
    assert b"DEMO_" not in data and str(demo).encode() not in data


def test_a_figure_of_the_first_difference(demo, tmp_path):
    assert call("figure", demo, tmp_path / "a.svg") == 0
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert "First difference" in svg and re.search(r">Axial · slice \d+ of 120<", svg)
    assert ">L</text>" in svg and "DEMO_" not in svg
    more = ("--plane", "coronal", "--step", "2", "--slice", "100", "--without", "caption")
    assert call("figure", demo, tmp_path / "b.svg", *more) == 0
    svg = (tmp_path / "b.svg").read_text("utf-8")
    assert ">Coronal · slice 100 of 256<" in svg and ">S</text>" in svg
    assert "Reference:" not in svg


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--step", "9"), "1 to 3"),
        (("--slice", "121"), "1 to 120"),
        (("--window", "nothing"), "lung"),
        (("--size", "2x2"), "pixels"),
    ],
)
def test_what_is_not_there_is_one_line(demo, tmp_path, capsys, more, word):
    assert call("figure", demo, tmp_path / "a.png", *more) in (1, 2)
    error = capsys.readouterr().err
    assert word in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
