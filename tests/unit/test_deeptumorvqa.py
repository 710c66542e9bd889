"""DeepTumorVQA's files: nested, lines, tables, results, conversations."""

import json
import math

import pytest

from napari_ctvqa.benchmarks._deeptumorvqa_subtypes import subtypes
from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.core.errors import AmbiguousError, InputFileError, NotFoundError
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option, Outcome

CASE = "BDMAP_00000001"


def record(qid="bench_00001", **values):
    return {
        "qid": qid, "image_id": CASE, "spacing": "[0.83 0.83 5.0]", "shape": "(512, 512, 116)",
        "sex": "Male", "age": 63.0, "question": "How large is the spleen?",
        "answer": "Normal (no splenomegaly)",
        "mc_question": "How large is the spleen? A: Normal B: Moderate C: Severe D: Mild",
        "correct_option": "A", "organ": "spleen", "lesion": False,
        "question_type": "medical reasoning", "question_subtype": "splenomegaly grading",
        "requires_tools": ["segment_organ"], **values,
    }  # fmt: skip


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def lines(*records):
    return "".join(json.dumps(r) + "\n" for r in records)


@pytest.fixture
def folder(tmp_path):
    write(
        tmp_path / "benchmark" / "test_qa.json",
        {"version": "2.0", "num_questions": 2, "questions": [record(), record("bench_00002")]},
    )
    return tmp_path


def test_subtype_table_holds_42_rows_of_11_15_and_16():
    table = list(subtypes().values())
    kinds = [row.answer_type for row in table]
    assert len(table) == 42
    counts = [
        kinds.count(k) for k in (AnswerType.NUMERIC, AnswerType.BINARY, AnswerType.CATEGORICAL)
    ]
    assert counts == [11, 15, 16]
    assert [row.stage for row in table].count("visual reasoning") == 16


def test_the_release_folder_is_recognised_and_read(folder):
    assert BENCHMARK.recognises(folder)
    questions = BENCHMARK.questions(folder)
    question = questions[0]
    assert questions.frame["id"].tolist() == ["bench_00001", "bench_00002"]
    assert question.case_id == CASE
    assert question.text == "How large is the spleen?"
    assert question.options[3] == Option("D", "Mild")
    assert (question.reference.text, question.reference.letter) == ("Normal (no splenomegaly)", "A")
    assert (question.stage, question.subtype) == ("medical reasoning", "splenomegaly grading")
    assert question.answer_type is AnswerType.CATEGORICAL
    assert dict(question.patient) == {"sex": "Male", "age": "63"}
    assert question.missing_keys == ()


def test_the_foreign_record_is_kept_read_only(folder):
    question = BENCHMARK.questions(folder)[0]
    assert question.raw["spacing"] == "[0.83 0.83 5.0]"
    with pytest.raises(TypeError):
        question.raw["spacing"] = "other"


@pytest.mark.parametrize(
    ("mc_question", "options"),
    [
        ("Is it? A: No B: Yes", ("No", "Yes")),
        ("Pick one: A: left kidney B: right kidney C: the same", ("left kidney", "right kidney",
                                                                  "the same")),
        ("How many? A: 62 B: 32 C: 25 D: 19 E: 7", ("62", "32", "25", "19", "7")),
        ("What is the volume?", ()),
        ("Segment A: what? A: 1 B: 2", ("1", "2")),
    ],
)  # fmt: skip
def test_options_are_parsed_out_of_the_text(tmp_path, mc_question, options):
    path = write(tmp_path / "q.jsonl", lines(record(mc_question=mc_question)))
    assert tuple(o.text for o in BENCHMARK.questions(path)[0].options) == options


def test_json_lines_are_read(tmp_path):
    path = write(tmp_path / "test_qa.jsonl", lines(record(), record("b")))
    assert BENCHMARK.recognises(path)
    assert BENCHMARK.questions(path).frame["id"].tolist() == ["bench_00001", "b"]


