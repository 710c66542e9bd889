"""People's own tables: columns under any usual name, cases by id or path, plain scoring."""

import json

import pytest

from napari_ctvqa.benchmarks._table import plain_outcome
from napari_ctvqa.benchmarks.plain_table import BENCHMARK
from napari_ctvqa.core.errors import AmbiguousError, InputFileError, NotFoundError
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Option, Outcome

MC, FREEFORM = AnswerFormat.MC, AnswerFormat.FREEFORM
TABLE = (
    "id,case,question,answer,A,B,C,correct,stage,subtype,sex,age\n"
    "1,case_a,Which organ?,,liver,spleen,,B,see,organ,F,61.0\n"
    "2,case_b,How many?,3,,,,,measure,count,,\n"
    "3,case_b,Is it there?,Yes,,,,,see,existence,,\n"
    "4,case_b,What is it?,a cyst,,,,,think,kind,,\n"
)


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "mine" / "questions.csv", TABLE)


def test_a_table_and_its_folder_are_recognised(table):
    assert BENCHMARK.recognises(table)
    assert BENCHMARK.recognises(table.parent)


def test_columns_become_a_question(table):
    questions = BENCHMARK.questions(table)
    first = questions[0]
    assert (first.id, first.case_id, first.text) == ("1", "case_a", "Which organ?")
    assert first.options == (Option("A", "liver"), Option("B", "spleen"))
    assert (first.reference.letter, first.reference.text) == ("B", "spleen")
    assert (first.stage, first.subtype) == ("see", "organ")
    assert dict(first.patient) == {"sex": "F", "age": "61"}
    assert [q.answer_type for q in questions] == [
        AnswerType.CATEGORICAL, AnswerType.NUMERIC, AnswerType.BINARY, AnswerType.OPEN,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace("\n", "\r\n"),
        TABLE.replace(",", ";"),
        TABLE.replace(",", "\t"),
        "\n" + TABLE.replace("\n", "\n\n"),
    ],
    ids=["plain", "CRLF", "semicolons", "tabs", "blank lines"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables_from_any_program_open(tmp_path, text, encoding):
    path = write(tmp_path / "q.csv", text.lstrip("\n"), encoding)
    assert BENCHMARK.recognises(path)
    assert BENCHMARK.questions(path).frame["id"].tolist() == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "case_id": "c", "question": "Q?", "reference": "spleen",
         "options": ["liver", "spleen"]},
        {"qid": 1, "image": "c", "prompt": "Q?", "gt": "B",
         "choices": {"A": "liver", "B": "spleen"}},
        {"id": 1, "case": "c", "text": "Q?", "answer": "b", "options": "A: liver B: spleen"},
        {"id": 1, "case": "c", "question": "Q?", "answer": "spleen", "options": "liver|spleen"},
        {"id": 1, "case": "c", "question": "Q?", "correct": "(B)", "Option A": "liver",
         "Choice B": "spleen"},
        {"id": 1, "case": "c", "question": "Q? A: liver B: spleen", "answer": "B"},
        {"id": 1, "case": "c", "question": "Q?", "answer": "", "options": '["liver", "spleen"]',
         "correct": "spleen"},
    ],
)  # fmt: skip
def test_usual_names_and_forms_of_options_are_understood(tmp_path, record):
    path = write(tmp_path / "q.jsonl", json.dumps(record) + "\n")
    assert BENCHMARK.recognises(path)
    question = BENCHMARK.questions(path)[0]
    assert (question.id, question.case_id, question.text) == ("1", "c", "Q?")
    assert [o.text for o in question.options] == ["liver", "spleen"]
    assert (question.reference.letter, question.reference.text) == ("B", "spleen")


def test_a_json_list_opens_too(tmp_path):
    rows = [{"id": "a", "case": "c", "question": "Q?", "answer": "x"}]
    path = write(tmp_path / "q.json", json.dumps(rows))
    assert BENCHMARK.questions(path)[0].id == "a"


def test_bad_rows_are_named_by_their_line(tmp_path):
    text = 'id,case,question,answer\n1,c,Q,a\n2,c,Q,a,b,c\n3,c,"Q"x,a\n4,c,,a\n5,c,"Q\nR",a\n'
    questions = BENCHMARK.questions(write(tmp_path / "q.csv", text))
    assert questions.frame["id"].tolist() == ["1", "5"]
    assert ["line 3" in p or "line 4" in p or "line 5" in p for p in questions.problems] == [
        True
    ] * 3


def test_an_unclosed_quote_costs_its_line_only(tmp_path):
    text = 'id,case,question,answer\n1,c,"Q,a\n2,c,Q,a\n3,c,Q,a\n'
    questions = BENCHMARK.questions(write(tmp_path / "q.csv", text))
    assert questions.frame["id"].tolist() == ["2", "3"]
    assert "line 2" in questions.problems[0]


def test_missing_ids_are_made_and_named(tmp_path):
    path = write(tmp_path / "q.csv", "case,question,answer\nc,Q,a\n")
    question = BENCHMARK.questions(path)[0]
    assert question.id == "q::0"
    assert question.missing_keys == ("id",)


