"""The shipped model through the real worker: a demo question from end to end, then with a tool."""

import json
from dataclasses import replace

import pytest

from napari_ctvqa.cli import main
from napari_ctvqa.core.confidence import confidence_of
from napari_ctvqa.core.records import AnswerFormat, Option
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.io.seen_files import read_events, read_seen
from napari_ctvqa.runners.batch import answer_one
from napari_ctvqa.runners.choices import Wanted, answerer_for, missing_libraries, shipped_folder
from napari_ctvqa.runners.opening import open_path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_libraries()), reason="needs torch and transformers"),
    pytest.mark.skipif(shipped_folder() is None, reason="this install lacks the shipped model"),
]


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    return ensure_demo()


def answered(demo, out, *options, form="freeform"):
    command = ["run", str(demo), "--model", "toy", "--device", "cpu", "--limit", "1"]
    assert main([*command, "--format", form, "--out", str(out), *options]) == 0
    data = json.loads(out.read_text())
    return data, data["results"][0]


def test_it_looks_and_answers_in_a_word(demo, tmp_path):
    out = tmp_path / "r.json"
    data, row = answered(demo, out, "--where", 'subtype:"liver lesion existence"')
    assert row["raw_output"] == "Yes."
    assert data["software"]["torch"] and data["config"]["way"] == "worker"
    assert "not valid on real CT" not in row["note"], "the demo is what it was made for"
    pictures = read_seen(out, row["qid"]).requests[0].prepared.ask.pictures
    assert len(pictures) == 8 and all(one.index_from_pixel is not None for one in pictures)
    assert read_events(out, row["qid"])[-1].event.text.strip() == row["raw_output"]


@pytest.mark.parametrize(
    ("subtype", "organ", "word"),
    [
        ("liver lesion existence", "liver", "Yes."),
        ("kidney lesion existence", "kidney", "Yes."),
        ("largest lesion location", "kidney", "Right."),
    ],
)
def test_a_word_counts_as_the_option_that_says_it(demo, tmp_path, capsys, subtype, organ, word):
    out = tmp_path / "r.json"
    where = f'subtype:"{subtype}" {organ}'
    _, row = answered(demo, out, "--where", where, form="mc")
    assert row["raw_output"] == row["correct_option"]
    assert f"{word!r} is taken for" in row["note"]
    capsys.readouterr()
    assert main(["score", str(demo), str(out), "--format", "mc", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)["by_subtype"][subtype]
    assert scored["n_parsed"] == 1 and scored["accuracy"] > 0


def test_it_calls_a_tool_and_answers_from_its_result(demo, tmp_path):
    options = ("--mode", "agent", "--kit", "oracle")
    where = ("--where", 'subtype:"organ volume measurement"')
    _, row = answered(demo, tmp_path / "r.json", *options, *where)
    call, final = row["trajectory"]
    assert call["tool"] == "measure" and call["arguments"]["measurement_type"] == "volume_cm3"
    assert call["result"]["value"] == pytest.approx(float(row["answer"]), rel=0.02)
    assert final == {"step": 2, "final_answer": row["raw_output"]}


def test_how_sure_it_is_stays_with_what_an_option_says(demo):
    """Options in other places: other letters, the same shares for the same words."""
    opened = open_path(demo)
    questions = [opened.questions[row] for row in range(len(opened.questions))]
    asked = next(q for q in questions if q.subtype == "kidney lesion existence")
    texts = [option.text for option in asked.options]
    turned = replace(asked, options=tuple(map(Option, "ABCD", texts[::-1])))
    case = read_case(opened.case_files(asked.case_id), wanted=())
    toy = answerer_for(Wanted("toy", device="cpu", confidence="logits"), opened)
    try:
        both = [answer_one(toy, one, case, AnswerFormat.MC) for one in (asked, turned)]
    finally:
        toy.close()
    found = [confidence_of(prediction) for prediction in both]
    shares = [{one.text: one.share for one in made.options} for made in found]
    assert shares[0] == pytest.approx(shares[1], rel=1e-4) and set(shares[0]) == set(texts)
    assert both[0].raw_text != both[1].raw_text
    for prediction, made in zip(both, found, strict=True):
        assert made.answer == prediction.raw_text
        assert made.value == pytest.approx(max(shares[0].values()), rel=1e-4)