HEADERS = {
    "v1, spaced": "Question ID,Image ID,spacing,shape,sex,age,scanner,contrast,question,answer,"
    "multiple-choice question,correct option,organ,lesion,question type,question subtype,split",
    "v1, underscored": "question_id,image_id,spacing,shape,sex,age,scanner,contrast,question,"
    "answer,multiple_choice_question,correct_option,organ,lesion,question_type,question_subtype,"
    "split",
    "upper case": "QUESTION-ID,IMAGE-ID,SPACING,SHAPE,SEX,AGE,SCANNER,CONTRAST,QUESTION,ANSWER,"
    "MULTIPLE-CHOICE-QUESTION,CORRECT-OPTION,ORGAN,LESION,QUESTION-TYPE,QUESTION-SUBTYPE,SPLIT",
}
ROW = (
    '7,BDMAP_00000009,[0.8 0.8 2.5 ],"(512, 512, 339)",Female,61.0,siemens,Venous,How many?,3,'
    "How many? A: 3 B: 4,A,liver,tumor,visual_reasoning,lesion_counting,train\n"
)


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_tables_are_read_under_any_spelling_of_their_header(tmp_path, header):
    path = write(tmp_path / "train_qa.csv", header + "\n" + ROW)
    assert BENCHMARK.recognises(path)
    question = BENCHMARK.questions(path)[0]
    assert (question.id, question.case_id) == ("7", "BDMAP_00000009")
    assert (question.stage, question.subtype) == ("visual reasoning", "lesion counting")
    assert question.lesion == "tumor"
    assert question.reference.letter == "A"
    assert dict(question.patient) == {
        "sex": "Female", "age": "61", "contrast": "Venous", "scanner": "siemens",
    }  # fmt: skip


@pytest.mark.parametrize(("lesion", "text"), [(False, ""), (True, ""), ("cyst", "cyst")])
def test_lesion_is_a_flag_or_a_name(tmp_path, lesion, text):
    path = write(tmp_path / "q.jsonl", lines(record(lesion=lesion)))
    assert BENCHMARK.questions(path)[0].lesion == text


def test_missing_keys_are_named(tmp_path):
    lacking = record()
    del lacking["answer"], lacking["question_subtype"], lacking["image_id"]
    path = write(tmp_path / "q.json", {"questions": [record(), lacking]})
    question = BENCHMARK.questions(path)[1]
    assert set(question.missing_keys) == {"answer", "question_subtype", "image_id"}


def test_null_and_nan_are_missing_not_text(tmp_path):
    path = write(tmp_path / "q.json", {"questions": [record(sex=None, age=math.nan, answer=None)]})
    question = BENCHMARK.questions(path)[0]
    assert dict(question.patient) == {}
    assert question.reference.text == ""
    assert question.missing_keys == ("answer",)


def test_numbers_where_texts_are_expected_are_read(tmp_path):
    path = write(
        tmp_path / "q.json",
        {"questions": [record(qid=17, answer=12.5, organ=3, question_subtype="lesion counting")]},
    )
    question = BENCHMARK.questions(path)[0]
    assert (question.id, question.reference.text, question.organ) == ("17", "12.5", "3")


def test_one_bad_record_does_not_stop_the_rest(tmp_path):
    path = write(
        tmp_path / "q.json", {"questions": [record(), "no object", {"qid": "x"}, record("last")]}
    )
    questions = BENCHMARK.questions(path)
    assert questions.frame["id"].tolist() == ["bench_00001", "last"]
    assert len(questions.problems) == 2
    assert "question 2 of the list is no object" in questions.problems[0]
    assert "lacks the key question" in questions.problems[1]


def test_a_broken_line_is_named_and_the_rest_is_read(tmp_path):
    path = write(tmp_path / "q.jsonl", lines(record()) + '{"qid": broken}\n' + lines(record("c")))
    questions = BENCHMARK.questions(path)
    assert len(questions) == 2
    assert "line 2" in questions.problems[0]
    assert str(path) in questions.problems[0]


