"""Rules that every benchmark obeys, built in or from another package."""

import json

import pytest

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.ports import Benchmark
from napari_ctvqa.core.questions import COLUMNS
from napari_ctvqa.core.records import AnswerFormat, Outcome, Prediction, Question, Run
from napari_ctvqa.extensions import benchmarks, discover

ALL = sorted(benchmarks())

SAMPLES = {
    "deeptumorvqa": (
        "test_qa.json",
        {"questions": [
            {"qid": f"q{i}", "image_id": f"BDMAP_{i:08d}", "question": "How many lesions?",
             "answer": str(i), "mc_question": "How many lesions? A: 0 B: 1",
             "correct_option": "AB"[i], "question_type": "visual reasoning",
             "question_subtype": "lesion counting"}
            for i in range(2)]},
    ),
    "ct_spatialvqa": (
        "spatial_qa_filtered_full.json",
        {f"valid_{i}_a_1.nii.gz": {"qa_pairs": [{"question": "Where?", "answer": "Left."}]}
         for i in range(2)},
    ),
    "plain_table": (
        "mine.json",
        [{"id": f"p{i}", "case": f"case{i}", "question": "Which?", "answer": "left",
          "A": "left", "B": "right"} for i in range(2)],
    ),
}  # fmt: skip

HOSTILE = {
    "empty": b"",
    "blank": b" \n\n",
    "nul": b"\x00" * 1000,
    "binary": bytes(range(256)) * 40,
    "open brace": b"{",
    "deep list": b"[" * 100_000,
    "deep object": b'{"questions": ' * 50_000,
    "deep value": b'{"questions": [{"qid": "a", "image_id": "b", "question": "c", "mc_question": '
    b'"c A: 1 B: 2", "question_subtype": "d", "answer": ' + b"[" * 600 + b"]" * 600 + b"}]}",
    "long line": b'{"qid": "' + b"x" * 10_000_000,
    "long record": json.dumps({"qid": "q", "image_id": "c", "question": "x" * 10_000_000,
                               "mc_question": "", "answer": "a"}).encode(),
    "bom only": b"\xef\xbb\xbf",
    "bad utf-16": b"\xff\xfea",
    "surrogates": b'{"qid": "\\ud800", "image_id": "c", "question": "q\\udfff", '
    b'"mc_question": "q", "answer": "a"}',
    "not a number": b'[{"id": NaN, "case": Infinity, "question": "q", "answer": -Infinity}]',
    "numbers": b'[{"id": 1, "case": 2, "question": 3, "answer": 4, "options": 5, "correct": 6}]',
    "nulls": b'[{"id": null, "case": null, "question": "q", "answer": null, "A": null}]',
    "wrong kinds": b'{"questions": {"a": 1}, "results": 5, "cache": [], "conversations": "x"}',
    "lists for texts": b'[{"id": [1], "case": {}, "question": ["q"], "answer": [[]], '
    b'"options": {"A": [], "B": {}}}]',
    "html": b"<html><script>alert(1)</script></html>",
    "csv of quotes": b'id,case,question,answer\n' + b'"' * 9999,
    "csv of commas": b"id,case,question,answer\n" + b"," * 100_000,
    "pickle": b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x05hello\x94.",
    "conversation": b'{"conversations": [null, 3, {"from": 5, "value": {}}, {}], "tools": "["}',
}  # fmt: skip
NAMES = ("test_qa.json", "x.jsonl", "train_qa.csv", "spatial_qa_filtered_full.json")


@pytest.fixture(params=ALL)
def benchmark(request):
    return benchmarks()[request.param]


@pytest.fixture
def sample(benchmark, tmp_path):
    if benchmark.name not in SAMPLES:
        pytest.skip(f"no sample for {benchmark.name}, which comes from another package")
    name, data = SAMPLES[benchmark.name]
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return path