def test_a_table_without_questions_says_what_it_has(tmp_path):
    path = write(tmp_path / "q.csv", "name,value\nx,1\n")
    assert not BENCHMARK.recognises(path)
    with pytest.raises(InputFileError, match="it has name, value"):
        BENCHMARK.questions(path)


def test_two_tables_in_a_folder_are_ambiguous(table):
    write(table.parent / "more.csv", TABLE)
    with pytest.raises(AmbiguousError, match=r"more\.csv, questions\.csv"):
        BENCHMARK.questions(table.parent)


# --------------------------------------------------------------------------------------- cases


def test_a_case_is_an_id_or_a_path_beside_the_table(table):
    ct = write(table.parent / "scans" / "one.nii.gz", "")
    other = write(table.parent / "case_a" / "ct.nii.gz", "")
    assert BENCHMARK.case_files("scans/one.nii.gz", table, []).ct == ct
    assert BENCHMARK.case_files("case_a", table, []).ct == other


def test_a_case_in_a_root_is_found(table, tmp_path):
    ct = write(tmp_path / "root" / "case_a" / "ct.nii.gz", "")
    assert BENCHMARK.case_files("case_a", table, [tmp_path / "root"]).ct == ct
    assert BENCHMARK.case_files(str(ct), table, [tmp_path / "root"]).ct == ct


@pytest.mark.parametrize("form", ["../outside/ct.nii.gz", "absolute", "scans/../../outside"])
def test_a_path_never_leaves_the_table_folder_and_the_roots(table, form):
    outside = write(table.parent.parent / "outside" / "ct.nii.gz", "")
    case = str(outside) if form == "absolute" else form
    with pytest.raises(NotFoundError):
        BENCHMARK.case_files(case, table, [])


# ------------------------------------------------------------------------------------- scoring


def results(table, text):
    path = write(table.parent / "results" / "model.csv", text)
    questions = BENCHMARK.questions(table)
    assert list(BENCHMARK.found_results(table)) == [path]
    return questions, BENCHMARK.results(path, questions)


def test_predictions_come_as_a_table(table):
    questions, run = results(table, "id,prediction\n1,B\n2,three\n9,x\n")
    assert run.model == "model"
    assert {k: p.raw_text for k, p in run.predictions.items()} == {"1": "B", "2": "three", "9": "x"}
    assert "9" in run.notes[0]
    assert list(BENCHMARK.scores(questions, run, MC)) == ["1", "2"]


def test_predictions_come_as_a_result_file(table):
    data = {"n_processed": 1, "results": [{"qid": "1", "raw_output": "B", "pred_answer": "B"}]}
    path = write(table.parent / "r.json", json.dumps(data))
    assert BENCHMARK.recognises_results(path)
    run = BENCHMARK.results(path, BENCHMARK.questions(table))
    assert run.predictions["1"].raw_text == "B"


def test_metrics_compare_plainly_and_list_where_a_reader_differs(table):
    questions, run = results(
        table, 'id,prediction\n1,Answer: B\n2,3\n3,"Yes, clearly"\n4,A CYST.\n'
    )
    metrics = BENCHMARK.metrics(questions, run, MC)
    assert metrics["overall"] == {
        "accuracy": 0.5, "accuracy_as_read": 1.0, "n_total": 4, "n_unread": 2,
    }  # fmt: skip
    assert metrics["by_stage"]["measure"]["accuracy"] == 1.0
    assert metrics["by_subtype"]["existence"]["accuracy"] == 0.0
    assert metrics["reading_disagrees"] == ["1", "3"]


@pytest.mark.parametrize(
    ("row", "text", "outcome"),
    [
        (0, "B", Outcome.RIGHT),
        (0, " b. ", Outcome.RIGHT),
        (0, "Spleen", Outcome.RIGHT),
        (0, "A", Outcome.WRONG),
        (0, "It is B", Outcome.UNREAD),
        (1, "3.0", Outcome.RIGHT),
        (1, "4", Outcome.WRONG),
        (1, "three", Outcome.UNREAD),
        (2, "yes", Outcome.RIGHT),
        (2, "no", Outcome.WRONG),
        (3, "A cyst.", Outcome.RIGHT),
        (3, "a tumour", Outcome.WRONG),
        (3, "", Outcome.UNREAD),
        (3, "[ERROR] no answer", Outcome.UNREAD),
    ],
)
def test_plain_comparison(table, row, text, outcome):
    question = BENCHMARK.questions(table)[row]
    assert plain_outcome(question, text, choice=row == 0)[0] is outcome


def test_a_question_without_options_is_scored_by_its_answer_also_in_mc(table):
    questions, run = results(table, "id,prediction\n2,3\n")
    assert BENCHMARK.scores(questions, run, MC)["2"].official is Outcome.RIGHT


def test_a_question_without_reference_is_not_scored(tmp_path):
    path = write(tmp_path / "q.csv", "id,case,question,answer\n1,c,Q,\n")
    questions = BENCHMARK.questions(path)
    assert plain_outcome(questions[0], "x", choice=False)[0] is Outcome.UNSCORED
    assert questions[0].missing_keys == ("answer",)