def test_a_broken_document_is_an_error_naming_file_line_and_what_to_do(tmp_path):
    text = json.dumps({"questions": [record(), record("b")]}, indent=1)
    broken = text.replace('"organ": "spleen"', '"organ": spleen', 1)
    line = broken[: broken.index(": spleen")].count("\n") + 1
    path = write(tmp_path / "benchmark" / "test_qa.json", broken)
    with pytest.raises(InputFileError) as caught:
        BENCHMARK.questions(path)
    assert f"line {line}" in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_repeated_ids_are_kept_and_named(tmp_path):
    path = write(tmp_path / "q.jsonl", lines(record(answer="first"), record(answer="second")))
    questions = BENCHMARK.questions(path)
    assert len(questions) == 2
    assert questions.by_id("bench_00001").reference.text == "first"
    assert "bench_00001" in questions.notes["duplicate_ids"]
    assert questions[1].id == questions.frame["id"][1] == "bench_00001 (2)"
    assert questions[1].reference.text == "second"


def test_an_unknown_subtype_takes_its_type_from_the_reference(tmp_path):
    rows = [record(question_subtype="new thing", answer=a) for a in ("Yes", "12.5", "left kidney")]
    path = write(tmp_path / "q.json", {"questions": rows})
    kinds = [q.answer_type for q in BENCHMARK.questions(path)]
    assert kinds == [AnswerType.BINARY, AnswerType.NUMERIC, AnswerType.CATEGORICAL]


def test_a_folder_with_two_splits_asks_which(tmp_path):
    for name in ("train_qa.csv", "val_qa_pool.csv"):
        write(tmp_path / "train" / name, HEADERS["v1, spaced"] + "\n" + ROW)
    with pytest.raises(AmbiguousError, match="val_qa_pool"):
        BENCHMARK.questions(tmp_path)


def test_a_file_without_questions_says_what_was_expected(tmp_path):
    with pytest.raises(InputFileError, match="questions"):
        BENCHMARK.questions(write(tmp_path / "x.json", {"other": 1}))


# ------------------------------------------------------------------------------------- results


def result(qid="bench_00001", said="A", **values):
    return {
        "qid": qid, "image_id": CASE, "question_subtype": "splenomegaly grading",
        "question_type": "medical reasoning", "raw_output": said, "pred_answer": said,
        "correct_option": "A", "answer": "Normal", **values,
    }  # fmt: skip


TRAJECTORY = [
    {"step": 0, "tool": "segment_organ", "arguments": {"image_id": CASE, "target": "spleen"},
     "result": {"mask_found": True}},
    {"step": 0, "tool": "measure", "arguments": {"target": "spleen"}, "result": {"error": "no"}},
    {"step": 1, "tool": "crop_organ", "arguments": {"organ": "spleen"},
     "result": {"image_base64": "iVBORw0KGgo" * 4000, "image_path": "x.png"}},
    {"step": 2, "final_answer": "A"},
    {"step": 3, "error": "Timeout"},
]  # fmt: skip


def test_a_result_file_becomes_a_run_with_traces(folder, tmp_path):
    path = write(
        tmp_path / "results" / "agent.json",
        {"metrics": {"overall": {"accuracy": 1}}, "n_processed": 1,
         "results": [result(trajectory=TRAJECTORY)]},
    )  # fmt: skip
    assert BENCHMARK.recognises_results(path)
    assert not BENCHMARK.recognises(path)
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    turns = run.predictions["bench_00001"].trace.turns
    assert run.model == "agent"
    assert run.answer_format is None
    assert [turn.step for turn in turns] == [0, 0, 1, 2, 3]
    assert turns[0].call.arguments["image_id"] == CASE
    assert turns[1].result.error == "no"
    assert turns[3].final_answer == "A"
    assert turns[4].error == "Timeout"
    assert run.recorded_metrics["overall"]["accuracy"] == 1