@pytest.fixture(params=HOSTILE)
def hostile(request, tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_bytes(HOSTILE[request.param])
    return folder


def test_every_module_is_usable():
    assert discover("benchmarks", "BENCHMARK").unavailable == {}
    assert {"ct_spatialvqa", "deeptumorvqa", "plain_table"} <= set(ALL)


def test_it_fulfils_the_protocol(benchmark):
    assert isinstance(benchmark, Benchmark)
    assert benchmark.name.isidentifier()
    assert benchmark.title


def test_its_sample_is_recognised_as_file_and_folder(benchmark, sample):
    assert benchmark.recognises(sample)
    assert benchmark.recognises(sample.parent)
    assert not benchmark.recognises_results(sample)


def test_questions_have_the_columns_and_unique_ids(benchmark, sample):
    questions = benchmark.questions(sample)
    frame = questions.frame
    assert list(frame.columns) == list(COLUMNS)
    assert frame.index.equals(frame.index.__class__(range(len(frame))))
    assert frame["id"].is_unique
    for row, question in enumerate(questions):
        assert isinstance(question, Question)
        values = (question.id, question.case_id, question.stage, question.subtype, question.text)
        assert tuple(frame.iloc[row]) == values
        assert all(isinstance(value, str) for value in values)
        assert questions.by_id(question.id) == question


def test_building_a_question_twice_gives_the_same(benchmark, sample):
    questions = benchmark.questions(sample)
    assert questions[1] == questions[1]


def test_raw_records_cannot_be_written(benchmark, sample):
    raw = benchmark.questions(sample)[0].raw
    assert raw
    with pytest.raises(TypeError):
        raw["new"] = 1


def test_hostile_files_never_raise_on_recognising(benchmark, hostile):
    for path in (hostile, *hostile.iterdir()):
        assert benchmark.recognises(path) in (True, False)
        assert benchmark.recognises_results(path) in (True, False)
        assert isinstance(list(benchmark.found_results(path)), list)


def test_hostile_files_become_sentences_or_questions(benchmark, hostile):
    for path in sorted(hostile.iterdir()):
        try:
            questions = benchmark.questions(path)
        except CtvqaError as error:
            assert error.message
            continue
        for question in questions:
            assert isinstance(question.text, str)
            assert isinstance(question.reference.text, str)
            assert json.dumps(dict(question.raw))


def test_hostile_results_become_sentences_or_runs(benchmark, hostile, sample):
    questions = benchmark.questions(sample)
    for path in sorted(hostile.iterdir()):
        try:
            run = benchmark.results(path, questions)
        except CtvqaError as error:
            assert error.message
            continue
        for prediction in run.predictions.values():
            assert isinstance(prediction.raw_text, str)


def test_paths_that_cannot_be_looked_at_are_not_recognised(benchmark, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    circle = tmp_path / "circle"
    circle.mkdir()
    (circle / "benchmark").symlink_to(circle)
    (circle / "dataset").symlink_to(circle)
    for path in (loop, circle, tmp_path / "gone", tmp_path / ("y" * 5000), tmp_path / "a\x00b"):
        assert benchmark.recognises(path) is False
        assert benchmark.recognises_results(path) is False
        assert list(benchmark.found_results(path)) == []


@pytest.mark.parametrize("case", ["../../etc/passwd", "/etc/passwd", "", ".", "..", "a/../../b"])
def test_case_ids_never_lead_outside(benchmark, sample, case):
    outside = sample.parent.parent / "etc"
    outside.mkdir(exist_ok=True)
    (outside / "passwd").mkdir(exist_ok=True)
    (outside / "passwd" / "ct.nii.gz").write_text("")
    with pytest.raises(CtvqaError):
        benchmark.case_files(case, sample, [])


TEXTS = ("A", "Answer: B", "", "[ERROR] no mask for liver", "yes", "1,234.5 cm³", "\x00\ud800",
         "<think>", "A" * 100_000, "Cannot determine")  # fmt: skip


@pytest.mark.parametrize("answer_format", list(AnswerFormat))
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
def test_any_text_is_scored(benchmark, sample, answer_format, text):
    for question in benchmark.questions(sample):
        score = benchmark.score(question, Prediction(question.id, "m", text), answer_format)
        assert isinstance(score.official, Outcome)
        assert isinstance(score.our_reading, str)
        if text.startswith("[ERROR]"):
            assert score.ours in (Outcome.UNREAD, Outcome.UNSCORED)
        if not text:
            assert score.ours is Outcome.UNREAD


@pytest.mark.parametrize("answer_format", list(AnswerFormat))
def test_metrics_are_json_and_list_disagreements(benchmark, sample, answer_format):
    questions = benchmark.questions(sample)
    predictions = {q.id: Prediction(q.id, "m", "Answer: B") for q in questions}
    predictions["unknown"] = Prediction("unknown", "m", "A")
    metrics = benchmark.metrics(questions, Run("m", predictions), answer_format)
    assert isinstance(metrics["reading_disagrees"], list)
    assert "unknown" not in json.dumps(metrics["reading_disagrees"])


def test_a_run_of_the_common_layout_is_read(benchmark, sample, tmp_path):
    questions = benchmark.questions(sample)
    rows = [{"qid": q.id, "image_id": q.case_id, "raw_output": "A", "pred_answer": "A",
             "trajectory": [{"step": 0, "final_answer": "A"}]} for q in questions]  # fmt: skip
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"metrics": {}, "n_processed": 2, "results": rows}))
    run = benchmark.results(path, questions)
    assert run.model == "rules"
    assert list(run.predictions) == [q.id for q in questions]
    assert run.predictions[questions[0].id].trace.turns[0].final_answer == "A"


def test_questions_without_a_prediction_are_left_out_of_the_scores(benchmark, sample):
    questions = benchmark.questions(sample)
    first = questions[0].id
    run = Run("m", {first: Prediction(first, "m", "A")})
    assert list(benchmark.scores(questions, run, AnswerFormat.MC)) == [first]
