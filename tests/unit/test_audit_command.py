"""``audit``: text, JSON and CSV of a hand-made run; every cell leads to its questions."""

import csv
import io
import json

import pytest

from napari_ctvqa.cli import main

OPTIONS = "A: No B: Yes C: Both D: None"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def files(tmp_path):
    rows = [
        {"qid": f"q{i}", "image_id": "BDMAP_00000001", "question": "Is there one?",
         "mc_question": f"Is there one? {OPTIONS}", "answer": "Yes", "correct_option": "B",
         "question_type": "recognition", "question_subtype": "liver lesion existence"}
        for i in range(4)
    ]  # fmt: skip
    questions = tmp_path / "test_qa.json"
    questions.write_text(json.dumps({"questions": rows}))
    said = ("B", "Answer: B", "Cannot determine")
    rows = [{"qid": f"q{i}", "raw_output": text} for i, text in enumerate(said)]
    answers = tmp_path / "model.json"
    answers.write_text(json.dumps({"n_processed": 3, "results": rows}))
    return questions, answers


def run(capsys, *arguments):
    code = main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_holds_cells_with_their_ids_and_both_totals(files, capsys):
    code, out, _ = run(capsys, "audit", *files, "--format", "mc", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["model"], found["answers"], found["questions"]) == ("model", 3, 4)
    every = found["all"]
    assert every["cells"] == [
        {"official": "right", "read": "right", "n": 1, "ids": ["q0"]},
        {"official": "wrong", "read": "right", "n": 1, "ids": ["q1"]},
        {"official": "wrong", "read": "unread", "n": 1, "ids": ["q2"]},
    ]
    assert every["unread"] == {"refused": ["q2"]}
    assert (every["official"]["right"], every["read"]["right"], every["read"]["n"]) == (1, 2, 3)
    low, high = every["official"]["interval"]
    assert (round(low, 3), round(high, 3)) == (0.061, 0.792)
    assert found["by_stage"]["recognition"]["cells"] == every["cells"]
    assert list(found["by_subtype"]) == ["liver lesion existence"]


def test_text_names_both_totals_and_what_sets_them_apart(files, capsys):
    code, out, _ = run(capsys, "audit", *files, "--format", "mc")
    assert code == 0
    assert "3 answers to 4 questions; 1 has none" in out
    assert "Official scorer       33.3\N{NO-BREAK SPACE}% (6.1–79.2), 1 of 3 right" in out
    assert "Right by “As a person reads it” alone: 1 (by “Official scorer” wrong 1)." in out
    assert "1  refused       says that it cannot answer\n" in out


def test_the_filters_in_the_csv_find_the_questions_of_their_cells(files, capsys):
    _, out, _ = run(capsys, "audit", *files, "--format", "mc", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["group"] for row in rows} == {"all", "stage", "subtype"}
    for row in rows:
        code, listed, _ = run(
            capsys, "questions", files[0], "--results", files[1], "--where", row["where"], "--json"
        )
        assert code == 0
        assert len(json.loads(listed)) == int(row["n"])


def test_a_cell_that_a_spreadsheet_would_calculate_is_text(files, capsys, tmp_path):
    data = json.loads(files[0].read_text())
    data["questions"][0]["question_subtype"] = "=HYPERLINK(1)"
    files[0].write_text(json.dumps(data))
    _, out, _ = run(capsys, "audit", *files, "--format", "mc", "--csv")
    labels = {row["label"] for row in csv.DictReader(io.StringIO(out))}
    assert "'=HYPERLINK(1)" in labels and "=HYPERLINK(1)" not in labels


def test_without_a_format_a_file_that_does_not_say_its_own_is_a_wrong_call(files, capsys):
    code, out, err = run(capsys, "audit", *files)
    assert (code, out) == (2, "")
    assert "--format mc or --format freeform" in err