def test_embedded_pictures_are_left_out_of_memory(folder, tmp_path):
    path = write(
        tmp_path / "r.json", {"n_processed": 1, "results": [result(trajectory=TRAJECTORY)]}
    )
    prediction = BENCHMARK.results(path, BENCHMARK.questions(folder)).predictions["bench_00001"]
    crop = prediction.trace.turns[2].result.content
    assert crop["image_base64"] == "[base64, 44000 characters, left out]"
    assert crop["image_path"] == "x.png"
    assert "iVBOR" not in json.dumps(prediction.record["trajectory"])


def test_partial_files_and_unknown_ids_are_said(folder, tmp_path):
    path = write(
        tmp_path / "r.json", {"n_processed": 3, "results": [result(), result("gone"), result("")]}
    )
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    told = " ".join(run.notes)
    assert "no metrics" in told
    assert "gone" in told
    assert "1 rows have no qid" in told


def test_failures_are_marked(folder, tmp_path):
    path = write(tmp_path / "r.json", {"results": [result(said="[ERROR] no mask for spleen")]})
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert run.predictions["bench_00001"].failed


def test_result_lines_of_a_run_under_way_are_read(folder, tmp_path):
    path = write(tmp_path / "a.partial.jsonl", lines(result(), result("bench_00002", "B")))
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert run.model == "a"
    assert list(run.predictions) == ["bench_00001", "bench_00002"]


@pytest.mark.parametrize(
    "entries",
    [None, "text", {"step": 0}, [None, 3, "x"], [{"tool": 5, "arguments": "x", "result": None}],
     [{"step": "two", "final_answer": 5}], [{"step": math.inf, "tool": "t"}], [{}]],
)  # fmt: skip
def test_malformed_trajectories_are_shown_not_fatal(folder, tmp_path, entries):
    path = write(tmp_path / "r.json", {"results": [result(trajectory=entries)]})
    trace = BENCHMARK.results(path, BENCHMARK.questions(folder)).predictions["bench_00001"].trace
    assert all(turn.call or turn.final_answer or turn.error for turn in trace.turns)


def test_metrics_drop_unknown_rows_count_repeats_and_list_disagreements(folder, tmp_path):
    rows = [result(said="Answer: A"), result("bench_00002", "Answer: D"), result("gone"),
            result("bench_00002", "A")]  # fmt: skip
    questions = BENCHMARK.questions(folder)
    run = BENCHMARK.results(write(tmp_path / "r.json", {"results": rows}), questions)
    metrics = BENCHMARK.metrics(questions, run, AnswerFormat.MC)
    assert metrics["overall"] == {"accuracy": 1.0, "n_total": 3, "n_subtypes": 1}
    assert metrics["reading_disagrees"] == ["bench_00002"]


def test_super_type_is_that_of_the_first_benchmark_question_of_a_subtype(tmp_path):
    first = record("a", question_type="measurement")
    path = write(tmp_path / "q.json", {"questions": [first, record("b")]})
    questions = BENCHMARK.questions(path)
    run = BENCHMARK.results(write(tmp_path / "r.json", {"results": [result("b")]}), questions)
    assert list(BENCHMARK.metrics(questions, run, AnswerFormat.MC)["by_super_type"]) == [
        "measurement"
    ]


def test_a_result_file_without_results_says_so(folder, tmp_path):
    with pytest.raises(InputFileError, match="results"):
        BENCHMARK.results(write(tmp_path / "r.json", {"metrics": {}}), BENCHMARK.questions(folder))


def test_results_beside_the_benchmark_are_found(folder):
    path = write(folder / "results" / "m.json", {"results": [result()]})
    write(folder / "results" / "other.json", {"hello": 1})
    assert list(BENCHMARK.found_results(folder)) == [path]


# ------------------------------------------------------------------------------- conversations


