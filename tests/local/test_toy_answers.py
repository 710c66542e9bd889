"""The shipped model through the real worker: a demo question from end to end, then with a tool."""

import json

import pytest

from napari_ctvqa.cli import main
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.io.seen_files import read_events, read_seen
from napari_ctvqa.runners.choices import missing_libraries, shipped_folder

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
