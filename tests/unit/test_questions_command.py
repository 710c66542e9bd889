"""``questions``: records out, problems named."""

import csv
import io
import json

import pytest

from napari_ctvqa.cli import main


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


def record(index, **values):
    return {
        "qid": f"q{index}", "image_id": "BDMAP_00000001", "question": f"Question {index}?",
        "answer": "No", "mc_question": f"Question {index}? A: No B: Yes", "correct_option": "A",
        "question_type": "recognition", "question_subtype": "liver lesion existence", **values,
    }  # fmt: skip


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "b" / "test_qa.jsonl"
    file.parent.mkdir()
    rows = [record(1), record(2, question_type="measurement"), record(3, question='A "ü"\nline')]
    file.write_text(
        "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8"
    )
    return file


def results(path, said):
    file = path.parent / "results" / "model.json"
    file.parent.mkdir()
    rows = [{"qid": key, "raw_output": text} for key, text in said.items()]
    file.write_text(json.dumps({"results": rows}))
    return file


def run(capsys, *arguments):
    code = main(["questions", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_records(path, capsys):
    code, out, err = run(capsys, path, "--json")
    assert (code, err) == (0, "")
    first = json.loads(out)[0]
    assert first == {
        "id": "q1", "case": "BDMAP_00000001", "stage": "recognition",
        "subtype": "liver lesion existence", "text": "Question 1?",
        "options": {"A": "No", "B": "Yes"}, "reference": {"text": "No", "letter": "A"},
    }  # fmt: skip


def test_csv_records(path, capsys):
    code, out, _ = run(capsys, path, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert list(rows[0]) == ["id", "case", "stage", "subtype", "text", "options", "reference"]
    assert rows[2]["text"] == 'A "ü"\nline'
    assert (rows[0]["options"], rows[0]["reference"]) == ("A: No B: Yes", "A: No")


def test_text_is_one_line_a_question(path, capsys):
    code, out, _ = run(capsys, path)
    assert code == 0
    assert len(out.splitlines()) == 4
    assert out.splitlines()[-1] == "3 of 3 questions"


def test_where_filters(path, capsys):
    _, out, _ = run(capsys, path, "--json", "--where", "stage:measurement")
    assert [r["id"] for r in json.loads(out)] == ["q2"]
    _, out, _ = run(capsys, path, "--json", "--where", "nothing like it")
    assert json.loads(out) == []


def test_where_about_outcomes_reads_the_results_beside(path, capsys):
    results(path, {"q1": "A", "q2": "B"})
    _, out, _ = run(capsys, path, "--json", "--where", "outcome:wrong")
    assert [r["id"] for r in json.loads(out)] == ["q2"]
    _, out, _ = run(capsys, path, "--json", "--where=-model:model")
    assert [r["id"] for r in json.loads(out)] == ["q3"]


def test_where_about_outcomes_reads_named_results(path, tmp_path, capsys):
    file = results(path, {"q3": "A"}).rename(tmp_path / "other.json")
    _, out, _ = run(capsys, path, "--json", "--where", "model:other", "--results", file)
    assert [r["id"] for r in json.loads(out)] == ["q3"]


def test_an_unknown_field_is_an_error_in_json_too(path, capsys):
    code, out, err = run(capsys, path, "--json", "--where", "organ:liver")
    assert (code, err) == (1, "")
    error = json.loads(out)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert "stage, subtype, case, model, outcome" in error["message"]


def test_errors_are_one_line_on_stderr(path, capsys):
    code, out, err = run(capsys, path.parent / "gone.json")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "gone.json" in err


def test_an_unreadable_record_is_named_and_makes_the_exit_code_1(path, capsys):
    path.write_text(path.read_text(encoding="utf-8") + '{"qid": \n', encoding="utf-8")
    code, out, err = run(capsys, path, "--json")
    assert code == 1
    assert len(json.loads(out)) == 3
    assert "line 4" in err
    assert str(path) in err


def test_many_unreadable_records_are_counted(path, capsys):
    path.write_text(path.read_text(encoding="utf-8") + "{\n" * 50, encoding="utf-8")
    code, _, err = run(capsys, path, "--json")
    assert code == 1
    assert len(err.splitlines()) == 21
    assert "and 30 more" in err


def test_repeated_ids_are_a_warning(path, capsys):
    path.write_text((json.dumps(record(1)) + "\n") * 2)
    code, out, err = run(capsys, path, "--json")
    assert code == 0
    assert len(json.loads(out)) == 2
    assert "q1" in err


def test_a_case_is_no_list_of_questions(tmp_path, capsys):
    (tmp_path / "ct.nii.gz").write_text("")
    code, _, err = run(capsys, tmp_path / "ct.nii.gz")
    assert code == 1
    assert "is a case" in err


def test_usage_is_2(path, capsys):
    with pytest.raises(SystemExit) as caught:
        run(capsys, path, "--json", "--csv")
    assert caught.value.code == 2


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_half_a_character_is_written_as_its_escape(path, capsys, form):
    broken = json.dumps(record(1)).replace("Question 1?", "x \\ud800")
    path.write_text(broken + "\n")
    code, out, _ = run(capsys, path, form)
    assert code == 0
    assert "\\ud800" in out
    if form == "--json":
        assert json.loads(out)[0]["text"] == "x \ud800"