def conversation(**values):
    return {
        "conversations": [
            {"from": "human", "value": "<image>\nHow large is the spleen? A: Normal B: Severe"},
            {"from": "function_call", "value": '<think>look</think>\n{"name": "segment_organ", '
             '"arguments": {"image_id": "BDMAP_00000001", "target": "spleen"}}'},
            {"from": "observation", "value": '{"mask_found": true}'},
            {"from": "gpt", "value": "<think>fine</think>\n[FINAL] A"},
        ],
        "tools": "[]", **values,
    }  # fmt: skip


def test_agent_conversations_open_as_questions_with_their_own_trace(tmp_path):
    path = write(tmp_path / "train.jsonl", lines(conversation(), conversation()))
    assert BENCHMARK.recognises(path)
    questions = BENCHMARK.questions(path)
    run = BENCHMARK.results(BENCHMARK.found_results(path)[0], questions)
    question = questions[1]
    assert (question.id, question.case_id) == ("train::1", CASE)
    assert (question.reference.text, question.reference.letter) == ("A", "A")
    turns = run.predictions["train::1"].trace.turns
    assert turns[0].call.name == "segment_organ"
    assert turns[0].result.content == {"mask_found": True}
    assert turns[1].final_answer == "<think>fine</think>\n[FINAL] A"


def test_conversations_find_the_question_they_are_about(folder, tmp_path):
    write(folder / "benchmark" / "test_qa.json", {"questions": [record()]})
    path = write(tmp_path / "sft.jsonl", lines(conversation()) * 2)
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert list(run.predictions) == ["bench_00001"]


@pytest.mark.parametrize(
    "call",
    ["no json at all", '{"name": 5}', "[1, 2]", "{" * 3000, '{"name": "x", "arguments": "{"}', ""],
)
def test_calls_that_cannot_be_read_keep_their_words(tmp_path, call):
    broken = conversation()
    broken["conversations"][1]["value"] = call
    path = write(tmp_path / "t.jsonl", lines(broken))
    run = BENCHMARK.results(path, BENCHMARK.questions(path))
    turns = run.predictions["t::0"].trace.turns
    assert turns[0].call is not None
    assert turns[0].result.content == {"mask_found": True}


def test_conversations_of_odd_shape_are_named(tmp_path):
    path = write(tmp_path / "t.jsonl", lines(conversation(), {"conversations": "x", "tools": ""}))
    questions = BENCHMARK.questions(path)
    assert len(questions) == 1
    assert "line 2 lacks the key conversations" in questions.problems[0]


# --------------------------------------------------------------------------------------- cases


def test_ct_from_the_benchmark_and_masks_from_a_root(folder, tmp_path):
    ct = write(folder / "benchmark" / "ct" / CASE / "ct.nii.gz", "")
    mask = write(tmp_path / "atlas" / "mask_only" / CASE / "segmentations" / "liver.nii.gz", "")
    files = BENCHMARK.case_files(CASE, folder, [tmp_path / "atlas"])
    assert files.ct == ct
    assert [m.path for m in files.masks] == [mask]
    from_file = BENCHMARK.case_files(CASE, folder / "benchmark" / "test_qa.json", [])
    assert from_file.ct == ct


@pytest.mark.parametrize("case", ["BDMAP_404", "../../etc/passwd", "/etc/passwd", "", "a\x00b"])
def test_a_case_that_is_not_there_is_said(folder, case):
    with pytest.raises(NotFoundError):
        BENCHMARK.case_files(case, folder, [])


def test_scores_leave_questions_without_a_prediction_out(folder, tmp_path):
    questions = BENCHMARK.questions(folder)
    run = BENCHMARK.results(write(tmp_path / "r.json", {"results": [result()]}), questions)
    scores = BENCHMARK.scores(questions, run, AnswerFormat.MC)
    assert {key: s.official for key, s in scores.items()} == {"bench_00001": Outcome.RIGHT}
