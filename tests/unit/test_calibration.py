"""Calibration: bins, intervals and error worked out by hand; its sentences; its picture."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from napari_ctvqa.cli import main
from napari_ctvqa.core.calibration import (
    Given,
    calibrate,
    calibration_words,
    calibrations,
)
from napari_ctvqa.core.calibration_plot import MARK, PlotBox, PlotLine, PlotText, plotted
from napari_ctvqa.core.confidence import Source
from napari_ctvqa.core.intervals import percent, wilson
from napari_ctvqa.core.records import Outcome, Prediction, Run, Score
from napari_ctvqa.exports.calibration import EXPORT

RIGHT, WRONG, UNREAD, UNSCORED = Outcome


def given(confidence, rights, wrongs=0):
    answers = [True] * rights + [False] * wrongs
    return [Given(f"{confidence}-{i}", confidence, right) for i, right in enumerate(answers)]


@pytest.fixture
def found():
    """4 answers of 0.95, 3 of them right, and 6 of 0.55, again 3."""
    return calibrate([*given(0.95, 3, 1), *given(0.55, 3, 3)])


def test_bins_and_error_are_those_worked_out_by_hand(found):
    assert [(b.low, b.high, b.total.n, b.total.right) for b in found.bins] == [
        (0.5, 0.6, 6, 3), (0.9, 1.0, 4, 3),
    ]  # fmt: skip
    assert (found.total.n, found.total.right) == (10, 6)
    assert found.confidence == pytest.approx(0.71)
    # 6/10 of |3/6 - 0.55| and 4/10 of |3/4 - 0.95|
    assert found.error == pytest.approx(0.6 * 0.05 + 0.4 * 0.2)
    assert found.bins[0].ids == tuple(f"0.55-{i}" for i in range(6))
    assert found.bins[1].total.interval == wilson(3, 4)


def test_the_ends_belong_to_the_first_and_the_last_bin():
    found = calibrate([*given(0.0, 0, 1), *given(1.0, 1), *given(0.1, 1)])
    assert [(b.low, b.total.n) for b in found.bins] == [(0.0, 1), (0.1, 1), (0.9, 1)]
    assert found.error == pytest.approx(0.9 / 3)


def test_a_perfectly_calibrated_run_has_no_error():
    found = calibrate([*given(0.25, 25, 75), *given(0.75, 75, 25)])
    assert found.error == pytest.approx(0.0)
    assert "as sure as it is right" in calibration_words(found)[0]


@pytest.mark.parametrize("confidence", [-0.01, 1.01, float("nan")])
def test_what_is_no_share_is_refused(confidence):
    with pytest.raises(ValueError, match="not 0 to 1"):
        calibrate(given(confidence, 1))


def test_without_answers_there_is_nothing_to_say():
    found = calibrate([])
    assert (found.bins, found.error, found.confidence) == ((), None, None)
    assert calibration_words(found) == ()


def test_the_sentences_say_how_far_it_is_off_and_what_chance_may_do(found):
    words = calibration_words(found)
    assert words[0].endswith(
        "on average 71.0 %, right are 60.0 % (31.3–83.2): over-confident by 11.0 points, which "
        "chance may explain."
    )
    assert words[1].startswith("Expected calibration error 11.0 points in 10 bins; calibrated")
    sure = calibration_words(calibrate(given(0.95, 100, 100)))
    assert "over-confident by 45.0 points." in sure[0] and "about 1.2 by chance" in sure[1]
    shy = calibration_words(calibrate(given(0.15, 100, 100)))
    assert "under-confident by 35.0 points." in shy[0]


def test_what_chance_alone_would_show_is_what_resampling_shows(found):
    rng = np.random.default_rng(3)
    apart = sum(
        np.abs(rng.binomial(b.total.n, b.confidence, 40_000) - b.total.n * b.confidence)
        for b in found.bins
    )
    assert found.chance_error == pytest.approx(apart.mean() / found.total.n, rel=0.02)
    assert calibrate([]).chance_error == 0.0


# --------------------------------------------------------------------------------------- of a run


def prediction(key, value, source="samples"):
    record = {"confidence": {"from": source, "answer": "B", "value": value}}
    return Prediction(key, "m", "B", record=record)


def score(ours):
    return Score(WRONG, "A", ours, "B")


def test_a_run_is_held_against_what_a_person_reads_and_what_is_left_out_is_counted():
    run = Run("m", {
        "a": prediction("a", 0.8), "b": prediction("b", 0.8), "c": prediction("c", None),
        "d": Prediction("d", "m", "B"), "e": prediction("e", 0.9), "f": prediction("f", 0.9),
    })  # fmt: skip
    scores = dict(zip("abcdef", map(score, (RIGHT, WRONG, RIGHT, RIGHT, UNREAD, UNSCORED)),
                      strict=True))  # fmt: skip
    (found,) = calibrations(run, scores)
    assert (found.source, found.total.n, found.total.right) == (Source.SAMPLES, 2, 1)
    assert (found.without, found.unread) == (2, 1)
    left = calibration_words(found)[-1]
    assert left == "Left out are answers: 2 without a confidence, 1 that cannot be read."


def test_two_sources_are_two_curves():
    run = Run("m", {"a": prediction("a", 0.8), "b": prediction("b", 0.4, "logits")})
    found = calibrations(run, {"a": score(RIGHT), "b": score(RIGHT)})
    assert {(one.source, one.total.n) for one in found} == {
        (Source.SAMPLES, 1), (Source.LOGITS, 1),
    }  # fmt: skip
    assert calibrations(Run("m", {"d": Prediction("d", "m", "B")}), {"d": score(RIGHT)}) == ()


# ---------------------------------------------------------------------------------------- picture


def test_marks_lie_at_mean_confidence_and_share_with_their_interval(found):
    shapes = plotted(found, 400, 420, 10)
    marks = [s for s in shapes if isinstance(s, PlotBox) and s.role == MARK]
    whiskers = [s for s in shapes if isinstance(s, PlotLine) and s.role == MARK]
    (equal,) = (s for s in shapes if isinstance(s, PlotLine) and s.dashed)

    def share_of(y):
        return (equal.y0 - y) / (equal.y0 - equal.y1)

    for mark, whisker, one in zip(marks, whiskers, found.bins, strict=True):
        x = mark.x + mark.wide / 2
        assert (x - equal.x0) / (equal.x1 - equal.x0) == pytest.approx(one.confidence)
        assert share_of(mark.y + mark.high / 2) == pytest.approx(one.share)
        assert share_of(whisker.y0) == pytest.approx(one.total.interval.low)
        assert share_of(whisker.y1) == pytest.approx(one.total.interval.high)
    assert {s.text for s in shapes if isinstance(s, PlotText)} >= {"6", "4", "right in %"}


@pytest.mark.parametrize("size", [(320, 340, 14), (480, 520, 14), (900, 900, 20)])
def test_all_shapes_lie_inside_the_picture(found, size):
    wide, high, text_px = size
    for shape in plotted(found, wide, high, text_px):
        ys = [shape.y0, shape.y1] if isinstance(shape, PlotLine) else [shape.y]
        xs = [shape.x0, shape.x1] if isinstance(shape, PlotLine) else [shape.x]
        if isinstance(shape, PlotBox):
            xs, ys = [*xs, shape.x + shape.wide], [*ys, shape.y + shape.high]
        assert all(0 <= x <= wide for x in xs) and all(0 <= y <= high for y in ys)


def test_the_svg_is_well_formed_whatever_the_models_name(found, tmp_path):
    EXPORT.write(found, tmp_path / "x.svg", "<b>&\x00" + "long" * 60)
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("<b>&") for text in texts)
    assert any("over-confident" in text for text in texts)


# ---------------------------------------------------------------------------------------- command


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    rows = [
        {"qid": f"q{i}", "image_id": "B", "question": "?", "mc_question": "? A: No B: Yes",
         "answer": "Yes", "correct_option": "B", "question_type": "recognition",
         "question_subtype": "PDAC existence"}
        for i in range(2)
    ]  # fmt: skip
    questions, answers = tmp_path / "test_qa.json", tmp_path / "m.json"
    questions.write_text(json.dumps({"questions": rows}))
    results = [
        {"qid": "q0", "raw_output": "B",
         "confidence": {"from": "samples", "answer": "B", "value": 0.9}},
        {"qid": "q1", "raw_output": "A"},
    ]  # fmt: skip
    answers.write_text(json.dumps({"results": results, "answer_format": "mc"}))
    return questions, answers


def test_the_command_tells_and_draws_the_calibration(files, tmp_path, capsys):
    picture = tmp_path / "c.svg"
    assert main(["audit", *map(str, files), "--json", "--calibration", str(picture)]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["calibration"]
    assert (curve["from"], curve["n"], curve["without_confidence"]) == ("samples", 1, 1)
    assert curve["bins"][0]["ids"] == ["q0"]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert main(["audit", *map(str, files)]) == 0
    assert "Of 1 answer the confidence (agreement of samples)" in capsys.readouterr().out


def test_a_run_without_confidences_has_no_picture(files, tmp_path, capsys):
    data = json.loads(files[1].read_text())
    del data["results"][0]["confidence"]
    files[1].write_text(json.dumps(data))
    assert main(["audit", *map(str, files), "--calibration", str(tmp_path / "c.svg")]) == 2
    assert "holds no confidence" in capsys.readouterr().err
    assert not (tmp_path / "c.svg").exists()


@pytest.mark.parametrize(
    ("share", "said"),
    [(1, "100.0%"), (9996 / 10_000, ">99.9%"), (0.9994, "99.9%"), (0.0003, "<0.1%"), (0, "0.0%"),
     (0.6186, "61.9%")],
)  # fmt: skip
def test_only_all_is_a_hundred_percent_and_only_nothing_none(share, said):
    assert percent(share) == said


def test_digits_of_a_percentage():
    assert (percent(0.996, 0), percent(0.99996, 2)) == (">99%", ">99.99%")
