"""``score``: official metrics, disagreements, exit codes."""

import json

import pytest

from napari_ctvqa.cli import main


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture
def questions(tmp_path):
    rows = [
        {"qid": f"q{i}", "image_id": "BDMAP_00000001", "question": "Is there one?",
         "answer": answer, "mc_question": "Is there one? A: No B: Yes C: Both D: None",
         "correct_option": letter, "question_type": "recognition",
         "question_subtype": "liver lesion existence"}
        for i, (letter, answer) in enumerate((("A", "No"), ("B", "Yes"), ("C", "Yes")))
    ]  # fmt: skip
    return write(tmp_path / "test_qa.json", {"questions": rows})


@pytest.fixture
def answers(tmp_path):
    rows = [{"qid": f"q{i}", "raw_output": said, "pred_answer": said}
            for i, said in enumerate(("A", "Answer: B", "Cannot determine"))]  # fmt: skip
    return write(tmp_path / "model.json", {"n_processed": 3, "results": rows})


def run(capsys, *arguments):
    code = main(["score", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_metrics_of_mc(questions, answers, capsys):
    code, out, err = run(capsys, questions, answers, "--format", "mc", "--json")
    assert code == 0
    assert json.loads(out) == {
        "overall": {"accuracy": 0.6667, "n_total": 3, "n_subtypes": 1},
        "by_super_type": {"recognition": {"accuracy": 0.6667, "n_total": 3}},
        "by_subtype": {"liver lesion existence": {"accuracy": 0.6667, "n_total": 3, "n_parsed": 3}},
        "reading_disagrees": ["q1", "q2"],
        "errors": {"failed": 0, "officially_credited": 0},
    }
    assert "no metrics" in err


def test_free_form_is_scored_by_answer_type(questions, answers, capsys):
    _, out, _ = run(capsys, questions, answers, "--format", "freeform", "--json")
    subtype = json.loads(out)["by_subtype"]["liver lesion existence"]
    assert (subtype["sensitivity"], subtype["specificity"]) == (0.0, 1.0)


def test_metrics_of_the_file_that_say_otherwise_are_named(questions, answers, capsys):
    data = json.loads(answers.read_text())
    data["metrics"] = {"overall": {"accuracy": 0.6667}}
    answers.write_text(json.dumps(data))
    _, _, err = run(capsys, questions, answers, "--format", "mc", "--json")
    assert err == ""
    data["metrics"] = {"overall": {"accuracy": 0.5}}
    answers.write_text(json.dumps(data))
    code, _, err = run(capsys, questions, answers, "--format", "mc", "--json")
    assert code == 0
    assert "own metrics say accuracy 0.5000; scored as mc it is 0.6667" in err


def test_a_file_that_says_another_format_is_named(questions, answers, capsys):
    data = {**json.loads(answers.read_text()), "answer_format": "freeform"}
    answers.write_text(json.dumps(data))
    _, _, err = run(capsys, questions, answers, "--format", "mc", "--json")
    assert "made as freeform; it is scored as mc" in err


def test_text_is_readable(questions, answers, capsys):
    code, out, _ = run(capsys, questions, answers, "--format", "mc")
    assert code == 0
    assert "overall: accuracy 0.6667  n_total 3" in out
    assert "reading_disagrees (2): q1, q2" in out


def test_results_of_other_questions_are_an_error(questions, tmp_path, capsys):
    other = write(tmp_path / "o.json", {"results": [{"qid": "x", "raw_output": "A"}]})
    code, out, _ = run(capsys, questions, other, "--format", "mc", "--json")
    assert code == 1
    assert "no answer to a question" in json.loads(out)["error"]["message"]


def test_a_broken_result_file_names_the_line(questions, tmp_path, capsys):
    broken = write(tmp_path / "o.json", '{"results": [\n{"qid": }]}')
    code, out, _ = run(capsys, questions, broken, "--format", "mc", "--json")
    assert code == 1
    assert "line 2" in json.loads(out)["error"]["message"]


def test_without_a_format_a_file_that_does_not_say_its_own_is_a_wrong_call(
    questions, answers, capsys
):
    code, out, err = run(capsys, questions, answers)
    assert (code, out) == (2, "")
    assert "--format mc or --format freeform" in err and err.count("\n") == 1


def test_the_one_way_to_ask_of_ct_spatialvqa_need_not_be_said(tmp_path, capsys):
    folder = tmp_path / "spatial"
    record = {"case_id": "c1", "question_number": 1, "question": "Where?", "answer": "Left."}
    pairs = {"qa_pairs": [{"question": "Where?", "answer": "Left."}]}
    write(folder / "spatial_qa_filtered_full.json", {"c1": pairs})
    answer = {**record, "prediction": "Left."}
    results = write(
        folder / "benchmarking/reports/predictions/m_predictions.jsonl", json.dumps(answer) + "\n"
    )
    code, out, err = run(capsys, folder, results, "--json")
    assert code == 0, (out, err)


@pytest.mark.real
def test_real_m3d_jury(real_data, capsys):
    folder = real_data / "ct_spatialvqa"
    results = folder / "benchmarking/reports/predictions/m3d_predictions_full.jsonl"
    code, out, err = run(capsys, folder, results, "--format", "freeform", "--json")
    jury = json.loads(out)["jury"]
    assert (code, err) == (0, "")
    assert round(jury["official"], 4) == 0.3057
    assert round(jury["aligned"], 4) == 0.3122
    assert (jury["n"], jury["misaligned_rows"]) == (9074, 6283)
